"""Self-attention layers that see pairs or triples of tokens, one call for all.

``layer(x[B, n, C], mask=None, queries=None) -> [B, Q, C]``: standard, triangular, third-order and
Strassen attention with one bias-free projection of the input (arXiv:2501.19215, sec. 2 and 5),
and no output projection unless asked for.
"""

import enum
import math
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen
from jax.typing import ArrayLike, DTypeLike

from neurips25.attention.softmax import softmax_attention
from neurips25.attention.strassen import StrassenMethod, strassen_attention
from neurips25.attention.third_order import third_order_attention
from neurips25.attention.triangular import triangular_attention
from neurips25.nn.enums import parse_enum
from neurips25.nn.initializers import uniform_init, xavier_uniform_bound


class TripleAttention(enum.StrEnum):
    """The four mechanisms."""

    STANDARD = "standard"
    TRIANGULAR = "triangular"
    THIRD_ORDER = "third_order"
    STRASSEN = "strassen"


def standard_attention(
    q: jax.Array, k: jax.Array, v: jax.Array, mask: jax.Array | None = None
) -> jax.Array:
    """Σ_j softmax_j(q_i·k_j / √D) v_j for each query and head.

    Args:
      q: [B, Q, H, D].
      k: [B, n, H, D].
      v: [B, n, H, E].
      mask: bool [B, n], True where a token is real; j ranges over these. None: all are.

    Returns:
      [B, Q, H, E].

    Raises:
      ValueError: shapes that do not fit each other.
    """
    if mask is None:
        return softmax_attention(q, k, v)
    if mask.shape != k.shape[:2]:
        raise ValueError(f"mask has shape {mask.shape}, needs {k.shape[:2]}")
    return softmax_attention(q, k, v, jnp.broadcast_to(mask[:, None], (*q.shape[:2], k.shape[1])))


def projections_from_torch(weight: ArrayLike, num_heads: int) -> np.ndarray:
    """The ``kernel`` of a layer from the weight of the published PyTorch module.

    Args:
      weight: [P·C, C] of one fused Linear (P = 3 for standard: q, k, v; 5 for third-order: q, k1,
        k2, v1, v2, and for Strassen: f, g, h, v1, v2), or [P, C, C] of separate ones. The
        triangular module has a fifth one that it never uses: leave it out or in.
      num_heads: H, consecutive blocks of features.

    Returns:
      float32 or float64 [C, P, H, C / H].

    Raises:
      ValueError: a shape that does not divide.
    """
    weight = np.asarray(weight)
    width = weight.shape[-1]
    if weight.size % width**2 or width % num_heads:
        raise ValueError(
            f"weight has shape {weight.shape}, needs [P * C, C] or [P, C, C] with C a multiple of "
            f"num_heads={num_heads}"
        )
    return weight.reshape(-1, num_heads, width // num_heads, width).transpose(3, 0, 1, 2)


class StandardSelfAttention(linen.Module):
    """:func:`standard_attention` of a sequence with itself.

    Attributes:
      num_heads: H; divides the width C of the input.
      out_proj: whether the heads go through a C × C map.
      dtype: of the computation.
    """

    num_heads: int
    out_proj: bool = False
    dtype: DTypeLike = jnp.float32

    @linen.compact
    def __call__(
        self, x: jax.Array, mask: jax.Array | None = None, queries: Sequence[int] | None = None
    ) -> jax.Array:
        rows = _rows(x, queries)
        kernel = _kernel(self, x, 3, fused=True)
        q, (k, v) = _project(rows, kernel[:, :1])[0], _project(x, kernel[:, 1:])
        return _merge(self, standard_attention(q, k, v, mask))


class StrassenSelfAttention(linen.Module):
    """:func:`~neurips25.attention.strassen_attention` of a sequence with itself.

    Attributes:
      num_heads: H; divides the width C of the input.
      method: of evaluation.
      causal: whether a token sees only those before it.
      out_proj: whether the heads go through a C × C map.
      dtype: of the computation.
    """

    num_heads: int
    method: StrassenMethod | str = StrassenMethod.STABLE
    causal: bool = False
    out_proj: bool = False
    dtype: DTypeLike = jnp.float32

    @linen.compact
    def __call__(
        self, x: jax.Array, mask: jax.Array | None = None, queries: Sequence[int] | None = None
    ) -> jax.Array:
        if self.causal and queries is not None:
            raise ValueError("causal attention of chosen queries only: leave out queries")
        rows = _rows(x, queries)
        kernel = _kernel(self, x, 5, fused=True)
        f, (g, h, v1, v2) = _project(rows, kernel[:, :1])[0], _project(x, kernel[:, 1:])
        y = strassen_attention(f, g, h, v1, v2, mask, method=self.method, causal=self.causal)
        return _merge(self, y)


class ThirdOrderSelfAttention(linen.Module):
    """:func:`~neurips25.attention.third_order_attention` of a sequence with itself.

    Attributes:
      num_heads: H; divides the width C of the input.
      chunk: queries at a time, None for all.
      out_proj: whether the heads go through a C × C map.
      dtype: of the computation.
    """

    num_heads: int
    chunk: int | None = None
    out_proj: bool = False
    dtype: DTypeLike = jnp.float32

    @linen.compact
    def __call__(
        self, x: jax.Array, mask: jax.Array | None = None, queries: Sequence[int] | None = None
    ) -> jax.Array:
        rows = _rows(x, queries)
        kernel = _kernel(self, x, 5, fused=True)
        q, (k1, k2, v1, v2) = _project(rows, kernel[:, :1])[0], _project(x, kernel[:, 1:])
        return _merge(self, third_order_attention(q, k1, k2, v1, v2, mask, self.chunk))


class TriangularSelfAttention(linen.Module):
    """:func:`~neurips25.attention.triangular_attention` of the n = m² tokens of a grid, by rows.

    Attributes:
      num_heads: H; divides the width C of the input.
      out_proj: whether the heads go through a C × C map.
      dtype: of the computation.
    """

    num_heads: int
    out_proj: bool = False
    dtype: DTypeLike = jnp.float32

    @linen.compact
    def __call__(
        self, x: jax.Array, mask: jax.Array | None = None, queries: Sequence[int] | None = None
    ) -> jax.Array:
        x = x.astype(self.dtype)
        batch, length, width = x.shape
        side = math.isqrt(length)
        if side**2 != length:
            raise ValueError(
                f"x has shape {x.shape}: triangular attention needs n = m * m tokens of a grid, "
                f"{length} is no square"
            )
        kernel = _kernel(self, x, 4, fused=False)
        q, k, v1, v2 = _project(x.reshape(batch, side, side, width), kernel)
        if mask is not None and mask.shape != x.shape[:2]:
            raise ValueError(f"mask has shape {mask.shape}, needs {x.shape[:2]}")
        grid_mask = None if mask is None else mask.reshape(batch, side, side)
        y = triangular_attention(q, k, v1, v2, grid_mask)
        y = y.reshape(batch, length, *y.shape[3:])
        return _merge(self, _rows(y, queries))


def triple_self_attention(
    kind: TripleAttention | str,
    num_heads: int,
    *,
    method: StrassenMethod | str = StrassenMethod.STABLE,
    out_proj: bool = False,
    dtype: DTypeLike = jnp.float32,
    name: str | None = None,
) -> linen.Module:
    """The layer that ``kind`` names.

    Args:
      kind: of attention.
      num_heads, out_proj, dtype: of the layer.
      method: of evaluation, for Strassen attention.
      name: of the submodule, for use inside another linen module.

    Returns:
      An unbound linen module.

    Raises:
      ValueError: an unknown kind.
    """
    layers: dict[TripleAttention, Callable[..., linen.Module]] = {
        TripleAttention.STANDARD: StandardSelfAttention,
        TripleAttention.TRIANGULAR: TriangularSelfAttention,
        TripleAttention.THIRD_ORDER: ThirdOrderSelfAttention,
        TripleAttention.STRASSEN: StrassenSelfAttention,
    }
    kind = parse_enum(TripleAttention, kind, "attention")
    extra = {"method": method} if kind is TripleAttention.STRASSEN else {}
    return layers[kind](num_heads=num_heads, out_proj=out_proj, dtype=dtype, name=name, **extra)


def _rows(x: jax.Array, queries: Sequence[int] | None) -> jax.Array:
    if queries is None:
        return x
    _check_queries(x, queries)
    return x[:, jnp.asarray(queries)]


def _check_queries(x: jax.Array, queries: Sequence[int]) -> None:
    outside = [q for q in queries if not 0 <= q < x.shape[1]]
    if outside:
        raise ValueError(f"queries has {outside}, needs positions below {x.shape[1]}")


def _kernel(module: linen.Module, x: jax.Array, parts: int, fused: bool) -> jax.Array:
    """[C, parts, H, D], uniform by Xavier for one Linear of all parts or for each alone."""
    heads, width = module.num_heads, x.shape[-1]
    if x.ndim < 3 or width % heads:
        raise ValueError(
            f"x has shape {x.shape}, needs [B, n, C] with C a multiple of num_heads={heads}"
        )
    bound = xavier_uniform_bound(width, width * parts if fused else width)
    shape = (width, parts, heads, width // heads)
    return module.param("kernel", uniform_init(bound), shape, jnp.float32).astype(module.dtype)


def _project(x: jax.Array, kernel: jax.Array) -> tuple[jax.Array, ...]:
    """[..., C] by [C, P, H, D] as one matrix product -> P times [..., H, D]."""
    width, *out = kernel.shape
    y = x.astype(kernel.dtype).reshape(-1, width) @ kernel.reshape(width, -1)
    y = y.reshape(*x.shape[:-1], *out)
    return tuple(y[..., p, :, :] for p in range(out[0]))


def _merge(module: linen.Module, y: jax.Array) -> jax.Array:
    """[B, Q, H, D] -> [B, Q, C]."""
    width = y.shape[2] * y.shape[3]
    y = y.reshape(*y.shape[:2], width)
    if not module.out_proj:
        return y
    bound = xavier_uniform_bound(width, width)
    wo = module.param("wo", uniform_init(bound), (width, width), jnp.float32)
    return y @ wo.astype(module.dtype)
