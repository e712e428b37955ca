import gzip

import numpy as np
import pytest

from neurips25.graphs.number_tables import (
    delimiter_of,
    line_of_row,
    load_table,
    open_text,
    plain_id,
)


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
        ("1,2\n  \n\t\n3,4\n", {}, [[1, 2], [3, 4]]),
        ("9,1,2\n8,3,4\n", {"columns": (2, 1)}, [[2, 1], [4, 3]]),
        ('"1","2"\n 3 , "4"\n', {}, [[1, 2], [3, 4]]),
        ("1.0,2.\n3,4.00e+00\n", {}, [[1, 2], [3, 4]]),
        ("x,1.0\nx,3\n", {"columns": (1,)}, [[1], [3]]),
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
    for text in ("", "\n", " \n\t\n", "a,b\n"):
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
        ("1,2\n3,99999999999999999999\n", "line 2: '99999999999999999999' does not fit int64"),
        ("1,2\n3,1e30\n", "line 2: '1e30' is not an integer"),
        ("1,2\n3,nan\n", "line 2: 'nan' is not an integer"),
        ("1.0,2\n3,1_000\n", "line 2: '1_000' is not an integer"),
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


@pytest.mark.parametrize(
    ("line", "delimiter"),
    [
        ("1;0,5;2", ";"),
        ("ann,b;c", ","),
        ('"a;b",c', ","),
        ("a b\tc", "\t"),
        ("0 1 {'w': 3, 'z': 4}", None),
        ("0 1", None),
    ],
)
def test_delimiters(line, delimiter):
    assert delimiter_of(line) == delimiter


def test_ids_that_are_whole_numbers_are_the_same_in_any_form():
    for cell in ("12", " 12.0", "12.", "1.2e1", "1.2E+01"):
        assert plain_id(cell) == "12"
    for cell in ("12.5", "1e5", "v12.0", "9007199254740993.0", "-"):
        assert plain_id(cell) == cell
