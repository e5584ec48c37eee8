"""Foreign keys: rows whose parent is missing, and the value that stands for an unknown parent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from dedp_assets.patterns.core.columns import COMPARED, fields_of, require_columns, require_named, require_rows
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.names import RESERVED, identifier
from dedp_assets.patterns.core.options import require_types
from dedp_assets.patterns.core.sql.sql_options import naming_options, require_repeatable, truth
from dedp_assets.patterns.core.types.meeting import equal
from dedp_assets.patterns.core.types.partitions import literal, quoted, stored_type, text
from dedp_assets.patterns.core.types.sql_types import spelled

__all__ = ["Bound", "References", "bound", "is_orphan", "is_unknown", "with_parents", "with_unknown"]

_SIDES = ("the rows", "the parent")


@dataclass(frozen=True, slots=True)
class References:
    """A foreign key, and the policy for rows without a parent (orphans).

    A row with NULL in one of the columns refers to nothing and is no orphan.

    Attributes:
        name: a sentence that can be true, in snake case (``every_visit_has_a_page``).
        keys: column of the rows -> key column of the parent, of a type that holds its values.
        orphans: ``refuse`` the batch; put them into ``quarantine``; or publish them with the ``unknown`` member.
        unknown: column of the rows -> value that stands for a parent that is not known, for ``orphans="unknown"``.
        where: SQL predicate of the rows that need a parent, all of them if empty; parents are not filtered by it.

    Raises:
        ConfigError: if no key is named, or ``unknown`` has other columns than ``keys``, or another policy.
    """

    name: str
    keys: Mapping[str, str]
    orphans: Literal["refuse", "quarantine", "unknown"] = "refuse"
    unknown: Mapping[str, str | int] = field(default_factory=dict)
    where: str = ""

    def __post_init__(self) -> None:
        require_types(self)
        require_named(f"keys of {self.name}", [*self.keys, *self.keys.values()])
        if not self.keys:
            raise ConfigError(f"keys of {self.name} must name a column and its key in the parent, not {self.keys}")
        wanted = [*self.keys] if self.orphans == "unknown" else []
        if {c.lower() for c in self.unknown} != {c.lower() for c in wanted}:
            raise ConfigError(
                f"unknown of {self.name} must have a value for {', '.join(wanted) or 'no column'} with "
                f"orphans={self.orphans!r}, not {dict(self.unknown)}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound(References):
    """A foreign key with the rows of the parent.

    Attributes:
        parent: rows of the parent, with its key columns.
    """

    parent: DataFrame


def bound(references: Sequence[References], parents: Mapping[str, DataFrame]) -> tuple[Bound, ...]:
    """Return foreign keys with the rows of their parents.

    Raises:
        ConfigError: for a reference without parents, and parents without a reference.
    """
    names = [each.name for each in references]
    if {*names} != {*parents}:
        raise ConfigError(
            f"parents must be rows for the references {', '.join(names) or '(none)'}, not for "
            f"{', '.join(parents) or 'none'}"
        )
    for name, rows in parents.items():
        require_rows(f"the parent of {name}", rows)
    stated = [{each: getattr(rule, each) for each in References.__dataclass_fields__} for rule in references]
    return tuple(Bound(**each, parent=parents[each["name"]]) for each in stated)


def with_parents(rows: DataFrame, references: Sequence[Bound]) -> DataFrame:
    """Add a column for each foreign key that is NULL where no parent has the row's key; lazy.

    The parents are joined by their distinct keys, so that the rows stay as many as they are.

    Raises:
        ConfigError: for a column that is not there or cannot be compared, or a predicate that changes.
        SchemaMismatch: if the types of two partners do not meet without loss.
    """
    for number, each in enumerate(references):
        for side, columns in ((rows, [*each.keys]), (each.parent, [*each.keys.values()])):
            require_columns(side, columns, COMPARED)
        if each.where:
            with naming_options(rows, "where of", {each.name: each.where}):
                require_repeatable(rows, "where of", {each.name: each.where})
                _ = rows.filter(truth(each.where)).isStreaming
        mine, theirs = fields_of(rows, each.keys), fields_of(each.parent, each.keys.values())
        names = [f"{RESERVED}key{number}_{place}" for place in range(len(theirs))]
        parent = each.parent.select(*[F.col(identifier(f.name)).alias(n) for f, n in zip(theirs, names, strict=True)])
        known = parent.distinct().withColumn(_found(number), F.expr("true"))
        met = [
            equal(one, other, (f"c.{identifier(one.name)}", f"p.{name}"), sides=_SIDES)
            for one, other, name in zip(mine, theirs, names, strict=True)
        ]
        joined = rows.alias("c").join(known.alias("p"), F.expr(" AND ".join(met)), "left")
        rows = joined.select("c.*", f"p.{_found(number)}")
    return rows


def is_orphan(number: int, reference: References) -> str:
    """Write the SQL predicate of rows that have a key without a parent, over :func:`with_parents`."""
    named = [f"{identifier(column)} IS NOT NULL" for column in reference.keys]
    about = [truth(reference.where)] if reference.where else []
    return " AND ".join([f"{_found(number)} IS NULL", *named, *about])


def is_unknown(reference: References) -> str:
    """Write the SQL predicate of rows with the unknown member, or ``false`` without one."""
    same = [f"CAST({identifier(c)} AS STRING) <=> {quoted(str(value))}" for c, value in reference.unknown.items()]
    return " AND ".join(same) or "false"


def with_unknown(rows: DataFrame, references: Sequence[Bound]) -> DataFrame:
    """Replace the key of each orphan by the unknown member where that is the policy; lazy.

    Raises:
        ConfigError: for a member that is no value of the type of its column.
    """
    for number, each in enumerate(references):
        given = {f.name.lower(): _member(each, f) for f in fields_of(rows, each.unknown)}
        if given:
            orphan = is_orphan(number, each)
            shown = [
                f"if({orphan}, {given[c.lower()]}, {identifier(c)}) AS {identifier(c)}"
                if c.lower() in given
                else identifier(c)
                for c in rows.columns
            ]
            rows = rows.selectExpr(*shown)
    return rows


def _member(reference: References, column: T.StructField) -> str:
    """Write SQL for the value of a column that stands for an unknown parent."""
    value, kind = reference.unknown[column.name], stored_type(spelled(column.dataType))
    try:
        return literal(text(value, kind), kind)
    except ValueError as error:
        wanted = f"a value of {column.name}, a {spelled(column.dataType)}"
        raise ConfigError(f"unknown of {reference.name} must be {wanted}, not {value!r}: {error}") from None


def _found(number: int) -> str:
    return f"{RESERVED}found{number}"
