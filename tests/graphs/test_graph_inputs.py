"""What models read from a tuple: padding, parts of a graph, bad input."""

import jax
import jraph
import numpy as np
import pytest

from neurips25.graphs import (
    node_features,
    node_ids,
    num_nodes,
    pad_graph,
    real_nodes,
)
from tests.graphs.reference import random_graph


def test_padding_is_a_second_graph_as_jraph_leaves_it():
    graph = random_graph()
    ours = pad_graph(graph, 16, 50)
    theirs = jraph.pad_with_graphs(graph, 16, 50, 2)
    jax.tree.map(np.testing.assert_array_equal, ours, theirs)
    assert (np.diff(ours.receivers) >= 0).all()
    assert num_nodes(ours) == 16
    np.testing.assert_array_equal(real_nodes(ours), jraph.get_node_padding_mask(theirs))
    assert real_nodes(graph) is None
    assert pad_graph(graph, 12, 40) is graph


def test_padding_of_weights_and_ids():
    graph = random_graph()
    part = graph._replace(
        nodes={"features": graph.nodes, "ids": np.arange(12)}, edges=np.ones(40, np.float32)
    )
    padded = pad_graph(part, 13, 44)
    assert node_features(padded).shape == (13, 5)
    assert node_ids(padded)[-1] == 0
    assert (padded.edges[40:] == 0).all()
    assert node_ids(graph) is None


def test_bad_arguments():
    graph = random_graph()
    with pytest.raises(ValueError, match="needs at least 13 and 40"):
        pad_graph(graph, 12, 41)
    with pytest.raises(ValueError, match="is padded already"):
        pad_graph(pad_graph(graph, 16, 50), 20, 60)
    with pytest.raises(ValueError, match=r"features of shape \(12,\), needs \[n, f\]"):
        node_features(graph._replace(nodes=graph.nodes[:, 0]))
    with pytest.raises(ValueError, match=r"n_node has shape \(3,\)"):
        node_features(graph._replace(n_node=np.array([3, 4, 5])))
    with pytest.raises(ValueError, match=r"senders has shape \(39,\)"):
        node_features(graph._replace(senders=graph.senders[1:]))
    with pytest.raises(ValueError, match=r"nodes\['ids'\] has shape \(11,\), needs \(12,\)"):
        node_ids(graph._replace(nodes={"features": graph.nodes, "ids": np.arange(11)}))
