"""The T6 experiment's model: one kind of attention with its training step and evaluation."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh
from ml_collections import ConfigDict

from experiments.t6_data import Corpus
from neurips25 import training
from neurips25.data import TokenBatches, evaluation_windows
from neurips25.language import T6_RULES, T6LM, T6Config, cross_entropy

_EVAL_SEED = 9000


def run_name(kind: str, seed: int) -> str:
    """Name of one training run in a run directory."""
    return f"{kind}-seed{seed}"


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


def abstract_state(config: ConfigDict, cfg: T6Config, mesh: Mesh) -> training.TrainState:
    """Shapes and placements of a model's training state."""
    return training.abstract_state(init_fn(cfg), transform(config), mesh=mesh, rules=T6_RULES)


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


class Model(NamedTuple):
    """One kind of attention; step and evaluator are compiled once for all of its seeds."""

    kind: str
    cfg: T6Config
    step: training.StepFn
    evaluator: Evaluator


def make_model(config: ConfigDict, kind: str, corpus: Corpus, mesh: Mesh) -> Model:
    """Everything that training one kind needs.

    Raises:
      ValueError: an unknown kind or option.
    """
    cfg = model_config(config, kind, corpus.vocab_size)
    return Model(kind, cfg, make_step(config, cfg, mesh), Evaluator(config, cfg, corpus, mesh))
