"""Sparse matrices and one-hot labels of files that may be wrong: checked, then built."""

import os
from typing import Any, Protocol

import numpy as np
import scipy.sparse

from neurips25.graphs.node_graph import as_integers
from neurips25.graphs.npz_arrays import NpzArrays, errors_name


class StoredArrays(Protocol):
    """Arrays by name, such as a dict or an ``NpzArrays``."""

    def __contains__(self, name: str, /) -> bool: ...
    def __getitem__(self, name: str, /) -> Any: ...


def csr_matrix(
    data: np.ndarray, indices: np.ndarray, indptr: np.ndarray, shape: tuple[int, int], prefix: str
) -> scipy.sparse.csr_array:
    """A CSR matrix of arrays from a file, whose every index is checked first.

    Args:
      data: values ``[nnz]``.
      indices: int64 columns ``[nnz]``.
      indptr: int64 ``[rows + 1]``, where each row begins.
      shape: (rows, columns).
      prefix: how the arrays' names start, for errors.

    Raises:
      ValueError: naming the array and its first bad entry.
    """
    rows, columns = shape
    if data.ndim != 1 or data.dtype.kind not in "iufb" or data.shape != indices.shape:
        raise ValueError(
            f"{prefix}data is {data.dtype} {list(data.shape)}, "
            f"needs numbers {list(indices.shape)} like {prefix}indices"
        )
    if len(indptr) != rows + 1 or indptr[0] != 0 or indptr[-1] != len(data):
        raise ValueError(
            f"{prefix}indptr has {len(indptr)} entries from {indptr[:1]} to {indptr[-1:]}, "
            f"needs {rows + 1} from [0] to [{len(data)}]"
        )
    falls = np.flatnonzero(np.diff(indptr) < 0)
    if falls.size:
        raise ValueError(f"{prefix}indptr falls after entry {falls[0]}, row {falls[0]}")
    bad = np.flatnonzero((indices < 0) | (indices >= columns))
    if bad.size:
        row = np.searchsorted(indptr, bad[0], side="right") - 1
        raise ValueError(
            f"{prefix}indices[{bad[0]}] is {indices[bad[0]]} (row {row}): "
            f"columns are 0 to {columns - 1}"
        )
    return scipy.sparse.csr_array((data, indices, indptr), shape=shape)


def stored_matrix(form: str, arrays: StoredArrays) -> scipy.sparse.csr_array:
    """A matrix of the arrays that scipy pickles, or writes by ``scipy.sparse.save_npz``.

    Args:
      form: ``"csr"``, ``"csc"`` or ``"coo"``.
      arrays: ``data`` and ``shape`` (or ``_shape``), with ``indices`` and ``indptr``, or for
        "coo" ``row`` and ``col`` (or ``coords``).

    Raises:
      ValueError: naming what is missing, or the array and its first bad entry.
    """
    shape = as_integers("shape", _first(arrays, "_shape", "shape"), 1)
    if len(shape) != 2 or (shape < 0).any():
        raise ValueError(f"shape is {shape.tolist()}, needs two numbers")
    rows, columns = (int(size) for size in shape)
    data = np.asarray(_first(arrays, "data"))
    if form == "coo":
        if "coords" in arrays and arrays["coords"] is not None:
            row, column = arrays["coords"]
        else:
            row, column = _first(arrays, "row"), _first(arrays, "col")
        row, column = as_integers("row", row, 1), as_integers("col", column, 1)
        if not len(row) == len(column) == len(data):
            raise ValueError(f"has {len(row)} rows, {len(column)} columns, {len(data)} values")
        order = np.argsort(row, kind="stable")
        if len(row) and not 0 <= row[order[0]] <= row[order[-1]] < rows:
            raise ValueError(f"row must be 0 to {rows - 1}")
        starts = np.searchsorted(row[order], np.arange(rows + 1))
        return csr_matrix(data[order], column[order], starts, (rows, columns), "")
    if form not in ("csr", "csc"):
        raise ValueError(f"is a sparse matrix in the form {form!r}, needs csr, csc or coo")
    indices = as_integers("indices", _first(arrays, "indices"), 1)
    indptr = as_integers("indptr", _first(arrays, "indptr"), 1)
    if form == "csr":
        return csr_matrix(data, indices, indptr, (rows, columns), "")
    transposed = csr_matrix(data, indices, indptr, (columns, rows), "")
    return scipy.sparse.csr_array(transposed.T)


def load_sparse(path: str | os.PathLike[str]) -> scipy.sparse.csr_array:
    """A matrix that ``scipy.sparse.save_npz`` wrote.

    Raises:
      FileNotFoundError: if there is no such file.
      ValueError: naming the file, and what is wrong with it.
    """
    arrays = NpzArrays(path)
    with errors_name(path):
        form = np.asarray(arrays["format"]).item()
        return stored_matrix(form.decode() if isinstance(form, bytes) else str(form), arrays)


def labels_from_one_hot(matrix: np.ndarray | scipy.sparse.sparray) -> np.ndarray:
    """Classes of one-hot rows.

    Args:
      matrix: 0 or 1, ``[n, C]``, dense or sparse, at most a single 1 a row.

    Returns:
      int64 ``[n]``; -1 for a row of zeros, which means that the label isn't known.

    Raises:
      ValueError: naming the first row that isn't one-hot.

    >>> labels_from_one_hot(np.array([[0, 1], [1, 0], [0, 0]])).tolist()
    [1, 0, -1]
    """
    if matrix.ndim != 2 or matrix.dtype.kind not in "iufb":
        raise ValueError(f"labels are {matrix.dtype} {list(matrix.shape)}, needs 0/1 [n, C]")
    entries = scipy.sparse.coo_array(matrix)
    entries.eliminate_zeros()
    ones = np.bincount(entries.row, minlength=entries.shape[0])
    wrong = np.flatnonzero(ones > 1)
    odd = np.flatnonzero(entries.data != 1)
    if wrong.size:
        raise ValueError(f"labels: row {wrong[0]} has {ones[wrong[0]]} classes, needs one")
    if odd.size:
        raise ValueError(f"labels: row {entries.row[odd[0]]} holds {entries.data[odd[0]]}, not 0/1")
    labels = np.full(entries.shape[0], -1, np.int64)
    labels[entries.row] = entries.col
    return labels


def _first(arrays: StoredArrays, *names: str) -> Any:
    for name in names:
        if name in arrays:
            return arrays[name]
    raise ValueError(f"has no {' or '.join(names)}")
