"""An MLP on the rows of the adjacency matrix: where a node stands in one particular graph.

    h_i = MLP(A_i),   A W = Σ over in-edges of rows of W,   W [n, d]

(LINKX, arXiv:2110.14446.) Row j of W belongs to node j, so a model with such weights knows the
nodes of its graph only: a graph with a node more, or in another order, needs training anew.
"""

import jax
import jax.numpy as jnp
import jraph
from flax import linen
from jax.typing import DTypeLike

from neurips25.graphs.edge_operator import EdgeOperator, spmm
from neurips25.graphs.graph_inputs import edge_weights, node_ids, num_nodes
from neurips25.graphs.mlp import DenseStack
from neurips25.nn.initializers import fan_in_uniform


class AdjacencyEncoder(linen.Module):
    """An MLP whose input is the node's row of A, with A's own weights and no self-loops.

    Time and memory of the first layer are O(E d), see :func:`~neurips25.graphs.spmm`.

    Parameters: ``table`` [N, d], uniform on ±1/√N; ``bias`` [d]; with more layers ``mlp``.

    Attributes:
      features: width of all layers.
      num_layers: 1 for A W + b alone.
      dropout: rate after each ReLU.
      num_nodes: N of the whole graph; None is the number of rows of the graph that is given.
      edge_chunk: edges at a time, None for all.
      dtype: of the computation.
    """

    features: int
    num_layers: int = 2
    dropout: float = 0.0
    num_nodes: int | None = None
    edge_chunk: int | None = None
    dtype: DTypeLike = jnp.float32

    @linen.compact
    def __call__(self, graph: jraph.GraphsTuple, deterministic: bool = True) -> jax.Array:
        """The code of every node.

        Args:
          graph: the whole graph, or a part of it whose ``nodes`` hold ``ids``.
          deterministic: no dropout; else an rng named ``dropout`` is needed.

        Returns:
          [n, features].

        Raises:
          ValueError: a graph of another number of nodes than the parameters.
        """
        n, ids = num_nodes(graph), node_ids(graph)
        rows = self._rows(graph, n, ids)
        table = self.param("table", fan_in_uniform, (rows, self.features), jnp.float32)
        bias = self.param("bias", linen.initializers.zeros, (self.features,), jnp.float32)
        senders = jnp.asarray(graph.senders)
        op = EdgeOperator(
            senders if ids is None else ids[senders],
            jnp.asarray(graph.receivers),
            edge_weights(graph),
        )
        h = spmm(op, table.astype(self.dtype), n, self.edge_chunk) + bias.astype(self.dtype)
        if self.num_layers == 1:
            return h
        h = linen.Dropout(self.dropout)(jax.nn.relu(h), deterministic=deterministic)
        widths = (self.features,) * (self.num_layers - 1)
        return DenseStack(widths, self.dropout, dtype=self.dtype, name="mlp")(h, deterministic)

    def _rows(self, graph: jraph.GraphsTuple, n: int, ids: jax.Array | None) -> int:
        """Nodes N of the whole graph."""
        known = None
        if self.has_variable("params", "table"):
            known = self.get_variable("params", "table").shape[0]
        rows = self.num_nodes
        if rows is None:
            rows = n if ids is None else known
        if rows is None:
            raise ValueError("num_nodes=None: parameters for a part of a graph need the whole's")
        if known not in (None, rows):
            raise ValueError(
                f"the parameters are tied to {known} nodes, the graph has {rows}: another graph "
                "needs training anew"
            )
        if ids is None and n != rows and not (n > rows and jnp.size(graph.n_node) == 2):
            raise ValueError(
                f"graph has {n} nodes, num_nodes={rows}: a part of a graph needs "
                "nodes={'features': ..., 'ids': ...}"
            )
        return rows
