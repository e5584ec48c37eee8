"""Statistics of stored files: missing and wrong bounds and NULL counts in the log, from the files.

Another writer may leave statistics out, keep those of personal columns, or pass over NaN, which Spark takes for greater
than any number: a filter would then lose rows. A commit describes such files again, and changes no row.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dedp_assets.patterns.core.errors import ConfigError, ContractError
from dedp_assets.patterns.core.measuring.requests import with_requests_counted
from dedp_assets.patterns.core.records import CommitRecord, Provenance
from dedp_assets.patterns.core.results import WriteResult
from dedp_assets.patterns.delta.commit.commits import Operation, commit_actions
from dedp_assets.patterns.delta.commit.parquet_statistics import file_statistics
from dedp_assets.patterns.delta.log.partition_values import Partition
from dedp_assets.patterns.delta.log.table_state import KeyedFile, TableState
from dedp_assets.patterns.delta.maintenance.compaction import can_exchange, rewrite
from dedp_assets.patterns.delta.snapshots.definition import require_open
from dedp_assets.patterns.delta.staging.guards import without_statistics
from dedp_assets.patterns.delta.storage.coordination import in_turn
from dedp_assets.patterns.delta.storage.locations import STAGE
from dedp_assets.patterns.delta.tables import Table

__all__ = ["COUNTED", "describe_files", "true_statistics"]

COUNTED = "dedp.counted"
"""Tag of a foreign file after a check of floating-point statistics."""
_KINDS = ("minValues", "maxValues", "nullCount")
_FLOATS = ("float", "double")
_BY_SPARK = "parquet-mr"
"""Beginning of the writer's name in files of Spark, whose footers state no bound that a NaN exceeds."""


@dataclass(frozen=True, slots=True)
class TrueStatistics:
    """Statistics of a Parquet file, by footer and values.

    Attributes:
        found: in the log's form.
        read: columns whose values were read.
        lying: columns among them with a bound in the footer that a NaN exceeds.
    """

    found: Mapping[str, Any]
    read: Sequence[str] = ()
    lying: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class _DoubtfulFile:
    """A file whose statistics were in doubt: add action, statistics in the log, statistics of the file."""

    file: KeyedFile
    add: Mapping[str, Any]
    stated: Mapping[str, Any]
    true: TrueStatistics

    @property
    def found(self) -> Mapping[str, Any]:
        """The statistics of the file."""
        return self.true.found

    @property
    def missing(self) -> bool:
        """Return whether the log lacks a row count or NULL counts of a file."""
        return "numRecords" not in self.stated or not {*self.found["nullCount"]} <= {*self.stated.get("nullCount", {})}

    @property
    def wrong(self) -> list[str]:
        """List the columns of numbers with a bound in the log that a value of the file exceeds."""
        names = {name for kind in _KINDS[:2] for name in self.stated.get(kind, {})}
        return sorted(
            name for name in names if self._exceeds("minValues", name, -1) or self._exceeds("maxValues", name, 1)
        )

    def _exceeds(self, kind: str, name: str, sign: int) -> bool:
        stated, found = (each.get(kind, {}).get(name) for each in (self.stated, self.found))
        if not isinstance(stated, int | float) or isinstance(stated, bool) or name not in self.found["nullCount"]:
            return False
        if found is None:  # NaN or infinity, where values were read
            return name in self.true.read and self.found["nullCount"][name] < self.found["numRecords"]
        return bool(sign * found > sign * stated)


def describe_files(table: Table, partition: Mapping[str, object], *, provenance: Provenance) -> WriteResult:
    """Rewrite missing, wrong and unwanted file statistics in the log.

    Where the footer of a file is wrong, too, Spark would skip rows by that: such a file is written once more, in a
    commit of its own that changes no row.

    Args:
        table: the table.
        partition: look only there; everywhere if empty.
        provenance: who doubtful, and why.

    Raises:
        ConfigError: for a table whose log only Spark writes.
        ContractError: if a file cannot be read.
        Conflict: if other writers do not yield.
    """
    state = table.ledger.state()
    lying = [each.file for each in _doubtful_files(table, state, partition)[1] if each.true.lying]
    if not lying:
        return in_turn(table.store, lambda: _describe_files(table, partition, provenance))
    by_key: dict[Partition, list[Mapping[str, Any]]] = {}
    for file, key in lying:
        by_key.setdefault(key, []).append(file)
    noted = replace(provenance, notes={**provenance.notes, "wrong_footers": [file["path"] for file, _ in lying]})
    size = sum(file["size_bytes"] for file, _ in lying)
    mended = rewrite(table, state, by_key, provenance=noted, small_bytes=size, target_bytes=size, as_they_are=True)
    done = in_turn(table.store, lambda: _describe_files(table, partition, provenance))
    figures = {**done.figures, "files_rewritten": len(lying) if mended.applied else 0}
    reason = f"{len(lying)} files written again, whose footers pass over NaN; {done.reason}"
    return replace(done, applied=mended.applied or done.applied, reason=reason, figures=figures)


@with_requests_counted
def _describe_files(table: Table, partition: Mapping[str, object], provenance: Provenance) -> WriteResult:
    state = table.ledger.state()
    quiet = {*without_statistics(table.spec, state.properties)}
    chosen, doubtful = _doubtful_files(table, state, partition)
    again = [
        each for each in doubtful if each.missing or each.wrong or each.true.read or _states_more(each.stated, quiet)
    ]
    figures = {
        "files": chosen,
        "files_opened": len(doubtful),
        "files_described": len(again),
        "files_without_statistics": sum(each.missing for each in again),
        "files_with_wrong_bounds": sum(bool(each.wrong) for each in again),
        "files_with_further_statistics": sum(_states_more(each.stated, quiet) for each in again),
        "files_rewritten": 0,
        "analyzed_version": state.version,
    }
    if not again:
        reason = f"nothing to describe: the statistics of {chosen} files are those of the files"
        return WriteResult(table.name, state.version, applied=False, changed=False, reason=reason, figures=figures)
    record = CommitRecord.of(provenance, content=f"statistics of version {state.version}", figures=figures)
    entries = [{"add": _described(each, quiet)} for each in again]
    operation = Operation("COMPUTE STATS", metrics={"numFilesDescribed": len(again)})
    version = commit_actions(table.store, state, record=record, operation=operation, described_again=entries)
    wrong = sorted({name for each in again for name in each.wrong})
    reason = f"{len(again)} of {chosen} files described again"
    reason += f"; bounds of {', '.join(wrong)} were wrong" if wrong else ""
    return WriteResult(table.name, version, applied=True, changed=False, reason=reason, figures=figures)


def true_statistics(file: Any, columns: Sequence[str], floats: Sequence[str]) -> TrueStatistics:  # noqa: ANN401 - pyarrow
    """Return the statistics of a Parquet file, by values where a footer may pass over NaN.

    Args:
        file: the file, open for reading.
        columns: columns to describe.
        floats: floating-point columns among them, whose values are read unless Spark wrote the file.
    """
    footer = pq.ParquetFile(file)
    found: dict[str, Any] = json.loads(file_statistics(file, columns)[1])
    if str(footer.metadata.created_by or "").startswith(_BY_SPARK):
        return TrueStatistics(found)
    read, lying = [name for name in floats if name in footer.schema_arrow.names], []
    for name in read:
        values = pa.concat_tables([footer.read_row_group(n, columns=[name]) for n in range(footer.num_row_groups)])
        held = values[name].drop_null()
        numbers = held.filter(pc.invert(pc.is_nan(held)))
        stated = found["maxValues"].pop(name, None)
        found["minValues"].pop(name, None)
        found["nullCount"][name] = values[name].null_count
        if len(numbers) < len(held) and stated is not None:
            lying.append(name)
        if len(numbers):
            bounds = pc.min_max(numbers).as_py()
            found["minValues"] |= {name: bounds["min"]} if math.isfinite(bounds["min"]) else {}
            no_nan = len(numbers) == len(held)
            found["maxValues"] |= {name: bounds["max"]} if no_nan and math.isfinite(bounds["max"]) else {}
    return TrueStatistics(found, read, lying)


def _doubtful_files(
    table: Table, state: TableState, partition: Mapping[str, object]
) -> tuple[int, list[_DoubtfulFile]]:
    """Open the files with statistics in doubt; return the number of all files as well."""
    require_open(table.name, state)
    spelled = state.spelled(partition)
    chosen = [(file, key) for file, key in state.keyed_files() if spelled.items() <= dict(key).items()]
    if not can_exchange(state, {(): [file for file, _ in chosen]}):
        raise ConfigError(
            f"{table.name} must be a table whose log the library writes, not one of which only Spark does"
        )
    adds, quiet = table.ledger.added_files(state.version), {*without_statistics(table.spec, state.properties)}
    doubtful = (_doubtful_file(table, state, file, adds[file[0]["path"]], quiet) for file in chosen)
    return len(chosen), [each for each in doubtful if each]


def _doubtful_file(
    table: Table, state: TableState, file: KeyedFile, add: Mapping[str, Any], quiet: set[str]
) -> _DoubtfulFile | None:
    """Open a file whose statistics in the log are in doubt; ``None`` for any other file."""
    stated = json.loads(add.get("stats") or "{}")
    columns = [c for c in state.columns if c not in quiet and c not in state.partition_columns]
    floats = [c for c in columns if state.columns[c]["type"] in _FLOATS]
    foreign = STAGE not in add["path"] and COUNTED not in (add.get("tags") or {})
    expected = {*columns} & {*table.spec.bounded}
    lacks = "numRecords" not in stated or not expected <= {*stated.get("nullCount", {})}
    doubtful = foreign and any(isinstance(stated.get("maxValues", {}).get(c), int | float) for c in floats)
    if not (lacks or doubtful or _states_more(stated, quiet)):
        return None
    path = unquote(add["path"])
    try:
        with table.store.open(path) as opened:
            return _DoubtfulFile(file, add, stated, true_statistics(opened, columns, floats))
    except (OSError, pa.ArrowException) as error:
        raise ContractError(f"{table.name}: {path} cannot be read, nothing was described again. {error}") from error


def _states_more(stated: Mapping[str, Any], quiet: set[str]) -> bool:
    return any(name in quiet for kind in _KINDS for name in stated.get(kind, {}))


def _described(doubtful: _DoubtfulFile, quiet: set[str]) -> dict[str, Any]:
    """Return the add action with the file's statistics; fields inside of columns stay as stated."""
    merged: dict[str, Any] = {**doubtful.stated, "numRecords": doubtful.found["numRecords"]}
    for kind in _KINDS:
        nested = {name: value for name, value in _inside(doubtful.stated.get(kind, {})) if name not in quiet}
        merged[kind] = {**nested, **doubtful.found[kind]}
    # A file whose footer is wrong came after the others were written again, and is for the next run.
    tags = {**(doubtful.add.get("tags") or {}), **({} if doubtful.true.lying else {COUNTED: "1"})}
    return {**doubtful.add, "dataChange": False, "stats": json.dumps(merged), "tags": tags}


def _inside(stated: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    return ((name, value) for name, value in stated.items() if isinstance(value, dict))
