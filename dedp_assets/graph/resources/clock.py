"""The clock as a resource: the only reader of the current time."""

from datetime import datetime, timezone
from typing import Any

import dagster as dg

__all__ = ["Clock"]


class Clock(dg.ConfigurableResource[Any]):
    """The current time in UTC; ``fixed`` (ISO 8601) stops the clock, for tests and demos."""

    fixed: str = ""

    def now(self) -> datetime:
        """Return the current time, with time zone."""
        return datetime.fromisoformat(self.fixed) if self.fixed else datetime.now(timezone.utc)  # noqa: TID251
