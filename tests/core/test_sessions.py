"""Settings of one statement: nobody else sees them, and the caller's session stays as it was."""

from __future__ import annotations

import atexit
from concurrent.futures import ThreadPoolExecutor

import pytest
from deltalake import DeltaTable

from dedp_assets.patterns.core.sessions import private

pytestmark = pytest.mark.spark
NOTE = "spark.databricks.delta.commitInfo.userMetadata"


@pytest.mark.both
def test_settings_are_the_statements_own(spark, created_events):
    """A private session sees the caller's settings and views, the caller sees none of its, and ends with the block."""
    location = created_events.location
    before = spark.conf.getAll
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    spark.range(3).createOrReplaceTempView("three_of_the_caller")
    try:
        with private(spark, {NOTE: "ours"}) as own:
            assert own.conf.get("spark.sql.session.timeZone") == "Europe/Berlin"
            assert own.sql("SELECT count(*) AS n FROM three_of_the_caller").collect()[0]["n"] == 3
            assert spark.conf.get(NOTE, None) is None
            own.sql(f"ALTER TABLE delta.`{location}` SET TBLPROPERTIES ('theirs' = 'x')").collect()
            own.range(1).createOrReplaceTempView("one_of_ours")
    finally:
        spark.conf.set("spark.sql.session.timeZone", before["spark.sql.session.timeZone"])
    assert DeltaTable(location).history(1)[0]["userMetadata"] == "ours"
    assert spark.conf.getAll == before
    assert not spark.catalog.tableExists("one_of_ours")
    assert spark.sql("SELECT 1 AS x").collect()[0]["x"] == 1, "the caller's session lives on"


@pytest.mark.both
def test_a_failed_statement_ends_its_session(spark, monkeypatch):
    """The error of a statement comes through, and nothing of its session is kept for the end of the process."""
    kept = []
    monkeypatch.setattr(atexit, "unregister", kept.append)
    with pytest.raises(Exception, match="no_such_table"), private(spark, {}) as own:
        own.sql("SELECT * FROM no_such_table").collect()
    if hasattr(spark, "cloneSession"):
        assert own.is_stopped
        assert not spark.is_stopped
        assert len(kept) == 1
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"


@pytest.mark.both
def test_threads_do_not_share_a_private_session(spark):
    """Six statements at once, each with the setting that it was given."""

    def told(number: int) -> str:
        with private(spark, {NOTE: str(number)}) as own:
            own.range(10).count()
            return own.conf.get(NOTE)

    with ThreadPoolExecutor(6) as threads:
        assert list(threads.map(told, range(6))) == [str(n) for n in range(6)]
    assert spark.conf.get(NOTE, None) is None
