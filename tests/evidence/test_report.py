"""Reports: what they say, and that damage in a run directory costs nothing else."""

import base64
import dataclasses
import html.parser
import json

import pytest

from neurips25.evidence import (
    ClaimType,
    Measured,
    Scale,
    Setting,
    UncertaintyKind,
    Verdict,
    format_measured,
    format_number,
    load_run,
    new_figure,
    render_html,
    render_markdown,
    save_figure,
    write_records,
)

NASTY = 'a|b <script>alert("1")</script> & `c` *d*'


@pytest.fixture
def run(tmp_path, record):
    """A small but complete run directory."""
    workdir = tmp_path / "my run"
    exact = dataclasses.replace(
        record,
        claim_id="tpa/rotation",
        claim_type=ClaimType.EXACT_PROPERTY,
        statement=NASTY,
        paper_value=None,
        paper_unit="",
        source="sec. 3.2",
        setting=Setting("configs/t6.py:cpu", Scale.FULL),
        command="python -c 'x|y' <z",
        measured=Measured(3e-15),
        verdict=Verdict.HOLDS,
        note="float64",
    )
    write_records(workdir / "records.json", [record, exact])
    (workdir / "config.json").write_text('{"lr": 0.001, "tag": "<b>"}')
    save_figure(new_figure("step", "loss")[0], workdir / "figures" / "loss curve.png")
    for name, text in {
        "tables/bytes.csv": "kind,bytes\ntpa,12\n<i>|,3\n",
        "samples/poem.txt": "To be\n```\n<b>or</b> not\n",
    }.items():
        (workdir / name).parent.mkdir(exist_ok=True)
        (workdir / name).write_text(text)
    return workdir


class Page(html.parser.HTMLParser):
    """Collects text, tags and image sources, and checks that tags are balanced."""

    def __init__(self, text):
        super().__init__()
        self.text, self.tags, self.images, self._open = "", set(), [], []
        self.feed(text)
        assert not self._open

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        if tag == "img":
            self.images.append(dict(attrs)["src"])
        elif tag != "meta":
            self._open.append(tag)

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        self.text += data


def test_markdown(run):
    text = render_markdown([run], relative_to=run.parent)
    rows = [line for line in text.splitlines() if line.startswith("|")]
    (row,) = [r for r in rows if "tpa/val-loss" in r]
    assert [c.strip() for c in row.strip("|").split("|")] == [
        "tpa/val-loss: TPA ends at a validation loss of 2.618.",
        "2.618 nats/token",
        "1.893 ± 0.012 nats/char (standard error, n = 3)",
        "not tested at this scale",
        "configs/t6.py:cpu; reduced scale; seeds 0, 1, 2; tinyshakespeare",
        "Fig. 4",
        "`python -m experiments.launch --config=configs/t6.py:cpu`",
    ]
    (row,) = [r for r in rows if "tpa/rotation" in r]
    assert r"a\|b \<script\>" in row
    assert "`python -c 'x\\|y' <z`" in row
    assert "3e-15 (no uncertainty, n = 1)" in row
    assert "holds: 1; partly: 0; does not hold: 0; not tested at this scale: 1." in text
    assert "- tpa/rotation: float64" in text
    assert "![loss curve](my%20run/figures/loss%20curve.png)" in text
    assert "| kind | bytes |\n| --- | --- |\n| tpa | 12 |\n| \\<i\\>\\| | 3 |" in text
    assert "````text\nTo be\n```\n<b>or</b> not\n````" in text
    assert '"lr": 0.001' in text
    assert "Measured 2025-12-01 with jax 0.10.2, python 3.11.7." in text
    assert "damaged" not in text


def test_html_says_the_same_and_escapes_it(run):
    page = Page(render_html([run]))
    assert "script" not in page.tags
    assert not {"b", "i", "z"} & page.tags
    for piece in (
        NASTY,
        "1.893 ± 0.012 nats/char (standard error, n = 3)",
        "python -c 'x|y' <z",
        "<b>or</b> not",
        '"tag": "<b>"',
        "not tested at this scale: 1.",
        "<i>|",
    ):
        assert piece in page.text
    (image,) = page.images
    head, data = image.split(",")
    assert head == "data:image/png;base64"
    assert base64.b64decode(data) == (run / "figures" / "loss curve.png").read_bytes()


def test_what_was_not_tested(run, record):
    def section():
        text = render_markdown([run])
        return text.split("### What was not tested at this scale\n\n")[1].split("\n\n")[0]

    assert section() == "- tpa/val-loss (Fig. 4): TPA ends at a validation loss of 2.618."
    timing = dataclasses.replace(record, verdict=Verdict.HOLDS, claim_type=ClaimType.TIMING)
    write_records(run / "records.json", [timing])
    assert "the paper's timing, 2.618 nats/token, was not measured" in section()
    full = Setting("configs/t6.py:paper", Scale.FULL, (0,))
    write_records(
        run / "records.json",
        [dataclasses.replace(record, verdict=Verdict.DOES_NOT_HOLD, setting=full)],
    )
    assert section() == "Every recorded claim was tested in the setting of its row."
    (run / "records.json").unlink()
    assert section() == "Unknown, as there are no claim records."


@pytest.mark.parametrize(
    ("file", "content", "problem"),
    [
        ("records.json", None, "no such file"),
        ("records.json", b"[{]", "cannot be read as JSON"),
        ("config.json", None, "no such file"),
        ("config.json", b"\xff{", "cannot be read as JSON"),
        ("figures/loss curve.png", b"GIF89a", "is not a PNG image"),
        ("tables/bytes.csv", b"", "it is empty"),
        ("tables/bytes.csv", b"a,b\n1\n", "row 1 had 1 cells, needs 2"),
        ("tables/bytes.csv", b"a,b\n\xff,1\n", "cannot be read as a table"),
    ],
)
def test_damage_is_named_and_loses_nothing_else(run, file, content, problem):
    if content is None:
        (run / file).unlink()
    else:
        (run / file).write_bytes(content)
    (line,) = load_run(run).problems
    assert str(run / file) in line
    assert problem in line
    page = Page(render_html([run]))
    assert line in page.text
    kept = {
        "records.json": "1.893 ± 0.012",
        "config.json": '"lr": 0.001',
        "tables/bytes.csv": "tpa12",
        "samples/poem.txt": "or</b> not",
    }
    for other, piece in kept.items():
        assert (piece in page.text) is (other != file)
    assert len(page.images) == (file != "figures/loss curve.png")
    assert "Missing or damaged" in render_markdown([run])


def test_one_bad_record_leaves_the_other_claims(run):
    data = json.loads((run / "records.json").read_text())
    data[0]["verdict"] = "surely"
    (run / "records.json").write_text(json.dumps(data))
    text = render_markdown([run])
    assert "had 'surely'" in text
    assert "tpa/rotation" in text


def test_several_orderings_come_with_the_rate_of_one_comparison(run, record):
    def text(count):
        orders = [
            dataclasses.replace(record, claim_id=f"order-{i}", claim_type=ClaimType.ORDERING)
            for i in range(count)
        ]
        write_records(run / "records.json", orders)
        return render_markdown([run])

    assert "The 3 orderings are judged one by one." in text(3)
    assert "one by one" not in text(1)


def test_several_runs_each_have_a_section(run, tmp_path):
    (tmp_path / "empty").mkdir()
    text = render_markdown([run, tmp_path / "empty"])
    assert [line for line in text.splitlines() if line.startswith("## ")] == [
        "## tpa (my run)",
        "## empty",
    ]


@pytest.mark.parametrize(
    ("x", "se", "text"),
    [
        (1.8934567, 0.0123, "1.893"),
        (1.8934567, 0.00456, "1.8935"),
        (1.8934567, None, "1.893"),
        (1234.6, 25.0, "1235"),
        (123568128, None, "123568128"),
        (0.1, 0.0, "0.1"),
        (3e-15, 1e-15, "3e-15"),
        (float("nan"), None, "nan"),
        (1.5, float("nan"), "1.5"),
    ],
)
def test_numbers(x, se, text):
    assert format_number(x, se) == text


def test_measured_values():
    bootstrap, se = UncertaintyKind.BOOTSTRAP, UncertaintyKind.STANDARD_ERROR
    assert format_measured(Measured()) == "not measured"
    assert (
        format_measured(Measured(15.91, (15.1, 16.4), bootstrap, "x", 12))
        == "15.91 [15.10, 16.40] x (bootstrap interval, n = 12)"
    )
    assert (
        format_measured(Measured({"tpa": 1.2345, "mha": 1.5}, {"tpa": 0.01}, se, "nats", 2))
        == "tpa 1.234 ± 0.010; mha 1.5 nats (standard error, n = 2)"
    )
