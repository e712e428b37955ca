"""The released PyTorch layers: their outputs, and state dicts that do not fit."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from neurips25.attention import (
    AttentionConfig,
    attention_params_from_torch,
    attention_torch_entries,
    self_attention,
)
from neurips25.nn import params_to_torch
from tests.attention.reference import reference_layer

SIZES = {"n_embd": 12, "n_head": 6, "head_dim": 8, "num_kv_groups": 3}
KINDS = ["tpa", "tpa_kvonly", "mha", "gqa", "mqa", "mla"]


@pytest.mark.parametrize("kind", KINDS)
def test_reference_layers(golden, x64, kind):
    arrays = golden(f"tpa/attn_{kind}.npz")
    cfg, params, x = reference_layer(arrays, kind, "float64")
    y = jax.jit(self_attention(cfg).apply)({"params": params}, x)
    atol = 1e-6 if kind == "mla" else 1e-10
    np.testing.assert_allclose(y, arrays["y_f64rope"], rtol=0, atol=atol)


@pytest.mark.parametrize("kind", KINDS)
def test_entries_name_every_parameter_of_the_layer(kind):
    cfg = AttentionConfig(**SIZES, attention=kind, groupnorm=True)
    shapes = jax.eval_shape(self_attention(cfg).init, jax.random.key(0), jnp.zeros((1, 1, 12)))
    rng = np.random.default_rng(0)
    params = {n: rng.normal(size=s.shape) for n, s in shapes["params"].items()}
    state = params_to_torch(params, attention_torch_entries(cfg))
    assert len(state) == len(params)
    back = attention_params_from_torch(state, cfg)
    jax.tree.map(np.testing.assert_array_equal, back, params)


def test_a_layer_of_another_kind_is_refused_by_name():
    cfg = AttentionConfig(**SIZES)
    layer = {"c_proj.weight": np.zeros((12, 48)), "W": np.zeros(3)}
    with pytest.raises(ValueError, match=r"this tpa layer: .*W_A_q.weight is missing.*W is not"):
        attention_params_from_torch(layer, cfg)
    with pytest.raises(ValueError, match="attention='tpa3' has no counterpart"):
        attention_torch_entries(AttentionConfig(**SIZES, attention="tpa3"))
    with pytest.raises(ValueError, match="'tpa' with shared_b has no counterpart"):
        attention_torch_entries(AttentionConfig(**SIZES, shared_b=True))
