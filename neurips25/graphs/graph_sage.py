"""GraphSAGE: a node's own features beside the mean of its neighbours'.

Hamilton, Ying and Leskovec, NeurIPS 2017, arXiv:1706.02216, with the mean aggregator:

    h'_i = W_root h_i + W_neigh mean_{j ∈ N(i)} h_j + b
"""

import jax
import jax.numpy as jnp
import jraph
from flax import linen
from jax.typing import DTypeLike

from neurips25.graphs.adjacency import Normalization, normalized_adjacency
from neurips25.graphs.edge_operator import EdgeOperator, spmm
from neurips25.graphs.graph_inputs import node_features
from neurips25.graphs.mlp import GLOROT, as_logits
from neurips25.graphs.sparse_features import Features, SparseFeatures, feature_product


class SAGEConvolution(linen.Module):
    """W_root h_i + W_neigh mean_j h_j + b: [n, f] -> [n, features].

    Parameters: ``root``, ``neighbours`` [f, features]; ``bias``. A node without neighbours has the
    mean zero.

    Attributes:
      features: of the result.
      edge_chunk: edges at a time, None for all.
      dtype: of the computation.
    """

    features: int
    edge_chunk: int | None = None
    dtype: DTypeLike = jnp.float32

    @linen.compact
    def __call__(self, x: Features, mean: EdgeOperator) -> jax.Array:
        """``mean`` is the adjacency divided by its row sums."""
        shape = (x.shape[-1], self.features)
        root = self.param("root", GLOROT, shape, jnp.float32).astype(self.dtype)
        neighbours = self.param("neighbours", GLOROT, shape, jnp.float32).astype(self.dtype)
        bias = self.param("bias", linen.initializers.zeros, (self.features,), jnp.float32)
        # The mean is linear: the narrower of input and output goes over the edges.
        if isinstance(x, SparseFeatures) or self.features <= x.shape[-1]:
            moved = spmm(mean, feature_product(x, neighbours), chunk=self.edge_chunk)
        else:
            moved = spmm(mean, x.astype(self.dtype), chunk=self.edge_chunk) @ neighbours
        return feature_product(x, root) + moved + bias.astype(self.dtype)


class GraphSAGE(linen.Module):
    """The baseline.

    Attributes:
      num_classes: C.
      hidden_dim: width of the hidden layers.
      num_layers: convolutions, with ReLU between them.
      dropout: rate before all layers but the first.
      edge_chunk: edges at a time, None for all.
      dtype: of the computation.
    """

    num_classes: int
    hidden_dim: int = 64
    num_layers: int = 2
    dropout: float = 0.5
    edge_chunk: int | None = None
    dtype: DTypeLike = jnp.float32

    @linen.compact
    def __call__(self, graph: jraph.GraphsTuple, deterministic: bool = True) -> jax.Array:
        """Logits [n, C] in float32 at least; without ``deterministic`` with an rng ``dropout``."""
        mean = normalized_adjacency(graph, add_self_loops=False, normalization=Normalization.ROW)
        y = self._convolution(0)(node_features(graph), mean)
        for i in range(1, self.num_layers):
            y = linen.Dropout(self.dropout)(jax.nn.relu(y), deterministic=deterministic)
            y = self._convolution(i)(y, mean)
        return as_logits(y)

    def _convolution(self, i: int) -> SAGEConvolution:
        width = self.num_classes if i == self.num_layers - 1 else self.hidden_dim
        return SAGEConvolution(width, self.edge_chunk, self.dtype, name=f"conv_{i}")
