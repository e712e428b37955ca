import dataclasses

import numpy as np
import pytest

from neurips25.graphs import (
    load_graph,
    random_splits,
    save_csr_npz,
    save_edge_list,
    save_geom_gcn,
    save_heterophilous_npz,
    save_ogb_folder,
    save_planetoid,
)
from tests.graphs.small_graphs import assert_same, small_graph

MASKS = ("train_mask", "val_mask", "test_mask")


@pytest.fixture
def graph():
    """One whose split every format can hold."""
    ids = np.arange(12)
    return small_graph(1).with_split((ids < 3, (ids >= 3) & (ids < 7), ids >= 7))


def test_npz_files(tmp_path, graph):
    save_heterophilous_npz(tmp_path / "a.npz", graph)
    save_csr_npz(tmp_path / "b.npz", graph)
    assert_same(load_graph(tmp_path / "a.npz"), graph)
    assert_same(load_graph(str(tmp_path / "b.npz"), split_seed=3), graph, but=MASKS)
    np.savez(tmp_path / "c.npz", x=1)
    with pytest.raises(ValueError, match=r"c\.npz: holds x; a graph needs node_features"):
        load_graph(tmp_path / "c.npz")


def test_folders(tmp_path, graph):
    for save in (save_geom_gcn, save_ogb_folder, save_edge_list):
        folder = tmp_path / save.__name__
        save(folder, graph)
        got = load_graph(folder)
        assert_same(got, graph)
        assert got.name == folder.name
    assert load_graph(tmp_path / "save_edge_list", name="x").name == "x"


def test_planetoid_files(tmp_path, graph):
    save_planetoid(tmp_path, "nell.0.1", graph)
    for path in ("", "ind.nell.0.1", "ind.nell.0.1.graph", "ind.nell.0.1.test.index"):
        got = load_graph(tmp_path / path)
        assert_same(got, graph)
        assert got.name == "nell.0.1"
    save_planetoid(tmp_path, "cora", graph)
    assert_same(load_graph(tmp_path / "ind.cora"), graph)
    with pytest.raises(ValueError, match=r"holds the graphs cora, nell\.0\.1; choose one"):
        load_graph(tmp_path)


def test_edge_files(tmp_path, graph):
    save_edge_list(tmp_path, graph)
    files = {part: tmp_path / f"{part}.npy" for part in ("features", "labels")}
    assert_same(load_graph(tmp_path / "edges.csv", split=tmp_path / "split.npz", **files), graph)


def test_nothing_there(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no graph at .*absent"):
        load_graph(tmp_path / "absent")
    with pytest.raises(FileNotFoundError, match=r"has no edges\.csv"):
        load_graph(tmp_path)


def test_the_same_splits_are_drawn_for_every_format_without_any(tmp_path, graph):
    none = dataclasses.replace(graph, **dict.fromkeys(MASKS, np.zeros((0, 12), bool)))
    shares = (0.5, 0.25, 0.25)
    expected = graph.with_split(random_splits(graph.labels, shares, 3, seed=5))
    save_csr_npz(tmp_path / "a.npz", graph)
    save_geom_gcn(tmp_path / "b", none)
    save_edge_list(tmp_path / "c", none)
    save_ogb_folder(tmp_path / "d", graph)
    (tmp_path / "d" / "split").rename(tmp_path / "away")
    np.savez(
        tmp_path / "e.npz",
        node_features=graph.features,
        node_labels=graph.labels,
        edges=graph.undirected_edges,
    )
    for path in ("a.npz", "b", "c", "d", "e.npz"):
        got = load_graph(tmp_path / path, fractions=shares, num_splits=3, split_seed=5)
        assert_same(got, expected)
        # Only the format that never has splits gets some unasked.
        assert load_graph(tmp_path / path).num_splits == (10 if path == "a.npz" else 0)
    save_heterophilous_npz(tmp_path / "f.npz", graph)
    assert_same(load_graph(tmp_path / "f.npz", fractions=shares), graph)


def test_the_folder_of_geom_gcns_splits(tmp_path, graph):
    save_geom_gcn(tmp_path / "toy", graph, tmp_path / "other")
    assert_same(load_graph(tmp_path / "toy", split_dir=tmp_path / "other"), graph)
