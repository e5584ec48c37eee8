"""The registry over HTTP: error codes, spellings that clients have, and requests that no client sends."""

from __future__ import annotations

import http.client
import json
import subprocess
from urllib.parse import urlsplit

import pytest

from dedp_assets.local.loopback import command
from dedp_assets.local.ports import free as free_port
from dedp_assets.local.registry.app import application
from dedp_assets.resources.announced import announced
from dedp_assets.resources.environments import child_environment
from tests.faults.processes import wait_until
from tests.fixtures import answering
from tests.local.registry.judging import record

V1, V2, V3 = record("a"), record("a", "b="), record("a", "b")
LONG = json.dumps({"type": "string", "doc": "x" * 1_000_001})


def asked(url, method, path, body=None, **headers):
    """Status, JSON and content type of an answer."""
    connection = http.client.HTTPConnection("127.0.0.1", urlsplit(url).port, timeout=30)
    try:
        sent = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        connection.request(method, path, sent, headers)
        reply = connection.getresponse()
        text = reply.read()
        return reply.status, json.loads(text) if text else None, reply.headers["Content-Type"]
    finally:
        connection.close()


@pytest.fixture
def shop(url):
    """A registry with subjects in each state: ``s`` (version 1 softly deleted, 2), ``gone`` (softly deleted)."""
    for subject, schema in (("s", V1), ("s", V2), ("gone", V1), ("referred", record("x", name="R"))):
        assert asked(url, "POST", f"/subjects/{subject}/versions", {"schema": schema})[0] == 200
    referring = {
        "schema": json.dumps({"type": "record", "name": "O", "fields": [{"name": "r", "type": "R"}]}),
        "references": [{"name": "R", "subject": "referred", "version": 1}],
    }
    assert asked(url, "POST", "/subjects/o/versions", referring)[0] == 200
    assert asked(url, "DELETE", "/subjects/s/versions/1")[0] == 200
    assert asked(url, "DELETE", "/subjects/gone")[0] == 200
    return url


REFUSED = [
    ("POST", "/subjects/s/versions", {"schema": V3.replace('"b", "type": "int"', '"b", "type": "string"')}, 40901),
    ("POST", "/subjects/s/versions", {"schema": "{"}, 42201),
    ("POST", "/subjects/s/versions", {"schema": '{"type": "record"}'}, 42201),
    ("POST", "/subjects/s/versions", {"schema": '{"a": 1, "a": 2}'}, 42201),
    ("POST", "/subjects/s/versions", {"schema": "[" * 100_000}, 42201),
    ("POST", "/subjects/s/versions", {"schema": 1}, 42201),
    ("POST", "/subjects/s/versions", {}, 42201),
    ("POST", "/subjects/s/versions", [], 42201),
    ("POST", "/subjects/s/versions", None, 42201),
    ("POST", "/subjects/s/versions", b"{", 42201),
    ("POST", "/subjects/s/versions", b"\xff", 42201),
    ("POST", "/subjects/s/versions", b'{"schema": "\\ud800"}', 42201),
    ("POST", "/subjects/s/versions", {"schema": V1, "schemaType": "PROTOBUF"}, 42201),
    ("POST", "/subjects/s/versions", {"schema": V1, "schemaType": []}, 42201),
    ("POST", "/subjects/s/versions", {"schema": V1, "references": [{"name": "R"}]}, 42201),
    ("POST", "/subjects/s/versions", {"schema": V1, "references": {"name": "R"}}, 42201),
    ("POST", "/subjects/s/versions", {"schema": LONG}, 42209),
    ("POST", "/subjects/s/versions", b" " * 4_000_001, 42209),
    ("POST", "/subjects/%00/versions", {"schema": V1}, 42208),
    ("POST", "/subjects/__GLOBAL/versions", {"schema": V1}, 42208),
    ("POST", "/subjects/:.staging:/versions", {"schema": V1}, 42208),
    ("POST", f"/subjects/{'x' * 513}/versions", {"schema": V1}, 42208),
    ("POST", "/subjects/none", {"schema": V1}, 40401),
    ("POST", "/subjects/gone", {"schema": V1}, 40401),
    ("POST", "/subjects/s", {"schema": V1}, 40403),
    ("POST", "/subjects/s", {"schema": "{"}, 42201),
    ("POST", "/subjects/s", {"schema": '{"type": "record"}'}, 42201),
    ("GET", "/schemas/ids/99", None, 40403),
    ("GET", "/schemas/ids/99/subjects", None, 40403),
    ("GET", "/schemas/ids/99/versions", None, 40403),
    ("GET", "/schemas/ids/x", None, 40403),
    ("GET", f"/schemas/ids/{10**30}", None, 40403),
    ("GET", "/schemas/guids/00000000-0000-0000-0000-000000000000", None, 40403),
    ("GET", "/schemas/guids/x", None, 40403),
    ("GET", "/subjects/none/versions", None, 40401),
    ("GET", "/subjects/gone/versions", None, 40401),
    ("GET", "/subjects/none/versions/1", None, 40401),
    ("GET", "/subjects/s/versions/1", None, 40402),
    ("GET", "/subjects/s/versions/99", None, 40402),
    *(("GET", f"/subjects/s/versions/{odd}", None, 42202) for odd in ("0", "-2", "x", "1.0", "%C2%B2", 2**31, 10**30)),
    ("GET", "/subjects/s/versions/99/referencedby", None, 40402),
    ("POST", "/compatibility/subjects/s/versions/99", {"schema": V1}, 40402),
    ("POST", "/compatibility/subjects/none/versions/1", {"schema": V1}, 40402),
    ("POST", "/compatibility/subjects/s/versions/0", {"schema": V1}, 42202),
    ("POST", "/compatibility/subjects/s/versions/latest", {"schema": "{"}, 42201),
    ("POST", "/compatibility/subjects/none/versions", {"schema": '{"type": "record"}'}, 42201),
    ("GET", "/config/s", None, 40408),
    ("DELETE", "/config/s", None, 40408),
    ("PUT", "/config", {"compatibility": "SIDEWAYS"}, 42203),
    ("PUT", "/config/s", {"compatibility": 1}, 42203),
    ("PUT", "/config/s", {}, 42203),
    ("PUT", "/config/s", None, 42203),
    ("PUT", "/config/s", {"compatibility": "NONE", "normalize": True}, 42203),
    ("DELETE", "/subjects/none", None, 40401),
    ("DELETE", "/subjects/none?permanent=true", None, 40401),
    ("DELETE", "/subjects/gone", None, 40404),
    ("DELETE", "/subjects/s?permanent=true", None, 40405),
    ("DELETE", "/subjects/s/versions/1", None, 40406),
    ("DELETE", "/subjects/s/versions/2?permanent=true", None, 40407),
    ("DELETE", "/subjects/s/versions/99", None, 40402),
    ("DELETE", "/subjects/none/versions/1", None, 40401),
    ("DELETE", "/subjects/referred", None, 42206),
    ("DELETE", "/subjects/referred/versions/1", None, 42206),
    ("GET", "/mode/s", None, 40409),
    ("DELETE", "/mode/s", None, 40409),
    ("PUT", "/mode", {"mode": "ASLEEP"}, 42204),
    ("PUT", "/mode/s", None, 42204),
]


def test_every_refusal_has_its_error_code_and_changes_nothing(shop):
    """The status is the beginning of the code; what was registered before is what there is after."""

    def everything():
        paths = ("/subjects?deleted=true", "/config", "/mode", "/subjects/s/versions?deleted=true", "/contexts")
        return [asked(shop, "GET", path) for path in paths]

    before = everything()
    for method, path, body, code in REFUSED:
        status, answer, _ = asked(shop, method, path, body)
        told = answer.get("error_code") if isinstance(answer, dict) else None
        assert (status, told) == (code // 100, code), (method, path[:80], str(body)[:80], answer)
        assert answer["message"]
    assert everything() == before


def test_answers_have_the_content_type_of_the_registry_and_unknown_addresses_are_json(url):
    """A client that does not understand an answer tells no error code."""
    kind = "application/vnd.schemaregistry.v1+json"
    assert asked(url, "GET", "/") == (200, {}, kind)
    assert asked(url, "GET", "/nowhere") == (404, {"error_code": 404, "message": "HTTP 404"}, kind)
    assert asked(url, "PUT", "/subjects")[::2] == (405, kind)
    connection = http.client.HTTPConnection("127.0.0.1", urlsplit(url).port, timeout=30)
    connection.request("GET", "/subjects", headers={"Host": "evil.example"})
    assert connection.getresponse().status == 400
    connection.close()


@pytest.mark.parametrize("true", ["true", "True", "TRUE"])
def test_a_truth_may_be_written_in_capitals(shop, true):
    """As Python's client writes it; anything else is none."""
    assert asked(shop, "GET", f"/subjects?deleted={true}")[1] == ["gone", "o", "referred", "s"]
    assert asked(shop, "GET", "/subjects?deleted=False")[1] == ["o", "referred", "s"]
    assert asked(shop, "GET", f"/subjects?deletedOnly={true}")[1] == ["gone"]
    path = "/compatibility/subjects/s/versions?verbose="
    bad = {"schema": record("a", "b:string")}
    assert asked(shop, "POST", f"{path}{true}", bad)[1] == {
        "is_compatible": False,
        "messages": ["BACKWARD, version 2: b: int cannot be read as string"],
    }
    assert asked(shop, "POST", f"{path}False", bad)[1] == {"is_compatible": False}
    assert asked(shop, "POST", f"{path}{true}", {"schema": V2})[1] == {"is_compatible": True, "messages": []}


def test_the_newest_version_is_latest_and_of_an_unknown_subject_everything_may_follow(shop):
    """``-1`` is ``latest``; levels and modes of a subject without its own are those of everything if asked for."""
    for latest in ("latest", "-1", "2"):
        assert asked(shop, "GET", f"/subjects/s/versions/{latest}")[1]["version"] == 2
    for path in ("/compatibility/subjects/none/versions/latest", "/compatibility/subjects/none/versions"):
        assert asked(shop, "POST", path, {"schema": V1})[1] == {"is_compatible": True}
    assert asked(shop, "GET", "/config/s?defaultToGlobal=true")[1] == {"compatibilityLevel": "BACKWARD"}
    assert asked(shop, "GET", "/mode/s?defaultToGlobal=true")[1] == {"mode": "READWRITE"}
    assert asked(shop, "GET", "/schemas/ids/1?fetchMaxId=true")[1]["maxId"] == 4
    assert asked(shop, "PUT", "/config/s", {"compatibility": "full"})[1] == {"compatibility": "FULL"}
    assert asked(shop, "DELETE", "/subjects/s/versions/latest")[1] == 2
    assert asked(shop, "DELETE", "/subjects/s/versions/latest?permanent=true")[1] == 2
    assert asked(shop, "GET", "/subjects/s/versions?deleted=true")[1] == [1]


def test_a_deleted_subject_loses_its_level(url):
    """Registered later, it has that of everything."""
    asked(url, "POST", "/subjects/s/versions", {"schema": V1})
    asked(url, "PUT", "/config/s", {"compatibility": "NONE"})
    assert asked(url, "DELETE", "/subjects/s")[1] == [1]
    assert asked(url, "GET", "/config/s")[1]["error_code"] == 40408


@pytest.mark.parametrize("subject", ["a/b", "ä ö", "a%b", "versions", "'; DROP TABLE x", "x?y#z"])
def test_a_subject_has_any_name(url, subject):
    """Whatever stands between two slashes of the address, once it is decoded."""
    from urllib.parse import quote

    path = f"/subjects/{quote(subject, safe='')}"
    assert asked(url, "POST", f"{path}/versions", {"schema": V1})[1]["id"] == 1
    assert asked(url, "GET", f"{path}/versions/1")[1]["subject"] == subject
    assert asked(url, "GET", "/subjects")[1] == [subject]
    assert asked(url, "DELETE", path)[1] == [1]


@pytest.mark.parametrize("odd", ["\u0000", "\u2028", "é", "\U0001f600", '"', "\\"])
def test_texts_in_schemas_and_metadata_come_back_as_they_were(url, odd):
    """Also what a database does not keep, or another encoding writes otherwise."""
    schema = {"type": "record", "name": "V", "doc": odd, "fields": []}
    sent = {"schema": json.dumps(schema), "metadata": {"properties": {"owner": odd}}}
    asked(url, "POST", "/subjects/s/versions", sent)
    found = asked(url, "GET", "/schemas/ids/1")[1]
    assert (json.loads(found["schema"]), found["metadata"]) == (schema, sent["metadata"])
    assert asked(url, "POST", "/subjects/s", sent)[1]["id"] == 1
    assert asked(url, "POST", "/subjects/s", {"schema": sent["schema"]})[1]["error_code"] == 40403


@pytest.mark.parametrize(("kept", "status"), [("file", 200), ("", 200), ("postgres", 500)])
def test_the_setting_says_where_schemas_are_kept(monkeypatch, tmp_path, kept, status):
    """In a file of the home unless a database is wanted; without that database no file stands in for it."""
    for name, value in {"DEDP_HOME": str(tmp_path), "DEDP_REGISTRY": kept, "DEDP_POSTGRES": ""}.items():
        monkeypatch.setenv(name, value)
    with answering(application(), lifespan="off") as url:
        answer = asked(url, "POST", "/subjects/s/versions", {"schema": V1})
        assert (answer[0], answer[1].get("error_code")) == (status, None if status == 200 else 50001)
    assert (tmp_path / "registry" / "schemas.json").exists() == (status == 200)
    monkeypatch.setenv("DEDP_REGISTRY", "nowhere")
    with pytest.raises(ValueError, match=r"DEDP_REGISTRY must be file, postgres, or a URL like .*, not nowhere"):
        application()


@pytest.mark.slow
def test_a_server_that_is_killed_comes_back_with_its_schemas(tmp_path):
    """The command listens where the address says, as long as the process lives."""
    folder, port = tmp_path / "registry", free_port()
    words, environment = (
        command(f"{application.__module__}:application", folder, port=port),
        child_environment({"DEDP_HOME": str(tmp_path)}),
    )
    for attempt in range(2):
        with subprocess.Popen(words, env=environment) as server:
            try:
                assert wait_until(lambda: announced(folder))
                assert asked(announced(folder), "GET", "/subjects")[1] == ["s"] * attempt
                assert asked(announced(folder), "POST", "/subjects/s/versions", {"schema": V1})[1]["version"] == 1
            finally:
                server.kill()
    assert announced(folder) == ""
    assert words[words.index("--host") + 1 :][:3] == ["127.0.0.1", "--port", str(port)]
