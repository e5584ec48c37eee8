"""Edition of a table's code in a migration: the columns declared, written and read in a phase.

A migration is made of deployments: code that writes both forms, then readers that name the new columns, then code
without the old ones. Here the phase that the table's log knows chooses among them when the code is loaded, so that a
process that starts after a phase is the next deployment, on any machine and after any crash.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from dedp_assets.graph.resources.environments import settings
from dedp_assets.graph.resources.lake import lake_of
from dedp_assets.patterns.core.errors import PatternError
from dedp_assets.patterns.core.names import identifier
from dedp_assets.patterns.core.results import Split
from dedp_assets.patterns.core.schema import Column
from dedp_assets.patterns.delta import Ledger
from dedp_assets.patterns.quality._migration.phases import PHASES, Phase, stored
from dedp_assets.patterns.quality.schema_migrator import Migration, both_forms

__all__ = ["Edition", "edition_at", "edition_of"]


@dataclass(frozen=True, slots=True)
class Edition:
    """The code of one phase of a table's migration.

    Attributes:
        table: name of the table.
        migration: the moves.
        new: declarations of the new columns.
        reached: the last phase that was entered when the code was loaded; ``None`` before the first one.
    """

    table: str
    migration: Migration
    new: Mapping[str, Column]
    reached: Phase | None = None

    @property
    def writes_new(self) -> bool:
        """``True`` from the phase ``declared`` on: rows get the new columns."""
        return self.reached is not None

    @property
    def reads_new(self) -> bool:
        """``True`` from the phase ``both`` on: readers take the new columns."""
        return self._has_reached("both")

    @property
    def writes_old(self) -> bool:
        """``True`` up to the phase ``both``: rows get the old columns."""
        return not self._has_reached("switched")

    @property
    def is_ahead(self) -> bool:
        """``True`` while runs wait for the next phase, whose columns the code declares already."""
        return self.reached in ("declared", "switched")

    def columns(self, old: Mapping[str, Column]) -> dict[str, Column]:
        """Return the declared columns of the table.

        Args:
            old: the columns before the migration.
        """
        gone = set() if self.writes_old else self._old
        kept = {name: column for name, column in old.items() if name not in gone}
        return {**kept, **(self.new if self.writes_new else {})}

    def readable(self, columns: Iterable[str]) -> tuple[str, ...]:
        """Return the columns for a reader of all columns: without the old columns once readers are switched.

        Args:
            columns: the declared columns.
        """
        gone = self._old if self.reads_new else set()
        return tuple(name for name in columns if name not in gone)

    def sql(self, column: str) -> str:
        """Write SQL for the value of an old column.

        Args:
            column: a column before the migration.
        """
        return self._back()[column] if self.reads_new and column in self._back() else identifier(column)

    def origins(self, *columns: str) -> list[str]:
        """Return the columns that readers take, for the lineage of a reader.

        Args:
            columns: columns before the migration.
        """
        news = {old: form.news for form in self.migration.forms for (old, *_) in form.olds}
        found = (new for column in columns for new in (news.get(column, (column,)) if self.reads_new else (column,)))
        return [*dict.fromkeys(found)]

    def reader(self, code_version: str) -> str:
        """Return the code version of a reader, different after the switch to the new columns.

        Args:
            code_version: the version of the reader before the migration.
        """
        return f"{code_version} after {self.migration.name}" if self.reads_new else code_version

    def written(self, split: Split, *, part: str = "valid") -> Split:
        """Give the rows of a part the declared columns; lazy.

        Args:
            split: rows with the columns before the migration.
            part: the outcome of the rows that are written to the table.
        """
        if not self.writes_new:
            return split
        gone = set() if self.writes_old else self._old
        names = [name for name in split.parts[part] if name not in gone]
        rows = both_forms(split.rows, migration=self.migration)
        return replace(split, rows=rows).narrowed(part, [*names, *self.new])

    @property
    def _old(self) -> set[str]:
        return {name for name, *_ in self.migration.old_columns}

    def _has_reached(self, phase: Phase) -> bool:
        return self.reached is not None and PHASES.index(self.reached) >= PHASES.index(phase)

    def _back(self) -> dict[str, str]:
        return {old: sql for form in self.migration.forms for (old, *_), sql in form.back.items()}


def edition_of(table: str, migration: Migration, new: Mapping[str, Column]) -> Edition:
    """Return the edition for the phase of a table of the home's lakehouse, as :func:`edition_at`."""
    return edition_at(lake_of(settings()).ledger(table), migration, new)


def edition_at(ledger: Ledger, migration: Migration, new: Mapping[str, Column]) -> Edition:
    """Return the edition for the phase that a table's log knows, without Spark.

    Args:
        ledger: log of the table, which need not exist. A damaged log tells of no phase.
        migration: the moves.
        new: declarations of the new columns.

    Raises:
        ConnectionError: if the server of the table's bucket does not answer. The phase is unknown then, and the code of
            another phase would write other columns.
    """
    known = None
    try:
        known = stored(ledger.name, ledger.state(), migration) if ledger.exists() else None
    except ConnectionError:
        raise
    except (PatternError, OSError):
        # A migration by this name with other moves is somebody else's. A damaged log is named by whoever reads the
        # table, and must not keep the code of all other tables from being loaded.
        pass
    return Edition(ledger.name, migration, new, known.phase if known else None)
