"""Secretless Connector."""

from __future__ import annotations

import logging
import shutil
import ssl
import stat
import tempfile
import traceback
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import product
from pathlib import Path

import psycopg
import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route

from dedp_assets.graph.resources.clock import Clock
from dedp_assets.graph.resources.environments import settings
from dedp_assets.graph.systems import postgres
from dedp_assets.graph.systems.kafka import client
from dedp_assets.laptop.servers import kafka_tls, postgres_tls
from dedp_assets.laptop.servers import postgres as database
from dedp_assets.laptop.servers.kafka import Broker
from dedp_assets.laptop.servers.ports import free as free_port
from dedp_assets.laptop.servers.secured_http import CertifiedProtocol, OnlyRoles
from dedp_assets.patterns.connectors.certificates.authority import Authority
from dedp_assets.patterns.connectors.certificates.files import Certificate
from dedp_assets.patterns.connectors.certificates.other_authorities import GivenCertificates
from dedp_assets.patterns.connectors.web.http import Patience, Service
from dedp_assets.patterns.core.errors import ConfigError, NotReady
from dedp_assets.patterns.core.running.backoff import Backoff
from dedp_assets.patterns.security.secretless_connector import (
    RoleCertificates,
    assume_role,
    using_role,
)
from tests.contracts.known_calls import known_calls
from tests.faults.processes import wait_until
from tests.fixtures import answering

pytestmark = pytest.mark.budget(45, "real servers with TLS: PostgreSQL, Kafka, HTTP")

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
TOPIC = "orders"
SERVERS = ("warehouse", "topics", "service")
now = Clock().now
ONCE = Backoff(attempts=1)


@dataclass(frozen=True)
class Platform:
    """Three servers that trust one authority.

    Attributes:
        enter: server -> what logs in with a proof there, does something, and says as whom.
    """

    authority: Authority
    address: postgres.Address
    broker: Broker
    url: str

    @property
    def enter(self):
        return dict(zip(SERVERS, (self.query, self.produce, self.ask), strict=True))

    def query(self, proof, **more):
        with self.open(proof, **more) as connection:
            return connection.execute("SELECT current_user FROM sales").fetchone()[0]

    def open(self, proof, **more):
        where = {"host": self.address.host, "port": self.address.port, "dbname": self.address.database}
        return psycopg.connect(**{**where, "connect_timeout": 10, **proof.libpq(), **more})

    def produce(self, proof, **more):
        chosen = {**client(self.broker.address), **proof.kafka(), **more}
        chosen = {name: value for name, value in chosen.items() if value is not None}
        if denied := AdminClient(chosen).list_topics(TOPIC, timeout=3).topics[TOPIC].error:
            raise KafkaException(denied)
        producer = Producer(chosen)
        producer.produce(TOPIC, b"one")
        assert producer.flush(10) == 0
        return "reporter"

    def ask(self, proof, context=None):
        secured = lambda: using(context or proof.context())  # noqa: E731
        patience = Patience(now, ONCE)
        return Service(f"{self.url}/who", patience, secured=secured).post({})["role"]


@contextmanager
def using(value):
    yield value


@pytest.fixture(scope="module")
def folder():
    # Not in pytest's folder, which every other pytest that starts closes to the server's user.
    with tempfile.TemporaryDirectory(prefix="dedp-") as made:
        yield Path(made)


@pytest.fixture(scope="module")
def platform(folder):
    """PostgreSQL, Kafka and an HTTP service, which the role ``reporter`` may use."""
    chosen = replace(settings(), home=folder / "home", postgres=None, postgres_tls="required")
    try:
        with database.start(chosen).connect() as connection:
            for role in ("reporter", "guest", "writer"):
                connection.execute(f"CREATE ROLE {role} LOGIN IN ROLE {postgres_tls.CERTIFIED}")
            connection.execute("CREATE ROLE outsider LOGIN PASSWORD 'of-an-outsider'")
            connection.execute("CREATE TABLE sales AS SELECT 7 AS amount")
            connection.execute("GRANT SELECT ON sales TO reporter")
        signs = postgres_tls.authority(chosen.home / "postgres", at=now())
        with serving_topics(folder / "kafka", signs) as broker, serving(folder / "http", signs) as url:
            yield Platform(signs, postgres.address(chosen), broker, url)
    finally:
        database.stop(chosen)


@contextmanager
def serving_topics(folder, signs):
    broker = Broker(settings(), folder, free_port(), free_port(), authority=signs)
    broker.start()
    try:
        admin = AdminClient(administrator(broker, signs))
        admin.create_topics([NewTopic(TOPIC, 1)])[TOPIC].result()
        allowed = [
            AclBinding(kind, name, ResourcePatternType.LITERAL, "User:reporter", "*", action, AclPermissionType.ALLOW)
            for kind, name, action in (
                (ResourceType.TOPIC, TOPIC, AclOperation.ALL),
                (ResourceType.GROUP, "readers", AclOperation.ALL),
            )
        ]
        for done in admin.create_acls(allowed).values():
            done.result()
        yield broker
    finally:
        broker.stop()


def administrator(broker, signs):
    """The configuration of the broker's administrator."""
    return kafka_tls.administrator(broker.address, broker.folder, signs, at=now())


@contextmanager
def serving(folder, signs):
    """The URL of a service that says who asks, for the role ``reporter``."""

    async def who(request):
        return JSONResponse({"role": request.state.client_role})

    made = signs.issue("service", folder, begins=now() - MINUTE, ends=now() + HOUR, hosts=["127.0.0.1"])
    application = OnlyRoles(Starlette(routes=[Route("/who", who, methods=["POST"])]), ["reporter"])
    secured = {"ssl_certfile": made.path, "ssl_keyfile": made.key, "ssl_ca_certs": signs.path, "ssl_cert_reqs": 2}
    with answering(application, http=CertifiedProtocol, **secured) as url:
        yield url.replace("http:", "https:")


def certificates(authority, folder, roles=("reporter",), **more):
    """The roles of a job, each for all servers."""
    scope = dict.fromkeys(roles, SERVERS)
    return RoleCertificates(authority, "gold/report", scope, folder, **{"clock": now, "backoff": ONCE, **more})


@pytest.fixture
def place(tmp_path):
    """A folder for the files of clients."""
    return tmp_path / "clients"


def entered(platform, held, server, role="reporter", **more):
    """Who came in at a server, by the pattern."""
    with using_role(held, role=role, server=server) as proof:
        return platform.enter[server](proof, **more)


def given(folder, signs, trusted, name="reporter", begins=-HOUR, ends=HOUR):
    """The certificate of somebody else's making, in the place of the reporter's."""
    made = signs.issue(name, folder, begins=now() + begins, ends=now() + ends)
    for kind in ("path", "key", "java_key", "keystore"):
        getattr(made, kind).rename(getattr(Certificate.named("reporter", folder), kind))
    return certificates(GivenCertificates(folder, trusted), folder)


def rendered(error):
    """All that a log shows of an error, with causes."""
    return "".join(traceback.format_exception(error)) + repr(error) + str(error.args)


@pytest.mark.slow
@pytest.mark.parametrize("server", SERVERS)
def test_a_role_comes_in_by_its_certificate_and_nothing_is_a_password(platform, place, server):
    """Acceptance 1: at each of the servers; no setting of a driver is one of a password, and no text holds a key."""
    held = certificates(platform.authority, place)
    assert entered(platform, held, server) == "reporter"
    with using_role(held, role="reporter", server=server) as proof:
        stated = {**proof.libpq(), **proof.jdbc(), **proof.kafka(), **proof.spark_kafka()}
        assert not [name for name in stated if "password" in name or "secret" in name or "passfile" in name]
        shown = str(stated) + repr(proof) + repr(held) + str(proof.access.as_dict())
        assert body(proof.certificate.key) not in shown.replace("\\n", "\n")
        assert proof.access.secret is None


def body(key):
    """The digits of a key, without head and end."""
    return "".join(key.read_text().splitlines()[1:-1])


@pytest.mark.slow
@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize(
    ("times", "of_another", "words"),
    [
        ({"begins": -2 * HOUR, "ends": -HOUR}, False, "the certificate expired at"),
        ({"begins": HOUR, "ends": 2 * HOUR}, False, "the certificate is not valid before"),
        ({}, True, "the certificate is by the authority dedp .* which is not among the trusted ones"),
    ],
    ids=["expired", "not yet valid", "another authority"],
)
def test_a_wrong_certificate_is_refused_in_a_sentence(platform, place, tmp_path, server, times, of_another, words):
    """Acceptance 1: by the servers themselves; the sentence names role, server, and key file, and no byte of a key."""
    signs = Authority.of(tmp_path / "ca", at=now()) if of_another else platform.authority
    held = given(place, signs, platform.authority.path, **times)
    with pytest.raises(ConfigError if of_another else NotReady, match=words) as refused:
        entered(platform, held, server)
    assert str(refused.value).startswith(f"{server} refuses role reporter (key file {place / 'reporter.key'}): ")
    assert body(place / "reporter.key")[:20] not in rendered(refused.value)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("server", "without"),
    [
        ("warehouse", {"sslcertmode": "disable", "sslcert": "/none", "sslkey": "/none"}),
        ("topics", {"ssl.certificate.location": None, "ssl.key.location": None}),
        ("service", None),
    ],
)
def test_a_connection_without_a_certificate_is_refused(platform, place, server, without):
    """Acceptance 1: of each server, though the role has a certificate."""
    held = certificates(platform.authority, place)
    more = without or {"context": ssl.create_default_context(cafile=str(platform.authority.path))}
    with pytest.raises((ConfigError, NotReady), match=f"{server} refuses role reporter .*certificate"):
        entered(platform, held, server, **more)


@pytest.mark.slow
def test_a_certificate_is_no_other_roles(platform, place, tmp_path):
    """Acceptance 1: PostgreSQL refuses another role, the pattern a file of another name, before any server is asked."""
    held = certificates(platform.authority, place)
    with pytest.raises(ConfigError, match=r"warehouse refuses role reporter .*name is of another role"):
        entered(platform, held, "warehouse", user="writer")
    forged = given(tmp_path / "forged", platform.authority, platform.authority.path, "writer")
    for server in SERVERS:
        with pytest.raises(ConfigError, match=f"certificate of role reporter, not of writer .for {server}"):
            entered(platform, forged, server)


@pytest.mark.slow
def test_a_server_that_would_take_a_password_is_refused(platform, place):
    """Acceptance 1: no way back to passwords, even if the environment had one."""
    held = certificates(platform.authority, place, roles=["outsider"])
    with pytest.raises(ConfigError, match=r"refuses role outsider .*GRANT certified TO"):
        entered(platform, held, "warehouse", "outsider", password="of-an-outsider")
    with pytest.raises(ConfigError, match="warehouse refuses role nobody"):
        entered(platform, certificates(platform.authority, place, ["nobody"]), "warehouse", "nobody")


@pytest.mark.slow
def test_a_server_of_another_authority_is_not_trusted(platform, place, tmp_path):
    """No certificate of the job's own makes up for it."""
    other = Authority.of(tmp_path / "ca", at=now())
    for server in SERVERS:
        with pytest.raises((ConfigError, NotReady), match=f"{server} refuses role reporter"):
            entered(platform, certificates(other, place), server)


@pytest.mark.slow
@pytest.mark.parametrize("server", SERVERS)
def test_a_valid_identity_without_permission_is_refused(platform, place, server):
    """Acceptance 3: the guest's certificate is in order; PostgreSQL's grants, Kafka's list and the service decide."""
    held = certificates(platform.authority, place, roles=["guest"])
    with pytest.raises(ConfigError, match=f"{server} refuses role guest .*valid, and has no permission"):
        entered(platform, held, server, "guest")


def test_a_role_that_may_not_be_assumed_is_refused(tmp_path, place):
    """Acceptance 3: so is a server out of the role's scope; nobody is asked, and no certificate is made."""
    scope = {"reporter": ["warehouse"]}
    held = RoleCertificates(Authority.of(tmp_path, at=now()), "gold/report", scope, place, now)
    with pytest.raises(ConfigError, match=r"gold/report may not assume role owner, only \['reporter'\]: declare"):
        assume_role(held, role="owner", server="warehouse")
    with pytest.raises(ConfigError, match=r"role reporter must stay within its scope \['warehouse'\], not connect"):
        assume_role(held, role="reporter", server="topics")
    assert not place.exists()


@pytest.mark.slow
def test_a_certificate_that_ends_in_mid_job_is_renewed(platform, place, tmp_path):
    """Acceptance 4: the job goes on by the next certificate; the former one is refused meanwhile, and swept away."""
    held = certificates(platform.authority, place, lasts_seconds=2, renewed_seconds=0.5)
    with using_role(held, role="reporter", server="warehouse") as first, platform.open(first) as opened:
        copied = Certificate.named("reporter", shutil.copytree(first.certificate.path.parent, tmp_path / "copied"))
        assert wait_until(lambda: now() > first.access.until + timedelta(seconds=1), seconds=20)
        for server in SERVERS:
            assert entered(platform, held, server) == "reporter"
        with pytest.raises(psycopg.OperationalError, match="certificate expired"):
            platform.query(replace(first, certificate=copied))
        assert opened.execute("SELECT amount FROM sales").fetchone() == (7,)
    assert not first.certificate.key.exists()
    assert assume_role(held, role="reporter", server="warehouse").version != first.access.version


class Dated:
    """A clock of a test."""

    def __init__(self):
        self.at = now()

    def __call__(self):
        return self.at


class Faulty:
    """An authority that may not answer."""

    name = "the faulty authority"

    def __init__(self, inner):
        self.inner, self.path, self.is_down, self.issued = inner, inner.path, False, 0

    def issue(self, name, folder, **more):
        if self.is_down:
            raise NotReady("the faulty authority does not answer")
        self.issued += 1
        return self.inner.issue(name, folder, **more)


def test_an_authority_is_asked_once_in_a_while_and_its_silence_is_borne(tmp_path, place):
    """Acceptance 4: one certificate for many connections; a held one is good to its end, then the job fails."""
    authority, clock, waited = Faulty(Authority.of(tmp_path / "ca", at=now())), Dated(), []
    patience = Backoff(attempts=4, first_seconds=1, longest_seconds=2, jitter=0)
    held = certificates(authority, place, clock=clock, backoff=patience, sleep=waited.append)

    def version():
        return assume_role(held, role="reporter", server="warehouse").version

    assert len({version() for _ in range(20)}) == authority.issued == 1
    authority.is_down, clock.at = True, clock.at + timedelta(seconds=500)
    assert len({version() for _ in range(20)}) == 1
    clock.at += timedelta(seconds=200)
    waited.clear()
    with pytest.raises(NotReady, match="role reporter has no certificate after 4 attempts: the faulty authority"):
        version()
    assert waited == [1, 2, 2]
    authority.is_down = False
    assert version()
    assert authority.issued == 2


def test_threads_of_a_job_share_a_certificate(tmp_path, place):
    """Fifty at once make one."""
    authority = Faulty(Authority.of(tmp_path / "ca", at=now()))
    held = certificates(authority, place)
    with ThreadPoolExecutor(50) as pool:
        found = pool.map(lambda _: assume_role(held, role="reporter", server="topics").version, range(50))
    assert len({*found}) == authority.issued == 1


@pytest.mark.parametrize("name", ["key", "java_key", "keystore"])
def test_a_key_file_that_others_can_read_is_refused(tmp_path, place, name):
    """Acceptance 5: each form of the key, before a connection; with the command that mends it."""
    held = given(place, (signs := Authority.of(tmp_path / "ca", at=now())), signs.path)
    file = getattr(Certificate.named("reporter", place), name)
    file.chmod(0o640)
    with pytest.raises(ConfigError, match=rf"{file} must be for its owner alone .*chmod 600 {file}"):
        assume_role(held, role="reporter", server="warehouse")


def test_a_key_file_lies_in_its_folder_alone(tmp_path, place):
    """Acceptance 5: no link leads out of it, others do not write to it, and a missing file is named."""
    signs = Authority.of(tmp_path / "ca", at=now())
    held = given(place, signs, signs.path)
    place.chmod(0o770)
    with pytest.raises(
        ConfigError, match=rf"{place} must be writable for its owner alone, not for others .020.: chmod 700"
    ):
        assume_role(held, role="reporter", server="warehouse")
    place.chmod(0o700)
    key = (place / "reporter.key").rename(tmp_path / "outside.key")
    with pytest.raises(ConfigError, match=r"key file .*reporter.key must be there, and is missing"):
        assume_role(held, role="reporter", server="warehouse")
    (place / "reporter.key").symlink_to(key)
    with pytest.raises(ConfigError, match=rf"must lie in {place}, not lead out of it"):
        assume_role(held, role="reporter", server="warehouse")


def test_files_are_for_their_owner_alone(tmp_path, place):
    """Acceptance 5: keys are 0600, in folders of 0700."""
    held = certificates(Authority.of(tmp_path / "ca", at=now()), place)
    assume_role(held, role="reporter", server="warehouse")
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in place.rglob("*")}
    assert {mode for path, mode in modes.items() if path.is_dir()} == {0o700}
    assert {mode for path, mode in modes.items() if path.suffix in (".key", ".pk8")} == {0o600}
    assert [mode for path, mode in modes.items() if path.name.endswith(".keystore.pem")] == [0o600]


@pytest.mark.slow
def test_a_job_of_spark_reads_by_certificates_and_writes_no_key(spark, platform, place, tmp_path, caplog, capfd):
    """Acceptance 1 and 5: JDBC and Kafka; neither plan, table, log nor output holds a key."""
    held = certificates(platform.authority, place)
    assert entered(platform, held, "topics") == "reporter"
    caplog.set_level(logging.DEBUG)
    with using_role(held, role="reporter", server="warehouse") as proof:
        url = f"jdbc:postgresql://{platform.address.host}:{platform.address.port}/{platform.address.database}"
        where = {"url": url, "driver": "org.postgresql.Driver", "dbtable": "sales"}
        sales = spark.read.format("jdbc").options(**where, **proof.jdbc()).load()
        assert [row.amount for row in sales.collect()] == [7]
    with using_role(held, role="reporter", server="topics") as proof:
        source = {"kafka.bootstrap.servers": platform.broker.address, "subscribe": TOPIC, **proof.spark_kafka()}
        orders = spark.read.format("kafka").options(**source, **{"kafka.group.id": "readers"}).load()
        assert orders.filter("value = encode('one', 'utf-8')").count() > 0
    sales.write.format("delta").save(str(tmp_path / "lake"))
    digits = body(proof.certificate.key)[:40]
    plans = [rows._jdf.queryExecution().toString() for rows in (sales, orders)]
    written = [path.read_bytes().decode(errors="replace") for path in (tmp_path / "lake").rglob("*") if path.is_file()]
    printed = capfd.readouterr()
    texts = [*plans, *written, caplog.text, printed.out, printed.err, *logs_of(platform)]
    assert all(digits not in text and "PRIVATE KEY" not in text for text in texts)


def logs_of(platform):
    """What the servers said."""
    home = platform.authority.path.parent.parent
    return [(home / "log").read_text(), (platform.broker.folder / "output").read_text()]


@pytest.mark.slow
def test_authorities_rotate_with_a_grace_period_under_open_connections(platform, place):
    """Acceptance 2: both certificates work in the grace, then the former one is refused; what is open goes on."""
    former = given(place / "former", platform.authority, platform.authority.path)  # which nobody renews
    with using_role(former, role="reporter", server="warehouse") as proof:
        session = platform.open(proof)
        reader = Consumer({**client(platform.broker.address), **proof.kafka(), **READING})
    with session, closing(reader):
        reader.subscribe([TOPIC])
        assert entered(platform, former, "topics") == "reporter"
        assert wait_until(lambda: taken(reader), seconds=120)
        admin = administrator(platform.broker, platform.authority)
        platform.authority.rotate(at=now())
        renewed(platform, admin)
        later = certificates(platform.authority, place / "later")
        for held, name in product((former, later), SERVERS[:2]):
            assert entered(platform, held, name) == "reporter"
        admin = administrator(platform.broker, platform.authority)
        platform.authority.retire()
        renewed(platform, admin)
        for name in SERVERS[:2]:
            with pytest.raises(ConfigError, match="not among the trusted ones"):
                entered(platform, former, name)
            assert entered(platform, later, name) == "reporter"
        assert session.execute("SELECT amount FROM sales").fetchone() == (7,)
        assert wait_until(lambda: taken(reader), seconds=120)
    assert "fault" not in (platform.broker.folder / "output").read_text()


READING = {"group.id": "readers", "auto.offset.reset": "earliest", "max.poll.interval.ms": 60_000}


def taken(reader):
    """Whether a reader got a record."""
    found = reader.poll(1)
    return found is not None and not found.error()


def renewed(platform, admin):
    """PostgreSQL and Kafka read certificates and authorities again, while they run."""
    folder = platform.authority.path.parent.parent
    postgres_tls.server_certificate(folder, at=now(), user=database.server_user())
    with platform.address.connect() as connection:
        connection.execute("SELECT pg_reload_conf()")
    kafka_tls.take_new_certificates(admin, platform.broker.folder, platform.authority, at=now())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"lasts_seconds": 0.5}, "lasts_seconds must lie between 1 and 86400, not 0.5"),
        ({"lasts_seconds": 90_000}, "lasts_seconds must lie between 1 and 86400, not 90000"),
        ({"renewed_seconds": 600}, "renewed_seconds must be less than the lifetime of 600 seconds, not 600"),
        ({"roles": ["../x"]}, "roles must name roles and servers by letters"),
        ({"roles": ["a/b"]}, "roles must name roles and servers by letters"),
    ],
)
def test_options_that_cannot_be_are_refused(tmp_path, place, options, words):
    """A sentence with the option; no name leaves the folder of the keys."""
    with pytest.raises(ConfigError, match=words):
        certificates(Authority.of(tmp_path / "ca", at=now()), place, **options)


def test_an_error_of_the_block_stays_what_it_is(tmp_path, place):
    """What is no refusal is nobody's business here."""
    held = certificates(Authority.of(tmp_path / "ca", at=now()), place)
    with pytest.raises(KeyError, match="day"), using_role(held, role="reporter", server="warehouse"):
        raise KeyError("day")


@known_calls
def calls(known):
    """The companion's call."""
    held = certificates(Authority.of(known.folder / "ca", at=now()), known.folder / "clients")
    return {"using_role": {"certificates": held, "role": "reporter", "server": "warehouse"}}
