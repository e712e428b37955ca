"""Splitting VC dimension: values, certificates, and the bound's identities."""

import dataclasses
import itertools

import jax.numpy as jnp
import numpy as np
import pytest

from neurips25.attention.boolean_functions import (
    conjunction,
    disjointness,
    disjointness_certificate,
    indexing,
    indexing_certificate,
    inner_product,
    majority,
    parity,
    sum2,
    sum2_alphabet,
    sum2_certificate,
    xor_of_ands,
)
from neurips25.attention.lower_bounds import (
    auxiliary_split,
    disjointness_as_quotient,
    triangular_split,
)
from neurips25.attention.splitting_vc import (
    shatters,
    split_matrix,
    split_vc_dimension,
    vc_dimension,
    verify_certificate,
)
from neurips25.attention.triangular import triangular_attention

BITS = (0, 1)


def slow_shatters(matrix, rows):
    return len({tuple(c) for c in matrix[list(rows)].T}) == 2 ** len(rows)


def slow_vc(matrix):
    sizes = range(min(len(matrix), matrix.shape[1].bit_length()) + 1)
    subsets = (s for k in sizes for s in itertools.combinations(range(len(matrix)), k))
    return max(len(s) for s in subsets if slow_shatters(matrix, s))


def slow_split_vc(table):
    """Straight from the definition, over words instead of reshapes."""
    size, n = table.shape[0], table.ndim
    best = 0
    for chosen in itertools.product((False, True), repeat=n):
        here = [i for i in range(n) if chosen[i]]
        there = [i for i in range(n) if not chosen[i]]
        matrix = np.zeros((size ** len(here), size ** len(there)), bool)
        for word in itertools.product(range(size), repeat=n):
            row = sum(word[i] * size**t for t, i in enumerate(here))
            column = sum(word[i] * size**t for t, i in enumerate(there))
            matrix[row, column] = table[word]
        best = max(best, slow_vc(matrix))
    return best


@pytest.mark.parametrize("seed", range(20))
def test_vc_dimension_equals_exhaustive_search(seed):
    rng = np.random.default_rng(seed)
    matrix = rng.random((rng.integers(1, 8), rng.integers(1, 40))) < rng.uniform(0.2, 0.8)
    assert vc_dimension(matrix) == slow_vc(matrix)
    for rows in itertools.combinations(range(len(matrix)), min(2, len(matrix))):
        assert shatters(matrix, rows) == slow_shatters(matrix, rows)


def test_vc_dimension_of_known_classes():
    points = np.arange(8)
    thresholds = points[:, None] >= np.arange(9)
    ends = np.array(list(itertools.combinations_with_replacement(np.arange(9), 2)))
    intervals = (points[:, None] >= ends[:, 0]) & (points[:, None] < ends[:, 1])
    cube = np.arange(64) >> np.arange(6)[:, None] & 1
    assert vc_dimension(thresholds) == 1
    assert vc_dimension(intervals) == 2
    assert vc_dimension(cube) == 6
    assert vc_dimension(cube[:, :-1]) == 5
    assert vc_dimension(np.ones((3, 1))) == 0


def test_shattering_of_no_rows_and_of_repeated_rows():
    matrix = np.array([[0, 1]])
    assert shatters(matrix, [])
    assert shatters(matrix, [0])
    assert not shatters(matrix, [0, 0])


@pytest.mark.parametrize(("size", "n"), [(2, 4), (3, 3)])
@pytest.mark.parametrize("seed", range(4))
def test_split_vc_equals_the_definition(size, n, seed):
    rng = np.random.default_rng(seed)
    table = rng.random(n * (size,)) < rng.uniform(0.2, 0.8)
    value, proof = split_vc_dimension(table, range(size), n)
    assert value == slow_split_vc(table) == len(proof.rows)
    assert verify_certificate(table, proof)


@pytest.mark.parametrize(
    ("f", "alphabet", "n", "value"),
    [(xor_of_ands, BITS, 4, 2), (sum2, sum2_alphabet(4), 4, 3)]
    + [(f, BITS, n, 1) for f in (parity, conjunction, majority) for n in range(2, 7)]
    + [(f, BITS, 2 * m, m) for f in (disjointness, inner_product) for m in range(1, 5)]
    + [(indexing, range(n + 1), n + 1, n) for n in (2, 3, 4)],
)
def test_exact_values(f, alphabet, n, value):
    found, proof = split_vc_dimension(f, alphabet, n)
    assert found == value
    assert split_vc_dimension(f, alphabet, n, return_certificate=False) == value
    assert proof.rows.shape == (value, len(proof.positions))
    assert proof.columns.shape == (2**value, n - len(proof.positions))
    assert verify_certificate(f, proof)


def test_constant_function_has_nothing_to_split():
    value, proof = split_vc_dimension(lambda w: np.zeros(w.shape[:-1]), BITS, 3)
    assert value == 0
    assert verify_certificate(parity, proof)


def test_search_reaches_four_thousand_words():
    table = np.random.default_rng(0).random(12 * (2,)) < 0.5
    value, proof = split_vc_dimension(table, BITS, 12)
    assert value == 7
    assert verify_certificate(table, proof)


@pytest.mark.parametrize("ell", [4, 6, 8, 10, 12])
def test_sum2_certificate(ell):
    proof = sum2_certificate(ell)
    assert len(proof.rows) == ell // 2
    assert set(np.unique(proof.rows)) | set(np.unique(proof.columns)) <= set(sum2_alphabet(ell))
    assert verify_certificate(sum2, proof)


@pytest.mark.parametrize("n", range(1, 9))
def test_certificates_of_indexing_and_disjointness(n):
    for f, proof in (
        (indexing, indexing_certificate(n)),
        (disjointness, disjointness_certificate(n)),
    ):
        assert len(proof.rows) == n
        assert verify_certificate(f, proof)


def test_a_false_certificate_is_refused():
    proof = disjointness_certificate(3)
    swapped = proof.columns.copy()
    swapped[[2, 5]] = swapped[[5, 2]]
    assert not verify_certificate(disjointness, dataclasses.replace(proof, columns=swapped))
    assert not verify_certificate(inner_product, sum2_certificate(4))
    with pytest.raises(ValueError, match="certificate has rows"):
        verify_certificate(disjointness, dataclasses.replace(proof, columns=swapped[:-1]))


def test_split_matrix_is_f_on_joined_words():
    matrix = split_matrix(sum2, sum2_alphabet(4), 4, [2, 0])
    words = list(itertools.product(sum2_alphabet(4), repeat=2))
    assert matrix.shape == (36, 36)
    rng = np.random.default_rng(0)
    for r, c in rng.integers(0, 36, (50, 2)):
        joined = np.array([words[r][0], words[c][0], words[r][1], words[c][1]])
        assert matrix[r, c] == sum2(joined)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: split_vc_dimension(parity, BITS, 17), r"2\^17 = 131072 words"),
        (lambda: split_vc_dimension(parity, (0, 0), 3), "distinct symbols"),
        (lambda: split_vc_dimension(np.zeros((2, 2)), BITS, 3), r"f has shape \(2, 2\)"),
        (lambda: split_vc_dimension(lambda w: w, BITS, 3), "f maps words"),
        (lambda: split_matrix(parity, BITS, 3, [3]), r"positions is \[3\]"),
        (lambda: split_matrix(parity, BITS, 3, [1, 1]), r"positions is \[1, 1\]"),
        (lambda: vc_dimension(np.zeros(3)), r"matrix has shape \(3,\)"),
        (lambda: vc_dimension(np.zeros((3, 0))), r"columns has shape \(3, 0\)"),
        (lambda: sum2_certificate(5), "ell is 5"),
        (lambda: disjointness_certificate(0), "m is 0"),
        (lambda: indexing_certificate(0), "n is 0"),
        (lambda: disjointness(np.zeros(3, int)), r"word has shape \(3,\)"),
        (lambda: disjointness_as_quotient([1, 0], [1]), r"shapes \(2,\) and \(1,\)"),
        (lambda: disjointness_as_quotient([2], [1]), "need bits"),
        (lambda: auxiliary_split(np.ones((3, 2)), np.ones((4, 2)), np.ones((3, 2)), []), "q, k, v"),
        (lambda: auxiliary_split(*np.ones((3, 3, 2)), [3]), r"positions is \[3\]"),
        (lambda: triangular_split(*np.ones((4, 3, 2, 2)), (0, 1), []), "q and k have shapes"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_standard_attention_splits_at_the_auxiliary_token():
    n, dim = 6, 4
    rng = np.random.default_rng(0)
    q, k, v = rng.normal(size=(3, n, dim))
    scores = k @ q[-1] / np.sqrt(dim)
    weights = np.exp(scores - scores.max())
    attention = weights @ v / weights.sum()
    other_k, other_v = rng.normal(size=(2, n, dim))
    for bits in range(2 ** (n - 1)):
        positions = [i for i in range(n - 1) if bits >> i & 1]
        s = auxiliary_split(q, k, v, positions)
        np.testing.assert_allclose((s.alpha + s.beta) / (s.lam + s.mu), attention, atol=1e-12)
        # Another word outside A leaves what belongs to A bit for bit, and changes the rest.
        inside = np.isin(np.arange(n), positions)[:, None]
        t = auxiliary_split(
            q, np.where(inside, k, other_k), np.where(inside, v, other_v), positions
        )
        np.testing.assert_array_equal(t.alpha, s.alpha)
        assert t.lam == s.lam
        assert t.mu != s.mu


@pytest.mark.parametrize("s", [1, 2, 3, 4])
def test_disjointness_is_a_quotient_composition(s):
    words = list(itertools.product(BITS, repeat=s))
    for p, q in itertools.product(words, repeat=2):
        a, b, col = disjointness_as_quotient(p, q)
        shares = (col[:, None] == col) & ~np.eye(len(col), dtype=bool)
        label = (a @ shares @ b)[0, 1] > 0
        assert label == disjointness(np.array([*p, *q]))


def test_functions_with_other_values_are_refused():
    with pytest.raises(ValueError, match=r"f takes the values \[-1, 1\], needs 0 and 1 only"):
        split_vc_dimension(lambda w: 1 - 2 * (w.sum(-1) % 2), (0, 1), 4)


@pytest.mark.parametrize("s", [1, 2, 3, 4])
def test_triangular_attention_splits_on_the_quotient_instances(x64, s):
    words = list(itertools.product(BITS, repeat=s))
    m, width = 2 * s + 2, 3
    rng = np.random.default_rng(s)
    maps = rng.normal(size=(4, 6, width))
    i, j = np.indices((m, m))

    def heads(p, q):
        a, b, col = disjointness_as_quotient(p, q)
        tokens = np.stack([i / m, j / m, a, b, col[i] / m, col[j] / m], axis=-1)
        return [tokens @ w for w in maps]

    pairs = list(itertools.product(words, repeat=2))
    every = [heads(p, q) for p, q in pairs]
    stacked = (jnp.asarray(np.stack(x))[..., None, :] for x in zip(*every))
    out = np.asarray(triangular_attention(*stacked))[:, 0, 1, 0]
    splits = [triangular_split(*x, edge=(0, 1), positions=range(2, s + 2)) for x in every]
    of_p, of_q = {}, {}
    for (p, q), split, attention in zip(pairs, splits, out):
        whole = (split.alpha + split.beta) / (split.lam + split.mu)
        np.testing.assert_allclose(whole, attention, atol=1e-12)
        of_p.setdefault(p, []).append([*split.alpha, split.lam])
        of_q.setdefault(q, []).append([*split.beta, split.mu])
    for groups in (of_p, of_q):
        assert all((np.array(g) == g[0]).all() for g in groups.values())
        assert len({tuple(g[0]) for g in groups.values()}) == len(words)
