"""Dead letters of all tables in one place, told from logs that are written by hand: no Spark."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from pathlib import Path

import dagster as dg
import pytest

from dedp_assets.case_study.defs.platform.dead_letters import KEY, dead_letters
from dedp_assets.commands.letters import letters
from dedp_assets.graph.checks.letters import LetterCount, count_letters
from dedp_assets.graph.outcomes.refusals import Refusal, Refusals
from dedp_assets.graph.reconcile.table_errors import TableErrors
from dedp_assets.graph.resources.clock import Clock
from dedp_assets.graph.resources.environments import settings
from dedp_assets.graph.resources.lake import Lake
from dedp_assets.graph.resources.spark import SparkEngine
from dedp_assets.patterns.core.results import LetterReason
from dedp_assets.patterns.error_management.dead_letter import LETTER
from tests.helpers import a_record, write_log

COLUMNS = {**{name: column.type.lower() for name, column in LETTER.items()}, "filed_under": "date"}
MONDAY, TUESDAY = "2026-01-05", "2026-01-06"
REFUSED = datetime(2026, 1, 7, 9, tzinfo=timezone.utc)


def wrote(day, classes, *, replayed=0, given_up=0, at=REFUSED, rows=None):
    """One commit of letters: how many of each class are open, and how many are not."""
    figures = {"open": sum(classes.values()), "replayed": replayed, "given_up": given_up}
    told = {**figures, "classes": json.dumps(classes), "oldest": at.timestamp() if classes else None}
    held = sum(figures.values()) if rows is None else rows
    return {"changed": [{"filed_under": day}] * held, "record": a_record("x", {"filed_under": day}, figures=told)}


@pytest.fixture
def lake(tmp_path, monkeypatch):
    """Two tables of letters with three partitions, and a table that is none."""
    monkeypatch.setenv("DEDP_HOME", str(tmp_path))
    root = Path(settings().lake)
    commits = [
        wrote(MONDAY, {"blank line": 1, "wrong type": 2}, replayed=3, at=datetime(2026, 1, 6, tzinfo=timezone.utc)),
        wrote(TUESDAY, {"wrong type": 4}, given_up=1),
    ]
    write_log(root / "silver/visits_dead_letter", COLUMNS, ["filed_under"], commits)
    write_log(root / "silver/orders_dead_letter", COLUMNS, ["filed_under"], [wrote(MONDAY, {}, replayed=2)])
    write_log(root / "silver/visits", {"id": "long"}, [], [])
    return Lake(root=str(root), engine=SparkEngine())


def test_letters_are_counted_by_table_status_and_class(lake):
    """Over all partitions, with the oldest open one; tables without letters are not named."""
    oldest = datetime(2026, 1, 6, tzinfo=timezone.utc)
    assert list(count_letters(lake, TableErrors())) == [
        LetterCount("silver/orders_dead_letter", "replayed", "", 2, 1),
        LetterCount("silver/visits_dead_letter", "given_up", "", 1, 1),
        LetterCount("silver/visits_dead_letter", "open", "blank line", 1, 1, oldest),
        LetterCount("silver/visits_dead_letter", "open", "wrong type", 6, 2, oldest),
        LetterCount("silver/visits_dead_letter", "replayed", "", 3, 1),
    ]


def test_a_damaged_log_is_named_and_the_other_letters_are_counted(lake):
    """Whichever table it is, with letters or without."""
    log = Path(settings().lake) / "silver/orders_dead_letter/_delta_log"
    (log / "00000000000000000000.json").write_text("{")
    errors = TableErrors()
    assert {each.table for each in count_letters(lake, errors)} == {"silver/visits_dead_letter"}
    assert list(errors) == ["silver/orders_dead_letter"]


def test_what_the_log_does_not_tell_is_counted_as_unknown(lake):
    """A commit that counts other letters than there are, as one that a restore took back, is not believed."""
    root = Path(settings().lake) / "bronze/hits_dead_letter"
    write_log(root, COLUMNS, ["filed_under"], [wrote(MONDAY, {"blank line": 2}, rows=5), wrote(TUESDAY, {}, rows=1)])
    told = [each for each in count_letters(lake, TableErrors()) if each.table == "bronze/hits_dead_letter"]
    assert told == [LetterCount("bronze/hits_dead_letter", "unknown", "", 6, 2)]


@pytest.mark.parametrize(("now", "passed"), [("2026-01-12T00:00:00+00:00", True), ("2026-01-14T00:00:00+00:00", False)])
def test_the_platform_shows_them_and_warns_of_what_waits_for_long(lake, now, passed):
    """Totals plot under names with units; a letter that is open for more than a week is a warning with its table."""
    with dg.DagsterInstance.ephemeral() as instance:
        resources = {"lake": lake, "clock": Clock(fixed=now)}
        ended = dg.materialize([dead_letters], instance=instance, resources=resources)
        (check,) = ended.get_asset_check_evaluations()
        assert (check.passed, check.severity) == (passed, dg.AssetCheckSeverity.WARN)
        assert list(check.metadata) == ([] if passed else ["silver/visits_dead_letter"])
        (shown,) = ended.asset_materializations_for_node("platform_dead_letters")
        told = {name: value.value for name, value in shown.metadata.items()}
        assert shown.asset_key == dg.AssetKey(KEY)
        assert {n: told[n] for n in told if n.endswith("[letters]")} == {
            "open [letters]": 7,
            "replayed [letters]": 5,
            "given up [letters]": 1,
            "open in silver/visits_dead_letter [letters]": 7,
        }
        assert [record.data["letters"] for record in shown.metadata["letters"].records] == [2, 1, 1, 6, 3]


def test_the_command_lists_them(lake, capsys):
    """By table, status and class, with since when the oldest waits."""
    assert letters(settings()) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if "wrong type" in line]
    assert [cell.strip() for cell in lines[0].split("│")[1:-1]] == [
        "silver/visits_dead_letter",
        "open",
        "wrong type",
        "6",
        "2",
        "2026-01-06 00:00",
    ]


def test_the_command_lists_the_letters_of_refused_partitions(lake, capsys):
    """Their reasons with counts, a masked record of each, and where the rows are; notes without letters are not."""
    why = (
        LetterReason("at is not a TIMESTAMP", 3, "such as {at: '1/2'}"),
        LetterReason("id is missing", 1, "such as {}"),
    )
    refusals = Refusals(lake.refused("silver/visits"))
    refusals.note(TUESDAY, Refusal(("8",), "1", "run-1", "too many", why, "staged-1"))
    refusals.note(MONDAY, Refusal(("8",), "1", "run-1", "too few rows"))
    assert letters(settings()) == 0
    shown = capsys.readouterr().out.partition("Dead letters of refused partitions")[2]
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in shown.splitlines() if "│" in line]
    assert rows == [
        ["silver/visits", TUESDAY, "3", "at is not a TIMESTAMP", "such as {at: '1/2'}"],
        ["", "", "1", "id is missing", "such as {}"],
        ["", "", "", "", "all of them as Parquet: staged-1"],
    ]


def test_a_lake_without_letters_says_so(tmp_path, monkeypatch, capsys):
    """A new home has no table."""
    monkeypatch.setenv("DEDP_HOME", str(tmp_path))
    assert letters(settings()) == 0
    assert "There are no dead letters." in capsys.readouterr().out
