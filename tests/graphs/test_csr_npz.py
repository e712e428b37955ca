import numpy as np
import pytest
import scipy.sparse

from neurips25.graphs import load_csr_npz, save_csr_npz
from tests.graphs.small_graphs import assert_same, small_graph

MASKS = ("train_mask", "val_mask", "test_mask")


def arrays_of(prefix, matrix, joint="_"):
    matrix = scipy.sparse.csr_matrix(matrix)
    names = {"data": matrix.data, "indices": matrix.indices, "indptr": matrix.indptr}
    return {f"{prefix}{joint}{k}": v for k, v in (names | {"shape": matrix.shape}).items()}


@pytest.fixture
def adjacency():
    """A directed, weighted matrix with a loop and a stored zero, as published files have."""
    graph = small_graph()
    dense = np.zeros((12, 12), np.float32)
    i, j = graph.undirected_edges.T
    dense[i, j] = 2.5
    dense[3, 3] = 1
    matrix = scipy.sparse.csr_matrix(dense)
    matrix.data[:] = matrix.data
    zero = scipy.sparse.coo_matrix(([0.0], ([11], [0])), shape=(12, 12))
    rows, columns = matrix.tocoo().row, matrix.tocoo().col
    return scipy.sparse.coo_matrix(
        (
            np.append(matrix.data, zero.data),
            (np.append(rows, zero.row), np.append(columns, zero.col)),
        ),
        shape=(12, 12),
    ).tocsr()


@pytest.fixture
def arrays(adjacency):
    graph = small_graph()
    return (
        arrays_of("adj", adjacency) | arrays_of("attr", graph.features) | {"labels": graph.labels}
    )


def load(tmp_path, arrays, **options):
    np.savez(tmp_path / "toy.npz", **arrays)
    return load_csr_npz(tmp_path / "toy.npz", **options)


def test_round_trip(tmp_path):
    graph = small_graph()
    save_csr_npz(tmp_path / "toy.npz", graph)
    got = load_csr_npz(tmp_path / "toy.npz")
    assert_same(got, graph, but=MASKS)
    assert (got.name, got.num_splits) == ("toy", 10)


def test_directions_weights_loops_and_zeros(tmp_path, arrays):
    assert (arrays["adj_data"] == 0).any()
    assert_same(load(tmp_path, arrays), small_graph(), but=MASKS)


def test_older_names_and_dense_attributes(tmp_path, adjacency):
    graph = small_graph()
    old = arrays_of("adj_matrix", adjacency, ".")
    labels = {"labels": graph.labels}
    for attributes in (
        arrays_of("attr_matrix", graph.features, "."),
        {"attr_matrix": graph.features},
    ):
        assert_same(load(tmp_path, old | attributes | labels), graph, but=MASKS)


def test_one_hot_labels(tmp_path, arrays):
    one_hot = np.eye(3)[arrays.pop("labels")]
    for labels in (
        arrays_of("labels", one_hot),
        arrays_of("labels", one_hot, "."),
        {"labels": one_hot},
    ):
        assert_same(load(tmp_path, arrays | labels), small_graph(), but=MASKS)


def test_labels_in_other_types(tmp_path, arrays):
    labels = arrays["labels"].astype(np.float64)
    labels[4] = np.nan
    got = load(tmp_path, arrays | {"labels": labels[:, None]})
    np.testing.assert_array_equal(got.labels, np.where(np.isnan(labels), -1, labels))
    names = np.array(["a", "b", "c"])[arrays["labels"]]
    assert_same(load(tmp_path, arrays | {"labels": names}), small_graph(), but=MASKS)


def test_arrays_of_objects_that_are_not_needed(tmp_path, arrays):
    arrays["node_names"] = np.array(["a", None] * 6, object)
    assert_same(load(tmp_path, arrays), small_graph(), but=MASKS)


def test_splits(tmp_path, arrays):
    graph = load(tmp_path, arrays)
    assert [mask.sum(axis=1).tolist() for mask in (graph.train_mask, graph.val_mask)] == [
        [7] * 10,
        [2] * 10,
    ]
    assert_same(load(tmp_path, arrays, split_seed=0), graph)
    other = load(tmp_path, arrays, split_seed=1)
    assert (other.train_mask != graph.train_mask).any()
    few = load(tmp_path, arrays, num_splits=2, fractions=(0.5, 0.25, 0.25))
    assert few.test_mask.sum(axis=1).tolist() == [3, 3]
    assert load(tmp_path, arrays, num_splits=0).num_splits == 0


@pytest.mark.parametrize(
    ("key", "value", "named"),
    [
        ("adj_shape", (12, 11), r"adj_shape is \(12, 11\), needs \[n, n\]"),
        ("adj_shape", (12,), r"adj_shape is \[12\], needs two numbers"),
        ("adj_indptr", np.arange(13), "adj_indptr has 13 entries"),
        ("adj_indptr", np.arange(12), "adj_indptr has 12 entries"),
        ("labels", np.zeros(11, int), r"labels has shape \[11\]"),
        ("labels", np.full(12, 1j), "labels has dtype complex128"),
    ],
)
def test_malformed_arrays_are_refused(tmp_path, arrays, key, value, named):
    with pytest.raises(ValueError, match=rf"toy\.npz: {named}"):
        load(tmp_path, arrays | {key: value})


@pytest.mark.parametrize(
    ("key", "value", "named"),
    [
        ("adj_indices", 12, r"adj_indices\[1\] is 12 \(row 0\): columns are 0 to 11"),
        ("adj_data", np.nan, r"adj_data\[1\] is nan"),
        ("attr_data", np.inf, r"features\[0, 1\] is inf"),
    ],
)
def test_malformed_entries_are_refused(tmp_path, arrays, key, value, named):
    arrays[key] = arrays[key].copy()
    arrays[key][1] = value
    with pytest.raises(ValueError, match=rf"toy\.npz: {named}"):
        load(tmp_path, arrays)


@pytest.mark.parametrize("key", ["adj_data", "adj_shape", "attr_indices", "labels"])
def test_missing_arrays_are_named(tmp_path, arrays, key):
    del arrays[key]
    with pytest.raises(ValueError, match=rf"toy\.npz: has no array '{key}'"):
        load(tmp_path, arrays)
