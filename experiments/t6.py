"""T6 on real text: every kind of attention in one model, one training loop, one report.

``run(config, workdir)`` does what ``config.task`` says; see ``configs/t6.py``.
"""

import json
import pathlib
import time
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import rich.console
import safetensors.numpy
from jax.sharding import Mesh
from ml_collections import ConfigDict

from experiments import t6_report, t6_tables
from experiments.report import write_report
from experiments.t6_data import Corpus, check_corpus, load_corpus
from experiments.workdir import prepare_workdir
from neurips25 import training
from neurips25.attention import attention_param_count, cache_numbers_per_token
from neurips25.data import TokenBatches, evaluation_windows, replace_text, replaced_file
from neurips25.evidence import ClaimRecord
from neurips25.language import (
    T6_RULES,
    T6LM,
    T6Config,
    cross_entropy,
    generate,
    t6_params_to_torch,
)

# Fields that say what to do with a run directory, not what the run in it is.
FREE_FIELDS = ("task", "generate")

_DATA_SEED, _EVAL_SEED = 5000, 9000
_console = rich.console.Console()


class Result(NamedTuple):
    """One finished training run, as stored in ``results/<kind>-seed<n>.json``.

    Attributes:
      kind, seed: which run.
      loss: validation loss in nats per token over ``tokens`` targets.
      parameters: of the whole model.
      attention_parameters, cache_numbers: of one layer.
      seconds: wall time of training, evaluation included; of the last start if resumed.
      curve: [(training tokens seen, validation loss), ...].
    """

    kind: str
    seed: int
    loss: float
    tokens: int
    parameters: int
    attention_parameters: int
    cache_numbers: int
    seconds: float
    curve: list[tuple[int, float]]


def model_config(config: ConfigDict, kind: str, vocab_size: int) -> T6Config:
    """The model of one kind of attention.

    Args:
      config: the experiment's config.
      kind: one of ``config.attention``; the name of its attention unless it says another.
      vocab_size: of the tokenizer; used where ``config.model.vocab_size`` is 0.

    Returns:
      The model's config.

    Raises:
      ValueError: an unknown kind or option.
    """
    if kind not in config.attention:
        raise ValueError(
            f"config.kinds: unknown attention kind {kind!r}, the kinds are "
            f"{', '.join(sorted(config.attention))}"
        )
    fields = {"attention": kind, **config.model, **config.attention[kind]}
    fields["vocab_size"] = fields["vocab_size"] or vocab_size
    return T6Config(**fields)


def schedule(config: ConfigDict) -> optax.Schedule:
    """Linear warm-up from 0, then cosine to ``min_lr`` (arXiv:2501.06425, appendix H)."""
    t = config.train
    return optax.warmup_cosine_decay_schedule(
        0.0, t.max_lr, t.warmup, t.decay_steps or t.steps, t.min_lr
    )


def transform(config: ConfigDict) -> optax.GradientTransformation:
    """AdamW with decay on all parameters."""
    t = config.train
    return optax.adamw(schedule(config), b1=t.b1, b2=t.b2, weight_decay=t.weight_decay)


def init_fn(cfg: T6Config) -> Any:
    """``key -> variables`` of a model."""
    return lambda key: T6LM(cfg).init(key, jnp.zeros((1, 1), jnp.int32))


def loss_fn(cfg: T6Config) -> training.LossFn:
    """Next-token loss of a model in the form that the training step takes."""

    def loss(params: Any, extra: Any, batch: Any, key: jax.Array) -> Any:
        del key  # no dropout
        logits = T6LM(cfg).apply({"params": params}, batch["tokens"])
        value, count = cross_entropy(logits, batch["targets"])
        return value, ({"weight": count}, extra)

    return loss


def make_step(config: ConfigDict, cfg: T6Config, mesh: Mesh) -> training.StepFn:
    """The training step of one model."""
    return training.make_train_step(
        loss_fn(cfg),
        transform(config),
        mesh,
        rules=T6_RULES,
        accumulate=config.train.accumulate,
        clip_norm=config.train.clip_norm,
    )


def abstract_step(config: ConfigDict, mesh: Mesh) -> tuple[Any, Any, Any]:
    """Step, state and batch of the first kind as shapes only, for ``--dry_run``."""
    cfg = model_config(config, config.kinds[0], config.model.vocab_size or 256)
    state = training.abstract_state(init_fn(cfg), transform(config), mesh=mesh, rules=T6_RULES)
    rows = jax.ShapeDtypeStruct(
        (config.train.batch_size, cfg.block_size),
        jnp.int32,
        sharding=training.batch_sharding(mesh),
    )
    return make_step(config, cfg, mesh), state, {"tokens": rows, "targets": rows}


class Evaluator:
    """Validation loss of a model; compiled once for all its uses."""

    def __init__(self, config: ConfigDict, cfg: T6Config, corpus: Corpus, mesh: Mesh):
        self._sizes, self._cfg, self._corpus, self._mesh = config.eval, cfg, corpus, mesh

        @jax.jit
        def total(params: Any, batch: Any) -> tuple[jax.Array, jax.Array]:
            with jax.sharding.use_abstract_mesh(mesh.abstract_mesh):
                logits = T6LM(cfg).apply({"params": params}, batch["tokens"])
            mean, count = cross_entropy(logits, batch["targets"])
            return mean * count, count

        self._total = total

    def _mean(self, params: Any, batches: Any) -> tuple[float, int]:
        sums = [self._total(params, training.global_batch(b, self._mesh)) for b in batches]
        loss, count = np.sum(np.asarray(jax.device_get(sums), np.float64), axis=0)
        return float(loss / count), int(count)

    def quick(self, state: training.TrainState) -> dict[str, float]:
        """Loss on the same ``config.eval.batches`` random batches each time."""
        batches = TokenBatches(
            (self._corpus.validation,), self._sizes.batch_size, self._cfg.block_size,
            _EVAL_SEED, *training.data_shard(self._mesh), vocab_size=self._cfg.vocab_size,
        )  # fmt: skip
        loss, _ = self._mean(
            state.params, (batches.batch_at(i) for i in range(self._sizes.batches))
        )
        return {"validation_loss": loss}

    def full(self, params: Any) -> tuple[float, int]:
        """Exact token mean over the split, or over its first ``final_batches`` batches."""
        index, count = training.data_shard(self._mesh)
        windows = evaluation_windows(
            self._corpus.validation, self._cfg.block_size, self._sizes.batch_size,
            process_index=index, process_count=count, vocab_size=self._cfg.vocab_size,
        )  # fmt: skip
        limit = self._sizes.final_batches
        return self._mean(params, (b for i, b in enumerate(windows) if not limit or i < limit))


def run_name(kind: str, seed: int) -> str:
    """Name of one training run in a run directory."""
    return f"{kind}-seed{seed}"


def restore_params(
    config: ConfigDict, cfg: T6Config, workdir: pathlib.Path, kind: str, seed: int, mesh: Mesh
) -> Any:
    """Parameters of a finished or interrupted run.

    Raises:
      ValueError: the run directory holds no checkpoint of this run.
    """
    like = training.abstract_state(init_fn(cfg), transform(config), mesh=mesh, rules=T6_RULES)
    directory = workdir / "checkpoints" / run_name(kind, seed)
    if not directory.is_dir():
        raise ValueError(f"{directory}: no such checkpoint; run --config.task=train first")
    checkpoints = training.Checkpointer(directory)
    found = checkpoints.restore_latest(like)
    checkpoints.close()
    if found is None:
        raise ValueError(f"{directory}: holds no whole checkpoint yet")
    return found.state.params


def train_one(
    config: ConfigDict, corpus: Corpus, kind: str, seed: int, workdir: pathlib.Path, mesh: Mesh
) -> Result:
    """Trains one model, or goes on with it, or returns what it ended with.

    Args:
      config: the experiment's config.
      corpus: both splits.
      kind: of attention.
      seed: of initialisation and of the order of the data.
      workdir: the run directory.
      mesh: devices.

    Returns:
      The result, also stored under ``results/``.
    """
    name = run_name(kind, seed)
    file = workdir / "results" / f"{name}.json"
    if file.exists():
        return Result(**json.loads(file.read_text()))
    cfg = model_config(config, kind, corpus.vocab_size)
    batches = TokenBatches(
        corpus.train, config.train.batch_size, cfg.block_size, _DATA_SEED + seed,
        *training.data_shard(mesh), vocab_size=cfg.vocab_size,
    )  # fmt: skip
    state = training.create_state(
        init_fn(cfg), transform(config), jax.random.key(seed), mesh=mesh, rules=T6_RULES
    )
    evaluator = Evaluator(config, cfg, corpus, mesh)
    writer = training.MetricWriter(workdir, name)
    checkpoints = training.Checkpointer(workdir / "checkpoints" / name, keep=2)
    start = time.perf_counter()
    try:
        state = training.fit(
            make_step(config, cfg, mesh),
            state,
            iter(batches),
            num_steps=config.train.steps,
            mesh=mesh,
            checkpoints=checkpoints,
            checkpoint_every=config.train.checkpoint_every,
            writer=writer,
            log_every=config.train.log_every,
            evaluate=evaluator.quick,
            eval_every=config.train.eval_every,
            description=name,
        )
    finally:
        writer.close()
    checkpoints.close()
    seconds = time.perf_counter() - start
    loss, tokens = evaluator.full(state.params)
    per_step = config.train.batch_size * cfg.block_size
    curve = [
        (row["step"] * per_step, row["validation_loss"])
        for row in training.read_metrics(writer.path, name)
        if "validation_loss" in row
    ]
    result = Result(
        kind=kind,
        seed=seed,
        loss=loss,
        tokens=tokens,
        parameters=sum(p.size for p in jax.tree.leaves(state.params)),
        attention_parameters=attention_param_count(cfg.attention, cfg),
        cache_numbers=cache_numbers_per_token(cfg.attention, cfg),
        seconds=seconds,
        curve=curve,
    )
    if jax.process_index() == 0:
        file.parent.mkdir(exist_ok=True)
        replace_text(file, json.dumps(result._asdict()) + "\n")
        _console.print(
            f"{name:18} validation loss {loss:.4f} nats/token, {result.parameters:,} parameters, "
            f"{seconds:.0f} s"
        )
    return result


def generate_text(
    config: ConfigDict, corpus: Corpus, workdir: pathlib.Path, mesh: Mesh, kind: str, seed: int
) -> str:
    """Continues ``config.generate.prompt`` with a trained model.

    Returns:
      Prompt and continuation.

    Raises:
      ValueError: a corpus without tokenizer, an empty prompt, or no checkpoint.
    """
    if corpus.tokenizer is None:
        raise ValueError("generate: token shards carry no tokenizer to read the prompt with")
    cfg = model_config(config, kind, corpus.vocab_size)
    g = config.generate
    prompt = np.asarray(corpus.tokenizer.encode(g.prompt))[None]
    if prompt.size == 0:
        raise ValueError("config.generate.prompt is empty, needs at least one token")
    params = restore_params(config, cfg, workdir, kind, seed, mesh)
    out = generate(
        cfg, params, jnp.asarray(prompt), jnp.array([prompt.shape[1]]), jax.random.key(seed),
        max_new_tokens=g.max_new_tokens, temperature=g.temperature,
        top_k=g.top_k or None, top_p=None if g.top_p == 1 else g.top_p,
        stop_token=corpus.tokenizer.end_of_text,
    )  # fmt: skip
    return g.prompt + corpus.tokenizer.decode(np.asarray(out.tokens[0, : int(out.num_tokens[0])]))


def decode_error(
    config: ConfigDict, corpus: Corpus, workdir: pathlib.Path, mesh: Mesh, kind: str, seed: int
) -> float:
    """Largest difference between cached and un-cached logits of a trained model.

    Half a window is prefilled, the rest decoded token by token.
    """
    cfg = model_config(config, kind, corpus.vocab_size)
    params = restore_params(config, cfg, workdir, kind, seed, mesh)
    tokens = corpus.validation
    tokens = tokens if isinstance(tokens, np.ndarray) else tokens.tokens
    return t6_report.decode_error(cfg, params, np.asarray(tokens[: cfg.block_size]))


def _check_sizes(config: ConfigDict, corpus: Corpus, mesh: Mesh) -> None:
    # What would fail after hours of training must fail before it.
    for kind in config.kinds:
        model_config(config, kind, corpus.vocab_size)
    ways = mesh.shape["data"] * mesh.shape["fsdp"]
    for name, rows in (
        ("train.batch_size", config.train.batch_size),
        ("eval.batch_size", config.eval.batch_size),
    ):
        if rows % ways:
            raise ValueError(
                f"config.{name}={rows} does not divide by the {ways} devices on data x fsdp"
            )


def _train_task(config: ConfigDict, workdir: pathlib.Path, mesh: Mesh) -> list[ClaimRecord]:
    corpus = _trained_corpus(config, workdir)
    _check_sizes(config, corpus, mesh)
    results = [
        train_one(config, corpus, kind, seed, workdir, mesh)
        for seed in config.seeds
        for kind in config.kinds
    ]
    if jax.process_count() > 1:
        if jax.process_index() == 0:
            _console.print("trained; the same command in one process writes the report")
        return []
    first = config.seeds[0]
    errors = {
        kind: decode_error(config, corpus, workdir, mesh, kind, first) for kind in config.kinds
    }
    timings = t6_report.decode_timings(config, workdir)
    if corpus.tokenizer is not None:
        (workdir / "samples").mkdir(exist_ok=True)
        for kind in config.kinds:
            text = generate_text(config, corpus, workdir, mesh, kind, first)
            replace_text(workdir / "samples" / f"{kind}.txt", text)
    t6_tables.write_cache_table(workdir)
    t6_tables.write_param_table(workdir)
    configs = {k: model_config(config, k, corpus.vocab_size) for k in config.kinds}
    records = t6_report.write_report(
        config, configs, corpus.name, results, errors, timings, workdir, _console
    )
    sample = workdir / "samples" / f"{config.kinds[0]}.txt"
    if sample.exists():
        _console.rule(f"text by {config.kinds[0]}")
        _console.print(sample.read_text(), markup=False, highlight=False)
    _console.rule("report")
    for path in write_report([workdir], workdir / "report"):
        _console.print(str(path), soft_wrap=True)
    return records


def _trained_corpus(config: ConfigDict, workdir: pathlib.Path) -> Corpus:
    corpus = load_corpus(config)
    check_corpus(corpus, workdir)
    return corpus


def _eval_task(config: ConfigDict, workdir: pathlib.Path, mesh: Mesh) -> None:
    corpus = _trained_corpus(config, workdir)
    for kind in config.kinds:
        cfg = model_config(config, kind, corpus.vocab_size)
        evaluator = Evaluator(config, cfg, corpus, mesh)
        for seed in config.seeds:
            params = restore_params(config, cfg, workdir, kind, seed, mesh)
            loss, tokens = evaluator.full(params)
            _console.print(
                f"{run_name(kind, seed):18} {loss:.4f} nats/token, perplexity {np.exp(loss):.3f} "
                f"over {tokens:,} tokens"
            )


def _generate_task(config: ConfigDict, workdir: pathlib.Path, mesh: Mesh) -> None:
    g = config.generate
    text = generate_text(config, _trained_corpus(config, workdir), workdir, mesh, g.kind, g.seed)
    _console.print(text, markup=False, highlight=False)


def _export_task(config: ConfigDict, workdir: pathlib.Path, mesh: Mesh) -> None:
    corpus = _trained_corpus(config, workdir)
    g = config.generate
    cfg = model_config(config, g.kind, corpus.vocab_size)
    params = jax.device_get(restore_params(config, cfg, workdir, g.kind, g.seed, mesh))
    name = run_name(g.kind, g.seed)
    training.save_params(workdir / f"{name}.safetensors", params)
    with replaced_file(workdir / f"{name}.torch.safetensors") as partial:
        safetensors.numpy.save_file(t6_params_to_torch(params, cfg), partial)
    _console.print(f"{workdir / name}.safetensors and .torch.safetensors")


def run(
    config: ConfigDict, workdir: str | pathlib.Path, mesh: Mesh | None = None
) -> list[ClaimRecord]:
    """Runs the task that the config names.

    Args:
      config: from ``configs/t6.py``.
      workdir: the run directory; a run that stopped there goes on.
      mesh: devices, default all of them on the data axis.

    Returns:
      The claim records of ``task="train"``, which also lie in ``records.json``; else none.

    Raises:
      ValueError: an unknown task or kind, or a corpus that cannot be used.
      WorkdirError: the directory cannot be used or holds a run of another config.
      Interrupted: stopped by a signal; nothing is lost.
    """
    workdir = prepare_workdir(workdir, config, FREE_FIELDS)
    mesh = mesh or training.make_mesh()
    if config.task == "train":
        return _train_task(config, workdir, mesh)
    tasks = {
        "eval": lambda: _eval_task(config, workdir, mesh),
        "generate": lambda: _generate_task(config, workdir, mesh),
        "export": lambda: _export_task(config, workdir, mesh),
        "bench_decode": lambda: t6_report.decode_timings(config, workdir, _console),
        "cache_table": lambda: t6_tables.write_cache_table(workdir, _console),
        "param_table": lambda: t6_tables.write_param_table(workdir, _console),
    }
    if config.task not in tasks:
        raise ValueError(f"config.task={config.task!r} is not one of train, {', '.join(tasks)}")
    tasks[config.task]()
    return []
