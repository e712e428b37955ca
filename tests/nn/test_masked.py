import jax
import jax.numpy as jnp
import numpy as np
import pytest

from neurips25.nn import masked_mean


def test_mean_and_count_of_what_is_valid():
    values = np.random.default_rng(0).normal(2, 1, size=(3, 4)).astype(np.float32)
    valid = np.arange(12).reshape(3, 4) % 3 > 0
    mean, count = masked_mean(jnp.asarray(values), jnp.asarray(valid))
    np.testing.assert_allclose(mean, values[valid].mean(), rtol=1e-6)
    assert (float(count), count.dtype) == (8, jnp.float32)


def test_what_does_not_count_has_neither_value_nor_gradient():
    values, valid = jnp.array([2.0, jnp.nan, jnp.inf, 4.0]), jnp.array([True, False, False, True])
    mean, grad = jax.value_and_grad(lambda v: masked_mean(v, valid)[0])(values)
    assert float(mean) == 3
    assert grad.tolist() == [0.5, 0, 0, 0.5]


def test_nothing_valid_gives_zero():
    assert [float(x) for x in masked_mean(jnp.ones(3), jnp.zeros(3, bool))] == [0, 0]


def test_sums_are_kept_in_float32_at_least(x64):
    values = jnp.array([1, 1 + 2**-7], jnp.bfloat16)  # neighbours: their mean is no bfloat16
    mean, _ = masked_mean(values, jnp.ones(2, bool))
    assert (float(mean), mean.dtype) == (1 + 2**-8, jnp.float32)
    assert masked_mean(jnp.ones(3, jnp.float64), jnp.ones(3, bool))[0].dtype == jnp.float64


@pytest.mark.parametrize("valid", [jnp.ones((3, 1), bool), jnp.ones(3, bool), jnp.ones((3, 4))])
def test_other_masks_are_refused(valid):
    with pytest.raises(ValueError, match=rf"valid is {valid.dtype} .*needs bool \(3, 4\)"):
        masked_mean(jnp.ones((3, 4)), valid)
