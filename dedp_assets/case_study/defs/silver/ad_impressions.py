"""Visits, each with the ad shown last on the page before the visit."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import date, timedelta
from typing import Any

import dagster as dg

from dedp_assets.case_study.defs.bronze.ads import ADS as SHOWN
from dedp_assets.case_study.defs.bronze.visits import VISITS as LANDED
from dedp_assets.case_study.defs.silver.ads import ADS
from dedp_assets.case_study.defs.silver.ads import DEAD_LETTER as ADS_REFUSED
from dedp_assets.case_study.defs.silver.ads import RECORDS as DISPLAY
from dedp_assets.case_study.defs.silver.visits import DEAD_LETTER as VISITS_REFUSED
from dedp_assets.case_study.defs.silver.visits import RECORDS, VISITS
from dedp_assets.graph.catalogue.specs import asset_key
from dedp_assets.graph.checks.letters import taken
from dedp_assets.graph.declare import (
    About,
    Every,
    Feed,
    Job,
    Nightly,
    Pinned,
    Runs,
    lake_job,
    lake_table,
    same,
)
from dedp_assets.graph.declare.partitions import DAILY
from dedp_assets.graph.outcomes.run_tags import CAUSE
from dedp_assets.graph.resources.clock import Clock
from dedp_assets.graph.resources.environments import settings
from dedp_assets.graph.resources.lake import Lake
from dedp_assets.graph.run.appending import appending
from dedp_assets.patterns import (
    Audit,
    Column,
    JoinTimes,
    NotReady,
    TableSpec,
    Target,
    WriteResult,
    append_checkpointed,
    join_latest,
    join_within,
    judge_checkpoint,
    overwrite_partition,
    plan_lookback,
)

IMPRESSIONS = TableSpec(
    "silver/ad_impressions",
    {
        "visit_id": Column("STRING", "identity of the visit", required=True),
        "event_time": Column("TIMESTAMP", "when it happened, UTC", required=True),
        "page": Column("STRING", "path that was visited", required=True),
        "display_id": Column("STRING", "identity of the ad's display; NULL if none was shown in time"),
        "display_time": Column("TIMESTAMP", "when the ad was shown, UTC"),
        "ad_id": Column("STRING", "the ad that was shown"),
        "event_date": Column("DATE", "UTC day of event_time", required=True),
    },
    partition_by=("event_date",),
    event_time="event_time",
    checks={"ads_are_shown_before": "display_time IS NULL OR display_time <= event_time"},
    comment="One row per visit. Approximate and early where both sides come by topics: what comes too late for the "
    "stream is in it once its day was computed from the tables, which happens the night after.",
)
AUDITS = (Audit.none_where("visits_are_of_the_day", "to_date(event_time) <> event_date"),)
_DISPLAY = ("display_id", "display_time", "ad_page", "ad_id")
CURSOR = "dedp/joined_up_to"
"""Tag of a run over the topics: the versions of the tables that it reads."""
WITHIN_SECONDS = 600
LATENESS_SECONDS = 900
TIMES = JoinTimes(fact=VISITS.event_time, other=ADS.event_time)
JOIN: Mapping[str, Any] = {
    "identity": ["visit_id"],
    "keys": {"page": "ad_page"},
    "within_seconds": WITHIN_SECONDS,
    "order_by": ["display_id"],
}
_VISIT = ("visit_id", "event_time", "page", "event_date")


def _and_before(day: str) -> str:
    return (date.fromisoformat(day) - timedelta(days=1)).isoformat()


def _and_after(day: str) -> str:
    return (date.fromisoformat(day) + timedelta(days=1)).isoformat()


SHOWN_BEFORE = Feed(
    # An ad at 23:55 belongs to a visit at 00:03.
    reads=lambda day: ({"event_date": _and_before(day)}, {"event_date": day}),
    feeds=lambda changed: [day, _and_after(day)] if (day := changed["event_date"]) else [],
    written=lambda _: {},
)


@lake_table(
    IMPRESSIONS,
    reads={VISITS: same("event_date"), ADS: SHOWN_BEFORE},
    # The stream writes a day until it is over.
    runs=Runs(DAILY, Nightly("0 3 * * *", lookback=14, follows_late=True), job="daily_ad_impressions"),
    gates=AUDITS,
    about=About(
        owner="team:advertising", used_by="advertisers, who want to know which ads bring visits", fresh_hours=28
    ),
    patterns=[join_within, overwrite_partition, plan_lookback],
    code_version="2",
)
def ad_impressions(visits: Pinned, ads: Pinned, into: Target) -> WriteResult:
    """Join one day's visits with ads, from the newest snapshots, including rows too late for the stream."""
    found = join_latest(visits.rows().select(*_VISIT), ads.rows().select(*_DISPLAY), times=TIMES, **JOIN)
    return overwrite_partition(found.select(*IMPRESSIONS.columns), into, allow_empty=True)


STREAMED = Job(
    "join_ads_streamed",
    description="Visits and ads that came by their topics since the last run, joined; ends when it has read them.",
)


def ads_joined_every_five_minutes(context: dg.ScheduleEvaluationContext, lake: Lake) -> dg.RunRequest | dg.SkipReason:
    """Request a run of the join if a bronze table has commits after the last run."""
    ledgers = [lake.ledger(landed.name) for landed in (LANDED, SHOWN)]
    if missing := [ledger.name for ledger in ledgers if not ledger.exists()]:
        return dg.SkipReason(f"{', '.join(missing)}: nothing came by its topic yet")
    seen = {CURSOR: " ".join(f"{ledger.name}@{ledger.version()}" for ledger in ledgers)}
    done = dg.RunsFilter(job_name=STREAMED.name, statuses=[dg.DagsterRunStatus.SUCCESS], tags=seen)
    if context.instance.get_runs(done, limit=1):
        return dg.SkipReason(f"nothing came since {seen[CURSOR]}")
    return dg.RunRequest(tags={CAUSE: "schedule", **seen})


@lake_job(
    STREAMED,
    Every(
        "*/5 * * * *",
        ask=ads_joined_every_five_minutes,
        description="Every five minutes, where visits and ads come by topics, if more came since the last run.",
        running=bool(settings().kafka),
    ),
    pool="silver_ad_impressions",
    reads=[LANDED, SHOWN],
    writes=[IMPRESSIONS],
)
def join_ads(context: dg.OpExecutionContext, lake: Lake, clock: Clock) -> None:
    """Join the records of both topics since the last run; an approved run replaces a lost checkpoint."""
    table, checkpoint = lake.table(IMPRESSIONS), lake.checkpoint(IMPRESSIONS.name)
    with appending(context, table, code_version="1", column="event_date", at=clock.now()) as step:
        lost = judge_checkpoint(table.ledger, checkpoint=checkpoint).refuses
        visits, shown = (_stream(lake, landed) for landed in (LANDED, SHOWN))
        found = join_latest(
            taken(RECORDS.judge(visits), rest=VISITS_REFUSED).select(*_VISIT),
            taken(DISPLAY.judge(shown), rest=ADS_REFUSED).select(*_DISPLAY),
            times=replace(TIMES, fact_lateness_seconds=LATENESS_SECONDS, other_lateness_seconds=LATENESS_SECONDS),
            **JOIN,
        )
        result = append_checkpointed(
            found.select(*IMPRESSIONS.columns),
            table.target(step.provenance, audits=AUDITS),
            checkpoint=checkpoint,
            keys=["event_date", "visit_id", "event_time"],
            restart=lost and step.provenance.approval is not None,
        )
        figures = {
            "visits and ads kept": result.figures["state_rows"],
            "visits and ads that came too late": result.figures["dropped_by_watermark"],
        }
        metadata = {name: number for name, number in figures.items() if number is not None}
        context.log_event(dg.AssetObservation(asset_key(IMPRESSIONS), metadata=metadata))


def _stream(lake: Lake, landed: TableSpec) -> Any:  # noqa: ANN401 - a DataFrame, which is no word of this room
    table = lake.table(landed)
    if not table.ledger.exists():
        raise NotReady(f"{landed.name} is not there yet: nothing came by its topic")
    return table.stream()
