"""APPNP: predict from features, then spread the predictions by personalised PageRank.

Gasteiger, Bojchevski and Günnemann, ICLR 2019, arXiv:1810.05997:

    Z⁰ = MLP(X),   Z^{k+1} = (1−a) Ã Z^k + a Z⁰
"""

import jax
import jax.numpy as jnp
import jraph
from flax import linen
from jax.typing import DTypeLike

from neurips25.graphs.adjacency import normalized_adjacency
from neurips25.graphs.edge_operator import EdgeOperator, spmm
from neurips25.graphs.graph_inputs import node_features
from neurips25.graphs.mlp import DenseStack, as_logits
from neurips25.graphs.sparse_features import drop_features


def personalized_propagation(
    adj_norm: EdgeOperator,
    h: jax.Array,
    steps: int = 10,
    teleport: float = 0.1,
    *,
    edge_dropout: float = 0.0,
    key: jax.Array | None = None,
    chunk: int | None = None,
) -> jax.Array:
    """Z^K of Z^{k+1} = (1−a) Ã Z^k + a h from Z⁰ = h.

    Args:
      adj_norm: Ã, with weights.
      h: [n, d].
      steps: K.
      teleport: a.
      edge_dropout: rate on the entries of Ã, drawn anew in each step.
      key: typed key for that; None for no dropout.
      chunk: edges at a time, None for all.

    Returns:
      [n, d].

    Source: arXiv:1810.05997, eq. 4.
    """

    def step(z: jax.Array, key: jax.Array | None) -> tuple[jax.Array, None]:
        op = adj_norm if key is None else _thinned(adj_norm, edge_dropout, key)
        return (1 - teleport) * spmm(op, z, chunk=chunk) + teleport * h, None

    keys = None if key is None or not edge_dropout else jax.random.split(key, steps)
    return jax.lax.scan(step, h, keys, steps)[0]


class APPNP(linen.Module):
    """The baseline.

    Attributes:
      num_classes: C.
      hidden_dim: width of the MLP's hidden layer.
      steps: of propagation.
      teleport: share of Z⁰ in each step.
      dropout: rate before both layers of the MLP.
      edge_dropout: rate on the entries of Ã in each step, 0.5 as published.
      edge_chunk: edges at a time, None for all.
      dtype: of the computation.
    """

    num_classes: int
    hidden_dim: int = 64
    steps: int = 10
    teleport: float = 0.1
    dropout: float = 0.5
    edge_dropout: float = 0.5
    edge_chunk: int | None = None
    dtype: DTypeLike = jnp.float32

    @linen.compact
    def __call__(self, graph: jraph.GraphsTuple, deterministic: bool = True) -> jax.Array:
        """Logits [n, C] in float32 at least; without ``deterministic`` with an rng ``dropout``."""
        x = drop_features(node_features(graph), self.dropout, deterministic)
        mlp = DenseStack((self.hidden_dim, self.num_classes), self.dropout, dtype=self.dtype,
                         name="mlp")  # fmt: skip
        thin = not deterministic and self.edge_dropout > 0
        z = personalized_propagation(
            normalized_adjacency(graph),
            mlp(x, deterministic),
            self.steps,
            self.teleport,
            edge_dropout=self.edge_dropout,
            key=self.make_rng("dropout") if thin else None,
            chunk=self.edge_chunk,
        )
        return as_logits(z)


def _thinned(op: EdgeOperator, rate: float, key: jax.Array) -> EdgeOperator:
    def drop(values: jax.Array | None, key: jax.Array) -> jax.Array | None:
        if values is None:
            return None
        kept = jax.random.bernoulli(key, 1 - rate, values.shape)
        return jnp.where(kept, values / (1 - rate), 0)

    edge_key, loop_key = jax.random.split(key)
    return op._replace(weights=drop(op.weights, edge_key), diagonal=drop(op.diagonal, loop_key))
