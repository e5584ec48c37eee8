"""Accounting: what is measured of staged rows, and what is judged of it; SQLite stands in for Spark."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedp_assets.patterns.core.audits import Audit
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.names import OUTCOME
from dedp_assets.patterns.core.records import Approval
from dedp_assets.patterns.core.results import Finding, RowCounts
from dedp_assets.patterns.core.rows import RowsRead, Tally
from dedp_assets.patterns.delta.staging.row_accounting import Accounting
from dedp_assets.patterns.delta.staging.write_counts import Parts
from tests.delta.measuring import observed

NAMES = ("valid", "dead", "duplicate", "early", "bot")
OUTSIDE = "NOT (day = 'mon')"
RULES = {"id_is_not_null": "id IS NOT NULL", "amount_is_positive": "amount > 0"}


def an_audit(name, **fields):
    return Audit(**{"name": name, "fail_above": 0, **fields})


FREE = Audit(name="free", of="free", where="amount = 0", fail_above=1, warn_above=0, approvable=True)
ACCOUNTING = Accounting(Parts(outcomes=NAMES), (FREE, an_audit("known", of="dead")), RULES, OUTSIDE)

some = st.one_of(st.none(), st.integers(-2, 2))
a_row = st.fixed_dictionaries(
    {OUTCOME: st.sampled_from(NAMES), "day": st.sampled_from(["mon", "tue"]), "id": some, "amount": some}
)


def by_model(rows):
    """The findings and counts of a batch, computed row by row."""
    written = [row for row in rows if row[OUTCOME] == "valid"]
    dead, duplicates = (sum(row[OUTCOME] == name for row in rows) for name in ("dead", "duplicate"))
    counts = RowCounts(len(rows), len(written), dead, duplicates, len(rows) - len(written) - dead - duplicates)
    broken = {
        "id_is_not_null": sum(row["id"] is None for row in written),
        "amount_is_positive": sum(row["amount"] is None or row["amount"] <= 0 for row in written),
    }
    free = sum(row["amount"] == 0 for row in written)
    passed = {
        "rows_are_accounted_for": True,
        "rows_lie_in_their_partition": all(row["day"] == "mon" for row in written),
        "constraints_hold": not any(broken.values()),
        "free": not free,
        "known": not dead,
    }
    return counts, passed, {**counts.as_dict(), "free": free}, {name for name in broken if broken[name]}


@given(st.lists(a_row, max_size=12))
def test_a_batch_is_judged_as_row_by_row(rows):
    """Whatever becomes of the rows: the same counts, verdicts and figures as a model that looks at each of them."""
    counts, passed, figures, broken = by_model(rows)
    judged = ACCOUNTING.judge(observed(ACCOUNTING, rows))
    assert judged.account.counts == counts
    assert {finding.name: finding.passed for finding in judged.findings} == passed
    assert judged.figures == figures
    assert {rule for rule in RULES if f"NOT coalesce({RULES[rule]}, false)" in judged.faults} == broken
    refusing = [name for name, fine in passed.items() if not fine and not (name == "free" and figures["free"] == 1)]
    assert bool(judged.refused) is bool(refusing)
    assert judged.verdict == ("passed" if all(passed.values()) else "warned")


@given(*[st.integers(0, 3)] * 2)
def test_rows_are_accounted_for_exactly_if_the_outcomes_add_up(lost, invented):
    """One row too few is a loss, one too many an invention, and both refuse the write."""
    read = {"read": 5 + lost - invented}
    tally = SimpleNamespace(names=["read"], identity=(), along=False, figures=lambda **_: read)
    accounting = Accounting(Parts(outcomes=NAMES, rows_read=RowsRead(tally)))
    rows = [{OUTCOME: name} for name in NAMES]
    judged = accounting.judge(observed(accounting, rows))
    assert judged.account.counts.unaccounted == lost - invented
    assert judged.findings[0].refuses is (lost != invented)


@pytest.mark.parametrize(
    ("row", "name", "shown"),
    [
        ({"day": "tue", "id": 1, "amount": 1}, "rows_lie_in_their_partition", {"outside": 1}),
        ({"day": "mon", "id": None, "amount": 1}, "constraints_hold", {"id_is_not_null": 1}),
    ],
)
def test_no_approval_overrules_the_rules_of_every_write(row, name, shown):
    """Rows at fault refuse the write, with their number, whoever approves of it."""
    approval = Approval("Ada", "I looked at it", (name,))
    judged = ACCOUNTING.judge(observed(ACCOUNTING, [{OUTCOME: "valid", **row}]), approval)
    (finding,) = (finding for finding in judged.findings if finding.name == name)
    assert (finding.refuses, finding.approvable, finding.figures) == (True, False, shown)
    assert name in judged.refused


def test_a_person_may_overrule_an_audit_of_their_own():
    """Its rows are no fault any more, and the ledger says that a person approved."""
    rows = [{OUTCOME: "valid", "day": "mon", "id": 1, "amount": 0}] * 2
    accounting = Accounting(Parts(outcomes=NAMES), (FREE,))
    refused = accounting.judge(observed(accounting, rows))
    assert refused.faults == ("amount = 0",)
    assert "free: above 1" in refused.refused
    approved = accounting.judge(observed(accounting, rows), Approval("Ada", "gifts"))
    assert (approved.faults, approved.refused, approved.verdict) == ((), "", "approved")


def test_verdicts_on_the_input_count_in_the_verdict():
    """Rows that pass are published with a warning, if what they were made of had one; its finding is not repeated."""
    warned = Finding("input_is_whole", passed=False, severity="warn")
    judged = Accounting(Parts(rows_read=RowsRead(findings=(warned,)))).judge({})
    assert judged.verdict == "warned"
    assert warned not in judged.findings


def test_nothing_to_stage_is_accounted_for():
    """A partition that is emptied was judged, too; its record holds zeros."""
    judged = Accounting(Parts()).judge({})
    assert (judged.refused, judged.verdict, judged.account.content) == ("", "passed", "0 rows 0")
    assert judged.figures == RowCounts().as_dict()


TALLIED = Tally(("id",), SimpleNamespace(), {"read": "count(1)", "late": "count_if(late)"})


@pytest.mark.promise("no-figure-takes-the-place")
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
        Accounting(Parts(rows_read=rows_read), tuple(audits))


def test_an_aggregate_says_which_part_of_a_split_it_is_about():
    """By naming the outcome; over plain rows it needs not."""
    loose, named = an_audit("a", sql="sum(amount)"), an_audit("a", sql=f"sum(if({OUTCOME} = 'dead', 1, 0))")
    with pytest.raises(ConfigError, match=f"audit a would measure every part of the split.*{OUTCOME}"):
        Accounting(Parts(outcomes=NAMES), (loose,))
    assert Accounting(Parts(outcomes=NAMES), (named,)).asked()["a"] == named.sql
    assert Accounting(Parts(), (loose,)).asked()["a"] == loose.sql


def test_figures_are_shared_where_they_are_the_same_number():
    """Two audits may judge one figure: one that measures it and one that only names it, or both in one way."""
    audits = (
        an_audit("a", of="x", sql="9"),
        an_audit("b", of="x", sql="9"),
        an_audit("c", of="x"),
        an_audit("read_all", of="read"),
    )
    accounting = Accounting(Parts(rows_read=RowsRead(figures={"read": 5, "present": 7})), audits)
    judged = accounting.judge(observed(accounting, [{"id": 1}] * 5))
    assert judged.figures == {**RowCounts(5, 5).as_dict(), "x": 9, "present": 7}
    assert [finding.figures for finding in judged.findings[3:]] == [{"x": 9}] * 3 + [{"read": 5}]
