"""Reports of run directories, in Markdown and as one HTML page.

Both are renderings of one list of blocks (headings, tables, figures, ...), so that they
cannot say different things.
"""

import base64
import collections
import dataclasses
import html
import math
import os
import pathlib
import re
import urllib.parse
from collections.abc import Iterable, Mapping, Sequence

from neurips25.evidence.record import ClaimRecord, ClaimType, Measured, Scale, Verdict
from neurips25.evidence.run_directory import Run, load_run


class _Code(str):
    """Text that is shown verbatim, in a fixed-width face."""


@dataclasses.dataclass(frozen=True)
class _Heading:
    level: int
    text: str


@dataclasses.dataclass(frozen=True)
class _Paragraph:
    text: str


@dataclasses.dataclass(frozen=True)
class _Items:
    items: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class _Grid:
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclasses.dataclass(frozen=True)
class _Figure:
    path: pathlib.Path


@dataclasses.dataclass(frozen=True)
class _Verbatim:
    text: str


_EACH_ORDER = (
    "The {} orderings are judged one by one. The usual threshold takes chance for an order in up "
    "to 5 % of comparisons, so among many of them some verdicts may be chance."
)

_VERDICTS = frozenset(v.value for v in Verdict)

_Block = _Heading | _Paragraph | _Items | _Grid | _Figure | _Verbatim


def format_number(x: float, se: float | None = None) -> str:
    """A number with as many decimals as its uncertainty determines (two digits of it).

    >>> format_number(1.8934567, 0.0123), format_number(1.8934567), format_number(123568128)
    ('1.893', '1.893', '123568128')
    """
    if not math.isfinite(x):
        return str(x)
    if se is not None and 0 < se < math.inf and 1e-3 <= max(abs(x), se) < 1e6:
        return f"{x:.{max(0, 1 - math.floor(math.log10(se)))}f}"
    return str(int(x)) if float(x).is_integer() and abs(x) < 1e15 else f"{x:.4g}"


def format_measured(measured: Measured) -> str:
    """The measured values with their uncertainty, its kind and the number of samples.

    >>> from neurips25.evidence import UncertaintyKind
    >>> format_measured(Measured(1.8934, 0.0123, UncertaintyKind.STANDARD_ERROR, "nats", 3))
    '1.893 ± 0.012 nats (standard error, n = 3)'
    """
    value, uncertainty = measured.value, measured.uncertainty
    if value is None:
        return "not measured"
    if isinstance(value, Mapping):
        by_name = uncertainty if isinstance(uncertainty, Mapping) else {}
        text = "; ".join(f"{k} {_with_uncertainty(v, by_name.get(k))}" for k, v in value.items())
    else:
        half_width = None if isinstance(uncertainty, Mapping) else uncertainty
        text = _with_uncertainty(value, half_width)
    kind = "no uncertainty" if uncertainty is None else str(measured.kind)
    return f"{text} {measured.unit}".rstrip() + f" ({kind}, n = {measured.n})"


def _with_uncertainty(value: float, uncertainty: float | Sequence[float] | None) -> str:
    if uncertainty is None:
        return format_number(value)
    if isinstance(uncertainty, Sequence):
        low, high = uncertainty
        numbers = [format_number(x, (high - low) / 2) for x in (value, low, high)]
        return "{} [{}, {}]".format(*numbers)
    return f"{format_number(value, uncertainty)} ± {format_number(uncertainty, uncertainty)}"


def render_markdown(
    workdirs: Iterable[str | os.PathLike[str]], *, relative_to: str | os.PathLike[str] = "."
) -> str:
    """Renders run directories as one Markdown document.

    Args:
      workdirs: the run directories. What is missing or damaged in one is named in it.
      relative_to: the folder the document will lie in; figures are linked from there.

    Returns:
      Markdown text (tables in the GitHub flavour).
    """
    blocks = _document([load_run(w) for w in workdirs])
    return "\n\n".join(_markdown(b, pathlib.Path(relative_to)) for b in blocks) + "\n"


def render_html(workdirs: Iterable[str | os.PathLike[str]]) -> str:
    """Renders run directories as one HTML page that needs no other file.

    Args:
      workdirs: as in ``render_markdown``.

    Returns:
      HTML text with the figures embedded.
    """
    blocks = _document([load_run(w) for w in workdirs])
    return _PAGE.format(body="\n".join(_html(b) for b in blocks))


# What a report says --------------------------------------------------------------------


def _document(runs: Sequence[Run]) -> list[_Block]:
    blocks: list[_Block] = [_Heading(1, "Report")]
    for run in runs:
        blocks += _run_blocks(run)
    return blocks


def _run_blocks(run: Run) -> list[_Block]:
    methods = ", ".join(dict.fromkeys(r.method for r in run.records))
    name = run.path.resolve().name
    blocks: list[_Block] = [_Heading(2, f"{methods} ({name})" if methods else name)]
    if run.problems:
        blocks += [_Heading(3, "Missing or damaged in the run directory"), _Items(run.problems)]
    blocks.append(_Heading(3, "Claims"))
    if run.records:
        counts = collections.Counter(r.verdict for r in run.records)
        blocks += [
            _Paragraph("; ".join(f"{v}: {counts[v]}" for v in Verdict) + "."),
            _claims_table(run.records),
        ]
        orders = sum(r.claim_type is ClaimType.ORDERING for r in run.records)
        if orders > 1:
            blocks.append(_Paragraph(_EACH_ORDER.format(orders)))
        notes = tuple(f"{r.claim_id}: {r.note}" for r in run.records if r.note)
        blocks += [_Items(notes)] if notes else []
    else:
        blocks.append(_Paragraph("No claim records."))
    blocks += [_Heading(3, "What was not tested at this scale"), _untested(run.records)]
    for title, content in (
        ("Tables", [(t.name, _Grid(t.header, t.rows)) for t in run.tables]),
        ("Figures", [(f.stem, _Figure(f)) for f in run.figures]),
        ("Samples", [(n, _Verbatim(text)) for n, text in run.samples]),
    ):
        blocks += [_Heading(3, title)] if content else []
        for name, block in content:
            blocks += [_Heading(4, name), block]
    if run.config is not None:
        blocks += [_Heading(3, "Config"), _Verbatim(run.config)]
    versions = sorted({f"{k} {v}" for r in run.records for k, v in r.versions.items()})
    if versions:
        dates = ", ".join(sorted({r.date for r in run.records}))
        blocks.append(_Paragraph(f"Measured {dates} with {', '.join(versions)}."))
    return blocks


def _claims_table(records: Sequence[ClaimRecord]) -> _Grid:
    header = ("Claim", "Paper", "Measured here", "Verdict", "Setting", "Source", "Command")
    return _Grid(
        header,
        tuple(
            (
                f"{r.claim_id}: {r.statement}",
                _paper_value(r),
                format_measured(r.measured),
                r.verdict.value,
                _setting(r),
                r.source,
                _Code(r.command),
            )
            for r in records
        ),
    )


def _paper_value(r: ClaimRecord) -> str:
    if r.paper_value is None:
        return "—"
    number = r.paper_value
    text = number if isinstance(number, str) else format_number(number)
    return f"{text} {r.paper_unit}".rstrip()


def _setting(r: ClaimRecord) -> str:
    s = r.setting
    seeds = f"seeds {', '.join(map(str, s.seeds))}" if s.seeds else "no seeds"
    return "; ".join(x for x in (s.config, f"{s.scale.value} scale", seeds, s.data) if x)


def _untested(records: Sequence[ClaimRecord]) -> _Block:
    items = []
    for r in records:
        if r.verdict is Verdict.NOT_TESTED:
            items.append(f"{r.claim_id} ({r.source}): {r.statement}")
        elif r.claim_type is ClaimType.TIMING and r.setting.scale is Scale.REDUCED:
            items.append(
                f"{r.claim_id} ({r.source}): the verdict '{r.verdict.value}' rests on a "
                f"reduced setting; the paper's timing, {_paper_value(r)}, was not measured"
            )
    if items:
        return _Items(tuple(items))
    return _Paragraph(
        "Every recorded claim was tested in the setting of its row."
        if records
        else "Unknown, as there are no claim records."
    )


# Markdown ------------------------------------------------------------------------------


def _markdown(block: _Block, base: pathlib.Path) -> str:
    match block:
        case _Heading(level, text):
            return f"{'#' * level} {_markdown_text(text)}"
        case _Paragraph(text):
            return _markdown_text(text)
        case _Items(items):
            return "\n".join(f"- {_markdown_text(i)}" for i in items)
        case _Grid(header, rows):
            lines = [header, ("---",) * len(header), *rows]
            cells = [[_markdown_cell(c) if i != 1 else c for c in r] for i, r in enumerate(lines)]
            return "\n".join(f"| {' | '.join(c)} |" for c in cells)
        case _Figure(path):
            link = os.path.relpath(path.resolve(), base.resolve()).replace(os.sep, "/")
            return f"![{_markdown_text(path.stem)}]({urllib.parse.quote(link)})"
        case _Verbatim(text):
            fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
            return f"{fence}text\n{text.rstrip(chr(10))}\n{fence}"


def _markdown_text(text: str) -> str:
    return re.sub(r"([\\`*_\[\]<>|~])", r"\\\1", " ".join(text.split()))


def _markdown_cell(text: str) -> str:
    if not isinstance(text, _Code):
        return _markdown_text(text)
    fence = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    pad = " " if "`" in text else ""
    # In a table even code needs its bars escaped.
    return f"{fence}{pad}{' '.join(text.split())}{pad}{fence}".replace("|", r"\|")


# HTML ----------------------------------------------------------------------------------

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Report</title>
<style>
body {{ font: 15px/1.5 system-ui, sans-serif; max-width: 1200px; margin: 2rem auto;
       padding: 0 1rem; color: #222; background: #fff; }}
h2 {{ border-bottom: 2px solid #ddd; margin-top: 3rem; }}
.wide {{ overflow-x: auto; }}
table {{ border-collapse: collapse; }}
th, td {{ border: 1px solid #ccc; padding: .3rem .6rem; text-align: left; vertical-align: top; }}
th {{ background: #f3f3f3; }}
td.verdict {{ font-weight: 600; white-space: nowrap; }}
td.holds {{ background: #d5ecf7; }}
td.partly {{ background: #fbf3c7; }}
td.does-not-hold {{ background: #f8d9c4; }}
img {{ max-width: 100%; }}
code, pre {{ font: 13px/1.4 ui-monospace, monospace; }}
pre {{ background: #f6f6f6; padding: .8rem; max-height: 30rem; overflow: auto;
      white-space: pre-wrap; }}
</style>
</head>
<body>
{body}
</body>
</html>
"""


def _html(block: _Block) -> str:
    match block:
        case _Heading(level, text):
            return f"<h{level}>{html.escape(text)}</h{level}>"
        case _Paragraph(text):
            return f"<p>{html.escape(text)}</p>"
        case _Items(items):
            return f"<ul>{''.join(f'<li>{html.escape(i)}</li>' for i in items)}</ul>"
        case _Grid(header, rows):
            head = "".join(f"<th>{html.escape(c)}</th>" for c in header)
            body = "".join(f"<tr>{''.join(map(_html_cell, row))}</tr>\n" for row in rows)
            table = f"<table><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table>"
            return f'<div class="wide">{table}</div>'
        case _Figure(path):
            data = base64.b64encode(path.read_bytes()).decode("ascii")
            alt = html.escape(path.stem, quote=True)
            return f'<p><img alt="{alt}" src="data:image/png;base64,{data}"></p>'
        case _Verbatim(text):
            return f"<pre>{html.escape(text)}</pre>"


def _html_cell(text: str) -> str:
    if isinstance(text, _Code):
        return f"<td><code>{html.escape(text)}</code></td>"
    if text in _VERDICTS:
        return f'<td class="verdict {text.replace(" ", "-")}">{html.escape(text)}</td>'
    return f"<td>{html.escape(text)}</td>"
