"""A claim record to start from."""

import pytest

from neurips25.evidence import (
    ClaimRecord,
    ClaimType,
    Measured,
    Scale,
    Setting,
    UncertaintyKind,
    Verdict,
)


@pytest.fixture
def record() -> ClaimRecord:
    return ClaimRecord(
        method="tpa",
        claim_id="tpa/val-loss",
        claim_type=ClaimType.FULL_SCALE_NUMBER,
        statement="TPA ends at a validation loss of 2.618.",
        paper_value=2.618,
        paper_unit="nats/token",
        source="Fig. 4",
        setting=Setting("configs/t6.py:cpu", Scale.REDUCED, (0, 1, 2), "tinyshakespeare"),
        command="python -m experiments.launch --config=configs/t6.py:cpu",
        measured=Measured(1.8934, 0.0123, UncertaintyKind.STANDARD_ERROR, "nats/char", 3),
        verdict=Verdict.NOT_TESTED,
        date="2025-12-01",
        versions={"python": "3.11.7", "jax": "0.10.2"},
    )
