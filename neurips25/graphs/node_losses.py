"""Cross-entropy, accuracy and area under the ROC curve over some of a graph's nodes."""

import jax
import jax.numpy as jnp
import optax

from neurips25.nn.masked import masked_mean


def masked_cross_entropy(logits: jax.Array, labels: jax.Array, mask: jax.Array) -> jax.Array:
    """Mean of −log softmax(logits)[label] over the nodes of a mask.

    Args:
      logits: [n, C]; computed in float32 at least.
      labels: int [n], read where the mask is True.
      mask: bool [n].

    Returns:
      Scalar in nats; 0 where the mask is empty.

    Raises:
      ValueError: shapes that do not fit each other.

    >>> mask = jnp.array([True, False])
    >>> round(float(masked_cross_entropy(jnp.zeros((2, 4)), jnp.array([3, -1]), mask)), 4)
    1.3863
    """
    _check(logits, labels, mask)
    logits = logits.astype(jnp.promote_types(logits.dtype, jnp.float32))
    losses = optax.softmax_cross_entropy_with_integer_labels(logits, jnp.where(mask, labels, 0))
    return masked_mean(losses, mask)[0]


def masked_accuracy(logits: jax.Array, labels: jax.Array, mask: jax.Array) -> jax.Array:
    """Share of the nodes of a mask whose largest logit is their label.

    Args:
      logits: [n, C].
      labels: int [n].
      mask: bool [n].

    Returns:
      float32 scalar in [0, 1]; 0 where the mask is empty.

    Raises:
      ValueError: shapes that do not fit each other.
    """
    _check(logits, labels, mask)
    return masked_mean((jnp.argmax(logits, axis=-1) == labels).astype(jnp.float32), mask)[0]


def masked_roc_auc(logits: jax.Array, labels: jax.Array, mask: jax.Array) -> jax.Array:
    """Probability that a node of class 1 has the larger score than one of class 0, ties half.

    The score of a node is the difference of its two logits. This is one task: the official score
    of ogbn-proteins is the mean of this over 112 tasks, each with labels and scores of its own.

    Args:
      logits: [n, 2].
      labels: int [n], 0 or 1 where the mask is True.
      mask: bool [n].

    Returns:
      Scalar in [0, 1], float32 at least; NaN where one of the classes is absent.

    Raises:
      ValueError: shapes that do not fit each other, or another number of classes.

    >>> logits = jnp.array([[0.0, 3.0], [0.0, 1.0], [0.0, 2.0], [0.0, 0.0]])
    >>> float(masked_roc_auc(logits, jnp.array([1, 1, 0, 0]), jnp.ones(4, bool)))
    0.75
    """
    _check(logits, labels, mask)
    if logits.shape[1] != 2:
        raise ValueError(f"logits has shape {logits.shape}, needs [n, 2]")
    score = (logits[:, 1] - logits[:, 0]).astype(jnp.promote_types(logits.dtype, jnp.float32))
    positive, negative = mask & (labels == 1), mask & (labels == 0)
    below = jnp.sort(jnp.where(negative, score, jnp.inf))
    wins = sum(jnp.searchsorted(below, score, side) for side in ("left", "right")) / 2
    pairs = jnp.sum(positive) * jnp.sum(negative)
    return jnp.sum(jnp.where(positive, wins, 0)) / pairs


def _check(logits: jax.Array, labels: jax.Array, mask: jax.Array) -> None:
    if logits.ndim != 2:
        raise ValueError(f"logits has shape {logits.shape}, needs [n, C]")
    if labels.shape != logits.shape[:1]:
        raise ValueError(f"labels has shape {labels.shape}, needs {logits.shape[:1]}")
    if mask.shape != labels.shape or mask.dtype != jnp.bool_:
        raise ValueError(
            f"mask has shape {mask.shape} and dtype {mask.dtype}, needs {labels.shape} and bool"
        )
