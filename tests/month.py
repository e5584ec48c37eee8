"""A month of a platform under a virtual clock: regular work, seeded faults, and oddities that harm nobody.

The plan is made of moments: what writes to a log at which time. A fault takes moments away, moves them or changes
their figures, and says which alert has to come and go. An oddity adds moments that change no figure.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import date, datetime, time, timedelta, timezone
from typing import Any

BEGIN = date(2026, 6, 1)
"""First day of the month, a Monday."""
DAYS = 30
HISTORY = 70
"""Days of regular work before the month, which nobody watches: ten weeks, enough for a season."""
TICK = timedelta(minutes=30)
HOLIDAYS = (date(2026, 6, 4), date(2026, 6, 15))
"""Days on which partners deliver nothing, and shops sell twice as much as usual."""
REGIONS = ("at", "be", "ch", "de", "es", "fr", "it", "nl")
WEEKDAYS = (1.0, 0.95, 1.0, 1.05, 1.3, 0.6, 0.5)
"""Share of a usual day that a weekday has."""


def utc(day: date, hour: int = 0, minute: int = 0) -> datetime:
    return datetime.combine(day, time(hour, minute), timezone.utc)


@dataclass(frozen=True)
class Moment:
    """A write of regular work: the table, the partition and the figures, before faults."""

    at: datetime
    table: str
    key: str
    rows: int
    newest: datetime | None = None


@dataclass(frozen=True)
class Fault:
    """A fault and what people have to hear of it.

    Attributes:
        kind: name of the kind.
        alert: name of the alert.
        table: table of the alert.
        begins: when something goes wrong.
        ends: when it is right again; the alert clears after that.
        change: what the fault makes of a moment; ``None`` if nothing is written.
    """

    kind: str
    alert: str
    table: str
    begins: datetime
    ends: datetime
    change: Callable[[Moment], Moment | None] = field(compare=False, repr=False, default=lambda moment: moment)


@dataclass(frozen=True)
class Oddity:
    """Something harmless, at a time."""

    kind: str
    at: datetime
    table: str = ""


def regular(rng: random.Random) -> list[Moment]:
    """The writes of regular work, from the first day of history to the last of the month."""
    moments: list[Moment] = []
    for number in range(-HISTORY, DAYS):
        day = BEGIN + timedelta(days=number)
        moments += _daily(day, rng)
        # Of what has no season, a few days are history enough.
        moments += [*_hourly(day, rng), *_partners(day, rng)] if number >= -3 else []
    return sorted(moments, key=lambda each: each.at)


def _noisy(rng: random.Random, value: float) -> int:
    return round(value * min(max(rng.gauss(1, 0.04), 0.88), 1.12))


def _daily(day: date, rng: random.Random) -> Iterator[Moment]:
    """Orders of the day, delivered at four the next morning, and what follows."""
    rows = _noisy(rng, 10_000 * WEEKDAYS[day.weekday()] * (2 if day in HOLIDAYS else 1))
    morning, key = utc(day + timedelta(days=1), 4), day.isoformat()
    late = timedelta(minutes=rng.randrange(20))
    yield Moment(morning + late, "bronze/orders", key, rows)
    yield Moment(morning + late + timedelta(minutes=10), "silver/orders", key, rows - rng.randrange(20))
    yield Moment(morning + late + timedelta(minutes=20), "gold/revenue", key, 50)
    for region in REGIONS:
        yield Moment(morning + timedelta(minutes=50), "gold/regions", region, _noisy(rng, 1_000))


def _hourly(day: date, rng: random.Random) -> Iterator[Moment]:
    """Clicks of each hour, a few minutes after its end."""
    for hour in range(24):
        begin = utc(day, hour)
        end, key = begin + timedelta(hours=1), f"{day.isoformat()}-{hour:02d}"
        rows = _noisy(rng, 2_000 * (0.3 if hour < 6 else 1))
        late = timedelta(minutes=3 + rng.randrange(8))
        yield Moment(end + late, "bronze/clicks", key, rows, newest=end - timedelta(seconds=5))
        yield Moment(end + late + timedelta(minutes=5), "silver/clicks", key, rows, newest=end - timedelta(seconds=5))


def _partners(day: date, rng: random.Random) -> Iterator[Moment]:
    """Deliveries of partners, every one or two hours of a working day."""
    if day.weekday() >= 5 or day in HOLIDAYS:
        return
    at = utc(day, 6, 10)
    while at < utc(day, 16, 30):
        yield Moment(at, "bronze/partners", day.isoformat(), 20 + rng.randrange(100))
        at += timedelta(minutes=40 + rng.randrange(70))


@dataclass
class Plan:
    """Moments, faults and oddities of a seeded month."""

    moments: list[Moment]
    faults: list[Fault]
    oddities: list[Oddity]


def plan(seed: int, *, faults: int = 40, oddities: int = 200) -> Plan:
    """Make the plan of a month.

    Args:
        seed: seed of everything random.
        faults: number of faults.
        oddities: number of harmless oddities.
    """
    rng = random.Random(seed)  # noqa: S311 - a plan that can be made again
    moments = regular(rng)
    chosen = _faults(rng, faults)
    changed = [found for each in moments if (found := _after(each, chosen)) is not None]
    return Plan(sorted(changed, key=lambda each: each.at), chosen, _oddities(rng, oddities))


def _after(moment: Moment, faults: list[Fault]) -> Moment | None:
    for fault in faults:
        changed = fault.change(moment)
        if changed is None:
            return None
        moment = changed
    return moment


def _faults(rng: random.Random, number: int) -> list[Fault]:
    """Choose faults of all kinds by turns, each on a day on which its line has no other one."""
    days = {
        line: rng.sample(range(1, DAYS - 2), DAYS - 3) for line in dict.fromkeys(line for line, _ in KINDS.values())
    }
    taken: dict[str, list[int]] = {line: [] for line in days}
    found: list[Fault] = []
    kinds = list(KINDS)
    while len(found) < number and kinds:
        kind = kinds[len(found) % len(kinds)] if len(found) < 4 * len(kinds) else rng.choice(kinds)
        line, make = KINDS[kind]
        free = [day for day in days[line] if all(abs(day - other) > 1 for other in taken[line])]
        free = [day for day in free if BEGIN + timedelta(days=day) not in _around_holidays()]
        if line == "partners":
            free = [day for day in free if (BEGIN + timedelta(days=day)).weekday() in (1, 2, 3)]
        if not free:
            kinds.remove(kind)
            continue
        taken[line].append(free[0])
        found.append(make(BEGIN + timedelta(days=free[0]), rng))
    return sorted(found, key=lambda each: each.begins)


def _around_holidays() -> set[date]:
    return {day + timedelta(days=n) for day in HOLIDAYS for n in (-1, 0, 1)}


def _volume(kind: str, low: float, high: float) -> Callable[[date, random.Random], Fault]:
    """Orders of a day with so many times the rows; the next day is right again."""

    def make(day: date, rng: random.Random) -> Fault:
        share, key = rng.uniform(low, high), day.isoformat()

        def change(moment: Moment) -> Moment:
            hit = moment.key == key and moment.table in ("bronze/orders", "silver/orders")
            return replace(moment, rows=round(moment.rows * share)) if hit else moment

        morning = utc(day + timedelta(days=1), 4)
        return Fault(kind, "volume", "bronze/orders", morning, morning + timedelta(days=1, minutes=25), change)

    return make


def _stop(kind: str, tables: tuple[str, ...], alert: str, hours: tuple[int, int], start: tuple[int, int]) -> Any:
    """Nothing is written for some hours; then everything that was held back comes at once."""

    def make(day: date, rng: random.Random) -> Fault:
        begins = utc(day, rng.randrange(*start))
        ends = begins + timedelta(hours=rng.randrange(*hours), minutes=rng.randrange(5, 25))

        def change(moment: Moment) -> Moment | None:
            # Where the producer stops, the consumer's write of an hour waits for that of the producer.
            behind = timedelta(minutes=5) if moment.table == "silver/clicks" and len(tables) > 1 else timedelta()
            held = moment.table in tables and begins <= moment.at - behind < ends
            order = timedelta(seconds=10 * tables.index(moment.table) + 40 * (moment.at.hour)) if held else timedelta()
            return replace(moment, at=ends + order) if held else moment

        return Fault(kind, alert, tables[0], begins, ends + timedelta(minutes=30), change)

    return make


def _late(day: date, rng: random.Random) -> Fault:
    """Revenue comes hours after its deadline, though its inputs were there."""
    key, hours = day.isoformat(), rng.randrange(3, 9)
    morning = utc(day + timedelta(days=1), 4)

    def change(moment: Moment) -> Moment:
        hit = moment.table == "gold/revenue" and moment.key == key
        return replace(moment, at=morning + timedelta(hours=hours)) if hit else moment

    ends = morning + timedelta(hours=hours)
    return Fault("late", "late", "gold/revenue", morning, ends, change)


def _upstream_late(day: date, rng: random.Random) -> Fault:
    """Orders are delivered hours late, and everything after them: the root is the delivery."""
    key, hours = day.isoformat(), rng.randrange(3, 9)
    morning = utc(day + timedelta(days=1), 4)

    def change(moment: Moment) -> Moment:
        hit = moment.table in ("bronze/orders", "silver/orders", "gold/revenue") and moment.key == key
        return replace(moment, at=moment.at + timedelta(hours=hours)) if hit else moment

    ends = morning + timedelta(hours=hours, minutes=20)
    return Fault("upstream late", "late", "bronze/orders", morning, ends, change)


def _hot(day: date, rng: random.Random) -> Fault:
    """One region holds ten times the rows of the others, until the next morning."""
    region = rng.choice(REGIONS)
    at = utc(day, 4, 50)

    def change(moment: Moment) -> Moment:
        hit = moment.table == "gold/regions" and moment.key == region and moment.at == at
        return replace(moment, rows=10 * moment.rows) if hit else moment

    return Fault("hot partition", "uneven", "gold/regions", at, at + timedelta(days=1), change)


def _future(day: date, rng: random.Random) -> Fault:
    """A producer's clock is days ahead for one delivery, until those events are in the past or rewritten."""
    hour = rng.randrange(6, 18)
    key = f"{day.isoformat()}-{hour:02d}"
    ahead = timedelta(hours=rng.randrange(8, 20))

    def change(moment: Moment) -> Moment:
        hit = moment.table == "bronze/clicks" and moment.key == key
        return replace(moment, newest=moment.at + ahead) if hit else moment

    begins = utc(day, hour) + timedelta(hours=1)
    return Fault("future event", "future", "bronze/clicks", begins, begins + ahead + timedelta(minutes=30), change)


def _stalled(day: date, rng: random.Random) -> Fault:
    """The reader of the topic stands still for hours, and catches up then."""
    begins = utc(day, rng.randrange(1, 12))
    return Fault("stalled reader", "lag", TOPIC, begins, begins + timedelta(hours=rng.randrange(4, 9)))


def _created_again(day: date, rng: random.Random) -> Fault:
    """The topic is deleted and created again; its reader begins again at once."""
    begins = utc(day, rng.randrange(1, 20))
    return Fault("topic created again", "restarted", TOPIC, begins, begins + timedelta(hours=2))


def topic_at(at: datetime, faults: list[Fault]) -> tuple[int, int, str]:
    """Return end, reader's position and identity of the topic's only partition at a time."""
    created = [each.begins for each in faults if each.kind == "topic created again" and each.begins <= at]
    first = max(created, default=utc(BEGIN) - timedelta(days=1))
    stalls = [each for each in faults if each.kind == "stalled reader" and each.begins <= at < each.ends]
    read = min([at, *(each.begins for each in stalls)])
    end, position = (int((moment - first).total_seconds()) for moment in (at, read))
    return end, position, f"topic {len(created)}"


TOPIC = "bronze/stream"
_CLICKS = ("bronze/clicks", "silver/clicks")
KINDS: dict[str, tuple[str, Callable[[date, random.Random], Fault]]] = {
    "half": ("orders", _volume("half", 0.2, 0.6)),
    "stopped producer": (
        "clicks",
        _stop("stopped producer", ("bronze/clicks", "silver/clicks"), "interrupted", (4, 9), (1, 12)),
    ),
    "late": ("orders", _late),
    "stopped consumer": ("clicks", _stop("stopped consumer", ("silver/clicks",), "lag", (5, 9), (1, 12))),
    "silent partners": ("partners", _stop("silent partners", ("bronze/partners",), "interrupted", (6, 8), (8, 10))),
    "explosion": ("orders", _volume("explosion", 1.8, 3.0)),
    "hot partition": ("regions", _hot),
    "upstream late": ("orders", _upstream_late),
    "future event": ("clicks", _future),
    "stalled reader": ("topic", _stalled),
    "topic created again": ("topic", _created_again),
}
"""Kind -> the line of tables that it concerns, and the maker of a fault on a day."""

ODDITIES = (
    "optimize", "vacuum", "alter", "empty commit", "late file", "rerun",
    "restart", "clock ahead", "clock behind", "retry",
)  # fmt: skip
_TABLES = ("bronze/orders", "silver/orders", "gold/revenue", "bronze/clicks", "silver/clicks", "bronze/partners")


def _oddities(rng: random.Random, number: int) -> list[Oddity]:
    found: list[Oddity] = []
    jumps: list[datetime] = []
    for each in range(number):
        kind, at = ODDITIES[each % len(ODDITIES)], _any_time(rng)
        # A clock that is wrong for two rounds in a row is no oddity any more.
        while kind.startswith("clock") and any(abs(at - other) < 3 * TICK for other in jumps):
            at = _any_time(rng)
        jumps += [at] if kind.startswith("clock") else []
        found.append(Oddity(kind, at, rng.choice(_TABLES)))
    return sorted(found, key=lambda each: each.at)


def _any_time(rng: random.Random) -> datetime:
    return utc(BEGIN) + timedelta(minutes=rng.randrange(60 * 24 * (DAYS - 1)))
