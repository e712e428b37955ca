"""Multilayer perceptrons on node features: the baseline without a graph, and a part of the others.

x ← Dropout(ReLU(Dense(x))) between layers,   logits = Dense(x)
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import jraph
from flax import linen
from jax.typing import DTypeLike

from neurips25.graphs.graph_inputs import node_features
from neurips25.graphs.sparse_features import FeatureDense, Features

GLOROT = linen.initializers.xavier_uniform()


class DenseStack(linen.Module):
    """Linear layers with ReLU and dropout between them: [n, f] -> [n, widths[-1]].

    Parameters: ``dense_0``, ``dense_1``, ...; biases start at zero.

    Attributes:
      widths: of the layers' outputs.
      dropout: rate after each ReLU.
      first_init: of the first kernel; the others start Glorot-uniform.
      dtype: of the computation.
    """

    widths: tuple[int, ...]
    dropout: float = 0.0
    first_init: Callable[..., jax.Array] = GLOROT
    dtype: DTypeLike = jnp.float32

    @linen.compact
    def __call__(self, x: Features, deterministic: bool = True) -> jax.Array:
        y = FeatureDense(self.widths[0], self.first_init, self.dtype, name="dense_0")(x)
        for i, width in enumerate(self.widths[1:], start=1):
            y = linen.Dropout(self.dropout)(jax.nn.relu(y), deterministic=deterministic)
            y = linen.Dense(width, kernel_init=GLOROT, dtype=self.dtype, name=f"dense_{i}")(y)
        return y


class MLP(linen.Module):
    """Classifies each node by its features alone.

    Attributes:
      num_classes: C.
      hidden_dim: width of the hidden layers.
      num_layers: linear layers.
      dropout: rate before all layers but the first.
      dtype: of the computation.
    """

    num_classes: int
    hidden_dim: int = 64
    num_layers: int = 2
    dropout: float = 0.5
    dtype: DTypeLike = jnp.float32

    @linen.compact
    def __call__(self, graph: jraph.GraphsTuple, deterministic: bool = True) -> jax.Array:
        """Logits [n, C] in float32 at least; without ``deterministic`` with an rng ``dropout``."""
        widths = (self.hidden_dim,) * (self.num_layers - 1) + (self.num_classes,)
        layers = DenseStack(widths, self.dropout, dtype=self.dtype, name="mlp")
        return as_logits(layers(node_features(graph), deterministic))


def as_logits(x: jax.Array) -> jax.Array:
    """``x`` in float32 at least."""
    return x.astype(jnp.promote_types(x.dtype, jnp.float32))
