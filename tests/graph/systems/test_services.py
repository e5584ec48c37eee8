"""Where the HTTP services are: named, announced by the laptop's own, or nowhere."""

from __future__ import annotations

from urllib.parse import urlparse

import pytest

from dedp_assets.graph.resources.announced import announce
from dedp_assets.graph.resources.environments import settings
from dedp_assets.graph.systems.services import FOLDER, Services, lacking
from dedp_assets.laptop.servers.ports import free as free_port
from dedp_assets.patterns.core.errors import NotReady


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
