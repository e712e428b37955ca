"""Strassen attention: its evaluations against each other, extreme scores, gradients, reductions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

from neurips25.attention import (
    StrassenMethod,
    softmax_attention,
    strassen_attention,
    strassen_denominators,
    strassen_matmul,
    third_order_attention,
    triangular_attention,
)
from tests.attention.strassen_cases import attend, gradients, padding, random_inputs, reference

METHODS = [m.value for m in StrassenMethod]
EXACT = ["stable", "logsumexp", "naive"]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("masked", [False, True])
def test_methods_are_the_definition(x64, method, masked):
    arrays = random_inputs()
    mask = padding() if masked else None
    out = attend(*arrays, mask, method=method)
    np.testing.assert_allclose(out, reference(*arrays, mask), rtol=0, atol=1e-12)


def test_default_eps_of_the_product_form(x64):
    arrays = random_inputs()
    out = strassen_attention(*arrays, method="matmul")
    difference = np.abs(out - reference(*arrays)).max()
    assert 1e-12 < difference < 1e-6


@pytest.mark.parametrize("method", METHODS)
def test_float32(method):
    arrays = random_inputs(dtype=np.float32)
    out = attend(*arrays, padding(), method=method)
    np.testing.assert_allclose(out, reference(*arrays, padding()), rtol=0, atol=1e-5)


@pytest.mark.parametrize("method", METHODS)
def test_causal(x64, method):
    arrays = random_inputs(n=6)
    out = attend(*arrays, method=method, causal=True)
    np.testing.assert_allclose(out, reference(*arrays, causal=True), rtol=0, atol=1e-12)
    # The first token sees only itself.
    np.testing.assert_allclose(out[:, 0], arrays[3][:, 0] * arrays[4][:, 0], atol=1e-12)


@pytest.mark.parametrize("method", METHODS)
def test_some_queries_only(x64, method):
    f, *rest = random_inputs()
    chosen = [5, 0]
    out = attend(f[:, chosen], *rest, padding(), method=method)
    np.testing.assert_allclose(out, reference(f, *rest, padding())[:, chosen], atol=1e-12)


def adversarial(case):
    """float32 inputs whose separate maxima lie far from every joint one."""
    f, g, h, v1, v2 = random_inputs(seed=3, batch=2, n=9, heads=1, dtype=np.float32)
    if case == "scores of 1e4":
        f, g, h = 150 * f, 150 * g, 150 * h
    elif case == "near ties at 1e4":
        # f·g and g·h are large and cancel, so the weights depend on their last bits.
        f[..., 0], h[..., 0] = 100.0, -100.0
        g[..., 0] = 200.0 + 0.01 * g[..., 0]
    elif case == "one huge score":
        f[0, 2, 0] = g[0, 4, 0] = 120.0
    elif case == "all equal":
        f, g, h = (np.full_like(a, 70.0) for a in (f, g, h))
    elif case == "opposed maxima":
        f[..., 0], g[..., 0], h[..., 0] = 60.0, np.linspace(-9, 9, 9)[:, None], -60.0
    return f, g, h, v1, v2


CASES = ["scores of 1e4", "near ties at 1e4", "one huge score", "all equal", "opposed maxima"]


@pytest.mark.parametrize("case", CASES)
def test_float32_under_extreme_scores(case):
    arrays = adversarial(case)
    out = attend(*arrays)
    np.testing.assert_allclose(out, reference(*arrays), rtol=0, atol=1e-5)


def test_the_product_form_fails_where_the_default_does_not():
    arrays = adversarial("scores of 1e4")
    want = reference(*arrays)
    lost = np.asarray(strassen_denominators(*arrays[:3]))[..., 0] == 0
    assert lost.any()
    out = np.asarray(attend(*arrays, method="matmul"))[:, :, 0]
    assert (out[lost] == 0).all()
    assert np.abs(want[:, :, 0][lost]).max() > 0.1
    # Plain float32 scores of this size are too coarse for 1e-5 even where nothing underflows.
    coarse = attend(*adversarial("near ties at 1e4"), method="logsumexp")
    assert np.abs(coarse - reference(*adversarial("near ties at 1e4"))).max() > 1e-4


@pytest.mark.parametrize("case", CASES)
def test_float32_gradients_under_extreme_scores(case):
    arrays = adversarial(case)
    weights = np.random.default_rng(0).normal(size=(2, 9, 1, 3)).astype(np.float32)
    got = gradients(arrays, weights)
    with jax.enable_x64(True):
        doubles = tuple(jnp.asarray(a, jnp.float64) for a in arrays)
        want = jax.device_get(gradients(doubles, weights.astype(np.float64), method="naive"))
    for mine, exact in zip(got, want):
        assert np.isfinite(mine).all()
        # The gradient by a score is known to an ulp of 1, then multiplied by f, g or h.
        scale = max(1.0, np.abs(exact).max(), 0.01 * max(np.abs(a).max() for a in arrays))
        np.testing.assert_allclose(mine / scale, exact / scale, rtol=0, atol=2e-5)


@pytest.mark.parametrize("block", [30, 100, 2**17])
@pytest.mark.parametrize("causal", [False, True])
def test_float32_streaming_in_chunks(monkeypatch, block, causal):
    for name in ("_BLOCK", "_PRODUCT_BLOCK"):
        monkeypatch.setattr(f"neurips25.attention.strassen_stable.{name}", block)
    arrays = random_inputs(seed=4, batch=3, scale=100, dtype=np.float32)
    mask = padding(3)
    weights = np.random.default_rng(0).normal(size=(3, 7, 2, 3)).astype(np.float32)
    assert (strassen_denominators(*arrays[:3], mask, causal=causal) == 0).any()

    def stable(arrays, mask):
        return strassen_attention(*arrays, mask, causal=causal)

    out = jax.jit(stable)(arrays, mask)
    np.testing.assert_allclose(out, reference(*arrays, mask, causal), rtol=0, atol=1e-5)
    got = jax.jit(jax.grad(lambda a: jnp.sum(stable(a, mask) * weights)))(arrays)
    with jax.enable_x64(True):
        doubles = tuple(jnp.asarray(a, jnp.float64) for a in arrays)
        exact = jax.grad(
            lambda a: jnp.sum(strassen_attention(*a, mask, method="naive", causal=causal) * weights)
        )(doubles)
    for mine, want in zip(got, exact):
        scale = max(1.0, np.abs(want).max(), 0.01 * np.abs(arrays[0]).max())
        np.testing.assert_allclose(mine / scale, want / scale, rtol=0, atol=2e-5)


@pytest.mark.parametrize("scale", [1e3, 1e6])
def test_a_large_neighbour_changes_nothing(scale):
    arrays = random_inputs(dtype=np.float32)
    want = reference(*arrays)[1]
    large = tuple(np.concatenate([scale * a[:1], a[1:]]) for a in arrays)
    np.testing.assert_allclose(attend(*large)[1], want, rtol=0, atol=1e-5)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("filling", [1e6, np.nan])
def test_what_stands_at_padding_changes_nothing(method, filling):
    arrays, mask = random_inputs(dtype=np.float32), padding()
    filled = tuple(np.where(mask[..., None, None], a, a * np.float32(filling)) for a in arrays)
    out = np.asarray(attend(*filled, mask, method=method))
    np.testing.assert_allclose(out[mask], reference(*arrays, mask)[mask], rtol=0, atol=1e-5)


def test_near_ties_at_the_limit_of_plain_scores():
    rng = np.random.default_rng(0)
    worst = 0.0
    for dim in (4, 64):
        f, g, h, v1, v2 = random_inputs(batch=40, n=3, heads=1, dim=dim, dtype=np.float32)
        # Bound 11.9; f·g and g·h nearly cancel.
        f, g = (np.sqrt(11.9 * np.sqrt(dim)) * a / np.linalg.norm(a, axis=-1, keepdims=True)
                for a in (f, g))  # fmt: skip
        h = -f[:, rng.permutation(3)]
        error = np.abs(attend(f, g, h, v1, v2) - reference(f, g, h, v1, v2)).max()
        worst = max(worst, error)
    assert 0 < worst < 1e-5


def test_small_values_are_not_lost():
    f, g, h, v1, v2 = adversarial("one huge score")
    small = (np.float32(1e-15) * v1, np.float32(1e-15) * v2)
    for method in ("stable", "matmul"):
        out = np.asarray(attend(f, g, h, *small, method=method)[1])
        np.testing.assert_allclose(out, reference(f, g, h, *small)[1], rtol=1e-3, atol=1e-36)


@pytest.mark.parametrize("method", METHODS)
def test_batch_element_without_tokens(method):
    arrays = random_inputs(dtype=np.float32)
    mask = np.array([[True] * 7, [False] * 7])
    out = attend(*arrays, mask, method=method)
    np.testing.assert_allclose(out[0], reference(*arrays)[0], atol=1e-5)
    assert (np.asarray(out[1]) == 0).all()
    for grad in gradients(arrays, jnp.ones_like(out), mask, method=method):
        assert np.isfinite(grad).all()
        assert (np.asarray(grad[1]) == 0).all()


@pytest.mark.parametrize("method", METHODS)
def test_one_token(method):
    arrays = random_inputs(n=1, dtype=np.float32, scale=50)
    np.testing.assert_allclose(attend(*arrays, method=method), arrays[3] * arrays[4], rtol=1e-6)
    df, dg, dh, dv1, dv2 = gradients(arrays, jnp.ones((2, 1, 2, 3)), method=method)
    np.testing.assert_allclose(dv1, arrays[4], rtol=1e-6)
    np.testing.assert_allclose(dv2, arrays[3], rtol=1e-6)
    assert all(np.abs(d).max() < 1e-3 for d in (df, dg, dh))


@pytest.mark.parametrize("method", ["stable", "matmul", "logsumexp"])
@pytest.mark.parametrize("masked", [False, True])
def test_gradients_are_those_of_the_definition(x64, method, masked):
    arrays = random_inputs(seed=1)
    weights = np.random.default_rng(1).normal(size=(2, 7, 2, 3))
    mask = padding() if masked else None
    want = gradients(arrays, weights, mask, method="naive")
    for mine, exact in zip(gradients(arrays, weights, mask, method=method), want):
        np.testing.assert_allclose(mine, exact, rtol=1e-9, atol=1e-11)


def test_gradients_by_finite_differences(x64):
    arrays = random_inputs(seed=2, batch=1, n=4, heads=1)
    check_grads(lambda *a: attend(*a), arrays, order=1, modes=["rev"], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("queries", [7, 3])
def test_long_sequences_are_streamed_in_chunks(x64, monkeypatch, queries):
    monkeypatch.setattr("neurips25.attention.strassen_stable._BLOCK", 100)
    arrays = random_inputs(scale=40)
    arrays = (arrays[0][:, :queries], *arrays[1:])
    weights = np.random.default_rng(1).normal(size=(2, queries, 2, 3))

    def stable(*arrays):
        return strassen_attention(*arrays)

    assert (strassen_denominators(*arrays[:3]) < 1e-290).any()
    np.testing.assert_allclose(jax.jit(stable)(*arrays), reference(*arrays), rtol=0, atol=1e-12)
    got = jax.jit(jax.grad(lambda a: jnp.sum(stable(*a) * weights)))(arrays)
    for mine, exact in zip(got, gradients(arrays, weights, method="naive")):
        np.testing.assert_allclose(mine, exact, rtol=1e-9, atol=1e-9)


def test_without_h_it_is_standard_attention(x64):
    f, g, h, v1, v2 = random_inputs()
    out = attend(f, g, np.zeros_like(h), v1, v2)
    want = softmax_attention(*map(jnp.asarray, (f, g, v1))) * v2.mean(axis=1, keepdims=True)
    np.testing.assert_allclose(out, want, rtol=0, atol=1e-12)


def test_without_g_it_attends_by_h(x64):
    f, g, h, v1, v2 = random_inputs()
    out = attend(f, np.zeros_like(g), h, v1, v2)
    want = softmax_attention(*map(jnp.asarray, (f, h, v2))) * v1.mean(axis=1, keepdims=True)
    np.testing.assert_allclose(out, want, rtol=0, atol=1e-12)


def test_without_f_all_queries_get_the_same(x64):
    f, *rest = random_inputs()
    out = np.asarray(attend(np.zeros_like(f), *rest))
    np.testing.assert_allclose(out, np.broadcast_to(out[:, :1], out.shape), rtol=0, atol=1e-12)
    assert np.abs(out).max() > 1e-3


def test_second_and_third_token_can_be_exchanged(x64):
    f, g, h, v1, v2 = random_inputs()
    np.testing.assert_allclose(attend(f, g, h, v1, v2), attend(f, h, g, v2, v1), rtol=0, atol=1e-12)


def test_permutation_equivariance(x64):
    arrays = random_inputs()
    order = np.random.default_rng(5).permutation(7)
    moved = attend(*(a[:, order] for a in arrays))
    np.testing.assert_allclose(moved, attend(*arrays)[:, order], rtol=0, atol=1e-12)


def test_it_is_not_third_order_attention(x64):
    arrays = random_inputs()
    assert np.abs(attend(*arrays) - third_order_attention(*arrays)).max() > 1e-2


def test_it_simulates_triangular_attention(x64):
    side, dim = 4, 3
    width = 9 + dim  # of f, g, h: three selectors and the content
    strength = 60.0 * np.sqrt(width)
    rng = np.random.default_rng(7)
    q, k, v1, v2 = (rng.normal(size=(1, side, side, 1, dim)) for _ in range(4))
    want = triangular_attention(*map(jnp.asarray, (q, k, v1, v2)))
    i, j = (a.ravel().astype(float) for a in np.meshgrid(*[np.arange(side)] * 2, indexing="ij"))
    one = np.ones_like(i)

    def selects(a, b):
        """Two blocks of three coordinates with product −strength (a − b)²."""
        left = np.stack([-strength * a**2, 2 * strength * a, -strength * one])
        return left, np.stack([one, b, b**2])

    blank = np.zeros((3, side**2))
    row_f, row_g = selects(i, i)
    mid_g, mid_h = selects(j, i)
    col_h, col_f = selects(j, j)
    content = np.zeros((dim, side**2))
    # The content is scaled by 1/√dim in triangular attention, by 1/√width here.
    content_g = q.reshape(-1, dim).T * np.sqrt(width / dim)
    content_h = k.reshape(-1, dim).T
    f = np.concatenate([row_f, blank, col_f, content])
    g = np.concatenate([row_g, mid_g, blank, content_g])
    h = np.concatenate([blank, mid_h, col_h, content_h])
    rows = [a.T[None, :, None] for a in (f, g, h)]
    values = [v.reshape(1, -1, 1, dim) for v in (v1, v2)]
    for method in EXACT:
        out = attend(*rows, *values, method=method)
        np.testing.assert_allclose(out.reshape(want.shape), want, rtol=0, atol=1e-12)


def largest_array(function, *arrays):
    """Elements of the largest intermediate of a function, loop bodies and branches included."""

    def sizes(jaxpr):
        for equation in jaxpr.eqns:
            yield from (var.aval.size for var in equation.outvars)
            for inner in jax.tree.leaves(
                list(equation.params.values()),
                is_leaf=lambda p: hasattr(p, "eqns") or hasattr(p, "jaxpr"),
            ):
                inner = getattr(inner, "jaxpr", inner)
                if hasattr(inner, "eqns"):
                    yield from sizes(inner)

    return max(sizes(jax.make_jaxpr(function)(*arrays).jaxpr))


def test_memory_is_quadratic_times_width():
    n, dim = 64, 4
    arrays = random_inputs(batch=1, n=n, heads=1, dim=dim, width=dim, dtype=np.float32)

    def size(method):
        return largest_array(lambda *a: strassen_attention(*a, method=method), *arrays)

    assert size("matmul") == n * n * dim
    assert size("logsumexp") == n * n
    assert size("naive") == n**3


def test_default_memory_is_quadratic_times_width_forward_and_backward(monkeypatch):
    n, dim = 64, 4
    for name in ("_BLOCK", "_PARALLEL_BLOCK"):
        monkeypatch.setattr(f"neurips25.attention.strassen_stable.{name}", n * n)
    arrays = random_inputs(batch=1, n=n, heads=1, dim=dim, width=dim, dtype=np.float32)
    forward = largest_array(lambda *a: strassen_attention(*a), *arrays)
    assert forward == n * n * dim
    both = largest_array(
        jax.grad(lambda *a: strassen_attention(*a).sum(), (0, 1, 2, 3, 4)), *arrays
    )
    assert both == n * n * dim


def test_seven_products_inside_the_product_form(x64):
    arrays = random_inputs(n=9)
    out = strassen_attention(
        *arrays, method="matmul", eps=0.0, matmul=lambda a, b: strassen_matmul(a, b, leaf=2)
    )
    np.testing.assert_allclose(out, reference(*arrays), rtol=0, atol=1e-10)


def test_vmap_and_half_precision():
    arrays = random_inputs(dtype=np.float32)
    one_by_one = jax.vmap(lambda *a: strassen_attention(*(x[None] for x in a))[0])(*arrays)
    np.testing.assert_allclose(one_by_one, attend(*arrays), atol=1e-6)
    for dtype, atol in ((jnp.bfloat16, 2e-2), (jnp.float16, 2e-3)):
        half = tuple(jnp.asarray(a, dtype) for a in random_inputs(scale=20))
        out = attend(*half)
        assert out.dtype == dtype
        np.testing.assert_allclose(out.astype(np.float32), reference(*half), atol=atol)


def test_denominators():
    f, g, h, *_ = random_inputs(dtype=np.float32)
    zeros = [np.zeros_like(a) for a in (f, g, h)]
    np.testing.assert_allclose(strassen_denominators(*zeros), 49.0)
    counted = strassen_denominators(*zeros, padding())
    np.testing.assert_allclose(counted[:, 0, 0], [49.0, 36.0])


def test_bad_arguments():
    f, g, h, v1, v2 = random_inputs(dtype=np.float32)
    with pytest.raises(ValueError, match=r"method='logsumxp' is not .* did you mean 'logsumexp'"):
        strassen_attention(f, g, h, v1, v2, method="logsumxp")
    with pytest.raises(ValueError, match=r"g has shape \(2, 7, 2, 3\), needs \[2, n, 2, 4\]"):
        strassen_attention(f, g[..., :3], h, v1, v2)
    with pytest.raises(ValueError, match=r"h has shape \(2, 6, 2, 4\), needs \(2, 7, 2, 4\)"):
        strassen_attention(f, g, h[:, :6], v1, v2)
    with pytest.raises(ValueError, match=r"v2 has shape \(2, 7, 2, 2\), needs \(2, 7, 2, 3\)"):
        strassen_attention(f, g, h, v1, v2[..., :2])
    with pytest.raises(ValueError, match=r"mask has shape \(2, 6\)"):
        strassen_attention(f, g, h, v1, v2, np.ones((2, 6), bool))
    with pytest.raises(ValueError, match="causal=True needs f with the 7 rows of g"):
        strassen_attention(f[:, :2], g, h, v1, v2, causal=True)
    with pytest.raises(ValueError, match="matmul= goes with method='matmul'"):
        strassen_attention(f, g, h, v1, v2, matmul=strassen_matmul)
