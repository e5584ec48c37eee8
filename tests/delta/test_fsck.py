"""Verification: what a log says against what is stored, and how what was lost is written again."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from dedp_assets.patterns.core.errors import ConfigError, ContractError, NotReady, TransactionReused
from dedp_assets.patterns.delta import Ledger, lost_files, verify_table
from dedp_assets.patterns.delta.commit import idempotency
from tests.helpers import a_record, a_run, active_files, files_of, read_back, write_log

DAY, NEXT_DAY = {"event_date": "2026-01-05"}, {"event_date": "2026-01-06"}


@pytest.fixture
def stored(tmp_path):
    """A table of eight commits with a folder name that has to be encoded, written without Spark."""
    for number in range(8):
        rows = pa.table({"id": [number], "place": [f"a b/{number % 2}%"]})
        write_deltalake(str(tmp_path / "t"), rows, mode="append", partition_by=["place"])
    return Ledger(tmp_path / "t", name="silver/t")


def data_file(ledger, number=0):
    return sorted(path for path in ledger.location.rglob("*.parquet") if "_delta_log" not in path.parts)[number]


def log_file(ledger, name):
    return ledger.location / "_delta_log" / (f"{name:020d}.json" if isinstance(name, int) else name)


def faults(ledger):
    return [(fault.file.removeprefix("_delta_log/"), fault.what) for fault in verify_table(ledger).faults]


def test_a_table_that_is_whole_is_sound(stored):
    """With and without a checkpoint, whatever letters its folders have."""
    found = verify_table(stored)
    assert (found.sound, found.version, found.files) == (True, 7, 8)
    DeltaTable(str(stored.location)).create_checkpoint()
    assert verify_table(stored).sound


def test_a_table_that_is_not_there_is_no_sound_table(tmp_path):
    """It is not ready."""
    with pytest.raises(NotReady, match="silver/t does not exist yet"):
        verify_table(Ledger(tmp_path, name="silver/t"))


@pytest.mark.parametrize(
    ("harm", "what"),
    [
        (lambda path: path.unlink(), "is missing"),
        (lambda path: path.write_bytes(path.read_bytes()[:-1]), r"has \d+ of \d+ bytes"),
        (lambda path: path.write_bytes(b""), r"has 0 of \d+ bytes"),
    ],
    ids=["gone", "cut off", "emptied"],
)
def test_a_data_file_that_is_not_as_the_log_says_is_lost(stored, harm, what):
    """Its path and its partition are named; the other partition has lost nothing."""
    path = data_file(stored)
    harm(path)
    (lost,) = verify_table(stored).lost
    assert stored.location / lost.path == path
    assert re.fullmatch(what, lost.what)
    (place,) = dict(lost.partition).values()
    other = {"a b/0%": "a b/1%", "a b/1%": "a b/0%"}[place]
    assert lost_files(stored.store, stored.state(), {"place": other}) == []
    assert lost_files(stored.store, stored.state(), {"place": place}) == [lost]


def test_files_that_no_version_needs_any_more_are_not_missed(stored):
    """What a later commit replaced may be gone."""
    write_deltalake(str(stored.location), pa.table({"id": [9], "place": ["x"]}), mode="overwrite")
    data_file(stored).unlink()
    assert verify_table(stored).sound


DAMAGES = {
    "torn": (b'{"commitInfo": ', "is damaged (Expecting value"),
    "text": (b"HELLO", "is damaged (Expecting value"),
    "zeros": (b"\0" * 50, "is damaged ("),
    "emptied": (b"", "is empty"),
    "no action": (b"[1]", "is damaged (a line of it is no action)"),
    "no commit": (b'{"add": {"partitionValues": {}}}', "is damaged ('path')"),
}


@pytest.mark.promise("a-damaged-commit-is-named")
@pytest.mark.parametrize("kind", DAMAGES)
@pytest.mark.parametrize(("version", "remedy"), [(3, "compute the table anew"), (7, "run again what it wrote")])
def test_a_damaged_commit_is_named_with_its_remedy(stored, kind, version, remedy):
    """By verification, and by whoever reads the log: commit, state, cursors."""
    content, what = DAMAGES[kind]
    log_file(stored, version).write_bytes(content)
    (fault,) = verify_table(stored).faults
    assert fault.file == f"_delta_log/{version:020d}.json"
    assert fault.what.startswith(what)
    assert remedy in fault.remedy or kind == "no commit"
    with pytest.raises(ContractError, match=rf"silver/t: version {version} of its log is damaged") as raised:
        list(stored.commits())
    assert f"_delta_log/{version:020d}.json" in str(raised.value)
    assert "back from a backup" in str(raised.value)


@pytest.mark.parametrize("kind", ["torn", "zeros"])
def test_a_state_that_delta_cannot_build_names_the_file(stored, kind):
    """In one sentence instead of a stack of addresses."""
    log_file(stored, 3).write_bytes(DAMAGES[kind][0])
    with pytest.raises(ContractError, match=r"silver/t: its log cannot be read; _delta_log/0+3\.json is damaged") as e:
        stored.state()
    assert "\n" not in str(e.value)


@pytest.mark.parametrize("version", range(7))
def test_a_commit_that_is_missing_is_named(stored, version):
    """A gap is damage, also at the beginning, and nobody reads past it; the newest commit leaves none."""
    log_file(stored, version).unlink()
    assert faults(stored) == [(f"{version:020d}.json", "is missing")]
    for ask in (stored.state, stored.version):
        with pytest.raises(ContractError, match=rf"_delta_log/{version:020d}\.json is missing"):
            ask()


@pytest.mark.parametrize("version", [3, 6])
@pytest.mark.parametrize(
    "ask",
    [
        lambda ledger, since: [each.version for each in ledger.commits(since=since)],
        lambda ledger, since: [each.version for each in ledger.glimpses(since=since)],
        lambda ledger, since: [each.version for each in ledger.raw_commits(since=since)],
    ],
    ids=["commits", "glimpses", "raw commits"],
)
def test_whoever_follows_a_log_is_told_of_a_gap(stored, version, ask):
    """A reader of what is new would otherwise stand still before the gap, and nothing would be wrong."""
    log_file(stored, version).unlink()
    for known in range(-1, version):
        with pytest.raises(ContractError, match=rf"_delta_log/{version:020d}\.json is missing"):
            ask(stored, known)


@pytest.mark.parametrize("ask", [verify_table, Ledger.exists, Ledger.state, Ledger.version])
def test_a_file_in_the_place_of_a_table_is_no_missing_table(tmp_path, ask):
    """Whatever asks says so: a write would fail, and a table that is not there would be asked for again and again."""
    (tmp_path / "t").write_text("")
    with pytest.raises(ConfigError, match=r"silver/t: .*/t is a file, and a table is a folder"):
        ask(Ledger(tmp_path / "t", name="silver/t"))


def test_what_a_checkpoint_holds_may_be_missing_from_the_commits(stored):
    """Cleaning up the log is no damage; a damaged commit before it costs history and no rows."""
    DeltaTable(str(stored.location)).create_checkpoint()
    for version in range(4):
        log_file(stored, version).unlink()
    assert verify_table(stored).sound
    log_file(stored, 5).write_text("HELLO")
    (fault,) = verify_table(stored).faults
    assert "a later checkpoint holds them" in fault.remedy


def test_a_checkpoint_that_cannot_be_read_is_named_and_its_remedy_works(stored):
    """The commits hold everything: moved away, the table is what it was."""
    rows = DeltaTable(str(stored.location)).to_pyarrow_table().num_rows
    DeltaTable(str(stored.location)).create_checkpoint()
    path = log_file(stored, f"{7:020d}.checkpoint.parquet")
    path.write_bytes(path.read_bytes()[:-40])
    found = {fault.file.removeprefix("_delta_log/"): fault for fault in verify_table(stored).faults}
    assert found[path.name].what.startswith("cannot be read")
    for ask in (stored.state, stored.transactions):
        with pytest.raises(ContractError, match=r"silver/t: its log cannot be read; _delta_log/0+7\.checkpoint"):
            ask()
    assert found[path.name].remedy.startswith(f"mv _delta_log/{path.name} ")
    path.rename(f"{path}.damaged")
    log_file(stored, "_last_checkpoint").unlink()
    assert verify_table(stored).sound
    assert DeltaTable(str(stored.location)).to_pyarrow_table().num_rows == rows


@pytest.mark.parametrize("content", ["{", '{"version": 99}', "7", '{"version": 7, "parts": 3}'])
def test_a_hint_that_leads_nowhere_is_named(stored, content):
    """Damaged, to no checkpoint, or to parts that are not there."""
    DeltaTable(str(stored.location)).create_checkpoint()
    log_file(stored, "_last_checkpoint").write_text(content)
    assert [name for name, _ in faults(stored)] == ["_last_checkpoint"]


def test_deltas_own_checksum_of_a_version_is_held_against_the_log(stored):
    """Files and bytes that a version has according to it, newest first; one that is no checksum is passed over."""
    files = pa.table(DeltaTable(str(stored.location)).get_add_actions()).to_pylist()
    stated = {"numFiles": 8, "tableSizeBytes": sum(file["size_bytes"] for file in files)}
    log_file(stored, f"{7:020d}.crc").write_text(json.dumps(stated))
    log_file(stored, f"{8:020d}.crc").write_text("?")
    assert verify_table(stored).sound
    log_file(stored, f"{7:020d}.crc").write_text(json.dumps({**stated, "numFiles": 9}))
    ((name, what),) = faults(stored)
    assert (name, "states 9 files" in what, "the log holds 8" in what) == (f"{7:020d}.crc", True, True)


def test_what_spark_writes_is_sound_and_a_changed_byte_is_noticed(spark, tmp_path):
    """The checksums that Hadoop keeps beside a log: a change that leaves valid JSON is damage, too."""
    spark.sql(f"CREATE TABLE delta.`{tmp_path}/t` (amount INT COMMENT 'in euros') USING DELTA")
    ledger = Ledger(tmp_path / "t")
    assert verify_table(ledger).sound
    path = log_file(ledger, 0)
    assert path.with_name(f".{path.name}.crc").exists()
    path.write_bytes(path.read_bytes().replace(b"euros", b"cents"))
    ((name, what),) = faults(ledger)
    assert (name, "is not what was written" in what) == (path.name, True)


def decide(ledger, record, **options):
    return idempotency.decide(ledger, ledger.state(), record, **options)


@pytest.fixture
def written(tmp_path):
    """A table whose day was written by code 1 from version 7 of its upstream, and its record."""
    made = a_record("silver/t", DAY, inputs={"bronze": 7}, sequence=7)
    log = {"changed": [DAY], "record": made, "txn": {f"silver/t/event_date={DAY['event_date']}/0": 7}}
    write_log(tmp_path, {"id": "long", "event_date": "date"}, ["event_date"], [log])
    return Ledger(tmp_path, name="silver/t"), made


def test_a_write_whose_files_are_lost_is_not_done_already(written):
    """The same rows become a repair under a transaction of their own."""
    ledger, record = written
    assert decide(ledger, record).applied
    again = decide(ledger, record, lost=True)
    assert (again.applied, again.same_rows, again.repair) == (None, False, True)


@pytest.mark.parametrize("lost", [False, True])
def test_other_rows_from_the_same_inputs_are_published_only_on_request(written, lost):
    """A retry that comes back with other data is refused, lost files or not; a person's replay is new rows."""
    ledger, record = written
    other = replace(record, fingerprint="2 rows 9")
    with pytest.raises(TransactionReused, match="ask for a replay"):
        decide(ledger, other, lost=lost)
    replayed = decide(ledger, replace(other, replay=True), lost=lost)
    assert (replayed.applied, replayed.same_rows, replayed.repair) == (None, False, False)
    assert decide(ledger, replace(record, replay=True)).applied


@pytest.fixture
def loaded(created_events, event_rows):
    """``loaded()``: two days; called again, the same write of the first one."""

    def again(count=3, **fields):
        return created_events.overwrite(
            event_rows(count), partition=DAY, provenance=a_run(inputs={"bronze": 7}, sequence=7, **fields)
        )

    again()
    created_events.overwrite(
        event_rows(2, day=NEXT_DAY["event_date"]), partition=NEXT_DAY, provenance=a_run(sequence=8)
    )
    return created_events, again


@pytest.mark.promise("lost-rows-are-written-again")
def test_lost_rows_are_written_again_and_nobody_downstream_notices(loaded, event_rows):
    """The same write restores the file; the other day keeps its own, and no row counts as changed."""
    table, again = loaded
    before, version = read_back(table), table.ledger.version()
    (lost, *_) = lost_paths = [table.location / path for path in files_of(table, **DAY)]
    lost.unlink()
    with pytest.raises(ContractError, match=r"silver/events lacks 1 of its data files \(.*is missing\)"):
        table.read(DAY, version=version)
    result = again()
    assert (result.applied, result.changed) == (True, False)
    assert result.reason == "3 rows written again, because files that held them were lost"
    assert read_back(table) == before
    assert verify_table(table.ledger).sound
    assert table.ledger.changes(since=version)[1] == {}
    assert {table.location / f for f in active_files(table)} & {*lost_paths} == set()
    assert table.read(DAY, version=version).count() == 3
    assert again().applied is False


def test_a_replay_publishes_what_came_back_and_a_plain_retry_after_it_is_refused(loaded):
    """A person's decision is in the ledger; the rows that were there before do not come back by chance."""
    table, again = loaded
    with pytest.raises(TransactionReused):
        again(4)
    result = again(4, replay=True)
    assert (result.changed, len(read_back(table))) == (True, 6)
    assert table.ledger.latest(DAY).record.replay
    assert again(4).applied is False
    with pytest.raises(TransactionReused):
        again(3)
