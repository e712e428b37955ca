"""What the claim records of a run have in common: their setting, and their file."""

import dataclasses
import pathlib
from collections.abc import Callable, Sequence

from ml_collections import ConfigDict

from experiments.workdir import overrides
from neurips25.evidence import ClaimRecord, read_records, write_records


@dataclasses.dataclass(frozen=True)
class ClaimContext:
    """How a run was started.

    Attributes:
      command: the command that repeats it.
      setting_name: the preset, and the flags that change it.
      changed: these flags, as ``"--config.model.n_layer=6"``.
    """

    command: str
    setting_name: str
    changed: tuple[str, ...]

    def unchanged_except(self, *fields: str) -> bool:
        """Whether the run is its preset but for these fields, such as ``"data.path"``."""
        return all(
            flag.strip("'").startswith(tuple(f"--config.{field}=" for field in fields))
            for flag in self.changed
        )


def claim_context(
    config: ConfigDict, get_config: Callable[[str], ConfigDict], free: Sequence[str] = ("task",)
) -> ClaimContext:
    """Command and setting of a run, by what its config changes in its preset.

    Args:
      config: the run's config, with ``experiment`` and ``preset``.
      get_config: preset -> config, from ``configs/<experiment>.py``.
      free: top-level fields that say what to do with a run directory, not what the run is.

    Returns:
      The context.
    """
    changed = overrides(config, get_config(config.preset), free)
    preset = f"configs/{config.experiment}.py:{config.preset}"
    command = ["python -m experiments.launch", f"--config={preset}", "--workdir=DIR", *changed]
    return ClaimContext(" ".join(command), " ".join([preset, *changed]), tuple(changed))


def add_records(path: pathlib.Path, records: Sequence[ClaimRecord]) -> None:
    """Writes records beside those that another task of the run has written.

    Args:
      path: ``records.json`` of a run directory.
      records: take the place of those with the same claim ids.
    """
    new = {record.claim_id for record in records}
    there = read_records(path) if path.exists() else []
    write_records(path, [*(r for r in there if r.claim_id not in new), *records])
