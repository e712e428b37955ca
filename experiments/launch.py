"""Runs an experiment from its config.

    python -m experiments.launch --config=configs/t6.py:cpu --workdir=DIR \\
        [--config.model.n_layer=6 ...] [--mesh=data:4,fsdp:2] [--dry_run]

The same WORKDIR again resumes. On many hosts, start the command once per host with
``--coordinator=HOST:PORT --num_processes=N --process_id=I`` (on TPU ``--distributed`` alone).
From Python or a notebook: ``experiments.t6.run(configs.t6.get_config("cpu"), workdir)``.
"""

import difflib
import importlib
import logging
import math
import os
import pathlib
import re
import runpy
import sys
from collections.abc import Sequence
from types import ModuleType

import jax
from absl import app, flags
from absl import logging as absl_logging
from ml_collections import ConfigDict, config_flags

from experiments.workdir import WorkdirError
from neurips25.training import (
    CheckpointError,
    InputEndedError,
    Interrupted,
    NonFiniteError,
    count_flops,
    make_mesh,
    parse_mesh,
)

try:
    _CONFIG = config_flags.DEFINE_config_file("config", help_string="configs/METHOD.py:PRESET")
except flags.Error as flag_error:  # defining it reads flag files already
    print(f"error: {flag_error}", file=sys.stderr)
    sys.exit(2)
_WORKDIR = flags.DEFINE_string("workdir", None, "Run directory; an existing one resumes.")
_MESH = flags.DEFINE_string(
    "mesh", "", "Devices per axis, such as data:4,fsdp:2,tensor:1. Empty: all on data."
)
_DRY_RUN = flags.DEFINE_bool(
    "dry_run", False, "Compile the training step without allocating it; print its size."
)
_DISTRIBUTED = flags.DEFINE_bool("distributed", False, "Join processes found by jax itself.")
_COORDINATOR = flags.DEFINE_string("coordinator", None, "host:port of process 0.")
_NUM_PROCESSES = flags.DEFINE_integer("num_processes", None, "Processes in all.")
_PROCESS_ID = flags.DEFINE_integer("process_id", None, "Which of them this is.")

_TRACEBACK = flags.DEFINE_bool("traceback", False, "Show where an error arose.")

_USER_ERRORS = (
    WorkdirError, CheckpointError, NonFiniteError, InputEndedError,
    ImportError, OSError, ValueError,
)  # fmt: skip

# Compiled programs are kept, as the Makefile keeps them; the variables of jax decide otherwise.
_CACHE = {
    "jax_compilation_cache_dir": str(
        pathlib.Path(__file__).resolve().parents[1] / ".cache" / "jax"
    ),
    "jax_persistent_cache_min_compile_time_secs": 0.2,
}


def _fail(message: str) -> None:
    print(f"error: {message}", file=sys.stderr)
    sys.exit(2)


def _field_error(argv: Sequence[str], error: Exception) -> str:
    text = str(error.args[0] if error.args else error).strip("'\"").replace("\\n", "; ")
    text = text.replace("\\'", "'")
    bad = re.search(r"--config\.([\w.]+)=(.*?): ", text)
    source = next((a.split("=", 1)[1] for a in argv if a.startswith("--config=")), "")
    if "Traceback" in text:  # raised by the config file itself: its last line says why
        return f"{source}: {text.strip().splitlines()[-1]}"
    path, _, preset = source.partition(":")
    if isinstance(error, AttributeError | KeyError) and pathlib.Path(path).is_file():
        config = runpy.run_path(path)["get_config"](*([preset] if preset else []))
        for arg in argv:
            if arg.startswith("--config.") and (unknown := _unknown_field(arg, config)):
                return unknown
    if isinstance(error, OSError) or bad is None:
        return " ".join(text.split())
    field = runpy.run_path(path)["get_config"](*([preset] if preset else []))
    for name in bad[1].split("."):
        field = field[name]
    return (
        f"--config.{bad[1]} is {type(field).__name__} (default {field!r}), "
        f"{bad[2]!r} is {type(_literal(bad[2])).__name__}"
    )


def _unknown_field(arg: str, config: ConfigDict) -> str | None:
    """What is wrong with ``--config.a.b=value``, if the config has no such field."""
    flag = arg.partition("=")[0]
    field = config
    for name in flag.removeprefix("--config.").split("."):
        if not isinstance(field, ConfigDict) or name not in field:
            names = list(field) if isinstance(field, ConfigDict) else []
            near = difflib.get_close_matches(name, names, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            return f"{flag}: no field {name!r}{hint} The fields are {', '.join(names) or 'none'}"
        field = field[name]
    return None


def _literal(text: str) -> object:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def parse_flags(argv: Sequence[str]) -> list[str]:
    """Parses the command line for ``absl.app.run``, with errors that a user can act on.

    Flag files are read in place, and ``--config=FILE`` may stand after its overrides.

    Args:
      argv: program name and arguments.

    Returns:
      The positional arguments. Exits with status 2 on any error.
    """
    args = list(argv[1:])
    try:
        args = flags.FLAGS.read_flags_from_files(list(argv[1:]), force_gnu=True)
        joined: list[str] = []
        for arg in args:  # "--config FILE" -> "--config=FILE"
            if joined and joined[-1] == "--config":
                joined[-1] = f"--config={arg}"
            else:
                joined.append(arg)
        args = sorted(joined, key=lambda a: not a.startswith("--config="))
        sys.argv = [argv[0], *args]  # where config_flags looks for overrides
        rest = flags.FLAGS(sys.argv)
        if _CONFIG.value is not None:
            _CONFIG.value.lock()  # a file that failed to load reports it only when used
        return rest
    except (flags.Error, AttributeError, KeyError, TypeError, ValueError, OSError) as error:
        _fail(_field_error(args, error))
        raise AssertionError from error


def _join_processes() -> None:
    if _COORDINATOR.value:
        jax.distributed.initialize(_COORDINATOR.value, _NUM_PROCESSES.value, _PROCESS_ID.value)
    elif _DISTRIBUTED.value:
        jax.distributed.initialize()


def _keep_compiled() -> None:
    for option, value in _CACHE.items():
        if option.upper() not in os.environ:
            jax.config.update(option, value)


def _experiment(config: object) -> ModuleType:
    name = getattr(config, "experiment", None)
    if not isinstance(name, str):
        raise ValueError("the config has no field `experiment`, which names a module")
    experiment = importlib.import_module(f"experiments.{name}")
    if not hasattr(experiment, "run"):
        raise ValueError(f"config.experiment={name!r}: experiments.{name} has no function `run`")
    return experiment


def _dry_run(experiment: ModuleType) -> None:
    if not hasattr(experiment, "abstract_step"):
        raise ValueError(
            f"--dry_run: {experiment.__name__} has no training step to compile (`abstract_step`)"
        )
    mesh = make_mesh(parse_mesh(_MESH.value))
    step, state, batch = experiment.abstract_step(_CONFIG.value, mesh)
    parameters = sum(math.prod(p.shape) for p in jax.tree.leaves(state.params))
    flops = count_flops(step, state, batch)
    memory = step.lower(state, batch).compile().memory_analysis()
    print(f"mesh                  {dict(mesh.shape)} of {jax.devices()[0].device_kind}")
    print(f"parameters            {parameters:,}")
    print(f"FLOPs per step        {flops:.4g}  ({flops / mesh.size:.4g} per device)")
    for label, size in (
        ("argument", memory.argument_size_in_bytes),
        ("temporary", memory.temp_size_in_bytes),
        ("output", memory.output_size_in_bytes),
        ("output in place", memory.alias_size_in_bytes),
    ):
        print(f"{label + ' bytes':22}{size:,}  ({size / 2**20:,.1f} MiB) per device")


def main(argv: Sequence[str]) -> None:
    """Runs the experiment that the flags name."""
    if len(argv) > 1:
        _fail(f"unexpected arguments: {' '.join(argv[1:])}")
    if _CONFIG.value is None:
        _fail("--config=configs/METHOD.py:PRESET is required")
    config = _CONFIG.value
    absl_logging.set_verbosity(absl_logging.WARNING)
    logging.getLogger("neurips25").setLevel(logging.INFO)
    try:
        sizes = parse_mesh(_MESH.value)
        if sizes and not (_COORDINATOR.value or _DISTRIBUTED.value):
            # Virtual devices, so that any mesh can be tried on a CPU; other platforms ignore it.
            jax.config.update("jax_num_cpu_devices", math.prod(sizes.values()))
        _keep_compiled()
        _join_processes()
        experiment = _experiment(config)
        if _DRY_RUN.value:
            _dry_run(experiment)
            return
        if _WORKDIR.value is None:
            raise ValueError("--workdir=DIR is required")
        experiment.run(config, _WORKDIR.value, make_mesh(sizes))
    except Interrupted as stop:
        print(f"{stop}; the same command goes on from there", file=sys.stderr)
    except KeyboardInterrupt:
        print("interrupted; the same command goes on from what is finished", file=sys.stderr)
        sys.exit(130)
    except _USER_ERRORS as error:
        if _TRACEBACK.value:
            raise
        _fail(f"{error}\n(--traceback shows where it arose)")


def run_main() -> None:
    """Entry point of ``python -m experiments.launch``."""
    app.run(main, flags_parser=parse_flags)


if __name__ == "__main__":
    run_main()
