"""An announced release, from its event to the devices reference and what the UI and the ledger say of it."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from pathlib import Path

import dagster as dg
import pytest
from deltalake import DeltaTable

from dedp_assets.case_study.sources import devices
from dedp_assets.patterns.connectors.web.events import Event
from dedp_assets.patterns.ingestion.external_trigger import send_event

pytestmark = pytest.mark.budget(50, "a platform that events start")

NOON = datetime(2026, 1, 20, 12, tzinfo=timezone.utc)
DONE = [("refresh_devices", "")]


@pytest.fixture
def release(world):
    """Put a release in place and announce it; the newest has the highest number."""

    def released(number, *, count=50, name=None, lines=None):
        path = world.landing / "device_releases" / (name or f"v {number}.jsonl")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{line}\n" for line in lines or devices.devices(count=count, seed=number)))
        key = f"device_releases/{path.name}".replace(" ", "+")
        sent = Event(
            id=str(number),
            source="urn:dedp:provider",
            type="dedp.devices.published",
            time=NOON + timedelta(minutes=number),
            data={"objects": [key]},
        )
        return send_event(world.landing / "events", sent), sent

    return released


def names(world):
    return {row["full_name"] for row in world.rows("bronze/devices")}


def expected(number, count=50):
    return {json.loads(line)["full_name"] for line in devices.devices(count=count, seed=number)}


def metadata(world):
    """Metadata of the newest materialization."""
    records = world.platform.instance.fetch_materializations(dg.AssetKey(["bronze", "devices"]), limit=1).records
    return {name: value.value for name, value in records[0].asset_materialization.metadata.items()}


def files_of(table):
    """Paths of a table's active files, through an independent reader."""
    return [path.removeprefix("file://") for path in table.file_uris()]


def filed(world, how):
    folder = world.landing / "events" / f"_{how}"
    return [path for path in folder.glob("*.json") if folder.is_dir()]


def test_an_event_loads_exactly_the_object_it_names_and_says_so(world, release):
    """The rows are the release's; what made the run start stands in the materialization and in the commit."""
    _, sent = release(1)
    (world.landing / "device_releases" / "v 2.jsonl").write_text("not announced\n")
    assert world.react() == DONE
    assert names(world) == expected(1)
    shown = metadata(world)
    assert json.loads(shown["trigger envelope"]) == json.loads(sent.to_json())
    assert shown["trigger object"] == "device_releases/v 1.jsonl"
    assert shown["trigger event time"] == "2026-01-20T12:01:00.000000+00:00"
    assert shown["trigger version"] == "external_trigger/1"
    assert datetime.fromisoformat(shown["trigger processing time"]) > sent.time
    assert shown["cause"] == "dedp.devices.published"
    record = world.last("bronze/devices").record
    assert record.notes["trigger"]["object"] == "device_releases/v 1.jsonl"
    assert len(filed(world, "done")) == 1
    assert world.react() == []


def test_growth_of_the_reference_shows_in_its_materializations(world, release):
    """Rows and bytes of each load, and the rows before it, as the files on disk have them; a doubled one just loads."""
    sizes = []
    for number, count in ((1, 60), (2, 120)):
        release(number, count=count)
        assert world.react() == DONE
        shown = metadata(world)
        sizes.append(shown["size [bytes]"])
        table = DeltaTable(world.address("bronze/devices"))
        assert shown["size [bytes]"] == sum(Path(path).stat().st_size for path in files_of(table))
        assert shown["dagster/row_count"] == shown["rows written"] == len(world.rows("bronze/devices")) == count
    assert shown["rows before"] == 60
    assert sizes[1] > sizes[0] > 0


def test_an_older_release_that_is_announced_late_does_not_replace_a_newer_one(world, release):
    """Every event gets its run, in whatever order they come, and the reference holds the newest release."""
    release(2)
    assert world.react() == DONE
    version = world.last("bronze/devices").version
    release(1)
    assert world.react() == DONE
    assert names(world) == expected(2)
    assert world.last("bronze/devices").version == version
    assert metadata(world)["trigger object"] == "device_releases/v 1.jsonl"
    release(3)
    assert world.react() == DONE
    assert names(world) == expected(3)
    assert len(filed(world, "done")) == 3


def test_marked_deliveries_and_releases_do_not_undo_each_other(world, release):
    """A release does not bring the delivery before it back, nor the other way round."""
    devices.deliver(world.landing / "devices", devices.devices(count=50, seed=9))
    assert world.react() == DONE
    release(1)
    assert world.react() == DONE
    assert names(world) == expected(1)
    devices.deliver(world.landing / "devices", devices.devices(count=50, seed=8))
    assert world.react() == DONE
    assert names(world) == expected(8)
    release(0)
    assert world.react() == DONE
    assert names(world) == expected(8)
    assert world.react() == []


def test_a_broken_release_is_refused_and_its_event_replayed_after_the_fix(world, release):
    """What was published stays; the event waits with the reason, and moved back it loads the mended object."""
    release(1)
    assert world.react() == DONE
    release(2, lines=["{torn"] * 50)
    assert [bool(ended.failure) for ended in world.platform.react()] == [True]
    assert names(world) == expected(1)
    (kept,) = filed(world, "failed")
    assert "refused it" in json.loads(kept.with_name(f"{kept.name}.reason").read_text())["reason"]
    assert list(world.platform.react()) == []
    (world.landing / "device_releases" / "v 2.jsonl").write_text("\n".join(devices.devices(count=50, seed=2)) + "\n")
    kept.rename(world.landing / "events" / kept.name)
    assert world.react() == DONE
    assert names(world) == expected(2)


def test_an_event_cannot_make_the_refresh_read_another_dataset(world, release):
    """The announced key lies elsewhere: refused in one sentence, nothing loaded, the event kept."""
    release(1)
    world.land("2026-01-05", ['{"visit_id": "1"}'])
    (path,) = (world.landing / "events").glob("*.json")
    stated = json.loads(path.read_text())
    stated["data"]["objects"] = ["visits/2026-01-05/part-000.jsonl"]
    path.write_text(json.dumps(stated))
    failures = [ended.failure for ended in world.platform.react() if ended.job == "refresh_devices"]
    assert [failure.split(":")[0] for failure in failures] == [
        "visits/2026-01-05/part-000.jsonl does not lie in device_releases/ of the landing zone"
    ]
    assert "bronze/devices" not in world.versions()
    assert len(filed(world, "failed")) == 1
