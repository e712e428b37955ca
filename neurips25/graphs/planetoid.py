"""Planetoid's raw files: Cora, CiteSeer, PubMed and others in their layout.

Yang et al., "Revisiting semi-supervised learning with graph embeddings", arXiv:1603.08861.
For a graph ``name`` there are eight files ``ind.name.PART``:

    x, y         features [k, d] (sparse) and one-hot labels [k, C] of the training nodes
    allx, ally   the same of all nodes but the test nodes; its first k rows are x, y
    tx, ty       the same of the test nodes, in the order of test.index
    graph        dict: node -> list of its neighbours
    test.index   ids of the test nodes, one a line

All but the last are pickles. Ids that ``test.index`` leaves out between its smallest and its
largest one (CiteSeer has 15) are nodes without features and label.
"""

import os
import pathlib
import pickle
from typing import Any

import numpy as np
import scipy.sparse

from neurips25.data import replace_text, replaced_file
from neurips25.graphs.node_graph import NodeGraph
from neurips25.graphs.npz_arrays import errors_name
from neurips25.graphs.restricted_pickle import load_data_pickle
from neurips25.graphs.sparse_arrays import labels_from_one_hot

NUM_VALIDATION = 500


def load_planetoid(root: str | os.PathLike[str], name: str) -> NodeGraph:
    """Reads a graph with its public split: the k nodes of x, the next 500, ``test.index``.

    Args:
      root: folder of the files.
      name: such as ``"cora"``; the files are ``ind.cora.x``, ...

    Returns:
      The graph with one split; nodes whose label isn't known have -1 and are in no mask.

    Raises:
      FileNotFoundError: if a file isn't there.
      ValueError: naming the file, what is wrong with it, and the line or row; among others if
        a pickle asks for anything but numpy arrays, sparse matrices, dicts and lists.
    """
    paths = _paths(root, name)
    matrices = {part: _matrix(paths[part]) for part in ("x", "y", "allx", "ally", "tx", "ty")}
    for kind in ("x", "y"):
        for part in (kind, f"t{kind}"):
            _check_size(paths, matrices, part, f"all{kind}", axis=1)
    for prefix in ("", "all", "t"):
        _check_size(paths, matrices, f"{prefix}y", f"{prefix}x", axis=0)
    allx, tx = matrices["allx"], matrices["tx"]
    ally, ty = (_labels(paths[part], matrices[part]) for part in ("ally", "ty"))
    train, others = matrices["y"].shape[0], len(ally)
    if train > others:
        raise ValueError(f"{paths['x']}: has {train} rows, {paths['allx'].name} only {others}")
    test = _test_index(paths["test.index"], first=others, count=len(ty))

    n = int(test.max(initial=others - 1)) + 1
    features = np.zeros((n, allx.shape[1]), np.float32)
    features[:others] = allx.toarray()
    features[test] = tx.toarray()
    labels = np.full(n, -1, np.int64)
    labels[:others] = ally
    labels[test] = ty
    ids = np.arange(n)
    known = labels >= 0
    edges = _edges(paths["graph"], n)
    with errors_name(pathlib.Path(root) / f"ind.{name}"):
        return NodeGraph.from_edges(
            name,
            features,
            edges,
            labels,
            num_classes=matrices["ally"].shape[1],
            train_mask=known & (ids < train),
            val_mask=known & (ids >= train) & (ids < min(train + NUM_VALIDATION, others)),
            test_mask=known & np.isin(ids, test),
        )


def save_planetoid(root: str | os.PathLike[str], name: str, graph: NodeGraph) -> None:
    """Writes the eight files that ``load_planetoid`` reads.

    Args:
      root: folder to write to; made if it isn't there.
      name: such as ``"cora"``.
      graph: with one split of the only layout that the format has: training nodes first, then
        up to 500 validation nodes, any others, and test nodes last.

    Raises:
      ValueError: if the graph's nodes are not in that order.
    """
    if graph.num_splits != 1:
        raise ValueError(f"graph has {graph.num_splits} splits, Planetoid's files hold one")
    train, val, test = (np.flatnonzero(mask) for mask in graph.split(0))
    others = int(test.min(initial=graph.num_nodes))
    k = len(train)
    validation = np.arange(k, min(k + NUM_VALIDATION, others))
    left_out = np.setdiff1d(np.arange(others, graph.num_nodes), test)
    if not np.array_equal(train, np.arange(k)):
        raise ValueError("Planetoid's files need the training nodes first: nodes 0 to k - 1")
    if not np.array_equal(val, validation[graph.labels[validation] >= 0]):
        raise ValueError(
            f"Planetoid's files need the labelled ones of nodes {k} to {k + len(validation) - 1} "
            "for validation"
        )
    if len(left_out) and (
        left_out[-1] > test[-1]
        or (graph.labels[left_out] >= 0).any()
        or graph.features[left_out].any()
    ):
        raise ValueError(
            "Planetoid's files need test nodes last; between them may stand only nodes without "
            "label and features"
        )
    paths = _paths(root, name)
    one_hot = np.zeros((graph.num_nodes, graph.num_classes), np.int32)
    known = np.flatnonzero(graph.labels >= 0)
    one_hot[known, graph.labels[known]] = 1
    neighbours = np.split(graph.senders, graph.row_starts[1:-1])
    contents: dict[str, Any] = {"graph": {i: ids.tolist() for i, ids in enumerate(neighbours)}}
    for suffix, rows in (("", train), ("all", np.arange(others)), ("t", test)):
        contents[f"{suffix}x"] = scipy.sparse.csr_matrix(graph.features[rows])
        contents[f"{suffix}y"] = one_hot[rows]
    for part, value in contents.items():
        with replaced_file(paths[part]) as unfinished:
            unfinished.write_bytes(pickle.dumps(value, protocol=2))
    replace_text(paths["test.index"], "".join(f"{i}\n" for i in test))


def _paths(root: str | os.PathLike[str], name: str) -> dict[str, pathlib.Path]:
    parts = ("x", "y", "allx", "ally", "tx", "ty", "graph", "test.index")
    return {part: pathlib.Path(root) / f"ind.{name}.{part}" for part in parts}


def _matrix(path: pathlib.Path) -> scipy.sparse.csr_array:
    value = load_data_pickle(path)
    if not isinstance(value, (scipy.sparse.csr_array, np.ndarray)) or value.ndim != 2:
        raise ValueError(f"{path}: holds {type(value).__name__}, needs a matrix")
    if value.dtype.kind not in "iufb":
        raise ValueError(f"{path}: holds a matrix of {value.dtype}, needs numbers")
    matrix = scipy.sparse.csr_array(value)
    bad = np.flatnonzero(~np.isfinite(matrix.data))
    if bad.size:
        row = np.searchsorted(matrix.indptr, bad[0], side="right") - 1
        raise ValueError(
            f"{path}: row {row}, column {matrix.indices[bad[0]]} is {matrix.data[bad[0]]}, "
            "needs finite numbers"
        )
    return matrix


def _labels(path: pathlib.Path, one_hot: scipy.sparse.csr_array) -> np.ndarray:
    with errors_name(path):
        return labels_from_one_hot(one_hot)


def _check_size(
    paths: dict[str, pathlib.Path],
    matrices: dict[str, scipy.sparse.csr_array],
    part: str,
    other: str,
    axis: int,
) -> None:
    size, needed = matrices[part].shape[axis], matrices[other].shape[axis]
    if size != needed:
        raise ValueError(
            f"{paths[part]}: has {size} {('rows', 'columns')[axis]}, {paths[other].name} has "
            f"{needed}"
        )


def _test_index(path: pathlib.Path, first: int, count: int) -> np.ndarray:
    line_of: dict[int, int] = {}
    for number, line in enumerate(path.read_bytes().splitlines(), start=1):
        if not line.strip():
            continue
        try:
            node = int(line)
        except ValueError:
            raise ValueError(f"{path}: line {number}: {line[:40]!r} is not an integer") from None
        if node < first:
            raise ValueError(
                f"{path}: line {number}: node {node} is one of the {first} nodes of allx"
            )
        if node in line_of:
            raise ValueError(
                f"{path}: line {number}: node {node} is there already, on line {line_of[node]}"
            )
        line_of[node] = number
    if len(line_of) != count:
        raise ValueError(f"{path}: has {len(line_of)} nodes, tx has {count} rows")
    # A stray huge id would otherwise ask for a feature matrix of that many rows.
    limit = first + 10 * count + 1000
    for node, number in line_of.items():
        if node >= limit:
            raise ValueError(
                f"{path}: line {number}: node {node} is far beyond the {first + count} nodes "
                "with features"
            )
    return np.array(list(line_of), np.int64)


def _edges(path: pathlib.Path, num_nodes: int) -> np.ndarray:
    value = load_data_pickle(path)
    if not isinstance(value, dict):
        raise ValueError(f"{path}: holds {type(value).__name__}, needs a dict of neighbours")
    pieces = [np.zeros((0, 2), np.int64)]
    for node, neighbours in value.items():
        if not _are_ids([node]) or not _are_ids(neighbours):
            raise ValueError(
                f"{path}: entry {node!r} needs an integer and a list of integers, "
                f"has {str(neighbours)[:60]}"
            )
        for i in (node, *neighbours):
            if not 0 <= i < num_nodes:
                raise ValueError(
                    f"{path}: entry {node}: there is no node {i}, nodes are 0 to {num_nodes - 1}"
                )
        ids = np.array(list(neighbours), np.int64)
        pieces.append(np.stack([np.full_like(ids, node), ids], axis=1))
    return np.concatenate(pieces)


def _are_ids(values: Any) -> bool:
    return isinstance(values, (list, tuple, set, np.ndarray)) and all(
        isinstance(i, (int, np.integer)) for i in values
    )
