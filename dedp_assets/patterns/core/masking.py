"""Masking: values that stand for others, and the question whether an original still shows."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.types import StringType

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.names import RESERVED, identifier

__all__ = ["MaskingKey", "pseudonym", "shows", "text"]

_TELLING = 6  # characters; shorter values turn up in other text by chance
_MOMENTS = ("boolean", "date", "timestamp")
_NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal")
_NESTED = ("array", "map", "struct")
_V = f"{RESERVED}value"


@dataclass(frozen=True, slots=True)
class MaskingKey:
    """The key of pseudonyms. It never enters a query plan, a log, the ledger or a table; its ``id`` may.

    Attributes:
        id: name and version of the key.
        secret: at least 32 random bytes. Whoever has them can try out values, so they stay where the originals are.

    Raises:
        ConfigError: without an id, or with a secret that could be guessed.
    """

    id: str
    secret: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if not self.id or len(self.secret) < 32:
            raise ConfigError("a masking key needs an id and a secret of at least 32 random bytes")


def pseudonym(column: str, key: MaskingKey) -> Column:
    """HMAC-SHA-256 of a column's text, 64 hex digits: equal for equal values, in every table and run; NULL for NULL.

    Without the key no list of likely values helps. A plain hash of an IP address or a name is found by trying them all.
    """
    secret = key.secret

    def pseudonyms(values: pa.Array) -> pa.Array:
        made = [None if v is None else hmac.digest(secret, v.encode(), "sha256").hex() for v in values.to_pylist()]
        return pa.array(made, pa.string())

    # A function and no SQL: a plan shows its literals, and Spark writes plans into its logs. Spark infers the kind of
    # function from the hints and warns if it is named, which its own stubs ask for.
    made = arrow_udf(pseudonyms, StringType())  # type: ignore[call-overload]
    masked: Column = made(F.col(identifier(column)).cast("string"))
    return masked


def shows(originals: Mapping[str, str], shown: Mapping[str, str], *, instead: Mapping[str, str]) -> str:
    """SQL predicate: some shown text of the row contains one of its original values, or a value was not replaced.

    Values of six characters and more are looked for, in any case, in texts and within nested values. Dates and times
    are not: they coincide by nature.

    Args:
        originals: column -> Spark type of the values that must not show.
        shown: column -> Spark type of what is shown.
        instead: original column -> the shown column that replaces it.
    """
    texts = [text(c) for c, kind in shown.items() if not kind.startswith((*_MOMENTS, *_NUMBERS))]
    everything = f"lower(concat_ws(chr(10), {', '.join(texts)}))" if texts else "''"
    found = [f"({text(c)} <> '' AND {text(c)} = {text(other)})" for c, other in instead.items()]
    for c, kind in originals.items():
        if not kind.startswith(_MOMENTS):
            values = (
                f"split({text(c)}, '[{{}}\\\\[\\\\]]|, | -> ')" if kind.startswith(_NESTED) else f"array({text(c)})"
            )
            found.append(
                f"exists({values}, {_V} -> length({_V}) >= {_TELLING} AND contains({everything}, lower({_V})))"
            )
    return f"({' OR '.join(f'coalesce({each}, false)' for each in found) or 'false'})"


def text(column: str) -> str:
    """SQL for a column's value as text."""
    return f"CAST({identifier(column)} AS STRING)"
