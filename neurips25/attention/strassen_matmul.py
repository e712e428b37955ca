"""Strassen's matrix product: seven half-size products instead of eight, so O(n^log₂7)."""

import jax
import jax.numpy as jnp


def strassen_matmul(a: jax.Array, b: jax.Array, leaf: int = 64) -> jax.Array:
    """a @ b by recursive halving with seven products (Strassen 1969).

    With t halvings until the longest side is at most ``leaf``, each side is padded with zeros to a
    multiple of 2^t and 7^t products are formed. It shows the exponent log₂ 7 ≈ 2.807 of
    theorem 4.1; at sizes that fit into memory ``jnp.matmul`` is the faster one.

    Args:
      a: [..., q, n].
      b: [..., n, m], leading axes that broadcast against those of ``a``.
      leaf: size from which on ``jnp.matmul`` is used.

    Returns:
      [..., q, m].

    Raises:
      ValueError: inner sides that differ, arrays that are no matrices, or ``leaf < 1``.

    Source: arXiv:2501.19215, theorem 4.1.

    >>> a = jnp.arange(6.0).reshape(2, 3)
    >>> strassen_matmul(a, a.T, leaf=1).tolist()
    [[5.0, 14.0], [14.0, 50.0]]
    """
    if leaf < 1:
        raise ValueError(f"leaf={leaf} must be at least 1")
    if a.ndim < 2 or b.ndim < 2 or a.shape[-1] != b.shape[-2]:
        raise ValueError(f"b has shape {b.shape}, needs [..., n, m] with the n of a, {a.shape}")
    halvings = 0
    while leaf * 2**halvings < max(*a.shape[-2:], b.shape[-1]):
        halvings += 1
    sides = [_padded(side, halvings) for side in (*a.shape[-2:], b.shape[-1])]
    product = _multiply(_pad(a, sides[:2]), _pad(b, sides[1:]), halvings)
    return product[..., : a.shape[-2], : b.shape[-1]]


def _padded(side: int, halvings: int) -> int:
    return -(-side // 2**halvings) * 2**halvings


def _pad(a: jax.Array, sides: list[int]) -> jax.Array:
    rows, columns = (side - have for side, have in zip(sides, a.shape[-2:]))
    return jnp.pad(a, [(0, 0)] * (a.ndim - 2) + [(0, rows), (0, columns)])


def _multiply(a: jax.Array, b: jax.Array, halvings: int) -> jax.Array:
    if not halvings:
        return jnp.matmul(a, b, precision=jax.lax.Precision.HIGHEST)
    (a11, a12), (a21, a22) = _quarters(a)
    (b11, b12), (b21, b22) = _quarters(b)

    def times(x: jax.Array, y: jax.Array) -> jax.Array:
        return _multiply(x, y, halvings - 1)

    p1 = times(a11 + a22, b11 + b22)
    p2 = times(a21 + a22, b11)
    p3 = times(a11, b12 - b22)
    p4 = times(a22, b21 - b11)
    p5 = times(a11 + a12, b22)
    p6 = times(a21 - a11, b11 + b12)
    p7 = times(a12 - a22, b21 + b22)
    top = jnp.concatenate([p1 + p4 - p5 + p7, p3 + p5], axis=-1)
    bottom = jnp.concatenate([p2 + p4, p1 - p2 + p3 + p6], axis=-1)
    return jnp.concatenate([top, bottom], axis=-2)


def _quarters(a: jax.Array) -> list[list[jax.Array]]:
    return [jnp.split(half, 2, axis=-1) for half in jnp.split(a, 2, axis=-2)]
