"""What would fail in the T6 experiment after hours of training fails before it."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from ml_collections import ConfigDict

from experiments.t6_data import Corpus
from experiments.t6_model import model_config
from neurips25.data import Tokenizer
from neurips25.language import T6Config, sample_logits

_AT_LEAST_ONE = (
    "train.steps", "train.batch_size", "eval.batches", "eval.batch_size", "decode.repeats",
    "decode.batch_size", "generate.max_new_tokens",
)  # fmt: skip


def encode_prompt(config: ConfigDict, tokenizer: Tokenizer) -> np.ndarray:
    """Token ids ``[n]`` of ``config.generate.prompt``.

    Raises:
      ValueError: the prompt is empty or holds what the tokenizer does not know.
    """
    try:
        ids = np.asarray(tokenizer.encode(config.generate.prompt))
    except ValueError as error:
        raise ValueError(f"config.generate.prompt: {error}") from None
    if ids.size == 0:
        raise ValueError("config.generate.prompt is empty, needs at least one token")
    return ids


def sampling_options(config: ConfigDict) -> dict[str, Any]:
    """Options of :func:`~neurips25.language.sample_logits` that ``config.generate`` asks for."""
    g = config.generate
    return {
        "temperature": g.temperature,
        "top_k": g.top_k or None,
        "top_p": None if g.top_p == 1 else g.top_p,
    }


def check_run(config: ConfigDict, corpus: Corpus, mesh: Mesh) -> None:
    """Checks that ``config.task="train"`` can come to its end.

    Args:
      config: the experiment's config.
      corpus: both splits.
      mesh: devices, or their shape alone.

    Raises:
      ValueError: an option, size or text that cannot be used.
    """
    _check_options(config, mesh)
    configs = [model_config(config, kind, corpus.vocab_size) for kind in config.kinds]
    for cfg in configs:
        _check_corpus(corpus, cfg)
    if corpus.tokenizer is not None:
        ids = encode_prompt(config, corpus.tokenizer)
        if (size := min(cfg.vocab_size for cfg in configs)) <= ids.max():
            raise ValueError(
                f"config.generate.prompt: token {ids.max()} is outside the vocabulary [0, {size})"
            )


def _check_options(config: ConfigDict, mesh: Mesh) -> None:
    for name, values in (("kinds", config.kinds), ("seeds", config.seeds)):
        if not values or len(set(values)) < len(values):
            raise ValueError(f"config.{name}={values!r}, needs at least one, each of them once")
    for name in _AT_LEAST_ONE:
        section, field = name.split(".")
        if config[section][field] < 1:
            raise ValueError(f"config.{name}={config[section][field]}, needs at least 1")
    if not config.decode.lengths or min(config.decode.lengths) < 1:
        raise ValueError(f"config.decode.lengths={config.decode.lengths!r}, needs positive numbers")
    ways = mesh.shape["data"] * mesh.shape["fsdp"]
    for name, rows in (
        ("train.batch_size", config.train.batch_size),
        ("eval.batch_size", config.eval.batch_size),
    ):
        if rows % ways:
            raise ValueError(
                f"config.{name}={rows} does not divide by the {ways} devices on data x fsdp"
            )
    sample = functools.partial(sample_logits, **sampling_options(config))
    try:
        jax.eval_shape(sample, jax.ShapeDtypeStruct((2,), jnp.float32), jax.random.key(0))
    except ValueError as error:
        raise ValueError(f"config.generate: {error}") from None


def _check_corpus(corpus: Corpus, cfg: T6Config) -> None:
    for split, parts in (("training", corpus.train), ("validation", (corpus.validation,))):
        for tokens in parts:
            if len(tokens) <= cfg.block_size:
                raise ValueError(
                    f"{corpus.name}: the {split} split has {len(tokens)} tokens, a window of "
                    f"config.model.block_size={cfg.block_size} and its target need one more"
                )
            # Shards are too large to read for this; each batch of theirs is checked when read.
            if isinstance(tokens, np.ndarray) and tokens.max() >= cfg.vocab_size:
                raise ValueError(
                    f"{corpus.name}: the {split} split has token {tokens.max()}, "
                    f"config.model.vocab_size={cfg.vocab_size} needs to be larger"
                )
