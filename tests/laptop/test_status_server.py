"""The server of the status page over HTTP: what it answers, and that it stays whatever breaks."""

from __future__ import annotations

import http.client
import json
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from threading import Barrier, Thread
from urllib.parse import urlsplit

import pytest

from dedp_assets.graph.resources.announced import announced
from dedp_assets.laptop import status_server
from dedp_assets.laptop.servers.loopback import command
from dedp_assets.laptop.status_server import Pages, serve_pages
from tests.fixtures import answering
from tests.helpers import NOW
from tests.laptop.status_page.pages import PAGE, Source


class Client:
    """Requests to a server under test."""

    def __init__(self, port):
        self.port = port

    def ask(self, path, method="GET", body=None, **headers):
        """Status, headers and text of an answer; a connection for each."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
            reply = connection.getresponse()
            return reply.status, reply.headers, reply.read().decode()
        finally:
            connection.close()


@contextmanager
def serving(pages):
    """A server on a free port for the time of a block."""
    with answering(serve_pages(pages), lifespan="off") as url:
        yield Client(urlsplit(url).port)


@pytest.fixture
def client():
    with serving(Pages(Source, lambda: NOW)) as made:
        yield made


def test_the_page_a_table_and_the_same_for_programs(client):
    """Each is there, with the type that it is."""
    status, headers, text = client.ask("/")
    assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert "6 troubles in 6 tables" in text
    status, headers, text = client.ask("/status.json")
    assert (status, headers["Content-Type"]) == (200, "application/json")
    assert [each["kind"] for each in json.loads(text)["troubles"]] == [each.kind for each in PAGE.troubles]
    status, _, text = client.ask("/table/silver/visits?x=1")
    assert (status, "Last commits" in text) == (200, True)


@pytest.mark.parametrize("path", ["/table/silver/none", "/table/", "/x", "/table/%3Cscript%3E", "//evil", "/%ff%00"])
def test_what_is_not_there_is_a_page_that_says_so(client, path):
    """A name in the address stays a text."""
    status, _, text = client.ask(path)
    assert (status, "<script" in text) == (404, False)


def test_an_unchanged_page_is_not_sent_again(client):
    """By its tag; a browser always asks, so that nobody looks at yesterday's page."""
    status, headers, _ = client.ask("/")
    assert (status, headers["Cache-Control"]) == (200, "no-cache")
    assert client.ask("/", If_None_Match=headers["ETag"])[::2] == (304, "")
    assert client.ask("/", If_None_Match='"other"')[0] == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_only_reading_is_answered(client, method):
    """With the methods that are."""
    status, headers, _ = client.ask("/", method, "x")
    assert (status, {*headers["Allow"].split(", ")}) == (405, {"GET", "HEAD"})
    assert client.ask("/", "HEAD")[::2] == (200, "")


@pytest.mark.parametrize(("host", "status"), [("evil.example", 400), ("localhost:1", 200), ("127.0.0.1", 200)])
def test_a_page_from_elsewhere_cannot_read_it(client, host, status):
    """Under a name of its own that leads here; headers forbid frames and scripts."""
    answered, headers, text = client.ask("/", Host=host)
    assert (answered, "bronze/visits" in text) == (status, status == 200)
    if status == 200:
        assert "default-src 'none'" in headers["Content-Security-Policy"]
        assert headers["X-Content-Type-Options"] == "nosniff"


def test_a_page_is_kept_for_some_seconds_and_then_made_again():
    """However many ask; the project is loaded once."""
    now, loaded = [NOW], []

    class Dated(Source):
        def page(self, at):
            self.made += 1
            return replace(PAGE, made_at=at)

    source = Dated()

    def load():
        loaded.append(source)
        return source

    with serving(Pages(load, lambda: now[0])) as client:
        for _ in range(3):
            client.ask("/")
        assert (source.made, len(loaded)) == (1, 1)
        now[0] = NOW + timedelta(seconds=4)
        assert "12:00:04" in client.ask("/")[2]
        now[0] = NOW - timedelta(hours=1)  # a clock that was set back
        assert "11:00:00" in client.ask("/")[2]
        assert (source.made, len(loaded)) == (3, 1)


def test_requests_at_once_make_one_page():
    """The first makes it, the others wait for it."""
    source, barrier, answers = Source(), Barrier(4), []
    with serving(Pages(lambda: source, lambda: NOW)) as client:

        def ask():
            barrier.wait()
            answers.append(client.ask("/")[0])

        threads = [Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert (answers, source.made) == ([200] * 4, 1)


def test_an_error_is_a_page_and_the_next_request_tries_again():
    """Of loading and of making; the server stays, and the sentence is escaped."""
    source, faults = Source(), [ValueError("<b>no project</b>"), OSError("disk away")]

    def load():
        if faults:
            raise faults.pop(0)
        return source

    with serving(Pages(load, lambda: NOW)) as client:
        status, _, text = client.ask("/")
        assert (status, "ValueError: &lt;b&gt;no project" in text) == (503, True)
        assert client.ask("/status.json")[0] == 503
        assert client.ask("/")[0] == 200


def test_the_command_announces_the_address(tmp_path):
    """Valid while the server answers, as for the other servers of a home."""
    with serving(Pages(Source, lambda: NOW)) as client:
        words = command(f"{status_server.__name__}:application", tmp_path / "status", port=client.port)
        assert words[words.index("--factory") + 1] == "dedp_assets.laptop.status_server:application"
        assert words[words.index("--host") + 1 :][:3] == ["127.0.0.1", "--port", str(client.port)]
        assert announced(tmp_path / "status") == f"http://127.0.0.1:{client.port}"
    assert announced(tmp_path / "status") == ""


def test_the_plan_is_a_page_and_a_document(client):
    """With figures to the right, and texts of others as texts."""
    status, _, text = client.ask("/plan")
    assert status == 200
    assert "1 run in 1 wave, 1 partition." in text
    assert "behind: &lt;b&gt;x&lt;/b&gt; &amp; <code>dedp run</code>" in text
    assert '<td class="n">3 s</td><td class="n">5 files</td>' in text
    assert json.loads(client.ask("/plan.json")[2]) == {"runs": [{"run": 1, "tables": ["silver/visits"]}]}
    assert '<a href="/plan">' in client.ask("/")[2]


def test_a_plan_is_kept_for_some_seconds_and_then_made_again():
    """From the moment on at which it was made, which can take longer than it is kept."""
    now, planned = [NOW], []

    class Slow(Source):
        def plan(self, at):
            planned.append(at)
            now[0] += timedelta(seconds=20)
            return super().plan(at)

    with serving(Pages(Slow, lambda: now[0])) as client:
        assert [client.ask(path)[0] for path in ("/plan", "/plan.json", "/plan")] == [200] * 3
        assert planned == [NOW]
        now[0] += timedelta(seconds=4)
        assert client.ask("/plan")[0] == 200
        assert planned == [NOW, NOW + timedelta(seconds=24)]
