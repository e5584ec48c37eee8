"""Format Migration: both sides hold the same rows after any death, and readers go over by one name, and back."""

from __future__ import annotations

import json
from collections import Counter
from datetime import date, datetime, timedelta, timezone

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dedp_assets.patterns.core.audits import Audit
from dedp_assets.patterns.core.errors import AuditFailed, ConfigError, ContractError, NotReady, SchemaMismatch
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import LocalStore, StagedWrite, Table
from dedp_assets.patterns.storage import _migrated_folder, format_migration
from dedp_assets.patterns.storage.format_migration import append_both, migrate_format, read_by_name
from dedp_assets.patterns.storage.manifest import ListedFiles, write_manifest
from tests.contracts.known_calls import known_calls
from tests.helpers import a_run, read_back, rows_at
from tests.two_runs import two_runs

pytestmark = [
    pytest.mark.spark,
    pytest.mark.budget(40, "two sides, each read by two engines, and deaths at each write"),
]
NOW = datetime(2026, 1, 5, tzinfo=timezone.utc)
SPEC = TableSpec("silver/visits", {"id": Column("BIGINT", "key"), "page": Column("STRING", "path")})
DAILY = TableSpec("silver/daily", {**SPEC.columns, "day": Column("STRING", "when")}, partition_by=("day",))
ROWS = [(1, "/a"), (1, "/a"), (2, None), (3, ""), (None, "ü'\"$1\\%s\n,")]


class Killed(BaseException):
    """A death that nothing catches."""


def deliver(old, name, *rows):
    """A file that a writer of the folder alone puts there."""
    path = old / name
    path.parent.mkdir(parents=True, exist_ok=True)
    ids, pages = zip(*rows, strict=True)
    pq.write_table(pa.table({"id": pa.array(ids, pa.int64()), "page": pa.array(pages, pa.string())}), path)


@pytest.fixture
def old(tmp_path):
    """A folder of two Parquet files, with a row that is there twice, and what readers of folders pass over."""
    folder = tmp_path / "old"
    deliver(folder, "a.parquet", *ROWS[:2])
    deliver(folder, "b.parquet", *ROWS[2:])
    (folder / "_SUCCESS").write_bytes(b"")
    (folder / "_draft").mkdir()
    (folder / "_draft/c.parquet").write_bytes(b"half")
    (folder / ".d.json").write_bytes(b"")
    return folder


@pytest.fixture
def table(spark, tmp_path):
    """The new table, which is not there yet."""
    return Table(SPEC, tmp_path / "new", spark)


def step(table, old, to, *, days=0, run="run-1", **options):
    into = table.target(a_run(run_id=run), audits=options.pop("audits", ()))
    return migrate_format(into, now=NOW + timedelta(days=days), folder=str(old), to=to, **options)


def batch(table, *rows, run="batch-1", parts=1):
    frame = table.session.createDataFrame(rows, "id BIGINT, page STRING").repartition(parts)
    return append_both(frame, table.target(a_run(run_id=run)))


def counted(rows):
    return Counter((row["id"], row["page"]) for row in rows)


def of_folder(old):
    """The rows of the folder by DuckDB, which knows neither the table nor the library."""
    found = duckdb.sql(f"SELECT id, page FROM read_parquet('{old}/*.parquet')").fetchall()
    return Counter(found)


def phase_of(table):
    text = table.ledger.state().properties.get("dedp.format_migration")
    return json.loads(text)["phase"] if text else None


# --- phases and gates -------------------------------------------------------------------------------------------------


@pytest.mark.both
def test_a_folder_becomes_a_table_phase_by_phase_and_readers_have_the_same_rows_all_along(table, old):
    """The multiset of rows in each phase, by the name, by DuckDB and by delta-rs; the files go a grace period later."""
    for phase in ("backfilled", "both", "verified", "switched"):
        result = step(table, old, phase)
        side = "table" if phase == "switched" else "folder"
        assert result.reason == f"{phase} since 2026-01-05T00:00:00+00:00: readers read the {side}"
        assert (phase_of(table), result.applied) == (phase, True)
        assert counted(read_by_name(table).collect()) == of_folder(old) == counted(read_back(table)) == Counter(ROWS)
    with pytest.raises(NotReady, match=r"the files were promised until 2026-02-04T00:00:00\+00:00"):
        step(table, old, "removed", days=29)
    assert phase_of(table) == "switched"
    result = step(table, old, "removed", days=30)
    assert (result.figures["files_removed"], result.figures["files_left"]) == (2, 0)
    assert [path.name for path in old.glob("*.parquet")] == []
    assert counted(read_by_name(table).collect()) == Counter(ROWS)


def test_a_rerun_of_each_phase_commits_nothing(table, old):
    """The same call again, and that of an earlier phase: no version, no row, and no phase back."""
    for phase in ("backfilled", "both", "verified", "switched", "removed"):
        step(table, old, phase, days=30 * (phase == "removed"), grace_days=30)
        version = table.ledger.version()
        for again in ("backfilled", phase):
            result = step(table, old, again, days=31, run="another")
            assert (result.applied, result.changed, result.version, phase_of(table)) == (False, False, version, phase)
    assert counted(read_back(table)) == Counter(ROWS)


def test_one_call_takes_all_phases_and_each_gate(table, old):
    """Up to the phase that is asked for; the one before a gate that does not pass is the last."""
    assert step(table, old, "switched").findings[0].name == "both_sides_hold_the_same_rows"
    with pytest.raises(NotReady):
        step(table, old, "removed")
    assert phase_of(table) == "switched"


def test_rows_are_compared_by_content_and_not_by_number(table, old):
    """As many rows, one of them another; then a row once that was there twice: neither is verified."""
    step(table, old, "both")
    version = table.ledger.version()
    for wrong in ([*ROWS[1:], (9, "/x")], [*ROWS[1:], ROWS[2]]):
        rows = pa.table({"id": [r[0] for r in wrong], "page": [r[1] for r in wrong]}, SCHEMA)
        write_deltalake(str(table.location), rows, mode="overwrite")
        with pytest.raises(AuditFailed, match="the folder has 5 rows and the table 5, of other content") as refused:
            step(table, old, "switched")
        assert refused.value.findings[0].figures == {"rows_of_folder": 5, "rows_of_table": 5}
        assert phase_of(table) == "both"
    DeltaTable(str(table.location)).restore(version)
    assert step(table, old, "switched").applied


SCHEMA = pa.schema({"id": pa.int64(), "page": pa.string()})


def test_a_file_that_went_from_the_folder_is_named(table, old):
    """What the table took is missed on the other side."""
    step(table, old, "both")
    (old / "a.parquet").unlink()
    with pytest.raises(AuditFailed, match=r"the folder has 3 rows and the table 5; a.parquet was removed"):
        step(table, old, "verified")


# --- both sides -------------------------------------------------------------------------------------------------------


def test_writers_of_the_folder_alone_are_followed(table, old):
    """What they deliver after the backfill comes into the table by the next step, once."""
    step(table, old, "backfilled")
    deliver(old, "c.parquet", (7, "/late"))
    assert step(table, old, "verified").figures["files_taken"] == 1
    deliver(old, "d.parquet", (8, "/later"))
    assert step(table, old, "verified").figures["files_taken"] == 1
    assert counted(read_back(table)) == of_folder(old) == Counter([*ROWS, (7, "/late"), (8, "/later")])


def test_rows_are_appended_to_both_sides_once(table, old):
    """In three files; a retry of the run writes nothing, another run with equal rows does."""
    step(table, old, "both")
    new = [(n, "/new") for n in range(20)]
    assert batch(table, *new, parts=3).changed
    assert len(list(old.glob("batch-*.parquet"))) == 3
    again = batch(table, *new, parts=3)
    assert (again.applied, again.reason) == (False, "both sides hold the batch")
    assert counted(read_back(table)) == of_folder(old) == Counter([*ROWS, *new])
    batch(table, (0, "/new"), run="batch-2")
    assert counted(read_back(table)) == of_folder(old) == Counter([*ROWS, *new, (0, "/new")])


def kill(*_, **__):
    raise Killed


def test_a_death_anywhere_between_the_two_appends_is_repaired_by_the_next_run(table, old, monkeypatch):
    """Killed before each step, then run again: each row once on either side, and no phase waits for anything."""
    step(table, old, "both")
    puts = iter(range(9))

    def second(store, path, content, real=LocalStore.put):
        return kill() if "batch-" in path and next(puts) == 1 else real(store, path, content)

    model = Counter(ROWS)
    for number, (owner, name, death) in enumerate(
        (
            (_migrated_folder.Folder, "_staged", kill),  # nothing is staged
            (LocalStore, "put_if_absent", kill),  # staged, and nothing decided
            (LocalStore, "put", kill),  # decided, and no file there
            (LocalStore, "put", second),  # one of two files there
            (format_migration, "take", kill),  # in the folder
            (StagedWrite, "publish", kill),  # staged in the table
            (LocalStore, "delete_folder", kill),  # in the folder, and its stage as well
        )
    ):
        new = [(10 * number + n, "/new") for n in range(4)]
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, death)
            with pytest.raises(Killed):
                batch(table, *new, run=f"batch-{number}", parts=2)
        batch(table, *new, run=f"batch-{number}", parts=2)
        model += Counter(new)
        assert counted(read_back(table)) == of_folder(old) == model, name
    assert step(table, old, "switched").applied


def test_of_two_deaths_with_other_files_the_decided_ones_count(table, old, monkeypatch):
    """A retry that divides the rows otherwise completes the first division."""
    step(table, old, "both")
    new = [(n, "/new") for n in range(20)]
    with monkeypatch.context() as patch:
        patch.setattr(LocalStore, "put", kill)
        with pytest.raises(Killed):
            batch(table, *new, parts=3)
    batch(table, *new, parts=1)
    assert len(list(old.glob("batch-*.parquet"))) == 3
    assert counted(read_back(table)) == of_folder(old) == Counter([*ROWS, *new])


def test_a_death_at_each_commit_of_the_migration_is_resumed(table, old, monkeypatch):
    """One commit for the rows and one for each phase; the next call goes on, and nothing is there twice."""
    with monkeypatch.context() as patch:
        patch.setattr(StagedWrite, "publish", kill)
        with pytest.raises(Killed):
            step(table, old, "removed", grace_days=0)
    real, reached = format_migration.enter_phase, []
    for _ in range(5):
        done = iter([real, kill])
        with monkeypatch.context() as patch:
            patch.setattr(format_migration, "enter_phase", lambda *a, done=done, **o: next(done)(*a, **o))
            try:
                step(table, old, "removed", grace_days=0)
            except Killed:
                reached.append(phase_of(table))
    assert reached == ["backfilled", "both", "verified", "switched"]
    assert phase_of(table) == "removed"
    assert counted(read_back(table)) == Counter(ROWS)
    assert list(old.glob("*.parquet")) == []


def test_a_death_while_files_are_removed_is_resumed(table, old, monkeypatch):
    """The phase is there first, so that no one compares with half a folder; what came since stays."""
    step(table, old, "switched", grace_days=0)
    with monkeypatch.context() as patch:
        patch.setattr(LocalStore, "delete", kill)
        with pytest.raises(Killed):
            step(table, old, "removed")
    deliver(old, "stray.parquet", (7, "/late"))
    figures = step(table, old, "removed").figures
    assert (figures["files_removed"], figures["files_left"]) == (2, 1)
    assert [path.name for path in old.glob("*.parquet")] == ["stray.parquet"]


# --- readers ----------------------------------------------------------------------------------------------------------


def test_readers_go_over_by_one_name_and_back_and_lose_nothing(table, old):
    """What was written after the switch is in the folder as well; a second switch works as the first."""
    step(table, old, "switched")
    batch(table, (9, "/after"))
    assert counted(read_by_name(table).collect()) == Counter([*ROWS, (9, "/after")])
    back = step(table, old, "verified", back=True)
    assert (back.applied, back.changed, back.reason.rpartition(": ")[2]) == (True, False, "readers read the folder")
    assert counted(read_by_name(table).collect()) == of_folder(old) == Counter([*ROWS, (9, "/after")])
    assert not step(table, old, "verified", back=True).applied
    deliver(old, "c.parquet", (7, "/late"))
    step(table, old, "switched", days=3)
    assert counted(read_by_name(table).collect()) == Counter([*ROWS, (9, "/after"), (7, "/late")])


def test_duckdb_reads_the_same_rows_on_either_side(table, old):
    """The folder by a pattern of names, and the table's files by its manifest."""
    step(table, old, "switched")
    write_manifest(table)
    query = ListedFiles.at(table.store.address).duckdb_query()
    assert Counter(duckdb.sql(query).fetchall()) == of_folder(old) == Counter(ROWS)


# --- forms ------------------------------------------------------------------------------------------------------------


def test_csv_becomes_a_table_with_every_value(table, old, tmp_path):
    """NULL, an empty text, quotes, line ends and commas, also those that both sides get; other headers are refused."""
    folder = tmp_path / "csv"
    folder.mkdir()
    (folder / "a.csv").write_text('id,page\n1,/a\n1,/a\n2,\n3,""\n,"ü\'""$1\\%s\n,"\n')
    step(table, folder, "both", form="csv")
    assert counted(read_back(table)) == Counter(ROWS)
    batch(table, *ROWS)
    step(table, folder, "switched", form="csv")
    assert counted(read_by_name(table).collect()) == Counter([*ROWS, *ROWS])
    step(table, folder, "verified", form="csv", back=True)
    assert counted(read_by_name(table).collect()) == Counter([*ROWS, *ROWS])
    (folder / "b.csv").write_text("page,id\n/a,1\n")
    with pytest.raises(SchemaMismatch, match=r"b.csv must have the columns of silver/visits, id, page, not page, id"):
        step(table, folder, "switched", form="csv")


def test_folders_of_partitions_keep_their_values(spark, tmp_path):
    """Texts that look like numbers or dates, NULL, and characters that names of folders escape."""
    days = ["007", "2026-01-05", "a b", "50%", None]
    old, table = tmp_path / "old", Table(DAILY, tmp_path / "new", spark)
    frame = spark.createDataFrame([(n, "/a", day) for n, day in enumerate(days)], "id BIGINT, page STRING, day STRING")
    frame.coalesce(1).write.partitionBy("day").mode("append").parquet(str(old))
    step(table, old, "both")
    append_both(frame.limit(5), table.target(a_run(run_id="batch-1")))
    step(table, old, "verified")
    for rows in (read_back(table), read_by_name(table).collect()):
        assert Counter((row["id"], row["day"]) for row in rows) == Counter([*enumerate(days)] * 2)


def test_other_types_and_columns(spark, tmp_path):
    """Values arrive as they are; a column that a file lacks is NULL, and one that the table lacks is refused."""
    columns = {"id": "BIGINT", "at": "TIMESTAMP", "on": "DATE", "share": "DOUBLE", "price": "DECIMAL(9,2)"}
    spec = TableSpec("silver/sales", {name: Column(kind, name) for name, kind in columns.items()})
    old, table = tmp_path / "old", Table(spec, tmp_path / "new", spark)
    old.mkdir()
    moment = datetime(2026, 1, 5, 12, 0, 0, 123456, tzinfo=timezone.utc)
    rows = {"id": [1, 2], "at": [moment, None], "on": [date(2026, 1, 5), None], "share": [float("nan"), -0.0]}
    pq.write_table(pa.table(rows), old / "a.parquet")
    result = step(table, old, "switched")
    assert result.figures["rows_of_table"] == 2
    assert {row["at"] for row in rows_at(table.store)} == {moment, None}
    pq.write_table(pa.table({"id": [3], "more": [1]}), old / "b.parquet")
    with pytest.raises(SchemaMismatch, match=r"b.parquet must have the columns of silver/sales, id, .*, not more"):
        step(table, old, "switched")


def test_an_empty_folder_and_a_file_without_rows(table, tmp_path):
    """A folder without a file may be another one; no rows are as good as no rows, and a later file is taken."""
    old = tmp_path / "old"
    old.mkdir()
    with pytest.raises(NotReady, match="old has no files to migrate to silver/visits"):
        step(table, old, "both")
    pq.write_table(pa.table({"id": pa.array([], pa.int64()), "page": pa.array([], pa.string())}), old / "a.parquet")
    assert step(table, old, "verified").figures == {"files_taken": 1, "rows_of_folder": 0, "rows_of_table": 0}
    assert batch(table).changed is False
    deliver(old, "b.parquet", *ROWS)
    step(table, old, "switched")
    assert counted(read_back(table)) == Counter(ROWS)


# --- refusals ---------------------------------------------------------------------------------------------------------


def test_writers_wait_for_their_phase_and_stop_with_the_last(table, old):
    """Before both sides are open, without a migration, and after its end."""
    with pytest.raises(ConfigError, match="must be a table in migration, not one without a phase"):
        batch(table, (9, "/new"))
    step(table, old, "backfilled")
    with pytest.raises(NotReady, match="is backfilled only: enter the phase both"):
        batch(table, (9, "/new"))
    step(table, old, "removed", grace_days=0)
    with pytest.raises(ConfigError, match="must be in migration for writes to both sides, not removed"):
        batch(table, (9, "/new"))
    assert counted(read_back(table)) == Counter(ROWS)


def test_a_table_without_a_migration_is_not_read_by_name(table):
    """Nobody knows which side its readers read."""
    with pytest.raises(ConfigError, match="must be a table in migration"):
        read_by_name(table)


def test_a_table_with_rows_of_its_own_and_another_folder_are_refused(table, old, tmp_path):
    """Before anything is written."""
    write_deltalake(str(tmp_path / "own"), pa.table({"id": [1], "page": ["/own"]}, SCHEMA))
    own = Table(SPEC, tmp_path / "own", table.session)
    with pytest.raises(ConfigError, match="must be a new table, not one with rows of its own"):
        step(own, old, "backfilled")
    step(table, old, "backfilled")
    deliver(tmp_path / "other", "c.parquet", (1, "/other"))
    version = table.ledger.version()
    for options in ({"form": "csv"}, {}):
        with pytest.raises(ConfigError, match="folder and form must be those of the migration"):
            step(table, old if options else tmp_path / "other", "both", **options)
    assert table.ledger.version() == version


def test_a_file_that_changed_and_one_in_a_strange_folder_are_refused(table, old, spark, tmp_path):
    """The rows of the first would be there in two versions, those of the second have no place."""
    step(table, old, "backfilled")
    deliver(old, "a.parquet", (5, "/rewritten"), (6, "/rewritten and longer"))
    with pytest.raises(ContractError, match=r"a.parquet changed after silver/visits took it"):
        step(table, old, "both")
    daily = Table(DAILY, tmp_path / "daily", spark)
    deliver(tmp_path / "strange", "hour=1/c.parquet", (1, "/a"))
    with pytest.raises(ContractError, match=r"hour=1/c.parquet must lie in folders of day, in this order"):
        step(daily, tmp_path / "strange", "backfilled")


def test_an_audit_judges_the_rows_of_the_files(table, old):
    """Nothing of them is in the table, and no phase is entered."""
    audit = Audit.none_where("every_visit_has_an_id", "`id` IS NULL")
    with pytest.raises(AuditFailed, match="every_visit_has_an_id"):
        step(table, old, "both", audits=[audit])
    assert (read_back(table), phase_of(table)) == ([], None)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"grace_days": -1}, "grace_days must be at least 0, not -1"),
        ({"to": "switched", "back": True}, "to must be verified for readers that go back, not switched"),
        ({"to": "verified", "back": True}, "must be switched for readers to go back, not not begun"),
        ({"to": "moved"}, "to must be"),
        ({"form": "orc"}, "form must be"),
    ],
)
def test_options_that_cannot_be_are_refused(table, old, options, sentence):
    """By their name."""
    with pytest.raises(ConfigError, match=sentence):
        step(table, old, **{"to": "both", **options})


# --- in general -------------------------------------------------------------------------------------------------------


@settings(max_examples=3, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_whatever_order_writers_and_steps_come_in_both_sides_hold_what_was_delivered(spark, tmp_path_factory, data):
    """Against a plain list of the rows, with deliveries to the folder, batches to both, switches and ways back."""
    place = tmp_path_factory.mktemp("any")
    table, model = Table(SPEC, place / "new", spark), Counter([(0, "/first")])
    deliver(place / "old", "first.parquet", (0, "/first"))
    step(table, place / "old", "both")
    for number in range(data.draw(st.integers(2, 4))):
        row = (data.draw(st.integers(0, 2)), data.draw(st.sampled_from([None, "", "/a"])))
        match data.draw(st.sampled_from(["deliver", "batch", "switch", "back"])):
            case "deliver":
                deliver(place / "old", f"{number}.parquet", row)
                model[row] += 1
            case "batch":
                batch(table, row, run=f"batch-{number}")
                model[row] += 1
            case "switch":
                step(table, place / "old", "switched")
            case "back":
                step(table, place / "old", "switched")
                step(table, place / "old", "verified", back=True)
    step(table, place / "old", "verified")
    assert counted(read_back(table)) == of_folder(place / "old") == counted(read_by_name(table).collect()) == model


@known_calls
def calls_that_work(known):
    deliver(known.folder / "in-migration", "a.parquet", *ROWS)
    moved = known.table("silver/moved", "id BIGINT, page STRING")
    migrate_format(moved.target(known.run), now=NOW, folder=str(known.folder / "in-migration"), to="both")
    rows = known.frame("id BIGINT, page STRING", (9, "/z"))
    return {
        "append_both": {"rows": rows, "into": moved.target(known.run)},
        "read_by_name": {"table": moved},
    }


def opened(w, name):
    """A folder of which a run opens both sides: the place is of the copy of the world that the run is in."""
    return migrate_format(w.into("migrated", name), now=NOW, folder=str(w.root / "old"), to="both")


@two_runs()
def backfilled_at_once(world):
    world.table("migrated", "id BIGINT, page STRING").ensure()
    deliver(world.root / "old", "a.parquet", *ROWS)
    for name in "12":
        options = {"now": NOW, "to": "verified"}
        yield lambda w, name=name, options=options: migrate_format(
            w.into("migrated", name), folder=str(w.root / "old"), **options
        )


@two_runs()
def appended_to_both_sides_at_once(world):
    columns = "id BIGINT, page STRING"
    world.table("migrated", columns).ensure()
    deliver(world.root / "old", "a.parquet", (0, "/a"))

    def append(w, name, *row):
        opened(w, name)
        return append_both(w.frame(columns, row), w.into("migrated", name))

    yield lambda w: append(w, "1", 1, "/b")
    yield lambda w: append(w, "2", 2, "/c")
