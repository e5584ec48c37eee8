"""Replication as it is: the same bytes elsewhere, or what was there before."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timezone
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Barrier, Event, Lock
from time import monotonic, sleep

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from dedp_assets.patterns.connectors.web.providers import keep_answer
from dedp_assets.patterns.core.errors import ConfigError, Conflict, ContractError, NotReady, SchemaMismatch
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import Table, folder_at
from dedp_assets.patterns.ingestion import _replica_files as replicas
from dedp_assets.patterns.ingestion._replica_contents import table_contents
from dedp_assets.patterns.ingestion._replica_files import verify
from dedp_assets.patterns.ingestion._replica_manifest import manifest_of
from dedp_assets.patterns.ingestion.full_loader import load_full
from dedp_assets.patterns.ingestion.passthrough_replicator import declare_replica, replicate_files, replicate_table
from tests.contracts.known_calls import known_calls
from tests.helpers import EVENTS as UNCLASSED
from tests.helpers import a_run, read_back
from tests.two_runs import two_runs

_CLASSED = {n: replace(c, classification=c.classification or "public") for n, c in UNCLASSED.columns.items()}
EVENTS = replace(UNCLASSED, columns=_CLASSED)
PARAMETERS = TableSpec(
    "bronze/device_parameters",
    {
        "name": Column("STRING", "key", classification="public"),
        "value": Column("STRING", "as delivered", classification="public"),
        "day": Column("STRING", "loaded on", classification="public"),
    },
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
    return replicate_table(production, staging.target(a_run("staging/device_parameters")), **options)


def replicate_landing(source, target, **options):
    given = {"declared": replace(PARAMETERS, name="landing/devices"), "name": "staging/devices"}
    return replicate_files(source, target, a_run(), **{**given, **options})


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
    record = manifest_of(folder_at(target)).record
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
    # Readers go by when the log's file was written, which is a little after the time that the commit states.
    written = (production.location / "_delta_log" / f"{1:020}.json").stat().st_mtime
    moment = datetime.fromtimestamp(written + 0.001, timezone.utc)
    for table in (source, replica):
        table.load_as_version(moment)
    assert replica.version() == source.version() == 1


def test_data_files_without_their_log_are_no_replica(production, staging):
    """The check of a copy fails where only Parquet files were copied, and passes for a replica."""
    contents = table_contents(production.ledger, 2)
    shutil.copytree(production.location, staging.location, ignore=shutil.ignore_patterns("_delta_log"))
    finding = verify(contents, staging.store)
    assert finding.refuses
    assert finding.figures["missing"] == 3
    assert not staging.ledger.exists()
    shutil.rmtree(staging.location)
    replicate(production, staging)
    assert verify(contents, staging.store).passed


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
            patched.setattr(shutil, "copystat", die)
            with pytest.raises(type(failure), match=str(failure)):
                replicate(production, staging)
        assert digests(staging.location) == before
        assert len(list(staging.location.parent.glob(".*.edition-*"))) == 1
    assert replicate(production, staging).figures["copied_files"] == 4
    assert verify(table_contents(production.ledger, 4), staging.store).passed
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
    columns = {**PARAMETERS.columns, "value": Column("STRING", "who", classification="personal")}
    tagged = replace(PARAMETERS, columns=columns)
    named = Table(tagged, production.location, no_session)
    words = r"declares columns \['value'\] as personal, which staging/.* may not hold: use transformation_replicator"
    with pytest.raises(ConfigError, match=words):
        replicate(named, staging)
    with pytest.raises(ConfigError, match="as personal, which"):
        replicate_landing(landing, tmp_path / "lower" / "devices", declared=tagged)
    assert not (tmp_path / "lower").exists()
    replicate(named, staging, may_hold_personal=True)
    assert read_back(staging) == read_back(production)


def test_a_replica_of_personal_columns_cannot_be_declared(production):
    """The guard works where assets are declared, before anything runs."""
    with pytest.raises(ConfigError, match="as personal, which"):
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


def test_landed_events_keep_their_order_and_their_files(tmp_path):
    """What landed as files of offsets arrives file by file: names say where each begins, lines stay in order."""
    landed = tmp_path / "topic"
    written = {}
    for partition, start in ((0, 0), (0, 20), (1, 7)):
        path = landed / f"partition={partition}" / f"{start:020d}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        events = [{"offset": start + n, "key": f"k{n}", "headers": [["trace", "x"], ["trace", None]]} for n in range(9)]
        path.write_text("".join(json.dumps(event) + "\n" for event in reversed(events)))
        written[path.relative_to(landed)] = path.read_bytes()
    replicate_landing(landed, tmp_path / "lower" / "topic")
    found = {
        p.relative_to(tmp_path / "lower/topic"): p.read_bytes() for p in (tmp_path / "lower/topic").rglob("*.jsonl")
    }
    assert found == written


def test_the_rate_may_be_limited(landing, tmp_path):
    """So that a copy spares the environments it connects: it takes the time that the limit asks for."""
    (landing / "large.bin").write_bytes(os.urandom(3 << 20))
    size, took = sum(p.stat().st_size for p in landing.rglob("*") if p.is_file()), {}
    # The fastest of three copies without a limit: a busy machine may hold up one.
    free = dict.fromkeys(("free", "free again", "free once more"))
    for name, rate in {**free, "limited": size / 0.4, "at half": size / 0.8}.items():
        began = monotonic()
        replicate_landing(landing, tmp_path / "lower" / name, bytes_per_second=rate)
        took[name] = monotonic() - began
    assert took["limited"] >= 0.4
    assert took["at half"] >= 0.8
    assert min(took[name] for name in free) < took["at half"] / 2
    for wrong in ({"bytes_per_second": -1}, {"files_at_once": 0}):
        with pytest.raises(ConfigError, match=f"{next(iter(wrong))}=(-1|0) would never copy anything"):
            replicate_landing(landing, tmp_path / "lower" / "none", **wrong)


@pytest.mark.parametrize("at_once", [1, 3])
def test_so_many_files_are_copied_at_once_and_no_more(tmp_path, monkeypatch, at_once):
    """One by one unless more is asked for; then as many as that, and the copy is the same."""
    landed = tmp_path / "landing"
    landed.mkdir()
    for number in range(9):
        (landed / f"{number}.json").write_bytes(str(number).encode())
    real, counting, now, together = replicas._copy, Lock(), [], []
    meet = Barrier(at_once)

    def copy(*arguments, **options):
        with counting:
            now.append(arguments[1])
            together.append(len(now))
        meet.wait(10)
        try:
            return real(*arguments, **options)
        finally:
            with counting:
                now.remove(arguments[1])

    monkeypatch.setattr(replicas, "_copy", copy)
    replicate_landing(landed, tmp_path / "lower" / "devices", files_at_once=at_once)
    assert max(together) == at_once
    assert digests(tmp_path / "lower" / "devices") == digests(landed)


class Provider(BaseHTTPRequestHandler):
    """A third party's API over HTTP that answers each call otherwise, and counts them."""

    def do_GET(self):
        self.server.asked.append((self.path, self.headers.get("Authorization")))
        behaviour = self.server.behaviours.pop(0) if self.server.behaviours else "answers"
        if behaviour.isdigit():
            self.send_error(int(behaviour))
            return
        answer = json.dumps([{"name": "device", "value": f"answer {len(self.server.asked)}", "day": "2026-01-05"}])
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer) + (100 if behaviour == "breaks off" else 0)))
        self.end_headers()
        self.wfile.write(answer.encode())

    def log_message(self, *_):
        """Say nothing."""


@pytest.fixture
def provider(monkeypatch):
    """The API, running; ``asked`` holds its calls, ``behaviours`` what it does next."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with ThreadingHTTPServer(("127.0.0.1", 0), Provider) as server:
        server.asked, server.behaviours = [], []
        server.url = f"http://127.0.0.1:{server.server_port}/devices?day=2026-01-05"
        with ThreadPoolExecutor(1) as pool:
            serving = pool.submit(server.serve_forever, 0.01)
            yield server
            server.shutdown()
            serving.result()


def test_the_provider_is_asked_once_for_all_environments(provider, tmp_path):
    """Production asks once a day, at whatever number of reruns at once; the others get its answer without a call."""
    landed = tmp_path / "production" / "devices"
    answer = landed / "2026-01-05" / "answer.json"

    def ask(_):
        return keep_answer(provider.url, answer, headers={"Authorization": "secret"})

    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(ask, range(8))) == [False] * 7 + [True]
    assert provider.asked == [("/devices?day=2026-01-05", "secret")]
    for environment in ("staging", "development"):
        for _ in range(2):
            replicate_landing(landed, tmp_path / environment / "devices")
        assert digests(tmp_path / environment / "devices") == digests(landed)
    assert len(provider.asked) == 1
    assert json.loads(answer.read_bytes())[0]["value"] == "answer 1"
    assert keep_answer(provider.url, landed / "2026-01-06" / "answer.json")
    assert b"answer 2" in (landed / "2026-01-06" / "answer.json").read_bytes()


def test_what_production_loaded_from_the_provider_is_what_the_others_get(provider, make_table, spark, tmp_path):
    """As a table, too: a replica holds the rows of the one call there was, however often it is made."""
    answer = tmp_path / "landing" / "answer.json"
    production = make_table(PARAMETERS)
    for number in range(2):
        keep_answer(provider.url, answer)
        rows = spark.read.schema("name STRING, value STRING, day STRING").json(str(answer), multiLine=True)
        load_full(rows, production.target(a_run(sequence=number)))
    for environment in ("staging", "development"):
        replica = make_table(declare_replica(PARAMETERS, name=f"{environment}/device_parameters"))
        replicate(production, replica)
        assert [row["value"] for row in read_back(replica)] == ["answer 1"]
    assert len(provider.asked) == 1


@pytest.mark.parametrize(
    ("behaviour", "error", "said"),
    [
        ("503", NotReady, r"/devices cannot answer now \(503"),
        ("429", NotReady, r"/devices cannot answer now \(429"),
        ("404", ContractError, r"/devices refuses the call \(404"),
        ("breaks off", NotReady, r"/devices broke off after \d+ bytes"),
    ],
)
def test_an_answer_is_kept_whole_or_not_at_all(provider, tmp_path, behaviour, error, said):
    """What failed left nothing, so the next call asks again; no error repeats what was sent along."""
    provider.behaviours.append(behaviour)
    with pytest.raises(error, match=said) as refused:
        keep_answer(provider.url, tmp_path / "answer.json", headers={"Authorization": "secret"})
    assert "secret" not in str(refused.value)
    assert [path.name for path in tmp_path.iterdir() if path.suffix != ".lock"] == []
    assert keep_answer(provider.url, tmp_path / "answer.json")
    assert b"answer 2" in (tmp_path / "answer.json").read_bytes()


def test_a_provider_that_is_not_there_is_not_ready(tmp_path, monkeypatch):
    """And an address that is none is refused before anybody is asked."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with pytest.raises(NotReady, match="does not answer"):
        keep_answer("http://127.0.0.1:9/devices", tmp_path / "answer.json")
    with pytest.raises(ConfigError, match="begins with http"):
        keep_answer("file:///etc/passwd", tmp_path / "answer.json")


@pytest.fixture
def elsewhere():
    """A folder that every user can reach."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@contextmanager
def as_nobody():
    """Without root's rights for the time of a block, if it has them: root may read everything."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.parametrize("closed", ["file", "folder", "data", "log"])
def test_a_source_that_may_not_be_read_is_named(elsewhere, closed):
    """Whichever part of it: the error says what, and for whom; the target does not come to be."""
    landed, lower = elsewhere / "landing", elsewhere / "lower"
    lower.mkdir(mode=0o777)
    lower.chmod(0o777)
    table = Table(PARAMETERS, elsewhere / "table", no_session)
    put(table, "2026-01-05", a="1")
    (landed / "day").mkdir(parents=True)
    (landed / "day" / "devices.json").write_bytes(b"1")
    shut = {
        "file": landed / "day" / "devices.json",
        "folder": landed / "day",
        "data": next((elsewhere / "table").rglob("*.parquet")),
        "log": elsewhere / "table" / "_delta_log",
    }[closed]

    def copy():
        if closed in ("file", "folder"):
            replicate_landing(landed, lower / "devices")
        else:
            replicate(table, Table(PARAMETERS, lower / "table", no_session))

    mode = shut.stat().st_mode
    shut.chmod(0)
    try:
        with as_nobody(), pytest.raises(ConfigError, match=rf"{shut.name}.* may not be read by the user \d+"):
            copy()
    finally:
        shut.chmod(mode)
    assert [path for path in lower.iterdir() if not path.name.endswith(".lock")] == []


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
    replicate_table(production, replica.target(run), may_hold_personal=True)
    spark.read.format("delta").load(str(replica.location)).collect()
    production.delete("id = 2", provenance=a_run(run_id="run-2", sequence=2))
    spark.sql(f"UPDATE delta.`{production.location}` SET amount = 9 WHERE id = 11")
    assert list(production.location.rglob("deletion_vector_*.bin"))
    assert list(production.location.rglob("_change_data/*"))
    replicate_table(production, replica.target(run), may_hold_personal=True)

    def rows(table, **options):
        return sorted(map(str, spark.read.format("delta").options(**options).load(str(table.location)).collect()))

    assert len(rows(replica)) == 7
    assert rows(replica) == rows(production)
    newest = production.ledger.version()
    for version in range(newest + 1):
        assert rows(replica, versionAsOf=version) == rows(production, versionAsOf=version)
    changes = {"readChangeFeed": "true", "startingVersion": newest}
    assert rows(replica, **changes) == rows(production, **changes) != []
    assert verify(table_contents(production.ledger, newest), replica.store).passed
    assert (replica.location / "_delta_log" / f"{3:020d}.checkpoint.parquet").exists()


@known_calls
def calls_that_work(known):
    sold = known.table("bronze/copied", "id INT, seq BIGINT, part STRING", by=("part",))
    (known.folder / "files").mkdir()
    (known.folder / "files" / "a.txt").write_text("a")
    return {
        "declare_replica": {"source": known.daily.spec, "name": "staging/daily"},
        "replicate_files": {
            "source": known.folder / "files",
            "target": known.folder / "copied",
            "run": known.run,
            "declared": known.daily.spec,
            "name": "staging/files",
            "bytes_per_second": 1e9,
        },
        "replicate_table": {
            "source": sold,
            "into": known.at(declare_replica(sold.spec, name="staging/sold")).target(known.run),
            "version": 0,
            "bytes_per_second": 1e9,
        },
    }


def two_copies(world, replicate, declare):
    """A replica of an older version and one of a newer."""
    columns = "id INT, plan STRING"
    source = world.table("users", columns)
    for sequence in (1, 2, 3):
        source.append(world.frame(columns, (sequence, "free")), provenance=world.run(str(sequence), sequence=sequence))
    world.specs["copied"] = replace(declare(source.spec, name="copied"), name="copied")
    first = source.ledger.version() - 2
    replicate(source, world.into("copied", "base"), version=first)
    for version in (first + 1, first + 2):
        yield lambda w, version=version: replicate(w["users"], w.into("copied", f"v{version}"), version=version)


@two_runs(under_one_lock=True)
def replicated_at_once(world):
    return two_copies(world, replicate_table, declare_replica)
