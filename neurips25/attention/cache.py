"""What each kind of attention keeps of the past tokens, as preallocated arrays.

Every array is [batch, max_len, ...]: row m holds position m. Lengths are not stored; a
decoding step gives the rows behind its own position weight 0. What lies there until it is
overwritten does not matter, as long as it is finite: 0 times NaN is NaN. A token at position
max_len or later has no row; see :func:`update_cache` for what becomes of it.
"""

from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax.typing import ArrayLike, DTypeLike

from neurips25.attention.config import (
    SOFTMAX_KINDS,
    AttentionConfig,
    AttentionKind,
    num_kv_heads,
)
from neurips25.nn.enums import parse_enum


@struct.dataclass
class KVCache:
    """Keys (already rotated) and values of MHA, MQA and GQA."""

    k: jax.Array
    """[B, M, G, D]"""
    v: jax.Array
    """[B, M, G, D]"""


@struct.dataclass
class LatentCache:
    """What MLA keeps: the normalised latent and the rotated key shared by all heads."""

    latent: jax.Array
    """[B, M, d_c]"""
    k_rope: jax.Array
    """[B, M, d_h^R]"""


@struct.dataclass
class TPACache:
    """Factors of keys and values; None where a variant has nothing to keep.

    Non-contextual A keeps only ``bk`` and ``bv``, non-contextual B only ``ak`` and ``av``. With
    a shared b, ``bk`` holds it *un-rotated* (it is rotated at use) and ``bv`` is None;
    otherwise ``bk`` is already rotated.
    """

    ak: jax.Array | None = None
    """[B, M, R_K, H]"""
    bk: jax.Array | None = None
    """[B, M, R_K, D]"""
    av: jax.Array | None = None
    """[B, M, R_V, H]"""
    bv: jax.Array | None = None
    """[B, M, R_V, D]"""


@struct.dataclass
class ThirdOrderCache:
    """Factors of third-order TPA; ``bk`` is already rotated."""

    ak: jax.Array
    """[B, M, R_K, H]"""
    bk: jax.Array
    """[B, M, R_K, d_b]"""
    ck: jax.Array
    """[B, M, R_K, d_c]"""
    av: jax.Array
    """[B, M, R_V, H]"""
    bv: jax.Array
    """[B, M, R_V, d_b]"""
    cv: jax.Array
    """[B, M, R_V, d_c]"""


Cache = KVCache | LatentCache | TPACache | ThirdOrderCache
C = TypeVar("C", KVCache, LatentCache, TPACache, ThirdOrderCache)


def init_cache(
    kind: AttentionKind | str,
    cfg: AttentionConfig,
    batch: int,
    max_len: int,
    dtype: DTypeLike = jnp.float32,
) -> Cache:
    """An empty cache of one layer.

    Args:
      kind: of the layer.
      cfg: its sizes.
      batch: B, sequences.
      max_len: M, tokens per sequence.
      dtype: of the arrays.

    Returns:
      Zeros of the class that ``kind`` uses, each array [B, M, ...].

    Raises:
      ValueError: unknown ``kind``, or a size below 1.

    Source: arXiv:2501.06425, table 1.

    >>> cfg = AttentionConfig(n_embd=32, n_head=6, head_dim=8)
    >>> init_cache("tpa", cfg, batch=1, max_len=5).ak.shape
    (1, 5, 2, 6)
    """
    kind = parse_enum(AttentionKind, kind, "kind")
    if batch < 1 or max_len < 1:
        raise ValueError(f"batch={batch} and max_len={max_len} must be at least 1")

    def zeros(*shape: int) -> jax.Array:
        return jnp.zeros((batch, max_len, *shape), dtype)

    heads, dim, rank_k, rank_v = cfg.n_head, cfg.head_dim, cfg.rank_k, cfg.rank_v
    if kind in SOFTMAX_KINDS:
        groups = num_kv_heads(kind, cfg)
        return KVCache(k=zeros(groups, dim), v=zeros(groups, dim))
    if kind is AttentionKind.MLA:
        return LatentCache(latent=zeros(cfg.kv_latent_dim), k_rope=zeros(cfg.rope_head_dim))
    if kind is AttentionKind.TPA3:
        dim_b, dim_c = cfg.factor_dim_b, cfg.factor_dim_c
        return ThirdOrderCache(
            ak=zeros(rank_k, heads),
            bk=zeros(rank_k, dim_b),
            ck=zeros(rank_k, dim_c),
            av=zeros(rank_v, heads),
            bv=zeros(rank_v, dim_b),
            cv=zeros(rank_v, dim_c),
        )
    keeps_a = kind is not AttentionKind.TPA_NC_A
    keeps_b = kind is not AttentionKind.TPA_NC_B
    shared_b = cfg.shared_b and kind is AttentionKind.TPA
    return TPACache(
        ak=zeros(rank_k, heads) if keeps_a else None,
        bk=zeros(rank_k, dim) if keeps_b else None,
        av=zeros(rank_v, heads) if keeps_a else None,
        bv=zeros(rank_v, dim) if keeps_b and not shared_b else None,
    )


def update_cache(cache: C, new: C, index: ArrayLike) -> C:
    """Writes the entries of T new tokens at rows ``index .. index + T − 1``.

    A step that donates its cache writes in place.

    Args:
      cache: arrays [B, M, ...].
      new: the same class with arrays [B, T, ...], T ≤ M.
      index: int32, a scalar or [B] (a row of its own for each sequence). New rows must all
        lie in 0..M−1. Where ``index`` is traced (under ``jit``, ``vmap``) that cannot be
        checked, and a sequence whose rows do not fit is left as it was.

    Returns:
      The cache with those rows replaced, in the dtypes of ``cache``.

    Raises:
      ValueError: ``new`` is of another class or does not fit, ``index`` is neither a scalar
        nor [B], or the rows that it names lie outside of the cache.

    >>> cache = KVCache(k=jnp.zeros((1, 4, 1, 2)), v=jnp.zeros((1, 4, 1, 2)))
    >>> new = KVCache(k=jnp.ones((1, 1, 1, 2)), v=jnp.ones((1, 1, 1, 2)))
    >>> update_cache(cache, new, 2).k[0, :, 0, 0].tolist()
    [0.0, 0.0, 1.0, 0.0]
    """
    if type(new) is not type(cache) or _kept(new) != _kept(cache):
        raise ValueError(
            f"new is a {type(new).__name__} that keeps {_kept(new)}, needs a "
            f"{type(cache).__name__} that keeps {_kept(cache)}"
        )
    given, index = index, jnp.asarray(index)
    batch, length = jax.tree.leaves(cache)[0].shape[:2]
    if index.shape not in ((), (batch,)) or not jnp.issubdtype(index.dtype, jnp.integer):
        raise ValueError(f"index is {index.dtype} of shape {index.shape}, needs int32 () or [B]")
    for old, rows in zip(jax.tree.leaves(cache), jax.tree.leaves(new), strict=True):
        fits = rows.ndim == old.ndim and rows.shape[1] <= old.shape[1]
        if not fits or rows.shape[:1] + rows.shape[2:] != old.shape[:1] + old.shape[2:]:
            raise ValueError(
                f"new has an array of shape {rows.shape}, needs {old.shape} with at most "
                f"{old.shape[1]} tokens on axis 1"
            )
    if not isinstance(given, jax.core.Tracer):
        first, last = int(np.min(given)), int(np.max(given)) + jax.tree.leaves(new)[0].shape[1] - 1
        if first < 0 or last >= length:
            raise ValueError(
                f"index={np.asarray(given).tolist()} needs rows {first} to {last}, the cache has "
                f"0 to {length - 1}"
            )
    where = jnp.stack([jnp.arange(batch), jnp.broadcast_to(index, (batch,))], axis=1)
    return jax.tree.map(
        lambda old, rows: _scatter_rows(old, rows.astype(old.dtype), where), cache, new
    )


def _scatter_rows(old: jax.Array, rows: jax.Array, where: jax.Array) -> jax.Array:
    """``old`` [B, M, ...] with ``rows`` [B, T, ...] at the (sequence, row) pairs of ``where``."""
    # The last update lies outside and is dropped. Without it a single sequence would compile
    # to a dynamic-update-slice, which XLA's CPU compiler then fuses into each of its readers,
    # with a copy of the whole cache for every one of them.
    outside = jnp.array([[old.shape[0], 0]], where.dtype)
    return jax.lax.scatter(
        old,
        jnp.concatenate([where, outside]),
        jnp.concatenate([rows, rows[:1]]),
        jax.lax.ScatterDimensionNumbers(
            update_window_dims=tuple(range(1, old.ndim)),
            inserted_window_dims=(0,),
            scatter_dims_to_operand_dims=(0, 1),
        ),
        indices_are_sorted=True,
        unique_indices=True,
        mode=jax.lax.GatherScatterMode.FILL_OR_DROP,
    )


def first_row(positions: jax.Array) -> jax.Array:
    """Row of the first new token, as ``update_cache`` takes it: [] of [T], [B] of [B, T]."""
    return positions[..., 0]


def _kept(cache: Cache) -> list[str]:
    return [name for name, value in vars(cache).items() if value is not None]
