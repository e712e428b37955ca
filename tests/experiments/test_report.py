"""The report command: its files and its errors."""

import os
import pathlib
import subprocess
import sys

import pytest

from experiments import report
from neurips25.evidence import new_figure, save_figure


@pytest.fixture
def workdir(tmp_path):
    path = tmp_path / "runs" / "t6"
    save_figure(new_figure()[0], path / "figures" / "loss.png")
    (path / "config.json").write_text('{"seed": 3}')
    return path


@pytest.mark.parametrize("out", ["reports/all", "reports/all.html"])
def test_writes_both_files_and_prints_their_paths(workdir, tmp_path, capsys, out):
    report.main([str(workdir), f"--out={tmp_path / out}"])
    paths = [tmp_path / "reports" / name for name in ("all.md", "all.html")]
    assert capsys.readouterr().out.splitlines() == [str(p) for p in paths]
    markdown, page = (p.read_text(encoding="utf-8") for p in paths)
    link = "../runs/t6/figures/loss.png"
    assert f"![loss]({link})" in markdown
    assert (paths[0].parent / link).exists()
    assert '"seed": 3' in markdown
    assert "data:image/png;base64," in page


def test_runs_as_a_module_and_writes_where_it_is_called(workdir, tmp_path):
    root = pathlib.Path(report.__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-m", "experiments.report", str(workdir)],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["report.md", "report.html"]
    assert "(runs/t6/figures/loss.png)" in (tmp_path / "report.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("make", "message"), [(False, "no such directory"), (True, "neither config.json nor records")]
)
def test_what_is_no_run_directory_is_an_error_and_nothing_is_written(
    workdir, tmp_path, capsys, make, message
):
    other = tmp_path / "other"
    if make:
        other.mkdir()
    with pytest.raises(SystemExit) as e:
        report.main([str(workdir), str(other), f"--out={tmp_path / 'report'}"])
    assert e.value.code == 2
    error = capsys.readouterr().err
    assert str(other) in error
    assert message in error
    assert not list(tmp_path.glob("report.*"))
