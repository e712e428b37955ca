"""Caches: what is kept, what it weighs, where new rows land."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from neurips25.attention import (
    AttentionConfig,
    AttentionKind,
    KVCache,
    LatentCache,
    ThirdOrderCache,
    TPACache,
    cache_bytes,
    cached_attention,
    init_cache,
    self_attention,
    update_cache,
)

CFG = AttentionConfig(
    n_embd=32,
    n_head=6,
    head_dim=8,
    rank_q=4,
    rank_k=2,
    rank_v=3,
    num_kv_groups=3,
    kv_latent_dim=10,
    rope_head_dim=4,
    factor_dim_b=2,
)
SHARED = AttentionConfig(n_embd=32, n_head=6, head_dim=8, rank_k=2, rank_v=2, shared_b=True)
CASES = [(kind, CFG) for kind in AttentionKind] + [(AttentionKind.TPA, SHARED)]


def kept(cache):
    return {k: v.shape[2:] for k, v in vars(cache).items() if v is not None}


def test_what_each_kind_keeps():
    a, b = {"ak": (2, 6), "av": (3, 6)}, {"bk": (2, 8), "bv": (3, 8)}
    expected = {
        "mha": (KVCache, {"k": (6, 8), "v": (6, 8)}),
        "gqa": (KVCache, {"k": (3, 8), "v": (3, 8)}),
        "mqa": (KVCache, {"k": (1, 8), "v": (1, 8)}),
        "mla": (LatentCache, {"latent": (10,), "k_rope": (4,)}),
        "tpa": (TPACache, a | b),
        "tpa_kvonly": (TPACache, a | b),
        "tpa_nc_a": (TPACache, b),
        "tpa_nc_b": (TPACache, a),
        "tpa3": (
            ThirdOrderCache,
            a | {"bk": (2, 2), "ck": (2, 4), "bv": (3, 2), "cv": (3, 4)},
        ),
    }
    for kind, (cls, shapes) in expected.items():
        cache = init_cache(kind, CFG, batch=2, max_len=5)
        assert type(cache) is cls
        assert kept(cache) == shapes
    assert kept(init_cache("tpa", SHARED, 2, 5)) == {"ak": (2, 6), "av": (2, 6), "bk": (2, 8)}


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
@pytest.mark.parametrize(("kind", "cfg"), CASES)
def test_measured_bytes_equal_the_formula(kind, cfg, dtype):
    cache = init_cache(kind, cfg, batch=3, max_len=7, dtype=dtype)
    measured = sum(a.nbytes for a in jax.tree.leaves(cache))
    assert measured == cache_bytes(kind, cfg, batch=3, max_len=7, dtype=dtype)
    assert 12 * measured == cache_bytes(kind, cfg, 3, 7, n_layer=12, dtype=dtype)


def filled(cache, tokens, seed=0):
    leaves, tree = jax.tree.flatten(cache)
    keys = jax.random.split(jax.random.key(seed), len(leaves))
    new = [
        jax.random.normal(k, (a.shape[0], tokens, *a.shape[2:]))
        for k, a in zip(keys, leaves, strict=True)
    ]
    return jax.tree.unflatten(tree, new)


@pytest.mark.parametrize(("kind", "cfg"), CASES)
def test_rows_land_where_asked(kind, cfg):
    cache = filled(init_cache(kind, cfg, batch=2, max_len=6), 6)
    new = filled(cache, 2, seed=1)
    for index, rows in ((jnp.int32(3), (3, 3)), (jnp.array([0, 4]), (0, 4))):
        out = update_cache(cache, new, index)
        for old, added, got in zip(*map(jax.tree.leaves, (cache, new, out)), strict=True):
            expected = np.array(old)
            for b, row in enumerate(rows):
                expected[b, row : row + 2] = added[b]
            np.testing.assert_array_equal(got, expected)


def test_rows_past_the_end_are_refused_or_when_traced_not_written():
    cache = filled(init_cache("mqa", CFG, batch=2, max_len=6), 6)
    new = filled(cache, 2, seed=1)
    for index, rows in (([5, 1], "1 to 6"), ([0, -1], "-1 to 1"), (6, "6 to 7")):
        with pytest.raises(ValueError, match=rf"needs rows {rows}, the cache has 0 to 5"):
            update_cache(cache, new, np.array(index))
    out = jax.jit(update_cache)(cache, new, jnp.array([5, 1]))
    np.testing.assert_array_equal(out.k[0], cache.k[0])
    np.testing.assert_array_equal(out.k[1, 1:3], new.k[1])


def test_a_layer_refuses_to_decode_past_its_cache():
    cfg = AttentionConfig(n_embd=8, n_head=2, head_dim=4, attention="mqa")
    layer = self_attention(cfg)
    x = jnp.ones((1, 1, 8))
    params = layer.init(jax.random.key(0), x)
    cache = init_cache("mqa", cfg, 1, 3)
    layer.apply(params, x, jnp.array([2]), cache, decode=True)
    with pytest.raises(ValueError, match="needs rows 3 to 3, the cache has 0 to 2"):
        layer.apply(params, x, jnp.array([3]), cache, decode=True)


@pytest.mark.parametrize("batch", [1, 2])
def test_a_donated_cache_is_written_in_place(batch):
    cache = init_cache("gqa", CFG, batch=batch, max_len=64)
    new = init_cache("gqa", CFG, batch=batch, max_len=1)

    def step(cache, new, q, index):
        cache = update_cache(cache, new, index)
        return cache, cached_attention(q, cache.k, cache.v, index[:, None])

    q, index = jnp.zeros((batch, 1, 6, 8)), jnp.zeros(batch, jnp.int32)
    text = jax.jit(step, donate_argnums=0).lower(cache, new, q, index).compile().as_text()
    copies = [line for line in text.splitlines() if " copy(" in line and "64,3,8]" in line]
    assert "64,3,8]" in text
    assert not copies


def test_new_rows_take_the_cache_dtype():
    cache = init_cache("mqa", CFG, batch=1, max_len=3, dtype=jnp.bfloat16)
    assert update_cache(cache, filled(cache, 1), 0).k.dtype == jnp.bfloat16


def test_bad_arguments_are_named():
    cache = init_cache("tpa", CFG, batch=2, max_len=4)
    with pytest.raises(ValueError, match=r"new is a TPACache that keeps .* needs a TPACache"):
        update_cache(cache, init_cache("tpa_nc_a", CFG, 2, 1), 0)
    with pytest.raises(ValueError, match="new is a KVCache"):
        update_cache(cache, init_cache("mha", CFG, 2, 1), 0)
    with pytest.raises(ValueError, match="at most 4 tokens"):
        update_cache(cache, init_cache("tpa", CFG, 2, 5), 0)
    with pytest.raises(ValueError, match=r"shape \(1, 1, 2, 6\)"):
        update_cache(cache, init_cache("tpa", CFG, 1, 1), 0)
    with pytest.raises(ValueError, match="index is int32 of shape"):
        update_cache(cache, init_cache("tpa", CFG, 2, 1), jnp.zeros(3, jnp.int32))
    with pytest.raises(ValueError, match="index is float32"):
        update_cache(cache, init_cache("tpa", CFG, 2, 1), 0.0)
    with pytest.raises(ValueError, match="max_len=0"):
        init_cache("tpa", CFG, 2, 0)
    with pytest.raises(ValueError, match="did you mean 'mla'"):
        init_cache("mlaa", CFG, 2, 4)
