"""Static Joiner: facts are enriched by key from a static table, one output row per fact.

Problem: a visit names a user and nothing of them. Joined to the users of today, a day of last year that is computed
    again says something else than before, and a key that is there twice doubles visits.
Solution: a left join by key, or by key and validity ``[from, to)`` at the fact's own time (SCD types 2 and 4), once
    the reference is judged to have one row at a time. What a service knows is put into a table first, then joined.
Consequences: a fact without a match stays, and is marked. What the reference learns later is not in the rows until
    they are computed again. Who joins a stream does so batch by batch (``foreachBatch``), with the newest reference.
Choose instead: Dynamic Joiner, if the other side moves as fast as the facts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from dedp_assets.patterns.core.columns import (
    COMPARED,
    fields_of,
    require_columns,
    require_free,
    require_named,
    require_rows,
)
from dedp_assets.patterns.core.errors import AuditFailed, ConfigError
from dedp_assets.patterns.core.keys import require_distinct
from dedp_assets.patterns.core.matching import VALID, living, matching
from dedp_assets.patterns.core.names import RESERVED, identifier, reserved
from dedp_assets.patterns.core.options import require_types, typed
from dedp_assets.patterns.core.results import Finding
from dedp_assets.patterns.core.types.meeting import united
from dedp_assets.patterns.value._answers import ANSWER, Ask, keep_answers
from dedp_assets.patterns.value._verdicts import about, require_verdict

__all__ = ["join_static", "judge_reference", "keep_answers", "ANSWER", "VALID", "Ask"]

_FOUND, _NEXT, _FAULT, _KEY = (f"{RESERVED}{name}" for name in ("found", "next", "fault", "key"))


@dataclass(frozen=True, slots=True)
class AsOf:
    """The columns of a temporal join: time of the fact, and validity of a reference version.

    Attributes:
        at: column of the facts that says when one happened.
        valid: columns of the reference that say from when a version holds, and until when.
    """

    at: str
    valid: tuple[str, str] = VALID

    def __post_init__(self) -> None:
        require_types(self)


@typed
def join_static(
    facts: DataFrame,
    reference: DataFrame,
    judged: Finding,
    former: DataFrame | None = None,
    *,
    keys: Mapping[str, str],
    columns: Mapping[str, str],
    as_of: AsOf | None = None,
    matched: str = "",
) -> DataFrame:
    """Add columns of the reference to each fact by key, with every fact kept exactly once; lazy.

    Args:
        facts: the rows, a batch or a stream. A NULL in a key, or as time, matches nothing.
        reference: what is known by key; with ``as_of`` its versions. One with a true ``is_deleted`` matches nothing.
        judged: the verdict of :func:`judge_reference` on the same reference and ``former``, by these keys or some of
            them; with ``as_of`` over the versions that its ``valid`` tells of, else without versions.
        former: versions that no longer hold, if they lie apart (SCD type 4); an open one among them is passed over, as
            it is that of ``reference``.
        keys: column of ``facts`` -> key column of the reference, of the same type or one that holds its values.
        columns: column of the reference -> its name in the result; NULL without a match.
        as_of: when a fact happened and a version holds; without, rows meet by key alone.
        matched: name of a BOOLEAN column to add that says whether there was a match.

    Returns:
        The columns of ``facts`` and the added ones.

    Raises:
        AuditFailed: if the reference was refused.
        ConfigError: for a column that is not there, or is there already, for a reference that is a stream, and for a
            verdict on anything else.
        SchemaMismatch: if the types of two partners, or of versions that lie apart, do not meet without loss.

    Example:
        >>> seen = [("/a", 1, "10:00"), ("/b", 1, "12:00"), ("/c", 2, "12:00")]
        >>> visits = frame("page STRING, user INT, at STRING", *seen)
        >>> told = [(1, "old", "09:00", "12:00"), (1, "new", "12:00", None)]
        >>> users = frame("id INT, email STRING, valid_from STRING, valid_to STRING", *told)
        >>> sound = judge_reference(users, keys=["id"], valid=VALID)
        >>> keys, columns = {"user": "id"}, {"email": "email"}
        >>> joined = join_static(visits, users, sound, keys=keys, columns=columns, as_of=AsOf("at"))
        >>> rows(joined.select("page", "email"))
        [('/a', 'old'), ('/b', 'new'), ('/c', None)]
    """
    if judged.refuses:
        raise AuditFailed(f"nothing is joined, the reference was refused: {judged.note}", findings=[judged])
    for option, named in (("keys", keys), ("columns", columns)):
        require_named(option, [*named, *named.values()])
    if reference.isStreaming:
        raise ConfigError("the reference is a stream: join two streams by the Dynamic Joiner, or read it as a table")
    known = living(_versions(reference, former, as_of.valid) if as_of else reference)
    require_columns(known, columns)
    require_columns(facts, [*keys, *([as_of.at] if as_of else [])], COMPARED)
    added = [*columns.values(), *filter(None, [matched])]
    require_free(facts, *added)
    require_free(known)
    if not keys or len({name.lower() for name in added}) < len(added) or reserved(added):
        raise ConfigError(f"keys must name a key, and each added column once: not {sorted(keys)} and {added}")
    at, valid = (as_of.at, as_of.valid) if as_of else ("", VALID)
    condition = matching(facts, known, keys=keys, at=at, valid=valid)
    require_verdict(
        judged, about(reference, former if as_of else None, [*keys.values()], as_of.valid if as_of else None)
    )
    marked_reference = known.withColumn(_FOUND, F.expr("true")).alias("r")
    joined = facts.alias("f").join(marked_reference, F.expr(condition), "left")
    from_reference = [F.col(f"r.{identifier(theirs)}").alias(mine) for theirs, mine in columns.items()]
    marked = [F.col(f"r.{_FOUND}").isNotNull().alias(matched)] if matched else []
    return joined.select("f.*", *from_reference, *marked)


@typed
def judge_reference(
    reference: DataFrame,
    former: DataFrame | None = None,
    *,
    keys: Sequence[str],
    valid: tuple[str, str] | None = None,
    gaps: bool = True,
    name: str = "reference_has_one_row_at_a_time",
) -> Finding:
    """Judge whether a reference has at most one row for each key, or for each key and time.

    Args:
        reference: what is known by key; with ``valid`` its versions.
        former: versions that no longer hold, if they lie apart.
        keys: the key columns; rows with a NULL in them match nothing and are not judged.
        valid: the columns that say when a version holds; ``None`` for a reference without versions.
        gaps: whether a key may be unknown between two versions; one that is deleted then has a version that says so.
        name: of the finding, where several references are judged.

    Returns:
        The finding, with the number of keys by fault, and the least and the greatest of them.

    Raises:
        ConfigError: for a column that is not there, no key, or a reference that is a stream.
    """
    require_rows("a reference", reference)
    if not keys:
        raise ConfigError("keys must name the key columns of the reference, not none")
    require_distinct("keys=", keys)
    rows = _versions(reference, former, valid) if valid else living(reference)
    require_columns(require_free(rows), [*keys, *(valid or ())], COMPARED)
    named = [F.col(identifier(key)) for key in keys]
    known = rows.filter(" AND ".join(f"{identifier(key)} IS NOT NULL" for key in keys))  # dropna drops NaN, too
    key = F.concat_ws(", ", *[one.cast("STRING") for one in named]).alias(_KEY)
    if valid is None:
        faulty = known.groupBy(*named).agg(F.count("*").alias(_FAULT)).filter(f"{_FAULT} > 1")
        faults = faulty.select(key, F.lit("have several rows").alias(_FAULT))
    else:
        faults = _faults_in_time(known, keys, valid, gaps=gaps).select(key, _FAULT)
    seen = faults.groupBy(_FAULT).agg(F.count_distinct(_KEY), F.min(_KEY), F.max(_KEY)).collect()
    notes = [f"{count} keys {fault}, {_named(least, most)}" for fault, count, least, most in sorted(map(tuple, seen))]
    figures = {fault: count for fault, count, *_ in seen}
    judged = about(reference, former if valid else None, keys, valid)
    return Finding(name, passed=not seen, figures=figures, note="; ".join(notes), about=judged)


def _faults_in_time(versions: DataFrame, keys: Sequence[str], valid: tuple[str, str], *, gaps: bool) -> DataFrame:
    """Find versions without a start, with an end before the start, with overlaps or with gaps.

    Gaps count only where ``gaps`` is false.
    """
    begins, ends = (F.col(identifier(column)) for column in valid)
    ordered = Window.partitionBy(*[identifier(key) for key in keys]).orderBy(begins, ends.asc_nulls_last())
    following = versions.withColumn(_NEXT, F.lead(begins).over(ordered))
    fault = (
        F.when(begins.isNull(), "have a version without a beginning")
        .when(ends <= begins, "have a version that ends before it begins")
        .when(ends.isNull() & F.col(_NEXT).isNotNull() | (ends > F.col(_NEXT)), "have overlapping versions")
    )
    fault = fault if gaps else fault.when(ends < F.col(_NEXT), "have a gap between versions")
    return following.withColumn(_FAULT, fault).filter(f"{_FAULT} IS NOT NULL")


def _versions(current: DataFrame, former: DataFrame | None, valid: tuple[str, str]) -> DataFrame:
    """Unite the current and the former versions."""
    begins, ends = valid
    require_columns(current, [begins, *([ends] if former is None else [])])
    if former is None:
        return current
    (kind,) = fields_of(former, [ends])
    has_end = ends.lower() in {c.lower() for c in current.columns}
    still = current if has_end else current.withColumn(ends, F.lit(None).cast(kind.dataType))
    closed = former.filter(F.col(identifier(ends)).isNotNull())
    shared = [c for c in closed.columns if c.lower() in {name.lower() for name in still.columns}]
    both = united({"the versions that hold": still, "the former ones": closed}, shared)
    return reduce(partial(DataFrame.unionByName, allowMissingColumns=True), both.values())


def _named(least: str, most: str) -> str:
    return repr(least) if least == most else f"{least!r} to {most!r}"
