"""The CSR ``.npz`` files of the gnn-benchmark collection (Photo, Computers, CS, Physics, ...).

Shchur et al., "Pitfalls of graph neural network evaluation", arXiv:1811.05868: sparse matrices
as ``adj_data``, ``adj_indices``, ``adj_indptr``, ``adj_shape`` and ``attr_*`` likewise (older
files have ``adj_matrix.data`` ..., dense ones a single ``attr_matrix``), and ``labels``: classes
``[n]``, or one-hot rows, dense or as ``labels_data`` or ``labels.data``, ....

The files hold no splits. The reader draws them at random.
"""

import os
import pathlib

import numpy as np
import scipy.sparse

from neurips25.graphs.class_labels import labels_from_array
from neurips25.graphs.node_graph import NodeGraph, as_integers
from neurips25.graphs.npz_arrays import NpzArrays, errors_name, save_npz
from neurips25.graphs.sparse_arrays import csr_matrix, labels_from_one_hot
from neurips25.graphs.splits import random_splits


def load_csr_npz(
    path: str | os.PathLike[str],
    split_seed: int = 0,
    *,
    num_splits: int = 10,
    fractions: tuple[float, float, float] = (0.6, 0.2, 0.2),
    name: str | None = None,
) -> NodeGraph:
    """Reads one graph, and draws its splits at random: the files of this format hold none.

    The splits are ``random_splits(labels, fractions, num_splits, split_seed)``. Entries of the
    adjacency matrix other than 0 are edges, whatever their weight and direction.

    Args:
      path: such as ``amazon_electronics_photo.npz``.
      split_seed: seed of the splits.
      num_splits: how many splits to draw; 0 for none.
      fractions: shares of train, val and test nodes; see ``random_splits``.
      name: name of the graph; by default that of the file.

    Raises:
      FileNotFoundError: if there is no such file.
      ValueError: naming the file, the array and what is wrong with it.
    """
    path = pathlib.Path(path)
    arrays = NpzArrays(path)
    with errors_name(path):
        adjacency = _matrix(arrays, ("adj", "adj_matrix"))
        if adjacency.shape[0] != adjacency.shape[1]:
            raise ValueError(f"adj_shape is {adjacency.shape}, needs [n, n]")
        if not np.isfinite(adjacency.data).all():
            at = np.flatnonzero(~np.isfinite(adjacency.data))[0]
            raise ValueError(f"adj_data[{at}] is {adjacency.data[at]}, needs a finite number")
        adjacency.eliminate_zeros()
        entries = adjacency.tocoo()
        attributes = _matrix(arrays, ("attr", "attr_matrix"))
        graph = NodeGraph.from_edges(
            name or path.stem,
            features=attributes.toarray(),
            edges=np.stack([entries.row, entries.col], axis=1),
            labels=_labels(arrays),
        )
        split = random_splits(
            graph.labels, fractions=fractions, num_splits=num_splits, seed=split_seed
        )
        return graph.with_split(split)


def save_csr_npz(path: str | os.PathLike[str], graph: NodeGraph) -> None:
    """Writes what ``load_csr_npz`` reads: everything but the splits."""
    n = graph.num_nodes
    ones = np.ones(len(graph.senders), np.float32)
    adjacency = scipy.sparse.csr_array((ones, graph.senders, graph.row_starts), shape=(n, n))
    attributes = scipy.sparse.csr_array(graph.features)
    arrays: dict[str, np.ndarray] = {"labels": graph.labels.astype(np.int64)}
    for prefix, matrix in (("adj", adjacency), ("attr", attributes)):
        arrays |= {
            f"{prefix}_data": matrix.data,
            f"{prefix}_indices": matrix.indices,
            f"{prefix}_indptr": matrix.indptr,
            f"{prefix}_shape": np.array(matrix.shape),
        }
    save_npz(path, **arrays)


def _matrix(arrays: NpzArrays, names: tuple[str, str]) -> scipy.sparse.csr_array:
    new, old = names
    if old in arrays:
        return scipy.sparse.csr_array(np.atleast_2d(arrays[old]))
    prefixes = (f"{new}_", f"{old}.", f"{old}_", f"{new}.")
    prefix = next((p for p in prefixes if f"{p}data" in arrays), f"{new}_")
    shape = as_integers(f"{prefix}shape", arrays[f"{prefix}shape"], 1)
    if len(shape) != 2 or (shape < 1).any():
        raise ValueError(f"{prefix}shape is {shape.tolist()}, needs two numbers >= 1")
    return csr_matrix(
        arrays[f"{prefix}data"],
        as_integers(f"{prefix}indices", arrays[f"{prefix}indices"], 1),
        as_integers(f"{prefix}indptr", arrays[f"{prefix}indptr"], 1),
        (int(shape[0]), int(shape[1])),
        prefix,
    )


def _labels(arrays: NpzArrays) -> np.ndarray:
    sparse = any(f"labels{joint}data" in arrays for joint in "_.")
    if "labels" not in arrays and sparse:
        return labels_from_one_hot(_matrix(arrays, ("labels", "labels_matrix")))
    return labels_from_array("labels", arrays["labels"])
