"""What lands: a marker wakes its partition once, whatever happens around it."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import replace
from datetime import date, datetime, timedelta, timezone
from time import sleep

import dagster as dg
import pytest

from dedp_assets.case_study.defs.bronze import devices, visits
from dedp_assets.case_study.defs.bronze.partner_visits import partner_visits as partners
from dedp_assets.case_study.sources import devices as devices_source
from dedp_assets.graph.declare import job_of
from dedp_assets.graph.declare.partitions import DAILY
from dedp_assets.graph.outcomes.refusals import Refusal, Refusals
from dedp_assets.graph.outcomes.run_tags import goal_of, keys_of
from dedp_assets.graph.reconcile import arrivals, backlogs
from dedp_assets.graph.resources.landing import Landing
from dedp_assets.graph.sensors.reconciler import reconciler
from dedp_assets.patterns.connectors.landing.deliveries import delivery_at
from dedp_assets.patterns.delta import transaction_id
from dedp_assets.patterns.delta.storage.local_store import LocalStore
from dedp_assets.patterns.ingestion.readiness_marker import delivering
from tests.helpers import a_record


def watching():
    """The sensor over the visits that land, as after a restart."""
    return reconciler([visits.visits], [job_of(visits.visits)], asks_for="deliveries")


visits_delivered = watching()
devices_delivered = reconciler([devices.devices], [job_of(devices.devices)], asks_for="deliveries")


def deliver(zone, day: str, *names: str) -> None:
    with delivering(zone.landing / "visits" / day) as folder:
        for name in names or ("part-000.jsonl",):
            (folder / name).write_text("{}\n")


def loaded(zone, day: str, at: str = "") -> dict:
    """The commit that bronze makes of what lies in a day's folder now."""
    landing = Landing(root=str(zone.landing))
    inputs = {f"landing/visits/{day}": landing.content("visits", landing.delivery("visits", day))}
    notes = {"delivery": delivery_at(zone.landing / "visits" / day).identity}
    record = a_record("bronze/visits", {"landed_on": day}, notes=notes, inputs=inputs, at=at)
    txn = {transaction_id("bronze/visits", {"landed_on": day}, 0): 1}
    return {"changed": [{"landed_on": day, "event_date": day}], "record": record, "txn": txn}


def test_no_marker_no_run(zone, keys):
    """Data files without a marker are waited for, and the reason says so."""
    folder = zone.landing / "visits" / "2026-01-05"
    folder.mkdir(parents=True)
    (folder / "part-000.jsonl").write_text("{}\n")
    data = zone.tick(visits_delivered)
    assert keys(data) == []
    assert "2026-01-05: 1 files but no _SUCCESS: the producer has not finished" in data.skip_message


def test_marker_wakes_exactly_its_partition_once(zone, keys):
    """One request when the marker appears; its key stays the same, so repeated ticks start nothing more."""
    deliver(zone, "2026-01-05")
    first, second = zone.tick(visits_delivered), zone.tick(visits_delivered)
    assert keys(first) == ["2026-01-05"]
    assert [r.run_key for r in second.run_requests] == [r.run_key for r in first.run_requests]
    zone.bronze(loaded(zone, "2026-01-05"))
    assert keys(zone.tick(visits_delivered)) == []


def test_partitions_come_oldest_first(zone, keys):
    """Several ready days are requested in order."""
    for day in ("2026-01-07", "2026-01-05", "2026-01-06"):
        deliver(zone, day)
    assert keys(zone.tick(visits_delivered)) == ["2026-01-05", "2026-01-06", "2026-01-07"]


def test_deliveries_of_a_table_with_slots_are_asked_for_as_far_as_slots_are_free(zone, keys):
    """Of six days of partners four, those in flight counted, as many as its pool holds; then others."""
    asking, days = (
        reconciler([partners], [job_of(partners)], asks_for="deliveries"),
        [f"2026-01-{number:02}" for number in range(5, 11)],
    )
    for day in days:
        with delivering(zone.landing / "partner_visits" / day) as folder:
            (folder / "magazine.jsonl").write_text("{}\n")

    def start(requests):
        for request in requests:
            tags = {**request.tags, "dagster/partition": request.partition_key}
            zone.instance.add_run(dg.DagsterRun(request.job_name, tags=tags, status=dg.DagsterRunStatus.STARTED))

    first = zone.tick(asking).run_requests
    assert [request.partition_key for request in first] == days[:4]
    assert {pool.name: pool.limit for pool in zone.instance.event_log_storage.get_pool_limits()} == {partners.name: 4}
    start(first[:3])
    second = zone.tick(asking).run_requests
    assert [request.partition_key for request in second] == days[3:4]
    start(second)
    said = zone.tick(asking).skip_message
    taken = ", ".join(f"bronze/partner_visits {day}" for day in days[:4])
    assert f"4 of 4 slots of bronze/partner_visits are taken: {taken}" in said
    for run in zone.instance.get_runs()[-2:]:
        zone.instance.delete_run(run.run_id)
    assert len(keys(zone.tick(asking))) == 2


def test_a_restarted_daemon_asks_for_nothing_twice(zone):
    """What was loaded is known from the ledger, and the rest keeps its run key."""
    deliver(zone, "2026-01-05")
    deliver(zone, "2026-01-06")
    before = {r.partition_key: r.run_key for r in zone.tick(visits_delivered).run_requests}
    zone.bronze(loaded(zone, "2026-01-05"))
    after = {r.partition_key: r.run_key for r in zone.tick(watching()).run_requests}
    assert after == {"2026-01-06": before["2026-01-06"]}


@pytest.mark.parametrize("many", [0, 1_000], ids=["by the list of all days", "one by one"])
def test_a_folder_that_is_no_day_of_the_lake_is_named_and_left_alone(zone, keys, many, monkeypatch):
    """Days before the first partition, in the future, or not in the calendar start nothing and are reported."""
    monkeypatch.setattr(arrivals, "_MANY", many)
    for name in ("2026-02-31", "2019-01-01", "2026-01-21", "latest"):
        deliver(zone, name)
    deliver(zone, "2026-01-20")
    data = zone.tick(visits_delivered)
    assert keys(data) == ["2026-01-20"]
    zone.bronze(loaded(zone, "2026-01-20"))
    said = zone.tick(watching()).skip_message
    assert all(f"{name}: is no day between" in said for name in ("2026-02-31", "2019-01-01", "2026-01-21", "latest"))


def test_a_marked_day_is_not_forgotten_while_it_waits(zone, keys):
    """A day held back at one tick is looked at again at the next, though nothing in its folder changed."""
    folder = zone.landing / "visits" / "2026-01-05"
    folder.mkdir(parents=True)
    (folder / "_SUCCESS").touch()
    assert "is there but no file" in zone.tick(visits_delivered).skip_message
    old = (datetime(2026, 1, 6, tzinfo=timezone.utc) - timedelta(days=300)).timestamp()
    (folder / "part-000.jsonl").write_text("{}\n")
    os.utime(folder / "part-000.jsonl", (old, old))
    os.utime(folder, (old, old))
    assert keys(zone.tick(visits_delivered)) == ["2026-01-05"]


def test_late_file_of_a_loaded_day_is_requested_when_it_has_settled(zone, keys):
    """A file that came after the marker is left alone while it may grow, then read, with its cause on the run."""
    deliver(zone, "2026-01-05")
    zone.bronze(loaded(zone, "2026-01-05"))
    zone.tick(visits_delivered)
    late = zone.landing / "visits" / "2026-01-05" / "late.jsonl"
    late.write_text("{}\n")
    zone.now = datetime.fromtimestamp(late.stat().st_mtime + 0.5, timezone.utc).isoformat()
    growing = zone.tick(visits_delivered)
    assert keys(growing) == []
    assert "late.jsonl came after _SUCCESS and may still be growing" in growing.skip_message
    zone.now = datetime.fromtimestamp(late.stat().st_mtime + 60, timezone.utc).isoformat()
    settled = zone.tick(visits_delivered)
    assert keys(settled) == ["2026-01-05"]
    assert settled.run_requests[0].tags["dedp/cause"] == "late-file"


def moment() -> str:
    """Now, as a run notes when it began."""
    return datetime.now(timezone.utc).isoformat()  # noqa: TID251


def rewritten(path, content: str) -> None:
    """Write a file where it lies, so that its folder keeps its time; and its own, if it keeps its size."""
    before = path.stat()
    with path.open("r+") as file:
        file.write(content)
        file.truncate()
    if path.stat().st_size == before.st_size:
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.parametrize("content", ["{}\n{}\n", "[]\n"], ids=["appended to", "same size and time"])
@pytest.mark.parametrize("at_once", [1, 500])
def test_a_loaded_file_that_changes_where_it_lies_is_found_within_the_hour(zone, keys, monkeypatch, content, at_once):
    """No folder changes with it: a slow look at all that is loaded finds it, a few days at a time, and only then."""
    monkeypatch.setattr(arrivals, "_AT_ONCE", at_once)
    now = datetime.now(timezone.utc) + timedelta(days=1)  # noqa: TID251
    zone.now = now.isoformat()
    for day in ("2026-01-05", "2026-01-06", "2026-01-07"):
        deliver(zone, day)
        zone.bronze(loaded(zone, day, at=moment()))
    for _ in range(4):
        assert keys(zone.tick(visits_delivered)) == []
    rewritten(zone.landing / "visits/2026-01-05/part-000.jsonl", content)
    assert keys(zone.tick(visits_delivered)) == []
    zone.now = (now + timedelta(hours=1)).isoformat()
    asked = [keys(zone.tick(visits_delivered)) for _ in range(3)]
    assert asked[-1] == ["2026-01-05"]
    zone.bronze(loaded(zone, "2026-01-05", at=moment()))
    zone.now = (now + timedelta(hours=3)).isoformat()
    assert [keys(zone.tick(visits_delivered)) for _ in range(3)] == [[], [], []]


def test_a_loaded_file_that_was_only_touched_is_read_once_and_left_alone(zone, keys, monkeypatch):
    """Its inode says that something was done to it; its bytes say that it was nothing."""
    now = datetime.now(timezone.utc) + timedelta(days=1)  # noqa: TID251
    zone.now = now.isoformat()
    deliver(zone, "2026-01-05")
    zone.bronze(loaded(zone, "2026-01-05", at=moment()))
    sleep(0.02)  # the clock of the file system is coarse
    (zone.landing / "visits/2026-01-05/part-000.jsonl").chmod(0o600)
    read, content = [], Landing.content
    monkeypatch.setattr(Landing, "content", lambda *of: read.append(of) or content(*of))
    for hour in range(3):
        zone.now = (now + timedelta(hours=hour)).isoformat()
        assert keys(zone.tick(visits_delivered)) == []
    assert len(read) == 1


def test_what_has_settled_is_not_looked_at_again_until_it_changes(zone, keys, monkeypatch):
    """A loaded day costs the next ticks nothing: no folder is listed and no log is read; a file more, and it is."""
    zone.now = (datetime.now(timezone.utc) + timedelta(days=1)).isoformat()  # noqa: TID251
    deliver(zone, "2026-01-05")
    zone.bronze(loaded(zone, "2026-01-05"))
    assert keys(zone.tick(visits_delivered)) == []
    with monkeypatch.context() as patch:
        patch.setattr(Landing, "delivery", lambda *_: pytest.fail("it looked into a folder"))
        patch.setattr(LocalStore, "read", lambda *_: pytest.fail("it read a log"))
        assert keys(zone.tick(visits_delivered)) == []
    (zone.landing / "visits/2026-01-05/late.jsonl").write_text("{}\n")
    assert keys(zone.tick(visits_delivered)) == ["2026-01-05"]


def test_producer_rerun_without_marker_is_not_read(zone, keys):
    """While a day is delivered again its old marker is gone, so nobody reads a half-rewritten day."""
    deliver(zone, "2026-01-05")
    zone.bronze(loaded(zone, "2026-01-05"))
    zone.tick(visits_delivered)
    with delivering(zone.landing / "visits" / "2026-01-05") as folder:
        (folder / "part-000.jsonl").write_text('{"half": ')
        assert keys(zone.tick(visits_delivered)) == []
        (folder / "part-000.jsonl").write_text('{"whole": 1}\n')
    redelivered = zone.tick(visits_delivered)
    assert [r.tags["dedp/cause"] for r in redelivered.run_requests] == ["redelivery"]


def test_a_failed_producer_wakes_nobody_and_its_rerun_wakes_one_run(zone, keys):
    """Whatever it had written, and however long it lies there: without a marker no run is asked for."""
    with suppress(OSError), delivering(zone.landing / "visits" / "2026-01-05") as folder:
        (folder / "part-000.jsonl").write_text("{}\n")
        raise OSError("disk full")
    zone.now = "2026-01-30T12:00:00+00:00"
    assert [keys(zone.tick(visits_delivered)) for _ in range(2)] == [[], []]
    deliver(zone, "2026-01-05", "part-000.jsonl", "part-001.jsonl")
    assert keys(zone.tick(visits_delivered)) == ["2026-01-05"]


def test_folders_that_are_no_partition_are_named(zone, keys):
    """A misspelt or impossible day is no error of the tick: it is reported."""
    deliver(zone, "2026-01-05")
    deliver(zone, "2026-13-45")
    deliver(zone, "1999-01-01")
    data = zone.tick(visits_delivered)
    assert keys(data) == ["2026-01-05"]
    zone.bronze(loaded(zone, "2026-01-05"))
    message = zone.tick(watching()).skip_message
    assert "2026-13-45: is no day" in message
    assert "1999-01-01: is no day" in message


def test_a_crashed_run_is_asked_for_again_but_not_for_ever(zone, keys):
    """A failed run gets up to two more attempts, each under a key of its own; then the reason names the run."""
    deliver(zone, "2026-01-05")
    request = zone.tick(visits_delivered).run_requests[0]
    seen = [request.run_key]
    for _ in range(2):
        zone.ran(dict(request.tags), fails=True)
        seen.append(zone.tick(visits_delivered).run_requests[0].run_key)
    assert len(set(seen)) == 3
    zone.ran(dict(request.tags), fails=True)
    data = zone.tick(visits_delivered)
    assert keys(data) == []
    assert "gave up after 3 failed runs" in data.skip_message


def test_a_link_to_nothing_holds_its_day_and_is_noticed_when_it_resolves(zone, keys):
    """Nothing changes in the folder when the file that it leads to comes: a day that waits is looked at again."""
    deliver(zone, "2026-01-05")
    later = zone.landing / "later.jsonl"
    (zone.landing / "visits/2026-01-05/more.jsonl").symlink_to(later)
    data = zone.tick(visits_delivered)
    assert (keys(data), "more.jsonl (a link to nothing)" in data.skip_message) == ([], True)
    later.write_text("{}\n")
    zone.now = datetime.fromtimestamp(later.stat().st_mtime + 60, timezone.utc).isoformat()
    assert keys(zone.tick(visits_delivered)) == ["2026-01-05"]


def test_a_refused_delivery_is_not_repeated(zone, keys):
    """What an audit or a contract refused waits for new data, a fix or an approval, whatever runs are recorded."""
    deliver(zone, "2026-01-05")
    delivery = delivery_at(zone.landing / "visits/2026-01-05").identity
    refusals = Refusals(zone.resources()["lake"].refused("bronze/visits"))
    refusals.note("2026-01-05", Refusal((delivery,), visits.visits.code_version, "run-1", "no line in it"))
    data = zone.tick(visits_delivered)
    assert (keys(data), "bronze/visits 2026-01-05: no line in it" in data.skip_message) == ([], True)
    deliver(zone, "2026-01-05", "part-000.jsonl", "part-001.jsonl")
    assert keys(zone.tick(visits_delivered)) == ["2026-01-05"]


def test_days_that_a_restore_took_back_are_loaded_again(zone, keys):
    """Bronze was restored to before a day: nothing landed since, and its delivery is asked for; others are left."""
    for day in ("2026-01-05", "2026-01-06"):
        deliver(zone, day)
        zone.bronze(loaded(zone, day))
    assert keys(zone.tick(visits_delivered)) == []
    zone.bronze({"changed": [{"landed_on": "2026-01-06", "event_date": "2026-01-05"}], "operation": "RESTORE"})
    for sensor in (visits_delivered, watching()):
        (request,) = zone.tick(sensor).run_requests
        assert (request.partition_key, request.job_name) == ("2026-01-06", "daily_visits")
        assert request.run_key.endswith("~3")
    zone.bronze(loaded(zone, "2026-01-06"))
    assert keys(zone.tick(visits_delivered)) == []


def test_rows_that_somebody_deleted_in_bronze_are_not_loaded_again(zone, keys):
    """Only a restore takes a delivery back: a deletion was meant."""
    deliver(zone, "2026-01-05")
    zone.bronze(loaded(zone, "2026-01-05"))
    zone.tick(visits_delivered)
    gone = {"changed": [{"landed_on": "2026-01-05", "event_date": "2026-01-05"}], "operation": "DELETE"}
    zone.bronze({**gone, "record": a_record("bronze/visits", {"landed_on": "2026-01-05"})})
    assert keys(zone.tick(visits_delivered)) == keys(zone.tick(watching())) == []


def test_a_file_that_came_while_its_day_was_loaded_is_found_after_a_restart(zone, keys, monkeypatch):
    """A folder that changed after the run began is looked at; one that did not waits for the full look."""
    monkeypatch.setattr(arrivals, "_AT_ONCE", 0)
    deliver(zone, "2026-01-05")
    changed = (zone.landing / "visits/2026-01-05").stat().st_mtime
    for seconds, found in ((60, []), (-60, ["2026-01-05"])):
        commit = loaded(zone, "2026-01-05")
        began = datetime.fromtimestamp(changed + seconds, timezone.utc)
        commit["record"] = replace(commit["record"], at=began.isoformat(), notes={"delivery": "another"})
        zone.bronze(commit)
        assert keys(zone.tick(watching())) == found


def test_many_ready_days_are_asked_for_in_portions(zone, keys, monkeypatch):
    """A tick requests at most 25 runs and keeps the others for the next ones."""
    monkeypatch.setattr(backlogs, "_FEW", 100)
    days = [(date(2026, 1, 5) - timedelta(days=n)).isoformat() for n in range(30)]
    for day in days:
        deliver(zone, day)
    first = zone.tick(visits_delivered)
    assert keys(first) == sorted(days)[:25]
    zone.bronze(*[loaded(zone, day) for day in sorted(days)[:25]])
    assert keys(zone.tick(visits_delivered)) == sorted(days)[25:]


def test_a_month_of_ready_days_is_one_run(zone, keys):
    """The first load of many days: one request with a goal of each day; a few days have runs of their own."""
    days = sorted((date(2026, 1, 20) - timedelta(days=n)).isoformat() for n in range(40))
    for day in days:
        deliver(zone, day)
    first, second = zone.tick(visits_delivered).run_requests
    for request, some in ((first, days[:31]), (second, days[31:])):
        assert request.partition_key is None
        assert keys_of(request.tags, DAILY) == some
        goals = [goal_of(request.tags, "bronze/visits", day) for day in some]
        assert goals == [delivery_at(zone.landing / "visits" / day).identity for day in some]
    zone.bronze(*[loaded(zone, day) for day in days[:33]])
    assert keys(zone.tick(visits_delivered)) == days[33:]


def test_devices_are_loaded_once_per_delivery(zone):
    """The unpartitioned reference follows the same marker."""
    folder = zone.landing / "devices"
    assert zone.tick(devices_delivered).skip_message == "nothing to ask for"
    devices_source.deliver(folder, devices_source.devices(count=3))
    (request,) = zone.tick(devices_delivered).run_requests
    assert request.partition_key is None
    assert request.job_name == "refresh_devices"
    record = a_record("bronze/devices", {}, notes={"delivery": delivery_at(folder).identity})
    zone.dated("bronze/devices", {"changed": [{"event_date": None}], "record": record})
    assert zone.tick(devices_delivered).skip_message == "nothing to ask for"
