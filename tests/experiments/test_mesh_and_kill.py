"""The T6 experiment on one device, on eight, in two processes, and after kill -9."""

import pathlib
import socket
import subprocess
import sys
import time

import numpy as np
import pytest

from neurips25.training import checkpoint_tree, read_metrics

ROOT = pathlib.Path(__file__).resolve().parents[2]
STEPS = 24
ARGS = (
    "--config=configs/t6.py:smoke",
    "--config.kinds=('tpa',)",
    "--config.seeds=(0,)",
    f"--config.train.steps={STEPS}",
    "--config.train.log_every=1",
    "--config.train.checkpoint_every=4",
    "--config.decode.lengths=(64,)",
)


def start(workdir, *args):
    command = [sys.executable, "-m", "experiments.launch", *ARGS, f"--workdir={workdir}", *args]
    return subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def finish(process):
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err[-3000:]
    return out


def losses(workdir):
    rows = read_metrics(workdir / "metrics.jsonl")
    return np.array([r["loss"] for r in rows if "loss" in r])


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    workdir = tmp_path_factory.mktemp("one")
    finish(start(workdir, "--mesh=data:1"))
    assert len(losses(workdir)) == STEPS
    return workdir


def test_eight_devices_give_the_same_loss_curve(whole, tmp_path):
    out = finish(start(tmp_path, "--mesh=data:2,fsdp:2,tensor:2"))
    np.testing.assert_allclose(losses(tmp_path), losses(whole), rtol=1e-5)
    assert "report.html" in out


def test_two_processes_give_the_same_loss_curve_and_one_process_the_report(whole, tmp_path):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{s.getsockname()[1]}"
    pair = [
        start(tmp_path, f"--coordinator={address}", "--num_processes=2", f"--process_id={i}")
        for i in range(2)
    ]
    outs = [finish(p) for p in pair]
    assert "the same command in one process writes the report" in outs[0]
    np.testing.assert_allclose(losses(tmp_path), losses(whole), rtol=1e-5)
    finish(start(tmp_path, "--mesh=data:1"))
    assert (tmp_path / "report.html").exists()


def test_kill_in_the_middle_changes_nothing(whole, tmp_path):
    process = start(tmp_path, "--mesh=data:1")
    deadline = time.time() + 200
    while time.time() < deadline and len(losses(tmp_path)) < STEPS // 2:
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    process.kill()
    process.communicate()
    assert not (tmp_path / "results" / "tpa-seed0.json").exists()  # it hit the training
    finish(start(tmp_path, "--mesh=data:1"))
    np.testing.assert_array_equal(losses(tmp_path), losses(whole))
    name = "results/tpa-seed0.json"
    one, two = ((w / name).read_text().split('"seconds"')[0] for w in (whole, tmp_path))
    assert one == two
    tree = checkpoint_tree(tmp_path / "checkpoints" / "tpa-seed0")
    assert tree["params/block_0/attn/wa_q"].shape == (32, 2, 6)


def test_xl_model_is_sized_without_being_allocated():
    result = subprocess.run(
        [sys.executable, "-m", "experiments.launch", "--config=configs/t6.py:paper_xl",
         "--dry_run", "--mesh=data:2,fsdp:2,tensor:2"],
        cwd=ROOT, capture_output=True, text=True, timeout=500,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr[-3000:]
    assert "parameters            1,555,814,400" in result.stdout
    # 12 bytes per parameter (weights and two moments) over the four fsdp x tensor shards.
    line = next(x for x in result.stdout.splitlines() if x.startswith("argument bytes"))
    per_device = int(line.split()[2].replace(",", ""))
    assert 1 < per_device / (12 * 1_555_814_400 / 4) < 1.2
