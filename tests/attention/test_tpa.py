"""Factors, their variants, and attention over a whole sequence."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from neurips25.attention import (
    AttentionConfig,
    TPAFactors,
    apply_rope,
    assemble,
    posthoc_rope_attention,
    tpa_attention,
    tpa_factors,
    tpa_kvonly_self_attention,
    tpa_self_attention,
)
from tests.attention.reference import reference_layer

SIZES = {"n_embd": 12, "n_head": 6, "head_dim": 8, "rank_q": 3, "rank_k": 2, "rank_v": 2}
TIME = 9


def make_params(cfg, seed=0, dtype=jnp.float64):
    """Random parameters of a TPA layer with its output projection."""
    width, heads, dim = cfg.n_embd, cfg.n_head, cfg.head_dim
    shapes = {"wo": (heads, dim, width)}
    for side, rank in (("q", cfg.rank_q), ("k", cfg.rank_k), ("v", cfg.rank_v)):
        shapes[f"wa_{side}"] = (width, rank, heads)
        shapes[f"wb_{side}"] = (width, rank, dim)
    keys = jax.random.split(jax.random.key(seed), len(shapes))
    return {n: jax.random.normal(k, s, dtype) for k, (n, s) in zip(keys, sorted(shapes.items()))}


def make_x(cfg, seed=1, batch=2, time=TIME, dtype=jnp.float64):
    return jax.random.normal(jax.random.key(seed), (batch, time, cfg.n_embd), dtype)


def max_diff(a, b):
    return float(jnp.abs(jnp.asarray(a) - jnp.asarray(b)).max())


@pytest.mark.parametrize(
    ("kind", "layer"), [("tpa", tpa_self_attention), ("tpa_kvonly", tpa_kvonly_self_attention)]
)
@pytest.mark.parametrize(
    ("target", "dtype", "rope_dtype", "atol"),
    [
        ("y_f64rope", jnp.float64, None, 1e-10),
        ("y_bf16rope", jnp.float32, jnp.bfloat16, 1e-4),
    ],
)
def test_golden_layer(x64, golden, kind, layer, target, dtype, rope_dtype, atol):
    g = golden(f"tpa/attn_{kind}.npz")
    cfg, params, x = reference_layer(g, kind, dtype, rope_dtype=rope_dtype)
    y = layer(params, x, cfg)
    np.testing.assert_allclose(y, g[target], atol=atol, rtol=0)


@pytest.mark.parametrize("activation", ["identity", "sigmoid", "softmax"])
def test_factored_path_equals_materialized(x64, activation):
    cfg = AttentionConfig(**SIZES, head_activation=activation, dtype=jnp.float64)
    f = tpa_factors(make_params(cfg), make_x(cfg), cfg, jnp.arange(TIME))
    assert max_diff(tpa_attention(f), tpa_attention(f, impl="factored")) <= 1e-12
    mask = jax.random.bernoulli(jax.random.key(3), 0.6, (2, TIME, TIME)) | jnp.eye(TIME, dtype=bool)
    one, other = (tpa_attention(f, mask, impl) for impl in ("materialized", "factored"))
    assert max_diff(one, other) <= 1e-12
    assert max_diff(one, tpa_attention(f)) > 1e-3


def test_assembled_slices_are_the_sum_of_outer_products(x64):
    a = jax.random.normal(jax.random.key(0), (2, 3, 5))
    b = jax.random.normal(jax.random.key(1), (2, 3, 4))
    expected = np.zeros((2, 5, 4))
    for r in range(3):
        expected += np.asarray(a)[:, r, :, None] * np.asarray(b)[:, r, None, :] / 3
    np.testing.assert_allclose(assemble(a, b), expected, atol=1e-14)


def test_head_activation_applies_to_every_head_factor(x64):
    cfg = AttentionConfig(**SIZES, dtype=jnp.float64)
    params, x = make_params(cfg), make_x(cfg)
    plain = tpa_factors(params, x, cfg, jnp.arange(TIME))
    for activation, f in (
        ("sigmoid", jax.nn.sigmoid),
        ("softmax", lambda a: jax.nn.softmax(a, axis=-1)),
    ):
        changed = AttentionConfig(**SIZES, head_activation=activation, dtype=jnp.float64)
        factors = tpa_factors(params, x, changed, jnp.arange(TIME))
        for name in ("aq", "ak", "av"):
            assert max_diff(getattr(factors, name), f(getattr(plain, name))) <= 1e-14
        assert max_diff(factors.bk, plain.bk) == 0.0


@pytest.mark.parametrize(
    "rope",
    [
        {},
        {"rope_style": "interleaved"},
        {"rope_fraction": 1 / 3},
        {"rope_fraction": 0.5, "rope_decay": 0.999},
    ],
)
def test_rotating_factors_is_rotating_the_assembled_slices(x64, rope):
    cfg = AttentionConfig(**SIZES, **rope, dtype=jnp.float64)
    params, x, positions = make_params(cfg), make_x(cfg), jnp.arange(TIME) + 3
    bare = tpa_factors(params, x, cfg, positions, rope=False)
    rotated = tpa_factors(params, x, cfg, positions)
    options = {name.removeprefix("rope_"): value for name, value in rope.items()}
    late = apply_rope(assemble(bare.ak, bare.bk), positions, **options)
    assert max_diff(assemble(rotated.ak, rotated.bk), late) <= 1e-12
    assert max_diff(rotated.bk, bare.bk) > 1e-2
    y = tpa_attention(rotated)
    assert max_diff(y, posthoc_rope_attention(bare, cfg, positions)) <= 1e-12


def test_rope_decay_shrinks_only_the_rotated_part(x64):
    cfg = AttentionConfig(**SIZES, rope_fraction=0.5, rope_decay=0.9, dtype=jnp.float64)
    params, x = make_params(cfg), make_x(cfg)
    bare = tpa_factors(params, x, cfg, jnp.arange(TIME), rope=False).bk
    turned = tpa_factors(params, x, cfg, jnp.arange(TIME)).bk
    norm = jnp.linalg.norm(turned[..., :4:2], axis=-1) / jnp.linalg.norm(bare[..., :4:2], axis=-1)
    assert max_diff(norm, jnp.broadcast_to(0.9 ** jnp.arange(TIME)[:, None], norm.shape)) <= 1e-12
    assert max_diff(turned[..., 4:], bare[..., 4:]) == 0.0


def test_shifting_all_positions_changes_nothing(x64):
    cfg = AttentionConfig(**SIZES, dtype=jnp.float64)
    params, x = make_params(cfg), make_x(cfg)
    y = tpa_self_attention(params, x, cfg, jnp.arange(TIME))
    assert max_diff(y, tpa_self_attention(params, x, cfg, jnp.arange(TIME) + 37)) <= 1e-10
    spread = tpa_self_attention(params, x, cfg, 2 * jnp.arange(TIME))
    assert max_diff(y, spread) > 1e-3


def test_products_depend_on_the_distance_only(x64):
    cfg = AttentionConfig(**SIZES, dtype=jnp.float64)
    params = make_params(cfg)
    x = jnp.broadcast_to(make_x(cfg, time=1), (2, TIME, cfg.n_embd))  # one token everywhere
    f = tpa_factors(params, x, cfg, jnp.arange(TIME))
    q, k = assemble(f.aq, f.bq), assemble(f.ak, f.bk)
    dots = np.asarray(jnp.einsum("bthd,bshd->bhts", q, k))
    for distance in range(TIME):
        diagonal = np.diagonal(dots, -distance, axis1=2, axis2=3)
        assert np.abs(diagonal - diagonal[..., :1]).max() <= 1e-12


def test_rank_of_the_slices_is_bounded(x64):
    cfg = AttentionConfig(**SIZES, dtype=jnp.float64)
    f = tpa_factors(make_params(cfg), make_x(cfg), cfg, jnp.arange(TIME))
    assert int(jnp.linalg.matrix_rank(assemble(f.ak, f.bk)).max()) == cfg.rank_k
    assert int(jnp.linalg.matrix_rank(assemble(f.aq, f.bq)).max()) == cfg.rank_q


def test_scale_and_rank_order_do_not_matter(x64):
    cfg = AttentionConfig(**SIZES, dtype=jnp.float64)
    params, x = make_params(cfg), make_x(cfg)
    y = tpa_self_attention(params, x, cfg)
    moved = dict(params)
    for side, factor in (("q", 3.0), ("k", -0.25), ("v", 7.0)):
        moved[f"wa_{side}"] = factor * params[f"wa_{side}"][:, ::-1]
        moved[f"wb_{side}"] = params[f"wb_{side}"][:, ::-1] / factor
    assert max_diff(y, tpa_self_attention(moved, x, cfg)) <= 1e-11
    moved["wb_k"] = params["wb_k"] / -0.25  # only one of the pair in its old order
    assert max_diff(y, tpa_self_attention(moved, x, cfg)) > 1e-3


@pytest.mark.parametrize("impl", ["materialized", "factored"])
def test_causality_is_exact(x64, impl):
    cfg = AttentionConfig(**SIZES, dtype=jnp.float64)
    params, x = make_params(cfg), make_x(cfg)
    seen = 4

    def early(x):
        factors = tpa_factors(params, x, cfg, jnp.arange(TIME))
        return jnp.square(tpa_attention(factors, impl=impl)[:, seen]).sum()

    grad = jax.grad(early)(x)
    assert max_diff(grad[:, seen + 1 :], 0.0) == 0.0
    assert float(jnp.abs(grad[:, : seen + 1]).min()) > 0.0


def test_shared_b_is_one_projection_for_keys_and_values(x64):
    cfg = AttentionConfig(**SIZES, shared_b=True, dtype=jnp.float64)
    params, x = make_params(cfg), make_x(cfg)
    shared = {n: v for n, v in params.items() if n not in ("wb_k", "wb_v")}
    shared["wb_kv"] = params["wb_k"]
    twice = {**params, "wb_v": params["wb_k"]}
    y = tpa_self_attention(shared, x, cfg)
    assert max_diff(y, tpa_self_attention(twice, x, cfg)) == 0.0


def test_noncontextual_b_is_a_rotated_constant(x64):
    cfg = AttentionConfig(**SIZES, dtype=jnp.float64)
    params = make_params(cfg)
    params = {n: v for n, v in params.items() if not n.startswith("wb")}
    params |= {
        f"b_{s}": jax.random.normal(jax.random.key(5), (3 if s == "q" else 2, 8)) for s in "qkv"
    }
    f = tpa_factors(params, make_x(cfg), cfg, jnp.arange(TIME))
    assert max_diff(f.bk[:, 0], params["b_k"]) == 0.0  # position 0
    assert max_diff(f.bk[:, 3], params["b_k"]) > 1e-2
    assert max_diff(f.bv[:, 3], params["b_v"]) == 0.0


def test_group_norm_normalises_each_head(x64):
    cfg = AttentionConfig(**SIZES, groupnorm=True, dtype=jnp.float64)
    params, x = make_params(cfg), make_x(cfg)
    params["head_norm"] = jnp.linspace(0.5, 2.0, cfg.head_dim)
    heads = tpa_attention(tpa_factors(params, x, cfg, jnp.arange(TIME)))
    normed = heads / jnp.sqrt(jnp.square(heads).mean(-1, keepdims=True) + 1e-5)
    expected = jnp.einsum("bthe,e,hed->btd", normed, params["head_norm"], params["wo"])
    assert max_diff(tpa_self_attention(params, x, cfg), expected) <= 1e-12


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16])
@pytest.mark.parametrize("impl", ["materialized", "factored"])
def test_half_precision_stays_near_float32(dtype, impl):
    cfg = AttentionConfig(**SIZES)
    params, x = make_params(cfg, dtype=jnp.float32), make_x(cfg, dtype=jnp.float32)
    f = tpa_factors(params, 0.3 * x, cfg, jnp.arange(TIME))
    low = jax.tree.map(lambda a: a.astype(dtype), f)
    y, exact = tpa_attention(low, impl=impl), tpa_attention(f)
    assert y.dtype == dtype
    assert max_diff(y.astype(jnp.float32), exact) <= 0.05 * float(jnp.abs(exact).max())


def test_factored_path_softmax_survives_huge_logits():
    draw = jax.random.normal(jax.random.key(0), (1, 4, 2, 8), jnp.float16)
    f = TPAFactors(*(draw * 40,) * 4, draw, draw)
    for impl in ("materialized", "factored"):
        assert bool(jnp.isfinite(tpa_attention(f, impl=impl)).all())


def test_own_jit_vmap_and_grad_of_both_paths(x64):
    cfg = AttentionConfig(**SIZES, dtype=jnp.float64)
    f = tpa_factors(make_params(cfg), make_x(cfg), cfg, jnp.arange(TIME))
    stacked = jax.tree.map(lambda a: jnp.stack([0.3 * a, 0.6 * a]), f)

    def loss(f, impl):
        return jnp.square(tpa_attention(f, impl=impl)).sum()

    grads = [
        jax.jit(jax.vmap(jax.grad(lambda f, impl=impl: loss(f, impl))))(stacked)
        for impl in ("materialized", "factored")
    ]
    for one, other in zip(*map(jax.tree.leaves, grads)):
        assert max_diff(one, other) <= 1e-12 * float(jnp.abs(one).max())


@pytest.mark.parametrize("impl", ["materialized", "factored"])
def test_any_mask_gives_the_softmax_over_what_is_seen(x64, impl):
    cfg = AttentionConfig(**SIZES, dtype=jnp.float64)
    f = tpa_factors(make_params(cfg), 0.5 * make_x(cfg), cfg, jnp.arange(TIME))
    q, k, v = (
        np.einsum("btrh,btrd->bthd", a, b) / a.shape[2]
        for a, b in ((f.aq, f.bq), (f.ak, f.bk), (f.av, f.bv))
    )
    mask = np.random.default_rng(0).random((2, TIME, TIME)) < 0.5
    mask[:, :, 0] = True
    for seen in (mask, np.ones_like(mask[0]), np.tril(np.ones_like(mask[0]))):
        logits = np.einsum("bthd,bshd->bhts", q, k) / np.sqrt(cfg.head_dim)
        weights = np.exp(logits) * (seen[:, None] if seen.ndim == 3 else seen)
        weights /= weights.sum(-1, keepdims=True)
        expected = np.einsum("bhts,bshd->bthd", weights, v)
        assert max_diff(tpa_attention(f, jnp.asarray(seen), impl), expected) <= 1e-12


def test_bad_arguments_are_named():
    cfg = AttentionConfig(**SIZES)
    params = make_params(cfg, dtype=jnp.float32)
    x = make_x(cfg, dtype=jnp.float32)
    f = tpa_factors(params, x, cfg, jnp.arange(TIME))
    with pytest.raises(ValueError, match=r"impl='fast'.*materialized, factored"):
        tpa_attention(f, impl="fast")
    with pytest.raises(ValueError, match=r"mask is float32 of shape \(9, 9\)"):
        tpa_attention(f, jnp.zeros((TIME, TIME)))
    with pytest.raises(ValueError, match=r"mask is bool of shape \(3, 9\)"):
        tpa_attention(f, jnp.ones((3, TIME), bool))
    with pytest.raises(ValueError, match=r"factors.bk has shape \(2, 9, 1, 8\), needs"):
        tpa_attention(f.replace(bk=f.bk[:, :, :1]))
    with pytest.raises(ValueError, match=r"factors.aq .* needs 4 axes"):
        tpa_attention(f.replace(aq=f.aq[0]))
    with pytest.raises(ValueError, match="mask is needed for 1 queries"):
        tpa_attention(f.replace(aq=f.aq[:, :1], bq=f.bq[:, :1]))
    with pytest.raises(ValueError, match=r"b has shape \(2, 4\)"):
        assemble(jnp.ones((3, 5)), jnp.ones((2, 4)))
    with pytest.raises(ValueError, match="neither 'wb_k' nor 'b_k'"):
        tpa_factors({n: v for n, v in params.items() if n != "wb_k"}, x, cfg, jnp.arange(TIME))
    with pytest.raises(ValueError, match=r"params\['wb_q'\] has shape"):
        tpa_factors({**params, "wb_q": params["wb_q"][:5]}, x, cfg, jnp.arange(TIME))
