"""Scalar metrics to ``metrics.jsonl`` and TensorBoard, without duplicates after a resume."""

import json
import math
import os
import pathlib
from collections.abc import Mapping
from typing import Any

import jax
import tensorboardX

from neurips25.data import replace_text


class MetricWriter:
    """Writes scalars of one run to ``metrics.jsonl`` and to TensorBoard events.

    Several runs (methods, seeds) may share a directory: each line carries the run's name
    and its events lie in ``tensorboard/<run>``. Process 0 writes, other processes are silent.
    A line reads ``{"run": "tpa-seed0", "step": 10, "loss": 2.31}``; values that are not
    finite are written as null.

    Args:
      workdir: the run directory; created when absent.
      run: name of the run.

    Raises:
      OSError: the directory cannot be written.
    """

    def __init__(self, workdir: str | os.PathLike[str], run: str = "train"):
        self.path = pathlib.Path(workdir) / "metrics.jsonl"
        self.run = run
        self._active = jax.process_index() == 0
        if self._active:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self.path.open("a", encoding="utf-8")
            self._events = tensorboardX.SummaryWriter(
                str(self.path.parent / "tensorboard" / run), flush_secs=30
            )

    def write(self, step: int, scalars: Mapping[str, Any]) -> None:
        """Appends one line; it is in the file when this returns.

        Args:
          step: training step that the values belong to.
          scalars: name -> number (0-d arrays allowed).

        Raises:
          OSError: the disk is full or the file cannot be written.
        """
        if not self._active:
            return
        values = {name: float(value) for name, value in scalars.items()}
        row: dict[str, Any] = {"run": self.run, "step": int(step)}
        row |= {name: v if math.isfinite(v) else None for name, v in values.items()}
        try:
            self._file.write(json.dumps(row) + "\n")
            self._file.flush()
        except OSError as error:  # a bare write error does not say which file
            raise OSError(error.errno, f"{error.strerror} (step {step})", str(self.path)) from error
        # The event file has a thread of its own, which dies of a write error; its queue would
        # then fill up and block for ever.
        if not self._events.file_writer.event_writer._worker.is_alive():
            raise OSError(f"the TensorBoard events beside {self.path} cannot be written")
        for name, value in values.items():
            self._events.add_scalar(name, value, int(step))

    def rewind(self, step: int) -> None:
        """Forgets this run's lines after ``step``: the resumed run writes them again.

        Args:
          step: the step that the run resumes from.
        """
        if not self._active:
            return
        self._file.close()
        rows = [r for r in read_metrics(self.path) if r["run"] != self.run or r["step"] <= step]
        replace_text(self.path, "".join(json.dumps(r) + "\n" for r in rows))
        self._file = self.path.open("a", encoding="utf-8")
        self._events.close()
        self._events = tensorboardX.SummaryWriter(
            str(self.path.parent / "tensorboard" / self.run), purge_step=step + 1, flush_secs=30
        )

    def close(self) -> None:
        """Flushes and closes both files."""
        if self._active:
            self._file.close()
            self._events.close()


def read_metrics(path: str | os.PathLike[str], run: str | None = None) -> list[dict[str, Any]]:
    """Reads ``metrics.jsonl``; a line cut short by a kill is left out.

    Args:
      path: the file; one that does not exist has no lines.
      run: keep only this run's lines.

    Returns:
      One dict per line, in file order.
    """
    path = pathlib.Path(path)
    rows = []
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
        try:
            row = json.loads(line)
        except json.JSONDecodeError:
            continue
        if run is None or row["run"] == run:
            rows.append(row)
    return rows
