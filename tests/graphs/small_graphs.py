"""A small graph that every format can hold, and what makes two graphs the same."""

import dataclasses

import numpy as np

from neurips25.graphs import NodeGraph

FIELDS = tuple(f.name for f in dataclasses.fields(NodeGraph) if f.name != "name")


def small_graph(splits=2, seed=0, n=12):
    """n nodes (the last isolated) in 3 classes with real features, each split another one."""
    rng = np.random.default_rng(seed)
    edges = rng.integers(0, n - 1, (2 * n, 2))
    features = rng.normal(size=(n, 4)).astype(np.float32)
    role = np.array([rng.permutation(n) % 3 for _ in range(splits)]).reshape(splits, n)
    return NodeGraph.from_edges(
        "small",
        features,
        edges,
        np.arange(n) % 3,
        train_mask=role == 0,
        val_mask=role == 1,
        test_mask=role == 2,
    )


def assert_same(graph, other, but=()):
    for field in FIELDS:
        if field not in but:
            got, expected = getattr(graph, field), getattr(other, field)
            np.testing.assert_array_equal(got, expected, err_msg=field)
            assert np.asarray(got).dtype == np.asarray(expected).dtype, field
