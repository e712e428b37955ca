import json

import numpy as np
import pytest

from neurips25.data import SeekableBatches, host_rows


def test_state_goes_through_json_and_resumes():
    whole = SeekableBatches(lambda step: step)
    expected = [next(whole) for _ in range(7)]
    first = SeekableBatches(lambda step: step)
    head = [next(first) for _ in range(3)]
    resumed = SeekableBatches(lambda step: step)
    resumed.set_state(json.loads(json.dumps(first.get_state())))
    assert head + [next(resumed) for _ in range(4)] == expected


def test_getting_the_state_does_not_advance():
    batches = SeekableBatches(lambda step: step, position=5)
    assert batches.get_state() == batches.get_state() == {"position": 5}
    assert next(batches) == 5
    assert iter(batches) is batches


def test_a_failed_batch_is_tried_again():
    failures = [OSError("disk")]

    def batch_at(step):
        if failures:
            raise failures.pop()
        return step

    batches = SeekableBatches(batch_at)
    with pytest.raises(OSError, match="disk"):
        next(batches)
    assert next(batches) == 0


@pytest.mark.parametrize("state", [{}, {"position": -1}, {"position": "3"}, {"position": True}])
def test_bad_states_are_refused_and_change_nothing(state):
    batches = SeekableBatches(lambda step: step, position=2)
    with pytest.raises(ValueError, match="position"):
        batches.set_state(state)
    assert next(batches) == 2


def test_numpy_positions_are_kept_as_python_integers():
    batches = SeekableBatches(lambda step: step, position=np.int64(4))
    assert json.dumps(batches.get_state()) == '{"position": 4}'


def test_hosts_share_out_all_rows():
    rows = np.arange(12)
    parts = [rows[host_rows(12, i, 4)] for i in range(4)]
    assert [len(part) for part in parts] == [3, 3, 3, 3]
    np.testing.assert_array_equal(np.concatenate(parts), rows)


@pytest.mark.parametrize(
    ("batch", "index", "count", "named"),
    [(10, 0, 4, "batch_size"), (0, 0, 1, "batch_size"), (8, 4, 4, "process_index"),
     (8, -1, 4, "process_index"), (8, 0, 0, "process_count")],
)  # fmt: skip
def test_impossible_shares_are_refused(batch, index, count, named):
    with pytest.raises(ValueError, match=named):
        host_rows(batch, index, count)
