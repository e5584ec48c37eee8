"""Sources outside of the lake, as external assets at the beginning of the lineage."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

import dagster as dg

__all__ = ["Source"]


@dataclass(frozen=True, slots=True)
class Source:
    """A data source of tables outside of the lake.

    Attributes:
        name: system and dataset, like ``landing/visits``.
        description: what lies there, and who puts it there.
        kinds: what Dagster's catalogue shows it as, like ``kafka``.
        owner: who answers for it, ``team:<name>`` or an address.
        older: counts the records from before a time that the source still has; without it, the source forgets nothing
            by itself, or nobody can tell.
    """

    name: str
    description: str
    kinds: tuple[str, ...]
    owner: str
    older: Callable[[datetime], int] | None = field(default=None, compare=False)

    @property
    def key(self) -> dg.AssetKey:
        """The asset key: system, then dataset."""
        return dg.AssetKey(self.name.split("/"))

    def spec(self) -> dg.AssetSpec:
        """Return the source as an external asset, which Dagster shows and never materializes."""
        return dg.AssetSpec(
            self.key,
            description=self.description,
            group_name="sources",
            kinds={*self.kinds, "source"},
            owners=[self.owner],
        )
