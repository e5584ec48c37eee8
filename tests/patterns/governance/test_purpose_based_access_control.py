"""Purpose-Based Access Control, with access tiers."""

from __future__ import annotations

import sqlite3
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import date, timedelta, timezone

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.errors import AnalysisException
from pyspark.sql import functions as F

from dedp_assets.patterns.core.errors import ConfigError, Denied, NotReady
from dedp_assets.patterns.core.masking import MaskingKey
from dedp_assets.patterns.core.measuring import metering
from dedp_assets.patterns.core.measuring.costs import Cost
from dedp_assets.patterns.core.policies import ALL_ROWS, Policy
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import Table
from dedp_assets.patterns.governance.purpose_based_access_control import (
    AccessRequest,
    AccessRules,
    AccessTier,
    Grants,
    Purpose,
    UsualAccess,
    charged,
    open_for,
    request_access,
)
from tests.contracts.known_calls import known_calls
from tests.helpers import NOW

CANARY = "canary.lovelace@example.org"
TRAININGS = ["Data Handling 101", "background check", "PII Handling", "GDPR Compliance", "NDA", "MFA"]
TIERS = [replace(tier, approvers=["boss", "ada"]) if tier.approval else tier for tier in AccessRules().tiers]
RULES = AccessRules(tiers=TIERS, qualified={"ada": TRAININGS, "bob": TRAININGS[:1]})
KEY = MaskingKey("test", b"32 random bytes, which these are not")
STATED = {"justification": "why", "ticket": "T-1", "case": "C-1"}
DEFAULT = {
    "analytics": ["gold/*", "silver/aggregated_*"],
    "ml_training": ["silver/*", "gold/*"],
    "operations": ["silver/customers", "silver/orders"],
    "fraud_detection": ["silver/*"],
    "audit": ["*"],
}
NAMES = [
    "gold/sales", "golden/sales", "Gold/sales", "gold", "x/gold/sales", "silver/customers", "silver/customers2",
    "silver/orders", "silver/aggregated_days", "silver/raw", "bronze/raw", "ops/aggregated_x", "platform/audit",
]  # fmt: skip
ALLOWED = {
    "analytics": {"gold/sales", "silver/aggregated_days"},
    "ml_training": {"gold/sales", *(name for name in NAMES if name.startswith("silver/"))},
    "operations": {"silver/customers", "silver/orders"},
    "fraud_detection": {name for name in NAMES if name.startswith("silver/")},
    "audit": {*NAMES},
}


def no_spark():
    raise AssertionError("Spark was started")


class Elsewhere:
    """A session that tells no CPU, as over Spark Connect."""

    conf: dict[str, str] = {}


def table(name, *classes, session=no_spark, folder="/nowhere", **columns):
    """A table that is declared, with a column for each class."""
    held = {f"c{n}": Column("STRING", classification=each) for n, each in enumerate(classes or ["public"])}
    return Table(TableSpec(name, {**held, **columns}), f"{folder}/{name}", session)


def asking(purpose, user="ada", **more):
    return AccessRequest(**{"user": user, "purpose": purpose, **STATED, **more})


@pytest.fixture
def grants(tmp_path):
    return Grants(tmp_path / "grants.db")


def ask_for(grants, tables, purpose, at=NOW, rules=RULES, user="ada", hours=8, approved_by="", **more):
    return request_access(
        [*tables], asking(purpose, user, **more), grants, at=at, rules=rules, hours=hours, approved_by=approved_by
    )


def why_not(grants, tables, purpose, at=NOW, rules=RULES, user="ada", **more):
    """What an opening says that is refused, before Spark is asked for anything."""
    with pytest.raises(Denied) as raised:
        open_for([*tables], asking(purpose, user, **more), grants, at=at, rules=rules)
    said = str(raised.value)
    assert "\n" not in said
    return said


# --- purposes, without Spark ------------------------------------------------------------------------------------------


def test_each_purpose_gets_its_tables_and_no_other(grants):
    """AC-8.3-1: the guide's table of purposes; each denial has its row, also of names that only look alike."""
    for purpose, allowed in ALLOWED.items():
        found = {name for name in NAMES if ask_for(grants, [table(name)], purpose, approved_by="boss").allowed}
        assert found == allowed, purpose
    rows = grants.audit()
    assert len(rows) == len(NAMES) * len(ALLOWED)
    assert {(row.purpose, *row.datasets) for row in rows if row.outcome == "granted"} == {
        (purpose, name) for purpose, names in ALLOWED.items() for name in names
    }
    assert "analytics is for gold/*, silver/aggregated_* alone" in {row.reason.partition(": ")[2] for row in rows}


@pytest.mark.parametrize("purpose", ["ml_inference", "marketing", "development", "Analytics", "analytics ", "*"])
def test_a_purpose_without_a_policy_is_denied_and_no_error(grants, purpose):
    """AC-8.3-1: the sample looked it up and failed."""
    sales = table("gold/sales")
    access = ask_for(grants, [sales], purpose)
    assert (access.allowed, access.until) == ({}, None)
    assert access.denied == {"gold/sales": f"no policy allows anything for {purpose}"}
    assert why_not(grants, [sales], purpose).startswith(f"gold/sales: no policy allows anything for {purpose}")
    assert [(row.event, row.outcome, row.purpose) for row in grants.audit()] == [
        ("request", "denied", purpose), ("open", "denied", purpose),
    ]  # fmt: skip


@pytest.mark.parametrize(("purpose", "needed"), [("operations", "ticket"), ("audit", "case")])
def test_what_a_purpose_needs_is_stated_in_each_ask(grants, purpose, needed):
    """AC-8.3-3: operations without a ticket and audits without a case are refused, also with a grant."""
    orders = table("silver/orders")
    for nothing in ("", " "):
        denied = ask_for(grants, [orders], purpose, **{needed: nothing}).denied
        assert denied == {"silver/orders": f"{purpose} needs a {needed} here"}
    assert ask_for(grants, [orders], purpose).allowed == {"read": ("silver/orders",)} | (
        {"export": ("silver/orders",)} if purpose == "audit" else {}
    )
    assert f"needs a {needed}" in why_not(grants, [orders], purpose, **{needed: ""})


def test_a_grant_ends_by_itself(grants):
    """AC-8.3-3: just before eight hours it stands, at eight hours it has ended, and nobody else's ever stood."""
    sales, end = table("gold/sales"), NOW + timedelta(hours=8)
    access = ask_for(grants, [sales], "analytics", at=NOW.astimezone(timezone(timedelta(hours=5))))
    assert access.until == end
    assert "ada has no grant for analytics" in why_not(grants, [sales], "analytics", at=end)
    ask_for(grants, [sales], "analytics")
    assert "has no grant" in why_not(grants, [sales], "analytics", at=NOW - timedelta(microseconds=1))
    assert "has no grant" in why_not(grants, [sales], "analytics", user="bob")
    assert "has no grant" in why_not(grants, [sales], "audit")
    assert "gold/other: ada has no grant" in why_not(grants, [sales, table("gold/other")], "analytics")


def test_grants_are_told_apart_within_a_second_and_ended_ones_go(grants):
    """The sample numbered grants by the second, and kept ended ones for ever."""
    for n in range(50):
        ask_for(grants, [table(f"gold/t{n}")], "analytics")
    ids = [each.id for each in grants.standing("ada", "analytics", NOW)]
    assert len({*ids}) == 50
    ask_for(grants, [table("gold/t0")], "analytics", at=NOW + timedelta(days=1))
    with sqlite3.connect(grants.file) as database:
        assert database.execute("SELECT count(*) FROM grants").fetchone() == (1,)
    assert len(grants.audit()) == 51


def test_a_grant_that_stands_is_not_made_longer_by_another_request(grants):
    """Its end is the one that was granted."""
    sales = table("gold/sales")
    ask_for(grants, [sales], "analytics", hours=1)
    again = ask_for(grants, [sales], "analytics", at=NOW + timedelta(minutes=30))
    assert again.until == NOW + timedelta(hours=1)


def test_all_or_none_of_the_tables_are_granted(grants):
    """One denied table denies the query."""
    access = ask_for(grants, [table("gold/sales"), table("bronze/raw")], "analytics")
    assert (access.allowed, {*access.denied}) == ({}, {"bronze/raw"})
    assert "gold/sales: ada has no grant" in why_not(grants, [table("gold/sales")], "analytics")


# --- tiers ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("classes", "tier"),
    [
        (["public", "public"], "public"),
        (["public", "quasi"], "internal"),
        (["public", ""], "internal"),
        (["public", "personal"], "restricted"),
        (["sensitive"], "restricted"),
        (["public", "free text", "quasi"], "restricted"),
        (["personal", "secret"], "confidential"),
    ],
)
def test_the_tier_of_a_table_follows_from_the_classes_of_its_columns(classes, tier):
    """Unless a project says another one."""
    spec = table("silver/x", *classes).spec
    assert AccessRules().tier(spec).name == tier
    assert AccessRules(tier_of={"bronze/*": "public", "silver/*": "confidential"}).tier(spec).name == "confidential"


@pytest.mark.parametrize("purpose", ["audit", "ml_training"])
def test_each_tier_asks_for_what_the_guide_says(grants, purpose):
    """Public nothing, internal a training, restricted checks, approval and a reason, confidential a short time too."""
    nobody = {"user": "eve", "approved_by": ""}
    public, internal = table("silver/a"), table("silver/b", "quasi", "public")
    restricted = table("silver/c", "personal", "public")
    confidential = table("silver/d", "secret", "public")
    assert ask_for(grants, [public], purpose, **nobody).allowed
    assert ask_for(grants, [internal], purpose, **nobody).denied == {
        "silver/b": "eve lacks Data Handling 101, as internal tables need"
    }
    assert ask_for(grants, [internal], purpose, user="bob").allowed
    assert "bob lacks background check" in ask_for(grants, [restricted], purpose, user="bob").reason
    assert ask_for(grants, [restricted], purpose).denied == {"silver/c": "restricted tables need the approval of boss"}
    assert (
        "needs a justification" in ask_for(grants, [restricted], purpose, approved_by="boss", justification="").reason
    )
    assert ask_for(grants, [restricted], purpose, approved_by="boss", hours=2160).allowed
    assert ask_for(grants, [confidential], purpose, approved_by="boss", hours=8.5).denied == {
        "silver/d": "a grant of confidential tables is for at most 8 hours, not 8.5"
    }
    assert ask_for(grants, [confidential], purpose, approved_by="boss").allowed
    assert [row.approved_by for row in grants.audit()][-1] == "boss"


@pytest.mark.parametrize("by", ["", "ada", "eve", "BOSS", "boss "])
def test_nobody_approves_for_themselves_and_no_stranger_for_others(grants, by):
    """An approver who asks needs another one."""
    assert ask_for(grants, [table("silver/c", "personal")], "audit", approved_by=by).denied


def test_without_an_approver_nobody_gets_a_restricted_table(grants):
    """The rules of a project that named none."""
    rules = AccessRules(qualified={"ada": TRAININGS})
    denied = ask_for(grants, [table("silver/c", "personal")], "audit", approved_by="boss", rules=rules).denied
    assert denied == {"silver/c": "restricted tables need the approval of an approver, and there is none"}


def test_no_approval_helps_where_no_policy_allows(grants):
    """The sample granted anything to anyone."""
    denied = ask_for(grants, [table("silver/raw")], "analytics", approved_by="boss").denied
    assert denied == {"silver/raw": "analytics is for gold/*, silver/aggregated_* alone"}


def test_what_changed_since_the_grant_denies_the_opening(grants):
    """A qualification that was withdrawn, a narrower policy, a stricter tier, an approver who is none any more."""
    internal = table("gold/b", "quasi")
    assert ask_for(grants, [internal], "analytics").allowed
    without = replace(RULES, qualified={})
    assert "ada lacks Data Handling 101" in why_not(grants, [internal], "analytics", rules=without)
    narrow = replace(RULES, purposes=[Purpose(name="analytics", tables=["gold/a*"])])
    assert "analytics is for gold/a* alone" in why_not(grants, [internal], "analytics", rules=narrow)
    with_approver = replace(RULES, tier_of={"gold/b": "restricted"})
    assert "has no grant" in why_not(grants, [internal], "analytics", rules=with_approver)
    assert ask_for(grants, [internal], "analytics", rules=with_approver, hours=1, approved_by="boss").allowed
    left = replace(with_approver, tiers=[replace(each, approvers=["ada"]) for each in TIERS])
    assert "has no grant" in why_not(grants, [internal], "analytics", rules=left)
    personal = table("gold/b", "quasi", "personal")
    stricter = replace(RULES, qualified={"ada": TRAININGS[:1]})
    assert "ada lacks background check" in why_not(grants, [personal], "analytics", rules=stricter)


# --- export -----------------------------------------------------------------------------------------------------------


def test_an_export_needs_purpose_tier_and_classes(grants):
    """Public rows by a purpose with exports; quasi-identifiers in the clear stay, restricted rows need the approver."""
    cases = {
        ("analytics", "gold/a", ("public",), ""): True,
        ("analytics", "gold/b", ("quasi", "public"), ""): False,
        ("analytics", "gold/c", ("personal", "public"), "boss"): True,
        ("operations", "silver/orders", ("public",), ""): False,
        ("fraud_detection", "silver/e", ("public",), ""): False,
        ("audit", "silver/f", ("personal",), "boss"): True,
        ("audit", "silver/g", ("secret", "public"), "boss"): False,
    }
    for (purpose, name, classes, by), may in cases.items():
        access = ask_for(grants, [table(name, *classes)], purpose, approved_by=by, export=True)
        assert bool(access.allowed.get("export")) is may, (purpose, name)
        assert may or f"rows may not leave the platform for {purpose}" in access.reason


def test_a_grant_to_read_is_none_to_export(grants):
    """The same user asks again, and the approver is asked again."""
    users = table("gold/c", "personal", "public")
    assert ask_for(grants, [users], "analytics", approved_by="boss").allowed == {"read": ("gold/c",)}
    assert "may not leave" in why_not(grants, [users], "analytics", export=True)
    assert "approval of boss" in ask_for(grants, [users], "analytics", export=True).reason
    assert "export" in ask_for(grants, [users], "analytics", export=True, approved_by="boss").allowed


def test_of_tables_opened_together_all_have_to_allow_the_export(grants):
    """AC-8.3-4: the access names those that may leave alone."""
    both = [table("gold/a"), table("gold/b", "quasi", "public")]
    assert ask_for(grants, both, "analytics").allowed == {"read": ("gold/a", "gold/b"), "export": ("gold/a",)}
    assert "gold/b: rows may not leave" in why_not(grants, both, "analytics", export=True)


# --- budgets ----------------------------------------------------------------------------------------------------------


def spend(grants, hours, purpose="ml_training", at=NOW, user="ada"):
    """Charge hours of CPU to all grants of a user for a purpose."""
    cost = Cost(cpu_seconds=hours * 3600.0)
    grants.charge(asking(purpose, user), grants.standing(user, purpose, at), cost, at=at)


def test_a_purpose_with_a_budget_opens_nothing_once_it_is_spent(grants):
    """The guide's 1,000 for ml_training: at the budget and not before, by the price of the rules, over a restart."""
    sales, priced = table("gold/sales"), replace(RULES, cpu_hour_price=1.0)
    ask_for(grants, [sales], "ml_training", rules=priced)
    spend(grants, 600)
    spend(grants, 399.5)
    assert ask_for(grants, [sales], "ml_training", rules=priced).allowed
    spend(grants, 0.5)
    again, why = Grants(grants.file), "ada has spent 1,000.00 of 1,000.00 for ml_training under the present grants"
    assert why_not(again, [sales], "ml_training", rules=priced) == f"gold/sales: {why}"
    access = ask_for(again, [sales, table("silver/a")], "ml_training", rules=priced)
    assert access.denied == {"gold/sales": why, "silver/a": why}
    assert [row.outcome for row in again.audit()][-2:] == ["denied", "denied"]
    assert ask_for(again, [sales], "ml_training", rules=replace(RULES, cpu_hour_price=0.99)).allowed


def test_a_budget_is_of_a_user_a_purpose_and_the_grants_that_stand(grants):
    """Another user, another purpose, and a grant after the end have their own."""
    sales, priced = table("gold/sales"), replace(RULES, cpu_hour_price=1.0)
    limited = replace(priced, purposes=[Purpose(name=name, tables=["*"], budget=10) for name in ("a", "b")])
    for user, purpose in (("ada", "a"), ("ada", "b"), ("bob", "a")):
        ask_for(grants, [sales], purpose, user=user, rules=limited)
    spend(grants, 10, "a")
    assert "has spent 10.00 of 10.00 for a" in why_not(grants, [sales], "a", rules=limited)
    assert ask_for(grants, [sales], "b", rules=limited).allowed
    assert ask_for(grants, [sales], "a", user="bob", rules=limited).allowed
    assert ask_for(grants, [sales], "a", at=NOW + timedelta(hours=8), rules=limited).allowed


def test_a_block_is_charged_to_the_grants_of_its_tables(grants, monkeypatch):
    """By time where no engine tells CPU, also of a block that fails or outlives its grant; never without a grant."""
    seconds = iter(range(0, 1000, 30))
    monkeypatch.setattr(metering, "monotonic", lambda: next(seconds))
    sales, other = (table(name, session=Elsewhere) for name in ("gold/sales", "gold/other"))
    ask_for(grants, [sales, other], "ml_training")
    held = {each.dataset: each.id for each in grants.standing("ada", "ml_training", NOW)}

    def fail():
        with charged([sales], asking("ml_training"), grants, at=NOW):
            ask_for(grants, [table("gold/x")], "analytics", at=NOW + timedelta(hours=9))
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    row = grants.audit()[-1]
    assert (row.at, row.event, row.user) == ("2026-01-20T12:00:00.000000+00:00", "charge", "ada")
    assert ([*row.grants], row.cost["seconds"]) == ([held["gold/sales"]], 30)
    before = len(grants.audit())
    for refused in (asking("analytics", "bob"), asking("ml_training", "bob")):
        block = charged([sales], refused, grants, at=NOW)
        with pytest.raises(ConfigError, match="at must lie within a grant of bob for"):
            block.__enter__()
    assert len(grants.audit()) == before


# --- the audit --------------------------------------------------------------------------------------------------------


def test_an_audit_row_says_who_what_why_when_and_stays(grants):
    """AC-8.3-6: by another process too; nobody changes or removes a row by the file's own means."""
    ask_for(grants, [table("gold/a"), table("gold/b")], "analytics", justification="Quarter's report; it's due")
    why_not(grants, [table("gold/a")], "marketing")
    first, second = grants.audit()
    assert (first.user, first.purpose, [*first.datasets]) == ("ada", "analytics", ["gold/a", "gold/b"])
    assert (first.justification, first.ticket) == ("Quarter's report; it's due", "T-1")
    assert (first.at, first.event, first.outcome) == ("2026-01-20T12:00:00.000000+00:00", "request", "granted")
    assert len(first.grants) == 2
    assert (second.event, second.outcome, second.grants) == ("open", "denied", [])
    assert [row.reason for row in grants.audit(after=1)] == [second.reason]
    read = "import sys; from pathlib import Path; from dedp_assets.patterns.governance._grants import Grants; "
    read += "print(len(Grants(Path(sys.argv[1])).audit()))"
    told = subprocess.run([sys.executable, "-c", read, str(grants.file)], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "2"
    for change in (
        "DELETE FROM audit",
        "UPDATE audit SET at = ''",
        "INSERT OR REPLACE INTO audit VALUES (1, '', '')",
    ):
        with sqlite3.connect(grants.file) as database, pytest.raises(sqlite3.IntegrityError, match="audit rows stay"):
            database.execute(change)
    assert Grants(grants.file).audit() == [first, second]


def test_an_access_to_look_at_is_an_alert(grants):
    """Fraud detection and confidential tables, granted or denied; alerts read the rows behind those that they know."""
    ask_for(grants, [table("silver/a")], "fraud_detection")
    ask_for(grants, [table("gold/a")], "analytics")
    ask_for(grants, [table("silver/d", "secret", "public")], "audit")
    why_not(grants, [table("bronze/x")], "fraud_detection")
    assert [row.alert for row in grants.audit()] == [True, False, True, True]


def test_the_file_is_its_owners_alone_and_shared_by_writers(grants):
    """Twenty at once leave twenty rows."""
    assert stat.S_IMODE(grants.file.stat().st_mode) == 0o600
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: ask_for(grants, [table(f"gold/t{n}")], "analytics"), range(20)))
    assert len(grants.audit()) == 20
    assert len(grants.standing("ada", "analytics", NOW)) == 20


def test_a_store_that_cannot_be_used_grants_nothing(tmp_path):
    """In a sentence with the file."""
    with pytest.raises(NotReady, match=r"the store of grants .* cannot be used"):
        Grants(tmp_path / "missing" / "grants.db")
    (tmp_path / "text.db").write_text("no database" * 100)
    with pytest.raises(ConfigError, match="file must be a store of grants, not"):
        Grants(tmp_path / "text.db")
    store = Grants(tmp_path / "grants.db")
    store.file.unlink()
    with pytest.raises(NotReady, match="nothing was written"):
        ask_for(store, [table("gold/a")], "analytics")


def test_what_can_never_work_is_refused(grants):
    """By the name of the option, and without an audit row."""
    sales = table("gold/sales")
    for call, said in {
        lambda: ask_for(grants, [], "analytics"): "tables must name at least one table, not none",
        lambda: ask_for(grants, [sales, sales], "analytics"): "tables",
        lambda: ask_for(grants, [sales], "analytics", hours=0): "hours must be more than 0 and at most 87600, not 0",
        lambda: asking(" "): "user and purpose must say who asks what for",
        lambda: asking("x", user=""): "user and purpose must say who asks what for",
        lambda: AccessRules(tiers=TIERS[1:]): "tiers must be public, internal, restricted, confidential, once each",
        lambda: AccessRules(purposes=[*AccessRules().purposes, Purpose(name="audit", tables=[])]): "purposes",
        lambda: AccessTier(name="secret"): "AccessTier.name must be",
        lambda: open_for(
            [sales], asking("analytics"), grants, at=NOW, where={"gold/x": "true"}
        ): "where must be of tables",
        lambda: open_for(
            [sales], asking("analytics"), grants, at=NOW, also={"x": Policy("a", ["b"])}
        ): "also must be of",
        lambda: open_for(
            [sales], asking("analytics"), grants, at=NOW, where={"gold/sales": "1 IN (SELECT 1)"}
        ): "where: predicate",
    }.items():
        with pytest.raises(ConfigError, match=said):
            call()
    assert grants.audit() == []


@given(
    purpose=st.sampled_from([*DEFAULT, "marketing"]),
    name=st.sampled_from(NAMES),
    classes=st.lists(st.sampled_from(["", "public", "quasi", "personal", "secret"]), min_size=1, max_size=3),
    user=st.sampled_from(["ada", "bob", "eve"]),
    stated=st.sets(st.sampled_from(["ticket", "case", "justification"])),
    by=st.sampled_from(["", "ada", "boss"]),
    hours=st.sampled_from([1, 8, 9, 5000]),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150)
def test_a_decision_equals_a_plain_model(tmp_path_factory, purpose, name, classes, user, stated, by, hours):
    """Purpose, tier, statements, qualifications, approval and time; each decision is one row."""
    grants = Grants(tmp_path_factory.mktemp("model") / "grants.db")
    said = {each: "x" if each in stated else "" for each in STATED}
    access = ask_for(grants, [table(name, *classes)], purpose, user=user, hours=hours, approved_by=by, **said)
    high = bool({"personal", "secret"} & {*classes})
    needed = {"operations": {"ticket"}, "audit": {"case"}}.get(purpose, set()) | ({"justification"} if high else set())
    qualified = user == "ada" or {*classes} == {"public"} or (user == "bob" and not high)
    personal = purpose in ("operations", "fraud_detection", "audit")
    may = (
        name in ALLOWED.get(purpose, ())
        and needed <= stated
        and qualified
        and (not high or (by == "boss"))
        and hours <= (8 if "secret" in classes else 2160)
        and bool({*classes} - {"secret"} - (set() if personal else {""}))
    )
    assert bool(access.allowed) is may, access.reason
    (row,) = grants.audit()
    assert row.outcome == ("granted" if may else "denied")


# --- rows, with Spark -------------------------------------------------------------------------------------------------

CUSTOMERS = {
    "id": Column("BIGINT", classification="public"),
    "e mail": Column("STRING", classification="personal"),
    "born": Column("DATE", classification="personal"),
    "income": Column("DECIMAL(9,2)", classification="sensitive"),
    "note": Column("STRING", classification="free text"),
    "region": Column("STRING", classification="public"),
    "password": Column("STRING", classification="secret"),
    "unknown": Column("STRING"),
}
ORDERS = {"id": Column("BIGINT", classification="public"), "customer": Column("BIGINT", classification="public")}
WORK = replace(
    RULES,
    purposes=[
        Purpose(name="research", tables=["silver/*"], export=True),
        Purpose(name="hashing", tables=["silver/*"], mask="hash"),
        Purpose(name="support", tables=["silver/*"], personal=True, max_rows=3, needs=["ticket"]),
    ],
    tier_of={"silver/customers": "restricted"},
)


@pytest.fixture(scope="module")
def world(spark, tmp_path_factory):
    """Customers and orders, and a store in which ada has grants for all purposes."""
    folder = tmp_path_factory.mktemp("purposes")
    people = [
        (1, CANARY, date(1990, 1, 1), 1000, "call me", "US", "hunter2", "x"),
        (2, "bob@example.org", date(1991, 1, 1), 2000, None, "EU", "s", None),
        (3, None, None, None, "nothing", "EU", None, "y"),
        (4, "ab", date(1993, 1, 1), 4000, "", None, "t", "z"),
        (5, "carol@example.org", date(1994, 1, 1), 5000, "n", "US", "u", "z"),
    ]
    kinds = [pa.int64(), pa.string(), pa.date32(), pa.decimal128(9, 2), *[pa.string()] * 4]
    columns = {n: pa.array(v, k) for n, v, k in zip(CUSTOMERS, zip(*people, strict=True), kinds, strict=True)}
    # Blanks in names need Delta's mapping of columns, which delta-rs does not write.
    renamed = {name.replace(" ", "-"): values for name, values in columns.items()}
    write_deltalake(str(folder / "silver/customers"), pa.table(renamed))
    write_deltalake(
        str(folder / "silver/orders"), pa.table({"id": range(10), "customer": [n % 5 + 1 for n in range(10)]})
    )
    spec = {name.replace(" ", "-"): column for name, column in CUSTOMERS.items()}
    later = {**spec, "phone": Column("STRING", classification="personal")}
    tables = [
        Table(TableSpec("silver/customers", later), folder / "silver/customers", spark),
        Table(TableSpec("silver/orders", ORDERS), folder / "silver/orders", spark),
    ]
    grants = Grants(folder / "grants.db")
    for purpose in ("research", "hashing", "support"):
        assert ask_for(grants, tables, purpose, rules=WORK, approved_by="boss").allowed
    return tables, grants


def opened(world, purpose, *names, **more):
    tables, grants = world
    chosen = [each for each in tables if not names or each.name in names]
    stated = {"key": KEY, "at": NOW, "rules": WORK, **more}
    return open_for(chosen, asking(purpose), grants, stated.pop("key"), **stated)


def test_a_purpose_without_personal_values_masks_them_where_they_are_read(world):
    """AC-8.3-5: columns keep their types, NULL stays NULL; secrets and unclassified columns are not there."""
    frame = opened(world, "research")["silver/customers"]
    assert [(f.name, f.dataType.simpleString()) for f in frame.schema.fields] == [
        ("id", "bigint"), ("e-mail", "string"), ("born", "date"), ("income", "decimal(9,2)"), ("note", "string"),
        ("region", "string"),
    ]  # fmt: skip
    rows = {row["id"]: row for row in frame.collect()}
    assert {n: row["e-mail"] for n, row in rows.items()} == {1: "can***", 2: "bob***", 3: None, 4: "***", 5: "car***"}
    assert {row[name] for row in rows.values() for name in ("born", "income", "note")} == {None}
    assert {row["region"] for row in rows.values()} == {"US", "EU", None}


def test_a_purpose_with_personal_values_sees_them(world):
    """AC-8.3-5: as they are, but for secrets; a declared column that the table does not have yet is left out."""
    frame = opened(world, "support", "silver/customers", where={"silver/customers": "id = 1"})["silver/customers"]
    (row,) = frame.collect()
    assert (row["e-mail"], row["born"], row["unknown"]) == (CANARY, date(1990, 1, 1), "x")
    assert {"password", "phone"} & {*frame.columns} == set()


def test_hashes_join_within_a_purpose_and_say_nothing(world):
    """Equal values are equal; the value and its plain hash are not in the rows."""
    frame = opened(world, "hashing")["silver/customers"]
    found = {row["id"]: row["e-mail"] for row in frame.collect()}
    assert found[3] is None
    assert len({*found.values()}) == 5
    plain = frame.sparkSession.range(1).select(F.sha2(F.lit(CANARY), 256)).first()[0]
    assert plain not in found.values()


TRICKS = {
    "an alias": lambda c: c.select(F.col("`e-mail`").alias("x")),
    "a function": lambda c: c.select(F.upper(F.col("`e-mail`"))),
    "an aggregate": lambda c: c.agg(F.max("`e-mail`"), F.collect_list("`e-mail`")),
    "a group": lambda c: c.groupBy("`e-mail`").count(),
    "an order": lambda c: c.orderBy("`e-mail`").limit(1),
    "a self-join": lambda c: c.alias("a").join(c.alias("b"), F.expr("a.`e-mail` = b.`e-mail`")).select("a.*"),
    "a window": lambda c: c.selectExpr("first(`e-mail`) OVER (ORDER BY id) AS x"),
    "a view": lambda c: c.sparkSession.sql("SELECT `e-mail` AS e FROM {c} WHERE id = 1", c=c),
    "a subquery": lambda c: c.sparkSession.sql("SELECT (SELECT max(`e-mail`) FROM {c}) AS e", c=c),
    "a struct": lambda c: c.select(F.to_json(F.struct("*"))),
}


@pytest.mark.parametrize("trick", TRICKS)
def test_no_query_sees_a_masked_value(world, trick):
    """AC-8.3-2: the sample masked columns of the result by their names."""
    rows = TRICKS[trick](opened(world, "research")["silver/customers"]).collect()
    assert rows
    assert "lovelace" not in str(rows)
    assert "LOVELACE" not in str(rows)


@pytest.mark.parametrize(
    "predicate", [f"`e-mail` = '{CANARY}'", "`e-mail` LIKE '%lovelace%'", "born = DATE'1990-01-01'"]
)
def test_a_filter_meets_the_masked_values(world, predicate):
    """Neither the option nor a later filter finds a row by what it hides."""
    name = "silver/customers"
    assert opened(world, "research", where={name: predicate})[name].count() == 0
    assert opened(world, "research")[name].where(predicate).count() == 0


@pytest.mark.parametrize("predicate", ["password = 'hunter2'", "unknown = 'x'", "_metadata.file_path IS NOT NULL"])
def test_a_column_that_is_not_shown_cannot_be_named(world, predicate):
    """The refusal names the option, and no value."""
    with pytest.raises(ConfigError, match="where") as raised:
        opened(world, "research", where={"silver/customers": predicate})
    assert "hunter2" not in str(raised.value).partition("not have")[0].replace(predicate, "")


@pytest.mark.parametrize(
    ("group", "ids", "is_masked"),
    [("us", {1, 5}, True), ("eu", {2, 3}, True), ("global", {1, 2, 3, 4, 5}, False), ("nobody", set(), True)],
)
def test_rows_of_a_region_by_the_role_and_masks_by_the_purpose(world, group, ids, is_masked):
    """AC-8.3-2: US and EU analysts, a global administrator, and a user without a group, by the stricter of both."""
    rows = {"us": "region = 'US'", "eu": "region = 'EU'", "global": ALL_ROWS, "nobody": ""}[group]
    columns = ["id", "e-mail", "region", *(["password"] if group == "global" else [])]
    purpose = "research" if is_masked else "hashing"
    rules = WORK if is_masked else replace(WORK, purposes=[replace(WORK.purposes[1], personal=True)])
    frame = opened(world, purpose, rules=rules, also={"silver/customers": Policy(group, columns, {}, rows)})
    found = frame["silver/customers"].collect()
    assert {row["id"] for row in found} == ids
    seen = {row["e-mail"] for row in found}
    assert (CANARY in seen) is (group == "global")
    assert "password" not in frame["silver/customers"].columns


def test_tables_opened_together_take_the_stricter_limit(world):
    """AC-8.3-4: masks stay with their table; the smallest row limit holds for each, whichever policy brings it."""
    some = Policy("agents", ["id", "customer"], {}, ALL_ROWS, max_rows=2)
    both = opened(world, "support", also={"silver/orders": some})
    assert {name: frame.count() for name, frame in both.items()} == {"silver/customers": 2, "silver/orders": 2}
    masked = opened(world, "research", also={"silver/orders": some})
    joined = masked["silver/orders"].join(masked["silver/customers"].withColumnRenamed("id", "customer"), "customer")
    assert "lovelace" not in str(joined.collect())
    assert joined.count() <= 2


def test_a_role_that_may_not_export_keeps_the_rows(world):
    """AC-8.3-4: the purpose allows it, the policy of the role does not."""
    _, grants = world
    tables = [each for each in world[0] if each.name == "silver/orders"]
    ask_for(grants, tables, "research", rules=WORK, export=True, approved_by="boss")
    role = Policy("agents", ["id"], {}, ALL_ROWS)
    for may in (False, True):
        given = {"also": {"silver/orders": replace(role, may_export=may)}, "at": NOW, "rules": WORK}
        if may:
            assert open_for(tables, asking("research", export=True), grants, **given)["silver/orders"].columns == ["id"]
        else:
            with pytest.raises(Denied, match="silver/orders: rows may not leave the platform for research"):
                open_for(tables, asking("research", export=True), grants, **given)


def test_a_row_limit_counts_what_was_looked_for(world):
    """The predicate comes before the limit: a customer behind the first rows is found."""
    frame = opened(world, "support", where={"silver/customers": "id = 5"})["silver/customers"]
    assert [row["id"] for row in frame.collect()] == [5]
    assert opened(world, "support")["silver/customers"].count() == 3


def test_each_opening_is_one_row_and_a_refused_one_opens_nothing(world):
    """AC-8.3-6: with the ids of the grants; a policy that does not fit leaves no row, for nothing was opened."""
    _, grants = world
    before = len(grants.audit())
    opened(world, "research")
    (row,) = grants.audit(after=before)
    assert (row.event, row.outcome, [*row.datasets]) == ("open", "granted", ["silver/customers", "silver/orders"])
    standing = {each.dataset: each for each in grants.standing("ada", "research", NOW)}
    assert [*row.grants] == [standing[name].id for name in row.datasets]
    with pytest.raises(Denied):
        opened(world, "research", at=NOW + timedelta(hours=8))
    with pytest.raises(ConfigError, match="hash"):
        opened(world, "hashing", key=None)
    assert [each.outcome for each in grants.audit(after=before + 1)] == ["denied"]


CONFIDENTIAL = replace(WORK, tier_of={"silver/customers": "confidential", "silver/orders": "public"})


def test_rows_of_a_confidential_table_lead_to_the_decision_that_opened_them(world):
    """Each opening has a mark of its own, as the last column of that table alone, which its audit row has as well."""
    _, grants = world
    first, second = (opened(world, "research", rules=CONFIDENTIAL) for _ in range(2))
    rows = [each["silver/customers"].collect() for each in (first, second)]
    marks = [{row["opened_as"] for row in each} for each in rows]
    assert [len(each) for each in (*rows, *marks, marks[0] | marks[1])] == [5, 5, 1, 1, 2]
    assert first["silver/customers"].columns[-1] == "opened_as"
    assert "opened_as" not in first["silver/orders"].columns
    found = [row for row in grants.audit() if row.mark in marks[0]]
    assert [(row.event, row.outcome, [*row.tiers]) for row in found] == [
        ("open", "granted", ["confidential", "public"])
    ]
    opened(world, "research")
    assert grants.audit()[-1].mark == ""
    with pytest.raises(AnalysisException):
        first["silver/customers"].where("password = 'hunter2'").collect()


@pytest.mark.parametrize("watermark", ["region", "REGION"])
def test_a_watermark_never_takes_the_place_of_a_column(world, watermark):
    """Refused in a sentence, and nothing is opened; a predicate cannot name the mark."""
    before = len(world[1].audit())
    tiers = [replace(tier, watermark=watermark) for tier in TIERS]
    with pytest.raises(ConfigError, match=f"watermark must be no column of silver/customers, not {watermark}"):
        opened(world, "research", rules=replace(CONFIDENTIAL, tiers=tiers))
    with pytest.raises(ConfigError, match="where"):
        opened(world, "research", rules=CONFIDENTIAL, where={"silver/customers": "opened_as = ''"})
    assert len(world[1].audit()) == before


def test_an_unusual_opening_is_an_alert_or_denied(world):
    """By the rule of the tier: of one usual opening, the second is an alert, and the third opens nothing."""
    grants, orders = world[1], [each for each in world[0] if each.name == "silver/orders"]
    outcomes = []
    for on_anomaly in ("alert", "alert", "deny"):
        rule = UsualAccess(opens=1, on_anomaly=on_anomaly)
        tiers = [replace(tier, usual=rule if tier.name == "public" else None) for tier in TIERS]
        given = {"at": NOW, "rules": replace(WORK, tiers=tiers)}
        assert ask_for(grants, orders, "research", user="bob", **given).allowed
        try:
            outcomes.append(open_for(orders, asking("research", "bob"), grants, **given)["silver/orders"].count())
        except Denied as error:
            outcomes.append(str(error))
    said = "unusual: 3 openings of the tier public in 24 hours, where up to 1 are usual"
    assert outcomes == [10, 10, f"not opened; {said}"]
    assert [(row.user, row.outcome, row.alert) for row in grants.unusual(NOW)] == [
        ("bob", "granted", True), ("bob", "denied", True),
    ]  # fmt: skip


def test_a_block_of_jobs_is_charged_by_the_processor(world, spark):
    """An embedded engine tells it; the budget ends what is opened, and a look costs nothing."""
    tables, grants = world
    rules = replace(WORK, purposes=[replace(WORK.purposes[0], name="training", budget=1e-9)])
    assert ask_for(grants, tables, "training", rules=rules, approved_by="boss").allowed
    with charged(tables, asking("training"), grants, at=NOW) as until:
        assert until == NOW + timedelta(hours=8)
        rows = open_for(tables, asking("training"), grants, at=NOW, rules=rules)
        assert rows["silver/orders"].groupBy("customer").count().count() == 5
    (cost,) = grants.charges(grants.standing("ada", "training", NOW))
    assert (cost.seconds or 0) > 0
    assert ((cost.cpu_seconds or 0) > 0) is hasattr(spark, "_jsparkSession")
    with pytest.raises(Denied, match=r"silver/orders: ada has spent 0\.00 of 0\.00 for training"):
        open_for(tables, asking("training"), grants, at=NOW, rules=rules)


@known_calls
def calls_that_work(known):
    sales = known.table("gold/purposes", "id INT", (1,))
    grants = Grants(known.folder / "grants.db")
    ask = AccessRequest(user="ada", purpose="analytics")
    request_access([sales], ask, grants, at=NOW, hours=1000)
    more = {"hours": 8.0, "approved_by": "boss", "rules": RULES}
    return {
        "request_access": {"tables": [sales], "ask": ask, "grants": grants, "at": NOW, **more},
        "charged": {"tables": [sales], "ask": ask, "grants": grants, "at": NOW},
        "open_for": {
            "tables": [sales], "ask": ask, "grants": grants, "key": KEY, "at": NOW, "rules": RULES,
            "where": {"gold/purposes": "id = 1"}, "also": {"gold/purposes": Policy("all", ["id"], {}, ALL_ROWS)},
        },
    }  # fmt: skip
