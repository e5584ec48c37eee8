"""Groups of tables against a plain model: any order of writes, kills and refusals, and a reader at every step."""

from __future__ import annotations

import tempfile
from contextlib import suppress
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedp_assets.patterns.core.errors import Conflict, NotReady
from dedp_assets.patterns.delta import TableGroup
from dedp_assets.patterns.delta.storage.local_store import LocalStore

TABLES = ("beside", "main")
ACTIONS = st.tuples(
    st.sampled_from(["monday", "tuesday"]),
    st.one_of(st.none(), st.integers(0, 9)),  # the step at which the process is killed
    st.sampled_from(["", "", "", *TABLES]),  # the table that refuses
)


class Killed(BaseException):
    """The end of a process."""


@dataclass
class Lake:
    """Tables that keep all of their versions, and a process that dies when its steps are used up."""

    versions: dict = field(default_factory=lambda: {table: [{}] for table in TABLES})
    steps: int | None = None
    refusing: str = ""

    def step(self):
        if self.steps is not None:
            if self.steps == 0:
                raise Killed
            self.steps -= 1

    def publish(self, table, note):
        self.step()
        newest = self.versions[table][-1]
        if newest.get(note["part"]) != note["value"]:
            if table == self.refusing:
                raise Conflict(f"{table} was written by somebody else")
            self.versions[table].append({**newest, note["part"]: note["value"]})
        self.step()

    def heads(self):
        return {table: len(versions) - 1 for table, versions in self.versions.items()}

    def group(self, folder):
        lake = self

        class Store(LocalStore):
            def put_if_absent(self, path, content):
                lake.step()
                super().put_if_absent(path, content)
                lake.step()

        return TableGroup(Store(f"{folder}/.main.group"), self.publish, self.heads)


@pytest.mark.promise("readers-see-the-tables-of")
@given(st.lists(ACTIONS, max_size=30))
def test_readers_see_the_tables_of_one_moment_whoever_dies_or_refuses(actions):
    """What is visible is equal in all tables, never goes back, and holds a write as soon as the next one ended well."""
    with tempfile.TemporaryDirectory() as folder:
        lake, seen = Lake(), {}
        group = lake.group(folder)

        def visible():
            try:
                versions = group.visible()
            except NotReady:
                return {}
            found = [lake.versions[table][version] for table, version in versions.items()]
            assert all(each == found[0] for each in found), found
            return found[0]

        for value, (part, steps, refusing) in enumerate(actions, start=1):
            lake.steps, lake.refusing, ended = steps, refusing, False
            with suppress(Killed, Conflict):
                notes = {table: {"part": part, "value": value} for table in TABLES}
                ended = group.publish_all(part, notes, is_new=lambda: True)
            now = visible()
            assert all(now.get(each, 0) >= held for each, held in seen.items())
            seen = now
            if ended:
                newest = [lake.versions[table][-1] for table in TABLES]
                owed = newest[0] != newest[1]  # of another part, which a refusal left unequal
                assert owed or now[part] == value
        for part in ("monday", "tuesday"):
            lake.steps, lake.refusing = None, ""
            group.publish_all(part, {table: {"part": part, "value": 99} for table in TABLES}, is_new=lambda: True)
        assert visible() == {"monday": 99, "tuesday": 99}


def test_a_group_keeps_few_files_and_a_write_that_is_not_new_none(tmp_path):
    """Forty writes leave the newest of them; what was asked for before is not published again."""
    lake = Lake()
    group = lake.group(tmp_path)
    for value in range(40):
        assert group.publish_all("monday", {t: {"part": "monday", "value": value} for t in TABLES}, is_new=lambda: True)
    names = group.store.list()
    assert len(names) == 2 * 21
    assert not group.publish_all("monday", {}, is_new=lambda: False)
    assert group.store.list() == names
    assert group.visible() == {"beside": 40, "main": 40}


def test_a_group_that_was_never_published_is_not_ready(tmp_path):
    """Nor one whose only write was refused by one table."""
    lake = Lake()
    group = lake.group(tmp_path)
    with pytest.raises(NotReady):
        group.visible()
    lake.refusing = "main"
    with pytest.raises(Conflict):
        group.publish_all("monday", {t: {"part": "monday", "value": 1} for t in TABLES}, is_new=lambda: True)
    with pytest.raises(NotReady, match="not published together yet"):
        group.visible()
