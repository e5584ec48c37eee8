"""Versioned Dimension."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from dedp_assets.patterns.core.errors import AmbiguousKeys, AuditFailed, ConfigError, Conflict
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta.rows import touched_files
from dedp_assets.patterns.modeling.current_dimension import NEWEST, keep_newest
from dedp_assets.patterns.modeling.previous_value_dimension import show_previous_values
from dedp_assets.patterns.modeling.versioned_dimension import (
    AUDITS,
    VERSION,
    ChangeStream,
    judge_versions,
    keep_versions,
)
from tests.contracts.known_calls import known_calls
from tests.helpers import NOW, a_run, active_files, read_back
from tests.patterns.modeling.changes import OWN, SCHEMA, STREAM, deliveries, former, held, model, moment
from tests.renaming import STORED, any_names, at
from tests.two_runs import two_runs

pytestmark = pytest.mark.spark

HYBRID = {"current_score": Column("DOUBLE"), "previous_score": Column("DOUBLE")}
DIMENSION = TableSpec("silver/dimension", {**OWN, **HYBRID, **VERSION})
HYBRIDS = {"stream": STREAM, "current": ["score"], "previous": ["score"]}
USERS = TableSpec("silver/users", {"id": Column("INT", required=True), "email": Column("STRING"), **VERSION})
BY_TIME = ChangeStream(keys=["id"], event_time="at", deleted="gone")
COLUMNS = "id INT, email STRING, at TIMESTAMP, gone BOOLEAN"


@pytest.fixture
def users(make_table):
    return make_table(USERS)


@pytest.fixture
def apply(spark, users):
    """Apply changes ``(id, email, day)``, with an email ``None`` for a deletion."""

    def applied(*changes, run="r", **options):
        rows = [(key, email, None if day is None else moment(day), email is None) for key, email, day in changes]
        frame = spark.createDataFrame(rows, COLUMNS)
        return keep_versions(frame, users.target(a_run(run_id=run)), stream=BY_TIME, **options)

    return applied


def intervals(table, key=1):
    """The versions of a key: value, first day, day of the end."""
    rows = [row for row in read_back(table) if row["id"] == key]
    rows = sorted(rows, key=lambda row: row["valid_from"])
    return [
        (row["email"], *[at and (at - moment(0)).days for at in (row["valid_from"], row["valid_to"])]) for row in rows
    ]


@pytest.mark.promise("versions-depend-on-the-set")
def test_versions_depend_on_the_set_of_changes_only(spark, make_table, monkeypatch):
    """200 keys, changes at once and repeated, deletions, re-appearances, batches of no order: as the model has it.

    The first batch rewrites a small table as it is, the others look for the files to rewrite; then one is replayed.
    """
    table, seen = make_table(DIMENSION), []
    batches = deliveries(7, keys=200, batches=3)
    for number, batch in enumerate([*batches, batches[0]]):
        seen += batch
        changes = spark.createDataFrame(batch, SCHEMA)
        written = keep_versions(changes, table.target(a_run(run_id=str(number))), **HYBRIDS)
        assert held(read_back(table)) == model(seen)
        monkeypatch.setattr(touched_files, "SMALL_BYTES", -1)
    assert not written.changed
    assert judge_versions(table.read(), keys=STREAM.keys).passed
    rebuilt = make_table(replace(DIMENSION, name="silver/rebuilt"))
    seen.reverse()
    keep_versions(spark.createDataFrame(seen, SCHEMA), rebuilt.target(a_run()), **HYBRIDS, rebuild=True)
    assert repr(read_back(rebuilt)) == repr(read_back(table))
    versions, now = model(seen), {}
    for version in versions:
        if version.end is None:
            now[version.key] = version.values[1]
    by_start = {(version.key, version.start): version for version in versions}
    for row in read_back(table):
        version = by_start[(row["a.key"], row["number"]), row["valid_from"]]
        assert repr(row["current_score"]) == str(now[version.key])
        assert repr(row["previous_score"]) == str(former(version, versions))


def test_a_change_finds_its_place_by_its_time(users, apply):
    """Late ones cut the right interval, equal ones begin none, deletions end one, and others' rows stay as they are."""
    apply((1, "a", 1), (2, "z", 1))
    apply((1, "a", 9))
    assert intervals(users) == [("a", 1, None)]
    apply((1, "b", 5))
    assert intervals(users) == [("a", 1, 5), ("b", 5, 9), ("a", 9, None)]
    apply((1, None, 7), (1, None, 8), (3, None, 2))
    assert intervals(users) == [("a", 1, 5), ("b", 5, 7), (None, 7, 9), ("a", 9, None)]
    apply((1, None, 12), (1, "first", 0), (3, "c", 1))
    assert intervals(users)[0] == ("first", 0, 1)
    assert intervals(users)[-2:] == [("a", 9, 12), (None, 12, None)]
    assert intervals(users, 2) == [("z", 1, None)]
    assert intervals(users, 3) == [("c", 1, 2), (None, 2, None)]
    current = {row["id"] for row in read_back(users) if row["is_current"]}
    assert current == {2}


def test_a_snapshot_that_says_what_was_known_changes_nothing_for_readers(users, apply):
    """It is kept that the day confirms the state, and a late change is cut by it; who follows the table sleeps on."""
    assert apply((1, "a", 1), (2, "z", 1)).changed
    again = apply((1, "a", 3), (2, "z", 3))
    assert (again.applied, again.changed, again.reason) == (True, False, "2 rows confirmed")
    assert users.ledger.commit(again.version).changed == frozenset()
    assert again.rows.unaccounted == 0
    mixed = apply((1, "a", 5), (2, "y", 5))
    assert (mixed.changed, mixed.reason) == (True, "1 rows inserted, 1 rows updated, 1 rows confirmed")
    assert apply((1, "b", 4)).changed
    assert intervals(users) == [("a", 1, 4), ("b", 4, 5), ("a", 5, None)]


def test_a_contradiction_over_two_batches_is_refused_without_figures_that_cannot_be(apply):
    """The rule is named, and nothing is said of rows that the outcomes do not add up to."""
    apply((1, "a", 1))
    with pytest.raises(AuditFailed, match="changes_of_one_instant_agree") as refused:
        apply((1, "b", 1))
    figures = {name: number for finding in refused.value.findings for name, number in finding.figures.items()}
    assert not [name for name, number in figures.items() if isinstance(number, int) and number < 0]
    assert "untouched" not in figures


def test_what_cannot_be_told_apart_is_refused_and_changes_nothing(users, apply, spark):
    """NULL keys, no time, and changes of one instant that contradict each other, among themselves or what is there."""
    apply((1, "a", 1))
    before = read_back(users)
    with pytest.raises(AmbiguousKeys, match="1 of 1 rows have NULL in id"):
        apply((None, "b", 2))
    for wrong in ([(1, "b", None)], [(1, None, 1)], [(2, "b", 3), (2, "c", 3)]):
        with pytest.raises(AuditFailed):
            apply(*wrong)
    with pytest.raises(AuditFailed):
        apply((None, "b", 2), rebuild=True)
    assert read_back(users) == before
    dated = spark.sql("SELECT 1 AS id, 'a' AS email, DATE '2026-01-01' AS at, false AS gone")
    with pytest.raises(ConfigError, match="at is DATE, which is no instant"):
        keep_versions(dated, users.target(a_run()), stream=BY_TIME)


@pytest.mark.parametrize("place", ["1.5", "TIMESTAMP '2026-01-01 00:00:00.5'", "'7'", "DATE '2026-01-01'"])
def test_an_order_that_a_whole_number_does_not_hold_is_refused(users, spark, place):
    """Two changes of one second would get one place; what was cut off would say which of them counts."""
    changes = spark.sql(f"SELECT 1 AS id, 'a' AS email, current_timestamp() AS at, false AS gone, {place} AS place")
    with pytest.raises(ConfigError, match=r"column place is .*, which may lose its place among others as a BIGINT"):
        keep_versions(changes, users.target(a_run()), stream=replace(BY_TIME, sequence="place"))


def test_a_change_that_confirms_what_was_is_contradicted_like_any_other(apply):
    """Of two states at one instant one may be what was before: that is no reason to believe the other, of any value."""
    keys = range(16)
    apply(*[(key, "a", 1) for key in keys])
    with pytest.raises(AuditFailed) as refused:
        apply(*[change for key in keys for change in ((key, "a", 2), (key, f"other {key}", 2))])
    (rule,) = AUDITS
    found = {finding.name: finding.figures for finding in refused.value.findings}
    assert found[rule.name][rule.name] == len(keys)


@pytest.mark.parametrize(
    ("columns", "stream", "words"),
    [
        ({"id": Column("INT"), **VERSION}, {}, "keys that it declares as required"),
        ({"id": Column("INT", required=True)}, {}, "no columns valid_from TIMESTAMP"),
        ({**USERS.columns, "email": Column("STRING", required=True)}, {}, "requires email"),
        (USERS.columns, {"keys": ["is_current"]}, "fills is_current, which can be no key"),
        (USERS.columns, {"keys": []}, "not none"),
        (USERS.columns, {"event_time": "when"}, "no column when"),
    ],
)
def test_a_table_that_does_not_fit_is_refused(make_table, spark, columns, stream, words):
    """Before anything is computed, and by name."""
    given = {"keys": ["id"], "event_time": "at", **stream}
    changes = spark.createDataFrame([], COLUMNS)
    with pytest.raises(ConfigError, match=words):
        keep_versions(changes, make_table(TableSpec("t", columns)).target(a_run()), stream=ChangeStream(**given))


@pytest.mark.promise("two-runs-at-once-lose")
def test_two_runs_at_once_lose_nothing(users, apply):
    """Both cut the same key: whoever is second computes it again from what the first one left."""
    apply((1, "a", 1))

    def again(change, run):
        while True:
            try:
                return apply(change, run=run)
            except Conflict:
                continue

    with ThreadPoolExecutor(2) as pool:
        done = [pool.submit(again, change, run) for run, change in (("x", (1, "b", 3)), ("y", (1, "c", 2)))]
        assert all(each.result().changed for each in done)
    assert intervals(users) == [("a", 1, 2), ("c", 2, 3), ("b", 3, None)]


def test_files_without_a_key_of_the_changes_stay(users, apply):
    """Only the history of touched keys is rewritten."""
    apply((1, "a", 1), (2, "b", 1))
    first = active_files(users)
    apply((7, "c", 1), (9, "d", 1))
    assert first < active_files(users)
    apply((8, "e", 1))
    assert first < active_files(users)


SOUND = [(1, 5, False, False), (5, 9, False, True), (9, None, True, False)]


@pytest.mark.parametrize(
    ("fault", "versions"),
    [
        ("", SOUND),
        ("overlaps", [(1, 6, False, False), *SOUND[1:]]),
        ("gaps", [SOUND[0], SOUND[2]]),
        ("gaps", SOUND[:2]),
        ("reversed", [*SOUND[:2], (9, 8, False, False)]),
        ("unclosed", [(1, None, False, False), *SOUND[1:]]),
        ("several current", [(1, 5, True, False), *SOUND[1:]]),
        ("wrongly current", [*SOUND[:2], (9, None, False, False)]),
    ],
)
def test_seeded_faults_are_found(spark, fault, versions):
    """Overlap, gap, an end that nothing follows, a reversed range, one that is not closed, two current, none."""
    rows = [(1, "a", moment(a), b and moment(b), *flags, []) for a, b, *flags in versions]
    kinds = ", ".join(f"{name} {column.type}" for name, column in USERS.columns.items())
    found = judge_versions(spark.createDataFrame(rows, kinds), keys=["id"])
    assert found.passed == (not fault)
    assert fault in found.note


@any_names(STORED)
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


@known_calls
def calls_that_work(known):
    columns = {"id": Column("INT", required=True), "name": Column("STRING")}
    history = known.table("gold/all", {**columns, **VERSION})
    return {
        "keep_versions": {
            "changes": known.frame("id INT, name STRING, at TIMESTAMP", (1, "Ada", NOW)),
            "stream": ChangeStream(keys=["id"], event_time="at"),
            "into": history.target(known.run),
            "current": [],
            "previous": [],
        },
        "judge_versions": {"dimension": history.read(), "keys": ["id"]},
    }


@two_runs()
def dimensions_at_once(world):
    columns = "id INT, mail STRING, at TIMESTAMP"
    stream = ChangeStream(keys=["id"], event_time="at")
    versions = world.table("versions", "id INT!, mail STRING", more=VERSION)
    keep_versions(world.frame(columns, (1, "a", at(1))), versions.target(world.run("base")), stream=stream)
    for name, rows in (("1", [(1, "b", at(5))]), ("2", [(1, "c", at(3)), (2, "c", at(3))])):
        yield lambda w, name=name, rows=rows: keep_versions(
            w.frame(columns, *rows), w.into("versions", name), stream=stream
        )
