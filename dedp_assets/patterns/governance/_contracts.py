"""The records of a data contract: columns, quality, service level, consumers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from dedp_assets.patterns.core.columns import spelled_as
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.options import require_types
from dedp_assets.patterns.core.schema import Column

__all__ = ["Consumer", "Contract", "Quality", "Sla", "respelled"]

_VERSION = re.compile(r"(0|[1-9]\d{0,8})\.(0|[1-9]\d{0,8})\.(0|[1-9]\d{0,8})")
_CLOCK = re.compile(r"([01]\d|2[0-3]):[0-5]\d")


def _freeze(record: object, names: Iterable[str]) -> None:
    """Turn lists of a record into tuples, so that records of equal content are equal."""
    for name in names:
        value = getattr(record, name)
        if value is not None:
            object.__setattr__(record, name, tuple(value))


def respelled(columns: Iterable[str], named: Any) -> Any:  # noqa: ANN401 - a list of columns, or a mapping by column
    """Return a list of columns, or a mapping by column, in the spelling of the columns, case aside."""
    spelled = spelled_as(columns, named)
    return dict(zip(spelled, named.values(), strict=True)) if isinstance(named, Mapping) else tuple(spelled)


@dataclass(frozen=True, slots=True)
class Consumer:
    """A reader of a table.

    Attributes:
        name: dataset, application or team that reads.
        owner: who answers for the reader, ``team:<name>`` or an address; empty if the name says it.
        columns: columns that are read; ``None`` if nobody knows, which counts as all.
    """

    name: str
    owner: str = ""
    columns: Sequence[str] | None = None

    def __post_init__(self) -> None:
        require_types(self)
        _freeze(self, ("columns",))

    @property
    def contact(self) -> str:
        """The name to ask before a change: the owner, otherwise the consumer."""
        return self.owner or self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Quality:
    """Promises about the rows of a table. Bounds are inclusive: a value at a bound keeps the promise.

    Attributes:
        checks: name -> SQL predicate that every row satisfies.
        rules: name -> rule of an audit in words, held on each publish.
        null_shares: column -> greatest share of missing values in a partition, 0 to 1.
        allowed: column -> values that are allowed, apart from NULL; whole numbers as texts.
        daily_rows_min: fewest rows of a day; ``None`` for any number.
        daily_rows_max: most rows of a day; ``None`` for any number.

    Raises:
        ConfigError: for a share outside of 0 and 1, no allowed value, or bounds that no number of rows satisfies.
    """

    checks: Mapping[str, str] = field(default_factory=dict)
    rules: Mapping[str, str] = field(default_factory=dict)
    null_shares: Mapping[str, float] = field(default_factory=dict)
    allowed: Mapping[str, Sequence[str]] = field(default_factory=dict)
    daily_rows_min: int | None = None
    daily_rows_max: int | None = None

    def __post_init__(self) -> None:
        require_types(self)
        for column, share in self.null_shares.items():
            if not 0 <= share <= 1:
                raise ConfigError(f"null_shares must be shares from 0 to 1, not {share:g} of {column}")
        object.__setattr__(self, "allowed", {column: tuple(values) for column, values in self.allowed.items()})
        for column, values in self.allowed.items():
            if not values or len({*values}) < len(values):
                raise ConfigError(f"allowed must give {column} different values, not {list(values)}")
        least, most = self.daily_rows_min, self.daily_rows_max
        if (least or 0) < 0 or (most is not None and most < (least or 0)):
            raise ConfigError(f"daily_rows_max must be at least daily_rows_min and 0, not {most} with {least}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sla:
    """The service level of a table.

    Attributes:
        fresh_hours: greatest age of the newest data; ``None`` for any.
        due: time of day, like ``08:00``, by which a day's rows are there; empty without a promise.
        zone: time zone of that clock.
        days_after: days by which the deadline is later than the first such time after the data's end.
        weekdays: days of the week on which something is due; empty for all.
    """

    fresh_hours: float | None = None
    due: str = ""
    zone: str = "UTC"
    days_after: int = 0
    weekdays: Sequence[str] = ()

    def __post_init__(self) -> None:
        require_types(self)
        _freeze(self, ("weekdays",))
        if self.fresh_hours is not None and self.fresh_hours <= 0:
            raise ConfigError(f"fresh_hours must be above 0, not {self.fresh_hours:g}")
        if self.due and not _CLOCK.fullmatch(self.due):
            raise ConfigError(f"due must be a time of day like 08:00, not {self.due!r}")

    @property
    def deadline(self) -> str:
        """The deadline in words."""
        days = f" {self.days_after} days later" if self.days_after else ""
        on = f" on {', '.join(self.weekdays)}" if self.weekdays else ""
        return f"at {self.due} {self.zone}{days}{on}"


_NO_QUALITY, _NO_SLA = Quality(), Sla()


@dataclass(frozen=True, slots=True, kw_only=True)
class Contract:
    """The contract of a table: the promises of a producer to consumers, in a version.

    Attributes:
        name: ``layer/dataset``.
        version: ``major.minor.patch``: a breaking change raises the first, any other change of a promise the second, a
            change of words the last.
        owner: who answers for the table.
        columns: column name -> type, meaning, and whether values are required, in order.
        partition_by: partition columns, in order.
        key: columns that tell the rows apart, if that is promised.
        comment: meaning of one row.
        defaults: column -> SQL literal that stands in rows from before the column was there.
        quality: promises about the rows.
        sla: service level.
        consumers: who reads the table, and which columns.
        notice_days: days between the announcement of a breaking change and the change.
        published_at: when the version was published, with time zone; ``None`` if nobody noted that.
        not_read: parts of the document that the contract was read from and says nothing of; no promise, and no
            difference.

    Raises:
        ConfigError: for a version of another form, or a column that is named and not there.
    """

    name: str
    version: str
    owner: str
    columns: Mapping[str, Column]
    partition_by: Sequence[str] = ()
    key: Sequence[str] = ()
    comment: str = ""
    defaults: Mapping[str, str] = field(default_factory=dict)
    quality: Quality = _NO_QUALITY
    sla: Sla = _NO_SLA
    consumers: Sequence[Consumer] = ()
    notice_days: int = 30
    published_at: datetime | None = None
    not_read: Sequence[str] = field(default=(), compare=False)

    def __post_init__(self) -> None:
        require_types(self)
        _freeze(self, ("consumers", "not_read"))
        for name in ("partition_by", "key", "defaults"):
            object.__setattr__(self, name, respelled(self.columns, getattr(self, name)))
        by_column = {each: respelled(self.columns, getattr(self.quality, each)) for each in ("null_shares", "allowed")}
        object.__setattr__(self, "quality", replace(self.quality, **by_column))
        if not _VERSION.fullmatch(self.version):
            raise ConfigError(f"version must be major.minor.patch like 1.2.0, not {self.version!r}")
        if not self.columns:
            raise ConfigError(f"columns must name the columns of {self.name}, not none")
        if self.notice_days < 0:
            raise ConfigError(f"notice_days must be 0 or more, not {self.notice_days}")
        named = {
            "partition_by": self.partition_by,
            "key": self.key,
            "defaults": self.defaults,
            "null_shares": self.quality.null_shares,
            "allowed": self.quality.allowed,
        }
        for option, columns in named.items():
            if strange := [each for each in columns if each not in self.columns]:
                raise ConfigError(f"{option} must name columns of {self.name}, not {', '.join(strange)}")

    def raised(self, part: int) -> str:
        """Return the next version: of part 0 the next major one, 1 minor, 2 patch; 3 for the same."""
        numbers = [int(each) for each in self.version.split(".")]
        kept = [*numbers[:part], *(each + 1 for each in numbers[part : part + 1])]
        return ".".join(map(str, [*kept, 0, 0][:3]))
