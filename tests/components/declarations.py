"""A valid declaration in YAML, and the tables that it reads."""

from __future__ import annotations

from dedp_assets.components.checking import completed, drafts_of
from dedp_assets.components.yaml.faults import Fault
from dedp_assets.patterns.core.schema import Column, TableSpec

VISITS = TableSpec(
    "silver/visits",
    {
        "visit_id": Column("STRING", "identity", required=True),
        "event_time": Column("TIMESTAMP", "when"),
        "user_id": Column("STRING", "who"),
        "page": Column("STRING", "path"),
        "event_date": Column("DATE", "UTC day", required=True),
    },
    partition_by=("event_date",),
)
USERS = TableSpec("silver/users", {"user_id": Column("STRING", "who"), "login": Column("STRING", "name")})
SPECS = {spec.name: spec for spec in (VISITS, USERS)}
GOOD = """
type: dedp_assets.components.TableComponent
attributes:
  table:
    name: gold/page_counts
    comment: One row per page and day.
    columns:
      event_date: {type: DATE, comment: UTC day, required: true}
      page: {type: STRING, comment: path, classification: personal}
      views: {type: BIGINT, comment: visits of the page, required: true}
    partition_by: [event_date]
    key: [event_date, page]
    event_time: event_date
    checks: {views_are_there: views > 0}
    properties: {delta.appendOnly: "false"}
  beside:
    - name: gold/page_counts_aside
      columns:
        event_date: {type: DATE, comment: UTC day}
        page: {type: STRING, comment: path, replica: pseudonym}
        views: {type: BIGINT, comment: visits of the page}
      partition_by: [event_date]
  reads:
    tables:
      silver/visits: {same: {column: event_date}}
    references: [silver/users]
  runs:
    partitions: {daily: {start: 2026-01-05}}
    when:
      - nightly: {cron: 0 2 * * *, lookback: 14, description: By night., follows_late: true}
      - on_event: {attributes: [{kind: released}]}
    job: {name: count_pages, description: Pages of a day., selection: 'key:"gold/page_counts"'}
  gates:
    audits:
      - {name: every_visit_is_counted, of: views, sql: "coalesce(sum(views), 0)", per: read, fail_below: 1.0}
      - {name: pages_are_known, where: page IS NULL, of: unknown, warn_above: 0.5, approvable: by name}
    checks: {users_are_there_once: No user is there twice.}
    if_empty: Warns.
    reports: {soon: It came soon.}
  about:
    owner: team:web
    used_by: dashboards
    fresh_hours: 26.5
    derived: {views: [visit_id]}
    figures: {unknown: {label: pages unknown, kind: number}}
  code_version: "1"
  description: Count the visits of each page of a day.
  steps:
    - error_management.filter_interceptor:
        conditions: {has a page: page IS NOT NULL}
        identity: [visit_id]
    - error_management.windowed_deduplicator:
        keys: [visit_id]
        order_by: [event_time]
        keep: first
      as: parts
    - tally: {identity: [visit_id], keep: valid}
      from: parts
    - value.static_joiner.judge_reference:
        keys: [user_id]
        gaps: true
        name: users_are_there_once
      from: users
      as: judged
    - value.static_joiner:
        reference: users
        judged: judged
        keys: {user_id: user_id}
        columns: {login: login}
        matched: known
    - sql: SELECT event_date, page, count(*) AS views FROM {rows} GROUP BY event_date, page
    - account: {represented: views}
    - quality.audit_write_audit_publish:
        quarantine: gold/page_counts_aside
        on_failure: quarantine
        allow_empty: true
"""


def faults_in(text: str) -> list[Fault]:
    """The faults of a text."""
    drafts, faults = drafts_of(text, "defs.yaml")
    for each in drafts:
        faults += completed(each, SPECS)[2]
    return faults
