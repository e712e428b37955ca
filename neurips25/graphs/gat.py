"""GAT: each node weighs its neighbours by a learned score.

Veličković et al., ICLR 2018, arXiv:1710.10903. Per head, with h = W x and j over N(i) ∪ {i},

    α_ij = softmax_j LeakyReLU( a_srcᵀ h_j + a_dstᵀ h_i ),   y_i = Σ_j α_ij h_j
"""

import jax
import jax.numpy as jnp
import jraph
from flax import linen
from jax.typing import DTypeLike

from neurips25.graphs.edge_operator import EdgeOperator, edge_softmax, spmm
from neurips25.graphs.graph_inputs import node_features
from neurips25.graphs.mlp import GLOROT, as_logits
from neurips25.graphs.sparse_features import Features, drop_features, feature_product

NEGATIVE_SLOPE = 0.2


def graph_attention(
    h: jax.Array,
    att_src: jax.Array,
    att_dst: jax.Array,
    senders: jax.Array,
    receivers: jax.Array,
) -> EdgeOperator:
    """The matrix of α_ij of each head, self-loops added.

    Args:
      h: [n, H, D] projected nodes.
      att_src, att_dst: [H, D] score vectors of the sender and of the receiver.
      senders, receivers: int [E], receivers ascending, without self-loops.

    Returns:
      An operator with weights [E, H] and diagonal [n, H], in float32 at least; its rows sum to
      one.

    Raises:
      ValueError: shapes that do not fit each other.

    Source: arXiv:1710.10903, eq. 3.
    """
    for name, vector in (("att_src", att_src), ("att_dst", att_dst)):
        if h.ndim != 3 or vector.shape != h.shape[1:]:
            raise ValueError(f"{name} has shape {vector.shape} and h {h.shape}: [H, D], [n, H, D]")
    compute = jnp.promote_types(h.dtype, jnp.float32)
    wide = h.astype(compute)
    source = jnp.einsum("nhd,hd->nh", wide, att_src.astype(compute))
    target = jnp.einsum("nhd,hd->nh", wide, att_dst.astype(compute))
    weights, own = edge_softmax(
        jax.nn.leaky_relu(source[senders] + target[receivers], NEGATIVE_SLOPE),
        receivers,
        h.shape[0],
        jax.nn.leaky_relu(source + target, NEGATIVE_SLOPE),
    )
    return EdgeOperator(senders, receivers, weights, own)


class GraphAttention(linen.Module):
    """One layer of graph attention: [n, f] -> [n, H D], or [n, D] where heads are averaged.

    Parameters: ``kernel`` [f, H, D]; ``att_src``, ``att_dst`` [H, D]; ``bias``.

    Attributes:
      features: D of each head.
      num_heads: H.
      average: the heads, in place of joining them.
      dropout: rate on the attention weights.
      use_bias: whether a bias is added at the end.
      edge_chunk: edges at a time, None for all.
      dtype: of the computation.
    """

    features: int
    num_heads: int = 8
    average: bool = False
    dropout: float = 0.0
    use_bias: bool = True
    edge_chunk: int | None = None
    dtype: DTypeLike = jnp.float32

    @linen.compact
    def __call__(
        self,
        x: Features,
        senders: jax.Array,
        receivers: jax.Array,
        deterministic: bool = True,
    ) -> jax.Array:
        n, width = x.shape
        heads = (self.num_heads, self.features)
        kernel = self.param(
            "kernel",
            lambda key, shape, dtype: GLOROT(key, (width, shape[1] * shape[2]), dtype).reshape(
                shape
            ),
            (width, *heads),
            jnp.float32,
        )
        att_src = self.param("att_src", GLOROT, heads, jnp.float32)
        att_dst = self.param("att_dst", GLOROT, heads, jnp.float32)
        h = feature_product(x, kernel.astype(self.dtype).reshape(width, -1)).reshape(n, *heads)
        op = graph_attention(h, att_src, att_dst, senders, receivers)
        drop = linen.Dropout(self.dropout)
        op = op._replace(
            weights=drop(op.weights, deterministic=deterministic),
            diagonal=drop(op.diagonal, deterministic=deterministic),
        )
        y = spmm(op, h, chunk=self.edge_chunk)
        y = jnp.mean(y, axis=1) if self.average else y.reshape(n, -1)
        if not self.use_bias:
            return y
        bias = self.param("bias", linen.initializers.zeros, y.shape[1:], jnp.float32)
        return y + bias.astype(self.dtype)


class GAT(linen.Module):
    """The baseline: layers of joined heads with ELU, then one of averaged heads.

    Attributes:
      num_classes: C.
      hidden_dim: width of all heads of a hidden layer together; num_heads divides it.
      num_heads: heads of the hidden layers.
      out_heads: heads of the last layer.
      num_layers: attention layers.
      dropout: rate before each layer and on attention weights, 0.6 as published.
      edge_chunk: edges at a time, None for all.
      dtype: of the computation.
    """

    num_classes: int
    hidden_dim: int = 64
    num_heads: int = 8
    out_heads: int = 1
    num_layers: int = 2
    dropout: float = 0.6
    edge_chunk: int | None = None
    dtype: DTypeLike = jnp.float32

    @linen.compact
    def __call__(self, graph: jraph.GraphsTuple, deterministic: bool = True) -> jax.Array:
        """Logits [n, C] in float32 at least; without ``deterministic`` with an rng ``dropout``.

        Raises:
          ValueError: ``hidden_dim`` is no multiple of ``num_heads``.
        """
        if self.hidden_dim % self.num_heads:
            raise ValueError(
                f"hidden_dim={self.hidden_dim} must be a multiple of num_heads={self.num_heads}"
            )
        senders, receivers = jnp.asarray(graph.senders), jnp.asarray(graph.receivers)
        x = drop_features(node_features(graph), self.dropout, deterministic)
        y = self._layer(0)(x, senders, receivers, deterministic)
        for i in range(1, self.num_layers):
            y = linen.Dropout(self.dropout)(jax.nn.elu(y), deterministic=deterministic)
            y = self._layer(i)(y, senders, receivers, deterministic)
        return as_logits(y)

    def _layer(self, i: int) -> GraphAttention:
        last = i == self.num_layers - 1
        return GraphAttention(
            self.num_classes if last else self.hidden_dim // self.num_heads,
            self.out_heads if last else self.num_heads,
            average=last,
            dropout=self.dropout,
            edge_chunk=self.edge_chunk,
            dtype=self.dtype,
            name=f"layer_{i}",
        )
