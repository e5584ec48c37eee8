"""Doors of the laptop's servers: one list of them, and a platform whose doors are locked."""

from __future__ import annotations

import json
import pickle
import socket
import ssl
import stat
import tempfile
from base64 import urlsafe_b64encode
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import httpx
import psutil
import psycopg
import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.schema_registry import SchemaRegistryClient
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route, WebSocketRoute
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from dedp_assets.cli import main
from dedp_assets.graph.resources.clock import Clock
from dedp_assets.graph.resources.environments import child_environment, settings
from dedp_assets.graph.resources.spark import engine_proof
from dedp_assets.graph.resources.tokens import token_file
from dedp_assets.graph.systems import kafka, postgres, registry
from dedp_assets.graph.systems.identities import SERVICES, as_platform, home_authority
from dedp_assets.graph.systems.kafka import Kafka
from dedp_assets.graph.systems.orchestrator import Orchestrator
from dedp_assets.graph.systems.services import Services
from dedp_assets.laptop import doors
from dedp_assets.laptop.servers.ports import free as free_port
from dedp_assets.laptop.servers.secured_http import OnlyToken
from dedp_assets.patterns.connectors.certificates.authority import Authority
from dedp_assets.patterns.connectors.certificates.files import facts_in, facts_of
from dedp_assets.patterns.connectors.kafka.schema_registry import latest_schema, register_schema
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.project import project
from tests.faults.processes import command, descendants, wait_until
from tests.helpers import free_pair
from tests.platforms import platform_up

pytestmark = pytest.mark.budget(120, "a whole platform with locked doors")

LOOPBACK = {"127.0.0.1", "::1", "::ffff:127.0.0.1"}
SINGLE = ("--port", "--engine-port", "--services-port", "--status-port", "--registry-port")
BEARING = "bearer.auth.token"
BEARER = {"bearer.auth.credentials.source": "STATIC_TOKEN"}
BEARER |= {"bearer.auth.logical.cluster": "", "bearer.auth.identity.pool.id": ""}
now = Clock().now


@pytest.fixture(scope="module")
def platform():
    """A platform of `DEDP_SECURE=on dedp up`, all of whose servers answer."""
    # Not in pytest's folder, which every other pytest that starts closes to PostgreSQL's user.
    with tempfile.TemporaryDirectory(prefix="dedp-") as folder:
        home, ports = Path(folder) / "home", {**{name: free_port() for name in SINGLE}, "--kafka-port": free_pair()}
        variables = {"DEDP_HOME": str(home), "DEDP_CACHE": str(settings().cache), "DEDP_JIT": "quick"}
        variables |= {"DEDP_SECURE": "on", "DEDP_TICK_SECONDS": "5", "DEDP_REGISTRY": "own"}
        environment = child_environment(variables, without=("SPARK_REMOTE",))
        with platform_up(home, ports, environment, said=Path(folder) / "said") as up:
            for name in ("services", "database", "kafka", "registry", "engine", "status", "code", "web"):
                assert up.says(f"ready     {name}:"), up.said()
            yield up


@pytest.fixture
def here(platform, monkeypatch):
    """This process as one of the home's, with locks."""
    monkeypatch.setenv("DEDP_HOME", str(platform.home))
    monkeypatch.setenv("DEDP_SECURE", "on")
    monkeypatch.setenv("DEDP_REGISTRY", "own")
    return settings()


def wrong(tmp_path, name="dedp"):
    """A client's certificate by an authority that nobody trusts."""
    return Authority.of(tmp_path / "ca", at=now()).issue(
        name, tmp_path, begins=now() - timedelta(minutes=1), ends=now() + timedelta(hours=1)
    )


@pytest.mark.slow
def test_all_servers_listen_on_loopback(platform):
    """Every socket of every process of the platform, Java's and Dagster's included."""
    platform.see()
    found = {}
    for process in {platform.tree, *descendants(platform.tree)}:
        for each in process.net_connections("inet"):
            if each.status == psutil.CONN_LISTEN:
                found[each.laddr.port] = each.laddr.ip
    assert {*found.values()} <= LOOPBACK, found
    assert {*platform.ports.values()} <= found.keys()


@pytest.mark.slow
def test_files_of_the_home_are_their_owners_alone(platform):
    """All of a used home; of PostgreSQL's of its own user, what that user has to read is no key."""
    open_to_others = {
        path.relative_to(platform.home).as_posix(): oct(stat.S_IMODE(path.lstat().st_mode))
        for path in platform.home.rglob("*")
        if path.is_file() and not path.is_symlink() and path.lstat().st_mode & 0o077
    }
    allowed = {f"postgres/tls/{name}" for name in ("ca.pem", "server.pem", "pg_hba.conf")}
    allowed |= {path for path in open_to_others if path.endswith(".pem") and not path.endswith("keystore.pem")}
    assert open_to_others.keys() <= allowed, open_to_others
    assert not [path for path in allowed if "PRIVATE KEY" in (platform.home / path).read_text()]


@pytest.mark.slow
def test_nothing_that_runs_is_without_a_lock(platform):
    """`dedp up` names no door, as each has a lock."""
    assert "does not lock" not in platform.said()
    assert [door.name for door in doors.DOORS if not door.locked] == []


@pytest.mark.parametrize(
    ("secure", "servers", "named"),
    [
        ("on", ["web", "code", "code_reporting", "status"], []),
        ("on", ["web", "lamp"], ["the lamp"]),
        ("off", ["web", "lamp"], []),
    ],
)
def test_what_has_no_lock_is_named(monkeypatch, secure, servers, named):
    """Where it runs, with the reason; no server of today is such a one."""
    monkeypatch.setattr(
        doors, "DOORS", (*doors.DOORS, doors.Door("the lamp", ("lamp",), "nothing", reason="it shines"))
    )
    found = [*doors.unlocked(replace(settings(), secure=secure), servers)]
    assert [door.name for door in found] == named
    assert all(door.reason for door in found)


@pytest.mark.slow
def test_postgresql_takes_tls_alone(here):
    """With the password of the home; a plain connection is refused."""
    own = postgres.address(here)
    with own.connect() as connection:
        assert connection.execute("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()").fetchone() == (True,)
    with pytest.raises(psycopg.OperationalError, match="no encryption"):
        replace(own, more={"sslmode": "disable"}).connect()


@pytest.mark.slow
def test_kafka_takes_certificates_alone(here, platform, tmp_path):
    """The platform's processes have one; without one, and with another authority's, nobody comes in."""
    address = f"127.0.0.1:{platform.ports['--kafka-port']}"
    assert kafka.address(here) == address
    topic = Kafka(bootstrap=address, topic="doors")
    topic.create(partitions=1)
    assert topic.describe().end == {"0": 0}
    plain = {"bootstrap.servers": address, "logger": kafka.client("")["logger"]}
    made = wrong(tmp_path)
    files = {"certificate": made.path, "key": made.key, "ca": home_authority(here).path}
    other = {f"ssl.{name}.location": str(file) for name, file in files.items()}
    for chosen in (plain, {**plain, "security.protocol": "ssl", **other}):
        with pytest.raises(KafkaException):
            AdminClient(chosen).list_topics(timeout=3)


@pytest.mark.slow
def test_the_services_take_certificates_of_the_platform_alone(here, platform, tmp_path):
    """Over TLS; none, another authority's, and another role's are refused."""
    assert Services().at("locations").post({"addresses": ["1.2.3.4"]})["locations"]
    url, signs = f"https://127.0.0.1:{platform.ports['--services-port']}", home_authority(here)
    trusting = ssl.create_default_context(cafile=str(signs.path))
    with pytest.raises(httpx.HTTPError):
        httpx.get(f"{url}/behaviour/locations", verify=trusting)
    made = wrong(tmp_path)
    trusting.load_cert_chain(made.path, made.key)
    with pytest.raises(httpx.HTTPError):
        httpx.get(f"{url}/behaviour/locations", verify=trusting)
    ends = now() + timedelta(minutes=1)
    guest = signs.issue("guest", tmp_path / "guest", begins=now() - timedelta(minutes=1), ends=ends)
    trusting.load_cert_chain(guest.path, guest.key)
    assert httpx.get(f"{url}/behaviour/locations", verify=trusting).status_code == 403
    with as_platform(SERVICES) as proof:
        assert httpx.get(f"{url}/behaviour/locations", verify=proof.context()).status_code == 200


@pytest.mark.slow
def test_the_schema_registry_takes_a_token_alone(here, platform, tmp_path):
    """Over TLS, for whatever is asked; the platform's client has it, also once pickled, and shows it nowhere."""
    own, base = registry.client(here), f"https://127.0.0.1:{platform.ports['--registry-port']}"
    assert register_schema(pickle.loads(pickle.dumps(own)), "doors", '"string"') > 0  # noqa: S301 - just made
    token = token_file(here, "registry").read_text()
    assert token not in repr(own) + str(pickle.dumps(own)) + platform.said()
    with httpx.Client(verify=ssl.create_default_context(cafile=str(home_authority(here).path))) as client:
        for path in ("apis/ccompat/v8/subjects", "apis/registry/v3/groups", "apis/registry/v3/admin/rules", "ui/"):
            for shown in ({}, {"Authorization": "Bearer no"}, {"Authorization": f"Bearer {signed_by_another(token)}"}):
                assert client.get(f"{base}/{path}", headers=shown).status_code == 401, path
        assert client.get(f"{base}/{path}", headers={"Authorization": f"Bearer {token}"}).status_code != 401
    with SchemaRegistryClient(
        {"url": own.url, "ssl.ca.location": str(own.authorities), **BEARER, BEARING: token}
    ) as public:
        assert "doors" in public.get_subjects()  # as others' programs come in
    with pytest.raises(httpx.HTTPError):
        httpx.get(f"{base.replace('https', 'http')}/apis/ccompat/v8/subjects")
    (tmp_path / "token").write_text("of-yesterday")
    (tmp_path / "token").chmod(0o600)
    for file, said in ((tmp_path / "token", f"another one than the token in {tmp_path}"), (None, "asks for a token")):
        with pytest.raises(ConfigError, match=said):
            latest_schema(replace(own, token_file=file), "doors")


def signed_by_another(token):
    """The statements of a token, by a key that the server does not know."""
    stated = token.rpartition(".")[0]
    made = rsa.generate_private_key(65_537, 2048).sign(stated.encode(), padding.PKCS1v15(), hashes.SHA256())
    return f"{stated}.{urlsafe_b64encode(made).decode().rstrip('=')}"


@pytest.mark.slow
def test_the_status_page_takes_a_token_alone(here, platform):
    """Over TLS, by a header, or once for a browser's cookie; the address that is announced says https."""
    url = f"https://127.0.0.1:{platform.ports['--status-port']}"
    token = token_file(here, "status").read_text()
    with httpx.Client(verify=ssl.create_default_context(cafile=str(home_authority(here).path))) as browser:
        assert browser.get(f"{url}/status.json").status_code == 401
        assert browser.get(f"{url}/status.json", headers={"Authorization": "Bearer no"}).status_code == 401
        assert browser.get(url, params={"token": token}).status_code == 303
        assert wait_until(lambda: browser.get(f"{url}/status.json", timeout=60).status_code == 200, seconds=60)
    assert token not in platform.said()
    logs = [path.read_text(errors="replace") for path in (platform.home / "logs").rglob("*") if path.is_file()]
    assert not [text for text in logs if token in text or "PRIVATE KEY" in text]


@pytest.mark.slow
def test_the_webserver_takes_a_token_alone(here, platform):
    """Its own, over TLS, by a header or a browser's cookie, for pages and questions; links say https."""
    url, token = f"https://127.0.0.1:{platform.ports['--port']}", token_file(here, "web").read_text()
    question = {"query": "{ repositoriesOrError { ... on RepositoryConnection { nodes { name } } } }"}
    assert f"web: {url}/?token=... (the token is in {here.home}/tls/tokens/web" in platform.said()
    with httpx.Client(verify=ssl.create_default_context(cafile=str(home_authority(here).path)), timeout=60) as browser:
        for shown in ("", "Bearer no", f"Bearer {token_file(here, 'status').read_text()}"):
            for path in ("", "/server_info", "/graphql"):
                assert browser.get(f"{url}{path}", headers={"Authorization": shown}).status_code == 401
            asked = browser.post(f"{url}/graphql", json=question, headers={"Authorization": shown})
            assert (asked.status_code, "nodes" in asked.text) == (401, False)
        by_header = browser.post(f"{url}/graphql", json=question, headers={"Authorization": f"Bearer {token}"})
        assert by_header.json()["data"]["repositoriesOrError"]["nodes"], by_header.text
        assert browser.get(url, params={"token": token}).status_code == 303
        assert browser.post(f"{url}/graphql", json=question).json() == by_header.json()
        assert browser.get(url).text.startswith("<!DOCTYPE html>")
    assert Orchestrator().reload("reporting") == ""  # as runs ask
    assert token not in platform.said()
    assert token not in "".join(path.read_text(errors="replace") for path in (here.home / "logs").glob("*.log"))


@pytest.mark.slow
def test_the_webserver_opens_no_websocket_without_a_token(here, platform):
    """What pages follow the log of a run by; the cookie opens one, as a page sends no header."""
    url, token = f"wss://127.0.0.1:{platform.ports['--port']}/graphql", token_file(here, "web").read_text()
    trusting = ssl.create_default_context(cafile=str(home_authority(here).path))
    other = token_file(here, "status").read_text()
    for shown in ({}, {"Authorization": "Bearer no"}, {"Cookie": f"dedp_token_status={other}; dedp_token_web={other}"}):
        with pytest.raises(InvalidStatus, match="403"):
            connect(url, ssl=trusting, subprotocols=["graphql-ws"], additional_headers=shown)
    with pytest.raises(InvalidStatus, match="403"):
        connect(f"{url}?token={token}", ssl=trusting, subprotocols=["graphql-ws"])
    for shown in ({"Authorization": f"Bearer {token}"}, {"Cookie": f"dedp_token_web={token}"}):
        with connect(url, ssl=trusting, subprotocols=["graphql-ws"], additional_headers=shown) as opened:
            opened.send('{"type": "connection_init"}')
            assert json.loads(opened.recv(timeout=60)) == {"type": "connection_ack"}


@pytest.mark.slow
def test_code_servers_listen_at_sockets_of_their_owner_alone(platform):
    """Both processes of each, and at no port."""
    servers = [each for each in descendants(platform.tree) if {"code-server", "grpc"} & {*command(each).split()}]
    assert len(servers) >= 2 * len(project().locations)
    assert not [
        each for server in servers for each in server.net_connections("inet") if each.status == psutil.CONN_LISTEN
    ]
    found = {each.laddr for server in servers for each in server.net_connections("unix") if each.laddr.startswith("/")}
    assert len(found) >= 2 * len(project().locations)
    for path in map(Path, found):
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700, path


@pytest.mark.slow
def test_the_engine_takes_a_token_alone(here, platform, monkeypatch):
    """Spark's client without it, or with another one, computes nothing."""
    from pyspark.errors.exceptions.connect import SparkConnectException
    from pyspark.sql.connect.session import SparkSession

    remote = doors.engine_url(here, platform.ports["--engine-port"])
    for name, value in engine_proof(here).items():
        monkeypatch.setenv(name, value)
    attached = SparkSession.builder.remote(remote).create()
    assert attached.range(3).count() == 3
    attached.stop()
    for value in ("", "another"):
        monkeypatch.setenv("SPARK_CONNECT_AUTHENTICATE_TOKEN", value)
        refused = SparkSession.builder.remote(remote).create()
        with pytest.raises(SparkConnectException, match=r"(?i)unauthenticated|token"):
            refused.range(3).count()
        refused.stop()  # or it asks for ten minutes at the end of this process, of an engine that is gone


def test_every_server_that_up_may_start_is_behind_a_door():
    """A server that is added to `dedp up` is added to the list."""
    source = (Path(doors.__file__).parent / "processes.py").read_text()
    named = {part.split('"')[1] for part in source.split("Server(")[1:] if part.startswith('"')}
    known = tuple(name for door in doors.DOORS for name in door.servers)
    assert {name for name in named if not name.startswith(known)} == {"daemon"}  # which listens nowhere


def test_every_door_has_a_lock_or_a_reason():
    """And the names of doors are different."""
    assert [door.name for door in doors.DOORS if not door.locked and not door.reason] == []
    assert len({door.name for door in doors.DOORS}) == len(doors.DOORS)


def test_without_the_setting_nothing_is_locked_and_nothing_is_said(tmp_path):
    """No authority is made, no token written."""
    chosen = replace(settings(), home=tmp_path, secure="off")
    assert doors.certificates(chosen, at=now()) is doors.token(chosen, "status", at=now()) is None
    assert [*doors.unlocked(chosen, {"web", "registry"})] == []
    assert engine_proof(chosen) == {}
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize(
    ("stated", "means"), [("on", ("on", "required")), ("off", ("off", "off")), ("", ("off", "off"))]
)
def test_the_setting_asks_for_tls_of_postgresql_too(monkeypatch, stated, means):
    """Unless `DEDP_POSTGRES_TLS` says otherwise."""
    monkeypatch.setenv("DEDP_SECURE", stated)
    monkeypatch.delenv("DEDP_POSTGRES_TLS", raising=False)
    assert (settings().secure, settings().postgres_tls) == means
    monkeypatch.setenv("DEDP_POSTGRES_TLS", "off")
    assert settings().postgres_tls == "off"


def test_a_setting_that_is_not_offered_is_refused(monkeypatch):
    """By name: somebody who writes yes wants locks."""
    monkeypatch.setenv("DEDP_SECURE", "yes")
    with pytest.raises(ValueError, match="DEDP_SECURE must be"):
        settings()


def test_a_token_that_others_can_read_is_refused(tmp_path):
    """With the command that mends it; it is written once."""
    chosen = replace(settings(), home=tmp_path, secure="on")
    file = token_file(chosen, "status")
    assert file.read_text() == token_file(chosen, "status").read_text()
    assert len(file.read_text()) == 64
    file.chmod(0o644)
    with pytest.raises(ConfigError, match=f"chmod 600 {file}"):
        token_file(chosen, "status")


def test_a_token_opens_by_header_cookie_or_once_by_the_address(tmp_path):
    """A cookie is sent over TLS alone and no script reads it; an exchanged token counts at once."""
    file = tmp_path / "token"
    file.write_text("of-today\n")
    behind = Starlette(routes=[Route("/page", lambda _: PlainTextResponse("in"))])
    with TestClient(OnlyToken(behind, file), base_url="https://here", follow_redirects=False) as client:
        for wrong_one in ("", "of-yesterday", "of-today-and-more", "ü"):
            assert client.get("/page", params={"token": wrong_one}).status_code == 401
        assert client.get("/page", headers={"Authorization": "Bearer of-today"}).text == "in"
        answer = client.get("/page", params={"token": "of-today"})
        assert (answer.status_code, answer.headers["location"]) == (303, "/page")
        assert {"secure", "httponly", "samesite=strict"} <= {
            part.strip().lower() for part in answer.headers["set-cookie"].split(";")
        }
        assert client.get("/page").text == "in"
        file.write_text("of-tomorrow")
        assert client.get("/page").status_code == 401


def test_a_token_opens_websockets_too(tmp_path):
    """By header or cookie; others are hung up on, and what is behind hears nothing of them."""
    file, heard = tmp_path / "web", []
    file.write_text("of-today\n")

    async def behind(websocket):
        heard.append(websocket.url.path)
        await websocket.accept()
        await websocket.send_text("in")
        await websocket.close()

    locked = OnlyToken(Starlette(routes=[WebSocketRoute("/live", behind)]), file)
    refused = [{}, {"Authorization": "Bearer of-yesterday"}, {"Cookie": "dedp_token_status=of-today"}]
    with TestClient(locked, base_url="https://here") as client:
        for path, shown in [*(("/live", each) for each in refused), ("/live?token=of-today", {})]:
            with pytest.raises(WebSocketDisconnect) as end, client.websocket_connect(path, headers=shown):
                pytest.fail("it was let in")
            assert end.value.code == 1008
        assert heard == []
        for shown in ({"Authorization": "Bearer of-today"}, {"Cookie": "dedp_token_web=of-today"}):
            with client.websocket_connect("/live", headers=shown) as opened:
                assert opened.receive_text() == "in"


def test_cookies_of_servers_of_one_host_are_their_own(tmp_path):
    """Cookies know no ports: who opens a second page stays in the first one."""
    behind = Starlette(routes=[Route("/", lambda _: PlainTextResponse("in"))])
    servers = []
    for name in ("status", "web"):
        (tmp_path / name).write_text(f"of-{name}")
        servers.append(OnlyToken(behind, tmp_path / name))
    shown = []
    for server in servers:
        with TestClient(server, base_url="https://here", follow_redirects=False) as client:
            answer = client.get("/", params={"token": server._file.read_text()})
            shown.append(answer.headers["set-cookie"].partition(";")[0])
    for server in servers:
        with TestClient(server, base_url="https://here", headers={"Cookie": "; ".join(shown)}) as client:
            assert client.get("/").text == "in"


@pytest.mark.slow
def test_certificates_rotate_and_retire_beside_the_running_platform(here, platform, tmp_path, capsys):
    """By two commands: a client of the former key comes in between, and nowhere afterwards; servers show new ones."""
    signs, minute = home_authority(here), timedelta(minutes=1)
    former = signs.issue("dedp", tmp_path, begins=now() - minute, ends=now() + 60 * minute)
    ports = [platform.ports[name] for name in ("--services-port", "--status-port", "--port", "--kafka-port")]
    shown = {port: ssl.get_server_certificate(("127.0.0.1", port)) for port in ports}
    session = postgres.address(here).connect()
    assert main(["certificates", "rotate"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    for name in ("PostgreSQL", "HTTP services", "status page", "webserver", "schema registry", "Kafka"):
        assert name in said, said
    assert asked(platform, signs, former).status_code == 200
    assert main(["certificates", "retire"]) == 2
    assert "a program may hold a certificate of the former key until" in capsys.readouterr().err
    assert main(["certificates", "retire", "--at-once"]) == 0
    with pytest.raises(httpx.HTTPError):
        asked(platform, signs, former)
    for port in ports:
        assert ssl.get_server_certificate(("127.0.0.1", port)) != shown[port]
        assert facts_in(ssl.get_server_certificate(("127.0.0.1", port)).encode()).issuer == facts_of(signs.path).name
    assert session.execute("SELECT 1").fetchone() == (1,)
    session.close()
    # As the platform's own processes do, the one of this test included, which had certificates of the former key.
    assert Services().at("locations").post({"addresses": ["1.2.3.4"]})["locations"]
    assert kafka.lacking(kafka.address(here)) == ""
    with postgres.address(here).connect() as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
    assert wait_until(lambda: registry.lacking(here) == "", seconds=60)


def asked(platform, signs, made):
    """The services' answer to a certificate."""
    trusting = ssl.create_default_context(cafile=str(signs.path))
    trusting.load_cert_chain(made.path, made.key)
    return httpx.get(f"https://127.0.0.1:{platform.ports['--services-port']}/behaviour/locations", verify=trusting)


def test_ports_of_a_test_are_of_this_machine():
    """What the list of sockets is judged by: a socket of all addresses is none of loopback."""
    with socket.socket() as listener:
        listener.bind(("0.0.0.0", 0))  # noqa: S104 - the fault that the list has to find
        listener.listen()
        (found,) = [
            each.laddr.ip
            for each in psutil.Process().net_connections("inet")
            if each.status == psutil.CONN_LISTEN and each.laddr.port == listener.getsockname()[1]
        ]
    assert found not in LOOPBACK
