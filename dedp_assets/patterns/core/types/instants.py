"""Instants: datetimes with a time zone as options, and timestamps of Spark's rows.

A datetime without a time zone means another moment in each zone, so as an option it is refused. Spark's rows hold such
datetimes all the same, of the zone of the Python process: :func:`collected` tells which instants they are.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from dedp_assets.patterns.core.errors import ConfigError

__all__ = ["collected", "instant", "micros", "timestamp"]

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def instant(value: object, what: str) -> datetime:
    """Return a datetime with a time zone unchanged; refuse every other value.

    Args:
        value: what was given.
        what: the name of the option.

    Raises:
        ConfigError: for a time without a zone, a date, a text.

    Example:
        >>> instant(datetime(2026, 1, 5), "until")
        Traceback (most recent call last):
        dedp_assets.patterns.core.errors.ConfigError: until must be a datetime with a time zone, not datetime...
    """
    if not isinstance(value, datetime) or value.utcoffset() is None:
        raise ConfigError(
            f"{what} must be a datetime with a time zone, not {value!r}; of one in a row of Spark's, "
            "core.instants.collected tells the zone"
        )
    return value


def collected(value: datetime) -> datetime:
    """Read a TIMESTAMP of a row that Spark handed over, embedded or over Connect, as an instant in UTC.

    Example:
        >>> collected(datetime(2026, 1, 5, 12, tzinfo=timezone.utc))
        datetime.datetime(2026, 1, 5, 12, 0, tzinfo=datetime.timezone.utc)
    """
    return value.astimezone(timezone.utc)


def micros(at: datetime) -> int:
    """Count the microseconds from 1970 to an instant."""
    return (at - _EPOCH) // timedelta(microseconds=1)


def timestamp(at: datetime | None) -> str:
    """Write an instant as SQL, independent of the session's time zone; NULL for ``None``."""
    return "CAST(NULL AS TIMESTAMP)" if at is None else f"timestamp_micros({micros(at)}L)"
