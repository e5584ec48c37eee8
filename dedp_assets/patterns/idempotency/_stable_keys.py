"""Stable keys: keys of groups of rows by first record, and keys assigned to groups before."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from dedp_assets.patterns.core.keys import key_of
from dedp_assets.patterns.core.names import RESERVED, identifier
from dedp_assets.patterns.core.types.meeting import as_held, united
from dedp_assets.patterns.core.types.partitions import quoted

__all__ = ["FIRST", "LAST", "REFUSED", "Grouping"]

FIRST, LAST = "first_record", "last_record"
"""Columns that say which record of a group was appended first, and which last."""
REFUSED = re.compile(r"no stable key: ([^\n]+?)\.(\s|$)")
"""What the text of Spark's error holds when a row was refused a key."""

_RECORD, _KNOWN, _KEPT = f"{RESERVED}record", f"{RESERVED}known", f"{RESERVED}kept"
_OPENED, _CLOSED = f"{RESERVED}opened", f"{RESERVED}closed"
_FIRSTS, _LASTS, _LOST = f"{RESERVED}firsts", f"{RESERVED}lasts", f"{RESERVED}lost"


@dataclass(frozen=True)
class Grouping:
    """Definition of the groups of rows that share a key.

    Attributes:
        entity: columns that say whose rows they are; part of the key.
        record: columns that say when and where a record was appended; those of the first one are part of the key.
        group: columns that tell groups of one entity apart; they may change, and are no part of the key.
        key: the column to add.
    """

    entity: Sequence[str]
    record: Sequence[str]
    group: Sequence[str]
    key: str

    def keyed(self, rows: DataFrame) -> DataFrame:
        """Add each group's first and last record, and a key from the first; refuse unplaced records."""
        placed = " AND ".join(f"{identifier(c)} IS NOT NULL" for c in self.record)
        nowhere = f"a record does not say when and where it was appended ({', '.join(self.record)})"
        record = f"if({placed}, struct({_listed(self.record)}), {_refusal(quoted(nowhere))}) AS {_RECORD}"
        ends = [f"min({_RECORD}) {self._whole} AS {FIRST}", f"max({_RECORD}) {self._whole} AS {LAST}"]
        found = rows.selectExpr("*", record).selectExpr("*", *ends)
        values = [*map(identifier, self.entity), *(f"{FIRST}.{identifier(c)}" for c in self.record)]
        return found.selectExpr("*", f"{key_of(found, values)} AS {identifier(self.key)}")

    def kept(self, keyed: DataFrame, known: DataFrame, *, refuse: bool) -> DataFrame:
        """Replace the keys of groups in ``keyed`` by the keys of the same groups in ``known``.

        A group is the one that began with its first record. Where that record is gone, it is the one that ended with
        its last one, or the entity's only one.

        Args:
            keyed: rows from :meth:`keyed`.
            known: the keys given before, with ``entity``, :data:`FIRST` and :data:`LAST`.
            refuse: whether a group that begins with another record now is refused instead of keeping its key.

        Raises:
            SchemaMismatch: if the types of a column do not meet without loss.
        """
        sides = united({"the rows": keyed, "the known keys": known}, [*self.entity, FIRST, LAST, self.key])
        keyed, known = sides.values()
        keyed = as_held(keyed, StructType().add(_RECORD, keyed.schema[FIRST].dataType), self.key)
        names = [f"{_KNOWN}_{n}" for n, _ in enumerate(self.entity)]
        entry = f"struct({FIRST}, {LAST}, {identifier(self.key)} AS key) AS {_KNOWN}"
        given = known.selectExpr(*[f"{identifier(c)} AS {n}" for c, n in zip(self.entity, names, strict=True)], entry)
        # Where several of them fit, the first one is taken: in their own order, not in that of arrival.
        by_entity = given.groupBy(*names).agg(F.array_sort(F.collect_list(_KNOWN)).alias(_KNOWN))
        same = " AND ".join(f"{identifier(c)} <=> {n}" for c, n in zip(self.entity, names, strict=True))
        met = keyed.join(by_entity, F.expr(same), "left").selectExpr(
            "*",
            f"get(filter({_KNOWN}, k -> k.{FIRST} = {_RECORD}), 0) AS {_OPENED}",
            f"get(filter({_KNOWN}, k -> k.{LAST} = {_RECORD}), 0) AS {_CLOSED}",
        )
        entity = f"OVER (PARTITION BY {_listed(self.entity)})"
        seen = [f"collect_set({c}.key) {entity} AS {keys}" for c, keys in ((_OPENED, _FIRSTS), (_CLOSED, _LASTS))]
        ended = f"min(if(array_contains({_FIRSTS}, {_CLOSED}.key), NULL, {_CLOSED})) {self._whole}"
        only = "" if self.group else f", get({_KNOWN}, 0)"
        kept = f"array_min(array_compact(array(min({_OPENED}) {self._whole}, {ended}{only}))) AS {_KEPT}"
        gone = f"filter({_KNOWN}, k -> NOT array_contains(array_union({_FIRSTS}, {_LASTS}), k.key))"
        lost = f"get({gone}, 0).key AS {_LOST}"
        return (
            met.selectExpr("*", *seen)
            .selectExpr("*", kept, lost)
            .withColumns(
                {self.key: F.expr(self._decided(refuse=refuse)), FIRST: F.expr(f"coalesce({_KEPT}.{FIRST}, {FIRST})")}
            )
        )

    @property
    def _whole(self) -> str:
        return f"OVER (PARTITION BY {_listed([*self.entity, *self.group])})"

    def _decided(self, *, refuse: bool) -> str:
        """Return SQL for the key of a row: registered, new, or refused."""
        vanished = (
            f"concat('neither end is left of the group with the key ', {_LOST}, ', and its entity has new records')"
        )
        moved = f"concat('the group with the key ', {_KEPT}.key, ' begins with another record than it did')"
        return (
            f"CASE WHEN {_KEPT} IS NULL AND {_LOST} IS NOT NULL THEN {_refusal(vanished)} "
            f"WHEN {str(refuse).lower()} AND {_KEPT}.{FIRST} <> {FIRST} THEN {_refusal(moved)} "
            f"ELSE coalesce({_KEPT}.key, {identifier(self.key)}) END"
        )


def _refusal(text: str) -> str:
    return f"raise_error(concat('no stable key: ', {text}, '.'))"


def _listed(columns: Sequence[str]) -> str:
    return ", ".join(map(identifier, columns))
