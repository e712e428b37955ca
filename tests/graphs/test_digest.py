"""The hash of a graph: same for the same graph, another for any other."""

import dataclasses

import numpy as np
import pytest

from neurips25.graphs import NodeGraph, graph_digest


@pytest.fixture
def graph():
    masks = np.eye(5, dtype=bool)
    return NodeGraph.from_edges(
        "five",
        np.arange(10.0).reshape(5, 2),
        [(0, 1), (1, 2), (3, 4)],
        [0, 1, 0, 1, -1],
        train_mask=masks[:2],
        val_mask=masks[1:3],
        test_mask=masks[2:4],
    )


def test_the_order_of_a_files_edges_and_the_name_do_not_count(graph):
    same = NodeGraph.from_edges(
        "other name",
        np.asfortranarray(graph.features),
        [(4, 3), (2, 1), (1, 0), (0, 1)],
        graph.labels,
        train_mask=graph.train_mask,
        val_mask=graph.val_mask,
        test_mask=graph.test_mask,
    )
    assert graph_digest(same) == graph_digest(graph)


def _other(graph, field):
    value = getattr(graph, field)
    if field == "num_classes":
        return value + 1
    if field == "features":
        changed = value.copy()
        changed[2, 1] += 1e-4
        return changed
    if field == "labels":
        return np.where(np.arange(5) == 0, 1, value)
    return value[::-1]


@pytest.mark.parametrize(
    "field", ["features", "labels", "num_classes", "train_mask", "val_mask", "test_mask"]
)
def test_every_field_counts(graph, field):
    changed = dataclasses.replace(graph, **{field: _other(graph, field)})
    assert graph_digest(changed) != graph_digest(graph)


def test_edges_count(graph):
    keep = np.maximum(graph.senders, graph.receivers) < 3
    fewer = dataclasses.replace(graph, senders=graph.senders[keep], receivers=graph.receivers[keep])
    assert graph_digest(fewer) != graph_digest(graph)


def test_the_shape_of_features_counts(graph):
    one = NodeGraph.from_edges("a", np.ones((2, 3)), [], [0, 0])
    other = NodeGraph.from_edges("a", np.ones((3, 2)), [], [0, 0, -1])
    assert graph_digest(one) != graph_digest(other)
