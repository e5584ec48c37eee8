"""Checks of stored data of every table, judged every morning."""

import dagster as dg

from dedp_assets.graph.catalogue.selections import running_alone

check_tables = dg.define_asset_job(
    "check_tables",
    selection=running_alone(),
    description="Judge every table as it lies there: files, schema, constraints, recency, volume, versions, "
    "completeness; compute nothing.",
)
checks_every_morning = dg.ScheduleDefinition(
    name="checks_every_morning",
    job=check_tables,
    cron_schedule="0 5 * * *",
    execution_timezone="UTC",
    default_status=dg.DefaultScheduleStatus.RUNNING,
    description="At 05:00 UTC, after the nightly loads and the maintenance.",
)
