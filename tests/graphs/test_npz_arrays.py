import numpy as np
import pytest

from neurips25.graphs.npz_arrays import NpzArrays, errors_name, save_npz


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "new" / "a.npz"
    save_npz(path, x=np.arange(3), allow=np.zeros((2, 0)))
    return path


def test_round_trip(path):
    arrays = NpzArrays(path)
    assert "x" in arrays
    assert "y" not in arrays
    assert arrays["x"].tolist() == [0, 1, 2]
    assert arrays["allow"].shape == (2, 0)
    assert [p.name for p in path.parent.iterdir()] == ["a.npz"]


def test_an_array_that_is_not_there(path):
    with pytest.raises(ValueError, match=r"a\.npz: has no array 'y', only allow, x"):
        NpzArrays(path)["y"]


def test_objects_are_not_unpickled(path):
    np.savez(path, x=np.array([None]), y=np.arange(2))
    arrays = NpzArrays(path)
    assert arrays["y"].tolist() == [0, 1]
    with pytest.raises(ValueError, match=r"a\.npz: array 'x' can't be read: Object arrays"):
        arrays["x"]


def test_other_files_are_refused(path):
    with open(path, "wb") as file:
        np.save(file, np.arange(3))
    with pytest.raises(ValueError, match=r"a\.npz: not an \.npz file"):
        NpzArrays(path)
    path.unlink()
    with pytest.raises(FileNotFoundError):
        NpzArrays(path)
    with pytest.raises(IsADirectoryError):
        NpzArrays(path.parent)


def test_errors_name_a_file_once():
    for message in ("bad", "a.npz: bad"):
        with pytest.raises(ValueError, match=r"^a\.npz: bad$"), errors_name("a.npz"):
            raise ValueError(message)
    with pytest.raises(KeyError), errors_name("a.npz"):
        raise KeyError("bad")
