"""Kafka: what a topic holds, looked up without a JVM; and a broker of one node for a machine that has none."""

import logging
import re
import subprocess
import time
import uuid
from base64 import urlsafe_b64encode
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dagster as dg
from confluent_kafka import IsolationLevel, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec
from pydantic import Field

from dedp_assets.patterns.connectors.topics import Topic
from dedp_assets.patterns.core.errors import ConfigError, NotReady
from resources import engine, ports
from resources.environments import CHECKOUT, Settings

__all__ = ["FOLDER", "Broker", "Kafka", "address", "client"]

FOLDER = "kafka"
"""Where in the home the platform's own broker keeps everything."""

_ANSWER_SECONDS = 5
_PROPERTIES = "server.properties"
_TOPIC_EXISTS = "TOPIC_ALREADY_EXISTS"
_UNKNOWN_TOPIC = "UNKNOWN_TOPIC_OR_PART"
_ELECTING = ("LEADER_NOT_AVAILABLE", "NOT_LEADER_FOR_PARTITION")
_QUIET = logging.getLogger("librdkafka")
_QUIET.addHandler(logging.NullHandler())
_QUIET.propagate = False


def client(bootstrap: str) -> dict[str, Any]:
    """Configuration of a client that says what is wrong by its errors and not on the screen."""
    return {"bootstrap.servers": bootstrap, "logger": _QUIET, "socket.connection.setup.timeout.ms": 5_000}


def address(settings: Settings) -> str:
    """``host:port`` of the broker of ``DEDP_KAFKA``, or else of our own if it runs; empty if there is none."""
    if settings.kafka is not None:
        return settings.kafka
    try:
        stated = (settings.home / FOLDER / _PROPERTIES).read_text()
    except FileNotFoundError:
        return ""
    found = re.search(r"^advertised\.listeners=PLAINTEXT://(.+:(\d+))$", stated, re.MULTILINE)
    return found[1] if found and ports.listens(int(found[2])) else ""


class Kafka(dg.ConfigurableResource[Any]):
    """A topic on a Kafka cluster; without an address there is none, and nobody is asked."""

    bootstrap: str = Field(default="", description="host:port of a broker; empty: no Kafka.")
    topic: str = Field(default="visits", description="The topic of the visits.")

    def look(self) -> Topic:
        """The topic as it is now, with the offsets that a reader of committed records may read.

        Raises:
            ConfigError: without an address.
            NotReady: if the brokers do not answer, or there is no such topic.
        """
        if not self.bootstrap:
            raise ConfigError("no Kafka is set: name a broker by DEDP_KAFKA=host:port, or land visits as files")
        admin, deadline = AdminClient(client(self.bootstrap)), time.monotonic() + _ANSWER_SECONDS
        while True:
            try:
                return _held(admin, self.topic)
            except KafkaException as error:
                if error.args[0].name() not in _ELECTING or time.monotonic() > deadline:
                    raise NotReady(_reason(self.bootstrap, self.topic, error)) from None
                time.sleep(0.2)

    def create(self, *, partitions: int = 2) -> None:
        """Make the topic, unless it is there; the broker, not the producer, says when a record arrived.

        Raises:
            NotReady: if the brokers do not answer.
        """
        wanted = NewTopic(self.topic, partitions, config={"message.timestamp.type": "LogAppendTime"})
        admin = AdminClient(client(self.bootstrap))
        try:
            admin.create_topics([wanted], request_timeout=_ANSWER_SECONDS)[self.topic].result()
        except KafkaException as error:
            if error.args[0].name() != _TOPIC_EXISTS:
                raise NotReady(_reason(self.bootstrap, self.topic, error)) from None


def _cluster_id() -> str:
    """The id of a new cluster; Kafka's tool would take one that begins with a dash for an option."""
    first, *rest = uuid.uuid4().bytes
    return urlsafe_b64encode(bytes([first & 0x7F, *rest])).decode().rstrip("=")


def _held(admin: AdminClient, topic: str) -> Topic:
    described = admin.describe_topics(TopicCollection([topic]), request_timeout=_ANSWER_SECONDS)[topic].result()
    partitions = sorted(partition.id for partition in described.partitions)
    oldest = _offsets(admin, topic, partitions, OffsetSpec.earliest())
    newest = _offsets(admin, topic, partitions, OffsetSpec.latest())
    return Topic(topic, str(described.topic_id), begin=oldest, end=newest)


def _offsets(admin: AdminClient, topic: str, partitions: list[int], which: OffsetSpec) -> dict[str, int]:
    wanted = {TopicPartition(topic, partition): which for partition in partitions}
    found = admin.list_offsets(wanted, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=_ANSWER_SECONDS)
    return {str(place.partition): answer.result().offset for place, answer in found.items()}


def _reason(bootstrap: str, topic: str, error: KafkaException) -> str:
    if error.args[0].name() == _UNKNOWN_TOPIC:
        return f"Kafka at {bootstrap} has no topic {topic}: its first producer makes it"
    return f"Kafka at {bootstrap} does not answer ({error.args[0].str()}): start it, or correct DEDP_KAFKA"


@dataclass
class Broker:
    """One broker, controller included (KRaft), on the loopback interface, with everything it keeps in one folder.

    Attributes:
        folder: its log segments, its configuration, what it says.
        port: where clients reach it.
        controller_port: where it reaches itself.
    """

    settings: Settings
    folder: Path
    port: int = 9092
    controller_port: int = 9093
    process: subprocess.Popen[bytes] | None = field(default=None, init=False, repr=False)

    @property
    def address(self) -> str:
        """``host:port`` for clients, as ``DEDP_KAFKA`` takes it."""
        return f"127.0.0.1:{self.port}"

    def command(self) -> list[str]:
        """The command that runs it, after its folder was prepared; fetches its jars on the first call.

        Raises:
            EngineError: if the jars cannot be fetched or the folder cannot be prepared.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        properties = self.folder / _PROPERTIES
        properties.write_text("".join(f"{key}={value}\n" for key, value in self._properties().items()))
        if not (self.folder / "data" / "meta.properties").exists():
            words = ["format", "-t", _cluster_id(), "-c", str(properties)]
            command = self._java("kafka.tools.StorageTool", *words)
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise engine.EngineError(f"the Kafka broker's folder {self.folder} cannot be prepared:\n{done.stderr}")
        return self._java("kafka.Kafka", str(properties))

    def start(self, *, seconds: float = 60) -> None:
        """Run it as a child of this process until :meth:`stop`; returns once it takes connections.

        Raises:
            EngineError: with what it said, if it does not start.
        """
        command = self.command()
        said = self.folder / "output"
        with said.open("wb") as output:
            self.process = subprocess.Popen(command, stdout=output, stderr=output)
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and self.process.poll() is None:
            if ports.listens(self.port):
                return
            time.sleep(0.1)
        self.stop()
        raise engine.EngineError(f"the Kafka broker at {self.address} does not start:\n{said.read_text()[-2000:]}")

    def stop(self, *, seconds: float = 30) -> None:
        """End it, in an orderly way if it does so in time."""
        if self.process is None:
            return
        self.process.terminate()
        try:
            self.process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process = None

    def _java(self, program: str, *words: str) -> list[str]:
        jars = engine.class_path(self.settings, "kafka")
        quiet = f"-Dlog4j2.configurationFile={CHECKOUT / 'resources' / 'log4j2.properties'}"
        small = ["-Xms64m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        # Newer runtimes would warn of what the broker does.
        small += ["-XX:+IgnoreUnrecognizedVMOptions", "--sun-misc-unsafe-memory-access=allow"]
        java = engine.java_home(self.settings) / "bin" / "java"
        return [str(java), *small, quiet, "-cp", ":".join(str(jar) for jar in jars), program, *words]

    def _properties(self) -> dict[str, object]:
        clients, controller = f"127.0.0.1:{self.port}", f"127.0.0.1:{self.controller_port}"
        return {
            "process.roles": "broker,controller",
            "node.id": 1,
            "controller.quorum.voters": f"1@{controller}",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://{clients},CONTROLLER://{controller}",
            "advertised.listeners": f"PLAINTEXT://{clients}",
            "log.dirs": self.folder / "data",
            "auto.create.topics.enable": "false",
            "log.message.timestamp.type": "LogAppendTime",
            "log.cleaner.dedupe.buffer.size": 4 << 20,
            "offsets.topic.num.partitions": 1,
            "offsets.topic.replication.factor": 1,
            "transaction.state.log.num.partitions": 1,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "group.initial.rebalance.delay.ms": 0,
        }
