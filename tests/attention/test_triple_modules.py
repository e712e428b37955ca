"""The four layers: golden arrays, chosen queries, starts, bad input."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from neurips25.attention import (
    StandardSelfAttention,
    StrassenSelfAttention,
    ThirdOrderSelfAttention,
    TriangularSelfAttention,
    TripleAttention,
    projections_from_torch,
    standard_attention,
    strassen_attention,
    triple_self_attention,
)
from tests.nn.uniform import assert_fills


@pytest.mark.parametrize("name", ["standard", "third_order"])
@pytest.mark.parametrize("masked", [False, True])
def test_golden(x64, golden, name, masked):
    arrays = golden("strassen/attention_modules.npz")
    heads = int(arrays["num_heads"])
    layer = triple_self_attention(name, heads, dtype=jnp.float64)
    params = {"kernel": jnp.asarray(projections_from_torch(arrays[f"{name}_w"], heads))}
    real = ~arrays["pad_mask"]
    y = layer.apply({"params": params}, arrays["x"], jnp.asarray(real) if masked else None)
    want = arrays[f"{name}_y_masked" if masked else f"{name}_y"]
    rows = real if masked else np.ones_like(real)
    np.testing.assert_allclose(np.asarray(y)[rows], want[rows], rtol=0, atol=1e-10)


@pytest.mark.parametrize("masked", [False, True])
def test_golden_strassen(x64, golden, masked):
    arrays = golden("strassen/attention_modules.npz")
    heads, x = int(arrays["num_heads"]), jnp.asarray(arrays["x"])
    kernel = jnp.asarray(projections_from_torch(arrays["strassen_w"], heads))
    real = ~arrays["pad_mask"]
    mask = jnp.asarray(real) if masked else None
    want = arrays["strassen_y_masked" if masked else "strassen_y"]
    rows = real if masked else np.ones_like(real)
    parts = jnp.einsum("bnc,cphd->pbnhd", x, kernel)
    products = strassen_attention(*parts, mask, method="matmul").reshape(x.shape)
    np.testing.assert_allclose(np.asarray(products)[rows], want[rows], rtol=0, atol=1e-8)
    layer = StrassenSelfAttention(heads, dtype=jnp.float64)
    y = layer.apply({"params": {"kernel": kernel}}, x, mask)
    np.testing.assert_allclose(np.asarray(y)[rows], want[rows], rtol=0, atol=1e-6)


@pytest.mark.parametrize("masked", [False, True])
def test_golden_triangular(x64, golden, masked):
    arrays = golden("strassen/attention_modules.npz")
    heads, x = int(arrays["num_heads"]), arrays["tri_x"]
    # Its fifth map is never used.
    kernel = projections_from_torch(arrays["tri_w"][:4], heads)
    real = ~arrays["tri_pad_mask"]
    flat = x.reshape(x.shape[0], -1, x.shape[-1])
    mask = jnp.asarray(real.reshape(flat.shape[:2])) if masked else None
    layer = TriangularSelfAttention(heads, dtype=jnp.float64)
    y = np.asarray(layer.apply({"params": {"kernel": jnp.asarray(kernel)}}, flat, mask))
    want = arrays["tri_y_masked" if masked else "tri_y"]
    rows = real if masked else np.ones_like(real)
    np.testing.assert_allclose(y.reshape(x.shape)[rows], want[rows], rtol=0, atol=1e-10)


@pytest.mark.parametrize("kind", list(TripleAttention))
def test_chosen_queries_are_rows_of_the_whole(kind):
    x = jax.random.normal(jax.random.key(0), (2, 9, 8))
    layer = triple_self_attention(kind, 2, out_proj=True)
    variables = layer.init(jax.random.key(1), x)
    whole = layer.apply(variables, x)
    assert whole.shape == x.shape
    some = layer.apply(variables, x, queries=(3, 0))
    np.testing.assert_allclose(some, whole[:, [3, 0]], atol=1e-6)


@pytest.mark.parametrize(
    ("layer", "parts", "fan_out"),
    [
        (StandardSelfAttention(2), 3, 192),
        (ThirdOrderSelfAttention(2), 5, 320),
        (StrassenSelfAttention(2), 5, 320),
        (TriangularSelfAttention(2), 4, 64),
    ],
)
def test_starts_are_xavier_uniform(layer, parts, fan_out):
    kernel = layer.init(jax.random.key(0), jnp.zeros((1, 4, 64)))["params"]["kernel"]
    assert kernel.shape == (64, parts, 2, 32)
    assert_fills(kernel, np.sqrt(6 / (64 + fan_out)))


def test_standard_attention_masks_keys(x64):
    rng = np.random.default_rng(0)
    q, k, v = (jnp.asarray(rng.normal(size=(2, 5, 1, 3))) for _ in range(3))
    mask = jnp.array([[True] * 5, [True] * 3 + [False] * 2])
    out = standard_attention(q, k, v, mask)
    np.testing.assert_allclose(out[1:], standard_attention(q, k[:, :3], v[:, :3])[1:], atol=1e-12)


def test_bad_arguments():
    x = jnp.zeros((1, 9, 6))
    with pytest.raises(ValueError, match="8 is no square"):
        TriangularSelfAttention(1).init(jax.random.key(0), x[:, :8])
    with pytest.raises(ValueError, match=r"mask has shape \(1, 8\), needs \(1, 9\)"):
        TriangularSelfAttention(1).init(jax.random.key(0), x[:, :9], jnp.ones((1, 8), bool))
    for layer in (TriangularSelfAttention(1), ThirdOrderSelfAttention(1)):
        with pytest.raises(ValueError, match=r"queries has \[9\], needs positions below 9"):
            layer.init(jax.random.key(0), x, None, (0, 9))
    with pytest.raises(ValueError, match="leave out queries"):
        StrassenSelfAttention(1, causal=True).init(jax.random.key(0), x, None, (0, 1))
    with pytest.raises(ValueError, match="multiple of num_heads=4"):
        StrassenSelfAttention(4).init(jax.random.key(0), x)
    with pytest.raises(ValueError, match="attention='strasen' is not one of"):
        triple_self_attention("strasen", 1)
    with pytest.raises(ValueError, match=r"weight has shape \(7, 2\)"):
        projections_from_torch(np.zeros((7, 2)), 1)
