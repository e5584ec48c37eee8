"""Tables whose commits are written by hand: runs of the graph without an engine."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import transaction_id
from dedp_assets.resources.lake import Lake
from tests.helpers import a_record, write_log

CHECKS = ("rows_are_accounted_for", "rows_lie_in_their_partition", "constraints_hold")
COLUMNS = {"id": Column("BIGINT", "identity"), "day": Column("DATE", "when")}


def daily(name: str) -> TableSpec:
    """The declaration of a table by day."""
    return TableSpec(name, COLUMNS, partition_by=("day",), comment="x")


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
