"""Encryptor: column encryption by AES-256-GCM, under keys of a table, a purpose or a person.

Problem: whoever gets hold of files, a backup or an administrator's account reads every value in the clear.
Solution: named columns are encrypted before the write (AES-256-GCM), under a key of the table, a purpose or each
    person. Keys are wrapped by a key of the store of secrets. Deleting a person's key erases that person everywhere.
Consequences: 37 bytes more for each value, no statistics, no order, no join but of deterministic columns. A lost key is
    lost data, so keys are deleted with a grace. A rerun writes other bytes for the same values.
Choose instead: Pseudo-Anonymizer, if nobody needs the values back; a policy of access, if files are out of reach.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.functions import arrow_udf

from dedp_assets.patterns.core.columns import (
    COMPARED,
    NAMED,
    Use,
    require_columns,
    require_free,
    require_rows,
    spelled_as,
)
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.keys import key_of, require_distinct
from dedp_assets.patterns.core.names import RESERVED, identifier
from dedp_assets.patterns.core.options import require_types, typed
from dedp_assets.patterns.core.types.sql_types import parsed_schema
from dedp_assets.patterns.security._key_ring import KeyRing, UnusableKey
from dedp_assets.patterns.security._sealing import Sealing, joined

__all__ = ["encrypt", "decrypt", "Encryption", "KeyRing"]

_TYPES = (T.StringType, T.BinaryType, T.BooleanType, T.IntegralType, T.DecimalType, T.DateType)
_ENCRYPTED = Use(
    lambda kind: isinstance(kind, (*_TYPES, T.NullType)),
    "has no text for each value: cast it to STRING, or name a text, a whole number, a decimal, a date or bytes",
)
_SEALED = Use(lambda kind: isinstance(kind, (T.BinaryType, T.NullType)), "is not encrypted: name encrypted columns")
_RESULT = "STRUCT<value: BINARY, fault: STRING>"
_OUTCOME = f"{RESERVED}outcome_"


@dataclass(frozen=True, slots=True, kw_only=True)
class Encryption:
    """Binding of encrypted values: the same for :func:`encrypt` and :func:`decrypt`.

    Attributes:
        table: name of the table; a value opens in this table alone.
        row_key: columns that tell a row from all others; a value opens in its row alone.
        purpose: name of the keys; the table's, unless stated.
        subject: column with the person; each person has keys of their own. Empty for one key of the purpose.
        deterministic: whether equal values are equal when encrypted (AES-SIV), for a join or a lookup within the
            purpose; with a subject, equal values of one person and column, so that changes are recognised. Whoever
            reads the files sees which values are equal, and how often.
        shredded: whether a value of a deleted key is an error or NULL.

    Raises:
        ConfigError: for a binding that cannot be.
    """

    table: str
    row_key: Sequence[str] = ()
    purpose: str = ""
    subject: str = ""
    deterministic: bool = False
    shredded: Literal["refuse", "null"] = "refuse"

    def __post_init__(self) -> None:
        require_types(self)
        if not self.table:
            raise ConfigError("table must be the name of the table, not empty")
        if not self.deterministic and not self.row_key:
            raise ConfigError(
                "row_key must name the columns that tell rows apart, such as [user_id], not be empty: otherwise a "
                "value could be moved to another row"
            )
        if self.deterministic and (self.row_key or not (self.purpose or self.subject)):
            raise ConfigError(
                "deterministic must be stated with a purpose, the name of the join, or with the subject of the values, "
                "not with row_key: equal values would not be equal"
            )

    @property
    def keys(self) -> str:
        """Name of the keys in the ring."""
        return self.purpose or self.table

    def bound_to(self, column: str) -> bytes:
        """Return the bytes with the place of a column, part of the associated data of each value."""
        if self.deterministic and not self.subject:
            return joined(["dedp value 1", "equal", self.keys])
        kind = "equal of a person" if self.deterministic else "random"
        return joined(["dedp value 1", kind, self.table, column.lower(), self.keys])


@typed
def encrypt(rows: DataFrame, keys: KeyRing, *, columns: Sequence[str], bound: Encryption) -> DataFrame:
    """Encrypt columns of rows; lazy.

    Args:
        rows: the rows.
        keys: ring with the keys; missing ones are made.
        columns: texts, bytes, whole numbers, decimals, dates or truths; all are BINARY afterwards.
        bound: table, row and person of the values.

    Returns:
        The rows with BINARY in place of the columns. NULL stays NULL, and an empty text is a value. No key is in the
        plan. A value under a deleted key, or without a person, is an error when the rows are read.

    Raises:
        ConfigError: for columns that are not there, of another type, or part of the row's key.
        UnusableKey: if the key was deleted.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from dedp_assets.patterns.core.results import Access
        >>> from dedp_assets.patterns.core.secret import Secret
        >>> wrapping = Access("users", {"read": ("keys/columns",)}, "", version="1", secret=Secret("0f" * 32))
        >>> keys = KeyRing.opened(Path(tempfile.mkdtemp()) / "keys.ring", wrapping)
        >>> users = frame("id INT, email STRING", (1, "ada@example.com"), (2, None))
        >>> bound = Encryption(table="silver/users", row_key=["id"])
        >>> stored = encrypt(users, keys, columns=["email"], bound=bound)
        >>> [(row.id, row.email and len(row.email)) for row in stored.orderBy("id").collect()]
        [(1, 52), (2, None)]
        >>> rows(decrypt(stored, keys, columns={"email": "STRING"}, bound=bound))
        [(1, 'ada@example.com'), (2, None)]
    """
    named = _checked(rows, columns, bound, _ENCRYPTED)
    if bound.subject:
        require_columns(rows, [bound.subject], NAMED)
    kinds = {field.name: field.dataType for field in rows.schema.fields}
    beside = _row(rows, bound)
    if bound.subject:
        beside += [F.col(identifier(bound.subject)).cast("string")]
    outcomes = {}
    for column in named:
        # Bytes of the text; a cast of a number to BINARY would be the number's own.
        held = F.col(identifier(column))
        text = held if isinstance(kinds[column], T.BinaryType) else held.cast("string").cast("binary")
        seal = _sealing(keys, bound, column, writes=True).encrypt
        outcomes[column] = _called(_without_rows(seal) if bound.deterministic else seal, text, *beside)
    comments = {column: f"encrypted {kinds[column].simpleString().upper()}" for column in named}
    return _replaced(rows, outcomes, {column: lambda value: value for column in named}, comments)


@typed
def decrypt(rows: DataFrame, keys: KeyRing, *, columns: Mapping[str, str], bound: Encryption) -> DataFrame:
    """Decrypt columns of rows; lazy.

    Args:
        rows: the rows.
        keys: ring with the keys.
        columns: encrypted column -> type of the values, such as ``STRING`` or ``DATE``.
        bound: table, row and person of the values, as they were encrypted.

    Returns:
        The rows with the values in place of the columns. A value that was changed or moved, and one whose key is
        unknown, is an error when the rows are read, with table, column and key id.

    Raises:
        ConfigError: for columns that are not there or not encrypted, and types that no encrypted value has.
    """
    kinds = [field.dataType for field in parsed_schema(columns)]
    named = dict(zip(_checked(rows, columns, bound, _SEALED), kinds, strict=True))
    for column, kind in named.items():
        if not isinstance(kind, _TYPES):
            name = kind.simpleString().upper()
            raise ConfigError(f"columns must have the type that was encrypted, such as STRING, not {name} of {column}")
    row = _row(rows, bound)
    outcomes = {
        column: _called(_sealing(keys, bound, column, writes=False).decrypt, F.col(identifier(column)), *row)
        for column in named
    }
    made = {column: partial(_typed_value, place=f"{bound.table}.{column}", kind=kind) for column, kind in named.items()}
    return _replaced(rows, outcomes, made, {})


def _checked(rows: DataFrame, columns: Collection[str], bound: Encryption, use: Use) -> list[str]:
    """Return the columns in the spelling of the rows."""
    rows = require_free(require_rows("this pattern", rows))
    if not columns:
        raise ConfigError("columns must name at least one column, not none")
    require_distinct("columns", columns)
    require_columns(rows, [*columns, *bound.row_key])
    require_columns(rows, columns, use)
    require_columns(rows, bound.row_key, COMPARED)
    if met := {name.lower() for name in columns} & {name.lower() for name in bound.row_key}:
        raise ConfigError(f"columns must not be of the row's key, not {sorted(met)}: readers need the key in the clear")
    return spelled_as(rows.columns, columns)


def _sealing(keys: KeyRing, bound: Encryption, column: str, *, writes: bool) -> Sealing:
    """Return the work of a task on a column, with keys in memory and in no plan."""
    nullify, place = bound.shredded == "null", f"{bound.table}.{column}"
    made = Sealing(place, bound.bound_to(column), bound.keys, bound.deterministic, nullify, {})
    if bound.subject:
        return replace(made, ring=keys)
    if not writes:
        return replace(made, keys=dict(keys.of_purpose(bound.keys)))
    current = keys.current_of(bound.keys, [None])[None]
    if isinstance(current, UnusableKey) and not nullify:
        raise UnusableKey(f"{place}: {current}")
    return replace(made, current=current)


def _row(rows: DataFrame, bound: Encryption) -> list[Column]:
    """Return the key of a row, as 32 bytes; empty for values that are bound to no row."""
    if bound.deterministic:
        return []
    return [F.unhex(F.expr(key_of(rows, [*map(identifier, spelled_as(rows.columns, bound.row_key))])))]


def _without_rows(seal: Callable[..., pa.Array]) -> Callable[..., pa.Array]:
    """Return a function of values and persons, for values that are bound to no row."""
    return lambda values, persons: seal(values, None, persons)


def _called(work: Callable[..., pa.Array], *columns: Column) -> Column:
    count = len(columns)

    # Spark counts the arguments by the signature, and infers the kind of function from the hints.
    def one(values: pa.Array) -> pa.Array:
        return work(values, None)

    def two(values: pa.Array, rows: pa.Array) -> pa.Array:
        return work(values, rows)

    def three(values: pa.Array, rows: pa.Array, persons: pa.Array) -> pa.Array:
        return work(values, rows, persons)

    found: Column = arrow_udf((one, two, three)[count - 1], _RESULT)(*columns)  # type: ignore[call-overload]
    return found


def _replaced(
    rows: DataFrame,
    outcomes: Mapping[str, Column],
    made: Mapping[str, Callable[[Column], Column]],
    comments: Mapping[str, str],
) -> DataFrame:
    """Put values in place of columns, or raise the fault of a value."""
    names = {column: f"{_OUTCOME}{number}" for number, column in enumerate(outcomes)}
    held = rows.withColumns({names[column]: outcome for column, outcome in outcomes.items()})

    def shown(column: str) -> Column:
        if column not in names:
            return F.col(identifier(column))
        found = F.col(names[column])
        # Raised by Spark, whose error is one sentence; of a function of Python it would be a stack.
        fault = found["fault"]
        value = F.when(fault.isNotNull(), F.raise_error(fault)).otherwise(made[column](found["value"]))
        return (
            value.alias(column, metadata={"comment": comments[column]}) if column in comments else value.alias(column)
        )

    return held.select(*map(shown, rows.columns))


def _typed_value(value: Column, *, place: str, kind: T.DataType) -> Column:
    """Read the text of a value as a type."""
    # Spark's own error about a cast would show the value.
    if isinstance(kind, T.BinaryType):
        return value
    text = value.cast("string")
    found = text.try_cast(kind)
    fault = F.raise_error(
        F.lit(f"{place}: a value is no {kind.simpleString().upper()}: name the type that was encrypted")
    )
    return F.when(found.cast("string").eqNullSafe(text), found).otherwise(fault)
