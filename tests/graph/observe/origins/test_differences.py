"""Differences of rows between two versions, against a plain model."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedp_assets.graph.observe.origins.differences import Keys, differences_of

VALUES = st.sampled_from([None, 0, 1, 2.5, float("nan"), "a", "b"])
ROWS = st.dictionaries(st.integers(0, 6), st.tuples(VALUES, VALUES), max_size=7)


def rows(found):
    return [{"id": key, "a": a, "b": b} for key, (a, b) in found.items()]


def same(one, other):
    return repr(one) == repr(other)


@given(ROWS, ROWS)
def test_keys_come_go_and_change_as_in_two_mappings(before, after):
    """Of unique keys: those of one side alone, and by column those with another value."""
    found = differences_of(rows(before), rows(after), key=["id"])
    shared = before.keys() & after.keys()
    columns = {
        name: [key for key in sorted(shared) if not same(before[key][place], after[key][place])]
        for place, name in enumerate("ab")
    }
    assert found.rows == (len(before), len(after))
    assert found.came == Keys(len(after.keys() - shared), tuple((key,) for key in sorted(after.keys() - shared)))
    assert found.went == Keys(len(before.keys() - shared), tuple((key,) for key in sorted(before.keys() - shared)))
    assert {name: [key for (key,) in keys.keys] for name, keys in found.columns.items()} == {
        name: keys for name, keys in columns.items() if keys
    }
    assert found.changed.count == len({*columns["a"], *columns["b"]})
    assert found.is_empty == same(sorted(before.items()), sorted(after.items()))


@given(st.lists(st.sampled_from("abc"), max_size=8), st.lists(st.sampled_from("abc"), max_size=8))
def test_whole_rows_are_compared_as_often_as_they_are_there(before, after):
    """Without a key, a row that is there twice and then once went once; nothing changes."""
    found = differences_of([{"x": x} for x in before], [{"x": x} for x in after], key=[])
    came, went = Counter(after) - Counter(before), Counter(before) - Counter(after)
    assert [key for (key,) in found.came.keys] == sorted(came.elements())
    assert [key for (key,) in found.went.keys] == sorted(went.elements())
    assert found.changed == Keys()


@given(
    st.lists(st.tuples(st.integers(0, 2), VALUES), max_size=8),
    st.lists(st.tuples(st.integers(0, 2), VALUES), max_size=8),
)
def test_repeated_keys_lose_no_row(before, after):
    """Rows before, without those that went and with those that came, are as many as after."""
    one, other = ([{"id": key, "v": value} for key, value in side] for side in (before, after))
    found = differences_of(one, other, key=["id"])
    assert len(before) - found.went.count + found.came.count == len(after)
    assert found.is_empty == (Counter(map(repr, before)) == Counter(map(repr, after)))


def test_only_ten_keys_are_kept_and_all_are_counted():
    """In order of the key."""
    found = differences_of([], [{"id": number} for number in range(10, 35)], key=["id"])
    assert (found.came.count, found.came.keys) == (25, tuple((number,) for number in range(10, 20)))


@pytest.mark.parametrize("value", [[1, 2], {"a": [1]}])
def test_values_with_parts_are_compared_whole(value):
    """A list or a struct that is equal is no difference."""
    assert differences_of([{"id": 1, "v": value}], [{"id": 1, "v": value}], key=["id"]).is_empty
    assert differences_of([{"id": 1, "v": value}], [{"id": 1, "v": [3]}], key=["id"]).columns["v"].count == 1


def test_a_column_that_one_version_lacks_is_a_change():
    """Also where the values are NULL."""
    found = differences_of([{"id": 1}], [{"id": 1, "new": None}], key=["id"])
    assert (found.changed.count, [*found.columns]) == (1, ["new"])
