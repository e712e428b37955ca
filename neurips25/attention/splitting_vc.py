"""Splitting VC dimension: how much two parts of an input have to tell each other.

arXiv:2501.19215, sec. 3. For f: Σⁿ → {0, 1} and a set A of positions, the matrix M_f^A has a row
for each word w₁ on A, a column for each word w₂ on the other positions, and the entries
f(w₁ ⊕ w₂). Then

    split-VC(f) = max over A of the VC dimension of the columns of M_f^A,

the largest number of rows on which the columns show all 2^k patterns. One layer of standard
attention that computes f has size at least split-VC(f)^Ω(1) (theorem 3.2), whatever its precision.
This file computes the number for small functions, with a certificate that is checked at a glance.

Positions count from 0: they are indices of the last axis of a word.
"""

import dataclasses
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Literal, overload

import numpy as np
from numpy.typing import ArrayLike

WordFunction = Callable[[np.ndarray], np.ndarray] | np.ndarray
"""f as a vectorised call on integer words [..., n] -> bool [...], or as its truth table [|Σ|]*n."""

MAX_WORDS = 2**16
"""Longest truth table that is searched."""

_CHUNK = 2**22  # entries that one batch of candidate sets looks at


@dataclasses.dataclass(frozen=True, eq=False)
class ShatteringCertificate:
    """Rows of M_f^A that the columns shatter, and a column for each pattern.

    Bit t of pattern c is ``f(rows[t] ⊕ columns[c])``, so k rows come with 2^k columns.
    """

    alphabet: tuple[int, ...]
    """Σ."""
    positions: tuple[int, ...]
    """A, ascending."""
    rows: np.ndarray
    """int [k, |A|]: words on A."""
    columns: np.ndarray
    """int [2^k, n − |A|]: words on the other positions, in ascending order of these."""


def shatters(matrix: ArrayLike, rows: Sequence[int]) -> bool:
    """Whether the columns of a 0/1 matrix show all 2^k patterns on k of its rows.

    Args:
      matrix: bool [R, C].
      rows: k distinct indices of rows.

    Returns:
      True or False. No rows are shattered as soon as there is a column.

    Raises:
      ValueError: not a matrix.

    Source: arXiv:2501.19215, sec. 3.

    >>> shatters([[0, 0, 1, 1], [0, 1, 0, 1], [0, 0, 0, 1]], [0, 1])
    True
    """
    matrix = _matrix(matrix)
    if len(set(rows)) < len(rows) or 2 ** len(rows) > matrix.shape[1]:
        return False
    return bool(_shattered(matrix, np.array([list(rows)], np.intp))[0])


def vc_dimension(columns: ArrayLike) -> int:
    """VC dimension of a class of 0/1 functions: the columns of a matrix, on its rows.

    Args:
      columns: bool [R, C].

    Returns:
      The size of the largest set of rows that :func:`shatters`.

    Raises:
      ValueError: not a matrix, or one without columns.

    Source: arXiv:2501.19215, sec. 3.

    >>> vc_dimension([[0, 0, 0, 1], [0, 0, 1, 1], [0, 1, 1, 1]])  # thresholds
    1
    """
    matrix = _matrix(columns)
    if not matrix.shape[1]:
        raise ValueError(f"columns has shape {matrix.shape}, needs at least one column")
    return len(_largest_shattered(matrix, 0))


@overload
def split_vc_dimension(
    f: WordFunction,
    alphabet: Sequence[int],
    n: int,
    return_certificate: Literal[True] = True,
) -> tuple[int, ShatteringCertificate]: ...


@overload
def split_vc_dimension(
    f: WordFunction, alphabet: Sequence[int], n: int, return_certificate: Literal[False]
) -> int: ...


def split_vc_dimension(
    f: WordFunction, alphabet: Sequence[int], n: int, return_certificate: bool = True
) -> int | tuple[int, ShatteringCertificate]:
    """split-VC(f), by search over all sets A of positions.

    Equal rows and equal columns of M_f^A count once; shattered sets of rows grow one row at a
    time; an A is left out where min(rows, log₂ columns) cannot beat the best so far. |Σ|ⁿ = 2¹²
    takes seconds; each letter more, several times as long.

    Args:
      f: a vectorised function of words int [..., n] over the alphabet, or a truth table with n
        axes whose indices stand for the symbols in the order of ``alphabet``.
      alphabet: the symbols Σ.
      n: length of the words.
      return_certificate: also return the proof.

    Returns:
      The value, or (value, :class:`ShatteringCertificate`).

    Raises:
      ValueError: more than ``MAX_WORDS`` words, repeated symbols, or a table of another shape.

    Source: arXiv:2501.19215, sec. 3.

    >>> both = lambda w: w[..., 0] & w[..., 2] | w[..., 1] & w[..., 3]
    >>> value, proof = split_vc_dimension(both, (0, 1), 4)
    >>> value, proof.positions, proof.rows.tolist(), proof.columns.tolist()
    (2, (0, 1), [[0, 1], [1, 0]], [[0, 0], [0, 1], [1, 0], [1, 1]])
    """
    alphabet = tuple(alphabet)
    table = _truth_table(f, alphabet, n)
    best: list[int] = []
    best_positions: tuple[int, ...] = ()
    for size in range(n + 1):
        # Fewer letters in the columns than this cannot show more patterns, whatever f is.
        if (n - size) * math.log2(len(alphabet)) < len(best) + 1:
            break
        for positions in itertools.combinations(range(n), size):
            rows = _largest_shattered(_split(table, positions), len(best))
            if len(rows) > len(best):
                best, best_positions = rows, positions
    if not return_certificate:
        return len(best)
    return len(best), _certificate(table, alphabet, best_positions, best)


def split_matrix(
    f: WordFunction, alphabet: Sequence[int], n: int, positions: Sequence[int]
) -> np.ndarray:
    """M_f^A, with f(w₁ ⊕ w₂) for each word w₁ on A and w₂ on the other positions.

    Args:
      f: as for :func:`split_vc_dimension`.
      alphabet: the symbols Σ.
      n: length of the words.
      positions: A, distinct numbers in 0..n−1.

    Returns:
      bool [|Σ|^|A|, |Σ|^(n−|A|)], words in lexicographic order of their symbols.

    Raises:
      ValueError: as for :func:`split_vc_dimension`, or positions out of range.

    Source: arXiv:2501.19215, sec. 3.

    >>> split_matrix(lambda w: w[..., 0] & w[..., 1], (0, 1), 2, [0]).astype(int).tolist()
    [[0, 0], [0, 1]]
    """
    table = _truth_table(f, tuple(alphabet), n)
    chosen = tuple(sorted(set(positions)))
    if len(chosen) < len(positions) or (chosen and not 0 <= chosen[0] <= chosen[-1] < n):
        raise ValueError(
            f"positions is {list(positions)}, needs distinct numbers from 0 to {n - 1}"
        )
    return _split(table, chosen)


def verify_certificate(f: WordFunction, certificate: ShatteringCertificate) -> bool:
    """Whether the certificate proves split-VC(f) ≥ its number of rows.

    Only k 2^k words are looked at, so f may be far too large for :func:`split_vc_dimension`.

    Args:
      f: as for :func:`split_vc_dimension`.
      certificate: rows, columns and the positions of the rows.

    Returns:
      True if f shows pattern c on column c for all 2^k patterns.

    Raises:
      ValueError: rows and columns that do not fit each other.

    Source: arXiv:2501.19215, definition in sec. 3.
    """
    rows, columns, positions = certificate.rows, certificate.columns, certificate.positions
    if rows.shape[1] != len(positions) or len(columns) != 2 ** len(rows):
        raise ValueError(
            f"certificate has rows {rows.shape} and columns {columns.shape}, needs "
            f"[k, {len(positions)}] and [2^k, n - {len(positions)}]"
        )
    n = len(positions) + columns.shape[1]
    words = np.empty((len(rows), len(columns), n), np.int64)
    words[..., list(positions)] = rows[:, None]
    words[..., [i for i in range(n) if i not in positions]] = columns
    values = _call(f, certificate.alphabet, words)
    patterns = np.arange(len(columns)) >> np.arange(len(rows))[:, None] & 1
    return bool((values == patterns).all())


def _call(f: WordFunction, alphabet: tuple[int, ...], words: np.ndarray) -> np.ndarray:
    if not isinstance(f, np.ndarray):
        return np.asarray(f(words)).astype(bool)
    index = np.argmax(words[..., None] == np.array(alphabet), axis=-1)
    return f[tuple(np.moveaxis(index, -1, 0))].astype(bool)


def _truth_table(f: WordFunction, alphabet: tuple[int, ...], n: int) -> np.ndarray:
    """bool [|Σ|]*n."""
    size = len(alphabet)
    if size < 1 or len(set(alphabet)) < size or n < 1:
        raise ValueError(f"alphabet is {alphabet} and n is {n}, need distinct symbols and n >= 1")
    if size**n > MAX_WORDS:
        raise ValueError(
            f"|alphabet|^n is {size}^{n} = {size**n} words, needs at most {MAX_WORDS} for a search"
        )
    if isinstance(f, np.ndarray):
        if f.shape != n * (size,):
            raise ValueError(f"f has shape {f.shape}, needs {n * (size,)}")
        return _zeros_and_ones(f)
    words = np.array(alphabet)[np.moveaxis(np.indices(n * (size,)), 0, -1)]
    table = np.asarray(f(words))
    if table.shape != n * (size,):
        raise ValueError(f"f maps words {words.shape} to {table.shape}, needs {n * (size,)}")
    return _zeros_and_ones(table)


def _zeros_and_ones(table: np.ndarray) -> np.ndarray:
    if not np.isin(table, (0, 1)).all():
        raise ValueError(f"f takes the values {np.unique(table)[:5].tolist()}, needs 0 and 1 only")
    return table.astype(bool)


def _split(table: np.ndarray, positions: tuple[int, ...]) -> np.ndarray:
    others = [i for i in range(table.ndim) if i not in positions]
    return table.transpose(*positions, *others).reshape(table.shape[0] ** len(positions), -1)


def _matrix(matrix: ArrayLike) -> np.ndarray:
    matrix = np.asarray(matrix, bool)
    if matrix.ndim != 2:
        raise ValueError(f"matrix has shape {matrix.shape}, needs [rows, columns]")
    return matrix


def _distinct_columns(matrix: np.ndarray) -> np.ndarray:
    """Index of the first of each group of equal columns."""
    packed = np.ascontiguousarray(np.packbits(matrix, axis=0).T)
    return np.unique(packed, axis=0, return_index=True)[1]


def _largest_shattered(matrix: np.ndarray, more_than: int) -> list[int]:
    """A largest shattered set of rows if it has more than so many; else fewer or none."""
    rows = np.sort(_distinct_columns(matrix.T))
    matrix = matrix[rows]
    matrix = matrix[:, _distinct_columns(matrix)]
    bound = min(len(rows), matrix.shape[1].bit_length() - 1)
    largest: list[int] = []
    if bound <= more_than:
        return largest
    level = np.arange(len(rows))[:, None]
    for k in range(1, bound + 1):
        # Inside a shattered set of t rows, k rows show each pattern in 2^(t - k) distinct columns.
        level = level[_shattered(matrix, level, 2 ** max(0, more_than + 1 - k))]
        if not len(level):
            break
        largest = level[0].tolist()
        level = _joined(level)
    return rows[largest].tolist()


def _joined(level: np.ndarray) -> np.ndarray:
    """Sets of k + 1 rows as unions of two k-sets [S, k], sorted, that differ in the last row."""
    ends = np.flatnonzero((level[1:, :-1] != level[:-1, :-1]).any(axis=1)) + 1
    pieces = []
    for group in np.split(level, ends):
        a, b = np.triu_indices(len(group), 1)
        pieces.append(np.column_stack([group[a], group[b, -1]]))
    return np.concatenate(pieces)


def _shattered(matrix: np.ndarray, sets: np.ndarray, times: int = 1) -> np.ndarray:
    """bool [S]: which of the sets of rows [S, k] show all 2^k patterns, each so many times."""
    k, patterns = sets.shape[1], 2 ** sets.shape[1]
    chunk = max(1, _CHUNK // max(matrix.shape[1], patterns))
    out = np.empty(len(sets), bool)
    for start in range(0, len(sets), chunk):
        part = sets[start : start + chunk]
        codes = np.zeros((len(part), matrix.shape[1]), np.int64)
        for t in range(k):
            codes |= matrix[part[:, t]].astype(np.int64) << t
        codes += np.arange(len(part))[:, None] * patterns
        counts = np.bincount(codes.reshape(-1), minlength=len(part) * patterns)
        out[start : start + chunk] = (counts.reshape(-1, patterns) >= times).all(axis=1)
    return out


def _certificate(
    table: np.ndarray, alphabet: tuple[int, ...], positions: tuple[int, ...], rows: list[int]
) -> ShatteringCertificate:
    shown = _split(table, positions)[rows].astype(np.int64)
    codes = (shown << np.arange(len(rows))[:, None]).sum(axis=0)
    first = np.unique(codes, return_index=True)[1]

    def words(index: ArrayLike, length: int) -> np.ndarray:
        every = np.array(list(itertools.product(alphabet, repeat=length)), np.int64)
        return every[np.asarray(index, np.intp)]

    return ShatteringCertificate(
        alphabet=alphabet,
        positions=positions,
        rows=words(rows, len(positions)),
        columns=words(first, table.ndim - len(positions)),
    )
