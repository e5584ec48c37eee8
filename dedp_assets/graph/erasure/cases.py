"""Cases of erasure: requests in the home with sealed ids, and signed reports.

The report names tables, counts, dates and versions, and no person. The ids are needed until nothing is left, also by a
run after a crash: till then they lie sealed beside the report, under a key of the home, and go with the end.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from secrets import token_bytes
from typing import Any

from dedp_assets.patterns.connectors.secrets.key_files import key_in, replace_private
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.extras import optional

__all__ = ["DEADLINE", "Case", "Cases", "CasePlace"]

ciphers = optional("cryptography.hazmat.primitives.ciphers.aead")
signing = optional("cryptography.hazmat.primitives.asymmetric.ed25519")

DEADLINE = timedelta(days=30)
"""Time from a request to its end, by law."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_NONCE_BYTES = 12


@dataclass(frozen=True, slots=True)
class CasePlace:
    """State of a place in a case.

    Attributes:
        name: table, folder or system.
        kind: sort of the place, such as ``table``, ``files`` or ``elsewhere``.
        found: rows, values or files of the persons.
        state: ``erased``, ``nothing``, ``held``, ``open`` (a later run ends it), ``owed`` (somebody else has to).
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
        return [place for place in self.places if place.state in ("open", "held")]

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

    def names(self) -> list[str]:
        """List the requests, sorted."""
        return sorted(file.stem for file in self.folder.glob("*.json")) if self.folder.is_dir() else []

    def __iter__(self) -> Iterator[Case]:
        return map(self.case, self.names())

    def case(self, request: str) -> Case:
        """Read a case.

        Raises:
            ConfigError: for a request that is not known, or a name that is none.
        """
        try:
            stated = json.loads(self._file(request).read_text())
        except FileNotFoundError:
            known = ", ".join(self.names()) or "none"
            raise ConfigError(f"request must be one of the known ones ({known}), not {request}") from None
        return Case(**{**stated, "places": tuple(CasePlace(**each) for each in stated["places"])})

    def knows(self, request: str) -> bool:
        """Return whether a request is known."""
        return self._file(request).exists()

    def keep(self, case: Case, ids: Mapping[str, Sequence[str]] | None = None) -> Case:
        """Write a case, and seal the ids of the case, if given."""
        if ids is not None:
            nonce = token_bytes(_NONCE_BYTES)
            content = json.dumps({kind: [*named] for kind, named in ids.items()}).encode()
            replace_private(self._sealed(case.request), nonce + self._cipher().encrypt(nonce, content, self._of(case)))
        replace_private(self._file(case.request), json.dumps(asdict(case), indent=1).encode())
        return case

    def ids(self, case: Case) -> Mapping[str, Sequence[str]]:
        """Unseal the ids of a case; empty once the case has ended."""
        try:
            content = self._sealed(case.request).read_bytes()
        except FileNotFoundError:
            return {}
        found = self._cipher().decrypt(content[:_NONCE_BYTES], content[_NONCE_BYTES:], self._of(case))
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
        if not _NAME.fullmatch(request):
            raise ConfigError(
                f"request must be up to 64 letters, digits, '.', '_' and '-', such as GDPR-17, not {request!r}"
            )

    def _file(self, request: str) -> Path:
        self.require_name(request)
        return self.folder / f"{request}.json"

    def _sealed(self, request: str) -> Path:
        return self._file(request).with_suffix(".sealed")

    def _of(self, case: Case) -> bytes:
        return f"ids of {case.request}".encode()

    def _cipher(self) -> Any:  # noqa: ANN401 - of an optional package
        return ciphers.AESGCM(key_in(self.keys / "cases.key"))


def _signed(case: Case) -> bytes:
    return json.dumps(asdict(case), sort_keys=True).encode()
