"""Outdated partitions: rows that other code computed than the present declaration states."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from dedp_assets.graph.declare.tables import LakeTable
from dedp_assets.graph.inputs.history import last_code
from dedp_assets.graph.outcomes.refusals import Refusals
from dedp_assets.graph.reconcile.reconciler import judges_of
from dedp_assets.graph.resources.lake import Lake
from dedp_assets.patterns.core.errors import PatternError

__all__ = ["Outdated", "outdated_partitions"]


@dataclass(frozen=True, slots=True)
class Outdated:
    """A partition that the present code or declaration would compute, or judge, otherwise.

    Attributes:
        table: the table.
        key: the partition key; empty for a whole table.
        stored: version of the code that computed the partition, or that refused it.
        present: version of the present code.
        refused: whether the partition was refused: the reconciler tries it again by itself.
        judged: whether it was refused by other columns, gates or references.
    """

    table: str
    key: str
    stored: str
    present: str
    refused: bool = False
    judged: bool = False

    @property
    def reason(self) -> str:
        """The reason in words."""
        if self.judged:
            return "was refused by other columns, gates or references than the present ones"
        done = "was refused" if self.refused else "was computed"
        return f"{done} by code version {self.stored}, the present one is {self.present}"


def outdated_partitions(tables: Sequence[LakeTable[...]], lake: Lake) -> list[Outdated]:
    """List the partitions that the present code or declaration would compute, or judge, otherwise.

    Args:
        tables: the declared tables.
        lake: the tables.
    """
    found: list[Outdated] = []
    for table in tables:
        with suppress(PatternError):  # a table that cannot be read is none of the plan's partitions either
            found += [*_computed(table, lake), *_refused(table, lake)]
    return found


def _computed(table: LakeTable[...], lake: Lake) -> list[Outdated]:
    """List the partitions whose last commit is by other code."""
    ledger, present = lake.ledger(table.spec.name), table.code_version
    if not ledger.exists():
        return []
    column = table.spec.executed_by or next(iter(table.spec.partition_by), "")
    if table.runs.partitions is not None:
        codes = last_code(ledger, column)
    else:
        last = ledger.last(lambda commit: commit.record is not None)
        codes = {"": last.record.code_version} if last and last.record else {}
    return [Outdated(table.spec.name, key, code, present) for key, code in sorted(codes.items()) if code != present]


def _refused(table: LakeTable[...], lake: Lake) -> list[Outdated]:
    """List the partitions whose refusal does not hold for the present code, columns and gates."""
    notes = Refusals(lake.refused(table.spec.name)).by_key()
    judges, present = judges_of(table, lake) if notes else "", table.code_version
    return [
        Outdated(table.spec.name, key, note.code_version, present, refused=True, judged=note.code_version == present)
        for key, note in sorted(notes.items())
        if not note.holds(present, judges)
    ]
