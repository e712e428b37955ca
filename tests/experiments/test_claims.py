"""What the records of a run say, from made-up measurements."""

import numpy as np
import pytest

from configs.t6 import get_config
from experiments.claims import claim_context
from experiments.t6_claims import DECODE_LIMIT, PAPER_LOSS, claim_records
from experiments.t6_model import model_config, run_name
from experiments.training_run import result_file, stored
from neurips25.evidence import Scale, Verdict, validate

NAN = float("nan")


def timings(batch=1):
    return [
        {"length": 64, "batch": batch, "kind": kind, "times_ms": [t, 1.01 * t, 0.99 * t]}
        for kind, t in {"mha": 20, "mqa": 0.5, "gqa": 3, "mla": 3, "tpa": 1}.items()
    ]


@pytest.fixture
def records_of(tmp_path):
    def make(config, losses, errors=None, batch=1):
        config.seeds = tuple(range(len(next(iter(losses.values())))))
        config.kinds = tuple(losses)
        names = [run_name(kind, seed) for kind in losses for seed in config.seeds]
        for name in ("decode", "decode_error", *names):
            stored(result_file(tmp_path, name), lambda: 0)
        configs = {kind: model_config(config, kind, 65) for kind in losses}
        errors = dict.fromkeys(losses, 1e-6) if errors is None else errors
        records = claim_records(config, configs, "text", losses, errors, timings(batch), tmp_path)
        for record in records:
            validate(record)
        return {record.claim_id: record for record in records}

    return make


def test_context_is_the_preset_and_what_changes_it():
    config = get_config("smoke")
    config.task, config.model.n_layer, config.data.path = "eval", 2, "my text"
    context = claim_context(config, get_config)
    changed = ("--config.model.n_layer=2", "'--config.data.path=my text'")
    assert set(context.changed) == set(changed)
    flags = " ".join(context.changed)
    assert context.setting_name == f"configs/t6.py:smoke {flags}"
    assert context.command == (
        f"python -m experiments.launch --config=configs/t6.py:smoke --workdir=DIR {flags}"
    )
    assert not context.unchanged_except("data.path")
    assert context.unchanged_except("data.path", "model.n_layer")
    assert "--config.task=eval" in claim_context(config, get_config, ()).changed


@pytest.mark.parametrize(
    ("tpa", "mha", "below", "matches"),
    [
        ([1.8, 1.81], [NAN, NAN], "holds", "holds"),
        ([1.8, 1.81], [1.9, NAN], "holds", "holds"),
        ([1.8, 1.81], [np.inf, 1.9], "holds", "holds"),
        ([NAN, 1.8], [1.9, 1.91], "does not hold", "does not hold"),
        ([NAN, NAN], [NAN, NAN], "not tested at this scale", "not tested at this scale"),
        ([1.8, 1.81], [1.9, 1.91], "holds", "holds"),
        ([NAN], [1.9], "not tested at this scale", "not tested at this scale"),
    ],
)
def test_divergence_is_a_result(records_of, tpa, mha, below, matches):
    by_id = records_of(get_config("smoke"), {"tpa": tpa, "mha": mha})
    assert str(by_id["tpa-below-mha"].verdict) == below
    assert str(by_id["tpa-matches-mha"].verdict) == matches
    assert by_id["loss-medium-tpa"].verdict is Verdict.NOT_TESTED


def test_without_a_trained_model_decoding_is_not_judged(records_of):
    by_id = records_of(get_config("smoke"), {"tpa": [NAN, NAN], "mha": [NAN, NAN]}, errors={})
    assert "cached-decoding-exact" not in by_id


@pytest.mark.parametrize("size", PAPER_LOSS)
def test_each_size_is_held_against_its_own_losses(records_of, size):
    config = get_config(f"paper_{size}")
    config.data.path = "shards"
    paper = PAPER_LOSS[size]
    losses = {kind: [v - 1e-4, v, v + 1e-4] for kind, v in paper.items()}
    by_id = records_of(config, losses)
    record = by_id[f"loss-{size}-tpa"]
    assert record.paper_value == paper["tpa"]
    assert record.setting.scale is Scale.FULL
    assert record.verdict is Verdict.HOLDS
    mla = "mla-below-tpa" if size == "large" else "tpa-below-mla"
    assert by_id[mla].verdict is Verdict.HOLDS
    assert f"{paper['tpa']} against {paper['mla']}" in by_id[mla].paper_value
    assert by_id["tpa-below-tpa-kvonly"].verdict is Verdict.HOLDS


@pytest.mark.parametrize(
    ("preset", "field", "value"),
    [
        ("paper_medium", "data.tokenizer", "char"),
        ("paper_medium", "data.validation_fraction", 0.2),
        ("paper_medium", "train.steps", 10),
        ("paper_medium", "model.vocab_size", 65),
        ("paper", "data.path", "shards"),  # the paper shows no losses of its small models
        ("cpu", "data.path", "shards"),
    ],
)
def test_only_the_papers_own_setting_is_full_scale(records_of, preset, field, value):
    config = get_config(preset)
    section, name = field.split(".")
    config[section][name] = value
    by_id = records_of(config, {"tpa": [2.618, 2.618], "mha": [2.645, 2.646]})
    assert by_id["loss-medium-tpa"].setting.scale is Scale.REDUCED
    assert by_id["loss-medium-tpa"].verdict is Verdict.NOT_TESTED


@pytest.mark.parametrize(
    ("batch", "paper", "verdict"),
    [(1, 11.1, Verdict.HOLDS), (16, 18.9, Verdict.HOLDS), (4, 11.1, Verdict.NOT_TESTED)],
)
def test_decode_times_are_held_against_those_of_their_batch(records_of, batch, paper, verdict):
    by_id = records_of(get_config("smoke"), {"tpa": [1.8, 1.9]}, batch=batch)
    record = by_id["decode-against-mha"]
    assert record.paper_value == paper
    assert record.verdict is verdict
    assert f"batch {batch}, here" in record.measured.unit
    assert f"at batch {batch if batch != 4 else 1} " in record.statement


def test_only_float32_decoding_is_judged(records_of):
    losses = {"tpa": [1.8, 1.9]}
    rough = {"tpa": 1e-6, "tpa in bfloat16": 0.9}
    record = records_of(get_config("smoke"), losses, rough)["cached-decoding-exact"]
    assert record.verdict is Verdict.HOLDS
    assert record.measured.value == rough
    wrong = {"tpa": 10 * DECODE_LIMIT}
    record = records_of(get_config("smoke"), losses, wrong)["cached-decoding-exact"]
    assert record.verdict is Verdict.DOES_NOT_HOLD


def test_variants_of_one_attention_have_records(records_of):
    config = get_config("variants")
    by_id = records_of(config, {kind: [1.8, 1.9] for kind in config.kinds})
    assert set(by_id["cache-formula"].measured.value) == set(config.kinds)
    assert by_id["cache-formula"].verdict is Verdict.HOLDS
