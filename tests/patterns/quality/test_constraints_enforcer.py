"""Constraints: one broken rule refuses the batch, and all of them are named with their rows."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date, timedelta
from itertools import product
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError

from dedp_assets.patterns.core.audits import Audit
from dedp_assets.patterns.core.errors import AuditFailed, ConfigError, ContractError, SchemaMismatch
from dedp_assets.patterns.core.measuring.observing import SPARK_ERRORS
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import Table, broken_rules
from dedp_assets.patterns.quality.constraints_enforcer import (
    VIOLATION,
    References,
    add_constraint,
    enforce_constraints,
    mark_violations,
)
from tests.contracts.known_calls import known_calls
from tests.helpers import NOW, a_run, read_back
from tests.renaming import STORED, any_names
from tests.two_runs import two_runs

pytestmark = [
    pytest.mark.spark,
    pytest.mark.budget(65, "each refusal stages a batch; ALTER, RESTORE and other writers"),
]

DAY = {"event_date": "2026-01-05"}
VISITS = TableSpec(
    "silver/visits",
    {
        "id": Column("BIGINT", required=True),
        "page": Column("INT"),
        "user": Column("STRING", classification="personal"),
        "seconds": Column("INT"),
        "event_date": Column("DATE", required=True),
    },
    partition_by=("event_date",),
    checks={"seconds_are_positive": "seconds > 0"},
)
SUSPECTS = replace(VISITS, name="silver/visits_quarantine", columns={**VISITS.columns, **VIOLATION}, checks={})
COLUMNS = "id BIGINT, page INT, user STRING, seconds {}, event_date DATE"
GOOD = (1, 1, "Ada", 5, date(2026, 1, 5))


@pytest.fixture
def visits(make_table):
    """The table, not created yet."""
    return make_table(VISITS)


@pytest.fixture
def suspects(make_table):
    """Quarantine of the visits."""
    return make_table(SUSPECTS)


@pytest.fixture
def batch(spark):
    """``batch((1, 1, "Ada", 5), ...)``: visits of one day; ``seconds`` may be another type of their column."""

    def rows(*visits, seconds="INT"):
        full = [(*visit, GOOD[4])[:5] if len(visit) < 5 else visit for visit in visits]
        return spark.createDataFrame(full, COLUMNS.format(seconds))

    return rows


@pytest.fixture
def pages(spark):
    """``pages(1, 2)``: the foreign key of the visits into those pages."""

    def known(*ids, **options):
        parent = spark.createDataFrame([(each,) for each in ids], "page_id INT")
        return References("every_visit_has_a_page", {"page": "page_id"}, **options), parent

    return known


def enforce(rows, into, keys=(), quarantine=None, **options):
    """Enforce foreign keys that are pairs of a rule and the rows of its parent."""
    parents = {rule.name: parent for rule, parent in keys}
    return enforce_constraints(rows, into, parents, quarantine, references=[rule for rule, _ in keys], **options)


def marked(rows, table, keys=()):
    """Mark the violations of foreign keys that are such pairs."""
    parents = {rule.name: parent for rule, parent in keys}
    return mark_violations(rows, table, parents, references=[rule for rule, _ in keys])


def into(table, run="run-1", **fields):
    """Target of one day."""
    return table.target(a_run(run_id=run, **fields), partition=DAY)


def publish(table, *visits):
    """Put visits into the table without Spark."""
    table.ensure()
    kinds = DeltaTable(str(table.location)).schema().to_arrow()
    columns = zip(*[(*visit[:4], GOOD[4]) for visit in visits], strict=True)
    rows = pa.table([pa.array(values) for values in columns], names=[*VISITS.columns]).cast(pa.schema(kinds))
    write_deltalake(str(table.location), rows, mode="append")


def ids(table):
    """The ids in a table, through an independent reader."""
    return sorted(row["id"] for row in read_back(table))


# --- what is refused


@pytest.mark.both
@pytest.mark.parametrize(
    ("bad", "seconds", "rule"),
    [
        ((2, 1, "Bob", "ABC"), "STRING", r'seconds_is_a_INT=1.*seconds_is_a_INT: {"id":2,"page":1'),
        ((None, 1, "Bob", 5), "INT", r"id_is_not_null: above 0 \(id_is_not_null=1"),
        ((2, 1, "Bob", 0), "INT", r"seconds_are_positive: above 0 \(seconds_are_positive=1"),
        ((2, 9, "Bob", 5), "INT", 'every_visit_has_a_page: above 0 .*page: {"page":9}'),
    ],
    ids=["type", "nullability", "value", "integrity"],
)
def test_a_row_that_breaks_a_rule_refuses_the_batch(visits, batch, pages, bad, seconds, rule):
    """By the name of the rule, with a sample; the published rows and their version stay."""
    publish(visits, GOOD)
    before = visits.ledger.version()
    good = (*GOOD[:3], "5" if seconds == "STRING" else 5)
    with pytest.raises(AuditFailed, match=rule) as refused:
        enforce(batch(good, bad, seconds=seconds), into(visits, "run-2"), [pages(1)])
    assert (visits.ledger.version(), ids(visits)) == (before, [1])
    assert "Bob" not in str(refused.value)


def test_all_broken_rules_of_a_large_batch_are_counted_at_once(spark, visits, pages):
    """Exactly, over all partitions of the rows, in whichever row and however many of them a row breaks."""
    rows = (
        spark.range(10_000)
        .repartition(4)
        .selectExpr(
            "if(id % 1000 = 0, NULL, id) AS id",
            "if(id % 500 = 1, 7, 1) AS page",
            "'x' AS user",
            "CASE WHEN id % 100 = 2 THEN 'ABC' WHEN id % 2000 = 0 THEN '-1' ELSE '5' END AS seconds",
            "DATE '2026-01-05' AS event_date",
        )
    )
    with pytest.raises(AuditFailed) as refused:
        enforce(rows, into(visits), [pages(1, 1, None)])
    found = {finding.name: finding for finding in refused.value.findings}
    counts = {
        "id_is_not_null": 10,
        "every_visit_has_a_page": 20,
        "seconds_is_a_INT": 100,
        "seconds_are_positive": 5,
        "event_date_is_not_null": 0,
        "event_date_is_a_partition_value": 0,
        "lies_in_event_date=2026-01-05": 0,
    }
    assert {name: found[name].figures[name] for name in counts} == counts
    assert {name for name in counts if found[name].refuses} == {name for name, rows in counts.items() if rows}
    assert 'every_visit_has_a_page: {"page":7};' in str(refused.value)
    assert read_back(visits) == []


def test_one_bad_row_of_many_lets_none_of_them_land(spark, visits):
    """All or nothing, and the same batch without that row is published."""
    rows = spark.range(5_000).selectExpr(
        "id", "1 AS page", "'x' AS user", "if(id = 4711, 0, 1) AS seconds", "DATE '2026-01-05' AS event_date"
    )
    with pytest.raises(AuditFailed, match=r'{"id":4711,'):
        enforce(rows, into(visits))
    assert read_back(visits) == []
    assert enforce(rows.filter("seconds > 0"), into(visits)).rows.written == 4_999


def test_columns_of_another_shape_are_refused_together(visits, batch):
    """Missing, unknown and unfit columns by name, before any row is computed."""
    rows = batch(GOOD).selectExpr("string(id) AS id", "double(page) AS page", "user", "event_date", "1 AS more")
    with pytest.raises(SchemaMismatch) as refused:
        enforce(rows, into(visits))
    for column in ("seconds", "more", "page is DOUBLE"):
        assert column in str(refused.value)


def test_a_rule_that_cannot_be_computed_refuses_the_batch_once(make_table, spark):
    """A division by zero is an error of the data: nothing lands, and no other rule is blamed."""
    table = make_table(TableSpec("silver/odd", {"id": Column("INT")}, checks={"inverse": "1 / id > 0"}))
    with pytest.raises(ContractError, match="DIVIDE_BY_ZERO"):
        enforce(spark.createDataFrame([(1,), (0,)], "id INT"), table.target("run"))
    assert read_back(table) == []


def test_an_empty_batch_and_a_column_of_nulls_have_a_verdict(visits, batch):
    """No rows are refused unless they are allowed, and NULL everywhere is counted, not an exception."""
    with pytest.raises(AuditFailed, match="input_is_not_empty"):
        enforce(batch(), into(visits))
    with pytest.raises(AuditFailed, match="seconds_are_positive=2"):
        enforce(batch((1, 1, "x", None), (2, 1, "x", None)), into(visits))
    assert enforce(batch(), into(visits), allow_empty=True).rows.written == 0


def test_a_declared_key_and_the_partition_are_rules_like_others(make_table, spark):
    """Counted in the same pass as a CHECK, so that nobody meets them one after the other."""
    table = make_table(
        TableSpec("silver/days", {"day": Column("STRING"), "n": Column("INT")}, ("day",), {"n": "n > 0"}, key=("day",))
    )
    rows = spark.createDataFrame([("mon", 1), ("mon", -1), ("tue", 1), (None, 1)], "day STRING, n INT")
    with pytest.raises(AuditFailed) as refused:
        enforce(rows, table.target("run", partition={"day": "mon"}))
    for rule in ("day_is_a_key=3", "n=1", "lies_in_day=mon=2"):
        assert f"({rule})" in str(refused.value)


# --- each row by itself


def test_each_row_is_marked_with_exactly_the_rules_that_it_breaks(visits, batch, pages):
    """Against a judge in Python over all combinations: every row is in one part, with its own broken rules."""
    values = product((1, None), (1, 9, None), ("5", "0", "ABC", "5.0", None))
    rows = [(n, page, str(n), seconds) for n, (_, page, seconds) in enumerate(values)]
    nameless = [(None, page, user, seconds) if n % 2 else (n, page, user, seconds) for n, page, user, seconds in rows]
    visits.ensure()
    split = marked(batch(*nameless, seconds="STRING"), visits, [pages(1)])

    def judged(visit):
        key, page, _, seconds = visit
        is_number = seconds in ("5", "0")
        broken = {
            "seconds_is_a_INT": seconds is not None and not is_number,
            "id_is_not_null": key is None,
            "seconds_are_positive": seconds is None or (is_number and int(seconds) <= 0),
            "every_visit_has_a_page": page == 9,
        }
        return [name for name, breaks in broken.items() if breaks]

    expected = {visit[2]: judged(visit) for visit in nameless}
    found = {row["user"]: row for row in split["violations"].collect()}
    assert {row["user"] for row in split["valid"].collect()} == {
        user for user, broken in expected.items() if not broken
    }
    assert {user: sorted(row["violations"]) for user, row in found.items()} == {
        user: sorted(broken) for user, broken in expected.items() if broken
    }
    assert {v for row in found.values() for v in row["misfits"].items()} == {("seconds", "ABC"), ("seconds", "5.0")}


def test_a_decimal_that_is_too_long_breaks_the_rule_of_its_type(make_table, spark):
    """It neither stops the job nor becomes NULL."""
    table = make_table(TableSpec("silver/prices", {"price": Column("DECIMAL(4, 2)")}))
    table.ensure()
    rows = spark.sql("SELECT * FROM VALUES (CAST(12.34 AS DECIMAL(10, 2))), (123.45) AS t(price)")
    (row,) = marked(rows, table)["violations"].collect()
    assert (row["violations"], row["misfits"]) == (["price_is_a_DECIMAL(4,2)"], {"price": "123.45"})


def test_null_satisfies_no_check_unless_the_check_says_so(make_table, spark):
    """NULL is neither true nor false for SQL; here it breaks the rule, as it does for Delta's own writers."""
    checks = {"strict": "a > 0", "lenient": "b IS NULL OR b > 0"}
    table = make_table(TableSpec("silver/nulls", {"a": Column("INT"), "b": Column("INT")}, checks=checks))
    table.ensure()
    rows = spark.createDataFrame([(None, None), (1, None), (1, -1)], "a INT, b INT")
    found = [row["violations"] for row in marked(rows, table)["violations"].orderBy("b").collect()]
    assert found == [["strict"], ["lenient"]]
    with pytest.raises(SPARK_ERRORS, match="CHECK constraint strict"):
        rows.limit(1).write.format("delta").mode("append").save(str(table.location))


def test_the_time_of_the_write_is_what_now_means(make_table, spark):
    """`event_time <= now()` lets the past land and refuses the future; what is drawn by lot is no rule."""
    columns = {"at": Column("TIMESTAMP")}
    table = make_table(TableSpec("silver/times", columns, checks={"is_past": "at <= now()"}))
    rows = spark.createDataFrame([(NOW + timedelta(days=365 * years),) for years in (-50, 5_000)], "at TIMESTAMP")
    with pytest.raises(AuditFailed, match=r"is_past: above 0 \(is_past=1\)"):
        enforce(rows, table.target("run"))
    assert enforce(rows.filter("at <= now()"), table.target("run")).rows.written == 1
    with pytest.raises(ConfigError, match=r"constraint lot must say the same of a row each time, not rand\(\) < 0.5"):
        add_constraint(table, name="lot", check="rand() < 0.5")


# --- foreign keys


def test_a_null_in_a_key_refers_to_nothing_and_no_row_is_lost_or_doubled(visits, batch, pages, spark):
    """NULL keys meet neither NULL parents nor none; parents that stand there twice count once."""
    visits.ensure()
    rows = batch(*[(n, page, "x", 1) for n, page in enumerate([1, 1, None, 9])])
    split = marked(rows, visits, [pages(1, 1, 1, None)])
    assert [row["id"] for row in split["valid"].orderBy("id").collect()] == [0, 1, 2]
    assert [(row["id"], row["violations"]) for row in split["violations"].collect()] == [
        (3, ["every_visit_has_a_page"])
    ]
    pairs = spark.createDataFrame([(1, "Ada")], "page_id INT, name STRING")
    both = (References("each_is_a_pair", {"page": "page_id", "user": "name"}), pairs)
    rows = batch((1, 1, "Ada", 1), (2, 1, "Bob", 1), (3, 1, None, 1), (4, None, "Bob", 1))
    assert [row["id"] for row in marked(rows, visits, [both])["violations"].collect()] == [2]


def test_the_filter_of_a_foreign_key_is_not_applied_to_the_parent(visits, batch, pages):
    """A predicate over the visits, even by a column that the parent has as well, leaves the parents as they are."""
    visits.ensure()
    rows = batch((1, 1, "x", 1), (2, 9, "x", 1), (3, 8, "x", 7))
    split = marked(rows, visits, [pages(1, where="seconds < 5 AND page > 1")])
    assert [row["id"] for row in split["violations"].collect()] == [2]


@pytest.mark.both
@pytest.mark.parametrize("policy", ["quarantine", "unknown"])
def test_a_parent_that_comes_late_repairs_the_rows_at_the_next_run(visits, suspects, batch, pages, policy):
    """Child first, parent later, parent gone again: each run leaves the state of its parents, without duplicates."""
    rows, kept = batch((1, 1, "x", 1), (2, 7, "x", 1), (3, None, "x", 1)), policy == "quarantine"
    aside = (lambda run, **more: into(suspects, run, **more)) if kept else (lambda *_, **__: None)

    def run(version, *known):
        foreign = pages(*known, orphans=policy, **({} if kept else {"unknown": {"page": -1}}))
        inputs = {"inputs": {"pages": version}}
        result = enforce(rows, into(visits, f"run-{version}", **inputs), [foreign], aside(f"run-{version}", **inputs))
        held = {row["id"]: row["page"] for row in read_back(visits)}
        away = {row["id"]: row["violations"] for row in read_back(suspects)} if kept else None
        return held, away, result.figures[foreign[0].name], visits.ledger.commit(result.version).record.verdict

    missing = {1: 1, 3: None} if kept else {1: 1, 2: -1, 3: None}
    orphan = {2: ["every_visit_has_a_page"]} if kept else None
    assert run(1, 1) == (missing, orphan, 1, "warned")
    assert run(1, 1) == (missing, orphan, 1, "warned")
    assert run(2, 1, 7) == ({1: 1, 2: 7, 3: None}, {} if kept else None, 0, "passed")
    assert run(3, 1) == (missing, orphan, 1, "warned")


def test_orphans_alone_leave_the_partition_as_it_was(visits, suspects, batch, pages):
    """A parent that lost its rows empties no table; all rows are in quarantine, and the result says so."""
    publish(visits, GOOD)
    result = enforce(batch(GOOD), into(visits, "run-2"), [pages(orphans="quarantine")], into(suspects, "run-2"))
    assert (result.applied, result.reason) == (False, "all 1 rows are orphans and went to silver/visits_quarantine")
    assert (ids(visits), ids(suspects)) == ([1], [1])


def test_an_audit_may_bound_the_orphans_that_a_policy_lets_pass(visits, suspects, batch, pages):
    """The figure of the foreign key is one to judge: half of the rows are too many, and both tables stay."""
    few = Audit(name="orphans_are_few", of="every_visit_has_a_page", per="read", fail_above=0.1)
    target = visits.target(a_run(), partition=DAY, audits=[few])
    with pytest.raises(AuditFailed, match=r"orphans_are_few: above 0\.1"):
        enforce(batch(GOOD, (2, 9, "x", 1)), target, [pages(1, orphans="quarantine")], into(suspects))
    assert (read_back(visits), read_back(suspects)) == ([], [])


# --- constraints stay


UNCOMPUTABLE = (
    "1 % (page - page) = 0",
    "CAST(concat('a', page) AS INT) > 0",
    "array(1)[id + 7] = 1",
    "raise_error('x') IS NULL",
    "CAST(id * 1e300 AS INT) > 0",
    "make_date(page, 99, 1) > '2026-01-05'",
    "(id + 1) * 9223372036854775807 > 0",
)


OTHER_ROWS = (
    "(SELECT max(id) FROM range(3)) > 0",
    "id IN (select id from range(9))",
    "NOT EXISTS ( /* none */ FROM range(1))",
    "id > (WITH a AS (SELECT 1 AS x) SELECT x FROM a)",
    "id IN (VALUES 1, 2)",
)


@pytest.mark.parametrize(
    ("checks", "error", "sentence"),
    [
        (UNCOMPUTABLE, ContractError, r"was not added: .* cannot be computed for every row: .*try_divide"),
        (OTHER_ROWS, ConfigError, "constraint odd must be of one row, without a query over other rows"),
    ],
    ids=["uncomputable", "over other rows"],
)
def test_a_constraint_that_is_not_of_each_row_is_refused_in_a_sentence(visits, checks, error, sentence):
    """The table is as it was; the words of a query in a text are no query."""
    publish(visits, GOOD)
    before = visits.ledger.version()
    for check in checks:
        with pytest.raises(error, match=sentence):
            add_constraint(visits, name="odd", check=check)
    assert visits.ledger.version() == before
    assert add_constraint(visits, name="text", check="concat(page, '(SELECT 1)') <> ''").applied
    assert add_constraint(visits, name="fine", check="concat('(SELECT 1)', id) <> \"(select\"").applied


def test_a_stored_constraint_that_cannot_be_computed_is_named(visits):
    """Where rows of a writer that held no constraint are looked at again."""
    publish(visits, GOOD, (2, 0, "x", 1))
    log = Path(visits.location) / "_delta_log"
    (meta,) = (
        json.loads(line)
        for file in sorted(log.glob("*.json"))[:1]
        for line in file.read_text().splitlines()
        if "metaData" in line
    )
    meta["metaData"]["configuration"]["delta.constraints.page_divides"] = "60 % page = 0"
    (log / f"{visits.ledger.version() + 1:020}.json").write_text(json.dumps(meta))
    with pytest.raises(ContractError, match=r"one of .*page_divides.* cannot be computed for every row"):
        broken_rules(visits)


def test_a_constraint_is_added_only_to_rows_that_satisfy_it(visits, batch):
    """The refusal counts the rows at fault and shows some; afterwards every write is held to it."""
    publish(visits, GOOD, (2, 5, "x", 1), (3, None, "x", 1))
    before = visits.ledger.version()
    with pytest.raises(AuditFailed, match=r'2 of 3 rows break it. For example .*{"id":2,"page":5') as refused:
        add_constraint(visits, name="page_is_small", check="page < 3")
    assert refused.value.findings[0].figures == {"page_is_small": 2}
    assert visits.ledger.version() == before
    assert add_constraint(visits, name="id_is_small", check="id < 9").version == before + 1
    assert not add_constraint(visits, name="id_is_small", check="id < 9").applied
    with pytest.raises(ConfigError, match="constraint odd cannot be evaluated"):
        add_constraint(visits, name="odd", check="nothing > 1")
    with pytest.raises(SchemaMismatch, match="constraint id_is_small is declared as id < 99"):
        add_constraint(visits, name="id_is_small", check="id < 99")
    with pytest.raises(AuditFailed, match="id_is_small=1"):
        enforce(batch((10, 1, "x", 1)), into(visits, "run-2"))


def test_constraints_survive_overwrite_evolution_and_restore(make_table, spark):
    """After each of them the next bad batch is refused as the first one was."""
    spec = TableSpec("silver/kept", {"id": Column("INT", required=True)}, checks={"small": "id < 9"})
    table = make_table(spec)
    table.ensure()
    for number in (1, 2):
        kinds = pa.schema([pa.field("id", pa.int32(), nullable=False)])
        write_deltalake(str(table.location), pa.table({"id": [number]}, schema=kinds), mode="overwrite")
    first = table.ledger.version() - 1

    def refuses(held, columns="id INT", row=(9,)):
        with pytest.raises(AuditFailed, match=r"small=1\)"):
            enforce(spark.createDataFrame([row], columns), held.target("bad"))

    refuses(table)
    wider = make_table(replace(spec, columns={**spec.columns, "more": Column("STRING")}))
    refuses(wider, "id INT, more STRING", (9, "x"))
    wider.restore(first, provenance=a_run())
    again = Table.at(table.location, spark)
    refuses(again)
    assert [row["id"] for row in read_back(again)] == [1]


def test_what_another_writer_appends_is_refused_by_the_store_or_reported(make_table, spark, pages):
    """Delta's writers keep CHECK and NOT NULL themselves; an orphan, which no store refuses, is marked afterwards."""
    spec = TableSpec("silver/open", {"id": Column("INT", required=True), "page": Column("INT")}, checks={"s": "id < 9"})
    table = make_table(spec)
    table.ensure()

    def rows(*pairs):
        kinds = pa.schema([pa.field("id", pa.int32(), nullable=False), pa.field("page", pa.int32())])
        return pa.table({"id": [p[0] for p in pairs], "page": [p[1] for p in pairs]}, schema=kinds)

    for broken in ((9, 1), (None, 1)):
        with pytest.raises(SPARK_ERRORS):
            spark.createDataFrame([broken], "id INT, page INT").write.format("delta").mode("append").save(
                str(table.location)
            )
    with pytest.raises(DeltaError, match="1 rows failed validation"):
        write_deltalake(str(table.location), rows((9, 1)), mode="append")
    assert read_back(table) == []
    write_deltalake(str(table.location), rows((1, 1), (2, 9)), mode="append")
    split = marked(table.read(), table, [pages(1)])
    assert [row["id"] for row in split["violations"].collect()] == [2]


# --- the call


def test_options_that_do_not_go_together_are_refused(visits, suspects, batch, pages):
    """In a sentence that names the option; nothing is written."""
    with pytest.raises(ConfigError, match="quarantine must be a target exactly if orphans are put there, not None"):
        enforce(batch(GOOD), into(visits), [pages(1, orphans="quarantine")])
    with pytest.raises(ConfigError, match="not silver/visits_quarantine for no reference"):
        enforce(batch(GOOD), into(visits), [pages(1)], into(suspects))
    with pytest.raises(ConfigError, match=r"must have a value for page with orphans='unknown', not {}"):
        pages(1, orphans="unknown")
    with pytest.raises(ConfigError, match="must have a value for no column with orphans='refuse'"):
        pages(1, unknown={"page": -1})
    with pytest.raises(ConfigError, match="have a column violations, which this step adds"):
        enforce(batch(GOOD).selectExpr("*", "1 AS violations"), into(visits))
    assert not visits.ledger.exists() or read_back(visits) == []


def test_a_foreign_key_that_cannot_work_is_refused(visits, batch, pages):
    """By a column that is not there, a type that never meets, a predicate, a member or a name; nothing is written."""
    parent = pages(1)[1]
    with pytest.raises(ConfigError, match="must name a column and its key"):
        References("none", {})
    for keys in ({"nothing": "page_id"}, {"page": "nothing"}):
        with pytest.raises(ConfigError, match="no column nothing"):
            enforce(batch(GOOD), into(visits), [(References("odd", keys), parent)])
    with pytest.raises(SchemaMismatch, match=r"user \(and page_id\) is STRING in the rows and INT in the parent"):
        enforce(batch(GOOD), into(visits), [(References("odd", {"user": "page_id"}), parent)])
    with pytest.raises(ConfigError, match=r"parents must be rows for the references \(none\), not for odd"):
        enforce_constraints(batch(GOOD), into(visits), {"odd": parent})
    odd = (References("odd", {"page": "page_id"}, where="nope > 1"), parent)
    with pytest.raises(ConfigError, match="where of odd cannot be evaluated"):
        enforce(batch(GOOD), into(visits), [odd])
    for member in ("none", 1 << 40):
        with pytest.raises(ConfigError, match=f"must be a value of page, a INT, not {member!r}"):
            enforce(batch(GOOD), into(visits), [pages(orphans="unknown", unknown={"page": member})])
    for name in ("seconds_are_positive", "every_visit_has_a_page"):
        with pytest.raises(ConfigError, match=f"references must have names of their own, not {name}"):
            enforce(batch(GOOD), into(visits), [pages(1), (References(name, {"page": "page_id"}), parent)])
    assert not visits.ledger.exists() or read_back(visits) == []


@any_names(STORED, handed_on=["id"])
def constrained(n):
    table = n.table("id INT!, page INT, day STRING", by=["day"])
    pages = n.frame("number INT", (1,), (2,))
    known = References("known", {n("page"): n("number")}, orphans="unknown", unknown={n("page"): -1}), pages
    rows = n.frame("id INT, page INT, day STRING", (1, 1, "mon"), (2, 9, "mon"))
    enforce(rows, table.target(a_run(), partition={n("day"): "mon"}), [known])
    yield table
    yield marked(rows, table, [(References("known", {n("page"): n("number")}), pages)])["valid"]


@known_calls
def calls_that_work(known):
    return {
        "enforce_constraints": {
            "rows": known.visits,
            "into": known.daily.target(known.run, partition={"day": "mon"}),
            "parents": {"known": known.visits},
            "quarantine": None,
            "references": [References("known", {"page": "page"})],
        },
        "mark_violations": {"rows": known.visits, "table": known.daily, "parents": {}, "references": []},
        "add_constraint": {"table": known.daily, "name": "positive", "check": "id > 0"},
    }


@two_runs()
def enforced_at_once(world):
    """Orphans are put aside into another table; those of one run belong to its others."""
    columns = "id INT, page INT, day STRING"
    world.table("visited", columns, by=["day"])
    world.table("orphans", columns, more=VIOLATION, by=["day"])
    known = References("every_visit_has_a_page", {"page": "page"}, orphans="quarantine")

    def write(w, name, *pages):
        rows, parents = w.frame(columns, *[(n, n, "mon") for n in pages]), {known.name: w.frame("page INT", (1,), (2,))}
        into, aside = w.into("visited", name, "mon"), w.into("orphans", name, "mon")
        enforce_constraints(rows, into, parents, aside, references=[known])

    write(world, "base", 1, 9)
    yield lambda w: write(w, "1", 1, 2, 8)
    yield lambda w: write(w, "2", 2)
