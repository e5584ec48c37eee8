"""Parts of others that lie: each gives the right rows or an error of the library that names it, and no secret of it."""

from __future__ import annotations

import json
import socketserver
import time
from contextlib import contextmanager
from dataclasses import replace
from itertools import repeat
from threading import Thread
from types import SimpleNamespace

import pytest

from dedp_assets.patterns.connectors import postgres
from dedp_assets.patterns.connectors.definitions import define
from dedp_assets.patterns.connectors.http import Patience, Service, ask_in_bulk
from dedp_assets.patterns.connectors.http_sink import HttpSink
from dedp_assets.patterns.connectors.pgoutput import Relation
from dedp_assets.patterns.connectors.postgres import Incoming, PostgresTable
from dedp_assets.patterns.connectors.providers import keep_answer
from dedp_assets.patterns.connectors.sinks import Answer, Outgoing, send
from dedp_assets.patterns.core.errors import ConfigError, ContractError, NotReady, PatternError
from dedp_assets.patterns.idempotency._transactions import Written, write_sets
from tests.helpers import NOW

RECORDS = [Outgoing(str(n), f"entity {n}", "{}") for n in range(3)]


@contextmanager
def refused(kind, *words):
    """Expect one of the library's own errors: one sentence with these words in it, and no secret."""
    with pytest.raises(PatternError) as raised:
        yield
    text = str(raised.value)
    assert isinstance(raised.value, kind), f"{type(raised.value).__name__}: {text}"
    assert [word for word in words if word not in text] == [], text
    assert "secret" not in text
    assert "\n" not in text
    assert len(text) < 1_000


# --- HTTP -------------------------------------------------------------------------------------------------------------


class Liar(socketserver.ThreadingTCPServer):
    """A server that reads a request and then writes what it was told, byte by byte if it was told so.

    Attributes:
        script: what it writes: pieces of bytes; a number is a pause in seconds.
        asked: the first line and the headers of each request.
    """

    allow_reuse_address, daemon_threads, block_on_close = True, True, False

    def __init__(self):
        self.script, self.asked = [], []
        super().__init__(("127.0.0.1", 0), Requested)
        self.url = f"http://127.0.0.1:{self.server_address[1]}/part?token=secret"
        self.name = self.url.partition("?")[0]


class Requested(socketserver.StreamRequestHandler):
    def handle(self):
        head = []
        while (line := self.rfile.readline()) not in (b"\r\n", b""):
            head.append(line.decode())
        length = [int(line.split(":")[1]) for line in head if line.lower().startswith("content-length")]
        self.rfile.read(sum(length))
        self.server.asked.append(head)
        try:
            for piece in self.server.script:
                if isinstance(piece, bytes):
                    self.wfile.write(piece)
                else:
                    time.sleep(piece)
        except OSError:
            pass  # whoever asked has gone


def said(body, status="200 OK", *headers, length=None):
    """An answer as it goes over the wire."""
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body) if length is None else length}", *headers, "", ""]
    return [b"\r\n".join(line.encode() for line in lines) + body]


ANSWERED = {"items": [{"id": "0", "outcome": "accepted"}]}
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
NO_ANSWERS = {
    "hangs up": [],
    "talks something else": [b"\x00\xff\xfe SSH-2.0\r\n\r\n"],
    "is silent": [3],
    "half of the body": said(ANSWERED, length=1_000),
    "half of a chunk": [CHUNKED + b"40\r\n{"],
    "a chunk of no size": [CHUNKED + b"-x\r\n{}"],
    "a hundred headers too many": [b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 300 + b"\r\n{}"],
    "an endless header": [b"HTTP/1.1 200 OK\r\nA: " + b"b" * 100_000],
    "drips its headers": [b"HTTP/1.1 200 OK\r\n", *[b"A", 0.05] * 100],
    "drips its body": [b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n", *[b" ", 0.05] * 100],
    "drips a body of no length": [b"HTTP/1.1 200 OK\r\n\r\n{}", *[b" ", 0.05] * 100],
    "drips the size of a chunk": [CHUNKED, *[b"0", 0.05] * 100],
}
BUSY = {
    "busy, with half a reason": said(b"later", "503 Busy", length=1_000),
    "busy until a day that no calendar has": said(
        b"", "429 Busy", "Retry-After: Fri, 20 Jan 99999999999999999999 12:00:05 GMT"
    ),
}
TOO_LARGE = {
    "more than is borne": said(b" " * 200_000),
    "says that it has a terabyte": said(b"{}", length=10**12),
    "never ends": [b"HTTP/1.1 200 OK\r\n\r\n", *[b" " * 50_000] * 100],
    "chunks that never end": [CHUNKED, *[b"c350\r\n" + b" " * 50_000 + b"\r\n"] * 100],
}
PACKED = {"packed unasked": said(b"\x1f\x8b", "200 OK", "Content-Encoding: gzip")}
ELSEWHERE = {
    "leads elsewhere": said(b"", "302 Found", "Location: http://u:secret@127.0.0.1:9/other?token=secret"),
    "leads to no address": said(b"", "307 Go", "Location: http://[?secret"),
    "leads to a file": said(b"", "301 Moved", "Location: file:///etc/passwd"),
    "leads nowhere": said(b"", "308 Moved"),
}
REFUSALS = {"refuses with half a reason": said(b"no\nway", "400 Bad", length=1_000)}
NONSENSE = {
    "no body": said(b"", "204 No Content"),
    "half of the JSON": said(b'{"items": [{"id": "0"'),
    "no UTF-8": said(b'{"items": "\xff"}'),
    "half a character": said(b'{"items": [{"id": "0", "outcome": "accepted", "position": "\\ud800"}]}'),
    "half a character in bytes": said(b'{"items": [{"id": "0", "outcome": "\xed\xa0\x80"}]}'),
    "NaN": said(b'{"items": [{"id": "0", "outcome": NaN}]}'),
    "a number without end": said(b'{"items": [{"id": "0", "outcome": 1e999}]}'),
    "a member twice": said(b'{"items": [{"id": "0", "outcome": "accepted"}], "items": []}'),
    "nested too deep": said(b"[" * 90_000),
    "a number of many digits": said(b'{"items": ' + b"1" * 9_000 + b"}"),
    "null": said(None),
    "a text": said("items"),
    "no items": said({"items": None}),
    "items that are none": said({"items": [None, 7]}),
    "items as a mapping": said({"items": {"0": "accepted"}}),
    "half of the items": said({"items": []}),
    "an item twice": said({"items": ANSWERED["items"] * 2}),
    "other items": said({"items": [{"id": "9", "outcome": "accepted"}]}),
    "one that nobody asked for": said({"items": [*ANSWERED["items"], {"id": "9", "outcome": "accepted"}]}),
    "an item of no name": said({"items": [{"id": None, "outcome": "accepted"}]}),
}


@pytest.fixture
def liar(monkeypatch):
    """The server, running; it takes few bytes and little time to be believed no more."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with Liar() as server:
        Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server
        server.shutdown()


def service(liar, **more):
    bounds = {"timeout_seconds": 1, "total_seconds": 0.3, "most_bytes": 100_000, **more}
    return Service(liar.url, Patience(lambda: NOW, attempts=2, sleep=lambda _: None), **bounds)


def ask(liar):
    return list(ask_in_bulk(service(liar), ["0"], asks="keys", answers="items", key="id", size=5))


@pytest.mark.parametrize(
    ("kind", "script"),
    [
        *[pytest.param(NotReady, script, id=name) for name, script in {**NO_ANSWERS, **BUSY}.items()],
        *[pytest.param(ConfigError, script, id=name) for name, script in {**ELSEWHERE, **REFUSALS}.items()],
        *[pytest.param(ContractError, script, id=name) for name, script in {**TOO_LARGE, **PACKED, **NONSENSE}.items()],
    ],
)
def test_a_service_that_lies_is_not_believed(liar, kind, script):
    """In time, whatever comes; what may pass is asked for again, what may not is asked for once."""
    liar.script, began = script, time.monotonic()
    with refused(kind, liar.name):
        ask(liar)
    assert time.monotonic() - began < 2.5
    assert len(liar.asked) == (2 if kind is NotReady else 1)
    assert all(head[0].startswith("POST /part?token=secret ") for head in liar.asked)


def test_a_service_that_tells_the_truth_is_believed(liar):
    """Slowly, in chunks, with a byte order mark: it is an answer all the same."""
    for script in (
        said(ANSWERED),
        said(b"\xef\xbb\xbf" + json.dumps(ANSWERED).encode()),
        [CHUNKED, 0.1, b"2\r\n" + b'{"', 0.1, b"\r\n2d\r\n" + json.dumps(ANSWERED).encode()[2:] + b"\r\n0\r\n\r\n"],
    ):
        liar.script = script
        assert ask(liar) == ANSWERED["items"]


@pytest.mark.parametrize(
    "url",
    [
        "http://",
        "http://[",
        "http://host:port/",
        "http://u:secret@host/",
        "http://höst/?secret",
        "http://host/a b?secret",
        "ftp://host/?secret",
        "http://host:99999/",
        "",
    ],
)
def test_an_address_that_can_never_be_asked_is_refused_at_once(url, tmp_path):
    """Neither asked for ever, nor told with what is secret in it."""
    with refused(ConfigError, "is no address of an HTTP service"):
        Service(url, Patience(lambda: NOW))
    with refused(ConfigError, "is no address of a provider"):
        keep_answer(url, tmp_path / "answer.json")


@pytest.mark.parametrize(
    ("kind", "script"),
    [
        *[pytest.param(NotReady, script, id=name) for name, script in NO_ANSWERS.items()],
        *[pytest.param(NotReady, script, id=name) for name, script in BUSY.items()],
        *[
            pytest.param(ContractError, script, id=name)
            for name, script in {**ELSEWHERE, **REFUSALS, **TOO_LARGE, **PACKED}.items()
        ],
        pytest.param(NotReady, said(b"soon", "202 Accepted"), id="not yet"),
        pytest.param(ContractError, said(b"", "204 No Content"), id="nothing"),
        pytest.param(ContractError, said(b"half", "206 Partial Content"), id="a part"),
    ],
)
def test_a_provider_that_lies_leaves_nothing(liar, tmp_path, kind, script):
    """No file, no half of one; and the next call asks again."""
    liar.script, answer = script, tmp_path / "answer.json"
    bounds = {"timeout_seconds": 1, "total_seconds": 0.3, "most_bytes": 100_000}
    with refused(kind, liar.name):
        keep_answer(liar.url, answer, headers={"Authorization": "secret"}, **bounds)
    assert [path for path in tmp_path.iterdir() if path.suffix != ".lock"] == []
    liar.script = said(b"whole")
    assert keep_answer(liar.url, answer, **bounds)
    assert answer.read_bytes() == b"whole"


@pytest.mark.parametrize("header", ["secret\nX: y", "sécret\u2603", None])
def test_a_header_that_cannot_be_sent_is_told_without_its_value(liar, tmp_path, header):
    """Credentials with a line feed at the end are the usual case."""
    liar.script = said(b"whole")
    with refused(ConfigError, liar.name, "header"):
        keep_answer(liar.url, tmp_path / "answer.json", headers={"Authorization": header})


SINK_LIES = {
    "an outcome that is a list": {"outcome": ["accepted"]},
    "an outcome that is none": {"outcome": None},
    "no outcome": {},
    "a new outcome": {"outcome": "perhaps"},
}


@pytest.mark.parametrize("told", SINK_LIES.values(), ids=SINK_LIES)
def test_an_http_sink_that_answers_with_no_outcome_is_named(liar, told):
    """Its request may have been taken; it is not sent again by guess, and no receipt says so."""
    liar.script = said({"records": [{"id": record.id, **told} for record in RECORDS]})
    with refused(ContractError, f"{liar.name}/blog", "outcomes that nobody knows"):
        send(HttpSink(service(liar)), "blog", RECORDS, attempts=3, pause_seconds=0)
    assert [head[0] for head in liar.asked] == ["POST /part/blog?token=secret HTTP/1.1\r\n"]


def test_what_an_http_sink_says_beside_an_outcome_is_text(liar):
    """A position as a number, or none."""
    told = [{"position": 7}, {"position": None}, {"position": {"p": 1}, "reason": 5}]
    items = zip(RECORDS, told, strict=True)
    liar.script = said({"records": [{"id": record.id, "outcome": "accepted", **more} for record, more in items]})
    answers, _ = send(HttpSink(service(liar)), "blog", RECORDS, attempts=1, pause_seconds=0)
    assert answers == [Answer("accepted", "7"), Answer("accepted"), Answer("accepted", "{'p': 1}", "5")]


# --- sinks ------------------------------------------------------------------------------------------------------------


class LyingSink:
    """A sink whose answers are what ``answer`` gives or raises for the records of a request."""

    name, partial, limit = "the liar", True, 100

    def __init__(self, answer):
        self.answer, self.requests = answer, []

    def send(self, _, records):
        self.requests.append([record.id for record in records])
        return self.answer(records)


def raising(error):
    def answer(_):
        raise error

    return answer


def breaking(records):
    """An iterator of answers that dies on its way."""
    yield Answer("accepted")
    raise KeyError("position")


@pytest.mark.parametrize(
    "error",
    [
        KeyError("position"),
        TypeError("no"),
        AttributeError("x" * 5_000),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad\nbyte"),
        json.JSONDecodeError("Expecting value", "", 0),
        RuntimeError(),
        RecursionError("too deep"),
        StopIteration(),
        AssertionError("x"),
    ],
    ids=repr,
)
def test_an_exception_of_a_sinks_own_says_whose_it_is(error):
    """It is sent nothing more by this delivery: nobody knows what it took."""
    sink = LyingSink(raising(error))
    with refused(ContractError, "the liar, sent 3 records for blog, failed with", type(error).__name__):
        send(sink, "blog", RECORDS, attempts=3, pause_seconds=0)
    assert len(sink.requests) == 1


@pytest.mark.parametrize("error", [OSError("no route"), PermissionError("denied"), NotReady("the liar sleeps")])
def test_a_failure_of_the_system_may_pass(error):
    """A step that is tried again may find it gone."""
    with refused(NotReady, "the liar"):
        send(LyingSink(raising(error)), "blog", RECORDS, attempts=3, pause_seconds=0)


@pytest.mark.parametrize(
    "answer",
    [
        lambda _: repeat(Answer("accepted")),
        lambda _: [Answer("accepted", position) for position in (7, None, "x")],
        lambda records: [Answer("accepted", "\ud800")] * len(records),
        lambda records: [Answer("accepted", "x" * 100_000)] * len(records),
        lambda records: [Answer("accepted", "", None)] * len(records),
        lambda records: [Answer(["accepted"])] * len(records),
        lambda records: [Answer("accepted")] * 2 * len(records),
    ],
    ids=["never ends", "other types", "half a character", "a huge one", "no reason", "a list", "everything twice"],
)
def test_answers_that_no_receipt_could_hold_leave_every_record_open(answer):
    """They would end the delivery when its receipts are written, with the records sent and nobody to know."""
    sink = LyingSink(answer)
    answers, requests = send(sink, "blog", RECORDS, attempts=2, pause_seconds=0)
    assert ({one.outcome for one in answers}, requests) == ({"failed"}, 2)


def test_an_iterator_of_answers_that_dies_is_the_sinks_failure():
    """Not one of them counts."""
    with refused(ContractError, "the liar", "KeyError"):
        send(LyingSink(breaking), "blog", RECORDS, attempts=1, pause_seconds=0)


# --- PostgreSQL -------------------------------------------------------------------------------------------------------


class LyingServer:
    """A connection and its cursor in one: whatever is asked, the rows that come are the same."""

    info = SimpleNamespace(dbname="db", host="host", port=5432)
    rowcount, connection = 0, None

    def __init__(self, rows):
        self.rows, self.asked = rows, []

    def execute(self, query, *_):
        self.asked.append(str(query))
        return self

    def fetchall(self):
        return self.rows

    def fetchone(self):
        return self.rows[0] if self.rows else None

    def __iter__(self):
        return iter(self.rows or [])

    def cursor(self, **_):
        return self

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return False


ROWS = {
    "nothing": [],
    "a row of nothing": [()],
    "NULL": [(None,)],
    "NULLs": [(None,) * 8],
    "texts": [("x",) * 8],
    "numbers": [(7,) * 8],
    "everything twice": [(b"x",)] * 2,
    "bytes": [(b"\xff",)],
    "no row": [7],
    "a mapping": [{"oid": 7}],
}
USERS = PostgresTable("public.users", "dedp_users", connect=lambda **_: None)


def with_rows(rows):
    return replace(USERS, connect=lambda **_: LyingServer(rows))


ASKING = {
    "describe": lambda server, _: postgres.describe(server, USERS, keys=["id"]),
    "define": lambda server, _: define(server, oid=7, publication="dedp_users", columns=["id"]),
    "peek": lambda server, _: postgres.peek(server, USERS, until=9, limit=9),
    "snapshot": lambda _, source: postgres.snapshot(source, keys=["id"]).__enter__(),
    "reading_at": lambda _, source: postgres.reading_at(source, keys=["id"]).__enter__(),
    "slot_state": lambda server, _: postgres.slot_state(server, USERS),
    "types": lambda server, _: postgres._types(server, Relation(7, "public.users", True, {"id": (20, -1)})),
}


@pytest.mark.parametrize("asking", ASKING)
@pytest.mark.parametrize("rows", ROWS.values(), ids=ROWS)
def test_a_server_that_answers_something_else_is_not_unpacked(asking, rows):
    """A proxy, another product, another version: whatever is no row of these values is told as it came."""
    harmless = {("peek", "[]"): [], ("slot_state", "[]"): None}
    if (asking, str(rows)) in harmless:
        assert ASKING[asking](LyingServer(rows), with_rows(rows)) == harmless[asking, str(rows)]
        return
    with refused(PatternError, "users"):
        ASKING[asking](LyingServer(rows), with_rows(rows))


@pytest.mark.parametrize("known", [(7,), (None, "x", "y"), (1, "x"), ("1", "x", "y")])
def test_a_note_of_the_last_write_that_is_none_stops_the_write(known):
    """Before a row is sent."""
    server = LyingServer([known])
    write = Written("orders", "all", 0, 5, "x", "run-1")
    incoming = Incoming("public.orders", ["id"], ["id"], [("1",)])
    with refused(ContractError, "what orders was written by last"):
        write_sets([incoming], write, connect=lambda **_: server)
    assert [query for query in server.asked if "COPY" in query or "INSERT" in query] == []


@pytest.mark.parametrize(
    ("connect", "kind"),
    [
        (raising(KeyError("DATABASE_URL")), ContractError),
        (raising(RuntimeError("no vault\nhere")), ContractError),
        (raising(OSError("no such file")), NotReady),
        (lambda _: None, ContractError),
    ],
    ids=["KeyError", "RuntimeError", "OSError", "None"],
)
def test_a_function_that_connects_may_fail_with_anything(connect, kind):
    """Whoever captures, reads or writes is told which table was to be reached."""
    source = replace(USERS, connect=lambda **_: connect(None))
    for opening in (
        postgres.connected(source),
        postgres.reading_at(source, keys=["id"]),
        postgres.writing(source.connect),
    ):
        with refused(kind, "the function that connects"), opening:
            pass


def test_an_error_of_whoever_uses_a_connection_stays_its_own():
    """Only what the part does is told as the part's."""
    with pytest.raises(KeyError, match="mine"), postgres.connected(with_rows([])):
        raise KeyError("mine")
