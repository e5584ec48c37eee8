"""Dataset Materializer."""

from __future__ import annotations

import shutil
from collections import defaultdict
from dataclasses import replace
from datetime import timedelta

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from dedp_assets.patterns.core.audits import Audit
from dedp_assets.patterns.core.errors import AuditFailed, ConfigError, Conflict, ContractError, NotReady
from dedp_assets.patterns.core.records import CommitRecord
from dedp_assets.patterns.core.schema import Column, TableLayout, TableSpec
from dedp_assets.patterns.delta import RELABELLED, Operation, Table, commit_actions
from dedp_assets.patterns.delta.commit import file_exchange
from dedp_assets.patterns.ingestion.compactor import compact
from dedp_assets.patterns.storage._base_query import BaseQuery
from dedp_assets.patterns.storage.dataset_materializer import judge_staleness, materialize
from tests.contracts.known_calls import known_calls
from tests.helpers import a_run, active_files, files_of, read_back
from tests.renaming import STORED, any_names
from tests.two_runs import two_runs

pytestmark = [
    pytest.mark.spark,
    pytest.mark.budget(30, "refreshes against full ones, by each reason to read all rows"),
]

BASE = TableSpec(
    "silver/visits",
    {
        "landed": Column("STRING"),
        "day": Column("STRING"),
        "id": Column("BIGINT"),
        "page": Column("STRING"),
        "user": Column("STRING", classification="personal", replica="pseudonym"),
    },
    ("landed", "day"),
)
SCHEMA = pa.schema([(name, pa.int64() if name == "id" else pa.string()) for name in BASE.columns])
COUNTS = {
    "day": Column("STRING", required=True),
    "page": Column("STRING", required=True),
    "visits": Column("BIGINT"),
    "users": Column("BIGINT"),
    "newest": Column("BIGINT"),
}
COPY = TableSpec("gold/pages", COUNTS, ("day",), key=("day", "page"))
QUERY = """
    SELECT day, page, count(*) AS visits, count(DISTINCT user) AS users, max(id) AS newest FROM {base} GROUP BY ALL
"""
ODD = ["mon", "a b", "x=y/z", "50%", "it's", "${day}"]


def put(base, *rows, mode="append", predicate=None):
    """Rows of the base by delta-rs: landed, day, id, page, user."""
    batch = pa.Table.from_pylist([dict(zip(BASE.columns, row, strict=True)) for row in rows], schema=SCHEMA)
    by = None if predicate else ["landed", "day"]
    write_deltalake(str(base.location), batch, mode=mode, predicate=predicate, partition_by=by)


def modelled(base):
    """The result over the base as it lies there, in plain Python."""
    groups = defaultdict(list)
    for row in DeltaTable(str(base.location)).to_pyarrow_table().to_pylist():
        groups[row["day"], row["page"]].append(row)
    return {
        key: (len(rows), len({row["user"] for row in rows} - {None}), max(row["id"] for row in rows))
        for key, rows in groups.items()
    }


def stored(copy):
    """The rows of the copy, by key; each key once."""
    rows = read_back(copy)
    found = {(row["day"], row["page"]): (row["visits"], row["users"], row["newest"]) for row in rows}
    assert len(found) == len(rows)
    return found


def refresh(base, copy, query=QUERY, *, run="run", audits=(), **options):
    return materialize(base, copy.target(a_run(copy.name, run_id=run), audits=audits), query=query, **options)


@pytest.fixture
def base(make_table):
    """Three days, of which one landed twice."""
    table = make_table(BASE)
    put(table, ("1", "mon", 1, "/a", "u1"), ("1", "mon", 2, "/b", "u1"), ("1", "tue", 3, "/a", None))
    put(table, ("2", "mon", 4, "/a", "u2"), ("2", "wed", 5, "/c", "u3"))
    return table


@pytest.fixture
def copy(make_table):
    return make_table(COPY)


def lose(base, **kept):
    """Remove the data files of all partitions but the kept ones: who reads one of them fails."""
    for folder in base.location.glob("landed=*/day=*"):
        if not any(folder.name == f"day={day}" for day in kept.values()):
            shutil.rmtree(folder)


@pytest.mark.both
def test_a_refresh_reads_the_changed_partitions_alone_and_equals_a_full_one(base, copy, make_table):
    """Acceptance 1 and 2: no file of another day is there any more, and a full refresh fails for that."""
    first = refresh(base, copy)
    assert (first.figures["partitions read"], first.figures["files read"]) == (4, 4)
    assert stored(copy) == modelled(base)
    others = files_of(copy, day="tue") | files_of(copy, day="wed")
    put(base, ("3", "mon", 6, "/b", "u4"), ("3", "mon", 7, "/d", "u4"))
    expected = modelled(base)
    full = make_table(replace(COPY, name="gold/full"))
    refresh(base, full)
    lose(base, day="mon")
    done = refresh(base, copy)
    assert (done.figures["partitions"], done.figures["partitions read"], done.figures["files read"]) == (5, 3, 3)
    assert done.figures["bytes read"] < done.figures["base bytes"]
    assert (done.figures["inserted"], done.figures["updated"], done.figures["deleted"]) == (1, 1, 0)
    assert stored(copy) == stored(full) == expected
    assert files_of(copy, day="tue") | files_of(copy, day="wed") == others
    with pytest.raises(ContractError, match="lacks 2 of its data files"):
        refresh(base, copy, full=True)
    assert stored(copy) == expected


STEPS = st.one_of(
    st.tuples(
        st.just("append"), st.sampled_from(["1", "2"]), st.sampled_from(ODD), st.integers(0, 99), st.sampled_from("ab")
    ),
    st.tuples(st.just("overwrite"), st.sampled_from(ODD), st.integers(0, 99), st.sampled_from("ab")),
    st.tuples(st.just("delete"), st.sampled_from(["page = 'a'", "id > 50", "landed = '1'"])),
    st.just(("compact",)),
)


def change(base, step):
    """Late rows, a backfill, a deletion, or a compaction of the base."""
    kind, *more = step
    if kind == "append":
        landed, day, number, page = more
        put(base, (landed, day, number, page, f"u{number % 3}"))
    elif kind == "overwrite":
        day, number, page = more
        quoted = day.replace("'", "''")
        put(base, ("1", day, number, page, None), mode="overwrite", predicate=f"landed = '1' AND day = '{quoted}'")
    elif kind == "delete":
        DeltaTable(str(base.location)).delete(*more)
    else:
        DeltaTable(str(base.location)).optimize.compact()


@settings(
    deadline=None,
    suppress_health_check=list(HealthCheck),
    max_examples=2,
    phases=(Phase.explicit, Phase.generate),  # to make a failing case smaller takes a minute of jobs
)
@given(st.lists(st.lists(STEPS, min_size=2, max_size=5), min_size=1, max_size=2))
def test_any_history_of_the_base_is_in_the_copy(spark, tmp_path_factory, history):
    """Acceptance 1 and 5: late rows, backfills, deletions, emptied and odd partitions, as in a plain model."""
    root = tmp_path_factory.mktemp("history")
    base, copy = (Table(spec, root / spec.name, spark) for spec in (BASE, COPY))
    put(base, *[("1", day, 60 + n, "a", "u") for n, day in enumerate(ODD)])
    refresh(base, copy)
    for steps in history:
        for step in steps:
            change(base, step)
        refresh(base, copy)
        assert stored(copy) == modelled(base)


def test_a_backfill_a_deletion_and_a_partition_without_value_are_in_the_copy(base, copy):
    """Acceptance 5: of an old day, which is then gone; rows without a day have no key, and are refused."""
    refresh(base, copy)
    put(base, ("1", "mon", 9, "/z", None), mode="overwrite", predicate="landed = '1' AND day = 'mon'")
    DeltaTable(str(base.location)).delete("day = 'tue'")
    done = refresh(base, copy)
    assert (done.figures["deleted"], stored(copy)) == (2, modelled(base))
    assert {day for day, _ in stored(copy)} == {"mon", "wed"}
    compact(base.target("maintenance"))
    again = refresh(base, copy)
    assert (again.applied, again.figures["partitions read"]) == (False, 0)
    assert "silver/visits has the same rows as at version 3" in again.reason
    put(base, ("1", None, 10, "/z", None))
    before = stored(copy)
    with pytest.raises(AuditFailed, match="day_is_not_null"):
        refresh(base, copy)
    assert stored(copy) == before


def test_staleness_is_told_by_versions_and_seconds(base, copy):
    """Acceptance 3: compaction makes nothing stale, and the commit says which version of the base it shows."""
    refresh(base, copy)
    shown = copy.ledger.commit(copy.ledger.version()).record
    assert (shown.inputs, shown.notes["materialized"]["version"]) == ({"silver/visits": 1}, 1)
    now = base.ledger.commit(1).timestamp + timedelta(hours=3)
    fresh = judge_staleness(copy, base, now=now)
    assert (fresh.passed, fresh.figures["versions behind"], fresh.figures["seconds behind"]) == (True, 0, 0)
    change(base, ("compact",))
    put(base, ("3", "mon", 6, "/b", "u4"))
    put(base, ("3", "tue", 7, "/b", "u4"))
    first = base.ledger.commit(base.ledger.version() - 1).timestamp
    stale = judge_staleness(copy, base, now=first + timedelta(seconds=90))
    assert (stale.passed, stale.severity) == (False, "warn")
    told = {name: stale.figures[name] for name in ("versions behind", "seconds behind", "base version")}
    assert told == {"versions behind": 2, "seconds behind": 90, "base version": 1}
    assert "gold/pages lacks 2 versions of silver/visits" in stale.note
    at = first + timedelta(seconds=90)
    assert judge_staleness(copy, base, now=at, most_versions=2).passed
    assert judge_staleness(copy, base, now=at, most_seconds=90).passed
    assert not judge_staleness(copy, base, now=at, most_versions=1, most_seconds=89).passed
    refresh(base, copy)
    assert judge_staleness(copy, base, now=at).passed


def test_what_the_copy_costs_is_recorded(base, copy):
    """Acceptance 6: bytes of both by their logs, as the files on disk are."""

    def on_disk(table):
        return sum((table.location / path).stat().st_size for path in active_files(table))

    done = refresh(base, copy)
    assert done.figures["base bytes"] == on_disk(base)
    assert done.figures["copy bytes"] == on_disk(copy)
    record = copy.ledger.commit(done.version).record
    assert record.notes["materialized"]["base bytes"] == on_disk(base)
    figures = judge_staleness(copy, base, now=base.ledger.commit(0).timestamp).figures
    assert (figures["base bytes"], figures["copy bytes"]) == (on_disk(base), on_disk(copy))


class Killed(BaseException):
    """The end of a process."""


def test_a_refresh_that_dies_leaves_the_old_result_and_a_rerun_counts_nothing_twice(base, make_table, monkeypatch):
    """Acceptance 4: before the commit, and after it; the first refresh, and some by partitions."""
    copy = make_table(replace(COPY, partition_by=()))
    commit = file_exchange.commit_actions

    def dying(before):
        def committing(*args, **options):
            if before:
                raise Killed
            commit(*args, **options)
            raise Killed

        return committing

    for number, before in enumerate((True, False, True)):
        put(base, ("4", "wed", 10 + number, "/c", "u"))
        held = stored(copy) if copy.ledger.exists() else {}
        with monkeypatch.context() as patched:
            patched.setattr(file_exchange, "commit_actions", dying(before))
            with pytest.raises(Killed):
                refresh(base, copy)
        assert stored(copy) == (held if before else modelled(base))
        again = refresh(base, copy)
        assert again.applied == before
        assert stored(copy) == modelled(base)


def test_what_an_audit_refuses_leaves_the_old_result(base, copy):
    """Acceptance 4: of the rows by partitions that changed; the next refresh computes the partition again."""
    refresh(base, copy)
    put(base, ("4", "wed", 20, "/c", "u"), ("4", "wed", 21, "/c", "u"))
    held = stored(copy)
    few = Audit(name="few", of="few", where="visits > 2", fail_above=0)
    with pytest.raises(AuditFailed, match="few"):
        refresh(base, copy, audits=[few])
    assert stored(copy) == held
    refresh(base, copy)
    assert stored(copy) == modelled(base)


def test_what_a_column_of_the_base_declares_holds_for_the_copy(base, make_table):
    """Acceptance 6: under another name, too; personal, masking and statistics; a computed value is the copy's own."""
    users = "SELECT day, user AS visitor, upper(user) AS shown, count(*) AS visits FROM {base} GROUP BY ALL"
    columns = {"day": COUNTS["day"], "visitor": Column("STRING"), "shown": Column("STRING"), "visits": Column("BIGINT")}
    spec = TableSpec("gold/visitors", columns, ("day",), key=("day", "visitor"))

    def declared(**of_visitor):
        visitor = {"visitor": Column("STRING", **of_visitor)}
        return make_table(replace(spec, columns={**columns, **visitor}))

    DeltaTable(str(base.location)).delete("user IS NULL")
    for of_visitor, match in (
        ({}, "visitor must be personal, as user of silver/visits is"),
        ({"classification": "personal", "replica": "upper(visitor)"}, "visitor must have the replica 'pseudonym'"),
    ):
        with pytest.raises(ConfigError, match=match):
            refresh(base, declared(**of_visitor), users)
        assert not declared().ledger.exists()
    for name, of_visitor in (
        ("same", {"classification": "personal", "replica": "pseudonym"}),
        ("left_out", {"classification": "personal"}),
    ):
        copy = make_table(replace(declared(**of_visitor).spec, name=f"gold/{name}"))
        refresh(base, copy, users)
        assert len(read_back(copy)) == 3
        assert not any("visitor" in stats for stats in copy.ledger.file_statistics(copy.ledger.version()).values())
    quiet = make_table(replace(BASE, name="silver/quiet", layout=TableLayout(statistics=("page",))))
    quiet.overwrite(base.read(), provenance=a_run("silver/quiet"))
    newest = "SELECT day, page, id AS visits, 1L AS users, id + 1 AS newest FROM {base}"
    with pytest.raises(ConfigError, match="visits must be without statistics, as id of silver/quiet is"):
        refresh(quiet, make_table(COPY), newest)
    few = make_table(replace(COPY, name="gold/few", layout=TableLayout(statistics=("page", "newest"))))
    DeltaTable(str(quiet.location)).delete("id = 4")
    refresh(quiet, few, newest)
    assert len(read_back(few)) == 3


def test_a_full_refresh_is_made_where_partitions_do_not_tell(spark, base, make_table):
    """Another query, reference or writer; the next one is by partitions again."""
    copy = make_table(replace(COPY, partition_by=()))

    def read(query=QUERY, run=None, references=None):
        into = copy.target(run or a_run(copy.name))
        return materialize(base, into, references, query=query).figures["partitions read"]

    assert (read(), read()) == (4, 0)
    assert refresh(base, copy, full=True).reason.endswith("all rows of silver/visits were read: it is asked for")
    other = QUERY.replace("max(id)", "min(id)")
    assert (read(other), read(other)) == (4, 0)
    copy.delete("page = '/a'", provenance=a_run("gold/pages", run_id="a stranger"))
    assert (read(other), read(other)) == (4, 0)
    told = copy.ledger.commit(copy.ledger.version()).record.notes["materialized"]["all rows because"]
    assert told == "another writer changed the copy"
    names = spark.createDataFrame([("/a", 1)], "page STRING, known BIGINT")
    joined = QUERY.replace("FROM {base}", "FROM {base} LEFT JOIN {names} USING (page)")
    known = {"names": names}
    runs = [a_run("gold/pages", inputs={"names": version, "silver/visits": 1}) for version in (1, 2)]
    assert [read(joined, run=run, references=known) for run in (runs[0], runs[0], runs[1])] == [4, 0, 4]
    with pytest.raises(ConfigError, match="the inputs of the run must name the versions of the references names"):
        read(joined, references=known)
    assert (read(), stored(copy)) == (4, modelled(base))


def test_a_partition_under_another_value_is_in_the_copy(base, copy):
    """Its commit changes no row for whoever follows changes, but the rows are of another day."""
    refresh(base, copy)
    state = base.ledger.state()
    (file,) = [file for file, key in state.keyed_files() if dict(key)["day"] == "wed"]
    thursday = {"path": file["path"], "size": file["size_bytes"], "modificationTime": 0, "dataChange": False}
    again = [{"add": {**thursday, "partitionValues": {"landed": "2", "day": "thu"}}}]
    run = a_run("silver/visits", notes={RELABELLED: {"day=wed": "day=thu"}})
    record, operation = CommitRecord.of(run, content="moved"), Operation("OPTIMIZE")
    commit_actions(base.store, state, record=record, operation=operation, described_again=again)
    assert base.ledger.changes(since=state.version)[1] == {}
    refresh(base, copy)
    assert ("thu", "/c") in stored(copy)
    assert stored(copy) == modelled(base)


def test_a_copy_with_a_change_feed_is_replaced_as_a_whole(base, make_table):
    """Its rows are not exchanged one by one, but its readers have the result all the same."""
    copy = make_table(replace(COPY, partition_by=(), properties={"delta.enableChangeDataFeed": "true"}))
    refresh(base, copy)
    put(base, ("3", "mon", 6, "/b", "u4"))
    done = refresh(base, copy)
    assert "the copy has a change feed" in done.reason
    assert (done.figures["partitions read"], stored(copy)) == (5, modelled(base))


def test_another_base_in_the_same_folder_is_read_whole(spark, base, copy):
    """It ends before the version that the copy shows, and its log is another one."""
    refresh(base, copy)
    shutil.rmtree(base.location)
    put(base, ("1", "sun", 1, "/a", "u1"))
    again = Table(BASE, base.location, spark)
    assert not judge_staleness(copy, again, now=again.ledger.commit(0).timestamp + timedelta(days=1)).passed
    assert (refresh(again, copy).figures["partitions read"], stored(copy)) == (1, modelled(base))


def test_a_base_whose_log_was_cleaned_up_since_is_read_whole(base, copy):
    """A partition that was emptied in a forgotten commit is not in the copy any more."""
    refresh(base, copy)
    DeltaTable(str(base.location)).delete("day = 'tue'")
    put(base, ("3", "mon", 6, "/b", "u4"))
    DeltaTable(str(base.location)).create_checkpoint()
    for version in range(3):
        (base.location / f"_delta_log/{version:020d}.json").unlink()
    done = refresh(Table(BASE, base.location, base.session), copy)
    assert (done.figures["partitions read"], stored(copy)) == (4, modelled(base))


def test_a_total_over_partitions_is_read_whole_each_time(base, make_table):
    """A result without a partition column of the base, as the figures say."""
    total = make_table(TableSpec("gold/total", {"page": COUNTS["page"], "visits": COUNTS["visits"]}, key=("page",)))
    by_page = "SELECT page, count(*) AS visits FROM {base} GROUP BY ALL"
    for read in (4, 5):
        assert refresh(base, total, by_page).figures["partitions read"] == read
        counted = {row["page"]: row["visits"] for row in read_back(total)}
        assert counted == {"/a": read - 1, "/b": 1, "/c": 1}
        put(base, ("3", "mon", 1, "/a", "u1"))


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("SELECT day, count(*) FROM {base} GROUP BY day -- LIMIT", ""),
        ("SELECT day, rank() OVER (PARTITION BY page, `Day`ORDER BY id) FROM {base} WHERE page <> 'WITH'", ""),
        ("SELECT day, (SELECT count(*) FROM {base}) FROM {base}", "more than once"),
        ("WITH b AS (SELECT * FROM {base}) SELECT day, (SELECT count(*) FROM b) FROM b", "has WITH"),
        ("SELECT * FROM {base} ORDER BY id limit 3", "has LIMIT"),
        ("SELECT day, count(*) OVER () FROM {base}", "a window of the query is not partitioned by day"),
        ("SELECT day, count(*) OVER (PARTITION BY page ORDER BY day) FROM {base}", "not partitioned by day"),
        ("SELECT day, count(*) OVER w FROM {base} WINDOW w AS (PARTITION BY day)", "not partitioned by day"),
    ],
)
def test_a_query_whose_rows_may_come_from_several_partitions_is_named(query, why):
    """Such a query is computed from all rows each time: by partitions it would be another result."""
    found = BaseQuery(None, None, COPY, query, {}, {}).spans(["day"])
    assert (why in found) if why else not found


def test_a_share_of_all_days_is_that_of_all_days_after_each_refresh(base, copy):
    """A scalar query over all partitions, in the key's partition column or not."""
    share = "SELECT day, page, 1L AS visits, (SELECT count(*) FROM {base}) AS users, max(id) AS newest FROM {base}"
    for rows in (5, 6):
        refresh(base, copy, f"{share} GROUP BY day, page")
        assert {row["users"] for row in read_back(copy)} == {rows}
        put(base, ("3", "mon", 6, "/b", "u4"))


def test_rows_without_a_key_of_their_own_are_refused(base, copy):
    """In a full refresh and in one by partitions; the copy stays."""
    every = "SELECT day, page, id AS visits, 1L AS users, id AS newest FROM {base}"
    with pytest.raises(AuditFailed, match="rows without a key of their own"):
        refresh(base, copy, every)
    DeltaTable(str(base.location)).delete("id = 4")
    refresh(base, copy, every)
    held = stored(copy)
    put(base, ("1", "sun", 8, "/a", None), ("1", "sun", 9, "/a", None))
    with pytest.raises(ContractError, match=r"gold/pages: the query .* a row of the query has no day, page of its own"):
        refresh(base, copy, every)
    assert stored(copy) == held


def test_an_older_version_and_wrong_options_are_refused(base, copy, make_table):
    """By a sentence, before anything is written."""

    def refused(match, query=QUERY, into=copy, error=ConfigError, **options):
        with pytest.raises(error, match=match):
            refresh(base, into, query, **options)
        assert not into.ledger.exists()

    refused(r"query must read \{base\}, not only SELECT 1", "SELECT 1")
    refused("query cannot be evaluated", "SELECT nothing FROM {base}")
    refused("query cannot be evaluated: no rows are called 'more'", "SELECT * FROM {base} JOIN {more}")
    refused(
        "audits must name rows by where, .* not be like few", audits=[Audit(name="few", of="written", fail_above=1)]
    )
    refused("gold/pages must declare a key", into=make_table(replace(COPY, key=())))
    refused("references must have names of their own, not base", references={"base": base.read()})
    refused("version 9", version=9, error=NotReady)
    with pytest.raises(NotReady):
        refresh(make_table(replace(BASE, name="silver/nothing")), copy)
    refresh(base, copy)
    with pytest.raises(Conflict, match="shows version 1 of silver/visits: version must be that or a newer one, not 0"):
        refresh(base, copy, version=0)
    now = base.ledger.commit(1).timestamp
    with pytest.raises(ConfigError, match="most_versions and most_seconds must be at least 0, not -1 and 0"):
        judge_staleness(copy, base, now=now, most_versions=-1)
    with pytest.raises(ConfigError, match="base must be the table that gold/pages is made from, silver/visits, not"):
        judge_staleness(copy, copy, now=now)


@any_names(STORED)
def a_copy_and_its_refresh(n):
    base = n.table("day STRING, page STRING", by=["day"])
    base.overwrite(n.frame("day STRING, page STRING", ("mon", "/a"), ("tue", "/b")), provenance=a_run())
    day, page = map(n.declared, ("day", "page"))
    copy = n.table("day STRING!, page STRING!, visits BIGINT", by=["day"], key=(day, page))
    names = [f"`{name.replace('`', '``')}`" for name in (n("day"), n("page"), n("visits"))]
    query = f"SELECT {names[0]}, {names[1]}, count(*) AS {names[2]} FROM {{base}} GROUP BY ALL"
    materialize(base, copy.target(a_run()), query=query)
    late = n.frame("day STRING, page STRING", ("mon", "/a"), ("mon", "/c"))
    base.overwrite(late, partition={n("day"): "mon"}, provenance=a_run(run_id="late"))
    assert materialize(base, copy.target(a_run()), query=query).figures["partitions read"] == 1
    yield copy


@known_calls
def calls_that_work(known):
    base = known.table("silver/base", "day STRING, page STRING", ("mon", "/a"), by=("day",))
    copy = known.table("gold/copy", "day STRING!, visits BIGINT", by=("day",), key=("day",))
    query = "SELECT day, count(*) AS visits FROM {base} GROUP BY ALL"
    materialize(base, copy.target(known.run), query=query)
    return {
        "materialize": {
            "base": base,
            "into": copy.target(known.run),
            "references": None,
            "query": query,
            "version": None,
            "full": False,
        },
        "judge_staleness": {"copy": copy, "base": base, "now": known.run.at, "most_versions": 0, "most_seconds": 0},
    }


@two_runs()
def refreshed_at_once(world):
    columns = "id INT, day STRING"
    base = world.table("base", columns, by=["day"])
    world.table("copy", "day STRING!, visits BIGINT", by=["day"], key=("day",))
    query = "SELECT day, count(*) AS visits FROM {base} GROUP BY ALL"

    def add(w, name, day):
        w["base"].overwrite(w.frame(columns, (1, day)), partition={"day": day}, provenance=a_run("base", run_id=name))

    def refreshed(w, name, version=None):
        materialize(w["base"], w.into("copy", name), query=query, version=version)

    add(world, "first", "mon")
    refreshed(world, "base")
    add(world, "second", "tue")
    add(world, "third", "wed")
    newest = base.ledger.version()
    yield lambda w: refreshed(w, "1", newest - 1)
    yield lambda w: refreshed(w, "2", newest)
