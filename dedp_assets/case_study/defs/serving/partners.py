"""Sessions for partners, without anything that leads to a person."""

from collections.abc import Mapping
from dataclasses import replace

from dedp_assets.case_study.defs.gold.sessions_scored import SESSIONS_SCORED
from dedp_assets.graph.declare import About, Gates, OnRequest, Pinned, lake_table
from dedp_assets.graph.systems.secrets import Secrets
from dedp_assets.patterns import (
    Column,
    Perturb,
    Remove,
    Replace,
    TableSpec,
    Target,
    WriteResult,
    anonymize,
    audit_write_audit_publish,
    judge_utility,
)

PARTNERS = TableSpec(
    "serving/partners",
    {
        "event_date": Column(
            "DATE", "UTC day in which the session was complete", required=True, classification="public"
        ),
        "visits": Column("BIGINT", "visits of the session, one more or less", required=True, classification="public"),
        "pages": Column("BIGINT", "distinct pages, one more or less", required=True, classification="public"),
        "duration_seconds": Column(
            "DOUBLE", "its time in seconds, half a minute more or less", required=True, classification="public"
        ),
    },
    partition_by=("event_date",),
    comment="One row per session, each with noise of its own.",
)
RULES: Mapping[str, Remove | Perturb | Replace] = {
    "session_id": Remove(),
    "visits": Perturb(within=1, tolerance=0.5),
    "pages": Perturb(within=1, tolerance=0.5),
    "duration_seconds": Perturb(within=30, tolerance=0.5),
    "is_anomaly": Remove(),
    "anomaly_score": Remove(),
    "anomaly_columns": Remove(),
}
IDENTITY = ["session_id"]
USEFUL = "mean_and_variance_are_kept"


@lake_table(
    PARTNERS,
    reads=[SESSIONS_SCORED],
    runs=OnRequest(),
    gates=Gates(
        checks={USEFUL: "Noise changes mean and variance by at most the tolerance; otherwise a warning."},
    ),
    about=About(used_by="partners, who compare how long visitors stay"),
    patterns=[anonymize, audit_write_audit_publish],
)
def partners(sessions: Pinned, into: Target, secrets: Secrets) -> WriteResult:
    """Anonymize one day's sessions; a new upstream column without a rule stops the export."""
    rows, key = sessions.rows(), secrets.masking_key()
    found = judge_utility(rows, rules=RULES, identity=IDENTITY, key=key, purpose=into.name, name=USEFUL)
    # A day with few sessions has no variance to keep.
    useful = replace(found, severity="warn")
    released = anonymize(rows, rules=RULES, identity=IDENTITY, key=key, purpose=into.name, keep=["event_date"])
    return audit_write_audit_publish(released, into.reading(findings=[useful]), allow_empty=True)
