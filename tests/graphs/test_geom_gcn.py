import numpy as np
import pytest

from neurips25.graphs import load_geom_gcn, load_heterophilous_npz, save_geom_gcn
from tests.graphs.small_graphs import assert_same, small_graph

NODES, EDGES = "out1_node_feature_label.txt", "out1_graph_edges.txt"


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "toy"
    path.mkdir()
    write(path, ["0\t1,0,1\t0", "1\t0,0,0\t1", "2\t1,1,1\t1"], ["0\t1", "2\t1"])
    return path


def write(path, nodes, edges, header=True):
    head = (["node_id\tfeature\tlabel"], ["node_id\tnode_id"]) if header else ([], [])
    (path / NODES).write_text("\n".join(head[0] + nodes) + "\n")
    (path / EDGES).write_text("\n".join(head[1] + edges) + "\n")


def test_round_trip(tmp_path):
    graph = small_graph(splits=11)
    save_geom_gcn(tmp_path / "toy", graph)
    got = load_geom_gcn(tmp_path / "toy")
    assert_same(got, graph)
    assert got.name == "toy"
    assert (tmp_path / "toy" / "toy_split_0.6_0.2_10.npz").exists()


def test_splits_in_a_folder_of_their_own(tmp_path):
    graph = small_graph()
    save_geom_gcn(tmp_path / "toy", graph, tmp_path / "splits")
    assert_same(load_geom_gcn(tmp_path / "toy", tmp_path / "splits"), graph)
    assert load_geom_gcn(tmp_path / "toy").num_splits == 0
    (tmp_path / "toy").rename(tmp_path / "renamed")
    with pytest.raises(FileNotFoundError, match=r"splits: has no renamed_split_\*\.npz"):
        load_geom_gcn(tmp_path / "renamed", tmp_path / "splits")
    assert_same(load_geom_gcn(tmp_path / "renamed", tmp_path / "splits", name="toy"), graph)


def test_splits_of_another_name_beside_the_graph_are_its_own(tmp_path):
    graph = small_graph()
    save_geom_gcn(tmp_path / "toy", graph)
    (tmp_path / "toy").rename(tmp_path / "raw")
    assert_same(load_geom_gcn(tmp_path / "raw"), graph)
    save_geom_gcn(tmp_path / "other", small_graph(seed=1), tmp_path / "raw")
    assert load_geom_gcn(tmp_path / "raw").num_splits == 0
    assert_same(load_geom_gcn(tmp_path / "raw", name="toy"), graph)


def test_a_published_graph_in_this_format(data_file, tmp_path):
    graph = load_heterophilous_npz(data_file("ugcformer/heterophilous/texas.npz"))
    save_geom_gcn(tmp_path / "texas", graph)
    assert_same(load_geom_gcn(tmp_path / "texas"), graph)
    line = (tmp_path / "texas" / NODES).read_text().splitlines()[1]
    assert line.startswith("0\t0,0,0")


def test_text(folder):
    graph = load_geom_gcn(folder)
    assert graph.features.tolist() == [[1, 0, 1], [0, 0, 0], [1, 1, 1]]
    assert graph.undirected_edges.tolist() == [[0, 1], [1, 2]]
    assert (graph.labels.tolist(), graph.num_classes, graph.num_splits) == ([0, 1, 1], 2, 0)


def test_ids_in_any_order_and_no_header(folder):
    expected = load_geom_gcn(folder)
    write(folder, ["7\t1,1,1\t1", "3\t1,0,1\t0", "5\t0,0,0\t1"], ["5\t3", "7\t5"], header=False)
    assert_same(load_geom_gcn(folder), expected)


def test_features_as_lists_of_columns(folder):
    write(folder, ["0\t5,2\t0", "1\t\t1", "2\t0,1,3\t1"], ["0\t1"])
    graph = load_geom_gcn(folder)
    assert graph.features.shape == (3, 6)
    assert [np.flatnonzero(row).tolist() for row in graph.features] == [[2, 5], [], [0, 1, 3]]
    wide = load_geom_gcn(folder, num_features=9)
    assert wide.features.shape == (3, 9)
    with pytest.raises(ValueError, match=rf"{NODES}: line 2: column 5 is not below num_feat.*=5"):
        load_geom_gcn(folder, num_features=5)
    # Of one length they look like numbers, unless one says what they are.
    write(folder, ["0\t0,2\t0", "1\t1,2\t1"], ["0\t1"])
    assert load_geom_gcn(folder).features.tolist() == [[0, 2], [1, 2]]
    assert load_geom_gcn(folder, num_features=3).features.tolist() == [[1, 0, 1], [0, 1, 1]]


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("2\t1,1,1", r"has 2 columns between tabs, needs 3 \(id, features, label\)"),
        ("2\t1,1,1\t1\t1", "has 4 columns between tabs"),
        ("x\t1,1,1\t1", "id 'x' and label '1' must be integers"),
        ("2\t1,1,1\t1.5", "id '2' and label '1.5' must be integers"),
        ("2\t1,1,1\t-1", "label -1 is negative"),
        ("1\t1,1,1\t1", "node 1 is there already, on line 3"),
        ("2\t1,a,1\t1", "features: .*'a'"),
        ("2\t1,nan,1\t1", "feature 1 is nan, not finite"),
        ("2\t1,1\t1", "has 2 features, line 2 has 3"),
        ("2\t1,0.5,1,1\t1", "has 4 features, line 2 has 3"),
    ],
)
def test_malformed_nodes_are_refused(folder, line, named):
    write(folder, ["0\t1,0,1\t0", "1\t0,0,0\t1", line], ["0\t1"])
    with pytest.raises(ValueError, match=rf"{NODES}: line 4: {named}"):
        load_geom_gcn(folder)


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("1\t3", f"edge to a node that {NODES} hasn't got"),
        ("-1\t0", f"edge to a node that {NODES} hasn't got"),
        ("1\tx", "'x' is not an integer"),
        ("1", "has 1 columns, needs 2"),
    ],
)
def test_malformed_edges_are_refused(folder, line, named):
    write(folder, ["0\t1,0,1\t0", "1\t0,0,0\t1"], ["0\t1", line])
    with pytest.raises(ValueError, match=rf"{EDGES}: line 3: {named}"):
        load_geom_gcn(folder)


def test_malformed_splits_are_refused(tmp_path):
    save_geom_gcn(tmp_path / "toy", small_graph())
    path = tmp_path / "toy" / "toy_split_0.6_0.2_1.npz"
    good = np.zeros(12, bool)
    np.savez(path, train_mask=good, val_mask=np.zeros(11, bool), test_mask=good)
    with pytest.raises(ValueError, match=r"split_0.6_0.2_1.npz: val_mask has shape \[11\]"):
        load_geom_gcn(tmp_path / "toy")
    np.savez(path, train_mask=good, test_mask=good)
    with pytest.raises(ValueError, match=r"split_0.6_0.2_1.npz: has no array 'val_mask'"):
        load_geom_gcn(tmp_path / "toy")


def test_files_with_nothing_to_read(folder):
    (folder / NODES).write_text("node_id\tfeature\tlabel\n")
    with pytest.raises(ValueError, match=f"{NODES}: has no nodes"):
        load_geom_gcn(folder)
    (folder / NODES).unlink()
    with pytest.raises(FileNotFoundError, match=NODES):
        load_geom_gcn(folder)


def test_graphs_with_unknown_labels_are_not_written(tmp_path):
    graph = small_graph(splits=0)
    graph.labels[3] = -1
    with pytest.raises(ValueError, match="node 3 has no label"):
        save_geom_gcn(tmp_path / "toy", graph)


def test_splits_where_the_published_files_have_them(tmp_path):
    graph = small_graph()
    save_geom_gcn(tmp_path / "new_data" / "toy", graph, tmp_path / "splits")
    assert_same(load_geom_gcn(tmp_path / "new_data" / "toy"), graph)
    # Those of another graph are not this one's, though nothing else is there.
    (tmp_path / "new_data" / "toy").rename(tmp_path / "new_data" / "renamed")
    assert load_geom_gcn(tmp_path / "new_data" / "renamed").num_splits == 0


@pytest.mark.parametrize("form", ["{}.0", '"{}"', " {}", "1000000000000{}"])
def test_ids_in_other_forms(folder, form):
    expected = load_geom_gcn(folder)
    ids = [form.format(i) for i in range(3)]
    features = ("1,0,1\t0", "0,0,0\t1.0", "1,1,1\t1")
    for header in (True, False):
        write(
            folder,
            [f"{i}\t{rest}" for i, rest in zip(ids, features)],
            [f"{ids[0]}\t{ids[1]}", f"{ids[2]}\t{ids[1]}"],
            header,
        )
        assert_same(load_geom_gcn(folder), expected)
    write(folder, [f"{10**20}\t1,0,1\t0"], [])
    with pytest.raises(ValueError, match=r"line 2: id 1000.* does not fit int64"):
        load_geom_gcn(folder)
