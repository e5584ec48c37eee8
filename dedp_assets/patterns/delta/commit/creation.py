"""First commit of a table, with the result of Spark's CREATE TABLE and all constraints.

A declaration with a type, a name or a property that is not known here is Spark's to create, or to refuse.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from dedp_assets.patterns.core.schema import TableSpec
from dedp_assets.patterns.core.sql.predicates import is_sound
from dedp_assets.patterns.core.types import ddl
from dedp_assets.patterns.core.types.nesting import inside, outer
from dedp_assets.patterns.delta.commit.commits import now_ms

__all__ = ["doubtful_checks", "first_commit"]

_TRUTH = "true|false"
_WHILE = r"interval [1-9]\d{0,4} (?:hour|day|week)s?"
_VALUES = {
    "delta.appendOnly": _TRUTH,
    "delta.checkpointInterval": r"[1-9]\d{0,8}",
    "delta.checkpointPolicy": "classic|v2",
    "delta.columnMapping.mode": "none",
    "delta.dataSkippingNumIndexedCols": r"\d{1,4}",
    "delta.dataSkippingStatsColumns": r"[A-Za-z_]\w*(?:,[A-Za-z_]\w*)*",
    "delta.deletedFileRetentionDuration": _WHILE,
    "delta.enableChangeDataFeed": _TRUTH,
    "delta.enableDeletionVectors": _TRUTH,
    "delta.enableExpiredLogCleanup": _TRUTH,
    "delta.enableTypeWidening": _TRUTH,
    "delta.isolationLevel": "Serializable",
    "delta.logRetentionDuration": _WHILE,
}
"""Properties of Delta that are known here, and what they may say."""

_OF_TOOLS = re.compile(
    r"(?:delta|option|spark|fs|io|clusteringcolumns)\b.*"
    r"|collation|comment|external|is_managed_location|location|owner|path|provider|table_type|",
    re.IGNORECASE | re.DOTALL,
)
"""Other properties that Delta or Spark make something of; all the rest is kept as it is."""

_ASKED = {
    ("delta.checkpointPolicy", "v2"): "v2Checkpoint",
    ("delta.enableChangeDataFeed", "true"): "changeDataFeed",
    ("delta.enableDeletionVectors", "true"): "deletionVectors",
    ("delta.enableTypeWidening", "true"): "typeWidening",
}
_OF_TYPES = {"timestamp_ntz": "timestampNtz", "variant": "variantType"}
_OF_READERS = {"deletionVectors", "timestampNtz", "typeWidening", "v2Checkpoint", "variantType"}
_OF_THE_FEED = {"_change_type", "_commit_version", "_commit_timestamp"}


def first_commit(spec: TableSpec) -> list[dict[str, Any]] | None:
    """Write the actions that create the table of ``spec``; ``None`` if only Spark can."""
    fields = _fields(spec)
    properties = {**spec.table_properties(), **spec.layout.of_new_table}
    if not fields or spec.layout.cluster_by or not _are_known(spec, properties):
        return None
    now = now_ms()
    rules = {f"delta.constraints.{name.lower()}": rule for name, rule in spec.checks.items()}
    parameters = {
        "partitionBy": _compact(spec.partition_by),
        "clusterBy": "[]",
        "description": spec.comment or None,
        "isManaged": "false",
        "properties": _compact(properties),
    }
    info = {
        "timestamp": now,
        "operation": "CREATE TABLE",
        "operationParameters": parameters,
        "isolationLevel": "Serializable",
        "isBlindAppend": True,
        "operationMetrics": {},
    }
    declared = {
        "id": str(uuid.uuid4()),
        **({"description": spec.comment} if spec.comment else {}),
        "format": {"provider": "parquet", "options": {}},
        "schemaString": _compact({"type": "struct", "fields": fields}),
        "partitionColumns": list(spec.partition_by),
        "configuration": {**properties, **rules},
        "createdTime": now,
    }
    return [{"commitInfo": info}, {"metaData": declared}, {"protocol": _protocol(spec, fields, properties)}]


def doubtful_checks(spec: TableSpec) -> list[str]:
    """List the names of the CHECK constraints that only Spark can validate."""
    kinds = {each["name"]: each["type"] for each in _fields(spec)}
    return [name for name, rule in spec.checks.items() if not is_sound(rule, kinds)]


def _fields(spec: TableSpec) -> list[dict[str, Any]]:
    """Return the columns as fields of the log's schema; empty if only Spark can spell a type."""
    found = [ddl.field(n, c.type, required=c.required, comment=c.comment) for n, c in spec.columns.items()]
    return [each for each in found if each] if None not in found else []


def _are_known(spec: TableSpec, properties: Mapping[str, str]) -> bool:
    """Return whether Spark would accept and store all table properties unchanged."""
    feeds = properties.get("delta.enableChangeDataFeed") == "true"
    counted = {name for name in properties.get("delta.dataSkippingStatsColumns", "").split(",") if name}
    return (
        all(
            re.fullmatch(_VALUES[name], value) if name in _VALUES else not _OF_TOOLS.fullmatch(name)
            for name, value in properties.items()
        )
        and not (feeds and _OF_THE_FEED & {name.lower() for name in spec.columns})
        and counted <= {*spec.bounded}
    )


def _protocol(spec: TableSpec, fields: Sequence[Mapping[str, Any]], properties: Mapping[str, str]) -> dict[str, Any]:
    """Return the lowest protocol versions for the features of the declaration."""
    features = {_ASKED[pair] for pair in properties.items() if pair in _ASKED}
    features |= {_OF_TYPES[kind] for each in fields for kind in map(outer, inside(each["type"])) if kind in _OF_TYPES}
    if not features:
        return {"minReaderVersion": 1, "minWriterVersion": 3 if spec.checks else 2}
    named = {*features, "appendOnly", "invariants", *(["checkConstraints"] if spec.checks else [])}
    readers = sorted(features & _OF_READERS)
    return {
        "minReaderVersion": 3 if readers else 1,
        "minWriterVersion": 7,
        **({"readerFeatures": readers} if readers else {}),
        "writerFeatures": sorted(named),
    }


def _compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
