"""Tiers of storage, and the partitions of a table by age."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timezone

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.keys import require_distinct
from dedp_assets.patterns.core.options import require_types
from dedp_assets.patterns.delta import Ledger, LegalHold, LocalStore, Store, TableState, holds, store_at
from dedp_assets.patterns.delta.maintenance import require_apart
from dedp_assets.patterns.delta.snapshots.tiers import Placed, tiered

__all__ = ["Tier", "Dated", "root_of", "units_of"]


@dataclass(frozen=True, slots=True)
class Tier:
    """A class of storage for partitions from an age on.

    Attributes:
        name: of the tier.
        from_days: least age of its partitions, in days.
        price: of a GB (10^9 bytes) and month, in any currency.
        at: root of its files: a folder, or ``s3://bucket/prefix``; empty for files that stay in the table's folder.
        online: whether queries read it; a tier that is not online has a root.
    """

    name: str
    from_days: int
    price: float
    at: str = ""
    online: bool = True

    def __post_init__(self) -> None:
        require_types(self)
        if not self.name or self.from_days < 0 or self.price < 0:
            raise ConfigError(f"a tier must have a name, and from_days and price of 0 or more, not be {self}")
        if not self.online and not self.at:
            raise ConfigError(f"at of tier {self.name} must be a root, as the tier is not online, not an empty text")


@dataclass(frozen=True, slots=True)
class Dated:
    """The partitions of one date: size, tier by age, the tier with the files, and legal holds."""

    partition: Mapping[str, str]
    size_bytes: int
    wanted: Tier
    placed: Placed | None = None
    holds: Sequence[LegalHold] = ()

    @property
    def is_of_age(self) -> bool:
        """Return whether the files belong at another place; a partition leaves the tiers by request only."""
        return bool(self.wanted.at) and (self.placed is None or self.placed.tier != self.wanted.name)

    @property
    def is_due(self) -> bool:
        """Return whether the files move: a hold wins over age."""
        return self.is_of_age and not self.holds

    def tier_after(self, tiers: Sequence[Tier]) -> Tier:
        """Return the tier after a move: the one of the age, or for a held partition the present one."""
        if self.is_due or not self.is_of_age:
            return self.wanted
        present = self.placed.tier if self.placed else tiers[0].name
        return next((tier for tier in tiers if tier.name == present), tiers[0])


def units_of(ledger: Ledger, state: TableState, tiers: Sequence[Tier], by: str, now: datetime) -> list[Dated]:
    """Describe the dates of a table, oldest first; refuse tiers or a column that cannot be."""
    _require_tiers(tiers)
    by = next((column for column in state.kinds if column.lower() == by.lower()), by)
    if state.kinds.get(by) != "date":
        raise ConfigError(
            f"by must be a partition column of {ledger.name} of type DATE, not {by}: it has {dict(state.kinds)}"
        )
    today = now.astimezone(timezone.utc).date()
    sizes: dict[str, int] = {}
    for key, stats in state.statistics().items():
        if value := dict(key)[by]:
            sizes[value] = sizes.get(value, 0) + stats.bytes
    away, standing = {part.partition[by]: part for part in tiered(state)}, holds(ledger)

    def unit(value: str) -> Dated:
        size = sizes.get(value, 0) + (away[value].size_bytes if value in away else 0)
        age_days = (today - date.fromisoformat(value)).days
        held = [hold for hold in standing if hold.meets({by: value})]
        return Dated({by: value}, size, _tier_of(age_days, tiers), away.get(value), held)

    return [unit(value) for value in sorted({*sizes, *away})]


def _tier_of(age_days: int, tiers: Sequence[Tier]) -> Tier:
    return [tier for tier in tiers if tier.from_days <= max(age_days, 0)][-1]


def _require_tiers(tiers: Sequence[Tier]) -> None:
    require_distinct("names of tiers", [tier.name for tier in tiers])
    ages = [tier.from_days for tier in tiers]
    if not tiers or ages[0] != 0 or ages != sorted({*ages}):
        raise ConfigError(f"tiers must begin at 0 days and be in order of age, not begin at {ages or 'nothing'}")
    if tiers[0].at:
        raise ConfigError(f"at of the first tier must be empty, for it is the table's folder, not {tiers[0].at}")


def root_of(tier: Tier, table: Store) -> Store:
    """Open the place of a tier; refuse a missing place.

    Raises:
        ConfigError: for a missing folder or bucket, or a place in the table.
    """
    root = store_at(tier.at)
    require_apart(table, root)
    try:
        beside = root.above().list() if isinstance(root, LocalStore) else root.list()
    except OSError as error:
        raise ConfigError(f"at of tier {tier.name} must be a place that is there, not {tier.at} ({error})") from error
    if isinstance(root, LocalStore) and root.name not in beside:
        raise ConfigError(f"at of tier {tier.name} must be a place that is there, not {tier.at}")
    return root
