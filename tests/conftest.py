"""Fixtures shared by the whole suite: data folders, float64, the compilation cache."""

import os
import pathlib

# Before jax is imported anywhere: the CPU backend only, and one cache of compiled
# programs for all workers and all the subprocesses that tests start.
ROOT = pathlib.Path(__file__).resolve().parents[1]
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(ROOT / ".cache" / "jax"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.2")
os.environ.setdefault("MPLBACKEND", "agg")

import jax  # noqa: E402
import numpy as np  # noqa: E402
import pytest  # noqa: E402

# Optional folder with reference arrays (golden/) and real data sets (data/).
SHARED = pathlib.Path(os.environ.get("NEURIPS25_SHARED", ROOT.parent / "shared"))


@pytest.fixture
def x64():
    """Runs one test in float64."""
    with jax.enable_x64(True):
        yield


@pytest.fixture(scope="session")
def golden():
    """golden("tpa/attn_mha.npz") -> dict of arrays; skips where the folder is absent."""

    def load(name: str) -> dict[str, np.ndarray]:
        path = SHARED / "golden" / name
        if not path.exists():
            pytest.skip(f"reference arrays not here: {path} (set NEURIPS25_SHARED)")
        with np.load(path, allow_pickle=False) as f:
            return {k: f[k] for k in f.files}

    return load


@pytest.fixture(scope="session")
def data_file():
    """data_file("text/tinyshakespeare.txt") -> path; skips where the folder is absent."""

    def find(name: str) -> pathlib.Path:
        path = SHARED / "data" / name
        if not path.exists():
            pytest.skip(f"data set not here: {path} (set NEURIPS25_SHARED)")
        return path

    return find
