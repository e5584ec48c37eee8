"""Two runs that write at once: whatever one of them has read by then, it is as if one came after the other.

Each write of the library is run with another one that runs to its end at a point where the first has read something of
the tables: their log, their rows, the files of a group. With a lock, these are the points at which the first one does
not hold it; in a store without locks, any. In `make test` at the last such point before its commit and (with a lock) at
one of the others; `make fuzz` takes all of them.
"""

from __future__ import annotations

import inspect
import re
import shutil
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from dedp_assets.patterns.connectors.delivery.csv_folder import CsvFolder
from dedp_assets.patterns.connectors.delivery.receipts import RECEIPT
from dedp_assets.patterns.core.audits import Audit
from dedp_assets.patterns.core.errors import Conflict, PatternError
from dedp_assets.patterns.core.results import Plan
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import Ledger, Table
from dedp_assets.patterns.delta.storage import coordination
from dedp_assets.patterns.delta.storage.local_store import LocalStore
from dedp_assets.patterns.error_management.checkpointer import append_checkpointed
from dedp_assets.patterns.error_management.dead_letter import LETTER, divert_unprocessable, route
from dedp_assets.patterns.error_management.dead_letter_replay import open_letters, replay_letters
from dedp_assets.patterns.error_management.dynamic_late_data_integrator import claim_late_partitions
from dedp_assets.patterns.flow.concurrent_runner import advance_latest, latest_of
from dedp_assets.patterns.flow.parallel_split import write_parallel
from dedp_assets.patterns.idempotency.data_overwrite import overwrite_partition
from dedp_assets.patterns.idempotency.fast_metadata_cleaner import freeze_units, load_unit
from dedp_assets.patterns.idempotency.keyed_idempotency import upsert_keyed
from dedp_assets.patterns.idempotency.merger import merge_changes
from dedp_assets.patterns.idempotency.proxy import load_version, switch_version
from dedp_assets.patterns.idempotency.stateful_merger import merge_execution
from dedp_assets.patterns.idempotency.transactional_writer import TableRows, publish_group, read_group
from dedp_assets.patterns.ingestion.compactor import compact, vacuum
from dedp_assets.patterns.ingestion.full_loader import load_full
from dedp_assets.patterns.ingestion.incremental_loader import load_increment, load_partition
from dedp_assets.patterns.ingestion.passthrough_replicator import declare_replica, replicate_table
from dedp_assets.patterns.ingestion.transformation_replicator import declare_transformed, replicate_transformed
from dedp_assets.patterns.modeling.current_dimension import NEWEST, keep_current_and_history, keep_newest
from dedp_assets.patterns.modeling.versioned_dimension import VERSION, ChangeStream, keep_versions
from dedp_assets.patterns.quality.audit_write_audit_publish import audit_write_audit_publish
from dedp_assets.patterns.quality.constraints_enforcer import VIOLATION, References, enforce_constraints
from dedp_assets.patterns.quality.offline_observer import PROFILE, PROFILED_BY, observe_offline
from dedp_assets.patterns.quality.online_observer import observe_online
from dedp_assets.patterns.quality.schema_migrator import Migration, migrate_schema
from dedp_assets.patterns.value.bin_pack_orderer import deliver_in_bins
from dedp_assets.patterns.value.fifo_orderer import RecordColumns, deliver_in_order
from dedp_assets.patterns.value.local_aggregator import Layout, lay_out
from dedp_assets.patterns.value.static_joiner import ANSWER, keep_answers
from tests.contracts.test_patterns import PATTERNS, public_functions
from tests.helpers import NOW, a_run, read_back
from tests.renaming import at
from tests.sinks import Inbox

pytestmark = [
    pytest.mark.spark,
    pytest.mark.budget(150, "every write of the library with another one in between"),
]

FUZZ = settings.get_current_profile_name() == "fuzz"
READS = ("state", "version", "transactions", "newest_first", "commits", "latest", "changed", "changes", "exists")
MONDAY, TUESDAY = {"day": "mon"}, {"day": "tue"}
UNLIKE = {"asked_at", "dead_lettered_at", "was_present", *(c for c, of in PROFILE.items() if of.technical)}


@dataclass
class Other:
    """A run that comes in between, once: at the n-th read of the first one that holds no lock.

    Attributes:
        before_commit: how much the first one had read, with and without a lock, when it last committed.
    """

    run: Any = None
    at: int = 0
    reads: int = 0
    all_reads: int = 0
    before_commit: int = 0
    locks: int = 0
    busy: bool = False

    def committing(self):
        if not self.busy:
            self.before_commit = self.all_reads

    def pass_by(self):
        if self.busy:
            return
        self.all_reads += 1
        if self.locks:
            return
        self.reads += 1
        if self.reads == self.at:
            self.busy = True
            self.run()
            self.busy = False


@contextmanager
def watched(other):
    """Let ``other`` run at its point of whatever the block does."""
    with pytest.MonkeyPatch.context() as patch:
        for owner, name in [*((Ledger, name) for name in READS), (Table, "read"), (LocalStore, "list")]:
            patch.setattr(owner, name, _passing(getattr(owner, name), other))
        lock, put = LocalStore.lock, LocalStore.put_if_absent

        def noted(store, path, content):
            if store.name == "_delta_log":
                other.committing()
            put(store, path, content)

        patch.setattr(LocalStore, "put_if_absent", noted)

        @contextmanager
        def counted(store, timeout_seconds):
            with lock(store, timeout_seconds):
                other.locks += not other.busy
                try:
                    yield
                finally:
                    other.locks -= not other.busy

        patch.setattr(LocalStore, "lock", counted)
        yield


def _passing(read, other):
    def passing(*args, **options):
        found = read(*args, **options)
        other.pass_by()
        return found

    return passing


@dataclass
class World:
    """Tables below one folder, of which a copy is made for each pair of runs."""

    spark: Any
    root: Any
    specs: dict[str, TableSpec] = field(default_factory=dict)

    def table(self, name, columns, *, more=None, by=(), **spec):
        kinds = dict(column.split(" ", 1) for column in columns.split(", "))
        held = {c: Column(k.removesuffix("!"), required=k.endswith("!")) for c, k in kinds.items()}
        self.specs[name] = TableSpec(name, {**held, **(more or {})}, tuple(by), **spec)
        return self[name]

    def __getitem__(self, name):
        return Table(self.specs[name], self.root / name, self.spark)

    def frame(self, columns, *rows):
        return self.spark.createDataFrame(rows, columns.replace("!", ""))

    def copy(self, place):
        shutil.copytree(self.root, place)
        return World(self.spark, place, self.specs)

    def rows(self):
        """What every table holds, without what says when a run looked."""
        held = [(name, row) for name in self.specs if self[name].ledger.exists() for row in read_back(self[name])]
        return sorted(repr([name, *((c, v) for c, v in row.items() if c not in UNLIKE)]) for name, row in held)


def run(name, **more):
    return a_run("t", run_id=name, inputs={name: 1}, **more)


def upserted(world):
    columns = "key STRING, day STRING, n INT"
    table = world.table("keyed", columns, by=["day"], key=("key", "day"))
    upsert_keyed(world.frame(columns, ("a", "mon", 0), ("z", "tue", 0)), table.target(run("base")))

    def write(world, name, *rows, **partition):
        upsert_keyed(world.frame(columns, *rows), world["keyed"].target(run(name), **partition))

    yield lambda w: write(w, "1", ("b", "mon", 1), partition=MONDAY)
    yield lambda w: write(w, "2", ("b", "mon", 2), ("c", "mon", 2), partition=MONDAY)


def upserted_elsewhere(world):
    columns = "key STRING, day STRING, n INT"
    world.table("keyed", columns, by=["day"], key=("key",))
    upsert_keyed(world.frame(columns, ("a", "mon", 0), ("z", "tue", 0)), world["keyed"].target(run("base")))
    for day in ("mon", "tue"):
        yield lambda w, day=day: upsert_keyed(
            w.frame(columns, ("k", day, 1)), w["keyed"].target(run(day), partition={"day": day})
        )


def upserted_from(world):
    """Rows that were computed from those that are there, at a version."""
    columns = "key STRING, day STRING, n INT"
    table = world.table("keyed", columns, by=["day"], key=("key", "day"))
    upsert_keyed(world.frame(columns, ("a", "mon", 1)), table.target(run("base")))

    def write(w, name, more):
        since = w["keyed"].ledger.version()
        rows = w["keyed"].read(MONDAY, version=since).selectExpr("key", "day", f"n * 2 + {more} AS n")
        upsert_keyed(rows, w["keyed"].target(run(name), partition=MONDAY), since=since)

    yield lambda w: write(w, "1", 1)
    yield lambda w: write(w, "2", 5)


def merged(world):
    columns = "id INT, name STRING, seq INT, gone BOOLEAN"
    table = world.table("placed", columns)
    options = {"keys": ["id"], "order_by": ["seq"], "deleted": "gone"}
    merge_changes(world.frame(columns, (1, "a", 3, False)), table.target(run("base")), **options)
    for name, row in (("1", (1, "b", 5, False)), ("2", (1, "c", 4, True))):
        yield lambda w, name=name, row=row: merge_changes(
            w.frame(columns, row, (9, name, 1, False)) if name == "1" else w.frame(columns, row),
            w["placed"].target(run(name)),
            **options,
        )


def merged_in_order(world):
    columns = "id INT, name STRING"
    table = world.table("batches", columns)
    merge_changes(world.frame(columns, (1, "a")), table.target(run("base", sequence=1)), keys=["id"])
    for number in (2, 3):
        yield lambda w, number=number: merge_changes(
            w.frame(columns, (1, f"b{number}")), w["batches"].target(run(str(number), sequence=number)), keys=["id"]
        )


def merged_executions(world):
    columns = "page STRING, views INT"
    table = world.table("pages", columns, executed_by="day")
    options = {"keys": ["page"], "update": {"views": "t.views * 10 + s.views"}}
    merge_execution(
        world.frame(columns, ("/a", 1)), table.target(run("base"), partition={table.spec.executed_by: "mon"}), **options
    )
    for day, views in (("tue", 2), ("wed", 3)):
        yield lambda w, day=day, views=views: merge_execution(
            w.frame(columns, ("/a", views)),
            w["pages"].target(run(day), partition={w["pages"].spec.executed_by: day}),
            **options,
        )


def dimensions(world):
    columns = "id INT, mail STRING, at TIMESTAMP"
    stream = ChangeStream(keys=["id"], event_time="at")
    versions = world.table("versions", "id INT!, mail STRING", more=VERSION)
    keep_versions(world.frame(columns, (1, "a", at(1))), versions.target(run("base")), stream=stream)
    for name, rows in (("1", [(1, "b", at(5))]), ("2", [(1, "c", at(3)), (2, "c", at(3))])):
        yield lambda w, name=name, rows=rows: keep_versions(
            w.frame(columns, *rows), w["versions"].target(run(name)), stream=stream
        )


def newest(world):
    columns = "id INT, mail STRING, at TIMESTAMP"
    stream = ChangeStream(keys=["id"], event_time="at")
    table = world.table("newest", "id INT!, mail STRING", more=NEWEST)
    keep_newest(world.frame(columns, (1, "a", at(1))), table.target(run("base")), stream=stream)
    for name, rows in (("1", [(1, "b", at(5))]), ("2", [(1, "c", at(3)), (2, "c", at(3))])):
        yield lambda w, name=name, rows=rows: keep_newest(
            w.frame(columns, *rows), w["newest"].target(run(name)), stream=stream
        )


def answered(world, *, days=("mon", "mon"), ips=("ab", "b")):
    table = world.table("answers", "ip STRING!, land STRING, day STRING", more=ANSWER, by=["day"])

    def write(w, name, keys, day):
        ask = lambda asked: [{"ip": key, "land": f"{key} of {name}"} for key in asked]  # noqa: E731
        keep_answers(
            w.frame("ip STRING", *[(k,) for k in keys]),
            w["answers"].target(run(name, at=NOW), partition={"day": day}),
            key="ip",
            ask=ask,
        )

    write(world, "base", "x", "sun")
    assert table.ledger.exists()
    yield lambda w: write(w, "1", ips[0], days[0])
    yield lambda w: write(w, "2", ips[1], days[1])


def incremented(world):
    columns = "id INT, seq BIGINT"
    table = world.table("loaded", f"{columns}, part STRING", by=["part"])
    own, options = {"part": "100"}, {"window": (100, 200), "keys": ["id"], "delta": "seq"}
    load_increment(world.frame(columns, (1, 100)), table.target(run("base"), partition=own), **options)
    for name, rows in (("1", [(1, 100), (2, 150)]), ("2", [(3, 160)])):
        yield lambda w, name=name, rows=rows: load_increment(
            w.frame(columns, *rows), w["loaded"].target(run(name), partition=own), **options
        )


def loaded(world):
    table = world.table("full", "id BIGINT")
    load_full(world.spark.range(10), table.target(run("base")))
    for name, rows in (("1", 6), ("2", 18)):  # of ten, neither is implausible; of each other's, one is
        yield lambda w, name=name, rows=rows: load_full(w.spark.range(rows), w["full"].target(run(name)))


def units(world):
    columns = "id INT, day STRING"
    table = world.table("weekly", f"{columns}, week STRING", by=["week"])

    def write(w, day):
        rows = w.frame(columns, (1, day))
        load_unit(rows, w["weekly"].target(run(day)), days={day: 1}, by="day")

    write(world, "2026-01-05")
    assert table.ledger.exists()
    yield lambda w: write(w, "2026-01-06")
    yield lambda w: write(w, "2026-01-07")


def frozen(world):
    columns = "id INT, day STRING"
    table = world.table("weekly", f"{columns}, week STRING", by=["week"])

    def write(w, day):
        rows = w.frame(columns, (1, day))
        load_unit(rows, w["weekly"].target(run(day)), days={day: 1}, by="day")

    write(world, "2025-12-01")
    assert table.ledger.exists()
    yield lambda w: write(w, "2025-12-09")
    yield lambda w: freeze_units(w["weekly"].target(run("freeze")), before=date(2026, 2, 1))


def overwritten(world):
    columns = "id INT, day STRING, hour INT"
    table = world.table("days", columns, by=["day", "hour"])
    overwrite_partition(world.frame(columns, (1, "mon", 1), (2, "mon", 2)), table.target(run("0"), partition=MONDAY))
    for name, rows in (("1", [(1, "mon", 1), (3, "mon", 3)]), ("2", [(9, "mon", 1)])):
        yield lambda w, name=name, rows=rows: overwrite_partition(
            w.frame(columns, *rows), w["days"].target(run(name), partition=MONDAY)
        )


def quarantined(world, *, second="good"):
    """Rows at fault are put aside into another table; those of one run belong to its others."""
    columns, into = "id INT, day STRING", {"partition": MONDAY}
    for name in ("judged", "aside"):
        world.table(name, columns, by=["day"])
    audits = [Audit.none_where("ids_are_small", "id > 9")]

    def write(w, name, *ids):
        rows = w.frame(columns, *[(n, "mon") for n in ids])
        target, aside = w["judged"].target(run(name), audits=audits, **into), w["aside"].target(run(name), **into)
        audit_write_audit_publish(rows, target, aside, on_failure="quarantine")

    write(world, "base", 1, 10)
    yield lambda w: write(w, "1", 2, *([] if second == "bad" else [20]))
    yield lambda w: write(w, "2", 3, *([30] if second == "bad" else []))


def both_dimensions(world):
    columns = "id INT, mail STRING, at TIMESTAMP"
    stream = ChangeStream(keys=["id"], event_time="at")
    for name, more in (("newest", NEWEST), ("versions", VERSION)):
        world.table(name, "id INT!, mail STRING", more=more)

    def write(w, name, *rows):
        changes, tables = w.frame(columns, *rows), [w[table].target(run(name)) for table in ("newest", "versions")]
        keep_current_and_history(changes, *tables, stream=stream)

    write(world, "base", (1, "a", at(1)))
    yield lambda w: write(w, "1", (1, "b", at(5)))
    yield lambda w: write(w, "2", (1, "c", at(3)), (2, "c", at(3)))


def laid_out(world):
    layout = Layout(by=("user",), buckets=2)
    columns = "user STRING, n INT"
    world.table("laid", columns, more=layout.declared, by=["bucket"], checks=layout.checks)
    for name, users in (("base", "ab"), ("1", "bc"), ("2", "cd")):
        rows = [(user, len(name)) for user in users]
        write = lambda w, name=name, rows=rows: lay_out(  # noqa: E731
            w.frame(columns, *rows), w["laid"].target(run(name)), layout=layout
        )
        if name == "base":
            write(world)
        else:
            yield write


def compacted(world):
    columns = "id INT, day STRING"
    table = world.table("small", columns, by=["day"])
    for n in range(2):
        table.append(world.frame(columns, (n, "mon"), (n, "tue")), provenance=run(str(n), sequence=n + 1))
    yield lambda w: compact(w["small"].target(run("compaction")))
    yield lambda w: overwrite_partition(w.frame(columns, (9, "mon")), w["small"].target(run("2"), partition=MONDAY))


def deleted(world):
    columns = "key STRING, day STRING, n INT"
    table = world.table("keyed", columns, by=["day"], key=("key", "day"))
    upsert_keyed(world.frame(columns, ("a", "mon", 1), ("b", "mon", 2)), table.target(run("base")))
    yield lambda w: w["keyed"].delete("n > 5", provenance=run("1"))
    yield lambda w: upsert_keyed(
        w.frame(columns, ("a", "mon", 9), ("c", "mon", 7)), w["keyed"].target(run("2"), partition=MONDAY)
    )


def grouped(world):
    columns = "n BIGINT, day STRING"
    tables = [world.table(name, columns, by=["day"]) for name in ("sites", "pages")]

    def write(w, name, rows, day):
        frame = w.spark.range(rows).selectExpr("id AS n", f"'{day}' AS day")
        into = [w[table.name].target(run(name), partition={"day": day}) for table in tables]
        publish_group([TableRows(frame, each) for each in into])

    write(world, "base", 1, "mon")
    assert all(rows.count() == 1 for rows in read_group(tables).values())
    yield lambda w: write(w, "1", 2, "mon")
    yield lambda w: write(w, "2", 3, "mon")


def filed(world, *, second="replay"):
    schema = "n INT, raw STRING, day STRING"
    valid = {"was_dead_lettered": Column("BOOLEAN")}
    world.table("valid", "id BIGINT, n INT!, day STRING", more=valid, by=["day"])
    world.table("dead", "raw STRING, n INT, day STRING", more=LETTER, by=["day"])

    def targets(w, name):
        return [w[table].target(run(name, at=NOW), partition=MONDAY) for table in ("valid", "dead")]

    def judged(lines, earlier=None, **rules):
        options = {"payload": "raw", "schema": {"id": "BIGINT"}, "identity": ["n"], "carry": ["day"]}
        return divert_unprocessable(lines, earlier, rules=rules, **options)

    def delivered(w, name, *lines, **rules):
        known = w["dead"].read(MONDAY) if w["dead"].ledger.exists() else None
        split = judged(w.frame(schema, *lines), known, **rules)
        route(split, *targets(w, name))

    def replay(w):
        since = w["dead"].ledger.version()
        letters = judged(open_letters(w["dead"], filed_under=MONDAY, version=since))
        replay_letters(letters, *targets(w, "r"), keys=["n"], since=since)

    delivered(world, "base", (1, '{"id": 7}', "mon"), (2, '{"id": -1}', "mon"), positive="id > 0")
    yield replay if second == "replay" else lambda w: delivered(w, "1", (1, '{"id": 9}', "mon"), (4, "[", "mon"))
    yield lambda w: delivered(w, "2", (1, '{"id": 8}', "mon"), (3, "{", "mon"), positive="id > 0")


def claimed(world):
    table = world.table("late", "day STRING, n INT", by=["day"])
    table.overwrite(world.frame("day STRING, n INT", ("mon", 1)), provenance=run("base"))
    for owner in ("one", "two"):
        yield (
            lambda w, owner=owner: (
                claim_late_partitions(
                    {"mon": 9, "tue": 9}, w["late"], current="wed", owner=owner, now=NOW, lease_seconds=60
                ).plan.partitions
            )
        )


def delivered(world):
    table = world.table("sent", "day STRING", more=RECEIPT, by=["day"])
    sinks = {}

    def write(w, name, *ids):
        sink = sinks.setdefault(w.root, Inbox(limit=2))
        rows = w.frame("id INT, at INT", *[(n, n) for n in ids])
        columns = RecordColumns(identity="id", order_by=["at"])
        deliver_in_order(rows, w["sent"].target(run(name), partition=MONDAY), sink, destination="x", columns=columns)
        return sorted(set(sink.ids("x")))

    write(world, "base", 1)
    assert table.ledger.exists()
    yield lambda w: write(w, "1", 1, 2)
    yield lambda w: write(w, "2", 1, 2, 3)


def overwritten_side_by_side(world):
    """Runs of two days: both are there whole, whichever commits first."""
    columns = "id INT, day STRING"
    table = world.table("daily", columns, by=["day"])
    overwrite_partition(world.frame(columns, (1, "mon")), table.target(run("base"), partition=MONDAY))
    for day, ids in (("mon", (2, 3)), ("tue", (4, 5))):
        yield lambda w, day=day, ids=ids: overwrite_partition(
            w.frame(columns, *((n, day) for n in ids)), w["daily"].target(run(day), partition={"day": day})
        )


def pointed(world):
    """Results of a later and an earlier run: the pointer is at the later one, whoever moves it last."""
    table = world.table("results", "id INT")
    table.append(world.frame("id INT", (1,)), provenance=run("base", sequence=1))
    for position in (3, 2):

        def move(w, position=position):
            advance_latest(w["results"].target(run(str(position))), position=position)
            return (latest_of(w["results"]),)

        yield move


CASES = [upserted, upserted_elsewhere, upserted_from, merged, merged_in_order, merged_executions, dimensions, newest]
CASES += [answered, partial(answered, days=("mon", "tue")), incremented, loaded, units, frozen, overwritten, compacted]
CASES += [quarantined, partial(quarantined, second="bad"), both_dimensions, laid_out]
CASES += [
    overwritten_side_by_side,
    pointed,
    deleted,
    grouped,
    filed,
    partial(filed, second="route"),
    claimed,
    delivered,
]


def versions_of(world, *, second="load"):
    """Versions behind a name: a load or a person's choice shows another one."""
    columns = "page STRING, views INT"
    table = world.table("ranking", columns)
    load_version(world.frame(columns, ("/a", 1)), table.target(run("base")))

    def load(w, name, views):
        load_version(w.frame(columns, ("/a", views)), w["ranking"].target(run(name)))

    load(world, "more", 2)
    yield lambda w: load(w, "1", 3)
    if second == "load":
        yield lambda w: load(w, "2", 4)
    else:
        yield lambda w: switch_version(w["ranking"].target(run("2")), version="base-1", because="the newer is wrong")


def partitions_loaded(world):
    columns = "id INT, day STRING"
    table = world.table("daily", columns, by=["day"])

    def write(w, name, *ids):
        ready = Plan(("mon",), "", cursor={"mon": f"marker {name}"})
        rows = w.frame(columns, *[(n, "mon") for n in ids])
        load_partition(rows, w["daily"].target(run(name), partition=MONDAY), ready=ready)

    write(world, "base", 1)
    assert table.ledger.exists()
    yield lambda w: write(w, "1", 1, 2)
    yield lambda w: write(w, "2", 3)


def replicated(world, *, replicate, declare):
    """A replica of an older version and one of a newer."""
    columns = "id INT, plan STRING"
    source = world.table("users", columns)
    for sequence in (1, 2, 3):
        source.append(world.frame(columns, (sequence, "free")), provenance=run(str(sequence), sequence=sequence))
    world.specs["copied"] = replace(declare(source.spec, name="copied"), name="copied")
    first = source.ledger.version() - 2
    replicate(source, world["copied"].target(run("base")), version=first)
    for version in (first + 1, first + 2):
        yield lambda w, version=version: replicate(w["users"], w["copied"].target(run(f"v{version}")), version=version)


def packed(world):
    table = world.table("sent", "day STRING", more=RECEIPT, by=["day"])
    sinks = {}

    def write(w, name, *ids):
        sink = sinks.setdefault(w.root, Inbox(limit=2))
        rows = w.frame("id INT, blog STRING, page STRING, at INT", *[(n, "x", "/a", n) for n in ids])
        columns = RecordColumns(identity="id", order_by=["at"], entity="page")
        into = w["sent"].target(run(name), partition=MONDAY)
        deliver_in_bins(rows, into, sink, destination="blog", columns=columns)
        return sorted(set(sink.ids("x")))

    write(world, "base", 1)
    assert table.ledger.exists()
    yield lambda w: write(w, "1", 1, 2)
    yield lambda w: write(w, "2", 1, 2, 3)


def streamed(world):
    """Two queries with one checkpoint, of a table that grows between them."""
    source = world.table("numbers", "value BIGINT")
    world.table("appended", "value BIGINT")

    def write(w, name):
        number = int(name)
        w["numbers"].append(w.frame("value BIGINT", (number,)), provenance=run(f"more {name}", sequence=number))
        into = w["appended"].target(run(name))
        append_checkpointed(w["numbers"].stream(), into, checkpoint=str(w.root / "checkpoint"))

    write(world, "1")
    assert source.ledger.exists()
    yield lambda w: write(w, "2")
    yield lambda w: write(w, "3")


def vacuumed(world):
    """Files that the other run still writes, or has just published, are not removed."""
    columns = "id INT, day STRING"
    table = world.table("small", columns, by=["day"])
    for number in range(2):
        rows = world.frame(columns, (number, "mon"))
        overwrite_partition(rows, table.target(run(f"base {number}"), partition=MONDAY))
    later = datetime(2100, 1, 1, tzinfo=timezone.utc)
    yield lambda w: vacuum(w["small"].target(run("vacuum")), retention_hours=0, now=later, allow_unsafe=True)
    yield lambda w: overwrite_partition(w.frame(columns, (9, "mon")), w["small"].target(run("2"), partition=MONDAY))


def parallel(world):
    """Two further versions of the source, for the table and for a folder beside the table."""
    columns = "id INT, day STRING"
    table = world.table("twice", columns, by=["day"])
    write_parallel(
        world.frame(columns, (1, "mon")), table.target(run("1", sequence=1), partition=MONDAY), beside(world)
    )
    for number in (2, 3):
        yield lambda w, number=number: write_parallel(
            w.frame(columns, (number, "mon")),
            w["twice"].target(run(str(number), sequence=number), partition=MONDAY),
            beside(w),
        )


def enforced(world):
    """Orphans are put aside into another table; those of one run belong to its others."""
    columns, into = "id INT, page INT, day STRING", {"partition": MONDAY}
    world.table("visited", columns, by=["day"])
    world.table("orphans", columns, more=VIOLATION, by=["day"])
    known = References("every_visit_has_a_page", {"page": "page"}, orphans="quarantine")

    def write(w, name, *pages):
        rows = w.frame(columns, *[(n, n, "mon") for n in pages])
        target, aside = w["visited"].target(run(name), **into), w["orphans"].target(run(name), **into)
        enforce_constraints(rows, target, {known.name: w.frame("page INT", (1,), (2,))}, aside, references=[known])

    write(world, "base", 1, 9)
    yield lambda w: write(w, "1", 1, 2, 8)
    yield lambda w: write(w, "2", 2)


def observed(world):
    """Rows with the profile in the record of the same commit."""
    columns = "id INT, day STRING"
    table = world.table("seen", columns, by=["day"])
    observe_online(world.frame(columns, (1, "mon")), table.target(run("0"), partition=MONDAY))
    for name, number in (("1", 2), ("2", 3)):
        yield lambda w, name=name, number=number: observe_online(
            w.frame(columns, (number, "mon")), w["seen"].target(run(name), partition=MONDAY)
        )


def profiled(world):
    """Two observers of one table, of which one comes second."""
    columns = "page STRING, day STRING"
    table = world.table("read", columns, by=["day"])
    world.specs["profiles"] = TableSpec("profiles", PROFILE, PROFILED_BY)
    for number, day in enumerate(("mon", "tue")):
        table.append(world.frame(columns, ("/", day)), provenance=run(day, sequence=number + 1))
        if day == "mon":
            observe_offline(table, world["profiles"].target(run("base")))
    for name in ("1", "2"):
        yield lambda w, name=name: observe_offline(w["read"], w["profiles"].target(run(name)))


def migrated(world):
    """The next phase of a migration, and rows of a run that writes meanwhile."""
    columns = "id INT, site STRING, page STRING, day STRING"
    renames = Migration(name="pages", rename={"site": "page"}, grace_days=0)
    table = world.table("renamed", "id INT, site STRING, day STRING", by=["day"])
    table.append(world.frame("id INT, site STRING, day STRING", (1, "/", "mon")), provenance=run("0", sequence=1))
    migrate_schema(table.target(run("added")), NOW, migration=renames, to="added")
    world.table("renamed", columns, by=["day"])
    yield lambda w: migrate_schema(w["renamed"].target(run("1")), NOW, migration=renames, to="both")
    yield lambda w: overwrite_partition(
        w.frame(columns, (2, "/a", "/a", "mon")), w["renamed"].target(run("2"), partition=MONDAY)
    )


def beside(world):
    """The folder of a world."""
    return CsvFolder(str(world.root / "csv"))


CASES += [enforced, observed, profiled, migrated]
CASES += [parallel, versions_of, partial(versions_of, second="switch"), partitions_loaded, packed, streamed, vacuumed]
CASES += [
    partial(replicated, replicate=replicate_table, declare=declare_replica),
    partial(replicated, replicate=replicate_transformed, declare=declare_transformed),
]
IN_A_DATABASE = {"capture_changes", "write_transaction"}
"""PostgreSQL keeps their runs apart: by the slot, which one connection reads, and by rows that a transaction locks."""
BY_ANOTHER = {"apply_changes": merged_in_order, "observe_ahead": profiled, "reconcile_profile": profiled}
"""A write by the rule of another case: a merge at the position that its history had, and profiles of a run."""


UNDER_ONE_LOCK = {"grouped", "replicated", "vacuumed", "versions_of"}
"""Cases that commit while they hold :func:`table_lock`, in whatever store."""
ONE_QUERY = {"streamed"}
"""Cases of a streaming query, which Spark runs once at a time in a process: a query started within one of its own
micro-batches stops the first. Two processes are in ``test_checkpointer``."""


def case_of(case):
    return (case.func if isinstance(case, partial) else case).__name__


def named(case):
    if not isinstance(case, partial):
        return case.__name__
    return f"{case.func.__name__} {', '.join(str(getattr(v, '__name__', v)) for v in case.keywords.values())}"


def done(write, world):
    """What a run gave, or the name of what refused it."""
    try:
        found = write(world)
    except PatternError as error:
        return type(error).__name__ if not isinstance(error, Conflict) else "Conflict"
    return found if isinstance(found, (tuple, list)) else "done"


@dataclass
class Pair:
    """Two runs of one case, and what the tables hold if one comes after the other, in either order."""

    base: World
    place: Any
    one: Any
    other: Any

    def serial(self, name, first, second):
        """Reads of the first run, rows after it, and rows and results after both."""
        world, counted = self.base.copy(self.place / name), Other()
        with watched(counted):
            results, counted.busy = [done(first, world)], True
            alone = world.rows()
            results.append(done(second, world))
        return counted, alone, (world.rows(), *results)

    def allowed(self):
        """Reads of the first run, and a test of what may come of the two at once."""
        counted, _, forwards = self.serial("forwards", self.one, self.other)
        _, alone, (rows, two, first) = self.serial("backwards", self.other, self.one)

        def holds(found):
            refused = found[1] == "Conflict" and (found[0], found[2]) == (alone, two)
            return refused or found in [forwards, (rows, first, two)]

        return counted, holds

    def at_once(self, name, point):
        """Rows and results if the other one runs at a point of the first one."""
        world, results = self.base.copy(self.place / name), []
        between = Other(lambda: results.append(done(self.other, world)), point)
        with watched(between):
            results.insert(0, done(self.one, world))
        return (world.rows(), *results)


@pytest.mark.parametrize("case", CASES, ids=named)
def test_two_runs_at_once_are_one_after_the_other(spark, tmp_path, monkeypatch, case):
    """Of two runs that write the same, one sees all that the other did, or nothing, or is told to come again."""
    base = World(spark, tmp_path / "base")
    pair = Pair(base, tmp_path, *case(base))
    counted, holds = pair.allowed()
    reads = counted.reads
    for point in range(1, reads + 1) if FUZZ else sorted({reads, reads // 2} - {0}):
        assert holds(pair.at_once(f"locked {point}", point)), f"read {point} of {reads}"
    if case_of(case) in ONE_QUERY:
        return
    monkeypatch.setattr(coordination, "has_lock", lambda _: False)
    for point in range(1, counted.before_commit + 1) if FUZZ else {counted.before_commit} - {0}:
        found = pair.at_once(f"optimistic {point}", point)
        # Several commits that belong together have a lock of their own: there nobody comes in between.
        came = len(found) > 2
        assert came or case_of(case) in UNDER_ONE_LOCK
        assert not came or holds(found), f"read {point} of {counted.all_reads} without a lock"


def test_every_pattern_that_writes_to_a_table_is_here():
    """By its name in this file; what a database keeps apart is named above with the reason."""
    text = Path(__file__).read_text()
    writers = {
        name
        for pattern in PATTERNS
        for name in public_functions(pattern)
        if any(
            kind in (stated := str(inspect.signature(getattr(pattern.module, name)))) for kind in ("Target'", "Target,")
        )
        and not stated.endswith("-> 'DataFrame'")  # a stamp names the target, and writes nothing
    }
    assert len(writers) > 25
    assert {name for name in writers if not re.search(rf"\b{name}\b(?!\")", text)} <= IN_A_DATABASE | {*BY_ANOTHER}
