"""Tiny T6 models, one per kind of attention and variant."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from neurips25.language import T6LM, T6Config

SIZES = {"n_embd": 16, "head_dim": 8, "n_layer": 2, "vocab_size": 13, "block_size": 16}
KINDS = {
    "mha": {"attention": "mha", "n_head": 2},
    "mqa": {"attention": "mqa", "n_head": 3},
    "gqa": {"attention": "gqa", "n_head": 4, "num_kv_groups": 2},
    "mla": {
        "attention": "mla", "n_head": 3, "q_latent_dim": 8, "kv_latent_dim": 6, "rope_head_dim": 4,
    },
    "tpa": {"attention": "tpa", "n_head": 3, "rank_q": 3, "rank_k": 2, "rank_v": 1},
    "tpa_kvonly": {"attention": "tpa_kvonly", "n_head": 3, "rank_k": 2, "rank_v": 2},
    "tpa_nc_a": {"attention": "tpa_nc_a", "n_head": 3, "rank_q": 3},
    "tpa_nc_b": {"attention": "tpa_nc_b", "n_head": 3, "rank_q": 3},
    "tpa3": {"attention": "tpa3", "n_head": 3, "rank_q": 3, "factor_dim_b": 4},
    "shared_b": {"attention": "tpa", "n_head": 3, "rank_q": 3, "shared_b": True},
    "sigmoid": {"attention": "tpa", "n_head": 3, "rank_q": 3, "head_activation": "sigmoid"},
    "groupnorm": {"attention": "tpa", "n_head": 3, "rank_q": 3, "groupnorm": True},
}  # fmt: skip


def config(name, **changes):
    return T6Config(**(SIZES | KINDS[name] | changes))


def shapes(cfg):
    """The parameters as shapes."""
    token = jax.ShapeDtypeStruct((1, 1), jnp.int32)
    return jax.eval_shape(T6LM(cfg).init, jax.random.key(0), token)["params"]


@functools.cache
def params(name, **changes):
    """Random float64-exact parameters (numpy), output projections not zero."""
    cfg = config(name, **changes)
    rng = np.random.default_rng(sum(map(ord, name)))
    return jax.tree.map(lambda s: rng.normal(0, s.shape[0] ** -0.5, s.shape), shapes(cfg))


def tokens(*shape, seed=0):
    return np.random.default_rng(seed).integers(0, SIZES["vocab_size"], shape).astype(np.int32)
