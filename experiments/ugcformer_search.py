"""What the UGCFormer experiment varies: alpha and beta, and readings that the paper leaves open."""

import hashlib
import json
import math
import pathlib
from collections.abc import Iterable
from typing import Any

import numpy as np
import rich.console
from jax.sharding import Mesh
from ml_collections import ConfigDict

from configs.ugcformer import get_config
from experiments.claims import add_records, claim_context
from experiments.tables import print_table, write_csv
from experiments.training_run import provenance, result_file
from experiments.ugcformer_claims import other_graph, paper_score, paper_source
from experiments.ugcformer_training import (
    METRICS,
    Result,
    check_problem,
    chosen_problems,
    divergence,
    load_problem,
    run_name,
    train_model,
)
from neurips25.evidence import (
    ClaimRecord,
    ClaimType,
    Measured,
    Scale,
    Setting,
    UncertaintyKind,
    Verdict,
    mean_and_se,
    new_figure,
    plot_band,
    save_figure,
)
from neurips25.graphs import NodeGraph


def _copy(config: ConfigDict, problem: str, runs: int) -> ConfigDict:
    copy = config.copy_and_resolve_references()
    copy[problem].runs = runs
    return copy


def _add_model(config: ConfigDict, name: str, change: dict[str, Any]) -> None:
    with config.unlocked():
        config.models[name] = ConfigDict({"kind": "ugcformer", **change})


def _problem(config: ConfigDict, field: str) -> str:
    asked, problems = config[field].problem, chosen_problems(config)
    if asked:
        return check_problem(config, f"{field}.problem", asked)
    return "cora" if "cora" in problems else problems[0]


def sensitivity(
    config: ConfigDict, workdir: pathlib.Path, mesh: Mesh, console: rich.console.Console
) -> None:
    """Trains UGCFormer with each alpha and each beta of ``config.sensitivity``, one at a time.

    Writes ``tables/sensitivity.csv`` and a figure for either.

    Args:
      config: the experiment's config.
      workdir: the run directory; trainings that it holds already are not repeated.
      mesh: devices.
      console: where to print.
    """
    s = config.sensitivity
    problem = _problem(config, "sensitivity")
    graph = load_problem(config, problem)
    own = _copy(config, problem, s.runs)
    rows = []
    for field in ("alpha", "beta"):
        results: list[list[Result]] = []
        for value in s[field]:
            name = f"{field}_{value:g}".replace(".", "_")
            _add_model(own, name, {field: float(value)})
            results.append(train_model(own, problem, name, graph, workdir, mesh))
            columns = [
                [r.test for r in results[-1]], _of_channel(results[-1], "attr"),
                [r.val for r in results[-1]],
            ]  # fmt: skip
            means = [divergence(own) or f"{100 * np.mean(own):.2f}" for own in columns]
            rows.append([problem, field, f"{value:g}", len(results[-1]), *means])
        _plot(problem, field, s[field], results, workdir / "figures")
    header = ("graph", "field", "value", "runs", "test / %", "attribute channel / %",
              "validation / %")  # fmt: skip
    write_csv(workdir / "tables" / "sensitivity.csv", header, rows)
    print_table(console, "UGCFormer by alpha and by beta, mean over runs", header, rows)


def _of_channel(results: list[Result], channel: str) -> list[float]:
    return [r.channels.get(channel, math.nan) for r in results]


def _plot(
    problem: str, field: str, values: Any, results: list[list[Result]], figures: pathlib.Path
) -> None:
    fig, ax = new_figure(field, "test score / %", f"{problem}: sensitivity to {field}")
    x = np.asarray(values, float)
    mixed = np.array([[100 * r.test for r in runs] for runs in results]).T
    plot_band(ax, x, mixed, "mixed")
    for channel, label in (("topo", "topology channel"), ("attr", "attribute channel")):
        plot_band(ax, x, 100 * np.array([_of_channel(runs, channel) for runs in results]).T, label)
    if field == "beta" and (x > 0).any():
        ax.set_xscale("symlog", linthresh=float(x[x > 0].min()))
    save_figure(fig, figures / f"{problem}_{field}.png")


def search(
    config: ConfigDict, workdir: pathlib.Path, mesh: Mesh, console: rich.console.Console
) -> list[ClaimRecord]:
    """Random search over ``config.search.space``; validation alone decides, the test comes once.

    Every trial is trained ``runs`` times; the best of them, ``finalists`` many, ``finalist_runs``
    times, so that no lucky seed wins; the best of those ``final_runs`` times.

    Writes ``tables/search.csv`` and adds its record to ``records.json``.

    Args:
      config: the experiment's config.
      workdir: the run directory; trials that it holds already are not repeated.
      mesh: devices.
      console: where to print.

    Returns:
      One record: the paper's number against the test score of the best reading.
    """
    s = config.search
    problem = _problem(config, "search")
    graph = load_problem(config, problem)
    own = _copy(config, problem, s.runs)
    own[problem].train.steps = s.steps
    rng = np.random.default_rng(s.seed)
    choices: dict[str, dict[str, Any]] = {}
    trials = min(s.trials, math.prod(len(values) for values in s.space.values()))
    while len(choices) < trials:
        choice = {k: v[rng.integers(len(v))] for k, v in sorted(s.space.items())}
        # Named by what it is: another search in this directory may go on with it.
        digest = hashlib.sha1(json.dumps({"steps": s.steps, **choice}).encode()).hexdigest()
        name = f"trial_{digest[:8]}"
        choices[name] = choice
        _add_model(own, name, choice)
    seen: dict[str, tuple[int, float]] = {}

    def best_first(names: Iterable[str], runs: int) -> list[str]:
        own[problem].runs = runs
        for name in names:
            results = train_model(own, problem, name, graph, workdir, mesh)
            seen[name] = runs, float(np.mean([r.val for r in results]))
        return sorted(seen, key=lambda name: (seen[name][0], np.nan_to_num(seen[name][1], nan=-1)),
                      reverse=True)  # fmt: skip

    order = best_first(choices, s.runs)
    order = best_first(order[: s.finalists], s.finalist_runs)
    header = ("trial", "runs", "validation / %", *sorted(s.space))
    rows = [
        [
            name, seen[name][0],
            "diverged" if math.isnan(seen[name][1]) else f"{100 * seen[name][1]:.2f}",
            *choices[name].values(),
        ]
        for name in order
    ]  # fmt: skip
    write_csv(workdir / "tables" / "search.csv", header, rows)
    print_table(console, f"{problem}: best readings by validation", header[:3],
                [row[:3] for row in rows[: s.finalists]])  # fmt: skip
    choice = choices[order[0]]
    own[problem].runs = s.final_runs
    results = train_model(own, problem, order[0], graph, workdir, mesh)
    record = _record(config, problem, graph, len(choices), choice, results, workdir)
    add_records(workdir / "records.json", [record])
    found = divergence([r.test for r in results]) or f"{record.measured.value:.2f}"
    console.print(f"{problem}: {record.measured.unit} {found}; {choice}")
    return [record]


def _record(
    config: ConfigDict,
    problem: str,
    graph: NodeGraph,
    tried: int,
    choice: dict[str, Any],
    results: list[Result],
    workdir: pathlib.Path,
) -> ClaimRecord:
    context = claim_context(config, get_config)
    estimate = mean_and_se([100 * r.test for r in results])
    several = estimate.se is not None
    percent = paper_score(problem, "ugcformer")
    reading = ", ".join(f"{k} {v}" for k, v in sorted(choice.items()))
    made = provenance([result_file(workdir, run_name(problem, r.model, r.run)) for r in results])
    score = f"test {METRICS[config[problem].metric]}"
    difference = other_graph(problem, graph)
    return ClaimRecord(
        method="ugcformer",
        claim_id=f"{problem}-best-reading".replace("_", "-"),
        claim_type=ClaimType.FULL_SCALE_NUMBER,
        statement=f"On {problem} ugcformer has a {score} "
        + ("that is not reported." if percent is None else f"of {percent:.2f} %."),
        paper_value=percent,
        paper_unit="%",
        source=paper_source(problem),
        setting=Setting(
            context.setting_name, Scale.REDUCED, tuple(r.run for r in results),
            f"{problem}, {graph.num_nodes} nodes; {tried} readings tried, the best by validation",
        ),
        command=context.command + " --config.task=search",
        measured=Measured(
            value=estimate.value, uncertainty=estimate.se,
            kind=UncertaintyKind.STANDARD_ERROR if several else UncertaintyKind.NONE,
            unit=f"{score} / %, mean over runs", n=len(results),
        ),
        verdict=Verdict.NOT_TESTED,
        note=" ".join([f"Best by validation: {reading}.", *([difference] if difference else [])]),
        **made._asdict(),
    )  # fmt: skip
