"""Tables with a row for each node: features, classes and splits, by id or in order.

These are the parts of the edge-list format (``edge_list.py``) that concern nodes.
"""

import csv
import dataclasses
import pathlib
from collections.abc import Sequence

import numpy as np

from neurips25.graphs.node_graph import as_features, as_integers, as_mask
from neurips25.graphs.npz_arrays import NpzArrays, errors_name
from neurips25.graphs.number_tables import open_text

ID_NAMES = ("id", "node", "node_id", "nodeid")
LABEL_NAMES = ("label", "class", "y")
SPLIT_NAMES = ("split", "set", "fold")
MASK_OF_WORD = {
    "train": "train_mask",
    "training": "train_mask",
    "val": "val_mask",
    "valid": "val_mask",
    "validation": "val_mask",
    "test": "test_mask",
}
_MASKS = ("train_mask", "val_mask", "test_mask")


@dataclasses.dataclass(frozen=True)
class NodeTable:
    """What a table of nodes holds.

    Args:
      features: float ``[n, d]``.
      index_of: id -> row, or None if nodes go by the number of their row.
      labels: int64 ``[n]`` with -1 where not known, or None.
      masks: ``train_mask`` ... -> bool ``[n]``, or nothing.
    """

    features: np.ndarray
    index_of: dict[str, int] | None = None
    labels: np.ndarray | None = None
    masks: dict[str, np.ndarray] = dataclasses.field(default_factory=dict)

    def row_of(self, node: str) -> int:
        """Row of a node, given as it stands in a file.

        Raises:
          ValueError: if there is no such node.
        """
        node = node.strip()
        if self.index_of is not None:
            if node in self.index_of:
                return self.index_of[node]
            raise ValueError(f"there is no node {node[:40]!r}")
        n = len(self.features)
        if not (node.isascii() and node.isdigit()) or int(node) >= n:
            raise ValueError(f"there is no node {node[:40]!r}, nodes are 0 to {n - 1}")
        return int(node)


def read_node_table(path: pathlib.Path) -> NodeTable:
    """Reads ``.npy``, or text with a header or without.

    Columns named id, label (class, y) and split (set, fold) are what they say; all others are
    features.

    Raises:
      ValueError: naming the file and the line, if a feature isn't a finite number, an id is
        there twice, or a row has another number of columns than the first.
    """
    if path.suffix == ".npy":
        with errors_name(path):
            return NodeTable(as_features(_load_npy(path)))
    table = _read_cells(path, ID_NAMES + LABEL_NAMES + SPLIT_NAMES, header_if_text=True)
    special = [table.column(names) for names in (ID_NAMES, LABEL_NAMES, SPLIT_NAMES)]
    id_at, label_at, split_at = special
    width = len(table.rows[0])
    columns = [i for i in range(width) if i not in special]
    features = np.zeros((len(table.rows), len(columns)), np.float64)
    index_of: dict[str, int] = {}
    for r, row in enumerate(table.rows):
        features[r] = [table.number(r, i) for i in columns]
        if id_at is not None:
            node = row[id_at].strip()
            if node in index_of:
                first = table.lines[index_of[node]]
                raise ValueError(
                    f"{table.where(r)}: node {node[:40]!r} is there already, on line {first}"
                )
            index_of[node] = r
    labels = None if label_at is None else _classes([row[label_at] for row in table.rows])
    masks = {}
    with errors_name(path):
        as_features(features)
    if split_at is not None:
        words = [row[split_at] for row in table.rows]
        masks = _masks(words, [table.where(r) for r in range(len(words))])
    return NodeTable(features, None if id_at is None else index_of, labels, masks)


def read_node_labels(path: pathlib.Path, nodes: NodeTable) -> np.ndarray:
    """Classes of the nodes, int64 ``[n]``, -1 where not known.

    Integers are kept; other names are numbered in sorted order.

    Raises:
      ValueError: naming the file and the line, if a node doesn't exist or is there twice.
    """
    if path.suffix == ".npy":
        with errors_name(path):
            labels = as_integers("labels", _load_npy(path), 1)
            if len(labels) != len(nodes.features):
                raise ValueError(f"has {len(labels)} labels, needs {len(nodes.features)}")
            return labels
    return _classes(_values(path, LABEL_NAMES, nodes)[0])


def read_node_split(path: pathlib.Path, nodes: NodeTable) -> dict[str, np.ndarray]:
    """Masks by name, bool ``[n]`` or ``[splits, n]``.

    An ``.npz`` file has ``train_mask`` (or ``train_masks``), ..., or ids of nodes as ``train``
    (or ``train_idx``), ``val`` or ``valid`` and ``test``; text has a word for each node.

    Raises:
      ValueError: naming the file, and the array or line that is wrong.
    """
    if path.suffix != ".npz":
        return _masks(*_values(path, SPLIT_NAMES, nodes))
    arrays = NpzArrays(path)
    with errors_name(path):
        return {field: _mask(arrays, field, len(nodes.features)) for field in _MASKS}


def _mask(arrays: NpzArrays, field: str, n: int) -> np.ndarray:
    for key in (field, f"{field}s"):
        if key in arrays:
            return as_mask(key, arrays[key], n)
    part = field.removesuffix("_mask")
    names = (part, "valid") if part == "val" else (part,)
    keys = [f"{name}{end}" for name in names for end in ("", "_idx", "_index")]
    key = next((key for key in keys if key in arrays), field)
    values = arrays[key]
    if values.dtype == bool:
        return as_mask(key, values, n)
    ids = as_integers(key, values, 1)
    outside = np.flatnonzero((ids < 0) | (ids >= n))
    if outside.size:
        at = outside[0]
        raise ValueError(f"{key}[{at}] is {ids[at]}, but nodes are 0 to {n - 1}")
    return np.isin(np.arange(n), ids)


@dataclasses.dataclass
class _Cells:
    path: pathlib.Path
    header: list[str]
    rows: list[list[str]]
    lines: list[int]

    def column(self, names: Sequence[str]) -> int | None:
        return next((i for i, cell in enumerate(self.header) if cell in names), None)

    def where(self, row: int) -> str:
        return f"{self.path}: line {self.lines[row]}"

    def number(self, row: int, column: int) -> float:
        cell = self.rows[row][column]
        try:
            value = float(cell)
        except ValueError:
            raise ValueError(f"{self.where(row)}: {cell[:40]!r} is not a number") from None
        if not np.isfinite(value):
            raise ValueError(f"{self.where(row)}: feature {cell} is not finite")
        return value


def _read_cells(path: pathlib.Path, names: Sequence[str], header_if_text: bool) -> _Cells:
    table = _Cells(path, [], [], [])
    with open_text(path) as text:
        first = text.readline()
        text.seek(0)
        delimiter = next((d for d in ",\t;" if d in first), ",")
        reader = csv.reader(text, delimiter=delimiter)
        try:
            for row in reader:
                if row:
                    table.rows.append(row)
                    table.lines.append(reader.line_num)
        except csv.Error as error:
            raise ValueError(f"{path}: line {reader.line_num}: {error}") from error
    if table.rows and _is_header(table.rows[0], names, header_if_text):
        table.header = [cell.strip().lower() for cell in table.rows.pop(0)]
        del table.lines[0]
        # pandas writes an index as a first column without a name.
        table.header[0] = table.header[0] or "id"
    if not table.rows:
        raise ValueError(f"{path}: has no rows")
    width = len(table.header or table.rows[0])
    for r, row in enumerate(table.rows):
        if len(row) != width:
            raise ValueError(f"{table.where(r)}: has {len(row)} columns, needs {width}")
    return table


def _is_header(row: list[str], names: Sequence[str], header_if_text: bool) -> bool:
    def is_number(cell: str) -> bool:
        try:
            float(cell)
        except ValueError:
            return False
        return True

    if any(cell.strip().lower() in names for cell in row):
        return True
    return header_if_text and not any(is_number(cell) for cell in row)


def _values(
    path: pathlib.Path, names: Sequence[str], nodes: NodeTable
) -> tuple[list[str], list[str]]:
    """One cell a node, "" where the table has none, and where each of them stands."""
    table = _read_cells(path, ID_NAMES + tuple(names), header_if_text=False)
    width, n = len(table.rows[0]), len(nodes.features)
    id_at, value_at = table.column(ID_NAMES), table.column(names)
    if id_at is None and not table.header and width == 2:
        id_at = 0
    if value_at is None:
        value_at = width - 1
    if id_at is None and len(table.rows) != n:
        raise ValueError(f"{path}: has {len(table.rows)} rows, needs {n}: one for each node")
    values, where = [""] * n, [""] * n
    for r, row in enumerate(table.rows):
        node = r
        if id_at is not None:
            with errors_name(table.where(r)):
                node = nodes.row_of(row[id_at])
        if where[node]:
            raise ValueError(f"{table.where(r)}: node {row[id_at or 0][:40]!r} is there already")
        values[node], where[node] = row[value_at], table.where(r)
    return values, where


def _classes(cells: list[str]) -> np.ndarray:
    cells = [cell.strip() for cell in cells]
    known = sorted({cell for cell in cells if cell not in ("", "-1", "nan", "NaN")})
    try:
        number_of = {cell: int(cell) for cell in known}
    except ValueError:
        number_of = {cell: i for i, cell in enumerate(known)}
    return np.array([number_of.get(cell, -1) for cell in cells], np.int64)


def _masks(words: list[str], where: list[str]) -> dict[str, np.ndarray]:
    masks = {field: np.zeros(len(words), bool) for field in _MASKS}
    for i, word in enumerate(words):
        word = word.strip().lower()
        if word and word not in MASK_OF_WORD:
            raise ValueError(f"{where[i]}: {word[:40]!r} is none of {', '.join(MASK_OF_WORD)}")
        if word:
            masks[MASK_OF_WORD[word]][i] = True
    return masks


def _load_npy(path: pathlib.Path) -> np.ndarray:
    with open(path, "rb") as file:
        try:
            return np.lib.format.read_array(file, allow_pickle=False)
        except (ValueError, EOFError) as error:
            raise ValueError(f"{path}: not a readable .npy file: {error}") from error
