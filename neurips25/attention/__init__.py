"""Token mixers: softmax attention and what replaces it, with their caches and their costs."""

from neurips25.attention import boolean_functions, constructions
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
from neurips25.attention.composition_tasks import (
    FunctionCompositionVariant,
    binary_relation_labels,
    contains_zero_rule,
    function_composition_label,
    make_binary_relation,
    make_function_composition,
    make_quotient_relation,
    quotient_relation_labels,
)
from neurips25.attention.config import (
    AttentionConfig,
    AttentionKind,
    HeadActivation,
    InitScheme,
)
from neurips25.attention.lower_bounds import (
    SplitAttention,
    auxiliary_split,
    disjointness_as_quotient,
    triangular_split,
)
from neurips25.attention.match3 import (
    make_match3,
    make_match3_splits,
    match3_labels,
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
from neurips25.attention.splitting_vc import (
    ShatteringCertificate,
    shatters,
    split_matrix,
    split_vc_dimension,
    vc_dimension,
    verify_certificate,
)
from neurips25.attention.strassen import (
    StrassenMethod,
    strassen_attention,
    strassen_denominators,
)
from neurips25.attention.strassen_matmul import (
    strassen_matmul,
)
from neurips25.attention.task_data import (
    IGNORED_LABEL,
    CompositionTask,
    TaskData,
    load_task,
    majority_accuracy,
    raw_features,
    save_task,
    split_validation,
    take,
)
from neurips25.attention.third_order import (
    third_order_attention,
)
from neurips25.attention.torch_params import attention_params_from_torch, attention_torch_entries
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
from neurips25.attention.tpa_third_order import (
    ThirdOrderTPASelfAttention,
    rope_third_order,
    third_order_assemble,
    third_order_self_attention,
)
from neurips25.attention.triangular import (
    triangular_attention,
)
from neurips25.attention.triple_encoder import (
    FieldEmbedding,
    ReLUFeedForward,
    TokenClassifier,
    TripleClassifier,
    TripleEncoder,
)
from neurips25.attention.triple_modules import (
    StandardSelfAttention,
    StrassenSelfAttention,
    ThirdOrderSelfAttention,
    TriangularSelfAttention,
    TripleAttention,
    projections_from_torch,
    standard_attention,
    triple_self_attention,
)
from neurips25.nn.rope import RopeStyle, apply_rope

__all__ = [
    "IGNORED_LABEL",
    "AttentionConfig",
    "AttentionKind",
    "CompositionTask",
    "FieldEmbedding",
    "FunctionCompositionVariant",
    "GroupedQueryAttention",
    "HeadActivation",
    "HeadMatch",
    "InitScheme",
    "KVCache",
    "LatentCache",
    "MultiHeadAttention",
    "MultiheadLatentAttention",
    "ReLUFeedForward",
    "RopeStyle",
    "ShatteringCertificate",
    "SplitAttention",
    "StandardSelfAttention",
    "StrassenMethod",
    "StrassenSelfAttention",
    "TPACache",
    "TPAFactors",
    "TPAImpl",
    "TPAKVOnlySelfAttention",
    "TPASelfAttention",
    "TaskData",
    "ThirdOrderCache",
    "ThirdOrderSelfAttention",
    "ThirdOrderTPASelfAttention",
    "TokenClassifier",
    "TriangularSelfAttention",
    "TripleAttention",
    "TripleClassifier",
    "TripleEncoder",
    "apply_rope",
    "assemble",
    "attention_param_count",
    "attention_params_from_torch",
    "attention_torch_entries",
    "auxiliary_split",
    "binary_relation_labels",
    "boolean_functions",
    "cache_bytes",
    "cache_numbers_per_token",
    "cached_attention",
    "causal_attention",
    "combine_partials",
    "constructions",
    "contains_zero_rule",
    "decode_flops",
    "decode_macs_per_token",
    "disjointness_as_quotient",
    "flash_tpa_decode",
    "flash_tpa_decode_partial",
    "flash_tpa_decode_rank1",
    "flash_tpa_kvonly_decode",
    "function_composition_label",
    "grouped_query_attention",
    "init_cache",
    "load_task",
    "majority_accuracy",
    "make_binary_relation",
    "make_function_composition",
    "make_match3",
    "make_match3_splits",
    "make_quotient_relation",
    "match3_labels",
    "match_heads",
    "mla_attention",
    "mla_decode",
    "noncontextual_gqa_factors",
    "noncontextual_mha_factors",
    "noncontextual_mqa_factors",
    "posthoc_rope_attention",
    "projections_from_torch",
    "quotient_relation_labels",
    "raw_features",
    "rope_third_order",
    "save_task",
    "self_attention",
    "shatters",
    "softmax_attention",
    "split_matrix",
    "split_validation",
    "split_vc_dimension",
    "standard_attention",
    "strassen_attention",
    "strassen_denominators",
    "strassen_matmul",
    "take",
    "third_order_assemble",
    "third_order_attention",
    "third_order_self_attention",
    "tpa_attention",
    "tpa_factors",
    "tpa_kvonly_self_attention",
    "tpa_self_attention",
    "triangular_attention",
    "triangular_split",
    "triple_self_attention",
    "update_cache",
    "vc_dimension",
    "verify_certificate",
]
