"""What becomes of rows that are changed: the counts of a pass against the log and against the files it wrote."""

from __future__ import annotations

import json

import pytest
from deltalake.transaction import AddAction

from dedp_assets.patterns.core.audits import Audit
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.names import OUTCOME
from dedp_assets.patterns.delta.locations import store_at
from dedp_assets.patterns.delta.outcomes import accounted, check_audits, counts
from dedp_assets.patterns.delta.stages import Stage

SEEN = {"inserted": 2, "updated": 3, "deleted": 1, "kept": 4, "unused": 1, "source": 7}


def judged(*, held=(5, 3), staged=(6, 3), **figures):
    """The verdict on a pass over files that hold, by the log, so many rows, and that wrote files of so many."""
    adds = [AddAction("p", 1, {}, 0, True, json.dumps({"numRecords": rows})) for rows in staged]
    removed = [({"num_records": rows}, ()) for rows in held]
    return accounted(removed, Stage(store_at("stage"), tuple(adds)), {**SEEN, **figures})


def test_a_pass_in_which_every_row_became_something_is_accounted_for():
    """Rows read are those the log knows, rows written those in the files; without statistics the log says nothing."""
    assert judged().passed
    assert judged(held=(5, None)).passed


@pytest.mark.parametrize(
    ("wrong", "note"),
    [
        ({"held": (5, 2)}, "the replaced files hold 7 rows, 8 were read"),
        ({"kept": 3}, "the replaced files hold 8 rows, 7 were read"),
        ({"staged": (6, 2)}, "9 rows were to be written, 8 were staged"),
        ({"inserted": 9, "staged": (16,)}, "10 rows of the source matched nothing, it has 7"),
    ],
)
def test_rows_that_are_lost_or_too_many_are_a_refusal(wrong, note):
    """A row that a join doubled, one that was not written, one that came from nowhere."""
    finding = judged(**wrong)
    assert finding.refuses
    assert note in finding.note


def test_every_row_of_the_source_lives_on_or_was_not_used():
    """A row may change several, so the source is accounted for by its own rows; a deletion brings none."""
    found = counts(7, SEEN)
    assert (found.read, found.written, found.filtered, found.unaccounted) == (7, 5, 1, 0)
    assert counts(None, SEEN).as_dict() == dict.fromkeys(("read", "written", "dead", "duplicates", "filtered"), 0)


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
        check_audits("silver/events", audits)
    check_audits("silver/events", [Audit(name="few", of="deleted", per="before", fail_above=1)])
