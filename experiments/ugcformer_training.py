"""Graphs, training runs and results of the UGCFormer experiment."""

import dataclasses
import difflib
import functools
import json
import math
import pathlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import rich.console
from jax.sharding import Mesh
from ml_collections import ConfigDict

from configs.ugcformer import BUILT_IN, GRAPHS, TABLE_5
from experiments.training_run import result_file, stored, train_run
from experiments.ugcformer_models import Trained, trained_model
from experiments.workdir import WorkdirError
from neurips25 import graphs, training
from neurips25.data import SeekableBatches, replace_text
from neurips25.graphs import NodeGraph, NodeTask

# Names of the scores.
METRICS = {"accuracy": "accuracy", "roc_auc": "ROC-AUC"}
_NUM_SPLITS = 10

_console = rich.console.Console()


class Result(NamedTuple):
    """One finished training run, as stored in ``results/<problem>-<model>-run<k>.json``.

    Scores are accuracies or areas under the ROC curve, in [0, 1]. Of a run that diverged they
    are NaN, and what there is no number of is empty.

    Attributes:
      problem, model, run: which.
      val, test: scores at the step with the best validation score.
      channels: of UGCFormer, test scores there by the topology and the attribute channel alone.
      best_step: that step.
      parameters: of the whole model.
      seconds: of training with its evaluations, compilation included.
      gates: of UGCFormer, [tanh(lambda), tanh(gamma)] of each layer at that step.
      change: of UGCFormer, largest relative change that the attention makes in a layer there.
      curve: columns by name, among them ``step``, ``val_score`` and the losses.
    """

    problem: str
    model: str
    run: int
    val: float
    test: float
    channels: dict[str, float]
    best_step: int
    parameters: int
    seconds: float
    gates: list[list[float]]
    change: float
    curve: dict[str, list[float]]

    @property
    def diverged(self) -> bool:
        """Whether the loss stayed infinite or NaN."""
        return not math.isfinite(self.test)


def stored_result(file: pathlib.Path, make: Callable[[], Any]) -> Result:
    """A result of a run directory; ``make`` gives its fields where the file is not there."""
    kept = stored(file, make)
    return Result(**{field: kept[field] for field in Result._fields})


def divergence(scores: Sequence[float]) -> str:
    """How many of some scores are of runs that diverged, for tables; empty where none is."""
    bad = sum(not math.isfinite(score) for score in scores)
    return f"diverged ({bad} of {len(scores)})" if bad else ""


def check_problem(config: ConfigDict, field: str, problem: str) -> str:
    """The name of a graph that the config has.

    Raises:
      ValueError: it has none of this name; the message names ``config.<field>``.
    """
    names = [n for n in config if isinstance(config[n], ConfigDict) and "models" in config[n]]
    if problem not in names:
        near = difflib.get_close_matches(problem, names, n=1, cutoff=0.0)[0]
        hint = f"did you mean {near!r}?"
        if field == "problems" and "," in problem:
            hint = """several are written '("karate", "graph")'"""
        raise ValueError(f"config.{field}: {problem!r} is not one of {', '.join(names)}; {hint}")
    return problem


def chosen_problems(config: ConfigDict) -> tuple[str, ...]:
    """Which graphs a run is about: see ``config.problems``.

    Raises:
      ValueError: a name that the config does not have.
    """
    for problem in config.problems:
        check_problem(config, "problems", problem)
    if config.problems:
        return tuple(config.problems)
    if config.preset == "paper":
        return tuple(TABLE_5)
    return GRAPHS if config.data_dir else BUILT_IN


def chosen_models(config: ConfigDict, problem: str) -> tuple[str, ...]:
    """Which models a run trains on a graph: at least one.

    Raises:
      ValueError: none.
    """
    if not config[problem].models:
        raise ValueError(f"config.{problem}.models is empty, needs names from config.models")
    return tuple(config[problem].models)


def graph_path(config: ConfigDict, problem: str) -> pathlib.Path:
    """Where the file or folder of a graph should be, see ``config.data_dir``."""
    return pathlib.Path(config.data_dir) / config[problem].data.path


def load_problem(config: ConfigDict, problem: str) -> NodeGraph:
    """The graph of a problem, with splits.

    Raises:
      FileNotFoundError, ValueError: no such file, one that is damaged, or splits that cannot be
        scored; the message names the field of the config, or the file.
    """
    data = config[problem].data
    if not data.path and problem in BUILT_IN:
        return _scorable(_built_in(config, problem), config[problem].metric)
    if not data.path:
        raise ValueError(f"config.{problem}.data.path is empty, needs the file of a graph")
    path = graph_path(config, problem)
    options: dict[str, Any] = {"task": data.task} if data.task else {}
    if data.split_dir:
        options["split_dir"] = pathlib.Path(config.data_dir) / data.split_dir
    try:
        graph = graphs.load_graph(path, num_splits=0, **options)
    except FileNotFoundError as error:
        fields = f"config.data_dir={config.data_dir!r}, config.{problem}.data.path={data.path!r}"
        raise FileNotFoundError(f"{fields}: {error}") from error
    except TypeError as error:
        if "unexpected keyword" not in str(error):
            raise
        fields = ", ".join(f"config.{problem}.data.{name}={data[name]!r}" for name in options)
        raise ValueError(f"{fields}: the files at {path} are of a format without that") from error
    if not graph.num_splits:
        shares = tuple(data.fractions)
        graph = graph.with_split(graphs.random_splits(graph.labels, shares, _NUM_SPLITS))
        if jax.process_index() == 0:
            _console.print(
                f"{problem}: no splits come with {path}, so {_NUM_SPLITS} are drawn at random: "
                "{} training, {} validation, {} test".format(*shares), soft_wrap=True,
            )  # fmt: skip
    return _scorable(graph, config[problem].metric)


def _scorable(graph: NodeGraph, metric: str) -> NodeGraph:
    """The graph itself, once every split of it is known to have what the metric needs."""
    bare = dataclasses.replace(
        graph, features=graph.features[:, :1], senders=graph.senders[:0],
        receivers=graph.receivers[:0],
    )  # fmt: skip
    for split in range(graph.num_splits):
        graphs.node_task(bare, split, metric=metric)
    return graph


def keep_graph(config: ConfigDict, problem: str, graph: NodeGraph, workdir: pathlib.Path) -> None:
    """Notes which graph a run directory's results are from, or checks that it is still the same.

    Its digest lies in ``graphs/<problem>.json``.

    Args:
      config: the experiment's config.
      problem: the graph's name in the config.
      graph: what the config's file holds now.
      workdir: the run directory.

    Raises:
      WorkdirError: there are results or checkpoints of another graph.
    """
    file = workdir / "graphs" / f"{problem}.json"
    now = {"digest": graphs.graph_digest(graph)}
    there = json.loads(file.read_text(encoding="utf-8")) if file.exists() else None
    if there == now:
        return
    patterns = (f"results/{problem}-*", f"checkpoints/{problem}-*/*")
    if any(path.exists() for pattern in patterns for path in workdir.glob(pattern)):
        source = graph_path(config, problem) if config[problem].data.path else problem
        raise WorkdirError(
            f"{source}: not the graph that the results in {workdir} are from (its nodes, edges, "
            f"features, labels or splits differ, see {file}). Put that one back, use another "
            f"--workdir, or delete results/{problem}-* and checkpoints/{problem}-* there"
        )
    if jax.process_index() == 0:
        replace_text(file, json.dumps(now) + "\n")


def _built_in(config: ConfigDict, problem: str) -> NodeGraph:
    if problem == "karate":
        return graphs.karate_club()
    s = config.sbm
    return graphs.sbm_dataset(
        0, s.nodes, s.classes, s.features, 0.85 if problem == "sbm_homophilous" else 0.15,
        average_degree=s.average_degree, name=problem,
    )  # fmt: skip


def make_step(config: ConfigDict, problem: str, parts: Trained, mesh: Mesh) -> training.StepFn:
    """The training step of one model.

    Raises:
      ValueError: an unknown metric, or no evaluation before the last step.
    """
    own = config[problem]
    if own.train.eval_every > own.train.steps:
        raise ValueError(
            f"config.{problem}.train.eval_every={own.train.eval_every} is more than "
            f"train.steps={own.train.steps}: nothing would be evaluated"
        )
    return graphs.make_node_step(
        parts.loss, parts.predict, parts.tx, mesh,
        eval_every=own.train.eval_every, metric=own.metric, rules=graphs.GRAPH_RULES,
    )  # fmt: skip


def run_name(problem: str, model: str, run: int) -> str:
    """What files call one training run."""
    return f"{problem}-{model}-run{run}"


def batches_of(
    config: ConfigDict, problem: str, graph: NodeGraph, run: int, whole: NodeTask
) -> tuple[training.Batches, Any]:
    """What a run trains on, and how it is placed: the whole graph, or samples of it beside it."""
    t = config[problem].train
    if not t.batch_nodes:
        return SeekableBatches(lambda step: step), lambda step, mesh: whole
    nodes = np.flatnonzero(graph.split(run % graph.num_splits).train)
    samples = graphs.NeighborBatches(
        graph, nodes, min(t.batch_nodes, len(nodes)), tuple(t.fanouts), run
    )
    return iter(samples), lambda batch, mesh: graphs.SampledTask(
        graphs.sampled_task(jax.device_put(batch)), whole
    )


def train_model(
    config: ConfigDict,
    problem: str,
    name: str,
    graph: NodeGraph,
    workdir: pathlib.Path,
    mesh: Mesh,
) -> list[Result]:
    """Trains one model on one graph in every run, or goes on with it.

    Args:
      config: the experiment's config.
      problem: the graph's name in the config.
      name: one of ``config.models``.
      graph: with splits.
      workdir: the run directory.
      mesh: devices.

    Returns:
      A result per run, also stored under ``results/``.

    Raises:
      ValueError: less than one run.
      WorkdirError: the directory holds results of another graph.
    """
    own = config[problem]
    if own.runs < 1:
        raise ValueError(f"{problem}: runs={own.runs} must be at least 1")
    keep_graph(config, problem, graph, workdir)
    parts = trained_model(config, problem, name, graph.num_classes, graph.num_nodes)
    step = make_step(config, problem, parts, mesh)

    attention = _attention_of(parts.model)

    @functools.cache
    def new_state() -> Any:
        init = graphs.init_node_variables(parts.model, graphs.node_task(graph, 0, mesh))
        return training.state_maker(init, parts.tx, mesh=mesh, rules=graphs.GRAPH_RULES)

    def run_one(run: int) -> Result:
        label = run_name(problem, name, run)

        def make() -> dict[str, Any]:
            whole = graphs.node_task(graph, run % graph.num_splits, mesh)
            batches, place = batches_of(config, problem, graph, run, whole)
            state = new_state()(jax.random.key(run))
            parameters = sum(p.size for p in jax.tree.leaves(state.params))
            try:
                done = train_run(workdir, label, step, state, batches, mesh, own.train, place=place)
            except training.NonFiniteError as error:
                _console.print(f"{label} diverged: {error}", soft_wrap=True)
                nan = math.nan
                return Result(
                    problem, name, run, nan, nan, {}, 0, parameters, nan, [], nan, {}
                )._asdict()
            best = done.state.extra["best"]
            scores = {k: float(v) for k, v in best["scores"].items()}
            channels = {
                channel: scores[f"test_score_{channel}"]
                for channel in ("topo", "attr")
                if f"test_score_{channel}" in scores
            }
            gates, change = attention(best["variables"], whole)
            return Result(
                problem, name, run, scores["val_score"], scores["test_score"], channels,
                int(best["step"]), parameters, done.seconds, gates, change, _curve(done.rows),
            )._asdict()  # fmt: skip

        file = result_file(workdir, label)
        fresh = not file.exists()
        result = stored_result(file, make)
        if fresh and not result.diverged and jax.process_index() == 0:
            _console.print(
                f"{label:36} val {result.val:.4f}  test {result.test:.4f}  {result.seconds:.1f} s"
            )
        return result

    return [run_one(run) for run in range(own.runs)]


def _attention_of(model: Any) -> Callable[[Any, NodeTask], tuple[list[list[float]], float]]:
    """``(variables, task) -> gates of each layer, largest relative change by the attention``."""
    if not isinstance(model, graphs.UGCFormer):
        return lambda variables, task: ([], math.nan)

    @jax.jit
    def seen(variables: Any, task: NodeTask) -> Any:
        output, sown = model.apply(variables, task.graph, mutable=["intermediates"])
        return output.gates, [jnp.max(jnp.asarray(leaf)) for leaf in jax.tree.leaves(sown)]

    def call(variables: Any, task: NodeTask) -> tuple[list[list[float]], float]:
        gates, changes = seen(variables, task)
        return np.asarray(gates).tolist(), max(map(float, changes), default=0.0)

    return call


def _curve(rows: list[dict[str, Any]]) -> dict[str, list[float]]:
    shown = ("step", "loss", "loss_ce", "loss_con", "val_score", "val_score_topo", "val_score_attr")
    return {name: [row[name] for row in rows] for name in shown if name in rows[0]}
