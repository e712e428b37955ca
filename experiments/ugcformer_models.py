"""The models of the UGCFormer experiment, as its config describes them."""

import difflib
from typing import Any, NamedTuple

import optax
from flax import linen
from ml_collections import ConfigDict

from neurips25 import graphs
from neurips25.training import LossFn

KINDS: dict[str, type[linen.Module]] = {
    "ugcformer": graphs.UGCFormer,
    "mlp": graphs.MLP,
    "gcn": graphs.GCN,
    "gat": graphs.GAT,
    "graph_sage": graphs.GraphSAGE,
    "appnp": graphs.APPNP,
    "gpr_gnn": graphs.GPRGNN,
    "linkx": graphs.LINKX,
    "sgformer": graphs.SGFormer,
    "nodeformer": graphs.NodeFormer,
    "polynormer": graphs.Polynormer,
}
# What belongs to the loss of UGCFormer rather than to the model, with the defaults.
LOSS_FIELDS = {"beta": 0.0, "warmup": 0, "tau": 0.5, "reduction": "mean"}
TRAIN_FIELDS = ("learning_rate", "weight_decay")


class Trained(NamedTuple):
    """A model and what its training step is made of.

    Attributes:
      model: the module.
      loss: of the training step.
      predict: what is scored.
      tx: the optimiser.
    """

    model: linen.Module
    loss: LossFn
    predict: graphs.PredictFn
    tx: optax.GradientTransformation


def model_settings(config: ConfigDict, problem: str, name: str) -> dict[str, Any]:
    """All settings of a model on a graph: those of the graph, then the model's own.

    Raises:
      ValueError: no such model, kind or field.
    """
    if name not in config.models:
        near = difflib.get_close_matches(name, config.models, n=1, cutoff=0.0)[0]
        raise ValueError(
            f"config.{problem}.models: {name!r} is not one of {', '.join(config.models)}; did you "
            f"mean {near!r}?"
        )
    own, change = config[problem], dict(config.models[name])
    kind = change.pop("kind")
    if kind not in KINDS:
        raise ValueError(f"config.models.{name}.kind={kind!r} is not one of {', '.join(KINDS)}")
    fields = KINDS[kind].__dataclass_fields__
    for field in change:
        known = field in fields or field in TRAIN_FIELDS
        if not known and not (kind == "ugcformer" and field in LOSS_FIELDS):
            raise ValueError(f"config.models.{name}.{field}: {KINDS[kind].__name__} has no such")
    shared = {k: v for k, v in own.shared.items() if k in fields}
    if not shared.get("edge_chunk"):
        shared.pop("edge_chunk", None)
    train = {field: own.train[field] for field in TRAIN_FIELDS}
    special = dict(LOSS_FIELDS, **own.ugcformer) if kind == "ugcformer" else {}
    return {"kind": kind, **train, **shared, **special, **change}


def used_settings(config: ConfigDict, problem: str, name: str) -> dict[str, Any]:
    """The settings that a training run of a model really depends on, those of its step included.

    Args:
      config: the experiment's config.
      problem: a graph.
      name: one of ``config.models``.

    Returns:
      Field -> value.

    Raises:
      ValueError: as :func:`model_settings`.
    """
    settings, train = model_settings(config, problem, name), config[problem].train
    del settings["kind"]
    if not settings.get("beta", True):
        settings = {k: v for k, v in settings.items() if k == "beta" or k not in LOSS_FIELDS}
    settings["steps"] = train.steps
    if train.batch_nodes:
        settings.update({"batch_nodes": train.batch_nodes, "fanouts": tuple(train.fanouts)})
    return settings


def untuned(config: ConfigDict, name: str) -> bool:
    """Whether a model takes over settings that were chosen for UGCFormer: every baseline does."""
    return config.models[name].kind != "ugcformer"


def trained_model(
    config: ConfigDict, problem: str, name: str, num_classes: int, num_nodes: int
) -> Trained:
    """A model of the config with its loss, its predictions and its optimiser.

    Args:
      config: the experiment's config.
      problem: a graph.
      name: one of ``config.models``.
      num_classes, num_nodes: of the graph.

    Returns:
      The model, ready for :func:`neurips25.graphs.make_node_step`.

    Raises:
      ValueError: as :func:`model_settings`.
    """
    settings = model_settings(config, problem, name)
    kind = settings.pop("kind")
    learning_rate, weight_decay = (settings.pop(field) for field in TRAIN_FIELDS)
    if "num_nodes" in KINDS[kind].__dataclass_fields__:
        # Neither a sample nor the padding of a mesh makes another model of it.
        settings["num_nodes"] = num_nodes
    if kind == "ugcformer":
        losses = {field: settings.pop(field) for field in LOSS_FIELDS}
        model = graphs.UGCFormer(num_classes, **settings)
        tx = graphs.coupled_adam(learning_rate, weight_decay, graphs.weight_decay_mask)
        return Trained(
            model, graphs.ugcformer_loss_fn(model, **losses), graphs.node_predict_fn(model), tx
        )
    model = KINDS[kind](num_classes, **settings)
    loss, predict = graphs.node_loss_fn(model), graphs.node_predict_fn(model)
    tx = graphs.coupled_adam(learning_rate, weight_decay)
    if isinstance(model, graphs.Polynormer):
        # The local layers alone in the first half, as it is published.
        local, steps = model.clone(local_only=True), config[problem].train.steps // 2
        loss = graphs.in_phases(graphs.node_loss_fn(local), loss, steps)
        predict = graphs.in_phases(graphs.node_predict_fn(local), predict, steps)
        tx = _global_from(steps, tx)
    return Trained(model, loss, predict, tx)


def _global_from(steps: int, tx: optax.GradientTransformation) -> optax.GradientTransformation:
    # Else weight decay alone would shrink the global layers to nothing before their phase: Adam
    # makes full steps of however small a gradient.
    def labels(params: dict[str, Any]) -> dict[str, str]:
        return {name: "global" if name.startswith("global") else "local" for name in params}

    later = optax.conditionally_mask(tx, lambda step: step >= steps)
    return optax.partition({"local": tx, "global": later}, labels)
