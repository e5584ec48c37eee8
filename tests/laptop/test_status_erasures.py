"""Requests to erase persons over HTTP: who may ask and approve, and that no answer, file or log holds an id."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from urllib.parse import urlencode

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

from dedp_assets.graph.erasure import cases as cases_of_a_home
from dedp_assets.graph.erasure.cases import CasePlace, Cases
from dedp_assets.laptop.servers.secured_http import OnlyToken
from dedp_assets.laptop.status_server import Pages, serve_pages
from tests.helpers import NOW
from tests.laptop.status_page.pages import PAGE, Source

ID, OTHER = "user-4711-canary", "user-4712-canary"
OPEN, LOCKED = "http://127.0.0.1:3001", "https://127.0.0.1:3001"
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
JSON = {"Content-Type": "application/json"}
TOKEN = "token-of-the-door"  # noqa: S105 - of a test
PLANNED = CasePlace("silver/users", "table", 3, "open", "3 of 40 rows")


def asking(*ids, request="GDPR-17", kind="user"):
    """What a program states."""
    return {"subject": {kind: [*ids]}, "because": request}


class Door:
    """A status server over a home, with or without a lock, and what a client gets there."""

    def __init__(self, home, *, lock=None, kinds=("email", "user")):
        self.home, self.cases = home, Cases.of(home)
        made = serve_pages(Pages(lambda: Source(replace(PAGE, kinds=kinds)), lambda: NOW), lambda: self.cases)
        shown = {"Authorization": f"Bearer {TOKEN}"} if lock else {}
        behind, url = (OnlyToken(made, lock), LOCKED) if lock else (made, OPEN)
        self.client = TestClient(behind, url, follow_redirects=False, headers=shown)

    def ask(self, *ids, **more):
        """Ask as a program does: status, and the answer."""
        reply = self.client.post("/erasures", json=asking(*ids, **more))
        return reply.status_code, reply.json()

    def approve(self, request="GDPR-17", by="legal"):
        """Approve as a program does: status, and the answer."""
        reply = self.client.post(f"/erasures/{request}/approval", json={"by": by})
        return reply.status_code, reply.json()

    def form(self, page, path, headers=FORM, **fields):
        """Fill the form of a page: status, and address or sentence."""
        token = re.search('name="token" value="([^"]+)"', self.client.get(page).text)
        stated = {**({"token": token[1]} if token else {}), **fields}
        reply = self.client.post(path, content=urlencode(stated), headers=headers)
        return reply.status_code, reply.headers.get("Location") or reply.text

    def plan(self, request="GDPR-17", ids=(ID,)):
        """What a run of the asset does with a request that was asked."""
        case = replace(self.cases.case(request), places=(PLANNED,))
        return self.cases.keep(case, {"user": [*ids], "email": ["ada@example.com"]})


@pytest.fixture
def door(tmp_path):
    """A server that whoever reaches loopback reaches."""
    return Door(tmp_path / "home")


@pytest.fixture
def locked(tmp_path):
    """A server behind the lock, and a client with the token."""
    file = tmp_path / "status"
    file.write_text(TOKEN)
    return Door(tmp_path / "home", lock=file)


def files_with(home, *texts):
    """Files of a home whose name or content holds a text."""
    found = [(str(path), path.read_bytes() if path.is_file() else b"") for path in home.rglob("*")]
    return [name for name, content in found if any(each in name or each.encode() in content for each in texts)]


def test_the_same_request_twice_is_one(door):
    """Asked, due in thirty days; the ids lie sealed; other ids under its name are refused, then and after its plan."""
    status, case = door.ask(ID)
    assert (status, case["request"], case["state"], case["due"][:10]) == (202, "GDPR-17", "asked", "2026-02-19")
    assert door.ask(ID) == (202, case)
    assert door.ask(ID, OTHER)[0] == 409
    assert door.cases.ids(door.cases.case("GDPR-17")) == {"user": [ID]}
    door.plan()
    assert (door.ask(ID)[0], door.ask(OTHER)[0]) == (202, 409)
    assert [each["state"] for each in door.client.get("/erasures.json").json()] == ["planned"]
    assert door.client.get("/erasures/GDPR-17.json").json()["places"][0]["name"] == "silver/users"
    assert files_with(door.home, ID) == []


@pytest.mark.parametrize(
    ("stated", "status", "sentence"),
    [
        (asking(ID, request="a b"), 400, "name of a request must be up to 64 letters"),
        (asking(ID, request="../x"), 400, "name of a request must be"),
        (asking(ID, request="x.json"), 400, "end otherwise than .json"),
        (asking(ID, request=f"GDPR-{ID.upper()}"), 400, "must hold no id"),
        (asking(ID, kind="usr"), 400, "Kinds of persons must be among email, user, not 1 other"),
        (asking(" "), 400, "Ids must be texts"),
        (asking(), 400, "Ids must be texts"),
        (asking(17), 400, "Ids must be texts"),
        (asking("a\nb"), 400, "Ids must be texts"),
        (asking("\ud800"), 400, "Ids must be texts"),
        ({"subject": {"user": ID}, "because": "GDPR-17"}, 400, "Ids must be texts"),
        ({"subject": [ID], "because": "GDPR-17"}, 400, "Ids must be texts"),
        ({**asking(ID), "most": 1}, 400, "fields must be subject and because"),
        ({"id": ID, "kind": "user", "because": "x"}, 400, "fields must be subject and because"),
        ([ID], 400, "must be an object of JSON"),
    ],
)
def test_what_cannot_be_asked_is_refused_in_one_sentence(door, stated, status, sentence):
    """Without the id in it, and nothing is kept."""
    reply = door.client.post("/erasures", content=json.dumps(stated), headers=JSON)
    assert (reply.status_code, sentence in reply.json()["error"]) == (status, True), reply.text
    assert ID not in reply.text
    assert door.cases.names() == []


def test_a_form_asks_and_shows_the_request(door):
    """Its ids are in no address and no page; the id of a form may have spaces around."""
    asked = {"kind": "user", "id": f" {ID} ", "because": " GDPR-17"}
    assert door.form("/erasures", "/erasures", **asked) == (303, "/erasures/GDPR-17")
    assert door.cases.ids(door.cases.case("GDPR-17")) == {"user": [ID]}
    pages = [door.client.get(path) for path in ("/erasures", "/erasures/GDPR-17")]
    assert all(("GDPR-17" in page.text, ID in page.text) == (True, False) for page in pages)
    assert all("form-action 'self'" in page.headers["Content-Security-Policy"] for page in pages)
    # Under the policy no-referrer a browser names no origin with a form.
    assert {page.headers["Referrer-Policy"] for page in pages} == {"same-origin"}
    status, text = door.form("/erasures", "/erasures", **{**asked, "kind": "usr"})
    assert (status, ID in text) == (400, False)


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:8080"},
        {"Origin": "https://127.0.0.1:3001"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site", "Origin": OPEN},
        {"Host": "evil.example"},
    ],
)
def test_a_page_of_another_site_files_nothing(door, headers):
    """Neither by a form nor by a script, also from another port of this machine."""
    status, _ = door.form("/erasures", "/erasures", {**FORM, **headers}, kind="user", id=ID, because="GDPR-17")
    by_script = door.client.post("/erasures", json=asking(ID), headers=headers)
    assert {status, by_script.status_code} <= {400, 403}
    assert door.cases.names() == []


def test_a_page_of_this_server_files(door):
    """As browsers name it, also behind a proxy, by whose name the page goes there."""
    named = [{"Origin": OPEN}, {"Sec-Fetch-Site": "same-origin", "Origin": "https://proxy.example"}]
    for number, headers in enumerate(named):
        asked = {"kind": "user", "id": ID, "because": f"GDPR-{number}"}
        assert door.form("/erasures", "/erasures", {**FORM, **headers}, **asked)[0] == 303


def test_a_form_counts_only_with_the_token_of_the_server(door):
    """Another one, none, or one of an earlier start."""
    for token in ("", "x", "é"):
        status, text = door.form("/erasures", "/erasures", kind="user", id=ID, because="GDPR-17", token=token)
        assert (status, "load it again" in text) == (403, True)
    stated = urlencode({"kind": "user", "id": ID, "because": "GDPR-17"})
    assert door.client.post("/erasures", content=stated, headers=FORM).status_code == 403
    assert door.cases.names() == []


@pytest.mark.parametrize("kind", ["", "text/plain", "multipart/form-data; boundary=x", "application/jsonp"])
def test_other_types_of_content_are_refused(door, kind):
    """Also those that a browser sends to another site without asking there first."""
    reply = door.client.post("/erasures", content=json.dumps(asking(ID)), headers={"Content-Type": kind})
    assert (reply.status_code, door.cases.names()) == (415, [])


def test_bodies_are_bounded(door):
    """By what comes, whatever the length says."""
    pieces = (b" " * 1000 for _ in range(70))
    for content in (b" " * 70_000, pieces):
        reply = door.client.post("/erasures", content=content, headers=JSON)
        assert (reply.status_code, reply.json()) == (413, {"error": "The content must be up to 64 KiB."})


def test_an_open_door_approves_nothing(door):
    """An erasure cannot be undone: the page shows the command in place of the form."""
    door.ask(ID)
    door.plan()
    status, answer = door.approve()
    assert (status, "DEDP_SECURE=on" in answer["error"]) == (403, True)
    page = door.client.get("/erasures/GDPR-17").text
    assert ("dedp erase --because GDPR-17 --by NAME" in page, "<form" in page) == (True, False)
    status, _ = door.form("/erasures", "/erasures/GDPR-17/approval", by="legal")
    assert (status, door.cases.case("GDPR-17").approved_by) == (403, "")


def test_a_locked_door_approves_a_plan_once(locked):
    """By a program or a form; before the plan, of another request, by a name that is an id, or twice, none."""
    locked.ask(ID)
    assert (locked.approve()[0], locked.approve("GDPR-18")[0]) == (409, 404)
    locked.plan()
    assert "<form" in locked.client.get("/erasures/GDPR-17").text
    for by in ("", " ", "a\nb", "x" * 101, f"me {ID}", "ada@example.com", 17, None):
        status, answer = locked.approve(by=by)
        assert (status, ID in str(answer)) == (400, False), by
    assert locked.cases.case("GDPR-17").state == "planned"
    page, path = "/erasures/GDPR-17", "/erasures/GDPR-17/approval"
    assert locked.form(page, path, by="legal") == (303, page)
    assert locked.approve(by="me") == (409, {"error": "GDPR-17 was approved already, by legal."})
    assert locked.client.get("/erasures/GDPR-17.json").json()["state"] == "approved"
    locked.ask(OTHER, request="GDPR-18")
    locked.plan("GDPR-18", [OTHER])
    assert locked.approve("GDPR-18")[1]["approved_by"] == "legal"
    assert "<form" not in locked.client.get(page).text


@pytest.mark.parametrize("shown", ["", "Bearer x"])
def test_the_lock_holds_for_what_is_stated_too(locked, shown):
    """Without the token nothing is asked, approved or read; a token in the address files nothing, either."""
    locked.ask(ID)
    locked.plan()
    headers = {"Authorization": shown}
    posted = [("/erasures", asking(ID, request="GDPR-18")), ("/erasures/GDPR-17/approval", {"by": "me"})]
    for path, stated in posted:
        assert locked.client.post(path, json=stated, headers=headers).status_code == 401
        assert locked.client.post(f"{path}?token={TOKEN}", json=stated, headers=headers).status_code == 303
        locked.client.cookies.clear()
    assert {locked.client.get(path, headers=headers).status_code for path in ("/erasures", "/erasures.json")} == {401}
    assert [(case.request, case.state) for case in locked.cases] == [("GDPR-17", "planned")]


def test_a_case_that_cannot_be_read_is_named_and_hides_no_other(door):
    """On the list as a notice, on its page as a sentence; and so is a report that somebody changed."""
    for request in ("GDPR-1", "GDPR-2", "GDPR-3"):
        door.ask(ID, request=request)
    (door.home / "erasures/GDPR-1.json").write_text('{"request": "GDPR-1"}')
    page = door.client.get("/erasures")
    assert (page.status_code, "the case of GDPR-1 must be a file as this home wrote it" in page.text) == (200, True)
    assert "/erasures/GDPR-2" in page.text
    assert (door.client.get("/erasures/GDPR-1").status_code, door.ask(ID, request="GDPR-1")[0]) == (503, 409)
    door.cases.end(door.cases.case("GDPR-2"), now=NOW)
    assert door.client.get("/erasures/GDPR-2.json").json()["genuine"] is True
    assert "was changed since" not in door.client.get("/erasures/GDPR-2").text
    door.cases.keep(replace(door.cases.case("GDPR-2"), approved_by="me"))
    assert "was changed since" in door.client.get("/erasures/GDPR-2").text
    assert (door.ask(ID, request="GDPR-2")[0], door.client.get("/erasures/none").status_code) == (409, 404)


def test_the_index_leads_there_if_tables_declare_persons(tmp_path):
    """Without persons there is no link and no form."""
    door, without = Door(tmp_path / "a"), Door(tmp_path / "b", kinds=())
    assert 'href="/erasures"' in door.client.get("/").text
    assert 'href="/erasures"' not in without.client.get("/").text
    assert "<form" not in without.client.get("/erasures").text
    assert without.ask(ID)[0] == 400


def test_requests_that_nobody_approved_are_bounded(door, monkeypatch):
    """By a program or a form: try later, with the command that approves; the requests that are known go on."""
    monkeypatch.setattr(cases_of_a_home, "MOST_WAITING", 2)
    for request in ("GDPR-1", "GDPR-2"):
        door.ask(ID, request=request)
    said = "At most 2 requests may wait for an approval, and 2 do: `dedp erase` lists all, and "
    status, answer = door.ask(OTHER, request="GDPR-3")
    assert (status, answer["error"].startswith(said)) == (503, True)
    status, text = door.form("/erasures", "/erasures", kind="user", id=OTHER, because="GDPR-3")
    assert (status, "dedp erase --because NAME" in text, OTHER in text) == (503, True, False)
    assert door.cases.names() == ["GDPR-1", "GDPR-2"]
    assert door.ask(ID, request="GDPR-2")[0] == 202
    door.plan("GDPR-1")
    assert door.ask(OTHER, request="GDPR-3")[0] == 503
    door.cases.approve("GDPR-1", "legal")
    assert door.ask(OTHER, request="GDPR-3")[0] == 202


def test_an_error_is_a_sentence_without_a_text_of_the_error(door, monkeypatch, caplog):
    """Which may hold what was stated; the log has no more."""

    def broken(*_, **__):
        raise OSError(f"disk full at {ID}")

    monkeypatch.setattr(Cases, "ask", broken)
    assert door.ask(ID) == (503, {"error": "This cannot be done now: OSError."})
    assert ("OSError" in caplog.text, ID in caplog.text) == (True, False)


TEXTS = st.sampled_from([ID, f"x{ID}", "user", "email", "GDPR-17", "subject", "because", "by", "", "é", "\ud800", "17"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
PAIRS = st.lists(st.tuples(TEXTS, st.text(max_size=8)))
NAMES = st.sampled_from([f"x-{ID}", ID, "GDPR-2", "GDPR-3", "GDPR-4", "legal"])
IDS, KINDS = st.sampled_from([ID, OTHER, "17", " "]), st.sampled_from(["user", "email", ID])
SUBJECT = st.dictionaries(KINDS, st.lists(IDS, max_size=2).map(lambda more: [ID, *more]), min_size=1, max_size=2)
APPROVED = st.fixed_dictionaries({"by": NAMES | st.just("legal")})
APPROVAL = "/erasures/GDPR-1/approval"


def as_form(fields):
    """What a browser sends."""
    return urlencode(fields, errors="replace").encode()


def as_json(value):
    """What a program sends."""
    return json.dumps(value).encode()


ANY = st.one_of(
    st.binary(max_size=60), VALUES.map(as_json), PAIRS.map(as_form), st.sampled_from([b"[" * 50_000, b"9" * 9_000])
)
PATHS = st.sampled_from(["/erasures", APPROVAL, "/erasures/GDPR-2/approval", "/erasures/%ff/approval"])
STATED = st.one_of(
    st.tuples(PATHS, st.sampled_from([FORM, JSON]), ANY),
    st.tuples(
        st.just("/erasures"),
        st.just(JSON),
        st.fixed_dictionaries({"subject": SUBJECT, "because": NAMES | TEXTS}).map(as_json),
    ),
    st.tuples(
        st.just("/erasures"),
        st.just(FORM),
        st.fixed_dictionaries({"kind": KINDS, "id": st.just(ID), "because": NAMES | TEXTS}).map(as_form),
    ),
    st.tuples(st.just(APPROVAL), st.just(JSON), APPROVED.map(as_json)),
    st.tuples(st.just(APPROVAL), st.just(FORM), APPROVED.map(as_form)),
)


@given(STATED, st.sampled_from([b"", b"&token="]))
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_is_stated_the_answer_is_one_sentence_and_holds_no_id(tmp_path_factory, caplog, stated, token):
    """By a form or a program, broken or nearly right; nor does a file, its name or the log."""
    (path, headers, body), folder = stated, tmp_path_factory.mktemp("home")
    (folder / "token").write_text(TOKEN)
    door = Door(folder / "home", lock=folder / "token")
    door.ask(ID, request="GDPR-1")
    door.plan("GDPR-1")
    door.ask(OTHER, request="GDPR-2")
    if headers is FORM and token:
        body += token + re.search('name="token" value="([^"]+)"', door.client.get("/erasures").text)[1].encode()
    reply = door.client.post(path, content=body, headers=headers)
    assert reply.status_code in {202, 303, 400, 403, 404, 409}, reply.text
    assert not [each for each in (ID, OTHER) if each in f"{reply.text} {reply.headers} {caplog.text}"]
    if reply.status_code >= 400:
        said = reply.json()["error"] if headers is JSON else re.search('class="notice">(.*)</p>', reply.text)[1]
        assert re.fullmatch(r"[A-Z][^\n]*\.", said), said
    assert files_with(folder, ID, OTHER) == []
