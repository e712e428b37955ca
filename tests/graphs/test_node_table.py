import numpy as np
import pytest
import scipy.sparse

from neurips25.graphs.node_table import (
    NodeTable,
    read_node_labels,
    read_node_split,
    read_node_table,
)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "t.csv"


def test_columns_in_any_order(path):
    path.write_text("x, Split ,ID,Y,z\n1,test,b,cat,2\n3,,a,,4\n")
    table = read_node_table(path)
    assert table.features.tolist() == [[1, 2], [3, 4]]
    assert table.index_of == {"b": 0, "a": 1}
    assert table.labels.tolist() == [0, -1]
    assert {field: mask.tolist() for field, mask in table.masks.items()} == {
        "train_mask": [False, False],
        "val_mask": [False, False],
        "test_mask": [True, False],
    }


def test_quoted_cells(path):
    path.write_text('id;x\n"a;b";1\n"c";2\n')
    table = read_node_table(path)
    assert table.index_of == {"a;b": 0, "c": 1}
    assert table.row_of(" a;b ") == 0


def test_rows_by_number():
    nodes = NodeTable(np.zeros((3, 1)))
    assert [nodes.row_of(cell) for cell in ("0", " 2 ", "1.0", "2.00e+00")] == [0, 2, 1, 2]
    for bad in ("3", "-1", "1.5", "", "²", "1_0"):
        with pytest.raises(ValueError, match="there is no node"):
            nodes.row_of(bad)


def test_labels_that_are_names_or_numbers(path):
    nodes = NodeTable(np.zeros((4, 1)))
    for text, expected in (
        ("10\n9\n-1\n9\n", [10, 9, -1, 9]),
        ("b\na\nnan\nb\n", [1, 0, -1, 1]),
        ("label\n1.5\n0\n-1\n0\n", [1, 0, -1, 0]),
        (",0\n0,10.0\n1,9.0\n2,\n3,9.0\n", [10, 9, -1, 9]),
        ("3 1\n2 0\n0 1\n1 2\n", [1, 2, 0, 1]),
        ("class 2\nclass 1\nNA\nclass 2\n", [1, 0, -1, 1]),
    ):
        path.write_text(text)
        assert read_node_labels(path, nodes).tolist() == expected


def test_words_of_a_split(path):
    path.write_text("train\nVal\n test \nvalidation\n")
    masks = read_node_split(path, NodeTable(np.zeros((4, 1))))
    assert masks["val_mask"].tolist() == [False, True, False, True]
    assert masks["test_mask"].tolist() == [False, False, True, False]


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", "has no rows"),
        ("id,x\n", "has no rows"),
        ("id,label\na,1\n", r"features has shape \[1, 0\]"),
        ("1,2\n3\n", "line 2: has 1 columns, needs 2"),
        ("id,x\na,1\n\nb,c\n", "line 4: 'c' is not a number"),
    ],
)
def test_malformed_tables_are_refused(path, text, named):
    path.write_text(text)
    with pytest.raises(ValueError, match=rf"t\.csv: {named}"):
        read_node_table(path)


def test_ids_in_any_form_of_a_number(path):
    path.write_text("id,x\n3.0,1\n5,2\n")
    table = read_node_table(path)
    assert [table.row_of(cell) for cell in ("3", "3.0", "5.0")] == [0, 0, 1]
    path.write_text("id,x\n3.0,1\n3,2\n")
    with pytest.raises(ValueError, match="line 3: node '3' is there already, on line 2"):
        read_node_table(path)


@pytest.mark.parametrize(
    ("text", "features"),
    [
        ("0,1,2\n0.5,1.5,2.5\n", [[0.5, 1.5, 2.5]]),
        (",0,1\n0,0.5,1.5\n1,2.5,3.5\n", [[0.5, 1.5], [2.5, 3.5]]),
        ("0,1,2\n3,4,5\n", [[0, 1, 2], [3, 4, 5]]),
        ("0,1\n0.5,0.5\n", [[0, 1], [0.5, 0.5]]),
        ("Unnamed: 0,a\n0,0.5\n", [[0.5]]),
        (" 5.0e-01   1.5e+00\n 2 3\n", [[0.5, 1.5], [2, 3]]),
        ("1;2\n  \n3;4\n", [[1, 2], [3, 4]]),
    ],
    ids=["columns", "index", "integers", "two", "saved twice", "savetxt", "semicolons"],
)
def test_tables_as_other_tools_write_them(path, text, features):
    path.write_text(text)
    assert read_node_table(path).features.tolist() == features


@pytest.mark.parametrize("form", ["csr", "csc", "coo"])
def test_sparse_features(tmp_path, form):
    dense = np.array([[0, 1.5], [2.0, 0], [0, 0]])
    matrix = scipy.sparse.csr_matrix(dense).asformat(form)
    scipy.sparse.save_npz(tmp_path / "x.npz", matrix)
    np.testing.assert_array_equal(read_node_table(tmp_path / "x.npz").features, dense)


def test_malformed_sparse_features_are_refused(tmp_path):
    path = tmp_path / "x.npz"
    scipy.sparse.save_npz(path, scipy.sparse.bsr_matrix(np.eye(2)))
    with pytest.raises(ValueError, match=r"x\.npz: is a sparse matrix in the form 'bsr', needs"):
        read_node_table(path)
    np.savez(path, format=b"csr", shape=[2, 2], data=[1.0], indices=[2], indptr=[0, 1, 1])
    with pytest.raises(ValueError, match=r"x\.npz: indices\[0\] is 2 \(row 0\)"):
        read_node_table(path)
    np.savez(path, x=np.eye(2))
    with pytest.raises(ValueError, match=r"x\.npz: has no array 'format', only x"):
        read_node_table(path)


MASKS = "train_mask,val_mask,test_mask"


def test_masks_as_columns(path):
    path.write_text(f"id,x,{MASKS}\na,1,True,False,False\nb,2,0,1,\nc,3,0.0,0,1.0\n")
    table = read_node_table(path)
    assert table.features.tolist() == [[1], [2], [3]]
    expected = [[True, False, False], [False, True, False], [False, False, True]]
    assert [table.masks[field].tolist() for field in MASKS.split(",")] == expected
    path.write_text(f"{MASKS},id\nfalse,TRUE,false,c\ntrue,false,false,a\n")
    masks = read_node_split(path, table)
    expected = [[True, False, False], [False, False, True], [False, False, False]]
    assert [masks[field].tolist() for field in MASKS.split(",")] == expected


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (f"x,{MASKS}\n1,1,0,2\n", "line 2: '2' is neither true nor false"),
        ("x,train_mask,test_mask\n1,1,0\n", "has train_mask, test_mask, needs train_mask, val"),
    ],
)
def test_malformed_masks_are_refused(path, text, named):
    path.write_text(text)
    with pytest.raises(ValueError, match=rf"t\.csv: {named}"):
        read_node_table(path)
