"""Token mixers: softmax attention and what replaces it, with their caches and their costs."""

from neurips25.attention.accounting import (
    HeadMatch,
    attention_param_count,
    cache_bytes,
    cache_numbers_per_token,
    decode_flops,
    decode_macs_per_token,
    match_heads,
)
from neurips25.attention.cache import (
    KVCache,
    LatentCache,
    ThirdOrderCache,
    TPACache,
    init_cache,
    update_cache,
)
from neurips25.attention.config import (
    AttentionConfig,
    AttentionKind,
    HeadActivation,
    InitScheme,
)
from neurips25.attention.mla import MultiheadLatentAttention, mla_attention, mla_decode
from neurips25.attention.softmax import (
    GroupedQueryAttention,
    MultiHeadAttention,
    cached_attention,
    causal_attention,
    grouped_query_attention,
    softmax_attention,
)
from neurips25.nn.rope import RopeStyle, apply_rope

__all__ = [
    "AttentionConfig",
    "AttentionKind",
    "GroupedQueryAttention",
    "HeadActivation",
    "HeadMatch",
    "InitScheme",
    "KVCache",
    "LatentCache",
    "MultiHeadAttention",
    "MultiheadLatentAttention",
    "RopeStyle",
    "TPACache",
    "ThirdOrderCache",
    "apply_rope",
    "attention_param_count",
    "cache_bytes",
    "cache_numbers_per_token",
    "cached_attention",
    "causal_attention",
    "decode_flops",
    "decode_macs_per_token",
    "grouped_query_attention",
    "init_cache",
    "match_heads",
    "mla_attention",
    "mla_decode",
    "softmax_attention",
    "update_cache",
]
