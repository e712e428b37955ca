"""Tables on the terminal and in run directories."""

import csv
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import rich.console
import rich.table
from numpy.typing import ArrayLike

from neurips25.data import replaced_file
from neurips25.evidence import ordering_table


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


def write_orderings(
    samples: Mapping[str, ArrayLike],
    workdir: pathlib.Path,
    console: rich.console.Console,
    paired: bool = True,
    larger_is_better: bool = False,
) -> None:
    """Writes ``tables/orderings.csv``, which says what pairs are told apart, and prints it.

    Args:
      samples: name -> float ``[n]``, one per seed. NaN is a run that diverged.
      workdir: the run directory.
      console: where to print.
      paired: whether all names ran the same seeds in the same order.
      larger_is_better: accuracies rather than losses.
    """
    sign = -1 if larger_is_better else 1
    cells = []
    for p in ordering_table({k: sign * np.asarray(v) for k, v in samples.items()}, paired=paired):
        known = p.se is not None
        cells.append([
            p.lower, p.higher, f"{p.difference:.4f}", f"{p.se:.4f}" if known else "-",
            f"{p.threshold:.1f}" if known else "-", "yes" if p.beyond_noise else "no",
        ])  # fmt: skip
    header = ("better", "worse", "difference", "s.e.", "needed s.e.", "beyond noise")
    write_csv(workdir / "tables" / "orderings.csv", header, cells)
    print_table(console, "Which orders are beyond noise, each judged by itself", header, cells)
