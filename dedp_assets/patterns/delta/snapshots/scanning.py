"""Scan of a table's rows at one version without Spark, by delta-rs, for a person's question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from deltalake.exceptions import DeltaError

from dedp_assets.patterns.core.errors import ConfigError, ContractError
from dedp_assets.patterns.core.running.permissions import require_allowed
from dedp_assets.patterns.delta.log.table_state import TableState
from dedp_assets.patterns.delta.snapshots.policy_views import literal, named
from dedp_assets.patterns.delta.snapshots.reading import missing_files
from dedp_assets.patterns.delta.snapshots.tiers import placed
from dedp_assets.patterns.delta.storage.store import Store

__all__ = ["RowScan"]

Values = Mapping[str, str | None]
"""Column -> text of the value; ``None`` for NULL."""


@dataclass(frozen=True)
class RowScan:
    """The rows of a table at one version, read without Spark.

    Deletion vectors, renamed columns and files elsewhere are delta-rs' business, as for every reader without Spark.

    Attributes:
        name: what messages call the table.
        store: the table's.
        state: the table at the version.
        partitions: partitions to read, in the log's spelling; each may name some of the columns. All, if none is named.
    """

    name: str
    store: Store
    state: TableState
    partitions: tuple[Values, ...] = ()

    def rows(self, *wanted: Values) -> pa.Table:
        """Return the rows with the values of one of ``wanted``; all rows, if nothing is wanted.

        Raises:
            ConfigError: for a text that is no value of its column's type, files that a vacuum removed, a partition on a
                tier that is not read, or a block of code without the permission to read the table.
            ContractError: if a file cannot be read.
        """
        return self._scan([*self._within(), *_any_of(wanted)], wanted)

    def holding(self, text: str, columns: Sequence[str]) -> pa.Table:
        """Return the rows in which one of the text columns holds a text.

        Raises:
            ConfigError, ContractError: as :meth:`rows`.
        """
        held = " OR ".join(f"strpos({named(column)}, {literal(text)}) > 0" for column in columns)
        return self._scan([*self._within(), f"({held})"] if held else ["false"], ())

    def _within(self) -> list[str]:
        return _any_of(self.partitions)

    def _scan(self, conditions: Sequence[str], wanted: Sequence[Values]) -> pa.Table:
        require_allowed("read", self.store.address)
        elsewhere = placed(self.name, self.state, self.partitions)
        self._require_files()
        snapshots = [self.state.snapshot, *(part.snapshot(self.name) for part in elsewhere)]
        try:
            read = [pa.table(each.scan(predicate=" AND ".join(conditions) or None)) for each in snapshots]
            return pa.concat_tables(read, promote_options="default").select([*self.state.columns])
        except (DeltaError, OSError, ValueError) as error:
            if wanted and "cast" in str(error).lower():
                kinds = [f"{c} must be a value of type {str(self.state.columns[c]['type']).upper()}" for c in wanted[0]]
                raise ConfigError(
                    f"{self.name}: {', '.join(kinds)}, not {', '.join(map(str, wanted[0].values()))}"
                ) from None
            raise ContractError(f"{self.name} cannot be read at version {self.state.version}: {error}") from error

    def _require_files(self) -> None:
        if gone := missing_files(self.store, self.state, self.partitions):
            raise ConfigError(
                f"{self.name} can no longer be read at version {self.state.version}: a vacuum removed {len(gone)} of "
                f"its files, so name a newer version, as `dedp restore {self.name}` lists them"
            )


def _any_of(wanted: Sequence[Values]) -> list[str]:
    """Return the SQL condition of the values of any mapping, as a list; empty for a condition of all rows."""
    if not all(wanted):
        return []
    each = [" AND ".join(_is(column, value) for column, value in values.items()) for values in wanted]
    return [f"({' OR '.join(f'({condition})' for condition in each)})"] if each else []


def _is(column: str, value: str | None) -> str:
    return f"{named(column)} IS NULL" if value is None else f"{named(column)} = {literal(value)}"
