"""What every claim record of a run says about its setting."""

import dataclasses
from collections.abc import Callable, Sequence

from ml_collections import ConfigDict

from experiments.workdir import overrides


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
