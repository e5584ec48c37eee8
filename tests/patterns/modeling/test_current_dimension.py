"""Current Dimension."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dedp_assets.patterns.core.errors import AmbiguousKeys, AuditFailed
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.modeling.current_dimension import NEWEST, ChangeStream, keep_current_and_history, keep_newest
from dedp_assets.patterns.modeling.versioned_dimension import VERSION, keep_versions
from tests.contracts.known_calls import known_calls
from tests.helpers import NOW, a_run, read_back
from tests.patterns.modeling.changes import OWN, SCHEMA, STREAM, Change, deliveries, held, model, moment
from tests.renaming import at
from tests.two_runs import two_runs

pytestmark = pytest.mark.spark

CURRENT = TableSpec("silver/current", {**OWN, **NEWEST})
HISTORY = TableSpec("silver/history", {**OWN, **VERSION})


def newest(changes):
    """By the model: key -> values, whether it is gone, and its newest change."""
    return {v.key: (v.values, v.gone, v.changes[-1]) for v in model(changes) if v.end is None}


def states(table):
    """The same of a table."""
    rows = read_back(table)
    found = {}
    for row in rows:
        values = (None, None) if row["is_deleted"] else (row["the.segment"], repr(row["score"]))
        change = row["last_change"]
        found[row["a.key"], row["number"]] = (values, row["is_deleted"], (change["at"], change["sequence"]))
    assert len(found) == len(rows)
    return found


@pytest.mark.promise("each-key-is-as-its")
def test_each_key_is_as_its_newest_change_left_it(spark, make_table):
    """200 keys in batches of no order, one of them replayed: as the model has it; rebuilt from all, the same rows.

    With the history beside it, both agree: what is current there is the row here.
    """
    current, history, seen = make_table(CURRENT), make_table(HISTORY), []
    batches = deliveries(11, keys=200, batches=2)
    for number, batch in enumerate([*batches, batches[0]]):
        seen += batch
        run = a_run(run_id=str(number))
        changes = spark.createDataFrame(batch, SCHEMA)
        written = keep_current_and_history(changes, current.target(run), history.target(run), stream=STREAM)
        assert states(current) == newest(seen)
    assert held(read_back(history)) == model(seen)
    assert (written.changed, written.beside[0].changed) == (False, False)
    rebuilt = make_table(replace(CURRENT, name="silver/rebuilt"))
    keep_newest(spark.createDataFrame(seen[::-1], SCHEMA), rebuilt.target(a_run()), stream=STREAM, rebuild=True)
    assert repr(read_back(rebuilt)) == repr(read_back(current))


def test_no_changes_empty_no_table(spark, make_table):
    """A source that delivers nothing is usually broken; a new table may be empty."""
    run, changes = a_run(), spark.createDataFrame(deliveries(11, keys=2, batches=1)[0], SCHEMA)
    tables = [make_table(spec).target(run) for spec in (CURRENT, HISTORY)]
    keep_current_and_history(changes.limit(0), *tables, stream=STREAM, rebuild=True)
    keep_current_and_history(changes, *tables, stream=STREAM)
    before = [read_back(each.table) for each in tables]
    for into, write in zip(tables, (keep_newest, keep_versions), strict=True):
        with pytest.raises(AuditFailed, match="input_is_not_empty"):
            write(changes.limit(0), into, stream=STREAM, rebuild=True)
    assert repr([read_back(each.table) for each in tables]) == repr(before)
    assert all(before)


def test_nothing_says_which_of_two_changes_is_true(spark, make_table):
    """At the newest instant that is refused; where an order tells, it is not, and older ones do not count."""
    table = make_table(CURRENT)

    def apply(*changes):
        frame = spark.createDataFrame(changes, SCHEMA)
        return keep_newest(frame, table.target(a_run(run_id=str(changes))), stream=STREAM)

    first = Change("k", 1, "x", 1.0, moment(5), None, False)
    apply(first)
    before = read_back(table)
    for wrong in (first._replace(segment="y"), first._replace(at=None)):
        with pytest.raises(AuditFailed, match="changes_of_one_instant_agree"):
            apply(wrong)
    with pytest.raises(AmbiguousKeys, match="NULL in"):
        apply(first._replace(text=None))
    assert read_back(table) == before
    early = first._replace(at=moment(1))
    assert not apply(early, early._replace(segment="y")).changed
    assert apply(first._replace(segment="y", place=2), first._replace(segment="z", place=1)).changed
    assert states(table)["k", 1] == (("y", "1.0"), False, (moment(5), 2))


@known_calls
def calls_that_work(known):
    columns = {"id": Column("INT", required=True), "name": Column("STRING")}
    current = known.table("gold/now", {**columns, **NEWEST})
    history = known.table("gold/before", {**columns, **VERSION})
    return {
        "keep_current_and_history": {
            "changes": known.frame("id INT, name STRING, at TIMESTAMP", (1, "Ada", NOW)),
            "stream": ChangeStream(keys=["id"], event_time="at"),
            "into": current.target(known.run),
            "history": history.target(known.run),
        }
    }


@two_runs()
def newest_at_once(world):
    columns = "id INT, mail STRING, at TIMESTAMP"
    stream = ChangeStream(keys=["id"], event_time="at")
    table = world.table("newest", "id INT!, mail STRING", more=NEWEST)
    keep_newest(world.frame(columns, (1, "a", at(1))), table.target(world.run("base")), stream=stream)
    for name, rows in (("1", [(1, "b", at(5))]), ("2", [(1, "c", at(3)), (2, "c", at(3))])):
        yield lambda w, name=name, rows=rows: keep_newest(
            w.frame(columns, *rows), w.into("newest", name), stream=stream
        )


@two_runs()
def both_dimensions_at_once(world):
    columns = "id INT, mail STRING, at TIMESTAMP"
    stream = ChangeStream(keys=["id"], event_time="at")
    for name, more in (("newest", NEWEST), ("versions", VERSION)):
        world.table(name, "id INT!, mail STRING", more=more)

    def write(w, name, *rows):
        changes, tables = w.frame(columns, *rows), [w.into(table, name) for table in ("newest", "versions")]
        keep_current_and_history(changes, *tables, stream=stream)

    write(world, "base", (1, "a", at(1)))
    yield lambda w: write(w, "1", (1, "b", at(5)))
    yield lambda w: write(w, "2", (1, "c", at(3)), (2, "c", at(3)))
