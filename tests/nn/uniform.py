"""What a uniform start must look like."""

import numpy as np


def assert_fills(weights, bound):
    """Both ends lie within 1 % of ±``bound``, and none beyond it."""
    weights = np.asarray(weights)
    assert weights.size >= 10_000  # few draws need not come near the ends
    bound = np.float32(bound)
    assert -bound <= weights.min() < -0.99 * bound
    assert 0.99 * bound < weights.max() <= bound
