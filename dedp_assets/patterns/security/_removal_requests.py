"""Requests to remove the rows of persons: batch, guard against too many rows, statuses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from dedp_assets.patterns.core.errors import ConfigError, ContractError
from dedp_assets.patterns.core.options import require_types

__all__ = ["Removal", "Removals"]

_SHOWN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """A request to remove the rows of one person.

    Attributes:
        request: name of the request, for statuses and errors; no personal value.
        id: key of the person, as a text; in no error, log, plan or commit.
        received: when the request came in, with time zone; the deadline counts from then.

    Raises:
        ConfigError: for a value of another type, or a request without a name.
    """

    request: str
    id: str | None = field(repr=False)
    received: datetime | None = None

    def __post_init__(self) -> None:
        require_types(self)
        if not self.request.strip() or self.request == self.id:
            raise ConfigError("request must name the request, not be empty and not be the id of the person")


@dataclass(frozen=True, slots=True)
class Removals:
    """A batch of requests with a limit of matching rows.

    Attributes:
        requests: the batch.
        most: greatest share of the rows that a request, or the batch, may match, from 0 to 1.

    Raises:
        ConfigError: for an empty batch, a request without an id or named twice, or a share that is none.
    """

    requests: Sequence[Removal]
    most: float

    def __post_init__(self) -> None:
        if not self.requests:
            raise ConfigError("requests must name at least one person, not none")
        if not 0 < self.most <= 1:
            raise ConfigError(f"most must be a share of the rows above 0 and up to 1, not {self.most}")
        if blank := [each.request for each in self.requests if not (each.id or "").strip()]:
            raise ConfigError(f"requests must each have an id, not be empty as {_named(blank)}: nothing was removed")
        named = Counter(each.request for each in self.requests)
        if twice := sorted(name for name, count in named.items() if count > 1):
            raise ConfigError(f"requests must each have a name of their own, not share {_named(twice)}")

    @property
    def ids(self) -> frozenset[str]:
        """Ids of all requests."""
        return frozenset(each.id for each in self.requests if each.id)

    def allowed(self, found: Mapping[str, int], rows: int, where: str) -> frozenset[str]:
        """Return the ids with rows to remove.

        Args:
            found: id -> number of rows.
            rows: number of all rows.
            where: name of the dataset, for the error.

        Raises:
            ContractError: if the batch matches more rows than the limit.
        """
        allowed = frozenset(each for each in self.ids if 0 < found.get(each, 0) <= self.most * rows)
        if (matched := sum(found[each] for each in allowed)) > self.most * rows:
            raise ContractError(
                f"{where}: the batch matches {matched} of {rows} rows, more than the share of {self.most:g} that most "
                "allows: nothing was removed. Look for a wrong key or a test id, or allow more"
            )
        return allowed

    def statuses(self, found: Mapping[str, int], allowed: frozenset[str], rows: int) -> dict[str, str]:
        """Return the status of each request by name."""
        return {each.request: self._status(each, found, allowed, rows) for each in self.requests}

    def _status(self, request: Removal, found: Mapping[str, int], allowed: frozenset[str], rows: int) -> str:
        count = found.get(request.id or "", 0)
        if not count:
            return "nothing found"
        if request.id in allowed:
            return f"removed {count} rows"
        return f"refused: matches {count} of {rows} rows, more than the share of {self.most:g}"


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{', '.join(names[:_SHOWN])}{more}"
