"""OpenLineage: events of a step's attempt, as plain JSON objects.

An attempt has one START and one terminal event (COMPLETE or FAIL) under the same run id; a retry is another attempt
with another id, of the same job. Inputs and outputs stand on the terminal event, as a START may be lost: the inputs are
what was opened, also by an attempt that failed, the outputs what was committed.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, Literal

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.options import require_types
from dedp_assets.patterns.core.results import Finding
from dedp_assets.patterns.core.running.lineage import LAKE, SOURCES, Dataset, ObservedRun
from dedp_assets.patterns.core.schema import Column
from dedp_assets.patterns.core.types import ddl
from dedp_assets.patterns.core.types.nesting import Kind, fold
from dedp_assets.patterns.core.types.partitions import NO_VALUE

__all__ = ["Attempt", "InputField", "Touched", "complete_event", "fail_event", "observed_run", "start_event"]

_SPEC = "https://openlineage.io/spec"
_SCHEMA = f"{_SPEC}/2-0-2/OpenLineage.json#/$defs/RunEvent"
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
_IDS = uuid.UUID("8f0c7c43-52b7-4f5e-9d55-0c1f4f0f9a11")
"""UUID namespace of attempt ids, fixed for stable ids."""
_KINDS = {
    "DIRECT": ("IDENTITY", "TRANSFORMATION", "AGGREGATION"),
    "INDIRECT": ("JOIN", "GROUP_BY", "FILTER", "SORT", "WINDOW", "CONDITIONAL"),
}
_TERMINAL = ("COMPLETE", "FAIL", "ABORT")
_LONGEST_MESSAGE = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """An attempt of a run's step.

    Attributes:
        run_id: id of the run, such as Dagster's.
        job: name of the run's job.
        step: name of the step, which stays the same whichever job the step runs in.
        number: 0 for the first attempt, and one more for each retry.
        namespace: namespace of the jobs.
        nominal: start and end of the time that the step computes, if it has one.
        producer: URI of the program that makes the events.

    Raises:
        ConfigError: without a run, a job or a step, or for times without a time zone.
    """

    run_id: str
    job: str
    step: str
    number: int = 0
    namespace: str = "dedp"
    nominal: tuple[datetime, datetime] | None = None
    producer: str = "urn:dedp"

    def __post_init__(self) -> None:
        require_types(self)
        if not (self.run_id and self.job and self.step):
            raise ConfigError("an attempt must have the names of its run, job and step, not an empty text")

    @property
    def id(self) -> str:
        """UUID of the attempt, made of run, step and number."""
        return str(uuid.uuid5(_IDS, f"{self.run_id}/{self.step}/{self.number}"))

    @property
    def parent_id(self) -> str:
        """UUID of the run: the run's id, where that is a UUID."""
        try:
            return str(uuid.UUID(self.run_id))
        except ValueError:
            return str(uuid.uuid5(_IDS, self.run_id))


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


def start_event(attempt: Attempt, *, at: datetime) -> dict[str, Any]:
    """Return the event of an attempt that begins.

    Args:
        attempt: the attempt.
        at: current time, with time zone.
    """
    return _event(attempt, "START", at)


def complete_event(
    attempt: Attempt, *, at: datetime, inputs: Sequence[Touched] = (), outputs: Sequence[Touched] = ()
) -> dict[str, Any]:
    """Return the event of an attempt that succeeded.

    Args:
        attempt: the attempt.
        at: current time, with time zone.
        inputs: what was opened.
        outputs: what was committed to.
    """
    return _event(attempt, "COMPLETE", at, inputs=inputs, outputs=outputs)


def fail_event(
    attempt: Attempt, *, at: datetime, error: str, inputs: Sequence[Touched] = (), outputs: Sequence[Touched] = ()
) -> dict[str, Any]:
    """Return the event of an attempt that failed.

    Args:
        attempt: the attempt.
        at: current time, with time zone.
        error: reason, for people.
        inputs: what was opened before the failure.
        outputs: what was committed to before the failure; mostly nothing.
    """
    facet = _facet(attempt, "errorMessage", message=error[:_LONGEST_MESSAGE], programmingLanguage="PYTHON")
    return _event(attempt, "FAIL", at, inputs=inputs, outputs=outputs, facets={"errorMessage": facet})


def observed_run(event: Mapping[str, Any], *, namespace: str = "dedp") -> ObservedRun | None:
    """Parse the observed run of a terminal event of any producer.

    Args:
        event: an event of OpenLineage.
        namespace: namespace of the platform's own jobs; of other jobs the name begins with the namespace.

    Returns:
        The run with its datasets by their names on the platform, where the event tells these; ``None`` for any other
        event.

    Raises:
        ConfigError: for a terminal event without run, job or time.
    """
    if event.get("eventType") not in _TERMINAL:
        return None
    try:
        job = event["job"]
        return ObservedRun(
            job=job["name"] if job["namespace"] == namespace else f"{job['namespace']}/{job['name']}",
            run_id=event["run"]["runId"],
            at=datetime.fromisoformat(event["eventTime"].replace("Z", "+00:00")),
            inputs=tuple(dict.fromkeys(map(_dataset_of, event.get("inputs") or ()))),
            outputs=tuple(dict.fromkeys(map(_dataset_of, event.get("outputs") or ()))),
            failed=event["eventType"] != "COMPLETE",
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ConfigError(f"the event must have a run, a job and a time, not {type(error).__name__}: {error}") from None


def _event(
    attempt: Attempt,
    kind: str,
    at: datetime,
    *,
    inputs: Iterable[Touched] = (),
    outputs: Iterable[Touched] = (),
    facets: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    whole = {"namespace": attempt.namespace, "name": attempt.job}
    run = {"runId": attempt.parent_id}
    known = {"parent": _facet(attempt, "parent", run=run, job=whole, root={"run": run, "job": whole})}
    if attempt.nominal:
        start, end = (_time(each) for each in attempt.nominal)
        known["nominalTime"] = _facet(attempt, "nominalTime", nominalStartTime=start, nominalEndTime=end)
    kind_of_job = _facet(attempt, "jobType", processingType="BATCH", integration="DAGSTER", jobType="STEP")
    return {
        "eventType": kind,
        "eventTime": _time(at),
        "run": {"runId": attempt.id, "facets": {**known, **(facets or {})}},
        "job": {"namespace": attempt.namespace, "name": attempt.step, "facets": {"jobType": kind_of_job}},
        "inputs": [_input(attempt, each) for each in inputs],
        "outputs": [_output(attempt, each) for each in outputs],
        "producer": attempt.producer,
        "schemaURL": _SCHEMA,
    }


def _input(attempt: Attempt, read: Touched) -> dict[str, Any]:
    facets: dict[str, Any] = {}
    counted = {"rowCount": read.rows, "bytes": read.size, "fileCount": read.files}
    known = {name: value for name, value in counted.items() if value is not None}
    if known:
        facets["dataQualityMetrics"] = _facet(attempt, "dataQualityMetrics", **known, columnMetrics={})
    if read.findings:
        assertions = [_assertion(each) for each in read.findings]
        facets["dataQualityAssertions"] = _facet(attempt, "dataQualityAssertions", assertions=assertions)
    if condition := _partitions(read):
        facets["subset"] = _facet(attempt, "inputSubset", inputCondition=condition)
    return {**_dataset(attempt, read), "inputFacets": facets}


def _output(attempt: Attempt, written: Touched) -> dict[str, Any]:
    facets: dict[str, Any] = {}
    counted = {"rowCount": written.rows, "size": written.size, "fileCount": written.files}
    known = {name: value for name, value in counted.items() if value is not None}
    if known:
        facets["outputStatistics"] = _facet(attempt, "outputStatistics", **known)
    if condition := _partitions(written):
        facets["subset"] = _facet(attempt, "outputSubset", outputCondition=condition)
    found = {**_dataset(attempt, written), "outputFacets": facets}
    if written.origins or written.influences:
        fields = {
            column: {"inputFields": [each.as_dict() for each in origins]}
            for column, origins in written.origins.items()
            if origins
        }
        affecting = [each.as_dict() for each in written.influences]
        found["facets"]["columnLineage"] = _facet(attempt, "columnLineage", fields=fields, dataset=affecting)
    return found


def _dataset(attempt: Attempt, touched: Touched) -> dict[str, Any]:
    facets: dict[str, Any] = {}
    if touched.columns:
        fields = [_field(name, column, n) for n, (name, column) in enumerate(touched.columns.items(), 1)]
        facets["schema"] = _facet(attempt, "schema", fields=fields)
    if touched.version is not None:
        facets["version"] = _facet(attempt, "version", datasetVersion=str(touched.version))
    if touched.owner:
        facets["ownership"] = _facet(attempt, "ownership", owners=[{"name": touched.owner, "type": "MAINTAINER"}])
    if touched.known_as:
        alias = {"namespace": touched.known_as.namespace, "name": touched.known_as.name, "type": "TABLE"}
        facets["symlinks"] = _facet(attempt, "symlinks", identifiers=[alias])
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
    named = [{n: NO_VALUE if v is None else v for n, v in each.items()} for each in touched.partitions]
    return {"type": "partition", "partitions": [{"dimensions": each} for each in named]} if named else {}


def _assertion(finding: Finding) -> dict[str, Any]:
    severity = "error" if finding.severity == "fail" else "warn"
    found = {"assertion": finding.name, "success": finding.passed, "severity": severity, "name": finding.name}
    return {**found, "description": finding.note} if finding.note else found


def _facet(attempt: Attempt, name: str, **content: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON values
    return {"_producer": attempt.producer, "_schemaURL": _schema_of(name), **content}


def _schema_of(name: str) -> str:
    """Return the address of a facet's definition, which has the name of the file unless stated."""
    path = _FACETS[name]
    return f"{_SPEC}/facets/{path}" if "#" in path else f"{_SPEC}/facets/{path}#/$defs/{path[6:].removesuffix('.json')}"


def _dataset_of(stated: Mapping[str, Any]) -> Dataset:
    """Return a dataset by the name on the platform, otherwise by the name in the event."""
    owners = ((stated.get("facets") or {}).get("ownership") or {}).get("owners") or [{"name": ""}]
    named = ((stated.get("facets") or {}).get("symlinks") or {}).get("identifiers") or ()
    own = next((each for each in named if each["namespace"] in (LAKE, SOURCES)), stated)
    return Dataset(own["namespace"], own["name"], owners[0]["name"])


def _time(moment: datetime) -> str:
    if moment.tzinfo is None:
        raise ConfigError("at must be a time with a time zone, not without")
    # Always as many digits, so that texts sort as the times do.
    return moment.astimezone(timezone.utc).isoformat(timespec="microseconds").replace("+00:00", "Z")
