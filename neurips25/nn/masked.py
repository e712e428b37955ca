"""Means over what counts, where arrays are padded to one shape."""

import jax
import jax.numpy as jnp


def masked_mean(values: jax.Array, valid: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Mean of the values that count, and how many they are: Σ valid·values / max(Σ valid, 1).

    The mean over several batches is Σ mean·count / Σ count, not the mean of their means.

    Args:
      values: [...] floating, or integer.
      valid: bool [...] of the same shape, True where a value counts. What stands elsewhere may
        be anything, NaN included.

    Returns:
      The mean, a scalar computed in float32 (float64 for float64 values), 0 where nothing
      counts; and the count, a float32 scalar.

    Raises:
      ValueError: ``valid`` has another shape or is not bool.

    >>> mean, count = masked_mean(jnp.array([1.0, 3.0, jnp.nan]), jnp.array([True, True, False]))
    >>> float(mean), float(count)
    (2.0, 2.0)
    """
    if valid.shape != values.shape or valid.dtype != jnp.bool_:
        raise ValueError(
            f"valid is {valid.dtype} of shape {valid.shape}, needs bool {values.shape} as values"
        )
    values = values.astype(jnp.promote_types(values.dtype, jnp.float32))
    count = valid.sum().astype(jnp.float32)
    return jnp.where(valid, values, 0).sum() / jnp.maximum(count, 1), count
