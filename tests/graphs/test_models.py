"""What holds for every model: shapes, padding, order of the nodes, gradients, parts of a graph."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from neurips25.graphs import (
    APPNP,
    GAT,
    GCN,
    GPRGNN,
    LINKX,
    MLP,
    GraphSAGE,
    NodeFormer,
    Polynormer,
    SGFormer,
    UGCFormer,
    masked_accuracy,
    masked_cross_entropy,
    orthogonal_projection,
    pad_graph,
    positive_features,
    sample_subgraph,
    sbm_dataset,
    sparse_features,
    subgraph_tuple,
    to_graphs_tuple,
)
from tests.graphs.reference import dense_adjacency, permuted, random_graph, random_params

N = 12
MODELS = {
    "mlp": MLP(3, 8),
    "gcn": GCN(3, 8),
    "gat": GAT(3, 8, 4),
    "sage": GraphSAGE(3, 8),
    "appnp": APPNP(3, 8),
    "gprgnn": GPRGNN(3, 8),
    "linkx": LINKX(3, 8, num_nodes=N),
    "sgformer": SGFormer(3, 8, 2, 2),
    "nodeformer": NodeFormer(3, 8, 2, 2, num_features=6, num_samples=2),
    "polynormer": Polynormer(3, 8, 2, 2),
    "ugcformer": UGCFormer(3, 8, num_nodes=N),
}
TIED = {"linkx", "ugcformer"}  # one row of weights per node


def logits_of(output):
    return getattr(output, "logits", output)


@pytest.fixture(scope="module", params=MODELS)
def made(request):
    """Name, model, graph, variables and logits, all in float64."""
    with jax.enable_x64(True):
        graph = random_graph(N)
        graph.nodes[np.random.default_rng(6).random(graph.nodes.shape) < 0.4] = 0
        model = MODELS[request.param].clone(dtype=jnp.float64)
        variables = dict(jax.eval_shape(model.init, jax.random.key(0), graph))
        variables["params"] = random_params(model, graph)
        stats = variables.get("batch_stats", {})
        rng = np.random.default_rng(5)
        variables["batch_stats"] = jax.tree.map(
            lambda leaf: jnp.asarray(rng.uniform(0.5, 1.5, leaf.shape)), stats
        )
        logits = logits_of(jax.jit(model.apply)(variables, graph))
    return request.param, model, graph, variables, logits


def test_logits_of_every_node_are_finite(made):
    _, _, _, variables, logits = made
    assert set(variables) <= {"params", "batch_stats"}
    assert logits.shape == (N, 3)
    assert logits.dtype == jnp.float64
    assert jnp.isfinite(logits).all()  # the last node has no neighbour
    assert np.std(np.asarray(logits), axis=0).min() > 1e-3


def test_padding_changes_nothing(x64, made):
    _, model, graph, variables, logits = made
    padded = pad_graph(graph, N + 5, 47)
    garbage = padded.nodes.copy()
    garbage[N:] = 1e3
    got = logits_of(jax.jit(model.apply)(variables, padded._replace(nodes=garbage)))
    np.testing.assert_allclose(got[:N], logits, rtol=0, atol=1e-11)


def test_order_of_the_nodes_does_not_matter(x64, made):
    name, model, graph, variables, logits = made
    order = np.random.default_rng(0).permutation(N)
    moved = permuted(graph, order)
    if name in TIED:
        moved = moved._replace(nodes={"features": moved.nodes, "ids": order})
    got = logits_of(jax.jit(model.apply)(variables, moved))
    np.testing.assert_allclose(got, logits[order], rtol=0, atol=1e-11)


def test_edges_in_chunks_change_nothing(x64, made):
    name, model, graph, variables, logits = made
    if name == "mlp":
        pytest.skip("an MLP has no edges")
    got = logits_of(jax.jit(model.clone(edge_chunk=7).apply)(variables, graph))
    np.testing.assert_allclose(got, logits, rtol=0, atol=1e-12)


def test_sparse_features_are_the_dense_ones(x64, made):
    _, model, graph, variables, logits = made
    sparse = graph._replace(nodes=sparse_features(graph.nodes))
    assert len(sparse.nodes.values) < graph.nodes.size
    got = logits_of(jax.jit(model.apply)(variables, sparse))
    np.testing.assert_allclose(got, logits, rtol=0, atol=1e-12)
    padded = logits_of(jax.jit(model.apply)(variables, pad_graph(sparse, N + 4, 44)))
    np.testing.assert_allclose(padded[:N], logits, rtol=0, atol=1e-11)


def test_training_step_reaches_every_parameter(x64, made):
    name, model, graph, variables, logits = made
    labels, mask = jnp.arange(N) % 3, jnp.arange(N) < 9

    def loss(params, key):
        output, updates = model.apply(
            variables | {"params": params},
            graph,
            deterministic=False,
            rngs={"dropout": key},
            mutable=["batch_stats", "losses"],
        )
        extra = sum(leaf.sum() for leaf in jax.tree.leaves(updates.get("losses", {})))
        ce = masked_cross_entropy(logits_of(output), labels, mask)
        return ce + extra, (logits_of(output), updates)

    step = jax.jit(jax.value_and_grad(loss, has_aux=True))
    touched = None
    for seed in range(3):
        (value, (noisy, updates)), grads = step(variables["params"], jax.random.key(seed))
        assert jnp.isfinite(value)
        sizes = jax.tree.map(lambda g: float(jnp.abs(g).max()), grads)
        touched = sizes if touched is None else jax.tree.map(max, touched, sizes)
    assert np.abs(noisy - logits).max() > 1e-3  # dropout or noise
    if variables["batch_stats"]:
        moved = jax.tree.map(
            lambda a, b: float(jnp.abs(a - b).max()), updates["batch_stats"],
            variables["batch_stats"],
        )  # fmt: skip
        assert min(jax.tree.leaves(moved)) > 1e-4
    for path, size in jax.tree_util.tree_leaves_with_path(touched):
        assert np.isfinite(size), path
        unused = name == "polynormer" and path[0].key == "local_output"
        assert unused or size > 1e-9, path


def test_low_precision_is_near(made):
    _, model, graph, variables, _ = made
    cast = lambda tree: jax.tree.map(lambda a: jnp.asarray(a, jnp.float32), tree)
    graph = graph._replace(nodes=graph.nodes.astype(np.float32))
    exact, low = (
        logits_of(jax.jit(model.clone(dtype=dtype).apply)(cast(variables), graph))
        for dtype in (jnp.float32, jnp.bfloat16)
    )
    assert low.dtype == jnp.float32
    assert np.abs(low - exact).max() < 0.1 * np.abs(exact).max()


def test_parts_of_a_graph_give_the_outputs_of_the_whole(x64):
    graph = sbm_dataset(0, n=60, c=3, f=6, average_degree=4, num_splits=1)
    whole = to_graphs_tuple(graph)
    most = int(graph.degrees.max())
    roots = np.array([5, 17, 40])
    batch = sample_subgraph(graph, roots, (most, most), np.random.default_rng(0))
    part = subgraph_tuple(batch)
    assert int(part.n_node[0]) == batch.real_nodes.sum() < 60
    for name in ("gcn", "sage", "gat"):
        model = MODELS[name].clone(dtype=jnp.float64)
        params = random_params(model, whole)
        want = jax.jit(model.apply)({"params": params}, whole)[roots]
        got = jax.jit(model.apply)({"params": params}, part)[:3]
        np.testing.assert_allclose(got, want, rtol=0, atol=1e-10, err_msg=name)
    # The rows of the adjacency that its encoder reads are whole for the roots.
    model = LINKX(3, 8, num_nodes=60, dtype=jnp.float64)
    variables = jax.jit(model.init)(jax.random.key(0), whole)
    want, got = (jax.jit(model.apply)(variables, graph) for graph in (whole, part))
    np.testing.assert_allclose(got[:3], want[roots], rtol=0, atol=1e-10)


def test_polynormer_trains_its_local_part_first(x64):
    graph = random_graph(N)
    model = MODELS["polynormer"].clone(dtype=jnp.float64)
    local = model.clone(local_only=True)
    both = [jax.eval_shape(m.init, jax.random.key(0), graph)["params"] for m in (model, local)]
    assert jax.tree.map(lambda a: a.shape, both[0]) == jax.tree.map(lambda a: a.shape, both[1])
    params = random_params(model, graph)

    def loss(params):
        return jnp.sum(jnp.square(local.apply({"params": params}, graph)))

    grads = jax.jit(jax.grad(loss))(params)
    for path, leaf in jax.tree_util.tree_leaves_with_path(grads):
        of_global = path[0].key.startswith("global")
        assert (jnp.abs(leaf).max() == 0) == of_global, path


def test_nodeformer_regulariser_is_its_definition(x64):
    graph = random_graph(N)
    model = MODELS["nodeformer"].clone(num_layers=1, num_heads=1, dtype=jnp.float64)
    params = random_params(model, graph)
    apply = jax.jit(functools.partial(model.apply, mutable=["losses"]))
    value = apply({"params": params}, graph)[1]["losses"]["layer_0"]["edge_attention"][0]

    def dense(part, x):
        return x @ part["kernel"] + part["bias"]

    x = dense(params["input"], graph.nodes)
    norm = params["norm_input"]
    x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
    x = jax.nn.elu(x * norm["scale"] + norm["bias"])
    projection = orthogonal_projection(jax.random.key(0), 6, 8, jnp.float64)
    scale = 0.25**-0.5 * 8**-0.25
    phi_q, phi_k = (
        positive_features(
            scale * dense(params["layer_0"][part], x)[:, None], projection, is_query=part == "q"
        )[:, 0]
        for part in "qk"
    )
    attention = phi_q @ phi_k.T
    attention = attention / attention.sum(1, keepdims=True)
    linked = dense_adjacency(graph) + np.eye(N)
    terms = np.log(attention) / linked.sum(1, keepdims=True)
    np.testing.assert_allclose(value, -terms[linked > 0].mean(), rtol=1e-10)


def test_bad_arguments():
    graph = random_graph(N)
    for model in (GAT(3, 10), Polynormer(3, 10, 4)):
        with pytest.raises(ValueError, match="hidden_dim=10 must be a multiple of num_heads"):
            model.init(jax.random.key(0), graph)
    with pytest.raises(ValueError, match="num_nodes=20: a part of a graph"):
        LINKX(3, 8, num_nodes=20).init(jax.random.key(0), graph)
    logits, labels, mask = jnp.zeros((4, 3)), jnp.zeros(4, int), jnp.ones(4, bool)
    with pytest.raises(ValueError, match=r"labels has shape \(3,\), needs \(4,\)"):
        masked_cross_entropy(logits, labels[1:], mask)
    with pytest.raises(ValueError, match="mask has shape"):
        masked_accuracy(logits, labels, mask.astype(jnp.float32))
    with pytest.raises(ValueError, match=r"logits has shape \(4,\)"):
        masked_accuracy(logits[:, 0], labels, mask)


def test_losses_over_a_mask():
    logits = jnp.array([[2.0, 0.0], [0.0, 2.0], [jnp.nan, 0.0]])
    labels, mask = jnp.array([0, 0, -1]), jnp.array([True, True, False])
    want = 0.5 * (np.log(1 + np.exp(-2)) + np.log(1 + np.exp(2)))
    np.testing.assert_allclose(masked_cross_entropy(logits, labels, mask), want, rtol=1e-6)
    assert masked_accuracy(logits, labels, mask) == 0.5
    assert masked_cross_entropy(logits, labels, jnp.zeros(3, bool)) == 0
    grad = jax.grad(masked_cross_entropy)(logits, labels, mask)
    assert jnp.isfinite(grad[:2]).all()
