"""Tables of text cells, with a header or without, and the line of each row."""

import csv
import dataclasses
import io
import pathlib
from collections.abc import Iterator, Sequence

import numpy as np

from neurips25.graphs.number_tables import delimiter_of, open_text


@dataclasses.dataclass
class CellTable:
    """Rows of equally many cells.

    Args:
      path: the file, for errors.
      header: names of the columns in small letters, or nothing.
      rows: the cells, at least one row.
      lines: number of each row's line, from 1.
    """

    path: pathlib.Path
    header: list[str]
    rows: list[list[str]]
    lines: list[int]

    def column(self, *names: str) -> int | None:
        """The first column that has one of these names."""
        return next((i for i, cell in enumerate(self.header) if cell in names), None)

    def where(self, row: int) -> str:
        """File and line of a row, as errors begin."""
        return f"{self.path}: line {self.lines[row]}"

    def number(self, row: int, column: int) -> float:
        """A cell that must be a finite number."""
        cell = self.rows[row][column]
        try:
            value = float(cell)
        except ValueError:
            raise ValueError(f"{self.where(row)}: {cell[:40]!r} is not a number") from None
        if not np.isfinite(value):
            raise ValueError(f"{self.where(row)}: feature {cell} is not finite")
        return value


def read_cells(path: pathlib.Path, names: Sequence[str], header_if_text: bool) -> CellTable:
    """Reads cells between commas, tabs or semicolons, or numbers between white space.

    The first line is a header if it has one of ``names``; if its first cell is empty or it
    counts 0, 1, 2, ... over rows of floats, as pandas writes tables; or if it has no number
    and ``header_if_text``. An empty name in front becomes ``id``.

    Raises:
      ValueError: naming the file and the line, if a row has another number of columns than the
        first, or the file none.
    """
    table = CellTable(path, [], [], [])
    with open_text(path) as text:
        first, second = text.readline(), text.readline()
        text.seek(0)
        delimiter = delimiter_of(first) or (" " if _spaced_numbers(first, second) else ",")
        for line, row in rows_of_cells(path, text, delimiter):
            table.rows.append(row)
            table.lines.append(line)
    if _is_header(table.rows[:2], names, header_if_text):
        table.header = [cell.strip().lower() for cell in table.rows.pop(0)]
        del table.lines[0]
        table.header[0] = table.header[0] or "id"
    if not table.rows:
        raise ValueError(f"{path}: has no rows")
    width = len(table.header or table.rows[0])
    for r, row in enumerate(table.rows):
        if len(row) != width:
            raise ValueError(f"{table.where(r)}: has {len(row)} columns, needs {width}")
    return table


def rows_of_cells(
    path: pathlib.Path, text: io.TextIOBase, delimiter: str
) -> Iterator[tuple[int, list[str]]]:
    """Number of each line, from 1, and its cells; lines of white space are left out.

    Args:
      path: the file, for errors.
      text: its lines.
      delimiter: one character; a space stands for any white space.

    Raises:
      ValueError: naming the file and the line that csv can't read.
    """
    lines = (line if line.strip() else "\n" for line in text)
    if delimiter == " ":
        lines = (" ".join(line.split()) + "\n" for line in lines)
    reader = csv.reader(lines, delimiter=delimiter, skipinitialspace=True)
    try:
        for row in reader:
            if row:
                yield reader.line_num, row
    except csv.Error as error:
        raise ValueError(f"{path}: line {reader.line_num}: {error}") from error


def is_number(cell: str) -> bool:
    """Whether a cell is a number, among them infinity and NaN."""
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _spaced_numbers(first: str, second: str) -> bool:
    cells = (second or first).split()
    return len(first.split()) == len(cells) > 1 and all(map(is_number, cells))


def _is_header(rows: list[list[str]], names: Sequence[str], header_if_text: bool) -> bool:
    if not rows:
        return False
    first = [cell.strip() for cell in rows[0]]
    if any(cell.lower() in names for cell in first) or (len(first) > 1 and not first[0]):
        return True
    # Of fewer columns than three this could well be a row.
    if len(first) > 2 and first == [str(i) for i in range(len(first))]:
        return len(rows) > 1 and all("." in cell for cell in rows[1])
    return header_if_text and not any(map(is_number, first))
