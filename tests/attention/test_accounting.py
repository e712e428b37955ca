"""Costs against the paper's tables and against the arrays themselves."""

import dataclasses

import jax
import jax.numpy as jnp
import pytest

from neurips25.attention import (
    AttentionConfig,
    GroupedQueryAttention,
    MultiHeadAttention,
    MultiheadLatentAttention,
    attention_param_count,
    cache_numbers_per_token,
    decode_flops,
    decode_macs_per_token,
    match_heads,
)

# size: layers, d, then heads of mha, mqa, gqa, mla, tpa_kvonly, tpa, then d_c, d'_c.
SIZES = {
    "small": (12, 768, 12, 23, 22, 13, 22, 34, 256, 512),
    "medium": (24, 1024, 16, 31, 30, 23, 29, 47, 512, 1024),
    "large": (36, 1280, 20, 39, 38, 34, 37, 61, 512, 1024),
    "xl": (48, 1600, 25, 49, 48, 49, 47, 78, 512, 1024),
}
KINDS = ("mha", "mqa", "gqa", "mla", "tpa_kvonly", "tpa")
CACHE_NUMBERS = {
    "small": (1536, 128, 256, 288, 344, 392),
    "medium": (2048, 128, 256, 544, 372, 444),
    "large": (2560, 128, 256, 544, 404, 500),
    "xl": (3200, 128, 256, 544, 444, 568),
}
TOTALS = {
    "mha": (123568128, 353452032, 772131840, 1554892800),
    "mqa": (123568128, 353452032, 772131840, 1554892800),
    "gqa": (123568128, 353452032, 772131840, 1554892800),
    "mla": (123085824, 417976320, 909321216, 1810065408),
    "tpa_kvonly": (124379136, 353157120, 773053440, 1559500800),
    "tpa": (124342272, 353992704, 773698560, 1555814400),
}


def paper_config(size, kind):
    heads = dict(zip(KINDS, SIZES[size][2:8], strict=True))
    return AttentionConfig(
        n_embd=SIZES[size][1],
        n_head=heads[kind],
        head_dim=64,
        attention=kind,
        num_kv_groups=2,
        kv_latent_dim=SIZES[size][8],
        q_latent_dim=SIZES[size][9],
    )


@pytest.mark.parametrize("size", SIZES)
def test_cache_numbers_of_the_paper_sizes(size):
    numbers = tuple(cache_numbers_per_token(k, paper_config(size, k)) for k in KINDS)
    assert numbers == CACHE_NUMBERS[size]


@pytest.mark.parametrize("kind", KINDS)
def test_parameters_of_the_paper_models(kind):
    totals = []
    for size, (layers, d, *_) in SIZES.items():
        attention = attention_param_count(kind, paper_config(size, kind))
        ffn = 3 * d * (8 * d // 3)
        totals.append(layers * (attention + ffn) + 50304 * d)
    assert tuple(totals) == TOTALS[kind]


EXAMPLES = [
    ((2048, 32, 64), (256, 768, 32), (4096, 17408, 3584, 7168, 2816, 5632)),
    ((4096, 32, 128), (512, 1536, 64), (8192, 34816, 6656, 13312, 5376, 10752)),
    ((7168, 64, 128), (512, 1536, 64), (16384, 69632, 11264, 22528, 9728, 19456)),
]
TPA_RANKS = [(16, 1, 1), (16, 2, 2), (8, 1, 1), (8, 2, 2)]


def example_config(sizes, latents, ranks=(16, 1, 1)):
    d, heads, dim = sizes
    return AttentionConfig(
        d,
        heads,
        dim,
        num_kv_groups=4,
        rank_q=ranks[0],
        rank_k=ranks[1],
        rank_v=ranks[2],
        kv_latent_dim=latents[0],
        q_latent_dim=latents[1],
        rope_head_dim=latents[2],
    )


@pytest.mark.parametrize(("sizes", "latents", "expected"), EXAMPLES)
def test_decode_macs_of_the_paper_table(sizes, latents, expected):
    cfg = example_config(sizes, latents)
    got = [decode_macs_per_token(k, cfg) for k in ("mha", "mla")]
    got += [decode_macs_per_token("tpa", example_config(sizes, latents, r)) for r in TPA_RANKS]
    assert tuple(got) == expected
    assert decode_macs_per_token("gqa", cfg) == decode_macs_per_token("mqa", cfg) == expected[0]
    assert decode_flops("mla", cfg, 1000) == 2000 * expected[1]


def test_decode_macs_of_the_derived_kinds():
    # With one head-side rank per query head, KV-only costs what TPA with R_Q = h would,
    # except that its query factors need no mixing over ranks.
    cfg = AttentionConfig(64, n_head=4, head_dim=8, rank_q=3, rank_k=2, rank_v=5, factor_dim_b=2)
    assert decode_macs_per_token("tpa_kvonly", cfg) == 4 * 2 * 8 + 4 * 2 + 4 * 5 * 8
    scores = 3 * 2 * (2 + 4) + 3 * 2 + 4 * 3 * 2
    assert decode_macs_per_token("tpa3", cfg) == scores + 5 * 2 * 4 + 4 * 5 * 8
    assert decode_macs_per_token("tpa_nc_a", cfg) == decode_macs_per_token("tpa", cfg)


def test_layer_parameters_of_the_first_example():
    sizes, latents = EXAMPLES[0][:2]
    cfg = example_config(sizes, latents)
    got = [attention_param_count(k, cfg) / 1e6 for k in ("mha", "gqa", "mla")]
    got += [
        attention_param_count("tpa", example_config(sizes, latents, r)) / 1e6 for r in TPA_RANKS
    ]
    assert got == pytest.approx([16.8, 9.4, 9.8, 7.7, 8.1, 6.2, 6.6], abs=0.05)


SMALL = AttentionConfig(
    n_embd=24,
    n_head=6,
    head_dim=8,
    rank_q=4,
    rank_k=2,
    rank_v=3,
    num_kv_groups=3,
    q_latent_dim=12,
    kv_latent_dim=10,
    rope_head_dim=4,
    factor_dim_b=2,
)


@pytest.mark.parametrize("groupnorm", [False, True])
@pytest.mark.parametrize(
    ("kind", "module"),
    [
        ("mha", MultiHeadAttention),
        ("gqa", GroupedQueryAttention),
        ("mqa", GroupedQueryAttention),
        ("mla", MultiheadLatentAttention),
    ],
)
def test_parameters_of_the_modules(kind, module, groupnorm):
    cfg = dataclasses.replace(SMALL, attention=kind, groupnorm=groupnorm)
    x = jnp.zeros((1, 2, 24))
    params = jax.eval_shape(module(cfg).init, jax.random.key(0), x)
    measured = sum(p.size for p in jax.tree.leaves(params))
    assert measured == attention_param_count(kind, cfg)


def test_parameters_of_the_tpa_variants():
    d, h, dim, ranks, kv = 24, 6, 8, 9, 5
    out = d * h * dim
    assert attention_param_count("tpa", SMALL) == d * ranks * (h + dim) + out
    assert attention_param_count("tpa_kvonly", SMALL) == d * kv * (h + dim) + 2 * out
    assert attention_param_count("tpa_nc_a", SMALL) == ranks * (d * dim + h) + out
    assert attention_param_count("tpa_nc_b", SMALL) == ranks * (d * h + dim) + out
    assert attention_param_count("tpa3", SMALL) == d * ranks * (h + 2 + 4) + out
    shared = dataclasses.replace(SMALL, rank_k=3, shared_b=True)
    assert attention_param_count("tpa", shared) == d * (10 * h + 7 * dim) + out


@pytest.mark.parametrize(
    ("kind", "ranks", "solutions"),
    [
        ("tpa", {"rank_q": 6}, (32.86, 46.70, 60.54, 77.84)),
        ("tpa_kvonly", {}, (21.33, 29.09, 36.85, 46.55)),
        ("tpa_nc_a", {"rank_q": 6}, (37.99, 53.99, 69.99, 89.99)),
        ("tpa_nc_b", {"rank_q": 6}, (41.50, 55.34, 69.18, 86.48)),
        ("tpa3", {"rank_q": 6, "factor_dim_b": 8}, (39.35, 53.19, 67.03, 84.32)),
        ("mha", {}, (12, 16, 20, 25)),
        ("mqa", {}, (23, 31, 39, 49)),
        ("gqa", {"num_kv_groups": 2}, (22, 30, 38, 48)),
    ],
)
def test_matched_heads_at_the_paper_budgets(kind, ranks, solutions):
    for (_, d, *_), solution in zip(SIZES.values(), solutions, strict=True):
        match = match_heads(kind, d, 64, 4 * d * d, **ranks)
        assert match.real == pytest.approx(solution, abs=0.006)
        assert match.heads == round(solution)
        assert match.mismatch == match.params / (4 * d * d) - 1
        assert abs(match.mismatch) < 0.02


@pytest.mark.parametrize(
    ("kind", "ranks", "heads", "params"),
    [
        ("mha", {}, 8, 65536),
        ("mqa", {}, 15, 65536),
        ("gqa", {"num_kv_groups": 2}, 14, 65536),
        (
            "mla",
            {"kv_latent_dim": 32, "q_latent_dim": 64, "rope_head_dim": 8},
            11,
            64000 + 96,
        ),
        ("tpa_kvonly", {}, 12, 63488),
        ("tpa", {"rank_q": 4}, 16, 65536),
        ("tpa_nc_a", {"rank_q": 4}, 24, 65728),
        ("tpa_nc_b", {"rank_q": 4}, 21, 64640),
        ("tpa3", {"rank_q": 4, "factor_dim_b": 4}, 19, 66560),
    ],
)
def test_matched_heads_of_the_scaled_down_setting(kind, ranks, heads, params):
    match = match_heads(kind, 128, 16, 65536, **ranks)
    assert match[1:3] == (heads, params)
    if params == 65536:
        assert match.real == heads
        assert match.mismatch == 0.0


def test_matched_heads_of_gqa_fill_the_groups():
    match = match_heads("gqa", 128, 16, 60000, num_kv_groups=4)
    assert match.heads % 4 == 0
    assert abs(match.heads - match.real) <= 2


def test_a_budget_below_any_head_is_refused():
    with pytest.raises(ValueError, match="budget=1000 is below"):
        match_heads("tpa", 128, 16, 1000)
    with pytest.raises(ValueError, match="rank_q=0"):
        match_heads("tpa", 128, 16, 65536, rank_q=0)
