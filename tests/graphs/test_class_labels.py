import numpy as np
import pytest

from neurips25.graphs.class_labels import labels_from_array, labels_from_text


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["10", "9", "-1", "9"], [10, 9, -1, 9]),
        (["10.0", "9.0", "-1.0", "2"], [10, 9, -1, 2]),
        (["1e1", " 9 ", "", "nan"], [10, 9, -1, -1]),
        (["10.5", "9", "-1", "9.0"], [1, 0, -1, 0]),
        (["b", "a", "-1.0", "b"], [1, 0, -1, 1]),
        (["10", "9", "x", "10"], [0, 1, 2, 0]),
        (["True", "False", "None", "NULL"], [1, 0, -1, -1]),
        (["NA", "N/A", "<NA>", "?"], [-1, -1, -1, -1]),
        (["inf", "1"], [1, 0]),
        ([], []),
    ],
)
def test_labels_from_text(cells, expected):
    labels = labels_from_text(cells)
    assert labels.dtype == np.int64
    assert labels.tolist() == expected


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (np.array([2, 0, -1], np.int8), [2, 0, -1]),
        (np.array([[2.0], [np.nan], [0.0]], np.float32), [2, -1, 0]),
        (np.array([True, False]), [1, 0]),
        (np.array(["b", "a", ""]), [1, 0, -1]),
        (np.array([b"10", b"9", b"nan"]), [10, 9, -1]),
        (np.array([[0, 1], [0, 0], [1, 0]]), [1, -1, 0]),
    ],
)
def test_labels_from_arrays(values, expected):
    labels = labels_from_array("y", values)
    assert labels.dtype == np.int64
    assert labels.tolist() == expected


@pytest.mark.parametrize(
    ("values", "named"),
    [
        (np.array([0.0, 0.5]), r"y\[1\] is 0.5, needs an integer"),
        (np.array([0.0, np.inf]), r"y\[1\] is inf, needs an integer"),
        (np.array(3), r"y has shape \[\], needs 1 axes"),
        (np.array([[1, 1], [0, 1]]), "row 0 has 2 classes"),
    ],
)
def test_other_arrays_are_refused(values, named):
    with pytest.raises(ValueError, match=named):
        labels_from_array("y", values)
