"""The Spark engine as a Dagster resource: embedded, or shared over Spark Connect."""

import logging
import socket
import time
from typing import Any
from urllib.parse import urlsplit

from dagster_pyspark import LazyPySparkResource
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from dedp_assets.graph.resources import engine
from dedp_assets.graph.resources.environments import Settings, apply, settings
from dedp_assets.graph.resources.home import running
from dedp_assets.graph.resources.tokens import token_file
from dedp_assets.patterns.core.errors import NotReady

__all__ = ["SparkEngine", "answers"]

_ANSWER_SECONDS = 3
_START_SECONDS = 180
_LOOK_SECONDS = 0.5
_NEVER = logging.CRITICAL + 1
_OF_A_SESSION = ("spark.sql.", "spark.databricks.", "spark.python.sql.")


class SparkEngine(LazyPySparkResource):
    """A Spark session that starts, or attaches to a shared engine, at the first use.

    Attributes:
        remote: ``sc://host:port`` of a shared engine; empty starts an embedded one.
        spark_config: further Spark settings.
    """

    remote: str = ""
    spark_config: dict[str, str] = {}

    @property
    def session(self) -> SparkSession:
        """The Spark session, started or attached at the first call.

        Raises:
            NotReady: if the shared engine does not answer.
        """
        session: SparkSession = self.spark_session
        return session

    def _init_session(self) -> None:
        if self._spark_session is not None:
            return
        # Spark would log every refused expression, with the values in it, beside the library's one sentence.
        PySparkLogger.getLogger("SQLQueryContextLogger").setLevel(_NEVER)
        if self.remote:
            # All of Spark Connect comes with it, which takes half a second that an embedded engine need not spend.
            from pyspark.sql.connect.client.retries import DefaultPolicy  # noqa: PLC0415

            _require_answer(self.remote)
            if _is_kept_running(self.remote):  # and nobody else's engine, which has to do without our token
                apply(engine_proof(settings()))
            session = SparkSession.builder.remote(self.remote).getOrCreate()
            # Spark's default waits ten minutes for an engine that is gone, at every call and again at exit.
            session.client.set_retry_policies([DefaultPolicy(max_retries=6, backoff_multiplier=2, max_backoff=4000)])
        else:
            chosen = settings()
            engine.use_java(chosen)
            conf: dict[str, Any] = {**engine.spark_conf(chosen), **self.spark_config}
            if SparkSession.getActiveSession() is not None:  # the engine runs, and only its sessions can be changed
                conf = {name: value for name, value in conf.items() if name.startswith(_OF_A_SESSION)}
            session = SparkSession.builder.config(map=conf).getOrCreate()
        self._spark_session = session


def engine_proof(chosen: Settings) -> dict[str, str]:
    """Return the variable with the token of the home's shared engine, for server and clients.

    Empty without ``DEDP_SECURE=on``.
    """
    if chosen.secure == "off":
        return {}
    return {"SPARK_CONNECT_AUTHENTICATE_TOKEN": token_file(chosen, "engine").read_text()}


def answers(remote: str) -> bool:
    """Return whether the engine at ``sc://host:port`` takes connections now."""
    address = urlsplit(remote.split(";", maxsplit=1)[0])
    return not _refusal(address.hostname or "", address.port or 15002)


def _require_answer(remote: str) -> None:
    """Refuse an engine that does not answer; wait for the engine of a platform that is starting here."""
    address = urlsplit(remote.split(";", maxsplit=1)[0])
    waits_until = time.monotonic() + _START_SECONDS
    while error := _refusal(address.hostname or "", address.port or 15002):
        if time.monotonic() >= waits_until or not _is_kept_running(remote):
            raise NotReady(
                f"the Spark engine sc://{address.netloc} does not answer ({error}): start it with `make up`, or unset "
                "SPARK_REMOTE to run an embedded one"
            )
        time.sleep(_LOOK_SECONDS)


def _refusal(host: str, port: int) -> str:
    try:
        socket.create_connection((host, port), timeout=_ANSWER_SECONDS).close()
    except OSError as error:
        return str(error)
    return ""


def _is_kept_running(remote: str) -> bool:
    platform = running(settings())
    return platform is not None and platform.engine == remote
