"""Layers and array helpers that two or more methods share."""

from neurips25.nn.initializers import fan_in_uniform, uniform_init, xavier_uniform_bound
from neurips25.nn.mlp import SwiGLU, swiglu
from neurips25.nn.norms import RMSNorm, rms_norm
from neurips25.nn.partition import constrain_batch, is_partitioned
from neurips25.nn.rope import RopeStyle, apply_rope, rope_frequencies

__all__ = [
    "RMSNorm",
    "RopeStyle",
    "SwiGLU",
    "apply_rope",
    "constrain_batch",
    "fan_in_uniform",
    "is_partitioned",
    "rms_norm",
    "rope_frequencies",
    "swiglu",
    "uniform_init",
    "xavier_uniform_bound",
]
