"""Figures that more than one experiment draws."""

import pathlib
from collections.abc import Mapping, Sequence

import numpy as np

from neurips25.evidence import new_figure, plot_band, save_figure


def plot_curves(
    curves: Mapping[str, Sequence[Sequence[tuple[float, float]]]],
    xlabel: str,
    ylabel: str,
    title: str,
    path: pathlib.Path,
) -> None:
    """Draws a curve per name, its mean over seeds with a band of one standard error.

    Args:
      curves: name -> seeds -> points (x, y). Where a seed has no point at an x that another
        has, or one that is not finite, as where it diverged, the curve has a gap.
      xlabel, ylabel: with their units.
      title: of the figure.
      path: the PNG file.
    """
    fig, ax = new_figure(xlabel, ylabel, title)
    for name, seeds in curves.items():
        xs = sorted({x for points in seeds for x, _ in points})
        ys = np.full((len(seeds), len(xs)), np.nan)
        for row, points in zip(ys, seeds):
            for x, y in points:
                row[xs.index(x)] = y if np.isfinite(y) else np.nan
        if xs:
            plot_band(ax, xs, ys, name)
        else:
            ax.plot([], [], label=f"{name} (no values)")
    save_figure(fig, path)
