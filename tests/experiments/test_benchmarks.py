"""Benchmarks run and compare like with like; their timings are not asserted."""

import numpy as np
import pytest

from experiments.benchmarks import decode, harness, train_step


def test_decode_rows_have_their_floor_and_ratios(tmp_path):
    rows = decode.measure(repeats=3, lengths=(64, 128), kinds=(*decode.KINDS, "gqa_jaxnn"))
    assert [r["kind"] for r in rows[:6]] == [*decode.KINDS, "gqa_jaxnn"]
    for row in rows:
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


def test_interleaved_times_are_counted():
    times = harness.time_interleaved({"a": lambda: 1, "b": lambda: 2}, repeats=6, rounds=3)
    assert {k: len(v) for k, v in times.items()} == {"a": 6, "b": 6}
