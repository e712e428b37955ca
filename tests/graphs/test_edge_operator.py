"""Sums over edges whole and in chunks, softmax over in-edges, bad input."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

from neurips25.graphs import EdgeOperator, edge_softmax, spmm
from tests.graphs.reference import random_graph


def operator(per_head=False, seed=0):
    graph = random_graph(9, 15)
    rng = np.random.default_rng(seed)
    heads = (3,) if per_head else ()
    return EdgeOperator(
        jnp.asarray(graph.senders),
        jnp.asarray(graph.receivers),
        jnp.asarray(rng.normal(size=(30, *heads))),
        jnp.asarray(rng.normal(size=(9, *heads))),
    )


@pytest.mark.parametrize("chunk", [None, 1, 7, 30, 100])
@pytest.mark.parametrize("per_head", [False, True])
def test_product_and_its_gradients(x64, per_head, chunk):
    op = operator(per_head)
    h = jnp.asarray(np.random.default_rng(1).normal(size=(9, 3, 2)))
    want = np.array(op.diagonal.reshape(9, -1, 1) * h)
    for s, r, w in zip(op.senders, op.receivers, op.weights):
        want[r] += np.reshape(w, (-1, 1)) * h[s]
    np.testing.assert_allclose(spmm(op, h, chunk=chunk), want, rtol=0, atol=1e-13)

    def product(weights, diagonal, h):
        return spmm(op._replace(weights=weights, diagonal=diagonal), h, chunk=chunk)

    product = jax.jit(product)
    check_grads(product, (op.weights, op.diagonal, h), order=1, modes=["rev"], rtol=1e-6)


@pytest.mark.parametrize("chunk", [None, 2])
def test_more_senders_than_receivers(x64, chunk):
    op = EdgeOperator(jnp.array([4, 3, 0]), jnp.array([0, 0, 1]))
    h = jnp.arange(10.0).reshape(5, 2)
    out = spmm(op, h, num_nodes=2, chunk=chunk)
    np.testing.assert_array_equal(out, [h[4] + h[3], h[0]])
    grad = jax.grad(lambda h: jnp.sum(spmm(op, h, 2, chunk)[0]))(h)
    np.testing.assert_array_equal(grad[:, 0], [0, 0, 0, 1, 1])


@pytest.mark.parametrize("chunk", [None, 512])
def test_sums_do_not_stall_in_bfloat16(chunk):
    # Summed in bfloat16 itself, ones stop counting at 256.
    leaves = 2048
    op = EdgeOperator(jnp.arange(1, leaves + 1), jnp.zeros(leaves, jnp.int32))
    out = spmm(op, jnp.ones((leaves + 1, 1), jnp.bfloat16), chunk=chunk)
    assert out.dtype == jnp.bfloat16
    assert float(out[0, 0]) == leaves


def test_chunks_bound_the_memory_of_training():
    edges, nodes, width, chunk = 2**14, 64, 32, 2**8
    rng = np.random.default_rng(0)
    senders = jnp.asarray(rng.integers(0, nodes, edges), jnp.int32)
    receivers = jnp.asarray(np.sort(rng.integers(0, nodes, edges)), jnp.int32)
    h, weights = jnp.ones((nodes, width)), jnp.ones(edges)

    def temporary_bytes(chunk):
        def loss(h, weights):
            out = spmm(EdgeOperator(senders, receivers, weights), h, chunk=chunk)
            return jnp.sum(jnp.square(out))

        compiled = jax.jit(jax.grad(loss, argnums=(0, 1))).lower(h, weights).compile()
        return compiled.memory_analysis().temp_size_in_bytes

    messages = 4 * edges * width
    assert temporary_bytes(None) >= messages
    assert temporary_bytes(chunk) < messages / 4


def test_softmax_over_in_edges(x64):
    graph = random_graph(9, 15)
    rng = np.random.default_rng(0)
    scores, own = rng.normal(size=(30, 2)) * 300, rng.normal(size=(9, 2)) * 300
    receivers = jnp.asarray(graph.receivers)
    for self_scores in (None, jnp.asarray(own)):
        weights, loops = edge_softmax(jnp.asarray(scores), receivers, 9, self_scores)
        for i in range(9):
            mine = scores[graph.receivers == i]
            mine = mine if self_scores is None else np.concatenate([mine, own[i : i + 1]])
            want = np.exp(mine - mine.max(0, initial=-np.inf))
            want = want / want.sum(0)
            got = np.asarray(weights)[graph.receivers == i]
            got = got if self_scores is None else np.concatenate([got, loops[i : i + 1]])
            np.testing.assert_allclose(got, want, rtol=0, atol=1e-14)


def test_softmax_gradient(x64):
    graph = random_graph(9, 15)
    rng = np.random.default_rng(0)
    scores, own = jnp.asarray(rng.normal(size=30)), jnp.asarray(rng.normal(size=9))
    receivers = jnp.asarray(graph.receivers)
    check_grads(lambda s: edge_softmax(s, receivers, 9)[0], (scores,), order=1, modes=["rev"])
    check_grads(
        lambda s, o: edge_softmax(s, receivers, 9, o), (scores, own), order=1, modes=["rev"]
    )


def test_softmax_of_low_precision_scores_is_float32():
    scores = jnp.array([1e4, 1e4 - 8, -3e4], jnp.float16)
    weights, _ = edge_softmax(scores, jnp.array([0, 0, 2]), 3)
    assert weights.dtype == jnp.float32
    np.testing.assert_allclose(weights, [1 / (1 + np.exp(-8)), 1 / (1 + np.exp(8)), 1], rtol=1e-5)


def test_bad_arguments():
    op, h = operator(), jnp.zeros((9, 3))
    with pytest.raises(ValueError, match="chunk=0 must be at least 1"):
        spmm(op, h, chunk=0)
    with pytest.raises(ValueError, match=r"op.weights has shape \(29,\), needs \[30\]"):
        spmm(op._replace(weights=op.weights[1:]), h)
    with pytest.raises(ValueError, match=r"op.weights has shape \(30, 2\)"):
        spmm(op._replace(weights=jnp.zeros((30, 2))), h)
    with pytest.raises(ValueError, match=r"op.diagonal has shape \(9,\), needs \[8\]"):
        spmm(op, h, num_nodes=8)
    with pytest.raises(ValueError, match=r"op.senders has shape \(29,\)"):
        spmm(op._replace(senders=op.senders[1:]), h)
    with pytest.raises(ValueError, match=r"self_scores has shape \(8,\), needs \(9,\)"):
        edge_softmax(op.weights, op.receivers, 9, jnp.zeros(8))
    with pytest.raises(ValueError, match=r"scores has shape \(9,\)"):
        edge_softmax(jnp.zeros(9), op.receivers, 9)
