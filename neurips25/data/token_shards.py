"""Token shards: the ``.bin`` files that GPT-style trainers keep their token ids in.

Layout: a header of 256 little-endian int32 (magic 20240520, version 1, number of tokens,
zeros), then the tokens as little-endian uint16. By custom the first shard of a corpus is its
validation split, and every document is preceded by the end-of-text id.
Source: the data files of the official TPA training code, arXiv:2501.06425.
"""

import dataclasses
import glob
import os
import pathlib
import warnings
from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import ArrayLike

from neurips25.data.files import replaced_file
from neurips25.data.tokenizers import Tokenizer

MAGIC = 20240520
VERSION = 1
HEADER_BYTES = 1024


@dataclasses.dataclass(frozen=True, eq=False)
class TokenShard:
    """One shard: its file, and its tokens as a read-only memory map of uint16 ``[n]``."""

    path: pathlib.Path
    tokens: np.ndarray

    def __len__(self) -> int:
        return len(self.tokens)


def open_token_shard(path: str | os.PathLike[str]) -> TokenShard:
    """Opens one shard after checking its header; tokens are read when they are used.

    Raises:
      FileNotFoundError: if there is no such file.
      ValueError: naming the file, what it has and what it needs, if it is empty, cut short,
        too long, or not a shard of this format.
    """
    path = pathlib.Path(path)
    size = path.stat().st_size
    if size < HEADER_BYTES:
        raise ValueError(f"{path}: has {size} bytes, the header alone needs {HEADER_BYTES}")
    magic, version, count = (int(x) for x in np.fromfile(path, "<i4", count=3))
    if magic != MAGIC:
        raise ValueError(f"{path}: not a token shard: magic number {magic}, needs {MAGIC}")
    if version != VERSION:
        raise ValueError(f"{path}: format version {version}, this reader needs {VERSION}")
    if count < 1:
        raise ValueError(f"{path}: header gives {count} tokens, needs at least 1")
    needed = HEADER_BYTES + 2 * count
    if size != needed:
        problem = "cut short" if size < needed else "too long"
        raise ValueError(f"{path}: {problem}: {count} tokens need {needed} bytes, has {size}")
    tokens = np.memmap(path, "<u2", mode="r", offset=HEADER_BYTES, shape=(count,))
    # As a plain array: slices of np.memmap cost several times as much.
    return TokenShard(path, tokens.view(np.ndarray))


def open_token_shards(pattern: str | os.PathLike[str], *, strict: bool = False) -> list[TokenShard]:
    """Opens the shards of a corpus in sorted order of their path.

    Args:
      pattern: a file, a directory (all of its ``*.bin``), or a glob pattern such as
        ``"data/fineweb_train_*.bin"``.
      strict: raise at the first bad file instead of leaving it out with a warning that names
        it. Jobs of several hosts should be strict: all hosts must see the same shards.

    Raises:
      FileNotFoundError: if nothing matches.
      ValueError: if a file is bad and ``strict``, or all are.
    """
    text = os.fspath(pattern)
    if os.path.isdir(text):
        paths = glob.glob(os.path.join(glob.escape(text), "*.bin"))
    elif os.path.isfile(text):
        paths = [text]
    else:
        paths = glob.glob(text)
    if not paths:
        raise FileNotFoundError(f"no token shards (*.bin) at {text}")
    shards = []
    for path in sorted(paths):
        try:
            shards.append(open_token_shard(path))
        except (OSError, ValueError) as error:
            if strict:
                raise
            warnings.warn(f"left out: {error}", stacklevel=2)
    if not shards:
        raise ValueError(
            f"none of the {len(paths)} files at {text} is a token shard (see warnings)"
        )
    return shards


def write_token_shard(path: str | os.PathLike[str], tokens: ArrayLike) -> None:
    """Writes one shard; a file of that name is replaced only once the new one is complete.

    Args:
      path: file to write; its folder is made if it isn't there.
      tokens: integers in [0, 65535], ``[n]`` with 1 <= n < 2**31.

    Raises:
      ValueError: naming the first token that doesn't fit uint16, or a shape or dtype that is
        not the above.
      OSError: the file could not be written.
    """
    array = np.asarray(tokens)
    if array.ndim != 1 or not 1 <= array.size < 2**31:
        raise ValueError(f"tokens must have shape [n] with 1 <= n < 2**31, got {array.shape}")
    if not np.issubdtype(array.dtype, np.integer):
        raise ValueError(f"tokens must be integers, got {array.dtype}")
    if array.min() < 0 or array.max() > 65535:
        at = int(np.flatnonzero((array < 0) | (array > 65535))[0])
        raise ValueError(f"tokens must be in [0, 65535], got {array[at]} at position {at}")
    header = np.zeros(HEADER_BYTES // 4, "<i4")
    header[:3] = MAGIC, VERSION, array.size
    with replaced_file(path) as unfinished, open(unfinished, "wb") as file:
        file.write(header.tobytes())
        file.write(array.astype("<u2").data)


def write_text_shards(
    documents: Iterable[str],
    tokenizer: Tokenizer,
    directory: str | os.PathLike[str],
    *,
    prefix: str = "text",
    shard_tokens: int = 100_000_000,
) -> list[pathlib.Path]:
    """Tokenizes documents into shards, the first for validation and the rest for training.

    Files are ``{prefix}_val_000000.bin``, ``{prefix}_train_000001.bin``, and so on. Each
    document is preceded by the tokenizer's end-of-text id if it has one.

    Args:
      documents: texts, read one at a time.
      tokenizer: its vocabulary must fit uint16.
      directory: made if it isn't there.
      prefix: how file names start.
      shard_tokens: tokens in every shard but the last.

    Returns:
      Paths of the shards written.

    Raises:
      ValueError: if the vocabulary is too large, or the text doesn't reach a second shard.
    """
    if tokenizer.vocab_size > 65536:
        raise ValueError(f"shards hold ids below 65536, vocab_size is {tokenizer.vocab_size}")
    if shard_tokens < 1:
        raise ValueError(f"shard_tokens must be >= 1, got {shard_tokens}")
    directory = pathlib.Path(directory)
    paths: list[pathlib.Path] = []
    for tokens in _pieces(documents, tokenizer, shard_tokens):
        split = "train" if paths else "val"
        paths.append(directory / f"{prefix}_{split}_{len(paths):06d}.bin")
        write_token_shard(paths[-1], tokens)
    if len(paths) < 2:
        raise ValueError(
            f"the text has no more than shard_tokens={shard_tokens} tokens, so none are left to "
            "train on after the validation shard; choose a smaller shard_tokens"
        )
    return paths


def _pieces(
    documents: Iterable[str], tokenizer: Tokenizer, shard_tokens: int
) -> Iterator[np.ndarray]:
    start = [] if tokenizer.end_of_text is None else [tokenizer.end_of_text]
    buffer: list[np.ndarray] = []
    buffered = 0
    for document in documents:
        ids = np.concatenate([np.array(start, np.int32), tokenizer.encode(document)])
        while buffered + len(ids) >= shard_tokens:
            room = shard_tokens - buffered
            yield np.concatenate([*buffer, ids[:room]])
            buffer, buffered, ids = [], 0, ids[room:]
        buffer.append(ids)
        buffered += len(ids)
    if buffered:
        yield np.concatenate(buffer)
