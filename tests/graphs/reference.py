"""Small graphs, and the reference model as our parameters."""

import jax
import jax.numpy as jnp
import jraph
import numpy as np


def graph_of(edges, x, weights=None):
    """The tuple of undirected edges [m, 2] with i < j, receivers in order."""
    edges = np.asarray(edges).reshape(-1, 2)
    senders, receivers = (np.concatenate([edges[:, i], edges[:, 1 - i]]) for i in (0, 1))
    order = np.lexsort((senders, receivers))
    both = None if weights is None else np.concatenate([weights, weights])[order]
    return jraph.GraphsTuple(
        nodes=np.asarray(x),
        edges=both,
        senders=senders[order].astype(np.int32),
        receivers=receivers[order].astype(np.int32),
        globals=None,
        n_node=np.array([len(x)], np.int32),
        n_edge=np.array([len(order)], np.int32),
    )


def random_edges(n, m, seed=0):
    """m different pairs i < j, none with the last node."""
    rng = np.random.default_rng(seed)
    pairs = np.argwhere(np.triu(np.ones((n - 1, n - 1)), 1))
    return pairs[rng.choice(len(pairs), m, replace=False)]


def random_graph(n=12, m=20, f=5, seed=0):
    """A float64 graph whose last node is isolated."""
    rng = np.random.default_rng(seed + 1)
    return graph_of(random_edges(n, m, seed), rng.normal(size=(n, f)))


def dense_adjacency(graph):
    """A [n, n] of a tuple."""
    a = np.zeros((len(graph.nodes), len(graph.nodes)))
    weights = 1.0 if graph.edges is None else graph.edges
    a[graph.receivers, graph.senders] = weights
    return a


def permuted(graph, order):
    """The same graph with node ``order[i]`` in place i."""
    place = np.argsort(order)
    once = graph.senders < graph.receivers
    edges = np.stack([place[graph.senders[once]], place[graph.receivers[once]]], axis=1)
    return graph_of(edges, graph.nodes[order])


def random_params(module, *args, seed=0, **kwargs):
    """float64 parameters of a module, about as large as its own start; scales around one."""
    shapes = jax.eval_shape(module.init, jax.random.key(0), *args, **kwargs)
    rng = np.random.default_rng(seed)

    def draw(path, leaf):
        spread = leaf.shape[0] ** -0.5 if len(leaf.shape) > 1 else 0.3
        centre = 1.0 if path[-1].key == "scale" else 0.0
        return jnp.asarray(rng.normal(centre, spread, leaf.shape))

    return jax.tree_util.tree_map_with_path(draw, shapes["params"])


def reference_params(arrays, dtype):
    """The ``param_*`` arrays of a reference model as parameters of UGCFormer."""
    given = {k[6:]: jnp.asarray(v, dtype) for k, v in arrays.items() if k.startswith("param_")}

    def dense(w, b):
        return {"kernel": given[w], "bias": given[b]}

    def layer(i):
        maps = {
            f"{kind}_{side}": dense(f"l{i}_{kind}_{side}_w", f"l{i}_{kind}_{side}_b")
            for kind in "qv"
            for side in ("topo", "attr")
        }
        norms = {
            f"ln_{side}": {
                "scale": given[f"l{i}_ln_{side}_scale"],
                "bias": given[f"l{i}_ln_{side}_bias"],
            }
            for side in ("topo", "attr")
        }
        gates = {gate: given[f"l{i}_{gate}"] for gate in ("lambda", "gamma")}
        return maps | norms | gates

    num_layers = len([k for k in given if k.endswith("_lambda")])
    return {
        "topo": {
            "table": given["topo_w0"],
            "bias": given["topo_b0"],
            "mlp": {"dense_0": dense("topo_w1", "topo_b1")},
        },
        "attr": {f"dense_{i}": dense(f"attr_w{i}", f"attr_b{i}") for i in (0, 1)},
        "head": {f"dense_{i}": dense(f"head_w{i}", f"head_b{i}") for i in (0, 1)},
    } | {f"layer_{i}": layer(i) for i in range(num_layers)}
