"""Self-attention layers on factors: TPA with its variants, and TPA with full queries.

The layers of arXiv:2501.06425, sec. 3 and 4. The functions take their parameters as a mapping;
the linen modules only create them.
"""

import math
from collections.abc import Mapping

import jax
import jax.numpy as jnp
from flax import linen

from neurips25.attention.cache import TPACache, first_row, update_cache
from neurips25.attention.config import AttentionConfig, AttentionKind, InitScheme
from neurips25.attention.softmax import causal_attention, check_call, merge_heads, rotate
from neurips25.attention.tpa import (
    TPAFactors,
    activate_heads,
    assemble,
    feature_factor,
    head_factor,
    tpa_attention,
    tpa_factors,
)
from neurips25.attention.tpa_decode import flash_tpa_decode, flash_tpa_kvonly_decode
from neurips25.nn.initializers import uniform_init, xavier_uniform_bound

Params = Mapping[str, jax.Array]
Start = tuple[float, tuple[int, ...]]


def tpa_self_attention(
    params: Params,
    x: jax.Array,
    cfg: AttentionConfig,
    positions: jax.Array | None = None,
    cache: TPACache | None = None,
    decode: bool = False,
) -> jax.Array | tuple[jax.Array, TPACache]:
    """Causal self-attention with factorised queries, keys and values.

    Args:
      params: those of :func:`neurips25.attention.tpa_factors` (which decide between TPA,
        non-contextual A, non-contextual B and a shared b), ``wo`` [H, D, d], and with
        ``cfg.groupnorm`` also ``head_norm`` [D].
      x: [B, T, d].
      cfg: head_activation, rope options, groupnorm and the compute dtype are read.
      positions: [T] or [B, T] int32; None is 0..T−1 (needed for decoding).
      cache: the fields that this variant keeps. Rows are written into it: 0..T−1, or with
        ``decode`` from ``positions[:, 0]`` on. Row m must hold position m.
      decode: attend over the cache rows up to each token's position, not over ``x`` alone.

    Returns:
      y [B, T, d], or (y, new cache) where a cache is given.

    Raises:
      ValueError: shapes that do not fit, or ``decode`` without cache or positions.

    Source: arXiv:2501.06425, sec. 3 and algorithm 2.
    """
    positions = check_call(x, cfg, positions, cache, decode)
    factors = tpa_factors(params, x, cfg, positions)
    if cache is None:
        return merge_heads(params, tpa_attention(factors), cfg)
    new = _kept(params, factors)
    if not decode:
        return merge_heads(params, tpa_attention(factors), cfg), update_cache(cache, new, 0)
    cache = update_cache(cache, new, first_row(positions))
    rows = _all_factors(params, cache, cfg)
    length = jnp.broadcast_to(positions, x.shape[:2]) + 1
    y = flash_tpa_decode(factors.aq, factors.bq, rows, length)
    return merge_heads(params, y, cfg), cache


def tpa_kvonly_self_attention(
    params: Params,
    x: jax.Array,
    cfg: AttentionConfig,
    positions: jax.Array | None = None,
    cache: TPACache | None = None,
    decode: bool = False,
) -> jax.Array | tuple[jax.Array, TPACache]:
    """Causal self-attention with ordinary queries and factorised keys and values.

    Args:
      params: ``wq`` [d, H, D], ``wa_k``, ``wb_k``, ``wa_v``, ``wb_v`` as for
        :func:`tpa_self_attention`, ``wo`` [H, D, d], and with ``cfg.groupnorm`` also
        ``head_norm`` [D].
      x, cfg, positions, cache, decode: as there.

    Returns:
      y [B, T, d], or (y, new cache) where a cache is given.

    Raises:
      ValueError: as there.

    Source: arXiv:2501.06425, sec. 4 (TPA-KVonly).
    """
    positions = check_call(x, cfg, positions, cache, decode)
    x = x.astype(cfg.dtype)
    q = rotate(jnp.einsum("btd,dhk->bthk", x, params["wq"].astype(cfg.dtype)), positions, cfg)
    ak, av = head_factor(params, "k", x, cfg), head_factor(params, "v", x, cfg)
    bk, bv = feature_factor(params, "k", x, cfg), feature_factor(params, "v", x, cfg)
    bk = rotate(bk, positions, cfg)
    new = TPACache(ak=ak, bk=bk, av=av, bv=bv)
    if cache is not None and decode:
        cache = update_cache(cache, new, first_row(positions))
        length = jnp.broadcast_to(positions, x.shape[:2]) + 1
        return merge_heads(params, flash_tpa_kvonly_decode(q, cache, length), cfg), cache
    y = causal_attention(q, assemble(ak, bk), assemble(av, bv))
    y = merge_heads(params, y, cfg)
    return y if cache is None else (y, update_cache(cache, new, 0))


class TPASelfAttention(linen.Module):
    """TPA layer, or its non-contextual A or B variant where ``cfg.attention`` says so.

    See :func:`tpa_self_attention`.
    """

    cfg: AttentionConfig

    @linen.compact
    def __call__(
        self,
        x: jax.Array,
        positions: jax.Array | None = None,
        cache: TPACache | None = None,
        decode: bool = False,
    ) -> jax.Array | tuple[jax.Array, TPACache]:
        cfg = self.cfg
        ranks = {"q": cfg.rank_q, "k": cfg.rank_k, "v": cfg.rank_v}
        starts: dict[str, Start] = {}
        for side, rank in ranks.items():
            if cfg.attention is AttentionKind.TPA_NC_A:
                starts[f"a_{side}"] = constant_start(rank, cfg.n_head)
            else:
                starts[f"wa_{side}"] = head_start(cfg, rank)
            if cfg.attention is AttentionKind.TPA_NC_B:
                starts[f"b_{side}"] = constant_start(rank, cfg.head_dim)
            elif not (cfg.shared_b and side in "kv"):
                starts[f"wb_{side}"] = feature_start(cfg, rank, cfg.head_dim)
        if cfg.shared_b:
            starts["wb_kv"] = feature_start(cfg, cfg.rank_k, cfg.head_dim)
        params = create_params(self, cfg, starts)
        return tpa_self_attention(params, x, cfg, positions, cache, decode)


class TPAKVOnlySelfAttention(linen.Module):
    """TPA-KVonly layer; see :func:`tpa_kvonly_self_attention`."""

    cfg: AttentionConfig

    @linen.compact
    def __call__(
        self,
        x: jax.Array,
        positions: jax.Array | None = None,
        cache: TPACache | None = None,
        decode: bool = False,
    ) -> jax.Array | tuple[jax.Array, TPACache]:
        cfg = self.cfg
        width, heads, dim = cfg.n_embd, cfg.n_head, cfg.head_dim
        starts = {
            "wq": (xavier_uniform_bound(width, heads * dim), (width, heads, dim)),
            "wa_k": head_start(cfg, cfg.rank_k),
            "wb_k": feature_start(cfg, cfg.rank_k, dim),
            "wa_v": head_start(cfg, cfg.rank_v),
            "wb_v": feature_start(cfg, cfg.rank_v, dim),
        }
        params = create_params(self, cfg, starts)
        return tpa_kvonly_self_attention(params, x, cfg, positions, cache, decode)


def head_start(cfg: AttentionConfig, rank: int) -> Start:
    """Bound and shape of a ``wa_*`` [d, R, H].

    Xavier uniform on the merged matrix (paper, appendix G), or √(6 / (R (d + H))), which is
    what the released code's 3-D view amounts to.
    """
    width, heads = cfg.n_embd, cfg.n_head
    if cfg.init is InitScheme.REPO:
        return math.sqrt(6.0 / (rank * (width + heads))), (width, rank, heads)
    return xavier_uniform_bound(width, rank * heads), (width, rank, heads)


def feature_start(cfg: AttentionConfig, rank: int, dim: int) -> Start:
    """Bound and shape of a ``wb_*`` or ``wc_*`` [d, R, dim].

    Xavier uniform on the merged matrix (paper, appendix G), or √(6 / (dim (R + d))), which is
    what the released code's 3-D view amounts to.
    """
    width = cfg.n_embd
    if cfg.init is InitScheme.REPO:
        return math.sqrt(6.0 / (dim * (rank + width))), (width, rank, dim)
    return xavier_uniform_bound(width, rank * dim), (width, rank, dim)


def constant_start(rank: int, size: int) -> Start:
    """Bound and shape of a factor that does not depend on the token: Xavier on [R, size].

    Neither the paper nor its code gives one.
    """
    return xavier_uniform_bound(rank, size), (rank, size)


def create_params(
    module: linen.Module, cfg: AttentionConfig, starts: Mapping[str, Start]
) -> dict[str, jax.Array]:
    """Creates uniform parameters, the zero output projection and the head norm's scale."""
    params = {
        name: module.param(name, uniform_init(bound), shape, jnp.float32)
        for name, (bound, shape) in starts.items()
    }
    heads, dim, width = cfg.n_head, cfg.head_dim, cfg.n_embd
    zeros, ones = linen.initializers.zeros, linen.initializers.ones
    params["wo"] = module.param("wo", zeros, (heads, dim, width), jnp.float32)
    if cfg.groupnorm:
        params["head_norm"] = module.param("head_norm", ones, (dim,), jnp.float32)
    return params


def _kept(params: Params, factors: TPAFactors) -> TPACache:
    """What the variant of ``params`` caches of new tokens."""
    shared = "wb_kv" in params
    return TPACache(
        ak=None if "a_k" in params else factors.ak,
        # A shared b is kept as the values need it; keys rotate it at use.
        bk=None if "b_k" in params else (factors.bv if shared else factors.bk),
        av=None if "a_v" in params else factors.av,
        bv=None if "b_v" in params or shared else factors.bv,
    )


def _all_factors(params: Params, cache: TPACache, cfg: AttentionConfig) -> TPACache:
    """The cache with the factors that it does not hold: constants, and the rotated shared b."""
    batch, length = jax.tree.leaves(cache)[0].shape[:2]
    positions = jnp.arange(length, dtype=jnp.int32)

    def constant(name: str) -> jax.Array:
        value = params[name].astype(cfg.dtype)
        return jnp.broadcast_to(value, (1, length, *value.shape))

    def for_all(rows: jax.Array) -> jax.Array:
        return jnp.broadcast_to(rows, (batch, *rows.shape[1:]))

    ak, bk, av, bv = cache.ak, cache.bk, cache.av, cache.bv
    if "wb_kv" in params and bk is not None:
        bk, bv = rotate(bk, positions, cfg), bk
    if ak is None:
        ak = for_all(activate_heads(constant("a_k"), cfg))
    if av is None:
        av = for_all(activate_heads(constant("a_v"), cfg))
    if bk is None:
        bk = for_all(rotate(constant("b_k"), positions, cfg))
    if bv is None:
        bv = for_all(constant("b_v"))
    return TPACache(ak=ak, bk=bk, av=av, bv=bv)
