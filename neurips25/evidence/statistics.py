"""Statistics for fair comparison: means with standard errors, differences, orderings.

A number without an uncertainty cannot carry a comparison, so every function here returns
None for an uncertainty that the samples do not determine (fewer than two of them), and
``beyond_noise`` is then False.

One rule tells a difference from noise: it must exceed ``critical_value(dof)`` standard
errors, the 97.5 % quantile of Student's t but never less than 2. A standard error from two or
three seeds is itself so uncertain that two of them would be exceeded by chance far more often
than the 5 % of cases that this rule allows.
"""

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import scipy.stats
from numpy.typing import ArrayLike


class Estimate(NamedTuple):
    """A value and how well it is known.

    Attributes:
      value: the estimate.
      se: its standard error; None where the samples do not determine it.
      n: number of samples.
      dof: degrees of freedom that ``se`` rests on; None where ``se`` is None.
    """

    value: float
    se: float | None
    n: int
    dof: float | None = None


class Interval(NamedTuple):
    """A confidence interval."""

    low: float
    high: float


class Quartiles(NamedTuple):
    """The 25 %, 50 % and 75 % quantiles."""

    low: float
    median: float
    high: float


@dataclasses.dataclass(frozen=True)
class PairComparison:
    """One pair of methods, ``lower`` being the one with the smaller mean.

    Attributes:
      lower, higher: names of the two methods.
      difference: mean(higher) - mean(lower).
      se: its standard error, None where a method has fewer than two samples.
      threshold: standard errors that the difference must exceed; infinite where ``se`` is
        None, as such a difference is never told from noise.
      beyond_noise: whether it exceeds them, judged for this pair alone.
    """

    lower: str
    higher: str
    difference: float
    se: float | None
    threshold: float
    beyond_noise: bool


def _samples(x: ArrayLike, name: str) -> np.ndarray:
    array = np.asarray(x, dtype=np.float64)
    if array.ndim != 1 or array.size == 0:
        raise ValueError(f"{name} had shape {array.shape}, needs [n] with n >= 1")
    return array


def mean_and_se(samples: ArrayLike) -> Estimate:
    """Mean and its standard error s / sqrt(n), with the n-1 estimate of s.

    Args:
      samples: float ``[n]``, one per seed or repetition.

    Returns:
      ``Estimate`` with n - 1 degrees of freedom; ``se`` and ``dof`` are None for n = 1.

    >>> mean_and_se([1.0, 2.0, 3.0])
    Estimate(value=2.0, se=0.577..., n=3, dof=2)
    >>> mean_and_se([1.0]).se is None
    True
    """
    x = _samples(samples, "samples")
    if x.size < 2:
        return Estimate(float(x.mean()), None, x.size)
    with np.errstate(invalid="ignore"):  # infinite samples, of runs that diverged
        return Estimate(float(x.mean()), float(scipy.stats.sem(x)), x.size, x.size - 1)


def difference_with_se(a: ArrayLike, b: ArrayLike, *, paired: bool = False) -> Estimate:
    """The difference mean(a) - mean(b) and its standard error.

    Paired (both methods ran the same seeds, in the same order) the error is that of the
    differences, with n - 1 degrees of freedom. Unpaired it is sqrt(v_a + v_b) with v = se^2,
    without assuming equal variances, and by Welch and Satterthwaite
    dof = (v_a + v_b)^2 / (v_a^2 / (n_a - 1) + v_b^2 / (n_b - 1)).

    Samples are losses or other costs. A method with one that is NaN or infinite has diverged
    and counts as higher than every one that has not: the difference is inf where that is a,
    -inf where it is b, and NaN where both diverged; the error is NaN.

    Args:
      a, b: float ``[n_a]``, ``[n_b]``; equally long when ``paired``.
      paired: whether ``a[i]`` and ``b[i]`` share a seed.

    Returns:
      ``Estimate`` with n the smaller number of samples; ``se`` and ``dof`` are None where
      that is 1. Where v_a + v_b is zero or not finite, dof is n - 1.

    Raises:
      ValueError: for paired samples of unequal length.

    >>> difference_with_se([1.0, 2.0, 3.0], [0.5, 1.5, 2.5], paired=True)
    Estimate(value=0.5, se=0.0, n=3, dof=2)
    >>> difference_with_se([1.0, 2.0, 3.0], [1.5, 2.5, 3.5]).dof
    4.0
    >>> difference_with_se([1.0, 2.0], [1.5, np.nan])
    Estimate(value=-inf, se=nan, n=2, dof=1)
    """
    x, y = _samples(a, "a"), _samples(b, "b")
    if paired and x.size != y.size:
        raise ValueError(f"paired samples: a had {x.size}, b had {y.size}, need equally many")
    n = min(x.size, y.size)
    a_diverged, b_diverged = (not np.isfinite(s).all() for s in (x, y))
    if a_diverged or b_diverged:
        value = math.nan if a_diverged and b_diverged else math.inf if a_diverged else -math.inf
        return Estimate(value, None, n) if n < 2 else Estimate(value, math.nan, n, n - 1)
    if paired:
        return mean_and_se(x - y)
    first, second = mean_and_se(x), mean_and_se(y)
    difference = first.value - second.value
    if first.se is None or second.se is None:
        return Estimate(difference, None, n)
    se = math.hypot(first.se, second.se)
    if not 0 < se < math.inf:
        return Estimate(difference, se, n, n - 1)
    share = (first.se / se) ** 2
    dof = 1 / (share**2 / (x.size - 1) + (1 - share) ** 2 / (y.size - 1))
    return Estimate(difference, se, n, dof)


def critical_value(dof: float | None, k: float = 2.0) -> float:
    """How many standard errors a difference must exceed to count: max(k, t_0.975(dof)).

    Args:
      dof: degrees of freedom of the standard error; None where it is known well, which
        leaves k.
      k: the least number of standard errors.

    Returns:
      The threshold, in standard errors. With 3 pairs of samples it is 4.3, with 10 it is 2.3.

    Raises:
      ValueError: if ``dof`` is not positive.

    >>> [round(critical_value(dof), 2) for dof in (1, 2, 9, 1000, None)]
    [12.71, 4.3, 2.26, 2.0, 2.0]
    """
    if dof is None:
        return k
    if not dof > 0:
        raise ValueError(f"dof had {dof}, needs a number > 0 or None")
    return max(k, float(scipy.stats.t.ppf(0.975, dof)))


def beyond_noise(
    difference: float, se: float | None, k: float = 2.0, *, dof: float | None = None
) -> bool:
    """Whether \\|difference\\| > critical_value(dof, k) * se.

    With normal samples and no true difference this happens in at most 5 % of cases (k = 2),
    for the unpaired error approximately so. The rate is that of one comparison: among m of
    them without a true difference, about m / 20 are called one.

    Args:
      difference, se, dof: as from ``difference_with_se``. An unknown (None) error is never
        exceeded; otherwise an infinite difference, one method having diverged, always
        exceeds it. Without ``dof`` the threshold is k, which is too low for a few seeds.
      k: the least number of standard errors.

    >>> beyond_noise(0.05, 0.02), beyond_noise(0.03, 0.02), beyond_noise(9.0, None)
    (True, False, False)
    >>> beyond_noise(0.05, 0.02, dof=2)
    False
    """
    if se is None:
        return False
    return math.isinf(difference) or bool(abs(difference) > critical_value(dof, k) * se)


def bootstrap_interval(
    samples: ArrayLike,
    statistic: Callable[..., Any] = np.mean,
    *,
    level: float = 0.95,
    seed: int = 0,
    n_resamples: int = 2000,
) -> Interval | None:
    """Percentile bootstrap interval of a statistic (``scipy.stats.bootstrap``).

    Args:
      samples: float ``[n]``.
      statistic: function of an array and, if it is vectorised, an ``axis`` keyword.
      level: coverage in (0, 1).
      seed: seed of the resampling, so that a record can be repeated.
      n_resamples: number of bootstrap samples.

    Returns:
      ``Interval``, or None for n = 1, which has nothing to resample.
    """
    x = _samples(samples, "samples")
    if x.size < 2:
        return None
    interval = scipy.stats.bootstrap(
        (x,),
        statistic,
        confidence_level=level,
        n_resamples=n_resamples,
        method="percentile",
        rng=np.random.default_rng(seed),
    ).confidence_interval
    return Interval(float(interval.low), float(interval.high))


def median_and_quartiles(samples: ArrayLike) -> Quartiles:
    """The median and the quartiles of float ``[n]`` samples, such as repeated timings.

    >>> median_and_quartiles([1.0, 2.0, 3.0, 4.0, 100.0])
    Quartiles(low=2.0, median=3.0, high=4.0)
    """
    low, median, high = np.quantile(_samples(samples, "samples"), [0.25, 0.5, 0.75])
    return Quartiles(float(low), float(median), float(high))


def ordering_table(
    measured: Mapping[str, ArrayLike], *, k: float = 2.0, paired: bool = False
) -> tuple[PairComparison, ...]:
    """Compares every pair of methods, from the smallest mean to the largest.

    Each pair is judged by itself, see ``beyond_noise``: of the 15 pairs of six methods that
    are all alike, up to 0.75 are told apart by chance on average.

    Args:
      measured: method name -> float ``[n]`` samples, of costs. Methods that diverged (see
        ``difference_with_se``) stand last.
      k: the least number of standard errors that a difference must exceed; with few samples
        it is more, see ``critical_value``.
      paired: whether all methods ran the same seeds in the same order.

    Returns:
      All m (m-1) / 2 pairs; ``beyond_noise`` says which of them are told apart.

    >>> for p in ordering_table({"a": [1.0, 1.1], "b": [2.0, 2.1], "c": [2.05, 2.1]}):
    ...     print(p.lower, p.higher, p.beyond_noise)
    a b True
    a c True
    b c False
    """
    means = {name: mean_and_se(x).value for name, x in measured.items()}
    names = sorted(means, key=lambda name: means[name] if math.isfinite(means[name]) else math.inf)
    pairs = []
    for i, lower in enumerate(names):
        for higher in names[i + 1 :]:
            d = difference_with_se(measured[higher], measured[lower], paired=paired)
            threshold = math.inf if d.se is None else critical_value(d.dof, k)
            told_apart = beyond_noise(d.value, d.se, k, dof=d.dof)
            pairs.append(PairComparison(lower, higher, d.value, d.se, threshold, told_apart))
    return tuple(pairs)


def power_law_exponent(x: ArrayLike, y: ArrayLike) -> Estimate:
    """Exponent p of y = c x^p by least squares on logarithms, with its standard error.

    Args:
      x, y: float ``[n]``, positive; at least two different x.

    Returns:
      ``Estimate`` with n - 2 degrees of freedom; ``se`` and ``dof`` are None for n = 2,
      where the line fits exactly.

    Raises:
      ValueError: for unequal lengths, values that are not positive, or fewer than two x.

    >>> power_law_exponent([1, 2, 4], [3, 12, 48]).value
    2.0
    """
    u, v = _samples(x, "x"), _samples(y, "y")
    if u.size != v.size:
        raise ValueError(f"x had {u.size} values, y had {v.size}, need equally many")
    if np.unique(u).size < 2:
        raise ValueError(f"x had {np.unique(u).size} different value, needs at least 2")
    for name, values in (("x", u), ("y", v)):
        if not np.all((values > 0) & np.isfinite(values)):
            raise ValueError(f"{name} had {values.min()}, needs positive finite values")
    fit = scipy.stats.linregress(np.log(u), np.log(v))
    if u.size == 2:
        return Estimate(float(fit.slope), None, 2)
    return Estimate(float(fit.slope), float(fit.stderr), u.size, u.size - 2)
