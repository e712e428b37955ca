import dataclasses
import gzip

import numpy as np
import pytest
import scipy.sparse

from neurips25.graphs import load_edge_list, save_edge_list
from tests.graphs.small_graphs import assert_same, small_graph


def partly_labelled():
    graph = small_graph(splits=0)
    labels = graph.labels.copy()
    labels[[3, 11]] = -1
    return dataclasses.replace(graph, labels=labels)


def write(folder, **files):
    for stem, lines in files.items():
        (folder / f"{stem}.csv").write_text("\n".join(lines) + "\n")


@pytest.fixture
def folder(tmp_path):
    """Three nodes with names, classes with names, and a split."""
    write(
        tmp_path,
        edges=["src,dst", "ann,bob", "bob,cy d"],
        features=[
            "id,age,label,height,split",
            "ann,1,old,2,train",
            "bob,3,,4,",
            "cy d,5,new,6,test",
        ],
    )
    return tmp_path


@pytest.mark.parametrize("text", [False, True])
@pytest.mark.parametrize("make", [small_graph, partly_labelled])
def test_round_trip(tmp_path, make, text):
    graph = make()
    save_edge_list(tmp_path / "toy", graph, text=text)
    got = load_edge_list(tmp_path / "toy")
    assert_same(got, graph)
    assert got.name == "toy"
    assert (tmp_path / "toy" / "features.csv").exists() == text


def test_names(folder):
    graph = load_edge_list(folder)
    assert graph.features.tolist() == [[1, 2], [3, 4], [5, 6]]
    assert graph.undirected_edges.tolist() == [[0, 1], [1, 2]]
    assert graph.labels.tolist() == [1, -1, 0]
    assert [np.flatnonzero(mask).tolist() for mask in graph.split(0)] == [[0], [], [2]]


def test_rows_by_number_and_no_header(tmp_path):
    write(
        tmp_path,
        edges=["0,1,0.5", "2,1,0.25"],
        features=["1,2", "3,4", "5,6"],
        labels=["7", "", "2"],
        split=["test", "val", "train"],
    )
    # A single empty cell is an empty line, which is no row.
    with pytest.raises(ValueError, match=r"labels\.csv: has 2 rows, needs 3"):
        load_edge_list(tmp_path)
    write(tmp_path, labels=["7", "-1", "2"], split=["test", '""', "train"])
    graph = load_edge_list(tmp_path)
    assert graph.features.tolist() == [[1, 2], [3, 4], [5, 6]]
    assert graph.labels.tolist() == [7, -1, 2]
    assert graph.num_classes == 8
    assert [np.flatnonzero(mask).tolist() for mask in graph.split(0)] == [[2], [], [0]]


def test_tables_by_id(folder):
    write(
        folder,
        labels=["label,node", "b,cy d", "a,bob"],
        split=["cy d,VAL", "ann,", "bob,training"],
    )
    graph = load_edge_list(folder)
    assert graph.labels.tolist() == [-1, 0, 1]
    assert [np.flatnonzero(mask).tolist() for mask in graph.split(0)] == [[1], [2], []]


def test_files_of_any_name(folder, tmp_path):
    expected = load_edge_list(folder)
    graph = load_edge_list(folder / "edges.csv", features=folder / "features.csv", name="x")
    assert_same(graph, expected)
    assert graph.name == "x"
    with pytest.raises(ValueError, match=r"edges\.csv: is no folder, so features= must name"):
        load_edge_list(folder / "edges.csv")


@pytest.mark.parametrize("delimiter", ["\t", " ", ";", ", "])
def test_other_delimiters_and_comments(tmp_path, delimiter):
    graph = small_graph(splits=0)
    save_edge_list(tmp_path, graph)
    lines = [f"{i}{delimiter}{j}" for i, j in graph.undirected_edges]
    for head in ([], ["# from SNAP", "% or elsewhere"], [f"FromNodeId{delimiter}ToNodeId"]):
        (tmp_path / "edges.csv").write_text("\n".join(head + lines))
        assert_same(load_edge_list(tmp_path), graph)


def test_compressed_text_and_a_byte_order_mark(folder):
    expected = load_edge_list(folder)
    for stem in ("edges", "features"):
        path = folder / f"{stem}.csv"
        text = path.read_bytes()
        path.unlink()
        (folder / f"{stem}.csv.gz").write_bytes(gzip.compress(b"\xef\xbb\xbf" + text))
    assert_same(load_edge_list(folder), expected)


def test_graphs_without_edges_or_labels(tmp_path):
    write(tmp_path, features=["1", "2"])
    for content in ("", "src,dst\n", "# nothing\n"):
        (tmp_path / "edges.csv").write_text(content)
        graph = load_edge_list(tmp_path)
        assert (graph.num_nodes, graph.num_edges, graph.num_classes) == (2, 0, 1)
        assert graph.labels.tolist() == [-1, -1]


@pytest.mark.parametrize(
    ("stem", "line", "content", "named"),
    [
        ("edges", 2, "ann,zoe", "there is no node 'zoe'"),
        ("edges", 1, "ann", "has one column, needs two ids"),
        ("edges", 0, "zoe,ann", "there is no node 'zoe'"),
        ("features", 2, "ann,3,,4,", "node 'ann' is there already, on line 2"),
        ("features", 3, "cy d,x,new,6,test", "'x' is not a number"),
        ("features", 3, "cy d,nan,new,6,test", "feature nan is not finite"),
        ("features", 3, "cy d,1,new,6", "has 4 columns, needs 5"),
        ("features", 3, "cy d,1,new,6,exam", "'exam' is none of train, training, val"),
    ],
)
def test_malformed_lines_are_refused(folder, stem, line, content, named):
    path = folder / f"{stem}.csv"
    lines = path.read_text().splitlines()
    lines[line] = content
    path.write_text("\n".join(lines))
    with pytest.raises(ValueError, match=rf"{stem}\.csv: line {line + 1}: {named}"):
        load_edge_list(folder)


@pytest.mark.parametrize(
    ("stem", "lines", "named"),
    [
        ("labels", ["id,label", "ann,1", "zoe,2"], "line 3: there is no node 'zoe'"),
        ("labels", ["ann,1", "bob,2", "ann,1"], "line 3: node 'ann' is there already"),
        ("split", ["ann,train", "bob,exam"], "line 2: 'exam' is none of train"),
        ("labels", ["1", "2"], "has 2 rows, needs 3: one for each node"),
    ],
)
def test_malformed_tables_are_refused(folder, stem, lines, named):
    write(folder, **{stem: lines})
    with pytest.raises(ValueError, match=rf"{stem}\.csv: {named}"):
        load_edge_list(folder)


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("1,12", "edge to a missing node, nodes are 0 to 11"),
        ("-1,2", "edge to a missing node"),
        ("1,x", "'x' is not an integer"),
        ("1", "has 1 columns, needs 2"),
    ],
)
def test_malformed_edges_by_number_are_refused(tmp_path, line, named):
    save_edge_list(tmp_path, small_graph())
    lines = (tmp_path / "edges.csv").read_text().splitlines()
    # Empty lines count as lines, though not as edges.
    (tmp_path / "edges.csv").write_text("\n".join([*lines[:3], "", line, *lines[3:]]))
    with pytest.raises(ValueError, match=rf"edges\.csv: line 5: {named}"):
        load_edge_list(tmp_path)


@pytest.mark.parametrize(
    ("file", "array", "named"),
    [
        ("features.npy", np.full((12, 2), np.inf), r"features\[0, 0\] is inf"),
        ("features.npy", np.zeros(12), r"features has shape \[12\]"),
        ("features.npy", np.array([[None]]), "not a readable .npy file: Object arrays"),
        ("labels.npy", np.zeros(11, int), "has 11 labels, needs 12"),
        ("labels.npy", np.full(12, 0.5), r"labels\[0\] is 0.5"),
    ],
)
def test_malformed_arrays_are_refused(tmp_path, file, array, named):
    save_edge_list(tmp_path, small_graph())
    np.save(tmp_path / file, array)
    with pytest.raises(ValueError, match=rf"{file}: {named}"):
        load_edge_list(tmp_path)


def test_malformed_splits_are_refused(tmp_path):
    save_edge_list(tmp_path, small_graph(splits=0))
    masks = {f"{part}_masks": np.zeros((2, 12)) for part in ("train", "val", "test")}
    np.savez(tmp_path / "split.npz", **masks)
    assert load_edge_list(tmp_path).num_splits == 2
    np.savez(tmp_path / "split.npz", **(masks | {"val_masks": np.zeros((2, 11))}))
    with pytest.raises(ValueError, match=r"split\.npz: val_masks has shape \[2, 11\]"):
        load_edge_list(tmp_path)


def test_missing_files_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"has no edges\.csv"):
        load_edge_list(tmp_path)
    write(tmp_path, edges=["0,1"])
    with pytest.raises(FileNotFoundError, match=r"has no features\.npy \(or \.npz, \.csv"):
        load_edge_list(tmp_path)


def test_splits_as_ids_of_nodes(tmp_path):
    save_edge_list(tmp_path, small_graph(splits=0))
    path = tmp_path / "split.npz"
    for train, val in (("train", "val"), ("train_idx", "valid_idx")):
        np.savez(path, **{train: [3, 0], val: [5]}, test=np.arange(12) > 9)
        split = load_edge_list(tmp_path).split(0)
        assert [np.flatnonzero(mask).tolist() for mask in split] == [[0, 3], [5], [10, 11]]
    np.savez(path, train=[0], val=[1, 12], test=[2])
    with pytest.raises(ValueError, match=r"split\.npz: val\[1\] is 12, but nodes are 0 to 11"):
        load_edge_list(tmp_path)
    np.savez(path, train=[0], test=[2])
    with pytest.raises(ValueError, match=r"split\.npz: has no array 'val_mask', only test, train"):
        load_edge_list(tmp_path)


def test_an_index_as_pandas_writes_it(tmp_path):
    write(tmp_path, features=[",x,label", "5,0.5,0", "9,1.5,1"], edges=["src,dst", "9,5"])
    graph = load_edge_list(tmp_path)
    assert graph.features.tolist() == [[0.5], [1.5]]
    assert graph.labels.tolist() == [0, 1]
    assert graph.num_edges == 1


@pytest.mark.parametrize("by_id", [False, True])
@pytest.mark.parametrize(
    "edges",
    [
        [",src,dst", "0,7,8", "1,8,9"],
        ["weight,source,target,note", "0.5,7,8,a", "2,8,9,b"],
        ["src,weight,dst", "7,0.5,8", "8,2,9"],
    ],
    ids=["index", "weight", "between"],
)
def test_ends_are_found_by_the_header(tmp_path, edges, by_id):
    ids = [f"{i}," if by_id else "" for i in range(10)]
    write(tmp_path, edges=edges, features=["id,x" if by_id else "x", *(f"{i}1" for i in ids)])
    graph = load_edge_list(tmp_path)
    assert graph.undirected_edges.tolist() == [[7, 8], [8, 9]]


@pytest.mark.parametrize(
    "text",
    [
        ",paper,ref\n0,7,8\n1,8,9\n",
        ",0,1\n0,7,8\n1,8,9\n",
        "Unnamed: 0,a1,b1\n0,7,8\n1,8,9\n",
        "id,src_id,dst_id\n0,7,8\n1,8,9\n",
        "Source,Target,Type,Id,Label,Weight\n7,8,Undirected,0,,1.0\n8,9,Undirected,1,,1.0\n",
        "weight,target,source\n0,8,7\n0,9,8\n",
        '\ufeff"from","to"\r\n"7","8"\r\n"8","9"\r\n',
        "src;w;dst\n7;0,5;8\n8;0,5;9\n",
        "7;8;0,5\n8;9;0,5\n",
        "# a b\n7.0,8.0\n8.0,9.0\n",
        "7.000e+00 8.000e+00\n8.000e+00 9.000e+00\n",
        "7 8 {'weight': 3, 'year': 2001}\n8 9 {}\n",
        "\n \n  7   8\n\n8 9 \n",
        "node_1\tnode_2\r7\t8\r8\t9\r",
        "7,8,\n8,9,\n",
    ],
    ids=[
        *("index", "no names", "index twice", "id", "gephi", "target first", "quoted", "between"),
        *("decimal commas", "floats", "savetxt", "networkx", "white space", "old Mac", "open"),
    ],
)
@pytest.mark.parametrize("by_id", [False, True])
def test_edges_as_other_tools_write_them(tmp_path, text, by_id):
    ids = [f"{i}," if by_id else "" for i in range(10)]
    write(tmp_path, features=["id,x" if by_id else "x", *(f"{i}1" for i in ids)])
    (tmp_path / "edges.csv").write_bytes(text.encode())
    graph = load_edge_list(tmp_path)
    assert graph.undirected_edges.tolist() == [[7, 8], [8, 9]]


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("%%MatrixMarket matrix coordinate\n2 2 1\n1 2\n", "is a Matrix Market file, which counts"),
        ("0 1 2\n1 0\n2 0\n", "line 2: has 2 columns, line 1 3"),
        ("0 1\n# note\n2 0 1\n", "line 3: has 3 columns, line 1 2"),
        ("0,1\n1,\n", "line 2: '' is not an integer"),
        ("0,1\n1,99999999999999999999\n", "line 2: .* does not fit int64"),
    ],
)
def test_files_that_are_no_lists_of_edges_are_refused(tmp_path, text, named):
    write(tmp_path, features=["1", "2", "3"])
    (tmp_path / "edges.txt").write_text(text)
    with pytest.raises(ValueError, match=rf"edges\.txt: {named}"):
        load_edge_list(tmp_path)


def test_ids_beyond_64_bits(tmp_path):
    big = 10**25
    write(tmp_path, features=["id,x", f"{big},1", f"{big + 1},2"], edges=[f"{big + 1},{big}"])
    assert load_edge_list(tmp_path).num_edges == 1


def test_edges_in_arrays(tmp_path):
    graph = small_graph(splits=0)
    save_edge_list(tmp_path, graph)
    (tmp_path / "edges.csv").unlink()
    edges = graph.undirected_edges
    for array in (edges.astype(float), edges.T.astype(np.uint8)):
        np.save(tmp_path / "edges.npy", array)
        assert_same(load_edge_list(tmp_path), graph)
    np.save(tmp_path / "edges.npy", edges + 6)
    with pytest.raises(ValueError, match=r"edges\.npy: edges\[\d+\] is \(\d+, 1\d\), but"):
        load_edge_list(tmp_path)
    (tmp_path / "edges.npy").unlink()
    adjacency = scipy.sparse.coo_array((np.ones(len(edges)), edges.T), shape=(12, 12))
    scipy.sparse.save_npz(tmp_path / "edges.npz", adjacency)
    assert_same(load_edge_list(tmp_path), graph)
    scipy.sparse.save_npz(tmp_path / "edges.npz", scipy.sparse.csr_array((12, 11)))
    with pytest.raises(ValueError, match=r"edges\.npz: adjacency matrix has shape \(12, 11\)"):
        load_edge_list(tmp_path)


def test_labels_that_are_not_known(tmp_path):
    graph = partly_labelled()
    save_edge_list(tmp_path, graph)
    np.save(tmp_path / "labels.npy", np.where(graph.labels < 0, np.nan, graph.labels)[:, None])
    assert_same(load_edge_list(tmp_path), graph)


def test_a_line_without_the_named_column_is_refused(tmp_path):
    write(tmp_path, edges=[",src,dst", "0,0,1", "1,1"], features=["x", "1", "2"])
    with pytest.raises(ValueError, match=r"edges.csv: line 3: has 2 columns, needs 3"):
        load_edge_list(tmp_path)
