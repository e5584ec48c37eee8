"""Comparisons of stored versions, against a plain model."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from dedp_assets.graph.observe.origins.asked import Asked, compared
from dedp_assets.graph.observe.origins.stored_rows import StoredRows
from dedp_assets.graph.observe.origins.tree import Origins
from tests.graph.observe.origins.hand_written_lake import DAY, NEXT, PAGES, HandWritten, declared

VIEWS = st.dictionaries(st.sampled_from(["/", "/a", "/b", "/it's", '/"']), st.integers(0, 2), max_size=5)


@given(VIEWS, VIEWS)
@settings(max_examples=10, deadline=None)
def test_versions_of_a_partition_differ_as_two_mappings(before, after):
    """By the declared key; rows of other partitions, and versions between, play no part."""
    with TemporaryDirectory() as folder:
        lake = HandWritten(Path(folder))
        first = lake.count(DAY, 0, before)
        lake.count(NEXT, 0, {"/other": 1})
        lake.count(DAY, 0, {"/between": 9})
        lake.count(DAY, 0, after)
        stored = StoredRows(Origins(lake.lake, declared()))
        found = compared(stored, Asked.of(stored, PAGES.name, DAY), str(first))["differences"]

    def keys(pages):
        return sorted((page, DAY) for page in pages)

    assert found.rows == (len(before), len(after))
    assert sorted(found.came.keys) == keys(after.keys() - before.keys())
    assert sorted(found.went.keys) == keys(before.keys() - after.keys())
    changed = [page for page in before.keys() & after.keys() if before[page] != after[page]]
    assert {column: sorted(each.keys) for column, each in found.columns.items()} == (
        {"views": keys(changed)} if changed else {}
    )
