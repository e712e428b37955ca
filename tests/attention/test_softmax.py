"""MHA, GQA and MQA: golden arrays, decoding from a cache, masks, bad input."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from neurips25.attention import (
    AttentionConfig,
    GroupedQueryAttention,
    MultiHeadAttention,
    cached_attention,
    causal_attention,
    init_cache,
    softmax_attention,
)
from tests.attention.reference import reference_layer
from tests.nn.uniform import assert_fills

KINDS = ("mha", "gqa", "mqa")


def module_for(cfg):
    return (MultiHeadAttention if cfg.attention == "mha" else GroupedQueryAttention)(cfg)


@pytest.mark.parametrize("kind", KINDS)
def test_golden_float64(x64, golden, kind):
    arrays = golden(f"tpa/attn_{kind}.npz")
    cfg, params, x = reference_layer(arrays, kind, jnp.float64)
    y = jitted(cfg)({"params": params}, x)
    np.testing.assert_allclose(y, arrays["y_f64rope"], rtol=0, atol=1e-10)


@pytest.mark.parametrize("kind", KINDS)
def test_golden_rounded_tables(golden, kind):
    arrays = golden(f"tpa/attn_{kind}.npz")
    cfg, params, x = reference_layer(arrays, kind, jnp.float32, rope_dtype=jnp.bfloat16)
    y = jitted(cfg)({"params": params}, x)
    np.testing.assert_allclose(y, arrays["y_bf16rope"], rtol=0, atol=1e-4)
    exact = jitted(dataclasses.replace(cfg, rope_dtype=None))({"params": params}, x)
    assert np.abs(exact - arrays["y_bf16rope"]).max() > 1e-4


def random_layer(kind, dtype=jnp.float64, **options):
    """A layer with random weights (its output projection too) and an input [2, 9, 16]."""
    cfg = AttentionConfig(16, 4, 6, attention=kind, num_kv_groups=2, dtype=dtype, **options)
    rng = np.random.default_rng(0)
    x = jnp.asarray(rng.normal(size=(2, 9, 16)), dtype)
    shapes = jax.eval_shape(module_for(cfg).init, jax.random.key(0), x)
    params = jax.tree.map(lambda p: jnp.asarray(rng.normal(size=p.shape) / 3, dtype), shapes)
    return cfg, params, x


def jitted(cfg):
    return jax.jit(module_for(cfg).apply, static_argnames="decode")


@pytest.mark.parametrize("options", [{}, {"groupnorm": True, "rope_fraction": 0.5}])
@pytest.mark.parametrize("kind", KINDS)
def test_decoding_step_by_step_equals_the_full_pass(x64, kind, options):
    cfg, params, x = random_layer(kind, **options)
    apply = jitted(cfg)
    full = apply(params, x)
    cache = init_cache(kind, cfg, 2, 12, jnp.float64)
    for t in range(9):
        positions = jnp.full((2, 1), t)
        y, cache = apply(params, x[:, t : t + 1], positions, cache, decode=True)
        np.testing.assert_allclose(y, full[:, t : t + 1], rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_prefill_then_decode_with_unequal_lengths(x64, kind):
    cfg, params, x = random_layer(kind)
    apply = jitted(cfg)
    full = apply(params, x)
    cache = init_cache(kind, cfg, 2, 12, jnp.float64)
    lengths = jnp.array([3, 5])
    # The shorter sequence is padded on the right with tokens that must not be seen later.
    prompt = x[:, :5].at[0, 3:].set(100.0)
    y, cache = apply(params, prompt, cache=cache)
    np.testing.assert_allclose(y[0, :3], full[0, :3], rtol=0, atol=1e-12)
    np.testing.assert_allclose(y[1], full[1, :5], rtol=0, atol=1e-12)
    for t in range(4):
        positions = (lengths + t)[:, None]
        token = jnp.take_along_axis(x, positions[..., None], axis=1)
        y, cache = apply(params, token, positions, cache, decode=True)
        expected = jnp.take_along_axis(full, positions[..., None], axis=1)
        np.testing.assert_allclose(y, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_several_tokens_in_one_step(x64, kind):
    cfg, params, x = random_layer(kind)
    apply = jitted(cfg)
    full = apply(params, x)
    _, cache = apply(params, x[:, :4], cache=init_cache(kind, cfg, 2, 9, jnp.float64))
    y, _ = apply(params, x[:, 4:], jnp.arange(4, 9), cache, decode=True)
    np.testing.assert_allclose(y, full[:, 4:], rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_outputs_do_not_see_the_future(kind):
    cfg, params, x = random_layer(kind, jnp.float32)
    first = lambda x: module_for(cfg).apply(params, x)[0].sum(-1)
    jacobian = jax.jit(jax.jacrev(first))(x)[:, 0]
    seen = np.abs(jacobian).max(-1)
    np.testing.assert_array_equal(seen[np.triu_indices(9, 1)], 0.0)
    assert (seen[np.tril_indices(9)] > 0).all()


def test_shifting_all_positions_changes_nothing(x64):
    cfg, params, x = random_layer("gqa")
    a, b = (jitted(cfg)(params, x, jnp.arange(9) + s) for s in (0, 1000))
    np.testing.assert_allclose(a, b, rtol=0, atol=1e-10)


@pytest.mark.parametrize("kind", KINDS)
def test_start_of_the_projections(kind):
    cfg = AttentionConfig(256, 8, 64, attention=kind, num_kv_groups=2)
    x = jnp.zeros((1, 1, 256))
    params = jax.jit(module_for(cfg).init)(jax.random.key(0), x)["params"]
    np.testing.assert_array_equal(params["wo"], 0.0)
    for name in ("wq", "wk", "wv"):
        assert_fills(params[name], 256**-0.5)


def naive(q, k, v, mask, scale):
    """One head and one query at a time, in numpy."""
    q, k, v = (np.asarray(a, np.float64) for a in (q, k, v))
    out = np.zeros((*q.shape[:3], v.shape[-1]))
    repeat = q.shape[2] // k.shape[2]
    for b, t, h in np.ndindex(*q.shape[:3]):
        scores = np.where(mask[b, t], k[b, :, h // repeat] @ q[b, t, h] * scale, -np.inf)
        p = np.exp(scores - scores.max())
        out[b, t, h] = p / p.sum() @ v[b, :, h // repeat]
    return out


@pytest.fixture
def qkv(x64):
    shapes = [(2, 3, 6, 4), (2, 7, 2, 4), (2, 7, 2, 5)]
    keys = jax.random.split(jax.random.key(3), 3)
    return [jax.random.normal(k, s, jnp.float64) for k, s in zip(keys, shapes, strict=True)]


def test_softmax_attention_with_any_mask(qkv):
    q, k, v = qkv
    mask = jax.random.bernoulli(jax.random.key(4), 0.5, (2, 3, 7)).at[..., 0].set(True)
    got = softmax_attention(q, k, v, mask, scale=0.7)
    np.testing.assert_allclose(got, naive(q, k, v, np.asarray(mask), 0.7), atol=1e-14)
    everywhere = softmax_attention(q, k, v)
    np.testing.assert_allclose(
        everywhere, naive(q, k, v, np.ones((2, 3, 7), bool), 0.5), atol=1e-14
    )


def test_a_query_that_sees_nothing_gives_no_nan(qkv):
    q, k, v = qkv
    mask = jnp.ones((3, 7), bool).at[1].set(False)
    y, grad = jax.jit(jax.value_and_grad(lambda q: softmax_attention(q, k, v, mask).sum()))(q)
    assert np.isfinite(y)
    assert np.isfinite(grad).all()


@pytest.mark.parametrize("time", [1, 3])
def test_cached_attention_reads_up_to_its_position(qkv, time):
    q, k, v = qkv
    q = q[:, :time]
    positions = jnp.array([[0, 3, 6], [4, 5, 2]])[:, :time]
    mask = np.arange(7) <= np.asarray(positions)[..., None]
    # Rows behind the position may hold anything finite.
    garbage = np.arange(7)[None, :, None, None] > np.asarray(positions).max(1)[:, None, None, None]
    k, v = (jnp.where(garbage, 1e6, a) for a in (k, v))
    got = cached_attention(q, k, v, positions)
    np.testing.assert_allclose(got, naive(q, k, v, mask, 0.5), atol=1e-13)


@pytest.mark.parametrize("groups", [1, 2, 6])
def test_one_token_path_agrees_for_every_grouping(qkv, groups):
    q = qkv[0][:, :1]
    k, v = jax.random.normal(jax.random.key(5), (2, 2, 7, groups, 4), jnp.float64)
    positions = jnp.array([[6], [2]])
    mask = np.arange(7) <= np.asarray(positions)[..., None]
    np.testing.assert_allclose(
        cached_attention(q, k, v, positions), naive(q, k, v, mask, 0.5), atol=1e-14
    )


def test_half_precision_keeps_its_sums_in_float32():
    # 4096 equal weights: a sum kept in bfloat16 would stop growing at 256.
    q = jnp.zeros((1, 1, 2, 4), jnp.bfloat16)
    k = jnp.zeros((1, 4096, 2, 4), jnp.bfloat16)
    v = jnp.ones((1, 4096, 2, 4), jnp.bfloat16)
    y = cached_attention(q, k, v, jnp.full((1, 1), 4095))
    assert y.dtype == jnp.bfloat16
    np.testing.assert_array_equal(y.astype(jnp.float32), 1.0)


def test_large_scores_do_not_overflow_in_float16():
    q = jnp.full((1, 2, 1, 4), 200.0, jnp.float16)
    y = causal_attention(q, q, q)
    np.testing.assert_array_equal(y, q)


def test_bad_arguments_are_named():
    cfg, params, x = random_layer("gqa", jnp.float32)
    module = module_for(cfg)
    cache = init_cache("gqa", cfg, 2, 9)
    with pytest.raises(ValueError, match=r"x has shape \(2, 9, 15\), needs \[B, T, 16\]"):
        module.apply(params, x[..., :15])
    with pytest.raises(ValueError, match=r"positions has shape \(8,\)"):
        module.apply(params, x, jnp.arange(8))
    with pytest.raises(ValueError, match="decode=True needs a cache and the positions"):
        module.apply(params, x, cache=cache, decode=True)
    with pytest.raises(ValueError, match="decode=True needs a cache"):
        module.apply(params, x, jnp.arange(9), decode=True)
    with pytest.raises(ValueError, match="at most 9 tokens"):
        module.apply(params, jnp.zeros((2, 10, 16)), cache=cache)
    q = jnp.zeros((1, 2, 4, 6))
    with pytest.raises(ValueError, match="k has 3 heads"):
        causal_attention(q, q[:, :, :3], q[:, :, :3])
    with pytest.raises(ValueError, match="k has shape"):
        causal_attention(q, q[:, :1], q[:, :1])
    with pytest.raises(ValueError, match="v has shape"):
        causal_attention(q, q, q[:, :, :2])
    with pytest.raises(ValueError, match=r"mask is bool of shape \(2, 3\), needs bool \(2, 2\) or"):
        softmax_attention(q, q, q, jnp.ones((2, 3), bool))
    for mask in (jnp.zeros((2, 2)), jnp.ones((2, 2), jnp.int32)):
        with pytest.raises(
            ValueError, match=rf"mask is {mask.dtype} of shape \(2, 2\), needs bool"
        ):
            softmax_attention(q, q, q, mask)
    with pytest.raises(ValueError, match=r"positions has shape \(2,\)"):
        cached_attention(q, q, q, jnp.arange(2))
