"""The training state and how it is created on a mesh."""

from collections.abc import Callable
from typing import Any

import flax.struct
import jax
import jax.numpy as jnp
import optax
from jax.sharding import Mesh

from neurips25.training.mesh import Rules, tree_shardings


@flax.struct.dataclass
class TrainState:
    """Everything that a training step reads and writes, and that a checkpoint holds.

    Attributes:
      step: int32 scalar, steps taken, skipped ones included.
      params: pytree of parameters.
      opt_state: optax state.
      key: typed PRNG key of the run; step ``n`` uses ``fold_in(key, n)``.
      extra: other linen collections (batch statistics, ...), ``{}`` when there are none.
      ema_params: exponential moving average of ``params``, None when not kept.
      skipped: int32 scalar, steps skipped because loss or gradient was not finite.
      skipped_in_row: int32 scalar, how many of the latest steps in a row were skipped.
    """

    step: jax.Array
    params: Any
    opt_state: optax.OptState
    key: jax.Array
    extra: Any
    ema_params: Any
    skipped: jax.Array
    skipped_in_row: jax.Array


def _new_state(
    init_fn: Callable[[jax.Array], Any],
    tx: optax.GradientTransformation,
    key: jax.Array,
    ema: bool,
) -> TrainState:
    init_key, key = jax.random.split(key)
    variables = dict(init_fn(init_key))
    params = variables.pop("params")
    return TrainState(
        step=jnp.zeros((), jnp.int32),
        params=params,
        opt_state=tx.init(params),
        key=key,
        extra=variables,
        ema_params=jax.tree.map(jnp.copy, params) if ema else None,
        skipped=jnp.zeros((), jnp.int32),
        skipped_in_row=jnp.zeros((), jnp.int32),
    )


def abstract_state(
    init_fn: Callable[[jax.Array], Any],
    tx: optax.GradientTransformation,
    *,
    mesh: Mesh,
    rules: Rules = (),
    ema: bool = False,
) -> TrainState:
    """Shapes, dtypes and placements of :func:`create_state`'s result, allocating nothing.

    Args, Raises: as :func:`create_state`.

    Returns:
      A ``TrainState`` of ``jax.ShapeDtypeStruct``s that carry their ``NamedSharding``.
    """
    shapes = jax.eval_shape(
        lambda: _new_state(init_fn, tx, jax.random.key(0), ema)  # shapes do not depend on the key
    )
    return jax.tree.map(
        lambda leaf, sharding: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding),
        shapes,
        tree_shardings(shapes, rules, mesh),
    )


def state_maker(
    init_fn: Callable[[jax.Array], Any],
    tx: optax.GradientTransformation,
    *,
    mesh: Mesh,
    rules: Rules = (),
    ema: bool = False,
) -> Callable[[jax.Array], TrainState]:
    """:func:`create_state` for many keys: compiled at the first, not at each.

    Args: as :func:`create_state`.

    Returns:
      ``key -> state``.
    """
    placed = abstract_state(init_fn, tx, mesh=mesh, rules=rules, ema=ema)
    shardings = jax.tree.map(lambda leaf: leaf.sharding, placed)
    return jax.jit(lambda key: _new_state(init_fn, tx, key, ema), out_shardings=shardings)


def create_state(
    init_fn: Callable[[jax.Array], Any],
    tx: optax.GradientTransformation,
    key: jax.Array,
    *,
    mesh: Mesh,
    rules: Rules = (),
    ema: bool = False,
) -> TrainState:
    """Initialises a training state directly in its placement on the mesh.

    Args:
      init_fn: ``key -> variables``, a dict with ``"params"`` and any other collections, as
        ``linen.Module.init`` returns.
      tx: optax transformation.
      key: typed PRNG key. The same key gives the same values on every mesh.
      mesh: the mesh.
      rules: placement of parameters, see :func:`~neurips25.training.mesh.tree_shardings`.
      ema: keep a moving average of the parameters.

    Returns:
      The state at step 0.

    Raises:
      TypeError: ``key`` is not a typed key.
    """
    if not jnp.issubdtype(key.dtype, jax.dtypes.prng_key):
        raise TypeError(f"key: needs a typed key (jax.random.key), has dtype {key.dtype}")
    return state_maker(init_fn, tx, mesh=mesh, rules=rules, ema=ema)(key)
