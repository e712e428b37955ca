"""One graph over the devices of a mesh: nodes and edges are split, small weights are copied.

Every function of this area then runs under ``jit`` as it is. Sums over nodes, such as the d × d
products of linear attention, become sums over devices; a product with the adjacency gathers the
rows that its edges need.
"""

import jax
import jraph
import numpy as np
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

from neurips25.graphs.graph_inputs import num_nodes, pad_graph
from neurips25.graphs.sparse_features import SparseFeatures
from neurips25.training.mesh import batch_sharding, replicated

# (regular expression over the parameter's path, axes): weights with a row per node go where the
# nodes are.
GRAPH_RULES = ((r"topo/table$", P(("data", "fsdp"))),)


def shard_graph(graph: jraph.GraphsTuple, mesh: Mesh) -> jraph.GraphsTuple:
    """Places a graph with its nodes and its edges split over the mesh axes data and fsdp.

    Args:
      graph: one graph with dense features, without padding, on the host; receivers ascending.
        Its models should do without ``edge_chunk``: chunks run across the devices' shares.
      mesh: as of :func:`neurips25.training.make_mesh`.

    Returns:
      The graph as sharded arrays, padded (see :func:`~neurips25.graphs.pad_graph`) where nodes or
      edges do not divide by the devices. Results for padding rows mean nothing.

    Raises:
      ValueError: sparse features, or as :func:`~neurips25.graphs.pad_graph`.
    """
    is_sparse = lambda a: isinstance(a, SparseFeatures)  # noqa: E731
    if any(map(is_sparse, jax.tree.leaves(graph.nodes, is_leaf=is_sparse))):
        raise ValueError("graph.nodes are sparse features, needs an array to split by nodes")
    ways = mesh.shape["data"] * mesh.shape["fsdp"]
    n, e = num_nodes(graph), len(graph.receivers)
    if n % ways or e % ways:
        graph = pad_graph(graph, _up(n + 1, ways), _up(e, ways))
    split, whole = batch_sharding(mesh), replicated(mesh)
    return graph._replace(
        nodes=jax.device_put(graph.nodes, split),
        edges=None if graph.edges is None else jax.device_put(graph.edges, split),
        senders=jax.device_put(graph.senders, split),
        receivers=jax.device_put(graph.receivers, split),
        n_node=jax.device_put(np.asarray(graph.n_node), whole),
        n_edge=jax.device_put(np.asarray(graph.n_edge), whole),
    )


def shard_rows(array: np.ndarray, rows: int, mesh: Mesh, fill: float = 0) -> jax.Array:
    """Places labels or masks beside the nodes of a graph from :func:`shard_graph`.

    Args:
      array: [n, ...], one row per node.
      rows: of the sharded graph.
      mesh: the same as its.
      fill: value of the padding rows.

    Returns:
      [rows, ...], split as the nodes are.

    Raises:
      ValueError: more rows in ``array`` than ``rows``.
    """
    array = np.asarray(array)
    if len(array) > rows:
        raise ValueError(f"array has shape {array.shape}, needs at most {rows} rows")
    widths = [(0, rows - len(array))] + [(0, 0)] * (array.ndim - 1)
    padded = np.pad(array, widths, constant_values=fill)
    return jax.device_put(padded, batch_sharding(mesh))


def _up(size: int, ways: int) -> int:
    return -(-size // ways) * ways
