"""`dedp show`: rows of tables of any features, by classes and policies, against a model of plain Python."""

from __future__ import annotations

import json
import math
import operator
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from hypothesis import given
from hypothesis import strategies as st

from dedp_assets.graph.catalogue.row_views import LakeRows
from dedp_assets.graph.resources.environments import settings
from dedp_assets.graph.resources.lake import Lake
from dedp_assets.patterns.core.classes import CLASSES
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.masking import MaskingKey, keyed_digest
from dedp_assets.patterns.core.policies import ColumnMask, Policy
from dedp_assets.patterns.core.sql.predicates import is_sound
from dedp_assets.patterns.error_management._letters import LETTER
from dedp_assets.patterns.security.fine_grained_accessor_for_tables import PolicyLog
from tests.row_worlds import RowWorld, commit, declaring, mapped_metadata, restate, row_world, write_mapped

NOW = datetime(2026, 1, 5, tzinfo=timezone.utc)
PEOPLE = pa.table(
    {
        "id": [1, 2, 3, None],
        "mail": ["ada@example.org", None, "eve", "grace@navy.example"],
        "born": pa.array([date(1815, 12, 10), None, date(2000, 1, 1), date(1906, 12, 9)]),
        "city": ["London", "Paris", None, "New York"],
        "active": [True, False, None, True],
    }
)
CLASSIFIED = {"id": "public", "mail": "personal", "born": "sensitive", "city": "public", "active": "public"}


@pytest.fixture
def world(monkeypatch, capsys, tmp_path):
    """A home without a table yet."""
    return row_world(monkeypatch, capsys, tmp_path / "home")


@pytest.fixture
def people(world):
    """A table of persons, of which two columns are masked."""
    world.store("silver/people", PEOPLE, CLASSIFIED)
    return world


def columns_of(document, name):
    """The values of a column."""
    return [row[name] for row in document["rows"]]


LONG_NUMBER = "1234567890123456789012345678.0000000010"
NESTED = {"a": 1, "b": ["x", None]}
VALUES = [
    (pa.int64(), 2**62, 2**62, str(2**62)),
    (pa.bool_(), False, False, "false"),
    (pa.float64(), 0.1, 0.1, "0.1"),
    (pa.float64(), math.inf, "inf", "inf"),
    (pa.float64(), math.nan, "nan", "nan"),
    (pa.decimal128(38, 10), Decimal(LONG_NUMBER), LONG_NUMBER, LONG_NUMBER),
    (pa.decimal128(6, 2), Decimal("-0.50"), "-0.50", "-0.50"),
    (pa.date32(), date(1, 1, 1), "0001-01-01", "0001-01-01"),
    (pa.timestamp("us", "UTC"), NOW.replace(microsecond=1), *["2026-01-05T00:00:00.000001+00:00"] * 2),
    (pa.timestamp("us"), NOW.replace(tzinfo=None), "2026-01-05T00:00:00", "2026-01-05T00:00:00"),
    (pa.binary(), b"\x00\xff", "00ff", "00ff"),
    (pa.string(), "", "", ""),
    (pa.string(), *["Ünïcödé \U0001f600 e\u0301"] * 3),
    (pa.string(), "two\nlines\tand \x1b[31m red", "two\nlines\tand \x1b[31m red", "two\\nlines\\tand \\x1b[31m red"),
    (pa.string(), "x" * 5_000, "x" * 5_000, "x" * 60 + "…"),
    (pa.list_(pa.int32()), [1, None, 3], [1, None, 3], "[1, null, 3]"),
    (pa.list_(pa.string()), [], [], "[]"),
    (pa.struct({"a": pa.int32(), "b": pa.list_(pa.string())}), NESTED, NESTED, json.dumps(NESTED)),
    (pa.map_(pa.string(), pa.decimal128(4, 1)), [("k", Decimal("1.5"))], [["k", "1.5"]], '[["k", "1.5"]]'),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "value", "document", "cell"), VALUES, ids=range(len(VALUES)))
def test_a_value_of_each_type_is_whole_in_json_and_one_line_on_a_terminal(world, kind, value, document, cell):
    """NULL of the type beside it; what is longer than the terminal is cut there alone."""
    world.store("gold/values", pa.table({"n": [1, 2], "value": pa.array([value, None], kind)}))
    found = world.shown("gold/values")
    assert sorted(found["rows"], key=lambda row: row["n"]) == [{"n": 1, "value": document}, {"n": 2, "value": None}]
    code, out, _ = world.show("gold/values")
    rows = {line.split("│")[1].strip(): line.split("│")[2] for line in out.splitlines() if line.startswith("│")}
    assert (code, rows["1"].strip(), rows["2"].strip()) == (0, cell.strip(), "NULL")


def test_a_year_that_python_has_not_is_a_text(world):
    """As Spark may write one."""
    days = pa.array([2_932_897], pa.int32()).cast(pa.date32())
    world.store("gold/values", pa.table({"value": days}))
    assert columns_of(world.shown("gold/values"), "value") == ["10000-01-01"]


@pytest.mark.parametrize("classification", CLASSES)
def test_a_class_shows_its_values_or_none(world, classification):
    """As the table of the classes says of samples; of a text, of another type and of a struct, in both forms."""
    values = {"text": ["hidden text"], "number": [987654321], "struct": [{"inside": "hidden too"}]}
    world.store("gold/x", pa.table({"id": [1], **values}), dict.fromkeys(values, classification))
    code, out, errors = world.show("gold/x")
    found = world.shown("gold/x")
    if classification in ("", "public"):
        assert found["rows"] == [
            {"id": 1, "text": "hidden text", "number": 987654321, "struct": {"inside": "hidden too"}}
        ]
        assert found["masked"] == []
    else:
        assert found["rows"] == [{"id": 1, "text": "***", "number": None, "struct": None}]
        assert found["masked"] == ["number", "struct", "text"]
        assert out.count("***") == 3
        assert not any(value in out + errors + json.dumps(found) for value in ("hidden", "987654321"))
    assert code == 0


def test_a_class_that_a_later_release_knows_is_hidden(world):
    """As of a table that somebody with a newer library wrote."""
    world.store("gold/x", pa.table({"text": ["hidden"]}), {"text": "genetic"})
    assert columns_of(world.shown("gold/x"), "text") == ["***"]


def test_a_damaged_declaration_shows_nothing(world):
    """Nobody knows which columns lead to persons."""
    place = world.store("gold/x", pa.table({"text": ["hidden"]}), {"text": "personal"})
    log = place / "_delta_log/00000000000000000000.json"
    log.write_text(log.read_text().replace('{\\"columns\\"', "{columns"))
    code, out, errors = world.show("gold/x")
    assert (code, out) == (3, "")
    assert "dedp.declaration cannot be read" in errors
    assert "hidden" not in errors


def test_mapped_columns_and_deleted_rows_are_read_as_by_delta(world):
    """Names of the schema and not of the files, also in a filter; rows of a deletion vector are gone."""
    rows = pa.table({"id": [1, 2, 3, 4], "full name": ["ada", "bob", None, "dan"]})
    physical = {"id": "col-1", "full name": "col-2"}
    write_mapped(world.home / "lakehouse/silver/mapped", rows, physical, deleted=[1])
    found = world.shown("silver/mapped", "--where", '"full name" IS NOT NULL')
    assert found["rows"] == [{"id": 1, "full name": "ada"}, {"id": 4, "full name": "dan"}]
    assert columns_of(world.shown("silver/mapped"), "id") == [1, 3, 4]


def test_a_former_version_is_read_by_the_classes_of_today(world):
    """A column that was classified later is masked in the past, too, also under its former name."""
    place, physical = world.home / "lakehouse/silver/mapped", {"note": "col-1"}
    write_mapped(place, pa.table({"note": ["ada@example.org"]}), physical)
    assert columns_of(world.shown("silver/mapped"), "note") == ["ada@example.org"]
    commit(place, 1, mapped_metadata({"mail": "string"}, {"mail": "col-1"}, {"mail": "personal"}))
    assert columns_of(world.shown("silver/mapped", "--version", "0"), "note") == ["***"]
    assert columns_of(world.shown("silver/mapped"), "mail") == ["***"]
    commit(place, 2, mapped_metadata({"mail": "string"}, {"mail": "col-1"}, {"mail": "public"}))
    assert columns_of(world.shown("silver/mapped", "--version", "1"), "mail") == ["***"]


def test_versions_are_named_by_number_instant_and_milestone(world, capsys):
    """As for a restore; a version that is not there is refused in a sentence."""
    place = world.store("gold/x", pa.table({"n": [1]}))
    world.store("gold/x", pa.table({"n": [2]}), mode="overwrite")
    assert world.called("restore", "gold/x", "--keep", "right", "--at", "0")[0] == 0
    second = DeltaTable(str(place)).history()[-2]["timestamp"]
    instant = datetime.fromtimestamp(second / 1000, timezone.utc).isoformat()
    for version, rows in (("0", [1]), ("1", [2]), ("right", [1]), (instant, [2]), ("", [2])):
        assert columns_of(world.shown("gold/x", "--version", version), "n") == rows
    assert "its newest is" in world.show("gold/x", "--version", "77")[2]
    assert "has no milestone wrong" in world.show("gold/x", "--version", "wrong")[2]


def test_a_version_whose_files_are_gone_is_refused_in_a_sentence(world):
    """After a vacuum; and of the newest version, with the command that says what repairs it."""
    place = world.store("gold/x", pa.table({"n": [1]}))
    world.store("gold/x", pa.table({"n": [2]}), mode="overwrite")
    for file in place.glob("*.parquet"):
        file.unlink()
    code, _, errors = world.show("gold/x", "--version", "0")
    assert (code, "can no longer be read at version 0" in errors) == (2, True)
    code, _, errors = world.show("gold/x")
    assert (code, "`dedp verify`" in errors, len(errors.splitlines())) == (3, True, 1)


PARTS = [
    ("date32", date(2026, 1, 5), "2026-01-05"),
    ("int32", -7, "-7"),
    ("int64", 2**60, str(2**60)),
    ("bool", True, "true"),
    ("timestamp", NOW.replace(hour=3, microsecond=5), "2026-01-05T03:00:00.000005Z"),
    ("string", "a b/c%d'é\"", "a b/c%d'é\""),
]


@pytest.mark.parametrize(("kind", "value", "stated"), PARTS, ids=[kind for kind, *_ in PARTS])
def test_a_partition_is_named_by_its_value_or_column(world, kind, value, stated):
    """Of each type of partition columns; rows of NULL and of other values are left out."""
    of = pa.timestamp("us", "UTC") if kind == "timestamp" else getattr(pa, f"{kind}_" if kind == "bool" else kind)()
    rows = pa.table({"n": [1, 2, 3], "part": pa.array([value, None, value], of)})
    world.store("gold/x", rows, partition_by=["part"])
    for words in (stated, f"part={stated}"):
        assert sorted(columns_of(world.shown("gold/x", words), "n")) == [1, 3]


def test_several_partition_columns_are_stated_with_commas(world):
    """A value alone is of the first one."""
    rows = pa.table({"n": [1, 2, 3], "day": ["mon", "mon", "tue"], "hour": [1, 2, 1]})
    world.store("gold/x", rows, partition_by=["day", "hour"])
    assert sorted(columns_of(world.shown("gold/x", "mon"), "n")) == [1, 2]
    assert columns_of(world.shown("gold/x", "day=mon,hour=2"), "n") == [2]


@pytest.mark.parametrize(
    ("where", "ids"),
    [
        ("CASE WHEN part = 'p' THEN true ELSE false END", [1]),
        ("part IN (NULL, 'p')", [1]),
        ("part NOT IN (NULL, 'p')", []),
        ("n NOT IN (1, NULL)", []),
        ("coalesce(part, 'none') = 'none'", [3]),
        ("part IS NULL OR n = 2", [2, 3]),
    ],
)
def test_filters_of_partition_columns_hold(world, where, ids):
    """Deltalake takes some of them and does not apply them: the engine filters above."""
    world.store("gold/x", pa.table({"n": [1, 2, 3], "part": ["p", "q", None]}), partition_by=["part"])
    assert sorted(columns_of(world.shown("gold/x", "--where", where), "n")) == ids


def test_columns_and_rows_are_limited(people):
    """In the order that was asked for; a remark says that there are more."""
    found = people.shown("silver/people", "--columns", "city, ID,id", "--limit", "2")
    assert [[*row] for row in found["rows"]] == [["city", "id"]] * 2
    assert (found["more"], found["types"]) == (True, {"city": "STRING", "id": "BIGINT"})
    assert "There are further rows: --limit." in people.show("silver/people", "--limit", "3")[1]
    assert not people.shown("silver/people", "--limit", "4")["more"]
    assert "further" not in people.show("silver/people", "--limit", "4")[1]


def test_wide_rows_are_a_line_for_each_value(world):
    """Where the grid would be folded beyond reading; masked values among them."""
    names = {f"a_column_with_a_long_name_{n}": [f"value {n}"] for n in range(12)}
    world.store("gold/wide", pa.table({**names, "mail": ["hidden"]}), {"mail": "personal"})
    lines = world.show("gold/wide")[1].splitlines()
    assert lines[:3] == [
        "gold/wide, version 0",
        "row 1",
        "  a_column_with_a_long_name_0   value 0",
    ]
    assert "  mail                          ***" in lines
    assert lines[-1] == "Masked: mail; --as AUDIENCE reads by a policy."


def test_a_table_without_rows_is_no_error(world):
    """In both forms."""
    world.store("gold/x", pa.table({"n": pa.array([], pa.int64())}))
    assert world.show("gold/x") == (0, "gold/x, version 0: no row\n", "")
    assert world.shown("gold/x")["rows"] == []


REFUSED = [
    (("silver/peopl",), "such as silver/people"),
    (("silver/people", "--columns", "city,mial"), "--columns must be columns of silver/people, such as mail, not mial"),
    (("silver/people", "mon"), "silver/people has no partitions"),
    (("silver/people", "--where", "mail = 'eve'"), "--where must be over columns in the clear, not over mail"),
    (("silver/people", "--where", 'upper("mail") LIKE \'A%\''), "not over mail"),
    (("silver/people", "--where", "people.mail IS NULL"), "not over mail"),
    (("silver/people", "--where", "MAIL IS NULL"), "not over MAIL"),
    (("silver/people", "--where", "born < DATE '1900-01-01'"), "not over born"),
    (("silver/people", "--where", "id = 1 OR mail = 'eve'"), "not over mail"),
    (("silver/people", "--where", "cty = 'x'"), 'such as --where "city IS NOT NULL", not over cty'),
    (("silver/people", "--where", "CITY = 'x'"), 'such as --where "city IS NOT NULL", not over CITY'),
    (("silver/people", "--where", "id IN (SELECT id FROM silver.people)"), "without a query over other rows"),
    (("silver/people", "--where", "true) UNION SELECT 1, 'a', NULL, 'b', true --"), "where cannot be evaluated"),
    (("silver/people", "--where", "true THEN 1 END AS one FROM x UNION SELECT CASE WHEN true"), "where cannot be"),
    (("silver/people", "--where", "city = "), "where cannot be evaluated"),
    (("silver/people", "--where", "id"), "where cannot be evaluated"),
    (("silver/people", "--where", "1; DROP TABLE x"), "where cannot be evaluated"),
    (("silver/people", "--where", "1/(id - 1) > 0"), "where cannot be evaluated: Divide by zero"),
    (("silver/people", "--where", "nosuch(id)"), "Invalid function 'nosuch'"),
    (("silver/people", "--limit", "0"), "--limit must be 1 or more, not 0"),
    (("silver/people", "--as", "nobody"), "--as must be an audience with a policy for silver/people, not nobody"),
    (("silver/people", "--letters"), "silver/people has no dead letters: `dedp letters` lists"),
    (("silver/people", "--version", "yesterday noon"), "a moment must be a version, an instant"),
]  # fmt: skip


@pytest.mark.parametrize(("words", "sentence"), REFUSED, ids=range(len(REFUSED)))
def test_what_is_not_there_is_refused_in_one_line(people, words, sentence):
    """With the nearest name or an example, and without a value of a masked column."""
    code, out, errors = people.show(*words)
    assert (code, out, len(errors.splitlines())) == (2, "", 1)
    assert sentence in errors
    assert not any(value in errors for value in ("ada@", "grace@", "1815", "1906"))


def test_partitions_that_are_not_there_are_refused_with_the_nearest(world):
    """By value, column and type; and of a column that is masked, which would tell its values."""
    days = pa.table({"n": [1, 2], "day": [date(2026, 1, 5), date(2026, 1, 6)], "who": ["ada", "eve"]})
    world.store("gold/x", days, {"who": "personal"}, partition_by=["day", "who"])
    for stated, sentence in (
        ("2026-01-07", "gold/x has no rows in day=2026-01-07: it has day=2026-01-0"),
        ("2026-13-01", "its values are of type DATE"),
        ("dya=2026-01-05", "is partitioned by ['day', 'who'], not by ['dya']"),
        ("who=ada", "must be of columns that are shown in the clear, not of who"),
        ("day=2026-01-05,who=bob", "must be of columns that are shown in the clear, not of who"),
    ):
        code, _, errors = world.show("gold/x", stated)
        assert (code, sentence in errors) == (2, True), errors
        assert "eve" not in errors


def test_without_a_home_nothing_looks_empty(monkeypatch, capsys, tmp_path):
    """It is refused with the command that makes one."""
    world = row_world(monkeypatch, capsys, tmp_path / "home")
    (tmp_path / "home/lakehouse").rmdir()
    (tmp_path / "home").rmdir()
    assert world.show("silver/visits")[0] == 2
    assert world.sql("SELECT 1")[0] == 2


def test_a_table_that_is_declared_and_not_stored_says_what_computes_it(world):
    """As other commands do."""
    code, _, errors = world.show("silver/visits")
    assert (code, errors) == (2, "dedp show: silver/visits: nothing is stored yet: `dedp plan silver/visits`\n")


def test_dead_letters_are_those_of_the_table(world):
    """By its name, and by their own; the record as it landed is masked by its class."""
    letter = {name: [None] for name in LETTER}
    rows = pa.table({"raw": ["ada@example.org"], **letter, "reason": ["id is missing"]})
    rows = rows.cast(pa.schema([(name, pa.string()) for name in rows.column_names]))
    world.store("silver/people", PEOPLE, CLASSIFIED)
    world.store("silver/people_dead_letter", rows, {"raw": "personal"})
    for name in ("silver/people", "silver/people_dead_letter"):
        found = world.shown(name, "--letters")
        assert (found["table"], columns_of(found, "reason")) == ("silver/people_dead_letter", ["id is missing"])
        assert columns_of(found, "raw") == ["***"]


def declare(world, *policies, table="silver/people"):
    """Put policies of a table on record."""
    PolicyLog(world.home / "policies.jsonl").declare(table, policies, by="the owner", at=NOW)


def test_an_audience_reads_by_its_policy(people):
    """Its columns, rows and limit; each kind of mask as in Spark, NULL as NULL; other audiences read otherwise."""
    masks = {"mail": ColumnMask("partial"), "born": ColumnMask("constant", "1970-01-01")}
    declare(
        people,
        Policy("support", ["id", "mail", "born"], masks, rows="active"),
        Policy("two", ["id", "MAIL"], rows="true", max_rows=2),
        Policy("none", ["id"]),
        Policy("auditors", ["mail", "born"], {"born": ColumnMask("null", unless="city = 'London'")}, rows="id <> 3"),
    )
    assert people.shown("silver/people", "--as", "support")["rows"] == [
        {"id": 1, "mail": "ada***", "born": "1970-01-01"},
        {"id": None, "mail": "gra***", "born": "1970-01-01"},
    ]
    two = people.shown("silver/people", "--as", "two", "--where", "mail IS NOT NULL")
    assert (two["rows"], two["more"]) == ([{"id": 1, "mail": "ada@example.org"}, {"id": 3, "mail": "eve"}], True)
    assert people.shown("silver/people", "--as", "none")["rows"] == []
    assert people.shown("silver/people", "--as", "auditors")["rows"] == [
        {"mail": "ada@example.org", "born": "1815-12-10"},
        {"mail": None, "born": None},
    ]
    assert people.shown("silver/people")["rows"][0]["mail"] == "***"
    errors = people.show("silver/people", "--as", "sales")[2]
    assert "there are policies of auditors, none, support, two" in errors
    for words in (["--where", "born < DATE '1900-01-01'"], ["--where", "city = 'x'"], ["--columns", "city"]):
        assert people.show("silver/people", "--as", "support", *words)[0] == 2


def test_a_partition_of_hidden_rows_is_empty_as_a_missing_one(world):
    """Neither the answer nor a list of partitions tells an audience which rows a policy hides."""
    world.store("gold/x", pa.table({"n": [1, 2], "region": ["EU", "US"]}), partition_by=["region"])
    declare(world, Policy("europe", ["n", "region"], rows="region = 'EU'"), table="gold/x")
    assert columns_of(world.shown("gold/x", "EU", "--as", "europe"), "n") == [1]
    hidden, missing = (world.show("gold/x", region, "--as", "europe") for region in ("US", "UK"))
    assert hidden == (0, "gold/x, version 0, US: no row\n", "")
    assert missing == (0, "gold/x, version 0, UK: no row\n", "")


def test_masks_by_shape_and_hash_are_those_of_spark(people, monkeypatch):
    """The last signs of a text in the format, another format hidden whole; the keyed hash of the audience."""
    secret = bytes(range(32))
    monkeypatch.setenv("DEDP_MASKING_KEY", secret.hex())
    found = {}
    for mask in (ColumnMask("shape", "AAA@AAAAAAA.AAA"), ColumnMask("hash"), ColumnMask("hash", "e-mail")):
        declare(people, Policy("x", ["mail"], {"mail": mask}, rows="true"))
        found[mask] = columns_of(people.shown("silver/people", "--as", "x"), "mail")
        assert secret.hex() not in people.show("silver/people", "--as", "x", "--where", "mail + 1")[2]
    key = MaskingKey("setting", secret).of("x")
    shape, *hashes = found.values()
    assert shape == ["XXX@XXXXXXe.org", None, "XXX@XXXXXXX.XXX", "XXX@XXXXXXX.XXX"]
    for values, of in zip(hashes, ("mail", "e-mail"), strict=True):
        assert values == [None if m is None else keyed_digest(key, of, m) for m in PEOPLE["mail"].to_pylist()]


@pytest.mark.parametrize(
    ("policy", "sentence"),
    [
        (Policy("x", ["id", "gone"], rows="true"), "names gone, which silver/people does not have"),
        (Policy("x", ["id"], rows="length(mail) > 3"), "which only Spark evaluates"),
        (Policy("x", ["id"], rows="born > DATE '1900-01-01'"), "which only Spark evaluates"),
        (Policy("x", ["id"], rows="id > 0.5"), "which only Spark evaluates"),
        (Policy("x", ["id"], rows="NOT (id IN (1) AND id IN (2))"), "which only Spark evaluates"),
        (Policy("x", ["id", "born"], {"born": ColumnMask("constant", "never")}, rows="true"), "which is no DATE"),
        (Policy("x", ["id", "born"], {"born": ColumnMask("partial")}, rows="true"), "takes a text and no DATE"),
    ],
)
def test_a_policy_that_cannot_be_held_shows_nothing(people, policy, sentence):
    """A predicate that two engines may read in two ways is none to guess at."""
    declare(people, policy)
    code, out, errors = people.show("silver/people", "--as", "x")
    assert (code, out, len(errors.splitlines())) == (2, "", 1)
    assert sentence in errors


def test_rows_on_a_storage_tier_are_read_from_there_or_refused(world):
    """As Spark's readers of the library do."""
    copy = world.store("copies/x", pa.table({"n": [2], "part": ["b"]}), partition_by=["part"])
    place = world.store("gold/x", pa.table({"n": [1], "part": ["a"]}), partition_by=["part"])
    for version, online in ((1, True), (2, False)):
        tier = {"partition": {"part": "b"}, "tier": "cold", "place": str(copy), "size_bytes": 1, "online": online}
        restate(place, {"dedp.tiered": json.dumps([tier])}, version)
        if online:
            assert sorted(columns_of(world.shown("gold/x"), "n")) == [1, 2]
    assert "part=b (tier cold)" in world.show("gold/x")[2]
    assert columns_of(world.shown("gold/x", "a"), "n") == [1]


COLUMNS = ("n", "text", "part")
ROWS = st.lists(
    st.tuples(
        st.one_of(st.none(), st.integers(-3, 3)),
        st.sampled_from([None, "", "a", "abcdef", "Abcdefg", "ü%_'\\"]),
        st.sampled_from([None, "p", "q r"]),
    ),
    max_size=8,
)
LITERALS = {
    "n": st.integers(-3, 3),
    "text": st.sampled_from(["a", "abcdef", "ü%_'\\"]),
    "part": st.sampled_from(["p", "z"]),
}
COMPARED = {"=": operator.eq, "<>": operator.ne, "<": operator.lt, ">=": operator.ge}


def literal(value):
    """A value in SQL."""
    return str(value) if isinstance(value, int) else "'" + value.replace("'", "''") + "'"


@dataclass(frozen=True)
class Predicate:
    """SQL, and the truth of a row: ``None`` is neither, as in SQL."""

    sql: str
    of: Callable[[dict[str, Any]], bool | None] = field(repr=False)


def compared(column, sign, value):
    """A comparison with a value."""
    compare = COMPARED[sign]
    return Predicate(
        f"{column} {sign} {literal(value)}",
        lambda row: None if row[column] is None else compare(row[column], value),
    )


def chosen(column, value):
    """A CASE."""
    sql = f"CASE WHEN {column} = {literal(value)} THEN true ELSE false END"
    return Predicate(sql, lambda row: row[column] == value)


def among(column, value):
    """An IN."""
    sql = f"{column} IN ({literal(value)}, {literal(value)})"
    return Predicate(sql, lambda row: None if row[column] is None else row[column] == value)


def missing(column, value):
    """A test for NULL."""
    return Predicate(f"{column} IS NULL", lambda row: row[column] is None)


def negated(one):
    """NOT."""
    return Predicate(f"(NOT {one.sql})", lambda row: {True: False, False: True}.get(one.of(row)))


def joined(word, one, other):
    """AND, and OR, which a false and a true side decide."""
    decides = word == "OR"

    def of(row):
        found = [one.of(row), other.of(row)]
        return decides if decides in found else None if None in found else not decides

    return Predicate(f"({one.sql} {word} {other.sql})", of)


def predicates(columns):
    """Predicates over some columns."""

    def over(column):
        values = LITERALS[column]
        comparisons = st.builds(compared, st.just(column), st.sampled_from([*COMPARED]), values)
        return st.one_of(comparisons, *(st.builds(kind, st.just(column), values) for kind in (chosen, among, missing)))

    found = st.one_of(*map(over, columns))
    for _ in range(2):
        joins = st.builds(joined, st.sampled_from(["AND", "OR"]), found, found)
        found = st.one_of(found, st.builds(negated, found), joins)
    return found.filter(lambda one: "NOT" not in one.sql or one.sql.count(" IN ") < 2)  # which DataFusion 55 has wrong


MASKED = {"n": lambda _: None, "text": lambda value: None if value is None else "***"}
MASKED["part"] = MASKED["text"]
PARTLY = {
    "n": (ColumnMask("constant", "7"), lambda value: None if value is None else 7),
    "text": (
        ColumnMask("partial"),
        lambda value: None if value is None else f"{value[:3] if len(value) >= 6 else ''}***",
    ),
    "part": (ColumnMask("null"), lambda _: None),
}


def sorted_rows(rows):
    """Rows in one order."""
    return sorted(map(repr, rows))


@given(st.data())
def test_rows_are_those_of_a_model(data):
    """Of random rows, classes and filters: those that satisfy the filter, with masked values, and nothing else."""
    rows, hidden = data.draw(ROWS), data.draw(st.sets(st.sampled_from(COLUMNS)))
    clear = [name for name in COLUMNS if name not in hidden]
    filtered = data.draw(predicates(clear)) if clear else Predicate("", lambda _: True)
    with rows_of(rows, dict.fromkeys(hidden, "personal")) as shown:
        found = shown.rows("gold/x", where=filtered.sql, limit=100)
        expected = [
            tuple(MASKED[name](row[name]) if name in hidden else row[name] for name in COLUMNS)
            for row in records(rows)
            if filtered.of(row)
        ]
        assert sorted_rows(found.answer.rows) == sorted_rows(expected), filtered
        assert found.masked == hidden
        for name in hidden:
            with pytest.raises(ConfigError, match=f"not over {name}, which is masked"):
                shown.rows("gold/x", where=f"{name} IS NULL")


@given(st.data())
def test_rows_of_an_audience_are_those_of_a_model(data):
    """Of random policies: rows of both the policy and the filter, its columns, and masks of each type."""
    rows, names = data.draw(ROWS), data.draw(st.sets(st.sampled_from(COLUMNS), min_size=1))
    masked = data.draw(st.sets(st.sampled_from(sorted(names))))
    of_policy = data.draw(predicates(COLUMNS).filter(lambda found: is_sound(found.sql, KINDS)))
    clear = sorted(names - masked)
    filtered = data.draw(predicates(clear)) if clear else Predicate("", lambda _: True)
    policy = Policy("x", sorted(names), {name: PARTLY[name][0] for name in masked}, rows=of_policy.sql)
    with rows_of(rows, {}, policy) as shown:
        found = shown.rows("gold/x", where=filtered.sql, limit=100)
    expected = [
        tuple(PARTLY[name][1](row[name]) if name in masked else row[name] for name in sorted(names))
        for row in records(rows)
        if of_policy.of(row) and filtered.of(row)
    ]
    assert sorted_rows(found.answer.rows) == sorted_rows(expected), (of_policy, filtered)


def records(rows):
    """Rows by the names of their columns."""
    return [dict(zip(COLUMNS, row, strict=True)) for row in rows]


KINDS = {"n": "long", "text": "string", "part": "string"}
SCHEMA = pa.schema({"n": pa.int64(), "text": pa.string(), "part": pa.string()})


@contextmanager
def rows_of(rows, classes, *policies):
    """A table of these rows, in two commits, read by its classes or a policy."""
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patched:
        patched.setenv("DEDP_HOME", folder)
        home = Path(folder)
        world = RowWorld(home, pytest.fail)
        for part in (rows[:3], rows[3:]):
            world.store("gold/x", pa.Table.from_pylist(records(part), SCHEMA), mode="append", partition_by=["part"])
        if classes:
            restate(home / "lakehouse/gold/x", declaring(classes))
        declare(world, *policies, table="gold/x")
        lake = Lake(root=str(home / "lakehouse"), engine=None)
        yield LakeRows(lake, settings(), "x" if policies else "")


@pytest.mark.parametrize(
    ("value", "kind", "constant", "shown"),
    [
        (7, pa.int8(), "1", 1),
        (2**40, pa.int64(), "-5", -5),
        (0.5, pa.float64(), "1.25", 1.25),
        (True, pa.bool_(), "false", False),
        (Decimal("1.50"), pa.decimal128(6, 2), "9.99", "9.99"),
        (date(2026, 1, 5), pa.date32(), "1970-01-01", "1970-01-01"),
        (NOW, pa.timestamp("us", "UTC"), "1970-01-01T00:00:00Z", "1970-01-01T00:00:00+00:00"),
        (NOW.replace(tzinfo=None), pa.timestamp("us"), "1970-01-01T00:00:00", "1970-01-01T00:00:00"),
        ("it's", pa.string(), "o'clock", "o'clock"),
    ],
    ids=str,
)
def test_a_constant_is_of_the_type_of_its_column(world, value, kind, constant, shown):
    """NULL stays NULL; so a query over it fits as over the values themselves."""
    world.store("gold/x", pa.table({"n": [1, 2], "v": pa.array([value, None], kind)}))
    declare(world, Policy("x", ["n", "v"], {"v": ColumnMask("constant", constant)}, rows="true"), table="gold/x")
    assert sorted(map(str, columns_of(world.shown("gold/x", "--as", "x"), "v"))) == sorted(["None", str(shown)])
    types = [
        world.document("sql", "SELECT arrow_typeof(v) AS t FROM gold.x LIMIT 1", *to) for to in ([], ["--as", "x"])
    ]
    assert types[0]["rows"][0]["t"].replace("View", "") == types[1]["rows"][0]["t"].replace("View", "")
