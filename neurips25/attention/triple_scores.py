"""Scores of Strassen attention: three matrices whose sums are the n³ scores of triples.

    s_ijk = x_ij + y_jk + z_ki,   x = f gᵀ / √D,   y = g hᵀ / √D,   z = h fᵀ / √D

In float32 a score of 10⁴ is only known to 10⁻³, and a softmax needs it to 10⁻⁵. So large scores
are formed to about twice the precision, as high + low parts. The high parts of a head lie on one
grid, so coarse that float32 adds any three of them without rounding; the low parts hold the rest.
"""

import functools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

# Up to this size a float32 score is accurate enough as it is: weights to about 3e-6.
_PLAIN_LIMIT = 12.0
PRECISE = jax.lax.Precision.HIGHEST


class Scores(NamedTuple):
    """Scores of N heads; each is ``high + low``, or ``high`` alone where ``low`` is None.

    Attributes:
      x: [N, Q, n] of query i and token j.
      y: [N, n, n] of tokens j and k.
      z: [N, Q, n] of query i and token k.
    """

    x: jax.Array
    y: jax.Array
    z: jax.Array


class SplitScores(NamedTuple):
    """Scores as two summands, of which the low ones are small."""

    high: Scores
    low: Scores | None


def plain_scores(f: jax.Array, g: jax.Array, h: jax.Array) -> Scores:
    """The three matrices in the precision of the arguments.

    Args:
      f: [N, Q, D].
      g, h: [N, n, D].

    Returns:
      The scores, unmasked.
    """
    scale = 1.0 / math.sqrt(f.shape[-1])
    return Scores(*(_dot(a, b) * scale for a, b in ((f, g), (g, h), (f, h))))


def split_scores(f: jax.Array, g: jax.Array, h: jax.Array) -> SplitScores:
    """Scores in about twice the precision of float32.

    Each is good to about 10⁻¹¹ of max |a_c| · max |b_c| summed over the D features, both maxima
    over the tokens of a head: 10⁻⁶ or better where that is below 10⁵.

    Args:
      f: [N, Q, D].
      g, h: [N, n, D].

    Returns:
      The scores, unmasked; in float64 they are the plain ones.
    """
    if f.dtype == jnp.float64:
        return SplitScores(plain_scores(f, g, h), None)
    scores = plain_scores(f, g, h)
    # A score is a sum of terms that are at most this in all, so it is rounded by ulps of it.
    norms = [jnp.sqrt(_largest(jnp.sum(a * a, axis=-1), (0, 1))) for a in (f, g, h)]
    bound = jnp.max(jnp.stack([norms[0] * norms[1], norms[1] * norms[2], norms[2] * norms[0]]))

    def plain() -> SplitScores:
        return SplitScores(scores, jax.tree.map(jnp.zeros_like, scores))

    def precise() -> SplitScores:
        # Any sum of six high parts is below 2²⁴ grid steps.
        largest = [_largest(a, (1, 2)) for a in scores]
        grid = power_of_two_above(functools.reduce(jnp.maximum, largest)) * 2.0**-21
        parts = [_precise_dot(*_balanced(a, b), grid) for a, b in ((f, g), (g, h), (f, h))]
        return SplitScores(Scores(*(p[0] for p in parts)), Scores(*(p[1] for p in parts)))

    return jax.lax.cond(bound / math.sqrt(f.shape[-1]) <= _PLAIN_LIMIT, plain, precise)


def _balanced(a: jax.Array, b: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The same products a_c b_c, with both features of about one size, by powers of two."""
    exponents = [jnp.frexp(_largest(x, (1,)))[1] for x in (a, b)]
    shift = (exponents[1] - exponents[0]) // 2
    return jnp.ldexp(a, shift), jnp.ldexp(b, -shift)


def mask_scores(scores: Scores, valid: jax.Array, causal: bool) -> Scores:
    """−∞ where a token takes no part.

    Args:
      scores: to mask.
      valid: bool [N, n], True where j and k may be.
      causal: neither may come after the query.

    Returns:
      The masked scores.
    """
    seen = valid[:, None, :]
    if causal:
        length = valid.shape[-1]
        seen = seen & jnp.tril(jnp.ones((length, length), bool))
    both = valid[:, None, :] & valid[:, :, None]
    return Scores(
        jnp.where(seen, scores.x, -jnp.inf),
        jnp.where(both, scores.y, -jnp.inf),
        jnp.where(seen, scores.z, -jnp.inf),
    )


def _dot(a: jax.Array, b: jax.Array) -> jax.Array:
    return jnp.einsum("nid,njd->nij", a, b, precision=PRECISE)


def _largest(a: jax.Array, axes: tuple[int, ...]) -> jax.Array:
    """The largest finite size over some axes, which stay; 1 where there is none above 0."""
    sizes = jnp.abs(a)
    most = jnp.max(jnp.where(jnp.isfinite(sizes), sizes, 0.0), axis=axes, keepdims=True)
    return jnp.where(most > 0, most, 1.0)


def power_of_two_above(bound: jax.Array) -> jax.Array:
    """The least power of two above each positive number."""
    _, exponent = jnp.frexp(bound)
    return jnp.ldexp(jnp.ones_like(bound), exponent)


def _upper_half(a: jax.Array) -> jax.Array:
    """``a`` with the last 12 of its 24 bits cleared, so that products of two are exact."""
    bits = jax.lax.bitcast_convert_type(a, jnp.uint32)
    return jax.lax.bitcast_convert_type(bits & jnp.uint32(0xFFFFF000), jnp.float32)


def _scaled(a: jax.Array, scale: float) -> tuple[jax.Array, jax.Array]:
    """``a · scale`` as a rounded product and its error."""
    factor = np.float32(scale)
    rest = np.float32(scale - float(factor))
    product = a * factor
    a_high, f_high = _upper_half(a), _upper_half(jnp.asarray(factor))
    a_low, f_low = a - a_high, factor - f_high
    error = ((a_high * f_high - product) + a_high * f_low + a_low * f_high) + a_low * f_low
    return product, error + a * rest


def _slices(high: jax.Array, low: jax.Array, bits: int) -> list[jax.Array]:
    """``high + low`` as three summands; the first two are integers of ``bits`` bits on a grid."""
    step = power_of_two_above(_largest(high, (1, 2))) * 2.0**-bits
    first = jnp.round(high / step) * step
    rest = (high - first) + low
    second = jnp.round(rest / (step * 2.0**-bits)) * (step * 2.0**-bits)
    return [first, second, rest - second]


def _precise_dot(a: jax.Array, b: jax.Array, grid: jax.Array) -> tuple[jax.Array, jax.Array]:
    """a bᵀ / √D: its multiple of ``grid``, and what is left of it."""
    dim = a.shape[-1]
    # D products of two such slices add up to less than 2²⁴ steps, so their sum is exact.
    bits = (22 - math.ceil(math.log2(max(dim, 1)))) // 2
    a1, a2, a3 = _slices(*_scaled(a, 1.0 / math.sqrt(dim)), bits)
    b1, b2, b3 = _slices(b, jnp.zeros_like(b), bits)
    top = _dot(a1, b1)
    middle = _dot(a1, b2) + _dot(a2, b1)
    bottom = _dot(
        jnp.concatenate([a1, a2, a3], axis=-1), jnp.concatenate([b3, b2 + b3, b], axis=-1)
    )
    high = jnp.round((top + middle) / grid) * grid
    return high, ((top - high) + middle) + bottom
