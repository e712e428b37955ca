"""Tables of numbers in delimited text, plain or compressed, with the line of what is wrong.

Whole files are parsed by numpy; a file it refuses is read again, line by line, only to find
the line to name. Empty lines don't count as rows.
"""

import contextlib
import gzip
import io
import itertools
import os
import pathlib
import warnings
import zlib
from collections.abc import Iterator

import numpy as np


@contextlib.contextmanager
def open_text(path: str | os.PathLike[str]) -> Iterator[io.TextIOBase]:
    """Opens UTF-8 text, with gzip told by its content, and names the file in errors.

    Raises:
      FileNotFoundError: if there is no such file.
      ValueError: naming the file, if it is broken gzip or not UTF-8.
    """
    path = pathlib.Path(path)
    with open(path, "rb") as raw:
        compressed = raw.read(2) == b"\x1f\x8b"
        raw.seek(0)
        binary = gzip.GzipFile(fileobj=raw) if compressed else raw
        try:
            # A byte order mark, as spreadsheets write it, is no part of the first name.
            with io.TextIOWrapper(binary, encoding="utf-8-sig", newline=None) as text:
                yield text
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise ValueError(f"{path}: broken gzip file: {error}") from error
        except UnicodeDecodeError as error:
            raise ValueError(f"{path}: not UTF-8: {error}") from error


def load_table(
    path: str | os.PathLike[str],
    dtype: type[np.number],
    *,
    delimiter: str | None = ",",
    skip_lines: int = 0,
    columns: int | None = None,
) -> np.ndarray:
    """Reads rows of numbers.

    Args:
      path: file of text.
      dtype: such as ``np.int64`` or ``np.float32``.
      delimiter: between the columns; None for any white space.
      skip_lines: lines of header.
      columns: how many columns to read; more may follow. By default all, as many as the first
        row has.

    Returns:
      ``[rows, columns]`` of the dtype.

    Raises:
      FileNotFoundError: if there is no such file.
      ValueError: naming the file and the line, if a row has too few columns or something that
        is not a number of this type.
    """
    usecols = None if columns is None else range(columns)
    try:
        with open_text(path) as text, warnings.catch_warnings():
            warnings.filterwarnings("ignore", "loadtxt: input contained no data")
            table = np.loadtxt(
                text,
                dtype,
                comments=None,
                delimiter=delimiter,
                skiprows=skip_lines,
                usecols=usecols,
                ndmin=2,
            )
    except ValueError as error:
        if str(error).startswith(f"{path}: "):
            raise
        _raise_at_bad_line(path, dtype, delimiter, skip_lines, columns)
        raise ValueError(f"{path}: {error}") from error
    return table if table.size else np.zeros((0, columns or 1), dtype)


def line_of_row(path: str | os.PathLike[str], row: int, skip_lines: int = 0) -> int:
    """Number of the line, from 1, that holds a row of ``load_table``, from 0."""
    with open_text(path) as text:
        rows = (number for number, line in _rows(text, skip_lines))
        return next(itertools.islice(rows, row, None))


def check_rows(path: str | os.PathLike[str], bad: np.ndarray, problem: str, skip: int = 0) -> None:
    """Raises ValueError naming the line of the first row where ``bad`` (bool ``[rows]``)."""
    at = np.flatnonzero(bad)
    if at.size:
        raise ValueError(f"{path}: line {line_of_row(path, int(at[0]), skip)}: {problem}")


def _rows(text: io.TextIOBase, skip_lines: int) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text, start=1):
        line = line.rstrip("\n")
        if number > skip_lines and line:
            yield number, line


def _raise_at_bad_line(
    path: str | os.PathLike[str],
    dtype: type[np.number],
    delimiter: str | None,
    skip_lines: int,
    columns: int | None,
) -> None:
    integer = np.issubdtype(dtype, np.integer)
    first = 0
    with open_text(path) as text:
        for number, line in _rows(text, skip_lines):
            cells = line.split(delimiter)
            first = first or len(cells)
            needed = columns or first
            if len(cells) < needed or (columns is None and len(cells) > needed):
                raise ValueError(f"{path}: line {number}: has {len(cells)} columns, needs {needed}")
            for cell in cells[:needed]:
                try:
                    int(cell) if integer else float(cell)
                except ValueError:
                    kind = "an integer" if integer else "a number"
                    raise ValueError(
                        f"{path}: line {number}: {cell[:40]!r} is not {kind}"
                    ) from None
