"""One attention layer given by explicit weights, and its exact evaluation.

arXiv:2501.19215, definition 2.1: a layer is its heads, W_O and an output network N,

    y_i = N(x_i + Σ_heads W_O a_i),

here with weights written down instead of learned, as in the paper's proofs (``constructions.py``).
Such weights reach scores of 1e10, so everything is float64 unless asked otherwise.
"""

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

from neurips25.attention.strassen import StrassenMethod, strassen_attention
from neurips25.attention.triangular import triangular_attention


@dataclasses.dataclass(frozen=True, eq=False)
class StrassenConstruction:
    """One layer of Strassen attention as explicit float64 weights, y = x Wᵀ.

    The answer is ``readout_fn(x, a)`` with a = Σ_heads W_O (attention of the head), both at the
    decisive tokens only: the output network of the theory, applied to x + a. With two heads every
    matrix has a leading axis over them.
    """

    features_fn: Callable[..., np.ndarray]
    """Raw objects, with any leading batch axes -> features [..., n, d]."""
    W_f: np.ndarray
    """[r, d] or [2, r, d]; scores are divided by √r."""
    W_g: np.ndarray
    """[r, d] or [2, r, d]."""
    W_h: np.ndarray
    """[r, d] or [2, r, d]."""
    V_1: np.ndarray
    """[d, d] or [2, d, d]."""
    V_2: np.ndarray
    """[d, d] or [2, d, d]."""
    W_O: np.ndarray
    """[d, d] or [2, d, d]: where each head's output is added."""
    readout_fn: Callable[[np.ndarray, np.ndarray], np.ndarray]
    """Features and attention [..., q, d] at the decisive tokens -> y [..., q]."""
    min_gap: float
    """The best pair's score is ahead of all others by at least this, at every decisive token."""
    queries: slice = dataclasses.field(default_factory=lambda: slice(None))
    """The decisive tokens."""


@dataclasses.dataclass(frozen=True, eq=False)
class TriangularConstruction:
    """One head of triangular attention as explicit float64 weights, y = x Wᵀ."""

    features_fn: Callable[..., np.ndarray]
    """Raw objects, with any leading batch axes -> features [..., m, m, d]."""
    W_q: np.ndarray
    """[1, d]."""
    W_k: np.ndarray
    """[1, d]."""
    V_1: np.ndarray
    """[1, d]."""
    V_2: np.ndarray
    """[1, d]."""
    readout_fn: Callable[[np.ndarray, np.ndarray], np.ndarray]
    """Features [..., m, m, d] and attention [..., m, m, 1] -> y [..., m, m]."""


def evaluate(
    construction: StrassenConstruction | TriangularConstruction,
    features: np.ndarray,
    method: StrassenMethod | str = StrassenMethod.STABLE,
    dtype: DTypeLike = np.float64,
) -> np.ndarray:
    """The layer's answer: the read-out of the attention over the explicit weights.

    Args:
      construction: what one of the functions above returns.
      features: what its ``features_fn`` returns.
      method: how Strassen attention is evaluated; triangular attention has one way only.
      dtype: of the attention. float64 is computed as such whether or not jax has it enabled.

    Returns:
      y [..., q] (Strassen) or [..., m, m] (triangular), float64.

    Raises:
      ValueError: features of another shape.
    """
    if isinstance(construction, TriangularConstruction):
        return construction.readout_fn(features, attend(construction, features, dtype=dtype))
    heads = attend(construction, features, method, dtype)
    total = np.einsum("hod,...hd->...o", _per_head(construction.W_O), heads)
    return construction.readout_fn(features[..., construction.queries, :], total)


def attend(
    construction: StrassenConstruction | TriangularConstruction,
    features: np.ndarray,
    method: StrassenMethod | str = StrassenMethod.STABLE,
    dtype: DTypeLike = np.float64,
) -> np.ndarray:
    """The output of each head of the layer, before W_O.

    Args:
      construction: what one of the functions above returns.
      features: what its ``features_fn`` returns.
      method: how Strassen attention is evaluated.
      dtype: of the attention; queries, keys and values are rounded to it.

    Returns:
      [..., q, heads, d] (Strassen, at the decisive tokens) or [..., m, m, 1] (triangular), float64.

    Raises:
      ValueError: features of another shape.
    """
    if isinstance(construction, TriangularConstruction):
        return _attend_triangular(construction, features, dtype)
    inputs = strassen_inputs(construction, features)
    batch = features.shape[:-2]
    with jax.enable_x64(np.dtype(dtype) == np.float64):
        flat = (jnp.asarray(a.reshape(-1, *a.shape[-3:]), dtype) for a in inputs)
        out = np.asarray(_strassen(*flat, method=method), np.float64)
    return out.reshape(*batch, *out.shape[1:])


def strassen_inputs(
    construction: StrassenConstruction, features: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The first five arguments of ``strassen_attention``, in float64.

    Args:
      construction: the weights.
      features: [..., n, d].

    Returns:
      f [..., q, heads, r] at the decisive tokens, g and h [..., n, heads, r], v1 and v2
      [..., n, heads, d].

    Raises:
      ValueError: features of another shape.
    """
    width = construction.W_f.shape[-1]
    if features.ndim < 2 or features.shape[-1] != width:
        raise ValueError(f"features has shape {features.shape}, needs [..., n, {width}]")

    def project(w: np.ndarray, x: np.ndarray) -> np.ndarray:
        return np.einsum("hrd,...nd->...nhr", _per_head(w), x)

    return (
        project(construction.W_f, features[..., construction.queries, :]),
        project(construction.W_g, features),
        project(construction.W_h, features),
        project(construction.V_1, features),
        project(construction.V_2, features),
    )


def score_gaps(construction: StrassenConstruction, features: np.ndarray) -> np.ndarray:
    """How far the best pair's score is ahead of the second best, per decisive token.

    Args:
      construction: the weights.
      features: [n, d], one instance.

    Returns:
      [heads, q], computed in float64 with n² numbers at a time; infinite where n = 1.

    Raises:
      ValueError: features of another shape.

    >>> from neurips25.attention.constructions import function_composition
    >>> layer = function_composition(3)
    >>> score_gaps(layer, layer.features_fn([2, 3, 1], [3, 3, 2], 2)).round(6).tolist()
    [[9.0]]
    """
    if features.ndim != 2:
        raise ValueError(f"features has shape {features.shape}, needs [n, d]")
    f, g, h = (np.moveaxis(a, 1, 0) for a in strassen_inputs(construction, features)[:3])
    scale = np.sqrt(f.shape[-1])
    with_j, pairs, with_k = (a @ np.swapaxes(b, 1, 2) / scale for a, b in ((f, g), (g, h), (f, h)))
    gaps = np.empty(f.shape[:2])
    for head, query in np.ndindex(*gaps.shape):
        scores = with_j[head, query][:, None] + pairs[head] + with_k[head, query]
        second, best = np.partition(np.append(scores, -np.inf), -2)[-2:]
        gaps[head, query] = best - second
    return gaps


_strassen = jax.jit(strassen_attention, static_argnames="method")
_triangular = jax.jit(triangular_attention)


def _attend_triangular(
    construction: TriangularConstruction, features: np.ndarray, dtype: DTypeLike
) -> np.ndarray:
    if features.ndim < 3 or features.shape[-1] != construction.W_q.shape[-1]:
        raise ValueError(f"features has shape {features.shape}, needs [..., m, m, 3]")
    maps = (construction.W_q, construction.W_k, construction.V_1, construction.V_2)
    flat = features.reshape(-1, *features.shape[-3:])
    with jax.enable_x64(np.dtype(dtype) == np.float64):
        inputs = (jnp.asarray((flat @ w.T)[..., None, :], dtype) for w in maps)
        out = np.asarray(_triangular(*inputs), np.float64)
    return out.reshape(*features.shape[:-1], 1)


def _per_head(w: np.ndarray) -> np.ndarray:
    return w.reshape(-1, *w.shape[-2:])
