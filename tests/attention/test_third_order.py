"""Third-order attention: the definition, chunks, its reduction, masks, bad input."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from neurips25.attention import softmax_attention, third_order_attention
from tests.attention.strassen_cases import padding, random_inputs


def definition(q, k1, k2, v1, v2):
    scores = np.einsum("bihc,bjhc,bkhc->bhijk", q, k1, k2) / np.sqrt(q.shape[-1])
    weights = np.exp(scores - scores.max(axis=(-2, -1), keepdims=True))
    weights /= weights.sum(axis=(-2, -1), keepdims=True)
    return np.einsum("bhijk,bjhe,bkhe->bihe", weights, v1, v2)


def test_definition_chunks_and_queries(x64):
    arrays = random_inputs()
    want = definition(*arrays)
    np.testing.assert_allclose(third_order_attention(*arrays), want, rtol=0, atol=1e-12)
    for chunk in (1, 3, 50):
        out = third_order_attention(*arrays, chunk=chunk)
        np.testing.assert_allclose(out, want, rtol=0, atol=1e-12)
    some = third_order_attention(arrays[0][:, [4, 1]], *arrays[1:])
    np.testing.assert_allclose(some, want[:, [4, 1]], rtol=0, atol=1e-12)


def test_padding_takes_no_part(x64):
    arrays, mask = random_inputs(), padding()
    out = third_order_attention(*arrays, mask)
    shorter = definition(*(a[1:, :6] for a in arrays))
    np.testing.assert_allclose(out[1:, :6], shorter, rtol=0, atol=1e-12)
    none = np.zeros_like(mask)
    assert (np.asarray(third_order_attention(*arrays, none)) == 0).all()
    grad = jax.grad(lambda q: third_order_attention(q, *arrays[1:], none).sum())(arrays[0])
    assert (np.asarray(grad) == 0).all()


def test_constant_second_key_is_standard_attention(x64):
    q, k1, k2, v1, v2 = random_inputs()
    out = third_order_attention(q, k1, np.ones_like(k2), v1, v2)
    want = softmax_attention(*map(jnp.asarray, (q, k1, v1))) * v2.mean(axis=1, keepdims=True)
    np.testing.assert_allclose(out, want, rtol=0, atol=1e-12)


def test_bad_arguments():
    q, k1, k2, v1, v2 = random_inputs(dtype=np.float32)
    with pytest.raises(ValueError, match=r"k2 has shape \(2, 6, 2, 4\), needs \(2, 7, 2, 4\)"):
        third_order_attention(q, k1, k2[:, :6], v1, v2)
    with pytest.raises(ValueError, match="chunk=0"):
        third_order_attention(q, k1, k2, v1, v2, chunk=0)
    with pytest.raises(ValueError, match="mask has shape"):
        third_order_attention(q, k1, k2, v1, v2, np.ones((2, 7)))
