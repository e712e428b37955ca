import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import safetensors.numpy

from neurips25.language import (
    T6LM,
    T6Config,
    cross_entropy,
    t6_params_from_torch,
    t6_params_to_torch,
)
from neurips25.training import load_params, save_params
from tests.attention.reference import layer_sizes, torch_state
from tests.language import models


def reference_config(arrays, kind):
    sizes = {name: int(arrays[f"cfg_{name}"]) for name in ("n_layer", "vocab_size")}
    return T6Config(**layer_sizes(arrays), **sizes, attention=kind)


@pytest.mark.parametrize(("file", "kind"), [("model_t6", "tpa"), ("model_llama_mha", "mha")])
def test_reference_models(golden, x64, file, kind):
    arrays = golden(f"tpa/{file}.npz")
    cfg = dataclasses.replace(reference_config(arrays, kind), dtype="float64")
    params = t6_params_from_torch(torch_state(arrays), cfg)
    params = jax.tree.map(lambda x: jnp.asarray(x, jnp.float64), params)
    logits = jax.jit(T6LM(cfg).apply)({"params": params}, jnp.asarray(arrays["idx"]))
    np.testing.assert_allclose(logits, arrays["logits"], atol=1e-4)
    loss, _ = cross_entropy(logits, jnp.asarray(arrays["targets"]))
    assert abs(float(loss) - float(arrays["loss"])) < 1e-5


def test_reference_model_in_float32(golden):
    arrays = golden("tpa/model_t6.npz")
    cfg = reference_config(arrays, "tpa")
    params = t6_params_from_torch(torch_state(arrays), cfg)
    logits = jax.jit(T6LM(cfg).apply)({"params": params}, jnp.asarray(arrays["idx"]))
    np.testing.assert_allclose(logits, arrays["logits"], atol=1e-4)


CONVERTIBLE = ["mha", "mqa", "gqa", "mla", "tpa", "tpa_kvonly", "groupnorm"]


@pytest.mark.parametrize("name", CONVERTIBLE)
def test_there_and_back_is_the_identity(name, tmp_path):
    cfg = models.config(name)
    params = models.params(name)
    state = t6_params_to_torch(params, cfg)
    assert state["transformer.h.0.mlp.c_fc1.weight"].shape == (cfg.ffn_hidden, cfg.n_embd)
    back = t6_params_from_torch(state, cfg)
    jax.tree.map(np.testing.assert_array_equal, params, back)
    path = tmp_path / "theirs.safetensors"
    safetensors.numpy.save_file(state, path)
    jax.tree.map(np.testing.assert_array_equal, params, t6_params_from_torch(path, cfg))
    save_params(tmp_path / "ours.safetensors", params)
    ours = load_params(tmp_path / "ours.safetensors")
    jax.tree.map(np.testing.assert_array_equal, params, ours)


def test_wrappers_of_compile_and_data_parallel_are_ignored():
    cfg = models.config("tpa")
    state = t6_params_to_torch(models.params("tpa"), cfg)
    wrapped = {f"_orig_mod.module.{k}": v for k, v in state.items()}
    jax.tree.map(
        np.testing.assert_array_equal, models.params("tpa"), t6_params_from_torch(wrapped, cfg)
    )


def test_what_does_not_fit_is_listed():
    cfg = models.config("tpa")
    state = t6_params_to_torch(models.params("tpa"), cfg)
    state["transformer.h.0.attn.c_proj.weight"] = np.zeros((3, 3))
    state["extra"] = state.pop("transformer.h.1.attn.c_qkv.W_A_q.weight")
    with pytest.raises(ValueError) as error:
        t6_params_from_torch(state, cfg)
    for part in (
        "this tpa model",
        "transformer.h.1.attn.c_qkv.W_A_q.weight is missing",
        "extra is not known",
        "transformer.h.0.attn.c_proj.weight has shape (3, 3), needs (16, 24)",
    ):
        assert part in str(error.value)
    state = t6_params_to_torch(models.params("tpa"), cfg)
    state["lm_head.weight"] = state["lm_head.weight"] + 1
    with pytest.raises(ValueError, match="not tied"):
        t6_params_from_torch(state, cfg)
    for name in ("tpa_nc_a", "tpa3", "shared_b"):
        with pytest.raises(ValueError, match="no counterpart among the released"):
            t6_params_to_torch(models.params(name), models.config(name))
