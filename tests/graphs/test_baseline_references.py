"""Every baseline, whole, against its published equations in numpy with dense matrices."""

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
    node_loss_fn,
    nodeformer,
    orthogonal_projection,
    pad_graph,
)
from neurips25.graphs.node_training import NodeTask
from tests.graphs.reference import dense_adjacency, random_graph, random_params

N, F, C = 12, 5, 3


def random_variables(model, graph, seed=0):
    """float64 parameters and, where there are any, batch statistics."""
    shapes = jax.eval_shape(model.init, jax.random.key(0), graph)
    rng = np.random.default_rng(seed + 1)
    stats = jax.tree.map(
        lambda leaf: jnp.asarray(rng.uniform(0.5, 1.5, leaf.shape)), shapes.get("batch_stats", {})
    )
    return {"params": random_params(model, graph, seed=seed), "batch_stats": stats}


def evaluated(model, graph, **options):
    """Numpy parameters and statistics, and the logits of the module."""
    model = model.clone(dtype=jnp.float64)
    variables = random_variables(model, graph)

    def call(variables):
        return model.apply(variables, graph, mutable=["batch_stats"], **options)[0]

    logits = jax.jit(call)(variables)
    assert logits.shape == (N, C)
    assert logits.dtype == jnp.float64
    numbers = jax.tree.map(np.asarray, variables)
    return numbers["params"], numbers["batch_stats"], logits


def close(got, want):
    assert np.std(want, axis=0).min() > 1e-3  # the nodes differ
    np.testing.assert_allclose(got, want, rtol=1e-11, atol=1e-11)


def dense(p, x):
    return x @ p["kernel"] + p.get("bias", 0)


def relu(x):
    return np.maximum(x, 0)


def elu(x):
    return np.where(x > 0, x, np.exp(x) - 1)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def layer_norm(p, x):
    centred = x - x.mean(1, keepdims=True)
    spread = np.sqrt((centred**2).mean(1, keepdims=True) + 1e-5)
    return centred / spread * p["scale"] + p["bias"]


def batch_norm(p, stats, x, training):
    """By the statistics of the nodes in training, else by those that were gathered."""
    mean, var = (x.mean(0), x.var(0)) if training else (stats["mean"], stats["var"])
    return (x - mean) / np.sqrt(var + 1e-5) * p["scale"] + p["bias"]


def normalized(graph):
    """D^-½ (A + I) D^-½."""
    a = dense_adjacency(graph) + np.eye(N)
    d = a.sum(1)
    return a / np.sqrt(np.outer(d, d))


def softmax_rows(scores):
    weights = np.exp(scores - scores.max(1, keepdims=True))
    return weights / weights.sum(1, keepdims=True)


def attention_heads(p, x, linked):
    """GAT's result of each head, [H, n, D], over the entries of ``linked``."""
    results = []
    for head in range(p["kernel"].shape[1]):
        h = x @ p["kernel"][:, head]
        # Row i, column j: a_src of the neighbour j and a_dst of the node i itself.
        scores = (h @ p["att_dst"][head])[:, None] + (h @ p["att_src"][head])[None, :]
        scores = np.where(scores > 0, scores, 0.2 * scores)
        results.append(softmax_rows(np.where(linked, scores, -np.inf)) @ h)
    return np.stack(results)


def with_loops(graph):
    return dense_adjacency(graph) + np.eye(N) > 0


def mlp(p, x):
    return dense(p["dense_1"], relu(dense(p["dense_0"], x)))


def test_mlp(x64):
    graph = random_graph(N, f=F)
    params, _, logits = evaluated(MLP(C, 8), graph)
    close(logits, mlp(params["mlp"], graph.nodes))


def test_gcn(x64):
    graph = random_graph(N, f=F)
    params, _, logits = evaluated(GCN(C, 8, num_layers=3), graph)
    a, x = normalized(graph), graph.nodes
    for i in range(3):
        x = dense(params["gcn"][f"conv_{i}"], a @ (relu(x) if i else x))
    close(logits, x)


@pytest.mark.parametrize("layers", [2, 3])
def test_gat(x64, layers):
    graph = random_graph(N, f=F)
    params, _, logits = evaluated(GAT(C, 8, 4, out_heads=2, num_layers=layers), graph)
    linked, x = with_loops(graph), graph.nodes
    for i in range(layers - 1):
        p = params[f"layer_{i}"]
        heads = attention_heads(p, x, linked)
        assert heads.shape == (4, N, 2)
        x = elu(np.concatenate(list(heads), axis=1) + p["bias"])
    p = params[f"layer_{layers - 1}"]
    close(logits, attention_heads(p, x, linked).mean(0) + p["bias"])


def test_graph_sage(x64):
    graph = random_graph(N, f=F)
    params, _, logits = evaluated(GraphSAGE(C, 8), graph)
    a, x = dense_adjacency(graph), graph.nodes
    for i in range(2):
        p, x = params[f"conv_{i}"], relu(x) if i else x
        mean = [x[row > 0].mean(0) if row.any() else np.zeros(x.shape[1]) for row in a]
        x = x @ p["root"] + np.stack(mean) @ p["neighbours"] + p["bias"]
    close(logits, x)


def test_appnp(x64):
    graph = random_graph(N, f=F)
    params, _, logits = evaluated(APPNP(C, 8), graph)
    start = z = mlp(params["mlp"], graph.nodes)
    for _ in range(10):
        z = 0.9 * normalized(graph) @ z + 0.1 * start
    close(logits, z)


def test_gpr_gnn(x64):
    graph = random_graph(N, f=F)
    params, _, logits = evaluated(GPRGNN(C, 8), graph)
    assert params["gamma"].shape == (11,)
    h, a = mlp(params["mlp"], graph.nodes), normalized(graph)
    powers = [np.linalg.matrix_power(a, k) @ h for k in range(11)]
    close(logits, np.tensordot(params["gamma"], powers, 1))


def test_gpr_gnn_starts_at_personalised_pagerank(x64):
    gamma = GPRGNN(C, 8).init(jax.random.key(0), random_graph(N, f=F))["params"]["gamma"]
    want = [0.1 * 0.9**k for k in range(10)] + [0.9**10]
    np.testing.assert_allclose(gamma, want, rtol=1e-6)


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize(("encoder", "final"), [(1, 2), (2, 3), (1, 1)])
def test_linkx(x64, encoder, final, training):
    graph = random_graph(N, f=F)
    model = LINKX(C, 8, encoder, final, dropout=0.0)
    params, stats, logits = evaluated(model, graph, deterministic=not training)
    h_a = dense_adjacency(graph) @ params["topo"]["table"] + params["topo"]["bias"]
    h_x = dense(params["attr"]["dense_0"], graph.nodes)
    if encoder == 2:
        h_a = dense(params["topo"]["mlp"]["dense_0"], relu(h_a))
        h_x = dense(params["attr"]["dense_1"], relu(h_x))
    x = relu(dense(params["mix"], np.concatenate([h_a, h_x], axis=1)) + h_a + h_x)
    for i in range(final - 1):
        x = relu(dense(params[f"final_{i}"], x))
        x = batch_norm(params[f"norm_{i}"], stats[f"norm_{i}"], x, training)
    close(logits, dense(params[f"final_{final - 1}"], x))


def simple_attention(q, k, v):
    """SGFormer's: one head, with q and k normalised already."""
    scores = np.eye(N) + q @ k.T / N
    return scores @ v / scores.sum(1, keepdims=True)


@pytest.mark.parametrize("training", [False, True])
def test_sgformer(x64, training):
    graph = random_graph(N, f=F)
    model = SGFormer(
        C, 8, 2, 3, residual=0.3, dropout=0.0, gcn_layers=3, gcn_dropout=0.0, graph_weight=0.7
    )
    params, stats, logits = evaluated(model, graph, deterministic=not training)
    x = relu(layer_norm(params["norm_input"], dense(params["input"], graph.nodes)))
    for i in range(2):
        q, k, v = (dense(params[f"{part}_{i}"], x) for part in "qkv")
        q, k = q / np.linalg.norm(q), k / np.linalg.norm(k)  # of all heads together
        heads = [simple_attention(*h) for h in zip(*(np.split(a, 3, axis=1) for a in (q, k, v)))]
        x = layer_norm(params[f"norm_{i}"], 0.3 * np.mean(heads, axis=0) + 0.7 * x)
    a, y, gcn = normalized(graph), graph.nodes, params["gcn"]
    for i in range(3):
        y = dense(gcn[f"conv_{i}"], a @ y)
        if i < 2:
            y = relu(batch_norm(gcn[f"norm_{i}"], stats["gcn"][f"norm_{i}"], y, training))
    close(logits, dense(params["output"], 0.7 * y + 0.3 * x))


def sigmoid_kernel_attention(k, v):
    scores = k @ k.T
    return scores @ v / scores.sum(1, keepdims=True)


@pytest.mark.parametrize("local_only", [True, False])
def test_polynormer(x64, local_only):
    graph = random_graph(N, f=F)
    model = Polynormer(C, 8, 2, local_layers=3, global_layers=2, local_only=local_only)
    params, _, logits = evaluated(model, graph)
    x, total = dense(params["input"], graph.nodes), 0
    for i in range(3):
        beta = sigmoid(params["local_beta"][i])
        gate = relu(dense(params[f"local_gate_{i}"], x))
        heads = attention_heads(params[f"local_attention_{i}"], x, with_loops(graph))
        y = relu(np.concatenate(list(heads), axis=1) + dense(params[f"local_{i}"], x))
        x = (1 - beta) * layer_norm(params[f"local_norm_{i}"], gate * y) + beta * y
        total = total + x
    if local_only:
        close(logits, dense(params["local_output"], total))
        return
    x = layer_norm(params["global_norm"], total)
    for i in range(2):
        k, v = sigmoid(dense(params[f"global_k_{i}"], x)), dense(params[f"global_v_{i}"], x)
        parts = zip(np.split(k, 2, axis=1), np.split(v, 2, axis=1))
        seen = np.concatenate([sigmoid_kernel_attention(*part) for part in parts], axis=1)
        gate = dense(params[f"global_gate_{i}"], x) + sigmoid(params["global_beta"][i])
        x = relu(dense(params["global_mix"], layer_norm(params[f"global_norm_{i}"], seen) * gate))
    close(logits, dense(params["global_output"], x))


HEADS, WIDTH, FEATURES, TAU = 2, 4, 6, 0.25


def random_features(x, omega, is_query):
    """exp(ω·x − ‖x‖²/2), its largest exponent taken out, and the released 1e-6; x is [n, D]."""
    projected = x @ omega.T
    top = projected.max(1, keepdims=True) if is_query else projected.max()
    return np.exp(projected - (x**2).sum(1, keepdims=True) / 2 - top) + 1e-6


def nodeformer_reference(params, graph, omegas, noises):
    """Logits, and the regulariser of each layer with weight one.

    Args:
      omegas: [M, D] of each layer.
      noises: Gumbel draws [K, n, H] of each layer; zeros leave the noise out.
    """
    linked, regularisers = with_loops(graph), []
    x = elu(layer_norm(params["norm_input"], dense(params["input"], graph.nodes)))
    for i, (omega, noise) in enumerate(zip(omegas, noises)):
        p, heads, logs = params[f"layer_{i}"], [], []
        q, k, v = (np.split(dense(p[part], x), HEADS, axis=1) for part in "qkv")
        for h in range(HEADS):
            # e^{q·k / (τ √D)}
            phi_q, phi_k = (
                random_features(a / np.sqrt(TAU * np.sqrt(WIDTH)), omega, is_query)
                for a, is_query in ((q[h], True), (k[h], False))
            )
            scores = phi_q @ phi_k.T
            draws = []
            for g in noise[:, :, h]:
                noisy = scores * np.exp(g / TAU)
                draws.append(noisy @ v[h] / noisy.sum(1, keepdims=True))
            bias = sigmoid(p["relational_bias"][h])
            heads.append(np.mean(draws, axis=0) + bias * normalized(graph) @ v[h])
            logs.append(np.log(scores / scores.sum(1, keepdims=True)))
        terms = np.array(logs) / linked.sum(1)[:, None]
        regularisers.append(-terms[:, linked].mean())
        x = layer_norm(params[f"norm_{i}"], x + dense(p["output"], np.concatenate(heads, axis=1)))
    return dense(params["output"], x), regularisers


NODEFORMER = NodeFormer(C, WIDTH, 2, HEADS, TAU, FEATURES, num_samples=3, edge_loss_weight=0.7)


def test_nodeformer(x64):
    graph = random_graph(N, f=F)
    params, _, logits = evaluated(NODEFORMER, graph)
    omega = np.asarray(orthogonal_projection(jax.random.key(0), FEATURES, WIDTH, jnp.float64))
    want, _ = nodeformer_reference(params, graph, [omega] * 2, [np.zeros((1, N, HEADS))] * 2)
    close(logits, want)


def test_nodeformer_in_training_has_noise_and_its_loss(x64, monkeypatch):
    graph, omegas, noises = random_graph(N, f=F), [], []
    model = NODEFORMER.clone(dtype=jnp.float64)
    params = random_params(model, graph)
    layer = nodeformer.NodeFormerAttention
    project, with_noise = nodeformer.orthogonal_projection, layer._with_noise

    def seen_projection(*args):
        omegas.append(np.asarray(project(*args)))
        return omegas[-1]

    def seen_noise(self, phi_q, phi_k, v, key):
        draws = [jax.random.gumbel(k, (N, HEADS), jnp.float64) for k in jax.random.split(key, 3)]
        noises.append(np.asarray(draws))
        return with_noise(self, phi_q, phi_k, v, key)

    monkeypatch.setattr(nodeformer, "orthogonal_projection", seen_projection)
    monkeypatch.setattr(layer, "_with_noise", seen_noise)
    key = jax.random.key(3)
    logits, new = model.apply(
        {"params": params}, graph, False, rngs={"dropout": key}, mutable=["losses"]
    )
    assert [o.shape for o in omegas] == [(FEATURES, WIDTH)] * 2
    assert np.abs(omegas[0] - omegas[1]).max() > 0.1  # drawn for each layer
    assert np.abs(noises[0] - noises[1]).max() > 0.1
    want, regularisers = nodeformer_reference(
        jax.tree.map(np.asarray, params), graph, omegas, noises
    )
    close(logits, want)
    for i, value in enumerate(regularisers):
        got = new["losses"][f"layer_{i}"]["edge_attention"][0]
        np.testing.assert_allclose(got, 0.7 * value, rtol=1e-11)

    labels, train = jnp.arange(N) % C, jnp.arange(N) < 7
    none = jnp.zeros(N, bool)
    task = NodeTask(graph, labels, train, none, none, jnp.int32(0))
    loss, _ = node_loss_fn(model)(params, {}, task, key)
    log_p = np.log(softmax_rows(want))[np.arange(N), np.arange(N) % C]
    np.testing.assert_allclose(loss, -log_p[:7].mean() + 0.7 * np.mean(regularisers), rtol=1e-11)


def edge_loss(model, graph):
    """The sum of the regularisers as a function of the parameters."""
    model = model.clone(dtype=jnp.float64)

    def loss(params):
        new = model.apply({"params": params}, graph, mutable=["losses"])[1]
        return sum(jax.tree.leaves(new["losses"]))

    return jax.jit(jax.value_and_grad(loss))


@pytest.mark.parametrize("padded", [False, True])
def test_nodeformer_regulariser_in_chunks_of_edges(x64, padded):
    graph = random_graph(N, f=F)
    params = random_params(NODEFORMER.clone(dtype=jnp.float64), graph)
    want, want_grads = edge_loss(NODEFORMER, graph)(params)
    assert max(float(jnp.abs(g).max()) for g in jax.tree.leaves(want_grads)) > 1e-3
    if padded:
        graph = pad_graph(graph, N + 3, 51)
    for chunk in (1, 7, 1000):
        got, grads = edge_loss(NODEFORMER.clone(edge_chunk=chunk), graph)(params)
        np.testing.assert_allclose(got, want, rtol=1e-12)
        jax.tree.map(
            lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12), grads, want_grads
        )


def test_nodeformer_regulariser_has_the_gradient_of_its_scores(x64):
    # By plain gathers, which autodiff takes apart itself.
    graph = random_graph(N, f=F)
    rng = np.random.default_rng(0)
    q, k = (jnp.asarray(rng.uniform(0.1, 1, (N, HEADS, 3))) for _ in range(2))
    senders, receivers = jnp.asarray(graph.senders), jnp.asarray(graph.receivers)
    weights = jnp.asarray(rng.normal(size=(len(senders), HEADS)))

    def by_gathers(q, k):
        return jnp.einsum("ehm,ehm->eh", q[receivers], k[senders])

    for chunk in (None, 7):

        def in_chunks(q, k, chunk=chunk):
            return nodeformer._edge_scores(q, k, senders, receivers, chunk)

        (got, pull), (want, want_pull) = jax.vjp(in_chunks, q, k), jax.vjp(by_gathers, q, k)
        np.testing.assert_allclose(got, want, rtol=1e-14)
        for mine, theirs in zip(pull(weights), want_pull(weights)):
            np.testing.assert_allclose(mine, theirs, rtol=0, atol=1e-13)


def test_chunks_bound_the_memory_of_the_regulariser():
    nodes, edges, features = 64, 2**14, 64
    rng = np.random.default_rng(0)
    graph = random_graph(nodes, f=F)._replace(
        nodes=np.ones((nodes, F), np.float32),
        senders=rng.integers(0, nodes, edges, np.int32),
        receivers=np.sort(rng.integers(0, nodes, edges, np.int32)),
        n_edge=np.array([edges], np.int32),
    )
    model = NodeFormer(C, 8, 1, 1, num_features=features, relational_bias=False)
    params = jax.eval_shape(model.init, jax.random.key(0), graph)["params"]

    def temporary_bytes(chunk):
        def loss(params):
            new = model.clone(edge_chunk=chunk).apply({"params": params}, graph, mutable=["losses"])
            return sum(jax.tree.leaves(new[1]["losses"]))

        compiled = jax.jit(jax.grad(loss)).lower(params).compile()
        return compiled.memory_analysis().temp_size_in_bytes

    rows = 4 * edges * features
    assert temporary_bytes(None) >= rows
    assert temporary_bytes(2**8) < rows / 4
