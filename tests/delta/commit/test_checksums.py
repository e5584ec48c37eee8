"""Version checksums beside our commits: what the table is, or none at all."""

from __future__ import annotations

import json
from datetime import date

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import HealthCheck, Phase, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from dedp_assets.patterns.delta import Table, store_at
from dedp_assets.patterns.delta.commit import commits
from dedp_assets.patterns.delta.commit.checksums import EMPTY, following
from dedp_assets.patterns.delta.commit.creation import first_commit
from dedp_assets.patterns.ingestion.compactor import compact
from tests.helpers import EVENTS, a_run, job_group, jobs_of

FUZZ = hypothesis_settings.get_current_profile_name() == "fuzz"
DAYS = ("2026-01-05", "2026-01-06")
FIRST = first_commit(EVENTS)
ADD = {"add": {"path": "a.parquet", "size": 10, "partitionValues": {}, "modificationTime": 1, "dataChange": True}}


def moved(app_id, version):
    return {"txn": {"appId": app_id, "version": version, "lastUpdated": version}}


def stated(location, version):
    path = location / "_delta_log" / f"{version:020d}.crc"
    return json.loads(path.read_bytes()) if path.exists() else None


def computed(location):
    """The newest version, by deltalake's reading of the files and a replay of everything else in the log."""
    table = DeltaTable(str(location))
    sizes = pa.table(table.get_add_actions(flatten=True))["size_bytes"].to_pylist()
    found = {"transactions": {}}
    for version in range(table.version() + 1):
        for action in commits.read_actions(store_at(location), version):
            found |= {kind: what for kind, what in action.items() if kind in ("metaData", "protocol")}
            if txn := action.get("txn"):
                found["transactions"][txn["appId"]] = txn
    return {
        "tableSizeBytes": sum(sizes),
        "numFiles": len(sizes),
        "metadata": found["metaData"],
        "protocol": found["protocol"],
        "setTransactions": sorted(found["transactions"].values(), key=lambda txn: txn["appId"]),
        "numMetadata": 1,
        "numProtocol": 1,
        "domainMetadata": [],
    }


def agrees(location, version):
    """Whether a checksum stands beside a version; it has to be what is computed."""
    found = stated(location, version)
    if found is None:
        return False
    found["setTransactions"] = sorted(found["setTransactions"], key=lambda txn: txn["appId"])
    expected = computed(location)
    assert {name: found[name] for name in expected} == expected
    return True


def test_a_checksum_follows_from_the_one_before_and_the_actions():
    """Files and bytes come and go, transactions move, the rest stays."""
    first = following(EMPTY, FIRST)
    second = following(first, [ADD, moved("t", 1), moved("u", 1), {"commitInfo": {}}])
    third = following(second, [{"remove": {"path": "a.parquet", "size": 10}}, ADD, ADD, moved("t", 2)])
    assert [(each["numFiles"], each["tableSizeBytes"]) for each in (first, second, third)] == [(0, 0), (1, 10), (2, 20)]
    assert {txn["appId"]: txn["version"] for txn in third["setTransactions"]} == {"t": 2, "u": 1}
    assert (third["metadata"], third["protocol"]) == (FIRST[1]["metaData"], FIRST[2]["protocol"])


@pytest.mark.parametrize(
    ("change", "content"),
    [
        ({}, [{"domainMetadata": {"domain": "d", "configuration": "{}", "removed": False}}]),
        ({}, [{"remove": {"path": "a.parquet"}}]),
        ({"metadata": None}, [ADD]),
        ({"numFiles": None}, [ADD]),
        ({}, [{"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, "writerFeatures": ["deletionVectors"]}}]),
    ],
    ids=["unknown action", "removal of unknown size", "no metadata", "no number of files", "deletion vectors"],
)
def test_what_is_not_certain_has_no_checksum(change, content):
    """A wrong one is worse than none."""
    assert following({**following(EMPTY, FIRST), **change}, content) is None


def test_transactions_are_left_out_where_delta_leaves_them_out():
    """Too many of them, or such as expire by themselves."""
    first = following(EMPTY, FIRST)
    many = following(first, [moved(str(n), n) for n in range(100)])
    assert len(many["setTransactions"]) == 100
    more = following(many, [moved("one more", 1)])
    assert "setTransactions" not in more
    assert "setTransactions" not in following(more, [ADD])
    declared = FIRST[1]["metaData"]
    kept = {**declared["configuration"], "delta.setTransactionRetentionDuration": "interval 1 day"}
    expiring = following(first, [{"metaData": {**declared, "configuration": kept}}, moved("t", 1)])
    assert "setTransactions" not in expiring


def test_a_version_after_one_without_a_checksum_has_none(tmp_path):
    """And none that is there already is written over."""
    for version, content in enumerate((FIRST, [ADD], [moved("t", 1)])):
        if version == 2:
            (tmp_path / "_delta_log" / f"{1:020d}.crc").unlink()
        commits.write(store_at(tmp_path), version, content)
    assert [stated(tmp_path, version) is None for version in range(3)] == [False, True, True]
    (tmp_path / "_delta_log" / f"{2:020d}.crc").write_text(json.dumps({"numFiles": 7}))
    commits.write(store_at(tmp_path), 3, [ADD])
    assert (stated(tmp_path, 2), stated(tmp_path, 3)) == ({"numFiles": 7}, None)


def snapshot(spark, location):
    """The table as Delta itself sees it, read anew."""
    logs = spark._jvm.org.apache.spark.sql.delta.DeltaLog
    logs.clearCache()
    return logs.forTable(spark._jsparkSession, str(location)).unsafeVolatileSnapshot()


OURS = ("overwrite", "append", "clear", "delete", "compact")
THEIRS = ("their append", "their delete", "their property", "delta-rs")


def acts(table, event_rows, spark):
    """Step -> function of a number."""
    location = str(table.location)
    day = {n: {"event_date": DAYS[n % 2]} for n in range(20)}
    foreign = pa.table({"id": [7], "user_id": ["x"], "amount": [1.0], "event_date": [date(2026, 1, 5)]})

    def run(n):
        return a_run(run_id=str(n), sequence=n)

    return {
        "overwrite": lambda n: table.overwrite(
            event_rows(n % 3, day=DAYS[n % 2], start=n), partition=day[n], provenance=run(n)
        ),
        "append": lambda n: table.append(event_rows(2, start=100 * n), provenance=run(n)),
        "clear": lambda n: table.clear(partition=day[n], provenance=run(n)),
        "delete": lambda n: table.delete(f"id % 3 = {n % 3}", provenance=run(n)),
        "compact": lambda n: compact(table.target(run(n))),
        "their append": lambda n: event_rows(1, start=1000 * n).write.format("delta").mode("append").save(location),
        "their delete": lambda n: spark.sql(f"DELETE FROM delta.`{location}` WHERE id % 2 = {n % 2}"),
        "their property": lambda n: spark.sql(f"ALTER TABLE delta.`{location}` SET TBLPROPERTIES ('n' = '{n}')"),
        "delta-rs": lambda _: write_deltalake(location, foreign, mode="append"),
    }


@hypothesis_settings(
    max_examples=30 if FUZZ else 2,
    deadline=None,
    derandomize=not FUZZ,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    phases=[Phase.generate],
)
@given(steps=st.lists(st.sampled_from(OURS + THEIRS), min_size=8, max_size=8))
def test_whoever_writes_a_checksum_states_what_the_table_is(steps, tmp_path_factory, event_rows, spark):
    """Writes of the library, of Spark and of delta-rs in any order; Delta's own validation agrees."""
    table = Table(EVENTS, tmp_path_factory.mktemp("checksums") / "events", spark)
    table.ensure()
    act = acts(table, event_rows, spark)
    for number, step in enumerate(steps, start=1):
        before, known = table.ledger.version(), stated(table.location, table.ledger.version()) is not None
        act[step](number)
        if table.ledger.version() > before:
            assert agrees(table.location, table.ledger.version()) or step == "delta-rs" or not known
    seen = snapshot(spark, table.location)
    assert seen.checksumOpt().isDefined() == (stated(table.location, table.ledger.version()) is not None)
    assert seen.validateChecksum(spark._jvm.PythonUtils.toScalaMap({}))


def test_spark_computes_less_after_a_commit_with_a_checksum(events, event_rows, spark):
    """Protocol and properties come without a job; the same version without its checksum asks for one."""
    written = events.append(event_rows(2), provenance=a_run(sequence=1))

    def jobs():
        spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
        with job_group(spark):
            assert spark.read.format("delta").load(str(events.location)).columns == [*EVENTS.columns]
            return len(jobs_of(spark))

    with_it = jobs()
    (events.location / "_delta_log" / f"{written.version:020d}.crc").unlink()
    assert (with_it, with_it < jobs()) == (0, True)


def test_delta_finds_a_checksum_that_is_wrong(events, event_rows, spark):
    """Its validation, on which the tests above rely, can fail."""
    written = events.append(event_rows(2), provenance=a_run(sequence=1))
    path = events.location / "_delta_log" / f"{written.version:020d}.crc"
    path.write_text(json.dumps({**stated(events.location, written.version), "numFiles": 5}))
    with pytest.raises(Exception, match="Number of files - Expected: 5 Computed: "):
        snapshot(spark, events.location).validateChecksum(spark._jvm.PythonUtils.toScalaMap({}))
