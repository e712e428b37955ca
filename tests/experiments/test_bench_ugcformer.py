"""The benchmark of UGCFormer compares one model with itself; its timings are not asserted."""

import csv
import importlib.util
import io

import jax
import numpy as np
import pytest
import rich.console

from configs.ugcformer import get_config
from experiments.benchmarks import ugcformer as bench
from neurips25 import graphs


@pytest.fixture(scope="module")
def graph():
    return graphs.sbm_dataset(
        0, 60, 3, 40, average_degree=4.0, on=0.1, off=0.03, num_splits=1, name="tiny"
    )


def test_pytorch_form_gives_our_logits_and_loss(graph):
    torch = pytest.importorskip("torch")
    from experiments.benchmarks import ugcformer_torch as peers

    model = graphs.UGCFormer(3, 8, 2, alpha=0.3)
    task = graphs.node_task(graph)
    params = model.init(jax.random.key(1), task.graph)["params"]
    output = model.apply({"params": params}, task.graph)
    loss, _ = graphs.ugcformer_loss(output, task.labels, task.train, beta=0.7)
    for sparse_x in (False, True):
        theirs = peers.torch_task(graph, sparse_x)
        weights = peers.torch_weights(params)
        logits = peers.ugcformer(weights, theirs, model, training=False)
        for a, b in zip((output.logits, output.logits_topo, output.logits_attr), logits):
            np.testing.assert_allclose(a, b.detach(), atol=1e-5)
        value = peers.ugcformer_loss(logits, theirs, 0.7)
        np.testing.assert_allclose(loss, value.detach(), atol=1e-5)
        # The comparison can fail: with another gate the logits are others.
        with torch.no_grad():
            weights["layer_0/lambda"] += 1.0
        changed = peers.ugcformer(weights, theirs, model, training=False)[0]
        assert np.abs(changed.detach().numpy() - output.logits).max() > 1e-3


def test_steps_of_all_variants_have_the_same_losses(graph):
    pytest.importorskip("torch")
    for kind, names in bench.VARIANTS.items():
        bench.check_equal(kind, [v for v in bench.installed(names) if v != "torch_compile"], graph)


def test_attention_of_pytorch_has_our_gradient():
    pytest.importorskip("torch")
    rows = bench.attention_rows(64, 3, (1e9, 1e9), ["torch"])  # raises where it has not
    assert [r["variant"] for r in rows] == ["ours", "torch"]


def test_variants_without_their_package_are_left_out(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name == "torch" or None)
    assert bench.installed(bench.VARIANTS["ugcformer"]) == list(bench.VARIANTS["ugcformer"])
    assert bench.installed(bench.VARIANTS["gcn"]) == ["ours"]


def test_scaling_is_measured_once_with_its_table_and_figure(tmp_path, monkeypatch):
    sizes = get_config("smoke").bench
    console = rich.console.Console(file=io.StringIO(), width=150)
    rows = bench.in_workdir(sizes, tmp_path, console)
    assert [(r["kind"], r["nodes"]) for r in rows] == [
        *(("dca", n) for n in sizes.lengths),
        *(("softmax", n) for n in sizes.softmax_lengths),
    ]
    for row in rows:
        assert row["width"] == sizes.width
        assert len(row["times_ms"]) == sizes.repeats
        assert row["median_ms"] == pytest.approx(np.median(row["times_ms"]))
    # Scores of all pairs are among the intermediates of softmax attention alone.
    largest = rows[-1]
    assert largest["temp_mb"] >= 4e-6 * largest["nodes"] ** 2
    assert rows[1]["temp_mb"] < 4e-6 * rows[1]["nodes"] ** 2
    with (tmp_path / "tables" / "scaling.csv").open() as f:
        assert [int(r["nodes"]) for r in csv.DictReader(f)] == [r["nodes"] for r in rows]
    assert (tmp_path / "figures" / "scaling.png").stat().st_size > 5000
    assert "softmax" in console.file.getvalue()
    monkeypatch.setattr(bench, "measure_scaling", None)
    assert bench.in_workdir(sizes, tmp_path, console) == rows


def test_slope_is_the_exponent_of_the_median_time():
    rows = [{"nodes": n, "median_ms": 3 * n**1.5, "kind": "dca"} for n in (10, 20, 40, 80)]
    estimate = bench.slope(rows)
    assert estimate.value == pytest.approx(1.5)
    assert (estimate.n, estimate.dof) == (4, 2)


def test_generated_cora_has_the_size_of_cora(monkeypatch, tmp_path):
    monkeypatch.delenv("NEURIPS25_CORA", raising=False)
    graph = bench.cora_graph()
    assert (graph.name, graph.num_nodes, graph.num_classes) == ("generated", 2708, 7)
    assert graph.num_edges == pytest.approx(5278, rel=0.05)
    assert graph.features.mean() == pytest.approx(0.0127, rel=0.05)
    graphs.save_heterophilous_npz(tmp_path / "other.npz", graph)
    monkeypatch.setenv("NEURIPS25_CORA", str(tmp_path / "other.npz"))
    assert bench.cora_graph().name == "other"
    assert bench.cora_graph().num_edges == graph.num_edges


def test_cost_counts_the_messages_of_every_product(graph):
    edges, words = len(graph.senders), int(np.count_nonzero(graph.features))
    flops, size = bench.step_cost("ugcformer", graph)
    assert size == 2 * 4 * 64 * (3 * edges + words)
    # Forward alone, the eight maps of the two layers take this much.
    assert flops > 2 * 8 * graph.num_nodes * 64**2
    assert bench.step_cost("gcn", graph)[1] == 2 * 4 * (64 * (edges + words) + 3 * edges)


def test_rows_have_floor_and_ratios_and_say_what_did_not_fit(tmp_path, capsys):
    times = {"ours": [0.5, 0.5], "pyg": [1.0, 2.0], "pyg_csr": []}
    rows = bench.rows_of("gcn epoch", "9 nodes", times, (2e9, 4e9), (1e10, 1e10), {"ours": 3.0})
    assert [r["over_ours"] for r in rows] == [1.0, 3.0, None]
    assert rows[0]["floor_ms"] == pytest.approx(400)  # by bytes
    assert rows[1]["over_floor"] == pytest.approx(3.75)
    bench.report([{"threads": 1, **r} for r in rows], tmp_path)
    assert (tmp_path / "ugcformer.csv").read_text().count("\n") == 4
    assert "pyg_csr" in capsys.readouterr().out


def test_large_graphs_are_measured_in_processes_of_their_own(monkeypatch):
    monkeypatch.setattr(bench, "LARGE_VARIANTS", {"gcn": ("ours",)})
    (row,) = bench.large_rows(500, (1e9, 1e9))
    assert len(row["times_ms"]) == bench.LARGE_REPEATS
    assert 0.1 < row["peak_gb"] < 8
