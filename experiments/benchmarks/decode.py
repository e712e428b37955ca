"""One decoding step of attention against its floor: MHA, MQA, GQA, MLA and TPA.

    python -m experiments.benchmarks.decode --out=runs/bench-decode

Sizes are the first example of arXiv:2501.06425, sec. 4 (32 heads of 64 features, GQA with 4
groups, MLA with d_c = 256 and d_h^R = 32, TPA of ranks 16, 1, 1), one new token, float32. Rows
``*_jaxnn`` are ``jax.nn.dot_product_attention`` over the same cache. The floor of a kind is the
larger of its cache's bytes at the copy bandwidth of memory (bytes copied per second, each counted
once) and its FLOPs at the rate of a 1024^3 matmul, both measured in the same process. The bandwidth
of reading alone is printed beside it. Takes about four minutes on two cores.
"""

import functools
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from experiments.benchmarks import harness
from neurips25.attention import (
    AttentionConfig,
    cache_bytes,
    cached_attention,
    decode_flops,
    flash_tpa_decode,
    init_cache,
    mla_decode,
)
from neurips25.evidence import new_figure, power_law_exponent, save_figure

KINDS = ("mha", "mqa", "gqa", "mla", "tpa")
PEERS = ("mha_jaxnn", "mqa_jaxnn", "gqa_jaxnn")
LENGTHS = (4096, 8192, 16384, 32768, 65536)


def config(kind: str) -> AttentionConfig:
    """Sizes of the paper's decoding benchmark."""
    return AttentionConfig(
        n_embd=2048,
        n_head=32,
        head_dim=64,
        attention=kind.removesuffix("_jaxnn"),  # type: ignore[arg-type]
        num_kv_groups=4,
        q_latent_dim=768,
        kv_latent_dim=256,
        rope_head_dim=32,
        rank_q=16,
        rank_k=1,
        rank_v=1,
    )


def decode_step(kind: str, batch: int, length: int) -> Callable[[], jax.Array]:
    """A jitted decoding step over a full cache of random numbers."""
    cfg = config(kind)
    keys = iter(jax.random.split(jax.random.key(0), 16))

    def draw(*shape: int) -> jax.Array:
        return jax.random.normal(next(keys), shape)

    cache = jax.tree.map(lambda x: draw(*x.shape), init_cache(cfg.attention, cfg, batch, length))
    positions = jnp.full((batch, 1), length - 1, jnp.int32)
    heads, dim = cfg.n_head, cfg.head_dim
    if kind == "mla":
        q_nope, q_rope = draw(batch, 1, heads, dim), draw(batch, 1, heads, cfg.rope_head_dim)
        w_ukv = draw(cfg.kv_latent_dim, heads, 2 * dim) / cfg.kv_latent_dim**0.5
        return functools.partial(jax.jit(mla_decode), q_nope, q_rope, cache, w_ukv, positions)
    if kind == "tpa":
        aq, bq = draw(batch, 1, cfg.rank_q, heads), draw(batch, 1, cfg.rank_q, dim)
        return functools.partial(jax.jit(flash_tpa_decode), aq, bq, cache, positions[:, 0] + 1)
    q = draw(batch, 1, heads, dim)
    if kind.endswith("_jaxnn"):
        peer = jax.jit(
            lambda q, k, v, n: jax.nn.dot_product_attention(q, k, v, key_value_seq_lengths=n)
        )
        return functools.partial(peer, q, cache.k, cache.v, positions[:, 0] + 1)
    return functools.partial(jax.jit(cached_attention), q, cache.k, cache.v, positions)


def measure(
    repeats: int = 30,
    lengths: Sequence[int] = LENGTHS,
    batch: int = 1,
    kinds: Sequence[str] = KINDS + PEERS,
) -> list[harness.Row]:
    """Times all kinds at all lengths in this process.

    Args:
      repeats: timed steps of each kind at each length.
      lengths: cache rows M.
      batch: sequences per step.
      kinds: of :data:`KINDS` and :data:`PEERS`.

    Returns:
      A row per length and kind: length, batch, kind, times_ms with median, best and quartiles,
      cache_mb, gflop, floor_ms and bound ("bytes" or "FLOPs").
    """
    bandwidth, rate = harness.copy_bandwidth(), harness.matmul_rate()
    reading = harness.read_bandwidth()
    rows = []
    for length in lengths:
        calls = {kind: decode_step(kind, batch, length) for kind in kinds}
        times = harness.time_interleaved(calls, repeats)
        del calls
        for kind in kinds:
            cfg = config(kind)
            size = cache_bytes(cfg.attention, cfg, batch, length)
            flops = batch * decode_flops(cfg.attention, cfg, length)
            by_bytes, by_flops = 1e3 * size / bandwidth, 1e3 * flops / rate
            rows.append(
                {
                    "length": length,
                    "batch": batch,
                    "kind": kind,
                    "median_ms": 1e3 * float(np.median(times[kind])),
                    "best_ms": 1e3 * min(times[kind]),
                    "q1_ms": 1e3 * float(np.quantile(times[kind], 0.25)),
                    "q3_ms": 1e3 * float(np.quantile(times[kind], 0.75)),
                    "times_ms": [1e3 * t for t in times[kind]],
                    "cache_mb": size / 1e6,
                    "gflop": flops / 1e9,
                    "copy_gb_s": bandwidth / 1e9,
                    "read_gb_s": reading / 1e9,
                    "matmul_gflop_s": rate / 1e9,
                    "floor_ms": max(by_bytes, by_flops),
                    "bound": "bytes" if by_bytes > by_flops else "FLOPs",
                }
            )
    return rows


HEADER = ("kind", "M", "median ms", "quartiles", "x TPA", "cache MB", "best ms", "floor ms",
          "bound by", "median / floor", "best / floor", "exponent in M")  # fmt: skip


def table(rows: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """Cells under :data:`HEADER` for the rows of one process."""
    tpa = {r["length"]: r["median_ms"] for r in rows if r["kind"] == "tpa"}
    cells = []
    for r in rows:
        curve = [s for s in rows if s["kind"] == r["kind"]]
        exponent = "-"
        if len(curve) > 1:
            x, y = [s["length"] for s in curve], [s["median_ms"] for s in curve]
            exponent = f"{power_law_exponent(x, y).value:.2f}"
        cells.append([
            r["kind"], str(r["length"]), f"{r['median_ms']:.3f}",
            f"{r['q1_ms']:.3f}-{r['q3_ms']:.3f}",
            f"{r['median_ms'] / tpa[r['length']]:.2f}", f"{r['cache_mb']:.1f}",
            f"{r['best_ms']:.3f}", f"{r['floor_ms']:.3f}", r["bound"],
            f"{r['median_ms'] / r['floor_ms']:.2f}", f"{r['best_ms'] / r['floor_ms']:.2f}",
            exponent,
        ])  # fmt: skip
    return cells


def plot_times(rows: Sequence[Mapping[str, Any]], path: pathlib.Path, title: str = "") -> None:
    """Median time over cache length on log2 axes, like the paper's figure 5."""
    fig, ax = new_figure(
        "cached tokens", "one decoding step (ms, median and quartiles)",
        title or f"Decoding step of one attention layer, batch {rows[0]['batch']}",
    )  # fmt: skip
    for kind in dict.fromkeys(r["kind"] for r in rows):
        curve = [r for r in rows if r["kind"] == kind]
        style = ":" if kind.endswith("_jaxnn") else "-"
        lengths = [r["length"] for r in curve]
        median = np.array([r["median_ms"] for r in curve])
        below, above = median - [r["q1_ms"] for r in curve], [r["q3_ms"] for r in curve] - median
        line, *_ = ax.errorbar(
            lengths, median, (below, above), linestyle=style, marker="o", ms=4, label=kind
        )
        if kind == "tpa":
            floor = [r["floor_ms"] for r in curve]
            ax.plot(lengths, floor, "--", color=line.get_color(), label="tpa, floor")
    ax.set_xscale("log", base=2)
    ax.set_yscale("log", base=2)
    save_figure(fig, path)


def report(rows: list[harness.Row], out: pathlib.Path) -> None:
    """Prints a table and draws a figure per number of threads."""
    harness.write_rows(out / "decode.csv", rows)
    for threads in dict.fromkeys(r["threads"] for r in rows):
        own = [r for r in rows if r["threads"] == threads]
        machine = (
            f"{threads} thread(s), copy {own[0]['copy_gb_s']:.0f} GB/s, "
            f"read {own[0]['read_gb_s']:.0f} GB/s, "
            f"matmul {own[0]['matmul_gflop_s']:.0f} GFLOP/s"
        )
        harness.show(f"Decoding step, {machine}", HEADER, table(own))
        plot_times(own, out / f"decode_{threads}.png", f"Decoding step, {threads} thread(s)")
    print(f"wrote {out}/decode.csv and figures")


if __name__ == "__main__":
    harness.main_for(
        "experiments.benchmarks.decode", measure, report, "runs/bench-decode",
        {"lengths": LENGTHS, "batch": 1},
    )  # fmt: skip
