"""Service answers kept in a table, requested once per key and repeatable on every later read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, TypeAlias

from pyarrow.lib import ArrowException
from pyspark.sql import Column as SqlColumn
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from dedp_assets.patterns.connectors.web.http import checked
from dedp_assets.patterns.connectors.web.parts import calling, is_text, sentence
from dedp_assets.patterns.core.columns import TEXT, require_columns, require_rows, spelled_as
from dedp_assets.patterns.core.errors import ConfigError, ContractError
from dedp_assets.patterns.core.names import RESERVED, identifier
from dedp_assets.patterns.core.options import typed
from dedp_assets.patterns.core.results import WriteResult
from dedp_assets.patterns.core.rows import RowsRead, row_hash
from dedp_assets.patterns.core.schema import Column, require_holds
from dedp_assets.patterns.core.types.meeting import as_held
from dedp_assets.patterns.delta import Table, Target, held_types, require_partition

__all__ = ["ANSWER", "Ask", "keep_answers"]

Ask: TypeAlias = Callable[[Sequence[str]], Iterable[Mapping[str, Any]]]
"""Asks a service for some keys; gives an item for each of them."""

ANSWER: Mapping[str, Column] = {
    "asked_at": Column("TIMESTAMP", "when the service was asked", required=True, technical=True),
}
"""Columns of a table of answers, beside its key, the partition, and what the service answers."""

_LONGEST = 1 << 24
_MOST = 2**31 - 2
_CHOSEN = f"{RESERVED}chosen"


@typed
def keep_answers(
    facts: DataFrame,
    into: Target,
    *,
    key: str,
    ask: Ask,
    most: int = 10_000,
    lookback: int = 30,
) -> WriteResult:
    """Update a partition of answers for the keys of ``facts``, in one commit.

    Only unknown keys are requested from the service.

    A key keeps the answer that its partition has, or else takes the newest one of the partitions that were written
    last. So a partition that is written again says the same, whether the service answers, answers otherwise, or is
    down; and what a run reads does not grow with the table.

    Args:
        facts: rows with the key, repeated or NULL as may be.
        into: target of the write, with the partition that the facts are of. Its table has the columns of
            :data:`ANSWER`, the key, the partition's, and those of an answer, which are taken by their names. The run
            has a time (``at``).
        key: the key column, a STRING, of both.
        ask: asks the service; nothing is written if it fails.
        most: how many keys one run may ask for.
        lookback: how many other partitions are searched for known keys, those that were written last. More of them are
            more to read; a key that none of them has is asked for again, and may get another answer by then.

    Raises:
        ConfigError: for a key that is no text; for more unknown keys than ``most``, before the first is asked for;
            for a run without a time.
        Conflict: if another run wrote the table meanwhile, whose answers this one did not see.
        ContractError: if an answer lacks keys, has others, or one twice, or holds what its column cannot.
        SchemaMismatch: if the table's key is no STRING, or its other columns are not there; nobody is asked then.
    """
    into = into.by("value.static_joiner", "partition")
    table, at = into.table, into.run.at
    if not 0 <= most <= _MOST or lookback < 0:
        raise ConfigError(f"most={most} must lie between 0 and {_MOST}, and lookback={lookback} not be negative")
    if at is None:
        raise ConfigError(f"{table.name} notes when it asked: run must be a Provenance with a time (at)")
    require_columns(require_rows("a table of answers", facts), [key], TEXT)
    state = table.ensure()
    partition = require_partition(table.name, state, into.partition)
    require_holds(table.spec, {key: Column("STRING"), **ANSWER})
    if left := [name for name in table.spec.partition_by if name not in partition]:
        raise ConfigError(f"{table.name} is partitioned by {', '.join(left)}, too: name the whole partition")
    wanted = as_held(facts.select(identifier(key)), held_types(state), table.name)
    wanted = wanted.filter(f"{identifier(key)} IS NOT NULL").distinct()
    known = _known(
        table, key, wanted, partition, _written_last(table, partition, lookback, state.version), state.version
    )
    asked = sorted(row[0] for row in wanted.join(known, key, "left_anti").limit(most + 1).collect())
    if len(asked) > most:
        raise ConfigError(f"{table.name} lacks more than {most} keys, which one run may ask for: raise most=")
    found = [{**item, "asked_at": at} for item in _answered(ask, asked, table, key)] if asked else []
    return table.stage(
        _owned(known.unionByName(_rows(table, found, partition)), table, partition),
        partition=partition,
        provenance=into.run,
        rows_read=RowsRead(figures={"asked": len(asked)}),
    ).publish(since=state.version, held={})


def _known(
    table: Table,
    key: str,
    wanted: DataFrame,
    partition: Mapping[str, str],
    others: Sequence[Mapping[str, str | None]],
    version: int,
) -> DataFrame:
    """Choose the stored answer for each wanted key: of the own partition, or else the newest answer."""
    own = [F.col(identifier(name)).eqNullSafe(value).desc() for name, value in _values(table, partition).items()]
    stored = table.read(partition, *others, version=version)
    # Two partitions that asked at one moment were told the same, or else the content chooses.
    content = row_hash([field for field in stored.schema.fields if field.name not in partition])
    ordered = Window.partitionBy(identifier(key)).orderBy(*own, F.col("asked_at").desc(), F.expr(content))
    held = stored.join(wanted, key, "left_semi").withColumn(_CHOSEN, F.row_number().over(ordered))
    return held.filter(f"{_CHOSEN} = 1").drop(_CHOSEN, *partition)


def _written_last(table: Table, partition: Mapping[str, str], most: int, until: int) -> list[dict[str, str | None]]:
    """List up to ``most`` other partitions, most recently written first.

    Older commits are not read.
    """
    found: list[dict[str, str | None]] = []
    for commit in table.ledger.newest_first(until=until):
        found += [other for other in map(dict, commit.changed) if other != partition and other not in found]
        if len(found) >= most:
            break
    return found[:most]


def _answered(ask: Ask, keys: Sequence[str], table: Table, key: str) -> list[Mapping[str, Any]]:
    """Call the service with keys; return an item for each key, under the column names of the table."""
    service = f"the service that {table.name} asks"
    with calling(f"{service}, asked for {len(keys)} keys,"):
        # One more than there may be: an iterator need not end.
        items = list(islice(ask(keys), len(keys) + 1))
    if not all(isinstance(item, Mapping) and all(isinstance(name, str) for name in item) for item in items):
        raise ContractError(f"{service} answers with what is no item with named values: nothing of it is used")
    # A service may spell a name as it likes, as Spark's users do.
    columns = [name for name in table.spec.columns if name not in table.spec.partition_by]
    named = [{**dict(zip(spelled_as(columns, item), item.values(), strict=True)), **item} for item in items]
    return checked({"items": named}, keys, answers="items", key=key, url=service)


def _rows(table: Table, items: Sequence[Mapping[str, Any]], partition: Mapping[str, str]) -> DataFrame:
    """Make rows of the items of an answer, without the partition's columns."""
    columns = {name: column.type for name, column in table.spec.columns.items() if name not in partition}
    texts = [name for name, kind in columns.items() if kind == "STRING"]
    if misfits := [
        item
        for item in items
        if not all(item.get(name) is None or is_text(item[name], longest=_LONGEST) for name in texts)
    ]:
        example = sentence(repr(misfits[0]))
        raise ContractError(f"an answer does not fit the columns of {table.name}: {example} has a text that is none")
    schema = ", ".join(f"{identifier(name)} {kind}" for name, kind in columns.items())
    try:
        return table.session.createDataFrame([tuple(item.get(name) for name in columns) for item in items], schema)
    except (AssertionError, TypeError, ValueError, ArrowException) as error:
        why = str(error) or "a value is of another type"
        raise ContractError(f"an answer does not fit the columns of {table.name}: {why}") from None


def _owned(rows: DataFrame, table: Table, partition: Mapping[str, str]) -> DataFrame:
    return rows.withColumns(_values(table, partition)).select(*map(identifier, table.spec.columns))


def _values(table: Table, partition: Mapping[str, str]) -> dict[str, SqlColumn]:
    return {name: F.lit(value).cast(table.spec.columns[name].type) for name, value in partition.items()}
