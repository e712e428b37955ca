"""Uniform starts of weight arrays whose first axis is the input."""

import math
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike


def xavier_uniform_bound(fan_in: int, fan_out: int) -> float:
    """Bound of the Xavier (Glorot) uniform start, √(6 / (fan_in + fan_out)).

    >>> round(xavier_uniform_bound(768, 34 * 6), 4)
    0.0786
    """
    if fan_in < 1 or fan_out < 1:
        raise ValueError(f"fan_in={fan_in} and fan_out={fan_out} must be at least 1")
    return math.sqrt(6.0 / (fan_in + fan_out))


def uniform_init(bound: float) -> Callable[..., jax.Array]:
    """Initializer that draws from [−bound, bound)."""

    def init(key: jax.Array, shape: Sequence[int], dtype: DTypeLike = jnp.float32) -> jax.Array:
        return jax.random.uniform(key, shape, dtype, -bound, bound)

    return init


def fan_in_uniform(
    key: jax.Array, shape: Sequence[int], dtype: DTypeLike = jnp.float32
) -> jax.Array:
    """Uniform on ±1/√fan_in with fan_in = shape[0], the default of PyTorch's Linear.

    Args:
      key: typed random key.
      shape: [fan_in, ...]; all further axes are outputs.
      dtype: of the result.

    Returns:
      An array of ``shape``.
    """
    if len(shape) < 2:
        raise ValueError(f"shape={tuple(shape)} needs an input axis and at least one output axis")
    return uniform_init(1.0 / math.sqrt(shape[0]))(key, shape, dtype)
