"""The kernel: golden arrays, exact properties, gradients, cost; the layer; bad input."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

from neurips25.graphs import (
    CrossAttention,
    DualCrossAttention,
    QKNorm,
    dense_cross_attention,
    dense_cross_attention_scores,
    linear_cross_attention,
    normalized_adjacency,
    relative_change,
    softmax_cross_attention,
    spmm,
)
from neurips25.training import count_flops
from tests.graphs.reference import random_graph, random_params

linear_cross_attention = jax.jit(linear_cross_attention, static_argnames="qk_norm")
dense_cross_attention = jax.jit(dense_cross_attention, static_argnames="qk_norm")
relative_change = jax.jit(relative_change, static_argnames="qk_norm")

FILES = ["dca_n50_d16_h1", "dca_n37_d8_h4"]


def draws(n=11, heads=2, d=4, e=3, seed=0):
    rng = np.random.default_rng(seed)
    return tuple(jnp.asarray(rng.normal(size=(n, heads, w))) for w in (d, e))


@pytest.mark.parametrize("file", FILES)
def test_golden(x64, golden, file):
    a = golden(f"ugcformer/{file}.npz")
    q = (jnp.asarray(a["h1"]) @ a["wq"] + a["bq"]).reshape(a["query"].shape)
    v = (jnp.asarray(a["h2"]) @ a["wv"] + a["bv"]).reshape(a["value"].shape)
    out = linear_cross_attention(q, v)
    np.testing.assert_allclose(out, a["out_heads"], rtol=0, atol=1e-11)
    np.testing.assert_allclose(out.mean(1), a["out"], rtol=0, atol=1e-11)
    scores = dense_cross_attention_scores(q)
    np.testing.assert_allclose(scores, a["score_matrix"], rtol=0, atol=1e-11)
    by_rows = linear_cross_attention(q, v, qk_norm="row_l2").mean(1)
    np.testing.assert_allclose(by_rows, a["out_rownorm"], rtol=0, atol=1e-11)


@pytest.mark.parametrize("file", FILES)
def test_golden_in_float32(golden, file):
    a = golden(f"ugcformer/{file}.npz")
    q, v = a["query"].astype(np.float32), a["value"].astype(np.float32)
    for norm, want in (("frobenius", a["out"]), ("row_l2", a["out_rownorm"])):
        out = linear_cross_attention(jnp.asarray(q), jnp.asarray(v), qk_norm=norm).mean(1)
        assert np.linalg.norm(out - want) <= 2e-5 * np.linalg.norm(want)


@pytest.mark.parametrize("heads", [1, 3])
@pytest.mark.parametrize("norm", list(QKNorm))
def test_linear_form_is_the_dense_form(x64, norm, heads):
    q, v = draws(heads=heads)
    k, _ = draws(heads=heads, seed=1)
    mask = jnp.arange(11) < 8
    for options in ({}, {"k": k, "mask": mask}):
        linear = linear_cross_attention(q, v, qk_norm=norm, **options)
        dense = dense_cross_attention(q, v, qk_norm=norm, **options)
        np.testing.assert_allclose(linear, dense, rtol=0, atol=1e-12)
    single = [jnp.asarray(a, jnp.float32) for a in (q, v)]
    linear, dense = (f(*single, qk_norm=norm) for f in (linear_cross_attention,
                                                        dense_cross_attention))  # fmt: skip
    assert np.abs(linear - dense).max() <= 1e-5 * np.abs(dense).max()


def test_definition(x64):
    # Equations 7 to 9, one head at a time; the norm is of all heads together.
    q, v = (np.asarray(a) for a in draws())
    n = len(q)
    tilde = q / np.linalg.norm(q)
    for h in range(q.shape[1]):
        num = v[:, h] + tilde[:, h] @ tilde[:, h].T @ v[:, h] / n
        den = 1 + tilde[:, h] @ tilde[:, h].T @ np.ones(n) / n
        out = linear_cross_attention(jnp.asarray(q), jnp.asarray(v))[:, h]
        np.testing.assert_allclose(out, num / den[:, None], rtol=0, atol=1e-14)


@pytest.mark.parametrize("norm", list(QKNorm))
def test_rows_of_the_scores_sum_to_one(x64, norm):
    q, _ = draws()
    scores = dense_cross_attention_scores(q, qk_norm=norm)
    np.testing.assert_allclose(scores.sum(-1), 1, rtol=0, atol=1e-12)
    same = jnp.broadcast_to(jnp.array([2.0, -3.0, 0.5]), (11, 2, 3))
    np.testing.assert_allclose(
        linear_cross_attention(q, same, qk_norm=norm), same, rtol=0, atol=1e-12
    )


@pytest.mark.parametrize("n", [2, 50, 500])
def test_bounds_of_the_frobenius_form(x64, n):
    for seed in range(5):
        q, v = draws(n, 1, 16, 16, seed)
        # The least and the greatest row sum are reached by rows of one sign.
        q = jnp.abs(q) if seed % 2 else q
        tilde = q / jnp.linalg.norm(q)
        d = 1 + jnp.einsum("nhd,hd->nh", tilde, tilde.sum(0)) / n
        assert jnp.abs(d - 1).max() <= 1 / np.sqrt(n)
        assert d.min() > 0
        bound = (1 / n + 1 / np.sqrt(n)) / (1 - 1 / np.sqrt(n))
        assert relative_change(q, v) <= bound


@pytest.mark.parametrize(
    ("norm", "n", "change"),
    [
        ("frobenius", 50, 9e-4),
        ("frobenius", 500, 4e-5),
        ("row_l2", 50, 5e-2),
        ("row_l2", 500, 1.6e-2),
        ("row_l2", 2000, 6e-3),
    ],
)
def test_how_far_the_attention_is_from_the_identity(x64, norm, n, change):
    q, v = draws(n, 1, 16, 16)
    assert change / 2 < relative_change(q, v, qk_norm=norm) < 2 * change


@pytest.mark.parametrize("norm", list(QKNorm))
@pytest.mark.parametrize("scale", [1e-6, 3.0, 1e6, -2.0])
def test_scaling_the_queries_changes_nothing(x64, norm, scale):
    q, v = draws()
    np.testing.assert_allclose(
        linear_cross_attention(scale * q, v, qk_norm=norm),
        linear_cross_attention(q, v, qk_norm=norm),
        rtol=0,
        atol=1e-12,
    )


@pytest.mark.parametrize("norm", list(QKNorm))
def test_gradients(x64, norm):
    q, v = draws(7, 2, 3, 2)
    k, _ = draws(7, 2, 3, 2, seed=1)
    mask = jnp.arange(7) != 2

    def attend(q, k, v):
        return linear_cross_attention(q, v, k=k, qk_norm=norm, mask=mask)

    check_grads(attend, (q, k, v), order=1, modes=["rev"], rtol=1e-6)
    shared = lambda q, v: linear_cross_attention(q, v, qk_norm=norm)
    check_grads(shared, (q, v), order=1, modes=["rev"], rtol=1e-6)


@pytest.mark.parametrize("norm", list(QKNorm))
def test_queries_of_zeros_leave_the_values_and_have_no_gradient(norm):
    _, v = draws()
    v = v.astype(jnp.float32)
    zeros = jnp.zeros((11, 2, 4))
    np.testing.assert_array_equal(linear_cross_attention(zeros, v, qk_norm=norm), v)
    loss = lambda q: jnp.sum(jnp.square(linear_cross_attention(q, v, qk_norm=norm)))
    np.testing.assert_array_equal(jax.jit(jax.grad(loss))(zeros), 0)


@pytest.mark.parametrize("norm", list(QKNorm))
def test_padding_changes_nothing(x64, norm):
    q, v = draws()
    rng = np.random.default_rng(1)
    grown = [jnp.concatenate([a, jnp.asarray(rng.normal(size=(4, *a.shape[1:])))]) for a in (q, v)]
    mask = jnp.arange(15) < 11
    out = linear_cross_attention(*grown, qk_norm=norm, mask=mask)
    want = linear_cross_attention(q, v, qk_norm=norm)
    np.testing.assert_allclose(out[:11], want, rtol=0, atol=1e-13)
    np.testing.assert_array_equal(out[11:], grown[1][11:])
    scores = dense_cross_attention_scores(grown[0], qk_norm=norm, mask=mask)
    assert (scores[:, :11, 11:] == 0).all()


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16])
@pytest.mark.parametrize("norm", list(QKNorm))
def test_low_precision_is_rounded_once(norm, dtype):
    # Large queries whose squares overflow float16, and long sums.
    q, v = draws(600)
    low = [(s * a).astype(dtype) for a, s in ((q, 3000), (v, 1))]
    out = linear_cross_attention(*low, qk_norm=norm)
    assert out.dtype == dtype
    exact = linear_cross_attention(*(a.astype(jnp.float32) for a in low), qk_norm=norm)
    np.testing.assert_array_equal(out, exact.astype(dtype))


def test_float32_keeps_what_it_can_of_a_million_nodes():
    # n V + Q̃(K̃ᵀV) in float32 would lose the attention; what is added to V does not.
    rows = 1_000_000
    q = jnp.full((rows, 1, 1), 1e-3)
    v = jnp.zeros((rows, 1, 1)).at[0].set(1e6)
    out = linear_cross_attention(q, v)
    np.testing.assert_allclose(out[1:3, 0, 0], 1e6 / rows**2, rtol=1e-3)


def test_softmax_attention_is_its_definition(x64):
    q, v = draws()
    k, _ = draws(seed=1)
    mask = np.arange(11) % 3 > 0
    for real, given in ((np.ones(11, bool), None), (mask, jnp.asarray(mask))):
        scores = np.where(real, np.einsum("nhd,mhd->hnm", q, k) / 2, -np.inf)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        want = np.einsum("hnm,mhe->nhe", weights / weights.sum(-1, keepdims=True), v)
        out = softmax_cross_attention(q, k, v, given)
        np.testing.assert_allclose(out, want, rtol=0, atol=1e-13)
    low = softmax_cross_attention(*((30 * a).astype(jnp.bfloat16) for a in (q, k, v)))
    assert jnp.isfinite(low.astype(jnp.float32)).all()


def attention_cost(attend, n):
    """FLOPs and temporary bytes of forward and backward at width 64."""
    shape = jax.ShapeDtypeStruct((n, 1, 64), jnp.float32)
    step = jax.grad(lambda q, v: jnp.sum(jnp.square(attend(q, v))), argnums=(0, 1))
    memory = jax.jit(step).lower(shape, shape).compile().memory_analysis()
    return np.array([count_flops(step, shape, shape), memory.temp_size_in_bytes])


def test_cost_is_linear_where_softmax_is_quadratic():
    linear = [attention_cost(linear_cross_attention, n) for n in (4_000, 64_000)]
    quadratic = [
        attention_cost(lambda q, v: softmax_cross_attention(q, q, v), n) for n in (1_000, 4_000)
    ]
    slopes = np.log(linear[1] / linear[0]) / np.log(16)
    assert (slopes > 0.8).all()
    assert (slopes < 1.25).all()
    slopes = np.log(quadratic[1] / quadratic[0]) / np.log(4)
    assert (slopes > 1.7).all()
    assert (slopes < 2.3).all()
    # No n × n array: 100,000 nodes of width 64 take less than 2 GiB.
    assert attention_cost(linear_cross_attention, 100_000)[1] < 2**31


def layer_call(params, mask=None, graph=None, **options):
    graph = random_graph() if graph is None else graph
    rng = np.random.default_rng(3)
    z, b, b0 = (jnp.asarray(rng.normal(size=(12, 4))) for _ in range(3))
    layer = DualCrossAttention(4, dtype=jnp.float64, **options)
    adj = normalized_adjacency(graph)
    if params is None:
        params = random_params(layer, z, b, b0, adj)
    return params, (z, b, b0, adj), layer.apply({"params": params}, z, b, b0, adj, mask=mask)


PLAIN = {"norm": "none", "activation": "none"}


def dense_map(params, name, x):
    return x @ params[name]["kernel"] + params[name].get("bias", 0)


@pytest.mark.parametrize("heads", [1, 2])
def test_layer_is_its_equations(x64, heads):
    params, (z, b, b0, adj), (z_new, b_new) = layer_call(None, num_heads=heads, **PLAIN)

    def maps(name, x):
        return dense_map(params, name, x).reshape(12, heads, 4)

    lam, gamma = np.tanh(params["lambda"]), np.tanh(params["gamma"])
    v_z, v_b = maps("v_topo", z), maps("v_attr", b)
    from_b = linear_cross_attention(maps("q_attr", b), v_z).mean(1)
    from_z = linear_cross_attention(maps("q_topo", z), v_b).mean(1)
    want_z = (1 - lam) * spmm(adj, v_z.mean(1)) + lam * from_b
    np.testing.assert_allclose(z_new, want_z, rtol=0, atol=1e-13)
    np.testing.assert_allclose(b_new, (1 - gamma) * b0 + gamma * from_z, rtol=0, atol=1e-13)


def test_layer_variants(x64):
    params, (z, b, b0, adj), (z_new, b_new) = layer_call(None, **PLAIN)
    gamma = np.tanh(params["gamma"])
    v_z, v_b = dense_map(params, "v_topo", z), dense_map(params, "v_attr", b)
    _, _, (alone_z, alone_b) = layer_call(params, attention="none", **PLAIN)
    np.testing.assert_allclose(alone_z, spmm(adj, v_z), rtol=0, atol=1e-13)
    np.testing.assert_allclose(alone_b, (1 - gamma) * b0 + gamma * v_b, rtol=0, atol=1e-13)
    _, _, (same_z, previous) = layer_call(params, attr_residual="previous", **PLAIN)
    np.testing.assert_array_equal(same_z, z_new)
    np.testing.assert_allclose(previous - b_new, (1 - gamma) * (b - b0), rtol=0, atol=1e-13)
    _, _, (both, same_b) = layer_call(params, propagate_value="topology+attribute", **PLAIN)
    lam = np.tanh(params["lambda"])
    np.testing.assert_allclose(both - z_new, (1 - lam) * spmm(adj, v_b), rtol=0, atol=1e-13)
    np.testing.assert_array_equal(same_b, b_new)
    _, _, (relu, _) = layer_call(params, norm="none", activation="relu")
    np.testing.assert_array_equal(relu, np.maximum(z_new, 0))
    _, _, (other, _) = layer_call(params, qk_norm="row_l2", **PLAIN)
    assert np.abs(other - z_new).max() > 1e-4


def test_layer_with_softmax_attention_has_keys_from_the_other_space(x64):
    params, (z, b, _, adj), (z_new, _) = layer_call(None, attention="softmax", **PLAIN)
    q, k, v = (dense_map(params, name, x)[:, None] for name, x in (
        ("q_attr", b), ("k_topo", z), ("v_topo", z)))  # fmt: skip
    lam = np.tanh(params["lambda"])
    want = (1 - lam) * spmm(adj, v[:, 0]) + lam * softmax_cross_attention(q, k, v)[:, 0]
    np.testing.assert_allclose(z_new, want, rtol=0, atol=1e-13)


def test_layer_reports_how_much_its_attention_changes(x64):
    params, args, _ = layer_call(None)
    layer = DualCrossAttention(4, dtype=jnp.float64)
    _, seen = layer.apply({"params": params}, *args, mutable=["intermediates"])
    q = dense_map(params, "q_attr", args[1])[:, None]
    v = dense_map(params, "v_topo", args[0])[:, None]
    want = relative_change(q, v)
    np.testing.assert_allclose(seen["intermediates"]["relative_change_attr"][0], want, rtol=1e-10)
    assert "relative_change_topo" in seen["intermediates"]


def test_bad_arguments():
    q, v = (a.astype(jnp.float32) for a in draws())
    with pytest.raises(ValueError, match=r"q has shape \(11, 4\), needs \[n, H, D\]"):
        linear_cross_attention(q[:, 0], v)
    with pytest.raises(ValueError, match="v has shape"):
        linear_cross_attention(q, v[1:])
    with pytest.raises(ValueError, match=r"k has shape .*, needs \(11, 2, 4\) as q"):
        linear_cross_attention(q, v, k=q[1:])
    with pytest.raises(ValueError, match="mask has shape"):
        linear_cross_attention(q, v, mask=jnp.ones(10, bool))
    with pytest.raises(ValueError, match="and bool"):
        linear_cross_attention(q, v, mask=jnp.ones(11))
    with pytest.raises(ValueError, match=r"qk_norm='frobenious' .* did you mean 'frobenius'"):
        linear_cross_attention(q, v, qk_norm="frobenious")
    with pytest.raises(ValueError, match="scores of 11 nodes, more than max_nodes=10"):
        dense_cross_attention_scores(q, max_nodes=10)
    with pytest.raises(ValueError, match="k has shape"):
        softmax_cross_attention(q, q[..., 1:], v)
    for options in (
        {"attention": "linaer"},
        {"norm": "batch"},
        {"activation": "elu"},
        {"attr_residual": "first"},
        {"propagate_value": "attribute"},
    ):
        with pytest.raises(ValueError, match=f"{next(iter(options))}=.* is not one of"):
            layer_call({}, **options)
    with pytest.raises(ValueError, match=r"b has shape \(12, 3\), needs \[12, 4\]"):
        DualCrossAttention(4).init(
            jax.random.key(0),
            jnp.zeros((12, 4)),
            jnp.zeros((12, 3)),
            jnp.zeros((12, 4)),
            normalized_adjacency(random_graph()),
        )
    assert set(CrossAttention) == {"linear", "softmax", "none"}
