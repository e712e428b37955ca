"""One graph with features, labels and splits: what node classification works on.

Every reader of this package returns a ``NodeGraph`` and every writer takes one. Its edges are
in one canonical form, so that a sum over neighbours is a ``segment_sum`` over sorted
receivers, and a graph read from two formats compares equal array by array.
"""

import dataclasses
import functools
import warnings
from typing import NamedTuple

import jax
import jax.numpy as jnp
import jraph
import numpy as np
from numpy.typing import ArrayLike


class Split(NamedTuple):
    """Which nodes train, choose and test a model: bool ``[n]``, or ``[splits, n]`` for several."""

    train: np.ndarray
    val: np.ndarray
    test: np.ndarray


@dataclasses.dataclass(frozen=True, eq=False)
class NodeGraph:
    """An undirected graph whose nodes have features, labels and splits.

    The fields are checked, not repaired; ``NodeGraph.from_edges`` makes the canonical form
    from any list of edges.

    Args:
      name: how tables and file names call the graph.
      features: float32 ``[n, d]``, finite, n and d >= 1.
      senders: int32 ``[2m]``, where each of the m undirected edges appears in both directions,
        no edge joins a node with itself and none appears twice.
      receivers: int32 ``[2m]``; the edges are sorted by (receiver, sender).
      labels: int32 ``[n]`` in ``[0, num_classes)``, or -1 where a label isn't known.
      num_classes: C >= 1.
      train_mask: bool ``[splits, n]``, which labelled nodes train a model; splits may be 0.
      val_mask: bool ``[splits, n]``, which labelled nodes choose its hyperparameters.
      test_mask: bool ``[splits, n]``, which labelled nodes test it.

    Raises:
      ValueError: naming the field, and the first entry that is not as above.

    >>> graph = NodeGraph.from_edges(
    ...     "path", features=np.eye(3), edges=[(0, 1), (2, 1), (1, 2)], labels=[0, 1, -1]
    ... )
    >>> graph.num_nodes, graph.num_edges, graph.num_classes, graph.num_splits
    (3, 2, 2, 0)
    >>> graph.senders.tolist(), graph.receivers.tolist()
    ([1, 0, 2, 1], [0, 1, 1, 2])
    """

    name: str
    features: np.ndarray
    senders: np.ndarray
    receivers: np.ndarray
    labels: np.ndarray
    num_classes: int
    train_mask: np.ndarray
    val_mask: np.ndarray
    test_mask: np.ndarray

    def __post_init__(self) -> None:
        set_field = functools.partial(object.__setattr__, self)
        set_field("features", as_features(self.features))
        n = len(self.features)
        set_field("labels", _checked_labels(self.labels, n, self.num_classes))
        _check_canonical(self.senders, self.receivers, n)
        set_field("senders", np.asarray(self.senders, np.int32))
        set_field("receivers", np.asarray(self.receivers, np.int32))
        for field in ("train_mask", "val_mask", "test_mask"):
            mask = as_mask(field, getattr(self, field), n)
            if mask.ndim != 2:
                raise ValueError(f"{field} has shape {list(mask.shape)}, needs [splits, {n}]")
            _check_labelled(field, mask, self.labels)
            set_field(field, mask)
        counts = {len(self.train_mask), len(self.val_mask), len(self.test_mask)}
        if len(counts) > 1:
            raise ValueError(
                f"masks have {len(self.train_mask)} (train), {len(self.val_mask)} (val) and "
                f"{len(self.test_mask)} (test) splits, need one number"
            )

    @classmethod
    def from_edges(
        cls,
        name: str,
        features: ArrayLike,
        edges: ArrayLike,
        labels: ArrayLike,
        *,
        num_classes: int | None = None,
        train_mask: ArrayLike | None = None,
        val_mask: ArrayLike | None = None,
        test_mask: ArrayLike | None = None,
    ) -> "NodeGraph":
        """The graph of any list of edges: directions, repeats and self-loops are dropped.

        Args:
          name: see the class.
          features: numbers ``[n, d]``.
          edges: integers ``[m, 2]`` in ``[0, n)``.
          labels: integers ``[n]``, -1 where not known.
          num_classes: C; by default the largest label + 1.
          train_mask: bool or 0/1, ``[splits, n]``, or ``[n]`` for one split; none by default.
          val_mask: likewise.
          test_mask: likewise.

        Raises:
          ValueError: naming the argument and its first bad entry.

        Warns:
          UserWarning: if two of the masks of a split share a node.
        """
        features = as_features(features)
        n = len(features)
        senders, receivers = canonical_edges(edges, n)
        labels = as_integers("labels", labels, 1)
        if num_classes is None:
            num_classes = int(labels.max(initial=-1)) + 1
        given = {"train_mask": train_mask, "val_mask": val_mask, "test_mask": test_mask}
        splits = next((np.atleast_2d(m).shape[0] for m in given.values() if m is not None), 0)
        masks = {
            field: np.zeros((splits, n), bool) if mask is None else as_mask(field, mask, n)
            for field, mask in given.items()
        }
        masks = {field: mask.reshape(-1, n) for field, mask in masks.items()}
        graph = cls(name, features, senders, receivers, labels, num_classes, **masks)
        _warn_of_shared_nodes(masks)
        return graph

    @property
    def num_nodes(self) -> int:
        """n."""
        return len(self.features)

    @property
    def num_edges(self) -> int:
        """m, undirected edges: half of ``len(senders)``."""
        return len(self.senders) // 2

    @property
    def num_splits(self) -> int:
        """How many (train, val, test) splits the graph comes with."""
        return len(self.train_mask)

    @functools.cached_property
    def row_starts(self) -> np.ndarray:
        """int64 ``[n + 1]``: the neighbours of node i are ``senders[starts[i]:starts[i + 1]]``."""
        return np.searchsorted(self.receivers, np.arange(self.num_nodes + 1)).astype(np.int64)

    @property
    def degrees(self) -> np.ndarray:
        """Neighbours of each node, int32 ``[n]``."""
        return np.diff(self.row_starts).astype(np.int32)

    @property
    def undirected_edges(self) -> np.ndarray:
        """Each edge once as (i, j) with i < j, int32 ``[m, 2]``, sorted."""
        once = self.senders > self.receivers
        return np.stack([self.receivers[once], self.senders[once]], axis=1)

    def split(self, i: int) -> Split:
        """Masks of one split, bool ``[n]`` each.

        Raises:
          ValueError: if there is no split i.
        """
        if not self.num_splits:
            raise ValueError(
                f"{self.name!r} has no splits; draw some: "
                "graph.with_split(random_splits(graph.labels))"
            )
        if not 0 <= i < self.num_splits:
            raise ValueError(f"split {i} does not exist, {self.name!r} has {self.num_splits}")
        return Split(self.train_mask[i], self.val_mask[i], self.test_mask[i])

    def with_split(self, split: Split) -> "NodeGraph":
        """The same graph with other masks, ``[n]`` or ``[splits, n]`` each."""
        train, val, test = (np.atleast_2d(mask) for mask in split)
        return dataclasses.replace(self, train_mask=train, val_mask=val, test_mask=test)


def to_graphs_tuple(graph: NodeGraph, edges: jax.Array | None = None) -> jraph.GraphsTuple:
    """The graph as device arrays, for modules that take a whole graph.

    Args:
      graph: n nodes, m undirected edges.
      edges: per-edge values ``[2m, ...]`` in the order of ``graph.senders``, such as the
        weights of a normalised adjacency matrix.

    Returns:
      ``jraph.GraphsTuple`` with nodes ``[n, d]``, senders and receivers ``[2m]``, n_node and
      n_edge ``[1]``, globals None.
    """
    return jraph.GraphsTuple(
        nodes=jnp.asarray(graph.features),
        edges=edges,
        senders=jnp.asarray(graph.senders),
        receivers=jnp.asarray(graph.receivers),
        globals=None,
        n_node=jnp.array([graph.num_nodes], jnp.int32),
        n_edge=jnp.array([len(graph.senders)], jnp.int32),
    )


def homophily(graph: NodeGraph) -> float:
    """Share of edges whose ends have one label, among the edges with two known labels.

    Returns:
      In [0, 1]; NaN if no edge has two known labels.

    >>> square = [(0, 1), (1, 2), (2, 3), (3, 0)]
    >>> homophily(NodeGraph.from_edges("square", np.eye(4), square, [0, 0, 0, 1]))
    0.5
    """
    ends = graph.labels[graph.undirected_edges]
    known = ends[(ends >= 0).all(axis=1)]
    return float((known[:, 0] == known[:, 1]).mean()) if len(known) else float("nan")


def canonical_edges(edges: ArrayLike, num_nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """Both directions of every edge once, without self-loops, sorted by (receiver, sender).

    Args:
      edges: integers ``[m, 2]`` in ``[0, num_nodes)``; repeats and both directions may occur.
      num_nodes: n >= 1.

    Returns:
      senders, receivers: int32 ``[2m']`` for the m' different edges.

    Raises:
      ValueError: naming the first edge to a node that doesn't exist.
    """
    pairs = as_integers("edges", edges, None)
    if pairs.size == 0:
        pairs = pairs.reshape(0, 2)
    if pairs.ndim != 2 or pairs.shape[1] != 2:
        raise ValueError(f"edges has shape {list(pairs.shape)}, needs [m, 2]")
    check_edges(pairs, num_nodes)
    low, high = np.minimum(*pairs.T), np.maximum(*pairs.T)
    # One int64 a pair sorts many times faster than rows do.
    keys = sorted_unique((low * num_nodes + high)[low != high])
    low, high = np.divmod(keys, num_nodes)
    keys = np.sort(np.concatenate([keys, high * num_nodes + low]))
    receivers, senders = np.divmod(keys, num_nodes)
    return senders.astype(np.int32), receivers.astype(np.int32)


def sorted_unique(values: np.ndarray) -> np.ndarray:
    """Different values of an array, sorted, ``[k]``.

    For ten million int64 this takes a second where ``np.unique``, which hashes them, takes 30.
    """
    values = np.sort(values, axis=None)
    first = np.ones(len(values), bool)
    np.not_equal(values[1:], values[:-1], out=first[1:])
    return values[first]


def check_edges(edges: np.ndarray, num_nodes: int) -> None:
    """Raises ValueError naming the first of edges ``[m, 2]`` to a node outside ``[0, n)``."""
    if not edges.size or (edges.min() >= 0 and edges.max() < num_nodes):
        return
    bad = np.flatnonzero(((edges < 0) | (edges >= num_nodes)).any(axis=1))[0]
    u, v = (int(node) for node in edges[bad])
    missing = v if 0 <= u < num_nodes else u
    raise ValueError(
        f"edges[{bad}] is ({u}, {v}), but there is no node {missing}: "
        f"nodes are 0 to {num_nodes - 1}"
    )


def as_integers(name: str, values: ArrayLike, ndim: int | None) -> np.ndarray:
    """Values as int64; floats pass if every one is whole.

    Raises:
      ValueError: naming the argument and the first value that isn't an integer, or its shape
        if that has not ``ndim`` axes (None: any number).
    """
    array = np.asarray(values)
    if ndim is not None and array.ndim != ndim:
        raise ValueError(f"{name} has shape {list(array.shape)}, needs {ndim} axes")
    if array.dtype.kind == "f":
        bad = np.argwhere(~(np.isfinite(array) & (array == np.floor(array))))
        if len(bad):
            at = ", ".join(str(i) for i in bad[0])
            raise ValueError(f"{name}[{at}] is {array[tuple(bad[0])]}, needs an integer")
    elif array.size and array.dtype.kind not in "iub":
        raise ValueError(f"{name} has dtype {array.dtype}, needs integers")
    return array.astype(np.int64)


def as_mask(name: str, values: ArrayLike, num_nodes: int) -> np.ndarray:
    """A mask as bool; numbers pass if every one is 0 or 1.

    Raises:
      ValueError: naming the mask, if its last axis has not ``num_nodes`` entries, it has
        neither one axis nor two, or a value is something else.
    """
    mask = np.asarray(values)
    if mask.ndim not in (1, 2) or mask.shape[-1] != num_nodes:
        raise ValueError(
            f"{name} has shape {list(mask.shape)}, needs [splits, {num_nodes}]: "
            "one entry for each node"
        )
    if mask.dtype == bool:
        return mask
    if mask.dtype.kind not in "iuf" or not np.isin(mask, (0, 1)).all():
        raise ValueError(f"{name} has dtype {mask.dtype} or values that are not 0 or 1")
    return mask.astype(bool)


def as_features(values: ArrayLike) -> np.ndarray:
    """Features as float32 ``[n, d]``.

    Raises:
      ValueError: naming the shape, or the first value that is not a finite number.
    """
    array = np.asarray(values)
    if array.dtype.kind not in "iubf":
        raise ValueError(f"features has dtype {array.dtype}, needs numbers")
    if array.ndim != 2 or not array.size:
        raise ValueError(f"features has shape {list(array.shape)}, needs [n, d], n and d >= 1")
    with np.errstate(over="ignore"):
        features = array.astype(np.float32, copy=False)
    bad = np.argwhere(~np.isfinite(features))
    if len(bad):
        row, column = bad[0]
        raise ValueError(
            f"features[{row}, {column}] is {array[row, column]}, needs finite float32 numbers"
        )
    return features


def _checked_labels(values: ArrayLike, num_nodes: int, num_classes: int) -> np.ndarray:
    labels = as_integers("labels", values, 1)
    if len(labels) != num_nodes:
        raise ValueError(f"labels has shape [{len(labels)}], needs [{num_nodes}]: one for a node")
    if num_classes > 2**31:
        raise ValueError(f"labels[{labels.argmax()}] is {labels.max()}, needs int32")
    if num_classes < 1:
        raise ValueError(f"num_classes must be >= 1, got {num_classes}")
    bad = np.flatnonzero((labels < -1) | (labels >= num_classes))
    if bad.size:
        raise ValueError(
            f"labels[{bad[0]}] is {labels[bad[0]]}, needs 0 to {num_classes - 1}, "
            "or -1 where the label isn't known"
        )
    return labels.astype(np.int32)


def _check_canonical(senders: np.ndarray, receivers: np.ndarray, num_nodes: int) -> None:
    senders, receivers = as_integers("senders", senders, 1), as_integers("receivers", receivers, 1)
    if len(senders) != len(receivers):
        raise ValueError(
            f"receivers has shape [{len(receivers)}], needs that of senders, [{len(senders)}]"
        )
    check_edges(np.stack([senders, receivers], axis=1), num_nodes)
    needs = "see NodeGraph.from_edges"
    loops = np.flatnonzero(senders == receivers)
    if loops.size:
        raise ValueError(f"edge {loops[0]} joins node {senders[loops[0]]} with itself; {needs}")
    keys = receivers * num_nodes + senders
    if (np.diff(keys) <= 0).any():
        raise ValueError(
            f"edges must be sorted by (receivers, senders) and each there once; {needs}"
        )
    if not np.array_equal(np.sort(senders * num_nodes + receivers), keys):
        raise ValueError(f"each edge must be there in both directions; {needs}")


def _check_labelled(field: str, mask: np.ndarray, labels: np.ndarray) -> None:
    bad = np.argwhere(mask & (labels < 0))
    if len(bad):
        raise ValueError(f"{field}[{bad[0][0]}] has node {bad[0][1]}, whose label is not known")


def _warn_of_shared_nodes(masks: dict[str, np.ndarray]) -> None:
    train, val, test = masks["train_mask"], masks["val_mask"], masks["test_mask"]
    for what, shared in (
        ("train and test", train & test),
        ("train and val", train & val),
        ("val and test", val & test),
    ):
        if shared.any():
            split, node = np.argwhere(shared)[0]
            warnings.warn(
                f"{what} masks share {int(shared[split].sum())} nodes in split {split} "
                f"(first: node {node})",
                stacklevel=3,
            )
