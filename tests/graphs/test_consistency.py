"""The consistency loss: values, gradients, and why it needs a warm-up."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from neurips25.graphs import (
    UGCFormer,
    consistency_loss,
    consistency_weight,
    load_planetoid,
    masked_accuracy,
    pseudo_labels,
    sbm_dataset,
    sharpen,
    to_graphs_tuple,
    ugcformer_loss,
)


def predictions(n=6, c=4, seed=0):
    rng = np.random.default_rng(seed)
    return tuple(jnp.asarray(rng.dirichlet(np.ones(c), n)) for _ in range(2))


@pytest.mark.parametrize("variant", ["literal", "ln_relu"])
def test_golden(x64, golden, variant):
    a = golden("ugcformer/model_n40_f15_d8_l3_c4.npz")
    p, q = (jnp.asarray(a[f"{variant}_p_{side}"]) for side in ("topo", "attr"))
    tau = float(a["tau"])
    labels = pseudo_labels(p, q, tau)
    np.testing.assert_allclose(labels, a[f"{variant}_pseudo"], rtol=0, atol=1e-12)
    for how in ("mean", "sum"):
        want = a[f"{variant}_consistency_{how}"]
        np.testing.assert_allclose(consistency_loss(p, q, tau, how), want, rtol=1e-12)


def test_worked_value(x64):
    p, q = jnp.array([[0.8, 0.2]]), jnp.array([[0.6, 0.4]])
    labels = pseudo_labels(p, q, 0.5)
    np.testing.assert_allclose(labels, [[0.844828, 0.155172]], atol=1e-6)
    np.testing.assert_allclose(consistency_loss(p, q, 0.5), 0.0619501, atol=1e-6)


def test_signs_zeros_and_symmetry(x64):
    p, q = predictions()
    assert consistency_loss(p, q) > 0
    np.testing.assert_allclose(consistency_loss(p, q), consistency_loss(q, p), rtol=1e-14)
    for same in (jnp.eye(4), jnp.full((5, 4), 0.25)):
        assert consistency_loss(same, same) == 0
    total = consistency_loss(p, q, reduction="sum")
    np.testing.assert_allclose(total, 6 * consistency_loss(p, q), rtol=1e-14)


def test_no_gradient_through_the_pseudo_labels(x64):
    p, q = predictions()
    labels = np.asarray(pseudo_labels(p, q))
    by_hand = tuple((a - labels) / 6 for a in (np.asarray(p), np.asarray(q)))
    grads = jax.grad(consistency_loss, argnums=(0, 1))(p, q)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=0, atol=1e-14), grads, by_hand)
    through = jax.grad(functools.partial(consistency_loss, stop_gradient_pseudo=False))(p, q)
    assert np.abs(through - by_hand[0]).max() > 1e-3
    step = 1e-6 * jnp.zeros_like(p).at[0, 0].set(1)
    numeric = (consistency_loss(p + step, q) - consistency_loss(p - step, q)) / 2e-6
    np.testing.assert_allclose(through[0, 0], numeric, rtol=1e-6)


def test_sharpening(x64):
    p, _ = predictions()
    np.testing.assert_allclose(sharpen(p, 1.0), p, rtol=1e-14)
    np.testing.assert_allclose(sharpen(p, 0.5), p**2 / (p**2).sum(-1, keepdims=True), rtol=1e-13)
    # All powers of a small temperature underflow before they are divided.
    hard = sharpen(jnp.array([[0.3, 0.4, 0.3]], jnp.float32), 1e-3)
    np.testing.assert_array_equal(hard, [[0, 1, 0]])
    grad = jax.grad(lambda p: sharpen(p, 0.5)[0])(jnp.array([1.0, 0.0]))
    assert jnp.isfinite(grad).all()


def test_padding_counts_for_nothing(x64):
    p, q = predictions()
    mask = jnp.arange(6) < 4
    for how in ("mean", "sum"):
        masked = consistency_loss(p, q, reduction=how, mask=mask)
        np.testing.assert_allclose(masked, consistency_loss(p[:4], q[:4], reduction=how))


def test_weight_is_zero_in_the_warm_up():
    weights = [float(consistency_weight(epoch, 2.0, 3)) for epoch in range(5)]
    assert weights == [0, 0, 0, 2, 2]
    assert float(consistency_weight(0, 2.0)) == 2
    assert float(jax.jit(lambda e: consistency_weight(e, 2.0, 3))(3)) == 2


def trained_accuracy(graph, beta, warmup, epochs, hidden_dim):
    """Test accuracy of the mixed, topology and attribute predictions."""
    inputs, split = to_graphs_tuple(graph), graph.split(0)
    labels, train = jnp.asarray(graph.labels), jnp.asarray(split.train)
    model = UGCFormer(graph.num_classes, hidden_dim, dropout=0.5)
    tx = optax.chain(optax.add_decayed_weights(5e-4), optax.adam(5e-3))

    def step(carry, epoch):
        params, opt_state = carry

        def loss(params):
            key = jax.random.fold_in(jax.random.key(1), epoch)
            output = model.apply(
                {"params": params}, inputs, deterministic=False, rngs={"dropout": key}
            )
            weight = consistency_weight(epoch, beta, warmup)
            return ugcformer_loss(output, labels, train, beta=weight)[0]

        updates, opt_state = tx.update(jax.grad(loss)(params), opt_state, params)
        return (optax.apply_updates(params, updates), opt_state), None

    @jax.jit
    def train_all(params):
        (params, _), _ = jax.lax.scan(step, (params, tx.init(params)), jnp.arange(epochs))
        output = model.apply({"params": params}, inputs)
        return [masked_accuracy(logits, labels, jnp.asarray(split.test)) for logits in output[:3]]

    params = jax.jit(model.init)(jax.random.key(0), inputs)["params"]
    return np.array(train_all(params))


def test_large_weight_from_the_start_collapses_and_warm_up_prevents_it():
    graph = sbm_dataset(0, n=300, c=3, f=30, homophily=0.8, average_degree=6, num_splits=1)
    collapsed = trained_accuracy(graph, beta=50.0, warmup=0, epochs=100, hidden_dim=16)
    warmed = trained_accuracy(graph, beta=50.0, warmup=50, epochs=100, hidden_dim=16)
    # Without warm-up all nodes get one prediction: the share of one of three classes.
    assert (collapsed < 0.4).all()
    assert (warmed > 0.7).all()


def test_warm_up_on_cora(data_file):
    graph = load_planetoid(data_file("ugcformer/planetoid"), "cora")
    collapsed = trained_accuracy(graph, beta=5.0, warmup=0, epochs=60, hidden_dim=64)
    warmed = trained_accuracy(graph, beta=3.0, warmup=60, epochs=90, hidden_dim=64)
    assert (collapsed[1:] < 0.25).all()
    assert (warmed > 0.7).all()


def test_bad_arguments():
    p, q = predictions()
    with pytest.raises(ValueError, match=r"p_attr has shape \(5, 4\), needs \(6, 4\)"):
        consistency_loss(p, q[1:])
    with pytest.raises(ValueError, match="tau=0 must be positive"):
        sharpen(p, 0)
    with pytest.raises(ValueError, match="reduction='max' is not one of mean, sum"):
        consistency_loss(p, q, reduction="max")
    with pytest.raises(ValueError, match="must not be negative"):
        consistency_weight(0, -1.0)
    with pytest.raises(ValueError, match="needs bool"):
        consistency_loss(p, q, mask=jnp.ones(6))
