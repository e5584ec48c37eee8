"""Tables of a landing: the declarations that Python would make, for the same machinery."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from typing import Any, cast

import dagster as dg

from dedp_assets.components.landings import Landed
from dedp_assets.graph.catalogue.specs import IN_FILE
from dedp_assets.graph.declare import (
    About,
    Feed,
    Gates,
    Inputs,
    Job,
    LakeTable,
    OnDelivery,
    Pinned,
    Reads,
    Request,
    Runs,
    Source,
    Step,
    Target,
    by_event,
    lake_table,
    same,
    whole,
)
from dedp_assets.graph.run.history import watermark_of_landings
from dedp_assets.graph.run.landings import LANDING_FIGURES, LETTER_FIGURES, measures_of_landing
from dedp_assets.patterns.connectors.formats import Csv, Parquet
from dedp_assets.patterns.connectors.landed_files import LINES_OF_RECORD, read_landed
from dedp_assets.patterns.connectors.record_texts import BROKEN, LAYOUT, RECORD, as_records
from dedp_assets.patterns.core.audits import Audit
from dedp_assets.patterns.core.conversion import exact
from dedp_assets.patterns.core.instants import timestamp
from dedp_assets.patterns.core.names import OUTCOME, identifier
from dedp_assets.patterns.core.results import Split, WriteResult
from dedp_assets.patterns.core.rows import quoted, tally
from dedp_assets.patterns.core.schema import TableSpec
from dedp_assets.patterns.delta import Table, audits_of_usual
from dedp_assets.patterns.error_management.dead_letter import Field, divert_unprocessable, route
from dedp_assets.patterns.error_management.dead_letter_replay import open_letters, replay_letters
from dedp_assets.patterns.error_management.dynamic_late_data_integrator import plan_late_partitions
from dedp_assets.patterns.error_management.late_data_detector import detect_late_data
from dedp_assets.patterns.error_management.windowed_deduplicator import deduplicate
from dedp_assets.patterns.idempotency.data_overwrite import overwrite_partition
from dedp_assets.patterns.ingestion.full_loader import load_full, volume_guard
from dedp_assets.patterns.ingestion.readiness_marker import plan_ready
from dedp_assets.resources import landing as zone

__all__ = ["tables_of"]

_ALLOWED_LATENESS_SECONDS = 15 * 60
_AHEAD = timedelta(days=2)
_TOLERANCE = 0.1
_OTHER_LAYOUT = "the columns are not as declared"
_LINES = Audit(
    name="lines_keep_their_numbers",
    of="numbers",
    sql=f"sum(line_number * ({LINES_OF_RECORD}) + (({LINES_OF_RECORD}) * (({LINES_OF_RECORD}) - 1)) DIV 2)",
    per="lines",
    fail_below=1,
    fail_above=1,
)
_ON_TIME = Audit(
    name="most_records_are_on_time", of="late", where="timeliness = 'late'", per="written", warn_above=0.05
)
_FEW_DEAD = Audit(name="dead_letters_are_few", of="dead", per="read", warn_above=0, fail_above=0.1, approvable=True)
_FEW_TWICE = Audit(
    name="duplicates_are_few", of="duplicates", per="read", warn_above=0.1, fail_above=0.5, approvable=True
)
_AS_USUAL = "duplicates_are_as_usual"


def tables_of(landed: Landed) -> tuple[LakeTable[...], LakeTable[...]]:
    """Declare the tables of a landing: landed records, and valid records with dead letters beside.

    Raises:
        ConfigError: for what the graph cannot declare.
    """
    silver, bronze, dead = landed.specs()
    loads, computes = _Bronze(landed, bronze), _Silver(landed, silver)
    return _bronze(loads, silver, dead), _silver(computes, bronze, dead)


def _bronze(made: _Bronze, silver: TableSpec, dead: TableSpec) -> LakeTable[...]:
    landed, spec = made.landed, made.spec
    stated, whole_folder = landed.stated, landed.stated.partitions is None
    source = Source(
        f"landing/{landed.dataset}",
        f"Files in {stated.folder}, which {'rest' if stated.settled_minutes is not None else stated.marker} completes.",
        kinds=("file", type(stated.format).__name__.lower()),
        owner=stated.about.owner,
    )
    job = Job(
        f"land_{stated.table.replace('/', '_')}",
        f"A delivery of {landed.dataset} and what follows from it: {spec.name}, and {stated.table} of the same "
        "partition. Records that landed with it and belong to other partitions are brought there by the reconciler.",
        selection=" or ".join(f'key:"{name}"' for name in (spec.name, silver.name, dead.name)),
    )
    timed, guard = ((_ON_TIME,) if landed.event else ()), (volume_guard() if whole_folder else ())
    late = [detect_late_data] if landed.event else []
    return lake_table(
        spec,
        reads=Reads(sources=[source], inputs=made.delivered),
        runs=Runs(stated.partitions, OnDelivery(stated.folder, ends=landed.ends), job=job),
        gates=Gates(
            (_LINES, *timed, *guard),
            if_empty="" if whole_folder else "A delivery without a record is refused, unless its marker says so.",
        ),
        about=About(owner=stated.about.owner, figures=LANDING_FIGURES),
        patterns=[load_full if whole_folder else overwrite_partition, plan_ready, *late],
        code_version=landed.landed_version,
    )(made.load)


def _silver(made: _Silver, bronze: TableSpec, dead: TableSpec) -> LakeTable[...]:
    landed, spec = made.landed, made.spec
    stated = landed.stated
    usual = (
        {_AS_USUAL: "Warns if the share of duplicates is unlike that of the partitions before."}
        if made.compares
        else {}
    )
    named = {audit.name for audit in stated.gates.audits}
    own = [audit for audit in (_FEW_DEAD, *((_FEW_TWICE,) if stated.keys else ())) if audit.name not in named]
    derived = dict.fromkeys([*landed.columns, *landed.event], ("raw",))
    return lake_table(
        spec,
        beside={dead: [divert_unprocessable]},
        reads=Reads({bronze: made.feed}),
        runs=Runs(stated.partitions, replay=made.replay),
        gates=replace(
            stated.gates,
            audits=(*own, *stated.gates.audits),
            if_empty=stated.gates.if_empty or "Warns of a partition without a valid record.",
            reports={**usual, **stated.gates.reports},
        ),
        about=replace(
            stated.about,
            used_by=stated.about.used_by or f"whoever mends the source: the letters that wait are in {dead.name}",
            derived={**derived, **stated.about.derived},
            figures={**LETTER_FIGURES, **stated.about.figures},
        ),
        patterns=[*([deduplicate] if stated.keys else ()), divert_unprocessable, plan_late_partitions],
        code_version=landed.code_version,
    )(made.compute)


def _in_file(function: Any) -> Any:  # noqa: ANN401 - a function
    """Mark a function as that of a declaration in YAML, to which Dagster's link to the code leads."""
    vars(function)[IN_FILE] = True
    return function


@dataclass(frozen=True)
class _Bronze:
    """The load of a delivery, with every record as landed."""

    landed: Landed
    spec: TableSpec

    @_in_file
    def delivered(self, request: Request, table: Table, landing: zone.Landing) -> Inputs:
        """Find the delivery of a partition, and the watermark before the delivery."""
        folder, notes = self.landed.stated.folder, dict[str, Any]()
        delivery = landing.delivery(folder, request.key, ends=self.landed.ends, now=request.at).require_ready()
        content = landing.content(folder, delivery)
        if self.landed.event:
            watermark = self._watermark(table, request.key)
            notes["watermark"] = watermark.isoformat() if watermark else None
        name = f"landing/{self.landed.dataset}/{request.key}".rstrip("/")
        return Inputs({name: content}, notes={"delivery": delivery.identity, **notes}, found=delivery)

    @_in_file
    def load(self, step: Step, into: Target, landing: zone.Landing) -> WriteResult:
        """Load one complete delivery in place of the partition's former rows."""
        landed, delivery = self.landed, step.inputs.found
        stated = landed.stated
        paths = landing.paths(stated.folder, delivery)
        lines = read_landed(into.table.session, paths, stated.format, columns=landed.header)
        rows, measures = lines.rows, dict[str, str]()
        made = {name: f"CAST({quoted(step.key)} AS {column.type})" for name, column in landed.landed.items()}
        if landed.event:
            rows, measures = self._dated(rows, step), measures_of_landing(OUTCOME)
            filed = "date_format(event_time, 'yyyy-MM-dd-HH')" if landed.by_hour else "to_date(event_time)"
            made |= {"timeliness": OUTCOME, **dict.fromkeys(landed.event, filed)}
        counted, seen = tally(rows, identity=["source_file", "line_number"], measures=measures)
        written = counted.selectExpr(*[f"{made.get(name, name)} AS {identifier(name)}" for name in self.spec.columns])
        # The header of CSV is the first line of its file, and no record.
        headers = len(lines.count) if isinstance(stated.format, Csv) and stated.format.header else 0
        into = into.noting({"files": dict(lines.count)}).reading(seen, figures={"lines": lines.checksum - headers})
        if stated.partitions is None:
            return load_full(written, into)
        return overwrite_partition(written, into, allow_empty=not delivery.files)

    def _dated(self, rows: Any, step: Step) -> Any:  # noqa: ANN401 - a frame and a split
        stated, begins = self.landed.stated, _begin(step.key)
        watermark = step.inputs.notes["watermark"]
        records = as_records(rows, stated.format, self.landed.naming)
        value = f"get_json_object({RECORD}, {quoted(f'$[{chr(39)}{stated.event_time}{chr(39)}]')})"
        return detect_late_data(
            records,
            event_time=exact(value, "TIMESTAMP"),
            watermark=datetime.fromisoformat(watermark) if watermark else None,
            earliest=_first(self.landed),
            latest=begins + _AHEAD,
        ).rows

    def _watermark(self, table: Table, key: str) -> datetime | None:
        if self.landed.by_hour:
            return _begin(key)  # late is what belongs to an hour before that of the delivery
        lateness = _ALLOWED_LATENESS_SECONDS
        return watermark_of_landings(table.ledger, key, column="landed_on", allowed_lateness_seconds=lateness)


@dataclass(frozen=True)
class _Silver:
    """The typed, validated and deduplicated records of a partition, and the replay of dead letters."""

    landed: Landed
    spec: TableSpec

    @property
    def feed(self) -> Feed:
        """Partitions of the landed records that a partition is computed from."""
        if self.landed.stated.partitions is None:
            return whole()
        (column,) = self.landed.landed
        return by_event(*self.landed.event, column) if self.landed.event else same(column)

    @property
    def compares(self) -> bool:
        """``True`` if the share of duplicates is compared with the partitions before."""
        return bool(self.landed.stated.keys) and self.landed.stated.partitions is not None

    @_in_file
    def compute(self, landed: Pinned, into: Target, dead: Target) -> WriteResult:
        """Type, validate and deduplicate the records of one partition over all deliveries."""
        rows, seen = tally(landed.rows(), identity=self.landed.identity)
        if self.compares:
            usual = {_AS_USUAL: "duplicates"}
            before = audits_of_usual(
                into.table.ledger, usual, partition=into.partition, tolerance=_TOLERANCE, severity="warn"
            )
            into = into.with_audits(*before)
        split = self._once(self._judged(rows, self._letters(landed, dead.table)))
        return route(split, into.reading(seen), dead, allow_empty=True)

    @_in_file
    def replay(self, into: Target, dead: Target) -> WriteResult:
        """Replay the dead letters of one partition by the present declaration."""
        since = dead.table.ledger.version()
        letters = open_letters(dead.table, filed_under=dead.partition, version=since)
        keys = self.landed.stated.keys or self.landed.identity
        return replay_letters(self._once(self._judged(letters)), into, dead, keys=list(keys), since=since)

    def _letters(self, landed: Pinned, dead: Table) -> Any:  # noqa: ANN401 - a frame or nothing
        """Read the letters that the records may have been, of all partitions that a fix may move."""
        if self.landed.landed:
            return landed.related(dead, *self.landed.landed)
        return dead.read({}, version=dead.ledger.version()) if dead.ledger.exists() else None

    def _judged(self, rows: Any, letters: Any = None) -> Split:  # noqa: ANN401 - frames
        landed, names = self.landed, list(self.landed.columns)
        fields = {name: Field(landed.columns[name].type, event_time=name == landed.stated.event_time) for name in names}
        raw = ["raw", "raw_bytes", *(["header"] if isinstance(landed.stated.format, Csv) else [])]
        found = divert_unprocessable(
            as_records(rows, landed.stated.format, landed.naming),
            letters,
            payload=RECORD,
            raw=raw,
            schema=fields,
            identity=landed.identity,
            carry=[*landed.event, BROKEN, LAYOUT],
            rules={**self._rules(), **landed.stated.rules},
        )
        return _worded(found)

    def _once(self, split: Split) -> Split:
        stated = self.landed.stated
        if not stated.keys:
            return split
        order = [*stated.order_by, *(c for c in self.landed.identity if c not in stated.order_by)]
        return deduplicate(split, keys=list(stated.keys), order_by=order, keep=stated.keep)

    def _rules(self) -> dict[str, str]:
        landed, rules = self.landed, dict[str, str]()
        for name in filter(landed.is_required, landed.columns):
            there = f"{identifier(name)} IS NOT NULL"
            if landed.columns[name].type.upper() != "STRING":
                there += f" OR {identifier(f'{name} text')} IS NOT NULL"
            rules[f"{name} is missing"] = there
        rules[_OTHER_LAYOUT] = f"{LAYOUT} IS NULL"
        if not isinstance(landed.stated.format, Parquet):
            rules["the line is not valid UTF-8"] = "raw_bytes IS NULL"
        return {**rules, **self._rules_of_time()} if landed.event else rules

    def _rules_of_time(self) -> dict[str, str]:
        landed = self.landed
        name, time = landed.stated.event_time, identifier(landed.stated.event_time)
        (column,), (filed,) = landed.landed, landed.event
        first, begins = timestamp(_first(landed)), f"CAST({column} AS TIMESTAMP)"
        own = f"to_date({time})"
        if landed.by_hour:
            begins, own = f"to_timestamp({column}, 'yyyy-MM-dd-HH')", f"date_format({time}, 'yyyy-MM-dd-HH')"
        latest = f"{begins} + INTERVAL {_AHEAD.days} DAYS"
        return {
            f"{name} is before the first partition": f"{time} IS NULL OR {time} >= {first}",
            f"{name} is in the future of its landing": f"{time} IS NULL OR {time} <= {latest}",
            f"{name} is not in the partition it was filed under": (
                f"{time} IS NULL OR NOT {time} BETWEEN {first} AND {latest} OR coalesce({own} = {filed}, false)"
            ),
        }


def _worded(split: Split) -> Split:
    """Put the fault of a broken line, and the names of strange columns, into the reasons of letters."""
    reason = f"if({BROKEN} IS NULL, replace(reason, {quoted(_OTHER_LAYOUT)}, coalesce({LAYOUT}, '')), {BROKEN})"
    kind = f"if({BROKEN} IS NULL OR error_class IS NULL, error_class, 'broken line')"
    worded = {"reason": f"if(reason IS NULL, NULL, {reason})", "error_class": kind}
    rows = split.rows.selectExpr(*[f"{worded.get(c, identifier(c))} AS {identifier(c)}" for c in split.rows.columns])
    ours = (RECORD, BROKEN, LAYOUT)
    parts = {part: tuple(c for c in columns if c not in ours) for part, columns in split.parts.items()}
    return replace(split, rows=rows, parts=parts)


def _begin(key: str) -> datetime:
    """Return the begin of the day or hour of a partition key."""
    day, hour = key[:10], key[11:]
    return datetime.fromisoformat(day).replace(hour=int(hour or 0), tzinfo=timezone.utc)


def _first(landed: Landed) -> datetime:
    """Return the begin of the first partition."""
    return cast("dg.TimeWindowPartitionsDefinition", landed.stated.partitions).start.astimezone(timezone.utc)
