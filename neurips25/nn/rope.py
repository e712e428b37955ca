"""Rotary position embedding (RoPE): pairs of features turned by an angle that grows with time.

With row vectors, the pair (u, v) at position t becomes

    (u cos φ + v sin φ, −u sin φ + v cos φ),   φ = t θ_j,   θ_j = base^(−2j/D),

so that the inner product of a rotated query and a rotated key depends on their distance
only. Sign and pairing follow arXiv:2501.06425, appendix F.5, and the training
code released with it.
"""

import enum

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike, DTypeLike


class RopeStyle(enum.StrEnum):
    """Which features form a pair."""

    HALF = "half"  # j and j + D/2
    INTERLEAVED = "interleaved"  # 2j and 2j + 1


def rope_frequencies(dim: int, base: float = 1e4) -> np.ndarray:
    """θ_j = base^(−2j/dim) for j = 0..dim/2−1, in radians per position.

    Args:
      dim: number of rotated features; even.
      base: slowest wavelength divided by 2π, up to one step of the geometric series.

    Returns:
      [dim/2] float64 on the host.

    >>> rope_frequencies(4).tolist()
    [1.0, 0.01]
    """
    if dim < 2 or dim % 2:
        raise ValueError(f"dim={dim} must be even and at least 2: RoPE rotates pairs")
    return base ** (-np.arange(0, dim, 2) / dim)


def apply_rope(
    x: ArrayLike,
    positions: ArrayLike,
    base: float = 1e4,
    style: RopeStyle | str = RopeStyle.HALF,
    dtype: DTypeLike | None = None,
    fraction: float = 1.0,
    decay: float = 1.0,
) -> jax.Array:
    """Rotates the features of ``x`` by the angle of their position.

    Only the first ``2 ⌊D fraction / 2⌋`` features are rotated (with the frequencies of that
    many features); the rest pass through.

    Args:
      x: [..., T, n, D] floating; n heads or ranks share a position.
      positions: [T] or [..., T] positions, broadcast against the leading axes of ``x``.
      base: of the geometric series of frequencies.
      style: which features form a pair.
      dtype: rounds the cos/sin tables to this dtype first (the code released with
        arXiv:2501.06425 uses bfloat16); None keeps them exact.
      fraction: share of the features that is rotated, in (0, 1].
      decay: the rotated part is multiplied by ``decay ** (t θ_j)``.

    Returns:
      [..., T, n, D] of the dtype of ``x``; the arithmetic is at least float32.

    Raises:
      ValueError: ``positions`` does not fit ``x``, or nothing is left to rotate.

    Source: arXiv:2501.06425, theorem 3.1 and appendix F.5.

    >>> x = jnp.array([[[1.0, 0.0]], [[1.0, 0.0]]])  # T=2, n=1, D=2
    >>> apply_rope(x, jnp.arange(2))[1, 0].round(4).tolist()
    [0.5403..., -0.8414...]
    """
    x, positions = jnp.asarray(x), jnp.asarray(positions)
    style = RopeStyle(style)
    if x.ndim < 3:
        raise ValueError(f"x has shape {x.shape}, needs [..., T, n, D]")
    times = x.shape[:-2]
    fits = 0 < positions.ndim <= len(times) and all(
        p in (1, t) for p, t in zip(positions.shape[::-1], times[::-1])
    )
    if not fits:
        raise ValueError(
            f"positions has shape {positions.shape}, needs [T] or [..., T] to go with "
            f"x of shape {x.shape} (T={times[-1]})"
        )
    dim = 2 * int(x.shape[-1] * fraction / 2)
    if not 0.0 < fraction <= 1.0 or dim == 0:
        raise ValueError(f"fraction={fraction} of {x.shape[-1]} features leaves no pair to rotate")

    compute = jnp.promote_types(x.dtype, jnp.float32)
    angle = positions.astype(compute)[..., None] * rope_frequencies(dim, base).astype(compute)
    cos, sin = jnp.cos(angle), jnp.sin(angle)
    if dtype is not None:
        cos, sin = cos.astype(dtype).astype(compute), sin.astype(dtype).astype(compute)
    if decay != 1.0:
        shrink = jnp.power(decay, angle)
        cos, sin = cos * shrink, sin * shrink
    cos, sin = cos[..., None, :], sin[..., None, :]

    turned = x[..., :dim].astype(compute)
    if style is RopeStyle.HALF:
        # A roll swaps the halves; its gradient is a roll again, which on CPU is ten times as
        # fast as that of cutting and joining.
        partner = jnp.roll(turned, dim // 2, axis=-1)
        cos, sin = jnp.concatenate([cos, cos], -1), jnp.concatenate([sin, -sin], -1)
        turned = turned * cos + partner * sin
    else:
        u, v = turned[..., 0::2], turned[..., 1::2]
        turned = jnp.stack([u * cos + v * sin, v * cos - u * sin], axis=-1)
        turned = turned.reshape(*x.shape[:-1], dim)
    if dim == x.shape[-1]:
        return turned.astype(x.dtype)
    return jnp.concatenate([turned.astype(x.dtype), x[..., dim:]], axis=-1)
