"""Buckets of keys: placement of rows by the hash of a key.

The bucket of a key is ``pmod(xxhash64(key), buckets)``, which any language can compute: XXH64 with the seed 42 over the
bytes of the first column, its result being the seed of the next one, as an integer with a sign. The bytes are those of
UTF-8 for a text, 4 of a BOOLEAN (0 or 1), TINYINT, SMALLINT, INT or DATE (days since 1970), 8 of a BIGINT or TIMESTAMP
(microseconds since 1970), the lowest first; NULL has none and leaves the seed. :meth:`Layout.bucket_of` does that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from dedp_assets.patterns.core.column import Column
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.keys import require_distinct
from dedp_assets.patterns.core.names import identifier
from dedp_assets.patterns.core.options import require_types
from dedp_assets.patterns.core.types.hashing import xxhash64

__all__ = ["Layout"]


@dataclass(frozen=True, slots=True)
class Layout:
    """Bucketing of a table, in which all rows of a key are in the same bucket.

    A bucket says how many there are (``3 of 8``), so that rows of two layouts cannot be taken for rows of one.

    Attributes:
        by: columns of which equal values share a bucket.
        buckets: how many there are.
        column: partition column with the bucket.

    Raises:
        ConfigError: without a column, or for less than one bucket.
    """

    by: tuple[str, ...]
    buckets: int
    column: str = "bucket"

    def __post_init__(self) -> None:
        require_types(self)
        require_distinct("by=", self.by)
        if not self.by or self.column in self.by:
            named = ", ".join(self.by) or "none"
            raise ConfigError(f"by must name columns of a key, such as user_id, other than {self.column}, not {named}")
        if self.buckets < 1:
            raise ConfigError(f"buckets must be at least 1, such as 16, not {self.buckets}")

    @property
    def declared(self) -> Mapping[str, Column]:
        """The partition column, for a table's declaration."""
        return {self.column: Column("STRING", f"which bucket of {', '.join(self.by)}, of how many", required=True)}

    @property
    def checks(self) -> Mapping[str, str]:
        """Table constraint: a row lies in the bucket of the row's key, for any number of buckets."""
        count = f"try_cast(substring_index({identifier(self.column)}, ' of ', -1) AS BIGINT)"
        return {f"{self.column}_is_of_its_key": f"{identifier(self.column)} = {self._bucket(count)}"}

    @property
    def bucket(self) -> str:
        """The SQL expression of a row's bucket."""
        return self._bucket(f"{self.buckets}L")

    def bucket_of(self, key: Mapping[str, object], kinds: Mapping[str, str]) -> str:
        """Return the bucket of one key, computed without Spark.

        Args:
            key: column -> value, with each column of ``by``, case aside.
            kinds: column -> type as the log stores it, in lower case.

        Raises:
            ConfigError: for a value that is none of its column's type, or of a type that has no bytes here.

        Example:
            >>> Layout(by=("user",), buckets=4).bucket_of({"user": None}, {"user": "string"})
            '2 of 4'
        """
        given = {column.lower(): value for column, value in key.items()}
        values = [(given[column.lower()], kinds[column.lower()]) for column in self.by]
        return f"{xxhash64(values) % self.buckets} of {self.buckets}"

    def bucket_as(self, kinds: Mapping[str, str]) -> str:
        """Return the SQL expression of a row's bucket for columns cast to the types of the table, by name."""
        return self._bucket(f"{self.buckets}L", {column: f" AS {kinds[column]}" for column in self.by})

    def _bucket(self, count: str, casts: Mapping[str, str] = MappingProxyType({})) -> str:
        named = {column: identifier(column) for column in self.by}
        values = ", ".join(f"CAST({n}{casts[column]})" if column in casts else n for column, n in named.items())
        number = f"CAST(pmod(xxhash64({values}), nullif({count}, 0L)) AS STRING)"
        return f"concat({number}, ' of ', CAST({count} AS STRING))"
