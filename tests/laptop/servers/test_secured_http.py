"""HTTP servers behind TLS take exchanged certificates at the next connection."""

from __future__ import annotations

import ssl
from datetime import timedelta

import httpx
import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from dedp_assets.graph.resources.clock import Clock
from dedp_assets.laptop.servers.loopback import server_certificate
from dedp_assets.laptop.servers.secured_http import CertifiedProtocol, OnlyRoles, reread
from dedp_assets.patterns.connectors.certificates.authority import Authority
from tests.fixtures import answering

now = Clock().now


@pytest.fixture
def signs(tmp_path):
    """The authority of the server's clients and of the server."""
    return Authority.of(tmp_path / "ca", at=now())


@pytest.fixture
def url(signs, tmp_path):
    """A server for the role ``reader``."""
    behind = Starlette(routes=[Route("/", lambda _: PlainTextResponse("in"))])
    made = server_certificate(tmp_path, signs, at=now())
    files = {"ssl_certfile": made.path, "ssl_keyfile": made.key, "ssl_ca_certs": signs.path}
    rules = {"ssl_cert_reqs": ssl.CERT_REQUIRED, "http": CertifiedProtocol, "ssl_context_factory": reread}
    with answering(OnlyRoles(behind, ["reader"]), **files, **rules) as found:
        yield found.replace("http:", "https:")


def client(signs, folder):
    """A client with a certificate of the current key, which trusts what the authority's file holds now."""
    made = signs.issue("reader", folder, begins=now() - timedelta(minutes=1), ends=now() + timedelta(hours=1))
    context = ssl.create_default_context(cafile=str(signs.path))
    context.load_cert_chain(made.path, made.key)
    return httpx.Client(verify=context)


def test_a_rotation_reaches_a_running_server_and_its_open_connections_go_on(url, signs, tmp_path):
    """Both keys in the grace, the current one alone then, without a start; a new client trusts the server by it."""
    with client(signs, tmp_path / "former") as opened:
        assert opened.get(url).text == "in"
        signs.rotate(at=now())
        server_certificate(tmp_path, signs, at=now())
        with client(signs, tmp_path / "later") as later:
            assert later.get(url).text == "in"
        signs.retire()
        with client(signs, tmp_path / "last") as last:
            assert last.get(url).text == "in"
        assert opened.get(url).text == "in"
    former = ssl.create_default_context(cafile=str(signs.path))
    former.load_cert_chain(tmp_path / "former" / "reader.pem", tmp_path / "former" / "reader.key")
    with pytest.raises(httpx.HTTPError), httpx.Client(verify=former) as refused:
        refused.get(url)


def test_an_exchange_under_way_leaves_the_former_certificate(url, signs, tmp_path):
    """A key whose certificate is not written yet ends no connection, and the next exchange counts."""
    key, held = tmp_path / "tls" / "server.key", (tmp_path / "tls" / "server.key").read_bytes()
    other = server_certificate(tmp_path / "other", signs, at=now())
    key.write_bytes(other.key.read_bytes())
    with client(signs, tmp_path / "one") as one:
        assert one.get(url).text == "in"
    key.write_bytes(held)
    with client(signs, tmp_path / "two") as two:
        assert two.get(url).text == "in"
