"""NodeFormer: attention over all pairs of nodes through random features, with Gumbel noise.

Wu et al., NeurIPS 2022, arXiv:2306.08385. With positive features φ of queries and keys over √τ,

    z_i = Σ_j φ(q_i)·φ(k_j) e^{g_j/τ} v_j / Σ_j φ(q_i)·φ(k_j) e^{g_j/τ}  +  σ(b) (Ã V)_i,

g Gumbel noise in training only, averaged over several draws. A regulariser asks the attention a
without noise to be large on the edges of the graph, self-loops included, d_i of them at node i:

    −λ · mean over edges (i, j) of log a_ij / d_i
"""

import functools
import math

import jax
import jax.numpy as jnp
import jraph
from flax import linen
from jax.typing import DTypeLike

from neurips25.graphs.adjacency import normalized_adjacency
from neurips25.graphs.dual_cross_attention import LAYER_NORM_EPS
from neurips25.graphs.edge_operator import EdgeOperator, spmm
from neurips25.graphs.graph_inputs import node_features, real_nodes
from neurips25.graphs.mlp import GLOROT, as_logits
from neurips25.graphs.random_features import (
    feature_attention,
    feature_totals,
    orthogonal_projection,
    positive_features,
)
from neurips25.graphs.sparse_features import FeatureDense


class NodeFormerAttention(linen.Module):
    """One layer of attention over all nodes, its heads joined and mapped: [n, d] -> [n, d].

    Parameters: ``q``, ``k``, ``v`` [d, H d] and ``output`` [H d, d] with bias;
    ``relational_bias`` [H, 1], the b whose sigmoid weighs Ã V. With ``mutable=["losses"]`` the
    call also gives ``edge_attention``, the regulariser.

    Attributes: as of :class:`NodeFormer`.

    Source: arXiv:2306.08385, sec. 3.2 and 3.3.
    """

    hidden_dim: int
    num_heads: int = 4
    tau: float = 0.25
    num_features: int = 30
    num_samples: int = 10
    relational_bias: bool = True
    edge_loss_weight: float = 1.0
    projection_seed: int = 0
    edge_chunk: int | None = None
    dtype: DTypeLike = jnp.float32

    @linen.compact
    def __call__(
        self, x: jax.Array, graph: jraph.GraphsTuple, deterministic: bool = True
    ) -> jax.Array:
        """What every node takes from all others.

        Args:
          x: [n, d].
          graph: n nodes, for the relational bias and the regulariser.
          deterministic: no noise, and the random features of ``projection_seed``; else an rng
            named ``dropout`` is needed.

        Returns:
          [n, d].
        """
        n, mask = x.shape[0], real_nodes(graph)
        compute = jnp.promote_types(self.dtype, jnp.float32)
        heads = (n, self.num_heads, self.hidden_dim)
        q, k, v = (
            _dense(self.num_heads * self.hidden_dim, part, self.dtype)(x).reshape(heads)
            for part in "qkv"
        )
        scale = 1 / math.sqrt(self.tau * math.sqrt(self.hidden_dim))
        key = jax.random.key(self.projection_seed) if deterministic else self.make_rng("dropout")
        projection = orthogonal_projection(key, self.num_features, self.hidden_dim, compute)
        phi_q = positive_features(scale * q.astype(compute), projection, is_query=True, mask=mask)
        phi_k = positive_features(scale * k.astype(compute), projection, is_query=False, mask=mask)
        wide = v.astype(compute)
        if deterministic or not self.num_samples:
            z = feature_attention(phi_q, phi_k, wide)
        else:
            z = self._with_noise(phi_q, phi_k, wide, self.make_rng("dropout"))
        z = z.astype(self.dtype)
        if self.relational_bias:
            start = linen.initializers.constant(0.1)
            bias = self.param("relational_bias", start, (self.num_heads, 1), jnp.float32)
            moved = spmm(normalized_adjacency(graph), v, chunk=self.edge_chunk)
            z = z + jax.nn.sigmoid(bias).astype(self.dtype) * moved
        if self.is_mutable_collection("losses") and not self.is_initializing():
            self.sow("losses", "edge_attention", self._edge_loss(phi_q, phi_k, graph, mask))
        return _dense(self.hidden_dim, "output", self.dtype)(z.reshape(n, -1))

    def _with_noise(
        self, phi_q: jax.Array, phi_k: jax.Array, v: jax.Array, key: jax.Array
    ) -> jax.Array:
        """Mean over the draws, one at a time: memory does not grow with their number."""

        @jax.checkpoint
        def draw(key: jax.Array) -> jax.Array:
            noise = jax.random.gumbel(key, phi_k.shape[:2], phi_k.dtype) / self.tau
            # The largest cancels in the ratio, and keeps the exponential in range.
            noise = jnp.exp(noise - jnp.max(noise, axis=0))
            return feature_attention(phi_q, phi_k * noise[..., None], v)

        def add(total: jax.Array, key: jax.Array) -> tuple[jax.Array, None]:
            return total + draw(key), None

        keys = jax.random.split(key, self.num_samples)
        return jax.lax.scan(add, jnp.zeros(v.shape, v.dtype), keys)[0] / self.num_samples

    def _edge_loss(
        self,
        phi_q: jax.Array,
        phi_k: jax.Array,
        graph: jraph.GraphsTuple,
        mask: jax.Array | None,
    ) -> jax.Array:
        """−λ · mean over edges and self-loops of log a_ij / d_i, and over heads."""
        senders, receivers = jnp.asarray(graph.senders), jnp.asarray(graph.receivers)
        n = phi_q.shape[0]
        real = jnp.ones(n, bool) if mask is None else mask
        ones = jnp.ones(receivers.shape, phi_q.dtype)
        degree = 1 + jax.ops.segment_sum(ones, receivers, n, indices_are_sorted=True)
        log_total = jnp.log(feature_totals(phi_q, phi_k))

        def total(scores: jax.Array, rows: jax.Array) -> tuple[jax.Array, jax.Array]:
            log_attention = jnp.log(jnp.where(scores > 0, scores, 1)) - log_total[rows]
            per_edge = jnp.mean(log_attention, axis=-1) / degree[rows]
            return jnp.sum(jnp.where(real[rows], per_edge, 0)), jnp.sum(real[rows])

        scores = _edge_scores(phi_q, phi_k, senders, receivers, self.edge_chunk)
        of_edges, edges = total(scores, receivers)
        of_loops, loops = total(jnp.sum(phi_q * phi_k, axis=-1), jnp.arange(n))
        return -self.edge_loss_weight * (of_edges + of_loops) / (edges + loops)


class NodeFormer(linen.Module):
    """The baseline.

    With ``mutable=["losses"]`` the call also gives ``edge_attention`` of each layer, to be averaged
    over layers and added to the loss.

    Attributes:
      num_classes: C.
      hidden_dim: width of the stream and of each head.
      num_layers: attention layers, each with a residual and LayerNorm.
      num_heads: heads, joined.
      tau: temperature τ of the attention and of the noise.
      num_features: random features M; drawn anew in each training step.
      num_samples: draws of Gumbel noise in training, 0 for none.
      relational_bias: whether σ(b) Ã V is added.
      edge_loss_weight: λ of the regulariser.
      dropout: rate after the input layer and after each attention layer, 0 as published.
      projection_seed: of the random features where ``deterministic``.
      edge_chunk: edges at a time, None for all.
      dtype: of the computation; features are float32 at least.
    """

    num_classes: int
    hidden_dim: int = 32
    num_layers: int = 2
    num_heads: int = 4
    tau: float = 0.25
    num_features: int = 30
    num_samples: int = 10
    relational_bias: bool = True
    edge_loss_weight: float = 1.0
    dropout: float = 0.0
    projection_seed: int = 0
    edge_chunk: int | None = None
    dtype: DTypeLike = jnp.float32

    @linen.compact
    def __call__(self, graph: jraph.GraphsTuple, deterministic: bool = True) -> jax.Array:
        """Logits [n, C] in float32 at least; without ``deterministic`` with an rng ``dropout``."""
        drop = linen.Dropout(self.dropout)
        x = FeatureDense(self.hidden_dim, dtype=self.dtype, name="input")(node_features(graph))
        x = drop(jax.nn.elu(self._norm(x, "norm_input")), deterministic=deterministic)
        for i in range(self.num_layers):
            layer = NodeFormerAttention(
                self.hidden_dim,
                self.num_heads,
                self.tau,
                self.num_features,
                self.num_samples,
                self.relational_bias,
                self.edge_loss_weight,
                self.projection_seed,
                self.edge_chunk,
                self.dtype,
                name=f"layer_{i}",
            )
            x = self._norm(x + layer(x, graph, deterministic), f"norm_{i}")
            x = drop(x, deterministic=deterministic)
        return as_logits(_dense(self.num_classes, "output", self.dtype)(x))

    def _norm(self, x: jax.Array, name: str) -> jax.Array:
        return linen.LayerNorm(
            LAYER_NORM_EPS, dtype=self.dtype, use_fast_variance=False, name=name
        )(x)


def _dense(width: int, name: str, dtype: DTypeLike) -> linen.Dense:
    return linen.Dense(width, kernel_init=GLOROT, dtype=dtype, name=name)


@functools.partial(jax.custom_vjp, nondiff_argnums=(4,))
def _edge_scores(
    q: jax.Array, k: jax.Array, senders: jax.Array, receivers: jax.Array, chunk: int | None
) -> jax.Array:
    """q_i · k_j of each edge from j to i and each head, [E, H] of [n, H, M].

    They are the gradient of ⟨q, M k⟩ by the weights of a matrix M on the edges, so the chunks of
    its product do for them too. So do they for the gradients by q and k, which are M k and Mᵀ q.
    """

    def moved(weights: jax.Array) -> jax.Array:
        return spmm(EdgeOperator(senders, receivers, weights), k, chunk=chunk)

    return jax.vjp(moved, jnp.zeros((senders.shape[0], k.shape[1]), k.dtype))[1](q)[0]


def _edge_scores_fwd(
    q: jax.Array, k: jax.Array, senders: jax.Array, receivers: jax.Array, chunk: int | None
) -> tuple[jax.Array, tuple[jax.Array, ...]]:
    return _edge_scores(q, k, senders, receivers, chunk), (q, k, senders, receivers)


def _edge_scores_bwd(
    chunk: int | None, saved: tuple[jax.Array, ...], grad: jax.Array
) -> tuple[jax.Array | None, ...]:
    q, k, senders, receivers = saved

    def moved(k: jax.Array) -> jax.Array:
        return spmm(EdgeOperator(senders, receivers, grad), k, chunk=chunk)

    grad_q, pull = jax.vjp(moved, k)
    return grad_q, pull(q)[0], None, None


_edge_scores.defvjp(_edge_scores_fwd, _edge_scores_bwd)
