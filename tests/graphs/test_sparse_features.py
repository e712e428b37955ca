"""Features by their entries: the product and its gradient, dropout, bad input."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen

from neurips25.graphs import sparse_features
from neurips25.graphs.sparse_features import FeatureDense, drop_features, feature_product


def bag_of_words():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(7, 5)) * (rng.random((7, 5)) < 0.4)
    x[3] = 0  # a node without any word
    return x


def test_product_and_gradient(x64):
    x, w = bag_of_words(), jnp.asarray(np.random.default_rng(1).normal(size=(5, 3)))
    words = sparse_features(x)
    assert words.shape == (7, 5)
    assert len(words.values) == np.count_nonzero(x)

    def loss(w, x):
        return jnp.sum(jnp.sin(feature_product(x, w)))

    np.testing.assert_allclose(feature_product(words, w), x @ w, rtol=0, atol=1e-14)
    sparse, dense = (jax.jit(jax.grad(loss))(w, a) for a in (words, jnp.asarray(x)))
    np.testing.assert_allclose(sparse, dense, rtol=0, atol=1e-14)


def test_layer_has_the_parameters_of_a_dense_one():
    x = bag_of_words().astype(np.float32)
    layer = FeatureDense(3)
    variables = layer.init(jax.random.key(0), jnp.asarray(x))
    assert jax.tree.map(jnp.shape, variables["params"]) == {"kernel": (5, 3), "bias": (3,)}
    again = layer.init(jax.random.key(0), sparse_features(x))
    jax.tree.map(np.testing.assert_array_equal, variables, again)
    dense, sparse = (layer.apply(variables, a) for a in (jnp.asarray(x), sparse_features(x)))
    np.testing.assert_allclose(dense, sparse, atol=1e-6)


def test_dropout_keeps_the_mean_of_every_entry():
    words = sparse_features(np.ones((40, 50)))

    class Drop(linen.Module):
        @linen.compact
        def __call__(self, x):
            return drop_features(x, 0.25, deterministic=False)

    dropped = Drop().apply({}, words, rngs={"dropout": jax.random.key(0)})
    assert dropped.shape == words.shape
    assert set(np.unique(dropped.values).round(6)) == {0, np.float32(4 / 3).round(6)}
    np.testing.assert_allclose(dropped.values.mean(), 1, atol=0.05)


def test_bad_arguments():
    with pytest.raises(ValueError, match=r"x has shape \(5,\), needs \[n, f\]"):
        sparse_features(np.ones(5))
