"""Changes of keys, generated, and what they add up to by a model in plain Python."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta, timezone
from itertools import groupby
from random import Random
from typing import Any, NamedTuple

from dedp_assets.patterns.core.schema import Column
from dedp_assets.patterns.modeling.versioned_dimension import ChangeStream

START = datetime(2026, 1, 1, tzinfo=timezone.utc)
SCHEMA = (
    "`a.key` STRING, number BIGINT, `the.segment` STRING, score DOUBLE, happened TIMESTAMP, place INT, gone BOOLEAN"
)
STREAM = ChangeStream(keys=["a.key", "number"], event_time="happened", sequence="place", deleted="gone")
OWN = {
    "a.key": Column("STRING", required=True),
    "number": Column("BIGINT", required=True),
    "the.segment": Column("STRING"),
    "score": Column("DOUBLE"),
}


class Change(NamedTuple):
    """One change, as a row of :data:`SCHEMA`."""

    text: str
    number: int
    segment: str | None
    score: float | None
    at: datetime
    place: int | None
    gone: bool | None

    @property
    def key(self) -> tuple[str, int]:
        return self.text, self.number

    @property
    def values(self) -> tuple[Any, ...]:
        return (None, None) if self.gone else (self.segment, repr(self.score))


class Version(NamedTuple):
    """A version, as the model and a table have it."""

    key: tuple[str, int]
    values: tuple[Any, ...]
    gone: bool
    start: datetime
    end: datetime | None
    changes: tuple[tuple[datetime, int | None], ...]


def moment(day: float) -> datetime:
    return START + timedelta(days=day)


def scenario(random: Random, number: int) -> Iterator[Change]:
    """Changes of one key in which no two contradict each other: in a row, at once, repeated, deletions among them."""
    text = random.choice(["", "a", "a/b c", "'"])
    slots = {(random.randrange(6), random.choice([None, 0, 7])) for _ in range(random.randrange(1, 8))}
    for day, place in slots:
        gone = random.choice([True, False, False, False, None])
        segment = random.choice([None, "", "x", "y"])
        score = random.choice([None, 0.0, -0.0, float("nan")]) if random.random() < 0.3 else 1.0
        yield Change(text, number, segment, score, moment(day), place, gone)


def deliveries(seed: int, *, keys: int, batches: int) -> list[list[Change]]:
    """Batches of the changes of many keys, in an order that has nothing to do with time; some come several times."""
    random = Random(seed)  # noqa: S311 - test data
    made = [change for number in range(keys) for change in scenario(random, number)]
    made += random.sample(made, len(made) // 3)
    random.shuffle(made)
    return [made[n::batches] for n in range(batches)]


def model(changes: Iterable[Change]) -> set[Version]:
    """All versions, from the set of changes."""
    found = set()
    ordered = sorted(changes, key=lambda c: (c.key, c.at, -1 if c.place is None else c.place))
    for key, mine in groupby(ordered, key=lambda c: c.key):
        last = {change.at: change for change in mine}
        runs = [list(run) for _, run in groupby(last.values(), key=lambda c: (bool(c.gone), c.values))]
        starts = [run[0].at for run in runs]
        for run, end in zip(runs, [*starts[1:], None], strict=True):
            said = tuple((c.at, c.place) for c in run)
            found.add(Version(key, run[0].values, bool(run[0].gone), run[0].at, end, said))
    return found


def held(rows: Iterable[dict[str, Any]]) -> set[Version]:
    """The versions of a table, read by whatever reader; each once, or two rows would be one here."""
    listed = list(rows)
    found = {
        Version(
            (row["a.key"], row["number"]),
            (None, None) if row["is_deleted"] else (row["the.segment"], repr(row["score"])),
            row["is_deleted"],
            row["valid_from"],
            row["valid_to"],
            tuple((change["at"], change["sequence"]) for change in row["changes"]),
        )
        for row in listed
    }
    assert len(found) == len(listed)
    return found


def former(version: Version, versions: Iterable[Version]) -> str | None:
    """The score before the one of a version, by the model: of the nearest living version that had another one."""
    living = sorted((v for v in versions if v.key == version.key and not v.gone), key=lambda v: v.start)
    before = [v.values[1] for v in living if v.start <= version.start]
    different = [score for score in before if not same(score, version.values[1])]
    return different[-1] if different and not version.gone else None


def same(one: str | None, other: str | None) -> bool:
    """Whether two scores are equal to SQL, to which both zeros are one."""
    return str(one).replace("-0.0", "0.0") == str(other).replace("-0.0", "0.0")
