"""Web server logs as visit events, landed exactly once on the UTC day of each request."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

from dedp_assets.case_study.sources.log_files import files_of, lines_of
from dedp_assets.case_study.sources.log_formats import FORMATS, LoggedRequest, LogParser, Noise, moment_in, shape_of
from dedp_assets.patterns.ingestion.readiness_marker import delivering

__all__ = ["Log", "land_logs"]

_MARK = 8
_FEW = 10
"""So many lines of a log may be unreadable, however few the others are: they are dead letters."""
_KNOWN = {
    "Apache's error log": re.compile(r"\[\w{3} \w{3} +\d+ [\d:.]+ \d{4}\] \["),
    "nginx's error log": re.compile(r"\d{4}/\d\d/\d\d \d\d:\d\d:\d\d \[\w+\] "),
    "syslog": re.compile(r"(<\d+>)?(\w{3} [ \d]\d \d\d:\d\d:\d\d|\d{4}-\d\d-\d\dT\S+) \S+ \S+?(\[\d+\])?: "),
    "AWS load balancers": re.compile(r"(\w+ )?\d{4}-\d\d-\d\dT[\d:.]+Z \S+ [\d.]+:\d+ "),
}
_COMBINED = ("combined", "nginx main")


@dataclass(slots=True)
class Log:
    """The parsed lines of a log file.

    Attributes:
        path: the file.
        format: the format that most of its lines are in.
        name: what its files in the landing zone are called.
        days: landing day -> requests, as events, and lines that cannot be read, as they are.
        requests: how many lines tell of a request.
        noise: lines that tell of none, as they are: TLS handshakes, empty requests, comments.
        unread: how many lines cannot be read.
        marks: after each whole line, eight bytes of the digest of all lines so far: two logs begin alike as far as
            theirs are equal.
        part_of: the name of the log, landed before, that begins with all of its lines.
        refusal: why it does not land; empty if it does.
    """

    path: Path
    format: str = ""
    name: str = ""
    days: dict[date, list[tuple[int, bytes | LoggedRequest]]] = field(default_factory=dict)
    requests: int = 0
    noise: list[bytes] = field(default_factory=list)
    unread: int = 0
    marks: bytes = b""
    part_of: str = ""
    refusal: str = ""

    def sentence(self) -> str:
        """Return a summary of the log in one sentence."""
        if self.refusal:
            return f"left out: {self.refusal}"
        if self.part_of:
            return f"{self.path.name} ({self.format}): its lines are those that {self.part_of} begins with"
        beside = [f"{len(self.noise)} that are no request"] if self.noise else []
        beside += [f"{self.unread} that cannot be read"] if self.unread else []
        more = f", and {' and '.join(beside)}" if beside else ""
        return f"{self.path.name} ({self.format}): {self.requests} requests{more}"


def land_logs(places: Sequence[Path], folder: Path) -> list[Log]:
    """Land logs as a file for each log and day.

    An unreadable line lands unchanged, on the day of the lines around.

    A log may be compressed. One that has landed before, under whatever name, and has grown since takes the place of
    what it was; any other adds to the days that it is about. Lines that tell of no request are kept beside the landing
    folder (``<folder>_logs``): they are no visits and no faults.

    Args:
        places: logs, patterns of their names, or folders of logs.
        folder: landing folder of the dataset.

    Returns:
        Every log that was found, also one of a folder or a pattern that is left out (``refusal``).

    Raises:
        ValueError: if one that is named is in no format that is read, or holds no request, or none is left of several;
            nothing lands.
        ContractError: if one is damaged; nothing lands.
    """
    notes = folder.with_name(f"{folder.name}_logs")
    known = _known(notes)
    logs: list[Log] = []
    for path in files_of(places):
        log = _read(path)
        if log.refusal and path in places:
            raise ValueError(log.refusal)
        if not log.refusal:
            log.part_of = next((name for name, marks in known.items() if _begins(marks, log.marks, longer=True)), "")
            log.name = "" if log.part_of else _name(log, known)
            known |= {log.name: log.marks} if log.name else {}
        logs.append(log)
    if all(log.refusal for log in logs):
        raise ValueError("; ".join(log.refusal for log in logs))
    landed = {log.name: log for log in logs if log.name}
    for name, log in landed.items():  # first: a name that is noted is no other log's, whatever becomes of this run
        _put(notes / f"{name}.marks", log.marks)
        _put(notes / f"{name}.noise", b"".join(log.noise))
    _land(landed, folder)
    return logs


def _visit(request: LoggedRequest, number: int, log: str) -> str:
    """Return a visit event as JSON, with an id by second and line, and a user by hash.

    The user is a digest of host and agent.

    So no address travels further.
    """
    visit = {
        "visit_id": f"{int(request.moment.timestamp())}_{number}{f'_{log}' if log else ''}",
        "event_time": request.moment.isoformat().replace("+00:00", "Z"),
        "user_id": hashlib.sha256(f"{request.host} {request.agent or ''}".encode()).hexdigest()[:16],
        "page": request.page,
        "referrer": request.referrer,
        "user_agent": request.agent,
        "status": request.status,
        "bytes": request.bytes,
    }
    return json.dumps({name: value for name, value in visit.items() if value is not None})


def _read(path: Path) -> Log:
    """Read a log; an unreadable log has a ``refusal``.

    Raises:
        ContractError: if it is damaged.
    """
    log, lines, digest = Log(path), LogParser(), hashlib.sha256()
    formats, marks = Counter[str](), bytearray()
    read: list[tuple[bytes, str, LoggedRequest | Noise | None]] = []
    try:
        raws = enumerate(lines_of(path), start=1)
    except ValueError as error:
        log.refusal = str(error)
        return log
    for number, raw in raws:
        found = lines.read(raw.decode("utf-8", "backslashreplace"))
        read.append((raw, *found))
        formats[found[0]] += isinstance(found[1], LoggedRequest)
        digest.update(raw.rstrip(b"\r\n") + b"\n")
        if raw.endswith(b"\n") or number == 1:  # the last line may not be whole yet
            marks += digest.digest()[:_MARK]
    log.marks = bytes(marks)
    log.format = max(formats, key=formats.__getitem__) if read else ""
    _sort_out(log, read)
    return log


def _sort_out(log: Log, read: Sequence[tuple[bytes, str, LoggedRequest | Noise | None]]) -> None:
    """Assign lines to days: requests by time, unreadable lines to the day around, noise apart."""
    day: date | None = None
    waiting: list[tuple[int, bytes | LoggedRequest]] = []
    first_unread = 0
    for number, (raw, kind, found) in enumerate(read, start=1):
        torn = "common" in kind and any(of in log.format for of in _COMBINED)
        if isinstance(found, Noise) and not torn:
            log.noise.append(raw.rstrip(b"\r\n") + b"\n")
            continue
        landed = found if isinstance(found, LoggedRequest) and not torn else raw.rstrip(b"\r\n") + b"\n"
        moment = landed.moment if isinstance(landed, LoggedRequest) else moment_in(raw.decode("utf-8", "replace"))
        day = moment.date() if moment else day
        log.requests += isinstance(landed, LoggedRequest)
        if not isinstance(landed, LoggedRequest):
            log.unread += 1
            first_unread = first_unread or number
        waiting.append((number, landed))
        if day is not None:
            log.days.setdefault(day, []).extend(waiting)
            waiting.clear()
    if log.requests == 0 or log.unread > max(log.requests, _FEW):
        log.refusal = _refusal(log, read, first_unread)


def _refusal(log: Log, read: Sequence[tuple[bytes, str, LoggedRequest | Noise | None]], number: int) -> str:
    """Return the reason why a log is unreadable, with the first unreadable line."""
    if not read:
        return f"{log.path} has no line with a date: it is empty"
    if not number:
        return f"{log.path} tells of no request: each of its {len(log.noise)} lines is a connection without one"
    line = read[number - 1][0].decode("utf-8", "backslashreplace")
    known = next((name for name, pattern in _KNOWN.items() if pattern.match(line)), "")
    seen = f"is in the format of {known}" if known else f"looks like {shape_of(line)}"
    seen = "ends in carriage returns alone" if "\r" in line.rstrip("\r\n") else seen
    undated = "" if log.days else f"{log.path} has no line with a date like [17/May/2015:10:05:03 +0000]: "
    text = f"line {number} {seen}; what is read: {FORMATS}"
    return f"{undated}{text}" if undated else f"{log.path}: {text} ({log.requests} of {len(read)} lines can be read)"


def _begins(marks: bytes, others: bytes, *, longer: bool = False) -> bool:
    """Return whether a log begins with all lines of another log, and has more lines if ``longer``."""
    size = len(others)
    return marks[size - _MARK : size] == others[-_MARK:] and (not longer or len(marks) > size)


def _name(log: Log, known: Mapping[str, bytes]) -> str:
    """Return the name of a log's files: the name of an earlier landing, or a new unique name."""
    for name, marks in known.items():
        if _begins(log.marks, marks):
            return name
    stem = re.sub(r"\.(gz|gzip|bz2|zst)$", "", log.path.name, flags=re.IGNORECASE).removesuffix(".log")
    plain = re.sub(r"[^A-Za-z0-9.-]+", "-", stem).strip("-.") or "log"
    return next(name for n in range(1, len(known) + 2) if (name := plain if n == 1 else f"{plain}-{n}") not in known)


def _known(notes: Path) -> dict[str, bytes]:
    """Read the marks of landed logs: name -> marks."""
    return {path.stem: path.read_bytes() for path in sorted(notes.glob("*.marks"))} if notes.is_dir() else {}


def _land(logs: Mapping[str, Log], folder: Path) -> None:
    """Deliver each day once, with the files of all logs of the day."""
    for day in sorted({day for log in logs.values() for day in log.days}):
        target = folder / day.isoformat()
        wanted = {f"{name}.jsonl": _content(name, log.days[day]) for name, log in logs.items() if day in log.days}
        if any(not (target / name).exists() or (target / name).read_bytes() != of for name, of in wanted.items()):
            with delivering(target):
                for name, content in wanted.items():
                    (target / name).write_bytes(content)


def _content(name: str, lines: Iterable[tuple[int, bytes | LoggedRequest]]) -> bytes:
    return b"".join(
        line if isinstance(line, bytes) else f"{_visit(line, number, name)}\n".encode() for number, line in lines
    )


def _put(path: Path, content: bytes) -> None:
    if content and not (path.exists() and path.read_bytes() == content):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
