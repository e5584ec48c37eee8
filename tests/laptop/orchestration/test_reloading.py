"""Reload of a running platform's code: what loads takes the place of what runs, and nothing else does."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from dedp_assets.laptop.orchestration import reloading
from dedp_assets.patterns.core.errors import NotReady
from tests.faults.processes import wait_until

LOADS, FAILS = "pass", "raise SyntaxError('orders.py, line 7')"


class Followed:
    """A follower of a project whose stamp a test sets, with a trial of its own and a webserver that takes notes."""

    def __init__(self, tmp_path, refuses=""):
        self.stamp, self.said, self.restarts, self.reloaded, self.trial = (1, 1), [], 0, [], LOADS
        locations = [SimpleNamespace(name="river"), SimpleNamespace(name="reports")]
        project = SimpleNamespace(stamp=lambda: self.stamp, paths=[], root=tmp_path, locations=locations)

        def reload(name):
            if refuses:
                raise NotReady(refuses)
            self.reloaded.append(name)
            return ""

        web = SimpleNamespace(reload=reload)
        self.following = reloading.Reloading(project, web, self.restart, self.say, tmp_path / "reload.log", trial=self)

    def __iter__(self):
        return iter((sys.executable, "-c", self.trial))

    def restart(self):
        self.restarts += 1

    def say(self, word, sentence):
        self.said.append((word, sentence))

    def change(self, stamp, trial):
        """Files with another stamp, which load or do not; the words that were said of it."""
        self.stamp, self.trial, before = stamp, trial, len(self.said)

        def told():
            self.following.poll()
            return len(self.said) > before

        assert wait_until(told, seconds=60)
        return self.said[-1]


@pytest.fixture
def followed(tmp_path):
    return Followed(tmp_path)


def test_unchanged_files_are_loaded_once(followed):
    """Nothing is said, and no process is started."""
    for _ in range(5):
        followed.following.poll()
    assert (followed.said, followed.reloaded, followed.restarts) == ([], [], 0)


def test_changed_files_that_load_are_taken_by_every_location_and_the_page(followed):
    """Once for a change, and again for the next."""
    assert followed.change((2, 5), LOADS) == ("reloaded", "the changed declarations are in force")
    assert (followed.reloaded, followed.restarts) == (["river", "reports"], 1)
    for _ in range(3):
        followed.following.poll()
    assert followed.restarts == 1
    followed.change((2, 6), LOADS)
    assert (followed.reloaded, followed.restarts) == (["river", "reports"] * 2, 2)


def test_files_that_are_still_written_are_waited_for(followed):
    """Two looks have to agree."""
    for number in range(2, 9):
        followed.stamp = (2, number)
        followed.following.poll()
    assert followed.following._loading is None


def test_changed_files_that_do_not_load_leave_everything_as_it_is(followed):
    """The reason is said once; what is mended is taken."""
    word, sentence = followed.change((2, 5), FAILS)
    assert word == "notice"
    assert sentence.startswith(
        "the changed code does not load, so the code before goes on: SyntaxError: orders.py, line 7"
    )
    for _ in range(3):
        followed.following.poll()
    assert (len(followed.said), followed.reloaded, followed.restarts) == (1, [], 0)
    assert followed.change((2, 6), LOADS)[0] == "reloaded"


def test_a_fault_of_a_declaration_is_said_with_the_reload(followed):
    """The others are in force; nobody reads that all are."""
    fault = "/river/defs/fares/defs.yaml:14:30: attributes.steps: trips is no column"
    word, sentence = followed.change((2, 5), f"print({fault!r}); print('and a warning')")
    assert (word, sentence) == (
        "reloaded",
        f"the changed declarations are in force, without what has faults (`dedp check`): {fault}",
    )
    assert followed.change((2, 6), LOADS) == ("reloaded", "the changed declarations are in force")


def test_a_webserver_that_does_not_answer_is_said(tmp_path):
    """The page has the new declarations all the same; the next change is another attempt."""
    followed = Followed(tmp_path, refuses="connection refused")
    assert followed.change((2, 5), LOADS) == (
        "reloaded", "river is not reloaded: NotReady; reports is not reloaded: NotReady",
    )  # fmt: skip
    assert followed.restarts == 1
