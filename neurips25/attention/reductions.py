"""MHA, MQA and GQA as Tensor Product Attention with constant head factors.

arXiv:2501.06425, sec. 4: with head factors that do not depend on the token,

    a_j = G · (1 on the heads of group j, 0 elsewhere),   b_j(x) = W_j x,   R_K = R_V = G,

the slice 1/G Σ_j a_j ⊗ b_j(x) gives every head the key (value) of its group: MHA for G = H and
MQA for G = 1. Queries are the case G = H. The functions return what ``tpa_factors`` reads.
"""

import jax
import jax.numpy as jnp


def noncontextual_mha_factors(
    w_q: jax.Array, w_k: jax.Array, w_v: jax.Array
) -> dict[str, jax.Array]:
    """Parameters of the TPA layer that equals multi-head attention.

    Args:
      w_q: [d, H, D].
      w_k: [d, H, D].
      w_v: [d, H, D].

    Returns:
      ``a_q``, ``a_k``, ``a_v`` [H, H] = H · identity, and ``wb_q``, ``wb_k``, ``wb_v``
      [d, H, D].

    Raises:
      ValueError: shapes that do not fit each other.

    Source: arXiv:2501.06425, sec. 4.

    >>> noncontextual_mha_factors(*(jnp.ones((4, 2, 6)),) * 3)["a_k"].tolist()
    [[2.0, 0.0], [0.0, 2.0]]
    """
    heads = w_q.shape[1]
    for name, w in (("w_k", w_k), ("w_v", w_v)):
        if w.ndim != 3 or w.shape[1] != heads:
            raise ValueError(f"{name} has shape {w.shape}, needs [d, {heads}, D] for MHA")
    return noncontextual_gqa_factors(w_q, w_k, w_v)


def noncontextual_mqa_factors(
    w_q: jax.Array, w_k: jax.Array, w_v: jax.Array
) -> dict[str, jax.Array]:
    """Parameters of the TPA layer that equals multi-query attention.

    Args:
      w_q: [d, H, D].
      w_k: [d, 1, D] or [d, D].
      w_v: [d, 1, D] or [d, D].

    Returns:
      ``a_q`` [H, H], ``a_k`` and ``a_v`` [1, H] all ones, ``wb_q`` [d, H, D], ``wb_k`` and
      ``wb_v`` [d, 1, D].

    Raises:
      ValueError: shapes that do not fit each other.

    Source: arXiv:2501.06425, sec. 4.

    >>> noncontextual_mqa_factors(*(jnp.ones((4, n, 6)) for n in (2, 1, 1)))["a_k"].tolist()
    [[1.0, 1.0]]
    """
    w_k, w_v = (w[:, None] if w.ndim == 2 else w for w in (w_k, w_v))
    for name, w in (("w_k", w_k), ("w_v", w_v)):
        if w.ndim != 3 or w.shape[1] != 1:
            raise ValueError(f"{name} has shape {w.shape}, needs [d, 1, D] or [d, D] for MQA")
    return noncontextual_gqa_factors(w_q, w_k, w_v)


def noncontextual_gqa_factors(
    w_q: jax.Array, w_k: jax.Array, w_v: jax.Array
) -> dict[str, jax.Array]:
    """Parameters of the TPA layer that equals grouped-query attention.

    Args:
      w_q: [d, H, D].
      w_k: [d, G, D]; H a multiple of G, head i reads group ⌊i / (H/G)⌋.
      w_v: [d, G, D].

    Returns:
      ``a_q`` [H, H], ``a_k`` and ``a_v`` [G, H], ``wb_q`` [d, H, D], ``wb_k`` and ``wb_v``
      [d, G, D].

    Raises:
      ValueError: shapes that do not fit each other.

    Source: arXiv:2501.06425, sec. 4.

    >>> noncontextual_gqa_factors(*(jnp.ones((4, n, 6)) for n in (4, 2, 2)))["a_k"].tolist()
    [[2.0, 2.0, 0.0, 0.0], [0.0, 0.0, 2.0, 2.0]]
    """
    if w_q.ndim != 3:
        raise ValueError(f"w_q has shape {w_q.shape}, needs [d, H, D]")
    width, heads, dim = w_q.shape
    for name, w in (("w_k", w_k), ("w_v", w_v)):
        if w.ndim != 3 or w.shape[::2] != (width, dim):
            raise ValueError(f"{name} has shape {w.shape}, needs [{width}, G, {dim}]")
    groups = w_k.shape[1]
    if heads % groups or w_v.shape[1] != groups:
        raise ValueError(
            f"w_k and w_v have {groups} and {w_v.shape[1]} groups, need one divisor of the "
            f"{heads} heads"
        )
    members = groups * jnp.repeat(jnp.eye(groups, dtype=w_q.dtype), heads // groups, axis=1)
    return {
        "a_q": heads * jnp.eye(heads, dtype=w_q.dtype),
        "a_k": members,
        "a_v": members,
        "wb_q": w_q,
        "wb_k": w_k,
        "wb_v": w_v,
    }
