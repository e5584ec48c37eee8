"""Policies by audience: applied in the applications' database, held against what the server grants, and on record."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta

import dagster as dg
import psycopg
import pytest

from dedp_assets.case_study.defs.serving import policies as declared
from dedp_assets.case_study.defs.serving.daily_report import SERVED
from dedp_assets.case_study.defs.serving.policies import (
    AGENCIES,
    ANALYSTS,
    AUDIENCES,
    DRIFT,
    HEALS,
    LOOK_AT,
    PAGE_VIEWS,
    SUPPORT,
)
from dedp_assets.case_study.defs.silver.visits import VISITS
from dedp_assets.graph.resources.alerting import Alerting, outbox_of
from dedp_assets.graph.resources.clock import Clock
from dedp_assets.graph.resources.environments import settings
from dedp_assets.graph.resources.lake import lake_of
from dedp_assets.graph.systems import postgres
from dedp_assets.graph.systems.postgres import OperationalDatabase
from dedp_assets.graph.systems.secrets import Secrets
from dedp_assets.patterns import AccessRequest, Policy, grant_in_postgres
from dedp_assets.patterns.core.errors import ConfigError, Denied
from dedp_assets.patterns.core.measuring.observing import SPARK_ERRORS
from tests.helpers import a_run

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.budget(30, "nights of a server with roles")]

PERSON = "a person of agencies"
VIEW = f'serving."daily_page_views for {AGENCIES}"'
ROWS = """INSERT INTO serving.daily_page_views VALUES
    ('2026-01-05', '/posts/1', 9, 7), ('2026-01-05', '/posts/2', 3, 2), ('2026-01-05', '/about', 20, 15)"""


@pytest.fixture
def served(world, database, monkeypatch):
    """A night after which the policies hold, the figures of a day, and a person who is a member of the agencies."""
    monkeypatch.setattr(postgres, "address", lambda _: database)
    assert night(world) == ""
    with database.connect(autocommit=True) as connection:
        connection.execute(ROWS)
        connection.execute(f'CREATE ROLE "{PERSON}" LOGIN IN ROLE {AGENCIES}; CREATE ROLE nobody LOGIN')
    yield database
    with database.connect(autocommit=True) as connection:
        for role in (PERSON, "nobody", AGENCIES, SUPPORT, "dedp_masks"):
            connection.execute(f'DROP OWNED BY "{role}" CASCADE; DROP ROLE "{role}"')


def night(world, **tags):
    """What a night's run of the policies ends with."""
    return world.compute("serving/policies", **tags).failure


def asked(database, role, query):
    """What a role is answered in a session of its own; the text of a refusal."""
    with database.connect(autocommit=True) as connection:
        connection.execute(f'SET SESSION AUTHORIZATION "{role}"')
        try:
            return sorted(connection.execute(query).fetchall(), key=repr)
        except psycopg.Error as error:
            return str(error).partition("\n")[0]


def by_hand(database, *statements):
    with database.connect(autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement)


def checked():
    """The verdict of the morning's check: whether it passed, and the sentence."""
    found = declared.grants_are_as_declared(operational=OperationalDatabase(), alerts=Alerting())
    assert isinstance(found, dg.AssetCheckResult)
    return found.passed, found.description or ""


def alerted():
    """What the alert says to whom it may concern; empty without one."""
    return [(e.alert.kind, e.alert.reason, e.alert.command) for e in outbox_of(settings()).open_episodes()]


def test_a_role_reads_its_rows_and_columns_and_nothing_else(served):
    """Default deny: other rows, columns and tables are refused to members of an audience, and all to others."""
    assert asked(served, PERSON, f"SELECT page, views, visitors FROM {VIEW}") == [
        ("/posts/1", 9, 7),
        ("/posts/2", 3, None),
    ]
    assert asked(served, PERSON, f"SELECT page FROM {VIEW} WHERE visitors = 2") == []
    assert asked(served, PERSON, f"SELECT page, views FROM {PAGE_VIEWS}") == [("/posts/1", 9), ("/posts/2", 3)]
    assert asked(served, SUPPORT, f"SELECT page, views FROM {PAGE_VIEWS} WHERE views > 5") == [
        ("/about", 20),
        ("/posts/1", 9),
    ]
    columns = ("visitors", "*", "max(visitors)", "count(*) FILTER (WHERE visitors = 2)")
    refused = [
        *((role, f"SELECT {column} FROM {PAGE_VIEWS}") for role in (PERSON, SUPPORT) for column in columns),
        (SUPPORT, f"SELECT page FROM {VIEW}"),
        (PERSON, "SELECT * FROM serving.daily_visitors"),
        (PERSON, f"UPDATE {PAGE_VIEWS} SET views = 0"),
        (PERSON, f"DELETE FROM {PAGE_VIEWS}"),
        ("nobody", f"SELECT page FROM {PAGE_VIEWS}"),
        ("nobody", f"SELECT page FROM {VIEW}"),
    ]
    for role, query in refused:
        assert "permission denied" in asked(served, role, query), (role, query)
    by_hand(served, "GRANT USAGE ON SCHEMA serving TO nobody", f"GRANT SELECT ON {PAGE_VIEWS} TO nobody")
    assert asked(served, "nobody", f"SELECT page FROM {PAGE_VIEWS}") == [], "a grant without a policy shows no row"


def test_a_grant_by_hand_is_named_with_the_command_and_alerts_until_it_is_gone(world, served):
    """The nights leave it to a person; what was granted is as declared after the command, and the alert ends."""
    assert (checked(), alerted()) == ((True, ""), [])
    by_hand(served, f"GRANT SELECT (visitors) ON {PAGE_VIEWS} TO {SUPPORT}")
    passed, said = checked()
    assert (passed, said) == (False, f"support may SELECT visitors; `{HEALS}` takes them back")
    ((kind, reason, command),) = alerted()
    assert (kind, command) == (DRIFT, HEALS)
    assert reason.startswith(f"{PAGE_VIEWS}: support may SELECT visitors; ")
    assert night(world) == ""
    assert asked(served, SUPPORT, f"SELECT visitors FROM {PAGE_VIEWS}") == [(15,), (2,), (7,)]
    assert len(alerted()) == 1
    assert night(world, **{"dedp/force": "true"}) == ""
    assert "permission denied" in asked(served, SUPPORT, f"SELECT visitors FROM {PAGE_VIEWS}")
    assert (checked(), alerted()) == ((True, ""), [])
    assert len(world.rows("serving/policies")) == sum(map(len, AUDIENCES.policies.values()))


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        (f"GRANT DELETE ON {PAGE_VIEWS} TO nobody", "nobody may DELETE all columns"),
        (f"CREATE VIEW leaky AS SELECT * FROM {PAGE_VIEWS}", "view public.leaky of dedp shows rows past the policies"),
        (f"ALTER TABLE {PAGE_VIEWS} NO FORCE ROW LEVEL SECURITY", "row security is not forced"),
        (f"CREATE POLICY more ON {PAGE_VIEWS} USING (true)", "policy more is nobody's"),
        (f"ALTER ROLE {AGENCIES} BYPASSRLS", "role agencies passes row security"),
    ],
)
def test_whatever_else_lets_rows_past_the_policies_is_found(served, statement, said):
    """Grants of writing, views, switches and policies of others, roles that no policy holds for."""
    by_hand(served, statement)
    passed, found = checked()
    assert not passed
    assert said in found
    by_hand(served, "DROP VIEW IF EXISTS leaky")


def test_a_changed_policy_is_applied_and_on_record_by_the_run_that_applies_it_first(world, served, monkeypatch):
    """Who, when, from what, to what; runs after it change neither record nor grants; an ended policy grants nothing."""
    first = {(row["table"], row["audience"]): row for row in world.rows("serving/policies")}
    assert {key for key, row in first.items() if row["before"] is None and row["after"]} == {
        (table, each.audience) for table, policies in AUDIENCES.policies.items() for each in policies
    }
    assert len({row["changed_by"] for row in first.values()}) == 1
    tight = replace(AUDIENCES.of(PAGE_VIEWS)[0], rows="page = '/posts/1'")
    changed = replace(AUDIENCES, policies={**AUDIENCES.policies, PAGE_VIEWS: [tight]})
    monkeypatch.setattr(declared, "AUDIENCES", changed)
    passed, said = checked()
    assert not passed
    assert "policy dedp for agencies is another one" in said
    assert [night(world), night(world)] == ["", ""]
    assert (checked(), alerted()) == ((True, ""), [])
    assert asked(served, PERSON, f"SELECT page FROM {VIEW}") == [("/posts/1",)]
    assert "permission denied" in asked(served, SUPPORT, f"SELECT page FROM {PAGE_VIEWS}")
    rows = sorted(world.rows("serving/policies"), key=lambda row: (row["changed_at"], row["audience"]))
    agencies, support = rows[len(first) :]
    assert (agencies["audience"], support["audience"], support["after"]) == (AGENCIES, SUPPORT, None)
    assert [json.loads(agencies[state])["rows"] for state in ("before", "after")] == [
        "page LIKE '/posts/%'",
        "page = '/posts/1'",
    ]
    by = agencies["changed_by"]
    assert by == support["changed_by"] != first[PAGE_VIEWS, AGENCIES]["changed_by"]
    assert by.startswith("run ")
    assert by.endswith(" of serving/policies, code 1")


VISITORS = [("v1", "Ada", 200, "10.0.0.1"), ("v2", "Bob", 404, "10.0.0.2"), ("v3", "Ada", 301, None)]
ORIGIN = ("'/' AS page", "'a' AS source_file", "1L AS line_number", "DATE '2026-01-05' AS landed_on")
TIMES = ("TIMESTAMP '2026-01-05 10:00:00' AS event_time", "DATE '2026-01-05' AS event_date")


@pytest.fixture
def visits(world, spark):
    """Visits of a day in the lake, and the key of hashes."""
    table = lake_of(world.settings).table(VISITS)
    empty = spark.createDataFrame([], ", ".join(f"{name} {column.type}" for name, column in VISITS.columns.items()))
    rows = spark.createDataFrame(VISITORS, "visit_id STRING, user_id STRING, status INT, ip STRING")
    filled = empty.unionByName(rows.selectExpr("*", *TIMES, *ORIGIN), allowMissingColumns=True)
    table.overwrite(filled, provenance=a_run(VISITS.name))
    return table, Secrets().masking_key()


def test_a_notebook_reads_visits_by_the_policy_of_its_audience(visits):
    """Users by a hash, no addresses, no failed visits; columns that the policy does not name cannot be named."""
    table, key = visits
    read = AUDIENCES.read(table, ANALYSTS, key, partitions=[{"event_date": "2026-01-05"}]).orderBy("visit_id").collect()
    assert [(row["visit_id"], row["status"], row["ip"]) for row in read] == [("v1", 200, None), ("v3", 301, None)]
    assert len({row["user_id"] for row in read}) == 1
    assert len(read[0]["user_id"]) == 64
    assert "user_agent" not in read[0].asDict()
    with pytest.raises(SPARK_ERRORS, match="user_agent"):
        AUDIENCES.read(table, ANALYSTS, key).where("user_agent = 'x'").count()
    with pytest.raises(ConfigError, match="support has no policy for silver/visits, so that nothing is shown"):
        AUDIENCES.read(table, SUPPORT, key)


def test_openings_for_a_purpose_are_on_record_and_those_to_look_at_alert_for_a_day(world, database, visits):
    """The stricter of audience and purpose is shown; decisions of other processes count, since the home keeps them."""
    (table, key), now = visits, Clock().now()
    why = {"user": "ada", "justification": "an attack at noon", "case": "C-7"}
    fraud, web = (AccessRequest(purpose=purpose, **why) for purpose in ("fraud", "web analytics"))
    with pytest.raises(Denied, match="ada has no grant for web analytics"):
        AUDIENCES.open(table, ANALYSTS, web, key, at=now)
    unapproved = AUDIENCES.request(table, web, at=now).denied
    assert unapproved == {VISITS.name: "restricted tables need the approval of grace"}
    for ask in (web, fraud):
        assert not AUDIENCES.request(table, ask, at=now, approved_by="grace").denied
    opened = AUDIENCES.open(table, ANALYSTS, web, key, at=now).orderBy("visit_id").collect()
    assert [(row["visit_id"], row["ip"]) for row in opened] == [("v1", None), ("v3", None)]
    assert "Ada" not in str(opened)
    assert AUDIENCES.open(table, ANALYSTS, fraud, key, at=now).count() == 2
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(postgres, "address", lambda _: database)
        assert night(world) == ""
        shown = world.materialization("serving/policies")
        assert (shown["accesses granted in a day"], shown["accesses denied in a day"]) == (4, 2)
        assert [told[:2] for told in alerted()] == [(LOOK_AT, "silver/visits for fraud (granted)")]
        patch.setattr(Clock, "now", lambda _: now + timedelta(days=2))
        assert night(world) == ""
    assert alerted() == []


def test_a_server_that_is_away_or_lacks_the_table_is_no_drift(world, database, monkeypatch):
    """A warning that nothing was compared, without an alert."""
    away = replace(database, port=1)
    for address in (away, database):
        monkeypatch.setattr(postgres, "address", lambda _, address=address: address)
        passed, said = checked()
        assert not passed
        assert said.startswith("not compared: ")
        assert alerted() == []


def test_an_owner_that_is_no_superuser_applies_policies_and_writes_past_them(served):
    """As a member of the role of masks, which may create views in the schema; forced row security shows it all rows."""

    def as_writer(**more):
        connection = served.connect(**more)
        connection.execute("SET SESSION AUTHORIZATION writer")
        return connection

    owned = ["ALTER SCHEMA serving OWNER TO {}", f"ALTER TABLE {PAGE_VIEWS} OWNER TO {{}}"]
    rights = ["GRANT dedp_masks TO writer", "GRANT CREATE ON SCHEMA serving TO dedp_masks"]
    by_hand(served, "CREATE ROLE writer LOGIN", *(each.format("writer") for each in owned), *rights)
    try:
        tight = [replace(AUDIENCES.of(PAGE_VIEWS)[0], rows="page = '/posts/2'")]
        found = grant_in_postgres(as_writer, policies=tight, table=PAGE_VIEWS, keep=["writer"], apply=True)
        assert (found.passed, found.note) == (True, "")
        assert found.figures["changed"] > 0
        assert asked(served, PERSON, f"SELECT page, visitors FROM {VIEW}") == [("/posts/2", None)]
        with as_writer(autocommit=True) as connection:
            connection.execute(ROWS.replace("/posts/", "/new/").replace("/about", "/new"))
            assert connection.execute(f"DELETE FROM {PAGE_VIEWS} WHERE page LIKE '/new%'").rowcount == 3
    finally:
        by_hand(served, *(each.format("dedp") for each in owned), "DROP OWNED BY writer; DROP ROLE writer")


def test_every_declared_audience_of_the_database_may_be_a_role():
    """Names that SQL takes unquoted, and policies that show columns that are served."""
    for each in AUDIENCES.of(PAGE_VIEWS):
        assert isinstance(each, Policy)
        assert each.audience.isidentifier()
        assert all(f"{column} " in SERVED for column in each.columns)
