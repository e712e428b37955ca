"""Verdicts as pure functions of a measurement, its uncertainty and the paper's claim.

All use one rule: a claim holds if it is met by the whole interval value +- k s.e., does not
hold if no part of that interval meets it, and holds partly otherwise. Where no uncertainty
is passed (None), a threshold takes the value as exact, while an ordering or a difference
between methods counts as not tested.
"""

import itertools
import math
from collections.abc import Mapping, Sequence

from numpy.typing import ArrayLike

from neurips25.evidence.record import Scale, Verdict
from neurips25.evidence.statistics import difference_with_se

__all__ = [
    "verdict_at_least",
    "verdict_at_most",
    "verdict_difference_within",
    "verdict_number",
    "verdict_ordering",
]


def verdict_at_most(value: float, limit: float, se: float | None = None, k: float = 2.0) -> Verdict:
    """Verdict on value <= limit.

    Args:
        value: what was measured. A run that diverged (NaN or infinity) meets no limit.
        limit: what is claimed, in the same unit.
        se: standard error of ``value``; None or 0 where it is exact.
        k: standard errors on either side of ``value``.

    >>> str(verdict_at_most(1.9, 2.0, se=0.01)), str(verdict_at_most(1.99, 2.0, se=0.01))
    ('holds', 'partly')
    """
    if math.isnan(value) or value == math.inf:
        return Verdict.DOES_NOT_HOLD
    half_width = k * _checked(se)
    if value + half_width <= limit:
        return Verdict.HOLDS
    return Verdict.DOES_NOT_HOLD if value - half_width > limit else Verdict.PARTLY


def verdict_at_least(
    value: float, limit: float, se: float | None = None, k: float = 2.0
) -> Verdict:
    """Verdict on value >= limit; arguments as in ``verdict_at_most``.

    >>> str(verdict_at_least(15.9, 4.0))
    'holds'
    """
    return verdict_at_most(-value, -limit, se, k)


def verdict_difference_within(
    difference: float, se: float | None, margin: float, k: float = 2.0
) -> Verdict:
    """Verdict on \\|difference\\| <= margin, two methods being equal up to a margin.

    Args:
        difference, se: as from ``difference_with_se``. With ``se=None`` (fewer than two
            seeds) the claim counts as not tested; pass 0 for an exact difference.
        margin: largest difference that still counts as equal.
        k: standard errors on either side.

    >>> str(verdict_difference_within(0.01, 0.01, margin=0.05))
    'holds'
    """
    if se is None:
        return Verdict.NOT_TESTED
    return verdict_at_most(abs(difference), margin, se, k)


def verdict_ordering(
    measured: Mapping[str, ArrayLike],
    expected: Sequence[str],
    k: float = 2.0,
    *,
    paired: bool = False,
) -> Verdict:
    """Verdict on mean(expected[0]) < mean(expected[1]) < ...

    Args:
        measured: method name -> float ``[n]`` samples, one per seed.
        expected: the claimed order, smallest mean first (reverse it where larger is better).
        k: standard errors that a difference must exceed.
        paired: whether all methods ran the same seeds in the same order.

    Returns:
        ``HOLDS`` if every adjacent pair is in order beyond k s.e.; ``DOES_NOT_HOLD`` if some
        pair, adjacent or not, is reversed beyond k s.e.; ``NOT_TESTED`` if a method has fewer
        than two samples and nothing is refuted by the others; else ``PARTLY``.

    Raises:
        ValueError: if ``expected`` names fewer than two methods, or one without samples.

    >>> losses = {"tpa": [1.80, 1.82], "mha": [1.90, 1.91]}
    >>> str(verdict_ordering(losses, ["tpa", "mha"])), str(verdict_ordering(losses, ["mha", "tpa"]))
    ('holds', 'does not hold')
    """
    missing = [name for name in expected if name not in measured]
    if missing or len(set(expected)) != len(expected) or len(expected) < 2:
        raise ValueError(
            f"expected had {list(expected)}, needs two or more different names of "
            f"measured: {list(measured)}"
        )
    differences = {
        (i, j): difference_with_se(measured[expected[j]], measured[expected[i]], paired=paired)
        for i, j in itertools.combinations(range(len(expected)), 2)
    }
    if any(d.se is not None and d.value < -k * d.se for d in differences.values()):
        return Verdict.DOES_NOT_HOLD
    if any(d.se is None for d in differences.values()):
        return Verdict.NOT_TESTED
    adjacent = (differences[i, i + 1] for i in range(len(expected) - 1))
    if all(d.se is not None and d.value > k * d.se for d in adjacent):
        return Verdict.HOLDS
    return Verdict.PARTLY


def verdict_number(
    measured: float,
    se: float | None,
    paper_value: float,
    tolerance: float,
    scale: Scale,
    k: float = 2.0,
) -> Verdict:
    """Verdict on a number that the paper reports: \\|measured - paper_value\\| <= tolerance.

    At reduced scale the number is not tested, in either direction: a smaller run cannot
    refute it, and one that happens to agree does not confirm it.

    Args:
        measured: what was measured, in the unit of ``paper_value``.
        se: its standard error; None or 0 where it is exact.
        paper_value: the paper's number.
        tolerance: largest deviation that still counts as the same number.
        scale: scale of the run.
        k: standard errors on either side of ``measured``.

    >>> str(verdict_number(2.62, 0.002, 2.618, 0.01, Scale.FULL))
    'holds'
    >>> str(verdict_number(1.9, 0.002, 2.618, 0.01, Scale.REDUCED))
    'not tested at this scale'
    """
    if scale != Scale.FULL:
        return Verdict.NOT_TESTED
    return verdict_at_most(abs(measured - paper_value), tolerance, se, k)


def _checked(se: float | None) -> float:
    if se is None:
        return 0.0
    if not se >= 0:
        raise ValueError(f"se had {se}, needs a number >= 0 or None")
    return se
