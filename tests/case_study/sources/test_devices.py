"""The devices reference: complete at each delivery, the same for the same seed, delivered once."""

from __future__ import annotations

import json

from dedp_assets.case_study.sources import devices
from dedp_assets.patterns.connectors.landing.deliveries import delivery_at


def test_the_same_seed_gives_the_same_devices_and_another_seed_others():
    """A delivery can be made again anywhere."""
    assert devices.devices() == devices.devices()
    assert devices.devices() != devices.devices(seed=2)


def test_devices_are_unique_by_type_and_version():
    """That is their key."""
    made = [json.loads(line) for line in devices.devices(count=300)]
    assert len({(device["type"], device["version"]) for device in made}) == 300


def test_a_delivery_is_one_marked_file_that_holds_every_device(tmp_path):
    """Nothing is missing and nobody reads it before it is complete."""
    devices.deliver(tmp_path / "devices", devices.devices())
    delivery = delivery_at(tmp_path / "devices").require_ready()
    assert [file.name for file in delivery.files] == ["devices.jsonl"]
    assert (tmp_path / "devices" / "devices.jsonl").read_text().splitlines() == devices.devices()


def test_the_same_delivery_twice_touches_nothing(tmp_path):
    """File and marker keep their times, so it is not loaded again."""
    devices.deliver(tmp_path, devices.devices())
    before = {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    devices.deliver(tmp_path, devices.devices())
    assert {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == before


def test_a_cut_delivery_ends_within_its_last_record(tmp_path):
    """The lines before it are whole; the last one is no JSON."""
    devices.deliver(tmp_path, devices.devices(count=5), cut=True)
    *whole, torn = (tmp_path / "devices.jsonl").read_text().split("\n")
    assert whole == devices.devices(count=5)[:4]
    assert devices.devices(count=5)[4].startswith(torn)
    assert len(torn) < len(devices.devices(count=5)[4])
