import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from neurips25 import graphs, training


@pytest.fixture(scope="module")
def mesh():
    return training.make_mesh({"data": 1}, jax.devices()[:1])


@pytest.fixture(scope="module")
def graph():
    return graphs.sbm_dataset(0, 60, 3, 12, 0.9, average_degree=6.0, num_splits=2)


@pytest.fixture(scope="module")
def task(graph):
    return graphs.node_task(graph)


def state_of(model, task, tx, mesh, seed=0):
    init = graphs.init_node_variables(model, task)
    return training.create_state(init, tx, jax.random.key(seed), mesh=mesh)


def test_coupled_adam_adds_the_decay_to_the_gradient():
    params = {"w": jnp.array([2.0, -1.0]), "gate": jnp.array(0.5)}
    grads = {"w": jnp.array([0.1, 0.3]), "gate": jnp.array(0.2)}
    tx = graphs.coupled_adam(0.1, 0.5, lambda p: {"w": True, "gate": False})
    updates, _ = tx.update(grads, tx.init(params), params)
    # Adam's first step is lr · g / (|g| + eps), g being gradient and decay together.
    g = np.array([0.1 + 0.5 * 2.0, 0.3 - 0.5])
    np.testing.assert_allclose(updates["w"], -0.1 * np.sign(g), rtol=1e-5)
    decoupled = optax.adamw(0.1, weight_decay=0.5)
    other, _ = decoupled.update(grads, decoupled.init(params), params)
    assert np.abs(np.asarray(updates["w"] - other["w"])).max() > 0.01


def test_a_step_is_the_gradient_step_and_keeps_the_best(mesh, task):
    model = graphs.GCN(3, hidden_dim=8)
    loss, predict = graphs.node_loss_fn(model), graphs.node_predict_fn(model)
    tx = graphs.coupled_adam(0.02, 1e-3)
    step = graphs.make_node_step(loss, predict, tx, mesh)
    plain = training.make_train_step(loss, tx, mesh)
    state = state_of(model, task, tx, mesh)
    same = training.create_state(
        lambda key: {"params": graphs.init_node_variables(model, task)(key)["params"]},
        tx, jax.random.key(0), mesh=mesh,
    )  # fmt: skip
    seen = []
    for _ in range(12):
        state, metrics = step(state, task)
        same, expected = plain(same, task)
        seen.append((float(metrics["val_score"]), jax.tree.map(np.asarray, state.params)))
        assert metrics["loss"] == expected["loss"]
    jax.tree.map(np.testing.assert_array_equal, state.params, same.params)
    scores = [score for score, _ in seen]
    first_best = int(np.argmax(scores))
    best = state.extra["best"]
    assert best["step"] == first_best + 1
    assert best["scores"]["val_score"] == max(scores) == metrics["best_val_score"]
    jax.tree.map(np.testing.assert_array_equal, best["variables"]["params"], seen[first_best][1])
    logits = predict(best["variables"], task)
    again = graphs.node_scores(logits, task, "accuracy")
    assert again["test_score"] == metrics["best_test_score"]
    assert len(set(scores)) > 2


def test_scores_come_every_so_many_steps(mesh, task):
    model = graphs.GCN(3, hidden_dim=8)
    tx = graphs.coupled_adam(0.05)
    step = graphs.make_node_step(
        graphs.node_loss_fn(model), graphs.node_predict_fn(model), tx, mesh, eval_every=3
    )
    state = state_of(model, task, tx, mesh)
    scores = []
    for _ in range(6):
        state, metrics = step(state, task)
        scores.append(float(metrics["train_score"]))
    assert scores[:2] == [-np.inf] * 2
    assert np.isfinite(scores[2])
    assert scores[2:5] == [scores[2]] * 3
    with pytest.raises(ValueError, match="eval_every=0"):
        graphs.make_node_step(None, None, tx, mesh, eval_every=0)
    with pytest.raises(ValueError, match="'f1'"):
        graphs.make_node_step(None, None, tx, mesh, metric="f1")


def test_ugcformer_has_a_warm_up_and_scores_of_its_channels(mesh, task):
    model = graphs.UGCFormer(3, 8, 1, dropout=0.0)
    loss = graphs.ugcformer_loss_fn(model, beta=2.0, warmup=1)
    tx = graphs.coupled_adam(0.02, 1e-3, graphs.weight_decay_mask)
    step = graphs.make_node_step(loss, graphs.node_predict_fn(model), tx, mesh)
    state = state_of(model, task, tx, mesh)
    for beta in (0.0, 2.0):
        state, m = step(state, task)
        assert float(m["loss"]) == pytest.approx(float(m["loss_ce"] + beta * m["loss_con"]))
    assert {"test_score", "test_score_topo", "test_score_attr"} <= set(m)


def test_losses_that_a_model_sows_and_its_statistics(mesh, task):
    model = graphs.NodeFormer(3, 8, 1, 1, num_samples=1)
    loss = graphs.node_loss_fn(model)
    variables = model.init(jax.random.key(0), task.graph)
    value, (metrics, extra) = loss(variables["params"], {}, task, jax.random.key(1))
    assert extra == {}
    assert float(value) != float(metrics["loss_ce"])
    model = graphs.LINKX(3, 8)
    variables = dict(model.init(jax.random.key(0), task.graph))
    params = variables.pop("params")
    _, (_, extra) = graphs.node_loss_fn(model)(params, variables, task, jax.random.key(1))
    changed = jax.tree.map(lambda a, b: bool((a != b).any()), variables, extra)
    assert any(jax.tree.leaves(changed))


def test_phases(task):
    either = graphs.in_phases(lambda t: t.step * 0 + 1, lambda t: t.step * 0 + 2, 3)
    assert [int(either(task._replace(step=jnp.int32(s)))) for s in (2, 3)] == [1, 2]


def test_training_on_samples_scores_the_whole_graph(mesh, graph, task):
    model = graphs.GCN(3, hidden_dim=8)
    tx = graphs.coupled_adam(0.05)
    step = graphs.make_node_step(
        graphs.node_loss_fn(model), graphs.node_predict_fn(model), tx, mesh
    )
    batches = graphs.NeighborBatches(graph, np.flatnonzero(graph.train_mask[0]), 8, (4, 4))
    state = state_of(model, task, tx, mesh)
    for k in range(30):
        sample = graphs.sampled_task(batches.batch_at(k))
        state, metrics = step(state, graphs.SampledTask(sample, task))
    expected = graphs.node_scores(
        graphs.node_predict_fn(model)(graphs.model_variables(state), task), task, "accuracy"
    )
    assert metrics["test_score"] == expected["test_score"] > 0.6


@pytest.mark.parametrize(("on", "sparse"), [(0.1, True), (0.9, False)])
def test_features_that_are_mostly_zero_are_kept_sparse(on, sparse):
    graph = graphs.sbm_dataset(0, 60, 3, 12, 0.9, average_degree=6.0, on=on)
    nodes = graphs.node_task(graph).graph.nodes
    assert isinstance(nodes, graphs.SparseFeatures) == sparse
    assert nodes.shape == (60, 12)


@pytest.mark.parametrize("ties", [False, True])
def test_roc_auc_is_that_of_all_pairs(ties):
    rng = np.random.default_rng(0)
    s = rng.integers(0, 4, 30) if ties else rng.standard_normal(30)
    y, mask = rng.integers(0, 2, 30), rng.random(30) < 0.8
    up, down = (s[mask & (y == c)] for c in (1, 0))
    wins = (up[:, None] > down).sum() + 0.5 * (up[:, None] == down).sum()
    logits = jnp.stack([jnp.zeros(30), jnp.asarray(s, jnp.float32)], axis=1)
    value = graphs.masked_roc_auc(logits, jnp.asarray(y), jnp.asarray(mask))
    assert float(value) == pytest.approx(wins / (len(up) * len(down)), rel=1e-6)


def test_roc_auc_of_one_class_or_three():
    ones = jnp.ones(3, int)
    value = graphs.masked_roc_auc(jnp.zeros((3, 2)), ones, jnp.ones(3, bool))
    assert np.isnan(value)
    with pytest.raises(ValueError, match=r"\[n, 2\]"):
        graphs.masked_roc_auc(jnp.zeros((3, 3)), ones, jnp.ones(3, bool))


def _two_classes(**masks):
    ids = np.arange(6)
    fields = {"train": ids < 2, "val": (ids > 1) & (ids < 4), "test": ids > 3} | masks
    graph = graphs.NodeGraph.from_edges("six", np.eye(6), [(0, 1)], ids % 2)
    return graph.with_split(graphs.Split(**fields))


@pytest.mark.parametrize("part", ["train", "val", "test"])
@pytest.mark.parametrize("metric", ["accuracy", "roc_auc"])
def test_splits_that_cannot_be_scored_are_refused(part, metric):
    none, one_class = np.zeros(6, bool), np.arange(6) % 2 == 1
    graphs.node_task(_two_classes(), metric=metric)
    empty = _two_classes(**{part: none})
    with pytest.raises(ValueError, match=f"'six', split 0: the {part} mask has no nodes, needs"):
        graphs.node_task(empty, metric=metric)
    with pytest.raises(ValueError, match=f"the given split: the {part} mask has no nodes"):
        graphs.node_task(empty, empty.split(0), metric=metric)
    if metric == "accuracy":
        graphs.node_task(_two_classes(**{part: one_class}))
        return
    named = (
        f"'six', split 0: the {part} mask has 0 nodes of class 0 and 3 of class 1, roc_auc needs"
    )
    with pytest.raises(ValueError, match=named):
        graphs.node_task(_two_classes(**{part: one_class}), metric=metric)


def test_roc_auc_is_refused_for_three_classes(graph):
    with pytest.raises(ValueError, match="has 3 classes, roc_auc needs 2"):
        graphs.node_task(graph, metric="roc_auc")
    with pytest.raises(ValueError, match="'f1'"):
        graphs.node_task(graph, metric="f1")
