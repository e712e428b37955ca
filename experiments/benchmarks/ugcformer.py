"""UGCFormer's training step and attention: ours, in PyTorch, and in PyTorch Geometric.

    python -m experiments.benchmarks.ugcformer --out=runs/bench-ugcformer

(OpenReview 7FhWZFoVem.) Measured, all in float32 and interleaved:

- a full-batch training step on Cora (UGCFormer of two layers of width 64, GCN of width 64, GAT of
  8 x 8), dropout included. Without dropout all variants must have the same losses over two steps
  before anything is timed. ``torch`` and ``pyg`` have dense features, as most of their
  users do, and those ending in ``csr_x`` have them in CSR, with dropout on what is not zero;
  ``pyg_csr`` and GCN's ``pyg_csr_x`` have the adjacency matrix in CSR instead of edges.
- dual cross-attention alone, forward and backward, on 65,536 nodes.
- one full-batch epoch on a power-law graph of ``--nodes`` nodes with ten edges each (0 leaves it
  out), every variant in a process of its own, with its peak memory. UGCFormer recomputes its
  layers in the backward pass in all variants; ours takes 16,384 edges at a time. These processes
  have the allocator's defaults, all others the settings of the harness.

The floor is the larger of two times: the matmul FLOPs of the step at the rate of a 1024^3 matmul
measured beside it, and the bytes of all messages (a row per edge and sparse feature, forward and
backward; of the attention, its arrays) at the speed of a copy. Cora is the graph at the path in the
environment variable ``NEURIPS25_CORA``, such as ``planetoid/ind.cora``; without it a generated
graph of its size. Variants whose package is not installed are left out
(``pip install neurips25[bench] torch_geometric``). Takes 20 minutes and 17 GB,
``--nodes=0`` three minutes.
"""

import concurrent.futures
import functools
import importlib.util
import math
import multiprocessing
import os
import pathlib
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures.process import BrokenProcessPool
from typing import Any

import jax
import numpy as np
import rich.console
from flax import linen
from ml_collections import ConfigDict

from experiments.benchmarks import harness
from experiments.tables import print_table, write_csv
from experiments.training_run import result_file, stored
from experiments.ugcformer_large import peak_gigabytes
from neurips25 import graphs, training
from neurips25.evidence import Estimate, line_cycle, new_figure, power_law_exponent, save_figure

Step = Callable[[], Any]
Cost = tuple[float, float]  # FLOPs, and bytes
Rows = Sequence[Mapping[str, Any]]

VARIANTS = {
    "ugcformer": ("ours", "torch", "torch_csr_x", "torch_compile"),
    "gcn": ("ours", "pyg", "pyg_csr", "pyg_csr_x"),
    "gat": ("ours", "pyg", "pyg_csr_x"),
}
LARGE_VARIANTS = {"ugcformer": ("ours", "torch"), "gcn": ("ours", "pyg", "pyg_csr")}
PACKAGES = {"torch": ("torch",), "pyg": ("torch", "torch_geometric")}
WIDTH, LAYERS, LR, DECAY, BETA = 64, 2, 5e-3, 5e-4, 1.0
ATTENTION_NODES = 65_536
LARGE_REPEATS, EDGES_PER_NODE, EDGE_CHUNK = 2, 10, 16_384


def attention_call(
    kind: str, nodes: int, width: int
) -> tuple[Callable[[], Any], int | None, tuple[jax.Array, ...]]:
    """Compiled forward and backward pass of one head of random arrays.

    Args:
      kind: ``dca``, whose keys are its queries, or ``softmax``.
      nodes, width: n and d.

    Returns:
      The call, which gives the result and all gradients; the bytes of its intermediates, None
      where the backend does not say; the arguments, the cotangent of the result last.
    """
    count = 3 if kind == "dca" else 4
    arrays = tuple(
        jax.random.normal(key, (nodes, 1, width))
        for key in jax.random.split(jax.random.key(0), count)
    )
    function: Callable[..., jax.Array] = graphs.softmax_cross_attention
    if kind == "dca":
        function = graphs.linear_cross_attention

    def both_ways(*arguments: jax.Array) -> Any:
        result, pull = jax.vjp(function, *arguments[:-1])
        return result, pull(arguments[-1])

    compiled = jax.jit(both_ways).lower(*arrays).compile()
    memory = compiled.memory_analysis()
    size = None if memory is None else memory.temp_size_in_bytes
    return functools.partial(compiled, *arrays), size, arrays


def measure_scaling(bench: ConfigDict) -> list[harness.Row]:
    """Time and memory of both attentions, forward and backward, over the number of nodes.

    Args:
      bench: ``config.bench`` of ``configs/ugcformer.py``.

    Returns:
      A row per size: kind, nodes, width, median_ms, times_ms, temp_mb.
    """
    sizes = [("dca", n) for n in bench.lengths] + [("softmax", n) for n in bench.softmax_lengths]
    made = {f"{kind} {n}": attention_call(kind, n, bench.width)[:2] for kind, n in sizes}
    times = harness.time_interleaved({name: m[0] for name, m in made.items()}, bench.repeats)
    rows = []
    for (kind, n), (name, (_, memory)) in zip(sizes, made.items()):
        rows.append(
            {
                "kind": kind, "nodes": n, "width": bench.width,
                "median_ms": 1e3 * float(np.median(times[name])),
                "times_ms": [1e3 * t for t in times[name]],
                "temp_mb": None if memory is None else memory / 1e6,
            }
        )  # fmt: skip
    return rows


def slope(rows: Rows) -> Estimate:
    """Exponent of the median time in the number of nodes, of rows of one kind."""
    return power_law_exponent([r["nodes"] for r in rows], [r["median_ms"] for r in rows])


def in_workdir(
    bench: ConfigDict, workdir: pathlib.Path, console: rich.console.Console
) -> list[harness.Row]:
    """Measures once per run directory; writes ``tables/scaling.csv`` and ``figures/scaling.png``.

    Args:
      bench: ``config.bench`` of ``configs/ugcformer.py``.
      workdir: the run directory.
      console: where to print the table.

    Returns:
      The rows of :func:`measure_scaling`.
    """
    rows = stored(result_file(workdir, "scaling"), lambda: measure_scaling(bench))
    header = ("attention", "nodes", "width", "forward and backward / ms", "memory / MB")
    cells = [
        [r["kind"], r["nodes"], r["width"], f"{r['median_ms']:.3f}",
         "-" if r["temp_mb"] is None else f"{r['temp_mb']:.2f}"]
        for r in rows
    ]  # fmt: skip
    write_csv(workdir / "tables" / "scaling.csv", header, cells)
    print_table(console, "Attention over the nodes, this machine", header, cells)
    plot_scaling(rows, workdir / "figures" / "scaling.png")
    return rows


def plot_scaling(rows: Rows, path: pathlib.Path) -> None:
    """Time and memory against nodes, with the exponent of each curve."""
    fig, left = new_figure(size=(10.0, 4.0))
    grid = fig.add_gridspec(1, 2, wspace=0.3)
    left.set_subplotspec(grid[0])
    for ax, field, label in (
        (left, "median_ms", "forward and backward / ms"),
        (fig.add_subplot(grid[1]), "temp_mb", "memory for intermediates / MB"),
    ):
        ax.set(xlabel="nodes", ylabel=label, title=f"One head of width {rows[0]['width']}")
        ax.set_prop_cycle(line_cycle())
        for kind in dict.fromkeys(r["kind"] for r in rows):
            curve = [(r["nodes"], r[field]) for r in rows if r["kind"] == kind and r[field]]
            name = kind
            if len({n for n, _ in curve}) > 1:
                name += f": nodes^{power_law_exponent(*zip(*curve)).value:.2f}"
            ax.loglog(*zip(*curve), "-o", label=name)
        ax.grid(alpha=0.3)
    save_figure(fig, path)


def cora_graph() -> graphs.NodeGraph:
    """The graph at ``NEURIPS25_CORA``, or one of the size of Cora (2708 nodes, 1.3 % ones)."""
    path = os.environ.get("NEURIPS25_CORA")
    if path:
        return graphs.load_graph(path)
    return graphs.sbm_dataset(
        0, 2708, 7, 1433, 0.81, average_degree=2 * 5278 / 2708, on=0.045, off=0.0073, num_splits=1,
        name="generated",
    )  # fmt: skip


def model_of(kind: str, num_classes: int, large: bool = False) -> Any:
    """A module of :data:`VARIANTS`, with the options that a large graph needs."""
    if kind == "gat":
        return graphs.GAT(num_classes, WIDTH)
    chunk = EDGE_CHUNK if large else None
    if kind == "gcn":
        return graphs.GCN(num_classes, WIDTH, edge_chunk=chunk)
    return graphs.UGCFormer(num_classes, WIDTH, LAYERS, edge_chunk=chunk, remat=large)


def loss_of(model: linen.Module) -> training.LossFn:
    """The loss that all variants train by."""
    if isinstance(model, graphs.UGCFormer):
        return graphs.ugcformer_loss_fn(model, beta=BETA)
    return graphs.node_loss_fn(model)


def make_step(model: Any, variant: str, graph: graphs.NodeGraph) -> Step:
    """A training step from the same parameters in every variant; gives the loss before it."""
    task = graphs.node_task(graph)
    mask = graphs.weight_decay_mask if isinstance(model, graphs.UGCFormer) else None
    tx = graphs.coupled_adam(LR, DECAY, mask)
    mesh = training.make_mesh({"data": 1}, jax.devices()[:1])
    state = training.create_state(
        lambda key: model.init(key, task.graph), tx, jax.random.key(0), mesh=mesh
    )
    if variant != "ours":
        from experiments.benchmarks.ugcformer_torch import torch_step

        return torch_step(model, state.params, graph, variant, BETA, LR, DECAY, harness.cpu_count())
    step = training.make_train_step(loss_of(model), tx, mesh)

    def run() -> float:
        nonlocal state
        state, metrics = step(state, task)
        return float(metrics["loss"])

    return run


def installed(variants: Sequence[str]) -> list[str]:
    """The variants whose packages are here."""
    needed = {v: PACKAGES.get(v.split("_")[0], ()) for v in variants}
    return [v for v, names in needed.items() if all(map(importlib.util.find_spec, names))]


def check_equal(kind: str, variants: Sequence[str], graph: graphs.NodeGraph) -> None:
    """Raises RuntimeError where variants differ in the losses of two steps without dropout."""
    model = model_of(kind, graph.num_classes).clone(dropout=0.0)
    losses = {}
    for variant in variants:
        step = make_step(model, variant, graph)
        losses[variant] = [step() for _ in range(2)]
    for variant, values in losses.items():
        if not np.allclose(values, losses["ours"], rtol=1e-4):
            raise RuntimeError(f"{kind}: {variant} has losses {values}, ours {losses['ours']}")


def step_cost(kind: str, graph: graphs.NodeGraph) -> Cost:
    """Matmul FLOPs of a training step, and the bytes of its messages, both ways."""
    model, task = model_of(kind, graph.num_classes), graphs.node_task(graph)
    params = jax.eval_shape(model.init, jax.random.key(0), task.graph)["params"]
    loss = loss_of(model)
    flops = training.count_flops(
        lambda p: jax.grad(loss, has_aux=True)(p, {}, task, jax.random.key(0))[0], params
    )
    edges, c = len(graph.senders), graph.num_classes
    numbers = edges * ((1 + LAYERS) * WIDTH if kind == "ugcformer" else WIDTH + c)
    if isinstance(task.graph.nodes, graphs.SparseFeatures):
        numbers += task.graph.nodes.values.size * WIDTH
    return flops, 2 * 4 * numbers


def rows_of(
    what: str,
    graph: str,
    times: Mapping[str, Sequence[float]],
    cost: Cost,
    rates: tuple[float, float],
    peaks: Mapping[str, float] | None = None,
) -> list[harness.Row]:
    """A row per variant.

    Args:
      what, graph: of the rows.
      times: variant -> seconds; none where it did not fit into memory.
      cost: FLOPs, and bytes.
      rates: FLOP/s, and bytes per second.
      peaks: variant -> largest resident memory in GB.
    """
    floor = max(c / r for c, r in zip(cost, rates))
    medians = {v: float(np.median(own)) if own else None for v, own in times.items()}
    rows = []
    for variant, own in times.items():
        median, ours = medians[variant], medians["ours"]
        rows.append(
            {
                "what": what, "graph": graph, "variant": variant,
                "median_ms": median and 1e3 * median, "best_ms": 1e3 * min(own) if own else None,
                "times_ms": [1e3 * t for t in own],
                "over_ours": median / ours if median and ours else None,
                "gflop": cost[0] / 1e9, "mb": cost[1] / 1e6,
                "matmul_gflop_s": rates[0] / 1e9, "copy_gb_s": rates[1] / 1e9,
                "floor_ms": 1e3 * floor, "over_floor": median and median / floor,
                "peak_gb": (peaks or {}).get(variant),
            }
        )  # fmt: skip
    return rows


def attention_rows(
    nodes: int,
    repeats: int,
    rates: tuple[float, float],
    variants: Sequence[str] = ("torch", "torch_compile"),
) -> list[harness.Row]:
    """Dual cross-attention alone, forward and backward, ours and in other variants."""
    ours, _, arrays = attention_call("dca", nodes, WIDTH)
    calls: dict[str, Step] = {"ours": ours}
    for variant in installed(variants):
        from experiments.benchmarks.ugcformer_torch import torch_attention

        q, v, cotangent = (np.asarray(a)[:, 0] for a in arrays)
        compiled, threads = variant == "torch_compile", harness.cpu_count()
        calls[variant] = torch_attention(q, v, cotangent, compiled, threads)
        np.testing.assert_allclose(float(ours()[1][0][0, 0, 0]), calls[variant](), rtol=1e-3)
    times = harness.time_interleaved(calls, repeats)
    flops = training.count_flops(
        lambda q, v, c: jax.vjp(graphs.linear_cross_attention, q, v)[1](c), *arrays
    )
    # q, v and the cotangent are read; the result and two gradients are written.
    cost = flops, 3 * 4 * nodes * WIDTH
    return rows_of("attention, both ways", f"{nodes} nodes", times, cost, rates)


def large_steps(kind: str, variant: str, nodes: int) -> tuple[list[float], float, Cost]:
    """Seconds of steps on the large graph after an untimed one, the peak in GB, and the cost."""
    graph = graphs.power_law_dataset(0, nodes, EDGES_PER_NODE * nodes, c=10, f=WIDTH)
    step = make_step(model_of(kind, graph.num_classes, large=True), variant, graph)
    times = []
    for _ in range(1 + LARGE_REPEATS):
        start = time.perf_counter()
        loss = step()
        times.append(time.perf_counter() - start)
    assert np.isfinite(loss)
    return times[1:], peak_gigabytes(), step_cost(kind, graph)


def large_rows(nodes: int, rates: tuple[float, float]) -> list[harness.Row]:
    """One epoch on a large graph, each variant in a new process so that its peak is its own."""
    # Settings that make glibc keep freed memory would leave it in pieces: twice the peak here.
    os.environ.pop("GLIBC_TUNABLES", None)
    context = multiprocessing.get_context("spawn")
    rows = []
    for kind, variants in LARGE_VARIANTS.items():
        times: dict[str, list[float]] = {}
        peaks: dict[str, float] = {}
        cost = math.nan, math.nan
        for variant in installed(variants):
            with concurrent.futures.ProcessPoolExecutor(1, context) as pool:
                try:
                    run = pool.submit(large_steps, kind, variant, nodes)
                    times[variant], peaks[variant], cost = run.result()
                except (MemoryError, BrokenProcessPool):
                    times[variant] = []
        rows += rows_of(f"{kind} epoch", f"{nodes} nodes", times, cost, rates, peaks)
    return rows


def measure(repeats: int = 30, nodes: int = 1_000_000) -> list[harness.Row]:
    """Times everything in this process, and the large graph in processes of their own.

    Args:
      repeats: timed calls of each variant; the large graph has two.
      nodes: of the large graph, 0 for none.

    Returns:
      A row per measurement and variant, see :func:`rows_of`.

    Raises:
      RuntimeError: the variants do not compute the same losses.
    """
    rates = harness.matmul_rate(), harness.copy_bandwidth()
    rows, graph = [], cora_graph()
    for kind, names in VARIANTS.items():
        variants = installed(names)
        check_equal(kind, variants, graph)
        model = model_of(kind, graph.num_classes)
        steps = {variant: make_step(model, variant, graph) for variant in variants}
        times = harness.time_interleaved(steps, repeats)
        rows += rows_of(f"{kind} step", graph.name, times, step_cost(kind, graph), rates)
    rows += attention_rows(ATTENTION_NODES, repeats, rates)
    return rows + (large_rows(nodes, rates) if nodes else [])


HEADER = ("what", "graph", "threads", "variant", "median ms", "best ms", "x ours", "floor ms",
          "x floor", "peak GB")  # fmt: skip


def report(rows: list[harness.Row], out: pathlib.Path) -> None:
    """Prints the table and writes the CSV."""
    harness.write_rows(out / "ugcformer.csv", rows)

    def text(value: float | None, digits: int) -> str:
        return "-" if value is None else f"{value:.{digits}f}"

    cells = [
        [r["what"], r["graph"], r["threads"], r["variant"], text(r["median_ms"], 2),
         text(r["best_ms"], 2), text(r["over_ours"], 2), text(r["floor_ms"], 2),
         text(r["over_floor"], 1), text(r["peak_gb"], 2)]
        for r in rows
    ]  # fmt: skip
    harness.show("UGCFormer and its peers, float32", HEADER, cells)
    print(f"wrote {out / 'ugcformer.csv'}")


if __name__ == "__main__":
    harness.main_for(
        "experiments.benchmarks.ugcformer", measure, report, "runs/bench-ugcformer",
        {"nodes": 1_000_000},
    )  # fmt: skip
