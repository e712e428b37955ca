import json
import logging
import pathlib
import shutil

import jax
import numpy as np
import pytest

from neurips25 import training
from tests.training import toy


@pytest.fixture(scope="module")
def mesh():
    return training.make_mesh({"data": 1}, jax.devices()[:1])


@pytest.fixture(scope="module")
def written(mesh, tmp_path_factory):
    """A directory with checkpoints of steps 1, 2, 3 and the fingerprints of the states."""
    root = tmp_path_factory.mktemp("checkpoints")
    state, step = toy.make(mesh)
    checkpoints = training.Checkpointer(root, keep=3)
    sums = {}
    for i in range(3):
        state, _ = step(state, training.global_batch(toy.batch_at(i), mesh))
        checkpoints.save(state, {"position": i + 1})
        sums[i + 1] = np.asarray(training.fingerprint(state))
    checkpoints.close()
    return root, sums


@pytest.fixture
def like(mesh):
    return training.abstract_state(toy.init, toy.transform(), mesh=mesh, rules=toy.RULES, ema=True)


def copy_of(written, tmp_path):
    return pathlib.Path(shutil.copytree(written[0], tmp_path / "copy"))


def test_round_trip_is_exact(written, like):
    found = training.Checkpointer(written[0]).restore_latest(like)
    assert (found.step, found.input_state) == (3, {"position": 3})
    np.testing.assert_array_equal(training.fingerprint(found.state), written[1][3])
    assert jax.numpy.issubdtype(found.state.key.dtype, jax.dtypes.prng_key)


def test_empty_directory_gives_none(tmp_path, like):
    assert training.Checkpointer(tmp_path).restore_latest(like) is None


def test_only_the_latest_are_kept(mesh, tmp_path):
    state, step = toy.make(mesh)
    checkpoints = training.Checkpointer(tmp_path, keep=2)
    for i in range(4):
        state, _ = step(state, training.global_batch(toy.batch_at(i), mesh))
        checkpoints.save(state, {})
    checkpoints.wait()
    assert checkpoints.steps() == [3, 4]


def _damage(path: pathlib.Path, how: str) -> None:
    data = path.read_bytes()
    if how == "delete":
        path.unlink()
    elif how == "truncate":
        path.write_bytes(data[: len(data) // 2])
    else:
        middle = len(data) // 2
        path.write_bytes(data[:middle] + bytes([data[middle] ^ 0x10]) + data[middle + 1 :])


@pytest.mark.parametrize("how", ["delete", "truncate", "flip"])
def test_damaged_latest_falls_back_with_a_warning(written, like, tmp_path, caplog, how):
    root = copy_of(written, tmp_path)
    files = [p for p in (root / "3" / "state").rglob("*") if p.is_file()]
    data = [p for p in files if p.parent.name == "d"]
    assert data
    for path in data + [p for p in files if p.name == "manifest.ocdbt"]:
        _damage(path, how)
    with caplog.at_level(logging.WARNING):
        found = training.Checkpointer(root).restore_latest(like)
    assert found.step == 2
    np.testing.assert_array_equal(training.fingerprint(found.state), written[1][2])
    assert "checkpoint of step 3" in caplog.text
    assert "damaged" in caplog.text


def test_silently_changed_values_are_noticed(written, like, tmp_path, caplog):
    # Change the recorded fingerprint instead of the data: no file format can notice that.
    root = copy_of(written, tmp_path)
    path = root / "3" / "meta" / "metadata"
    meta = json.loads(path.read_text())
    meta["fingerprint"][1] ^= 1
    path.write_text(json.dumps(meta))
    with caplog.at_level(logging.WARNING):
        assert training.Checkpointer(root).restore_latest(like).step == 2
    assert "do not match their fingerprint: params/dense/b" in caplog.text


def test_all_damaged_is_an_error_that_names_the_directory(written, like, tmp_path):
    root = copy_of(written, tmp_path)
    for path in root.rglob("*"):
        if path.is_file() and path.parent.name in ("d", "meta"):
            path.write_bytes(b"junk")
    with pytest.raises(training.CheckpointError, match=f"no checkpoint in {root} can be read"):
        training.Checkpointer(root).restore_latest(like)


def test_checkpoint_of_another_model_is_refused_with_the_difference(written, mesh):
    def wider(key):
        variables = toy.init(key)
        variables["params"]["out"]["w"] = jax.numpy.zeros((8, 3))
        return variables

    like = training.abstract_state(wider, toy.transform(), mesh=mesh, ema=True)
    with pytest.raises(
        training.CheckpointError, match=r"params/out/w has shape \(8, 2\) float32, needs \(8, 3\)"
    ):
        training.Checkpointer(written[0]).restore_latest(like)


def test_tree_is_listed_with_names_shapes_dtypes(written):
    tree = training.checkpoint_tree(written[0], 2)
    assert tree["params/dense/w"].shape == (4, 8)
    assert tree["params/dense/w"].dtype == np.float32
    assert tree["opt_state/0/mu/out/w"].shape == (8, 2)
    assert tree["step"].dtype == np.int32
    with pytest.raises(training.CheckpointError, match=r"of step 9 in .*steps there: \[1, 2, 3\]"):
        training.checkpoint_tree(written[0], 9)


def test_directory_that_cannot_be_used_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(training.CheckpointError, match=r"cannot use checkpoint directory .*file"):
        training.Checkpointer(tmp_path / "file")
