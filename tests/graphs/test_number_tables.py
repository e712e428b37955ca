import gzip

import numpy as np
import pytest

from neurips25.graphs.number_tables import line_of_row, load_table, open_text


@pytest.fixture
def path(tmp_path):
    return tmp_path / "t.csv"


@pytest.mark.parametrize(
    ("text", "options", "expected"),
    [
        ("1,2\n3,4\n", {}, [[1, 2], [3, 4]]),
        ("1,2\r\n3,4", {}, [[1, 2], [3, 4]]),
        ("a,b\n1,2\n", {"skip_lines": 1}, [[1, 2]]),
        ("1 \t2\n 3 4\n", {"delimiter": None}, [[1, 2], [3, 4]]),
        ("1,2,x\n3,4\n", {"columns": 2}, [[1, 2], [3, 4]]),
        ("\n5\n\n6\n", {}, [[5], [6]]),
    ],
)
def test_tables(path, text, options, expected):
    path.write_text(text, newline="")
    table = load_table(path, np.int64, **options)
    assert table.dtype == np.int64
    assert table.tolist() == expected
    path.write_bytes(gzip.compress(text.encode()))
    assert load_table(path, np.int64, **options).tolist() == expected


def test_empty_tables(path):
    for text in ("", "\n", "a,b\n"):
        path.write_text(text)
        skip = int(text.startswith("a"))
        assert load_table(path, np.int64, columns=2, skip_lines=skip).shape == (0, 2)


def test_floats(path):
    path.write_text("1.5,nan\n-inf,1e3\n")
    table = load_table(path, np.float32)
    assert table.dtype == np.float32
    np.testing.assert_array_equal(table, np.array([[1.5, np.nan], [-np.inf, 1000]], np.float32))


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("1,2\n\n3,x\n", "line 3: 'x' is not an integer"),
        ("1,2\n3,4.5\n", "line 2: '4.5' is not an integer"),
        ("1,2\n3\n", "line 2: has 1 columns, needs 2"),
        ("1,2\n3,4,5\n", "line 2: has 3 columns, needs 2"),
        ("1,2\n3,\n", "line 2: '' is not an integer"),
        ("1,2\n3,99999999999999999999\n", "'?99999999999999999999"),
    ],
)
def test_bad_lines_are_named(path, text, named):
    path.write_text(text)
    with pytest.raises(ValueError, match=rf"t\.csv: .*{named}"):
        load_table(path, np.int64)


def test_line_of_row(path):
    path.write_text("head\n\n1\n2\n\n3\n")
    assert [line_of_row(path, row, skip_lines=1) for row in range(3)] == [3, 4, 6]


def test_files_that_are_no_text(path):
    path.write_bytes(b"1,2\n\xff\xfe,3\n")
    with pytest.raises(ValueError, match=r"t\.csv: not UTF-8"):
        load_table(path, np.int64)
    whole = gzip.compress(b"1,2\n" * 99)
    for broken in (whole[:-9], whole[:12], whole[:10] + b"\xff" * 20 + whole[30:]):
        path.write_bytes(broken)
        with pytest.raises(ValueError, match=r"t\.csv: broken gzip file"):
            load_table(path, np.int64)
    path.unlink()
    with pytest.raises(FileNotFoundError):
        load_table(path, np.int64)


def test_text_is_opened_without_its_byte_order_mark(path):
    path.write_bytes(b"\xef\xbb\xbfid,x\n")
    with open_text(path) as text:
        assert text.read() == "id,x\n"
