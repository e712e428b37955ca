import numpy as np
import pytest

from neurips25.graphs import random_splits, random_splits_per_class

LABELS = np.array([0] * 30 + [1] * 50 + [2] * 20 + [-1] * 10)


def assert_disjoint_and_labelled(split):
    used = sum(mask.astype(int) for mask in split)
    assert used.max() == 1
    assert not used[:, LABELS < 0].any()


@pytest.mark.parametrize(
    ("fractions", "sizes"),
    [
        ((0.6, 0.2, 0.2), (60, 20, 20)),
        ((0.48, 0.32, 0.2), (48, 32, 20)),
        ((0.1, 0.1, 0.1), (10, 10, 10)),
        ((0.333, 0.333, 0.334), (33, 33, 34)),
        ((1.0, 0.0, 0.0), (100, 0, 0)),
    ],
)
def test_shares(fractions, sizes):
    split = random_splits(LABELS, fractions, num_splits=4)
    assert_disjoint_and_labelled(split)
    for mask, size in zip(split, sizes):
        assert mask.shape == (4, 110)
        assert mask.sum(axis=1).tolist() == [size] * 4


def test_per_class():
    split = random_splits_per_class(LABELS, 5, num_val=15, num_test=40, num_splits=3)
    assert_disjoint_and_labelled(split)
    for k in range(3):
        assert np.bincount(LABELS[split.train[k]]).tolist() == [5, 5, 5]
    assert split.val.sum(axis=1).tolist() == [15] * 3
    assert split.test.sum(axis=1).tolist() == [40] * 3


@pytest.mark.parametrize(
    "draw",
    [
        lambda **options: random_splits(LABELS, **options),
        lambda **options: random_splits_per_class(LABELS, 5, 15, 40, **options),
    ],
)
def test_splits_depend_on_seed_and_number_alone(draw):
    few, many = draw(num_splits=2, seed=3), draw(num_splits=4, seed=3)
    for mask, more in zip(few, many):
        np.testing.assert_array_equal(mask, more[:2])
    assert (many.train[0] != many.train[1]).any()
    assert (draw(num_splits=1, seed=4).train != many.train[:1]).any()
    assert draw(num_splits=0).test.shape == (0, 110)


def test_all_nodes_take_turns():
    split = random_splits(LABELS, num_splits=40)
    chosen = split.train[:, LABELS >= 0].mean(axis=0)
    # 40 draws of probability 0.6 have a standard deviation of 0.077.
    assert abs(chosen - 0.6).max() < 0.35
    assert chosen.mean() == pytest.approx(0.6)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"fractions": (0.6, 0.3, 0.2)}, "fractions must be three numbers"),
        ({"fractions": (0.6, -0.1, 0.2)}, "fractions must be three numbers"),
        ({"fractions": (0.6, 0.4)}, "fractions must be three numbers"),
        ({"num_splits": -1}, "num_splits must be >= 0, got -1"),
        ({"seed": -1}, "seed must be in"),
    ],
)
def test_bad_shares(options, named):
    with pytest.raises(ValueError, match=named):
        random_splits(LABELS, **options)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"per_class": 21}, "class 2 has 20 nodes, needs per_class=21"),
        ({"per_class": 0}, "per_class must be >= 1"),
        ({"num_test": 71}, "the split needs 101 labelled nodes, the graph has 100"),
        ({"num_val": -1}, "num_val and num_test >= 0"),
    ],
)
def test_bad_counts(options, named):
    with pytest.raises(ValueError, match=named):
        random_splits_per_class(
            LABELS, **({"per_class": 5, "num_val": 15, "num_test": 9} | options)
        )
