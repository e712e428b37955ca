"""Bounds of the uniform starts."""

import jax
import numpy as np
import pytest

from neurips25.nn import fan_in_uniform, uniform_init, xavier_uniform_bound
from tests.nn.uniform import assert_fills


def test_xavier_bounds_of_the_small_model():
    # d=768, h=34, d_h=64, R_Q=6, merged matrices.
    assert xavier_uniform_bound(768, 6 * 34) == pytest.approx(0.0786, abs=5e-5)
    assert xavier_uniform_bound(768, 6 * 64) == pytest.approx(0.0722, abs=5e-5)


def test_uniform_fills_its_range():
    w = np.asarray(uniform_init(0.3)(jax.random.key(0), (50, 400)))
    assert_fills(w, 0.3)
    assert abs(w.mean()) < 4 * 0.3 / np.sqrt(3 * w.size)


def test_fan_in_is_the_first_axis():
    assert_fills(fan_in_uniform(jax.random.key(0), (25, 40, 20)), 0.2)


def test_bad_arguments():
    with pytest.raises(ValueError, match="fan_in=0"):
        xavier_uniform_bound(0, 4)
    with pytest.raises(ValueError, match=r"shape=\(4,\)"):
        fan_in_uniform(jax.random.key(0), (4,))
