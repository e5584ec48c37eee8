"""Which files may hold a key: whatever the log proves leaves a file out, and nothing else does."""

from __future__ import annotations

import json
import random
from datetime import date, timedelta

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from dedp_assets.patterns.delta import Bounds, Ledger, candidates

TEXTS = ["", " ", "a", "aa", "z" * 40, "z" * 80, "\x7f", "ä", "\U0001f600", "\U0010ffff" * 70, "\ue000", "\ud7ff"]
DAYS = [date(1970, 1, 1) + timedelta(days=days) for days in (-200_000, -1, 0, 1, 20_458, 20_459, 200_000)]
NUMBERS = [0, 1, -1, 7, 8, (1 << 31) - 1, -(1 << 31)]
VALUES = {
    "integer": (pa.int32(), NUMBERS),
    "long": (pa.int64(), [*NUMBERS, (1 << 63) - 1, -(1 << 63), (1 << 53) + 1, 1 << 53]),
    "date": (pa.date32(), DAYS),
    "string": (pa.string(), TEXTS),
    "double": (pa.float64(), [0.0, -0.0, 1.5, float("inf"), float("-inf"), float("nan"), 5e-324]),
}


def a_table(folder, kind, files):
    """A table of one file for each list of keys."""
    for keys in files:
        write_deltalake(str(folder), pa.table({"Key": pa.array(keys, VALUES[kind][0])}), mode="append")
    return Ledger(folder).state()


@pytest.mark.parametrize("kind", VALUES)
def test_no_file_with_a_key_is_left_out(tmp_path, kind):
    """Any values of a type, NULL as a key or not: files that hold a key of the source are candidates."""
    rng, (_, values) = random.Random(kind), VALUES[kind]  # noqa: S311 - no secret
    held = [rng.choices([None, *values], k=rng.randint(1, 3)) for _ in range(25)]
    state = a_table(tmp_path / "keys", kind, held)
    left_out, adds = 0, _adds(tmp_path / "keys")
    for _ in range(200):
        wanted = rng.choices([None, *values], k=rng.randint(1, 3))
        known = [key for key in wanted if key is not None]
        bounds = Bounds(min(known, default=None), max(known, default=None), rng.random() < 0.5 and None in wanted)
        chosen = {file["path"] for file, _ in candidates(state, {}, {"kEY": bounds})}
        for add in adds:
            there = held[add["commit"]]
            matches = [key for key in there if (bounds.nulls if key is None else key in known)]
            assert not matches or add["path"] in chosen, (there, wanted)
            left_out += add["path"] not in chosen
    assert left_out > 100 or kind == "double"


@pytest.mark.parametrize(
    ("kind", "files", "bounds", "left"),
    [
        ("long", [[1, 5], [6, 9], [None, 20]], Bounds(5, 6), [0, 1]),
        ("long", [[1, 5], [None, 9], [None]], Bounds(30, 40, nulls=True), [1, 2]),
        ("long", [[1], [None]], Bounds(None, None), []),
        ("date", [[date(2026, 1, 5)], [date(2026, 2, 5)]], Bounds(date(2026, 2, 1), date(2026, 3, 1)), [1]),
        ("string", [["a", "b"], ["c", "z" * 99]], Bounds("bb", "bc"), []),
        ("double", [[1.0], [2.0]], Bounds(1.0, 1.0), [0, 1]),
    ],
)
def test_files_out_of_reach_are_left_out(tmp_path, kind, files, bounds, left):
    """Bounds of integers, dates and texts, and where the NULLs are; floating point proves nothing."""
    state = a_table(tmp_path / "keys", kind, files)
    order = {add["path"]: add["commit"] for add in _adds(tmp_path / "keys")}
    assert sorted(order[file["path"]] for file, _ in candidates(state, {}, {"key": bounds})) == left


def test_partition_values_are_keys_like_others_and_named_partitions_come_first(tmp_path):
    """A day among the keys leaves other days out; a NULL day holds no key that is not NULL."""
    days = pa.array([date(2026, 1, 5), date(2026, 1, 6), None], pa.date32())
    rows = pa.table({"n": pa.array([1, 1, 1], pa.int64()), "day": days})
    write_deltalake(str(tmp_path / "days"), rows, partition_by=["day"])
    state = Ledger(tmp_path / "days").state()
    day = Bounds(date(2026, 1, 6), date(2026, 1, 7))

    def chosen(owned, bounds):
        return sorted(str(dict(key)["day"]) for _, key in candidates(state, owned, {"day": bounds, "n": Bounds(1, 1)}))

    assert chosen({}, day) == ["2026-01-06"]
    assert chosen({}, Bounds(day.low, day.high, nulls=True)) == ["2026-01-06", "None"]
    assert chosen({"day": "2026-01-05"}, day) == []


def _adds(folder):
    found = []
    for commit in sorted((folder / "_delta_log").glob("*.json")):
        actions = [json.loads(line) for line in commit.read_text().splitlines()]
        found += [{**action["add"], "commit": int(commit.stem)} for action in actions if "add" in action]
    return found
