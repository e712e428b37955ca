"""Plain text as training data: files, directories, and a corpus every Python carries."""

import os
import pathlib
import warnings
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import TypeVar

import numpy as np

TEXT_SUFFIXES = (".txt", ".text", ".md", ".rst")

_Content = TypeVar("_Content", str, bytes)


def read_text(
    path: str | os.PathLike[str],
    *,
    suffixes: Sequence[str] = TEXT_SUFFIXES,
    encoding: str = "utf-8",
    strict: bool = False,
) -> str:
    """Reads a text file, or all text files below a directory joined by newlines.

    Characters come back as they are in the file (line ends too), less a leading byte order
    mark. Files of a directory are taken in sorted order of their path.

    Args:
      path: a file (of any suffix) or a directory, searched with its subdirectories.
      suffixes: which files of a directory count as text, e.g. ``(".py",)`` for code.
      encoding: how the files are encoded.
      strict: in a directory, raise at the first bad file instead of leaving it out
        with a warning that names it.

    Raises:
      FileNotFoundError: if there is no such path.
      ValueError: if a file is empty or is not ``encoding`` (with file and byte offset), or if
        a directory holds nothing that can be read.
    """
    return "\n".join(read_documents(path, suffixes=suffixes, encoding=encoding, strict=strict))


def read_documents(
    path: str | os.PathLike[str],
    *,
    suffixes: Sequence[str] = TEXT_SUFFIXES,
    encoding: str = "utf-8",
    strict: bool = False,
) -> list[str]:
    """Like ``read_text``, but one string per file."""

    def load(file: pathlib.Path) -> str:
        data = file.read_bytes()
        try:
            return data.decode(encoding).removeprefix("\ufeff")
        except UnicodeDecodeError as error:
            raise ValueError(
                f"{file}: not {encoding} text: byte 0x{data[error.start]:02x} at offset "
                f"{error.start} ({error.reason}); name the file's encoding, or read it in byte "
                "mode: ByteTokenizer().encode(read_bytes(path))"
            ) from error

    return _read_files(path, load, suffixes, strict)


def read_bytes(
    path: str | os.PathLike[str],
    *,
    suffixes: Sequence[str] = TEXT_SUFFIXES,
    strict: bool = False,
) -> bytes:
    """Byte mode of ``read_text``: any file will do, for ``ByteTokenizer().encode``."""
    return b"\n".join(_read_files(path, pathlib.Path.read_bytes, suffixes, strict))


def python_reference_text() -> str:
    """CPython's own language reference, as ``help()`` shows it: about 460 kB of English.

    The default corpus: needs no download. The topics of ``pydoc_data.topics`` are joined in
    sorted order of their names, so the text is the same in every run of one Python release
    and differs a little between releases.

    Raises:
      ImportError: if this Python was installed without ``pydoc_data``.
    """
    try:
        from pydoc_data.topics import topics
    except ImportError as error:
        raise ImportError(
            "this Python came without pydoc_data.topics, the default corpus; "
            "give a text file or a directory instead"
        ) from error
    return "\n".join(topics[name] for name in sorted(topics))


def split_text(text: str, validation_fraction: float = 0.1) -> tuple[str, str]:
    """Splits text into its first part for training and its last for validation.

    Args:
      text: at least one character for either part.
      validation_fraction: share of the characters at the end, in (0, 1).

    Returns:
      ``(train, validation)``; train has ``floor(n * (1 - validation_fraction))`` characters.

    Raises:
      ValueError: if the fraction is outside (0, 1) or would leave a part empty.

    >>> split_text("0123456789")
    ('012345678', '9')
    """
    cut = _split_point(len(text), validation_fraction)
    return text[:cut], text[cut:]


def split_tokens(
    tokens: np.ndarray, validation_fraction: float = 0.1
) -> tuple[np.ndarray, np.ndarray]:
    """Splits tokens into their first part for training and their last for validation.

    Args:
      tokens: ``[n]``, any dtype.
      validation_fraction: share of the tokens at the end, in (0, 1).

    Returns:
      ``(train, validation)``, views of ``tokens``; train has
      ``floor(n * (1 - validation_fraction))`` tokens.

    Raises:
      ValueError: if the fraction is outside (0, 1) or would leave a part empty.
    """
    cut = _split_point(len(tokens), validation_fraction)
    return tokens[:cut], tokens[cut:]


def _split_point(n: int, validation_fraction: float) -> int:
    if not 0 < validation_fraction < 1:
        raise ValueError(f"validation_fraction must be in (0, 1), got {validation_fraction}")
    # In decimal as it was written: in binary, 10 * (1 - 0.9) is less than 1.
    cut = int(n * (1 - Fraction(str(validation_fraction))))
    if not 0 < cut < n:
        raise ValueError(
            f"validation_fraction={validation_fraction} of {n} tokens leaves a part empty"
        )
    return cut


def _read_files(
    path: str | os.PathLike[str],
    load: Callable[[pathlib.Path], _Content],
    suffixes: Sequence[str],
    strict: bool,
) -> list[_Content]:
    root = pathlib.Path(path)
    if not root.is_dir():
        return [_read_one(root, load)]
    wanted = {suffix.lower() for suffix in suffixes}
    files = sorted(f for f in root.rglob("*") if f.suffix.lower() in wanted and f.is_file())
    if not files:
        raise ValueError(f"{root}: no files that end in {', '.join(suffixes)}")
    contents = []
    for file in files:
        try:
            contents.append(_read_one(file, load))
        except (OSError, ValueError) as error:
            if strict:
                raise
            warnings.warn(f"left out: {error}", stacklevel=4)
    if not contents:
        raise ValueError(f"{root}: none of its {len(files)} files could be read (see warnings)")
    return contents


def _read_one(file: pathlib.Path, load: Callable[[pathlib.Path], _Content]) -> _Content:
    content = load(file)
    if not content:
        raise ValueError(f"{file}: empty file")
    return content
