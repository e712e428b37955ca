"""Claims of the Strassen attention paper as records, from what a run measured."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from ml_collections import ConfigDict

from configs.strassen import get_config
from experiments.benchmarks.strassen import exponents
from experiments.claims import claim_context
from experiments.training_run import Provenance
from neurips25.evidence import (
    ClaimRecord,
    ClaimType,
    Measured,
    Scale,
    Setting,
    UncertaintyKind,
    Verdict,
    median_and_quartiles,
    verdict_number,
    verdict_ordering,
    verdict_timing,
)

# Table 1 of arXiv:2501.19215, accuracy in per cent.
TABLE_1 = {
    "binary_relation": {"strassen": 100.0, "standard_2": 92.0},
    "quotient_relation": {"strassen": 98.0, "standard_2": 82.0},
}
COGS = {"strassen": 72.0, "standard": 65.0}

# What figure 1 shows, read as orders: (claim id, problem, better, worse, what it says).
FIGURE_1 = (
    *(
        (f"{problem.replace('_', '-')}-above-standard", problem, "strassen", "standard",
         f"On {problem.replace('_', ' ')} Strassen attention is more accurate than standard "
         "attention.")
        for problem in ("function_composition", "binary_relation", "match3", "quotient_relation")
    ),
    ("quotient-above-triangular", "quotient_relation", "strassen", "triangular",
     "On the quotient task Strassen attention is more accurate than triangular attention."),
    ("relation-triangular-first", "binary_relation", "triangular", "strassen",
     "On binary relation composition triangular attention is more accurate than Strassen "
     "attention."),
    *(
        (f"{problem.replace('_', '-')}-above-third-order", problem, "strassen", "third_order",
         f"On {problem.replace('_', ' ')} Strassen attention is more accurate than third-order "
         "attention.")
        for problem in ("function_composition", "match3")
    ),
)  # fmt: skip

# (problem, slower, faster) in epochs per minute, as figure 1 shows it.
SPEED = (
    *(
        (problem, "third_order", "strassen")
        for problem in ("function_composition", "binary_relation", "match3", "quotient_relation")
    ),
    ("binary_relation", "strassen", "triangular"),
)


def claim_records(
    config: ConfigDict,
    results: Sequence[Any],
    timings: Sequence[Mapping[str, Any]],
    made: Provenance,
) -> list[ClaimRecord]:
    """The records of one run, those of ``strassen_verify`` apart.

    Args:
      config: the experiment's config.
      results: of the training runs.
      timings: rows of :func:`experiments.benchmarks.strassen.measure`.
      made: when and with what they were measured.

    Returns:
      The records, valid by the schema.
    """
    context = claim_context(config, get_config)
    scale = Scale.FULL if config.preset == "paper" and not context.changed else Scale.REDUCED
    common: dict[str, Any] = {"method": "strassen", "command": context.command, **made._asdict()}
    runs: dict[str, dict[str, list[Any]]] = {}
    for r in results:
        runs.setdefault(r.problem, {}).setdefault(r.mechanism, []).append(r)

    def setting(problem: str) -> Setting:
        own = config[problem]
        shown = {k: v for k, v in own.data.items() if k not in ("path", "seed")}
        shown |= {"embedding": own.model.embedding, "d": own.model.d_model}
        shown |= {"batch": own.train.batch_size, "steps": own.train.steps}
        text = ", ".join(f"{k} {v}" for k, v in shown.items())
        return Setting(context.setting_name, scale, tuple(config.seeds), f"{problem}: {text}")

    records = []
    for problem, paper in TABLE_1.items():
        for mechanism, percent in paper.items():
            own = runs.get(problem, {}).get(mechanism)
            if own:
                records.append(_number(problem, mechanism, percent, own, setting(problem), common))
        if set(paper) <= set(runs.get(problem, {})):
            statement = (
                f"On {problem.replace('_', ' ')} one layer of Strassen attention is more accurate "
                "than two layers of standard attention with more parameters."
            )
            records.append(
                _order(f"{problem.replace('_', '-')}-above-two-layers", problem, "strassen",
                       "standard_2", statement, runs, setting(problem), common,
                       f"{paper['strassen']} % against {paper['standard_2']} %", "Table 1")
            )  # fmt: skip
    for claim_id, problem, better, worse, statement in FIGURE_1:
        if {better, worse} <= set(runs.get(problem, {})):
            records.append(
                _order(claim_id, problem, better, worse, statement, runs, setting(problem), common,
                       f"{better} above {worse}", "Figure 1")
            )  # fmt: skip
    for problem, slow, fast in SPEED:
        both = runs.get(problem, {})
        measured = {slow, fast} <= set(both) and len(config.seeds) > 2
        if measured and all(r.curve for r in (*both[slow], *both[fast])):
            records.append(_speed(problem, slow, fast, both, setting(problem), common))
    for problem in ("function_composition", "quotient_relation"):
        if {"strassen", "third_order"} <= set(runs.get(problem, {})):
            records.append(_stability(problem, runs[problem], setting(problem), common))
    records += _forward_times(timings, common, context.setting_name)
    records.append(_cogs(common, context.setting_name))
    return records


def _accuracies(runs: Sequence[Any]) -> Measured:
    q = median_and_quartiles([100 * r.accuracy for r in runs])
    return Measured(
        value=q.median,
        uncertainty=(q.low, q.high),
        kind=UncertaintyKind.QUARTILES,
        unit="% of validation tokens, median over seeds",
        n=len(runs),
    )


def _number(
    problem: str,
    mechanism: str,
    percent: float,
    runs: Sequence[Any],
    setting: Setting,
    common: dict[str, Any],
) -> ClaimRecord:
    name = mechanism.replace("_", "-")
    measured = _accuracies(runs)
    layers = "two layers" if mechanism == "standard_2" else "one layer"
    return ClaimRecord(
        **common,
        claim_id=f"{problem.replace('_', '-')}-{name}",
        claim_type=ClaimType.FULL_SCALE_NUMBER,
        statement=f"On {problem.replace('_', ' ')} the accuracy of {layers} of "
        f"{mechanism.removesuffix('_2')} attention is {percent:.0f} %.",
        paper_value=percent,
        paper_unit="% accuracy",
        source="Table 1",
        setting=setting,
        measured=measured,
        verdict=verdict_number(float(measured.value), None, percent, 1.0, setting.scale),  # type: ignore[arg-type]
        note=f"{runs[0].parameters} parameters here.",
    )


def _order(
    claim_id: str,
    problem: str,
    better: str,
    worse: str,
    statement: str,
    runs: Mapping[str, Mapping[str, Sequence[Any]]],
    setting: Setting,
    common: dict[str, Any],
    paper: str,
    source: str,
) -> ClaimRecord:
    own = runs[problem]
    errors = {name: [1 - r.accuracy for r in own[name]] for name in (better, worse)}
    return ClaimRecord(
        **common,
        claim_id=claim_id,
        claim_type=ClaimType.ORDERING,
        statement=statement,
        paper_value=paper,
        source=source,
        setting=setting,
        measured=Measured(
            value={
                name: 100 * float(np.median([r.accuracy for r in own[name]])) for name in errors
            },
            uncertainty={
                name: tuple(
                    (100 * np.quantile([r.accuracy for r in own[name]], [0.25, 0.75])).tolist()
                )
                for name in errors
            },
            kind=UncertaintyKind.QUARTILES,
            unit="% of validation tokens, median over seeds",
            n=len(setting.seeds),
        ),
        verdict=verdict_ordering(errors, [better, worse], paired=True),
        note="An order of the mean errors counts beyond the 95 % interval of Student's t, paired "
        "by seed, and two standard errors.",
    )


def _speed(
    problem: str,
    slow: str,
    fast: str,
    runs: Mapping[str, Sequence[Any]],
    setting: Setting,
    common: dict[str, Any],
) -> ClaimRecord:
    # The first seed of a mechanism also compiles it.
    pairs = list(zip(runs[slow], runs[fast]))[1:]
    ratio = median_and_quartiles([s.seconds / f.seconds for s, f in pairs])
    name = {"third_order": "third-order"}
    one_query = problem == "function_composition"
    return ClaimRecord(
        **common,
        claim_id=f"{problem.replace('_', '-')}-{fast}-faster-than-{slow.replace('_', '-')}",
        claim_type=ClaimType.TIMING,
        statement=f"On {problem.replace('_', ' ')} {name.get(fast, fast)} attention trains more "
        f"epochs per minute than {name.get(slow, slow)} attention.",
        paper_value=f"{fast} faster",
        source="Figure 1",
        setting=setting,
        measured=Measured(
            value=ratio.median,
            uncertainty=(ratio.low, ratio.high),
            kind=UncertaintyKind.QUARTILES,
            unit=f"training time of {slow} / of {fast} for equal epochs, whole model",
            n=len(pairs),
        ),
        verdict=verdict_timing(ratio, setting.scale, above_one=True),
        note="The runs follow each other; the first seed, which also compiles, is left out."
        + (" Only the query token is evaluated: n² scores in either." if one_query else ""),
    )


def _stability(
    problem: str, runs: Mapping[str, Sequence[Any]], setting: Setting, common: dict[str, Any]
) -> ClaimRecord:
    spread = {
        name: 100 * float(np.ptp([r.accuracy for r in runs[name]]))
        for name in ("strassen", "third_order")
    }
    return ClaimRecord(
        **common,
        claim_id=f"{problem.replace('_', '-')}-third-order-less-stable",
        claim_type=ClaimType.ORDERING,
        statement=f"On {problem.replace('_', ' ')} third-order attention is less stable than "
        "Strassen attention.",
        paper_value="wider quartiles",
        source="Figure 1",
        setting=setting,
        measured=Measured(
            value=spread, unit="% accuracy, largest minus smallest over seeds",
            n=len(setting.seeds),
        ),
        verdict=Verdict.NOT_TESTED,
        note="A handful of seeds does not tell two spreads apart.",
    )  # fmt: skip


def _forward_times(
    timings: Sequence[Mapping[str, Any]], common: dict[str, Any], name: str
) -> list[ClaimRecord]:
    """Strassen against third-order attention at the longest length that has both."""
    width = timings[0]["width"]
    longest = max(
        r["length"] for r in timings if r["kind"] == "third_order" and r["width"] == width
    )
    at = {r["kind"]: r for r in timings if (r["length"], r["width"]) == (longest, width)}
    ratio = median_and_quartiles(
        np.asarray(at["third_order"]["times_ms"]) / np.asarray(at["stable"]["times_ms"])
    )
    return [
        ClaimRecord(
            **common,
            claim_id="forward-against-third-order",
            claim_type=ClaimType.TIMING,
            statement="The forward pass of Strassen attention is faster than that of third-order "
            "attention.",
            paper_value="Strassen faster at equal length and width",
            source="Figure 4",
            setting=Setting(name, Scale.REDUCED, data=f"random, n = {longest}, d = {width}"),
            measured=Measured(
                value=ratio.median,
                uncertainty=(ratio.low, ratio.high),
                kind=UncertaintyKind.QUARTILES,
                unit="time of third-order / time of Strassen (default method)",
                n=len(at["stable"]["times_ms"]),
            ),
            verdict=verdict_timing(ratio, Scale.REDUCED, above_one=True),
            note="On this machine's CPU; the paper used a GPU. Times over that of the default: "
            + ", ".join(
                f"{kind} {r['median_ms'] / at['stable']['median_ms']:.2f}"
                for kind, r in at.items()
                if kind != "stable" and not kind.endswith("_grad")
            )
            + f". Memory {at['third_order']['temp_mb']:.1f} MB against "
            f"{at['stable']['temp_mb']:.1f} MB. Exponents in n of the default: time "
            "{}, memory {}.".format(*exponents(timings, "stable", width)),
        )
    ]


def _cogs(common: dict[str, Any], name: str) -> ClaimRecord:
    return ClaimRecord(
        **common,
        claim_id="cogs",
        claim_type=ClaimType.FULL_SCALE_NUMBER,
        statement="On COGS three layers of Strassen attention reach 72 %, three layers of standard "
        "attention with as many parameters 65 %.",
        paper_value=f"{COGS['strassen']} and {COGS['standard']}",
        paper_unit="% accuracy",
        source="Table 1",
        setting=Setting(name, Scale.REDUCED, data="COGS"),
        measured=Measured(unit="% accuracy"),
        verdict=Verdict.NOT_TESTED,
        note="The paper does not determine the COGS model, and the generalisation split is not "
        "part of its training files. The reader of its files is neurips25.data.read_cogs.",
    )
