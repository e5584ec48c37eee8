"""`make up`: supervision of Spark engine, Kafka, PostgreSQL, HTTP servers and Dagster's servers."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from urllib.request import urlopen

import dagster as dg
import psycopg

from dedp_assets.graph.resources.announced import announced, listens
from dedp_assets.graph.resources.clock import Clock
from dedp_assets.graph.resources.engine import EngineError, use_java
from dedp_assets.graph.resources.environments import Settings, apply, child_path
from dedp_assets.graph.resources.home import Running, hold
from dedp_assets.graph.resources.spark import engine_proof
from dedp_assets.graph.systems import kafka, orchestrator
from dedp_assets.graph.systems import postgres as database
from dedp_assets.graph.systems import services as http
from dedp_assets.graph.systems.identities import home_authority
from dedp_assets.graph.systems.registry import OWN as OWN_REGISTRY
from dedp_assets.graph.systems.secrets import OWN as OWN_SECRETS
from dedp_assets.laptop import doors, status_server
from dedp_assets.laptop.orchestration import code_server
from dedp_assets.laptop.orchestration.instance import close_abandoned, prepare_home
from dedp_assets.laptop.orchestration.reloading import Reloading
from dedp_assets.laptop.servers import bao, cluster, engine, loopback, ports, postgres, registry, s3
from dedp_assets.laptop.servers.cluster import Cluster
from dedp_assets.laptop.servers.kafka import Broker
from dedp_assets.laptop.starting import Startup
from dedp_assets.laptop.supervision import Server, Supervision, end_leftovers, log_of, supervise
from dedp_assets.laptop.telling import Telling
from dedp_assets.project import project

__all__ = ["Ports", "SourceSystems", "up"]

_LAST_PORT = 65_535
_LOOK_SECONDS = 0.5
_TICK_LOOKS_SECONDS = 24
"""How long a tick goes on looking: just less than a multiple of the five seconds between two starts of ticks."""
_TELL_EVERY = timedelta(seconds=2)
_PATIENCE = timedelta(seconds=15)
"""Longest pause without a line while servers start."""
_WEBSERVER = "dedp_assets.laptop.orchestration.webserver:application"
"""The webserver behind a lock; named, as an import takes seconds."""
_CODE_THREADS = "32"
"""How many threads the code server has: each tick that goes on looking holds one, and the UI needs some beside them."""


@dataclass(frozen=True, slots=True)
class Ports:
    """Ports of the servers on the loopback interface.

    Attributes:
        web: the webserver.
        engine: the Spark engine.
        database: PostgreSQL; 0 takes a free one.
        kafka: Kafka; its controller takes the next one.
        services: the HTTP services.
        status: the status page.
        registry: the schema registry.
        s3: the S3 server.
        bao: the server of secrets.
    """

    web: int = 3000
    engine: int = 15002
    database: int = 0
    kafka: int = 9092
    services: int = 8800
    status: int = 3001
    registry: int = 8081
    s3: int = 8333
    bao: int = 8200


@dataclass(frozen=True, slots=True)
class SourceSystems:
    """Source systems of a project, served by the laptop.

    Attributes:
        services: HTTP services, as ``module:factory`` of an ASGI application.
        fill: function that creates the operational database's tables, with their first rows.
    """

    services: str
    fill: Callable[[psycopg.Connection], None]


def up(settings: Settings, ports_: Ports, sources: SourceSystems | None = None) -> int:
    """Keep the platform running until a signal or a server that fails for good.

    Args:
        settings: settings of the home.
        ports_: ports of the servers.
        sources: source systems; ``None`` for a project that has them elsewhere.

    Raises:
        ValueError: if a platform runs in this home, or a port is in use, is not a port, or is asked for twice.
    """
    settings = settings if sources else _without_sources(settings)
    web, spark = doors.page_url(settings, ports_.web), doors.engine_url(settings, ports_.engine)
    started = Clock().now().astimezone()
    with hold(settings, Running(os.getpid(), f"{started:%Y-%m-%d %H:%M:%S}", web, spark)):
        if left := end_leftovers(str(settings.home)):
            _say("notice", f"{left} processes that an earlier platform left in this home were ended")
        _require_ports(_wanted(settings, ports_))
        settings = _with_own_lake(settings, ports_)
        engine.prepare(settings)
        use_java(settings)
        apply(engine_proof(settings))
        reason = _run(settings, replace(ports_, database=ports_.database or ports.free()), sources)
    if reason:
        print(f"dedp up: {reason}", file=sys.stderr)  # noqa: T201
    return 1 if reason else 0


def _without_sources(settings: Settings) -> Settings:
    """Return settings without servers of source systems."""
    # The run history's server is the database's.
    postgres_ = settings.postgres if settings.history == database.OWN else settings.postgres or ""
    return replace(settings, postgres=postgres_, kafka=settings.kafka or "", services=settings.services or "")


def _with_own_lake(settings: Settings, ports_: Ports) -> Settings:
    """Name the S3 server of a lake in the laptop's own bucket in the environment of all servers.

    A command line would show the keys to everybody.
    """
    if not settings.own_s3:
        return settings
    s3.require_unused(settings)
    apply(named := s3.variables(settings.home / s3.FOLDER, port=ports_.s3))
    return replace(settings, s3_endpoint=named["AWS_ENDPOINT_URL"], s3_region=named["AWS_REGION"])


def _run(settings: Settings, ports_: Ports, sources: SourceSystems | None) -> str:
    logs = _logs_of(settings)
    private = settings.secure == "on"
    with (
        _history(settings, ports_) as (instance, home),
        code_server.places(project().locations, private=private) as places,
    ):
        platform = _Platform(settings, ports_, home, sources, places)
        for door in doors.unlocked(settings, {server.name for server in platform.servers}):
            _say("notice", f"DEDP_SECURE=on does not lock {door.name}: {door.reason}")
        _say("starting", f"{', '.join(server.name for server in platform.servers)}; what they say goes to {logs}")
        try:
            with supervise(platform.servers, logs, mark=str(settings.home), died=platform.died) as kept:
                reason = platform.keep(kept, instance)
                _say("ending", "all servers are told to end")
        finally:
            if settings.postgres is None:
                postgres.stop(settings)
    _say("ended", "nothing of it runs any more")
    return reason


@contextmanager
def _history(settings: Settings, ports_: Ports) -> Iterator[tuple[dg.DagsterInstance, dict[str, str]]]:
    """Open Dagster's run history, with abandoned runs closed, and the variables of Dagster's processes.

    A history in the laptop's own server needs that server now, before it is supervised; each later transaction opens a
    connection.
    """
    own = settings.history == database.OWN and settings.postgres is None
    with ExitStack() as opened:
        if own:
            postgres.start(settings, port=ports_.database)
        try:
            apply(home := prepare_home(settings))
            instance = opened.enter_context(dg.DagsterInstance.from_config(str(settings.dagster_home)))
            close_abandoned(instance, nobody_else_runs=True)
        finally:
            if own:
                postgres.stop(settings)
        yield instance, home


class _Platform:
    """The servers of a home.

    Attributes:
        servers: what is to run.
        waiting: names of the servers that do not answer yet, or again.
    """

    def __init__(
        self,
        settings: Settings,
        ports_: Ports,
        home: Mapping[str, str],
        sources: SourceSystems | None,
        places: Mapping[str, int | Path],
    ) -> None:
        self._settings, self._ports, self._sources = settings, ports_, sources
        self._answers: dict[str, Callable[[], str]] = {"engine": self._engine, "status": self._status, "web": self._web}
        locations = project().locations
        code = ["-w", str(code_server.workspace(settings.dagster_home, servers=places))]
        spark = {"SPARK_REMOTE": doors.engine_url(settings, ports_.engine), "PYTHONUNBUFFERED": "1"}
        polling = {"DEDP_LOOK_SECONDS": str(settings.look_seconds or _TICK_LOOKS_SECONDS)}
        self.servers = [*self._own_lake(), *self._own_secrets(), *self._engine_servers()]
        lake = s3.FOLDER if settings.own_s3 else ""  # what looks at tables waits for it
        broker = self._broker()
        importable = {"PYTHONPATH": child_path(project().paths)}  # the code's, which need not be installed
        linked = {"DEDP_STATUS_PAGE": settings.status_page or doors.page_url(settings, ports_.status)}
        dagster = {**home, **spark, **importable, **polling, **linked}
        dagster |= {"DEDP_KAFKA": broker.address} if broker else {}
        dagster |= self._own_registry()
        self.servers += [*self._database_server(), *self._services()]
        threads = {"DAGSTER_CODE_SERVER_MAX_WORKERS": _CODE_THREADS, "DAGSTER_GRPC_MAX_WORKERS": _CODE_THREADS}
        for location in locations:
            name = "code" if location is locations[0] else f"code_{location.name}"
            place = places[location.name]
            named = {**dagster, **threads, **code_server.variables(place)}
            self.servers.append(Server(name, code_server.command(location, place), named, after=lake))
            self._answers[name] = partial(code_server.loaded, place, log_of(_logs_of(settings), name))
        self.servers += self._watching({**home, **importable}, dagster, code, after=lake)
        self.waiting, self._trouble, self._waited = set(self._answers), "", Clock().now()
        self._start = Startup(_logs_of(settings), len(self._answers), self._waited)

    def _watching(
        self, page: Mapping[str, str], dagster: Mapping[str, str], code: Sequence[str], *, after: str
    ) -> list[Server]:
        """Return webserver, status page and daemon, with the variables of the page and of Dagster's processes."""
        daemon = [str(Path(sys.executable).parent / "dagster-daemon"), "run", *code]
        return [
            Server("web", self._webserver(code), dagster, after=after),
            replace(self._status_server(page), after=after),
            Server("daemon", daemon, dagster, after=after),
        ]

    def _webserver(self, code: Sequence[str]) -> list[str]:
        """Return the command of the webserver: Dagster's program, or behind a lock the application alone."""
        lock = doors.token(self._settings, orchestrator.FOLDER, at=Clock().now())
        if lock is None:
            program = str(Path(sys.executable).parent / "dagster-webserver")
            return [program, "-h", "127.0.0.1", "-p", str(self._ports.web), *code]
        folder, port = self._settings.home / orchestrator.FOLDER, self._ports.web
        return loopback.command(_WEBSERVER, folder, port=port, lock=lock, websockets=True)

    def died(self, name: str, log: Path) -> None:
        """Report the restart of a dead server."""
        _say("restart", f"{name} died and is started again; its log: {log}")
        self.waiting |= {name} & set(self._answers)

    def keep(self, kept: Supervision, instance: dg.DagsterInstance) -> str:
        """Report events until the end; return the reason of the end, empty for a requested end."""
        clock = Clock()
        told_at = clock.now()
        telling = Telling(instance, _say, now=told_at)
        web = orchestrator.Orchestrator(url=doors.page_url(self._settings, self._ports.web))
        reloading = Reloading(project(), web, partial(kept.restart, "status"), _say, kept.folder / "reload.log")
        while not kept.asked.wait(_LOOK_SECONDS):
            if reason := kept.poll():
                return reason
            self._report_answers(clock.now(), kept)
            if (now := clock.now()) - told_at >= _TELL_EVERY:
                told_at = now
                self._report(instance, telling, now)
                if not self.waiting:
                    reloading.poll()
        return ""

    def _report_answers(self, now: datetime, kept: Supervision) -> None:
        """Report the servers that begin to answer, start the servers that waited, and report a long silence."""
        for name in sorted(self.waiting):
            if text := self._answers[name]():
                self.waiting.remove(name)
                counted = self._start.progress(len(self.waiting), now)
                _say("ready", f"{name}: {text}" + (f" ({counted})" if counted else ""))
                self._waited = now
                for server in self.servers:
                    if server.after == name:
                        kept.start(server.name)
        if self.waiting and now - self._waited >= _PATIENCE:
            counted = self._start.progress(len(self.waiting), now)
            _say("waiting", f"for {', '.join(sorted(self.waiting))}" + (f" ({counted})" if counted else ""))
            self._waited = now

    def _report(self, instance: dg.DagsterInstance, telling: Telling, now: datetime) -> None:
        """Report runs and ticks; errors of Dagster's storage end no server."""
        try:
            close_abandoned(instance)
            telling.poll(now)
        except Exception as error:
            text = f"what runs do cannot be told: {error}".splitlines()[0]
            if text != self._trouble:
                _say("notice", text)
            self._trouble = text

    def _engine(self) -> str:
        url = doors.engine_url(self._settings, self._ports.engine)
        return f"Spark answers at {url}" if listens(self._ports.engine) else ""

    def _s3(self) -> str:
        ready = s3.is_ready(self._settings.home / s3.FOLDER, port=self._ports.s3)
        return f"the lake is in {self._settings.lake} at {s3.url(self._ports.s3)}" if ready else ""

    def _own_lake(self) -> list[Server]:
        """Return the laptop's own S3 server; empty for a lake elsewhere."""
        if not self._settings.own_s3:
            return []
        self._answers[s3.FOLDER] = self._s3
        # The server takes its time to end when asked to, and a killed one has lost nothing that it answered for.
        command = s3.command(self._settings.home / s3.FOLDER, port=self._ports.s3)
        return [Server(s3.FOLDER, command, stop="KILL")]

    def _bao(self) -> str:
        ready = bao.is_ready(self._settings.home / bao.FOLDER, port=self._ports.bao)
        return f"secrets are at {bao.url(self._ports.bao)}" if ready else ""

    def _own_secrets(self) -> list[Server]:
        """Return the laptop's own server of secrets; empty for secrets elsewhere."""
        if self._settings.secret_store != OWN_SECRETS:
            return []
        self._answers[bao.FOLDER] = self._bao
        return [Server(bao.FOLDER, bao.command(self._settings.home / bao.FOLDER, port=self._ports.bao))]

    def _engine_servers(self) -> list[Server]:
        """Return the shared engine, after the cluster of the settings."""
        port, settings = self._ports.engine, self._settings
        embedded = Server("engine", [], {"SPARK_CONNECT_MODE": "0"}, without=("SPARK_REMOTE",))
        if not settings.cluster:
            return [replace(embedded, command=engine.connect_command(settings, port))]
        made = Cluster(settings, settings.home / cluster.FOLDER, ports.free(), settings.cluster)
        made.prepare()
        self._answers["master"] = lambda: f"the Spark master answers at {made.url}" if made.answers() else ""
        driver = engine.connect_command(replace(settings, master=made.url), port, properties=made.properties)
        named = [f"worker_{number + 1}" for number in range(made.workers)]
        return [
            Server("master", made.master(), made.variables),
            *(Server(name, made.worker(), made.variables, after="master") for name in named),
            replace(embedded, command=driver, after="master"),
        ]

    def _kafka(self) -> str:
        return f"the broker answers at 127.0.0.1:{self._ports.kafka}" if listens(self._ports.kafka) else ""

    def _web(self) -> str:
        address = doors.page_url(self._settings, self._ports.web)
        if key := doors.token_file(self._settings, orchestrator.FOLDER):  # who listens has made the application
            shown = f"{address}/?token=... (the token is in {key}; Ctrl-C ends all)"
            return shown if listens(self._ports.web) else ""
        with suppress(OSError), urlopen(f"{address}/server_info", timeout=2):  # noqa: S310 - on loopback
            return f"{address} (Ctrl-C ends all)"
        return ""

    def _status(self) -> str:
        if not listens(self._ports.status):
            return ""
        address = announced(self._settings.home / status_server.FOLDER)
        key = doors.token_file(self._settings, status_server.FOLDER)
        return f"what needs somebody is at {address}" + (f"/?token=... (the token is in {key})" if key else "")

    def _registry(self) -> str:
        address = registry.url(self._ports.registry, locked=self._settings.secure == "on")
        return f"the schema registry answers at {address}" if listens(self._ports.registry) else ""

    def _http(self) -> str:
        address = announced(self._settings.home / http.FOLDER)
        return f"HTTP services answer at {address}" if address else ""

    def _services(self) -> list[Server]:
        """Make the laptop's own HTTP services ready to run."""
        if self._sources is None or self._settings.services is not None:
            return []
        self._answers["services"] = self._http
        folder, port = self._settings.home / http.FOLDER, self._ports.services
        lock = doors.certificates(self._settings, at=Clock().now())
        return [Server("services", loopback.command(self._sources.services, folder, port=port, lock=lock))]

    def _status_server(self, variables: Mapping[str, str]) -> Server:
        """Return the server of the status page."""
        folder, port = self._settings.home / status_server.FOLDER, self._ports.status
        lock = doors.token(self._settings, status_server.FOLDER, at=Clock().now())
        command = loopback.command(f"{status_server.__name__}:application", folder, port=port, lock=lock)
        return Server("status", command, variables)

    def _own_registry(self) -> dict[str, str]:
        """Add the laptop's own schema registry to the servers, if asked for; return the variable with the URL.

        By the URL and not by the announcement: while the registry does not answer, records wait.
        """
        if self._settings.registry != OWN_REGISTRY:
            return {}
        try:
            command = registry.command(self._settings, port=self._ports.registry)
        except EngineError as error:
            _say("notice", f"the schema registry does not start, records of topics wait for it: {error}")
            return {}
        self._answers["registry"] = self._registry
        self.servers.append(Server("registry", command))
        return {"DEDP_REGISTRY": registry.url(self._ports.registry, locked=self._settings.secure == "on")}

    def _database(self) -> str:
        """Create the database with the first rows; return the readiness message, empty if not ready."""
        with suppress(psycopg.OperationalError):
            own = postgres.open_database(self._settings)
            if own is None:
                return ""
            if self._sources is not None:
                with own.connect() as connection:
                    self._sources.fill(connection)
            return f"PostgreSQL answers at 127.0.0.1:{own.port}"
        return ""

    def _database_server(self) -> list[Server]:
        """Return the laptop's PostgreSQL server; empty if another server is configured, or the start failed."""
        if self._settings.postgres is not None:
            return []
        try:
            command = postgres.command(self._settings, port=self._ports.database)
        except postgres.PostgresError as error:
            _say("notice", f"the operational database does not start, what reads from it will wait: {error}")
            return []
        self._answers["database"] = self._database
        return [Server("database", command, user=postgres.system_user(), stop="INT")]

    def _broker(self) -> Broker | None:
        """Add the laptop's own Kafka broker to the servers; without Kafka, visits come by files only."""
        if self._settings.kafka is not None:
            return None
        port = self._ports.kafka
        signs = home_authority(self._settings) if self._settings.secure == "on" else None
        broker = Broker(self._settings, self._settings.home / kafka.FOLDER, port, port + 1, signs)
        try:
            self.servers.append(Server("kafka", broker.command()))
        except EngineError as error:
            _say("notice", f"Kafka does not start, visits come by files only: {error}")
            return None
        self._answers["kafka"] = self._kafka
        return broker


def _logs_of(settings: Settings) -> Path:
    return settings.home / "logs"


def _wanted(settings: Settings, ports_: Ports) -> dict[str, int]:
    wanted = {"the Spark engine (--engine-port)": ports_.engine, "the webserver (--port)": ports_.web}
    wanted["the status page (--status-port)"] = ports_.status
    if settings.own_s3:
        wanted["the S3 server (--s3-port)"] = ports_.s3
    if settings.secret_store == OWN_SECRETS:
        wanted["the server of secrets (--bao-port)"] = ports_.bao
    if settings.registry == OWN_REGISTRY:
        wanted["the schema registry (--registry-port)"] = ports_.registry
    if settings.kafka is None:
        wanted |= {
            "Kafka (--kafka-port)": ports_.kafka,
            "Kafka's controller (one more than --kafka-port)": ports_.kafka + 1,
        }
    if settings.services is None:
        wanted["the HTTP services (--services-port)"] = ports_.services
    if settings.postgres is None and ports_.database:
        wanted["PostgreSQL (--database-port)"] = ports_.database
    return wanted


def _require_ports(asked: Mapping[str, int]) -> None:
    wanted: dict[int, str] = {}
    for what, port in asked.items():
        if not 0 < port <= _LAST_PORT:
            raise ValueError(f"{port} is not a port for {what}; choose one from 1 to {_LAST_PORT}")
        if port in wanted:
            raise ValueError(f"port {port} is wanted for {wanted[port]} and for {what}; they need one each")
        if ports.in_use(port):
            raise ValueError(f"port {port} for {what} is in use; choose another one")
        wanted[port] = what


def _say(word: str, sentence: str) -> None:
    print(f"{Clock().now().astimezone():%H:%M:%S}  {word:9} {sentence}", flush=True)  # noqa: T201
