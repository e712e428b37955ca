"""Claim records: the schema's rules, its error messages, and files of records."""

import dataclasses
import json
import math
import os
import types

import jax
import jax.numpy as jnp
import jsonschema
import numpy as np
import pytest

from neurips25.evidence import (
    ClaimRecord,
    ClaimType,
    Measured,
    RecordError,
    Scale,
    UncertaintyKind,
    Verdict,
    current_versions,
    read_records,
    scan_records,
    validate,
    write_records,
)
from neurips25.evidence.record import _validator


def replace(record, **changes):
    """dataclasses.replace that also reaches into setting and measured."""
    for part in ("setting", "measured"):
        mine = {f.name for f in dataclasses.fields(getattr(record, part))} & set(changes)
        inner = {name: changes.pop(name) for name in mine}
        record = dataclasses.replace(
            record, **{part: dataclasses.replace(getattr(record, part), **inner)}
        )
    return dataclasses.replace(record, **changes)


def test_the_schema_is_a_json_schema():
    jsonschema.Draft202012Validator.check_schema(_validator().schema)


def test_a_good_record_is_valid_and_survives_json(record):
    validate(record)
    assert ClaimRecord.from_json(json.loads(json.dumps(record.to_json()))) == record


@pytest.mark.parametrize(
    ("changes", "field", "had", "needs"),
    [
        ({"statement": " "}, "statement", "' '", "in our words"),
        ({"claim_id": "two words"}, "claim_id", "'two words'", "without spaces"),
        ({"verdict": "maybe"}, "verdict", "'maybe'", '"partly"'),
        ({"source": ""}, "source", "''", "Table 2"),
        ({"paper_value": True}, "paper_value", "True", "number"),
        ({"date": "yesterday"}, "date", "'yesterday'", "ISO date"),
        ({"date": "2025-13-01"}, "date", "'2025-13-01'", "ISO date"),
        ({"versions": {"python": "3"}}, "versions.jax", "nothing", "text"),
        ({"scale": "tiny"}, "setting.scale", "'tiny'", '"reduced"'),
        ({"seeds": (0, 0)}, "setting.seeds", "[0, 0]", "distinct integers"),
        ({"value": "big"}, "measured.value", "'big'", "number"),
        ({"value": {"tpa": None}}, "measured.value", "None", "named numbers"),
        ({"uncertainty": -1.0}, "measured.uncertainty", "-1.0", ">= 0"),
        ({"uncertainty": None}, "measured.uncertainty_kind", "'standard error'", "null"),
        ({"kind": UncertaintyKind.NONE}, "measured.uncertainty_kind", "'none'", "kind"),
        ({"n": 1.5}, "measured.n", "1.5", "integer"),
        (
            {"value": {"tpa": 1.0}, "uncertainty": {"tqa": 0.1}},
            "measured.uncertainty",
            "['tqa']",
            "['tpa']",
        ),
    ],
)
def test_an_error_names_claim_field_what_it_had_and_needs(record, changes, field, had, needs):
    with pytest.raises(RecordError) as e:
        validate(replace(record, **changes))
    (line,) = str(e.value).splitlines()
    claim = changes.get("claim_id", "tpa/val-loss")
    assert line.startswith(f"claim '{claim}': field '{field}': had ")
    assert had in line.split(", needs ")[0]
    assert needs in line.split(", needs ")[1]


def test_every_problem_is_named(record):
    with pytest.raises(RecordError) as e:
        validate(replace(record, source="", n=-1))
    assert {line.split("'")[3] for line in str(e.value).splitlines()} == {"source", "measured.n"}


def test_missing_and_unknown_fields_are_named(record):
    data = record.to_json()
    del data["note"]
    data["verdit"] = "holds"
    with pytest.raises(RecordError) as e:
        validate(data)
    assert "field 'verdit': had ['holds'], needs no such field" in str(e.value)
    assert "field 'note': had nothing, needs a text, which may be empty" in str(e.value)


@pytest.mark.parametrize(
    ("claim_type", "allowed", "needs"),
    [
        (ClaimType.FULL_SCALE_NUMBER, {Verdict.NOT_TESTED}, "does not measure a full-scale number"),
        (ClaimType.TIMING, set(Verdict) - {Verdict.DOES_NOT_HOLD}, "cannot refute a timing"),
        (ClaimType.ORDERING, set(Verdict), ""),
        (ClaimType.EXACT_PROPERTY, set(Verdict), ""),
    ],
)
def test_what_a_run_of_reduced_scale_can_say(record, claim_type, allowed, needs):
    for verdict in Verdict:
        reduced = replace(record, claim_type=claim_type, verdict=verdict)
        validate(replace(reduced, scale=Scale.FULL))
        if verdict in allowed:
            validate(reduced)
            continue
        with pytest.raises(RecordError, match=rf"'verdict': had '{verdict}', needs .*{needs}"):
            validate(reduced)
        with pytest.raises(RecordError):
            ClaimRecord.from_json(reduced.to_json())


def test_a_verdict_needs_a_measurement(record):
    nothing = {"value": None, "uncertainty": None, "kind": UncertaintyKind.NONE, "n": 0}
    validate(replace(record, **nothing))
    exact = replace(record, claim_type=ClaimType.EXACT_PROPERTY)
    with pytest.raises(RecordError, match=r"'measured.value': had None, needs a measured value"):
        validate(replace(exact, **nothing, verdict=Verdict.HOLDS))


def test_an_ordering_is_not_decided_by_one_sample(record):
    one = replace(record, claim_type=ClaimType.ORDERING, n=1)
    validate(replace(one, verdict=Verdict.PARTLY))
    for verdict in (Verdict.HOLDS, Verdict.DOES_NOT_HOLD):
        validate(replace(one, verdict=verdict, n=2))
        with pytest.raises(RecordError, match=r"'measured.n': had 1, needs at least 2"):
            validate(replace(one, verdict=verdict))


def test_a_timing_is_not_judged_by_one_repetition(record):
    one = replace(record, claim_type=ClaimType.TIMING, n=1, scale=Scale.FULL)
    validate(replace(one, verdict=Verdict.NOT_TESTED))
    for verdict in (Verdict.HOLDS, Verdict.PARTLY, Verdict.DOES_NOT_HOLD):
        validate(replace(one, verdict=verdict, n=2))
        with pytest.raises(RecordError, match=r"'measured.n': had 1, needs at least 2.*timing"):
            validate(replace(one, verdict=verdict))


def test_array_scalars_named_values_and_divergence_survive_a_file(tmp_path, record):
    measured = Measured(
        {"tpa": np.float32(0.5), "mha": jnp.float32(math.inf), "mqa": math.nan},
        {"tpa": (np.float64(0.25), 0.75), "mha": None},
        UncertaintyKind.BOOTSTRAP,
        n=3,
    )
    path = tmp_path / "new" / "records.json"
    write_records(path, [replace(record, seeds=tuple(np.arange(2)), measured=measured)])
    json.loads(path.read_text(), parse_constant=pytest.fail)  # strict JSON has no NaN
    (back,) = read_records(path)
    assert back.setting.seeds == (0, 1)
    assert back.measured.value["tpa"] == 0.5
    assert back.measured.value["mha"] == math.inf
    assert math.isnan(back.measured.value["mqa"])
    assert back.measured.uncertainty == {"tpa": (0.25, 0.75), "mha": None}
    assert back.measured.kind is UncertaintyKind.BOOTSTRAP


def test_a_refused_or_interrupted_write_keeps_the_old_file(tmp_path, record, monkeypatch):
    path = tmp_path / "records.json"
    write_records(path, [record])
    before = path.read_bytes()
    bad = replace(record, claim_id="tpa/other", source="")
    with pytest.raises(RecordError, match="'tpa/other': field 'source'"):
        write_records(path, [record, bad])
    with pytest.raises(RecordError, match="unique in the file"):
        write_records(path, [record, record])

    def killed(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        write_records(path, [])
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["records.json"]


def test_one_bad_record_does_not_lose_the_others(tmp_path, record):
    path = tmp_path / "records.json"
    bad = record.to_json() | {"claim_id": "tpa/bad", "verdict": "yes"}
    path.write_text(json.dumps([bad, record.to_json(), 7]))
    records, problems = scan_records(path)
    assert records == [record]
    assert len(problems) == 2
    assert problems[0].startswith(f"{path}: record 0: claim 'tpa/bad': field 'verdict'")
    assert problems[1].startswith(f"{path}: record 2: ")
    with pytest.raises(RecordError, match="record 0: claim 'tpa/bad'"):
        read_records(path)


@pytest.mark.parametrize(
    ("content", "problem"),
    [("[{", "cannot be read as JSON"), ("{}", "had dict, needs a list"), (b"\xff", "JSON")],
)
def test_a_damaged_file_is_named(tmp_path, content, problem):
    path = tmp_path / "records.json"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(RecordError, match=problem) as e:
        read_records(path)
    assert str(path) in str(e.value)


def test_versions_and_date_are_filled_in(record):
    fresh = ClaimRecord(
        **{
            f.name: getattr(record, f.name)
            for f in dataclasses.fields(record)
            if f.name not in ("date", "versions")
        }
    )
    validate(fresh)
    assert {"python", "jax", "jaxlib", "flax"} <= set(fresh.versions)


@pytest.mark.parametrize(
    ("platform", "kind", "named"),
    [("cpu", "cpu", "cpu"), ("gpu", "NVIDIA H200", "gpu (NVIDIA H200)")],
)
def test_the_kind_of_device_is_named(monkeypatch, platform, kind, named):
    device = types.SimpleNamespace(platform=platform, device_kind=kind)
    monkeypatch.setattr(jax, "local_devices", lambda: [device])
    assert current_versions()["device"] == named
