"""Refusals of a write: foreign commits, unjudged stages, values out of range, failed audits."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

from pyspark.sql import DataFrame

from dedp_assets.patterns.core.errors import AuditFailed, ConfigError, Conflict, ContractError
from dedp_assets.patterns.core.layout import PARQUET, STATISTICS
from dedp_assets.patterns.core.measuring.observing import SPARK_ERRORS, is_data_fault
from dedp_assets.patterns.core.names import identifier
from dedp_assets.patterns.core.records import slice_name
from dedp_assets.patterns.core.results import Split
from dedp_assets.patterns.core.schema import TableSpec, without_comments
from dedp_assets.patterns.core.sql.sql_options import reason_of
from dedp_assets.patterns.core.types.meeting import OUT_OF_RANGE
from dedp_assets.patterns.delta.commit import commits, file_exchange
from dedp_assets.patterns.delta.handle import TableHandle
from dedp_assets.patterns.delta.log.table_state import TableState
from dedp_assets.patterns.delta.snapshots.definition import constraints, held_types
from dedp_assets.patterns.delta.staging.letter_reasons import DEAD, letter_reasons, summed_up
from dedp_assets.patterns.delta.staging.row_accounting import StageVerdict
from dedp_assets.patterns.delta.staging.stage_files import StageLayout
from dedp_assets.patterns.delta.staging.stages import Stage

__all__ = [
    "discarded_if_unjudged",
    "in_range",
    "layout_of",
    "refusal",
    "require_same_erasures",
    "require_same_rules",
    "require_untouched",
    "without_statistics",
]

H = TypeVar("H", bound=TableHandle)
P = ParamSpec("P")


R = TypeVar("R")

_SAMPLES = 3
_NAMES = re.compile("`(?:[^`]|``)+`|[^,`]+")


def require_untouched(table: TableHandle, held: Mapping[str, str], since: int | None) -> None:
    """Refuse rows computed from version ``since`` if the partition was written later.

    Raises:
        Conflict: names both versions.
    """
    others = () if since is None else table.ledger.commits(since=since)
    if met := next((commit for commit in others if commit.touches(held) or commit.relabels), None):
        raise Conflict(
            f"{table.name} {slice_name(held)} was written at version {met.version}, these rows were computed from "
            f"version {since}: run it again"
        )


def require_same_erasures(table: TableHandle, known: str | None) -> None:
    """Refuse rows that were read before a person came onto the suppression list.

    Args:
        table: the table.
        known: state of the list when the rows were read; ``None`` for a write without rows.

    Raises:
        Conflict: if the list has changed since.
    """
    if known is not None and table.suppression and table.erasures() != known:
        raise Conflict(f"{table.name}: a person was erased since these rows were read: run it again")


def require_same_rules(table: TableHandle, judged: TableState | None, state: TableState) -> None:
    """Refuse rows that were judged by other columns or constraints than the table has at ``state``.

    A nullable column that came since is no obstacle: the rows have NULL there. Rows without a known ``judged`` pass.

    Raises:
        Conflict: names the columns and constraints.
    """
    if judged is None or judged.version == state.version:
        return
    before, now = (constraints(table.name, each) for each in (judged, state))
    changed = [f"constraint {name}" for name, rule in now.items() if before.get(name) != rule]
    types, stored = ({n: without_comments(c["type"]) for n, c in each.columns.items()} for each in (judged, state))
    changed += [f"column {name}" for name, type_ in types.items() if stored.get(name) != type_]
    changed += ["partition columns"] if judged.partition_columns != state.partition_columns else []
    if changed:
        raise Conflict(
            f"{table.name}: {', '.join(changed)} changed after the rows were judged at version {judged.version}: "
            "run it again"
        )


def layout_of(table: TableHandle, state: TableState, owned: Mapping[str, str]) -> StageLayout:
    """Return the layout of staged rows for the partition ``owned`` of the table at ``state``."""
    protocol = dict(state.protocol) if file_exchange.serves(state) else commits.PLAIN_PROTOCOL
    held = {field.name: field.dataType for field in held_types(state).fields}
    quiet, options = without_statistics(table.spec, state.properties), parquet_options(state)
    return StageLayout(table.store, tuple(state.columns), state.kinds, owned, quiet, protocol, held, options)


def without_statistics(spec: TableSpec, properties: Mapping[str, str]) -> tuple[str, ...]:
    """List the columns without statistics in the log: of withheld classes, or not listed."""
    stated, quiet = properties.get(STATISTICS), spec.withheld("log")
    if stated is None:
        return quiet
    listed = {n[1:-1].replace("``", "`") if n.startswith("`") else n.strip() for n in _NAMES.findall(stated)}
    left_out = [name for name in spec.bounded if name not in listed and name not in quiet]
    return (*quiet, *left_out)


def parquet_options(state: TableState) -> dict[str, str]:
    """Return the table properties that Parquet's writer reads, which Delta's own writer hands on as well."""
    return {name: value for name, value in state.properties.items() if name.startswith(PARQUET)}


@contextmanager
def discarded_if_unjudged(stage: Stage) -> Iterator[None]:
    """Remove the stage if an audit cannot be evaluated."""
    try:
        yield
    except ConfigError:
        stage.discard()
        raise


def in_range(write: Callable[Concatenate[H, P], R]) -> Callable[Concatenate[H, P], R]:
    """Turn Spark's error about a value that cannot be computed or stored into a ContractError.

    Such a value is the same in each attempt, so that nobody has to try again.

    Raises:
        ContractError: names the table and the reason; for a decimal out of range the column and its type.
    """

    @wraps(write)
    def refusing(table: H, /, *args: P.args, **options: P.kwargs) -> R:
        try:
            return write(table, *args, **options)
        except SPARK_ERRORS as error:
            if found := OUT_OF_RANGE.search(str(error)):
                raise ContractError(f"{table.name}: {found[1]}; nothing was changed") from None
            if not is_data_fault(error):
                raise
            raise ContractError(
                f"{table.name}: a value cannot be computed, nothing was changed: {reason_of(error)}"
            ) from error

    return refusing


def refusal(
    table: TableHandle,
    owned: Mapping[str, str],
    judged: StageVerdict,
    stage: Stage,
    rows: DataFrame,
    split: Split | None = None,
) -> AuditFailed:
    """Build the audit error of the staged rows, with samples at fault and the reasons of dead letters.

    Args:
        table: the table.
        owned: partition of the write.
        judged: the verdict.
        stage: the refused rows.
        rows: the kept ones among them.
        split: all rows with their outcomes, where some may be dead letters.
    """
    message, findings = f"{table.name} {slice_name(owned)}: nothing published. {judged.refused}", judged.findings
    if judged.faults:
        shown = [identifier(name) for name, column in table.spec.columns.items() if column.shows("sample")]
        wrong = rows.filter(" OR ".join(f"({fault})" for fault in judged.faults)).select(*shown)
        message += f". For example {[row.asDict() for row in wrong.limit(_SAMPLES).collect()]}"
    letters = letter_reasons(table.spec, stage, split) if split and judged.account.counts.dead else ()
    if letters:
        why = summed_up(letters, of=judged.account.counts.dead)
        message += f". {why}"
        findings = tuple(
            replace(f, note=f"{f.note}. {why}") if f.refuses and DEAD in f.figures else f for f in findings
        )
    return AuditFailed(message, findings=findings, stage=stage.store.address, letters=letters)
