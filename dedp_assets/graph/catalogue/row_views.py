"""Rows of a lake's tables for an audience, without Spark: by a policy, or by the classes of columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from dedp_assets.graph.catalogue.table_names import require_table
from dedp_assets.graph.resources.environments import Settings
from dedp_assets.graph.resources.keys import masking_key
from dedp_assets.graph.resources.lake import Lake
from dedp_assets.graph.systems.audiences import Audiences
from dedp_assets.patterns.core.columns import spelled_as
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.policies import ALL_ROWS, Policy
from dedp_assets.patterns.core.records import slice_name
from dedp_assets.patterns.core.types.partitions import sql_type
from dedp_assets.patterns.core.types.sql_types import sql_of
from dedp_assets.patterns.delta import (
    QueryRows,
    RowQueries,
    ShownTable,
    TableState,
    UnknownColumn,
    missing_files,
    policy_by_class,
    require_partition,
    version_at,
)
from dedp_assets.patterns.error_management._letters import LETTER

__all__ = ["LakeRows", "ShownRows"]

_NEAREST = 3


@dataclass(frozen=True, slots=True)
class ShownRows:
    """Rows of a table at a version.

    Attributes:
        table: the table.
        version: the version.
        types: column -> type in SQL.
        masked: columns whose values are masked.
        answer: the rows.
    """

    table: str
    version: int
    types: Mapping[str, str]
    masked: frozenset[str]
    answer: QueryRows


@dataclass(frozen=True, slots=True)
class LakeRows:
    """Rows of a lake's tables for an audience.

    Attributes:
        lake: the lake.
        settings: of the home, which has the policies and the key of hashes.
        audience: whose policies hold; without one all rows are shown, and columns by class.
        require: refuses a name that is none of the stored tables.
    """

    lake: Lake
    settings: Settings
    audience: str = ""
    require: Callable[[str, Sequence[str]], None] = require_table

    def queries(self) -> RowQueries:
        """Return queries over all tables, at their newest versions."""
        return RowQueries(self.opened)

    def opened(self, name: str, *, version: str = "", partition: str = "") -> ShownTable:
        """Open a table by the policy of the audience.

        Args:
            name: the table.
            version: version, instant or milestone; the newest if empty.
            partition: partition to read, as of :meth:`rows`; all if empty.

        Raises:
            ConfigError: for a table, version or partition that is not there, and an audience without a policy.
            NotReady: if there is no such version or milestone.
        """
        stored = self.lake.names(replicas=True)
        self.require(name, stored)
        if name not in stored:
            raise ConfigError(f"{name}: nothing is stored yet: `dedp plan {name}`")
        table = self.lake.stored(name)
        state = table.ledger.state(version_at(table.ledger, version) if version else None)
        if version and (gone := missing_files(table.store, state, [])):
            raise table.vacuumed(state.version, gone)
        policy = self._policy(name) or policy_by_class(
            table.ledger, state, place="sample", audience="readers without a policy"
        )
        partitions = [_partition(name, state, partition, policy)] if partition else []
        hashes = any(mask.by == "hash" for mask in policy.masks.values())
        key = masking_key(self.settings) if hashes else None
        return ShownTable(table.ledger, state, policy, key, partitions)

    def rows(
        self,
        name: str,
        *,
        partition: str = "",
        columns: Sequence[str] = (),
        where: str = "",
        limit: int = 20,
        version: str = "",
    ) -> ShownRows:
        """Return rows of a table.

        Args:
            name: the table.
            partition: value of the first partition column, or ``column=value`` with commas between several.
            columns: columns to return; all shown ones by default.
            where: predicate over columns in the clear, in the SQL of DataFusion.
            limit: number of rows at most.
            version: version, instant or milestone; the newest if empty.

        Raises:
            ConfigError: for a table, partition, version or column that is not there, a predicate that names a masked
                column or cannot be evaluated, an audience without a policy, and a limit below 1.
        """
        if limit < 1:
            raise ConfigError(f"--limit must be 1 or more, not {limit}")
        shown = self.opened(name, version=version, partition=partition)
        held = spelled_as(shown.state.columns, shown.policy.columns)
        masked = frozenset(column for column in held if shown.policy.mask_of(column))
        chosen = [*dict.fromkeys(spelled_as(held, columns))] or held
        for column in chosen:
            _require_column(name, column, held, "--columns")
        queries = RowQueries(lambda _: shown)
        clear = [column for column in held if column not in masked]
        try:
            answer = queries.rows_of(name, columns=chosen, clear=clear, where=where, most=limit)
        except UnknownColumn as unknown:
            raise _refused_filter(name, unknown.column, masked, clear, shown.policy) from None
        types = {column: sql_of(shown.state.columns[column]["type"], sql_type) for column in chosen}
        return ShownRows(name, shown.state.version, types, masked, answer)

    def letters(self, name: str) -> str:
        """Return the name of the table with a table's dead letters.

        Raises:
            ConfigError: if there is none.
        """
        stored = self.lake.names()
        self.require(name, stored)
        of = [each for each in (name, f"{name}_dead_letter") if each in stored]
        for each in of:
            if set(LETTER) <= set(self.lake.ledger(each).state().columns):
                return each
        raise ConfigError(f"{name} has no dead letters: `dedp letters` lists the tables that have")

    def _policy(self, name: str) -> Policy | None:
        """Return the policy of the audience for a table; ``None`` without an audience."""
        if not self.audience:
            return None
        found = {each.audience: each for each in Audiences({}).log.current(name)}
        if self.audience not in found:
            known = f"there are policies of {', '.join(sorted(found))}" if found else "it has no policy at all"
            raise ConfigError(
                f"--as must be an audience with a policy for {name}, not {self.audience}: {known}; its owner declares "
                "one (PolicyLog.declare)"
            )
        return found[self.audience]


def _partition(table: str, state: TableState, stated: str, policy: Policy) -> dict[str, str | None]:
    """Read a partition in the log's spelling; refuse hidden columns, and a partition without rows."""
    if not state.partition_columns:
        raise ConfigError(f"{table} has no partitions: leave {stated} out, or say --where")
    first = state.partition_columns[0]
    pairs = [part.partition("=") for part in (stated if "=" in stated else f"{first}={stated}").split(",")]
    owned = require_partition(table, state, {column.strip(): value.strip() for column, _, value in pairs})
    shown = {column.lower() for column in policy.columns if policy.mask_of(column) is None}
    if hidden := [column for column in owned if column.lower() not in shown]:
        raise ConfigError(f"a partition must be of columns that are shown in the clear, not of {', '.join(hidden)}")
    # Under a filter of rows, a partition that is there and not shown would tell of hidden rows.
    if policy.rows == ALL_ROWS and not state.holds(owned):
        raise ConfigError(f"{table} has no rows in {slice_name(owned)}: {_some_partitions(state, owned)}")
    return {**owned}


def _some_partitions(state: TableState, wanted: Mapping[str, str]) -> str:
    """Name the partitions nearest to a missing one, by the stated columns."""
    held = {slice_name({c: v for c, v in key if c in wanted}) for key in state.statistics()}
    near = get_close_matches(slice_name(wanted), sorted(held), n=_NEAREST) or sorted(held)[-_NEAREST:]
    return f"it has {', '.join(near)}" if near else "it has no rows"


def _require_column(table: str, column: str, held: Sequence[str], option: str) -> None:
    if column not in held:
        near = get_close_matches(column, held, n=_NEAREST) or held[:_NEAREST]
        raise ConfigError(f"{option} must be columns of {table}, such as {', '.join(near)}, not {column}")


def _refused_filter(
    table: str, column: str, masked: frozenset[str], clear: Sequence[str], policy: Policy
) -> ConfigError:
    """Return the refusal of a filter with a column that is masked, denied or missing."""
    if spelled_as(masked, [column])[0] in masked:
        return ConfigError(
            f"--where must be over columns in the clear, not over {column}, which is masked for {policy.audience}: an "
            f"answer would tell its values; {table} shows {', '.join(clear[:_NEAREST]) or 'none'}"
        )
    near = [each for each in clear if each.lower() == column.lower()] or get_close_matches(column, clear) or clear
    such = f'such as --where "{near[0]} IS NOT NULL"' if near else "and none is in the clear"
    return ConfigError(f"--where must be over columns of {table}, {such}, not over {column}")
