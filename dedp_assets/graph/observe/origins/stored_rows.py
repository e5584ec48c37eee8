"""Stored rows of a lake's tables, found without Spark and shown by the classes of columns."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from dedp_assets.graph.declare.tables import LakeTable
from dedp_assets.graph.declare.validation import Validation
from dedp_assets.graph.inputs.feeds import Values
from dedp_assets.graph.observe.origins.tree import Origins
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.parsing.json_fields import json_object
from dedp_assets.patterns.core.schema import TableSpec
from dedp_assets.patterns.delta import Ledger
from dedp_assets.patterns.delta.snapshots.scanning import RowScan
from dedp_assets.patterns.delta.staging.letter_reasons import masked_record, masked_value
from dedp_assets.patterns.delta.staging.stage_files import KEPT_PART

__all__ = ["MOST_SHOWN", "Row", "StoredRows", "holds", "text_of", "validation_of"]

MOST_SHOWN = 10
"""Most rows and keys that are shown of many."""
Row = Mapping[str, Any]


@dataclass(frozen=True)
class StoredRows:
    """Rows of tables by values of columns, and texts of rows."""

    origins: Origins

    def spec(self, name: str) -> TableSpec:
        """Return the declaration of a table by the project, otherwise the one in the log."""
        table = self.origins.table(name)
        declared = {spec.name: spec for spec in table.tables} if table else {}
        return declared[name] if name in declared else self.origins.lake.stored(name).spec

    def key(self, name: str) -> tuple[str, ...]:
        """Return the declared key of a table; empty for a table without a key.

        Of valid records, the columns of their deduplication are a key within a partition.
        """
        table = self.origins.table(name)
        own = validation_of(table) if table and table.spec.name == name else None
        return self.spec(name).key or (tuple(own.keys) if own else ())

    def columns(self, name: str) -> Mapping[str, Any]:
        """Return the stored columns of a table at the newest version."""
        return self.origins.lake.ledger(name).state().columns

    def readable(self, name: str, version: int) -> int:
        """Return a version, or the newest version if the rows of that version are gone from the log."""
        ledger = self.origins.lake.ledger(name)
        return version if version >= ledger.begins_at() else ledger.version()

    def scan(self, name: str, partitions: Sequence[Values] = (), version: int | None = None) -> RowScan:
        """Return the scan of a table's partitions at a version (the newest if ``None``)."""
        ledger = self.origins.lake.ledger(name)
        state = ledger.state(version)
        named = [{c: v for c, v in each.items() if c in state.columns} for each in partitions]
        return RowScan(name, ledger.store, state, tuple(named))

    def refused(self, name: str, key: str) -> list[Row]:
        """Return the refused rows of a partition from the stage of the refused run.

        Raises:
            ConfigError: if nothing of the partition is refused, or the rows were not staged or are gone.
        """
        note = self.origins.refusal(name, key)
        stage = Ledger(note.stage, name=f"the refused rows of {name} {key}".strip()) if note and note.stage else None
        if stage is None or not stage.exists():
            why = "nothing is refused" if note is None else "refused rows are no longer there, or were never written"
            raise ConfigError(f"{name} {key}: {why}: `dedp explain {name} {key}`".replace(" :", ":"))
        state = stage.state()
        kept = state.properties.get(KEPT_PART)
        apart = [each for each in state.partition_columns if each not in self.columns(name)] if kept else []
        found = RowScan(stage.name, stage.store, state, tuple({each: kept} for each in apart)).rows()
        return list(found.drop_columns(apart).to_pylist())

    def found(
        self, name: str, partitions: Sequence[Values], version: int | None, wanted: Sequence[Values]
    ) -> list[Row]:
        """Return the rows with the values of one of ``wanted``."""
        return list(self.scan(name, partitions, version).rows(*wanted).to_pylist())

    def recorded(
        self, name: str, partitions: Sequence[Values], version: int | None, field: tuple[str, Values]
    ) -> list[Row]:
        """Return the rows with a record of JSON that has the wanted values of fields.

        Args:
            name: table of landed records.
            partitions: partitions to read.
            version: version to read; the newest if ``None``.
            field: column with the records, and the wanted value of each field.
        """
        column, wanted = field
        text = max(filter(None, wanted.values()), key=len, default="")
        found = self.scan(name, partitions, version).holding(text, [column]).to_pylist() if text else []
        return [row for row in found if holds(json_object(row[column]), wanted)]

    def shown(self, name: str, row: Row, *, why: str = "") -> dict[str, str]:
        """Return the values of a row as texts, by the classes of columns as in examples of dead letters.

        Args:
            name: table of the row.
            row: the row.
            why: reason of a dead letter, whose landed record is shown by the columns of the valid rows.
        """
        columns, valid = self.spec(name).columns, self._valid_columns(name)
        return {
            column: _bare(masked_record(value, valid, why))
            if why and isinstance(value, str) and column in columns and not columns[column].shows("letter")
            else _bare(masked_value(column, _plain(value), columns.get(column)))
            for column, value in row.items()
        }

    def named(self, name: str, wanted: Values) -> dict[str, str]:
        """Return the texts by which a person named a row, as the classes of the columns show values."""
        hidden = self.spec(name).withheld("letter")
        return {c: v if c not in hidden and v is not None else self.shown(name, {c: v})[c] for c, v in wanted.items()}

    def _valid_columns(self, name: str) -> dict[str, Any]:
        table = self.origins.table(name)
        spec = table.spec if table else self.spec(name)
        return {column.lower(): each for column, each in spec.columns.items()}


def validation_of(table: LakeTable[...] | None) -> Validation | None:
    """Return the validation behind a table of valid records; ``None`` for any other table.

    A replay is a method of the validation, or of the declaration in YAML that holds one: nothing else names it.
    """
    of = getattr(table.runs.replay, "__self__", None) if table else None
    found = of if isinstance(of, Validation) else getattr(of, "validation", None)
    return found if isinstance(found, Validation) else None


def text_of(value: object) -> str | None:
    """Return the text of a value, by which rows of another table are found; ``None`` for NULL.

    Example:
        >>> from datetime import date
        >>> text_of(date(2026, 1, 5)), text_of(True), text_of(7)
        ('2026-01-05', 'true', '7')
    """
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    return value.isoformat() if isinstance(value, date | datetime) else str(value)


def holds(record: Mapping[str, Any] | None, wanted: Values) -> bool:
    """Return whether a record has the wanted values, by their texts; ``None`` is no record."""
    return record is not None and all(text_of(record.get(name)) == value for name, value in wanted.items())


def _plain(value: Any) -> Any:  # noqa: ANN401 - any value of a row
    """Return a value with texts in place of the times and numbers within that JSON has not."""
    return json.loads(json.dumps(value, default=str)) if isinstance(value, list | dict) else value


def _bare(text: str) -> str:
    """Return a text without the quotes around."""
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"" else text
