"""Training on the nodes of one graph: a step that also scores it and keeps the best parameters.

Node classification is trained on the whole graph at once, or on sampled neighbourhoods of it, and
judged by the nodes that a split sets aside: the parameters that count are those of the best
validation score, and the test score is theirs. :func:`make_node_step` does all of that inside one
jitted step, for every model of this area.
"""

import dataclasses
import enum
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jraph
import numpy as np
import optax
from flax import linen
from jax.sharding import Mesh

from neurips25.graphs.consistency import ConsistencyReduction, consistency_weight
from neurips25.graphs.graph_inputs import num_nodes, real_nodes, subgraph_tuple
from neurips25.graphs.node_graph import NodeGraph, Split, to_graphs_tuple
from neurips25.graphs.node_losses import masked_accuracy, masked_cross_entropy, masked_roc_auc
from neurips25.graphs.sampling import SampledSubgraph
from neurips25.graphs.sharding import shard_graph, shard_rows
from neurips25.graphs.sparse_features import sparse_features
from neurips25.graphs.ugcformer import UGCFormer, UGCFormerOutput, ugcformer_loss
from neurips25.nn.enums import parse_enum
from neurips25.training import LossFn, StepFn, TrainState, guarded_update
from neurips25.training.mesh import Rules

# Below this share of entries that are not zero, features are kept sparse.
SPARSE_BELOW = 0.1


class NodeMetric(enum.StrEnum):
    """What the nodes of a split are judged by: ACCURACY, or ROC_AUC of two classes."""

    ACCURACY = "accuracy"
    ROC_AUC = "roc_auc"


class NodeTask(NamedTuple):
    """A graph, or a sampled part of one, and what is to be learned on it.

    Attributes:
      graph: n nodes.
      labels: int32 [n], read where a mask is True.
      train, val, test: bool [n].
      step: int32 scalar, gradient steps taken so far; set by the step.
    """

    graph: jraph.GraphsTuple
    labels: jax.Array
    train: jax.Array
    val: jax.Array
    test: jax.Array
    step: jax.Array


class SampledTask(NamedTuple):
    """What a step takes where it trains on samples: ``sample`` to train on, ``whole`` to score."""

    sample: NodeTask
    whole: NodeTask


PredictFn = Callable[[Any, NodeTask], dict[str, jax.Array]]
"""``(variables, task) -> {name: logits [n, C]}``; the name "" stands for the model's answer."""


def node_task(
    graph: NodeGraph,
    split: Split | int = 0,
    mesh: Mesh | None = None,
    metric: NodeMetric | str = NodeMetric.ACCURACY,
) -> NodeTask:
    """A whole graph on the devices, with one of its splits.

    Args:
      graph: n nodes.
      split: masks [n], or the number of one of the graph's splits.
      mesh: with several devices on data x fsdp the nodes are split over them, and padded where
        they do not divide, see :func:`~neurips25.graphs.shard_graph`. None: one device.
      metric: what the split must be able to give.

    Returns:
      The task; features that are mostly zero are kept sparse on one device.

    Raises:
      ValueError: no such split, or one of its masks has no node, or for ``ROC_AUC`` not both
        classes; an unknown metric.
    """
    masks = graph.split(split) if isinstance(split, int) else split
    which = f"split {split}" if isinstance(split, int) else "the given split"
    _check_scorable(graph, masks, which, parse_enum(NodeMetric, metric, "metric"))
    step = jnp.zeros((), jnp.int32)
    if mesh is None or mesh.shape["data"] * mesh.shape["fsdp"] == 1:
        whole = to_graphs_tuple(graph)
        if np.count_nonzero(graph.features) < SPARSE_BELOW * graph.features.size:
            whole = whole._replace(nodes=sparse_features(graph.features))
        train, val, test = map(jnp.asarray, masks)
        return NodeTask(whole, jnp.asarray(graph.labels), train, val, test, step)
    host = jax.tree.map(np.asarray, to_graphs_tuple(graph))
    whole = shard_graph(host, mesh)
    rows = num_nodes(whole)
    labels = shard_rows(graph.labels, rows, mesh, fill=-1)
    train, val, test = (shard_rows(mask, rows, mesh, fill=False) for mask in masks)
    return NodeTask(whole, labels, train, val, test, step)


def _check_scorable(graph: NodeGraph, masks: Split, which: str, metric: NodeMetric) -> None:
    """Refuses what would be scored as 0 (no nodes) or NaN (one class) in every step."""
    if metric is NodeMetric.ROC_AUC and graph.num_classes != 2:
        raise ValueError(f"graph {graph.name!r} has {graph.num_classes} classes, roc_auc needs 2")
    for field, mask in masks._asdict().items():
        labels = graph.labels[np.asarray(mask)]
        counts = np.bincount(labels[labels >= 0], minlength=2)
        has = f"graph {graph.name!r}, {which}: the {field} mask has"
        if not len(labels):
            raise ValueError(f"{has} no nodes, needs at least one")
        if metric is NodeMetric.ROC_AUC and not counts[:2].all():
            raise ValueError(
                f"{has} {counts[0]} nodes of class 0 and {counts[1]} of class 1, roc_auc needs both"
            )


def sampled_task(batch: SampledSubgraph) -> NodeTask:
    """A sampled neighbourhood as a task whose training nodes are its roots."""
    none = jnp.zeros(batch.roots.shape, bool)
    step = jnp.zeros((), jnp.int32)
    roots = jnp.asarray(batch.roots)
    return NodeTask(subgraph_tuple(batch), jnp.asarray(batch.labels), roots, none, none, step)


def coupled_adam(
    learning_rate: float, weight_decay: float = 0.0, mask: Callable[[Any], Any] | None = None
) -> optax.GradientTransformation:
    """Adam with weight decay in the gradient, as ``torch.optim.Adam`` has it.

    With a weight decay of 0.01 this is far from AdamW: the decay is divided by the same root of
    the second moment as the gradient.

    Args:
      learning_rate: constant.
      weight_decay: L2 coefficient λ of λ/2 ‖w‖².
      mask: ``params -> tree of bool``, True where decay applies; None: everywhere.

    Returns:
      The transformation.
    """
    return optax.chain(
        optax.add_decayed_weights(weight_decay, mask),
        optax.scale_by_adam(),
        optax.scale_by_learning_rate(learning_rate),
    )


def node_loss_fn(model: linen.Module) -> LossFn:
    """Cross-entropy over the training nodes, and whatever losses the model itself gives.

    Args:
      model: ``model(graph, deterministic) -> logits``, any of the baselines. The mean of what it
        sows into ``losses`` is added.

    Returns:
      ``(params, collections, task, key) -> (loss, (metrics, collections))``.
    """

    def loss(params: Any, extra: Any, task: NodeTask, key: jax.Array) -> Any:
        logits, new = model.apply(
            {"params": params, **extra},
            task.graph,
            False,
            rngs={"dropout": key},
            mutable=[*extra, "losses"],
        )
        sown = jax.tree.leaves(new.pop("losses", {}))
        ce = masked_cross_entropy(logits, task.labels, task.train)
        total = ce + sum(sown) / max(len(sown), 1)
        return total, ({"loss_ce": ce}, dict(new))

    return loss


def ugcformer_loss_fn(
    model: UGCFormer,
    *,
    beta: float,
    tau: float = 0.5,
    warmup: int = 0,
    reduction: ConsistencyReduction | str = ConsistencyReduction.MEAN,
) -> LossFn:
    """:func:`~neurips25.graphs.ugcformer_loss` in the form that a step takes.

    Args:
      model: UGCFormer.
      beta: weight of the consistency loss after the warm-up.
      tau, reduction: of :func:`~neurips25.graphs.consistency_loss`.
      warmup: steps without the consistency loss.

    Returns:
      ``(params, collections, task, key) -> (loss, (metrics, collections))``.
    """

    def loss(params: Any, extra: Any, task: NodeTask, key: jax.Array) -> Any:
        output = model.apply(
            {"params": params}, task.graph, deterministic=False, rngs={"dropout": key}
        )
        value, parts = ugcformer_loss(
            output,
            task.labels,
            task.train,
            beta=consistency_weight(task.step, beta, warmup),
            tau=tau,
            reduction=reduction,
            mask=real_nodes(task.graph),
        )
        return value, (parts, extra)

    return loss


def node_predict_fn(model: linen.Module) -> PredictFn:
    """Logits without dropout; of UGCFormer also those of its channels, ``_topo`` and ``_attr``."""

    def predict(variables: Any, task: NodeTask) -> dict[str, jax.Array]:
        output = model.apply(variables, task.graph, deterministic=True)
        if isinstance(output, UGCFormerOutput):
            return {
                "": output.logits,
                "_topo": output.logits_topo,
                "_attr": output.logits_attr,
            }
        return {"": output}

    return predict


def in_phases(first: Callable[..., Any], second: Callable[..., Any], steps: int) -> Any:
    """A loss or prediction that is ``first`` before gradient step ``steps`` and ``second`` after.

    Both are functions of a :class:`NodeTask` among other things and give trees of one shape.
    """

    def either(*args: Any) -> Any:
        task = next(a for a in args if isinstance(a, NodeTask))
        return jax.lax.cond(task.step < steps, first, second, *args)

    return either


def init_node_variables(model: linen.Module, task: NodeTask) -> Callable[[jax.Array], Any]:
    """``key -> variables`` for :func:`~neurips25.training.create_state`, with a place for the best.

    Beside the collections of the model there are ``best``, a dict of its ``variables``, ``step``
    and ``scores``, and ``scores``, those of the latest evaluation.
    """

    def init(key: jax.Array) -> Any:
        rngs = dict(zip(("params", "dropout"), jax.random.split(key)))
        variables = dict(model.init(rngs, task.graph))
        kinds = jax.eval_shape(node_predict_fn(model), variables, task)
        none = {
            _name(part, kind): jnp.float32(-jnp.inf) for kind in kinds for part in Split._fields
        }
        best = {
            "variables": jax.tree.map(jnp.copy, variables),
            "step": jnp.zeros((), jnp.int32),
            "scores": none,
        }
        return variables | {"best": best, "scores": none}

    return init


def _name(part: str, kind: str) -> str:
    return f"{part}_score{kind}"


def model_variables(state: TrainState) -> Any:
    """Parameters and collections of the model in a state of :func:`make_node_step`."""
    extra = {k: v for k, v in state.extra.items() if k not in ("best", "scores")}
    return {"params": state.params, **extra}


def node_scores(
    predictions: dict[str, jax.Array], task: NodeTask, metric: NodeMetric | str
) -> dict[str, jax.Array]:
    """Scores of predictions on the three parts of a split.

    Returns:
      ``train_score``, ``val_score``, ``test_score``, and the same with the suffix of every other
      name among the predictions.

    Raises:
      ValueError: an unknown metric, or one that does not go with the number of classes.
    """
    kind = parse_enum(NodeMetric, metric, "metric")
    score = masked_accuracy if kind is NodeMetric.ACCURACY else masked_roc_auc
    return {
        _name(part, name): score(logits, task.labels, getattr(task, part))
        for name, logits in predictions.items()
        for part in Split._fields
    }


def make_node_step(
    loss_fn: LossFn,
    predict_fn: PredictFn,
    tx: optax.GradientTransformation,
    mesh: Mesh,
    *,
    eval_every: int = 1,
    metric: NodeMetric | str = NodeMetric.ACCURACY,
    rules: Rules = (),
) -> StepFn:
    """Builds ``(state, task) -> (state, metrics)``, jitted, with the state donated.

    One gradient step, and every ``eval_every`` steps the scores of the new parameters on the whole
    graph; where the validation score is higher than all before, they become the best.

    Args:
      loss_fn: ``(params, collections, task, key) -> (loss, (metrics, collections))``.
      predict_fn: what is scored.
      tx: optax transformation.
      mesh: of state and task.
      eval_every: steps between evaluations.
      metric: of the scores.
      rules: placement of the state, as for :func:`~neurips25.training.create_state`.

    Returns:
      The step for a state whose variables are from :func:`init_node_variables`. It takes a
      :class:`NodeTask`, or a :class:`SampledTask`. Metrics are those of the loss, of
      :func:`~neurips25.training.guarded_update`, the scores of the latest evaluation, and
      ``best_val_score``, ``best_test_score`` and ``best_step``.

    Raises:
      ValueError: ``eval_every < 1`` or an unknown metric.
    """
    if eval_every < 1:
        raise ValueError(f"eval_every={eval_every} must be at least 1")
    parse_enum(NodeMetric, metric, "metric")

    def evaluate(state: TrainState, whole: NodeTask) -> tuple[Any, Any]:
        variables, best = model_variables(state), state.extra["best"]
        scores = node_scores(predict_fn(variables, whole), whole, metric)
        new = {"variables": variables, "step": state.step, "scores": scores}
        better = scores["val_score"] > best["scores"]["val_score"]
        return jax.tree.map(lambda a, b: jnp.where(better, a, b), new, best), scores

    def step(state: TrainState, batch: NodeTask | SampledTask) -> tuple[TrainState, Any]:
        train, whole = batch if isinstance(batch, SampledTask) else (batch, batch)
        train, whole = (task._replace(step=state.step) for task in (train, whole))
        kept = {name: state.extra[name] for name in ("best", "scores")}
        extra = {k: v for k, v in state.extra.items() if k not in kept}
        key = jax.random.fold_in(state.key, state.step)
        with jax.sharding.use_abstract_mesh(mesh.abstract_mesh):
            gradient = jax.value_and_grad(loss_fn, has_aux=True)
            (loss, (metrics, new)), grads = gradient(state.params, extra, train, key)
            state, counts = guarded_update(
                state, loss, grads, {**new, **kept}, tx, mesh=mesh, rules=rules
            )
            best, scores = jax.lax.cond(
                state.step % eval_every == 0,
                evaluate,
                lambda state, _: (state.extra["best"], state.extra["scores"]),
                state,
                whole,
            )
        extra = {**state.extra, "best": best, "scores": scores}
        state = dataclasses.replace(state, extra=extra)
        chosen = {f"best_{part}_score": best["scores"][f"{part}_score"] for part in ("val", "test")}
        chosen["best_step"] = best["step"]
        return state, metrics | counts | scores | chosen

    return jax.jit(step, donate_argnums=0)
