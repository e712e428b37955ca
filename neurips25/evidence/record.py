"""Claim records: what a paper claims, what was measured for it here, and the verdict.

A run writes its records to ``records.json``. Their form is fixed by
``record.schema.json`` (JSON Schema 2020-12), which other tools can use too.
"""

import dataclasses
import datetime
import enum
import functools
import importlib.metadata
import importlib.resources
import json
import math
import os
import pathlib
import platform
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import jax
import jsonschema
import numpy as np

from neurips25.data import replace_text


class Scale(enum.StrEnum):
    """The paper's own sizes, or a smaller setting."""

    FULL = "full"
    REDUCED = "reduced"


class ClaimType(enum.StrEnum):
    """What kind of statement the claim is, which decides what can refute it."""

    FULL_SCALE_NUMBER = "full-scale number"
    ORDERING = "ordering"
    EXACT_PROPERTY = "exact property"
    TIMING = "timing"


class Verdict(enum.StrEnum):
    """How far the claim held here."""

    HOLDS = "holds"
    PARTLY = "partly"
    DOES_NOT_HOLD = "does not hold"
    NOT_TESTED = "not tested at this scale"


class UncertaintyKind(enum.StrEnum):
    """What the uncertainty of a measured value is."""

    STANDARD_ERROR = "standard error"
    BOOTSTRAP = "bootstrap interval"
    QUARTILES = "quartiles"
    NONE = "none"


class RecordError(ValueError):
    """A claim record, or a file of them, is not as the schema demands."""


@dataclasses.dataclass(frozen=True)
class Setting:
    """Where a claim was tested.

    Attributes:
      config: the config's name, such as ``"configs/t6.py:cpu"``.
      scale: the paper's sizes or smaller ones.
      seeds: the seeds that were run; empty where nothing is random.
      data: the data's name and split.
    """

    config: str
    scale: Scale
    seeds: tuple[int, ...] = ()
    data: str = ""


@dataclasses.dataclass(frozen=True)
class Measured:
    """What was measured.

    Attributes:
      value: one number, named numbers (``{"tpa": 1.87, "mha": 1.89}``), or None where
        nothing was measured. NaN and infinity are allowed: a run that diverged is a result.
      uncertainty: a half-width (standard error), an interval ``(low, high)``, or a mapping
        of these with the names of ``value``; None where there is none.
      kind: what ``uncertainty`` is.
      unit: unit of the values and of the uncertainty.
      n: independent samples (seeds, repetitions) that each value rests on.
    """

    value: float | Mapping[str, float] | None = None
    uncertainty: float | Sequence[float] | Mapping[str, float | Sequence[float] | None] | None = (
        None
    )
    kind: UncertaintyKind = UncertaintyKind.NONE
    unit: str = ""
    n: int = 1


def current_versions() -> dict[str, str]:
    """What a measurement depends on: versions, and the kind of device that jax computes on.

    Returns:
      Name -> version of Python and of the packages (one not installed is left out), and
      ``device``: the platform and, where that says more, the kind: ``"cpu"``,
      ``"gpu (NVIDIA H200)"``.

    >>> sorted(current_versions())[:4]
    ['device', 'flax', 'jax', 'jaxlib']
    """
    device = jax.local_devices()[0]
    kind = "" if device.device_kind == device.platform else f" ({device.device_kind})"
    versions = {"device": device.platform + kind, "python": platform.python_version()}
    for package in ("jax", "jaxlib", "flax", "optax", "numpy", "scipy", "neurips25"):
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions


def _today() -> str:
    return datetime.date.today().isoformat()


@dataclasses.dataclass(frozen=True)
class ClaimRecord:
    """One claim of a paper and how far it holds here.

    Attributes:
      method: the method's short name, such as ``"tpa"``.
      claim_id: name without spaces, unique in a file of records.
      claim_type: a full-scale number, an ordering, an exact property, or a timing.
      statement: the paper's claim in our words.
      paper_value: the paper's number or a text such as ``"TPA < MHA"``; None if it has none.
      source: table, figure or section of the paper.
      setting: config, scale, seeds and data of the test.
      command: the command that repeats it.
      measured: value, uncertainty, unit and number of samples.
      verdict: how far the claim holds.
      paper_unit: unit of ``paper_value``.
      note: anything a reader needs to judge the verdict.
      date: ISO date of the measurement.
      versions: what it was measured with, as from ``current_versions``.
    """

    method: str
    claim_id: str
    claim_type: ClaimType
    statement: str
    paper_value: float | str | None
    source: str
    setting: Setting
    command: str
    measured: Measured
    verdict: Verdict
    paper_unit: str = ""
    note: str = ""
    date: str = dataclasses.field(default_factory=_today)
    versions: Mapping[str, str] = dataclasses.field(default_factory=current_versions)

    def to_json(self) -> dict[str, Any]:
        """Returns the record as plain JSON values, in the schema's form."""
        plain = {f.name: _plain(getattr(self, f.name)) for f in dataclasses.fields(self)}
        plain["measured"]["uncertainty_kind"] = plain["measured"].pop("kind")
        return plain

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "ClaimRecord":
        """Inverse of ``to_json``. Raises ``RecordError`` for data the schema refuses."""
        validate(data)
        setting, measured = dict(data["setting"]), dict(data["measured"])
        kind = UncertaintyKind(measured.pop("uncertainty_kind"))
        measured["value"] = _numbers(measured["value"])
        measured["uncertainty"] = _numbers(measured["uncertainty"])
        fields = dict(data)
        fields.update(
            claim_type=ClaimType(data["claim_type"]),
            verdict=Verdict(data["verdict"]),
            setting=Setting(
                setting["config"],
                Scale(setting["scale"]),
                tuple(setting["seeds"]),
                setting["data"],
            ),
            measured=Measured(**measured, kind=kind),
        )
        return cls(**fields)


def _plain(value: Any) -> Any:
    """Turns dataclasses, enums, arrays and non-finite floats into strict JSON values."""
    if dataclasses.is_dataclass(value):
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if isinstance(value, enum.Enum):
        return value.value
    if hasattr(value, "__array__"):
        return _plain(np.asarray(value).tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def _numbers(value: Any) -> Any:
    """Inverse of ``_plain`` for the measured numbers."""
    if isinstance(value, Mapping):
        return {k: _numbers(v) for k, v in value.items()}
    if isinstance(value, list):
        return tuple(_numbers(v) for v in value)
    return float(value) if isinstance(value, str) else value


@functools.cache
def _validator() -> jsonschema.Draft202012Validator:
    text = importlib.resources.files(__package__).joinpath("record.schema.json").read_text("utf-8")
    return jsonschema.Draft202012Validator(
        json.loads(text), format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER
    )


def _problem(error: jsonschema.ValidationError) -> str:
    """One line for one schema error: the field, what it had, what is needed."""
    path = [str(p) for p in error.absolute_path]
    had, needed = repr(error.instance), error.schema.get("description", error.message)
    if error.validator == "required":
        missing = next(k for k in error.validator_value if error.message.startswith(repr(k)))
        path.append(missing)
        had = "nothing"
        needed = error.schema.get("properties", {}).get(missing, {}).get("description", "a text")
    elif error.validator == "additionalProperties" and "properties" in error.schema:
        known = error.schema["properties"]
        extra = sorted(k for k in error.instance if k not in known)
        path.append(", ".join(extra))
        had = repr([error.instance[k] for k in extra])
        needed = f"no such field (known: {', '.join(known)})"
    return f"field '{'.'.join(path) or '(record)'}': had {had}, needs {needed}"


def validate(record: ClaimRecord | Mapping[str, Any]) -> None:
    """Checks a record against the schema and its rules.

    Beside the types, the rules are: a run of scale ``REDUCED`` leaves a ``FULL_SCALE_NUMBER``
    ``NOT_TESTED`` and never refutes a ``TIMING``; a verdict other than ``NOT_TESTED`` rests on a
    measured value, for a ``TIMING`` on n >= 2 of them; an ``ORDERING`` holds or does not hold
    only with n >= 2; an uncertainty says of which kind it is.

    Args:
      record: a ``ClaimRecord`` or its JSON form.

    Raises:
      RecordError: naming the claim, each field that is wrong, what it had and what it needs.
    """
    data = record.to_json() if isinstance(record, ClaimRecord) else record
    problems = [_problem(e) for e in sorted(_validator().iter_errors(data), key=_error_order)]
    measured = data.get("measured") if isinstance(data, Mapping) else None
    if not problems and isinstance(measured, Mapping):
        value, uncertainty = measured["value"], measured["uncertainty"]
        if isinstance(uncertainty, Mapping):
            names = set(value) if isinstance(value, Mapping) else set()
            unknown = sorted(set(uncertainty) - names)
            if unknown:
                problems.append(
                    f"field 'measured.uncertainty': had the names {unknown}, "
                    f"needs names that measured.value has: {sorted(names)}"
                )
    if problems:
        claim = data.get("claim_id", "(no claim_id)") if isinstance(data, Mapping) else repr(data)
        raise RecordError("\n".join(f"claim {claim!r}: {p}" for p in problems))


def _error_order(error: jsonschema.ValidationError) -> list[str]:
    return [str(p) for p in error.absolute_path]


def write_records(path: str | os.PathLike[str], records: Iterable[ClaimRecord]) -> None:
    """Writes records as JSON, wholly or not at all; a file already there is replaced.

    Raises:
      RecordError: a record is not valid or two have one ``claim_id``. Nothing is written.
      OSError: the file could not be written; the old one is as it was.
    """
    records = list(records)
    problems, seen = [], set()
    for record in records:
        try:
            validate(record)
        except RecordError as e:
            problems.append(str(e))
        if record.claim_id in seen:
            problems.append(
                f"claim {record.claim_id!r}: field 'claim_id': had a name that an earlier "
                "record has, needs one that is unique in the file"
            )
        seen.add(record.claim_id)
    if problems:
        raise RecordError("\n".join(problems))
    text = json.dumps([r.to_json() for r in records], indent=2, ensure_ascii=False, allow_nan=False)
    replace_text(path, text + "\n")


def scan_records(path: str | os.PathLike[str]) -> tuple[list[ClaimRecord], list[str]]:
    """Reads what can be read: the valid records, and one line per problem found.

    >>> scan_records("no-such-run/records.json")
    ([], ['no-such-run/records.json: no such file'])
    """
    try:
        data = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return [], [f"{os.fspath(path)}: no such file"]
    except (OSError, ValueError) as e:
        return [], [f"{os.fspath(path)}: cannot be read as JSON: {e}"]
    if not isinstance(data, list):
        return [], [f"{os.fspath(path)}: had {type(data).__name__}, needs a list of records"]
    records, problems = [], []
    for i, item in enumerate(data):
        try:
            records.append(ClaimRecord.from_json(item))
        except RecordError as e:
            problems += [f"{os.fspath(path)}: record {i}: {line}" for line in str(e).splitlines()]
    return records, problems


def read_records(path: str | os.PathLike[str]) -> list[ClaimRecord]:
    """Reads a file of records, all of which must be valid (``scan_records`` is lenient).

    Raises:
      RecordError: naming the file, the record and the problem.
    """
    records, problems = scan_records(path)
    if problems:
        raise RecordError("\n".join(problems))
    return records
