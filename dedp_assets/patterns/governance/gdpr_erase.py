"""GDPR Erase: a person is gone from every table, version and file, and does not come back.

Problem: a person's rows lie in many tables under several ids, in old versions and logs, and late files, replays and
    backfills bring the person back.
Solution: tables declare which columns name persons. From the ids of a request all ids of the person are found; the
    person goes on the suppression list; the rows of each table are deleted in one commit, and its past is purged.
Consequences: an erased table has no time travel to before. Ids stand in no commit, plan or error, so nobody reads in
    the log who is gone. Tables without a declared person are computed again from erased ones, and purged then.
Choose instead: the Encryptor's key of a person, if values are encrypted; the Vertical Partitioner, if events may stay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Literal
from urllib.parse import unquote

from pyspark.sql import Column
from pyspark.sql import functions as F

from dedp_assets.patterns.core.errors import ConfigError, ContractError
from dedp_assets.patterns.core.names import RESERVED
from dedp_assets.patterns.core.options import require_types, typed
from dedp_assets.patterns.core.records import Provenance
from dedp_assets.patterns.core.results import Finding, WriteResult
from dedp_assets.patterns.core.running.demands import demanding
from dedp_assets.patterns.delta import (
    FILE,
    LegalHold,
    SuppressionList,
    Table,
    Target,
    holds,
    read_files,
    same_run,
    shown_holds,
)
from dedp_assets.patterns.delta.maintenance import purge_history
from dedp_assets.patterns.governance._persons import Persons, is_leading

__all__ = ["erase_person", "find_person", "Erasure", "Persons"]

_NOTE, _ID = "erasure", f"{RESERVED}id"
_FEW = 25


@dataclass(frozen=True, slots=True, kw_only=True)
class Erasure:
    """A request to erase a person, or several.

    Attributes:
        request: name of the request, such as a ticket; the same name is the same request.
        ids: kind of person, as columns declare (``Column.subject``) -> ids.
        at: when the request came, with a time zone.
        because: reason, for people; without an id.
        most: share of a table's rows from 0 to 1 that the persons may have; more of them, and more than 25, are a
            mistaken id.
        held: whether rows on legal hold refuse the request, or stay until the hold is released.

    Raises:
        ConfigError: for a request without a name, an id or a time zone.
    """

    request: str
    ids: Mapping[str, Sequence[str]] = field(repr=False)
    at: datetime
    because: str = ""
    most: float = 0.1
    held: Literal["refuse", "leave"] = "refuse"

    def __post_init__(self) -> None:
        require_types(self)
        if not self.request.strip():
            raise ConfigError("request must be a name, such as a ticket, not empty")
        if not self.ids or any(not named or not all(map(str.strip, named)) for named in self.ids.values()):
            raise ConfigError(
                "ids must name at least one person of each kind, such as {'user': ['u-17']}, not be empty"
            )
        if not 0 < self.most <= 1:
            raise ConfigError(f"most must be a share above 0 and up to 1, not {self.most}")


@typed
def find_person(tables: Sequence[Table], erasure: Erasure, suppressed: SuppressionList) -> Finding:
    """Count the persons' rows in each table, without a change.

    Args:
        tables: tables that declare columns of persons.
        erasure: the request.
        suppressed: the list whose key hashes ids.

    Returns:
        Whether the request can be carried out, with ``table``, ``rows``, ``of``, ``files`` and ``bytes`` for each table
        in the figure ``tables``; the note says what refuses it.

    Raises:
        ConfigError: for no table, or a kind of person that no table declares.
    """
    if not tables:
        raise ConfigError("tables must name tables that declare columns of persons (subject), not none")
    persons = Persons.found(tables, erasure.ids, suppressed)
    found = [_found(each, persons) for each in tables if each.ledger.exists()]
    faults = [fault for each in found for fault in _faults(each, erasure)]
    figures = {"tables": [each.figures for each in found if each.rows]}
    return Finding("the_persons_can_be_erased", not faults, figures=figures, note="; ".join(faults))


@demanding(replaces="table")
@typed
def erase_person(
    erasure: Erasure, into: Sequence[Target], suppressed: SuppressionList, *, purge: bool = True
) -> WriteResult:
    """Erase persons: onto the suppression list, out of each table, out of the tables' past.

    The rows that lead from one id to another go last, so that a run after a crash finds the same ids. A request that is
    repeated erases what is left, or nothing.

    Args:
        erasure: the request.
        into: targets of tables that declare columns of persons, of one run that states its time; tables without rows of
            the persons are purged, too.
        suppressed: the list, which every writer of the tables must have (``Table.suppression``).
        purge: whether the past of the tables goes now; otherwise a later call with ``purge`` ends the erasure.

    Returns:
        The write of the last table, and beside it the others; ``erased`` counts the rows of all in its figures.

    Raises:
        ConfigError: for a kind of person that no table declares, no target, or a run without a time.
        ContractError: if the persons have more rows than ``most``, or rows on legal hold; nothing is changed.
        NotReady: while a write is running in a table that is to be purged.

    Example:
        >>> import tempfile
        >>> from datetime import datetime, timezone
        >>> from dedp_assets.patterns.core.masking import MaskingKey
        >>> from dedp_assets.patterns.core.schema import Column, TableSpec
        >>> from dedp_assets.patterns.delta import store_at
        >>> columns = {"id": Column("INT"), "user": Column("STRING", subject="user")}
        >>> visits = table(TableSpec("silver/visits", columns), "", (1, "ada"), (2, "bob"))
        >>> key = MaskingKey("home", b"32 random bytes, which these are not")
        >>> gone = SuppressionList(store_at(tempfile.mkdtemp()), key)
        >>> asked = Erasure(request="T-17", ids={"user": ["ada"]}, at=datetime(2026, 1, 5, tzinfo=timezone.utc))
        >>> _ = erase_person(asked, [visits.target(run)], gone)
        >>> rows(visits)
        [(2, 'bob')]
    """
    if not into or any(each.run.at is None for each in into):
        raise ConfigError("into must name the targets of a run with a time (at), which a purge is dated by, not none")
    same_run(*into)
    targets = {each.name: each.by("governance.gdpr_erase") for each in into}
    tables = sorted((each.table for each in into if each.table.ledger.exists()), key=is_leading)
    persons = Persons.found(tables, erasure.ids, suppressed)
    found = [_found(each, persons) for each in tables]
    if faults := [fault for each in found for fault in _faults(each, erasure)]:
        raise ContractError(f"{erasure.request}: nothing was erased: {'; '.join(faults)}")
    suppressed.add(erasure.request, persons.ids, at=erasure.at, because=erasure.because)
    runs = {name: target.noting({_NOTE: erasure.request}).run for name, target in targets.items()}
    done = [result for each in found for result in _erased(each, runs[each.table.name], purge=purge)]
    erased = {each.table.name: each.rows for each in found if each.rows}
    last = done[-1] if done else _nothing(into[-1].table, erasure)
    figures = {**last.figures, "erased": sum(erased.values()), "tables": erased}
    return replace(last, figures=figures, beside=tuple(done[:-1]))


@dataclass(frozen=True, slots=True)
class _Found:
    """Rows of persons in a table.

    Attributes:
        table: the table.
        where: predicate of the rows.
        about: description of the rows.
        rows: number of the rows.
        of: number of all rows.
        files: files that hold them.
        size_bytes: bytes of these files.
        met: legal holds on partitions of the rows.
        free: partitions of the rows without a hold; ``None`` for all.
    """

    table: Table
    where: Column
    about: str
    rows: int
    of: int
    files: int
    size_bytes: int
    met: tuple[LegalHold, ...]
    free: tuple[Mapping[str, Any], ...] | None = None

    @property
    def figures(self) -> dict[str, Any]:
        """The numbers for a plan."""
        counts = {"rows": self.rows, "of": self.of, "files": self.files, "bytes": self.size_bytes}
        return {"table": self.table.name, **counts, **({"held": shown_holds(self.met)} if self.met else {})}


def _found(table: Table, persons: Persons) -> _Found:
    """Find the rows of persons in a table, by one pass."""
    where = persons.where(table)
    state = table.ledger.state()
    sizes = {_name(unquote(file["path"])): file["size_bytes"] for file, _ in state.keyed_files()}
    names = [f"{RESERVED}p{number}" for number, _ in enumerate(state.partition_columns)]
    keys = [F.col(f"`{c}`").cast("string").alias(n) for c, n in zip(state.partition_columns, names, strict=True)]
    rows = read_files(table.session, table.store, state, state.keyed_files(), named=True)
    marked = rows.withColumn(_ID, F.coalesce(where, F.expr("false")))
    counted = marked.groupBy(FILE, *keys).agg(F.expr("count(1)"), F.expr(f"count_if({_ID})")).collect()
    held = [row for row in counted if row[-1]]
    keyed = {tuple(row[1:-2]) for row in held}
    partitions = [dict(zip(state.partition_columns, key, strict=True)) for key in sorted(keyed, key=str)]
    standing = holds(table.ledger)
    met = tuple(hold for hold in standing if any(map(hold.meets, partitions)))
    free = tuple(each for each in partitions if not any(hold.meets(each) for hold in met)) if met else None
    count, every = sum(row[-1] for row in held), sum(row[-2] for row in counted)
    size = sum(sizes.get(_name(unquote(row[0])), 0) for row in held)
    about = f"rows of {sum(map(len, persons.ids.values()))} ids of persons"
    return _Found(table, where, about, count, every, len(held), size, met, free)


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _faults(found: _Found, erasure: Erasure) -> Iterator[str]:
    """Yield the reasons that refuse an erasure."""
    if found.rows > max(_FEW, erasure.most * found.of):
        share = found.rows / found.of
        yield (
            f"the ids are of {found.rows} of {found.of} rows of {found.table.name} ({share:.0%}, at most "
            f"{erasure.most:.0%}): check the ids, or state a larger share by most"
        )
    if found.met and erasure.held == "refuse":
        yield f"{found.table.name} is {shown_holds(found.met)}: have the hold released, or state held='leave'"


def _erased(found: _Found, run: Provenance, *, purge: bool) -> Iterator[WriteResult]:
    """Delete the rows of persons from a table, and purge the past of the table."""
    table = found.table
    delete: Callable[..., WriteResult] = table.delete
    if found.rows and found.free is None:
        yield delete(found.where, provenance=run, about=found.about)
    for partition in found.free or ():
        yield delete(found.where, provenance=run, about=found.about, partition=partition)
    if purge and not found.met and run.at is not None:
        yield purge_history(table, provenance=run, now=run.at)


def _nothing(table: Table, erasure: Erasure) -> WriteResult:
    reason = f"{erasure.request}: no table holds the persons"
    return WriteResult(table.name, -1, applied=False, changed=False, reason=reason)
