"""One training step of T6: ours, the same in flax with jax.nn attention, and in PyTorch.

    python -m experiments.benchmarks.train_step --out=runs/bench-train-step

All variants hold the same parameters, see the same batch and must agree on the loss before
anything is timed. The model is the scaled-down setting (4 layers of width 128, 16 sequences of
128 characters, float32, AdamW with clipping). The floor is the step's matmul FLOPs (those that
recomputing attention adds included) at the rate of a 1024^3 matmul measured beside it.
PyTorch is left out where it is not installed (``pip install neurips25[bench]``).
"""

import functools
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np

from experiments.benchmarks import harness

KINDS: dict[str, dict[str, Any]] = {
    "tpa": {"n_head": 16, "rank_q": 4, "rank_k": 2, "rank_v": 2},
    "mha": {"n_head": 8},
}
VOCAB, BATCH, BLOCK, LAYERS, WIDTH, DIM = 65, 16, 128, 4, 128, 16
LR, CLIP, BETAS, DECAY = 1e-3, 1.0, (0.9, 0.95), 0.1
Step = Callable[[], float]


def model_config(kind: Any) -> Any:
    """The model that all variants implement."""
    from neurips25.language import T6Config

    return T6Config(
        n_embd=WIDTH, head_dim=DIM, n_layer=LAYERS, vocab_size=VOCAB, block_size=BLOCK,
        attention=kind, **KINDS[kind],
    )  # fmt: skip


def make_params(kind: str) -> Any:
    """Random parameters, the output projections included, so that no path is dead."""
    import jax
    import jax.numpy as jnp

    from neurips25.language import T6LM

    shapes = jax.eval_shape(
        T6LM(model_config(kind)).init, jax.random.key(0), jax.ShapeDtypeStruct((1, 1), jnp.int32)
    )["params"]
    rng = np.random.default_rng(0)
    return jax.tree.map(lambda s: rng.normal(0, WIDTH**-0.5, s.shape).astype(np.float32), shapes)


def make_batch() -> dict[str, np.ndarray]:
    """Random characters."""
    tokens = np.random.default_rng(1).integers(0, VOCAB, (BATCH, BLOCK + 1)).astype(np.int32)
    return {"tokens": tokens[:, :-1].copy(), "targets": tokens[:, 1:].copy()}


def ours(kind: str) -> Step:
    """The step that the experiments use; each call returns the loss before the update."""
    import jax
    import optax

    from neurips25 import training
    from neurips25.language import T6_RULES, T6LM, cross_entropy

    model = T6LM(model_config(kind))
    mesh = training.make_mesh()
    tx = optax.adamw(LR, *BETAS, weight_decay=DECAY)

    def loss_fn(params: Any, extra: Any, batch: Any, key: jax.Array) -> Any:
        loss, count = cross_entropy(model.apply({"params": params}, batch["tokens"]),
                                    batch["targets"])  # fmt: skip
        return loss, ({"weight": count}, extra)

    params = make_params(kind)
    state = training.create_state(
        lambda key: {"params": params}, tx, jax.random.key(0), mesh=mesh, rules=T6_RULES
    )
    step = training.make_train_step(loss_fn, tx, mesh, rules=T6_RULES, clip_norm=CLIP)
    batch = training.global_batch(make_batch(), mesh)

    def run() -> float:
        nonlocal state
        state, metrics = step(state, batch)
        return float(metrics["loss"])

    return run


def flax_peer(kind: str) -> Step:
    """The same model in plain flax with ``jax.nn.dot_product_attention``, and plain optax."""
    import flax.linen as nn
    import jax
    import jax.numpy as jnp
    import optax

    cfg = model_config(kind)
    heads = cfg.n_head

    def rope(x: jax.Array) -> jax.Array:
        angles = jnp.arange(x.shape[1])[:, None] * 1e4 ** (-jnp.arange(0, DIM, 2) / DIM)
        cos, sin = jnp.cos(angles)[:, None], jnp.sin(angles)[:, None]
        u, v = jnp.split(x, 2, axis=-1)
        return jnp.concatenate([u * cos + v * sin, v * cos - u * sin], axis=-1)

    def norm(x: jax.Array) -> jax.Array:
        return x * jax.lax.rsqrt((x**2).mean(-1, keepdims=True) + 1.1920929e-07)

    class Block(nn.Module):
        @nn.compact
        def __call__(self, x: jax.Array) -> jax.Array:
            dense = lambda name, *out: nn.DenseGeneral(out, use_bias=False, name=name)  # noqa: E731
            h = norm(x)
            if kind == "mha":
                q, k, v = (dense(f"w{s}", heads, DIM)(h) for s in "qkv")
                q, k = rope(q), rope(k)
            else:

                def assemble(s: str, rank: int, turn: bool) -> jax.Array:
                    a, b = dense(f"wa_{s}", rank, heads)(h), dense(f"wb_{s}", rank, DIM)(h)
                    return jnp.einsum("btrh,btrd->bthd", a, rope(b) if turn else b) / rank

                q = assemble("q", cfg.rank_q, True)
                k, v = assemble("k", cfg.rank_k, True), assemble("v", cfg.rank_v, False)
            y = jax.nn.dot_product_attention(q, k, v, is_causal=True)
            x = x + nn.DenseGeneral(WIDTH, axis=(-2, -1), use_bias=False, name="wo")(y)
            h = norm(x)
            gate = nn.silu(dense("w1", cfg.ffn_hidden)(h)) * dense("w2", cfg.ffn_hidden)(h)
            return x + dense("w3", WIDTH)(gate)

    class Model(nn.Module):
        @nn.compact
        def __call__(self, tokens: jax.Array) -> jax.Array:
            embed = nn.Embed(VOCAB, WIDTH, name="wte")
            x = embed(tokens)
            for i in range(LAYERS):
                x = Block(name=f"block_{i}")(x)
            return embed.attend(norm(x))

    mine = make_params(kind)
    params: dict[str, Any] = {"wte": {"embedding": mine["wte"]}}
    for i in range(LAYERS):
        block = mine[f"block_{i}"]
        leaves = {**block["attn"], **block["mlp"]}
        params[f"block_{i}"] = {name: {"kernel": leaf} for name, leaf in leaves.items()}
    tx = optax.chain(optax.clip_by_global_norm(CLIP), optax.adamw(LR, *BETAS, weight_decay=DECAY))
    model = Model()
    params = jax.tree.map(jnp.asarray, params)
    opt_state = tx.init(params)
    batch = {k: jnp.asarray(v) for k, v in make_batch().items()}

    @functools.partial(jax.jit, donate_argnums=(0, 1))
    def step(params: Any, opt_state: Any, batch: Any) -> Any:
        def loss_fn(params: Any) -> jax.Array:
            logits = model.apply({"params": params}, batch["tokens"])
            return optax.softmax_cross_entropy_with_integer_labels(logits, batch["targets"]).mean()

        loss, grads = jax.value_and_grad(loss_fn)(params)
        updates, opt_state = tx.update(grads, opt_state, params)
        return optax.apply_updates(params, updates), opt_state, loss

    def run() -> float:
        nonlocal params, opt_state
        params, opt_state, loss = step(params, opt_state, batch)
        return float(loss)

    return run


def torch_peer(kind: str, compiled: bool) -> Step:
    """The same model in PyTorch with ``scaled_dot_product_attention`` and fused AdamW."""
    import torch
    import torch.nn.functional as F

    from neurips25.language import t6_params_to_torch

    torch.set_num_threads(harness.cpu_count())
    cfg = model_config(kind)
    heads = cfg.n_head
    weights = {
        name: torch.nn.Parameter(torch.from_numpy(value.copy()))
        for name, value in t6_params_to_torch(make_params(kind), cfg).items()
        if name != "lm_head.weight"
    }
    angles = torch.outer(torch.arange(BLOCK).float(), 1e4 ** (-torch.arange(0, DIM, 2) / DIM))
    cos, sin = angles.cos()[:, None], angles.sin()[:, None]

    def rope(x: Any) -> Any:
        u, v = x.chunk(2, dim=-1)
        return torch.cat([u * cos + v * sin, v * cos - u * sin], dim=-1)

    def norm(x: Any) -> Any:
        return F.rms_norm(x, (x.size(-1),))

    def attention(x: Any, prefix: str) -> Any:
        w = lambda name: weights[f"{prefix}.attn.{name}.weight"]  # noqa: E731
        if kind == "mha":
            q, k, v = (F.linear(x, w(f"c_{s}")).view(BATCH, BLOCK, heads, DIM) for s in "qkv")
            q, k = rope(q), rope(k)
        else:

            def assemble(s: str, rank: int, turn: bool) -> Any:
                a = F.linear(x, w(f"c_qkv.W_A_{s}")).view(BATCH * BLOCK, heads, rank)
                b = F.linear(x, w(f"c_qkv.W_B_{s}")).view(BATCH, BLOCK, rank, DIM)
                b = (rope(b) if turn else b).view(BATCH * BLOCK, rank, DIM)
                return torch.bmm(a, b).div(rank).view(BATCH, BLOCK, heads, DIM)

            q = assemble("q", cfg.rank_q, True)
            k, v = assemble("k", cfg.rank_k, True), assemble("v", cfg.rank_v, False)
        y = F.scaled_dot_product_attention(
            q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), is_causal=True
        )
        return F.linear(y.transpose(1, 2).reshape(BATCH, BLOCK, heads * DIM), w("c_proj"))

    def loss_fn(tokens: Any, targets: Any) -> Any:
        x = F.embedding(tokens, weights["transformer.wte.weight"])
        for i in range(LAYERS):
            prefix = f"transformer.h.{i}"
            x = x + attention(norm(x), prefix)
            h = norm(x)
            w = lambda name, p=prefix: weights[f"{p}.mlp.{name}.weight"]  # noqa: E731
            gate = F.silu(F.linear(h, w("c_fc1"))) * F.linear(h, w("c_fc2"))
            x = x + F.linear(gate, w("c_proj"))
        logits = F.linear(norm(x), weights["transformer.wte.weight"])
        return F.cross_entropy(logits.view(-1, VOCAB), targets.view(-1))

    optimizer = torch.optim.AdamW(
        list(weights.values()), lr=LR, betas=BETAS, weight_decay=DECAY, fused=True
    )
    batch = [torch.from_numpy(a.astype(np.int64)) for a in make_batch().values()]
    loss_call = torch.compile(loss_fn) if compiled else loss_fn

    def run() -> float:
        optimizer.zero_grad()
        loss = loss_call(*batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(list(weights.values()), CLIP)
        optimizer.step()
        return float(loss.detach())

    return run


def variants(kind: str) -> dict[str, Step]:
    """All variants that can run here."""
    steps = {"ours": ours(kind), "flax": flax_peer(kind)}
    try:
        import torch  # noqa: F401
    except ImportError:
        return steps
    steps["torch"] = torch_peer(kind, False)
    steps["torch_compile"] = torch_peer(kind, True)
    return steps


def measure(repeats: int = 20) -> list[harness.Row]:
    """Times every variant in this process, interleaved.

    Returns:
      One row per kind and variant.

    Raises:
      RuntimeError: the variants do not compute the same losses.
    """
    import jax

    from neurips25.language import T6LM, cross_entropy
    from neurips25.training import count_flops

    rows: list[harness.Row] = []
    rate = harness.matmul_rate()
    for kind in KINDS:
        steps = variants(kind)
        losses = {name: [step() for _ in range(3)] for name, step in steps.items()}
        for name, loss in losses.items():
            if not np.allclose(loss, losses["ours"], rtol=1e-4):
                raise RuntimeError(f"{kind}: {name} has losses {loss}, ours {losses['ours']}")
        times = harness.time_interleaved(steps, repeats)
        batch = make_batch()

        def model_loss(params: Any, kind: str = kind, batch: Any = batch) -> jax.Array:
            logits = T6LM(model_config(kind)).apply({"params": params}, batch["tokens"])
            return cross_entropy(logits, batch["targets"])[0]

        flops = count_flops(jax.grad(model_loss), make_params(kind))
        for name in steps:
            median = 1e3 * float(np.median(times[name]))
            rows.append({
                "kind": kind, "variant": name, "median_ms": median,
                "best_ms": 1e3 * min(times[name]),
                "over_ours": median / (1e3 * float(np.median(times["ours"]))),
                "gflop": flops / 1e9, "matmul_gflop_s": rate / 1e9,
                "floor_ms": 1e3 * flops / rate, "over_floor": median / (1e3 * flops / rate),
            })  # fmt: skip
    return rows


HEADER = ("kind", "threads", "variant", "median ms", "best ms", "x ours", "floor ms", "x floor")


def report(rows: list[harness.Row], out: pathlib.Path) -> None:
    """Prints the table and writes the CSV."""
    harness.write_rows(out / "train_step.csv", rows)
    cells = [
        [r["kind"], r["threads"], r["variant"], f"{r['median_ms']:.1f}", f"{r['best_ms']:.1f}",
         f"{r['over_ours']:.2f}", f"{r['floor_ms']:.1f}", f"{r['over_floor']:.2f}"]
        for r in rows
    ]  # fmt: skip
    harness.show("One training step", HEADER, cells)
    print(f"wrote {out / 'train_step.csv'}")


if __name__ == "__main__":
    harness.main_for(
        "experiments.benchmarks.train_step", measure, report, "runs/bench-train-step", {}
    )
