"""A person is gone from a platform of the case study, and does not come back, while visits land."""

from __future__ import annotations

import json
import tempfile
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from dedp_assets.case_study.defs.bronze.users import HISTORY
from dedp_assets.case_study.defs.silver.users import USERS, USERS_CURRENT
from dedp_assets.cli import main
from dedp_assets.graph.resources.environments import variable
from dedp_assets.graph.resources.lake import lake_of
from dedp_assets.patterns.delta import store_at
from tests.canaries import Canary, Search, people, texts_in
from tests.case_study.assets.conftest import day, visits_of
from tests.delta.storage.versioned import Owner
from tests.helpers import a_run
from tests.running import LAKES

pytestmark = [
    pytest.mark.spark,
    pytest.mark.both,
    pytest.mark.budget(120, "a platform before, while and after a person is erased, to the last byte of its files"),
]

PEOPLE = [canary.value.decode() for canary in people(204)]
GONE = "user-4711-canary"
MAIL, LOGIN, ADDRESS, AGENT = PEOPLE[0], PEOPLE[4], "203.0.113.77", "Canary/4711 (of one person)"
PERSONS = PEOPLE[5:]
"""Further persons, of whom each one came once, and who are erased by the same request."""
VALUES = (GONE, MAIL, LOGIN, AGENT, *PERSONS)
AT = datetime(2026, 1, 5, tzinfo=timezone.utc)


def visit(number, landed=0, **fields):
    """A line of the person's visits."""
    at = (AT + timedelta(days=landed, minutes=number)).isoformat().replace("+00:00", "Z")
    known = {"visit_id": f"c{landed}-{number}", "event_time": at, "user_id": GONE, "page": "/home", "ip": ADDRESS}
    return json.dumps({**known, "user_agent": AGENT, "status": 200, "bytes": 1, **fields})


def capture(world, number, *users):
    """Let users be captured at the n-th minute."""
    table, at, rows = lake_of(world.settings).table(HISTORY), AT + timedelta(minutes=number), []
    for place, (user, mail, login) in enumerate(users):
        after = {"user_id": user, "login": login, "email": mail, "credit": "1.00", "active": "true"}
        key = json.dumps({"user_id": user})
        rows.append((number, place, "insert", key, None, json.dumps(after), at, at.date()))
    schema = ", ".join(f"{name} {column.type}" for name, column in HISTORY.columns.items())
    table.append(
        table.session.createDataFrame(rows, schema),
        provenance=a_run(HISTORY.name, run_id=f"run-{number}", sequence=number),
    )
    for spec in (USERS, USERS_CURRENT):
        assert world.compute(spec.name).failure == ""


@pytest.fixture(autouse=True)
def versioned(monkeypatch):
    """The owner of a bucket with versioning, if lakes are in buckets: this one is in it then."""
    if not variable(LAKES):
        return None
    owner = Owner.of("versioned")
    monkeypatch.setenv(LAKES, f"s3://{owner.bucket}/lakes")
    return owner


def versions_of(lake):
    """Path of each version that the bucket of a lake keeps -> its content; nothing of a folder."""
    if "://" not in lake:
        return {}
    store = store_at(lake)
    kept = Owner.of(store.bucket).kept(f"{store.root}/")
    return {f"{each.key.removeprefix(store.root)[1:]}@{each.version_id}": content for each, content in kept.items()}


def hits(world):
    """The places of the home and of the lake that hold a value of the person; of a bucket by copies of all versions."""
    search = Search([Canary(value, value.encode()) for value in VALUES])
    with tempfile.TemporaryDirectory() as copied:
        for path, content in versions_of(world.settings.lake).items():
            file = Path(copied, path)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
        folders = {world.settings.home, Path(copied)}
        found = [name for folder in folders for name, content in texts_in(folder) if search.found(content)]
    return sorted({name for name in found if "/cache/" not in name and not name.startswith("cache/")})


def said(capsys, *words):
    """Exit code and output of a command."""
    code = main([*words])
    return code, "".join(capsys.readouterr())


def test_a_person_is_gone_and_does_not_come_back(world, capsys, tmp_path):
    """By command: a plan, an approval, the erasure, what is computed again, the end; then late lines and a replay."""
    for number in range(2):
        broken = [visit(90 + number, number, event_time="not a time")]
        once = [visit(200 + n, number, user_id=each) for n, each in enumerate(PERSONS[number::2])]
        world.land(day(number), [*visits_of(number, count=400), *[visit(n, number) for n in range(3)], *once, *broken])
    capture(world, 1, (GONE, MAIL, LOGIN), ("u1", "eve@elsewhere.org", "eve"))
    world.react()
    assert {row["user_id"] for row in world.rows("silver/users_current")} == {GONE, "u1"}
    assert hits(world)
    all_is_told(capsys, tmp_path)
    others = {name: rows_of_others(world, name) for name in ("silver/visits", "silver/users_current")}
    nothing_is_left(world, capsys)
    assert {name: rows_of_others(world, name) for name in others} == others
    nobody_comes_back(world, capsys)
    the_demo_erases_a_visitor(world, capsys)


def all_is_told(capsys, folder):
    """What is known of the person, in every table, for the person."""
    code, out = said(capsys, "about", "--subject", GONE, "--because", "SAR-1", "--by", "support", "--to", str(folder))
    assert code == 0, out
    files = [folder / "SAR-1.json", folder / "SAR-1.html"]
    known = {each["table"]: each["count"] for each in json.loads(files[0].read_text())["tables"]}
    assert (known["bronze/visits"], known["silver/visits"], known["silver/users_current"]) == (8, 6, 1)
    assert all(GONE in file.read_text() and file.stat().st_mode & 0o077 == 0 for file in files)
    for file in files:
        file.unlink()


def nothing_is_left(world, capsys):
    """A plan erases nothing, an approval does, and what is computed again ends the case: no byte is left."""
    persons = [word for each in (GONE, *PERSONS) for word in ("--subject", f"user={each}")]
    code, out = said(capsys, "erase", *persons, "--because", "GDPR-1", "--most", "1")
    assert (code, "dedp erase --because GDPR-1 --by NAME" in out) == (0, True), out
    assert {row["user_id"] for row in world.rows("silver/users_current")} == {GONE, "u1"}
    _, out = said(capsys, "erase", "--because", "GDPR-1", "--by", "legal", "--most", "1")
    assert not [value for value in VALUES if value in out]
    world.react()
    code, out = said(capsys, "erase", "--because", "GDPR-1", "--most", "1")
    assert (code, "ended on" in out) == (0, True), out
    assert ("versions of objects" in out) == ("://" in world.settings.lake)
    assert hits(world) == []


def nobody_comes_back(world, capsys):
    """By a new delivery, a late file, a broken record, or a capture; another request takes them where they lie."""
    again = [visit(60 + n, 2, user_id=person) for n, person in enumerate(PERSONS[:9])]
    world.land(day(2), [*visits_of(2, count=400), *again, visit(1, 2), visit(2, 2, event_time="not a time")])
    (world.landing / "visits" / day(0) / "late-000.jsonl").write_text(visit(50, 0) + "\n")
    capture(world, 2, (GONE, MAIL, LOGIN), ("u2", "bob@elsewhere.org", "bob"))
    world.react()
    assert not [row for row in world.rows("silver/visits") if row["user_id"] in VALUES]
    assert {row["user_id"] for row in world.rows("silver/users_current")} == {"u1", "u2"}
    assert {place.split("/")[0] for place in hits(world)} == {"landing"}
    persons = [word for each in (GONE, *PERSONS[:9]) for word in ("--subject", f"user={each}")]
    again = said(capsys, "erase", *persons, "--because", "GDPR-2", "--by", "legal")
    world.react()
    assert said(capsys, "erase", "--because", "GDPR-2")[0] == 0, again
    assert hits(world) == []


def the_demo_erases_a_visitor(world, capsys):
    """By the same commands, which it shows; visits of the visitor that land meanwhile are left out."""
    world.land(day(3), [visit(n, 3, user_id="u-visitor") for n in range(2)] + visits_of(3, count=400))
    world.react()
    code, out = said(capsys, "demo", "--erase")
    assert (code, "silver/visits has 0 rows of the visitor" in out) == (0, True), out
    assert "$ dedp erase --because DEMO-3 --by demo" in out


def rows_of_others(world, table):
    """Rows of a table that are not the person's; a line of a changed file has another number."""
    found = [{**row, "line_number": 0} for row in world.rows(table) if row["user_id"] not in VALUES]
    return sorted(found, key=str)
