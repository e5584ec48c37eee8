"""A checkpoint against its table: whatever happened to the two, going on is refused or gives each record once."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass, field

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dedp_assets.patterns.delta import Ledger
from dedp_assets.patterns.error_management._checkpoints import Applied, contradiction, last_applied, offsets_of
from tests.helpers import a_record, write_log


@dataclass
class Folder:
    """A checkpoint's folder, in memory."""

    kept: dict[str, bytes] = field(default_factory=dict)

    def exists(self, path):
        return path in self.kept

    def files(self):
        return list(self.kept)

    def list(self, folder):
        return [path.partition("/")[2] for path in self.kept if path.startswith(f"{folder}/")]

    def read(self, path):
        return self.kept[path]

    def put(self, path, *lines):
        self.kept[path] = "\n".join(lines).encode()


class Killed(Exception):
    """The process is gone."""


@dataclass
class Query:
    """What Spark does with a checkpoint, and the pattern's sink with a table, by plain lists."""

    folder: Folder = field(default_factory=Folder)
    table: list[tuple[Applied, list[int]]] = field(default_factory=list)
    source: int = 0
    ids: int = 0

    @property
    def applied(self):
        return self.table[-1][0] if self.table else Applied()

    @property
    def records(self):
        return [record for _, records in self.table for record in records]

    def run(self, step, killed_at, order="commit by number"):
        """Plan, write, confirm, micro-batch by micro-batch, to the end of the source or until it is killed."""
        before, points = self.applied.number, iter(range(1000))
        while (number := self.plan(step)) is not None:
            steps = [
                lambda: self.write(number, before if order == "commit by number" else -1),
                lambda: self.confirm(number),
            ]
            for act in steps[::-1] if order == "confirm, then write" else steps:
                if next(points) == killed_at:
                    raise Killed
                act()

    def plan(self, step):
        """Number of the micro-batch to process: the one that was planned and not confirmed, or the next."""
        if not self.folder.exists("metadata"):
            self.ids += 1
            self.folder.put("metadata", json.dumps({"id": f"query-{self.ids}"}))
        planned, confirmed = (max(map(int, self.folder.list(name)), default=-1) for name in ("offsets", "commits"))
        if planned == confirmed:
            if self.end(planned) == self.source:
                return None
            planned += 1
            self.folder.put(f"offsets/{planned}", "v1", "{}", str(min(self.end(planned - 1) + step, self.source)))
        return planned

    def write(self, number, applied):
        """Append the records of a micro-batch, unless it was applied before the run."""
        if number > applied:
            query = json.loads(self.folder.read("metadata"))["id"]
            batch = Applied(query, number, offsets_of(self.folder, number))
            self.table.append((batch, list(range(self.end(number - 1), self.end(number)))))

    def confirm(self, number):
        self.folder.put(f"commits/{number}", "v1", "{}")

    def go_on(self, step, killed_at):
        with suppress(Killed):
            self.run(step, killed_at)

    def harm(self, what, number, backups):
        """What people and machines do to a checkpoint and a table."""
        if what == "back up":
            backups.append(Folder(dict(self.folder.kept)))
        elif what == "put back":
            self.folder = Folder(dict(backups[number % len(backups)].kept))
        elif what == "lose":
            self.folder = Folder()
        elif what == "swap":
            other = Query(source=self.source, ids=self.ids + 100)
            other.go_on(1, 2 * number)
            self.folder = other.folder
        else:
            self.table = self.table[: max(0, len(self.table) - number)]

    def end(self, number):
        return int(offsets_of(self.folder, number)[0]) if number >= 0 else 0


RUN = st.tuples(st.just("run"), st.integers(1, 3), st.integers(0, 12))
LAND = st.tuples(st.just("land"), st.integers(1, 4), st.just(0))
HARM = st.tuples(st.sampled_from(["back up", "put back", "lose", "swap", "restore"]), st.integers(0, 3), st.just(0))


def steps(told):
    """``steps("land 6, run 2 1, put back 1")``: a run that is not killed has no second number."""
    found = []
    for step in told.split(", "):
        words = step.split()
        numbers = [int(word) for word in words if word.isdigit()]
        what = " ".join(word for word in words if not word.isdigit())
        found.append((what, *[*numbers, *([0] if not numbers else []), 99][:2]))
    return found


@given(st.lists(RUN | LAND, max_size=15))
def test_a_query_that_is_only_killed_always_goes_on(done):
    """Wherever it was killed, however often: no checkpoint of its own is refused, and each record is there once."""
    query = Query()
    for what, number, killed_at in done:
        if what == "land":
            query.source += number
            continue
        assert contradiction(query.applied, query.folder) == ""
        query.go_on(number, killed_at)
        assert query.records == list(range(len(query.records)))
    query.run(2, -1)
    assert query.records == list(range(query.source))


@pytest.mark.promise("whatever-was-lost-swapped-restored")
@given(st.lists(RUN | LAND | HARM, max_size=20))
@example(steps("land 6, run 2 2, back up, run 1, put back 1, land 2, run 3"))
@example(steps("land 2, run 2, back up, land 4, run 2 0, back up, put back 1, run 1 1, put back 2, run 2"))
@example(steps("land 4, run 1, restore 2, land 1, run 1"))
@example(steps("land 4, run 2, lose, run 1"))
def test_whatever_was_lost_swapped_restored_or_put_back_no_record_is_doubled_or_left_out(done):
    """A backup put back, a folder lost, another query's, a table restored, in any order: refused, or right."""
    query, backups = Query(), [Folder()]
    for what, number, killed_at in done:
        if what == "land":
            query.source += number
        elif what != "run":
            query.harm(what, number, backups)
        elif not contradiction(query.applied, query.folder):
            query.go_on(number, killed_at)
            assert query.records == list(range(len(query.records)))


def lost_and_doubled(order):
    """What a sink that does not look at the micro-batch's number makes of being killed at each point."""
    outcomes = []
    for killed_at in range(6):
        query = Query(source=4)
        with suppress(Killed):
            query.run(2, killed_at, order)
        query.run(2, -1, order)
        outcomes.append((set(range(4)) - set(query.records), len(query.records) - len(set(query.records))))
    return outcomes


def test_a_sink_that_knows_no_micro_batches_doubles_or_loses_records():
    """Confirmed after the write: at least once. Before it: at most once. The pattern's commit is both at a time."""
    after = lost_and_doubled("write, then confirm")
    assert any(doubled for _, doubled in after)
    assert not any(lost for lost, _ in after)
    before = lost_and_doubled("confirm, then write")
    assert any(lost for lost, _ in before)
    assert not any(doubled for _, doubled in before)


def log_of(tmp_path, *numbers):
    records = [
        a_record("gold/windows", {}, notes={"micro_batch": Applied("q", number, (f"{number}",)).note})
        for number in numbers
    ]
    write_log(tmp_path / "windows", {"id": "long"}, [], [{"record": record} for record in records])
    return tmp_path / "windows"


def test_the_log_tells_the_newest_micro_batch(tmp_path):
    """With query and offsets; of a table that is not there, none."""
    assert last_applied(Ledger(log_of(tmp_path, 0, 1, 2))) == Applied("q", 2, ("2",))
    assert last_applied(Ledger(tmp_path / "none")) == Applied()


def test_a_micro_batch_that_a_restore_took_back_does_not_count(tmp_path):
    """The newest one is what the restored version has."""
    location = log_of(tmp_path, 0, 1, 2)
    info = {"timestamp": 1767600009000, "operation": "RESTORE", "operationParameters": {"version": 2}}
    (location / "_delta_log" / f"{4:020d}.json").write_text(json.dumps({"commitInfo": info}) + "\n")
    assert last_applied(Ledger(location)).number == 1
