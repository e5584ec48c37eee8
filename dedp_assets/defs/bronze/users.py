"""Users of the applications, captured from their database's log: every change, and the rows as they are now."""

from collections.abc import Iterator
from typing import Any

import dagster as dg

from dedp_assets.patterns.core.results import Finding, WriteResult
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta.verification import verify_table
from dedp_assets.patterns.ingestion.change_data_capture import CHANGES, apply_changes, capture_changes, judge_slot
from dedp_assets.reporting import LAUNCHPAD, Inputs, Step, Work, asset_spec, check_specs, outcome, run
from dedp_assets.sources import operational as applications
from resources.clock import Clock
from resources.lake import Lake
from resources.postgres import OperationalDatabase

KEYS = ("user_id",)
USERS = TableSpec(
    "bronze/users",
    {
        "user_id": Column("STRING", "key", required=True, personal=True),
        "login": Column("STRING", "name to log in with", required=True, personal=True),
        "email": Column("STRING", "address, if the user gave one", personal=True),
        "biography": Column("STRING", "what the user says", personal=True),
        "credit": Column("DECIMAL(10,2)", "in euros", required=True),
        "active": Column("BOOLEAN", "whether the user may log in", required=True),
        "registered_at": Column("TIMESTAMP", "when the user came", required=True),
        "changed_at": Column("TIMESTAMP", "when the row was changed last", required=True),
    },
    comment="One row per user, as the applications' database has it.",
)
HISTORY = TableSpec(
    "bronze/users_history",
    CHANGES,
    partition_by=("committed_on",),
    comment="One row per change of a user, in the order of the database's log.",
)
CHECKS = ("source_columns_are_as_in_the_snapshot", "replication_slot_is_bounded")
MAX_LATENCY_SECONDS = 30
PUNCTUAL = dg.AssetCheckSpec(
    "changes_arrive_in_time",
    asset=HISTORY.name.split("/"),
    description=f"Fails if a change took more than {MAX_LATENCY_SECONDS} s from its commit in the database to its "
    f"commit in {USERS.name}. It does not block: rows that are late are right.",
)


def owned(_: str) -> dict[str, str]:
    """A run owns both tables."""
    return {}


@dg.multi_asset(
    specs=[
        asset_spec(spec, patterns=[pattern], owners=["team:ingestion"], code_version="1")
        for spec, pattern in ((USERS, apply_changes), (HISTORY, capture_changes))
    ],
    check_specs=[*check_specs(HISTORY, (), *CHECKS), PUNCTUAL],
    config_schema=LAUNCHPAD,
    name="bronze_users",
    pool="bronze_users",
)
def users(
    context: dg.AssetExecutionContext, lake: Lake, operational: OperationalDatabase, clock: Clock
) -> Iterator[Any]:
    """Capture what was committed since the last run, then bring the current rows up to it."""
    source = operational.table(applications.USERS, slot=applications.USERS_SLOT)
    history, latest = lake.table(HISTORY), lake.table(USERS)
    found: list[Finding] = []

    def reads(_: str) -> Inputs:
        # Each run reads another stretch of the log, so none is ever a repetition of the one before.
        return Inputs({applications.USERS: context.run.run_id})

    def capture(step: Step) -> WriteResult:
        # The database's log tells of a change only once: lost rows, and a person who asks for it, get a new snapshot.
        anew = step.provenance.replay or (latest.ledger.exists() and not verify_table(latest.ledger).sound)
        run, limit = step.provenance, MAX_LATENCY_SECONDS
        result = capture_changes(
            source, history, latest, keys=KEYS, provenance=run, max_latency_seconds=limit, resnapshot=anew
        )
        found.extend((*result.findings, judge_slot(source)))
        for table, figure in ((HISTORY, "latency_seconds"), (USERS, "copy_latency_seconds")):
            context.add_asset_metadata({"latency in seconds": result.figures[figure]}, asset_key=table.name.split("/"))
        return result

    yield from run(context, Work(history, owned, reads, capture, beside={latest: owned}), at=clock.now())
    yield from (outcome(HISTORY, finding) for finding in found)
