"""Sparse matrices and one-hot labels of files that may be wrong: checked, then built."""

import numpy as np
import scipy.sparse


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
