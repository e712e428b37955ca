"""Polynormer: polynomials of the features by gated local attention, then gated global attention.

Deng, Yue and Zhang, ICLR 2024, arXiv:2403.01232, in the released form with ReLU. Local layers

    y = ReLU(GAT(x) + W x),   x ← (1−β) LN(ReLU(W_h x) ⊙ y) + β y,   β = sigmoid, per channel

are summed; global layers attend over all nodes at linear cost with k = q = σ(W_k x):

    x ← ReLU( W_o ( LN( q (kᵀ v) / (q Σk) ) ⊙ (W_h x + β) ) )
"""

import jax
import jax.numpy as jnp
import jraph
from flax import linen
from jax.typing import DTypeLike

from neurips25.graphs.dual_cross_attention import LAYER_NORM_EPS
from neurips25.graphs.gat import GraphAttention
from neurips25.graphs.graph_inputs import node_features, real_nodes
from neurips25.graphs.mlp import GLOROT, as_logits
from neurips25.graphs.sparse_features import FeatureDense, drop_features


def sigmoid_attention(
    q: jax.Array, k: jax.Array, v: jax.Array, mask: jax.Array | None = None
) -> jax.Array:
    """Σ_j (q_i·k_j) v_j / Σ_j q_i·k_j for positive q and k, at linear cost.

    Args:
      q, k: [n, H, D], positive.
      v: [n, H, E].
      mask: bool [n], True where a node is real; j ranges over these. None: all are.

    Returns:
      [n, H, E] of the dtype of ``v``, computed in float32 at least.

    Source: arXiv:2403.01232, sec. 3.3.
    """
    compute = jnp.promote_types(v.dtype, jnp.float32)
    q, k, wide = (a.astype(compute) for a in (q, k, v))
    if mask is not None:
        k = jnp.where(mask[:, None, None], k, 0)
    num = jnp.einsum("nhd,hde->nhe", q, jnp.einsum("nhd,nhe->hde", k, wide))
    den = jnp.einsum("nhd,hd->nh", q, jnp.sum(k, axis=0))
    return (num / den[..., None]).astype(v.dtype)


class Polynormer(linen.Module):
    """The baseline.

    It is trained in two phases: ``local_only`` first, then whole, with the same parameters
    (``model.clone(local_only=True)``; all are created in either case).

    Attributes:
      num_classes: C.
      hidden_dim: width of all heads together; num_heads divides it.
      num_heads: heads of local and global attention.
      local_layers, global_layers: numbers of layers.
      input_dropout: rate on the features.
      dropout: rate in the local layers.
      global_dropout: rate in the global layers.
      local_only: predict from the local layers.
      edge_chunk: edges at a time, None for all.
      dtype: of the computation.
    """

    num_classes: int
    hidden_dim: int = 64
    num_heads: int = 1
    local_layers: int = 3
    global_layers: int = 2
    input_dropout: float = 0.15
    dropout: float = 0.5
    global_dropout: float = 0.5
    local_only: bool = False
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
        features = drop_features(node_features(graph), self.input_dropout, deterministic)
        x = FeatureDense(self.hidden_dim, dtype=self.dtype, name="input")(features)
        x = linen.Dropout(self.dropout)(x, deterministic=deterministic)
        local = self._local(x, graph, deterministic)
        logits = self._dense("local_output", self.num_classes)(local)
        if self.local_only and not self.is_initializing():
            return as_logits(logits)
        x = self._global(self._norm("global_norm")(local), real_nodes(graph), deterministic)
        x = self._dense("global_output", self.num_classes)(x)
        return as_logits(logits if self.local_only else x)

    def _local(self, x: jax.Array, graph: jraph.GraphsTuple, deterministic: bool) -> jax.Array:
        senders, receivers = jnp.asarray(graph.senders), jnp.asarray(graph.receivers)
        betas = self._betas("local_beta", self.local_layers)
        total = jnp.zeros(x.shape, self.dtype)
        for i in range(self.local_layers):
            gate = jax.nn.relu(self._dense(f"local_gate_{i}")(x))
            attention = GraphAttention(
                self.hidden_dim // self.num_heads,
                self.num_heads,
                use_bias=False,
                edge_chunk=self.edge_chunk,
                dtype=self.dtype,
                name=f"local_attention_{i}",
            )
            y = attention(x, senders, receivers, deterministic) + self._dense(f"local_{i}")(x)
            y = linen.Dropout(self.dropout)(jax.nn.relu(y), deterministic=deterministic)
            x = (1 - betas[i]) * self._norm(f"local_norm_{i}")(gate * y) + betas[i] * y
            total = total + x
        return total

    def _global(self, x: jax.Array, mask: jax.Array | None, deterministic: bool) -> jax.Array:
        betas = self._betas("global_beta", self.global_layers)
        heads = (x.shape[0], self.num_heads, self.hidden_dim // self.num_heads)
        output = self._dense("global_mix")
        for i in range(self.global_layers):
            gate = self._dense(f"global_gate_{i}")(x)
            k = jax.nn.sigmoid(self._dense(f"global_k_{i}")(x)).reshape(heads)
            v = self._dense(f"global_v_{i}")(x).reshape(heads)
            seen = sigmoid_attention(k, k, v, mask).reshape(x.shape)
            x = jax.nn.relu(output(self._norm(f"global_norm_{i}")(seen) * (gate + betas[i])))
            x = linen.Dropout(self.global_dropout)(x, deterministic=deterministic)
        return x

    def _betas(self, name: str, layers: int) -> jax.Array:
        init = linen.initializers.xavier_normal()
        raw = self.param(name, init, (layers, self.hidden_dim), jnp.float32)
        return jax.nn.sigmoid(raw).astype(self.dtype)

    def _dense(self, name: str, width: int | None = None) -> linen.Dense:
        return linen.Dense(
            width or self.hidden_dim, kernel_init=GLOROT, dtype=self.dtype, name=name
        )

    def _norm(self, name: str) -> linen.LayerNorm:
        return linen.LayerNorm(LAYER_NORM_EPS, dtype=self.dtype, use_fast_variance=False, name=name)
