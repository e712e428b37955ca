"""The smoke preset from start to report, its tasks, resuming, bad input."""

import csv
import math

import jax
import numpy as np
import pytest

from configs.strassen import PRESETS, PROBLEMS, get_config
from experiments import strassen, strassen_verify
from experiments.benchmarks import strassen as benchmark
from neurips25 import training
from neurips25.attention import make_binary_relation, save_task
from neurips25.evidence import Verdict, read_records


@pytest.fixture(scope="module")
def mesh():
    return training.make_mesh({"data": 1}, jax.devices()[:1])


@pytest.fixture(scope="module")
def finished(tmp_path_factory, mesh):
    workdir = tmp_path_factory.mktemp("smoke")
    records = strassen.run(get_config("smoke"), workdir, mesh)
    return workdir, records


def small(*problems):
    config = get_config("smoke")
    config.problems = problems
    return config


def table(path):
    with path.open() as f:
        return list(csv.DictReader(f))


def test_run_directory_is_complete(finished):
    workdir, records = finished
    names = [f"{p}_accuracy_vs_{x}" for p in PROBLEMS for x in ("epochs", "minutes")]
    names += ["epochs_per_minute", "construction_gaps", "split_matrices", "time_vs_length"]
    for name in names:
        assert (workdir / "figures" / f"{name}.png").stat().st_size > 5000
    rows = table(workdir / "tables" / "accuracy.csv")
    assert {r["problem"] for r in rows} == set(PROBLEMS)
    assert all(0 <= float(r["median accuracy"]) <= 1 for r in rows)
    assert read_records(workdir / "records.json") == records
    assert (workdir / "report.html").exists()


def test_records_say_what_was_and_was_not_tested(finished):
    by_id = {r.claim_id: r for r in finished[1]}
    assert by_id["constructions-solve"].verdict is Verdict.HOLDS
    assert by_id["triangular-solves-relations"].verdict is Verdict.HOLDS
    assert by_id["splitting-vc"].verdict is Verdict.HOLDS
    assert by_id["cogs"].verdict is Verdict.NOT_TESTED
    assert by_id["binary-relation-strassen"].verdict is Verdict.NOT_TESTED
    assert by_id["function-composition-above-standard"].setting.seeds == (0, 1)
    assert "quotient-above-triangular" in by_id


def test_a_finished_run_starts_again_without_training(finished, mesh, monkeypatch):
    workdir, records = finished
    monkeypatch.setattr(training, "fit", None)
    again = strassen.run(get_config("smoke"), workdir, mesh)
    assert [r.claim_id for r in again] == [r.claim_id for r in records]


@pytest.mark.parametrize("task", ["generate", "verify", "bench"])
def test_tasks_on_their_own(tmp_path, mesh, task, capsys):
    config = small("function_composition")
    config.task = task
    records = strassen.run(config, tmp_path, mesh)
    out = capsys.readouterr().out
    assert {"generate": "64 + 32 examples", "verify": "Match3", "bench": "stable"}[task] in out
    assert bool(records) == (task == "verify") == (tmp_path / "records.json").exists()


def test_data_of_the_users_own(tmp_path, mesh):
    folder = tmp_path / "mine"
    folder.mkdir()
    for name, count in (("train", 32), ("validation", 8)):
        save_task(folder / f"{name}.npz", make_binary_relation(5, count, 2, 3))
    config = small("binary_relation")
    config.binary_relation.data.path = str(folder)
    train, validation = strassen.load_problem(config, "binary_relation", tmp_path)
    assert (len(train), len(validation)) == (32, 8)
    config.quotient_relation.data.path = str(folder)
    with pytest.raises(ValueError, match=r"train.npz holds binary_relation, needs quotient"):
        strassen.load_problem(config, "quotient_relation", tmp_path)


def test_an_interrupted_run_ends_the_same(tmp_path, mesh, monkeypatch):
    config = small("match3")
    config.seeds, config.match3.mechanisms = (3,), ("strassen",)
    data = strassen.generate(config, "match3")

    def train(workdir):
        return strassen.train_mechanism(config, "match3", "strassen", data, workdir, mesh)[0]

    whole = train(tmp_path / "whole")
    fit, stop = training.fit, {"num_steps": 4}
    monkeypatch.setattr(training, "fit", lambda *a, **k: fit(*a, **{**k, **stop}))
    train(tmp_path / "parts")
    (tmp_path / "parts" / "results" / "match3-strassen-seed3.json").unlink()
    monkeypatch.setattr(training, "fit", fit)
    resumed = train(tmp_path / "parts")
    assert resumed.accuracy == whole.accuracy
    assert [c[0] for c in resumed.curve] == [c[0] for c in whole.curve]


def test_a_run_that_diverges_is_a_result(tmp_path, mesh):
    config = small("function_composition")
    config.seeds, config.function_composition.mechanisms = (0,), ("standard",)
    config.function_composition.train.update({"learning_rate": float("nan"), "steps": 30})
    data = strassen.generate(config, "function_composition")
    result = strassen.train_mechanism(
        config, "function_composition", "standard", data, tmp_path, mesh
    )[0]
    assert math.isnan(result.accuracy)


@pytest.mark.parametrize("preset", PRESETS)
def test_presets_compile(preset, mesh):
    config = get_config(preset)
    for problem in config.problems:
        config.problems = (problem,)
        step, state, batch = strassen.abstract_step(config, mesh)
        step.lower(state, batch)


def test_paper_sizes():
    config = get_config("paper")
    assert config.function_composition.train.steps == 18_000
    assert config.quotient_relation.train.steps == 66_000
    data = strassen.generate(get_config("smoke"), "binary_relation")[0]
    model = strassen.model_of(config, "binary_relation", "strassen", data.field_sizes)
    first = strassen.arrays_of(config, "binary_relation", data)
    shapes = jax.eval_shape(strassen.init_fn(model, first), jax.random.key(0))
    # Table 1 says 2.5k.
    assert sum(p.size for p in jax.tree.leaves(shapes["params"])) == 2385 + 16 * 7


def test_verification_finds_a_broken_construction(monkeypatch):
    sizes = get_config("smoke").verify
    assert all(c.errors == 0 for c in strassen_verify.check_constructions(sizes))
    evaluate = strassen_verify.constructions.evaluate
    monkeypatch.setattr(
        strassen_verify.constructions, "evaluate", lambda c, x: -np.asarray(evaluate(c, x))
    )
    assert all(c.errors > 0 for c in strassen_verify.check_constructions(sizes))


def test_bad_input(tmp_path, mesh):
    with pytest.raises(ValueError, match="preset 'cpux' is not one of smoke, cpu, paper"):
        get_config("cpux")
    with pytest.raises(ValueError, match="'match4' is not one of function_composition"):
        strassen.run(small("match4"), tmp_path / "a", mesh)
    config = small("match3")
    config.match3.mechanisms = ("strasen",)
    with pytest.raises(ValueError, match=r"config.match3.mechanisms: 'strasen' is not one of"):
        strassen.run(config, tmp_path / "b", mesh)
    config = small("match3")
    config.match3.train.batch_size = 65
    with pytest.raises(ValueError, match="batch_size=65 is more than the 64 examples"):
        strassen.run(config, tmp_path / "c", mesh)
    config = small("match3")
    config.method = "logsumxp"
    with pytest.raises(ValueError, match="did you mean 'logsumexp'"):
        strassen.run(config, tmp_path / "d", mesh)
    config = small("match3")
    config.match3.model.embedding = "one-hot"
    with pytest.raises(ValueError, match="embedding='one-hot', needs learned or raw"):
        strassen.run(config, tmp_path / "e", mesh)


def test_tiles_that_share_a_shift_lose_queries():
    shares = benchmark.lost_by_tiles(32, 8, (1, 4, 32))
    assert shares[1] == 0 < shares[4] <= shares[32] <= 1


def test_all_exponentials_are_those_of_all_triples():
    call, _ = benchmark.call_of("exponentials", 16, 4)
    f, g, h = (np.asarray(a[0, :, 0], float) for a in benchmark.inputs(16, 4)[:3])
    x, y, z = f @ g.T / 2, g @ h.T / 2, h @ f.T / 2
    sums = x[:, :, None] + y + z.T[:, None, :]
    expected = np.exp(sums - sums.max(axis=(1, 2), keepdims=True)).sum(axis=(1, 2))
    np.testing.assert_allclose(call(), expected, rtol=1e-5)
