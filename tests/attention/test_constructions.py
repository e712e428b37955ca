"""The proofs' weights solve their tasks, with the gaps that the theorems promise."""

import itertools

import jax.numpy as jnp
import numpy as np
import pytest

from neurips25.attention import constructions
from neurips25.attention.constructions import (
    attend,
    evaluate,
    function_composition,
    match3,
    quotient,
    score_gaps,
    strassen_inputs,
    triangular_relation,
)
from neurips25.attention.lower_bounds import disjointness_as_quotient
from neurips25.attention.strassen import strassen_denominators

INSTANCES = 20
EXACT = ("stable", "logsumexp")


def random_relations(rng, count, m):
    """Matrices of all densities, so that both labels are common at some."""
    density = rng.uniform(0.1, 0.9, (count, 1, 1))
    return (rng.random((count, m, m)) < density).astype(int)


def composition_label(a, b):
    """[∃k: A_ik = B_kj = 1] by its definition."""
    return (a[..., :, None, :] & np.swapaxes(b, -1, -2)[..., None, :, :]).any(axis=-1)


def quotient_label(a, b, col):
    """[∃ k ≠ l: A_ik = B_lj = 1, col k = col l] by its definition."""
    label = np.zeros(a.shape, bool)
    for k, other in itertools.permutations(range(a.shape[-1]), 2):
        same = (col[..., k] == col[..., other])[..., None, None]
        label |= same & (a[..., :, k, None] & b[..., None, other, :]).astype(bool)
    return label


def match3_label(p, modulus):
    """[∃ j, k: p_i + p_j + p_k ≡ 0] by its definition."""
    sums = p[..., :, None, None] + p[..., None, :, None] + p[..., None, None, :]
    return (sums % modulus == 0).any(axis=(-2, -1))


def flat(matrices):
    return matrices.reshape(*matrices.shape[:-2], -1)


def case(name, size, seed=0, count=INSTANCES):
    """Construction, features of random instances, labels."""
    rng = np.random.default_rng(seed)
    layer = getattr(constructions, name)(*size)
    m = size[0]
    if name == "match3":
        # Few different numbers in an instance leave some without a triple.
        pools = [rng.choice(size[1] - 1, k) + 1 for k in rng.integers(1, 7, count)]
        p = np.stack([rng.choice(pool, m) for pool in pools])
        return layer, layer.features_fn(p), match3_label(p, size[1])
    a, b = random_relations(rng, count, m), random_relations(rng, count, m)
    if name == "quotient":
        col = rng.integers(1, m + 1, (count, m))
        return layer, layer.features_fn(a, b, col), flat(quotient_label(a, b, col))
    return layer, layer.features_fn(a, b), flat(composition_label(a, b))


def functions(n, count=INSTANCES, seed=0):
    rng = np.random.default_rng(seed)
    g, h = rng.integers(1, n + 1, (2, count, n))
    x = rng.integers(1, n + 1, count)
    rows = np.arange(count)
    return (g, h, x), h[rows, g[rows, x - 1] - 1]


@pytest.mark.parametrize(
    ("method", "dtype", "atol"),
    [
        ("stable", "float64", 1e-9),
        ("logsumexp", "float64", 1e-9),
        ("matmul", "float64", 1e-7),  # n times its eps of 1e-9
        ("stable", "float32", 1e-5),
    ],
)
@pytest.mark.parametrize("n", [5, 40])
def test_function_composition(n, method, dtype, atol):
    layer = function_composition(n)
    raw, answer = functions(n)
    y = evaluate(layer, layer.features_fn(*raw), method, dtype)
    np.testing.assert_allclose(y[:, 0], answer, atol=atol)


@pytest.mark.parametrize("method", EXACT)
@pytest.mark.parametrize(
    ("name", "size"),
    [("binary_relation", (m,)) for m in (2, 3, 4, 5, 6)]
    + [("quotient", (m,)) for m in (2, 3, 4, 5, 6)]
    + [("match3", size) for size in ((5, 8), (10, 18), (20, 37), (30, 37))],
)
def test_no_label_is_wrong(name, size, method):
    layer, features, label = case(name, size)
    y = evaluate(layer, features, method)
    np.testing.assert_array_equal(y > 0, label)
    assert label.any()
    assert not label.all()
    assert np.abs(y).min() > 0.25


@pytest.mark.parametrize("n", [5, 20])
def test_gap_of_function_composition_is_exactly_n_squared(n):
    layer = function_composition(n)
    features = layer.features_fn(*functions(n)[0])
    gaps = np.array([score_gaps(layer, x) for x in features])
    assert gaps.shape == (INSTANCES, 1, 1)
    np.testing.assert_allclose(gaps, n**2, rtol=1e-6)
    assert layer.min_gap == n**2


@pytest.mark.parametrize(
    ("name", "size", "least"),
    [("binary_relation", (m,), m**3) for m in (2, 3, 4, 5, 6)]
    + [("quotient", (m,), 64) for m in (2, 3, 4, 5, 6)]
    + [("match3", (n, modulus), n) for n, modulus in ((5, 8), (10, 18), (20, 37), (30, 37))],
)
def test_gaps_reach_what_is_promised(name, size, least):
    layer, features, _ = case(name, size)
    gaps = np.array([score_gaps(layer, x) for x in features])
    np.testing.assert_allclose(gaps.min(), least, rtol=1e-6)  # some query has no more
    assert layer.min_gap == least


@pytest.mark.parametrize("m", range(2, 9))
def test_triangular_head_composes_relations(m):
    rng = np.random.default_rng(m)
    a, b = random_relations(rng, 30, m), random_relations(rng, 30, m)
    layer = triangular_relation(m)
    features = layer.features_fn(a, b)
    label = composition_label(a, b)
    np.testing.assert_array_equal(evaluate(layer, features) > 0, label)
    out = attend(layer, features)[..., 0]
    assert (out[~label] == 0).all()
    assert out[label].min() >= 0.5


@pytest.mark.parametrize(
    ("name", "size"), [("binary_relation", (4,)), ("match3", (20, 37)), ("quotient", (4,))]
)
def test_plain_products_lose_queries_and_the_diagnostic_tells_which(x64, name, size):
    layer, features, label = case(name, size)
    f, g, h, *_ = (jnp.asarray(a) for a in strassen_inputs(layer, features))
    denominators = np.asarray(strassen_denominators(f, g, h))
    lost = denominators == 0
    assert lost.mean() > 0.25
    np.testing.assert_array_equal((attend(layer, features, "matmul") == 0).all(axis=-1), lost)
    wrong = (evaluate(layer, features, "matmul") > 0) != label
    assert wrong.mean() > 0.1
    assert (denominators.min(axis=-1)[wrong] < 1e-9).all()  # eps, which the sums drown in


def test_plain_products_keep_function_composition(x64):
    layer = function_composition(20)
    f, g, h, *_ = strassen_inputs(layer, layer.features_fn(*functions(20)[0]))
    denominators = strassen_denominators(*(jnp.asarray(a) for a in (f, g, h)))
    np.testing.assert_allclose(denominators, 1.0, atol=1e-9)


@pytest.mark.parametrize("method", EXACT)
def test_golden_function_composition(golden, method):
    ref = golden("strassen/constructive.npz")
    n = len(ref["fc_x"]) // 2
    layer = function_composition(n)
    for name, w in zip(("W_f", "W_g", "W_h", "V_1", "V_2"), ref["fc_W"], strict=True):
        np.testing.assert_allclose(getattr(layer, name), w, rtol=1e-12)
    symbols = ref["fc_x"][:, 3]
    features = layer.features_fn(symbols[:n], symbols[n : 2 * n], symbols[-1])
    np.testing.assert_array_equal(features, ref["fc_x"])
    out = attend(layer, features, method)
    np.testing.assert_allclose(out[-1, 0], ref["fc_a"][-1], atol=1e-6)
    np.testing.assert_allclose(evaluate(layer, features, method), ref["fc_label"], atol=1e-6)
    np.testing.assert_allclose(score_gaps(layer, features), ref["fc_gap_last"], rtol=1e-5)


@pytest.mark.parametrize("method", EXACT)
@pytest.mark.parametrize(
    ("name", "prefix", "raw"),
    [("binary_relation", "brc", ("A", "B")), ("quotient", "q", ("A", "B", "col"))],
)
def test_golden_relations(golden, name, prefix, raw, method):
    ref = golden("strassen/constructive.npz")
    raw = [ref[f"{prefix}_{key}"] for key in raw]
    layer = getattr(constructions, name)(len(raw[0]))
    for key in ("W_f", "W_g", "W_h", "V_1", "V_2"):
        np.testing.assert_allclose(
            getattr(layer, key), ref[f"{prefix}_{key.replace('_', '')}"], rtol=1e-12
        )
    features = layer.features_fn(*raw)
    np.testing.assert_array_equal(features, ref[f"{prefix}_x"])
    np.testing.assert_allclose(attend(layer, features, method)[:, 0], ref[f"{prefix}_a"], atol=1e-6)
    y = evaluate(layer, features, method)
    np.testing.assert_allclose(y, ref[f"{prefix}_y"], atol=1e-5)
    np.testing.assert_array_equal(y > 0, ref[f"{prefix}_label"].astype(bool).reshape(-1))
    np.testing.assert_allclose(score_gaps(layer, features)[0], ref[f"{prefix}_gap"], rtol=1e-5)


@pytest.mark.parametrize("method", EXACT)
def test_golden_match3(golden, method):
    ref = golden("strassen/constructive.npz")
    layer = match3(len(ref["m3_p"]), int(ref["m3_M"]))
    for key, head in itertools.product(("W_f", "W_g", "W_h", "V_1", "V_2"), (0, 1)):
        np.testing.assert_allclose(
            getattr(layer, key)[head], ref[f"m3_{key.replace('_', '')}_{head + 1}"], rtol=1e-12
        )
    features = layer.features_fn(ref["m3_p"])
    np.testing.assert_array_equal(features, ref["m3_x"])
    out = attend(layer, features, method)
    gaps = score_gaps(layer, features)
    for head in (0, 1):
        np.testing.assert_allclose(out[:, head], ref[f"m3_a{head + 1}"], atol=1e-6)
        np.testing.assert_allclose(gaps[head], ref[f"m3_gap{head + 1}"], rtol=1e-5)
    y = evaluate(layer, features, method)
    np.testing.assert_allclose(y, ref["m3_y"], atol=1e-5)
    np.testing.assert_array_equal(y > 0, ref["m3_label"].astype(bool))


def test_quotient_layer_decides_disjointness():
    pairs = list(itertools.product(itertools.product((0, 1), repeat=2), repeat=2))
    a, b, col = (np.stack(x) for x in zip(*(disjointness_as_quotient(p, q) for p, q in pairs)))
    layer = quotient(6)
    y = evaluate(layer, layer.features_fn(a, b, col))
    expected = [any(s and t for s, t in zip(p, q)) for p, q in pairs]
    np.testing.assert_array_equal(y[:, 1] > 0, expected)


def test_float64_is_local():
    layer = function_composition(5)
    features = layer.features_fn(*functions(5)[0])
    assert evaluate(layer, features).dtype == np.float64
    assert jnp.ones(2).dtype == jnp.float32


def test_batch_axes_are_free():
    layer, features, _ = case("binary_relation", (2,), count=4)
    y = evaluate(layer, features)
    np.testing.assert_array_equal(evaluate(layer, features.reshape(2, 2, 4, 13)).reshape(4, 4), y)
    np.testing.assert_allclose(evaluate(layer, features[0]), y[0], atol=1e-12)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: function_composition(0), "n is 0"),
        (lambda: match3(5, 1), "modulus is 1"),
        (lambda: function_composition(3).features_fn([1, 2], [1, 2, 3], 1), r"g has shape \(2,\)"),
        (lambda: function_composition(3).features_fn([1, 2, 4], [1, 2, 3], 1), "g holds 4"),
        (lambda: match3(2, 7).features_fn([0, 3]), "p holds 0"),
        (lambda: match3(2, 7).features_fn([1.5, 3]), "p holds 1.5"),
        (lambda: triangular_relation(2).features_fn(np.eye(3), np.eye(2)), r"A has shape \(3, 3\)"),
        (lambda: quotient(2).features_fn(np.eye(2), np.eye(2), [1, 3]), "col holds 3"),
        (lambda: evaluate(match3(2, 7), np.ones((2, 6))), r"features has shape \(2, 6\)"),
        (lambda: evaluate(triangular_relation(2), np.ones((4, 3))), r"features has shape \(4, 3\)"),
        (lambda: score_gaps(match3(2, 7), np.ones((1, 2, 8))), r"features has shape \(1, 2, 8\)"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
