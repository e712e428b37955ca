import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from neurips25 import training
from tests.training import toy


@pytest.fixture(scope="module")
def mesh():
    return training.make_mesh({"data": 1}, jax.devices()[:1])


def put(batch, mesh):
    return training.global_batch(batch, mesh)


def test_step_is_plain_optax_on_the_gradient(mesh):
    state, step = toy.make(mesh)
    batch = put(toy.batch_at(0), mesh)
    tx = toy.transform()
    key = jax.random.fold_in(state.key, 0)
    (loss, (_, extra)), grads = jax.value_and_grad(toy.loss_fn, has_aux=True)(
        state.params, state.extra, batch, key
    )
    updates, _ = tx.update(grads, state.opt_state, state.params)
    expected = optax.apply_updates(state.params, updates)
    ema = jax.tree.map(lambda old, new: 0.9 * old + 0.1 * new, state.params, expected)
    norm = optax.tree.norm(grads)
    new, metrics = step(state, batch)
    for got, want in ((new.params, expected), (new.ema_params, ema), (new.extra, extra)):
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7), got, want)
    np.testing.assert_allclose(metrics["loss"], loss, rtol=1e-6)
    np.testing.assert_allclose(metrics["grad_norm"], norm, rtol=1e-5)
    assert int(new.step) == 1


def test_accumulation_gives_the_gradient_of_the_whole_batch(mesh):
    # Rows carry unequal weights, so averaging micro-batches equally would be wrong.
    def no_noise(params, extra, batch, key):
        del key
        h = jnp.tanh(batch["x"] @ params["dense"]["w"] + params["dense"]["b"])
        error = ((h @ params["out"]["w"] - batch["y"]) ** 2).sum(-1)
        weight = batch["weight"].sum()
        return (error * batch["weight"]).sum() / weight, ({"weight": weight}, extra)

    batch = put(toy.batch_at(1), mesh)
    results = []
    for accumulate in (1, 4):
        state, _ = toy.make(mesh, ema=False)
        step = training.make_train_step(
            no_noise, toy.transform(), mesh, accumulate=accumulate, clip_norm=0.5
        )
        results.append(step(state, batch))
    (one, m1), (four, m4) = results
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7), one.params, four.params
    )
    for name in ("loss", "grad_norm", "weight"):
        np.testing.assert_allclose(m1[name], m4[name], rtol=1e-5)
    assert float(m1["weight"]) == toy.batch_at(1)["weight"].sum()


def test_clipping_bounds_the_update(mesh):
    state, _ = toy.make(mesh, ema=False)
    before = jax.tree.map(np.asarray, state.params)
    step = training.make_train_step(toy.loss_fn, optax.sgd(1.0), mesh, clip_norm=1e-3)
    state = state.replace(opt_state=optax.sgd(1.0).init(state.params))
    new, metrics = step(state, put(toy.batch_at(0), mesh))
    moved = optax.tree.norm(jax.tree.map(lambda a, b: a - b, new.params, before))
    assert float(metrics["grad_norm"]) > 1e-2
    np.testing.assert_allclose(moved, 1e-3, rtol=1e-4)


def test_non_finite_step_changes_nothing_and_is_counted(mesh):
    state, step = toy.make(mesh)
    good, bad = toy.batch_at(0), toy.batch_at(1)
    bad["x"][0, 0] = np.nan
    state, _ = step(state, put(good, mesh))
    kept = jax.tree.map(np.asarray, (state.params, state.opt_state, state.ema_params, state.extra))
    for expected in (1, 2):
        state, metrics = step(state, put(bad, mesh))
        assert int(metrics["skipped_in_row"]) == expected
    after = (state.params, state.opt_state, state.ema_params, state.extra)
    jax.tree.map(np.testing.assert_array_equal, kept, after)
    state, metrics = step(state, put(good, mesh))
    assert (int(state.step), int(state.skipped), int(state.skipped_in_row)) == (4, 2, 0)


def test_a_step_of_ones_own_of_two_guarded_updates(mesh):
    tx = optax.sgd(0.5)

    @jax.jit
    def step(state, gradients):
        first = state.step
        for gradient in gradients:
            state, metrics = training.guarded_update(
                state, gradient.sum(), {"w": gradient}, state.extra, tx, mesh=mesh, clip_norm=1.0
            )
        return state.replace(step=first + 1), metrics

    state = training.create_state(
        lambda key: {"params": {"w": jnp.zeros(2)}}, tx, jax.random.key(0), mesh=mesh
    )
    state, metrics = step(state, jnp.array([[0.0, 0.5], [3.0, 4.0]]))  # the second is clipped
    np.testing.assert_allclose(state.params["w"], [-0.3, -0.65], rtol=1e-6)
    assert metrics.keys() == {"loss", "grad_norm", "skipped", "skipped_in_row"}
    assert (float(metrics["loss"]), float(metrics["grad_norm"])) == (7, 5)
    state, metrics = step(state, jnp.array([[0.2, 0.0], [jnp.nan, 0.0]]))
    np.testing.assert_allclose(state.params["w"], [-0.4, -0.65], rtol=1e-6)
    assert (int(state.step), int(metrics["skipped"]), int(metrics["skipped_in_row"])) == (2, 1, 1)


def test_wrong_uses_are_named(mesh):
    with pytest.raises(ValueError, match="accumulate: needs at least 1, has 0"):
        training.make_train_step(toy.loss_fn, toy.transform(), mesh, accumulate=0)
    state, step = toy.make(mesh, ema=False, accumulate=3)
    with pytest.raises(ValueError, match="16 rows does not divide into 3"):
        step(state, put(toy.batch_at(0), mesh))
    step = training.make_train_step(toy.loss_fn, toy.transform(), mesh, ema_decay=0.9)
    with pytest.raises(ValueError, match=r"no ema_params: create_state\(ema="):
        step(state, put(toy.batch_at(0), mesh))
    with pytest.raises(TypeError, match="typed key"):
        training.create_state(toy.init, toy.transform(), jax.random.PRNGKey(0), mesh=mesh)


def test_state_is_donated(mesh):
    state, step = toy.make(mesh)
    old = state.params["dense"]["w"]
    step(state, put(toy.batch_at(0), mesh))
    assert old.is_deleted()


def test_a_state_maker_compiles_once_and_makes_the_same_states(mesh):
    traced = []

    def init(key):
        traced.append(key)
        return toy.init(key)

    make = training.state_maker(init, toy.transform(), mesh=mesh)
    before = len(traced)
    states = [make(jax.random.key(seed)) for seed in (0, 1)]
    assert len(traced) == before + 1
    for seed, state in enumerate(states):
        expected = training.create_state(toy.init, toy.transform(), jax.random.key(seed), mesh=mesh)
        jax.tree.map(np.testing.assert_array_equal, state.params, expected.params)
    assert (jax.random.key_data(states[0].key) != jax.random.key_data(states[1].key)).any()
