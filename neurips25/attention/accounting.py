"""What a layer costs: cached numbers, parameters, multiply-adds of a decoding step.

The formulas of arXiv:2501.06425 (table 1 and its decoding costs), with h heads of d_h features.
Where the paper has none (shared b, third order, the decoding cost of TPA-KVonly) they are
derived the same way and say so.
"""

import math
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax.typing import DTypeLike

from neurips25.attention.config import (
    SOFTMAX_KINDS,
    AttentionConfig,
    AttentionKind,
    num_kv_heads,
)
from neurips25.nn.enums import parse_enum


def cache_numbers_per_token(kind: AttentionKind | str, cfg: AttentionConfig) -> int:
    """Numbers cached for one token in one layer.

    MHA/MQA/GQA 2 G d_h; MLA d_c + d_h^R; TPA and TPA-KVonly (R_K + R_V)(h + d_h), with a shared
    b R_K (2h + d_h); non-contextual A (R_K + R_V) d_h; non-contextual B (R_K + R_V) h; third
    order (R_K + R_V)(h + d_b + d_c).

    Source: arXiv:2501.06425, table 1; shared b and third order derived.

    >>> cfg = AttentionConfig(n_embd=768, n_head=34, head_dim=64)
    >>> cache_numbers_per_token("tpa", cfg)
    392
    """
    kind = parse_enum(AttentionKind, kind, "kind")
    heads, dim, ranks = cfg.n_head, cfg.head_dim, cfg.rank_k + cfg.rank_v
    if kind in SOFTMAX_KINDS:
        return 2 * num_kv_heads(kind, cfg) * dim
    if kind is AttentionKind.MLA:
        return cfg.kv_latent_dim + cfg.rope_head_dim
    if kind is AttentionKind.TPA_NC_A:
        return ranks * dim
    if kind is AttentionKind.TPA_NC_B:
        return ranks * heads
    if kind is AttentionKind.TPA3:
        return ranks * (heads + cfg.factor_dim_b + cfg.factor_dim_c)
    if kind is AttentionKind.TPA and cfg.shared_b:
        return cfg.rank_k * (2 * heads + dim)
    return ranks * (heads + dim)


def cache_bytes(
    kind: AttentionKind | str,
    cfg: AttentionConfig,
    batch: int,
    max_len: int,
    n_layer: int = 1,
    dtype: DTypeLike = jnp.float32,
) -> int:
    """Bytes of the whole cache: numbers per token × item size × layers × tokens × batch.

    >>> cfg = AttentionConfig(n_embd=768, n_head=34, head_dim=64)
    >>> cache_bytes("tpa", cfg, batch=1, max_len=1024, n_layer=12, dtype=jnp.bfloat16)
    9633792
    """
    per_token = cache_numbers_per_token(kind, cfg) * jnp.dtype(dtype).itemsize
    return per_token * n_layer * max_len * batch


def attention_param_count(kind: AttentionKind | str, cfg: AttentionConfig) -> int:
    """Parameters of one attention layer.

    Table 1 of the paper, and three things that it leaves out: the two RMSNorm vectors of MLA
    (d'_c + d_c numbers, as in the released code), the d_h numbers of the head-output norm where
    ``cfg.groupnorm``, and the variants shared b (one d × R_K d_h projection less) and third
    order (d_b + d_c in place of d_h for each factor).

    Source: arXiv:2501.06425, table 1.

    >>> cfg = AttentionConfig(n_embd=128, n_head=16, head_dim=16, rank_q=4)
    >>> attention_param_count("tpa", cfg), attention_param_count("mha", cfg)
    (65536, 131072)
    """
    kind = parse_enum(AttentionKind, kind, "kind")
    width, heads, dim = cfg.n_embd, cfg.n_head, cfg.head_dim
    ranks_kv = cfg.rank_k + cfg.rank_v
    ranks = cfg.rank_q + ranks_kv
    full = width * heads * dim  # one projection between the stream and all heads
    extra = dim if cfg.groupnorm else 0
    if kind in SOFTMAX_KINDS:
        return 2 * full + 2 * width * num_kv_heads(kind, cfg) * dim + extra
    if kind is AttentionKind.MLA:
        q_latent, kv_latent, rope_dim = cfg.q_latent_dim, cfg.kv_latent_dim, cfg.rope_head_dim
        queries = q_latent * (width + heads * (dim + rope_dim))
        keys_values = kv_latent * (width + 2 * heads * dim) + width * rope_dim
        return queries + keys_values + full + q_latent + kv_latent + extra
    if kind is AttentionKind.TPA_KVONLY:
        return width * ranks_kv * (heads + dim) + 2 * full + extra
    if kind is AttentionKind.TPA_NC_A:
        return ranks * (width * dim + heads) + full + extra
    if kind is AttentionKind.TPA_NC_B:
        return ranks * (width * heads + dim) + full + extra
    if kind is AttentionKind.TPA3:
        return width * ranks * (heads + cfg.factor_dim_b + cfg.factor_dim_c) + full + extra
    shared = width * cfg.rank_v * dim if cfg.shared_b else 0
    return width * ranks * (heads + dim) - shared + full + extra


def decode_macs_per_token(kind: AttentionKind | str, cfg: AttentionConfig) -> int:
    """Multiply-adds that one decoding step spends on each cached token.

    MHA/MQA/GQA 2 h d_h; MLA (absorbed) h (2 d_c + d_h^R); TPA
    R_Q R_K d_h + h R_Q R_K + h R_V d_h. Projections of the new token, the softmax and the
    rotation of a shared b are not counted; constant factors of the non-contextual variants count
    like cached ones. Derived here: TPA-KVonly h R_K d_h + h R_K + h R_V d_h; third order
    R_Q R_K (d_b + d_c + 1) + h R_Q R_K + (h + 1) R_V d_h, where the ones are the products of the
    b and c parts, formed once for all heads.

    Source: the decoding costs of arXiv:2501.06425.

    >>> cfg = AttentionConfig(n_embd=2048, n_head=32, head_dim=64, rank_q=16, rank_k=1, rank_v=1)
    >>> decode_macs_per_token("mha", cfg), decode_macs_per_token("tpa", cfg)
    (4096, 3584)
    """
    kind = parse_enum(AttentionKind, kind, "kind")
    heads, dim = cfg.n_head, cfg.head_dim
    rank_qk = cfg.rank_q * cfg.rank_k
    if kind in SOFTMAX_KINDS:
        return 2 * heads * dim
    if kind is AttentionKind.MLA:
        return heads * (2 * cfg.kv_latent_dim + cfg.rope_head_dim)
    if kind is AttentionKind.TPA_KVONLY:
        return heads * (cfg.rank_k * dim + cfg.rank_k + cfg.rank_v * dim)
    if kind is AttentionKind.TPA3:
        scores = rank_qk * (cfg.factor_dim_b + cfg.factor_dim_c + 1) + heads * rank_qk
        return scores + (heads + 1) * cfg.rank_v * dim
    return rank_qk * dim + heads * rank_qk + heads * cfg.rank_v * dim


def decode_flops(kind: AttentionKind | str, cfg: AttentionConfig, length: int) -> int:
    """Floating-point operations of one decoding step of one sequence over ``length`` tokens.

    2 × :func:`decode_macs_per_token` × ``length``: what the method needs. The step for MHA and
    GQA on CPU executes more, to read the cache once (see ``softmax.cached_attention``).
    """
    return 2 * decode_macs_per_token(kind, cfg) * length


class HeadMatch(NamedTuple):
    """Heads that meet a parameter budget."""

    real: float
    """Solution of the parameter formula."""
    heads: int
    """Nearest integer (for GQA the nearest multiple of the groups), at least one."""
    params: int
    """Parameters of one layer with ``heads``."""
    mismatch: float
    """``params / budget − 1``."""


def match_heads(
    kind: AttentionKind | str, d: int, d_h: int, budget: int, **ranks: Any
) -> HeadMatch:
    """Solves ``attention_param_count = budget`` for the number of heads.

    Args:
      kind: of the layer.
      d: width of the residual stream.
      d_h: features per head.
      budget: parameters per layer, for example 4 d² of an MHA with h d_h = d.
      **ranks: further fields of :class:`AttentionConfig` (``rank_q``, ``num_kv_groups``,
        ``kv_latent_dim``, ...).

    Returns:
      The real solution, its rounding, and what the rounding costs.

    Raises:
      ValueError: a budget that not even zero heads meet, or a field out of its range.

    Source: arXiv:2501.06425, table 1; the paper's own rounding is not uniform.

    >>> match_heads("tpa", 128, 16, 4 * 128**2, rank_q=4, rank_k=2, rank_v=2)
    HeadMatch(real=16.0, heads=16, params=65536, mismatch=0.0)
    """
    kind = parse_enum(AttentionKind, kind, "kind")
    step = ranks.get("num_kv_groups", 1) if kind is AttentionKind.GQA else 1

    def count(heads: int) -> int:
        cfg = AttentionConfig(n_embd=d, n_head=heads, head_dim=d_h, attention=kind, **ranks)
        return attention_param_count(kind, cfg)

    # The count is affine in the heads for every kind.
    slope = (count(2 * step) - count(step)) / step
    fixed = count(step) - slope * step
    if budget <= fixed:
        raise ValueError(
            f"budget={budget} is below the {fixed:.0f} parameters of {kind.value} without heads"
        )
    real = (budget - fixed) / slope
    heads = step * max(1, math.floor(real / step + 0.5))
    params = count(heads)
    return HeadMatch(real, heads, params, params / budget - 1.0)
