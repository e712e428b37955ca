"""The theory of Strassen attention in numbers: constructions, splitting VC dimensions."""

import pathlib
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import rich.console
from matplotlib.figure import Figure
from ml_collections import ConfigDict

from configs.strassen import get_config
from experiments.claims import claim_context
from experiments.tables import print_table, write_csv
from neurips25.attention import (
    binary_relation_labels,
    constructions,
    match3_labels,
    quotient_relation_labels,
    split_matrix,
    split_vc_dimension,
    strassen_denominators,
    verify_certificate,
)
from neurips25.attention import boolean_functions as functions
from neurips25.evidence import (
    ClaimRecord,
    ClaimType,
    Measured,
    Scale,
    Setting,
    Verdict,
    new_figure,
    save_figure,
    verdict_at_most,
    write_records,
)


class Check(NamedTuple):
    """A construction at one size.

    Attributes:
      name, size: which.
      instances, tokens: random instances and their decisive tokens in all.
      errors: tokens whose answer is wrong.
      gap: least distance of the best score to the second best, None for triangular attention.
      promised: what the proof promises for ``gap``.
      lost: share of tokens that the plain product form loses in float64.
    """

    name: str
    size: str
    instances: int
    tokens: int
    errors: int
    gap: float | None
    promised: float | None
    lost: float | None


class SplitVC(NamedTuple):
    """The splitting VC dimension of a function: found by search, and expected."""

    name: str
    letters: int
    alphabet: int
    value: int
    expected: int


def check_constructions(sizes: ConfigDict, seed: int = 0) -> list[Check]:
    """Evaluates the proofs' explicit weights on random instances, in float64.

    Args:
      sizes: ``config.verify``.
      seed: of the instances.

    Returns:
      A row per construction and size.
    """
    rng = np.random.default_rng(seed)
    count = sizes.instances

    def relations(m: int, *, diagonal: bool = True) -> np.ndarray:
        bits = (rng.random((count, m, m)) < 0.4).astype(int)
        return bits if diagonal else bits * (1 - np.eye(m, dtype=int))

    rows = []
    for n in sizes.function_n:
        layer = constructions.function_composition(n)
        g, h = rng.integers(1, n + 1, (2, count, n))
        x = rng.integers(1, n + 1, count)
        want = np.take_along_axis(h, np.take_along_axis(g, x[:, None] - 1, 1) - 1, 1)
        features = layer.features_fn(g, h, x)
        wrong = np.abs(constructions.evaluate(layer, features) - want) >= 0.5
        rows.append(_row("function composition", f"n = {n}", layer, features, wrong))
    for m in sizes.relation_m:
        layer = constructions.binary_relation(m)
        a, b = relations(m), relations(m)
        features = layer.features_fn(a, b)
        want = ((a @ b) > 0).reshape(count, -1)
        wrong = (constructions.evaluate(layer, features) > 0) != want
        rows.append(_row("binary relation", f"m = {m}", layer, features, wrong))
    for n, modulus in sizes.match3_sizes:
        layer = constructions.match3(n, modulus)
        # Of few different numbers, or nearly every token has a triple.
        pools = rng.integers(1, modulus, (count, 5))
        p = np.take_along_axis(
            pools, rng.integers(0, 1 + np.arange(count)[:, None] % 5, (count, n)), 1
        )
        features = layer.features_fn(p)
        wrong = (constructions.evaluate(layer, features) > 0) != (match3_labels(p, modulus) == 1)
        rows.append(_row("Match3", f"n = {n}, M = {modulus}", layer, features, wrong))
    for m in sizes.quotient_m:
        layer = constructions.quotient(m)
        r, colours = relations(m), rng.integers(1, m + 1, (count, m))
        features = layer.features_fn(r, np.swapaxes(r, 1, 2), colours)
        labels = quotient_relation_labels(r, colours).reshape(count, -1)
        wrong = (constructions.evaluate(layer, features) > 0) != (labels == 1)
        wrong &= labels >= 0  # the task asks nothing of the diagonal
        rows.append(_row("quotient relation", f"m = {m}", layer, features, wrong))
    for m in sizes.triangular_m:
        triangular = constructions.triangular_relation(m)
        a = relations(m)
        answer = constructions.evaluate(triangular, triangular.features_fn(a, a)) > 0
        wrong = answer != (binary_relation_labels(a) == 1)
        rows.append(
            Check("binary relation, triangular", f"m = {m}", count, wrong.size, int(wrong.sum()),
                  None, None, None)
        )  # fmt: skip
    return rows


def _row(name: str, size: str, layer: Any, features: np.ndarray, wrong: np.ndarray) -> Check:
    gap = min(float(constructions.score_gaps(layer, x).min()) for x in features)
    with jax.enable_x64(True):
        f, g, h, *_ = (jnp.asarray(a) for a in constructions.strassen_inputs(layer, features))
        lost = float((strassen_denominators(f, g, h) == 0).mean())
    return Check(name, size, len(features), wrong.size, int(wrong.sum()), gap, layer.min_gap, lost)


def split_vc_table() -> list[SplitVC]:
    """Splitting VC dimensions by exhaustive search, beside those known."""
    bits = (0, 1)
    cases: list[tuple[str, Callable[[np.ndarray], np.ndarray], tuple[int, ...], int, int]] = [
        ("parity", functions.parity, bits, 6, 1),
        ("AND", functions.conjunction, bits, 6, 1),
        ("majority", functions.majority, bits, 5, 1),
        ("(x1 and x2) xor (x3 and x4)", functions.xor_of_ands, bits, 4, 2),
        *(("disjointness", functions.disjointness, bits, 2 * m, m) for m in (1, 2, 3, 4)),
        *(("inner product mod 2", functions.inner_product, bits, 2 * m, m) for m in (1, 2, 3)),
        *(("indexing", functions.indexing, tuple(range(n + 1)), n + 1, n) for n in (2, 3)),
        ("Sum2[4, 8]", functions.sum2, functions.sum2_alphabet(4), 4, 3),
    ]
    return [
        SplitVC(name, n, len(alphabet), split_vc_dimension(f, alphabet, n, False), expected)
        for name, f, alphabet, n, expected in cases
    ]


def verify(
    config: ConfigDict,
    workdir: pathlib.Path,
    console: rich.console.Console,
    alone: bool = True,
) -> list[ClaimRecord]:
    """Checks the theory, prints and writes its tables and figures.

    Args:
      config: the experiment's config.
      workdir: the run directory.
      console: where to print.
      alone: also writes ``records.json``, unless a training wrote one.

    Returns:
      The records.
    """
    checks, dimensions = check_constructions(config.verify), split_vc_table()
    tables, figures = workdir / "tables", workdir / "figures"
    header = ("construction", "size", "instances", "tokens", "errors", "least score gap",
              "promised", "lost by products")  # fmt: skip
    cells = [
        [c.name, c.size, c.instances, c.tokens, c.errors,
         *("-" if v is None else f"{v:.4g}" for v in (c.gap, c.promised, c.lost))]
        for c in checks
    ]  # fmt: skip
    write_csv(tables / "constructions.csv", header, cells)
    short = (0, 1, 3, 4, 7)
    print_table(console, "Constructions of the proofs, float64", [header[i] for i in short],
                [[c[i] for i in short] for c in cells])  # fmt: skip
    columns = ("function", "letters", "alphabet", "split-VC", "expected")
    write_csv(tables / "splitting_vc.csv", columns, dimensions)
    print_table(console, "Splitting VC dimension by search", columns, dimensions)
    save_figure(gap_figure(checks), figures / "construction_gaps.png")
    save_figure(split_figure(), figures / "split_matrices.png")
    records = _records(config, checks, dimensions)
    if alone and not (workdir / "records.json").exists():
        write_records(workdir / "records.json", records)
    return records


def gap_figure(checks: list[Check]) -> Figure:
    """Score gaps of the constructions: measured against promised, one point per size."""
    fig, ax = new_figure(
        "gap that the proof promises", "least gap measured", "Best score against the second best"
    )
    for name in dict.fromkeys(c.name for c in checks):
        points = [(c.promised, c.gap) for c in checks if c.name == name and c.gap and c.promised]
        if points:
            ax.plot(*np.transpose(points), "o-", ms=5, label=name)
    ends = [c.promised for c in checks if c.promised]
    ax.plot([min(ends), max(ends)], [min(ends), max(ends)], "k:", lw=1, label="equal")
    ax.set_xscale("log")
    ax.set_yscale("log")
    return fig


def split_figure(m: int = 3) -> Figure:
    """The matrices M_f^A of parity and of disjointness on 2m bits, A the first half."""
    fig, left = new_figure("the other bits", f"the first {m} bits", f"parity of {2 * m} bits",
                           size=(8.0, 4.0))  # fmt: skip
    left.set_position((0.08, 0.1, 0.4, 0.8))
    right = fig.add_axes((0.56, 0.1, 0.4, 0.8), xlabel="the other bits", title=f"Disj_{m}")
    for ax, f in ((left, functions.parity), (right, functions.disjointness)):
        ax.grid(False)
        ax.imshow(split_matrix(f, (0, 1), 2 * m, range(m)), cmap="Blues", vmin=0, vmax=1.4)
    return fig


def _records(
    config: ConfigDict, checks: list[Check], dimensions: list[SplitVC]
) -> list[ClaimRecord]:
    context = claim_context(config, get_config)
    common: dict[str, Any] = {
        "method": "strassen",
        "command": context.command,
        "claim_type": ClaimType.EXACT_PROPERTY,
        "setting": Setting(context.setting_name, Scale.FULL, data="random instances, float64"),
    }
    solved = [c for c in checks if c.gap is not None]
    records = [
        ClaimRecord(
            **common,
            claim_id="constructions-solve",
            statement="One layer of Strassen attention of constant width (two heads for Match3) "
            "solves function composition, binary relation composition, Match3 and quotient "
            "relation composition.",
            paper_value=0,
            paper_unit="wrong tokens",
            source="Theorems 4.2 and 5.1",
            measured=Measured(
                value={f"{c.name} {c.size}": c.errors for c in solved}, unit="wrong tokens",
                n=sum(c.tokens for c in solved),
            ),
            verdict=verdict_at_most(sum(c.errors for c in solved), 0),
            note="By explicit weights. The plain product form loses up to "
            f"{max(c.lost or 0.0 for c in solved):.0%} of the tokens of a construction; the "
            "evaluation used here loses none.",
        ),
        ClaimRecord(
            **common,
            claim_id="triangular-solves-relations",
            statement="One head of triangular attention of constant width solves binary relation "
            "composition.",
            paper_value=0,
            paper_unit="wrong tokens",
            source="Section 5",
            measured=Measured(
                value=sum(c.errors for c in checks if c.gap is None), unit="wrong tokens",
                n=sum(c.tokens for c in checks if c.gap is None),
            ),
            verdict=verdict_at_most(sum(c.errors for c in checks if c.gap is None), 0),
        ),
    ]  # fmt: skip
    certified = {ell: functions.sum2_certificate(ell) for ell in (4, 6, 8, 10, 12)}
    met = all(d.value == d.expected for d in dimensions) and all(
        verify_certificate(functions.sum2, c) and 2 * len(c.rows) >= ell
        for ell, c in certified.items()
    )
    records.append(
        ClaimRecord(
            **common,
            claim_id="splitting-vc",
            statement="The splitting VC dimension of indexing, disjointness and Sum2 grows with "
            "their input.",
            paper_value="at least n, m and l/2",
            source="Lemmas of section 3",
            measured=Measured(
                value={f"{d.name} on {d.letters}": d.value for d in dimensions},
                unit="splitting VC dimension",
            ),
            verdict=Verdict.HOLDS if met else Verdict.DOES_NOT_HOLD,
            note="By exhaustive search, equal to the known values, with parity, AND and majority "
            "beside them, which stay at 1; for Sum2[l, 2l] also by certificates of l / 2 for l = "
            f"{', '.join(map(str, certified))}.",
        )
    )
    return records
