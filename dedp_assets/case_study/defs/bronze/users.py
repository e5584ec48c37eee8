"""Users of the applications, captured from the database's log: every change, and the current rows."""

from dataclasses import replace

import dagster as dg

from dedp_assets.case_study.sources import operational as applications
from dedp_assets.graph.catalogue.rendering import check_result
from dedp_assets.graph.catalogue.selections import RUNS_ALONE
from dedp_assets.graph.catalogue.specs import asset_key
from dedp_assets.graph.declare import About, Gates, Inputs, Job, Polls, Reads, Request, Runs, Source, lake_table
from dedp_assets.graph.reconcile.requests import decide
from dedp_assets.graph.resources.environments import settings
from dedp_assets.graph.resources.lake import Lake
from dedp_assets.graph.systems.postgres import OperationalDatabase
from dedp_assets.patterns import (
    Column,
    Conflict,
    ContractError,
    Finding,
    NotReady,
    PatternError,
    Plan,
    TableSpec,
    Target,
    WriteResult,
    apply_changes,
    capture_changes,
    judge_slot,
)
from dedp_assets.patterns.connectors.postgres.comparing import compare_copy
from dedp_assets.patterns.delta import verify_table
from dedp_assets.patterns.ingestion.change_data_capture import CHANGES

KEYS = ("user_id",)
USERS = TableSpec(
    "bronze/users",
    {
        "user_id": Column("STRING", "key", required=True, classification="personal", subject="user"),
        "login": Column("STRING", "name to log in with", required=True, classification="personal", subject="login"),
        "email": Column("STRING", "address, if the user gave one", classification="personal", subject="email"),
        "biography": Column("STRING", "what the user says", classification="personal"),
        "credit": Column("DECIMAL(10,2)", "in euros", required=True),
        "active": Column("BOOLEAN", "whether the user may log in", required=True),
        "registered_at": Column("TIMESTAMP", "when the user came", required=True),
        "changed_at": Column("TIMESTAMP", "when the row was changed last", required=True),
    },
    comment="One row per user, as the applications' database has it.",
)
HISTORY = TableSpec(
    "bronze/users_history",
    {**CHANGES, "key": replace(CHANGES["key"], subject="user", subject_by="get_json_object(key, '$.user_id')")},
    partition_by=("committed_on",),
    event_time="committed_at",
    comment="One row per change of a user, in the order of the database's log.",
)
DATABASE = Source(
    "postgres/users",
    "The users of the applications, in their PostgreSQL; its log tells of each change once.",
    kinds=("postgres", "table"),
    owner="team:applications",
)
MAX_LATENCY_SECONDS = 30
CHECKS = {"source_columns_are_as_in_the_snapshot": "Warns if the source's columns are no longer those of the snapshot."}
REPORTS = {
    "replication_slot_is_bounded": "The log that the database keeps for the capture stays below its limit.",
    "changes_arrive_in_time": f"Fails if a change took more than {MAX_LATENCY_SECONDS} s from its commit in the "
    f"database to its commit in {USERS.name}. It does not block: rows that are late are right.",
}


def captured(request: Request) -> Inputs:
    """Name the inputs of a run by the run's id: each run reads another range of the database's log."""
    return Inputs({applications.USERS: request.run_id})


JOB = Job(
    "capture_users",
    description="What was committed to the users of the applications' database since the last capture.",
    selection='(key:"bronze/users_history"+ or key:"bronze/users") and (group:"bronze" or group:"silver") '
    'and not (key:"silver/visits_enriched"+ or key:"silver/users_by_visitor"+)',
)


def users_changed(
    context: dg.SensorEvaluationContext, lake: Lake, operational: OperationalDatabase
) -> dg.SensorResult | dg.SkipReason:
    """Request a capture if the replication slot has changes; a failed capture is tried three times.

    A slot that is lost starts the capture once: its run says what is lost and what to do, until somebody captured anew.
    """
    try:
        position = operational.waiting(applications.USERS, slot=applications.USERS_SLOT)
    except (NotReady, Conflict) as error:
        return dg.SkipReason(str(error))
    except ContractError:
        history = lake.ledger(HISTORY.name)
        position = f"slot lost after version {history.version() if history.exists() else -1}"
    if not position:
        return dg.SkipReason("nothing was committed since the last capture")
    plan = Plan((HISTORY.name,), "changes wait", causes={HISTORY.name: "changes"}, cursor={HISTORY.name: position})
    decision = decide(context.instance, plan, asset=HISTORY.name, job_name=JOB.name)
    if decision.requests:
        return dg.SensorResult(run_requests=list(decision.requests))
    return dg.SkipReason("; ".join(decision.held.values()))


@lake_table(
    HISTORY,
    beside={USERS: [apply_changes]},
    reads=Reads(sources=[DATABASE], inputs=captured),
    runs=Runs(
        when=Polls(
            users_changed,
            every_seconds=2 * settings().tick_seconds,
            description="Users that were committed in the applications' database since the last capture start the next "
            "one.",
        ),
        job=JOB,
    ),
    gates=Gates(checks=CHECKS, reports=REPORTS),
    about=About(
        used_by="analysts and support: users as they are now, and every change of them for audits",
        unchecked={
            "freshness": "changes come when somebody changes something, in any number",
            "completeness": "the slot's unread bytes are judged in every round",
            "volume": "changes come when somebody changes something, in any number",
            "null_shares": "columns are empty or not as the database has them",
        },
    ),
    patterns=[capture_changes],
)
def users(into: Target, latest: Target, operational: OperationalDatabase) -> WriteResult:
    """Capture the changes committed since the last run, and apply the changes to the current rows."""
    source = operational.table(applications.USERS, slot=applications.USERS_SLOT)
    # The database's log tells of a change only once: lost rows, and a person who asks for it, get a new snapshot.
    rebuild = into.run.replay or (latest.table.ledger.exists() and not verify_table(latest.table.ledger).sound)
    result = capture_changes(
        source,
        into,
        latest,
        keys=KEYS,
        max_latency_seconds=MAX_LATENCY_SECONDS,
        resnapshot=rebuild,
    )
    return replace(result, findings=(*result.findings, judge_slot(source)))


def compare_users(lake: Lake, operational: OperationalDatabase) -> Finding:
    """Compare the users in the applications' database with their copy.

    Raises:
        NotReady: if the database does not answer, or nothing was captured yet.
    """
    source = operational.table(applications.USERS, slot=applications.USERS_SLOT)
    return compare_copy(source, lake.table(USERS), lake.table(HISTORY), keys=KEYS)


@dg.asset_check(
    asset=asset_key(USERS),
    metadata={RUNS_ALONE: True},
    description="Source and copy have as many rows and the same hashes in every range of keys, as of one position of "
    "the database's log. Reads each side once, twice if they differ; stops neither.",
)
def copy_equals_its_source(lake: Lake, operational: OperationalDatabase) -> dg.AssetCheckResult:
    """Compare every row of source and copy; an impossible comparison is a warning."""
    name = "copy_equals_its_source"
    try:
        finding = compare_users(lake, operational)
    except PatternError as error:
        finding = Finding(name, passed=False, severity="warn", note=f"not compared: {error}")
    return check_result(USERS.name, name, {"": finding})
