"""Expectations of a table in YAML: the records of Python, and each mistake one fault at its line."""

from __future__ import annotations

import json
import re
from dataclasses import fields, replace
from datetime import date
from typing import Any

import pytest

from dedp_assets.cli import main
from dedp_assets.components.checking import completed, drafts_of
from dedp_assets.graph.declare import Baseline, Due, Expects, LakeTable, QuietHours
from dedp_assets.graph.resources.environments import CHECKOUT
from tests.components.declarations import GOOD as TABLE
from tests.components.declarations import SPECS, faults_in
from tests.components.landed.test_declaring_landings import GOOD as LANDING

EXPECTS = """\
    expects:
      every_minutes: 15
      quiet:
        - {zone: Europe/Berlin, start: "22:00", end: "06:00", weekdays: [monday, friday]}
        - {zone: UTC, dates: [2026-06-04, 2026-06-15]}
      volume:
        last: 8
        season: weekday
        minimum_history: 3
        tolerance: 0.4
        tolerance_above: 1.5
        limit: 5.0
        planned: {2026-11-27: 3, 2026-12-24: 0.5}
        excluded: [2026-01-01]
      variation: 0.5
      lag_minutes: 180
      lag_rows: 1000
      due:
        at: "06:40"
        zone: Europe/Vienna
        days_after: 1
        weekdays: [monday, tuesday]
        holidays: [2026-12-25]
        if_closed: none
        within_minutes: 40
        warn_at: 0.8
"""
AFTER = "    fresh_hours: 26.5\n"
GOOD = TABLE.replace(AFTER, AFTER + EXPECTS)
MEANT = Expects(
    every_minutes=15,
    quiet=(
        QuietHours(zone="Europe/Berlin", start="22:00", end="06:00", weekdays=("monday", "friday")),
        QuietHours(zone="UTC", dates=(date(2026, 6, 4), date(2026, 6, 15))),
    ),
    volume=Baseline(
        last=8,
        season="weekday",
        minimum_history=3,
        tolerance=0.4,
        tolerance_above=1.5,
        limit=5.0,
        planned={"2026-11-27": 3, "2026-12-24": 0.5},
        excluded=("2026-01-01",),
    ),
    variation=0.5,
    lag_minutes=180,
    lag_rows=1000,
    due=Due(
        "06:40",
        zone="Europe/Vienna",
        days_after=1,
        weekdays=("monday", "tuesday"),
        holidays=(date(2026, 12, 25),),
        if_closed="none",
        within_minutes=40,
        warn_at=0.8,
    ),
)
"""The same in Python."""


def tables_in(text: str) -> dict[str, LakeTable]:
    """Declare the tables of a text, by name."""
    (draft,), faults = drafts_of(text, "defs.yaml")
    made, _, more = completed(draft, SPECS)
    assert (faults, more) == ([], [])
    return {each.spec.name: each for each in (made if isinstance(made, (list, tuple)) else [made])}


def one_fault(right: str, wrong: str, text: str = GOOD) -> tuple[int, str, str]:
    """Line, path and message of the only fault after a change; lines count from that of the change."""
    assert text.count(right) == 1
    (fault,) = faults_in(text.replace(right, wrong))
    return fault.line - text[: text.index(right)].count("\n") - 1, fault.path, fault.message


def test_every_option_in_yaml_is_that_of_python():
    """None of the records has an option that the file leaves out."""
    assert tables_in(GOOD)["gold/page_counts"].about.expects == MEANT
    for record in (Expects, Baseline, Due, QuietHours):
        for option in {each.name for each in fields(record)} - {"gap_minutes", "partition_gap_minutes"}:
            assert re.search(rf"\b{option}:", EXPECTS), option


def test_irregular_delivery_in_yaml():
    """The other rule of delivery."""
    text = TABLE.replace(AFTER, f"{AFTER}    expects: {{gap_minutes: 90.5, partition_gap_minutes: 30}}\n")
    assert tables_in(text)["gold/page_counts"].about.expects == Expects(gap_minutes=90.5, partition_gap_minutes=30)


def test_nothing_is_expected_unless_stated():
    """Of a table without the option."""
    assert tables_in(TABLE)["gold/page_counts"].about.expects.is_empty


FAULTS: list[tuple[str, str, int, str, str]] = [
    ("    expects:\n", "    expect:\n", 0, "expect", "unknown option expect: did you mean expects?"),
    ("every_minutes", "every_minute", 0, "expects.every_minute", "unknown option every_minute: did you mean every_m"),
    ("season", "seson", 0, "expects.volume.seson", "unknown option seson: did you mean season?"),
    ("if_closed", "if_close", 0, "expects.due.if_close", "unknown option if_close: did you mean if_closed?"),
    ("{zone: UTC", "{zon: UTC", 0, "expects.quiet.1.zon", "unknown option zon: did you mean zone?"),
    ("zone: UTC, ", "", 0, "expects.quiet.1.zone", "zone is missing"),
    ("zone: UTC", "zone: Mars", 0, "expects.quiet.1.zone", "zone must be the name of a time zone, not 'Mars'"),
    ("Europe/Vienna", "Vienna", 0, "expects.due.zone", "zone must be a time zone like Europe/Berlin, not 'Vienna'"),
    ("every_minutes: 15", "every_minutes: 0", 0, "expects.every_minutes", "every_minutes must be above 0, not 0"),
    ("every_minutes: 15", "every_minutes: soon", 0, "expects.every_minutes", "every_minutes must be a number, not 'so"),
    ("every_minutes: 15", "every_minutes: 15\n      gap_minutes: 90", 0, "expects.every_minutes",
     "every_minutes or gap_minutes must be stated, not both"),
    ("      every_minutes: 15\n", "", 1, "expects.quiet", "quiet must come with every_minutes, gap_minutes or part"),
    ('"22:00"', "22:00", 0, "expects.quiet.0.start", "YAML reads 22:00 as 1320: write '22:00' in quotes"),
    ('"22:00"', '"25:00"', 0, "expects.quiet.0.start", "start and end must be times of a day such as 22:00, not '25"),
    (', end: "06:00"', "", 0, "expects.quiet.0.start", "start and end must be two times of a day, not '22:00' and ''"),
    ("[monday, friday]", "[mon]", 0, "expects.quiet.0.weekdays", "weekdays must be of monday, tuesday, wednesday"),
    ("2026-06-15", "2026-06-31", 0, "expects.quiet.1.dates.1", "dates must be a date, like 2026-01-05, not '2026-06"),
    ("dates: [2026-06-04, 2026-06-15]", "dates: 2026-06-04", 0, "expects.quiet.1.dates", "dates must be a list, not"),
    ("season: weekday", "season: week", 0, "expects.volume.season", "not 'week': did you mean weekday?"),
    ("last: 8", "last: 5", 0, "expects.volume.last", "last must be 6 or more with season=weekday, not 5"),
    ("minimum_history: 3", "minimum_history: 9", 0, "expects.volume.minimum_history", "must be at most last=8, not 9"),
    ("2026-11-27: 3", "2026-11-27: -3", 0, "expects.volume.planned", "planned must be factors above 0, not 2026-11-"),
    ("variation: 0.5", "variation: -1", 0, "expects.variation", "variation must be above 0, not -1"),
    ("lag_rows: 1000", "lag_rows: 10.5", 0, "expects.lag_rows", "lag_rows must be a whole number, not 10.5"),
    ('at: "06:40"', "at: 16:40", 0, "expects.due.at", "YAML reads 16:40 as 1000: write '16:40' in quotes"),
    ('at: "06:40"', "at: 640", 0, "expects.due.at", "at must be a text, not 640: write it in quotes"),
    ('at: "06:40"', 'at: "6:40"', 0, "expects.due.at", "at must be a time of day like 06:40, not '6:40'"),
    ("[monday, tuesday]", "[monday, tue]", 0, "expects.due.weekdays.1", "weekdays must be 'monday', 'tuesday', "),
    ("if_closed: none", "if_closed: never", 0, "expects.due.if_closed", "if_closed must be 'next' or 'none', not 'ne"),
    ("warn_at: 0.8", "warn_at: 80", 0, "expects.due.warn_at", "warn_at must be above 0 and below 1, not 80"),
]  # fmt: skip


@pytest.mark.parametrize(("right", "wrong", "line", "path", "said"), FAULTS, ids=[each[1].strip() for each in FAULTS])
def test_a_mistake_is_one_fault_at_its_line(right, wrong, line, path, said):
    """With what is right."""
    found = one_fault(right, wrong)
    assert found[:2] == (line, f"attributes.about.{path}")
    assert said in found[2]


def test_a_time_before_ten_needs_no_quotes():
    """YAML 1.1 reads 16:40 as a number, and 06:40 as a text."""
    assert tables_in(GOOD.replace('"06:40"', "06:40"))["gold/page_counts"].about.expects == MEANT


def test_the_examples_of_the_page_say_the_same():
    """In YAML and in Python."""
    page = (CHECKOUT / "docs" / "observability.md").read_text()
    (stated,) = re.findall(r"```yaml\nabout:\n  owner: team:sales\n(.*?)```", page, re.DOTALL)
    (python,) = re.findall(r"expects=(Expects\(.*?\n        \)),\n", page, re.DOTALL)
    found = tables_in(TABLE.replace(AFTER, AFTER + "".join(f"  {line}\n" for line in stated.splitlines())))
    known = {"Expects": Expects, "Baseline": Baseline, "Due": Due, "QuietHours": QuietHours}
    meant: Expects = eval(python, known)  # noqa: S307 - a text of this repository
    as_tuples = [replace(each, weekdays=tuple(each.weekdays)) for each in meant.quiet]
    assert found["gold/page_counts"].about.expects == replace(meant, quiet=tuple(as_tuples))


NIGHTLY = "      - nightly: {cron: 0 2 * * *, lookback: 14, description: By night., follows_late: true}\n"
WITHOUT_DAYS = TABLE.replace("    partitions: {daily: {start: 2026-01-05}}\n", "").replace(NIGHTLY, "")


@pytest.mark.parametrize(
    ("stated", "said"),
    [
        ('due: {at: "06:40"}', "expects.due must come with partitions of days or another time, not none"),
        ("volume: {last: 3}", "expects.volume must come with partitions of days or another time, not none"),
    ],
)
def test_an_expectation_of_partitions_needs_partitions(stated, said):
    """Which only the declaration as a whole knows; the fault is at the expectation."""
    text = WITHOUT_DAYS.replace(AFTER, f"{AFTER}    expects:\n      {stated}\n")
    (fault,) = faults_in(text)
    assert fault.message == f"gold/page_counts: {said}"
    assert fault.path == f"attributes.about.expects.{stated.partition(':')[0]}"
    assert stated in text.splitlines()[fault.line - 1]


def test_the_valid_records_of_a_landing_and_its_bronze_table_have_expectations_of_their_own():
    """One record each."""
    text = LANDING.replace(AFTER, f"{AFTER}    expects: {{lag_minutes: 60}}\n")
    text = text.replace("  comment: One", "  bronze_expects: {gap_minutes: 90}\n  comment: One")
    found = {name: table.about.expects for name, table in tables_in(text).items()}
    assert found == {"bronze/trips_landed": Expects(gap_minutes=90), "silver/trips": Expects(lag_minutes=60)}


def test_a_lag_of_a_landing_is_one_fault():
    """Its bronze table reads no table that it could lag behind."""
    text = LANDING.replace("  comment: One", "  bronze_expects: {lag_rows: 90}\n  comment: One")
    line, path, said = one_fault("bronze_expects: {lag_rows: 90}", "bronze_expects: {lag_rows: 9}", text)
    assert (line, path) == (0, "attributes.bronze_expects.lag_rows")
    assert "expects.lag_rows must come with the tables that it looks at (Reads.tables), not alone" in said


def test_the_schema_shows_the_expectations(capsys):
    """With every option of the records, and their descriptions."""
    assert main(["schema"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)["$defs"]
    for record in (Expects, Baseline, Due, QuietHours):
        stated = found[record.__name__]
        assert set(stated["properties"]) == {each.name for each in fields(record)}
        assert all(each["description"] for each in stated["properties"].values())
        assert stated["additionalProperties"] is False
    assert "expects" in found["About"]["properties"]
