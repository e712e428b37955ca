import numpy as np
import pytest

from neurips25.graphs import (
    load_graph,
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
