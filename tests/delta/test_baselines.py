"""Baselines: what is usual by the history, and shares whose sudden change is noticed, whichever way it goes."""

from __future__ import annotations

import pytest

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.parsing.field_census import CENSUS, FieldCensus
from dedp_assets.patterns.delta import (
    ActivityLog,
    Ledger,
    audits_of_usual,
    earlier_fields,
    usual_values,
)
from tests.helpers import EVENTS, a_record, write_log

DAY = {"event_date": "2026-01-12"}
COUNTS = {"duplicates_are_as_usual": "duplicates"}


def written(location, *commits, verdict="passed"):
    """The ledger of a table with ``(day, rows read, duplicates)`` for each commit."""
    records = [
        a_record(
            EVENTS.name,
            {"event_date": day},
            verdict=verdict,
            rows={"read": read, "written": read - again, "dead": 0, "duplicates": again, "filtered": 0},
        )
        for day, read, again in commits
    ]
    columns = {"id": "long", "event_date": "date"}
    write_log(location, columns, ["event_date"], [{"record": record} for record in records])
    return Ledger(location, name=EVENTS.name)


def judged(ledger, again, read=1000, **options):
    (audit,) = audits_of_usual(ledger, COUNTS, **{"partition": DAY, "tolerance": 0.05, **options})
    return audit.judge({"duplicates": again, "read": read})


WEEK = [(f"2026-01-{day:02d}", 1000, 100 + day) for day in range(5, 12)]


@pytest.mark.parametrize(
    ("again", "passed"), [(108, True), (158, True), (159, False), (58, True), (57, False), (0, False)]
)
def test_a_sudden_change_of_the_duplicate_rate_is_noticed(tmp_path, again, passed):
    """11 % are usual: five points more or less pass; beyond, something is not as it was."""
    finding = judged(written(tmp_path / "events", *WEEK), again, severity="warn")
    assert (finding.passed, finding.refuses) == (passed, False)
    assert finding.name == "duplicates_are_as_usual"
    assert judged(written(tmp_path / "more", *WEEK), again).refuses is not passed


def test_usual_is_what_the_partition_had_or_those_before_it_and_never_later_ones(tmp_path):
    """A replay of old days, and refused or foreign commits, are no measure for the present."""
    old = [(f"2025-12-{day:02d}", 1000, 900) for day in range(1, 29)]
    ledger = written(tmp_path / "events", *WEEK, *old, ("2026-01-13", 1000, 900))
    assert judged(ledger, 108).passed
    written(tmp_path / "events", *[(day, 1000, 900) for day, *_ in WEEK], verdict="none")
    assert judged(ledger, 108).passed
    assert judged(written(tmp_path / "events", (DAY["event_date"], 1000, 900)), 900).passed


def test_a_merge_of_a_few_rows_is_no_measure_for_the_partition(tmp_path):
    """Dead letters that a fix re-admits are judged again, a few rows that say nothing of the day's lines."""
    ledger = written(tmp_path / "events", *WEEK, (DAY["event_date"], 3, 3))
    assert not judged(ledger, 108).passed
    newest = max((tmp_path / "events" / "_delta_log").glob("*.json"))
    newest.write_text(newest.read_text().replace('"operation": "WRITE"', '"operation": "MERGE"'))
    assert judged(Ledger(tmp_path / "events", name=EVENTS.name), 108).passed


def test_without_history_any_share_passes(tmp_path):
    """The first partition of a table is the measure for the next."""
    assert judged(Ledger(tmp_path / "none"), 1000).passed


@pytest.mark.parametrize("tolerance", [0, -0.1, 1.5, 5])
def test_a_tolerance_that_is_no_share_is_refused(tmp_path, tolerance):
    """5 would be meant as percent, and never notice anything."""
    with pytest.raises(ConfigError, match="must be a share"):
        judged(Ledger(tmp_path), 0, tolerance=tolerance)


def test_a_partition_that_is_rebuilt_needs_no_other_history(tmp_path):
    """Its own last commit is the measure; of a new partition, the median of the earlier ones."""
    ledger = written(tmp_path / "events", *WEEK, ("2026-01-12", 500, 5))
    read = {"measure": lambda commit: {"read": commit.record.rows["read"]}, "last": 7}
    assert usual_values(ledger, {"event_date": "2026-01-12"}, **read) == {"read": 500}
    assert usual_values(ledger, {"event_date": "2026-01-13"}, **read) == {"read": 1000}


def counted(location, *commits, partition_by=("event_date",)):
    """The ledger of a table with ``(day, records)`` for each commit.

    ``None`` for a commit without a census.
    """
    records = [
        a_record(
            EVENTS.name,
            {"event_date": day} if partition_by else {},
            figures={CENSUS: FieldCensus(number).as_dict()} if number is not None else {},
        )
        for day, number in commits
    ]
    columns = {"id": "long", "event_date": "date"}
    write_log(location, columns, list(partition_by), [{"record": record} for record in records])
    return Ledger(location, name=EVENTS.name)


REWRITTEN = [("2026-01-09", 9), ("2026-01-10", 10), ("2026-01-11", None), ("2026-01-12", 12), ("2026-01-13", 13)]
REWRITTEN += [("2026-01-09", 90)]


def test_earlier_fields_are_those_of_the_partitions_before_by_their_last_write(tmp_path):
    """Neither the partition itself nor a later one counts, nor one whose fields nobody counted."""
    ledger = counted(tmp_path / "events", *REWRITTEN)
    assert [each.records for each in earlier_fields(ledger, DAY)] == [10, 90]
    assert [each.records for each in earlier_fields(ledger, DAY, last=1)] == [10]
    assert earlier_fields(Ledger(tmp_path / "nothing"), DAY) == ()
    with pytest.raises(ConfigError, match="partition must name one column"):
        earlier_fields(ledger, {"a": "1", "b": "2"})


def test_earlier_fields_of_a_whole_table_are_those_of_its_last_writes(tmp_path):
    """Without partitions, each write before is history, the newest first."""
    ledger = counted(tmp_path / "events", *REWRITTEN, partition_by=())
    assert [each.records for each in earlier_fields(ledger, {}, last=3)] == [90, 13, 12]


def test_the_activity_of_a_table_has_the_last_census_of_each_partition(tmp_path):
    """What a detector of changed fields asks is read from the log with the rest."""
    seen = ActivityLog(keyed_by=["event_date"]).poll(counted(tmp_path / "events", *REWRITTEN)).fields
    assert {key: each["records"] for key, each in seen.items()} == {
        "2026-01-09": 90, "2026-01-10": 10, "2026-01-12": 12, "2026-01-13": 13,
    }  # fmt: skip
