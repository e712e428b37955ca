"""Tensor Product Attention: queries, keys and values as sums of rank-one terms per token.

Zhang et al., Tensor Product Attention Is All You Need, NeurIPS 2025, arXiv:2501.06425.

    Q_t = 1/R_Q Σ_r a^Q_r(x_t) ⊗ b^Q_r(x_t)   [H, D],   likewise K_t and V_t,

with head-side factors a_r ∈ R^H and feature-side factors b_r ∈ R^D linear in x_t. RoPE acts on
features, so rotating b^Q and b^K is rotating Q and K, and only factors need to be cached.
Here: the factors and their variants, the slices they assemble to, and causal attention over a
whole sequence. The decoding step over a cache is in ``tpa_decode.py``.
"""

import enum
import math
from collections.abc import Mapping

import jax
import jax.numpy as jnp
from flax import struct

from neurips25.attention.config import AttentionConfig, HeadActivation
from neurips25.attention.softmax import check_mask, rotate, softmax_attention
from neurips25.nn.enums import parse_enum


class TPAImpl(enum.StrEnum):
    """How :func:`tpa_attention` computes the same numbers."""

    MATERIALIZED = "materialized"  # form Q, K, V, then ordinary attention
    FACTORED = "factored"  # never form them; memory T² R_Q R_K


@struct.dataclass
class TPAFactors:
    """Factors of T queries and S keys and values (S = T within one sequence)."""

    aq: jax.Array
    """[B, T, R_Q, H]"""
    bq: jax.Array
    """[B, T, R_Q, D], rotated"""
    ak: jax.Array
    """[B, S, R_K, H]"""
    bk: jax.Array
    """[B, S, R_K, D], rotated"""
    av: jax.Array
    """[B, S, R_V, H]"""
    bv: jax.Array
    """[B, S, R_V, E]"""


def tpa_factors(
    params: Mapping[str, jax.Array],
    x: jax.Array,
    cfg: AttentionConfig,
    positions: jax.Array,
    rope: bool = True,
) -> TPAFactors:
    """The six factors of each token.

    What ``params`` holds decides the variant: ``a_k`` in place of ``wa_k`` is a head factor
    that does not depend on the token (non-contextual A), ``b_k`` in place of ``wb_k`` such a
    feature factor (non-contextual B, still rotated by position), ``wb_kv`` in place of
    ``wb_k`` and ``wb_v`` one that keys and values share.

    Args:
      params: for s in q, k, v: ``wa_s`` [d, R_s, H] or ``a_s`` [R_s, H], and ``wb_s``
        [d, R_s, D] or ``b_s`` [R_s, D]; or ``wb_kv`` [d, R_K, D].
      x: [B, T, d].
      cfg: head_activation (applied to every head factor), rope options and the compute dtype
        are read.
      positions: [T] or [B, T] int32.
      rope: False leaves ``bq`` and ``bk`` un-rotated.

    Returns:
      The factors, with S = T, in ``cfg.dtype``.

    Raises:
      ValueError: a parameter is missing or does not fit ``x``.

    Source: arXiv:2501.06425, sec. 3.1, 3.2 and 4.
    """
    x = x.astype(cfg.dtype)
    bq = feature_factor(params, "q", x, cfg)
    bk, bv = feature_factor(params, "k", x, cfg), feature_factor(params, "v", x, cfg)
    if rope:
        bq, bk = rotate(bq, positions, cfg), rotate(bk, positions, cfg)
    return TPAFactors(
        aq=head_factor(params, "q", x, cfg),
        bq=bq,
        ak=head_factor(params, "k", x, cfg),
        bk=bk,
        av=head_factor(params, "v", x, cfg),
        bv=bv,
    )


def head_factor(
    params: Mapping[str, jax.Array], side: str, x: jax.Array, cfg: AttentionConfig
) -> jax.Array:
    """The a of "q", "k" or "v" after its activation: [B, T, R, H] for ``x`` [B, T, d]."""
    return activate_heads(_factor(params, f"wa_{side}", f"a_{side}", x), cfg)


def activate_heads(a: jax.Array, cfg: AttentionConfig) -> jax.Array:
    """``cfg.head_activation`` of head-side factors [..., R, H]."""
    if cfg.head_activation is HeadActivation.SIGMOID:
        return jax.nn.sigmoid(a)
    if cfg.head_activation is HeadActivation.SOFTMAX:
        wide = a.astype(jnp.promote_types(a.dtype, jnp.float32))
        return jax.nn.softmax(wide, axis=-1).astype(a.dtype)
    return a


def feature_factor(
    params: Mapping[str, jax.Array], side: str, x: jax.Array, cfg: AttentionConfig
) -> jax.Array:
    """The un-rotated b of "q", "k" or "v": [B, T, R, D] for ``x`` [B, T, d]."""
    shared = side in ("k", "v") and "wb_kv" in params
    return _factor(params, "wb_kv" if shared else f"wb_{side}", f"b_{side}", x)


def assemble(a: jax.Array, b: jax.Array) -> jax.Array:
    """The slice of each token, 1/R Σ_r a_r ⊗ b_r.

    Args:
      a: [..., R, H].
      b: [..., R, D].

    Returns:
      [..., H, D].

    Raises:
      ValueError: ``b`` has other leading axes or another rank than ``a``.

    Source: arXiv:2501.06425, eq. 3.1.

    >>> assemble(jnp.array([[1.0, 2.0], [0.0, 2.0]]), jnp.array([[2.0, 4.0], [1.0, 1.0]])).tolist()
    [[1.0, 2.0], [3.0, 5.0]]
    """
    if a.ndim < 2 or b.ndim != a.ndim or b.shape[:-1] != a.shape[:-1]:
        raise ValueError(f"b has shape {b.shape}, needs {(*a.shape[:-1], 'D')} to go with a")
    return jnp.einsum("...rh,...rd->...hd", a, b) / a.shape[-2]


def tpa_attention(
    factors: TPAFactors,
    mask: jax.Array | None = None,
    impl: TPAImpl | str = TPAImpl.MATERIALIZED,
) -> jax.Array:
    """softmax(Q Kᵀ / √D) V for each head, from factors.

    Args:
      factors: T queries and S keys.
      mask: bool [T, S] or [B, T, S], True where a query may look; None is causal (S = T).
      impl: "materialized" forms Q, K and V; "factored" contracts the features first,
        P = b^Q·b^K [B, T, S, R_Q, R_K] shared by all heads, and forms neither.

    Returns:
      [B, T, H, E] of the dtype of the factors; the softmax is in float32 at least.

    Raises:
      ValueError: factors or mask that do not fit each other, or another ``impl``.

    Source: arXiv:2501.06425, sec. 3 and algorithm 1.

    It is a function of arrays, to be used inside any ``jit``, ``grad`` or ``vmap``:

    >>> def loss(x, dtype):
    ...     draw = jax.random.normal(jax.random.key(0), (2, 5, 3, 4), dtype)
    ...     f = TPAFactors(draw, draw, x, draw, draw, draw)
    ...     return tpa_attention(f).astype(jnp.float32).sum()
    >>> for dtype in (jnp.float32, jnp.bfloat16):
    ...     xs = jnp.ones((7, 2, 5, 3, 4), dtype)  # 7 problems of B=2, T=5, R=3, H=D=4
    ...     grad = jax.jit(jax.vmap(jax.grad(lambda x: loss(x, dtype))))(xs)
    ...     print(grad.shape, grad.dtype, bool(jnp.isfinite(grad).all()))
    (7, 2, 5, 3, 4) float32 True
    (7, 2, 5, 3, 4) bfloat16 True
    """
    impl = parse_enum(TPAImpl, impl, "impl")
    _check_factors(factors)
    batch, time = factors.aq.shape[:2]
    length = factors.ak.shape[1]
    if mask is None:
        if time != length:
            raise ValueError(f"mask is needed for {time} queries over {length} keys")
        mask = jnp.tril(jnp.ones((time, time), bool))
    check_mask(mask, batch, time, length)
    if impl is TPAImpl.FACTORED:
        return _factored_attention(factors, mask)
    q, k = assemble(factors.aq, factors.bq), assemble(factors.ak, factors.bk)
    return softmax_attention(q, k, assemble(factors.av, factors.bv), mask)


def posthoc_rope_attention(
    factors: TPAFactors,
    cfg: AttentionConfig,
    positions: jax.Array,
    mask: jax.Array | None = None,
) -> jax.Array:
    """:func:`tpa_attention` with the assembled Q and K rotated instead of their factors.

    The same numbers at more cost (theorem 3.1 of the paper); for checkpoints and comparisons
    that follow this order.

    Args:
      factors: un-rotated, from ``tpa_factors(..., rope=False)``.
      cfg: rope options are read.
      positions: [T] or [B, T] int32.
      mask: bool [T, T] or [B, T, T]; None is causal.

    Returns:
      [B, T, H, E].
    """
    q = rotate(assemble(factors.aq, factors.bq), positions, cfg)
    k = rotate(assemble(factors.ak, factors.bk), positions, cfg)
    if mask is None:
        mask = jnp.tril(jnp.ones((q.shape[1], k.shape[1]), bool))
    return softmax_attention(q, k, assemble(factors.av, factors.bv), mask)


def _factored_attention(f: TPAFactors, mask: jax.Array) -> jax.Array:
    rank_q, rank_k, rank_v = f.aq.shape[2], f.ak.shape[2], f.av.shape[2]
    compute = jnp.promote_types(f.aq.dtype, jnp.float32)
    shared = jnp.einsum("bqrd,bksd->bqkrs", f.bq, f.bk, preferred_element_type=compute)
    aq = f.aq.astype(compute) / (rank_q * rank_k * math.sqrt(f.bq.shape[-1]))
    by_rank = jnp.einsum("bqrh,bqkrs->bhqks", aq, shared)
    logits = jnp.einsum("bhqks,bksh->bhqk", by_rank, f.ak.astype(compute))
    mask = mask[None, None] if mask.ndim == 2 else mask[:, None]
    weights = jax.nn.softmax(jnp.where(mask, logits, jnp.finfo(compute).min), axis=-1)
    av = f.av.astype(compute) / rank_v
    by_rank = jnp.einsum("bhqk,bkuh->bhqku", weights, av).astype(f.bv.dtype)
    out = jnp.einsum("bhqku,bkue->bqhe", by_rank, f.bv, preferred_element_type=compute)
    return out.astype(f.aq.dtype)


def _factor(
    params: Mapping[str, jax.Array], contextual: str, constant: str, x: jax.Array
) -> jax.Array:
    if constant in params:
        value = params[constant].astype(x.dtype)
        if value.ndim != 2:
            raise ValueError(f"params[{constant!r}] has shape {value.shape}, needs [R, H or D]")
        return jnp.broadcast_to(value, (*x.shape[:2], *value.shape))
    if contextual not in params:
        raise ValueError(f"params has neither {contextual!r} nor {constant!r}: {sorted(params)}")
    weight = params[contextual].astype(x.dtype)
    if x.ndim != 3 or weight.ndim != 3 or weight.shape[0] != x.shape[-1]:
        raise ValueError(
            f"params[{contextual!r}] has shape {weight.shape}, needs [d, R, H or D] with the d of "
            f"x [B, T, d] of shape {x.shape}"
        )
    return jnp.einsum("btd,drn->btrn", x, weight)


def _check_factors(f: TPAFactors) -> None:
    for name in ("aq", "bq", "ak", "bk", "av", "bv"):
        if getattr(f, name).ndim != 4:
            raise ValueError(f"factors.{name} has shape {getattr(f, name).shape}, needs 4 axes")
    batch, _, _, heads = f.aq.shape
    length, dim = f.ak.shape[1], f.bq.shape[3]
    rank_k, rank_v = f.ak.shape[2], f.av.shape[2]
    needed = {
        "bq": (*f.aq.shape[:3], dim),
        "ak": (batch, length, rank_k, heads),
        "bk": (batch, length, rank_k, dim),
        "av": (batch, length, rank_v, heads),
        "bv": (batch, length, rank_v, f.bv.shape[3]),
    }
    for name, shape in needed.items():
        if getattr(f, name).shape != shape:
            raise ValueError(f"factors.{name} has shape {getattr(f, name).shape}, needs {shape}")
