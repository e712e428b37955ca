"""Text generation: prefill, then one jitted loop over a preallocated cache."""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from neurips25.language.t6 import T6LM, T6Config, init_lm_cache


class Generation(NamedTuple):
    """What :func:`generate` returns.

    Attributes:
      tokens: [B, max_new_tokens] int32 new tokens; after the stop token, the stop token.
      num_tokens: [B] int32 how many of them count, the stop token included.
    """

    tokens: jax.Array
    num_tokens: jax.Array


def filter_top_k(logits: jax.Array, k: int) -> jax.Array:
    """Keeps the ``k`` largest logits (ties with the k-th stay), sets the others to -inf.

    Args:
      logits: [..., V].
      k: how many to keep, at least 1; more than V keeps all.

    Returns:
      [..., V].

    Raises:
      ValueError: ``k < 1``.

    >>> filter_top_k(jnp.array([1.0, 3.0, 2.0]), 2).tolist()
    [-inf, 3.0, 2.0]
    """
    if k < 1:
        raise ValueError(f"k={k} must be at least 1")
    smallest = jax.lax.top_k(logits, min(k, logits.shape[-1]))[0][..., -1:]
    return jnp.where(logits < smallest, -jnp.inf, logits)


def filter_top_p(logits: jax.Array, p: float) -> jax.Array:
    """Keeps the smallest set of most likely tokens with probability at least ``p``.

    Args:
      logits: [..., V].
      p: in (0, 1]; the most likely token always stays.

    Returns:
      [..., V], -inf outside the set.

    Raises:
      ValueError: ``p`` outside (0, 1].

    >>> jnp.isfinite(filter_top_p(jnp.log(jnp.array([0.5, 0.2, 0.3])), 0.7)).tolist()
    [True, False, True]
    """
    if not 0 < p <= 1:
        raise ValueError(f"p={p} must be in (0, 1]")
    order = jnp.argsort(logits, axis=-1, descending=True)
    probs = jnp.take_along_axis(jax.nn.softmax(logits, axis=-1), order, axis=-1)
    before = jnp.cumsum(probs, axis=-1) - probs
    keep = jnp.take_along_axis(before < p, jnp.argsort(order, axis=-1), axis=-1)
    return jnp.where(keep, logits, -jnp.inf)


def sample_logits(
    logits: jax.Array,
    key: jax.Array,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
) -> jax.Array:
    """Draws a token from each row of logits.

    Args:
      logits: [..., V].
      key: typed PRNG key.
      temperature: divides the logits; 0 takes the most likely token.
      top_k: see :func:`filter_top_k`; None for all tokens.
      top_p: see :func:`filter_top_p`, applied after temperature and ``top_k``.

    Returns:
      [...] int32.

    Raises:
      ValueError: a negative temperature, or what the filters refuse.
    """
    if temperature < 0:
        raise ValueError(f"temperature={temperature} must not be negative")
    if temperature == 0:
        return jnp.argmax(logits, axis=-1).astype(jnp.int32)
    logits = logits / temperature
    if top_k is not None:
        logits = filter_top_k(logits, top_k)
    if top_p is not None:
        logits = filter_top_p(logits, top_p)
    return jax.random.categorical(key, logits, axis=-1).astype(jnp.int32)


def generate(
    cfg: T6Config,
    params: Any,
    prompts: jax.Array,
    prompt_lengths: jax.Array,
    key: jax.Array,
    *,
    max_new_tokens: int,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    stop_token: int | None = None,
    cache_dtype: Any = jnp.float32,
) -> Generation:
    """Continues a batch of prompts of unequal length.

    The prompts are run once; after that each step computes one token per sequence against
    the cache. The loop ends early when every sequence has produced ``stop_token``.

    Args:
      cfg: the model.
      params: its parameters.
      prompts: [B, P] int32, right-padded with anything.
      prompt_lengths: [B] int32, each in 1..P.
      key: typed PRNG key.
      max_new_tokens: tokens to generate, at least 1.
      temperature, top_k, top_p: as in :func:`sample_logits`; temperature 0 is greedy.
      stop_token: id that ends a sequence, None for none.
      cache_dtype: dtype of the cache.

    Returns:
      A :class:`Generation`.

    Raises:
      ValueError: ``prompts`` or ``prompt_lengths`` of the wrong shape or range,
        ``max_new_tokens < 1``, or a sampling option out of range.
    """
    prompts, prompt_lengths = jnp.asarray(prompts), jnp.asarray(prompt_lengths)
    if prompts.ndim != 2 or prompts.shape[1] == 0:
        raise ValueError(f"prompts has shape {prompts.shape}, needs [batch, at least 1]")
    if prompt_lengths.shape != prompts.shape[:1]:
        raise ValueError(
            f"prompt_lengths has shape {prompt_lengths.shape}, needs {prompts.shape[:1]}"
        )
    if not isinstance(prompt_lengths, jax.core.Tracer):
        low, high = int(prompt_lengths.min()), int(prompt_lengths.max())
        if low < 1 or high > prompts.shape[1]:
            raise ValueError(f"prompt_lengths lie in {low}..{high}, need 1..{prompts.shape[1]}")
    if max_new_tokens < 1:
        raise ValueError(f"max_new_tokens={max_new_tokens} must be at least 1")
    return _generate(
        cfg, params, prompts, prompt_lengths, key, max_new_tokens, temperature, top_k, top_p,
        stop_token, jnp.dtype(cache_dtype),
    )  # fmt: skip


@functools.partial(jax.jit, static_argnums=(0, 5, 6, 7, 8, 9, 10))
def _generate(
    cfg: T6Config,
    params: Any,
    prompts: jax.Array,
    lengths: jax.Array,
    key: jax.Array,
    count: int,
    temperature: float,
    top_k: int | None,
    top_p: float | None,
    stop_token: int | None,
    cache_dtype: Any,
) -> Generation:
    model = T6LM(cfg)
    batch, prompt_len = prompts.shape
    cache = init_lm_cache(cfg, batch, prompt_len + count, cache_dtype)
    logits, cache = model.apply({"params": params}, prompts, cache)
    logits = jnp.take_along_axis(logits, (lengths - 1)[:, None, None], axis=1)[:, 0]
    fill = 0 if stop_token is None else stop_token
    tokens = jnp.full((batch, count), fill, jnp.int32)

    def sample(i: jax.Array, logits: jax.Array, done: jax.Array) -> tuple[jax.Array, jax.Array]:
        new = sample_logits(logits, jax.random.fold_in(key, i), temperature, top_k, top_p)
        new = jnp.where(done, fill, new)
        return new, done if stop_token is None else done | (new == stop_token)

    def running(carry: tuple) -> jax.Array:
        i, _, _, _, _, done = carry
        return (i < count) & ~done.all()

    def advance(carry: tuple) -> tuple:
        i, tokens, num, last, cache, done = carry
        logits, cache = model.apply(
            {"params": params}, last[:, None], cache, (lengths + i - 1)[:, None], decode=True
        )
        num = num + ~done
        last, done = sample(i, logits[:, 0], done)
        tokens = jax.lax.dynamic_update_slice(tokens, last[:, None], (0, i))
        return i + 1, tokens, num, last, cache, done

    last, done = sample(jnp.int32(0), logits, jnp.zeros(batch, bool))
    tokens = tokens.at[:, 0].set(last)
    num = jnp.ones(batch, jnp.int32)
    carry = (jnp.int32(1), tokens, num, last, cache, done)
    _, tokens, num, _, _, _ = jax.lax.while_loop(running, advance, carry)
    return Generation(tokens, num)
