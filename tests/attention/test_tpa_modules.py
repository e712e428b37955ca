"""The factor-based layers: decoding equals the forward pass, parameters and their start."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from neurips25.attention import (
    AttentionConfig,
    attention_param_count,
    cache_numbers_per_token,
    init_cache,
    self_attention,
)
from tests.nn.uniform import assert_fills

SIZES = {
    "n_embd": 12,
    "n_head": 6,
    "head_dim": 8,
    "rank_q": 3,
    "rank_k": 2,
    "rank_v": 2,
    "factor_dim_b": 4,
}
VARIANTS = {
    "tpa": {"attention": "tpa"},
    "tpa_unequal_ranks": {"attention": "tpa", "rank_k": 1, "rank_v": 3},
    "tpa_kvonly": {"attention": "tpa_kvonly"},
    "tpa_nc_a": {"attention": "tpa_nc_a"},
    "tpa_nc_b": {"attention": "tpa_nc_b"},
    "tpa3": {"attention": "tpa3"},
    "shared_b": {"attention": "tpa", "shared_b": True},
    "sigmoid": {"attention": "tpa", "head_activation": "sigmoid"},
    "softmax": {"attention": "tpa", "head_activation": "softmax"},
    "nc_a_sigmoid": {"attention": "tpa_nc_a", "head_activation": "sigmoid"},
    "groupnorm": {"attention": "tpa", "groupnorm": True},
    "partial_rope_with_decay": {"attention": "tpa", "rope_fraction": 0.5, "rope_decay": 0.999},
    "tpa3_decay": {"attention": "tpa3", "rope_decay": 0.999, "groupnorm": True},
}
TIME, MAX_LEN, PROMPT = 9, 12, 5


def jitted(layer):
    """``layer.apply`` as compiled functions of (variables, x, positions, cache)."""
    return jax.jit(layer.apply, static_argnames="decode")


def make_layer(variant, dtype=jnp.float64):
    """(module, its parameters with a random output projection, x, config)."""
    cfg = AttentionConfig(**SIZES | VARIANTS[variant], dtype=dtype)
    layer = self_attention(cfg)
    x = jax.random.normal(jax.random.key(1), (2, TIME, cfg.n_embd), dtype)
    params = jax.jit(layer.init)(jax.random.key(0), x)["params"]
    keys = jax.random.split(jax.random.key(2), len(params))
    # Parameters of order one, so that positions and tokens make a visible difference.
    params = {n: jax.random.normal(k, p.shape, dtype) for k, (n, p) in zip(keys, params.items())}
    return layer, {"params": params}, x, cfg


@pytest.mark.parametrize(
    ("variant", "dtype", "atol"),
    [(v, jnp.float64, 1e-10) for v in VARIANTS]
    + [(v, jnp.float32, 1e-4) for v in ("tpa", "tpa_kvonly", "tpa3", "shared_b")],
)
def test_decoding_equals_the_forward_pass(x64, variant, dtype, atol):
    layer, params, x, cfg = make_layer(variant, dtype)
    apply = jitted(layer)
    full = apply(params, x)
    scale = max(1.0, float(jnp.abs(full).max())) if dtype == jnp.float32 else 1.0

    cache = init_cache(cfg.attention, cfg, 2, MAX_LEN, dtype)
    assert sum(a.size for a in jax.tree.leaves(cache)) == (
        2 * MAX_LEN * cache_numbers_per_token(cfg.attention, cfg)
    )
    cache = jax.tree.map(lambda a: a + 7.0, cache)  # what was never written must not matter
    steps = []
    for t in range(TIME):
        y, cache = apply(params, x[:, t : t + 1], jnp.full((2, 1), t), cache, decode=True)
        steps.append(y)
    np.testing.assert_allclose(jnp.concatenate(steps, 1), full, atol=atol * scale, rtol=0)

    y, cache = apply(params, x[:, :PROMPT], cache=cache)
    np.testing.assert_allclose(y, full[:, :PROMPT], atol=atol * scale, rtol=0)
    y, _ = apply(params, x[:, PROMPT:], jnp.arange(PROMPT, TIME), cache, decode=True)
    np.testing.assert_allclose(y, full[:, PROMPT:], atol=atol * scale, rtol=0)


@pytest.mark.parametrize("variant", ["tpa", "tpa_kvonly", "shared_b", "tpa_nc_b", "tpa3"])
def test_sequences_of_unequal_length_decode_together(x64, variant):
    layer, params, x, cfg = make_layer(variant)
    lengths = np.array([6, 3])
    prompt = jnp.where(jnp.arange(6)[:, None] < lengths[:, None, None], x[:, :6], 99.0)
    cache = init_cache(cfg.attention, cfg, 2, MAX_LEN, jnp.float64)
    apply = jitted(layer)
    _, cache = apply(params, prompt, cache=cache)
    full = apply(params, x)
    for step in range(3):
        at = lengths + step
        new = x[np.arange(2), at][:, None]
        y, cache = apply(params, new, jnp.asarray(at)[:, None], cache, decode=True)
        np.testing.assert_allclose(y[:, 0], full[np.arange(2), at], atol=1e-10, rtol=0)


@pytest.mark.parametrize("variant", ["tpa", "tpa_kvonly", "tpa_nc_a", "tpa_nc_b", "tpa3"])
def test_future_tokens_have_exactly_no_influence(x64, variant):
    layer, params, x, _ = make_layer(variant)
    grad = jax.jit(jax.grad(lambda x: jnp.square(layer.apply(params, x)[:, 4]).sum()))(x)
    assert float(jnp.abs(grad[:, 5:]).max()) == 0.0
    assert float(jnp.abs(grad[:, :5]).min()) > 0.0


@pytest.mark.parametrize(
    "variant", ["tpa", "tpa_kvonly", "tpa_nc_a", "tpa_nc_b", "tpa3", "shared_b"]
)
def test_parameters_are_counted_and_start_as_the_identity_of_a_block(variant):
    cfg = AttentionConfig(**SIZES | VARIANTS[variant])
    layer = self_attention(cfg)
    x = jnp.ones((1, 3, cfg.n_embd))
    params = jax.jit(layer.init)(jax.random.key(0), x)["params"]
    count = sum(p.size for p in params.values())
    assert count == attention_param_count(cfg.attention, cfg)
    assert {p.dtype for p in params.values()} == {jnp.dtype("float32")}
    assert float(jnp.abs(jitted(layer)({"params": params}, x)).max()) == 0.0


def fresh(**options):
    """Parameters of a new layer of the width of the paper's small model."""
    cfg = AttentionConfig(n_embd=768, head_dim=64, **options)
    return jax.jit(self_attention(cfg).init)(jax.random.key(0), jnp.ones((1, 1, 768)))["params"]


PUBLISHED_BOUNDS = {
    "paper": {"wa_q": 0.0786, "wb_q": 0.0722},
    "repo": {"wa_q": 0.0353, "wb_q": 0.0110},
}


@pytest.mark.parametrize("kind", ["tpa", "tpa_kvonly", "tpa3"])
@pytest.mark.parametrize("init", ["paper", "repo"])
def test_factors_start_within_one_per_cent_of_their_bound(init, kind):
    params = fresh(n_head=34, attention=kind, init=init)
    factors = {n: p for n, p in params.items() if n not in ("wo", "wq")}
    assert len(factors) == {"tpa": 6, "tpa_kvonly": 4, "tpa3": 9}[kind]
    for name, factor in factors.items():
        width, rank, out = factor.shape
        total = width + rank * out
        if init == "repo":
            total = rank * (width + out) if name.startswith("wa_") else out * (rank + width)
        assert_fills(factor, (6 / total) ** 0.5)
        if kind == "tpa" and name in PUBLISHED_BOUNDS[init]:
            assert abs((6 / total) ** 0.5 - PUBLISHED_BOUNDS[init][name]) <= 5e-5


@pytest.mark.parametrize("init", ["paper", "repo"])
def test_kvonly_queries_start_xavier_uniform(init):
    params = fresh(n_head=22, attention="tpa_kvonly", init=init)
    assert_fills(params["wq"], (6 / (768 + 22 * 64)) ** 0.5)


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16])
@pytest.mark.parametrize("variant", ["tpa", "tpa_kvonly", "tpa3"])
def test_half_precision_compute(variant, dtype):
    cfg = AttentionConfig(**SIZES | VARIANTS[variant], dtype=dtype)
    layer = self_attention(cfg)
    x = jax.random.normal(jax.random.key(1), (2, TIME, cfg.n_embd))
    params = jax.jit(layer.init)(jax.random.key(0), x)
    params["params"]["wo"] = jax.random.normal(jax.random.key(2), params["params"]["wo"].shape)
    cache = init_cache(cfg.attention, cfg, 2, MAX_LEN, dtype)
    apply = jitted(layer)
    y, cache = apply(params, x, cache=cache)
    one, _ = apply(params, x[:, -1:], jnp.array([TIME - 1]), cache, decode=True)
    assert y.dtype == one.dtype == dtype
    exact = jitted(self_attention(AttentionConfig(**SIZES | VARIANTS[variant])))(params, x)
    for low, high in ((y, exact), (one, exact[:, -1:])):
        error = float(jnp.abs(low.astype(jnp.float32) - high).max())
        assert error <= 0.05 * float(jnp.abs(exact).max())


def test_bad_calls_are_named(x64):
    layer, params, x, cfg = make_layer("tpa")
    with pytest.raises(ValueError, match=r"x has shape \(2, 9, 11\), needs \[B, T, 12\]"):
        layer.apply(params, x[..., :11])
    with pytest.raises(ValueError, match="decode=True needs a cache"):
        layer.apply(params, x, decode=True)
    with pytest.raises(ValueError, match="positions has shape"):
        layer.apply(params, x, jnp.arange(4))
    other = init_cache("tpa_nc_a", cfg, 2, MAX_LEN)
    with pytest.raises(ValueError, match=r"keeps \['bk', 'bv'\]"):
        layer.apply(params, x, cache=other)
