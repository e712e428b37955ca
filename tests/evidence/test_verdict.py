"""Verdicts at, inside and outside the noise."""

import math

import pytest

from neurips25.evidence import (
    Scale,
    Verdict,
    difference_with_se,
    verdict_at_least,
    verdict_at_most,
    verdict_difference_at_most,
    verdict_difference_within,
    verdict_number,
    verdict_ordering,
    verdict_timing,
)

HOLDS, PARTLY, NO, UNTESTED = (
    Verdict.HOLDS,
    Verdict.PARTLY,
    Verdict.DOES_NOT_HOLD,
    Verdict.NOT_TESTED,
)


@pytest.mark.parametrize(
    ("value", "se", "verdict"),
    [
        (2.0, None, HOLDS),
        (2.0001, None, NO),
        (1.9, 0.04, HOLDS),
        (1.9, 0.06, PARTLY),
        (2.1, 0.06, PARTLY),
        (2.1, 0.04, NO),
        (math.nan, None, NO),
        (math.nan, math.nan, NO),
        (math.inf, math.nan, NO),
        (-math.inf, math.nan, HOLDS),
        (-math.inf, None, HOLDS),
    ],
)
def test_at_most(value, se, verdict):
    assert verdict_at_most(value, 2.0, se) is verdict
    assert verdict_at_least(-value, -2.0, se) is verdict


def test_at_least_is_not_at_most():
    assert verdict_at_least(5.0, 4.0) is HOLDS
    assert verdict_at_least(3.0, 4.0) is NO
    assert verdict_at_least(4.1, 4.0, se=0.1) is PARTLY
    assert verdict_at_least(4.1, 4.0, se=0.1, k=0.5) is HOLDS


def test_few_degrees_of_freedom_widen_the_interval():
    # 2 errors are 0.08, with 2 degrees of freedom the interval is 4.3 errors.
    assert verdict_at_most(1.9, 2.0, 0.04) is HOLDS
    assert verdict_at_most(1.9, 2.0, 0.04, dof=2) is PARTLY
    assert verdict_at_most(2.1, 2.0, 0.04, dof=2) is PARTLY
    assert verdict_at_most(1.9, 2.0, 0.02, dof=2) is HOLDS
    assert verdict_at_least(2.1, 2.0, 0.04, dof=2) is PARTLY
    assert verdict_difference_within(0.0, 0.02, 0.05) is HOLDS
    assert verdict_difference_within(0.0, 0.02, 0.05, dof=2) is PARTLY
    assert verdict_number(2.0, 0.04, 2.0, 0.1, Scale.FULL) is HOLDS
    assert verdict_number(2.0, 0.04, 2.0, 0.1, Scale.FULL, dof=2) is PARTLY


@pytest.mark.parametrize("se", [-0.1, math.nan])
def test_an_impossible_error_is_refused(se):
    with pytest.raises(ValueError, match="se had"):
        verdict_at_most(1.0, 2.0, se)


def test_difference_within():
    assert verdict_difference_within(-0.01, 0.01, 0.05) is HOLDS
    assert verdict_difference_within(-0.04, 0.01, 0.05) is PARTLY
    assert verdict_difference_within(-0.08, 0.01, 0.05) is NO
    assert verdict_difference_within(0.0, None, 0.05) is UNTESTED
    assert verdict_difference_within(0.5, None, 0.05) is UNTESTED


def test_difference_at_most():
    assert verdict_difference_at_most(-9.0, 0.01, 0.05) is HOLDS
    assert verdict_difference_at_most(0.04, 0.01, 0.05) is PARTLY
    assert verdict_difference_at_most(0.08, 0.01, 0.05) is NO
    assert verdict_difference_at_most(0.04, 0.004, 0.05, dof=1) is PARTLY
    assert verdict_difference_at_most(-9.0, None, 0.05) is UNTESTED


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("paired", [False, True])
def test_differences_of_methods_that_diverged(bad, paired):
    def verdicts(a, b):
        d = difference_with_se(a, b, paired=paired)
        judge = (verdict_difference_at_most, verdict_difference_within)
        return tuple(f(d.value, d.se, 0.05, dof=d.dof) for f in judge)

    good, diverged = [1.0, 1.1], [1.0, bad]
    assert verdicts(good, diverged) == (HOLDS, NO)
    assert verdicts(diverged, good) == (NO, NO)
    assert verdicts(diverged, [bad, 2.0]) == (UNTESTED, UNTESTED)
    assert verdicts([1.0], [bad]) == (UNTESTED, UNTESTED)


CLEAR = {"a": [1.0, 1.1], "b": [2.0, 2.1], "c": [3.0, 3.1]}


def test_ordering():
    assert verdict_ordering(CLEAR, ["a", "b", "c"]) is HOLDS
    assert verdict_ordering(CLEAR, ["a", "c"]) is HOLDS
    assert verdict_ordering(CLEAR, ["a", "c", "b"]) is NO
    assert verdict_ordering(CLEAR, ["a", "b", "c"], k=20) is UNTESTED


def test_an_order_within_the_noise_is_partly_shown_or_not_tested():
    noisy = {**CLEAR, "b": [0.5, 3.5]}
    assert verdict_ordering(noisy, ["a", "b"]) is UNTESTED
    assert verdict_ordering(noisy, ["b", "a"]) is UNTESTED
    assert verdict_ordering(noisy, ["a", "b", "c"]) is UNTESTED  # only a < c is shown
    assert verdict_ordering({**noisy, "d": [9.0, 9.1]}, ["a", "b", "c", "d"]) is PARTLY
    assert verdict_ordering(noisy, ["b", "a", "c"]) is PARTLY
    assert verdict_ordering(noisy, ["b", "c", "a"]) is NO


def test_two_errors_do_not_decide_an_order_of_two_seeds():
    # 0.5 apart with an error of 0.141 and 2 degrees of freedom: 3.5 errors, 4.3 are needed.
    assert verdict_ordering({"a": [1.0, 1.2], "b": [1.5, 1.7]}, ["a", "b"]) is UNTESTED
    assert verdict_ordering({"a": [1.0, 1.2], "b": [1.5, 1.7]}, ["b", "a"]) is UNTESTED
    assert verdict_ordering({"a": [1.0, 1.2], "b": [1.7, 1.9]}, ["a", "b"]) is HOLDS


def test_an_ordering_can_be_refuted_by_a_pair_that_is_not_adjacent():
    measured = {"a": [2.0, 2.02], "b": [1.5, 2.2], "c": [1.8, 1.82]}
    assert verdict_ordering(measured, ["a", "b"]) is UNTESTED
    assert verdict_ordering(measured, ["b", "c"]) is UNTESTED
    assert verdict_ordering(measured, ["a", "b", "c"]) is NO


def test_pairing_by_seed_can_decide_an_ordering():
    measured = {"a": [1.0, 2.0, 3.0], "b": [1.1, 2.12, 3.11]}
    assert verdict_ordering(measured, ["a", "b"]) is UNTESTED
    assert verdict_ordering(measured, ["a", "b"], paired=True) is HOLDS
    assert verdict_ordering(measured, ["b", "a"], paired=True) is NO


def test_one_seed_decides_no_ordering():
    one = {"a": [1.0], "b": [2.0], "c": [3.0, 3.1]}
    assert verdict_ordering(one, ["a", "b"]) is UNTESTED
    assert verdict_ordering(one, ["b", "a"]) is UNTESTED
    assert verdict_ordering(one, ["a", "c"]) is UNTESTED

    assert verdict_ordering({**CLEAR, "c": [3.0]}, ["a", "b", "c"]) is PARTLY


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("paired", [False, True])
def test_a_method_that_diverged_is_higher_than_one_that_did_not(bad, paired):
    def verdict(*expected):
        measured = {"a": [1.0, 1.1], "b": [bad, 2.0], "c": [1.0, bad], "d": [bad]}
        return verdict_ordering(measured, expected, paired=paired and "d" not in expected)

    assert verdict("a", "b") is HOLDS
    assert verdict("b", "a") is NO
    assert verdict("b", "c") is UNTESTED
    assert verdict("a", "b", "c") is PARTLY
    assert verdict("a", "d") is UNTESTED
    assert verdict("d", "a") is UNTESTED


@pytest.mark.parametrize("expected", [["a"], ["a", "a"], ["a", "z"]])
def test_ordering_needs_names_it_knows(expected):
    with pytest.raises(ValueError, match="expected had"):
        verdict_ordering(CLEAR, expected)


def test_number():
    assert verdict_number(2.62, 0.002, 2.618, 0.01, Scale.FULL) is HOLDS
    assert verdict_number(2.62, 0.006, 2.618, 0.01, Scale.FULL) is PARTLY
    assert verdict_number(2.70, 0.002, 2.618, 0.01, Scale.FULL) is NO
    assert verdict_number(2.70, None, 2.618, 0.01, Scale.FULL) is NO


@pytest.mark.parametrize("measured", [2.618, 1.9, 100.0, math.nan])
def test_reduced_scale_does_not_test_a_full_scale_number(measured):
    assert verdict_number(measured, 0.0, 2.618, 0.01, Scale.REDUCED) is UNTESTED


@pytest.mark.parametrize(
    ("quartiles", "full", "reduced"),
    [
        ((1.01, 1.2, 1.5), HOLDS, HOLDS),
        ((1.0, 1.2, 1.5), PARTLY, UNTESTED),
        ((0.9, 1.2, 1.5), PARTLY, UNTESTED),
        ((0.9, 0.95, 1.0), PARTLY, UNTESTED),
        ((0.9, 0.95, 0.99), NO, UNTESTED),
    ],
)
def test_timing(quartiles, full, reduced):
    assert verdict_timing(quartiles, Scale.FULL, above_one=True) is full
    assert verdict_timing(quartiles, Scale.REDUCED, above_one=True) is reduced
    inverse = tuple(1 / x for x in reversed(quartiles))
    assert verdict_timing(inverse, Scale.FULL, above_one=False) is full
    assert verdict_timing(inverse, Scale.REDUCED, above_one=False) is reduced


@pytest.mark.parametrize("quartiles", [(1.5, 1.2, 1.6), (1.0, math.nan, 2.0), (-0.5, 0.5, 2.0)])
def test_timing_needs_quartiles(quartiles):
    with pytest.raises(ValueError, match="needs quartiles"):
        verdict_timing(quartiles, Scale.FULL, above_one=True)
