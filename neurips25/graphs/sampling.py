"""Mini-batches by neighbour sampling, for graphs too large to train on at once.

A batch is the subgraph around some root nodes: of each root's neighbours a few are drawn
without replacement, of each of theirs again a few, and so on. All arrays have fixed shapes,
padded at the end, so that a training step is compiled once. Batch k is a pure function of
(seed, k). Source: Hamilton et al., "Inductive representation learning on large graphs",
arXiv:1706.02216, algorithm 2.
"""

import dataclasses
import functools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from neurips25.data import ArrayBatches, SeekableBatches
from neurips25.graphs.node_graph import NodeGraph, as_integers


class SampledSubgraph(NamedTuple):
    """A padded subgraph of N nodes and E edges; what is real comes first.

    At least the last node is padding, and all padding edges join it with itself, so that what
    they send reaches no real node.

    Fields:
      nodes: int32 ``[N]``, ids in the whole graph: the roots in their order, then the nodes at
        distance 1, 2, ... in ascending order; 0 for padding.
      features: float32 ``[N, d]``; zeros for padding.
      labels: int32 ``[N]``; -1 for padding.
      degrees: int32 ``[N]``, neighbours in the whole graph; 0 for padding.
      senders: int32 ``[E]``, positions in ``nodes``.
      receivers: int32 ``[E]``, sorted.
      edge_weight: float32 ``[E]``, neighbours of the receiver in the whole graph over those
        drawn: weighted sums over drawn neighbours have the sum over all of them as their
        mean. 0 for padding.
      real_nodes: bool ``[N]``.
      roots: bool ``[N]``, the nodes whose outputs count; the first B unless padded.
    """

    nodes: np.ndarray
    features: np.ndarray
    labels: np.ndarray
    degrees: np.ndarray
    senders: np.ndarray
    receivers: np.ndarray
    edge_weight: np.ndarray
    real_nodes: np.ndarray
    roots: np.ndarray


def subgraph_size(num_nodes: int, num_roots: int, fanouts: Sequence[int]) -> tuple[int, int]:
    """Padded sizes (N, E) that hold the sampled subgraph of any roots.

    N is ``1 + min(n, B + B f_1 + B f_1 f_2 + ...)``, one for the padding node. Nodes draw
    neighbours when they are first met, so E is ``B f_1 + B f_1 f_2 + ...`` with each factor
    before the last ``f`` counting nodes, at most n together.

    >>> subgraph_size(1000, 4, (3, 2))
    (41, 36)
    """
    met = frontier = num_roots
    edges = 0
    for fanout in fanouts:
        edges += frontier * fanout
        frontier *= fanout
        met += frontier
    return 1 + min(num_nodes, met), min(edges, num_nodes * max(fanouts))


def sample_subgraph(
    graph: NodeGraph,
    roots: ArrayLike,
    fanouts: Sequence[int],
    rng: np.random.Generator,
    *,
    num_roots: int | None = None,
) -> SampledSubgraph:
    """Samples the neighbourhood of some nodes.

    Each node within distance ``len(fanouts) - 1`` of the roots (along drawn edges) receives
    from ``min(degree, fanout)`` of its neighbours, drawn without replacement with the fanout
    of its distance. With fanouts of at least the largest degree the outputs of a network of
    ``len(fanouts)`` layers at the roots are those on the whole graph.

    Args:
      graph: the whole graph, n nodes.
      roots: different node ids ``[b]``, 1 <= b <= B.
      fanouts: neighbours to draw at distance 0, 1, ...; each >= 1.
      rng: what to draw from.
      num_roots: B, how many roots the shapes must hold; by default b.

    Returns:
      The subgraph, of the shapes that ``subgraph_size(n, B, fanouts)`` tells.

    Raises:
      ValueError: if a root doesn't exist, is there twice or there are too many of them, or a
        fanout is below 1.
    """
    roots = as_integers("roots", roots, 1)
    b = len(roots) if num_roots is None else num_roots
    if not 1 <= len(roots) <= b:
        raise ValueError(f"roots has shape [{len(roots)}], needs 1 to {b} roots")
    _check_nodes("roots", roots, graph.num_nodes)
    _check_fanouts(fanouts)
    num_nodes, num_edges = subgraph_size(graph.num_nodes, b, fanouts)

    nodes, frontier = roots, roots
    pieces = []
    for fanout in fanouts:
        pieces.append(_draw_neighbours(graph, frontier, fanout, rng))
        frontier = np.setdiff1d(pieces[-1][0], nodes)
        nodes = np.concatenate([nodes, frontier])
    senders, receivers, weight = (np.concatenate(arrays) for arrays in zip(*pieces))

    by_id = np.argsort(nodes)
    senders, receivers = (by_id[np.searchsorted(nodes[by_id], ids)] for ids in (senders, receivers))
    order = np.lexsort((senders, receivers))
    return _padded(
        graph,
        nodes,
        len(roots),
        senders[order],
        receivers[order],
        weight[order],
        num_nodes,
        num_edges,
    )


@dataclasses.dataclass(frozen=True, eq=False)
class NeighborBatches:
    """Shuffled epochs over root nodes, each batch with a sampled neighbourhood.

    ``iter(batches)`` gives a ``SeekableBatches`` from step 0, ``batches.batch_at(step)`` any
    one batch. The roots of step k are those of ``ArrayBatches``; the neighbours come from
    numpy's PCG64 with the seed sequence of ``(seed, k)``.

    Args:
      graph: the whole graph.
      nodes: node ids to train on ``[M]``, M >= ``batch_size``.
      batch_size: roots B of a batch.
      fanouts: see ``sample_subgraph``.
      seed: in [0, 2**32).

    Raises:
      ValueError: if a number is out of its range.

    >>> square = [(0, 1), (1, 2), (2, 3), (3, 0)]
    >>> graph = NodeGraph.from_edges("square", np.eye(4), square, [0, 0, 1, 1])
    >>> batches = NeighborBatches(graph, [0, 1, 2, 3], batch_size=2, fanouts=(1,), seed=0)
    >>> batch = batches.batch_at(0)
    >>> batch.nodes.shape, batch.senders.shape, batch.roots.tolist()
    ((5,), (2,), [True, True, False, False, False])
    """

    graph: NodeGraph
    nodes: np.ndarray
    batch_size: int
    fanouts: tuple[int, ...] = (10, 10)
    seed: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "nodes", as_integers("nodes", self.nodes, 1))
        object.__setattr__(self, "fanouts", tuple(self.fanouts))
        _check_nodes("nodes", self.nodes, self.graph.num_nodes)
        _check_fanouts(self.fanouts)
        ArrayBatches({"node": self.nodes}, self.batch_size, self.seed)

    def __iter__(self) -> SeekableBatches[SampledSubgraph]:
        return SeekableBatches(self.batch_at)

    @property
    def steps_per_epoch(self) -> int:
        """Whole batches in the M nodes: ``M // B``."""
        return self._roots.steps_per_epoch

    def batch_at(self, step: int) -> SampledSubgraph:
        """The batch of a step >= 0."""
        sequence = np.random.SeedSequence(self.seed, spawn_key=(step,))
        roots = self._roots.batch_at(step)["node"]
        rng = np.random.Generator(np.random.PCG64(sequence))
        return sample_subgraph(self.graph, roots, self.fanouts, rng)

    @functools.cached_property
    def _roots(self) -> ArrayBatches:
        return ArrayBatches({"node": self.nodes}, self.batch_size, self.seed)


def _check_nodes(what: str, nodes: np.ndarray, num_nodes: int) -> None:
    outside = nodes[(nodes < 0) | (nodes >= num_nodes)]
    if outside.size:
        raise ValueError(f"{what} has {outside[0]}, but nodes are 0 to {num_nodes - 1}")
    ids, counts = np.unique(nodes, return_counts=True)
    if (counts > 1).any():
        raise ValueError(f"{what} has node {ids[counts.argmax()]} more than once")


def _check_fanouts(fanouts: Sequence[int]) -> None:
    if not fanouts or min(fanouts) < 1:
        raise ValueError(f"fanouts must be integers >= 1, got {tuple(fanouts)}")


def _draw_neighbours(
    graph: NodeGraph, nodes: np.ndarray, fanout: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Senders, receivers and weights of the edges drawn, with ids of the whole graph."""
    starts = graph.row_starts[nodes]
    degrees = graph.row_starts[nodes + 1] - starts
    drawn = np.minimum(degrees, fanout)
    picks = np.tile(np.arange(fanout), (len(nodes), 1))
    many = np.flatnonzero(degrees > fanout)
    picks[many] = _distinct_below(degrees[many], fanout, rng)
    taken = np.arange(fanout) < drawn[:, None]
    senders = graph.senders[(starts[:, None] + picks)[taken]].astype(np.int64)
    weight = np.repeat(degrees / np.maximum(drawn, 1), drawn)
    return senders, np.repeat(nodes, drawn), weight


def _distinct_below(bounds: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """For each bound b >= count a uniform set of ``count`` integers in [0, b): ``[n, count]``.

    Floyd's algorithm (Bentley, "Programming pearls", CACM 30, 1987), for all rows at once.
    """
    chosen = np.full((len(bounds), count), -1, np.int64)
    for k in range(count):
        top = bounds - count + k
        draw = rng.integers(0, top + 1)
        taken = (chosen == draw[:, None]).any(axis=1)
        chosen[:, k] = np.where(taken, top, draw)
    return chosen


def _padded(
    graph: NodeGraph,
    nodes: np.ndarray,
    num_roots: int,
    senders: np.ndarray,
    receivers: np.ndarray,
    weight: np.ndarray,
    num_nodes: int,
    num_edges: int,
) -> SampledSubgraph:
    position = np.arange(num_nodes)

    def padded(values: np.ndarray, size: int, fill: int, dtype: type) -> np.ndarray:
        array = np.full((size, *values.shape[1:]), fill, dtype)
        array[: len(values)] = values
        return array

    return SampledSubgraph(
        nodes=padded(nodes, num_nodes, 0, np.int32),
        features=padded(graph.features[nodes], num_nodes, 0, np.float32),
        labels=padded(graph.labels[nodes], num_nodes, -1, np.int32),
        degrees=padded(
            graph.row_starts[nodes + 1] - graph.row_starts[nodes], num_nodes, 0, np.int32
        ),
        senders=padded(senders, num_edges, num_nodes - 1, np.int32),
        receivers=padded(receivers, num_edges, num_nodes - 1, np.int32),
        edge_weight=padded(weight, num_edges, 0, np.float32),
        real_nodes=position < len(nodes),
        roots=position < num_roots,
    )
