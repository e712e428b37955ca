"""LINKX: separate codes of the adjacency and of the features, mixed by an MLP.

Lim et al., NeurIPS 2021, arXiv:2110.14446:

    h_A = MLP_A(A),  h_X = MLP_X(X),   logits = MLP_f( ReLU( W [h_A; h_X] + h_A + h_X ) )
"""

import jax
import jax.numpy as jnp
import jraph
from flax import linen
from jax.typing import DTypeLike

from neurips25.graphs.adjacency_encoder import AdjacencyEncoder
from neurips25.graphs.gcn import node_batch_norm
from neurips25.graphs.graph_inputs import node_features, real_nodes
from neurips25.graphs.mlp import GLOROT, DenseStack, as_logits
from neurips25.nn.initializers import fan_in_uniform


class LINKX(linen.Module):
    """The baseline. Its weights belong to the nodes of one graph.

    Batch statistics need ``mutable=["batch_stats"]`` in training.

    Attributes:
      num_classes: C.
      hidden_dim: width of all hidden layers.
      encoder_layers: linear layers of MLP_A and of MLP_X, 1 as published; ReLU alone between more.
      final_layers: linear layers of MLP_f; each hidden one is followed by ReLU, batch
        normalisation and dropout, as published.
      dropout: rate in MLP_f.
      num_nodes: nodes of the whole graph, where parts of it are given; None is those given.
      edge_chunk: edges at a time, None for all.
      dtype: of the computation.
    """

    num_classes: int
    hidden_dim: int = 64
    encoder_layers: int = 1
    final_layers: int = 2
    dropout: float = 0.5
    num_nodes: int | None = None
    edge_chunk: int | None = None
    dtype: DTypeLike = jnp.float32

    @linen.compact
    def __call__(self, graph: jraph.GraphsTuple, deterministic: bool = True) -> jax.Array:
        """Logits [n, C] in float32 at least; without ``deterministic`` with an rng ``dropout``."""
        h_a = AdjacencyEncoder(
            self.hidden_dim,
            self.encoder_layers,
            num_nodes=self.num_nodes,
            edge_chunk=self.edge_chunk,
            dtype=self.dtype,
            name="topo",
        )(graph, deterministic)
        widths = (self.hidden_dim,) * self.encoder_layers
        h_x = DenseStack(widths, first_init=fan_in_uniform, dtype=self.dtype, name="attr")(
            node_features(graph), deterministic
        )
        x = self._dense(self.hidden_dim, "mix")(jnp.concatenate([h_a, h_x], axis=-1))
        x = jax.nn.relu(x + h_a + h_x)
        for i in range(self.final_layers - 1):
            x = jax.nn.relu(self._dense(self.hidden_dim, f"final_{i}")(x))
            x = node_batch_norm(x, real_nodes(graph), deterministic, self.dtype, f"norm_{i}")
            x = linen.Dropout(self.dropout)(x, deterministic=deterministic)
        return as_logits(self._dense(self.num_classes, f"final_{self.final_layers - 1}")(x))

    def _dense(self, width: int, name: str) -> linen.Dense:
        return linen.Dense(width, kernel_init=GLOROT, dtype=self.dtype, name=name)
