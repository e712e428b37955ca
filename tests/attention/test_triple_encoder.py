"""The experiment's model: parameter counts, what its parts compute, dropout, training."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from neurips25.attention import (
    FieldEmbedding,
    ReLUFeedForward,
    TokenClassifier,
    TripleAttention,
    TripleClassifier,
    TripleEncoder,
)


def count(variables):
    return sum(p.size for p in jax.tree.leaves(variables["params"]))


@pytest.mark.parametrize("features", [5, 6, 7])
@pytest.mark.parametrize(
    ("attention", "layers", "own"),
    [("strassen", 1, 2385), ("third_order", 1, 2385), ("standard", 1, 1873), ("standard", 2, 3457)],
)
def test_parameter_counts_of_the_paper(attention, layers, own, features):
    # Table 1 of arXiv:2501.19215: 2.5k and 3.6k.
    model = TripleClassifier(16, TripleEncoder(attention, layers))
    variables = jax.eval_shape(model.init, jax.random.key(0), jnp.zeros((1, 4, features)))
    assert count(variables) == own + 16 * (features + 1)


def test_encoder_of_the_language_experiment():
    variables = jax.eval_shape(
        TripleEncoder("strassen", 3, 4).init, jax.random.key(0), jnp.zeros((1, 4, 64))
    )
    assert count(variables) == 98_880


def test_field_embedding_sums_its_tables():
    module = FieldEmbedding((3, 2), 4)
    tokens = jnp.array([[[2, 1], [0, 0]]])
    variables = module.init(jax.random.key(0), tokens)
    tables = [variables["params"][f"field_{i}"]["embedding"] for i in range(2)]
    want = jnp.stack([tables[0][2] + tables[1][1], tables[0][0] + tables[1][0]])
    np.testing.assert_allclose(module.apply(variables, tokens)[0], want)
    with pytest.raises(ValueError, match=r"needs integers \[..., 2\]"):
        module.apply(variables, tokens[..., :1])


def test_feed_forward_ends_rectified_and_classifier_does_not():
    x = jax.random.normal(jax.random.key(0), (64, 8))
    y = ReLUFeedForward().init_with_output(jax.random.key(1), x)[0]
    assert (y >= 0).all()
    assert (y > 0).any()
    logits = TokenClassifier().init_with_output(jax.random.key(1), x)[0]
    assert logits.shape == (64,)
    assert (logits < 0).any()
    assert (logits > 0).any()


@functools.cache
def model_and_inputs(attention):
    model = TripleClassifier(
        8, TripleEncoder(attention, 2, 2, dropout=0.3, use_norm=True), (5, 7), dropout=0.3
    )
    tokens = jax.random.randint(jax.random.key(0), (3, 9, 2), 0, 5)
    return model, tokens, jax.jit(model.init)(jax.random.key(1), tokens)


@pytest.mark.parametrize("attention", list(TripleAttention))
def test_padding_and_queries(attention):
    model, tokens, variables = model_and_inputs(attention)
    # The first four tokens of a 3 x 3 grid that form its 2 x 2 corner.
    mask = jnp.zeros((3, 3, 3), bool).at[:, :2, :2].set(True).reshape(3, 9)
    apply = jax.jit(functools.partial(model.apply, variables))
    logits = apply(tokens, mask)
    real = np.flatnonzero(mask[0])
    changed = jnp.where(mask[..., None], tokens, 4 - tokens)
    np.testing.assert_allclose(apply(changed, mask)[:, real], logits[:, real], atol=1e-5)
    some = model.apply(variables, tokens, mask, queries=(4, 0))
    np.testing.assert_allclose(some, logits[:, [4, 0]], atol=1e-5)


def test_dropout_is_drawn_from_its_key():
    model, tokens, variables = model_and_inputs("strassen")

    def logits(seed):
        return model.apply(
            variables, tokens, deterministic=False, rngs={"dropout": jax.random.key(seed)}
        )

    np.testing.assert_array_equal(logits(0), logits(0))
    assert np.abs(logits(0) - logits(1)).max() > 1e-3


def test_it_learns():
    # y_i = 1 where the first token's symbol is even: every query has to look at token 0.
    model = TripleClassifier(16, TripleEncoder("strassen"), (6, 6))
    symbols = jax.random.randint(jax.random.key(0), (64, 6), 0, 6)
    tokens = jnp.stack([jnp.broadcast_to(jnp.arange(6), (64, 6)), symbols], axis=-1)
    labels = jnp.broadcast_to(symbols[:, :1] % 2 == 0, (64, 6)).astype(jnp.float32)
    tx = optax.adam(1e-2)

    @jax.jit
    def train(params):
        def loss(params):
            logits = model.apply({"params": params}, tokens)
            return optax.sigmoid_binary_cross_entropy(logits, labels).mean()

        def step(carry, _):
            params, state = carry
            value, grads = jax.value_and_grad(loss)(params)
            updates, state = tx.update(grads, state)
            return (optax.apply_updates(params, updates), state), value

        return jax.lax.scan(step, (params, tx.init(params)), length=150)[1]

    losses = train(model.init(jax.random.key(1), tokens)["params"])
    assert losses[0] > 0.5
    assert losses[-1] < 0.05
