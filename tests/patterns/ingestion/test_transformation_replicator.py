"""Replication without what may not leave: columns dropped or altered, and proof that nothing else crossed."""

from __future__ import annotations

import gc
import hashlib
import hmac
import json
import struct
import unicodedata
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import date
from decimal import Decimal
from pathlib import Path
from threading import Event
from time import sleep

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError

from dedp_assets.patterns.core.audits import Audit
from dedp_assets.patterns.core.errors import AuditFailed, ConfigError, Conflict, SchemaMismatch
from dedp_assets.patterns.core.masking import MaskingKey
from dedp_assets.patterns.core.records import Approval
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import Table
from dedp_assets.patterns.delta.commit import idempotency
from dedp_assets.patterns.delta.staging import stage_commit
from dedp_assets.patterns.ingestion.passthrough_replicator import replicate_table
from dedp_assets.patterns.ingestion.transformation_replicator import declare_transformed, replicate_transformed
from tests.contracts.known_calls import known_calls
from tests.helpers import a_run, active_files, read_back
from tests.patterns.ingestion.test_passthrough_replicator import two_copies
from tests.renaming import STORED, any_names
from tests.two_runs import two_runs

pytestmark = pytest.mark.budget(60, "replicas of every kind of change")

SECRET = b"0123456789abcdef0123456789ABCDEF"
KEY = MaskingKey("staging-1", SECRET)
DAYS = ("2026-01-05", "2026-01-06", "2026-01-07")
USERS = TableSpec(
    "silver/users",
    {
        "id": Column("BIGINT", "identity", required=True, classification="public"),
        "full_name": Column("STRING", "who", classification="personal"),
        "ip": Column("STRING", "from where", classification="personal"),
        "latitude": Column("DOUBLE", "from where, in degrees", classification="personal"),
        "longitude": Column("DOUBLE", "from where, in degrees", classification="personal"),
        "email": Column("STRING", "how to reach them", classification="personal", replica="pseudonym"),
        "city": Column("STRING", "where they live", classification="public"),
        "signed_up": Column("STRING", "when, as the producer wrote it", classification="public"),
        "balance": Column("DECIMAL(22,2)", "in euros", classification="public"),
        "profile": Column("STRUCT<theme: STRING, tags: ARRAY<STRING>>", "settings", classification="public"),
        "payload": Column("STRING", "what came, as JSON", classification="public"),
        "seen_on": Column("DATE", "when they came", required=True, classification="public"),
    },
    partition_by=("seen_on",),
    checks={"balance_is_known": "balance IS NOT NULL", "ip_is_none_of_ours": "ip NOT LIKE '192.168.%'"},
    comment="One row per user and day.",
)
KEPT = ("id", "city", "signed_up", "balance", "profile", "payload", "seen_on")
MOMENTS = ("2024-03-10", "01/02/2024 3:04 PM", "2024-02-30T25:61", "20240101", "1704067200.123456789", "")
DEVICES = TableSpec(
    "bronze/devices",
    {
        "type": Column("STRING", "kind of device", classification="public"),
        "full_name": Column(
            "STRING",
            "label",
            replica="if(version LIKE '1.%', substring(full_name, 2), full_name)",
            classification="public",
        ),
        "version": Column(
            "STRING", "version", replica="if(version LIKE '1.%', 'invalid', version)", classification="public"
        ),
    },
)


@pytest.fixture
def users(make_table, spark):
    """Three days with three users each, uncompressed, so that a value in a file can be found as it is."""
    spark.conf.set("spark.sql.parquet.compression.codec", "uncompressed")
    table = make_table(USERS)
    put(table, *range(9))
    yield table
    spark.conf.unset("spark.sql.parquet.compression.codec")


@pytest.fixture
def staging(make_table):
    """``staging(spec)``: the replica that the declaration of a source gives."""
    return lambda spec=USERS: make_table(declare_transformed(spec, name=f"staging/{spec.name.split('/')[1]}"))


def user(n, **values):
    given = {
        "id": n,
        "full_name": f"Wilhelmina Canary-{n}",
        "ip": f"203.0.113.{n}",
        "latitude": 48.15625 + n,
        "longitude": -2.34375 - n,
        "email": f"canary{n}@private.example",
        "city": f"City {n % 2}",
        "signed_up": MOMENTS[n % len(MOMENTS)],
        "balance": Decimal("12345678901234567890.10") + n,
        "profile": (f"dark {n}", ["0.10", "x"]),
        "payload": json.dumps({"n": n, "at": "2024-01-01T00:00:00+00:00"}),
        "seen_on": date.fromisoformat(DAYS[n % 3]),
    }
    assert values.keys() <= given.keys()
    return {**given, **values}


def canaries(*numbers):
    """What must not cross, as bytes of a file: the values of the dropped and the masked columns."""
    found = {}
    for n in numbers:
        row = user(n)
        found |= {row[c]: row[c].encode() for c in ("full_name", "ip", "email")}
        found |= {row[c]: struct.pack("<d", row[c]) for c in ("latitude", "longitude")}
    return found


def put(table, *numbers, rows=None):
    spark = table.session
    kinds = ", ".join(f"`{name}` {column.type}" for name, column in table.spec.columns.items())
    given = [user(n) for n in numbers] if rows is None else rows
    frame = spark.createDataFrame([tuple(row[c] for c in table.spec.columns) for row in given], kinds)
    return table.overwrite(frame, provenance=a_run(table.name))


def scan(folder, values):
    """Which of the values are anywhere below a folder: raw in any file (footers, dictionaries, logs), or decoded."""
    found = set()
    for path in (path for path in Path(folder).rglob("*") if path.is_file()):
        raw = path.read_bytes()
        texts = [raw]
        if path.suffix == ".parquet":
            texts.append(str(pq.ParquetFile(path).read().to_pydict()).encode())
            texts.append(str(pq.read_metadata(path).to_dict()).encode())
        for value, packed in values.items():
            if any(packed in text or str(value).encode() in text for text in texts):
                found.add(value)
    return found


def mask(value, secret=SECRET):
    return None if value is None else hmac.new(secret, value.encode(), hashlib.sha256).hexdigest()


def transform(source, target, **options):
    told = {name: options.pop(name) for name in ("partition", "audits") if name in options}
    into = target.target(options.pop("provenance", a_run(target.name)), **told)
    return replicate_transformed(source, into, **{"key": KEY, **options})


def shown(table, *columns, version=None):
    return [{c: row[c] for c in columns} for row in read_back(table, version)]


def by_spark(table):
    return table.session.read.format("delta").load(str(table.location))


def retagged(**columns):
    """The declaration of the users with other tags."""
    known = {name: replace(USERS.columns[name], **tags) for name, tags in columns.items()}
    return replace(USERS, columns={**USERS.columns, **known})


def under(table, spec):
    """The same table under another declaration."""
    return Table(spec, table.location, table.session)


@pytest.mark.both
def test_no_original_is_in_the_rows_or_the_files_of_a_replica(users, staging):
    """Neither in pages, dictionaries and footers nor in the log; the same scan finds all of them in the source."""
    replica = staging()
    result = transform(users, replica)
    DeltaTable(str(replica.location)).create_checkpoint()
    values = canaries(*range(9))
    assert scan(users.location, values) == set(values)
    assert scan(replica.location.parent, values) == set()
    schema = DeltaTable(str(replica.location)).schema()
    assert [field.name for field in schema.fields] == [c for c in USERS.columns if c in (*KEPT, "email")]
    assert (result.rows.read, result.rows.written) == (9, 9)
    finding = next(f for f in result.findings if f.name == "no_personal_value_crossed")
    assert (finding.passed, dict(finding.figures)) == (True, {"crossed": 0})
    assert replica.ledger.commit(result.version).record.verdict == "passed"


def test_other_columns_are_equal_in_value_and_type(users, staging):
    """Decimals, nested values, and times in any notation: nothing is parsed, so nothing is lost."""
    replica = staging()
    transform(users, replica)
    assert shown(replica, *KEPT) == shown(users, *KEPT)
    ours, theirs = ({f.name: f.type for f in DeltaTable(str(t.location)).schema().fields} for t in (replica, users))
    assert {c: ours[c] for c in KEPT} == {c: theirs[c] for c in KEPT}
    assert {row["signed_up"] for row in read_back(replica)} == set(MOMENTS)
    kept, source = (pa.Table.from_pylist(shown(t, *KEPT)) for t in (replica, users))
    assert [kept[c].null_count for c in KEPT] == [source[c].null_count for c in KEPT]
    assert dict(replica.spec.checks) == {"balance_is_known": "balance IS NOT NULL"}


def test_a_rule_changes_only_the_rows_it_is_about(make_table, staging, spark):
    """Version 1: name shortened, version replaced; other rows are equal; empty and missing names do not crash."""
    devices, replica = make_table(DEVICES), staging(DEVICES)
    values = [("a", "Aurora", "1.0"), ("b", "Boreas", "2.1"), ("c", "", "1.2"), ("d", None, "1.3"), ("e", None, None)]
    devices.overwrite(
        spark.createDataFrame(values, "type STRING, full_name STRING, version STRING"), provenance=a_run()
    )
    result = transform(devices, replica)
    assert [tuple(row.values()) for row in read_back(replica)] == [
        ("a", "urora", "invalid"),
        ("b", "Boreas", "2.1"),
        ("c", "", "invalid"),
        ("d", None, "invalid"),
        ("e", None, None),
    ]
    assert {name: result.figures[name] for name in ("altered", "unaltered")} == {"altered": 3, "unaltered": 2}
    assert replica.ledger.commit(result.version).record.figures["altered"] == 3


def test_pseudonyms_agree_across_tables_and_runs(users, staging, make_table, spark):
    """Two replicas join on them as their sources do on the values; a rerun gives the same ones."""
    replica = staging()
    transform(users, replica)
    emails = {row["id"]: row["email"] for row in read_back(replica)}
    assert emails == {n: mask(f"canary{n}@private.example") for n in range(9)}
    orders = TableSpec(
        "silver/orders",
        {
            "n": Column("BIGINT", classification="public"),
            "buyer": Column("STRING", classification="personal", replica="pseudonym"),
        },
    )
    bought, copy = make_table(orders), staging(orders)
    rows = spark.sql("SELECT * FROM VALUES (1L, 'canary4@private.example'), (2L, NULL) AS t(n, buyer)")
    bought.overwrite(rows, provenance=a_run())
    transform(bought, copy)
    assert [row["buyer"] for row in read_back(copy)] == [emails[4], None]
    put(users, *range(9))
    assert not transform(users, replica).changed
    assert {row["id"]: row["email"] for row in read_back(replica)} == emails


def test_the_key_is_nowhere(users, staging, capfd):
    """Not in the replica, its log and ledger, the result, or what was printed; its id is in the table."""
    replica = staging()
    result = transform(users, replica)
    with pytest.raises(ConfigError) as refused:
        transform(users, staging(DEVICES))
    forms = {SECRET: SECRET, SECRET.hex(): SECRET.hex().encode(), repr(SECRET): repr(SECRET).encode()}
    assert scan(replica.location.parent, forms) == set()
    printed = capfd.readouterr()
    said = (repr(result), str(refused.value), printed.out, printed.err, repr(replica.ledger.commit(result.version)))
    assert not [form for form in forms for text in said if str(form) in text or SECRET.decode() in text]
    assert replica.ledger.state().properties["dedp.replica.key"] == "staging-1"


def test_another_key_makes_the_whole_replica_again(users, staging):
    """Pseudonyms of two keys never mix, so the named partition brings the others along."""
    replica = staging()
    transform(users, replica)
    other = MaskingKey("staging-2", SECRET[::-1])
    transform(users, replica, key=other, partition={"seen_on": DAYS[0]})
    assert {row["email"] for row in read_back(replica)} == {mask(user(n)["email"], SECRET[::-1]) for n in range(9)}


def test_a_new_tag_removes_a_column_from_everything_replicated(users, staging):
    """The next run of one partition leaves no trace of it in any partition, file or version, without a code change."""
    for day in DAYS[:2]:
        transform(users, staging(), partition={"seen_on": day})
    before = shown(staging(), "id", "balance")
    assert scan(staging().location.parent, {"City 1": b"City 1"})
    assert "city" in by_spark(staging()).columns
    spec = retagged(city={"classification": "personal"})
    replica = staging(spec)
    transform(under(users, spec), replica, partition={"seen_on": DAYS[0]})
    assert "city" not in replica.ledger.state().columns
    assert scan(replica.location.parent, {"City 1": b"City 1", "City 0": b"City 0"}) == set()
    assert shown(replica, "id", "balance") == before
    assert {str(row["seen_on"]) for row in read_back(replica)} == set(DAYS[:2])
    assert sorted(row["id"] for row in by_spark(replica).collect()) == [row["id"] for row in before]
    assert "city" not in by_spark(replica).columns


def test_a_column_may_be_masked_instead_and_shown_again(users, staging):
    """Whatever a declaration changes, the whole replica follows."""
    transform(users, staging())
    masked = retagged(city={"classification": "personal", "replica": "'somewhere'"})
    transform(under(users, masked), staging(masked))
    assert {row["city"] for row in read_back(staging(masked))} == {"somewhere"}
    transform(users, staging(), partition={"seen_on": DAYS[1]})
    assert shown(staging(), *KEPT) == shown(users, *KEPT)


def test_what_nobody_declared_never_crosses(users, staging):
    """A new column stops the replica, and so does a new field inside of a declared one; the former replica stays."""
    replica = staging()
    transform(users, replica)
    before = read_back(replica)
    location = str(users.location)
    users.session.sql(f"ALTER TABLE delta.`{location}` ADD COLUMNS (phone STRING)")
    with pytest.raises(SchemaMismatch, match="phone is not declared: declare what it holds, and what class it is of"):
        transform(users, replica)
    known = replace(USERS, columns={**USERS.columns, "phone": Column("STRING", classification="personal")})
    transform(under(users, known), staging(known))
    users.session.sql(f"ALTER TABLE delta.`{location}` ADD COLUMNS (profile.nickname STRING)")
    with pytest.raises(
        SchemaMismatch, match="profile is declared as STRUCT<theme: STRING, tags: ARRAY<STRING>> and is"
    ):
        transform(under(users, known), staging(known))
    assert shown(replica, *before[0]) == before


def test_a_declared_column_that_is_not_there_stops_the_replica(users, staging):
    """A replica of a source that has not caught up with its declaration would be none."""
    known = replace(USERS, columns={**USERS.columns, "phone": Column("STRING", classification="public")})
    with pytest.raises(SchemaMismatch, match="phone is declared and not there"):
        transform(under(users, known), staging(known))


PEOPLE = TableSpec(
    "silver/people",
    {
        "id": Column("BIGINT", classification="public"),
        "person": Column("BIGINT", "number of the person", classification="personal"),
        "phone": Column("STRING", classification="personal"),
        "nick": Column("STRING", classification="personal", replica="pseudonym"),
        "name": Column("STRING", classification="personal"),
        "born": Column("DATE", classification="personal", replica="trunc(born, 'YEAR')"),
        "smokes": Column("BOOLEAN", classification="personal", replica="false"),
        "note": Column("STRING", classification="public"),
        "code": Column("DECIMAL(12,2)", classification="public"),
    },
)
CROSSING = {
    "a number as a number": {"code": Decimal("471101.00")},
    "a short name": {"note": "call Li!"},
    "a reformatted phone": {"note": "call 0170/123 45 67"},
    "a decomposed accent": {"note": unicodedata.normalize("NFD", "by Zoë")},
}
NAMED = "no_personal_value_crossed"


def people(table, *rows):
    given = {"id": 1, "person": 471101, "phone": "+49 170 1234567", "nick": "Li", "name": "Zoë"}
    given |= {"born": date(1984, 1, 1), "smokes": False, "note": "ok", "code": Decimal("1.00")}
    kinds = ", ".join(f"`{name}` {column.type}" for name, column in PEOPLE.columns.items())
    frame = table.session.createDataFrame([tuple((given | row).values()) for row in rows], kinds)
    table.overwrite(frame, provenance=a_run(table.name))
    return table


def test_a_crossing_value_is_refused_until_a_person_names_the_audit(make_table, staging):
    """However it is written; the finding lists what cannot be proven, and no blanket approval covers it."""
    source, replica = people(make_table(PEOPLE), {"id": 0}, *CROSSING.values()), staging(PEOPLE)
    listed = "born (dates and times coincide by nature), smokes (truth values coincide by nature)"
    others = [None, Approval("Ada", "looked at it"), Approval("Ada", "looked at it", ("constraints_hold",))]
    for approval in others:
        with pytest.raises(AuditFailed, match=r"no_personal_value_crossed: above 0.*\(crossed=4\)") as refused:
            transform(source, replica, provenance=a_run(replica.name, approval=approval))
        assert f"not provable: {listed}" in str(refused.value)
        assert not replica.location.exists()
        assert list(replica.location.parent.rglob("*.parquet")) == []
    approved = Approval("Ada", "they are test persons", (NAMED,))
    result = transform(source, replica, provenance=a_run(replica.name, approval=approved))
    assert {row["note"] for row in read_back(replica)} >= {"call Li!", "ok"}
    record = replica.ledger.commit(result.version).record
    assert (record.verdict, record.approval) == ("approved", {"by": "Ada", "because": "they are test persons"})
    (finding,) = [f for f in record.findings if f["name"] == NAMED]
    assert (finding["approved_by"], finding["figures"]) == ("Ada", {"crossed": 4})
    clean = transform(people(source, {"id": 0}), replica)
    (finding,) = [f for f in clean.findings if f.name == NAMED]
    assert (finding.passed, finding.note) == (True, f"not provable: {listed}")


LEAKS = {
    "in JSON": {"payload": '{"contact": {"mail": "Canary1@Private.example"}}'},
    "in a nested value": {"profile": ("dark", ["x", "from 203.0.113.1"])},
    "in another column": {"city": "Wilhelmina Canary-1"},
    "a number in text": {"payload": '{"lat": 49.15625}'},
}


@pytest.mark.parametrize("leak", LEAKS.values(), ids=LEAKS)
def test_a_personal_value_in_another_column_stops_the_replica(users, staging, leak):
    """It is found before anything is published; the refused rows are gone, and the error does not repeat the value."""
    replica = staging()
    transform(users, replica)
    before = read_back(replica)
    put(users, rows=[user(0), user(1, **leak), user(2)])
    with pytest.raises(AuditFailed, match=r"no_personal_value_crossed: above 0 \(crossed=1\)") as refused:
        transform(users, replica)
    assert read_back(replica) == before
    assert refused.value.stage is None
    assert {f.name for f in refused.value.findings if f.refuses} == {"no_personal_value_crossed"}
    (value,) = leak.values()
    assert scan(replica.location.parent, {str(v): str(v).encode() for v in (value, *canaries(1))}) == set()
    assert not [v for v in (str(value), *map(str, canaries(1))) if v in str(refused.value)]


def test_what_a_killed_run_staged_goes_with_the_next_one(users, staging, monkeypatch):
    """Rows that nobody judged do not stay in the replica's folder until a vacuum comes by."""
    replica = staging()
    transform(users, replica)
    put(users, *range(8))

    def die(*_, **__):
        raise SystemExit("killed")

    with monkeypatch.context() as patched:
        patched.setattr(idempotency, "decide", die)
        with pytest.raises(SystemExit):
            transform(users, replica)
    gc.collect()
    left = [path for path in replica.location.glob("staged-*") if (path / "_delta_log").exists()]
    assert len(left) == 1
    put(users, *range(7))
    transform(users, replica)
    assert not left[0].exists()
    assert not list(replica.location.glob(".staged-*.claim"))
    assert [row["id"] for row in read_back(replica)] == list(range(7))


def test_a_first_replica_that_is_refused_does_not_exist(users, staging):
    """Nor does anything beside it."""
    put(users, rows=[user(1, city="canary1@private.example")])
    with pytest.raises(AuditFailed, match="no_personal_value_crossed"):
        transform(users, staging())
    assert not staging().location.exists()
    assert scan(staging().location.parent, canaries(1)) == set()


@pytest.mark.parametrize("rule", ["email", "concat('to ', email)", "upper(email)", "if(id = 4, ip, 'x')"])
def test_a_rule_that_lets_values_through_is_refused(users, staging, rule):
    """The audit judges what a rule gives, not what it was meant to do."""
    spec = retagged(email={"replica": rule})
    with pytest.raises(AuditFailed, match="no_personal_value_crossed"):
        transform(under(users, spec), staging(spec))


def test_further_patterns_can_be_forbidden(users, staging):
    """An audit over the replica's rows finds addresses that no declared column holds."""
    put(users, rows=[user(1, payload='{"proxy": "198.51.100.7"}'), user(2)])
    addresses = Audit.none_where("no_text_holds_an_address", r"payload RLIKE '\\d+[.]\\d+[.]\\d+[.]\\d+'")
    with pytest.raises(AuditFailed, match="no_text_holds_an_address"):
        transform(users, staging(), audits=[addresses])


def test_a_rerun_of_a_partition_changes_nothing(users, staging):
    """The same pseudonyms, the same rows, the same files; other partitions are not touched at all."""
    replica = staging()
    for day in DAYS:
        transform(users, replica, partition={"seen_on": day})
    files, rows = active_files(replica), read_back(replica)
    again = transform(users, replica, partition={"seen_on": DAYS[1]})
    assert (again.applied, again.changed) == (False, False)
    put(users, *range(9))
    later = transform(users, replica, partition={"seen_on": DAYS[1]})
    assert (later.applied, later.changed) == (True, False)
    assert (active_files(replica), read_back(replica)) == (files, rows)
    assert shown(replica, *KEPT) == shown(users, *KEPT)


def test_a_partition_that_is_really_made_again_gets_the_same_output(users, staging):
    """Replaced twice, by other rows and by the first ones: the same pseudonyms and rows in files of their own."""
    replica = staging()
    transform(users, replica)
    files, rows = active_files(replica), read_back(replica)
    for numbers in ([0, 1, 2, 3, 5, 6, 7, 8], range(9)):
        put(users, *numbers)
        assert transform(users, replica, partition={"seen_on": DAYS[1]}).changed
        assert [row["id"] for row in read_back(replica)] == sorted(numbers)
    assert read_back(replica) == rows
    kept = {path for path in files if DAYS[1] not in path}
    assert kept < active_files(replica)
    assert not (files - kept) & active_files(replica)


def test_a_changed_partition_is_replaced_alone(users, staging):
    """Rows that are gone go; files of other days stay; a stale run is refused."""
    replica = staging()
    transform(users, replica)
    files, first = active_files(replica), users.ledger.version()
    put(users, *(n for n in range(9) if n != 4))
    transform(users, replica, partition={"seen_on": DAYS[1]})
    assert [row["id"] for row in read_back(replica)] == [0, 1, 2, 3, 5, 6, 7, 8]
    assert {path for path in files if DAYS[1] not in path} == files & active_files(replica)
    with pytest.raises(Conflict, match="is stale"):
        transform(users, replica, partition={"seen_on": DAYS[1]}, version=first)


def test_the_commit_says_what_was_read(users, staging):
    """Version and code of the source are the inputs, the pattern and the figures stand beside them."""
    replica, version = staging(), users.ledger.version()
    result = transform(users, replica, partition={"seen_on": DAYS[0]})
    record = replica.ledger.commit(result.version).record
    assert (record.inputs, record.sequence) == ({"silver/users": version}, version)
    assert record.pattern == "ingestion.transformation_replicator"
    assert record.partition == {"seen_on": DAYS[0]}
    assert replica.ledger.state().applied(replica.name, {"seen_on": DAYS[0]}) == version


@pytest.mark.parametrize("failure", [OSError("disk full"), SystemExit("killed")], ids=repr)
def test_a_rebuild_that_dies_leaves_the_former_replica(users, staging, monkeypatch, failure):
    """The next run makes it again, and nothing of either attempt is left beside it."""
    transform(users, staging())
    before = read_back(staging())
    spec = retagged(city={"classification": "personal"})

    def die(*_, **__):
        raise failure

    with monkeypatch.context() as patched:
        patched.setattr(stage_commit, "commit_files", die)
        with pytest.raises(type(failure), match=str(failure)):
            transform(under(users, spec), staging(spec))
    assert read_back(staging()) == before
    transform(under(users, spec), staging(spec))
    assert scan(staging().location.parent, {"City 1": b"City 1"}) == set()
    assert len(list(staging().location.parent.glob(".users.edition-*"))) == 1


def test_a_reader_of_a_rebuild_sees_one_replica_or_the_other(users, staging):
    """All rows with the column, then all rows without it; a read that the removal interrupts fails and is not short."""
    transform(users, staging())
    done, seen = Event(), []

    def look():
        while not done.is_set():
            try:
                table = DeltaTable(str(staging().location))
                seen.append((table.to_pyarrow_table(columns=["id"]).num_rows, "city" in table.schema().to_json()))
            except (DeltaError, OSError):
                continue

    spec = retagged(city={"classification": "personal"})
    with ThreadPoolExecutor(1) as pool:
        looking = pool.submit(look)
        while not seen:
            assert not looking.done()
            sleep(0.001)
        transform(under(users, spec), staging(spec))
        looked = len(seen)
        while len(seen) < looked + 2:
            assert not looking.done()
            sleep(0.001)
        done.set()
        looking.result()
    assert set(seen) == {(9, True), (9, False)}


def test_a_passthrough_replica_becomes_a_transformed_one(users, staging):
    """Once a source is tagged, its verbatim replica is replaced under the same name, and its files are gone."""
    replica = staging()
    replicate_table(users, replica.target(a_run()), may_hold_personal=True)
    assert scan(replica.location.parent, canaries(1)) == set(canaries(1))
    transform(users, replica)
    assert scan(replica.location.parent, canaries(*range(9))) == set()
    assert shown(replica, *KEPT) == shown(users, *KEPT)


def test_a_partition_by_a_column_that_was_tagged_is_gone(make_table, staging, spark):
    """Also from the names of folders; what the replica held is made again under the columns it keeps."""
    spec = TableSpec(
        "silver/logins",
        {
            "n": Column("BIGINT", classification="public"),
            "login": Column("STRING", classification="public"),
            "day": Column("STRING", classification="public"),
        },
        partition_by=("login", "day"),
    )
    logins, first = make_table(spec), staging(spec)
    values = "(1L, 'canary-login', '1'), (2L, 'other', '1'), (3L, NULL, '2'), (4L, 'canary-login', NULL)"
    rows = spark.sql(f"SELECT * FROM VALUES {values} AS t(n, login, day)")
    logins.overwrite(rows, provenance=a_run())
    transform(logins, first, partition={"day": "1"})
    tagged = replace(spec, columns={**spec.columns, "login": Column("STRING", classification="personal")})
    replica = staging(tagged)
    transform(under(logins, tagged), replica, partition={"day": "2"})
    assert [tuple(row.values()) for row in read_back(replica)] == [(1, "1"), (2, "1"), (3, "2")]
    everything = [str(path) for path in replica.location.parent.rglob("*")]
    assert not [path for path in everything if "canary" in path]


def test_an_empty_source_gives_an_empty_replica_where_it_may(users, staging):
    """With its schema, and the next rows come in; otherwise the replica stays as it is."""
    replica = staging()
    put(users, 1)
    transform(users, replica)
    put(users, rows=[])
    with pytest.raises(AuditFailed, match=r"input_is_not_empty: below 1 \(written=0\)"):
        transform(users, replica)
    assert len(read_back(replica)) == 1
    assert transform(users, replica, allow_empty=True).rows.written == 0
    assert read_back(replica) == []
    put(users, 1)
    transform(users, replica)
    assert len(read_back(replica)) == 1


def test_a_replica_is_declared_by_its_source(users, staging, make_table):
    """The derived declaration has no personal column but pseudonyms, without statistics; another one is refused."""
    spec = declare_transformed(USERS, name="staging/users")
    assert spec.withheld("replica") == ("email",)
    assert spec.columns["email"].type == "STRING"
    assert spec.comment == "One row per user and day. Replica of silver/users without its personal values."
    replica = staging()
    transform(users, replica)
    stated = [json.loads(a["stats"]) for a in adds(replica)]
    assert all("id" in stats["minValues"] and "email" not in json.dumps(stats) for stats in stated)
    wrong = make_table(replace(spec, columns={**spec.columns, "ip": USERS.columns["ip"]}))
    with pytest.raises(ConfigError, match="is not what silver/users makes of it"):
        transform(users, wrong)


def test_a_replica_has_the_event_time_that_it_keeps():
    """It is none, where the column does not cross."""
    at = {
        "id": Column("BIGINT", classification="public"),
        "at": Column("TIMESTAMP", classification="public"),
        "born": Column("DATE", classification="personal"),
    }
    sources = [TableSpec("silver/x", at, event_time=name) for name in ("at", "born", "")]
    assert [declare_transformed(each, name="s/x").event_time for each in sources] == ["at", "", ""]


def adds(table):
    log = sorted((table.location / "_delta_log").glob("*.json"))
    actions = [json.loads(line) for path in log for line in path.read_text().splitlines()]
    return [action["add"] for action in actions if "add" in action]


def test_calls_that_can_never_work_are_refused(users, staging, make_table):
    """Before anything is read or written, and each with what is wrong."""
    with pytest.raises(ConfigError, match=r"declares pseudonyms of \['email'\]: give the key"):
        transform(users, staging(), key=None)
    tagged = retagged(seen_on={"classification": "personal", "replica": "pseudonym", "required": False})
    with pytest.raises(ConfigError, match=r"does not keep \['seen_on'\] as it is"):
        transform(under(users, tagged), staging(tagged), partition={"seen_on": DAYS[0]})
    nothing = replace(DEVICES, columns={"type": Column("STRING", classification="personal", replica="pseudonym")})
    with pytest.raises(ConfigError, match="has no column that its replica may keep"):
        transform(make_table(nothing), staging(nothing))
    several = retagged(city={"replica": "explode(array(city, city))"})
    with pytest.raises(ConfigError, match="declares a rule that fails"):
        transform(under(users, several), staging(several))
    broken = retagged(city={"replica": "no_such_function(city)"})
    with pytest.raises(ConfigError, match="declares a rule that fails"):
        transform(under(users, broken), staging(broken))
    numeric = retagged(city={"replica": "length(city)"})
    with pytest.raises(SchemaMismatch, match="city is INT in the rows and STRING in the table"):
        transform(under(users, numeric), staging(numeric))
    assert not staging().location.exists()


def test_data_of_others_is_never_replaced(users, staging):
    """A table that is no replica stays, whatever it holds."""
    replica = staging()
    write_deltalake(str(replica.location), pa.table({"id": [1]}))
    with pytest.raises(ConfigError, match="holds data of its own"):
        transform(users, replica)
    assert read_back(replica) == [{"id": 1}]


@any_names(STORED, handed_on=("id",))
def replicated(n):
    personal = {
        n.declared("mail"): Column("STRING", classification="personal", replica="pseudonym"),
        n.declared("ip"): Column("STRING", classification="personal"),
    }
    altered = {n.declared("city"): Column("STRING", replica=f"upper({n.q('plan')})", classification="public")}
    checks = {"ip_is_there": f"{n.q('ip')} IS NOT NULL", "id_is_there": f"{n.q('id')} IS NOT NULL"}
    source = n.table("id INT, plan STRING, day STRING", more={**personal, **altered}, by=["day"], checks=checks)
    person = (1, "free", "a/b", "ada@x.org", "10.9.8.7", "Ulm")
    rows = n.frame("id INT, plan STRING, day STRING, mail STRING, ip STRING, city STRING", person)
    source.overwrite(rows, provenance=a_run())
    target = n.make_table(declare_transformed(source.spec, name=f"{source.name}/staging"))
    replicate_transformed(source, target.target(a_run()), key=MaskingKey("k", b"0" * 32))
    yield target


@known_calls
def calls_that_work(known):
    secret = {"id": Column("INT", classification="public"), "email": Column("STRING", classification="personal")}
    users = known.table("silver/users", secret, (1, "ada@example.org"))
    return {
        "declare_transformed": {"source": users.spec, "name": "staging/users"},
        "replicate_transformed": {
            "source": users,
            "into": known.at(declare_transformed(users.spec, name="staging/users")).target(known.run),
            "key": MaskingKey("k", b"x" * 32),
            "version": users.ledger.version(),
        },
    }


@two_runs(under_one_lock=True)
def transformed_at_once(world):
    return two_copies(world, replicate_transformed, declare_transformed)
