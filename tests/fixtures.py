"""One Spark session per test process, and small tables to play with."""

from __future__ import annotations

import json
import sqlite3
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import uvicorn
from sqlalchemy import Engine, event

from dedp_assets.case_study.sources.services import application
from dedp_assets.graph.resources.environments import Settings, apply, settings
from dedp_assets.graph.systems import postgres
from dedp_assets.graph.systems.kafka import Kafka
from dedp_assets.laptop.servers import engine
from dedp_assets.laptop.servers import postgres as server
from dedp_assets.laptop.servers.kafka import Broker
from dedp_assets.laptop.servers.ports import free as free_port
from dedp_assets.patterns.core.schema import TableSpec
from dedp_assets.patterns.delta import Table
from dedp_assets.patterns.delta.storage.s3_store import S3Store
from tests import shared_engine
from tests.dagster_storage import keep_what_is_the_same
from tests.faults.processes import wait_until
from tests.helpers import EVENTS, ServicesUnderTest
from tests.object_store import ObjectStore, serving
from tests.running import CONNECT_SERVER

keep_what_is_the_same()

_LONG_RUN = 200
"""Spark tests from which on an engine gains by compiling code a second time; a file alone takes half without."""


@event.listens_for(Engine, "connect")
def _without_syncing(connection: Any, _: Any) -> None:
    """What a test's Dagster instance records has to survive a killed process, not a loss of power."""
    if isinstance(connection, sqlite3.Connection):
        connection.execute("PRAGMA synchronous = OFF")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whoever uses the session is a Spark test, whoever uses a server a slow one; nobody has to remember the marks."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)
        if {"own_postgres", "broker", "object_store"} & {*getattr(item, "fixturenames", ())}:
            item.add_marker(pytest.mark.slow)
    # The longest files come first, so that no process works on one alone at the end: they have budgets of their own.
    budgets = {item: mark.args[0] for item in items if (mark := item.get_closest_marker("budget"))}
    items.sort(key=lambda item: -budgets.get(item, 0))


@pytest.fixture(scope="session")
def test_settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """Settings with a home of their own and the checkout's cache of jars."""
    home = tmp_path_factory.mktemp("home")
    cache = {"DEDP_CACHE": str(settings().cache), "DEDP_HOME": str(home)}
    apply({**cache, "DEDP_JIT": "quick", "DEDP_SPARK_MASTER": "local[2]"})
    return settings()


@pytest.fixture(scope="session")
def spark(request: pytest.FixtureRequest, test_settings: Settings) -> Iterator[Any]:
    """The test process's Spark session: embedded, or attached to the Spark Connect server of the run."""
    from dedp_assets.graph.resources.spark import SparkEngine

    config = request.config
    if config.getoption("--engine") != "connect":
        engine.prepare(test_settings)
        if gateway := getattr(config, "workerinput", {}).get("gateway"):
            shared_engine.attach(*gateway)
        marked = sum(1 for item in request.session.items if item.get_closest_marker("spark"))
        apply({"DEDP_JIT": "steady" if marked >= _LONG_RUN else "quick"})
        session = SparkEngine().session
        apply({"DEDP_JIT": test_settings.jit})  # of the processes that tests start, which end soon
        yield session
        return
    remote = config.workerinput["connect"] if hasattr(config, "workerinput") else config.stash[CONNECT_SERVER]
    session = SparkEngine(remote=remote).session
    for name, compiled in {"wholeStage": "true", "factoryMode": "FALLBACK"}.items():  # as where data are not small
        session.conf.set(f"spark.sql.codegen.{name}", compiled)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def own_postgres() -> Iterator[Settings]:
    """Settings of a home in which a PostgreSQL server runs, one for all tests."""
    with tempfile.TemporaryDirectory(prefix="dedp-") as home:
        chosen = replace(settings(), home=Path(home), postgres=None)
        server.start(chosen)
        with postgres.address(chosen).connect(autocommit=True) as connection:
            connection.execute("ALTER SYSTEM SET fsync = off")  # each test makes and drops a database
            connection.execute("SELECT pg_reload_conf()")
        yield chosen
        server.stop(chosen)


_DATABASES = count(1)


@pytest.fixture
def database(own_postgres: Settings) -> Iterator[postgres.Address]:
    """An empty database of this test's own."""
    with empty_database(own_postgres) as made:
        yield made


@contextmanager
def empty_database(own_postgres: Settings) -> Iterator[postgres.Address]:
    """An empty database, until the end of the block."""
    own, name = postgres.address(own_postgres), f"test_{next(_DATABASES)}"
    with own.connect(autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    yield replace(own, database=name)
    with postgres.address(own_postgres).connect(autocommit=True) as connection:
        mine = f"FROM pg_replication_slots WHERE database = '{name}'"
        connection.execute(f"SELECT pg_terminate_backend(active_pid, 60000) {mine} AND active_pid IS NOT NULL")
        connection.execute(f"SELECT pg_drop_replication_slot(slot_name) {mine}")
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(scope="session")
def broker(test_settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """The test process's Kafka broker, on ports of its own."""
    made = Broker(test_settings, tmp_path_factory.mktemp("kafka"), port=free_port(), controller_port=free_port())
    made.start()
    yield made
    made.stop()


@pytest.fixture
def kafka(broker: Broker) -> Kafka:
    """A topic of this test's own, not made yet."""
    return Kafka(bootstrap=broker.address, topic=f"visits-{uuid.uuid4().hex[:8]}")


@pytest.fixture(scope="session")
def object_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    """The test process's S3 server, which the environment of a test names by :func:`bucket_store`."""
    with serving(tmp_path_factory.mktemp("s3") / "server") as running:
        yield running


@pytest.fixture
def bucket_store(object_store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Store]:
    """An empty store in the bucket, at a prefix of this test's own; leases of it end after two seconds."""
    with object_store.named(monkeypatch):
        yield S3Store(object_store.bucket, f"{uuid.uuid4().hex[:8]}/lake/events", lease_seconds=2)


@contextmanager
def answering(app: Any, **options: Any) -> Iterator[str]:
    """The URL of a web application, which a thread of the test process serves until the end of the block."""
    running = uvicorn.Server(uvicorn.Config(app, port=0, ws="none", log_config=None, **options))
    thread = Thread(target=running.run, daemon=True)
    thread.start()
    try:
        assert wait_until(lambda: running.started, seconds=60)
        yield f"http://127.0.0.1:{running.servers[0].sockets[0].getsockname()[1]}"
    finally:
        running.should_exit = True
        thread.join()


@pytest.fixture(scope="session")
def served() -> Iterator[str]:
    """The URL of the HTTP services."""
    with answering(application()) as url:
        yield url


@pytest.fixture
def services(served: str) -> Iterator[ServicesUnderTest]:
    """The HTTP services, which behave well until the test says otherwise."""
    under_test = ServicesUnderTest(served)
    yield under_test
    under_test.forget()


class WebhookUnderTest(ThreadingHTTPServer):
    """A webhook that answers as it is told, and is not surprised by clients that hang up.

    Attributes:
        taken: path, headers and body of its requests.
        behaviours: what it does next: a status, ``slow``, ``large`` or ``breaks off``.
    """

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Hook)
        self.base = f"http://127.0.0.1:{self.server_port}"
        self.taken: list[tuple[str, dict[str, str], Any]] = []
        self.behaviours: list[str] = []

    def handle_error(self, *_: object) -> None:
        """Say nothing."""


class _Hook(BaseHTTPRequestHandler):
    """An answer with the request's path, which holds a secret, in every part, as careless servers give it."""

    server: WebhookUnderTest

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.taken.append((self.path, dict(self.headers), json.loads(body)))
        behaviour = self.server.behaviours.pop(0) if self.server.behaviours else "200"
        if behaviour == "slow":
            time.sleep(0.5)
        answer = f"no such hook: {self.path}".encode() * (100_000 if behaviour == "large" else 1)
        self.send_response(int(behaviour) if behaviour.isdigit() else 200, f"see {self.path}")
        if behaviour.startswith("3"):
            self.send_header("Location", f"http://{self.headers['Host']}{self.path}")
        self.send_header("Content-Length", str(len(answer) + (100 if behaviour == "breaks off" else 0)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def webhook(monkeypatch: pytest.MonkeyPatch) -> Iterator[WebhookUnderTest]:
    """A webhook of this test's own, running."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with WebhookUnderTest() as running, ThreadPoolExecutor(1) as pool:
        serving = pool.submit(running.serve_forever, 0.01)
        yield running
        running.shutdown()
        serving.result()


@pytest.fixture
def make_table(spark: Any, tmp_path: Path) -> Callable[[TableSpec], Table]:
    """Tables below this test's own root."""
    return lambda spec: Table(spec, tmp_path / "lake" / spec.name, spark)


@pytest.fixture
def events(make_table: Callable[[TableSpec], Table]) -> Table:
    """An empty table of :data:`EVENTS`."""
    return make_table(EVENTS)


@pytest.fixture
def created_events(events: Table) -> Table:
    """An empty table of :data:`EVENTS` that is there already."""
    events.ensure()
    return events


@pytest.fixture
def event_rows(spark: Any) -> Callable[..., Any]:
    """``event_rows(3, day="2026-01-05")``: as many rows for :data:`EVENTS`, ids from ``start``."""

    def rows(count: int, *, day: str = "2026-01-05", start: int = 0, amount: str = "id * 1.5D") -> Any:
        return spark.range(start, start + count).selectExpr(
            "id", "concat('u', id) AS user_id", f"{amount} AS amount", f"DATE '{day}' AS event_date"
        )

    return rows
