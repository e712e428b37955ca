"""Tokenizers with one contract: ``encode(text) -> ids``, ``decode(ids) -> text``.

Characters and bytes need nothing but numpy. Byte-pair encodings come from ``tiktoken`` or
Hugging Face ``tokenizers`` where these are installed (extra ``neurips25[tokenizers]``).
``to_dict`` holds everything that ``tokenizer_from_dict`` needs, vocabulary included, so a
run directory restores its tokenizer without network and without the file it came from.
"""

import base64
import binascii
import dataclasses
import difflib
import functools
import importlib
import os
import pathlib
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

END_OF_TEXT = "<|endoftext|>"
# How GPT-2 cuts text into words before merging bytes.
GPT2_PATTERN = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"


class Tokenizer(Protocol):
    """What every tokenizer here offers."""

    @property
    def vocab_size(self) -> int:
        """Ids are in ``[0, vocab_size)``."""

    @property
    def end_of_text(self) -> int | None:
        """Id that stands between documents, or None if the vocabulary has none."""

    def encode(self, text: str) -> np.ndarray:
        """Text to ids, int32 ``[n]``. Special tokens spelled out in text are plain text."""

    def decode(self, ids: ArrayLike) -> str:
        """Ids ``[n]`` to text; ids outside the vocabulary are a ValueError."""

    def to_dict(self) -> dict[str, Any]:
        """Everything ``tokenizer_from_dict`` needs, as JSON takes it."""


@dataclasses.dataclass(frozen=True)
class CharTokenizer:
    """One id per character: the rank of its code point among those of a text.

    Args:
      characters: the vocabulary, sorted by code point, each once.

    Raises:
      ValueError: if ``characters`` is empty, unsorted or repeats one.

    >>> tokenizer = CharTokenizer.from_text("hello")
    >>> tokenizer.characters, tokenizer.encode("hole").tolist()
    ('ehlo', [1, 3, 2, 0])
    """

    characters: str

    def __post_init__(self) -> None:
        if not self.characters or list(self.characters) != sorted(set(self.characters)):
            raise ValueError(
                "characters must be at least one, sorted and each once, "
                f"got {self.characters!r}; see CharTokenizer.from_text"
            )

    @classmethod
    def from_text(cls, text: str) -> "CharTokenizer":
        """The tokenizer whose vocabulary is the distinct characters of ``text``."""
        return cls("".join(sorted(set(text))))

    @property
    def vocab_size(self) -> int:
        return len(self.characters)

    @property
    def end_of_text(self) -> None:
        return None

    def encode(self, text: str) -> np.ndarray:
        """Text to ids, int32 ``[len(text)]``.

        Raises:
          ValueError: naming the first character that is not in the vocabulary, and where.
        """
        points, known = _code_points(text), _code_points(self.characters)
        ids = np.minimum(np.searchsorted(known, points), len(known) - 1).astype(np.int32)
        unknown = np.flatnonzero(known[ids] != points)
        if unknown.size:
            at = int(unknown[0])
            raise ValueError(
                f"character {text[at]!r} (U+{ord(text[at]):04X}) at position {at} is not among "
                f"the {self.vocab_size} characters of this tokenizer"
            )
        return ids

    def decode(self, ids: ArrayLike) -> str:
        points = _code_points(self.characters)[_checked_ids(ids, self.vocab_size)]
        return points.tobytes().decode("utf-32-le", "surrogatepass")

    def to_dict(self) -> dict[str, Any]:
        return {"kind": "char", "characters": self.characters}


@dataclasses.dataclass(frozen=True)
class ByteTokenizer:
    """One id per byte of UTF-8 text, or of any bytes: vocabulary 256.

    >>> ByteTokenizer().encode("né").tolist()
    [110, 195, 169]
    """

    @property
    def vocab_size(self) -> int:
        return 256

    @property
    def end_of_text(self) -> None:
        return None

    def encode(self, text: str | bytes) -> np.ndarray:
        """Text (as UTF-8) or raw bytes to ids, int32 ``[number of bytes]``."""
        data = text.encode("utf-8") if isinstance(text, str) else text
        return np.frombuffer(data, np.uint8).astype(np.int32)

    def decode(self, ids: ArrayLike) -> str:
        """Ids to text; bytes that are not UTF-8, as a model may write, become U+FFFD."""
        return _checked_ids(ids, 256).astype(np.uint8).tobytes().decode("utf-8", "replace")

    def to_dict(self) -> dict[str, Any]:
        return {"kind": "byte"}


@dataclasses.dataclass(frozen=True)
class TiktokenTokenizer:
    """Byte-pair encoding by ``tiktoken``; see ``from_name`` and ``from_ranks_file``.

    Args:
      encoding: a ``tiktoken.Encoding``.
    """

    encoding: Any

    @classmethod
    def from_name(cls, name: str) -> "TiktokenTokenizer":
        """A published encoding, e.g. "gpt2"; its ranks are downloaded at first use.

        Raises:
          ImportError: if ``tiktoken`` is not installed.
          ValueError: if there is no encoding of that name.
          OSError: if the ranks are neither in tiktoken's cache nor to be downloaded.
        """
        tiktoken = _optional_library("tiktoken")
        names = tiktoken.list_encoding_names()
        if name not in names:
            near = difflib.get_close_matches(name, names, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise ValueError(f"no tiktoken encoding {name!r}; there are {', '.join(names)}{hint}")
        try:
            return cls(tiktoken.get_encoding(name))
        except OSError as error:
            raise OSError(
                f"the ranks of tiktoken encoding {name!r} are not cached here and the download "
                "failed; set TIKTOKEN_CACHE_DIR to a folder that has them, or load a local file "
                f"with TiktokenTokenizer.from_ranks_file ({error})"
            ) from error

    @classmethod
    def from_ranks_file(
        cls,
        path: str | os.PathLike[str],
        *,
        pattern: str = GPT2_PATTERN,
        special_tokens: Mapping[str, int] | None = None,
    ) -> "TiktokenTokenizer":
        """A local ``.tiktoken`` file: lines of a base64 token, a space, and its rank.

        Args:
          path: the ranks file.
          pattern: regular expression that cuts text into the words within which bytes merge.
          special_tokens: names and ids of tokens outside the ranks; by default
            ``<|endoftext|>`` with the first free id.

        Raises:
          ImportError: if ``tiktoken`` is not installed.
          ValueError: naming file and line of the first bad record, or what is missing.
        """
        _optional_library("tiktoken")
        ranks = _read_ranks(pathlib.Path(path))
        if special_tokens is None:
            special_tokens = {END_OF_TEXT: max(ranks.values()) + 1}
        return cls._from_parts(pathlib.Path(path).stem, pattern, ranks, special_tokens)

    @classmethod
    def _from_parts(
        cls, name: str, pattern: str, ranks: dict[bytes, int], special: Mapping[str, int]
    ) -> "TiktokenTokenizer":
        tiktoken = _optional_library("tiktoken")
        return cls(
            tiktoken.Encoding(
                name, pat_str=pattern, mergeable_ranks=ranks, special_tokens=dict(special)
            )
        )

    @property
    def vocab_size(self) -> int:
        return self.encoding.max_token_value + 1

    @property
    def end_of_text(self) -> int | None:
        return self.encoding._special_tokens.get(END_OF_TEXT)

    def encode(self, text: str) -> np.ndarray:
        return np.array(self.encoding.encode_ordinary(text), np.int32)

    def decode(self, ids: ArrayLike) -> str:
        """Ids to text; pieces that are not whole UTF-8 characters become U+FFFD."""
        return self.encoding.decode(_checked_ids(ids, self.vocab_size).tolist())

    def to_dict(self) -> dict[str, Any]:
        ranks = self.encoding._mergeable_ranks
        return {
            "kind": "tiktoken",
            "name": self.encoding.name,
            "pattern": self.encoding._pat_str,
            "ranks": {base64.b64encode(token).decode(): rank for token, rank in ranks.items()},
            "special_tokens": dict(self.encoding._special_tokens),
        }


@dataclasses.dataclass(frozen=True)
class HuggingFaceTokenizer:
    """Any Hugging Face tokenizer; see ``from_file``.

    Decoding gives the text back exactly only if the tokenizer has no lossy normaliser.

    Args:
      tokenizer: a ``tokenizers.Tokenizer``.
    """

    tokenizer: Any

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> "HuggingFaceTokenizer":
        """Loads a ``tokenizer.json``.

        Raises:
          ImportError: if ``tokenizers`` is not installed.
          FileNotFoundError: if there is no such file.
          ValueError: if the file is no tokenizer.
        """
        library = _optional_library("tokenizers")
        data = pathlib.Path(path).read_bytes()
        try:
            return cls(library.Tokenizer.from_buffer(data))
        except Exception as error:  # the library raises bare Exception
            raise ValueError(f"{path}: not a tokenizer.json file: {error}") from error

    @functools.cached_property
    def vocab_size(self) -> int:
        # Not the number of tokens: ids may have gaps.
        return max(self.tokenizer.get_vocab(with_added_tokens=True).values()) + 1

    @property
    def end_of_text(self) -> int | None:
        return self.tokenizer.token_to_id(END_OF_TEXT)

    def encode(self, text: str) -> np.ndarray:
        return np.array(self.tokenizer.encode(text, add_special_tokens=False).ids, np.int32)

    def decode(self, ids: ArrayLike) -> str:
        checked = _checked_ids(ids, self.vocab_size).tolist()
        return self.tokenizer.decode(checked, skip_special_tokens=False)

    def to_dict(self) -> dict[str, Any]:
        return {"kind": "huggingface", "tokenizer": self.tokenizer.to_str()}


def tokenizer_from_dict(state: Mapping[str, Any]) -> Tokenizer:
    """The tokenizer whose ``to_dict`` gave ``state``.

    Raises:
      ImportError: if the library that the tokenizer needs is not installed.
      ValueError: if ``state`` is of no known kind.

    >>> tokenizer_from_dict({"kind": "char", "characters": "abc"})
    CharTokenizer(characters='abc')
    """
    match state.get("kind"):
        case "char":
            return CharTokenizer(state["characters"])
        case "byte":
            return ByteTokenizer()
        case "tiktoken":
            ranks = {base64.b64decode(token): rank for token, rank in state["ranks"].items()}
            return TiktokenTokenizer._from_parts(
                state["name"], state["pattern"], ranks, state["special_tokens"]
            )
        case "huggingface":
            library = _optional_library("tokenizers")
            return HuggingFaceTokenizer(library.Tokenizer.from_str(state["tokenizer"]))
        case kind:
            raise ValueError(
                f"tokenizer kind must be char, byte, tiktoken or huggingface, got {kind!r}"
            )


def _code_points(text: str) -> np.ndarray:
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4")


def _checked_ids(ids: ArrayLike, vocab_size: int) -> np.ndarray:
    array = np.asarray(ids)
    if array.size == 0:
        return np.zeros(0, np.int64)
    if array.ndim != 1 or not np.issubdtype(array.dtype, np.integer):
        raise ValueError(f"ids must be integers [n], got {array.dtype} {list(array.shape)}")
    outside = np.flatnonzero((array < 0) | (array >= vocab_size))
    if outside.size:
        at = int(outside[0])
        raise ValueError(
            f"id {array[at]} at position {at} is outside the vocabulary [0, {vocab_size})"
        )
    return array


def _read_ranks(path: pathlib.Path) -> dict[bytes, int]:
    ranks: dict[bytes, int] = {}
    for number, line in enumerate(path.read_bytes().splitlines(), start=1):
        if not line:
            continue
        try:
            token, rank = line.split()
            ranks[base64.b64decode(token, validate=True)] = int(rank)
        except (ValueError, binascii.Error) as error:
            raise ValueError(
                f"{path}, line {number}: needs a base64 token, a space and a rank, "
                f"got {line[:40]!r}"
            ) from error
    missing = [byte for byte in range(256) if bytes([byte]) not in ranks]
    if missing:
        raise ValueError(
            f"{path}: ranks need all 256 single bytes, {len(missing)} are missing, "
            f"first 0x{missing[0]:02x}"
        )
    if len(set(ranks.values())) < len(ranks) or min(ranks.values()) < 0:
        raise ValueError(f"{path}: ranks must be >= 0 and each stand for one token")
    return ranks


def _optional_library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise ImportError(
            f"this tokenizer needs the package {name!r}: pip install 'neurips25[tokenizers]'"
        ) from error
