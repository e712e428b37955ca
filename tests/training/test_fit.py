import os
import signal

import jax
import numpy as np
import optax
import pytest

from neurips25 import training
from neurips25.data import SeekableBatches
from tests.training import toy


@pytest.fixture(scope="module")
def mesh():
    return training.make_mesh({"data": 1}, jax.devices()[:1])


def run(mesh, workdir, steps, batches=None, state_and_step=None, **kwargs):
    state, step = state_and_step or toy.make(mesh)
    writer = training.MetricWriter(workdir)
    checkpoints = training.Checkpointer(workdir / "checkpoints")
    try:
        return training.fit(
            step, state, batches or SeekableBatches(toy.batch_at), num_steps=steps, mesh=mesh,
            checkpoints=checkpoints, writer=writer, **kwargs,
        )  # fmt: skip
    finally:
        writer.close()
        checkpoints.close()


@pytest.fixture(scope="module")
def uninterrupted(mesh, tmp_path_factory):
    return np.asarray(training.fingerprint(run(mesh, tmp_path_factory.mktemp("whole"), 12)))


def test_resumed_run_ends_bit_for_bit_like_an_uninterrupted_one(mesh, tmp_path, uninterrupted):
    run(mesh, tmp_path, 5, log_every=1)
    state = run(mesh, tmp_path, 12, log_every=1)
    np.testing.assert_array_equal(training.fingerprint(state), uninterrupted)
    steps = [r["step"] for r in training.read_metrics(tmp_path / "metrics.jsonl")]
    assert steps == list(range(1, 13))


def test_finished_run_is_returned_as_it_is(mesh, tmp_path, uninterrupted):
    run(mesh, tmp_path, 12)
    again = run(mesh, tmp_path, 12)
    np.testing.assert_array_equal(training.fingerprint(again), uninterrupted)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_checkpoints_and_resumes(mesh, tmp_path, uninterrupted, number):
    def send(state):
        if int(state.step) == 7:
            os.kill(os.getpid(), number)
        return {}

    before = signal.getsignal(number)
    with pytest.raises(training.Interrupted, match=r"stopped by SIG\w+ after step 7"):
        run(mesh, tmp_path, 12, evaluate=send, eval_every=1)
    assert signal.getsignal(number) == before
    state = run(mesh, tmp_path, 12)
    np.testing.assert_array_equal(training.fingerprint(state), uninterrupted)


def test_too_many_bad_steps_stop_with_the_last_good_checkpoint(mesh, tmp_path):
    def poisoned(step):
        batch = toy.batch_at(step)
        if step >= 6:
            batch["x"][:] = np.inf
        return batch

    with pytest.raises(training.NonFiniteError, match=r"3 steps in a row.*checkpoint: step 5"):
        run(mesh, tmp_path, 40, SeekableBatches(poisoned), checkpoint_every=5, max_skipped_in_row=2)
    found = training.Checkpointer(tmp_path / "checkpoints").restore_latest(toy.make(mesh)[0])
    assert found.step == 5
    assert all(np.isfinite(p).all() for p in jax.tree.leaves(found.state.params))


def test_evaluation_is_called_on_time_and_written(mesh, tmp_path):
    seen = []

    def evaluate(state):
        seen.append(int(state.step))
        return {"validation": float(state.step)}

    run(mesh, tmp_path, 7, evaluate=evaluate, eval_every=3)
    assert seen == [3, 6, 7]
    rows = training.read_metrics(tmp_path / "metrics.jsonl")
    assert [r["validation"] for r in rows if "validation" in r] == [3.0, 6.0, 7.0]


def test_input_errors_reach_the_caller(mesh, tmp_path):
    def broken(step):
        if step == 3:
            raise OSError("shard-3.bin: truncated")
        return toy.batch_at(step)

    with pytest.raises(OSError, match=r"shard-3\.bin: truncated"):
        run(mesh, tmp_path, 10, SeekableBatches(broken), checkpoint_every=1)
    assert training.Checkpointer(tmp_path / "checkpoints").steps()[-1] == 3


def test_input_without_rows_is_placed_by_the_callers_function(mesh):
    # One example as a whole, with a scalar beside it, put on the mesh once.
    tx = optax.sgd(0.1)
    target = jax.device_put(
        {"x": np.arange(3.0), "scale": np.float32(2)}, training.replicated(mesh)
    )
    placed = []

    def place(item, where):
        assert where is mesh
        placed.append(item)
        return target

    def loss_fn(params, extra, batch, key):
        return ((params["w"] - batch["scale"] * batch["x"]) ** 2).sum(), ({}, extra)

    state = training.create_state(
        lambda key: {"params": {"w": np.zeros(3, np.float32)}}, tx, jax.random.key(0), mesh=mesh
    )
    state = training.fit(
        training.make_train_step(loss_fn, tx, mesh), state, SeekableBatches(lambda step: step),
        num_steps=40, mesh=mesh, place=place,
    )  # fmt: skip
    assert placed[:40] == list(range(40))
    np.testing.assert_allclose(state.params["w"], [0, 2, 4], atol=1e-2)


def test_progress_bar_shows_rate_and_loss_only_when_asked(mesh, tmp_path, capsys):
    run(mesh, tmp_path / "quiet", 3)
    assert capsys.readouterr().err == ""
    run(mesh, tmp_path / "shown", 3, show_progress=True, description="toy")
    shown = capsys.readouterr().err
    assert "toy" in shown
    assert "3/3" in shown
    assert "step/s" in shown
