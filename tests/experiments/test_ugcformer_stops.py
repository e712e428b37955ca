"""The launched UGCFormer experiment after SIGTERM and after kill -9, on samples of a graph."""

import json
import pathlib
import signal
import subprocess
import sys
import time

from neurips25.training import read_metrics

ROOT = pathlib.Path(__file__).resolve().parents[2]
STEPS = 2000
ARGS = (
    "--config=configs/ugcformer.py:smoke",
    "--config.problems=('karate',)",
    "--config.karate.models=('gcn',)",
    "--config.karate.runs=1",
    "--config.karate.train.batch_nodes=4",
    f"--config.karate.train.steps={STEPS}",
    "--config.karate.train.checkpoint_every=100",
    "--mesh=data:1",
)


def start(workdir):
    command = [sys.executable, "-m", "experiments.launch", *ARGS, f"--workdir={workdir}"]
    return subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def last_step(workdir):
    return max((row["step"] for row in read_metrics(workdir / "metrics.jsonl")), default=0)


def stop(workdir, number, after):
    """Starts, and sends the signal once a step is behind."""
    process = start(workdir)
    deadline = time.time() + 200
    while time.time() < deadline and last_step(workdir) < after:
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    process.send_signal(number)
    _, err = process.communicate(timeout=200)
    assert last_step(workdir) < STEPS
    assert not (workdir / "results" / "karate-gcn-run0.json").exists()
    return process.returncode, err


def test_stops_change_nothing(tmp_path):
    code, err = stop(tmp_path / "parts", signal.SIGTERM, STEPS // 10)
    assert code == 0
    assert "the same command goes on from there" in err
    code, _ = stop(tmp_path / "parts", signal.SIGKILL, STEPS // 2)
    assert code == -signal.SIGKILL
    for name in ("parts", "whole"):
        process = start(tmp_path / name)
        _, err = process.communicate(timeout=300)
        assert process.returncode == 0, err[-3000:]
    ends = []
    for name in ("parts", "whole"):
        file = tmp_path / name / "results" / "karate-gcn-run0.json"
        result = json.loads(file.read_text())["result"]
        predictions = tmp_path / name / "predictions" / "karate-gcn-run0.csv"
        ends.append({**result, "seconds": 0, "predictions": predictions.read_text()})
        assert (tmp_path / name / "report.html").exists()
    assert len(ends[0]["curve"]["step"]) == STEPS // 2
    assert str(ends[0]) == str(ends[1])  # NaN is NaN
