"""`make up`: Spark engine, Kafka broker, PostgreSQL, Dagster's webserver and daemon, started and ended together."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import dagster as dg
from honcho.manager import Manager
from honcho.printer import Message, Printer

from dedp_assets.instance import close_abandoned, prepare_home
from dedp_assets.local import engine, ports, postgres
from dedp_assets.local.kafka import Broker
from dedp_assets.sources import operational, visits_topic
from dedp_assets.sources.visits import visits_of
from resources import kafka
from resources import postgres as database
from resources.clock import Clock
from resources.engine import EngineError, use_java
from resources.environments import CHECKOUT, Settings, child_environment

__all__ = ["Together", "up", "work"]

_LAST_PORT = 65_535
_FIRST_STEPS = 5
_VISITS_PER_STEP = 10


def up(settings: Settings, *, web_port: int, engine_port: int, kafka_port: int) -> int:
    """Run until Ctrl-C, or until one of the processes ends; then end all of them.

    Raises:
        ValueError: if a port is in use, is not a port, or is asked for twice.
    """
    _require_ports(_ports(settings, web_port=web_port, engine_port=engine_port, kafka_port=kafka_port))
    engine.prepare(settings)
    use_java(settings)
    broker = _broker(settings, kafka_port)
    home = prepare_home(settings)
    with dg.DagsterInstance.from_config(str(settings.dagster_home)) as instance:
        close_abandoned(instance, nobody_else_runs=True)
    print(f"Dagster UI: http://127.0.0.1:{web_port}   Spark engine: sc://127.0.0.1:{engine_port}   Ctrl-C ends all")  # noqa: T201
    kafka_address = {"DEDP_KAFKA": broker.address} if broker else {}
    spark = {"SPARK_REMOTE": f"sc://127.0.0.1:{engine_port}", "PYTHONUNBUFFERED": "1"}
    dagster = child_environment({**home, **kafka_address, **spark})
    manager, alone = Together(), child_environment({"SPARK_CONNECT_MODE": "0"}, without=("SPARK_REMOTE",))
    _add(manager, "engine", engine.connect_command(settings, engine_port), alone)
    if broker:
        _add(manager, "kafka", broker.command(), alone)
    scripts, code = Path(sys.executable).parent, ["-w", str(CHECKOUT / "workspace.yaml"), "--log-level", "warning"]
    web = [str(scripts / "dagster-webserver"), "-h", "127.0.0.1", "-p", str(web_port)]
    _add(manager, "web", [*web, *code], dagster)
    _add(manager, "daemon", [str(scripts / "dagster-daemon"), "run", *code], dagster)
    with _operational_database(settings):
        manager.loop()
    return int(manager.returncode or 0)


class Together(Manager):  # type: ignore[misc]  # honcho has no types
    """Processes that are started together and ended together."""

    def __init__(self) -> None:
        self._terminal = _Terminal(sys.stdout)
        super().__init__(self._terminal)

    def terminate(self) -> None:
        """End the processes that still run, and show no more of what they say."""
        self._terminal.ending = True
        super().terminate()


class _Terminal(Printer):  # type: ignore[misc]  # honcho has no types
    """The output of the processes, until they are told to end.

    Dagster's daemon gets that signal together with its code server; a tick in flight then loses its server and would
    say so in a hundred lines.
    """

    ending = False

    def write(self, message: Message) -> None:
        if not self.ending or message.name == "system":
            super().write(message)


def work(settings: Settings, *, steps: int) -> int:
    """Let the applications do the next steps of their workload: in the operational database, and visits to the topic.

    Raises:
        NotReady: if the database does not run, or a broker that was named does not answer.
    """
    now = Clock().now()
    with database.address(settings).connect() as connection:
        operational.create(connection)
        last = operational.work(connection, at=now, steps=steps)
    done = f"{steps} steps done in the operational database, up to step {last}"
    if broker := kafka.address(settings):
        topic = kafka.Kafka(bootstrap=broker, topic=settings.kafka_topic)
        visits = visits_of(now.date(), count=steps * _VISITS_PER_STEP, seed=last)
        done += f"; {visits_topic.publish(topic, visits)} visits published to topic {topic.topic}"
    print(done)  # noqa: T201
    return 0


def _broker(settings: Settings, port: int) -> Broker | None:
    """Make the laptop's own Kafka broker ready to run; without it, visits come by files only."""
    if settings.kafka is not None:
        return None
    broker = Broker(settings, settings.home / kafka.FOLDER, port=port, controller_port=port + 1)
    try:
        broker.command()
    except EngineError as error:
        print(f"Kafka does not start, visits come by files only: {error}", file=sys.stderr)  # noqa: T201
        return None
    return broker


@contextmanager
def _operational_database(settings: Settings) -> Iterator[None]:
    """Run the laptop's own PostgreSQL, with rows in it, for a block; without it, only its readers have to wait."""
    try:
        if settings.postgres is None:
            with postgres.start(settings).connect() as connection:
                operational.create(connection)
                if connection.execute("SELECT 1 FROM workload_steps LIMIT 1").fetchone() is None:
                    operational.work(connection, at=Clock().now(), steps=_FIRST_STEPS)
    except postgres.PostgresError as error:
        print(f"The operational database does not start, what reads from it will wait: {error}", file=sys.stderr)  # noqa: T201
    try:
        yield
    finally:
        if settings.postgres is None:
            postgres.stop(settings)


def _ports(settings: Settings, *, web_port: int, engine_port: int, kafka_port: int) -> dict[str, int]:
    own = {"Kafka (--kafka-port)": kafka_port, "Kafka's controller (one more than --kafka-port)": kafka_port + 1}
    others = {"the Spark engine (--engine-port)": engine_port, "the webserver (--port)": web_port}
    return others if settings.kafka else others | own


def _add(manager: Manager, name: str, command: list[str], environment: Mapping[str, str]) -> None:
    manager.add_process(name, shlex.join(command), env=dict(environment), cwd=str(CHECKOUT))


def _require_ports(asked: Mapping[str, int]) -> None:
    wanted: dict[int, str] = {}
    for what, port in asked.items():
        if not 0 < port <= _LAST_PORT:
            raise ValueError(f"{port} is not a port for {what}; choose one from 1 to {_LAST_PORT}")
        if port in wanted:
            raise ValueError(f"port {port} is wanted for {wanted[port]} and for {what}; they need one each")
        if ports.in_use(port):
            raise ValueError(f"port {port} for {what} is in use; is another `make up` running? Choose another one")
        wanted[port] = what
