"""The ``.npz`` files of the heterophilous-graphs benchmark.

Platonov et al., "A critical look at the evaluation of GNNs under heterophily", ICLR 2023:
``node_features [n, d]``, ``node_labels [n]``, ``edges [m, 2]`` and ``train_masks``,
``val_masks``, ``test_masks`` ``[splits, n]``, usually ten splits. A file without any of the masks
has no splits; a label that is NaN or -1 isn't known.
"""

import os
import pathlib

import numpy as np

from neurips25.graphs.class_labels import labels_from_array
from neurips25.graphs.node_graph import NodeGraph
from neurips25.graphs.npz_arrays import NpzArrays, errors_name, save_npz


def load_heterophilous_npz(path: str | os.PathLike[str], name: str | None = None) -> NodeGraph:
    """Reads one graph with its splits.

    Args:
      path: such as ``texas.npz``.
      name: name of the graph; by default that of the file.

    Raises:
      FileNotFoundError: if there is no such file.
      ValueError: naming the file, the array and its first bad entry.
    """
    path = pathlib.Path(path)
    arrays = NpzArrays(path)
    with errors_name(path):
        names = ("train_masks", "val_masks", "test_masks")
        any_there = any(name in arrays for name in names)
        train, val, test = (arrays[name] if any_there else None for name in names)
        return NodeGraph.from_edges(
            name or path.stem,
            features=arrays["node_features"],
            edges=arrays["edges"],
            labels=labels_from_array("labels", arrays["node_labels"]),
            train_mask=train,
            val_mask=val,
            test_mask=test,
        )


def save_heterophilous_npz(path: str | os.PathLike[str], graph: NodeGraph) -> None:
    """Writes what ``load_heterophilous_npz`` reads; each undirected edge is written once."""
    save_npz(
        path,
        node_features=graph.features,
        node_labels=graph.labels.astype(np.int64),
        edges=graph.undirected_edges.astype(np.int64),
        train_masks=graph.train_mask,
        val_masks=graph.val_mask,
        test_masks=graph.test_mask,
    )
