"""The Kafka broker of one node: starts, ends, keeps what it holds, and says why it cannot start."""

from __future__ import annotations

import re
import socket
import uuid
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Producer

from dedp_assets.graph.resources.announced import listens
from dedp_assets.graph.resources.engine import EngineError
from dedp_assets.graph.systems.kafka import Kafka, client
from dedp_assets.laptop.servers.kafka import Broker
from dedp_assets.laptop.servers.ports import free as free_port
from tests.faults.processes import living


def own_broker(settings, folder, **ports):
    """A broker for one test."""
    return Broker(settings, folder, **{"port": free_port(), "controller_port": free_port(), **ports})


@pytest.mark.slow
def test_a_broker_starts_whatever_chance_makes_of_its_clusters_id(test_settings, tmp_path, monkeypatch):
    """Of 64 ids one would begin with a dash, and Kafka's tool would take that for an option."""
    monkeypatch.setattr(uuid, "uuid4", lambda: uuid.UUID(bytes=b"\xf8" + bytes(15)))
    made = Broker(test_settings, tmp_path, port=free_port(), controller_port=free_port())
    assert made.command()
    assert "cluster.id=" in (tmp_path / "data" / "meta.properties").read_text()


@pytest.mark.slow
def test_a_broker_ends_with_its_process_and_starts_again_with_what_it_kept(test_settings, tmp_path, capfd):
    """On the Java runtime of the wheel: in silence, in its own folder, on the loopback interface only."""
    made = own_broker(replace(test_settings, java="bundled"), tmp_path / "kafka")
    made.start()
    try:
        kafka = Kafka(bootstrap=made.address)
        kafka.create()
        producer = Producer(client(kafka.bootstrap))
        producer.produce(kafka.topic, "a")
        assert producer.flush(30) == 0
        before, process = kafka.describe(), psutil.Process(made.process.pid)
        assert set(re.findall(r"//([^:]+):", (made.folder / "server.properties").read_text())) == {"127.0.0.1"}
        made.stop()
        assert (living({process}), listens(made.port)) == (set(), False)
        made.start()
        assert kafka.describe() == before
        assert "-Xmx256m" in Path(f"/proc/{made.process.pid}/cmdline").read_text()
    finally:
        made.stop()
    assert {path.name for path in tmp_path.iterdir()} == {"kafka"}
    assert (made.folder / "output").read_text() == ""
    assert capfd.readouterr() == ("", "")


@pytest.mark.slow
def test_a_broker_that_cannot_start_says_why(test_settings, tmp_path):
    """A port that is taken ends in one error with the broker's own words, and in no process."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        made = own_broker(test_settings, tmp_path, controller_port=taken.getsockname()[1])
        with pytest.raises(EngineError, match=r"does not start:\n(.|\n)*Address already in use"):
            made.start()
        assert made.process is None
