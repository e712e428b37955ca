"""Cache and parameter tables of the paper's four model sizes, from shapes alone."""

import dataclasses
import functools
import math
import pathlib
from typing import Any

import jax
import jax.numpy as jnp
import rich.console

from configs.t6 import get_config
from experiments.t6_model import model_config
from experiments.tables import print_table, write_csv
from neurips25.attention import attention_param_count, cache_bytes, cache_numbers_per_token
from neurips25.language import T6LM, T6Config

SIZES = {"small": "paper", "medium": "paper_medium", "large": "paper_large", "xl": "paper_xl"}
KINDS = ("mha", "mqa", "gqa", "mla", "tpa_kvonly", "tpa")

# Totals of the released configurations, small to XL (arXiv:2501.06425, appendix H; counted
# from the released code where the paper rounds).
RELEASED_PARAMETERS = {
    "mha": (123_568_128, 353_452_032, 772_131_840, 1_554_892_800),
    "mqa": (123_568_128, 353_452_032, 772_131_840, 1_554_892_800),
    "gqa": (123_568_128, 353_452_032, 772_131_840, 1_554_892_800),
    "mla": (123_085_824, 417_976_320, 909_321_216, 1_810_065_408),
    "tpa_kvonly": (124_379_136, 353_157_120, 773_053_440, 1_559_500_800),
    "tpa": (124_342_272, 353_992_704, 773_698_560, 1_555_814_400),
}


def paper_model(size: str, kind: str) -> T6Config:
    """The model of one of the paper's sizes, with any kind of ``configs/t6.py``."""
    config = get_config(SIZES[size])
    return model_config(config, kind, config.model.vocab_size)


@functools.cache
def parameter_count(cfg: T6Config) -> int:
    """Parameters of a model, counted on its shapes; nothing is allocated."""
    tokens = jax.ShapeDtypeStruct((1, 1), jnp.int32)
    one_layer = T6LM(dataclasses.replace(cfg, n_layer=1))
    shapes = jax.eval_shape(one_layer.init, jax.random.key(0), tokens)["params"]
    sizes = {
        name: sum(math.prod(p.shape) for p in jax.tree.leaves(shapes[name])) for name in shapes
    }
    return sum(sizes.values()) + (cfg.n_layer - 1) * sizes["block_0"]  # blocks are all alike


def cache_rows() -> list[list[Any]]:
    """Per size and kind: numbers and bfloat16 bytes per token, longest context in 1 GiB."""
    rows = []
    for size in SIZES:
        for kind in KINDS:
            cfg = paper_model(size, kind)
            per_token = cache_bytes(kind, cfg, 1, 1, cfg.n_layer, jnp.bfloat16)
            numbers = cache_numbers_per_token(kind, cfg)
            rows.append([size, kind, cfg.n_head, numbers, per_token, 2**30 // per_token])
    return rows


def parameter_rows() -> list[list[Any]]:
    """Per size and kind: total, attention against 4 d^2, difference from MHA's total."""
    rows: list[list[Any]] = []
    for size in SIZES:
        reference = parameter_count(paper_model(size, "mha"))
        for kind in KINDS:
            cfg = paper_model(size, kind)
            total = parameter_count(cfg)
            ratio = attention_param_count(kind, cfg) / (4 * cfg.n_embd**2)
            rows.append([size, kind, cfg.n_head, total, f"{ratio:.3f}",
                         f"{100 * (total / reference - 1):+.2f} %"])  # fmt: skip
    return rows


CACHE_HEADER = (
    "size", "attention", "heads", "numbers per token and layer", "bfloat16 bytes per token",
    "longest context in 1 GiB",
)  # fmt: skip
PARAMETER_HEADER = (
    "size", "attention", "heads", "parameters", "attention / 4d^2", "total against MHA",
)  # fmt: skip


def write_cache_table(workdir: pathlib.Path, console: rich.console.Console | None = None) -> None:
    """Writes ``tables/cache_paper_sizes.csv``."""
    rows = cache_rows()
    write_csv(workdir / "tables" / "cache_paper_sizes.csv", CACHE_HEADER, rows)
    if console is not None:
        print_table(console, "KV cache at the paper's sizes", CACHE_HEADER, rows)


def write_param_table(workdir: pathlib.Path, console: rich.console.Console | None = None) -> None:
    """Writes ``tables/parameters_paper_sizes.csv``."""
    rows = parameter_rows()
    write_csv(workdir / "tables" / "parameters_paper_sizes.csv", PARAMETER_HEADER, rows)
    if console is not None:
        print_table(console, "Parameters at the paper's sizes", PARAMETER_HEADER, rows)
