"""RMSNorm against its formula, and in half precision."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from neurips25.nn import RMSNorm, rms_norm


def test_formula(x64):
    x = np.asarray(jax.random.normal(jax.random.key(0), (3, 7), jnp.float64))
    scale = np.linspace(-1, 2, 7)
    expected = scale * x / np.sqrt(np.mean(x**2, -1, keepdims=True) + 0.1)
    np.testing.assert_allclose(rms_norm(x, scale, 0.1), expected, atol=1e-14)


def test_default_eps_is_the_machine_epsilon(x64):
    for dtype, eps in ((jnp.float32, 2.0**-23), (jnp.float64, 2.0**-52), (jnp.bfloat16, 2.0**-23)):
        x = jnp.full((4,), 1e-4, dtype)
        expected = 1e-4 / np.sqrt(1e-8 + eps)
        np.testing.assert_allclose(rms_norm(x).astype(jnp.float64), expected, rtol=5e-3)


def test_half_precision_neither_overflows_nor_vanishes():
    y = rms_norm(jnp.array([3e4, -3e4, 3e4, 3e4], jnp.float16))
    assert y.dtype == jnp.float16
    np.testing.assert_allclose(y, [1, -1, 1, 1], rtol=1e-3)


def test_module_scale():
    x = jax.random.normal(jax.random.key(0), (2, 5))
    params = RMSNorm(eps=1e-6).init(jax.random.key(1), x)
    assert params["params"]["scale"].shape == (5,)
    np.testing.assert_array_equal(RMSNorm(eps=1e-6).apply(params, x), rms_norm(x, None, 1e-6))
    assert not RMSNorm(use_scale=False).init(jax.random.key(1), x)


def test_wrong_scale_is_named():
    with pytest.raises(ValueError, match=r"scale has shape \(4,\), needs \(5,\)"):
        rms_norm(jnp.ones((2, 5)), jnp.ones(4))
