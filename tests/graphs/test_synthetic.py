import jax
import numpy as np
import pytest

from neurips25.graphs import homophily, power_law_dataset, sbm_dataset
from neurips25.graphs.synthetic import _bernoulli_positions, _triangle
from tests.graphs.small_graphs import assert_same


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_sbm_has_the_degree_and_homophily_asked_for(share):
    graph = sbm_dataset(0, n=2000, c=4, f=40, homophily=share, average_degree=12)
    # About 12,000 edges: four standard deviations.
    assert graph.num_edges == pytest.approx(12000, abs=4 * 12000**0.5)
    assert homophily(graph) == pytest.approx(share, abs=4 * 0.5 / 12000**0.5)
    assert np.bincount(graph.labels).tolist() == [500] * 4


def test_sbm_without_edges_between_or_within_classes():
    assert homophily(sbm_dataset(0, 60, 3, 6, homophily=1.0)) == 1
    assert homophily(sbm_dataset(0, 60, 3, 6, homophily=0.0)) == 0


def test_sbm_joins_every_pair_of_a_class_alike():
    counts = np.zeros((9, 9))
    rng = np.random.default_rng(0)
    draws = 3000
    for _ in range(draws):
        i, j = _triangle(_bernoulli_positions(rng, 36, 0.3))
        counts[i, j] += 1
    below = counts[np.tril_indices(9, -1)]
    assert below.sum() == counts.sum()
    # Five standard deviations of a count.
    assert abs(below - 0.3 * draws).max() < 5 * (draws * 0.3 * 0.7) ** 0.5


def test_triangle_of_many_nodes():
    size = 3_000_000
    last = size * (size - 1) // 2 - 1
    i, j = _triangle(np.array([0, 1, 2, last - size + 2, last - size + 1, last]))
    assert i.tolist() == [1, 2, 2, size - 1, size - 2, size - 1]
    assert j.tolist() == [0, 0, 1, 0, size - 3, size - 2]


@pytest.mark.parametrize("p", [1e-12, 0.01, 1.0])
def test_bernoulli_positions(p):
    positions = _bernoulli_positions(np.random.default_rng(0), 10_000, p)
    assert (np.diff(positions) > 0).all()
    assert positions.size == 0 or (positions[0] >= 0 and positions[-1] < 10_000)
    assert abs(len(positions) - 10_000 * p) < 50 if p < 1 else len(positions) == 10_000


def test_sbm_words_tell_the_class():
    graph = sbm_dataset(1, n=3000, c=3, f=30, on=0.3, off=0.1)
    assert set(np.unique(graph.features)) == {0.0, 1.0}
    for k in range(3):
        share = graph.features[graph.labels == k].mean(axis=0)
        np.testing.assert_allclose(share[k::3], 0.3, atol=0.06)
        np.testing.assert_allclose(np.delete(share, np.s_[k::3]), 0.1, atol=0.05)


def test_power_law_degrees():
    graph = power_law_dataset(0, n=20_000, m=100_000, f=2, exponent=2.5)
    assert graph.num_edges == 100_000
    degrees = np.sort(graph.degrees)[::-1]
    # P(degree > k) ~ k^-1.5, so the degree of rank r falls as r^(-1/1.5).
    ranks = np.arange(50, 2000)
    slope = np.polyfit(np.log(ranks), np.log(degrees[ranks]), 1)[0]
    assert slope == pytest.approx(-1 / 1.5, abs=0.05)


@pytest.mark.parametrize("share", [0.0, 0.6, 1.0])
def test_power_law_classes(share):
    graph = power_law_dataset(0, n=20_000, m=100_000, c=5, f=3, homophily=share)
    # Repeats are drawn anew, and pairs of two hubs repeat less often within a class.
    assert homophily(graph) == pytest.approx(share, abs=0.02)
    assert np.bincount(graph.labels).tolist() == [4000] * 5


def test_power_law_features():
    graph = power_law_dataset(0, n=20_000, m=20_000, c=2, f=8, signal=2.0)
    for k in range(2):
        mine = graph.features[graph.labels == k]
        assert np.linalg.norm(mine.mean(axis=0)) == pytest.approx(2, abs=0.1)
        np.testing.assert_allclose(mine.var(axis=0), 1, atol=0.1)


def test_power_law_ids_are_shuffled():
    graph = power_law_dataset(0, n=20_000, m=100_000, f=2, exponent=3.0)
    shares = graph.degrees.reshape(4, -1).sum(axis=1) / 200_000
    np.testing.assert_allclose(shares, 0.25, atol=0.05)


@pytest.mark.parametrize(
    "draw",
    [
        lambda key: sbm_dataset(key, n=40, c=2, f=4),
        lambda key: power_law_dataset(key, n=100, m=300, f=4),
    ],
)
def test_graphs_depend_on_the_key_alone(draw):
    for key, other in ((0, 1), (jax.random.key(0), jax.random.key(1))):
        graph = draw(key)
        assert_same(draw(key), graph)
        assert (draw(other).features != graph.features).any()


def test_splits():
    assert sbm_dataset(0, n=40, c=2, f=4).train_mask.sum(axis=1).tolist() == [24] * 10
    assert power_law_dataset(0, n=100, m=300, f=4).val_mask.sum(axis=1).tolist() == [20]


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"c": 1}, r"c must be in \[2, 20\], got 1"),
        ({"c": 21}, r"c must be in \[2, 20\]"),
        ({"f": 0}, "f must be in"),
        ({"homophily": 1.1}, r"homophily must be in \[0, 1\], got 1.1"),
        ({"on": -0.1}, "on must be in"),
        ({"average_degree": 0.0}, "average_degree=0.0 gives edges the probabilities 0 within"),
        ({"average_degree": 39.0, "homophily": 1.0}, "needs both in"),
    ],
)
def test_bad_numbers_of_sbm(options, named):
    with pytest.raises(ValueError, match=named):
        sbm_dataset(0, **({"n": 40, "c": 2, "f": 4} | options))


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"m": 1238}, r"m must be in \[1, 1237\], got 1238"),
        ({"c": 51}, r"c must be in \[2, 50\]"),
        ({"exponent": 2.0}, "exponent must be > 2, got 2.0"),
        ({"homophily": -1}, "homophily must be in"),
    ],
)
def test_bad_numbers_of_power_law(options, named):
    with pytest.raises(ValueError, match=named):
        power_law_dataset(0, **({"n": 100, "m": 300, "f": 4} | options))
