"""MLA: golden arrays, absorbed decoding, caches, bad input."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from neurips25.attention import (
    AttentionConfig,
    LatentCache,
    MultiheadLatentAttention,
    init_cache,
    mla_decode,
    softmax_attention,
)
from neurips25.attention.mla import mla_keys_values
from tests.attention.reference import reference_layer
from tests.nn.uniform import assert_fills


def test_golden_float64(x64, golden):
    arrays = golden("tpa/attn_mla.npz")
    cfg, params, x = reference_layer(arrays, "mla", jnp.float64)
    y = jitted(cfg)({"params": params}, x)
    np.testing.assert_allclose(y, arrays["y_f64rope"], rtol=0, atol=1e-6)


def test_golden_rounded_tables(golden):
    arrays = golden("tpa/attn_mla.npz")
    cfg, params, x = reference_layer(arrays, "mla", jnp.float32, rope_dtype=jnp.bfloat16)
    y = jitted(cfg)({"params": params}, x)
    np.testing.assert_allclose(y, arrays["y_bf16rope"], rtol=0, atol=1e-4)
    exact = jitted(dataclasses.replace(cfg, rope_dtype=None))({"params": params}, x)
    assert np.abs(exact - arrays["y_bf16rope"]).max() > 1e-4


def random_layer(dtype=jnp.float64, **options):
    cfg = AttentionConfig(
        16,
        4,
        6,
        attention="mla",
        q_latent_dim=10,
        kv_latent_dim=8,
        rope_head_dim=4,
        dtype=dtype,
        **options,
    )
    rng = np.random.default_rng(0)
    x = jnp.asarray(rng.normal(size=(2, 9, 16)), dtype)
    shapes = jax.eval_shape(MultiheadLatentAttention(cfg).init, jax.random.key(0), x)
    params = jax.tree.map(lambda p: jnp.asarray(rng.normal(size=p.shape), dtype), shapes)
    return cfg, params, x


def jitted(cfg):
    return jax.jit(MultiheadLatentAttention(cfg).apply, static_argnames="decode")


@pytest.mark.parametrize("groupnorm", [False, True])
def test_decoding_step_by_step_equals_the_full_pass(x64, groupnorm):
    cfg, params, x = random_layer(groupnorm=groupnorm)
    apply = jitted(cfg)
    full = apply(params, x)
    cache = init_cache("mla", cfg, 2, 12, jnp.float64)
    for t in range(9):
        y, cache = apply(params, x[:, t : t + 1], jnp.full((2, 1), t), cache, decode=True)
        np.testing.assert_allclose(y, full[:, t : t + 1], rtol=0, atol=1e-11)


def test_prefill_then_decode_with_unequal_lengths(x64):
    cfg, params, x = random_layer()
    apply = jitted(cfg)
    full = apply(params, x)
    lengths = jnp.array([3, 5])
    prompt = x[:, :5].at[0, 3:].set(100.0)
    y, cache = apply(params, prompt, cache=init_cache("mla", cfg, 2, 12, jnp.float64))
    np.testing.assert_allclose(y[1], full[1, :5], rtol=0, atol=1e-11)
    for t in range(4):
        positions = (lengths + t)[:, None]
        token = jnp.take_along_axis(x, positions[..., None], axis=1)
        y, cache = apply(params, token, positions, cache, decode=True)
        expected = jnp.take_along_axis(full, positions[..., None], axis=1)
        np.testing.assert_allclose(y, expected, rtol=0, atol=1e-11)


def decode_inputs(dtype):
    shapes = [(2, 3, 4, 6), (2, 3, 4, 2), (2, 7, 8), (2, 7, 2), (8, 4, 12)]
    keys = jax.random.split(jax.random.key(3), 5)
    q_nope, q_rope, latent, k_rope, w_ukv = (
        jax.random.normal(k, s, dtype) for k, s in zip(keys, shapes, strict=True)
    )
    return q_nope, q_rope, LatentCache(latent=latent, k_rope=k_rope), w_ukv


@pytest.mark.parametrize(("dtype", "atol"), [(jnp.float64, 1e-12), (jnp.float32, 2e-5)])
def test_absorbed_equals_unabsorbed(x64, dtype, atol):
    q_nope, q_rope, cache, w_ukv = decode_inputs(dtype)
    positions = jnp.array([[0, 3, 6], [4, 5, 2]])
    absorbed = jax.jit(mla_decode)(q_nope, q_rope, cache, w_ukv, positions)
    keys, values = mla_keys_values(cache, w_ukv, head_dim=6)
    visible = jnp.arange(7) <= positions[..., None]
    plain = softmax_attention(jnp.concatenate([q_nope, q_rope], -1), keys, values, visible)
    assert absorbed.dtype == dtype
    np.testing.assert_allclose(absorbed, plain, rtol=0, atol=atol)


def test_outputs_do_not_see_the_future():
    cfg, params, x = random_layer(jnp.float32)
    first = lambda x: MultiheadLatentAttention(cfg).apply(params, x)[0].sum(-1)
    jacobian = jax.jit(jax.jacrev(first))(x)[:, 0]
    np.testing.assert_array_equal(np.abs(jacobian).max(-1)[np.triu_indices(9, 1)], 0.0)


def test_shifting_all_positions_changes_nothing(x64):
    cfg, params, x = random_layer()
    apply = jitted(cfg)
    a, b = (apply(params, x, jnp.arange(9) + s) for s in (0, 1000))
    np.testing.assert_allclose(a, b, rtol=0, atol=1e-10)


def test_start_of_the_projections():
    cfg = AttentionConfig(
        256, 4, 64, attention="mla", q_latent_dim=128, kv_latent_dim=64, rope_head_dim=16
    )
    x = jnp.zeros((1, 1, 256))
    params = jax.jit(MultiheadLatentAttention(cfg).init)(jax.random.key(0), x)["params"]
    np.testing.assert_array_equal(params["wo"], 0.0)
    for name in ("q_norm", "kv_norm"):
        np.testing.assert_array_equal(params[name], 1.0)
    for name, fan_in in {"w_dq": 256, "w_dkv": 256, "w_uq": 128, "w_ukv": 64}.items():
        assert_fills(params[name], fan_in**-0.5)


def test_half_precision_runs_in_its_dtype():
    cfg, params, x = random_layer(jnp.float32)
    params = jax.tree.map(lambda p: p / 3, params)
    exact = jitted(cfg)(params, x)
    low = dataclasses.replace(cfg, dtype=jnp.bfloat16)
    cache = init_cache("mla", low, 2, 9, jnp.bfloat16)
    y, cache = jitted(low)(params, x, cache=cache)
    assert y.dtype == cache.latent.dtype == jnp.bfloat16
    scale = np.abs(exact).max()
    np.testing.assert_allclose(y.astype(jnp.float32), exact, atol=0.05 * scale)


def test_bad_arguments_are_named():
    q_nope, q_rope, cache, w_ukv = decode_inputs(jnp.float32)
    positions = jnp.zeros((2, 3), jnp.int32)
    with pytest.raises(ValueError, match="q_rope has shape"):
        mla_decode(q_nope, q_rope[..., :1], cache, w_ukv, positions)
    with pytest.raises(ValueError, match=r"w_ukv has shape \(8, 4, 11\), needs \(8, 4, 12\)"):
        mla_decode(q_nope, q_rope, cache, w_ukv[..., :11], positions)
    with pytest.raises(ValueError, match="positions has shape"):
        mla_decode(q_nope, q_rope, cache, w_ukv, positions[:, 0])
    cfg, params, x = random_layer(jnp.float32)
    with pytest.raises(ValueError, match="decode=True needs"):
        MultiheadLatentAttention(cfg).apply(params, x, decode=True)
