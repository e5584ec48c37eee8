"""SQL that a person gives as an option: what Spark cannot evaluate is one sentence that names the option."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest
from pyspark.sql import functions as F

from dedp_assets.patterns.core.audits import Audit
from dedp_assets.patterns.core.errors import ConfigError, SchemaMismatch
from dedp_assets.patterns.core.keys import key_of
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.core.sql.sql_options import reason_of
from dedp_assets.patterns.delta import Delete, Merge, Table, Update
from dedp_assets.patterns.error_management.dead_letter import divert_unprocessable
from dedp_assets.patterns.error_management.filter_interceptor import intercept_filters
from dedp_assets.patterns.error_management.late_data_detector import detect_late_data
from dedp_assets.patterns.quality.audit_write_audit_publish import audit_write_audit_publish
from dedp_assets.patterns.value.distributed_aggregator import aggregate
from dedp_assets.patterns.value.incremental_sessionizer import SessionRule, sessionize_partition
from dedp_assets.patterns.value.stateful_sessionizer import sessionize_with_state
from dedp_assets.patterns.value.wrapper import wrap_records
from tests.helpers import a_run, read_back

NOON = datetime(2026, 1, 5, 12, tzinfo=timezone.utc)
RULE = {"entity": ["user"], "event_time": "at", "event_id": "id", "gap_seconds": 60}
USES = {
    "condition wrong": lambda rows, sql: intercept_filters(rows, conditions={"good": "id > 0", "wrong": sql}),
    "rule wrong": lambda rows, sql: divert_unprocessable(
        rows, schema={"id": "INT"}, identity=["user"], rules={"good": "id > 0", "wrong": sql}
    ),
    "option event_time": lambda rows, sql: detect_late_data(rows, event_time=sql, watermark=NOON),
    "option arrived": lambda rows, sql: detect_late_data(rows, event_time="at", watermark=NOON, arrived=sql),
    "option ends": lambda rows, sql: sessionize_partition(rows, None, rule=SessionRule(**RULE, ends=sql), until=NOON),
    "computed column wrong": lambda rows, sql: wrap_records(rows, computed={"good": "id", "wrong": sql}),
    "measure wrong": lambda rows, sql: aggregate(
        rows, keys=["user"], measures={"n": "count(*)", "wrong": f"max({sql})"}
    ),
}
UNKNOWN, BROKEN = "nowhere > 1", "id >"


@pytest.fixture
def rows(frame):
    """Events of users."""
    return frame("id INT, user STRING, at TIMESTAMP", (1, "Ada", NOON))


@pytest.mark.parametrize(("sql", "why"), [(UNKNOWN, "UNRESOLVED_COLUMN"), (BROKEN, "PARSE_SYNTAX_ERROR")])
@pytest.mark.parametrize("option", USES)
def test_an_option_that_spark_cannot_evaluate_is_named_in_one_line(rows, option, sql, why):
    """An unknown column and broken SQL, in whatever pattern takes it: its name, Spark's reason, and no plan."""
    with pytest.raises(ConfigError, match=rf"^{option} cannot be evaluated: \[{why}[^\n]*$"):
        USES[option](rows, sql)


@pytest.mark.parametrize("option", USES)
def test_no_column_of_the_librarys_own_is_suggested(rows, option):
    """Spark suggests what is alike, and lists every column of a narrow frame."""
    for sql in (UNKNOWN, "__dedp_misfit > 1", "syntax = 1"):
        with pytest.raises(ConfigError) as refused:
            USES[option](rows.select("id", "user", "at"), sql)
        assert "__dedp" not in str(refused.value).replace("`__dedp_misfit`", "")


@pytest.mark.parametrize("sql", ["x -> x", "id + (x -> x)"])
@pytest.mark.parametrize("option", USES)
def test_a_lambda_function_outside_of_a_call_is_named(rows, option, sql):
    """Deeper in an expression, Spark's analysis does not refuse it, but dies of it in the JVM."""
    with pytest.raises(
        ConfigError, match=rf"^{option} cannot be evaluated: [^\n]*(INVALID_LAMBDA|INTERNAL_ERROR)[^\n]*$"
    ):
        USES[option](rows, sql)


@pytest.mark.parametrize(
    ("option", "sql"), [("condition wrong", "id + 1"), ("rule wrong", "id + 1"), ("option ends", "id + 1")]
)
def test_what_is_no_predicate_is_named_too(rows, option, sql):
    """A number is neither true nor false."""
    with pytest.raises(ConfigError, match=rf"^{option} cannot be evaluated: \[\w+[^\n]*$"):
        USES[option](rows, sql)


PREDICATES = ["condition wrong", "rule wrong", "option ends"]
NOT_ONE = {
    "it closes what is open": "id > 5) OR (id > 0",
    "it is of all rows": "max(id) > 1",
    "it makes several rows": "explode(array(true, false))",
}
"""SQL that Spark takes, if it is put between parentheses, and that is no expression of one row."""


@pytest.mark.parametrize("option", PREDICATES)
@pytest.mark.parametrize("sql", ["'yes'", "user", *NOT_ONE.values()])
def test_what_is_not_true_or_false_of_one_row_is_refused(rows, option, sql):
    """A text is not read as a truth, and what closes a parenthesis early would be two conditions."""
    with pytest.raises(ConfigError, match=rf"^{option} cannot be evaluated: \[\w+[^\n]*$"):
        USES[option](rows, sql)


@pytest.mark.parametrize("option", [use for use in USES if use not in PREDICATES])
@pytest.mark.parametrize("why", NOT_ONE)
def test_a_value_is_of_one_row(rows, option, why):
    """A measure that makes several rows would be counted by the others, too; an aggregate is named."""
    sql = NOT_ONE[why] if option.startswith(("computed", "measure")) else NOT_ONE[why].replace("id", "at")
    told = rf"^{option} (cannot be evaluated: \[\w+|is max)[^\n]*$".replace("option ", "(option )?")
    with pytest.raises(ConfigError, match=told.replace("measure wrong (", "(measure )?wrong (")):
        USES[option](rows, sql)


@pytest.mark.parametrize("sql", ["'yes'", *NOT_ONE.values()])
def test_a_change_of_rows_takes_a_condition_of_one_row(rows, make_table, sql):
    """By delete, merge and audits: one sentence, and the rows stay."""
    table: Table = make_table(TableSpec("x", {"id": Column("INT")}))
    table.overwrite(rows.select("id"), provenance=a_run())
    with pytest.raises(ConfigError, match=r"^x: "):
        table.delete(sql, provenance=a_run(run_id="2"))
    for clause in (Delete(when=sql), Update({"id": sql.replace("true", "1")})):
        with pytest.raises((ConfigError, SchemaMismatch), match=r"^x: "):
            table.merge(rows.select("id"), Merge(["id"], [clause]), provenance=a_run(run_id="3"))
    with pytest.raises(ConfigError, match="odd cannot be evaluated"):
        table.overwrite(rows.select("id"), audits=[Audit.none_where("odd", sql)], provenance=a_run(run_id="4"))
    assert read_back(table) == [{"id": 1}]


@pytest.mark.parametrize("value", ["rand()", *NOT_ONE.values(), "id AS x", "*"])
def test_a_key_is_of_columns(rows, value):
    """It is the same each time, and of one row."""
    with pytest.raises(ConfigError, match="values must"):
        key_of(rows, [value])


REPEATED = [use for use in USES if not use.startswith(("computed", "measure"))]
CHANGING = [
    *("rand() < 0.5", "RANDN (1) < 0.5", "uuid() > '8'", "id > 0 AND spark_partition_id() = 0", "`rand`() < 0.5"),
    *("monotonically_increasing_id() > 1", "shuffle(array(1, 2))[0] = 1", "randstr(3, 1) > 'a'", "rand/**/() < 0.5"),
    *("exists(array(1), x -> rand() < x)", "reflect('java.util.UUID', 'randomUUID') > '8'", "drawn(id) > 1"),
]


@pytest.fixture
def drawn(spark):
    """A function of the user's that says what it likes."""
    spark.udf.register("drawn", F.udf(lambda x: x, "int").asNondeterministic())


@pytest.mark.usefixtures("drawn")
@pytest.mark.parametrize("sql", CHANGING)
def test_a_condition_that_changes_its_mind_is_refused(rows, sql):
    """Evaluated once for a part and once more for its reason, it would let rows pass that no part has, or twice."""
    with pytest.raises(ConfigError, match=r"^condition wrong must say the same of a row each time, not "):
        USES["condition wrong"](rows, sql)
    for same in ("input_file_name() = ''", "now() > at", "id IN (1, 2) AND (user LIKE ('A%'))"):
        assert "valid" in USES["condition wrong"](rows, same).parts


@pytest.mark.parametrize("option", REPEATED)
def test_every_option_of_which_parts_depend_is_refused_so(rows, option):
    """Also where a number would be cast to a time."""
    sql = "timestamp_seconds(rand())" if option in ("option event_time", "option arrived") else "rand() < 0.5"
    with pytest.raises(ConfigError, match=rf"^{option} must say the same of a row each time, not "):
        USES[option](rows, sql)


def test_a_change_of_rows_by_chance_is_refused(rows, make_table):
    """Which files hold such a row is asked before which row is one."""
    table: Table = make_table(TableSpec("x", {"id": Column("INT")}))
    table.overwrite(rows.select("id"), provenance=a_run())
    with pytest.raises(ConfigError, match=r"^x: a condition must say the same of a row each time"):
        table.delete("rand() < 0.5", provenance=a_run(run_id="2"))
    clauses = [Delete(when="uuid() > '8'")]
    with pytest.raises(ConfigError, match=r"^x: a condition must say the same of a row each time"):
        table.merge(rows.select("id"), Merge(["id"], clauses), provenance=a_run(run_id="3"))
    audits = [Audit.none_where("lucky", "rand() < 0.5")]
    with pytest.raises(ConfigError, match=r"^audit lucky must say the same of a row each time"):
        audit_write_audit_publish(rows.select("id"), table.target(a_run(), partition={}, audits=audits))


def test_a_streams_option_is_named(spark):
    """Before the query starts."""
    stream = spark.readStream.format("rate").load().selectExpr("value AS id", "'Ada' AS user", "timestamp AS at")
    with pytest.raises(ConfigError, match=r"^option ends cannot be evaluated: \[UNRESOLVED_COLUMN"):
        sessionize_with_state(stream, rule=SessionRule(**RULE, ends=UNKNOWN), lateness="1 hour")


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        (BROKEN, "PARSE_SYNTAX_ERROR"),
        ("id > 0 -- of the shop", "PARSE_SYNTAX_ERROR"),
        ("id > 0) OR (id < 5", "WRONG_NUM_ARGS"),
        ("'yes'", "DATATYPE_MISMATCH"),
        ("sum(id) > 0", r"\w+"),
    ],
)
def test_a_constraint_that_is_no_predicate_says_why(make_table, rule, why):
    """Before there is a table: a comment would hide what stands behind the rule in each later write."""
    made: Table = make_table(TableSpec("x", {"id": Column("INT")}, checks={"wrong": rule}))
    with pytest.raises(ConfigError, match=rf"^x: constraint wrong cannot be evaluated: \[{why}"):
        made.ensure()
    assert not made.ledger.exists()


def test_an_error_in_a_python_function_is_the_line_that_ends_its_traceback():
    """Neither Spark's first line, which says to look below, nor the files and calls in between."""
    told = (
        "\n  An exception was thrown from the Python worker. Please see the stack trace below.\n"
        'Traceback (most recent call last):\n  File "/x.py", line 3, in parse\n    return int(text)\n'
        "ValueError: invalid literal for int() with base 10: 'a'\n\nJVM stacktrace:\n\tat org.apache.spark\n"
    )
    assert reason_of(RuntimeError(told)) == "ValueError: invalid literal for int() with base 10: 'a'"
