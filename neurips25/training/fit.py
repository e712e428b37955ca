"""The loop around the training step: input, metrics, evaluation, checkpoints, signals."""

import contextlib
import copy
import queue
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import jax
import rich.console
import rich.progress
from jax.experimental import multihost_utils
from jax.sharding import Mesh

from neurips25.training.checkpoint import Checkpointer, abstract_like
from neurips25.training.mesh import global_batch
from neurips25.training.metrics import MetricWriter
from neurips25.training.state import TrainState
from neurips25.training.step import StepFn


class Batches(Protocol):
    """Input that can say and take back its position, as grain's iterators do."""

    def __next__(self) -> Any: ...

    def get_state(self) -> Any: ...

    def set_state(self, state: Any) -> None: ...


class Interrupted(Exception):
    """SIGTERM or SIGINT arrived; the state has been checkpointed."""

    def __init__(self, signal_name: str, step: int):
        super().__init__(f"stopped by {signal_name} after step {step}")
        self.signal_name = signal_name
        self.step = step


class InputEndedError(RuntimeError):
    """The input ended before the last step."""


class NonFiniteError(RuntimeError):
    """Too many steps in a row had a loss or gradient that was not finite."""


@contextlib.contextmanager
def _caught_signals() -> Iterator[list[str]]:
    # The first signal asks the loop to stop after the step under way; a second SIGINT acts
    # at once. Handlers can be set only in the main thread: elsewhere the loop runs without.
    # With several processes jax's own preemption service catches SIGTERM, see _stop_reason.
    caught: list[str] = []
    if threading.current_thread() is not threading.main_thread() or jax.process_count() > 1:
        yield caught
        return

    def handle(number: int, frame: Any) -> None:
        if caught and number == signal.SIGINT:
            raise KeyboardInterrupt
        caught.append(signal.Signals(number).name)

    old = {s: signal.signal(s, handle) for s in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield caught
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)


def _stop_reason(caught: list[str], step: int) -> str | None:
    # All processes must stop after the same step, or they wait for each other forever.
    if jax.process_count() > 1:
        return "SIGTERM" if multihost_utils.reached_preemption_sync_point(step) else None
    return caught[0] if caught else None


@contextlib.contextmanager
def _prefetched(
    batches: Batches, mesh: Mesh, place: Callable[[Any, Mesh], Any], depth: int = 2
) -> Iterator[Iterator[tuple]]:
    # Yields (batch on the mesh, input state after that batch). The thread runs ahead of the
    # training step, so the position to save is the one that travels with the batch.
    ready: queue.Queue = queue.Queue(maxsize=depth)
    stop = threading.Event()

    def work() -> None:
        item: tuple
        while not stop.is_set():
            try:
                rows = next(batches)
                item = (place(rows, mesh), copy.deepcopy(batches.get_state()))
            except BaseException as error:
                item = (None, error)
            while not stop.is_set():
                with contextlib.suppress(queue.Full):
                    ready.put(item, timeout=0.1)
                    break
            if isinstance(item[1], BaseException):
                return

    def take() -> Iterator[tuple]:
        while True:
            batch, after = ready.get()
            if isinstance(after, StopIteration):
                raise InputEndedError("the input ended before the last step") from after
            if isinstance(after, BaseException):
                raise after
            yield batch, after

    thread = threading.Thread(target=work, name="input", daemon=True)
    thread.start()
    try:
        yield take()
    finally:
        stop.set()
        thread.join()


def _progress(show: bool | None) -> rich.progress.Progress:
    if show is None:
        show = sys.stderr.isatty() and jax.process_index() == 0
    return rich.progress.Progress(
        rich.progress.TextColumn("{task.description}"),
        rich.progress.BarColumn(),
        rich.progress.MofNCompleteColumn(),
        rich.progress.TextColumn("{task.fields[rate]} step/s  loss {task.fields[loss]}"),
        rich.progress.TimeRemainingColumn(),
        console=rich.console.Console(stderr=True),
        disable=not show,
    )


def fit(
    train_step: StepFn,
    state: TrainState,
    batches: Batches,
    *,
    num_steps: int,
    mesh: Mesh,
    checkpoints: Checkpointer | None = None,
    checkpoint_every: int = 0,
    writer: MetricWriter | None = None,
    log_every: int = 10,
    evaluate: Callable[[TrainState], dict[str, Any]] | None = None,
    eval_every: int = 0,
    max_skipped_in_row: int = 10,
    place: Callable[[Any, Mesh], Any] = global_batch,
    description: str = "train",
    show_progress: bool | None = None,
) -> TrainState:
    """Trains to ``num_steps``, going on from the newest whole checkpoint if there is one.

    Input position, state and metrics continue exactly: a run that is killed and started
    again ends with the same parameters, bit for bit on the same machine.

    Args:
      train_step: from :func:`~neurips25.training.step.make_train_step`, or another function
        that keeps the contract of :data:`~neurips25.training.step.StepFn`.
      state: the initial state; donated.
      batches: input, each item a pytree of numpy arrays ``[local_batch, ...]`` (this
        process' rows), or what ``place`` takes.
      num_steps: last step, counted from 0 and not from the checkpoint.
      mesh: mesh of state and batches.
      checkpoints: where to resume from and save to; None for neither.
      checkpoint_every: steps between checkpoints, 0 for one at the end only.
      writer: where metrics go.
      log_every: steps between lines of training metrics.
      evaluate: ``state -> scalars``, called every ``eval_every`` steps and after the last.
      eval_every: steps between evaluations, 0 for one at the end only.
      max_skipped_in_row: steps in a row that may be skipped as not finite.
      place: ``(item, mesh) -> batch on the mesh``, called in a thread ahead of the step. The
        default splits rows over the mesh. For input that has no rows of its own, such as one
        large graph, give another function; one that returns arrays already on the mesh sends
        nothing.
      description: label of the progress bar.
      show_progress: None shows the bar on a terminal only.

    Returns:
      The state after ``num_steps``.

    Raises:
      Interrupted: SIGTERM or SIGINT; the state was checkpointed before.
      NonFiniteError: more than ``max_skipped_in_row`` steps in a row were skipped. No periodic
        checkpoint is written while steps are being skipped.
      InputEndedError: the input ended early.
      CheckpointError: a checkpoint could not be written or read.
    """
    input_state = batches.get_state()
    if checkpoints is not None and checkpoints.steps():
        like = abstract_like(state)
        # Freed before the checkpoint is read: a large state fits once, not twice.
        jax.tree.map(lambda x: x.delete(), state)
        found = checkpoints.restore_latest(like)
        assert found is not None
        state, input_state = found.state, found.input_state
        batches.set_state(input_state)
        checkpoints.set_aside_after(found.step)
    step = int(state.step)
    if writer is not None:
        writer.rewind(step)
    saved = step if checkpoints is not None and step in checkpoints.steps() else None

    def save() -> None:
        nonlocal saved
        if checkpoints is not None and saved != step:
            checkpoints.save(state, input_state)
            saved = step

    def due(every: int) -> bool:
        return step == num_steps or (every > 0 and step % every == 0)

    with (
        _caught_signals() as signals,
        _prefetched(batches, mesh, place) as ready,
        _progress(show_progress) as bar,
    ):
        task = bar.add_task(description, total=num_steps, completed=step, rate="-", loss="-")
        previous = None
        while step < num_steps:
            batch, input_state = next(ready)
            state, metrics = train_step(state, batch)
            step += 1
            # Looking one step back keeps the device busy while the host checks.
            checked = metrics if step == num_steps else previous
            if checked is not None and int(checked["skipped_in_row"]) > max_skipped_in_row:
                raise NonFiniteError(
                    f"loss or gradient was not finite in {int(checked['skipped_in_row'])} steps "
                    f"in a row up to step {step}; last good checkpoint: "
                    f"{'none' if saved is None else f'step {saved}'}"
                )
            previous = metrics
            if writer is not None and due(log_every):
                writer.write(step, metrics)
            if due(log_every):
                speed = bar.tasks[0].speed
                bar.update(
                    task,
                    loss=f"{float(metrics['loss']):.4f}",
                    rate="-" if speed is None else f"{speed:.1f}",
                )
            bar.update(task, completed=step)
            if evaluate is not None and due(eval_every):
                scores = evaluate(state)
                if writer is not None:
                    writer.write(step, scores)
            if step == num_steps or (due(checkpoint_every) and int(metrics["skipped_in_row"]) == 0):
                save()
            if (reason := _stop_reason(signals, step)) is not None:
                save()
                if checkpoints is not None:
                    checkpoints.wait()
                raise Interrupted(reason, step)
    if checkpoints is not None:
        checkpoints.wait()
    return state
