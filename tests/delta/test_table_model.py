"""One generated test of all writes together: whatever is done to a table, it holds what a plain dictionary holds.

Random declarations, values and interleavings of writes by the library, by Spark and by delta-rs. Bounded and the same
in each run of `make test`; `make fuzz` goes on with other seeds.
"""

# ruff: noqa: DTZ001 - values of TIMESTAMP_NTZ have no zone

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from itertools import count
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from dedp_assets.patterns.core.errors import TransactionReused
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.core.types.partitions import stored_type, text
from dedp_assets.patterns.delta import Delete, Insert, Merge, Table, Update
from dedp_assets.patterns.ingestion.compactor import compact, vacuum
from tests.helpers import a_run

FUZZ = settings.get_current_profile_name() == "fuzz"
STEPS = 30 if FUZZ else 8

NOON = datetime(2026, 1, 5, 12, tzinfo=timezone.utc)
TEXTS = ["", "a", "A", " ", "x'y", 'q"q', "100%", "%20", "ü", "u\u0308", "NULL", "\\", "a/b", "\u2028", "\U0001f600"]
VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "INT": (pa.int32(), [0, 1, -1, 2**31 - 1]),
    "STRING": (pa.string(), TEXTS),
    "DOUBLE": (pa.float64(), [0.0, -0.0, float("nan"), float("inf"), 0.1]),
    "BOOLEAN": (pa.bool_(), [True, False]),
    "DECIMAL(9,2)": (pa.decimal128(9, 2), [Decimal("0.00"), Decimal("-0.01"), Decimal("9999999.99")]),
    "BINARY": (pa.binary(), [b"", b"\x00", b"\xff\xfe"]),
    "DATE": (pa.date32(), [date(1, 1, 1), date(2026, 1, 5)]),
    "TIMESTAMP": (pa.timestamp("us", "UTC"), [NOON, NOON + timedelta(microseconds=1)]),
    "ARRAY<INT>": (pa.list_(pa.int32()), [[], [1, None], [None, 1], [1]]),
    "ARRAY<ARRAY<STRING>>": (pa.list_(pa.list_(pa.string())), [[["a"], ["b"]], [["a", "b"]], [[], None], [None]]),
    "MAP<STRING, INT>": (pa.map_(pa.string(), pa.int32()), [[], [("a", 1)], [("a", None)], [("a", 1), ("b", 2)]]),
    "STRUCT<a: INT, b: STRING>": (
        pa.struct([("a", pa.int32()), ("b", pa.string())]),
        [{"a": None, "b": None}, {"a": 1, "b": None}, {"a": None, "b": "1"}],
    ),
}
PARTITIONS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "STRING": (pa.string(), [v for v in TEXTS if v]),
    "DATE": VALUES["DATE"],
    "INT": VALUES["INT"],
    "BOOLEAN": VALUES["BOOLEAN"],
    "TIMESTAMP": VALUES["TIMESTAMP"],
    "TIMESTAMP_NTZ": (pa.timestamp("us"), [datetime(2026, 1, 5), datetime(2026, 3, 29, 2, 30, 0, 5)]),
}
NAMES = ["v", "n", "x", "outcome", "Reason", "naïve", "with-dash", "a.b", "1st", "select", "s", "t", "ti`ck", "value"]
MAPPED_NAMES = ["two words", "a, b", "k=v", "p;q"]


@dataclass
class World:
    """A table, and what it has to hold: key -> row."""

    table: Table
    names: list[str]
    kinds: dict[str, str]
    by: list[str]
    mapped: bool
    rows: dict[int, tuple[Any, ...]] = field(default_factory=dict)
    past: list[tuple[int, dict[int, tuple[Any, ...]]]] = field(default_factory=list)
    last: tuple[Any, ...] | None = None
    keys: Any = field(default_factory=lambda: count(1))
    sequence: Any = field(default_factory=lambda: count(1))

    def schema(self) -> pa.Schema:
        types = {**{n: (PARTITIONS if n in self.by else VALUES)[self.kinds[n]][0] for n in self.names}}
        return pa.schema([("k", pa.int32()), *types.items()])

    def frame(self, rows: dict[int, tuple[Any, ...]]) -> pa.Table:
        columns = [list(rows), *([row[n] for row in rows.values()] for n in range(len(self.names)))]
        return pa.Table.from_arrays(
            [pa.array(c, f.type) for c, f in zip(columns, self.schema(), strict=True)], schema=self.schema()
        )

    def partition_of(self, row: tuple[Any, ...]) -> tuple[tuple[str, str | None], ...]:
        values = {n: row[self.names.index(n)] for n in self.by}
        return tuple(sorted((n, text(v, stored_type(self.kinds[n]))) for n, v in values.items()))


def worlds(draw: Any, spark: Any, root: Any) -> World:
    """A new, empty table of a random declaration."""
    mapped = draw(st.sampled_from([False, False, False, True]))
    names = draw(
        st.lists(st.sampled_from(NAMES + (MAPPED_NAMES if mapped else [])), min_size=2, max_size=4, unique=True)
    )
    by = draw(st.lists(st.sampled_from(names), min_size=0, max_size=min(2, len(names) - 1), unique=True))
    kinds = {n: draw(st.sampled_from(sorted(PARTITIONS if n in by else VALUES))) for n in names}
    columns = {"k": Column("INT", required=True), **{n: Column(kinds[n]) for n in names}}
    properties = {"delta.columnMapping.mode": "name"} if mapped else {}
    if draw(st.booleans()):
        properties["delta.checkpointInterval"] = "3"
    spec = TableSpec("t/model", columns, partition_by=tuple(by), properties=properties)
    return World(Table(spec, root, spark), names, kinds, by, mapped)


def fresh_rows(
    world: World, draw: Any, most: int = 4, fixed: dict[str, Any] | None = None
) -> dict[int, tuple[Any, ...]]:
    """New rows, NULL among their values; of one partition if its values are fixed."""

    def value(name: str) -> Any:
        if fixed and name in fixed:
            return fixed[name]
        values = (PARTITIONS if name in world.by else VALUES)[world.kinds[name]][1]
        return draw(st.sampled_from([*values, None]))

    return {next(world.keys): tuple(value(n) for n in world.names) for _ in range(draw(st.integers(0, most)))}


def a_partition(world: World, draw: Any) -> dict[str, Any] | None:
    """Values of some partition columns, of a row that is there or not; NULL cannot be named."""
    if not world.by:
        return None
    some = draw(st.sampled_from([world.by, world.by[:1]]))
    known = [dict(zip(world.names, row, strict=True)) for row in world.rows.values()]
    whole = [row for row in known if all(row[n] is not None for n in some)]
    if whole and draw(st.booleans()):
        return {n: draw(st.sampled_from(whole))[n] for n in some}
    return {n: draw(st.sampled_from(PARTITIONS[world.kinds[n]][1])) for n in some}


def inside(world: World, partition: dict[str, Any]) -> set[int]:
    return {k for k, row in world.rows.items() if all(row[world.names.index(n)] == v for n, v in partition.items())}


# --- what can happen --------------------------------------------------------------------------------------------------


def overwrite(world: World, draw: Any, spark: Any) -> None:
    owned = a_partition(world, draw) if draw(st.booleans()) else None
    rows = fresh_rows(world, draw, fixed=owned)
    step = a_run("t/model", sequence=next(world.sequence), inputs={"file": draw(st.integers())})
    world.table.overwrite(spark.createDataFrame(world.frame(rows)), partition=owned, provenance=step)
    gone = inside(world, owned) if owned else set(world.rows)
    world.rows = {k: row for k, row in world.rows.items() if k not in gone} | rows
    world.last = ("overwrite", rows, owned, step)


def append(world: World, draw: Any, spark: Any) -> None:
    rows, step = fresh_rows(world, draw), a_run("t/model", sequence=next(world.sequence))
    world.table.append(spark.createDataFrame(world.frame(rows)), provenance=step)
    world.rows |= rows
    world.last = ("append", rows, None, step)


def merge(world: World, draw: Any, spark: Any) -> None:
    present = sorted(world.rows)
    changed = draw(st.lists(st.sampled_from(present), max_size=2, unique=True)) if present else []
    rows = {k: next(iter(fresh_rows(world, draw, most=1).values()), world.rows[k]) for k in changed}
    rows |= fresh_rows(world, draw, most=2)
    drop = draw(st.sampled_from([None, *changed]))
    clauses = [*([Delete(when=f"s.k = {drop}")] if drop else []), Update(), Insert()]
    world.table.merge(
        spark.createDataFrame(world.frame(rows)),
        Merge(["k"], clauses),
        provenance=a_run("t/model", sequence=next(world.sequence)),
    )
    world.rows = {k: row for k, row in (world.rows | rows).items() if k != drop}
    world.last = None


def delete(world: World, draw: Any, spark: Any) -> None:
    limit = draw(st.integers(0, max(world.rows, default=0)))
    world.table.delete(f"k <= {limit}", provenance=a_run("t/model", sequence=next(world.sequence)))
    world.rows = {k: row for k, row in world.rows.items() if k > limit}
    world.last = None


def clear(world: World, draw: Any, spark: Any) -> None:
    if owned := a_partition(world, draw):
        world.table.clear(partition=owned, provenance=a_run("t/model", sequence=next(world.sequence)))
        world.rows = {k: row for k, row in world.rows.items() if k not in inside(world, owned)}
        world.last = None


def restore(world: World, draw: Any, spark: Any) -> None:
    if world.past:
        version, rows = draw(st.sampled_from(world.past))
        world.table.restore(version, provenance=a_run("t/model", run_id=f"back-{next(world.keys)}"))
        world.rows, world.last = dict(rows), None


def retry_equal(world: World, draw: Any, spark: Any) -> None:
    if world.last:
        kind, rows, owned, step = world.last
        options = {} if kind == "append" else {"partition": owned}
        again = getattr(world.table, kind)(spark.createDataFrame(world.frame(rows)), provenance=step, **options)
        assert again.applied is False, again


def retry_other(world: World, draw: Any, spark: Any) -> None:
    if world.last and world.last[1]:
        kind, rows, owned, step = world.last
        other = dict(list(rows.items())[1:])
        options = {} if kind == "append" else {"partition": owned}
        with pytest.raises(TransactionReused):
            getattr(world.table, kind)(spark.createDataFrame(world.frame(other)), provenance=step, **options)


def compaction(world: World, draw: Any, spark: Any) -> None:
    compact(world.table.target(a_run("platform/maintenance")), min_small_files=2)


def vacuuming(world: World, draw: Any, spark: Any) -> None:
    vacuum(
        world.table.target(a_run("platform/maintenance")),
        retention_hours=0,
        now=datetime.now(timezone.utc) + timedelta(hours=1),  # noqa: TID251
        allow_unsafe=True,
    )
    world.past = []


def foreign_append(world: World, draw: Any, spark: Any) -> None:
    rows = fresh_rows(world, draw)
    spark.createDataFrame(world.frame(rows)).write.format("delta").mode("append").save(str(world.table.location))
    world.rows, world.last = world.rows | rows, None


def foreign_update(world: World, draw: Any, spark: Any) -> None:
    if world.rows:
        key, fresh = draw(st.sampled_from(sorted(world.rows))), next(world.keys)
        spark.sql(f"UPDATE delta.`{world.table.location}` SET k = {fresh} WHERE k = {key}")
        world.rows = {fresh if k == key else k: row for k, row in world.rows.items()}
        world.last = None


def rust_append(world: World, draw: Any, spark: Any) -> None:
    if not world.mapped:
        rows = fresh_rows(world, draw)
        write_deltalake(str(world.table.location), world.frame(rows), mode="append")
        world.rows, world.last = world.rows | rows, None


def rust_delete(world: World, draw: Any, spark: Any) -> None:
    if not world.mapped and world.rows:
        key = draw(st.sampled_from(sorted(world.rows)))
        DeltaTable(str(world.table.location)).delete(f"k = {key}")
        world.rows = {k: row for k, row in world.rows.items() if k != key}
        world.last = None


OURS = [overwrite, overwrite, append, merge, delete, clear, restore, retry_equal, retry_other, compaction, vacuuming]
THEIRS = [foreign_append, foreign_update, rust_append, rust_delete]


# --- what has to be true ----------------------------------------------------------------------------------------------


def plain(value: Any) -> str:
    """A value as text, equal for equal content: a map's order aside, every NaN the same, -0.0 another than 0.0."""
    if isinstance(value, dict):
        return json.dumps({k: plain(v) for k, v in sorted(value.items())})
    if isinstance(value, list | tuple):
        items = [plain(v) for v in value]
        return json.dumps(sorted(items) if value and isinstance(value[0], tuple) else items)
    if isinstance(value, datetime) and value.tzinfo:
        return value.astimezone(timezone.utc).isoformat()
    return repr(value)


def found(world: World, spark: Any) -> Counter[tuple[str, ...]]:
    """What an independent reader finds: delta-rs, or Spark's Delta reader where delta-rs reads no such table."""
    location = str(world.table.location)
    if world.mapped:
        rows = spark.read.format("delta").load(location).toArrow().to_pylist()
    else:
        rows = DeltaTable(location).to_pyarrow_table().to_pylist()
    return Counter((plain(row["k"]), *(plain(row[n]) for n in world.names)) for row in rows)


def expected(world: World, keys: Any = None) -> Counter[tuple[str, ...]]:
    shown = world.rows if keys is None else {k: world.rows[k] for k in keys}
    as_read = world.frame(shown).to_pylist()
    return Counter((plain(row["k"]), *(plain(row[n]) for n in world.names)) for row in as_read)


def by_partition(world: World, rows: dict[int, tuple[Any, ...]]) -> dict[Any, Counter[Any]]:
    parts: dict[Any, Counter[Any]] = {}
    for k, row in rows.items():
        parts.setdefault(world.partition_of(row), Counter())[plain((k, *row))] += 1
    return parts


def check(world: World, draw: Any, spark: Any, before: dict[int, tuple[Any, ...]], version: int) -> None:
    """The rows are right, and the ledger's claims about them."""
    assert found(world, spark) == expected(world)
    ledger = world.table.ledger
    then, now = by_partition(world, before), by_partition(world, world.rows)
    changed = {part for part in {*then, *now} if then.get(part) != now.get(part)}
    assert changed <= set(ledger.changes(since=version)[1])
    statistics = {part: stats for part, stats in ledger.state().statistics().items() if stats.rows}
    if all(stats.exact for stats in statistics.values()):
        assert {part: stats.rows for part, stats in statistics.items()} == {p: sum(c.values()) for p, c in now.items()}
    if owned := a_partition(world, draw):
        read = world.table.read(owned).toArrow().to_pylist()
        shown = Counter((plain(row["k"]), *(plain(row[n]) for n in world.names)) for row in read)
        assert shown == expected(world, inside(world, owned))


@pytest.mark.promise("a-table-holds-what-a")
@settings(
    max_examples=200 if FUZZ else 4,
    deadline=None,
    derandomize=not FUZZ,
    phases=tuple(Phase) if FUZZ else (Phase.explicit, Phase.generate),
    suppress_health_check=list(HealthCheck),
)
@given(data=st.data())
def test_a_table_holds_what_a_dictionary_holds(spark, tmp_path_factory, data):
    """After every step the rows, the ledger's changes and statistics, and reads of a partition equal the model's."""
    world = worlds(data.draw, spark, tmp_path_factory.mktemp("model") / "t")
    world.table.ensure()
    for _ in range(STEPS):
        act = data.draw(st.sampled_from(OURS + THEIRS))
        before, version = dict(world.rows), world.table.ledger.version()
        act(world, data.draw, spark)
        check(world, data.draw, spark, before, version)
        world.past.append((world.table.ledger.version(), dict(world.rows)))
