"""Run directories: one config per directory, stored before anything else."""

import json
import os
import pathlib
import shlex
from collections.abc import Sequence
from typing import Any

import jax
from ml_collections import ConfigDict

from neurips25.data import replace_text

# A start that failed early leaves an empty checkpoint directory at most.
_WORK = ("checkpoints/*/*", "data/*", "results/*")


class WorkdirError(RuntimeError):
    """A run directory cannot be used; the message says which one and why."""


def has_begun(workdir: pathlib.Path) -> bool:
    """Whether a run directory holds checkpoints, generated data or results of its config."""
    return any(path.exists() for pattern in _WORK for path in workdir.glob(pattern))


def prepare_workdir(
    workdir: str | os.PathLike[str], config: ConfigDict, free_fields: Sequence[str] = ()
) -> pathlib.Path:
    """Creates a run directory, or checks that an existing one is of the same config.

    As long as no work was done in it (see :func:`has_begun`) another config takes its place.

    Args:
      workdir: the directory.
      config: the whole config of the run; stored as ``config.json``.
      free_fields: top-level fields that may change between starts in one directory, such as
        which task to do with the run.

    Returns:
      The directory as an absolute path.

    Raises:
      WorkdirError: it cannot be created or written, or holds a run of another config (the
        message shows the fields that differ).
    """
    path = pathlib.Path(workdir).absolute()
    fields = json.loads(config.to_json_best_effort())
    text = json.dumps(fields, indent=2, sort_keys=True) + "\n"
    file = path / "config.json"
    same = False
    try:
        path.mkdir(parents=True, exist_ok=True)
        if file.exists():
            there = json.loads(file.read_text(encoding="utf-8"))
            for name in free_fields:
                there[name] = fields.get(name)
            different = _differences(there, fields)
            if different and has_begun(path):
                raise WorkdirError(
                    f"{path} holds a run of another config; use another --workdir, or delete "
                    "this one. The difference:\n  " + "\n  ".join(different)
                )
            same = not different
        if not os.access(path, os.W_OK | os.X_OK):
            raise PermissionError(f"no write permission for {path}")
        if jax.process_index() == 0 and not same:
            replace_text(file, text)
    except json.JSONDecodeError as error:
        raise WorkdirError(f"{file} is damaged ({error}); restore it or delete it") from error
    except OSError as error:
        raise WorkdirError(f"cannot use run directory {path}: {error}") from error
    return path


def _differences(there: Any, asked: Any, name: str = "config") -> list[str]:
    if isinstance(there, dict) and isinstance(asked, dict):
        return [
            line
            for key in sorted({*there, *asked})
            for line in _differences(there.get(key), asked.get(key), f"{name}.{key}")
        ]
    return [] if there == asked else [f"{name}: {there!r} there, {asked!r} asked for"]


def overrides(config: ConfigDict, default: ConfigDict, leave: Sequence[str] = ()) -> list[str]:
    """The flags that turn a preset into this config.

    Args:
      config: the config of a run.
      default: the preset it started from.
      leave: top-level fields to leave out.

    Returns:
      ``["--config.model.n_layer=6", ...]``, quoted for a shell.
    """

    def walk(one: Any, two: Any, name: str) -> list[str]:
        if isinstance(one, ConfigDict):
            old = two if isinstance(two, ConfigDict) else {}
            return [f for k in one for f in walk(one[k], old.get(k), f"{name}.{k}")]
        return [] if one == two else [shlex.quote(f"{name}={one}")]

    return [f for k in config if k not in leave for f in walk(config[k], default.get(k),
                                                             f"--config.{k}")]  # fmt: skip
