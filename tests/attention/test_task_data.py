import dataclasses

import numpy as np
import pytest

from neurips25.attention.composition_tasks import (
    make_binary_relation,
    make_function_composition,
    make_quotient_relation,
)
from neurips25.attention.match3 import make_match3
from neurips25.attention.task_data import (
    IGNORED_LABEL,
    load_task,
    majority_accuracy,
    raw_features,
    save_task,
    split_validation,
    take,
)

MAKERS = {
    "function_composition": lambda num: make_function_composition(0, num, 4, 7),
    "binary_relation": lambda num: make_binary_relation(0, num, 2, 4),
    "match3": lambda num: make_match3(0, num, 10, 12, 13, 300),
    "quotient_relation": lambda num: make_quotient_relation(0, num, 2, 4, num_colours=3),
}
ARRAYS = ("tokens", "mask", "labels", "lengths")


@pytest.fixture(params=MAKERS)
def data(request):
    made = MAKERS[request.param](40)
    assert made.task == request.param
    return made


@pytest.fixture
def saved(tmp_path):
    """A saved task and a function that replaces some of its arrays (None: leaves it out)."""
    path = tmp_path / "brc.npz"
    save_task(path, make_binary_relation(0, 5, 2, 3))

    def change(**arrays):
        with np.load(path) as file:
            content = {name: file[name] for name in file.files} | arrays
        np.savez(path, **{name: array for name, array in content.items() if array is not None})
        return path

    return change


def assert_same(a, b):
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
        assert getattr(a, name).dtype == getattr(b, name).dtype
    for name in ("task", "field_sizes", "scale", "side"):
        assert getattr(a, name) == getattr(b, name)


def test_round_trip(tmp_path, data):
    # Any name: numpy alone would have appended its suffix.
    path = tmp_path / "new" / "task.data"
    save_task(path, data)
    assert_same(load_task(path), data)
    assert [p.name for p in path.parent.iterdir()] == ["task.data"]


def expected_features(data, token):
    s = data.scale
    if data.task == "function_composition":
        i, symbol, query = token
        return [i / s, i**2 / s, symbol / s, symbol**2 / s, query]
    if data.task == "match3":
        i, p = token
        return [i / s, p / s, p**2 / s, 1]
    i, j, a, b, *colours = token
    return [i / s, j / s, i**2 / s, j**2 / s, a, b, *(c / 4 for c in colours)]


def test_raw_features(data):
    scales = {"function_composition": 49, "match3": 169}
    assert data.scale == scales.get(data.task, 16)
    features = raw_features(data)
    assert features.dtype == np.float32
    width = {"function_composition": 5, "binary_relation": 6, "match3": 4, "quotient_relation": 8}
    assert features.shape == (*data.mask.shape, width[data.task])
    assert not features[~data.mask].any()
    for token, row in zip(data.tokens[data.mask].tolist(), features[data.mask]):
        np.testing.assert_allclose(row, expected_features(data, token), rtol=1e-6)


def test_take(data):
    for indices in ([3, 1, 1], np.arange(40) % 7 == 0, slice(5, 9)):
        taken = take(data, indices)
        for name in ARRAYS:
            np.testing.assert_array_equal(getattr(taken, name), getattr(data, name)[indices])
        assert taken.field_sizes == data.field_sizes


def test_split_keeps_every_example_once(data):
    train, validation = split_validation(data, 0.25)
    assert (len(train), len(validation)) == (30, 10)
    np.testing.assert_array_equal(np.concatenate([train.tokens, validation.tokens]), data.tokens)
    for fraction in (0.0, 0.01, 0.99, 1.0, -0.5, 2.0):
        with pytest.raises(ValueError, match=f"fraction={fraction} of 40 examples"):
            split_validation(data, fraction)


def test_majority_accuracy():
    assert majority_accuracy([[0, 1, 0, 0], [IGNORED_LABEL] * 4]) == 0.75
    assert majority_accuracy([1, 1, 1]) == 1.0
    data = make_binary_relation(0, 500)
    ones, zeros = ((data.labels == value).sum() for value in (1, 0))
    assert majority_accuracy(data.labels) == pytest.approx(max(ones, zeros) / (ones + zeros))
    with pytest.raises(ValueError, match="labels has none"):
        majority_accuracy([IGNORED_LABEL])


@pytest.mark.parametrize("name", ["task", *ARRAYS, "field_sizes", "scale", "side"])
def test_missing_array_is_named(saved, name):
    with pytest.raises(ValueError, match=rf"brc\.npz: array '{name}' is missing"):
        load_task(saved(**{name: None}))


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"tokens": np.zeros((5, 9), int)}, r"tokens has shape \[5, 9\].*\[N, n, 4\].*A_ij"),
        ({"tokens": np.zeros((5, 9, 3), int)}, r"tokens has shape \[5, 9, 3\]"),
        ({"tokens": np.zeros((5, 9, 4))}, "tokens is float64"),
        ({"tokens": np.full((5, 9, 4), 7)}, "tokens has a value outside"),
        ({"tokens": np.full((5, 9, 4), -1)}, "tokens has a value outside"),
        ({"mask": np.ones((5, 8), bool)}, r"mask is bool \[5, 8\], needs bool \[5, 9\]"),
        ({"mask": np.ones((5, 9), int)}, r"mask is int64 \[5, 9\], needs bool"),
        ({"labels": np.zeros((4, 9), int)}, r"labels is int64 \[4, 9\], needs integer \[5, 9\]"),
        ({"labels": np.full((5, 9), 2)}, "labels has a value that is not 0, 1 or -100"),
        ({"lengths": np.zeros((5, 1), int)}, r"lengths is int64 \[5, 1\], needs integer \[5\]"),
        ({"field_sizes": np.array([3, 3])}, "field_sizes has 2 numbers, not 4"),
        ({"side": np.array(0)}, "side is None, 9 tokens of a grid need"),
        ({"side": np.array(4)}, "side is 4, 9 tokens of a grid need"),
        ({"scale": np.ones(3)}, "brc"),
        ({"task": np.array("sorting")}, "'sorting' is not a valid CompositionTask"),
    ],
)  # fmt: skip
def test_bad_array_is_named_with_its_file(saved, changed, named):
    with pytest.raises(ValueError, match=named) as error:
        load_task(saved(**changed))
    assert "brc.npz: " in str(error.value)


def test_files_that_are_no_task(tmp_path, saved):
    path = saved()
    whole = path.read_bytes()
    for content in (b"", b"no archive at all", whole[: len(whole) // 2], whole[:-10]):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"brc\.npz: not a task file"):
            load_task(path)
    np.save(tmp_path / "one.npy", np.zeros(3))
    with pytest.raises(ValueError, match=r"one\.npy: not a task file"):
        load_task(tmp_path / "one.npy")
    with pytest.raises(FileNotFoundError):
        load_task(tmp_path / "absent.npz")


def test_pickled_content_is_refused(saved):
    with pytest.raises(ValueError, match=r"brc\.npz: not a task file.*pickle"):
        load_task(saved(labels=np.array([{"a": 1}], dtype=object)))


def test_arrays_must_fit_each_other(data):
    with pytest.raises(ValueError, match=r"lengths is int32 \[3\], needs integer \[40\]"):
        dataclasses.replace(data, lengths=data.lengths[:3])
