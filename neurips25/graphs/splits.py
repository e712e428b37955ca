"""Random train, validation and test nodes, for graphs that come without a split.

Split k is drawn from numpy's PCG64 with the seed sequence ``(seed, k)``, so that asking for
more splits keeps the first ones.
"""

import numpy as np
from numpy.typing import ArrayLike

from neurips25.graphs.node_graph import Split, as_integers


def random_splits(
    labels: ArrayLike,
    fractions: tuple[float, float, float] = (0.6, 0.2, 0.2),
    num_splits: int = 10,
    seed: int = 0,
) -> Split:
    """Splits the labelled nodes at random into shares of given size.

    Args:
      labels: integers ``[n]``; nodes with -1 are in no mask.
      fractions: shares of train, val and test, each >= 0, together at most 1. Sizes are
        rounded down, except that shares which sum to 1 leave no node out: test takes the rest.
      num_splits: how many splits to draw.
      seed: in [0, 2**32).

    Returns:
      Masks, bool ``[num_splits, n]``.

    Raises:
      ValueError: if the fractions or a number are out of range.

    >>> split = random_splits([0, 1, 0, 1, -1], (0.5, 0.25, 0.25), num_splits=2)
    >>> [mask.sum(axis=1).tolist() for mask in split]
    [[2, 2], [1, 1], [1, 1]]
    """
    total = sum(fractions)
    # The slack is for sums such as 0.6 + 0.2 + 0.2, which need not be 1 in floats.
    if len(fractions) != 3 or min(fractions) < 0 or total > 1 + 1e-9:
        raise ValueError(f"fractions must be three numbers >= 0 that sum to <= 1, got {fractions}")
    labels = as_integers("labels", labels, 1)
    known = np.flatnonzero(labels >= 0)
    train, val, test = (int(share * len(known) + 1e-9) for share in fractions)
    if total > 1 - 1e-9:
        test = len(known) - train - val
    split = _empty(num_splits, len(labels))
    for k, rng in enumerate(_generators(seed, num_splits)):
        order = rng.permutation(known)
        split.train[k, order[:train]] = True
        split.val[k, order[train : train + val]] = True
        split.test[k, order[train + val : train + val + test]] = True
    return split


def random_splits_per_class(
    labels: ArrayLike,
    per_class: int = 20,
    num_val: int = 500,
    num_test: int = 1000,
    num_splits: int = 10,
    seed: int = 0,
) -> Split:
    """Splits as few-label benchmarks do: so many training nodes a class, then val, then test.

    Args:
      labels: integers ``[n]``; nodes with -1 are in no mask.
      per_class: training nodes of each class that occurs.
      num_val: validation nodes, of any class.
      num_test: test nodes, of any class.
      num_splits: how many splits to draw.
      seed: in [0, 2**32).

    Returns:
      Masks, bool ``[num_splits, n]``.

    Raises:
      ValueError: if a class or the graph is too small, or a number is out of range.

    >>> split = random_splits_per_class([0, 0, 0, 1, 1, 1], 1, num_val=2, num_test=2, num_splits=1)
    >>> [mask.sum().item() for mask in split]
    [2, 2, 2]
    """
    if per_class < 1 or num_val < 0 or num_test < 0:
        raise ValueError(
            f"per_class must be >= 1, num_val and num_test >= 0, got {per_class}, {num_val}, "
            f"{num_test}"
        )
    labels = as_integers("labels", labels, 1)
    known = np.flatnonzero(labels >= 0)
    classes, sizes = np.unique(labels[known], return_counts=True)
    if sizes.min(initial=per_class) < per_class:
        smallest = classes[sizes.argmin()]
        raise ValueError(f"class {smallest} has {sizes.min()} nodes, needs per_class={per_class}")
    needed = per_class * len(classes) + num_val + num_test
    if needed > len(known):
        raise ValueError(f"the split needs {needed} labelled nodes, the graph has {len(known)}")
    split = _empty(num_splits, len(labels))
    for k, rng in enumerate(_generators(seed, num_splits)):
        order = rng.permutation(known)
        for c in classes:
            split.train[k, order[labels[order] == c][:per_class]] = True
        rest = order[~split.train[k, order]]
        split.val[k, rest[:num_val]] = True
        split.test[k, rest[num_val : num_val + num_test]] = True
    return split


def _empty(num_splits: int, num_nodes: int) -> Split:
    if num_splits < 0:
        raise ValueError(f"num_splits must be >= 0, got {num_splits}")
    return Split(*(np.zeros((num_splits, num_nodes), bool) for _ in Split._fields))


def _generators(seed: int, count: int) -> list[np.random.Generator]:
    if not 0 <= seed < 2**32:
        raise ValueError(f"seed must be in [0, 2**32), got {seed}")
    return [
        np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(k,))))
        for k in range(count)
    ]
