"""RMSNorm, with and without a learned scale."""

import jax
import jax.numpy as jnp
from flax import linen
from jax.typing import ArrayLike


def rms_norm(x: ArrayLike, scale: ArrayLike | None = None, eps: float | None = None) -> jax.Array:
    """x / √(mean(x²) + eps) over the last axis, times ``scale``.

    Args:
      x: [..., D] floating.
      scale: [D], or None for no learned scale.
      eps: added to the mean square; None takes the machine epsilon of the compute dtype.

    Returns:
      [..., D] of the dtype of ``x``; computed in float32, or float64 for float64 input.

    Raises:
      ValueError: ``scale`` is not [D].

    >>> print(rms_norm(jnp.array([3.0, 4.0])))
    [0.848... 1.131...]
    """
    x = jnp.asarray(x)
    compute = jnp.promote_types(x.dtype, jnp.float32)
    if eps is None:
        eps = float(jnp.finfo(compute).eps)
    y = x.astype(compute)
    y = y * jax.lax.rsqrt(jnp.mean(jnp.square(y), axis=-1, keepdims=True) + eps)
    if scale is not None:
        scale = jnp.asarray(scale)
        if scale.shape != x.shape[-1:]:
            raise ValueError(f"scale has shape {scale.shape}, needs {x.shape[-1:]}")
        y = y * scale.astype(compute)
    return y.astype(x.dtype)


class RMSNorm(linen.Module):
    """:func:`rms_norm` with its scale (parameter ``scale`` [D], ones at the start)."""

    use_scale: bool = True
    eps: float | None = None

    @linen.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        scale = None
        if self.use_scale:
            scale = self.param("scale", linen.initializers.ones, x.shape[-1:], jnp.float32)
        return rms_norm(x, scale, self.eps)
