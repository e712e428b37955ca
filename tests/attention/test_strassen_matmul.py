"""Strassen's product: its numbers, how many products it takes, bad input."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from neurips25.attention import strassen_matmul


@pytest.mark.parametrize("shapes", [((8, 8), (8, 8)), ((2, 5, 9), (9, 7)), ((1, 17), (17, 1))])
def test_it_is_the_product(x64, shapes):
    rng = np.random.default_rng(0)
    a, b = (rng.normal(size=s) for s in shapes)
    np.testing.assert_allclose(strassen_matmul(a, b, leaf=2), a @ b, rtol=0, atol=1e-10)


@pytest.mark.parametrize(("n", "leaf", "halvings"), [(8, 8, 0), (8, 4, 1), (8, 2, 2), (9, 2, 3)])
def test_seven_products_per_halving(n, leaf, halvings):
    a = jnp.ones((n, n))
    jaxpr = str(jax.make_jaxpr(lambda a: strassen_matmul(a, a, leaf))(a))
    assert jaxpr.count("dot_general") == 7**halvings


def test_bad_arguments():
    with pytest.raises(ValueError, match=r"b has shape \(4, 3\)"):
        strassen_matmul(jnp.ones((3, 3)), jnp.ones((4, 3)))
    with pytest.raises(ValueError, match="leaf=0"):
        strassen_matmul(jnp.ones((3, 3)), jnp.ones((3, 3)), leaf=0)
