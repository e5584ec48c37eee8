"""Simulated commits: every reader of a log reads them as if they were written, and nothing is."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from dedp_assets.patterns.delta import Ledger, SimulatedLedger, transaction_id
from tests.helpers import a_record, write_log

NAME = "silver/x"
COLUMNS = {"id": "long", "day": "date"}
COMMITS = st.lists(st.tuples(st.sets(st.sampled_from(["2026-01-05", "2026-01-06", "2026-01-07"])), st.booleans()))


def commit_of(number, days, recorded):
    """A commit that changes days, and applies a version to each."""
    cursors = {transaction_id(NAME, {"day": day}, 0): number for day in days}
    record = a_record(NAME, {"day": min(days)}, notes={"number": number}) if recorded and days else None
    return {"changed": [{"day": day} for day in sorted(days)], "txn": cursors, "record": record}


def facts(ledger, since):
    """What the readers of the graph ask a log."""
    cursors = ledger.transactions()
    days = [{"day": f"2026-01-0{number}"} for number in range(5, 8)]
    found = ledger.latest(days[0])
    return (
        ledger.version(),
        [(g.version, g.changed, dict(g.transactions), g.stated.get("notes")) for g in ledger.glimpses(records=True)],
        [(g.version, g.changed) for g in ledger.glimpses(since=since)],
        ledger.changes(since=since),
        [cursors.reached(NAME, day) for day in days],
        found and found.version,
    )


@settings(deadline=None)
@given(stored=COMMITS, simulated=COMMITS)
def test_a_log_with_simulated_commits_reads_as_one_with_written_commits(tmp_path_factory, stored, simulated):
    """Of a table that is there, and of one that a simulated commit creates."""
    both, alone = tmp_path_factory.mktemp("both"), tmp_path_factory.mktemp("alone")
    known = [commit_of(number, *each) for number, each in enumerate(stored, start=1)]
    later = [commit_of(len(stored) + number, *each) for number, each in enumerate(simulated, start=1)]
    if stored:
        write_log(alone, COLUMNS, ["day"], known)
    write_log(both, COLUMNS, ["day"], [*known, *later])
    files = sorted(alone.rglob("*"))
    ledger = SimulatedLedger(alone, name=NAME)
    for each in later:
        changed = [(("day", values["day"]),) for values in each["changed"]]
        ledger.simulate(changed, each["txn"], each["record"])
    if stored or simulated:
        assert facts(ledger, len(stored)) == facts(Ledger(both, name=NAME), len(stored))
    assert sorted(alone.rglob("*")) == files


def test_the_state_stays_the_stored_one(tmp_path):
    """Files of simulated commits are nowhere; a table that only a simulated commit created has no column."""
    write_log(tmp_path / "x", COLUMNS, ["day"], [commit_of(1, {"2026-01-05"}, False)])
    ledger = SimulatedLedger(tmp_path / "x", name=NAME)
    ledger.simulate([(("day", "2026-01-06"),)], {})
    assert ledger.version() == 2
    assert {dict(partition)["day"] for partition in ledger.state().statistics()} == {"2026-01-05"}
    new = SimulatedLedger(tmp_path / "y", name="silver/y")
    new.simulate([()], {})
    assert dict(new.state().columns) == {}
    assert not (tmp_path / "y").exists()
