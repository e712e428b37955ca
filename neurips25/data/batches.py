"""Batches of next-token training windows, at random for training and in order to evaluate.

Batch k of ``TokenBatches`` is a pure function of (seed, k): a resumed run, or one on another
number of hosts, sees the very batches that an undisturbed run would have seen.
"""

import dataclasses
import functools
from collections.abc import Iterator, Sequence

import numpy as np

from neurips25.data.seekable import SeekableBatches, host_rows
from neurips25.data.token_shards import TokenShard

TokenBatch = dict[str, np.ndarray]

IGNORE_INDEX = -1  # target of padding, left out of the loss


@dataclasses.dataclass(frozen=True, eq=False)
class TokenBatches:
    """Random windows of token shards: for each row a uniform shard, then a uniform start.

    ``iter(batches)`` gives a ``SeekableBatches`` from step 0 (``__next__``, ``get_state``,
    ``set_state``); ``batches.batch_at(step)`` gives any one batch. The numbers come from
    numpy's PCG64 seeded with ``[seed, step]``. For an estimate of the validation loss on n
    random batches take ``itertools.islice(TokenBatches((validation,), ...), n)``.

    Args:
      shards: token ids, each integer ``[n_i]`` with ``n_i >= block_size + 1``.
      batch_size: rows B of the global batch.
      block_size: tokens T in a window.
      seed: in [0, 2**32).
      process_index: which host this is; it reads and returns rows
        ``[i B / n, (i + 1) B / n)`` of the global batch.
      process_count: how many hosts n there are.
      vocab_size: if given, a token outside ``[0, vocab_size)`` is an error that names its
        shard and position, at the time it is read.

    Raises:
      ValueError: if there is no shard, one is too short for a window, or a number is out of
        its range.

    Source: arXiv:2501.06425, official training code (sampling of shards and offsets).

    >>> batches = TokenBatches((np.arange(100),), batch_size=2, block_size=4, seed=1)
    >>> batch = next(iter(batches))
    >>> batch["tokens"].shape, (batch["targets"] - batch["tokens"]).tolist()
    ((2, 4), [[1, 1, 1, 1], [1, 1, 1, 1]])
    """

    shards: Sequence[np.ndarray | TokenShard]
    batch_size: int
    block_size: int
    seed: int = 0
    process_index: int = 0
    process_count: int = 1
    vocab_size: int | None = None

    def __post_init__(self) -> None:
        if isinstance(self.shards, (np.ndarray, TokenShard)) or not len(self.shards):
            raise ValueError(
                "shards must be a sequence of at least one token array or TokenShard; "
                "for a single one write (tokens,)"
            )
        if self.block_size < 1:
            raise ValueError(f"block_size must be >= 1, got {self.block_size}")
        if not 0 <= self.seed < 2**32:
            raise ValueError(f"seed must be in [0, 2**32), got {self.seed}")
        host_rows(self.batch_size, self.process_index, self.process_count)
        for i, tokens in enumerate(self._arrays):
            _check_tokens(tokens, self._name(i))
            if len(tokens) < self.block_size + 1:
                raise ValueError(
                    f"{self._name(i)}: has {len(tokens)} tokens, a window of block_size="
                    f"{self.block_size} and its shifted targets need {self.block_size + 1}"
                )

    def __iter__(self) -> SeekableBatches[TokenBatch]:
        return SeekableBatches(self.batch_at)

    def batch_at(self, step: int) -> TokenBatch:
        """This host's rows of the batch of a step.

        Args:
          step: >= 0.

        Returns:
          ``{"tokens": int32 [B / n, T], "targets": int32 [B / n, T]}``; targets are the
          tokens that follow: ``targets[:, t] = tokens[:, t + 1]`` where both exist.
        """
        rows = host_rows(self.batch_size, self.process_index, self.process_count)
        # Every host draws for the whole batch, then reads its own rows only.
        rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence([self.seed, step])))
        shard = rng.integers(0, len(self.shards), self.batch_size)
        start = rng.integers(0, self._starts[shard])
        windows = np.empty((rows.stop - rows.start, self.block_size + 1), np.int32)
        for row, (i, at) in enumerate(zip(shard[rows].tolist(), start[rows].tolist())):
            windows[row] = self._arrays[i][at : at + self.block_size + 1]
        if self.vocab_size is not None and _outside(windows, self.vocab_size):
            for window, i, at in zip(windows, shard[rows], start[rows]):
                _check_vocabulary(window, self.vocab_size, self._name(i), int(at))
        # Copies, so that masking tokens in place leaves targets alone.
        return {"tokens": windows[:, :-1].copy(), "targets": windows[:, 1:].copy()}

    @functools.cached_property
    def _arrays(self) -> list[np.ndarray]:
        return [s.tokens if isinstance(s, TokenShard) else np.asarray(s) for s in self.shards]

    @functools.cached_property
    def _starts(self) -> np.ndarray:
        return np.array([len(tokens) - self.block_size for tokens in self._arrays])

    def _name(self, i: int) -> str:
        shard = self.shards[i]
        return str(shard.path) if isinstance(shard, TokenShard) else f"shards[{i}]"


def evaluation_windows(
    tokens: np.ndarray | TokenShard,
    block_size: int,
    batch_size: int,
    *,
    process_index: int = 0,
    process_count: int = 1,
    vocab_size: int | None = None,
) -> Iterator[TokenBatch]:
    """All of a split in order, so that each token after the first is a target exactly once.

    Window w holds the inputs ``tokens[w T : (w + 1) T]`` and the targets one further. What is
    left over in the last batch is padded with token 0 and target ``IGNORE_INDEX`` (-1). The
    mean loss over the split is thus the sum of losses over all batches divided by the number
    of targets >= 0, which is ``n - 1``; a mean of batch means is not the same.

    Args:
      tokens: token ids, integer ``[n]`` with ``n >= 2``.
      block_size: tokens T in a window.
      batch_size: windows B in a global batch.
      process_index: which host this is; it gets rows ``[i B / n, (i + 1) B / n)``. All hosts
        get equally many batches.
      process_count: how many hosts there are.
      vocab_size: if given, a token outside ``[0, vocab_size)`` is an error.

    Returns:
      Iterator of ``{"tokens": int32 [B / n, T], "targets": int32 [B / n, T]}``, all of one
      shape.

    Raises:
      ValueError: if ``tokens`` has fewer than two, or a number is out of its range.

    >>> list(evaluation_windows(np.arange(6), block_size=3, batch_size=2))
    [{'tokens': array([[0, 1, 2], [3, 4, 0]], dtype=int32),
      'targets': array([[ 1,  2,  3], [ 4,  5, -1]], dtype=int32)}]
    """
    name = str(tokens.path) if isinstance(tokens, TokenShard) else "tokens"
    array = tokens.tokens if isinstance(tokens, TokenShard) else np.asarray(tokens)
    _check_tokens(array, name)
    if len(array) < 2:
        raise ValueError(f"{name}: has {len(array)} tokens, an input and its target need 2")
    if block_size < 1:
        raise ValueError(f"block_size must be >= 1, got {block_size}")
    rows = host_rows(batch_size, process_index, process_count)

    def batches() -> Iterator[TokenBatch]:
        shape = (rows.stop - rows.start, block_size)
        for first in range(0, len(array) - 1, batch_size * block_size):
            start = first + rows.start * block_size
            # Neighbouring windows share a boundary token, so a host's rows are one slice.
            piece = array[start : start + shape[0] * block_size + 1]
            if vocab_size is not None:
                _check_vocabulary(piece, vocab_size, name, start)
            inputs, targets = np.zeros(shape, np.int32), np.full(shape, IGNORE_INDEX, np.int32)
            n = max(len(piece) - 1, 0)
            inputs.reshape(-1)[:n] = piece[:n]
            targets.reshape(-1)[:n] = piece[1:]
            yield {"tokens": inputs, "targets": targets}

    return batches()


def _check_tokens(tokens: np.ndarray, name: str) -> None:
    if tokens.ndim != 1 or not np.issubdtype(tokens.dtype, np.integer):
        raise ValueError(
            f"{name}: tokens must be integers [n], got {tokens.dtype} {list(tokens.shape)}"
        )


def _outside(tokens: np.ndarray, vocab_size: int) -> bool:
    return bool(tokens.size) and (int(tokens.min()) < 0 or int(tokens.max()) >= vocab_size)


def _check_vocabulary(tokens: np.ndarray, vocab_size: int, name: str, start: int) -> None:
    if _outside(tokens, vocab_size):
        at = int(np.flatnonzero((tokens < 0) | (tokens >= vocab_size))[0])
        raise ValueError(
            f"{name}: token {tokens[at]} at position {start + at} is outside the vocabulary "
            f"[0, {vocab_size})"
        )
