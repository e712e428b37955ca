"""Mappings between PyTorch's names and layouts and ours."""

import numpy as np
import pytest
import safetensors.numpy

from neurips25.nn import (
    dense_entry,
    params_from_torch,
    params_to_torch,
    prefixed_entries,
    read_torch_state,
    same_entry,
)

LAYER = [dense_entry("fc.weight", "fc/w", 3, 2, 2), same_entry("fc.bias", "fc/b", 4)]
ENTRIES = [*prefixed_entries(LAYER, "edge_module.", "edge/"), same_entry("scale", "scale")]
STATE = {
    "edge_module.fc.weight": np.arange(12.0).reshape(4, 3),
    "edge_module.fc.bias": np.arange(4, dtype=np.float16),
    "scale": np.float32(2),
}


def test_layouts_paths_and_dtypes():
    params = params_from_torch(STATE, ENTRIES, "toy")
    assert params.keys() == {"edge", "scale"}
    assert params["edge"]["fc"].keys() == {"w", "b"}
    w, b = params["edge"]["fc"]["w"], params["edge"]["fc"]["b"]
    assert (w.dtype, b.dtype, params["scale"].dtype) == (np.float64, np.float32, np.float32)
    # Output features 2 i + j of a linear map are our w[:, i, j].
    x = np.array([1.0, 10.0, 100.0])
    np.testing.assert_array_equal(
        np.einsum("d,dij->ij", x, w).ravel(), STATE["edge_module.fc.weight"] @ x
    )


def test_there_and_back_is_the_identity():
    # The bias comes back as float32.
    back = params_to_torch(params_from_torch(STATE, ENTRIES, "toy"), ENTRIES)
    assert back.keys() == STATE.keys()
    for name, array in STATE.items():
        np.testing.assert_array_equal(back[name], array, strict=name != "edge_module.fc.bias")
        assert back[name].flags.c_contiguous


@pytest.mark.parametrize(
    "wrapper", ["module.", "_orig_mod.", "_orig_mod.module.", "module.module."]
)
def test_wrappers_are_taken_off_at_the_front_only(wrapper):
    wrapped = {wrapper + name: value for name, value in STATE.items()}
    assert read_torch_state(wrapped).keys() == STATE.keys()
    inside = ["net.module.w", "edge_module.w", "net._orig_mod.w"]
    assert list(read_torch_state(dict.fromkeys(inside, 0))) == inside


def test_files(tmp_path):
    path = tmp_path / "model.safetensors"
    arrays = {name: np.atleast_1d(value) for name, value in STATE.items()}
    safetensors.numpy.save_file(arrays, path)
    for where in (path, str(path)):
        state = read_torch_state(where)
        assert state.keys() == arrays.keys()
        for name, array in arrays.items():
            np.testing.assert_array_equal(state[name], array)
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(ValueError, match=r"model\.safetensors: not a whole safetensors file"):
        read_torch_state(path)
    with pytest.raises(FileNotFoundError):
        params_from_torch(tmp_path / "absent", ENTRIES, "toy")


def test_everything_that_does_not_fit_is_listed():
    state = STATE | {"extra": np.zeros(1), "edge_module.fc.bias": np.zeros(5)}
    del state["scale"]
    with pytest.raises(ValueError) as error:
        params_from_torch(state, ENTRIES, "toy model")
    for part in (
        "does not fit this toy model",
        "scale is missing",
        "extra is not known",
        "edge_module.fc.bias has shape (5,), needs (4,)",
    ):
        assert part in str(error.value)
    with pytest.raises(KeyError):
        params_to_torch({"scale": np.zeros(())}, ENTRIES)
