"""Tables and figures that experiments share."""

import csv

import numpy as np
import pytest
import rich.console

from experiments import figures
from experiments.figures import plot_curves
from experiments.tables import write_orderings


@pytest.fixture
def orderings(tmp_path):
    def write(samples, **options):
        console = rich.console.Console(record=True, width=120)
        write_orderings(samples, tmp_path, console, **options)
        with (tmp_path / "tables" / "orderings.csv").open() as f:
            return list(csv.DictReader(f)), console.export_text()

    return write


def test_lower_is_better_unless_it_says_otherwise(orderings):
    samples = {"a": [1.0, 1.1, 1.05], "b": [2.0, 2.1, 2.06]}
    (row,), text = orderings(samples)
    assert (row["better"], row["worse"], row["beyond noise"]) == ("a", "b", "yes")
    assert "judged by itself" in text
    (row,), _ = orderings(samples, larger_is_better=True)
    assert (row["better"], row["worse"], row["difference"]) == ("b", "a", "1.0033")


@pytest.mark.parametrize("larger", [False, True])
def test_what_diverged_is_worse(orderings, larger):
    rows, _ = orderings({"a": [np.nan, 1.0], "b": [2.0, 2.1]}, larger_is_better=larger)
    assert [(r["better"], r["worse"], r["beyond noise"]) for r in rows] == [("b", "a", "yes")]


def test_one_seed_tells_nothing_apart(orderings):
    (row,), _ = orderings({"a": [1.0], "b": [2.0]})
    assert (row["s.e."], row["needed s.e."], row["beyond noise"]) == ("-", "-", "no")


def test_curves_have_gaps_where_a_seed_has_no_value(tmp_path, monkeypatch):
    drawn = {}
    plot_band = figures.plot_band

    def record(ax, x, ys, label):
        drawn[label] = (list(x), np.array(ys))
        plot_band(ax, x, ys, label)

    monkeypatch.setattr(figures, "plot_band", record)
    curves = {
        "whole": [[(1, 5.0), (2, 4.0)], [(1, 5.1), (2, 4.1)]],
        "cut short": [[(1, 5.0), (2, 4.0), (3, 3.0)], [(1, 5.1), (2, np.inf)]],
        "nothing": [[], []],
    }
    path = tmp_path / "figures" / "a.png"
    plot_curves(curves, "x", "y", "title", path)
    assert path.stat().st_size > 5000
    assert drawn["whole"][0] == [1, 2]
    np.testing.assert_array_equal(drawn["whole"][1], [[5.0, 4.0], [5.1, 4.1]])
    np.testing.assert_array_equal(drawn["cut short"][1], [[5.0, 4.0, 3.0], [5.1, np.nan, np.nan]])
