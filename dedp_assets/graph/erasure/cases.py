"""Cases of erasure: requests in the home with sealed ids, and signed reports.

The report names tables, counts, dates and versions, and no person. The ids are needed until nothing is left, also by a
run after a crash: till then they lie sealed beside the report, under a key of the home, and go with the end.

A request is asked, planned, approved and ended, in that order.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from secrets import token_bytes
from typing import Any, Literal

from dedp_assets.graph.erasure.spellings import LEAST
from dedp_assets.patterns.connectors.secrets.key_files import key_in, replace_private
from dedp_assets.patterns.core.errors import ConfigError, NotReady
from dedp_assets.patterns.core.extras import optional

__all__ = ["DEADLINE", "MOST_WAITING", "NAMES", "Case", "CaseState", "Cases", "CasePlace", "is_name"]

ciphers = optional("cryptography.hazmat.primitives.ciphers.aead")
signing = optional("cryptography.hazmat.primitives.asymmetric.ed25519")

DEADLINE = timedelta(days=30)
"""Time from a request to its end, by law."""
NAMES = "up to 64 letters, digits, '.', '_' and '-', such as GDPR-17"
"""Names that a request can have."""
MOST_WAITING = 1_000
"""Number of requests that may wait for an approval: whoever reaches the form may ask."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_NONCE_BYTES = 12
_REFUSAL = "refusal"
_SHORTEST_WORD = 3
_LONGEST_BY = 100

CaseState = Literal["asked", "planned", "approved", "ended"]
"""State of a request: only an approved one is carried out."""


@dataclass(frozen=True, slots=True)
class CasePlace:
    """State of a place in a case.

    Attributes:
        name: table, folder or system.
        kind: sort of the place, such as ``table``, ``files`` or ``elsewhere``.
        found: rows, values or files of the persons.
        state: ``asked`` (a later run plans it), ``erased``, ``nothing``, ``held``, ``open`` (a later run ends it),
            ``owed`` (somebody else has to).
        note: one sentence, without an id.
        due: day by which an open place is done, in ISO 8601.
        figures: further numbers, such as bytes and versions.
    """

    name: str
    kind: str
    found: int = 0
    state: str = "nothing"
    note: str = ""
    due: str = ""
    figures: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Case:
    """A request to erase persons.

    Attributes:
        request: name of the request, such as a ticket.
        at: when it came, in ISO 8601.
        because: reason, without an id.
        approved_by: who approved the erasure; empty for a plan.
        places: what was found and done, by place.
        ended: when nothing was left that the platform can erase; empty until then.
        public_key: key that the signature of the report is checked by, in hexadecimal digits.
        signature: signature of all else, in hexadecimal digits; empty until the end.
    """

    request: str
    at: str
    because: str = ""
    approved_by: str = ""
    places: tuple[CasePlace, ...] = ()
    ended: str = ""
    public_key: str = ""
    signature: str = ""

    @property
    def due(self) -> datetime:
        """The day by which the case has to be ended."""
        return datetime.fromisoformat(self.at) + DEADLINE

    @property
    def open(self) -> list[CasePlace]:
        """The places that a later run ends."""
        return [place for place in self.places if place.state in ("asked", "open", "held")]

    @property
    def state(self) -> CaseState:
        """The state of the request."""
        if self.ended:
            return "ended"
        if self.approved_by:
            return "approved"
        return "asked" if any(place.state == "asked" for place in self.places) else "planned"

    @property
    def erased(self) -> int:
        """Number of erased rows, values and files."""
        return sum(place.found for place in self.places if place.state == "erased")


@dataclass(frozen=True, slots=True)
class Cases:
    """The cases of a home.

    Attributes:
        folder: folder of the cases.
        keys: folder of the home's keys.
    """

    folder: Path
    keys: Path

    @classmethod
    def of(cls, home: Path) -> Cases:
        """Open the cases of a home."""
        return cls(home / "erasures", home / "keys")

    def names(self) -> list[str]:
        """List the requests, sorted."""
        return sorted(file.stem for file in self.folder.glob("*.json")) if self.folder.is_dir() else []

    def __iter__(self) -> Iterator[Case]:
        return map(self.case, self.names())

    def read(self) -> tuple[list[Case], dict[str, str]]:
        """Return the cases that can be read, and of each other request why not."""
        found, faults = list[Case](), dict[str, str]()
        for request in self.names():
            try:
                found.append(self.case(request))
            except ConfigError as error:
                faults[request] = str(error)
        return found, faults

    def case(self, request: str) -> Case:
        """Read a case.

        Raises:
            ConfigError: for a request that is not known, a name that is none, or a file that is no case.
        """
        file = self._file(request)
        try:
            return _case_in(file.read_bytes())
        except FileNotFoundError:
            known = ", ".join(self.names()) or "none"
            raise ConfigError(f"request must be one of the known ones ({known}), not {request}") from None
        except (ValueError, TypeError, KeyError, RecursionError):
            raise ConfigError(f"the case of {request} must be a file as this home wrote it: restore it") from None

    def knows(self, request: str) -> bool:
        """Return whether a request is known."""
        return self._file(request).exists()

    def ask(self, request: str, ids: Mapping[str, Sequence[str]], *, now: datetime) -> Case:
        """Keep a request without a plan, or return the case of the same request.

        Raises:
            ConfigError: for a name that no file can have or that holds an id, for no id, or for a known request that
                has ended or is about other ids; no text holds an id.
            NotReady: for a new request while :data:`MOST_WAITING` requests wait for an approval.
        """
        self.require_name(request)
        every = [each for named in ids.values() for each in named]
        if not every or not all(map(str.strip, every)):
            raise ConfigError("ids must name at least one person, such as {'user': ['u-17']}, not be empty")
        _require_without(every, request, "the name of a request")
        with self._turn():
            if not self.knows(request):
                self._require_room()
                place = CasePlace(
                    "request",
                    "plan",
                    state="asked",
                    note=f"planned by platform/erasures, or by `dedp erase --because {request}`",
                )
                return self._keep(Case(request, now.isoformat(), request, places=(place,)), ids)
            case, known = self.case(request), self.ids(self.case(request))
        if case.ended:
            raise ConfigError(f"{request} ended on {case.ended[:10]}: state a new name, such as {request}-again")
        if any({*named} - {*known.get(kind, ())} for kind, named in ids.items()):
            raise ConfigError(f"{request} is a request about other ids: state a name that no request has yet")
        return case

    def _require_room(self) -> None:
        """Refuse a further request while too many wait for an approval."""
        if sum(1 for _ in self.folder.glob("*.sealed")) < MOST_WAITING:  # of requests that have not ended
            return
        waiting = sum(case.state in ("asked", "planned") for case in self.read()[0])
        if waiting >= MOST_WAITING:
            raise NotReady(
                f"at most {MOST_WAITING:,} requests may wait for an approval, and {waiting:,} do: `dedp erase` lists "
                "all, and `dedp erase --because NAME --by APPROVER` approves one"
            )

    def approve(self, request: str, by: str) -> Case:
        """Note who approved the plan of a request.

        Raises:
            ConfigError: for a request that is not planned, or approved already, or for a name that is none.
        """
        if not by.strip() or not by.isprintable() or len(by) > _LONGEST_BY:
            raise ConfigError(f"by must be the name of who approves, up to {_LONGEST_BY} letters, such as legal")
        with self._turn():
            case = self.case(request)
            if case.approved_by:
                raise ConfigError(f"{request} was approved already, by {case.approved_by}")
            if case.state == "asked":
                raise ConfigError(f"{request} must be planned first, so that its approval is one of a plan")
            _require_without([each for named in self.ids(case).values() for each in named], by, "by")
            return self._keep(replace(case, approved_by=by.strip()))

    def note(self, request: str, reason: str) -> Case:
        """Note the reason against a plan or an erasure of a request, until the next one."""
        with self._turn():
            case = self.case(request)
            others = [place for place in case.places if place.kind != _REFUSAL]
            noted = CasePlace("request", _REFUSAL, state="open", note=reason)
            return self._keep(replace(case, places=(*others, noted)))

    def keep(self, case: Case, ids: Mapping[str, Sequence[str]] | None = None) -> Case:
        """Write a case, and seal the ids of the case, if given.

        Raises:
            ConfigError: for other ids of a request that was approved.
        """
        with self._turn():
            if ids is not None and self.knows(case.request) and self.case(case.request).approved_by:
                raise ConfigError(f"{case.request} was approved: `dedp erase --because {case.request}` goes on")
            return self._keep(case, ids)

    def _keep(self, case: Case, ids: Mapping[str, Sequence[str]] | None = None) -> Case:
        if ids is not None:
            nonce = token_bytes(_NONCE_BYTES)
            content = json.dumps({kind: [*named] for kind, named in ids.items()}).encode()
            replace_private(self._sealed(case.request), nonce + self._cipher().encrypt(nonce, content, self._of(case)))
        replace_private(self._file(case.request), json.dumps(asdict(case), indent=1).encode())
        return case

    def ids(self, case: Case) -> Mapping[str, Sequence[str]]:
        """Unseal the ids of a case; empty once the case has ended.

        Raises:
            ConfigError: for a file that was not sealed for this case.
        """
        try:
            content = self._sealed(case.request).read_bytes()
        except FileNotFoundError:
            return {}
        cipher = self._cipher()
        try:
            found = cipher.decrypt(content[:_NONCE_BYTES], content[_NONCE_BYTES:], self._of(case))
        except Exception:  # of an optional package, and for whatever stands there in place of sealed ids
            raise ConfigError(
                f"the ids of {case.request} must lie as this home sealed them: restore the file"
            ) from None
        return dict(json.loads(found))

    def end(self, case: Case, *, now: datetime) -> Case:
        """End a case: sign the report, and remove the sealed ids."""
        signer = signing.Ed25519PrivateKey.from_private_bytes(key_in(self.keys / "reports.key"))
        public = signer.public_key().public_bytes_raw().hex()
        ended = replace(case, ended=now.isoformat(), public_key=public, signature="")
        ended = replace(ended, signature=signer.sign(_signed(ended)).hex())
        self.keep(ended)
        self._sealed(case.request).unlink(missing_ok=True)
        return ended

    def is_genuine(self, case: Case) -> bool:
        """Return whether this home signed a report, and nobody changed the report since."""
        own = signing.Ed25519PrivateKey.from_private_bytes(key_in(self.keys / "reports.key")).public_key()
        try:
            own.verify(bytes.fromhex(case.signature), _signed(replace(case, signature="")))
        except Exception:  # of an optional package, and for whatever stands there in place of a signature
            return False
        return True

    def require_name(self, request: str) -> None:
        """Refuse a name that no file can have.

        Raises:
            ConfigError: with an example.
        """
        if not is_name(request):
            raise ConfigError(f"request must be {NAMES}, not {request!r}")

    @contextmanager
    def erasing(self) -> Iterator[None]:
        """Let one thread of one process at a time erase: the next one waits.

        An erasure cuts the logs that another one reads, and both would note what they found.
        """
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with _locked(self.folder / ".erasing", os.O_RDWR | os.O_CREAT):
            yield

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Let one thread of one process at a time read and change the cases."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with _locked(self.folder, os.O_RDONLY):
            yield

    def _file(self, request: str) -> Path:
        self.require_name(request)
        return self.folder / f"{request}.json"

    def _sealed(self, request: str) -> Path:
        return self._file(request).with_suffix(".sealed")

    def _of(self, case: Case) -> bytes:
        return f"ids of {case.request}".encode()

    def _cipher(self) -> Any:  # noqa: ANN401 - of an optional package
        return ciphers.AESGCM(key_in(self.keys / "cases.key"))


@contextmanager
def _locked(path: Path, flags: int) -> Iterator[None]:
    """Hold the lock of a file or folder for a block; the lock of a process that died is released."""
    opened = os.open(path, flags, 0o600)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX)
        yield
    finally:
        os.close(opened)


def _case_in(content: bytes) -> Case:
    stated = json.loads(content)
    case = Case(**{**stated, "places": tuple(CasePlace(**each) for each in stated["places"])})
    datetime.fromisoformat(case.at)
    return case


def is_name(request: str) -> bool:
    """Return whether a request can have a name."""
    return bool(_NAME.fullmatch(request))


def _require_without(ids: Sequence[str], text: str, place: str) -> None:
    """Refuse a text that holds an id, as far as the id is no text by chance."""
    folded = [each.strip().casefold() for each in ids]
    if any(len(each) >= (LEAST if each.isdigit() else _SHORTEST_WORD) and each in text.casefold() for each in folded):
        raise ConfigError(f"{place} must hold no id, which would stay there: state a name such as GDPR-17 or legal")


def _signed(case: Case) -> bytes:
    return json.dumps(asdict(case), sort_keys=True).encode()
