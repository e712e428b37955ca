import numpy as np

from neurips25.graphs import homophily, karate_club
from tests.graphs.small_graphs import assert_same


def test_karate_club():
    graph = karate_club()
    assert (graph.num_nodes, graph.num_edges, graph.num_classes) == (34, 78, 2)
    np.testing.assert_array_equal(graph.features, np.eye(34))
    # The instructor (0) and the officer (33) lead the two clubs and know the most members.
    assert graph.labels[[0, 33]].tolist() == [0, 1]
    assert np.argsort(graph.degrees)[-2:].tolist() == [0, 33]
    assert homophily(graph) == 67 / 78
    assert graph.num_splits == 10
    for i in range(10):
        split = graph.split(i)
        assert [mask.sum() for mask in split] == [8, 8, 18]
        assert np.bincount(graph.labels[split.train]).tolist() == [4, 4]
    assert_same(karate_club(), graph)
