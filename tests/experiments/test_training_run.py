"""Training runs with their time, and results that are kept with their date."""

import json
import os
import types

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from ml_collections import ConfigDict

from experiments import training_run
from experiments.training_run import (
    provenance,
    restore,
    result_file,
    run_task,
    stored,
    train_run,
)
from neurips25 import training
from neurips25.data import SeekableBatches

TX = optax.sgd(0.1)


@pytest.fixture(scope="module")
def mesh():
    return training.make_mesh({"data": 1}, jax.devices()[:1])


@pytest.fixture(scope="module")
def real_step(mesh):
    def loss(params, extra, batch, key):
        return jnp.mean((params["w"] - batch["x"]) ** 2), ({}, extra)

    return training.make_train_step(loss, TX, mesh)


@pytest.fixture
def run(tmp_path, monkeypatch, mesh, real_step):
    """Trains with a clock that ticks once per step and a thousand times per evaluation."""
    clock = types.SimpleNamespace(now=0.0)
    monkeypatch.setattr(training_run, "time", types.SimpleNamespace(perf_counter=lambda: clock.now))

    def start(steps, fail_at=None, value=1.0, evaluated=True):
        def step(state, batch):
            clock.now += 1
            if int(state.step) == fail_at:
                raise RuntimeError("killed")
            return real_step(state, batch)

        def evaluate(state):
            clock.now += 1000
            return {"score": jnp.sum(state.params["w"])}

        clock.now += 500  # whatever happens between two starts
        state = training.create_state(
            lambda key: {"params": {"w": jnp.zeros(2)}}, TX, jax.random.key(0), mesh=mesh
        )
        train = ConfigDict({"steps": steps, "checkpoint_every": 4, "log_every": 1, "eval_every": 3})
        batches = SeekableBatches(lambda i: {"x": np.full((1, 2), value, np.float32)})
        return train_run(
            tmp_path, "a", step, state, batches, mesh, train, evaluate if evaluated else None
        )

    return start


def seconds_of(rows):
    return {row["step"]: row["seconds"] for row in rows if "seconds" in row}


def test_evaluation_is_not_training_time(run):
    state, seconds, rows = run(6)
    assert int(state.step) == 6
    assert seconds_of(rows) == {3: 3, 6: 6}
    assert all("score" in row for row in rows if "seconds" in row)
    assert seconds == 6
    assert len([row for row in rows if "loss" in row]) == 6


def test_time_goes_on_where_the_checkpoint_was(run, tmp_path):
    with pytest.raises(RuntimeError, match="killed"):
        run(12, fail_at=8)  # the checkpoints are those of steps 4 and 8
    (tmp_path / "checkpoints" / "a" / "8").rename(tmp_path / "later")
    _, seconds, rows = run(12)
    # Step 4 lies between the evaluation of step 3 and the checkpoint: it is not counted.
    assert seconds_of(rows) == {3: 3, 6: 5, 9: 8, 12: 11}
    assert seconds == 11
    again = run(12)
    assert again.seconds == 11
    assert again.rows == rows


def test_without_evaluation_the_last_start_counts(run):
    assert run(5, evaluated=False).seconds == 5


def test_divergence_leaves_the_rows_and_what_it_opened_is_closed(run, tmp_path):
    with pytest.raises(training.NonFiniteError):
        run(40, value=np.nan)
    rows = training.read_metrics(tmp_path / "metrics.jsonl", "a")
    assert rows
    assert all(row["loss"] is None for row in rows if "loss" in row)


def test_restore_gives_the_state_or_says_what_to_do(run, tmp_path, mesh):
    like = training.abstract_state(lambda key: {"params": {"w": jnp.zeros(2)}}, TX, mesh=mesh)
    with pytest.raises(ValueError, match=r"checkpoints/a: .*run --config.task=train first"):
        restore(tmp_path, "a", like)
    state, _, _ = run(4)
    np.testing.assert_array_equal(restore(tmp_path, "a", like).params["w"], state.params["w"])
    (tmp_path / "checkpoints" / "b").mkdir()
    with pytest.raises(ValueError, match=r"run --config.task=train first"):
        restore(tmp_path, "b", like)


def test_stored_results_are_made_once(tmp_path):
    file = result_file(tmp_path, "a")
    made = []

    def make():
        made.append(1)
        return {"loss": float("nan"), "curve": [(1, 2.5), (2, float("inf"))]}

    first, second = stored(file, make), stored(file, make)
    assert made == [1]
    assert np.isnan([first["loss"], second["loss"]]).all()
    assert first["curve"] == second["curve"] == [[1, 2.5], [2, float("inf")]]


def test_a_result_that_cannot_be_made_leaves_no_file(tmp_path):
    with pytest.raises(ZeroDivisionError):
        stored(result_file(tmp_path, "a"), lambda: 1 / 0)
    assert not (tmp_path / "results").exists()


def test_results_keep_their_date_and_versions(tmp_path, monkeypatch):
    one, two, old = (result_file(tmp_path, name) for name in ("one", "two", "old"))
    versions = {"python": "3.11", "jax": "1"}
    monkeypatch.setattr(training_run, "current_versions", lambda: versions)
    stored(one, lambda: 1)
    monkeypatch.setattr(training_run, "current_versions", lambda: versions | {"jax": "2"})
    stored(two, lambda: {"result": 2})
    assert stored(two, dict) == {"result": 2}
    assert provenance([one]).versions == versions
    assert provenance([one, two]).versions == {"python": "3.11", "jax": "1, 2"}
    content = json.loads(one.read_text())
    one.write_text(json.dumps(content | {"date": "2020-05-06"}))
    assert provenance([one]).date == "2020-05-06"
    assert provenance([one, two]).date == content["date"]
    # Files without date and versions are read, too.
    old.write_text('{"loss": 1.5}')
    os.utime(old, (1.6e9, 1.6e9))
    assert stored(old, dict) == {"loss": 1.5}
    assert provenance([old]) == ("2020-09-13", {"python": "not recorded", "jax": "not recorded"})


def test_tasks_are_found_by_name():
    tasks = {"train": lambda: ["record"], "export": lambda: None}
    assert run_task(ConfigDict({"task": "train"}), tasks) == ["record"]
    assert run_task(ConfigDict({"task": "export"}), tasks) == []
    with pytest.raises(
        ValueError, match=r"config.task='exprt' is not one of train, export; did you mean 'export'"
    ):
        run_task(ConfigDict({"task": "exprt"}), tasks)
