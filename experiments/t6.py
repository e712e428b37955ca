"""T6 on real text: every kind of attention in one model, one training loop, one report.

``run(config, workdir)`` does what ``config.task`` says; see ``configs/t6.py``.
"""

import dataclasses
import math
import pathlib
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import rich.console
import safetensors.numpy
from jax.sharding import Mesh
from ml_collections import ConfigDict

from experiments import t6_report, t6_tables
from experiments.report import write_report
from experiments.t6_check import check_run, encode_prompt, sampling_options
from experiments.t6_data import Corpus, check_corpus, load_corpus
from experiments.t6_model import (
    Evaluator,
    Model,
    abstract_state,
    init_fn,
    make_model,
    make_step,
    model_config,
    run_name,
    transform,
)
from experiments.training_run import restore, result_file, run_task, stored, train_run
from experiments.workdir import prepare_workdir
from neurips25 import training
from neurips25.attention import attention_param_count, cache_numbers_per_token
from neurips25.data import TokenBatches, replace_text, replaced_file
from neurips25.evidence import ClaimRecord
from neurips25.language import T6_RULES, T6Config, generate, t6_params_to_torch

# Fields that say what to do with a run directory, not what the run in it is.
FREE_FIELDS = ("task", "generate")

_DATA_SEED = 5000
_console = rich.console.Console()


class Result(NamedTuple):
    """One finished training run, as stored in ``results/<kind>-seed<n>.json``.

    Attributes:
      kind, seed: which run.
      loss: validation loss in nats per token over ``tokens`` targets; NaN where training
        diverged.
      parameters: of the whole model.
      attention_parameters, cache_numbers: of one layer.
      seconds: of training, evaluation left out; NaN where training diverged.
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


def abstract_step(config: ConfigDict, mesh: Mesh) -> tuple[Any, Any, Any]:
    """Step, state and batch of the first kind as shapes only, for ``--dry_run``."""
    cfg = model_config(config, config.kinds[0], config.model.vocab_size or 256)
    rows = jax.ShapeDtypeStruct(
        (config.train.batch_size, cfg.block_size),
        jnp.int32,
        sharding=training.batch_sharding(mesh),
    )
    batch = {"tokens": rows, "targets": rows}
    return make_step(config, cfg, mesh), abstract_state(config, cfg, mesh), batch


def restore_params(
    config: ConfigDict, cfg: T6Config, workdir: pathlib.Path, kind: str, seed: int, mesh: Mesh
) -> Any:
    """Parameters of a finished or interrupted run.

    Raises:
      ValueError: the run directory holds no checkpoint of this run.
    """
    like = abstract_state(config, cfg, mesh)
    return restore(workdir, run_name(kind, seed), like).params


def train_one(
    config: ConfigDict, corpus: Corpus, model: Model, seed: int, workdir: pathlib.Path, mesh: Mesh
) -> Result:
    """Trains one model, or goes on with it, or returns what it ended with.

    Args:
      config: the experiment's config.
      corpus: both splits.
      model: which kind.
      seed: of initialisation and of the order of the data.
      workdir: the run directory.
      mesh: devices.

    Returns:
      The result, also stored under ``results/``.
    """
    cfg = model.cfg
    name = run_name(model.kind, seed)

    def make() -> dict[str, Any]:
        batches = TokenBatches(
            corpus.train, config.train.batch_size, cfg.block_size, _DATA_SEED + seed,
            *training.data_shard(mesh), vocab_size=cfg.vocab_size,
        )  # fmt: skip
        state = training.create_state(
            init_fn(cfg), transform(config), jax.random.key(seed), mesh=mesh, rules=T6_RULES
        )
        parameters = sum(p.size for p in jax.tree.leaves(state.params))
        try:
            state, seconds, rows = train_run(
                workdir, name, model.step, state, iter(batches), mesh, config.train,
                model.evaluator.quick,
            )  # fmt: skip
            loss, tokens = model.evaluator.full(state.params)
        except training.NonFiniteError as error:
            _print(f"{name}: {error}")
            loss, tokens, seconds = math.nan, 0, math.nan
            rows = training.read_metrics(workdir / "metrics.jsonl", name)
        per_step = config.train.batch_size * cfg.block_size
        return Result(
            kind=model.kind,
            seed=seed,
            loss=loss,
            tokens=tokens,
            parameters=parameters,
            attention_parameters=attention_param_count(cfg.attention, cfg),
            cache_numbers=cache_numbers_per_token(cfg.attention, cfg),
            seconds=seconds,
            curve=[
                (row["step"] * per_step, row["validation_loss"])
                for row in rows
                if "validation_loss" in row
            ],
        )._asdict()

    file = result_file(workdir, name)
    fresh = not file.exists()
    kept = stored(file, make)
    # Metric rows have null where a value was not finite.
    curve = [(tokens, math.nan if loss is None else loss) for tokens, loss in kept["curve"]]
    result = Result(**kept | {"curve": curve})
    if fresh:
        _print(
            f"{name:18} validation loss {result.loss:.4f} nats/token, "
            f"{result.parameters:,} parameters, {result.seconds:.0f} s"
        )
    return result


def _print(line: str) -> None:
    if jax.process_index() == 0:
        _console.print(line)


def generate_text(
    config: ConfigDict, corpus: Corpus, workdir: pathlib.Path, mesh: Mesh, kind: str, seed: int
) -> str:
    """Continues ``config.generate.prompt`` with a trained model.

    Returns:
      Prompt and continuation.

    Raises:
      ValueError: a corpus without tokenizer, a prompt that it cannot read, or no checkpoint.
    """
    if corpus.tokenizer is None:
        raise ValueError("generate: token shards carry no tokenizer to read the prompt with")
    prompt = encode_prompt(config, corpus.tokenizer)[None]
    cfg = model_config(config, kind, corpus.vocab_size)
    params = restore_params(config, cfg, workdir, kind, seed, mesh)
    # Ids that only pad the vocabulary stand for no text: the model without them.
    known = min(cfg.vocab_size, corpus.vocab_size)
    tables = {name: params[name][:known] for name in ("wte", "lm_head") if name in params}
    out = generate(
        dataclasses.replace(cfg, vocab_size=known), params | tables, jnp.asarray(prompt),
        jnp.array([prompt.shape[1]]), jax.random.key(seed),
        max_new_tokens=config.generate.max_new_tokens, **sampling_options(config),
        stop_token=corpus.tokenizer.end_of_text,
    )  # fmt: skip
    new = np.asarray(out.tokens[0, : int(out.num_tokens[0])])
    return config.generate.prompt + corpus.tokenizer.decode(new)


def decode_errors(
    config: ConfigDict, corpus: Corpus, workdir: pathlib.Path, mesh: Mesh, kinds: list[str]
) -> dict[str, float]:
    """Largest difference between cached and un-cached logits of trained models.

    Half a window is prefilled, the rest decoded token by token.

    Returns:
      Kind -> difference in float32 and, for a model that computes in another dtype,
      "kind in dtype" -> difference in that one. First seed.
    """
    tokens = corpus.validation
    tokens = tokens if isinstance(tokens, np.ndarray) else tokens.tokens
    errors = {}
    for kind in kinds:
        cfg = model_config(config, kind, corpus.vocab_size)
        params = restore_params(config, cfg, workdir, kind, config.seeds[0], mesh)
        window = np.asarray(tokens[: cfg.block_size])
        exact = dataclasses.replace(cfg, dtype=jnp.float32)
        errors[kind] = t6_report.decode_error(exact, params, window)
        if cfg.dtype != exact.dtype:
            errors[f"{kind} in {cfg.dtype}"] = t6_report.decode_error(cfg, params, window)
    return errors


def _trained_corpus(config: ConfigDict, workdir: pathlib.Path) -> Corpus:
    corpus = load_corpus(config)
    check_corpus(corpus, workdir)
    return corpus


def _train_task(config: ConfigDict, workdir: pathlib.Path, mesh: Mesh) -> list[ClaimRecord]:
    corpus = load_corpus(config)
    check_run(config, corpus, mesh)
    check_corpus(corpus, workdir)
    models = [make_model(config, kind, corpus, mesh) for kind in config.kinds]
    results = [
        train_one(config, corpus, model, seed, workdir, mesh)
        for seed in config.seeds
        for model in models
    ]
    if jax.process_count() > 1:
        _print("trained; the same command in one process writes the report")
        return []
    first = config.seeds[0]
    whole = [r.kind for r in results if r.seed == first and math.isfinite(r.loss)]
    errors = stored(
        result_file(workdir, "decode_error"),
        lambda: decode_errors(config, corpus, workdir, mesh, whole),
    )
    timings = t6_report.decode_timings(config, workdir)
    samples = workdir / "samples"
    if corpus.tokenizer is not None:
        for kind in whole:
            text = generate_text(config, corpus, workdir, mesh, kind, first)
            replace_text(samples / f"{kind}.txt", text)
    t6_tables.write_cache_table(workdir)
    t6_tables.write_param_table(workdir)
    configs = {model.kind: model.cfg for model in models}
    records = t6_report.write_report(
        config, configs, corpus.name, results, errors, timings, workdir, _console
    )
    sample = samples / f"{config.kinds[0]}.txt"
    if sample.exists():
        _console.rule(f"text by {config.kinds[0]}")
        _console.print(sample.read_text(), markup=False, highlight=False)
    _console.rule("report")
    for path in write_report([workdir], workdir / "report"):
        _console.print(str(path), soft_wrap=True)
    return records


def _eval_task(config: ConfigDict, workdir: pathlib.Path, mesh: Mesh) -> None:
    corpus = _trained_corpus(config, workdir)
    for kind in config.kinds:
        cfg = model_config(config, kind, corpus.vocab_size)
        evaluator = Evaluator(config, cfg, corpus, mesh)
        for seed in config.seeds:
            params = restore_params(config, cfg, workdir, kind, seed, mesh)
            loss, tokens = evaluator.full(params)
            _console.print(
                f"{run_name(kind, seed):18} {loss:.4f} nats/token, "
                f"perplexity {np.exp(loss):.3f} over {tokens:,} tokens"
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
      ValueError: an unknown task or kind, or a corpus or sizes that cannot be used.
      WorkdirError: the directory cannot be used or holds a run of another config.
      Interrupted: stopped by a signal; nothing is lost.
    """
    workdir = prepare_workdir(workdir, config, FREE_FIELDS)
    mesh = mesh or training.make_mesh()
    return run_task(
        config,
        {
            "train": lambda: _train_task(config, workdir, mesh),
            "eval": lambda: _eval_task(config, workdir, mesh),
            "generate": lambda: _generate_task(config, workdir, mesh),
            "export": lambda: _export_task(config, workdir, mesh),
            "bench_decode": lambda: t6_report.bench_decode(config, workdir, _console),
            "cache_table": lambda: t6_tables.write_cache_table(workdir, _console),
            "param_table": lambda: t6_tables.write_param_table(workdir, _console),
        },
    )
