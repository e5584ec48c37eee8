"""A single-node Kafka broker, for a machine without Kafka."""

from __future__ import annotations

import subprocess
import time
import uuid
from base64 import urlsafe_b64encode
from dataclasses import dataclass, field
from pathlib import Path

from dedp_assets.graph.resources.announced import announce, listens
from dedp_assets.graph.resources.clock import Clock
from dedp_assets.graph.resources.engine import LOG_SETTINGS, EngineError, class_path, java_home
from dedp_assets.graph.resources.environments import Settings
from dedp_assets.laptop.servers import kafka_tls
from dedp_assets.patterns.connectors.certificates.authority import Authority

__all__ = ["Broker"]

_PROPERTIES = "server.properties"


@dataclass
class Broker:
    """A Kafka broker in KRaft mode on the loopback interface, with all data in a single folder.

    Attributes:
        folder: its log segments, its configuration, what it says.
        port: where clients reach it.
        controller_port: where it reaches itself.
        authority: signs the certificates of clients, without which none comes in; ``None`` for plain connections.
    """

    settings: Settings
    folder: Path
    port: int = 9092
    controller_port: int = 9093
    authority: Authority | None = None
    process: subprocess.Popen[bytes] | None = field(default=None, init=False, repr=False)

    @property
    def address(self) -> str:
        """``host:port`` for clients, in the format of ``DEDP_KAFKA``."""
        return f"127.0.0.1:{self.port}"

    def command(self) -> list[str]:
        """Prepare the folder and return the command that runs the broker; the first call fetches jars.

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
                raise EngineError(f"the Kafka broker's folder {self.folder} cannot be prepared:\n{done.stderr}")
        announce(self.folder, self.address)
        return self._java("kafka.Kafka", str(properties))

    def start(self, *, seconds: float = 60) -> None:
        """Start the broker as a child process until :meth:`stop`; return once connections are accepted.

        Raises:
            EngineError: with what it said, if it does not start.
        """
        command = self.command()
        written = self.folder / "output"
        with written.open("wb") as output:
            self.process = subprocess.Popen(command, stdout=output, stderr=output)
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and self.process.poll() is None:
            if listens(self.port):
                return
            time.sleep(0.1)
        self.stop()
        raise EngineError(f"the Kafka broker at {self.address} does not start:\n{written.read_text()[-2000:]}")

    def stop(self, *, seconds: float = 30) -> None:
        """End the broker, by force after ``seconds``."""
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
        jars = class_path(self.settings, "kafka")
        quiet = f"-Dlog4j2.configurationFile={LOG_SETTINGS}"
        small = ["-Xms64m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        # Newer runtimes would warn of what the broker does.
        small += ["-XX:+IgnoreUnrecognizedVMOptions", "--sun-misc-unsafe-memory-access=allow"]
        java = java_home(self.settings) / "bin" / "java"
        return [str(java), *small, quiet, "-cp", ":".join(str(jar) for jar in jars), program, *words]

    def _properties(self) -> dict[str, object]:
        clients, controller = f"127.0.0.1:{self.port}", f"127.0.0.1:{self.controller_port}"
        secured = kafka_tls.properties(self.folder, self.authority, at=Clock().now()) if self.authority else {}
        kind = kafka_tls.LISTENER if self.authority else "PLAINTEXT"
        return {
            **secured,
            "process.roles": "broker,controller",
            "node.id": 1,
            "controller.quorum.voters": f"1@{controller}",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"{kind}://{clients},CONTROLLER://{controller}",
            "advertised.listeners": f"{kind}://{clients}",
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


def _cluster_id() -> str:
    """Return a random cluster id that does not begin with a dash, which Kafka's tool reads as an option."""
    first, *rest = uuid.uuid4().bytes
    return urlsafe_b64encode(bytes([first & 0x7F, *rest])).decode().rstrip("=")
