"""Third-order factors against the reference arrays and their rotation theorem."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from neurips25.attention import rope_third_order, third_order_assemble


def test_golden_slices(x64, golden):
    g = golden("tpa/third_order.npz")
    a, b, c = (jnp.asarray(g[name]) for name in "abc")
    np.testing.assert_allclose(third_order_assemble(a, b, c), g["Q"], atol=1e-12, rtol=0)
    rotated = third_order_assemble(a, rope_third_order(b, jnp.arange(b.shape[1])), c)
    np.testing.assert_allclose(rotated, g["Q_rope"], atol=1e-12, rtol=0)
    assert np.abs(g["Q_rope"] - g["Q"]).max() > 1e-2


def test_rotation_is_right_multiplication_by_the_block_diagonal(x64):
    time, dim_b, dim_c = 5, 6, 3
    keys = jax.random.split(jax.random.key(0), 3)
    a, b, c = (jax.random.normal(k, (time, 2, n)) for k, n in zip(keys, (4, dim_b, dim_c)))
    slices = np.asarray(third_order_assemble(a, b, c))
    rotated = third_order_assemble(a, rope_third_order(b, jnp.arange(time)), c)
    for t in range(time):
        r_t = np.zeros((dim_b, dim_b))
        for j in range(dim_b // 2):
            phi = t * 10000 ** (-2 * j / dim_b)
            r_t[2 * j : 2 * j + 2, 2 * j : 2 * j + 2] = [
                [np.cos(phi), -np.sin(phi)],
                [np.sin(phi), np.cos(phi)],
            ]
        expected = slices[t] @ np.kron(np.eye(dim_c), r_t.T)
        np.testing.assert_allclose(rotated[t], expected, atol=1e-12)


def test_products_depend_on_the_distance_only(x64):
    b = jnp.broadcast_to(jax.random.normal(jax.random.key(0), (1, 1, 8)), (6, 1, 8))
    turned = rope_third_order(b, jnp.arange(6))[:, 0]
    dots = np.asarray(turned @ turned.T)
    for distance in range(6):
        diagonal = np.diagonal(dots, distance)
        np.testing.assert_allclose(diagonal, diagonal[0], atol=1e-12)


def test_decay_shrinks_with_position(x64):
    b = jax.random.normal(jax.random.key(0), (4, 1, 2))
    norms = jnp.linalg.norm(rope_third_order(b, jnp.arange(4), decay=0.9), axis=-1)[:, 0]
    expected = jnp.linalg.norm(b, axis=-1)[:, 0] * 0.9 ** jnp.arange(4)
    np.testing.assert_allclose(norms, expected, atol=1e-12)


def test_bad_shapes_are_named():
    with pytest.raises(ValueError, match=r"c has shape \(3, 2\), needs \(2, 'd_c'\)"):
        third_order_assemble(jnp.ones((2, 5)), jnp.ones((2, 4)), jnp.ones((3, 2)))
    with pytest.raises(ValueError, match="b has shape"):
        third_order_assemble(jnp.ones((1, 5)), jnp.ones((2, 4)), jnp.ones((2, 2)))
