import jax
import numpy as np
import optax
import pytest
from jax.sharding import AbstractMesh
from jax.sharding import PartitionSpec as P

from neurips25.training import (
    AXES,
    batch_sharding,
    global_batch,
    make_mesh,
    parse_mesh,
    tree_shardings,
)
from neurips25.training.mesh import _fit_spec


@pytest.fixture
def one():
    return make_mesh({"data": 1}, jax.devices()[:1])


def test_mesh_has_all_axes_in_order(one):
    assert dict(one.shape) == {"data": 1, "fsdp": 1, "tensor": 1}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("dta:2", "unknown axis 'dta'"),
        ("data:0", "positive size"),
        ("data", "positive size"),
        ("data:2,data:2", "twice"),
    ],
)
def test_parse_mesh_names_what_is_wrong(text, problem):
    with pytest.raises(ValueError, match=problem):
        parse_mesh(text)


def test_device_count_must_fit(one):
    with pytest.raises(ValueError, match=r"fsdp:2.* needs 2 devices, there are 1"):
        make_mesh({"fsdp": 2}, jax.devices()[:1])
    with pytest.raises(ValueError, match="unknown mesh axes"):
        make_mesh({"model": 1})


def test_axis_that_does_not_divide_is_dropped():
    mesh = AbstractMesh((2, 2, 4), AXES)
    assert _fit_spec(P("fsdp", "tensor"), (6, 8), mesh) == P("fsdp", "tensor")
    assert _fit_spec(P("fsdp", "tensor"), (6, 34), mesh) == P("fsdp")
    assert _fit_spec(P(("data", "fsdp")), (6,), mesh) == P()
    assert _fit_spec(P(("data", "fsdp")), (8, 3), mesh) == P(("data", "fsdp"))


def test_first_matching_rule_decides_and_optimiser_moments_follow():
    mesh = AbstractMesh((2, 2, 2), AXES)
    rules = ((r"attn/wq$", P("fsdp")), (r"wq", P("tensor", "fsdp")))
    params = {"attn": {"wq": np.zeros((4, 4))}, "mlp": {"wq": np.zeros((4, 4))}, "b": np.zeros(4)}
    expected = {"attn": {"wq": P("fsdp")}, "mlp": {"wq": P("tensor", "fsdp")}, "b": P()}
    state = optax.adam(1e-3).init(params)

    placed = jax.tree.map(lambda s: s.spec, tree_shardings((params, state), rules, mesh))
    assert placed[0] == expected
    moments = placed[1][0]
    assert moments.mu == moments.nu == expected
    assert moments.count == P()
    with pytest.raises(ValueError, match=r"rule 'count'.*has 1 entries, array '1/0/count' has sh"):
        tree_shardings((params, state), ((r"count", P("fsdp")),), mesh)


def test_global_batch_is_sharded_by_rows(one):
    batch = global_batch({"x": np.arange(6).reshape(3, 2)}, one)
    assert batch["x"].sharding == batch_sharding(one)
    np.testing.assert_array_equal(batch["x"], np.arange(6).reshape(3, 2))
    with pytest.raises(ValueError, match="batch 'size': a scalar has no rows"):
        global_batch({"x": np.zeros(3), "size": np.float32(3)}, one)
