"""A real graph that needs no data files: it comes with a package this library depends on."""

import numpy as np

from neurips25.graphs.node_graph import NodeGraph
from neurips25.graphs.splits import random_splits_per_class


def karate_club() -> NodeGraph:
    """Zachary's karate club: 34 members, 78 friendships, and the 2 clubs they split into.

    The members have no attributes; each node's feature is its own number as a one-hot vector,
    as is customary for this graph. Of each of the 10 splits 4 members a class are for
    training, 8 for validation and the other 18 for testing.

    Returns:
      n = 34, d = 34, 78 edges, 2 classes (0: "Mr. Hi", 1: "Officer"), 10 splits.

    Source: W. W. Zachary, "An information flow model for conflict and fission in small
    groups", Journal of Anthropological Research 33 (1977), as networkx has it.

    >>> graph = karate_club()
    >>> graph.num_nodes, graph.num_edges, np.bincount(graph.labels).tolist()
    (34, 78, [17, 17])
    """
    import networkx  # here, because it takes longer to import than the rest of this package

    club = networkx.karate_club_graph()
    labels = np.array([int(club.nodes[i]["club"] != "Mr. Hi") for i in range(len(club))])
    graph = NodeGraph.from_edges("karate", np.eye(len(club)), list(club.edges()), labels)
    return graph.with_split(
        random_splits_per_class(labels, per_class=4, num_val=8, num_test=18, num_splits=10)
    )
