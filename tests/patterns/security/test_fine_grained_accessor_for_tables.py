"""Fine-Grained Accessor for Tables."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta

import pytest
from pyspark.sql import functions as F

from dedp_assets.patterns.core.errors import ConfigError, Conflict, NotReady
from dedp_assets.patterns.core.masking import MaskingKey
from dedp_assets.patterns.core.measuring.observing import SPARK_ERRORS
from dedp_assets.patterns.core.policies import secured
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import Table
from dedp_assets.patterns.observability.fine_grained_tracker import trace_columns
from dedp_assets.patterns.security.fine_grained_accessor_for_tables import (
    ColumnMask,
    Policy,
    PolicyLog,
    grant_in_postgres,
    read_for,
    refresh_copy,
)
from tests.contracts.known_calls import known_calls
from tests.helpers import NOW, a_run, read_back
from tests.renaming import STORED, any_names
from tests.two_runs import two_runs

pytestmark = pytest.mark.spark

KEY = MaskingKey("tables-1", b"0123456789abcdef0123456789ABCDEF")
COLUMNS = {
    "id": Column("INT", "person"),
    "name": Column("STRING", "name", classification="personal"),
    "ssn": Column("STRING", "number", classification="personal"),
    "salary": Column("INT", "euros", classification="sensitive"),
    "note": Column("STRING", "note", classification="free text"),
    "region": Column("STRING", "region", classification="public"),
    "store": Column("STRING", "store", classification="public"),
}
PEOPLE = TableSpec("silver/people", COLUMNS, partition_by=("region",))
DDL = ", ".join(f"{name} {column.type}" for name, column in COLUMNS.items())
SSN = ColumnMask(by="shape", value="999-99-9999")
ANALYST = Policy(
    "analyst",
    ["id", "name", "ssn", "region"],
    {"ssn": SSN, "name": ColumnMask("partial", unless="id = 2")},
    "store = 'a'",
)
MANAGER = Policy("manager of the north", ["id", "name", "ssn", "salary", "region", "store"], {}, "region = 'North'")
ADMIN = Policy("admin", [*COLUMNS], {}, rows="true", may_export=True)
POLICIES = [ANALYST, MANAGER, ADMIN]
PERSONS = [
    (1, "Ada Lovelace", "111-22-3331", 8273641, "canary note one", "North", "a"),
    (2, "Eve Online", "111-22-3332", 8273642, "canary note two", "North", "a"),
    (3, "Bob Hidden", "111-22-3333", 8273643, "canary note three", "South", "b"),
    (4, "Dan Southern", None, None, None, "South", "a"),
]


def made(spark, folder, rows, name="silver/people"):
    table = Table(replace(PEOPLE, name=name), folder / name, spark)
    table.overwrite(spark.createDataFrame(rows, DDL), provenance=a_run(name, run_id="first"))
    return table


@pytest.fixture(scope="module")
def people(spark, tmp_path_factory):
    return made(spark, tmp_path_factory.mktemp("people"), PERSONS)


def seen(table, audience, policies=POLICIES, **options):
    return sorted(
        [tuple(row) for row in read_for(table, KEY, policies=policies, audience=audience, **options).collect()],
        key=repr,
    )


# --- three identities ------------------------------------------------------------------------------------------------


@pytest.mark.both
def test_one_query_under_three_identities_shows_the_matrix_of_policies(people):
    """Acceptance 1, AC-8.3-2: columns, rows and cells of each; the same query of all."""
    assert seen(people, "analyst") == [
        (1, "Ada***", "XXX-XX-3331", "North"),
        (2, "Eve Online", "XXX-XX-3332", "North"),
        (4, "Dan***", None, "South"),
    ]
    assert seen(people, "manager of the north") == [
        (1, "Ada Lovelace", "111-22-3331", 8273641, "North", "a"),
        (2, "Eve Online", "111-22-3332", 8273642, "North", "a"),
    ]
    assert seen(people, "admin") == PERSONS


PROBES = {
    "SELECT count(*), max(id), count(DISTINCT region) FROM {t}": [(3, 4, 2)],
    "SELECT count(*) FROM {t} AS a JOIN {t} AS b USING (region)": [(5,)],
    "SELECT id FROM {t} AS a WHERE EXISTS (SELECT 1 FROM {t} AS b WHERE b.ssn LIKE '111%')": [],
    "SELECT id FROM {t} WHERE if(region = 'East', raise_error(region), id = 4)": [(4,)],
    "SELECT id FROM {t} WHERE region = 'South' AND if(name LIKE 'Bob%', raise_error(name), true)": [(4,)],
    "SELECT min(region), max(region) FROM {t} WHERE id <> 4": [("North", "North")],
    "SELECT id FROM {t} WHERE 1 / (length(region) - 4) > 0 AND id = 1": [(1,)],
    "SELECT _metadata.file_path FROM {t}": "UNRESOLVED_COLUMN",
    "SELECT id FROM {t} ORDER BY salary": "UNRESOLVED_COLUMN",
}


@pytest.mark.both
def test_questions_to_a_table_are_answered_from_visible_rows(spark, tmp_path):
    """Acceptance 3: Delta's own pruning of partitions evaluates nothing over rows and partitions that are hidden."""
    table = made(spark, tmp_path, [*PERSONS, (5, "Zoë", None, 5, None, "East", "b")])
    rows = read_for(table, KEY, policies=POLICIES, audience="analyst")
    for query, expected in PROBES.items():
        if isinstance(expected, str):
            with pytest.raises(SPARK_ERRORS, match=expected):
                spark.sql(query, t=rows).collect()
        else:
            assert (query, [tuple(row) for row in spark.sql(query, t=rows).collect()]) == (query, expected)


def test_column_lineage_passes_a_policy(people):
    """What an audience computes comes from columns of the table, and the filter is an influence."""
    lineage = trace_columns(read_for(people, KEY, policies=POLICIES, audience="analyst"))
    assert {name: {each.column for each in origin.inputs} for name, origin in lineage.columns.items()} == {
        "id": {"id"},
        "name": {"name"},
        "ssn": {"ssn"},
        "region": {"region"},
    }
    assert ("store", "FILTER") in {(each.column, each.effect) for each in lineage.influences}


def test_an_audience_without_a_policy_sees_nothing(people):
    """Acceptance 4, AC-8.3-2: denied by a sentence; a policy without a filter of rows shows columns and no rows."""
    with pytest.raises(ConfigError, match="intern has no policy for silver/people, so that nothing is shown"):
        read_for(people, policies=POLICIES, audience="intern")
    with pytest.raises(ConfigError, match="Admin has no policy"):
        read_for(people, policies=POLICIES, audience="Admin")
    with pytest.raises(ConfigError, match="policies must have one policy of admin for silver/people, not 2"):
        read_for(people, policies=[ADMIN, ADMIN], audience="admin")
    assert seen(people, "no group", [Policy("no group", ["id"])]) == []


def test_a_new_column_and_an_old_version_are_read_by_the_policy_of_today(spark, tmp_path):
    """Acceptance 3, 4, 7: a column that the table gets later is hidden; time travel shows no more than today."""
    table = made(spark, tmp_path, PERSONS)
    first = table.ledger.version()
    table.overwrite(spark.createDataFrame(PERSONS[:1], DDL), provenance=a_run(table.name, run_id="second"))
    assert [row[0] for row in seen(table, "analyst", version=first)] == [1, 2, 4]
    tight = [replace(ANALYST, columns=["id"], masks={}, rows="id = 2")]
    assert seen(table, "analyst", tight, version=first) == [(2,)]
    assert seen(table, "analyst", tight) == []
    wide = TableSpec("silver/people", {**COLUMNS, "iban": Column("STRING", classification="personal")}, ("region",))
    again = Table(wide, table.location, spark)
    rows = spark.createDataFrame(PERSONS, DDL).withColumn("iban", F.lit("DE00canary"))
    again.overwrite(rows, provenance=a_run(table.name, run_id="third"))
    assert "iban" not in read_for(again, policies=POLICIES, audience="analyst").columns
    assert "iban" not in read_for(again, policies=POLICIES, audience="admin").columns
    with pytest.raises(ConfigError, match="the policy of admin for silver/people names iban, which the rows do not"):
        read_for(again, policies=[replace(ADMIN, columns=["id", "iban"])], audience="admin", version=first)


def test_partitions_are_named_by_columns_in_the_clear_alone(people):
    """A partition of a hidden or masked column would tell the column's value."""
    assert [row[0] for row in seen(people, "analyst", partitions=[{"region": "South"}])] == [4]
    hidden = [replace(ANALYST, columns=["id"], masks={})]
    masked = [replace(ANALYST, masks={"region": ColumnMask("null", unless="true")})]
    for policies in (hidden, masked):
        with pytest.raises(ConfigError, match=r"partitions must be of columns that analyst sees in the clear.*region"):
            read_for(people, policies=policies, audience="analyst", partitions=[{"region": "South"}])


# --- copies ----------------------------------------------------------------------------------------------------------

BY_REGION = ("region",)
COPY = TableSpec("serving/people for the analyst", {name: COLUMNS[name] for name in ANALYST.columns}, BY_REGION)


class Copied:
    """A base, and its copy for the analyst."""

    def __init__(self, spark, folder, spec=COPY):
        self.spark, self.runs = spark, 0
        self.base, self.copy = made(spark, folder, PERSONS), Table(spec, folder / "copy", spark)

    def refresh(self, policies=POLICIES, *, region="", key=KEY, **options):
        self.runs += 1
        into = self.copy.target(f"run-{self.runs}", partition={"region": region} if region else None)
        return refresh_copy(self.base, into, key, policies=policies, audience="analyst", **options)

    def write(self, region, *rows):
        self.runs += 1
        frame = self.spark.createDataFrame(rows, DDL)
        self.base.overwrite(frame, partition={"region": region}, provenance=a_run(run_id=f"base-{self.runs}"))

    def is_the_view(self, policies=POLICIES):
        view = secured(self.base.read(), policies[0], KEY).collect()
        stored = [tuple(row[column] for column in ANALYST.columns) for row in read_back(self.copy)]
        shown = seen(self.copy, "analyst", policies)
        return sorted(map(tuple, view), key=repr) == sorted(stored, key=repr) == shown


@pytest.fixture
def copied(spark, tmp_path):
    return Copied(spark, tmp_path)


def test_a_copy_is_the_secured_view_and_follows_the_base_in_the_run_that_writes_it(copied):
    """Acceptance 6: row by row, by the partition of the run alone, and all of it where others changed, too."""
    assert copied.refresh(region="North").partition == {}
    assert copied.is_the_view()
    copied.write("North", (7, "Grace Hopper", "777-77-7777", 1, "n", "North", "a"))
    result = copied.refresh(region="North")
    assert (result.partition, result.rows.written) == ({"region": "North"}, 1)
    assert copied.is_the_view()
    again = copied.refresh(region="North")
    assert (again.applied, again.changed) == (False, False)
    assert "the same rows as at version" in again.reason
    copied.write("South")
    copied.write("North", *PERSONS[:2])
    assert copied.refresh(region="North").partition == {}
    assert copied.is_the_view()
    assert [row[0] for row in seen(copied.copy, "analyst")] == [1, 2]


def test_a_tightened_policy_leaves_nothing_to_read_in_a_copy(copied):
    """Acceptance 6, 7: refused until it is refreshed, then all rows are others; older versions stay refused."""
    copied.refresh()
    before = copied.copy.ledger.version()
    tight = [replace(ANALYST, masks={**ANALYST.masks, "name": ColumnMask("null")}, rows="id = 1"), *POLICIES[1:]]
    with pytest.raises(NotReady, match=r"was written by another policy of analyst than the one of today.*refresh it"):
        read_for(copied.copy, KEY, policies=tight, audience="analyst")
    assert copied.refresh(tight, region="North").partition == {}
    assert seen(copied.copy, "analyst", tight) == [(1, None, "XXX-XX-3331", "North")]
    assert copied.is_the_view(tight)
    with pytest.raises(NotReady, match="another policy"):
        read_for(copied.copy, KEY, policies=tight, audience="analyst", version=before)
    with pytest.raises(NotReady, match="is a copy for analyst, not for admin"):
        read_for(copied.copy, policies=POLICIES, audience="admin")


def test_what_somebody_else_wrote_into_a_copy_is_read_by_the_policy(copied):
    """A write past the refresh, and a RESTORE, are rows like those of any table."""
    policy = replace(ANALYST, rows="id <> 2")
    copied.refresh([policy])
    raw = copied.spark.createDataFrame([(9, "Nobody Known", "111-22-3339", "South"), (2, "x", "y", "South")], COPY_DDL)
    copied.copy.overwrite(raw, partition={"region": "South"}, provenance=a_run(run_id="by hand"))
    assert (9, "Nob***", "XXX-XX-3339", "South") in seen(copied.copy, "analyst", [policy])
    assert 2 not in [row[0] for row in seen(copied.copy, "analyst", [policy])]
    assert copied.refresh([policy]).changed
    assert copied.is_the_view([policy])


COPY_DDL = ", ".join(f"{name} {COLUMNS[name].type}" for name in ANALYST.columns)


def test_a_copy_follows_a_rotated_key_and_shows_none_in_its_commit(spark, tmp_path):
    """A hash under another key is another value; the record says policy, key id and version."""
    world = Copied(spark, tmp_path)
    policies = [replace(ANALYST, masks={**ANALYST.masks, "name": ColumnMask("hash")})]
    world.refresh(policies)
    assert world.is_the_view(policies)
    rotated = MaskingKey("tables-2", bytes(range(32)))
    with pytest.raises(NotReady, match="or under another key"):
        read_for(world.copy, rotated, policies=policies, audience="analyst")
    assert world.refresh(policies, key=rotated).changed
    record = world.copy.ledger.commit(world.copy.ledger.version()).record
    note = record.notes["copy for an audience"]
    assert (note["audience"], note["policy"], note["key"]) == ("analyst", policies[0].digest, "tables-2")
    assert note["version"] == world.base.ledger.version()
    assert rotated.secret.hex() not in str(record)
    assert "111-22" not in str(record)


def test_a_refresh_that_goes_back_or_calls_values_harmless_is_refused(spark, tmp_path):
    """Versions of the base in order; a column in the clear keeps its class."""
    world = Copied(spark, tmp_path)
    world.write("South")
    world.refresh()
    with pytest.raises(Conflict, match=r"shows version 2 of silver/people: version must be newer, not 1"):
        world.refresh(version=1)
    harmless = {**COPY.columns, "name": Column("STRING", classification="public")}
    loose = Copied(spark, tmp_path / "loose", replace(COPY, columns=harmless))
    with pytest.raises(ConfigError, match="must declare name as personal, as the base does, not as public"):
        loose.refresh()


# --- changes of policies ---------------------------------------------------------------------------------------------


def test_changes_of_policies_are_on_record_and_in_force_at_the_next_read(people, tmp_path):
    """Acceptance 7: who, when, and what, from what; declared again, nothing is written; a removed one denies."""
    log = PolicyLog(tmp_path / "log" / "policies.jsonl")
    assert log.current(people.name) == []
    assert log.declare(people.name, POLICIES, by="ada", at=NOW) == 3
    assert log.declare(people.name, POLICIES, by="eve", at=NOW) == 0
    assert log.current(people.name) == POLICIES
    assert len(seen(people, "analyst", log.current(people.name))) == 3
    tight = replace(ANALYST, rows="id = 1", max_rows=5)
    assert log.declare(people.name, [tight, MANAGER], by="eve", at=NOW + timedelta(days=1)) == 2
    assert log.declare("silver/other", [tight], by="bob", at=NOW) == 1
    assert len(seen(people, "analyst", log.current(people.name))) == 1
    with pytest.raises(ConfigError, match="admin has no policy"):
        read_for(people, policies=log.current(people.name), audience="admin")
    changed = log.changes(people.name)[-2:]
    assert [(each["by"], each["audience"], each["at"]) for each in changed] == [
        ("eve", "analyst", "2026-01-21T12:00:00+00:00"),
        ("eve", "admin", "2026-01-21T12:00:00+00:00"),
    ]
    assert (changed[0]["before"]["rows"], changed[0]["after"]["rows"]) == ("store = 'a'", "id = 1")
    assert changed[1]["after"] is None
    assert len(log.changes()) == 6
    with pytest.raises(ConfigError, match="one policy for each audience"):
        log.declare(people.name, [ANALYST, ANALYST], by="ada", at=NOW)


def test_a_change_that_several_runs_declare_at_once_is_on_record_once(tmp_path):
    """Twenty runs that find a new policy at the same time leave one line for each audience."""
    log = PolicyLog(tmp_path / "new folder" / "policies.jsonl")
    with ThreadPoolExecutor(20) as pool:
        noted = list(pool.map(lambda run: log.declare("t", POLICIES, by=f"run {run}", at=NOW), range(20)))
    assert sorted(noted) == [0] * 19 + [3]
    assert [each["audience"] for each in log.changes()] == [each.audience for each in POLICIES]


# --- PostgreSQL ------------------------------------------------------------------------------------------------------


@pytest.fixture
def store(database):
    """A table of a PostgreSQL with two audiences and their roles."""
    names = ("anna", "ben o'neil", "writer", "super ben")
    with database.connect(autocommit=True) as connection:
        for name in names:
            connection.execute(f'CREATE ROLE "{name}" LOGIN')
        connection.execute(
            'CREATE TABLE "the people" (id INT, name TEXT, ssn VARCHAR(20), pay INT, born DATE, "region" TEXT)'
        )
        connection.execute(
            """INSERT INTO "the people" VALUES (1, 'Ada Lovelace', '111-22-3331', 1, '1815-12-10', 'North'),
            (2, 'Eve', 'no number', 2, '1990-01-01', 'South'), (3, NULL, NULL, NULL, NULL, 'North')"""
        )
        connection.execute('GRANT ALL ON "the people" TO PUBLIC, writer; GRANT SELECT (ssn) ON "the people" TO anna')
    yield database
    with database.connect(autocommit=True) as connection:
        for name in (*names, "dedp_masks"):
            if connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (name,)).fetchone():
                connection.execute(f'DROP OWNED BY "{name}" CASCADE')
                connection.execute(f'DROP ROLE "{name}"')


SERVED = [
    Policy(
        "anna",
        ["id", "name", "ssn", "pay", "born", "region"],
        {
            "ssn": SSN,
            "name": ColumnMask("partial", unless="region = 'South'"),
            "pay": ColumnMask("constant", value="0"),
            "born": ColumnMask("null"),
        },
        rows="region = 'North' OR id = 2 OR name LIKE '{0}%s%'",
    ),
    Policy("ben o'neil", ["id", "region"], {}, rows="region = 'North'"),
]
TABLE = "public.the people"


def granted(store, policies=SERVED, **options):
    return grant_in_postgres(store.connect, policies=policies, table=TABLE, keep=["writer"], **options)


def asked(store, role, query):
    """What a role is answered; the text of a refusal."""
    import psycopg

    with store.connect(autocommit=True) as connection:
        connection.execute(f'SET SESSION AUTHORIZATION "{role}"')
        try:
            return sorted(connection.execute(query).fetchall())
        except psycopg.Error as error:
            return str(error).partition("\n")[0]


@pytest.mark.slow
def test_postgresql_shows_what_the_policies_say(store):
    """Acceptance 1, 2, 4 in the serving database: grants, rows and masks of each role; nothing else is granted."""
    finding = granted(store)
    assert not finding.passed
    for said in (
        "row security is not enabled",
        "row security is not forced",
        "public may SELECT",
        "anna may SELECT ssn",
    ):
        assert said in finding.note
    finding = granted(store, apply=True)
    assert (finding.passed, finding.note, finding.figures["differences"]) == (True, "", 0)
    assert granted(store, apply=True).figures["changed"] == 0
    view = '"the people for anna"'
    assert asked(store, "anna", f"SELECT * FROM {view}") == [
        (1, "Ada***", "XXX-XX-3331", 0, None, "North"),
        (2, "Eve", "XXX-XX-XXXX", 0, None, "South"),
        (3, None, None, None, None, "North"),
    ]
    for query in (f"SELECT id FROM {view} WHERE ssn = '111-22-3331'", f"SELECT id FROM {view} WHERE pay = 1"):
        assert asked(store, "anna", query) == []
    assert asked(store, "anna", 'SELECT id, region FROM "the people"') == [(1, "North"), (2, "South"), (3, "North")]
    assert asked(store, "ben o'neil", 'SELECT id, region FROM "the people"') == [(1, "North"), (3, "North")]
    assert asked(store, "ben o'neil", 'SELECT count(*) FROM "the people" a, "the people" b') == [(4,)]
    assert len(asked(store, "writer", 'SELECT * FROM "the people"')) == 3
    refused = [
        ("anna", 'SELECT ssn FROM "the people"'),
        ("anna", 'SELECT id FROM "the people" WHERE ssn IS NULL'),
        ("ben o'neil", 'SELECT * FROM "the people"'),
        ("ben o'neil", f"SELECT * FROM {view}"),
        ("ben o'neil", 'DELETE FROM "the people"'),
        ("super ben", 'SELECT id FROM "the people"'),
    ]
    for role, query in refused:
        assert "permission denied" in asked(store, role, query), (role, query)
    leak = "CREATE FUNCTION pg_temp.leak(TEXT) RETURNS BOOLEAN LANGUAGE plpgsql COST 0.0001 AS "
    leak += "$$ BEGIN RAISE EXCEPTION 'saw %', $1; END $$; SELECT id FROM "
    assert "saw North" in asked(store, "ben o'neil", f"""{leak} "the people" WHERE pg_temp.leak(region)""")
    assert "saw 111" not in asked(store, "anna", f"{leak} {view} WHERE pg_temp.leak(ssn)")


@pytest.mark.slow
def test_what_passes_the_policies_of_postgresql_is_found(store):
    """Views of others, tables without FORCE, BYPASSRLS, roles of several audiences, policies that somebody changed."""
    assert granted(store, apply=True).passed

    def found(statement, undo):
        with store.connect(autocommit=True) as connection:
            connection.execute(statement)
            finding = granted(store)
            connection.execute(undo)
        return finding.note

    view = 'VIEW leaky {} AS SELECT * FROM "the people"'
    wrong = {
        ("CREATE " + view.format(""), "DROP VIEW leaky"): "view public.leaky of .* shows rows past the policies",
        ("CREATE MATERIALIZED " + view.format(""), "DROP MATERIALIZED VIEW leaky"): "view public.leaky of .* past",
        ('ALTER TABLE "the people" NO FORCE ROW LEVEL SECURITY', 'ALTER TABLE "the people" FORCE ROW LEVEL SECURITY'): (
            "row security is not forced"
        ),
        ("ALTER ROLE anna BYPASSRLS", "ALTER ROLE anna NOBYPASSRLS"): "role anna passes row security",
        ("ALTER ROLE anna SUPERUSER", "ALTER ROLE anna NOSUPERUSER"): "role anna passes row security",
        ("""GRANT "ben o'neil" TO "super ben", anna""", """REVOKE "ben o'neil" FROM "super ben", anna"""): (
            r"role anna is of several audiences \(anna, ben o'neil\)"
        ),
        ('GRANT SELECT (pay) ON "the people" TO "super ben"', 'REVOKE ALL ON "the people" FROM "super ben"'): (
            "super ben may SELECT pay"
        ),
        ("""CREATE POLICY more ON "the people" USING (true)""", 'DROP POLICY more ON "the people"'): "more is nobody's",
    }
    for (statement, undo), said in wrong.items():
        note = found(statement, undo)
        assert re.search(said, note), (statement, note)
        assert granted(store).passed
    assert found("CREATE " + view.format("WITH (security_invoker = true)"), "DROP VIEW leaky") == ""
    with store.connect(autocommit=True) as connection:
        connection.execute("""ALTER POLICY "dedp for anna" ON "the people" USING (true)""")
        clear = "SELECT id, name, CAST(ssn AS VARCHAR) AS ssn, pay, born, region"
        connection.execute(f'CREATE OR REPLACE VIEW "the people for anna" AS {clear} FROM "the people"')
    finding = granted(store)
    assert "policy dedp for anna is another one" in finding.note
    assert "view the people for anna is another one" in finding.note
    assert granted(store, SERVED[1:], apply=True).passed
    assert "does not exist" in asked(store, "anna", 'SELECT * FROM "the people for anna"')
    assert "permission denied" in asked(store, "anna", 'SELECT id FROM "the people"')


@pytest.mark.slow
@pytest.mark.parametrize(
    ("policy", "said"),
    [
        (Policy("anna", ["id", "gone"], rows="true"), "names .'gone'., which is not there"),
        (Policy("nobody", ["id"], rows="true"), "audiences must be roles of the server, not .'nobody'."),
        (Policy("anna", ["id"], {"id": ColumnMask("hash")}, "true"), "the key would be in the server"),
        (
            Policy("anna", ["id"], {"id": ColumnMask("partial")}, "true"),
            "mask of id by partial takes a text and no integer",
        ),
        (Policy("anna", ["id"], rows="a) OR (true"), "PostgreSQL refuses a policy"),
        (Policy("anna", ["id"], rows="""true THEN true END); DROP TABLE "the people"; --"""), "refuses a policy"),
        (Policy("anna", ["id"], rows="id IN (SELECT 1)"), "must be of one row"),
        (Policy("anna", ["id"], rows="region"), "PostgreSQL refuses a policy"),
        (
            Policy("anna", ["born"], {"born": ColumnMask("constant", value="someday")}, "true"),
            "PostgreSQL refuses a policy",
        ),
        (Policy("a" * 60, ["id"], rows="true"), "must have at most 63 bytes"),
    ],
)
def test_a_policy_that_postgresql_cannot_hold_changes_nothing(store, policy, said):
    """By a sentence; grants are as before, and nothing of a predicate is a statement of its own."""
    before = granted(store).note
    with pytest.raises(ConfigError, match=said):
        granted(store, [policy], apply=True)
    assert granted(store).note == before
    assert len(asked(store, "writer", 'SELECT * FROM "the people"')) == 3


# --- contracts -------------------------------------------------------------------------------------------------------


@any_names(STORED, handed_on=["id", "note"])
def a_table_and_its_copy(n):
    columns = "id INT, name STRING, note STRING, store STRING"
    base = n.table(columns)
    base.overwrite(n.frame(columns, (1, "Ada Lovelace", "x", "a"), (2, "Eve", "y", "b")), provenance=a_run())
    store = "`" + n("store").replace("`", "``") + "`"
    policy = Policy("a", [n("id"), n("name"), n("note")], {n("name"): ColumnMask("partial")}, f"{store} = 'a'")
    yield read_for(base, policies=[policy], audience="a")
    copy = n.table("id INT, name STRING, note STRING")
    refresh_copy(base, copy.target(a_run()), policies=[policy], audience="a")
    yield copy


@known_calls
def calls_that_work(known):
    base = known.table("silver/shown", "id INT, day STRING", (1, "mon"), by=("day",))
    copy = known.table("gold/seen", "id INT, day STRING", by=("day",))
    policies = [Policy("a", ["id", "day"], rows="true")]
    shared = {"policies": policies, "key": KEY, "audience": "a", "version": None}
    return {
        "read_for": {"table": base, **shared, "partitions": [{"day": "mon"}]},
        "refresh_copy": {"base": base, "into": copy.target(known.run), **shared},
        "grant_in_postgres": {
            "connect": known.begin,
            "policies": policies,
            "table": "public.base",
            "keep": ["writer"],
            "apply": False,
        },
    }


@two_runs()
def copied_at_once(world):
    columns = "id INT, day STRING"
    base = world.table("base", columns, by=["day"])
    world.table("copy", columns, by=["day"])
    policy = Policy("a", ["id", "day"], {"id": ColumnMask("constant", value="7")}, "true")

    def add(w, name, day):
        w["base"].overwrite(w.frame(columns, (1, day)), partition={"day": day}, provenance=a_run("base", run_id=name))

    def refreshed(w, name, version=None, **changed):
        policies = [replace(policy, **changed)]
        refresh_copy(w["base"], w.into("copy", name), policies=policies, audience="a", version=version)

    add(world, "first", "mon")
    refreshed(world, "base")
    add(world, "second", "tue")
    newest = base.ledger.version()
    yield lambda w: refreshed(w, "1", newest)
    yield lambda w: refreshed(w, "2", newest, masks={"id": ColumnMask("null")})
