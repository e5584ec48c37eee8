"""Sinks that do not keep their protocol: none of their answers is believed, and no raw error comes of it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from dedp_assets.patterns.connectors.sinks import Answer, send

RECORDS = [SimpleNamespace(id="a"), SimpleNamespace(id="b")]
DONE = Answer("accepted")


@pytest.mark.parametrize("lie", [None, [], [DONE], [DONE] * 3, [DONE, None], "ab", 7, {"a": DONE, "b": DONE}], ids=repr)
def test_an_answer_that_is_not_one_for_each_record_says_nothing_of_any(lie):
    """Half, twice, nonsense and nothing: the request failed, is tried again, and the reason names the sink."""
    said = iter([lie, [DONE, DONE]])
    sink = SimpleNamespace(name="inbox", partial=True, limit=2, send=lambda *_: next(said))
    assert send(sink, "x", RECORDS, attempts=2, pause_seconds=0) == ([DONE, DONE], 2)
    sink.send = lambda *_: lie
    (answer, other), requests = send(sink, "x", RECORDS, attempts=2, pause_seconds=0)
    assert (answer.outcome, other.outcome, requests) == ("failed", "failed", 2)
    assert answer.reason.startswith("inbox must answer each of 2 records")
