"""Parts of others that lie: each gives the right rows or an error of the library that names it, and no secret of it."""

from __future__ import annotations

import bz2
import gzip
import json
import socketserver
import time
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from itertools import repeat
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from types import SimpleNamespace

import pyarrow as pa
import pytest
from confluent_kafka import OFFSET_INVALID, KafkaError, KafkaException, TopicPartition
from hypothesis import given
from hypothesis import strategies as st

from dedp_assets.graph.systems import kafka as kafka_resource
from dedp_assets.patterns.connectors import postgres
from dedp_assets.patterns.connectors.delivery import topic_sink as topic_sinks
from dedp_assets.patterns.connectors.delivery.http_sink import HttpSink
from dedp_assets.patterns.connectors.delivery.receipts import RECEIPT
from dedp_assets.patterns.connectors.delivery.sinks import Answer, Outgoing, send
from dedp_assets.patterns.connectors.delivery.topic_sink import TopicSink
from dedp_assets.patterns.connectors.kafka import mirroring
from dedp_assets.patterns.connectors.kafka.mirroring import Place
from dedp_assets.patterns.connectors.kafka.topics import Topic, position, resume
from dedp_assets.patterns.connectors.landing.deliveries import MARKER, delivery_at
from dedp_assets.patterns.connectors.landing.files import count_lines
from dedp_assets.patterns.connectors.postgres import Incoming, PostgresTable, slots
from dedp_assets.patterns.connectors.postgres.definitions import define
from dedp_assets.patterns.connectors.postgres.pgoutput import Relation
from dedp_assets.patterns.connectors.web.events import Arrival, Event, Inbox
from dedp_assets.patterns.connectors.web.http import Patience, Service, ask_in_bulk
from dedp_assets.patterns.connectors.web.providers import keep_answer
from dedp_assets.patterns.core.errors import ConfigError, ContractError, NotReady, PatternError, SchemaMismatch
from dedp_assets.patterns.core.records import Provenance
from dedp_assets.patterns.core.running.backoff import Backoff
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import Ledger, transaction_id
from dedp_assets.patterns.error_management.dead_letter import LETTER, divert_unprocessable, route
from dedp_assets.patterns.idempotency._transactions import Written, write_sets
from dedp_assets.patterns.value.bin_pack_orderer import deliver_in_bins
from dedp_assets.patterns.value.fifo_orderer import RecordColumns, deliver_in_order
from dedp_assets.patterns.value.static_joiner import ANSWER, keep_answers
from tests.helpers import NOW, a_record, a_run, read_back, write_log

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
    "is silent": [20],
    "half of the body": said(ANSWERED, length=1_000),
    "half of a chunk": [CHUNKED + b"40\r\n{"],
    "a chunk of no size": [CHUNKED + b"-x\r\n{}"],
    "a hundred headers too many": [b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 300 + b"\r\n{}"],
    "an endless header": [b"HTTP/1.1 200 OK\r\nA: " + b"b" * 100_000],
    "drips its headers": [b"HTTP/1.1 200 OK\r\n", *[b"A", 0.05] * 400],
    "drips its body": [b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n", *[b" ", 0.05] * 400],
    "drips a body of no length": [b"HTTP/1.1 200 OK\r\n\r\n{}", *[b" ", 0.05] * 400],
    "drips the size of a chunk": [CHUNKED, *[b"0", 0.05] * 400],
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


def pauses(script):
    """How long an answer takes its time, in seconds."""
    return sum(part for part in script if isinstance(part, (int, float)))


def bounds_of(script):
    """A slow answer is waited for as briefly as can be, any other one as long as a busy machine may take."""
    patience = {"timeout_seconds": 1, "total_seconds": 0.3} if pauses(script) > 1 else {"timeout_seconds": 30}
    return {"total_seconds": 30, "most_bytes": 100_000, **patience}


def service(liar, **more):
    bounds = {**bounds_of(liar.script), **more}
    return Service(liar.url, Patience(lambda: NOW, Backoff(attempts=2), sleep=lambda _: None), **bounds)


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
    assert time.monotonic() - began < (pauses(script) or 60)
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
    bounds = bounds_of(script)
    with refused(kind, liar.name):
        keep_answer(liar.url, answer, headers={"Authorization": "secret"}, **bounds)
    assert [path for path in tmp_path.iterdir() if path.suffix != ".lock"] == []
    liar.script = said(b"whole")
    assert keep_answer(liar.url, answer, **bounds_of(liar.script))
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
        send(HttpSink(service(liar)), "blog", RECORDS, backoff=Backoff(attempts=3, first_seconds=0))
    assert [head[0] for head in liar.asked] == ["POST /part/blog?token=secret HTTP/1.1\r\n"]


def test_what_an_http_sink_says_beside_an_outcome_is_text(liar):
    """A position as a number, or none."""
    told = [{"position": 7}, {"position": None}, {"position": {"p": 1}, "reason": 5}]
    items = zip(RECORDS, told, strict=True)
    liar.script = said({"records": [{"id": record.id, "outcome": "accepted", **more} for record, more in items]})
    answers, _ = send(HttpSink(service(liar)), "blog", RECORDS, backoff=Backoff(attempts=1, first_seconds=0))
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
        send(sink, "blog", RECORDS, backoff=Backoff(attempts=3, first_seconds=0))
    assert len(sink.requests) == 1


@pytest.mark.parametrize("error", [OSError("no route"), PermissionError("denied"), NotReady("the liar sleeps")])
def test_a_failure_of_the_system_may_pass(error):
    """A step that is tried again may find it gone."""
    with refused(NotReady, "the liar"):
        send(LyingSink(raising(error)), "blog", RECORDS, backoff=Backoff(attempts=3, first_seconds=0))


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
    answers, requests = send(sink, "blog", RECORDS, backoff=Backoff(attempts=2, first_seconds=0))
    assert ({one.outcome for one in answers}, requests) == ({"failed"}, 2)


def test_an_iterator_of_answers_that_dies_is_the_sinks_failure():
    """Not one of them counts."""
    with refused(ContractError, "the liar", "KeyError"):
        send(LyingSink(breaking), "blog", RECORDS, backoff=Backoff(attempts=1, first_seconds=0))


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
    "types": lambda server, _: slots._types(server, Relation(7, "public.users", True, {"id": (20, -1)})),
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


# --- Kafka ------------------------------------------------------------------------------------------------------------


class LyingProducer:
    """A producer of Kafka whose reports of delivery are what ``report(number)`` lists: an error, or ``None`` for none.

    ``produced(number)`` may raise; both are told how many records were produced before.
    """

    def __init__(self, report, produced=lambda _: None):
        self.report, self.produced = report, produced
        self.taken, self.waiting = [], []

    def produce(self, *_, headers, on_delivery):
        self.produced(len(self.taken))
        self.waiting.append((len(self.taken), on_delivery))
        self.taken.append(headers["id"])

    def poll(self, _):
        return 0

    def flush(self):
        for number, told in self.waiting:
            for error in self.report(number):
                told(error, SimpleNamespace(partition=lambda: 0, offset=lambda n=number: n))
        self.waiting.clear()
        return 0


def topic_sink(monkeypatch, *producers):
    made = iter(producers)
    monkeypatch.setattr(topic_sinks.confluent_kafka, "Producer", lambda _: next(made))
    return TopicSink({"bootstrap.servers": "broker:9092"}, give_up_seconds=0.2)


GOOD = LyingProducer(lambda _: [None])
FAILED, LARGE = KafkaError(KafkaError._MSG_TIMED_OUT), KafkaError(KafkaError.MSG_SIZE_TOO_LARGE)


@pytest.mark.parametrize(
    ("report", "told"),
    [
        (lambda _: [], ["failed"] * 3),
        (lambda n: [None] * (n != 1), ["accepted", "failed", "failed"]),
        (lambda _: [None, None], ["accepted"] * 3),
        (lambda _: [None, FAILED], ["failed"] * 3),
        (lambda n: [FAILED] if n == 0 else [None], ["failed"] * 3),
    ],
    ids=["no reports", "half of them", "everything twice", "taken, then not", "the first one lost"],
)
def test_reports_that_do_not_come_or_come_twice_leave_no_record_before_one_that_is_missing(monkeypatch, report, told):
    """What is not reported is sent again by another producer, with all that follows it, in order."""
    first, second = LyingProducer(report), LyingProducer(lambda _: [None])
    sink = topic_sink(monkeypatch, first, second)
    assert [answer.outcome for answer in sink.send("alerts", RECORDS)] == told
    left = RECORDS[told.count("accepted") :]
    if left:
        answers, _ = send(sink, "alerts", left, backoff=Backoff(attempts=2, first_seconds=0))
        assert {answer.outcome for answer in answers} == {"accepted"}
    assert (first.taken, second.taken) == (["0", "1", "2"], [record.id for record in left])


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (KafkaException(LARGE), ["accepted", "refused", "failed"]),
        (KafkaException(FAILED), ["accepted", "failed", "failed"]),
        (KafkaException("no error of Kafka"), ["accepted", "failed", "failed"]),
        (KafkaException(), ["accepted", "failed", "failed"]),
        (BufferError("Local: Queue full"), ["accepted", "failed", "failed"]),
    ],
    ids=["too large", "fatal", "a text", "nothing", "a full queue"],
)
def test_only_a_record_that_is_too_large_is_refused_for_ever(monkeypatch, error, told):
    """A client that is shut, fenced or full says nothing of the record."""

    def produced(number):
        if number == 1:
            raise error

    sink = topic_sink(monkeypatch, LyingProducer(lambda _: [None], produced))
    assert [answer.outcome for answer in sink.send("alerts", RECORDS)] == told


def test_a_full_queue_is_waited_for(monkeypatch):
    """It has room once the client has sent something."""
    full = [BufferError("Local: Queue full")] * 2

    def produced(_):
        if full:
            raise full.pop()

    monkeypatch.setattr(LyingProducer, "poll", lambda *_: 0)
    sink = topic_sink(monkeypatch, LyingProducer(lambda _: [None], produced))
    assert {answer.outcome for answer in sink.send("alerts", RECORDS)} == {"accepted"}


def test_a_producer_that_fails_with_anything_is_not_used_again(monkeypatch):
    """The next delivery begins with another one."""
    sink = topic_sink(monkeypatch, LyingProducer(lambda _: [None], raising(TypeError("value"))), GOOD)
    with refused(ContractError, "Kafka at broker:9092, sent 3 records for alerts, failed with TypeError: value"):
        send(sink, "alerts", RECORDS, backoff=Backoff(attempts=3, first_seconds=0))
    assert {answer.outcome for answer in sink.send("alerts", RECORDS)} == {"accepted"}


@pytest.mark.parametrize("brokers", [{"bootstrap.servers": "broker:9092"}, {}])
def test_settings_that_make_no_client_are_told_with_the_brokers(brokers):
    """Nothing was sent."""
    sink = TopicSink({**brokers, "nonsense": "1"})
    with refused(ConfigError, f"Kafka at {brokers.get('bootstrap.servers', 'no bootstrap.servers')}", "nonsense"):
        send(sink, "alerts", RECORDS, backoff=Backoff(attempts=1, first_seconds=0))


@pytest.mark.parametrize(
    ("begin", "end"),
    [
        ({"0": 0, "1": 0}, {"0": 9}),
        ({"0": 0}, {"0": 9, "1": 9}),
        ({"0": -1}, {"0": 9}),
        ({"0": 0}, {"0": -1}),
        ({"0": 9}, {"0": 3}),
        ({"0": None}, {"0": 3}),
        ({"0": 0}, {"0": "3"}),
        ({"0": 0.5}, {"0": float("nan")}),
    ],
)
def test_offsets_that_no_topic_has_are_asked_for_again(begin, end):
    """Half of the partitions, before the first record, an end before the begin, no numbers."""
    with refused(NotReady, "topic visits"):
        Topic("visits", "x", begin, end)


def log_of(tmp_path, **notes):
    """The ledger of a table that has read a topic, by its last commit's notes."""
    record = a_record("lines", {}, notes={"topic": "visits", **notes}, sequence=9)
    txn = {transaction_id("lines", {}, 0): 9}
    write_log(tmp_path / "lines", {"raw": "string"}, [], [{"record": record, "txn": txn}])
    return Ledger(tmp_path / "lines", name="lines")


def test_a_partition_that_the_brokers_leave_out_is_not_forgotten(tmp_path):
    """The next commit would not name it, and its records would be read again from the first one on."""
    ledger = log_of(tmp_path, topic_id="x", offsets={"0": 4, "1": 5})
    with refused(NotReady, "topic visits: the brokers leave out the partitions 1"):
        position(ledger, Topic("visits", "x", {"0": 0}, {"0": 9}))
    another = Topic("visits", "y", {"0": 0}, {"0": 9})
    with refused(ContractError, "was deleted and created again"):
        resume(position(ledger, another), another)


@pytest.mark.parametrize(
    "notes", [{}, {"topic_id": "x"}, {"topic_id": "x", "offsets": 7}, {"topic_id": "x", "offsets": {"0": None}}]
)
def test_a_commit_that_does_not_say_how_far_it_read_is_no_begin(tmp_path, notes):
    """Somebody else's, or one that was edited."""
    with refused(ContractError, "lines: its last commit of topic visits does not say how far"):
        position(log_of(tmp_path, **notes), Topic("visits", "x", {"0": 0}, {"0": 9}))


class LyingAdmin:
    """An admin of Kafka that describes partitions and lists offsets as it is told."""

    def __init__(self, described, offsets):
        self.described, self.offsets = described, offsets

    def describe_topics(self, *_, **__):
        return answered(self.described)

    def list_offsets(self, *_, **__):
        return answered(self.offsets)


def answered(told):
    """Futures of what a client answers; an exception is raised when it is asked for."""
    if not isinstance(told, dict):
        return told
    found = {}
    for key, value in told.items():
        found[key] = Future()
        (found[key].set_exception if isinstance(value, Exception) else found[key].set_result)(value)
    return found


def described(*partitions):
    return {"visits": SimpleNamespace(partitions=[SimpleNamespace(id=n) for n in partitions], topic_id="x")}


def offsets(*told):
    return {TopicPartition("visits", n): SimpleNamespace(offset=offset) for n, offset in enumerate(told)}


@pytest.mark.parametrize(
    ("topics", "listed"),
    [
        ({}, {}),
        (None, {}),
        ({"clicks": None}, {}),
        ({"visits": None}, {}),
        ({"visits": RuntimeError("no answer")}, {}),
        (described(), {}),
        (described(0, 1), offsets(5)),
        (described(0), offsets(5, 6)),
        (described(0), offsets(-1)),
        (described(0), offsets(None)),
        (described(0), None),
        (described(0), {TopicPartition("visits", 0): None}),
        (described(0), {TopicPartition("visits", 0): TimeoutError()}),
    ],
)
def test_an_admin_that_answers_something_else_is_told_with_its_topic(monkeypatch, topics, listed):
    """Half of the partitions, none, other topics, nothing: no topic is made of it."""
    monkeypatch.setattr(kafka_resource, "AdminClient", lambda _: LyingAdmin(topics, listed))
    kafka = kafka_resource.Kafka(bootstrap="broker:9092")
    with refused(PatternError, "visits"):
        kafka.describe()
    monkeypatch.setattr(kafka_resource, "AdminClient", lambda _: LyingAdmin({"visits": KafkaException("?")}, {}))
    with refused(NotReady, "Kafka at broker:9092"):
        kafka.describe()


class LyingConsumer:
    """A consumer of Kafka that gives batches of messages, one at each call, and says what was committed."""

    def __init__(self, batches=(), committed=()):
        self.batches, self.committed_places = list(batches), committed

    def committed(self, *_):
        return self.committed_places

    def consume(self, *_, **__):
        return self.batches.pop(0) if self.batches else []

    def seek(self, _):
        pass

    def close(self):
        pass


def message(offset, *, partition=0, topic="visits", error=None):
    kinds = {"topic": topic, "partition": partition, "offset": offset, "error": error}
    return SimpleNamespace(**{name: lambda value=value: value for name, value in kinds.items()})


class UncoordinatedConsumer(LyingConsumer):
    """A consumer whose group has no coordinator at the first calls."""

    def __init__(self, code, failures, committed):
        super().__init__(committed=committed)
        self.code, self.failures = code, failures

    def committed(self, *_):
        self.failures -= 1
        if self.failures >= 0:
            raise KafkaException(KafkaError(self.code))
        return self.committed_places


SOURCE = Place(Topic("visits", "x", {"0": 0}, {"0": 3}), {})
COPY = Place(Topic("copy", "y", {"0": 0}, {"0": 0}), {})
ENDED, DOWN = KafkaError(KafkaError._PARTITION_EOF), KafkaError(KafkaError._ALL_BROKERS_DOWN)


def copied(batches):
    """The offsets that are copied."""
    with mirroring._translated(SOURCE, COPY):
        found = list(mirroring._batches(LyingConsumer(batches), SOURCE, {"0": 0}, 10))
    return [one.offset() for batch in found for one in batch.records]


@pytest.mark.parametrize(
    "batches",
    [
        [],
        [[message(0), message(0)]],
        [[message(0), message(1)], [message(0)]],
        [[message(1), message(0)]],
        [[message(None)]],
        [[message(-1)]],
        [[message(0, partition=1)]],
        [[message(0, partition=None)]],
        [[message(0, topic="clicks")]],
        [[message(0), message(1, error=ENDED)]],
        [[message(None, partition=-1, error=DOWN)]],
        [[message(None, partition=None, error=ENDED)]],
    ],
    ids=[
        *("silence", "twice", "twice, later", "out of order", "no offset", "a negative offset", "another partition"),
        *("no partition", "another topic", "an end too early", "an error of no partition", "an end of no partition"),
    ],
)
def test_records_that_do_not_follow_are_not_copied(monkeypatch, batches):
    """Copied, they would be twice, out of order or left out in the copy: the run ends and may be repeated."""
    monkeypatch.setattr(mirroring, "_ANSWER_SECONDS", 0.05)
    with refused(NotReady, "visits", "run"):
        copied(batches)


def test_records_that_follow_are_copied_over_gaps():
    """Ends of transactions and compaction leave offsets without a record."""
    assert copied([[message(0)], [message(2)]]) == [0, 2]
    assert copied([[message(1), message(3, error=ENDED)]]) == [1]


def place(partition, offset, error=None):
    return SimpleNamespace(partition=partition, offset=offset, error=error)


STARTING = KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.COORDINATOR_LOAD_IN_PROGRESS


@pytest.mark.parametrize("code", STARTING)
@pytest.mark.parametrize("failures", [1, 5, 6])
def test_the_end_of_a_copy_is_asked_for_again_while_the_coordinator_starts(monkeypatch, code, failures):
    """As at the first group of a broker; for a while, and no other error."""
    made = UncoordinatedConsumer(code, failures, [place(0, 2)])
    monkeypatch.setattr(mirroring.confluent_kafka, "Consumer", lambda _: made)
    monkeypatch.setattr(mirroring, "_COORDINATED", Backoff(attempts=6, first_seconds=0))
    if failures < 6:
        assert mirroring._position(COPY, "group", SOURCE.topic) == {"0": 2}
    else:
        with refused(NotReady, "copy"), mirroring._translated(SOURCE, COPY):
            mirroring._position(COPY, "group", SOURCE.topic)
    made = UncoordinatedConsumer(KafkaError.GROUP_AUTHORIZATION_FAILED, 1, [place(0, 2)])
    with pytest.raises(KafkaException):
        mirroring._position(COPY, "group", SOURCE.topic)


@pytest.mark.parametrize(
    "committed",
    [
        [],
        [place(1, 0)],
        [place(0, OFFSET_INVALID, KafkaError(KafkaError.COORDINATOR_LOAD_IN_PROGRESS))],
        [place(0, None)],
        [place(0, -5)],
        [place(0, "2")],
    ],
    ids=["nothing", "another partition", "an error", "no offset", "a negative offset", "a text"],
)
def test_an_unknown_end_of_a_copy_is_no_begin(monkeypatch, committed):
    """Taken for a copy that was never begun, every record would be copied once more."""
    monkeypatch.setattr(mirroring.confluent_kafka, "Consumer", lambda _: LyingConsumer(committed=committed))
    with refused(NotReady, "copy"), mirroring._translated(SOURCE, COPY):
        mirroring._position(COPY, "group", SOURCE.topic)


@pytest.mark.parametrize("listed", [{}, {0: None}, {0: SimpleNamespace(offset=None)}, {0: KafkaException("x")}])
def test_no_answer_does_not_say_that_records_are_gone(monkeypatch, listed):
    """A partition that is left out, an answer without an offset."""
    told = {TopicPartition("visits", partition): value for partition, value in listed.items()}
    monkeypatch.setattr(mirroring.admin, "AdminClient", lambda _: LyingAdmin({}, told))
    assert not mirroring._is_gone(SOURCE, "0", 1)


# --- tables that a write needs ----------------------------------------------------------------------------------------

RECEIPTS = TableSpec("delivered", {"day": Column("STRING"), **RECEIPT}, partition_by=("day",))
DAY = {"day": "mon"}
UNFIT = {
    "without a position": replace(RECEIPTS, columns={n: c for n, c in RECEIPTS.columns.items() if n != "position"}),
    "a position of another type": replace(RECEIPTS, columns={**RECEIPTS.columns, "position": Column("BIGINT")}),
    "a text that may be too long": replace(RECEIPTS, columns={**RECEIPTS.columns, "position": Column("VARCHAR(2)")}),
    "a column of nobody": replace(RECEIPTS, columns={**RECEIPTS.columns, "note": Column("STRING")}),
    "another key": replace(RECEIPTS, key=("record_id",)),
    "a rule": replace(RECEIPTS, checks={"numbered": "position <> ''"}),
    "a part of its partition": replace(
        RECEIPTS, columns={"hour": Column("STRING"), **RECEIPTS.columns}, partition_by=("day", "hour")
    ),
}


@pytest.mark.spark
@pytest.mark.parametrize("spec", UNFIT.values(), ids=UNFIT)
def test_receipts_that_cannot_be_written_are_found_before_anything_is_sent(spark, make_table, spec):
    """Sent without a receipt, it would be sent again by every run."""
    sink, rows = LyingSink(lambda records: [Answer("accepted")] * len(records)), spark.range(3)
    run = Provenance(asset="delivered", run_id="run-1")
    into, columns = make_table(spec).target(run, partition=DAY), RecordColumns(identity="id", order_by=["id"])
    with refused(PatternError, "delivered"):
        deliver_in_order(rows, into, sink, destination="x", columns=columns)
    assert sink.requests == []


@pytest.mark.spark
def test_what_a_lying_sink_took_by_its_own_words_has_a_receipt_and_nothing_else(spark, make_table):
    """Half of the records, then an exception: what was acknowledged is noted, the rest goes out by the next run."""
    table, said_no = make_table(RECEIPTS), []

    def answer(records):
        if records[0].id == "1" and not said_no:
            said_no.append(True)
            raise KeyError("position")
        return [Answer("accepted", "7")] * len(records)

    sink = LyingSink(answer)
    rows = spark.range(3).selectExpr("id", "'x' AS one")
    columns = RecordColumns(identity="id", order_by=["id"], entity="one")

    def deliver(run_id):
        run = Provenance(asset="delivered", run_id=run_id)
        deliver_in_bins(rows, table.target(run, partition=DAY), sink, destination="one", columns=columns)

    with refused(ContractError, "the liar, sent 1 records for x, failed with KeyError"):
        deliver("run-1")
    assert [row["record_id"] for row in read_back(table)] == ["0"]
    deliver("run-2")
    assert sorted(row["record_id"] for row in read_back(table)) == ["0", "1", "2"]
    assert sink.requests == [["0"], ["1"], ["1"], ["2"]]


PLACES = TableSpec(
    "places",
    {"ip": Column("STRING"), "n": Column("INT"), "x": Column("DOUBLE"), **ANSWER, "day": Column("STRING")},
    partition_by=("day",),
)


@pytest.mark.spark
@pytest.mark.parametrize(
    "spec",
    [
        replace(PLACES, columns={n: c for n, c in PLACES.columns.items() if n != "asked_at"}),
        replace(PLACES, columns={**PLACES.columns, "ip": Column("INT")}),
        replace(PLACES, columns={**PLACES.columns, "hour": Column("STRING")}, partition_by=("day", "hour")),
    ],
    ids=["without a time", "a key of another type", "a part of its partition"],
)
def test_answers_that_cannot_be_kept_are_not_asked_for(spark, make_table, spec):
    """A service may count what it is asked for."""
    facts, asked = spark.createDataFrame([("a",)], "ip STRING"), []
    with refused(PatternError, "places"):
        keep_answers(facts, make_table(spec).target(a_run(at=NOW), partition=DAY), key="ip", ask=asked.append)
    assert asked == []


ITEMS = {
    "None": lambda _: None,
    "nothing": lambda _: [],
    "half": lambda keys: [{"ip": keys[0]}],
    "everything twice": lambda keys: [{"ip": key} for key in [*keys, *keys]],
    "one twice": lambda keys: [{"ip": key} for key in [*keys, keys[0]]],
    "one twice instead of another": lambda keys: [{"ip": keys[0]}] * 2,
    "other keys": lambda keys: [{"ip": f"{key} "} for key in keys],
    "never ends": lambda _: repeat({"ip": "a"}),
    "no items": lambda keys: keys,
    "names that are none": lambda keys: [{"ip": key, 7: 7} for key in keys],
    "a key that is no text": lambda keys: [{"ip": key.encode()} for key in keys],
    "half a character": lambda keys: [{"ip": key, "n": "\ud800"} for key in keys],
    "another type": lambda keys: [{"ip": key, "n": "7"} for key in keys],
    "too large a number": lambda keys: [{"ip": key, "n": 2**40} for key in keys],
    "a list": lambda keys: [{"ip": key, "x": [1]} for key in keys],
    "KeyError": raising(KeyError("ip")),
    "UnicodeDecodeError": raising(UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad")),
    "TimeoutError": raising(TimeoutError("late")),
    "dies on its way": lambda keys: ({"ip": keys[0]} if n == 0 else {}["ip"] for n in range(2)),
}


@pytest.mark.spark
def test_a_service_whose_answers_are_not_those_that_were_asked_for_leaves_no_row(spark, make_table):
    """Half an answer, kept, would be all there is of it for ever."""
    facts, table = spark.createDataFrame([("a",), ("b",)], "ip STRING"), make_table(PLACES)
    keep = partial(keep_answers, facts, table.target(a_run(at=NOW), partition=DAY), key="ip")
    table.ensure()
    version = table.ledger.version()
    for ask in ITEMS.values():
        with refused(PatternError, "places"):
            keep(ask=ask)
    assert table.ledger.version() == version
    keep(ask=lambda keys: ({"IP": key, "n": 7} for key in keys))
    assert sorted((row["ip"], row["n"]) for row in read_back(table)) == [("a", 7), ("b", 7)]


@pytest.mark.spark
def test_letters_that_cannot_be_filed_are_found_before_a_row_is_written(spark, make_table):
    """The valid rows of a split wait for its dead ones."""
    columns = {"raw": Column("STRING"), "n": Column("INT"), **LETTER, "day": Column("STRING")}
    del columns["status"]
    dead = make_table(TableSpec("lines_dead", columns, partition_by=("day",)))
    valid = {"n": Column("INT"), "id": Column("INT"), "was_dead_lettered": Column("BOOLEAN"), "day": Column("STRING")}
    valid = make_table(TableSpec("lines", valid, partition_by=("day",)))
    lines = spark.createDataFrame([(1, '{"id": 7}', "mon"), (2, "{", "mon")], "n INT, raw STRING, day STRING")
    split = divert_unprocessable(lines, payload="raw", schema={"id": "INT"}, identity=["n"], carry=["day"])
    with refused(SchemaMismatch, "lines_dead: status is missing"):
        route(split, valid.target(a_run("lines"), partition=DAY), dead.target(a_run("lines"), partition=DAY))
    assert (read_back(valid), dead.ledger.version()) == ([], 0)


# --- files ------------------------------------------------------------------------------------------------------------

MANIFEST = json.dumps({"files": {"a.json": 1, "b.json": 1}}).encode()


@pytest.mark.parametrize(
    "marker",
    [
        MANIFEST[:-1],
        MANIFEST[:20],
        b"\xef\xbb\xbf" + MANIFEST[:-2],
        b'{"files": {"a.json": 1, "\xff": 1}}',
        b'{"files": {"a.json": 1, "a.json": 2}}',
        b'{"files": {"a.json": NaN}}',
        b'{"files": {"a.json": true}}',
        b'{"files": {"a.json": -1}}',
        b'{"files": {"a.json": 1.5}}',
        b'{"files": ' * 50_000,
    ],
)
def test_a_manifest_that_is_damaged_does_not_let_half_a_delivery_through(tmp_path, marker):
    """Taken for a marker without a list, it would bind nothing, and the file that is missing would be no loss."""
    (tmp_path / "a.json").write_text("1")
    (tmp_path / MARKER).write_bytes(marker)
    with refused(ContractError, tmp_path.name, "manifest"):
        delivery_at(tmp_path).require_ready()


def test_a_marker_that_cannot_be_read_is_no_empty_one(tmp_path, monkeypatch):
    """A disk that fails, or a right that is missing."""
    (tmp_path / "a.json").write_text("1")
    (tmp_path / MARKER).write_bytes(MANIFEST)

    def failing(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("builtins.open", failing)
    delivery = delivery_at(tmp_path)
    monkeypatch.undo()
    with refused(ContractError, "_SUCCESS cannot be read (Permission denied)"):
        delivery.require_ready()


@given(st.binary(max_size=60))
def test_any_marker_gives_a_delivery_that_may_be_read_or_a_refusal(content):
    """Whatever a producer writes there."""
    with TemporaryDirectory() as folder:
        (Path(folder) / "a.json").write_text("1")
        (Path(folder) / MARKER).write_bytes(content)
        assert isinstance(delivery_at(folder).refusal(), str)


@given(st.sampled_from([".json", ".gz", ".bz2", ".zst"]), st.binary(max_size=80), st.integers(0, 200), st.booleans())
def test_any_bytes_of_a_file_are_lines_or_a_refusal(suffix, content, at, packed):
    """Of whatever kind it says to be: any bytes, and what is packed rightly but for one of them."""
    if packed and suffix != ".json":
        content = PACKERS[suffix](content)
        at = min(at, len(content))
        content = content[:at] + b"\x00" + content[at + 1 :]
    with TemporaryDirectory() as folder:
        path = Path(folder) / f"a{suffix}"
        path.write_bytes(content)
        with suppress(ContractError):
            assert count_lines(path) >= 0


PACKERS = {".gz": gzip.compress, ".bz2": bz2.compress, ".zst": lambda data: pa.compress(data, "zstd", asbytes=True)}


@given(
    st.binary(max_size=60)
    | st.recursive(st.none() | st.floats() | st.text(), st.lists).map(lambda v: json.dumps(v).encode())
)
def test_any_body_is_an_event_or_a_refusal(body):
    """In one sentence; never an exception of Python."""
    arrival = Arrival.of("a", body, received=NOW)
    assert (arrival.event is None) is bool(arrival.refusal)


@pytest.mark.parametrize(
    "kept", [b"", b"{", b"null", b"[]", b'{"runs": 7}', b'{"runs": [7]}', b'{"reason": "x"}', b"\xff"]
)
def test_a_settled_event_that_somebody_changed_is_named(tmp_path, kept):
    """Without its runs a replay would find those that failed."""
    inbox = Inbox(tmp_path)
    event = Event(id="7", source="urn:x", type="published", time=NOW)
    (tmp_path / "a.json").write_text(event.to_json())
    (arrival,) = inbox.arrivals(limit=1)
    inbox.acknowledge(arrival, "failed", reason="it broke", runs=["run-1"])
    assert inbox.spent([arrival]) == {"run-1"}
    (reason,) = (tmp_path / "_failed").glob("*.reason")
    reason.write_bytes(kept)
    with refused(ContractError, reason.name, "does not name the runs"):
        inbox.spent([arrival])
