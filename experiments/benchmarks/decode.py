"""Decoding-step attention against its floor: MHA, MQA, GQA, MLA and TPA over cache lengths.

    python -m experiments.benchmarks.decode --out=/tmp/decode
    python -m experiments.benchmarks.decode --lengths=16384 --threads=1 --repeats=60

Sizes are the first example of arXiv:2501.06425, sec. 4 (32 heads of 64 features, GQA with 4
groups, MLA with d_c = 256 and d_h^R = 32, TPA of ranks 16, 1, 1), one new token, float32. Each
number of threads is measured in a process of its own that may only run on that many CPUs (the
affinity mask sizes XLA's thread pools; it is set before jax starts).

Floor of a kind at a length: the larger of the time to copy as many bytes as its cache has, and
the time of its FLOPs at the rate of a 1024³ matmul, both measured in the same process. No long
and narrow matmul reaches that rate, so a second floor takes the time of bare matmuls of the
kind's own shapes in place of the FLOPs ("x own matmuls"). Rows "*_jaxnn" are
jax.nn.dot_product_attention over the same cache. Writes decode.csv, decode.png
(log2 seconds over log2 length, like the paper's figure 5) and prints a table per thread count.
Takes about five minutes on two cores with the defaults. Times are the best and the median of the
repeats, taken in rounds over all kinds so that a disturbance hits them alike; each round first
repeats the call until caches and clock have settled.
"""

import concurrent.futures
import csv
import json
import os
import pathlib
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from absl import app, flags

_LENGTHS = flags.DEFINE_list("lengths", ["4096", "8192", "16384", "32768", "65536"], "Cache rows.")
_BATCH = flags.DEFINE_integer("batch", 1, "Sequences per step.", lower_bound=1)
_THREADS = flags.DEFINE_list("threads", ["1", "2"], "CPUs per process, one process each.")
_REPEATS = flags.DEFINE_integer("repeats", 30, "Timed calls per kind and length.", lower_bound=3)
_OUT = flags.DEFINE_string("out", "/tmp/decode_benchmark", "Folder of the CSV and the figure.")
_WORKER = flags.DEFINE_integer("worker", 0, "Internal: measure on this many CPUs, print JSON.")

KINDS = ("mha", "mqa", "gqa", "mla", "tpa", "tpa_rank1", "mha_jaxnn", "mqa_jaxnn", "gqa_jaxnn")
REFERENCE = "tpa_rank1"
ROUNDS = 3
SETTLE_SECONDS = 0.05
Call = tuple[Callable[..., Any], tuple[Any, ...]]
Row = dict[str, Any]


def config(kind: str) -> Any:
    """Sizes of the first example of the paper's decoding table."""
    from neurips25.attention import AttentionConfig, AttentionKind

    return AttentionConfig(
        n_embd=2048,
        n_head=32,
        head_dim=64,
        attention=AttentionKind(kind.split("_")[0]),
        num_kv_groups=4,
        q_latent_dim=768,
        kv_latent_dim=256,
        rope_head_dim=32,
        rank_q=16,
        rank_k=1,
        rank_v=1,
    )


def decode_call(kind: str, batch: int, length: int) -> Call:
    """A jitted decoding step over a full cache, and random arguments for it."""
    import jax
    import jax.numpy as jnp

    from neurips25.attention import (
        cached_attention,
        flash_tpa_decode,
        flash_tpa_decode_rank1,
        init_cache,
        mla_decode,
    )

    cfg = config(kind)
    keys = iter(jax.random.split(jax.random.key(0), 16))

    def draw(*shape: int) -> jax.Array:
        return jax.random.normal(next(keys), shape)

    empty = init_cache(cfg.attention, cfg, batch, length)
    cache = jax.tree.map(lambda x: draw(*x.shape), empty)
    positions = jnp.full((batch, 1), length - 1, jnp.int32)
    heads, dim = cfg.n_head, cfg.head_dim
    if kind == "mla":
        nope, rope = draw(batch, 1, heads, dim), draw(batch, 1, heads, cfg.rope_head_dim)
        w_ukv = draw(cfg.kv_latent_dim, heads, 2 * dim) / cfg.kv_latent_dim**0.5
        return jax.jit(mla_decode), (nope, rope, cache, w_ukv, positions)
    if kind.startswith("tpa"):
        step = flash_tpa_decode_rank1 if kind == "tpa_rank1" else flash_tpa_decode
        aq, bq = draw(batch, 1, cfg.rank_q, heads), draw(batch, 1, cfg.rank_q, dim)
        return jax.jit(step), (aq, bq, cache, positions[:, 0] + 1)
    q = draw(batch, 1, heads, dim)
    if kind.endswith("_jaxnn"):
        peer = jax.jit(
            lambda q, k, v, n: jax.nn.dot_product_attention(q, k, v, key_value_seq_lengths=n)
        )
        return peer, (q, cache.k, cache.v, positions[:, 0] + 1)
    return jax.jit(cached_attention), (q, cache.k, cache.v, positions)


def seconds(call: Call, repeats: int) -> list[float]:
    """Wall-clock time of each of ``repeats`` calls, after the caller has compiled it."""
    import jax

    f, args = call
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        jax.block_until_ready(f(*args))
        times.append(time.perf_counter() - start)
    return times


def settle(call: Call) -> None:
    """Calls until ``SETTLE_SECONDS`` have passed, at least twice."""
    spent = sum(seconds(call, 2))
    while spent < SETTLE_SECONDS:
        spent += sum(seconds(call, 1))


def matmul_shapes(kind: str, length: int) -> list[tuple[int, int, int, int]]:
    """(count, m, k, n) of the matmuls [m, k] × [k, n] of one sequence's step."""
    cfg = config(kind)
    heads, dim = cfg.n_head, cfg.head_dim
    if kind.startswith("tpa"):
        rank = cfg.rank_q
        return [(1, length, dim, rank), (1, length, rank, heads), (1, heads, length, dim)]
    if kind == "mla":
        latent = cfg.kv_latent_dim
        return [(1, heads, latent + cfg.rope_head_dim, length), (1, heads, length, latent)]
    groups = {"mha": heads, "gqa": cfg.num_kv_groups, "mqa": 1}[kind.split("_")[0]]
    return [(groups, heads // groups, dim, length), (groups, heads // groups, length, dim)]


def matmul_seconds(kind: str, length: int, repeats: int) -> float:
    """Best time of the bare matmuls of one sequence's step, operands as they come."""
    import jax
    import jax.numpy as jnp

    total = 0.0
    for count, m, k, n in matmul_shapes(kind, length):
        call = (jax.jit(jnp.matmul), (jnp.ones((m, k)), jnp.ones((k, n))))
        settle(call)
        total += count * min(seconds(call, repeats))
    return total


def copy_seconds(size: int, threads: int, repeats: int) -> float:
    """Best time to copy ``size`` bytes, the array split among ``threads``."""
    source, target = np.ones(size // 4, np.float32), np.zeros(size // 4, np.float32)
    parts = list(zip(np.array_split(target, threads), np.array_split(source, threads)))
    best = float("inf")
    with concurrent.futures.ThreadPoolExecutor(threads) as pool:
        for _ in range(repeats):
            start = time.perf_counter()
            list(pool.map(lambda part: np.copyto(*part), parts))
            best = min(best, time.perf_counter() - start)
    return best


def matmul_rate(repeats: int) -> float:
    """FLOP/s of a float32 matmul of 1024 × 1024 matrices."""
    import jax
    import jax.numpy as jnp

    square = jnp.ones((1024, 1024))
    call = (jax.jit(lambda x: x @ x), (square,))
    seconds(call, 2)
    return 2 * 1024**3 / min(seconds(call, repeats))


def measure(threads: int, batch: int, lengths: list[int], repeats: int) -> list[Row]:
    """All kinds at all lengths in this process, on ``threads`` CPUs."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    from neurips25.attention import cache_bytes, decode_flops

    rows: list[Row] = []
    rate = matmul_rate(repeats)
    for length in lengths:
        calls = {kind: decode_call(kind, batch, length) for kind in KINDS}
        times: dict[str, list[float]] = {kind: [] for kind in KINDS}
        for call in calls.values():
            seconds(call, 2)  # compile and touch the memory
        for _ in range(ROUNDS):
            rate = max(rate, matmul_rate(repeats // ROUNDS + 1))
            for kind, call in calls.items():
                settle(call)
                times[kind] += seconds(call, -(-repeats // ROUNDS))
        del calls
        for kind in KINDS:
            cfg = config(kind)
            size = cache_bytes(cfg.attention, cfg, batch, length)
            rows.append(
                {
                    "threads": threads,
                    "batch": batch,
                    "length": length,
                    "kind": kind,
                    "best_ms": 1e3 * min(times[kind]),
                    "median_ms": 1e3 * float(np.median(times[kind])),
                    "cache_mb": size / 1e6,
                    "copy_ms": 1e3 * copy_seconds(size, threads, repeats),
                    "own_matmuls_ms": 1e3 * batch * matmul_seconds(kind, length, repeats),
                    "gflop": batch * decode_flops(cfg.attention, cfg, length) / 1e9,
                }
            )
    for row in rows:
        row["copy_gb_s"] = row["cache_mb"] / row["copy_ms"]
        row["matmul_gflop_s"] = rate / 1e9
        row["compute_ms"] = 1e3 * row["gflop"] / row["matmul_gflop_s"]
        row["floor_ms"] = max(row["copy_ms"], row["compute_ms"])
        row["over_floor"] = row["best_ms"] / row["floor_ms"]
        row["over_own_matmuls"] = row["best_ms"] / max(row["copy_ms"], row["own_matmuls_ms"])
    return rows


def add_comparisons(rows: list[Row]) -> None:
    """Adds time over that of rank-one TPA, and the exponent of the time in the length."""
    by_key = {(r["threads"], r["length"], r["kind"]): r for r in rows}
    for row in rows:
        reference = by_key[row["threads"], row["length"], REFERENCE]
        row["over_tpa"] = row["best_ms"] / reference["best_ms"]
        row["median_over_tpa"] = row["median_ms"] / reference["median_ms"]
        curve = [r for r in rows if (r["threads"], r["kind"]) == (row["threads"], row["kind"])]
        row["exponent"] = float("nan")
        if len(curve) > 1:
            x, y = (np.log2([r[name] for r in curve]) for name in ("length", "median_ms"))
            row["exponent"] = float(np.polyfit(x, y, 1)[0])


def print_table(rows: list[Row], threads: int) -> None:
    """One line per length and kind."""
    from rich.console import Console
    from rich.table import Table

    rows = [r for r in rows if r["threads"] == threads]
    title = (
        f"{threads} thread(s), batch {rows[0]['batch']}, matmul {rows[0]['matmul_gflop_s']:.0f} "
    )
    table = Table(title=title + "GFLOP/s; times in ms")
    columns: dict[str, Callable[[Row], str]] = {
        "M": lambda r: str(r["length"]),
        "kind": lambda r: r["kind"],
        "best": lambda r: f"{r['best_ms']:.3f}",
        "median": lambda r: f"{r['median_ms']:.3f}",
        "cache MB": lambda r: f"{r['cache_mb']:.1f}",
        "copy GB/s": lambda r: f"{r['copy_gb_s']:.1f}",
        "floor": lambda r: f"{r['floor_ms']:.3f}",
        "bound by": lambda r: "bytes" if r["copy_ms"] >= r["compute_ms"] else "FLOPs",
        "x floor": lambda r: f"{r['over_floor']:.2f}",
        "x own matmuls": lambda r: f"{r['over_own_matmuls']:.2f}",
        "x TPA best": lambda r: f"{r['over_tpa']:.2f}",
        "x TPA median": lambda r: f"{r['median_over_tpa']:.2f}",
        "exponent": lambda r: f"{r['exponent']:.2f}",
    }
    for name in columns:
        table.add_column(name, justify="left" if name in ("kind", "bound by") else "right")
    for row in rows:
        end = row["kind"] == KINDS[-1]
        table.add_row(*(text(row) for text in columns.values()), end_section=end)
    Console(width=150).print(table)


def draw_figure(rows: list[Row], path: pathlib.Path) -> None:
    """Median time over length, one panel per number of threads."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    threads = sorted({r["threads"] for r in rows})
    size = (5.2 * len(threads), 4.2)
    figure, panels = plt.subplots(1, len(threads), figsize=size, sharey=True, squeeze=False)
    for panel, count in zip(panels[0], threads):
        for kind in KINDS:
            curve = [r for r in rows if r["threads"] == count and r["kind"] == kind]
            x = np.log2([r["length"] for r in curve])
            style = ":" if kind.endswith("_jaxnn") else "-"
            y = np.log2([1e-3 * r["median_ms"] for r in curve])
            (line,) = panel.plot(x, y, style, marker="o", ms=3, label=kind)
            if kind == REFERENCE:
                floor = np.log2([1e-3 * r["floor_ms"] for r in curve])
                panel.plot(x, floor, "--", color=line.get_color(), label=f"{kind} floor")
        panel.set(xlabel="log2 cache length", title=f"{count} thread(s), batch {curve[0]['batch']}")
        panel.grid(alpha=0.3)
    panels[0, 0].set_ylabel("log2 seconds per step (median)")
    panels[0, -1].legend(fontsize=7, loc="center left", bbox_to_anchor=(1.0, 0.5))
    figure.tight_layout()
    figure.savefig(path, dpi=150)
    plt.close(figure)


def run_worker(threads: int) -> list[Row]:
    """Measures in a fresh process, whose thread pools have the wanted size."""
    command = [
        sys.executable,
        "-m",
        "experiments.benchmarks.decode",
        f"--worker={threads}",
        f"--batch={_BATCH.value}",
        f"--lengths={','.join(_LENGTHS.value)}",
        f"--repeats={_REPEATS.value}",
    ]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def main(argv: list[str]) -> None:
    if len(argv) > 1:
        raise app.UsageError(f"unexpected arguments: {argv[1:]}")
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    lengths = [int(length) for length in _LENGTHS.value]
    if _WORKER.value:
        print(json.dumps(measure(_WORKER.value, _BATCH.value, lengths, _REPEATS.value)))
        return
    available = len(os.sched_getaffinity(0))
    threads = [int(count) for count in _THREADS.value]
    if max(threads) > available:
        raise app.UsageError(f"--threads={_THREADS.value}, but only {available} CPUs are here")
    out = pathlib.Path(_OUT.value)
    out.mkdir(parents=True, exist_ok=True)
    rows = [row for count in threads for row in run_worker(count)]
    add_comparisons(rows)
    for count in threads:
        print_table(rows, count)
    with open(out / "decode.csv", "w", newline="") as f:
        writer = csv.DictWriter(f, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    draw_figure(rows, out / "decode.png")
    print(f"wrote {out}/decode.csv and {out}/decode.png")


if __name__ == "__main__":
    app.run(main)
