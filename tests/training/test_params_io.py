import jax
import numpy as np
import pytest

from neurips25.training import load_params, save_params


def test_round_trip_keeps_names_dtypes_values(tmp_path):
    params = {
        "wte": jax.numpy.arange(6, dtype=jax.numpy.bfloat16).reshape(2, 3),
        "block_0": {"attn": {"wq": np.random.default_rng(0).normal(size=(4, 2))}},
    }
    save_params(tmp_path / "p.safetensors", params)
    loaded = load_params(tmp_path / "p.safetensors")
    assert jax.tree.structure(loaded) == jax.tree.structure(params)
    for a, b in zip(jax.tree.leaves(loaded), jax.tree.leaves(params), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, np.asarray(b))


def test_errors(tmp_path):
    with pytest.raises(ValueError, match="nested dicts"):
        save_params(tmp_path / "p", {"a/b": np.zeros(1)})
    with pytest.raises(ValueError, match="nested dicts"):
        save_params(tmp_path / "p", {"a": [np.zeros(1)]})
    assert list(tmp_path.iterdir()) == []
    save_params(tmp_path / "p", {"a": np.zeros(100)})
    (tmp_path / "p").write_bytes((tmp_path / "p").read_bytes()[:-50])
    with pytest.raises(ValueError, match="not a whole safetensors file"):
        load_params(tmp_path / "p")
    with pytest.raises(FileNotFoundError):
        load_params(tmp_path / "absent")
