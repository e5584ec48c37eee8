"""From changes to the state they add up to, and what is noted about the source's columns."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from random import Random

import pytest

from dedp_assets.patterns.connectors.postgres.pgoutput import Change, Relation, Transaction
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.ingestion import _history

AT = datetime(2026, 1, 5, 23, 59, tzinfo=timezone.utc)
USERS = Relation(1, "public.users", whole_rows=True, columns={})
SPEC = TableSpec("bronze/users", {"of": Column("STRING"), "id": Column("INT"), "note": Column("STRING")})
KEYS = ["of", "id"]


def image(of, number, note):
    return {"of": of, "id": str(number), "note": note}


def workload(of, *, seed, steps):
    """Random changes of a few keys, and the rows they leave behind."""
    random, state, made = Random(seed), {}, []  # noqa: S311 - test data
    for step in range(steps):
        number, note = random.randrange(4), random.choice([None, f"n{step}"])
        before = state.get(number)
        if before is None:
            made.append(Change("insert", USERS, None, image(of, number, note)))
            state[number] = made[-1].after
        elif random.random() < 0.4:
            made.append(Change("delete", USERS, before, None))
            del state[number]
        else:
            moved = random.choice([number, *[n for n in range(4) if n not in state]])
            made.append(Change("update", USERS, before, image(of, moved, note)))
            del state[number]
            state[moved] = made[-1].after
    return made, state


def transactions(made, *, seed):
    """The changes cut into transactions at random."""
    random, position = Random(seed), 100  # noqa: S311 - test data
    while made:
        size = random.randint(1, 4)
        yield Transaction(position, AT + timedelta(seconds=position), tuple(made[:size]))
        made, position = made[size:], position + 50


@pytest.mark.spark
def test_changes_add_up_to_the_rows_they_left_behind(spark):
    """Random inserts, updates, deletes and moves of keys, fifty times, in whatever order their rows are read."""
    expected, rows = [], []
    for seed in range(50):
        made, state = workload(f"w{seed}", seed=seed, steps=30)
        rows += _history.of_transactions(transactions(made, seed=seed), KEYS)
        expected += [(row["of"], int(row["id"]), row["note"]) for row in state.values()]
    Random(0).shuffle(rows)  # noqa: S311 - test data
    found = _history.latest_rows(_history.frame(spark, rows), keys=KEYS, after=(0, 0))
    assert _history.misfits(found, SPEC) == {}
    held = _history.typed(found, SPEC, keys=KEYS).filter(f"NOT `{_history.GONE}`").collect()
    assert sorted((row["of"], row["id"], row["note"] or "") for row in held) == sorted(
        (of, number, note or "") for of, number, note in expected
    )


def test_only_what_comes_after_the_last_reset_counts(spark):
    """A truncation in the middle of a transaction parts it."""
    first, second = (Change("insert", USERS, None, image("a", n, f"n{n}")) for n in (1, 2))
    batch = [Transaction(100, AT, (Change("schema", USERS, after={}), first, Change("truncate", USERS), second))]
    note = _history.noting({"columns": {}, "changed": {}, "reset": [50, 0]}, batch)
    assert note["reset"] == [100, 1]
    frame = _history.frame(spark, _history.of_transactions(batch, KEYS))
    (kept,) = _history.latest_rows(frame, keys=KEYS, after=note["reset"]).collect()
    assert kept["row"]["note"] == "n2"


def test_a_change_is_filed_under_the_day_of_its_commit_in_utc(spark):
    """Wherever the clock that stated it stands; positions count the changes that are rows: what a table is, is none."""
    insert = Change("insert", USERS, None, image("a", 1, None))
    east = AT.astimezone(timezone(timedelta(hours=5, minutes=30)))
    made = [
        Transaction(100, east, (Change("schema", USERS, after={}), insert, insert)),
        Transaction(200, AT + timedelta(minutes=1), (insert,)),
    ]
    rows = _history.frame(spark, _history.of_transactions(made, KEYS)).orderBy("commit_lsn", "position").collect()
    assert [(row["commit_lsn"], row["position"], str(row["committed_on"])) for row in rows] == [
        (100, 0, "2026-01-05"),
        (100, 1, "2026-01-05"),
        (200, 0, "2026-01-06"),
    ]
    assert {row["key"] for row in rows} == {'{"of":"a","id":"1"}'}


def seen(ends_at, **columns):
    return Transaction(ends_at, AT, (Change("schema", USERS, after=columns),))


def test_what_changed_about_the_columns_since_the_snapshot_is_noted():
    """Dropped, added and retyped ones, with the place; it stays noted, though the column comes back as it was."""
    note = {"oid": 1, "columns": {"id": "bigint", "note": "text", "age": "integer"}, "changed": {}, "reset": [1, 0]}
    same = _history.noting(note, [seen(100, id="bigint", note="text", age="integer")])
    assert same == note
    after = _history.noting(note, [seen(256, id="bigint", note="character varying(9)", city="text")])
    assert after["columns"] == {"id": "bigint", "note": "character varying(9)", "city": "text"}
    assert after["changed"] == {
        "age": "was dropped before 0/100",
        "city": "was added before 0/100",
        "note": "was text, is character varying(9) since before 0/100",
    }
    back = _history.noting(after, [seen(512, **note["columns"])])
    assert back["columns"] == note["columns"]
    assert set(back["changed"]) == {"age", "city", "note"}
    assert note["changed"] == {}


@pytest.mark.parametrize(
    ("kind", "text", "shown"),
    [
        ("BOOLEAN", "t", "true"),
        ("BOOLEAN", "f", "false"),
        ("BINARY", "\\x00ff", "00FF"),
        ("BINARY", "\\x", ""),
        ("DOUBLE", "NaN", "NaN"),
        ("TIMESTAMP", "2026-01-05 10:00:00.5+00", "2026-01-05 10:00:00.5"),
        ("DATE", "infinity", None),
        ("DOUBLE", "1e+20", "1.0E20"),
        ("DOUBLE", "-Infinity", "-Infinity"),
        ("DECIMAL(6,2)", "12.340", "12.34"),
        ("DECIMAL(6,2)", "12.345", None),
        ("DECIMAL(6,2)", "NaN", None),
        ("TIMESTAMP", "2026-01-05 10:00:00", "2026-01-05 10:00:00"),
        ("TIMESTAMP", "0044-03-15 10:00:00 BC", None),
        ("DATE", "12026-01-05", None),
    ],
)
def test_texts_become_values(spark, kind, text, shown):
    """As PostgreSQL writes them; one that has no value of the type is counted, and not lost in silence."""
    spec = TableSpec("t", {"of": Column("STRING"), "id": Column("INT"), "value": Column(kind)})
    row = Change("insert", USERS, None, {"of": "a", "id": "1", "value": text})
    frame = _history.frame(spark, _history.of_transactions([Transaction(1, AT, (row,))], KEYS))
    found = _history.latest_rows(frame, keys=KEYS, after=(0, 0))
    value = "hex(value)" if kind == "BINARY" else "CAST(value AS STRING)"
    assert [r["shown"] for r in _history.typed(found, spec, keys=KEYS).selectExpr(f"{value} AS shown").collect()] == [
        shown
    ]
    assert _history.misfits(found, spec) == ({} if shown is not None else {"value": 1})
