"""The adjacency matrix of a graph, normalised, as an operator over its edges.

Ã = D^-½ (A + I) D^-½,   D the row sums of A + I
"""

import enum

import jax
import jax.numpy as jnp
import jraph

from neurips25.graphs.edge_operator import EdgeOperator
from neurips25.graphs.graph_inputs import edge_weights, node_degrees, node_features
from neurips25.nn.enums import parse_enum


class Normalization(enum.StrEnum):
    """What divides an edge weight w_ij, with d the row sums (self-loops included).

    SYMMETRIC: √(d_i d_j). ROW: d_i, so that rows of a node with edges sum to one. NONE: nothing.
    """

    SYMMETRIC = "symmetric"
    ROW = "row"
    NONE = "none"


def normalized_adjacency(
    graph: jraph.GraphsTuple,
    add_self_loops: bool = True,
    normalization: Normalization | str = Normalization.SYMMETRIC,
) -> EdgeOperator:
    """D^-½ (A + I) D^-½, or another normalisation of A or A + I.

    Args:
      graph: receivers ascending, without self-loops; ``edges`` may hold weights [E], and the
        nodes of a part of a graph their ``degrees`` in the whole.
      add_self_loops: A + I in place of A.
      normalization: by the row sums d.

    Returns:
      The matrix, in float32 (float64 where the features are). A row without edges is zero but
      for its self-loop.

    Raises:
      ValueError: arrays that do not belong together, or an unknown normalisation.

    Source: arXiv:1609.02907, sec. 2; OpenReview 7FhWZFoVem, sec. 3.1.
    """
    normalization = parse_enum(Normalization, normalization, "normalization")
    features = node_features(graph)
    n, dtype = features.shape[0], jnp.promote_types(features.dtype, jnp.float32)
    senders, receivers = jnp.asarray(graph.senders), jnp.asarray(graph.receivers)
    weights = edge_weights(graph)
    weights = jnp.ones(receivers.shape, dtype) if weights is None else weights.astype(dtype)
    loops = jnp.ones(n, dtype) if add_self_loops else None
    if normalization is Normalization.NONE:
        return EdgeOperator(senders, receivers, weights, loops)
    degree = node_degrees(graph)
    if degree is None:
        degree = jax.ops.segment_sum(weights, receivers, n, indices_are_sorted=True)
    degree = degree.astype(dtype)
    degree = degree if loops is None else degree + loops
    some = jnp.where(degree > 0, degree, 1)
    if normalization is Normalization.ROW:
        inverse = jnp.where(degree > 0, 1 / some, 0)
        return EdgeOperator(
            senders, receivers, weights * inverse[receivers], None if loops is None else inverse
        )
    root = jnp.where(degree > 0, jax.lax.rsqrt(some), 0)
    weights = weights * root[receivers] * root[senders]
    return EdgeOperator(senders, receivers, weights, None if loops is None else jnp.square(root))
