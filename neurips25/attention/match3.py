"""Match3: which tokens belong to a triple that sums to 0 mod M. Labels and generator.

arXiv:2501.19215 (task 3), after Sanford et al., arXiv:2306.02896:

    y_i = 1  iff  p_i + p_j + p_k ≡ 0 (mod M) for some j, k,   p in {1..M-1}

where j = k and either of them = i are allowed. Nearly every uniform sequence of 30 values
mod 37 has all labels 1, so the generator builds sequences with few triples and balances the
data over four bins of the share of ones: [0, 25), [25, 50), [50, 75) and [75, 100] %. Seed
sequences of the last two are rare and fill their bins by permuted copies. Such copies must
not fall on both sides of a split: see ``make_match3_splits``.
"""

import numpy as np
from numpy.typing import ArrayLike

from neurips25.attention.task_data import IGNORED_LABEL, CompositionTask, TaskData, check_sizes

NUM_BINS = 4
MAX_TARGET_PERCENT = 39
"""A seed sequence aims at 1..39 % of ones, and often gets more."""

_Bins = list[list[list[int]]]


def match3_labels(seq: ArrayLike, modulus: int, mask: ArrayLike | None = None) -> np.ndarray:
    """1 where p_i + p_j + p_k ≡ 0 (mod ``modulus``) for some j, k, repeats allowed.

    Args:
      seq: integers p [..., n].
      modulus: M >= 1.
      mask: bool [..., n], False at padding, which takes part in no triple. None: all real.

    Returns:
      int32 [..., n], 0 at padding.

    Raises:
      ValueError: ``modulus`` < 1, or a mask of another shape than ``seq``.

    >>> match3_labels([1, 4, 2, 2], modulus=8).tolist()
    [0, 1, 1, 1]
    """
    p = np.asarray(seq)
    real = np.ones(p.shape, bool) if mask is None else np.asarray(mask, bool)
    if modulus < 1:
        raise ValueError(f"modulus must be >= 1, got {modulus}")
    if real.shape != p.shape:
        raise ValueError(f"mask has shape {real.shape}, needs {p.shape} beside seq")
    # Column M collects the padding.
    value = np.where(real, p % modulus, modulus)
    present = np.zeros((*p.shape[:-1], modulus + 1), bool)
    np.put_along_axis(present, value, True, -1)
    residues = np.arange(modulus)
    completes = np.zeros_like(present)
    for a in range(modulus):
        completes[..., :-1] |= present[..., a, None] & present[..., (-residues - a) % modulus]
    return np.take_along_axis(completes, value, -1).astype(np.int32)


def make_match3(
    seed: int,
    num: int,
    n_min: int = 30,
    n_max: int = 35,
    modulus: int = 37,
    num_seed_sequences: int = 5000,
    bin_capacity: int | None = None,
) -> TaskData:
    """Balanced Match3 data as published: seed sequences, then permuted copies of them.

    A seed sequence is built from left to right towards a target number of ones, a uniform
    1..39 % of its n. At places drawn in advance a value is appended that completes a triple
    with two that stand already (or thrice itself), elsewhere and once the target is reached
    one that doesn't, as far as there are such values. Each bin keeps the first
    ``bin_capacity`` sequences that belong to it and is then filled to a quarter of ``num``
    by random permutations of them. At the published sizes about 39, 55, 2 and 4 % of the
    seed sequences belong to the four bins.

    Args:
      seed: of numpy's generator.
      num: examples N >= 4; the sizes of the bins differ by at most 1.
      n_min: n is uniform on {n_min..n_max}, n_min >= 3.
      n_max: see ``n_min``; the data have n_max tokens.
      modulus: M >= 4; with a smaller one all labels are equal.
      num_seed_sequences: how many to draw.
      bin_capacity: seed sequences that a bin keeps. None: ``num // 4``, the published code;
        the paper says ``num // 40``.

    Returns:
      Fields (position, p), positions from 0, in random order of the examples.

    Raises:
      ValueError: a number that is out of its range, or a bin that no sequence belongs to.

    Source: arXiv:2501.19215, experiments.
    """
    _check(num, n_min, n_max, modulus, num_seed_sequences, bin_capacity, least_capacity=1)
    rng = np.random.default_rng(seed)
    capacity = num // NUM_BINS if bin_capacity is None else bin_capacity
    bins = _seed_bins(rng, n_min, n_max, modulus, num_seed_sequences, capacity, distinct=False)
    return _augmented(rng, bins, num, n_max, modulus)


def make_match3_splits(
    seed: int,
    num_train: int,
    num_validation: int,
    n_min: int = 30,
    n_max: int = 35,
    modulus: int = 37,
    num_seed_sequences: int = 5000,
    bin_capacity: int | None = None,
) -> tuple[TaskData, TaskData]:
    """Training and validation data with no sequence of the one a permutation of the other's.

    As ``make_match3``, but seed sequences are kept only if they are no permutation of an
    earlier one, and each bin's are divided in proportion to the two sizes before any copies
    are made. The published way, which leaks copies, is
    ``split_validation(make_match3(...))``.

    Args:
      seed: of numpy's generator.
      num_train: training examples, >= 4.
      num_validation: validation examples, >= 4.
      n_min: as for ``make_match3``.
      n_max: as for ``make_match3``.
      modulus: as for ``make_match3``.
      num_seed_sequences: as for ``make_match3``.
      bin_capacity: seed sequences that a bin keeps for both. None: a quarter of the examples.

    Returns:
      ``(train, validation)``, each balanced over the bins.

    Raises:
      ValueError: a number that is out of its range, or a bin with fewer than two sequences.
    """
    for num in (num_train, num_validation):
        _check(num, n_min, n_max, modulus, num_seed_sequences, bin_capacity, least_capacity=2)
    rng = np.random.default_rng(seed)
    num = num_train + num_validation
    capacity = num // NUM_BINS if bin_capacity is None else bin_capacity
    bins = _seed_bins(rng, n_min, n_max, modulus, num_seed_sequences, capacity, distinct=True)
    held: _Bins = []
    for i, members in enumerate(bins):
        if len(members) < 2:
            raise ValueError(_too_few(i, len(members), 2, num_seed_sequences))
        held.append(members[: max(1, len(members) * num_validation // num)])
    rest = [members[len(out) :] for members, out in zip(bins, held)]
    train = _augmented(rng, rest, num_train, n_max, modulus)
    return train, _augmented(rng, held, num_validation, n_max, modulus)


def _check(
    num: int,
    n_min: int,
    n_max: int,
    modulus: int,
    num_seed_sequences: int,
    bin_capacity: int | None,
    least_capacity: int,
) -> None:
    check_sizes(num, least=3, n_min=n_min, n_max=n_max)
    if num < NUM_BINS:
        raise ValueError(f"num must be >= {NUM_BINS}, one for each bin, got {num}")
    if modulus < 4:
        raise ValueError(f"modulus must be >= 4, got {modulus}: all labels would be equal")
    if num_seed_sequences < 1:
        raise ValueError(f"num_seed_sequences must be >= 1, got {num_seed_sequences}")
    if bin_capacity is not None and bin_capacity < least_capacity:
        raise ValueError(f"bin_capacity must be None or >= {least_capacity}, got {bin_capacity}")


def _seed_bins(
    rng: np.random.Generator,
    n_min: int,
    n_max: int,
    modulus: int,
    num_seed_sequences: int,
    capacity: int,
    distinct: bool,
) -> _Bins:
    bins: _Bins = [[] for _ in range(NUM_BINS)]
    seen: set[tuple[int, ...]] = set()
    lengths = rng.integers(n_min, n_max, num_seed_sequences, endpoint=True)
    targets = lengths * rng.integers(1, MAX_TARGET_PERCENT, lengths.shape, endpoint=True) // 100
    for n, target in zip(lengths.tolist(), targets.tolist()):
        places = set(rng.integers(2, n, target).tolist())
        seq, ones = _seed_sequence(rng.random(n).tolist(), places, target, modulus)
        members = bins[min(NUM_BINS * ones // n, NUM_BINS - 1)]
        values = tuple(sorted(seq))
        if len(members) < capacity and not (distinct and values in seen):
            seen.add(values)
            members.append(rng.permutation(seq).tolist())
    for i, members in enumerate(bins):
        if not members:
            raise ValueError(_too_few(i, 0, 1, num_seed_sequences))
    return bins


def _seed_sequence(
    uniform: list[float], places: set[int], target: int, modulus: int
) -> tuple[list[int], int]:
    """One sequence before its shuffle, and how many of its labels are 1.

    Sets of residues are the bits of one int, so that all sums with a new value are one
    rotation: this loop runs some 150 000 times per data set.
    """
    every = (1 << modulus) - 2
    thrice = sum(1 << v for v in range(1, modulus) if 3 * v % modulus == 0)
    seq: list[int] = []
    negated = completing = ones = 0
    for position, u in enumerate(uniform):
        closing = (completing | thrice) & every
        wanted = closing if position in places and ones < target else every & ~closing
        choices = wanted or closing or every
        values = [v for v in range(1, modulus) if choices >> v & 1]
        value = values[int(u * len(values))]
        seq.append(value)
        # c completes a triple with placed a, b when c ≡ -a - b: turn all -a by -value.
        turn = modulus - value
        negated |= 1 << turn
        completing |= (negated << turn | negated >> value) & (every | 1)
        if ones < target or position == len(uniform) - 1:
            ones = sum(completing >> v & 1 for v in seq)
    return seq, ones


def _augmented(
    rng: np.random.Generator, bins: _Bins, num: int, n_max: int, modulus: int
) -> TaskData:
    """Each bin filled to its share of ``num`` by permuted copies of its members."""
    parts = []
    for i, members in enumerate(bins):
        size = num // NUM_BINS + (i < num % NUM_BINS)
        kept = members[:size]
        seq = np.zeros((len(kept), n_max), np.int32)
        for row, values in zip(seq, kept):
            row[: len(values)] = values
        copies = seq[rng.integers(0, len(kept), size - len(kept))]
        # Values are >= 1, so zeros are padding, and sort behind.
        order = np.argsort(np.where(copies > 0, rng.random(copies.shape), 1.0), 1)
        parts.append(np.concatenate([seq, np.take_along_axis(copies, order, 1)]))
    p = np.concatenate(parts)[rng.permutation(num)]
    mask = p > 0
    labels = np.where(mask, match3_labels(p, modulus, mask), IGNORED_LABEL)
    return TaskData(
        task=CompositionTask.MATCH3,
        tokens=np.stack([np.arange(n_max) * mask, p], -1).astype(np.int32),
        mask=mask,
        labels=labels.astype(np.int32),
        lengths=mask.sum(1).astype(np.int32),
        field_sizes=(n_max, modulus),
        scale=float(modulus**2),
    )


def _too_few(index: int, has: int, needs: int, num_seed_sequences: int) -> str:
    low, high = (100 * (index + k) // NUM_BINS for k in (0, 1))
    closed = "]" if index == NUM_BINS - 1 else ")"
    return (
        f"bin [{low}, {high}{closed} % of ones has {has} of {num_seed_sequences} seed sequences, "
        f"needs {needs}: raise num_seed_sequences, or change the sizes (a larger n_max or a "
        "smaller modulus gives more ones, the reverse fewer)"
    )
