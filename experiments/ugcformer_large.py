"""One epoch of UGCFormer on graphs too large for one pass over all messages at once."""

import pathlib
import resource
import sys
import time
from typing import Any

import jax
import numpy as np
import rich.console
from ml_collections import ConfigDict

from experiments.tables import print_table, write_csv
from neurips25 import graphs, training
from neurips25.evidence import new_figure, power_law_exponent, save_figure

_HEADER = ("nodes", "edges", "generate / s", "full batch: epoch / s", "sampled: step / s",
           "sampled: steps an epoch", "peak memory / GB")  # fmt: skip


def peak_gigabytes() -> float:
    """Largest resident memory of this process so far, in GB."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e9


def measure_size(large: ConfigDict, nodes: int) -> list[Any]:
    """A row of :func:`measure`.

    The full batch takes a gradient step twice, the first one to compile; sampled steps likewise.
    """
    start = time.perf_counter()
    graph = graphs.power_law_dataset(
        0, nodes, nodes * large.edges_per_node, large.classes, large.features
    )
    generated = time.perf_counter() - start
    mesh = training.make_mesh({"data": 1}, jax.devices()[:1])
    task = graphs.node_task(graph, 0)
    model = graphs.UGCFormer(
        graph.num_classes, large.hidden_dim, large.num_layers, edge_chunk=large.edge_chunk,
        remat=True, num_nodes=nodes,
    )  # fmt: skip
    loss = graphs.ugcformer_loss_fn(model, beta=0.1)
    tx = graphs.coupled_adam(5e-3, 5e-4, graphs.weight_decay_mask)
    step = training.make_train_step(loss, tx, mesh)
    state = training.create_state(
        lambda key: model.init(key, task.graph), tx, jax.random.key(0), mesh=mesh
    )
    for _ in range(2):
        start = time.perf_counter()
        state, metrics = jax.block_until_ready(step(state, task))
        epoch = time.perf_counter() - start
    assert np.isfinite(metrics["loss"])

    roots = np.flatnonzero(graph.split(0).train)
    samples = graphs.NeighborBatches(graph, roots, large.batch_nodes, tuple(large.fanouts))
    iterator = iter(samples)
    for i in range(1 + large.sampled_steps):
        if i == 1:
            start = time.perf_counter()
        sample = graphs.sampled_task(jax.device_put(next(iterator)))
        state, metrics = jax.block_until_ready(step(state, sample))
    sampled = (time.perf_counter() - start) / large.sampled_steps
    assert np.isfinite(metrics["loss"])
    return [
        nodes, graph.num_edges, round(generated, 2), round(epoch, 2), round(sampled, 3),
        samples.steps_per_epoch, round(peak_gigabytes(), 2),
    ]  # fmt: skip


def measure(large: ConfigDict, workdir: pathlib.Path, console: rich.console.Console) -> None:
    """Trains one epoch at each size of ``config.large``, and prints time and peak memory.

    Writes ``tables/large.csv`` and ``figures/large.png``. The peak is that of the process, so a
    row shows the largest size up to it.

    Args:
      large: ``config.large``.
      workdir: the run directory.
      console: where to print.
    """
    rows = []
    for nodes in sorted(large.nodes):
        rows.append(measure_size(large, nodes))
        console.print(", ".join(f"{name} {value}" for name, value in zip(_HEADER, rows[-1])))
    write_csv(workdir / "tables" / "large.csv", _HEADER, rows)
    sizes, epochs = [row[0] for row in rows], [row[3] for row in rows]
    title = "One full-batch epoch"
    if len(rows) > 1:
        exponent = power_law_exponent(sizes, np.maximum(epochs, 1e-3)).value
        title += f", time ~ nodes^{exponent:.2f}"
    print_table(console, title, _HEADER, rows)
    fig, ax = new_figure("nodes", "seconds", title)
    ax.loglog(sizes, epochs, "-o", label="one epoch, full batch")
    save_figure(fig, workdir / "figures" / "large.png")
