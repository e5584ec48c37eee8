"""`dedp sql`: one SELECT over the tables, in which no part meets a masked value or a hidden row."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from dataclasses import replace
from datetime import date, datetime, timezone

import pyarrow as pa
import pytest

from dedp_assets.commands._rows import as_records
from dedp_assets.graph.catalogue.row_views import LakeRows
from dedp_assets.graph.resources.environments import settings
from dedp_assets.graph.resources.lake import Lake
from dedp_assets.patterns.core.errors import PatternError
from dedp_assets.patterns.core.policies import ColumnMask, Policy
from dedp_assets.patterns.security.fine_grained_accessor_for_tables import PolicyLog
from tests.row_worlds import row_world

CLASSES = {"mail": "personal", "born": "sensitive", "token": "secret", "note": "free text", "zip": "quasi"}
ORDERS = pa.table({"id": [1, 2, 3, 4], "person": [1, 1, 2, 9], "amount": [10, 20, 30, 40], "day": ["a", "b", "a", "b"]})


def persons(*, other: bool) -> pa.Table:
    """Persons, and others of whom nothing is the same that is masked, except what is NULL."""
    mails = (
        ["bob@example.org", None, "Eve@x", "7"] if other else ["ada@example.org", None, "grace@navy.example", "1815"]
    )
    return pa.table(
        {
            "id": [1, 2, 3, 4],
            "city": ["London", "Paris", "London", None],
            "mail": mails,
            "born": pa.array([date(1900 + 7 * n if other else 1815 - n, 3, 4) for n in range(4)]),
            "token": [f"{'t0ken' if other else 's3cret'}-{n}" for n in range(4)],
            "note": ["likes tea" if other else "is ill", "", "x", "y"][::-1] if other else ["is ill", "", "x", "y"],
            "zip": [5, 6, 7, 8] if other else [1, 2, 3, 4],
            "nested": [{"mail": mail} for mail in mails],
        }
    )


@pytest.fixture
def worlds(monkeypatch, capsys, tmp_path):
    """Two homes that differ in masked values alone."""
    found = [row_world(monkeypatch, capsys, tmp_path / name) for name in ("one", "two")]
    for world, other in zip(found, (False, True), strict=True):
        world.store("silver/people", persons(other=other), {**CLASSES, "nested": "personal"})
        world.store("gold/orders", ORDERS, partition_by=["day"])
    return found


@pytest.fixture
def world(worlds):
    """The first of the homes."""
    return worlds[0]


def test_tables_are_named_by_layer_and_dataset_in_both_spellings(world):
    """Joined, grouped and ordered; as a grid and as a document."""
    query = (
        'SELECT city, sum(amount) AS amount FROM "silver/people" p JOIN gold.orders o ON o.person = p.id '
        "GROUP BY city ORDER BY city"
    )
    assert world.document("sql", query) == {
        "rows": [{"city": "London", "amount": 30}, {"city": "Paris", "amount": 30}],
        "more": False,
    }
    code, out, _ = world.sql(query)
    assert code == 0
    assert [line.split("│")[1:3] for line in out.splitlines() if "London" in line] == [[" London ", " 30     "]]
    assert world.document("sql", 'SELECT count(*) AS n FROM "gold"."orders"')["rows"] == [{"n": 4}]
    assert world.document("sql", "SELECT count(*) AS n FROM `gold/orders`")["rows"] == [{"n": 4}]


def test_an_answer_is_limited(world):
    """With a remark, or a truth in the document; without a row it is no error."""
    found = world.document("sql", "SELECT id FROM gold.orders ORDER BY id", "--limit", "2")
    assert found == {"rows": [{"id": 1}, {"id": 2}], "more": True}
    assert "There are further rows: --limit." in world.sql("SELECT id FROM gold.orders", "--limit", "3")[1]
    assert world.sql("SELECT id FROM gold.orders WHERE id > 9") == (0, "no row\n", "")
    assert world.sql("SELECT 1", "--limit", "0")[0] == 2


REFUSED = [
    ("", "sql must be one SELECT, not EOF"),
    ("DROP TABLE gold.orders", "sql must be one SELECT, not DROP"),
    ("DELETE FROM gold.orders", "sql must be one SELECT, not DELETE"),
    ("UPDATE gold.orders SET id = 1", "sql must be one SELECT, not UPDATE"),
    ("INSERT INTO gold.orders SELECT * FROM gold.orders", "sql must be one SELECT, not INSERT"),
    (
        "MERGE INTO gold.orders USING gold.orders s ON true WHEN MATCHED THEN DELETE",
        "sql must be one SELECT, not MERGE",
    ),
    ("WITH a AS (SELECT 1) INSERT INTO gold.orders SELECT * FROM a", "sql must be one SELECT, not INSERT"),
    ("CREATE TABLE x AS SELECT 1", "sql must be one SELECT, not CREATE"),
    ("CREATE EXTERNAL TABLE x STORED AS CSV LOCATION '/etc/hostname'", "sql must be one SELECT, not CREATE"),
    ("CREATE VIEW x AS SELECT 1", "sql must be one SELECT, not CREATE"),
    ("COPY (SELECT 1) TO 'x.csv'", "sql must be one SELECT, not COPY"),
    ("COPY gold.orders TO 'x.parquet'", "sql must be one SELECT, not COPY"),
    ("EXPLAIN SELECT * FROM silver.people", "sql must be one SELECT, not EXPLAIN"),
    ("SET datafusion.catalog.information_schema = true", "sql must be one SELECT, not SET"),
    ("SHOW TABLES", "sql must be one SELECT, not SHOW"),
    ("DESCRIBE silver.people", "sql must be one SELECT, not DESCRIBE"),
    ("SELECT 1; DROP TABLE gold.orders", "sql must be one SELECT, not several statements"),
    ("SELECT 1; SELECT 2", "sql must be one SELECT, not several statements"),
    ("SELECT id INTO x FROM gold.orders", "sql must be one SELECT that returns rows, not SELECT INTO"),
    ("SELECT 1 FROM gold/orders", 'sql must name a table as gold.orders or "gold/orders"'),
    ("SELECT 1 FROM gold.order", "such as gold/orders"),
    ("SELECT 1 FROM orders", "table must be one of the project"),
    ("SELECT amont FROM gold.orders", "Did you mean 'gold.orders.amount'?"),
    ("SELECT nosuch(id) FROM gold.orders", "Invalid function 'nosuch'"),
    ("SELEC 1", "sql must be one SELECT, not SELEC"),
    ("SELECT id FROM gold.orders WHERE", "sql cannot be evaluated"),
    ("SELECT 1/0", "sql cannot be evaluated: Divide by zero"),
    ("SELECT * FROM '/etc/hostname'", "table must be one of the project"),
    ("SELECT * FROM gold.orders VERSION AS OF 0", "sql cannot be evaluated"),
    ("SELECT * FROM __dedp_rows0", "table must be one of the project"),
    ("SELECT o.id FROM gold.orders o, __dedp_rows0 r", "table must be one of the project"),
    ("SELECT * FROM information_schema.tables", "table must be one of the project"),
]


@pytest.mark.parametrize(("query", "sentence"), REFUSED, ids=range(len(REFUSED)))
def test_anything_but_one_select_of_known_names_is_refused(world, monkeypatch, tmp_path, query, sentence):
    """In one line; nothing is written, into no table and no file."""
    monkeypatch.chdir(tmp_path)
    before = sorted(path for path in tmp_path.rglob("*"))
    code, out, errors = world.sql(query)
    assert (code, out, len(errors.splitlines())) == (2, "", 1)
    assert sentence in errors
    assert sorted(path for path in tmp_path.rglob("*")) == before


P, O = "silver.people", "gold.orders"  # noqa: E741 - of queries
COLUMNS = ("mail", "born", "token", "note", "zip")
TRIED = [
    f"SELECT * FROM {P}",
    'SELECT * FROM "silver/people"',
    f"SELECT nested FROM {P}",
    f"SELECT nested['mail'] FROM {P}",
    f"SELECT p.nested.mail FROM {P} p",
    f"TABLE {P}",
    f"SELECT DISTINCT mail FROM {P} ORDER BY mail",
    f"SELECT id FROM {P} ORDER BY mail, born, token DESC, id",
    f"SELECT id FROM {P} ORDER BY length(mail), id",
    f"SELECT id FROM {P} ORDER BY born DESC NULLS LAST, id LIMIT 1",
    f"SELECT id FROM {P} ORDER BY 0 + zip, id",
    f"SELECT id FROM {P} WHERE mail = 'ada@example.org'",
    f"SELECT id FROM {P} WHERE mail LIKE 'a%'",
    f"SELECT id FROM {P} WHERE mail ILIKE '%EXAMPLE%' ORDER BY id",
    f"SELECT id FROM {P} WHERE mail ~ '^a'",
    f"SELECT id FROM {P} WHERE mail SIMILAR TO 'a.*'",
    f"SELECT id FROM {P} WHERE starts_with(mail, 'ada')",
    f"SELECT id FROM {P} WHERE strpos(mail, 'ada') > 0",
    f"SELECT id FROM {P} WHERE mail > 'b' ORDER BY id",
    f"SELECT id FROM {P} WHERE mail BETWEEN 'a' AND 'b'",
    f"SELECT id FROM {P} WHERE mail IN ('ada@example.org', 'bob@example.org')",
    f"SELECT id FROM {P} WHERE mail NOT IN ('ada@example.org') ORDER BY id",
    f"SELECT id FROM {P} WHERE born < DATE '1850-01-01' ORDER BY id",
    f"SELECT id FROM {P} WHERE extract(year FROM born) = 1815",
    f"SELECT id FROM {P} WHERE born IS DISTINCT FROM DATE '1815-03-04' ORDER BY id",
    f"SELECT id FROM {P} WHERE zip = 1 OR zip = 5",
    f"SELECT id FROM {P} WHERE zip * 2 = 2",
    f"SELECT id FROM {P} WHERE 10 / (zip - 1) > 0 ORDER BY id",
    f"SELECT id FROM {P} WHERE 10 / (zip - 5) > 0 ORDER BY id",
    f"SELECT 1 / (zip - 1) FROM {P}",
    f"SELECT CAST(mail AS INT) FROM {P}",
    f"SELECT CAST(mail AS INT) FROM {P} WHERE id = 4",
    f"SELECT id FROM {P} WHERE CAST(mail AS INT) = 1815",
    f"SELECT TRY_CAST(mail AS INT) FROM {P} ORDER BY id",
    f"SELECT arrow_cast(token, 'Date32') FROM {P}",
    f"SELECT CAST(mail AS DATE) FROM {P}",
    f"SELECT to_timestamp(token) FROM {P}",
    f"SELECT CAST(born AS VARCHAR) FROM {P}",
    f"SELECT arrow_typeof(mail) FROM {P} LIMIT 1",
    f"SELECT upper(mail), lower(mail), reverse(mail), md5(mail) FROM {P} ORDER BY id",
    f"SELECT length(mail), octet_length(token), ascii(note) FROM {P} ORDER BY id",
    f"SELECT substr(mail, 1, 1) FROM {P} ORDER BY id",
    f"SELECT concat(mail, token) FROM {P} ORDER BY id",
    f"SELECT mail || note FROM {P} ORDER BY id",
    f"SELECT replace(mail, '*', ''), translate(token, '*', 'x') FROM {P} ORDER BY id",
    f"SELECT split_part(mail, '@', 2) FROM {P} ORDER BY id",
    f"SELECT regexp_replace(mail, '(.).*', '\\1') FROM {P} ORDER BY id",
    f"SELECT regexp_match(mail, '(.+)@') FROM {P} ORDER BY id",
    f"SELECT encode(sha256(mail), 'hex') FROM {P} ORDER BY id",
    f"SELECT levenshtein(mail, 'ada@example.org') FROM {P} ORDER BY id",
    f"SELECT coalesce(mail, 'x'), nullif(mail, 'ada@example.org'), nvl2(mail, 1, 0) FROM {P} ORDER BY id",
    f"SELECT greatest(mail, 'b'), least(born, DATE '1850-01-01') FROM {P} ORDER BY id",
    f"SELECT CASE WHEN mail = 'ada@example.org' THEN 'yes' ELSE 'no' END FROM {P} ORDER BY id",
    f"SELECT CASE mail WHEN 'ada@example.org' THEN 1 WHEN 'bob@example.org' THEN 2 END FROM {P} ORDER BY id",
    f"SELECT CASE WHEN born > DATE '1850-01-01' THEN 1/0 ELSE 1 END FROM {P}",
    f"SELECT CASE WHEN zip > 4 THEN CAST('x' AS INT) ELSE 1 END FROM {P}",
    f"SELECT min(mail), max(mail), min(born), max(born), min(zip), max(token) FROM {P}",
    f"SELECT sum(zip), avg(zip), stddev(zip), median(zip) FROM {P}",
    f"SELECT count(DISTINCT mail), count(DISTINCT born), count(mail), approx_distinct(token) FROM {P}",
    f"SELECT array_agg(mail), string_agg(token, ',') FROM {P}",
    f"SELECT array_agg(id ORDER BY mail) FROM {P}",
    f"SELECT first_value(mail ORDER BY id), last_value(born ORDER BY id) FROM {P}",
    f"SELECT bool_or(mail = 'ada@example.org'), bit_xor(zip) FROM {P}",
    f"SELECT mode(mail) FROM {P}",
    f"SELECT approx_percentile_cont(zip, 0.5) FROM {P}",
    f"SELECT corr(zip, id), covar_pop(zip, id) FROM {P}",
    f"SELECT mail, count(*) FROM {P} GROUP BY mail ORDER BY 1",
    f"SELECT city, min(mail) FROM {P} GROUP BY city ORDER BY 1",
    f"SELECT count(*) FROM {P} GROUP BY born HAVING min(born) < DATE '1850-01-01'",
    f"SELECT id FROM {P} GROUP BY id, mail HAVING max(mail) LIKE 'a%'",
    f"SELECT mail, born, count(*) FROM {P} GROUP BY CUBE (mail, born) ORDER BY 1, 2, 3",
    f"SELECT mail FROM {P} GROUP BY ROLLUP (mail) ORDER BY 1",
    f"SELECT count(*) FILTER (WHERE mail LIKE 'a%') FROM {P}",
    f"SELECT row_number() OVER (ORDER BY mail, id), id FROM {P} ORDER BY id",
    f"SELECT rank() OVER (ORDER BY born), id FROM {P} ORDER BY id",
    f"SELECT lag(mail) OVER (ORDER BY id) FROM {P} ORDER BY id",
    f"SELECT first_value(token) OVER (PARTITION BY city ORDER BY id) FROM {P} ORDER BY id",
    f"SELECT count(*) OVER (PARTITION BY mail) FROM {P} ORDER BY id",
    f"SELECT sum(zip) OVER (ORDER BY id ROWS 1 PRECEDING) FROM {P} ORDER BY id",
    f"SELECT ntile(2) OVER (ORDER BY zip, id), id FROM {P} ORDER BY id",
    f"SELECT id FROM {P} QUALIFY row_number() OVER (ORDER BY mail, id) = 1",
    f"SELECT a.id, b.id FROM {P} a JOIN {P} b ON a.mail = b.mail ORDER BY 1, 2",
    f"SELECT a.id FROM {P} a JOIN {P} b ON a.born < b.born ORDER BY 1",
    f"SELECT a.id FROM {P} a LEFT JOIN {P} b ON a.id = b.id AND b.mail LIKE 'a%' WHERE b.id IS NULL ORDER BY 1",
    f"SELECT a.id FROM {P} a JOIN (VALUES ('ada@example.org'), ('bob@example.org')) g(mail) ON a.mail = g.mail",
    f"SELECT id FROM {P} JOIN (VALUES (1), (5)) g(zip) USING (zip)",
    f"SELECT a.id FROM {P} a NATURAL JOIN {P} b ORDER BY 1",
    f"SELECT o.id FROM {O} o JOIN {P} p ON o.id = p.zip ORDER BY 1",
    f"SELECT p.id FROM {P} p LEFT SEMI JOIN {O} o ON p.zip = o.id ORDER BY 1",
    f"SELECT p.id FROM {P} p LEFT ANTI JOIN {O} o ON p.zip = o.id ORDER BY 1",
    f"SELECT id FROM {O} WHERE id IN (SELECT zip FROM {P}) ORDER BY 1",
    f"SELECT id FROM {O} o WHERE EXISTS (SELECT 1 FROM {P} p WHERE p.zip = o.id AND p.mail LIKE 'a%') ORDER BY 1",
    f"SELECT id, (SELECT max(mail) FROM {P}) FROM {O} ORDER BY 1",
    f"SELECT id, (SELECT mail FROM {P} p WHERE p.id = o.id) FROM {O} o ORDER BY 1",
    f"SELECT * FROM (SELECT mail AS m FROM {P}) WHERE m LIKE 'a%'",
    f"WITH a AS (SELECT * FROM {P}) SELECT mail FROM a WHERE mail LIKE '%a%' ORDER BY id",
    f"WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r, {P} WHERE n < zip) SELECT * FROM r",
    f"SELECT mail FROM {P} UNION SELECT 'ada@example.org' ORDER BY 1",
    f"SELECT mail FROM {P} INTERSECT SELECT 'ada@example.org'",
    f"SELECT 'ada@example.org' EXCEPT SELECT mail FROM {P}",
    f"SELECT token FROM {P} UNION ALL SELECT CAST(zip AS VARCHAR) FROM {P} ORDER BY 1",
    f"SELECT unnest(array_agg(mail)) FROM {P}",
    f"SELECT unnest(nested) FROM {P}",
    f"SELECT named_struct('m', mail) FROM {P} ORDER BY id",
    f"SELECT make_array(mail, token) FROM {P} ORDER BY id",
    f"SELECT map(ARRAY['m'], ARRAY[mail]) FROM {P}",
    f"SELECT chr(zip) FROM {P}",
    f"SELECT repeat('x', zip) FROM {P} ORDER BY id",
    f"SELECT generate_series(1, zip) FROM {P} ORDER BY id",
    f"SELECT * FROM generate_series(1, (SELECT max(zip) FROM {P}))",
    f"SELECT id FROM {P} LIMIT (SELECT max(zip) FROM {P})",
    f"SELECT id FROM {P} ORDER BY id OFFSET (SELECT min(zip) - 1 FROM {P})",
    f"SELECT date_part('year', born), date_trunc('year', born), born + INTERVAL '1 day' FROM {P} ORDER BY id",
    f"SELECT to_char(born, '%Y') FROM {P} ORDER BY id",
    f"SELECT power(zip, 2), log(zip), zip % 2, zip & 1, - zip FROM {P} ORDER BY id",
    f"SELECT __delta_rs_file_id__ FROM {P}",
    f"SELECT _metadata FROM {P}",
    f"SELECT people.mail, silver.people.mail AS m FROM {P} ORDER BY id",
    f"SELECT datafusion.silver.people.mail FROM datafusion.{P} ORDER BY id",
    "SELECT mail FROM public.\"silver/people\" ORDER BY id",
    f"SELECT MAIL FROM {P}",
    f"SELECT * EXCEPT (id) FROM {P} ORDER BY city",
    f"SELECT * REPLACE (token AS city) FROM {P} ORDER BY id",
    f"SELECT COLUMNS('m.*') FROM {P}",
    f"SELECT mail FROM {P} TABLESAMPLE (100) ORDER BY id",
    f"SELECT mail FROM {P} FOR SYSTEM_TIME AS OF '2026-01-01'",
    f"SELECT id FROM {P} WHERE mail = (SELECT mail FROM {P} WHERE id = 1) ORDER BY id",
    f"SELECT id FROM {P} WHERE mail >= ALL (SELECT mail FROM {P})",
    f"SELECT a.id FROM {P} a, LATERAL (SELECT b.id FROM {P} b WHERE b.mail = a.mail AND b.id <> a.id) ORDER BY 1",
    f"SELECT x.* FROM {P} a JOIN LATERAL (SELECT a.mail AS leaked) x ON true",
    *(f"SELECT {column} FROM {P} ORDER BY id" for column in COLUMNS),
    *(f"SELECT id FROM {P} ORDER BY {column}, id" for column in COLUMNS),
    *(f"SELECT {column}, count(*) FROM {P} GROUP BY {column} ORDER BY 1" for column in COLUMNS),
    *(f"SELECT max({column}), min({column}) FROM {P}" for column in COLUMNS),
]  # fmt: skip
VALUES = ("ada", "grace", "navy", "bob@", "Eve", "s3cret", "t0ken", "ill", "tea", "1815-", "1814", "1900-", "1907")


def answered(world, query, audience=""):
    """What a person learns from a query: whether it is answered, rows in any order, and errors."""
    chosen = replace(settings(), home=world.home)
    lake = Lake(root=str(world.home / "lakehouse"), engine=None)
    try:
        found = LakeRows(lake, chosen, audience).queries().select(query, most=100)
    except PatternError as refused:
        return False, [], str(refused)
    return True, sorted(map(json.dumps, as_records(found))), ""


def test_the_attempts_are_many_and_most_are_answered(world):
    """What the engine does not know leaks nothing either, and proves little."""
    assert len({*TRIED}) > 140
    answers = [answered(world, query)[0] for query in TRIED[:40]]
    assert answers.count(True) > 25


@pytest.mark.parametrize("part", range(6))
def test_no_query_tells_a_masked_value(worlds, part):
    """The answer and the refusal of a query are the same over tables that differ in masked values alone."""
    for query in TRIED[part::6]:
        one, two = (answered(world, query) for world in worlds)
        assert one == two, query
        output = "\n".join([*one[1], one[2]]).replace(query, "")
        assert not [value for value in VALUES if value in output and value not in query], query


def declare(world, *policies, table="silver/people"):
    """Put policies of a table on record."""
    at = datetime(2026, 1, 5, tzinfo=timezone.utc)
    PolicyLog(world.home / "policies.jsonl").declare(table, policies, by="the owner", at=at)


HIDDEN_ROWS = [
    f"SELECT * FROM {P} ORDER BY id",
    f"SELECT count(*), min(id), max(id), sum(zip) FROM {P}",
    f"SELECT id FROM {P} WHERE 10 / (zip - 2) > 100 ORDER BY id",
    f"SELECT id FROM {P} WHERE 10 / (zip - 6) > 100 ORDER BY id",
    f"SELECT id FROM {P} WHERE CAST(note AS INT) = 3",
    f"SELECT id FROM {P} WHERE CAST(city AS INT) IS NULL",
    f"SELECT a.id FROM {P} a JOIN {P} b ON 10 / (b.zip - 2) < 0",
    f"SELECT city FROM {P} WHERE city LIKE 'P%'",
    f"SELECT max(CASE WHEN city = 'Paris' THEN 1/0 ELSE 1 END) FROM {P}",
    f"SELECT born FROM {P} ORDER BY id",
    f"SELECT * FROM {P} LIMIT 1 OFFSET 3",
    f"SELECT o.id FROM {O} o JOIN {P} p ON o.person = p.id",
]


def test_rows_that_a_policy_hides_are_met_by_no_part_of_a_query(worlds, monkeypatch):
    """Nor are they evaluated: an error over a hidden row would tell what the row holds."""
    west = Policy("west", ["id", "city", "zip", "note"], rows="city = 'London'")
    for world in worlds:
        declare(world, west)
        declare(world, Policy("west", ["id", "person"], rows="true"), table="gold/orders")
    shown = {"id": [1, 3], "city": ["London"] * 2, "zip": [1, 3], "note": ["a", "b"]}
    for world, (zips, notes) in zip(worlds, ([[2, 8], ["3", "hidden"]], [[6, 9], ["hidden too", "x"]]), strict=True):
        others = {"id": [2, 4], "city": ["Paris", None], "zip": zips, "note": notes}
        rows = pa.table({name: [*values, *others[name]] for name, values in shown.items()})
        world.store("silver/people", rows, mode="overwrite", schema_mode="overwrite")
    for query in HIDDEN_ROWS:
        monkeypatch.setenv("DEDP_HOME", str(worlds[0].home))  # with the same policies
        one, two = (answered(world, query, "west") for world in worlds)
        assert one == two, query
        assert "hidden" not in "".join([*one[1], one[2]]), query
    assert answered(worlds[0], HIDDEN_ROWS[2], "west") == (True, [], "")


def test_each_table_of_a_query_is_read_by_its_policy(world):
    """A table without one is refused as a whole; the smallest limit holds for the answer."""
    declare(world, Policy("support", ["id", "mail"], {"mail": ColumnMask("partial")}, rows="id < 4", max_rows=2))
    query = f"SELECT p.id, mail FROM {P} p ORDER BY p.id"
    found = world.document("sql", query, "--as", "support")
    assert found == {"rows": [{"id": 1, "mail": "ada***"}, {"id": 2, "mail": None}], "more": True}
    joined = f"SELECT o.id, mail FROM {O} o JOIN {P} p ON o.person = p.id ORDER BY o.id"
    code, _, errors = world.sql(joined, "--as", "support")
    assert (code, "--as must be an audience with a policy for gold/orders" in errors) == (2, True)
    declare(world, Policy("support", ["id", "person"], rows="true", max_rows=1), table="gold/orders")
    assert world.document("sql", joined, "--as", "support")["rows"] == [{"id": 1, "mail": "ada***"}]
    assert world.sql(f"SELECT amount FROM {O}", "--as", "support")[0] == 2
    assert world.sql(f"SELECT city FROM {P}", "--as", "support")[0] == 2


@pytest.mark.slow
def test_an_interrupt_does_not_wait_for_the_engine():
    """A query without an end is ended by Ctrl-C, as every command is."""
    endless = "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r) SELECT max(n) FROM r"
    query = f"RowQueries(print).select({endless!r}, most=1)"
    code = f"from dedp_assets.patterns.delta import RowQueries; print(1, flush=True); {query}"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"1\n"
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        try:
            assert process.wait(timeout=60) == -signal.SIGINT
        finally:
            process.kill()
