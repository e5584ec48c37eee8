"""Vertical Partitioner (privacy)."""

from __future__ import annotations

from collections import Counter
from contextlib import redirect_stdout
from dataclasses import dataclass, field, replace
from datetime import timedelta
from io import StringIO
from pathlib import Path

import pytest
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from dedp_assets.patterns.core.errors import AmbiguousKeys, AuditFailed, ConfigError, ContractError, NotReady
from dedp_assets.patterns.core.masking import MaskingKey
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import SuppressionList, Table, store_at
from dedp_assets.patterns.delta.maintenance import put_milestone
from dedp_assets.patterns.security import vertical_partitioner
from dedp_assets.patterns.security.vertical_partitioner import (
    Removal,
    forget_persons,
    join_persons,
    split_persons,
)
from tests.canaries import Search, people, texts_in
from tests.contracts.known_calls import known_calls
from tests.faults.failpoints import POINTS, dying
from tests.helpers import NOW, a_run, active_files, read_back
from tests.renaming import STORED, any_names
from tests.two_runs import two_runs

pytestmark = [
    pytest.mark.spark,
    pytest.mark.budget(45, "two tables, a death at each commit, and purges"),
]

OPEN = {"classification": "public"}
PERSON = Column("STRING", "surrogate of the user", classification="personal", subject="user")
EVENTS = TableSpec(
    "silver/clicks",
    {
        "day": Column("STRING", required=True, **OPEN),
        "event-id": Column("BIGINT", required=True, **OPEN),
        "url": Column("STRING", **OPEN),
        "user_id": PERSON,
    },
    ("day",),
)
CONTEXT = TableSpec(
    "silver/users",
    {
        "user_id": replace(PERSON, required=True),
        "e-mail": Column("STRING", classification="personal"),
        "address": Column("STRING", classification="sensitive"),
        "at": Column("INT", "when it was so", **OPEN),
    },
    key=("user_id",),
)
SCHEMA = "day STRING, `event-id` BIGINT, url STRING, user_id STRING, `e-mail` STRING, address STRING, at INT"
COLUMNS = [*EVENTS.columns, "e-mail", "address", "at"]
CANARIES = [c for c in people(40) if c.name.startswith(("e-mail", "name"))]
KEY = MaskingKey("home", b"32 random bytes, which these are not")


def click(day, number, user, mail="", address=None, at=1):
    return (day, number, f"/{number}", user, mail or f"{user}@old.example", address, at)


def split(spark, tables, rows, day="mon", *, name="", suppressed=None, **more):
    frame = rows if hasattr(rows, "sparkSession") else spark.createDataFrame(rows, SCHEMA)
    run = a_run("silver/clicks", run_id=f"run {name}", inputs={"landing": f"{day} {name}"})
    events, context = tables
    suppressed = suppressed or SuppressionList(store_at(context.store.above().within("_suppressed").address), KEY)
    into = events.target(run, partition={"day": day})
    return split_persons(frame, into, context.target(run), suppressed, newest=["at"], **more)


def forget(tables, suppressed, person, request="T-1", received=NOW, at=NOW, **more):
    asked = Removal(request=request, id=person, received=received)
    return forget_persons([asked], tables[1].target(a_run("forget", run_id=request, at=at)), suppressed, **more)


def joined(tables):
    found = join_persons(*tables)
    assert [*found.columns] == COLUMNS
    return Counter(map(tuple, found.collect()))


def persons_of(tables):
    """Person -> e-mail and time, of which there is one."""
    rows = read_back(tables[1])
    assert len({row["user_id"] for row in rows}) == len(rows)
    return {row["user_id"]: (row["e-mail"], row["at"]) for row in rows}


def orphans(tables):
    return {row["user_id"] for row in read_back(tables[0])} - {*persons_of(tables)} - {None}


@pytest.fixture
def tables(make_table):
    return [make_table(EVENTS), make_table(CONTEXT)]


@pytest.fixture
def suppressed(tmp_path):
    return SuppressionList(store_at(tmp_path / "_suppressed"), KEY)


def test_one_row_per_person_after_replays_reruns_and_changes(spark, tables):
    """Acceptance 2, 6: the newest row of a person counts, whole; a late older one and a rerun change nothing."""
    monday = [
        click("mon", 1, "a", "a@1", "Road 1", at=1),
        click("mon", 2, "a", "a@2", None, at=2),
        click("mon", 3, None, "nobody@example.org"),
        click("mon", 4, "b"),
    ]
    done = split(spark, tables, monday)
    assert persons_of(tables) == {"a": ("a@2", 2), "b": ("b@old.example", 1)}
    assert [row["address"] for row in read_back(tables[1])] == [None, None]
    assert (done.table, done.rows.written, done.beside[0].reason) == ("silver/clicks", 4, "2 rows inserted")
    split(spark, tables, [click("tue", 5, "a", "a@3", at=3), click("tue", 6, "b", "b@0", at=0)], "tue")
    assert persons_of(tables) == {"a": ("a@3", 3), "b": ("b@old.example", 1)}
    again = split(spark, tables, monday)
    assert (again.changed, again.beside[0].changed) == (False, False)
    assert Counter(row["day"] for row in read_back(tables[0])) == {"mon": 4, "tue": 2}
    expected = [(*row[:4], *by) for row in monday for by in [{"a": ("a@3", None, 3)}.get(row[3], row[4:])]]
    expected[2] = (*monday[2][:4], None, None, None)
    tuesday = [("tue", 5, "/5", "a", "a@3", None, 3), ("tue", 6, "/6", "b", "b@old.example", None, 1)]
    assert joined(tables) == Counter([*expected, *tuesday])


def test_what_nobody_can_decide_changes_nothing(spark, tables):
    """Two values at one place in the order, in a batch or against the row that is there, and a row without a place."""
    split(spark, tables, [click("mon", 1, "a", "a@1")])
    before = [read_back(table) for table in tables]
    for error, match, rows in (
        (AmbiguousKeys, "a personal key", [click("mon", 1, "a", "x@1", at=2), click("mon", 2, "a", "x@2", at=2)]),
        (AuditFailed, "changes_of_one_place_agree", [click("mon", 1, "a", "other@1")]),
        (ContractError, "1 rows of the source with no at", [click("mon", 1, "a", "secret@1", at=None)]),
    ):
        with pytest.raises(error, match=match) as raised:
            split(spark, tables, rows, name=match)
        assert "@1" not in str(raised.value)
    assert [read_back(table) for table in tables] == before


def test_events_hold_no_personal_value_in_any_file(spark, tables):
    """Acceptance 1: neither as a value of a data file nor as a statistic of the log; persons have none in the log."""
    rows = [
        click("mon", n, f"u{n % 7}", canary.value.decode(), CANARIES[-1].value.decode(), at=n)
        for n, canary in enumerate(CANARIES)
    ]
    split(spark, tables, rows)
    search = Search(CANARIES)
    found = {
        table.name: {place for place, text in texts_in(Path(str(table.location))) if search.found(text)}
        for table in tables
    }
    assert found["silver/clicks"] == set()
    assert found["silver/users"]
    assert not [place for place in found["silver/users"] if "_delta_log" in place]


@pytest.mark.parametrize(("point", "table"), [("after", "users"), ("before", "clicks"), ("after", "clicks")])
def test_no_event_is_without_its_person_whenever_a_write_dies(spark, tables, point, table):
    """Acceptance 6: between the two commits, and after both; the rerun goes on, and nothing is there twice."""
    rows = [click("mon", n, f"u{n % 3}") for n in range(5)]
    with dying(point, below=f"/{table}/") as failpoint, pytest.raises(RuntimeError, match="killed"):
        split(spark, tables, rows)
    assert failpoint.reached
    assert orphans(tables) == set()
    split(spark, tables, rows)
    assert orphans(tables) == set()
    assert joined(tables) == Counter(rows)


@pytest.mark.both
def test_a_forgotten_person_is_gone_and_the_events_are_as_they_were(spark, tables, suppressed):
    """Acceptance 3, 5: version, files and rows of events stay; a late, replayed or new event makes no person again."""
    rows = [click("mon", n, f"u{n % 3}") for n in range(6)]
    split(spark, tables, rows, suppressed=suppressed)
    events = tables[0]
    files = {path: Path(str(events.location), path).read_bytes() for path in active_files(events)}
    version = events.ledger.version()
    asked = [Removal(request="T-1", id="u1"), Removal(request="T-2", id="never seen")]
    done = forget_persons(asked, tables[1].target(a_run("forget")), suppressed)
    assert (done.figures["persons"], done.figures["deleted"]) == (2, 1)
    assert events.ledger.version() == version
    assert {path: Path(str(events.location), path).read_bytes() for path in active_files(events)} == files
    anonymous = [(*row[:4], None, None, None) if row[3] == "u1" else row for row in rows]
    assert joined(tables) == Counter(anonymous)
    replayed = split(spark, tables, rows, suppressed=suppressed)
    assert replayed.changed is False
    late = [click("tue", 9, "u1", "new@x", at=9), click("tue", 10, "u2")]
    split(spark, tables, late, "tue", suppressed=suppressed)
    assert {*persons_of(tables)} == {"u0", "u2"}
    assert joined(tables) == Counter([*anonymous, ("tue", 9, "/9", "u1", None, None, None), late[1]])
    suppressed.lift("T-1")
    split(spark, tables, late, "tue", name="registered again", suppressed=suppressed)
    assert persons_of(tables)["u1"] == ("new@x", 9)


def test_a_request_has_its_times_and_a_deadline(spark, tables, suppressed):
    """Acceptance 4: requested, executed, purged; a purge after the deadline is said, a repetition keeps the times."""
    split(spark, tables, [click("mon", 1, "a"), click("mon", 2, "b")], suppressed=suppressed)
    day = timedelta(days=1)
    (finding,) = forget(tables, suppressed, "a", received=NOW, at=NOW + 30 * day).findings
    assert (finding.passed, finding.figures) == (True, {"requests": 1, "late": 0})
    at = NOW + 30 * day
    assert suppressed.times("T-1") == {"requested": NOW, "executed": at, "purged": at}
    forget(tables, suppressed, "a", received=NOW, at=NOW + 40 * day)
    assert suppressed.times("T-1") == {"requested": NOW, "executed": at, "purged": at}
    (finding,) = forget(tables, suppressed, "b", request="T-2", at=NOW + 31 * day).findings
    assert (finding.passed, finding.severity, finding.figures["late"]) == (False, "warn", 1)
    assert persons_of(tables) == {}


@dataclass
class Copy:
    """A copy elsewhere, which notes what it is asked for; of a purge it is not done with at first."""

    suppressed: SuppressionList
    asked: list = field(default_factory=list)
    patient: bool = False
    name = "the copy"

    def erase(self, ids):
        self.asked.append(("erase", ids, {*self.suppressed.times("T-1")}))

    def purge(self, ids):
        self.asked.append(("purge", ids, {*self.suppressed.times("T-1")}))
        if not self.patient:
            self.patient = True
            raise NotReady("the copy needs more time")


def test_no_byte_of_a_forgotten_person_is_left(spark, tables, suppressed, tmp_path):
    """Acceptance 4: not in a data file, the log or the list; no older version is readable, and the rerun ends a purge.

    Copies are asked in turn, and the request is purged once the last one is.
    """
    gone = [canary.value.decode() for canary in CANARIES[:3]]
    rows = [click("mon", 1, gone[0], gone[1], gone[2]), click("mon", 2, "b", "stays@b")]
    split(spark, tables, [click("sun", 0, "c")], "sun")
    split(spark, tables, rows, suppressed=suppressed)
    events, context = tables
    before, copy = context.ledger.version(), Copy(suppressed)
    search = Search(CANARIES[:3])

    def found(table):
        return {place for place, text in texts_in(Path(str(table.location))) if search.found(text)}

    assert found(context)
    with pytest.raises(NotReady, match="needs more time"):
        forget(tables, suppressed, gone[0], copies=[copy])
    assert {*suppressed.times("T-1")} == {"requested", "executed"}
    forget(tables, suppressed, gone[0], copies=[copy], at=NOW + timedelta(hours=1))
    assert suppressed.times("T-1") == {"requested": NOW, "executed": NOW, "purged": NOW + timedelta(hours=1)}
    steps = [(step, ids, {*times} - {"requested"}) for step, ids, times in copy.asked]
    assert steps[:2] == [("erase", [gone[0]], set()), ("purge", [gone[0]], {"executed"})]
    assert found(context) == set()
    assert not [place for place, text in texts_in(tmp_path / "_suppressed") if search.found(text)]
    assert {*persons_of(tables)} == {"b", "c"}
    for version in range(before + 1):
        with pytest.raises(DeltaError):
            DeltaTable(str(context.location), version=version)
    # The id alone is left, in the event: it has to be one that leads nowhere else.
    search = Search(CANARIES[1:3])
    assert found(events) == set()
    assert joined(tables)[(*rows[0][:4], None, None, None)] == 1


def test_no_id_is_in_the_plan_of_a_deletion(tables):
    """Spark writes the literals of plans into its logs; the rows that a deletion is joined with are none."""
    tables[1].ensure()
    shown = StringIO()
    with redirect_stdout(shown):
        vertical_partitioner._named(tables[1], ["canary-id"], KEY).explain(extended=True)
    assert "user_id" in shown.getvalue()
    assert "canary" not in shown.getvalue()


@pytest.mark.parametrize("point", POINTS)
def test_a_request_that_dies_is_finished_by_its_repetition(spark, tables, suppressed, point):
    """Nobody comes back meanwhile: whoever is deleted, or about to be, is on the list."""
    rows = [click("mon", 1, "a"), click("mon", 2, "b")]
    split(spark, tables, rows, suppressed=suppressed)
    with dying(point, below="/users/") as failpoint, pytest.raises(RuntimeError, match="killed"):
        forget(tables, suppressed, "a")
    assert failpoint.reached
    assert suppressed.among("user", ["a", "b"]) == {"a"}
    if point == "after":
        split(spark, tables, rows, name="replay", suppressed=suppressed)
        assert {*persons_of(tables)} == {"b"}
    forget(tables, suppressed, "a")
    assert {*persons_of(tables)} == {"b"}
    assert {*suppressed.times("T-1")} == {"requested", "executed", "purged"}


def test_requests_that_cannot_be_are_refused_and_no_id_is_shown(spark, tables, make_table, suppressed):
    """Before a row is deleted: no request, no time, a blank id, other persons under the name, ids of another type.

    A milestone keeps old versions unless it is given up.
    """
    split(spark, tables, [click("mon", 1, "canary-id")])
    asked = Removal(request="T-1", id="canary-id", received=NOW)
    target = tables[1].target(a_run("forget"))
    untimed = tables[1].target("run without a time")
    other = make_table(
        replace(CONTEXT, name="silver/unnamed", columns={**CONTEXT.columns, "user_id": Column("STRING")})
    )
    number = replace(PERSON, type="BIGINT", required=True)
    numbers = make_table(replace(CONTEXT, name="silver/numbers", columns={**CONTEXT.columns, "user_id": number}))
    suppressed.add("T-9", {"user": ["x"]}, at=NOW, because="asked")
    for match, requests, into in (
        ("at least one person", [], target),
        ("must state its time", [asked], untimed),
        ("not share T-1", [asked, asked], target),
        ("not be empty as T-2", [asked, replace(asked, request="T-2", id=" ")], target),
        ("T-9 must name the persons that it named", [replace(asked, request="T-9")], target),
        ("must state its subject", [asked], other.target(a_run("forget"))),
        ("not 1 that none can be", [asked], numbers.target(a_run("forget"))),
        ("not 1 that none can be", [replace(asked, id="007")], numbers.target(a_run("forget"))),
    ):
        with pytest.raises(ConfigError, match=match) as raised:
            forget_persons(requests, into, suppressed)
        assert "canary" not in str(raised.value)
    put_milestone(tables[1], state := tables[1].ledger.state(), "audit-2026", state.version, a_run())
    with pytest.raises(ConfigError, match="audit-2026"):
        forget_persons([asked], target, suppressed)
    assert {*persons_of(tables)} == {"canary-id"}
    assert suppressed.among("user", ["canary-id"]) == frozenset()
    forget_persons([asked], target, suppressed, give_up=["audit-2026"])
    assert persons_of(tables) == {}
    assert "canary" not in repr(asked)


def test_tables_that_are_no_parts_are_refused(spark, make_table, suppressed):
    """Acceptance 1: by the class of each column, before anything is written."""
    frame = spark.createDataFrame([click("mon", 1, "a")], SCHEMA)

    def refused(match, events=EVENTS, context=CONTEXT, rows=frame, newest=("at",), listed=suppressed):
        made = [make_table(events), make_table(context)]
        run = a_run()
        into, context = made[0].target(run, partition={"day": "mon"}), made[1].target(run)
        with pytest.raises(ConfigError, match=match):
            split_persons(rows, into, context, listed, newest=newest)
        assert not any(table.ledger.exists() for table in made)

    def with_columns(spec, **columns):
        return replace(spec, columns={**spec.columns, **columns})

    for kind in ("personal", "sensitive", "free text", "secret", ""):
        why = f"url \\({kind or 'unclassified'}\\): declare them in silver/users alone"
        refused(why, with_columns(EVENTS, url=Column("STRING", classification=kind)))
    refused("address must be a column of silver/clicks or of", with_columns(EVENTS, address=Column("STRING", **OPEN)))
    refused("must have the column user_id STRING", with_columns(EVENTS, user_id=replace(PERSON, type="BIGINT")))
    refused("must have one column as its key", context=replace(CONTEXT, key=()))
    refused("newest must name columns of silver/users", newest=["user_id"])
    refused("newest must name columns of silver/users", newest=[])
    refused("names silver/clicks twice", context=replace(CONTEXT, name=EVENTS.name))
    refused("columns of a part only, not more", rows=frame.selectExpr("*", "1 AS more"))
    refused("no column at", rows=frame.drop("at"))
    refused("suppressed must be given if user_id of silver/users", listed=None)
    unnamed = with_columns(CONTEXT, user_id=Column("STRING", required=True))
    refused("suppressed must be given if user_id .* and only then", context=unnamed)


IDS = st.sampled_from(["a", "b", "A", " a", "é/x", "${x}", "it's"])


@settings(
    deadline=None,
    suppress_health_check=list(HealthCheck),
    max_examples=2,
    phases=(Phase.explicit, Phase.generate),  # to make a failing case smaller takes a minute of jobs
)
@given(
    st.lists(
        st.tuples(st.sampled_from(["mon", "tue"]), st.dictionaries(IDS, st.integers(0, 9), min_size=1)),
        max_size=2,
        min_size=1,
    ),
    IDS,
)
def test_any_history_has_the_newest_row_of_each_person_who_is_not_forgotten(spark, tmp_path_factory, history, gone):
    """As in a plain dictionary, in whatever order days are written and written again."""
    root = tmp_path_factory.mktemp("history")
    tables = [Table(spec, root / spec.name, spark) for spec in (EVENTS, CONTEXT)]
    suppressed, model, days = SuppressionList(store_at(root / "_suppressed"), KEY), {}, {}
    for number, (day, seen) in enumerate(history):
        days[day] = [click(day, n, user, f"{user} at {at}", at=at) for n, (user, at) in enumerate(seen.items())]
        split(spark, tables, days[day], day, name=str(number), suppressed=suppressed)
        for user, at in seen.items():
            if number == 0 or user != gone:
                model[user] = max(model.get(user, at), at)
        if number == 0:
            forget(tables, suppressed, gone)
            model.pop(gone, None)
    assert persons_of(tables) == {user: (f"{user} at {at}", at) for user, at in model.items()}
    assert orphans(tables) <= {gone}
    assert len(read_back(tables[0])) == sum(map(len, days.values()))


@any_names(STORED, handed_on=["page"])
def events_and_persons(n):
    person = n.declared("person")
    events = n.table("day STRING!, person STRING, page STRING", by=["day"])
    persons = n.table("person STRING!, mail STRING, at INT", key=(person,))
    rows = n.frame(
        "day STRING, person STRING, page STRING, mail STRING, at INT",
        ("mon", "a", "/", "a@1", 1), ("mon", "a", "/x", "a@2", 2), ("mon", None, "/y", None, 1),
    )  # fmt: skip
    split_persons(rows, events.target(a_run(), partition={n("day"): "mon"}), persons.target(a_run()), newest=[n("at")])
    yield events
    yield persons
    yield join_persons(events, persons)


@known_calls
def calls_that_work(known):
    public = {"classification": "public"}
    person = Column("STRING", required=True, subject="user", **public)
    events = known.table("silver/visited", {"day": Column("STRING", **public), "person": person}, by=("day",))
    persons = known.table("silver/known", {"person": person, "at": Column("INT", **public)}, key=("person",))
    rows = known.frame("day STRING, person STRING, at INT", ("mon", "a", 1))
    into, context = events.target(known.run, partition={"day": "mon"}), persons.target(known.run)
    suppressed = SuppressionList(store_at(known.folder / "_suppressed"), KEY)
    asked = Removal(request="T-1", id="a", received=NOW)
    return {
        "split_persons": {
            "rows": rows, "into": into, "context": context, "suppressed": suppressed, "newest": ["at"],
            "allow_empty": False,
        },
        "forget_persons": {
            "requests": [asked], "into": context, "suppressed": suppressed, "copies": [], "give_up": [],
            "deadline_days": 30,
        },
        "join_persons": {"events": events, "context": persons},
    }  # fmt: skip


def persons_in(world):
    """Tables of events and persons, and the suppression list beside them."""
    person = Column("STRING", required=True, subject="user", **OPEN)
    world.table("events", "day STRING!, id INT!", more={"person": person}, by=["day"])
    world.table("persons", "at INT!", more={"person": person}, key=("person",))


def listed_in(world):
    return SuppressionList(store_at(world.root / "_suppressed"), KEY)


def split_in(world, name, day, *rows):
    frame = world.frame("day STRING, id INT, person STRING, at INT", *[(day, *row) for row in rows])
    split_persons(frame, world.into("events", name, day), world.into("persons", name), listed_in(world), newest=["at"])


@two_runs(under_one_lock=True)
def persons_of_two_days_at_once(world):
    persons_in(world)
    split_in(world, "base", "mon", (0, "a", 1))
    yield lambda w: split_in(w, "1", "tue", (1, "a", 3), (2, "b", 1))
    yield lambda w: split_in(w, "2", "wed", (3, "a", 2), (4, "c", 1))


@two_runs(under_one_lock=True)
def a_person_is_forgotten_at_once(world):
    persons_in(world)
    split_in(world, "base", "mon", (0, "a", 1), (1, "b", 1))
    yield lambda w: split_in(w, "1", "tue", (1, "a", 3), (2, "b", 2))
    asked = Removal(request="T-1", id="a", received=NOW)
    yield lambda w: forget_persons([asked], w.into("persons", "2"), listed_in(w)) and "done"
