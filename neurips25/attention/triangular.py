"""Triangular attention (Bergen et al. 2021): edges (i, j) that look at paths i → l → j.

A baseline of arXiv:2501.19215. With tokens x_ij of an m × m grid:

    a_ij = Σ_l softmax_l( q_il · k_lj / √D ) (v¹_il ⊙ v²_lj)
"""

import functools
import math

import jax
import jax.numpy as jnp

from neurips25.attention.triple_scores import PRECISE


def triangular_attention(
    q: jax.Array,
    k: jax.Array,
    v1: jax.Array,
    v2: jax.Array,
    mask: jax.Array | None = None,
) -> jax.Array:
    """Σ_l softmax_l(q_il · k_lj / √D) (v1_il ⊙ v2_lj) for each edge (i, j) and head.

    Time O(m³ (D + E)) for n = m² tokens, memory O(m³).

    Args:
      q, k: [B, m, m, H, D].
      v1, v2: [B, m, m, H, E].
      mask: bool [B, m, m], True where a token is real; l ranges over those with (i, l) and (l, j)
        real. None: all are. An edge without any gets zeros.

    Returns:
      [B, m, m, H, E] of the promoted dtype of the arguments, computed in float32 at least.

    Raises:
      ValueError: shapes that do not fit each other.

    Source: arXiv:2112.00578; arXiv:2501.19215, sec. 2.
    """
    _check(q, k, v1, v2, mask)
    dtype = jnp.result_type(q, k, v1, v2)
    compute = jnp.promote_types(dtype, jnp.float32)
    q, k, v1, v2 = (a.astype(compute) for a in (q, k, v1, v2))
    einsum = functools.partial(jnp.einsum, precision=PRECISE)
    scores = einsum("bilhc,bljhc->bhijl", q, k) / math.sqrt(q.shape[-1])
    if mask is not None:
        paths = mask[:, :, None, :] & jnp.swapaxes(mask, 1, 2)[:, None, :, :]
        scores = jnp.where(paths[:, None], scores, -jnp.inf)
    shift = jnp.max(scores, axis=-1, keepdims=True)
    shift = jax.lax.stop_gradient(jnp.where(jnp.isfinite(shift), shift, 0.0))
    weights = jnp.exp(scores - shift)
    total = jnp.sum(weights, axis=-1, keepdims=True)
    weights = weights / jnp.where(total > 0, total, 1.0)
    return einsum("bhijl,bilhe,bljhe->bijhe", weights, v1, v2).astype(dtype)


def _check(
    q: jax.Array, k: jax.Array, v1: jax.Array, v2: jax.Array, mask: jax.Array | None
) -> None:
    if q.ndim != 5 or q.shape[1] != q.shape[2]:
        raise ValueError(f"q has shape {q.shape}, needs [B, m, m, H, D]")
    if k.shape != q.shape:
        raise ValueError(f"k has shape {k.shape}, needs {q.shape} as q")
    if v1.ndim != 5 or v1.shape[:4] != q.shape[:4]:
        raise ValueError(f"v1 has shape {v1.shape}, needs {(*q.shape[:4], 'E')}")
    if v2.shape != v1.shape:
        raise ValueError(f"v2 has shape {v2.shape}, needs {v1.shape} as v1")
    if mask is not None and (mask.shape != q.shape[:3] or mask.dtype != jnp.bool_):
        raise ValueError(
            f"mask has shape {mask.shape} and dtype {mask.dtype}, needs {q.shape[:3]} and bool"
        )
