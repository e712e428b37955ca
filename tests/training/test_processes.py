"""Kills, several processes, several devices: everything that needs a process of its own."""

import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time

import jax
import numpy as np
import pytest

from neurips25 import training
from tests.training import toy

ROOT = pathlib.Path(__file__).resolve().parents[2]


def start(workdir, *args):
    return subprocess.Popen(
        [sys.executable, "-m", "tests.training.toy", str(workdir), *args],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def finish(process):
    out, err = process.communicate(timeout=240)
    assert process.returncode == 0, err[-3000:]
    return json.loads(out.splitlines()[-1])


def lines(workdir):
    return training.read_metrics(workdir / "metrics.jsonl")


def wait_for_step(process, workdir, step):
    deadline = time.time() + 120
    while time.time() < deadline:
        rows = lines(workdir)
        if rows and rows[-1]["step"] >= step:
            return
        assert process.poll() is None, process.communicate()
        time.sleep(0.005)
    raise AssertionError(f"no step {step} within 120 s")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Fingerprint and metrics of a run that nobody disturbed."""
    workdir = tmp_path_factory.mktemp("whole")
    return finish(start(workdir, "--steps=40")), lines(workdir)


def test_killed_again_and_again_it_ends_bit_for_bit_the_same(whole, tmp_path):
    # A checkpoint at every step: kills land before, while and after one is being written.
    args = ("--steps=40", "--checkpoint_every=1", "--sleep=0.01")
    for step in (2, 17, 33):
        process = start(tmp_path, *args)
        wait_for_step(process, tmp_path, step)
        process.kill()
        process.communicate()
    assert finish(start(tmp_path, *args)) == whole[0]
    assert lines(tmp_path) == whole[1]


def test_sigterm_checkpoints_and_exits_cleanly(whole, tmp_path):
    process = start(tmp_path, "--steps=40", "--checkpoint_every=0", "--sleep=0.05")
    wait_for_step(process, tmp_path, 5)
    process.send_signal(signal.SIGTERM)
    stopped = finish(process)
    assert stopped["signal"] == "SIGTERM"
    assert training.Checkpointer(tmp_path / "checkpoints").steps() == [stopped["stopped"]]
    assert finish(start(tmp_path, "--steps=40")) == whole[0]


def losses(workdir):
    return np.array([r["loss"] for r in lines(workdir)])


def start_pair(workdir, *args):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{s.getsockname()[1]}"
    return [
        start(workdir, f"--coordinator={address}", f"--process={i}", "--mesh=data:2", *args)
        for i in range(2)
    ]


@pytest.fixture(scope="module")
def eight(tmp_path_factory):
    workdir = tmp_path_factory.mktemp("eight")
    finish(start(workdir, "--steps=20", "--mesh=data:2,fsdp:2,tensor:2"))
    return workdir


def test_loss_is_the_same_on_one_device_eight_devices_and_two_processes(whole, eight, tmp_path):
    reference = np.array([r["loss"] for r in whole[1]])[:20]
    np.testing.assert_allclose(losses(eight), reference, rtol=1e-5)
    for process in start_pair(tmp_path, "--steps=20"):
        finish(process)
    np.testing.assert_allclose(losses(tmp_path), reference, rtol=1e-5)


def test_checkpoints_move_between_meshes(whole, eight, tmp_path):
    mesh = training.make_mesh({"data": 1}, jax.devices()[:1])
    state, _ = toy.make(mesh)
    found = training.Checkpointer(eight / "checkpoints").restore_latest(state)
    assert found.step == 20

    # Two processes write, eight devices go on, one device finishes.
    for process in start_pair(tmp_path, "--steps=20"):
        finish(process)
    assert training.checkpoint_tree(tmp_path / "checkpoints")["params/dense/w"].shape == (4, 8)
    finish(start(tmp_path, "--steps=30", "--mesh=data:2,fsdp:2,tensor:2"))
    finish(start(tmp_path, "--steps=40", "--mesh=data:1"))
    reference = np.array([r["loss"] for r in whole[1]])
    np.testing.assert_allclose(losses(tmp_path), reference, rtol=1e-5)


def test_sigterm_stops_both_processes_after_the_same_step(tmp_path):
    pair = start_pair(tmp_path, "--steps=400", "--checkpoint_every=0", "--sleep=0.05")
    wait_for_step(pair[0], tmp_path, 5)
    pair[1].send_signal(signal.SIGTERM)
    first, second = (finish(p) for p in pair)
    assert first == second
    assert first["signal"] == "SIGTERM"
    assert training.Checkpointer(tmp_path / "checkpoints").steps() == [first["stopped"]]


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small file system needs root")
def test_full_disk_names_the_step_and_keeps_the_last_checkpoint(tmp_path):
    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", small], capture_output=True, text=True
    )
    if mounted.returncode:
        pytest.skip(f"cannot mount a tmpfs here: {mounted.stderr.strip()}")
    try:
        finish(start(small, "--steps=3", "--checkpoint_every=0"))
        filler = small / "filler"
        free = os.statvfs(small)
        filler.write_bytes(b"x" * (free.f_bavail * free.f_frsize - 8192))
        process = start(small, "--steps=2000", "--checkpoint_every=5")
        _, err = process.communicate(timeout=120)
        assert process.returncode != 0
        assert "No space left" in err or "space" in err.lower()
        filler.unlink()
        assert training.Checkpointer(small / "checkpoints").steps()[0] >= 3
        finish(start(small, "--steps=30", "--checkpoint_every=0"))
    finally:
        subprocess.run(["umount", small], check=True)
