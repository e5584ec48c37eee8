"""A migration of silver/visits with its readers in gold, from the first phase to the last one, while visits land."""

from __future__ import annotations

import json
import sys
import threading
from contextlib import contextmanager, suppress
from io import StringIO
from itertools import pairwise

import pytest
from deltalake import DeltaTable
from rich.console import Console

import dedp_assets
from dedp_assets.graph.declare.editions import Edition, edition_at
from dedp_assets.migrating import deploy, land
from dedp_assets.patterns.core.schema import Column
from dedp_assets.patterns.delta import Ledger
from dedp_assets.patterns.quality._phases import PHASES
from dedp_assets.patterns.quality.schema_migrator import Migration
from dedp_assets.resources.environments import settings
from tests.assets.conftest import day, visits_of, world_in
from tests.helpers import write_log

pytestmark = pytest.mark.budget(40, "a platform whose code is loaded once for each deployment of a migration")
CODE = ("dedp_assets.defs", "dedp_assets.definitions", "sensors", "resources")
OLD, NEW = {"bytes", "device_type", "device_version"}, {"response_bytes", "device"}
MIGRATION = Migration(name="v2", rename={"a": "b"}, nest={"user": {"login": "x", "age": "y"}})
NEW_COLUMNS = {"b": Column("INT"), "user": Column("STRUCT<login: STRING, age: INT>")}


def edition(reached):
    return Edition("silver/users", MIGRATION, NEW_COLUMNS, reached)


@pytest.mark.parametrize(
    ("reached", "declared", "reads"),
    [
        (None, {"id", "a", "x", "y"}, "old"),
        ("declared", {"id", "a", "x", "y", "b", "user"}, "old"),
        ("added", {"id", "a", "x", "y", "b", "user"}, "old"),
        ("both", {"id", "a", "x", "y", "b", "user"}, "new"),
        ("switched", {"id", "b", "user"}, "new"),
        ("removed", {"id", "b", "user"}, "new"),
    ],
)
def test_the_phase_chooses_what_code_declares_and_reads(reached, declared, reads):
    """New columns from the announcement on, new readers once both forms are complete, old ones until they moved on."""
    code, before = edition(reached), {name: Column("INT") for name in ("id", "a", "x", "y")}
    assert {*code.columns(before)} == declared
    old = reads == "old"
    assert code.sql("y") == ("`y`" if old else "`user`.`age`")
    assert code.sql("id") == "`id`"
    assert code.origins("a", "x", "y", "id") == (["a", "x", "y", "id"] if old else ["b", "user", "id"])
    assert {*code.readable(declared)} == declared - (set() if old else {"a", "x", "y"})
    assert (code.reader("1") == "1") == old


def test_the_phase_is_that_of_the_log_and_of_no_other_migration(tmp_path):
    """A table that is not there, that knows no migration, or one of other moves by the same name, has the old code."""
    ledger = Ledger(tmp_path / "users", name="silver/users")
    assert edition_at(ledger, MIGRATION, NEW_COLUMNS).reached is None
    write_log(tmp_path / "users", {"a": "integer"}, [], [])
    assert edition_at(ledger, MIGRATION, NEW_COLUMNS).reached is None
    log = tmp_path / "users/_delta_log"
    metadata = next(
        json.loads(line) for line in (log / f"{0:020d}.json").read_text().splitlines() if "metaData" in line
    )
    for number, (moves, reached) in enumerate([({"drop": ["a"]}, None), (MIGRATION.moves, "both")], 1):
        state = {"phase": "both", "at": {}, "deadline": "", "moves": json.loads(json.dumps(moves))}
        metadata["metaData"]["configuration"] = {"dedp.migration.v2": json.dumps(state)}
        (log / f"{number:020d}.json").write_text(json.dumps(metadata))
        assert edition_at(Ledger(tmp_path / "users"), MIGRATION, NEW_COLUMNS).reached == reached


class Killed(Exception):
    """The end of a process right after a phase."""


class Terminal(Console):
    """What a deployment prints; one that dies does so as soon as it has entered a phase."""

    def __init__(self, *, dies=False):
        super().__init__(file=StringIO(), width=1000)
        self.dies = dies

    def print(self, *words, **options):
        super().print(*words, **options)
        if self.dies and "phase" in str(words[0]):
            raise Killed

    @property
    def text(self):
        return self.file.getvalue()


@contextmanager
def code_loaded():
    """The code of the graph as a new process loads it; the code of this process is put back after."""
    held = _loaded()
    for name in held:
        del sys.modules[name]
    try:
        yield
    finally:
        for name in _loaded():
            del sys.modules[name]
        sys.modules.update(held)
        for name in ("defs", "definitions"):
            if f"dedp_assets.{name}" in held:
                setattr(dedp_assets, name, held[f"dedp_assets.{name}"])


def _loaded():
    return {name: each for name, each in sys.modules.items() if any(f"{name}.".startswith(f"{code}.") for code in CODE)}


def logical(row):
    """The size and the device of a visit, in either form; the forms of a row that has both are equal."""
    device = row.get("device") or {"type": None, "version": None}
    old = (row.get("bytes"), row.get("device_type"), row.get("device_version"))
    new = (row.get("response_bytes"), device["type"], device["version"])
    assert None in (old[0], new[0]) or old == new
    return old if old[0] is not None else new


def looked_at(path, version=None):
    """Version of the table, its columns, and its visits by an independent reader."""
    table = DeltaTable(path, version=version)
    rows = table.to_pyarrow_table().to_pylist()
    return table.version(), {field.name for field in table.schema().fields}, {r["visit_id"]: logical(r) for r in rows}


def truth(landing):
    """Size and device of each landed visit."""
    lines = [json.loads(line) for file in landing.glob("visits/*/*.jsonl") for line in file.read_text().splitlines()]
    return {each["visit_id"]: (each["bytes"], each["device_type"], each["device_version"]) for each in lines}


@pytest.fixture(scope="module")
def played(spark, tmp_path_factory):
    """The migration, played by five deployments, one of which died in the middle; what they said, and a reader saw."""
    with world_in(tmp_path_factory.mktemp("home")) as world:
        for number in range(2):
            world.land(day(number), visits_of(number, count=20))
        assert len(world.react()) == 2
        path, seen, over = str(world.settings.lakehouse / "silver/visits"), [], threading.Event()

        def read():
            while not over.wait(2):
                seen.append(looked_at(path))

        reader = threading.Thread(target=read)
        reader.start()
        said = []
        try:
            for number, dies in enumerate([False, True, False, False, False]):
                if number in (1, 4):
                    assert [*land(settings(), count=20)]
                terminal = Terminal(dies=dies)
                nightly = ["gold/visits_cube"] if number == 3 else []
                with code_loaded(), suppress(Killed):
                    assert deploy(settings(), terminal, nightly=nightly) == 0, terminal.text
                said.append(terminal.text)
        finally:
            over.set()
            reader.join()
        yield world, said, seen


@pytest.mark.spark
def test_each_version_holds_each_visit_in_one_form_or_in_both_alike(played):
    """Of all versions and for a reader in a loop: the size and the device that landed, in old columns or new ones."""
    world, _, seen = played
    path, landed = str(world.settings.lakehouse / "silver/visits"), truth(world.landing)
    versions = [looked_at(path, version) for version in range(1, world.ledger("silver/visits").version() + 1)]
    for _, columns, visits in [*versions, *seen]:
        assert columns >= OLD or columns >= NEW
        assert visits.items() <= landed.items()
    assert len({version for version, *_ in seen}) > 3
    ids = [{*visits} for _, _, visits in versions]
    assert all(before <= after for before, after in pairwise(ids))  # no visit ever goes
    assert versions[-1][2] == landed


@pytest.mark.spark
def test_every_phase_is_told_with_rows_and_readers(played):
    """Counts of the comparison, and who reads the old columns, by name, until the readers of the new code ran."""
    _, said, _ = played
    assert not [text for text in said if "refused" in text]
    phases = [line for text in said for line in text.splitlines() if line.startswith("  phase")]
    assert [line.split()[2] for line in phases] == [*PHASES]
    assert "gold/daily_visitors reads bytes" in phases[0]
    assert "gold/visits_cube reads bytes, device_type" in phases[2]
    assert "63 rows; 0 differing; 1 filled partitions" in phases[2]
    assert all("nobody reads the old columns" in line for line in phases[3:])


@pytest.mark.spark
def test_gold_is_computed_from_the_new_columns_of_late_filled_and_new_days(played):
    """The sums of gold are those of what landed, of each day; the old columns are gone from the table."""
    world, _, _ = played
    sizes = {row["event_date"].isoformat(): row["bytes"] for row in world.rows("gold/daily_visitors")}
    expected = {}
    for row in world.rows("silver/visits"):
        key = row["event_date"].isoformat()
        expected[key] = expected.get(key, 0) + row["response_bytes"]
    assert sizes == expected
    assert len(sizes) == 4
    assert not OLD & {*world.rows("silver/visits")[0]}
    assert {*world.rows("silver/visits")[0]} >= NEW
