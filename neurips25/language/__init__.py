"""Language models: T6, text generation, checkpoints of the released PyTorch models."""

from neurips25.language.generate import (
    Generation,
    filter_top_k,
    filter_top_p,
    generate,
    sample_logits,
)
from neurips25.language.sharding import T6_RULES
from neurips25.language.t6 import (
    IGNORE_INDEX,
    T6LM,
    T6Block,
    T6Config,
    cross_entropy,
    init_lm_cache,
)
from neurips25.language.torch_params import t6_params_from_torch, t6_params_to_torch
from neurips25.nn.mlp import SwiGLU
from neurips25.nn.norms import RMSNorm

__all__ = [
    "IGNORE_INDEX",
    "T6LM",
    "T6_RULES",
    "Generation",
    "RMSNorm",
    "SwiGLU",
    "T6Block",
    "T6Config",
    "cross_entropy",
    "filter_top_k",
    "filter_top_p",
    "generate",
    "init_lm_cache",
    "sample_logits",
    "t6_params_from_torch",
    "t6_params_to_torch",
]
