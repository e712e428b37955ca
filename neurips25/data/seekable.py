"""Iterators that can be put at any step: a pure function ``step -> batch`` with a position.

A batch that depends on nothing but its step number makes resuming trivial: the whole
state of the input pipeline is one integer. The protocol (``__next__``, ``get_state``,
``set_state``) is that of grain's ``DatasetIterator``, so either can feed a training loop.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Generic, SupportsIndex, TypeVar

Batch = TypeVar("Batch")


class SeekableBatches(Iterator[Batch], Generic[Batch]):
    """Endless iterator over ``batch_at(0), batch_at(1), ...`` with a saveable position.

    Args:
      batch_at: pure function from a step number (0, 1, 2, ...) to the batch of that step.
      position: step number of the first batch that ``next`` returns.

    Raises:
      ValueError: if ``position`` is negative.

    >>> squares = SeekableBatches(lambda step: step**2)
    >>> [next(squares) for _ in range(3)]
    [0, 1, 4]
    >>> squares.get_state()
    {'position': 3}
    >>> squares.set_state({"position": 10})
    >>> next(squares)
    100
    """

    def __init__(self, batch_at: Callable[[int], Batch], position: int = 0):
        self._batch_at = batch_at
        self.set_state({"position": position})

    def __next__(self) -> Batch:
        batch = self._batch_at(self._position)
        # Only after success: a caller that catches a read error can try the same step again.
        self._position += 1
        return batch

    def get_state(self) -> dict[str, Any]:
        """The state as a dict that ``json.dumps`` takes: ``{"position": next step}``."""
        return {"position": self._position}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Puts the iterator where ``get_state`` was called.

        Raises:
          ValueError: if ``state`` holds no position that is an integer >= 0.
        """
        position = state.get("position")
        if isinstance(position, bool) or not isinstance(position, SupportsIndex):
            raise ValueError(f"state needs an integer 'position', got {dict(state)}")
        step = position.__index__()
        if step < 0:
            raise ValueError(f"position must be >= 0, got {step}")
        self._position = step


def host_rows(batch_size: int, process_index: int = 0, process_count: int = 1) -> slice:
    """Rows of a global batch that one host reads: ``[i B / n, (i + 1) B / n)``.

    Args:
      batch_size: B, rows of the global batch; a multiple of ``process_count``.
      process_index: i, which host this is (``jax.process_index()``).
      process_count: n, how many hosts there are (``jax.process_count()``).

    Raises:
      ValueError: if the batch cannot be shared out evenly, or there is no such host.

    >>> host_rows(16, process_index=1, process_count=4)
    slice(4, 8, None)
    """
    if process_count < 1 or not 0 <= process_index < process_count:
        raise ValueError(
            f"process_index must be in [0, process_count), got {process_index} of {process_count}"
        )
    if batch_size < 1 or batch_size % process_count:
        raise ValueError(
            f"batch_size must be a positive multiple of process_count={process_count}, "
            f"got {batch_size}"
        )
    rows = batch_size // process_count
    return slice(process_index * rows, (process_index + 1) * rows)
