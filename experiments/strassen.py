"""Strassen attention and its baselines trained on the four composition tasks.

``run(config, workdir)`` does what ``config.task`` says; see ``configs/strassen.py``.
"""

import math
import pathlib
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import rich.console
from jax.sharding import Mesh
from ml_collections import ConfigDict

from experiments import strassen_report, strassen_verify
from experiments.benchmarks import strassen as benchmark
from experiments.report import write_report
from experiments.training_run import run_task, stored, train_run
from experiments.workdir import prepare_workdir
from neurips25 import training
from neurips25.attention import (
    IGNORED_LABEL,
    CompositionTask,
    FunctionCompositionVariant,
    StrassenMethod,
    TaskData,
    TripleAttention,
    TripleClassifier,
    TripleEncoder,
    load_task,
    make_binary_relation,
    make_function_composition,
    make_match3,
    make_match3_splits,
    make_quotient_relation,
    raw_features,
    save_task,
    split_validation,
)
from neurips25.data import ArrayBatches, evaluation_batches
from neurips25.evidence import ClaimRecord
from neurips25.nn import masked_mean, parse_enum

FREE_FIELDS = ("task",)
# The answer of function composition stands at the query token, the first one.
QUERIES = {CompositionTask.FUNCTION_COMPOSITION: (0,)}

_console = rich.console.Console()


class Result(NamedTuple):
    """One finished training run, as stored in ``results/<problem>-<mechanism>-seed<n>.json``.

    Attributes:
      problem, mechanism, seed: which run.
      accuracy: on the validation set after the last step, mean over its batches.
      parameters: of the whole model.
      seconds: of training, without evaluation.
      epochs: passes over the training set.
      curve: [(epochs, seconds, validation accuracy), ...].
    """

    problem: str
    mechanism: str
    seed: int
    accuracy: float
    parameters: int
    seconds: float
    epochs: float
    curve: list[tuple[float, float, float]]


def generate(config: ConfigDict, problem: str) -> tuple[TaskData, TaskData]:
    """Training and validation data of a problem, from ``config[problem].data``.

    Args:
      config: the experiment's config.
      problem: one of ``config.problems``.

    Returns:
      (train, validation).

    Raises:
      ValueError: an unknown problem, or sizes that the generator refuses.
    """
    task, d = _task(problem), config[problem].data
    total = d.num_train + d.num_validation
    if task is CompositionTask.MATCH3:
        sizes = (d.n_min, d.n_max, d.modulus, d.num_seed_sequences, d.bin_capacity or None)
        if d.split_first:
            return make_match3_splits(d.seed, d.num_train, d.num_validation, *sizes)
        data = make_match3(d.seed, total, *sizes)
    elif task is CompositionTask.FUNCTION_COMPOSITION:
        variant = FunctionCompositionVariant(d.variant)
        data = make_function_composition(d.seed, total, d.n_min, d.n_max, variant)
    elif task is CompositionTask.BINARY_RELATION:
        data = make_binary_relation(d.seed, total, d.m_min, d.m_max, d.p)
    else:
        data = make_quotient_relation(d.seed, total, d.m_min, d.m_max, d.p, d.colours or None)
    return split_validation(data, d.num_validation / total)


def load_problem(
    config: ConfigDict, problem: str, workdir: pathlib.Path
) -> tuple[TaskData, TaskData]:
    """The data of a problem: from ``data.path``, or generated once per run directory.

    Raises:
      FileNotFoundError: ``data.path`` lacks a file.
      ValueError: a file that is damaged or holds another task, or bad sizes.
    """
    given = config[problem].data.path
    folder = pathlib.Path(given) if given else workdir / "data" / problem
    files = [folder / "train.npz", folder / "validation.npz"]
    if not given and not all(f.exists() for f in files):
        parts = generate(config, problem)
        if jax.process_index() == 0:
            folder.mkdir(parents=True, exist_ok=True)
            for file, part in zip(files, parts):
                save_task(file, part)
        return parts
    train, validation = (load_task(f) for f in files)
    for file, part in zip(files, (train, validation)):
        if part.task is not _task(problem):
            raise ValueError(f"{file} holds {part.task}, needs {problem}")
    if train.field_sizes != validation.field_sizes:
        raise ValueError(f"{folder}: field_sizes {train.field_sizes} and {validation.field_sizes}")
    return train, validation


def _task(problem: str) -> CompositionTask:
    try:
        return CompositionTask(problem)
    except ValueError:
        names = ", ".join(CompositionTask)
        raise ValueError(f"config.problems: {problem!r} is not one of {names}") from None


def arrays_of(config: ConfigDict, problem: str, data: TaskData) -> dict[str, np.ndarray]:
    """The arrays that a model of a problem reads: ``inputs``, ``mask`` and ``labels``."""
    learned = config[problem].model.embedding == "learned"
    queries = QUERIES.get(data.task)
    return {
        "inputs": data.tokens if learned else raw_features(data),
        "mask": data.mask,
        "labels": data.labels if queries is None else data.labels[:, list(queries)],
    }


def model_of(
    config: ConfigDict, problem: str, mechanism: str, field_sizes: tuple[int, ...]
) -> TripleClassifier:
    """The model of one mechanism on one problem.

    Raises:
      ValueError: an unknown mechanism, attention or embedding.
    """
    if mechanism not in config.mechanisms:
        raise ValueError(
            f"config.{problem}.mechanisms: {mechanism!r} is not one of "
            f"{', '.join(config.mechanisms)}"
        )
    m, kind = config[problem].model, config.mechanisms[mechanism]
    if m.embedding not in ("learned", "raw"):
        raise ValueError(f"config.{problem}.model.embedding={m.embedding!r}, needs learned or raw")
    encoder = TripleEncoder(
        attention=parse_enum(TripleAttention, kind.attention, f"config.mechanisms.{mechanism}"),
        num_layers=kind.num_layers,
        num_heads=m.num_heads,
        method=parse_enum(StrassenMethod, config.method, "config.method"),
        ffn_depth=m.ffn_depth,
        dropout=m.dropout,
        use_norm=m.use_norm,
        out_proj=m.out_proj,
    )
    sizes = tuple(field_sizes) if m.embedding == "learned" else None
    return TripleClassifier(m.d_model, encoder, sizes, m.dropout)


def transform(config: ConfigDict, problem: str) -> optax.GradientTransformation:
    """AdamW without a schedule."""
    t = config[problem].train
    return optax.adamw(t.learning_rate, weight_decay=t.weight_decay)


def init_fn(model: TripleClassifier, arrays: Any) -> Any:
    """``key -> variables`` of a model."""
    first = jax.tree.map(lambda a: jnp.zeros((1, *a.shape[1:]), a.dtype), arrays["inputs"])
    return lambda key: model.init(key, first)


def loss_fn(model: TripleClassifier, problem: str) -> training.LossFn:
    """Binary cross-entropy over the labelled tokens, in the form that the training step takes."""
    queries = QUERIES.get(_task(problem))
    deterministic = model.dropout == 0

    def loss(params: Any, extra: Any, batch: Any, key: jax.Array) -> Any:
        logits = model.apply(
            {"params": params}, batch["inputs"], batch["mask"], queries, deterministic,
            rngs={"dropout": key},
        )  # fmt: skip
        labels = batch["labels"]
        terms = optax.sigmoid_binary_cross_entropy(logits, labels.astype(logits.dtype))
        value, count = masked_mean(terms, labels != IGNORED_LABEL)
        return value, ({"weight": count}, extra)

    return loss


def accuracy_fn(model: TripleClassifier, problem: str, mesh: Mesh) -> Any:
    """``(params, batch) -> accuracy`` over the labelled tokens of a batch, jitted."""
    queries = QUERIES.get(_task(problem))

    @jax.jit
    def accuracy(params: Any, batch: Any) -> jax.Array:
        with jax.sharding.use_abstract_mesh(mesh.abstract_mesh):
            logits = model.apply({"params": params}, batch["inputs"], batch["mask"], queries)
        labels = batch["labels"]
        counted = (labels != IGNORED_LABEL) & batch["real"][:, None]
        return masked_mean(((logits > 0) == (labels == 1)).astype(jnp.float32), counted)[0]

    return accuracy


def make_step(
    config: ConfigDict, problem: str, model: TripleClassifier, mesh: Mesh
) -> training.StepFn:
    """The training step of one model."""
    return training.make_train_step(loss_fn(model, problem), transform(config, problem), mesh)


def abstract_step(config: ConfigDict, mesh: Mesh) -> tuple[Any, Any, Any]:
    """Step, state and batch of the first problem's first mechanism as shapes, for ``--dry_run``."""
    problem = config.problems[0]
    own = config[problem]
    small = config.copy_and_resolve_references()
    small[problem].data.update({"num_train": 64, "num_validation": 16})
    data = generate(small, problem)[0]
    arrays = arrays_of(config, problem, data)
    model = model_of(config, problem, own.mechanisms[0], data.field_sizes)
    state = training.abstract_state(init_fn(model, arrays), transform(config, problem), mesh=mesh)
    sharding = training.batch_sharding(mesh)
    batch = {
        name: jax.ShapeDtypeStruct(
            (own.train.batch_size, *a.shape[1:]), jnp.asarray(a[:1]).dtype, sharding=sharding
        )
        for name, a in arrays.items()
    }
    return make_step(config, problem, model, mesh), state, batch


def train_mechanism(
    config: ConfigDict,
    problem: str,
    mechanism: str,
    data: tuple[TaskData, TaskData],
    workdir: pathlib.Path,
    mesh: Mesh,
) -> list[Result]:
    """Trains one mechanism on one problem with every seed, or goes on with it.

    Args:
      config: the experiment's config.
      problem, mechanism: which.
      data: training and validation data.
      workdir: the run directory.
      mesh: devices.

    Returns:
      A result per seed, also stored under ``results/``.
    """
    t = config[problem].train
    train, validation = (arrays_of(config, problem, part) for part in data)
    model = model_of(config, problem, mechanism, data[0].field_sizes)
    step = make_step(config, problem, model, mesh)
    accuracy = accuracy_fn(model, problem, mesh)
    size = min(t.batch_size, len(data[1]))
    held_out = [training.global_batch(b, mesh) for b in evaluation_batches(validation, size)]
    shard = training.data_shard(mesh)
    per_epoch = len(data[0]) // t.batch_size

    def evaluate(state: training.TrainState) -> dict[str, float]:
        return {
            "validation_accuracy": float(np.mean([accuracy(state.params, b) for b in held_out]))
        }

    def run_seed(seed: int) -> Result:
        name = f"{problem}-{mechanism}-seed{seed}"

        def make() -> dict[str, Any]:
            state = training.create_state(
                init_fn(model, train), transform(config, problem), jax.random.key(seed), mesh=mesh
            )
            parameters = sum(p.size for p in jax.tree.leaves(state.params))
            batches = iter(ArrayBatches(train, t.batch_size, seed, *shard))
            try:
                run = train_run(workdir, name, step, state, batches, mesh, t, evaluate)
            except training.NonFiniteError as error:
                _console.print(f"{name}: {error}")
                return Result(
                    problem, mechanism, seed, math.nan, parameters, math.nan, math.nan, []
                )._asdict()
            curve = [
                (row["step"] / per_epoch, row["seconds"], row["validation_accuracy"])
                for row in run.rows
                if "validation_accuracy" in row
            ]
            return Result(
                problem, mechanism, seed, curve[-1][2], parameters, run.seconds,
                t.steps / per_epoch, curve,
            )._asdict()  # fmt: skip

        file = workdir / "results" / f"{name}.json"
        fresh = not file.exists()
        kept = stored(file, make)
        result = Result(**{field: kept[field] for field in Result._fields})
        if fresh and jax.process_index() == 0:
            _console.print(f"{name:40} accuracy {result.accuracy:.4f}, {result.seconds:.0f} s")
        return result

    return [run_seed(seed) for seed in config.seeds]


def _check(config: ConfigDict, mesh: Mesh) -> None:
    # What would fail after hours of training must fail before it.
    ways = mesh.shape["data"] * mesh.shape["fsdp"]
    for problem in config.problems:
        _task(problem)
        own = config[problem]
        for mechanism in own.mechanisms:
            model_of(config, problem, mechanism, (2,))
        if own.train.batch_size % ways:
            raise ValueError(
                f"config.{problem}.train.batch_size={own.train.batch_size} does not divide by "
                f"the {ways} devices on data x fsdp"
            )


def _train_task(config: ConfigDict, workdir: pathlib.Path, mesh: Mesh) -> list[ClaimRecord]:
    _check(config, mesh)
    data = {problem: load_problem(config, problem, workdir) for problem in config.problems}
    for problem, (train, _) in data.items():
        if len(train) < config[problem].train.batch_size:
            raise ValueError(
                f"config.{problem}.train.batch_size={config[problem].train.batch_size} is more "
                f"than the {len(train)} examples"
            )
    trivial = {p: strassen_report.trivial_accuracies(parts[1]) for p, parts in data.items()}
    results = [
        result
        for problem in config.problems
        for mechanism in config[problem].mechanisms
        for result in train_mechanism(config, problem, mechanism, data[problem], workdir, mesh)
    ]
    if jax.process_count() > 1:
        if jax.process_index() == 0:
            _console.print("trained; the same command in one process writes the report")
        return []
    records = strassen_report.write_report(config, results, trivial, workdir, _console)
    _console.rule("report")
    for path in write_report([workdir], workdir / "report"):
        _console.print(str(path), soft_wrap=True)
    return records


def _generate_task(config: ConfigDict, workdir: pathlib.Path) -> None:
    for problem in config.problems:
        train, validation = load_problem(config, problem, workdir)
        answers = train.labels[train.labels != IGNORED_LABEL]
        _console.print(
            f"{problem}: {len(train)} + {len(validation)} examples, {answers.mean():.3f} positive"
        )


def _bench_task(config: ConfigDict, workdir: pathlib.Path) -> None:
    benchmark.in_workdir(config.bench, workdir, _console)


def run(
    config: ConfigDict, workdir: str | pathlib.Path, mesh: Mesh | None = None
) -> list[ClaimRecord]:
    """Runs the task that the config names.

    Args:
      config: from ``configs/strassen.py``.
      workdir: the run directory; a run that stopped there goes on.
      mesh: devices, default all of them on the data axis.

    Returns:
      The claim records of the tasks train and verify, which also lie in ``records.json``.

    Raises:
      ValueError: an unknown task, problem or mechanism, or data that cannot be used.
      WorkdirError: the directory cannot be used or holds a run of another config.
      Interrupted: stopped by a signal; nothing is lost.
    """
    workdir = prepare_workdir(workdir, config, FREE_FIELDS)
    mesh = mesh or training.make_mesh()
    return run_task(
        config,
        {
            "train": lambda: _train_task(config, workdir, mesh),
            "generate": lambda: _generate_task(config, workdir),
            "verify": lambda: strassen_verify.verify(config, workdir, _console),
            "bench": lambda: _bench_task(config, workdir),
        },
    )
