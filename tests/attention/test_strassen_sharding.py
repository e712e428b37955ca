"""Strassen attention with its batch split over eight virtual devices."""

import os
import subprocess
import sys

PROGRAM = """
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import NamedSharding, PartitionSpec
from neurips25 import training
from neurips25.attention import strassen_attention, strassen_denominators
from tests.attention.strassen_cases import padding, random_inputs

mesh = training.make_mesh({"data": 4, "fsdp": 2})
rows = NamedSharding(mesh, PartitionSpec(("data", "fsdp")))
for scale in (1.0, 100.0):
    arrays = random_inputs(batch=8, scale=scale, dtype=np.float32)
    mask = padding(8, 7) | (np.arange(7) < 2)
    lost = bool((strassen_denominators(*arrays[:3], mask) == 0).any())
    assert lost == (scale > 1), lost

    def total(arrays, mask):
        out = strassen_attention(*arrays, mask)
        return jnp.sum(out**2), out

    def on_mesh(arrays, mask):
        with jax.sharding.use_abstract_mesh(mesh.abstract_mesh):
            return jax.grad(total, has_aux=True)(arrays, mask)

    want = jax.jit(jax.grad(total, has_aux=True))(arrays, mask)
    got = jax.jit(on_mesh)(*jax.device_put((arrays, mask), rows))
    assert got[1].sharding.num_devices == 8
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=2e-5 * scale), got, want
    )
print("equal")
"""


def test_eight_devices_and_one_agree():
    env = os.environ | {"XLA_FLAGS": "--xla_force_host_platform_device_count=8"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=env, text=True, capture_output=True, check=False
    )
    assert done.stdout == "equal\n", done.stderr[-2000:]
