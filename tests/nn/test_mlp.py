"""SwiGLU against its formula; its start."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from neurips25.nn import SwiGLU, swiglu
from tests.nn.uniform import assert_fills


def test_formula(x64):
    keys = jax.random.split(jax.random.key(0), 4)
    x, w1, w2, w3 = (
        np.asarray(jax.random.normal(k, s, jnp.float64))
        for k, s in zip(keys, [(2, 3, 4), (4, 6), (4, 6), (6, 5)], strict=True)
    )
    gate = x @ w1
    expected = (gate / (1 + np.exp(-gate)) * (x @ w2)) @ w3
    np.testing.assert_allclose(swiglu(x, w1, w2, w3), expected, atol=1e-13)


def test_module_starts_as_zero_with_bounded_weights():
    x = jax.random.normal(jax.random.key(0), (2, 16))
    module = SwiGLU(hidden=1500)
    params = module.init(jax.random.key(1), x)["params"]
    assert {k: v.shape for k, v in params.items()} == {
        "w1": (16, 1500),
        "w2": (16, 1500),
        "w3": (1500, 16),
    }
    np.testing.assert_array_equal(module.apply({"params": params}, x), jnp.zeros((2, 16)))
    for name in ("w1", "w2"):
        assert_fills(params[name], 0.25)


def test_module_computes_in_its_dtype():
    x = jnp.ones((2, 16))
    module = SwiGLU(hidden=4, dtype=jnp.bfloat16)
    params = module.init(jax.random.key(1), x)
    assert params["params"]["w1"].dtype == jnp.float32
    assert module.apply(params, x).dtype == jnp.bfloat16


@pytest.mark.parametrize(
    ("shapes", "name"),
    [
        (((2, 4), (5, 6), (4, 6), (6, 4)), "w1"),
        (((2, 4), (4, 6), (4, 5), (6, 4)), "w2"),
        (((2, 4), (4, 6), (4, 6), (5, 4)), "w3"),
    ],
)
def test_wrong_shapes_are_named(shapes, name):
    with pytest.raises(ValueError, match=f"{name} has shape"):
        swiglu(*(jnp.zeros(s) for s in shapes))
