"""Figures: what is drawn, and the file that is written."""

import errno

import numpy as np
import pytest
from matplotlib import pyplot

from neurips25.evidence import PALETTE, new_figure, plot_band, plot_points, save_figure


def test_band_is_mean_and_one_standard_error():
    _, ax = new_figure("step", "loss (nats)")
    ys = np.array([[1.0, 4.0], [2.0, 4.0], [6.0, 4.0]])
    plot_band(ax, [0, 1], ys, "TPA")
    np.testing.assert_allclose(ax.lines[0].get_ydata(), [3.0, 4.0])
    vertices = ax.collections[0].get_paths()[0].vertices
    at_zero = vertices[vertices[:, 0] == 0][:, 1]
    np.testing.assert_allclose(at_zero.max() - 3.0, np.sqrt(7 / 3))
    np.testing.assert_allclose(3.0 - at_zero.min(), np.sqrt(7 / 3))
    assert ax.lines[0].get_label() == "TPA (mean ± s.e., n = 3)"


def test_one_seed_has_no_band_and_says_so():
    _, ax = new_figure()
    plot_band(ax, [0, 1], [[1.0, 2.0]], "TPA")
    assert not ax.collections
    assert ax.lines[0].get_label() == "TPA (n = 1)"


@pytest.mark.parametrize("ys", [[1.0, 2.0], [[1.0, 2.0, 3.0]], np.zeros((0, 2))])
def test_band_refuses_other_shapes(ys):
    _, ax = new_figure()
    with pytest.raises(ValueError, match="ys had shape"):
        plot_band(ax, [0, 1], ys, "TPA")


def test_points_show_samples_mean_and_bar():
    _, ax = new_figure()
    plot_points(ax, {"TPA": [1.0, 2.0, 6.0], "MHA": [2.0]})
    np.testing.assert_allclose(ax.collections[0].get_offsets()[:, 1], [1, 2, 6])
    first, second = ax.containers
    np.testing.assert_allclose(first.lines[0].get_ydata().astype(float), [3.0])
    (bar,) = first.lines[2][0].get_segments()
    np.testing.assert_allclose(bar[:, 1], [3 - np.sqrt(7 / 3), 3 + np.sqrt(7 / 3)])
    assert not second.has_yerr
    assert [t.get_text() for t in ax.get_xticklabels()] == ["TPA\nn = 3", "MHA\nn = 1"]


def test_more_lines_than_colours_stay_distinct():
    _, ax = new_figure()
    for i in range(2 * len(PALETTE)):
        plot_band(ax, [0, 1], [[0.0, i]], str(i))
    assert len({(line.get_color(), line.get_linestyle()) for line in ax.lines}) == len(ax.lines)


@pytest.mark.parametrize("make", [new_figure, pyplot.subplots])
def test_saved_figure_is_a_png_and_closed(tmp_path, make):
    open_before = pyplot.get_fignums()
    fig, ax = make()
    plot_band(ax, [0, 1], [[1.0, 2.0]], "TPA")
    path = save_figure(fig, tmp_path / "figures" / "loss.png")
    assert path.read_bytes().startswith(b"\x89PNG")
    assert [p.name for p in path.parent.iterdir()] == ["loss.png"]
    assert pyplot.get_fignums() == open_before
    assert ax.get_legend() is not None


def test_a_figure_that_cannot_be_drawn_leaves_the_old_file(tmp_path, monkeypatch):
    path = save_figure(new_figure()[0], tmp_path / "loss.png")
    before = path.read_bytes()
    fig, _ = new_figure()

    def full_disk(file, **_):
        file.write_bytes(b"half")
        raise OSError(errno.ENOSPC, "no space left")

    monkeypatch.setattr(fig, "savefig", full_disk)
    with pytest.raises(OSError, match="no space"):
        save_figure(fig, path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["loss.png"]
