import dataclasses

import jraph
import numpy as np
import pytest

from neurips25.graphs import NodeGraph, Split, homophily, to_graphs_tuple
from neurips25.graphs.node_graph import as_integers, as_mask, canonical_edges, sorted_unique
from tests.graphs.small_graphs import assert_same, small_graph


def path_graph(**changes):
    """0 - 1 - 2 and 3 alone."""
    arguments = {
        "name": "path",
        "features": np.arange(8).reshape(4, 2),
        "edges": [(0, 1), (1, 2)],
        "labels": [0, 1, 1, -1],
        "train_mask": [True, False, False, False],
        "val_mask": [False, True, False, False],
        "test_mask": [False, False, True, False],
    }
    return NodeGraph.from_edges(**(arguments | changes))


@pytest.mark.parametrize(
    "edges",
    [
        [(0, 1), (1, 2)],
        [(2, 1), (1, 0)],
        [(0, 1), (1, 0), (1, 2), (1, 2), (2, 1), (3, 3), (0, 0)],
        np.array([(1, 2), (0, 1)], np.uint8),
        np.array([(1.0, 2.0), (0.0, 1.0)]),
    ],
)
def test_any_list_of_edges_gives_one_canonical_form(edges):
    graph = path_graph(edges=edges)
    assert graph.senders.tolist() == [1, 0, 2, 1]
    assert graph.receivers.tolist() == [0, 1, 1, 2]
    assert graph.senders.dtype == graph.receivers.dtype == np.int32
    assert graph.undirected_edges.tolist() == [[0, 1], [1, 2]]
    assert (graph.num_nodes, graph.num_edges, graph.num_splits, graph.num_classes) == (4, 2, 1, 2)
    assert graph.row_starts.tolist() == [0, 1, 3, 4, 4]
    assert graph.degrees.tolist() == [1, 2, 1, 0]


def test_canonical_edges_of_random_lists_against_a_dense_matrix():
    rng = np.random.default_rng(0)
    edges = rng.integers(0, 9, (40, 2))
    dense = np.zeros((9, 9), bool)
    dense[edges[:, 0], edges[:, 1]] = True
    dense |= dense.T
    np.fill_diagonal(dense, False)
    senders, receivers = canonical_edges(edges, 9)
    expected_receivers, expected_senders = np.nonzero(dense)
    np.testing.assert_array_equal(receivers, expected_receivers)
    np.testing.assert_array_equal(senders, expected_senders)


def test_a_graph_without_edges():
    graph = path_graph(edges=[])
    assert graph.num_edges == 0
    assert graph.undirected_edges.shape == (0, 2)
    assert graph.degrees.tolist() == [0, 0, 0, 0]
    assert np.isnan(homophily(graph))


def test_fields_are_as_documented():
    graph = path_graph()
    assert graph.features.dtype == np.float32
    assert graph.labels.dtype == np.int32
    assert graph.train_mask.dtype == bool
    assert graph.train_mask.shape == (1, 4)
    bare = NodeGraph.from_edges("bare", np.eye(3), [(0, 1)], [0, 0, 2])
    assert (bare.num_splits, bare.num_classes, bare.train_mask.shape) == (0, 3, (0, 3))
    partly = path_graph(val_mask=None, test_mask=None)
    assert partly.val_mask.tolist() == [[False] * 4]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"edges": [(0, 1), (1, 4)]}, r"edges\[1\] is \(1, 4\), but there is no node 4: .*0 to 3"),
        ({"edges": [(-1, 2)]}, r"edges\[0\] is \(-1, 2\), but there is no node -1"),
        ({"edges": [(0, 1, 2)]}, r"edges has shape \[1, 3\], needs \[m, 2\]"),
        ({"edges": [(0, 0.5)]}, r"edges\[0, 1\] is 0.5, needs an integer"),
        ({"edges": [("a", "b")]}, "edges has dtype <U1, needs integers"),
        ({"features": [[1, 2], [3, np.nan], [0, 0], [0, 0]]}, r"features\[1, 1\] is nan"),
        ({"features": [[1, 2], [3, 1e300], [0, 0], [0, 0]]}, r"features\[1, 1\] is 1e\+300"),
        ({"features": np.zeros((4, 0))}, r"features has shape \[4, 0\]"),
        ({"features": np.zeros(4)}, r"features has shape \[4\], needs \[n, d\]"),
        ({"features": [["x"]] * 4}, "features has dtype <U1, needs numbers"),
        ({"labels": [0, 1, 1]}, r"labels has shape \[3\], needs \[4\]"),
        ({"labels": [0, 1, -2, 0]}, r"labels\[2\] is -2, needs 0 to 1"),
        ({"labels": [0, 1, 2, 0], "num_classes": 2}, r"labels\[2\] is 2, needs 0 to 1"),
        ({"labels": [-1] * 4}, "num_classes must be >= 1, got 0"),
        ({"labels": [0, 1, np.nan, 0]}, r"labels\[2\] is nan, needs an integer"),
        ({"val_mask": [True] * 3}, r"val_mask has shape \[3\], needs \[splits, 4\]"),
        ({"val_mask": np.zeros((2, 4))}, r"1 \(train\), 2 \(val\) and 1 \(test\) splits"),
        ({"test_mask": [0, 0, 2, 0]}, "test_mask has dtype int64 or values that are not 0 or 1"),
        ({"test_mask": [0, 0, 1, 1]}, r"test_mask\[0\] has node 3, whose label is not known"),
    ],
)
def test_malformed_graphs_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        path_graph(**changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"senders": [0, 1, 2, 1]}, "edge 0 joins node 0 with itself"),
        ({"senders": [1, 2, 0, 1]}, r"must be sorted by \(receivers, senders\)"),
        ({"senders": [1, 0, 0, 1]}, r"must be sorted by \(receivers, senders\)"),
        ({"senders": [1, 0, 3, 1]}, "in both directions"),
        ({"senders": [1, 0, 2, 9]}, r"edges\[3\] is \(9, 2\)"),
        ({"senders": [1, 0, 2]}, r"receivers has shape \[4\], needs that of senders, \[3\]"),
        ({"train_mask": [True, False, False, False]}, r"train_mask has shape \[4\], needs"),
    ],
)
def test_the_constructor_repairs_nothing(changes, message):
    changes = {field: np.array(value) for field, value in changes.items()}
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(path_graph(), **changes)


def test_shared_nodes_of_two_masks_are_named():
    with pytest.warns(UserWarning, match=r"train and test masks share 1 nodes in split 0 .*node 2"):
        path_graph(train_mask=[True, False, True, False])


def test_splits():
    graph = small_graph(splits=3)
    split = graph.split(2)
    np.testing.assert_array_equal(split.val, graph.val_mask[2])
    assert all(mask.shape == (graph.num_nodes,) for mask in split)
    for bad in (-1, 3):
        with pytest.raises(ValueError, match=f"split {bad} does not exist, 'small' has 3"):
            graph.split(bad)
    alone = graph.with_split(split)
    assert alone.num_splits == 1
    assert_same(
        alone.with_split(Split(*(graph.train_mask, graph.val_mask, graph.test_mask))), graph
    )


def test_graphs_tuple():
    graph = small_graph()
    weights = np.ones((len(graph.senders), 1), np.float32)
    whole = to_graphs_tuple(graph, weights)
    assert isinstance(whole, jraph.GraphsTuple)
    np.testing.assert_array_equal(whole.nodes, graph.features)
    np.testing.assert_array_equal(whole.senders, graph.senders)
    np.testing.assert_array_equal(whole.receivers, graph.receivers)
    assert whole.edges is weights
    assert (whole.n_node.tolist(), whole.n_edge.tolist()) == ([12], [2 * graph.num_edges])


def test_homophily_counts_edges_with_two_known_labels():
    # 0-1 differ, 1-2 agree, 2-3 has an unknown end.
    graph = path_graph(edges=[(0, 1), (1, 2), (2, 3)])
    assert homophily(graph) == 0.5


def test_integers_and_masks():
    assert as_integers("x", [1.0, 2.0], 1).dtype == np.int64
    assert as_integers("x", [], None).shape == (0,)
    with pytest.raises(ValueError, match=r"x has shape \[1, 1\], needs 1 axes"):
        as_integers("x", [[1]], 1)
    with pytest.raises(ValueError, match=r"x\[1\] is inf"):
        as_integers("x", [0, np.inf], 1)
    assert as_mask("m", np.array([1.0, 0.0]), 2).dtype == bool
    with pytest.raises(ValueError, match="m has dtype float64"):
        as_mask("m", [np.nan, 0], 2)


def test_sorted_unique():
    values = np.random.default_rng(0).integers(0, 50, 99)
    np.testing.assert_array_equal(sorted_unique(values), np.unique(values))
    assert sorted_unique(np.zeros(0, np.int64)).tolist() == []


def test_no_splits_and_huge_labels():
    graph = NodeGraph.from_edges("toy", np.eye(2), [(0, 1)], [0, 1])
    with pytest.raises(ValueError, match=r"'toy' has no splits; draw some: .*random_splits"):
        graph.split(0)
    with pytest.raises(ValueError, match=r"labels\[1\] is 4294967296, needs int32"):
        NodeGraph.from_edges("toy", np.eye(2), [(0, 1)], [0, 2**32])
