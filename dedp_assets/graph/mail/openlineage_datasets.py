"""OpenLineage: datasets of an event with their facets, as plain JSON objects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import unquote, urlsplit

from dedp_assets.patterns.core.column import Column, withheld
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.options import require_types
from dedp_assets.patterns.core.results import Finding
from dedp_assets.patterns.core.running.lineage import LAKE, SOURCES, Dataset
from dedp_assets.patterns.core.types import ddl
from dedp_assets.patterns.core.types.nesting import Kind, fold
from dedp_assets.patterns.core.types.partitions import NO_VALUE

__all__ = [
    "HIDDEN", "SPEC", "InputField", "Touched", "dataset_of", "facet", "input_of", "output_of", "place_at", "touched_of",
    "with_facets",
]  # fmt: skip

SPEC = "https://openlineage.io/spec"
_FACETS = {
    "columnLineage": "1-2-0/ColumnLineageDatasetFacet.json",
    "dataQualityAssertions": "1-1-0/DataQualityAssertionsDatasetFacet.json",
    "dataQualityMetrics": "1-0-3/DataQualityMetricsInputDatasetFacet.json",
    "errorMessage": "1-0-1/ErrorMessageRunFacet.json",
    "inputSubset": "1-0-0/BaseSubsetDatasetFacet.json#/$defs/InputSubsetInputDatasetFacet",
    "jobType": "2-0-4/JobTypeJobFacet.json",
    "nominalTime": "1-0-1/NominalTimeRunFacet.json",
    "outputStatistics": "1-0-2/OutputStatisticsOutputDatasetFacet.json",
    "outputSubset": "1-0-0/BaseSubsetDatasetFacet.json#/$defs/OutputSubsetOutputDatasetFacet",
    "ownership": "1-0-1/OwnershipDatasetFacet.json",
    "parent": "1-2-0/ParentRunFacet.json",
    "schema": "1-2-0/SchemaDatasetFacet.json",
    "symlinks": "1-0-1/SymlinksDatasetFacet.json",
    "version": "1-0-1/DatasetVersionDatasetFacet.json",
}
HIDDEN = "***"
"""Stand-in for the partition values of a column that events must not show."""
_PARTS = ("facets", "inputFacets", "outputFacets")
_KINDS = {
    "DIRECT": ("IDENTITY", "TRANSFORMATION", "AGGREGATION"),
    "INDIRECT": ("JOIN", "GROUP_BY", "FILTER", "SORT", "WINDOW", "CONDITIONAL"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class InputField:
    """A column that another one is computed from, or that decides on rows.

    Attributes:
        namespace: namespace of the dataset with the column.
        name: name of the dataset.
        column: the column; nested fields with dots in between.
        kind: ``DIRECT`` for values that come from the column, ``INDIRECT`` for an influence such as a filter.
        subtype: ``IDENTITY``, ``TRANSFORMATION`` or ``AGGREGATION``, or of an indirect one ``JOIN``, ``GROUP_BY``,
            ``FILTER``, ``SORT``, ``WINDOW`` or ``CONDITIONAL``; empty if nobody knows.
        masking: whether the original value cannot be known from the result.

    Raises:
        ConfigError: for a subtype of the other kind.
    """

    namespace: str
    name: str
    column: str
    kind: Literal["DIRECT", "INDIRECT"] = "DIRECT"
    subtype: str = ""
    masking: bool = False

    def __post_init__(self) -> None:
        require_types(self)
        if self.subtype and self.subtype not in _KINDS[self.kind]:
            raise ConfigError(f"subtype must be one of {', '.join(_KINDS[self.kind])}, not {self.subtype}")

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON object of the specification."""
        change: dict[str, Any] = {"type": self.kind}
        change |= {"subtype": self.subtype} if self.subtype else {}
        change |= {"masking": True} if self.masking else {}
        return {"namespace": self.namespace, "name": self.name, "field": self.column, "transformations": [change]}


@dataclass(frozen=True, slots=True, kw_only=True)
class Touched:
    """A dataset that an attempt read or committed to.

    Attributes:
        namespace: namespace by OpenLineage's rules, such as ``file`` or ``kafka://host:port``.
        name: name by these rules.
        known_as: name on the platform, such as ``lake`` and ``silver/visits``, if there is one.
        version: version that was read, or that the commit made; of files, the identity of their content.
        columns: declared columns.
        partitions: partitions that were read, or that the write owned; none, or one without columns, for the whole
            dataset.
        rows: number of rows read or written.
        size: size of the files, in bytes.
        files: number of files.
        findings: verdicts of audits on these rows, of an input.
        origins: column -> the columns that it is computed from, of an output.
        influences: columns that decide on all rows, as filters and joins do, of an output.
        owner: who answers for the dataset.
    """

    namespace: str
    name: str
    known_as: Dataset | None = None
    version: int | str | None = None
    columns: Mapping[str, Column] = field(default_factory=dict)
    partitions: Sequence[Mapping[str, str | None]] = ()
    rows: int | None = None
    size: int | None = None
    files: int | None = None
    findings: Sequence[Finding] = ()
    origins: Mapping[str, Sequence[InputField]] = field(default_factory=dict)
    influences: Sequence[InputField] = ()
    owner: str = ""


def place_at(location: str) -> tuple[str, str]:
    """Return namespace and name of a table from the URI, by OpenLineage's rules."""
    parts = urlsplit(location)
    path = unquote(parts.path)
    if parts.scheme in ("", "file"):
        return ("file", path or location)
    # The specification knows buckets by the name of the service, not by the name of Hadoop's client.
    return (f"{parts.scheme.replace('s3a', 's3')}://{parts.netloc}", path.lstrip("/"))


def touched_of(stated: Mapping[str, Any]) -> Touched:
    """Return a dataset of an event by name, version and partitions."""
    facets, known_as = stated.get("facets") or {}, dataset_of(stated)
    subset: Mapping[str, Any] = next((each["subset"] for each in _parts_of(stated) if "subset" in each), {})
    named = (subset.get("inputCondition") or subset.get("outputCondition") or {}).get("partitions", ())
    return Touched(
        namespace=stated["namespace"],
        name=stated["name"],
        known_as=known_as if known_as.namespace in (LAKE, SOURCES) else None,
        version=facets.get("version", {}).get("datasetVersion"),
        partitions=[
            {column: None if value == NO_VALUE else value for column, value in each["dimensions"].items()}
            for each in named
        ],
    )


def with_facets(stated: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Return a dataset of an event with further facets.

    The further origins of a column stand in place of the stated ones.
    """
    found = {**stated}
    for part in _PARTS:
        if part in stated or part in more:
            found[part] = {**(stated.get(part) or {}), **(more.get(part) or {})}
    known = (stated.get("facets") or {}).get("columnLineage")
    if known and (traced := (more.get("facets") or {}).get("columnLineage")):
        found["facets"]["columnLineage"] = {**traced, "fields": {**known["fields"], **traced["fields"]}}
    return found


def _parts_of(stated: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [stated[part] for part in _PARTS if stated.get(part)]


def input_of(producer: str, read: Touched) -> dict[str, Any]:
    """Return an input of an event, with the facets of the known facts."""
    facets: dict[str, Any] = {}
    counted = {"rowCount": read.rows, "bytes": read.size, "fileCount": read.files}
    known = {name: value for name, value in counted.items() if value is not None}
    if known:
        facets["dataQualityMetrics"] = facet(producer, "dataQualityMetrics", **known, columnMetrics={})
    if read.findings:
        assertions = [_assertion(each) for each in read.findings]
        facets["dataQualityAssertions"] = facet(producer, "dataQualityAssertions", assertions=assertions)
    if condition := _partitions(read):
        facets["subset"] = facet(producer, "inputSubset", inputCondition=condition)
    return {**_dataset(producer, read), "inputFacets": facets}


def output_of(producer: str, written: Touched) -> dict[str, Any]:
    """Return an output of an event, with the facets of the known facts."""
    facets: dict[str, Any] = {}
    counted = {"rowCount": written.rows, "size": written.size, "fileCount": written.files}
    known = {name: value for name, value in counted.items() if value is not None}
    if known:
        facets["outputStatistics"] = facet(producer, "outputStatistics", **known)
    if condition := _partitions(written):
        facets["subset"] = facet(producer, "outputSubset", outputCondition=condition)
    found = {**_dataset(producer, written), "outputFacets": facets}
    if written.origins or written.influences:
        fields = {
            column: {"inputFields": [each.as_dict() for each in origins]}
            for column, origins in written.origins.items()
            if origins
        }
        affecting = [each.as_dict() for each in written.influences]
        found["facets"]["columnLineage"] = facet(producer, "columnLineage", fields=fields, dataset=affecting)
    return found


def _dataset(producer: str, touched: Touched) -> dict[str, Any]:
    facets: dict[str, Any] = {}
    if touched.columns:
        fields = [_field(name, column, n) for n, (name, column) in enumerate(touched.columns.items(), 1)]
        facets["schema"] = facet(producer, "schema", fields=fields)
    if touched.version is not None:
        facets["version"] = facet(producer, "version", datasetVersion=str(touched.version))
    if touched.owner:
        facets["ownership"] = facet(producer, "ownership", owners=[{"name": touched.owner, "type": "MAINTAINER"}])
    if touched.known_as:
        alias = {"namespace": touched.known_as.namespace, "name": touched.known_as.name, "type": "TABLE"}
        facets["symlinks"] = facet(producer, "symlinks", identifiers=[alias])
    return {"namespace": touched.namespace, "name": touched.name, "facets": facets}


def _field(name: str, column: Column, place: int) -> dict[str, Any]:
    """Return a column of the schema facet; fields of structs, arrays and maps are nested."""
    stored = ddl.field(name, column.type)
    found = {"name": name, "type": column.type, "ordinal_position": place}
    found |= {"description": column.comment} if column.comment else {}
    nested = _nested(stored["type"]).get("fields") if stored else None
    return {**found, "fields": nested} if nested else found


def _nested(kind: Kind) -> dict[str, Any]:
    """Return the name of a type and the fields inside; items of an array are a field ``_element``."""
    return fold(
        kind,
        scalar=lambda kind: {"type": kind},
        struct=lambda _, fields: _around("struct", [(each["name"], inner) for each, inner in fields]),
        array=lambda _, inner: _around("array", [("_element", inner)]),
        map=lambda _, key, value: _around("map", [("key", key), ("value", value)]),
    )


def _around(name: str, fields: Iterable[tuple[str, Mapping[str, Any]]]) -> dict[str, Any]:
    nested = [{"name": each, **inner} for each, inner in fields]
    return {"type": name, "fields": nested} if nested else {"type": name}


def _partitions(touched: Touched) -> dict[str, Any]:
    """Return the condition for the partitions of a dataset; empty for a whole dataset."""
    if not all(touched.partitions):  # a table without partitions is one without a name
        return {}
    quiet = withheld(touched.columns, "lineage facet")
    named = [
        {n: HIDDEN if n in quiet else NO_VALUE if v is None else v for n, v in each.items()}
        for each in touched.partitions
    ]
    return {"type": "partition", "partitions": [{"dimensions": each} for each in named]} if named else {}


def _assertion(finding: Finding) -> dict[str, Any]:
    severity = "error" if finding.severity == "fail" else "warn"
    found = {"assertion": finding.name, "success": finding.passed, "severity": severity, "name": finding.name}
    return {**found, "description": finding.note} if finding.note else found


def facet(producer: str, name: str, **content: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON values
    """Return a facet with the addresses of the producer and of the definition."""
    return {"_producer": producer, "_schemaURL": _schema_of(name), **content}


def _schema_of(name: str) -> str:
    """Return the address of a facet's definition, which has the name of the file unless stated."""
    path = _FACETS[name]
    return f"{SPEC}/facets/{path}" if "#" in path else f"{SPEC}/facets/{path}#/$defs/{path[6:].removesuffix('.json')}"


def dataset_of(stated: Mapping[str, Any]) -> Dataset:
    """Return a dataset by the name on the platform, otherwise by the name in the event."""
    owners = ((stated.get("facets") or {}).get("ownership") or {}).get("owners") or [{"name": ""}]
    named = ((stated.get("facets") or {}).get("symlinks") or {}).get("identifiers") or ()
    own = next((each for each in named if each["namespace"] in (LAKE, SOURCES)), stated)
    return Dataset(own["namespace"], own["name"], owners[0]["name"])
