"""SGFormer: one layer of linear attention over all nodes beside a graph convolution network.

Wu et al., NeurIPS 2023, arXiv:2306.10759:

    x ← a · SA(x) + (1−a) x,   logits = W ( g · GCN(X) + (1−g) x )

with SA the kernel of :func:`~neurips25.graphs.linear_cross_attention` on queries, keys and values
of one and the same x.
"""

import jax
import jax.numpy as jnp
import jraph
from flax import linen
from jax.typing import DTypeLike

from neurips25.graphs.adjacency import normalized_adjacency
from neurips25.graphs.dual_cross_attention import LAYER_NORM_EPS, linear_cross_attention
from neurips25.graphs.gcn import GCNStack
from neurips25.graphs.graph_inputs import node_features, real_nodes
from neurips25.graphs.mlp import GLOROT, as_logits
from neurips25.graphs.sparse_features import FeatureDense


class SGFormer(linen.Module):
    """The baseline.

    Batch statistics of the GCN need ``mutable=["batch_stats"]`` in training.

    Attributes:
      num_classes: C.
      hidden_dim: width of both branches and of each head.
      num_layers: attention layers.
      num_heads: heads, averaged.
      residual: a, share of the attention's result in each layer.
      dropout: rate in the attention branch.
      gcn_layers: convolutions.
      gcn_dropout: rate between them.
      graph_weight: g, share of the GCN.
      edge_chunk: edges at a time, None for all.
      dtype: of the computation.
    """

    num_classes: int
    hidden_dim: int = 64
    num_layers: int = 1
    num_heads: int = 1
    residual: float = 0.5
    dropout: float = 0.5
    gcn_layers: int = 2
    gcn_dropout: float = 0.5
    graph_weight: float = 0.8
    edge_chunk: int | None = None
    dtype: DTypeLike = jnp.float32

    @linen.compact
    def __call__(self, graph: jraph.GraphsTuple, deterministic: bool = True) -> jax.Array:
        """Logits [n, C] in float32 at least; without ``deterministic`` with an rng ``dropout``."""
        features, mask = node_features(graph), real_nodes(graph)
        x = FeatureDense(self.hidden_dim, dtype=self.dtype, name="input")(features)
        x = self._drop(jax.nn.relu(self._norm(x, "norm_input")), deterministic)
        heads = (-1, self.num_heads, self.hidden_dim)
        for i in range(self.num_layers):
            q, k, v = (
                self._dense(self.num_heads * self.hidden_dim, f"{part}_{i}")(x).reshape(heads)
                for part in "qkv"
            )
            seen = jnp.mean(linear_cross_attention(q, v, k=k, mask=mask), axis=1)
            x = self.residual * seen + (1 - self.residual) * x
            x = self._drop(self._norm(x, f"norm_{i}"), deterministic)
        convolved = GCNStack(
            self.hidden_dim,
            self.hidden_dim,
            self.gcn_layers,
            self.gcn_dropout,
            input_dropout=0.0,
            batch_norm=True,
            edge_chunk=self.edge_chunk,
            dtype=self.dtype,
            name="gcn",
        )(features, normalized_adjacency(graph), mask, deterministic)
        x = self.graph_weight * convolved + (1 - self.graph_weight) * x
        return as_logits(self._dense(self.num_classes, "output")(x))

    def _dense(self, width: int, name: str) -> linen.Dense:
        return linen.Dense(width, kernel_init=GLOROT, dtype=self.dtype, name=name)

    def _norm(self, x: jax.Array, name: str) -> jax.Array:
        return linen.LayerNorm(
            LAYER_NORM_EPS, dtype=self.dtype, use_fast_variance=False, name=name
        )(x)

    def _drop(self, x: jax.Array, deterministic: bool) -> jax.Array:
        return linen.Dropout(self.dropout)(x, deterministic=deterministic)
