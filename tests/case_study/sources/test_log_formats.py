"""Formats of web server logs: what a server writes of a request is what is read of the line."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedp_assets.case_study.sources.log_formats import LoggedRequest, LogParser, Noise, shape_of

TEXT = st.text(st.characters(codec="utf-8"), max_size=20) | st.sampled_from(
    ['"', "\\", '\\"', "\\x16", " ", '" "', "[x]"]
)
PLAIN = TEXT.map(str.strip).filter(lambda text: text not in ("", "-"))
METHOD = st.sampled_from(["GET", "POST", "M-SEARCH", "X_Y", "get", "PROPFIND", "!#$%&'*+.^_`|~09"])
PAGE = PLAIN.map(lambda text: f"/{text}") | st.sampled_from(["*", "h:443", "/a b c", "/ HTTP/1.1", '/s?q="x y"'])
IPV4, IPV6 = st.ip_addresses(v=4).map(str), st.ip_addresses(v=6).map(str)
HOST = IPV4 | IPV6 | st.sampled_from(["client.example", "203.0.113.9:4711", "[2001:db8::1]:443"])
USER = st.sampled_from(["-", "kim", "Kim Roe", r"Kim \"K\" Roe", "a@b.example", "- -"])
OFFSET = st.integers(-14 * 60, 14 * 60)
MOMENT = st.integers(0, 4 * 10**9).map(lambda second: datetime.fromtimestamp(second, timezone.utc))


def apache(text: str) -> str:
    """Escape a text as Apache does."""
    named = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v"}
    return "".join(
        named.get(c) or (c if " " <= c <= "~" else "".join(f"\\x{byte:02x}" for byte in c.encode())) for c in text
    )


def nginx(text: str) -> str:
    """Escape a text as nginx does."""
    return "".join(
        c if " " <= c <= "~" and c not in '"\\' else "".join(f"\\x{byte:02X}" for byte in c.encode()) for c in text
    )


@st.composite
def requests(draw: st.DrawFn) -> LoggedRequest:
    """A request with any texts, as a server sees it."""
    return LoggedRequest(
        draw(MOMENT),
        draw(HOST),
        draw(METHOD),
        draw(PAGE),
        draw(st.integers(100, 599)),
        draw(st.none() | st.integers(0, 1 << 40)),
        draw(st.none() | PLAIN),
        draw(TEXT),
    )


def dashed(value: object) -> str:
    return "-" if value is None else str(value)


def stamped(moment: datetime, minutes: int) -> str:
    local = moment.astimezone(timezone(timedelta(minutes=minutes)))
    month = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"][local.month - 1]
    return f"{local.day:02}/{month}/{local.year}:{local:%H:%M:%S %z}"


@given(
    told=requests(),
    kind=st.sampled_from(["common", "combined", "nginx main", "behind", "in front", "quoted", "vhost", "further"]),
    escaped=st.sampled_from([apache, nginx]),
    user=USER,
    minutes=OFFSET,
    proxy=IPV4 | IPV6,
)
def test_a_line_of_any_format_is_read_as_it_was_written(told, kind, escaped, user, minutes, proxy):
    """Every field of the request comes back: quotes, blanks, escapes, odd methods, IPv6, any offset."""
    if kind in ("nginx main", "behind") and told.host == "client.example":  # what is forwarded are addresses
        told = replace(told, host=proxy)
    front = {
        "nginx main": proxy,
        "behind": proxy,
        "in front": f"{told.host}, {proxy}",
        "quoted": f'"{told.host}, {proxy}"',
    }
    virtual = "www.example.com:443 " if kind == "vhost" else ""
    size = dashed(told.bytes)
    line = f"{virtual}{front.get(kind, told.host)} - {user} [{stamped(told.moment, minutes)}] "
    line += f'"{told.method} {escaped(told.page)} HTTP/1.1" {told.status} {size}'
    if kind != "common":
        line += f' "{escaped(dashed(told.referrer))}" "{escaped(told.agent)}"'
    line += {"nginx main": f' "{told.host}"', "behind": f' "{told.host}, {proxy}"', "further": ' 0.012 "x=1" -'}.get(
        kind, ""
    )
    named, found = LogParser().read(f"{line}\r\n")
    expected = LoggedRequest(*[getattr(told, name) for name in LoggedRequest.__slots__])
    if kind == "common":
        expected = LoggedRequest(*[getattr(told, name) for name in LoggedRequest.__slots__[:6]])
    assert found == expected
    assert (
        named
        == {
            "common": "common",
            "combined": "combined",
            "nginx main": "nginx main",
            "behind": "nginx main",
            "in front": "forwarded addresses and combined",
            "quoted": "forwarded addresses and combined",
            "vhost": "vhost_combined",
            "further": "combined with further fields",
        }[kind]
    )


@given(told=requests(), nested=st.booleans())
def test_a_line_of_json_is_read_as_it_was_written(told, nested):
    """Under the names that nginx and Caddy write."""
    flat = {
        "time_iso8601": told.moment.isoformat(),
        "remote_addr": told.host,
        "request_method": told.method,
        "request_uri": told.page,
        "status": told.status,
        "body_bytes_sent": told.bytes,
        "http_referer": told.referrer,
        "http_user_agent": told.agent,
    }
    headers = {"Referer": [told.referrer], "User-Agent": [told.agent]}
    request = {"remote_ip": told.host, "method": told.method, "uri": told.page, "headers": headers}
    deep = {"ts": told.moment.timestamp(), "status": told.status, "size": told.bytes, "request": request}
    named, found = LogParser().read(json.dumps(deep if nested else flat))
    agent = None if told.agent in ("", "-") else told.agent
    assert (named, found) == (
        "JSON lines",
        LoggedRequest(*[getattr(told, n) for n in LoggedRequest.__slots__[:7]], agent),
    )


@given(told=requests(), tabs=st.booleans())
def test_a_line_of_w3c_is_read_by_its_fields(told, tabs):
    """In the order that the comment before it states, with an agent whose blanks are encoded."""
    lines, mark = LogParser(), "\t" if tabs else " "
    assert isinstance(lines.read("#Version: 1.0")[1], Noise)
    fields = "date time cs-method cs-uri-stem cs-uri-query c-ip cs(User-Agent) sc-status sc-bytes"
    assert isinstance(lines.read(f"#Fields: {fields}\r\n")[1], Noise)
    agent = quote(told.agent) or "-"
    stem = f"/{quote(told.page)}"
    values = [f"{told.moment:%Y-%m-%d}", f"{told.moment:%H:%M:%S}", told.method, stem, "q=1", told.host, agent]
    named, found = lines.read(mark.join([*values, str(told.status), dashed(told.bytes)]))
    sent = None if agent == "-" else told.agent
    expected = (told.moment, told.host, told.method, f"{stem}?q=1", told.status, told.bytes, None, sent)
    assert (named, found) == ("W3C", LoggedRequest(*expected))


@given(st.text(max_size=60))
def test_any_text_is_read_or_not_and_never_fails(text):
    """Whatever stands in a log, alone or behind a line of fields."""
    for line in (text, f"{{{text}", f'h - - [05/Jan/2026:10:00:00 +0000] "{text}" 200 1', f"#Fields: {text}"):
        LogParser().read(line)
        shape_of(line)


@pytest.mark.parametrize(
    ("front", "host"),
    [
        ("203.0.113.9 - -", "203.0.113.9"),
        ("203.0.113.9, 198.51.100.3 - -", "203.0.113.9"),
        ("203.0.113.9,198.51.100.3 - -", "203.0.113.9"),
        ("-,198.51.100.3, 192.0.2.1 - -", "198.51.100.3"),
        ("-, 198.51.100.3 - -", "198.51.100.3"),
        ("unknown, 198.51.100.3 - -", "198.51.100.3"),
        ("- 198.51.100.3 - -", "198.51.100.3"),
        ("203.0.113.9 198.51.100.3 - -", "203.0.113.9"),
        ("www.example.com 2001:db8::1 - -", "2001:db8::1"),
        ("2001:db8::1 - -", "2001:db8::1"),
        ("www.example.com:80 client.example - Kim Roe", "client.example"),
        ("client.example - 203.0.113.9", "client.example"),
    ],
)
def test_the_client_is_found_among_what_stands_in_front(front, host):
    """Lists of addresses, virtual hosts, users with blanks."""
    found = LogParser().read(f'{front} [05/Jan/2026:10:00:00 +0000] "GET / HTTP/1.1" 200 1')[1]
    assert isinstance(found, LoggedRequest)
    assert found.host == host


def test_requests_that_carriage_returns_part_are_not_one():
    """Nothing of the first would be read but its beginning, and nothing of the others."""
    line = '203.0.113.9 - - [05/Jan/2026:10:00:00 +0000] "GET / HTTP/1.1" 200 1 "-" "x"'
    assert LogParser().read(f"{line}\r{line}\n") == ("", None)
    assert isinstance(LogParser().read(f"{line}\r\n")[1], LoggedRequest)


@pytest.mark.parametrize("line", ["", "\r\n", "  \n"])
def test_an_empty_line_is_no_request_that_was_lost(line):
    """It is counted with the lines that tell of none."""
    assert isinstance(LogParser().read(line)[1], Noise)
