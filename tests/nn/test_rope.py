"""RoPE: rotation, pairing, relative positions, and its options."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from neurips25.nn import RopeStyle, apply_rope, rope_frequencies


def rotation_matrix(t, dim, style, base=1e4):
    """T_t of the paper, written out pair by pair; rows are multiplied from the left."""
    matrix = np.zeros((dim, dim))
    for j in range(dim // 2):
        u, v = (j, j + dim // 2) if style == "half" else (2 * j, 2 * j + 1)
        phi = t * base ** (-2 * j / dim)
        matrix[u, u] = matrix[v, v] = np.cos(phi)
        matrix[v, u], matrix[u, v] = np.sin(phi), -np.sin(phi)
    return matrix


@pytest.fixture
def x(x64):
    return jax.random.normal(jax.random.key(0), (2, 5, 3, 8), jnp.float64)


@pytest.mark.parametrize("style", ["half", "interleaved"])
def test_equals_the_rotation_matrix(x, style):
    y = apply_rope(x, jnp.arange(5), style=style)
    expected = np.stack(
        [np.asarray(x)[:, t] @ rotation_matrix(t, 8, style) for t in range(5)], axis=1
    )
    np.testing.assert_allclose(y, expected, atol=1e-14)


@pytest.mark.parametrize("style", list(RopeStyle))
def test_inner_products_depend_on_the_distance_only(x, style):
    def products(shift):
        y = apply_rope(x, jnp.arange(5) + shift, style=style)
        return jnp.einsum("btnd,bsnd->bnts", y, y)

    np.testing.assert_allclose(products(0), products(37), atol=1e-12)


def test_positions_per_sequence(x):
    positions = jnp.array([[0, 1, 2, 3, 4], [7, 8, 9, 10, 11]])
    y = apply_rope(x, positions)
    for b in range(2):
        np.testing.assert_allclose(y[b], apply_rope(x[b], positions[b]), atol=1e-15)


def test_assembled_keys_rotate_as_their_factors(x):
    # Theorem 3.1: RoPE acts on the features, so it commutes with the mixing of ranks.
    a = jax.random.normal(jax.random.key(1), (2, 5, 3, 4), jnp.float64)
    mix = lambda b: jnp.einsum("btrh,btrd->bthd", a, b)
    np.testing.assert_allclose(
        mix(apply_rope(x, jnp.arange(5))), apply_rope(mix(x), jnp.arange(5)), atol=1e-13
    )


def test_fraction_leaves_the_rest_alone(x):
    y = apply_rope(x, jnp.arange(5), fraction=0.7)  # 2 * floor(5.6 / 2) = 4 features
    np.testing.assert_array_equal(y[..., 4:], x[..., 4:])
    np.testing.assert_allclose(y[..., :4], apply_rope(x[..., :4], jnp.arange(5)), atol=1e-15)


def test_decay_shrinks_each_pair(x):
    plain, shrunk = (apply_rope(x, jnp.arange(5), decay=d) for d in (1.0, 0.9))
    factor = 0.9 ** (np.arange(5)[:, None] * rope_frequencies(8))
    factor = np.concatenate([factor, factor], axis=-1)[None, :, None]
    np.testing.assert_allclose(shrunk, plain * factor, atol=1e-14)


def test_table_dtype_rounds_the_tables(x):
    exact, rounded = (apply_rope(x, jnp.arange(5), dtype=d) for d in (None, jnp.bfloat16))
    assert rounded.dtype == exact.dtype
    error = np.abs(exact - rounded).max()
    assert 1e-4 < error < 2e-2
    np.testing.assert_array_equal(rounded[:, 0], x[:, 0])


def test_half_precision_rotates_in_float32():
    x = jax.random.normal(jax.random.key(0), (1, 3000, 1, 8)).astype(jnp.bfloat16)
    y = apply_rope(x, jnp.arange(3000))
    assert y.dtype == jnp.bfloat16
    exact = apply_rope(x.astype(jnp.float32), jnp.arange(3000))
    np.testing.assert_array_equal(y, exact.astype(jnp.bfloat16))


def test_bad_arguments_are_named():
    x = jnp.zeros((2, 5, 3, 8))
    with pytest.raises(ValueError, match=r"positions has shape \(4,\)"):
        apply_rope(x, jnp.arange(4))
    with pytest.raises(ValueError, match="x has shape"):
        apply_rope(jnp.zeros((5, 8)), jnp.arange(5))
    with pytest.raises(ValueError, match="fraction"):
        apply_rope(x, jnp.arange(5), fraction=0.1)
    with pytest.raises(ValueError, match="dim=3"):
        rope_frequencies(3)
    with pytest.raises(ValueError, match="quarter"):
        apply_rope(x, jnp.arange(5), style="quarter")
