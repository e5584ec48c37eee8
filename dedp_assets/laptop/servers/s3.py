"""SeaweedFS on loopback: the S3 server of ``DEDP_LAKE=s3``, for a machine without a bucket.

The server lives in ``$DEDP_HOME/s3``: objects, log, and the keys that were made up when it was first started. `dedp up`
supervises one; without a running platform, a command runs the server for the command's time, and other commands use the
same server. One process at a time may serve the objects: a lock of the home holds for the commands (:func:`reached`).
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import secrets
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import IO

from dedp_assets.graph.resources.announced import announce, announced, withdraw
from dedp_assets.graph.resources.engine import EngineError
from dedp_assets.graph.resources.environments import Settings, apply, variable
from dedp_assets.graph.resources.home import running
from dedp_assets.laptop.servers import ports
from dedp_assets.laptop.servers.attached import attached, await_answer
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.extras import needs, optional

__all__ = ["FOLDER", "command", "is_ready", "reached", "require_unused", "serving", "url", "variables"]

FOLDER = "s3"
"""Folder of the home with the server's address, keys and objects."""

_BUCKET, _REGION, _HOST = "dedp", "us-east-1", "127.0.0.1"
_IDENTITIES, _USERS, _OUTPUT = "identities.json", "users.lock", "log"
_ACTIONS = ["Admin", "Read", "Write", "List"]
_PARTS = ("master", "volume", "filer")
_FIXED = (
    f"-ip={_HOST}",
    f"-ip.bind={_HOST}",
    "-master.telemetry=false",  # it would call out
    "-master.resumeState=false",  # otherwise a second start waits 10 seconds for an election among one
    "-master.volumeSizeLimitMB=256",
    "-volume.max=40",
    "-filer.disableHttp",  # it knows no keys
    "-s3",
    "-s3.port.iceberg=0",
    "-s3.port.lance=0",
)
_WITHOUT_KEYS = ("env", "-u", "AWS_ACCESS_KEY_ID", "-u", "AWS_SECRET_ACCESS_KEY")
"""Keys of the environment, whosever they are, would be an administrator's, too, and stand in the log."""
_ANSWER = timedelta(seconds=5)
_START_SECONDS, _LOOK_SECONDS = 90, 0.2
_LOG = logging.getLogger(__name__)


def url(port: int) -> str:
    """Return the URL of the S3 API at a port on loopback."""
    return f"http://{_HOST}:{port}"


def command(folder: Path, *, port: int) -> list[str]:
    """Make the server's folder, unless present, announce the URL, and return the server's command.

    Args:
        folder: folder of the server.
        port: port of the S3 API on loopback.

    Raises:
        ConfigError: if the program is not installed.
    """
    beside = Path(sys.executable).with_name("weed")
    program = str(beside) if beside.exists() else shutil.which("weed")
    if program is None:
        raise ConfigError(f"the S3 server of DEDP_LAKE=s3 {needs('local')}")
    _keys(folder)
    announce(folder, url(port))
    data = folder / "data"
    data.mkdir(exist_ok=True)
    options = [*(f"{part}.port{kind}" for part in _PARTS for kind in ("", ".grpc")), "s3.port.grpc"]
    inner = [f"-{option}={free}" for option, free in zip(options, _free(len(options)), strict=True)]
    place = [f"-dir={data}", f"-s3.config={folder / _IDENTITIES}", f"-s3.port={port}"]
    return [*_WITHOUT_KEYS, program, "-logtostderr=true", "-v=0", "server", *_FIXED, *place, *inner]


def variables(folder: Path, *, port: int) -> dict[str, str]:
    """Return the variables by which clients reach the server, with the home's keys."""
    key, secret = _keys(folder)
    excluded = [each for each in variable("no_proxy").split(",") if each not in ("", _HOST)]
    return {
        "AWS_ENDPOINT_URL": url(port),
        "AWS_REGION": _REGION,
        "AWS_ACCESS_KEY_ID": key,
        "AWS_SECRET_ACCESS_KEY": secret,
        "AWS_ALLOW_HTTP": "true",
        "no_proxy": ",".join([*excluded, _HOST]),
    }


def is_ready(folder: Path, *, port: int, bucket: str = _BUCKET) -> bool:
    """Return whether the bucket takes objects, some time after the first answer.

    The first object makes the bucket.
    """
    obstore, (key, secret) = optional("obstore"), _keys(folder)
    client = optional("obstore.store").S3Store(
        bucket,
        endpoint=url(port),
        region=_REGION,
        access_key_id=key,
        secret_access_key=secret,
        client_options={"allow_http": True, "timeout": _ANSWER, "connect_timeout": _ANSWER},
        retry_config={"max_retries": 0, "retry_timeout": _ANSWER},
    )
    try:
        obstore.put(client, "ready", b"yes", use_multipart=False)
    except optional("obstore.exceptions").BaseError:
        return False
    return True


@contextmanager
def serving(folder: Path, *, bucket: str = _BUCKET) -> Iterator[int]:
    """Run the server at a free port for a block; the server ends with this process, too.

    Args:
        folder: folder of the server.
        bucket: a bucket that takes objects when the block begins.

    Yields:
        The port.

    Raises:
        EngineError: if the server does not start.
    """
    port = ports.free()
    started, log = command(folder, port=port), folder / _OUTPUT
    log.unlink(missing_ok=True)
    with attached(started, log=log) as process:
        try:
            await_answer("the S3 server", process, lambda: is_ready(folder, port=port, bucket=bucket), log=log)
            yield port
        finally:
            withdraw(folder)


@contextmanager
def reached(chosen: Settings) -> Iterator[None]:
    """Name the home's S3 server in the environment for a block; without a running server, run one.

    The server is the platform's, another command's, or this command's. A command that started the server keeps it until
    the other commands are done with it.

    Raises:
        EngineError: if the server does not start, or the platform's does not answer.
    """
    folder = chosen.home / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / _USERS).open("w") as users, (folder / "start.lock").open("w") as start:
        fcntl.flock(start, fcntl.LOCK_EX)  # one command starts the server, and the others find it
        fcntl.flock(users, fcntl.LOCK_SH)
        if address := _address(chosen, folder):
            fcntl.flock(start, fcntl.LOCK_UN)
            apply(variables(folder, port=_port(address)))
            yield
            return
        with serving(folder) as port:
            fcntl.flock(start, fcntl.LOCK_UN)
            apply(variables(folder, port=port))
            try:
                yield
            finally:
                _await_others(users)


def require_unused(chosen: Settings) -> None:
    """Refuse a home whose S3 server a command runs.

    Raises:
        ValueError: in one sentence.
    """
    folder = chosen.home / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / _USERS).open("w") as users:
        try:
            fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ValueError(
                f"a command runs the S3 server of this home ({chosen.home}): wait for the end of the command, then "
                "run `dedp up`"
            ) from None


def _address(chosen: Settings, folder: Path) -> str:
    """Return the URL of the running server, after a wait for a platform's; empty without a server."""
    deadline = time.monotonic() + _START_SECONDS
    while running(chosen) is not None:
        if (found := announced(folder)) and is_ready(folder, port=_port(found)):
            return found
        if time.monotonic() >= deadline:
            raise EngineError(
                f"the platform in {chosen.home} has no S3 server that answers (its log: "
                f"{chosen.home / 'logs' / 's3.log'}): start the platform again with `make up LAKE=s3`"
            )
        time.sleep(_LOOK_SECONDS)
    return announced(folder)


def _await_others(users: IO[str]) -> None:
    """Wait until no other command uses the server; a newer command starts another one."""
    fcntl.flock(users, fcntl.LOCK_UN)
    try:
        fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        _LOG.warning("other commands use the S3 server that this command started: the command ends after them")
        fcntl.flock(users, fcntl.LOCK_EX)


def _free(number: int) -> set[int]:
    """Return free ports, each another one."""
    found = set[int]()
    while len(found) < number:
        found.add(ports.free())
    return found


def _port(address: str) -> int:
    return int(address.rpartition(":")[2])


def _keys(folder: Path) -> tuple[str, str]:
    """Return the access key and the secret of the folder's server, made up at the first call."""
    file = folder / _IDENTITIES
    if not file.exists():
        folder.mkdir(parents=True, exist_ok=True)
        credentials = [{"accessKey": secrets.token_hex(10), "secretKey": secrets.token_urlsafe(30)}]
        draft = folder / f".{_IDENTITIES}.{os.getpid()}"
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as made:
            json.dump({"identities": [{"name": "dedp", "credentials": credentials, "actions": _ACTIONS}]}, made)
        draft.replace(file)
    (found,) = json.loads(file.read_text())["identities"][0]["credentials"]
    return str(found["accessKey"]), str(found["secretKey"])
