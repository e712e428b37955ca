"""Consistency of two channels' predictions, without labels.

    ȳ = sharpen(½ (p_Z + p_B)),   L_con = mean_v ½ ( ‖ȳ_v − p_Z,v‖² + ‖ȳ_v − p_B,v‖² )

(OpenReview 7FhWZFoVem, eqs. 13-14, read as the regulariser of GRAND, arXiv:2005.11079.) Equal and
uniform predictions have no loss at all, and a large weight from the first step drives a model
there: hence the warm-up.
"""

import enum

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from neurips25.nn.enums import parse_enum
from neurips25.nn.masked import masked_mean


class ConsistencyReduction(enum.StrEnum):
    """MEAN over the nodes, or their SUM as the paper prints it."""

    MEAN = "mean"
    SUM = "sum"


def sharpen(p: jax.Array, tau: float) -> jax.Array:
    """p_c^(1/τ) / Σ_k p_k^(1/τ) over the last axis, in float32 at least.

    Args:
      p: [..., C], not negative, with a positive entry in every row.
      tau: temperature τ; below 1 sharpens.

    Returns:
      [..., C], rows of sum one.

    Raises:
      ValueError: ``tau`` is not positive.

    >>> sharpen(jnp.array([0.7, 0.3]), 0.5).round(6).tolist()
    [0.844828..., 0.155172...]
    """
    if not tau > 0:
        raise ValueError(f"tau={tau} must be positive")
    p = jnp.asarray(p)
    p = p.astype(jnp.promote_types(p.dtype, jnp.float32))
    # The largest entry becomes one, so that a small tau can't let all powers underflow.
    powers = jnp.power(p / jax.lax.stop_gradient(jnp.max(p, axis=-1, keepdims=True)), 1 / tau)
    return powers / jnp.sum(powers, axis=-1, keepdims=True)


def pseudo_labels(p_topo: jax.Array, p_attr: jax.Array, tau: float = 0.5) -> jax.Array:
    """The sharpened mean of two predictions.

    Args:
      p_topo, p_attr: [n, C] class probabilities.
      tau: temperature of :func:`sharpen`.

    Returns:
      [n, C] probabilities.

    Raises:
      ValueError: shapes that differ, or ``tau`` not positive.
    """
    if p_topo.shape != p_attr.shape or p_topo.ndim < 1:
        raise ValueError(f"p_attr has shape {p_attr.shape}, needs {p_topo.shape} as p_topo")
    return sharpen(0.5 * (p_topo + p_attr), tau)


def consistency_loss(
    p_topo: jax.Array,
    p_attr: jax.Array,
    tau: float = 0.5,
    reduction: ConsistencyReduction | str = ConsistencyReduction.MEAN,
    *,
    stop_gradient_pseudo: bool = True,
    mask: jax.Array | None = None,
) -> jax.Array:
    """½ (‖ȳ − p_Z‖² + ‖ȳ − p_B‖²) over all nodes, with ȳ from :func:`pseudo_labels`.

    Args:
      p_topo, p_attr: [n, C] class probabilities of the two channels.
      tau: temperature of the pseudo-labels.
      reduction: over nodes.
      stop_gradient_pseudo: whether ȳ counts as a constant in the gradient.
      mask: bool [n], True where a node is real; None: all are.

    Returns:
      Scalar in float32 at least, not negative.

    Raises:
      ValueError: shapes that do not fit, ``tau`` not positive, or an unknown reduction.

    >>> p, q = jnp.array([[0.8, 0.2]]), jnp.array([[0.6, 0.4]])
    >>> round(float(consistency_loss(p, q)), 6)
    0.06195
    """
    reduction = parse_enum(ConsistencyReduction, reduction, "reduction")
    target = pseudo_labels(p_topo, p_attr, tau)
    if stop_gradient_pseudo:
        target = jax.lax.stop_gradient(target)
    far_topo, far_attr = (
        jnp.sum(jnp.square(target - p.astype(target.dtype)), axis=-1) for p in (p_topo, p_attr)
    )
    per_node = 0.5 * (far_topo + far_attr)
    mask = jnp.ones(per_node.shape, bool) if mask is None else mask
    mean, count = masked_mean(per_node, mask)
    return mean if reduction is ConsistencyReduction.MEAN else mean * count


def consistency_weight(epoch: ArrayLike, beta: float, warmup: int = 0) -> jax.Array:
    """0 in the first ``warmup`` epochs, then ``beta``.

    Args:
      epoch: int scalar from 0, may be traced.
      beta: weight β of the consistency loss.
      warmup: epochs without it.

    Returns:
      float32 scalar.

    Raises:
      ValueError: a negative ``beta`` or ``warmup``.

    >>> [float(consistency_weight(e, 1.0, warmup=30)) for e in (29, 30)]
    [0.0, 1.0]
    """
    if beta < 0 or warmup < 0:
        raise ValueError(f"beta={beta} and warmup={warmup} must not be negative")
    return jnp.where(jnp.asarray(epoch) < warmup, 0.0, beta).astype(jnp.float32)
