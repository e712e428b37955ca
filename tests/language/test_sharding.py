"""The placement rules of T6 against the parameters they are written for."""

import re

import jax
import pytest
from jax.sharding import AbstractMesh, PartitionSpec

from neurips25.language import T6_RULES
from neurips25.training import tree_shardings
from tests.language import models

MESH = AbstractMesh((2, 2, 2), ("data", "fsdp", "tensor"))
# Sizes that divide by the mesh, where the small models' own do not.
EVEN = {"n_embd": 16, "n_head": 4, "vocab_size": 24, "ffn_hidden": 40, "tie_embeddings": False}
TABLES = ("fsdp", "tensor")
EXPECTED = {
    "wte": (TABLES,),
    "lm_head": (TABLES,),
    "w1": ("fsdp", "tensor"),  # [d, hidden]
    "w2": ("fsdp", "tensor"),
    "w3": ("tensor", "fsdp"),  # [hidden, d]
    "wo": ("tensor", None, "fsdp"),  # [H, D, d]
    "wq": ("fsdp", "tensor"),  # [d, H, D]
    "wk": ("fsdp", "tensor"),
    "wv": ("fsdp", "tensor"),
    "w_dq": ("fsdp",),  # [d, latent]
    "w_dkv": ("fsdp",),
    "w_uq": ("fsdp", "tensor"),  # [latent, H, ...]
    "w_ukv": ("fsdp", "tensor"),
    **{f"wa_{side}": ("fsdp", None, "tensor") for side in "qkv"},  # [d, R, H]
    **{f"w{factor}_{side}": ("fsdp",) for factor in "bc" for side in ("q", "k", "v", "kv")},
    **{f"a_{side}": (None, "tensor") for side in "qkv"},  # [R, H]
    **{f"b_{side}": () for side in "qkv"},  # [R, D]: every head reads them
}
ONE_KV_HEAD = {"wk": ("fsdp",), "wv": ("fsdp",)}


def named(tree):
    flat, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {jax.tree_util.keystr(p, simple=True, separator="/"): leaf for p, leaf in flat}


def first_match(path):
    return next((pattern for pattern, _ in T6_RULES if re.search(pattern, path)), None)


@pytest.mark.parametrize("name", models.KINDS)
def test_heads_go_to_tensor_and_the_width_to_fsdp(name):
    shapes = models.shapes(models.config(name, **EVEN))
    expected = EXPECTED | (ONE_KV_HEAD if name == "mqa" else {})
    placed = named(tree_shardings(shapes, T6_RULES, MESH))
    for path, leaf in named(shapes).items():
        if leaf.ndim >= 2:
            assert first_match(path), f"no rule for {path}"
            spec = PartitionSpec(*expected[path.split("/")[-1]])
            assert placed[path].spec == spec, path
        else:
            assert placed[path].spec == PartitionSpec(), path


def test_every_rule_decides_for_some_parameter():
    used = {first_match(path) for name in models.KINDS
            for path in named(models.shapes(models.config(name, **EVEN)))}  # fmt: skip
    assert [pattern for pattern, _ in T6_RULES if pattern not in used] == []
