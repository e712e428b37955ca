import itertools

import numpy as np
import pytest

from neurips25.attention.composition_tasks import (
    FunctionCompositionVariant,
    binary_relation_labels,
    contains_zero_rule,
    function_composition_label,
    make_binary_relation,
    make_function_composition,
    make_quotient_relation,
    quotient_relation_labels,
)
from neurips25.attention.match3 import make_match3
from neurips25.attention.task_data import IGNORED_LABEL, take

PAPER, PUBLISHED_CODE = FunctionCompositionVariant


@pytest.fixture(scope="module")
def functions():
    return make_function_composition(seed=0, num=50_000)


@pytest.fixture(scope="module")
def relations():
    return make_binary_relation(seed=0, num=20_000)


@pytest.fixture(scope="module")
def quotients():
    return make_quotient_relation(seed=0, num=20_000)


def values(data, row):
    """f(0), ..., f(n - 1) of one example of function composition."""
    return data.tokens[row, data.mask[row], 1][1:].tolist()


def grid(data, row, array):
    """The real m x m corner of one example of a relation task."""
    m = data.lengths[row]
    return array[row].reshape(data.side, data.side, *array.shape[2:])[:m, :m]


def positive_fraction(data):
    answers = data.labels[data.labels != IGNORED_LABEL]
    return answers.mean()


def test_golden_labels(golden):
    arrays = golden("strassen/task_labels.npz")
    for k in range(4):
        assert function_composition_label(arrays[f"fc_seq_{k}"]) == arrays[f"fc_y_{k}"]
        np.testing.assert_array_equal(
            binary_relation_labels(arrays[f"brc_R_{k}"]), arrays[f"brc_Y_{k}"]
        )
        np.testing.assert_array_equal(
            quotient_relation_labels(arrays[f"q_R_{k}"], arrays[f"q_col_{k}"]),
            arrays[f"q_Y_{k}"],
        )


def test_function_composition_by_definition(functions):
    assert (functions.labels[:, 1:] == IGNORED_LABEL).all()
    for row in range(1000):
        f = values(functions, row)
        assert functions.labels[row, 0] == (f[f[0]] == 0)


def test_binary_relation_by_definition(relations):
    for row in range(1000):
        tokens = grid(relations, row, relations.tokens)
        labels = grid(relations, row, relations.labels)
        a, b = tokens[..., 2].tolist(), tokens[..., 3].tolist()
        m = range(len(a))
        for i, j in itertools.product(m, m):
            assert labels[i, j] == any(a[i][k] == b[k][j] == 1 for k in m)


@pytest.mark.parametrize("num_colours", [None, 2])
def test_quotient_relation_by_definition(num_colours):
    data = make_quotient_relation(seed=4, num=500, num_colours=num_colours)
    for row in range(len(data)):
        tokens, labels = grid(data, row, data.tokens), grid(data, row, data.labels)
        a, b = tokens[..., 2].tolist(), tokens[..., 3].tolist()
        colours = tokens[:, 0, 4].tolist()
        assert tokens[0, :, 5].tolist() == colours
        m = range(len(a))
        pairs = [(k, h) for k in m for h in m if k != h and colours[k] == colours[h]]
        for i, j in itertools.product(m, m):
            if i == j:
                assert labels[i, j] == IGNORED_LABEL
            else:
                assert labels[i, j] == any(a[i][k] == b[h][j] == 1 for k, h in pairs)


def test_label_functions_take_batches_and_padding(quotients, relations):
    r = relations.tokens[:50, :, 2].reshape(50, 8, 8)
    expected = np.where(relations.mask, relations.labels, 0)[:50].reshape(50, 8, 8)
    np.testing.assert_array_equal(binary_relation_labels(r), expected)
    row = int(np.argmin(quotients.lengths))
    tokens = grid(quotients, row, quotients.tokens)
    assert len(tokens) < quotients.side
    np.testing.assert_array_equal(
        quotient_relation_labels(tokens[..., 2], tokens[:, 0, 4]),
        grid(quotients, row, quotients.labels),
    )


def test_positive_fractions_of_the_published_settings(functions, relations, quotients):
    nine = make_quotient_relation(seed=0, num=20_000, num_colours=9)
    random_diagonal = make_quotient_relation(seed=0, num=20_000, zero_diagonal=False)
    # Exact expectations, from the independence of the rows of R and, for the quotient, the
    # generating function of colour classes without a pair. The margins are over 3 σ.
    assert positive_fraction(functions) == pytest.approx(0.5, abs=0.01)
    assert positive_fraction(relations) == pytest.approx(0.55449, abs=0.005)
    assert positive_fraction(quotients) == pytest.approx(0.53224, abs=0.005)
    assert positive_fraction(nine) == pytest.approx(0.46192, abs=0.005)
    assert positive_fraction(random_diagonal) == pytest.approx(0.63029, abs=0.005)


def test_looking_for_a_zero_scores_two_thirds(functions):
    assert contains_zero_rule(functions) == pytest.approx(0.681, abs=0.01)
    first = take(functions, slice(500))
    by_hand = [(0 in values(first, row)) == first.labels[row, 0] for row in range(500)]
    assert contains_zero_rule(first) == np.mean(by_hand)


@pytest.mark.parametrize("variant", FunctionCompositionVariant)
def test_a_zero_is_rarer_among_negatives_of_the_published_code(variant):
    data = make_function_composition(seed=1, num=50_000, variant=variant)
    n = np.arange(25, 31)
    # P(no zero | label 0): f without one, or its only one is the one that was replaced.
    without = (1 - 1 / n) ** (n - 1) * (1 if variant == PAPER else 1 + 1 / n)
    assert contains_zero_rule(data) == pytest.approx(0.5 + without.mean() / 2, abs=0.006)


def test_function_tokens_are_a_query_and_then_values(functions):
    tokens, mask, n = functions.tokens, functions.mask, functions.lengths - 1
    assert set(n) == set(range(25, 31))
    assert functions.field_sizes == (31, 30, 2)
    np.testing.assert_array_equal(mask.sum(1), functions.lengths)
    np.testing.assert_array_equal(tokens[:, :, 0], np.arange(31) * mask)
    assert (tokens[:, 0] == [0, 0, 1]).all()
    assert not tokens[:, 1:, 2].any()
    assert not tokens[~mask].any()
    assert (tokens[:, :, 1] < n[:, None]).all()
    # Symbols of unchanged places are uniform: the last one is, but for rare changes.
    last = tokens[np.arange(len(n)), n, 1][n == 30]
    assert np.bincount(last, minlength=30).min() > 0.7 * len(last) / 30


@pytest.mark.parametrize("make", [make_binary_relation, make_quotient_relation])
def test_grid_tokens_lie_row_by_row(make):
    data = make(seed=1, num=200, m_min=2, m_max=5)
    assert data.side == 5
    assert set(data.lengths) == {2, 3, 4, 5}
    for row, m in enumerate(data.lengths):
        tokens = data.tokens[row].reshape(5, 5, -1)
        real = np.zeros((5, 5), bool)
        real[:m, :m] = True
        np.testing.assert_array_equal(data.mask[row].reshape(5, 5), real)
        assert not tokens[~real].any()
        assert (data.labels[row][~real.ravel()] == IGNORED_LABEL).all()
        for i, j in itertools.product(range(m), range(m)):
            assert tokens[i, j, :2].tolist() == [i, j]
    assert (data.tokens.max((0, 1)) < data.field_sizes).all()


def test_relation_is_both_factors_and_quotient_its_transpose(relations, quotients):
    np.testing.assert_array_equal(relations.tokens[..., 2], relations.tokens[..., 3])
    a, b = (quotients.tokens[..., k].reshape(-1, 8, 8) for k in (2, 3))
    np.testing.assert_array_equal(a, b.swapaxes(1, 2))
    assert not np.diagonal(a, axis1=1, axis2=2).any()
    assert relations.tokens[..., 2][relations.mask].mean() == pytest.approx(0.325, abs=0.005)
    off_diagonal = quotients.labels != IGNORED_LABEL
    assert quotients.tokens[..., 2][off_diagonal].mean() == pytest.approx(0.433, abs=0.005)


def test_colours_are_as_many_as_elements_or_as_told(quotients):
    for m in (6, 7, 8):
        of_size = quotients.tokens[quotients.lengths == m, :, 4]
        assert set(np.unique(of_size)) == set(range(m))
    nine = make_quotient_relation(seed=0, num=1000, num_colours=9)
    assert set(np.unique(nine.tokens[..., 4])) == set(range(9))
    assert nine.field_sizes[-2:] == (9, 9)
    one = make_quotient_relation(seed=0, num=10, num_colours=1)
    assert one.field_sizes[-2:] == (1, 1)


def test_variants_differ_only_in_how_a_zero_is_avoided():
    paper, code = (
        make_function_composition(seed=3, num=4000, n_min=5, n_max=8, variant=variant)
        for variant in (PAPER, PUBLISHED_CODE)
    )
    np.testing.assert_array_equal(paper.labels, code.labels)
    differ = np.flatnonzero((paper.tokens != code.tokens).any((1, 2)))
    assert len(differ) > 100
    for row in differ:
        f, g = values(paper, row), values(code, row)
        assert f[f[0]] != 0
        assert f[g[0]] == 0
        assert g[g[0]] == f[0] >= 1
        places = set(range(1, len(f))) - {g[0]}
        assert all(f[k] == g[k] for k in places)


@pytest.mark.parametrize("variant", FunctionCompositionVariant)
def test_functions_with_no_other_place_get_one(variant):
    # Of {0, 1} -> {0, 1} only (1, 1) has label 0, and half of all draws must become it.
    data = make_function_composition(seed=0, num=4000, n_min=2, n_max=2, variant=variant)
    assert positive_fraction(data) == pytest.approx(0.5, abs=0.03)
    negative = data.tokens[data.labels[:, 0] == 0, 1:, 1]
    assert (negative == 1).all()


@pytest.mark.parametrize(
    "make", [make_function_composition, make_binary_relation, make_quotient_relation]
)
def test_seed_determines_everything(make):
    first, again, other = make(seed=7, num=50), make(seed=7, num=50), make(seed=8, num=50)
    for name in ("tokens", "mask", "labels", "lengths"):
        np.testing.assert_array_equal(getattr(first, name), getattr(again, name))
        assert getattr(first, name).dtype == (bool if name == "mask" else np.int32)
    assert not np.array_equal(first.tokens, other.tokens)


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: make_function_composition(0, 0), "num must be >= 1, got 0"),
        (lambda: make_function_composition(0, 9, 30, 25), "n_min=30, n_max=25"),
        (lambda: make_function_composition(0, 9, 1, 5), "2 <= n_min <= n_max.*n_min=1"),
        (lambda: make_function_composition(0, 9, variant="port"), "'port' is not a valid"),
        (lambda: make_binary_relation(0, 9, 8, 6), "m_min=8, m_max=6"),
        (lambda: make_binary_relation(0, 9, 0, 6), "1 <= m_min <= m_max"),
        (lambda: make_binary_relation(0, 9, p=1.5), r"p must be in \[0, 1\], got 1.5"),
        (lambda: make_quotient_relation(0, 9, p=-0.1), r"p must be in \[0, 1\], got -0.1"),
        (lambda: make_quotient_relation(0, 9, num_colours=0), "num_colours must be None or >= 1"),
        (lambda: binary_relation_labels(np.ones((2, 3))), r"relation has shape \(2, 3\)"),
        (lambda: quotient_relation_labels(np.ones((3, 3)), [0, 1]), r"colours has shape \(2,\)"),
        (lambda: function_composition_label([3, 0, 0]), r"f\(0\) outside \[0, 3\)"),
        (lambda: contains_zero_rule(make_binary_relation(0, 3)), "data is of binary_relation"),
        (lambda: contains_zero_rule(make_match3(0, 8, 10, 12, 13, 200)), "data is of match3"),
    ],
)  # fmt: skip
def test_bad_arguments_are_named(call, named):
    with pytest.raises(ValueError, match=named):
        call()
