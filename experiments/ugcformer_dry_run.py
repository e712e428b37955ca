"""What a training step of the UGCFormer experiment takes, as shapes."""

from typing import Any

import jax
import jax.numpy as jnp
import jraph
import numpy as np
from jax.sharding import Mesh
from ml_collections import ConfigDict

from configs.ugcformer import FEATURE_ENTRIES, SIZES
from experiments.ugcformer_training import load_problem
from neurips25 import graphs, training
from neurips25.graphs import NodeTask, SampledTask


def abstract_batch(
    config: ConfigDict, problem: str, mesh: Mesh
) -> tuple[NodeTask | SampledTask, int, int]:
    """The whole graph, and a sample of it where the config trains on samples.

    Without a file nothing tells how many training nodes there are: then a sample has
    ``batch_nodes`` roots, up to all nodes.

    Args:
      config: the experiment's config.
      problem: a graph.
      mesh: devices.

    Returns:
      What the step takes as ``jax.ShapeDtypeStruct``, placed as in training; nodes and classes.

    Raises:
      FileNotFoundError, ValueError: as
        :func:`~experiments.ugcformer_training.load_problem`, but for a graph of the paper.
    """
    try:
        graph = load_problem(config, problem)
    except FileNotFoundError:
        if problem not in SIZES:
            raise
        n, m, f, c = SIZES[problem]
        roots, whole = n, _paper_graph(problem, n, m, f, mesh)
    else:
        n, f, c = graph.num_nodes, graph.features.shape[1], graph.num_classes
        roots = int(graph.split(0).train.sum())
        whole = jax.tree.map(_shape, graphs.node_task(graph, 0, mesh))
    train = config[problem].train
    if not train.batch_nodes:
        return whole, n, c
    sample = _sample(n, f, min(train.batch_nodes, roots), tuple(train.fanouts))
    return SampledTask(sample, whole), n, c


def _shape(array: jax.Array) -> jax.ShapeDtypeStruct:
    several = len(array.sharding.device_set) > 1
    return jax.ShapeDtypeStruct(
        array.shape, array.dtype, sharding=array.sharding if several else None
    )


def _paper_graph(problem: str, n: int, m: int, f: int, mesh: Mesh) -> NodeTask:
    ways = mesh.shape["data"] * mesh.shape["fsdp"]
    edges, graphs_inside = 2 * m, 1
    if n % ways or edges % ways:
        n, edges, graphs_inside = -(-(n + 1) // ways) * ways, -(-edges // ways) * ways, 2

    def rows(shape: tuple[int, ...], dtype: Any) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(shape, dtype, sharding=training.batch_sharding(mesh))

    nodes: Any = rows((n, f), jnp.float32)
    if ways == 1 and problem in FEATURE_ENTRIES:
        entries = (FEATURE_ENTRIES[problem],)
        index: Any = rows(entries, jnp.int32)
        values: Any = rows(entries, jnp.float32)
        nodes = graphs.SparseFeatures(index, index, values, (n, f))
    sizes = jax.ShapeDtypeStruct((graphs_inside,), jnp.int32, sharding=training.replicated(mesh))
    graph = jraph.GraphsTuple(
        nodes=nodes, edges=None, globals=None,
        senders=rows((edges,), jnp.int32), receivers=rows((edges,), jnp.int32),
        n_node=sizes, n_edge=sizes,
    )  # fmt: skip
    labels: Any = rows((n,), jnp.int32)
    mask: Any = rows((n,), jnp.bool_)
    step: Any = jax.ShapeDtypeStruct((), jnp.int32, sharding=training.replicated(mesh))
    return NodeTask(graph, labels, mask, mask, mask, step)


def _sample(n: int, f: int, roots: int, fanouts: tuple[int, ...]) -> NodeTask:
    nodes, edges = graphs.subgraph_size(n, roots, fanouts)

    def array(dtype: Any, *shape: int) -> Any:
        return jax.ShapeDtypeStruct(shape, dtype)

    batch = graphs.SampledSubgraph(
        nodes=array(np.int32, nodes), features=array(np.float32, nodes, f),
        labels=array(np.int32, nodes), degrees=array(np.int32, nodes),
        senders=array(np.int32, edges), receivers=array(np.int32, edges),
        edge_weight=array(np.float32, edges), real_nodes=array(np.bool_, nodes),
        roots=array(np.bool_, nodes),
    )  # fmt: skip
    return jax.eval_shape(graphs.sampled_task, batch)
