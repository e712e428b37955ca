"""COGS: English sentences and their logical forms, as tab-separated text.

Kim & Linzen, "COGS: A Compositional Generalization Challenge Based on Semantic
Interpretation", EMNLP 2020. One example a line, UTF-8 without a header:

    sentence <tab> logical form <tab> category

Words of either are separated by single spaces. The category is ``in_distribution``,
``primitive`` (a word alone), or what kind of generalisation the line exposes or tests.
"""

import dataclasses
import functools
import gzip
import os
import pathlib
import warnings
import zlib
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from neurips25.data.files import replaced_file

SPECIAL_WORDS = ("<pad>", "<start>", "<end>", "<unknown>")
PAD, START, END, UNKNOWN = range(len(SPECIAL_WORDS))


class CogsExample(NamedTuple):
    """One line of a COGS file."""

    sentence: str
    logical_form: str
    category: str


def read_cogs(path: str | os.PathLike[str], *, strict: bool = True) -> list[CogsExample]:
    """Reads a COGS file, plain or compressed with gzip (by its content, not its name).

    Args:
      path: ``train.tsv``, ``dev.tsv.gz``, ...
      strict: raise at the first bad line instead of leaving it out with a warning that
        names it.

    Raises:
      FileNotFoundError: if there is no such file.
      ValueError: naming the file, and the line if one has not three columns, an empty one or
        bytes that are not UTF-8; or if nothing is left to return.
    """
    path = pathlib.Path(path)
    data = path.read_bytes()
    if data.startswith(b"\x1f\x8b"):
        try:
            data = gzip.decompress(data)
        except (OSError, EOFError, zlib.error) as error:
            raise ValueError(f"{path}: broken gzip file: {error}") from error
    examples = []
    for number, line in enumerate(data.removesuffix(b"\n").split(b"\n"), start=1):
        try:
            examples.append(_parse(line.removesuffix(b"\r")))
        except ValueError as error:
            problem = f"{path}: line {number}: {error}"
            if strict:
                raise ValueError(problem) from error
            warnings.warn(f"left out: {problem}", stacklevel=2)
    if not examples:
        raise ValueError(f"{path}: holds no example (see warnings)")
    return examples


def write_cogs(path: str | os.PathLike[str], examples: Iterable[CogsExample]) -> None:
    """Writes what ``read_cogs`` reads; compressed if the name ends in ``.gz``.

    A file of that name is replaced only once the new one is complete.

    Raises:
      ValueError: naming an example with an empty column, or one with a tab or a line end.
    """
    lines = []
    for i, example in enumerate(examples):
        for name, value in zip(CogsExample._fields, example):
            if not value.strip() or any(c in value for c in "\t\n\r"):
                raise ValueError(
                    f"examples[{i}]: {name} is {value!r}, needs text without tabs and line ends"
                )
        lines.append("\t".join(example) + "\n")
    data = "".join(lines).encode()
    if os.fspath(path).endswith(".gz"):
        # No time stamp: the same examples give the same file.
        data = gzip.compress(data, mtime=0)
    with replaced_file(path) as temporary:
        temporary.write_bytes(data)


@dataclasses.dataclass(frozen=True)
class WordVocabulary:
    """Ids of words that stand between spaces.

    Ids 0 to 3 are ``PAD``, ``START``, ``END`` and ``UNKNOWN``, then come the words.

    Args:
      words: the vocabulary, sorted, each once.

    Raises:
      ValueError: if ``words`` are unsorted or repeat one, or one is empty or has a space.

    >>> vocabulary = WordVocabulary.from_texts(["a cat sat", "a dog"])
    >>> vocabulary.words, vocabulary.encode("dog sat twice").tolist()
    (('a', 'cat', 'dog', 'sat'), [6, 7, 3])
    >>> vocabulary.decode([START, 6, 7, END, PAD])
    'dog sat'
    """

    words: tuple[str, ...]

    def __post_init__(self) -> None:
        if list(self.words) != sorted(set(self.words)):
            raise ValueError("words must be sorted and each once; see WordVocabulary.from_texts")
        for word in self.words:
            if word.split() != [word]:
                raise ValueError(f"words has {word!r}, needs words without spaces")

    @classmethod
    def from_texts(cls, texts: Iterable[str]) -> "WordVocabulary":
        """The vocabulary of all distinct words of some texts."""
        return cls(tuple(sorted({word for text in texts for word in text.split()})))

    @property
    def vocab_size(self) -> int:
        """Words and special ids: ids are in ``[0, vocab_size)``."""
        return len(SPECIAL_WORDS) + len(self.words)

    def encode(self, text: str) -> np.ndarray:
        """Text to ids, int32 ``[number of words]``, ``UNKNOWN`` for a word not in ``words``."""
        return np.array([self._ids.get(word, UNKNOWN) for word in text.split()], np.int32)

    def decode(self, ids: ArrayLike) -> str:
        """Ids ``[n]`` to text with single spaces, up to the first ``END`` if there is one.

        ``PAD`` and ``START`` are left out and ``UNKNOWN`` becomes ``<unknown>``.

        Raises:
          ValueError: if ``ids`` are no integers ``[n]`` in ``[0, vocab_size)``.
        """
        array = np.asarray(ids)
        if array.ndim != 1 or (array.size and not np.issubdtype(array.dtype, np.integer)):
            raise ValueError(f"ids are {array.dtype} {list(array.shape)}, needs integers [n]")
        names = SPECIAL_WORDS + self.words
        words = []
        for at, i in enumerate(array.tolist()):
            if not 0 <= i < len(names):
                raise ValueError(f"id {i} at position {at} is not in [0, {len(names)})")
            if i == END:
                break
            if i not in (PAD, START):
                words.append(names[i])
        return " ".join(words)

    @functools.cached_property
    def _ids(self) -> dict[str, int]:
        return {word: i for i, word in enumerate(self.words, start=len(SPECIAL_WORDS))}


def _parse(line: bytes) -> CogsExample:
    try:
        columns = line.decode("utf-8").split("\t")
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8: byte 0x{line[error.start]:02x} ({error.reason})") from error
    names = CogsExample._fields
    if len(columns) != len(names):
        missing = f", {names[len(columns)]} is missing" if len(columns) < len(names) else ""
        raise ValueError(
            f"has {len(columns)} tab-separated columns, needs {len(names)} "
            f"({', '.join(names)}){missing}"
        )
    for name, value in zip(names, columns):
        if not value.strip():
            raise ValueError(f"{name} is empty")
    return CogsExample(*columns)
