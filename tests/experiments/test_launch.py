"""The launcher as its users meet it: a command line in a process of its own."""

import os
import pathlib
import subprocess
import sys
from types import ModuleType

import pytest
from ml_collections import ConfigDict

from experiments import launch as launcher

ROOT = pathlib.Path(__file__).resolve().parents[2]
SMOKE = "--config=configs/t6.py:smoke"


def launch(*args, env=None):
    return subprocess.run(
        [sys.executable, "-m", "experiments.launch", *map(str, args)],
        cwd=ROOT, capture_output=True, text=True, timeout=300, env=os.environ | (env or {}),
    )  # fmt: skip


def error_of(*args, env=None):
    result = launch(*args, env=env)
    assert result.returncode == 2, result.stderr[-2000:]
    assert "Traceback" not in result.stderr
    return result.stderr


@pytest.mark.parametrize(
    ("args", "parts"),
    [
        ((SMOKE, "--config.model.n_layers=3"), ["n_layers", "n_layer"]),
        ((SMOKE, "--config.modl.n_layer=3"), ["modl", "model"]),
        ((SMOKE, "--config.traning.steps=3"), ["--config.traning", "'traning'", "generate"]),
        (
            (SMOKE, "--config.model.n_layer=abc"),
            ["--config.model.n_layer is int (default 1)", "'abc' is str"],
        ),
        ((SMOKE, "--config.model.n_layer=2.5"), ["is int (default 1)", "'2.5' is float"]),
        (("--config=configs/t6.py:smok",), ["preset 'smok'", "smoke"]),
        (("--config=configs/absent.py",), ["configs/absent.py"]),
        ((SMOKE, "--wrkdir=x"), ["wrkdir", "workdir"]),
        ((SMOKE,), ["--workdir=DIR is required"]),
        ((SMOKE, "--workdir=x", "stray"), ["unexpected arguments: stray"]),
        ((SMOKE, "--workdir=x", "--mesh=dta:2"), ["unknown axis 'dta'"]),
    ],
)
def test_mistakes_are_explained(args, parts, tmp_path):
    text = error_of(*args)
    for part in parts:
        assert part in text, text


def test_errors_of_an_experiment_are_explained(tmp_path):
    latin = tmp_path / "latin.txt"
    latin.write_bytes(b"caf\xe9 " * 500)
    text = error_of(SMOKE, f"--workdir={tmp_path / 'run'}", f"--config.data.path={latin}")
    assert "latin.txt" in text
    assert "offset 3" in text


def test_packages_that_are_not_there_are_named(tmp_path):
    (tmp_path / "tiktoken.py").write_text("raise ModuleNotFoundError('tiktoken')")
    text = error_of(
        SMOKE, f"--workdir={tmp_path / 'run'}", "--config.data.tokenizer=tiktoken:gpt2",
        env={"PYTHONPATH": str(tmp_path)},
    )  # fmt: skip
    assert "pip install 'neurips25[tokenizers]'" in text


@pytest.mark.parametrize(
    ("config", "error", "message"),
    [
        ({}, ValueError, "the config has no field `experiment`"),
        ({"experiment": "t7"}, ImportError, r"No module named 'experiments\.t7'"),
        ({"experiment": "tables"}, ValueError, r"experiments\.tables has no function `run`"),
    ],
)
def test_a_config_names_its_experiment(config, error, message):
    assert issubclass(error, launcher._USER_ERRORS)
    with pytest.raises(error, match=message):
        launcher._experiment(ConfigDict(config))


def test_dry_run_needs_a_step():
    with pytest.raises(ValueError, match=r"experiments\.audit has no training step"):
        launcher._dry_run(ModuleType("experiments.audit"))


def test_compiled_programs_are_kept_unless_the_environment_decides(monkeypatch):
    updates = {}
    monkeypatch.setattr(launcher.jax.config, "update", updates.__setitem__)
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", "")
    monkeypatch.setenv("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "3")
    launcher._keep_compiled()
    assert updates == {}
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR")
    launcher._keep_compiled()
    assert updates == {"jax_compilation_cache_dir": str(ROOT / ".cache" / "jax")}
    monkeypatch.delenv("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS")
    launcher._keep_compiled()
    assert updates["jax_persistent_cache_min_compile_time_secs"] == 0.2


def test_flagfile_with_overrides_in_any_order_and_dry_run(tmp_path):
    flagfile = tmp_path / "flags"
    flagfile.write_text(
        "# overrides before the config\n--config.model.n_layer=3\n"
        "--config.model.n_embd=64\n--dry_run\n"
    )
    result = launch(f"--flagfile={flagfile}", "--mesh=data:2,tensor:2", SMOKE)
    assert result.returncode == 0, result.stderr[-2000:]
    assert "'data': 2, 'fsdp': 1, 'tensor': 2" in result.stdout
    for part in ("parameters", "FLOPs per step", "argument bytes", "temporary bytes"):
        assert part in result.stdout
