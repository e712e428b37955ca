"""The whole model: reference arrays, exact properties, parts of a graph, bad input."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from neurips25.graphs import (
    DualCrossAttention,
    UGCFormer,
    normalized_adjacency,
    sample_subgraph,
    sbm_dataset,
    spmm,
    subgraph_tuple,
    ugcformer_loss,
    weight_decay_mask,
)
from tests.graphs.reference import (
    graph_of,
    permuted,
    random_graph,
    random_params,
    reference_params,
)

VARIANTS = {
    "literal": {"norm": "none", "activation": "none"},
    "ln_relu": {"norm": "layer", "activation": "relu"},
}


def reference_run(arrays, variant, dtype):
    graph = graph_of(arrays["edges"], arrays["x"].astype(dtype))
    model = UGCFormer(
        4, 8, 3, float(arrays["alpha"]), dropout=0.0, dtype=dtype, **VARIANTS[variant]
    )
    variables = {"params": reference_params(arrays, dtype)}

    @jax.jit
    def run(variables):
        output, seen = model.apply(
            variables,
            graph,
            mutable=["intermediates"],
            capture_intermediates=lambda module, _: isinstance(module, DualCrossAttention),
        )
        mask, y = jnp.asarray(arrays["train_mask"]), jnp.asarray(arrays["y"])
        beta, tau = float(arrays["beta"]), float(arrays["tau"])
        mean, parts = ugcformer_loss(output, y, mask, beta=beta, tau=tau)
        _, of_sum = ugcformer_loss(output, y, mask, beta=beta, tau=tau, reduction="sum")
        first = seen["intermediates"]["layer_0"]["__call__"][0]
        return {
            "z_after_layer0": first[0],
            "b_after_layer0": first[1],
            "z": output.z,
            "b": output.b,
            "logits": output.logits,
            "p_topo": jax.nn.softmax(output.logits_topo),
            "p_attr": jax.nn.softmax(output.logits_attr),
            "consistency_mean": parts["loss_con"],
            "consistency_sum": of_sum["loss_con"],
            "ce_mean": parts["loss_ce"],
            "loss": mean,
        }

    return run(variables)


def compare(arrays, variant, dtype, atol):
    for name, value in reference_run(arrays, variant, dtype).items():
        want = arrays[f"{variant}_{name}"]
        np.testing.assert_allclose(value, want, rtol=0, atol=atol, err_msg=name)


@pytest.mark.parametrize("variant", VARIANTS)
def test_golden(x64, golden, variant):
    compare(golden("ugcformer/model_n40_f15_d8_l3_c4.npz"), variant, np.float64, 1e-9)


@pytest.mark.parametrize("variant", VARIANTS)
def test_golden_in_float32(golden, variant):
    compare(golden("ugcformer/model_n40_f15_d8_l3_c4.npz"), variant, np.float32, 2e-4)


def small(**options):
    sizes = {"hidden_dim": 8, "num_layers": 2, "dropout": 0.0, "dtype": jnp.float64}
    return UGCFormer(3, **sizes | options)


def run(model, params, graph):
    return jax.jit(model.apply)({"params": params}, graph)


def with_gates(params, lam, gamma):
    """The same parameters with other gates in every layer."""
    return {
        name: part | {"lambda": jnp.asarray(lam), "gamma": jnp.asarray(gamma)}
        if name.startswith("layer_")
        else part
        for name, part in params.items()
    }


def test_closed_gates_keep_the_channels_apart(x64):
    graph = random_graph()
    params = with_gates(random_params(small(), graph), 0.0, 0.0)
    other_edges = random_graph(seed=7)._replace(nodes=graph.nodes)
    other_features = graph._replace(nodes=graph.nodes + 1.0)

    attributes = small(alpha=1.0)
    logits = run(attributes, params, graph).logits
    np.testing.assert_array_equal(run(attributes, params, other_edges).logits, logits)
    assert np.abs(run(attributes, params, other_features).logits - logits).max() > 1e-3

    topology = small(alpha=0.0)
    logits = run(topology, params, graph).logits
    np.testing.assert_array_equal(run(topology, params, other_features).logits, logits)
    assert np.abs(run(topology, params, other_edges).logits - logits).max() > 1e-3


def dense_stack(params, x):
    for i in range(len(params)):
        x = np.maximum(x, 0) if i else x
        x = x @ params[f"dense_{i}"]["kernel"] + params[f"dense_{i}"]["bias"]
    return x


def test_closed_gates_leave_the_initial_attributes(x64):
    graph, model = random_graph(), small(alpha=1.0, **VARIANTS["literal"])
    params = with_gates(random_params(model, graph), 0.0, 0.0)
    output = run(model, params, graph)
    b0 = dense_stack(params["attr"], graph.nodes)
    np.testing.assert_allclose(output.b, b0, rtol=0, atol=1e-14)
    np.testing.assert_allclose(output.logits, dense_stack(params["head"], b0), rtol=0, atol=1e-13)
    # The topology channel is Ã v(Z), twice.
    op = normalized_adjacency(graph)
    table = params["topo"]["table"]
    rows = np.stack([table[graph.senders[graph.receivers == i]].sum(0) for i in range(12)])
    z = dense_stack(params["topo"]["mlp"], np.maximum(rows + params["topo"]["bias"], 0))
    for i in range(2):
        z = spmm(op, dense_stack({"dense_0": params[f"layer_{i}"]["v_topo"]}, z))
    np.testing.assert_allclose(output.z, z, rtol=0, atol=1e-13)


def test_closed_gates_with_norm_and_activation(x64):
    graph, model = random_graph(), small(alpha=1.0)
    params = with_gates(random_params(model, graph), 0.0, 0.0)
    b0 = dense_stack(params["attr"], graph.nodes)
    ln = params["layer_1"]["ln_attr"]
    centred = b0 - b0.mean(-1, keepdims=True)
    normed = centred / np.sqrt(b0.var(-1, keepdims=True) + 1e-5) * ln["scale"] + ln["bias"]
    want = dense_stack(params["head"], np.maximum(normed, 0))
    np.testing.assert_allclose(run(model, params, graph).logits, want, rtol=0, atol=1e-12)


def test_saturated_gate_leaves_the_attention_alone(x64):
    graph, model = random_graph(), small(num_layers=1, **VARIANTS["literal"])
    params = random_params(model, graph)
    opened = run(model, with_gates(params, 20.0, 0.3), graph)
    # With λ̃ = 1 nothing is propagated: another Ã gives the same.
    weighted = graph._replace(
        nodes={"features": graph.nodes, "degrees": np.arange(12)}  # of a larger graph
    )
    np.testing.assert_allclose(
        run(model, with_gates(params, 20.0, 0.3), weighted).z, opened.z, rtol=0, atol=1e-12
    )
    np.testing.assert_allclose(opened.gates, [[1.0, np.tanh(0.3)]], rtol=0, atol=1e-15)
    assert np.abs(run(model, params, weighted).z - run(model, params, graph).z).max() > 1e-3


def test_permuting_the_nodes_needs_their_weights_permuted(x64):
    graph, model = random_graph(), small()
    params = random_params(model, graph)
    order = np.random.default_rng(0).permutation(12)
    moved = permuted(graph, order)
    want = run(model, params, graph).logits[order]
    own_rows = params | {"topo": params["topo"] | {"table": params["topo"]["table"][order]}}
    np.testing.assert_allclose(run(model, own_rows, moved).logits, want, rtol=0, atol=1e-10)
    # The rows of the table belong to nodes: left in place, they are those of others.
    assert np.abs(run(model, params, moved).logits - want).max() > 1e-2


def test_a_graph_without_edges_is_finite():
    x = np.random.default_rng(0).normal(size=(6, 5)).astype(np.float32)
    graph = graph_of(np.zeros((0, 2), int), x)
    model = UGCFormer(3, 4, 2)
    params = jax.jit(model.init)(jax.random.key(0), graph)["params"]

    def loss(params):
        output = model.apply({"params": params}, graph)
        labels = jnp.array([0, 1, 2, 0, 1, 2])
        return ugcformer_loss(output, labels, jnp.ones(6, bool), beta=1.0)[0]

    value, grads = jax.jit(jax.value_and_grad(loss))(params)
    assert jnp.isfinite(value)
    assert all(jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(grads))


def test_defaults_and_start():
    graph = random_graph(n=40, m=80, f=400)
    model = UGCFormer(3, hidden_dim=30)
    params = jax.jit(model.init)(jax.random.key(0), graph)["params"]
    assert params["topo"]["table"].shape == (40, 30)
    for name, kernel in (("topo", params["topo"]["table"]),
                         ("attr", params["attr"]["dense_0"]["kernel"])):  # fmt: skip
        bound = kernel.shape[0] ** -0.5
        assert 0.95 * bound < jnp.abs(kernel).max() <= bound, name
    assert set(params["layer_0"]) == {
        "q_topo", "v_topo", "q_attr", "v_attr", "ln_topo", "ln_attr", "lambda", "gamma",
    }  # fmt: skip
    output = run(model, params, graph)
    np.testing.assert_allclose(output.gates, np.full((2, 2), np.tanh(0.5)), rtol=1e-6)
    assert output.logits.shape == output.logits_topo.shape == output.logits_attr.shape == (40, 3)
    assert output.z.shape == output.b.shape == (40, 30)
    assert all((leaf == 0).all() for path, leaf in jax.tree_util.tree_leaves_with_path(params)
               if path[-1].key == "bias")  # fmt: skip


def test_one_layer_mlps_and_several_heads():
    graph = random_graph()
    model = UGCFormer(3, 4, 1, mlp_layers=1, head_layers=1, num_heads=2)
    params = jax.jit(model.init)(jax.random.key(0), graph)["params"]
    assert set(params["topo"]) == {"table", "bias"}
    assert set(params["attr"]) == set(params["head"]) == {"dense_0"}
    assert params["layer_0"]["q_topo"]["kernel"].shape == (4, 8)
    assert run(model, params, graph).logits.shape == (12, 3)


def test_dropout_needs_its_rng_and_changes_the_result():
    graph, model = random_graph(), UGCFormer(3, 4, 2, input_dropout=0.2, head_dropout=0.2)
    params = model.init(jax.random.key(0), graph)["params"]

    @jax.jit
    def logits(key):
        return model.apply(
            {"params": params}, graph, deterministic=False, rngs={"dropout": key}
        ).logits

    first, again, other = (logits(jax.random.key(i)) for i in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert np.abs(first - other).max() > 1e-3


def test_features_can_be_given_apart_from_the_graph():
    graph, model = random_graph(), UGCFormer(3, 4, 1)
    params = model.init(jax.random.key(0), graph)["params"]
    x = jnp.asarray(graph.nodes) * 2
    given = model.apply({"params": params}, graph, x)
    inside = model.apply({"params": params}, graph._replace(nodes=x))
    np.testing.assert_array_equal(given.logits, inside.logits)


def test_chunks_and_recomputation_give_the_same_training_step(x64):
    graph = random_graph()
    params = random_params(small(), graph)
    labels, mask = jnp.arange(12) % 3, jnp.arange(12) < 9

    def loss(params, key, options):
        output = small(**options).apply(
            {"params": params}, graph, deterministic=False, rngs={"dropout": key}
        )
        return ugcformer_loss(output, labels, mask, beta=0.5)[0], output.gates

    key = jax.random.key(0)
    want, got = (
        jax.jit(jax.value_and_grad(functools.partial(loss, options=options), has_aux=True))(
            params, key
        )
        for options in ({}, {"edge_chunk": 7, "remat": True})
    )
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=0, atol=1e-13), got, want)
    noisy = jax.jit(functools.partial(loss, options={"remat": True, "dropout": 0.5}))
    losses = [float(noisy(params, jax.random.key(k))[0]) for k in (0, 0, 1)]
    assert losses[0] == losses[1] != losses[2]


def test_recomputation_bounds_the_memory_of_deep_models():
    graph = random_graph(n=400, m=400)
    graph = graph._replace(nodes=graph.nodes.astype(np.float32))

    def temporary_bytes(num_layers, remat):
        model = UGCFormer(3, 64, num_layers, remat=remat)
        params = jax.eval_shape(model.init, jax.random.key(0), graph)["params"]

        def loss(params):
            return jnp.sum(jnp.square(model.apply({"params": params}, graph).logits))

        compiled = jax.jit(jax.grad(loss)).lower(params).compile()
        return compiled.memory_analysis().temp_size_in_bytes

    channel = 4 * 400 * 64
    growth = [(temporary_bytes(5, r) - temporary_bytes(2, r)) / 3 / channel for r in (False, True)]
    assert growth[0] > 10
    assert growth[1] < 5


@pytest.mark.parametrize("options", [{}, {"attention": "softmax"}, {"attention": "none"},
                                     {"qk_norm": "row_l2", "num_heads": 2}])  # fmt: skip
def test_gradient_reaches_every_parameter(x64, options):
    graph, model = random_graph(), small(**options)
    params = random_params(model, graph)

    def loss(params):
        output = model.apply({"params": params}, graph)
        return ugcformer_loss(output, jnp.arange(12) % 3, jnp.arange(12) < 9, beta=1.0)[0]

    grads = jax.jit(jax.grad(loss))(params)
    for path, leaf in jax.tree_util.tree_leaves_with_path(grads):
        assert jnp.isfinite(leaf).all(), path
        assert jnp.abs(leaf).max() > 1e-12, path


def test_low_precision_is_finite_and_near():
    graph = random_graph()
    graph = graph._replace(nodes=graph.nodes.astype(np.float32))
    params = jax.jit(UGCFormer(3, 16).init)(jax.random.key(0), graph)["params"]
    exact = run(UGCFormer(3, 16), params, graph).logits
    for dtype in (jnp.bfloat16, jnp.float16):
        low = run(UGCFormer(3, 16, dtype=dtype), params, graph).logits
        assert low.dtype == jnp.float32
        np.testing.assert_allclose(low, exact, rtol=0, atol=0.05 * np.abs(exact).max())


def test_weight_decay_spares_the_gates():
    graph = random_graph()
    params = UGCFormer(3, 4, 2).init(jax.random.key(0), graph)["params"]
    mask = weight_decay_mask(params)
    spared = [
        jax.tree_util.keystr(path, simple=True, separator="/")
        for path, decays in jax.tree_util.tree_leaves_with_path(mask)
        if not decays
    ]
    assert spared == [f"layer_{i}/{gate}" for i in (0, 1) for gate in ("gamma", "lambda")]
    tx = optax.add_decayed_weights(0.1, mask)
    updates, _ = tx.update(jax.tree.map(jnp.zeros_like, params), tx.init(params), params)
    assert updates["layer_0"]["lambda"] == 0
    assert jnp.abs(updates["topo"]["table"]).max() > 0


def test_another_graph_is_refused():
    graph, model = random_graph(), UGCFormer(3, 4, 1)
    params = model.init(jax.random.key(0), graph)["params"]
    with pytest.raises(ValueError, match="tied to 12 nodes, the graph has 13"):
        model.apply({"params": params}, random_graph(13))
    with pytest.raises(ValueError, match="graph has 12 nodes, num_nodes=20: a part of a graph"):
        UGCFormer(3, 4, 1, num_nodes=20).init(jax.random.key(0), graph)
    part = graph._replace(nodes={"features": graph.nodes, "ids": np.arange(12)})
    with pytest.raises(ValueError, match="num_nodes=None"):
        model.init(jax.random.key(0), part)


def test_a_part_of_a_graph_uses_the_rows_of_its_nodes(x64):
    graph = random_graph()
    whole = small()
    params = random_params(whole, graph)
    order = np.random.default_rng(0).permutation(12)
    moved = permuted(graph, order)
    # All nodes in another order, with their ids: the whole graph, as far as the model can tell.
    part = moved._replace(nodes={"features": moved.nodes, "ids": order})
    got = run(small(num_nodes=12), params, part).logits
    want = run(whole, params, graph).logits[order]
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-12)


def test_a_sampled_part_trains_the_rows_it_reads():
    graph = sbm_dataset(0, n=60, c=3, f=6, average_degree=4, num_splits=1)
    batch = sample_subgraph(graph, np.array([5, 17, 40]), (2, 2), np.random.default_rng(0))
    model, part = UGCFormer(3, 8, 1, num_nodes=60), subgraph_tuple(batch)
    params = jax.jit(model.init)(jax.random.key(0), part)["params"]
    assert params["topo"]["table"].shape == (60, 8)

    def loss(params):
        output = model.apply({"params": params}, part)
        real = jnp.asarray(batch.real_nodes)
        return ugcformer_loss(output, batch.labels, batch.roots, beta=1.0, mask=real)[0]

    grads = jax.jit(jax.grad(loss))(params)
    assert all(jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(grads))
    touched = np.flatnonzero(np.abs(grads["topo"]["table"]).max(axis=1))
    senders = batch.nodes[batch.senders[batch.edge_weight > 0]]
    np.testing.assert_array_equal(touched, np.unique(senders))


def test_bad_arguments():
    graph = random_graph()
    with pytest.raises(ValueError, match=r"alpha=1.5 must be in \[0, 1\]"):
        UGCFormer(3, alpha=1.5).init(jax.random.key(0), graph)
    for name in ("num_classes", "hidden_dim", "num_layers", "num_heads", "mlp_layers"):
        with pytest.raises(ValueError, match=f"{name}=0 must be at least 1"):
            UGCFormer(**{"num_classes": 3, name: 0}).init(jax.random.key(0), graph)
    with pytest.raises(ValueError, match=r"x has shape \(11, 5\), needs \[12, f\]"):
        UGCFormer(3).init(jax.random.key(0), graph, jnp.zeros((11, 5)))
