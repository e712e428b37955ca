"""Any of the graph formats that this package reads, told by the files themselves."""

import os
import pathlib
import re
from typing import Any

from neurips25.graphs.csr_npz import load_csr_npz
from neurips25.graphs.edge_list import load_edge_list
from neurips25.graphs.geom_gcn import load_geom_gcn
from neurips25.graphs.heterophilous_npz import load_heterophilous_npz
from neurips25.graphs.node_graph import NodeGraph
from neurips25.graphs.npz_arrays import NpzArrays
from neurips25.graphs.ogb_folder import load_ogb_folder
from neurips25.graphs.planetoid import load_planetoid
from neurips25.graphs.splits import random_splits


def load_graph(
    path: str | os.PathLike[str],
    *,
    fractions: tuple[float, float, float] | None = None,
    num_splits: int = 10,
    split_seed: int = 0,
    **options: Any,
) -> NodeGraph:
    """Reads a graph in whichever of these formats it is.

    - ``DIR/ind.NAME`` or any file ``DIR/ind.NAME.PART``, or a folder with one such graph in
      it: ``load_planetoid``;
    - an ``.npz`` file with ``node_features``: ``load_heterophilous_npz``; with ``adj_data`` or
      ``adj_matrix...``: ``load_csr_npz``;
    - a folder with ``out1_graph_edges.txt``: ``load_geom_gcn``;
    - a folder with ``raw`` in it: ``load_ogb_folder``;
    - any other folder, or a file of text together with ``features=``: ``load_edge_list``.

    Splits are those of the files. Where they hold none and ``fractions`` is given, they are
    drawn at random, the same ones from whatever format:
    ``random_splits(labels, fractions, num_splits, split_seed)``. Without ``fractions`` only
    ``load_csr_npz`` draws splits, shares of 0.6, 0.2 and 0.2, since its format knows no others;
    a graph from any other format then has ``num_splits`` 0.

    Args:
      path: file or folder.
      fractions: shares of training, validation and test nodes in splits that are drawn.
      num_splits: how many splits to draw.
      split_seed: seed of the splits that are drawn.
      options: for the reader of the format, such as ``split_dir``, the folder of geom-gcn's
        splits, or ``scheme`` and ``task`` of an OGB folder.

    Raises:
      FileNotFoundError: if there is nothing at ``path``.
      ValueError: naming the file, if it is of none of these formats or malformed.
    """
    path = pathlib.Path(path)
    if _is_csr_npz(path):
        if fractions is not None:
            options = {**options, "fractions": fractions}
        return load_csr_npz(path, split_seed, num_splits=num_splits, **options)
    graph = _load(path, options)
    if fractions is None or graph.num_splits:
        return graph
    return graph.with_split(random_splits(graph.labels, fractions, num_splits, split_seed))


def _is_csr_npz(path: pathlib.Path) -> bool:
    if path.suffix != ".npz" or not path.is_file():
        return False
    names = NpzArrays(path).names
    return "node_features" not in names and any(name.startswith("adj_") for name in names)


def _load(path: pathlib.Path, options: dict[str, Any]) -> NodeGraph:
    planetoid = re.fullmatch(r"ind\.(.+?)(\.(x|y|allx|ally|tx|ty|graph|test\.index))?", path.name)
    if planetoid and not path.is_dir():
        return load_planetoid(path.parent, planetoid[1], **options)
    if path.is_dir():
        return _load_folder(path, options)
    if path.suffix == ".npz":
        arrays = NpzArrays(path)
        if "node_features" in arrays:
            return load_heterophilous_npz(path, **options)
        raise ValueError(
            f"{path}: holds {', '.join(sorted(arrays.names))}; a graph needs node_features, "
            "node_labels, edges and masks, or adj_data, attr_data and labels"
        )
    if not path.exists():
        raise FileNotFoundError(f"no graph at {path}")
    return load_edge_list(path, **options)


def _load_folder(path: pathlib.Path, options: dict[str, Any]) -> NodeGraph:
    if (path / "out1_graph_edges.txt").exists():
        return load_geom_gcn(path, **options)
    if (path / "raw").is_dir():
        return load_ogb_folder(path, **options)
    names = sorted(p.name[len("ind.") : -len(".graph")] for p in path.glob("ind.*.graph"))
    if len(names) > 1:
        raise ValueError(
            f"{path}: holds the graphs {', '.join(names)}; choose one by {path}/ind.NAME"
        )
    if names:
        return load_planetoid(path, names[0], **options)
    return load_edge_list(path, **options)
