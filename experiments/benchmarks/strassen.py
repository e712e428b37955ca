"""Time and memory of attention over pairs and triples: one head, one sequence, float32.

    python -m experiments.benchmarks.strassen --out=runs/bench-strassen

Sizes follow figure 4 of arXiv:2501.19215 scaled to a CPU: lengths n at one width d, and widths at
one length. Kinds: standard attention; triangular attention on n = m² tokens; third-order attention
as published (all n³ scores at once) and in chunks of queries; Strassen attention by its four
methods, ``stable`` also with scores so large that products lose queries (``stable_extreme``), and
with the gradient by all arguments (``*_grad``). ``exponentials`` is what a method that looks at
every triple can't do without: the largest of the n³ sums of three scores of each query, and the sum
of their exponentials, in blocks that stay in cache. A second table tells which share of the queries
of ``stable_extreme`` is lost where tiles of t keys by t keys share a shift, so that n³ / t²
exponentials would do: no t above 1 is safe. ``torch`` is ``strassen_attend`` of the PyPI
package strassen-attention, where it is installed.

Memory is what the compiled program asks for besides its arguments and results. The floor is
2 n³ (d + 1) FLOPs, the products of theorem 4.1, at the rate of a 1024³ matmul in the same process.
Takes about five minutes on two cores.
"""

import functools
import importlib.util
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import rich.console

from experiments.benchmarks import harness
from experiments.tables import print_table, write_csv
from experiments.training_run import stored
from neurips25.attention import (
    StrassenMethod,
    standard_attention,
    strassen_attention,
    strassen_denominators,
    third_order_attention,
    triangular_attention,
)
from neurips25.evidence import new_figure, power_law_exponent, save_figure

KINDS = (
    "standard", "triangular", "third_order", "third_order_chunked", "naive", "logsumexp", "matmul",
    "stable", "stable_extreme", "exponentials", "matmul_grad", "stable_grad", "torch",
)  # fmt: skip
LENGTHS = (64, 128, 256, 512)
# Keys in a row that could share a shift, see lost_by_tiles.
TILES = (1, 2, 4, 8, 16, 64)
# Kinds that hold n³ numbers stop here.
CUBIC, LONGEST_CUBIC = ("third_order", "naive"), 256


def inputs(length: int, width: int, scale: float = 1.0) -> tuple[jax.Array, ...]:
    """Random f, g, h, v1, v2, each [1, n, 1, d]."""
    keys = jax.random.split(jax.random.key(0), 5)
    arrays = [jax.random.normal(k, (1, length, 1, width)) for k in keys]
    return *(scale * a for a in arrays[:3]), *arrays[3:]


def call_of(kind: str, length: int, width: int) -> tuple[Callable[[], Any], int | None]:
    """A compiled forward (or gradient) of one kind, and the bytes of its intermediates."""
    extreme = kind == "stable_extreme"
    arrays = inputs(length, width, 60.0 if extreme else 1.0)
    if extreme:
        assert (strassen_denominators(*arrays[:3]) == 0).any()
    if kind == "torch":
        return _torch_call(arrays), None
    function: Callable[..., jax.Array]
    if kind == "exponentials":
        function, arrays = _all_exponentials, _scores(arrays)
    elif kind == "standard":
        function, arrays = standard_attention, arrays[:3]
    elif kind == "triangular":
        side = int(length**0.5)
        function = triangular_attention
        arrays = tuple(a[:, : side**2].reshape(1, side, side, 1, width) for a in arrays[:4])
    elif kind == "third_order":
        function = third_order_attention
    elif kind == "third_order_chunked":
        function = functools.partial(third_order_attention, chunk=2)
    else:
        method = StrassenMethod(kind.removesuffix("_grad").removesuffix("_extreme"))
        function = functools.partial(strassen_attention, method=method)
    if kind.endswith("_grad"):
        forward = function
        function = jax.grad(lambda *a: jnp.sum(forward(*a) ** 2), argnums=tuple(range(5)))
    compiled = jax.jit(function).lower(*arrays).compile()
    memory = compiled.memory_analysis()
    size = None if memory is None else memory.temp_size_in_bytes
    return functools.partial(compiled, *arrays), size


def _scores(arrays: Sequence[jax.Array]) -> tuple[jax.Array, ...]:
    """x_ij, y_jk and z_ki of one head, [n, n] each."""
    f, g, h = (a[0, :, 0] for a in arrays[:3])
    return tuple(a @ b.T / f.shape[-1] ** 0.5 for a, b in ((f, g), (g, h), (h, f)))


def _all_exponentials(x: jax.Array, y: jax.Array, z: jax.Array) -> jax.Array:
    def query(rows: tuple[jax.Array, jax.Array]) -> jax.Array:
        shift = jnp.max(rows[0][:, None] + y + rows[1])
        return jnp.sum(jnp.exp(rows[0][:, None] + y + (rows[1] - shift)))

    return jax.lax.map(query, (x, z.T), batch_size=max(1, 2**17 // x.size))


def lost_by_tiles(length: int, width: int, tiles: Sequence[int] = TILES) -> dict[int, float]:
    """Share of the queries of ``stable_extreme`` that shifts by tiles lose in float32.

    A tile of t x t pairs (j, k) has factors below the largest x_ij, y_jk and z_ki in it. A query is
    lost where in the tile of its largest triple their product underflows.

    Args:
      length, width: n and d.
      tiles: sizes t that divide n.

    Returns:
      t -> share in [0, 1].
    """
    x, y, z = (np.asarray(a, np.float64) for a in _scores(inputs(length, width, 60.0)))
    best = (x[:, :, None] + y + z.T[:, None, :]).reshape(length, -1).argmax(axis=1)
    i, (j, k) = np.arange(length), np.divmod(best, length)
    top = x[i, j] + y[j, k] + z[k, i]
    shares = {}
    for t in tiles:
        most_x, most_z = (a.reshape(length, -1, t).max(axis=2) for a in (x, z.T))
        most_y = y.reshape(length // t, t, length // t, t).max(axis=(1, 3))
        shift = most_x[i, j // t] + most_y[j // t, k // t] + most_z[i, k // t]
        shares[t] = float(np.mean(shift - top > -np.log(np.finfo(np.float32).tiny)))
    return shares


def _torch_call(arrays: Sequence[jax.Array]) -> Callable[[], Any]:
    import torch
    from strassen_attention import strassen_attend

    torch.set_num_threads(harness.cpu_count())
    tensors = [torch.from_numpy(np.array(a)).permute(0, 2, 1, 3).contiguous() for a in arrays]

    def call() -> float:
        with torch.inference_mode():
            return float(strassen_attend(*tensors)[0, 0, 0, 0])

    return call


def has_peer() -> bool:
    """Whether the PyTorch package can be measured too."""
    return all(importlib.util.find_spec(name) for name in ("torch", "strassen_attention"))


def measure(
    repeats: int = 15,
    lengths: Sequence[int] = LENGTHS,
    width: int = 16,
    widths: Sequence[int] = (16, 32, 64),
    kinds: Sequence[str] = KINDS,
) -> list[harness.Row]:
    """Times all kinds at all lengths, and at the second longest length at all widths.

    Args:
      repeats: timed calls of each.
      lengths: n, ascending.
      width: d of the lengths.
      widths: d at the length before the last.
      kinds: of :data:`KINDS`; ``torch`` is left out where it is not installed.

    Returns:
      A row per size and kind: length, width, kind, times_ms with median, best and quartiles,
      temp_mb, gflop, floor_ms.
    """
    rate = harness.matmul_rate()
    sizes = [(n, width) for n in lengths]
    sizes += [(lengths[max(len(lengths) - 2, 0)], d) for d in widths if d != width]
    rows = []
    for length, d in sizes:
        here = [
            kind
            for kind in kinds
            if (kind not in CUBIC or length <= LONGEST_CUBIC) and (kind != "torch" or has_peer())
        ]
        made = {kind: call_of(kind, length, d) for kind in here}
        times = harness.time_interleaved({kind: made[kind][0] for kind in here}, repeats)
        gflop = 2 * length**3 * (d + 1) / 1e9
        for kind in here:
            memory, own = made[kind][1], np.asarray(times[kind])
            rows.append(
                {
                    "length": length,
                    "width": d,
                    "kind": kind,
                    "median_ms": 1e3 * float(np.median(own)),
                    "best_ms": 1e3 * float(own.min()),
                    "q1_ms": 1e3 * float(np.quantile(own, 0.25)),
                    "q3_ms": 1e3 * float(np.quantile(own, 0.75)),
                    "times_ms": (1e3 * own).tolist(),
                    "temp_mb": None if memory is None else memory / 1e6,
                    "gflop": gflop,
                    "matmul_gflop_s": rate / 1e9,
                    "floor_ms": 1e12 * gflop / rate,
                }
            )
        del made
    return rows


HEADER = ("kind", "n", "d", "median ms", "quartiles", "best ms", "x stable", "memory MB",
          "median / floor", "time exponent", "memory exponent")  # fmt: skip


def exponents(rows: Sequence[Mapping[str, Any]], kind: str, width: int) -> tuple[str, str]:
    """Fitted exponents in n of best time and of memory."""
    curve = [r for r in rows if r["kind"] == kind and r["width"] == width]
    if len(curve) < 2:
        return "-", "-"
    x = [r["length"] for r in curve]
    time = f"{power_law_exponent(x, [r['best_ms'] for r in curve]).value:.2f}"
    if not all(r["temp_mb"] for r in curve):
        return time, "-"
    return time, f"{power_law_exponent(x, [r['temp_mb'] for r in curve]).value:.2f}"


def table(rows: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """Cells under :data:`HEADER` for the rows of one process."""
    stable = {(r["length"], r["width"]): r["median_ms"] for r in rows if r["kind"] == "stable"}
    return [
        [
            r["kind"], str(r["length"]), str(r["width"]), f"{r['median_ms']:.3f}",
            f"{r['q1_ms']:.3f}-{r['q3_ms']:.3f}", f"{r['best_ms']:.3f}",
            f"{r['median_ms'] / stable[r['length'], r['width']]:.2f}",
            "-" if r["temp_mb"] is None else f"{r['temp_mb']:.2f}",
            f"{r['median_ms'] / r['floor_ms']:.2f}",
            *exponents(rows, r["kind"], r["width"]),
        ]
        for r in rows
    ]  # fmt: skip


def plot(rows: Sequence[Mapping[str, Any]], folder: pathlib.Path, suffix: str = "") -> None:
    """Time and memory over length at the first width, like figure 4 of the paper."""
    width = rows[0]["width"]
    for field, label, name in (
        ("median_ms", "forward pass (ms, median and quartiles)", "time_vs_length"),
        ("temp_mb", "memory for intermediates (MB)", "memory_vs_length"),
    ):
        fig, ax = new_figure("tokens n", label, f"One head of width {width}, forward")
        for kind in dict.fromkeys(r["kind"] for r in rows):
            curve = [r for r in rows if r["kind"] == kind and r["width"] == width and r[field]]
            if not curve or kind.endswith("_grad"):
                continue
            x, y = [r["length"] for r in curve], np.array([r[field] for r in curve])
            bars = None
            if field == "median_ms":
                bars = y - [r["q1_ms"] for r in curve], [r["q3_ms"] for r in curve] - y
            ax.errorbar(x, y, bars, marker="o", ms=4, label=kind)
        ax.set_xscale("log", base=2)
        ax.set_yscale("log")
        save_figure(fig, folder / f"{name}{suffix}.png")


def in_workdir(
    sizes: Any, workdir: pathlib.Path, console: rich.console.Console | None = None
) -> list[harness.Row]:
    """Measures once per run directory, with all the CPUs that this process may use.

    Args:
      sizes: ``config.bench`` of ``configs/strassen.py``.
      workdir: the run directory; rows are kept in ``results/bench.json``.
      console: where to print the table, None for nowhere.

    Returns:
      The rows of :func:`measure`.
    """
    rows = stored(
        workdir / "results" / "bench.json",
        lambda: measure(sizes.repeats, sizes.lengths, sizes.width, sizes.widths),
    )
    write_csv(workdir / "tables" / "bench.csv", HEADER, table(rows))
    plot(rows, workdir / "figures")
    if console is not None:
        short = (0, 1, 2, 3, 6, 7)
        cells = [[c[i] for i in short] for c in table(rows)]
        print_table(console, "Forward pass, this machine", [HEADER[i] for i in short], cells)
    return rows


def report(rows: list[harness.Row], out: pathlib.Path) -> None:
    """Prints a table and draws figures per number of threads."""
    columns = [name for name, value in rows[0].items() if not isinstance(value, list)]
    write_csv(out / "strassen.csv", columns, [[r[c] for c in columns] for r in rows])
    for threads in dict.fromkeys(r["threads"] for r in rows):
        own = [r for r in rows if r["threads"] == threads]
        title = f"{threads} thread(s), matmul {own[0]['matmul_gflop_s']:.0f} GFLOP/s"
        harness.show(f"Attention over pairs and triples, {title}", HEADER, table(own))
        plot(own, out, f"_{threads}")
    shares = lost_by_tiles(LONGEST_CUBIC, rows[0]["width"])
    write_csv(out / "tiles.csv", ("tile", "lost"), list(shares.items()))
    harness.show(
        f"Queries lost where tiles share a shift, n = {LONGEST_CUBIC}", ("tile", "lost / %"),
        [[t, f"{100 * share:.1f}"] for t, share in shares.items()],
    )  # fmt: skip
    print(f"wrote {out}/strassen.csv and figures")


if __name__ == "__main__":
    harness.main_for(
        "experiments.benchmarks.strassen", measure, report, "runs/bench-strassen",
        {"lengths": LENGTHS, "width": 16, "widths": (16, 32, 64)},
    )  # fmt: skip
