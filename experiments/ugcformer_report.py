"""Tables and figures of the UGCFormer experiment."""

import math
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import rich.console
from ml_collections import ConfigDict

from experiments import ugcformer_claims
from experiments.benchmarks import ugcformer as benchmark
from experiments.claims import add_records
from experiments.figures import plot_curves
from experiments.tables import print_table, write_csv
from experiments.training_run import provenance, result_file
from experiments.ugcformer_models import untuned
from experiments.ugcformer_training import METRICS, divergence, run_name
from neurips25.evidence import (
    ClaimRecord,
    beyond_noise,
    critical_value,
    difference_with_se,
    line_cycle,
    new_figure,
    plot_points,
    save_figure,
)
from neurips25.graphs import NodeGraph, homophily


def by_model(results: Sequence[Any]) -> dict[str, dict[str, list[Any]]]:
    """Graph -> model -> its results, one per run."""
    groups: dict[str, dict[str, list[Any]]] = {}
    for r in results:
        groups.setdefault(r.problem, {}).setdefault(r.model, []).append(r)
    return groups


def _spread(values: Sequence[float]) -> str:
    percent = 100 * np.asarray(values)
    if bad := divergence(values):
        return bad
    if len(percent) < 2:
        return f"{percent[0]:.2f}"
    return f"{percent.mean():.2f} ± {percent.std(ddof=1):.2f}"


def _score_rows(
    config: ConfigDict, groups: Mapping[str, Mapping[str, Sequence[Any]]]
) -> list[list[Any]]:
    return [
        [
            problem, model, METRICS[config[problem].metric], len(runs),
            _spread([r.test for r in runs]), _spread([r.val for r in runs]), runs[0].parameters,
            _median([r.best_step for r in runs if not r.diverged], 0),
            _median([r.seconds for r in runs if not r.diverged], 1),
            *(
                _spread([r.channels.get(c, math.nan) for r in runs])
                if any(r.channels for r in runs) else ""
                for c in ("topo", "attr")
            ),
        ]
        for problem, models in groups.items()
        for model, runs in models.items()
    ]  # fmt: skip


def _median(values: Sequence[float], decimals: int) -> str:
    return f"{np.median(values):.{decimals}f}" if values else ""


def _settings_rows(
    config: ConfigDict, groups: Mapping[str, Mapping[str, Sequence[Any]]]
) -> list[list[str]]:
    return [
        [
            problem, model,
            ugcformer_claims.settings_text(config, problem, model).removeprefix(f"{model}: "),
            ugcformer_claims.UNTUNED if untuned(config, model) else "",
        ]
        for problem, models in groups.items()
        for model in models
    ]  # fmt: skip


def _pair_rows(groups: Mapping[str, Mapping[str, Sequence[Any]]]) -> list[list[Any]]:
    rows = []
    for problem, models in groups.items():
        first, *others = models
        for other in others:
            pair = [first, other]
            if bad := [name for name in pair if any(r.diverged for r in models[name])]:
                rows.append([problem, first, other, "", "", "", f"{', '.join(bad)} diverged"])
                continue
            a, b = ([100 * r.test for r in models[name]] for name in pair)
            d = difference_with_se(a, b, paired=True)
            told = "yes" if beyond_noise(d.value, d.se, dof=d.dof) else "no"
            rows.append([
                problem, first, other, f"{d.value:+.2f}", "" if d.se is None else f"{d.se:.2f}",
                "" if d.dof is None else f"{critical_value(d.dof):.1f}",
                "undecided" if ugcformer_claims.undecided(d) else told,
            ])  # fmt: skip
    return rows


def _graph_rows(loaded: Mapping[str, NodeGraph]) -> list[list[Any]]:
    return [
        [
            problem, g.num_nodes, g.num_edges, g.features.shape[1], g.num_classes,
            f"{homophily(g):.3f}", g.num_splits,
            "/".join(str(int(m[0].sum())) for m in (g.train_mask, g.val_mask, g.test_mask)),
        ]
        for problem, g in loaded.items()
    ]  # fmt: skip


def _figures(groups: Mapping[str, Mapping[str, Sequence[Any]]], figures: pathlib.Path) -> None:
    for problem, models in groups.items():
        scores = {m: [100 * r.test for r in runs if not r.diverged] for m, runs in models.items()}
        scores = {m: own for m, own in scores.items() if own}
        if scores:
            size = (1.0 + 0.8 * len(scores), 4.0)
            fig, ax = new_figure("", "test score / %", problem, size=size)
            plot_points(ax, scores)
            ax.tick_params(axis="x", labelsize="x-small", rotation=30)
            save_figure(fig, figures / f"{problem}_scores.png")
        whole = ([r for r in runs if r.gates and r.curve] for runs in models.values())
        if ours := next((runs for runs in whole if runs), []):
            _learning_curves(problem, ours, figures)
    _gates(groups, figures)


def _learning_curves(problem: str, runs: Sequence[Any], figures: pathlib.Path) -> None:
    def columns(names: Mapping[str, str]) -> dict[str, list[list[tuple[float, float]]]]:
        return {
            shown: [list(zip(r.curve["step"], r.curve[name])) for r in runs]
            for name, shown in names.items()
        }

    scores = {
        "val_score": "mixed", "val_score_topo": "topology channel",
        "val_score_attr": "attribute channel",
    }  # fmt: skip
    plot_curves(
        columns(scores), "gradient steps", "validation score", f"{problem}: {runs[0].model}",
        figures / f"{problem}_curves.png",
    )  # fmt: skip
    losses = {"loss_ce": "cross-entropy", "loss_con": "consistency (before beta)"}
    plot_curves(
        columns(losses), "gradient steps", "loss / nats, squared distance",
        f"{problem}: {runs[0].model}", figures / f"{problem}_losses.png",
    )  # fmt: skip


def _gates(groups: Mapping[str, Mapping[str, Sequence[Any]]], figures: pathlib.Path) -> None:
    gates = {
        problem: np.asarray(known)
        for problem, models in groups.items()
        if (known := [r.gates for r in models.get("ugcformer", []) if r.gates])
    }
    if not gates:
        return
    fig, left = new_figure(size=(10.0, 4.0))
    grid = fig.add_gridspec(1, 2, wspace=0.25)
    left.set_subplotspec(grid[0])
    right = fig.add_subplot(grid[1], sharey=left)
    for gate, (ax, name) in enumerate(((left, "lambda"), (right, "gamma"))):
        ax.set(xlabel="layer", ylabel=f"tanh({name}), mean over runs", title=f"Gate {name}")
        ax.set_prop_cycle(line_cycle())
        ax.grid(alpha=0.3)
        for problem, own in gates.items():
            layers = np.arange(1, own.shape[1] + 1)
            label = problem if gate else None
            ax.plot(layers, own[..., gate].mean(axis=0), marker="o", label=label)
            ax.set_xticks(layers)
    right.legend(frameon=False, fontsize="small", loc="center left", bbox_to_anchor=(1.0, 0.5))
    save_figure(fig, figures / "gates.png")


def write_tables(
    config: ConfigDict,
    results: Sequence[Any],
    loaded: Mapping[str, NodeGraph],
    workdir: pathlib.Path,
    console: rich.console.Console,
) -> list[ClaimRecord]:
    """Writes tables, figures and ``records.json``, and prints the main tables.

    Args:
      config: the experiment's config.
      results: of the training runs.
      loaded: the graphs.
      workdir: the run directory.
      console: where to print.

    Returns:
      The records.
    """
    groups, tables = by_model(results), workdir / "tables"
    header: tuple[str, ...] = (
        "graph", "nodes", "edges", "features", "classes", "homophily", "splits", "train/val/test",
    )  # fmt: skip
    write_csv(tables / "graphs.csv", header, _graph_rows(loaded))
    header = ("graph", "model", "score", "runs", "test / %", "validation / %", "parameters",
              "best step", "seconds", "topology channel / %", "attribute channel / %")  # fmt: skip
    rows = _score_rows(config, groups)
    write_csv(tables / "scores.csv", header, rows)
    print_table(
        console, "Test scores at the best validation step, mean ± standard deviation over runs",
        [header[i] for i in (0, 1, 2, 3, 4, 8)],
        [[row[i] for i in (0, 1, 2, 3, 4, 8)] for row in rows],
    )  # fmt: skip
    header = ("graph", "model", "settings", "remark")
    write_csv(tables / "settings.csv", header, _settings_rows(config, groups))
    header = ("graph", "model", "other", "difference / points", "s.e.", "needed s.e.",
              "beyond noise")  # fmt: skip
    write_csv(tables / "paired.csv", header, _pair_rows(groups))
    _figures(groups, workdir / "figures")
    timings = benchmark.in_workdir(config.bench, workdir, console)
    # Not those of the other tasks of this directory, which have records of their own.
    files = [result_file(workdir, run_name(r.problem, r.model, r.run)) for r in results]
    records = ugcformer_claims.claim_records(config, groups, timings, provenance(files), loaded)
    add_records(workdir / "records.json", records)
    return records
