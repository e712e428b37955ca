import dataclasses
import gzip
import warnings

import numpy as np
import pytest

from neurips25.graphs import load_ogb_folder, save_ogb_folder
from tests.graphs.small_graphs import assert_same, small_graph


@pytest.fixture
def folder(tmp_path):
    save_ogb_folder(tmp_path / "ogbn_toy", small_graph(splits=1), scheme="time")
    return tmp_path / "ogbn_toy"


def rewrite(path, text):
    path.write_bytes(gzip.compress(text.encode()))


def lines_of(path):
    return gzip.decompress(path.read_bytes()).decode().splitlines()


def test_round_trip(folder):
    got = load_ogb_folder(folder)
    assert_same(got, small_graph(splits=1))
    assert got.name == "ogbn_toy"
    assert lines_of(folder / "raw" / "num-node-list.csv.gz") == ["12"]
    edges = len(lines_of(folder / "raw" / "edge.csv.gz"))
    assert lines_of(folder / "raw" / "num-edge-list.csv.gz") == [str(edges)]


def test_unknown_labels(tmp_path):
    graph = small_graph(splits=1)
    labels, none = graph.labels.copy(), np.zeros(12, bool)
    labels[4] = -1
    graph = graph.with_split([mask & (labels >= 0) for mask in graph.split(0)])
    graph = dataclasses.replace(graph, labels=labels)
    save_ogb_folder(tmp_path / "toy", graph)
    path = tmp_path / "toy" / "raw" / "node-label.csv.gz"
    assert lines_of(path)[4] == "nan"
    for missing in ("nan", '""'):
        lines = lines_of(path)
        lines[4] = missing
        rewrite(path, "\n".join(lines) + "\n")
        assert_same(load_ogb_folder(tmp_path / "toy"), graph)
    assert not none.any()


def test_nodes_of_the_split_without_a_label(folder):
    graph = small_graph(splits=1)
    train = np.flatnonzero(graph.train_mask[0])[:2]
    test = np.flatnonzero(graph.test_mask[0])[:1]
    without = np.isin(np.arange(12), [*train, *test])
    rows = [f"{'nan' if gone else 0},{y}" for y, gone in zip(graph.labels, without)]
    rewrite(folder / "raw" / "node-label.csv.gz", "\n".join(rows))
    named = (
        r"label\.csv\.gz: task 0 has no label for 3 of .*: 2 of train_mask, 0 of val_.*, 1 of test"
    )
    with pytest.warns(UserWarning, match=named):
        got = load_ogb_folder(folder)
    for field in ("train_mask", "val_mask", "test_mask"):
        np.testing.assert_array_equal(getattr(got, field), getattr(graph, field) & ~without)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_same(load_ogb_folder(folder, task=1), graph)


def test_a_folder_without_a_split(folder):
    (folder / "split").rename(folder / "elsewhere")
    assert load_ogb_folder(folder).num_splits == 0
    with pytest.raises(FileNotFoundError, match="time"):
        load_ogb_folder(folder, "time")


def test_files_that_are_not_compressed(folder):
    for path in list(folder.rglob("*.csv.gz")):
        path.with_suffix("").write_bytes(gzip.decompress(path.read_bytes()))
        path.unlink()
    assert_same(load_ogb_folder(folder), small_graph(splits=1))


def test_several_schemes(folder):
    save_ogb_folder(folder, small_graph(splits=1, seed=1), scheme="other")
    with pytest.raises(ValueError, match=r"split: needs one split scheme, has other, time"):
        load_ogb_folder(folder)
    rng_masks = small_graph(splits=1, seed=1)
    got = load_ogb_folder(folder, "other")
    np.testing.assert_array_equal(got.train_mask, rng_masks.train_mask)


def test_tasks(folder):
    label = small_graph().labels
    rows = [f"{int(y == 0)},{int(y == 1)}.0,{int(y == 2)}" for y in label]
    rewrite(folder / "raw" / "node-label.csv.gz", "\n".join(rows))
    for task in range(3):
        graph = load_ogb_folder(folder, task=task)
        assert graph.num_classes == 2
        np.testing.assert_array_equal(graph.labels, label == task)
    for task in (3, -1):
        named = f"line 1: has 3 columns, so there is no task={task}, only 0 to 2"
        with pytest.raises(ValueError, match=named):
            load_ogb_folder(folder, task=task)


def test_features_of_edges(folder):
    graph = small_graph()
    edges = graph.undirected_edges
    values = np.random.default_rng(0).normal(size=(len(edges), 2)).astype(np.float32)
    (folder / "raw" / "node-feat.csv.gz").unlink()
    rows = [",".join(f"{x:.9g}" for x in row) for row in values]
    rewrite(folder / "raw" / "edge-feat.csv.gz", "\n".join(rows))
    features = load_ogb_folder(folder).features
    for i in range(12):
        mine = (edges == i).any(axis=1)
        expected = values[mine].mean(axis=0) if mine.any() else np.zeros(2)
        np.testing.assert_allclose(features[i], expected, atol=1e-6)


@pytest.mark.parametrize(
    ("file", "line", "content", "named"),
    [
        ("raw/edge", 3, "1,12", "line 3: edge to a missing node, nodes are 0 to 11"),
        ("raw/edge", 3, "1,x", "line 3: 'x' is not an integer"),
        ("raw/edge", 3, "1", "line 3: has 1 columns, needs 2"),
        ("raw/node-feat", 2, "1,2,nan,4", "line 2: a feature is not a finite number"),
        ("raw/node-feat", 2, "1,2,a,4", "line 2: 'a' is not a number"),
        ("raw/node-feat", 2, "1,2,3", "line 2: has 3 columns, needs 4"),
        ("raw/node-feat", 12, "", "has 11 rows, needs 12"),
        ("raw/node-label", 2, "1.5", "line 2: '1.5' is no class"),
        ("raw/node-label", 2, "-1", "line 2: '-1' is no class"),
        ("raw/node-label", 2, "b", "line 2: 'b' is no class"),
        ("raw/node-label", 2, "1e300", "line 2: '1e300' is no class"),
        ("raw/num-node-list", 1, "12\n3", r"holds \[12, 3\], needs the size of one graph"),
        ("split/time/train", 2, "12", "line 2: no such node, nodes are 0 to 11"),
        ("split/time/valid", 2, "SAME", "line 2: node is there already"),
    ],
)
def test_malformed_files_are_refused(folder, file, line, content, named):
    path = folder / f"{file}.csv.gz"
    lines = lines_of(path)
    lines[line - 1] = lines[0] if content == "SAME" else content
    rewrite(path, "\n".join(lines) + "\n")
    with pytest.raises(ValueError, match=rf"{file}\.csv\.gz: {named}"):
        load_ogb_folder(folder)


def test_labels_of_another_number(folder):
    path = folder / "raw" / "node-label.csv.gz"
    rewrite(path, "\n".join(lines_of(path)[:-1]))
    with pytest.raises(ValueError, match=r"node-label\.csv\.gz: has 11 rows, needs 12"):
        load_ogb_folder(folder)


@pytest.mark.parametrize("file", ["raw/edge", "raw/node-label", "raw/num-node-list"])
def test_broken_and_missing_files_are_named(folder, file):
    path = folder / f"{file}.csv.gz"
    path.write_bytes(path.read_bytes()[:-6])
    with pytest.raises(ValueError, match=rf"{file}\.csv\.gz: broken gzip file"):
        load_ogb_folder(folder)
    path.unlink()
    with pytest.raises(FileNotFoundError, match=rf"raw: has no {path.name}"):
        load_ogb_folder(folder)


def test_graphs_with_several_splits_are_not_written(tmp_path):
    with pytest.raises(ValueError, match="2 splits, an OGB folder holds one"):
        save_ogb_folder(tmp_path, small_graph(splits=2))
