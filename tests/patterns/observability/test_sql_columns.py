"""Column lineage of SQL texts that nobody runs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedp_assets.patterns.observability._sql_columns import EVERY, trace_sql

SCHEMAS = {
    "users": {"id": "BIGINT", "first_name": "STRING", "country": "STRING", "tags": "ARRAY<STRING>",
              "device": "STRUCT<os: STRING, cpu: STRING>"},
    "silver.orders": {"id": "BIGINT", "user_id": "BIGINT", "amount": "DOUBLE", "status": "STRING"},
}  # fmt: skip

# Statement -> by hand: inputs of each column, then the influences.
READINGS = {
    "SELECT * FROM users": (
        "country: =users.country; device: =users.device; first_name: =users.first_name; id: =users.id; "
        "tags: =users.tags",
        "",
    ),
    "SELECT sum(amount) AS total FROM {orders} WHERE status = 'x'": ("total: +orders.amount", "FILTER orders.status"),
    "WITH a AS (SELECT upper(first_name) AS n, id FROM users) SELECT a.n, o.amount FROM a "
    "JOIN silver.orders o ON a.id = o.user_id": (
        "amount: =silver.orders.amount; n: ~users.first_name",
        "JOIN silver.orders.user_id, JOIN users.id",
    ),
    "SELECT device.os AS os, row_number() OVER (PARTITION BY country ORDER BY id) AS n FROM users": (
        "n: ; os: =users.device.os",
        "WINDOW users.country, WINDOW users.id",
    ),
    "SELECT CASE WHEN country = 'de' THEN first_name END AS n FROM users UNION ALL SELECT status FROM silver.orders": (
        "n: =silver.orders.status ~users.first_name",
        "CONDITIONAL users.country",
    ),
    "SELECT id FROM users u WHERE EXISTS (SELECT 1 FROM silver.orders o WHERE o.user_id = u.id)": (
        "id: =users.id",
        "FILTER silver.orders.user_id, FILTER users.id",
    ),
    "MERGE INTO silver.orders t USING (SELECT id, upper(country) AS c, first_name FROM users) s ON t.user_id = s.id "
    "WHEN MATCHED AND s.first_name IS NOT NULL THEN UPDATE SET status = s.c "
    "WHEN NOT MATCHED THEN INSERT (id, status) VALUES (s.id, s.first_name)": (
        "id: =users.id; status: =users.first_name ~users.country",
        "FILTER users.first_name, JOIN silver.orders.user_id, JOIN users.id",
    ),
    "INSERT INTO silver.orders (id, status) SELECT id, concat(first_name, country) FROM users": (
        "id: =users.id; status: ~users.country ~users.first_name",
        "",
    ),
    "CREATE TABLE x AS SELECT country AS land FROM users GROUP BY country": (
        "land: =users.country",
        "GROUP_BY users.country",
    ),
    "UPDATE users SET first_name = upper(country) WHERE id = 1": ("first_name: ~users.country", "FILTER users.id"),
}  # fmt: skip
SIGNS = {"IDENTITY": "=", "TRANSFORMATION": "~", "AGGREGATION": "+"}


def written(lineage):
    """A lineage in the form of the readings."""
    columns = [
        f"{name}: {' '.join(sorted(f'{SIGNS[i.transformation]}{i}' for i in each.inputs))}"
        for name, each in sorted(lineage.columns.items())
    ]
    return "; ".join(columns), ", ".join(sorted(f"{each.effect} {each}" for each in lineage.influences))


@pytest.mark.parametrize("sql", READINGS)
def test_a_statement_has_the_lineage_that_a_person_reads_in_it(sql):
    """Queries, and statements that write; a placeholder is a table, and MERGE writes what its clauses set."""
    lineage = trace_sql(sql, {**SCHEMAS, "orders": SCHEMAS["silver.orders"]})
    assert not lineage.gaps, lineage.gaps
    assert written(lineage) == READINGS[sql]


def test_what_the_text_does_not_tell_is_opaque():
    """A field of a struct that the statement makes; a table without a schema."""
    made = trace_sql("SELECT s.n FROM (SELECT named_struct('n', first_name, 'c', country) AS s FROM users)", SCHEMAS)
    assert all(each.opaque or [i.path for i in each.inputs] == ["first_name"] for each in made.columns.values())
    assert trace_sql("SELECT a FROM unknown_table", SCHEMAS).columns[EVERY].opaque


@given(st.sampled_from([*READINGS]), st.integers(0, 60), st.text(" ()*,'`;{}ab", max_size=3))
def test_a_text_that_cannot_be_parsed_still_names_its_tables(sql, place, piece):
    """With a marker, and never an error."""
    lineage = trace_sql(sql[:place] + piece + sql[place:], SCHEMAS)
    assert lineage.columns or lineage.gaps
    broken = trace_sql("SELEC x FRO FROM users JOIN silver.orders ON (", SCHEMAS)
    assert [str(each) for each in broken.columns[EVERY].inputs] == ["silver.orders.*", "users.*"]
    assert broken.columns[EVERY].opaque
