"""The launcher as its users meet it: a command line in a process of its own."""

import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SMOKE = "--config=configs/t6.py:smoke"


def launch(*args):
    return subprocess.run(
        [sys.executable, "-m", "experiments.launch", *map(str, args)],
        cwd=ROOT, capture_output=True, text=True, timeout=300,
    )  # fmt: skip


def error_of(*args):
    result = launch(*args)
    assert result.returncode == 2, result.stderr[-2000:]
    assert "Traceback" not in result.stderr
    return result.stderr


@pytest.mark.parametrize(
    ("args", "parts"),
    [
        ((SMOKE, "--config.model.n_layers=3"), ["n_layers", "n_layer"]),
        ((SMOKE, "--config.modl.n_layer=3"), ["modl", "model"]),
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


def test_bad_experiments_are_explained_and_leave_nothing(tmp_path):
    empty = tmp_path / "empty.txt"
    empty.write_text("")
    text = error_of(SMOKE, f"--workdir={tmp_path / 'a'}", f"--config.data.path={empty}")
    assert "empty.txt" in text
    latin = tmp_path / "latin.txt"
    latin.write_bytes(b"caf\xe9 " * 500)
    text = error_of(SMOKE, f"--workdir={tmp_path / 'b'}", f"--config.data.path={latin}")
    assert "latin.txt" in text
    assert "offset 3" in text
    short = tmp_path / "short.txt"
    short.write_text("to be or not")
    text = error_of(SMOKE, f"--workdir={tmp_path / 'c'}", f"--config.data.path={short}")
    assert "block_size=32" in text
    text = error_of(SMOKE, f"--workdir={tmp_path / 'd'}", "--config.kinds=('tpa','mhha')")
    assert "unknown attention kind 'mhha'" in text
    assert not (tmp_path / "d" / "checkpoints").exists()


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
