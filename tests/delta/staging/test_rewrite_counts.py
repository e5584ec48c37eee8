"""What becomes of rows that are changed: the counts of a pass against the log and against the files it wrote."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedp_assets.patterns.core.audits import Audit
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.names import OUTCOME
from dedp_assets.patterns.delta.staging.metrics import RowMetrics
from dedp_assets.patterns.delta.staging.rewrite_counts import OUTCOMES, WRITTEN, Outcomes, rows_in
from dedp_assets.patterns.delta.staging.row_accounting import Accounting
from tests.delta.measuring import observed

SEEN = {"inserted": 2, "updated": 3, "deleted": 1, "kept": 4, "unused": 1}


def judged(*, replaced=8, staged=9, source=7, **rows):
    """The verdict on a pass over files that hold, by the log, so many rows, and that wrote files of so many."""
    return Outcomes(source).account(RowMetrics(parts={**SEEN, **rows}, replaced=replaced, staged=staged)).finding


def test_a_pass_in_which_every_row_became_something_is_accounted_for():
    """Rows read are those the log knows, rows written those in the files; without statistics the log says nothing."""
    assert judged().passed
    assert judged(replaced=None).passed
    assert judged(source=None).passed


@pytest.mark.promise("rows-that-are-lost-or")
@pytest.mark.parametrize(
    ("wrong", "note"),
    [
        ({"replaced": 7}, "the replaced files hold 7 rows, 8 were read"),
        ({"kept": 3}, "the replaced files hold 8 rows, 7 were read"),
        ({"staged": 8}, "9 rows were to be written, 8 were staged"),
        ({"inserted": 9, "staged": 16}, "10 rows of the source matched nothing, it has 7"),
    ],
)
def test_rows_that_are_lost_or_too_many_are_a_refusal(wrong, note):
    """A row that a join doubled, one that was not written, one that came from nowhere."""
    finding = judged(**wrong)
    assert finding.refuses
    assert note in finding.note


one_of = st.sampled_from(OUTCOMES)


TABLE = ("updated", "deleted", "kept", "confirmed")
"""What becomes of a row that is there."""


@given(st.lists(one_of, max_size=12), st.integers(0, 5), st.sampled_from([-1, 0, 1]), st.sampled_from([-1, 0, 1]))
def test_a_change_is_judged_as_row_by_row(became, elsewhere, lost, unread):
    """Whatever becomes of the rows of a table and a source: the figures of a model that applies it to two lists.

    Where they do not add up, nothing is said of the table as a whole.
    """
    table = [outcome for outcome in became if outcome in TABLE] + ["untouched"] * elsewhere
    after = [outcome for outcome in (*became, *["untouched"] * elsewhere) if outcome not in ("deleted", "unused")]
    source = sum(outcome != "kept" for outcome in became)
    replaced, staged = len(table) - elsewhere + unread, len(after) - elsewhere - lost
    accounting = Accounting(Outcomes(source, len(table)))
    found = accounting.judge(observed(accounting, [{OUTCOME: o} for o in became]), staged=staged, replaced=replaced)
    assert found.findings[0].passed is (lost == 0 and unread == 0)
    figures = {name: became.count(name) for name in OUTCOMES if name in became or name != "confirmed"}
    figures |= {"source": source}
    if found.findings[0].passed:
        same = sum(after.count(name) for name in ("untouched", "kept", "confirmed"))
        figures |= {"before": len(table), "after": len(after), "untouched": same}
    assert found.findings[0].figures == figures
    counts = found.account.counts
    assert counts.as_dict() == {
        "read": source,
        "written": sum(outcome in ("inserted", "updated", "confirmed") for outcome in became),
        "dead": 0,
        "duplicates": 0,
        "filtered": became.count("unused"),
        "represented": source - became.count("unused"),
    }
    assert counts.unaccounted == 0
    del figures["kept"]
    assert found.figures == {**figures, **counts.as_dict()}


def test_a_deletion_brings_no_rows():
    """Its record counts none, and its history says how many went and how many stayed in the files."""
    account = Outcomes(None, 9).account(RowMetrics(parts={"deleted": 2, "kept": 3}, replaced=5, staged=3))
    assert account.counts.as_dict() == dict.fromkeys(("read", "written", "dead", "duplicates", "filtered"), 0)
    assert account.metrics == {"numDeletedRows": 2, "numCopiedRows": 3}
    assert (account.figures["after"], account.figures["untouched"]) == (7, 7)


def test_the_log_says_how_many_rows_files_hold():
    """Unless it has no statistics of one of them."""
    assert rows_in([{"num_records": 5}, {"num_records": 3}]) == 8
    assert rows_in([{"num_records": 5}, {}]) is None


def test_rules_are_about_the_rows_that_a_change_brings():
    """A row that was there before may break a constraint that the table was given later."""
    accounting = Accounting(Outcomes(), rules={"positive": "amount > 0"})
    assert accounting.balance.kept != WRITTEN
    rows = [{OUTCOME: outcome, "amount": 0} for outcome in ("kept", "deleted", "unused")]
    assert accounting.judge(observed(accounting, rows), staged=1).findings[2].passed
    (broken,) = (
        finding.figures
        for finding in accounting.judge(observed(accounting, [{OUTCOME: "updated", "amount": 0}]), staged=1).findings
        if finding.name == "constraints_hold"
    )
    assert broken == {"positive": 1}


@pytest.mark.parametrize(
    ("audits", "sentence"),
    [
        ([Audit(name="n", sql="sum(amount)", fail_above=1)], f"n would measure rows that were there before.*{OUTCOME}"),
        ([Audit(name="n", of="kept", where="true", fail_above=1)], "audit n measures the figure kept"),
        ([Audit(name="n", of="deleted", fail_above=1)] * 2, "more than one audit named n"),
    ],
)
def test_audits_that_would_measure_something_else_are_refused(audits, sentence):
    """An aggregate says which rows it is about, and what is counted anyway is not measured anew."""
    with pytest.raises(ConfigError, match=sentence):
        Accounting(Outcomes(), tuple(audits))
    Accounting(Outcomes(), (Audit(name="few", of="deleted", per="before", fail_above=1),))
