"""A name that shows one of many versions: what every reader sees of it, and who can change it.

Which version is shown after what is in tests/delta/versions/test_versions.py, without Spark.
"""

from __future__ import annotations

import hashlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timezone
from threading import Event

import pytest
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from pyspark.errors import PySparkException

from dedp_assets.patterns.core.audits import Audit
from dedp_assets.patterns.core.errors import AuditFailed, ConfigError, TransactionReused
from dedp_assets.patterns.core.measuring.observing import SPARK_ERRORS
from dedp_assets.patterns.core.results import Split
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import Table
from dedp_assets.patterns.delta.versions import exposure, version_of
from dedp_assets.patterns.delta.versions.exposure import exposures
from dedp_assets.patterns.delta.versions.version_tables import names
from dedp_assets.patterns.idempotency.proxy import judge_exposure, load_version, switch_version
from dedp_assets.patterns.ingestion.compactor import vacuum
from tests.contracts.known_calls import known_calls
from tests.helpers import a_run, read_back
from tests.two_runs import two_runs

pytestmark = pytest.mark.spark

CUSTOMERS = TableSpec(
    "gold/customers",
    {"id": Column("INT", required=True), "country": Column("STRING"), "name": Column("STRING")},
    partition_by=("country",),
    checks={"id_is_positive": "id > 0"},
)


@pytest.fixture
def customers(make_table):
    """A name that shows nothing yet."""
    return make_table(CUSTOMERS)


@pytest.fixture
def some(spark):
    """``some("a", 3)``: as many customers of that name, in two countries, one of which engines escape."""

    def rows(name, count=4):
        country = "CASE id % 2 WHEN 0 THEN 'a/b c' END AS country"
        return spark.range(1, count + 1).selectExpr("CAST(id AS INT) AS id", country, f"'{name}' AS name")

    return rows


def seen(table, version=None):
    """Names and number of the rows, through an independent reader."""
    rows = read_back(table, version)
    return len(rows), {row["name"] for row in rows}


def digests(table):
    files = (path for path in table.location.rglob("*") if path.is_file() and not path.name.startswith("."))
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def a_load(table, rows, number, *, run_id=None, **fields):
    run = a_run(run_id=run_id or f"run-{number}", inputs={"delivery": str(number)}, **fields)
    return load_version(rows, table.target(run))


@pytest.fixture
def two(customers, some):
    """The name after two loads."""
    a_load(customers, some("a"), 1)
    a_load(customers, some("b", 6), 2)
    return customers


@pytest.mark.both
def test_each_load_is_a_table_of_its_own_and_every_engine_sees_the_last(spark, customers, some):
    """Three runs, the third one a rerun of the second: three tables as they were, the name shows the third."""
    first = a_load(customers, some("a"), 1)
    kept = digests(version_of(customers, "run-1-1"))
    a_load(customers, some("b", 6), 2)
    kept_too = digests(version_of(customers, "run-2-1"))
    third = a_load(customers, some("c", 5), 2, replay=True)
    assert (first.rows.written, third.rows.written, third.applied, third.changed) == (4, 5, True, True)
    assert list(names(customers)) == ["run-1-1", "run-2-1", "run-2-2"]
    assert [seen(version_of(customers, name)) for name in names(customers)] == [(4, {"a"}), (6, {"b"}), (5, {"c"})]
    assert (digests(version_of(customers, "run-1-1")), digests(version_of(customers, "run-2-1"))) == (kept, kept_too)
    by_name = spark.sql(f"SELECT id, country, name FROM delta.`{customers.location}`").collect()
    assert sorted(map(tuple, by_name)) == sorted(map(tuple, customers.read().select("id", "country", "name").collect()))
    assert seen(customers) == (len(by_name), {row.name for row in by_name}) == (5, {"c"})
    in_one = customers.read({"country": "a/b c"})
    assert (in_one.count(), in_one.filter("country = 'a/b c'").count()) == (2, 2)
    assert judge_exposure(customers).passed
    history = spark.sql(f"DESCRIBE HISTORY delta.`{customers.location}`").collect()
    assert [(row.version, row.operation) for row in history] == [(2, "WRITE"), (1, "WRITE"), (0, "WRITE")]
    assert [seen(customers, version) for version in range(3)] == [(4, {"a"}), (6, {"b"}), (5, {"c"})]


STATEMENTS = {
    "overwrite": "INSERT OVERWRITE {t} VALUES (9, 'x', 'x')",
    "delete all": "DELETE FROM {t}",
    "merge": "MERGE INTO {t} t USING (SELECT 1 AS id) s ON t.id = s.id WHEN MATCHED THEN DELETE",
    "optimize": "OPTIMIZE {t}",
    "restore": "RESTORE TABLE {t} TO VERSION AS OF 0",
    "feature": "ALTER TABLE {t} DROP FEATURE `dedp.closed`",
    "insert": "INSERT INTO {t} VALUES (9, 'x', 'x')",
    "update": "UPDATE {t} SET name = 'x'",
    "vacuum": "VACUUM {t}",
    "constraint": "ALTER TABLE {t} DROP CONSTRAINT id_is_positive",
    "replace": "CREATE OR REPLACE TABLE {t} (id INT) USING DELTA",
}


@pytest.mark.promise("no-statement-changes-a-version")
def test_no_statement_changes_a_version_or_the_name(spark, two, some):
    """Spark and delta-rs refuse each of them, the library says why; dropping the name of a path removes no file."""
    for table, statements in ((two, list(STATEMENTS)[:3]), (version_of(two, "run-1-1"), STATEMENTS)):
        before, files, place = (table.ledger.version(), seen(table)), digests(table), f"delta.`{table.location}`"
        for what in statements:
            try:
                spark.sql(STATEMENTS[what].format(t=place)).collect()
            except SPARK_ERRORS:
                continue
            assert what == "optimize", f"{what} was done"  # where no files would merge, it says so and does nothing
        with pytest.raises(Exception, match=r"DELTA_UNSUPPORTED_FEATURES_FOR_WRITE|dedp.closed"):
            some("x").write.format("delta").mode("overwrite").option("overwriteSchema", "true").save(
                str(table.location)
            )
        with pytest.raises(DeltaError, match=r"dedp\.closed"):
            DeltaTable(str(table.location)).delete()
        with pytest.raises(ConfigError, match="is closed"):
            table.overwrite(some("x"), provenance=a_run())
        spark.sql(f"DROP TABLE IF EXISTS {place}")
        assert (table.ledger.version(), seen(table)) == before
        assert files.items() <= digests(table).items()


def test_a_load_that_fails_is_not_shown(two, some):
    """Refused by an audit, a constraint, too few rows, or broken on the way: the name stays where it is."""
    unnamed = Audit.none_where("every_customer_has_a_name", "name = 'x'")
    with pytest.raises(AuditFailed, match="every_customer_has_a_name") as refused:
        load_version(some("x"), two.target(a_run(inputs={"delivery": "3"}), audits=[unnamed]))
    assert "/.table-versions/run-1-2/" in refused.value.stage
    with pytest.raises(AuditFailed, match="id_is_positive"):
        a_load(two, some("x").selectExpr("-id AS id", "country", "name"), 3)
    with pytest.raises(AuditFailed, match="input_is_not_empty"):
        a_load(two, some("x", 0), 3)
    with pytest.raises(PySparkException, match="broken"):
        a_load(two, some("x").selectExpr("id", "country", "string(raise_error('broken')) AS name"), 3)
    assert (seen(two), next(exposures(two)).version) == ((6, {"b"}), "run-2-1")
    assert judge_exposure(two).passed


def test_a_load_that_is_killed_before_its_switch_is_shown_by_its_retry_and_not_loaded_again(two, some, monkeypatch):
    """The rows of the retry would break if anybody computed them."""

    def die(*_, **__):
        raise SystemExit("killed")

    with monkeypatch.context() as patched:
        patched.setattr(exposure, "expose", die)
        with pytest.raises(SystemExit):
            a_load(two, some("c"), 3)
    assert seen(two) == (6, {"b"})
    broken = some("c").selectExpr("id", "country", "string(raise_error('computed again')) AS name")
    assert a_load(two, broken, 3, run_id="retry").changed
    assert (seen(two), next(exposures(two)).version) == ((4, {"c"}), "run-3-1")
    again = a_load(two, broken, 3, run_id="run-3")
    assert (again.applied, again.reason) == (False, "shows run-3-1 already, since version 2: nothing to do")


def test_a_rerun_is_a_version_of_its_own_and_other_rows_of_the_same_inputs_are_refused(two, some):
    """The same rows are no change for readers of changes; other ones need a replay, and their version stands."""
    same = a_load(two, some("b", 6), 2, run_id="run-3")
    assert (same.applied, same.changed, next(exposures(two)).version) == (True, False, "run-3-1")
    assert two.ledger.changes(since=1)[1] == {}
    with pytest.raises(TransactionReused):
        a_load(two, some("other"), 2, run_id="run-4")
    assert (seen(two), seen(version_of(two, "run-4-1"))) == ((6, {"b"}), (4, {"other"}))


@pytest.mark.promise("spark-readers-see-whole-versions")
def test_spark_readers_see_whole_versions_while_the_name_is_switched(spark, two):
    """In a loop, by path, through Delta's own reader and its cached log: always one version, never an error."""
    done, found = Event(), []

    def look():
        while not done.is_set():
            rows = spark.read.format("delta").load(str(two.location)).collect()
            found.append((len(rows), frozenset(row["name"] for row in rows)))

    with ThreadPoolExecutor(1) as pool:
        looking = pool.submit(look)
        number = 0
        while (len(found) < 6 or len(set(found)) < 2) and not done.wait(0.05) and not looking.done():
            switch_version(two.target(a_run()), version=f"run-{number % 2 + 1}-1", because="to and fro")
            number += 1
        done.set()
        looking.result()
    assert set(found) == {(4, frozenset("a")), (6, frozenset("b"))}


def test_of_a_split_the_valid_part_is_shown_and_accounted_for(customers, some):
    """What was diverted on the way in is no row of the version."""
    rows = some("a").selectExpr("*", "if(id = 1, 'dead', 'valid') AS __dedp_outcome")
    split = Split(rows, {"valid": ("id", "country", "name"), "dead": ("id",)}, identity=("id",))
    result = a_load(customers, split, 1)
    assert (result.rows.read, result.rows.written, result.rows.dead) == (4, 3, 1)
    assert customers.ledger.latest({}).record.rows["dead"] == 1
    assert seen(customers) == (3, {"a"})


def test_a_table_that_only_spark_can_write_keeps_no_versions(make_table, some):
    """Its files cannot be shown by another table: said before a row is computed."""
    mapped = make_table(replace(CUSTOMERS, properties={"delta.columnMapping.mode": "name"}))
    with pytest.raises(ConfigError, match="features that only Spark writes"):
        a_load(mapped, some("a").selectExpr("id", "country", "string(raise_error('computed')) AS name"), 1)
    assert not mapped.ledger.exists()


def test_native_versions_are_readable_as_long_as_the_law_says(make_table, some):
    """The variant without tables of their own: a vacuum below the declared retention is refused."""
    kept = {"delta.deletedFileRetentionDuration": "interval 3650 days"}
    table: Table = make_table(replace(CUSTOMERS, properties=kept))
    versions = [table.overwrite(some(name), provenance=a_run(inputs={"n": name})).version for name in "abc"]
    now = datetime(2030, 1, 1, tzinfo=timezone.utc)
    with pytest.raises(ConfigError, match="a retention of 720 h is below the 87600 h that are safe"):
        vacuum(table.target(a_run()), retention_hours=720, now=now)
    with pytest.raises(DeltaError, match=r"(?i)retention"):
        DeltaTable(str(table.location)).vacuum(720, dry_run=False)
    assert [seen(table, version) for version in versions] == [(4, {name}) for name in "abc"]


@known_calls
def calls_that_work(known):
    shown, rows = known.at(TableSpec("gold/shown", {"id": Column("INT")})), known.frame("id INT", (1,))
    load_version(rows, shown.target(a_run(sequence=1)))
    return {
        "load_version": {"rows": rows, "into": shown.target(known.run), "min_rows": 1},
        "judge_exposure": {"target": shown},
        "switch_version": {"into": shown.target(known.run), "version": "run-1-1", "because": "it was right"},
    }


@two_runs(under_one_lock=True)
@two_runs(under_one_lock=True, second="switch")
def versions_of_at_once(world, *, second="load"):
    """Versions behind a name: a load or a person's choice shows another one."""
    columns = "page STRING, views INT"
    world.table("ranking", columns)

    def load(w, name, views):
        load_version(w.frame(columns, ("/a", views)), w.into("ranking", name))

    load(world, "base", 1)
    load(world, "more", 2)
    yield lambda w: load(w, "1", 3)
    if second == "load":
        yield lambda w: load(w, "2", 4)
    else:
        yield lambda w: switch_version(w.into("ranking", "2"), version="base-1", because="the newer is wrong")
