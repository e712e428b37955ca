"""Tables and figures of the Strassen experiment, and what they are drawn from."""

import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import rich.console
from ml_collections import ConfigDict

from experiments import strassen_claims, strassen_verify
from experiments.benchmarks import strassen as benchmark
from experiments.tables import print_table, write_csv
from experiments.training_run import provenance
from neurips25.attention import (
    CompositionTask,
    TaskData,
    contains_zero_rule,
    majority_accuracy,
)
from neurips25.evidence import (
    ClaimRecord,
    median_and_quartiles,
    new_figure,
    save_figure,
    write_records,
)

_HEADER = ("problem", "mechanism", "parameters", "seeds", "median accuracy", "quartiles",
           "best", "lowest", "epochs/min", "minutes")  # fmt: skip
_SHORT = (0, 1, 2, 4, 5, 8)


def trivial_accuracies(validation: TaskData) -> dict[str, float]:
    """Accuracy of rules that look at no composition: name -> accuracy on the validation data."""
    answers = validation.labels
    rules = {"majority": majority_accuracy(answers)}
    if validation.task is CompositionTask.FUNCTION_COMPOSITION:
        rules["contains zero"] = contains_zero_rule(validation)
    return rules


def epochs_per_minute(result: Any) -> float:
    """Passes over the training set per minute of training, compilation included."""
    return 60 * result.epochs / result.seconds


def groups_of(results: Sequence[Any]) -> dict[tuple[str, str], list[Any]]:
    """(problem, mechanism) -> its results, one per seed."""
    groups: dict[tuple[str, str], list[Any]] = {}
    for r in results:
        groups.setdefault((r.problem, r.mechanism), []).append(r)
    return groups


def _accuracy_rows(
    results: Sequence[Any], trivial: Mapping[str, Mapping[str, float]]
) -> list[list[Any]]:
    rows = []
    groups = groups_of(results)
    for problem, rules in trivial.items():
        for rule, accuracy in rules.items():
            rows.append([problem, f"({rule})", 0, "-", f"{accuracy:.4f}", "-", "-", "-", "-", "-"])
        for (own, mechanism), runs in groups.items():
            if own != problem:
                continue
            accuracies = [r.accuracy for r in runs]
            q = median_and_quartiles(accuracies)
            rows.append([
                problem, mechanism, runs[0].parameters, len(runs), f"{q.median:.4f}",
                f"{q.low:.4f}-{q.high:.4f}", f"{max(accuracies):.4f}", f"{min(accuracies):.4f}",
                f"{np.median([epochs_per_minute(r) for r in runs]):.0f}",
                f"{np.median([r.seconds for r in runs]) / 60:.2f}",
            ])  # fmt: skip
    return rows


def _plot_quartiles(ax: Any, x: np.ndarray, ys: np.ndarray, label: str) -> None:
    low, median, high = np.quantile(ys, [0.25, 0.5, 0.75], axis=0)
    (line,) = ax.plot(x, median, label=f"{label} (median, quartiles, n = {len(ys)})")
    ax.fill_between(x, low, high, color=line.get_color(), alpha=0.2, lw=0)


def _figures(
    results: Sequence[Any], trivial: Mapping[str, Mapping[str, float]], figures: pathlib.Path
) -> None:
    groups = groups_of(results)
    for problem, rules in trivial.items():
        title = problem.replace("_", " ")
        for column, label, unit in ((0, "epochs", 1.0), (1, "minutes", 60.0)):
            fig, ax = new_figure(f"{label} of training", "validation accuracy", title)
            for (own, mechanism), runs in groups.items():
                curves = [np.asarray(r.curve) for r in runs if r.curve]
                if own != problem or not curves:
                    continue
                x = np.median([c[:, column] for c in curves], axis=0) / unit
                _plot_quartiles(ax, x, np.stack([c[:, 2] for c in curves]), mechanism)
            for rule, accuracy in rules.items():
                ax.axhline(accuracy, color="gray", ls=":", lw=1)
                ax.annotate(rule, (0.01, accuracy), xycoords=("axes fraction", "data"),
                            fontsize="x-small", color="gray", va="bottom")  # fmt: skip
            save_figure(fig, figures / f"{problem}_accuracy_vs_{label}.png")
    fig, ax = new_figure("", "epochs per minute of training", "Speed, median over seeds")
    labels = [f"{p.replace('_', ' ')}: {m}" for p, m in groups]
    speeds = [np.median([epochs_per_minute(r) for r in runs]) for runs in groups.values()]
    ax.barh(labels[::-1], speeds[::-1])
    ax.set_xlabel("epochs per minute of training")
    ax.set_ylabel("")
    ax.tick_params(labelsize="x-small")
    save_figure(fig, figures / "epochs_per_minute.png")


def write_report(
    config: ConfigDict,
    results: Sequence[Any],
    trivial: Mapping[str, Mapping[str, float]],
    workdir: pathlib.Path,
    console: rich.console.Console,
) -> list[ClaimRecord]:
    """Writes tables, figures and ``records.json``, and prints the main tables.

    Args:
      config: the experiment's config.
      results: of the training runs.
      trivial: problem -> rule -> accuracy.
      workdir: the run directory.
      console: where to print.

    Returns:
      The records.
    """
    rows = _accuracy_rows(results, trivial)
    write_csv(workdir / "tables" / "accuracy.csv", _HEADER, rows)
    print_table(
        console, f"Validation accuracy, {len(config.seeds)} seed(s)", [_HEADER[i] for i in _SHORT],
        [[r[i] for i in _SHORT] for r in rows],
    )  # fmt: skip
    _figures(results, trivial, workdir / "figures")
    theory = strassen_verify.verify(config, workdir, console, alone=False)
    timings = benchmark.in_workdir(config.bench, workdir, console)
    made = provenance(sorted((workdir / "results").glob("*.json")))
    records = strassen_claims.claim_records(config, results, timings, made) + theory
    write_records(workdir / "records.json", records)
    return records
