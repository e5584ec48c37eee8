"""Declarations of tables: the decorator, the records and helpers for a table's module."""

from dedp_assets.graph.catalogue.figures import Figure
from dedp_assets.graph.catalogue.sources import Source
from dedp_assets.graph.declare.collect import declared, declared_jobs, sources
from dedp_assets.graph.declare.editions import edition_of
from dedp_assets.graph.declare.expects import Baseline, Due, Expects, QuietHours
from dedp_assets.graph.declare.isolated import OnMarkers, finished
from dedp_assets.graph.declare.queries import lake_query
from dedp_assets.graph.declare.records import About, Gates, Reads, Request, Touches
from dedp_assets.graph.declare.runs import (
    AtOnce,
    Branch,
    Every,
    Follow,
    InOrder,
    Job,
    Nightly,
    OnDelivery,
    OnEvent,
    OnRequest,
    Polls,
    Runs,
)
from dedp_assets.graph.declare.sequencing import InSequence
from dedp_assets.graph.declare.starting import LakeJob, job_of, lake_job, schedules_of, sensors_of, starting
from dedp_assets.graph.declare.tables import LakeTable, lake_table
from dedp_assets.graph.declare.validation import Validation, letters_of, rules_of_presence, rules_of_time
from dedp_assets.graph.inputs.fan_in import FanInAlert
from dedp_assets.graph.inputs.feeds import (
    Feed,
    Pinned,
    Span,
    aligned,
    by_event,
    day_to_hour,
    day_to_week,
    hour_to_day,
    of_branch,
    same,
    unaligned,
    whole,
)
from dedp_assets.graph.run.batches import Inputs, Step
from dedp_assets.patterns.delta import Target

__all__ = [
    "About", "AtOnce", "Baseline", "Branch", "Due", "Every", "Expects", "FanInAlert", "Feed", "Figure", "Follow",
    "Gates", "InOrder", "InSequence", "Inputs", "Job", "LakeJob", "LakeTable", "Nightly", "OnDelivery", "OnEvent",
    "OnMarkers", "OnRequest", "Pinned", "Polls", "QuietHours", "Reads", "Request", "Runs", "Source", "Span", "Step",
    "Target", "Touches", "Validation", "aligned", "by_event", "day_to_hour", "day_to_week", "declared", "declared_jobs",
    "edition_of", "finished", "hour_to_day", "job_of", "lake_job", "lake_query", "lake_table", "letters_of",
    "of_branch", "rules_of_presence", "rules_of_time", "same", "schedules_of", "sensors_of", "sources", "starting",
    "unaligned", "whole",
]  # fmt: skip
