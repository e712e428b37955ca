import jax
import jax.numpy as jnp
import numpy as np
import pytest

from neurips25.language import (
    T6LM,
    filter_top_k,
    filter_top_p,
    generate,
    sample_logits,
)
from tests.language import models

KEY = jax.random.key(0)


def greedy_by_hand(name, prompt, count):
    cfg, params = models.config(name), models.params(name)
    forward = jax.jit(lambda t: T6LM(cfg).apply({"params": params}, t))
    tokens = list(prompt)
    for _ in range(count):
        padded = np.zeros((1, len(prompt) + count), np.int32)
        padded[0, : len(tokens)] = tokens
        tokens.append(int(jnp.argmax(forward(padded)[0, len(tokens) - 1])))
    return tokens[len(prompt) :]


@pytest.mark.parametrize("name", ["tpa", "gqa", "mla", "shared_b"])
def test_greedy_equals_the_uncached_argmax_for_prompts_of_unequal_length(name):
    cfg, params = models.config(name), models.params(name)
    prompts = models.tokens(3, 5, seed=3)
    lengths = np.array([5, 1, 3])
    out = generate(cfg, params, prompts, lengths, KEY, max_new_tokens=6, temperature=0.0)
    for row in range(3):
        expected = greedy_by_hand(name, prompts[row, : lengths[row]], 6)
        assert out.tokens[row].tolist() == expected
    assert out.num_tokens.tolist() == [6, 6, 6]


def test_stop_token_ends_a_sequence_and_the_loop():
    cfg, params = models.config("tpa"), models.params("tpa")
    prompts, lengths = models.tokens(2, 4), np.array([4, 4])
    free = generate(cfg, params, prompts, lengths, KEY, max_new_tokens=8, temperature=0.0)
    stop = int(free.tokens[0, 3])
    out = generate(
        cfg, params, prompts, lengths, KEY, max_new_tokens=8, temperature=0.0, stop_token=stop
    )
    for row in range(2):
        expected = free.tokens[row].tolist()
        count = expected.index(stop) + 1 if stop in expected else 8
        assert int(out.num_tokens[row]) == count
        assert out.tokens[row, :count].tolist() == expected[:count]
        assert (np.asarray(out.tokens[row, count:]) == stop).all()


def test_samples_follow_the_distribution():
    logits = jnp.log(jnp.array([0.5, 0.3, 0.15, 0.05]))
    draw = lambda **k: (
        np.bincount(sample_logits(jnp.tile(logits, (20_000, 1)), KEY, **k), minlength=4) / 20_000
    )
    np.testing.assert_allclose(draw(), [0.5, 0.3, 0.15, 0.05], atol=0.015)
    hot = np.array([0.5, 0.3, 0.15, 0.05]) ** 2
    np.testing.assert_allclose(draw(temperature=0.5), hot / hot.sum(), atol=0.015)
    np.testing.assert_allclose(draw(top_k=2), [0.625, 0.375, 0, 0], atol=0.015)
    np.testing.assert_allclose(draw(top_p=0.9), np.array([0.5, 0.3, 0.15, 0]) / 0.95, atol=0.015)
    assert draw(temperature=0.0).tolist() == [1, 0, 0, 0]


def test_filters_keep_what_they_should():
    logits = jnp.array([[0.0, 2.0, 1.0, 2.0]])
    assert jnp.isfinite(filter_top_k(logits, 1)).tolist() == [[False, True, False, True]]
    assert jnp.isfinite(filter_top_k(logits, 99)).all()
    tiny = filter_top_p(logits, 1e-6)
    assert jnp.isfinite(tiny).sum() == 1
    assert jnp.isfinite(filter_top_p(logits, 1.0)).all()


def test_same_key_same_text_and_other_key_other_text():
    cfg, params = models.config("tpa"), models.params("tpa")
    args = (cfg, params, models.tokens(1, 2), np.array([2]))
    one = generate(*args, KEY, max_new_tokens=12)
    two = generate(*args, KEY, max_new_tokens=12)
    other = generate(*args, jax.random.key(1), max_new_tokens=12)
    assert one.tokens.tolist() == two.tokens.tolist() != other.tokens.tolist()


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"prompts": np.zeros(3, np.int32)}, r"prompts has shape \(3,\)"),
        ({"prompts": np.zeros((2, 0), np.int32)}, r"prompts has shape \(2, 0\)"),
        ({"prompt_lengths": np.array([1])}, r"prompt_lengths has shape \(1,\), needs \(2,\)"),
        ({"prompt_lengths": np.array([0, 3])}, r"lie in 0\.\.3, need 1\.\.4"),
        ({"max_new_tokens": 0}, "max_new_tokens=0"),
        ({"temperature": -1.0}, "temperature=-1.0"),
        ({"top_k": 0}, "k=0 must be at least 1"),
        ({"top_p": 1.5}, "p=1.5 must be in"),
    ],
)
def test_bad_input_is_named(change, problem):
    args = {"prompts": models.tokens(2, 4), "prompt_lengths": np.array([4, 2]),
            "max_new_tokens": 2} | change  # fmt: skip
    prompts, lengths = args.pop("prompts"), args.pop("prompt_lengths")
    with pytest.raises(ValueError, match=problem):
        generate(models.config("tpa"), models.params("tpa"), prompts, lengths, KEY, **args)
