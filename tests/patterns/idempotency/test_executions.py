"""Executions: which runs a table's rows contain, by its log alone."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedp_assets.patterns.core.errors import ContractError, NotReady
from dedp_assets.patterns.delta import Glimpse
from dedp_assets.patterns.idempotency._executions import EXECUTION, ExecutionLog

KEYS = ["a", "b", "c", "d", "e"]


@dataclass
class Model:
    """A table as the list of executions that its rows are the sum of, at each version; and what the log says."""

    contents: list = field(default_factory=lambda: [()])
    log: ExecutionLog = field(default_factory=ExecutionLog)
    ever: set = field(default_factory=set)

    def commit(self, content, **glimpse):
        version = len(self.contents)
        self.contents.append(content)
        self.log.take_in(Glimpse(version, frozenset(), **glimpse))

    def run(self, key, applied=1):
        """Run an execution as the library does: on the version that the log says."""
        start = self.log.now.start("t", key, ())
        base = len(self.contents) - 1 if start.base is None else start.base
        note = {"key": key, "base": base, "after": start.after, "pending": list(start.pending)}
        stated = {"notes": {EXECUTION: note}, "sequence": applied}
        self.ever.add(key)
        self.commit((*self.contents[base], key), stated=stated)

    def compact(self):
        self.commit(self.contents[-1])

    def restore(self, back):
        version = max(0, len(self.contents) - 1 - back)
        self.commit(self.contents[version], restores=True, restored_to=version)


EVENTS = st.one_of(
    st.tuples(st.just("run"), st.sampled_from(KEYS)),
    st.tuples(st.just("compact")),
    st.tuples(st.just("restore"), st.integers(1, 6)),
)


@pytest.mark.promise("the-log-says-what-the")
@given(events=st.lists(EVENTS, max_size=30))
def test_the_log_says_what_the_rows_contain(events):
    """Runs, reruns, compactions, restores in any order: each execution once, in order, none forgotten.

    What is taken back has to follow before anything later; in the end the table is the sum of all that ever ran.
    """
    model = Model()
    for name, *told in events:
        try:
            getattr(model, name)(*told)
        except NotReady as error:
            assert any(key in str(error) for key in model.log.now.pending)  # noqa: PT017 - what it says is the point
        now, content = model.log.now, model.contents[-1]
        assert tuple(each.key for each in now.standing) == content == tuple(sorted(set(content)))
        assert now.pending == model.ever - set(content)
    while pending := sorted(model.log.now.pending):
        model.run(pending[0])
    assert model.contents[-1] == tuple(sorted(model.ever))


def filled(*keys):
    model = Model()
    for key in keys:
        model.run(key)
    return model


def test_the_book_s_figure_with_compactions_between():
    """5 merge, 6 compaction, 7 merge, 8 compaction, 9 merge, 10 merge: run again, c begins with 8 and d with 9."""
    model = filled("0", "1", "2", "3")
    for name in ("a", "", "b", "", "c", "d"):
        model.run(name) if name else model.compact()
    found = {key: model.log.now.start("t", key, ()) for key in ("c", "d")}
    assert {key: start.base for key, start in found.items()} == {"c": 8, "d": 9}
    assert found["c"].pending == ("d",)
    assert model.log.now.start("t", "e", ()).base is None


def test_what_comes_before_has_to_be_there():
    """Missing, or taken back: the first such one is named; what comes later does not count."""
    model = filled("a", "b", "c")
    start = model.log.now.start
    with pytest.raises(NotReady, match="d comes after bb"):
        start("t", "d", ["a", "bb", "e"])
    assert start("t", "d", ["a", "e"]).after == "c"
    model.run("b")
    with pytest.raises(NotReady, match="d comes after c,"):
        model.run("d")
    model.run("a")  # what is taken back may be run in part again, and taken back again
    assert model.log.now.pending == {"b", "c"}


def test_an_execution_that_nobody_knew_takes_its_place():
    """Between two others, and before the first."""
    model = filled("b", "d")
    model.run("c")
    assert (model.contents[-1], model.log.now.pending) == (("b", "c"), {"d"})
    model.run("a")
    assert (model.contents[-1], model.log.now.pending) == (("a",), {"b", "c", "d"})


def test_what_the_log_has_forgotten_cannot_be_run_again():
    """Nobody knows the rows before it; what follows is run as before, and nothing is asked of what is forgotten."""
    full, log = filled("a", "b", "c"), ExecutionLog()
    stated = {"notes": {EXECUTION: {"key": "c", "base": 2, "after": "b", "pending": []}}, "sequence": 1}
    log.take_in(Glimpse(3, frozenset(), stated=stated))
    assert full.log.now.standing[-1:] == log.now.standing
    for key in ("a", "b"):
        with pytest.raises(ContractError, match="earliest execution that can be run again is c"):
            log.now.start("t", key, ())
    assert log.now.start("t", "d", ["a", "b"]).after == "c"


def test_a_restore_to_a_time_is_refused():
    """Nobody can tell what the rows contain; a restore to a version makes it clear again."""
    model = filled("a", "b")
    model.commit(("a",), restores=True)
    with pytest.raises(ContractError, match="restore it to a version"):
        model.run("b")
    assert model.log.now.pending == {"a", "b"}
    model.restore(2)
    model.run("b")
    assert model.contents[-1] == ("a", "b")
