"""Errors of the library in the texts of the engine's."""

from __future__ import annotations

import pytest

from dedp_assets.patterns.core.relaying import relayed


@pytest.mark.parametrize(
    ("text", "kind", "said"),
    [
        ("[X] dedp_assets.patterns.core.errors.NotReady: wait SQLSTATE: P0001\n== SQL ==", "NotReady", "wait"),
        ("Traceback\n  a\npatterns.core.errors.AuditFailed: a: b: c\nmore", "AuditFailed", "a: b: c"),
        ("core.errors.Unheard: of", "ContractError", "of"),
    ],
)
def test_an_error_that_was_raised_inside_of_a_query_is_read_out_of_the_engines(text, kind, said):
    """With its kind and its sentence; a text of nobody's is none."""
    error = relayed(text)
    assert (type(error).__name__, str(error)) == (kind, said)
    assert relayed("java.lang.Error: core.errors") is None
