import jax
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P

from neurips25.training import batch_sharding, global_batch, make_mesh, parse_mesh, tree_shardings
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
    mesh = jax.sharding.AbstractMesh((2, 2, 4), ("data", "fsdp", "tensor"))
    assert _fit_spec(P("fsdp", "tensor"), (6, 8), mesh) == P("fsdp", "tensor")
    assert _fit_spec(P("fsdp", "tensor"), (6, 34), mesh) == P("fsdp")
    assert _fit_spec(P(("data", "fsdp")), (6,), mesh) == P()
    assert _fit_spec(P(("data", "fsdp")), (8, 3), mesh) == P(("data", "fsdp"))


def test_first_matching_rule_decides_and_optimiser_moments_follow(one):
    tree = {"mu": {"attn": {"wq": np.zeros((4, 4))}}, "count": np.zeros(())}
    rules = ((r"attn/wq$", P("fsdp")), (r"wq", P("tensor", "fsdp")))
    placed = tree_shardings(tree, rules, one)
    assert placed["count"].spec == P()
    assert placed["mu"]["attn"]["wq"].mesh is one
    with pytest.raises(ValueError, match=r"rule 'count'.*has 1 entries, array 'count' has shape"):
        tree_shardings(tree, ((r"count", P("fsdp")),), one)


def test_global_batch_is_sharded_by_rows(one):
    batch = global_batch({"x": np.arange(6).reshape(3, 2)}, one)
    assert batch["x"].sharding == batch_sharding(one)
    np.testing.assert_array_equal(batch["x"], np.arange(6).reshape(3, 2))
