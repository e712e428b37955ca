"""Strassen attention: a softmax over pairs of tokens, hence over triples with the query.

arXiv:2501.19215, with f_i, g_j, h_k linear in the tokens and all of width D:

    a_i = Σ_jk softmax_jk( (f_i·g_j + g_j·h_k + h_k·f_i) / √D ) (v¹_j ⊙ v²_k)

The scores are sums of three matrices, so with X = e^{f·g}, Y = e^{g·h}, Z = e^{h·f} numerator and
denominator are (X Ŷ Z)_ii and (X Y Z)_ii (theorem 4.1): products of n × n matrices, and no array
of n³ numbers. This file holds the function and that product form; ``strassen_stable.py`` holds
the evaluation that keeps its speed without its underflow.
"""

import enum
from collections.abc import Callable

import jax
import jax.numpy as jnp

from neurips25.attention.strassen_stable import (
    divide,
    product_denominators,
    product_factors,
    product_numerators,
    stable_triples,
    streamed_triples,
)
from neurips25.attention.triple_scores import SplitScores, mask_scores, plain_scores
from neurips25.nn.enums import parse_enum

Matmul = Callable[[jax.Array, jax.Array], jax.Array]


class StrassenMethod(enum.StrEnum):
    """How :func:`strassen_attention` is evaluated; all give the same numbers where all are exact.

    STABLE: products where their denominators prove them exact, else a few queries at a time from
      all triples, with scores of about twice the precision. Time O(n³ D); work space per head a
      few n² numbers on CPU, elsewhere up to 2²⁶ for all heads. Its gradient is written by hand, so
      it has no forward mode; and under ``vmap`` both ways are computed: give it a batch instead.
    MATMUL: products only (theorem 4.1). Gives 0 where the three separate maxima are too far from
      a joint one; :func:`strassen_denominators` tells where.
    LOGSUMEXP: one query at a time, exact up to the rounding of the scores. O(n³ D), memory O(n²).
    NAIVE: all triples at once, for tests. Memory O(n³).
    """

    STABLE = "stable"
    MATMUL = "matmul"
    LOGSUMEXP = "logsumexp"
    NAIVE = "naive"


def strassen_attention(
    f: jax.Array,
    g: jax.Array,
    h: jax.Array,
    v1: jax.Array,
    v2: jax.Array,
    mask: jax.Array | None = None,
    *,
    method: StrassenMethod | str = StrassenMethod.STABLE,
    eps: float = 1e-9,
    matmul: Matmul | None = None,
    causal: bool = False,
) -> jax.Array:
    """Σ_jk softmax_jk((f_i·g_j + g_j·h_k + h_k·f_i) / √D) (v1_j ⊙ v2_k) for each query and head.

    Args:
      f: [B, Q, H, D], one row per query; Q = n in self-attention, or any subset of its rows.
      g, h: [B, n, H, D].
      v1, v2: [B, n, H, E].
      mask: bool [B, n], True where a token is real; j and k range over these. None: all are. A
        batch element without any gives zeros.
      method: see :class:`StrassenMethod`.
      eps: added to the denominators of ``"matmul"``, which are at most n²; 1e-9 as in the
        published code. The other methods need none.
      matmul: ``(a [..., q, n], b [..., n, m]) -> [..., q, m]`` for the products of ``"matmul"``,
        such as :func:`neurips25.attention.strassen_matmul`. None is ``jnp.matmul``.
      causal: j and k range over the query's own position and those before it; needs Q = n.

    Returns:
      [B, Q, H, E] of the promoted dtype of the arguments, computed in float32 at least.

    Raises:
      ValueError: shapes that do not fit each other, an unknown method, ``matmul`` with another
        method than ``"matmul"``, or ``causal`` with Q ≠ n.

    Source: arXiv:2501.19215, sec. 4 and theorem 4.1.

    >>> x = jax.random.normal(jax.random.key(0), (1, 5, 2, 4))
    >>> strassen_attention(x, x, x, x, x).shape
    (1, 5, 2, 4)
    """
    method = parse_enum(StrassenMethod, method, "method")
    _check(f, g, h, v1, v2, mask)
    if matmul is not None and method is not StrassenMethod.MATMUL:
        raise ValueError(f"matmul= goes with method='matmul', has method={method.value!r}")
    if causal and f.shape[1] != g.shape[1]:
        raise ValueError(f"causal=True needs f with the {g.shape[1]} rows of g, has {f.shape}")
    batch, queries, heads, _ = f.shape
    dtype = jnp.result_type(f, g, h, v1, v2)
    compute = jnp.promote_types(dtype, jnp.float32)
    f, g, h, v1, v2 = (_per_head(a.astype(compute)) for a in (f, g, h, v1, v2))
    valid = _valid(mask, batch, heads, g.shape[1])
    if mask is not None:  # what stands at padding may be anything
        g, h, v1, v2 = (jnp.where(valid[..., None], a, 0.0) for a in (g, h, v1, v2))
    if method is StrassenMethod.STABLE:
        out = stable_triples(f, g, h, v1, v2, valid, causal)
    else:
        scores = SplitScores(mask_scores(plain_scores(f, g, h), valid, causal), None)
        if method is StrassenMethod.MATMUL:
            factors = product_factors(scores)
            den = product_denominators(factors, matmul)
            out = divide(product_numerators(factors, v1, v2, matmul), den, eps)
        else:
            chunk = 1 if method is StrassenMethod.LOGSUMEXP else queries
            out, _, _ = streamed_triples(scores, v1, v2, chunk)
    out = out.reshape(batch, heads, queries, v1.shape[-1])
    return jnp.swapaxes(out, 1, 2).astype(dtype)


def strassen_denominators(
    f: jax.Array,
    g: jax.Array,
    h: jax.Array,
    mask: jax.Array | None = None,
    *,
    causal: bool = False,
) -> jax.Array:
    """Denominators (X Y Z)_ii of the product form after its three shifts.

    A value far below 1 tells that no pair (j, k) comes near all three maxima; 0 that the product
    form has lost the query altogether, and ``method="matmul"`` returns 0 for it.

    Args:
      f: [B, Q, H, D].
      g, h: [B, n, H, D].
      mask: bool [B, n], True where a token is real; None: all are.
      causal: as for :func:`strassen_attention`.

    Returns:
      [B, Q, H], between 0 and n², from scores in the precision of the arguments.

    Raises:
      ValueError: shapes that do not fit each other.

    Source: arXiv:2501.19215, theorem 4.1.
    """
    _check(f, g, h, g, g, mask)
    batch, queries, heads, _ = f.shape
    compute = jnp.promote_types(jnp.result_type(f, g, h), jnp.float32)
    f, g, h = (_per_head(a.astype(compute)) for a in (f, g, h))
    valid = _valid(mask, batch, heads, g.shape[1])
    scores = SplitScores(mask_scores(plain_scores(f, g, h), valid, causal), None)
    den = product_denominators(product_factors(scores))
    return jnp.swapaxes(den.reshape(batch, heads, queries), 1, 2)


def _per_head(a: jax.Array) -> jax.Array:
    """[B, n, H, D] -> [B·H, n, D]."""
    return jnp.swapaxes(a, 1, 2).reshape(-1, a.shape[1], a.shape[3])


def _valid(mask: jax.Array | None, batch: int, heads: int, length: int) -> jax.Array:
    if mask is None:
        return jnp.ones((batch * heads, length), bool)
    return jnp.repeat(mask, heads, axis=0)


def _check(
    f: jax.Array,
    g: jax.Array,
    h: jax.Array,
    v1: jax.Array,
    v2: jax.Array,
    mask: jax.Array | None,
) -> None:
    if f.ndim != 4:
        raise ValueError(f"f has shape {f.shape}, needs [B, Q, H, D]")
    batch, _, heads, dim = f.shape
    if g.ndim != 4 or (g.shape[0], *g.shape[2:]) != (batch, heads, dim):
        raise ValueError(f"g has shape {g.shape}, needs [{batch}, n, {heads}, {dim}] to go with f")
    if h.shape != g.shape:
        raise ValueError(f"h has shape {h.shape}, needs {g.shape} as g")
    if v1.ndim != 4 or v1.shape[:3] != g.shape[:3]:
        raise ValueError(f"v1 has shape {v1.shape}, needs {(*g.shape[:3], 'E')}")
    if v2.shape != v1.shape:
        raise ValueError(f"v2 has shape {v2.shape}, needs {v1.shape} as v1")
    if g.shape[1] < 1:
        raise ValueError(f"g has shape {g.shape}, needs at least one token")
    if mask is not None and (mask.shape != g.shape[:2] or mask.dtype != jnp.bool_):
        raise ValueError(
            f"mask has shape {mask.shape} and dtype {mask.dtype}, needs {g.shape[:2]} and bool"
        )
