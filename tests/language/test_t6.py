import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments import t6_tables
from neurips25.language import T6LM, cross_entropy, init_lm_cache
from neurips25.nn import rms_norm
from tests.language import models
from tests.nn.uniform import assert_fills


def logits_of(name, tokens, **changes):
    cfg = models.config(name, **changes)
    return jax.jit(T6LM(cfg).apply)({"params": models.params(name)}, tokens)


def cached_and_full(name, prefix, length, dtype, **changes):
    """Logits [2, T, V] of one full pass, and of a prefill followed by single steps."""
    cfg = models.config(name, dtype=dtype, **changes)
    tokens = jnp.asarray(models.tokens(2, length))
    model = T6LM(cfg)

    @jax.jit
    def both(params):
        variables = {"params": params}
        cache = init_lm_cache(cfg, 2, length, dtype)
        start, cache = model.apply(variables, tokens[:, :prefix], cache)

        def step(cache, t):
            token = jax.lax.dynamic_slice_in_dim(tokens, t, 1, 1)
            positions = jnp.full((2, 1), t, jnp.int32)
            logits, cache = model.apply(variables, token, cache, positions, decode=True)
            return cache, logits[:, 0]

        _, steps = jax.lax.scan(step, cache, jnp.arange(prefix, length))
        return model.apply(variables, tokens), jnp.concatenate([start, steps.swapaxes(0, 1)], 1)

    return both(jax.tree.map(lambda x: jnp.asarray(x, dtype), models.params(name, **changes)))


@pytest.mark.parametrize("name", models.KINDS)
def test_step_by_step_decoding_gives_the_logits_of_the_full_pass(name, x64):
    whole, cached = cached_and_full(name, 4, 9, "float64")
    np.testing.assert_allclose(cached, whole, atol=1e-10)


@pytest.mark.parametrize("name", models.KINDS)
def test_decoding_in_float32(name):
    whole, cached = cached_and_full(name, 3, 7, "float32", n_layer=1)
    np.testing.assert_allclose(cached, whole, atol=1e-4)


def test_prompt_in_two_pieces_equals_one_prompt(x64):
    cfg = models.config("tpa", dtype="float64")
    variables = {"params": jax.tree.map(jnp.asarray, models.params("tpa"))}
    tokens = models.tokens(1, 7)

    @jax.jit
    def both():
        cache = init_lm_cache(cfg, 1, 7, jnp.float64)
        _, cache = T6LM(cfg).apply(variables, tokens[:, :3], cache)
        late, _ = T6LM(cfg).apply(
            variables, tokens[:, 3:], cache, jnp.arange(3, 7)[None], decode=True
        )
        return T6LM(cfg).apply(variables, tokens)[:, 3:], late

    whole, late = both()
    np.testing.assert_allclose(late, whole, atol=1e-10)


def test_fresh_model_depends_on_the_embedding_alone():
    cfg = models.config("tpa")
    tokens = models.tokens(2, 5)
    params = jax.jit(T6LM(cfg).init)(jax.random.key(0), tokens)["params"]
    logits = jax.jit(T6LM(cfg).apply)({"params": params}, tokens)
    wte = params["wte"]
    expected = jax.jit(lambda w: jnp.einsum("btd,vd->btv", rms_norm(w[tokens]), w))(wte)
    np.testing.assert_array_equal(logits, expected)


def test_embeddings_start_within_one_per_cent_of_their_bound():
    cfg = models.config("mha", n_embd=64, vocab_size=400, n_layer=1, tie_embeddings=False)
    params = jax.jit(T6LM(cfg).init)(jax.random.key(0), models.tokens(1, 1))["params"]
    for name in ("wte", "lm_head"):
        assert_fills(params[name], 1 / 8)


def test_initial_loss_is_that_of_a_model_that_repeats_its_input():
    # With tied embeddings uniform in +-1/sqrt(d), the logit of the input token itself starts at
    # sqrt(d/3) and the others are about N(0, 1/3); ln V is the limit of small d only.
    width, vocab = 64, 97
    cfg = models.config("mha", n_embd=width, vocab_size=vocab)
    tokens = np.random.default_rng(0).integers(0, vocab, (8, 65))

    @jax.jit
    def initial_loss():
        params = T6LM(cfg).init(jax.random.key(1), tokens[:, :1])["params"]
        logits = T6LM(cfg).apply({"params": params}, tokens[:, :-1])
        return cross_entropy(logits, tokens[:, 1:])[0]

    expected = math.log(vocab * math.exp(1 / 6) + math.exp(math.sqrt(width / 3)))
    assert abs(float(initial_loss()) - expected) < 0.1


@pytest.mark.parametrize("name", ["tpa", "mha"])
def test_scan_and_remat_change_nothing_but_the_way(name, x64):
    tokens = models.tokens(2, 7)

    def loss(params, **changes):
        model = T6LM(models.config(name, dtype="float64", **changes))
        return cross_entropy(model.apply({"params": params}, tokens), tokens)[0]

    params = jax.tree.map(jnp.asarray, models.params(name))
    expected, grads = jax.jit(jax.value_and_grad(loss))(params)
    for changes in ({"scan_layers": True}, {"remat": True}, {"scan_layers": True, "remat": True}):
        value, other = jax.jit(jax.value_and_grad(lambda p, c=changes: loss(p, **c)))(params)
        np.testing.assert_allclose(value, expected, rtol=1e-12)
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-12), grads, other)


def test_gradient_does_not_reach_the_future():
    cfg = models.config("tpa")
    params = models.params("tpa")
    emb = jax.nn.one_hot(models.tokens(1, 6), cfg.vocab_size)

    def logit_at_2(soft):
        mixed = params | {"wte": jnp.asarray(params["wte"])}
        block_in = soft @ mixed["wte"]
        # Feed soft embeddings through an extra vocabulary of six rows, one per position.
        p = mixed | {"wte": jnp.concatenate([mixed["wte"], block_in[0]])}
        ids = cfg.vocab_size + jnp.arange(6)[None]
        wide = models.config("tpa", vocab_size=cfg.vocab_size + 6)
        return T6LM(wide).apply({"params": p}, ids)[0, 2, : cfg.vocab_size].sum()

    grads = np.abs(np.asarray(jax.jit(jax.grad(logit_at_2))(emb))).sum(-1)[0]
    assert (grads[3:] == 0).all()
    assert (grads[:3] > 0).all()


@pytest.mark.parametrize("kind", t6_tables.KINDS)
@pytest.mark.parametrize("size", t6_tables.SIZES)
def test_full_size_parameter_counts_are_exact(size, kind):
    i = list(t6_tables.SIZES).index(size)
    cfg = t6_tables.paper_model(size, kind)
    assert t6_tables.parameter_count(cfg) == t6_tables.RELEASED_PARAMETERS[kind][i]


def test_bfloat16_compute_stays_close_and_gives_float32_logits():
    tokens = models.tokens(1, 8)
    exact, rounded = logits_of("tpa", tokens), logits_of("tpa", tokens, dtype="bfloat16")
    assert rounded.dtype == jnp.float32
    np.testing.assert_allclose(rounded, exact, atol=0.15)


def test_untied_embeddings_have_their_own_output_matrix():
    cfg = models.config("mha", tie_embeddings=False)
    params = jax.jit(T6LM(cfg).init)(jax.random.key(0), models.tokens(1, 2))["params"]
    assert params["lm_head"].shape == params["wte"].shape
    changed = params | {"lm_head": 2 * params["lm_head"]}
    apply = jax.jit(T6LM(cfg).apply)
    one, two = (apply({"params": p}, models.tokens(1, 2)) for p in (params, changed))
    np.testing.assert_allclose(two, 2 * one, rtol=1e-6)


def test_cross_entropy_ignores_minus_one_and_averages_over_tokens():
    logits = np.random.default_rng(0).normal(size=(2, 3, 5)).astype(np.float32)
    targets = np.array([[0, 1, -1], [-1, -1, 4]])
    loss, count = cross_entropy(jnp.asarray(logits), jnp.asarray(targets))
    log_probs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    expected = -(log_probs[0, 0, 0] + log_probs[0, 1, 1] + log_probs[1, 2, 4]) / 3
    np.testing.assert_allclose(loss, expected, rtol=1e-5)
    assert float(count) == 3
    empty, count = cross_entropy(jnp.asarray(logits), jnp.full((2, 3), -1))
    assert (float(empty), float(count)) == (0, 0)


def test_bad_input_is_named():
    with pytest.raises(ValueError, match=r"tokens has shape \(4,\), needs \[batch, time\]"):
        logits_of("tpa", models.tokens(4))
    with pytest.raises(ValueError, match="cache has 1 layers, the model has 2"):
        cfg = models.config("tpa")
        cache = init_lm_cache(cfg, 1, 4)[:1]
        T6LM(cfg).apply({"params": models.params("tpa")}, models.tokens(1, 2), cache)
    with pytest.raises(ValueError, match=r"targets has shape \(2, 4\), .*need \(2, 3\)"):
        cross_entropy(jnp.zeros((2, 3, 5)), jnp.zeros((2, 4), jnp.int32))
    with pytest.raises(ValueError, match="n_layer=0 must be at least 1"):
        models.config("tpa", n_layer=0)
    with pytest.raises(ValueError, match="did you mean 'tpa'"):
        models.config("tpa", attention="tpaa")
    with pytest.raises(ValueError, match="rank_k"):
        models.config("tpa", rank_k=0)
    with pytest.raises(ValueError, match="head_dim"):
        models.config("tpa", head_dim=7)
