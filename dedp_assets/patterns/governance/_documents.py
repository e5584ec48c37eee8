"""A data contract as a document of the Open Data Contract Standard (ODCS), and back."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from dedp_assets.patterns.core.schema import Column
from dedp_assets.patterns.core.types.ddl import field
from dedp_assets.patterns.core.types.nesting import Field, fold
from dedp_assets.patterns.governance._contracts import Consumer, Contract, Quality, Sla
from dedp_assets.patterns.governance._read_documents import read_contract
from dedp_assets.patterns.governance._read_quality import PREDICATE

__all__ = ["API_VERSION", "contract_document", "read_contract"]

API_VERSION = "v3.2.0"
"""Version of the standard."""
_LOGICAL = {
    "string": "string", "boolean": "boolean", "date": "date", "timestamp": "timestamp", "timestamp_ntz": "timestamp",
    "byte": "integer", "short": "integer", "integer": "integer", "long": "integer", "float": "number",
    "double": "number",
}  # fmt: skip
"""Type in the log's form -> type of the standard. A decimal is a number; what the standard has not is an object."""
_WHOLE = re.compile("0|-?[1-9][0-9]*")
_ON_COLUMNS = ("purpose", "technical", "replica")

Document = Mapping[str, Any]


def contract_document(contract: Contract) -> dict[str, Any]:
    """Return a contract as a document of ODCS 3.2.0, in JSON values.

    What the standard has no key for (consumers, days of notice) stands among the ``customProperties``.

    Args:
        contract: the contract.

    Example:
        >>> document = contract_document(
        ...     Contract(name="gold/sales", version="1.0.0", owner="team:shop", columns={"day": Column("DATE")})
        ... )
        >>> document["apiVersion"], document["schema"][0]["properties"]
        ('v3.2.0', [{'name': 'day', 'physicalType': 'DATE', 'logicalType': 'date'}])
    """
    table = {
        "name": contract.name.replace("/", "_"),
        "physicalName": contract.name,
        "physicalType": "table",
        "logicalType": "object",
        "description": contract.comment,
        "properties": [_property(contract, name, column) for name, column in contract.columns.items()],
        "quality": [*_quality(contract.quality)],
    }
    more = {"noticeDays": contract.notice_days, "consumers": [_consumer(each) for each in contract.consumers]}
    return _without_empty(
        {
            "apiVersion": API_VERSION,
            "kind": "DataContract",
            "id": contract.name,
            "name": contract.name,
            "version": contract.version,
            "status": "active",
            "contractCreatedTs": contract.published_at.isoformat() if contract.published_at else "",
            "team": {"name": contract.owner},
            "schema": [_without_empty(table)],
            "slaProperties": [*_sla(contract.sla)],
            "customProperties": _custom(more),
        }
    )


def _property(contract: Contract, name: str, column: Column) -> dict[str, Any]:
    """Return a column as a property of the standard."""
    found = {"name": name, "physicalType": column.type, **_logical(column.type), "description": column.comment}
    found |= {"required": column.required, "classification": column.classification}
    if name in contract.key:
        found |= {"primaryKey": True, "primaryKeyPosition": contract.key.index(name) + 1}
    if name in contract.partition_by:
        found |= {"partitioned": True, "partitionKeyPosition": contract.partition_by.index(name) + 1}
    allowed = contract.quality.allowed.get(name, ())
    whole = found["logicalType"] == "integer"
    found["enum"] = [{"value": int(each) if whole and _WHOLE.fullmatch(each) else each} for each in allowed]
    if (share := contract.quality.null_shares.get(name)) is not None:
        percent = float(Decimal(str(share)) * 100)
        rule = {"metric": "nullValues", "unit": "percent", "mustBeLessOrEqualTo": percent}
        found["quality"] = [{**rule, "dimension": "completeness"}]
    more = {
        each: [*value] if isinstance(value, tuple) else value
        for each in _ON_COLUMNS
        if (value := getattr(column, each))
    }
    if name in contract.defaults:
        more["default"] = contract.defaults[name]
    found["customProperties"] = _custom(more)
    return _without_empty(found)


def _logical(kind: str) -> dict[str, Any]:
    """Return the keys of the standard that describe an SQL type, nested types included."""
    found = field("value", kind)
    return fold(
        found["type"] if found else "",
        scalar=_logical_scalar,
        struct=lambda _, fields: {"logicalType": "object", "properties": [_nested(*each) for each in fields]},
        array=lambda _, items: {"logicalType": "array", "items": items},
        map=lambda _, key, value: {"logicalType": "map", "map": {"key": key, "value": value}},
    )


def _logical_scalar(kind: str) -> dict[str, Any]:
    # Not left out where the standard has none: its schema takes a property without one for a map.
    found = {"logicalType": "number" if kind.startswith("decimal") else _LOGICAL.get(kind, "object")}
    return {**found, "logicalTypeOptions": {"timezone": False}} if kind == "timestamp_ntz" else found


def _nested(each: Field, logical: Mapping[str, Any]) -> dict[str, Any]:
    found = {"name": each["name"], **logical}
    return found if each["nullable"] else {**found, "required": True}


def _quality(quality: Quality) -> Iterator[dict[str, Any]]:
    for name, predicate in quality.checks.items():
        query = f"SELECT count(*) FROM {{object}} WHERE NOT coalesce(({predicate}), false)"  # noqa: S608 - a text
        kept = _custom({PREDICATE: predicate})
        yield {"name": name, "type": "sql", "query": query, "mustBe": 0, "customProperties": kept}
    for name, rule in quality.rules.items():
        yield {"name": name, "type": "text", "description": rule}
    bounds = {"mustBeGreaterOrEqualTo": quality.daily_rows_min, "mustBeLessOrEqualTo": quality.daily_rows_max}
    for operator, bound in bounds.items():
        if bound is not None:
            yield {"metric": "rowCount", "unit": "rows", "description": "of a day", operator: bound}


def _sla(sla: Sla) -> Iterator[dict[str, Any]]:
    if sla.fresh_hours is not None:
        yield {"property": "freshness", "value": sla.fresh_hours, "unit": "h"}
    if sla.due:
        more = {"zone": sla.zone, "daysAfter": sla.days_after, "weekdays": [*sla.weekdays]}
        yield {"property": "timeOfAvailability", "value": sla.due, "customProperties": _custom(more)}


def _consumer(consumer: Consumer) -> dict[str, Any]:
    found: dict[str, Any] = {"name": consumer.name, "owner": consumer.owner}
    return found if consumer.columns is None else {**found, "columns": [*consumer.columns]}


def _custom(more: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"property": name, "value": value} for name, value in more.items()]


def _without_empty(document: Document) -> dict[str, Any]:
    """Leave out keys that say nothing: empty texts and lists, and ``False``."""
    return {key: value for key, value in document.items() if value not in ("", [], None) and value is not False}
