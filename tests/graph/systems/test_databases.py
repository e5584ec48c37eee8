"""Tables of databases that environment variables name: types, and sentences without a secret."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone

import pytest

from dedp_assets.graph.systems.databases import Database, TableColumn
from dedp_assets.patterns.core.errors import ConfigError, PatternError

pytestmark = pytest.mark.budget(30, "a PostgreSQL is started for it")
SECRET = "sesame-4711"  # noqa: S105 - of no server


@pytest.mark.parametrize(
    ("kind", "type_", "natural"),
    [
        ("integer", "INT", True),
        ("numeric(10,2)", "DECIMAL(10,2)", True),
        ("numeric", "STRING", False),
        ("numeric(50,2)", "STRING", False),
        ("timestamp without time zone", "TIMESTAMP", True),
        ("character varying(20)", "STRING", False),
        ("text[]", "ARRAY<STRING>", True),
        ("jsonb", "STRING", False),
        ("bytea", "BINARY", False),
        ("bytea[]", "STRING", False),
    ],
)
def test_a_type_of_the_database_is_one_that_holds_every_value(kind, type_, natural):
    """Text, where no other type does."""
    column = TableColumn(kind, required=False)
    assert (column.type, column.is_natural) == (type_, natural)


def test_a_variable_that_is_not_set_or_holds_no_url_is_a_sentence_without_the_value(monkeypatch):
    """And the schedule says it, in the place of runs."""
    source = Database("public.orders", "ORDERS_URL")
    monkeypatch.delenv("ORDERS_URL", raising=False)
    with pytest.raises(ConfigError, match="ORDERS_URL is not set: it must hold the URL of the database"):
        source.address()
    monkeypatch.setenv("ORDERS_URL", f"jdbc:{SECRET}")
    assert "ORDERS_URL is no PostgreSQL URL" in source.lacks()
    assert SECRET not in source.lacks()
    monkeypatch.setenv("ORDERS_URL", f"postgresql://me:{SECRET}@127.0.0.1:1/shop")
    assert source.lacks().startswith("the database of ORDERS_URL does not answer, or refuses the login")
    assert SECRET not in source.lacks()


DAY = (datetime(2026, 1, 5, tzinfo=timezone.utc), datetime(2026, 1, 6, tzinfo=timezone.utc))
SETTINGS = {
    "datestyle": "German",
    "timezone": "Asia/Tokyo",
    "intervalstyle": "sql_standard",
    "bytea_output": "escape",
    "extra_float_digits": "-5",
    "statement_timeout": "200ms",
    "idle_in_transaction_session_timeout": "200ms",
}
"""What administrators set for people, and what changes the text of values or ends what takes long."""
NAMES = ["r", "raw", "number", "a b", "Order", "select", 'quo"te', "a.b", "100%s", "çé", "?", "$1", "{x}"]


@pytest.fixture
def shop(database, monkeypatch):
    """The connection of a database under odd settings, whose URL is in a variable."""
    who = f"{database.user}:{database.password}" if database.password else database.user
    url = f"{who}@{database.host}:{database.port}/{database.database}"
    monkeypatch.setenv("SHOP", f"postgresql://{url}")
    with database.connect(autocommit=True) as connection:
        for name, value in SETTINGS.items():
            connection.execute(f"ALTER DATABASE {database.database} SET {name} = '{value}'")
        yield connection


def quoted(*names):
    return ".".join('"' + name.replace('"', '""') + '"' for name in names)


def read(session, source, window=DAY):
    """The rows of a window, as JSON objects."""
    with source.rows(session, window) as rows:
        return [json.loads(row["raw"]) for row in rows.collect()]


@pytest.mark.spark
def test_whatever_things_are_called_a_window_shows_its_rows_whole(spark, shop):
    """Schema, table and columns; values are spelt the same whatever is set, and no limit ends the load."""
    kinds = {"a": "double precision", "b": "bytea", "c": "interval", "d": "timestamptz"}
    for name in NAMES:
        table, at = quoted(name, name), f"{name} at"
        columns = ", ".join(f"{quoted(each)} {kind}" for each, kind in kinds.items())
        shop.execute(
            f"CREATE SCHEMA {quoted(name)}; CREATE TABLE {table} ({quoted(name)} int, {columns}, "
            f"{quoted(at)} timestamptz); INSERT INTO {table} SELECT n, 0.1, '\\x00ff', '1 day 02:00', "
            "'2026-01-05 10:00+02', '2026-01-05 00:00+00' FROM generate_series(1, 2) n"
        )
        source = Database(table, "SHOP", column=at)
        assert source.left_out(DAY[0]) == {"without_time": 0, "before_start": 0}
        rows = read(spark, source)
        assert sorted(row.pop(name) for row in rows) == [1, 2]
        same = {"a": 0.1, "b": "AP8=", "c": "P1DT2H", "d": "2026-01-05T08:00:00+00:00"}
        assert rows == [{**same, at: "2026-01-05T00:00:00+00:00"}] * 2
    shop.execute("CREATE VIEW slow AS SELECT n, pg_sleep(0.1)::text, now() AS at FROM generate_series(1, 3) n")
    assert len(read(spark, Database("public.slow", "SHOP"), None)) == 3


@pytest.mark.spark
@pytest.mark.parametrize("kind", ["timestamptz", "timestamp"])
def test_each_row_is_in_one_window_or_among_those_left_out(spark, shop, kind):
    """Infinity, what people write for it, centuries before, and the microseconds around midnight."""
    windowless = [None, "infinity", "-infinity", "9999-12-31", "10000-01-01", "294276-12-31", "0044-03-15 00:00+00 BC"]
    before = ["0001-06-01", "1970-01-01", "2026-01-04 23:59:59.999999"]
    held = [f"2026-01-0{day} {clock}" for day in (5, 6) for clock in ("00:00", "12:00", "23:59:59.999999")]
    shop.execute(f"CREATE TABLE events (number int, at {kind})")
    for number, at in enumerate([*windowless, *before, *held]):
        value = at if at is None or "BC" in at or "infinity" in at else f"{at}+00"
        shop.execute("INSERT INTO events VALUES (%s, %s)", (number, value))
    source = Database("public.events", "SHOP", column="at")
    assert source.left_out(DAY[0]) == {"without_time": len(windowless), "before_start": len(before)}
    for after, numbers in ((0, [10, 11, 12]), (1, [13, 14, 15])):
        window = tuple(bound + timedelta(days=after) for bound in DAY)
        assert sorted(row["number"] for row in read(spark, source, window)) == numbers


@pytest.mark.spark
def test_a_table_of_which_a_policy_shows_some_rows_is_refused(spark, shop, database, monkeypatch):
    """By the count and by the load; the owner, whom no policy limits, reads all rows."""
    shop.execute(
        "CREATE TABLE secured (id int, tenant text, at timestamptz); ALTER TABLE secured ENABLE ROW LEVEL SECURITY;"
        "INSERT INTO secured VALUES (1, 'a', '2026-01-05 10:00+00'), (2, 'b', '2026-01-05 10:00+00');"
        f"CREATE ROLE reader_{database.database} LOGIN PASSWORD '{SECRET}';"
        f"CREATE POLICY own ON secured FOR SELECT TO reader_{database.database} USING (tenant = 'a');"
        f"GRANT SELECT ON secured TO reader_{database.database}"
    )
    source = Database("public.secured", "SHOP", column="at")
    assert len(read(spark, source)) == 2
    where = f"{database.host}:{database.port}/{database.database}"
    monkeypatch.setenv("SHOP", f"postgresql://reader_{database.database}:{SECRET}@{where}")
    for reads in (lambda: source.left_out(DAY[0]), lambda: read(spark, source)):
        with pytest.raises(ConfigError, match=r"row-level security policy.*BYPASSRLS, or name a view") as refused:
            reads()
        assert SECRET not in str(refused.value)


@pytest.mark.parametrize(
    "wrong", ["orders", "a.b.c", "public.", ".orders", "public. orders", 'public."orders', 'a."b"c', ""]
)
def test_a_name_of_another_form_is_refused(wrong):
    """With the form that is right."""
    with pytest.raises(
        PatternError, match=r"table must be schema\.table, not .*; a part with a dot stands in double quotes"
    ):
        Database(wrong, "SHOP")
