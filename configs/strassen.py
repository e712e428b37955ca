"""Strassen attention against standard, triangular and third-order attention on four tasks.

    python -m experiments.launch --config=configs/strassen.py:cpu --workdir=runs/strassen

generates the tasks of arXiv:2501.19215 (function composition, binary relation composition,
Match3, quotient relation composition), trains the mechanisms on each, and ends with accuracy
against epochs and minutes (median and quartiles over seeds) and claim records. With
``--config.task=verify`` it checks the constructions of the proofs and the splitting VC dimensions
instead, with ``--config.task=bench`` it measures time and memory against length and width.
Presets (measured on 2 CPU cores; ``paper`` is checked here by --dry_run):

    smoke    every part at toy size            half a minute once compiled, else 2-4
    cpu      smaller tasks, three seeds        about half an hour
    paper    the paper's sizes, eight seeds
"""

from ml_collections import ConfigDict

PRESETS = ("smoke", "cpu", "paper")
PROBLEMS = ("function_composition", "binary_relation", "match3", "quotient_relation")


def get_config(preset: str = "cpu") -> ConfigDict:
    """The config of a preset.

    Args:
      preset: one of :data:`PRESETS`.

    Returns:
      A config; pass it to ``experiments.strassen.run``.

    Raises:
      ValueError: no such preset.
    """
    if preset not in PRESETS:
        raise ValueError(f"preset {preset!r} is not one of {', '.join(PRESETS)}")
    config = ConfigDict()
    config.experiment = "strassen"
    config.preset = preset
    # train: generate, train, report. generate: the data alone. verify: constructions of the
    # proofs and splitting VC dimensions. bench: time and memory against length and width.
    config.task = "train"
    config.seeds = (0, 1, 2)
    config.problems = PROBLEMS

    # A mechanism is an attention kind and a number of layers; the first of a problem is the one
    # that --dry_run compiles.
    config.mechanisms = ConfigDict(
        {
            "strassen": {"attention": "strassen", "num_layers": 1},
            "standard": {"attention": "standard", "num_layers": 1},
            # Table 1 compares with this one: more parameters than one layer of Strassen.
            "standard_2": {"attention": "standard", "num_layers": 2},
            "third_order": {"attention": "third_order", "num_layers": 1},
            "triangular": {"attention": "triangular", "num_layers": 1},
        }
    )
    config.method = "stable"  # evaluation of Strassen attention: stable, matmul, logsumexp, naive

    config.function_composition = _problem(
        data={"n_min": 20, "n_max": 25, "variant": "paper"},
        model={"d_model": 16, "num_heads": 1},
        train={"batch_size": 512, "steps": 2500},
        mechanisms=("strassen", "standard", "third_order"),
        num_train=20_000,
    )
    config.binary_relation = _problem(
        # With four or five elements standard attention learns the task as well.
        data={"m_min": 6, "m_max": 6, "p": 0.33},
        model={"d_model": 16, "num_heads": 1},
        train={"batch_size": 128, "steps": 2500},
        mechanisms=("strassen", "standard", "standard_2", "third_order", "triangular"),
        num_train=8000,
    )
    config.match3 = _problem(
        # split_first: divide the sequences before permuted copies of them are made; the
        # published way is to divide after it, which leaves copies on both sides.
        data={
            "n_min": 10, "n_max": 12, "modulus": 13, "num_seed_sequences": 5000,
            "bin_capacity": 0, "split_first": True,
        },
        model={"d_model": 32, "num_heads": 2},
        train={"batch_size": 256, "steps": 2000},
        mechanisms=("strassen", "standard", "third_order"),
        num_train=8000,
    )  # fmt: skip
    config.quotient_relation = _problem(
        # colours 0: as many as elements.
        data={"m_min": 5, "m_max": 5, "p": 0.45, "colours": 0},
        model={"d_model": 16, "num_heads": 1},
        train={"batch_size": 128, "steps": 3000},
        mechanisms=("strassen", "standard", "standard_2", "third_order", "triangular"),
        num_train=8000,
    )

    # Sizes of the constructions that task=verify checks, and instances of each.
    config.verify = ConfigDict(
        {
            "instances": 20,
            "function_n": (10, 20, 40),
            "relation_m": (2, 4, 6),
            "match3_sizes": ((10, 18), (30, 37)),  # (n, M)
            "quotient_m": (2, 4, 6),
            "triangular_m": (2, 4, 6, 8),
        }
    )
    # Forward pass of one head of one sequence against its length n and width d.
    config.bench = ConfigDict(
        {"lengths": (64, 128, 256, 512), "width": 16, "widths": (16, 32, 64), "repeats": 15}
    )

    if preset == "smoke":
        config.seeds = (0, 1)
        for problem in PROBLEMS:
            config[problem].data.update({"num_train": 64, "num_validation": 32})
            config[problem].train.update(
                {"batch_size": 16, "steps": 8, "eval_every": 4, "checkpoint_every": 4}
            )
        for problem in ("binary_relation", "quotient_relation"):
            config[problem].data.update({"m_min": 2, "m_max": 3})
        config.binary_relation.mechanisms = ("strassen", "standard", "triangular")
        config.quotient_relation.mechanisms = ("strassen", "triangular")
        config.function_composition.data.update({"n_min": 5, "n_max": 7})
        config.function_composition.mechanisms = ("strassen", "standard", "third_order")
        config.match3.data.update({"n_min": 5, "n_max": 6, "modulus": 7})
        config.match3.mechanisms = ("strassen", "standard")
        config.verify.update(
            {
                "instances": 3, "function_n": (5,), "relation_m": (3,), "match3_sizes": ((5, 8),),
                "quotient_m": (3,), "triangular_m": (3,),
            }
        )  # fmt: skip
        config.bench.update({"lengths": (16, 32), "widths": (8,), "width": 8, "repeats": 3})
    elif preset == "paper":
        _paper_sizes(config)
    return config


def _problem(
    data: dict, model: dict, train: dict, mechanisms: tuple[str, ...], num_train: int
) -> ConfigDict:
    return ConfigDict(
        {
            "mechanisms": mechanisms,
            # path: a folder with train.npz and validation.npz of save_task. Empty: generate.
            "data": {
                "path": "", "seed": 0, "num_train": num_train, "num_validation": 2000, **data,
            },
            "model": {
                # learned: a table per integer field of a token. raw: a linear map of positions,
                # values and their squares.
                "embedding": "learned",
                "ffn_depth": 3,
                # The authors' loop trains without dropout after its first validation.
                "dropout": 0.0,
                "use_norm": False,
                "out_proj": False,
                **model,
            },
            "train": {
                "learning_rate": 3e-3,  # AdamW, no schedule
                "weight_decay": 0.0,
                "log_every": 50,
                "eval_every": 150,
                "checkpoint_every": 500,
                **train,
            },
        }
    )  # fmt: skip


def _paper_sizes(config: ConfigDict) -> None:
    # Section 5 and appendix: 50 000 examples, nine tenths for training; eight seeds.
    config.seeds = (42, 23, 54, 96, 12, 48, 67, 33)
    config.function_composition.data.update({"n_min": 25, "n_max": 30})
    config.binary_relation.data.update({"m_min": 6, "m_max": 8, "p": 0.325})
    config.match3.data.update({"n_min": 30, "n_max": 35, "modulus": 37, "split_first": False})
    config.match3.model.update({"d_model": 128, "num_heads": 2})
    config.quotient_relation.data.update({"m_min": 6, "m_max": 8, "p": 0.433})
    for problem, batch_size, epochs, dropout in (
        ("function_composition", 2500, 1000, 0.3),
        ("binary_relation", 2500, 200, 0.3),
        ("match3", 2500, 500, 0.4),
        ("quotient_relation", 2000, 3000, 0.3),
    ):
        own = config[problem]
        own.data.update({"num_train": 45_000, "num_validation": 5_000})
        own.model.update({"embedding": "raw", "dropout": dropout})
        steps = epochs * (45_000 // batch_size)
        own.train.update(
            {
                "batch_size": batch_size, "steps": steps, "learning_rate": 1e-3,
                "eval_every": 45_000 // batch_size, "checkpoint_every": steps // 20,
            }
        )  # fmt: skip
