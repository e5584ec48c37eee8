"""The ledger: what the log says, without a JVM."""

from __future__ import annotations

import json
import pickle
import shutil
import tempfile
from datetime import date
from pathlib import Path

import pytest
from deltalake import DeltaTable
from hypothesis import given, settings
from hypothesis import strategies as st

from dedp_assets.patterns.core.errors import Conflict, ContractError, NotReady
from dedp_assets.patterns.delta import FileStats, Ledger, Table, TableState, transaction_id
from dedp_assets.patterns.delta.log import table_states
from dedp_assets.patterns.delta.log.transactions import generation_id
from tests.helpers import EVENTS, a_record, a_run, write_log

NAME = "silver/events"
COLUMNS = {"id": "long", "event_date": "date"}
DAYS = ["2026-01-05", "2026-01-06", None]


def of(day):
    return {"event_date": day}


def key(day):
    return (("event_date", day),)


def about(day, **fields):
    return a_record(NAME, of(day), **fields)


@pytest.fixture
def events(tmp_path):
    """``events({...}, ...)``: the ledger of a table with these commits, from version 1 on."""

    def written(*commits):
        write_log(tmp_path / "events", COLUMNS, ["event_date"], list(commits))
        return Ledger(tmp_path / "events", name=NAME)

    return written


def write_raw(ledger, version, *lines):
    text = "".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines)
    (ledger.location / "_delta_log" / f"{version:020d}.json").write_text(text)


def write_checkpoint(ledger, version):
    DeltaTable(str(ledger.location), version=version).create_checkpoint()


def clean_up(ledger, version):
    """What Delta does after its retention: a checkpoint stays, commits before it go."""
    write_checkpoint(ledger, version)
    for old in range(version):
        (ledger.location / "_delta_log" / f"{old:020d}.json").unlink()


def test_a_table_that_is_not_there_is_not_ready(tmp_path):
    """Readers are told to come again; questions that have an answer without a table get it."""
    ledger = Ledger(tmp_path / "events", name=NAME)
    assert not ledger.exists()
    for ask in (ledger.version, ledger.state, lambda: ledger.commit(0)):
        with pytest.raises(NotReady, match=NAME):
            ask()
    assert (list(ledger.commits()), ledger.latest(of("2026-01-05")), ledger.transaction("x")) == ([], None, None)
    assert ledger.changes() == (-1, {})


def test_commits_tell_what_they_did(events):
    """Version, record, changed partitions, files and rows of each commit, oldest first or newest first."""
    record = about("2026-01-05", run_id="run-7")
    ledger = events({"changed": [of("2026-01-05"), of(None)], "record": record}, {"changed": [of("2026-01-06")]})
    _, first, second = ledger.commits()
    assert (first.version, first.record, first.operation) == (1, record, "WRITE")
    assert first.changed == {key("2026-01-05"), key(None)}
    assert (len(first.files_added), first.rows_added) == (2, 2)
    assert second.record is None
    assert [c.version for c in ledger.commits(since=1)] == [2]
    assert [c.version for c in ledger.newest_first()] == [2, 1, 0]
    assert (ledger.version(), ledger.exists()) == (2, True)
    with pytest.raises(NotReady, match="silver/events has no version 3 in its log"):
        ledger.commit(3)


def test_the_state_is_pinned_to_its_version(events):
    """An older version answers as it was then."""
    ledger = events({"changed": [of("2026-01-05")], "txn": {"app": 7}}, {"changed": [of(None)], "txn": {"app": 8}})
    assert [ledger.state(v).transaction("app") for v in (0, 1, 2)] == [None, 7, 8]
    assert ledger.state(1).holds(of("2026-01-05"))
    assert not ledger.state(1).holds(of(None))
    assert ledger.state(1).holds({"EVENT_DATE": date(2026, 1, 5)})
    assert ledger.state(2).holds({"Event_Date": None})
    assert not ledger.state(2).holds({"EVENT_DATE": date(2026, 1, 6)})
    assert ledger.state().partition_columns == ("event_date",)
    assert {name: field["type"] for name, field in ledger.state().columns.items()} == COLUMNS


@pytest.mark.parametrize("version", [3, 10**9, -1])
def test_a_version_that_is_not_there_is_refused(events, version):
    """Before delta-rs looks for it without an end."""
    ledger = events({"changed": [of(DAYS[0])]}, {"changed": [of(DAYS[1])]})
    with pytest.raises(NotReady, match=f"silver/events has no version {version}: its newest is 2"):
        ledger.state(version)


def test_a_version_is_read_once_and_the_same_number_in_another_log_is_another_version(events, tmp_path):
    """What is read again is the log of a table that was begun again in the same folder."""
    ledger = events({"changed": [of("2026-01-05")]})
    first = ledger.state()
    assert ledger.state() is ledger.state(1) is first
    unread = Ledger(ledger.store).state()
    before = first.statistics()
    shutil.rmtree(tmp_path / "events")
    again = events({"changed": [of("2026-01-06")]})
    assert ledger.state().statistics() == again.state().statistics() != before
    with pytest.raises(Conflict, match="begun again"):
        unread.files()


def test_a_ledger_that_was_used_goes_along_to_another_process(events):
    """As with a stream's batch function over Spark Connect: the copy reads for itself."""
    ledger = events({"changed": [of(day) for day in DAYS]})
    statistics = ledger.state().statistics()
    copy = pickle.loads(pickle.dumps(ledger))  # noqa: S301 - the bytes of a moment ago
    assert (copy.name, copy.state().statistics()) == (NAME, statistics)


def test_statistics_are_by_partition(events):
    """Files, rows and bytes of each active partition, NULL being a partition of its own."""
    ledger = events({"changed": [of("2026-01-05"), of("2026-01-05"), of(None)]})
    assert ledger.state().statistics() == {key("2026-01-05"): FileStats(2, 2, 200), key(None): FileStats(1, 1, 100)}


def test_cursors_are_kept_by_table_partition_and_generation(events):
    """A restore raises the generation, and what was applied in an earlier one does not count any more."""
    day = of("2026-01-05")
    ledger = events({"txn": {transaction_id(NAME, day, 0): 41}})
    assert ledger.state().applied(NAME, day) == 41
    assert ledger.state().applied(NAME, of("2026-01-06")) is None
    events({"txn": {generation_id(NAME): 1}})
    assert (ledger.state().generation(NAME), ledger.state().applied(NAME, day)) == (1, None)


def test_the_latest_commit_of_a_partition_changed_it_or_was_about_it(events):
    """A rewrite of the same rows is the latest word on a partition, but not the latest change of it."""
    ledger = events(
        {"changed": [of("2026-01-05")], "record": about("2026-01-05")},
        {"record": about("2026-01-05", code_version="2")},
        {"changed": [of("2026-01-06")], "record": about("2026-01-06")},
    )
    assert ledger.latest(of("2026-01-05")).version == 2
    assert ledger.changed(of("2026-01-05")).version == 1
    assert ledger.latest(of("2026-01-05"), until=1).version == 1
    assert ledger.latest(of("2026-01-05"), of("2026-01-06")).version == 3
    assert ledger.latest(of("2026-01-07")) is None


def test_a_foreign_commit_is_the_latest_without_a_record(events):
    """Somebody else changed the rows, so no gate may take them for audited ones."""
    ledger = events({"changed": [of("2026-01-05")], "record": about("2026-01-05")}, {"changed": [of("2026-01-05")]})
    assert (ledger.latest(of("2026-01-05")).version, ledger.latest(of("2026-01-05")).record) == (2, None)


def test_null_is_a_partition_like_any_other(events):
    """Rows without a date have their own history."""
    ledger = events({"changed": [of(None)]}, {"changed": [of("2026-01-05")]})
    assert ledger.latest(of(None)).version == 1
    assert ledger.changed(of("2026-01-05")).version == 2


@pytest.mark.parametrize("value", ['5" pipe', "back\\slash", "line\nfeed", "caf\u00e9"])
def test_values_that_json_escapes_are_found(events, value):
    """A partition's history does not depend on the letters of its name."""
    ledger = events({"changed": [of(value)], "record": about(value)})
    assert ledger.latest(of(value)).version == 1


def test_a_wider_partition_sees_the_changes_of_the_finer_ones(tmp_path):
    """Asked by one of two partition columns, every partition below it counts."""
    below = {"landed_on": "2026-01-06", "event_date": "2026-01-05"}
    write_log(tmp_path, {**COLUMNS, "landed_on": "date"}, ["landed_on", "event_date"], [{"changed": [below]}])
    assert Ledger(tmp_path).changed({"landed_on": "2026-01-06"}).version == 1
    assert Ledger(tmp_path).changed({"landed_on": "2026-01-05"}) is None


def test_compaction_changes_nothing_and_a_foreign_write_does(events):
    """Rewritten files with the same rows wake nobody; rows that somebody else wrote do."""
    ledger = events({"changed": [of("2026-01-05")], "data_change": False}, {"changed": [of("2026-01-06")]})
    assert ledger.changes(since=0) == (2, {key("2026-01-06"): 2})


def test_removed_files_change_their_partition(events):
    """Rows that are gone are a change as well."""
    ledger = events({"changed": [of("2026-01-05")]})
    gone = {
        "path": "v1/part-0.parquet",
        "deletionTimestamp": 1,
        "dataChange": True,
        "partitionValues": of("2026-01-05"),
    }
    write_raw(ledger, 2, {"commitInfo": {}}, {"remove": gone})
    assert ledger.changes(since=1) == (2, {key("2026-01-05"): 2})


histories = st.lists(
    st.builds(
        dict,
        changed=st.lists(st.sampled_from(DAYS), max_size=3).map(lambda days: [of(d) for d in days]),
        data_change=st.booleans(),
    ),
    max_size=6,
)


@pytest.mark.promise("changes-are-what-looking-at")
@settings(max_examples=settings.default.max_examples * 2 // 5, deadline=None)
@given(histories, st.data())
def test_changes_are_what_looking_at_every_commit_finds(history, data):
    """From whatever version on, and the same whether it is asked once or step by step."""
    changing = {v: commit["changed"] for v, commit in enumerate(history, start=1) if commit["data_change"]}
    since = data.draw(st.integers(-1, len(history)))
    with tempfile.TemporaryDirectory() as folder:
        ledger, steps, cursor = Ledger(folder), {}, since
        write_log(Path(folder), COLUMNS, ["event_date"], [])
        for version, commit in enumerate(history, start=1):
            write_log(Path(folder), COLUMNS, ["event_date"], [commit])
            if version >= since and data.draw(st.booleans()):
                cursor, found = ledger.changes(since=cursor)
                steps |= found
        cursor, found = ledger.changes(since=cursor)
        head, at_once = ledger.changes(since=since)
    expected = {
        key(v["event_date"]): version for version, values in changing.items() for v in values if version > since
    }
    assert at_once == {**steps, **found} == expected
    assert head == cursor == len(history)


places = st.fixed_dictionaries(
    {"event_date": st.sampled_from([*DAYS, "2026-1-7", ""]), "site": st.sampled_from(["a", "b=c/d", "%2F", None])}
)
written = st.fixed_dictionaries(
    {
        "changed": st.lists(places, max_size=3),
        "data_change": st.booleans(),
        "txn": st.dictionaries(st.sampled_from("abc"), st.integers(0, 9), max_size=2),
        "operation": st.sampled_from(["WRITE", "MERGE", "RESTORE", "OPTIMIZE"]),
        "parameters": st.sampled_from([{}, {"version": "3"}, {"version": None}]),
        "record": st.sampled_from([None, about("2026-01-05", notes={"delivery": "d"})]),
    }
)


@settings(max_examples=settings.default.max_examples * 3 // 5, deadline=None)
@given(st.lists(written, max_size=5), st.sampled_from([["event_date"], ["site", "event_date"], []]), st.booleans())
def test_a_glimpse_says_of_a_commit_what_the_whole_of_it_says(history, partition_by, records):
    """Partitions of one column, of two and of none, any values, foreign spellings; restores, and what records state."""
    commits = [
        {**commit, "changed": [{c: values[c] for c in partition_by} for values in commit["changed"]]}
        for commit in history
    ]
    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger(folder)
        write_log(Path(folder), {"id": "long", "event_date": "date", "site": "string"}, partition_by, commits)
        found, whole = list(ledger.glimpses(records=records)), list(ledger.commits())
    assert [(g.version, g.changed, g.transactions) for g in found] == [
        (c.version, c.changed, c.transactions) for c in whole
    ]
    named = [
        {tuple(sorted((c, values[c] or None) for c in values)) for values in commit["changed"]}
        for commit in commits
        if commit["data_change"]
    ]
    assert [set(g.changed) for g in found if g.changed] == [partitions for partitions in named if partitions]
    restores = [c.operation == "RESTORE" for c in whole]
    back = [3 if c.operation == "RESTORE" and c.parameters.get("version") == "3" else None for c in whole]
    assert ([g.restores for g in found], [g.restored_to for g in found]) == (restores, back)
    stated = [c.record.notes if records and c.record else None for c in whole]
    assert [g.stated.get("notes") for g in found] == stated


@pytest.mark.parametrize("damage", ["", " \n\n", "{", "[]", '{"add": 1}', '{"add": {}}', "{} {}", '{"txn": {}}'])
def test_a_glimpse_at_a_damaged_commit_names_the_file(events, damage):
    """Emptied, cut off, and whatever is no action: nothing is passed over."""
    ledger = events({"changed": [of("2026-01-05")]})
    write_raw(ledger, 1, damage)
    with pytest.raises(ContractError, match="version 1 of its log is damaged"):
        list(ledger.glimpses())


def test_after_a_cleanup_of_the_log_unknown_means_changed(events):
    """Where commits after the cursor are gone, everything active counts as changed; a newer cursor loses nothing."""
    ledger = events(*[{"changed": [of(day)], "txn": {"app": n}} for n, day in enumerate([*DAYS, "2026-01-06"])])
    clean_up(ledger, 3)
    assert ledger.changes(since=1) == (4, {key("2026-01-05"): 3, key("2026-01-06"): 4, key(None): 3})
    assert ledger.changes(since=2) == (4, {key(None): 3, key("2026-01-06"): 4})
    assert ledger.changes(since=4) == (4, {})


def test_a_log_that_was_begun_again_is_read_from_its_beginning(events):
    """A cursor of a table that was removed since says nothing about its successor."""
    ledger = events({"changed": [of("2026-01-05")]})
    assert ledger.changes(since=7) == (1, {key("2026-01-05"): 1})


@settings(max_examples=settings.default.max_examples // 4, deadline=None)
@given(st.lists(st.dictionaries(st.sampled_from("abc"), st.integers(0, 9), max_size=2), max_size=8), st.data())
def test_transactions_are_those_of_the_state(history, data):
    """With and without a checkpoint, with a log that was cleaned up behind it, with and without Delta's hint at it."""
    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger(folder)
        write_log(Path(folder), COLUMNS, ["event_date"], [{"txn": moved} for moved in history])
        if data.draw(st.booleans()):
            at = data.draw(st.integers(0, len(history)))
            (clean_up if data.draw(st.booleans()) else write_checkpoint)(ledger, at)
            if data.draw(st.booleans()):
                (ledger.location / "_delta_log/_last_checkpoint").unlink()
        known, state = ledger.transactions(), ledger.state()
        assert [known.transaction(app) for app in "abc"] == [state.transaction(app) for app in "abc"]
        assert ledger.version() == len(history)


def test_a_hint_at_a_checkpoint_that_is_gone_or_unreadable_misleads_nobody(events):
    """Delta calls it a hint: what it names may be missing."""
    ledger = events({"txn": {"app": 5}}, {"txn": {"app": 6}})
    hint = ledger.location / "_delta_log/_last_checkpoint"
    for text in ('{"version": 2, "size": 3}', '{"version": 1, "size": 3, "parts": 2}', "[]", "{", '{"version": "1"}'):
        hint.write_text(text)
        assert (ledger.version(), ledger.transactions().transaction("app")) == (2, 6)


def test_a_table_that_is_not_there_has_no_transactions(tmp_path):
    """Nothing was applied yet."""
    assert Ledger(tmp_path / "events").transactions().transaction("app") is None


def test_cursors_survive_the_cleanup_of_the_log(events):
    """What was applied is known by the checkpoint, long after the commit is gone."""
    ledger = events({"txn": {"app": 5}}, {"changed": [of(None)]}, {"changed": [of(None)]})
    clean_up(ledger, 2)
    assert (ledger.exists(), ledger.version(), ledger.transaction("app")) == (True, 3, 5)
    assert [c.version for c in ledger.commits()] == [2, 3]
    assert ledger.latest(of("2026-01-05")) is None


@pytest.mark.parametrize(
    "line",
    [
        '{"add": {"path": "x',
        "no json",
        '{"add": {"partitionValues": {}}}',
        "[]",
        '"text"',
        '{"add": [1]}',
        '{"add": {"path": "x", "stats": "broken"}}',
    ],
)
def test_a_damaged_log_names_its_table_and_version(events, line):
    """Nobody has to search which of a thousand files is broken, and no half-read commit is believed."""
    ledger = events({"changed": [of("2026-01-05")]})
    write_raw(ledger, 2, {"commitInfo": {}}, line)
    for ask in (lambda: ledger.commit(2), lambda: list(ledger.commits()), lambda: ledger.changes(since=0)):
        with pytest.raises(ContractError, match="silver/events: version 2 of its log is damaged"):
            ask()


def test_what_other_programs_leave_in_the_log_folder_is_no_commit(events):
    """Checksums, checkpoints, temporary files and blank lines are passed over."""
    ledger = events({"changed": [of("2026-01-05")]})
    write_raw(ledger, 2, {"commitInfo": {}}, "")
    for name in (
        "00000000000000000003.crc",
        "00000000000000000003.json.tmp",
        ".00000000000000000003.json.crc",
        "x.json",
    ):
        (ledger.location / "_delta_log" / name).write_text("?")
    assert [c.version for c in ledger.commits()] == [0, 1, 2]
    assert ledger.changes() == (2, {key("2026-01-05"): 1})


def test_a_commit_names_the_files_that_only_the_past_needs(events):
    """Data files it removed and its change data; what it added is current."""
    ledger = events({"changed": [of("2026-01-05")]})
    files = [{"remove": {"path": "old.parquet"}}, {"cdc": {"path": "_change_data/a.parquet"}}, {"add": {"path": "new"}}]
    write_raw(ledger, 2, {"commitInfo": {"timestamp": 1}}, *files)
    assert ledger.commit(2).files_past == ("old.parquet", "_change_data/a.parquet")
    assert (ledger.commit(1).files_past, ledger.commit(2).files_added) == ((), ("new",))


def test_what_a_table_is_can_be_told_without_its_files(tmp_path, monkeypatch):
    """Schema, properties, protocol and cursors are those that deltalake finds, before and after a checkpoint."""
    made = Table(EVENTS, tmp_path / "events", no_session)
    made.ensure()
    for sequence in range(1, 23):
        made.mark(provenance=a_run(sequence=sequence))
    write_log(made.location, {}, [], [{"changed": [{"event_date": "2026-01-05"}], "txn": {"theirs": 7}}])
    known = [facts(TableState(state.version, state.opened), "theirs") for state in map(made.ledger.state, (3, 20, 23))]

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("the files were read")

    monkeypatch.setattr(table_states, "delta_table", refuse)
    assert facts(Ledger(made.location).state(), "theirs") == known[-1]
    assert facts(Ledger(made.location).state(20), "theirs") == known[1]
    with pytest.raises(AssertionError, match="the files were read"):
        Ledger(made.location).state(3)  # the checkpoint is of a later version


def facts(state: TableState, *app_ids: str) -> tuple[object, ...]:
    """Everything that a state says beside its files."""
    moved = [state.transaction(app_id) for app_id in (transaction_id(EVENTS.name, {}, 0, "appends"), *app_ids)]
    return state.columns, state.kinds, state.properties, dict(state.protocol), state.features, moved


def no_session() -> None:
    raise AssertionError("Spark was asked for")
