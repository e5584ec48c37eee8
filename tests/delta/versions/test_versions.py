"""Versions behind one name: which one is shown, what stays, what goes, whoever does what in which order."""

from __future__ import annotations

import hashlib
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from threading import Event
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dedp_assets.patterns.core.errors import AuditFailed, ConfigError, Conflict, ContractError, NotReady
from dedp_assets.patterns.core.records import CommitRecord
from dedp_assets.patterns.core.results import RowCounts
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import Ledger, Table, verify_table
from dedp_assets.patterns.delta.commit import commits
from dedp_assets.patterns.delta.storage.local_store import LocalStore
from dedp_assets.patterns.delta.versions import exposure, folder_of, version_of
from dedp_assets.patterns.delta.versions.exposure import expired, exposures, load
from dedp_assets.patterns.delta.versions.version_tables import names, new_version
from dedp_assets.patterns.idempotency._expiry import expire, hold, release
from dedp_assets.patterns.idempotency.proxy import judge_exposure, switch_version
from dedp_assets.patterns.ingestion.compactor import compact, plan_compaction, vacuum
from tests.helpers import a_run, read_back

EARLIER, LATER = (datetime(year, 1, 1, tzinfo=timezone.utc) for year in (2000, 2100))
RANKING = TableSpec(
    "gold/ranking", {"page": Column("STRING", required=True), "views": Column("BIGINT")}, checks={"seen": "views > 0"}
)


class KilledError(BaseException):
    """The process died here."""


@pytest.fixture
def ranking(tmp_path, monkeypatch):
    """A name that shows nothing yet; its loads stage rows without Spark."""

    def stage(self, rows, *, provenance, **_):
        self.ensure()
        if rows == "refused":
            raise AuditFailed("refused", findings=())
        return SimpleNamespace(publish=lambda: fill(self, rows, provenance))

    monkeypatch.setattr(Table, "stage", stage)
    return a_name(tmp_path)


def a_name(root, spec=RANKING):
    def no_session():
        raise AssertionError("no Spark is needed for this")

    return Table(spec, root / spec.name, no_session)


def fill(version, rows, provenance):
    """Publish rows (page -> views) in a version, in one file for every two of them."""
    store, pairs = version.store, list(rows.items())
    record = CommitRecord.of(
        replace(provenance, notes={"stage": "staged-1"}), content=str(pairs), counts=RowCounts(len(pairs), len(pairs))
    )
    actions = [commits.info(record, "WRITE", None, {})]
    for number in range(0, len(pairs), 2):
        part = pairs[number : number + 2]
        data = {"page": [page for page, _ in part], "views": pa.array([views for _, views in part], pa.int64())}
        file = version.location / "staged-1" / f"part-{number}.parquet"
        file.parent.mkdir(exist_ok=True)
        pq.write_table(pa.table(data), file)
        path, size = f"staged-1/{file.name}", file.stat().st_size
        stats = f'{{"numRecords": {len(part)}}}'
        described = {"partitionValues": {}, "modificationTime": 1, "dataChange": True, "stats": stats}
        actions.append({"add": {"path": path, "size": size, **described}})
    commits.write(store, 1, actions)


def shown(table):
    """What readers of the name see, through an independent reader."""
    return {row["page"]: row["views"] for row in read_back(table)}


def digests(folder: Path):
    """Every file of a folder with its bytes."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@dataclass
class Model:
    """What a name has to show, and what has to stand."""

    whole: dict[str, dict[str, int]] = field(default_factory=dict)
    inputs: dict[str, int] = field(default_factory=dict)
    bytes: dict[str, dict[str, str]] = field(default_factory=dict)
    given: set[str] = field(default_factory=set)
    history: list[str] = field(default_factory=list)
    held: set[str] = field(default_factory=set)

    @property
    def shown(self):
        return self.history[-1] if self.history else None


ENDS = (
    "complete",
    "complete",
    "refused",
    "killed before the switch",
    "killed in the switch",
    "killed after the switch",
)
STEPS = st.one_of(
    st.tuples(st.just("load"), st.sampled_from(ENDS), st.sampled_from(["run/1", "run-1", "ü"])),
    st.tuples(st.just("retry"), st.sampled_from(["complete", "killed in the switch"]), st.integers(0, 4)),
    st.tuples(st.just("switch"), st.integers(0, 4)),
    st.tuples(st.sampled_from(["hold", "release"]), st.integers(0, 4)),
    st.tuples(st.just("expire"), st.booleans()),
    st.tuples(st.just("stranger"), st.integers(0, 4)),
)


@pytest.mark.promise("any-order-of-loads-switches")
@given(steps=st.lists(STEPS, max_size=12))
@settings(
    max_examples=settings.default.max_examples * 3 // 5, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_any_order_of_loads_switches_failures_and_expiries_is_as_a_plain_model_says(
    ranking, monkeypatch, tmp_path_factory, steps
):
    """The name shows the version it has to, rows and history; every version that stands is byte for byte as it was."""
    world = World(a_name(tmp_path_factory.mktemp("lake")), monkeypatch)
    for kind, *given_ in steps:
        getattr(world, kind)(*given_)
        world.compare()


class World:
    """A name and its model, and what is done to both."""

    def __init__(self, table, monkeypatch):
        self.table, self.model, self.monkeypatch = table, Model(), monkeypatch
        self.loads = []

    def load(self, end, run_id):
        self.loads.append((run_id, len(self.loads), {f"/{len(self.loads)}-{n}": n + 1 for n in range(3)}))
        self._load(end, *self.loads[-1])

    def retry(self, end, number):
        if self.loads:
            self._load(end, *self.loads[number % len(self.loads)])

    def _load(self, end, run_id, number, rows):
        model, run = self.model, a_run(run_id=run_id, inputs={"load": str(number)})
        stands = [name for name in sorted(model.whole) if model.inputs[name] == number]
        before = names(self.table)
        with self.monkeypatch.context() as patched:
            self._kill(patched, end)
            try:
                load("refused" if end == "refused" else rows, self.table, provenance=run)
            except (KilledError, AuditFailed):
                assert end != "complete"
        fresh = set(names(self.table)) - set(before)
        assert not fresh & model.given, "a name was given twice"
        assert len(fresh) == (0 if stands else 1)
        model.given |= fresh
        if not stands and end != "refused":
            (name,) = fresh
            model.whole[name], model.inputs[name] = rows, number
            stands = [name]
        if stands and end not in ("killed before the switch", "killed in the switch"):
            self._show(stands[0])

    def _kill(self, patched, end):
        write = commits.write

        def dying(store, version, content, **more):
            if store == self.table.store:
                if end == "killed after the switch":
                    write(store, version, content, **more)
                raise KilledError
            write(store, version, content, **more)

        def dead(*_, **__):
            raise KilledError

        if end == "killed before the switch":
            patched.setattr(exposure, "expose", dead)
        elif end.startswith("killed"):
            patched.setattr(commits, "write", dying)

    def switch(self, number):
        name = self._some(number)
        try:
            switch_version(self.table.target(a_run(run_id="on call")), version=name, because="it was right")
        except NotReady:
            assert name not in self.model.whole
        else:
            self._show(name)

    def hold(self, number):
        self._change(hold, self.model.held.add, number)

    def release(self, number):
        self._change(release, self.model.held.discard, number)

    def _change(self, change, model, number):
        name = self._some(number)
        try:
            change(self.table, name, because="case 7", provenance=a_run())
        except NotReady:
            assert not self.model.history or name not in self.model.whole
        else:
            model(name)

    def expire(self, everything):
        cutoff = LATER if everything else EARLIER
        if not self.model.history:
            with pytest.raises(NotReady):
                expire(self.table, cutoff=cutoff, provenance=a_run())
            return
        expire(self.table, cutoff=cutoff, provenance=a_run())
        kept = {self.model.shown, *self.model.held}
        for name in [name for name in self.model.whole if everything and name not in kept]:
            del self.model.whole[name]
            self.model.bytes.pop(name, None)

    def stranger(self, number):
        """Somebody who keeps to the protocol writes to the name, or to a version that was shown."""
        standing = sorted(self.model.bytes)
        place = version_of(self.table, standing[number % len(standing)]) if standing and number % 2 else self.table
        if standing:
            mode = ("append", "overwrite")[number // 2 % 2]
            rows = pa.table({"page": ["/x"], "views": pa.array([1], pa.int64())})
            with pytest.raises(DeltaError):
                write_deltalake(str(place.location), rows, mode=mode)

    def _some(self, number):
        known = sorted(self.model.given)
        return known[number % len(known)] if known else "none"

    def _show(self, name):
        if self.model.shown != name:
            self.model.history.append(name)

    def compare(self):
        table, model = self.table, self.model
        assert [each.version for each in exposures(table)] == model.history[::-1]
        assert table.ledger.exists() == bool(model.history)
        if model.history:
            assert shown(table) == model.whole[model.shown]
            assert judge_exposure(table).passed, judge_exposure(table).note
            assert verify_table(table.ledger).sound
        for name, rows in model.whole.items():
            version = version_of(table, name)
            assert shown(version) == rows
            if name in model.history:
                found = digests(version.location)
                assert model.bytes.setdefault(name, found) == found
        assert not set(names(table)) - set(model.whole) - model.given


def pages(number, count=3):
    """A ranking that is told from others by every row."""
    return {f"/{number}-{n}": number * 100 + n + 1 for n in range(count)}


def a_load(table, number, **fields):
    return load(pages(number), table, provenance=a_run(run_id=f"run-{number}", inputs={"load": str(number)}, **fields))


def test_a_reader_sees_all_of_one_version(ranking):
    """Whoever reads in a loop while the name is switched finds each time the rows of one version, and never none."""
    a_load(ranking, 1)
    a_load(ranking, 2)
    done, seen = Event(), []

    def look():
        while not done.is_set():
            seen.append(frozenset(shown(ranking).items()))

    with ThreadPoolExecutor(2) as pool:
        looking = [pool.submit(look) for _ in range(2)]
        for number in range(20):
            switch_version(ranking.target(a_run()), version=f"run-{number % 2 + 1}-1", because="to and fro")
        while len(set(seen)) < 2 and not any(each.done() for each in looking):
            switch_version(ranking.target(a_run()), version=f"run-{len(seen) % 2 + 1}-1", because="again")
        done.set()
        for each in looking:
            each.result()
    assert set(seen) == {frozenset(pages(1).items()), frozenset(pages(2).items())}


def test_a_reader_keeps_the_version_that_it_opened(ranking):
    """The files of a former version stay where they are, so a long reader is not cut short by a switch."""
    a_load(ranking, 1)
    opened = DeltaTable(str(ranking.location))
    a_load(ranking, 2)
    assert opened.to_pyarrow_table()["page"].to_pylist() == list(pages(1))
    assert shown(ranking) == pages(2)


def test_names_are_given_once_also_to_runs_that_ask_at_the_same_time(ranking):
    """Sixteen attempts of one run get sixteen tables; what was removed takes its name with it."""
    with ThreadPoolExecutor(8) as pool:
        given_names = [each.store.name for each in pool.map(lambda _: new_version(ranking, a_run()), range(16))]
    assert sorted(given_names) == sorted(f"run-1-{number}" for number in range(1, 17))
    a_load(ranking, 1)
    expire(ranking, cutoff=LATER, provenance=a_run())
    assert new_version(ranking, a_run()).store.name == "run-1-18"


def test_two_runs_at_once_leave_two_versions_and_show_one_of_them(ranking):
    """With the same inputs the rows are the same, whichever is shown; both versions stand."""
    with ThreadPoolExecutor(2) as pool:
        runs = [a_run(run_id=f"run-{n}", inputs={"load": "1"}) for n in (1, 2)]
        results = list(pool.map(lambda run: load(pages(1), ranking, provenance=run), runs))
    assert sum(result.changed for result in results) == 1
    assert shown(ranking) == pages(1)
    assert judge_exposure(ranking).passed
    assert all(shown(version_of(ranking, name)) == pages(1) for name in names(ranking))


def test_a_load_that_began_from_older_inputs_is_not_shown_over_newer_ones(ranking):
    """Its version stands; the name stays on the newer one."""
    a_load(ranking, 2, sequence=2)
    with pytest.raises(Conflict, match="stale"):
        a_load(ranking, 1, sequence=1)
    assert shown(ranking) == pages(2)
    assert shown(version_of(ranking, "run-1-1")) == pages(1)


def test_a_history_says_who_switched_from_what_to_what_and_why(ranking):
    """It is the log of the name: nothing is kept beside it."""
    a_load(ranking, 1)
    a_load(ranking, 2, cause="landing")
    rolled = switch_version(ranking.target(a_run(run_id="on call")), version="run-1-1", because="wrong prices")
    assert (rolled.applied, rolled.changed, rolled.reason) == (True, True, "3 rows shown as run-1-1 instead of run-2-1")
    told = [(e.record.run_id, e.record.cause, e.instead_of, e.version) for e in exposures(ranking)]
    assert told == [
        ("on call", "manual", "run-2-1", "run-1-1"),
        ("run-2", "landing", "run-1-1", "run-2-1"),
        ("run-1", "manual", "", "run-1-1"),
    ]
    newest = next(exposures(ranking)).record
    assert (newest.notes["because"], newest.inputs) == ("wrong prices", {"load": "1"})
    again = switch_version(ranking.target(a_run()), version="run-1-1", because="twice")
    assert (again.applied, again.version) == (False, rolled.version)
    with pytest.raises(ConfigError, match="say why"):
        switch_version(ranking.target(a_run()), version="run-2-1", because=" ")


def test_what_was_rolled_back_may_be_loaded_again(ranking):
    """A rollback forgets what it takes back, as a restore does: the next run of the same inputs is shown."""
    a_load(ranking, 1, sequence=1)
    a_load(ranking, 2, sequence=2)
    switch_version(ranking.target(a_run()), version="run-1-1", because="wrong prices")
    rerun = a_run(run_id="run-3", inputs={"load": "2"}, sequence=2)
    assert load(pages(2), ranking, provenance=rerun).changed
    assert next(exposures(ranking)).version == "run-3-1"


def test_age_counts_from_when_a_version_was_last_shown(ranking, monkeypatch):
    """One that was shown until yesterday is young, however long ago it was loaded: whoever reads it has time."""
    monday = datetime(2026, 1, 5, tzinfo=timezone.utc)

    def on(day):
        monkeypatch.setattr(commits, "now_ms", lambda: int((monday + timedelta(days=day)).timestamp() * 1000))

    for day, number in ((0, 1), (1, 2), (30, 3)):
        on(day)
        a_load(ranking, number)
        begun = (monday + timedelta(days=day)).timestamp()
        os.utime(ranking.location / folder_of(ranking) / f"run-{number}-1.json", (begun, begun))
    on(31)
    removed = expire(ranking, cutoff=monday + timedelta(days=20), provenance=a_run())
    assert (removed.reason, removed.figures) == ("removed run-1-1", {"versions_removed": 1, "versions_kept": 2})
    assert expired(ranking) == {"run-1-1"}
    assert not expire(ranking, cutoff=monday + timedelta(days=20), provenance=a_run()).applied
    with pytest.raises(NotReady, match="run-1-1 is expired"):
        switch_version(ranking.target(a_run()), version="run-1-1", because="it was right")
    assert switch_version(ranking.target(a_run()), version="run-2-1", because="it was right").applied


def test_an_expiry_that_is_killed_is_completed_by_the_next(ranking, monkeypatch):
    """The log says first what goes, so no version is taken for kept that lost a part of its files."""
    a_load(ranking, 1)
    a_load(ranking, 2)

    def half(self, folder):
        self.within(folder).delete("_delta_log/00000000000000000000.json")
        raise KilledError

    with monkeypatch.context() as patched:
        patched.setattr(LocalStore, "delete_folder", half)
        with pytest.raises(KilledError):
            expire(ranking, cutoff=LATER, provenance=a_run())
    assert judge_exposure(ranking).passed
    with pytest.raises(NotReady, match="is expired"):
        switch_version(ranking.target(a_run()), version="run-1-1", because="it was right")
    again = load(pages(1), ranking, provenance=a_run(run_id="run-1", inputs={"load": "1"}))
    assert again.reason == "3 rows shown as run-1-2 instead of run-2-1"
    a_load(ranking, 2)
    expire(ranking, cutoff=LATER, provenance=a_run())
    assert not (ranking.location / folder_of(ranking) / "run-1-1").exists()
    assert shown(ranking) == pages(2)


def test_a_version_that_goes_while_it_is_chosen_is_not_shown(ranking, monkeypatch):
    """An expiry that was faster than the switch leaves the name where it is."""
    a_load(ranking, 1)
    a_load(ranking, 2)
    lock = exposure.table_lock

    def late(store):
        monkeypatch.setattr(exposure, "table_lock", lock)
        expire(ranking, cutoff=LATER, provenance=a_run())
        return lock(store)

    monkeypatch.setattr(exposure, "table_lock", late)
    with pytest.raises(NotReady, match="is expired"):
        switch_version(ranking.target(a_run()), version="run-1-1", because="it was right")
    assert shown(ranking) == pages(2)


def test_a_hold_keeps_a_version_until_it_is_released(ranking):
    """However often the others are removed, also if it was released and held again."""
    for number in (1, 2, 3):
        a_load(ranking, number)
    run = a_run()
    hold(ranking, "run-1-1", because="case 7", provenance=run)
    release(ranking, "run-1-1", because="case 7 was closed", provenance=run)
    hold(ranking, "run-1-1", because="case 7 was opened again", provenance=run)
    assert expire(ranking, cutoff=LATER, provenance=run).reason == "removed run-2-1"
    assert shown(version_of(ranking, "run-1-1")) == pages(1)
    release(ranking, "run-1-1", because="case 7 was closed", provenance=run)
    assert expire(ranking, cutoff=LATER, provenance=run).reason == "removed run-1-1"


def test_a_hold_needs_a_reason_and_a_version(ranking):
    """What nobody can explain later is refused."""
    a_load(ranking, 1)
    with pytest.raises(ConfigError, match="say why run-1-1 is held"):
        hold(ranking, "run-1-1", because="", provenance=a_run())
    with pytest.raises(NotReady, match="has no version x: it has run-1-1"):
        hold(ranking, "x", because="case 7", provenance=a_run())
    assert ranking.ledger.latest({}).version == 0, "a hold is no load"


def test_a_version_that_lost_a_file_is_named_and_not_shown(ranking):
    """The check finds it, a switch refuses it, and a load of the shown version's inputs writes its rows again."""
    a_load(ranking, 1)
    a_load(ranking, 2)
    for number in (1, 2):
        (lost,) = (ranking.location / folder_of(ranking) / f"run-{number}-1").glob("staged-1/part-0.parquet")
        lost.unlink()
    found = judge_exposure(ranking)
    assert not found.passed
    assert all(f"{folder_of(ranking)}/run-{number}-1 lacks 1 of its data files" in found.note for number in (1, 2))
    with pytest.raises(ContractError, match="lacks 1 of its data files"):
        switch_version(ranking.target(a_run()), version="run-1-1", because="it was right")
    repaired = a_load(ranking, 2)
    assert (repaired.applied, repaired.changed) == (True, False), "readers of changes see the same rows"
    assert (shown(ranking), next(exposures(ranking)).version) == (pages(2), "run-2-2")


def test_the_name_has_the_columns_of_the_version_that_it_shows(ranking, tmp_path):
    """A later declaration has one more column and a type that only new readers know; going back takes both back."""
    a_load(ranking, 1)
    more = {**RANKING.columns, "seen_at": Column("TIMESTAMP_NTZ")}
    wider = a_name(tmp_path, replace(RANKING, columns=more, properties={"delta.appendOnly": "true"}))
    a_load(wider, 2)
    assert list(wider.ledger.state().columns) == ["page", "views", "seen_at"]
    assert [row["seen_at"] for row in read_back(wider)] == [None] * 3
    a_load(wider, 3)
    switch_version(wider.target(a_run()), version="run-1-1", because="readers were not ready")
    assert (list(wider.ledger.state().columns), shown(wider)) == (["page", "views"], pages(1))
    assert judge_exposure(wider).passed


def test_a_table_with_rows_of_its_own_is_not_made_to_show_versions(ranking, tmp_path):
    """Neither a table nor a folder of other files is hidden behind a version."""
    write_deltalake(str(ranking.location), pa.table({"page": ["/own"]}))
    with pytest.raises(ConfigError, match="is a table with rows of its own"):
        a_load(ranking, 1)
    assert not (ranking.location / folder_of(ranking)).exists()
    other = a_name(tmp_path / "other")
    other.location.mkdir(parents=True)
    (other.location / "notes.txt").write_text("own")
    with pytest.raises(ConfigError, match="and no Delta log"):
        a_load(other, 1)


def test_where_a_file_cannot_be_put_only_if_absent_nothing_is_written(tmp_path):
    """Such a store cannot give a name once; it is refused by what it cannot do."""
    blind = LocalStore(str(tmp_path / "ranking"), can=frozenset({"lock"}))
    with pytest.raises(ConfigError, match="cannot create a file only if it is not there: nothing was written"):
        a_load(Table(RANKING, blind, lambda: None), 1)
    assert list(tmp_path.iterdir()) == []


def test_the_library_writes_neither_a_version_nor_the_name(ranking):
    """Every way to change a table is refused with what to do instead, before anything is computed."""
    a_load(ranking, 1)
    run = a_run(sequence=1)
    for table in (ranking, version_of(ranking, "run-1-1")):
        before = (digests(table.location), table.ledger.version())
        for write in (
            table.ensure,
            lambda t=table: t.clear(partition={}, provenance=run),
            lambda t=table: t.mark(provenance=run),
            lambda t=table: t.delete("true", provenance=run),
            lambda t=table: t.restore(0, provenance=run),
        ):
            with pytest.raises(ConfigError, match="is closed: its rows are those of a version"):
                write()
        assert (digests(table.location), table.ledger.version()) == before


def test_maintenance_leaves_versions_alone(ranking):
    """Nothing is compacted, and neither our vacuum nor delta-rs's removes a file of a former version."""
    a_load(ranking, 1)
    a_load(ranking, 2)
    before = digests(ranking.location)
    assert plan_compaction(ranking.ledger, min_small_files=2).partitions == ()
    run = a_run()
    assert not compact(ranking.target(run), min_small_files=2).applied
    cleaned = vacuum(ranking.target(run), retention_hours=0, now=LATER, allow_unsafe=True)
    assert (cleaned.applied, cleaned.reason) == (False, "its versions are removed by an expiry only")
    assert digests(ranking.location) == before
    for full in (True, False):
        DeltaTable(str(ranking.location)).vacuum(dry_run=False, full=full)
        with pytest.raises(DeltaError, match="retention"):
            DeltaTable(str(ranking.location)).vacuum(168, dry_run=False, full=full)
    assert all(shown(version_of(ranking, f"run-{n}-1")) == pages(n) for n in (1, 2))


def test_a_long_history_stays_quick_to_read_and_complete(tmp_path, ranking):
    """Checkpoints are written and no entry is cleaned up, however old: the first switch is known after many."""
    often = {"delta.logRetentionDuration": "interval 1 hour", "delta.checkpointInterval": "3"}
    ranking = a_name(tmp_path, replace(RANKING, properties=often))
    a_load(ranking, 1)
    a_load(ranking, 2)
    for number in range(10):
        for entry in (ranking.location / "_delta_log").iterdir():
            os.utime(entry, (0, 0))
        switch_version(ranking.target(a_run()), version=f"run-{number % 2 + 1}-1", because="to and fro")
    assert list((ranking.location / "_delta_log").glob("*.checkpoint.parquet"))
    assert [each.version for each in exposures(ranking)][-2:] == ["run-2-1", "run-1-1"]
    assert Ledger(ranking.location).state().closed
    assert shown(ranking) == pages(2)


def test_a_table_with_versions_in_the_former_folder_keeps_them_there(ranking):
    """Its log names their files; a new version lies beside the former ones."""
    (ranking.location / ".versions").mkdir(parents=True)
    (ranking.location / ".versions" / "run-0-1.json").write_text("{}")
    assert version_of(ranking, "run-0-1").store.address == f"{ranking.store.address}/.versions/run-0-1"
