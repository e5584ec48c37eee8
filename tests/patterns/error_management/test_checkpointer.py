"""Checkpointer: a stream that is interrupted anywhere ends with the rows of one that was not."""

from __future__ import annotations

import json
import shutil
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from types import SimpleNamespace

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from dedp_assets.patterns.core.errors import ConfigError, Conflict, ContractError
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import StagedWrite, Table
from dedp_assets.patterns.delta.storage import coordination
from dedp_assets.patterns.error_management import _checkpoints
from dedp_assets.patterns.error_management.checkpointer import append_checkpointed, checkpoint_rows, judge_checkpoint
from tests.contracts.known_calls import known_calls
from tests.helpers import a_run, read_back
from tests.two_runs import two_runs

WINDOWS = TableSpec(
    "gold/windows",
    {"minute": Column("BIGINT", "start", required=True), "visitors": Column("BIGINT", required=True)},
)
NUMBERS = TableSpec("silver/numbers", {"id": Column("BIGINT")})
FILES = [
    [("u1", 1), ("u2", 4), ("u1", 9), ("u3", 12)],
    [("u4", 3), ("u1", 14), ("u5", 27)],
    [("u6", 22), ("u2", 41), ("u2", 42)],
    [("u7", 75)],
]
"""Visits of each file, a micro-batch: user and minute. A window of ten minutes is open for 15 more."""
CLOSED = {0: 3, 10: 2, 20: 2, 40: 1}
"""Distinct visitors of each window that is closed in the end: the first two have visits of two micro-batches."""
START = 1_767_600_000


def stream_of(spark, source):
    """The stateful query: distinct visitors of each ten minutes."""
    visits = spark.readStream.schema("user STRING, at TIMESTAMP").option("maxFilesPerTrigger", 1).parquet(str(source))
    windows = visits.withWatermark("at", "15 minutes").groupBy(F.window("at", "10 minutes"))
    found = windows.agg(F.size(F.collect_set("user")).cast("long").alias("visitors"))
    return found.selectExpr(f"(unix_seconds(window.start) - {START}) DIV 60 AS minute", "visitors")


@contextmanager
def failing(number, when):
    """Publishing a micro-batch fails, before it is committed or after."""
    publish = StagedWrite.publish

    def fail(staged, **options):
        mine = staged.record.notes["micro_batch"]["number"] == number
        result = publish(staged, **options) if when == "after" or not mine else None
        if mine:
            raise RuntimeError("killed")
        return result

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(StagedWrite, "publish", fail)
        yield


def copied(folder, name):
    target = folder.parent / name
    shutil.copytree(folder, target)
    return target


def files_of(folder):
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.fixture(scope="module")
def world(spark, tmp_path_factory):
    """A query that runs through, and the same one that fails twice at its second micro-batch and goes on."""
    home = tmp_path_factory.mktemp("streams")
    for visits in FILES:
        at = [f"('{user}', timestamp_seconds({START} + {60 * minute}))" for user, minute in visits]
        rows = spark.sql(f"SELECT * FROM VALUES {', '.join(at)} AS t(user, at)")
        rows.coalesce(1).write.mode("append").parquet(str(home / "source"))
    through, broken = (Table(WINDOWS, home / name, spark) for name in ("through", "broken"))
    stream, asked = stream_of(spark, home / "source"), a_run(WINDOWS.name)
    whole = append_checkpointed(stream, through.target(asked), checkpoint=str(home / "of-through"))
    live = files_of(home / "of-through")
    place = home / "of-broken"
    for when in ("before", "after"):
        with failing(1, when), pytest.raises(PySparkException):
            append_checkpointed(stream, broken.target(asked), checkpoint=str(place))
    behind = copied(place, "behind")
    last = append_checkpointed(stream, broken.target(a_run(WINDOWS.name, run_id="run-2")), checkpoint=str(place))
    return SimpleNamespace(
        home=home,
        stream=stream,
        through=through,
        broken=broken,
        whole=whole,
        last=last,
        place=place,
        behind=behind,
        live=live,
        batches=batches(broken),
    )


def batches(table):
    """Numbers of the micro-batches in a table, in the order of its commits."""
    records = [commit.record for commit in table.ledger.commits() if commit.record]
    return [record.notes["micro_batch"]["number"] for record in records]


def windows(table):
    return {row["minute"]: row["visitors"] for row in read_back(table)}


def test_an_interrupted_query_ends_like_one_that_ran_through(world):
    """Killed before and after the commit of a micro-batch: no window twice, none missing, and all visitors in them."""
    assert windows(world.through) == CLOSED
    assert windows(world.broken) == CLOSED
    assert len(read_back(world.broken)) == len(CLOSED)


@pytest.mark.parametrize("locked", [True, False])
@pytest.mark.parametrize("point", ["before the rows are written", "before the commit"])
def test_a_micro_batch_of_two_processes_is_appended_once(spark, tmp_path, monkeypatch, point, locked):
    """Another process of the query appends the same micro-batch in between: the first one leaves the table alone."""
    monkeypatch.setattr(coordination, "has_lock", lambda _: locked)
    numbers = Table(NUMBERS, tmp_path / "numbers", spark)
    numbers.append(spark.range(3), provenance=a_run("numbers", sequence=1))
    table = Table(NUMBERS, tmp_path / "appended", spark)
    asked = {"checkpoint": str(tmp_path / "checkpoint")}
    append, stage, between = _checkpoints.MicroBatchWriter.__call__, Table.stage, []

    def other(*batch):
        if not between:
            between.append("appends")
            append(*batch)

    def appended(*batch):
        with pytest.MonkeyPatch.context() as patch:
            if point == "before the commit":
                patch.setattr(Table, "stage", lambda *rows, **how: (stage(*rows, **how), other(*batch))[0])
            else:
                other(*batch)
            append(*batch)

    monkeypatch.setattr(_checkpoints.MicroBatchWriter, "__call__", appended)
    with pytest.raises(Conflict, match="run it again") if point == "before the rows are written" else nullcontext():
        append_checkpointed(numbers.stream(), table.target(a_run(NUMBERS.name)), **asked)
    assert between == ["appends"]
    again = append_checkpointed(numbers.stream(), table.target(a_run(NUMBERS.name, run_id="run-2")), **asked)
    assert (again.applied, batches(table)) == (False, [0])
    assert sorted(row["id"] for row in read_back(table)) == [0, 1, 2]


def test_it_goes_on_after_the_last_commit_and_reads_nothing_again(world):
    """Each micro-batch is one commit; the run after the failure begins with the one that followed."""
    assert world.batches == list(range(world.last.figures["batch"] + 1))
    records = [c.record for c in world.broken.ledger.commits() if c.record]
    assert [r.notes["micro_batch"]["number"] for r in records if r.run_id == "run-2"] == world.batches[2:]
    assert len({tuple(r.notes["micro_batch"]["offsets"]) for r in records[:4]}) == 4


def test_the_result_names_the_last_micro_batch_and_its_offsets(world):
    """What a materialization shows."""
    assert world.whole.figures["batch"] == world.last.figures["batch"]
    assert json.loads(world.whole.figures["offsets"]) == {"logOffset": 3}
    assert (world.whole.rows.written, world.whole.changed) == (len(CLOSED), True)


def test_a_query_leaves_the_checkpoint_of_another_one_alone(world):
    """A backfill with a table and a checkpoint of its own does not move the live one."""
    assert files_of(world.home / "of-through") == world.live


def test_a_plain_sink_doubles_what_was_written_and_not_confirmed(spark, world):
    """The same failure after the write, into a sink that knows no micro-batches: a checkpoint alone is not enough."""
    place, failed = world.home / "plain", []

    def append(rows, number):
        rows.write.mode("append").parquet(str(place / "rows"))
        if number == 1 and not failed:
            failed.append(number)
            raise RuntimeError("killed")

    source = spark.readStream.schema("user STRING, at TIMESTAMP").option("maxFilesPerTrigger", 2)
    stream = source.parquet(str(world.home / "source")).writeStream.foreachBatch(append)
    stream = stream.option("checkpointLocation", str(place / "checkpoint")).trigger(availableNow=True)
    with pytest.raises(PySparkException):
        stream.start().awaitTermination()
    stream.start().awaitTermination()
    visits = sum(map(len, FILES))
    assert len(spark.read.parquet(str(place / "rows")).collect()) > visits


def verdict(table, checkpoint):
    return judge_checkpoint(table.ledger, checkpoint=str(checkpoint))


def test_a_sound_checkpoint_goes_on_confirmed_or_not(world):
    """The micro-batch of the newest commit may be confirmed or not yet."""
    assert verdict(world.broken, world.place).passed
    newest = max(int(path.name) for path in (world.place / "commits").iterdir() if path.name.isdigit())
    unconfirmed = copied(world.place, "unconfirmed")
    (unconfirmed / "commits" / str(newest)).unlink()
    assert verdict(world.broken, unconfirmed).passed
    (unconfirmed / "commits" / str(newest - 1)).unlink()
    assert "is behind" in verdict(world.broken, unconfirmed).note


def test_a_lost_checkpoint_is_no_reason_to_begin_again(world):
    """Without its folder, and without the file that says whose it is."""
    finding = verdict(world.broken, world.home / "nowhere")
    assert finding.refuses
    assert "is lost, while the table holds all up to micro-batch" in finding.note
    partly = copied(world.place, "partly")
    (partly / "metadata").unlink()
    assert "is lost" in verdict(world.broken, partly).note


def test_a_checkpoint_of_another_query_is_refused(world):
    """The same source and the same program: its positions are of another table all the same."""
    before = world.broken.ledger.version()
    with pytest.raises(ContractError, match="of-through is of another query"):
        append_checkpointed(
            world.stream, world.broken.target(a_run(WINDOWS.name)), checkpoint=str(world.home / "of-through")
        )
    assert world.broken.ledger.version() == before
    new = Table(WINDOWS, world.home / "new", world.broken.session)
    assert "is of another query" in verdict(new, world.place).note


def test_a_checkpoint_from_an_old_backup_is_refused(world):
    """It would plan other micro-batches under numbers that the table has."""
    assert "is behind: it confirmed micro-batch 0" in verdict(world.broken, world.behind).note


@pytest.mark.parametrize("content", ["", "v1\n{", 'v1\n{}\n{"logOff', "\x00\x00"])
@pytest.mark.parametrize("file", ["offsets", "commits", "metadata"])
def test_a_damaged_checkpoint_is_refused_by_file(world, tmp_path, file, content):
    """Files that were cut short or overwritten, as a full disk leaves them."""
    damaged = tmp_path / "damaged"
    shutil.copytree(world.place, damaged)
    folder = damaged / file
    newest = folder if folder.is_file() else max(folder.glob("[0-9]*"), key=lambda path: int(path.name))
    newest.write_text(content)
    assert "is damaged" in verdict(world.broken, damaged).note


def test_lost_state_is_an_error_and_a_restart_gives_the_same_rows(world):
    """Positions without the counts that belong to them; then from the first record on, into the emptied table."""
    stateless = copied(world.place, "stateless")
    shutil.rmtree(stateless / "state")
    visits = f"VALUES ('u9', timestamp_seconds({START + 60 * 130})) AS t(user, at)"
    world.broken.session.sql(f"SELECT * FROM {visits}").coalesce(1).write.mode("append").parquet(
        str(world.home / "source")
    )
    into, options = world.broken.target(a_run(WINDOWS.name, run_id="run-3")), {"checkpoint": str(stateless)}
    before = read_back(world.broken)
    with pytest.raises(ContractError, match=r"the state in .* cannot be read"):
        append_checkpointed(world.stream, into, **options)
    assert read_back(world.broken) == before
    result = append_checkpointed(world.stream, into, **options, restart=True)
    assert windows(world.broken) == {**CLOSED, 70: 1}
    assert len(read_back(world.broken)) == len(CLOSED) + 1
    assert result.figures["batch"] == len(FILES) + 1
    again = append_checkpointed(world.stream, into, **options)
    assert (again.applied, again.reason) == (False, "the stream holds nothing new")
    world.broken.restore(before_the_end(world.broken), provenance=a_run(WINDOWS.name))
    assert "is ahead" in verdict(world.broken, stateless).note


def before_the_end(table):
    return table.ledger.version() - 2


def test_what_can_never_work_is_refused(spark, world):
    """A batch, and a checkpoint that the table's vacuum would remove."""
    into = world.through.target(a_run(WINDOWS.name))
    with pytest.raises(ConfigError, match="needs a streaming DataFrame"):
        append_checkpointed(spark.range(1), into, checkpoint=str(world.home / "x"))
    with pytest.raises(ConfigError, match="whose vacuum would remove it"):
        append_checkpointed(world.stream, into, checkpoint=str(world.through.location / "x"))


def test_rows_are_kept_until_they_are_others(spark, tmp_path):
    """Computed once, read twice, the same; computed anew only if files are missing or other rows are asked for."""
    costly = spark.range(3).selectExpr("id", "uuid() AS seen")
    first = checkpoint_rows(costly, checkpoint=str(tmp_path), identity="visits@1")
    rows = sorted(first.rows.collect())
    again = checkpoint_rows(costly, checkpoint=str(tmp_path), identity="visits@1")
    assert (first.reused, again.reused) == (False, True)
    assert sorted(again.rows.collect()) == rows
    assert "uuid" not in again.rows._jdf.queryExecution().toString()
    assert not checkpoint_rows(costly, checkpoint=str(tmp_path), identity="visits@2").reused
    next(path for path in tmp_path.glob("rows-*/data/*.parquet")).write_bytes(b"cut")
    found = [checkpoint_rows(costly, checkpoint=str(tmp_path), identity=f"visits@{n}") for n in (1, 2)]
    assert sorted(kept.reused for kept in found) == [False, True]
    assert all(len(kept.rows.collect()) == 3 for kept in found)


def test_kept_rows_of_another_computation_are_refused(spark, tmp_path):
    """The same name for rows with other columns is a name that was given twice."""
    checkpoint_rows(spark.range(1), checkpoint=str(tmp_path), identity="visits@1")
    with pytest.raises(ContractError, match="holds the rows of visits@1"):
        checkpoint_rows(spark.range(1).toDF("other"), checkpoint=str(tmp_path), identity="visits@1")


# --- a table that others write, too ---------------------------------------------------------------------------------


@pytest.mark.promise("a-query-leaves-rows-alone")
def test_a_query_leaves_rows_alone_that_others_brought(spark, world, tmp_path):
    """By key: what a backfill knows better stays, an interrupted micro-batch adds nothing twice, nor does a restart."""
    table, place = Table(WINDOWS, tmp_path / "shared", spark), tmp_path / "of-shared"
    better = spark.createDataFrame([(10, 99), (900, 7)], "minute BIGINT, visitors BIGINT")
    table.overwrite(better, provenance=a_run(WINDOWS.name))
    stream = stream_of(spark, world.home / "source")
    into, options = table.target(a_run(WINDOWS.name)), {"checkpoint": str(place), "keys": ["minute"]}
    merge = Table.merge

    def killed(self, *rows, **more):
        done = merge(self, *rows, **more)
        if more["provenance"].notes["micro_batch"]["number"] == 2:
            raise RuntimeError("killed")
        return done

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Table, "merge", killed)
        with pytest.raises(PySparkException):
            append_checkpointed(stream, into, **options)
    append_checkpointed(stream, into, **options)
    assert {**dict(found(table)), 70: 1} == {**CLOSED, 10: 99, 900: 7, 70: 1}
    assert len(found(table)) == len(dict(found(table)))
    before = found(table)
    shutil.rmtree(place)
    with pytest.raises(ContractError, match="is lost"):
        append_checkpointed(stream, into, **options)
    append_checkpointed(stream, into, **options, restart=True)
    assert found(table) == before


@pytest.mark.both
def test_a_key_that_comes_twice_at_once_is_as_one_that_comes_again(spark, make_table):
    """A source that delivers at least once may do so within a micro-batch: the same row is there once, of any order."""
    rows, kept = [(1, 5), (1, 4), (1, 5), (2, 7)], []
    for number, ordered in enumerate((rows, rows[::-1])):
        table = make_table(replace(WINDOWS, name=f"gold/once_{number}"))
        batch = spark.createDataFrame(ordered, "minute BIGINT, visitors BIGINT")
        _checkpoints._inserted(batch, table, ["minute"], a_run(table.name))
        kept.append(found(table))
    assert kept[0] == kept[1]
    assert [minute for minute, _ in kept[0]] == [1, 2]


def found(table):
    return sorted((row["minute"], row["visitors"]) for row in read_back(table))


@known_calls
def calls_that_work(known):
    checkpoint = str(known.folder / "checkpoint")
    appended = known.table("silver/appended", "at TIMESTAMP, id BIGINT, user STRING")
    return {
        "append_checkpointed": {
            "stream": known.stream,
            "into": appended.target(known.run),
            "checkpoint": checkpoint,
            "keys": ["id"],
        },
        "judge_checkpoint": {"ledger": appended.ledger, "checkpoint": checkpoint},
        "checkpoint_rows": {"rows": known.visits, "checkpoint": checkpoint, "identity": "visits@7"},
    }


@two_runs(one_query=True)
def streamed_at_once(world):
    """Two queries with one checkpoint, of a table that grows between them."""
    source = world.table("numbers", "value BIGINT")
    world.table("appended", "value BIGINT")

    def write(w, name):
        number = int(name)
        w["numbers"].append(w.frame("value BIGINT", (number,)), provenance=w.run(f"more {name}", sequence=number))
        append_checkpointed(w["numbers"].stream(), w.into("appended", name), checkpoint=str(w.root / "checkpoint"))

    write(world, "1")
    assert source.ledger.exists()
    yield lambda w: write(w, "2")
    yield lambda w: write(w, "3")
