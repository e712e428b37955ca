"""The smoke preset from start to report, and what can be asked of its run directory."""

import csv
import json
import os
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from configs.t6 import PRESETS, get_config
from experiments import t6, t6_data, t6_model, t6_report, t6_tables
from experiments.t6_check import check_run
from experiments.workdir import WorkdirError, overrides, prepare_workdir
from neurips25 import training
from neurips25.attention import attention_param_count
from neurips25.data import ByteTokenizer, write_text_shards
from neurips25.evidence import Verdict, read_records, render_html
from neurips25.language import T6LM


@pytest.fixture(scope="module")
def mesh():
    return training.make_mesh({"data": 1}, jax.devices()[:1])


@pytest.fixture(scope="module")
def finished(tmp_path_factory, mesh):
    workdir = tmp_path_factory.mktemp("smoke")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(t6_model, "make_step", counted(t6_model.make_step))
        records = t6.run(get_config("smoke"), workdir, mesh)
        assert t6_model.make_step.calls == 2  # once per kind, whatever the number of seeds
    return workdir, records


@pytest.fixture
def copied(finished, tmp_path):
    """A finished run directory that may be changed."""
    return shutil.copytree(finished[0], tmp_path / "run")


def counted(function):
    def call(*args):
        call.calls += 1
        return function(*args)

    call.calls = 0
    return call


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
    assert [r["init of the factors"] for r in rows] == ["repo", "-"]
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
    cfg = t6_model.model_config(config, "tpa", corpus.vocab_size)
    params = t6.restore_params(config, cfg, workdir, "tpa", 1, mesh)
    loss, _ = t6_model.Evaluator(config, cfg, corpus, mesh).full(params)
    stored = json.loads((workdir / "results" / "tpa-seed1.json").read_text())["result"]
    assert loss == pytest.approx(stored["loss"], rel=1e-6)
    rows = training.read_metrics(workdir / "metrics.jsonl", "tpa-seed1")
    assert stored["seconds"] == rows[-1]["seconds"] > 0


def test_a_finished_run_starts_again_without_training(finished, mesh, monkeypatch):
    workdir, records = finished
    monkeypatch.setattr(training, "fit", None)
    again = t6.run(get_config("smoke"), workdir, mesh)
    assert again == records


def test_results_of_another_day_keep_their_date(copied, mesh):
    # Such files, without date and versions, are what earlier runs left.
    for file in (copied / "results").iterdir():
        file.write_text(json.dumps(json.loads(file.read_text())["result"]))
        os.utime(file, (1.6e9, 1.6e9))
    by_id = {r.claim_id: r for r in t6.run(get_config("smoke"), copied, mesh)}
    for name in ("loss-medium-tpa", "tpa-below-mha", "cached-decoding-exact", "decode-against-mha"):
        assert by_id[name].date == "2020-09-13"
        assert by_id[name].versions["jax"] == "not recorded"
    assert by_id["parameter-matched"].date > "2020-09-13"  # counted now


@pytest.mark.parametrize("kinds", [("mha",), ("tpa", "mha")])
def test_a_run_that_diverges_is_reported_and_not_repeated(copied, mesh, monkeypatch, kinds):
    def loss_fn(cfg):
        if cfg.attention not in kinds:
            return t6_model_loss_fn(cfg)
        return lambda params, extra, batch, key: (jnp.nan * params["wte"].sum(), ({}, extra))

    t6_model_loss_fn = t6_model.loss_fn
    monkeypatch.setattr(t6_model, "loss_fn", loss_fn)
    for kind in kinds:
        for seed in (0, 1):
            (copied / "results" / f"{kind}-seed{seed}.json").unlink()
            shutil.rmtree(copied / "checkpoints" / f"{kind}-seed{seed}")
    (copied / "results" / "decode_error.json").unlink()
    shutil.rmtree(copied / "samples")
    records = t6.run(get_config("smoke"), copied, mesh)
    by_id = {r.claim_id: r for r in records}
    both = len(kinds) == 2
    assert by_id["tpa-below-mha"].verdict is (Verdict.NOT_TESTED if both else Verdict.HOLDS)
    assert by_id["tpa-matches-mha"].verdict is (Verdict.NOT_TESTED if both else Verdict.HOLDS)
    assert ("cached-decoding-exact" in by_id) is not both
    assert (copied / "samples" / "tpa.txt").exists() is not both
    assert not (copied / "samples" / "mha.txt").exists()
    rows = {r["attention"]: r for r in table(copied / "tables" / "validation.csv")}
    assert (rows["mha"]["nats/token"], rows["mha"]["seeds diverged"]) == ("nan", "2")
    verdicts = [(r.claim_id, r.verdict) for r in records]
    assert [(r.claim_id, r.verdict) for r in read_records(copied / "records.json")] == verdicts
    monkeypatch.setattr(training, "fit", None)
    again = t6.run(get_config("smoke"), copied, mesh)
    assert [(r.claim_id, r.verdict) for r in again] == verdicts


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
    other = corpus._replace(validation=corpus.validation[1:])
    t6_data.check_corpus(other, tmp_path)
    t6_data.check_corpus(corpus, tmp_path)  # nothing was trained there
    with pytest.raises(ValueError, match=r"the tokens of .* are not those that this run has seen"):
        t6_data.check_corpus(other, workdir)


def test_records_name_what_was_changed_from_the_preset(finished):
    config = get_config("smoke")
    config.model.n_layer = 2
    assert overrides(config, get_config("smoke")) == ["--config.model.n_layer=2"]
    assert all(r.command.endswith("--workdir=DIR") for r in finished[1])


def test_bad_starts_are_explained_and_leave_the_directory_free(tmp_path, mesh):
    workdir = tmp_path / "run"
    for name, content, messages in (
        ("empty.txt", b"", ["empty.txt"]),
        ("latin.txt", b"caf\xe9 " * 500, ["latin.txt", "offset 3"]),
        ("short.txt", b"to be or not", ["short.txt", "block_size=32"]),
        # The prompt is a line break, which this text has not.
        ("line.txt", b"one line without an end. " * 200, ["config.generate.prompt", "U+000A"]),
    ):
        (tmp_path / name).write_bytes(content)
        config = get_config("smoke")
        config.data.path = str(tmp_path / name)
        with pytest.raises(ValueError) as error:
            t6.run(config, workdir, mesh)
        for message in messages:
            assert message in str(error.value)
    config = get_config("smoke")
    config.kinds = ("tpa", "mhha")
    with pytest.raises(ValueError, match="unknown attention kind 'mhha'"):
        t6.run(config, workdir, mesh)
    assert not (workdir / "checkpoints").exists()
    assert not (workdir / "results").exists()
    prepare_workdir(workdir, get_config("smoke"), t6.FREE_FIELDS)
    t6_data.check_corpus(t6_data.load_corpus(get_config("smoke")), workdir)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("kinds", (), r"config.kinds=\(\), needs at least one"),
        ("kinds", ("tpa", "tpa"), "each of them once"),
        ("kinds", ("tpa", "mhha"), "unknown attention kind 'mhha'"),
        ("seeds", (0, 0), r"config.seeds=\(0, 0\), .* each of them once"),
        ("train.steps", 0, "config.train.steps=0, needs at least 1"),
        ("eval.batches", 0, "config.eval.batches=0, needs at least 1"),
        ("decode.lengths", (), r"config.decode.lengths=\(\), needs positive"),
        ("decode.repeats", 0, "config.decode.repeats=0, needs at least 1"),
        ("model.vocab_size", 5, "config.model.vocab_size=5 needs to be larger"),
        ("generate.prompt", "", "config.generate.prompt is empty"),
        ("generate.prompt", "\u2603", "config.generate.prompt: character"),
        ("generate.max_new_tokens", 0, "max_new_tokens=0, needs at least 1"),
        ("generate.temperature", -1.0, "config.generate: temperature=-1.0"),
        ("generate.top_p", 0.0, "config.generate: p=0.0"),
        ("train.batch_size", 4, "train.batch_size=4 does not divide by the 3 devices"),
    ],
)
def test_what_would_fail_at_the_end_fails_before_training(field, value, message):
    config = get_config("smoke")
    config.train.batch_size = 6
    config.eval.batch_size = 6
    section, _, name = field.rpartition(".")
    (config[section] if section else config)[name] = value
    three = jax.sharding.AbstractMesh((3, 1, 1), ("data", "fsdp", "tensor"))
    with pytest.raises(ValueError, match=message):
        check_run(config, t6_data.load_corpus(get_config("smoke")), three)


def test_a_validation_split_shorter_than_a_window_fails_before_training(mesh):
    config = get_config("smoke")
    corpus = t6_data.load_corpus(config)
    check_run(config, corpus, mesh)
    with pytest.raises(ValueError, match=r"the validation split has 32 tokens.*block_size=32"):
        check_run(config, corpus._replace(validation=corpus.validation[:32]), mesh)


def test_ids_that_pad_the_vocabulary_are_not_sampled(tmp_path, mesh, monkeypatch):
    config = get_config("smoke")
    config.model.update({"vocab_size": 1000, "tie_embeddings": False})
    config.generate.temperature = 100.0  # every id is about as likely as any other
    corpus = t6_data.load_corpus(config)
    cfg = t6_model.model_config(config, "tpa", corpus.vocab_size)
    params = jax.jit(t6_model.init_fn(cfg))(jax.random.key(0))["params"]
    monkeypatch.setattr(t6, "restore_params", lambda *args: params)
    text = t6.generate_text(config, corpus, tmp_path, mesh, "tpa", 0)
    assert len(text) == len(config.generate.prompt) + config.generate.max_new_tokens


def test_decoding_is_checked_in_full_precision_and_in_the_dtype_of_the_run(
    tmp_path, mesh, monkeypatch
):
    precisions = []

    class Recorded:
        def __init__(self, cfg):
            self.model = T6LM(cfg)

        def apply(self, *args, **kwargs):
            precisions.append(jax.config.jax_default_matmul_precision)
            return self.model.apply(*args, **kwargs)

    monkeypatch.setattr(t6_report, "T6LM", Recorded)
    config = get_config("smoke")
    config.model.dtype = "bfloat16"
    corpus = t6_data.load_corpus(config)
    cfg = t6_model.model_config(config, "tpa", corpus.vocab_size)
    params = jax.jit(t6_model.init_fn(cfg))(jax.random.key(0))["params"]
    monkeypatch.setattr(t6, "restore_params", lambda *args: params)
    errors = t6.decode_errors(config, corpus, tmp_path, mesh, ["tpa"])
    assert set(errors) == {"tpa", "tpa in bfloat16"}
    assert errors["tpa"] < 1e-5
    assert set(precisions) == {"highest"}


def test_sizes_of_the_paper_exist_for_variants_too():
    cfg = t6_tables.paper_model("small", "tpa_rank1")
    assert (cfg.attention, cfg.rank_k, cfg.n_head) == ("tpa", 1, 34)


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
    lr = t6_model.schedule(config)
    assert float(lr(0)) == 0
    assert float(lr(2000)) == pytest.approx(6e-4)
    assert float(lr(100_000)) == pytest.approx(3e-5)
    assert float(lr(1000)) == pytest.approx(3e-4)


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_and_kind_makes_a_model(preset):
    config = get_config(preset)
    for kind, options in config.attention.items():
        cfg = t6_model.model_config(config, kind, 65)
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
