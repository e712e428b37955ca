"""AttentionConfig: what it accepts and how it says no."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

from neurips25.attention.config import (
    AttentionConfig,
    AttentionKind,
    HeadActivation,
    InitScheme,
    num_kv_heads,
)
from neurips25.nn import RopeStyle

SIZES = {"n_embd": 32, "n_head": 6, "head_dim": 8}


def test_text_becomes_enums_and_dtypes():
    cfg = AttentionConfig(
        **SIZES,
        attention="tpa_nc_a",
        head_activation="sigmoid",
        rope_style="interleaved",
        init="repo",
        dtype="bfloat16",
        rope_dtype="bfloat16",
    )
    assert cfg.attention is AttentionKind.TPA_NC_A
    assert cfg.head_activation is HeadActivation.SIGMOID
    assert cfg.rope_style is RopeStyle.INTERLEAVED
    assert cfg.init is InitScheme.REPO
    assert cfg.dtype == cfg.rope_dtype == jnp.bfloat16


def test_hashable_and_comparable():
    a, b = (AttentionConfig(**SIZES, dtype=d) for d in (jnp.float32, "float32"))
    assert a == b
    assert hash(a) == hash(b)
    assert dataclasses.replace(a, n_head=np.int64(4)).n_head == 4


def test_unknown_kind_lists_the_kinds_and_the_nearest():
    with pytest.raises(ValueError, match=r"mha, .*tpa3; did you mean 'tpa_kvonly'") as error:
        AttentionConfig(**SIZES, attention="tpa_kvoly")
    assert all(kind.value in str(error.value) for kind in AttentionKind)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rank_k": 0}, "rank_k=0 must be an integer >= 1"),
        ({"n_head": 2.0}, "n_head=2.0 must be an integer"),
        ({"n_head": True}, "n_head=True must be an integer"),
        ({"head_dim": 7}, "head_dim=7 must be even"),
        ({"attention": "gqa", "num_kv_groups": 4}, "n_head=6 must be a multiple of num_kv_groups"),
        ({"attention": "mla", "rope_head_dim": 5}, "rope_head_dim=5 must be even"),
        ({"attention": "tpa3", "factor_dim_b": 3}, "factor_dim_b=3 must be even"),
        ({"attention": "tpa3", "factor_dim_b": 6}, "head_dim=8 must be a multiple of"),
        ({"shared_b": True, "rank_k": 1}, "rank_k == rank_v, got 1 and 2"),
        ({"shared_b": True, "attention": "mha"}, "shared_b needs attention='tpa', not 'mha'"),
        ({"rope_base": 1.0}, "rope_base"),
        ({"rope_fraction": 0.0}, "rope_fraction"),
        ({"rope_decay": 1.5}, "rope_decay"),
        ({"dtype": jnp.int32}, "dtype=int32 must be a floating-point"),
        ({"rope_dtype": jnp.int32}, "rope_dtype=int32 must be a floating-point"),
        ({"init": "torch"}, "init='torch' is not one of paper, repo"),
    ],
)
def test_bad_options_are_named(change, message):
    with pytest.raises(ValueError, match=message):
        AttentionConfig(**{**SIZES, **change})


def test_key_value_heads():
    cfg = AttentionConfig(**SIZES, attention="gqa", num_kv_groups=3)
    assert [num_kv_heads(k, cfg) for k in ("mha", "gqa", "mqa")] == [6, 3, 1]
    with pytest.raises(ValueError, match="kind='mla'"):
        num_kv_heads("mla", cfg)


def test_third_order_dims():
    cfg = AttentionConfig(**SIZES, attention="tpa3", factor_dim_b=2)
    assert cfg.factor_dim_c == 4
