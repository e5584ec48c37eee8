"""Delta's own statements: what becomes of one that another writer overtakes."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from dedp_assets.patterns.core.measuring.observing import SPARK_ERRORS
from dedp_assets.patterns.core.running.backoff import Backoff
from dedp_assets.patterns.delta.commit import spark_writer
from dedp_assets.patterns.delta.rows import spark_dml
from tests.helpers import EVENTS, a_run

FEED = replace(EVENTS, properties={"delta.enableChangeDataFeed": "true"}, checks={})


@pytest.fixture
def table(make_table, event_rows):
    """Three rows in one file of a table whose changes are Delta's statements."""
    made = make_table(FEED)
    made.append(event_rows(3).coalesce(1), provenance=a_run(sequence=1))
    return made


@pytest.fixture
def tried(monkeypatch, tmp_path):
    """One entry for each attempt to run a statement, and one file for Spark's processes to see."""
    real, seen = spark_dml.private, []

    def private(session, settings):
        seen.append(settings)
        (tmp_path / f"attempt-{len(seen)}").touch()
        return real(session, settings)

    monkeypatch.setattr(spark_dml, "private", private)
    return seen


@pytest.fixture
def overtaken(table, spark, tmp_path):
    """``overtaken(action, times=1)``: in so many attempts, somebody replaces the file that the statement is reading."""
    folder = str(tmp_path)

    def interfere(times):
        for number in range(1, times + 1):
            ends = time.monotonic() + 60
            while not (tmp_path / f"reached-{number}").exists():
                assert time.monotonic() < ends, f"no statement was run {number} times"
                time.sleep(0.01)
            spark.sql(f"UPDATE delta.`{table.location}` SET amount = {100 * number} WHERE id = 2").collect()
            (tmp_path / f"committed-{number}").touch()

    def run(action, times=1):
        def hold(_):
            # In Spark's own process: whoever comes here reads the table, and goes on when the other writer committed.
            number = len(list(Path(folder).glob("attempt-*")))
            Path(folder, f"reached-{number}").touch()
            ends = time.monotonic() + 60
            while number <= times and not Path(folder, f"committed-{number}").exists() and time.monotonic() < ends:
                time.sleep(0.01)
            return True

        spark.udf.register("hold", hold, "boolean")
        with ThreadPoolExecutor(1) as pool:
            interfering = pool.submit(interfere, times)
            try:
                return action()
            finally:
                interfering.result()

    return run


def rows(table):
    """Id and amount of each row, as Spark reads them."""
    found = table.session.read.format("delta").load(str(table.location)).collect()
    return sorted((row["id"], row["amount"]) for row in found)


def delete(table):
    """A statement that waits while it reads."""
    return table.delete("id = 1 AND hold(id)", provenance=a_run(sequence=2))


def test_a_statement_that_another_writer_overtakes_is_run_again(table, overtaken, tried):
    """What it read was replaced before its commit: on what is there now it deletes its row, and only its row."""
    result = overtaken(lambda: delete(table))
    assert (result.applied, result.figures["deleted"], len(tried)) == (True, 1, 2)
    assert rows(table) == [(0, 0.0), (2, 100.0)]
    assert [commit.record.sequence for commit in table.ledger.commits() if commit.record] == [1, 2]
    assert not list(table.location.glob(".staged-*"))


def test_a_statement_that_is_overtaken_each_time_gives_up(table, overtaken, tried, monkeypatch):
    """With the conflict itself, and nothing of it is there."""
    monkeypatch.setattr(spark_dml, "AGAIN", Backoff(attempts=2, first_seconds=0))
    with pytest.raises(SPARK_ERRORS) as lost:
        overtaken(lambda: delete(table), times=2)
    assert spark_writer.is_conflict(lost.value)
    assert len(tried) == 2
    assert rows(table) == [(0, 0.0), (1, 1.5), (2, 200.0)]
    assert not list(table.location.glob(".staged-*"))


def test_a_statement_that_fails_by_itself_is_not_run_again(table, tried):
    """An error that no other writer made would come back each time."""
    with pytest.raises(SPARK_ERRORS, match="unreadable"):
        table.delete("id = 1 AND raise_error('unreadable') IS NULL", provenance=a_run(sequence=2))
    assert len(tried) == 1
    assert rows(table) == [(0, 0.0), (1, 1.5), (2, 3.0)]
