"""Dual cross-attention (DCA): two representations of the same nodes attend to each other.

Zhuo et al.: "A Closer Look at Graph Transformers: Cross-Aggregation and Beyond", NeurIPS 2025,
OpenReview 7FhWZFoVem. Query and key come from one space with one map, the value from the other:

    DCA(H1, H2) = D⁻¹ ( V + (1/n) Q̃ (Q̃ᵀ V) ),   D = diag( 1 + (1/n) Q̃ (Q̃ᵀ 1) ),

with Q̃ the normalised q(H1) and V = v(H2). The product Q̃ᵀV of width d × d comes first, so time and
memory are linear in the number of nodes. Here are that kernel, its dense form, the softmax
attention that it replaces, and the layer that joins both directions with the graph.
"""

import enum
import math

import jax
import jax.numpy as jnp
from flax import linen
from jax.typing import DTypeLike

from neurips25.graphs.edge_operator import EdgeOperator, spmm
from neurips25.nn.enums import parse_enum

LAYER_NORM_EPS = 1e-5


class QKNorm(enum.StrEnum):
    """How queries and keys are normalised.

    FROBENIUS: by the norm of the whole array, all heads together (the paper's equation 8).
      DCA is then the identity up to O(1/n).
    ROW_L2: every node's vector of every head by its own norm, as theorem 3 of the paper assumes.
    """

    FROBENIUS = "frobenius"
    ROW_L2 = "row_l2"


class CrossAttention(enum.StrEnum):
    """What joins the two channels of a layer.

    LINEAR: DCA. SOFTMAX: ordinary cross-attention (the paper's equation 4), keys from the other
    space with maps of their own, time and memory O(n²). NONE: nothing, the ablation without
    cross-attention.
    """

    LINEAR = "linear"
    SOFTMAX = "softmax"
    NONE = "none"


class PropagateValue(enum.StrEnum):
    """Which values are propagated along the edges into the topology channel.

    TOPOLOGY: its own (the paper's equation 10). BOTH: the sum of both channels' values, which is
    no part of the paper.
    """

    TOPOLOGY = "topology"
    BOTH = "topology+attribute"


class AttrResidual(enum.StrEnum):
    """What the attribute channel keeps: its representation before all layers, or before this one.

    INITIAL is the paper's equation 11.
    """

    INITIAL = "initial"
    PREVIOUS = "previous"


class Norm(enum.StrEnum):
    """Normalisation of both channels after each layer."""

    LAYER = "layer"
    NONE = "none"


class Activation(enum.StrEnum):
    """Activation of both channels after each layer's normalisation."""

    RELU = "relu"
    NONE = "none"


def linear_cross_attention(
    q: jax.Array,
    v: jax.Array,
    *,
    qk_norm: QKNorm | str = QKNorm.FROBENIUS,
    k: jax.Array | None = None,
    mask: jax.Array | None = None,
) -> jax.Array:
    """D⁻¹ (V + (1/n) Q̃ (K̃ᵀ V)) with D = diag(1 + (1/n) Q̃ (K̃ᵀ 1)), for each head.

    Time O(n H D E), memory O(n H (D + E) + H D E). An array of zeros is left as it is by the
    normalisation, with gradient zero.

    Args:
      q: [n, H, D].
      v: [n, H, E].
      qk_norm: of queries and keys.
      k: [n, H, D]; None is ``q``, as in DCA. The kernel of SGFormer has keys of its own.
      mask: bool [n], True where a node is real; the others are left out of all sums and get
        their own value back. None: all are.

    Returns:
      [n, H, E] of the promoted dtype of the arguments, computed in float32 at least.

    Raises:
      ValueError: shapes that do not fit each other, or an unknown normalisation.

    Source: OpenReview 7FhWZFoVem, eqs. 7-9 and algorithm 2; arXiv:2306.10759 with keys.

    >>> q = jax.random.normal(jax.random.key(0), (7, 2, 4))
    >>> ones = linear_cross_attention(q, jnp.ones((7, 2, 3)))  # rows of the scores sum to one
    >>> bool(jnp.abs(ones - 1).max() < 1e-6)
    True
    """
    qk_norm = parse_enum(QKNorm, qk_norm, "qk_norm")
    _check(q, k, v, mask)
    dtype = jnp.result_type(q, v) if k is None else jnp.result_type(q, k, v)
    v = v.astype(jnp.promote_types(dtype, jnp.float32))
    q, k, scale = _normalized(q.astype(v.dtype), None if k is None else k.astype(v.dtype), qk_norm,
                              mask)  # fmt: skip
    # Head by head, as products of matrices: XLA's CPU backend takes up to twice as long for batched
    # products, which an axis of heads makes of them even where there is one head.
    heads = [_one_head(q[:, h], k[:, h], v[:, h], scale) for h in range(q.shape[1])]
    return jnp.stack(heads, axis=1).astype(dtype)


def dense_cross_attention_scores(
    q: jax.Array,
    *,
    qk_norm: QKNorm | str = QKNorm.FROBENIUS,
    k: jax.Array | None = None,
    mask: jax.Array | None = None,
    max_nodes: int = 4096,
) -> jax.Array:
    """S = D⁻¹ (I + Q̃ K̃ᵀ / n) for each head: what :func:`linear_cross_attention` never forms.

    For pictures and tests; memory O(H n²).

    Args:
      q, qk_norm, k, mask: as of :func:`linear_cross_attention`.
      max_nodes: refuse more nodes than this.

    Returns:
      [H, n, n] in float32 at least; rows sum to one.

    Raises:
      ValueError: more than ``max_nodes`` nodes, or as :func:`linear_cross_attention`.
    """
    qk_norm = parse_enum(QKNorm, qk_norm, "qk_norm")
    _check(q, k, q, mask)
    n = q.shape[0]
    if n > max_nodes:
        raise ValueError(f"q has shape {q.shape}: scores of {n} nodes, more than {max_nodes=}")
    compute = jnp.promote_types(q.dtype, jnp.float32)
    q, k, scale = _normalized(
        q.astype(compute), None if k is None else k.astype(compute), qk_norm, mask
    )
    scores = jnp.eye(n, dtype=compute) + scale * jnp.einsum("nhd,mhd->hnm", q, k)
    return scores / jnp.sum(scores, axis=-1, keepdims=True)


def dense_cross_attention(
    q: jax.Array,
    v: jax.Array,
    *,
    qk_norm: QKNorm | str = QKNorm.FROBENIUS,
    k: jax.Array | None = None,
    mask: jax.Array | None = None,
    max_nodes: int = 4096,
) -> jax.Array:
    """:func:`linear_cross_attention` by its n × n scores, for tests.

    Args, Returns, Raises: as :func:`linear_cross_attention` and
    :func:`dense_cross_attention_scores`.
    """
    _check(q, k, v, mask)
    scores = dense_cross_attention_scores(q, qk_norm=qk_norm, k=k, mask=mask, max_nodes=max_nodes)
    return jnp.einsum("hnm,mhe->nhe", scores, v).astype(jnp.result_type(q, v))


def softmax_cross_attention(
    q: jax.Array, k: jax.Array, v: jax.Array, mask: jax.Array | None = None
) -> jax.Array:
    """softmax(Q Kᵀ / √D) V for each head, over all pairs of nodes: time and memory O(n m).

    Args:
      q: [n, H, D].
      k: [m, H, D].
      v: [m, H, E].
      mask: bool [m], True where a node is real; None: all are.

    Returns:
      [n, H, E] of the promoted dtype of the arguments, computed in float32 at least.

    Raises:
      ValueError: shapes that do not fit each other.

    Source: OpenReview 7FhWZFoVem, eq. 4.
    """
    if q.ndim != 3:
        raise ValueError(f"q has shape {q.shape}, needs [n, H, D]")
    if k.ndim != 3 or k.shape[1:] != q.shape[1:]:
        raise ValueError(f"k has shape {k.shape}, needs [m, {q.shape[1]}, {q.shape[2]}] as q")
    _check(k, None, v, mask)
    dtype = jnp.result_type(q, k, v)
    compute = jnp.promote_types(dtype, jnp.float32)
    scores = jnp.einsum("nhd,mhd->hnm", q.astype(compute), k.astype(compute))
    scores = scores / math.sqrt(q.shape[-1])
    if mask is not None:
        # Finite, so that without any real node there is no NaN.
        scores = jnp.where(mask, scores, jnp.finfo(compute).min)
    weights = jax.nn.softmax(scores, axis=-1)
    return jnp.einsum("hnm,mhe->nhe", weights, v.astype(compute)).astype(dtype)


def relative_change(
    q: jax.Array,
    v: jax.Array,
    *,
    qk_norm: QKNorm | str = QKNorm.FROBENIUS,
    mask: jax.Array | None = None,
) -> jax.Array:
    """‖DCA − V‖_F / ‖V‖_F: how far the attention is from doing nothing.

    Args:
      q, v, qk_norm, mask: as of :func:`linear_cross_attention`.

    Returns:
      Scalar in float32 at least. With the Frobenius norm it is below
      (1/n + 1/√n) / (1 − 1/√n), and for random input far below that.
    """
    v = v.astype(jnp.promote_types(v.dtype, jnp.float32))
    if mask is not None:
        v = jnp.where(mask[:, None, None], v, 0)
    change = linear_cross_attention(q, v, qk_norm=qk_norm, mask=mask) - v
    return jnp.linalg.norm(change.ravel()) / jnp.linalg.norm(v.ravel())


class DualCrossAttention(linen.Module):
    """One layer of UGCFormer: Ẑ = (1−λ̃) Ã v_A(Z) + λ̃ DCA(B, Z),  B̂ = (1−γ̃) B0 + γ̃ DCA(Z, B).

    λ̃ = tanh(λ) and γ̃ = tanh(γ) are learned gates; both updates read the old Z and B. With
    ``norm="none"``, ``activation="none"`` and no dropout this is the paper's equations 10 and 11
    to the letter.

    Parameters: ``q_topo``, ``v_topo`` (on Z), ``q_attr``, ``v_attr`` (on B) [d, H d] with bias,
    with softmax attention also ``k_topo`` and ``k_attr`` without; scalars ``lambda`` and
    ``gamma``; ``ln_topo``, ``ln_attr``. With ``mutable=["intermediates"]`` the call also gives
    ``relative_change_topo`` and ``relative_change_attr`` of its two attentions.

    Attributes:
      hidden_dim: d, width of both channels and of each head.
      num_heads: H; heads are averaged.
      qk_norm: of queries and keys.
      norm, activation: of both channels afterwards.
      dropout: rate on the inputs of the value maps.
      attention: what joins the channels.
      propagate_value: what is propagated along the edges.
      attr_residual: what the attribute channel keeps.
      gate_init: λ and γ at the start.
      edge_chunk: edges at a time in the product with Ã, None for all.
      dtype: of the computation.

    Source: OpenReview 7FhWZFoVem, eqs. 10-11.
    """

    hidden_dim: int
    num_heads: int = 1
    qk_norm: QKNorm | str = QKNorm.FROBENIUS
    norm: Norm | str = Norm.LAYER
    activation: Activation | str = Activation.RELU
    dropout: float = 0.0
    attention: CrossAttention | str = CrossAttention.LINEAR
    propagate_value: PropagateValue | str = PropagateValue.TOPOLOGY
    attr_residual: AttrResidual | str = AttrResidual.INITIAL
    gate_init: float = 0.5
    edge_chunk: int | None = None
    dtype: DTypeLike = jnp.float32

    @linen.compact
    def __call__(
        self,
        z: jax.Array,
        b: jax.Array,
        b0: jax.Array,
        adj_norm: EdgeOperator,
        mask: jax.Array | None = None,
        deterministic: bool = True,
    ) -> tuple[jax.Array, jax.Array]:
        """Both channels after the layer.

        Args:
          z: [n, d], topology.
          b: [n, d], attributes.
          b0: [n, d], attributes before the first layer.
          adj_norm: Ã.
          mask: bool [n], True where a node is real; None: all are.
          deterministic: no dropout; else an rng named ``dropout`` is needed.

        Returns:
          Ẑ and B̂, [n, d] each.

        Raises:
          ValueError: shapes that do not fit, or an unknown option.
        """
        attention = parse_enum(CrossAttention, self.attention, "attention")
        propagate = parse_enum(PropagateValue, self.propagate_value, "propagate_value")
        residual = parse_enum(AttrResidual, self.attr_residual, "attr_residual")
        norm = parse_enum(Norm, self.norm, "norm")
        activation = parse_enum(Activation, self.activation, "activation")
        for name, array in (("z", z), ("b", b), ("b0", b0)):
            if array.ndim != 2 or array.shape != (z.shape[0], self.hidden_dim):
                raise ValueError(
                    f"{name} has shape {array.shape}, needs [{z.shape[0]}, {self.hidden_dim}]"
                )
        kept = b0 if residual is AttrResidual.INITIAL else b
        v_topo = self._heads("v_topo", linen.Dropout(self.dropout)(z, deterministic=deterministic))
        v_attr = self._heads("v_attr", linen.Dropout(self.dropout)(b, deterministic=deterministic))
        moved = jnp.mean(v_topo, axis=1)
        if propagate is PropagateValue.BOTH:
            moved = moved + jnp.mean(v_attr, axis=1)
        moved = spmm(adj_norm, moved, chunk=self.edge_chunk)
        gamma = self._gate("gamma")
        if attention is CrossAttention.NONE:
            z_new, from_z = moved, v_attr
        else:
            lam = self._gate("lambda")
            from_b = self._attend(attention, "attr", "topo", b, z, v_topo, mask)
            from_z = self._attend(attention, "topo", "attr", z, b, v_attr, mask)
            z_new = (1 - lam) * moved + lam * jnp.mean(from_b, axis=1)
        b_new = (1 - gamma) * kept.astype(self.dtype) + gamma * jnp.mean(from_z, axis=1)
        if norm is Norm.LAYER:
            z_new, b_new = self._norm("ln_topo", z_new), self._norm("ln_attr", b_new)
        if activation is Activation.RELU:
            z_new, b_new = jax.nn.relu(z_new), jax.nn.relu(b_new)
        return z_new, b_new

    def _heads(self, name: str, x: jax.Array, use_bias: bool = True) -> jax.Array:
        width = self.num_heads * self.hidden_dim
        init = linen.initializers.xavier_uniform()
        y = linen.Dense(width, use_bias, kernel_init=init, dtype=self.dtype, name=name)(x)
        return y.reshape(x.shape[0], self.num_heads, self.hidden_dim)

    def _gate(self, name: str) -> jax.Array:
        init = linen.initializers.constant(self.gate_init)
        return jnp.tanh(self.param(name, init, (), jnp.float32)).astype(self.dtype)

    def _attend(
        self,
        attention: CrossAttention,
        own: str,
        other: str,
        h1: jax.Array,
        h2: jax.Array,
        v: jax.Array,
        mask: jax.Array | None,
    ) -> jax.Array:
        """Attention in the space ``own`` over the values of the space ``other``, [n, H, d]."""
        q = self._heads(f"q_{own}", h1)
        if attention is CrossAttention.SOFTMAX:
            # A bias of the keys would add the same to all scores of a query.
            k = self._heads(f"k_{other}", h2, use_bias=False)
            return softmax_cross_attention(q, k, v, mask)
        if self.is_mutable_collection("intermediates") and not self.is_initializing():
            change = relative_change(q, v, qk_norm=self.qk_norm, mask=mask)
            self.sow("intermediates", f"relative_change_{own}", change)
        return linear_cross_attention(q, v, qk_norm=self.qk_norm, mask=mask)

    def _norm(self, name: str, x: jax.Array) -> jax.Array:
        return linen.LayerNorm(
            LAYER_NORM_EPS, dtype=self.dtype, use_fast_variance=False, name=name
        )(x)


def _one_head(q: jax.Array, k: jax.Array, v: jax.Array, scale: jax.Array) -> jax.Array:
    """D⁻¹ (V + s Q (Kᵀ V)) with D = diag(1 + s Q (Kᵀ 1)): [n, D] twice and [n, E] to [n, E]."""
    # The scale goes onto the small arrays: no normalised copy of q or k is formed, and what is
    # added to v is small by itself, so that float32 keeps it as long as the sum can show it.
    kv = scale * (k.T @ v)
    k_sum = scale * jnp.sum(k, axis=0)
    return (v + q @ kv) / (1 + q @ k_sum)[:, None]


def _normalized(
    q: jax.Array, k: jax.Array | None, qk_norm: QKNorm, mask: jax.Array | None
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """q and k with padding rows zeroed, and a scalar: Q̃ K̃ᵀ / n is scale · q kᵀ."""
    count = jnp.asarray(q.shape[0] if mask is None else jnp.sum(mask), q.dtype)

    def real(x: jax.Array) -> jax.Array:
        return x if mask is None else jnp.where(mask[:, None, None], x, 0)

    q = real(q)
    k = q if k is None else real(k)
    if qk_norm is QKNorm.FROBENIUS:
        return q, k, _inverse_norm(q, None) * _inverse_norm(k, None) / count
    return q * _inverse_norm(q, -1), k * _inverse_norm(k, -1), 1 / count


def _inverse_norm(x: jax.Array, axis: int | None) -> jax.Array:
    """1/‖x‖, and 0 with gradient 0 where x is 0."""
    square = jnp.sum(jnp.square(x), axis=axis, keepdims=axis is not None)
    return jnp.where(square > 0, jax.lax.rsqrt(jnp.where(square > 0, square, 1)), 0)


def _check(q: jax.Array, k: jax.Array | None, v: jax.Array, mask: jax.Array | None) -> None:
    if q.ndim != 3:
        raise ValueError(f"q has shape {q.shape}, needs [n, H, D]")
    if k is not None and k.shape != q.shape:
        raise ValueError(f"k has shape {k.shape}, needs {q.shape} as q")
    if v.ndim != 3 or v.shape[:2] != q.shape[:2]:
        raise ValueError(f"v has shape {v.shape}, needs {(*q.shape[:2], 'E')}")
    if mask is not None and (mask.shape != q.shape[:1] or mask.dtype != jnp.bool_):
        raise ValueError(
            f"mask has shape {mask.shape} and dtype {mask.dtype}, needs {q.shape[:1]} and bool"
        )
