"""Parts: every row read has an outcome, by count and by identity."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from dedp_assets.patterns.core.names import OUTCOME
from dedp_assets.patterns.core.results import RowCounts
from dedp_assets.patterns.core.rows import DROPPED, READ_IDENTITY, RowsRead, digest
from dedp_assets.patterns.delta.staging.metrics import RowMetrics
from dedp_assets.patterns.delta.staging.row_accounting import Accounting
from dedp_assets.patterns.delta.staging.write_counts import Parts
from tests.delta.measuring import observed


def a_tally(**figures):
    """The tally of a step that read so many rows, with that identity."""
    return SimpleNamespace(names=list(figures), identity=("id",), along=False, figures=lambda **_: figures)


@pytest.mark.promise("the-same-number-of-other")
@pytest.mark.parametrize(("came_out", "note"), [(7, ""), (8, "other records came out than went in")])
def test_the_same_number_of_other_records_is_no_accounting(came_out, note):
    """As many rows as went in, but not the same ones: refused by the digest of identities."""
    tally = a_tally(read=2, **{READ_IDENTITY: 7})
    accounting = Accounting(Parts(identity="id", rows_read=RowsRead(tally)))
    found = observed(accounting, [{"id": 1}, {"id": 2}], {digest("id"): came_out})
    finding = accounting.judge(found).findings[0]
    assert (finding.refuses, finding.note) == (bool(note), note)


def test_identities_are_compared_only_if_both_were_measured():
    """Aggregates have none, and whoever tallied nothing knows none."""
    rows = RowMetrics(rows=2, kept=2, identity="7")
    assert Parts(identity="id").account(rows).finding.passed
    tally = a_tally(read=2, **{READ_IDENTITY: "8"})
    assert Parts(rows_read=RowsRead(tally)).account(RowMetrics(rows=2, kept=2)).finding.passed
    assert not Parts(identity="id", rows_read=RowsRead(tally)).account(rows).finding.passed


def test_outcomes_are_counted_by_their_name():
    """Dead and duplicate have a count of their own, whatever else was diverted counts as filtered."""
    names = {"valid": 5, "dead": 1, "duplicate": 2, "early": 3, "bot": 4}
    counts = Parts(outcomes=tuple(names)).account(RowMetrics(rows=15, kept=5, parts=names)).counts
    assert counts == RowCounts(read=15, written=5, dead=1, duplicates=2, filtered=7)
    assert counts.unaccounted == 0


@pytest.mark.parametrize(("read", "unaccounted"), [(15, 0), (16, 1)])
def test_parts_that_a_tally_dropped_are_counted_where_they_were_dropped(read, unaccounted):
    """They reach no write, so the tally says how many rows had which outcome; the ledger keeps them as row counts."""
    dropped = {f"{DROPPED}{part}": rows for part, rows in {"dead": 1, "duplicate": 2, "early": 3, "bot": 4}.items()}
    tally = a_tally(read=read, **dropped, **{READ_IDENTITY: "7"})
    account = Parts(identity="id", rows_read=RowsRead(tally)).account(RowMetrics(rows=5, kept=5, identity="7"))
    assert account.counts == RowCounts(read=read, written=5, dead=1, duplicates=2, filtered=7)
    assert account.counts.unaccounted == unaccounted
    assert account.figures == account.counts.as_dict()


@pytest.mark.parametrize(("visits", "unaccounted"), [(10, 0), (9, 1), (None, 10)])
def test_aggregates_account_for_the_rows_they_stand_for(visits, unaccounted):
    """Ten rows in two groups are accounted for if the groups say that they stand for ten."""
    parts = Parts(rows_read=RowsRead(figures={"read": 10}, represented="visits"))
    assert parts.account(RowMetrics(rows=2, kept=2, audited={"visits": visits})).counts.unaccounted == unaccounted


def test_the_ledger_keeps_figures_that_mean_something_to_people():
    """Digests and counts that are stored elsewhere stay out of the record; what a step knows is in it."""
    rows_read = RowsRead(a_tally(read=3, late=1, **{READ_IDENTITY: 7}), figures={"usual": 2.5})
    accounting = Accounting(Parts("valid", ("valid", "dead"), "id", "id", rows_read), rules={"a": "id > 0"})
    rows = [{OUTCOME: "valid", "id": 1}, {OUTCOME: "dead", "id": 2}]
    content, identity = digest("id", where=accounting.balance.kept), digest("id")
    judged = accounting.judge(observed(accounting, rows, {content: "9.9", identity: 7}))
    assert judged.figures == {**RowCounts(3, 1, 1).as_dict(), "late": 1, "usual": 2.5}
    assert judged.account.content == "1 rows 9.9"
