"""Third-order attention (Sanford et al. 2023): a softmax over pairs of a product of three vectors.

The baseline that arXiv:2501.19215 compares Strassen attention with:

    a_i = Σ_jk softmax_jk( Σ_c q_i[c] k¹_j[c] k²_k[c] / √D ) (v¹_j ⊙ v²_k)

The three vectors are multiplied, where Strassen attention adds pairwise products; so no product
of n × n matrices evaluates it, and every triple needs D multiplications of its own.
"""

import functools
import math

import jax
import jax.numpy as jnp

from neurips25.attention.triple_scores import PRECISE

_MASKED = -jnp.inf


def third_order_attention(
    q: jax.Array,
    k1: jax.Array,
    k2: jax.Array,
    v1: jax.Array,
    v2: jax.Array,
    mask: jax.Array | None = None,
    chunk: int | None = None,
) -> jax.Array:
    """Σ_jk softmax_jk(Σ_c q_i k1_j k2_k / √D) (v1_j ⊙ v2_k) for each query and head.

    Time O(Q n² (D + E)).

    Args:
      q: [B, Q, H, D], Q = n in self-attention, or any subset of its rows.
      k1, k2: [B, n, H, D].
      v1, v2: [B, n, H, E].
      mask: bool [B, n], True where a token is real; j and k range over these. None: all are. A
        batch element without any gives zeros.
      chunk: queries at a time; memory is O(B H · chunk · n²). None is all, as published.

    Returns:
      [B, Q, H, E] of the promoted dtype of the arguments, computed in float32 at least.

    Raises:
      ValueError: shapes that do not fit each other, or ``chunk < 1``.

    Source: arXiv:2306.02896; arXiv:2501.19215, sec. 2.
    """
    _check(q, k1, k2, v1, v2, mask, chunk)
    dtype = jnp.result_type(q, k1, k2, v1, v2)
    compute = jnp.promote_types(dtype, jnp.float32)
    q, k1, k2, v1, v2 = (a.astype(compute) for a in (q, k1, k2, v1, v2))
    scale = 1.0 / math.sqrt(q.shape[-1])
    einsum = functools.partial(jnp.einsum, precision=PRECISE)
    both = None if mask is None else mask[:, None, :] & mask[:, :, None]

    def attend(q: jax.Array) -> jax.Array:
        scores = einsum("bihc,bjhc,bkhc->bihjk", q * scale, k1, k2)
        if both is not None:
            scores = jnp.where(both[:, None, None], scores, _MASKED)
        shift = jnp.max(scores, axis=(-2, -1), keepdims=True)
        shift = jax.lax.stop_gradient(jnp.where(jnp.isfinite(shift), shift, 0.0))
        weights = jnp.exp(scores - shift)
        inner = einsum("bihjk,bjhe->bihke", weights, v1)
        num = einsum("bihke,bkhe->bihe", inner, v2)
        den = jnp.sum(weights, axis=(-2, -1))[..., None]
        return jnp.where(den > 0, num / jnp.where(den > 0, den, 1.0), 0.0)

    if chunk is None or chunk >= q.shape[1]:
        return attend(q).astype(dtype)
    by_query = jnp.moveaxis(q, 1, 0)
    one = jax.checkpoint(lambda row: attend(row[:, None])[:, 0])
    return jnp.moveaxis(jax.lax.map(one, by_query, batch_size=chunk), 0, 1).astype(dtype)


def _check(
    q: jax.Array,
    k1: jax.Array,
    k2: jax.Array,
    v1: jax.Array,
    v2: jax.Array,
    mask: jax.Array | None,
    chunk: int | None,
) -> None:
    if q.ndim != 4:
        raise ValueError(f"q has shape {q.shape}, needs [B, Q, H, D]")
    batch, _, heads, dim = q.shape
    if k1.ndim != 4 or (k1.shape[0], *k1.shape[2:]) != (batch, heads, dim):
        raise ValueError(f"k1 has shape {k1.shape}, needs [{batch}, n, {heads}, {dim}] for q")
    if k2.shape != k1.shape:
        raise ValueError(f"k2 has shape {k2.shape}, needs {k1.shape} as k1")
    if v1.ndim != 4 or v1.shape[:3] != k1.shape[:3]:
        raise ValueError(f"v1 has shape {v1.shape}, needs {(*k1.shape[:3], 'E')}")
    if v2.shape != v1.shape:
        raise ValueError(f"v2 has shape {v2.shape}, needs {v1.shape} as v1")
    if mask is not None and (mask.shape != k1.shape[:2] or mask.dtype != jnp.bool_):
        raise ValueError(
            f"mask has shape {mask.shape} and dtype {mask.dtype}, needs {k1.shape[:2]} and bool"
        )
    if chunk is not None and chunk < 1:
        raise ValueError(f"chunk={chunk} must be at least 1")
