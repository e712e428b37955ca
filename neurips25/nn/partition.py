"""What a layer can ask of the mesh it is traced for, and ask of it in turn."""

import jax
from jax.sharding import PartitionSpec

BATCH_AXES = ("data", "fsdp")


def is_partitioned() -> bool:
    """Whether the code being traced runs on a mesh of several devices.

    >>> is_partitioned()
    False
    """
    mesh = jax.sharding.get_abstract_mesh()
    return not mesh.empty and mesh.size > 1


def constrain_batch(x: jax.Array) -> jax.Array:
    """Asks the compiler to keep the leading axis split over the mesh axes data and fsdp.

    With parameters split over ``fsdp`` the compiler may choose to split activations by their
    features instead, and then holds the whole batch on every device. A model calls this on its
    stream between layers. Outside of a mesh context (``training.make_train_step`` sets one),
    or where the batch does not divide by those axes, it does nothing.

    Args:
      x: [batch, ...].

    Returns:
      The same values.
    """
    mesh = jax.sharding.get_abstract_mesh()
    if mesh.empty or not set(BATCH_AXES) <= set(mesh.axis_names):
        return x
    if x.shape[0] % (mesh.shape["data"] * mesh.shape["fsdp"]):
        return x
    return jax.lax.with_sharding_constraint(x, PartitionSpec(BATCH_AXES))
