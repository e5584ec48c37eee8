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


@pytest.mark.parametrize("name", [each for each in errors.__all__ if each[0].isupper()])
def test_what_a_terminal_obeys_is_shown_and_not_sent(name):
    """The name of a file, a header or an answer may hold any character: it stands in a log, a page and a terminal."""
    odd = "".join(map(chr, [*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x202E, 0x2066, 0xD800]))
    kind = getattr(errors, name)
    error = kind(f"a{odd}b é\u200d😀", findings=[]) if name == "AuditFailed" else kind(f"a{odd}b é\u200d😀")
    shown = str(error)
    assert shown.startswith(r"a\x00\x01")
    assert shown.endswith("b é\u200d😀")
    assert {c for c in shown if not c.isprintable()} == {"\t", "\n", "\u200d"}
    assert shown.encode()
