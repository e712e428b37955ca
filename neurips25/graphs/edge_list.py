"""A graph as anyone can write it down: a list of edges and a table of nodes.

In one folder:

    edges.csv                    source, target; other columns are not used, and stand behind
                                 these two unless a header names them
    features.npy / features.csv  a row for each node
    labels.npy / labels.csv      (optional) classes, as integers or as names
    split.npz / split.csv        (optional) masks or ids of nodes; or a word for each node

Edges may also be an array ``edges.npy``, ``[m, 2]`` or ``[2, m]``, and edges and features what
``scipy.sparse.save_npz`` writes: ``edges.npz``, an adjacency matrix, and ``features.npz``.

Text may have a header, be compressed with gzip and end in ``.tsv`` or ``.txt``. Where
``features.csv`` has a column ``id``, edges and the other tables go by those ids, which may be
any text; otherwise nodes are numbered from 0 in the order of the rows. ``features.csv`` may have
columns ``label`` and ``split`` too. A label that isn't known is empty, -1, NaN, NA or None, see
``class_labels.py``.

A first line without letters is an edge: a header of numbers, as pandas writes for columns
without names, is told only by the empty name of an index in front of them.
"""

import itertools
import os
import pathlib
import re
from collections.abc import Iterable

import numpy as np

from neurips25.data import replace_text, replaced_file
from neurips25.graphs.cell_tables import is_number, rows_of_cells
from neurips25.graphs.node_graph import NodeGraph, as_integers, check_edges
from neurips25.graphs.node_table import (
    NodeTable,
    read_node_labels,
    read_node_split,
    read_node_table,
)
from neurips25.graphs.npz_arrays import errors_name, load_npy, save_npz
from neurips25.graphs.number_tables import check_rows, delimiter_of, load_table, open_text
from neurips25.graphs.sparse_arrays import load_sparse

# Names of the two columns of ends, without "node" or "id" around them.
_END_NAMES = (
    ("src", "dst"),
    ("source", "target"),
    ("from", "to"),
    ("sender", "receiver"),
    ("head", "tail"),
    ("start", "end"),
    ("citing", "cited"),
    ("source", "destination"),
    ("src", "dest"),
    ("u", "v"),
    ("i", "j"),
    ("a", "b"),
    ("1", "2"),
)
# Names of columns that are no ends, in files that name their ends otherwise.
_OTHER_NAMES = re.compile(
    "|unnamed: 0|id|index|idx|edge.?id|weight|w|type|label|time|timestamp|date|key", re.IGNORECASE
)
_TEXT = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".txt", ".txt.gz")


def load_edge_list(
    path: str | os.PathLike[str],
    *,
    features: str | os.PathLike[str] | None = None,
    labels: str | os.PathLike[str] | None = None,
    split: str | os.PathLike[str] | None = None,
    name: str | None = None,
) -> NodeGraph:
    """Reads a graph from a folder, or from files of any name.

    Args:
      path: the folder, or the list of edges itself. Text has columns between commas, tabs,
        semicolons or spaces, under any number of lines that begin with ``#`` or ``%``; without
        a header that names two ends, such as ``src`` and ``dst``, these are the first two.
      features: table of the nodes; needed if ``path`` is a file.
      labels: classes; without them, or a column of ``features``, all labels are -1.
      split: masks.
      name: name of the graph; by default that of the folder or file.

    Raises:
      FileNotFoundError: if a file isn't there.
      ValueError: naming the file and the line or row that is wrong.
    """
    path = pathlib.Path(path)
    edges = path
    if path.is_dir():
        edges = _find(path, "edges", (*_TEXT, ".npy", ".npz"))
        features = features or _find(path, "features", (".npy", ".npz", *_TEXT))
        labels = labels or _find_any(path, "labels", (".npy", *_TEXT))
        split = split or _find_any(path, "split", (".npz", *_TEXT))
    elif features is None:
        raise ValueError(f"{path}: is no folder, so features= must name the table of nodes")
    nodes = read_node_table(pathlib.Path(features))
    classes = nodes.labels if labels is None else read_node_labels(pathlib.Path(labels), nodes)
    masks = nodes.masks if split is None else read_node_split(pathlib.Path(split), nodes)
    if classes is None:
        classes = np.full(len(nodes.features), -1)
    pairs = _read_edges(edges, nodes)
    with errors_name(path):
        return NodeGraph.from_edges(
            name or path.resolve().name.split(".")[0],
            nodes.features,
            pairs,
            classes,
            num_classes=max(int(classes.max(initial=-1)) + 1, 1),
            **masks,
        )


def save_edge_list(
    directory: str | os.PathLike[str], graph: NodeGraph, *, text: bool = False
) -> None:
    """Writes what ``load_edge_list`` reads, each undirected edge once.

    Args:
      directory: folder to write to; made if it isn't there.
      graph: any graph.
      text: write ``features.csv`` with ids and labels instead of ``features.npy`` and
        ``labels.npy``.
    """
    directory = pathlib.Path(directory)
    lines = ["src,dst", *(f"{i},{j}" for i, j in graph.undirected_edges)]
    replace_text(directory / "edges.csv", "\n".join(lines) + "\n")
    if text:
        lines = [",".join(["id", "label", *(f"x{j}" for j in range(graph.features.shape[1]))])]
        for i, (row, label) in enumerate(zip(graph.features, graph.labels)):
            lines.append(f"{i},{label},{','.join(f'{value:.9g}' for value in row)}")
        replace_text(directory / "features.csv", "\n".join(lines) + "\n")
    else:
        for stem, array in (("features", graph.features), ("labels", graph.labels)):
            with (
                replaced_file(directory / f"{stem}.npy") as unfinished,
                open(unfinished, "wb") as file,
            ):
                np.save(file, array)
    if graph.num_splits:
        save_npz(
            directory / "split.npz",
            train_mask=graph.train_mask,
            val_mask=graph.val_mask,
            test_mask=graph.test_mask,
        )


def _read_edges(path: pathlib.Path, nodes: NodeTable) -> np.ndarray:
    if path.suffix in (".npy", ".npz"):
        with errors_name(path):
            return _edges_from_arrays(path, len(nodes.features))
    skip = 0
    with open_text(path) as text:
        for line in text:
            if line.startswith("%%MatrixMarket"):
                raise ValueError(f"{path}: is a Matrix Market file, which counts nodes from 1")
            if line.strip() and not line.startswith(("#", "%")):
                break
            skip += 1
        else:
            return np.zeros((0, 2), np.int64)
        if delimiter_of(line) is None:
            _check_widths(path, skip + 1, itertools.chain([line], itertools.islice(text, 1000)))
    delimiter = delimiter_of(line)
    cells = [cell.strip().strip('"').strip() for cell in line.split(delimiter)]
    header = _is_header(cells, nodes)
    # An index or a weight may stand before the two ends.
    ends = _ends(cells) if header else (0, 1)
    if nodes.index_of is not None:
        return _read_named_edges(path, nodes, delimiter or " ", skip + header, ends)
    pairs = load_table(path, np.int64, delimiter=delimiter, skip_lines=skip + header, columns=ends)
    n = len(nodes.features)
    outside = np.any((pairs < 0) | (pairs >= n), axis=1)
    check_rows(path, outside, f"edge to a missing node, nodes are 0 to {n - 1}", skip + header)
    return pairs


def _check_widths(path: pathlib.Path, first: int, lines: Iterable[str]) -> None:
    """Refuses a list of neighbours, each line of another length, that looks like one of edges."""
    width = 0
    for number, line in enumerate(lines, start=first):
        # networkx writes what it knows of an edge as a dict.
        cells = len(line.split(" {")[0].split())
        width = width or cells
        if cells not in (0, width) and max(cells, width) > 2:
            raise ValueError(f"{path}: line {number}: has {cells} columns, line {first} {width}")


def _is_header(cells: list[str], nodes: NodeTable) -> bool:
    if len(cells) > 2 and not cells[0]:
        return True
    if nodes.index_of is None:
        return not any(map(is_number, cells[:2]))
    ids_are_numbers = all(node.lstrip("-").isdigit() for node in nodes.index_of)
    named = ids_are_numbers and not any(map(is_number, cells))
    return (named or _named_ends(cells) is not None) and not any(
        cell in nodes.index_of for cell in cells
    )


def _ends(header: list[str]) -> tuple[int, int]:
    named = _named_ends(header)
    if named is None:
        others = [i for i, name in enumerate(header) if not _OTHER_NAMES.fullmatch(name)]
        named = (others[0], others[1]) if len(others) > 1 else (0, 1)
    return named


def _named_ends(header: list[str]) -> tuple[int, int] | None:
    names = [re.sub("[^a-z0-9]", "", cell.lower()) for cell in header]
    bare = [re.sub("^(node|vertex|id)+|(node|vertex|id|idx|index)+$", "", name) for name in names]
    if not any(re.search("[a-z]", name) for name in names):
        return None
    pair = next((pair for pair in _END_NAMES if set(pair) <= set(bare)), None)
    return None if pair is None else (bare.index(pair[0]), bare.index(pair[1]))


def _read_named_edges(
    path: pathlib.Path, nodes: NodeTable, delimiter: str, skip: int, ends: tuple[int, int]
) -> np.ndarray:
    pairs = []
    with open_text(path) as text:
        for line, row in rows_of_cells(path, text, delimiter):
            if line <= skip:
                continue
            where = f"{path}: line {line}"
            if len(row) < 2:
                raise ValueError(f"{where}: has one column, needs two ids")
            if len(row) <= max(ends):
                raise ValueError(f"{where}: has {len(row)} columns, needs {max(ends) + 1}")
            with errors_name(where):
                pairs.append(tuple(nodes.row_of(row[end]) for end in ends))
    return np.array(pairs, np.int64).reshape(-1, 2)


def _edges_from_arrays(path: pathlib.Path, n: int) -> np.ndarray:
    if path.suffix == ".npz":
        adjacency = load_sparse(path)
        if adjacency.shape != (n, n):
            raise ValueError(f"adjacency matrix has shape {adjacency.shape}, needs ({n}, {n})")
        return np.stack(adjacency.nonzero(), axis=1)
    edges = as_integers("edges", load_npy(path), 2)
    if edges.shape[1] != 2 and edges.shape[0] == 2:
        edges = edges.T
    if edges.shape[1] != 2:
        raise ValueError(f"edges has shape {list(edges.shape)}, needs [m, 2] or [2, m]")
    check_edges(edges, n)
    return edges


def _find(folder: pathlib.Path, stem: str, suffixes: tuple[str, ...]) -> pathlib.Path:
    path = _find_any(folder, stem, suffixes)
    if path is None:
        others = ", ".join(suffixes[1:])
        raise FileNotFoundError(f"{folder}: has no {stem}{suffixes[0]} (or {others})")
    return path


def _find_any(folder: pathlib.Path, stem: str, suffixes: tuple[str, ...]) -> pathlib.Path | None:
    return next((folder / (stem + s) for s in suffixes if (folder / (stem + s)).exists()), None)
