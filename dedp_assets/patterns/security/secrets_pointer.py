"""Secrets Pointer: code names a secret, and the value comes from a store at run time.

Problem: a password in twenty jobs is in their repositories, their logs, and wrong in nineteen after a rotation.
Solution: jobs hold the name. A run reads the value from the store with its own identity, keeps the value in memory for
    a while, drops it where a login is refused, and reads the newest one in the next attempt.
Consequences: a run needs the store. A granted name can be read by all code of the run. A program that prints what
    `reveal` returns shows it; errors within `using_secret` are masked.
Choose instead: Secretless Connector, where the other side knows certificates or identities: nothing has to be kept.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from threading import Lock
from typing import NoReturn

from dedp_assets.patterns.connectors.secrets.store import SecretSource, StoredSecret, parted, require_path
from dedp_assets.patterns.core.errors import TRANSIENT, ConfigError, NotReady, chained_text
from dedp_assets.patterns.core.options import require_types, typed
from dedp_assets.patterns.core.results import Access
from dedp_assets.patterns.core.running.backoff import Backoff
from dedp_assets.patterns.core.running.permissions import FOLDER, covers
from dedp_assets.patterns.core.secret import Secret, remember

__all__ = ["read_secret", "using_secret", "SecretPointers"]

_REFUSED = (
    r"authentication failed|login failed|access denied|not authori[sz]ed|unauthori[sz]ed|SASL authentication"
    r"|invalid (?:password|credentials|username|api[ _-]?key|token)|InvalidAccessKeyId|SignatureDoesNotMatch"
    r"|(?:status|HTTP|HTTP error)[ :=]*40[13]\b"
)
"""Texts of a refused login: of PostgreSQL, Kafka, HTTP services and object stores."""
_LEAST = 4
_PATIENCE = Backoff(attempts=4, first_seconds=0.2, longest_seconds=5)


@dataclass(frozen=True, slots=True)
class SecretPointers:
    """The names that a run may read, and a cache of their values in memory.

    One object serves all consumers of a process: a rotation reaches all of them.

    Attributes:
        store: holds the values.
        identity: whose grants these are: a run, an asset, a person.
        granted: allowed names; ``prod/db/*`` allows all names below a folder.
        cached_seconds: how long a value is served without a question to the store, in seconds.
        backoff: attempts while the store does not answer.
        clock: seconds of a steady clock.
        sleep: waits so many seconds.

    Raises:
        ConfigError: for a grant that is no name, or allows everything.
    """

    store: SecretSource
    identity: str
    granted: Sequence[str]
    cached_seconds: float = 300
    backoff: Backoff = _PATIENCE
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    _held: dict[tuple[str, int | None], tuple[float, StoredSecret]] = field(default_factory=dict, repr=False)
    _refused: dict[str, int] = field(default_factory=dict, repr=False)
    _turn: AbstractContextManager[object] = field(default_factory=Lock, repr=False)

    def __post_init__(self) -> None:
        require_types(self)
        if self.cached_seconds < 0:
            raise ConfigError(f"cached_seconds must be at least 0, not {self.cached_seconds:g}")
        for name in self.granted:
            if name.removesuffix(FOLDER) in ("", "*"):
                raise ConfigError("granted must name secrets, or a folder of secrets like prod/db/*, not everything")
            require_path(name.removesuffix(FOLDER))

    def allows(self, path: str) -> bool:
        """Return whether a secret's name is granted."""
        return any(covers(each, path) for each in self.granted)

    def fetch(self, path: str, version: int | None) -> tuple[StoredSecret, bool]:
        """Return a secret, and whether the cache had the secret; one question to the store serves all threads."""
        with self._turn:
            at, found = self._held.get((path, version), (0.0, None))
            if found and self.clock() - at < self.cached_seconds:
                return found, True
            found = self._asked(path, version)
            self._held[path, version] = (self.clock(), found)
        remember(found.values.values())
        return found, False

    def refuse(self, path: str, version: int) -> bool:
        """Drop a refused version from the cache; return whether the same version was refused before."""
        with self._turn:
            again = self._refused.get(path) == version
            self._refused[path] = version
            if (held := self._held.get((path, None))) and held[1].version == version:
                del self._held[path, None]
        return again

    def accept(self, path: str) -> None:
        """Note that the secret's newest version was accepted."""
        self._refused.pop(path, None)

    def _asked(self, path: str, version: int | None) -> StoredSecret:
        for last in self.backoff.tries(self.sleep):
            try:
                return self.store.read(path, version)
            except NotReady as error:
                if last:
                    raise NotReady(f"{path} cannot be read after {self.backoff.attempts} attempts: {error}") from None
        raise AssertionError  # there is at least one attempt


@typed
def read_secret(pointers: SecretPointers, *, pointer: str, version: int | None = None) -> Access:
    """Read a secret by name, from memory or from the store.

    Args:
        pointers: the names that this run may read.
        pointer: name of the secret, with the field behind ``#`` if there are several: ``prod/db#password``.
        version: an older version of the secret; the newest one if ``None``.

    Returns:
        The access with the secret and its version; no text of the access shows the value.

    Raises:
        ConfigError: for a name that is not granted, not there, or is none; nothing else is tried.
        NotReady: if the store does not answer, after a bounded number of attempts.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from dedp_assets.patterns.connectors.secrets.sealed_file import SealedFile
        >>> store = SealedFile(Path(tempfile.mkdtemp()))
        >>> store.write("prod/db", {"user": "reporter", "password": "open sesame"})
        1
        >>> pointers = SecretPointers(store, "gold/report", granted=["prod/db"])
        >>> access = read_secret(pointers, pointer="prod/db#password")
        >>> access.secret, access.version, access.reason
        (***, '1', 'prod/db#password was read from the encrypted file of this home')
    """
    access, _ = _read(pointers, pointer, version)
    return access


@contextmanager
@typed
def using_secret(pointers: SecretPointers, *, pointer: str, refused: str = _REFUSED) -> Iterator[Access]:
    """Lend a secret to a block with a login; errors leave the block without the secret.

    Where the login is refused, the value may have been rotated: it is dropped from memory, and the next attempt of the
    step reads the newest one.

    Args:
        pointers: the names that this run may read.
        pointer: name of the secret, with the field behind ``#``.
        refused: regular expression for the text of a refused login.

    Yields:
        The access with the secret.

    Raises:
        NotReady: for a refused login: try again; and for other errors that may pass, if their text held the secret.
        ConfigError: if the newest version is refused a second time, and as :func:`read_secret`.
    """
    try:
        pattern = re.compile(refused, re.IGNORECASE)
    except re.error as error:
        raise ConfigError(f"refused must be a regular expression, not {refused!r}: {error}") from None
    access, stored = _read(pointers, pointer, None)
    try:
        yield access
    except Exception as error:
        text = _hidden(error, stored)
        if pattern.search(text):
            _refuse(pointers, pointer, stored.version, text)
        if text == chained_text(error):
            raise
        kind = NotReady if isinstance(error, (NotReady, OSError, *TRANSIENT)) else ConfigError
        # The exception itself, its causes and their arguments hold the secret.
        raise kind(f"{pointer}: {text}") from None
    pointers.accept(stored.path)


def _read(pointers: SecretPointers, pointer: str, version: int | None) -> tuple[Access, StoredSecret]:
    path, name = parted(pointer)
    if version is not None and version < 1:
        raise ConfigError(f"version must be at least 1, not {version}")
    if not pointers.allows(path):
        raise ConfigError(
            f"{pointer} is not granted to {pointers.identity}, which may read {list(pointers.granted)}: declare the "
            f"name there (granted=[{path!r}]) if it needs the secret; nothing was read"
        )
    found, held = pointers.fetch(path, version)
    if name not in found.values:
        raise ConfigError(
            f"{path} has no field {name}, but {sorted(found.values)}: name one like {path}#{min(found.values)}, or "
            f"store the field (`dedp secret put {path} --field {name}`)"
        )
    reason = f"{pointer} was read from {'memory' if held else pointers.store.name}"
    secret = Secret(found.values[name])
    access = Access(pointers.identity, {"read": (pointer,)}, reason, version=str(found.version), secret=secret)
    return access, found


def _refuse(pointers: SecretPointers, pointer: str, version: int, text: str) -> NoReturn:
    path, _ = parted(pointer)
    if pointers.refuse(path, version):
        raise ConfigError(
            f"version {version} of {pointer}, the newest one in {pointers.store.name}, was refused twice ({text}): "
            f"store what the other side expects (`dedp secret put {path}`)"
        ) from None
    raise NotReady(
        f"version {version} of {pointer} was refused ({text}), and is dropped from memory: the next attempt reads the "
        f"newest version from {pointers.store.name}"
    ) from None


def _hidden(error: BaseException, stored: StoredSecret) -> str:
    """Return the text of an error and of the causes, without any field of the secret."""
    text = chained_text(error)
    for value in sorted(stored.values.values(), key=len, reverse=True):
        text = Secret(value).hide(text) if len(value) >= _LEAST else text
    return text
