"""Checkpoints that survive kills, damage, full disks and a change of mesh, on Orbax.

A checkpoint holds the whole :class:`~neurips25.training.state.TrainState`, the position of
the input, and a fingerprint of every array. The fingerprint is an integer sum over the
array's bits, so it is the same on every mesh, and a restored array that does not match it
is known to be damaged even where the file format would not notice.
"""

import logging
import os
import pathlib
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
from etils import epath
from jax.experimental import multihost_utils

from neurips25.training.mesh import path_name
from neurips25.training.state import TrainState

_log = logging.getLogger(__name__)


class CheckpointError(RuntimeError):
    """A checkpoint could not be written or read; the message names directory and step."""


class Restored(NamedTuple):
    """What :meth:`Checkpointer.restore_latest` found."""

    state: TrainState
    input_state: dict[str, Any]
    step: int


def _bits(x: jax.Array) -> jax.Array:
    if jnp.issubdtype(x.dtype, jax.dtypes.prng_key):
        x = jax.random.key_data(x)
    if x.dtype == jnp.bool_:
        return x.astype(jnp.uint32)
    unsigned = {1: jnp.uint8, 2: jnp.uint16, 4: jnp.uint32}.get(x.dtype.itemsize, jnp.uint32)
    return jax.lax.bitcast_convert_type(x, unsigned).astype(jnp.uint32)


@jax.jit
def fingerprint(tree: Any) -> jax.Array:
    """Sum of the bit patterns of each array, modulo 2^32.

    Args:
      tree: pytree of arrays (typed keys allowed).

    Returns:
      ``[number of leaves]`` uint32 in the order of ``jax.tree.leaves``.

    >>> fingerprint({"a": jnp.arange(3), "b": jnp.ones(2, jnp.bool_)}).tolist()
    [3, 2]
    """
    return jnp.stack([jnp.sum(_bits(x), dtype=jnp.uint32) for x in jax.tree.leaves(tree)])


class Checkpointer:
    """Asynchronous checkpoints of a training state in one directory.

    Args:
      directory: where the steps lie; created when absent.
      keep: how many of the latest checkpoints stay.

    Raises:
      CheckpointError: the directory cannot be created or written.
    """

    def __init__(self, directory: str | os.PathLike[str], keep: int = 3):
        self.directory = pathlib.Path(directory).absolute()
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            if not os.access(self.directory, os.W_OK | os.X_OK):
                raise PermissionError("no write permission")
            self._manager = ocp.CheckpointManager(
                self.directory,
                options=ocp.CheckpointManagerOptions(
                    max_to_keep=keep, enable_async_checkpointing=True
                ),
            )
        except OSError as error:
            raise CheckpointError(
                f"cannot use checkpoint directory {directory}: {error}"
            ) from error

    def steps(self) -> list[int]:
        """Steps of the complete checkpoints, in order."""
        return sorted(self._manager.all_steps())

    def save(self, state: TrainState, input_state: dict[str, Any]) -> None:
        """Starts to write a checkpoint and returns before it is on disk.

        Args:
          state: the state; its buffers may be donated as soon as this returns.
          input_state: JSON-able position of the input. With several processes the position
            in the global stream: that of process 0 is kept.

        Raises:
          CheckpointError: this or the previous checkpoint could not be written. Earlier
            complete checkpoints stay.
        """
        step = int(state.step)
        sums = np.asarray(fingerprint(state)).tolist()
        try:
            self._manager.save(
                step,
                args=ocp.args.Composite(
                    state=ocp.args.StandardSave(state),
                    meta=ocp.args.JsonSave({"input": input_state, "fingerprint": sums}),
                ),
                force=True,
            )
        except Exception as error:
            raise self._write_error(step, error) from error

    def wait(self) -> None:
        """Blocks until the checkpoint under way is on disk.

        Raises:
          CheckpointError: it could not be written.
        """
        try:
            self._manager.wait_until_finished()
        except Exception as error:
            raise self._write_error(None, error) from error

    def _write_error(self, step: int | None, error: Exception) -> CheckpointError:
        self._manager.reload()
        good = self.steps()
        which = (
            "a checkpoint" if step is None else f"the checkpoint of step {step} (or the one before)"
        )
        kept = (
            f"the last complete one is step {good[-1]}" if good else "there is no complete one yet"
        )
        return CheckpointError(f"could not write {which} to {self.directory}: {error}; {kept}")

    def restore_latest(self, like: TrainState) -> Restored | None:
        """Reads the newest checkpoint that is whole.

        Args:
          like: a state, or one of ``ShapeDtypeStruct``s, that gives structure, shapes,
            dtypes and the placement on the *current* mesh, whatever mesh wrote it.

        Returns:
          State, input position and step; None when the directory holds no checkpoint. A
          damaged checkpoint is passed over with a warning that names it.

        Raises:
          CheckpointError: there are checkpoints but none can be read, or the stored tree
            differs from ``like`` (the message lists the arrays that differ).
        """
        self.wait()
        abstract = abstract_like(like)
        failures = []
        for step in reversed(self.steps()):
            found, reason = None, "another process could not read it"
            try:
                found = self._restore(step, abstract)
            except (CheckpointError, MemoryError):
                raise
            except Exception as error:
                reason = str(error).splitlines()[0][:300] if str(error) else type(error).__name__
            if _all_processes(found is not None) and found is not None:
                return found
            failures.append(f"step {step}: {reason}")
            _log.warning(
                "checkpoint of step %d in %s is damaged (%s); trying the one before it",
                step,
                self.directory,
                reason,
            )
        if failures:
            raise CheckpointError(
                f"no checkpoint in {self.directory} can be read: " + "; ".join(failures)
            )
        return None

    def _restore(self, step: int, abstract: TrainState) -> Restored:
        if different := _differences(checkpoint_tree(self.directory, step), abstract):
            raise CheckpointError(
                f"checkpoint of step {step} in {self.directory} is of another model: "
                + "; ".join(different[:8])
            )
        out = self._manager.restore(
            step,
            args=ocp.args.Composite(
                state=ocp.args.StandardRestore(abstract), meta=ocp.args.JsonRestore()
            ),
        )
        state, meta = out["state"], out["meta"]
        if int(state.step) != step:
            raise ValueError(f"holds step {int(state.step)}")
        got = np.asarray(fingerprint(state))
        names = [path_name(p) for p, _ in jax.tree_util.tree_flatten_with_path(state)[0]]
        bad = [n for n, a, b in zip(names, got, meta["fingerprint"], strict=True) if a != b]
        if bad:
            raise ValueError(f"arrays do not match their fingerprint: {', '.join(bad[:8])}")
        return Restored(state, meta["input"], step)

    def set_aside_after(self, step: int) -> None:
        """Renames later checkpoints, damaged ones that a resume passed over, to N.damaged."""
        for later in [s for s in self.steps() if s > step]:
            if jax.process_index() == 0:
                path = self.directory / str(later)
                path.rename(path.with_name(f"{later}.damaged"))
        if jax.process_count() > 1:
            multihost_utils.sync_global_devices("set aside damaged checkpoints")
        self._manager.reload()

    def close(self) -> None:
        """Waits for the checkpoint under way and releases the directory.

        Raises:
          CheckpointError: the checkpoint under way could not be written.
        """
        self.wait()
        self._manager.close()


def abstract_like(state: TrainState) -> TrainState:
    """Shapes, dtypes and placements of a state, without its arrays."""
    return jax.tree.map(
        lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=x.sharding), state
    )


def _all_processes(ok: bool) -> bool:
    if jax.process_count() == 1:
        return ok
    return bool(np.all(multihost_utils.process_allgather(np.asarray(ok))))


def checkpoint_tree(
    directory: str | os.PathLike[str], step: int | None = None
) -> dict[str, jax.ShapeDtypeStruct]:
    """Lists the arrays of a checkpoint without the devices that wrote it.

    Args:
      directory: a checkpoint directory.
      step: which checkpoint, None for the latest.

    Returns:
      Slash-joined name -> shape and dtype. Typed keys are listed as their uint32 data.

    Raises:
      CheckpointError: no such directory or step.
    """
    root = pathlib.Path(directory).absolute()
    steps = sorted(int(p.name) for p in root.glob("*") if p.name.isdigit()) if root.is_dir() else []
    if not steps or (step is not None and step not in steps):
        raise CheckpointError(
            f"no checkpoint{'' if step is None else f' of step {step}'} in {root}"
            f", steps there: {steps}"
        )
    path = root / str(steps[-1] if step is None else step) / "state"
    tree = ocp.StandardCheckpointHandler().metadata(epath.Path(path)).tree
    return {
        path_name(p): jax.ShapeDtypeStruct(leaf.shape, leaf.dtype)
        for p, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]
    }


def _differences(stored: dict[str, jax.ShapeDtypeStruct], abstract: TrainState) -> list[str]:
    expected = {}
    for path, leaf in jax.tree_util.tree_flatten_with_path(abstract)[0]:
        if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            leaf = jax.eval_shape(jax.random.key_data, leaf)
        expected[path_name(path)] = (tuple(leaf.shape), np.dtype(leaf.dtype))
    found = {name: (tuple(s.shape), np.dtype(s.dtype)) for name, s in stored.items()}
    out = [f"{n} is missing" for n in expected if n not in found]
    out += [f"{n} is not in this model" for n in found if n not in expected]
    out += [
        f"{n} has shape {found[n][0]} {found[n][1]}, needs {expected[n][0]} {expected[n][1]}"
        for n in expected
        if n in found and found[n] != expected[n]
    ]
    return out
