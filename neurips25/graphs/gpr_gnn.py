"""GPR-GNN: predictions spread over k = 0..K hops with learned weights, of any sign.

Chien, Peng, Li and Milenkovic, ICLR 2021, arXiv:2006.07988:   logits = Σ_k γ_k Ã^k MLP(X)
"""

import jax
import jax.numpy as jnp
import jraph
import numpy as np
from flax import linen
from jax.typing import DTypeLike

from neurips25.graphs.adjacency import normalized_adjacency
from neurips25.graphs.edge_operator import EdgeOperator, spmm
from neurips25.graphs.graph_inputs import node_features
from neurips25.graphs.mlp import DenseStack, as_logits
from neurips25.graphs.sparse_features import drop_features

_Carry = tuple[jax.Array, jax.Array]


def pagerank_weights(steps: int, teleport: float) -> np.ndarray:
    """γ_k = a (1−a)^k and γ_K = (1−a)^K: the weights of APPNP, which sum to one.

    >>> pagerank_weights(2, 0.5).tolist()
    [0.5, 0.25, 0.25]
    """
    gamma = teleport * (1 - teleport) ** np.arange(steps + 1.0)
    gamma[-1] = (1 - teleport) ** steps
    return gamma


def generalized_propagation(
    adj_norm: EdgeOperator, h: jax.Array, gamma: jax.Array, chunk: int | None = None
) -> jax.Array:
    """Σ_k γ_k Ã^k h.

    Args:
      adj_norm: Ã.
      h: [n, d].
      gamma: [K + 1].
      chunk: edges at a time, None for all.

    Returns:
      [n, d] of the dtype of ``h``.

    Source: arXiv:2006.07988, sec. 3.
    """
    gamma = gamma.astype(h.dtype)

    def step(carry: _Carry, weight: jax.Array) -> tuple[_Carry, None]:
        moved, total = carry
        moved = spmm(adj_norm, moved, chunk=chunk)
        return (moved, total + weight * moved), None

    return jax.lax.scan(step, (h, gamma[0] * h), gamma[1:])[0][1]


class GPRGNN(linen.Module):
    """The baseline.

    Parameters: ``mlp``; ``gamma`` [K + 1], which starts as APPNP's weights.

    Attributes:
      num_classes: C.
      hidden_dim: width of the MLP's hidden layer.
      steps: K.
      teleport: a of the start of γ.
      dropout: rate before both layers of the MLP.
      propagation_dropout: rate on what is propagated, 0.5 as published.
      edge_chunk: edges at a time, None for all.
      dtype: of the computation.
    """

    num_classes: int
    hidden_dim: int = 64
    steps: int = 10
    teleport: float = 0.1
    dropout: float = 0.5
    propagation_dropout: float = 0.5
    edge_chunk: int | None = None
    dtype: DTypeLike = jnp.float32

    @linen.compact
    def __call__(self, graph: jraph.GraphsTuple, deterministic: bool = True) -> jax.Array:
        """Logits [n, C] in float32 at least; without ``deterministic`` with an rng ``dropout``."""
        x = drop_features(node_features(graph), self.dropout, deterministic)
        mlp = DenseStack((self.hidden_dim, self.num_classes), self.dropout, dtype=self.dtype,
                         name="mlp")  # fmt: skip
        h = mlp(x, deterministic)
        h = linen.Dropout(self.propagation_dropout)(h, deterministic=deterministic)
        start = pagerank_weights(self.steps, self.teleport)
        gamma = self.param("gamma", lambda key: jnp.asarray(start, jnp.float32))
        return as_logits(
            generalized_propagation(normalized_adjacency(graph), h, gamma, self.edge_chunk)
        )
