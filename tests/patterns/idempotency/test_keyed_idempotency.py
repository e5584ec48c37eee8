"""Keyed Idempotency."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from dataclasses import replace
from datetime import datetime, timezone
from random import Random

import pytest
from pyspark.sql import functions as F

from dedp_assets.patterns.core.errors import AmbiguousKeys, AuditFailed, ConfigError, ContractError
from dedp_assets.patterns.core.names import identifier
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import Insert, Merge, Update
from dedp_assets.patterns.delta.rows import touched_files
from dedp_assets.patterns.idempotency.keyed_idempotency import FIRST, LAST, add_stable_key, key_of, upsert_keyed
from tests.contracts.known_calls import known_calls
from tests.helpers import a_run, read_back
from tests.renaming import STORED, any_names
from tests.two_runs import two_runs

pytestmark = [pytest.mark.spark, pytest.mark.budget(50, "every way to a key that stays")]

VISIT = "user STRING, session INT, happened INT, appended INT, page STRING"
BY_APPEND = {"entity": ["user"], "appended": ["appended"], "group": ["session"]}
SESSIONS = TableSpec(
    "gold/sessions",
    {
        "day": Column("STRING", required=True),
        "user": Column("STRING"),
        "key": Column("STRING", required=True),
        FIRST: Column("STRUCT<appended: INT>"),
        LAST: Column("STRUCT<appended: INT>"),
        "pages": Column("ARRAY<STRING>"),
    },
    partition_by=("day",),
    key=("key",),
)


def reference(*values):
    """The key by its definition, in another language's words."""
    letters = {str: "s", int: "i", bool: "b", bytes: "x"}
    texts = [
        None if v is None else (letters[type(v)], v.hex().upper() if isinstance(v, bytes) else str(v)) for v in values
    ]
    written = ("-" if t is None else f"{t[0]}{len(t[1].encode())}:{t[1]}" for t in texts)
    return hashlib.sha256("".join(written).encode()).hexdigest()


def sessions_of(keyed):
    """One row for each key, as a session table holds it."""
    pages = F.expr("transform(array_sort(collect_list(struct(happened, page))), x -> x.page)").alias("pages")
    ends = [F.max(FIRST).alias(FIRST), F.max(LAST).alias(LAST)]
    return keyed.groupBy("user", "key").agg(*ends, pages).withColumn("day", F.lit("mon"))


def keys(keyed):
    """(user, session) -> its one key."""
    found = {(row["user"], row["session"], row["key"]) for row in keyed.collect()}
    assert len({each[:2] for each in found}) == len(found)
    return {(user, session): key for user, session, key in found}


def test_a_group_has_one_key_however_its_records_come(spark):
    """Three times, in any order, in 1 or 7 partitions, in another time zone: as the definition has it in Python.

    A record that came late with the earliest event time changes nothing; by event time it would, which has to be asked
    for by name. Users with the same append time differ, and so do the sessions of one user.
    """
    random = Random(5)  # noqa: S311 - test data
    visits = [
        (user, session, random.randrange(100), appended, "/")
        for user in (None, "", "Ada", "Bob")
        for session in (1, 2)
        for appended in random.sample(range(session * 100, session * 100 + 50), 6)
    ]
    first = {}
    for user, session, _, appended, _ in visits:
        first[user, session] = min(appended, first.get((user, session), appended))
    expected = {group: reference(group[0], appended) for group, appended in first.items()}
    assert len(set(expected.values())) == len(expected) == 8
    late = [(user, session, -1, 999, "/late") for user, session in expected]
    zone = spark.conf.get("spark.sql.session.timeZone")
    for partitions, zone_of_run in ((1, zone), (7, "Asia/Tokyo")):
        random.shuffle(visits)
        spark.conf.set("spark.sql.session.timeZone", zone_of_run)
        for delivered in (visits, [*late, *visits])[-partitions:]:
            rows = spark.createDataFrame(delivered, VISIT).repartition(partitions)
            assert keys(add_stable_key(rows, **BY_APPEND)) == expected
    spark.conf.set("spark.sql.session.timeZone", zone)
    by_event = {"entity": ["user"], "event_time": ["happened"], "group": ["session"]}
    before, after = (keys(add_stable_key(spark.createDataFrame(v, VISIT), **by_event)) for v in (visits, late + visits))
    assert all(before[group] != after[group] for group in expected)


def test_values_of_a_key_do_not_run_into_each_other(spark):
    """("ab", "c") differs from ("a", "bc"), NULL from an empty text, a number from its text, a time is its instant."""
    columns = "a STRING, b STRING, n INT, f BOOLEAN, x BINARY, appended TIMESTAMP"
    at = datetime(2026, 1, 5, 23, 30, tzinfo=timezone.utc)
    rows = [
        ("ab", "c", 1, True, b"\x00", at),
        ("a", "bc", 1, True, b"\x00", at),
        (None, "", 1, True, b"\x00", at),
        ("", None, 1, True, b"\x00", at),
        ("a\n:ä", "-", 1, False, None, at),
        ("a\n:ä", "-", None, False, None, at),
    ]
    frame = spark.createDataFrame(rows, columns)
    names = ["a", "b", "n"]
    found = [row["key"] for row in frame.selectExpr("*", f"{key_of(frame, names)} AS key").collect()]
    assert found == [reference(*row[:3]) for row in rows]
    keyed = add_stable_key(frame, entity=["a", "b", "n", "f", "x"], appended=["appended"])
    assert len({row["key"] for row in keyed.collect()}) == len(rows)
    as_text = frame.selectExpr("a", "b", "CAST(n AS STRING) AS n", "f", "x", "appended")
    other = add_stable_key(as_text, entity=["a", "b", "n", "f", "x"], appended=["appended"])
    numbers, texts = ({row["key"] for row in found.filter("n = 1").collect()} for found in (keyed, other))
    assert not numbers & texts
    with pytest.raises(ConfigError, match="`price` is DOUBLE"):
        add_stable_key(spark.sql("SELECT 1.5D AS price, 1 AS at"), entity=["price"], appended=["at"])


def test_the_hash_of_a_python_process_is_no_key():
    """Why it is not used: two processes give two values for one text."""
    code = [sys.executable, "-c", "print(hash('Ada'))"]
    seeds = [{"PYTHONHASHSEED": seed} for seed in ("1", "2")]
    first, second = (subprocess.run(code, env=seed, capture_output=True, check=True).stdout for seed in seeds)
    assert first != second


@pytest.mark.promise("known-groups-keep-their-keys")
@pytest.mark.both
def test_known_groups_keep_their_keys_whatever_the_source_lost(spark):
    """One registry, each entity another story; what cannot be told is refused by name of its key, by both options."""
    before = [
        *[("same", 1, 0, 10, "/"), ("same", 1, 0, 19, "/")],
        *[("late", 1, 0, 10, "/"), ("late", 1, 0, 19, "/")],
        *[("purged", 1, 0, 10, "/"), ("purged", 1, 0, 19, "/"), ("purged", 2, 0, 30, "/")],
        *[("bridged", 1, 0, 10, "/"), ("bridged", 2, 0, 19, "/")],
        *[("cut", 1, 0, 10, "/"), ("cut", 1, 0, 15, "/"), ("cut", 1, 0, 19, "/")],
    ]
    now = [
        *[("same", 4, 0, 10, "/"), ("same", 4, 0, 19, "/")],
        *[("late", 1, -9, 25, "/"), ("late", 1, 0, 10, "/"), ("late", 1, 0, 19, "/"), ("late", 2, 0, 26, "/")],
        *[("purged", 1, 0, 19, "/"), ("purged", 1, 0, 40, "/"), ("purged", 2, 0, 30, "/")],
        *[("bridged", 1, 0, 10, "/"), ("bridged", 1, 0, 15, "/"), ("bridged", 1, 0, 19, "/")],
        *[("cut", 1, 0, 10, "/"), ("cut", 2, 0, 19, "/")],
        ("new", 1, 0, 50, "/"),
    ]
    known = sessions_of(add_stable_key(spark.createDataFrame(before, VISIT), **BY_APPEND))
    rows = spark.createDataFrame(now, VISIT)
    kept = add_stable_key(rows, known, **BY_APPEND, if_purged="keep")
    assert keys(kept) == {
        ("same", 4): reference("same", 10),
        ("late", 1): reference("late", 10),
        ("late", 2): reference("late", 26),
        ("purged", 1): reference("purged", 10),
        ("purged", 2): reference("purged", 30),
        ("bridged", 1): reference("bridged", 10),
        ("cut", 1): reference("cut", 10),
        ("cut", 2): reference("cut", 19),
        ("new", 1): reference("new", 50),
    }
    told = {row["user"]: row[FIRST]["appended"] for row in kept.filter("session = 1").collect()}
    assert told["purged"] == 10  # what the key was made of, for the next run
    silent = keys(add_stable_key(rows, **BY_APPEND))
    assert silent["purged", 1] == reference("purged", 19)  # what happens to whoever does not ask
    with pytest.raises(Exception, match=f"{reference('purged', 10)} begins with another record"):
        add_stable_key(rows, known, **BY_APPEND).collect()
    lost = spark.createDataFrame([("purged", 1, 0, 41, "/")], VISIT)
    for option in ("keep", "fail"):
        with pytest.raises(Exception, match="neither end is left of the group with the key"):
            add_stable_key(lost, known, **BY_APPEND, if_purged=option).collect()
    alone = {"entity": ["user"], "appended": ["appended"]}
    one = sessions_of(add_stable_key(spark.createDataFrame(before[:2], VISIT), **alone))
    later = spark.createDataFrame([("same", 1, 0, 99, "/")], VISIT)
    assert set(keys(add_stable_key(later, one, **alone, if_purged="keep")).values()) == {reference("same", 10)}


@pytest.mark.both
def test_a_rerun_updates_in_place_and_an_append_is_refused(spark, make_table):
    """After a failure, with a late visit of 09:55: the same session, once, with all pages; what vanished is removed."""
    table = make_table(SESSIONS)
    visits = [("Ada", 1, 1000, 1009, "/a"), ("Ada", 1, 1005, 1010, "/b"), ("Bob", 1, 1000, 1009, "/a")]

    def write(delivered, number, **more):
        rows = spark.createDataFrame(delivered, VISIT)
        known = table.read({"day": "mon"}) if table.ledger.exists() else None
        keyed = add_stable_key(rows, known, **BY_APPEND)
        run = a_run("gold/sessions", run_id=str(number), sequence=number, inputs={"visits": number})
        return upsert_keyed(sessions_of(keyed), table.target(run, partition={"day": "mon"}), **more)

    def held():
        return {(row["user"], row["key"]): row["pages"] for row in read_back(table)}

    write(visits, 1)
    ada, bob = ("Ada", reference("Ada", 1009)), ("Bob", reference("Bob", 1009))
    assert held() == {ada: ["/a", "/b"], bob: ["/a"]}
    assert not write(visits, 1).changed
    written = write([*visits, ("Ada", 1, 955, 1011, "/late")], 2)
    assert held() == {ada: ["/late", "/a", "/b"], bob: ["/a"]}
    assert {name: written.figures[name] for name in ("inserted", "updated", "deleted")} == {
        "inserted": 0,
        "updated": 1,
        "deleted": 0,
    }
    write([*visits[:2], ("Ada", 1, 955, 1011, "/late")], 3)
    assert held() == {ada: ["/late", "/a", "/b"]}
    with pytest.raises(ContractError, match=r"gold/sessions: the group with the key .* begins with another record"):
        write([("Ada", 1, 955, 1011, "/late")], 4)
    assert held() == {ada: ["/late", "/a", "/b"]}


def test_rows_of_a_keyed_table_come_by_their_key_only(spark, make_table):
    """An append and a key that comes twice are refused; what the refusal is for: without a key, a retry doubles."""
    table, unkeyed = make_table(SESSIONS), make_table(replace(SESSIONS, name="gold/unkeyed", key=()))
    rows = sessions_of(add_stable_key(spark.createDataFrame([("Ada", 1, 0, 1, "/")], VISIT), **BY_APPEND))
    with pytest.raises(ConfigError, match="keyed by key, which an append could bring twice"):
        table.append(rows, provenance=a_run(sequence=9))
    with pytest.raises(AmbiguousKeys):
        upsert_keyed(rows.unionByName(rows), table.target(a_run(sequence=9)))
    with pytest.raises(ConfigError, match="declares no key"):
        upsert_keyed(rows, unkeyed.target(a_run()))
    for number in (1, 2):  # what the refusal is for
        unkeyed.append(rows, provenance=a_run("gold/unkeyed", sequence=number))
    assert len(read_back(unkeyed)) == 2


def test_options_that_make_no_stable_key_are_refused(spark):
    """No order, two orders, names that are taken, and records that do not say when they were appended."""
    rows = spark.createDataFrame([("Ada", 1, 0, None, "/")], VISIT)
    for options in ({}, {"appended": ["appended"], "event_time": ["happened"]}):
        with pytest.raises(ConfigError, match="on purpose"):
            add_stable_key(rows, entity=["user"], **options)
    with pytest.raises(ConfigError, match="page, which this step adds"):
        add_stable_key(rows, entity=["user"], appended=["appended"], key="page")
    with pytest.raises(Exception, match="no stable key: a record does not say when"):
        add_stable_key(rows, entity=["user"], appended=["appended"]).collect()


def test_a_stream_gives_the_same_keys(spark, tmp_path):
    """With the first append time as state, and late events in a later micro-batch: as the batch has it."""
    batches = [
        [("Ada", 1, 1000, 1009, "/"), ("Bob", 1, 1000, 1009, "/")],
        [("Ada", 1, 955, 1011, "/late"), ("Bob", 1, 900, 1010, "/late")],
    ]
    for number, batch in enumerate(batches):
        spark.createDataFrame(batch, VISIT).coalesce(1).write.parquet(str(tmp_path / "in" / str(number)))
    visits = spark.readStream.schema(VISIT).option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "in" / "*"))
    first = visits.groupBy("user").agg(F.expr(f"min(struct(appended)) AS {FIRST}"))
    keyed = first.selectExpr("user", f"{key_of(first, ['user', f'{FIRST}.appended'])} AS key")
    writer = keyed.writeStream.outputMode("update").option("checkpointLocation", str(tmp_path / "checkpoint"))
    seen = tmp_path / "seen"

    def keep(rows, number):
        rows.write.parquet(str(seen / str(number)))

    query = writer.foreachBatch(keep).trigger(availableNow=True).start()
    query.awaitTermination()
    found = {tuple(row) for row in spark.read.parquet(str(seen / "*")).collect()}
    assert len(list(seen.iterdir())) >= 2
    assert found == {("Ada", reference("Ada", 1009)), ("Bob", reference("Bob", 1009))}


DAYS = TableSpec(
    "gold/keyed_days",
    {"key": Column("STRING"), "day": Column("STRING"), "n": Column("INT")},
    partition_by=("day",),
    key=("key",),
)
DAY_ROWS = "key STRING, day STRING, n INT"


def held_in(table):
    return sorted((row["key"], row["day"], row["n"]) for row in read_back(table)) if table.ledger.exists() else []


@pytest.fixture(params=["files", "statements"])
def keyed_days(request, make_table):
    """A table with a key that does not say which partition a row is of, once as one that only Delta's SQL changes."""
    fed = {"delta.enableChangeDataFeed": "true"} if request.param == "statements" else {}
    return make_table(replace(DAYS, properties=fed))


def test_a_declared_key_is_there_once_whatever_is_written(spark, keyed_days):
    """A key of Tuesday is refused for Monday and moves if no partition is named; NULL and repeated ones are refused."""
    table = keyed_days

    def write(*rows, **options):
        return upsert_keyed(spark.createDataFrame(rows, DAY_ROWS), table.target(a_run(), **options))

    monday, tuesday = {"day": "mon"}, {"day": "tue"}
    write(("a", "mon", 1), ("b", "mon", 1), partition=monday)
    write(("k", "tue", 1), ("l", "tue", 1), partition=tuesday)
    before = held_in(table)
    for rows, error in (
        ([("k", "mon", 2), ("a", "mon", 2)], "day=mon have keys of the source already.*'key': 'k', 'day': 'tue'"),
        ([(None, "mon", 2), (None, "mon", 3)], "2 of 2 rows have NULL in key"),
        ([("a", "mon", 2), ("a", "mon", 3)], "several rows for one key"),
    ):
        with pytest.raises(AmbiguousKeys, match=error):
            write(*rows, partition=monday)
        assert held_in(table) == before
    write(("a", "mon", 1), ("c", "mon", 3), partition=monday)
    write(("k", "mon", 2))
    assert held_in(table) == [("a", "mon", 1), ("c", "mon", 3), ("k", "mon", 2), ("l", "tue", 1)]


def test_no_rows_empty_a_partition_only_if_somebody_says_so(spark, keyed_days):
    """As of a partition that is overwritten: a source that delivers nothing is usually broken."""
    table, nothing = keyed_days, spark.createDataFrame([], DAY_ROWS)
    rows = spark.createDataFrame([("a", "mon", 1)], DAY_ROWS)
    upsert_keyed(rows, table.target(a_run(), partition={"day": "mon"}))
    with pytest.raises(AuditFailed, match="input_is_not_empty"):
        upsert_keyed(nothing, table.target(a_run(inputs={"n": 2}), partition={"day": "mon"}))
    assert held_in(table) == [("a", "mon", 1)]
    upsert_keyed(nothing, table.target(a_run(inputs={"n": 3})))
    assert held_in(table) == [("a", "mon", 1)]
    upsert_keyed(nothing, table.target(a_run(inputs={"n": 4}), partition={"day": "mon"}), allow_empty=True)
    assert held_in(table) == []


@pytest.mark.parametrize(
    ("write", "error"),
    [
        (lambda t, rows: t.append(rows, provenance=a_run(sequence=1)), "an append could bring twice"),
        (
            lambda t, rows: t.overwrite(rows, partition={"day": "mon"}, provenance=a_run()),
            "may stand outside of day=mon",
        ),
        (lambda t, rows: t.overwrite(rows.union(rows), provenance=a_run()), "rows without a key of their own="),
        (
            lambda t, rows: t.overwrite(rows.selectExpr("CAST(NULL AS STRING) key", "day", "n"), provenance=a_run()),
            "rows without a key of their own=1",
        ),
        (lambda t, rows: merged(t, rows, [Insert()], keys=["n"]), "merge by n could bring twice"),
        (lambda t, rows: merged(t, rows, [Insert()], keys=["key", "n"]), "merge by key, n could bring twice"),
        (lambda t, rows: merged(t, rows, [Insert()], on="t.n > s.n"), "rows that do not meet by"),
        (lambda t, rows: merged(t, rows, [Update({"KEY": "'a'"})]), "key would become 'a'"),
        (lambda t, rows: merged(t, rows, [Insert({"n": "1"})]), "key would become NULL"),
        (lambda t, rows: t.recompute(rows, keys=["n"], identity=["n"], compute=max, provenance=a_run()), "not by n"),
    ],
)
def test_a_write_that_could_bring_a_declared_key_twice_is_refused(spark, make_table, write, error):
    """Whatever is asked for: rows that are added, a partition that the key does not name, a merge by something else."""
    table = make_table(DAYS)
    upsert_keyed(spark.createDataFrame([("b", "tue", 1)], DAY_ROWS), table.target(a_run()))
    with pytest.raises((ConfigError, AuditFailed), match=error):
        write(table, spark.createDataFrame([("a", "mon", 1)], DAY_ROWS))
    assert held_in(table) == [("b", "tue", 1)]


def merged(table, rows, clauses, **options):
    return table.merge(rows, Merge(**{"keys": ["key"], "clauses": clauses, **options}), provenance=a_run())


def test_a_key_that_names_the_partition_needs_no_look_at_others(spark, make_table):
    """Then the partition may be replaced as well, once its rows have one key each; the same key may stand elsewhere."""
    table = make_table(replace(DAYS, name="gold/by_day", key=("day", "key")))
    rows = spark.createDataFrame([("a", "mon", 1), ("b", "mon", 1)], DAY_ROWS)
    upsert_keyed(spark.createDataFrame([("a", "tue", 9)], DAY_ROWS), table.target(a_run()))
    upsert_keyed(rows, table.target(a_run(), partition={"day": "mon"}))
    table.overwrite(rows.filter("key = 'a'"), partition={"day": "mon"}, provenance=a_run())
    with pytest.raises(AuditFailed, match="rows without a key of their own="):
        table.overwrite(rows.union(rows), partition={"day": "mon"}, provenance=a_run())
    assert held_in(table) == [("a", "mon", 1), ("a", "tue", 9)]


@pytest.mark.parametrize("many", [False, True])
def test_a_partition_written_by_key_holds_these_rows_and_no_others(spark, make_table, monkeypatch, many):
    """Once with files rewritten as they are, and once with only those that hold a row to change."""
    if many:
        monkeypatch.setattr(touched_files, "SMALL_BYTES", -1)
    table, monday = make_table(replace(DAYS, key=("key", "day"))), {"day": "mon"}
    upsert_keyed(spark.createDataFrame([("x", "tue", 0)], DAY_ROWS), table.target(a_run()))
    rows = [[("a", 1), ("b", 1), ("c", 1)], [("b", 1), ("c", 2), ("d", 1)], [("b", 1), ("c", 2), ("d", 1)]]
    for number, pairs in enumerate(rows):
        frame = spark.createDataFrame([(key, "mon", n) for key, n in pairs], DAY_ROWS)
        done = upsert_keyed(frame, table.target(a_run(inputs={"n": number}), partition=monday))
        assert held_in(table) == sorted([(key, "mon", n) for key, n in pairs] + [("x", "tue", 0)])
    assert not done.changed


@any_names(handed_on=("part",))
def keyed(n):
    rows = n.frame("user STRING, seq INT, part INT", ("Ada", 7, 1), ("Ada", 5, 1), (None, 3, 2))
    given = add_stable_key(rows, entity=n.all("user"), appended=n.all("seq"), key=n("key"))
    known = given.select(*map(identifier, [*n.all("user", "key"), FIRST, LAST])).distinct()
    later, options = rows.filter(f"{n.q('seq')} <> 5"), {"entity": n.all("user"), "appended": n.all("seq")}
    yield add_stable_key(later, known, **options, key=n("key"), if_purged="keep")


@any_names(STORED, handed_on=("number",))
def upserted(n):
    columns = "id STRING, number INT, day STRING"
    table = n.table(columns, key=(n.declared("id"),), by=["day"])
    for rows in ([("a", 1, "d/1"), ("b", 1, "d/1")], [("a", 2, "d/1"), ("c", 1, "d/1")]):
        upsert_keyed(n.frame(columns, *rows), table.target(a_run(), partition={n("day"): "d/1"}))
    yield table


@pytest.mark.parametrize("key", [FIRST, "__dedp_record"])
def test_a_column_that_is_called_as_one_that_is_added_is_refused(spark, key):
    """What a step adds would take the place of the user's own column: the refusal names it, and no row is wrong."""
    with pytest.raises(ConfigError, match=r"__dedp_|first_record"):
        add_stable_key(spark.createDataFrame([], "a INT, b INT"), entity=["a"], appended=["b"], key=key)


@known_calls
def calls_that_work(known):
    keyed = known.table("gold/keyed", "id INT, day STRING", by=("day",), key=("id",))
    return {
        "add_stable_key": {
            "rows": known.visits,
            "known": None,
            "entity": ["user"],
            "appended": ["id"],
            "event_time": [],
            "group": ["page"],
            "key": "key",
        },
        "key_of": {"rows": known.visits, "values": ["id"]},
        "upsert_keyed": {
            "rows": known.frame("id INT, day STRING", (1, "2026-01-05")),
            "into": keyed.target(known.run),
            "since": 0,
        },
    }


@two_runs()
def upserted_at_once(world):
    columns = "key STRING, day STRING, n INT"
    table = world.table("keyed", columns, by=["day"], key=("key", "day"))
    upsert_keyed(world.frame(columns, ("a", "mon", 0), ("z", "tue", 0)), table.target(world.run("base")))

    def write(w, name, *rows):
        upsert_keyed(w.frame(columns, *rows), w.into("keyed", name, "mon"))

    yield lambda w: write(w, "1", ("b", "mon", 1))
    yield lambda w: write(w, "2", ("b", "mon", 2), ("c", "mon", 2))


@two_runs()
def upserted_elsewhere_at_once(world):
    columns = "key STRING, day STRING, n INT"
    world.table("keyed", columns, by=["day"], key=("key",))
    upsert_keyed(world.frame(columns, ("a", "mon", 0), ("z", "tue", 0)), world.into("keyed", "base"))
    for day in ("mon", "tue"):
        yield lambda w, day=day: upsert_keyed(w.frame(columns, ("k", day, 1)), w.into("keyed", day, day))


@two_runs()
def upserted_from_at_once(world):
    """Rows that were computed from those that are there, at a version."""
    columns = "key STRING, day STRING, n INT"
    table = world.table("keyed", columns, by=["day"], key=("key", "day"))
    upsert_keyed(world.frame(columns, ("a", "mon", 1)), table.target(world.run("base")))

    def write(w, name, more):
        since = w["keyed"].ledger.version()
        rows = w["keyed"].read({"day": "mon"}, version=since).selectExpr("key", "day", f"n * 2 + {more} AS n")
        upsert_keyed(rows, w.into("keyed", name, "mon"), since=since)

    yield lambda w: write(w, "1", 1)
    yield lambda w: write(w, "2", 5)
