"""Progress of a table in an appended topic: event times by partition, kept in the log of the table."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone

from dedp_assets.graph.inputs.history import newest_batches
from dedp_assets.patterns.connectors.kafka.topics import Position
from dedp_assets.patterns.core.audits import Audit
from dedp_assets.patterns.core.results import RowCounts, WriteResult
from dedp_assets.patterns.core.rows import quoted
from dedp_assets.patterns.delta import Commit, Ledger, Table
from dedp_assets.patterns.error_management.late_data_detector import Progress

__all__ = ["ALL_OFFSETS", "inputs_after", "newest_by_input", "result_of"]

_NEWEST = "newest of "
ALL_OFFSETS = Audit(name="every_offset_is_read_once", of="read", per="offsets", warn_below=1, fail_above=1)
"""Audit of a micro-batch: each offset of the topic is a row or a tombstone, once."""


def inputs_after(ledger: Ledger, *, allowed_lateness_seconds: float) -> Progress:
    """Return event time and last delivery of each partition of a table's topic.

    Args:
        ledger: the table's log.
        allowed_lateness_seconds: time that the watermark stays behind the newest event.
    """
    batches = newest_batches(ledger)
    progress = Progress.of_note(batches[0].notes.get("inputs")) if batches else Progress()
    for record in batches:
        found = {name.removeprefix(_NEWEST): text for name, text in record.figures.items() if name.startswith(_NEWEST)}
        progress = progress.advance(
            {name: datetime.fromisoformat(f"{text}+00:00") if text else None for name, text in found.items()},
            at=datetime.fromisoformat(record.at).replace(tzinfo=timezone.utc),
            allowed_lateness_seconds=allowed_lateness_seconds,
        )
    return progress


def newest_by_input(start: Position) -> dict[str, str]:
    """Write the newest event time of each partition of the topic: figure -> SQL aggregate."""
    inputs = [f"{start.topic}-{partition}" for partition in start.offsets]
    newest = "date_format(max(if(source_file = {}, event_time, NULL)), 'yyyy-MM-dd HH:mm:ss')"
    return {f"{_NEWEST}{name}": newest.format(quoted(name)) for name in inputs}


def result_of(table: Table, commits: Sequence[Commit]) -> WriteResult:
    """Sum the micro-batches that a run appended to a table; none if everything of the topic was read."""
    counts = [commit.record.rows for commit in commits if commit.record]
    return WriteResult(
        table=table.name,
        version=commits[-1].version if commits else table.ensure().version,
        applied=bool(commits),
        changed=any(commit.changed for commit in commits),
        reason=f"{len(commits)} micro-batches appended" if commits else "everything of the topic was read",
        rows=RowCounts(**{name: sum(each[name] for each in counts) for name in ("read", "written", "filtered")}),
    )
