"""Masking: pseudonyms in place of column values."""

from __future__ import annotations

import hmac
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.types import StringType

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.names import identifier

__all__ = ["MaskingKey", "pseudonym"]


@dataclass(frozen=True, slots=True)
class MaskingKey:
    """The key of pseudonyms; the secret stays out of query plans, logs, ledger and tables, unlike ``id``.

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
    """Replace text by HMAC-SHA-256 in 64 hex digits; equal values have equal digits, NULL stays NULL.

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
