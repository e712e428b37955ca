"""Boolean functions whose splitting VC dimension is known, with their shattering certificates.

arXiv:2501.19215, sec. 3: indexing, disjointness and the sum of two numbers are one step of
function composition, of relation composition and of Match3. Their splitting VC dimension grows
with the input, so one layer of standard attention must grow with it; parity, AND and majority
stay at 1.

Each function takes words int [..., n] and returns bool [...]. Words are split into their parts by
their length, and positions count from 0.
"""

import numpy as np

from neurips25.attention.splitting_vc import ShatteringCertificate


def parity(word: np.ndarray) -> np.ndarray:
    """x_1 ⊕ ... ⊕ x_n of bits [..., n]. split-VC 1.

    >>> bool(parity(np.array([1, 1, 1])))
    True
    """
    return word.sum(axis=-1) % 2 == 1


def conjunction(word: np.ndarray) -> np.ndarray:
    """x_1 ∧ ... ∧ x_n of bits [..., n]. split-VC 1."""
    return np.asarray(word.all(axis=-1))


def majority(word: np.ndarray) -> np.ndarray:
    """[more than half of the bits [..., n] are 1]. split-VC 1."""
    return 2 * word.sum(axis=-1) > word.shape[-1]


def xor_of_ands(word: np.ndarray) -> np.ndarray:
    """(x_1 ∧ x_2) ⊕ (x_3 ∧ x_4) ⊕ ... of bits [..., 2m]. split-VC 2 with m = 2.

    Raises:
      ValueError: a word of odd length.
    """
    _even(word)
    return (word[..., ::2] & word[..., 1::2]).sum(axis=-1) % 2 == 1


def inner_product(word: np.ndarray) -> np.ndarray:
    """a · b mod 2 of words (a_1..a_m, b_1..b_m) of bits, [..., 2m].

    Raises:
      ValueError: a word of odd length.
    """
    a, b = _halves(word)
    return (a & b).sum(axis=-1) % 2 == 1


def disjointness(word: np.ndarray) -> np.ndarray:
    """Disj_m = [∃i: a_i = b_i = 1] of words (a_1..a_m, b_1..b_m) of bits, [..., 2m]. split-VC ≥ m.

    Raises:
      ValueError: a word of odd length.

    Source: arXiv:2501.19215, sec. 3.

    >>> disjointness(np.array([[1, 0, 0, 1], [1, 0, 1, 0]])).tolist()
    [False, True]
    """
    a, b = _halves(word)
    return (a & b).any(axis=-1)


def indexing(word: np.ndarray) -> np.ndarray:
    """Ind_n = [q_p = 1] of words (p, q_1..q_n), [..., n + 1]. split-VC ≥ n.

    The alphabet is 0..n: p from 1, where p = 0 gives 0, and every q other than 1 counts as 0.

    Source: arXiv:2501.19215, sec. 3.

    >>> indexing(np.array([[2, 0, 1, 0], [3, 0, 1, 0]])).tolist()
    [True, False]
    """
    p = word[..., :1]
    return ((p > 0) & (np.take_along_axis(word, p, axis=-1) == 1))[..., 0]


def sum2(word: np.ndarray) -> np.ndarray:
    """Sum2[ℓ, 2ℓ] = [∃ j, k: p_j + p_k ≡ −1 (mod 2ℓ)] of words [..., ℓ]. split-VC ≥ ℓ/2 for even ℓ.

    Source: arXiv:2501.19215, sec. 3; :func:`sum2_alphabet` gives the symbols.

    >>> sum2(np.array([[1, 1, 2, 5], [1, 1, 2, 3]])).tolist()  # 2 + 5 = 7
    [True, False]
    """
    modulus = 2 * word.shape[-1]
    sums = word[..., :, None] + word[..., None, :]
    return (sums % modulus == modulus - 1).any(axis=(-2, -1))


def sum2_alphabet(ell: int) -> tuple[int, ...]:
    """1..2ℓ−1 without 2ℓ−2, which alone would answer to the filler 1.

    >>> sum2_alphabet(4)
    (1, 2, 3, 4, 5, 7)
    """
    return tuple(s for s in range(1, 2 * ell) if s != 2 * ell - 2)


def indexing_certificate(n: int) -> ShatteringCertificate:
    """split-VC(Ind_n) ≥ n: the row p reads bit p of the column.

    Raises:
      ValueError: n < 1.

    Source: arXiv:2501.19215, sec. 3.

    >>> from neurips25.attention.splitting_vc import verify_certificate
    >>> verify_certificate(indexing, indexing_certificate(5))
    True
    """
    if n < 1:
        raise ValueError(f"n is {n}, needs at least 1")
    return ShatteringCertificate(
        alphabet=tuple(range(n + 1)),
        positions=(0,),
        rows=np.arange(1, n + 1)[:, None],
        columns=_patterns(n),
    )


def disjointness_certificate(m: int) -> ShatteringCertificate:
    """split-VC(Disj_m) ≥ m: the row e_i reads bit i of the column.

    Raises:
      ValueError: m < 1.

    Source: arXiv:2501.19215, sec. 3.
    """
    if m < 1:
        raise ValueError(f"m is {m}, needs at least 1")
    return ShatteringCertificate(
        alphabet=(0, 1),
        positions=tuple(range(m)),
        rows=np.eye(m, dtype=np.int64),
        columns=_patterns(m),
    )


def sum2_certificate(ell: int) -> ShatteringCertificate:
    """split-VC(Sum2[ℓ, 2ℓ]) ≥ ℓ/2 for even ℓ: entry 2i of row i answers to 2ℓ − 2i − 1 only.

    Row i is all ones but for 2i at position i; column c has 2ℓ − 2i − 1 at i where c_i = 1, and
    ones elsewhere.

    Raises:
      ValueError: ℓ odd or below 4.

    Source: arXiv:2501.19215, sec. 3.
    """
    if ell < 4 or ell % 2:
        raise ValueError(f"ell is {ell}, needs an even number from 4 on")
    half = ell // 2
    i = np.arange(1, half + 1)
    return ShatteringCertificate(
        alphabet=sum2_alphabet(ell),
        positions=tuple(range(half)),
        rows=np.where(np.eye(half, dtype=bool), 2 * i, 1),
        columns=np.where(_patterns(half) == 1, 2 * ell - 2 * i - 1, 1),
    )


def _patterns(k: int) -> np.ndarray:
    """int [2^k, k]: bit t of pattern c."""
    return np.arange(2**k)[:, None] >> np.arange(k) & 1


def _even(word: np.ndarray) -> None:
    if word.shape[-1] % 2:
        raise ValueError(f"word has shape {word.shape}, needs an even length on its last axis")


def _halves(word: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    _even(word)
    half = word.shape[-1] // 2
    return word[..., :half], word[..., half:]
