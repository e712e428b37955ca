"""Why one layer of standard or triangular attention cannot mix two parts of its input.

arXiv:2501.19215, theorem 3.2 and sec. 5. What a softmax head computes at one query is a quotient
of sums over the tokens it looks at, so for any split of these into A and the rest it is

    (α + β) / (λ + μ),   α, λ from A alone,   β, μ from the rest alone,

and an output network that sees few such quotients separates few patterns of two independent parts:
the bound by the splitting VC dimension. For triangular attention the same holds on the relations
of :func:`disjointness_as_quotient`, whose label at one token is Disj.

Sums of e^score as they stand, without a shift, so that each really depends on its own part only:
scores should stay below about 700. Positions count from 0.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike


class SplitAttention(NamedTuple):
    """(α + β) / (λ + μ) is the attention; α and λ belong to A, β and μ to the rest."""

    alpha: np.ndarray
    """Σ_{l∈A} e^{score_l} value_l, [e]."""
    lam: np.ndarray
    """Σ_{l∈A} e^{score_l}, []."""
    beta: np.ndarray
    """Σ_{l∉A} e^{score_l} value_l, [e]."""
    mu: np.ndarray
    """Σ_{l∉A} e^{score_l}, []."""


def auxiliary_split(
    q: ArrayLike, k: ArrayLike, v: ArrayLike, positions: Sequence[int]
) -> SplitAttention:
    """Standard attention at the auxiliary (last) token, split into A and the rest.

    score_l = q_n · k_l / √D and value_l = v_l, over the tokens l and the auxiliary one itself,
    which counts to the rest unless A holds it.

    Args:
      q, k: [n, D] of one head.
      v: [n, E].
      positions: A.

    Returns:
      :class:`SplitAttention` in float64; (alpha + beta) / (lam + mu) is the head's output [E].

    Raises:
      ValueError: shapes that do not fit each other, or positions out of range.

    Source: arXiv:2501.19215, proof of theorem 3.2.

    >>> s = auxiliary_split([[0.0], [0.0]], [[5.0], [7.0]], [[2.0], [4.0]], [0])
    >>> ((s.alpha + s.beta) / (s.lam + s.mu)).tolist()
    [3.0]
    """
    q, k, v = (np.asarray(a, np.float64) for a in (q, k, v))
    if q.ndim != 2 or k.shape != q.shape or v.ndim != 2 or len(v) != len(q):
        raise ValueError(
            f"q, k, v have shapes {q.shape}, {k.shape}, {v.shape}, need [n, D], [n, D], [n, E]"
        )
    return _split(k @ q[-1] / np.sqrt(q.shape[1]), v, positions)


def triangular_split(
    q: ArrayLike,
    k: ArrayLike,
    v1: ArrayLike,
    v2: ArrayLike,
    edge: tuple[int, int],
    positions: Sequence[int],
) -> SplitAttention:
    """Triangular attention at one edge (i, j), split by the middle l of its paths i → l → j.

    score_l = q_il · k_lj / √D and value_l = v¹_il ⊙ v²_lj.

    Args:
      q, k: [m, m, D] of one head.
      v1, v2: [m, m, E].
      edge: (i, j).
      positions: A, a set of l.

    Returns:
      :class:`SplitAttention` in float64; (alpha + beta) / (lam + mu) is the head's output [E].

    Raises:
      ValueError: shapes that do not fit each other, or positions out of range.

    Source: arXiv:2501.19215, sec. 5.
    """
    q, k, v1, v2 = (np.asarray(a, np.float64) for a in (q, k, v1, v2))
    grid = q.shape[:2]
    if q.ndim != 3 or grid[0] != grid[1] or k.shape != q.shape:
        raise ValueError(f"q and k have shapes {q.shape} and {k.shape}, need [m, m, D]")
    if v1.ndim != 3 or v1.shape[:2] != grid or v2.shape != v1.shape:
        raise ValueError(f"v1 and v2 have shapes {v1.shape} and {v2.shape}, need {(*grid, 'E')}")
    i, j = edge
    scores = (q[i] * k[:, j]).sum(axis=-1) / np.sqrt(q.shape[-1])
    return _split(scores, v1[i] * v2[:, j], positions)


def disjointness_as_quotient(
    p: ArrayLike, q: ArrayLike
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Relations and colours with (B∘A/col)_{1,2} = Disj_s(p, q) = [∃t: p_t = q_t = 1].

    On m = 2s + 2 elements, counted from 1: A has the edge 1 → 2 + t where p_t = 1, B the edge
    2 + s + t → 2 where q_t = 1, and 2 + t and 2 + s + t share the colour 2 + t. The tokens
    that the edge (1, 2) looks at then depend on p or on q, never on both:
    ``triangular_split(..., edge=(0, 1), positions=range(2, s + 2))`` holds all of p.

    Args:
      p: bits [s].
      q: bits [s].

    Returns:
      A, B: int [m, m] of 0 and 1, with index 0 for element 1. Colours: int [m], from 1.

    Raises:
      ValueError: p and q of different or no length, or not bits.

    Source: arXiv:2501.19215, sec. 5.

    >>> A, B, colours = disjointness_as_quotient([1], [1])
    >>> np.argwhere(A).tolist(), np.argwhere(B).tolist(), colours.tolist()
    ([[0, 2]], [[3, 1]], [1, 1, 3, 3])
    """
    p, q = np.asarray(p), np.asarray(q)
    if p.ndim != 1 or q.shape != p.shape or not len(p):
        raise ValueError(f"p and q have shapes {p.shape} and {q.shape}, need one shape [s], s >= 1")
    if not (np.isin(p, (0, 1)).all() and np.isin(q, (0, 1)).all()):
        raise ValueError(f"p and q are {p.tolist()} and {q.tolist()}, need bits")
    s = len(p)
    a, b = np.zeros((2, 2 * s + 2, 2 * s + 2), np.int64)
    a[0, 2 : s + 2] = p
    b[s + 2 :, 1] = q
    shared = np.arange(3, s + 3)
    return a, b, np.concatenate([[1, 1], shared, shared])


def _split(scores: np.ndarray, values: np.ndarray, positions: Sequence[int]) -> SplitAttention:
    chosen = sorted(set(positions))
    if chosen and not 0 <= chosen[0] <= chosen[-1] < len(scores):
        raise ValueError(f"positions is {chosen}, needs numbers from 0 to {len(scores) - 1}")
    inside = np.isin(np.arange(len(scores)), chosen)
    weights = np.exp(scores)
    (alpha, beta), (lam, mu) = (
        [(weights[part, None] * values[part]).sum(axis=0) for part in (inside, ~inside)],
        [weights[part].sum() for part in (inside, ~inside)],
    )
    return SplitAttention(alpha, lam, beta, mu)
