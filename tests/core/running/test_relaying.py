"""Errors of the library in the texts of the engine's."""

from __future__ import annotations

import pytest

from dedp_assets.patterns.core.running.relaying import relayed


@pytest.mark.parametrize(
    ("text", "kind", "said"),
    [
        (
            "[USER_RAISED_EXCEPTION] dedp_assets.patterns.core.errors.NotReady: wait SQLSTATE: P0001\n== SQL ==",
            "NotReady",
            "wait",
        ),
        ("Traceback\n  a\npatterns.core.errors.AuditFailed: a: b: c\nmore", "AuditFailed", "a: b: c"),
        ("core.errors.Unheard: of", "ContractError", "of"),
    ],
)
def test_an_error_that_was_raised_inside_of_a_query_is_read_out_of_the_engines(text, kind, said):
    """With its kind and its sentence."""
    error = relayed(text)
    assert (type(error).__name__, str(error)) == (kind, said)


@pytest.mark.parametrize(
    "text",
    ["java.lang.Error: core.errors", "[X] raise_error(dedp_assets.patterns.core.errors.NotReady: wait) of a plan"],
)
def test_a_text_that_only_shows_such_an_error_is_none(text):
    """A plan that an engine's error prints names the errors which it would raise."""
    assert relayed(text) is None
