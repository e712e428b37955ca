"""Softmax attention with heads of keys and values: MHA, GQA and MQA, the baselines of TPA.

    head_i = softmax(Q_i K_g(i)ᵀ / √D + mask) V_g(i),   g(i) = ⌊i / (H / G)⌋

with H query heads in G consecutive groups that share one key/value head; G = H is MHA and
G = 1 is MQA. Also the decoding step over a cache, in the form that is fastest on CPU.
"""

import math
from collections.abc import Mapping

import jax
import jax.numpy as jnp
from flax import linen

from neurips25.attention.cache import KVCache, first_row, update_cache
from neurips25.attention.config import AttentionConfig, AttentionKind, num_kv_heads
from neurips25.nn.initializers import fan_in_uniform
from neurips25.nn.norms import rms_norm
from neurips25.nn.partition import is_partitioned
from neurips25.nn.rope import apply_rope

HEAD_NORM_EPS = 1e-5


def softmax_attention(
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    mask: jax.Array | None = None,
    scale: float | None = None,
) -> jax.Array:
    """softmax(scale · q kᵀ) v for each head over the keys it may see, in float32 at least.

    Args:
      q: [B, T, H, D].
      k: [B, S, G, D]; H a multiple of G, query head i reads group ⌊i / (H/G)⌋.
      v: [B, S, G, E].
      mask: bool [T, S] or [B, T, S], True where a query may look; None looks everywhere. A
        query that may look nowhere gets the mean of the values.
      scale: of the scores; None is 1/√D.

    Returns:
      [B, T, H, E] of the promoted dtype of ``q`` and ``v``.

    Raises:
      ValueError: shapes that do not fit each other, or a mask that is not bool.
    """
    _check_qkv(q, k, v)
    batch, time, heads, dim = q.shape
    length, groups = k.shape[1:3]
    if mask is not None:
        check_mask(mask, batch, time, length)
    scale = 1.0 / math.sqrt(dim) if scale is None else scale
    rows = q.reshape(batch, time, groups, heads // groups, dim).transpose(0, 2, 3, 1, 4)
    keys, values = jnp.moveaxis(k, 1, 2), jnp.moveaxis(v, 1, 2)
    per_sequence = mask is not None and mask.ndim == 3
    arrays = (rows, keys, values, mask) if per_sequence else (rows, keys, values)

    def attend(arrays: tuple[jax.Array, ...]) -> jax.Array:
        q, k, v, *own = arrays
        return _attend_sequence(q, k, v, own[0] if own else mask, scale)

    def together(*arrays: jax.Array) -> jax.Array:
        return jax.vmap(attend)(arrays)

    def one_by_one(*arrays: jax.Array) -> jax.Array:
        # The scores of one sequence fit into a CPU's cache, those of a batch do not; the
        # checkpoint keeps them from being written out for the backward pass.
        return jax.lax.map(jax.checkpoint(attend), arrays)

    if batch == 1 or is_partitioned():
        out = together(*arrays)
    else:
        out = jax.lax.platform_dependent(*arrays, cpu=one_by_one, default=together)
    return out.transpose(0, 3, 1, 2, 4).reshape(batch, time, heads, v.shape[-1])


def _attend_sequence(
    q: jax.Array, k: jax.Array, v: jax.Array, visible: jax.Array | None, scale: float
) -> jax.Array:
    """q [G, R, T, D], k [G, S, D], v [G, S, E], visible [T, S] -> [G, R, T, E]."""
    groups, repeats, time, dim = q.shape
    compute = jnp.promote_types(q.dtype, jnp.float32)
    out_dtype = jnp.promote_types(q.dtype, v.dtype)
    # One matmul per group with its query heads stacked: on CPU two to three times as fast,
    # forward and backward, as an einsum that leaves the transposition to the compiler.
    stacked = q.reshape(groups, repeats * time, dim)
    scores = jnp.einsum("gxd,gsd->gxs", stacked, k, preferred_element_type=compute) * scale
    if visible is not None:
        by_head = scores.reshape(groups, repeats, time, k.shape[1])
        scores = _masked(by_head, visible).reshape(scores.shape)
    weights = jax.nn.softmax(scores, axis=-1).astype(out_dtype)
    out = jnp.einsum("gxs,gse->gxe", weights, v, preferred_element_type=compute)
    return out.astype(out_dtype).reshape(groups, repeats, time, v.shape[-1])


def causal_attention(
    q: jax.Array, k: jax.Array, v: jax.Array, scale: float | None = None
) -> jax.Array:
    """:func:`softmax_attention` in which query t looks at keys 0..t.

    Args:
      q: [B, T, H, D].
      k: [B, T, G, D].
      v: [B, T, G, E].
      scale: of the scores; None is 1/√D.

    Returns:
      [B, T, H, E].

    Raises:
      ValueError: shapes that do not fit each other.
    """
    if q.shape[1] != k.shape[1]:
        raise ValueError(f"k has shape {k.shape}, needs {q.shape[1]} positions as q {q.shape}")
    time = q.shape[1]
    return softmax_attention(q, k, v, jnp.tril(jnp.ones((time, time), bool)), scale)


def cached_attention(
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    positions: jax.Array,
    scale: float | None = None,
) -> jax.Array:
    """Attention of new queries over the cache rows up to their own position.

    Args:
      q: [B, T, H, D], T usually 1.
      k: [B, M, G, D] cached keys, those of the new tokens included.
      v: [B, M, G, E] cached values.
      positions: [B, T] int32; the query sees rows m ≤ its position.
      scale: of the scores; None is 1/√D.

    Returns:
      [B, T, H, E]; maximum, sum and output are accumulated in float32 at least.

    Raises:
      ValueError: shapes that do not fit each other.
    """
    _check_qkv(q, k, v)
    if positions.shape != q.shape[:2]:
        raise ValueError(f"positions has shape {positions.shape}, needs [B, T] = {q.shape[:2]}")
    visible = jnp.arange(k.shape[1]) <= positions[..., None]
    scale = 1.0 / math.sqrt(q.shape[-1]) if scale is None else scale
    if q.shape[1] > 1:
        return softmax_attention(q, k, v, visible, scale)

    def on_cpu(q: jax.Array, k: jax.Array, v: jax.Array, visible: jax.Array) -> jax.Array:
        return _one_query_over_rows(q, k, v, visible, scale)

    def elsewhere(q: jax.Array, k: jax.Array, v: jax.Array, visible: jax.Array) -> jax.Array:
        return softmax_attention(q, k, v, visible, scale)

    return jax.lax.platform_dependent(q, k, v, visible, cpu=on_cpu, default=elsewhere)


def _one_query_over_rows(
    q: jax.Array, k: jax.Array, v: jax.Array, visible: jax.Array, scale: float
) -> jax.Array:
    """One query per sequence, reading each cache row [G·D] once as it lies in memory.

    The query heads become the columns of a block-diagonal matrix [G·D, H]. The zeros cost
    arithmetic, but a step over a cache is bound by memory, and a batched matmul over heads
    would first copy the whole cache into another layout.
    """
    batch, _, heads, dim = q.shape
    length, groups, width = v.shape[1:]
    compute = jnp.promote_types(q.dtype, jnp.float32)
    by_group = q.reshape(batch, groups, heads // groups, dim)
    blocks = jnp.einsum("bgrd,gj->bjdgr", by_group, jnp.eye(groups, dtype=q.dtype))
    scores = jnp.einsum(
        "bmx,bxh->bmh",
        k.reshape(batch, length, groups * dim),
        blocks.reshape(batch, groups * dim, heads),
        preferred_element_type=compute,
    )
    scores = jnp.swapaxes(scores, 1, 2)
    weights = jax.nn.softmax(_masked(scale * scores, visible), axis=-1)
    weights = weights.astype(jnp.promote_types(q.dtype, v.dtype))
    out = jnp.einsum(
        "bhm,bmx->bhx",
        weights,
        v.reshape(batch, length, groups * width),
        preferred_element_type=compute,
    )
    out = jnp.einsum("bgrge->bgre", out.reshape(batch, groups, -1, groups, width))
    return out.reshape(batch, 1, heads, width).astype(weights.dtype)


def grouped_query_attention(
    params: Mapping[str, jax.Array],
    x: jax.Array,
    cfg: AttentionConfig,
    positions: jax.Array | None = None,
    cache: KVCache | None = None,
    decode: bool = False,
) -> jax.Array | tuple[jax.Array, KVCache]:
    """Causal self-attention with RoPE; MHA, GQA and MQA differ only in the shape of ``wk``.

    Args:
      params: ``wq`` [d, H, D], ``wk`` and ``wv`` [d, G, D], ``wo`` [H, D, d], and with
        ``cfg.groupnorm`` also ``head_norm`` [D].
      x: [B, T, d].
      cfg: rope options, groupnorm and the compute dtype are read.
      positions: [T] or [B, T] int32; None is 0..T−1 (needed for decoding).
      cache: rows are written into it: 0..T−1, or with ``decode`` from ``positions[:, 0]`` on.
      decode: attend over the cache rows up to each token's position, not over ``x`` alone.

    Returns:
      y [B, T, d], or (y, new cache) where a cache is given.

    Raises:
      ValueError: shapes that do not fit, or ``decode`` without cache or positions.

    Source: the baselines of arXiv:2501.06425.
    """
    positions = check_call(x, cfg, positions, cache, decode)
    x, wq, wk, wv = (a.astype(cfg.dtype) for a in (x, params["wq"], params["wk"], params["wv"]))
    q = rotate(jnp.einsum("btd,dhk->bthk", x, wq), positions, cfg)
    k = rotate(jnp.einsum("btd,dgk->btgk", x, wk), positions, cfg)
    v = jnp.einsum("btd,dgk->btgk", x, wv)
    if cache is None:
        return merge_heads(params, causal_attention(q, k, v), cfg)
    new = KVCache(k=k, v=v)
    if not decode:
        return merge_heads(params, causal_attention(q, k, v), cfg), update_cache(cache, new, 0)
    cache = update_cache(cache, new, first_row(positions))
    y = cached_attention(q, cache.k, cache.v, jnp.broadcast_to(positions, x.shape[:2]))
    return merge_heads(params, y, cfg), cache


class MultiHeadAttention(linen.Module):
    """MHA: a key/value head for every query head. See :func:`grouped_query_attention`."""

    cfg: AttentionConfig

    @linen.compact
    def __call__(
        self,
        x: jax.Array,
        positions: jax.Array | None = None,
        cache: KVCache | None = None,
        decode: bool = False,
    ) -> jax.Array | tuple[jax.Array, KVCache]:
        params = _head_params(self, self.cfg, self.cfg.n_head)
        return grouped_query_attention(params, x, self.cfg, positions, cache, decode)


class GroupedQueryAttention(linen.Module):
    """GQA with ``cfg.num_kv_groups`` key/value heads, or MQA with one.

    MQA where ``cfg.attention`` is mqa. See :func:`grouped_query_attention`.
    """

    cfg: AttentionConfig

    @linen.compact
    def __call__(
        self,
        x: jax.Array,
        positions: jax.Array | None = None,
        cache: KVCache | None = None,
        decode: bool = False,
    ) -> jax.Array | tuple[jax.Array, KVCache]:
        mqa = self.cfg.attention is AttentionKind.MQA
        groups = num_kv_heads(AttentionKind.MQA if mqa else AttentionKind.GQA, self.cfg)
        params = _head_params(self, self.cfg, groups)
        return grouped_query_attention(params, x, self.cfg, positions, cache, decode)


def rotate(x: jax.Array, positions: jax.Array, cfg: AttentionConfig) -> jax.Array:
    """:func:`neurips25.nn.rope.apply_rope` of ``x`` [..., T, n, D] with the options of ``cfg``."""
    return apply_rope(
        x,
        positions,
        base=cfg.rope_base,
        style=cfg.rope_style,
        dtype=cfg.rope_dtype,
        fraction=cfg.rope_fraction,
        decay=cfg.rope_decay,
    )


def merge_heads(params: Mapping[str, jax.Array], y: jax.Array, cfg: AttentionConfig) -> jax.Array:
    """Output projection of the heads, after their RMSNorm where ``cfg.groupnorm``.

    Args:
      params: ``wo`` [H, E, d], and with groupnorm ``head_norm`` [E].
      y: [B, T, H, E].
      cfg: groupnorm and the compute dtype are read.

    Returns:
      [B, T, d] of ``cfg.dtype``.
    """
    if cfg.groupnorm:
        y = rms_norm(y, params["head_norm"], HEAD_NORM_EPS)
    return jnp.einsum("bthe,hed->btd", y.astype(cfg.dtype), params["wo"].astype(cfg.dtype))


def check_call(
    x: jax.Array,
    cfg: AttentionConfig,
    positions: jax.Array | None,
    cache: object | None,
    decode: bool,
) -> jax.Array:
    """Checks the arguments that all attention layers share.

    Returns:
      The positions, [T] or [B, T]; 0..T−1 where none are given.

    Raises:
      ValueError: shapes that do not fit, or ``decode`` without cache or positions.
    """
    if x.ndim != 3 or x.shape[-1] != cfg.n_embd:
        raise ValueError(f"x has shape {x.shape}, needs [B, T, {cfg.n_embd}]")
    if decode and (cache is None or positions is None):
        raise ValueError("decode=True needs a cache and the positions of the new tokens")
    if positions is None:
        return jnp.arange(x.shape[1], dtype=jnp.int32)
    positions = jnp.asarray(positions)
    if positions.shape not in (x.shape[1:2], x.shape[:2]):
        raise ValueError(
            f"positions has shape {positions.shape}, needs {x.shape[1:2]} or {x.shape[:2]}"
        )
    return positions


def check_mask(mask: jax.Array, batch: int, time: int, length: int) -> None:
    """Raises ``ValueError`` unless ``mask`` is bool [time, length] or [batch, time, length].

    A mask meant to be added to scores, 0 where a query may look and −inf where it may not,
    would be read as its opposite.
    """
    shapes = ((time, length), (batch, time, length))
    if mask.shape not in shapes or mask.dtype != jnp.bool_:
        raise ValueError(
            f"mask is {mask.dtype} of shape {mask.shape}, needs bool {shapes[0]} or {shapes[1]}"
        )


def _head_params(module: linen.Module, cfg: AttentionConfig, groups: int) -> dict[str, jax.Array]:
    width, heads, dim = cfg.n_embd, cfg.n_head, cfg.head_dim
    zeros, ones = linen.initializers.zeros, linen.initializers.ones
    params = {
        "wq": module.param("wq", fan_in_uniform, (width, heads, dim), jnp.float32),
        "wk": module.param("wk", fan_in_uniform, (width, groups, dim), jnp.float32),
        "wv": module.param("wv", fan_in_uniform, (width, groups, dim), jnp.float32),
        "wo": module.param("wo", zeros, (heads, dim, width), jnp.float32),
    }
    if cfg.groupnorm:
        params["head_norm"] = module.param("head_norm", ones, (dim,), jnp.float32)
    return params


def _masked(scores: jax.Array, mask: jax.Array) -> jax.Array:
    # Finite, so that a row without any True gives no NaN.
    return jnp.where(mask, scores, jnp.finfo(scores.dtype).min)


def _check_qkv(q: jax.Array, k: jax.Array, v: jax.Array) -> None:
    if q.ndim != 4:
        raise ValueError(f"q has shape {q.shape}, needs [B, T, H, D]")
    if k.ndim != 4 or k.shape[0] != q.shape[0] or k.shape[3] != q.shape[3]:
        raise ValueError(f"k has shape {k.shape}, needs [{q.shape[0]}, S, G, {q.shape[3]}]")
    if q.shape[2] % k.shape[2]:
        raise ValueError(
            f"k has {k.shape[2]} heads (shape {k.shape}), needs a divisor of the "
            f"{q.shape[2]} heads of q"
        )
    if v.ndim != 4 or v.shape[:3] != k.shape[:3]:
        raise ValueError(f"v has shape {v.shape}, needs {(*k.shape[:3], 'E')}")
