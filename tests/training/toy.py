"""A small noisy regression that the training tests share; also run as a subprocess.

python -m tests.training.toy WORKDIR --steps=40 [--checkpoint_every=5] [--sleep=0.01]
"""

import argparse
import json
import pathlib
import time

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import PartitionSpec as P

from neurips25 import training
from neurips25.data import SeekableBatches

RULES = ((r"dense/w$", P("fsdp", "tensor")), (r"out/w$", P("tensor", "fsdp")))


def init(key):
    k1, k2 = jax.random.split(key)
    return {
        "params": {
            "dense": {"w": 0.3 * jax.random.normal(k1, (4, 8)), "b": jnp.zeros(8)},
            "out": {"w": 0.3 * jax.random.normal(k2, (8, 2))},
        },
        "stats": {"mean": jnp.zeros(4)},
    }


def loss_fn(params, extra, batch, key):
    x = batch["x"] + 0.01 * jax.random.normal(key, batch["x"].shape)
    h = jnp.tanh(x @ params["dense"]["w"] + params["dense"]["b"])
    error = ((h @ params["out"]["w"] - batch["y"]) ** 2).sum(-1)
    weight = batch["weight"].sum()
    loss = (error * batch["weight"]).sum() / weight
    mean = 0.9 * extra["stats"]["mean"] + 0.1 * batch["x"].mean(0)
    return loss, ({"weight": weight}, {"stats": {"mean": mean}})


def batch_at(step, rows=16):
    rng = np.random.default_rng([7, step])
    x = rng.normal(size=(rows, 4)).astype(np.float32)
    y = np.stack([x[:, 0] * x[:, 1], np.sin(x[:, 2])], axis=1)
    return {"x": x, "y": y, "weight": rng.integers(1, 4, rows).astype(np.float32)}


def transform():
    return optax.adamw(1e-2, weight_decay=0.1)


def make(mesh, ema=True, **kwargs):
    """A fresh state and its step."""
    state = training.create_state(
        init, transform(), jax.random.key(0), mesh=mesh, rules=RULES, ema=ema
    )
    step = training.make_train_step(
        loss_fn, transform(), mesh, rules=RULES, ema_decay=0.9 if ema else None, **kwargs
    )
    return state, step


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("workdir", type=pathlib.Path)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--checkpoint_every", type=int, default=5)
    parser.add_argument("--sleep", type=float, default=0.0)
    parser.add_argument("--mesh", default="")
    parser.add_argument("--coordinator")
    parser.add_argument("--process", type=int)
    args = parser.parse_args()
    sizes = training.parse_mesh(args.mesh)
    if args.coordinator:
        jax.config.update("jax_num_cpu_devices", 1)
        jax.distributed.initialize(args.coordinator, 2, args.process)
    elif sizes:
        jax.config.update("jax_num_cpu_devices", int(np.prod(list(sizes.values()))))
    mesh = training.make_mesh(sizes)
    index, count = training.data_shard(mesh)

    def local_batch(step):
        time.sleep(args.sleep)
        return {k: np.split(v, count)[index] for k, v in batch_at(step).items()}

    state, step = make(mesh)
    checkpoints = training.Checkpointer(args.workdir / "checkpoints", keep=3)
    writer = training.MetricWriter(args.workdir)
    try:
        state = training.fit(
            step,
            state,
            SeekableBatches(local_batch),
            num_steps=args.steps,
            mesh=mesh,
            checkpoints=checkpoints,
            checkpoint_every=args.checkpoint_every,
            writer=writer,
            log_every=1,
        )
    except training.Interrupted as stop:
        print(json.dumps({"stopped": stop.step, "signal": stop.signal_name}))
        return
    checkpoints.close()
    writer.close()
    print(json.dumps({"fingerprint": np.asarray(training.fingerprint(state)).tolist()}))


if __name__ == "__main__":
    main()
