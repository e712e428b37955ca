"""Graphs drawn at random: a stochastic block model, and power-law graphs of any size."""

import jax
import numpy as np

from neurips25.graphs.node_graph import NodeGraph, sorted_unique
from neurips25.graphs.splits import random_splits


def sbm_dataset(
    key: jax.Array | int,
    n: int,
    c: int,
    f: int,
    homophily: float = 0.8,
    *,
    average_degree: float = 10.0,
    on: float = 0.2,
    off: float = 0.05,
    num_splits: int = 10,
    name: str = "sbm",
) -> NodeGraph:
    """A stochastic block model whose features are words that classes use more or less often.

    Classes have equal size, up to one node. Nodes of one class are joined with probability
    p_in and others with p_out, which are such that an edge joins nodes of one class with
    probability ``homophily`` and nodes have ``average_degree`` neighbours on average. Feature
    j of a node is 1 with probability ``on`` if j mod c is the node's class, else ``off``.

    Args:
      key: a key of ``jax.random.key``, or an integer seed.
      n: nodes.
      c: classes, 2 <= c <= n / 2.
      f: features.
      homophily: in [0, 1].
      average_degree: > 0, and small enough for p_in and p_out to be probabilities.
      on: probability in [0, 1].
      off: probability in [0, 1].
      num_splits: random 60/20/20 splits to draw.
      name: name of the graph.

    Raises:
      ValueError: if a number is out of its range.

    >>> graph = sbm_dataset(0, n=60, c=3, f=12, homophily=1.0)
    >>> graph.num_nodes, graph.num_classes, graph.features.shape
    (60, 3, (60, 12))
    """
    _check_range("c", c, 2, n // 2)
    _check_range("f", f, 1, np.inf)
    for what, share in (("homophily", homophily), ("on", on), ("off", off)):
        _check_range(what, share, 0, 1)
    rng = _generator(key)
    labels = rng.permutation(np.arange(n) % c)
    members = [np.flatnonzero(labels == k) for k in range(c)]
    inside = sum(len(ids) * (len(ids) - 1) // 2 for ids in members)
    edges = n * average_degree / 2
    p_in, p_out = homophily * edges / inside, (1 - homophily) * edges / (n * (n - 1) / 2 - inside)
    if not average_degree > 0 or max(p_in, p_out) > 1:
        raise ValueError(
            f"average_degree={average_degree} gives edges the probabilities {p_in:.3g} within and "
            f"{p_out:.3g} between classes, needs both in [0, 1] and one > 0"
        )
    pieces = []
    for a in range(c):
        size = len(members[a])
        i, j = _triangle(_bernoulli_positions(rng, size * (size - 1) // 2, p_in))
        pieces.append(np.stack([members[a][i], members[a][j]], axis=1))
        for b in range(a):
            i, j = np.divmod(
                _bernoulli_positions(rng, size * len(members[b]), p_out), len(members[b])
            )
            pieces.append(np.stack([members[a][i], members[b][j]], axis=1))
    own = np.arange(f) % c == labels[:, None]
    features = rng.random((n, f), np.float32) < np.where(own, on, off).astype(np.float32)
    graph = NodeGraph.from_edges(name, features, np.concatenate(pieces), labels, num_classes=c)
    seed = int(rng.integers(2**32))
    return graph.with_split(random_splits(labels, num_splits=num_splits, seed=seed))


def power_law_dataset(
    key: jax.Array | int,
    n: int,
    m: int,
    c: int = 10,
    f: int = 64,
    homophily: float = 0.7,
    *,
    exponent: float = 2.5,
    signal: float = 1.5,
    num_splits: int = 1,
    name: str = "power_law",
) -> NodeGraph:
    """A graph of exactly m edges whose degrees follow a power law, ``P(degree > k) ~ k^(1-e)``.

    Node of rank r (from 0) ends an edge with probability proportional to the Chung-Lu weight
    ``(r + 1)^(-1/(e-1))``; repeats of an edge are drawn anew. With probability ``homophily``
    an edge joins nodes of one class, otherwise two classes. Features are Gaussian with
    variance 1 around a centre for each class, at distance ``signal`` from 0. Ids are shuffled,
    so that equal shares of them carry about equal shares of the edges. All of it is done on
    whole arrays: a million nodes and ten million edges take seconds.

    Args:
      key: a key of ``jax.random.key``, or an integer seed.
      n: nodes, n < 2^31.
      m: undirected edges, at most n (n - 1) / 8.
      c: classes, 2 <= c <= n / 2.
      f: features.
      homophily: in [0, 1].
      exponent: e > 2 of the degree distribution.
      signal: >= 0, distance of the classes' centres from 0 in standard deviations.
      num_splits: random 60/20/20 splits to draw.
      name: name of the graph.

    Raises:
      ValueError: if a number is out of its range.

    >>> graph = power_law_dataset(0, n=1000, m=5000, f=8)
    >>> graph.num_edges, bool(graph.degrees.max() > 10 * graph.degrees.mean())
    (5000, True)
    """
    _check_range("c", c, 2, n // 2)
    _check_range("f", f, 1, np.inf)
    _check_range("m", m, 1, n * (n - 1) // 8)
    _check_range("homophily", homophily, 0, 1)
    if exponent <= 2:
        raise ValueError(f"exponent must be > 2, got {exponent}")
    rng = _generator(key)
    keys = np.zeros(0, np.int64)
    while len(keys) < m:
        u, v = _weighted_ends(rng, int((m - len(keys)) * 1.2) + 16, n, c, homophily, exponent)
        apart = u != v
        low, high = np.minimum(u, v)[apart], np.maximum(u, v)[apart]
        keys = sorted_unique(np.concatenate([keys, low * n + high]))
    if len(keys) > m:
        keys = np.delete(keys, rng.choice(len(keys), len(keys) - m, replace=False))
    id_of_rank = rng.permutation(n)
    edges = np.stack([id_of_rank[end] for end in np.divmod(keys, n)], axis=1)
    labels = np.zeros(n, np.int64)
    labels[id_of_rank] = np.arange(n) % c
    centres = rng.standard_normal((c, f), np.float32)
    centres *= signal / np.linalg.norm(centres, axis=1, keepdims=True)
    features = rng.standard_normal((n, f), np.float32)
    features += centres[labels]
    graph = NodeGraph.from_edges(name, features, edges, labels, num_classes=c)
    seed = int(rng.integers(2**32))
    return graph.with_split(random_splits(labels, num_splits=num_splits, seed=seed))


def _weighted_ends(
    rng: np.random.Generator, count: int, n: int, c: int, homophily: float, exponent: float
) -> tuple[np.ndarray, np.ndarray]:
    # Weights r^-a have the cumulative share (r / n)^(1-a), which has a closed inverse.
    power = (exponent - 1) / (exponent - 2)
    u, v = (np.minimum((n * rng.random(count) ** power).astype(np.int64), n - 1) for _ in "uv")
    other = np.where(rng.random(count) < homophily, 0, rng.integers(1, c, count))
    # The class of rank r is r mod c, so any class is found among ranks of about the same weight.
    v += (u + other) % c - v % c
    v[v >= n] -= c
    return u, v


def _bernoulli_positions(rng: np.random.Generator, size: int, p: float) -> np.ndarray:
    """Which of ``size`` independent trials of probability p succeed, sorted int64.

    Draws the gaps between successes, so that the work is that of the successes alone.
    """
    if p == 0 or size == 0:
        return np.zeros(0, np.int64)
    last, pieces = -1, []
    while last < size:
        count = int((size - last) * p * 1.1) + 16
        # Where p is tiny a gap may exceed any integer; beyond the end all are alike.
        gaps = np.minimum(rng.geometric(p, count), size + 1)
        pieces.append(last + np.cumsum(gaps))
        last = int(pieces[-1][-1])
    positions = np.concatenate(pieces)
    return positions[positions < size]


def _triangle(positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Pairs i > j in the order (1, 0), (2, 0), (2, 1), (3, 0), ..."""
    i = ((1 + np.sqrt(1 + 8 * positions.astype(np.float64))) / 2).astype(np.int64)
    # The root may be rounded past the next integer.
    i -= i * (i - 1) // 2 > positions
    return i, positions - i * (i - 1) // 2


def _check_range(what: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:
        raise ValueError(f"{what} must be in [{low}, {high}], got {value}")


def _generator(key: jax.Array | int) -> np.random.Generator:
    words = [key] if isinstance(key, int) else jax.random.key_data(key).ravel().tolist()
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(words)))
