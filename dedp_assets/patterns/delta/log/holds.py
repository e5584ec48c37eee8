"""Legal holds of partitions; holds stand in the log.

A hold is a transaction id, as a milestone is: a RESTORE, which brings back earlier properties, and the cleanup of the
log leave both. Who holds a partition, and why, is a part of the id.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass

from dedp_assets.patterns.core.records import slice_name
from dedp_assets.patterns.delta.log.ledger import Ledger
from dedp_assets.patterns.delta.log.moments import RELEASED
from dedp_assets.patterns.delta.log.partition_values import Partition

__all__ = ["HELD", "LegalHold", "apart_from_held", "holds", "shown_holds"]

HELD = 1
"""Version of the transaction id of a hold that stands."""
_PREFIX = "dedp.hold/"


@dataclass(frozen=True, slots=True)
class LegalHold:
    """A partition without moves and expiry at any age.

    Attributes:
        partition: partition column -> value, in the log's spelling.
        by: who holds the partition.
        because: why.
    """

    partition: Mapping[str, str]
    by: str
    because: str

    @property
    def hold_id(self) -> str:
        """The transaction id of the hold."""
        return f"{_PREFIX}{json.dumps(asdict(self), sort_keys=True)}"

    def meets(self, partition: Mapping[str, str | None]) -> bool:
        """Return whether rows of a partition may be held."""
        return all(partition.get(column, value) == value for column, value in self.partition.items())

    def __str__(self) -> str:
        return f"{slice_name(self.partition)} ({self.by}: {self.because})"


def holds(ledger: Ledger) -> tuple[LegalHold, ...]:
    """Return the standing holds of a table, by partition."""
    ids = {action["appId"]: int(action["version"]) for action in ledger.actions("txn")}
    standing = [each for each, version in ids.items() if each.startswith(_PREFIX) and version != RELEASED]
    return tuple(sorted((LegalHold(**json.loads(each.removeprefix(_PREFIX))) for each in standing), key=str))


def apart_from_held(ledger: Ledger, partitions: Iterable[Partition]) -> tuple[list[Partition], str]:
    """Return the partitions without a hold, and a description of the holds on the others."""
    standing, free, met = holds(ledger), list[Partition](), dict[str, LegalHold]()
    for key in partitions:
        found = [hold for hold in standing if hold.meets(dict(key))]
        met |= {hold.hold_id: hold for hold in found}
        free += [] if found else [key]
    return free, shown_holds(met.values())


def shown_holds(found: Iterable[LegalHold], most: int = 3) -> str:
    """Describe holds by partition, holder and reason; empty for no hold."""
    shown = [*map(str, found)]
    more = f" and {len(shown) - most} more" if len(shown) > most else ""
    return f"on legal hold: {', '.join(shown[:most])}{more}" if shown else ""
