"""Apicurio Registry on loopback: the schema registry of ``DEDP_REGISTRY=own``.

With ``DEDP_SECURE=on`` it has TLS, and takes a signed token (JWT) without a server of identities. Its build fixes that
it asks for no client certificate.
"""

from __future__ import annotations

import base64
import json
import shutil
import tarfile
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from filelock import FileLock

from dedp_assets.graph.resources.announced import announce
from dedp_assets.graph.resources.clock import Clock
from dedp_assets.graph.resources.engine import class_path, java_home
from dedp_assets.graph.resources.environments import Settings
from dedp_assets.graph.resources.tokens import token_file
from dedp_assets.graph.systems.identities import PLATFORM, home_authority
from dedp_assets.graph.systems.registry import FOLDER
from dedp_assets.laptop.servers import loopback
from dedp_assets.patterns.connectors.secrets.key_files import replace_private

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
_LOCKED = {
    "quarkus.http.insecure-requests": "disabled",
    # A rotated certificate counts within half a minute, which is the least that Quarkus takes.
    "quarkus.http.ssl.certificate.reload-period": "30s",
    "quarkus.oidc.tenant-enabled": "true",
    "quarkus.http.auth.permission.all.paths": "/*",
    "quarkus.http.auth.permission.all.policy": "authenticated",
}
_LASTS = timedelta(days=365)
_BEFORE = timedelta(minutes=5)
_SMALL = ["-Xms64m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]


def url(port: int, *, locked: bool = False) -> str:
    """Return the URL of Confluent's API at a port on loopback."""
    return f"{'https' if locked else 'http'}://127.0.0.1:{port}/apis/ccompat/v8"


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
    announce(folder, url(port, locked=settings.secure == "on"))
    ports = dict.fromkeys(("quarkus.http.port", "quarkus.http.ssl-port"), port)
    place = {**ports, "apicurio.datasource.url": f"jdbc:h2:file:{folder / 'schemas'}"}
    secured = _lock(settings, folder, Clock().now()) if settings.secure == "on" else {}
    options = [f"-D{name}={value}" for name, value in {**_OPTIONS, **place, **secured}.items()]
    # The archive is built for Java 21, newer than Spark asks for; the wheel's runtime is.
    java = java_home(replace(settings, java="bundled")) / "bin" / "java"
    return [str(java), *_SMALL, *options, "-jar", str(program)]


def _lock(settings: Settings, folder: Path, at: datetime) -> dict[str, object]:
    """Issue certificate and token, and return the properties of a server with TLS and tokens.

    The key that signs is forgotten: no further token opens this start, and no token of an earlier start does.
    """
    made = loopback.server_certificate(folder, home_authority(settings), at=at)
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    stated = {"sub": PLATFORM, "iat": int((at - _BEFORE).timestamp()), "exp": int((at + _LASTS).timestamp())}
    parts = [_digits(json.dumps(part).encode()) for part in ({"alg": "RS256", "typ": "JWT"}, stated)]
    signed = key.sign(".".join(parts).encode(), padding.PKCS1v15(), hashes.SHA256())
    replace_private(token_file(settings, FOLDER), ".".join([*parts, _digits(signed)]).encode())
    kind, layout = serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    return {
        **_LOCKED,
        "quarkus.http.ssl.certificate.files": made.path,
        "quarkus.http.ssl.certificate.key-files": made.key,
        "quarkus.oidc.public-key": base64.b64encode(key.public_key().public_bytes(kind, layout)).decode(),
    }


def _digits(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


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
