"""SQL of declarations: the judgement without Spark is held against Spark's own analysis."""

from __future__ import annotations

import random
import re

import pytest
from pyspark.errors import AnalysisException

from dedp_assets.patterns.core.sql import sql_arities
from dedp_assets.patterns.core.sql.sql_analysis import analysed_by
from dedp_assets.patterns.core.sql.sql_faults import expression_fault, query_columns, query_fault

COLUMNS = {
    "id": "BIGINT",
    "name": "STRING",
    "fare": "DOUBLE",
    "at": "TIMESTAMP",
    "day": "DATE",
    "tags": "ARRAY<STRING>",
    "place": "STRUCT<city: STRING, at: STRUCT<lat: DOUBLE>>",
    "more": "MAP<STRING, STRING>",
    "comment": "STRING",
    "order": "INT",
}
TABLES = {"rows": COLUMNS, "users": {"id": "BIGINT", "login": "STRING"}, "earlier": None}
EXPRESSIONS = [
    "id > 0",
    "fare IS NULL OR fare >= 0",
    "name RLIKE '^[a-z]+$'",
    "place.city = 'Rome' AND place.at.lat > 1.5",
    "exists(tags, t -> t = 'x')",
    "day BETWEEN DATE '2026-01-01' AND current_date()",
    "`order` IN (1, 2)",
    "comment = 'a'",
    "more['k'] IS NOT NULL",
    "CASE WHEN id = 1 THEN true ELSE false END",
    "size(filter(tags, (t, i) -> i > 0)) > 1",
    "try_cast(name AS INT) IS NOT NULL",
    "at > day + INTERVAL 1 DAY",
    "name NOT LIKE 'a%' ESCAPE '!'",
    "name <=> 'x'",
    "date_trunc('MONTH', at) = timestamp '2026-01-01 00:00:00'",
    "extract(YEAR FROM day) > 2000",
    "id % 2 = 0 AND NOT id <> 3",
    "datediff(day, DATE '2026-01-01') > 3",
    "timestampdiff(HOUR, at, at) = 0",
    "year(at) = 2026",
    "element_at(tags, 1) = 'x'",
    "if(id > 1, true, false)",
    "coalesce(fare, 0.5) > 1e3",
    "array_contains(tags, name)",
    "isnan(fare)",
    "substring(name FROM 1 FOR 2) = 'x' AND trim(BOTH ' ' FROM name) = 'y'",
    "aggregate(tags, 0, (n, t) -> n + 1) > 0 AND left(name, 2) = 'x'",
    "round(id::DECIMAL(10, 2)) = 1 AND coalesce(fare, id, 0) > 0",
    "at <= current_timestamp()",
]
QUERIES = [
    "SELECT day, count(*) AS trips, sum(fare) AS fares FROM {rows} GROUP BY day",
    "SELECT r.id, u.login FROM {rows} r LEFT JOIN {users} AS u ON r.id = u.id WHERE u.login IS NOT NULL",
    "WITH t AS (SELECT id, max(at) AS last FROM {rows} GROUP BY id) SELECT t.id, t.last FROM t ORDER BY last LIMIT 3",
    "SELECT id, explode(tags) AS tag FROM {rows}",
    "SELECT id, t.tag FROM {rows} LATERAL VIEW explode(tags) t AS tag WHERE tag <> ''",
    "SELECT id, tag FROM {rows} LATERAL VIEW OUTER explode(tags) t tag",
    "SELECT upper(name) AS n, day, max(fare) + 1 AS m, any_value(id) FROM {rows} GROUP BY n, 2",
    "SELECT place.city, day, count(*) AS n FROM {rows} GROUP BY ROLLUP (place.city, day)",
    "SELECT name, sum(fare) OVER (PARTITION BY day) AS s, row_number() OVER (ORDER BY id) AS n FROM {rows}",
    "SELECT day, struct(max(id) AS last, day) AS s, (SELECT max(login) FROM {users}) AS u FROM {rows} GROUP BY day",
    "SELECT id FROM {rows} WHERE at > at + INTERVAL 1 DAY",
    "SELECT *, row_number() OVER (PARTITION BY name ORDER BY at DESC) AS n FROM {rows} QUALIFY n = 1",
    "SELECT id, fare * 2 AS twice, twice + 1 AS more_yet FROM {rows}",
    "SELECT name, collect_set(place.city) AS cities FROM {rows} GROUP BY ALL HAVING count(DISTINCT id) > 1",
    "SELECT id FROM {rows} WHERE id IN (SELECT id FROM {users}) UNION ALL SELECT id FROM {users}",
    "SELECT place.city, place.* FROM {rows} WHERE day = DATE {day_of_run}",
    "SELECT * EXCEPT (fare) FROM {rows} SORT BY id",
    "SELECT day, percentile_approx(fare, 0.5) AS m, any_value(name) FILTER (WHERE id > 1) AS n FROM {rows} GROUP BY 1",
    "SELECT s.id, s.city FROM (SELECT id, place.city FROM {rows}) s",
    "SELECT window.start AS start, count(*) AS n FROM {rows} GROUP BY window(at, '1 hour')",
    "SELECT id, col FROM (SELECT id, explode(tags) FROM {rows})",
    "FROM {rows} SELECT id",
    "SELECT x.a FROM VALUES (1), (2) AS x(a)",
    "SELECT transform(tags, t -> upper(t)) AS t, named_struct('a', id).a AS b FROM {rows}",
    "SELECT /*+ BROADCAST(u) */ u.login FROM {rows} JOIN {users} u USING (id)",
    "SELECT * FROM (SELECT name, day, fare FROM {rows}) PIVOT (sum(fare) FOR name IN ('a', 'b'))",
    "FROM {rows} |> AGGREGATE count(*) AS n GROUP BY day |> WHERE n > 1",
    "SELECT id FROM {rows} WHERE id = (SELECT max(id) FROM {users}) UNION SELECT id FROM {users} WHERE login IN ('a')",
    "SELECT explode(more) FROM {rows} UNION ALL SELECT 'a', 'b'",
    "SELECT id, login FROM {rows} JOIN {users} USING (id)",
    "SELECT day FROM {rows} a LEFT SEMI JOIN {rows} b ON a.id = b.id WHERE name = 'x'",
    "SELECT a.id, b.name AS n FROM {rows} a JOIN {rows} b ON a.id = b.id ORDER BY n",
    "SELECT login FROM {rows} r JOIN {users} u ON r.id = u.id WHERE r.id IN (SELECT id FROM {users})",
    "SELECT transform(array(1), id -> id + 1) AS x FROM {rows} r JOIN {users} u ON r.id = u.id",
    "SELECT id, name FROM {rows} NATURAL JOIN {users}",
]
WRONG = {
    "id >": "is no SQL after 'id >'",
    "idd > 0": "unknown column idd: did you mean id?",
    "id > 0)": "is no SQL after 'id > 0'",
    "cuont(id) > 1": "unknown function cuont: did you mean count?",
    "id > 5) OR (id > 0": "is no SQL",
    "": "one expression",
    "name = 'x": "not closed",
    "id, fare": "one expression",
    "id > 0 AND": "is no SQL",
    "place.citty = 'x' AND idd": "idd",
    "max(id) > 1": "a figure of all rows",
    "id + 1": "true or false",
    "'yes'": "true or false",
    "id > 0 FROM x": "one expression",
    "id = 1 -- the first": "comment",
    "strpos(name, 'x') > 0": "unknown function strpos",
    "nmae IS NULL": "did you mean name?",
    "id > 0 AS x": "is no SQL",
    "explode(tags) = 'x'": "which makes several rows",
    "id IN ()": "must have values in id IN ()",
    "id IN (1,)": "a comma too many after 'id IN (1'",
    "upper(name, name) = 'X'": "calls upper with 2 arguments, and it takes 1",
    "substring() = 'x'": "calls substring with 0 arguments, and it takes 2 to 3",
    "coalesce() > 1": "calls coalesce with 0 arguments, and it takes 1 or more",
    "rand() > 0.5": "must give the same in each run, not rand()",
    "uuid() = name": "must give the same in each run, not uuid()",
    "id > 1 AND shuffle(tags)[0] = 'x'": "must give the same in each run, not shuffle()",
}
FIGURES = {
    "count(*) FILTER (WHERE fare > 1)": "",
    "sum(fare)": "",
    "fare": "aggregate",
    "sum(fare) / id": "aggregate",
    "count(DISTINCT id)": "DISTINCT",
    "sum(fair)": "fare",
}
SLIPS = {
    "SELECT cuont(*) FRM": "cuont",
    "SELECT cuont(*) FRM {rows}": "is no SQL after",
    "SELECT count(*) FROM rows": "{rows}",
    "SELECT day, count(*) FROM {rows} GROUP day": "is no SQL",
    "SELECT dya FROM {rows}": "did you mean day?",
    "SELECT r.idd FROM {rows} r": "unknown column idd: did you mean id?",
    "SELECT 1; SELECT 2": "2 statements",
    "SELECT id FROM {rows} WHERE day = DATE '{day_of_run}'": "no quotes around {day_of_run}",
    "SELECT name, count(*) AS n FROM {rows}": "names name beside aggregates: GROUP BY name",
    "SELECT day, name, sum(fare) AS f FROM {rows} GROUP BY day": "names name beside aggregates: GROUP BY name",
    "DROP TABLE x": "must be a query",
    "SELECT u.logn FROM {rows} r JOIN {users} u ON r.id = u.id": "did you mean login?",
    "SELECT id FROM {rows} WHERE (id > 1": "is no SQL",
    "WITH t AS (SELECT id AS x FROM {rows}) SELECT t.y FROM t": "y",
    "SELECT day, count(*) AS n, FROM {rows} GROUP BY day": "a comma too many after 'day, count(*) AS n'",
    "SELECT day FROM {rows} WHERE count(*) > 1 GROUP BY day": "COUNT(*), a figure of many rows, in HAVING",
    "SELECT id FROM {rows} a JOIN {rows} b ON a.id = b.id": "names id, which a and b have: a.id",
    "SELECT login FROM {rows} r JOIN {users} u ON r.id = u.id WHERE id > 1": "names id, which r and u have",
    "SELECT login FROM {rows} r JOIN {users} u ON id = u.id": "names id, which r and u have",
    "SELECT map('a') AS m, upper() AS n FROM {rows}": "calls upper with 0 arguments, and it takes 1",
    "SELECT id, name FROM {rows} UNION ALL SELECT id FROM {users}": "on both sides of UNION, not 2 and 1",
}


@pytest.mark.parametrize("sql", EXPRESSIONS)
def test_a_sound_expression_has_no_fault(sql):
    """Fields, lambdas, intervals, names that are words of SQL."""
    assert expression_fault(sql, COLUMNS, "predicate") == ""


@pytest.mark.parametrize("sql", WRONG)
def test_a_wrong_predicate_is_told(sql):
    """What is wrong with it, and the nearest right name."""
    assert WRONG[sql] in expression_fault(sql, COLUMNS, "predicate")


@pytest.mark.parametrize("sql", FIGURES)
def test_a_figure_is_an_aggregate_that_a_pass_observes(sql):
    """Every column stands in an aggregate, and none is distinct."""
    found = expression_fault(sql, COLUMNS, "figure")
    assert found if FIGURES[sql] else not found
    assert FIGURES[sql] in found


@pytest.mark.parametrize("sql", QUERIES)
def test_a_sound_query_has_no_fault(sql):
    """Joins, common table expressions, generators, names that Spark makes."""
    assert query_fault(sql, TABLES) == ""


@pytest.mark.parametrize("sql", SLIPS)
def test_a_wrong_query_is_told(sql):
    """What is wrong with it, and the nearest right name."""
    assert SLIPS[sql] in query_fault(sql, TABLES)


def test_columns_of_a_query_are_known_where_they_have_names():
    """By aliases, columns and a star over one table; an expression without a name is named by Spark."""
    assert query_columns("SELECT day, count(*) AS n FROM {rows} GROUP BY day", TABLES) == {"day": None, "n": None}
    assert list(query_columns("SELECT *, 1 AS x FROM {users}", TABLES) or ()) == ["id", "login", "x"]
    assert query_columns("SELECT count(*) FROM {rows}", TABLES) is None
    assert query_columns("SELECT * FROM {earlier}", TABLES) is None


def test_rows_of_unknown_columns_are_not_judged():
    """Of a result that only a run knows."""
    assert query_fault("SELECT anything FROM {earlier}", TABLES) == ""
    assert query_fault("SELECT e.anything, r.id FROM {earlier} e JOIN {rows} r ON r.id = e.other", TABLES) == ""
    assert expression_fault("anything > 1", None) == ""


ODD = re.compile(r"\w\{|\}\w|\bAS\s+FROM\b|FROM\s+\)|^SELECT [^(]*,", re.IGNORECASE)
"""What Spark takes by chance: words of SQL as names, and two expressions where one is wanted."""


def slipped(texts, count, seed=3):
    """Texts with a word or a sign removed, repeated, misspelt or exchanged for another one."""
    chance, found = random.Random(seed), set()  # noqa: S311 - the same cases each time
    while len(found) < count:
        parts = re.findall(r"\{\w+\}|\w+|'[^']*'|\s+|.", chance.choice(texts))
        at = chance.randrange(len(parts))
        kind = chance.choice(["remove", "repeat", "misspell", "exchange"])
        if kind == "remove":
            del parts[at]
        elif kind == "repeat":
            parts.insert(at, parts[at])
        elif kind == "misspell" and parts[at].isalpha() and len(parts[at]) > 2:
            word = parts[at]
            parts[at] = word[0] + word[2] + word[1] + word[3:]
        else:
            parts[at] = chance.choice(parts)
        found.add("".join(parts))
    return sorted(found - {*texts})


def refusal(spark, sql, frames):
    """Spark's own reason against a query; empty if it takes the query."""
    try:
        named = {name: each for name, each in frames.items() if f"{{{name}}}" in sql}
        _ = spark.sql(sql, **named, **({"day_of_run": "2026-01-05"} if "{day_of_run}" in sql else {})).schema
    except (AnalysisException, ValueError, KeyError, IndexError) as error:
        return str(error)
    return ""


@pytest.fixture(scope="module")
def frames(spark):
    """Rows of the declared columns, of which there are none."""
    ddl = {
        name: ", ".join(f"`{n}` {kind}" for n, kind in (columns or COLUMNS).items()) for name, columns in TABLES.items()
    }
    return {name: spark.createDataFrame([], each) for name, each in ddl.items()}


@pytest.mark.spark
def test_spark_takes_the_sound_ones(spark, frames):
    """The examples of this file are right."""
    assert [sql for sql in QUERIES if refusal(spark, sql, frames)] == []
    assert [sql for sql in EXPRESSIONS if refusal(spark, f"SELECT {sql}\n FROM {{rows}}", frames)] == []


@pytest.mark.spark
def test_what_is_told_is_refused_by_spark_too(spark, frames):
    """No slip in a query or an expression is told that Spark would take; most of those that it refuses are told."""
    queries = [(sql, query_fault(sql, TABLES) if _is_formatted(sql) else "?") for sql in slipped(QUERIES, 150)]
    some = [sql for sql in slipped(EXPRESSIONS, 150) if "{" not in sql]
    queries += [(f"SELECT {sql}\n FROM {{rows}}", expression_fault(sql, COLUMNS)) for sql in some]
    told, silent = 0, 0
    for sql, why in queries:
        refused = refusal(spark, sql, frames)
        assert refused or not why.strip("?") or ODD.search(sql), f"{sql}: {why}"
        told, silent = told + bool(refused and why), silent + bool(refused and not why)
    assert told > 2 * silent, (told, silent)


def _is_formatted(sql):
    """Whether the braces of a query stand for names that there are."""
    return {*re.findall(r"\{(\w*)\}?", sql)} <= {*TABLES, "day_of_run"} and sql.count("{") == sql.count("}")


@pytest.mark.spark
def test_where_an_engine_runs_spark_judges_what_is_left(spark):
    """Types, and columns behind an expression; an unknown column may be one that nobody declared."""
    wrong = {
        "SELECT day + name AS x FROM {rows}": "DATATYPE_MISMATCH",
        "SELECT place.citty FROM {rows}": "FIELD_NOT_FOUND",
    }
    for sql, said in wrong.items():
        assert query_fault(sql, TABLES) == ""
        with analysed_by(spark):
            assert f"is refused by Spark: [{said}" in query_fault(sql, TABLES)
    with analysed_by(spark):
        assert query_columns("SELECT day, count(*) AS n FROM {rows} GROUP BY day", TABLES) == {
            "day": "date",
            "n": "bigint",
        }
        assert [sql for sql in QUERIES if query_fault(sql, TABLES)] == []
        assert [sql for sql in EXPRESSIONS if expression_fault(sql, COLUMNS, "predicate")] == []
        assert "refused by Spark: [DATATYPE_MISMATCH" in expression_fault("upper(name)", COLUMNS, "predicate")
        assert expression_fault("raw LIKE 'x%'", {**COLUMNS, "raw": None}, "predicate") == ""
        assert query_fault("SELECT anything FROM {earlier}", TABLES) == ""


def test_what_breaks_the_parser_is_left_to_spark():
    """A map of one key, over which sqlglot stumbles."""
    assert expression_fault("map('a') IS NULL", COLUMNS, "predicate") == ""


@pytest.mark.spark
def test_spark_counts_the_arguments_of_functions_as_the_list_does(spark):
    """One argument fewer and one more than a function of the list takes is refused by Spark for the number."""
    for least, most, name in _arities()[::4]:
        for count in ({least - 1} if least else set()) | ({most + 1} if most is not None else set()):
            assert "WRONG_NUM_ARGS" in refusal(spark, f"SELECT {name}({', '.join(['NULL'] * count)})", {}), name
        for count in {least, least if most is None else most}:
            assert "WRONG_NUM_ARGS" not in refusal(spark, f"SELECT {name}({', '.join(['NULL'] * count)})", {}), name


def _arities():
    """Least and greatest number of arguments, and the function."""
    return sorted(((*bounds, name) for name, bounds in sql_arities._ARITIES.items()), key=lambda each: each[2])


@pytest.mark.spark
def test_the_examples_of_sparks_functions_have_no_fault(spark):
    """Every third function that Spark has: its examples are sound queries."""
    found = 0
    for (name,) in spark.sql("SHOW FUNCTIONS").collect()[::3]:
        text = (
            "\n".join(row[0] for row in spark.sql(f"DESCRIBE FUNCTION EXTENDED `{name}`").collect())
            if name.isidentifier()
            else ""
        )
        examples = re.search(r"Examples:\n(.*?)(?:\n\n|\Z)", text, re.DOTALL)
        for sql in re.findall(r"> (.*?;)\s*$", examples[1] if examples else "", re.MULTILINE | re.DOTALL):
            if not sql.startswith("SET "):
                found += 1
                assert query_fault(sql.replace("{", "{{").replace("}", "}}"), {}) == "", sql
    assert found > 200
