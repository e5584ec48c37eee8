"""JSON Schemas of records from the declaration of a table, for checks at the producer.

A record is one JSON object with the columns of the table. The schema is closed: a key that is no column is refused.

======================  ====================================================================================
type                    JSON
======================  ====================================================================================
whole numbers           integer, within the range of the type
``DOUBLE``, ``FLOAT``   number
``DECIMAL(p, s)``       string, because most languages read a JSON number as a binary fraction
``BOOLEAN``             boolean
``STRING``              string, of a ``VARCHAR(n)`` or ``CHAR(n)`` with at most ``n`` characters
``DATE``                string ``2026-01-05``
``TIMESTAMP``           string with a zone, ``2026-01-05T10:00:00.000001Z`` or with an offset
``TIMESTAMP_NTZ``       string without a zone
``BINARY``              string, base64 with its padding
ARRAY, MAP, STRUCT      array, object with any keys, closed object; a NULL within them is null
======================  ====================================================================================

The verdict is the table's (read by :func:`~dedp_assets.patterns.core.types.conversion.convert_json`), with these
differences:

- ``1.0`` is an integer for JSON Schema and none for the table, which refuses it.
- A key that is no column is passed over by the table.
- The table takes more spellings: a number, a truth or a time without a zone as the text of it, a DECIMAL as a number
  or as ``.5``, and any value as a STRING; a producer sends the one above.
- A FLOAT that is too small to be told from zero, and a time that only its offset takes out of the years 1 to 9999, are
  refused by the table alone.

A required column has to be there and may not be null. An optional one may be null or absent, which the table cannot
tell apart. Since NULL satisfies no CHECK, a column with one is required unless the CHECK says ``column IS NULL OR``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.extras import optional
from dedp_assets.patterns.core.options import require_types, typed
from dedp_assets.patterns.core.parsing.json_checks import Limit, limits_of
from dedp_assets.patterns.core.parsing.strict_json import parse_json
from dedp_assets.patterns.core.schema import TableSpec
from dedp_assets.patterns.core.types import ddl
from dedp_assets.patterns.core.types.nesting import Field, Kind, fold, inside, outer

if TYPE_CHECKING:
    import jsonschema_rs
else:
    jsonschema_rs = optional("jsonschema_rs")

__all__ = ["RecordSchema", "column_schema", "record_faults", "record_schema_of"]

# Of draft 7, the newest that all registries compare.
_DIALECT = "http://json-schema.org/draft-07/schema#"
_BITS = {"byte": 8, "short": 16, "integer": 32, "long": 64}
_LARGEST_FLOAT = 3.4028234663852886e38
_DAY = "(?!0000)[0-9]{4}-[0-9]{2}-[0-9]{2}"
_TIME = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,6}0*)?"
_ZONE = "(?:Z|[+-](?:0[0-9]|1[0-7]):[0-5][0-9]|[+-]18:00)"
_BASE64 = "(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)?"
_SCALARS: Mapping[str, Mapping[str, Any]] = {
    **{k: {"type": "integer", "minimum": -(1 << b - 1), "maximum": (1 << b - 1) - 1} for k, b in _BITS.items()},
    "float": {"type": "number", "minimum": -_LARGEST_FLOAT, "maximum": _LARGEST_FLOAT},
    "double": {"type": "number"},
    "boolean": {"type": "boolean"},
    "string": {"type": "string"},
    "date": {"type": "string", "format": "date", "pattern": f"^{_DAY}$"},
    "timestamp": {"type": "string", "format": "date-time", "pattern": f"^{_DAY}T{_TIME}{_ZONE}$"},
    "timestamp_ntz": {"type": "string", "format": "date-time-local", "pattern": f"^{_DAY}T{_TIME}$"},
    "binary": {"type": "string", "contentEncoding": "base64", "pattern": f"^{_BASE64}$"},
}
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_PARTITIONS = ("string", "date", "timestamp", "timestamp_ntz")
"""Types of partition columns with values outside of the log's spelling."""


@dataclass(frozen=True)
class RecordSchema:
    """Contract of the records that become rows of a table.

    Attributes:
        table: name of the table.
        schema: the JSON Schema, closed, of draft 7.
        unchecked: rule that only the table checks -> the SQL of the rule, or the reason.
    """

    table: str
    schema: Mapping[str, Any]
    unchecked: Mapping[str, str]

    def __post_init__(self) -> None:
        require_types(self)

    @cached_property
    def validator(self) -> jsonschema_rs.Validator:
        """Compiled schema, whose error messages leave out values."""
        formats = {"date-time-local": _is_local}
        return jsonschema_rs.validator_for(
            dict(self.schema), validate_formats=True, formats=formats, mask="the value", offline=True
        )


@typed
def record_schema_of(spec: TableSpec, *, columns: Sequence[str] = ()) -> RecordSchema:
    """Derive the JSON Schema of a table's records from the declaration.

    Args:
        spec: declaration of the table.
        columns: the columns that the producer fills in; by default all that are not technical.

    Raises:
        ConfigError: for a column that is not declared.

    Example:
        >>> from dedp_assets.patterns.core.schema import Column
        >>> checks = {"positive": "price > 0", "cheap": "price < 2 * cost"}
        >>> prices = TableSpec("shop/prices", {"price": Column("INT"), "cost": Column("INT")}, checks=checks)
        >>> found = record_schema_of(prices)
        >>> found.schema["required"], found.unchecked
        (['price'], {'cheap': 'price < 2 * cost'})
    """
    if unknown := [name for name in columns if name not in spec.columns]:
        raise ConfigError(f"columns must be columns of {spec.name}, not {', '.join(unknown)}")
    named = [name for name in spec.columns if name in (columns or spec.content)]
    declared = {name: ddl.field(name, spec.columns[name].type) for name in named}
    kinds = {name: _kind(each) for name, each in declared.items()}
    limits: dict[str, list[Limit]] = {}
    unchecked: dict[str, str] = {}
    for name, check in spec.checks.items():
        found = limits_of(check, kinds)
        for limit in found or ():
            limits.setdefault(limit.column, []).append(limit)
        unchecked |= {} if found is not None else {name: check}
    required, properties = list[str](), dict[str, Any]()
    for name in named:
        mine = limits.get(name, [])
        strict = any(not limit.nullable for limit in mine)
        if spec.columns[name].required or name in spec.key or strict:
            required.append(name)
        about = {"description": spec.columns[name].comment} if spec.columns[name].comment else {}
        held = column_schema(declared[name], mine, nullable=name not in required)
        properties[name] = {**about, **held}
    schema = {
        "$schema": _DIALECT,
        "title": spec.name,
        **({"description": spec.comment} if spec.comment else {}),
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }
    return RecordSchema(spec.name, schema, {**unchecked, **dict(_of_the_table(spec, kinds))})


def record_faults(record: str, contract: RecordSchema) -> tuple[str, ...]:
    """List every reason against a record by the contract, without values of the record.

    Args:
        record: a JSON text.
        contract: the contract of the table that the record is for.

    Example:
        >>> from dedp_assets.patterns.core.schema import Column
        >>> prices = record_schema_of(TableSpec("shop/prices", {"price": Column("INT", required=True)}))
        >>> print(*record_faults('{"price": "5", "cost": 3}', prices), sep=chr(10))
        price: the value is not of type "integer"
        the record: Additional properties are not allowed ('cost' was unexpected)
    """
    validator = contract.validator
    try:
        value = parse_json(record)
        errors = [(list(error.instance_path), error.message) for error in validator.iter_errors(value)]
    except ValueError as error:
        return (f"the record: no JSON that is read exactly ({error})",)
    return tuple(sorted({f"{_path(path)}: {message}" for path, message in errors}))


def _kind(declared: Mapping[str, Any] | None) -> Any:  # noqa: ANN401 - a type in Spark's JSON form
    """Return the stored type of a column for comparisons; empty for a padded or unknown type."""
    padded = declared is not None and str(declared["metadata"].get(ddl.LENGTH, "")).startswith("char")
    return declared["type"] if declared and not padded else ""


def column_schema(
    declared: Mapping[str, Any] | None, limits: Sequence[Limit] = (), *, nullable: bool
) -> dict[str, Any]:
    """Return the schema of the values of a column.

    Args:
        declared: the column in the form of the log's schema; ``None`` for a type that only Spark can parse.
        limits: what constraints ask of the values.
        nullable: whether null is a value.
    """
    if declared is None:
        return {}
    schema = _type(declared["type"], nullable=nullable)
    if sized := declared["metadata"].get(ddl.LENGTH):
        schema["maxLength"] = int(re.sub(r"\D", "", sized))
    further = [_limited(limit.keywords, nullable=nullable) for limit in limits if limit.keywords]
    return {**schema, "allOf": further} if further else schema


def _limited(keywords: Mapping[str, Any], *, nullable: bool) -> Mapping[str, Any]:
    """Allow null beside enum and const."""
    about_all = not {"enum", "const"}.isdisjoint(keywords)
    return {"anyOf": [{"type": "null"}, keywords]} if nullable and about_all else keywords


def _type(kind: Kind, *, nullable: bool) -> dict[str, Any]:
    """Return the schema of a type in the log's form; of a type without a form in JSON, any value."""
    schema = fold(
        kind,
        scalar=_scalar,
        struct=_object,
        array=lambda _, items: {"type": "array", "items": _or_null(items)},
        map=lambda kind, _, values: (
            {"type": "object", "additionalProperties": _or_null(values)} if kind["keyType"] == "string" else {}
        ),
    )
    return _or_null(schema) if nullable else schema


def _scalar(kind: str) -> dict[str, Any]:
    digits = _DECIMAL.fullmatch(kind)
    return {"type": "string", "pattern": _decimal(*map(int, digits.groups()))} if digits else {**_SCALARS.get(kind, {})}


def _object(_: Kind, fields: Sequence[tuple[Field, dict[str, Any]]]) -> dict[str, Any]:
    properties = {each["name"]: _or_null(inner) if each["nullable"] else inner for each, inner in fields}
    needed = [each["name"] for each, _ in fields if not each["nullable"]]
    return {"type": "object", "properties": properties, "required": needed, "additionalProperties": False}


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    return {**schema, "type": [schema["type"], "null"]} if schema else schema


def _decimal(precision: int, scale: int) -> str:
    """Write the regular expression of a DECIMAL's texts."""
    before = precision - scale
    whole = f"(?:0|[1-9][0-9]{{0,{before - 1}}})" if before else "0"
    fraction = f"(?:[.][0-9]{{1,{scale}}})?" if scale else ""
    return f"^-?{whole}{fraction}$"


def _of_the_table(spec: TableSpec, kinds: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """List the rules about more than a record, or about values without a form in JSON."""
    for name, kind in kinds.items():
        if not _is_known(kind) and not spec.columns[name].type.strip().upper().startswith("CHAR"):
            yield f"{name}_is_a_{spec.columns[name].type}", "no JSON value has this type"
    for name in spec.partition_by:
        if kinds.get(name) in _PARTITIONS:
            yield f"{name}_is_a_partition_value", "the log cannot hold every value"
    if spec.key:
        yield f"{'_'.join(spec.key)}_is_a_key", "a record does not know the others"


def _is_known(kind: Kind) -> bool:
    """Return whether all values of a type have a form in JSON."""
    keyed = all(each["keyType"] == "string" for each in inside(kind) if outer(each) == "map")
    scalars = [each for each in inside(kind) if isinstance(each, str)]
    return keyed and all(each in _SCALARS or _DECIMAL.fullmatch(each) for each in scalars)


def _is_local(text: str) -> bool:
    """Return whether a text with the pattern of a local time is a time of the calendar."""
    try:
        datetime.strptime(text[:19], "%Y-%m-%dT%H:%M:%S")  # noqa: DTZ007 - a time without a zone
    except ValueError:
        return False
    return True


def _path(parts: Sequence[str | int]) -> str:
    """Write the path of a value within a record."""
    shown = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts)
    return shown.removeprefix(".") or "the record"
