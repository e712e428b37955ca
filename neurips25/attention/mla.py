"""Multi-head latent attention (MLA), the low-rank baseline of TPA.

    c^Q = RMSNorm(W^DQ x),   [q^C_i; q^R_i] = W^UQ_i c^Q
    [c; k^R] = W^DKV x,      c ← RMSNorm(c),   [k^C_i; v_i] = W^UKV_i c
    head_i = softmax((q^C_i·k^C_i + RoPE(q^R_i)·RoPE(k^R)) / √(d_h + d_h^R)) v_i

Only the latent c (d_c numbers) and the rotated key k^R (d_h^R numbers, shared by all heads)
are cached. Decoding moves W^UK to the query and W^UV behind the softmax, so that no key or
value is ever formed.

Source: arXiv:2405.04434; as a baseline arXiv:2501.06425. The two RMSNorms on the
latents are in the code released with the latter, not in its formulas.
"""

import math
from collections.abc import Mapping

import jax
import jax.numpy as jnp
from flax import linen

from neurips25.attention.cache import LatentCache, first_row, update_cache
from neurips25.attention.config import AttentionConfig
from neurips25.attention.softmax import (
    causal_attention,
    check_call,
    merge_heads,
    rotate,
)
from neurips25.nn.initializers import fan_in_uniform
from neurips25.nn.norms import rms_norm

LATENT_NORM_EPS = 1e-6


def mla_queries(
    params: Mapping[str, jax.Array], x: jax.Array, cfg: AttentionConfig, positions: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """The two parts of the queries.

    Args:
      params: ``w_dq`` [d, d'_c], ``q_norm`` [d'_c], ``w_uq`` [d'_c, H, D + d_h^R].
      x: [B, T, d].
      cfg: sizes, rope options and the compute dtype are read.
      positions: [T] or [B, T] int32.

    Returns:
      q^C [B, T, H, D] and the rotated q^R [B, T, H, d_h^R].
    """
    w_dq, w_uq = params["w_dq"].astype(cfg.dtype), params["w_uq"].astype(cfg.dtype)
    latent = rms_norm(x.astype(cfg.dtype) @ w_dq, params["q_norm"], LATENT_NORM_EPS)
    q = jnp.einsum("btc,chk->bthk", latent, w_uq)
    return q[..., : cfg.head_dim], rotate(q[..., cfg.head_dim :], positions, cfg)


def mla_latents(
    params: Mapping[str, jax.Array], x: jax.Array, cfg: AttentionConfig, positions: jax.Array
) -> LatentCache:
    """What is cached for each token.

    Args:
      params: ``w_dkv`` [d, d_c + d_h^R], ``kv_norm`` [d_c].
      x: [B, T, d].
      cfg: sizes, rope options and the compute dtype are read.
      positions: [T] or [B, T] int32.

    Returns:
      The normalised latent [B, T, d_c] and the rotated shared key [B, T, d_h^R].
    """
    down = x.astype(cfg.dtype) @ params["w_dkv"].astype(cfg.dtype)
    latent = rms_norm(down[..., : cfg.kv_latent_dim], params["kv_norm"], LATENT_NORM_EPS)
    k_rope = rotate(down[..., None, cfg.kv_latent_dim :], positions, cfg)
    return LatentCache(latent=latent, k_rope=k_rope[..., 0, :])


def mla_keys_values(
    latents: LatentCache, w_ukv: jax.Array, head_dim: int
) -> tuple[jax.Array, jax.Array]:
    """Keys and values of every head, formed from the latents.

    Args:
      latents: latent [B, S, d_c], k_rope [B, S, d_h^R].
      w_ukv: [d_c, H, 2D].
      head_dim: D.

    Returns:
      keys [B, S, H, D + d_h^R] and values [B, S, H, D].
    """
    kv = jnp.einsum("bsc,chk->bshk", latents.latent, w_ukv)
    shared = jnp.broadcast_to(latents.k_rope[:, :, None], (*kv.shape[:3], latents.k_rope.shape[-1]))
    return jnp.concatenate([kv[..., :head_dim], shared], axis=-1), kv[..., head_dim:]


def mla_decode(
    q_nope: jax.Array,
    q_rope: jax.Array,
    cache: LatentCache,
    w_ukv: jax.Array,
    positions: jax.Array,
) -> jax.Array:
    """Attention over the latents themselves, with the up-projections absorbed.

    score_im = ((W^UK_i)ᵀ q^C_i · c_m + q^R_i · k^R_m) / √(D + d_h^R), and
    head_i = W^UV_i Σ_m softmax(score)_im c_m.

    Args:
      q_nope: [B, T, H, D].
      q_rope: [B, T, H, d_h^R], rotated.
      cache: latent [B, M, d_c] and k_rope [B, M, d_h^R], those of the new tokens included.
      w_ukv: [d_c, H, 2D], keys first.
      positions: [B, T] int32; the query sees rows m ≤ its position.

    Returns:
      [B, T, H, D]; maximum, sum and output are accumulated in float32 at least.

    Raises:
      ValueError: shapes that do not fit each other.
    """
    batch, time, heads, dim = q_nope.shape
    latent_dim, length = cache.latent.shape[-1], cache.latent.shape[1]
    if q_rope.shape != (batch, time, heads, cache.k_rope.shape[-1]):
        raise ValueError(
            f"q_rope has shape {q_rope.shape}, needs {(batch, time, heads, cache.k_rope.shape[-1])}"
        )
    if w_ukv.shape != (latent_dim, heads, 2 * dim):
        raise ValueError(f"w_ukv has shape {w_ukv.shape}, needs {(latent_dim, heads, 2 * dim)}")
    if positions.shape != (batch, time):
        raise ValueError(f"positions has shape {positions.shape}, needs {(batch, time)}")
    compute = jnp.promote_types(q_nope.dtype, jnp.float32)
    absorbed = jnp.einsum("bthd,chd->bthc", q_nope, w_ukv[..., :dim])
    rows = (batch, time * heads)
    scores = jnp.einsum(
        "bxc,bmc->bxm",
        absorbed.reshape(*rows, latent_dim),
        cache.latent,
        preferred_element_type=compute,
    ) + jnp.einsum(
        "bxr,bmr->bxm",
        q_rope.reshape(*rows, -1),
        cache.k_rope,
        preferred_element_type=compute,
    )
    scores = scores.reshape(batch, time, heads, length) / math.sqrt(dim + q_rope.shape[-1])
    visible = jnp.arange(length) <= positions[..., None]
    scores = jnp.where(visible[:, :, None], scores, jnp.finfo(compute).min)
    weights = jax.nn.softmax(scores, axis=-1).reshape(*rows, length)
    out_dtype = jnp.promote_types(q_nope.dtype, cache.latent.dtype)
    mixed = jnp.einsum(
        "bxm,bmc->bxc", weights.astype(out_dtype), cache.latent, preferred_element_type=compute
    )
    mixed = mixed.reshape(batch, time, heads, latent_dim).astype(out_dtype)
    return jnp.einsum("bthc,chd->bthd", mixed, w_ukv[..., dim:])


def mla_attention(
    params: Mapping[str, jax.Array],
    x: jax.Array,
    cfg: AttentionConfig,
    positions: jax.Array | None = None,
    cache: LatentCache | None = None,
    decode: bool = False,
) -> jax.Array | tuple[jax.Array, LatentCache]:
    """Causal self-attention through latents.

    Args:
      params: those of :func:`mla_queries` and :func:`mla_latents`, ``w_ukv`` [d_c, H, 2D]
        (keys first), ``wo`` [H, D, d], and with ``cfg.groupnorm`` also ``head_norm`` [D].
      x: [B, T, d].
      cfg: sizes, rope options, groupnorm and the compute dtype are read.
      positions: [T] or [B, T] int32; None is 0..T−1 (needed for decoding).
      cache: rows are written into it: 0..T−1, or with ``decode`` from ``positions[:, 0]`` on.
      decode: attend over the cache rows up to each token's position, not over ``x`` alone.

    Returns:
      y [B, T, d], or (y, new cache) where a cache is given.

    Raises:
      ValueError: shapes that do not fit, or ``decode`` without cache or positions.
    """
    positions = check_call(x, cfg, positions, cache, decode)
    q_nope, q_rope = mla_queries(params, x, cfg, positions)
    latents = mla_latents(params, x, cfg, positions)
    w_ukv = params["w_ukv"].astype(cfg.dtype)
    if cache is not None and decode:
        cache = update_cache(cache, latents, first_row(positions))
        where = jnp.broadcast_to(positions, x.shape[:2])
        return merge_heads(params, mla_decode(q_nope, q_rope, cache, w_ukv, where), cfg), cache
    keys, values = mla_keys_values(latents, w_ukv, cfg.head_dim)
    y = causal_attention(jnp.concatenate([q_nope, q_rope], axis=-1), keys, values)
    y = merge_heads(params, y, cfg)
    return y if cache is None else (y, update_cache(cache, latents, 0))


class MultiheadLatentAttention(linen.Module):
    """MLA layer; see :func:`mla_attention`."""

    cfg: AttentionConfig

    @linen.compact
    def __call__(
        self,
        x: jax.Array,
        positions: jax.Array | None = None,
        cache: LatentCache | None = None,
        decode: bool = False,
    ) -> jax.Array | tuple[jax.Array, LatentCache]:
        cfg = self.cfg
        width, heads, dim = cfg.n_embd, cfg.n_head, cfg.head_dim
        q_latent, kv_latent, rope_dim = cfg.q_latent_dim, cfg.kv_latent_dim, cfg.rope_head_dim
        zeros, ones = linen.initializers.zeros, linen.initializers.ones
        shapes = {
            "w_dq": (fan_in_uniform, (width, q_latent)),
            "q_norm": (ones, (q_latent,)),
            "w_uq": (fan_in_uniform, (q_latent, heads, dim + rope_dim)),
            "w_dkv": (fan_in_uniform, (width, kv_latent + rope_dim)),
            "kv_norm": (ones, (kv_latent,)),
            "w_ukv": (fan_in_uniform, (kv_latent, heads, 2 * dim)),
            "wo": (zeros, (heads, dim, width)),
        }
        if cfg.groupnorm:
            shapes["head_norm"] = (ones, (dim,))
        params = {
            name: self.param(name, init, shape, jnp.float32)
            for name, (init, shape) in shapes.items()
        }
        return mla_attention(params, x, cfg, positions, cache, decode)
