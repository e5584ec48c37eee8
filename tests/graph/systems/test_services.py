"""Where the HTTP services are: named, announced by the laptop's own, or nowhere."""

from __future__ import annotations

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import urlparse

import pytest

from dedp_assets.graph.resources.announced import announce
from dedp_assets.graph.resources.environments import settings
from dedp_assets.graph.systems.secrets import store_of
from dedp_assets.graph.systems.services import FOLDER, Services, lacking
from dedp_assets.laptop.servers.ports import free as free_port
from dedp_assets.patterns.core.errors import ConfigError, NotReady


def test_a_service_is_below_the_url_that_was_named_or_announced(tmp_path, monkeypatch, services):
    """A stated URL wins; an announced one counts while somebody listens; without any the sentence says what to do."""
    monkeypatch.setenv("DEDP_HOME", str(tmp_path))
    monkeypatch.delenv("DEDP_SERVICES", raising=False)
    said = "no HTTP services run: start `make up`, or name some by DEDP_SERVICES"
    with pytest.raises(NotReady, match=said):
        Services().at("locations")
    assert lacking() == said
    (settings().home / FOLDER).mkdir()
    announce(settings().home / FOLDER, f"http://127.0.0.1:{urlparse(services.url).port}")
    found = Services().at("locations")
    assert found.url == f"{services.url}/locations"
    assert found.post({"addresses": []}) == {"locations": []}
    assert lacking() == ""
    monkeypatch.setenv("DEDP_SERVICES", f"http://127.0.0.1:{free_port()}")
    assert lacking().endswith("do not answer: start them, or correct DEDP_SERVICES")
    assert Services(url="http://services.example/").at("locations").url == "http://services.example/locations"


class Guarded(BaseHTTPRequestHandler):
    """A service that answers to whoever has the present key."""

    key = "first-canary-key"

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        is_known = self.headers["Authorization"] == f"Bearer {self.key}"
        body = b'{"answer": 1}' if is_known else f"no key like {self.headers['Authorization']}".encode()
        self.send_response(200 if is_known else 401)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def test_the_key_of_the_services_comes_by_its_name_and_may_be_rotated(tmp_path, monkeypatch):
    """Code and settings hold the pointer; a refused key is read again by the next attempt, and is in no text."""
    monkeypatch.setenv("DEDP_HOME", str(tmp_path))
    monkeypatch.setenv("DEDP_SERVICES_KEY", "services/key")
    monkeypatch.delenv("DEDP_SECRETS", raising=False)
    monkeypatch.setattr(Guarded, "key", "first-canary-key")
    with ThreadingHTTPServer(("127.0.0.1", 0), Guarded) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        try:
            service = Services(url=f"http://127.0.0.1:{server.server_port}").at("locations")
            with pytest.raises(ConfigError, match=r"has no secret services/key .*`dedp secret put services/key`"):
                service.post({})
            store = store_of(settings())
            store.write("services/key", {"value": "first-canary-key"})
            assert service.post({}) == {"answer": 1}
            monkeypatch.setattr(Guarded, "key", "second-canary-key")
            store.write("services/key", {"value": "second-canary-key"})
            with pytest.raises(NotReady, match=r"version 1 of services/key was refused .*status 401") as refused:
                service.post({})
            assert "canary" not in str(refused.value)
            assert service.post({}) == {"answer": 1}
            assert "canary" not in repr(service)
        finally:
            server.shutdown()
