"""Node features that are mostly zero, such as bags of words, kept as their non-zero entries.

    (X W)_i = Σ_j x_ij W_j   over the entries x_ij that are not zero

On a CPU the first layer of a model on Cora (1.3 % of the features are not zero) then takes a
fraction of the time of the dense product, forward and backward.
"""

import dataclasses
from collections.abc import Callable

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np
from flax import linen
from jax.typing import ArrayLike, DTypeLike

from neurips25.graphs.edge_operator import EdgeOperator, spmm


@flax.struct.dataclass
class SparseFeatures:
    """A matrix of features by its entries; stands in for features [n, f] in every model.

    Attributes:
      rows: int32 [nnz], ascending.
      columns: int32 [nnz].
      values: [nnz].
      shape: (n, f), known while tracing.
    """

    rows: jax.Array
    columns: jax.Array
    values: jax.Array
    shape: tuple[int, int] = flax.struct.field(pytree_node=False)

    @property
    def dtype(self) -> jnp.dtype:
        """Of the values."""
        return self.values.dtype


Features = jax.Array | SparseFeatures


def sparse_features(x: ArrayLike) -> SparseFeatures:
    """The non-zero entries of a host array [n, f].

    Raises:
      ValueError: not [n, f].

    >>> words = sparse_features([[0.0, 2.0], [1.0, 0.0]])
    >>> words.columns.tolist(), words.shape
    ([1, 0], (2, 2))
    """
    x = np.asarray(x)
    if x.ndim != 2:
        raise ValueError(f"x has shape {x.shape}, needs [n, f]")
    rows, columns = np.nonzero(x)
    return SparseFeatures(
        jnp.asarray(rows, jnp.int32),
        jnp.asarray(columns, jnp.int32),
        jnp.asarray(x[rows, columns]),
        x.shape,
    )


def feature_product(x: Features, w: jax.Array) -> jax.Array:
    """X W in the dtype of ``w``.

    Args:
      x: [n, f], dense or sparse.
      w: [f, d].

    Returns:
      [n, d].
    """
    if isinstance(x, SparseFeatures):
        op = EdgeOperator(x.columns, x.rows, x.values)
        return spmm(op, w, num_nodes=x.shape[0])
    return x.astype(w.dtype) @ w


def drop_features(x: Features, rate: float, deterministic: bool) -> Features:
    """Dropout of single entries; zeros stay zeros. Call it in a module."""
    drop = linen.Dropout(rate)
    if isinstance(x, SparseFeatures):
        return dataclasses.replace(x, values=drop(x.values, deterministic=deterministic))
    return drop(x, deterministic=deterministic)


class FeatureDense(linen.Module):
    """X W + b for dense or sparse features: [n, f] -> [n, features].

    Parameters: ``kernel`` [f, features]; ``bias``, which starts at zero.

    Attributes:
      features: of the result.
      kernel_init: of the kernel.
      dtype: of the computation.
    """

    features: int
    kernel_init: Callable[..., jax.Array] = linen.initializers.xavier_uniform()
    dtype: DTypeLike = jnp.float32

    @linen.compact
    def __call__(self, x: Features) -> jax.Array:
        shape = (x.shape[-1], self.features)
        kernel = self.param("kernel", self.kernel_init, shape, jnp.float32)
        bias = self.param("bias", linen.initializers.zeros, (self.features,), jnp.float32)
        return feature_product(x, kernel.astype(self.dtype)) + bias.astype(self.dtype)
