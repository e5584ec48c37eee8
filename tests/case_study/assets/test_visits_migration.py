"""A migration of silver/visits with its readers in gold, from the first phase to the last one, while visits land."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from contextlib import contextmanager, suppress
from io import StringIO
from itertools import pairwise

import pytest
from deltalake import DeltaTable
from rich.console import Console

import dedp_assets
from dedp_assets.case_study.defs.silver.visits import EDITION
from dedp_assets.cli import main
from dedp_assets.commands import _migration as migrating
from dedp_assets.commands._migration import deploy, land
from dedp_assets.graph.declare.editions import Edition, edition_at
from dedp_assets.graph.resources.environments import settings
from dedp_assets.patterns.core.schema import Column
from dedp_assets.patterns.delta import Ledger
from dedp_assets.patterns.quality._migration.phases import PHASES
from dedp_assets.patterns.quality.schema_migrator import Migration
from tests.case_study.assets.conftest import day, visits_of, world_in
from tests.helpers import write_log

pytestmark = pytest.mark.budget(40, "a platform whose code is loaded once for each deployment of a migration")
CODE = ("dedp_assets.case_study.defs", "dedp_assets.definitions", "sensors", "resources")
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


def enter(table, migration, phase):
    """Hand-write the commit of a phase."""
    log = table / "_delta_log"
    first = (log / f"{0:020d}.json").read_text().splitlines()
    metadata = next(json.loads(line) for line in first if "metaData" in line)
    state = {"phase": phase, "at": {}, "deadline": "", "moves": json.loads(json.dumps(migration.moves))}
    metadata["metaData"]["configuration"] = {f"dedp.migration.{migration.name}": json.dumps(state)}
    (log / f"{len([*log.glob('*.json')]):020d}.json").write_text(json.dumps(metadata))


def test_the_phase_is_that_of_the_log_and_of_no_other_migration(tmp_path):
    """No table, none with a migration, one of other moves by the same name, or a damaged log: the old code."""
    users = tmp_path / "users"

    def reached():
        return edition_at(Ledger(users, name="silver/users"), MIGRATION, NEW_COLUMNS).reached

    assert reached() is None
    write_log(users, {"a": "integer"}, [], [])
    assert reached() is None
    enter(users, Migration(name=MIGRATION.name, drop=["a"]), "both")
    assert reached() is None
    enter(users, MIGRATION, "both")
    assert reached() == "both"
    (users / "_delta_log" / f"{3:020d}.json").write_text('{"metaData": ')
    assert reached() is None


def test_the_command_deploys_until_the_last_phase_and_goes_on_where_it_ended(tmp_path, monkeypatch, capsys):
    """A home without visits, a platform that runs, and a refused phase end it; a further call takes the phases left."""
    monkeypatch.setenv("DEDP_HOME", str(tmp_path))
    assert main(["demo", "--migrate"]) == 2
    assert "a migration needs rows" in capsys.readouterr().err
    with monkeypatch.context() as patch:
        patch.setattr(migrating, "running", lambda _: "process 7")
        assert main(["demo", "--migrate"]) == 2
        assert "a platform runs here (process 7)" in capsys.readouterr().err
    visits, codes, deployed = tmp_path / "lakehouse/silver/visits", [0, 1, 0, 0, 0], []
    write_log(visits, {"bytes": "long"}, [], [])
    (tmp_path / "landing/visits/2026-01-05").mkdir(parents=True)

    def deploy_next(command, **_):
        deployed.append(len([*(tmp_path / "landing/visits").glob("*")]))
        if not (code := codes.pop(0)):
            enter(visits, EDITION.migration, PHASES[-1 - len(codes)] if len(codes) < 3 else "declared")
        return subprocess.CompletedProcess(command, code)

    monkeypatch.setattr(migrating.subprocess, "run", deploy_next)
    assert main(["demo", "--migrate"]) == 1
    codes = [0, 0, 0]
    assert main(["demo", "--migrate"]) == 0
    assert deployed == [2, 3, 4, 5, 6]  # a further day had landed before each
    assert main(["demo", "--migrate"]) == 0
    assert len(deployed) == 5  # nothing was left


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
        path, seen, over = world.address("silver/visits"), [], threading.Event()

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
    path, landed = world.address("silver/visits"), truth(world.landing)
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
