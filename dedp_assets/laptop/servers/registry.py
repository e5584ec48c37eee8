"""Apicurio Registry on loopback: the schema registry of ``DEDP_REGISTRY=own``."""

from __future__ import annotations

import shutil
import tarfile
from dataclasses import replace
from pathlib import Path

from filelock import FileLock

from dedp_assets.graph.resources.announced import announce
from dedp_assets.graph.resources.engine import class_path, java_home
from dedp_assets.graph.resources.environments import Settings
from dedp_assets.graph.systems.registry import FOLDER

__all__ = ["command", "url"]

_OPTIONS = {
    "quarkus.http.host": "127.0.0.1",
    # It cannot be left out; a free port, so that two homes do not meet.
    "quarkus.management.host": "127.0.0.1",
    "quarkus.management.port": "0",
    "quarkus.http.access-log.enabled": "false",
    # Confluent's defaults: schemas are valid, name what exists, and are readable by BACKWARD; versions can be deleted.
    "apicurio.rules.global.validity": "FULL",
    "apicurio.rules.global.integrity": "REFS_EXIST",
    "apicurio.rules.global.compatibility": "BACKWARD",
    "apicurio.rest.deletion.artifact.enabled": "true",
    "apicurio.rest.deletion.artifact-version.enabled": "true",
}
_SMALL = ["-Xms64m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]


def url(port: int) -> str:
    """Return the URL of Confluent's API at a port on loopback."""
    return f"http://127.0.0.1:{port}/apis/ccompat/v8"


def command(settings: Settings, *, port: int) -> list[str]:
    """Announce the registry's address, and return the command that runs the registry.

    The first call fetches the archive, 158 MB.

    Args:
        settings: settings of the home.
        port: port on loopback.

    Raises:
        EngineError: if the archive of the registry cannot be fetched.
    """
    program = _unpacked(settings)
    folder = settings.home / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    announce(folder, url(port))
    place = {"quarkus.http.port": port, "apicurio.datasource.url": f"jdbc:h2:file:{folder / 'schemas'}"}
    options = [f"-D{name}={value}" for name, value in {**_OPTIONS, **place}.items()]
    # The archive is built for Java 21, newer than Spark asks for; the wheel's runtime is.
    java = java_home(replace(settings, java="bundled")) / "bin" / "java"
    return [str(java), *_SMALL, *options, "-jar", str(program)]


def _unpacked(settings: Settings) -> Path:
    """Return the jar that starts the registry; the first call unpacks the archive, whole or not at all."""
    (archive,) = class_path(settings, "registry")
    folder = archive.parent / "unpacked"
    with FileLock(archive.parent / "unpacking.lock"):
        if not folder.exists():
            partial = folder.with_name("unpacked.partial")
            shutil.rmtree(partial, ignore_errors=True)
            with tarfile.open(archive) as packed:
                packed.extractall(partial, filter="data")
            partial.replace(folder)
    return folder / "quarkus-run.jar"
