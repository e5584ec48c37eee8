"""Private Spark sessions: settings that apply to a single statement.

Delta takes a statement's transaction and commit record from settings of the session, and a session may be shared by
threads: what is set there for one statement reaches the writes of all others. So a statement that needs settings runs
in a session of its own, a clone that sees what the caller's session sees (settings, functions, views, catalogs).
"""

from __future__ import annotations

import atexit
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any
from weakref import WeakSet

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.names import SUBSTITUTED

__all__ = ["private", "require_literals"]

_OF_ONE_COMMIT = (
    "spark.databricks.delta.write.txnAppId",
    "spark.databricks.delta.write.txnVersion",
    "spark.databricks.delta.commitInfo.userMetadata",
)

_DOLLAR = ("dedp.dollar", "$")
"""A setting to refer to where a value has ``${``: Spark replaces references inside of settings, too."""

_ESCAPED = "spark.sql.parser.escapedStringLiterals"
_accepted: WeakSet[SparkSession] = WeakSet()


def require_literals(session: SparkSession) -> None:
    """Refuse a session with ``escapedStringLiterals``, which changes the meaning of SQL literals.

    A session is looked at once: over Spark Connect, each look is a round trip.

    Raises:
        ConfigError: if the session has the setting; the text names it.
    """
    if session not in _accepted:
        if str(session.conf.get(_ESCAPED, "false")).lower() == "true":
            raise ConfigError(f"session setting {_ESCAPED} must be false, not true: it changes what an SQL text says")
        _accepted.add(session)


@contextmanager
def private(session: SparkSession, settings: Mapping[str, str]) -> Iterator[SparkSession]:
    """Clone ``session`` with further ``settings``, for the time of a block and for this caller alone.

    A clone costs some milliseconds and is never used twice. Rows of ``session`` cannot enter its statements: hand them
    over as files. What the caller set for commits of its own (a transaction, user metadata) does not hold in it: a
    statement of the library would be passed over as already applied.

    Example:
        ``with private(session, {"spark.databricks.delta.commitInfo.userMetadata": note}) as own:``
        ``own.sql(statement)``
    """
    own, end = _clone(session)
    try:
        for key in _OF_ONE_COMMIT:
            own.conf.unset(key)
        own.conf.set(*_DOLLAR)
        for key, value in settings.items():
            own.conf.set(key, value.replace(SUBSTITUTED, f"${{{_DOLLAR[0]}}}{{"))
        yield own
    finally:
        end()


def _clone(session: Any) -> tuple[SparkSession, Callable[[], None]]:  # noqa: ANN401 - the two kinds share no type
    """Clone a session; return the clone and the function that ends the clone."""
    if not hasattr(session, "cloneSession"):
        # Only the JVM's half knows how to clone; Python's newSession forgets settings, functions and views.
        return type(session)(session.sparkContext, session._jsparkSession.cloneSession()), lambda: None
    own = session.cloneSession()
    own.client.set_retry_policies(session.client.get_retry_policies())
    return own, lambda: _end_remote(own.client)


def _end_remote(client: Any) -> None:  # noqa: ANN401 - as above
    # A server that is gone has no session to release, and what the statement said of it matters more.
    with suppress(PySparkException):
        client.release_session()
    client.close()
    # pyspark remembers every client until the process ends, and there will be many.
    atexit.unregister(client._on_exit)
