"""What each audience sees of the case study's tables: declared here, applied in PostgreSQL, and on record."""

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import dagster as dg

from dedp_assets.case_study.defs.gold.orders_wide import ORDERS_WIDE
from dedp_assets.case_study.defs.serving.daily_report import SERVED
from dedp_assets.case_study.defs.silver.visits import VISITS
from dedp_assets.graph.catalogue.rendering import check_result
from dedp_assets.graph.catalogue.selections import RUNS_ALONE
from dedp_assets.graph.catalogue.specs import asset_key
from dedp_assets.graph.declare import About, Every, Inputs, Reads, Request, Runs, Source, lake_table
from dedp_assets.graph.resources.alerting import Alerting
from dedp_assets.graph.resources.clock import Clock
from dedp_assets.graph.systems.audiences import Audiences
from dedp_assets.graph.systems.postgres import OperationalDatabase
from dedp_assets.patterns import (
    AccessRules,
    Column,
    ColumnMask,
    Finding,
    PatternError,
    Policy,
    Purpose,
    TableSpec,
    Target,
    WriteResult,
    grant_in_postgres,
    load_full,
)

AGENCIES, ANALYSTS, SUPPORT = "agencies", "analysts", "support"
PAGE_VIEWS = "serving.daily_page_views"
"""The table of the applications' database that audiences read there, each as a role of its name."""
_HASH, _NONE = ColumnMask("hash"), ColumnMask("null")
AUDIENCES = Audiences(
    {
        ORDERS_WIDE.name: [
            Policy(AGENCIES, ["order_id", "user_id", "plan", "booked_on"], {"user_id": _HASH}, rows="active"),
            Policy(SUPPORT, [*ORDERS_WIDE.columns], rows="true", max_rows=100),
        ],
        VISITS.name: [
            Policy(
                ANALYSTS,
                ["visit_id", "event_time", "event_date", "user_id", "page", "referrer", "status", "ip"],
                {"user_id": _HASH, "ip": _NONE},
                rows="status < 400",
            ),
        ],
        PAGE_VIEWS: [
            Policy(
                AGENCIES,
                ["event_date", "page", "views", "visitors"],
                {"visitors": ColumnMask("null", unless="visitors >= 5")},  # a small crowd could be known by name
                rows="page LIKE '/posts/%'",
            ),
            Policy(SUPPORT, ["event_date", "page", "views"], rows="true"),
        ],
    },
    AccessRules(
        purposes=[
            Purpose(name="web analytics", tables=[VISITS.name], mask="hash"),
            Purpose(name="fraud", tables=[VISITS.name], personal=True, needs=["case"], alert=True),
        ],
        tiers=[replace(each, approvers=["grace"]) if each.approval else each for each in AccessRules().tiers],
        qualified={"ada": ["background check", "PII Handling", "GDPR Compliance"]},
    ),
)
"""What each audience sees of a table, and for which purposes; whoever has no policy sees nothing."""
POLICIES = TableSpec(
    "serving/policies",
    {
        "changed_at": Column("TIMESTAMP", "when the change was applied first", required=True, classification="public"),
        "changed_by": Column("STRING", "run and code that applied it", required=True, classification="public"),
        "table": Column("STRING", "table of the policy", required=True, classification="public"),
        "audience": Column("STRING", "who reads", required=True, classification="public"),
        "before": Column("STRING", "policy before, as JSON; NULL of a new one", classification="public"),
        "after": Column("STRING", "policy since, as JSON; NULL of one that ended", classification="public"),
    },
    comment="One row per change of a policy, for audits.",
)
DECLARED = Source(
    "policies/declared",
    "Policies of the case study's audiences, in code; a role of the applications' database for each audience there.",
    kinds=("postgres", "python"),
    owner="team:applications",
)
ROLES = "".join(
    f"DO $$ BEGIN CREATE ROLE {each.audience} NOLOGIN; "
    "EXCEPTION WHEN duplicate_object OR unique_violation OR insufficient_privilege THEN NULL; END $$;"
    for each in AUDIENCES.of(PAGE_VIEWS)
)
"""Roles without a login, of which people become members; where the platform may not create them, the owner does."""
DRIFT, LOOK_AT = "grants differ", "access to look at"
_ANY_GROWTH = 1_000.0
HEALS = f"dedp run {POLICIES.name} --force"


def each_night(request: Request) -> Inputs:
    """Name the input of a run by the run's id: the grants of a server have no version."""
    return Inputs({DECLARED.name: request.run_id})


@lake_table(
    POLICIES,
    reads=Reads(sources=[DECLARED], inputs=each_night),
    runs=Runs(
        when=Every(
            "45 4 * * *",
            name="policies_every_night",
            description="At 04:45 UTC, before the checks: changed policies are applied and put on record.",
        ),
        job="apply_policies",
    ),
    about=About(
        used_by="auditors, who ask who saw what of a table, and since when",
        figures={"granted": "accesses granted in a day", "denied": "accesses denied in a day"},
        unchecked={"freshness": "policies change when somebody changes them", "completeness": "each run lists all"},
    ),
    patterns=[load_full, grant_in_postgres],
)
def policies(into: Target, operational: OperationalDatabase, alerts: Alerting, clock: Clock) -> WriteResult:
    """Apply changed policies, put the changes on record, and list all changes on record.

    Grants that somebody else made are left for a person to decide: an alert names them and the command.
    """
    operational.prepare(f"{SERVED}{ROLES}")
    announce(alerts, judged(operational, apply=AUDIENCES.changed(PAGE_VIEWS) or into.run.replay))
    for table in AUDIENCES.policies:
        AUDIENCES.in_force(table, into.run)
    decided = announce_decisions(alerts, clock.now())
    kinds = ", ".join(f"`{name}` {column.type}" for name, column in POLICIES.columns.items())
    rows = into.table.session.createDataFrame(recorded(), kinds)
    done = load_full(rows, into, max_shrink=0.0, max_growth=_ANY_GROWTH)  # a change on record is there for good
    return replace(done, figures={**done.figures, **decided})


def judged(operational: OperationalDatabase, *, apply: bool = False) -> Finding:
    """Compare the server's grants with the declared policies, after applying the policies if ``apply``."""
    with operational.connect() as connection:
        writer = connection.info.user
    declared = AUDIENCES.of(PAGE_VIEWS)
    return grant_in_postgres(operational.connect, policies=declared, table=PAGE_VIEWS, keep=[writer], apply=apply)


def announce(alerts: Alerting, found: Finding) -> None:
    """Raise or clear the alert about grants that differ from the declared policies."""
    if found.passed:
        alerts.clear(DRIFT, POLICIES.name)
    else:
        reason = f"{PAGE_VIEWS}: {found.note}; take it back or declare it, or `{HEALS}` makes it as declared"
        figure = f"{found.figures['differences']} differences"
        alerts.raise_alert(DRIFT, POLICIES.name, severity="critical", figure=figure, reason=reason, command=HEALS)


def announce_decisions(alerts: Alerting, at: datetime) -> dict[str, int]:
    """Raise or clear the alert about alarming decisions of a day; return the numbers of granted and denied ones.

    The audit is in the home, over restarts; its rows say who and why, and the alert does not.
    """
    since = at - timedelta(days=1)
    day = [each for each in AUDIENCES.grants.audit() if datetime.fromisoformat(each.at) >= since]
    if alarming := [each for each in day if each.alert]:
        what = sorted({f"{', '.join(each.datasets)} for {each.purpose} ({each.outcome})" for each in alarming})
        alerts.raise_alert(LOOK_AT, POLICIES.name, figure=f"{len(alarming)} decisions", reason="; ".join(what))
    else:
        alerts.clear(LOOK_AT, POLICIES.name)
    return {outcome: sum(each.outcome == outcome for each in day) for outcome in ("granted", "denied")}


def recorded() -> Sequence[tuple[object, ...]]:
    """Return the changes on record as rows."""
    return [
        (
            datetime.fromisoformat(each["at"]),
            each["by"],
            each["table"],
            each["audience"],
            *(json.dumps(each[state]) if each[state] else None for state in ("before", "after")),
        )
        for each in AUDIENCES.log.changes()
    ]


@dg.asset_check(
    asset=asset_key(POLICIES),
    metadata={RUNS_ALONE: True},
    description=f"The roles of the applications' database may read what the policies say and nothing else: grants, row "
    f"security and views of {PAGE_VIEWS}. A difference raises an alert with the command that heals.",
)
def grants_are_as_declared(operational: OperationalDatabase, alerts: Alerting) -> dg.AssetCheckResult:
    """Compare the server's grants with the declared ones; an impossible comparison is a warning."""
    name = "grants_are_as_declared"
    try:
        operational.require_answer()
        found = judged(operational)
        announce(alerts, found)
    except PatternError as error:
        found = Finding(name, passed=False, severity="warn", note=f"not compared: {error}")
    else:
        found = found if found.passed else Finding(name, passed=False, note=f"{found.note}; `{HEALS}` takes them back")
    return check_result(POLICIES.name, name, {"": found})
