"""Tables of numbers in delimited text, plain or compressed, with the line of what is wrong.

Whole files are parsed by numpy; a file it refuses is read again line by line, which takes
quoted cells and whole numbers written as floats, or finds the line to name. Lines of white
space don't count as rows.
"""

import contextlib
import gzip
import io
import itertools
import os
import pathlib
import re
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
    columns: int | tuple[int, ...] | None = None,
) -> np.ndarray:
    """Reads rows of numbers.

    Args:
      path: file of text.
      dtype: ``np.int64``, for which ``3.0`` is 3 too, or a float such as ``np.float32``.
      delimiter: between the columns; None for any white space.
      skip_lines: lines of header.
      columns: how many columns to read, or which ones; others may be there too. By default all,
        as many as the first row has.

    Returns:
      ``[rows, columns]`` of the dtype.

    Raises:
      FileNotFoundError: if there is no such file.
      ValueError: naming the file and the line, if a row has too few columns or something that
        is not a number of this type.
    """
    chosen = tuple(range(columns)) if isinstance(columns, int) else columns
    with contextlib.suppress(ValueError, OverflowError), open_text(path) as text:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "loadtxt: input contained no data")
            table = np.loadtxt(
                text,
                dtype,
                comments=None,
                delimiter=delimiter,
                skiprows=skip_lines,
                usecols=chosen,
                ndmin=2,
            )
        return table if table.size else _no_rows(chosen, dtype)
    rows = _parsed_rows(path, dtype, delimiter, skip_lines, chosen)
    first = next(rows, None)
    if first is None:
        return _no_rows(chosen, dtype)
    numbers = itertools.chain(first, itertools.chain.from_iterable(rows))
    return np.fromiter(numbers, dtype).reshape(-1, len(first))


def delimiter_of(line: str) -> str | None:
    """The comma, tab or semicolon that comes first in a line, outside quotes; None without one.

    >>> delimiter_of('"a,b";1;0,5'), delimiter_of("0 1 {'weight': 3, 'year': 2001}")
    (';', None)
    """
    # What networkx writes behind an edge is a dict.
    bare = re.sub(r'"[^"]*"', "", line.split(" {")[0])
    found = re.search("[,\t;]", bare)
    return found[0] if found else None


def plain_id(cell: str) -> str:
    """Text of a cell that names something, where a whole number written as a float is one.

    >>> plain_id(" 3.0 "), plain_id("4.000e+00"), plain_id("v1.5"), plain_id("1e5")
    ('3', '4', 'v1.5', '1e5')
    """
    cell = cell.strip()
    # Without a point this may be any text, such as the digits of a hash.
    if re.fullmatch(r"[+-]?\d+\.\d*([eE][+-]?\d+)?", cell):
        value = float(cell)
        if value.is_integer() and abs(value) < 2**53:
            return str(int(value))
    return cell


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


def _no_rows(columns: tuple[int, ...] | None, dtype: type[np.number]) -> np.ndarray:
    return np.zeros((0, 1 if columns is None else len(columns)), dtype)


def _rows(text: io.TextIOBase, skip_lines: int) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text, start=1):
        line = line.rstrip("\n")
        if number > skip_lines and line.strip():
            yield number, line


def _parsed_rows(
    path: str | os.PathLike[str],
    dtype: type[np.number],
    delimiter: str | None,
    skip_lines: int,
    columns: tuple[int, ...] | None,
) -> Iterator[list[int | float]]:
    first = 0
    with open_text(path) as text:
        for number, line in _rows(text, skip_lines):
            cells = line.split(delimiter)
            first = first or len(cells)
            needed = first if columns is None else max(columns) + 1
            if len(cells) < needed or (columns is None and len(cells) > needed):
                raise ValueError(f"{path}: line {number}: has {len(cells)} columns, needs {needed}")
            try:
                yield [_number(cells[i], dtype) for i in columns or range(needed)]
            except ValueError as error:
                raise ValueError(f"{path}: line {number}: {error}") from None


def _number(cell: str, dtype: type[np.number]) -> int | float:
    cell = cell.strip().strip('"').strip()
    integer = np.issubdtype(dtype, np.integer)
    try:
        # Python would take "1_000".
        if "_" in cell:
            raise ValueError
        value = int(plain_id(cell)) if integer else float(cell)
    except ValueError:
        kind = "an integer" if integer else "a number"
        raise ValueError(f"{cell[:40]!r} is not {kind}") from None
    if integer and not -(2**63) <= value < 2**63:
        raise ValueError(f"{cell[:40]!r} does not fit int64")
    return value
