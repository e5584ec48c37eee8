"""Formats of web server logs: detection of a line's format, and parsing of the request.

Apache and nginx: common, combined and nginx's main, each with a virtual host or forwarded addresses in front or behind
and with further fields; W3C extended (IIS, CloudFront); JSON lines under usual names.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from functools import lru_cache
from ipaddress import ip_address
from typing import Any
from urllib.parse import unquote

__all__ = ["FORMATS", "LogParser", "LoggedRequest", "Noise", "moment_in", "shape_of"]

FORMATS = "common, combined, vhost_combined, nginx main, forwarded addresses in front or behind, W3C, JSON lines"
_QUOTED = r'"((?:[^"\\]|\\.)*)"'
_LINE = re.compile(rf"(?P<front>.+?) \[(?P<time>[^\]]+)\] {_QUOTED} (?P<status>\d{{3}}|-) (?P<bytes>\d+|-)(?P<rest>.*)")
_REST = re.compile(rf"\s+(?:{_QUOTED}(?=\s|$)|([^\s\"]\S*))")
_TIME = re.compile(r"(\d{2})/([A-Z][a-z]{2})/(\d{4}):(\d{2}):(\d{2}):(\d{2}) ([+-])(\d{2})(\d{2})")
_NAMES = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_MONTHS = {name: number for number, name in enumerate(_NAMES, start=1)}
_REQUEST = re.compile(r"(?P<method>[!#$%&'*+.^_`|~0-9A-Za-z-]+) (?P<page>.*?)(?P<protocol> HTTP/\d(?:\.\d)?)?")
_WITHOUT_PROTOCOL = ("GET", "HEAD", "POST")
_ESCAPE = re.compile(r'\\x([0-9A-Fa-f]{2})|\\(["\\bnrtv])|([^\\]+|\\)', re.DOTALL)
_ESCAPED = {'"': '"', "\\": "\\", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_HOST_AND_PORT = re.compile(r"[A-Za-z0-9.-]+:\d+")
_NOBODY = ("-", "unknown")
_JSON = {
    "time": ("time_iso8601", "@timestamp", "timestamp", "time_local", "time", "ts", "StartUTC"),
    "host": ("remote_addr", "remote_ip", "client_ip", "clientip", "ClientHost", "c-ip"),
    "forwarded": ("http_x_forwarded_for", "x_forwarded_for"),
    "line": ("request",),
    "method": ("request_method", "method", "verb", "RequestMethod"),
    "page": ("request_uri", "uri", "url", "path", "RequestPath"),
    "status": ("status", "status_code", "response", "DownstreamStatus"),
    "bytes": ("body_bytes_sent", "bytes_sent", "bytes", "size", "DownstreamContentSize"),
    "referrer": ("http_referer", "http_referrer", "referer", "referrer", "Referer"),
    "agent": ("http_user_agent", "user_agent", "agent", "User-Agent"),
}
_MILLIS = 10**11
"""From here on a number is a time in milliseconds: in seconds it would be the year 5138."""


@dataclass(frozen=True, slots=True)
class LoggedRequest:
    """Fields of a logged request: time, client, method, page, status, bytes, referrer, user agent.

    A field that the log holds a dash for is ``None``.
    """

    moment: datetime
    host: str
    method: str
    page: str
    status: int | None
    bytes: int | None
    referrer: str | None = None
    agent: str | None = None


@dataclass(frozen=True, slots=True)
class Noise:
    """A log entry of a connection without a request, such as a TLS handshake.

    Attributes:
        moment: when it was; ``None`` of a comment or an empty line.
    """

    moment: datetime | None = None


class LogParser:
    """A stateful parser of a log's lines; a W3C line depends on the ``#Fields`` line before."""

    def __init__(self) -> None:
        self._fields: Sequence[str] = ()

    def read(self, line: str) -> tuple[str, LoggedRequest | Noise | None]:
        """Parse a line into format name and content; the content is ``None`` if unreadable."""
        if not line.strip():
            return "", Noise()
        if line.startswith("#"):
            name, _, value = line[1:].partition(":")
            self._fields = value.split() if name == "Fields" else self._fields
            return ("W3C", Noise()) if self._fields or ":" in line else ("", None)
        if line.startswith("{"):
            return "JSON lines", _of_json(line)
        if self._fields:
            return "W3C", _of_w3c(line, self._fields)
        if "\r" in line.rstrip("\r\n"):  # several lines to whoever wrote them
            return "", None
        return _classic(line)


def moment_in(text: str) -> datetime | None:
    """Parse a time like ``17/May/2015:10:05:03 +0000`` in a text as UTC; ``None`` if absent."""
    found = _TIME.search(text)
    if not found or found[2] not in _MONTHS:
        return None
    day, year, hour, minute, second, hours, minutes = (int(found[n]) for n in (1, 3, 4, 5, 6, 8, 9))
    ahead = timedelta(hours=hours, minutes=minutes) * (-1 if found[7] == "-" else 1)
    try:
        return datetime(year, _MONTHS[found[2]], day, hour, minute, second, tzinfo=timezone.utc) - ahead
    except (ValueError, OverflowError):
        return None


def shape_of(line: str) -> str:
    """Return the shape of a line without the content: a letter or a digit for each run."""
    shape = re.sub(r"\d+", "9", re.sub(r"[^\W\d_]+", "a", line.rstrip()[:200]))
    return repr(shape if len(shape) <= 100 else f"{shape[:100]}...")[1:-1]


def _classic(line: str) -> tuple[str, LoggedRequest | Noise | None]:
    """Parse a line of Apache or nginx into format name and request; ``None`` if unreadable."""
    found = _LINE.fullmatch(line.rstrip())
    moment = moment_in(found["time"]) if found and _TIME.fullmatch(found["time"]) else None
    if not found or moment is None or (front := _front(found["front"])) is None:
        return "", None
    if (fields := _fields(found["rest"])) is None:
        return "", None
    quoted, others = fields
    if len(quoted) == 1:
        return "", None
    host, name = front
    forwarded = _client(quoted[2].split(",")) if len(quoted) > 2 and _are_addresses(quoted[2]) else ""
    kind = f"{name}{'combined' if quoted else 'common'}"
    if len(quoted) == 3 and not others and _are_addresses(quoted[2]) and not name:
        kind = "nginx main"
    elif others or len(quoted) > 2:
        kind += " with further fields"
    request = _REQUEST.fullmatch(found[3])
    if request is None or not _is_request(request):
        return kind, Noise(moment)
    referrer, agent = quoted[:2] if quoted else (None, None)
    return kind, LoggedRequest(
        moment,
        forwarded or host,
        request["method"],
        _unescaped(request["page"]),
        None if found["status"] == "-" else int(found["status"]),
        None if found["bytes"] == "-" else int(found["bytes"]),
        None if referrer in (None, "", "-") else _unescaped(referrer),
        None if agent is None else _unescaped(agent),
    )


def _fields(rest: str) -> tuple[list[str], list[str]] | None:
    """Split the text after the size into quoted and other fields; ``None`` for a torn line."""
    quoted: list[str] = []
    others: list[str] = []
    while rest:
        if (field := _REST.match(rest)) is None:
            return None
        if field[1] is None:
            others.append(field[2])
        else:
            quoted.append(field[1])
        rest = rest[field.end() :]
    return quoted, others


def _front(text: str) -> tuple[str, str] | None:
    """Parse the text before the time into client address and format prefix; ``None`` if unreadable.

    A user may have blanks in it; ident and user are not kept.
    """
    listed, quote, rest = text[1:].partition('" ') if text.startswith('"') else ("", "", "")
    words = [*re.split(r"(?<=,) ", listed), *rest.split(" ")] if quote else text.split(" ")
    # of a virtual host with its port, the client may be a name, too
    lead = 2 if len(words) > 3 and _HOST_AND_PORT.fullmatch(words[0]) and not _is_address(words[0]) else 1
    while lead < len(words) and (words[lead - 1].endswith(",") or _is_address(words[lead].rstrip(","))):
        lead += 1
    first = words[0].rstrip(",")
    named = words[lead:]
    if len(named) < 2 or not first or (len(named) > 2 and named[0] != "-"):
        return None
    is_virtual = lead > 1 and not words[0].endswith(",") and first not in _NOBODY and not _is_address(first)
    addresses = [each for word in words[1 if is_virtual else 0 : lead] for each in re.split(r"(?<=,)(?=.)", word)]
    host = _client(addresses) or addresses[-1]
    kind = "vhost_" if is_virtual else ""
    return host, f"forwarded addresses and {kind}" if len(addresses) > 1 else kind


def _client(addresses: Sequence[str]) -> str:
    """Return the first address of a list that identifies a client."""
    known = (each.strip(" ,") for each in addresses)
    return next((each for each in known if each and each not in _NOBODY), "")


def _are_addresses(text: str) -> bool:
    return all(each.strip() in _NOBODY or _is_address(each.strip()) for each in text.split(","))


@lru_cache(4096)
def _is_address(text: str) -> bool:
    """Return whether a text is an IPv4 or IPv6 address, with or without a port."""
    bare = text[1:].partition("]")[0] if text.startswith("[") else text
    bare = bare.rpartition(":")[0] if bare.count(":") == 1 else bare
    try:
        ip_address(bare)
    except ValueError:
        return False
    return True


def _is_request(request: re.Match[str]) -> bool:
    if request["protocol"]:
        return bool(request["page"].strip())
    return request["method"] in _WITHOUT_PROTOCOL and request["page"].startswith("/")


def _unescaped(text: str) -> str:
    """Undo the escapes of Apache and nginx; bytes outside of UTF-8 stay escaped."""
    if "\\" not in text:
        return text
    pieces = [
        bytes.fromhex(code) if code else (_ESCAPED[letter] if letter else plain).encode("utf-8", "surrogatepass")
        for code, letter, plain in _ESCAPE.findall(text)
    ]
    return b"".join(pieces).decode("utf-8", "backslashreplace")


def _of_w3c(line: str, fields: Sequence[str]) -> LoggedRequest | None:
    values = line.rstrip("\r\n").split("\t") if "\t" in line else line.split()
    if len(values) != len(fields):
        return None
    entries = {name.lower(): value for name, value in zip(fields, values, strict=True) if value != "-"}
    try:
        moment = datetime.strptime(f"{entries['date']} {entries['time'][:8]} +0000", "%Y-%m-%d %H:%M:%S %z")
        query = f"?{entries['cs-uri-query']}" if "cs-uri-query" in entries else ""
        agent = entries.get("cs(user-agent)")
        return LoggedRequest(
            moment,
            _client(entries.get("x-forwarded-for", "").split(",")) or entries.get("c-ip", ""),
            entries.get("cs-method", "GET"),
            entries["cs-uri-stem"] + query,
            int(entries["sc-status"]) if "sc-status" in entries else None,
            int(entries["sc-bytes"]) if "sc-bytes" in entries else None,
            entries.get("cs(referer)"),
            None if agent is None else unquote(agent.replace("+", " ")),
        )
    except (KeyError, ValueError):
        return None


def _of_json(line: str) -> LoggedRequest | Noise | None:
    try:
        members = json.loads(line)
        if isinstance(nested := members.get("request"), dict):  # as Caddy writes it
            headers = nested.get("headers") or {}
            sent = {name: values[0] for name, values in headers.items() if isinstance(values, list) and values}
            members = {**members, **sent, **nested, "request": None}
        return _of_fields(
            {
                of: next((members[n] for n in names if members.get(n) not in (None, "")), None)
                for of, names in _JSON.items()
            }
        )
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError):
        return None


def _of_fields(fields: Mapping[str, Any]) -> LoggedRequest | Noise | None:
    moment = _moment(fields["time"])
    if moment is None or not (fields["line"] or fields["page"]):
        return None
    method, page = str(fields["method"] or "GET"), str(fields["page"] or "")
    if not fields["page"]:
        request = _REQUEST.fullmatch(fields["line"])
        if request is None or not _is_request(request):
            return Noise(moment)
        method, page = request["method"], request["page"]
    referrer, agent = (None if fields[name] in (None, "", "-") else str(fields[name]) for name in ("referrer", "agent"))
    status, size = (None if fields[name] in (None, "", "-") else int(fields[name]) for name in ("status", "bytes"))
    host = _client(str(fields["forwarded"] or "").split(",")) or str(fields["host"] or "")
    return LoggedRequest(moment, host, method, page, status, size, referrer, agent)


def _moment(value: Any) -> datetime | None:  # noqa: ANN401 - of JSON
    """Read a time of JSON: with a zone, or a number of seconds or milliseconds since 1970."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return datetime.fromtimestamp(value / 1000 if value >= _MILLIS else value, timezone.utc)
    if not isinstance(value, str):
        return None
    if found := moment_in(value):
        return found
    if re.fullmatch(r"\d{9,10}(\.\d+)?", value):
        return datetime.fromtimestamp(float(value), timezone.utc)
    iso = re.fullmatch(r"(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d)(\.\d{1,6})?\d*(Z|[+-]\d\d:?\d\d)", value)
    if iso is None:
        return None
    zone = "+0000" if iso[3] == "Z" else iso[3].replace(":", "")
    return datetime.strptime(f"{iso[1].replace(' ', 'T')}{zone}", "%Y-%m-%dT%H:%M:%S%z").astimezone(timezone.utc)
