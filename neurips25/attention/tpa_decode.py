"""FlashTPA: a decoding step over cached factors, without forming keys or values.

Tensor Product Attention Is All You Need, arXiv:2501.06425, algorithm 2. For one query,

    L_mh = 1/(R_Q R_K √D) Σ_s a^K_sh(m) Σ_r a^Q_rh (b^Q_r · b^K_s(m)),
    o_h  = 1/R_V Σ_m softmax_m(L)_mh Σ_u a^V_uh(m) b^V_u(m),

is two matmuls with the query's factors, a softmax over the rows, and one matmul with the
values' features. Blocks of rows are folded with an online softmax; partial results over
separate pieces of a cache combine by their log-sum-exp.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.typing import ArrayLike

from neurips25.attention.cache import TPACache

# Logits that one block may form where the caller gives no block size: 2 MiB in float32. On CPU
# one block is the fastest form (a scan copies every block before its matmuls) until its
# intermediates outgrow the last-level cache or, at 32 MiB, are returned to the system after
# every call, so that each step pays for fresh pages.
_BLOCK_LOGITS = 2**19

# Rows per small matmul with the values on CPU: [H, rows] and [rows, E] both fit in L1/L2.
_MIX_ROWS = 256


class _Rows(NamedTuple):
    """A cache with all four fields there."""

    ak: jax.Array
    bk: jax.Array
    av: jax.Array
    bv: jax.Array


Query = tuple[jax.Array, ...]
Scores = Callable[[Query, jax.Array], jax.Array]
Partial = tuple[jax.Array, jax.Array, jax.Array]


def flash_tpa_decode(
    aq: jax.Array,
    bq: jax.Array,
    cache: TPACache,
    length: ArrayLike,
    block_size: int | None = None,
    mask: jax.Array | None = None,
) -> jax.Array:
    """Attention of N new queries over the cached factors of M tokens, any ranks.

    Args:
      aq: [B, N, R_Q, H] head factors of the queries, N ≥ 1.
      bq: [B, N, R_Q, D] feature factors, already rotated.
      cache: ak [B, M, R_K, H], bk [B, M, R_K, D] (rotated), av [B, M, R_V, H],
        bv [B, M, R_V, E]; finite in the rows that are not seen too.
      length: int, rows that may be seen: a scalar, [B], or [B, N] (query n of sequence b sees
        rows m < length[b, n]).
      block_size: rows per step of the scan; M need not be a multiple of it. One block, and no
        scan, where it is M or more. None takes as many rows as form 2¹⁹ logits (16384 rows of
        32 heads for one query).
      mask: floating [B, N, M] added to the logits, −inf hides a row; None adds nothing. A
        bool mask m is ``jnp.where(m, 0.0, -jnp.inf)``.

    Returns:
      [B, N, H, E] of the promoted dtype of ``aq`` and ``cache.bv``; zeros for a query that sees no
      row. Logits, maxima, sums and outputs are accumulated in float32 at least.

    Raises:
      ValueError: shapes that do not fit each other, a mask that is not floating, or
        ``block_size`` below 1.

    Source: arXiv:2501.06425, algorithm 2.

    >>> one = jnp.ones((1, 4, 1, 2))
    >>> cache = TPACache(ak=one, bk=one, av=one, bv=one.cumsum(axis=1))
    >>> flash_tpa_decode(one[:, :1], one[:, :1], cache, length=3)[0, 0, 0].tolist()
    [2.0, 2.0]
    """
    o, _ = flash_tpa_decode_partial(aq, bq, cache, length, block_size, mask)
    return o


def flash_tpa_decode_partial(
    aq: jax.Array,
    bq: jax.Array,
    cache: TPACache,
    length: ArrayLike,
    block_size: int | None = None,
    mask: jax.Array | None = None,
) -> tuple[jax.Array, jax.Array]:
    """:func:`flash_tpa_decode` over a piece of a cache, with what is needed to combine pieces.

    Args:
      aq, bq, cache, block_size, mask: as there, M rows of this piece only.
      length: counted from the first row of the piece; 0 or less hides all of it.

    Returns:
      o [B, N, H, E] normalised within the piece, and lse [B, N, H], the log of the sum of the
      exponentials of its logits (−inf where no row is seen), for :func:`combine_partials`.

    Raises:
      ValueError: as there.

    Source: arXiv:2501.06425, sec. 3.4 and appendix A.
    """
    _check_query(aq, bq)
    rows = _checked(cache, aq.shape[0], aq.shape[3], bq.shape[3])
    compute = jnp.promote_types(aq.dtype, jnp.float32)
    ranks = aq.shape[2] * rows.bk.shape[2]
    scaled = aq.astype(compute) / (ranks * math.sqrt(bq.shape[3]))
    return _decode(_factored_scores, (scaled, bq), rows, length, block_size, mask, aq.dtype)


def flash_tpa_decode_rank1(
    aq: jax.Array,
    bq: jax.Array,
    cache: TPACache,
    length: ArrayLike,
    block_size: int | None = None,
    mask: jax.Array | None = None,
) -> jax.Array:
    """The step for R_K = R_V = 1: two small matmuls for the logits, one for the output.

        S = (B_K B_Qᵀ) A_Q / (R_Q √D) ⊙ a_K,   O = (softmax_M(S) ⊙ a_V)ᵀ b_V

    that is 2 M (R_Q D + H R_Q + H E) FLOPs plus the softmax.

    Args:
      aq: [B, N, R_Q, H].
      bq: [B, N, R_Q, D], already rotated.
      cache: ak [B, M, 1, H], bk [B, M, 1, D], av [B, M, 1, H], bv [B, M, 1, E].
      length, block_size, mask: as for :func:`flash_tpa_decode`.

    Returns:
      [B, N, H, E], as :func:`flash_tpa_decode`.

    Raises:
      ValueError: a rank other than 1, or shapes that do not fit each other.

    Source: arXiv:2501.06425, sec. 3.4 (rank-one keys and values).

    >>> one = jnp.ones((1, 4, 1, 2))
    >>> cache = TPACache(ak=one, bk=one, av=one, bv=one.cumsum(axis=1))
    >>> flash_tpa_decode_rank1(one[:, :1], one[:, :1], cache, length=1)[0, 0, 0].tolist()
    [1.0, 1.0]
    """
    _check_query(aq, bq)
    rows = _checked(cache, aq.shape[0], aq.shape[3], bq.shape[3])
    ranks = (rows.bk.shape[2], rows.bv.shape[2])
    if ranks != (1, 1):
        raise ValueError(f"cache has ranks (R_K, R_V) = {ranks}, needs (1, 1)")
    return flash_tpa_decode(aq, bq, cache, length, block_size, mask)


def flash_tpa_kvonly_decode(
    q: jax.Array,
    cache: TPACache,
    length: ArrayLike,
    block_size: int | None = None,
    mask: jax.Array | None = None,
) -> jax.Array:
    """:func:`flash_tpa_decode` for queries that are not factorised (TPA-KVonly).

    Args:
      q: [B, N, H, D] rotated queries.
      cache, length, block_size, mask: as there.

    Returns:
      [B, N, H, E].

    Raises:
      ValueError: shapes that do not fit each other, or ``block_size`` below 1.

    Source: arXiv:2501.06425, sec. 3.1 and algorithm 2.
    """
    if q.ndim != 4:
        raise ValueError(f"q has shape {q.shape}, needs [B, N, H, D]")
    rows = _checked(cache, q.shape[0], q.shape[2], q.shape[3])
    scaled = q / (rows.bk.shape[2] * math.sqrt(q.shape[3]))
    return _decode(_full_scores, (scaled,), rows, length, block_size, mask, q.dtype)[0]


def combine_partials(o: jax.Array, lse: jax.Array) -> jax.Array:
    """Joins attention over S pieces of a cache: Σ_s softmax_s(lse) o_s.

    Args:
      o: [S, ..., H, E], each piece normalised by itself; usually [S, B, H, E] or
        [S, B, N, H, E].
      lse: [S, ..., H] log-sum-exp of the logits of each piece, −inf for an empty piece.

    Returns:
      [..., H, E]; zeros where every piece is empty.

    Raises:
      ValueError: ``lse`` does not have the shape of ``o`` without its last axis.

    Source: arXiv:2501.06425, appendix A (parallel over the cache).

    >>> o = jnp.array([[[1.0]], [[5.0]]])  # S=2, H=1, E=1
    >>> combine_partials(o, jnp.log(jnp.array([[3.0], [1.0]]))).tolist()
    [[2.0]]
    """
    if o.ndim < 3 or lse.shape != o.shape[:-1]:
        raise ValueError(f"lse has shape {lse.shape}, needs {o.shape[:-1]} to go with o {o.shape}")
    compute = jnp.promote_types(lse.dtype, jnp.float32)
    lse = jnp.maximum(lse.astype(compute), _floor(compute))
    top = lse.max(axis=0)
    weight = jnp.exp(lse - top)
    total = jnp.einsum("s...h,s...he->...he", weight, o.astype(compute))
    joined = total / weight.sum(axis=0)[..., None]
    return jnp.where((top > _floor(compute))[..., None], joined, 0.0).astype(o.dtype)


def _factored_scores(query: Query, bk: jax.Array) -> jax.Array:
    # Features first: the products with b^Q are shared by all heads.
    aq, bq = query
    shared = jnp.einsum("md,rd->mr", bk, bq, preferred_element_type=aq.dtype)
    return shared @ aq


def _full_scores(query: Query, bk: jax.Array) -> jax.Array:
    (q,) = query
    compute = jnp.promote_types(q.dtype, jnp.float32)
    return jnp.einsum("md,hd->mh", bk, q, preferred_element_type=compute)


def _decode(
    scores: Scores,
    query: Query,
    cache: _Rows,
    length: ArrayLike,
    block_size: int | None,
    mask: jax.Array | None,
    dtype: jnp.dtype,
) -> tuple[jax.Array, jax.Array]:
    """Output and log-sum-exp over all rows for queries with leading axes [B, N]."""
    batch, rows, rank_v, _ = cache.bv.shape
    queries = query[0].shape[1]
    if block_size is None:
        logits_per_row = batch * queries * cache.ak.shape[2] * cache.ak.shape[3]
        block_size = _MIX_ROWS * max(1, _BLOCK_LOGITS // (_MIX_ROWS * logits_per_row))
    if block_size < 1:
        raise ValueError(f"block_size={block_size} must be at least 1")
    if mask is not None:
        # A bool or 0/1 mask would be added as it is and hide nothing.
        fits = mask.shape == (batch, queries, rows) and jnp.issubdtype(mask.dtype, jnp.floating)
        if not fits:
            raise ValueError(
                f"mask is {mask.dtype} of shape {mask.shape}, needs floating "
                f"{(batch, queries, rows)}: it is added to the logits, −inf hides a row"
            )
    compute = jnp.promote_types(dtype, jnp.float32)
    row = jnp.arange(rows)
    bias = jnp.where(row < _lengths(length, batch, queries), 0.0, -jnp.inf).astype(compute)
    if mask is not None:
        bias += mask
    bias = jnp.maximum(bias, _floor(compute))

    def block(start: ArrayLike, first: ArrayLike, size: int) -> Partial:
        """Rows start .. start + size − 1, of which those before ``first`` are done already."""

        def cut(x: jax.Array, axis: int) -> jax.Array:
            return lax.dynamic_slice_in_dim(x, start, size, axis, allow_negative_indices=False)

        piece = jax.tree.map(lambda x: cut(x, 1), cache)
        todo = start + jnp.arange(size) >= first
        seen = jnp.where(todo, cut(bias, 2), _floor(compute))

        def sequence(query: Query, piece: _Rows, bias: jax.Array) -> Partial:
            return _vmap(lambda q, b: _attend(scores, q, piece, b), query, bias)

        return _vmap(sequence, query, piece, seen)

    if block_size >= rows:
        y, s, m = block(0, 0, rows)
    else:

        def step(carry: Partial, first: jax.Array) -> tuple[Partial, None]:
            # The last block is moved back to end at the last row, so no row is padded.
            start = jnp.minimum(first, rows - block_size)
            return _fold(carry, block(start, first, block_size)), None

        shapes = jax.eval_shape(lambda: block(0, 0, block_size))
        zeros = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)
        empty = (zeros[0], zeros[1], zeros[2] + _floor(compute))
        (y, s, m), _ = lax.scan(step, empty, jnp.arange(0, rows, block_size))
    # Asked of the bias, not of m: a second use of m would split the fused softmax on CPU.
    seen = bias.max(axis=2)[..., None] > _floor(compute) / 2
    o = jnp.where(seen[..., None], y / (rank_v * s[..., None]), 0.0)
    lse = jnp.where(seen, m + jnp.log(s), -jnp.inf)
    return o.astype(jnp.promote_types(dtype, cache.bv.dtype)), lse


def _attend(scores: Scores, query: Query, piece: _Rows, bias: jax.Array) -> Partial:
    """One query over the rows of one sequence, arrays [m, R, ·] and bias [m].

    Returns the unnormalised output [H, E], and the sum and the maximum [H].
    """
    rows, rank_k, heads = piece.ak.shape
    logits = scores(query, piece.bk.reshape(rows * rank_k, -1)) * piece.ak.reshape(-1, heads)
    if rank_k > 1:
        logits = logits.reshape(rows, rank_k, heads).sum(axis=1)
    logits += bias[:, None]
    m = logits.max(axis=0)
    p = jnp.exp(logits - m)
    return _mix(p, piece.av, piece.bv), p.sum(axis=0), m


def _fold(one: Partial, two: Partial) -> Partial:
    m = jnp.maximum(one[2], two[2])
    c1, c2 = jnp.exp(one[2] - m), jnp.exp(two[2] - m)
    return c1[..., None] * one[0] + c2[..., None] * two[0], c1 * one[1] + c2 * two[1], m


def _mix(p: jax.Array, av: jax.Array, bv: jax.Array) -> jax.Array:
    """Σ_mu p[m, h] av[m, u, h] bv[m, u, e] -> [H, E]."""
    rows, rank_v, heads = av.shape
    weights = p * av[:, 0] if rank_v == 1 else (p[:, None] * av).reshape(-1, heads)
    weights, values = weights.astype(bv.dtype), bv.reshape(rows * rank_v, -1)

    def plain(weights: jax.Array, values: jax.Array) -> jax.Array:
        return jnp.einsum("mh,me->he", weights, values, preferred_element_type=p.dtype)

    if rows * rank_v % _MIX_ROWS:
        return plain(weights, values)

    def in_chunks(weights: jax.Array, values: jax.Array) -> jax.Array:
        # CPU matmuls want [H, m], not [m, H]. The barrier keeps the transposition out of the
        # matmul, where it would turn into a slow strided read.
        chunks = weights.reshape(-1, _MIX_ROWS, heads).swapaxes(1, 2)
        values = values.reshape(-1, _MIX_ROWS, values.shape[-1])
        out = jnp.einsum(
            "ghm,gme->ghe",
            lax.optimization_barrier(chunks),
            values,
            preferred_element_type=p.dtype,
        )
        return out.sum(axis=0)

    return lax.platform_dependent(weights, values, cpu=in_chunks, default=plain)


def _vmap(f: Callable[..., Any], *args: Any) -> Any:
    """``jax.vmap(f)(*args)``, but an axis of length one is dropped instead of carried along.

    XLA's CPU backend fuses a chain of matmuls, reductions and exponentials only while all of
    them are plain matrices; unit axes put reshapes between them.
    """
    if jax.tree.leaves(args)[0].shape[0] > 1:
        return jax.vmap(f)(*args)
    return jax.tree.map(lambda x: x[None], f(*jax.tree.map(lambda x: x[0], args)))


def _floor(dtype: jnp.dtype) -> jax.Array:
    # Stands for −inf in logits and maxima: finite, so that no difference of two is NaN, and so
    # low that exp(floor − anything real) is 0.
    return jnp.asarray(jnp.finfo(dtype).min / 2, dtype)


def _lengths(length: ArrayLike, batch: int, queries: int) -> jax.Array:
    length = jnp.asarray(length)
    if not jnp.issubdtype(length.dtype, jnp.integer):
        raise ValueError(f"length has dtype {length.dtype}, needs an integer")
    if length.shape not in ((), (batch,), (batch, queries)):
        raise ValueError(
            f"length has shape {length.shape}, needs (), {(batch,)} or {(batch, queries)}"
        )
    if length.ndim < 2:
        length = length.reshape(-1, 1)
    return jnp.broadcast_to(length, (batch, queries))[..., None]


def _check_query(aq: jax.Array, bq: jax.Array) -> None:
    if aq.ndim != 4:
        raise ValueError(f"aq has shape {aq.shape}, needs [B, N, R_Q, H]")
    if bq.ndim != 4 or bq.shape[:3] != aq.shape[:3]:
        raise ValueError(f"bq has shape {bq.shape}, needs {(*aq.shape[:3], 'D')}")


def _checked(cache: TPACache, batch: int, heads: int, dim: int) -> _Rows:
    arrays = {}
    for name in _Rows._fields:
        value = getattr(cache, name)
        if value is None or value.ndim != 4 or 0 in value.shape:
            got = "missing" if value is None else f"of shape {value.shape}"
            raise ValueError(f"cache.{name} is {got}, needs [B, M, R, .] with nothing empty")
        arrays[name] = value
    rows = _Rows(**arrays)
    _, length, rank_k, _ = rows.bk.shape
    rank_v, width = rows.bv.shape[2:]
    lasts = {
        "ak": (rank_k, heads),
        "bk": (rank_k, dim),
        "av": (rank_v, heads),
        "bv": (rank_v, width),
    }
    for name, last in lasts.items():
        shape, needed = arrays[name].shape, (batch, length, *last)
        if shape != needed:
            raise ValueError(f"cache.{name} has shape {shape}, needs {needed}")
    return rows
