"""Errors carry what a person needs to act."""

from __future__ import annotations

import pytest

from dedp_assets.patterns.core import errors
from dedp_assets.patterns.core.results import Finding


def test_a_refusal_carries_every_finding_and_the_place_of_the_rows():
    """Whoever catches it can show all verdicts and look at the refused rows."""
    findings = [Finding("a", passed=True), Finding("b", passed=False)]
    error = errors.AuditFailed("nothing published", findings=findings, stage="/lake/events/staged-1")
    assert (str(error), error.findings, error.stage) == ("nothing published", tuple(findings), "/lake/events/staged-1")
    assert errors.AuditFailed("x", findings=[]).stage is None


@pytest.mark.parametrize("name", ["SchemaMismatch", "AmbiguousKeys", "TransactionReused", "AuditFailed"])
def test_broken_contracts_are_caught_by_one_name_and_never_retried(name):
    """Data that breaks a contract breaks it again at the next attempt."""
    assert issubclass(getattr(errors, name), errors.ContractError)
    assert not getattr(errors, name).retryable


def test_a_wrong_call_is_a_value_error_too():
    """Code that knows nothing of the library catches it by Python's own name."""
    assert issubclass(errors.ConfigError, ValueError)
