"""Promotion to gold: one query over a silver date, published on silver's PASS of the same version."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from dedp_assets.graph.declare import Gates, Pinned
from dedp_assets.patterns import Audit, Target, WriteResult, audit_write_audit_publish, require_pass, usual

USUAL = "usual"
REQUIRED = ("dead_letters_are_few", "rows_are_accounted_for")
_PASSED = f"The upstream date was published with a verdict of its own: {', '.join(REQUIRED)}."


def promoted(audits: Sequence[Audit]) -> Gates:
    """Return the gates of a promoted table: audits of the table, and the verdict on silver."""
    return Gates(audits, checks={"upstream_passed": _PASSED}, if_empty="Warns of a date without visits.")


def promote(visits: Pinned, into: Target, *, query: str, counted: str) -> WriteResult:
    """Compute a gold table's day from silver's visits; publish after silver and the result passed.

    Args:
        visits: silver's visits of the day.
        into: target of the write: the gold table, partitioned by event date.
        query: SQL over ``{visits}``.
        counted: figure that says how many visits the result stands for.
    """
    rows, day = visits.rows(), into.partition
    if _is_open(day["event_date"], into.run.at):
        into = replace(into.noting({"open": True}), audits=tuple(map(_lenient, into.audits)))
    passed = require_pass(visits.table.ledger, *visits.partitions, version=visits.version, audits=REQUIRED)
    figures = {"read": visits.count(), USUAL: usual(into.table.ledger, day, figure=counted)}
    return audit_write_audit_publish(
        rows.sparkSession.sql(query, visits=rows),
        into.reading(figures=figures, represented=counted, findings=[passed]),
        allow_empty=True,
    )


def _is_open(day: str, at: datetime | None) -> bool:
    """Return whether a day has not ended yet, so that the day's volume is incomplete."""
    return at is not None and at.date().isoformat() <= day


def _lenient(audit: Audit) -> Audit:
    """Lower audits that compare with usual days to a warning; keep every other audit."""
    if audit.per != USUAL:
        return audit
    low, high = audit.fail_below or audit.warn_below, audit.fail_above or audit.warn_above
    return replace(audit, fail_below=None, fail_above=None, warn_below=low, warn_above=high)
