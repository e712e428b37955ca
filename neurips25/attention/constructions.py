"""What one layer of Strassen attention can do, written down as weights.

arXiv:2501.19215, theorems 4.2 and 5.1: with

    score_ijk = (f_i·g_j + g_j·h_k + h_k·f_i) / √r,   f = W_f x,  g = W_g x,  h = W_h x,

one layer solves function composition, binary relation composition, Match3 and quotient relation
composition. A product of two tokens' coordinates can hold a squared difference, as in
(a², a, 1)·(−1, 2b, −b²) = −(a − b)², so three products can ask three equalities at once; a scale C
makes the softmax pick the best pair (j, k), and terms too small to spoil the order make that pair
unique. Each function returns the weights, the features they read and the read-out of the answer.

Positions, indices, symbols and colours count from 1, as in the paper. Scores reach 1e10, so all
but function composition need float64, and the plain product form fails on them: its three
separate maxima are far from any joint one.
"""

import numpy as np
from numpy.typing import ArrayLike

from neurips25.attention.explicit_layers import (
    StrassenConstruction,
    TriangularConstruction,
    attend,
    evaluate,
    score_gaps,
    strassen_inputs,
)

__all__ = [
    "StrassenConstruction",
    "TriangularConstruction",
    "attend",
    "binary_relation",
    "evaluate",
    "function_composition",
    "match3",
    "quotient",
    "score_gaps",
    "strassen_inputs",
    "triangular_relation",
]


def function_composition(n: int) -> StrassenConstruction:
    """h(g(x)) for g, h: [n] → [n], read at the last of the 2n + 1 tokens.

    Token i carries the symbol φ_i: g(1..n), then h(1..n), then x. The score
    −n² [(φ_i − j)² + (φ_j + n − k)²] of the last token is 0 at j = x, k = n + g(x) only.

    Args:
      n: size of the domain.

    Returns:
      Weights with d = r = 6. ``features_fn(g, h, x)`` takes integers [..., n], [..., n] and [...]
      in 1..n; the read-out [..., 1] *is* h(g(x)). The gap is exactly n². Float32 is enough.

    Raises:
      ValueError: n < 1; ``features_fn``: other shapes or numbers.

    Source: arXiv:2501.19215, theorem 4.2.

    >>> layer = function_composition(3)
    >>> x = layer.features_fn([2, 3, 1], [3, 3, 2], 2)
    >>> evaluate(layer, x).round(1).tolist()  # h(g(2)) = h(3) = 2
    [2.0]
    """
    _positive("n", n)
    one, i, i2, phi, phi2, _ = np.eye(6)
    zero = np.zeros(6)
    shifted, shifted2 = phi + n * one, phi2 + 2 * n * phi + n**2 * one
    scale = n**2 * np.sqrt(6.0)

    def features(g: ArrayLike, h: ArrayLike, x: ArrayLike) -> np.ndarray:
        g, h = _integers("g", g, (n,), 1, n), _integers("h", h, (n,), 1, n)
        x = _integers("x", x, (), 1, n)
        symbols = np.concatenate([g, h, x[..., None]], axis=-1)
        position = np.broadcast_to(np.arange(1.0, 2 * n + 2), symbols.shape)
        return _stack(position, position**2, symbols, symbols**2, slots=1)

    return StrassenConstruction(
        features_fn=features,
        W_f=np.stack([phi2, phi, one, zero, zero, zero]),
        W_g=np.stack([-scale * one, 2 * scale * i, -scale * i2, shifted2, shifted, one]),
        W_h=np.stack([zero, zero, zero, -scale * one, 2 * scale * i, -scale * i2]),
        V_1=_into_slots(5, [one]),
        V_2=_into_slots(5, [phi]),
        W_O=np.eye(6),
        readout_fn=lambda x, a: (x + a)[..., 5],
        min_gap=float(n**2),
        queries=slice(-1, None),
    )


def binary_relation(m: int) -> StrassenConstruction:
    """(B∘A)_ij = [∃k: A_ik = B_kj = 1] at each of the m² tokens (i, j), row by row.

    Token (i, j) carries A_ij and B_ij. Query (i, j) scores the pair (c, d), (k, ℓ) with

        m⁸ [−(i − c)² − (d − k)² − (ℓ − j)² + A_cd + B_kℓ + (c m³ + d m² + k m + ℓ) / m⁵].

    Args:
      m: size of the set.

    Returns:
      Weights with d = 13, r = 9. ``features_fn(A, B)`` takes matrices [..., m, m] of 0 and 1; the
      read-out [..., m²] is positive where the label is 1. The gap is at least m³.

    Raises:
      ValueError: m < 1; ``features_fn``: other shapes or numbers.

    Source: arXiv:2501.19215, theorem 4.2.

    >>> layer = binary_relation(2)
    >>> x = layer.features_fn([[0, 1], [0, 0]], [[0, 0], [0, 1]])
    >>> (evaluate(layer, x) > 0).tolist()  # 1 → 2 in A, 2 → 2 in B
    [False, True, False, False]
    """
    _positive("m", m)
    one, i, j, i2, j2, a, b, *_ = np.eye(13)
    zero = np.zeros(13)
    scale = float(m) ** 8 * np.sqrt(9.0)

    def features(A: ArrayLike, B: ArrayLike) -> np.ndarray:
        return _stack(*_grid(m), *_relations(m, A, B), slots=6)

    def readout(x: np.ndarray, attention: np.ndarray) -> np.ndarray:
        _, i, j, _, _, _, _, c, d, a_cd, k, ell, b_kl = np.moveaxis(x + attention, -1, 0)
        wrong = abs(c - i) + abs(ell - j) + abs(d - k) + (1 - a_cd) + (1 - b_kl)
        return 0.5 - wrong

    w_g3 = scale * (-i2 + a + i / m**2 + j / m**3)
    w_h6 = scale * (-i2 + b + i / m**4 + j / m**5)
    return StrassenConstruction(
        features_fn=features,
        W_f=np.stack([i2, i, one, zero, zero, zero, -scale * one, 2 * scale * j, -scale * j2]),
        W_g=np.stack([-scale * one, 2 * scale * i, w_g3, j2, j, one, zero, zero, zero]),
        W_h=np.stack([zero, zero, zero, -scale * one, 2 * scale * i, w_h6, j2, j, one]),
        V_1=_into_slots(7, [i, j, a, one, one, one]),
        V_2=_into_slots(7, [one, one, one, i, j, b]),
        W_O=np.eye(13),
        readout_fn=readout,
        min_gap=float(m**3),
        queries=slice(None),
    )


def match3(n: int, modulus: int) -> StrassenConstruction:
    """y_i = [∃ j, k: p_i + p_j + p_k ≡ 0 (mod M)] at each of n tokens; j, k may repeat or be i.

    The sum of three numbers from 1..M−1 is a multiple of M where it is M or 2M: one head for each
    of Σ = M, 2M, with scores n⁴ [−(p_i + p_j + p_k − Σ)² + (j n + k) / n³].

    Args:
      n: tokens.
      modulus: M ≥ 2.

    Returns:
      Weights of two heads with d = r = 8. ``features_fn(p)`` takes integers [..., n] in 1..M−1;
      the read-out [..., n] is positive where the label is 1. The gap is at least n in each head.

    Raises:
      ValueError: n < 1 or M < 2; ``features_fn``: other shapes or numbers.

    Source: arXiv:2501.19215, theorem 4.2.

    >>> layer = match3(3, 7)
    >>> (evaluate(layer, layer.features_fn([1, 5, 6])) > 0).tolist()  # 1 + 1 + 5 = 7
    [True, True, False]
    """
    _positive("n", n)
    if modulus < 2:
        raise ValueError(f"modulus is {modulus}, needs at least 2")
    one, minus_p, p2, i, *slots = np.eye(8)
    zero = np.zeros(8)
    scale = n**4 * np.sqrt(8.0)

    def features(p: ArrayLike) -> np.ndarray:
        p = _integers("p", p, (n,), 1, modulus - 1)
        position = np.broadcast_to(np.arange(1.0, n + 1), p.shape)
        return _stack(-p, p**2, position, slots=4)

    def readout(x: np.ndarray, attention: np.ndarray) -> np.ndarray:
        _, minus_p, _, _, *pairs = np.moveaxis(x + attention, -1, 0)
        once = -minus_p + pairs[0] + pairs[1] - modulus
        twice = -minus_p + pairs[2] + pairs[3] - 2 * modulus
        return _hat(once) + _hat(twice) - 0.5

    w_f, w_g, w_h = [], [], []
    for total in (modulus, 2 * modulus):
        third = total / 3
        q = -minus_p - third * one
        q2 = p2 + 2 * third * minus_p + third**2 * one
        w_f.append([q2, q, one, zero, zero, zero, -scale * one, -2 * scale * q])
        w_g.append([-scale * one, -2 * scale * q, scale * i / n**2, q2, q, one, zero, zero])
        w_h.append([zero, zero, zero, -scale * one, -2 * scale * q, scale * i / n**3, q2, q])
    move = np.zeros((8, 8))
    move[6:8] = slots[:2]
    return StrassenConstruction(
        features_fn=features,
        W_f=np.array(w_f),
        W_g=np.array(w_g),
        W_h=np.array(w_h),
        V_1=np.stack(2 * [_into_slots(4, [-minus_p, one])]),
        V_2=np.stack(2 * [_into_slots(4, [one, -minus_p])]),
        W_O=np.stack([np.eye(8), move]),
        readout_fn=readout,
        min_gap=float(n),
        queries=slice(None),
    )


def quotient(m: int) -> StrassenConstruction:
    """[∃ k₁ ≠ k₂: A_{i k₁} = B_{k₂ j} = 1, col(k₁) = col(k₂)] at each of m² tokens, row by row.

    Token (i, j) carries A_ij, B_ij, col(i) and col(j). Query (i, j) scores (c, d), (k, ℓ) with

        64 m⁸ [−(i − c)² − (col d − col k)² − (ℓ − j)² + A_cd + B_kℓ
               + (d − k)² / m³ + (c m³ + d m² + k m + ℓ) / m⁸];

    the term in (d − k)² prefers d ≠ k among pairs that are otherwise as good.

    Args:
      m: size of the set.

    Returns:
      Weights with d = 19, r = 12. ``features_fn(A, B, col)`` takes matrices [..., m, m] of 0 and
      1 and colours [..., m] in 1..m; the read-out [..., m²] is positive where the label is 1. The
      gap is at least 64.

    Raises:
      ValueError: m < 1; ``features_fn``: other shapes or numbers.

    Source: arXiv:2501.19215, theorem 5.1.

    >>> layer = quotient(2)
    >>> x = layer.features_fn([[1, 0], [0, 0]], [[1, 0], [1, 0]], [1, 1])
    >>> (evaluate(layer, x) > 0).tolist()  # 1 → 1 in A, 2 → 1 in B, both of colour 1
    [True, False, False, False]
    """
    _positive("m", m)
    one, i, j, i2, j2, ci, cj, ci2, cj2, a, b, *_ = np.eye(19)
    zero = np.zeros(19)
    none = [zero, zero, zero]
    scale = 64 * float(m) ** 8 * np.sqrt(12.0)
    unequal, unique = float(m) ** -3, float(m) ** -8

    def features(A: ArrayLike, B: ArrayLike, col: ArrayLike) -> np.ndarray:
        row, column, row2, column2 = _grid(m)
        col = _integers("col", col, (m,), 1, m)
        of_row, of_column = np.repeat(col, m, axis=-1), np.concatenate(m * [col], axis=-1)
        colours = of_row, of_column, of_row**2, of_column**2
        return _stack(row, column, row2, column2, *colours, *_relations(m, A, B), slots=8)

    def readout(x: np.ndarray, attention: np.ndarray) -> np.ndarray:
        total = np.moveaxis(x + attention, -1, 0)
        i, j = total[1:3]
        c, d, a_cd, col_d, k, ell, b_kl, col_k = total[11:]
        wrong = abs(c - i) + abs(ell - j) + abs(col_d - col_k) + (1 - a_cd) + (1 - b_kl)
        return 0.5 - wrong - _hat(d - k)

    w_g3 = scale * (-i2 + a + unique * (m**3 * i + m**2 * j))
    w_h6 = scale * (-ci2 + b + unique * (m * i + j))
    far = [unequal * scale * one, -2 * unequal * scale * i, unequal * scale * i2]
    return StrassenConstruction(
        features_fn=features,
        W_f=np.stack([i2, i, one, *none, *none, -scale * one, 2 * scale * j, -scale * j2]),
        W_g=np.stack([-scale * one, 2 * scale * i, w_g3, cj2, cj, one, j2, j, one, *none]),
        W_h=np.stack([*none, -scale * one, 2 * scale * ci, w_h6, *far, j2, j, one]),
        V_1=_into_slots(11, [i, j, a, cj, one, one, one, one]),
        V_2=_into_slots(11, [one, one, one, one, i, j, b, ci]),
        W_O=np.eye(19),
        readout_fn=readout,
        min_gap=64.0,
        queries=slice(None),
    )


def triangular_relation(m: int) -> TriangularConstruction:
    """(B∘A)_ij by one head of triangular attention on the matrix of tokens.

    q_iℓ = C A_iℓ, k_ℓj = B_ℓj, v¹ = A, v² = B with C = 4 ln m: the output is 0 where no ℓ works,
    and at least e^C / (e^C + m − 1) ≥ 1/2 where one does.

    Args:
      m: size of the set.

    Returns:
      Weights with d = 3. ``features_fn(A, B)`` takes matrices [..., m, m] of 0 and 1 and gives
      [..., m, m, 3]; the read-out [..., m, m], attention − 1/4, is positive where the label is 1.

    Raises:
      ValueError: m < 1; ``features_fn``: other shapes or numbers.

    Source: arXiv:2501.19215, sec. 5.

    >>> layer = triangular_relation(2)
    >>> x = layer.features_fn([[0, 1], [0, 0]], [[0, 0], [0, 1]])
    >>> (evaluate(layer, x) > 0).tolist()
    [[False, True], [False, False]]
    """
    _positive("m", m)

    def features(A: ArrayLike, B: ArrayLike) -> np.ndarray:
        tokens = _stack(*_relations(m, A, B), slots=0)
        return tokens.reshape(*tokens.shape[:-2], m, m, 3)

    _, a, b = np.eye(3)[:, None]
    return TriangularConstruction(
        features_fn=features,
        W_q=4 * np.log(m) * a,
        W_k=b,
        V_1=a,
        V_2=b,
        readout_fn=lambda x, attention: attention[..., 0] - 0.25,
    )


def _into_slots(first: int, rows: list[np.ndarray]) -> np.ndarray:
    """[d, d] map that writes ``rows · x`` into the coordinates from ``first`` on."""
    out = np.zeros((len(rows[0]), len(rows[0])))
    out[first : first + len(rows)] = rows
    return out


def _hat(t: np.ndarray) -> np.ndarray:
    """1 at 0, 0 at all other integers; three ReLUs."""
    return np.maximum(t + 1, 0) - 2 * np.maximum(t, 0) + np.maximum(t - 1, 0)


def _stack(*columns: np.ndarray, slots: int) -> np.ndarray:
    """Features (1, columns.., 0..) on a new last axis."""
    columns = tuple(np.broadcast_arrays(*columns))
    one, zero = np.ones_like(columns[0]), np.zeros_like(columns[0])
    return np.stack([one, *columns, *(slots * [zero])], axis=-1)


def _grid(m: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """i, j, i², j² of the m² tokens (i, j), row by row."""
    i, j = (a.reshape(-1) for a in np.indices((m, m), dtype=np.float64) + 1)
    return i, j, i**2, j**2


def _relations(m: int, A: ArrayLike, B: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    a, b = _integers("A", A, (m, m), 0, 1), _integers("B", B, (m, m), 0, 1)
    return a.reshape(*a.shape[:-2], m * m), b.reshape(*b.shape[:-2], m * m)


def _positive(name: str, value: int) -> None:
    if value < 1:
        raise ValueError(f"{name} is {value}, needs at least 1")


def _integers(
    name: str, value: ArrayLike, shape: tuple[int, ...], low: int, high: int
) -> np.ndarray:
    """The numbers as float64, after a check of their last axes and of their range."""
    a = np.asarray(value, np.float64)
    if a.ndim < len(shape) or a.shape[a.ndim - len(shape) :] != shape:
        needs = ", ".join(["...", *map(str, shape)])
        raise ValueError(f"{name} has shape {a.shape}, needs [{needs}]")
    bad = a[(a != np.floor(a)) | (a < low) | (a > high)]
    if bad.size:
        raise ValueError(f"{name} holds {bad.flat[0]:g}, needs integers from {low} to {high}")
    return a
