"""A person who is asked for by HTTP, and approved there, is gone after the runs that the sensor starts."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from dedp_assets.cli import main
from dedp_assets.graph.erasure.cases import Cases
from dedp_assets.graph.resources.clock import Clock
from dedp_assets.laptop.servers.secured_http import OnlyToken
from dedp_assets.laptop.status_page.making import Maker
from dedp_assets.laptop.status_server import Pages, serve_pages
from tests.case_study.assets.test_erasure import GONE, LOGIN, MAIL, capture, hits

pytestmark = [pytest.mark.spark, pytest.mark.budget(60, "a platform before and after a person is erased by HTTP")]

JOB = "go_on_with_erasures"


def client_of(world, folder):
    """A client with the token of the home's status server, behind its lock."""
    (folder / "status").write_text("token")
    pages = Pages(lambda: Maker(world.settings), Clock().now)
    behind = OnlyToken(serve_pages(pages, lambda: Cases.of(world.settings.home)), folder / "status")
    return TestClient(behind, "https://127.0.0.1:3001", headers={"Authorization": "Bearer token"})


def test_a_person_is_gone_after_a_request_and_an_approval_by_http(world, tmp_path_factory):
    """Asked, planned by a run, approved, erased by a run, and ended once all was computed again: no byte is left."""
    capture(world, 1, (GONE, MAIL, LOGIN), ("u1", "eve@elsewhere.org", "eve"))
    world.react()
    client = client_of(world, tmp_path_factory.mktemp("door"))
    asked = client.post("/erasures", json={"subject": {"user": [GONE]}, "because": "GDPR-1"})
    assert (asked.status_code, asked.json()["state"]) == (202, "asked"), asked.text
    assert (JOB, "") in world.react()
    planned = client.get("/erasures/GDPR-1.json").json()
    assert planned["state"] == "planned"
    assert {"silver/users", "silver/users_current"} <= {place["name"] for place in planned["places"]}
    assert {row["user_id"] for row in world.rows("silver/users_current")} == {GONE, "u1"}
    assert not [name for name in hits(world) if name.startswith(("dagster/", "erasures/", "keys/"))]
    approved = client.post("/erasures/GDPR-1/approval", json={"by": "legal"})
    assert (approved.status_code, approved.json()["state"]) == (202, "approved"), approved.text
    assert (JOB, "") in world.react()
    assert {row["user_id"] for row in world.rows("silver/users_current")} == {"u1"}
    if client.get("/erasures/GDPR-1.json").json()["state"] != "ended":
        assert world.run(JOB).failure == ""
    ended = client.get("/erasures/GDPR-1.json").json()
    assert (ended["state"], ended["genuine"]) == ("ended", True), ended
    assert not [text for text in (GONE, MAIL, LOGIN) if text in client.get("/erasures/GDPR-1").text]
    assert hits(world) == []
    by_command(world, client)


def by_command(world, client):
    """A request that was asked by HTTP is planned by the command, too, which says how to approve it."""
    assert client.post("/erasures", json={"subject": {"user": ["u1"]}, "because": "GDPR-2"}).status_code == 202
    assert [case.state for case in Cases.of(world.settings.home)] == ["ended", "asked"]
    assert main(["erase", "--because", "GDPR-2"]) == 0
    assert client.get("/erasures/GDPR-2.json").json()["state"] == "planned"
