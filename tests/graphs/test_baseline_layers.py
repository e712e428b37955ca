"""The layers of the baselines against reference arrays and against their definitions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from neurips25.graphs import (
    EdgeOperator,
    GraphAttention,
    GraphConvolution,
    SAGEConvolution,
    feature_attention,
    generalized_propagation,
    graph_attention,
    normalized_adjacency,
    orthogonal_projection,
    pagerank_weights,
    personalized_propagation,
    positive_features,
    sigmoid_attention,
)
from tests.graphs.reference import dense_adjacency, graph_of, random_graph

TOLERANCE = {"float64": 1e-10, "float32": 1e-5}


@pytest.fixture(params=["float64", "float32"])
def reference(request, golden):
    """Arrays, graph and tolerance at one precision."""
    dtype = np.dtype(request.param)
    with jax.enable_x64(dtype == np.float64):
        arrays = golden("ugcformer/baseline_layers_n30.npz")
        arrays = {k: v.astype(dtype) if v.dtype.kind == "f" else v for k, v in arrays.items()}
        yield arrays, graph_of(arrays["edges"], arrays["x"]), dtype


def close(got, want, dtype):
    assert got.dtype == dtype
    np.testing.assert_allclose(got, want, rtol=0, atol=TOLERANCE[dtype.name])


def apply(layer, params, *args):
    return jax.jit(layer.apply)({"params": jax.tree.map(jnp.asarray, params)}, *args)


def test_golden_gcn(reference):
    a, graph, dtype = reference
    params = {"kernel": a["gcn_w"], "bias": a["gcn_b"]}
    out = apply(GraphConvolution(5, dtype=dtype), params, a["x"], normalized_adjacency(graph))
    close(out, a["gcn_out"], dtype)


def test_golden_gat(reference):
    a, graph, dtype = reference
    params = {
        "kernel": a["gat_w"].reshape(9, 3, 5),
        "att_src": a["gat_att_src"],
        "att_dst": a["gat_att_dst"],
        "bias": a["gat_b"],
    }
    layer = GraphAttention(5, 3, dtype=dtype)
    close(apply(layer, params, a["x"], graph.senders, graph.receivers), a["gat_out"], dtype)


@pytest.mark.parametrize("features", [5, 12])
def test_golden_sage(reference, features):
    # With more outputs than inputs the mean goes before the product.
    a, graph, dtype = reference
    wide = [np.pad(a[k], [(0, 0), (0, features - 5)]) for k in ("sage_w_root", "sage_w_neigh")]
    params = {
        "root": wide[0],
        "neighbours": wide[1],
        "bias": np.pad(a["sage_b"], (0, features - 5)),
    }
    mean = normalized_adjacency(graph, add_self_loops=False, normalization="row")
    out = apply(SAGEConvolution(features, dtype=dtype), params, a["x"], mean)
    close(out[:, :5], a["sage_out"], dtype)
    assert (out[:, 5:] == 0).all()


def test_golden_appnp(reference):
    a, graph, dtype = reference
    out = jax.jit(personalized_propagation)(normalized_adjacency(graph), jnp.asarray(a["x"]))
    close(out, a["appnp_k10_a01_out"], dtype)


def test_gpr_with_its_first_weights_is_appnp(x64):
    graph = random_graph()
    adj, h = normalized_adjacency(graph), jnp.asarray(graph.nodes)
    gamma = jnp.asarray(pagerank_weights(10, 0.1))
    np.testing.assert_allclose(gamma.sum(), 1, rtol=1e-14)
    moved = jax.jit(generalized_propagation)(adj, h, gamma)
    want = jax.jit(personalized_propagation)(adj, h)
    np.testing.assert_allclose(moved, want, rtol=0, atol=1e-13)


def test_gpr_is_a_polynomial_of_the_adjacency(x64):
    graph = random_graph()
    a = dense_adjacency(graph) + np.eye(12)
    a = a / np.sqrt(np.outer(a.sum(1), a.sum(1)))
    gamma = np.array([0.5, -1.0, 2.0])
    want = (gamma[0] * np.eye(12) + gamma[1] * a + gamma[2] * a @ a) @ graph.nodes
    moved = generalized_propagation(
        normalized_adjacency(graph), jnp.asarray(graph.nodes), jnp.asarray(gamma)
    )
    np.testing.assert_allclose(moved, want, rtol=0, atol=1e-13)


def test_dropped_entries_of_the_adjacency_keep_its_mean():
    # One hub and its self-loop: 4,000 steps of one hop each.
    op = EdgeOperator(jnp.array([1]), jnp.array([0]), jnp.array([0.5]), jnp.array([0.25, 0.0]))
    h = jnp.array([[1.0], [1.0]])

    def one(key):
        return personalized_propagation(op, h, 1, 0.0, edge_dropout=0.5, key=key)[0, 0]

    draws = jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(0), 4000))
    assert set(np.unique(draws)) == {0.0, 0.5, 1.0, 1.5}
    np.testing.assert_allclose(draws.mean(), 0.75, atol=0.03)


def test_graph_attention_sums_to_one_and_prefers_high_scores(x64):
    graph = random_graph()
    h = jnp.asarray(np.random.default_rng(0).normal(size=(12, 2, 3)))
    source = jnp.zeros((2, 3)).at[0, 0].set(50.0)
    op = graph_attention(h, source, jnp.zeros((2, 3)), graph.senders, graph.receivers)
    total = jax.ops.segment_sum(op.weights, graph.receivers, 12) + op.diagonal
    np.testing.assert_allclose(total, 1, rtol=0, atol=1e-14)
    neighbours = graph.senders[graph.receivers == 0]
    best = np.argmax(np.asarray(h[neighbours, 0, 0]))
    weights = np.asarray(op.weights[graph.receivers == 0, 0])
    assert weights.argmax() == best
    # The other head has no scores and takes the mean.
    np.testing.assert_allclose(
        op.diagonal[:, 1], 1 / (1 + np.bincount(graph.receivers, minlength=12))
    )
    with pytest.raises(ValueError, match="att_dst has shape"):
        graph_attention(h, source, jnp.zeros(3), graph.senders, graph.receivers)


def positive_draws(n=9):
    rng = np.random.default_rng(0)
    return tuple(jnp.asarray(rng.uniform(0.1, 1, size=(n, 2, 3))) for _ in range(3))


@pytest.mark.parametrize("attend", [sigmoid_attention, feature_attention])
def test_linear_attention_is_its_quadratic_form(x64, attend):
    q, k, v = positive_draws()
    scores = np.einsum("nhd,mhd->hnm", q, k)
    want = np.einsum("hnm,mhe->nhe", scores / scores.sum(-1, keepdims=True), v)
    np.testing.assert_allclose(attend(q, k, v), want, rtol=0, atol=1e-13)


def test_sigmoid_attention_leaves_padding_out(x64):
    q, k, v = positive_draws()
    mask = jnp.arange(9) < 6
    want = sigmoid_attention(q[:6], k[:6], v[:6])
    np.testing.assert_allclose(sigmoid_attention(q, k, v, mask)[:6], want, rtol=0, atol=1e-14)


def test_projection_is_orthogonal_in_blocks():
    rows = orthogonal_projection(jax.random.key(0), 10, 4)
    assert rows.shape == (10, 4)
    for block in (rows[:4], rows[4:8]):
        products = block @ block.T
        off = products - jnp.diag(jnp.diag(products))
        np.testing.assert_allclose(off, 0, atol=1e-5)
    # Lengths are those of Gaussian vectors: E‖ω‖² = D.
    many = orthogonal_projection(jax.random.key(1), 4000, 4)
    np.testing.assert_allclose(jnp.square(many).sum(-1).mean(), 4, rtol=0.05)


def test_positive_features_estimate_the_exponential(x64):
    rng = np.random.default_rng(0)
    q, k = (jnp.asarray(rng.normal(size=(6, 1, 4))) * 0.5 for _ in range(2))
    v = jnp.asarray(rng.normal(size=(6, 1, 2)))
    projection = orthogonal_projection(jax.random.key(0), 20_000, 4, jnp.float64)
    phi_q = positive_features(q, projection, is_query=True)
    phi_k = positive_features(k, projection, is_query=False)
    scores = np.exp(np.einsum("nhd,mhd->hnm", q, k))
    want = np.einsum("hnm,mhe->nhe", scores / scores.sum(-1, keepdims=True), v)
    np.testing.assert_allclose(feature_attention(phi_q, phi_k, v), want, rtol=0, atol=0.02)


def test_positive_features_of_padding_are_zero_and_shift_nothing(x64):
    x = jnp.asarray(np.random.default_rng(0).normal(size=(6, 1, 4)))
    projection = orthogonal_projection(jax.random.key(0), 8, 4, jnp.float64)
    padded = jnp.concatenate([x, jnp.full((2, 1, 4), 50.0)])
    for is_query in (True, False):
        want = positive_features(x, projection, is_query=is_query)
        got = positive_features(padded, projection, is_query=is_query, mask=jnp.arange(8) < 6)
        np.testing.assert_allclose(got[:6], want, rtol=1e-14)
        assert (got[6:] == 0).all()
