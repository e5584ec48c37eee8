"""Tables of a landing: the declarations that Python would make, for the same machinery."""

from __future__ import annotations

from dataclasses import replace

from dedp_assets.components.landed_records import AS_USUAL, LINES_READ, Valid
from dedp_assets.components.landed_sources import loader_of
from dedp_assets.components.landings import Landed
from dedp_assets.graph.declare import (
    LakeTable,
    Reads,
    Runs,
    lake_table,
)
from dedp_assets.graph.run.landings import FIELD_CHECKS, FIELD_FIGURES, LETTER_FIGURES
from dedp_assets.patterns.core.audits import Audit
from dedp_assets.patterns.core.names import OUTCOME
from dedp_assets.patterns.core.schema import TableSpec
from dedp_assets.patterns.error_management.dead_letter import divert_unprocessable
from dedp_assets.patterns.error_management.dynamic_late_data_integrator import plan_late_partitions
from dedp_assets.patterns.error_management.windowed_deduplicator import deduplicate

__all__ = ["tables_of"]

_FEW_DEAD = Audit(name="dead_letters_are_few", of="dead", per="read", warn_above=0, fail_above=0.1, approvable=True)
_DEAD_LINES = f"coalesce(sum(if({OUTCOME} = 'dead', {{}}, 0)), 0)"
"""SQL that counts lines: a quote that nothing ends makes one letter of many records."""
_FEW_TWICE = Audit(
    name="duplicates_are_few", of="duplicates", per="read", warn_above=0.1, fail_above=0.5, approvable=True
)


def tables_of(landed: Landed) -> tuple[LakeTable[...], LakeTable[...]]:
    """Declare the bronze table of a landing, and the silver table with the dead letters.

    Raises:
        ConfigError: for what the graph cannot declare.
    """
    silver, bronze, dead = landed.specs()
    loads, computes = loader_of(landed, bronze), Valid(landed, silver)
    return loads.declared(silver, dead), _silver(computes, bronze, dead)


def _silver(made: Valid, bronze: TableSpec, dead: TableSpec) -> LakeTable[...]:
    landed, spec = made.landed, made.spec
    stated = landed.stated
    usual = (
        {AS_USUAL: "Warns if the share of duplicates is unlike that of the partitions before."} if made.compares else {}
    )
    named = {audit.name for audit in stated.gates.audits}
    few = replace(_FEW_DEAD, of="dead_lines", per=LINES_READ, sql=_DEAD_LINES.format(landed.lines))
    defaults = (few if landed.lines else _FEW_DEAD, *((_FEW_TWICE,) if stated.keys else ()))
    own = [audit for audit in defaults if audit.name not in named]
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
            reports={**usual, **(FIELD_CHECKS if landed.counts else {}), **stated.gates.reports},
        ),
        about=replace(
            stated.about,
            used_by=stated.about.used_by or f"whoever mends the source: the letters that wait are in {dead.name}",
            derived={**derived, **stated.about.derived},
            figures={**LETTER_FIGURES, **(FIELD_FIGURES if landed.counts else {}), **stated.about.figures},
        ),
        patterns=[*([deduplicate] if stated.keys else ()), divert_unprocessable, plan_late_partitions],
        code_version=landed.code_version,
    )(made.compute)
