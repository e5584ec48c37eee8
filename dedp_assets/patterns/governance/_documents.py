"""A data contract as a document of the Open Data Contract Standard (ODCS), and back."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timezone
from decimal import Decimal
from typing import Any

from dedp_assets.patterns.core.ddl import field
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.schema import Column
from dedp_assets.patterns.governance._contracts import Consumer, Contract, Quality, Sla

__all__ = ["API_VERSION", "contract_document", "read_contract"]

API_VERSION = "v3.2.0"
"""Version of the standard."""
_LOGICAL = {
    "string": "string", "boolean": "boolean", "date": "date", "timestamp": "timestamp", "timestamp_ntz": "timestamp",
    "byte": "integer", "short": "integer", "integer": "integer", "long": "integer", "float": "number",
    "double": "number", "struct": "object", "array": "array", "map": "map",
}  # fmt: skip
"""Type in the log's form -> type of the standard. A decimal is a number; what the standard has not is an object."""
_SQL = {
    "string": "STRING", "boolean": "BOOLEAN", "date": "DATE", "timestamp": "TIMESTAMP", "integer": "BIGINT",
    "number": "DOUBLE",
}  # fmt: skip
"""Type of the standard -> SQL type, for documents of others that leave out the physical type."""
_PREDICATE = "predicate"
_WHOLE = re.compile("0|-?[1-9][0-9]*")
_ON_COLUMNS = ("technical", "replica")

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


def read_contract(document: Document) -> Contract:
    """Read a contract from a document of ODCS 3.

    Args:
        document: the document, of one table.

    Raises:
        ConfigError: for a document of another standard, of several tables, or with a missing key.
    """
    stated = str(document.get("apiVersion", ""))
    if document.get("kind") != "DataContract" or not stated.startswith("v3."):
        raise ConfigError(f"document must be a DataContract of {API_VERSION}, not {document.get('kind')} of {stated!r}")
    try:
        (table,) = document["schema"]
        return _read(document, table)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ConfigError(f"document must describe one table with name, version and columns, not so: {error}") from None


def _read(document: Document, table: Document) -> Contract:
    properties = {each["name"]: each for each in table["properties"]}
    more = _customs(document)
    return Contract(
        name=table.get("physicalName") or table["name"],
        version=document["version"],
        owner=document.get("team", {}).get("name", ""),
        columns={name: _column(each) for name, each in properties.items()},
        partition_by=_placed(properties, "partitioned", "partitionKeyPosition"),
        key=_placed(properties, "primaryKey", "primaryKeyPosition"),
        comment=table.get("description", ""),
        defaults={
            name: found["default"] for name, each in properties.items() if "default" in (found := _customs(each))
        },
        quality=_read_quality(table.get("quality", ()), properties),
        sla=_read_sla(document.get("slaProperties", ())),
        consumers=[Consumer(**each) for each in more.get("consumers", ())],
        notice_days=more.get("noticeDays", 30),
        published_at=_published_at(document.get("contractCreatedTs")),
    )


def _property(contract: Contract, name: str, column: Column) -> dict[str, Any]:
    """Return a column as a property of the standard."""
    found = {"name": name, "physicalType": column.type, **_logical(_stored(column.type)), "description": column.comment}
    found |= {"required": column.required, "classification": "personal" if column.personal else ""}
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
    more = {each: value for each in _ON_COLUMNS if (value := getattr(column, each))}
    if name in contract.defaults:
        more["default"] = contract.defaults[name]
    found["customProperties"] = _custom(more)
    return _without_empty(found)


def _column(stated: Document) -> Column:
    more = _customs(stated)
    return Column(
        stated.get("physicalType") or _SQL[stated["logicalType"]],
        stated.get("description", ""),
        stated.get("required", False),
        personal=stated.get("classification") == "personal",
        technical=more.get("technical", False),
        replica=more.get("replica", ""),
    )


def _stored(kind: str) -> Any:  # noqa: ANN401 - a type in the log's form
    """Return a type in the form of the Delta log.

    ``None`` for a type that only Spark can parse.
    """
    found = field("value", kind)
    return found["type"] if found else None


def _logical(kind: Any) -> dict[str, Any]:  # noqa: ANN401 - as above
    """Return the keys of the standard that describe a type, nested types included."""
    word = kind["type"] if isinstance(kind, dict) else str(kind)
    # Not left out where the standard has none: its schema takes a property without one for a map.
    logical = "number" if word.startswith("decimal") else _LOGICAL.get(word, "object")
    found: dict[str, Any] = {"logicalType": logical}
    if word == "timestamp_ntz":
        found["logicalTypeOptions"] = {"timezone": False}
    if word == "struct":
        found["properties"] = [_nested(each["name"], each["type"], each["nullable"]) for each in kind["fields"]]
    if word == "array":
        found["items"] = _logical(kind["elementType"])
    if word == "map":
        found["map"] = {"key": _logical(kind["keyType"]), "value": _logical(kind["valueType"])}
    return found


def _nested(name: str, kind: Any, nullable: bool) -> dict[str, Any]:  # noqa: ANN401, FBT001 - as above
    found = {"name": name, **_logical(kind)}
    return found if nullable else {**found, "required": True}


def _quality(quality: Quality) -> Iterator[dict[str, Any]]:
    for name, predicate in quality.checks.items():
        query = f"SELECT count(*) FROM {{object}} WHERE NOT coalesce(({predicate}), false)"  # noqa: S608 - a text
        kept = _custom({_PREDICATE: predicate})
        yield {"name": name, "type": "sql", "query": query, "mustBe": 0, "customProperties": kept}
    for name, rule in quality.rules.items():
        yield {"name": name, "type": "text", "description": rule}
    bounds = {"mustBeGreaterOrEqualTo": quality.daily_rows_min, "mustBeLessOrEqualTo": quality.daily_rows_max}
    for operator, bound in bounds.items():
        if bound is not None:
            yield {"metric": "rowCount", "unit": "rows", "description": "of a day", operator: bound}


def _read_quality(stated: Sequence[Document], properties: Mapping[str, Document]) -> Quality:
    checks = {
        e["name"]: held[_PREDICATE] for e in stated if e.get("type") == "sql" and _PREDICATE in (held := _customs(e))
    }
    rows = [each for each in stated if each.get("metric") == "rowCount"]
    shares = {
        name: float(Decimal(str(rule["mustBeLessOrEqualTo"])) / 100)
        for name, each in properties.items()
        for rule in each.get("quality", ())
        if rule.get("metric") == "nullValues" and rule.get("unit") == "percent"
    }
    listed = {name: each["enum"] for name, each in properties.items() if each.get("enum")}
    allowed = {name: [str(each["value"]) for each in values] for name, values in listed.items()}
    return Quality(
        checks=checks,
        rules={each["name"]: each.get("description", "") for each in stated if each.get("type") == "text"},
        null_shares=shares,
        allowed=allowed,
        daily_rows_min=next((e["mustBeGreaterOrEqualTo"] for e in rows if "mustBeGreaterOrEqualTo" in e), None),
        daily_rows_max=next((e["mustBeLessOrEqualTo"] for e in rows if "mustBeLessOrEqualTo" in e), None),
    )


def _sla(sla: Sla) -> Iterator[dict[str, Any]]:
    if sla.fresh_hours is not None:
        yield {"property": "freshness", "value": sla.fresh_hours, "unit": "h"}
    if sla.due:
        more = {"zone": sla.zone, "daysAfter": sla.days_after, "weekdays": [*sla.weekdays]}
        yield {"property": "timeOfAvailability", "value": sla.due, "customProperties": _custom(more)}


def _read_sla(stated: Sequence[Document]) -> Sla:
    found = {each["property"]: each for each in stated}
    due = found.get("timeOfAvailability", {})
    more = _customs(due)
    return Sla(
        fresh_hours=found["freshness"]["value"] if "freshness" in found else None,
        due=due.get("value", ""),
        zone=more.get("zone", "UTC"),
        days_after=more.get("daysAfter", 0),
        weekdays=more.get("weekdays", ()),
    )


def _consumer(consumer: Consumer) -> dict[str, Any]:
    found: dict[str, Any] = {"name": consumer.name, "owner": consumer.owner}
    return found if consumer.columns is None else {**found, "columns": [*consumer.columns]}


def _published_at(stated: object) -> datetime | None:
    """Return the time of publication in a document, in UTC if the document states no zone."""
    if not stated:
        return None
    found = datetime.fromisoformat(str(stated).replace("Z", "+00:00"))
    return found if found.tzinfo else found.replace(tzinfo=timezone.utc)


def _placed(properties: Mapping[str, Document], flag: str, position: str) -> list[str]:
    """Return the columns with a flag of the standard, in the order of their positions."""
    return sorted((name for name, each in properties.items() if each.get(flag)), key=lambda n: properties[n][position])


def _custom(more: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"property": name, "value": value} for name, value in more.items()]


def _customs(document: Document) -> dict[str, Any]:
    return {each["property"]: each["value"] for each in document.get("customProperties", ())}


def _without_empty(document: Document) -> dict[str, Any]:
    """Leave out keys that say nothing: empty texts and lists, and ``False``."""
    return {key: value for key, value in document.items() if value not in ("", [], None) and value is not False}
