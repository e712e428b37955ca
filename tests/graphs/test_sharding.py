"""One graph over several devices: the same training as on one, with its nodes split."""

import json
import pathlib
import subprocess
import sys

import jax
import numpy as np
import pytest

from neurips25 import graphs, training
from tests.graphs import sharded
from tests.graphs.reference import random_graph

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def eight():
    """What eight devices got, as printed."""
    process = subprocess.run(
        [sys.executable, "-m", "tests.graphs.sharded", "data:4,fsdp:2"],
        cwd=ROOT, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert process.returncode == 0, process.stderr[-3000:]
    return json.loads(process.stdout.splitlines()[-1])


@pytest.mark.parametrize("name", sharded.MODELS)
def test_losses_are_those_of_one_device(eight, name):
    mesh = training.make_mesh({"data": 1}, jax.devices()[:1])
    one = sharded.steps(mesh, name)
    assert one["shapes"]["nodes"][0] == 80
    np.testing.assert_allclose(eight[name]["losses"], one["losses"], rtol=2e-5)
    assert one["losses"][-1] < one["losses"][0]


def test_every_device_holds_its_part(eight):
    for got in eight.values():
        # The edges, 350 of them, do not divide by eight, so the nodes are padded too.
        assert got["shapes"]["nodes"] == [11, 6]
        assert got["shapes"]["senders"] == [44]
    assert eight["ugcformer"]["shapes"]["table"] == [10, 8]


def test_a_graph_that_divides_is_not_padded():
    mesh = training.make_mesh({"data": 1}, jax.devices()[:1])
    placed = graphs.shard_graph(random_graph(), mesh)
    assert placed.nodes.shape == (12, 5)
    assert graphs.real_nodes(placed) is None
    assert placed.nodes.sharding == training.batch_sharding(mesh)
    assert graphs.shard_rows(np.arange(12), 14, mesh, fill=-1)[-2:].tolist() == [-1, -1]


def test_bad_arguments():
    mesh = training.make_mesh({"data": 1}, jax.devices()[:1])
    with pytest.raises(ValueError, match=r"array has shape \(12,\), needs at most 11 rows"):
        graphs.shard_rows(np.arange(12), 11, mesh)
    graph = random_graph()
    with pytest.raises(ValueError, match="sparse features, needs an array"):
        graphs.shard_graph(graph._replace(nodes=graphs.sparse_features(graph.nodes)), mesh)
