"""Run directories: one config per directory, written before anything else."""

import difflib
import json
import os
import pathlib
import platform

import jax
from ml_collections import ConfigDict

from neurips25.training import replace_text


class WorkdirError(RuntimeError):
    """A run directory cannot be used; the message says which one and why."""


def prepare_workdir(workdir: str | os.PathLike[str], config: ConfigDict) -> pathlib.Path:
    """Creates a run directory, or checks that an existing one is of the same config.

    Args:
      workdir: the directory.
      config: the whole config of the run; stored as ``config.json``.

    Returns:
      The directory as an absolute path.

    Raises:
      WorkdirError: it cannot be created or written, or holds a run of another config (the
        message shows the fields that differ).
    """
    path = pathlib.Path(workdir).absolute()
    text = json.dumps(json.loads(config.to_json_best_effort()), indent=2, sort_keys=True) + "\n"
    file = path / "config.json"
    try:
        path.mkdir(parents=True, exist_ok=True)
        if file.exists():
            old = file.read_text(encoding="utf-8")
            if old != text:
                diff = difflib.unified_diff(
                    old.splitlines(), text.splitlines(), "there", "asked for", lineterm="", n=0
                )
                lines = [d for d in diff if not d.startswith("@@")]
                raise WorkdirError(
                    f"{path} holds a run of another config; use another --workdir, or delete "
                    "this one. The difference:\n" + "\n".join(lines)
                )
        if not os.access(path, os.W_OK | os.X_OK):
            raise PermissionError(f"no write permission for {path}")
        if jax.process_index() == 0 and not file.exists():
            replace_text(file, text)
    except OSError as error:
        raise WorkdirError(f"cannot use run directory {path}: {error}") from error
    return path


def machine() -> str:
    """The machine in a few words, for reports: platform, cores, device kind."""
    return (
        f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, "
        f"{jax.device_count()} x {jax.devices()[0].device_kind}"
    )
