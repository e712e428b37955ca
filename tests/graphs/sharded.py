"""Training steps on one graph over a mesh; also run as a subprocess with several devices.

python -m tests.graphs.sharded data:4,fsdp:2
"""

import json
import sys

import jax
import numpy as np
import optax

from neurips25 import graphs, training

NODES = 80
MODELS = {
    "ugcformer": graphs.UGCFormer(3, 8, num_nodes=NODES),
    "sgformer": graphs.SGFormer(3, 8),
    "gat": graphs.GAT(3, 8, 4),
}


def steps(mesh, name):
    """Losses of a few steps without dropout, and the shapes of what a device holds."""
    graph = graphs.sbm_dataset(0, n=NODES, c=3, f=6, average_degree=5, num_splits=1)
    whole, model = graphs.to_graphs_tuple(graph), MODELS[name]
    placed = graphs.shard_graph(whole, mesh)
    rows = graphs.num_nodes(placed)
    labels = graphs.shard_rows(graph.labels, rows, mesh, fill=-1)
    train = graphs.shard_rows(graph.split(0).train, rows, mesh)
    tx = optax.adam(1e-2)

    def loss_fn(params, extra, batch, key):
        graph, labels, train = batch
        output = model.apply({"params": params} | extra, graph)
        if name != "ugcformer":
            return graphs.masked_cross_entropy(output, labels, train), ({}, extra)
        real = graphs.real_nodes(graph)
        loss, parts = graphs.ugcformer_loss(output, labels, train, beta=0.5, mask=real)
        return loss, (parts, extra)

    rules = graphs.GRAPH_RULES
    state = training.create_state(
        lambda key: model.init(key, whole), tx, jax.random.key(0), mesh=mesh, rules=rules
    )
    step = training.make_train_step(loss_fn, tx, mesh, rules=rules)
    losses = []
    for _ in range(4):
        state, metrics = step(state, (placed, labels, train))
        losses.append(float(metrics["loss"]))
    held = {"nodes": placed.nodes, "senders": placed.senders}
    if name == "ugcformer":
        held["table"] = state.params["topo"]["table"]
    shapes = {name: array.addressable_shards[0].data.shape for name, array in held.items()}
    return {"losses": losses, "shapes": shapes}


def main():
    sizes = training.parse_mesh(sys.argv[1])
    jax.config.update("jax_num_cpu_devices", int(np.prod(list(sizes.values()))))
    mesh = training.make_mesh(sizes)
    print(json.dumps({name: steps(mesh, name) for name in MODELS}))


if __name__ == "__main__":
    main()
