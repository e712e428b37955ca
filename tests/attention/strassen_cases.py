"""Inputs and references that the tests of triple attention share."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from neurips25.attention.strassen import strassen_attention


def random_inputs(seed=0, batch=2, n=7, heads=2, dim=4, width=3, scale=1.0, dtype=np.float64):
    """f, g, h [B, n, H, D] and v1, v2 [B, n, H, E] as numpy arrays."""
    rng = np.random.default_rng(seed)
    scores = [scale * rng.normal(size=(batch, n, heads, dim)) for _ in range(3)]
    values = [rng.normal(size=(batch, n, heads, width)) for _ in range(2)]
    return tuple(a.astype(dtype) for a in (*scores, *values))


def padding(batch=2, n=7):
    """A mask [B, n] with the second element one token shorter than each before it."""
    return np.arange(n) < n - np.arange(batch)[:, None]


def reference(f, g, h, v1, v2, mask=None, causal=False):
    """The definition with numpy in float64, all triples at once."""
    f, g, h, v1, v2 = (np.asarray(a, np.float64) for a in (f, g, h, v1, v2))
    n, dim = g.shape[1], f.shape[-1]
    x, y, z = (
        np.einsum(f"b{i}hc,b{j}hc->bh{i}{j}", a, b)
        for i, j, a, b in (("i", "j", f, g), ("j", "k", g, h), ("k", "i", h, f))
    )
    scores = x[..., :, :, None] + y[..., None, :, :] + np.swapaxes(z, -1, -2)[..., :, None, :]
    scores = scores / np.sqrt(dim)
    seen = np.ones(scores.shape, bool)
    if mask is not None:
        seen &= (mask[:, :, None] & mask[:, None, :])[:, None, None]
    if causal:
        past = np.tril(np.ones((n, n), bool))
        seen &= past[:, :, None] & past[:, None, :]
    scores = np.where(seen, scores, -np.inf)
    top = scores.max(axis=(-2, -1), keepdims=True)
    weights = np.where(seen, np.exp(scores - np.where(np.isfinite(top), top, 0.0)), 0.0)
    total = weights.sum(axis=(-2, -1))
    out = np.einsum("bhijk,bjhe,bkhe->bhie", weights, v1, v2)
    out = np.where(total[..., None] > 0, out / np.where(total > 0, total, 1.0)[..., None], 0.0)
    return np.swapaxes(out, 1, 2)


@functools.partial(jax.jit, static_argnames=("method", "causal"))
def attend(f, g, h, v1, v2, mask=None, method="stable", causal=False):
    return strassen_attention(f, g, h, v1, v2, mask, method=method, eps=0.0, causal=causal)


@functools.partial(jax.jit, static_argnames=("method",))
def gradients(arrays, weights, mask=None, method="stable"):
    """Gradient of a weighted sum of the outputs by all five arguments."""

    def total(arrays):
        out = strassen_attention(*arrays, mask, method=method, eps=0.0)
        return jnp.sum(out * weights)

    return jax.grad(total)(arrays)
