"""Plans of erasures, and runs of an erasure that die."""

from __future__ import annotations

import json
import os
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest

from dedp_assets.graph.erasure.cases import DEADLINE, Cases
from dedp_assets.graph.erasure.erasing import Eraser
from dedp_assets.graph.resources.lake import Lake
from dedp_assets.graph.resources.spark import SparkEngine
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta.maintenance import hold_partition
from dedp_assets.patterns.governance.gdpr_erase import Erasure
from tests.canaries import Canary, Search, texts_in
from tests.delta.storage.versioned import Owner
from tests.helpers import a_run
from tests.rotation import rotated

pytestmark = [pytest.mark.spark, pytest.mark.budget(60, "an erasure that dies at each of its writes of a file")]

EVERY = 5
"""Step from one death to the next; a change of the library begins at another write."""
AT = datetime(2026, 1, 5, tzinfo=timezone.utc)
ADA = "ada.lovelace@example.com"
PERSON = Column("STRING", classification="personal", subject="user")
USERS, VISITS = TableSpec("silver/users", {"user": PERSON}), TableSpec("silver/visits", {"user": PERSON})


def platform(home, spark, *names):
    """A platform of two tables, a landed file and a log that name some persons."""
    lake = Lake(root=str(home / "lake"), engine=SparkEngine())
    tables = {spec.name: lake.table(spec) for spec in (USERS, VISITS)}
    for table in tables.values():
        table.overwrite(spark.createDataFrame([(name,) for name in names], "user STRING"), provenance=a_run())
    lines = "".join(json.dumps({"user": name}) + "\n" for name in names)
    for file in (home / "landing/visits/a.jsonl", home / "logs/server.log"):
        file.parent.mkdir(parents=True)
        file.write_text(lines)
    cases = Cases(home / "erasures", home / "keys")
    return Eraser(lake, tables, home, str(home / "landing"), cases)


def test_the_deadline_counts_from_the_first_plan(tmp_path, spark):
    """A plan that is made again, of other ids or with another share, wins no time."""
    eraser = platform(tmp_path, spark, "ada", "bob")
    eraser.plan(Erasure(request="T-1", ids={"user": ["ada"]}, at=AT))
    again = eraser.plan(Erasure(request="T-1", ids={"user": ["bob"]}, at=AT + timedelta(days=29)))
    assert again.due == AT + DEADLINE
    assert eraser.cases.ids(again) == {"user": ["bob"]}
    assert [(place.name, place.found) for place in again.places] == [("silver/users", 1), ("silver/visits", 1)]


class Dying:
    """Writes of files of this process, of which the n-th and all later ones do not happen."""

    def __init__(self, monkeypatch, number):
        self.left = number
        for name in ("replace", "link"):
            monkeypatch.setattr(os, name, self.dying(getattr(os, name)))

    def dying(self, write):
        """A write that dies in its turn."""

        def now(*paths, **options):
            self.left -= 1
            if self.left <= 0:
                raise SystemExit
            return write(*paths, **options)

        return now


def test_a_run_that_died_at_any_write_is_ended_by_the_next(tmp_path, spark, monkeypatch):
    """Nothing of the person is left, others are whole, and the report counts each row once."""
    number, died = rotated(0, range(1 - EVERY, 1))[0], True
    while died:
        number += EVERY
        home = tmp_path / str(number)
        eraser = platform(home, spark, ADA, "bob", "eve")
        case = eraser.plan(Erasure(request="T-1", ids={"user": [ADA]}, at=AT))
        eraser.cases.keep(replace(case, approved_by="legal"))
        with monkeypatch.context() as patch, suppress(SystemExit):
            dying = Dying(patch, number)
            eraser.erase(eraser.cases.case("T-1"), a_run(), now=AT + timedelta(days=1))
        died = dying.left <= 0
        case = eraser.erase(eraser.cases.case("T-1"), a_run(), now=AT + timedelta(days=2))
        assert case.ended
        found = {place.name: place.found for place in case.places if place.kind == "table"}
        assert found == {"silver/users": 1, "silver/visits": 1}, number
        assert sorted(row.user for row in eraser.tables["silver/users"].read().collect()) == ["bob", "eve"]
        assert [json.loads(line) for line in (home / "landing/visits/a.jsonl").read_text().splitlines()] == [
            {"user": "bob"},
            {"user": "eve"},
        ]
        search = Search([Canary("ada", ADA.encode())])
        assert [name for name, content in texts_in(home) if search.found(content)] == []
    assert number > 20


def test_versions_that_the_erasure_itself_leaves_go_with_the_others(tmp_path, spark, object_store, monkeypatch):
    """In a landing zone: a locked version is open by a date, a later run ends it, and each is counted once."""
    prefix, eraser = f"{uuid.uuid4().hex[:8]}/landing", platform(tmp_path, spark, ADA, "bob")
    assert eraser.lake.engine.session  # begun here, as the engine of the tests has no jars for buckets
    with object_store.named(monkeypatch):
        owner = Owner.of("locked", lock=True)
        lines = [json.dumps({"user": name}) + "\n" for name in (ADA, "bob")]
        ids = [owner.put(f"{prefix}/visits/a.jsonl", f"{lines[0]}{lines[1] * n}".encode()) for n in range(1, 4)]
        owner.hold(f"{prefix}/visits/a.jsonl", ids[0], "ON")
        eraser = replace(eraser, landing=f"s3://{owner.bucket}/{prefix}")
        case = eraser.plan(Erasure(request="T-1", ids={"user": [ADA]}, at=AT))
        eraser.cases.keep(replace(case, approved_by="legal"))
        case = eraser.erase(eraser.cases.case("T-1"), a_run(), now=AT + timedelta(days=1))
        (place,) = case.open
        assert (place.name, place.found, place.due) == ("landing zone: versions of objects", 2, "2026-02-04")
        assert sorted(owner.kept(prefix).values()) == sorted([(lines[1] * 3).encode(), "".join(lines).encode()])
        owner.hold(f"{prefix}/visits/a.jsonl", ids[0], "OFF")
        case = eraser.erase(case, a_run(), now=AT + timedelta(days=2))
        assert case.ended
        (place,) = [each for each in case.places if each.kind == "bucket"]
        assert (place.state, place.found, place.due) == ("erased", 3, "")
        assert place.figures["versions_removed"] == 3
        assert [*owner.kept(prefix).values()] == [(lines[1] * 3).encode()]


def test_versions_of_held_and_of_damaged_tables_stay(tmp_path, spark):
    """A hold keeps what was there, and a commit that was lost is put back from its version."""
    eraser = platform(tmp_path, spark, ADA, "bob")
    columns = {"day": Column("STRING"), "n": Column("INT")}
    held = eraser.lake.table(TableSpec("silver/days", columns, partition_by=("day",)))
    held.overwrite(spark.createDataFrame([("2026-01-05", 1)], "day STRING, n INT"), provenance=a_run())
    hold_partition(held, {"day": "2026-01-05"}, a_run(), by="legal", because="case 17", release=False)
    assert eraser._standing() == ["silver/days"]
    for commit in (tmp_path / "lake/silver/users/_delta_log").glob("*.json"):
        commit.write_bytes(b"{")
    assert eraser._standing() == ["silver/days", "silver/users"]


def test_two_erasures_at_once_are_one_after_the_other(tmp_path, spark):
    """By a command and by the job of the platform: each ends, and the report counts each row once."""
    eraser = platform(tmp_path, spark, ADA, "bob")
    case = eraser.plan(Erasure(request="T-1", ids={"user": [ADA]}, at=AT))
    approved = eraser.cases.keep(replace(case, approved_by="legal"))
    with ThreadPoolExecutor(2) as both:
        ended = [both.submit(eraser.erase, approved, a_run(), now=AT + timedelta(days=1)) for _ in range(2)]
    assert [each.result() for each in ended] == [eraser.cases.case("T-1")] * 2
    found = {place.name: place.found for place in eraser.cases.case("T-1").places if place.kind == "table"}
    assert found == {"silver/users": 1, "silver/visits": 1}
