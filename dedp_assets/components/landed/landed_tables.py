"""Tables of a landing: the declarations that Python would make, for the same machinery."""

from __future__ import annotations

from dataclasses import replace

from dedp_assets.components.landed.landed_records import LINES_READ, Valid
from dedp_assets.components.landed.landed_sources import loader_of
from dedp_assets.components.landed.landings import Landed
from dedp_assets.graph.declare import (
    LakeTable,
    Reads,
    Runs,
    lake_table,
)
from dedp_assets.graph.declare.validation import FEW_DEAD
from dedp_assets.patterns.core.names import OUTCOME
from dedp_assets.patterns.core.schema import TableSpec
from dedp_assets.patterns.error_management.dead_letter import divert_unprocessable
from dedp_assets.patterns.error_management.dynamic_late_data_integrator import plan_late_partitions
from dedp_assets.patterns.error_management.windowed_deduplicator import deduplicate

__all__ = ["tables_of"]

_DEAD_LINES = f"coalesce(sum(if({OUTCOME} = 'dead', {{}}, 0)), 0)"
"""SQL that counts lines: a quote that nothing ends makes one letter of many records."""


def tables_of(landed: Landed) -> tuple[LakeTable[...], LakeTable[...]]:
    """Declare the bronze table of a landing, and the silver table with the dead letters.

    Raises:
        ConfigError: for what the graph cannot declare.
    """
    silver, bronze, dead = landed.specs()
    loads, computes = loader_of(landed, bronze), Valid(landed, silver)
    return loads.declared(silver, dead), _silver(computes, bronze, dead)


def _silver(made: Valid, bronze: TableSpec, dead: TableSpec) -> LakeTable[...]:
    landed, stated, validation = made.landed, made.landed.stated, made.validation
    by_lines = replace(FEW_DEAD, of="dead_lines", per=LINES_READ, sql=_DEAD_LINES.format(landed.lines))
    derived = dict.fromkeys([*landed.columns, *landed.event], ("raw",))
    named = {audit.name for audit in stated.gates.audits}
    own = [by_lines] if landed.lines and by_lines.name not in named else []
    return lake_table(
        made.spec,
        beside={dead: [divert_unprocessable]},
        reads=Reads({bronze: made.feed}),
        runs=Runs(stated.partitions, replay=made.replay),
        gates=validation.gates(replace(stated.gates, audits=(*own, *stated.gates.audits))),
        about=validation.about(
            replace(stated.about, derived={**derived, **stated.about.derived}),
            dead=dead.name,
        ),
        patterns=[*([deduplicate] if stated.keys else ()), divert_unprocessable, plan_late_partitions],
        code_version=landed.code_version,
    )(made.compute)
