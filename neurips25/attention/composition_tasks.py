"""Function composition and relation composition: generators with exact labels.

Kozachinskiy et al., "Strassen Attention, Split VC Dimension and Compositionality in
Transformers", arXiv:2501.19215. Every label asks whether three tokens fit together:

    function composition   f(f(0)) = 0, at the query token
    binary relation        (B ∘ A)_ij = 1  iff  A_ik = B_kj = 1 for some k
    quotient relation      A_ik = B_lj = 1 and col(k) = col(l) for some k ≠ l

The fourth task of the paper, Match3, is in ``match3.py``. A data set is a pure function of
its seed, and made by numpy on the host.
"""

import enum

import numpy as np
from numpy.typing import ArrayLike

from neurips25.attention.task_data import IGNORED_LABEL, CompositionTask, TaskData, check_sizes


class FunctionCompositionVariant(enum.StrEnum):
    """How f is changed where the label should be 0 but f(f(0)) = 0.

    With i uniform over the places >= 1 where f(i) ≠ 0: PAPER sets f(0) to i, as the text
    says; PUBLISHED_CODE sets f(f(0)) to i.
    """

    PAPER = "paper"
    PUBLISHED_CODE = "published_code"


def function_composition_label(seq: ArrayLike) -> np.ndarray:
    """1 where f(f(0)) = 0.

    Args:
      seq: integers [..., n], the values f(0), ..., f(n - 1). Padding after them is not read.

    Returns:
      int32 [...].

    Raises:
      ValueError: if some f(0) is not in [0, n).

    >>> int(function_composition_label([2, 1, 0])), int(function_composition_label([2, 1, 1]))
    (1, 0)
    """
    f = np.asarray(seq)
    first = f[..., :1]
    if np.any((first < 0) | (first >= f.shape[-1])):
        raise ValueError(f"seq has f(0) outside [0, {f.shape[-1]}), the places of f")
    return (np.take_along_axis(f, first, -1)[..., 0] == 0).astype(np.int32)


def binary_relation_labels(relation: ArrayLike) -> np.ndarray:
    """(R ∘ R)_ij = 1 iff R_ik = R_kj = 1 for some k.

    Args:
      relation: [..., m, m], zero or not. Zero rows and columns of padding change nothing.

    Returns:
      int32 [..., m, m].

    >>> binary_relation_labels([[0, 1], [1, 0]]).tolist()
    [[1, 0], [0, 1]]
    """
    r = _square(relation)
    return (r @ r > 0).astype(np.int32)


def quotient_relation_labels(relation: ArrayLike, colours: ArrayLike) -> np.ndarray:
    """1 iff R_ik = R_jl = 1 and col(k) = col(l) for some k ≠ l; A = R and B = Rᵀ.

    Args:
      relation: R [..., m, m], zero or not. Zero rows and columns of padding change nothing.
      colours: integers [..., m].

    Returns:
      int32 [..., m, m], ``IGNORED_LABEL`` on the diagonal.

    Raises:
      ValueError: shapes that do not fit each other.

    >>> quotient_relation_labels([[0, 1, 0], [0, 0, 1], [0, 0, 0]], [0, 5, 5]).tolist()
    [[-100, 1, 0], [1, -100, 0], [0, 0, -100]]
    """
    r, col = _square(relation), np.asarray(colours)
    if col.shape != r.shape[:-1]:
        raise ValueError(f"colours has shape {col.shape}, needs {r.shape[:-1]} beside relation")
    itself = np.eye(r.shape[-1], dtype=bool)
    same = (col[..., :, None] == col[..., None, :]) & ~itself
    found = r @ same.astype(np.float32) @ np.swapaxes(r, -1, -2) > 0
    return np.where(itself, IGNORED_LABEL, found).astype(np.int32)


def make_function_composition(
    seed: int,
    num: int,
    n_min: int = 25,
    n_max: int = 30,
    variant: FunctionCompositionVariant = FunctionCompositionVariant.PAPER,
) -> TaskData:
    """Sequences (⊥, f(0), ..., f(n - 1)); the label at ⊥ is 1 iff f(f(0)) = 0.

    f is uniform on {0..n-1}, the wanted label a fair coin. Where f has another label it is
    changed: to 1 by f(f(0)) = 0, to 0 as ``variant`` says.

    Args:
      seed: of numpy's generator.
      num: examples N.
      n_min: n is uniform on {n_min..n_max}, n_min >= 2.
      n_max: see ``n_min``; the data have n_max + 1 tokens.
      variant: see its class.

    Returns:
      Fields (position, symbol, is_query): ⊥ is (0, 0, 1), f(i) is (i + 1, f(i), 0).

    Raises:
      ValueError: a size that is out of its range.

    Source: arXiv:2501.19215, experiments.
    """
    check_sizes(num, least=2, n_min=n_min, n_max=n_max)
    variant = FunctionCompositionVariant(variant)
    rng = np.random.default_rng(seed)
    n = rng.integers(n_min, n_max, num, endpoint=True)
    f = rng.integers(0, n[:, None], (num, n_max))
    wanted = rng.integers(0, 2, num)
    has = function_composition_label(f)

    rows = np.flatnonzero((wanted == 1) & (has == 0))
    f[rows, f[rows, 0]] = 0

    rows = np.flatnonzero((wanted == 0) & (has == 1))
    places = np.arange(n_max)
    nonzero = (f[rows] != 0) & (places >= 1) & (places < n[rows, None])
    barren = np.flatnonzero(~nonzero.any(1))
    made = rng.integers(1, n[rows[barren]])
    f[rows[barren], made] = rng.integers(1, n[rows[barren]])
    nonzero[barren, made] = True
    chosen = np.argmax(np.where(nonzero, rng.random(nonzero.shape), -1.0), 1)
    changed = 0 if variant == FunctionCompositionVariant.PAPER else f[rows, 0]
    f[rows, changed] = chosen

    tokens = np.zeros((num, n_max + 1, 3), np.int32)
    mask = np.arange(n_max + 1) <= n[:, None]
    tokens[:, :, 0] = np.arange(n_max + 1)
    tokens[:, 1:, 1] = f
    tokens[:, 0, 2] = 1
    tokens *= mask[:, :, None]
    labels = np.full((num, n_max + 1), IGNORED_LABEL, np.int32)
    labels[:, 0] = function_composition_label(f)
    return TaskData(
        task=CompositionTask.FUNCTION_COMPOSITION,
        tokens=tokens,
        mask=mask,
        labels=labels,
        lengths=(n + 1).astype(np.int32),
        field_sizes=(n_max + 1, n_max, 2),
        scale=float(n_max**2),
    )


def make_binary_relation(
    seed: int, num: int, m_min: int = 6, m_max: int = 8, p: float = 0.325
) -> TaskData:
    """Random relations R; the label of (i, j) is (R ∘ R)_ij.

    R_ij is 1 with probability p, on the diagonal too. At p = 0.325 about 55 % of labels are 1.

    Args:
      seed: of numpy's generator.
      num: examples N.
      m_min: the number of elements m is uniform on {m_min..m_max}.
      m_max: see ``m_min``; the data have m_max² tokens.
      p: density of R.

    Returns:
      Fields (i, j, R_ij, R_ij), as A = B = R.

    Raises:
      ValueError: a number that is out of its range.

    Source: arXiv:2501.19215, experiments.
    """
    m, real, r = _random_relations(np.random.default_rng(seed), num, m_min, m_max, p)
    return _grid_data(
        CompositionTask.BINARY_RELATION, m, real, [r, r], binary_relation_labels(r), (2, 2)
    )


def make_quotient_relation(
    seed: int,
    num: int,
    m_min: int = 6,
    m_max: int = 8,
    p: float = 0.433,
    num_colours: int | None = None,
    zero_diagonal: bool = True,
) -> TaskData:
    """Random relations and colours; labels as ``quotient_relation_labels``.

    Args:
      seed: of numpy's generator.
      num: examples N.
      m_min: the number of elements m is uniform on {m_min..m_max}.
      m_max: see ``m_min``; the data have m_max² tokens.
      p: density of R off its diagonal.
      num_colours: colours are uniform on that many. None: on m, as the paper says; the
        authors' own code had 9.
      zero_diagonal: whether R_ii is 0 (the published code) or random like the rest.

    Returns:
      Fields (i, j, R_ij, R_ji, col(i), col(j)), as A = R and B = Rᵀ. Colours count from 0.

    Raises:
      ValueError: a number that is out of its range.

    Source: arXiv:2501.19215, experiments.
    """
    if num_colours is not None and num_colours < 1:
        raise ValueError(f"num_colours must be None or >= 1, got {num_colours}")
    rng = np.random.default_rng(seed)
    m, real, r = _random_relations(rng, num, m_min, m_max, p)
    if zero_diagonal:
        r &= ~np.eye(m_max, dtype=bool)
    colours = rng.integers(0, m[:, None] if num_colours is None else num_colours, (num, m_max))
    values = [r, r.swapaxes(1, 2), colours[:, :, None], colours[:, None, :]]
    labels = quotient_relation_labels(r, colours)
    sizes = (2, 2) + 2 * (num_colours or m_max,)
    return _grid_data(CompositionTask.QUOTIENT_RELATION, m, real, values, labels, sizes)


def contains_zero_rule(data: TaskData) -> float:
    """Accuracy of "f(f(0)) = 0 iff f takes the value 0": about 0.68 at the published sizes.

    Raises:
      ValueError: if ``data`` is not of function composition.
    """
    if data.task != CompositionTask.FUNCTION_COMPOSITION:
        raise ValueError(f"data is of {data.task}, needs {CompositionTask.FUNCTION_COMPOSITION}")
    says = ((data.tokens[:, 1:, 1] == 0) & data.mask[:, 1:]).any(1)
    return float(np.mean(says == data.labels[:, 0]))


def _random_relations(
    rng: np.random.Generator, num: int, m_min: int, m_max: int, p: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sizes m [N], and bool [N, m_max, m_max]: what is real, and R."""
    check_sizes(num, least=1, m_min=m_min, m_max=m_max)
    if not 0 <= p <= 1:
        raise ValueError(f"p must be in [0, 1], got {p}")
    m = rng.integers(m_min, m_max, num, endpoint=True)
    element = np.arange(m_max) < m[:, None]
    real = element[:, :, None] & element[:, None, :]
    return m, real, (rng.random(real.shape) < p) & real


def _grid_data(
    task: CompositionTask,
    m: np.ndarray,
    real: np.ndarray,
    values: list[np.ndarray],
    labels: np.ndarray,
    value_sizes: tuple[int, ...],
) -> TaskData:
    num, side, _ = real.shape
    places = np.arange(side)
    tokens = np.zeros((*real.shape, 2 + len(values)), np.int32)
    for k, value in enumerate([places[:, None], places, *values]):
        tokens[..., k] = value
    tokens *= real[..., None]
    return TaskData(
        task=task,
        tokens=tokens.reshape(num, side * side, -1),
        mask=real.reshape(num, -1),
        labels=np.where(real, labels, IGNORED_LABEL).astype(np.int32).reshape(num, -1),
        lengths=m.astype(np.int32),
        field_sizes=(side, side, *value_sizes),
        scale=float(side**2),
        side=side,
    )


def _square(relation: ArrayLike) -> np.ndarray:
    r = np.asarray(relation)
    if r.ndim < 2 or r.shape[-1] != r.shape[-2]:
        raise ValueError(f"relation has shape {r.shape}, needs [..., m, m]")
    return (r != 0).astype(np.float32)
