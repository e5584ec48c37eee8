"""Sessions for research: visitors under pseudonyms, in crowds of five over all days that were exported."""

from collections.abc import Mapping

from dedp_assets.case_study.defs.gold.sessions import SESSIONS
from dedp_assets.graph.declare import About, Gates, OnRequest, Pinned, lake_table
from dedp_assets.graph.systems.secrets import Secrets
from dedp_assets.patterns import (
    Bins,
    Column,
    Remove,
    TableSpec,
    Target,
    Token,
    WriteResult,
    audit_write_audit_publish,
    judge_crowds,
    leave_out_few,
    pseudonymize,
)

RESEARCH = TableSpec(
    "export/research",
    {
        "event_date": Column(
            "DATE", "UTC day in which the session was complete", required=True, classification="public"
        ),
        "user_id": Column(
            "STRING",
            "pseudonym of the visitor in this export",
            required=True,
            classification="personal",
            purpose=("research",),
        ),
        "visits": Column(
            "STRING",
            "visits of the session, as a range",
            required=True,
            classification="quasi",
            purpose=("research",),
        ),
    },
    partition_by=("event_date",),
    comment="One row per session of a visitor who is in a crowd.",
)
RULES: Mapping[str, Bins | Token | Remove] = {
    "session_id": Remove(),
    "user_id": Token("visitor of research"),  # whoever objects can be found by those who may ask
    "started_at": Remove(),
    "ended_at": Remove(),
    "visits": Bins([2, 5]),
    "pages": Remove(),
}
QUASI, CROWD = ["visits"], 5
ALONE = "nobody_is_alone"
OTHERS = "SELECT * FROM {exported} WHERE event_date <> CAST({day} AS DATE)"


@lake_table(
    RESEARCH,
    reads=[SESSIONS],
    runs=OnRequest(),
    gates=Gates(checks={ALONE: "Each visitor is one of five who are alike over all exported days, or is left out."}),
    about=About(used_by="researchers, who follow visitors over days"),
    patterns=[pseudonymize, judge_crowds, leave_out_few, audit_write_audit_publish],
)
def research(sessions: Pinned, into: Target, secrets: Secrets) -> WriteResult:
    """Put tokens in place of one day's visitors, without visitors whom the exported days single out."""
    vault = secrets.token_vault(into.name)
    found = pseudonymize(sessions.rows(), rules=RULES, keep=["event_date"], vault=vault)
    into.table.ensure()
    exported = into.table.session.sql(OTHERS, exported=into.table.read(), day=into.partition["event_date"])
    others = {"other days": exported}
    left = leave_out_few(found, others, quasi=QUASI, k=CROWD, person="user_id")
    judged = judge_crowds(left, others, quasi=QUASI, k=CROWD, person="user_id", name=ALONE)
    return audit_write_audit_publish(left, into.reading(findings=[judged]), allow_empty=True)
