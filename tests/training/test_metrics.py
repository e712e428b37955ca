import json

from neurips25.training import MetricWriter, read_metrics


def test_lines_are_readable_at_once_and_runs_are_kept_apart(tmp_path):
    first, second = MetricWriter(tmp_path, "a"), MetricWriter(tmp_path, "b")
    first.write(1, {"loss": 2.5})
    second.write(1, {"loss": float("nan"), "rate": 3})
    assert read_metrics(tmp_path / "metrics.jsonl") == [
        {"run": "a", "step": 1, "loss": 2.5},
        {"run": "b", "step": 1, "loss": None, "rate": 3.0},
    ]
    assert read_metrics(tmp_path / "metrics.jsonl", run="b")[0]["rate"] == 3.0
    first.close()
    second.close()
    assert list((tmp_path / "tensorboard" / "a").glob("events*"))


def test_rewind_forgets_later_steps_of_this_run_only(tmp_path):
    for name in ("a", "b"):
        writer = MetricWriter(tmp_path, name)
        for step in (1, 2, 3):
            writer.write(step, {"loss": step})
        writer.close()
    with (tmp_path / "metrics.jsonl").open("a") as f:
        f.write('{"run": "a", "st')  # a kill in the middle of a line
    writer = MetricWriter(tmp_path, "a")
    writer.rewind(1)
    writer.write(2, {"loss": 20})
    writer.close()
    text = (tmp_path / "metrics.jsonl").read_text()
    rows = [json.loads(line) for line in text.splitlines()]
    assert [(r["run"], r["step"]) for r in rows] == [
        ("a", 1), ("b", 1), ("b", 2), ("b", 3), ("a", 2),
    ]  # fmt: skip


def test_missing_file_has_no_lines(tmp_path):
    assert read_metrics(tmp_path / "metrics.jsonl") == []
