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
from neurips25.attention.modules import (
    self_attention,
)
from neurips25.attention.reductions import (
    noncontextual_gqa_factors,
    noncontextual_mha_factors,
    noncontextual_mqa_factors,
)
from neurips25.attention.softmax import (
    GroupedQueryAttention,
    MultiHeadAttention,
    cached_attention,
    causal_attention,
    grouped_query_attention,
    softmax_attention,
)
from neurips25.attention.third_order import (
    ThirdOrderTPASelfAttention,
    rope_third_order,
    third_order_assemble,
    third_order_self_attention,
)
from neurips25.attention.tpa import (
    TPAFactors,
    TPAImpl,
    assemble,
    posthoc_rope_attention,
    tpa_attention,
    tpa_factors,
)
from neurips25.attention.tpa_decode import (
    combine_partials,
    flash_tpa_decode,
    flash_tpa_decode_partial,
    flash_tpa_decode_rank1,
    flash_tpa_kvonly_decode,
)
from neurips25.attention.tpa_modules import (
    TPAKVOnlySelfAttention,
    TPASelfAttention,
    tpa_kvonly_self_attention,
    tpa_self_attention,
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
    "TPAFactors",
    "TPAImpl",
    "TPAKVOnlySelfAttention",
    "TPASelfAttention",
    "ThirdOrderCache",
    "ThirdOrderTPASelfAttention",
    "apply_rope",
    "assemble",
    "attention_param_count",
    "cache_bytes",
    "cache_numbers_per_token",
    "cached_attention",
    "causal_attention",
    "combine_partials",
    "decode_flops",
    "decode_macs_per_token",
    "flash_tpa_decode",
    "flash_tpa_decode_partial",
    "flash_tpa_decode_rank1",
    "flash_tpa_kvonly_decode",
    "grouped_query_attention",
    "init_cache",
    "match_heads",
    "mla_attention",
    "mla_decode",
    "noncontextual_gqa_factors",
    "noncontextual_mha_factors",
    "noncontextual_mqa_factors",
    "posthoc_rope_attention",
    "rope_third_order",
    "self_attention",
    "softmax_attention",
    "third_order_assemble",
    "third_order_self_attention",
    "tpa_attention",
    "tpa_factors",
    "tpa_kvonly_self_attention",
    "tpa_self_attention",
    "update_cache",
]
