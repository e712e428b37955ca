"""Batches of rows of arrays: shuffled epochs for training, and all rows in order to evaluate.

Batch k of ``ArrayBatches`` is a pure function of (seed, k), so that a resumed run, or one on
another number of hosts, sees the very batches that an undisturbed run would have seen.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping

import numpy as np

from neurips25.data.seekable import SeekableBatches, host_rows

ArrayBatch = dict[str, np.ndarray]


@dataclasses.dataclass(frozen=True, eq=False)
class ArrayBatches:
    """Shuffled epochs over arrays that share their leading axis.

    Step k belongs to epoch e = k // ``steps_per_epoch``, whose order of the rows is a
    permutation drawn from numpy's PCG64 seeded with ``[seed, e]``. The N mod B rows left over
    at the end of an epoch are dropped; another epoch leaves out others. ``iter(batches)``
    gives a ``SeekableBatches`` from step 0, ``batches.batch_at(step)`` any one batch.

    Args:
      arrays: name -> array ``[N, ...]`` of any dtype, with one N >= ``batch_size``.
      batch_size: rows B of the global batch.
      seed: in [0, 2**32).
      process_index: which host this is; it returns rows ``[i B / n, (i + 1) B / n)`` of the
        global batch.
      process_count: how many hosts n there are.

    Raises:
      ValueError: if there is no array, their leading axes differ or are shorter than a batch,
        or a number is out of its range.

    >>> batches = ArrayBatches({"x": np.arange(6)}, batch_size=3, seed=0)
    >>> batches.steps_per_epoch
    2
    >>> sorted(np.concatenate([batches.batch_at(step)["x"] for step in (0, 1)]).tolist())
    [0, 1, 2, 3, 4, 5]
    """

    arrays: Mapping[str, np.ndarray]
    batch_size: int
    seed: int = 0
    process_index: int = 0
    process_count: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "arrays", {k: np.asarray(v) for k, v in self.arrays.items()})
        rows = _row_count(self.arrays)
        host_rows(self.batch_size, self.process_index, self.process_count)
        if rows < self.batch_size:
            raise ValueError(f"arrays have {rows} rows, a batch needs {self.batch_size}")
        if not 0 <= self.seed < 2**32:
            raise ValueError(f"seed must be in [0, 2**32), got {self.seed}")

    def __iter__(self) -> SeekableBatches[ArrayBatch]:
        return SeekableBatches(self.batch_at)

    @property
    def steps_per_epoch(self) -> int:
        """Whole batches in the N rows: ``N // B``."""
        return _row_count(self.arrays) // self.batch_size

    def batch_at(self, step: int) -> ArrayBatch:
        """This host's rows of the batch of a step.

        Args:
          step: >= 0.

        Returns:
          name -> ``[B / n, ...]``, new arrays of the dtypes given.
        """
        epoch, k = divmod(step, self.steps_per_epoch)
        mine = host_rows(self.batch_size, self.process_index, self.process_count)
        batch = self._order(epoch)[k * self.batch_size : (k + 1) * self.batch_size]
        return {name: array[batch[mine]] for name, array in self.arrays.items()}

    @functools.cached_property
    def _order(self) -> Callable[[int], np.ndarray]:
        # All steps of an epoch share its order; only that of the epoch at hand is kept.
        return functools.lru_cache(maxsize=1)(self._permutation)

    def _permutation(self, epoch: int) -> np.ndarray:
        rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence([self.seed, epoch])))
        return rng.permutation(_row_count(self.arrays))


def evaluation_batches(
    arrays: Mapping[str, np.ndarray], batch_size: int, real: str = "real"
) -> Iterator[ArrayBatch]:
    """All rows in order, in batches of one shape; what is missing from the last one is zeros.

    Args:
      arrays: name -> array ``[N, ...]`` of any dtype, with one N >= 1.
      batch_size: rows B of a batch; may exceed N.
      real: under this name a batch tells which of its rows count.

    Returns:
      Iterator of name -> ``[B, ...]`` of the dtypes given, and ``real``: bool ``[B]``, False
      for the padding.

    Raises:
      ValueError: if there is no array or no row, their leading axes differ, ``batch_size`` is
        below 1, or ``real`` is the name of an array.

    >>> for batch in evaluation_batches({"x": np.array([5, 6, 7])}, batch_size=2):
    ...     print(batch["x"].tolist(), batch["real"].tolist())
    [5, 6] [True, True]
    [7, 0] [True, False]
    """
    arrays = {name: np.asarray(array) for name, array in arrays.items()}
    rows = _row_count(arrays)
    if rows < 1:
        raise ValueError("arrays have no rows")
    if batch_size < 1:
        raise ValueError(f"batch_size must be >= 1, got {batch_size}")
    if real in arrays:
        raise ValueError(f"real={real!r} is the name of an array; choose another one")

    def batches() -> Iterator[ArrayBatch]:
        for start in range(0, rows, batch_size):
            batch = {real: start + np.arange(batch_size) < rows}
            for name, array in arrays.items():
                padded = np.zeros((batch_size, *array.shape[1:]), array.dtype)
                piece = array[start : start + batch_size]
                padded[: len(piece)] = piece
                batch[name] = padded
            yield batch

    return batches()


def _row_count(arrays: Mapping[str, np.ndarray]) -> int:
    if not arrays:
        raise ValueError("arrays must hold at least one array")
    shapes = {name: list(array.shape) for name, array in arrays.items()}
    if any(not shape for shape in shapes.values()) or len({s[0] for s in shapes.values()}) > 1:
        raise ValueError(f"arrays must have one leading axis [N, ...], got shapes {shapes}")
    return next(iter(shapes.values()))[0]
