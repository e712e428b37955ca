"""MHA, MQA and GQA written as non-contextual TPA."""

import jax
import jax.numpy as jnp
import pytest

from neurips25.attention import (
    AttentionConfig,
    grouped_query_attention,
    init_cache,
    noncontextual_gqa_factors,
    noncontextual_mha_factors,
    noncontextual_mqa_factors,
    tpa_self_attention,
)

BUILDERS = {
    6: noncontextual_mha_factors,
    1: noncontextual_mqa_factors,
    2: noncontextual_gqa_factors,
    3: noncontextual_gqa_factors,
}


@pytest.fixture
def layer(x64):
    """(config, x, weights of a softmax layer) for a number of groups, in float64."""

    def make(groups):
        cfg = AttentionConfig(
            n_embd=10, n_head=6, head_dim=4, attention="gqa", num_kv_groups=groups, dtype="float64"
        )
        shapes = {
            "wq": (10, 6, 4),
            "wk": (10, groups, 4),
            "wv": (10, groups, 4),
            "wo": (6, 4, 10),
            "x": (2, 7, 10),
        }
        keys = jax.random.split(jax.random.key(groups), len(shapes))
        weights = {n: jax.random.normal(k, s) for k, (n, s) in zip(keys, shapes.items())}
        return cfg, weights.pop("x"), weights

    return make


@pytest.mark.parametrize("groups", BUILDERS)
def test_noncontextual_tpa_is_grouped_query_attention(layer, groups):
    cfg, x, w = layer(groups)
    params = {**BUILDERS[groups](w["wq"], w["wk"], w["wv"]), "wo": w["wo"]}
    y = tpa_self_attention(params, x, cfg)
    expected = grouped_query_attention(w, x, cfg)
    assert float(jnp.abs(y - expected).max()) <= 1e-12
    assert float(jnp.abs(expected).max()) > 1.0


def test_reduction_also_decodes(layer):
    cfg, x, w = layer(2)
    params = {**noncontextual_gqa_factors(w["wq"], w["wk"], w["wv"]), "wo": w["wo"]}
    nc_a = AttentionConfig(
        n_embd=10, n_head=6, head_dim=4, attention="tpa_nc_a", rank_k=2, rank_v=2, dtype="float64"
    )
    cache = init_cache("tpa_nc_a", nc_a, 2, 7, jnp.float64)
    _, cache = tpa_self_attention(params, x[:, :6], nc_a, cache=cache)
    y, _ = tpa_self_attention(params, x[:, 6:], nc_a, jnp.array([6]), cache, decode=True)
    expected = grouped_query_attention(w, x, cfg)[:, 6:]
    assert float(jnp.abs(y - expected).max()) <= 1e-12


def test_mqa_takes_weights_without_a_group_axis(layer):
    _, _, w = layer(1)
    flat = noncontextual_mqa_factors(w["wq"], w["wk"][:, 0], w["wv"][:, 0])
    grouped = noncontextual_mqa_factors(w["wq"], w["wk"], w["wv"])
    assert all(jnp.array_equal(flat[name], grouped[name]) for name in grouped)


def test_bad_weights_are_named():
    w = {n: jnp.ones((10, n, 4)) for n in (1, 4, 6)}
    with pytest.raises(ValueError, match=r"w_k and w_v have 4 and 4 groups"):
        noncontextual_gqa_factors(w[6], w[4], w[4])
    with pytest.raises(ValueError, match=r"w_k has shape \(10, 4, 4\), needs \[d, 6, D\]"):
        noncontextual_mha_factors(w[6], w[4], w[6])
    with pytest.raises(ValueError, match=r"w_v has shape \(10, 6, 4\), needs \[d, 1, D\]"):
        noncontextual_mqa_factors(w[6], w[1], w[6])
    with pytest.raises(ValueError, match=r"w_v has shape \(10, 1, 5\)"):
        noncontextual_gqa_factors(w[6], w[1], jnp.ones((10, 1, 5)))
    with pytest.raises(ValueError, match="w_q has shape"):
        noncontextual_gqa_factors(jnp.ones((10, 4)), w[1], w[1])
