"""What a run directory holds for a report.

``records.json``, ``config.json``, ``figures/*.png``, and by convention every
``tables/*.csv`` (first row the header) as a table and every ``samples/*.txt`` as text. What
is missing or damaged is named in ``Run.problems`` and costs nothing else.
"""

import csv
import dataclasses
import json
import os
import pathlib

from neurips25.evidence.record import ClaimRecord, scan_records

_PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"


@dataclasses.dataclass(frozen=True)
class Table:
    """A table read from CSV; every row is as long as the header."""

    name: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclasses.dataclass(frozen=True)
class Run:
    """The reportable content of one run directory.

    Attributes:
      path: the directory.
      records: the valid claim records.
      tables: ``tables/*.csv``.
      figures: paths of the PNG files in ``figures/``.
      samples: (name, text) of ``samples/*.txt``.
      config: the config as indented JSON, None where it cannot be read.
      problems: one line for each thing that is missing or damaged.
    """

    path: pathlib.Path
    records: tuple[ClaimRecord, ...]
    tables: tuple[Table, ...]
    figures: tuple[pathlib.Path, ...]
    samples: tuple[tuple[str, str], ...]
    config: str | None
    problems: tuple[str, ...]


def is_run_directory(path: str | os.PathLike[str]) -> bool:
    """Whether a run has written its config or its records there."""
    path = pathlib.Path(path)
    return (path / "config.json").is_file() or (path / "records.json").is_file()


def load_run(workdir: str | os.PathLike[str]) -> Run:
    """Reads all that a report shows; see the module for the convention.

    Args:
      workdir: the run directory.

    Returns:
      ``Run``. Nothing is raised for damaged files; they are listed in ``problems``.
    """
    path = pathlib.Path(workdir)
    records, problems = scan_records(path / "records.json")
    config = None
    try:
        config = json.dumps(json.loads((path / "config.json").read_text("utf-8")), indent=2)
    except FileNotFoundError:
        problems.append(f"{path / 'config.json'}: no such file")
    except (OSError, ValueError) as e:
        problems.append(f"{path / 'config.json'}: cannot be read as JSON: {e}")

    tables = []
    for file in sorted(path.glob("tables/*.csv")):
        try:
            tables.append(_read_table(file))
        except (OSError, ValueError, csv.Error) as e:
            problems.append(f"{file}: cannot be read as a table: {e}")
    figures = []
    for file in sorted(path.glob("figures/*.png")):
        if _is_png(file):
            figures.append(file)
        else:
            problems.append(f"{file}: is not a PNG image")
    samples = []
    for file in sorted(path.glob("samples/*.txt")):
        try:
            samples.append((file.stem, file.read_text("utf-8", errors="replace")))
        except OSError as e:
            problems.append(f"{file}: cannot be read: {e}")
    return Run(
        path,
        tuple(records),
        tuple(tables),
        tuple(figures),
        tuple(samples),
        config,
        tuple(problems),
    )


def _read_table(file: pathlib.Path) -> Table:
    with file.open(encoding="utf-8", newline="") as f:
        rows = [tuple(row) for row in csv.reader(f, strict=True) if row]
    if not rows:
        raise ValueError("it is empty")
    for i, row in enumerate(rows[1:], 1):
        if len(row) != len(rows[0]):
            raise ValueError(f"row {i} had {len(row)} cells, needs {len(rows[0])} as the header")
    return Table(file.stem, rows[0], tuple(rows[1:]))


def _is_png(file: pathlib.Path) -> bool:
    try:
        with file.open("rb") as f:
            return f.read(len(_PNG_SIGNATURE)) == _PNG_SIGNATURE
    except OSError:
        return False
