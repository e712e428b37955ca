"""T6 / Tensor Product Attention against MHA, MQA, GQA and MLA on real text.

    python -m experiments.launch --config=configs/t6.py:cpu --workdir=runs/t6-cpu

trains the six kinds of attention at equal parameter count, measures validation loss, decode
time and cache bytes, generates text, and ends with tables, figures and claim records.
Presets (measured on 2 CPU cores; `paper*` needs accelerators and --config.data.path=DIR with
token shards, and is checked here by --dry_run):

    smoke         every part at toy size                                   < 1 min
    demo          TPA and MHA, one seed                                    < 4 min
    cpu           six kinds, three seeds, 1000 steps                       36 min
    variants      TPA's ranks, its two starts, non-contextual and third order:
                  14 such runs where cpu has 18                            not timed
    paper         124M parameters; also paper_medium, paper_large, paper_xl (1.55B)
"""

from ml_collections import ConfigDict
from ml_collections.config_dict import placeholder

PRESETS = ("smoke", "demo", "cpu", "variants", "paper", "paper_medium", "paper_large", "paper_xl")


def get_config(preset: str = "cpu") -> ConfigDict:
    """The config of a preset.

    Args:
      preset: one of :data:`PRESETS`.

    Returns:
      A config; pass it to ``experiments.t6.run``.

    Raises:
      ValueError: no such preset.
    """
    if preset not in PRESETS:
        raise ValueError(f"preset {preset!r} is not one of {', '.join(PRESETS)}")
    config = ConfigDict()
    config.experiment = "t6"
    config.preset = preset
    # train: everything, and the report. eval, generate, export (safetensors, with our names and
    # with those of the released code): from the checkpoints of a run. bench_decode, cache_table,
    # param_table: these parts alone.
    config.task = "train"
    config.seeds = (0, 1, 2)
    # Kinds to compare, the first is the one that generate and --dry_run use.
    config.kinds = ("tpa", "mha", "mqa", "gqa", "mla", "tpa_kvonly")

    # Shared by all kinds; every field of neurips25.language.T6Config can stand here.
    config.model = ConfigDict(
        {
            "n_layer": 4,
            "n_embd": 128,
            "head_dim": 16,
            "block_size": 128,  # training context in tokens
            "vocab_size": 0,  # 0: from the tokenizer
            "rope_base": 1e4,
            # Bounds of the TPA factors at the start: "repo" are those of the released code, which
            # trained the paper's models; "paper" are those that its text states.
            "init": "repo",
            "dtype": "float32",  # of the computation; parameters stay float32
            "rope_style": "half",  # or "interleaved"
            "rope_dtype": placeholder(str),  # rounds cos and sin; the released code: bfloat16
            "rope_fraction": 1.0,  # share of the features that is rotated
            "rope_decay": 1.0,
            "groupnorm": False,  # RMSNorm of each head's output
            "head_activation": "identity",  # of the head-side factors: identity, sigmoid, softmax
            "ffn_hidden": 0,  # 0: floor(8 n_embd / 3)
            "tie_embeddings": True,
            "scan_layers": False,  # one compiled block for all layers
            "remat": False,  # recompute activations in the backward pass
        }
    )
    # What differs between kinds: heads at equal attention parameters (4 d^2 per layer), ranks,
    # latent widths.
    config.attention = ConfigDict(
        {
            "mha": {"n_head": 8},
            "mqa": {"n_head": 15},
            "gqa": {"n_head": 14, "num_kv_groups": 2},
            "mla": {"n_head": 11, "kv_latent_dim": 32, "q_latent_dim": 64, "rope_head_dim": 8},
            "tpa": {"n_head": 16, "rank_q": 4, "rank_k": 2, "rank_v": 2},
            "tpa_kvonly": {"n_head": 12, "rank_k": 2, "rank_v": 2},
            # TPA again, for questions of its own: ranks at fixed heads, the start of the text.
            "tpa_rank1": {"attention": "tpa", "n_head": 16, "rank_q": 4, "rank_k": 1, "rank_v": 1},
            "tpa_rank4": {"attention": "tpa", "n_head": 16, "rank_q": 4, "rank_k": 4, "rank_v": 4},
            "tpa_paper_init": {
                "attention": "tpa",
                "n_head": 16,
                "rank_q": 4,
                "rank_k": 2,
                "rank_v": 2,
                "init": "paper",
            },
            "tpa_nc_a": {"n_head": 24, "rank_q": 4, "rank_k": 2, "rank_v": 2},
            "tpa_nc_b": {"n_head": 21, "rank_q": 4, "rank_k": 2, "rank_v": 2},
            "tpa3": {"n_head": 19, "rank_q": 4, "rank_k": 2, "rank_v": 2, "factor_dim_b": 4},
        }
    )

    config.data = ConfigDict(
        {
            # A text file, a directory of text, or a directory of .bin token shards. Empty: the
            # Python language reference that comes with CPython.
            "path": "",
            # char, byte, bin (token shards), tiktoken:NAME, or a tokenizer.json / .tiktoken file
            "tokenizer": "char",
            "validation_fraction": 0.1,  # the last part of the text; shards name their split
        }
    )

    config.train = ConfigDict(
        {
            "steps": 1000,
            "batch_size": 16,  # sequences per step, over all devices
            "accumulate": 1,  # micro-batches per step
            "max_lr": 1e-3,
            "min_lr": 1e-4,
            "warmup": 100,  # steps from 0 to max_lr; then cosine to min_lr at the last step
            "decay_steps": 0,  # step at which min_lr is reached, 0: the last
            "weight_decay": 0.1,  # on all parameters, as in the released code
            "b1": 0.9,
            "b2": 0.95,
            "clip_norm": 1.0,
            "log_every": 10,
            "eval_every": 100,
            "checkpoint_every": 200,
        }
    )
    # Batches per evaluation during training; the final evaluation reads the whole split.
    config.eval = ConfigDict({"batches": 8, "batch_size": 64, "final_batches": 0})

    # Decode time of one attention layer against the length of its cache.
    config.decode = ConfigDict(
        {
            "lengths": (1024, 2048, 4096, 8192, 16384),
            "repeats": 15,
            "batch_size": 1,
        }
    )
    config.generate = ConfigDict(
        {
            "kind": "tpa",
            "seed": 0,
            "prompt": "\n",
            "max_new_tokens": 120,  # past block_size positions are new to the model: text decays
            "temperature": 0.8,
            "top_k": 0,  # 0: no limit
            "top_p": 1.0,
        }
    )

    if preset == "smoke":
        config.seeds = (0, 1)
        config.kinds = ("tpa", "mha")
        config.model.update({"n_layer": 1, "n_embd": 32, "head_dim": 8, "block_size": 32})
        config.attention.tpa.update({"n_head": 6, "rank_q": 2, "rank_k": 1, "rank_v": 1})
        config.attention.mha.n_head = 4
        config.train.update(
            {"steps": 20, "batch_size": 4, "warmup": 5, "eval_every": 10, "checkpoint_every": 10}
        )
        config.eval.update({"batches": 2, "batch_size": 8, "final_batches": 8})
        config.decode.update({"lengths": (256, 512), "repeats": 3})
        config.generate.max_new_tokens = 40
    elif preset == "demo":
        config.seeds = (0,)
        config.kinds = ("tpa", "mha")
        config.train.update({"steps": 500, "checkpoint_every": 100})
        config.decode.update({"lengths": (2048, 4096, 8192, 16384), "repeats": 7})
    elif preset == "variants":
        config.seeds = (0, 1)
        config.kinds = (
            "tpa",
            "tpa_rank1",
            "tpa_rank4",
            "tpa_paper_init",
            "tpa_nc_a",
            "tpa_nc_b",
            "tpa3",
        )
    elif preset.startswith("paper"):
        _paper_sizes(config, preset.removeprefix("paper").lstrip("_") or "small")
    return config


def _paper_sizes(config: ConfigDict, size: str) -> None:
    # Table 14 of the paper. Where the released configs differ they count: 13 heads for the small
    # MLA, 6e-4 for all medium models, and the smallest learning rates.
    layers, width, heads, latents, max_lr, min_lr = {
        "small": (12, 768, (12, 23, 22, 13, 22, 34), (256, 512), 6e-4, 3e-5),
        "medium": (24, 1024, (16, 31, 30, 23, 29, 47), (512, 1024), 6e-4, 3e-5),
        "large": (36, 1280, (20, 39, 38, 34, 37, 61), (512, 1024), 2e-4, 1e-5),
        "xl": (48, 1600, (25, 49, 48, 49, 47, 78), (512, 1024), 1e-4, 1e-5),
    }[size]
    config.seeds = (0,)
    config.model.update(
        {
            "n_layer": layers,
            "n_embd": width,
            "head_dim": 64,
            "block_size": 1024,
            "vocab_size": 50304,
            "dtype": "bfloat16",
            "scan_layers": True,
            "remat": size in ("large", "xl"),
        }
    )
    for kind, n_head in zip(("mha", "mqa", "gqa", "mla", "tpa_kvonly", "tpa"), heads):
        config.attention[kind].n_head = n_head
    config.attention.mla.update(
        {"kv_latent_dim": latents[0], "q_latent_dim": latents[1], "rope_head_dim": 32}
    )
    for kind in [k for k in config.attention if k.startswith("tpa") and k != "tpa_kvonly"]:
        config.attention[kind].update({"n_head": heads[-1], "rank_q": 6})
    # Not in the paper's table: the nearest heads at the same budget.
    matched = {
        "small": (38, 42, 39), "medium": (54, 55, 53), "large": (70, 69, 67), "xl": (90, 86, 84),
    }[size]  # fmt: skip
    for kind, n_head in zip(("tpa_nc_a", "tpa_nc_b", "tpa3"), matched):
        config.attention[kind].n_head = n_head
    config.attention.tpa3.factor_dim_b = 8
    config.data.tokenizer = "bin"
    config.train.update(
        {
            "steps": 100_000,
            "batch_size": 480,
            "accumulate": 10,  # micro-batches of 48
            "max_lr": max_lr,
            "min_lr": min_lr,
            "warmup": 2000,
            "eval_every": 1000,
            "checkpoint_every": 1000,
        }
    )
    config.eval.update({"batches": 200, "batch_size": 48, "final_batches": 0})
    config.decode.lengths = tuple(2**n for n in range(12, 20))
