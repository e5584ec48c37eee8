"""`dedp cost`: sums by table, day and cause over hand-written commits."""

from __future__ import annotations

import json
from datetime import date, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedp_assets.cli import main
from dedp_assets.commands.cost import spent
from dedp_assets.graph.resources.clock import Clock
from dedp_assets.patterns.core.measuring.costs import Cost
from dedp_assets.patterns.core.records import slice_name
from dedp_assets.patterns.delta import Commit
from tests.helpers import a_record, write_log

FIRST = datetime(2026, 1, 5, 8, tzinfo=timezone.utc)  # of the commits of write_log
MONDAY, TUESDAY = ({"day": day} for day in ("mon", "tue"))
COSTS = {
    "silver/visits": [
        ("landing", MONDAY, Cost(seconds=2.0, cpu_seconds=1.0, bytes_read=10, bytes_written=100, files_written=1)),
        ("late-data", MONDAY, Cost(seconds=9.0, bytes_written=300, files_written=2, attempts=2)),
        ("late-data", TUESDAY, Cost(seconds=1.0, bytes_written=50, files_written=1, attempts=1)),
        ("landing", TUESDAY, None),
    ],
    "gold/daily": [("landing", MONDAY, Cost(seconds=4.5, bytes_written=7, files_written=1))],
}


@pytest.fixture
def empty(tmp_path, monkeypatch, capsys):
    """``empty("--json")``: exit code, output and errors, in a home without tables."""
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("DEDP_HOME", str(tmp_path / "home"))

    def run(*options):
        try:
            code = main(["cost", *options])
        except SystemExit as stopped:
            code = stopped.code
        return code, *capsys.readouterr()

    return run


@pytest.fixture
def dedp(empty, tmp_path):
    """``dedp("--json")``: exit code, output and errors, in a home with the tables of :data:`COSTS`."""
    for name, commits in COSTS.items():
        records = [a_record(name, where, cause=cause, cost=cost) for cause, where, cost in commits]
        written = [{"record": record, "changed": [record.partition]} for record in records]
        location, columns = tmp_path / "home/lakehouse" / name, {"n": "long", "day": "string"}
        write_log(location, columns, ["day"], [*written, {"changed": [MONDAY]}])
    return empty


def rows_of(shown):
    """The cells of each line, as the terminal has them."""
    return [[cell.strip() for cell in line.split("│")[1:-1]] for line in shown.splitlines() if line.startswith("│")]


def test_costs_are_summed_by_table_day_and_cause_the_dearest_first(dedp):
    """A commit of somebody else has no cause and counts for nothing; of one without a cost its files tell."""
    code, out, _ = dedp("--json")
    found = json.loads(out)
    assert code == 0
    assert [(each["table"], each["day"], each["cause"], each["commits"], each["measured"]) for each in found] == [
        ("silver/visits", "2026-01-05", "late-data", 2, 2),
        ("gold/daily", "2026-01-05", "landing", 1, 1),
        ("silver/visits", "2026-01-05", "landing", 2, 1),
    ]
    assert found[0]["cost"] == {"seconds": 10.0, "bytes_written": 350, "files_written": 3, "attempts": 3}
    assert found[2]["cost"] == {
        "seconds": 2.0,
        "cpu_seconds": 1.0,
        "bytes_read": 10,
        "bytes_written": 200,
        "files_written": 2,
        "rows_written": 1,
    }


def test_a_named_table_is_told_by_partition(dedp):
    """The cost of late data on Monday apart from that on Tuesday."""
    found = json.loads(dedp("silver/visits", "--json")[1])
    assert [(each["partition"], each["cause"], each["cost"].get("seconds")) for each in found] == [
        ("day=mon", "late-data", 9.0),
        ("day=mon", "landing", 2.0),
        ("day=tue", "late-data", 1.0),
        ("day=tue", "landing", None),
    ]


def test_the_terminal_has_a_line_for_each_and_one_for_all(dedp):
    """What nobody told is an empty cell, and not 0."""
    code, out, _ = dedp()
    lines = rows_of(out)
    assert code == 0
    assert [line[:5] for line in lines] == [
        ["silver/visits", "2026-01-05", "late-data", "2", "10.00"],
        ["gold/daily", "2026-01-05", "landing", "1", "4.50"],
        ["silver/visits", "2026-01-05", "landing", "2", "2.00"],
        ["all", "", "", "5", "16.50"],
    ]
    assert [line[6] for line in lines] == ["", "", "1.00", "1.00"]


@pytest.mark.parametrize(("since", "found"), [("2026-01-05", 3), ("2026-01-06", 0)])
def test_only_commits_since_a_day_are_counted(dedp, since, found):
    """The day itself counts."""
    assert len(json.loads(dedp("--since", since, "--json")[1])) == found


def test_a_lake_without_commits_says_so(empty, tmp_path):
    """In a sentence, instead of an empty table; commits of somebody else have no record either."""
    assert empty() == (0, "No commit has a record.\n", "")
    foreign = tmp_path / "home/lakehouse/silver/visits"
    write_log(foreign, {"n": "long", "day": "string"}, ["day"], [{"changed": [MONDAY]}])
    assert empty() == (0, "No commit has a record.\n", "")


def test_a_day_after_all_commits_says_that_there_are_none_since(dedp):
    """With the day: earlier commits have records."""
    assert dedp("--since", "2026-01-06") == (0, "No commit since 2026-01-06 has a record.\n", "")


def test_an_unknown_table_is_named_with_those_there_are(dedp):
    """A wrong name is not a table that cost nothing."""
    code, _, err = dedp("gold/dayly")
    assert code == 2
    assert "table must be one of the project, such as gold/daily" in err
    assert err.endswith(", not gold/dayly\n")


def test_a_damaged_log_leaves_the_other_tables(dedp, tmp_path):
    """Its table is refused after the others were told."""
    (tmp_path / "home/lakehouse/gold/daily/_delta_log" / f"{1:020d}.json").write_text("{")
    code, out, err = dedp("--json")
    assert code == 3
    assert {each["table"] for each in json.loads(out)} == {"silver/visits"}
    assert "gold/daily" in err


def test_a_day_that_is_none_is_refused(dedp):
    """By the option's name and the value, with the exit code of a wrong command."""
    code, out, err = dedp("--since", "tuesday")
    assert (code, out) == (2, "")
    assert err.splitlines()[-1] == (
        "dedp cost: argument --since: the day must be a date like 2026-01-05, today, yesterday or 7d (7 days "
        "ago), not tuesday: `dedp cost --help`"
    )


@pytest.mark.parametrize(
    ("text", "back"), [("today", 0), ("yesterday", 1), ("7d", 7), ("3 days ago", 3), ("1 day ago", 1)]
)
def test_a_day_may_be_named_from_today(dedp, text, back):
    """As people say it, in UTC."""
    day = Clock().now().date() - timedelta(days=back)
    assert dedp("--since", text)[:2] == dedp("--since", day.isoformat())[:2]


costs = st.none() | st.builds(
    Cost,
    seconds=st.none() | st.integers(0, 100).map(float),
    cpu_seconds=st.none() | st.integers(0, 100).map(float),
    bytes_read=st.none() | st.integers(0, 10**12),
    bytes_written=st.integers(0, 10**12),
    bytes_spilled=st.none() | st.integers(0, 10**12),
    rows_written=st.integers(0, 10**9),
    files_written=st.none() | st.integers(0, 100),
)
commits = st.builds(
    lambda hours, cause, where, cost, size: Commit(
        version=hours,
        timestamp=FIRST + timedelta(hours=hours),
        operation="WRITE",
        record=a_record("t", where, cause=cause, cost=cost),
        changed=frozenset(),
        files_added=("a", "b"),
        rows_added=2,
        bytes_added=size,
    ),
    st.integers(0, 100),
    st.sampled_from(["landing", "late-data", "manual"]),
    st.sampled_from([MONDAY, TUESDAY]),
    costs,
    st.integers(0, 10**9),
)


@given(st.lists(commits, max_size=12), st.booleans(), st.none() | st.dates(date(2026, 1, 4), date(2026, 1, 9)))
def test_sums_are_those_of_a_plain_model(found, by_partition, since):
    """For any commits: each counts once, in its group, with what its record tells or else its files."""
    expected: dict[tuple[str, date, str], dict[str, float]] = {}
    for commit in found:
        day, record = commit.timestamp.date(), commit.record
        if since and day < since:
            continue
        key = (slice_name(record.partition) if by_partition else "", day, record.cause)
        sums = expected.setdefault(key, {})
        known = dict(record.cost.known) if record.cost else {}
        if "files_written" not in known:
            known |= {"files_written": 2, "rows_written": 2, "bytes_written": commit.bytes_added}
        for name, value in known.items():
            sums[name] = sums.get(name, 0) + value
    summed = spent("t", found, by_partition=by_partition, since=since)
    assert {(each.partition, each.day, each.cause): each.cost.known for each in summed} == expected
    assert sum(each.commits for each in summed) == sum(not since or c.timestamp.date() >= since for c in found)
