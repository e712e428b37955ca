import itertools

import numpy as np
import pytest

from neurips25.graphs import (
    NeighborBatches,
    NodeGraph,
    power_law_dataset,
    sample_subgraph,
    subgraph_size,
)
from neurips25.graphs.sampling import _distinct_below
from tests.graphs.small_graphs import small_graph


@pytest.fixture(scope="module")
def graph():
    return power_law_dataset(0, n=300, m=1500, f=5)


def rng(seed=0):
    return np.random.default_rng(seed)


def real_edges(batch):
    real = batch.edge_weight > 0
    return batch.senders[real], batch.receivers[real]


def test_shapes_and_padding(graph):
    roots = np.array([7, 3, 250])
    batch = sample_subgraph(graph, roots, (4, 3), rng(), num_roots=5)
    nodes, edges = subgraph_size(300, 5, (4, 3))
    assert (nodes, edges) == (1 + 5 + 20 + 60, 20 + 60)
    assert batch.nodes.shape == batch.labels.shape == batch.roots.shape == (nodes,)
    assert batch.features.shape == (nodes, 5)
    assert batch.senders.shape == batch.receivers.shape == batch.edge_weight.shape == (edges,)
    assert np.flatnonzero(batch.roots).tolist() == [0, 1, 2]
    assert batch.nodes[:3].tolist() == roots.tolist()
    n = int(batch.real_nodes.sum())
    assert batch.real_nodes[:n].all()
    assert n < nodes
    assert not batch.features[n:].any()
    assert (batch.labels[n:] == -1).all()
    assert not batch.degrees[n:].any()
    m = int((batch.edge_weight > 0).sum())
    assert (batch.edge_weight[m:] == 0).all()
    assert (batch.senders[m:] == nodes - 1).all()
    assert (batch.receivers[m:] == nodes - 1).all()
    assert (np.diff(batch.receivers) >= 0).all()
    assert batch.senders.dtype == batch.nodes.dtype == np.int32


def test_what_is_drawn_is_part_of_the_graph(graph):
    batch = sample_subgraph(graph, np.arange(10), (4, 3), rng())
    n = int(batch.real_nodes.sum())
    ids = batch.nodes[:n]
    assert len(np.unique(ids)) == n
    np.testing.assert_array_equal(batch.features[:n], graph.features[ids])
    np.testing.assert_array_equal(batch.labels[:n], graph.labels[ids])
    np.testing.assert_array_equal(batch.degrees[:n], graph.degrees[ids])
    senders, receivers = real_edges(batch)
    whole = set(zip(graph.senders.tolist(), graph.receivers.tolist()))
    drawn = list(zip(ids[senders].tolist(), ids[receivers].tolist()))
    assert len(set(drawn)) == len(drawn)
    assert set(drawn) <= whole


def test_each_node_draws_what_its_distance_allows(graph):
    batch = sample_subgraph(graph, np.arange(10), (4, 3), rng())
    senders, receivers = real_edges(batch)
    drawn = np.bincount(receivers, minlength=len(batch.nodes))
    first = np.unique(senders[receivers < 10])
    first = first[first >= 10]
    np.testing.assert_array_equal(drawn[:10], np.minimum(batch.degrees[:10], 4))
    np.testing.assert_array_equal(drawn[first], np.minimum(batch.degrees[first], 3))
    last = np.setdiff1d(np.flatnonzero(batch.real_nodes), np.append(first, np.arange(10)))
    assert last.size
    assert not drawn[last].any()
    weight = batch.degrees / np.maximum(drawn, 1)
    np.testing.assert_allclose(batch.edge_weight[: len(receivers)], weight[receivers], rtol=1e-6)


def test_large_fanouts_give_the_outputs_of_the_whole_graph(graph):
    """Two rounds of x <- x + (weighted sum over neighbours)."""

    def network(x, senders, receivers, weight, layers):
        for _ in range(layers):
            sums = np.zeros_like(x)
            np.add.at(sums, receivers, weight[:, None] * x[senders])
            x = x + sums
        return x

    ones = np.ones(len(graph.senders))
    features = graph.features.astype(np.float64)
    whole = network(features, graph.senders, graph.receivers, ones, 2)
    roots = np.array([200, 4, 9])
    largest = int(graph.degrees.max())
    batch = sample_subgraph(graph, roots, (largest, largest), rng())
    assert set(batch.edge_weight.tolist()) <= {0.0, 1.0}
    part = network(
        batch.features.astype(np.float64), batch.senders, batch.receivers, batch.edge_weight, 2
    )
    np.testing.assert_allclose(part[:3], whole[roots], rtol=1e-12)


def test_weighted_sums_have_the_full_sum_as_their_mean():
    star = NodeGraph.from_edges(
        "star", np.arange(9.0)[:, None], [(0, i) for i in range(1, 9)], [0] * 9
    )
    draws = 4000
    generator = rng()
    sums = []
    for _ in range(draws):
        batch = sample_subgraph(star, [0], (3,), generator)
        sums.append(batch.edge_weight @ batch.features[batch.senders, 0])
    # Five standard errors.
    assert np.mean(sums) == pytest.approx(36, abs=5 * float(np.std(sums)) / draws**0.5)
    assert np.std(sums) > 1


def test_floyds_sets_are_uniform():
    draws = 12_000
    sets = np.sort(_distinct_below(np.full(draws, 4), 2, rng()), axis=1)
    counts = [int((sets == pair).all(axis=1).sum()) for pair in itertools.combinations(range(4), 2)]
    assert sum(counts) == draws
    # Five standard deviations of a count with probability 1/6.
    assert max(abs(count - draws / 6) for count in counts) < 5 * (draws * 5 / 36) ** 0.5
    assert np.sort(_distinct_below(np.array([3, 5]), 3, rng())[0]).tolist() == [0, 1, 2]


def test_isolated_roots():
    graph = small_graph()
    assert graph.degrees[11] == 0
    batch = sample_subgraph(graph, [11], (2, 2), rng())
    assert batch.real_nodes.sum() == 1
    assert not batch.edge_weight.any()


def test_a_batch_depends_on_seed_and_step_alone(graph):
    def batches(seed=0):
        return NeighborBatches(graph, np.arange(100), batch_size=8, fanouts=(3, 2), seed=seed)

    one, other = batches(), batches()
    expected = one.batch_at(5)
    iterator = iter(other)
    for _ in range(3):
        next(iterator)
    iterator.set_state({"position": 5})
    for got, array in zip(next(iterator), expected):
        np.testing.assert_array_equal(got, array)
    assert (one.batch_at(6).nodes != expected.nodes).any()
    assert (batches(seed=1).batch_at(5).nodes != expected.nodes).any()


def test_neighbours_of_the_same_roots_change_from_epoch_to_epoch(graph):
    batches = NeighborBatches(graph, [0, 1, 2], batch_size=3, fanouts=(2,))
    first, second = (set(batches.batch_at(step).nodes.tolist()) for step in (0, 1))
    assert first != second


def test_an_epoch_has_every_node_once(graph):
    nodes = np.arange(50, 90)
    batches = NeighborBatches(graph, nodes, batch_size=8, fanouts=(2,))
    assert batches.steps_per_epoch == 5
    roots = [batches.batch_at(step) for step in range(5)]
    seen = np.concatenate([batch.nodes[batch.roots] for batch in roots])
    assert np.sort(seen).tolist() == nodes.tolist()
    assert len({batch.senders.shape for batch in roots}) == 1


def test_sizes_never_exceed_the_graph():
    assert subgraph_size(50, 10, (20, 20)) == (51, 1000)
    batch = sample_subgraph(small_graph(), np.arange(12), (9, 9, 9), rng())
    assert batch.real_nodes.sum() == 12


@pytest.mark.parametrize(
    ("roots", "fanouts", "named"),
    [
        ([0, 300], (2,), r"roots has 300, but nodes are 0 to 299"),
        ([-1], (2,), "roots has -1"),
        ([3, 4, 3], (2,), "roots has node 3 more than once"),
        ([], (2,), r"roots has shape \[0\], needs 1 to 4 roots"),
        (range(5), (2,), r"roots has shape \[5\], needs 1 to 4 roots"),
        ([0], (2, 0), r"fanouts must be integers >= 1, got \(2, 0\)"),
        ([0], (), "fanouts must be"),
        ([0.5], (2,), r"roots\[0\] is 0.5"),
    ],
)
def test_bad_roots_and_fanouts(graph, roots, fanouts, named):
    with pytest.raises(ValueError, match=named):
        sample_subgraph(graph, list(roots), fanouts, rng(), num_roots=4)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"nodes": [0, 1, 1]}, "nodes has node 1 more than once"),
        ({"nodes": [0, 300]}, "nodes has 300"),
        ({"batch_size": 4}, "arrays have 3 rows, a batch needs 4"),
        ({"fanouts": (0,)}, "fanouts must be"),
        ({"seed": -1}, "seed must be in"),
    ],
)
def test_bad_batches(graph, changes, named):
    with pytest.raises(ValueError, match=named):
        NeighborBatches(**({"graph": graph, "nodes": [0, 1, 2], "batch_size": 2} | changes))
