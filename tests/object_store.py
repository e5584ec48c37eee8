"""An S3 server of the test process's own, on the loopback interface, and the environment that names it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dedp_assets.graph.resources.environments import CHECKOUT, child_environment
from dedp_assets.laptop.servers import s3
from dedp_assets.patterns.delta.storage import s3_bucket

__all__ = ["ObjectStore", "forget_clients", "serving", "told"]


@dataclass(frozen=True)
class ObjectStore:
    """A running S3 server with one bucket.

    Attributes:
        port: of its S3 API.
        environment: the variables by which obstore, deltalake and Spark reach the server.
        bucket: there from the start.
    """

    port: int
    environment: Mapping[str, str]
    bucket: str = "lake"

    @property
    def secrets(self) -> tuple[str, str]:
        """The keys, which nothing may show."""
        return self.environment["AWS_ACCESS_KEY_ID"], self.environment["AWS_SECRET_ACCESS_KEY"]

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
    s3_bucket._CONDITIONAL.clear()


@contextmanager
def serving(folder: Path) -> Iterator[ObjectStore]:
    """Run an S3 server with its files in a folder, until the end of the block."""
    with s3.serving(folder, bucket=ObjectStore.bucket) as port:
        yield ObjectStore(port, s3.variables(folder, port=port))
    shutil.rmtree(folder, ignore_errors=True)


def told(story: str, server: ObjectStore, place: str, folder: Path, **variables: str) -> list[Any]:
    """What the module of a story says of a place in the bucket, and of the same in a folder.

    A process with an engine of its own tells both: the engine that all tests share has no jars for buckets.
    """
    environment = child_environment({**server.environment, **variables}, without=("SPARK_REMOTE",))
    command = [sys.executable, "-m", story, f"s3://{server.bucket}/{place}", str(folder / place)]
    done = subprocess.run(command, cwd=CHECKOUT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-5000:]
    assert not [secret for secret in server.secrets if secret in done.stdout + done.stderr]
    both: list[Any] = json.loads(done.stdout)
    return both
