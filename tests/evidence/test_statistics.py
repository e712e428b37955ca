"""Statistics against hand computation, and against simulation where they make a promise."""

import math

import numpy as np
import pytest

from neurips25.evidence import (
    beyond_noise,
    bootstrap_interval,
    critical_value,
    difference_with_se,
    mean_and_se,
    median_and_quartiles,
    ordering_table,
    power_law_exponent,
)


def test_mean_and_se_by_hand():
    m = mean_and_se([1.0, 2.0, 6.0])
    # s^2 = (4 + 1 + 9) / 2 = 7
    assert m.value == 3.0
    assert m.se == pytest.approx(math.sqrt(7 / 3), rel=1e-14)
    assert (m.n, m.dof) == (3, 2)


def test_one_sample_has_no_uncertainty():
    assert mean_and_se([4.0]) == (4.0, None, 1, None)
    assert difference_with_se([4.0], [1.0], paired=True) == (3.0, None, 1, None)
    assert difference_with_se([4.0], [1.0, 2.0]) == (2.5, None, 1, None)
    assert bootstrap_interval([4.0]) is None
    fit = power_law_exponent([1.0, 2.0], [1.0, 2.0])
    assert (fit.se, fit.dof) == (None, None)
    assert power_law_exponent([1.0, 2.0, 4.0], [1.0, 2.0, 5.0]).dof == 1
    (pair,) = ordering_table({"a": [1.0], "b": [9.0]})
    assert (pair.se, pair.threshold, pair.beyond_noise) == (None, math.inf, False)


def test_paired_difference_removes_what_the_seeds_share():
    a, b = [1.0, 2.0, 6.0], [0.5, 1.75, 5.25]
    paired = difference_with_se(a, b, paired=True)
    unpaired = difference_with_se(a, b)
    assert paired.value == pytest.approx(0.5)
    assert paired.se == pytest.approx(np.std([0.5, 0.25, 0.75], ddof=1) / math.sqrt(3))
    assert unpaired.value == pytest.approx(0.5)
    assert unpaired.se == pytest.approx(math.hypot(mean_and_se(a).se, mean_and_se(b).se))
    assert (paired.dof, unpaired.n) == (2, 3)
    assert paired.value / paired.se > 3
    assert unpaired.value / unpaired.se < 1


def test_welch_degrees_of_freedom():
    # Equal variances and sizes have n_a + n_b - 2, one exact mean leaves the other's n - 1.
    assert difference_with_se([1, 2, 3], [5, 6, 7]).dof == pytest.approx(4)
    assert difference_with_se([1, 2, 3], [5.0] * 9).dof == pytest.approx(2)
    # v = 7/3 and 1/2: (17/6)^2 / (49/9/2 + 1/4/1) = 289/107
    d = difference_with_se([1.0, 2.0, 6.0], [0.0, math.sqrt(2)])
    assert d.dof == pytest.approx(289 / 107)
    assert (d.n, d.se) == (2, pytest.approx(math.sqrt(17 / 6)))
    assert difference_with_se([1.0, 1.0], [2.0] * 5) == (-1.0, 0.0, 2, 1)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("paired", [False, True])
def test_a_method_that_diverged_is_higher_than_one_that_did_not(bad, paired):
    good, diverged = [1.0, 2.0, 3.0], [1.0, bad, 2.0]
    for a, b, value in (
        (diverged, good, math.inf),
        (good, diverged, -math.inf),
        (diverged, [bad, bad, 1.0], math.nan),
    ):
        d = difference_with_se(a, b, paired=paired)
        np.testing.assert_equal(tuple(d), (value, math.nan, 3, 2))
        assert beyond_noise(d.value, d.se, dof=d.dof) is not math.isnan(value)
    assert difference_with_se([1.0], [bad], paired=paired) == (-math.inf, None, 1, None)
    assert not beyond_noise(-math.inf, None)

    measured = {"bad": [bad, 1.0], "b": [3.0, 3.5], "worse": [bad, bad], "a": [1.0, 1.0]}
    table = ordering_table(measured, paired=paired)
    assert [(p.lower, p.higher, p.beyond_noise) for p in table if p.lower != "a"] == [
        ("b", "bad", True),
        ("b", "worse", True),
        ("bad", "worse", False),
    ]


@pytest.mark.parametrize(
    ("dof", "value"),
    [(1, 12.7062), (2, 4.30265), (4, 2.77645), (30, 2.04227), (1000, 2), (None, 2)],
)
def test_critical_values_are_those_of_student_and_at_least_k(dof, value):
    assert critical_value(dof) == pytest.approx(value, rel=1e-5)
    assert critical_value(dof, k=13) == 13


@pytest.mark.parametrize("dof", [0, -1, math.nan])
def test_impossible_degrees_of_freedom_are_refused(dof):
    with pytest.raises(ValueError, match="dof had"):
        critical_value(dof)


@pytest.mark.parametrize(("n_a", "n_b", "paired"), [(2, 2, True), (3, 3, True), (3, 5, False)])
def test_noise_is_rarely_taken_for_a_difference(n_a, n_b, paired):
    rng = np.random.default_rng(0)
    trials = 2000
    beyond = by_two = 0
    for _ in range(trials):
        d = difference_with_se(rng.normal(size=n_a), rng.normal(size=n_b), paired=paired)
        beyond += beyond_noise(d.value, d.se, dof=d.dof)
        by_two += beyond_noise(d.value, d.se)
    # 5 % expected, standard deviation 0.5 %; the plain rule of two errors fails this.
    assert 0.02 < beyond / trials <= 0.07
    assert by_two / trials > 0.09


def test_unequal_pairs_are_refused():
    with pytest.raises(ValueError, match="a had 2, b had 3"):
        difference_with_se([1, 2], [1, 2, 3], paired=True)


@pytest.mark.parametrize("x", [[], [[1.0, 2.0]], 3.0])
def test_samples_must_be_a_list(x):
    with pytest.raises(ValueError, match="samples had shape"):
        mean_and_se(x)


def test_noise_limit_is_strict_and_nan_is_never_beyond_it():
    assert not beyond_noise(2.0, 1.0)
    assert beyond_noise(-2.01, 1.0)
    assert beyond_noise(1.5, 1.0, k=1)
    assert not beyond_noise(math.nan, 0.1)
    assert not beyond_noise(5.0, math.nan)


def test_bootstrap_covers_the_mean_and_repeats_with_its_seed():
    rng = np.random.default_rng(0)
    covered = 0
    for trial in range(200):
        low, high = bootstrap_interval(
            rng.normal(3.0, 1.0, 40), level=0.9, seed=trial, n_resamples=300
        )
        covered += low <= 3.0 <= high
    # 200 trials at 90 %: 180 expected, standard deviation 4.2.
    assert 165 <= covered <= 195
    x = rng.normal(size=20)
    assert bootstrap_interval(x, seed=1) == bootstrap_interval(x, seed=1)
    assert bootstrap_interval(x, seed=1) != bootstrap_interval(x, seed=2)
    assert bootstrap_interval(x, np.median, seed=1).low < np.median(x)


def test_quartiles():
    assert median_and_quartiles([5.0, 1.0, 2.0, 4.0, 3.0]) == (2.0, 3.0, 4.0)


def test_ordering_table_has_all_pairs_and_tells_noise_apart():
    table = ordering_table({"c": [3.0, 3.1], "a": [1.0, 1.1], "b": [2.9, 3.1]})
    assert [(p.lower, p.higher, p.beyond_noise) for p in table] == [
        ("a", "b", True),
        ("a", "c", True),
        ("b", "c", False),
    ]
    assert table[1].difference == pytest.approx(2.0)
    # The shared seed effect hides the difference only from the unpaired comparison.
    shared = {"a": [1.0, 2.0, 3.0], "b": [1.1, 2.12, 3.11]}
    assert not ordering_table(shared)[0].beyond_noise
    (pair,) = ordering_table(shared, paired=True)
    assert pair.beyond_noise
    assert pair.threshold == critical_value(2)
    # Three errors apart, but with two degrees of freedom that is noise.
    (pair,) = ordering_table({"a": [0.0, 0.0, 0.0], "b": [0.5, 1.0, 2.0]}, paired=True)
    assert 2 < pair.difference / pair.se < pair.threshold
    assert not pair.beyond_noise


def test_power_law_is_exact_without_noise_and_calibrated_with_it():
    x = np.array([4096.0, 8192.0, 16384.0, 65536.0])
    exact = power_law_exponent(x, 0.3 * x**1.5)
    assert exact.value == pytest.approx(1.5, abs=1e-12)
    assert exact.se < 1e-6
    rng = np.random.default_rng(0)
    x = np.geomspace(1, 1000, 30)
    z = []
    for _ in range(300):
        fit = power_law_exponent(x, x**0.8 * np.exp(rng.normal(0, 0.1, x.size)))
        z.append((fit.value - 0.8) / fit.se)
    assert abs(np.mean(z)) < 3 / math.sqrt(300)
    assert 0.85 < np.std(z) < 1.2


@pytest.mark.parametrize(
    ("x", "y", "match"),
    [
        ([1, 2], [1, -1], "y had -1.0, needs positive"),
        ([0, 2], [1, 1], "x had 0.0, needs positive"),
        ([1, 2], [1], "equally many"),
        ([2, 2], [1, 3], "at least 2"),
    ],
)
def test_power_law_refuses(x, y, match):
    with pytest.raises(ValueError, match=match):
        power_law_exponent(x, y)
