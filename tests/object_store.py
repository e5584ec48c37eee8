"""An S3 server of the test process's own, on the loopback interface, and the environment that names it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from dedp_assets.laptop.servers import ports
from dedp_assets.patterns.delta.storage import s3_bucket
from tests.faults.processes import wait_until

__all__ = ["KEY", "SECRET", "ObjectStore", "forget_clients", "serving"]

KEY, SECRET = "test-key", "test-s3cret-of-the-suite"
_SERVICES = ("master", "volume", "filer", "s3")
_QUIET = ("-logtostderr=true", "-v=0")
_FIXED = (
    "-ip=127.0.0.1",
    "-ip.bind=127.0.0.1",
    "-master.telemetry=false",  # it would call out
    "-volume.max=20",
    "-master.volumeSizeLimitMB=256",
    "-s3",
    "-s3.port.iceberg=0",
    "-s3.port.lance=0",
)


@dataclass(frozen=True)
class ObjectStore:
    """A running S3 server with one bucket.

    Attributes:
        port: of its S3 API.
        bucket: there from the start.
    """

    port: int
    bucket: str = "lake"

    @property
    def environment(self) -> dict[str, str]:
        """The variables by which obstore, deltalake and Spark reach the server."""
        return {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.port}",
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": "us-east-1",
            "AWS_ALLOW_HTTP": "true",
            "no_proxy": "127.0.0.1",
        }

    @contextmanager
    def named(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        """Name the server in the environment until the end of the block."""
        for name, value in self.environment.items():
            monkeypatch.setenv(name, value)
        forget_clients()
        yield
        forget_clients()


def forget_clients() -> None:
    """Let the next requests of this process go by the environment as it is then."""
    s3_bucket._opened.cache_clear()


@contextmanager
def serving(folder: Path) -> Iterator[ObjectStore]:
    """Run an S3 server with its files in a folder, until the end of the block; ended by its process id."""
    program = Path(sys.executable).with_name("weed")
    found = [ports.free() for _ in range(2 * len(_SERVICES))]
    named = [f"-{name}.port{kind}={found.pop()}" for name in _SERVICES for kind in ("", ".grpc")]
    port = int(named[-2].partition("=")[2])
    identity = {
        "name": "test",
        "credentials": [{"accessKey": KEY, "secretKey": SECRET}],
        "actions": ["Admin", "Read", "Write", "List"],
    }
    folder.mkdir(parents=True)
    config = folder / "identities.json"
    config.write_text(json.dumps({"identities": [identity]}))
    command = [str(program), *_QUIET, "server", f"-dir={folder}", *_FIXED, f"-s3.config={config}", *named]
    made = ObjectStore(port)
    with (folder / "log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as server:
        try:
            assert wait_until(lambda: _is_ready(made), seconds=120), (folder / "log").read_text()[-3000:]
            yield made
        finally:
            server.kill()  # after TERM it takes its time
    shutil.rmtree(folder, ignore_errors=True)


def _is_ready(made: ObjectStore) -> bool:
    """Whether a bucket can be made and written: the server answers earlier than that."""
    from pyarrow.fs import S3FileSystem

    system = S3FileSystem(
        access_key=KEY,
        secret_key=SECRET,
        endpoint_override=f"127.0.0.1:{made.port}",
        scheme="http",
        region="us-east-1",
        allow_bucket_creation=True,
        request_timeout=5,
        connect_timeout=1,
    )
    try:
        system.create_dir(made.bucket)
        with system.open_output_stream(f"{made.bucket}/ready") as file:
            file.write(b"yes")
        system.delete_file(f"{made.bucket}/ready")
    except OSError:
        return False
    return True
