"""The cost in the commit record: every kind of write, embedded and over Spark Connect."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from dedp_assets.patterns.core.audits import Audit
from dedp_assets.patterns.core.errors import AuditFailed, Conflict
from dedp_assets.patterns.core.measuring.costs import Cost
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import Insert, Merge, Table, Update
from dedp_assets.patterns.delta.commit import file_exchange
from dedp_assets.patterns.idempotency.transactional_writer import TableRows, publish_group
from dedp_assets.patterns.quality.audit_write_audit_publish import audit_write_audit_publish
from tests.helpers import a_run

pytestmark = [
    pytest.mark.spark,
    pytest.mark.both,
    pytest.mark.budget(40, "each kind of write once, and one by Delta's own statement"),
]

DAYS = TableSpec("gold/days", {"n": Column("BIGINT"), "day": Column("STRING")}, partition_by=("day",))
MONDAY = {"day": "mon"}
FEW = Audit(name="few", of="written", fail_above=9)
EVERY = {"seconds", "waiting_seconds", "staging_seconds", "committing_seconds", "attempts"}
WRITTEN = {"rows_written", "files_written", "bytes_written"}
ENGINE = {"cpu_seconds", "bytes_spilled"}
SIZES = ["path", "size_bytes", "num_records"]
INPUTS = Cost(rows_read=700, files_read=3, bytes_read=4_000)


@pytest.fixture
def days(make_table):
    return make_table(DAYS)


def rows(spark, *numbers, day="mon"):
    return spark.createDataFrame([(n, day) for n in numbers], "n BIGINT, day STRING")


def run(number=1, **fields):
    return a_run("gold/days", run_id=f"run-{number}", read=INPUTS, **fields)


def cost_of(table, version=None):
    """The cost in the newest commit, or in that of a version."""
    return table.ledger.commit(table.ledger.version() if version is None else version).record.cost


def overwrite(days, spark):
    days.overwrite(rows(spark, 1, 2), partition=MONDAY, provenance=run())


def merge(days, spark):
    days.merge(rows(spark, 2, 3), Merge(["n"], [Update(), Insert()]), provenance=run(2))


def delete(days, spark):
    days.delete("n = 1", provenance=run(3))


def recompute(days, spark):
    days.recompute(
        rows(spark, 2), keys=["n"], identity=["n"], provenance=run(4), compute=lambda _, new: new.selectExpr("*")
    )


def append(days, spark):
    days.append(rows(spark, 1, 2), provenance=run(5, sequence=1))


def audited(days, spark):
    audit_write_audit_publish(rows(spark, 3, 4), days.target(run(6), partition=MONDAY, audits=[FEW]))


def group(days, spark):
    publish_group([TableRows(rows(spark, 5, 6), days.target(run(7), partition=MONDAY))])


def large(days, spark):
    found = spark.range(300_000).selectExpr("id AS n", "'mon' AS day")
    days.overwrite(found, partition=MONDAY, provenance=run(8))


WRITES = [overwrite, merge, delete, recompute, append, audited, group, large]


@pytest.fixture(scope="module")
def written(spark, tmp_path_factory):
    """A table after each kind of write, and the version that each made."""
    days, versions = Table(DAYS, tmp_path_factory.mktemp("costs") / "days", spark), {}
    for write in WRITES:
        write(days, spark)
        versions[write] = days.ledger.version()
    return days, versions


@pytest.mark.parametrize("write", WRITES, ids=lambda write: write.__name__)
def test_every_kind_of_write_has_its_cost(spark, written, write):
    """Phases lie within the total, and what was written is what the commit adds."""
    days, version = written[0], written[1][write]
    cost, commit = cost_of(days, version), days.ledger.commit(version)
    known = EVERY | WRITTEN | {"files_read", "rows_read", "bytes_read"}
    assert cost.known.keys() - {"held_seconds"} == known | (ENGINE if hasattr(spark, "_jsparkSession") else set())
    assert cost.seconds >= cost.waiting_seconds + cost.staging_seconds + cost.committing_seconds - 1e-5
    assert cost.staging_seconds > 0
    assert cost.attempts == 1
    now, before = (DeltaTable(str(days.location), version=at).get_add_actions() for at in (version, version - 1))
    now, before = (
        {file["path"]: file for file in pa.table(files).select(SIZES).to_pylist()} for files in (now, before)
    )
    sizes, known = ({path: file["size_bytes"] for path, file in files.items()} for files in (now, before))
    added = [sizes[path] for path in sizes.keys() - known.keys()]
    removed = known.keys() - sizes.keys() if write in (merge, delete, recompute) else ()
    gone = [known[path] for path in removed]
    assert (cost.held_seconds is not None) == bool(added)
    assert 0 <= (cost.held_seconds or 0) <= cost.seconds + 0.001
    assert (cost.files_written, cost.bytes_written) == (len(added), sum(added)) == (len(added), commit.bytes_added)
    assert (cost.files_read, cost.bytes_read) == (3 + len(gone), 4_000 + sum(gone))
    assert cost.rows_read == 700 + sum(before[path]["num_records"] for path in removed)


def test_the_engine_tells_the_cpu_of_all_jobs_of_a_write(spark, written):
    """More rows to hash take more of the processor; over Connect nothing is told."""
    days, versions = written
    small, much = cost_of(days, versions[overwrite]), cost_of(days, versions[large])
    if hasattr(spark, "_jsparkSession"):
        assert 0 < small.cpu_seconds < much.cpu_seconds
        assert much.bytes_spilled >= 0
    else:
        assert small.cpu_seconds is much.cpu_seconds is None


@contextmanager
def losing(monkeypatch, times):
    """Let other writers be first a number of times."""
    real, left = file_exchange.commit_actions, [None] * times

    def commit(*given, **options):
        if left:
            left.pop()
            raise Conflict("another writer was first")
        return real(*given, **options)

    monkeypatch.setattr(file_exchange, "commit_actions", commit)
    yield
    assert not left


def test_a_retried_write_counts_its_attempts(spark, days, monkeypatch):
    """Two commits of a publish are lost to others, and one of a merge."""
    days.ensure()
    with losing(monkeypatch, 2):
        overwrite(days, spark)
    assert cost_of(days).attempts == 3
    with losing(monkeypatch, 1):
        merge(days, spark)
    assert cost_of(days).attempts == 2


def test_the_same_rows_again_cost_time_and_write_nothing(spark, days):
    """The commit adds no file, and its cost says so."""
    overwrite(days, spark)
    days.overwrite(rows(spark, 1, 2), partition=MONDAY, provenance=run(2))
    cost = cost_of(days)
    assert (cost.files_written, cost.bytes_written, cost.rows_written) == (0, 0, 0)
    assert cost.staging_seconds > 0


def test_a_write_that_stages_nothing_has_no_figure_of_an_engine(spark, days):
    """A partition is emptied."""
    overwrite(days, spark)
    days.clear(partition=MONDAY, provenance=run(2))
    cost = cost_of(days)
    assert not cost.known.keys() & ENGINE
    assert cost.files_written == 0


def test_a_note_for_another_process_carries_the_cost_of_the_stage(spark, days):
    """Who publishes it adds the cost of the publish."""
    staged = days.stage(rows(spark, 1), partition=MONDAY, provenance=run())
    type(staged).of_note(days, staged.note()).publish()
    assert cost_of(days).staging_seconds >= staged.record.cost.staging_seconds > 0
    assert cost_of(days).files_read == INPUTS.files_read


def test_a_refused_stage_leaves_no_tag_behind(spark, days):
    """Jobs after it belong to nobody."""
    with pytest.raises(AuditFailed):
        days.overwrite(rows(spark, *range(10)), partition=MONDAY, provenance=run(), audits=[replace(FEW)])
    if hasattr(spark, "_jsparkSession"):
        assert not [tag for tag in spark.sparkContext.getJobTags() if tag.startswith("dedp-")]


def test_a_table_that_only_spark_writes_tells_what_was_before_the_commit(spark, make_table):
    """Files are known once Spark has committed: the record lacks them, and the commit itself has them."""
    fed = make_table(replace(DAYS, properties={"delta.enableChangeDataFeed": "true"}))
    overwrite(fed, spark)
    merge(fed, spark)
    cost = cost_of(fed)
    assert cost.known.keys() >= EVERY
    assert not cost.known.keys() & WRITTEN
    assert fed.ledger.commit(fed.ledger.version()).bytes_added > 0
