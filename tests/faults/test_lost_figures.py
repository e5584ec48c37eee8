"""Figures that Spark loses: a write has those of all of its rows, or publishes nothing."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from dedp_assets.patterns.core.audits import Audit
from dedp_assets.patterns.core.errors import AuditFailed, ContractError
from dedp_assets.patterns.core.names import OUTCOME
from dedp_assets.patterns.core.results import Split
from dedp_assets.patterns.core.rows import RowsRead, count_where, tally
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import Insert, Merge, Table, Update
from dedp_assets.patterns.idempotency.data_overwrite import overwrite_partition
from dedp_assets.patterns.quality.audit_write_audit_publish import audit_write_audit_publish
from tests.faults.failpoints import losing_figures
from tests.helpers import a_run, read_back

pytestmark = [pytest.mark.budget(50, "every verb loses the figures of a task"), pytest.mark.spark]

COLUMNS = {"id": Column("BIGINT", required=True), "ms": Column("BIGINT"), "day": Column("DATE", required=True)}
DAY = {"day": "2026-01-05"}
LARGEST = 2**63 - 1
ALL = tuple(COLUMNS)


def rows_of(spark, ids, *, ms="id", tasks=3, day=DAY["day"]):
    """Rows of some tasks."""
    return spark.range(ids.start, ids.stop, 1, tasks).selectExpr("id", f"{ms} AS ms", f"DATE '{day}' AS day")


def split_of(rows):
    """A split with dead and late rows: ids divisible by five, and by three."""
    outcome = f"CASE WHEN id % 5 = 0 THEN 'dead' WHEN id % 3 = 0 THEN 'late' ELSE 'valid' END AS {OUTCOME}"
    return Split(rows.selectExpr("*", outcome), dict.fromkeys(("valid", "dead", "late"), ALL), identity=("id",))


def stage(table, rows, **options):
    """Publish rows of the day."""
    return table.stage(rows, provenance=a_run(), **{"partition": DAY, **options}).publish()


def read_apart(table, rows, audits):
    """Publish the valid ones of rows that are counted where they are read."""
    counted, seen = tally(rows, identity=["id"], measures={"spread": "max(id) - min(id)"})
    return stage(table, split_of(counted), rows_read=RowsRead(tally=seen), audits=audits)


def read_along(table, rows, audits):
    """Publish the valid ones of rows that are counted, and of which others are dropped, in the same pass."""
    counted, seen = tally(split_of(rows), identity=["id"], measures={"odd": count_where("id % 2 = 1")})
    return stage(table, counted, rows_read=RowsRead(tally=seen), audits=audits)


def merge(table, rows, audits):
    return table.merge(rows, Merge(["id"], [Update(), Insert()]), provenance=a_run(), audits=audits)


def recompute(table, rows, audits):
    """Put the rows in the place of those that are there."""
    options = {"keys": ["id"], "identity": ["id"], "compute": lambda _, new: new}
    return table.recompute(rows, **options, provenance=a_run(), audits=audits)


def awap(table, rows, audits):
    return audit_write_audit_publish(rows, table.target(a_run(), partition=DAY, audits=audits))


VERBS = {
    "overwrite": lambda t, rows, audits: overwrite_partition(rows, t.target(a_run(), partition=DAY, audits=audits)),
    "append": lambda t, rows, audits: stage(t, rows, audits=audits, append=True),
    "audited": awap,
    "letters": lambda t, rows, audits: stage(t, split_of(rows), audits=audits, also=("dead",)),
    "read apart": read_apart,
    "read along": read_along,
    "merge": merge,
    "recompute": recompute,
    "delete": lambda t, _, audits: t.delete("id < 5", provenance=a_run(), audits=audits),
}
KEPT = dict.fromkeys(VERBS, "true") | dict.fromkeys(("letters", "read apart"), f"{OUTCOME} = 'valid'")
KEPT |= dict.fromkeys(("merge", "recompute"), f"{OUTCOME} IN ('inserted', 'updated')") | {
    "delete": f"{OUTCOME} = 'deleted'"
}
FEW = Audit.none_where("none_is_large", "id > 100")


@pytest.fixture(scope="module")
def world(spark, tmp_path_factory):
    """Makes tables with ten rows of two files, some of which each verb changes."""
    root, numbers = tmp_path_factory.mktemp("lake"), itertools.count()

    def make(*, largest=False):
        spec = TableSpec(f"silver/t{next(numbers)}", COLUMNS, partition_by=("day",))
        table = Table(spec, root / spec.name, spark)
        stage(table, rows_of(spark, range(10), tasks=2, ms=f"{LARGEST}L" if largest else "id"))
        return table

    return make


@pytest.fixture(scope="module")
def undisturbed(world, spark):
    """What each verb gives if nothing is lost."""
    found = {}
    for verb, write in VERBS.items():
        table = world()
        found[verb] = (write(table, rows_of(spark, range(4, 16)), (FEW,)), read_back(table))
    return found


@pytest.mark.both
@pytest.mark.promise("figures-are-of-all-rows")
@pytest.mark.parametrize(
    ("verb", "lost"),
    [
        *itertools.product(VERBS, ["of one task"]),
        *itertools.product(["overwrite", "read apart", "read along", "merge", "recompute"], ["all"]),
        *itertools.product(["overwrite", "merge"], ["of one task, again"]),
    ],
)
def test_figures_are_of_all_rows_or_nothing_is_published(world, undisturbed, spark, verb, lost):
    """Whatever is lost: the same rows, counts, figures and verdicts as without a loss, or a refusal."""
    table = world()
    before, (known, rows) = read_back(table), undisturbed[verb]
    with losing_figures(lost) as losses:
        try:
            result = VERBS[verb](table, rows_of(spark, range(4, 16)), (FEW,))
        except ContractError:
            assert read_back(table) == before
            assert lost != "of one task"
        else:
            assert read_back(table) == rows
            assert (result.rows, result.findings) == (known.rows, known.findings)
            assert {**result.figures, "held_seconds": 0} == {**known.figures, "held_seconds": 0}
    assert losses


@pytest.mark.parametrize(("verb", "tasks"), [*itertools.product(VERBS, [3]), ("overwrite", 1), ("read along", 1)])
def test_an_aggregate_that_overflows_fails_alone(world, spark, verb, tasks):
    """In a task or between tasks: its audit is refused by name and SQL, and every other rule is judged of all rows."""
    table = world(largest=True)
    before = read_back(table)
    sql = f"sum(if({KEPT[verb]}, ms, 0L))"
    total = Audit(name="total_is_known", sql=sql, fail_below=0)
    if verb == "read along":
        total = Audit(name="total_is_known", sql="sum(ms)", fail_below=0)
    rows = rows_of(spark, range(4, 16), ms=f"if(id % 4 = 0, {LARGEST - 1}L, 0L)", tasks=tasks)  # one of each four
    with pytest.raises(AuditFailed, match=r"total_is_known: sum\(.* cannot be evaluated: \[ARITHMETIC_OVERFLOW") as got:
        VERBS[verb](table, rows, (total, FEW))
    assert [finding.name for finding in got.value.findings if not finding.passed] == ["total_is_known"]
    assert read_back(table) == before


@pytest.mark.parametrize("append", [False, True])
def test_a_row_of_another_day_is_seen_though_an_aggregate_overflows(world, spark, append):
    """Two tasks of one row each, of which Spark loses one: neither is published, and both rules say why."""
    table = world()
    other = rows_of(spark, range(21, 22), ms=f"{LARGEST}L", tasks=1, day="2026-01-06")
    rows = rows_of(spark, range(20, 21), ms=f"{LARGEST}L", tasks=1).union(other)
    total = Audit(name="total_is_known", sql="sum(ms)", fail_below=0)
    with pytest.raises(AuditFailed, match=r"rows_lie_in_their_partition.*outside=1.*total_is_known") as got:
        stage(table, rows, audits=(total, FEW), append=append)
    assert got.value.findings[0].figures["written"] == 2


@pytest.mark.parametrize(
    "failing",
    [Audit.none_where("odd", "1 / (id - 20) > 3"), Audit(name="odd", sql="count(1) / count_if(id > 99)", fail_below=0)],
)
def test_an_audit_that_divides_by_zero_fails_alone(world, spark, failing):
    """In a row or at the end: refused by its SQL; it names no rows, so all of them go into quarantine."""
    table, aside = world(), world()
    before, rows = read_back(table), rows_of(spark, range(20, 23))
    with pytest.raises(AuditFailed, match=r"odd: .* cannot be evaluated: \[DIVIDE_BY_ZERO") as got:
        stage(table, rows, audits=(failing, FEW))
    assert [finding.name for finding in got.value.findings if not finding.passed] == ["odd"]
    into, quarantine = table.target(a_run(), partition=DAY, audits=(failing, FEW)), aside.target(a_run(), partition=DAY)
    audit_write_audit_publish(rows, into, quarantine, on_failure="quarantine")
    assert read_back(table) == before
    assert [row["id"] for row in read_back(aside)] == [20, 21, 22]


@pytest.mark.parametrize("verb", [*VERBS, "constraint"])
def test_a_value_that_cannot_be_computed_is_a_refusal(world, spark, verb):
    """Of the rows, a condition or a constraint: in one sentence, before anything is published, and not tried again."""
    table = world()
    before = read_back(table)
    rows = rows_of(spark, range(4, 16), ms="id" if verb in ("constraint", "delete") else "100 div (id - 7)")
    if verb == "constraint":
        spec = replace(table.spec, checks={"inverse": "100 / (id - 13) < 200"})
        table = Table(spec, table.location, spark)
        with pytest.raises(ContractError, match=r"a value cannot be computed.*DIVIDE_BY_ZERO"):
            stage(table, rows)
    elif verb == "delete":
        with pytest.raises(ContractError, match=r"^\S+: a value cannot be computed.*: \[DIVIDE_BY_ZERO[^\n]*$"):
            table.delete("1 / (id - 7) > 0", provenance=a_run())
    else:
        with pytest.raises(ContractError, match=r"^\S+: a value cannot be computed.*: \[DIVIDE_BY_ZERO[^\n]*$"):
            VERBS[verb](table, rows, (FEW,))
    assert read_back(table) == before


def test_a_measure_of_the_rows_read_that_overflows_is_named(world, spark):
    """A tally's own measure is no audit: without it nothing is published."""
    table = world()
    before = read_back(table)
    rows, seen = tally(rows_of(spark, range(2), ms=f"{LARGEST}L", tasks=2), identity=["id"], measures={"ms": "sum(ms)"})
    with pytest.raises(ContractError, match=r"figure ms of the rows read: sum\(ms\) cannot be evaluated"):
        stage(table, rows, rows_read=RowsRead(tally=seen))
    assert read_back(table) == before
