"""The smoke preset from start to report, and what can be asked of its run directory."""

import csv
import json

import jax
import numpy as np
import pytest

from configs.t6 import PRESETS, get_config
from experiments import t6, t6_data
from experiments.workdir import WorkdirError, overrides
from neurips25 import training
from neurips25.attention import attention_param_count
from neurips25.data import ByteTokenizer, write_text_shards
from neurips25.evidence import Verdict, read_records, render_html


@pytest.fixture(scope="module")
def mesh():
    return training.make_mesh({"data": 1}, jax.devices()[:1])


@pytest.fixture(scope="module")
def finished(tmp_path_factory, mesh):
    workdir = tmp_path_factory.mktemp("smoke")
    records = t6.run(get_config("smoke"), workdir, mesh)
    return workdir, records


def table(path):
    with path.open() as f:
        return list(csv.DictReader(f))


def test_run_directory_is_complete(finished):
    workdir, records = finished
    for name in ("loss_vs_tokens", "loss_vs_cache", "cache_vs_context", "decode_time"):
        assert (workdir / "figures" / f"{name}.png").stat().st_size > 5000
    rows = table(workdir / "tables" / "validation.csv")
    assert [r["attention"] for r in rows] == ["tpa", "mha"]
    assert all(float(r["nats/token"]) < np.log(110) for r in rows)
    assert len((workdir / "samples" / "tpa.txt").read_text()) >= 40
    assert read_records(workdir / "records.json") == records
    assert "TPA" in render_html([workdir])


def test_records_say_what_was_and_was_not_tested(finished):
    by_id = {r.claim_id: r for r in finished[1]}
    assert by_id["loss-medium-tpa"].verdict is Verdict.NOT_TESTED
    assert by_id["cache-formula"].verdict is Verdict.HOLDS
    assert by_id["cached-decoding-exact"].verdict is Verdict.HOLDS
    assert by_id["parameter-matched"].verdict is Verdict.DOES_NOT_HOLD
    assert by_id["cache-ten-times-smaller"].verdict is Verdict.PARTLY
    assert by_id["tpa-below-mha"].setting.seeds == (0, 1)


def test_losses_are_those_of_the_checkpoints(finished, mesh):
    workdir, _ = finished
    config = get_config("smoke")
    corpus = t6_data.load_corpus(config)
    cfg = t6.model_config(config, "tpa", corpus.vocab_size)
    params = t6.restore_params(config, cfg, workdir, "tpa", 1, mesh)
    loss, _ = t6.Evaluator(config, cfg, corpus, mesh).full(params)
    stored = json.loads((workdir / "results" / "tpa-seed1.json").read_text())["loss"]
    assert loss == pytest.approx(stored, rel=1e-6)


def test_a_finished_run_starts_again_without_training(finished, mesh, monkeypatch):
    workdir, records = finished
    monkeypatch.setattr(training, "fit", None)
    again = t6.run(get_config("smoke"), workdir, mesh)
    assert [r.claim_id for r in again] == [r.claim_id for r in records]


@pytest.mark.parametrize("task", ["eval", "generate", "export", "bench_decode", "param_table"])
def test_tasks_on_a_finished_run(finished, mesh, task, capsys):
    workdir, _ = finished
    config = get_config("smoke")
    config.task = task
    config.generate.prompt = "The yield statement "
    t6.run(config, workdir, mesh)
    out = capsys.readouterr().out
    expected = {
        "eval": "tpa-seed0",
        "generate": "The yield statement ",
        "export": "safetensors",
        "bench_decode": "mha",
        "param_table": "1555814400",
    }[task]
    assert expected in out


def test_another_text_or_config_in_the_same_directory_is_refused(finished, mesh, tmp_path):
    workdir, _ = finished
    config = get_config("smoke")
    config.train.steps = 21
    with pytest.raises(WorkdirError, match=r"config\.train\.steps: 20 there, 21 asked for"):
        t6.run(config, workdir, mesh)
    corpus = t6_data.load_corpus(get_config("smoke"))
    t6_data.check_corpus(corpus, workdir)
    with pytest.raises(ValueError, match=r"the tokens of .* are not those that this run has seen"):
        t6_data.check_corpus(corpus._replace(validation=corpus.validation[1:]), workdir)


def test_records_name_what_was_changed_from_the_preset(finished):
    config = get_config("smoke")
    config.model.n_layer = 2
    assert overrides(config, get_config("smoke")) == ["--config.model.n_layer=2"]
    assert all(r.command.endswith("--workdir=DIR") for r in finished[1])


def test_sizes_that_do_not_fit_the_mesh_fail_before_training(tmp_path):
    config = get_config("smoke")
    eight = jax.sharding.AbstractMesh((3, 1, 1), ("data", "fsdp", "tensor"))
    corpus = t6_data.load_corpus(config)
    with pytest.raises(ValueError, match=r"train\.batch_size=4 does not divide by the 3 devices"):
        t6._check_sizes(config, corpus, eight)


def test_tasks_without_a_run_and_unknown_tasks_are_explained(tmp_path, mesh):
    config = get_config("smoke")
    config.task = "generate"
    with pytest.raises(ValueError, match="no such checkpoint"):
        t6.run(config, tmp_path, mesh)
    config.task = "trian"
    with pytest.raises(ValueError, match="'trian' is not one of train, eval"):
        t6.run(config, tmp_path, mesh)


def test_learning_rate_schedule_of_the_paper():
    config = get_config("paper")
    lr = t6.schedule(config)
    assert float(lr(0)) == 0
    assert float(lr(2000)) == pytest.approx(6e-4)
    assert float(lr(100_000)) == pytest.approx(3e-5)
    assert float(lr(1000)) == pytest.approx(3e-4)


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_and_kind_makes_a_model(preset):
    config = get_config(preset)
    for kind, options in config.attention.items():
        cfg = t6.model_config(config, kind, 65)
        assert cfg.attention == options.get("attention", kind)
        ratio = attention_param_count(cfg.attention, cfg) / (4 * cfg.n_embd**2)
        if preset == "cpu" and kind not in ("tpa_rank1", "tpa_rank4"):
            assert abs(ratio - 1) < 0.035, kind
    with pytest.raises(ValueError, match="is not one of smoke, demo, cpu"):
        get_config("ppaer")


def test_byte_text_and_token_shards(tmp_path):
    config = get_config("smoke")
    text = "Ein Wort, und noch eins. " * 200
    (tmp_path / "text.txt").write_text(text)
    config.data.update({"path": str(tmp_path / "text.txt"), "tokenizer": "byte"})
    corpus = t6_data.load_corpus(config)
    assert corpus.vocab_size == 256
    assert len(corpus.train[0]) + len(corpus.validation) == len(text)
    write_text_shards([text] * 3, ByteTokenizer(), tmp_path / "shards", shard_tokens=6000)
    config.data.update({"path": str(tmp_path / "shards"), "tokenizer": "bin"})
    corpus = t6_data.load_corpus(config)
    assert corpus.tokenizer is None
    assert "_val_" in corpus.validation.path.name
    config.data.tokenizer = "chr"
    config.data.path = str(tmp_path / "text.txt")
    with pytest.raises(ValueError, match="'chr' is not char, byte, bin"):
        t6_data.load_corpus(config)


def test_default_text_needs_nothing():
    corpus = t6_data.load_corpus(get_config("smoke"))
    assert corpus.name == "Python language reference (char)"
    assert len(corpus.train[0]) > 300_000
    assert "yield" in corpus.tokenizer.decode(corpus.train[0])
