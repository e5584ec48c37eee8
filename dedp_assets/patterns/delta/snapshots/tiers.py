"""Storage tiers: partitions of a table whose files lie in exports at other places.

The table's property :data:`TIERED` names them, so each version knows which of its rows lie elsewhere, and a RESTORE
brings back files and property together. :meth:`TableHandle.read`, by which every reader of the library gets its rows,
reads them from there, or refuses them by name; a write to one of them is refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.names import identifier
from dedp_assets.patterns.core.records import slice_name
from dedp_assets.patterns.core.running.permissions import restricted_to
from dedp_assets.patterns.delta.log.ledger import Ledger
from dedp_assets.patterns.delta.log.table_state import TableState
from dedp_assets.patterns.delta.snapshots.definition import require_partition
from dedp_assets.patterns.delta.snapshots.reading import read_at

__all__ = ["TIERED", "Placed", "placed", "require_in_place", "require_writable", "stated", "tiered"]

TIERED, FORMER = "dedp.tiered", "dedp.tiered.former"
"""Table properties with the partitions on tiers, and with the places of copies that no partition needs any more."""


@dataclass(frozen=True, slots=True)
class Placed:
    """A partition on a tier.

    Attributes:
        partition: its value, in the log's spelling.
        tier: name of the tier.
        place: location of the export with its files, as a URI.
        size_bytes: size of the files, in bytes.
        online: whether the tier is read by queries.
    """

    partition: Mapping[str, str]
    tier: str
    place: str
    size_bytes: int
    online: bool

    def meets(self, partition: Mapping[str, str | None]) -> bool:
        """Return whether rows of a partition may be on the tier."""
        return all(partition.get(column, value) == value for column, value in self.partition.items())

    def require_copy(self, table: str) -> Ledger:
        """Return the log of the copy.

        Raises:
            ConfigError: if the copy was removed since; names partition and tier.
        """
        ledger = Ledger(self.place)
        with restricted_to(None):  # whoever may read the table may read its rows where the table's own log puts them
            there = ledger.exists()
        if not there:
            raise ConfigError(
                f"{table} can no longer be read in {_some([self])} at that version: the copy there was removed. Take a "
                "newer version"
            )
        return ledger

    def snapshot(self, table: str) -> DeltaTable:
        """Return the newest version of the copy for readers without Spark.

        Raises:
            ConfigError: as :meth:`require_copy`.
        """
        ledger = self.require_copy(table)
        with restricted_to(None):  # as above
            return ledger.state().snapshot

    def rows(
        self,
        session: SparkSession,
        table: str,
        state: TableState,
        partitions: Sequence[Mapping[str, str | None]],
    ) -> DataFrame:
        """Read the rows on the tier, in the columns of a table's state; lazy."""
        kept = {name.lower() for name in state.columns}
        ledger = self.require_copy(table)
        with restricted_to(None):  # as above
            rows = read_at(session, ledger.store, ledger.state(), partitions)
        return rows.select(*(identifier(name) for name in rows.columns if name.lower() in kept))


def tiered(state: TableState) -> tuple[Placed, ...]:
    """Return the partitions of a table on tiers."""
    return tuple(Placed(**each) for each in json.loads(state.properties.get(TIERED, "[]")))


def stated(parts: Iterable[Placed]) -> str | None:
    """Write the table property of partitions on tiers; ``None`` for no partition."""
    sorted_parts = sorted(parts, key=lambda part: slice_name(part.partition))
    return json.dumps([asdict(part) for part in sorted_parts]) if sorted_parts else None


def placed(table: str, state: TableState, partitions: Sequence[Mapping[str, str | None]]) -> list[Placed]:
    """Return the partitions on tiers that a query of named partitions (of all, if none is named) reads.

    Raises:
        ConfigError: if one of them lies on a tier that is not read; names partitions and tiers.
    """
    found = [part for part in tiered(state) if not partitions or any(map(part.meets, partitions))]
    if away := [part for part in found if not part.online]:
        raise ConfigError(
            f"{table} cannot be read in {_some(away)}: bring them back (cost.storage_tiering.bring_back), or name "
            "other partitions"
        )
    return found


def require_in_place(table: str, state: TableState, *partitions: Mapping[str, str | None]) -> None:
    """Refuse a write to partitions on a tier; one without partition columns is to all.

    Raises:
        ConfigError: names partitions and tiers.
    """
    if away := [part for part in tiered(state) if any(map(part.meets, partitions))]:
        raise ConfigError(
            f"{table} cannot be written in {_some(away)}: bring them back first (cost.storage_tiering.bring_back), or "
            "name the partition to write"
        )


def require_writable(
    table: str, state: TableState, partition: Mapping[str, object], *, append: bool = False
) -> dict[str, str]:
    """Return a partition to write in the log's spelling; refuse a partition on a tier.

    Of an append to no partition, the commit tells where rows lie.

    Raises:
        ConfigError: as :func:`require_partition`, or if rows of the partition lie on a tier.
    """
    owned = require_partition(table, state, partition)
    if owned or not append:
        require_in_place(table, state, owned)
    return owned


def _some(parts: Sequence[Placed], most: int = 3) -> str:
    shown = [f"{slice_name(part.partition)} (tier {part.tier})" for part in parts]
    return ", ".join(shown[:most]) + (f" and {len(shown) - most} more" if len(shown) > most else "")
