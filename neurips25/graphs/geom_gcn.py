"""Geom-GCN's text files: WebKB, Actor ("film"), Chameleon, Squirrel and others.

Pei et al., "Geom-GCN", arXiv:2002.05287. In one folder a graph:

    out1_node_feature_label.txt   id <tab> features between commas <tab> label
    out1_graph_edges.txt          id <tab> id

each under one line of header, and splits as ``NAME_split_0.6_0.2_K.npz`` with ``train_mask``,
``val_mask`` and ``test_mask`` ``[n]``. Features are a number for each column; "film" lists the
columns that are 1 instead, so that its rows differ in length.

The splits are fixed and part of the benchmark: results on others, drawn at random, don't compare
with published ones. They come in a folder of their own, ``splits`` beside the ``new_data`` that
holds the graphs.
"""

import os
import pathlib
import re

import numpy as np

from neurips25.data import replace_text
from neurips25.graphs.node_graph import NodeGraph, as_mask
from neurips25.graphs.npz_arrays import NpzArrays, errors_name, save_npz
from neurips25.graphs.number_tables import check_rows, load_table, open_text, plain_id

_NODES = "out1_node_feature_label.txt"
_EDGES = "out1_graph_edges.txt"
_MASKS = ("train_mask", "val_mask", "test_mask")


def load_geom_gcn(
    directory: str | os.PathLike[str],
    split_dir: str | os.PathLike[str] | None = None,
    *,
    num_features: int | None = None,
    name: str | None = None,
) -> NodeGraph:
    """Reads a graph, and the splits that go by its name.

    Splits are read, never drawn: where there are none the graph has ``num_splits`` 0, and
    ``random_splits`` or ``load_graph(..., fractions=...)`` draw some. Nodes keep the order of
    their ids. Rows of unequal length are taken for lists of columns if each consists of
    different integers >= 0.

    Args:
      directory: folder of the two text files.
      split_dir: folder of the splits; by default ``directory`` if there are some, else
        ``../../splits`` as seen from there, where the published files lie. Both may have none.
      num_features: says that features are lists of columns, out of so many.
      name: how the splits' names start; by default as the name of the folder, or as all
        splits in ``directory`` do.

    Raises:
      FileNotFoundError: if a file isn't there, or there is no split in ``split_dir``.
      ValueError: naming the file and the line, or the array that is wrong.
    """
    directory = pathlib.Path(directory)
    name = name or directory.resolve().name
    ids, rows, labels = _read_nodes(directory / _NODES)
    features = _feature_matrix(directory / _NODES, ids, rows, num_features)
    order = np.argsort(list(ids))
    sorted_ids = np.array(list(ids))[order]
    n = len(order)
    masks = _read_splits(_split_files(directory, split_dir, name), n)
    if split_dir is not None and not len(masks["train_mask"]):
        raise FileNotFoundError(f"{split_dir}: has no {name}_split_*.npz")

    file = directory / _EDGES
    skip = _header_lines(file)
    pairs = load_table(file, np.int64, delimiter=None, skip_lines=skip, columns=2)
    edges = np.minimum(np.searchsorted(sorted_ids, pairs), n - 1)
    missing = (sorted_ids[edges] != pairs).any(axis=1)
    check_rows(file, missing, f"edge to a node that {_NODES} hasn't got", skip)
    with errors_name(directory):
        return NodeGraph.from_edges(
            name,
            features[order],
            edges,
            np.array(labels)[order],
            train_mask=masks["train_mask"],
            val_mask=masks["val_mask"],
            test_mask=masks["test_mask"],
        )


def save_geom_gcn(
    directory: str | os.PathLike[str],
    graph: NodeGraph,
    split_dir: str | os.PathLike[str] | None = None,
) -> None:
    """Writes what ``load_geom_gcn`` reads, with a number for each feature of each node.

    Splits are named after the folder, as the reader expects.

    Args:
      directory: folder to write to; made if it isn't there.
      graph: any graph whose labels are all known.
      split_dir: folder for the splits; by default ``directory``.

    Raises:
      ValueError: naming the first node without a label.
    """
    unknown = np.flatnonzero(graph.labels < 0)
    if unknown.size:
        raise ValueError(f"node {unknown[0]} has no label, these files need one for each node")
    directory = pathlib.Path(directory)
    lines = ["node_id\tfeature\tlabel"]
    for i, (row, label) in enumerate(zip(graph.features, graph.labels)):
        lines.append(f"{i}\t{','.join(f'{value:.9g}' for value in row)}\t{label}")
    replace_text(directory / _NODES, "\n".join(lines) + "\n")
    lines = ["node_id\tnode_id", *(f"{i}\t{j}" for i, j in graph.undirected_edges)]
    replace_text(directory / _EDGES, "\n".join(lines) + "\n")
    folder = directory if split_dir is None else pathlib.Path(split_dir)
    for k in range(graph.num_splits):
        masks = dict(zip(_MASKS, graph.split(k)))
        save_npz(folder / f"{directory.resolve().name}_split_0.6_0.2_{k}.npz", **masks)


def _read_nodes(path: pathlib.Path) -> tuple[dict[int, int], list[np.ndarray], list[int]]:
    """Line of each id, and features and labels in the order of the file."""
    line_of: dict[int, int] = {}
    rows, labels = [], []
    skip = _header_lines(path)
    with open_text(path) as text:
        for number, line in enumerate(text, start=1):
            if number <= skip or not line.strip():
                continue
            where = f"{path}: line {number}"
            cells = line.rstrip("\n").split("\t")
            if len(cells) != 3:
                raise ValueError(
                    f"{where}: has {len(cells)} columns between tabs, needs 3 (id, features, label)"
                )
            try:
                node, label = (
                    int(plain_id(cell.strip().strip('"'))) for cell in (cells[0], cells[2])
                )
            except ValueError:
                raise ValueError(
                    f"{where}: id {cells[0][:40]!r} and label {cells[2][:40]!r} must be integers"
                ) from None
            if node in line_of:
                raise ValueError(f"{where}: node {node} is there already, on line {line_of[node]}")
            if not -(2**63) <= node < 2**63:
                raise ValueError(f"{where}: id {cells[0][:40]} does not fit int64")
            if label < 0:
                raise ValueError(f"{where}: label {label} is negative")
            try:
                row = np.array(cells[1].split(",") if cells[1] else [], np.float64)
            except ValueError as error:
                raise ValueError(f"{where}: features: {error}") from error
            if not np.isfinite(row).all():
                column = np.flatnonzero(~np.isfinite(row))[0]
                raise ValueError(f"{where}: feature {column} is {row[column]}, not finite")
            line_of[node] = number
            rows.append(row)
            labels.append(label)
    if not rows:
        raise ValueError(f"{path}: has no nodes")
    return line_of, rows, labels


def _feature_matrix(
    path: pathlib.Path, line_of: dict[int, int], rows: list[np.ndarray], num_features: int | None
) -> np.ndarray:
    lines = list(line_of.values())
    width = len(rows[0])
    odd = next((i for i, row in enumerate(rows) if len(row) != width), None)
    if num_features is None and odd is None:
        return np.array(rows)
    not_columns = next((i for i, row in enumerate(rows) if not _are_columns(row)), None)
    if not_columns is not None:
        if num_features is None:
            raise ValueError(
                f"{path}: line {lines[odd or 0]}: has {len(rows[odd or 0])} features, "
                f"line {lines[0]} has {width}"
            )
        raise ValueError(f"{path}: line {lines[not_columns]}: features are no list of columns")
    largest = [int(row.max(initial=-1)) for row in rows]
    columns = max(largest) + 1 if num_features is None else num_features
    features = np.zeros((len(rows), columns), np.float32)
    for i, row in enumerate(rows):
        if largest[i] >= columns:
            raise ValueError(
                f"{path}: line {lines[i]}: column {largest[i]} is not below "
                f"num_features={num_features}"
            )
        features[i, row.astype(np.int64)] = 1
    return features


def _are_columns(row: np.ndarray) -> bool:
    return bool((row >= 0).all() and (row % 1 == 0).all() and len(np.unique(row)) == len(row))


def _split_files(
    directory: pathlib.Path, split_dir: str | os.PathLike[str] | None, name: str
) -> list[pathlib.Path]:
    if split_dir is not None:
        return _files_by_name(pathlib.Path(split_dir)).get(name, [])
    found = _files_by_name(directory)
    # Beside the graph itself, files of another name can only be its own.
    if name not in found and len(found) == 1:
        name = next(iter(found))
    published = directory.resolve().parent.parent / "splits"
    return found.get(name) or _files_by_name(published).get(name, [])


def _files_by_name(folder: pathlib.Path) -> dict[str, list[pathlib.Path]]:
    found: dict[str, dict[int, pathlib.Path]] = {}
    for path in folder.glob("*_split_*.npz"):
        parts = re.fullmatch(r"(.+)_split_.*?_?(\d+)\.npz", path.name)
        if parts:
            found.setdefault(parts[1], {})[int(parts[2])] = path
    return {name: [path for _, path in sorted(paths.items())] for name, paths in found.items()}


def _read_splits(paths: list[pathlib.Path], n: int) -> dict[str, np.ndarray]:
    masks: dict[str, list[np.ndarray]] = {field: [] for field in _MASKS}
    for path in paths:
        arrays = NpzArrays(path)
        with errors_name(path):
            for field in _MASKS:
                masks[field].append(as_mask(field, np.squeeze(arrays[field]), n))
    return {field: np.array(values, bool).reshape(-1, n) for field, values in masks.items()}


def _header_lines(path: pathlib.Path) -> int:
    with open_text(path) as text:
        first = text.readline().split()
    return 0 if first and re.fullmatch(r'"?-?\d+(\.\d*)?"?', first[0]) else 1
