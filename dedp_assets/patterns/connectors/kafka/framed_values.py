"""Values of a topic in Confluent's wire format: the header taken off, and the payload as JSON.

A value with the header is followed by what its schema says: JSON, which stays as it is, or Avro, which is written as
JSON by the schema that it was written with. A value that no schema reads stays whole, header included, so that it
becomes a dead letter and nothing of it is lost; :func:`name_unread` says why.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.types import BinaryType

from dedp_assets.patterns.connectors.encoding.avro_schemas import node_of
from dedp_assets.patterns.connectors.kafka.schema_registry import (
    HEADER_BYTES,
    RegisteredSchema,
    SchemaRegistry,
    decoded,
    find_schema,
    self_contained_text,
)
from dedp_assets.patterns.core.errors import ConfigError, ContractError
from dedp_assets.patterns.core.extras import optional
from dedp_assets.patterns.core.parsing.strict_json import parse_json
from dedp_assets.patterns.core.results import Split
from dedp_assets.patterns.core.rows import quoted

__all__ = ["SCHEMA_ID", "UNREAD", "name_unread", "unframed", "without_headers"]

fastavro = optional("fastavro")

SCHEMA_ID = "schema_id"
"""Column with the id of the schema in the header of a value; NULL without a header."""
UNREAD = (
    "a zero byte at the beginning, and the rest is too short for the id of a schema",
    "a zero byte at the beginning, as in the header of a schema, and no known schema reads the rest",
)
"""Reasons of dead letters that begin as a header does: one that is cut off, and a whole one."""
_FRAMED = f"startswith(value, X'00') AND octet_length(value) >= {HEADER_BYTES}"
_Reader = Callable[[bytes], bytes]


def unframed(records: DataFrame, registry: SchemaRegistry | None) -> DataFrame:
    """Remove the headers of a topic's values, and add the column :data:`SCHEMA_ID`; lazy.

    Args:
        records: records with the BINARY column ``value``; some, all or none with a header.
        registry: where the schemas of the ids are; without one, each payload is handed on as it is.
    """
    # NULL without a header, and so is what is made of it: values without one reach no Python.
    found = records.selectExpr("*", f"if({_FRAMED}, value, NULL) AS framed")
    payload = F.expr(f"substring(framed, {HEADER_BYTES + 1})") if registry is None else _payload(registry)
    rest = [name for name in records.columns if name != "value"]
    return found.select(
        *rest,
        F.expr(f"CAST(conv(hex(substring(framed, 2, 4)), 16, 10) AS BIGINT) AS {SCHEMA_ID}"),
        F.coalesce(payload, F.col("value")).alias("value"),
    )


def name_unread(split: Split) -> Split:
    """Replace the reasons of dead letters that begin as a header does by :data:`UNREAD`; lazy.

    Args:
        split: judged records with the columns ``raw``, ``raw_bytes``, ``reason`` and ``error_class``.
    """
    size, (cut, unknown) = "octet_length(coalesce(raw_bytes, CAST(raw AS BINARY)))", map(quoted, UNREAD)
    worded = f"if(startswith(raw, char(0)), if({size} < {HEADER_BYTES}, {cut}, {unknown}), NULL)"
    names = ("reason", "error_class")
    made = {name: F.expr(f"if(reason IS NULL, NULL, coalesce({worded}, {name}))") for name in names}
    return replace(split, rows=split.rows.withColumns(made))


def without_headers(values: Sequence[bytes], registry: SchemaRegistry | None) -> list[bytes]:
    r"""Return values without headers, and with payloads as JSON, as :func:`unframed` does.

    Args:
        values: values; some, all or none with a header.
        registry: where the schemas of the ids are; without one, each payload is returned as it is.

    Raises:
        NotReady: if the registry does not answer.

    Example:
        >>> without_headers([b"\x00\x00\x00\x00\x07{}", b"[]"], None)
        [b'{}', b'[]']
    """
    return list(map(_unframing(registry), values))


def _unframing(registry: SchemaRegistry | None) -> _Reader:
    """Return a function that takes the header off a value; schemas are asked for once by id."""
    readers = dict[int, _Reader]()

    def payload(value: bytes) -> bytes:
        if value[:1] != b"\0" or len(value) < HEADER_BYTES:
            return value
        schema_id, body = decoded(value)
        if registry is None:
            return body
        if schema_id not in readers:
            readers[schema_id] = _reader(registry, find_schema(registry, schema_id))
        try:
            return readers[schema_id](body)
        except Exception:  # fastavro raises whatever its own reading of wrong bytes raises
            return value

    return payload


def _payload(registry: SchemaRegistry) -> Column:
    def read(values: pa.Array) -> pa.Array:
        payload = _unframing(registry)
        return pa.array([each and payload(each) for each in values.to_pylist()], pa.binary())

    # Spark infers the kind of function from the hints and warns if it is named, which its own stubs ask for.
    column: Column = arrow_udf(read, BinaryType())("framed")  # type: ignore[call-overload]
    return column


def _reader(registry: SchemaRegistry, schema: RegisteredSchema | None) -> _Reader:
    """Return the reader of a schema's payloads; without a usable schema, a reader that refuses all."""
    if schema is not None and schema.dialect == "JSON":
        return bytes
    try:
        if schema is not None and schema.dialect == "AVRO":
            return _of_avro(parse_json(self_contained_text(registry, schema)), f"schema {schema.id}")
    except ConfigError:
        raise
    except (ContractError, ValueError):
        pass
    return _refused


def _refused(_: bytes) -> bytes:
    raise ValueError("no schema reads the payload")


def _of_avro(schema: Any, name: str) -> _Reader:  # noqa: ANN401 - JSON
    node = node_of(schema, name)
    parsed, text = fastavro.parse_schema(node.stored), node.text

    def read(body: bytes) -> bytes:
        stream = io.BytesIO(body)
        record = fastavro.schemaless_reader(stream, parsed)
        if stream.read(1):
            raise ValueError("bytes behind the record")
        return text(record).encode()

    return read
