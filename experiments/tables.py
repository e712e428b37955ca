"""Tables on the terminal and in run directories."""

import csv
import pathlib
from collections.abc import Sequence
from typing import Any

import rich.console
import rich.table

from neurips25.data import replaced_file


def write_csv(path: pathlib.Path, header: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Writes a table that the report shows; the folder is made."""
    with replaced_file(path) as partial, partial.open("w", newline="", encoding="utf-8") as f:
        csv.writer(f).writerows([header, *rows])


def print_table(
    console: rich.console.Console, title: str, header: Sequence[str], rows: Sequence[Sequence[Any]]
) -> None:
    """Prints a table: the first column to the left, numbers to the right."""
    table = rich.table.Table(title=title)
    for i, name in enumerate(header):
        table.add_column(name, justify="right" if i else "left")
    for row in rows:
        table.add_row(*(str(cell) for cell in row))
    console.print(table)
