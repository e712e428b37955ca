"""UGCFormer: a graph transformer of two channels, topology and attributes, at linear cost.

Jiaming Zhuo, Ziyi Ma, Yintong Lu, Yuwei Liu, Kun Fu, Di Jin, Chuan Wang, Wenning Wu, Zhen Wang,
Xiaochun Cao, Liang Yang: "A Closer Look at Graph Transformers: Cross-Aggregation and Beyond",
NeurIPS 2025, OpenReview 7FhWZFoVem.

    Z0 = MLP(A),  B0 = MLP(X);   L layers of dual cross-attention;   logits = MLP_out((1−α) Z + α B)

The MLP on the adjacency has one row of weights per node, so the model is tied to the nodes of the
graph it was trained on (transductive). Attributes are never propagated along edges: topology
reaches the attribute channel through attention and through the consistency loss alone.
"""

import re
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jraph
from flax import linen
from jax.typing import DTypeLike

from neurips25.graphs.adjacency import normalized_adjacency
from neurips25.graphs.adjacency_encoder import AdjacencyEncoder
from neurips25.graphs.consistency import ConsistencyReduction, consistency_loss
from neurips25.graphs.dual_cross_attention import (
    Activation,
    AttrResidual,
    CrossAttention,
    DualCrossAttention,
    Norm,
    PropagateValue,
    QKNorm,
)
from neurips25.graphs.edge_operator import EdgeOperator
from neurips25.graphs.graph_inputs import node_features, num_nodes, real_nodes
from neurips25.graphs.mlp import DenseStack, as_logits
from neurips25.graphs.node_losses import masked_cross_entropy
from neurips25.graphs.sparse_features import Features, drop_features
from neurips25.nn.initializers import fan_in_uniform
from neurips25.nn.partition import constrain_batch
from neurips25.training.mesh import path_name

# The gates of a layer, as its parameters are called.
GATES = ("lambda", "gamma")


class UGCFormerOutput(NamedTuple):
    """What the losses and the figures of UGCFormer need.

    Attributes:
      logits: [n, C] of the mixed representation, float32 at least.
      logits_topo, logits_attr: [n, C], the same head on either channel alone.
      z, b: [n, d], the channels after the last layer.
      gates: [L, 2], tanh(λ) and tanh(γ) of each layer.
    """

    logits: jax.Array
    logits_topo: jax.Array
    logits_attr: jax.Array
    z: jax.Array
    b: jax.Array
    gates: jax.Array


class UGCFormer(linen.Module):
    """Classifies the nodes of one graph.

    Defaults follow the paper where it is explicit. Where it is not: LayerNorm and ReLU after each
    layer (``norm="none", activation="none", dropout=0`` is equations 6-12 to the letter), MLPs of
    two layers, one head, gates that start at tanh(0.5).

    Parameters: ``topo`` (:class:`~neurips25.graphs.AdjacencyEncoder`), ``attr`` and ``head``
    (``dense_0``, ...), ``layer_i`` (:class:`~neurips25.graphs.DualCrossAttention`).

    Attributes:
      num_classes: C.
      hidden_dim: width d of both channels.
      num_layers: L.
      alpha: share α of the attribute channel in the prediction, in [0, 1].
      num_heads: attention heads, averaged.
      mlp_layers: linear layers of both input MLPs.
      head_layers: linear layers of the output MLP.
      qk_norm, attention, propagate_value, attr_residual, norm, activation, gate_init: of the
        layers, see :class:`~neurips25.graphs.DualCrossAttention`.
      dropout: rate inside the input MLPs and before the value maps.
      input_dropout: rate on the features; the paper mentions none.
      head_dropout: rate before all layers of the output MLP; the paper mentions none.
      num_nodes: nodes of the whole graph, where parts of it are given; None is those given.
      edge_chunk: edges at a time in products with the adjacency, None for all.
      remat: recompute each layer in the backward pass instead of storing its arrays, about 30
        of the size of a channel; the layers then run as one scan (with other dropout draws).
      dtype: of the computation.
    """

    num_classes: int
    hidden_dim: int = 64
    num_layers: int = 2
    alpha: float = 0.5
    num_heads: int = 1
    mlp_layers: int = 2
    head_layers: int = 2
    qk_norm: QKNorm | str = QKNorm.FROBENIUS
    attention: CrossAttention | str = CrossAttention.LINEAR
    propagate_value: PropagateValue | str = PropagateValue.TOPOLOGY
    attr_residual: AttrResidual | str = AttrResidual.INITIAL
    norm: Norm | str = Norm.LAYER
    activation: Activation | str = Activation.RELU
    gate_init: float = 0.5
    dropout: float = 0.5
    input_dropout: float = 0.0
    head_dropout: float = 0.0
    num_nodes: int | None = None
    edge_chunk: int | None = None
    remat: bool = False
    dtype: DTypeLike = jnp.float32

    @linen.compact
    def __call__(
        self,
        graph: jraph.GraphsTuple,
        x: Features | None = None,
        *,
        deterministic: bool = True,
    ) -> UGCFormerOutput:
        """Predictions for all nodes.

        Args:
          graph: receivers ascending, both directions of each edge, no self-loops. A part of a
            larger graph needs ``ids`` among its nodes and ``num_nodes`` here.
          x: [n, f] features in place of those of the graph.
          deterministic: no dropout; else an rng named ``dropout`` is needed.

        Returns:
          See :class:`UGCFormerOutput`.

        Raises:
          ValueError: a size or option out of its range, or a graph of another number of nodes
            than the parameters.

        Source: OpenReview 7FhWZFoVem, eqs. 6-12.
        """
        self._check()
        x = node_features(graph) if x is None else x
        if len(x.shape) != 2 or x.shape[0] != num_nodes(graph):
            raise ValueError(f"x has shape {x.shape}, needs [{num_nodes(graph)}, f]")
        adj_norm, mask = normalized_adjacency(graph), real_nodes(graph)
        z = AdjacencyEncoder(
            self.hidden_dim,
            self.mlp_layers,
            self.dropout,
            self.num_nodes,
            self.edge_chunk,
            self.dtype,
            name="topo",
        )(graph, deterministic)
        widths = (self.hidden_dim,) * self.mlp_layers
        attr = DenseStack(widths, self.dropout, fan_in_uniform, self.dtype, name="attr")
        b0 = attr(drop_features(x, self.input_dropout, deterministic), deterministic)
        z, b0 = constrain_batch(z), constrain_batch(b0)
        if self.remat and not self.is_initializing():
            z, b = self._recomputed_layers(z, b0, adj_norm, mask, deterministic)
        else:
            b = b0
            for i in range(self.num_layers):
                layer = self._layer(name=f"layer_{i}")
                z, b = layer(z, b, b0, adj_norm, mask, deterministic)
                z, b = constrain_batch(z), constrain_batch(b)
        widths = (self.hidden_dim,) * (self.head_layers - 1) + (self.num_classes,)
        dense = DenseStack(widths, self.head_dropout, dtype=self.dtype, name="head")
        before = linen.Dropout(self.head_dropout)

        def head(h: jax.Array) -> jax.Array:
            return as_logits(dense(before(h, deterministic=deterministic), deterministic))

        return UGCFormerOutput(
            logits=head((1 - self.alpha) * z + self.alpha * b),
            logits_topo=head(z),
            logits_attr=head(b),
            z=z,
            b=b,
            gates=self._gates(),
        )

    def _layer(self, **where: Any) -> DualCrossAttention:
        return DualCrossAttention(
            self.hidden_dim,
            self.num_heads,
            self.qk_norm,
            self.norm,
            self.activation,
            self.dropout,
            self.attention,
            self.propagate_value,
            self.attr_residual,
            self.gate_init,
            self.edge_chunk,
            self.dtype,
            **where,
        )

    def _recomputed_layers(
        self,
        z: jax.Array,
        b0: jax.Array,
        adj_norm: EdgeOperator,
        mask: jax.Array | None,
        deterministic: bool,
    ) -> tuple[jax.Array, jax.Array]:
        # A scan, because compilers may undo the recomputation of layers that stand in a row.
        layer, layers = self._layer(parent=None), self._layer_params()
        stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *layers)
        random = not deterministic and self.dropout > 0
        keys = jax.random.split(self.make_rng("dropout"), self.num_layers) if random else None

        @jax.checkpoint
        def step(channels: tuple[jax.Array, ...], own: tuple[Any, ...]) -> tuple[Any, None]:
            params, key = own
            rngs = {} if key is None else {"dropout": key}
            z, b = layer.apply(
                {"params": params}, *channels, b0, adj_norm, mask, deterministic, rngs=rngs
            )
            return (constrain_batch(z), constrain_batch(b)), None

        return jax.lax.scan(step, (z, b0), (stacked, keys))[0]

    def _layer_params(self) -> list[Any]:
        return [self.variables["params"][f"layer_{i}"] for i in range(self.num_layers)]

    def _gates(self) -> jax.Array:
        return jnp.stack(
            [jnp.stack([jnp.tanh(p.get(g, 0.0)) for g in GATES]) for p in self._layer_params()]
        )

    def _check(self) -> None:
        if not 0 <= self.alpha <= 1:
            raise ValueError(f"alpha={self.alpha} must be in [0, 1]")
        for name in (
            "num_classes",
            "hidden_dim",
            "num_layers",
            "num_heads",
            "mlp_layers",
            "head_layers",
        ):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} must be at least 1")


def ugcformer_loss(
    output: UGCFormerOutput,
    labels: jax.Array,
    train_mask: jax.Array,
    *,
    beta: jax.Array | float,
    tau: float = 0.5,
    reduction: ConsistencyReduction | str = ConsistencyReduction.MEAN,
    stop_gradient_pseudo: bool = True,
    mask: jax.Array | None = None,
) -> tuple[jax.Array, dict[str, jax.Array]]:
    """Cross-entropy over the training nodes plus β times the consistency loss over all nodes.

    Args:
      output: of the model.
      labels: int [n], read where ``train_mask`` is True.
      train_mask: bool [n].
      beta: weight β, may be traced: see :func:`~neurips25.graphs.consistency_weight`.
      tau, reduction, stop_gradient_pseudo: of :func:`~neurips25.graphs.consistency_loss`.
      mask: bool [n], True where a node is real; None: all are.

    Returns:
      The loss, and ``loss_ce`` and ``loss_con`` apart.

    Raises:
      ValueError: shapes that do not fit each other.

    Source: OpenReview 7FhWZFoVem, eqs. 13-14.
    """
    ce = masked_cross_entropy(output.logits, labels, train_mask)
    con = consistency_loss(
        jax.nn.softmax(output.logits_topo),
        jax.nn.softmax(output.logits_attr),
        tau,
        reduction,
        stop_gradient_pseudo=stop_gradient_pseudo,
        mask=mask,
    )
    return ce + beta * con, {"loss_ce": ce, "loss_con": con}


def weight_decay_mask(params: Any) -> Any:
    """True for what weight decay may shrink: every parameter but the gates λ and γ.

    Args:
      params: of :class:`UGCFormer`.

    Returns:
      A tree of bool, for ``optax.add_decayed_weights(mask=...)``.
    """
    gate = re.compile(rf"(^|/)({'|'.join(GATES)})$")
    return jax.tree_util.tree_map_with_path(
        lambda path, _: gate.search(path_name(path)) is None, params
    )
