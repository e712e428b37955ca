import dataclasses
import os
import pickle

import numpy as np
import pytest
import scipy.sparse

from neurips25.graphs import homophily, load_planetoid, save_planetoid
from tests.graphs.small_graphs import assert_same, small_graph

PARTS = ("x", "y", "allx", "ally", "tx", "ty", "graph", "test.index")


def planetoid_graph():
    """3 training, 4 validation and 5 test nodes, in the order that the files need."""
    graph = small_graph(splits=1)
    ids = np.arange(12)
    return graph.with_split((ids < 3, (ids >= 3) & (ids < 7), ids >= 7))


@pytest.fixture
def folder(tmp_path):
    save_planetoid(tmp_path, "toy", planetoid_graph())
    return tmp_path


def change(folder, part, edit):
    """Replaces what a pickle holds by ``edit`` of it."""
    path = folder / f"ind.toy.{part}"
    path.write_bytes(pickle.dumps(edit(pickle.loads(path.read_bytes())), 2))


@pytest.mark.parametrize(
    ("name", "nodes", "edges", "features", "classes", "ones", "unlabelled"),
    [("cora", 2708, 5278, 1433, 7, 49216, 0), ("citeseer", 3327, 4552, 3703, 6, 105165, 15)],
)
class TestPublishedFiles:
    @pytest.fixture
    def graph(self, data_file, name):
        return load_planetoid(data_file(f"ugcformer/planetoid/ind.{name}.x").parent, name)

    def test_counts(self, graph, nodes, edges, features, classes, ones, unlabelled):
        assert (graph.num_nodes, graph.num_edges, graph.num_classes) == (nodes, edges, classes)
        assert graph.features.shape == (nodes, features)
        assert graph.features.sum() == ones
        assert (graph.labels < 0).sum() == (~graph.features.any(axis=1)).sum() == unlabelled
        assert [mask.sum() for mask in graph.split(0)] == [20 * classes, 500, 1000]
        train = graph.labels[graph.train_mask[0]]
        assert np.bincount(train).tolist() == [20] * classes

    def test_cleaned_arrays(
        self, graph, data_file, name, nodes, edges, features, classes, ones, unlabelled
    ):
        with np.load(data_file(f"ugcformer/planetoid/{name}_converted.npz")) as clean:
            np.testing.assert_array_equal(graph.undirected_edges, clean["edges"])
            known = graph.labels >= 0
            np.testing.assert_array_equal(graph.labels[known], clean["labels"][known])
            for part, mask in zip(("train", "val", "test"), graph.split(0)):
                np.testing.assert_array_equal(mask, clean[f"{part}_mask"])
            ones = np.ones(len(clean["x_indices"]), np.float32)
            matrix = scipy.sparse.csr_array(
                (ones, clean["x_indices"], clean["x_indptr"]), shape=clean["x_shape"]
            )
            np.testing.assert_array_equal(graph.features, matrix.toarray())

    def test_written_back(
        self, graph, tmp_path, name, nodes, edges, features, classes, ones, unlabelled
    ):
        save_planetoid(tmp_path, name, graph)
        assert_same(load_planetoid(tmp_path, name), graph)


def test_homophily_of_published_files(data_file):
    root = data_file("ugcformer/planetoid/ind.cora.x").parent
    assert homophily(load_planetoid(root, "cora")) == pytest.approx(0.80997, abs=1e-5)
    citeseer = load_planetoid(root, "citeseer")
    # The published share takes the 15 nodes without a label for class 0; they have edges.
    labelled = dataclasses.replace(citeseer, labels=np.maximum(citeseer.labels, 0))
    assert homophily(labelled) == pytest.approx(0.73550, abs=1e-5)
    assert homophily(citeseer) == pytest.approx(3346 / 4536)


def test_round_trip(folder):
    graph = load_planetoid(folder, "toy")
    assert_same(graph, planetoid_graph())
    assert graph.name == "toy"
    assert {p.name for p in folder.iterdir()} == {f"ind.toy.{part}" for part in PARTS}


def test_test_nodes_come_in_the_order_of_their_index(folder):
    expected = load_planetoid(folder, "toy")
    order = np.array([3, 0, 4, 2, 1])
    for part in ("tx", "ty"):
        change(folder, part, lambda rows: rows[order])
    index = np.arange(7, 12)[order]
    (folder / "ind.toy.test.index").write_text("\n".join(map(str, index)))
    assert_same(load_planetoid(folder, "toy"), expected)


def test_ids_left_out_of_the_test_index_are_nodes_without_features_and_label(folder, tmp_path):
    for part in ("tx", "ty"):
        change(folder, part, lambda rows: rows[[0, 1, 3, 4]])
    (folder / "ind.toy.test.index").write_text("7\n8\n10\n11\n")
    graph = load_planetoid(folder, "toy")
    assert graph.labels[9] == -1
    assert not graph.features[9].any()
    assert np.flatnonzero(graph.test_mask[0]).tolist() == [7, 8, 10, 11]
    save_planetoid(tmp_path / "again", "toy", graph)
    assert_same(load_planetoid(tmp_path / "again", "toy"), graph)


def test_validation_is_the_next_500_nodes(tmp_path):
    graph = small_graph(splits=1, n=600)
    ids = np.arange(600)
    graph = graph.with_split((ids < 9, (ids >= 9) & (ids < 509), ids >= 550))
    save_planetoid(tmp_path, "toy", graph)
    assert_same(load_planetoid(tmp_path, "toy"), graph)


def test_unlabelled_rows_are_in_no_mask(folder):
    def forget(rows):
        rows[4] = 0
        return rows

    change(folder, "ally", forget)
    graph = load_planetoid(folder, "toy")
    assert graph.labels[4] == -1
    assert np.flatnonzero(graph.val_mask[0]).tolist() == [3, 5, 6]


def test_other_containers(folder):
    expected = load_planetoid(folder, "toy")
    change(folder, "allx", lambda x: x.toarray())
    change(folder, "tx", scipy.sparse.csc_matrix)
    change(folder, "ally", scipy.sparse.csr_matrix)
    change(folder, "graph", lambda graph: {i: tuple(ids) for i, ids in graph.items() if ids})
    assert_same(load_planetoid(folder, "toy"), expected)
    change(folder, "graph", lambda graph: {i: np.array(ids, int) for i, ids in graph.items()})
    assert_same(load_planetoid(folder, "toy"), expected)
    sets = {i: set(ids.tolist()) for i, ids in enumerate(neighbours(expected))}
    (folder / "ind.toy.graph").write_bytes(pickle.dumps(sets, protocol=5))
    assert_same(load_planetoid(folder, "toy"), expected)


def neighbours(graph):
    return np.split(graph.senders, graph.row_starts[1:-1])


def with_value(rows, at, value):
    rows = rows.astype(float)
    rows[at] = value
    return rows


@pytest.mark.parametrize(
    ("part", "edit", "named"),
    [
        ("graph", lambda g: g | {2: [3, 12]}, "entry 2: there is no node 12, nodes are 0 to 11"),
        ("graph", lambda g: g | {12: []}, "entry 12: there is no node 12"),
        ("graph", lambda g: g | {2: [-1]}, "entry 2: there is no node -1"),
        ("graph", lambda g: g | {2: ["a"]}, "entry 2 needs an integer and a list of integers"),
        ("graph", lambda g: g | {2: 3}, "entry 2 needs an integer and a list of integers, has 3"),
        ("graph", lambda g: g | {"b": [3]}, "entry 'b' needs an integer"),
        ("graph", lambda g: [g], "holds list, needs a dict"),
        ("allx", lambda x: with_value(x, (5, 2), np.nan), "row 5, column 2 is nan"),
        ("tx", lambda x: x[:, :3], "has 3 columns, ind.toy.allx has 4"),
        ("x", lambda x: x[:2], None),
        ("ally", lambda y: y[:-1], "has 6 rows, ind.toy.allx has 7"),
        ("ty", lambda y: y[:, :2], "has 2 columns, ind.toy.ally has 3"),
        ("ty", lambda y: with_value(y, (1,), 1), "labels: row 1 has 3 classes, needs one"),
        ("ty", lambda y: 2 * y, "labels: row 0 holds 2, not 0/1"),
        ("ty", lambda y: y.astype(str), "holds a matrix of <U"),
        ("ty", lambda y: {}, "holds dict, needs a matrix"),
    ],
)
def test_malformed_pickles_are_refused(folder, part, edit, named):
    change(folder, part, edit)
    if named is None:
        part, named = "y", "has 3 rows, ind.toy.x has 2"
    with pytest.raises(ValueError, match=rf"ind\.toy\.{part}: {named}"):
        load_planetoid(folder, "toy")


@pytest.mark.parametrize(
    ("lines", "named"),
    [
        (["7", "8", "x", "10", "11"], "line 3: b'x' is not an integer"),
        (["7", "8", "8", "10", "11"], "line 3: node 8 is there already, on line 2"),
        (["7", "8", "3", "10", "11"], "line 3: node 3 is one of the 7 nodes of allx"),
        (["7", "8", "9", "10"], "has 4 nodes, tx has 5 rows"),
        (["7", "8", "9", "10", "11000000"], "line 5: node 11000000 is far beyond"),
    ],
)
def test_malformed_test_index_is_refused(folder, lines, named):
    (folder / "ind.toy.test.index").write_text("\n".join(lines) + "\n")
    with pytest.raises(ValueError, match=rf"ind\.toy\.test\.index: {named}"):
        load_planetoid(folder, "toy")


class Harmful:
    def __reduce__(self):
        return os.system, ("true",)


@pytest.mark.parametrize("part", [p for p in PARTS if p != "test.index"])
def test_pickles_that_ask_for_more_are_refused(folder, part):
    change(folder, part, lambda _: Harmful())
    with pytest.raises(ValueError, match=rf"ind\.toy\.{part}: asks for posix\.system"):
        load_planetoid(folder, "toy")


@pytest.mark.parametrize("part", PARTS)
def test_missing_files_are_named(folder, part):
    (folder / f"ind.toy.{part}").unlink()
    with pytest.raises(FileNotFoundError, match=rf"ind\.toy\.{part}"):
        load_planetoid(folder, "toy")


@pytest.mark.parametrize(
    ("train", "val", "test", "named"),
    [
        ([1, 2], [3, 4], [7, 8, 9, 10, 11], "training nodes first"),
        ([0, 1, 2], [3, 4], [7, 8, 9, 10, 11], "nodes 3 to 6 for validation"),
        ([0, 1, 2], [3, 4, 5, 6], [7, 8, 10, 11], "test nodes last"),
        ([0, 1, 2], [3, 4, 5, 6], [7, 8, 9, 10], "test nodes last"),
    ],
)
def test_graphs_in_another_order_are_not_written(tmp_path, train, val, test, named):
    masks = [np.isin(np.arange(12), part) for part in (train, val, test)]
    with pytest.raises(ValueError, match=named):
        save_planetoid(tmp_path, "toy", small_graph().with_split(masks))
    assert not list(tmp_path.iterdir())


def test_graphs_with_several_splits_are_not_written(tmp_path):
    with pytest.raises(ValueError, match="2 splits, Planetoid's files hold one"):
        save_planetoid(tmp_path, "toy", small_graph(splits=2))
