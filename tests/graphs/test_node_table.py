import numpy as np
import pytest

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
    assert [nodes.row_of(cell) for cell in ("0", " 2 ")] == [0, 2]
    for bad in ("3", "-1", "1.0", "", "²"):
        with pytest.raises(ValueError, match="there is no node"):
            nodes.row_of(bad)


def test_labels_that_are_names_or_numbers(path):
    nodes = NodeTable(np.zeros((4, 1)))
    for text, expected in (
        ("10\n9\n-1\n9\n", [10, 9, -1, 9]),
        ("b\na\nnan\nb\n", [1, 0, -1, 1]),
        ("label\n1.5\n0\n-1\n0\n", [1, 0, -1, 0]),
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
