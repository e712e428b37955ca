import sys
import warnings

import numpy as np
import pytest

from neurips25.data import (
    CharTokenizer,
    python_reference_text,
    read_bytes,
    read_documents,
    read_text,
    split_text,
    split_tokens,
)

LATIN_1 = b"caf\xe9 au lait"  # 0xe9 at offset 3 starts no UTF-8 character here


def test_a_file_comes_back_as_it_is(tmp_path):
    text = "first\r\nsecond é€😀\n\n"
    (tmp_path / "a.anything").write_bytes(text.encode())
    assert read_text(tmp_path / "a.anything") == text
    assert read_bytes(str(tmp_path / "a.anything")) == text.encode()


def test_byte_order_mark_is_dropped(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbfhello")
    assert read_text(tmp_path / "a.txt") == "hello"


def test_directory_is_sorted_filtered_and_searched_below(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "b.txt").write_text("B")
    (tmp_path / "sub" / "c.TXT").write_text("C")
    (tmp_path / "a.md").write_text("A")
    (tmp_path / "code.py").write_text("P")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read_text(tmp_path) == "A\nB\nC"
        assert read_documents(tmp_path, suffixes=[".py"]) == ["P"]
        assert read_bytes(tmp_path, suffixes=[".txt"]) == b"B\nC"


def test_bad_files_of_a_directory_are_named_and_left_out(tmp_path):
    (tmp_path / "bad.txt").write_bytes(LATIN_1)
    (tmp_path / "empty.txt").touch()
    (tmp_path / "good.txt").write_text("good")
    with pytest.warns(UserWarning, match="left out") as caught:
        assert read_text(tmp_path) == "good"
    assert [str(tmp_path / name) in str(w.message) for name, w in
            zip(["bad.txt", "empty.txt"], caught)] == [True, True]  # fmt: skip
    with pytest.raises(ValueError, match=r"bad\.txt.*offset 3"):
        read_text(tmp_path, strict=True)


@pytest.mark.filterwarnings("ignore:left out")
def test_directories_without_text_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"no files that end in \.txt"):
        read_text(tmp_path)
    (tmp_path / "bad.txt").write_bytes(LATIN_1)
    with pytest.raises(ValueError, match="none of its 1 files"):
        read_text(tmp_path)


def test_non_utf8_file_names_offset_and_byte_mode(tmp_path):
    path = tmp_path / "old.txt"
    path.write_bytes(LATIN_1)
    with pytest.raises(ValueError, match=r"old\.txt.*0xe9 at offset 3.*read_bytes"):
        read_text(path)
    assert read_text(path, encoding="latin-1") == "café au lait"
    assert read_bytes(path) == LATIN_1


def test_empty_and_absent_files_are_named(tmp_path):
    (tmp_path / "empty.txt").touch()
    with pytest.raises(ValueError, match=r"empty\.txt: empty file"):
        read_text(tmp_path / "empty.txt")
    with pytest.raises(FileNotFoundError, match="absent"):
        read_text(tmp_path / "absent.txt")


def test_default_corpus_is_english_and_repeatable(monkeypatch):
    text = python_reference_text()
    assert len(text) > 300_000
    assert text.index('The "assert" statement') < text.index('The "import" statement')
    assert len(set(text)) < 200
    assert python_reference_text() == text
    monkeypatch.setitem(sys.modules, "pydoc_data.topics", None)
    with pytest.raises(ImportError, match="give a text file"):
        python_reference_text()


@pytest.mark.parametrize(
    ("n", "fraction", "train"),
    [(1_115_394, 0.1, 1_003_854), (10, 0.9, 1), (10, 0.3, 7), (2, 0.1, 1), (19, 0.5, 9)],
)
def test_split_keeps_order_and_loses_nothing(n, fraction, train):
    tokens = np.arange(n)
    first, last = split_tokens(tokens, fraction)
    assert len(first) == train
    np.testing.assert_array_equal(np.concatenate([first, last]), tokens)
    text = "x" * n
    assert [len(part) for part in split_text(text, fraction)] == [train, n - train]


@pytest.mark.parametrize(("n", "fraction"), [(10, 0.0), (10, 1.0), (10, -0.1), (1, 0.1), (5, 0.9)])
def test_splits_with_an_empty_part_are_refused(n, fraction):
    with pytest.raises(ValueError, match="validation_fraction"):
        split_tokens(np.arange(n), fraction)


def test_tinyshakespeare(data_file):
    path = data_file("text/tinyshakespeare.txt")
    text = read_text(path)
    tokenizer = CharTokenizer.from_text(text)
    ids = tokenizer.encode(text)
    assert len(read_bytes(path)) == len(ids) == 1_115_394
    assert tokenizer.vocab_size == 65
    assert tokenizer.characters.startswith("\n !$&',-.3:;?ABC")
    assert tokenizer.decode(ids) == text
    train, validation = split_tokens(ids)
    assert (len(train), len(validation)) == (1_003_854, 111_540)
