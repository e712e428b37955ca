"""Turns run directories into a report: ``python -m experiments.report WORKDIR... [--out=report]``.

Writes ``report.md`` (figures linked) and ``report.html`` (one page, figures embedded).
"""

import argparse
import pathlib
from collections.abc import Sequence

from neurips25.data import replace_text
from neurips25.evidence import is_run_directory, render_html, render_markdown


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point; ``argv`` defaults to the command line."""
    parser = argparse.ArgumentParser(prog="python -m experiments.report", description=__doc__)
    parser.add_argument("workdir", nargs="+", type=pathlib.Path, help="run directory")
    parser.add_argument(
        "--out", default="report", type=pathlib.Path, help="path of the reports, without suffix"
    )
    args = parser.parse_args(argv)
    for workdir in args.workdir:
        if not workdir.is_dir():
            parser.error(f"{workdir}: no such directory")
        if not is_run_directory(workdir):
            parser.error(
                f"{workdir}: not a run directory, it holds neither config.json nor records.json"
            )
    out: pathlib.Path = args.out
    if out.suffix in (".md", ".html"):
        out = out.with_suffix("")
    for path in write_report(args.workdir, out):
        print(path)


def write_report(workdirs: Sequence[pathlib.Path], out: pathlib.Path) -> list[pathlib.Path]:
    """Writes ``out.md`` and ``out.html``.

    Args:
      workdirs: run directories.
      out: path without suffix; its folder is made.

    Returns:
      The two files.
    """
    out.parent.mkdir(parents=True, exist_ok=True)
    texts = {
        ".md": render_markdown(workdirs, relative_to=out.parent),
        ".html": render_html(workdirs),
    }
    paths = []
    for suffix, text in texts.items():
        paths.append(out.with_name(out.name + suffix))
        replace_text(paths[-1], text)
    return paths


if __name__ == "__main__":
    main()
