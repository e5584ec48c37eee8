"""How partitions feed each other: a run reads what the mapping says, and a change upstream asks for just that run."""

from __future__ import annotations

import pytest

from dedp_assets.case_study.defs.silver.visits import BY_EVENT_DATE
from dedp_assets.graph.inputs.feeds import Pinned, day_to_week, hour_to_day, pin, same, whole
from dedp_assets.patterns.core.errors import ContractError, NotReady
from dedp_assets.patterns.core.measuring.costs import Cost
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import Table
from tests.helpers import a_record, a_run, write_log

DAY, OTHER = {"event_date": "2026-01-05"}, {"event_date": "2026-01-06"}
UPSTREAM = TableSpec("silver/x", {"id": Column("BIGINT"), "event_date": Column("DATE")}, partition_by=("event_date",))


@pytest.mark.parametrize(
    ("feed", "keys"),
    [
        (same("event_date"), ["2026-01-05", "2026-02-28"]),
        (whole(), [""]),
        (day_to_week("event_date"), ["2025-12-29", "2026-01-05"]),
        (hour_to_day("event_hour"), ["2026-01-05"]),
        (BY_EVENT_DATE, ["2026-01-05"]),
    ],
    ids=["same", "whole", "day to week", "hour to day", "bronze to silver"],
)
def test_a_change_of_what_a_run_reads_asks_for_that_run(feed, keys):
    """Every partition that a key reads feeds that key and no other one of the keys."""
    for key in keys:
        for partition in feed.reads(key):
            columns = dict.fromkeys(("event_date", "landed_on"))
            assert list(feed.feeds({**columns, **partition})) == [key]


def test_a_week_reads_seven_days_and_any_day_of_it_asks_for_its_monday():
    """Sunday belongs to the week before; the last days of a year to the week that began in it."""
    feed = day_to_week("event_date")
    assert [day["event_date"] for day in feed.reads("2025-12-29")] == [
        "2025-12-29", "2025-12-30", "2025-12-31", "2026-01-01", "2026-01-02", "2026-01-03", "2026-01-04"
    ]  # fmt: skip
    assert list(feed.feeds({"event_date": "2026-01-04"})) == ["2025-12-29"]
    assert list(feed.feeds({"event_date": "2026-01-05"})) == ["2026-01-05"]


@pytest.mark.parametrize("feed", [same("event_date"), day_to_week("event_date"), hour_to_day("event_date")])
def test_a_partition_without_a_value_feeds_nothing(feed):
    """Rows that belong to no day belong to no run."""
    assert list(feed.feeds({"event_date": None})) == []


def upstream(tmp_path, *commits):
    location = tmp_path / "silver/x"
    write_log(location, {"id": "long", "event_date": "date"}, ["event_date"], list(commits)) if commits else None
    return Table(UPSTREAM, location, lambda: pytest.fail("it asked for a Spark session"))


def test_a_day_that_upstream_wrote_without_a_row_is_there(tmp_path):
    """It changed nothing, and is no reason to wait."""
    pinned = pin(upstream(tmp_path, {"record": a_record("silver/x", DAY)}), same("event_date"), "2026-01-05")
    assert (pinned.version, pinned.changed, pinned.count()) == (1, 1, 0)


def test_the_newest_change_is_pinned_and_not_the_newest_commit_about_the_day(tmp_path):
    """A rerun that wrote the same rows makes nothing new to read; other days do not either."""
    rerun = {"record": a_record("silver/x", DAY)}
    table = upstream(tmp_path, {"changed": [DAY], "record": a_record("silver/x", DAY)}, rerun, {"changed": [OTHER]})
    pinned = pin(table, same("event_date"), "2026-01-05")
    assert (pinned.version, pinned.changed, pinned.count()) == (3, 1, 1)
    assert pinned.size() == Cost(files_read=1, bytes_read=100, rows_read=1)
    assert pin(table, whole(), "").changed == 3
    assert pin(table, day_to_week("event_date"), "2026-01-05").count() == 2


@pytest.mark.parametrize("commits", [[], [{"changed": [OTHER]}]], ids=["no table", "other days"])
def test_a_day_that_upstream_knows_nothing_of_is_not_ready(tmp_path, commits):
    """In one sentence that names it."""
    with pytest.raises(NotReady, match=r"silver/x (holds nothing of 2026-01-05 yet|does not exist yet)"):
        pin(upstream(tmp_path, *commits), same("event_date"), "2026-01-05")


LANDED = TableSpec(
    "bronze/x",
    {"id": Column("BIGINT"), "landed_on": Column("DATE"), "event_date": Column("DATE")},
    partition_by=("landed_on", "event_date"),
)
LETTERS = TableSpec(
    "silver/x_letters",
    {"id": Column("BIGINT"), "landed_on": Column("DATE"), "filed_under": Column("DATE")},
    partition_by=("filed_under",),
)


def test_a_run_reads_the_letters_that_landed_when_its_records_did_and_no_others(spark, make_table):
    """Filed under their landing day, their event date or a date they no longer have; other partitions stay closed."""
    landed, letters = make_table(LANDED), make_table(LETTERS)
    assert pinned(landed, "2026-01-05").related(letters, "landed_on") is None
    for number, (on, filed_under) in enumerate(
        [("04", "04"), ("05", "05"), ("06", "06"), ("06", "03"), ("07", "07"), ("07", "02")]
    ):
        rows = spark.sql(
            f"SELECT {number}L AS id, DATE '2026-01-{on}' AS landed_on, DATE '2026-01-{filed_under}' AS filed_under"
        )
        letters.overwrite(rows, partition={"filed_under": f"2026-01-{filed_under}"}, provenance=a_run())
    read = pinned(landed, "2026-01-05").related(letters, "landed_on")
    assert sorted(row["id"] for row in read.collect()) == [1, 2, 3]
    assert len(read.inputFiles()) == 3
    assert pinned(landed, "2026-01-20").related(letters, "landed_on") is None


def test_a_run_is_refused_while_letters_are_lost_that_may_be_its_own(tmp_path):
    """Without them nobody knows which of its records were dead letters once; other letters do not matter."""
    landed, letters = (
        Table(s, tmp_path / s.name, lambda: pytest.fail("it asked for Spark")) for s in (LANDED, LETTERS)
    )
    run = pinned(landed, "2026-01-05")
    columns = {"id": "long", "landed_on": "date", "filed_under": "date"}
    write_log(letters.location, columns, ["filed_under"], [{"changed": [{"filed_under": "2026-01-06"}]}])
    with pytest.raises(ContractError, match=f"{letters.name} lacks 1 of its data files"):
        run.related(letters, "landed_on")


def pinned(landed, day):
    """What a run of ``day`` reads: records that landed on it and on the day after."""
    commits = [{"changed": [{"landed_on": f"2026-01-{on}", "event_date": day}]} for on in ("05", "06")]
    if not landed.ledger.exists():
        columns = {"id": "long", "landed_on": "date", "event_date": "date"}
        write_log(landed.location, columns, ["landed_on", "event_date"], commits)
    return Pinned(landed, tuple(BY_EVENT_DATE.reads(day)), landed.ledger.version(), 1)
