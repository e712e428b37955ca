"""Files are replaced whole or not at all."""

import errno
import os
import pathlib

import pytest

from neurips25.data import replace_text, replaced_file


@pytest.fixture
def old(tmp_path):
    path = tmp_path / "a.txt"
    replace_text(path, "old")
    return path


def only(path):
    return [p.name for p in path.parent.iterdir()] == [path.name]


def test_a_file_and_its_folder_are_made(tmp_path):
    path = tmp_path / "new" / "folder" / "a.txt"
    replace_text(str(path), "é\n")
    assert path.read_bytes() == b"\xc3\xa9\n"
    assert only(path)


def test_the_old_content_stands_until_the_end(old):
    with replaced_file(old) as temporary:
        temporary.write_text("new")
        assert temporary.parent == old.parent
        assert old.read_text() == "old"
    assert old.read_text() == "new"
    assert only(old)


def test_two_writers_at_once_do_not_share_a_temporary_file(old):
    with replaced_file(old) as first, replaced_file(old) as second:
        first.write_text("first")
        second.write_text("second")
    assert old.read_text() == "first"
    assert only(old)


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_an_exception_in_the_middle_leaves_the_old_file(old, error):
    with pytest.raises(error), replaced_file(old) as temporary:
        temporary.write_text("half of the n")
        raise error
    assert old.read_text() == "old"
    assert only(old)


def test_a_body_that_writes_nothing_leaves_the_old_file(old):
    with pytest.raises(FileNotFoundError), replaced_file(old):
        pass
    assert old.read_text() == "old"


@pytest.mark.parametrize(
    ("owner", "name"), [(pathlib.Path, "write_text"), (os, "fsync"), (os, "replace")]
)
def test_a_full_disk_leaves_the_old_file(old, monkeypatch, owner, name):
    def full_disk(*args, **_):
        if name == "write_text":
            args[0].write_bytes(b"half")
        raise OSError(errno.ENOSPC, "no space left")

    monkeypatch.setattr(owner, name, full_disk)
    with pytest.raises(OSError, match="no space"):
        replace_text(old, "new")
    assert old.read_text() == "old"
    assert only(old)


def test_text_that_is_not_utf8_leaves_the_old_file(old):
    with pytest.raises(UnicodeEncodeError):
        replace_text(old, "new \ud800")
    assert old.read_text() == "old"
    assert only(old)
