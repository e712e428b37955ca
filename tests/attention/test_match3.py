import numpy as np
import pytest

from neurips25.attention.match3 import make_match3, make_match3_splits, match3_labels
from neurips25.attention.task_data import IGNORED_LABEL, split_validation


@pytest.fixture(scope="module")
def published():
    """Published lengths and modulus, fewer seed sequences."""
    return make_match3(seed=0, num=4000, num_seed_sequences=2000)


@pytest.fixture(scope="module")
def small():
    return make_match3(seed=1, num=1003, n_min=10, n_max=12, modulus=13, num_seed_sequences=1000)


def by_definition(p, modulus):
    sums = p[:, None, None] + p[None, :, None] + p[None, None, :]
    return (sums % modulus == 0).any((1, 2))


def bins(data):
    """Which quarter of [0, 100] % the share of ones is in, for each example."""
    return np.minimum(4 * (data.labels == 1).sum(1) // data.lengths, 3)


def multisets(data):
    """The values of each example, whatever their order."""
    return [tuple(sorted(p[real].tolist())) for p, real in zip(data.tokens[..., 1], data.mask)]


def test_golden_labels(golden):
    arrays = golden("strassen/task_labels.npz")
    for k in range(4):
        labels = match3_labels(arrays[f"m3_seq_{k}"], int(arrays[f"m3_M_{k}"]))
        np.testing.assert_array_equal(labels, arrays[f"m3_Y_{k}"])


@pytest.mark.parametrize(("name", "modulus"), [("published", 37), ("small", 13)])
def test_labels_by_definition(request, name, modulus):
    data = request.getfixturevalue(name)
    for tokens, mask, labels in list(zip(data.tokens, data.mask, data.labels))[:1000]:
        p = tokens[mask, 1]
        np.testing.assert_array_equal(labels[mask], by_definition(p, modulus))
        assert (labels[~mask] == IGNORED_LABEL).all()


@pytest.mark.parametrize("modulus", [1, 2, 3, 9, 12, 37])
def test_labels_of_any_values(modulus):
    rng = np.random.default_rng(modulus)
    for n in (1, 2, 5):
        p = rng.integers(0, 3 * modulus, (20, n))
        expected = [by_definition(row, modulus) for row in p]
        np.testing.assert_array_equal(match3_labels(p, modulus), expected)


def test_padding_takes_part_in_no_triple():
    # 1 + 1 + 5 = 7, but in the first row the 5 is padding.
    labels = match3_labels([[1, 2, 5], [1, 2, 5]], 7, [[True, True, False], [True, True, True]])
    assert labels.tolist() == [[0, 0, 0], [1, 0, 1]]


def test_repeats_count():
    assert match3_labels([4], 12).tolist() == [1]
    assert match3_labels([1, 5], 7).tolist() == [1, 1]


def test_bins_are_equal_within_one(published, small):
    assert np.bincount(bins(published)).tolist() == [1000] * 4
    assert np.bincount(bins(small)).tolist() == [251, 251, 251, 250]


def test_tokens(published):
    assert published.field_sizes == (35, 37)
    assert published.side is None
    assert set(published.lengths) == set(range(30, 36))
    np.testing.assert_array_equal(published.mask, np.arange(35) < published.lengths[:, None])
    position, p = np.moveaxis(published.tokens, 2, 0)
    np.testing.assert_array_equal(position, np.arange(35) * published.mask)
    assert not p[~published.mask].any()
    assert set(p[published.mask]) == set(range(1, 37))
    for name, dtype in [("tokens", np.int32), ("mask", bool), ("labels", np.int32)]:
        assert getattr(published, name).dtype == dtype


def test_examples_come_in_random_order(published):
    halves = bins(published).reshape(2, -1)
    for half in halves:
        assert np.bincount(half, minlength=4).min() > 400


def test_copies_are_permutations_and_capacity_bounds_their_originals(small):
    few = make_match3(1, 400, 10, 12, 13, num_seed_sequences=1000, bin_capacity=5)
    assert np.bincount(bins(few)).tolist() == [100] * 4
    originals = [set(), set(), set(), set()]
    for k, values in zip(bins(few), multisets(few)):
        originals[k].add(values)
    assert all(1 <= len(values) <= 5 for values in originals)
    assert max(len(values) for values in originals) == 5
    assert len(set(multisets(small))) > 20
    # Copies are shuffled: more distinct sequences than originals.
    assert len({tuple(p) for p in few.tokens[..., 1].tolist()}) > 300


def test_splits_share_no_values_and_are_balanced():
    train, validation = make_match3_splits(
        2, 802, 81, n_min=10, n_max=12, modulus=13, num_seed_sequences=1000
    )
    assert np.bincount(bins(train)).tolist() == [201, 201, 200, 200]
    assert np.bincount(bins(validation)).tolist() == [21, 20, 20, 20]
    assert not set(multisets(train)) & set(multisets(validation))
    for data in (train, validation):
        for tokens, mask, labels in zip(data.tokens, data.mask, data.labels):
            np.testing.assert_array_equal(labels[mask], by_definition(tokens[mask, 1], 13))


def test_published_split_leaks_copies(published):
    train, validation = split_validation(published, 0.1)
    assert set(multisets(train)) & set(multisets(validation))


def test_lengths_outside_the_training_range():
    for n in (29, 36):
        data = make_match3(5, 40, n_min=n, n_max=n, num_seed_sequences=1500)
        assert set(data.lengths) == {n}
        assert data.tokens.shape == (40, n, 2)
        assert data.scale == 37**2


def test_modulus_with_a_value_that_is_thrice_zero():
    data = make_match3(0, 400, 8, 10, modulus=12, num_seed_sequences=1000)
    assert np.bincount(bins(data)).tolist() == [100] * 4
    for tokens, mask, labels in zip(data.tokens, data.mask, data.labels):
        np.testing.assert_array_equal(labels[mask], by_definition(tokens[mask, 1], 12))


def test_seed_determines_everything():
    def make(seed):
        return make_match3_splits(seed, 20, 8, 10, 12, 13, num_seed_sequences=400)

    for first, again, other in zip(make(3), make(3), make(4)):
        np.testing.assert_array_equal(first.tokens, again.tokens)
        np.testing.assert_array_equal(first.labels, again.labels)
        assert not np.array_equal(first.tokens, other.tokens)


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: make_match3(0, 3), "num must be >= 4"),
        (lambda: make_match3(0, 40, 35, 30), "n_min=35, n_max=30"),
        (lambda: make_match3(0, 40, 2, 5), "3 <= n_min <= n_max"),
        (lambda: make_match3(0, 40, modulus=3), "modulus must be >= 4, got 3"),
        (lambda: make_match3(0, 40, num_seed_sequences=0), "num_seed_sequences must be >= 1"),
        (lambda: make_match3(0, 40, bin_capacity=0), "bin_capacity must be None or >= 1, got 0"),
        (lambda: make_match3_splits(0, 40, 3), "num must be >= 4"),
        (lambda: make_match3_splits(0, 40, 8, bin_capacity=1), "bin_capacity must be None or >= 2"),
        (lambda: match3_labels([1], 0), "modulus must be >= 1"),
        (lambda: match3_labels([1, 2], 5, [True]), r"mask has shape \(1,\), needs \(2,\)"),
    ],
)  # fmt: skip
def test_bad_arguments_are_named(call, named):
    with pytest.raises(ValueError, match=named):
        call()


def test_empty_bin_is_named_with_what_to_change():
    with pytest.raises(ValueError, match=r"bin \[50, 75\) % .*has 0 of 20 .*raise num_seed_seq"):
        make_match3(0, 40, num_seed_sequences=20)
    with pytest.raises(ValueError, match=r"bin \[75, 100\] % .*has 1 of 80 .*needs 2: raise"):
        make_match3_splits(1, 40, 8, num_seed_sequences=80)
