"""Questions about values behind masks, by a matrix: operators, positions, plain and nested columns, sources.

Each is asked of a table that is read by a policy, and of a frame that holds the visible values and nothing else.
`tests/core/test_policies.py` has the questions that no matrix makes.
"""

from __future__ import annotations

import hashlib
import hmac

import pytest
from pyspark.sql.functions import expr

from dedp_assets.patterns.core.masking import MaskingKey
from dedp_assets.patterns.core.measuring.observing import SPARK_ERRORS
from dedp_assets.patterns.core.policies import ColumnMask, Policy
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import Table
from dedp_assets.patterns.security.fine_grained_accessor_for_tables import read_for
from tests.helpers import a_run
from tests.rotation import rotated

pytestmark = [pytest.mark.spark, pytest.mark.budget(30, "two hundred questions, of a table and of what is visible")]

KEY = MaskingKey("tables-1", b"0123456789abcdef0123456789ABCDEF")
CONTACT = "STRUCT<email: STRING, lines: ARRAY<STRING>>"
KINDS = {
    "id": "INT", "name": "STRING", "ssn": "STRING", "login": "STRING", "contact": CONTACT, "grade": "STRING",
    "region": "STRING", "store": "STRING", "salary": "INT", "secret": CONTACT,
}  # fmt: skip
SHOWN = ["id", "name", "ssn", "login", "contact", "grade", "region"]
ANALYST = Policy(
    "analyst",
    SHOWN,
    {
        "name": ColumnMask("partial", unless="id = 2"),
        "ssn": ColumnMask("shape", value="999-99-9999"),
        "login": ColumnMask("hash"),
        "contact": ColumnMask("null"),
        "grade": ColumnMask("constant", value="A"),
    },
    rows="store = 'a'",
)


def person(number, name, region, store):
    contact = (f"{name}@example.com", [f"12{number}", "street"])
    return (number, name, f"111-22-333{number}", f"log-{name}", contact, f"B{number}", region, store, number, contact)


def visible(number, name, region):
    """What the analyst sees of a person; the hash as by Python."""
    secret, told = KEY.of("analyst").secret, f"login\x1flog-{name}".encode()
    masked = name if number == 2 else f"{name[:3]}***"
    return number, masked, f"XXX-XX-333{number}", hmac.new(secret, told, hashlib.sha256).hexdigest(), None, "A", region


ADA, EVE, BOB = (1, "Ada Lovelace", "North"), (2, "Eve Online", "North"), (3, "Bob Hidden", "South")
DAN = (4, "Dan Southern", "South")
NOW = [person(*ADA, "a"), person(*EVE, "a"), person(*BOB, "b"), person(*DAN, "a")]
BEFORE = [person(*ADA, "b"), person(*EVE, "a"), person(*BOB, "a")]

VALUES = {
    "{a}ssn": "111-22-3331",
    "{a}name": "Ada Lovelace",
    "{a}login": "log-Ada Lovelace",
    "{a}contact.email": "Ada Lovelace@example.com",
    "{a}contact.lines[0]": "121",
    "{a}contact.lines[1]": "street",
    "{a}grade": "B1",
}
"""Masked value -> what is asked about: of Ada, who is visible now and was hidden before."""
OPERATORS = {
    "equal": "{c} = '{v}'",
    "null-safe": "{c} <=> '{v}'",
    "less": "{c} < concat('{v}', 'a')",
    "between": "{c} BETWEEN '{v}' AND concat('{v}', 'z')",
    "in": "{c} IN ('{v}', '{v} too')",
    "like": "{c} LIKE concat(left('{v}', 3), '%')",
    "regular expression": "{c} RLIKE concat('^', left('{v}', 2))",
    "position": "instr({c}, right('{v}', 4)) > 0",
    "piece": "substring({c}, 2, 3) = substring('{v}', 2, 3)",
    "turned": "reverse({c}) = reverse('{v}')",
    "hashed": "sha2({c}, 256) = sha2('{v}', 256)",
    "distance": "levenshtein({c}, '{v}') < 3",
}
SOURCES = ["table", "version of the past", "view of a view"]
VISIBLY = {
    ("{a}name", "like"),
    ("{a}name", "regular expression"),
    ("{a}ssn", "position"),
    ("{a}login", "less"),
    ("{a}grade", "less"),
    ("{a}grade", "distance"),
}
"""Predicates that hold of the masks: first letters of a name, last digits of a number, a hash, a constant."""
HIDDEN = ("salary > 3", "secret.email LIKE 'Ada%'", "secret.lines[0] = '121'", "store = 'a'", "`secret`.`email` > ''")


def each(select):
    """A position in which a predicate stands in a query of its own."""
    return lambda asked: " UNION ALL ".join(f"SELECT {n} AS n, {select.format(p=p)}" for n, p in enumerate(asked))


def listed(before, one, after):
    """A position in which many predicates stand side by side."""
    return lambda asked: f"{before}, {', '.join(f'{one.format(p=p)} AS c{n}' for n, p in enumerate(asked))} {after}"


SQL = {
    "filter": each("a.id FROM {{t}} AS a WHERE {p}"),
    "self join": each("a.id + 10 * b.id FROM {{t}} AS a JOIN {{t}} AS b ON a.region = b.region AND {p}"),
    "subquery": each("b.id FROM {{t}} AS b WHERE EXISTS (SELECT 1 FROM {{t}} AS a WHERE a.id = b.id AND {p})"),
    "scalar subquery": each("(SELECT count(*) FROM {{t}} AS a WHERE {p})"),
    "having": each("count(*) FROM {{t}} AS a GROUP BY a.region HAVING bool_or({p})"),
    "column": listed("SELECT a.id", "{p}", "FROM {t} AS a"),
    "aggregate": listed("SELECT a.region", "count_if({p})", "FROM {t} AS a GROUP BY a.region"),
    "window": listed("SELECT a.id", "row_number() OVER (ORDER BY {p}, a.id)", "FROM {t} AS a"),
}
FRAMES = {
    "where": lambda s, asked: union(s.where(p).selectExpr(f"{n} AS n", "id") for n, p in enumerate(asked)),
    "selectExpr": lambda s, asked: s.selectExpr("id", *(f"{p} AS c{n}" for n, p in enumerate(asked))),
    "agg": lambda s, asked: s.groupBy("region").agg(*(expr(f"count_if({p}) AS c{n}") for n, p in enumerate(asked))),
    "withColumns": lambda s, asked: s.withColumns({f"c{n}": expr(p) for n, p in enumerate(asked)}).drop(*SHOWN[1:]),
}  # fmt: skip


def union(frames):
    first, *others = frames
    for other in others:
        first = first.union(other)
    return first


@pytest.fixture(scope="module")
def people(spark, tmp_path_factory):
    """A table of two versions, partitioned by region."""
    spec = TableSpec("silver/people", {name: Column(kind, name) for name, kind in KINDS.items()}, ("region",))
    table = Table(spec, tmp_path_factory.mktemp("people"), spark)
    ddl = ", ".join(f"{name} {kind}" for name, kind in KINDS.items())
    for number, rows in enumerate((BEFORE, NOW)):
        table.overwrite(spark.createDataFrame(rows, ddl), provenance=a_run(table.name, run_id=f"run {number}"))
    return table


@pytest.fixture(scope="module")
def sources(spark, people):
    """Source -> rows by the policy, and a frame of the visible values."""
    ddl = ", ".join(f"{name} {KINDS[name]}" for name in SHOWN)
    now = spark.createDataFrame([visible(*each) for each in (ADA, EVE, DAN)], ddl)
    before = spark.createDataFrame([visible(*each) for each in (EVE, BOB)], ddl)
    first = people.ledger.version() - 1
    shown, older = (
        read_for(people, KEY, policies=[ANALYST], audience="analyst", version=version) for version in (None, first)
    )
    for name, rows in {"shown": shown, "visible": now}.items():
        rows.createOrReplaceTempView(f"questions_{name}")
        spark.sql(f"CREATE OR REPLACE TEMP VIEW questions_{name}_twice AS SELECT * FROM questions_{name} WHERE id > 0")
    views = [spark.table(f"questions_{name}_twice") for name in ("shown", "visible")]
    return dict(zip(SOURCES, [(shown, now), (older, before), tuple(views)], strict=True))


def predicates(number):
    """The operators, each with the masked value whose turn it is, or with all in `make fuzz`."""
    for at, operator in enumerate(OPERATORS.values()):
        for column, value in rotated(number + at, [*VALUES.items()]):
            yield operator.format(c=column, v=value)


def asked(number, qualifier):
    return [each.format(a=qualifier) for each in predicates(number)]


def answer(frame):
    return sorted(map(repr, frame.collect()))


def questions(spark):
    """Position -> a function of rows that asks all operators."""
    for number, (name, query) in enumerate(SQL.items()):
        stated = query(asked(number, "a."))
        yield name, lambda rows, stated=stated: spark.sql(stated, t=rows)
    for number, (name, frame) in enumerate(FRAMES.items(), start=len(SQL)):
        yield name, lambda rows, frame=frame, number=number: frame(rows, asked(number, ""))


@pytest.mark.both
def test_no_question_sees_more_than_the_visible_values(spark, sources):
    """Acceptance 2, 3, AC-8.3-2: each operator in each position is answered as from a frame of the visible values.

    Each position is asked of the source whose turn it is, or of all in `make fuzz`.
    """
    assert len(OPERATORS) * (len(SQL) + len(FRAMES)) == 144
    differing = {}
    for number, (name, ask) in enumerate(questions(spark)):
        for source in rotated(number, SOURCES):
            told, expected = (answer(ask(rows)) for rows in sources[source])
            differing |= {(name, source): (told, expected)} if told != expected else {}
    assert differing == {}


def test_the_questions_tell_the_table_from_what_is_visible(people, sources):
    """Asked of the table itself, each operator finds Ada by each masked value: no question is empty."""
    every = {(c, name): o.format(c=c.format(a=""), v=v) for name, o in OPERATORS.items() for c, v in VALUES.items()}
    asked = [f"coalesce({p}, false) AS c{n}" for n, p in enumerate(every.values())]
    for rows, finds in ((people.read(), {*every}), (sources["table"][0], VISIBLY)):
        (found,) = rows.where("id = 1").selectExpr(*asked).collect()
        assert {each for each, is_found in zip(every, found, strict=True) if is_found} == finds


@pytest.mark.both
@pytest.mark.parametrize("predicate", HIDDEN)
def test_a_hidden_column_cannot_be_named_anywhere(spark, sources, predicate):
    """Plain or nested, in any position, of any source: refused by the analysis, without a look at rows."""
    asked = [lambda rows, query=query: spark.sql(query([predicate]), t=rows) for query in SQL.values()]
    asked += [lambda rows, frame=frame: frame(rows, [predicate]) for frame in FRAMES.values()]
    for number, ask in enumerate(asked):
        for source in rotated(number, SOURCES):
            with pytest.raises(SPARK_ERRORS, match="UNRESOLVED_COLUMN"):
                _ = ask(sources[source][0]).schema
