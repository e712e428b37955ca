"""Node-property graphs of the Open Graph Benchmark, from the folder that its loader unpacks.

Hu et al., "Open Graph Benchmark", arXiv:2005.00687. Tables without header, ``.csv.gz`` or
``.csv``, below for example ``ogbn_arxiv/``:

    raw/edge                   source, target
    raw/num-node-list          number of nodes
    raw/node-feat              d numbers a node; ogbn-proteins has raw/edge-feat instead
    raw/node-label             one column for a task
    split/SCHEME/train, valid, test      ids of nodes

ogbn-proteins has 112 tasks with two classes each, and its official score is the mean of 112 areas
under ROC curves. A ``NodeGraph`` holds one task: what it is scored by is one of those areas, which
must not be compared with the official score.
"""

import gzip
import os
import pathlib
import warnings

import numpy as np

from neurips25.data import replaced_file
from neurips25.graphs.node_graph import NodeGraph
from neurips25.graphs.npz_arrays import errors_name
from neurips25.graphs.number_tables import check_rows, load_table, open_text

_PARTS = (("train", "train_mask"), ("valid", "val_mask"), ("test", "test_mask"))


def load_ogb_folder(
    path: str | os.PathLike[str],
    scheme: str | None = None,
    *,
    task: int = 0,
    name: str | None = None,
) -> NodeGraph:
    """Reads a graph with its split, for one task.

    A graph that has features of its edges but not of its nodes gives each node the mean over
    its edges. Without a folder ``split`` there are no splits; none are drawn.

    Args:
      path: folder with ``raw`` and ``split`` in it.
      scheme: folder below ``split``; by default the only one.
      task: column of the labels, from 0: which task, where there are several, as in
        ogbn-proteins (0 to 111). The others are not read.
      name: name of the graph; by default that of the folder.

    Raises:
      FileNotFoundError: if a file isn't there.
      ValueError: naming the file, and the line if one is wrong; among others if there is no
        such task.

    Warns:
      UserWarning: if nodes of the split have no label for the task; it counts them. They are
        taken out of the split.
    """
    path = pathlib.Path(path)
    raw = path / "raw"
    counts = _find(raw, "num-node-list")
    num_nodes = load_table(counts, np.int64, columns=1)[:, 0]
    if len(num_nodes) != 1 or num_nodes[0] < 1:
        raise ValueError(f"{counts}: holds {num_nodes[:5].tolist()}, needs the size of one graph")
    n = int(num_nodes[0])

    file = _find(raw, "edge")
    edges = load_table(file, np.int64, columns=2)
    outside = np.any((edges < 0) | (edges >= n), axis=1)
    check_rows(file, outside, f"edge to a missing node, nodes are 0 to {n - 1}")

    features = _features(raw, edges, n)
    file = _find(raw, "node-label")
    labels = _labels(file, n, task)
    masks = _masks(path / "split", scheme, n)
    without = {field: int((mask & (labels < 0)).sum()) for field, mask in masks.items()}
    if any(without.values()):
        warnings.warn(
            f"{file}: task {task} has no label for {sum(without.values())} of the split's nodes, "
            "which are taken out of it: "
            + ", ".join(f"{count} of {field}" for field, count in without.items()),
            stacklevel=2,
        )
        masks = {field: mask & (labels >= 0) for field, mask in masks.items()}
    with errors_name(path):
        return NodeGraph.from_edges(
            name or path.name,
            features,
            edges,
            labels,
            train_mask=masks.get("train_mask"),
            val_mask=masks.get("val_mask"),
            test_mask=masks.get("test_mask"),
        )


def save_ogb_folder(path: str | os.PathLike[str], graph: NodeGraph, scheme: str = "random") -> None:
    """Writes what ``load_ogb_folder`` reads, each undirected edge once.

    Raises:
      ValueError: if the graph hasn't exactly one split.
    """
    if graph.num_splits != 1:
        raise ValueError(f"graph has {graph.num_splits} splits, an OGB folder holds one a scheme")
    raw, folder = pathlib.Path(path) / "raw", pathlib.Path(path) / "split" / scheme
    labels = np.where(graph.labels < 0, np.nan, graph.labels)
    edges = graph.undirected_edges
    _write(raw / "num-node-list.csv.gz", np.array([graph.num_nodes]), "%d")
    _write(raw / "num-edge-list.csv.gz", np.array([len(edges)]), "%d")
    _write(raw / "edge.csv.gz", edges, "%d")
    _write(raw / "node-feat.csv.gz", graph.features, "%.9g")
    _write(raw / "node-label.csv.gz", labels, "%g")
    for (part, _), mask in zip(_PARTS, graph.split(0)):
        _write(folder / f"{part}.csv.gz", np.flatnonzero(mask), "%d")


def _find(folder: pathlib.Path, stem: str) -> pathlib.Path:
    for suffix in (".csv.gz", ".csv"):
        if (folder / f"{stem}{suffix}").exists():
            return folder / f"{stem}{suffix}"
    raise FileNotFoundError(f"{folder}: has no {stem}.csv.gz")


def _masks(split: pathlib.Path, scheme: str | None, n: int) -> dict[str, np.ndarray]:
    masks: dict[str, np.ndarray] = {}
    if not split.exists() and scheme is None:
        return masks
    folder = _scheme_folder(split, scheme)
    for part, field in _PARTS:
        file = _find(folder, part)
        ids = load_table(file, np.int64, columns=1)[:, 0]
        check_rows(file, (ids < 0) | (ids >= n), f"no such node, nodes are 0 to {n - 1}")
        repeated = np.ones(len(ids), bool)
        repeated[np.unique(ids, return_index=True)[1]] = False
        check_rows(file, repeated, "node is there already")
        masks[field] = np.isin(np.arange(n), ids)
    return masks


def _scheme_folder(folder: pathlib.Path, scheme: str | None) -> pathlib.Path:
    if scheme is not None:
        return folder / scheme
    there = sorted(p for p in folder.iterdir() if p.is_dir()) if folder.is_dir() else []
    if len(there) != 1:
        names = ", ".join(p.name for p in there) or "none"
        raise ValueError(f"{folder}: needs one split scheme, has {names}; choose one by scheme=")
    return there[0]


def _features(raw: pathlib.Path, edges: np.ndarray, n: int) -> np.ndarray:
    try:
        file = _find(raw, "node-feat")
    except FileNotFoundError:
        file = _find(raw, "edge-feat")
        return _mean_over_edges(_finite_table(file, len(edges)), edges, n)
    return _finite_table(file, n)


def _finite_table(file: pathlib.Path, rows: int) -> np.ndarray:
    table = load_table(file, np.float32)
    if len(table) != rows:
        raise ValueError(f"{file}: has {len(table)} rows, needs {rows}")
    check_rows(file, ~np.isfinite(table).all(axis=1), "a feature is not a finite number")
    return table


def _mean_over_edges(values: np.ndarray, edges: np.ndarray, n: int) -> np.ndarray:
    ends = edges.T.reshape(-1)
    count = np.maximum(np.bincount(ends, minlength=n), 1)
    sums = [np.bincount(ends, np.tile(column, 2), minlength=n) for column in values.T]
    return (np.stack(sums, axis=1) / count[:, None]).astype(np.float32)


def _labels(file: pathlib.Path, n: int, task: int) -> np.ndarray:
    labels = []
    with open_text(file) as text:
        for number, line in enumerate(text, start=1):
            # pandas writes a missing label as nothing, or as "" where it is the only column.
            cells = [cell.strip().strip('"') for cell in line.split(",")]
            if not 0 <= task < len(cells):
                raise ValueError(
                    f"{file}: line {number}: has {len(cells)} columns, so there is no task={task}, "
                    f"only 0 to {len(cells) - 1}"
                )
            try:
                value = float(cells[task] or "nan")
            except ValueError:
                value = np.inf
            if not np.isnan(value) and not (0 <= value < 2**31 and value % 1 == 0):
                raise ValueError(f"{file}: line {number}: {cells[task][:40]!r} is no class")
            labels.append(-1 if np.isnan(value) else int(value))
    if len(labels) != n:
        raise ValueError(f"{file}: has {len(labels)} rows, needs {n}")
    return np.array(labels, np.int64)


def _write(path: pathlib.Path, rows: np.ndarray, form: str) -> None:
    # No time stamp: the same graph gives the same file.
    with (
        replaced_file(path) as unfinished,
        open(unfinished, "wb") as raw,
        gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) as file,
    ):
        np.savetxt(file, rows, form, delimiter=",")
