"""Schema Migrator: two forms of a column beside each other, from the first phase to the last one."""

from __future__ import annotations

import re
import threading
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark import SparkContext
from pyspark.errors import AnalysisException, PySparkException

from dedp_assets.patterns.core.errors import AuditFailed, ConfigError, NotReady, SchemaMismatch
from dedp_assets.patterns.core.records import Approval
from dedp_assets.patterns.core.schema import DROPPED, Column, TableSpec
from dedp_assets.patterns.delta import Table
from dedp_assets.patterns.idempotency.data_overwrite import overwrite_partition
from dedp_assets.patterns.quality import schema_migrator
from dedp_assets.patterns.quality._migration.filling import Compared
from dedp_assets.patterns.quality._migration.grace import nobody_reads
from dedp_assets.patterns.quality._migration.moves import Retype, SplitText
from dedp_assets.patterns.quality._migration.phases import PHASES, stored
from dedp_assets.patterns.quality.schema_migrator import Migration, as_version, both_forms, migrate_schema
from tests.contracts.known_calls import known_calls
from tests.faults.failpoints import dying
from tests.helpers import NOW, a_run
from tests.two_runs import two_runs

pytestmark = pytest.mark.budget(30, "a table in each phase of its migration, and a stream of it")

OVER = NOW + timedelta(days=31)
RENAME = Migration(name="v2", rename={"from_page": "referral"})


def stored_table(spark, folder, rows, partition_by=None, **properties):
    """A table that somebody else made, without Spark."""
    rows = rows if isinstance(rows, pa.Table) else pa.Table.from_pylist(rows)
    write_deltalake(str(folder), rows, partition_by=partition_by, configuration=properties or None)
    return Table.at(folder, lambda: spark, name="silver/orders")


def append(table, rows):
    """Let a foreign writer append rows with the columns that it names."""
    held = pa.Table.from_pylist(rows)
    write_deltalake(str(table.location), held, mode="append", schema_mode="merge")


def again(spark, table):
    """The table as whoever opens it now sees it."""
    return Table.at(table.location, lambda: spark, name=table.name)


def migrate(spark, table, migration, to, *, now=NOW, **options):
    run = options.pop("run", a_run())
    return migrate_schema(again(spark, table).target(run), now, migration=migration, to=to, **options)


def versions(table):
    return table.ledger.version()


def held(table, *columns):
    """The rows by an independent reader, with NULL for a column that their files lack."""
    found = DeltaTable(str(table.location)).to_pyarrow_table(columns=list(columns)).to_pylist()
    return sorted(found, key=lambda row: str([*row.values()]))


def values(rows, *columns):
    return sorted((tuple(row[c] for c in columns) for row in rows.collect()), key=str)


def finding(result, name):
    return next(each for each in result.findings if each.name == name)


# --- the record -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "must have a move, not none"),
        ({"rename": {"a": "b"}, "drop": ["A"]}, "a must be in one place of one move, not in two"),
        ({"rename": {"a": "b", "c": "B"}}, "must be in one place of one move"),
        ({"rename": {"a": "b"}, "retype": {"b": Retype("c", "INT")}}, "b must be in one place"),
        ({"rename": {"a": "__dedp_b"}}, "that is not the library's, not __dedp_b"),
        ({"lift": {"device": "os"}}, "lift must name a field of a struct column, such as device.os, not 'device'"),
        ({"nest": {"user": {}}}, "nest must name fields of 'user', not none"),
        ({"rename": {"a": "b"}, "grace_days": -1}, "grace_days must be 0 or more, not -1"),
        ({"rename": {"a": "b"}, "name": "a b"}, "name must be of letters, digits"),
        ({"drop": "legacy"}, "drop must be a list of texts, not"),
    ],
)
def test_a_migration_that_can_never_work_is_refused(options, message):
    """The sentence names the option, and what it has to be."""
    with pytest.raises(ConfigError, match=re.escape(message)):
        Migration(**{"name": "v2", **options})


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Retype("b", "ARRAY<INT>"), "type must be a scalar type"),
        (lambda: Retype("b", "INT", was="BINARY"), "was must be a scalar type"),
        (lambda: Retype("b", "INT", format="yyyy"), "format must go with the type DATE or TIMESTAMP, not with INT"),
        (lambda: Retype("b", "INT", unparsable="default"), "default must be given for unparsable='default' alone"),
        (lambda: Retype("b", "INT", default="0"), "default must be given for unparsable='default' alone"),
        (lambda: SplitText(["a"]), "into must be two columns or more, not ['a']"),
        (lambda: SplitText(["a", "b"], by=""), "by must be the text between two parts"),
    ],
)
def test_a_rule_that_can_never_work_is_refused(make, message):
    """The sentence names the option, and what it has to be."""
    with pytest.raises(ConfigError, match=re.escape(message)):
        make()


def test_a_direct_rename_is_answered_with_the_steps():
    """Whoever wanted to rename at once reads each phase, the columns, and the days of the grace period."""
    moves = Migration(name="v2", rename={"from_page": "referral"}, lift={"device.os": "os"}, drop=["old"], grace_days=9)
    assert moves.steps("silver/orders").splitlines() == [
        "silver/orders: migration v2 in phases (from_page is renamed to referral; os moves out of device; "
        "old is dropped)",
        "1. declared: tell whoever reads from_page, device.os, old of silver/orders",
        "2. added: add referral, os beside them, and let each write fill both forms",
        "3. both: fill stored partitions one by one, and compare old with new on all rows",
        "4. switched: once nobody reads from_page, device.os, old any more, by lineage and by the consumers' word",
        "5. removed: 9 days after both forms were complete, take from_page, device.os, old out of the schema",
    ]
    assert len(PHASES) == 5


@pytest.mark.parametrize(
    ("columns", "reads"),
    [
        (["id", "referral", "from_page_id", "device.version"], False),
        (["FROM_PAGE"], True),
        (["device"], True),
        (["device.os"], True),
        (["device.os.name"], True),
        ([], False),
    ],
)
def test_a_reader_of_a_column_of_a_field_or_of_the_struct_around_counts(columns, reads):
    """By its own word as well as by what was observed of it, whatever the case of the names."""
    moves = {"name": "v2", "rename": {"from_page": "referral"}, "lift": {"device.os": "os"}}
    observed = nobody_reads(Migration(**moves), {"dashboard": columns})
    declared = nobody_reads(Migration(**moves, consumers={"dashboard": columns}), {})
    assert observed.passed == declared.passed == (not reads)
    assert ("dashboard reads" in observed.note) == reads


# --- both forms and one of them, against plain Python -----------------------------------------------------------------

MOVES = {
    "rename": {"rename": {"a": "b"}},
    "retype": {"retype": {"n": Retype("m", "INT", unparsable="null")}},
    "split": {"split": {"full": SplitText(["first", "last"], by=".")}},
    "nest": {"nest": {"user": {"login": "x", "age": "y"}}},
    "lift": {"lift": {"dev.os": "os"}},
    "drop": {"drop": ["legacy"]},
}
SCHEMA = (
    "id INT, a STRING, b STRING, n STRING, m INT, full STRING, first STRING, last STRING, x STRING, y INT, "
    "user STRUCT<login: STRING, age: INT>, dev STRUCT<os: STRING, v: INT>, os STRING, legacy STRING"
)
TEXT = st.sampled_from(["p", "", " ", "a.b", "a.b.c", ".", "7"])
NUMBER = st.sampled_from(["7", "-3", "0", "07", "1.0", "x", "", "2147483648"])


def as_int(text):
    """The INT of a text by the rule of the exact conversion."""
    fits = text is not None and re.fullmatch("-?(0|[1-9][0-9]*)", text) and -(2**31) <= int(text) < 2**31
    return int(text) if fits else None


def old_row(row):
    """The old form of a row in plain Python: what it says itself, or what its new form says."""
    a = row["b"] if row["a"] is None else row["a"]
    n = row["n"] if row["n"] is not None or row["m"] is None else str(row["m"])
    parts = [part for part in (row["first"], row["last"]) if part is not None]
    full = row["full"] if row["full"] is not None or not parts else ".".join(parts)
    user, dev = row["user"] or {"login": None, "age": None}, row["dev"]
    alone = row["x"] is None and row["y"] is None
    x, y = (user["login"], user["age"]) if alone else (row["x"], row["y"])
    if (dev is None or dev["os"] is None) and row["os"] is not None:
        dev = {**(dev or {"v": None}), "os": row["os"]}
    return {"a": a, "n": n, "full": full, "x": x, "y": y, "dev": dev, "legacy": row["legacy"]}


def new_row(row):
    """The new form of a row in plain Python: what it says itself, or what its old form says."""
    b = row["a"] if row["b"] is None else row["b"]
    m = as_int(row["n"]) if row["m"] is None else row["m"]
    first, last = row["first"], row["last"]
    if first is None and last is None and row["full"] is not None:
        first, last = [*row["full"].split(".", 1), None][:2]
    user = row["user"]
    if user is None or (user["login"] is None and user["age"] is None):
        nothing = row["x"] is None and row["y"] is None
        user = None if nothing else {"login": row["x"], "age": row["y"]}
    dev = row["dev"] or {}
    os = dev.get("os") if row["os"] is None else row["os"]
    kept = {"v": row["dev"]["v"]} if row["dev"] else {"v": None} if row["os"] is not None else None
    return {"b": b, "m": m, "first": first, "last": last, "user": user, "os": os, "dev": kept}


COLUMNS = {
    "rename": (["a"], ["b"]),
    "retype": (["n"], ["m"]),
    "split": (["full"], ["first", "last"]),
    "nest": (["x", "y"], ["user"]),
    "lift": (["dev"], ["os", "dev"]),
    "drop": (["legacy"], []),
}


@st.composite
def rows_of_moves(draw):
    """Rows of which each move was written in the old form, in the new one, in both alike, or not at all."""
    rows = []
    for number in range(draw(st.integers(1, 12))):
        maybe = {name: draw(st.one_of(st.none(), TEXT)) for name in ("a", "full", "x", "os", "legacy")}
        old = {**maybe, "n": draw(st.one_of(st.none(), NUMBER)), "y": draw(st.one_of(st.none(), st.integers(0, 9)))}
        dev = draw(st.one_of(st.none(), st.integers(0, 9).map(lambda v: {"v": v})))
        old["dev"] = None if dev is None else {"os": old.pop("os"), **dev}
        blank = dict.fromkeys(["b", "m", "first", "last", "user", "os"])
        new = {**blank, **new_row({**blank, **old})}
        row = {"id": number, **dict.fromkeys([*blank, *old])}
        for olds, news in COLUMNS.values():
            form = draw(st.sampled_from(["old", "new", "both", "none"]))
            row |= {name: old.get(name) for name in olds if form in ("old", "both")}
            row |= {name: new[name] for name in news if form in ("new", "both") and name != "dev"}
        rows.append(row)
    return rows


def plain(value):
    return value.asDict(recursive=True) if hasattr(value, "asDict") else value


@settings(max_examples=4)
@given(rows=rows_of_moves(), kinds=st.sets(st.sampled_from(sorted(MOVES)), min_size=1))
def test_rows_in_any_mixture_of_forms_have_both_and_each_alone(spark, rows, kinds):
    """Whichever moves there are and whichever form each row was written in, as a model in plain Python has it."""
    moves = Migration(name="v2", **{name: rule for kind in kinds for name, rule in MOVES[kind].items()})
    names = [part.split()[0] for part in re.sub("<.*?>", "", SCHEMA).split(", ")]
    mixed = spark.createDataFrame([tuple(row[name] for name in names) for row in rows], SCHEMA)
    sides = {
        version: {name for kind in kinds for name in COLUMNS[kind][place]}
        for place, version in enumerate(("old", "new"))
    }
    # Both forms of rows with both forms are the same once more, so that the second time is the one to look at.
    both = both_forms(both_forms(mixed, migration=moves), migration=moves)
    seen = {row["id"]: row.asDict(recursive=True) for row in both.collect()}
    for row in rows:
        whole = {**row, **{name: value for name, value in new_row(row).items() if name in sides["new"]}}
        whole |= {name: value for name, value in old_row(row).items() if name in sides["old"]}
        assert seen[row["id"]] == whole
    for version, other in (("old", "new"), ("new", "old")):
        gone = sides[other] - {"dev"}
        assert {*as_version(mixed, migration=moves, version=version).columns} == {*names} - gone
    if "lift" in kinds:
        alone = {row["id"]: plain(row["dev"]) for row in as_version(mixed, migration=moves, version="new").collect()}
        assert alone == {row["id"]: new_row(row)["dev"] for row in rows}


@pytest.mark.both
def test_rows_of_one_form_alone_give_the_other(spark, frame):
    """Rows of a writer that never knew the other form: also a struct whose last field had moved out."""
    moves = Migration(
        name="v2",
        retype={"day": Retype("on", "DATE", format="dd.MM.yyyy")},
        lift={"dev.os": "os"},
        split={"full": SplitText(["first", "last"])},
        nest={"user": {"login": "x"}},
    )
    old = frame("day STRING, dev STRUCT<os: STRING>, full STRING, x STRING", ("05.01.2026", ("linux",), "Ada L", "ada"))
    new = as_version(old, migration=moves, version="new")
    assert {*new.columns} == {"on", "os", "first", "last", "user"}
    back = as_version(new, migration=moves, version="old")
    assert values(back, *old.columns) == values(old, *old.columns)
    shouted = Migration(name="v2", rename={"X": "Y"}, lift={"DEV.OS": "OS"})
    both = both_forms(both_forms(old, migration=shouted), migration=shouted)
    assert both.columns == [*old.columns, "Y", "OS"]
    assert both.schema["dev"].dataType.names == ["os"]
    neither = frame("id INT", (1,))
    with pytest.raises(ConfigError, match="rows must have the old or the new columns of a move"):
        both_forms(neither, migration=moves)
    dropped = Migration(name="v3", drop=["id"])
    assert as_version(neither, migration=dropped, version="new").columns == []
    with pytest.raises(ConfigError, match="version must be new for rows without id, which was dropped"):
        as_version(frame("n INT", (1,)), migration=dropped, version="old")


# --- a table from the first phase to the last one ---------------------------------------------------------------------

ORDERS = [
    {"id": 1, "day": "mon", "from_page": "/a", "amount": "15", "login": "ada", "dev": {"os": "x", "v": 1}, "gone": 1},
    {"id": 2, "day": "mon", "from_page": None, "amount": None, "login": None, "dev": None, "gone": None},
    {"id": 3, "day": "tue", "from_page": "/b", "amount": "abc", "login": "bob", "dev": {"os": None, "v": 2}, "gone": 3},
]
OLD = ("id", "day", "from_page", "amount", "login", "dev", "gone")
ALL = Migration(
    name="v2",
    rename={"from_page": "referral"},
    retype={"amount": Retype("cents", "INT", unparsable="null")},
    nest={"user": {"login": "login"}},
    lift={"dev.os": "os"},
    drop=["gone"],
    consumers={"dashboard": ["from_page"]},
)


MOVED_ON = replace(ALL, consumers={})


def old_rows(table):
    return values(as_version(table.read(), migration=ALL, version="old"), *OLD)


@pytest.fixture(scope="module")
def grace(spark, tmp_path_factory):
    """Orders in their grace period, a day of them written again meanwhile; with what was seen on the way."""
    orders = stored_table(spark, tmp_path_factory.mktemp("grace") / "orders", ORDERS, ["day"])
    seen = {"archive": old_rows(orders)}
    migrate(spark, orders, ALL, "added")
    seen["versions of added"] = versions(orders)
    into = again(spark, orders).target(a_run(), partition={"day": "mon"}, audits=ALL.audits)
    into.stage(both_forms(orders.read({"day": "mon"}).select(*OLD), into, migration=ALL)).publish()
    seen["late backfill"] = held(orders, "id", "referral")
    seen["both"] = migrate(spark, orders, ALL, "both")
    return orders, seen


def test_old_and_new_queries_agree_on_every_row_in_the_grace_period(spark, grace):
    """Rows from before the new columns included; a text that is no number is NULL and counted."""
    orders, seen = grace
    both = seen["both"]
    assert seen["versions of added"] == 2  # what was declared, and the columns
    assert seen["late backfill"][:1] == [{"id": 1, "referral": "/a"}]
    assert both.figures["filled_partitions"] == 1  # tue alone: mon was written in both forms
    assert versions(orders) == 5
    assert finding(both, "both_forms_are_equal_on_all_rows").passed
    assert finding(both, "every_value_has_a_counterpart").figures == {"amount": 1}
    assert held(orders, "id", "referral", "cents", "user", "os") == [
        {"id": 1, "referral": "/a", "cents": 15, "user": {"login": "ada"}, "os": "x"},
        {"id": 2, "referral": None, "cents": None, "user": None, "os": None},
        {"id": 3, "referral": "/b", "cents": None, "user": {"login": "bob"}, "os": None},
    ]
    assert old_rows(again(spark, orders)) == seen["archive"]


def test_a_phase_that_was_reached_costs_no_version(grace):
    """Nothing is read but the log: there is no Spark session to ask."""
    orders, _ = grace
    before = versions(orders)
    assert not migrate(None, orders, ALL, "both", now=OVER).applied
    assert versions(orders) == before


def test_an_overdue_grace_period_its_bytes_and_many_fields_are_reported(grace):
    """By the log and by footers; a warning each, and none of them before the deadline or below the limit."""
    orders, _ = grace
    late = migrate(None, orders, ALL, "both", now=OVER, most_fields=8)
    overdue = finding(late, "grace_is_not_overdue")
    assert (overdue.passed, overdue.severity) == (False, "warn")
    assert overdue.note.startswith("v2 is 1.0 days over its deadline, in phase ")
    assert 0 < overdue.figures["extra_bytes"] < overdue.figures["bytes"]
    assert finding(late, "fields_are_few").note == "12 fields are more than 8: end this migration first"
    early = migrate(None, orders, ALL, "both")
    assert finding(early, "grace_is_not_overdue").passed
    assert finding(early, "fields_are_few").passed


def test_the_removal_waits_for_readers_and_for_the_deadline(grace):
    """Observed readers, declared ones, and the promise, each with its name."""
    orders, _ = grace
    with pytest.raises(NotReady, match="v2 has to wait: dashboard reads from_page"):
        migrate(None, orders, ALL, "removed", now=OVER)
    with pytest.raises(NotReady, match=r"gold/report reads dev\.os"):
        migrate(None, orders, MOVED_ON, "removed", now=OVER, readers={"gold/report": ["dev.os", "id"]})
    with pytest.raises(NotReady, match=r"the old columns were promised until 2026-02-19T12:00:00\+00:00"):
        migrate(None, orders, MOVED_ON, "removed", readers={"gold/report": ["referral"]})
    assert stored("orders", orders.ledger.state(), ALL).phase == "switched"


def test_after_the_removal_the_old_query_fails_and_the_new_one_works(spark, grace):
    """A named person ends the grace period early; the view of the old names and the same writer go on."""
    orders, seen = grace
    approved = a_run(approval=Approval(by="Ada", because="the last reader moved on"))
    done = migrate(spark, orders, MOVED_ON, "removed", run=approved)
    assert finding(done, "grace_is_over").approved_by == "Ada"
    assert done.reason == "v2: removed since 2026-01-20T12:00:00+00:00"
    stranger = spark.read.format("delta").load(str(orders.location))
    assert {*stranger.columns} == {"id", "day", "dev", "referral", "cents", "user", "os"}
    assert stranger.schema["dev"].dataType.names == ["v"]
    with pytest.raises(AnalysisException):
        _ = stranger.select("from_page").schema
    assert values(stranger, "id", "referral") == [(1, "/a"), (2, None), (3, "/b")]
    into = again(spark, orders).target(a_run(run_id="later"), partition={"day": "wed"})
    old = spark.createDataFrame(
        [(9, "wed", "/w", "5", "eve", ("y", 4), 1)],
        "id LONG, day STRING, from_page STRING, "
        "amount STRING, login STRING, dev STRUCT<os: STRING, v: LONG>, gone LONG",
    )
    assert {*both_forms(old, into, migration=ALL).columns} == {*stranger.columns}
    back = as_version(again(spark, orders).read(), migration=replace(MOVED_ON, drop=()), version="old")
    rows = [(*row[:3], row[4], plain(row[5])) for row in values(back, *OLD[:6])]
    assert rows == [(*row[:3], row[4], plain(row[5])) for row in seen["archive"]]


def test_a_migration_that_dies_anywhere_goes_on_and_no_reader_notices(spark, tmp_path):
    """Death right before and right after each commit, and a reader in a loop who takes the column that there is."""
    orders = stored_table(spark, tmp_path / "orders", [{"id": 0, "from_page": "/0"}])
    moves, seen, over = replace(RENAME, grace_days=0), [], threading.Event()

    def read():
        while not over.is_set():
            (row,) = DeltaTable(str(orders.location)).to_pyarrow_table().to_pylist()
            seen.append(row.get("from_page", row.get("referral")))

    reader = threading.Thread(target=read)
    reader.start()
    deaths = [die(spark, orders, moves, point) for point in ("before", "after") * 6]
    result = migrate(spark, orders, moves, "removed")
    over.set()
    reader.join()
    # Six commits: declared, added, the filled partition, both, switched, removed.
    assert deaths == [True] * 12
    assert (result.applied, versions(orders)) == (False, 6)
    assert {*seen} == {"/0"}
    assert held(orders, "id", "referral") == [{"id": 0, "referral": "/0"}]


def die(spark, table, moves, point):
    """Whether a migration died at its next commit."""
    with dying(point, below=str(table.location)) as death, suppress(RuntimeError):
        migrate(spark, table, moves, "removed")
    return death.reached


def test_rows_whose_forms_differ_are_found_and_never_removed(spark, tmp_path):
    """By the audit of a write and by the comparison before a phase; a row in the new form alone is completed."""
    orders = stored_table(spark, tmp_path / "orders", [{"id": 1, "from_page": "/a"}])
    migrate(spark, orders, RENAME, "both")
    append(orders, [{"id": 2, "from_page": None, "referral": "/new"}])
    migrate(spark, orders, RENAME, "switched")
    into = again(spark, orders).target(a_run(run_id="other"), audits=RENAME.audits)
    wrong = spark.createDataFrame([(3, "/x", "/y"), (4, None, None)], "id BIGINT, from_page STRING, referral STRING")
    with pytest.raises(AuditFailed, match="from_page_is_equal_in_both_forms"):
        into.stage(wrong)

    append(orders, [{"id": 3, "from_page": "/x", "referral": "/y"}])
    with pytest.raises(AuditFailed, match=r"the forms of v2 disagree \(rows=3, incomplete=1, differing=1, refused=0\)"):
        migrate(spark, orders, RENAME, "removed", now=OVER)
    assert "from_page" in orders.ledger.state().columns
    DeltaTable(str(orders.location)).delete("id = 3")
    done = migrate(spark, orders, RENAME, "removed", now=OVER)
    assert done.figures["filled_partitions"] == 1
    assert held(orders, "id", "referral") == [{"id": 1, "referral": "/a"}, {"id": 2, "referral": "/new"}]


def test_a_write_between_comparison_and_phase_is_compared_as_well(tmp_path, monkeypatch):
    """The phase is committed on the version whose rows were compared, or not at all."""
    orders, compared = stored_table(None, tmp_path / "orders", [{"id": 1, "from_page": "/a"}]), []

    def compare(table, *_):
        compared.append(table.ledger.version())
        if len(compared) == 1:
            append(orders, [{"id": 2, "from_page": "/late"}])
        return Compared(compared[-1], {"rows": 1, "incomplete": 0, "differing": 0, "refused": 0})

    monkeypatch.setattr(schema_migrator, "fill", compare)
    migrate(None, orders, RENAME, "both")
    assert compared == [2, 3]
    assert versions(orders) == 4


def test_the_comparison_of_a_new_process_starts_the_engine(spark, tmp_path, monkeypatch):
    """Nothing has used Spark before: the rows that are compared ask for the session."""
    orders = stored_table(spark, tmp_path / "orders", [{"id": 1, "from_page": "/a"}])
    context = SparkContext._active_spark_context
    monkeypatch.setattr(SparkContext, "_active_spark_context", None)

    def start():
        SparkContext._active_spark_context = context
        return spark

    into = Table.at(orders.location, start, name=orders.name).target(a_run())
    assert migrate_schema(into, NOW, migration=RENAME, to="both").figures["rows"] == 1


def test_a_text_that_is_no_number_is_refused_or_gets_the_default(spark, tmp_path, frame):
    """As the migration says; what was refused leaves the table in the phase before, and is counted."""
    orders = stored_table(spark, tmp_path / "orders", [{"id": n, "amount": a} for n, a in enumerate(["1", "x", None])])
    moves = Migration(name="v2", retype={"amount": Retype("cents", "INT")})
    with pytest.raises(AuditFailed, match="refused=1, amount=1"):
        migrate(spark, orders, moves, "both")
    assert stored("orders", orders.ledger.state(), moves).phase == "added"
    rule = Retype("cents", "INT", unparsable="default", default="-1")
    texts = frame("amount STRING", ("1",), ("x",), (None,))
    rows = as_version(texts, migration=Migration(name="v2", retype={"amount": rule}), version="new")
    assert [row["cents"] for row in rows.collect()] == [1, -1, None]


def test_a_stream_through_the_old_names_stops_once_for_a_change_and_goes_on(spark, tmp_path):
    """Also one that comes late and finds columns added and removed since; Delta keeps its schema beside the offsets."""
    orders = stored_table(spark, tmp_path / "orders", [{"id": 0, "from_page": "/0"}])
    checkpoint, out = str(tmp_path / "checkpoint"), str(tmp_path / "out")

    def stream():
        source = again(spark, orders).stream(schema_log=f"{checkpoint}/_schema")
        rows = as_version(source, migration=RENAME, version="old").select("id", "from_page")
        writer = rows.writeStream.format("parquet").option("checkpointLocation", checkpoint)
        try:
            writer.trigger(availableNow=True).start(out).awaitTermination()
        except PySparkException as stopped:
            return "DELTA_STREAMING_METADATA_EVOLUTION" in str(stopped)
        return False

    assert not stream()
    migrate(spark, orders, RENAME, "both")
    append(orders, [{"id": 1, "from_page": "/1", "referral": "/1"}])
    migrate(spark, orders, RENAME, "removed", now=OVER)
    append(orders, [{"id": 2, "referral": "/2"}])
    stops = [stream() for _ in range(3)]
    assert stops == [True, True, False]  # one for the columns that came, one for those that went
    assert values(spark.read.parquet(out), "id", "from_page") == [(n, f"/{n}") for n in range(3)]


def test_rules_tags_and_key_of_the_old_columns_move(spark, tmp_path):
    """A constraint goes with its column and says so, a personal tag and a key go to the new one; a day is NULL."""
    spec = TableSpec(
        "silver/orders",
        {
            "id": Column("INT"),
            "mail": Column("STRING", classification="personal"),
            "day": Column("STRING"),
            "n": Column("INT"),
        },
        partition_by=("day",),
        key=("id",),
        checks={"mails": "mail LIKE '%@%'", "counts": "n >= 0"},
    )
    orders = Table(spec, tmp_path / "orders", spark)
    orders.ensure()
    held_ = pa.table({"id": pa.array([1, 2], pa.int32()), "mail": ["a@b", "c@d"], "day": ["mon", None]})
    append_ = held_.append_column("n", pa.array([0, 1], pa.int32()))
    write_deltalake(str(orders.location), append_, mode="append")
    moves = Migration(name="v2", rename={"mail": "email", "id": "order_id"}, grace_days=0)
    result = migrate(spark, orders, moves, "removed")
    assert result.figures["filled_partitions"] == 1  # the table as a whole: a NULL day cannot be named
    assert finding(result, "constraints_stay").note.startswith("mails named an old column")
    now = again(spark, orders)
    assert (now.spec.key, dict(now.spec.checks)) == (("order_id",), {"counts": "n >= 0"})
    assert now.spec.columns["email"].classification == "personal"
    assert "email" not in now.spec.properties["delta.dataSkippingStatsColumns"]
    assert values(now.read(), "order_id", "email") == [(1, "a@b"), (2, "c@d")]
    # The old name is spent: its values still lie in files.
    mail = TableSpec("silver/orders", {**now.spec.columns, "mail": Column("STRING")}, ("day",))
    with pytest.raises(SchemaMismatch, match=r"cannot add \['mail'\] once more"):
        Table(mail, now.location, spark).ensure()
    assert "mail" in now.ledger.state().properties[DROPPED]
    with pytest.raises(ConfigError, match="that its files do not hold, not mail"):
        migrate(spark, orders, Migration(name="v3", rename={"email": "mail"}), "declared")


@pytest.mark.parametrize(
    ("moves", "message"),
    [
        ({"rename": {"nope": "x"}}, "a move must be of its columns .*, not of nope"),
        ({"rename": {"day": "x"}}, "is partitioned by day, which no move reaches"),
        ({"lift": {"from_page.os": "os"}}, "not of from_page.os"),
        ({"rename": {"from_page": "id"}}, "id must be a new column or a string, not a long"),
        ({"retype": {"from_page": Retype("at", "TIMESTAMP_NTZ")}}, "at must be of a type that every table holds"),
        ({"rename": {"tags": "labels"}}, "values that can be compared, not of tags, a MAP or VARIANT"),
    ],
)
def test_moves_that_the_table_cannot_make_are_refused_before_anything_is_declared(tmp_path, moves, message):
    """The log is as it was, and no Spark was started."""
    tags = pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int32()))
    rows = pa.table({"id": [1], "day": ["mon"], "from_page": ["/a"], "tags": tags})
    orders = stored_table(None, tmp_path / "orders", rows, ["day"])
    with pytest.raises(ConfigError, match=message):
        migrate(None, orders, Migration(name="v2", **moves), "both")
    assert versions(orders) == 0


def test_a_column_that_the_declaration_added_before_is_the_new_one(tmp_path):
    """Also a struct whose fields have no comments, where the old columns have some."""
    text = pa.field("kind", pa.string(), metadata={"comment": "kind of device"})
    rows = pa.table([pa.array(["pc"]), pa.array([None], pa.struct([("type", pa.string())]))], ["kind", "device"])
    orders = stored_table(None, tmp_path / "orders", rows.cast(pa.schema([text, rows.schema.field("device")])))
    moves = Migration(name="v2", nest={"device": {"type": "kind"}})
    assert migrate(None, orders, moves, "added").reason.startswith("v2: added since ")
    assert [*orders.ledger.state().columns] == ["kind", "device"]
    assert orders.ledger.state().columns["kind"]["metadata"] == {"comment": "kind of device"}


def test_a_phase_after_a_checkpoint_keeps_the_properties_of_the_table(tmp_path):
    """The metadata that is written is that of a commit, whether the last one is in a commit or in a checkpoint."""
    orders = stored_table(None, tmp_path / "orders", [{"id": 1, "from_page": "/a"}], **{"delta.appendOnly": "false"})
    for phase in ("declared", "added"):
        DeltaTable(str(orders.location)).create_checkpoint()
        migrate(None, orders, RENAME, phase)
    written = orders.ledger.actions("metaData")[-1]
    assert written["format"] == {"provider": "parquet", "options": {}}
    assert {"delta.appendOnly", "dedp.migration.v2"} <= {*written["configuration"]}
    assert [field.name for field in DeltaTable(str(orders.location)).schema().fields] == ["id", "from_page", "referral"]


def test_one_name_is_one_migration_and_a_column_is_in_one_at_a_time(tmp_path):
    """Other moves under a name that the table knows are refused, and so is a column of one that is under way."""
    orders = stored_table(None, tmp_path / "orders", [{"id": 1, "from_page": "/a"}])
    migrate(None, orders, RENAME, "declared")
    with pytest.raises(ConfigError, match="v2 must have the moves that it was declared with"):
        migrate(None, orders, Migration(name="v2", rename={"from_page": "other"}), "added")
    with pytest.raises(ConfigError, match="from_page must be in one migration at a time, and v2 is under way"):
        migrate(None, orders, Migration(name="v3", drop=["from_page"]), "declared")
    later = Migration(name="v2", rename={"from_page": "referral"}, grace_days=1, consumers={"a": ["from_page"]})
    assert migrate(None, orders, later, "declared").reason.startswith("v2: declared since 2026-01-20")
    assert versions(orders) == 1


@known_calls
def calls_that_work(known):
    renames = Migration(name="v2", rename={"page": "path"})
    return {
        "both_forms": {"rows": known.visits, "into": None, "migration": renames},
        "as_version": {"rows": known.visits, "migration": renames, "version": "old"},
    }


@two_runs()
def migrated_at_once(world):
    """The next phase of a migration, and rows of a run that writes meanwhile."""
    columns = "id INT, site STRING, page STRING, day STRING"
    renames = Migration(name="pages", rename={"site": "page"}, grace_days=0)
    before = "id INT, site STRING, day STRING"
    table = world.table("renamed", before, by=["day"])
    table.append(world.frame(before, (1, "/", "mon")), provenance=world.run("0", sequence=1))
    migrate_schema(table.target(world.run("added")), NOW, migration=renames, to="added")
    world.table("renamed", columns, by=["day"])
    yield lambda w: migrate_schema(w.into("renamed", "1"), NOW, migration=renames, to="both")
    yield lambda w: overwrite_partition(w.frame(columns, (2, "/a", "/a", "mon")), w.into("renamed", "2", "mon"))
