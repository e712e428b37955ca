"""The jitted training step that every method shares."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax.sharding import Mesh

from neurips25.training.mesh import Rules, tree_shardings
from neurips25.training.state import TrainState

Metrics = dict[str, jax.Array]

LossFn = Callable[[Any, Any, Any, jax.Array], tuple[jax.Array, tuple[Metrics, Any]]]
"""``(params, extra, batch, key) -> (loss, (metrics, extra))``, see :func:`make_train_step`."""

StepFn = Callable[[TrainState, Any], tuple[TrainState, Metrics]]
"""``(state, batch) -> (state, metrics)``, what :func:`~neurips25.training.fit.fit` calls.

A step raises ``state.step`` by exactly one, whatever it does inside, and may donate the state.
Metrics are scalars; among them are ``loss`` and ``skipped_in_row``, the number of calls up to
this one that left the state as it was because something was not finite.
:func:`make_train_step` makes such a step of a loss, :func:`guarded_update` helps to write one.
"""


def _micro_batches(batch: Any, count: int, ways: int) -> Any:
    # Rows i, i + count, ... form micro-batch i: splitting this way keeps every row on the
    # device that already holds it when the leading axis is sharded.
    def split(rows: jax.Array) -> jax.Array:
        if rows.shape[0] % (count * ways):
            raise ValueError(
                f"batch of {rows.shape[0]} rows does not divide into {count} micro-batches over "
                f"the {ways} devices on the axes data x fsdp"
            )
        return jnp.swapaxes(rows.reshape(rows.shape[0] // count, count, *rows.shape[1:]), 0, 1)

    return jax.tree.map(split, batch)


def _gradients(
    loss_fn: LossFn,
    params: Any,
    extra: Any,
    batch: Any,
    key: jax.Array,
    accumulate: int,
    ways: int,
) -> tuple[jax.Array, Any, Metrics, Any]:
    grad_fn = jax.value_and_grad(loss_fn, has_aux=True)
    if accumulate == 1:
        (loss, (metrics, extra)), grads = grad_fn(params, extra, batch, key)
        return loss, grads, metrics, extra

    def weighted(carry: tuple[Any, Any], inputs: tuple[Any, jax.Array]) -> tuple[Any, None]:
        total, extra = carry
        rows, index = inputs
        (loss, (metrics, extra)), grads = grad_fn(
            params, extra, rows, jax.random.fold_in(key, index)
        )
        weight = jnp.asarray(metrics.pop("weight", 1.0), jnp.float32)
        terms = jax.tree.map(lambda x: x * weight, (loss, grads, metrics)), weight
        return (jax.tree.map(jnp.add, total, terms), extra), None

    micro = _micro_batches(batch, accumulate, ways)
    first = jax.tree.map(lambda x: x[0], micro)
    (loss_shape, (metric_shapes, _)), grad_shapes = jax.eval_shape(
        grad_fn, params, extra, first, key
    )
    has_weight = metric_shapes.pop("weight", None) is not None
    zeros = jax.tree.map(
        lambda s: jnp.zeros(s.shape, jnp.promote_types(s.dtype, jnp.float32)),
        ((loss_shape, grad_shapes, metric_shapes), jax.ShapeDtypeStruct((), jnp.float32)),
    )
    (((loss, grads, metrics), weight), extra), _ = jax.lax.scan(
        weighted, (zeros, extra), (micro, jnp.arange(accumulate))
    )
    loss, grads, metrics = jax.tree.map(
        lambda x: x / jnp.maximum(weight, 1e-8), (loss, grads, metrics)
    )
    grads = jax.tree.map(lambda g, s: g.astype(s.dtype), grads, grad_shapes)
    return loss, grads, metrics | ({"weight": weight} if has_weight else {}), extra


def make_train_step(
    loss_fn: LossFn,
    tx: optax.GradientTransformation,
    mesh: Mesh,
    *,
    rules: Rules = (),
    accumulate: int = 1,
    clip_norm: float | None = None,
    ema_decay: float | None = None,
) -> StepFn:
    """Builds ``(state, batch) -> (state, metrics)``, jitted, with the state donated.

    One step is the gradient (averaged over micro-batches), then :func:`guarded_update`.

    Args:
      loss_fn: ``(params, extra, batch, key) -> (loss, (metrics, extra))``; loss is a mean
        over the batch, metrics a dict of scalars. A metric named ``"weight"`` is the number
        of terms in that mean (tokens, say): micro-batches are then averaged by it, so that
        accumulation gives exactly the gradient of the whole batch.
      tx: optax transformation, the learning-rate schedule included.
      mesh: the mesh that state and batch live on.
      rules: placement of the state, the same as for
        :func:`~neurips25.training.state.create_state`.
      accumulate: micro-batches per step; divides the batch's leading axis.
      clip_norm: largest global gradient norm, None for no clipping.
      ema_decay: decay of ``ema_params``; needs a state created with ``ema=True``.

    Returns:
      The step. Metrics are those of the loss plus ``loss``, ``grad_norm`` (before
      clipping), ``skipped`` and ``skipped_in_row``.

    Raises:
      ValueError: ``accumulate < 1``, a batch that it does not divide, or ``ema_decay``
        with a state that has no ``ema_params``.
    """
    if accumulate < 1:
        raise ValueError(f"accumulate: needs at least 1, has {accumulate}")
    ways = mesh.shape["data"] * mesh.shape["fsdp"]

    def step(state: TrainState, batch: Any) -> tuple[TrainState, Metrics]:
        with jax.sharding.use_abstract_mesh(mesh.abstract_mesh):
            return take_step(state, batch)

    def take_step(state: TrainState, batch: Any) -> tuple[TrainState, Metrics]:
        key = jax.random.fold_in(state.key, state.step)
        loss, grads, metrics, extra = _gradients(
            loss_fn, state.params, state.extra, batch, key, accumulate, ways
        )
        new, counts = guarded_update(
            state,
            loss,
            grads,
            extra,
            tx,
            mesh=mesh,
            rules=rules,
            clip_norm=clip_norm,
            ema_decay=ema_decay,
        )
        return new, metrics | counts

    return jax.jit(step, donate_argnums=0)


def guarded_update(
    state: TrainState,
    loss: jax.Array,
    grads: Any,
    extra: Any,
    tx: optax.GradientTransformation,
    *,
    mesh: Mesh,
    rules: Rules = (),
    clip_norm: float | None = None,
    ema_decay: float | None = None,
) -> tuple[TrainState, Metrics]:
    """One update of the state, or none where loss or gradient is not finite.

    Global-norm clipping, ``tx.update``, the average of the parameters. When the loss or the
    norm of the gradient is not finite, parameters, optimiser state, averages and collections
    stay as they were and the skip is counted. For use under ``jit``, in a step of one's own.

    Args:
      state: as it is.
      loss: scalar.
      grads: gradient, a tree like ``state.params``.
      extra: the collections after this step, a tree like ``state.extra``.
      tx, mesh, rules, clip_norm, ema_decay: as for :func:`make_train_step`.

    Returns:
      The state with ``step`` one higher, and ``loss``, ``grad_norm`` (before clipping),
      ``skipped`` and ``skipped_in_row``. A step that calls this several times sets ``step``
      itself at its end, see :data:`StepFn`.

    Raises:
      ValueError: ``ema_decay`` with a state that has no ``ema_params``, or the other way round.
    """
    if (ema_decay is None) != (state.ema_params is None):
        raise ValueError(
            f"ema_decay is {ema_decay}, the state has "
            f"{'no' if state.ema_params is None else 'an'} ema_params: create_state(ema=...)"
        )
    norm = optax.tree.norm(grads)
    if clip_norm is not None:
        scale = jnp.minimum(1.0, clip_norm / jnp.maximum(norm, 1e-12))
        grads = jax.tree.map(lambda g: g * scale.astype(g.dtype), grads)
    updates, opt_state = tx.update(grads, state.opt_state, state.params)
    params = optax.apply_updates(state.params, updates)
    ema = state.ema_params
    if ema_decay is not None:
        ema = optax.incremental_update(params, ema, 1 - ema_decay)

    finite = jnp.isfinite(loss) & jnp.isfinite(norm)
    params, opt_state, ema, extra = jax.tree.map(
        lambda new, old: jnp.where(finite, new, old),
        (params, opt_state, ema, extra),
        (state.params, state.opt_state, state.ema_params, state.extra),
    )
    new = TrainState(
        step=state.step + 1,
        params=params,
        opt_state=opt_state,
        key=state.key,
        extra=extra,
        ema_params=ema,
        skipped=state.skipped + ~finite,
        skipped_in_row=jnp.where(finite, 0, state.skipped_in_row + 1),
    )
    new = jax.lax.with_sharding_constraint(new, tree_shardings(new, rules, mesh))
    return new, {
        "loss": loss,
        "grad_norm": norm,
        "skipped": new.skipped,
        "skipped_in_row": new.skipped_in_row,
    }
