"""Keyed Idempotency: a group of records gets the same key in every run and order.

Problem: an id is made from the first event of a group; a late event comes before it, and the group has two ids.
Solution: make the key of the entity and of the record that was appended first, by the time it was stored and its place
    there, which no later record changes. Write by the key: what has it already is updated.
Consequences: if the first record is removed at the source, only the keys given before tell: they are asked, and the
    group keeps its key, or is refused. Delta enforces no key, so tables with one take no appends. In a topic as the
    target, readers see a key twice until it is compacted.
Choose instead: Data Overwrite, if each row has an immutable identity of its own, or nobody refers to its key.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pyspark.sql import DataFrame

from dedp_assets.patterns.core.columns import COMPARED, fields_of, require_columns, require_free, require_rows
from dedp_assets.patterns.core.errors import ConfigError, ContractError
from dedp_assets.patterns.core.keys import key_of, require_distinct
from dedp_assets.patterns.core.measuring.observing import SPARK_ERRORS
from dedp_assets.patterns.core.names import identifier, reserved
from dedp_assets.patterns.core.options import typed
from dedp_assets.patterns.core.results import WriteResult
from dedp_assets.patterns.core.rows import same
from dedp_assets.patterns.core.running.demands import demanding
from dedp_assets.patterns.core.types.meeting import as_held
from dedp_assets.patterns.delta import Insert, Merge, Target, Update, held_types
from dedp_assets.patterns.idempotency._stable_keys import FIRST, LAST, REFUSED, Grouping

__all__ = ["add_stable_key", "upsert_keyed", "FIRST", "LAST", "key_of"]


@typed
def add_stable_key(
    rows: DataFrame,
    known: DataFrame | None = None,
    *,
    entity: Sequence[str],
    appended: Sequence[str] = (),
    event_time: Sequence[str] = (),
    group: Sequence[str] = (),
    key: str = "key",
    if_purged: Literal["fail", "keep"] = "fail",
) -> DataFrame:
    """Add the key of each record's group, and the group's first and last appended record; lazy.

    Args:
        rows: every record of the groups that is there.
        known: the keys given before, as a table that holds ``entity``, the key and the two columns beside it: a group
            whose first record is gone is found by them.
        entity: columns that say whose records they are, part of the key; NULL is a value of its own.
        appended: columns that storage wrote once: when a record was appended, then its place there. They order the
            records, and those of a group's first one are part of the key; never a time that a run reads from a clock.
        event_time: the same by when a record happened, for whoever wants that in spite of late data, which give a group
            another key.
        group: columns that tell apart several groups of an entity, such as the number of a session. They may change
            between runs, and are no part of the key.
        key: the column to add.
        if_purged: what becomes of a group that no longer begins with the record that its key was made of: it is
            refused (``fail``), or has its key all the same (``keep``). Where its last record is gone as well, nothing
            tells which group it is, and both refuse.

    Returns:
        The rows with the key, :data:`FIRST` and :data:`LAST`. A refused group raises an error once its rows are asked
        for; :func:`upsert_keyed` makes a ``ContractError`` of it.

    Raises:
        ConfigError: without one order of the records, or for columns that make no stable key.

    Example:
        >>> columns = "user STRING, happened INT, appended INT"
        >>> early = add_stable_key(frame(columns, ("Ada", 1000, 1009)), entity=["user"], appended=["appended"])
        >>> visits = frame(columns, ("Ada", 1000, 1009), ("Ada", 955, 1012))
        >>> late = add_stable_key(visits, entity=["user"], appended=["appended"])
        >>> rows(late.select("key").distinct()) == rows(early.select("key"))
        True
    """
    record = [*appended, *event_time]
    if not entity or not record or (appended and event_time):
        raise ConfigError("name the entity, and either when its records were appended or, on purpose, their event time")
    for option, names in (("entity=", entity), ("appended=", appended), ("event_time=", event_time), ("group=", group)):
        require_distinct(option, names)
    require_columns(require_rows("a stable key", rows), [*entity, *record, *group], COMPARED)
    require_free(rows, key, FIRST, LAST)
    if key.lower() in (FIRST, LAST) or reserved([key]):
        raise ConfigError(f"the key cannot be called {key}, as a column of the library is: give it another name (key=)")
    groups = Grouping(entity, record, group, key)
    keyed = groups.keyed(rows)
    found = keyed if known is None else groups.kept(keyed, known, refuse=if_purged == "fail")
    return found.select(*map(identifier, [*rows.columns, key, FIRST, LAST]))


@demanding(key=True)
@typed
def upsert_keyed(
    rows: DataFrame,
    into: Target,
    *,
    allow_empty: bool = False,
    since: int | None = None,
) -> WriteResult:
    """Upsert rows by key in one commit: update known keys in place, insert new keys.

    A key is in the table once. Unless it says which partition a row is of, a write to one looks through the keys of the
    others, too.

    Args:
        rows: one row for each key. A row that differs in technical columns alone (:attr:`Column.technical`) stays.
        into: target of the write: a table that declares its key. If it names a partition, ``rows`` are all there is of
            this partition: what the partition holds under other keys is removed. Without, what is not among ``rows``
            stays.
        allow_empty: whether no rows may empty the partition, with a warning; a source that delivers nothing is usually
            broken.
        since: version of the table that keys were looked up at (``known`` of :func:`add_stable_key`), if they were.

    Raises:
        AmbiguousKeys: if a key is NULL, comes twice, or stands in another partition than the one that is written.
        AuditFailed: if a rule refuses the rows, or there are none for a partition.
        ConfigError: if the table declares no key.
        Conflict: if the partition was written after ``since``, or other writers change the same rows and do not yield.
        ContractError: if a group was refused a key.

    Example:
        >>> from dedp_assets.patterns.core.schema import Column, TableSpec
        >>> spec = TableSpec("sessions", {"key": Column("STRING"), "visits": Column("INT")}, key=("key",))
        >>> sessions = table(spec, "", ("a", 1), ("b", 1))
        >>> _ = upsert_keyed(frame("key STRING, visits INT", ("a", 2), ("c", 1)), sessions.target(run))
        >>> rows(sessions)
        [('a', 2), ('b', 1), ('c', 1)]
    """
    into = into.by("idempotency.keyed_idempotency", "partition", "audits")
    table, keys = into.table, list(into.table.spec.key)
    if not keys:
        raise ConfigError(f"{table.name} declares no key (TableSpec.key): nothing says which rows are the same")
    rows = as_held(require_free(require_rows(table.name, rows)), held_types(table.ensure()), table.name)
    # Who made a row, and when, is no change of it: the technical columns of a row that stays are its own.
    compared = {*table.spec.content, *table.spec.partition_by, *keys}
    values = [f for f in fields_of(rows, table.spec.columns) if f.name in compared]
    differs = [f"NOT ({same(f, f't.{identifier(f.name)}', f's.{identifier(f.name)}')})" for f in values]
    try:
        return table.merge(
            rows,
            Merge(
                keys, [Update(when=" OR ".join(differs)), Insert()], whole=bool(into.partition), allow_empty=allow_empty
            ),
            provenance=into.run,
            partition=into.partition,
            since=since,
            audits=into.audits,
        )
    except SPARK_ERRORS as error:
        if (why := REFUSED.search(str(error))) is None:
            raise
        raise ContractError(
            f"{table.name}: {why[1]}; nothing was changed. Bring its records back, or ask for keys of the present ones"
        ) from None
