"""GCN: graph convolutions with the symmetrically normalised adjacency.

Kipf and Welling, ICLR 2017, arXiv:1609.02907:   H' = ReLU(Ã H W + b),   Ã = D^-½ (A + I) D^-½
"""

import jax
import jax.numpy as jnp
import jraph
from flax import linen
from jax.typing import DTypeLike

from neurips25.graphs.adjacency import normalized_adjacency
from neurips25.graphs.edge_operator import EdgeOperator, spmm
from neurips25.graphs.graph_inputs import node_features, real_nodes
from neurips25.graphs.mlp import GLOROT, as_logits
from neurips25.graphs.sparse_features import Features, drop_features, feature_product

# Of PyTorch's BatchNorm, in whose terms the published settings are.
BATCH_NORM_MOMENTUM = 0.9
BATCH_NORM_EPS = 1e-5


class GraphConvolution(linen.Module):
    """Ã x W + b, the narrow product first: [n, f] -> [n, features].

    Parameters: ``kernel`` [f, features], Glorot-uniform; ``bias``.

    Attributes:
      features: of the result.
      use_bias: whether b is added.
      edge_chunk: edges at a time, None for all.
      dtype: of the computation.
    """

    features: int
    use_bias: bool = True
    edge_chunk: int | None = None
    dtype: DTypeLike = jnp.float32

    @linen.compact
    def __call__(self, x: Features, adj_norm: EdgeOperator) -> jax.Array:
        kernel = self.param("kernel", GLOROT, (x.shape[-1], self.features), jnp.float32)
        h = feature_product(x, kernel.astype(self.dtype))
        y = spmm(adj_norm, h, chunk=self.edge_chunk)
        if not self.use_bias:
            return y
        bias = self.param("bias", linen.initializers.zeros, (self.features,), jnp.float32)
        return y + bias.astype(self.dtype)


class GCNStack(linen.Module):
    """Graph convolutions with ReLU between them, on arrays: [n, f] -> [n, features].

    Attributes:
      features: of the result.
      hidden_dim: width of the hidden layers.
      num_layers: convolutions.
      dropout: rate before all layers but the first.
      input_dropout: rate before the first.
      batch_norm: before each ReLU; needs ``mutable=["batch_stats"]`` in training.
      edge_chunk: edges at a time, None for all.
      dtype: of the computation.
    """

    features: int
    hidden_dim: int = 64
    num_layers: int = 2
    dropout: float = 0.5
    input_dropout: float = 0.5
    batch_norm: bool = False
    edge_chunk: int | None = None
    dtype: DTypeLike = jnp.float32

    @linen.compact
    def __call__(
        self,
        x: Features,
        adj_norm: EdgeOperator,
        mask: jax.Array | None = None,
        deterministic: bool = True,
    ) -> jax.Array:
        y = self._convolution(0)(drop_features(x, self.input_dropout, deterministic), adj_norm)
        for i in range(1, self.num_layers):
            if self.batch_norm:
                y = node_batch_norm(y, mask, deterministic, self.dtype, name=f"norm_{i - 1}")
            y = linen.Dropout(self.dropout)(jax.nn.relu(y), deterministic=deterministic)
            y = self._convolution(i)(y, adj_norm)
        return y

    def _convolution(self, i: int) -> GraphConvolution:
        last = i == self.num_layers - 1
        return GraphConvolution(
            self.features if last else self.hidden_dim,
            # Batch normalisation would take a bias off again.
            use_bias=last or not self.batch_norm,
            edge_chunk=self.edge_chunk,
            dtype=self.dtype,
            name=f"conv_{i}",
        )


class GCN(linen.Module):
    """The baseline: two graph convolutions.

    Attributes:
      num_classes: C.
      hidden_dim: width of the hidden layers.
      num_layers: convolutions.
      dropout: rate before each layer, the first included, as published.
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
        stack = GCNStack(
            self.num_classes,
            self.hidden_dim,
            self.num_layers,
            self.dropout,
            self.dropout,
            edge_chunk=self.edge_chunk,
            dtype=self.dtype,
            name="gcn",
        )
        adj_norm = normalized_adjacency(graph)
        return as_logits(stack(node_features(graph), adj_norm, real_nodes(graph), deterministic))


def node_batch_norm(
    x: jax.Array, mask: jax.Array | None, deterministic: bool, dtype: DTypeLike, name: str
) -> jax.Array:
    """Batch normalisation over the real nodes, with PyTorch's settings; call it in a module."""
    norm = linen.BatchNorm(
        use_running_average=deterministic,
        momentum=BATCH_NORM_MOMENTUM,
        epsilon=BATCH_NORM_EPS,
        dtype=dtype,
        use_fast_variance=False,
        name=name,
    )
    return norm(x, mask=None if mask is None else mask[:, None])
