"""Tables that nobody computes, and commits that are written by hand: the graph without an engine."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import dagster as dg

from dedp_assets.graph.declare import About, LakeTable, Reads, Runs, Step, lake_table, same
from dedp_assets.graph.resources.lake import Lake
from dedp_assets.patterns.core.results import WriteResult
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import Table, Target, transaction_id
from tests.helpers import a_record, write_log

CHECKS = ("rows_are_accounted_for", "rows_lie_in_their_partition", "constraints_hold")
DAYS = dg.DailyPartitionsDefinition("2026-01-05")
_KINDS = {"day": "DATE", "hour": "STRING"}


def daily(name: str, column: str = "day") -> TableSpec:
    """The declaration of a table by day, or by another column of time."""
    columns = {"id": Column("BIGINT", "identity"), column: Column(_KINDS[column], "when")}
    return TableSpec(name, columns, partition_by=(column,), comment="x")


def declare(name: str, when: Any, *, partitions: dg.PartitionsDefinition[str] = DAYS, column: str = "day") -> LakeTable:
    """A table of the graph that reads the same partition of another one, and that nobody computes."""

    def build(step: Step, into: Target) -> WriteResult:
        raise AssertionError("nobody computes it")

    return lake_table(
        daily(name, column),
        reads=Reads({daily("bronze/x", column): same(column)}),
        runs=Runs(partitions, when),
        about=About("team:x"),
        patterns=[Table.overwrite],
        code_version="1",
    )(build)


def commit_day(
    lake: Lake,
    name: str,
    day: str,
    inputs: Mapping[str, Any] | None = None,
    sequence: int | None = None,
    *,
    changed: bool = True,
    **notes: Any,
) -> int:
    """Commit a day of a table, with its file; return the version. By default the upstream version is the next one."""
    owned, ledger, folder = {"day": day}, lake.ledger(name), Path(lake.root) / name
    if sequence is None:
        sequence = ledger.version() + 1 if ledger.exists() else 1
    findings = tuple({"name": check, "passed": True} for check in CHECKS)
    record = a_record(name, owned, inputs=dict(inputs or {}), sequence=sequence, findings=findings, notes=notes)
    made = {"record": record, "txn": {transaction_id(name, owned, 0): sequence}, "changed": [owned] if changed else []}
    write_log(folder, {"id": "long", "day": "date"}, ["day"], [made])
    for file, _ in ledger.state().keyed_files():
        (folder / file["path"]).parent.mkdir(exist_ok=True)
        (folder / file["path"]).write_bytes(b"x" * 100)
    return ledger.version()
