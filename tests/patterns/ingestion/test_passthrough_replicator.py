"""Replication as it is: the same bytes elsewhere, or what was there before."""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timezone
from hashlib import sha256
from pathlib import Path
from threading import Event
from time import sleep

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from dedp_assets.patterns.core import replicas
from dedp_assets.patterns.core.contents import table_contents
from dedp_assets.patterns.core.errors import ConfigError, Conflict, NotReady, SchemaMismatch
from dedp_assets.patterns.core.replicas import manifest_of, verify
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.core.tables import Table
from dedp_assets.patterns.ingestion.full_loader import load_full
from dedp_assets.patterns.ingestion.passthrough_replicator import declare_replica, replicate_files, replicate_table
from tests.helpers import EVENTS, a_run, read_back

PARAMETERS = TableSpec(
    "bronze/device_parameters",
    {"name": Column("STRING", "key"), "value": Column("STRING", "as delivered"), "day": Column("STRING", "loaded on")},
    partition_by=("day",),
)
HOSTILE = [
    b'{"version": 1.10, "id": 007, "at": "2024-01-01T00:00:00+00:00"}',
    b'{"at": "01/02/2024 3:04 PM", "amount": 0.1000000000000000055511151231257827, "big": 12345678901234567890}',
    b'{"key": 1, "key": 2}',
    b'  { "spaces" :\t"many"   }  ',
    b"{malformed",
    b"",
    '{"name": "Zoë 👩‍💻 \u2028"}'.encode(),
    b"\xff\xfe not UTF-8",
    b'{"line end": "CRLF"}\r',
    b'{"last line": "without an end"}',
]


def no_session():
    raise AssertionError("copying bytes needs no Spark")


@pytest.fixture
def production(tmp_path):
    """A table of three commits and two days, which nobody wrote with Spark."""
    table = Table(PARAMETERS, tmp_path / "production" / PARAMETERS.name, no_session)
    described = {"name": "parameters", "description": "of devices", "configuration": {"delta.appendOnly": "false"}}
    put(table, "2026-01-05", a="1.10", b="007", **described)
    put(table, "2026-01-06", a="1.20")
    put(table, "2026-01-06", mode="overwrite", predicate="day = '2026-01-06'", a="1.21", c="x")
    return table


@pytest.fixture
def staging(tmp_path):
    """Where its replica goes."""
    spec = declare_replica(PARAMETERS, name="staging/device_parameters")
    return Table(spec, tmp_path / "lower" / spec.name, no_session)


@pytest.fixture
def landing(tmp_path):
    """A folder with the hostile lines in two days."""
    folder = tmp_path / "landing" / "devices"
    for number, day in enumerate(("date=2023-11-01", "date=2023-11-02")):
        (folder / day).mkdir(parents=True)
        (folder / day / "part 0 (ü).json").write_bytes(b"\n".join(HOSTILE[number:]))
        os.utime(folder / day / "part 0 (ü).json", ns=(1_700_000_000_000_000_001, 1_700_000_000_000_000_001 + number))
    return folder


def put(table, day, mode="append", predicate=None, name=None, description=None, configuration=None, **values):
    rows = pa.table({"name": list(values), "value": list(values.values()), "day": [day] * len(values)})
    write_deltalake(
        str(table.location),
        rows,
        mode=mode,
        partition_by=["day"],
        predicate=predicate,
        name=name,
        description=description,
        configuration=configuration,
    )


def replicate(production, staging, **options):
    return replicate_table(production, staging, provenance=a_run("staging/device_parameters"), **options)


def replicate_landing(source, target, **options):
    given = {"declared": replace(PARAMETERS, name="landing/devices"), "name": "staging/devices", "provenance": a_run()}
    return replicate_files(source, target, **{**given, **options})


def digests(folder):
    found = {p.relative_to(folder).as_posix(): p for p in Path(folder).rglob("*") if p.is_file()}
    return {path: (sha256(p.read_bytes()).hexdigest(), p.stat().st_mtime_ns) for path, p in found.items()}


def inodes(table, day):
    return {p.name: p.stat().st_ino for p in (table.location / f"day={day}").iterdir()}


def lines(folder):
    return Counter(line for path in folder.rglob("*.json") for line in path.read_bytes().split(b"\n"))


def test_lines_of_any_content_arrive_as_they_are(landing, tmp_path):
    """Nothing is parsed: numbers, dates, repeated keys, broken records, encodings, names of files and their times."""
    target = tmp_path / "lower" / "devices"
    result = replicate_landing(landing, target)
    assert lines(target) == lines(landing)
    assert digests(target) == digests(landing)
    assert (result.applied, result.table, result.figures["copied_files"]) == (True, "staging/devices", 2)
    record = manifest_of(target).record
    assert (record.pattern, record.verdict) == ("ingestion.passthrough_replicator", "passed")


def test_a_replicated_table_is_the_table(production, staging):
    """Schema, partitioning, properties, identity, rows and the bytes of its log, for every reader."""
    result = replicate(production, staging)
    assert (result.version, result.rows.written, result.applied) == (2, 4, True)
    source, replica = (DeltaTable(str(table.location)) for table in (production, staging))
    assert replica.schema() == source.schema()
    ours, theirs = replica.metadata(), source.metadata()
    described = ("id", "name", "description", "partition_columns", "configuration", "created_time")
    assert [getattr(ours, what) for what in described] == [getattr(theirs, what) for what in described]
    assert ours.partition_columns == ["day"]
    assert read_back(staging) == read_back(production)
    assert digests(staging.location) == digests(production.location)


def test_a_replica_has_the_history_of_its_source(production, staging):
    """Every version can be read, by number and by time, with the commits' own story."""
    replicate(production, staging)
    source, replica = (DeltaTable(str(table.location)) for table in (production, staging))
    assert replica.history() == source.history()
    for version in range(3):
        assert read_back(staging, version) == read_back(production, version)
    moment = datetime.fromtimestamp(source.history()[1]["timestamp"] / 1000, timezone.utc)
    for table in (source, replica):
        table.load_as_version(moment)
    assert replica.version() == source.version() == 1


def test_data_files_without_their_log_are_no_replica(production, staging):
    """The check of a copy fails where only Parquet files were copied, and passes for a replica."""
    contents = table_contents(production.ledger, 2)
    shutil.copytree(production.location, staging.location, ignore=shutil.ignore_patterns("_delta_log"))
    finding = verify(contents, staging.location)
    assert finding.refuses
    assert finding.figures["missing"] == 3
    assert not staging.ledger.exists()
    shutil.rmtree(staging.location)
    replicate(production, staging)
    assert verify(contents, staging.location).passed


def test_a_rerun_copies_nothing(production, staging):
    """The second run finds the replica equal and leaves every file where it is."""
    replicate(production, staging)
    before = staging.location.readlink(), digests(staging.location)
    again = replicate(production, staging)
    assert (again.applied, again.changed, again.version, again.rows.written) == (False, False, 2, 4)
    assert "nothing to do" in again.reason
    assert (staging.location.readlink(), digests(staging.location)) == before


def test_a_replaced_partition_is_copied_and_others_are_untouched(production, staging):
    """Files of other days are the very same files after it."""
    replicate(production, staging)
    other, day = inodes(staging, "2026-01-05"), inodes(staging, "2026-01-06")
    put(production, "2026-01-06", mode="overwrite", predicate="day = '2026-01-06'", a="1.30")
    result = replicate(production, staging)
    assert read_back(staging) == read_back(production)
    assert inodes(staging, "2026-01-05") == other
    assert day.items() < inodes(staging, "2026-01-06").items()
    assert result.figures["copied_files"] == 2


def test_one_day_of_files_is_replicated_alone(landing, tmp_path):
    """A day has a replica of its own, overwritten by its own reruns; other days stay untouched."""
    lower, days = tmp_path / "lower" / "devices", ("date=2023-11-01", "date=2023-11-02")
    for day in days:
        replicate_landing(landing / day, lower / day)
    other = digests(lower / days[1])
    (landing / days[0] / "part 0 (ü).json").write_bytes(b"007")
    replicate_landing(landing / days[0], lower / days[0])
    replicate_landing(landing / days[0], lower / days[0])
    assert [path.read_bytes() for path in (lower / days[0]).iterdir()] == [b"007"]
    assert digests(lower / days[1]) == other


def test_deletions_follow(production, staging, landing, tmp_path):
    """Rows, partitions and files that the source no longer has are gone from the replica, too."""
    replicate(production, staging)
    DeltaTable(str(production.location)).delete("day = '2026-01-06'")
    DeltaTable(str(production.location)).vacuum(0, dry_run=False, enforce_retention_duration=False)
    result = replicate(production, staging)
    assert {row["day"] for row in read_back(staging)} == {"2026-01-05"}
    assert result.figures["removed_files"] > 0
    assert digests(staging.location) == digests(production.location)
    target = tmp_path / "lower" / "devices"
    replicate_landing(landing, target)
    shutil.rmtree(landing / "date=2023-11-01")
    replicate_landing(landing, target)
    assert [path.name for path in target.iterdir()] == ["date=2023-11-02"]


@pytest.mark.parametrize("failure", [OSError("disk full"), SystemExit("killed")], ids=repr)
def test_a_copy_that_fails_leaves_the_former_replica(production, staging, monkeypatch, failure):
    """Whichever file it fails at; the rerun completes, without a file or a row too many."""
    replicate(production, staging)
    before = digests(staging.location)
    put(production, "2026-01-07", d="1")
    put(production, "2026-01-08", e="1")
    real = shutil.copystat
    for last in range(4):
        copied = []

        def die(source, destination, last=last, copied=copied):
            real(source, destination)
            copied.append(source)
            if len(copied) > last:
                raise failure

        with monkeypatch.context() as patched:
            patched.setattr(replicas.shutil, "copystat", die)
            with pytest.raises(type(failure), match=str(failure)):
                replicate(production, staging)
        assert digests(staging.location) == before
        assert len(list(staging.location.parent.glob(".*.generation-*"))) == 1
    assert replicate(production, staging).figures["copied_files"] == 4
    assert verify(table_contents(production.ledger, 4), staging.location).passed
    assert read_back(staging) == read_back(production)


@pytest.mark.slow
def test_a_reader_sees_whole_versions_only(production, staging):
    """Whoever reads while the source grows and is replicated sees a version of the source, with all its rows."""
    sizes = {}
    replicate(production, staging)
    done, seen = Event(), []

    def look():
        while not done.is_set():
            table = DeltaTable(str(staging.location))
            seen.append((table.version(), table.to_pyarrow_table().num_rows))

    with ThreadPoolExecutor(1) as pool:
        looking = pool.submit(look)
        for number in range(8):
            sizes[production.ledger.version()] = len(read_back(production))
            put(production, "2026-01-07", **{f"n{number}": "1", f"m{number}": "2"})
            put(production, "2026-01-08", **{f"o{number}": "1"})
            sizes[production.ledger.version()] = len(read_back(production))
            looked = len(seen)
            replicate(production, staging)
            while len(seen) < looked + 2 and not looking.done():
                sleep(0.001)
        done.set()
        looking.result()
    assert set(seen) <= set(sizes.items())
    assert len(set(seen)) > 2


def test_the_version_is_pinned(production, staging):
    """A version can be named; later commits are not in the replica, and an older one does not come back."""
    assert replicate(production, staging, version=1).version == 1
    assert staging.ledger.version() == 1
    assert read_back(staging) == read_back(production, 1)
    replicate(production, staging)
    with pytest.raises(Conflict, match="is stale"):
        replicate(production, staging, version=1)
    assert staging.ledger.version() == 2
    with pytest.raises(NotReady, match="no version 7 yet"):
        replicate(production, staging, version=7)


def test_personal_columns_are_refused(production, staging, landing, tmp_path):
    """A table or a folder that declares any goes nowhere, unless the target may hold it."""
    columns = {**PARAMETERS.columns, "value": Column("STRING", "who", personal=True)}
    tagged = replace(PARAMETERS, columns=columns)
    named = Table(tagged, production.location, no_session)
    words = r"declares personal columns \['value'\] and staging/.* may not hold them: use transformation_replicator"
    with pytest.raises(ConfigError, match=words):
        replicate(named, staging)
    with pytest.raises(ConfigError, match="personal columns"):
        replicate_landing(landing, tmp_path / "lower" / "devices", declared=tagged)
    assert not (tmp_path / "lower").exists()
    replicate(named, staging, may_hold_personal=True)
    assert read_back(staging) == read_back(production)


def test_a_replica_of_personal_columns_cannot_be_declared(production):
    """The guard works where assets are declared, before anything runs."""
    with pytest.raises(ConfigError, match="declares personal columns"):
        declare_replica(EVENTS, name="staging/events")
    allowed = declare_replica(EVENTS, name="recovery/events", may_hold_personal=True)
    assert (allowed.name, allowed.columns, allowed.checks) == ("recovery/events", EVENTS.columns, EVENTS.checks)


@pytest.mark.parametrize("dropped", [False, True])
def test_what_nobody_declared_may_be_personal(production, staging, dropped):
    """An unknown column stops the replica, even one that only an earlier version still holds."""
    rows = pa.table({"name": ["a"], "value": ["1"], "ip": ["10.1.2.3"], "day": ["2026-01-07"]})
    write_deltalake(str(production.location), rows, mode="append", schema_mode="merge", partition_by=["day"])
    if dropped:
        overwriting = {"mode": "overwrite", "schema_mode": "overwrite", "partition_by": ["day"]}
        write_deltalake(str(production.location), rows.drop_columns("ip"), **overwriting)
        assert "ip" not in production.ledger.state().columns
    with pytest.raises(SchemaMismatch, match=r"has, or once had, columns \['ip'\]"):
        replicate(production, staging)
    assert not staging.location.exists()


def test_the_replica_knows_no_way_back(production, staging):
    """Pushed: the run writes nothing to the source, and nothing in the target says where it lies or needs it."""
    before = digests(production.location)
    replicate(production, staging)
    assert digests(production.location) == before
    rows = read_back(production)
    secret = str(production.location).encode()
    everything = [path for path in staging.location.parent.rglob("*") if path.is_file()]
    assert everything
    assert not [path for path in everything if secret in path.read_bytes()]
    shutil.rmtree(production.location)
    assert read_back(staging) == rows


def test_a_replica_may_be_replicated(production, staging, tmp_path):
    """From staging to development: the same bytes again, pinned while staging moves on."""
    development = Table(replace(PARAMETERS, name="development/p"), tmp_path / "dev" / "p", no_session)
    replicate(production, staging)
    replicate(staging, development)
    assert digests(development.location) == digests(production.location)
    put(production, "2026-01-09", z="1")
    replicate(production, staging)
    assert replicate(staging, development).figures["copied_files"] == 2
    assert digests(development.location) == digests(production.location)


def test_order_and_headers_of_events_are_kept(production, tmp_path):
    """Each partition's events stay in the order of their offsets, with key and headers, in files and in tables."""
    topic = [{"offset": n, "key": f"k{n % 3}", "headers": [["trace", str(n)]], "value": f"v{n}"} for n in range(50)]
    landed = tmp_path / "topic" / "partition=0"
    landed.mkdir(parents=True)
    for start in (0, 20, 40):
        (landed / f"{start:020d}.jsonl").write_text("".join(json.dumps(e) + "\n" for e in topic[start : start + 20]))
    replicate_landing(tmp_path / "topic", tmp_path / "lower" / "topic")
    files = sorted((tmp_path / "lower" / "topic" / "partition=0").iterdir())
    assert [json.loads(line) for file in files for line in file.read_text().splitlines()] == topic
    spec = TableSpec("bronze/topic", {c: Column("STRING") for c in ("offset", "key", "headers", "value")})
    tables = [Table(replace(spec, name=n), tmp_path / n, no_session) for n in ("bronze/topic", "staging/topic")]
    write_deltalake(str(tables[0].location), pa.Table.from_pylist(topic))
    replicate_table(*tables, provenance=a_run())
    assert DeltaTable(str(tables[1].location)).to_pyarrow_table().to_pylist() == topic


def test_the_rate_may_be_limited(production, staging, monkeypatch):
    """So that a copy spares the environments it connects."""
    waited = []
    monkeypatch.setattr(replicas.time, "sleep", waited.append)
    replicate(production, staging, bytes_per_second=10)
    assert waited
    with pytest.raises(ConfigError, match="bytes_per_second=-1"):
        replicate(production, staging, bytes_per_second=-1)


def test_the_provider_is_asked_once_for_all_environments(make_table, spark, tmp_path):
    """Production loads from an API that answers differently at each call; the others get what production got."""
    calls = []

    def ask():
        calls.append(len(calls))
        return spark.sql(f"SELECT 'device' AS name, 'answer {len(calls)}' AS value, '2026-01-05' AS day")

    production = make_table(PARAMETERS)
    load_full(ask(), production, provenance=a_run())
    for environment in ("staging", "development"):
        replica = make_table(declare_replica(PARAMETERS, name=f"{environment}/device_parameters"))
        replicate(production, replica)
        replicate(production, replica)
        assert read_back(replica) == read_back(production)
    assert calls == [0]
    assert read_back(production)[0]["value"] == "answer 1"


@pytest.mark.both
def test_spark_reads_a_replica_of_a_table_with_everything(make_table, spark, event_rows):
    """Deletion vectors, change data, checkpoints, constraints and Spark's own checksum files come along."""
    properties = {"delta.enableDeletionVectors": "true", "delta.enableChangeDataFeed": "true"}
    spec = replace(EVENTS, properties={**properties, "delta.checkpointInterval": "3"})
    production = make_table(spec)
    replica = make_table(declare_replica(spec, name="recovery/events", may_hold_personal=True))
    for number, day in enumerate(("2026-01-05", "2026-01-06")):
        provenance = a_run(sequence=1)
        production.overwrite(
            event_rows(4, day=day, start=10 * number), partition={"event_date": day}, provenance=provenance
        )
    run = a_run("recovery/events")
    replicate_table(production, replica, provenance=run, may_hold_personal=True)
    spark.read.format("delta").load(str(replica.location)).collect()
    production.delete("id = 2", provenance=a_run(run_id="run-2", sequence=2))
    spark.sql(f"UPDATE delta.`{production.location}` SET amount = 9 WHERE id = 11")
    assert list(production.location.rglob("deletion_vector_*.bin"))
    assert list(production.location.rglob("_change_data/*"))
    replicate_table(production, replica, provenance=run, may_hold_personal=True)

    def rows(table, **options):
        return sorted(map(str, spark.read.format("delta").options(**options).load(str(table.location)).collect()))

    assert len(rows(replica)) == 7
    assert rows(replica) == rows(production)
    newest = production.ledger.version()
    for version in range(newest + 1):
        assert rows(replica, versionAsOf=version) == rows(production, versionAsOf=version)
    changes = {"readChangeFeed": "true", "startingVersion": newest}
    assert rows(replica, **changes) == rows(production, **changes) != []
    assert verify(table_contents(production.ledger, newest), replica.location).passed
    assert (replica.location / "_delta_log" / f"{3:020d}.checkpoint.parquet").exists()
