"""Verdicts as pure functions of a measurement, its uncertainty and the paper's claim.

Claims on a value: they hold if they are met by the whole interval value +- c s.e., do not hold
if no part of that interval meets them, and hold partly otherwise. Claims on an order: a pair of
methods counts, for or against, if the difference exceeds c s.e.; what the noise leaves open is
not tested. In both c is ``critical_value(dof, k)``: at least k, and with few samples the larger
quantile of Student's t. Where no uncertainty is passed (None), a threshold takes the value as
exact, while an order or a difference between methods counts as not tested. A timing is judged
by the quartiles of its repetitions.

A run that diverged is a result: among losses its NaN or infinity counts as higher than every
finite one.
"""

import itertools
import math
from collections.abc import Mapping, Sequence

from numpy.typing import ArrayLike

from neurips25.evidence.record import Scale, Verdict
from neurips25.evidence.statistics import beyond_noise, critical_value, difference_with_se


def verdict_at_most(
    value: float,
    limit: float,
    se: float | None = None,
    k: float = 2.0,
    *,
    dof: float | None = None,
) -> Verdict:
    """Verdict on value <= limit.

    Args:
      value: what was measured. NaN and infinity, from a run that diverged, meet no limit;
        minus infinity meets every one.
      limit: what is claimed, in the same unit.
      se: standard error of ``value``; None or 0 where it is exact.
      k: the least number of standard errors on either side of ``value``.
      dof: degrees of freedom of ``se``, as in ``Estimate``; the interval is
        ``critical_value(dof, k)`` standard errors to either side.

    >>> str(verdict_at_most(1.9, 2.0, se=0.01)), str(verdict_at_most(1.99, 2.0, se=0.01))
    ('holds', 'partly')
    >>> str(verdict_at_most(1.9, 2.0, se=0.03)), str(verdict_at_most(1.9, 2.0, se=0.03, dof=2))
    ('holds', 'partly')
    """
    if not math.isfinite(value):
        return Verdict.HOLDS if value == -math.inf else Verdict.DOES_NOT_HOLD
    half_width = critical_value(dof, k) * _checked(se)
    if value + half_width <= limit:
        return Verdict.HOLDS
    return Verdict.DOES_NOT_HOLD if value - half_width > limit else Verdict.PARTLY


def verdict_at_least(
    value: float,
    limit: float,
    se: float | None = None,
    k: float = 2.0,
    *,
    dof: float | None = None,
) -> Verdict:
    """Verdict on value >= limit; arguments as in ``verdict_at_most``.

    >>> str(verdict_at_least(15.9, 4.0))
    'holds'
    """
    return verdict_at_most(-value, -limit, se, k, dof=dof)


def verdict_difference_at_most(
    difference: float,
    se: float | None,
    margin: float,
    k: float = 2.0,
    *,
    dof: float | None = None,
) -> Verdict:
    """Verdict on a - b <= margin, method a being as good as b up to a margin.

    Args:
      difference, se, dof: as from ``difference_with_se``. With ``se=None`` (fewer than two
        seeds) the claim counts as not tested; pass 0 for an exact difference. If only b
        diverged the claim holds, if only a did it does not, and if both did it is not tested.
      margin: largest difference that still counts as as good.
      k: the least number of standard errors on either side.

    >>> str(verdict_difference_at_most(-0.3, 0.01, margin=0.05))
    'holds'
    """
    if se is None or math.isnan(difference):
        return Verdict.NOT_TESTED
    return verdict_at_most(difference, margin, se, k, dof=dof)


def verdict_difference_within(
    difference: float,
    se: float | None,
    margin: float,
    k: float = 2.0,
    *,
    dof: float | None = None,
) -> Verdict:
    """Verdict on \\|difference\\| <= margin, two methods being equal up to a margin.

    Args:
      difference, se, dof: as from ``difference_with_se``. With ``se=None`` (fewer than two
        seeds) the claim counts as not tested; pass 0 for an exact difference. If one of the
        methods diverged it does not hold, if both did it is not tested.
      margin: largest difference that still counts as equal.
      k: the least number of standard errors on either side.

    >>> str(verdict_difference_within(0.01, 0.01, margin=0.05))
    'holds'
    """
    return verdict_difference_at_most(abs(difference), se, margin, k, dof=dof)


def verdict_ordering(
    measured: Mapping[str, ArrayLike],
    expected: Sequence[str],
    k: float = 2.0,
    *,
    paired: bool = False,
) -> Verdict:
    """Verdict on mean(expected[0]) < mean(expected[1]) < ..., of losses or other costs.

    Each pair of methods is in order or reversed if the difference of the means exceeds
    ``critical_value(dof, k)`` standard errors, and else left open. A method that diverged (see
    ``difference_with_se``) counts as higher than every one that has not; two that diverged
    are left open. So is any pair in which a method has fewer than two samples. Each pair is
    judged by itself: the 5 % of ``beyond_noise`` are per pair, not for all of them together.

    Args:
      measured: method name -> float ``[n]`` samples, one per seed. Where larger is better,
        pass them with the sign changed, so that a run that diverged stands last there too.
      expected: the claimed order, smallest mean first.
      k: the least number of standard errors that a difference must exceed.
      paired: whether all methods ran the same seeds in the same order.

    Returns:
      ``DOES_NOT_HOLD`` if some pair, adjacent or not, is reversed; ``HOLDS`` if every adjacent
      pair is in order; ``PARTLY`` if some adjacent pairs are in order and the others are open;
      ``NOT_TESTED`` if all are open, so that nothing was shown.

    Raises:
      ValueError: if ``expected`` names fewer than two methods, or one without samples.

    >>> losses = {"tpa": [1.80, 1.82], "mha": [1.90, 1.91], "mqa": [1.8, 2.1]}
    >>> str(verdict_ordering(losses, ["tpa", "mha"])), str(verdict_ordering(losses, ["mha", "tpa"]))
    ('holds', 'does not hold')
    >>> str(verdict_ordering(losses, ["mha", "mqa"]))
    'not tested at this scale'
    >>> str(verdict_ordering(losses, ["tpa", "mha", "mqa"]))
    'partly'
    """
    missing = [name for name in expected if name not in measured]
    if missing or len(set(expected)) != len(expected) or len(expected) < 2:
        raise ValueError(
            f"expected had {list(expected)}, needs two or more different names of "
            f"measured: {list(measured)}"
        )
    signs = {
        (i, j): _sign(measured[expected[i]], measured[expected[j]], k, paired)
        for i, j in itertools.combinations(range(len(expected)), 2)
    }
    if -1 in signs.values():
        return Verdict.DOES_NOT_HOLD
    adjacent = [signs[i, i + 1] for i in range(len(expected) - 1)]
    if all(adjacent):
        return Verdict.HOLDS
    return Verdict.PARTLY if any(adjacent) else Verdict.NOT_TESTED


def _sign(lower: ArrayLike, higher: ArrayLike, k: float, paired: bool) -> int:
    """1 if the two are in the order claimed, -1 if they are reversed, 0 if that is open."""
    d = difference_with_se(higher, lower, paired=paired)
    if not beyond_noise(d.value, d.se, k, dof=d.dof):
        return 0
    return 1 if d.value > 0 else -1


def verdict_number(
    measured: float,
    se: float | None,
    paper_value: float,
    tolerance: float,
    scale: Scale,
    k: float = 2.0,
    *,
    dof: float | None = None,
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
      k: the least number of standard errors on either side of ``measured``.
      dof: degrees of freedom of ``se``, as in ``verdict_at_most``.

    >>> str(verdict_number(2.62, 0.002, 2.618, 0.01, Scale.FULL))
    'holds'
    >>> str(verdict_number(1.9, 0.002, 2.618, 0.01, Scale.REDUCED))
    'not tested at this scale'
    """
    if scale != Scale.FULL:
        return Verdict.NOT_TESTED
    return verdict_at_most(abs(measured - paper_value), tolerance, se, k, dof=dof)


def verdict_timing(ratio: tuple[float, float, float], scale: Scale, *, above_one: bool) -> Verdict:
    """Verdict on a ratio of two times being above (or below) 1, by its quartiles.

    Another machine or another size may turn an order of times around. So at reduced scale the
    claim can be confirmed, but what speaks against it leaves it untested.

    Args:
      ratio: quartiles (low, median, high) of the ratio over repetitions, as from
        ``median_and_quartiles``.
      scale: scale of the run.
      above_one: whether the claim is ratio > 1 (True) or ratio < 1 (False).

    Returns:
      ``HOLDS`` if the whole range from low to high is on the claimed side of 1. Otherwise
      ``NOT_TESTED`` at reduced scale; at full scale ``DOES_NOT_HOLD`` if the whole range is on
      the other side, else ``PARTLY``.

    Raises:
      ValueError: unless 0 <= low <= median <= high.

    >>> str(verdict_timing((1.4, 1.5, 1.7), Scale.REDUCED, above_one=True))
    'holds'
    >>> str(verdict_timing((0.8, 0.9, 0.95), Scale.REDUCED, above_one=True))
    'not tested at this scale'
    >>> str(verdict_timing((0.8, 0.9, 0.95), Scale.FULL, above_one=True))
    'does not hold'
    """
    low, median, high = ratio
    if not 0 <= low <= median <= high:
        raise ValueError(f"ratio had {tuple(ratio)}, needs quartiles 0 <= low <= median <= high")
    above, below = low > 1, high < 1
    if above if above_one else below:
        return Verdict.HOLDS
    if scale != Scale.FULL:
        return Verdict.NOT_TESTED
    return Verdict.DOES_NOT_HOLD if above or below else Verdict.PARTLY


def _checked(se: float | None) -> float:
    if se is None:
        return 0.0
    if not se >= 0:
        raise ValueError(f"se had {se}, needs a number >= 0 or None")
    return se
