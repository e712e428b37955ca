"""Class numbers from labels as files have them: numbers, names, one-hot rows, or nothing.

A label isn't known (-1) where a cell is empty or -1 or says ``NA``, ``N/A``, ``<NA>``, ``NaN``,
``None``, ``null`` or ``?``, in capitals or not, and where an array has -1 or NaN.
"""

import math
from collections.abc import Sequence

import numpy as np

from neurips25.graphs.node_graph import as_integers
from neurips25.graphs.sparse_arrays import labels_from_one_hot

UNKNOWN_WORDS = frozenset(("", "na", "n/a", "<na>", "nan", "none", "null", "?"))


def labels_from_text(cells: Sequence[str]) -> np.ndarray:
    """Classes of cells of text.

    Where all known labels are whole numbers, these are the classes, ``2.0`` like ``2``. Other
    labels are numbered from 0 in sorted order: that of their values if all are numbers, else
    that of their names.

    Args:
      cells: one for each node; white space around a label does not count.

    Returns:
      int64 ``[n]``, -1 where a label isn't known.

    >>> labels_from_text(["10.0", "9.0", "-1.0", "NA"]).tolist()
    [10, 9, -1, -1]
    >>> labels_from_text(["10.5", "9", ""]).tolist(), labels_from_text(["b", "a", "b"]).tolist()
    ([1, 0, -1], [1, 0, 1])
    """
    cells = [cell.strip() for cell in cells]
    words = {cell for cell in cells if cell.lower() not in UNKNOWN_WORDS}
    numbers = {cell: number for cell in words if (number := _number(cell)) is not None}
    if len(numbers) < len(words):
        names = sorted(cell for cell in words if numbers.get(cell) != -1)
        class_of = {cell: i for i, cell in enumerate(names)}
    else:
        values = sorted({number for number in numbers.values() if number != -1})
        if all(value.is_integer() for value in values):
            class_of = {cell: int(number) for cell, number in numbers.items()}
        else:
            class_of = {c: values.index(number) for c, number in numbers.items() if number != -1}
    return np.array([class_of.get(cell, -1) for cell in cells], np.int64)


def labels_from_array(name: str, values: np.ndarray) -> np.ndarray:
    """Classes of an array from a file.

    Args:
      name: how errors call the array.
      values: integers, whole floats or text, ``[n]`` or ``[n, 1]``; or one-hot ``[n, C]``.

    Returns:
      int64 ``[n]``, -1 where a label isn't known.

    Raises:
      ValueError: naming the array and its first bad entry.

    >>> labels_from_array("labels", np.array([2.0, np.nan, 0.0])).tolist()
    [2, -1, 0]
    """
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim == 2:
        return labels_from_one_hot(values)
    if values.ndim == 1 and values.dtype.kind == "S":
        values = np.char.decode(values, "utf-8")
    if values.ndim == 1 and values.dtype.kind == "U":
        return labels_from_text(values.tolist())
    if values.dtype.kind == "f":
        values = np.where(np.isnan(values), -1, values)
    return as_integers(name, values, 1)


def _number(cell: str) -> float | None:
    try:
        value = float(cell)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
