"""A ledger that is kept while its table is written, cleaned up and begun again: its answers are those of a new one."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from deltalake import DeltaTable
from hypothesis import given
from hypothesis import strategies as st

from dedp_assets.patterns.core.errors import NotReady
from dedp_assets.patterns.delta import Ledger
from tests.helpers import write_log

DAYS = ["2026-01-05", "2026-01-06", "2026-01-07"]
PARTITIONED_BY = {"day": "date", "hour": "string"}


class World:
    """A folder in which a table is written by hand, begun again with another partition column, and cleaned up."""

    def __init__(self, folder):
        self.place, self.column = folder / "table", "day"

    def append(self, day):
        write_log(self.place, {"id": "long", self.column: PARTITIONED_BY[self.column]}, [self.column], [self.of(day)])

    def of(self, day):
        return {"changed": [{self.column: day}]}

    def begin_again(self, column):
        shutil.rmtree(self.place, ignore_errors=True)
        self.column = column

    def clean_up(self):
        """Leave the newest commit and a checkpoint at it, as Delta's cleanup does after some time."""
        if self.place.exists():
            DeltaTable(str(self.place)).create_checkpoint()
            for file in sorted((self.place / "_delta_log").glob("*.json"))[:-1]:
                file.unlink()


ACTIONS = st.one_of(
    st.tuples(st.just("append"), st.sampled_from(DAYS)),
    st.tuples(st.just("begin_again"), st.sampled_from([*PARTITIONED_BY])),
)


def answers(ledger, column):
    try:
        newest = ledger.version()
    except NotReady as reason:
        return str(reason)
    found = [ledger.latest({column: day}) for day in DAYS]
    return (
        newest,
        [each and (each.version, dict(next(iter(each.changed)))) for each in found],
        ledger.changes(),
        ledger.state().version,
        ledger.state().partition_columns,
        [commit.version for commit in ledger.newest_first(until=newest - 1)],
    )


@given(st.lists(ACTIONS, min_size=1, max_size=12), st.booleans())
def test_a_kept_ledger_answers_as_a_new_one(actions, cleaned):
    """After each append and each new table in the folder, however many commits it has, and after a cleanup."""
    with tempfile.TemporaryDirectory() as folder:
        world = World(Path(folder))
        kept = Ledger(world.place)
        for name, value in actions:
            getattr(world, name)(value)
            assert answers(kept, world.column) == answers(Ledger(world.place), world.column)
        if cleaned:
            world.clean_up()
            assert answers(kept, world.column) == answers(Ledger(world.place), world.column)
