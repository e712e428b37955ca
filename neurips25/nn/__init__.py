"""Layers and array helpers that two or more methods share."""

from neurips25.nn.enums import parse_enum
from neurips25.nn.initializers import fan_in_uniform, uniform_init, xavier_uniform_bound
from neurips25.nn.masked import masked_mean
from neurips25.nn.mlp import SwiGLU, swiglu
from neurips25.nn.norms import RMSNorm, rms_norm
from neurips25.nn.partition import constrain_batch, is_partitioned
from neurips25.nn.rope import RopeStyle, apply_rope, rope_frequencies
from neurips25.nn.torch_io import (
    TorchEntry,
    dense_entry,
    params_from_torch,
    params_to_torch,
    prefixed_entries,
    read_torch_state,
    same_entry,
)

__all__ = [
    "RMSNorm",
    "RopeStyle",
    "SwiGLU",
    "TorchEntry",
    "apply_rope",
    "constrain_batch",
    "dense_entry",
    "fan_in_uniform",
    "is_partitioned",
    "masked_mean",
    "params_from_torch",
    "params_to_torch",
    "parse_enum",
    "prefixed_entries",
    "read_torch_state",
    "rms_norm",
    "rope_frequencies",
    "same_entry",
    "swiglu",
    "uniform_init",
    "xavier_uniform_bound",
]
