"""Training core: state, step, loop, checkpoints, meshes and metric writers."""

from neurips25.training.checkpoint import (
    Checkpointer,
    CheckpointError,
    Restored,
    checkpoint_tree,
    fingerprint,
)
from neurips25.training.fit import Batches, InputEndedError, Interrupted, NonFiniteError, fit
from neurips25.training.flops import count_flops
from neurips25.training.mesh import (
    AXES,
    Rules,
    batch_sharding,
    data_shard,
    global_batch,
    make_mesh,
    parse_mesh,
    replicated,
    tree_shardings,
)
from neurips25.training.metrics import MetricWriter, read_metrics
from neurips25.training.params_io import load_params, save_params
from neurips25.training.state import TrainState, abstract_state, create_state, state_maker
from neurips25.training.step import LossFn, Metrics, StepFn, guarded_update, make_train_step

__all__ = [
    "AXES",
    "Batches",
    "CheckpointError",
    "Checkpointer",
    "InputEndedError",
    "Interrupted",
    "LossFn",
    "MetricWriter",
    "Metrics",
    "NonFiniteError",
    "Restored",
    "Rules",
    "StepFn",
    "TrainState",
    "abstract_state",
    "batch_sharding",
    "checkpoint_tree",
    "count_flops",
    "create_state",
    "data_shard",
    "fingerprint",
    "fit",
    "global_batch",
    "guarded_update",
    "load_params",
    "make_mesh",
    "make_train_step",
    "parse_mesh",
    "read_metrics",
    "replicated",
    "save_params",
    "state_maker",
    "tree_shardings",
]
