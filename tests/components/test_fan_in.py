"""Fan-in in YAML: a day that waits for its hours, and a step that judges the hours that are there."""

from __future__ import annotations

import pytest

from dedp_assets.components.chains.declaring import declare
from dedp_assets.components.checking import drafts_of
from dedp_assets.graph.declare import FanInAlert, aligned, hour_to_day
from dedp_assets.patterns.core.schema import Column, TableSpec

BY_HOUR = TableSpec(
    "gold/by_hour",
    {"hour": Column("STRING"), "page": Column("STRING"), "views": Column("BIGINT")},
    partition_by=("hour",),
)
DAY = """
type: dedp_assets.components.TableComponent
attributes:
  table:
    name: gold/so_far
    columns:
      event_date: {type: DATE, comment: UTC day}
      page: {type: STRING, comment: path}
      views: {type: BIGINT, comment: visits}
      is_approximate: {type: BOOLEAN, comment: whether hours are missing}
    partition_by: [event_date]
  reads:
    tables:
      gold/by_hour: FEED
  runs: {partitions: {daily: {start: 2026-01-05}}}
  gates:
    if_empty: Warns.
    reports: {every_branch_is_there: Warns of a day without some of its hours.}
  about: {owner: "team:web", used_by: editors}
  code_version: "1"
  steps:
    - flow.unaligned_fan_in.judge_branches: {name: every_branch_is_there}
      as: judged
    - sql: SELECT DATE {event_date} AS event_date, page, sum(views) AS views FROM {rows} GROUP BY page
    - flow.unaligned_fan_in.label_partial: {judged: judged}
    - quality.audit_write_audit_publish: {allow_empty: true}
"""
ALERTS = list[FanInAlert]()
"""What an error handler that a file names was told."""


def declared(feed):
    (draft,), faults = drafts_of(DAY.replace("FEED", feed), "defs.yaml")
    table, found = declare(draft, {BY_HOUR.name: BY_HOUR, **{spec.name: spec for spec in draft.tables}})
    return table, [*faults, *found]


def test_a_feed_within_a_feed_is_the_one_of_python():
    """With a deadline and an error handler by name; a file and Python make the same object."""
    table, faults = declared("{aligned: {feed: {hour_to_day: {column: hour}}}}")
    assert (faults, table.reads.tables[BY_HOUR]) == ([], aligned(hour_to_day("hour")))
    handler = f"{__name__}:ALERTS.append"
    stated = f"{{unaligned: {{feed: {{hour_to_day: {{column: hour}}}}, after_hours: 12.0, if_none: '{handler}'}}}}"
    table, faults = declared(stated)
    assert faults == []
    found = table.reads.tables[BY_HOUR].fan_in
    assert (found.ended, found.after_hours) == (True, 12.0)
    found.if_none(FanInAlert("gold/by_hour", "2026-01-05", "none is there"))
    assert [alert.key for alert in ALERTS] == ["2026-01-05"]


@pytest.mark.parametrize(
    ("feed", "fault"),
    [
        (
            "{aligned: {feed: {hour_to_day: {column: hours}}}}",
            "unknown partition column of gold/by_hour hours: did you mean hour?",
        ),
        (
            "{aligned: {feed: {same: {column: hour}}}}",
            "unknown option same: known are day_to_week, hour_to_day, python",
        ),
        (
            "{unaligned: {feed: {hour_to_day: {column: hour}}, after_hours: -1.0}}",
            "after_hours must be 0 or more, not -1.0",
        ),
        ("{unaligned: {after_hours: 1.0}}", "feed is missing"),
    ],
    ids=["another column", "no several partitions", "a deadline before the day", "no feed"],
)
def test_a_fault_of_a_feed_within_a_feed_is_named_at_its_line(feed, fault):
    """One fault with its whole sentence, as of any other option."""
    table, found = declared(feed)
    assert table is None
    line = 1 + DAY.splitlines().index("      gold/by_hour: FEED")
    assert [(each.line, each.message) for each in found] == [(line, fault)]
