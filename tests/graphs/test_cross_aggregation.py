"""The theorems of the paper that UGCFormer comes from, checked where they hold and where not."""

import jax
import jax.numpy as jnp
import numpy as np

from neurips25.graphs import normalized_adjacency, spmm
from tests.graphs.reference import random_graph


def smoothing_matrix(graph):
    n = len(graph.nodes)
    return np.asarray(spmm(normalized_adjacency(graph), jnp.eye(n)))


def test_a_graph_block_is_a_cross_aggregation_with_complex_roots(x64):
    # Theorem 1: S X W = (U √Λ)(U √Λ)ᵀ X W, with the plain transpose.
    graph = random_graph()
    s = smoothing_matrix(graph)
    values, vectors = np.linalg.eigh(s)
    assert values.min() < -0.05
    roots = vectors * np.emath.sqrt(values)
    xw = graph.nodes @ np.random.default_rng(0).normal(size=(5, 3))
    np.testing.assert_allclose(roots @ (roots.T @ xw), s @ xw, rtol=0, atol=1e-12)
    assert np.abs(roots @ (roots.conj().T @ xw) - s @ xw).max() > 1e-2


def test_linear_attention_with_positional_encodings_has_eight_terms():
    # Theorem 2: Q Kᵀ V with each of the three a sum of an X part and a P part.
    rng = np.random.default_rng(0)
    x, p = rng.normal(size=(9, 4)), rng.normal(size=(9, 3))
    parts = [[x @ rng.normal(size=(4, 5)), p @ rng.normal(size=(3, 5))] for _ in "qkv"]
    q, k, v = (a + b for a, b in parts)
    terms = [a @ (b.T @ c) for a in parts[0] for b in parts[1] for c in parts[2]]
    assert len(terms) == 8
    np.testing.assert_allclose(q @ (k.T @ v), sum(terms), rtol=0, atol=1e-10)


def test_gradients_of_the_objective_behind_the_updates(x64):
    # Theorem 3: λ Tr(Zᵀ (I−Ã) Z) + ‖B − M‖² − η ‖Zᵀ B‖²
    rng = np.random.default_rng(1)
    smooth = smoothing_matrix(random_graph())
    laplacian = np.eye(12) - smooth
    z, b, m = (rng.normal(size=(12, 3)) for _ in range(3))
    lam, eta = 0.7, 0.2

    def objective(z, b):
        return (
            lam * jnp.trace(z.T @ laplacian @ z)
            + jnp.sum((b - m) ** 2)
            - eta * jnp.sum((z.T @ b) ** 2)
        )

    grads = jax.grad(objective, argnums=(0, 1))(jnp.asarray(z), jnp.asarray(b))
    want = (
        2 * lam * laplacian @ z - 2 * eta * b @ (b.T @ z),
        2 * (b - m) - 2 * eta * z @ (z.T @ b),
    )
    for got, formula in zip(grads, want):
        np.testing.assert_allclose(got, formula, rtol=1e-8)
