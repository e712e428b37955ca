"""Positive random features: e^{q·k} as a product of features, and attention through them.

Choromanski et al., ICLR 2021, arXiv:2009.14794: with rows ω_m orthogonal and Gaussian in length,

    e^{q·k} = E_ω[ φ(q)·φ(k) ],   φ(x)_m = e^{ω_m·x − ‖x‖²/2} / √M
"""

import jax
import jax.numpy as jnp

# Added to every feature, as published, so that no sum of features is zero.
STABILIZER = 1e-6


def orthogonal_projection(
    key: jax.Array, num_features: int, dim: int, dtype: jnp.dtype | type = jnp.float32
) -> jax.Array:
    """Random rows ω: orthogonal within each block of ``dim``, as long as Gaussian vectors are.

    Args:
      key: typed key.
      num_features: M.
      dim: D.
      dtype: of the result.

    Returns:
      [M, D].

    Source: arXiv:2009.14794, sec. 2.4.
    """
    blocks = -(-num_features // dim)
    direction_key, length_key = jax.random.split(key)
    gaussian = jax.random.normal(direction_key, (blocks, dim, dim), dtype)
    q, r = jnp.linalg.qr(gaussian)
    # The signs that a QR factorisation happens to choose make some directions more likely.
    q = q * jnp.sign(jnp.diagonal(r, axis1=-2, axis2=-1))[:, None, :]
    rows = q.reshape(blocks * dim, dim)[:num_features]
    lengths = jnp.linalg.norm(jax.random.normal(length_key, (num_features, dim), dtype), axis=-1)
    return rows * lengths[:, None]


def positive_features(
    x: jax.Array, projection: jax.Array, *, is_query: bool, mask: jax.Array | None = None
) -> jax.Array:
    """φ(x) up to a factor that cancels in attention: per node for queries, per head for keys.

    Args:
      x: [n, H, D].
      projection: [M, D].
      is_query: which factor may be taken out.
      mask: bool [n], True where a node is real: others get features 0.

    Returns:
      [n, H, M], not negative.
    """
    exponent = jnp.einsum("nhd,md->nhm", x, projection)
    top = exponent
    if mask is not None:
        top = jnp.where(mask[:, None, None], top, -jnp.inf)
    shift = jnp.max(exponent if is_query else top, axis=-1 if is_query else (0, 2), keepdims=True)
    half_square = 0.5 * jnp.sum(jnp.square(x), axis=-1, keepdims=True)
    features = jnp.exp(exponent - half_square - jax.lax.stop_gradient(shift)) + STABILIZER
    return features if mask is None else jnp.where(mask[:, None, None], features, 0)


def feature_attention(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
    """Σ_j (φ(q_i)·φ(k_j)) v_j / Σ_j φ(q_i)·φ(k_j) in time O(n M D).

    Args:
      q, k: [n, H, M] features.
      v: [n, H, E].

    Returns:
      [n, H, E].
    """
    kv = jnp.einsum("nhm,nhe->hme", k, v)
    num = jnp.einsum("nhm,hme->nhe", q, kv)
    return num / feature_totals(q, k)[..., None]


def feature_totals(q: jax.Array, k: jax.Array) -> jax.Array:
    """Σ_j φ(q_i)·φ(k_j), [n, H]; 1 for a node whose features are all 0."""
    total = jnp.einsum("nhm,hm->nh", q, jnp.sum(k, axis=0))
    return jnp.where(total > 0, total, 1)
