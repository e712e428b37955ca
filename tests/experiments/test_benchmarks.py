"""Benchmarks run and compare like with like; their timings are not asserted."""

import os
import subprocess
import sys

import numpy as np
import pytest

from experiments.benchmarks import decode, harness, train_step


def test_decode_rows_have_their_floor_and_ratios(tmp_path):
    rows = decode.measure(repeats=3, lengths=(64, 128), kinds=(*decode.KINDS, "gqa_jaxnn"))
    assert [r["kind"] for r in rows[:6]] == [*decode.KINDS, "gqa_jaxnn"]
    for row in rows:
        assert row["read_gb_s"] > 0
        assert 0 < row["best_ms"] <= row["median_ms"]
        by_bytes = row["cache_mb"] / row["copy_gb_s"]
        by_flops = 1e3 * row["gflop"] / row["matmul_gflop_s"]
        assert row["floor_ms"] == pytest.approx(max(by_bytes, by_flops))
    decode.report([{"threads": 1, **r} for r in rows], tmp_path)
    assert (tmp_path / "decode.csv").read_text().count("\n") == 13
    assert (tmp_path / "decode_1.png").stat().st_size > 5000


def test_steps_of_all_kinds_attend_over_the_same_numbers():
    # The peer gets the same cache, so it must give the same output.
    for kind in ("gqa", "mha", "mqa"):
        ours, peer = (decode.decode_step(k, 1, 128)() for k in (kind, f"{kind}_jaxnn"))
        np.testing.assert_allclose(ours, peer, atol=2e-5)


@pytest.mark.parametrize("kind", ["tpa"])
def test_training_step_and_its_flax_peer_are_one_model(kind):
    ours, peer = train_step.ours(kind), train_step.flax_peer(kind)
    np.testing.assert_allclose([ours(), ours()], [peer(), peer()], rtol=1e-4)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs CPU affinity")
def test_subprocesses_get_the_first_of_the_allowed_cpus():
    allowed = os.sched_getaffinity(0)
    last = max(allowed)
    code = "import os; print(sorted(os.sched_getaffinity(0)))"
    try:
        os.sched_setaffinity(0, {last})  # CPU 0 is not among them, unless it is alone
        with harness.first_cpus(1):
            out = subprocess.check_output([sys.executable, "-c", code], text=True)
        assert out.strip() == f"[{last}]"
        assert os.sched_getaffinity(0) == {last}
    finally:
        os.sched_setaffinity(0, allowed)


def test_threads_that_are_not_here_are_refused(monkeypatch, capsys):
    for count in (0, harness.cpu_count() + 1):
        monkeypatch.setattr(sys, "argv", ["bench", f"--threads={count}"])
        with pytest.raises(SystemExit):
            harness.main_for("bench", list, lambda rows, out: None, "out", {})
        assert "asked for" in capsys.readouterr().err


def test_rows_replace_the_file_whole_or_not_at_all(tmp_path):
    path = tmp_path / "new" / "rows.csv"
    harness.write_rows(path, [{"a": 1, "times": [1, 2], "b": "x"}, {"a": 2, "b": "y", "c": 3}])
    assert path.read_text().split() == ["a,b", "1,x", "2,y"]

    class Unwritable:
        def __str__(self):
            raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        harness.write_rows(path, [{"a": 1, "b": Unwritable()}])
    assert path.read_text().split() == ["a,b", "1,x", "2,y"]


def test_bandwidths_are_bytes_of_the_array_per_second(monkeypatch):
    monkeypatch.setattr(harness, "_best_time", lambda call, arrays, repeats: 0.5)
    assert harness.copy_bandwidth(1) == harness.read_bandwidth(1) == 2e6
    monkeypatch.undo()
    done = []
    harness._best_time(lambda a: done.append(a.size), (np.zeros(10),), repeats=3)
    assert sum(done) == 30


def test_interleaved_times_are_counted():
    times = harness.time_interleaved({"a": lambda: 1, "b": lambda: 2}, repeats=6, rounds=3)
    assert {k: len(v) for k, v in times.items()} == {"a": 6, "b": 6}
