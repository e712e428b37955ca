import base64
import json
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neurips25.data import (
    ByteTokenizer,
    CharTokenizer,
    HuggingFaceTokenizer,
    TiktokenTokenizer,
    tokenizer_from_dict,
)
from neurips25.data.tokenizers import END_OF_TEXT

MERGES = [b"th", b"the", b" the", b"in", b"ing"]
TEXT = "the thing in the spring: naïve 😀\n\n  end\t'll"
unicode_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)


def write_ranks(path):
    tokens = [bytes([b]) for b in range(256)] + MERGES
    path.write_text("".join(f"{base64.b64encode(t).decode()} {r}\n" for r, t in enumerate(tokens)))
    return path


@pytest.fixture(scope="module")
def tiktoken_tokenizer(tmp_path_factory):
    pytest.importorskip("tiktoken")
    return TiktokenTokenizer.from_ranks_file(
        write_ranks(tmp_path_factory.mktemp("ranks") / "tiny.tiktoken")
    )


@pytest.fixture(scope="module")
def huggingface_tokenizer(tmp_path_factory):
    hf = pytest.importorskip("tokenizers")
    tokenizer = hf.Tokenizer(hf.models.BPE())
    tokenizer.pre_tokenizer = hf.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = hf.decoders.ByteLevel()
    tokenizer.train_from_iterator(
        [TEXT],
        hf.trainers.BpeTrainer(
            vocab_size=270,
            special_tokens=[END_OF_TEXT],
            initial_alphabet=hf.pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    path = tmp_path_factory.mktemp("hf") / "tokenizer.json"
    tokenizer.save(str(path))
    return HuggingFaceTokenizer.from_file(path)


@pytest.fixture(params=["char", "byte", "tiktoken", "huggingface"])
def tokenizer(request):
    if request.param == "char":
        return CharTokenizer.from_text(TEXT)
    if request.param == "byte":
        return ByteTokenizer()
    return request.getfixturevalue(f"{request.param}_tokenizer")


def test_contract(tokenizer):
    ids = tokenizer.encode(TEXT)
    assert ids.dtype == np.int32
    assert ids.ndim == 1
    assert ids.min() >= 0
    assert ids.max() < tokenizer.vocab_size
    assert tokenizer.decode(ids) == tokenizer.decode(ids.tolist()) == TEXT
    assert tokenizer.encode("").shape == (0,)
    assert tokenizer.encode("").dtype == np.int32
    assert tokenizer.decode([]) == ""


def test_restored_from_json_alone(tokenizer):
    restored = tokenizer_from_dict(json.loads(json.dumps(tokenizer.to_dict())))
    assert type(restored) is type(tokenizer)
    assert restored.vocab_size == tokenizer.vocab_size
    assert restored.end_of_text == tokenizer.end_of_text
    np.testing.assert_array_equal(restored.encode(TEXT), tokenizer.encode(TEXT))
    assert restored.to_dict() == tokenizer.to_dict()


def test_ids_outside_the_vocabulary_are_refused(tokenizer):
    for bad in [-1, tokenizer.vocab_size]:
        with pytest.raises(ValueError, match=f"id {bad} at position 1"):
            tokenizer.decode([0, bad])
    with pytest.raises(ValueError, match=r"float64 \[2\]"):
        tokenizer.decode([0.0, 1.0])
    with pytest.raises(ValueError, match=r"\[1, 2\]"):
        tokenizer.decode([[0, 1]])


@given(st.text(max_size=40))  # lone surrogates too: a character is a code point
@settings(deadline=None, max_examples=60)
def test_char_round_trip(text):
    tokenizer = CharTokenizer.from_text(text + "a")
    ids = tokenizer.encode(text)
    assert [tokenizer.characters[i] for i in ids] == list(text)
    assert tokenizer.decode(ids) == text


@given(unicode_text)
@settings(deadline=None, max_examples=60)
def test_byte_round_trip(text):
    ids = ByteTokenizer().encode(text)
    assert bytes(ids.tolist()) == text.encode()
    assert ByteTokenizer().decode(ids) == text


@given(unicode_text)
@settings(deadline=None, max_examples=60)
def test_tiktoken_round_trip(tiktoken_tokenizer, text):
    assert tiktoken_tokenizer.decode(tiktoken_tokenizer.encode(text)) == text


@given(unicode_text)
@settings(deadline=None, max_examples=60)
def test_huggingface_round_trip(huggingface_tokenizer, text):
    assert huggingface_tokenizer.decode(huggingface_tokenizer.encode(text)) == text


def test_unknown_character_is_named_with_its_position():
    tokenizer = CharTokenizer.from_text("abcx")
    for text, named in [("abé", "'é' .U.00E9. at position 2"), ("a!b~", "'!'.* at position 1"),
                        ("z", "'z'.* at position 0")]:  # fmt: skip
        with pytest.raises(ValueError, match=named):
            tokenizer.encode(text)


@pytest.mark.parametrize("characters", ["", "ba", "aab"])
def test_bad_character_sets_are_refused(characters):
    with pytest.raises(ValueError, match="sorted and each once"):
        CharTokenizer(characters)


def test_bytes_that_are_no_text():
    ids = ByteTokenizer().encode(b"ok\xff\x00")
    assert ids.tolist() == [111, 107, 255, 0]
    assert ByteTokenizer().decode(ids) == "ok\ufffd\x00"


def test_tiktoken_merges_and_end_of_text(tiktoken_tokenizer):
    assert tiktoken_tokenizer.encode("the thing").tolist() == [257, 32, 256, 260]
    assert tiktoken_tokenizer.encode("in the").tolist() == [259, 258]
    assert tiktoken_tokenizer.end_of_text == 256 + len(MERGES)
    assert tiktoken_tokenizer.vocab_size == 256 + len(MERGES) + 1
    assert tiktoken_tokenizer.decode([tiktoken_tokenizer.end_of_text]) == END_OF_TEXT


def test_special_tokens_in_text_are_plain_text(tiktoken_tokenizer):
    ids = tiktoken_tokenizer.encode(END_OF_TEXT)
    assert tiktoken_tokenizer.end_of_text not in ids
    assert tiktoken_tokenizer.decode(ids) == END_OF_TEXT


@pytest.mark.parametrize(
    ("extra", "named"),
    [("!!!! 300\n", "line 262"), ("dGhl\n", "line 262"), ("dGhl x\n", "line 262"),
     ("d2hv 3\n", "each stand for one token"), ("d2hv -3\n", "must be >= 0")],
)  # fmt: skip
def test_bad_rank_files_are_named(tmp_path, extra, named):
    pytest.importorskip("tiktoken")
    path = write_ranks(tmp_path / "bad.tiktoken")
    path.write_text(path.read_text() + extra)
    with pytest.raises(ValueError, match=rf"bad\.tiktoken.*{named}"):
        TiktokenTokenizer.from_ranks_file(path)


def test_rank_files_need_all_bytes(tmp_path):
    pytest.importorskip("tiktoken")
    path = write_ranks(tmp_path / "few.tiktoken")
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:250]))
    with pytest.raises(ValueError, match=r"few\.tiktoken.*6 are missing, first 0xfa"):
        TiktokenTokenizer.from_ranks_file(path)


def test_tiktoken_names(monkeypatch):
    tiktoken = pytest.importorskip("tiktoken")
    with pytest.raises(ValueError, match=r"gpt-2.*did you mean 'gpt2'"):
        TiktokenTokenizer.from_name("gpt-2")

    def offline(name):
        raise ConnectionError("no route to host")

    monkeypatch.setattr(tiktoken, "get_encoding", offline)
    with pytest.raises(OSError, match=r"'gpt2'.*TIKTOKEN_CACHE_DIR.*from_ranks_file.*no route"):
        TiktokenTokenizer.from_name("gpt2")


def test_bad_tokenizer_json_is_named(tmp_path):
    pytest.importorskip("tokenizers")
    (tmp_path / "foreign.json").write_text('{"a": 1}')
    with pytest.raises(ValueError, match=r"foreign\.json: not a tokenizer"):
        HuggingFaceTokenizer.from_file(tmp_path / "foreign.json")
    with pytest.raises(FileNotFoundError, match="absent"):
        HuggingFaceTokenizer.from_file(tmp_path / "absent.json")


@pytest.mark.parametrize(
    ("library", "load"),
    [
        ("tiktoken", lambda: TiktokenTokenizer.from_name("gpt2")),
        ("tiktoken", lambda: TiktokenTokenizer.from_ranks_file("x.tiktoken")),
        ("tokenizers", lambda: HuggingFaceTokenizer.from_file("tokenizer.json")),
        ("tokenizers", lambda: tokenizer_from_dict({"kind": "huggingface", "tokenizer": ""})),
    ],
)
def test_absent_libraries_name_the_extra(monkeypatch, library, load):
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ImportError, match=rf"'{library}'.*neurips25\[tokenizers\]"):
        load()


def test_unknown_kind_is_refused():
    with pytest.raises(ValueError, match=r"char, byte, tiktoken or huggingface, got 'word'"):
        tokenizer_from_dict({"kind": "word"})
