"""Sequences and markers in a file: the records of Python, and their refusals."""

from __future__ import annotations

import pytest

from dedp_assets.components.checking import completed, drafts_of
from dedp_assets.graph.declare import InSequence, OnMarkers
from dedp_assets.patterns.flow.local_sequencer import SequenceStep
from tests.components.declarations import GOOD, SPECS, VISITS, faults_in

WHEN = "    when:\n      - nightly: {cron: 0 2 * * *, lookback: 14, description: By night., follows_late: true}\n"
SEQUENCE = """    sequence:
      name: counting
      steps:
        - {name: silver/visits}
        - {name: gold/page_counts, after: [silver/visits], on_failure: continue}
"""


def with_sequence():
    """A declaration with a sequence."""
    return GOOD.replace(WHEN, SEQUENCE + WHEN)


def declared(text):
    (draft,), faults = drafts_of(text, "defs.yaml")
    found = completed(draft, SPECS)
    assert not [*faults, *found[2]]
    return next(each for each in found if hasattr(each, "runs"))


def test_a_sequence_of_a_file_is_the_record_of_python():
    """With its steps and their consequences."""
    steps = (SequenceStep("silver/visits"), SequenceStep("gold/page_counts", ("silver/visits",), "continue"))
    assert declared(with_sequence()).runs.sequence == InSequence("counting", steps)


@pytest.mark.parametrize(
    ("old", "new", "place", "said"),
    [
        (
            "on_failure: continue",
            "on_failure: ignore",
            "ignore}",
            "on_failure must be 'stop' or 'continue', not 'ignore'",
        ),
        (
            "name: gold/page_counts, after",
            "name: gold/pages, after",
            "name: counting",
            "gold/page_counts: sequence must have a step gold/page_counts, not only silver/visits, gold/pages",
        ),
        (
            ", after: [silver/visits]",
            "",
            "name: counting",
            "gold/page_counts: sequence must say after=['silver/visits'] as Reads does, not []",
        ),
        (
            "- {name: silver/visits}",
            "- {name: gold/page_counts}",
            "- {name: gold/page_counts}",
            "steps must come after earlier steps, not gold/page_counts after silver/visits",
        ),
    ],
)
def test_a_faulty_sequence_is_one_fault_in_a_sentence(old, new, place, said):
    """At its place in the file: the wrong value, or the first line of the sequence or of the steps."""
    text = with_sequence().replace(old, new, 1)
    (fault,) = faults_in(text)
    assert fault.message == said
    assert text.splitlines()[fault.line - 1][fault.column - 1 :] == place


def test_markers_of_a_file_are_the_record_of_python():
    """The producer's table by its contract, which the project declares; what finds it is a function."""
    when = "    when: {on_markers: {producer: silver/visits, period: day, start: last_marker}}\n"
    begin, end = GOOD.index("  reads:\n"), GOOD.index("  runs:\n")
    reads = "  reads: {inputs: 'tests.components.test_sequences_in_yaml:FOUND'}\n"
    text = GOOD[:begin] + reads + GOOD[end:].replace(GOOD[GOOD.index("    when:\n") : GOOD.index("    job:")], when)
    steps = text.index("  steps:\n")
    derived = "    derived: {views: [visit_id]}\n"
    text = (
        text[:steps].replace(derived, "")
        + "  steps:\n    - sql: SELECT DATE {event_date} AS event_date, 'x' AS page, 1L AS views\n"
        + "    - idempotency.data_overwrite: {}\n"
    )
    assert declared(text).runs.of(OnMarkers) == (OnMarkers(VISITS, "day", "last_marker"),)


def FOUND():  # noqa: N802 - as a project would name a constant
    """Find nothing."""
