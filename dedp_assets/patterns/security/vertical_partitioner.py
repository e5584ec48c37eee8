"""Vertical Partitioner: events without personal values, beside one row per person, deleted alone.

Problem: personal values repeat in each event of a person, so that erasing one person rewrites the whole history.
Solution: events keep the id of the person alone; a table of persons has one row for each, the newest. One read of the
    source; persons are written first, so that no event is without its person. Erasing deletes one row, and puts a keyed
    hash on a list, by which late and replayed events make no new one.
Consequences: the full picture is a join. Events of an erased person stay, with an id that has to lead nowhere else:
    a number or a pseudonym of this platform, never an e-mail. The history of the table of persons goes at an erasure.
Choose instead: In-Place Overwriter, if values lie in the events already; Encryptor with a key for each person.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dedp_assets.patterns.connectors.delivery.sinks import ErasableCopy
from dedp_assets.patterns.core.audits import not_empty
from dedp_assets.patterns.core.columns import COMPARED, require_columns, require_free, require_parts, require_rows
from dedp_assets.patterns.core.errors import ConfigError, PatternError
from dedp_assets.patterns.core.masking import MaskingKey, keyed_digest
from dedp_assets.patterns.core.names import RESERVED, identifier
from dedp_assets.patterns.core.options import typed
from dedp_assets.patterns.core.records import slice_name
from dedp_assets.patterns.core.results import Finding, WriteResult
from dedp_assets.patterns.core.rows import counted, evaluated_once
from dedp_assets.patterns.core.running.demands import demanding
from dedp_assets.patterns.core.types.meeting import as_held
from dedp_assets.patterns.delta import (
    Clause,
    Delete,
    Insert,
    Merge,
    SuppressionList,
    Table,
    Target,
    differs,
    held_types,
    newer_wins,
    newest_rows,
    places_agree,
    same_run,
    without_place,
)
from dedp_assets.patterns.delta.maintenance import purge_history, require_purgeable
from dedp_assets.patterns.security._person_tables import person_of, require_apart, require_order, subject_of
from dedp_assets.patterns.security._removal_requests import Removal, Removals

__all__ = ["split_persons", "forget_persons", "join_persons", "Removal"]

_PATTERN, _BECAUSE = "security.vertical_partitioner", "the person asked to be forgotten"
_SALT = f"{RESERVED}salt"


@typed
def split_persons(
    rows: DataFrame,
    into: Target,
    context: Target,
    suppressed: SuppressionList | None = None,
    *,
    newest: Sequence[str],
    allow_empty: bool = False,
) -> WriteResult:
    """Replace a partition of events, after the rows of their persons are brought up to date.

    A table takes the columns that it declares. The key of the table of persons is the person's id, which the events
    have, too; an event without an id is nobody's and makes no person. Of a person's rows the newest counts, whole, NULL
    included, in the batch and against the row that is there: an older one that comes late changes nothing. A crash in
    between leaves persons without events, and never the opposite; a rerun goes on.

    Args:
        rows: all rows of the partition; read once.
        into: target of the events, whose columns are public or quasi beside the person's id.
        context: target of the table of persons, of the same run.
        suppressed: list of erased persons, where the id's column states its subject. Their events are written, with
            the id, and no row of theirs is.
        newest: columns of the table of persons that order the rows of a person; the greatest counts, never NULL.
        allow_empty: whether no rows may replace the partition, with a warning.

    Returns:
        The write of the events, and beside it that of the persons.

    Raises:
        AmbiguousKeys: if two rows of a person are equally new and have other values.
        AuditFailed: if there are no rows, an audit refuses them, or the row of a person that is there is equally new
            and has other values; no events are written.
        ConfigError: for a table of events with a column that is personal or unclassified, tables that are no parts of
            one row, or rows with a column of no part.
        Conflict: if somebody else writes the tables.
        ContractError: if a row of a person has no place in the order.

    Example:
        >>> from dedp_assets.patterns.core.schema import Column, TableSpec
        >>> public = lambda kind: Column(kind, classification="public")
        >>> mail, person = [Column("STRING", required=key, classification="personal") for key in (False, True)]
        >>> columns = {"day": public("STRING"), "page": public("STRING"), "user": person}
        >>> visits = table(TableSpec("visits", columns, ("day",)))
        >>> users = table(TableSpec("users", {"user": person, "mail": mail, "at": public("INT")}, key=("user",)))
        >>> landed = frame("day STRING, page STRING, user STRING, mail STRING, at INT",
        ...     ("mon", "/", "u1", "ada@old", 1), ("mon", "/a", "u1", "ada@new", 2), ("mon", "/", "u2", None, 1))
        >>> done = split_persons(landed, visits.target(run, partition={"day": "mon"}), users.target(run), newest=["at"])
        >>> rows(users)
        [('u1', 'ada@new', 2), ('u2', None, 1)]
        >>> rows(join_persons(visits, users).select("page", "user", "mail"))
        [('/', 'u1', 'ada@new'), ('/', 'u2', None), ('/a', 'u1', 'ada@new')]
    """
    into, context = into.by(_PATTERN, "partition", "audits"), context.by(_PATTERN, "audits", "execution")
    same_run(into, context)
    event_spec, spec = into.table.spec, context.table.spec
    newest = require_order(spec, newest)
    require_parts(require_free(require_rows("split_persons", rows)), {*event_spec.columns, *spec.columns})
    require_columns(rows, newest, COMPARED)
    person = require_apart(event_spec, spec, newest)
    if bool(spec.columns[person].subject) != (suppressed is not None):
        raise ConfigError(f"suppressed must be given if {person} of {spec.name} states its subject, and only then")
    with evaluated_once(rows) as kept:
        part = kept.select(*map(identifier, event_spec.columns))
        staged = into.with_audits(not_empty(allow_empty=allow_empty)).stage(part)
        inputs = {**context.run.inputs, "events": f"{into.name} {slice_name(into.owned)}"}
        try:
            persons = _keep_newest(kept, _of_persons(context, inputs), suppressed, newest)
        except PatternError:
            staged.stage.discard()
            raise
        return replace(staged.publish(), beside=(persons,))


def _of_persons(context: Target, inputs: Mapping[str, Any]) -> Target:
    """Return the target of a change of persons, without upstream version and start of the run.

    A person's rows have an order of their own, so that runs of other partitions, and of the past, are in nobody's way;
    so an execution that the target names says nothing either.
    """
    return replace(context, partition={}, run=replace(context.run, inputs=inputs, sequence=None, at=None))


def _keep_newest(
    rows: DataFrame, context: Target, suppressed: SuppressionList | None, newest: Sequence[str]
) -> WriteResult:
    """Merge the newest row of each person who is not on the list."""
    table, spec, run = context.table, context.table.spec, context.run
    person, faults = person_of(spec), without_place(newest)
    known = rows.select(*map(identifier, spec.columns)).filter(F.col(identifier(person)).isNotNull())
    known = as_held(known, held_types(table.ensure()), table.name)
    found = newest_rows(known, [person], newest, faults.values())
    if suppressed:
        # The table leaves out who is on its list; without a row of theirs it is another write of the same inputs.
        table.suppression = suppressed
        run = replace(run, inputs={**run.inputs, "suppressed": suppressed.state()})
    other = differs(known, [c for c in spec.content if c != person])
    clauses: list[Clause] = [*newer_wins(newest, other), Insert()]
    audits = [places_agree(newest), *context.audits]
    return table.merge(found, Merge([person], clauses, unusable=faults), provenance=run, audits=audits)


@demanding(replaces="table")
@typed
def forget_persons(
    requests: Sequence[Removal],
    into: Target,
    suppressed: SuppressionList,
    copies: Sequence[ErasableCopy] = (),
    *,
    give_up: Sequence[str] = (),
    deadline_days: int = 30,
) -> WriteResult:
    """Delete the rows of persons with old versions and files, after the list names the persons.

    Events stay as they are. An interrupted request is finished by its repetition. No id is in a predicate, a plan or a
    commit. ``suppressed.times(request)`` has the times of each request.

    Args:
        requests: the requests, done together; one without a time was received now.
        into: target of the table of persons; its run states the time.
        suppressed: the list that :func:`split_persons` is given.
        copies: copies of the table of persons elsewhere, which follow the table.
        give_up: milestones of the table that may be lost with its old versions.
        deadline_days: days from the receipt of a request to the purge that the law allows.

    Returns:
        The deletion, and beside it the purge; a finding says whether each request was in time, and ``figures`` how many
        persons were named and how many rows deleted.

    Raises:
        ConfigError: for no request, ids that are none of the table, a repeated request that names another person, or a
            milestone; no row is deleted.
        Conflict: if somebody else writes the persons.
        ContractError: if the table is on legal hold; no row is deleted.
        NotReady: while a write to the table runs, or if a copy needs more time; the purge is still to be done.
    """
    into = into.by(_PATTERN)
    spec, table, at = into.table.spec, into.table, into.run.at
    kind = subject_of(spec)
    names, ids = [each.request for each in requests], sorted(Removals(requests, most=1).ids)
    if at is None:
        raise ConfigError(f"the run of the target {table.name} must state its time (at), not leave it out")
    table.ensure()
    require_purgeable(table, give_up)
    source = _named(table, ids, suppressed.masking_key().of("forgotten persons"))
    # What the run has read says nothing about a deletion, which is done again whenever it is asked for.
    run = _of_persons(into.noting({"requests": names}), {}).run
    for each in requests:
        suppressed.add(each.request, {kind: [each.id or ""]}, at=each.received or at, because=_BECAUSE)
    done = table.merge(source, Merge(spec.key, [Delete()]), provenance=run)
    for copy in copies:
        copy.erase(ids)
    suppressed.note(names, "executed", at)
    purged = purge_history(table, provenance=run, now=at, give_up=give_up)
    for copy in copies:
        copy.purge(ids)
    suppressed.note(names, "purged", at)
    times = [suppressed.times(name) for name in names]
    late = [each for each in times if each["purged"] > each["requested"] + timedelta(deadline_days)]
    figures = {"requests": len(names), "late": len(late)}
    in_time = Finding("persons_are_purged_in_time", not late, severity="warn", figures=figures)
    return replace(done, figures={**done.figures, "persons": len(ids)}, findings=(in_time,), beside=(purged,))


def _named(table: Table, ids: Sequence[str], salt: MaskingKey) -> DataFrame:
    """Return a row for each id, of the key's type, with a keyed digest.

    Of ids alone, the digest of the source in the commit could be tried out.
    """
    person, kind = person_of(table.spec), subject_of(table.spec)
    rows = [(each, keyed_digest(salt, kind, each)) for each in ids]
    found = table.session.createDataFrame(rows, f"id STRING, {_SALT} STRING")
    value = F.col("id").try_cast(held_types(table.ledger.state())[person].dataType)
    if strange := counted(found.filter(~value.cast("string").eqNullSafe(F.col("id")))):
        raise ConfigError(f"persons must be ids as {person} of {table.name} has them, not {strange} that none can be")
    return found.select(value.alias(person), _SALT)


@typed
def join_persons(events: Table, context: Table) -> DataFrame:
    """Join events with their persons; lazy.

    Args:
        events: the table of events.
        context: the table of persons.

    Returns:
        Each event once, with the columns of its person; NULL for a forgotten person, and for an event of nobody.

    Raises:
        ConfigError: for tables that are not events without personal values and one row for each person.
    """
    shared = [c for c in context.spec.columns if c in events.spec.columns]
    person = require_apart(events.spec, context.spec, shared)
    own = [c for c in context.spec.columns if c not in shared]
    # Events first: persons are written before their events, so that none of these is newer than its person.
    found = events.read()
    persons = context.read().select(*map(identifier, [person, *own]))
    return found.join(persons, [person], "left").select(*map(identifier, [*events.spec.columns, *own]))
