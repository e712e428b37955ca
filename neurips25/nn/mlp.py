"""SwiGLU, the gated feed-forward layer."""

import jax
import jax.numpy as jnp
from flax import linen
from jax.typing import ArrayLike, DTypeLike

from neurips25.nn.initializers import fan_in_uniform


def swiglu(x: ArrayLike, w1: ArrayLike, w2: ArrayLike, w3: ArrayLike) -> jax.Array:
    """(SiLU(x W1) ⊙ (x W2)) W3.

    Args:
      x: [..., d].
      w1: [d, hidden], of the gate.
      w2: [d, hidden].
      w3: [hidden, d_out].

    Returns:
      [..., d_out].

    Raises:
      ValueError: the shapes do not chain.

    Source: arXiv:2002.05202.
    """
    x, w1, w2, w3 = jnp.asarray(x), jnp.asarray(w1), jnp.asarray(w2), jnp.asarray(w3)
    if w1.ndim != 2 or w1.shape[0] != x.shape[-1]:
        raise ValueError(f"w1 has shape {w1.shape}, needs [{x.shape[-1]}, hidden]")
    if w2.shape != w1.shape:
        raise ValueError(f"w2 has shape {w2.shape}, needs that of w1, {w1.shape}")
    if w3.ndim != 2 or w3.shape[0] != w1.shape[1]:
        raise ValueError(f"w3 has shape {w3.shape}, needs [{w1.shape[1]}, d_out]")
    # With one leading axis the gradients of the weights are plain matrix products, which on
    # CPU are twice as fast as contractions over two axes.
    rows = x.reshape(-1, x.shape[-1])
    # The gate is recomputed in the backward pass: cheaper than to store its parts.
    gated = jax.checkpoint(lambda a, b: jax.nn.silu(a) * b)(rows @ w1, rows @ w2)
    out = gated @ w3
    return out.reshape(*x.shape[:-1], w3.shape[1])


class SwiGLU(linen.Module):
    """:func:`swiglu` back to the input width, without bias.

    Parameters ``w1``, ``w2`` [d, hidden] start uniform on ±1/√d, ``w3`` [hidden, d] at zero, so
    a residual block starts as the identity.
    """

    hidden: int
    dtype: DTypeLike = jnp.float32

    @linen.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        width = x.shape[-1]
        w1 = self.param("w1", fan_in_uniform, (width, self.hidden), jnp.float32)
        w2 = self.param("w2", fan_in_uniform, (width, self.hidden), jnp.float32)
        w3 = self.param("w3", linen.initializers.zeros, (self.hidden, width), jnp.float32)
        x, w1, w2, w3 = (a.astype(self.dtype) for a in (x, w1, w2, w3))
        return swiglu(x, w1, w2, w3)
