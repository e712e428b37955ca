"""The decoding step: blocks, masks, lengths, partial results and its cost."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from neurips25.attention import (
    TPACache,
    assemble,
    combine_partials,
    flash_tpa_decode,
    flash_tpa_decode_partial,
    flash_tpa_decode_rank1,
    flash_tpa_kvonly_decode,
)

BATCH, QUERIES, ROWS, HEADS, DIM, WIDTH = 2, 3, 37, 6, 8, 5
decode = jax.jit(flash_tpa_decode, static_argnames="block_size")


def make_inputs(ranks=(3, 2, 3), dtype=jnp.float32, queries=QUERIES, rows=ROWS, seed=0):
    rank_q, rank_k, rank_v = ranks
    shapes = {
        "aq": (BATCH, queries, rank_q, HEADS),
        "bq": (BATCH, queries, rank_q, DIM),
        "ak": (BATCH, rows, rank_k, HEADS),
        "bk": (BATCH, rows, rank_k, DIM),
        "av": (BATCH, rows, rank_v, HEADS),
        "bv": (BATCH, rows, rank_v, WIDTH),
    }
    keys = jax.random.split(jax.random.key(seed), len(shapes))
    a = {n: jax.random.normal(k, s, dtype) for k, (n, s) in zip(keys, shapes.items())}
    return a["aq"], a["bq"], TPACache(ak=a["ak"], bk=a["bk"], av=a["av"], bv=a["bv"])


def plain(aq, bq, cache, bias):
    """Softmax attention over assembled slices, in numpy; rows of −inf give zeros."""
    q, k = np.asarray(assemble(aq, bq)), np.asarray(assemble(cache.ak, cache.bk))
    logits = np.einsum("bnhd,bmhd->bnhm", q, k) / np.sqrt(q.shape[-1]) + bias[:, :, None]
    top = logits.max(-1, keepdims=True)
    p = np.exp(logits - np.where(np.isfinite(top), top, 0.0))
    total = p.sum(-1, keepdims=True)
    p = np.divide(p, total, out=np.zeros_like(p), where=total > 0)
    return np.einsum("bnhm,bmhe->bnhe", p, np.asarray(assemble(cache.av, cache.bv)))


def length_bias(length, rows=ROWS, queries=QUERIES):
    length = np.asarray(length)
    length = np.broadcast_to(length.reshape(-1, 1) if length.ndim < 2 else length, (BATCH, queries))
    return np.where(np.arange(rows) < length[..., None], 0.0, -np.inf)


def test_golden_rank_one(x64, golden):
    g = {name: jnp.asarray(value) for name, value in golden("tpa/decode_rank1.npz").items()}
    aq = g["aq"].swapaxes(2, 3)  # the repository keeps heads before ranks
    cache = TPACache(*(g[name][:, :, None] for name in ("ak", "bk", "av", "bv")))
    rows = g["bk"].shape[1]
    np.testing.assert_allclose(
        flash_tpa_decode_rank1(aq, g["bq"], cache, rows), g["o"], atol=1e-10, rtol=0
    )
    o = flash_tpa_decode(aq, g["bq"], cache, rows, block_size=5)
    np.testing.assert_allclose(o, g["o"], atol=1e-10, rtol=0)


@pytest.mark.parametrize("block_size", [None, 4])
def test_golden_general_ranks(x64, golden, block_size):
    g = {name: jnp.asarray(value) for name, value in golden("tpa/decode_general_rank.npz").items()}
    cache = TPACache(ak=g["AK"], bk=g["BK"], av=g["AV"], bv=g["BV"])
    rows = g["BK"].shape[1]
    o, lse = flash_tpa_decode_partial(g["AQ"], g["BQ"], cache, rows, block_size, g["mask"])
    np.testing.assert_allclose(o, g["o"], atol=1e-10, rtol=0)
    expected = jax.nn.logsumexp(g["logits"], axis=-1).swapaxes(1, 2)
    np.testing.assert_allclose(lse, expected, atol=1e-10, rtol=0)


@pytest.mark.parametrize("block_size", [None, 1, 7, 16, ROWS, 1000])
@pytest.mark.parametrize("ranks", [(3, 2, 3), (4, 1, 1)])
def test_blocks_give_plain_softmax(x64, block_size, ranks):
    aq, bq, cache = make_inputs(ranks, jnp.float64)
    for length in (ROWS, [ROWS, 20], [[1, 2, 3], [35, 36, 37]]):
        o = decode(aq, bq, cache, jnp.asarray(length), block_size=block_size)
        assert np.abs(o - plain(aq, bq, cache, length_bias(length))).max() <= 1e-12
    single = make_inputs(ranks, jnp.float32)
    o = decode(*single, jnp.asarray(ROWS), block_size=block_size)
    exact = plain(*jax.tree.map(lambda x: x.astype(jnp.float64), single), length_bias(ROWS))
    assert np.abs(o - exact).max() <= 2e-6


@pytest.mark.parametrize("block_size", [1, 7, 16, ROWS])
def test_additive_masks_and_wholly_masked_blocks(x64, block_size):
    aq, bq, cache = make_inputs(dtype=jnp.float64)
    mask = np.array(jax.random.normal(jax.random.key(9), (BATCH, QUERIES, ROWS)))
    mask[0, :, :20] = -np.inf  # the first blocks
    mask[1, 0, 9:30] = -np.inf  # some in the middle
    mask[1, 1] = -np.inf  # everything: the output is zero
    mask[1, 2, 14:] = -np.inf  # the last blocks
    o = decode(
        aq, bq, cache, jnp.asarray([ROWS, 30]), block_size=block_size, mask=jnp.asarray(mask)
    )
    expected = plain(aq, bq, cache, length_bias([ROWS, 30]) + mask)
    assert bool(jnp.isfinite(o).all())
    assert np.abs(o - expected).max() <= 1e-12
    assert np.abs(o[1, 1]).max() == 0.0


@pytest.mark.parametrize("block_size", [None, 7])
def test_no_visible_row_gives_zeros_and_minus_infinity(block_size):
    aq, bq, cache = make_inputs()
    o, lse = flash_tpa_decode_partial(aq, bq, cache, jnp.array([0, -3]), block_size)
    assert float(jnp.abs(o).max()) == 0.0
    assert bool((lse == -jnp.inf).all())


def test_hidden_rows_have_no_weight(x64):
    aq, bq, cache = make_inputs(dtype=jnp.float64)
    cut = jax.tree.map(lambda x: x[:, :20], cache)
    dirty = jax.tree.map(lambda x: x.at[:, 20:].set(1e6), cache)
    expected = decode(aq, bq, cut, jnp.asarray(20), block_size=7)
    assert float(
        jnp.abs(decode(aq, bq, dirty, jnp.asarray(20), block_size=7) - expected).max()
    ) <= (1e-12)


@pytest.mark.parametrize("pieces", [[37], [1, 36], [7, 7, 7, 7, 9], [20, 5, 12]])
def test_partials_combine(x64, pieces):
    aq, bq, cache = make_inputs(dtype=jnp.float64)
    length = jnp.array([ROWS, 22])  # whole pieces of sequence 1 are empty
    partials, start = [], 0
    for size in pieces:
        part = jax.tree.map(lambda x, at=start, n=size: x[:, at : at + n], cache)
        partials.append(flash_tpa_decode_partial(aq, bq, part, length - start, 8))
        start += size
    o, lse = (jnp.stack(x) for x in zip(*partials))
    expected = plain(aq, bq, cache, length_bias(length))
    assert np.abs(combine_partials(o, lse) - expected).max() <= 1e-12
    without_n = combine_partials(o[:, :, 0], lse[:, :, 0])
    assert np.abs(without_n - expected[:, 0]).max() <= 1e-12
    shuffled = combine_partials(o[::-1], lse[::-1])
    assert np.abs(shuffled - expected).max() <= 1e-12


def test_empty_partials_combine_to_zero():
    o = combine_partials(jnp.ones((3, 2, 4)), jnp.full((3, 2), -jnp.inf))
    assert float(jnp.abs(o).max()) == 0.0


def test_default_blocks_of_a_long_cache(x64):
    aq, bq, cache = make_inputs(dtype=jnp.float64, rows=8000)  # 72 logits per row: two blocks
    assert "scan" in str(jax.make_jaxpr(flash_tpa_decode)(aq, bq, cache, 7900))
    expected = flash_tpa_decode(aq, bq, cache, 7900, block_size=8000)
    assert float(jnp.abs(flash_tpa_decode(aq, bq, cache, 7900) - expected).max()) <= 1e-12


def test_rank_one_path_is_the_general_one(x64):
    aq, bq, cache = make_inputs((4, 1, 1), jnp.float64)
    length = jnp.array([ROWS, 20])
    expected = plain(aq, bq, cache, length_bias(length))
    assert np.abs(flash_tpa_decode_rank1(aq, bq, cache, length) - expected).max() <= 1e-12


def test_kvonly_query_equals_its_factors(x64):
    aq, bq, cache = make_inputs(dtype=jnp.float64)
    length = jnp.array([[1, 2, 3], [35, 36, 37]])
    expected = flash_tpa_decode(aq, bq, cache, length)
    for block_size in (None, 7):
        o = flash_tpa_kvonly_decode(assemble(aq, bq), cache, length, block_size)
        assert float(jnp.abs(o - expected).max()) <= 1e-12


def test_one_sequence_and_one_query_take_the_same_values(x64):
    aq, bq, cache = make_inputs((4, 1, 1), jnp.float64, rows=512)  # 512: chunks of the CPU form
    length = jnp.array([500, 300])
    both = flash_tpa_decode(aq, bq, cache, length)
    expected = plain(aq, bq, cache, length_bias(length, 512))
    assert np.abs(both - expected).max() <= 1e-12
    for b in range(BATCH):
        one = jax.tree.map(lambda x, b=b: x[b : b + 1], cache)
        for n in range(QUERIES):
            o = flash_tpa_decode(aq[b : b + 1, n : n + 1], bq[b : b + 1, n : n + 1], one, length[b])
            assert np.abs(o[0, 0] - expected[b, n]).max() <= 1e-12


@pytest.mark.parametrize("block_size", [None, 7])
def test_jit_grad_vmap_by_the_caller(x64, block_size):
    aq, bq, cache = make_inputs((2, 1, 1), jnp.float64, rows=16)

    def loss(aq, cache):
        return jnp.square(flash_tpa_decode(aq, bq, cache, 13, block_size)).sum()

    def reference(aq, cache):
        k, v = assemble(cache.ak, cache.bk)[:, :13], assemble(cache.av, cache.bv)[:, :13]
        logits = jnp.einsum("bnhd,bmhd->bnhm", assemble(aq, bq), k) / DIM**0.5
        return jnp.square(jnp.einsum("bnhm,bmhe->bnhe", jax.nn.softmax(logits), v)).sum()

    many = jnp.stack([aq, 2 * aq])
    grads = [
        jax.jit(jax.vmap(jax.grad(f, argnums=(0, 1)), (0, None)))(many, cache)
        for f in (loss, reference)
    ]
    for one, other in zip(*map(jax.tree.leaves, grads)):
        assert float(jnp.abs(one - other).max()) <= 1e-12


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16])
@pytest.mark.parametrize("block_size", [None, 7])
def test_half_precision_accumulates_in_float32(dtype, block_size):
    exact = make_inputs((3, 2, 3))
    low = jax.tree.map(lambda x: x.astype(dtype), exact)
    o = decode(*low, jnp.asarray(ROWS), block_size=block_size)
    reference = plain(*jax.tree.map(lambda x: x.astype(jnp.float32), low), length_bias(ROWS))
    assert o.dtype == dtype
    assert np.abs(o.astype(jnp.float32) - reference).max() <= 0.02 * np.abs(reference).max()


def test_half_precision_survives_extreme_logits():
    aq, bq, cache = jax.tree.map(lambda x: (x * 60).astype(jnp.float16), make_inputs())
    o, lse = flash_tpa_decode_partial(aq, bq, cache, ROWS, 7)
    assert bool(jnp.isfinite(o).all() & jnp.isfinite(lse).all())


@pytest.mark.parametrize("rows", [1024, 8192])
def test_rank_one_flops_are_the_formula(rows):
    heads, dim, rank_q = 32, 64, 16
    shape = functools.partial(jax.ShapeDtypeStruct, dtype=jnp.float32)
    cache = TPACache(*(shape((1, rows, 1, n)) for n in (heads, dim, heads, dim)))
    query = shape((1, 1, rank_q, heads)), shape((1, 1, rank_q, dim))
    lowered = jax.jit(flash_tpa_decode_rank1).lower(
        *query, cache, jax.ShapeDtypeStruct((), "int32")
    )
    flops = lowered.compile().cost_analysis()["flops"]
    matmuls = 2 * rows * (rank_q * dim + heads * rank_q + heads * dim)
    softmax = 5 * rows * heads  # scale by a^K, maximum, subtract, sum, scale by a^V
    assert 0.9 <= flops / (matmuls + softmax) <= 1.1


def test_bad_arguments_are_named():
    aq, bq, cache = make_inputs()
    with pytest.raises(ValueError, match=r"aq has shape \(3, 3, 6\)"):
        flash_tpa_decode(aq[0], bq, cache, 5)
    with pytest.raises(ValueError, match=r"bq has shape \(2, 3, 2, 8\)"):
        flash_tpa_decode(aq, bq[:, :, :2], cache, 5)
    with pytest.raises(ValueError, match=r"cache.ak has shape .* needs \(2, 37, 2, 6\)"):
        flash_tpa_decode(aq, bq, cache.replace(ak=cache.ak[..., :4]), 5)
    with pytest.raises(ValueError, match=r"cache\.bv is missing"):
        flash_tpa_decode(aq, bq, cache.replace(bv=None), 5)
    with pytest.raises(ValueError, match=r"cache.ak is of shape \(2, 0, 2, 6\)"):
        flash_tpa_decode(aq, bq, jax.tree.map(lambda x: x[:, :0], cache), 5)
    with pytest.raises(ValueError, match="length has dtype float32"):
        flash_tpa_decode(aq, bq, cache, 5.0)
    with pytest.raises(ValueError, match=r"length has shape \(3,\)"):
        flash_tpa_decode(aq, bq, cache, jnp.array([1, 2, 3]))
    with pytest.raises(ValueError, match="block_size=0"):
        flash_tpa_decode(aq, bq, cache, 5, 0)
    with pytest.raises(ValueError, match=r"mask is float32 of shape \(2, 37\), .*\(2, 3, 37\)"):
        flash_tpa_decode(aq, bq, cache, 5, mask=jnp.zeros((2, 37)))
    for mask in (jnp.ones((2, 3, 37), bool), jnp.ones((2, 3, 37), jnp.int32)):
        with pytest.raises(ValueError, match=rf"mask is {mask.dtype} .*needs floating"):
            flash_tpa_decode(aq, bq, cache, 5, mask=mask)
    with pytest.raises(ValueError, match=r"ranks \(R_K, R_V\) = \(2, 3\), needs \(1, 1\)"):
        flash_tpa_decode_rank1(aq, bq, cache, 5)
    with pytest.raises(ValueError, match=r"q has shape \(3, 3, 6\)"):
        flash_tpa_kvonly_decode(aq[0], cache, 5)
    with pytest.raises(ValueError, match=r"lse has shape \(3, 4\), needs \(3, 2\)"):
        combine_partials(jnp.ones((3, 2, 4)), jnp.ones((3, 4)))
