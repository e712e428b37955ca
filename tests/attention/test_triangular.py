"""Triangular attention: the definition, grids of several sizes, permutations, bad input."""

import jax.numpy as jnp
import numpy as np
import pytest

from neurips25.attention import triangular_attention


def random_grid(m=4, batch=2, heads=2, dim=3):
    rng = np.random.default_rng(0)
    return tuple(rng.normal(size=(batch, m, m, heads, dim)) for _ in range(4))


def definition(q, k, v1, v2):
    out = np.zeros(v1.shape)
    for b, i, j, h in np.ndindex(*q.shape[:3], q.shape[3]):
        scores = (q[b, i, :, h] * k[b, :, j, h]).sum(-1) / np.sqrt(q.shape[-1])
        weights = np.exp(scores - scores.max())
        out[b, i, j, h] = weights @ (v1[b, i, :, h] * v2[b, :, j, h]) / weights.sum()
    return out


def test_definition(x64):
    arrays = random_grid()
    np.testing.assert_allclose(
        triangular_attention(*arrays), definition(*arrays), rtol=0, atol=1e-12
    )


def test_smaller_grid_inside_a_padded_one(x64):
    arrays = random_grid()
    mask = np.zeros((2, 4, 4), bool)
    mask[0], mask[1, :3, :3] = True, True
    out = triangular_attention(*arrays, mask)
    np.testing.assert_allclose(out[0], definition(*arrays)[0], rtol=0, atol=1e-12)
    inner = definition(*(a[1:, :3, :3] for a in arrays))
    np.testing.assert_allclose(out[1:, :3, :3], inner, rtol=0, atol=1e-12)
    assert (np.asarray(triangular_attention(*arrays, np.zeros_like(mask))) == 0).all()


def test_rows_and_columns_permuted_together(x64):
    arrays = random_grid()
    order = np.array([2, 0, 3, 1])
    moved = triangular_attention(*(a[:, order][:, :, order] for a in arrays))
    want = np.asarray(triangular_attention(*arrays))[:, order][:, :, order]
    np.testing.assert_allclose(moved, want, rtol=0, atol=1e-12)


def test_bad_arguments():
    q, k, v1, v2 = (jnp.asarray(a) for a in random_grid())
    with pytest.raises(ValueError, match=r"needs \[B, m, m, H, D\]"):
        triangular_attention(q[:, :3], k, v1, v2)
    with pytest.raises(ValueError, match="v2 has shape"):
        triangular_attention(q, k, v1, v2[..., :2])
    with pytest.raises(ValueError, match="mask has shape"):
        triangular_attention(q, k, v1, v2, jnp.ones((2, 16), bool))
