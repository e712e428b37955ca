import struct

import numpy as np
import pytest

from neurips25.data import (
    ByteTokenizer,
    open_token_shard,
    open_token_shards,
    write_text_shards,
    write_token_shard,
)


@pytest.fixture
def shard(tmp_path):
    path = tmp_path / "a.bin"
    write_token_shard(path, [1, 2, 65535, 50256])
    return path


def with_header(path, *fields, tokens=b"\1\0\2\0"):
    path.write_bytes(struct.pack("<256i", *fields, *[0] * (256 - len(fields))) + tokens)


def test_golden_bytes(shard):
    data = shard.read_bytes()
    assert data[:16].hex() == "88d83401010000000400000000000000"
    assert data[12:1024] == bytes(1012)
    assert data[1024:].hex() == "01000200ffff50c4"


def test_round_trip_is_a_read_only_map(shard):
    opened = open_token_shard(str(shard))
    assert opened.path == shard
    assert len(opened) == 4
    assert opened.tokens.dtype == np.uint16
    assert opened.tokens.tolist() == [1, 2, 65535, 50256]
    assert isinstance(opened.tokens.base, np.memmap)
    with pytest.raises(ValueError, match="read-only"):
        opened.tokens[0] = 3


@pytest.mark.parametrize("dtype", [np.int64, np.uint16, np.uint8, ">u2", np.uint64])
def test_any_integer_dtype_is_written_the_same(tmp_path, dtype):
    write_token_shard(tmp_path / "x.bin", np.array([3, 0, 200], dtype))
    assert open_token_shard(tmp_path / "x.bin").tokens.tolist() == [3, 0, 200]


@pytest.mark.parametrize(
    ("tokens", "named"),
    [
        ([1, 2, 65536], "65536 at position 2"),
        ([4, -1], "-1 at position 1"),
        ([0.5], "integers, got float64"),
        ([[1, 2]], r"got \(1, 2\)"),
        ([], r"got \(0,\)"),
    ],
)
def test_bad_tokens_are_refused_and_leave_the_old_file(shard, tokens, named):
    before = shard.read_bytes()
    with pytest.raises(ValueError, match=named):
        write_token_shard(shard, tokens)
    assert shard.read_bytes() == before


def test_interrupted_write_leaves_the_old_file_and_no_litter(shard, monkeypatch):
    before = shard.read_bytes()

    def full_disk(descriptor):
        raise OSError("no space left")

    monkeypatch.setattr("os.fsync", full_disk)
    with pytest.raises(OSError, match="no space"):
        write_token_shard(shard, [9, 9])
    assert shard.read_bytes() == before
    assert [p.name for p in shard.parent.iterdir()] == ["a.bin"]


def test_empty_file(tmp_path):
    (tmp_path / "empty.bin").touch()
    with pytest.raises(ValueError, match=r"empty\.bin: has 0 bytes.*needs 1024"):
        open_token_shard(tmp_path / "empty.bin")


def test_truncated_header(shard):
    shard.write_bytes(shard.read_bytes()[:500])
    with pytest.raises(ValueError, match=r"a\.bin: has 500 bytes.*needs 1024"):
        open_token_shard(shard)


def test_truncated_and_overlong_tokens(shard):
    data = shard.read_bytes()
    shard.write_bytes(data[:-1])
    with pytest.raises(ValueError, match="cut short: 4 tokens need 1032 bytes, has 1031"):
        open_token_shard(shard)
    shard.write_bytes(data + b"\0")
    with pytest.raises(ValueError, match="too long: 4 tokens need 1032 bytes, has 1033"):
        open_token_shard(shard)


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ((20240521, 1, 2), "magic number 20240521, needs 20240520"),
        ((20240520, 2, 2), "version 2, this reader needs 1"),
        ((20240520, 1, 0), "header gives 0 tokens"),
        ((20240520, 1, -2), "header gives -2 tokens"),
    ],
)
def test_foreign_headers(tmp_path, fields, named):
    path = tmp_path / "foreign.bin"
    with_header(path, *fields)
    with pytest.raises(ValueError, match=rf"foreign\.bin.*{named}"):
        open_token_shard(path)


def test_text_file_is_not_a_shard(tmp_path):
    (tmp_path / "text.bin").write_text("To be, or not to be. " * 100)
    with pytest.raises(ValueError, match=r"text\.bin: not a token shard"):
        open_token_shard(tmp_path / "text.bin")


def test_shards_are_sorted_by_directory_pattern_or_file(tmp_path):
    for i in [2, 0, 1]:
        write_token_shard(tmp_path / f"fineweb_train_{i:06d}.bin", [i])
    write_token_shard(tmp_path / "fineweb_val_000000.bin", [9])
    (tmp_path / "notes.txt").write_text("no shard")

    def firsts(pattern):
        return [int(s.tokens[0]) for s in open_token_shards(pattern)]

    assert firsts(tmp_path) == [0, 1, 2, 9]
    assert firsts(str(tmp_path / "*_train_*.bin")) == [0, 1, 2]
    assert firsts(tmp_path / "fineweb_val_000000.bin") == [9]


def test_one_bad_shard_is_named_and_left_out(shard):
    (shard.parent / "b.bin").write_bytes(b"junk")
    with pytest.warns(UserWarning, match=r"b\.bin: has 4 bytes"):
        assert [s.path for s in open_token_shards(shard.parent)] == [shard]
    with pytest.raises(ValueError, match=r"b\.bin: has 4 bytes"):
        open_token_shards(shard.parent, strict=True)


@pytest.mark.filterwarnings("ignore:left out")
def test_nothing_to_open(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nothing_\*"):
        open_token_shards(tmp_path / "nothing_*.bin")
    with pytest.raises(FileNotFoundError, match="no token shards"):
        open_token_shards(tmp_path)
    (tmp_path / "b.bin").write_bytes(b"junk")
    with pytest.raises(ValueError, match="none of the 1 files"):
        open_token_shards(tmp_path)


class BytesWithEnd(ByteTokenizer):
    vocab_size = 257
    end_of_text = 256


@pytest.mark.parametrize("shard_tokens", [1, 3, 4, 7])
def test_text_becomes_shards_with_end_of_text_before_each_document(tmp_path, shard_tokens):
    paths = write_text_shards(
        iter(["ab", "", "cdefgh"]), BytesWithEnd(), tmp_path / "new", shard_tokens=shard_tokens
    )
    shards = open_token_shards(tmp_path / "new", strict=True)
    assert sorted(paths) == [s.path for s in shards]
    assert [p.name for p in paths[:2]] == ["text_val_000000.bin", "text_train_000001.bin"]
    pieces = [open_token_shard(p).tokens for p in paths]
    assert {len(piece) for piece in pieces[:-1]} == {shard_tokens}
    assert 1 <= len(pieces[-1]) <= shard_tokens
    expected = [256, *b"ab", 256, 256, *b"cdefgh"]
    assert np.concatenate(pieces).tolist() == expected


def test_text_shards_need_a_training_shard_and_small_ids(tmp_path):
    with pytest.raises(ValueError, match="choose a smaller shard_tokens"):
        write_text_shards(["abc"], ByteTokenizer(), tmp_path, shard_tokens=3)

    class Large(ByteTokenizer):
        vocab_size = 65537

    with pytest.raises(ValueError, match="vocab_size is 65537"):
        write_text_shards(["abc"], Large(), tmp_path, shard_tokens=1)
    with pytest.raises(ValueError, match="shard_tokens must be >= 1"):
        write_text_shards(["abc"], ByteTokenizer(), tmp_path, shard_tokens=0)
