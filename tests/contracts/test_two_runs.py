"""Two runs that write at once: whatever one of them has read by then, it is as if one came after the other.

Each write of the library is run with another one that runs to its end at a point where the first has read something of
the tables: their log, their rows, the files of a group. With a lock, these are the points at which the first one does
not hold it; in a store without locks, any. In `make test` at the last such point before its commit, with a lock or
without in turn; `make fuzz` takes all of them. The tables and the two runs of a write stand beside the tests of its
pattern, under :func:`tests.two_runs.two_runs`.
"""

from __future__ import annotations

import inspect
import re
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import settings

from dedp_assets.patterns.core.errors import Conflict, PatternError
from dedp_assets.patterns.delta import Ledger, Table
from dedp_assets.patterns.delta.storage import coordination
from dedp_assets.patterns.delta.storage.local_store import LocalStore
from tests.contracts.test_patterns import PATTERNS, pattern_file, public_functions
from tests.marking import marked_with
from tests.rotation import rotated
from tests.two_runs import World

pytestmark = [
    pytest.mark.spark,
    pytest.mark.budget(150, "every write of the library with another one in between"),
]

FUZZ = settings.get_current_profile_name() == "fuzz"
READS = ("state", "version", "transactions", "newest_first", "commits", "latest", "changed", "changes", "exists")
CASES = [case for cases in marked_with("two_runs").values() for of in cases for case in of.two_runs]
LIKE = """
    from tests.two_runs import two_runs

    @two_runs()
    def reported_at_once(world):
        columns = "id INT, day STRING"
        world.table("reports", columns, by=["day"])
        {name}(world.frame(columns, (1, "mon")), world.into("reports", "base", "mon"))
        yield lambda w: {name}(w.frame(columns, (2, "mon")), w.into("reports", "1", "mon"))
        yield lambda w: {name}(w.frame(columns, (3, "mon")), w.into("reports", "2", "mon"))
"""
"""A case, for whoever has to write one."""


@dataclass
class Other:
    """A run that comes in between, once: at the n-th read of the first one that holds no lock.

    Attributes:
        before_commit: how much the first one had read, with and without a lock, when it last committed.
    """

    run: Any = None
    at: int = 0
    reads: int = 0
    all_reads: int = 0
    before_commit: int = 0
    locks: int = 0
    busy: bool = False

    def committing(self):
        if not self.busy:
            self.before_commit = self.all_reads

    def pass_by(self):
        if self.busy:
            return
        self.all_reads += 1
        if self.locks:
            return
        self.reads += 1
        if self.reads == self.at:
            self.busy = True
            self.run()
            self.busy = False


@contextmanager
def watched(other):
    """Let ``other`` run at its point of whatever the block does."""
    with pytest.MonkeyPatch.context() as patch:
        for owner, name in [*((Ledger, name) for name in READS), (Table, "read"), (LocalStore, "list")]:
            patch.setattr(owner, name, _passing(getattr(owner, name), other))
        lock, put = LocalStore.lock, LocalStore.put_if_absent

        def noted(store, path, content):
            if store.name == "_delta_log":
                other.committing()
            put(store, path, content)

        patch.setattr(LocalStore, "put_if_absent", noted)

        @contextmanager
        def counted(store, timeout_seconds):
            with lock(store, timeout_seconds) as held:
                other.locks += not other.busy
                try:
                    yield held
                finally:
                    other.locks -= not other.busy

        patch.setattr(LocalStore, "lock", counted)
        yield


def _passing(read, other):
    def passing(*args, **options):
        found = read(*args, **options)
        other.pass_by()
        return found

    return passing


def done(write, world):
    """What a run gave, or the name of what refused it."""
    try:
        found = write(world)
    except PatternError as error:
        return type(error).__name__ if not isinstance(error, Conflict) else "Conflict"
    return found if isinstance(found, (tuple, list)) else "done"


@dataclass
class Pair:
    """Two runs of one case, and what the tables hold if one comes after the other, in either order."""

    base: World
    place: Any
    one: Any
    other: Any

    def serial(self, name, first, second):
        """Reads of the first run, rows after it, and rows and results after both."""
        world, counted = self.base.copy(self.place / name), Other()
        with watched(counted):
            results, counted.busy = [done(first, world)], True
            alone = world.rows()
            results.append(done(second, world))
        return counted, alone, (world.rows(), *results)

    def allowed(self):
        """Reads of the first run, and a test of what may come of the two at once."""
        counted, _, forwards = self.serial("forwards", self.one, self.other)
        _, alone, (rows, two, first) = self.serial("backwards", self.other, self.one)

        def holds(found):
            refused = found[1] == "Conflict" and (found[0], found[2]) == (alone, two)
            return refused or found in [forwards, (rows, first, two)]

        return counted, holds

    def at_once(self, name, point):
        """Rows and results if the other one runs at a point of the first one."""
        world, results = self.base.copy(self.place / name), []
        between = Other(lambda: results.append(done(self.other, world)), point)
        with watched(between):
            results.insert(0, done(self.one, world))
        return (world.rows(), *results)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_two_runs_at_once_are_one_after_the_other(spark, tmp_path, monkeypatch, case):
    """Of two runs that write the same, one sees all that the other did, or nothing, or is told to come again."""
    base = World(spark, tmp_path / "base")
    pair = Pair(base, tmp_path, *case.of(base, **case.varied))
    counted, holds = pair.allowed()
    has_lock = coordination.has_lock
    locked = range(1, counted.reads + 1) if FUZZ else {counted.reads} - {0}
    last = counted.before_commit or counted.all_reads  # a write that ends with something else than a commit
    free = range(1, last + 1) if FUZZ else {last} - {0}
    # Some writes read nothing before they take the lock.
    points = {"with a lock": locked, "without": () if case.one_query else free}
    ways = [way for way in points if points[way]]
    assert ways, "the first run reads nothing, so no other one can come in between"
    for way in rotated(CASES.index(case), ways):
        monkeypatch.setattr(coordination, "has_lock", has_lock if way == "with a lock" else lambda _: False)
        for point in points[way]:
            found = pair.at_once(f"{way} {point}", point)
            # Several commits that belong together have a lock of their own: there nobody comes in between.
            came = len(found) > 2
            assert came or (way == "without" and case.under_one_lock)
            assert not came or holds(found), f"read {point} of {counted.all_reads} {way}"


def writers():
    """The functions that write to the target of a table, or of a database: name -> pattern."""
    return {
        name: pattern
        for pattern in PATTERNS
        for name in public_functions(pattern)
        if any(
            kind in (stated := str(inspect.signature(getattr(pattern.module, name)))) for kind in ("Target'", "Target,")
        )
        and not stated.endswith("-> 'DataFrame'")  # a stamp names the target, and writes nothing
    }


def test_every_pattern_that_writes_to_a_table_has_two_runs():
    """Its test file has a case that names it; of what a database keeps apart, a test says that it proves the same."""
    tried = "".join(source_of(of) for cases in marked_with("two_runs").values() for of in cases)
    elsewhere = {test.two_runs_of for tests in marked_with("two_runs_of").values() for test in tests}
    known = writers()
    assert len(known) > 25
    missing = {name: pattern for name, pattern in known.items() if not re.search(rf"\b{name}\b", tried)}
    for name, pattern in missing.items():
        asked = f"write into {pattern_file(pattern)} a function like this"
        assert name in elsewhere, f"two runs of {name} at once are not tried: {asked}{LIKE.format(name=name)}"


def source_of(case):
    """The text of a case, and of the functions of test files that it calls."""
    helpers = [case.__globals__.get(name) for name in case.__code__.co_names]
    own = [each for each in helpers if inspect.isfunction(each) and each.__module__.startswith("tests.")]
    return "".join(map(inspect.getsource, [case, *own]))
