"""The platform home: a lock for one `dedp up` at a time, and detection of the running platform.

The platform holds a lock of the kernel on a file of the home, which is free once its process is dead, however it died;
the file says who holds it. What the file says without that lock means nothing.
"""

from __future__ import annotations

import fcntl
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from dedp_assets.graph.resources.environments import Settings
from dedp_assets.patterns.core.errors import ConfigError

__all__ = ["Running", "hold", "running"]

_FILE = "platform.lock"
_PATIENCE_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Running:
    """Process, start and addresses of a running platform, from the lock file of the home folder.

    Attributes:
        process: id of its process.
        since: when it started, for people.
        web: URL of its webserver.
        engine: ``sc://host:port`` of its Spark engine.
    """

    process: int
    since: str
    web: str
    engine: str

    def __str__(self) -> str:
        return f"pid {self.process} since {self.since}"


@contextmanager
def hold(settings: Settings, platform: Running) -> Iterator[None]:
    """Hold the home for a block.

    Raises:
        ValueError: if a living platform holds it already; the text says which one.
    """
    settings.home.mkdir(parents=True, exist_ok=True)
    with (settings.home / _FILE).open("a+") as file:
        if not _lock(file.fileno(), patience=_PATIENCE_SECONDS):
            holder = _read_running(settings.home / _FILE)
            raise ValueError(f"this home is used by {holder or 'a platform that is just starting'} ({settings.home})")
        file.truncate(0)
        file.write(json.dumps(asdict(platform)))
        file.flush()
        try:
            yield
        finally:
            file.truncate(0)


def running(settings: Settings) -> Running | None:
    """Return the platform that runs in the home, by the lock of the home.

    Returns:
        The platform; ``None`` while the lock is free.
    """
    try:
        with (settings.home / _FILE).open() as file:
            return None if _lock(file.fileno(), shared=True) else _read_running(settings.home / _FILE)
    except NotADirectoryError:
        raise ConfigError(f"DEDP_HOME must be a folder, not the file {settings.home}") from None
    except FileNotFoundError:
        return None


def _lock(descriptor: int, *, shared: bool = False, patience: float = 0.0) -> bool:
    """Take the lock within ``patience`` seconds; return whether the lock was free in time."""
    deadline = time.monotonic() + patience
    while True:
        with suppress(BlockingIOError):
            fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
            return True
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.05)


def _read_running(path: Path) -> Running | None:
    try:
        return Running(**json.loads(path.read_text()))
    except (ValueError, TypeError):
        return None
