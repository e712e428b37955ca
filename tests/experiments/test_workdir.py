import json
import subprocess
import sys

import pytest
from ml_collections import ConfigDict

from experiments.workdir import WorkdirError, prepare_workdir


def config(**changes):
    c = ConfigDict({"model": {"n_layer": 4, "kinds": ("a", "b")}, "task": "train", "seed": 0})
    c.model.update(changes)
    return c


def begin(path):
    (path / "checkpoints" / "a" / "10").mkdir(parents=True)


def test_same_config_again_is_accepted(tmp_path):
    path = prepare_workdir(tmp_path / "a" / "b", config())
    assert json.loads((path / "config.json").read_text())["model"]["n_layer"] == 4
    assert prepare_workdir(path, config()) == path


def test_other_config_is_refused_with_the_difference_and_changes_nothing(tmp_path):
    prepare_workdir(tmp_path, config())
    begin(tmp_path)
    before = (tmp_path / "config.json").read_bytes()
    with pytest.raises(WorkdirError) as error:
        prepare_workdir(tmp_path, config(n_layer=6))
    assert "config.model.n_layer: 4 there, 6 asked for" in str(error.value)
    assert "kinds" not in str(error.value)
    assert (tmp_path / "config.json").read_bytes() == before


def test_free_fields_may_change(tmp_path):
    prepare_workdir(tmp_path, config(), ("task",))
    other = config()
    other.task = "generate"
    begin(tmp_path)
    prepare_workdir(tmp_path, other, ("task",))
    with pytest.raises(WorkdirError, match=r"config\.task: 'train' there, 'generate' asked for"):
        prepare_workdir(tmp_path, other)


@pytest.mark.parametrize("trace", ["metrics.jsonl", "checkpoints/a", "tensorboard/a"])
def test_before_any_work_another_config_takes_the_place(tmp_path, trace):
    prepare_workdir(tmp_path, config())
    (tmp_path / trace).mkdir(parents=True)
    prepare_workdir(tmp_path, config(n_layer=6))
    assert json.loads((tmp_path / "config.json").read_text())["model"]["n_layer"] == 6


@pytest.mark.parametrize("work", ["checkpoints/a/10", "results/a.json", "data/a"])
def test_any_work_belongs_to_its_config(tmp_path, work):
    prepare_workdir(tmp_path, config())
    (tmp_path / work).mkdir(parents=True)
    with pytest.raises(WorkdirError, match="n_layer: 4 there, 6 asked for"):
        prepare_workdir(tmp_path, config(n_layer=6))


def test_damaged_config_file_is_named(tmp_path):
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(WorkdirError, match=r"config\.json is damaged"):
        prepare_workdir(tmp_path, config())


def test_file_in_the_way_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(WorkdirError, match=r"cannot use run directory .*file"):
        prepare_workdir(tmp_path / "file", config())


def test_directory_without_write_permission_is_named(tmp_path):
    tmp_path.chmod(0o555)
    # Root may write everywhere, so the attempt is made by a process that gave that up.
    code = f"""
import os
from ml_collections import ConfigDict
from experiments.workdir import WorkdirError, prepare_workdir
if os.geteuid() == 0:
    os.setuid(65534)
try:
    prepare_workdir({str(tmp_path / "run")!r}, ConfigDict({{"seed": 0}}))
except WorkdirError as error:
    print(error)
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert f"cannot use run directory {tmp_path / 'run'}" in result.stdout, result.stderr
    assert "Permission denied" in result.stdout
    assert not (tmp_path / "run").exists()
