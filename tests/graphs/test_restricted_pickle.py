import collections
import contextlib
import copyreg
import decimal
import os
import pickle

import numpy as np
import pytest
import scipy.sparse

from neurips25.graphs import restricted_pickle
from neurips25.graphs.restricted_pickle import load_data_pickle

MATRIX = np.array([[0, 1.5, 0], [2, 0, 0], [0, 0, 0], [0, -1, 3]])


class Call:
    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


def read(tmp_path, data):
    path = tmp_path / "ind.toy.part"
    path.write_bytes(data)
    return load_data_pickle(path)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize(
    "value",
    [
        {0: [1, 2], 1: []},
        collections.defaultdict(list, {0: [1, 2]}),
        collections.OrderedDict({3: [1]}),
        [1, 2.5, "é", b"\xff", None, (True, 10**30)],
    ],
    ids=str,
)
def test_plain_containers(tmp_path, protocol, value):
    got = read(tmp_path, pickle.dumps(value, protocol))
    assert got == value
    assert type(got) is type(value)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_numpy_arrays_and_scalars(tmp_path, protocol):
    integers = np.arange(6, dtype="<i4").reshape(2, 3)
    for value in (MATRIX, integers, np.asfortranarray(MATRIX), np.zeros(0, int)):
        got = read(tmp_path, pickle.dumps(value, protocol))
        np.testing.assert_array_equal(got, value)
        assert got.dtype == value.dtype
    assert read(tmp_path, pickle.dumps([np.int64(7)], protocol)) == [7]


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("form", ["csr", "csc", "coo"])
@pytest.mark.parametrize("kind", ["matrix", "array"])
def test_sparse_matrices(tmp_path, protocol, form, kind):
    matrix = getattr(scipy.sparse, f"{form}_{kind}")(MATRIX)
    got = read(tmp_path, pickle.dumps(matrix, protocol))
    assert isinstance(got, scipy.sparse.csr_array)
    np.testing.assert_array_equal(got.toarray(), MATRIX)


@pytest.mark.parametrize(
    ("value", "named"),
    [
        (Call(os.system, "touch pwned"), r"asks for (posix|nt)\.system"),
        (Call(eval, "1 + 1"), "asks for (builtins|__builtin__).eval"),
        (Call(getattr, "a", "upper"), "asks for (builtins|__builtin__).getattr"),
        (Call(np.load, "x.npy"), "asks for numpy.load"),
        (Call(np.testing.assert_equal, 1, 1), r"asks for numpy\.testing.*assert_equal"),
        (Call(scipy.sparse.load_npz, "x.npz"), r"asks for scipy\.sparse.*load_npz"),
        (scipy.sparse.lil_matrix(MATRIX), r"asks for scipy\.sparse\._lil\.lil_matrix"),
        ({1: decimal.Decimal("1.5")}, "asks for decimal.Decimal"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_anything_else_is_named_and_not_run(tmp_path, monkeypatch, value, named, protocol):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=rf"ind\.toy\.part: {named}; only numpy arrays"):
        read(tmp_path, pickle.dumps(value, protocol))
    assert not (tmp_path / "pwned").exists()


@pytest.mark.parametrize(
    "name", ["os.system", "numpy.core.multiarray.fromfile", "numpy._core.numeric.load"]
)
def test_names_written_by_hand(tmp_path, name):
    module, function = name.rsplit(".", 1)
    with pytest.raises(ValueError, match=f"asks for {name}; only"):
        read(tmp_path, f"c{module}\n{function}\n(S'x'\ntR.".encode())


def test_no_memory_is_asked_for_by_name(tmp_path):
    with pytest.raises(ValueError, match=r"broken pickle: TypeError"):
        read(tmp_path, pickle.dumps(Call(bytes, 10**12), 4))


def test_dotted_names_do_not_reach_into_admitted_modules(tmp_path):
    data = b"\x80\x04\x8c\x05numpy\x8c\x0dndarray.dumps\x93."
    with pytest.raises(ValueError, match=r"asks for numpy\.ndarray\.dumps"):
        read(tmp_path, data)


def test_only_bytes_are_encoded(tmp_path):
    with pytest.raises(ValueError, match=r"_codecs\.encode to 'rot13'"):
        read(tmp_path, b"c_codecs\nencode\n(Vabc\nVrot13\ntR.")


def test_names_of_old_versions(tmp_path):
    data = pickle.dumps(scipy.sparse.csr_matrix(MATRIX), 2)
    old = data.replace(b"scipy.sparse._csr", b"scipy.sparse.csr").replace(
        b"numpy._core.multiarray", b"numpy.core.multiarray"
    )
    assert old != data
    np.testing.assert_array_equal(read(tmp_path, old).toarray(), MATRIX)


@pytest.mark.parametrize("cut", [0, 1, 20, -1])
def test_broken_pickles(tmp_path, cut):
    data = pickle.dumps(MATRIX, 2)
    with pytest.raises(ValueError, match=r"ind\.toy\.part: broken pickle"):
        read(tmp_path, data[:cut])
    with pytest.raises(ValueError, match=r"ind\.toy\.part: broken pickle"):
        read(tmp_path, b"not a pickle")


@pytest.mark.parametrize(
    ("field", "value", "named"),
    [
        ("indices", np.array([1, 0, 1, 9], np.int32), r"indices\[3\] is 9 \(row 3\)"),
        ("indices", np.array([1, 0, 1, -1], np.int32), r"indices\[3\] is -1"),
        ("indptr", np.array([0, 3, 2, 2, 4], np.int32), "indptr falls after entry 1"),
        ("indptr", np.array([0, 1, 2, 2, 5], np.int32), "indptr has 5 entries"),
        ("indptr", np.array([0, 1, 2, 4], np.int32), "indptr has 4 entries"),
        ("data", np.zeros(3), r"data is float64 \[3\]"),
        ("data", np.array(["a"] * 4), "data is <U1"),
        ("_shape", (4, 3, 2), r"shape is \[4, 3, 2\]"),
        ("_shape", None, "shape has"),
    ],
)
def test_broken_sparse_matrices(tmp_path, field, value, named):
    matrix = scipy.sparse.csr_matrix(MATRIX)
    vars(matrix)[field] = value
    with pytest.raises(ValueError, match=rf"ind\.toy\.part: broken sparse matrix: .*{named}"):
        read(tmp_path, pickle.dumps(matrix, 2))


def test_sparse_matrix_without_its_arrays(tmp_path):
    matrix = scipy.sparse.csr_matrix(MATRIX)
    del vars(matrix)["indices"]
    with pytest.raises(ValueError, match="broken sparse matrix: has no indices"):
        read(tmp_path, pickle.dumps(matrix, 2))


def test_broken_coordinates(tmp_path):
    for rows, named in (([0, 1, 3, 4], "row must be 0 to 3"), ([0, 1, 3], "has 3 rows")):
        matrix = scipy.sparse.coo_matrix(MATRIX)
        matrix.coords = (np.array(rows, np.int32), matrix.coords[1])
        with pytest.raises(ValueError, match=f"broken sparse matrix: {named}"):
            read(tmp_path, pickle.dumps(matrix, 2))


def test_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        load_data_pickle(tmp_path / "absent")


def test_what_a_pickle_sets_is_gone_with_it(tmp_path):
    # BUILD with a pair (None, attributes) calls setattr on whatever was named.
    build = b"(N(dS'mark'\nS'pwned'\nstb."
    for name in (b"copy_reg\n_reconstructor", b"_codecs\nencode", b"scipy.sparse\ncsr_matrix"):
        with contextlib.suppress(ValueError):
            read(tmp_path, b"c" + name + b"\n" + build)
    assert not hasattr(copyreg._reconstructor, "mark")
    assert not hasattr(restricted_pickle._latin1, "mark")
    assert not hasattr(restricted_pickle._StoredSparse, "mark")
