"""The normalised adjacency: reference array, all normalisations, bad input."""

import jax.numpy as jnp
import numpy as np
import pytest

from neurips25.graphs import normalized_adjacency, spmm
from tests.graphs.reference import dense_adjacency, graph_of, random_edges, random_graph


def as_matrix(op, n):
    return np.asarray(spmm(op, jnp.eye(n)))


def test_golden_normalisation(x64, golden):
    arrays = golden("ugcformer/model_n40_f15_d8_l3_c4.npz")
    op = normalized_adjacency(graph_of(arrays["edges"], arrays["x"]))
    np.testing.assert_allclose(as_matrix(op, 40), arrays["adj_norm"], rtol=0, atol=1e-12)


@pytest.mark.parametrize("loops", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", ["symmetric", "row", "none"])
def test_normalisations(x64, kind, loops, weighted):
    weights = np.random.default_rng(2).uniform(0.5, 2, 20) if weighted else None
    graph = graph_of(random_edges(12, 20), np.zeros((12, 1)), weights)
    a = dense_adjacency(graph) + (np.eye(12) if loops else 0)
    rows = np.where(a.sum(1) > 0, a.sum(1), 1)
    divisor = {"symmetric": np.sqrt(np.outer(rows, rows)), "row": rows[:, None], "none": 1}[kind]
    matrix = as_matrix(normalized_adjacency(graph, loops, kind), 12)
    np.testing.assert_allclose(matrix, np.where(a > 0, a / divisor, 0), rtol=0, atol=1e-14)
    assert (matrix[-1, :-1] == 0).all()  # the isolated node
    assert matrix[-1, -1] == (1 if loops else 0)


def test_degrees_of_the_whole_graph_replace_those_of_the_edges(x64):
    graph = random_graph()
    degrees = np.arange(12)
    part = graph._replace(nodes={"features": graph.nodes, "degrees": degrees})
    matrix = as_matrix(normalized_adjacency(part), 12)
    a = dense_adjacency(graph) + np.eye(12)
    want = a / np.sqrt(np.outer(degrees + 1, degrees + 1))
    np.testing.assert_allclose(matrix, want, rtol=0, atol=1e-14)


def test_bad_arguments():
    with pytest.raises(ValueError, match="normalization='symetric' is not one of"):
        normalized_adjacency(random_graph(), normalization="symetric")
    with pytest.raises(ValueError, match=r"graph.edges has shape \(40, 2\), needs weights"):
        normalized_adjacency(random_graph()._replace(edges=np.zeros((40, 2))))
