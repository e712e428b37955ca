"""Strassen attention that is as fast as its matrix products and never underflows.

The product form of theorem 4.1 (arXiv:2501.19215) shifts the three factors by maxima of their
own. If no pair (j, k) comes near all three maxima at once, every product of three exponentials
underflows and the answer is lost; its denominator tells so, at the cost of one product of the
E + 1. Where a denominator is too small the sums are formed per query instead:

    w_jk = e^{x_ij + y_jk + z_ki − max},   a_i = Σ_k (Σ_j w_jk v¹_j) ⊙ v²_k / Σ_jk w_jk

which takes n³ exponentials, a few queries at a time, so that they stay in cache and the inner
sum is one matrix product. The gradient goes the way that its forward pass went.
"""

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp

from neurips25.attention.triple_scores import (
    PRECISE,
    Scores,
    SplitScores,
    mask_scores,
    power_of_two_above,
    split_scores,
)
from neurips25.nn.partition import is_partitioned

# Numbers that are worked on at a time. On CPU, to stay in a core's cache: exponentials of triples,
# and rows of a product. Elsewhere, to keep all cores busy in bounded memory.
_BLOCK = 2**17
_PRODUCT_BLOCK = 2**15
_PARALLEL_BLOCK = 2**26

Residuals = tuple[jax.Array, ...]


def divide(num: jax.Array, den: jax.Array, eps: float = 0.0) -> jax.Array:
    """num / (den + eps), and 0 where ``den`` is 0; ``den`` broadcasts over the last axis."""
    safe = jnp.where(den > 0, den, 1.0)
    return jnp.where((den > 0)[..., None], num / (safe + eps)[..., None], 0.0)


def product_factors(scores: SplitScores) -> Scores:
    """e^x, e^y and e^z, each divided by a maximum of its own that cancels in the ratio.

    Returns:
      The factors, each at most 1: x and z by query, y by head.
    """
    axes: tuple[tuple[int, ...], ...] = ((-1,), (-2, -1), (-1,))  # of x, y, z

    def below_maximum(a: jax.Array, axis: tuple[int, ...]) -> jax.Array:
        return a - _finite(jnp.max(a, axis=axis, keepdims=True))

    exponents = [below_maximum(a, axis) for a, axis in zip(scores.high, axes)]
    if scores.low is not None:
        exponents = [below_maximum(e + a, axis) for e, a, axis in zip(exponents, scores.low, axes)]
    return Scores(*(jnp.exp(e) for e in exponents))


def product_denominators(factors: Scores, matmul: Any = None) -> jax.Array:
    """(X Y Z)_ii of every query, [N, Q]."""
    multiply = matmul or precise_matmul
    return jnp.sum(multiply(factors.x, factors.y) * factors.z, axis=-1)


def product_numerators(
    factors: Scores, v1: jax.Array, v2: jax.Array, matmul: Any = None
) -> jax.Array:
    """(X Ŷ Z)_ii of every query and channel, [N, Q, E].

    A few queries at a time, each with its E channels as rows of one product with Y; with a
    ``matmul`` of the caller's, all of them.
    """
    multiply = matmul or precise_matmul
    queries, length = factors.x.shape[1:]
    width = v1.shape[-1]
    # Values near 1, so that their products with small factors do not underflow.
    (v1, size1), (v2, size2) = _near_one(v1), _near_one(v2)

    def head(
        chunk: int, x: jax.Array, y: jax.Array, z: jax.Array, v1: jax.Array, v2: jax.Array
    ) -> jax.Array:
        def block(rows: tuple[jax.Array, jax.Array]) -> jax.Array:
            x, z = rows
            left = (x[:, None, :] * v1.T).reshape(-1, length)
            product = multiply(left, y).reshape(-1, width, length)
            return jnp.einsum("qek,qk,ke->qe", product, z, v2, precision=PRECISE)

        return _by_chunks(block, (x, z), queries if matmul else chunk)

    num = _over_heads(head, (*factors, v1, v2), queries, width * length, _PRODUCT_BLOCK)
    return num * size1 * size2


def _near_one(v: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Values [N, n, E] over a power of two per channel, and these, [N, 1, E]."""
    size = jnp.max(jnp.abs(v), axis=1, keepdims=True)
    size = jax.lax.stop_gradient(power_of_two_above(jnp.where(size > 0, size, 1.0)))
    return v / size, size


def precise_matmul(a: jax.Array, b: jax.Array) -> jax.Array:
    """a @ b without shortened mantissas on any platform."""
    return jnp.matmul(a, b, precision=PRECISE)


def streamed_triples(
    scores: SplitScores, v1: jax.Array, v2: jax.Array, chunk: int | None = None
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """The attention from all triples of a few queries at a time.

    Args:
      scores: masked scores of N heads.
      v1, v2: [N, n, E].
      chunk: queries at a time; None is as many as fit into cache.

    Returns:
      [N, Q, E]; for each query the shift of its scores [N, Q, 2], in two parts, and the sum of
      their exponentials [N, Q].
    """

    def head(few: int, scores: SplitScores, v1: jax.Array, v2: jax.Array) -> tuple[jax.Array, ...]:
        scores = _second_first(scores)

        def block(rows: Any) -> tuple[jax.Array, ...]:
            coarse = _finite(jnp.max(_sum_of_three(rows[0], scores.high.y), axis=(1, 2)))
            exponents = _exponents(rows, scores, coarse)
            fine = jnp.zeros_like(coarse)
            if scores.low is not None:
                fine = _finite(jnp.max(exponents, axis=(1, 2)))
            w = jnp.exp(exponents - fine[:, None, None])
            shift = jnp.stack([coarse, fine], axis=-1)
            inner = _inner_sums(w, v1)
            den = jnp.sum(w, axis=(1, 2))
            return divide(jnp.sum(inner * v2, axis=1), den), shift, den

        return _by_chunks(jax.checkpoint(block), _query_rows(scores), chunk or few)

    return _over_heads(head, (scores, v1, v2), scores.high.x.shape[1], v1.shape[1] ** 2, _BLOCK)


@functools.partial(jax.custom_vjp, nondiff_argnums=(6,))
def stable_triples(
    f: jax.Array,
    g: jax.Array,
    h: jax.Array,
    v1: jax.Array,
    v2: jax.Array,
    valid: jax.Array,
    causal: bool,
) -> jax.Array:
    """Strassen attention of N heads by products where they are exact, else by streaming.

    Args:
      f: [N, Q, D].
      g, h: [N, n, D].
      v1, v2: [N, n, E].
      valid: bool [N, n], True where j and k may be.
      causal: neither may come after the query.

    Returns:
      [N, Q, E].
    """
    return _forward(f, g, h, v1, v2, valid, causal)[0]


def _forward(
    f: jax.Array,
    g: jax.Array,
    h: jax.Array,
    v1: jax.Array,
    v2: jax.Array,
    valid: jax.Array,
    causal: bool,
) -> tuple[jax.Array, Residuals]:
    scores = _masked_scores(f, g, h, valid, causal)
    factors = product_factors(scores)
    den = product_denominators(factors)
    # What underflows is below n² · tiny, hence below n² · ulp² of these denominators. A query
    # that sees no token has none and needs none.
    limits = jnp.finfo(den.dtype)
    blind = ~jnp.any(jnp.isfinite(scores.high.x), axis=-1)
    exact = jnp.all((den >= limits.tiny / limits.eps**2) | blind)

    def products() -> tuple[jax.Array, jax.Array, jax.Array]:
        no_shift = jnp.zeros((*den.shape, 2), den.dtype)
        return divide(product_numerators(factors, v1, v2), den), no_shift, den

    def stream() -> tuple[jax.Array, jax.Array, jax.Array]:
        return streamed_triples(scores, v1, v2)

    out, shift, den = jax.lax.cond(exact, products, stream)
    return out, (f, g, h, v1, v2, valid, exact, shift, den)


def _backward(causal: bool, saved: Residuals, cotangent: jax.Array) -> tuple[Any, ...]:
    f, g, h, v1, v2, valid, exact, shift, den = saved
    scores = _masked_scores(f, g, h, valid, causal)
    u = divide(cotangent, den)
    (dx, dy, dz), dv1, dv2 = jax.lax.cond(
        exact,
        lambda: _product_gradient(scores, v1, v2, u),
        lambda: _streamed_gradient(scores, v1, v2, shift, den, u),
    )
    scale = 1.0 / math.sqrt(f.shape[-1])
    multiply = functools.partial(jnp.einsum, precision=PRECISE)
    df = multiply("nij,njd->nid", dx, g) + multiply("nik,nkd->nid", dz, h)
    dg = multiply("nij,nid->njd", dx, f) + multiply("njk,nkd->njd", dy, h)
    dh = multiply("nik,nid->nkd", dz, f) + multiply("njk,njd->nkd", dy, g)
    return scale * df, scale * dg, scale * dh, dv1, dv2, None


def _product_gradient(
    scores: SplitScores, v1: jax.Array, v2: jax.Array, u: jax.Array
) -> tuple[Scores, jax.Array, jax.Array]:
    """By scores and values, through the products; ``u`` is the cotangent over the denominator."""

    def sums(high: Scores, v1: jax.Array, v2: jax.Array) -> tuple[jax.Array, jax.Array]:
        factors = product_factors(SplitScores(high, scores.low))
        return product_numerators(factors, v1, v2), product_denominators(factors)

    (num, den), pull_back = jax.vjp(sums, scores.high, v1, v2)
    # Not through the quotient itself: the square of a small denominator would underflow.
    return pull_back((u, -jnp.sum(u * divide(num, den), axis=-1)))


def _streamed_gradient(
    scores: SplitScores,
    v1: jax.Array,
    v2: jax.Array,
    shift: jax.Array,
    den: jax.Array,
    u: jax.Array,
) -> tuple[Scores, jax.Array, jax.Array]:
    """As :func:`_product_gradient`, from all triples of a few queries at a time.

    With t_jk = Σ_c u_c v¹_jc v²_kc: ∂/∂s_ijk = w_jk (t_jk − Σ w t / Σ w).
    """

    def head(
        chunk: int,
        scores: SplitScores,
        v1: jax.Array,
        v2: jax.Array,
        own: tuple[jax.Array, jax.Array],
        u: jax.Array,
    ) -> tuple[Any, ...]:
        scores = _second_first(scores)

        def block(sums: Any, inputs: Any) -> Any:
            rows, (shift, den), u = inputs
            w = jnp.exp(_exponents(rows, scores, shift[:, 0]) - shift[:, 1, None, None])
            spread = u[:, None, :] * v2
            flat = spread.reshape(-1, spread.shape[-1])
            ds = w * jnp.matmul(flat, v1.T, precision=PRECISE).reshape(w.shape)
            # Summed from these very terms, so that where one triple has all the weight they
            # cancel to the last bit.
            ds = ds - w * divide(jnp.sum(ds, axis=(1, 2))[:, None], den)[..., None]
            dv1 = jnp.matmul(w.reshape(-1, w.shape[-1]).T, flat, precision=PRECISE)
            dv2 = jnp.sum(_inner_sums(w, v1) * u[:, None, :], axis=0)
            parts = (jnp.sum(ds, axis=0), dv1, dv2)
            return jax.tree.map(jnp.add, sums, parts), (jnp.sum(ds, axis=1), jnp.sum(ds, axis=2))

        start = jax.tree.map(jnp.zeros_like, (scores.high.y, v1, v2))
        queries = u.shape[0]
        if queries <= chunk:
            return block(start, (_query_rows(scores), own, u))
        # Rows behind the last one repeat it, with a cotangent of zero.
        inputs = (*_split((_query_rows(scores), own), chunk, "edge"),
                  _split(u, chunk, "constant"))  # fmt: skip
        totals, chunks = jax.lax.scan(block, start, inputs)
        return totals, _join(chunks, queries)

    (dy, dv1, dv2), (dx, dz) = _over_heads(
        head, (scores, v1, v2, (shift, den), u), u.shape[1], v1.shape[1] ** 2, _BLOCK
    )
    return Scores(dx, jnp.swapaxes(dy, 1, 2), dz), dv1, dv2


stable_triples.defvjp(_forward, _backward)


def _masked_scores(
    f: jax.Array, g: jax.Array, h: jax.Array, valid: jax.Array, causal: bool
) -> SplitScores:
    high, low = split_scores(f, g, h)
    return SplitScores(mask_scores(high, valid, causal), low)


def _finite(shift: jax.Array) -> jax.Array:
    return jax.lax.stop_gradient(jnp.where(jnp.isfinite(shift), shift, 0.0))


def _chunk(queries: int, each: int, block: int) -> int:
    """Queries at a time, of ``each`` numbers, in chunks of about one size that fit the block."""
    most = max(1, block // each)
    return math.ceil(queries / math.ceil(queries / most))


def _group(count: int, most: int) -> int:
    # A divisor where there is a good one: a remainder would be compiled as a program of its own.
    even = max(d for d in range(1, min(most, count) + 1) if count % d == 0)
    return even if 2 * even > most else most


def _query_rows(scores: SplitScores) -> Any:
    """The scores of one head that belong to queries: (high x, z), (low x, z), each [Q, n]."""
    high, low = scores
    return (high.x, high.z), (None if low is None else (low.x, low.z))


def _second_first(scores: SplitScores) -> SplitScores:
    """The scores of one head with y as [k, j], so that j is the last axis of a block of triples."""
    return SplitScores(
        high=scores.high._replace(y=scores.high.y.T),
        low=None if scores.low is None else scores.low._replace(y=scores.low.y.T),
    )


def _sum_of_three(rows: tuple[jax.Array, jax.Array], y: jax.Array) -> jax.Array:
    """[c, n] rows of x and z, [k, j] of y -> scores [c, k, j]."""
    x, z = rows
    return (x[:, None, :] + y) + z[:, :, None]


def _exponents(rows: Any, scores: SplitScores, coarse: jax.Array) -> jax.Array:
    """Scores [c, k, j] less the largest sum of their high parts [c], which is exact."""
    high = _sum_of_three(rows[0], scores.high.y) - coarse[:, None, None]
    return high if scores.low is None else high + _sum_of_three(rows[1], scores.low.y)


def _inner_sums(w: jax.Array, v1: jax.Array) -> jax.Array:
    """Σ_j w[c, k, j] v1[j, e] as one product, [c, k, e]."""
    flat = jnp.matmul(w.reshape(-1, w.shape[-1]), v1, precision=PRECISE)
    return flat.reshape(*w.shape[:-1], -1)


def _split(rows: Any, chunk: int, mode: str) -> Any:
    """[Q, ...] -> [⌈Q / chunk⌉, chunk, ...], filled up as ``jnp.pad`` does in this mode."""

    def split(a: jax.Array) -> jax.Array:
        count = math.ceil(a.shape[0] / chunk)
        padding = [(0, count * chunk - a.shape[0])] + [(0, 0)] * (a.ndim - 1)
        return jnp.pad(a, padding, mode=mode).reshape(count, chunk, *a.shape[1:])

    return jax.tree.map(split, rows)


def _join(chunks: Any, queries: int) -> Any:
    return jax.tree.map(lambda a: a.reshape(-1, *a.shape[2:])[:queries], chunks)


def _by_chunks(block: Any, rows: Any, chunk: int) -> Any:
    queries = jax.tree.leaves(rows)[0].shape[0]
    if queries <= chunk:
        return block(rows)
    return _join(jax.lax.map(block, _split(rows, chunk, "edge")), queries)


def _over_heads(head: Any, arrays: Any, queries: int, each: int, block: int) -> Any:
    """``head(chunk, ...)`` of each of N heads; on CPU a few heads at a time, elsewhere all.

    Args:
      head: of one head's arrays, working on ``chunk`` queries at a time.
      arrays: each with a leading axis N.
      queries: Q.
      each: numbers in work per query.
      block: numbers in work at a time on CPU.
    """
    count = jax.tree.leaves(arrays)[0].shape[0]
    chunk = _chunk(queries, each, block)
    group = _group(count, max(1, block // (chunk * each)))

    def in_groups(*arrays: Any) -> Any:
        if count <= group:
            return jax.vmap(functools.partial(head, chunk))(*arrays)
        return jax.lax.map(lambda one: head(chunk, *one), arrays, batch_size=group)

    def together(*arrays: Any) -> Any:
        wide = _chunk(queries, count * each, _PARALLEL_BLOCK)
        return jax.vmap(functools.partial(head, wide))(*arrays)

    if is_partitioned():
        return together(*arrays)
    return jax.lax.platform_dependent(*arrays, cpu=in_groups, default=together)
