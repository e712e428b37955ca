import gzip

import numpy as np
import pytest

from neurips25.data.cogs import (
    END,
    PAD,
    START,
    UNKNOWN,
    CogsExample,
    WordVocabulary,
    read_cogs,
    write_cogs,
)

EXAMPLES = [
    CogsExample("Emma slept .", "sleep . agent ( x _ 1 , Emma )", "in_distribution"),
    CogsExample("naïve\u2028cat", "LAMBDA a . cat ( a )", "primitive"),
]


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "small.tsv"
    write_cogs(path, EXAMPLES)
    return path


@pytest.fixture(scope="module")
def real(data_file):
    return {
        part: read_cogs(data_file(f"strassen/cogs_{part}.tsv.gz"))
        for part in ("train", "dev", "test")
    }


def test_published_files(real):
    assert [len(real[part]) for part in ("train", "dev", "test")] == [24155, 3000, 3000]
    train = real["train"]
    assert max(len(e.sentence.split(" ")) for e in train) == 22
    assert max(len(e.logical_form.split(" ")) for e in train) == 153
    sentences = WordVocabulary.from_texts(e.sentence for e in train)
    forms = WordVocabulary.from_texts(e.logical_form for e in train)
    assert (len(sentences.words), len(forms.words)) == (743, 683)
    categories = {e.category for e in train}
    assert {"in_distribution", "primitive"} < categories
    assert all(c.startswith("exposure_") for c in categories - {"in_distribution", "primitive"})
    assert {e.category for e in real["dev"] + real["test"]} == {"in_distribution"}


def test_published_files_are_written_back_as_they_were(real, data_file, tmp_path):
    write_cogs(tmp_path / "dev.tsv", real["dev"])
    with gzip.open(data_file("strassen/cogs_dev.tsv.gz")) as file:
        assert (tmp_path / "dev.tsv").read_bytes() == file.read()


def test_first_line(real):
    assert real["train"][0] == CogsExample(
        "A rose was helped by a dog .",
        "rose ( x _ 1 ) AND help . theme ( x _ 3 , x _ 1 ) AND help . agent ( x _ 3 , x _ 6 ) "
        "AND dog ( x _ 6 )",
        "in_distribution",
    )


@pytest.mark.parametrize("name", ["a.tsv", "a.tsv.gz"])
def test_round_trip(tmp_path, name):
    path = tmp_path / "new" / name
    write_cogs(path, iter(EXAMPLES))
    assert read_cogs(path) == EXAMPLES
    first = path.read_bytes()
    assert first.startswith(b"\x1f\x8b") == name.endswith(".gz")
    write_cogs(path, EXAMPLES)
    assert path.read_bytes() == first


def test_line_ends_and_a_misleading_name(path):
    content = path.read_bytes()
    path.write_bytes(content.replace(b"\n", b"\r\n"))
    assert read_cogs(path) == EXAMPLES
    path.write_bytes(content.removesuffix(b"\n"))
    assert read_cogs(path) == EXAMPLES
    path.write_bytes(gzip.compress(content))
    assert read_cogs(path) == EXAMPLES


@pytest.mark.parametrize(
    ("line", "named"),
    [
        (b"a sentence\tits form", "has 2 tab-separated columns, needs 3 .*category is missing"),
        (b"a sentence", "has 1 tab-separated columns.*logical_form is missing"),
        (b"", "has 1 tab-separated columns"),
        (b"a\tb\tc\td", "has 4 tab-separated columns, needs 3"),
        (b"a\t\tprimitive", "logical_form is empty"),
        (b"a\xff\tb\tprimitive", "not UTF-8: byte 0xff"),
    ],
)
def test_bad_line_is_named_or_left_out(path, line, named):
    good = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(good[0] + line + b"\n" + good[1])
    with pytest.raises(ValueError, match=rf"small\.tsv: line 2: {named}"):
        read_cogs(path)
    with pytest.warns(UserWarning, match=rf"left out: .*small\.tsv: line 2: {named}"):
        assert read_cogs(path, strict=False) == EXAMPLES


@pytest.mark.filterwarnings("ignore:left out")
def test_files_with_nothing_to_read(path):
    whole = gzip.compress(path.read_bytes())
    path.write_bytes(b"")
    with pytest.raises(ValueError, match=r"small\.tsv: line 1: "):
        read_cogs(path)
    with pytest.raises(ValueError, match=r"small\.tsv: holds no example"):
        read_cogs(path, strict=False)
    for broken in (whole[:-9], whole[:12], whole[:20] + b"\xff" * 20 + whole[40:]):
        path.write_bytes(broken)
        with pytest.raises(ValueError, match=r"small\.tsv: broken gzip file"):
            read_cogs(path)
    with pytest.raises(FileNotFoundError):
        read_cogs(path.parent / "absent.tsv")


@pytest.mark.parametrize("bad", ["a\tb", "a\nb", "a\r", "", " "])
def test_examples_that_would_not_read_back_leave_the_old_file(path, bad):
    before = path.read_bytes()
    with pytest.raises(ValueError, match=r"examples\[1\]: logical_form is"):
        write_cogs(path, [EXAMPLES[0], CogsExample("a", bad, "primitive")])
    assert path.read_bytes() == before


def test_vocabulary():
    vocabulary = WordVocabulary.from_texts(["b a", "c a"])
    assert vocabulary.words == ("a", "b", "c")
    assert vocabulary.vocab_size == 7
    ids = vocabulary.encode("c  a d b")
    assert ids.dtype == np.int32
    assert ids.tolist() == [6, 4, UNKNOWN, 5]
    assert vocabulary.decode([START, *ids, END, 4, PAD]) == "c a <unknown> b"
    assert vocabulary.encode("").tolist() == []
    assert vocabulary.decode([]) == ""


def test_vocabulary_of_published_files_restores_every_line(real):
    forms = WordVocabulary.from_texts(e.logical_form for e in real["train"])
    for example in real["train"][:500]:
        assert forms.decode(forms.encode(example.logical_form)) == example.logical_form
    held_out = [e.logical_form for e in real["test"]]
    unknown = [form for form in held_out if UNKNOWN in forms.encode(form)]
    assert {word for form in unknown for word in form.split()} - set(forms.words) == {"gardner"}


@pytest.mark.parametrize("words", [("b", "a"), ("a", "a"), ("a b",), ("",)])
def test_bad_words_are_refused(words):
    with pytest.raises(ValueError, match="words"):
        WordVocabulary(words)


def test_bad_ids_are_refused():
    vocabulary = WordVocabulary(("a",))
    for bad in (-1, 5):
        with pytest.raises(ValueError, match=rf"id {bad} at position 1 is not in \[0, 5\)"):
            vocabulary.decode([4, bad])
    with pytest.raises(ValueError, match=r"float64 \[1\]"):
        vocabulary.decode([0.5])
    with pytest.raises(ValueError, match=r"\[1, 1\]"):
        vocabulary.decode([[4]])
