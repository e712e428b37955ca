"""Tables with a row for each node: features, classes and splits, by id or in order.

These are the parts of the edge-list format (``edge_list.py``) that concern nodes.
"""

import dataclasses
import pathlib
from collections.abc import Sequence

import numpy as np

from neurips25.graphs.cell_tables import CellTable, read_cells
from neurips25.graphs.class_labels import UNKNOWN_WORDS, labels_from_array, labels_from_text
from neurips25.graphs.node_graph import as_features, as_integers, as_mask
from neurips25.graphs.npz_arrays import NpzArrays, errors_name, load_npy
from neurips25.graphs.number_tables import plain_id
from neurips25.graphs.sparse_arrays import load_sparse

ID_NAMES = ("id", "node", "node_id", "nodeid", "index", "unnamed: 0")
LABEL_NAMES = ("label", "labels", "class", "y", "target")
SPLIT_NAMES = ("split", "set", "fold")
MASK_NAMES = ("train_mask", "val_mask", "test_mask")
MASK_OF_WORD = {
    "train": "train_mask",
    "training": "train_mask",
    "val": "val_mask",
    "valid": "val_mask",
    "validation": "val_mask",
    "dev": "val_mask",
    "test": "test_mask",
}
_BIT_OF_WORD = {"true": True, "1": True, "1.0": True, "false": False, "0": False, "0.0": False}


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
        """Row of a node, given as it stands in a file; 3 may stand there as 3.0.

        Raises:
          ValueError: if there is no such node.
        """
        node = plain_id(node)
        if self.index_of is not None:
            if node in self.index_of:
                return self.index_of[node]
            raise ValueError(f"there is no node {node[:40]!r}")
        n = len(self.features)
        if not (node.isascii() and node.isdigit()) or int(node) >= n:
            raise ValueError(f"there is no node {node[:40]!r}, nodes are 0 to {n - 1}")
        return int(node)


def read_node_table(path: pathlib.Path) -> NodeTable:
    """Reads ``.npy``, the ``.npz`` of ``scipy.sparse.save_npz``, or text, see ``read_cells``.

    Columns named id (node, index), label (class, y, target), split (set, fold) or train_mask,
    val_mask and test_mask are what they say; all others are features.

    Raises:
      ValueError: naming the file and the line, if a feature isn't a finite number, an id is
        there twice, or a row has another number of columns than the first.
    """
    if path.suffix in (".npy", ".npz"):
        with errors_name(path):
            dense = load_npy(path) if path.suffix == ".npy" else load_sparse(path).toarray()
            return NodeTable(as_features(dense))
    names = ID_NAMES + LABEL_NAMES + SPLIT_NAMES + MASK_NAMES
    table = read_cells(path, names, header_if_text=True)
    id_at, label_at, split_at = (
        table.column(*names) for names in (ID_NAMES, LABEL_NAMES, SPLIT_NAMES)
    )
    special = (id_at, label_at, split_at, *map(table.column, MASK_NAMES))
    columns = [i for i in range(len(table.rows[0])) if i not in special]
    features = np.zeros((len(table.rows), len(columns)), np.float64)
    index_of: dict[str, int] = {}
    for r, row in enumerate(table.rows):
        features[r] = [table.number(r, i) for i in columns]
        if id_at is not None:
            node = plain_id(row[id_at])
            if node in index_of:
                first = table.lines[index_of[node]]
                raise ValueError(
                    f"{table.where(r)}: node {node[:40]!r} is there already, on line {first}"
                )
            index_of[node] = r
    with errors_name(path):
        as_features(features)
    labels = None if label_at is None else labels_from_text([row[label_at] for row in table.rows])
    nodes = NodeTable(features, None if id_at is None else index_of, labels)
    if split_at is None and not _has_masks(table):
        return nodes
    return dataclasses.replace(nodes, masks=_split(table, nodes))


def read_node_labels(path: pathlib.Path, nodes: NodeTable) -> np.ndarray:
    """Classes of the nodes, int64 ``[n]``, -1 where not known; see ``class_labels.py``.

    Raises:
      ValueError: naming the file and the line, if a node doesn't exist or is there twice.
    """
    if path.suffix == ".npy":
        with errors_name(path):
            labels = labels_from_array("labels", load_npy(path))
            if len(labels) != len(nodes.features):
                raise ValueError(f"has {len(labels)} labels, needs {len(nodes.features)}")
            return labels
    table = read_cells(path, ID_NAMES + LABEL_NAMES, header_if_text=False)
    return labels_from_text(_values(table, LABEL_NAMES, nodes)[0])


def read_node_split(path: pathlib.Path, nodes: NodeTable) -> dict[str, np.ndarray]:
    """Masks by name, bool ``[n]`` or ``[splits, n]``.

    An ``.npz`` file has ``train_mask`` (or ``train_masks``), ..., or ids of nodes as ``train``
    (or ``train_idx``), ``val`` or ``valid`` and ``test``; text has a word for each node, or
    true or false in columns ``train_mask``, ``val_mask`` and ``test_mask``.

    Raises:
      ValueError: naming the file, and the array or line that is wrong.
    """
    if path.suffix != ".npz":
        names = ID_NAMES + SPLIT_NAMES + MASK_NAMES
        return _split(read_cells(path, names, header_if_text=False), nodes)
    arrays = NpzArrays(path)
    with errors_name(path):
        return {field: _mask(arrays, field, len(nodes.features)) for field in MASK_NAMES}


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


def _values(
    table: CellTable, names: Sequence[str], nodes: NodeTable
) -> tuple[list[str], list[str]]:
    """One cell a node, "" where the table has none, and where each of them stands."""
    width, n = len(table.rows[0]), len(nodes.features)
    id_at, value_at = table.column(*ID_NAMES), table.column(*names)
    if id_at is None and not table.header and width == 2:
        id_at = 0
    if value_at is None:
        value_at = width - 1
    if id_at is None and len(table.rows) != n:
        raise ValueError(f"{table.path}: has {len(table.rows)} rows, needs {n}: one for each node")
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


def _has_masks(table: CellTable) -> bool:
    there = [field for field in MASK_NAMES if field in table.header]
    if there and len(there) < len(MASK_NAMES):
        raise ValueError(f"{table.path}: has {', '.join(there)}, needs {', '.join(MASK_NAMES)}")
    return bool(there)


def _split(table: CellTable, nodes: NodeTable) -> dict[str, np.ndarray]:
    if table.column(*SPLIT_NAMES) is None and _has_masks(table):
        return {field: _bits(*_values(table, (field,), nodes)) for field in MASK_NAMES}
    masks = {field: np.zeros(len(nodes.features), bool) for field in MASK_NAMES}
    for i, (word, where) in enumerate(zip(*_values(table, SPLIT_NAMES, nodes))):
        word = word.strip().lower()
        if word in MASK_OF_WORD:
            masks[MASK_OF_WORD[word]][i] = True
        elif word not in UNKNOWN_WORDS:
            raise ValueError(f"{where}: {word[:40]!r} is none of {', '.join(MASK_OF_WORD)}")
    return masks


def _bits(words: list[str], where: list[str]) -> np.ndarray:
    bits = np.zeros(len(words), bool)
    for i, word in enumerate(words):
        word = word.strip().lower()
        if word in _BIT_OF_WORD:
            bits[i] = _BIT_OF_WORD[word]
        elif word not in UNKNOWN_WORDS:
            raise ValueError(f"{where[i]}: {word[:40]!r} is neither true nor false")
    return bits
