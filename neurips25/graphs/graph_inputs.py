"""What a model reads from a :class:`jraph.GraphsTuple`, and how one is padded.

A tuple holds one graph with ``receivers`` in ascending order. ``nodes`` are features [n, f], an
array or :class:`~neurips25.graphs.SparseFeatures`, or
``{"features": [n, f], "ids": [n], "degrees": [n]}`` for a part of a larger graph: node i is node
``ids[i]`` of the whole and has ``degrees[i]`` neighbours there. ``edges`` are weights [E], or None
where all are one. A second graph in the tuple is padding, as ``jraph.pad_with_graphs`` leaves it:
nodes and edges that no result depends on.
"""

import dataclasses
from collections.abc import Mapping

import jax
import jax.numpy as jnp
import jraph
import numpy as np

from neurips25.graphs.sampling import SampledSubgraph
from neurips25.graphs.sparse_features import Features, SparseFeatures


def node_features(graph: jraph.GraphsTuple) -> Features:
    """The features [n, f], dense or sparse.

    Raises:
      ValueError: no such array, or a tuple of more than a graph and its padding.
    """
    num_nodes(graph)
    return jax.tree.map(jnp.asarray, _features(graph))


def num_nodes(graph: jraph.GraphsTuple) -> int:
    """Rows n of the node arrays, padding included; known while tracing.

    Raises:
      ValueError: no features [n, f], or a tuple of more than a graph and its padding.
    """
    features = _features(graph)
    shape = features.shape if isinstance(features, SparseFeatures) else np.shape(features)
    if len(shape) != 2:
        raise ValueError(f"graph.nodes has features of shape {shape}, needs [n, f]")
    if np.size(graph.n_node) > 2:
        raise ValueError(
            f"graph.n_node has shape {np.shape(graph.n_node)}, needs [1], or [2] with padding"
        )
    if np.shape(graph.senders) != np.shape(graph.receivers):
        raise ValueError(
            f"graph.senders has shape {np.shape(graph.senders)}, "
            f"needs {np.shape(graph.receivers)} as graph.receivers"
        )
    return shape[0]


def node_ids(graph: jraph.GraphsTuple) -> jax.Array | None:
    """Where the nodes stand in the whole graph, int [n]; None where this is the whole graph."""
    return _node_array(graph, "ids")


def node_degrees(graph: jraph.GraphsTuple) -> jax.Array | None:
    """The row sums of the whole graph's A, [n]; None where they are those of the edges given."""
    return _node_array(graph, "degrees")


def edge_weights(graph: jraph.GraphsTuple) -> jax.Array | None:
    """The edge weights [E], None where all are one.

    Raises:
      ValueError: edge features that are no weights.
    """
    if graph.edges is None:
        return None
    weights = jnp.asarray(graph.edges)
    if weights.shape != np.shape(graph.receivers):
        raise ValueError(
            f"graph.edges has shape {weights.shape}, needs weights {np.shape(graph.receivers)}"
        )
    return weights


def real_nodes(graph: jraph.GraphsTuple) -> jax.Array | None:
    """Which nodes are no padding, bool [n]; None where there is no padding."""
    if np.size(graph.n_node) == 1:
        return None
    return jnp.arange(num_nodes(graph)) < jnp.asarray(graph.n_node)[0]


def pad_graph(graph: jraph.GraphsTuple, nodes: int, edges: int) -> jraph.GraphsTuple:
    """A graph with a second one behind it that fills the arrays up to given sizes.

    Padding edges join the first padding node to itself, so the receivers stay in order.

    Args:
      graph: one graph, without padding, on the host.
      nodes: rows of the result; more than the graph has, unless nothing is to be padded.
      edges: edges of the result.

    Returns:
      The padded graph as numpy arrays, new features, ids and weights being 0; ``graph`` itself
      where it has these sizes already.

    Raises:
      ValueError: sizes that leave no room, or a graph that is padded already.

    >>> pair = jraph.GraphsTuple(
    ...     nodes=np.ones((2, 1)), edges=None, globals=None, senders=np.array([1, 0]),
    ...     receivers=np.array([0, 1]), n_node=np.array([2]), n_edge=np.array([2]))
    >>> pad_graph(pair, 4, 3).receivers.tolist()
    [0, 1, 2]
    """
    n, e = num_nodes(graph), len(graph.receivers)
    if np.size(graph.n_node) != 1:
        raise ValueError(f"graph.n_node={np.asarray(graph.n_node)}: is padded already")
    if (nodes, edges) == (n, e):
        return graph
    if nodes <= n or edges < e:
        raise ValueError(
            f"nodes={nodes}, edges={edges}: a graph of {n} nodes and {e} edges needs at least "
            f"{n + 1} and {e}"
        )

    def pad(array: np.ndarray, rows: int, fill: int = 0) -> np.ndarray:
        array = np.asarray(array)
        widths = [(0, rows - len(array))] + [(0, 0)] * (array.ndim - 1)
        return np.pad(array, widths, constant_values=fill)

    def pad_node_array(array: np.ndarray | SparseFeatures) -> np.ndarray | SparseFeatures:
        if isinstance(array, SparseFeatures):
            return dataclasses.replace(array, shape=(nodes, array.shape[1]))
        return pad(array, nodes)

    is_leaf = lambda a: isinstance(a, SparseFeatures)  # noqa: E731
    return graph._replace(
        nodes=jax.tree.map(pad_node_array, graph.nodes, is_leaf=is_leaf),
        edges=None if graph.edges is None else pad(graph.edges, edges),
        senders=pad(graph.senders, edges, n),
        receivers=pad(graph.receivers, edges, n),
        n_node=np.array([n, nodes - n], np.int32),
        n_edge=np.array([e, edges - e], np.int32),
    )


def subgraph_tuple(batch: SampledSubgraph) -> jraph.GraphsTuple:
    """A sampled neighbourhood as the tuple that every model takes.

    Args:
      batch: from :class:`~neurips25.graphs.NeighborBatches`, on the host or while tracing.

    Returns:
      A graph and its padding, with ids and degrees of the whole graph; the weights of its edges
      make sums over drawn neighbours stand for sums over all.
    """
    n, real = batch.features.shape[0], jnp.sum(batch.real_nodes, dtype=jnp.int32)
    edges = jnp.sum(batch.receivers < real, dtype=jnp.int32)
    return jraph.GraphsTuple(
        nodes={"features": batch.features, "ids": batch.nodes, "degrees": batch.degrees},
        edges=batch.edge_weight,
        senders=batch.senders,
        receivers=batch.receivers,
        globals=None,
        n_node=jnp.stack([real, n - real]),
        n_edge=jnp.stack([edges, batch.receivers.shape[0] - edges]),
    )


def _node_array(graph: jraph.GraphsTuple, name: str) -> jax.Array | None:
    array = graph.nodes.get(name) if isinstance(graph.nodes, Mapping) else None
    if array is None:
        return None
    if np.shape(array) != (num_nodes(graph),):
        raise ValueError(
            f"graph.nodes[{name!r}] has shape {np.shape(array)}, needs ({num_nodes(graph)},)"
        )
    return jnp.asarray(array)


def _features(graph: jraph.GraphsTuple) -> Features | np.ndarray:
    return graph.nodes["features"] if isinstance(graph.nodes, Mapping) else graph.nodes
