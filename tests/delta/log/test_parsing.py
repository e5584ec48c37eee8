"""Commits read at a glance, held against a parser."""

from __future__ import annotations

import json
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dedp_assets.patterns.delta.log.parsing import glance

INFO = {"commitInfo": {"operation": "WRITE", "userMetadata": json.dumps({"dedp": 1, "partition": {"day": "a"}})}}
TXN = {"txn": {"appId": "t/day=2026-01-05/0", "version": 7, "lastUpdated": 1767600000000}}


def added(values, *, changes=True, stats='{"numRecords":1,"minValues":{"a\\\\b":"\\"partitionValues\\": {}"}}'):
    size = {"size": 100, "modificationTime": 1767600000000}
    return {"add": {"path": "p/a.parquet", "partitionValues": values, **size, "dataChange": changes, "stats": stats}}


def removed(values, *, changes=True):
    gone = {"deletionTimestamp": 1767600000000, "extendedFileMetadata": True, "dataChange": changes}
    return {"remove": {"path": "p/b.parquet", **gone, "partitionValues": values, "size": 100}}


def spelled(actions, separators=(", ", ": "), end="\n"):
    return "\n".join(json.dumps(action, separators=separators) for action in actions).encode() + end.encode()


def parsed(raw):
    """What a parser reads in a commit: transaction ids, and partition values of files by which rows changed."""
    actions = [json.loads(line) for line in raw.decode().split("\n") if line]
    files = [file for action in actions for kind, file in action.items() if kind in ("add", "remove")]
    assert all(file["path"] and file["dataChange"] for file in files)
    return (
        [(action["txn"]["appId"], action["txn"]["version"]) for action in actions if "txn" in action],
        [file["partitionValues"] for file in files],
    )


def require_same(raw):
    """Nothing seen at a glance, or what a parser reads."""
    seen = glance(raw)
    if seen is not None:
        info, before, _, values, after, _ = seen
        moved, of = parsed(raw[len(info or b"") :])
        assert [each.decode() for each in (before, after) if each is not None] == [app_id for app_id, _ in moved]
        assert seen.transactions() == dict(moved)
        assert ([json.loads(values)] * len(of) if values else []) == of
    return seen


@pytest.mark.parametrize("separators", [(", ", ": "), (",", ":")], ids=["ours", "Spark's"])
@pytest.mark.parametrize("end", ["\n", ""])
def test_a_usual_commit_is_seen(separators, end):
    """One that replaces a partition, and one that only adds to it, by whoever writes them."""
    day = {"day": "2026-01-05", "site": None}
    for actions in (
        [INFO, TXN, removed(day), removed(day), added(day), added(day)],
        [INFO, added({}), TXN],
        [TXN, added(day, stats="{}")],
        [INFO],
    ):
        assert require_same(spelled(actions, separators, end)) is not None


@pytest.mark.parametrize(
    "actions",
    [
        [added({"day": "a"}), added({"day": "b"})],
        [added({"day": "a"}, changes=False)],
        [removed({"day": "a"}, changes=False)],
        [added({"day": 'a"b'})],
        [added({"day": "ä"})],
        [INFO, {"metaData": {}}],
        [TXN, TXN, TXN],
    ],
)
def test_what_is_not_usual_is_left_to_a_parser(actions):
    """Two partitions, files moved only, escapes, declarations."""
    assert glance(spelled(actions)) is None


actions = st.one_of(
    st.sampled_from([INFO, TXN]),
    st.builds(
        lambda make, values, changes: make(values, changes=changes),
        st.sampled_from([added, removed, partial(added, stats="{}")]),
        st.dictionaries(
            st.sampled_from(["day", "site"]), st.sampled_from(["a", "{}", "", None, "\\", "ö"]), max_size=2
        ),
        st.booleans(),
    ),
)


@settings(deadline=None)
@given(st.lists(actions, max_size=4), st.sampled_from([(", ", ": "), (",", ":")]), st.data())
def test_nothing_is_seen_that_a_parser_would_not_read(history, separators, data):
    """Also in a commit that lost bytes or got others: it is damaged, or says what a parser reads."""
    raw = spelled(history, separators)
    require_same(raw)
    start = data.draw(st.integers(0, len(raw)))
    length, put = data.draw(st.integers(0, 3)), data.draw(st.sampled_from([b"", b'"', b"{", b"}", b"\n", b",", b"0"]))
    info = len(raw.split(b"\n")[0]) if raw.startswith(b'{"commitInfo"') else 0
    start = max(start, info)  # the line about itself is looked at by nobody
    require_same(raw[:start] + put + raw[start + length :])
