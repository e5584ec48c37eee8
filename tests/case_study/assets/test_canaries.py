"""No secret and no personal value where it does not belong, whatever fails.

Made-up values go through a whole platform, in which each connection fails. Then they are searched for in everything
that the platform left or printed. Tables and landed files may hold personal values, in columns that are declared so.
"""

from __future__ import annotations

import io
import json
import logging
import sqlite3
import zlib
from base64 import b64encode, urlsafe_b64encode
from collections import defaultdict
from contextlib import ExitStack, closing, contextmanager, redirect_stderr, redirect_stdout, suppress
from datetime import datetime, timezone
from gzip import compress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dedp_assets.case_study.defs.bronze.users import HISTORY
from dedp_assets.case_study.defs.gold.sessions import SESSIONS
from dedp_assets.case_study.defs.silver.users import BOUND, USERS_CURRENT
from dedp_assets.case_study.defs.silver.visits import RULES
from dedp_assets.case_study.sources import partner_visits
from dedp_assets.cli import main
from dedp_assets.graph.outcomes import failures
from dedp_assets.graph.outcomes.failures import sentence, unexpected
from dedp_assets.graph.resources.clock import Clock
from dedp_assets.graph.resources.environments import settings
from dedp_assets.graph.resources.lake import lake_of
from dedp_assets.graph.resources.spark import SparkEngine
from dedp_assets.graph.systems import postgres, registry, services
from dedp_assets.graph.systems.kafka import Kafka
from dedp_assets.graph.systems.secrets import WRAPPING, Secrets, store_of
from dedp_assets.laptop.orchestration.instance import Platform
from dedp_assets.laptop.servers.ports import free as free_port
from dedp_assets.laptop.status_page.details import render_details
from dedp_assets.laptop.status_page.making import Maker
from dedp_assets.laptop.status_page.model import as_json, details_as_json
from dedp_assets.laptop.status_page.render import render
from dedp_assets.patterns import merge_changes
from dedp_assets.patterns.core.running.backoff import Backoff
from dedp_assets.patterns.delta import store_at
from tests.canaries import Canary, Search, people, texts_in, unpacked
from tests.case_study.assets.conftest import MONDAY, day, visits_of, world_in
from tests.helpers import a_run

pytestmark = [
    pytest.mark.spark,
    pytest.mark.budget(110, "a platform in which each connection fails"),
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning"
    ),  # of Apprise's plugins, which are loaded with the first one
]

NAMES = (
    "password of PostgreSQL", "password of the run history", "path of a webhook", "query of a webhook",
    "token of Apprise", "key of the lineage server", "key of the services", "key of the registry",
    "password of Kafka", "token of Spark Connect", "secret key of S3", "session token of S3", "login of OpenBao",
    "password of a pointer", "user of a pointer", "password of a proxy", "password that PostgreSQL refuses",
)  # fmt: skip
SECRETS = {name: f"Wq{number}x/7tZ+k{name[::-1].title().replace(' ', '')}9" for number, name in enumerate(NAMES)}
SECRETS |= {"key of pseudonyms": "5d0c" * 15 + "77a1", "key that wraps keys": "9b3e" * 15 + "41d7"}
URL = {name: quote(value, safe="") for name, value in SECRETS.items()}
PEOPLE = people(200)
PERSONAL = [canary.value.decode() for canary in PEOPLE]
LINES = 60


class Careless(BaseHTTPRequestHandler):
    """A server that fails, and repeats all of the request as it says so."""

    def answer(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        told = f"no: {self.command} {self.path} {self.headers} ".encode() + body
        self.server.taken.append(told)
        self.send_response(403 if self.path.startswith("/bucket") else 500, f"no {self.path}"[:60])
        self.send_header("Content-Length", str(len(told)))
        self.end_headers()
        self.wfile.write(told)

    def __getattr__(self, name):
        if name.startswith("do_"):
            return self.answer
        raise AttributeError(name)

    def log_message(self, *_):
        pass


@contextmanager
def careless():
    with ThreadingHTTPServer(("127.0.0.1", 0), Careless) as server:
        server.taken = []
        Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        try:
            yield server
        finally:
            server.shutdown()


@contextmanager
def engine_told(spark, folder):
    """What the engine logs and notes as events from here on: a file of each, in the form of its own."""
    context, written = spark.sparkContext, folder / "engine.log"
    jvm, stream = context._jvm, context._jsc.sc()
    writer = jvm.java.io.FileWriter(str(written))
    loggers = jvm.org.apache.logging.log4j.LogManager.getContext(False).getConfiguration().getLoggers().values()
    for logger in loggers:
        for appender in [*logger.getAppenders().values()]:
            also = jvm.org.apache.logging.log4j.core.appender.WriterAppender.createAppender(
                appender.getLayout(), None, writer, "canaries", False, True
            )
            also.start()
            logger.addAppender(also, None, None)
    none, place = jvm.scala.Option.empty(), jvm.java.net.URI(f"{folder.as_uri()}/")
    events = jvm.org.apache.spark.scheduler.EventLoggingListener(
        "canaries", none, place, stream.conf(), context._jsc.hadoopConfiguration()
    )
    events.start()
    stream.addSparkListener(events)
    try:
        yield
    finally:
        stream.listenerBus().waitUntilEmpty(60_000)
        stream.removeSparkListener(events)
        events.stop()
        for logger in loggers:
            logger.removeAppender("canaries")
        writer.close()


@contextmanager
def process_told(folder):
    """What this process prints and logs from here on, in a file."""
    with (folder / "process.log").open("w") as written, redirect_stdout(written), redirect_stderr(written):
        handler = logging.StreamHandler(written)
        logging.getLogger().addHandler(handler)
        try:
            yield
        finally:
            logging.getLogger().removeHandler(handler)


def visits_with(values, number):
    """Visits of a day, with personal values in all columns that may have some."""
    made, given = [json.loads(line) for line in visits_of(number, count=LINES)], iter(values)
    for visit in made[: LINES // 3]:
        visit |= {name: next(given) for name in ("user_id", "user_agent", "ip")}
    return made, list(given)


def broken(visits, values):
    """Records that break one rule each, with personal values."""
    odd = [{"bytes": values[0]}, {"status": values[1]}, {"event_time": values[2]}, {"contact": {"mail": values[3]}}]
    made = [json.dumps({**visit, **more}) for visit, more in zip(visits, odd, strict=False)]
    return [*made, json.dumps(visits[0] | {"user_id": values[4]})[:-9], values[5]]


class Story:
    """What is done with the platform, and what is said about it, by place."""

    def __init__(self, world, server, folder, own_postgres):
        self.world, self.server, self.folder, self.texts = world, server, folder, {}
        self.database = own_postgres

    def tell(self, place, *told):
        self.texts[place] = self.texts.get(place, b"") + "\n".join(map(str, told)).encode("utf-8", "replace")

    def fails(self, place, call):
        """Note the error of a call, alone, as a step's sentence, and with its stack."""
        with pytest.raises(Exception) as raised:  # noqa: PT011 - whatever it is, it is searched
            call()
        error = raised.value
        told = unexpected("a/b", "2026-01-05", error)
        self.tell(place, error, repr(error), sentence("a/b", "", error), told.description, told.metadata)

    def compute(self, table, *partition, fails=False, **tags):
        ended = self.world.compute(table, *partition, **tags)
        self.tell("ends of runs", ended)
        assert bool(ended.failure) is fails, ended

    def run(self):
        for part in (self.load, self.apply, self.release, self.break_off, self.lose, self.look):
            part()

    def load(self):
        """A day with a few bad records, one that is refused for many, partners' records, and a replay."""
        world = self.world
        visits, rest = visits_with(PERSONAL[:66], 0)
        world.land(day(0), map(json.dumps, visits), broken=broken(visits[LINES // 3 :], rest))
        visits, rest = visits_with(PERSONAL[66:132], 1)
        world.land(day(1), map(json.dumps, visits), broken=broken(visits[LINES // 3 :], rest) * 3)
        partners = {
            "magazine": [json.dumps({"id": f"m{n}", "at": f"{day(0)}T11:00:00Z", "user": v, "page": "/", "agent": v})
                         for n, v in enumerate(PERSONAL[132:150])]
                        + [json.dumps({"id": "m-late", "at": PERSONAL[150], "user": PERSONAL[151], "page": "/"})],
        }  # fmt: skip
        partner_visits.deliver(world.landing / "partner_visits", MONDAY, partners)
        ended = [*world.platform.react()]
        self.tell("ends of runs", *ended)
        assert [each for each in ended if each.failure], ended
        self.compute("silver/visits_dead_letter_replay", day(0))

    def apply(self):
        """Changes of users, and contacts with a key for each of them."""
        at = datetime(2026, 1, 5, 12, tzinfo=timezone.utc)
        rows = []
        for n, value in enumerate(PERSONAL[152:]):
            user = {"user_id": f"{value}", "login": f"{value}", "email": value, "biography": value, "credit": "1.00",
                    "active": "true"}  # fmt: skip
            rows.append((n, 0, "insert", json.dumps({"user_id": value}), None, json.dumps(user), at, at.date()))
        lake = lake_of(self.world.settings)
        history = lake.table(HISTORY)
        schema = ", ".join(f"{name} {column.type}" for name, column in HISTORY.columns.items())
        history.overwrite(history.session.createDataFrame(rows, schema), provenance=a_run(HISTORY.name))
        for table in ("silver/users", "silver/users_current", "silver/users"):
            self.compute(table)
        users = lake.table(USERS_CURRENT)
        twice = users.read().limit(1)
        target = users.target(run="twice")
        self.fails("a merge of one person twice", lambda: merge_changes(
            twice.unionByName(twice.selectExpr("* EXCEPT (credit)", "credit + 1 AS credit")), target,
            keys=["user_id"], order_by=["last_change"], deleted="is_deleted",
        ))  # fmt: skip

    def release(self):
        """Exports, a replica, profiles, and the checks of the night."""
        table = lake_of(self.world.settings).table(SESSIONS)
        at = datetime(2026, 1, 5, 10, tzinfo=timezone.utc)
        rows = [(MONDAY, f"s{n}", value, at, at, 2, ["/"]) for n, value in enumerate(PERSONAL[:12])]
        schema = ", ".join(f"{name} {column.type}" for name, column in SESSIONS.columns.items())
        made = table.session.createDataFrame(rows, schema)
        table.overwrite(made, partition={"event_date": day(0)}, provenance=a_run(SESSIONS.name))
        for table in ("export/research", "staging/visits"):
            self.compute(table, day(0))
        self.compute("platform/quality_profiles")
        self.tell("ends of runs", self.world.run("check_tables"))

    def break_off(self):
        """Errors of the engine whose texts have a row in them, and of a service that repeats its request."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(RULES, "user is odd", "CAST(user_id AS INT) > 0")
            self.compute("silver/visits", day(0), fails=True, **{"dedp/force": "true"})
        self.compute("bronze/ip_locations", day(0), fails=True)
        self.tell("ends of runs", *self.world.platform.react())

    def lose(self):
        """Each connection fails, with its secret at hand."""
        gone = f"127.0.0.1:{free_port()}"
        self.tell("lacks", postgres.lacking())
        self.fails("PostgreSQL", postgres.OperationalDatabase().require_answer)
        self.fails("PostgreSQL", postgres.OperationalDatabase().connect)
        token = URL["token of Spark Connect"]
        self.fails("Spark Connect", lambda: SparkEngine(remote=f"sc://{gone}/;token={token}").session)
        for part in (self.lose_bucket, self.lose_login, self.lose_secrets, self.lose_topics, self.lose_history):
            with pytest.MonkeyPatch.context() as patch:
                part(patch, f"127.0.0.1:{self.server.server_port}", gone)

    def lose_bucket(self, patch, here, _):
        for name, value in {
            "AWS_ENDPOINT_URL": f"http://{here}",
            "AWS_ALLOW_HTTP": "true",
            "AWS_ACCESS_KEY_ID": "ada",
            "AWS_SECRET_ACCESS_KEY": SECRETS["secret key of S3"],
            "AWS_SESSION_TOKEN": SECRETS["session token of S3"],
        }.items():
            patch.setenv(name, value)
        self.fails("S3", lambda: store_at("s3://bucket/lake").read("x"))

    def lose_login(self, patch, *_):
        """A server that runs and refuses a login: to the platform's resource, a run and a command, and in its log."""
        own, secret = postgres.address(self.database), URL["password that PostgreSQL refuses"]
        patch.setenv("DEDP_POSTGRES", f"postgresql://{own.user}:{secret}@{own.host}:{own.port}/{own.database}")
        self.tell("refused login", postgres.lacking())
        self.fails("refused login", postgres.OperationalDatabase().require_answer)
        self.fails("refused login", postgres.OperationalDatabase().connect)
        self.compute("bronze/plans", fails=True)
        self.command("status")
        self.tell("log of PostgreSQL", (self.database.home / "postgres" / "log").read_text())

    def lose_secrets(self, patch, here, _):
        login = self.folder / "login"
        login.write_text(SECRETS["login of OpenBao"])
        login.chmod(0o600)
        patch.setenv("DEDP_SECRETS", f"http://{here}")
        patch.setenv("DEDP_SECRETS_LOGIN", str(login))
        self.fails("OpenBao", lambda: Secrets().key_ring("a/b"))
        self.command("secret", "list")
        login.unlink()

    def lose_topics(self, patch, here, _):
        self.fails("Kafka", Kafka(bootstrap="nowhere.invalid:9092").describe)
        patch.setenv("DEDP_KAFKA", f"ada:{SECRETS['password of Kafka']}@nowhere.invalid:9092")
        self.fails("Kafka", settings)
        patch.delenv("DEDP_KAFKA")
        key = URL["key of the registry"]
        for url in (f"http://{here}/?key={key}", f"http://ada:{key}@{here}"):
            patch.setenv("DEDP_REGISTRY", url)
            self.tell("lacks", registry.lacking(settings()))

    def lose_history(self, patch, _, gone):
        patch.setenv("DEDP_HISTORY", f"postgresql://ada:{URL['password of the run history']}@{gone}/history")
        for name in ("DAGSTER_HOME", "DEDP_HOME", "DEDP_HISTORY_URL"):
            patch.setenv(name, str(self.folder / "other"))
        patch.setattr("time.sleep", lambda _: None)
        self.fails("run history", lambda: Platform(settings()))
        self.command("status")

    def look(self):
        """The page, the settings, and what the commands say."""
        maker = Maker(self.world.settings, thorough=True)
        page = maker.page(Clock().now())
        self.tell("page", render(page), json.dumps(as_json(page)))
        for table in page.tables:
            details = maker.details(page, table.name)
            self.tell("page", render_details(details), json.dumps(details_as_json(details)))
        self.tell("settings", repr(self.world.settings), self.world.platform.definitions.resources)
        for words in COMMANDS:
            self.command(*words.replace("NOBODY", PERSONAL[-1]).replace("PAGE", str(self.folder / "page.html")).split())

    def command(self, *words):
        out = io.StringIO()
        with redirect_stdout(out), redirect_stderr(out), suppress(SystemExit):
            main(list(words))
        self.tell(f"dedp {words[0]}", out.getvalue())


COMMANDS = (
    "status silver/visits", "status --page PAGE", "letters", "cost", "lineage silver/visits --json", "history", "check",
    "verify silver/visits", "alerts", "alerts --test", "secret list", "contract check",
    "contract show gold/daily_visitors", "layout silver/visits", "versions silver/visits",
    "keys delete silver/users --person NOBODY", "token reveal tok_0 --by ada", "token log", "infer nowhere",
    "run silver/visits 2026-01-05 --force", "approve silver/visits 2026-01-06 --by Ada --because why",
    "restore silver/visits",
)  # fmt: skip


def environment(server):
    """Settings with a secret in each that may have one, all of connections to nobody or to a careless server."""
    here, gone = f"127.0.0.1:{server.server_port}", f"127.0.0.1:{free_port()}"
    return {
        "DEDP_MASKING_KEY": SECRETS["key of pseudonyms"],
        "DEDP_ALERTS": "log,file,webhook,apprise",
        "DEDP_ALERTS_WEBHOOK": f"http://{here}/hooks/{URL['path of a webhook']}?key={URL['query of a webhook']}",
        "DEDP_ALERTS_APPRISE": f"json://{here}/{URL['token of Apprise']}",
        "DEDP_LINEAGE_URL": f"http://{here}/lineage?api_key={URL['key of the lineage server']}",
        "DEDP_SERVICES": f"http://{here}/services",
        "DEDP_SERVICES_KEY": "services/key",
        "DEDP_POSTGRES": f"postgresql://ada:{URL['password of PostgreSQL']}@{gone}/shop",
        "http_proxy": "",
        "no_proxy": "127.0.0.1",
    }


class Left:
    """What was left, searched: place -> canaries there, with the places in which personal values are declared."""

    def __init__(self, story, home, folder):
        secret = [Canary(name, value.encode(), is_secret=True) for name, value in SECRETS.items()]
        made = {
            "key of the file of secrets": (home / "secrets/secrets.key").read_bytes(),
            "key of the vault": Secrets().token_vault("test").key.secret,
            "key of a person's contacts": Secrets().key_ring("test").current(BOUND.keys, PERSONAL[-2]).value,
        }
        secret += [Canary(name, value, is_secret=True) for name, value in made.items()]
        self.search, self.lake = Search([*PEOPLE, *secret]), lake_of(story.world.settings)
        self.story = story
        self.secrets, self.taken = secret, self.search.found(b"".join(story.server.taken))
        self.places, self.leaks, self.declared, self.of_tasks = set(), defaultdict(set), set(), set()
        for place, content in self.texts(story, home, folder):
            self.places.add(place)
            for canary in self.search.found(content):
                if place == "secrets/secrets.key" and canary.name == "key of the file of secrets":
                    continue
                if not canary.is_secret and place.startswith("eventlog"):
                    self.of_tasks.add(canary)
                elif not canary.is_secret and self.is_declared(place):
                    self.declared.add(canary)
                else:
                    self.leaks[place].add(canary.name)

    def texts(self, story, home, folder):
        for place, content in story.texts.items():
            yield from unpacked(place, content)
        yield from texts_in(folder)
        for written_ahead in home.rglob("*.db"):
            with closing(sqlite3.connect(written_ahead)) as database:
                database.execute("PRAGMA wal_checkpoint(FULL)")
        yield from texts_in(home)

    def is_declared(self, place):
        """Whether a place may hold personal values: a landed file, or a column that is declared."""
        path, _, column = place.partition("|")
        top, layer, dataset, *_ = (*path.split("/"), "", "", "")
        if top == "landing":
            return not column
        if top != "lakehouse" or not path.endswith(".parquet") or "_delta_log" in path:
            return False
        personal = {*self.personal(f"{layer}/{dataset}"), *self.personal(f"{layer}/{dataset}_dead_letter")}
        return column.partition("|")[0] in personal if column else bool(personal)

    def personal(self, table):
        return self.lake.stored(table).spec.withheld("sample") if self.lake.ledger(table).exists() else ()


@pytest.fixture(scope="module")
def left(spark, own_postgres, tmp_path_factory):
    """A platform through which canaries went, and what was found afterwards."""
    home, folder = tmp_path_factory.mktemp("home"), tmp_path_factory.mktemp("said")
    with ExitStack() as stack:
        patch, server = stack.enter_context(pytest.MonkeyPatch.context()), stack.enter_context(careless())
        for name, value in environment(server).items():
            patch.setenv(name, value)
        patch.setattr(failures, "_STEP", Backoff(attempts=3, first_seconds=0))
        patch.setattr(services, "Backoff", lambda **_: Backoff(attempts=2, first_seconds=0))
        world = stack.enter_context(world_in(home))
        store = store_of(world.settings)
        store.write("services/key", {"value": SECRETS["key of the services"]})
        store.write("prod/db", {"user": SECRETS["user of a pointer"], "password": SECRETS["password of a pointer"]})
        store.write(WRAPPING, {"value": SECRETS["key that wraps keys"]})
        story = Story(world, server, folder, own_postgres)
        with engine_told(spark, folder), process_told(folder):
            story.run()
        return Left(story, home, folder)


def test_no_canary_is_where_it_does_not_belong(left):
    """In no log, event, error, alert, page, profile, letter's reason, command's output, and no table's log."""
    assert {place: sorted(names) for place, names in left.leaks.items()} == {}


def test_sparks_event_log_holds_the_rows_of_failed_tasks_alone(left):
    """Nothing masks the errors of tasks there, so that the platform's engines write none; here, a job of two failed."""
    assert len(left.of_tasks) <= 2


def test_every_personal_value_went_through_the_platform(left):
    """Otherwise nothing would be shown by what is not found."""
    assert left.declared == {*PEOPLE}


def test_every_place_was_searched(left):
    """Each kind of place has something in it."""
    for part in PLACES:
        assert [place for place in left.places if part in place], part


def test_a_login_was_refused_by_a_real_server(left):
    """As the server's log says, and the sentence for people."""
    for place in ("refused login", "log of PostgreSQL"):
        assert b"password authentication failed" in left.story.texts[place], left.story.texts[place]


def test_secrets_were_sent(left):
    """Servers got those that are sent as they are, and repeated them."""
    names = {canary.name for canary in left.taken}
    assert {"path of a webhook", "query of a webhook", "token of Apprise", "key of the lineage server",
            "key of the services", "login of OpenBao"} <= names  # fmt: skip


PLACES = (
    "canaries.zstd|unpacked",
    "engine.log",
    "process.log",
    "|event_logs",
    "|runs",
    "alerts/",
    "alerts.jsonl",
    "lineage/",
    "_delta_log/",
    "_refused/",
    "platform/quality_profiles",
    "silver/visits_dead_letter",
    "|statistics",
    "page",
    "staged-",
    "keys/columns.ring",
)

NEEDLE = Canary("a person", "Äda 'Quixotry' Zwölfender+17".encode())


def into_sqlite(folder, value):
    with sqlite3.connect(folder / "x.db") as database:
        database.execute("CREATE TABLE t (a INT, b BLOB)")
        database.execute("INSERT INTO t VALUES (1, ?)", (value,))
    database.close()


def into_parquet(folder, value):
    pq.write_table(pa.table({"n": [{"deep": [value, value[:2]]}]}), folder / "x.parquet")


def into_file(folder, content):
    (folder / "x.log").write_bytes(content.encode() if isinstance(content, str) else content)


def packed(content):
    return pa.Codec("zstd").compress(content, asbytes=True)


TEXT = NEEDLE.value.decode()
HALF = NEEDLE.value[: len(NEEDLE.value) // 2]
PLANTED = {
    "text": lambda f: into_file(f, f"user {TEXT} is unknown"),
    "upper case": lambda f: into_file(f, NEEDLE.value.upper()),
    "JSON": lambda f: into_file(f, json.dumps({"user": TEXT})),
    "JSON in JSON": lambda f: into_file(f, json.dumps({"body": json.dumps({"user": TEXT})})),
    "URL": lambda f: into_file(f, f"GET /x?user={quote(TEXT)}&y=1"),
    "URL in lower case": lambda f: into_file(f, quote(TEXT, safe="").lower()),
    "hexadecimal": lambda f: into_file(f, NEEDLE.value.hex().upper()),
    **{f"Base64 at {n}": lambda f, n=n: into_file(f, b64encode(b"x" * n + NEEDLE.value + b"yz")) for n in range(3)},
    "Base64 of URLs": lambda f: into_file(f, urlsafe_b64encode(b">" + NEEDLE.value)),
    "backwards": lambda f: into_file(f, NEEDLE.value[::-1]),
    "first half": lambda f: into_file(f, b"cut: " + HALF),
    "second half backwards": lambda f: into_file(f, NEEDLE.value[len(HALF) :][::-1]),
    "gzip": lambda f: into_file(f, compress(NEEDLE.value)),
    "zstd of frames": lambda f: into_file(f, b"".join(map(packed, (b"begin ", NEEDLE.value)))),
    "a database": lambda f: into_sqlite(f, TEXT),
    "packed in a database": lambda f: into_sqlite(f, zlib.compress(NEEDLE.value)),
    "a nested column": lambda f: into_parquet(f, TEXT),
    "a packed column": lambda f: into_parquet(f, zlib.compress(NEEDLE.value)),
    "a file's name": lambda f: (f / f"user={quote(TEXT)}").mkdir(),
}  # fmt: skip


@pytest.mark.parametrize("way", PLANTED)
def test_a_canary_is_found_however_it_is_written(way, tmp_path):
    """In each kind of place; another one is not."""
    PLANTED[way](tmp_path)
    search = Search([NEEDLE, *people(20)])
    assert {each for _, content in texts_in(tmp_path) for each in search.found(content)} == {NEEDLE}
