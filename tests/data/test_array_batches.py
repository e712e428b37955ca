"""Shuffled epochs and evaluation batches over plain arrays."""

import itertools
import json

import numpy as np
import pytest

from neurips25.data import ArrayBatches, evaluation_batches


def numbered(rows):
    """Row i holds i in each array, so that a batch tells where it comes from."""
    index = np.arange(rows)
    return {
        "x": np.broadcast_to(index[:, None, None], (rows, 2, 3)).astype(np.float32),
        "label": index.astype(np.int64),
        "even": index % 2 == 0,
    }


def labels(batches, steps):
    return np.concatenate([batches.batch_at(step)["label"] for step in steps])


def test_batches_keep_dtypes_shapes_and_the_rows_together():
    batches = ArrayBatches(numbered(10), batch_size=4, seed=1)
    for batch in itertools.islice(batches, 5):
        assert {k: (v.dtype, v.shape) for k, v in batch.items()} == {
            "x": (np.float32, (4, 2, 3)),
            "label": (np.int64, (4,)),
            "even": (np.bool_, (4,)),
        }
        np.testing.assert_array_equal(batch["x"][:, 1, 2], batch["label"])
        np.testing.assert_array_equal(batch["even"], batch["label"] % 2 == 0)


@pytest.mark.parametrize("rows", [12, 15])
def test_an_epoch_holds_each_row_at_most_once_and_all_rows_are_met(rows):
    batches = ArrayBatches(numbered(rows), batch_size=4, seed=2)
    assert batches.steps_per_epoch == 3
    epochs = [labels(batches, range(3 * e, 3 * e + 3)) for e in range(20)]
    assert all(len(set(epoch.tolist())) == 12 for epoch in epochs)
    assert set(np.concatenate(epochs).tolist()) == set(range(rows))
    assert len({tuple(epoch.tolist()) for epoch in epochs}) == 20


def test_the_order_is_the_documented_permutation():
    batches = ArrayBatches(numbered(11), batch_size=5, seed=7)
    for epoch in (0, 3):
        rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence([7, epoch])))
        expected = rng.permutation(11)[:10]
        np.testing.assert_array_equal(labels(batches, (2 * epoch, 2 * epoch + 1)), expected)


def test_a_batch_depends_on_seed_and_step_only():
    batches = ArrayBatches(numbered(40), batch_size=4, seed=3)
    for step in (25, 7, 8):  # other epochs first, and the same epoch again
        expected = ArrayBatches(numbered(40), batch_size=4, seed=3).batch_at(step)["label"]
        np.testing.assert_array_equal(batches.batch_at(step)["label"], expected)
    other = ArrayBatches(numbered(40), batch_size=4, seed=4)
    assert not np.array_equal(labels(other, range(10)), labels(batches, range(10)))


def test_the_order_of_an_epoch_is_drawn_once(monkeypatch):
    drawn = []
    permutation = ArrayBatches._permutation

    def counted(self, epoch):
        drawn.append(epoch)
        return permutation(self, epoch)

    monkeypatch.setattr(ArrayBatches, "_permutation", counted)
    for batch in itertools.islice(ArrayBatches(numbered(12), batch_size=4), 7):
        assert len(batch["label"]) == 4
    assert drawn == [0, 1, 2]


def test_batches_are_copies():
    arrays = numbered(8)
    batch = ArrayBatches(arrays, batch_size=8).batch_at(0)
    batch["x"][:] = -1
    np.testing.assert_array_equal(arrays["x"], numbered(8)["x"])


def test_resume_from_the_saved_position():
    whole = list(itertools.islice(ArrayBatches(numbered(10), batch_size=4), 7))
    first = iter(ArrayBatches(numbered(10), batch_size=4))
    for _ in range(3):
        next(first)
    resumed = iter(ArrayBatches(numbered(10), batch_size=4))
    resumed.set_state(json.loads(json.dumps(first.get_state())))
    for expected in whole[3:]:
        np.testing.assert_array_equal(next(resumed)["label"], expected["label"])


@pytest.mark.parametrize("hosts", [2, 3, 6])
def test_hosts_together_hold_the_global_batch(hosts):
    whole = ArrayBatches(numbered(20), batch_size=6, seed=2)
    parts = [ArrayBatches(numbered(20), 6, 2, i, hosts) for i in range(hosts)]
    for step in (0, 11):
        local = [part.batch_at(step)["label"] for part in parts]
        assert {len(rows) for rows in local} == {6 // hosts}
        np.testing.assert_array_equal(np.concatenate(local), whole.batch_at(step)["label"])


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"arrays": {}}, "at least one array"),
        ({"arrays": {"a": np.zeros(9), "b": np.zeros((8, 2))}}, r"'a': \[9\], 'b': \[8, 2\]"),
        ({"arrays": {"a": np.float32(1)}}, r"'a': \[\]"),
        ({"batch_size": 10}, "9 rows, a batch needs 10"),
        ({"batch_size": 0}, "batch_size"),
        ({"batch_size": 5, "process_count": 2}, "batch_size"),
        ({"process_index": 1}, "process_index"),
        ({"seed": -1}, "seed"),
        ({"seed": 2**32}, "seed"),
    ],
)
def test_bad_descriptions_are_refused(change, named):
    good = {"arrays": numbered(9), "batch_size": 4}
    ArrayBatches(**good)
    with pytest.raises(ValueError, match=named):
        ArrayBatches(**(good | change))


@pytest.mark.parametrize("rows", [1, 7, 8, 9])
def test_evaluation_gives_every_row_once_in_order(rows):
    arrays = numbered(rows)
    batches = list(evaluation_batches(arrays, 4))
    assert len(batches) == -(-rows // 4)
    assert {b["x"].shape for b in batches} == {(4, 2, 3)}
    assert {b["real"].shape for b in batches} == {(4,)}
    whole = {k: np.concatenate([b[k] for b in batches]) for k in batches[0]}
    assert whole["real"].dtype == np.bool_
    np.testing.assert_array_equal(whole["real"], np.arange(len(whole["real"])) < rows)
    for name, array in arrays.items():
        assert whole[name].dtype == array.dtype
        np.testing.assert_array_equal(whole[name][:rows], array)
        assert not whole[name][rows:].any()


def test_the_name_of_the_padding_mask_can_be_chosen():
    (batch,) = evaluation_batches({"real": np.ones(2)}, 3, real="counts")
    assert batch["counts"].tolist() == [True, True, False]
    assert batch["real"].tolist() == [1, 1, 0]


@pytest.mark.parametrize(
    ("arrays", "batch_size", "named"),
    [
        ({}, 2, "at least one array"),
        ({"a": np.zeros((0, 3))}, 2, "no rows"),
        ({"a": np.zeros(3), "b": np.zeros(2)}, 2, r"'a': \[3\], 'b': \[2\]"),
        ({"a": np.zeros(3)}, 0, "batch_size"),
        ({"real": np.zeros(3)}, 2, "real='real' is the name of an array"),
    ],
)
def test_bad_evaluation_arguments_are_refused_at_the_call(arrays, batch_size, named):
    with pytest.raises(ValueError, match=named):
        evaluation_batches(arrays, batch_size)
