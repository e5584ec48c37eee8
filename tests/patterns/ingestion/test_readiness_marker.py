"""The marker protocol over real files: who is offered, who is held back, and what a late file does."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

import pytest

from dedp_assets.patterns.connectors.landing.deliveries import MARKER, DeliveredFile, Delivery, delivery_at
from dedp_assets.patterns.core.errors import ConfigError, ContractError, NotReady
from dedp_assets.patterns.ingestion.readiness_marker import delivering, plan_ready
from tests.contracts.known_calls import known_calls
from tests.helpers import NOW

DAY, NEXT = "2026-01-05", "2026-01-06"
HOUR_AGO = NOW - timedelta(hours=1)
MUCH_LATER = NOW + timedelta(days=36500)


@pytest.fixture
def write(tmp_path):
    """Write one file of a partition, as it was at a given time."""

    def written(day, name, text="{}\n", *, at=HOUR_AGO):
        path = tmp_path / day / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        os.utime(path, (at.timestamp(), at.timestamp()))
        return path

    return written


@pytest.fixture
def plan(tmp_path):
    """What a consumer is offered from the partitions that lie there now."""

    def planned(consumed=(), *, now=NOW, **options):
        lying = [delivery_at(folder) for folder in tmp_path.iterdir()]
        return plan_ready(lying, consumed=dict(consumed), now=now, **options)

    return planned


@pytest.fixture
def marked(write):
    """A day of one file and, a minute later, its marker."""

    def complete(day):
        write(day, "part-0.jsonl")
        return write(day, MARKER, "", at=HOUR_AGO + timedelta(minutes=1)).parent

    return complete


def test_data_without_a_marker_is_held_back(plan, write):
    """However old the files are, nobody reads them before the producer said it has finished."""
    write(DAY, "part-0.jsonl", at=NOW - timedelta(days=30))
    write(DAY, "part-1.jsonl", at=NOW - timedelta(days=30))
    offered = plan()
    assert offered.partitions == ()
    assert offered.held == {DAY: "2 files but no _SUCCESS: the producer has not finished"}
    assert offered.reason == "0 ready, 1 held back"


def test_a_marker_offers_its_partition_until_it_is_consumed(plan, marked):
    """The same delivery keeps the same identity at every look, and once that was read there is nothing to do."""
    folder = marked(DAY)
    first, again = plan(), plan()
    assert first == again
    assert first.causes == {DAY: "landing"}
    assert first.cursor == {DAY: delivery_at(folder).identity}
    consumed = plan(first.cursor)
    assert (consumed.partitions, consumed.held) == ((), {})
    assert consumed.reason == "nothing new has landed"


def test_partitions_are_offered_oldest_first(plan, marked):
    """The order in which folders are listed does not matter."""
    for day in ("2026-01-07", DAY, NEXT):
        marked(day)
    assert plan().partitions == (DAY, NEXT, "2026-01-07")


def test_one_unfinished_partition_holds_up_no_other(plan, write, marked):
    """Each partition is judged by itself."""
    marked(NEXT)
    write(DAY, "part-0.jsonl")
    offered = plan()
    assert offered.partitions == (NEXT,)
    assert list(offered.held) == [DAY]


def test_the_marker_is_the_newest_file_and_names_all_others(tmp_path):
    """After a delivery the marker's manifest lists every data file with its size, and nothing else is left behind."""
    with delivering(tmp_path / DAY) as folder:
        (folder / "part-0.jsonl").write_text("{}\n")
        (folder / "part-1.jsonl").write_text('{"id": 1}\n')
    delivery = delivery_at(folder)
    assert delivery.manifest == {"part-0.jsonl": 3, "part-1.jsonl": 10}
    assert delivery.marker.modified_ns >= max(file.modified_ns for file in delivery.files)
    assert delivery.late == ()
    assert {path.name for path in folder.iterdir()} == {MARKER, "part-0.jsonl", "part-1.jsonl"}


@pytest.mark.parametrize("delivered_before", [False, True])
def test_a_failed_delivery_leaves_no_marker(plan, tmp_path, delivered_before):
    """Half a delivery is never offered, not even under the marker of an earlier one; the rerun is, once."""
    if delivered_before:
        with delivering(tmp_path / DAY) as folder:
            (folder / "part-0.jsonl").write_text("old\n")
    with pytest.raises(OSError, match="disk full"), delivering(tmp_path / DAY) as folder:  # noqa: PT012 - the block is it
        (folder / "part-0.jsonl").write_text("ha")
        raise OSError("disk full")
    assert plan().partitions == ()
    assert {path.name for path in folder.iterdir()} == {"part-0.jsonl"}
    with delivering(folder):
        (folder / "part-0.jsonl").write_text("whole\n")
        (folder / "part-1.jsonl").write_text("whole\n")
    assert plan().partitions == (DAY,)
    assert delivery_at(folder).manifest == {"part-0.jsonl": 6, "part-1.jsonl": 6}


def test_a_producer_that_dies_while_it_writes_the_marker_leaves_none(plan, tmp_path, monkeypatch):
    """The marker is there whole or not at all; the rerun leaves one set of files, one marker, and nothing else."""
    with monkeypatch.context() as patched:
        patched.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError("killed")))
        with pytest.raises(OSError, match="killed"), delivering(tmp_path / DAY) as folder:
            (folder / "part-0.jsonl").write_text("whole\n")
    assert plan(now=MUCH_LATER).partitions == ()
    with delivering(folder):
        (folder / "part-0.jsonl").write_text("whole\n")
    assert plan().partitions == (DAY,)
    assert {path.name for path in folder.iterdir()} == {MARKER, "part-0.jsonl"}


def test_a_consumer_that_polls_throughout_a_rerun_never_starts_on_half_of_it(plan, tmp_path):
    """The old marker goes first and the new one comes last, so no waiting lets half a day in."""
    with delivering(tmp_path / DAY) as folder:
        (folder / "part-0.jsonl").write_text("old\n")
    known = plan().cursor
    offered = []
    with delivering(folder):
        offered.append(plan(known, now=MUCH_LATER).partitions)
        for name in ("part-0.jsonl", "part-1.jsonl"):
            (folder / name).write_text('{"half": ')
            offered.append(plan(known, now=MUCH_LATER).partitions)
            (folder / name).write_text('{"whole": 1}\n')
            offered.append(plan(known, now=MUCH_LATER).partitions)
    assert set(offered) == {()}
    assert plan(known).causes == {DAY: "redelivery"}


def test_the_same_bytes_delivered_again_are_a_new_delivery(plan, marked, write):
    """The identity goes by name, size and time, so that a look never opens a data file."""
    folder = marked(DAY)
    known = plan().cursor
    write(DAY, "part-0.jsonl", at=HOUR_AGO + timedelta(seconds=30))
    assert plan(known).causes == {DAY: "redelivery"}
    assert plan({DAY: delivery_at(folder).identity}).partitions == ()


@pytest.mark.parametrize(
    ("files", "stated", "words"),
    [
        ({}, {"part-0.jsonl": 3}, "part-0.jsonl is in the manifest but not in the folder"),
        ({"part-0.jsonl": "{"}, {"part-0.jsonl": 3}, "part-0.jsonl has 1 of the 3 bytes its manifest states"),
        ({}, None, "is there but no file: deliver the files, or declare the day empty by a manifest"),
        ({"sub/part-0.jsonl": "{}\n"}, None, "holds what is no file: sub (a folder)"),
    ],
)
def test_a_marker_that_contradicts_the_files_is_not_believed(plan, write, tmp_path, files, stated, words):
    """A marker that came before its data, or lies about it, holds the partition back and says why."""
    for name, text in files.items():
        write(DAY, name, text)
    write(DAY, MARKER, "" if stated is None else str({"files": stated}).replace("'", '"'))
    offered = plan()
    assert offered.partitions == ()
    assert words in offered.held[DAY]
    with pytest.raises(ContractError, match=words.split(":")[0]):
        delivery_at(tmp_path / DAY).require_ready()


def test_a_reader_that_asks_first_is_refused_without_a_marker(tmp_path, write, marked):
    """An asset that looks by itself gets a retryable refusal before the marker and the delivery after it."""
    write(DAY, "part-0.jsonl")
    for day, said in ((DAY, "the producer has not finished"), ("2026-01-31", "nothing has landed")):
        with pytest.raises(NotReady, match=said):
            delivery_at(tmp_path / day).require_ready()
    marked(DAY)
    assert [file.name for file in delivery_at(tmp_path / DAY).require_ready().files] == ["part-0.jsonl"]


def test_a_day_that_is_declared_empty_is_ready(plan, tmp_path):
    """No data is a delivery too if the manifest says so."""
    with delivering(tmp_path / DAY):
        pass
    assert plan().partitions == (DAY,)
    assert delivery_at(tmp_path / DAY).require_ready().files == ()


def test_a_marker_written_before_its_data_waits_until_the_data_is_left_alone(plan, write):
    """An empty marker promises nothing about files that come later, so those must at least have settled."""
    write(DAY, MARKER, "")
    write(DAY, "part-0.jsonl", at=NOW - timedelta(seconds=1))
    assert "may still be growing" in plan().held[DAY]
    assert plan(now=NOW + timedelta(seconds=60)).partitions == (DAY,)


def test_a_marker_at_the_root_marks_no_partition_below_it(write, tmp_path):
    """Spark writes `_SUCCESS` once for a whole partitioned output: no partition of it counts as marked."""
    write("visits/event_date=2026-01-05", "part-0.parquet")
    write("visits", MARKER, "")
    root = tmp_path / "visits"
    assert delivery_at(root).refusal() == "holds what is no file: event_date=2026-01-05 (a folder)"
    assert "no _SUCCESS" in delivery_at(root / "event_date=2026-01-05").refusal()


@pytest.mark.parametrize(("name", "looks"), [("part-0.jsonl", 1), (MARKER, 2)])
def test_a_look_survives_a_producer_that_starts_again(marked, monkeypatch, name, looks):
    """A file that goes away while a consumer looks is no error of the consumer."""
    folder, stat, seen = marked(DAY), Path.stat, []

    def vanishing(path, **options):
        found = stat(path, **options)
        if path.name == name:
            seen.append(path)
            if len(seen) == looks:
                path.unlink()
        return found

    monkeypatch.setattr(Path, "stat", vanishing)
    assert delivery_at(folder).partition == DAY


def test_hidden_files_are_no_data(plan, marked, write):
    """Checksums, drafts and other markers neither make nor change a delivery."""
    marked(DAY)
    known = plan().cursor
    for name in (".part-0.jsonl.crc", "_committed_1", f".{MARKER}.draft"):
        write(DAY, name, "x", at=NOW)
    assert plan(known).reason == "nothing new has landed"


def test_by_the_next_partition_convention_the_newest_is_never_offered(plan, write):
    """Hour 10 is offered once hour 11 exists, without any marker, and hour 11 waits for its own successor."""
    write("2026-01-05T10", "part-0.jsonl")
    alone = plan(convention="next_partition")
    assert alone.partitions == ()
    assert alone.held == {"2026-01-05T10": "the next partition does not exist yet"}
    write("2026-01-05T11", "part-0.jsonl")
    followed = plan(convention="next_partition")
    assert followed.partitions == ("2026-01-05T10",)
    assert list(followed.held) == ["2026-01-05T11"]
    assert plan(followed.cursor, convention="next_partition").partitions == ()


def test_a_late_file_brings_back_exactly_its_partition(plan, marked, write):
    """The closed day is offered again under its own cause; its neighbours are left alone."""
    marked(DAY)
    marked(NEXT)
    known = plan().cursor
    write(DAY, "late.jsonl", at=NOW - timedelta(minutes=5))
    offered = plan(known)
    assert offered.causes == {DAY: "late-file"}
    assert offered.cursor[DAY] != known[DAY]
    assert plan({**known, **offered.cursor}).partitions == ()


def test_a_closed_partition_stays_closed_and_says_what_came_too_late(plan, marked, write):
    """With `report` a late file is named at every look and never read, however long it has lain there."""
    marked(DAY)
    known = plan().cursor
    write(DAY, "late.jsonl", at=NOW - timedelta(minutes=5))
    for now in (NOW, NOW + timedelta(days=7)):
        offered = plan(known, now=now, late_files="report")
        assert offered.partitions == ()
        assert offered.held == {DAY: "closed: late.jsonl came after _SUCCESS and will not be read"}


@pytest.mark.parametrize(("age", "offered"), [(0, ()), (9, ()), (10, (DAY,)), (600, (DAY,))])
def test_a_late_file_is_left_alone_while_it_may_grow(plan, marked, write, age, offered):
    """It has no marker of its own, so it is read only after nobody touched it for a while."""
    marked(DAY)
    known = plan().cursor
    write(DAY, "late.jsonl", at=NOW - timedelta(seconds=age))
    assert plan(known, settle_seconds=10).partitions == offered


def test_a_delivered_file_that_shrank_is_no_late_file(plan, tmp_path):
    """A file cut short after the marker contradicts the manifest: the partition is held, not read again."""
    with delivering(tmp_path / DAY) as folder:
        (folder / "part-0.jsonl").write_text('{"id": 1}\n')
    known = plan().cursor
    os.truncate(folder / "part-0.jsonl", 4)
    assert "has 4 of the 10 bytes" in plan(known).held[DAY]


@pytest.mark.parametrize("options", [{"convention": "guess"}, {"late_files": "ignore"}])
def test_unknown_conventions_are_refused(plan, options):
    """A misspelt rule is an error of the call and not the default."""
    with pytest.raises(ConfigError, match=r"must be (marker or next_partition|integrate or report)"):
        plan(**options)


@known_calls
def calls_that_work(known):
    delivered = Delivery("mon", (DeliveredFile("a.jsonl", 10, 1),), marker=DeliveredFile("_SUCCESS", 0, 2))
    return {
        "delivering": {"folder": known.folder / "landing"},
        "plan_ready": {"deliveries": [delivered], "consumed": {"sun": "x"}, "now": NOW},
    }
