"""Claims of the UGCFormer paper as records, from what a run measured."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from ml_collections import ConfigDict

from configs.ugcformer import SIZES, get_config
from experiments.benchmarks.ugcformer import slope
from experiments.claims import claim_context
from experiments.training_run import Provenance
from experiments.ugcformer_models import untuned, used_settings
from experiments.ugcformer_training import METRICS
from neurips25.evidence import (
    ClaimRecord,
    ClaimType,
    Estimate,
    Measured,
    Scale,
    Setting,
    UncertaintyKind,
    Verdict,
    difference_with_se,
    mean_and_se,
    verdict_at_least,
    verdict_at_most,
    verdict_number,
    verdict_ordering,
)
from neurips25.graphs import NodeGraph

_COLUMNS = (
    ("cora", "citeseer", "pubmed", "photo", "cs", "physics", "questions"),
    ("cornell", "texas", "wisconsin", "actor", "chameleon", "squirrel", "ratings"),
)
# Tables 1 and 2 of OpenReview 7FhWZFoVem: accuracy in per cent, of Questions ROC-AUC.
_TABLES = (
    {
        "gcn": (81.60, 71.60, 78.80, 92.70, 92.92, 96.18, 76.28),
        "gat": (83.00, 72.10, 79.00, 93.87, 93.61, 96.17, 74.94),
        "graph_sage": (82.68, 71.93, 79.41, 94.59, 93.91, 96.49, 76.44),
        "appnp": (83.30, 71.80, 80.10, 94.32, 94.49, 96.54, 75.51),
        "gpr_gnn": (84.20, 71.60, 80.07, 94.49, 95.13, 96.85, 67.15),
        "linkx": (77.95, 68.25, 77.36, 91.97, 94.77, 96.29, 75.71),
        "nodeformer": (82.20, 72.50, 79.90, 93.46, 95.64, 96.24, 74.27),
        "sgformer": (84.50, 72.60, 80.30, 95.10, 94.78, 96.60, 72.15),
        "polynormer": (83.25, 72.31, 79.24, 96.46, 95.53, 97.27, 76.91),
        "ugcformer": (84.94, 73.41, 81.79, 96.21, 95.91, 97.35, 77.02),
    },
    {
        "gcn": (58.41, 65.61, 61.28, 30.63, 43.43, 41.30, 47.77),
        "gat": (58.29, 60.73, 63.64, 30.36, 40.14, 35.09, 47.95),
        "graph_sage": (75.95, 82.43, 81.18, 34.23, 39.11, 36.46, 53.11),
        "appnp": (73.68, 74.57, 70.61, 35.18, 39.42, 38.13, 49.78),
        "gpr_gnn": (78.11, 81.35, 82.55, 35.16, 39.93, 38.95, 43.90),
        "linkx": (77.84, 74.60, 75.49, 36.10, 40.02, 39.88, 51.36),
        "sgformer": (81.64, 84.29, 83.59, 37.79, 44.93, 41.80, 48.01),
        "polynormer": (81.90, 82.57, 83.95, 37.01, 41.97, 40.87, 53.29),
        "ugcformer": (85.14, 84.59, 87.36, 37.41, 43.28, 41.56, 53.48),
    },
)
# Table 3: accuracy. Its numbers on ogbn-proteins are means over 112 tasks, which nothing here
# learns together.
_LARGE = {
    "ugcformer": {"ogbn_arxiv": 74.02},
    "polynormer": {"ogbn_arxiv": 73.46},
    "sgformer": {"ogbn_arxiv": 72.63},
    "gcn": {"ogbn_arxiv": 71.74},
}
_ABLATIONS = {"no_ca": "cross-attention", "no_con": "the consistency loss"}
# A mean that is this close to the paper's, in points, is the same number.
_TOLERANCE = 1.0
# What a report says of baselines.
UNTUNED = "with the settings of UGCFormer on this graph, untuned"
# With fewer runs, or sizes, a small error is too likely to be chance.
LEAST_RUNS = 3
_TEST = "An order counts beyond the 95 % interval of Student's t, paired by run (same split and "
_TEST += "seed), and two standard errors."

Groups = Mapping[str, Mapping[str, Sequence[Any]]]
# Fields of a record, and what its note must say.
About = tuple[dict[str, Any], list[str]]


def paper_score(problem: str, model: str) -> float | None:
    """What the paper reports for a model on a graph, in per cent; None where it has no number."""
    for columns, table in zip(_COLUMNS, _TABLES):
        if problem in columns and model in table:
            return table[model][columns.index(problem)]
    return _LARGE.get(model, {}).get(problem)


def paper_source(problem: str) -> str:
    """The table of the paper that has a graph."""
    tables = dict.fromkeys(_COLUMNS[0], "Table 1") | dict.fromkeys(_COLUMNS[1], "Table 2")
    return tables.get(problem, "Table 3" if problem in SIZES else "Tables 1-3")


def other_graph(problem: str, graph: NodeGraph) -> str:
    """In what a graph differs from the paper's of that name; empty where it does not."""
    here = graph.num_nodes, graph.num_edges, graph.features.shape[1], graph.num_classes
    if problem not in SIZES:
        return "The paper does not have this graph."
    if problem == "ogbn_proteins":
        return "One task of the 112 that the paper's score is the mean of."
    counts = zip(("nodes", "edges", "features", "classes"), here, SIZES[problem])
    wrong = [f"{ours} {name} instead of {paper}" for name, ours, paper in counts if ours != paper]
    return f"Not the paper's graph: it has {', '.join(wrong)}." if wrong else ""


def undecided(estimate: Estimate) -> str:
    """Why runs decide nothing, whatever their mean; empty where they can.

    Args:
      estimate: mean over runs, or over the differences of paired runs.
    """
    if estimate.n < LEAST_RUNS:
        return f"Undecided: needs {LEAST_RUNS} runs at least, has {estimate.n}."
    if estimate.se is not None and estimate.se < 1e-9:
        return "Undecided: no error can be told from runs that do not differ."
    return ""


def claim_records(
    config: ConfigDict,
    groups: Groups,
    timings: Sequence[Mapping[str, Any]],
    made: Provenance,
    loaded: Mapping[str, NodeGraph],
) -> list[ClaimRecord]:
    """The records of one run.

    Args:
      config: the experiment's config.
      groups: graph -> model -> results.
      timings: rows of :func:`experiments.benchmarks.ugcformer.measure_scaling`.
      made: when and with what they were measured.
      loaded: the graphs.

    Returns:
      The records, valid by the schema.
    """
    context = claim_context(config, get_config)
    # Fewer runs make the s.e. larger, not the setting smaller.
    fields = ("runs", "models", "data.path", "data.split_dir")
    free = [f"{problem}.{field}" for problem in groups for field in fields]
    unchanged = context.unchanged_except("data_dir", "problems", *free)
    as_published = config.preset == "paper" and unchanged
    common: dict[str, Any] = {"method": "ugcformer", "command": context.command, **made._asdict()}

    def about(problem: str, *names: str) -> About:
        difference = other_graph(problem, loaded[problem])
        baselines = [name for name in names if untuned(config, name)]
        full = as_published and not difference and not baselines
        setting = Setting(
            context.setting_name, Scale.FULL if full else Scale.REDUCED,
            tuple(range(config[problem].runs)),
            f"{problem}; " + "; ".join(settings_text(config, problem, n) for n in names),
        )  # fmt: skip
        remarks = [difference] if difference else []
        if baselines:
            remarks.append(f"{', '.join(baselines)}: {UNTUNED}.")
        return dict(common, setting=setting), remarks

    records: list[ClaimRecord] = []
    for problem, models in groups.items():
        unit = f"test {METRICS[config[problem].metric]} / %"
        for model, runs in models.items():
            percent = paper_score(problem, model)
            if percent is not None:
                records.append(_number(problem, model, percent, runs, unit, about(problem, model)))
        if "ugcformer" in models and problem in SIZES:
            records += _orders(problem, models, unit, about)
            records += _attention(problem, loaded[problem], models["ugcformer"],
                                  about(problem, "ugcformer"))  # fmt: skip
    return records + _linear_time(timings, common, context.setting_name)


def settings_text(config: ConfigDict, problem: str, name: str) -> str:
    """The settings that a model uses, in a line."""
    used = used_settings(config, problem, name).items()
    return f"{name}: " + ", ".join(f"{field} {value}" for field, value in used)


def _number(
    problem: str, model: str, percent: float, runs: Sequence[Any], unit: str, about: About
) -> ClaimRecord:
    common, remarks = about
    estimate = mean_and_se([100 * r.test for r in runs])
    open_question = undecided(estimate)
    verdict = verdict_number(
        estimate.value, estimate.se, percent, _TOLERANCE, common["setting"].scale,
        dof=estimate.dof,
    )  # fmt: skip
    if open_question and common["setting"].scale is Scale.FULL:
        verdict = Verdict.NOT_TESTED
        remarks = [*remarks, open_question]
    return ClaimRecord(
        **common,
        claim_id=f"{problem}-{model}".replace("_", "-"),
        claim_type=ClaimType.FULL_SCALE_NUMBER,
        statement=f"On {problem} {model} has a {unit.removesuffix(' / %')} of {percent:.2f} %.",
        paper_value=percent,
        paper_unit="%",
        source=paper_source(problem),
        measured=_scores({model: runs}, unit),
        verdict=verdict,
        note=" ".join([
            f"Standard deviation {_std(runs):.2f}; {runs[0].parameters} parameters.", *remarks,
        ]),
    )  # fmt: skip


def _std(runs: Sequence[Any]) -> float:
    return float(100 * np.std([r.test for r in runs], ddof=1)) if len(runs) > 1 else math.nan


def _scores(models: Mapping[str, Sequence[Any]], unit: str, channel: str = "") -> Measured:
    estimates = {
        name: mean_and_se([100 * x for x in _of(runs, channel)]) for name, runs in models.items()
    }
    n = min(e.n for e in estimates.values())
    return Measured(
        value={name: e.value for name, e in estimates.items()},
        uncertainty={name: e.se for name, e in estimates.items()} if n > 1 else None,
        kind=UncertaintyKind.STANDARD_ERROR if n > 1 else UncertaintyKind.NONE,
        unit=f"{unit}, {'by the attribute channel alone, ' if channel else ''}mean over runs",
        n=n,
    )


def _of(runs: Sequence[Any], channel: str) -> list[float]:
    return [r.channels.get(channel, math.nan) if channel else r.test for r in runs]


def _order(
    claim_id: str,
    models: Mapping[str, Sequence[Any]],
    unit: str,
    about: About,
    channel: str = "",
    **claim: Any,
) -> ClaimRecord:
    """A record on the first of two models being the better one."""
    common, remarks = about
    first, second = models
    errors = {name: [1 - x for x in _of(runs, channel)] for name, runs in models.items()}
    open_question = undecided(difference_with_se(errors[second], errors[first], paired=True))
    return ClaimRecord(
        **common,
        **claim,
        claim_id=claim_id.replace("_", "-"),
        claim_type=ClaimType.ORDERING,
        measured=_scores(models, unit, channel),
        verdict=Verdict.NOT_TESTED if open_question
        else verdict_ordering(errors, [first, second], paired=True),
        note=" ".join([_TEST, *remarks, *([open_question] if open_question else [])]),
    )  # fmt: skip


def _orders(
    problem: str, models: Mapping[str, Sequence[Any]], unit: str, about: Callable[..., About]
) -> list[ClaimRecord]:
    records = []
    ours = paper_score(problem, "ugcformer")
    for other in models:
        theirs = paper_score(problem, other)
        if other != "ugcformer" and ours is not None and theirs is not None and ours > theirs:
            records.append(
                _order(
                    f"{problem}-above-{other}", _pair(models, other), unit,
                    about(problem, "ugcformer", other),
                    statement=f"On {problem} UGCFormer has a higher score than {other}.",
                    paper_value=f"{ours} % against {theirs} %", source=paper_source(problem),
                )
            )  # fmt: skip
    for other, part in _ABLATIONS.items():
        if other in models:
            records.append(
                _order(
                    f"{problem}-with-{other}", _pair(models, other), unit,
                    about(problem, "ugcformer", other),
                    statement=f"On {problem} UGCFormer has a lower score without {part}.",
                    paper_value="lower, on four graphs", source="Figure 3",
                )
            )  # fmt: skip
    if "no_con" in models:
        records.append(
            _order(
                f"{problem}-consistency-teaches-attributes", _pair(models, "no_con"), unit,
                about(problem, "ugcformer", "no_con"), channel="attr",
                statement=f"On {problem} the consistency loss carries what the topology channel "
                "knows to the attribute channel.",
                paper_value="higher with the loss", source="Section 4.2",
            )
        )  # fmt: skip
    return records


def _pair(models: Mapping[str, Sequence[Any]], other: str) -> dict[str, Sequence[Any]]:
    return {name: models[name] for name in ("ugcformer", other)}


def _attention(
    problem: str, graph: NodeGraph, runs: Sequence[Any], about: About
) -> list[ClaimRecord]:
    """How little the attention of the printed equations changes its values."""
    changes = [r.change for r in runs if math.isfinite(r.change)]
    if not changes:
        return []
    common, remarks = about
    n = graph.num_nodes
    bound = (1 / n + n**-0.5) / (1 - n**-0.5)
    return [
        ClaimRecord(
            **common,
            claim_id=f"{problem}-attention-near-identity".replace("_", "-"),
            claim_type=ClaimType.EXACT_PROPERTY,
            statement=f"With the norm of equation 8 dual cross-attention on the {n} nodes of "
            f"{problem} changes its values by less than {bound:.2g}, whatever is learned.",
            paper_value=bound,
            paper_unit="|DCA - V| / |V|",
            source="Follows from equations 7-9",
            measured=Measured(
                value=max(changes), unit="|DCA - V| / |V|, largest over layers and runs",
                n=len(changes),
            ),
            verdict=Verdict.HOLDS if max(changes) <= bound else Verdict.DOES_NOT_HOLD,
            note=" ".join(["The ablation row_l2 has the norm that theorem 3 assumes.", *remarks]),
        )
    ]  # fmt: skip


def _linear_time(
    timings: Sequence[Mapping[str, Any]], common: dict[str, Any], name: str
) -> list[ClaimRecord]:
    records = []
    for kind, what, low, high in (
        ("dca", "dual cross-attention", 0.8, 1.25),
        ("softmax", "softmax cross-attention", 1.7, 2.3),
    ):
        own = [r for r in timings if r["kind"] == kind]
        if len({r["nodes"] for r in own}) < LEAST_RUNS:
            continue
        estimate = slope(own)
        power = "linearly" if kind == "dca" else "quadratically"
        records.append(
            ClaimRecord(
                **common,
                claim_id=f"{kind}-time-in-nodes",
                claim_type=ClaimType.TIMING,
                statement=f"The time of {what} grows {power} with the nodes.",
                paper_value="linear" if kind == "dca" else "quadratic",
                source="Figure 5 and section 4.1",
                setting=Setting(
                    name, Scale.REDUCED,
                    data=f"random, {own[0]['nodes']} to {own[-1]['nodes']} nodes, width "
                    f"{own[0]['width']}, forward and backward",
                ),
                measured=Measured(
                    value=estimate.value, uncertainty=estimate.se,
                    kind=UncertaintyKind.STANDARD_ERROR, unit="exponent of the time", n=len(own),
                ),
                verdict=_within(estimate, low, high),
                note=f"Holds where the 95 % interval of the exponent, as wide as two standard "
                f"errors at least, lies in [{low}, {high}]; does not where it lies outside. On "
                f"{common['versions'].get('device', 'this machine')}.",
            )
        )  # fmt: skip
    return records


def _within(estimate: Estimate, low: float, high: float) -> Verdict:
    ends = {
        verdict_at_least(estimate.value, low, estimate.se, dof=estimate.dof),
        verdict_at_most(estimate.value, high, estimate.se, dof=estimate.dof),
    }
    if Verdict.DOES_NOT_HOLD in ends:
        return Verdict.DOES_NOT_HOLD
    return Verdict.HOLDS if ends == {Verdict.HOLDS} else Verdict.PARTLY
