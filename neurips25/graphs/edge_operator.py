"""Sparse matrices over a graph's nodes: products and softmax by segment operations over edges.

    (M h)_i = Σ_{e: receiver e is i} w_e h[sender of e] + m_i h_i

Edges stand in the order of their receivers, each direction of an undirected edge once. Self-loops
are kept apart, as a diagonal m, which needs no gather. A graph whose messages (one row per edge) do
not fit in memory is worked off in chunks of edges, forward and backward.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp

# Senders, receivers, and weights if there are any.
_Edges = tuple[jax.Array, jax.Array, jax.Array | None]


class EdgeOperator(NamedTuple):
    """A sparse matrix over nodes.

    Attributes:
      senders: int32 [E], columns.
      receivers: int32 [E], rows, ascending.
      weights: [E], or [E, H] for one matrix per head; None where all are one.
      diagonal: [n] or [n, H], added to the sum over edges; None for zero.
    """

    senders: jax.Array
    receivers: jax.Array
    weights: jax.Array | None = None
    diagonal: jax.Array | None = None


def spmm(
    op: EdgeOperator, h: jax.Array, num_nodes: int | None = None, chunk: int | None = None
) -> jax.Array:
    """The product M h, summed in float32 at least.

    Time O(E d). Memory for the messages O(E d), with ``chunk`` O(chunk · d), forward and backward.

    Args:
      op: the matrix; edges whose receiver is no row of the result are left out.
      h: [N, ...]; [N, H, ...] where the weights are per head.
      num_nodes: rows n of the result; None is N. A diagonal needs n = N.
      chunk: edges at a time, None for all.

    Returns:
      [n, ...] of the dtype of ``h``.

    Raises:
      ValueError: weights or a diagonal that do not fit, or ``chunk < 1``.

    >>> path = EdgeOperator(jnp.array([1, 0, 2, 1]), jnp.array([0, 1, 1, 2]))
    >>> spmm(path, jnp.array([[1.0], [10.0], [100.0]]))[:, 0].tolist()
    [10.0, 101.0, 10.0]
    """
    h, op = jnp.asarray(h), jax.tree.map(jnp.asarray, op)
    n = h.shape[0] if num_nodes is None else num_nodes
    _check(op, h, n, chunk)
    compute = jnp.promote_types(h.dtype, jnp.float32)
    if chunk is None or chunk >= op.receivers.shape[0]:
        messages = _weigh(h[op.senders].astype(compute), op.weights)
        out = jax.ops.segment_sum(messages, op.receivers, n, indices_are_sorted=True)
    else:
        out = _chunked_sum(h, op.weights, op.senders, op.receivers, n, chunk)
    if op.diagonal is not None:
        out = out + _weigh(h.astype(compute), op.diagonal)
    return out.astype(h.dtype)


def edge_softmax(
    scores: jax.Array, receivers: jax.Array, num_nodes: int, self_scores: jax.Array | None = None
) -> tuple[jax.Array, jax.Array | None]:
    """Softmax over the in-edges of each node, and its self-loop if there is one.

    Args:
      scores: [E, ...], one per edge and head.
      receivers: int [E], ascending.
      num_nodes: n.
      self_scores: [n, ...] of the self-loops; None for none.

    Returns:
      The weights of the edges [E, ...] and of the self-loops [n, ...] or None, in float32 at
      least. They sum to one for every node that has any.

    Raises:
      ValueError: shapes that do not fit each other.
    """
    scores, receivers = jnp.asarray(scores), jnp.asarray(receivers)
    if scores.shape[:1] != receivers.shape:
        raise ValueError(f"scores has shape {scores.shape}, needs [{receivers.shape[0]}, ...]")
    if self_scores is not None and self_scores.shape != (num_nodes, *scores.shape[1:]):
        raise ValueError(
            f"self_scores has shape {self_scores.shape}, needs {(num_nodes, *scores.shape[1:])}"
        )
    compute = jnp.promote_types(scores.dtype, jnp.float32)
    scores = scores.astype(compute)
    top = jax.ops.segment_max(scores, receivers, num_nodes, indices_are_sorted=True)
    if self_scores is not None:
        self_scores = self_scores.astype(compute)
        top = jnp.maximum(top, self_scores)
    top = jax.lax.stop_gradient(jnp.where(jnp.isfinite(top), top, 0))
    weights = jnp.exp(scores - top[receivers])
    total = jax.ops.segment_sum(weights, receivers, num_nodes, indices_are_sorted=True)
    if self_scores is None:
        return weights / jnp.where(total > 0, total, 1)[receivers], None
    own = jnp.exp(self_scores - top)
    total = total + own
    return weights / total[receivers], own / total


def _weigh(rows: jax.Array, weights: jax.Array | None) -> jax.Array:
    """Rows [E, ...] times weights [E] or [E, H], which broadcast over the last axes."""
    if weights is None:
        return rows
    aligned = weights.reshape(weights.shape + (1,) * (rows.ndim - weights.ndim))
    return rows * aligned.astype(rows.dtype)


@functools.partial(jax.custom_vjp, nondiff_argnums=(4, 5))
def _chunked_sum(
    h: jax.Array,
    weights: jax.Array | None,
    senders: jax.Array,
    receivers: jax.Array,
    n: int,
    chunk: int,
) -> jax.Array:
    compute = jnp.promote_types(h.dtype, jnp.float32)

    def step(out: jax.Array, edges: _Edges) -> tuple[jax.Array, None]:
        s, r, w = edges
        messages = _weigh(h[s].astype(compute), w)
        return out.at[r].add(messages, mode="drop", indices_are_sorted=True), None

    edges = _chunks(senders, receivers, weights, (h.shape[0], n), chunk)
    return jax.lax.scan(step, jnp.zeros((n, *h.shape[1:]), compute), edges)[0]


def _chunked_sum_fwd(
    h: jax.Array,
    weights: jax.Array | None,
    senders: jax.Array,
    receivers: jax.Array,
    n: int,
    chunk: int,
) -> tuple[jax.Array, tuple[jax.Array | None, ...]]:
    out = _chunked_sum(h, weights, senders, receivers, n, chunk)
    return out, (h, weights, senders, receivers)


def _chunked_sum_bwd(
    n: int, chunk: int, saved: tuple[jax.Array, ...], grad: jax.Array
) -> tuple[jax.Array | None, ...]:
    # Autodiff of the scan would store the rows of every chunk for the gradient of the weights.
    h, weights, senders, receivers = saved

    def step(dh: jax.Array, edges: _Edges) -> tuple[jax.Array, jax.Array | None]:
        s, r, w = edges
        rows = grad[r]
        dw = None
        if w is not None:
            dw = jnp.sum(rows * h[s].astype(rows.dtype), axis=tuple(range(w.ndim, rows.ndim)))
        return dh.at[s].add(_weigh(rows, w), mode="drop"), dw

    edges = _chunks(senders, receivers, weights, (h.shape[0], n), chunk)
    dh, dw = jax.lax.scan(step, jnp.zeros(h.shape, grad.dtype), edges)
    if dw is not None:
        dw = dw.reshape(-1, *weights.shape[1:])[: weights.shape[0]].astype(weights.dtype)
    return dh.astype(h.dtype), dw, None, None


_chunked_sum.defvjp(_chunked_sum_fwd, _chunked_sum_bwd)


def _chunks(
    senders: jax.Array,
    receivers: jax.Array,
    weights: jax.Array | None,
    nodes: tuple[int, int],
    chunk: int,
) -> _Edges:
    """The edges as [C, chunk, ...]; what fills the last chunk points behind the last node."""
    missing = -senders.shape[0] % chunk

    def split(array: jax.Array, fill: int) -> jax.Array:
        widths = [(0, missing)] + [(0, 0)] * (array.ndim - 1)
        array = jnp.pad(array, widths, constant_values=fill)
        return array.reshape(-1, chunk, *array.shape[1:])

    return (
        split(senders, nodes[0]),
        split(receivers, nodes[1]),
        None if weights is None else split(weights, 0),
    )


def _check(op: EdgeOperator, h: jax.Array, n: int, chunk: int | None) -> None:
    if chunk is not None and chunk < 1:
        raise ValueError(f"chunk={chunk} must be at least 1")
    if op.senders.ndim != 1 or op.senders.shape != op.receivers.shape:
        raise ValueError(
            f"op.senders has shape {op.senders.shape} and op.receivers {op.receivers.shape}, "
            f"need [E] both"
        )
    for name, array, rows in (
        ("weights", op.weights, op.senders.shape[0]),
        ("diagonal", op.diagonal, n),
    ):
        if array is None:
            continue
        if array.shape[:1] != (rows,) or array.shape[1:] != h.shape[1 : array.ndim]:
            raise ValueError(
                f"op.{name} has shape {array.shape}, needs [{rows}] or [{rows}, H] to go with "
                f"h of shape {h.shape}"
            )
    if op.diagonal is not None and n != h.shape[0]:
        raise ValueError(f"h has shape {h.shape}, needs {n} rows for the diagonal")
