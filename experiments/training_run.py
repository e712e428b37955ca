"""What every experiment needs around a training run: its files, its time, its stored results."""

import contextlib
import datetime
import difflib
import json
import pathlib
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import jax
from jax.sharding import Mesh
from ml_collections import ConfigDict

from neurips25 import training
from neurips25.data import replace_text
from neurips25.evidence import ClaimRecord, current_versions

Evaluate = Callable[[training.TrainState], dict[str, Any]]


class TrainRun(NamedTuple):
    """What :func:`train_run` ends with.

    Attributes:
      state: after the last step.
      seconds: wall time of training, compilation and checkpoints included. With evaluations:
        up to the last of them, themselves left out, over all starts of the run. Without: of
        the last start.
      rows: the run's lines of ``metrics.jsonl``.
    """

    state: training.TrainState
    seconds: float
    rows: list[dict[str, Any]]


class _Clock:
    # Seconds of training so far. What earlier starts took stands in the last evaluation's row,
    # and is read when fit has taken back the rows that the resumed run writes again; so what
    # lies between that evaluation and the checkpoint is not counted.
    def __init__(self, metrics: pathlib.Path, name: str):
        self._metrics, self._name = metrics, name
        self._start = time.perf_counter()
        self._before: float | None = None

    def rows(self) -> list[dict[str, Any]]:
        return training.read_metrics(self._metrics, self._name)

    def stored(self) -> float:
        return next((row["seconds"] for row in reversed(self.rows()) if "seconds" in row), 0.0)

    def now(self) -> float:
        return time.perf_counter() - self._start

    def timed(self, evaluate: Evaluate) -> Evaluate:
        def call(state: training.TrainState) -> dict[str, Any]:
            jax.block_until_ready(state)
            if self._before is None:
                self._before = self.stored()
            seconds = self.now()
            scores = jax.block_until_ready(evaluate(state))
            self._start += self.now() - seconds
            return scores | {"seconds": self._before + seconds}

        return call


def train_run(
    workdir: pathlib.Path,
    name: str,
    step: training.StepFn,
    state: training.TrainState,
    batches: training.Batches,
    mesh: Mesh,
    train: ConfigDict,
    evaluate: Evaluate | None = None,
    place: Callable[[Any, Mesh], Any] = training.global_batch,
) -> TrainRun:
    """Trains one model, or goes on with it, with metrics and checkpoints under its name.

    Args:
      workdir: the run directory; checkpoints lie in ``checkpoints/<name>``.
      name: of this run in the directory, such as ``"tpa-seed0"``.
      step: from :func:`~neurips25.training.make_train_step`.
      state: the initial state; donated.
      batches: input with a position, from ``iter(...)`` of one of the batch classes.
      mesh: mesh of state and batches.
      train: a config with ``steps``, ``checkpoint_every``, ``log_every`` and ``eval_every``.
      evaluate: ``state -> scalars``; each of its rows also gets ``seconds``, the training time
        so far.
      place: as of :func:`~neurips25.training.fit`.

    Returns:
      State, time and metric rows.

    Raises:
      NonFiniteError: the run diverged, which is a result too; its rows so far are in
        ``metrics.jsonl``.
      Interrupted: stopped by a signal; the state was checkpointed.
      CheckpointError, InputEndedError: as :func:`~neurips25.training.fit`.
    """
    with (
        contextlib.closing(training.MetricWriter(workdir, name)) as writer,
        contextlib.closing(
            training.Checkpointer(workdir / "checkpoints" / name, keep=2)
        ) as checkpoints,
    ):
        clock = _Clock(writer.path, name)
        state = training.fit(
            step,
            state,
            batches,
            num_steps=train.steps,
            mesh=mesh,
            checkpoints=checkpoints,
            checkpoint_every=train.checkpoint_every,
            writer=writer,
            log_every=train.log_every,
            evaluate=None if evaluate is None else clock.timed(evaluate),
            eval_every=train.eval_every,
            place=place,
            description=name,
        )
        seconds = clock.now() if evaluate is None else clock.stored()
    return TrainRun(state, seconds, clock.rows())


def restore(workdir: pathlib.Path, name: str, like: training.TrainState) -> training.TrainState:
    """The state of a finished or interrupted run, from its newest whole checkpoint.

    Args:
      workdir: the run directory.
      name: of the run.
      like: from :func:`~neurips25.training.abstract_state`.

    Returns:
      The state, placed as ``like`` says.

    Raises:
      ValueError: the run directory holds no checkpoint of this run.
      CheckpointError: there are checkpoints, but none that can be read into ``like``.
    """
    directory = workdir / "checkpoints" / name
    found = None
    if directory.is_dir():
        with contextlib.closing(training.Checkpointer(directory)) as checkpoints:
            found = checkpoints.restore_latest(like)
    if found is None:
        raise ValueError(f"{directory}: no such checkpoint; run --config.task=train first")
    return found.state


def result_file(workdir: pathlib.Path, name: str) -> pathlib.Path:
    """Where :func:`stored` keeps a result of a run directory."""
    return workdir / "results" / f"{name}.json"


def stored(file: pathlib.Path, make: Callable[[], Any]) -> Any:
    """A result that is made once per run directory.

    The file carries the date and the versions of the measurement beside the result, see
    :func:`provenance`.

    Args:
      file: JSON file; its folder is made.
      make: called where the file is not there; its result must be JSON-able. NaN and infinity
        may stand in it.

    Returns:
      The result as JSON gives it back (tuples are lists).
    """
    if file.exists():
        content = json.loads(file.read_text(encoding="utf-8"))
        return content["result"] if _has_provenance(content) else content
    text = json.dumps(
        {
            "result": make(),
            "date": datetime.date.today().isoformat(),
            "versions": current_versions(),
        }
    )
    if jax.process_index() == 0:
        replace_text(file, text + "\n")
    return json.loads(text)["result"]


class Provenance(NamedTuple):
    """When and with what a result was measured, named as in ``ClaimRecord``."""

    date: str
    versions: dict[str, str]


def provenance(files: Iterable[pathlib.Path]) -> Provenance:
    """When and with what the results of :func:`stored` were measured.

    Args:
      files: result files, at least one.

    Returns:
      The latest date, and every version that one of the files names, those that differ
      separated by commas. A file that says neither has the date of its last change.
    """
    dates, versions = [], []
    for file in files:
        content = json.loads(file.read_text(encoding="utf-8"))
        if _has_provenance(content):
            dates.append(content["date"])
            versions.append(content["versions"])
        else:
            dates.append(datetime.date.fromtimestamp(file.stat().st_mtime).isoformat())
            versions.append({"python": "not recorded", "jax": "not recorded"})
    names = dict.fromkeys(name for v in versions for name in v)
    values = {n: ", ".join(dict.fromkeys(v[n] for v in versions if n in v)) for n in names}
    return Provenance(max(dates), values)


def _has_provenance(content: Any) -> bool:
    return isinstance(content, dict) and content.keys() == {"result", "date", "versions"}


def run_task(
    config: ConfigDict, tasks: Mapping[str, Callable[[], list[ClaimRecord] | None]]
) -> list[ClaimRecord]:
    """Does what ``config.task`` says.

    Args:
      config: the experiment's config.
      tasks: name -> what to do.

    Returns:
      The claim records of the task, empty where it makes none.

    Raises:
      ValueError: no such task; the message lists them and names the nearest.
    """
    if config.task not in tasks:
        near = difflib.get_close_matches(str(config.task), tasks, n=1, cutoff=0.0)[0]
        raise ValueError(
            f"config.task={config.task!r} is not one of {', '.join(tasks)}; did you mean {near!r}?"
        )
    return tasks[config.task]() or []
