"""Vertical Partitioner (storage)."""

from __future__ import annotations

import os
from collections import Counter
from contextlib import nullcontext
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from zlib import crc32

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from dedp_assets.patterns.core.audits import Audit
from dedp_assets.patterns.core.errors import AuditFailed, ConfigError, NotReady
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import Table, group_of
from dedp_assets.patterns.delta.maintenance import hold_partition, rewrite
from dedp_assets.patterns.delta.staging import stage_commit
from dedp_assets.patterns.ingestion.compactor import vacuum
from dedp_assets.patterns.storage import vertical_partitioner
from dedp_assets.patterns.storage.vertical_partitioner import expire_part, join_parts, write_parts
from tests.contracts.known_calls import known_calls
from tests.helpers import a_run, active_files, files_of, read_back
from tests.patterns.storage.models import reference
from tests.renaming import STORED, any_names
from tests.two_runs import two_runs

pytestmark = [pytest.mark.spark, pytest.mark.budget(35, "three tables of a group, and a death at each commit")]

HOT = {
    "day": Column("STRING", required=True),
    "visit-id": Column("BIGINT", required=True),
    "event_time": Column("TIMESTAMP"),
    "page": Column("STRING"),
}
TECHNICAL = {f"t{n}": Column("STRING") for n in range(8)}
PEOPLE = {"country": Column("STRING"), "age": Column("INT")}
_HASH = {"technical": Column("STRING", required=True)}
SPECS = (
    TableSpec("gold/visits", HOT | _HASH, ("day",), key=("day", "visit-id")),
    TableSpec("gold/contexts", {"day": HOT["day"], **_HASH, **TECHNICAL}, ("day",), key=("day", "technical")),
    TableSpec(
        "gold/people", {"visit-id": HOT["visit-id"], "day": HOT["day"], **PEOPLE}, ("day",), key=("visit-id", "day")
    ),
)
COLUMNS = [*HOT, *TECHNICAL, *PEOPLE]
SCHEMA = ", ".join(f"`{name}` {column.type}" for name, column in (HOT | TECHNICAL | PEOPLE).items())
NOW = datetime(2026, 1, 5)  # noqa: DTZ001 - as Spark shows it: the session is in UTC
DAYS = ["2025-06-30", "2025-07-01", "2026-01-05"]


def visits_of(day, count, contexts=5, start=0):
    """Visits of a day, of as many contexts; one row has no context at all."""
    texts = [tuple(f"{name} of {n} / {'x' * 20}" for name in TECHNICAL) for n in range(contexts)]
    texts[0] = (None,) * len(TECHNICAL)
    return [
        (
            day,
            n,
            NOW + timedelta(minutes=7 * n),
            f"/{n}",
            *texts[n if n < contexts else crc32(b"%d" % n) % contexts],
            "US" if n % 3 else None,
            n % 90,
        )
        for n in range(start, start + count)
    ]


def write(spark, tables, rows, day, *, name="", **more):
    frame = rows if hasattr(rows, "sparkSession") else spark.createDataFrame(rows, SCHEMA)
    run = a_run("gold/visits", run_id=f"run {name}", inputs={"landing": f"{day} {name}"})
    into = [table.target(run, partition={"day": day}) for table in tables]
    return write_parts(frame, *into, **more)


def joined(tables):
    """How often each row is there."""
    found = join_parts(*tables)
    assert [*found.columns] == COLUMNS
    return Counter(map(tuple, found.collect()))


def keys_of(tables, **versions):
    """The key sets of the parts, in each table once."""
    main, contexts, people = (read_back(table, versions.get(table.name)) for table in tables)
    hashes = [(row["day"], row["technical"]) for row in contexts]
    assert max(Counter(hashes).values()) == 1
    assert {*hashes} == {(row["day"], row["technical"]) for row in main}
    keys = [sorted((row["day"], row["visit-id"]) for row in rows) for rows in (main, people)]
    assert keys[0] == keys[1]
    assert len({*keys[0]}) == len(keys[0])
    return keys[0]


@pytest.fixture(scope="module")
def stored(spark, tmp_path_factory):
    """Two days in parts, and in a table with all columns; to be read only."""
    root = tmp_path_factory.mktemp("parts")
    tables = [Table(spec, root / spec.name, spark) for spec in SPECS]
    whole = Table(TableSpec("gold/whole", HOT | TECHNICAL | PEOPLE, ("day",)), root / "whole", spark)
    rows = [row for day in DAYS[1:] for row in visits_of(day, 3000, contexts=50)]
    frame = spark.createDataFrame(rows, SCHEMA).coalesce(1).persist()
    for day in DAYS[1:]:
        write(spark, tables, frame.filter(f"day = '{day}'"), day)
    whole.overwrite(frame, provenance=a_run("gold/whole"))
    frame.unpersist()
    return tables, whole, rows


@pytest.fixture
def tables(make_table):
    return [make_table(spec) for spec in SPECS]


def bytes_of(*tables):
    return sum(file["size_bytes"] for table in tables for file in table.ledger.state().files())


def test_the_join_has_the_rows_as_they_came_and_each_part_a_key_once(stored):
    """Acceptance 1: nothing is lost, nothing is there twice, also where a context or a column of it is NULL."""
    tables, _, rows = stored
    assert joined(tables) == Counter(rows)
    assert len(keys_of(tables)) == len(rows) == 6000
    (none,) = [row for row in read_back(tables[1]) if row["day"] == DAYS[1] and row["t0"] is None]
    assert none["technical"] == reference(*[None] * 8)
    assert {row["technical"] for row in read_back(tables[1])} == {reference(*row[4:12]) for row in rows}


def test_an_hourly_count_reads_files_of_the_primary_table_only(stored):
    """Acceptance 2: one file a day; the join reads those of all parts."""
    tables, whole, _ = stored

    def hourly(frame):
        return frame.selectExpr("date_trunc('HOUR', event_time) AS hour").groupBy("hour").count()

    primary, back = tables[0].read(), join_parts(*tables)
    read = hourly(primary).inputFiles()
    assert {path.partition("/gold/visits/")[2] for path in read} == active_files(tables[0])
    assert len(read) == 2
    read = sorted(path.split("/")[-3] for path in back.inputFiles())
    assert read == ["contexts", "contexts", "people", "people", "visits", "visits"]
    assert sorted(hourly(primary).collect()) == sorted(hourly(whole.read()).collect())


def test_context_that_is_stored_once_takes_fewer_bytes(stored, make_table):
    """Acceptance 3: of 6,000 rows with 50 contexts a day; a part with a row for each row costs its keys instead."""
    tables, whole, _ = stored
    without_people = make_table(TableSpec("gold/without_people", HOT | TECHNICAL, ("day",)))
    without_people.overwrite(whole.read().drop(*PEOPLE), provenance=a_run("gold/without_people"))
    assert len(read_back(tables[1])) == 100
    assert bytes_of(*tables[:2]) < 0.9 * bytes_of(without_people)
    assert bytes_of(*tables) > bytes_of(*tables[:2]) + bytes_of(whole) - bytes_of(without_people)


@pytest.mark.both
def test_context_expires_and_the_rows_stay(spark, tables):
    """Acceptance 4: context before 1 July is NULL in the join, its files go by vacuum; no file of others changes."""
    rows = [row for day in DAYS[:2] for row in visits_of(day, 20)]
    for day in DAYS[:2]:
        write(spark, tables, [row for row in rows if row[0] == day], day)
    main, contexts, people = tables
    kept, before = [active_files(main), active_files(people)], files_of(contexts, day=DAYS[0])
    expire = partial(expire_part, contexts.target(a_run("expiry", run_id="expiry")), main, people)
    done = expire(before="2025-07-01")
    assert (done.figures["partitions expired"], done.changed, done.partition) == (1, True, {"day": DAYS[0]})
    assert Counter(row["day"] for row in read_back(contexts)) == {DAYS[1]: 5}
    assert [active_files(main), active_files(people)] == kept
    expected = [(*row[:4], *[None] * 8, *row[12:]) if row[0] == DAYS[0] else row for row in rows]
    assert joined(tables) == Counter(expected)
    again = expire(before="2025-07-01")
    assert (again.figures["partitions expired"], again.changed) == (0, False)
    assert "no partition of gold/contexts is older than 2025-07-01" in again.reason
    newest = contexts.ledger.commit(contexts.ledger.version()).timestamp
    vacuum(contexts.target(a_run("vacuum")), retention_hours=7 * 24, now=newest + timedelta(days=8))
    assert not any(contexts.store.entries([*before]))
    assert joined(tables) == Counter(expected)
    write(spark, tables, rows[:20], DAYS[0], name="backfill")
    assert joined(tables) == Counter(rows)
    forgotten = contexts.target(a_run("expiry", run_id="the other context was forgotten"))
    assert expire_part(forgotten, main, before="2025-07-01").changed
    assert joined(tables) == Counter(expected)


def test_parts_are_read_after_their_files_were_compacted_and_vacuumed(spark, tables):
    """The group shows what maintenance made of its versions, and nothing that somebody else wrote."""
    rows = [row for day in DAYS[:2] for row in visits_of(day, 20)]
    for day in DAYS[:2]:
        write(spark, tables, [row for row in rows if row[0] == day], day)
    contexts = tables[1]
    before = active_files(contexts)
    state = contexts.ledger.state()
    files = {key: [file] for file, key in state.keyed_files()}
    sizes = {"small_bytes": 1 << 20, "target_bytes": 1 << 20}
    rewrite(contexts, state, files, provenance=a_run("compaction"), **sizes, as_they_are=True)
    newest = contexts.ledger.commit(contexts.ledger.version()).timestamp
    vacuum(contexts.target(a_run("vacuum")), retention_hours=7 * 24, now=newest + timedelta(days=8))
    assert not any(contexts.store.entries([*before]))
    assert joined(tables) == Counter(rows)
    spark.sql(f"DELETE FROM delta.`{contexts.store.address}` WHERE day = '{DAYS[0]}'")
    assert joined(tables) == Counter(rows)


def test_partitions_by_numbers_expire_by_number(spark, make_table):
    """9 is before 10, though not as a text, and stays while held; the primary, and what is no number, are refused."""
    number = {"day": Column("INT", required=True), "visit-id": HOT["visit-id"]}
    main = TableSpec("gold/numbers", number, ("day",), key=("day", "visit-id"))
    tables = [make_table(main), make_table(replace(main, name="gold/ages", columns=number | {"age": Column("INT")}))]
    for day in (-1, 9, 10):
        write(spark, tables, spark.sql(f"SELECT {day} AS day, 1L AS `visit-id`, 7 AS age"), day)
    hold = partial(hold_partition, tables[1], {"day": 9}, a_run(), by="legal", because="case 17")
    hold(release=False)
    done = expire_part(tables[1].target("expiry"), tables[0], before="10")
    assert (done.figures["partitions expired"], done.figures["partitions held"]) == (1, 1)
    assert expire_part(tables[1].target("expiry"), tables[0], before="10").reason == (
        "on legal hold: day=9 (legal: case 17)"
    )
    hold(release=True)
    assert expire_part(tables[1].target("expiry"), tables[0], before="10").figures["partitions expired"] == 1
    assert [row["day"] for row in read_back(tables[1])] == [10]
    assert len(read_back(tables[0])) == 3
    whole = [make_table(replace(table.spec, name=f"gold/whole_{n}", partition_by=())) for n, table in enumerate(tables)]
    for into, main, before in (
        (tables[0].target("expiry"), tables[0], "10"),
        (tables[1].target("expiry"), tables[0], "ten"),
        (whole[1].target("expiry"), whole[0], "10"),
        (tables[1].target("expiry"), whole[0], "10"),
    ):
        with pytest.raises(ConfigError, match=r"twice, again|ten|must be partitioned"):
            expire_part(into, main, before=before)


def test_the_source_is_read_once(spark, tables, tmp_path, monkeypatch):
    """Acceptance 5: what the source is asked for leaves a file each time; without keeping rows each part asks."""

    def asked(batches):
        (tmp_path / f"asked {os.urandom(8).hex()}").touch()
        yield from batches

    def times(name):
        source = spark.createDataFrame(visits_of(DAYS[0], 10), SCHEMA).coalesce(1)
        write(spark, tables, source.mapInArrow(asked, source.schema), DAYS[0], name=name)
        seen = [*tmp_path.glob("asked *")]
        for each in seen:
            each.unlink()
        return len(seen)

    assert times("kept") == 1
    monkeypatch.setattr(vertical_partitioner, "evaluated_once", nullcontext)
    assert times("not kept") == 3


class Killed(BaseException):
    """The end of a process."""


def dying(point):
    """A commit of files before which, or after which, the process ends."""
    commit = stage_commit.commit_files

    def committing(state, stage, *more, **options):
        name = stage.store.above().name
        if point == f"before {name}":
            raise Killed
        commit(state, stage, *more, **options)
        if point == f"after {name}":
            raise Killed

    return committing


def test_parts_have_one_key_set_whenever_a_write_dies(spark, tables, monkeypatch):
    """Acceptance 5: readers see the former rows of all parts; the rerun ends what began, and nothing is there twice."""
    held, rows = [], visits_of(DAYS[0], 3)
    write(spark, tables, rows, DAYS[0], name="first")
    points = ["after people", "before visits"]

    for n, point in enumerate(points, start=4):
        before, rows = rows, visits_of(DAYS[0], n, start=n)
        with monkeypatch.context() as patched:
            patched.setattr(stage_commit, "commit_files", dying(point))
            with pytest.raises(Killed):
                write(spark, tables, rows, DAYS[0], name=point)
        held.append(len(keys_of(tables, **group_of(tables, {}).visible())))
        assert joined(tables) == Counter(before)
        again = write(spark, tables, rows, DAYS[0], name=point)
        assert (again.applied, *(each.applied for each in again.beside)) == (False, False, False)
        assert len(keys_of(tables)) == n
    assert joined(tables) == Counter(rows)
    assert held == [3, 4]


@pytest.mark.both
def test_a_backfill_replaces_a_day_in_all_parts_and_late_context_makes_no_second_row(spark, tables):
    """Acceptance 6: only that day's files change; context that came later is in the row that was there."""
    days = {day: visits_of(day, 6) for day in DAYS[:2]}
    for day, rows in days.items():
        write(spark, tables, rows, day)
    others = [files_of(table, day=DAYS[1]) for table in tables]
    late = [(*row[:4], *[f"late {row[1] % 2}"] * 8, "FR", 30) for row in days[DAYS[0]]]
    done = write(spark, tables, late, DAYS[0], name="late")
    assert [each.changed for each in (done, *done.beside)] == [True] * 3
    assert [each.rows.written for each in (done, *done.beside)] == [6, 2, 6]
    assert joined(tables) == Counter([*late, *days[DAYS[1]]])
    assert len(keys_of(tables)) == 12
    assert [files_of(table, day=DAYS[1]) for table in tables] == others
    before = [table.ledger.version() for table in tables]
    again = write(spark, tables, late, DAYS[0], name="late")
    assert (again.applied, [table.ledger.version() for table in tables]) == (False, before)
    twice = [*late, (*late[0][:4], *["another"] * 8, "FR", 30)]
    with pytest.raises(AuditFailed, match="gold/visits"):
        write(spark, tables, twice, DAYS[0], name="twice")
    assert joined(tables) == Counter([*late, *days[DAYS[1]]])


def test_what_one_part_refuses_changes_none(spark, tables):
    """An audit of the last table, no rows, a NULL key; an empty day is one that is asked for."""
    rows = visits_of(DAYS[0], 3)
    for table in tables:
        table.ensure()
    with pytest.raises(NotReady):
        join_parts(*tables)
    write(spark, tables, rows, DAYS[0])
    run = a_run("gold/visits", inputs={"landing": "refused"})
    into = [table.target(run, partition={"day": DAYS[0]}) for table in tables]
    few = into[2].with_audits(Audit(name="few", of="written", fail_above=1))
    frame = spark.createDataFrame(visits_of(DAYS[0], 4), SCHEMA)
    with pytest.raises(AuditFailed, match="gold/people"):
        write_parts(frame, *into[:2], few)
    with pytest.raises(AuditFailed, match="input_is_not_empty"):
        write(spark, tables, [], DAYS[0], name="empty")
    with pytest.raises(AuditFailed, match="without a key"):
        write(spark, tables, [(DAYS[0], None, *rows[0][2:])], DAYS[0], name="null")
    assert joined(tables) == Counter(rows)
    write(spark, tables, [], DAYS[0], name="empty", allow_empty=True)
    assert joined(tables) == Counter()
    tables[1].overwrite(tables[1].read().limit(0), partition={"day": "x"}, provenance=a_run("a stranger"))
    assert joined(tables) == Counter()


def test_tables_and_rows_that_are_no_parts_are_refused(spark, make_table):
    """Before anything is staged, by the names of table and column."""
    main, contexts, people = SPECS
    frame = spark.createDataFrame(visits_of(DAYS[0], 1), SCHEMA)

    def refused(match, *specs, rows=frame, **partitions):
        made = [make_table(spec) for spec in specs]
        into = [t.target(a_run(), partition=partitions.get(t.name[5:], {"day": DAYS[0]})) for t in made]
        with pytest.raises(ConfigError, match=match):
            write_parts(rows, *into)
        assert not any(table.ledger.exists() for table in made)

    refused("context names gold/visits twice", main, main)
    refused("the key of gold/visits must be its partition columns and more", replace(main, key=()), contexts)
    refused("gold/people must be partitioned as gold/visits", main, replace(people, partition_by=()))
    refused("gold/people must be partitioned .* the key", main, replace(people, key=("day", "country")))
    refused("gold/contexts must be partitioned .* the key", main, replace(contexts, key=("day", "t1", "technical")))
    both = replace(people, columns=people.columns | {"t1": Column("STRING")})
    refused("t1 must be a column of one part, not of gold/people", main, contexts, both)
    kind = {"technical": Column("BIGINT", required=True)}
    refused("technical of gold/contexts must be a STRING", main, replace(contexts, columns=contexts.columns | kind))
    refused("no column t1", *SPECS, rows=frame.drop("t1"))
    refused("have a column technical", *SPECS, rows=frame.selectExpr("*", "'x' AS technical"))
    refused("rows must have columns of a part only, not more", *SPECS, rows=frame.selectExpr("*", "1 AS more"))
    refused("`t1` is DOUBLE", *SPECS, rows=frame.withColumn("t1", frame["age"].cast("DOUBLE")))
    refused("gold/people must own the partition of gold/visits", *SPECS, people={"day": "tue"})


ODD = st.none() | st.sampled_from(["", "a", "A", "a ", "é/x", "-", "s1:a", "${x}", "0"])
CONTEXTS = st.dictionaries(st.integers(0, 9), st.tuples(*[ODD] * 10), max_size=8)


@settings(
    deadline=None,
    suppress_health_check=list(HealthCheck),
    max_examples=2,
    phases=(Phase.explicit, Phase.generate),  # to make a failing case smaller takes a minute of jobs
)
@given(st.lists(st.tuples(st.sampled_from(DAYS), CONTEXTS), min_size=1, max_size=2))
def test_any_history_of_a_table_is_that_of_the_rows(spark, tmp_path_factory, history):
    """Each day has the rows of its last write, whatever NULLs and odd texts are in them: as in a plain dictionary."""
    root = tmp_path_factory.mktemp("history")
    tables, model = [Table(spec, root / spec.name, spark) for spec in SPECS], {}
    for number, (day, contexts) in enumerate(history):
        rows = [(day, n, NOW, context[8], *context[:8], context[9], n) for n, context in contexts.items()]
        model[day] = rows
        write(spark, tables, rows, day, name=str(number), allow_empty=True)
    assert joined(tables) == Counter(row for rows in model.values() for row in rows)
    assert {(r["day"], r["technical"]) for r in read_back(tables[1])} == {
        (row[0], reference(*row[4:12])) for rows in model.values() for row in rows
    }


@any_names(STORED, handed_on=["page", "country"])
def parts_and_their_join(n):
    day, visit, shared_by = map(n.declared, ("day", "visit", "hash"))
    hot, cold = (
        "day STRING!, visit STRING!, page STRING, hash STRING!",
        "day STRING!, hash STRING!, agent STRING, screen STRING",
    )
    main = n.table(hot, by=["day"], key=(day, visit))
    shared = n.table(cold, by=["day"], key=(day, shared_by))
    own = n.table("day STRING!, visit STRING!, country STRING", by=["day"], key=(day, visit))
    columns = "day STRING, visit STRING, page STRING, agent STRING, screen STRING, country STRING"
    rows = n.frame(columns, ("mon", "a", "/", "Lynx", None, "US"), ("mon", "b", "/", "Lynx", None, None))
    into = [table.target(a_run(), partition={n("day"): "mon"}) for table in (main, shared, own)]
    write_parts(rows, *into)
    yield main
    yield shared
    yield join_parts(main, shared, own)
    expire_part(shared.target("expiry"), main, own, before="tue")
    yield join_parts(main, shared, own)


@known_calls
def calls_that_work(known):
    main, cold = (
        known.table(f"gold/{name}", f"day STRING!, id INT!, {more} STRING", by=("day",), key=("day", "id"))
        for name, more in (("hot", "page"), ("cold", "agent"))
    )
    rows = known.frame("day STRING, id INT, page STRING, agent STRING", ("mon", 1, "/", "Lynx"))
    into, context = (table.target(known.run, partition={"day": "mon"}) for table in (main, cold))
    write_parts(rows, into, context)
    return {
        "write_parts": {"rows": rows, "into": into, "context": context, "other": None, "allow_empty": False},
        "join_parts": {"primary": main, "context": cold, "other": None},
        "expire_part": {"into": cold.target(known.run), "primary": main, "other": None, "before": "fri"},
    }


def parts_of(world, *days):
    """Tables of rows and their context, with a row in each day."""
    world.table("hot", "id INT!, day STRING!, hash STRING!", by=["day"], key=("id", "day"))
    world.table("cold", "hash STRING!, day STRING!, agent STRING", by=["day"], key=("hash", "day"))
    for day in days:
        rows = world.frame("id INT, day STRING, agent STRING", (0, day, "Lynx"))
        write_parts(rows, world.into("hot", "base", day), world.into("cold", "base", day))


@two_runs(under_one_lock=True)
def parts_at_once(world):
    parts_of(world, "mon")

    def write(w, name, *agents):
        rows = w.frame("id INT, day STRING, agent STRING", *[(n, "mon", agent) for n, agent in enumerate(agents)])
        write_parts(rows, w.into("hot", name, "mon"), w.into("cold", name, "mon"))

    yield lambda w: write(w, "1", "Lynx", "Lynx")
    yield lambda w: write(w, "2", "Lynx", "Mosaic", "Links")


@two_runs(under_one_lock=True)
def context_expires_at_once(world):
    parts_of(world, "mon", "tue")
    yield lambda w: expire_part(w.into("cold", "1"), w["hot"], before="tue")
    yield lambda w: expire_part(w.into("cold", "2"), w["hot"], before="tue")
