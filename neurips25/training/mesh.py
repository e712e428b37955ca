"""Device meshes and the rules that place arrays on them.

A mesh has the axes ``data`` (batch split, parameters copied), ``fsdp`` (batch and
parameters split) and ``tensor`` (heads and hidden units split). Placement is declared
once per model, as a short list of ``(regular expression, PartitionSpec)`` rules over
parameter paths; optimiser moments and averaged parameters carry the same path and
follow the same rule.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

AXES = ("data", "fsdp", "tensor")

Rules = Sequence[tuple[str, PartitionSpec]]


def parse_mesh(text: str) -> dict[str, int]:
    """Reads ``"data:4,fsdp:2"`` into ``{"data": 4, "fsdp": 2}``.

    Args:
      text: axis names of :data:`AXES` with sizes; the empty string gives ``{}``.

    Returns:
      Axis sizes, in the order written.

    Raises:
      ValueError: an unknown axis, a size that is no positive integer, an axis named twice.

    >>> parse_mesh("data:4,fsdp:2")
    {'data': 4, 'fsdp': 2}
    """
    sizes: dict[str, int] = {}
    for part in filter(None, (p.strip() for p in text.split(","))):
        name, _, size = part.partition(":")
        if name not in AXES:
            raise ValueError(
                f"mesh {text!r}: unknown axis {name!r}, the axes are {', '.join(AXES)}"
            )
        if not size.isdigit() or int(size) < 1:
            raise ValueError(f"mesh {text!r}: axis {name!r} needs a positive size, has {size!r}")
        if name in sizes:
            raise ValueError(f"mesh {text!r}: axis {name!r} stands twice")
        sizes[name] = int(size)
    return sizes


def make_mesh(
    shape: Mapping[str, int] | None = None, devices: Sequence[jax.Device] | None = None
) -> Mesh:
    """Builds a ``data x fsdp x tensor`` mesh; axes that are not named have size 1.

    Args:
      shape: axis sizes, for example ``{"data": 4, "fsdp": 2}``. None or empty puts all
        devices on ``data``.
      devices: the devices to use, default all of them (of all processes). Their number
        must equal the product of the axis sizes.

    Returns:
      A mesh with the axes of :data:`AXES`.

    Raises:
      ValueError: unknown axis, or another number of devices than the shape needs.
    """
    devices = list(jax.devices() if devices is None else devices)
    shape = dict(shape or {"data": len(devices)})
    if unknown := set(shape) - set(AXES):
        raise ValueError(f"unknown mesh axes {sorted(unknown)}, the axes are {', '.join(AXES)}")
    sizes = tuple(shape.get(axis, 1) for axis in AXES)
    needed = int(np.prod(sizes))
    if needed != len(devices):
        spec = ",".join(f"{a}:{s}" for a, s in zip(AXES, sizes))
        raise ValueError(f"mesh {spec} needs {needed} devices, there are {len(devices)}")
    return jax.make_mesh(sizes, AXES, devices=devices, axis_types=(AxisType.Auto,) * len(AXES))


def batch_sharding(mesh: Mesh) -> NamedSharding:
    """Leading (example) axis over ``data`` and ``fsdp``, other axes whole."""
    return NamedSharding(mesh, PartitionSpec(("data", "fsdp")))


def replicated(mesh: Mesh) -> NamedSharding:
    """A copy on every device."""
    return NamedSharding(mesh, PartitionSpec())


def path_name(path: tuple[Any, ...]) -> str:
    """The slash-joined name of a leaf, as rules and checkpoints see it: ``block_0/attn/wq``."""
    return jax.tree_util.keystr(path, simple=True, separator="/")


def _fit_spec(spec: PartitionSpec, shape: tuple[int, ...], mesh: Mesh) -> PartitionSpec:
    # An axis that does not divide its dimension (34 heads over 4 devices) is dropped: the
    # array is then copied along that mesh axis, which costs memory but stays correct.
    fitted: list[Any] = []
    for size, entry in zip(shape, tuple(spec) + (None,) * (len(shape) - len(spec))):
        names = (entry,) if isinstance(entry, str) else tuple(entry or ())
        ways = int(np.prod([mesh.shape[n] for n in names])) if names else 1
        fitted.append(entry if ways > 1 and size % ways == 0 else None)
    while fitted and fitted[-1] is None:
        fitted.pop()
    return PartitionSpec(*fitted)


def tree_shardings(tree: Any, rules: Rules, mesh: Mesh) -> Any:
    """Placement of every array of a pytree by the first rule that matches its path.

    Args:
      tree: arrays or ``jax.ShapeDtypeStruct``s; the paths are slash-joined key names.
      rules: ``(regex, PartitionSpec)`` pairs, searched (not anchored) in the path. A mesh
        axis that does not divide the dimension it is given is left out.
      mesh: the mesh.

    Returns:
      The same tree with a ``NamedSharding`` per leaf; leaves without a rule are replicated.

    Raises:
      ValueError: a rule's spec has more entries than the array it matches has axes.
    """

    def place(path: tuple[Any, ...], leaf: Any) -> NamedSharding:
        name = path_name(path)
        for pattern, spec in rules:
            if re.search(pattern, name):
                if len(spec) > len(leaf.shape):
                    raise ValueError(
                        f"rule {pattern!r} -> {spec} has {len(spec)} entries, "
                        f"array {name!r} has shape {leaf.shape}"
                    )
                return NamedSharding(mesh, _fit_spec(spec, leaf.shape, mesh))
        return replicated(mesh)

    return jax.tree_util.tree_map_with_path(place, tree)


def data_shard(mesh: Mesh) -> tuple[int, int]:
    """Which part of every global batch this process must read.

    Processes that differ along ``tensor`` only hold the same rows, so this is not in general
    the index and the number of processes.

    Args:
      mesh: the mesh.

    Returns:
      ``(index, count)``: this process reads rows ``[index B / count, (index + 1) B / count)``.

    Raises:
      ValueError: the devices of this process do not hold a run of neighbouring rows.
    """
    ways = mesh.shape["data"] * mesh.shape["fsdp"]
    indices = batch_sharding(mesh).addressable_devices_indices_map((ways,)).values()
    held = sorted({row for index in indices if index for row in range(ways)[index[0]]})
    first, number = held[0], len(held)
    if held != list(range(first, first + number)) or first % number or ways % number:
        raise ValueError(
            f"mesh {dict(mesh.shape)}: process {jax.process_index()} holds the parts {held} of "
            f"{ways} of a batch, needs neighbouring ones"
        )
    return first // number, ways // number


def global_batch(batch: Any, mesh: Mesh) -> Any:
    """Joins the rows that each process holds into arrays sharded over the mesh.

    Args:
      batch: pytree of numpy arrays ``[local_batch, ...]``: this process' rows of the
        global batch, those that :func:`data_shard` names.
      mesh: the mesh.

    Returns:
      The same tree of ``jax.Array``s ``[global_batch, ...]`` sharded by
      :func:`batch_sharding`.

    Raises:
      ValueError: an array without a leading axis, or a global batch that does not divide by
        the data x fsdp devices.
    """
    sharding = batch_sharding(mesh)
    ways = mesh.shape["data"] * mesh.shape["fsdp"]
    _, count = data_shard(mesh)

    def put(path: tuple[Any, ...], rows: np.ndarray) -> jax.Array:
        if np.ndim(rows) == 0:
            raise ValueError(f"batch {path_name(path)!r}: a scalar has no rows to split")
        total = rows.shape[0] * count
        if total % ways:
            raise ValueError(
                f"batch {path_name(path)!r}: {total} rows in all do not divide by the "
                f"{ways} devices on the axes data x fsdp"
            )
        return jax.make_array_from_process_local_data(sharding, rows, (total, *rows.shape[1:]))

    return jax.tree_util.tree_map_with_path(put, batch)
