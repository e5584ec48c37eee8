"""Dynamic Joiner: rows of two streams meet by key within a bound of event time.

Problem: both sides move, and one is slower: what belongs together does not arrive together, so a join of what is there
    finds nothing.
Solution: each side keeps its rows for as long as a partner may still come: a bound on the distance of the two event
    times says how long by itself, the watermarks of both sides say when that time is over. Every partner within the
    bound (`join_within`), or the newest one up to the row (`join_latest`, a temporal join).
Consequences: a wider bound or watermark finds more and keeps more rows. What comes below the watermark is dropped and
    counted, so a join of two streams is not complete: the same function over the day's tables is. The slower side's
    watermark rules: nothing is closed while a side is silent, nor by a run to which it delivered nothing.
Choose instead: Static Joiner, if one side is at rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dedp_assets.patterns.core.columns import COMPARED, INSTANT, fields_of, require_columns, require_free, require_named
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.keys import require_distinct
from dedp_assets.patterns.core.names import RESERVED, identifier
from dedp_assets.patterns.core.options import require_types, typed
from dedp_assets.patterns.core.rows import row_hash
from dedp_assets.patterns.core.sessionizing import watermarked
from dedp_assets.patterns.core.types.meeting import equal

__all__ = ["join_within", "join_latest", "JoinTimes"]

How = Literal["left", "inner"]
_EVER = 10_000 * 366 * 86_400  # seconds, more than lie between any two timestamps
_PAIR, _PLACE, _APART = (f"{RESERVED}{name}" for name in ("pair", "place", "apart"))


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinTimes:
    """The event times of two sides that are joined, and how late rows of each may arrive.

    Attributes:
        fact: TIMESTAMP column of the facts that says when one happened.
        other: TIMESTAMP column of the other side that says when a row happened.
        fact_lateness_seconds: how far behind the newest one a fact may arrive, in seconds; a stream needs it.
        other_lateness_seconds: the same for the other side.
    """

    fact: str
    other: str
    fact_lateness_seconds: int | None = None
    other_lateness_seconds: int | None = None

    def __post_init__(self) -> None:
        require_types(self)


@typed
def join_within(
    facts: DataFrame,
    others: DataFrame,
    *,
    keys: Mapping[str, str],
    times: JoinTimes,
    from_seconds: int | None = None,
    to_seconds: int | None = None,
    how: How = "left",
) -> DataFrame:
    """Join each fact with all rows of equal key on the other side within a time bound; lazy.

    Two batches or two streams. In a stream a fact without a partner comes out once, when the watermark says that none
    can come any more. Rows without an event time are left out, and a NULL in a key has no partner. A time in the far
    future would close everything before it: divert such rows first (Late Data Detector).

    Args:
        facts: the rows to enrich.
        others: the rows to enrich them by; of repeated ones each is a partner.
        keys: column of ``facts`` -> column of ``others`` that equals it.
        times: the columns with the event times and, of streams, how late rows of each side may be.
        from_seconds: least distance of the other time from the fact's, in seconds; negative is before the fact.
        to_seconds: greatest distance; both bounds belong to it.
        how: ``left`` keeps facts without a partner, ``inner`` does not.

    Returns:
        The columns of ``facts``, and those of ``others`` but its keys.

    Raises:
        ConfigError: without both bounds or, of streams, both tolerances, since the state would grow for ever; if a
            stream meets a batch; or for columns that are not there, or on both sides.
        SchemaMismatch: if the types of a key do not meet without loss.

    Example:
        >>> from datetime import datetime, timezone
        >>> at = lambda second: datetime(2026, 1, 5, 10, 0, second, tzinfo=timezone.utc)
        >>> visits = frame("visit INT, page STRING, at TIMESTAMP", (1, "/a", at(12)), (2, "/b", at(12)))
        >>> ads = frame("ad INT, ad_page STRING, shown_at TIMESTAMP", (7, "/a", at(10)), (8, "/b", at(13)))
        >>> bound = {"times": JoinTimes(fact="at", other="shown_at"), "from_seconds": -10, "to_seconds": 0}
        >>> rows(join_within(visits, ads, keys={"page": "ad_page"}, **bound).select("visit", "ad"))
        [(1, 7), (2, None)]
    """
    _require_sides(facts, others, keys, times)
    _require_bounds(from_seconds, to_seconds)
    if facts.isStreaming:
        _require_tolerance(times.fact_lateness_seconds, times.other_lateness_seconds)
    mine = _timed(facts, times.fact, times.fact_lateness_seconds).alias("f")
    theirs = _timed(others, times.other, times.other_lateness_seconds).alias("o")
    meet = [
        equal(fact, other, (f"f.{identifier(fact.name)}", f"o.{identifier(other.name)}"), sides=("facts", "others"))
        for fact, other in zip(fields_of(facts, keys), fields_of(others, keys.values()), strict=True)
    ]
    at, mine_at = f"o.{identifier(times.other)}", f"f.{identifier(times.fact)}"
    meet += [f"{at} {by} {mine_at} + INTERVAL {n} SECOND" for by, n in ((">=", from_seconds), ("<=", to_seconds))]
    added = [name for name in others.columns if name.lower() not in _lowered(keys.values())]
    taken = [F.col(f"f.{identifier(c)}") for c in facts.columns] + [F.col(f"o.{identifier(c)}") for c in added]
    return mine.join(theirs, F.expr(" AND ".join(meet)), how).select(*taken)


@typed
def join_latest(
    facts: DataFrame,
    others: DataFrame,
    *,
    identity: Sequence[str],
    keys: Mapping[str, str],
    times: JoinTimes,
    within_seconds: int | None = None,
    order_by: Sequence[str] = (),
    how: How = "left",
) -> DataFrame:
    """Join each fact with the newest row of the other side at or before the fact's time; lazy.

    One row for each fact, with the columns of :func:`join_within`, also where rows of either side are repeated. In a
    stream it comes out when the watermark says that no newer partner can come.

    Args:
        facts: the rows to enrich.
        others: the rows to enrich them by.
        identity: columns of ``facts`` that, with its time, make it one fact; of repeats that differ the same one is
            taken in any order of arrival. With a NULL in one of them, a fact repeats only a fact with the same content.
        keys: as for :func:`join_within`.
        times: as for :func:`join_within`.
        within_seconds: how long before the fact a partner may lie at most; a stream needs it, ``None`` is any time.
        order_by: columns of ``others`` that decide between equal times, the greatest first; then the content does.
        how: ``left`` or ``inner``.

    Raises:
        ConfigError: as :func:`join_within`, and without an identity.
    """
    require_distinct("identity=", identity)
    require_columns(facts, identity, COMPARED)
    require_columns(others, order_by, COMPARED)
    if not identity:
        raise ConfigError("identity must name the columns that make a fact one")
    if within_seconds is not None and within_seconds < 0:
        raise ConfigError(
            f"within_seconds must be 0 or more, not {within_seconds}: the newest partner before a fact is sought"
        )
    bound = within_seconds if within_seconds is not None or facts.isStreaming else _EVER
    pairs = join_within(
        facts,
        others,
        keys=keys,
        times=times,
        from_seconds=None if bound is None else -bound,
        to_seconds=0,
        how=how,
    )
    deciding = [c for c in (times.other, *order_by) if c.lower() not in _lowered(keys.values())]
    place = [*map(identifier, deciding), row_hash(fields_of(pairs, pairs.columns))]
    one = list({c.lower(): c for c in (*identity, times.fact)}.values())
    unknown = " OR ".join(f"{identifier(c)} IS NULL" for c in one)
    apart = f"if({unknown}, {row_hash(fields_of(facts, facts.columns))}, NULL) AS {_APART}"
    # Inside of a struct a time carries no watermark: of the two that a pair has, the fact's closes it.
    kept = pairs.selectExpr(
        *map(identifier, one),
        apart,
        f"struct({', '.join(map(identifier, pairs.columns))}) AS {_PAIR}",
        f"struct({', '.join(place)}) AS {_PLACE}",
    )
    newest = kept.groupBy(*map(identifier, one), _APART).agg(F.expr(f"max_by({_PAIR}, {_PLACE})").alias(_PAIR))
    return newest.select(f"{_PAIR}.*")


def _timed(rows: DataFrame, time: str, seconds: int | None) -> DataFrame:
    known = rows.filter(f"{identifier(time)} IS NOT NULL")
    return watermarked(known, time, f"{seconds} seconds") if rows.isStreaming else known


def _require_sides(facts: DataFrame, others: DataFrame, keys: Mapping[str, str], times: JoinTimes) -> None:
    require_named("keys", [*keys, *keys.values()])
    for rows, columns, time in ((facts, [*keys], times.fact), (others, [*keys.values()], times.other)):
        require_columns(require_free(rows), columns, COMPARED)
        require_columns(rows, [time], INSTANT)
    if facts.isStreaming != others.isStreaming:
        raise ConfigError("one side is a stream and the other is not: a stream meets a table by a Static Joiner")
    both = _lowered(facts.columns) & (_lowered(others.columns) - _lowered(keys.values()))
    if not keys or both:
        raise ConfigError(f"keys must name a column of each side, and no other have one name: {sorted(both) or 'none'}")


def _require_bounds(from_seconds: int | None, to_seconds: int | None) -> None:
    if from_seconds is None or to_seconds is None:
        raise ConfigError(
            "from_seconds and to_seconds must both be given: without a bound every row is kept for ever: name both ends"
        )
    if from_seconds > to_seconds:
        raise ConfigError(f"no time lies from {from_seconds} to {to_seconds} seconds after another one")


def _require_tolerance(*seconds: int | None) -> None:
    if any(each is None or each < 0 for each in seconds):
        raise ConfigError(f"without a watermark on both sides rows are kept for ever, and {list(seconds)} give none")


def _lowered(names: Iterable[str]) -> set[str]:
    return {name.lower() for name in names}
