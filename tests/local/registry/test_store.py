"""Stores of the registry: two writers at once, and a process that is killed between any two steps."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import psycopg
import pytest

from dedp_assets.local.registry import store as stores
from dedp_assets.local.registry.schemas import Content, RegistryError, content_of
from dedp_assets.local.registry.store import FileStore, PostgresStore
from dedp_assets.local.registry.subjects import Subjects
from dedp_assets.patterns.core.errors import NotReady
from dedp_assets.patterns.quality.schema_compatibility_enforcer import judge_schema
from dedp_assets.resources.environments import child_environment, child_path
from tests.local.registry.judging import APART, record


def of(*fields, **options):
    """A content."""
    return content_of({"schema": record(*fields, **options)})


def register(store, subject, content):
    """A version, or the code of the refusal."""
    try:
        with store.writing(subject) as records:
            return Subjects(records, judge_schema).register(subject, content)
    except RegistryError as error:
        return error.code


def at_once(calls):
    """The results of calls that begin at the same time, each in a thread."""
    together = Barrier(len(calls))

    def one(call):
        together.wait()
        return call()

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(one, calls))


def numbers(store, subject):
    """The numbers of a subject's versions."""
    with store.reading() as records:
        return Subjects(records, judge_schema).numbers(subject, deleted=True)


def test_of_two_schemas_that_exclude_each_other_one_wins(store):
    """All fit the first version, and none of them another: the losers are judged again, and get no version."""
    register(store, "s", of("a"))
    results = at_once([lambda kind=kind: register(store, "s", of("a", f"b:{kind}=")) for kind in APART])
    assert sorted(map(str, results))[:-1] == ["40901"] * (len(APART) - 1)
    assert numbers(store, "s") == [1, 2]


def test_schemas_that_fit_each_other_get_a_version_each(store):
    """Without gaps, and with an id for each."""
    made = at_once([lambda n=n: register(store, "s", of("a", f"b{n}=")) for n in range(6)])
    assert sorted(each.number for each in made) == numbers(store, "s") == [1, 2, 3, 4, 5, 6]
    assert len({each.id for each in made}) == 6


def test_a_schema_that_many_register_has_one_id(store):
    """In one subject it is one version, in several subjects one of each."""
    made = at_once([lambda n=n: register(store, f"s{n % 3}", of("a")) for n in range(6)])
    assert {each.id for each in made} == {made[0].id}
    assert sorted({(each.subject, each.number) for each in made}) == [("s0", 1), ("s1", 1), ("s2", 1)]


WORKER = """
import os, signal, sys
from pathlib import Path
from dedp_assets.local.registry.schemas import content_of
from dedp_assets.local.registry.store import FileStore, PostgresStore
from dedp_assets.local.registry.subjects import Subjects
from dedp_assets.patterns.quality.schema_compatibility_enforcer import judge_schema
from tests.local.registry.judging import record

kind, place, step, first, last = sys.argv[1:]
if kind == "file":
    store = FileStore(Path(place))
else:
    import psycopg
    store = PostgresStore(lambda: psycopg.connect(place))

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

def before(owner, name, after=False):
    call = getattr(owner, name)
    setattr(owner, name, lambda *given: (call(*given) if after else None, die()))

def register(number):
    with store.writing("s") as records:
        Subjects(records, judge_schema).register("s", content_of({"schema": record("a", f"b{number}=")}))
        if step == "in the block":
            die()

if step == "before the file is written":
    before(FileStore, "_write")
if step == "before the file is whole":
    before(os, "fsync")
if step == "before the file is replaced":
    before(Path, "replace")
if step == "after the file was replaced":
    before(Path, "replace", after=True)
for number in range(int(first), int(last)):
    register(number)
    print(number, flush=True)
"""


@pytest.fixture
def worker(store, request):
    """``worker(step, first, last)``: a process that registers schemas, and is killed at a step."""
    if isinstance(store, FileStore):
        where = ("file", str(store._file.parent))
    else:
        own = request.getfixturevalue("database")
        url = f"postgresql://{own.user}:{own.password}@{own.host}:{own.port}/{own.database}"
        where = ("postgres", url)

    def start(step, first, last):
        words = [sys.executable, "-c", WORKER, *where, step, str(first), str(last)]
        environment = child_environment({"PYTHONPATH": child_path(sys.path)})
        return subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment)

    return start


STEPS = {
    "before the file is written": 1,
    "before the file is whole": 1,
    "before the file is replaced": 1,
    "after the file was replaced": 2,
    "in the block": 1,
}


def test_a_killed_process_leaves_a_request_whole_or_not_at_all(store, worker):
    """Whatever the step; the next one finds no lock, and goes on where the schemas are."""
    register(store, "s", of("a"))
    expected = 1
    for step, kept in STEPS.items():
        if isinstance(store, PostgresStore) and step != "in the block":
            continue
        with worker(step, expected, expected + 1) as process:
            assert process.communicate(timeout=120)[0] == ""
        assert process.returncode == -signal.SIGKILL
        assert len(numbers(store, "s")) == expected + kept - 1, step
        assert register(store, "s", of("a", f"x{expected}=")).number == expected + kept
        expected += kept


def test_processes_share_a_store(store, worker):
    """Two at once and a third in this process: each schema has a version, without gaps."""
    with worker("none", 0, 8) as one, worker("none", 8, 16) as other:
        mine = [register(store, "s", of("a", f"c{n}=")) for n in range(4)]
        assert [len(each.communicate(timeout=120)[0].split()) for each in (one, other)] == [8, 8]
    assert numbers(store, "s") == [*range(1, 21)]
    assert len({each.id for each in mine}) == 4


def test_an_unreadable_file_is_no_empty_registry(tmp_path):
    """It is refused, and left as it is."""
    store = FileStore(tmp_path)
    register(store, "s", of("a"))
    file = tmp_path / "schemas.json"
    for broken in (file.read_text()[:-5], "[]", "{}"):
        file.write_text(broken)
        assert register(store, "s", of("a", "b=")) == 50001
        assert file.read_text() == broken


def test_what_changes_nothing_writes_nothing(tmp_path, monkeypatch):
    """A schema that is registered already costs no new file."""
    store = FileStore(tmp_path)
    made = register(store, "s", of("a"))
    monkeypatch.setattr(stores.os, "fsync", lambda _: pytest.fail("it was about to write"))
    assert register(store, "s", of("a")) == made


@pytest.mark.parametrize("error", [psycopg.OperationalError("connection refused\nmore"), NotReady("not running")])
def test_a_database_that_does_not_answer_is_an_error_of_the_store(error):
    """50001, in one line."""

    def connect():
        raise error

    with pytest.raises(RegistryError, match=r"\Athe database of the registry does not answer: [^\n]+\Z") as refused:
        numbers(PostgresStore(connect), "s")
    assert (refused.value.code, refused.value.status) == (50001, 500)


def test_contents_are_equal_for_equal_schemas_alone():
    """Another type, metadata or reference makes another identity."""
    one = Content('{"type":"int"}')
    others = [
        Content('{"type":"int"}', "JSON"),
        Content('{"type":"int"}', more='{"metadata":{}}'),
        content_of({"schema": '{"type": "int"}', "references": [{"name": "R", "subject": "r", "version": 1}]}),
    ]
    assert one.guid == content_of({"schema": ' {"type" : "int"} '}).guid
    assert len({one.guid, *(other.guid for other in others)}) == 4
    assert json.loads(one.schema) == {"type": "int"}
