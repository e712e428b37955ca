import itertools
import json

import numpy as np
import pytest
from scipy import stats

from neurips25.data import (
    TokenBatches,
    evaluation_windows,
    open_token_shard,
    write_token_shard,
)

# Tokens that are their own position, and tell the shard by their thousands.
SHARDS = (np.arange(0, 100), np.arange(1000, 1030, dtype=np.uint16), np.arange(2000, 2009))


def same(a, b):
    assert a.keys() == b.keys() == {"tokens", "targets"}
    for name in a:
        np.testing.assert_array_equal(a[name], b[name])


def test_rows_are_windows_of_one_shard_with_shifted_targets():
    batches = TokenBatches(SHARDS, batch_size=64, block_size=8)
    for batch in itertools.islice(batches, 5):
        tokens, targets = batch["tokens"], batch["targets"]
        assert tokens.shape == targets.shape == (64, 8)
        assert tokens.dtype == targets.dtype == np.int32
        np.testing.assert_array_equal(tokens, tokens[:, :1] + np.arange(8))
        np.testing.assert_array_equal(targets, tokens + 1)
        assert np.isin(targets[:, -1], np.concatenate(SHARDS)).all()
        assert not np.shares_memory(tokens, targets)


def test_batch_depends_on_seed_and_step_only():
    a = TokenBatches(SHARDS, batch_size=4, block_size=5, seed=3)
    b = TokenBatches(SHARDS, batch_size=4, block_size=5, seed=3)
    b.batch_at(9)
    same(a.batch_at(7), b.batch_at(7))
    others = [TokenBatches(SHARDS, 4, 5, seed=4).batch_at(7), a.batch_at(8), a.batch_at(3)]
    for other in others:
        assert not np.array_equal(a.batch_at(7)["tokens"], other["tokens"])


def test_seek_and_resume():
    batches = TokenBatches(SHARDS, batch_size=4, block_size=5, seed=1)
    whole = list(itertools.islice(batches, 6))
    first = iter(batches)
    for _ in range(4):
        next(first)
    resumed = iter(TokenBatches(SHARDS, batch_size=4, block_size=5, seed=1))
    resumed.set_state(json.loads(json.dumps(first.get_state())))
    same(next(resumed), whole[4])
    same(next(resumed), whole[5])
    resumed.set_state({"position": 2})
    same(next(resumed), whole[2])


@pytest.mark.parametrize("hosts", [2, 3, 6])
def test_hosts_together_hold_the_global_batch(hosts):
    whole = TokenBatches(SHARDS, batch_size=6, block_size=5, seed=2)
    parts = [
        TokenBatches(SHARDS, 6, 5, seed=2, process_index=i, process_count=hosts)
        for i in range(hosts)
    ]
    for step in [0, 11]:
        local = [part.batch_at(step) for part in parts]
        assert {batch["tokens"].shape for batch in local} == {(6 // hosts, 5)}
        together = {k: np.concatenate([batch[k] for batch in local]) for k in local[0]}
        same(together, whole.batch_at(step))


def test_a_host_reads_its_own_rows_only():
    # The second shard is all bad tokens, which are an error as soon as they are read.
    shards = (np.zeros(50, np.int64), np.full(50, 7))
    rows = TokenBatches(shards, 16, 4).batch_at(0)["tokens"][:, 0]
    failed = []
    for i in range(16):
        batches = TokenBatches(shards, 16, 4, process_index=i, process_count=16, vocab_size=5)
        try:
            batches.batch_at(0)
            failed.append(False)
        except ValueError:
            failed.append(True)
    assert failed == (rows == 7).tolist()
    assert 0 < sum(failed) < 16


def test_memory_mapped_shards_give_the_same_batches(tmp_path):
    for i, tokens in enumerate(SHARDS):
        write_token_shard(tmp_path / f"{i}.bin", tokens)
    mapped = TokenBatches([open_token_shard(tmp_path / f"{i}.bin") for i in range(3)], 4, 5)
    same(mapped.batch_at(3), TokenBatches(SHARDS, 4, 5).batch_at(3))


def test_shards_are_uniform_whatever_their_length():
    batches = TokenBatches((np.arange(20), np.arange(1000, 9000)), 500, 4)
    first = np.concatenate([b["tokens"][:, 0] for b in itertools.islice(batches, 40)])
    n = first.size
    # 4 standard errors of a fair coin.
    assert abs(np.mean(first < 1000) - 0.5) < 4 * 0.5 / np.sqrt(n)


def test_starts_are_uniform_to_both_ends():
    n, block, draws = 72, 8, 20_000
    batches = TokenBatches((np.arange(n),), 500, block, seed=5000)
    first = np.concatenate([b["tokens"][:, 0] for b in itertools.islice(batches, draws // 500)])
    counts = np.bincount(first, minlength=n - block)
    assert len(counts) == n - block  # the last start leaves one token for the last target
    # Margin: the chi-square statistic stays below its 99.9 % quantile.
    assert stats.chisquare(counts).statistic < stats.chi2.ppf(0.999, n - block - 1)
    # A row and its neighbour are independent: no repeated starts beyond chance.
    repeats = np.mean(first[1:] == first[:-1])
    p = 1 / (n - block)
    assert abs(repeats - p) < 4 * np.sqrt(p * (1 - p) / draws)


def test_a_shard_of_just_one_window():
    batch = TokenBatches((np.arange(9),), 2, 8).batch_at(0)
    assert batch["tokens"].tolist() == [list(range(8))] * 2
    assert batch["targets"].tolist() == [list(range(1, 9))] * 2


def test_text_shorter_than_a_window_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"shards\[1\]: has 8 tokens.*block_size=8.* need 9"):
        TokenBatches((np.arange(9), np.arange(8)), 2, 8)
    write_token_shard(tmp_path / "short.bin", [1, 2])
    with pytest.raises(ValueError, match=r"short\.bin: has 2 tokens"):
        TokenBatches((open_token_shard(tmp_path / "short.bin"),), 2, 8)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"shards": ()}, "shards"),
        ({"shards": np.arange(50)}, r"write \(tokens,\)"),
        ({"shards": (np.ones(50),)}, r"shards\[0\].*float64 \[50\]"),
        ({"shards": (np.ones((5, 50), int),)}, r"int64 \[5, 50\]"),
        ({"block_size": 0}, "block_size"),
        ({"batch_size": 0}, "batch_size"),
        ({"batch_size": 5, "process_count": 2}, "batch_size"),
        ({"process_index": 1}, "process_index"),
        ({"seed": -1}, "seed"),
        ({"seed": 2**32}, "seed"),
    ],
)
def test_bad_descriptions_are_refused(change, named):
    good = {"shards": (np.arange(50),), "batch_size": 4, "block_size": 8}
    TokenBatches(**good)
    with pytest.raises(ValueError, match=named):
        TokenBatches(**(good | change))


def test_tokens_outside_the_vocabulary_are_named(tmp_path):
    write_token_shard(tmp_path / "a.bin", [1, 2, 3, 99, 4])
    shard = open_token_shard(tmp_path / "a.bin")
    message = r"a\.bin: token 99 at position 3 is outside the vocabulary \[0, 50\)"
    with pytest.raises(ValueError, match=message):
        TokenBatches((shard,), 2, 4, vocab_size=50).batch_at(0)
    with pytest.raises(ValueError, match=message):
        list(evaluation_windows(shard, 2, 1, vocab_size=50))
    TokenBatches((shard,), 2, 4, vocab_size=100).batch_at(0)
    list(evaluation_windows(shard, 2, 1, vocab_size=100))


@pytest.mark.parametrize("hosts", [1, 2])
@pytest.mark.parametrize("block", [1, 3, 8])
@pytest.mark.parametrize("n", [2, 3, 7, 24, 25, 26, 50])
def test_evaluation_covers_every_token_once(n, block, hosts):
    batch_size = 4
    tokens = np.arange(100, 100 + n, dtype=np.uint16)
    local = [
        list(evaluation_windows(tokens, block, batch_size, process_index=i, process_count=hosts))
        for i in range(hosts)
    ]
    assert len({len(batches) for batches in local}) == 1
    assert len(local[0]) == -(-(n - 1) // (batch_size * block))
    whole = [
        {k: np.concatenate([part[k] for part in parts]) for k in parts[0]} for parts in zip(*local)
    ]
    assert {batch[k].shape for batch in whole for k in batch} == {(batch_size, block)}
    assert {batch[k].dtype for batch in whole for k in batch} == {np.dtype(np.int32)}
    inputs = np.concatenate([batch["tokens"].ravel() for batch in whole])
    targets = np.concatenate([batch["targets"].ravel() for batch in whole])
    kept = targets >= 0
    np.testing.assert_array_equal(inputs[kept], tokens[:-1])
    np.testing.assert_array_equal(targets[kept], tokens[1:])
    assert set(targets[~kept]) <= {-1}
    assert set(inputs[~kept]) <= {0}


@pytest.mark.parametrize(
    ("tokens", "block", "batch", "named"),
    [
        (np.arange(1), 4, 2, "has 1 tokens"),
        (np.ones(9), 4, 2, "float64"),
        (np.arange(9), 0, 2, "block_size"),
        (np.arange(9), 4, 0, "batch_size"),
    ],
)
def test_bad_evaluation_arguments_are_refused_at_the_call(tokens, block, batch, named):
    with pytest.raises(ValueError, match=named):
        evaluation_windows(tokens, block, batch)
