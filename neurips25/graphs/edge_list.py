"""A graph as anyone can write it down: a list of edges and a table of nodes.

In one folder:

    edges.csv                    source, target; other columns are not used, and stand behind
                                 these two unless a header names them
    features.npy / features.csv  a row for each node
    labels.npy / labels.csv      (optional) classes, as integers or as names
    split.npz / split.csv        (optional) masks or ids of nodes; or a word for each node

Text may have a header and be compressed with gzip. Where ``features.csv`` has a column ``id``,
edges and the other tables go by those ids, which may be any text; otherwise nodes are numbered
from 0 in the order of the rows. ``features.csv`` may have columns ``label`` and ``split`` too.
A label that isn't known is -1 or empty.
"""

import csv
import os
import pathlib

import numpy as np

from neurips25.data import replace_text, replaced_file
from neurips25.graphs.node_graph import NodeGraph
from neurips25.graphs.node_table import (
    NodeTable,
    read_node_labels,
    read_node_split,
    read_node_table,
)
from neurips25.graphs.npz_arrays import errors_name, save_npz
from neurips25.graphs.number_tables import check_rows, load_table, open_text

# Names of columns that tell a header, and where the ends of an edge stand.
_END_NAMES = (
    *("src", "dst", "source", "target", "from", "to", "sender", "receiver", "head", "tail"),
    *("u", "v", "node1", "node2", "node_1", "node_2", "id1", "id2", "id_1", "id_2"),
    *("citing", "cited"),
)


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
      path: the folder, or the list of edges itself: two columns between commas, tabs,
        semicolons or spaces, under any number of lines that begin with ``#`` or ``%``.
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
        edges = _find(path, "edges", (".csv", ".csv.gz", ".tsv", ".txt"))
        features = features or _find(path, "features", (".npy", ".csv", ".csv.gz"))
        labels = labels or _find_any(path, "labels", (".npy", ".csv", ".csv.gz"))
        split = split or _find_any(path, "split", (".npz", ".csv", ".csv.gz"))
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
    skip = 0
    with open_text(path) as text:
        for line in text:
            if not line.startswith(("#", "%")):
                break
            skip += 1
        else:
            return np.zeros((0, 2), np.int64)
    delimiter = next((d for d in ",\t;" if d in line), None)
    cells = [cell.strip().strip('"') for cell in line.split(delimiter)]
    named = [i for i, cell in enumerate(cells) if cell.lower() in _END_NAMES]
    if nodes.index_of is None:
        header = not any(cell.lstrip("-").isdigit() for cell in cells[:2])
    else:
        header = len(named) == 2 and not any(cells[i] in nodes.index_of for i in named)
    # An index or a weight may stand before the two ends.
    ends = (named[0], named[1]) if header and len(named) == 2 else (0, 1)
    if nodes.index_of is not None or ends != (0, 1):
        return _read_named_edges(path, nodes, delimiter or " ", skip + header, ends)
    pairs = load_table(path, np.int64, delimiter=delimiter, skip_lines=skip + header, columns=2)
    n = len(nodes.features)
    outside = np.any((pairs < 0) | (pairs >= n), axis=1)
    check_rows(path, outside, f"edge to a missing node, nodes are 0 to {n - 1}", skip + header)
    return pairs


def _read_named_edges(
    path: pathlib.Path, nodes: NodeTable, delimiter: str, skip: int, ends: tuple[int, int]
) -> np.ndarray:
    pairs = []
    with open_text(path) as text:
        reader = csv.reader(text, delimiter=delimiter, skipinitialspace=True)
        for row in reader:
            if reader.line_num <= skip or not row:
                continue
            where = f"{path}: line {reader.line_num}"
            if len(row) < 2:
                raise ValueError(f"{where}: has one column, needs two ids")
            if len(row) <= max(ends):
                raise ValueError(f"{where}: has {len(row)} columns, needs {max(ends) + 1}")
            with errors_name(where):
                pairs.append(tuple(nodes.row_of(row[end]) for end in ends))
    return np.array(pairs, np.int64).reshape(-1, 2)


def _find(folder: pathlib.Path, stem: str, suffixes: tuple[str, ...]) -> pathlib.Path:
    path = _find_any(folder, stem, suffixes)
    if path is None:
        raise FileNotFoundError(f"{folder}: has no {' or '.join(stem + s for s in suffixes)}")
    return path


def _find_any(folder: pathlib.Path, stem: str, suffixes: tuple[str, ...]) -> pathlib.Path | None:
    return next((folder / (stem + s) for s in suffixes if (folder / (stem + s)).exists()), None)
