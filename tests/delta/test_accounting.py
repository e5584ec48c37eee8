"""Row accounting: every row read has an outcome, by count and by identity."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedp_assets.patterns.core.audits import Audit
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.names import RESERVED
from dedp_assets.patterns.core.results import RowCounts, Split
from dedp_assets.patterns.core.rows import READ_IDENTITY, RowsRead, Tally
from dedp_assets.patterns.delta.accounting import (
    FINGERPRINT,
    IDENTITY,
    OUTSIDE,
    built_in,
    count,
    public,
    require_own_figures,
    violations,
)
from dedp_assets.patterns.delta.stages import PART

SPLIT = Split(
    rows=None, parts={"valid": ("id",), "dead": ("id",), "duplicate": ("id",), "early": ("id",), "bot": ("id",)}
)
CONSTRAINT = f"{RESERVED}constraint_"
some = st.integers(0, 10**9)


def verdicts(figures, counts):
    return {finding.name: finding for finding in built_in(figures, counts)}


@given(some, some, some, some, some)
def test_rows_are_accounted_for_exactly_if_the_outcomes_add_up(read, written, dead, duplicates, filtered):
    """One row too few is a loss, one too many an invention, and both refuse the write."""
    counts = RowCounts(read, written, dead, duplicates, filtered)
    exact = RowCounts(written + dead + duplicates + filtered, written, dead, duplicates, filtered)
    assert verdicts({}, counts)["rows_are_accounted_for"].refuses is (counts.unaccounted != 0)
    assert counts.unaccounted == read - exact.read
    assert verdicts({}, exact)["rows_are_accounted_for"].passed


def test_the_same_number_of_other_records_is_no_accounting():
    """As many rows as went in, but not the same ones: refused by the digest of identities."""
    counts = RowCounts(read=2, written=2)
    assert verdicts({READ_IDENTITY: 7, IDENTITY: 7}, counts)["rows_are_accounted_for"].passed
    other = verdicts({READ_IDENTITY: 7, IDENTITY: 8}, counts)["rows_are_accounted_for"]
    assert (other.refuses, other.note) == (True, "other records came out than went in")


@pytest.mark.parametrize(
    ("figures", "name", "shown"),
    [
        ({OUTSIDE: 3}, "rows_lie_in_their_partition", {"outside": 3}),
        ({f"{CONSTRAINT}id_is_not_null": 2, f"{CONSTRAINT}fine": 0}, "constraints_hold", {"id_is_not_null": 2}),
    ],
)
def test_rows_at_fault_refuse_the_write_with_their_number(figures, name, shown):
    """And no approval can overrule these rules."""
    finding = verdicts(figures, RowCounts())[name]
    assert (finding.refuses, finding.approvable, finding.figures) == (True, False, shown)


def test_outcomes_are_counted_by_their_name():
    """Dead and duplicate have a count of their own, whatever else was diverted counts as filtered."""
    names = {"valid": 5, "dead": 1, "duplicate": 2, "early": 3, "bot": 4}
    figures = {"read": 15, "written": 5, **{f"{PART}{part}": n for part, n in names.items()}}
    counts = count(figures, SPLIT, "valid", "")
    assert counts == RowCounts(read=15, written=5, dead=1, duplicates=2, filtered=7)
    assert counts.unaccounted == 0


def test_aggregates_account_for_the_rows_they_stand_for():
    """Ten rows in two groups are accounted for if the groups say that they stand for ten."""
    figures = {"read": 10, "written": 2, "visits": 10}
    rows = Split(rows=None, parts={"valid": ("id",)}, outcome="")
    assert count(figures, rows, "valid", "visits").unaccounted == 0
    assert count({**figures, "visits": 9}, rows, "valid", "visits").unaccounted == 1
    assert count({**figures, "visits": None}, rows, "valid", "visits").unaccounted == 10


def test_the_ledger_keeps_figures_that_mean_something_to_people():
    """Digests and counts that are stored elsewhere stay out of the record."""
    figures = {"read": 1, "mean": 2.5, FINGERPRINT: 9, OUTSIDE: 0, f"{CONSTRAINT}a": 0, f"{PART}dead": 0}
    assert public(figures) == {"read": 1, "mean": 2.5}


def test_only_broken_constraints_are_looked_up_for_samples():
    """A row whose rule is NULL breaks it as well."""
    rules = {"a": "x > 0", "b": "y > 0"}
    assert violations({f"{CONSTRAINT}a": 1, f"{CONSTRAINT}b": 0}, rules) == ["NOT coalesce(x > 0, false)"]


TALLIED = Tally(("id",), SimpleNamespace(), {"read": "count(1)", "late": "count_if(late)"})


def an_audit(name, **fields):
    return Audit(**{"name": name, "fail_above": 0, **fields})


@pytest.mark.parametrize(
    ("audits", "rows_read", "words"),
    [
        ([an_audit("a", sql="count(1)"), an_audit("a", sql="0")], RowsRead(), "more than one audit named a"),
        ([an_audit("constraints_hold", sql="0")], RowsRead(), "more than one audit named constraints_hold"),
        ([an_audit("a", of="x", sql="9"), an_audit("b", of="x", sql="0")], RowsRead(), "audit b measures the figure x"),
        (
            [an_audit("a", of="x", sql="9"), an_audit("b", of="x", where="y")],
            RowsRead(),
            "audit b measures the figure x",
        ),
        ([an_audit("a", of="written", sql="0")], RowsRead(), "audit a measures the figure written"),
        ([an_audit("b", of="dead", where="x")], RowsRead(), "audit b measures the figure dead"),
        ([an_audit("late", sql="0")], RowsRead(tally=TALLIED), "audit late measures the figure late"),
        ([an_audit("lines", sql="0")], RowsRead(figures={"lines": 5}), "audit lines measures the figure lines"),
        ([], RowsRead(figures={"written": 5}), "brings the figure written"),
        ([], RowsRead(tally=TALLIED, figures={"late": 5}), "brings the figure late"),
        ([], RowsRead(tally=TALLIED, figures={"read": 5}), "brings the figure read"),
        ([], RowsRead(figures={"__dedp_outside": 0}), "brings the figure __dedp_outside"),
    ],
)
def test_no_figure_takes_the_place_of_another(audits, rows_read, words):
    """Each name stands for one number measured in one way, or the write is refused before it starts."""
    with pytest.raises(ConfigError, match=words):
        require_own_figures(audits, rows_read)


def test_figures_are_shared_where_they_are_the_same_number():
    """Two audits may judge one figure: one that measures it and one that only names it, or both in one way."""
    audits = [
        an_audit("a", of="x", sql="9"),
        an_audit("b", of="x", sql="9"),
        an_audit("c", of="x"),
        an_audit("read_all", of="read"),
    ]
    require_own_figures(audits, RowsRead(figures={"read": 5, "present": 7}))
