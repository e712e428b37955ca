"""UGCFormer and its baselines trained on the nodes of graphs.

``run(config, workdir)`` does what ``config.task`` says; see ``configs/ugcformer.py``.
"""

import pathlib
from typing import Any

import jax
import jax.numpy as jnp
import rich.console
from jax.sharding import Mesh
from ml_collections import ConfigDict

from experiments import ugcformer_large, ugcformer_predict, ugcformer_report, ugcformer_search
from experiments.benchmarks import ugcformer as benchmark
from experiments.report import write_report
from experiments.training_run import run_task
from experiments.ugcformer_dry_run import abstract_batch
from experiments.ugcformer_models import trained_model
from experiments.ugcformer_training import (
    check_problem,
    chosen_models,
    chosen_problems,
    load_problem,
    make_step,
    train_model,
)
from experiments.workdir import prepare_workdir
from neurips25 import graphs, training
from neurips25.evidence import ClaimRecord

# What may change between starts in one run directory.
FREE_FIELDS = ("task", "data_dir", "predict", "sensitivity", "search", "large")

_console = rich.console.Console()


def abstract_step(config: ConfigDict, mesh: Mesh) -> tuple[Any, Any, Any]:
    """Step, state and task of the first graph's first model as shapes, for ``--dry_run``.

    A graph of the paper whose file is not there is taken to have the paper's size.
    """
    problem = chosen_problems(config)[0]
    batch, n, c = abstract_batch(config, problem, mesh)
    parts = trained_model(config, problem, chosen_models(config, problem)[0], c, n)
    whole = batch.whole if isinstance(batch, graphs.SampledTask) else batch

    def init(key: jax.Array) -> Any:
        zeros = jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), whole)
        return graphs.init_node_variables(parts.model, zeros)(key)

    state = training.abstract_state(init, parts.tx, mesh=mesh, rules=graphs.GRAPH_RULES)
    return make_step(config, problem, parts, mesh), state, batch


def _train_task(config: ConfigDict, workdir: pathlib.Path, mesh: Mesh) -> list[ClaimRecord]:
    loaded = {problem: load_problem(config, problem) for problem in chosen_problems(config)}
    # What would fail after an hour must fail before it.
    for problem, graph in loaded.items():
        for name in chosen_models(config, problem):
            parts = trained_model(config, problem, name, graph.num_classes, graph.num_nodes)
            make_step(config, problem, parts, mesh)
    results = [
        result
        for problem, graph in loaded.items()
        for name in chosen_models(config, problem)
        for result in train_model(config, problem, name, graph, workdir, mesh)
    ]
    if jax.process_count() > 1:
        if jax.process_index() == 0:
            _console.print("trained; the same command in one process writes the report")
        return []
    for problem, graph in loaded.items():
        first = chosen_models(config, problem)[0]
        runs = [r for r in results if (r.problem, r.model) == (problem, first) and not r.diverged]
        if runs:
            ugcformer_predict.predict(config, problem, first, runs[0].run, graph, workdir, mesh)
        else:
            _console.print(f"{problem}: no predictions, as {first} diverged in every run")
    records = ugcformer_report.write_tables(config, results, loaded, workdir, _console)
    _console.rule("report")
    for path in write_report([workdir], workdir / "report"):
        _console.print(str(path), soft_wrap=True)
    return records


def _predict_task(config: ConfigDict, workdir: pathlib.Path, mesh: Mesh) -> None:
    p = config.predict
    problem = chosen_problems(config)[0]
    if p.problem:
        problem = check_problem(config, "predict.problem", p.problem)
    graph = load_problem(config, problem)
    path = ugcformer_predict.predict(config, problem, p.model, p.run, graph, workdir, mesh)
    _console.print(str(path), soft_wrap=True)


def _scaling_task(config: ConfigDict, workdir: pathlib.Path) -> None:
    benchmark.in_workdir(config.bench, workdir, _console)


def run(
    config: ConfigDict, workdir: str | pathlib.Path, mesh: Mesh | None = None
) -> list[ClaimRecord]:
    """Runs the task that the config names.

    Args:
      config: from ``configs/ugcformer.py``.
      workdir: the run directory; a run that stopped there goes on.
      mesh: devices, default all of them on the data axis.

    Returns:
      The claim records of the tasks train and search, which also lie in ``records.json``.

    Raises:
      ValueError: an unknown task, graph or model, or data that cannot be used.
      FileNotFoundError: a graph's file is not there.
      WorkdirError: the directory cannot be used or holds a run of another config.
      Interrupted: stopped by a signal; nothing is lost.
    """
    workdir = prepare_workdir(workdir, config, FREE_FIELDS)
    mesh = mesh or training.make_mesh()
    return run_task(
        config,
        {
            "train": lambda: _train_task(config, workdir, mesh),
            "predict": lambda: _predict_task(config, workdir, mesh),
            "sensitivity": lambda: ugcformer_search.sensitivity(config, workdir, mesh, _console),
            "search": lambda: ugcformer_search.search(config, workdir, mesh, _console),
            "scaling": lambda: _scaling_task(config, workdir),
            "large": lambda: ugcformer_large.measure(config.large, workdir, _console),
        },
    )
