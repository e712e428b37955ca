"""Figures that show their uncertainty.

Figures are made directly on the Agg canvas, so nothing here depends on a display. pyplot only
closes a caller's figure that it manages.
"""

import math
import os
import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.rcsetup import cycler
from numpy.typing import ArrayLike

from neurips25.data import replaced_file
from neurips25.evidence.statistics import mean_and_se

# Okabe and Ito's colours, told apart with every common form of colour blindness (their
# yellow is left out: it is too faint on white).
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")


def line_cycle() -> Any:
    """Colours of lines; after the last one they go on dashed rather than look like the first."""
    return cycler(linestyle=["-", "--"]) * cycler(color=PALETTE)


def new_figure(
    xlabel: str = "", ylabel: str = "", title: str = "", size: tuple[float, float] = (6.0, 4.0)
) -> tuple[Figure, Axes]:
    """Makes a figure with one pair of axes.

    Args:
      xlabel, ylabel: axis labels, with their units.
      title: title of the axes.
      size: width and height in inches.
    """
    fig = Figure(figsize=size)
    FigureCanvasAgg(fig)
    ax = fig.add_subplot(xlabel=xlabel, ylabel=ylabel, title=title)
    ax.set_prop_cycle(line_cycle())
    ax.grid(alpha=0.3)
    ax.spines[["top", "right"]].set_visible(False)
    return fig, ax


def plot_band(ax: Axes, x: ArrayLike, ys: ArrayLike, label: str) -> None:
    """Draws the mean over seeds as a line, with a band of one standard error around it.

    Args:
      ax: axes to draw on.
      x: float ``[points]``.
      ys: float ``[seeds, points]``; one seed gives a line without a band.
      label: the method's name; the legend adds what the band is and the number of seeds.

    Raises:
      ValueError: if the shapes do not match.
    """
    xs, values = np.asarray(x, float), np.asarray(ys, float)
    if xs.ndim != 1 or values.ndim != 2 or values.shape[1] != xs.size or not values.size:
        raise ValueError(
            f"ys had shape {values.shape}, needs [seeds, points] with x of shape [points], "
            f"which had {xs.shape}"
        )
    n = values.shape[0]
    mean = values.mean(0)
    note = f"mean ± s.e., n = {n}" if n >= 2 else "n = 1"
    (line,) = ax.plot(xs, mean, label=f"{label} ({note})")
    if n >= 2:
        se = values.std(0, ddof=1) / math.sqrt(n)
        ax.fill_between(xs, mean - se, mean + se, color=line.get_color(), alpha=0.2, lw=0)


def plot_points(ax: Axes, samples: Mapping[str, ArrayLike]) -> None:
    """Draws for each method its samples, and the mean with a bar of one standard error.

    Args:
      ax: axes to draw on.
      samples: method name -> float ``[n]``; with n = 1 there is a point and no bar.
    """
    labels = []
    for i, (name, values) in enumerate(samples.items()):
        estimate = mean_and_se(values)
        color = PALETTE[i % len(PALETTE)]
        ax.scatter(np.full(estimate.n, i), np.asarray(values), color=color, alpha=0.35, s=18)
        ax.errorbar(
            i + 0.12,
            estimate.value,
            yerr=estimate.se,
            fmt="o",
            color=color,
            capsize=4,
        )
        labels.append(f"{name}\nn = {estimate.n}")
    ax.set_xticks(range(len(samples)), labels)
    ax.set_xlim(-0.5, len(samples) - 0.5)
    ax.set_xlabel("the samples and, beside them, mean ± s.e.")


def save_figure(fig: Figure, path: str | os.PathLike[str]) -> pathlib.Path:
    """Writes a figure with tight margins, whole or not at all, and closes it.

    Args:
      fig: the figure; axes that have labelled artists and no legend yet get one.
      path: where to; the suffix names the format (``.png``). Folders are made.

    Returns:
      The path.

    Raises:
      OSError: the file could not be written; one that was there is as it was.
    """
    path = pathlib.Path(path)
    for ax in fig.axes:
        if ax.get_legend() is None and ax.get_legend_handles_labels()[0]:
            ax.legend(frameon=False, fontsize="small")
    with replaced_file(path) as partial:
        fig.savefig(partial, format=path.suffix.lstrip(".") or "png", dpi=150, bbox_inches="tight")
    pyplot.close(fig)
    return path
