"""Summaries of commits, held against the whole commits."""

from __future__ import annotations

import json
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dedp_assets.patterns.delta.log.log_files import DAMAGE
from dedp_assets.patterns.delta.log.parsing import parse_commit, parse_glimpse, transactions_in
from tests.helpers import a_record

INFO = {"commitInfo": {"operation": "WRITE", "userMetadata": a_record("t", {"day": "a"}).to_json()}}
TXN = {"txn": {"appId": "t/day=2026-01-05/0", "version": 7, "lastUpdated": 1767600000000}}


def added(values, *, changes=True, stats='{"numRecords":1,"minValues":{"a\\\\b":"\\"partitionValues\\": {}"}}'):
    size = {"size": 100, "modificationTime": 1767600000000}
    return {"add": {"path": "p/a.parquet", "partitionValues": values, **size, "dataChange": changes, "stats": stats}}


def removed(values, *, changes=True):
    gone = {"deletionTimestamp": 1767600000000, "extendedFileMetadata": True, "dataChange": changes}
    return {"remove": {"path": "p/b.parquet", **gone, "partitionValues": values, "size": 100}}


def spelled(actions, separators=(", ", ": "), end="\n"):
    return "\n".join(json.dumps(action, separators=separators) for action in actions).encode() + end.encode()


def summaries(raw):
    """What the summary of a commit says, and the same by the whole commit; the error of each that cannot read it."""
    naming = dict
    found = []
    for parse in (
        lambda: parse_glimpse(7, raw, naming, records=True)[1:3],
        lambda: (
            (commit := parse_commit(7, raw, naming)).changed,
            tuple(commit.transactions),
        ),
    ):
        try:
            found.append(parse())
        except DAMAGE as error:
            found.append(type(error))
    return found


@pytest.mark.parametrize("separators", [(", ", ": "), (",", ":")], ids=["ours", "Spark's"])
def test_a_summary_says_what_changed_and_what_moved(separators):
    """Files that were only moved change no partition; who wrote them does not matter."""
    day = {"day": "2026-01-05", "site": None}
    raw = spelled([INFO, TXN, removed(day), added(day), added({"day": "x"}, changes=False)], separators)
    glimpse = parse_glimpse(7, raw, dict, records=True)
    assert glimpse.changed == {(("day", "2026-01-05"), ("site", None))}
    assert glimpse.transactions == {"t/day=2026-01-05/0": 7}
    assert transactions_in(raw) == {"t/day=2026-01-05/0": 7}
    assert glimpse.stated["partition"] == {"day": "a"}


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
@given(st.lists(actions, min_size=1, max_size=4), st.sampled_from([(", ", ": "), (",", ":")]), st.data())
def test_a_summary_agrees_with_the_whole_commit(history, separators, data):
    """Also of a commit that lost bytes or got others: it is damaged, or says the same in both."""
    raw = spelled(history, separators)
    summary, whole = summaries(raw)
    assert (summary[0], set(summary[1])) == (whole[0], set(whole[1]))
    assert transactions_in(raw) == parse_commit(7, raw, dict).transactions
    start = data.draw(st.integers(0, len(raw)))
    length, put = data.draw(st.integers(0, 3)), data.draw(st.sampled_from([b"", b'"', b"{", b"}", b"\n", b",", b"0"]))
    summary, whole = summaries(raw[:start] + put + raw[start + length :])
    if isinstance(whole, tuple) and isinstance(summary, tuple):
        assert (summary[0], set(summary[1])) == (whole[0], set(whole[1]))
