"""The smoke preset from start to report, its tasks, resuming, bad input."""

import csv
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from configs.ugcformer import MORE_GRAPHS, PRESETS, SIZES, TABLE_5, get_config
from experiments import ugcformer, ugcformer_claims, ugcformer_models, ugcformer_training
from neurips25 import graphs, training
from neurips25.evidence import Verdict, read_records


@pytest.fixture(scope="module")
def mesh():
    return training.make_mesh({"data": 1}, jax.devices()[:1])


@pytest.fixture(scope="module")
def finished(tmp_path_factory, mesh):
    workdir = tmp_path_factory.mktemp("smoke")
    records = ugcformer.run(get_config("smoke"), workdir, mesh)
    return workdir, records


def small(*models, problem="karate"):
    config = get_config("smoke")
    config.problems = (problem,)
    config[problem].models = models
    return config


def train(config, workdir, mesh, problem="karate"):
    graph = ugcformer_training.load_problem(config, problem)
    name = config[problem].models[0]
    return ugcformer_training.train_model(config, problem, name, graph, workdir, mesh)


def table(path):
    with path.open() as f:
        return list(csv.DictReader(f))


def test_run_directory_is_complete(finished):
    workdir, records = finished
    problems = ("karate", "sbm_homophilous", "sbm_heterophilous")
    names = [f"{p}_{what}" for p in problems for what in ("scores", "curves", "losses")]
    names += [f"{p}-ugcformer-run0_{what}" for p in problems
              for what in ("confusion", "representation")]  # fmt: skip
    for name in (*names, "gates", "scaling"):
        assert (workdir / "figures" / f"{name}.png").stat().st_size > 5000, name
    rows = table(workdir / "tables" / "scores.csv")
    assert {r["graph"] for r in rows} == set(problems)
    assert [r["nodes"] for r in table(workdir / "tables" / "graphs.csv")] == ["34", "120", "120"]
    assert len(table(workdir / "tables" / "paired.csv")) == len(rows) - len(problems)
    assert read_records(workdir / "records.json") == records
    assert (workdir / "report.html").exists()
    assert (workdir / "tensorboard" / "karate-gcn-run0").exists() == (
        "gcn" in get_config("smoke").karate.models
    )


def test_predictions_are_those_of_the_result(finished, mesh):
    workdir, _ = finished
    rows = table(workdir / "predictions" / "karate-ugcformer-run0.csv")
    assert [int(r["node"]) for r in rows] == list(range(34))
    assert np.allclose([float(r["p_0"]) + float(r["p_1"]) for r in rows], 1, atol=1e-5)
    right = [r["y_true"] == r["y_pred"] for r in rows if r["split"] == "test"]
    config = get_config("smoke")
    (stored, *_) = train(config, workdir, mesh)
    assert np.mean(right) == pytest.approx(stored.test)
    config.task = "predict"
    config.predict.update({"problem": "karate", "model": "polynormer", "run": 1})
    assert ugcformer.run(config, workdir, mesh) == []
    assert len(table(workdir / "predictions" / "karate-polynormer-run1.csv")) == 34


def test_a_graph_of_other_nodes_does_not_go_with_the_checkpoint(finished, mesh):
    config = get_config("smoke")
    config.task, config.predict.problem, config.sbm.nodes = "predict", "sbm_homophilous", 60
    graph = ugcformer_training.load_problem(config, "sbm_homophilous")
    with pytest.raises(training.CheckpointError, match=r"topo/table.*(120|60)"):
        ugcformer.ugcformer_predict.predict(
            config, "sbm_homophilous", "ugcformer", 0, graph, finished[0], mesh
        )


def test_a_finished_run_starts_again_without_training(finished, mesh, monkeypatch):
    workdir, records = finished
    monkeypatch.setattr(training, "fit", None)
    again = ugcformer.run(get_config("smoke"), workdir, mesh)
    assert [r.claim_id for r in again] == [r.claim_id for r in records]


def test_sensitivity_and_search(tmp_path, mesh):
    config = small("ugcformer")
    config.sensitivity.alpha, config.search.space = (0.3,), {"norm": ("none", "layer")}
    config.task = "sensitivity"
    assert ugcformer.run(config, tmp_path, mesh) == []
    rows = table(tmp_path / "tables" / "sensitivity.csv")
    assert [(r["field"], r["value"]) for r in rows] == [
        ("alpha", "0.3"), ("beta", "0"), ("beta", "1"),
    ]  # fmt: skip
    config.task = "search"
    (record,) = ugcformer.run(config, tmp_path, mesh)
    assert record.verdict is Verdict.NOT_TESTED
    assert record.setting.seeds == (0, 1)
    assert read_records(tmp_path / "records.json") == [record]
    rows = table(tmp_path / "tables" / "search.csv")
    assert [r["runs"] for r in rows] == ["2", "1"]
    assert f"norm {rows[0]['norm']}" in record.note


def test_large(tmp_path, mesh, capsys):
    config = get_config("smoke")
    config.task = "large"
    ugcformer.run(config, tmp_path, mesh)
    assert "peak memory / GB" in capsys.readouterr().out
    assert [r["edges"] for r in table(tmp_path / "tables" / "large.csv")] == ["20000", "40000"]


def test_an_interrupted_run_ends_the_same(tmp_path, mesh, monkeypatch):
    config = small("gcn")
    config.karate.runs = 1
    config.karate.train.checkpoint_every = 4
    (whole,) = train(config, tmp_path / "whole", mesh)
    fit, stop = training.fit, {"num_steps": 4}
    monkeypatch.setattr(training, "fit", lambda *a, **k: fit(*a, **{**k, **stop}))
    train(config, tmp_path / "parts", mesh)
    (tmp_path / "parts" / "results" / "karate-gcn-run0.json").unlink()
    monkeypatch.setattr(training, "fit", fit)
    (resumed,) = train(config, tmp_path / "parts", mesh)
    assert resumed._replace(seconds=0, change=0) == whole._replace(seconds=0, change=0)


def test_training_on_samples(tmp_path, mesh):
    config = small("ugcformer", problem="sbm_homophilous")
    own = config.sbm_homophilous
    own.runs = 1
    own.train.update({"batch_nodes": 16, "fanouts": (3, 2), "steps": 4})
    (result,) = train(config, tmp_path, mesh, "sbm_homophilous")
    assert 0 <= result.test <= 1
    assert result.best_step > 0


def test_a_graph_of_the_users_own(tmp_path, mesh):
    graph = graphs.sbm_dataset(1, 40, 2, 6, average_degree=4.0, num_splits=1)
    graphs.save_edge_list(tmp_path / "mine", graph)
    config = small("gcn", problem="graph")
    config.graph.data.path = str(tmp_path / "mine")
    config.graph.metric = "roc_auc"
    results = train(config, tmp_path / "run", mesh, "graph")
    assert [r.run for r in results] == [0, 1]
    assert all(0 <= r.test <= 1 for r in results)


def test_a_run_that_diverges_is_a_result(tmp_path, mesh):
    config = small("gcn")
    config.karate.runs = 1
    config.karate.train.update({"learning_rate": float("nan"), "steps": 30})
    (result,) = train(config, tmp_path, mesh)
    assert math.isnan(result.test)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"problems": ("coral",)}, ValueError, r"config.problems: 'coral'.*mean 'cora'"),
        ({"problems": ("cora",)}, FileNotFoundError, r"config.data_dir='', config.cora.data.path="),
        ({"problems": ("graph",)}, ValueError, r"config.graph.data.path is empty"),
        ({"karate.models": ("gnc",)}, ValueError, r"config.karate.models: 'gnc'.*mean 'gcn'"),
        ({"models.gcn.kind": "gin"}, ValueError, r"config.models.gcn.kind='gin'"),
        ({"karate.metric": "f1"}, ValueError, "'f1'"),
        ({"task": "trian"}, ValueError, "did you mean 'train'"),
        *(
            (
                {"task": task, f"{task}.problem": "karat"},
                ValueError,
                f"config.{task}.problem: 'karat'.*mean 'karate'",
            )
            for task in ("predict", "sensitivity", "search")
        ),
    ],
)
def test_bad_input(tmp_path, mesh, change, error, message):
    config = small("gcn")
    for field, value in change.items():
        config.update_from_flattened_dict({field: value})
    with pytest.raises(error, match=message):
        ugcformer.run(config, tmp_path, mesh)


def test_fields_that_a_model_lacks_are_refused():
    config = small("gcn")
    config.models.gcn = {"kind": "gcn", "alpha": 0.5}
    with pytest.raises(ValueError, match=r"config.models.gcn.alpha: GCN has no such"):
        ugcformer_models.model_settings(config, "karate", "gcn")


@pytest.mark.parametrize("preset", PRESETS)
def test_presets_compile(preset, mesh):
    config = get_config(preset)
    config.problems = ("cora",)
    step, state, task = ugcformer.abstract_step(config, mesh)
    step.lower(state, task)


def test_paper_sizes(mesh):
    config = get_config("paper")
    assert ugcformer_training.chosen_problems(config) == tuple(TABLE_5)
    assert set(TABLE_5) == set(SIZES)
    for problem in (*MORE_GRAPHS, "actor"):
        config.problems = (problem,)
        _, state, task = ugcformer.abstract_step(config, mesh)
        n, _, f, _ = SIZES[problem]
        assert task.graph.nodes.shape == (n, f)
        assert state.params["topo"]["table"].shape == (n, TABLE_5[problem][1])


def test_numbers_of_the_paper():
    assert ugcformer_claims.paper_score("cora", "ugcformer") == 84.94
    assert ugcformer_claims.paper_score("texas", "gcn") == 65.61
    assert ugcformer_claims.paper_score("ogbn_arxiv", "sgformer") == 72.63
    assert ugcformer_claims.paper_score("cora", "mlp") is None
    assert ugcformer_claims.paper_score("karate", "gcn") is None


def test_records_name_orders_of_the_paper(finished, mesh):
    config = get_config("smoke")
    group = {
        "ugcformer": [_result(0.8), _result(0.82), _result(0.81)],
        "gcn": [_result(0.6), _result(0.61), _result(0.6)],
        "no_con": [_result(0.8), _result(0.81), _result(0.82)],
    }
    made = ugcformer_claims.Provenance("2025-01-01", {"python": "3", "jax": "0"})
    records = ugcformer_claims.claim_records(config, {"texas": group}, [], made)
    by_id = {r.claim_id: r for r in records}
    assert by_id["texas-above-gcn"].verdict is Verdict.HOLDS
    assert by_id["texas-with-no-con"].verdict is Verdict.NOT_TESTED
    assert by_id["texas-ugcformer"].verdict is Verdict.NOT_TESTED
    assert by_id["texas-attention-near-identity"].verdict is Verdict.HOLDS
    assert by_id["texas-consistency-teaches-attributes"].measured.value["no_con"] == 50


def _result(test):
    return ugcformer_training.Result(
        "texas", "m", 0, test, test, {"topo": 0.5, "attr": 0.5}, 1, 10, 1.0, [[0.1, 0.2]], 1e-5, {}
    )


def test_layers_that_are_not_yet_in_training_stay_as_they_are(mesh):
    config = small("polynormer")
    config.karate.train.update({"weight_decay": 0.1, "steps": 6})
    graph = ugcformer_training.load_problem(config, "karate")
    parts = ugcformer_models.trained_model(config, "karate", "polynormer", 2, 34)
    task = graphs.node_task(graph)
    init = graphs.init_node_variables(parts.model, task)
    make = training.state_maker(init, parts.tx, mesh=mesh)
    step = ugcformer_training.make_step(config, "karate", parts, mesh)
    first, state = make(jax.random.key(0)).params, make(jax.random.key(0))

    def unchanged():
        equal = jax.tree.map(lambda a, b: bool((a == b).all()), first, state.params)
        return {name: all(jax.tree.leaves(own)) for name, own in equal.items()}

    for _ in range(3):
        state, _ = step(state, task)
    assert all(same == name.startswith("global") for name, same in unchanged().items())
    state, _ = step(state, task)
    assert not any(unchanged().values())


def test_gat_has_eight_heads_of_an_eighth_of_the_width():
    config = get_config("cpu")
    settings = ugcformer_models.model_settings(config, "cora", "gat")
    assert (settings["hidden_dim"], settings["num_heads"]) == (64, 8)


@pytest.mark.parametrize("model", ["ugcformer", "linkx"])
def test_a_mesh_that_does_not_divide_the_nodes_makes_the_same_model(model):
    config = small(model)
    task = graphs.node_task(ugcformer_training.load_problem(config, "karate"))
    parts = ugcformer_models.trained_model(config, "karate", model, 2, 34)
    padded = graphs.pad_graph(jax.tree.map(np.asarray, task.graph), 40, len(task.graph.senders))
    shapes = [
        jax.tree.map(jnp.shape, jax.eval_shape(parts.model.init, jax.random.key(0), g))
        for g in (task.graph, padded)
    ]
    assert shapes[0] == shapes[1]
