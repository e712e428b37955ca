"""Predictions of a trained model for every node, as a table and as pictures."""

import pathlib
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh
from ml_collections import ConfigDict

from experiments.tables import write_csv
from experiments.training_run import restore, result_file
from experiments.ugcformer_models import trained_model
from experiments.ugcformer_training import keep_graph, run_name, stored_result
from neurips25 import graphs, training
from neurips25.evidence import new_figure, save_figure
from neurips25.graphs import NodeGraph, NodeTask


def predict(
    config: ConfigDict,
    problem: str,
    name: str,
    run: int,
    graph: NodeGraph,
    workdir: pathlib.Path,
    mesh: Mesh,
) -> pathlib.Path:
    """Writes ``predictions/<problem>-<model>-run<k>.csv`` and figures, from the best parameters.

    Columns are ``node``, ``y_true`` (-1: not known), ``y_pred``, ``p_0`` ... and ``split``.
    The model is transductive: the graph must have the nodes that it was trained on.

    Args:
      config: the experiment's config.
      problem, name, run: which training run of this directory.
      graph: with splits.
      workdir: the run directory.
      mesh: devices.

    Returns:
      The table's path.

    Raises:
      ValueError: no such run here, or one that diverged.
      WorkdirError: the directory holds results of another graph.
      CheckpointError: its checkpoint does not go with the config.
    """
    label = run_name(problem, name, run)
    keep_graph(config, problem, graph, workdir)
    file = result_file(workdir, label)
    if file.exists() and stored_result(file, dict).diverged:
        raise ValueError(f"{label} diverged, so that there is nothing to predict with: {file}")
    parts = trained_model(config, problem, name, graph.num_classes, graph.num_nodes)
    task = graphs.node_task(graph, run % graph.num_splits, mesh)
    like = training.abstract_state(
        graphs.init_node_variables(parts.model, task), parts.tx, mesh=mesh, rules=graphs.GRAPH_RULES
    )
    best = restore(workdir, label, like).extra["best"]
    # Before the step that made them the best: where a model has phases, the right one.
    task = task._replace(step=best["step"] - 1)
    logits = jax.jit(parts.predict)(best["variables"], task)[""][: graph.num_nodes]
    p = np.asarray(jax.nn.softmax(logits))
    y = p.argmax(axis=1)
    words = np.full(graph.num_nodes, "", object)
    for part, mask in zip(graphs.Split._fields, graph.split(run % graph.num_splits)):
        words[mask] = part
    path = workdir / "predictions" / f"{label}.csv"
    header = ["node", "y_true", "y_pred", *(f"p_{c}" for c in range(p.shape[1])), "split"]
    write_csv(
        path, header,
        [
            [i, graph.labels[i], y[i], *(f"{x:.6g}" for x in p[i]), words[i]]
            for i in range(graph.num_nodes)
        ],
    )  # fmt: skip
    _plot_confusion(graph, y, words == "test", label, workdir / "figures")
    hidden = _representation(parts.model, best["variables"], task)
    if hidden is not None:
        _plot_representation(hidden[: graph.num_nodes], graph, label, workdir / "figures")
    return path


def _representation(model: Any, variables: Any, task: NodeTask) -> np.ndarray | None:
    if not isinstance(model, graphs.UGCFormer):
        return None
    output = model.apply(variables, task.graph)
    return np.asarray((1 - model.alpha) * output.z + model.alpha * output.b)


def _plot_representation(
    hidden: np.ndarray, graph: NodeGraph, label: str, figures: pathlib.Path
) -> None:
    centred = hidden - hidden.mean(axis=0)
    u, s, _ = np.linalg.svd(centred, full_matrices=False)
    fig, ax = new_figure(
        f"first principal component ({s[0] ** 2 / max((s**2).sum(), 1e-30):.0%} of the variance)",
        "second principal component",
        f"{label}: (1 - alpha) Z + alpha B, coloured by class",
    )
    for c in range(graph.num_classes):
        own = graph.labels == c
        x, y = (u[own, :2] * s[:2]).T
        ax.scatter(x, y, s=6, label=f"class {c}", alpha=0.7)
    ax.legend(frameon=False, fontsize="small", loc="center left", bbox_to_anchor=(1.0, 0.5))
    save_figure(fig, figures / f"{label}_representation.png")


def _plot_confusion(
    graph: NodeGraph, predicted: np.ndarray, shown: np.ndarray, label: str, figures: pathlib.Path
) -> None:
    counts = np.zeros((graph.num_classes, graph.num_classes), int)
    np.add.at(counts, (graph.labels[shown], predicted[shown]), 1)
    fig, ax = new_figure("predicted class", "class", f"{label}: test nodes")
    ax.grid(False)
    ax.imshow(counts, cmap="Blues")
    ax.set_xticks(range(graph.num_classes))
    ax.set_yticks(range(graph.num_classes))
    for (i, j), count in np.ndenumerate(counts):
        dark = count > counts.max() / 2
        ax.text(j, i, count, ha="center", va="center", color="white" if dark else "black")
    save_figure(fig, figures / f"{label}_confusion.png")
