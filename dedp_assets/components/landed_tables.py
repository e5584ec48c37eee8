"""Tables of a landing: the declarations that Python would make, for the same machinery."""

from __future__ import annotations

from dataclasses import replace

from dedp_assets.components.landed_loads import GROWTH, Load
from dedp_assets.components.landed_records import AS_USUAL, Valid
from dedp_assets.components.landings import Landed
from dedp_assets.graph.declare import (
    About,
    Gates,
    Job,
    LakeTable,
    OnDelivery,
    Reads,
    Runs,
    Source,
    lake_table,
)
from dedp_assets.graph.run.landings import LANDING_FIGURES, LETTER_FIGURES
from dedp_assets.patterns.connectors.landed_files import LINES_OF_RECORD
from dedp_assets.patterns.core.audits import Audit
from dedp_assets.patterns.core.schema import TableSpec
from dedp_assets.patterns.error_management.dead_letter import divert_unprocessable
from dedp_assets.patterns.error_management.dynamic_late_data_integrator import plan_late_partitions
from dedp_assets.patterns.error_management.late_data_detector import detect_late_data
from dedp_assets.patterns.error_management.windowed_deduplicator import deduplicate
from dedp_assets.patterns.idempotency.data_overwrite import overwrite_partition
from dedp_assets.patterns.ingestion.full_loader import load_full, volume_guard
from dedp_assets.patterns.ingestion.readiness_marker import plan_ready

__all__ = ["tables_of"]

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


def tables_of(landed: Landed) -> tuple[LakeTable[...], LakeTable[...]]:
    """Declare the tables of a landing: landed records, and valid records with dead letters beside.

    Raises:
        ConfigError: for what the graph cannot declare.
    """
    silver, bronze, dead = landed.specs()
    loads, computes = Load(landed, bronze), Valid(landed, silver)
    return _bronze(loads, silver, dead), _silver(computes, bronze, dead)


def _bronze(made: Load, silver: TableSpec, dead: TableSpec) -> LakeTable[...]:
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
    timed, guard = ((_ON_TIME,) if landed.event else ()), (volume_guard(max_growth=GROWTH) if whole_folder else ())
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


def _silver(made: Valid, bronze: TableSpec, dead: TableSpec) -> LakeTable[...]:
    landed, spec = made.landed, made.spec
    stated = landed.stated
    usual = (
        {AS_USUAL: "Warns if the share of duplicates is unlike that of the partitions before."} if made.compares else {}
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
