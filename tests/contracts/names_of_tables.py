"""Patterns that write tables, as they are used: each takes a renaming and gives what is there then."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from pyspark.sql import functions as F

from dedp_assets.patterns.connectors.receipts import RECEIPT
from dedp_assets.patterns.core.masking import MaskingKey
from dedp_assets.patterns.core.rows import RowsRead, tally
from dedp_assets.patterns.core.schema import Column
from dedp_assets.patterns.delta import Delete, Insert, Update
from dedp_assets.patterns.error_management.dead_letter import LETTER, divert_unprocessable, route
from dedp_assets.patterns.error_management.filter_interceptor import filter_measures, intercept_filters
from dedp_assets.patterns.idempotency.data_overwrite import overwrite_partition
from dedp_assets.patterns.idempotency.keyed_idempotency import upsert_keyed
from dedp_assets.patterns.idempotency.merger import merge_changes
from dedp_assets.patterns.idempotency.stateful_merger import merge_execution
from dedp_assets.patterns.ingestion.incremental_loader import load_increment
from dedp_assets.patterns.ingestion.transformation_replicator import declare_transformed, replicate_transformed
from dedp_assets.patterns.modeling.current_dimension import NEWEST, ChangeStream, keep_newest
from dedp_assets.patterns.modeling.previous_value_dimension import show_previous_values
from dedp_assets.patterns.modeling.versioned_dimension import VERSION, judge_versions, keep_versions
from dedp_assets.patterns.value.bin_pack_orderer import deliver_in_bins
from dedp_assets.patterns.value.fifo_orderer import RecordColumns, deliver_in_order
from dedp_assets.patterns.value.local_aggregator import Layout, aggregate_locally, judge_placement, lay_out
from dedp_assets.patterns.value.metadata_decorator import CONTEXT, decorate, view_for_users
from dedp_assets.patterns.value.static_joiner import ANSWER, keep_answers
from tests.helpers import NOW, a_run
from tests.renaming import STORED, at
from tests.sinks import Inbox

VALUES = ("a b", "a/b", "50%", "a=b", "a:b", "it's", 'say "x"', "ünï", "back\\slash", "{0}", "%2F", "a.b", None)
"""Values of a partition column."""


def aggregated_locally(n):
    layout, columns = Layout(by=(n("user"),), buckets=3, column=n.declared("bucket")), "user STRING, page STRING"
    table = n.table(columns, more=layout.declared, by=["bucket"], checks=layout.checks)
    rows = n.frame(columns, *[(f"u{m % 4}", f"/{m}") for m in range(9)], (None, "/"))
    lay_out(rows, table.target(a_run()), layout=layout)
    pages = {n("pages"): f"array_sort(collect_list({n.q('page')}))"}
    yield aggregate_locally(table, keys=n.all("user"), measures=pages, layout=layout)
    yield [judge_placement(table, keys=n.all("page")).figures | {"keys": None}]


def answered(n):
    table = n.table("ip STRING!, land STRING, day STRING", more=ANSWER, by=["day"])
    for day, ips in (("a/b=c", "123"), ("d e", "234")):
        facts = n.frame("ip STRING", *[(ip,) for ip in ips], (None,))
        ask = lambda keys: [{n("ip"): key, n("land"): f"{day}{key}"} for key in keys]  # noqa: E731, B023
        keep_answers(facts, table.target(a_run(at=NOW), partition={n("day"): day}), key=n("ip"), ask=ask)
    yield table


def decorated(n):
    table = n.table("id INT, page STRING", more={CONTEXT: Column("MAP<STRING, STRING>", technical=True)})
    rows = decorate(n.frame("id INT, page STRING", (1, "/")), context={"run_id": "it's"}, storage="column")
    table.overwrite(rows, provenance=a_run())
    n.spark.sql(view_for_users(table, view=n("view"), hidden=n.all("page")))
    yield n.spark.sql(f"SELECT * FROM {n.q('view')}")


def upserted(n):
    columns = "id STRING, number INT, day STRING"
    table = n.table(columns, key=(n.declared("id"),), by=["day"])
    for rows in ([("a", 1, "d/1"), ("b", 1, "d/1")], [("a", 2, "d/1"), ("c", 1, "d/1")]):
        upsert_keyed(n.frame(columns, *rows), table.target(a_run(), partition={n("day"): "d/1"}))
    yield table


def merged(n):
    columns, parts = "id INT, name STRING, seq INT, gone BOOLEAN", "id INT, name STRING, day STRING"
    placed, ordered = n.table(columns), n.table(parts, by=["day"])
    options = {"keys": n.all("id"), "deleted": n("gone")}
    first, second = (
        [(1, "x", 3, False), (2, "y", 3, False)],
        [(1, "z", 1, False), (2, "z", 5, True), (2, "w", 4, False)],
    )
    for rows in (first, second):
        merge_changes(n.frame(columns, *rows), placed.target(a_run()), order_by=n.all("seq"), **options)
    for number in range(2):
        rows = n.frame(f"{parts}, gone BOOLEAN", (1, f"x{number}", "a=b", number == 1), (2, f"x{number}", "ü", False))
        merge_changes(rows, ordered.target(a_run(sequence=number)), **options)
    yield placed
    yield ordered


def merged_executions(n):
    table = n.table("page STRING, views INT", executed_by="day")
    update = {n("views"): f"t.{n.q('views')} + s.{n.q('views')}"}
    for day, views in (("mon", 1), ("tue", 10), ("tue", 20)):
        rows = n.frame("page STRING, views INT, gone BOOLEAN", ("/a", views, False), ("/b", views, day == "tue"))
        into = table.target(a_run(replay=True), partition={"day": day})
        merge_execution(rows, into, keys=n.all("page"), update=update, deleted=n("gone"))
    yield table


def merged_by_hand(n, **spec):
    columns = "id INT, number INT, day STRING"
    table = n.table(columns, checks={"positive": f"{n.q('number')} > 0"}, by=["day"], **spec)
    table.overwrite(n.frame(columns, (1, 1, "a b"), (None, 1, "c%d")), provenance=a_run())
    more = Update({n("number"): f"t.{n.q('number')} + s.{n.q('number')}"})
    new = Insert({n("id"): f"s.{n.q('id')}", n("day"): "'{0}'", n("number"): "7"})
    clauses, source = [Delete(when=f"s.{n.q('number')} > 8"), more, new], [(1, 9), (None, 5), (3, 3), (4, 4)]
    rows = n.frame("id INT, number INT", *source)
    table.merge(rows, keys=n.all("id"), clauses=clauses, null_keys=True, provenance=a_run())
    table.delete(f"{n.q('id')} = 4", provenance=a_run())
    yield table.read()


def merged_by_delta(n):
    yield from merged_by_hand(n, properties={"delta.columnMapping.mode": "name"})


def dimensions(n):
    stream = ChangeStream(keys=n.all("id"), event_time=n("at"), sequence=n("seq"), deleted=n("gone"))
    derived = {f"{when}_{n.declared('mail')}": Column("STRING") for when in ("current", "previous")}
    n.plain |= {name: name.partition("_")[0] for name in (*derived, f"previous_{n('mail')}")}
    versions, newest = (
        n.table("id INT!, mail STRING", more={**derived, **VERSION}),
        n.table("id INT!, mail STRING", more=NEWEST),
    )
    first, second = (
        [(1, "b", at(5), 1, False), (2, "c", at(5), 1, False)],
        [(1, "a", at(1), 1, False), (2, "d", at(6), 2, True)],
    )
    for rows in (first, second):
        changes = n.frame("id INT, mail STRING, at TIMESTAMP, seq BIGINT, gone BOOLEAN", *rows)
        kept = {"current": n.all("mail"), "previous": n.all("mail")}
        keep_versions(changes, versions.target(a_run()), stream=stream, **kept)
        keep_newest(changes, newest.target(a_run()), stream=stream)
    yield versions
    yield newest
    yield [judge_versions(versions.read(), keys=n.all("id")).figures]
    yield show_previous_values(versions.read().drop(*derived), keys=n.all("id"), previous=n.all("mail"))


def filtered(n):
    rows, table = n.frame("id INT, age INT", (1, 20), (2, 17), (3, None)), n.table("id INT, age INT")
    conditions = {STORED: f"{n.q('age')} > 17", "a b": f"{n.q('id')} % 2 = 1"}
    split = intercept_filters(rows, conditions=conditions, identity=n.all("id"))
    kept, seen = tally(split, identity=n.all("id"), measures=filter_measures(conditions))
    yield split["filtered"]
    yield [{**table.stage(kept, provenance=a_run(), rows_read=RowsRead(tally=seen)).publish().figures}]
    yield table


def filed(n):
    valid = n.table(
        "amount INT, id INT, note STRING, day STRING", more={"was_dead_lettered": Column("BOOLEAN")}, by=["day"]
    )
    dead = n.table("line STRING, id INT, note STRING, filed STRING", more=LETTER, by=["filed"])
    options = {"payload": n("line"), "identity": n.all("id"), "schema": {n.declared("amount"): "INT"}}
    options["carry"] = n.all("note")
    for number, text in enumerate(("{", "{}")):
        rows = n.frame("id INT, line STRING, note STRING", (1, "{}", "x"), (2, text, "y"), (3, "[", "z"))
        split = divert_unprocessable(rows, dead.read() if number else None, **options)
        parts = {**split.parts, "valid": (*split.parts["valid"], n.declared("day"))}
        dated = replace(split, rows=split.rows.withColumn(n.declared("day"), F.lit("a/b")), parts=parts)
        run = a_run(at=NOW, sequence=number)
        into, letters = valid.target(run, partition={n("day"): "a/b"}), dead.target(run, partition={n("filed"): "c d"})
        route(dated, into, letters)
    yield valid
    yield dead


def incremented(n):
    table = n.table("id INT, seq BIGINT, part STRING", by=["part"])
    for rows in ([(1, 99), (2, 100), (3, 150)], [(2, 101), (4, 150), (5, 200)]):
        into = table.target(a_run(replay=True), partition={n("part"): "100/200"})
        options = {"window": (100, 200), "keys": n.all("id"), "delta": n("seq")}
        load_increment(n.frame("id INT, seq BIGINT", *rows), into, **options)
    yield table


def replicated(n):
    personal = {
        n.declared("mail"): Column("STRING", personal=True, replica="pseudonym"),
        n.declared("ip"): Column("STRING", personal=True),
    }
    altered = {n.declared("city"): Column("STRING", replica=f"upper({n.q('plan')})")}
    checks = {"ip_is_there": f"{n.q('ip')} IS NOT NULL", "id_is_there": f"{n.q('id')} IS NOT NULL"}
    source = n.table("id INT, plan STRING, day STRING", more={**personal, **altered}, by=["day"], checks=checks)
    person = (1, "free", "a/b", "ada@x.org", "10.9.8.7", "Ulm")
    rows = n.frame("id INT, plan STRING, day STRING, mail STRING, ip STRING, city STRING", person)
    source.overwrite(rows, provenance=a_run())
    target = n.make_table(declare_transformed(source.spec, name=f"{source.name}/staging"))
    replicate_transformed(source, target.target(a_run()), key=MaskingKey("k", b"0" * 32))
    yield target


def delivered(n):
    columns = "id INT, blog STRING, page STRING, at INT, minute INT"
    rows = n.frame(columns, (1, "x", "/a", 9, 1), (2, "x", "/a", 8, 1), (3, "y", "/b", 7, 0))
    record = RecordColumns(identity=n("id"), order_by=n.all("at"), entity=n("page"), payload=n.all("page", "at"))
    in_bins = partial(deliver_in_bins, destination=n("blog"), unit=n("minute"))
    for deliver in (in_bins, partial(deliver_in_order, destination="x")):
        table, inbox, day = n.table("day STRING", more=RECEIPT, by=["day"]), Inbox(), {n("day"): "a/b"}
        deliver(rows, table.target(a_run(), partition=day), inbox, columns=record)
        yield [{"to": to, "ids": inbox.ids(to)} for to in inbox.taken]
        yield table


def overwritten(n):
    columns = "id INT, day STRING, land STRING"
    table = n.table(columns, by=["day", "land"])
    every = [(number, value, land) for number, value in enumerate(VALUES) for land in ("x", None)]
    table.overwrite(n.frame(columns, *every), provenance=a_run())
    owned, rows = {n("day"): 'say "x"', n("land"): "x"}, n.frame(columns, (99, 'say "x"', "x"))
    overwrite_partition(rows, table.target(a_run(), partition=owned))
    table.clear(partition={n("day"): "a=b", n("land"): "x"}, provenance=a_run())
    yield table
    yield table.read({n("day"): "%2F"}, {n("land"): None})


CASES = (aggregated_locally, answered, decorated, upserted, merged, merged_executions, merged_by_hand, dimensions)
CASES += (filtered, filed, incremented, replicated, delivered, overwritten)
