"""Changes of the fields of a source: new, vanished and retyped fields."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from statistics import median
from typing import Any, Literal

from dedp_assets.patterns.core.audits import Audit
from dedp_assets.patterns.core.errors import printable
from dedp_assets.patterns.core.measuring.measurements import Measured, Measurement
from dedp_assets.patterns.core.measuring.usual import Counted
from dedp_assets.patterns.core.options import typed
from dedp_assets.patterns.core.parsing.field_census import CENSUS, NEW_FIELDS, FieldCensus, FieldFigures
from dedp_assets.patterns.core.results import Finding
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.core.types.ddl import is_storable

__all__ = ["DECLARED_FIELDS", "USUAL_FIELDS", "NewFields", "audits_of_fields", "measure_fields", "with_new_columns"]

NewFields = Literal["ignore", "report", "refuse"]
"""Policy for records with undeclared fields: ignore, warn, or refuse the batch."""
DECLARED_FIELDS, USUAL_FIELDS = "fields_are_declared", "fields_are_as_usual"
"""Names of the audits."""

_LEAST, _PART, _SIGMAS, _FEW, _NAMED = 0.01, 0.2, 4.0, 2, 5
_LAST = 7
"""Number of earlier censuses whose median is usual."""
_SQL = {"integer": "BIGINT", "number": "DOUBLE", "boolean": "BOOLEAN"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _DeclaredFields(Audit):
    """Check of undeclared fields."""

    def judge(self, figures: Mapping[str, Any], why: str = "") -> Finding:
        found = Audit.judge(self, figures, why)
        named = _of(figures.get(CENSUS))
        return found if found.passed or named is None else replace(found, note=_new(named))


@dataclass(frozen=True, slots=True, kw_only=True)
class _UsualFields(Audit):
    """Check of vanished and retyped declared fields.

    Attributes:
        earlier: the censuses of earlier partitions, newest first; unusual ones do not count.
    """

    earlier: tuple[FieldCensus, ...] = ()

    def judge(self, figures: Mapping[str, Any], why: str = "") -> Finding:
        census = _of(figures.get(CENSUS))
        if census is None:
            return Finding(self.name, passed=False, severity="warn", note=why or "the fields were not counted")
        if not census.records or not self.earlier:
            return Finding(self.name, passed=True, severity="warn", note=_no_history(census, self.earlier))
        changes = _changes(census, self.earlier)
        return Finding(self.name, not changes, "warn", {"changes": len(changes)}, "; ".join(changes))


@typed
def audits_of_fields(new_fields: NewFields = "report", earlier: Sequence[FieldCensus] = ()) -> tuple[Audit, ...]:
    """Build the audits of a census of fields, for the target of the write.

    The fields of the rows read are counted by :func:`~dedp_assets.patterns.core.parsing.field_counting.tally_fields`.

    Args:
        new_fields: whether undeclared fields are ignored, a warning, or a reason to refuse the batch.
        earlier: censuses of earlier partitions, newest first. Without one, no field is held against the usual.

    Example:
        >>> [audit.name for audit in audits_of_fields("refuse")]
        ['fields_are_declared', 'fields_are_as_usual']
    """
    usual = _UsualFields(name=USUAL_FIELDS, of=CENSUS, warn_above=0, earlier=tuple(earlier))
    if new_fields == "ignore":
        return (usual,)
    if new_fields == "refuse":
        return (_DeclaredFields(name=DECLARED_FIELDS, of=NEW_FIELDS, fail_above=0, approvable=True), usual)
    return (_DeclaredFields(name=DECLARED_FIELDS, of=NEW_FIELDS, warn_above=0), usual)


@typed
def measure_fields(
    table: str, now: datetime, *, partition: str, census: FieldCensus, earlier: Sequence[FieldCensus] = ()
) -> Measured:
    """Measure the records with new fields, and the changed fields, of one partition.

    Args:
        table: name of the table.
        now: current time, with time zone.
        partition: key of the partition.
        census: census of the partition.
        earlier: censuses of earlier partitions, newest first.

    Returns:
        ``records_with_new_fields`` and ``changed_fields``; the second is ``unknown`` without an earlier partition.

    Example:
        >>> from datetime import timezone
        >>> now = datetime(2026, 1, 6, tzinfo=timezone.utc)
        >>> seen = FieldCensus(records=9, strange=9, undeclared={"mail": FieldFigures({"string": 9}, sample="a@a.aa")})
        >>> measured = measure_fields("silver/visits", now, partition="2026-01-05", census=seen)
        >>> [(each.metric, each.verdict) for each in measured.measurements]
        [('records_with_new_fields', 'warn'), ('changed_fields', 'unknown')]
        >>> measured.measurements[0].reason
        'mail is not declared: 9 values, string such as a@a.aa'
    """
    judged = census.records and earlier
    changes = _changes(census, earlier) if judged else []
    new = Measurement(
        metric=NEW_FIELDS,
        table=table,
        at=now,
        verdict="warn" if census.strange else "ok",
        partition=partition,
        value=float(census.strange),
        unit="records",
        at_most=0,
        reason=_new(census) if census.strange else "",
    )
    reason = "; ".join(changes) if judged else _no_history(census, earlier)
    verdict: Literal["ok", "warn", "unknown"] = "unknown" if not judged else "warn" if changes else "ok"
    value = float(len(changes)) if judged else None
    changed = replace(new, metric="changed_fields", verdict=verdict, value=value, unit="fields", reason=reason)
    return Measured((new, changed))


@typed
def with_new_columns(spec: TableSpec, census: FieldCensus) -> TableSpec:
    """Declare a nullable column for each new field of the records themselves.

    ``Table(spec, ...).ensure()`` adds them to a stored table. A number whose values are all integers is a BIGINT; what
    has several types, an object or a list is a STRING with the text. Whether the values are personal data nobody said
    yet, so they are held to be. A field inside of another one, or with a name that no data file can hold or that
    differs from a column's in case only, is not added: it stays undeclared.

    Example:
        >>> from dedp_assets.patterns.core.schema import Column, TableSpec
        >>> seen = FieldCensus(records=2, undeclared={"age": FieldFigures({"integer": 1, "null": 1})})
        >>> with_new_columns(TableSpec("people", {"name": Column("STRING")}), seen).columns["age"].type
        'BIGINT'
    """
    columns, taken = dict(spec.columns), {name.lower() for name in spec.columns}
    for path, figures in census.undeclared.items():
        if path.isidentifier() and is_storable(path) and path.lower() not in taken:
            taken.add(path.lower())
            columns[path] = Column(
                _type(figures), "new field, not declared by the source's schema", classification="personal"
            )
    return replace(spec, columns=columns)


def _type(figures: FieldFigures) -> str:
    kinds = figures.types.keys() - {"null"}
    if kinds == {"integer", "number"}:
        return "DOUBLE"
    return _SQL.get(next(iter(kinds)), "STRING") if len(kinds) == 1 else "STRING"


def _of(plain: Mapping[str, Any] | None) -> FieldCensus | None:
    return FieldCensus.from_dict(plain) if plain else None


def _new(census: FieldCensus) -> str:
    """Write a sentence for each of the most frequent new fields."""
    known = {path.lower(): path for path in census.declared}
    ordered = sorted(census.undeclared, key=lambda path: (-census.undeclared[path].values, path))
    sentences = list[str]()
    for path in ordered[:_NAMED]:
        figures, alike = census.undeclared[path], known.get(path.lower())
        sample = f" such as {figures.sample}" if figures.sample else ""
        case = f", which differs from {alike} in case only" if alike else ""
        sentences.append(
            f"{path} is not declared{case}: {figures.values:,} values, {' or '.join(figures.types)}{sample}"
        )
    if further := len(ordered) - _NAMED:
        sentences += [f"and {further} further fields"] if further > 0 else []
    sentences += [f"and {census.others:,} values of others"] if census.others else []
    return printable("; ".join(sentences))


def _no_history(census: FieldCensus, earlier: Sequence[FieldCensus]) -> str:
    return (
        "too little history: no earlier partition" if not earlier else f"no record of {census.unreadable} is readable"
    )


def _changes(census: FieldCensus, earlier: Sequence[FieldCensus]) -> list[str]:
    """Write a sentence for each declared field with a higher share of a type or of absences.

    Args:
        census: the newest census.
        earlier: earlier censuses, newest first.
    """
    found = []
    for path, figures in census.declared.items():
        counted = Counted[FieldFigures]()
        for each in reversed([each.declared[path] for each in earlier if path in each.declared]):
            if each.places:
                counted.take(each, is_unusual=bool(_risen(each, counted.values)))
        for kind, usual in _risen(figures, counted.values).items():
            now = figures.share(kind)
            found.append(f"{path} is {_worded(kind)} in {now:.2%} of {figures.places:,}, usual is {usual:.2%}")
    return found


def _risen(figures: FieldFigures, counted: Sequence[FieldFigures]) -> dict[str, float]:
    """Return the usual share of each type, and of absences, that has a higher share in a field."""
    found, before = {}, counted[-_LAST:]
    for kind in [kind for kind in ("absent", *figures.types) if before and figures.share(kind)]:
        now, usual = figures.share(kind), median(each.share(kind) for each in before)
        if now - usual > max(_LEAST, _PART * min(usual, 1 - usual), _chance(kind, figures, before)):
            found[kind] = usual
    return found


def _chance(kind: str, figures: FieldFigures, before: Sequence[FieldFigures]) -> float:
    """Return the rise of a share within the error of sampling.

    That is four standard deviations of a difference of two shares, and two values.
    The highest of several earlier shares may be one that was told and does not count; a share of 0 may be that of a
    value too few.
    """
    ordered = sorted(before, key=lambda each: each.share(kind))
    kept = ordered[: max(len(ordered) - 1, 2)]
    places = sum(each.places for each in kept)
    likely = max(sum(each.share(kind) * each.places for each in kept), 1) / (places + 1)
    return _SIGMAS * math.sqrt(likely * (1 - likely) * (1 / figures.places + 1 / places)) + _FEW / figures.places


def _worded(kind: str) -> str:
    return kind if kind in ("absent", "null") else f"{'an' if kind[0] in 'aio' else 'a'} {kind}"
