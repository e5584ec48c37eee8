"""Policies: what an audience sees of rows, columns and cells, and that nothing else can be asked for."""

from __future__ import annotations

import hashlib
import hmac
import io
from contextlib import redirect_stdout
from datetime import date
from decimal import Decimal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.masking import MaskingKey
from dedp_assets.patterns.core.policies import ColumnMask, Policy, secured, strictest

KEY = MaskingKey("tables-1", b"0123456789abcdef0123456789ABCDEF")
SSN = ColumnMask(by="shape", value="999-99-9999")
PEOPLE = (
    "id INT, `full name` STRING, ssn STRING, `größe` DECIMAL(5,2), born DATE, region STRING, nested STRUCT<os: STRING>"
)
ROWS = [
    (1, "Ada Lovelace", "111-11-1111", Decimal("1.65"), date(1815, 12, 10), "North", ("linux",)),
    (2, "Eve", "222-22-2222", Decimal("1.70"), date(1990, 1, 1), "South", ("mac",)),
    (3, None, None, None, None, None, None),
    (4, "Bob O'Neil", "no number", Decimal("1.80"), date(2000, 2, 29), "North", ("bsd",)),
]
ALL = ["id", "full name", "ssn", "größe", "born", "region"]


@pytest.fixture(scope="module")
def people(spark):
    return spark.createDataFrame(ROWS, PEOPLE)


def seen(rows, policy, key=KEY):
    return [tuple(row) for row in secured(rows, policy, key).orderBy("id").collect()]


# --- declarations, without Spark -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"audience": ""}, "audience must say who reads"),
        ({"columns": ["id", "ID"]}, "columns names id twice"),
        ({"columns": [""]}, "columns must "),
        ({"masks": {"snn": SSN}}, "masks must be of columns that analysts may see, not of snn"),
        ({"masks": {"ssn": SSN, "SSN": ColumnMask(by="null")}}, "masks names ssn twice"),
        ({"max_rows": -1}, "max_rows must be at least 0"),
        ({"columns": "ssn"}, "columns must be a list of texts"),
    ],
)
def test_a_policy_that_cannot_be_meant_is_refused(options, said):
    """A misspelt mask would show the values that it was meant for."""
    with pytest.raises(ConfigError, match=said):
        Policy(**{"audience": "analysts", "columns": ["id", "ssn"], **options})


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"by": "partly"}, "by must be hash, partial, shape, null or constant"),
        ({"by": "constant"}, "value must be the value that is shown for a mask by constant"),
        ({"by": "null", "value": "0"}, "value must be empty for a mask by null, not '0'"),
        ({"by": "shape"}, "shape must have a 9 for each digit"),
        ({"by": "shape", "value": "9999"}, "keep must be from 0 to 3"),
    ],
)
def test_a_mask_that_hides_nothing_is_refused(options, said):
    """Before any row."""
    with pytest.raises(ConfigError, match=said):
        ColumnMask(**options)


def test_policies_that_show_something_else_have_another_digest():
    """By any option; the order of masks is none."""
    masks = {"ssn": SSN, "name": ColumnMask(by="null")}
    first = Policy("a", ["name", "ssn"], masks, rows="true")
    assert first.digest == Policy("a", ["name", "ssn"], dict(reversed(masks.items())), rows="true").digest
    others = [
        Policy("b", ["name", "ssn"], masks, rows="true"),
        Policy("a", ["ssn"], {"ssn": SSN}, rows="true"),
        Policy("a", ["name", "ssn"], {"ssn": SSN}, rows="true"),
        Policy("a", ["name", "ssn"], masks),
        Policy("a", ["name", "ssn"], masks, rows="true", max_rows=3),
        Policy("a", ["name", "ssn"], masks, rows="true", may_export=True),
    ]
    assert len({each.digest for each in (first, *others)}) == 7


def test_the_strictest_policy_has_every_mask_and_the_smallest_limits():
    """AC-8.3-4: masking on, smallest limit, export off; rows that each of them shows."""
    free = Policy("staff", ["id", "Ssn", "name"], rows="true", may_export=True, max_rows=1000)
    tight = Policy("support", ["ssn", "id"], {"ssn": SSN}, rows="region = 'US'", max_rows=100)
    merged = strictest(free, tight)
    assert (merged.audience, [*merged.columns]) == ("staff and support", ["id", "Ssn"])
    assert (merged.mask_of("ssn"), merged.rows, merged.max_rows, merged.may_export) == (
        SSN,
        "region = 'US'",
        100,
        False,
    )
    assert strictest(free) == free
    assert strictest(free, Policy("x", ["id"], rows="true", may_export=True)).may_export
    assert strictest(free, Policy("nobody", ["id"])).rows == ""
    with pytest.raises(ConfigError, match="staff and others must have a column in common"):
        strictest(free, Policy("others", ["page"]))


def test_the_stronger_of_two_masks_stays_and_exceptions_that_differ_are_dropped():
    """Cells that one of the policies hides are hidden."""
    own, soft = ColumnMask(by="partial", unless="id = 1"), ColumnMask(by="null", unless="id = 2")
    one, other = (Policy(name, ["id", "ssn"], {"ssn": mask}, "true") for name, mask in (("a", own), ("b", soft)))
    assert strictest(one, other).mask_of("ssn") == ColumnMask(by="null")
    assert strictest(one, one).mask_of("ssn") == own


# --- what is seen ----------------------------------------------------------------------------------------------------


@pytest.mark.both
def test_every_kind_of_mask_keeps_the_type_and_null(people):
    """AC-8.3-5: texts by each kind, numbers, days and structs by NULL or a constant; a short text is hidden whole."""
    masks = {
        "full name": ColumnMask(by="partial"),
        "ssn": SSN,
        "größe": ColumnMask(by="constant", value="0.00"),
        "BORN": ColumnMask(by="constant", value="1900-01-01"),
        "region": ColumnMask(by="hash"),
        "nested": ColumnMask(by="null"),
    }
    policy = Policy("a", [*ALL, "nested"], masks, rows="true")
    hashed = hmac.new(KEY.of("a").secret, b"region\x1fNorth", hashlib.sha256).hexdigest()
    first, second, third, fourth = seen(people, policy)
    zero, day = Decimal("0.00"), date(1900, 1, 1)
    assert first == (1, "Ada***", "XXX-XX-1111", zero, day, hashed, None)
    assert second[:3] == (2, "***", "XXX-XX-2222")
    assert third == (3, None, None, None, None, None, None)
    assert fourth == (4, "Bob***", "XXX-XX-XXXX", zero, day, hashed, None)
    assert len(second[5]) == 64
    assert second[5] != hashed
    masked = secured(people, policy, KEY).schema
    assert [(f.name, f.dataType) for f in masked] == [(f.name, f.dataType) for f in people.schema]
    assert seen(people, Policy("b", ["id", "region"], {"region": ColumnMask(by="hash")}, "true"))[0][1] != hashed


def test_a_cell_is_shown_where_the_exception_is_true_and_a_null_is_no_truth(people):
    """Cell level: the row decides, also by a column that is masked or not shown."""
    own = {"ssn": ColumnMask(by="null", unless="region = 'North' AND ssn LIKE '1%'")}
    assert seen(people, Policy("a", ["id", "ssn"], own, "id <> 4")) == [(1, "111-11-1111"), (2, None), (3, None)]


def test_rows_are_chosen_by_values_and_not_by_masks(people):
    """The filter of a policy sees a column that is masked, one that is not shown, and takes NULL as a no."""
    assert seen(people, Policy("a", ["id", "ssn"], {"ssn": ColumnMask(by="null")}, "ssn = '222-22-2222'")) == [
        (2, None)
    ]
    assert seen(people, Policy("a", ["id"], {}, "region = 'North'")) == [(1,), (4,)]
    assert seen(people, Policy("a", ["id"], {}, "region <> 'North'")) == [(2,)]
    assert seen(people, Policy("a", ["id"], {}, "CAST(NULL AS BOOLEAN)")) == []
    assert seen(people, Policy("a", ["id"])) == []


def test_a_column_that_the_table_gets_later_is_not_there(people):
    """Acceptance 4: default deny, in the policy's order and the table's spelling."""
    grown = people.withColumn("salary", people["id"] * 1000)
    assert secured(grown, Policy("a", ["REGION", "Id"], rows="true")).columns == ["region", "id"]


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        (
            Policy("a", ["id", "gone", "lost"]),
            "the policy of a for silver/people names gone, lost, which the rows do not",
        ),
        (Policy("a", ["id", "nested.os"]), "names nested.os, a field inside of a column: flatten first"),
        (Policy("a", ["nested"], {"nested": ColumnMask(by="hash")}), "masks nested by hash.* flatten first"),
        (Policy("a", ["nested"], {"nested": ColumnMask(by="constant", value="x")}), "'x', which is no STRUCT"),
        (Policy("a", ["id"], {"id": ColumnMask(by="hash")}), "takes a text and no INT: mask by null or a constant"),
        (Policy("a", ["id"], {"id": ColumnMask(by="partial")}), "takes a text and no INT"),
        (Policy("a", ["id"], {"id": ColumnMask(by="constant", value="REDACTED")}), "'REDACTED', which is no INT"),
        (Policy("a", ["born"], {"born": ColumnMask(by="constant", value="2001-02-29")}), "which is no DATE"),
        (Policy("a", ["id"], rows="gone = 1"), "for silver/people: predicate of rows cannot be evaluated: .*gone"),
        (Policy("a", ["id"], rows="id = 1) OR (true"), "predicate of rows cannot be evaluated"),
        (Policy("a", ["id"], rows="id IN (SELECT 1)"), "predicate of rows must be of one row"),
        (Policy("a", ["id"], rows="rand() < 0.5"), "predicate of rows must say the same of a row each time"),
        (Policy("a", ["id"], rows="id"), "predicate of rows cannot be evaluated"),
        (
            Policy("a", ["id"], {"id": ColumnMask(by="null", unless="gone")}, "true"),
            "predicate unless of id cannot be evaluated",
        ),
    ],
)
def test_a_policy_that_does_not_fit_the_rows_is_refused_by_one_sentence(people, policy, said):
    """Acceptance 5: policy, table and column are named, and nothing is computed."""
    with pytest.raises(ConfigError, match=said) as refused:
        secured(people, policy, KEY, of="silver/people")
    assert "111-11" not in str(refused.value)


def test_a_hash_needs_a_key_and_no_plan_shows_the_key(people):
    """A hash without a key could be found by trying."""
    policy = Policy("a", ["id", "ssn"], {"ssn": ColumnMask(by="hash")}, "true")
    with pytest.raises(ConfigError, match="key must be given for the hash of ssn"):
        secured(people, policy)
    with redirect_stdout(io.StringIO()) as shown:
        secured(people, policy, KEY).explain(extended=True)
    assert KEY.secret.decode() not in shown.getvalue()
    assert KEY.of("a").secret.hex() not in shown.getvalue()


def test_a_column_whose_name_has_a_dot_is_no_field(spark):
    """Names with dots, blanks, backticks and quotes."""
    names = ["a.b", "a b", "a`b", "it's", "ß"]
    rows = spark.createDataFrame([(1, *(f"value {n}" for n in range(5)))], ["id", *names])
    masked = {name: ColumnMask(by="partial") for name in names}
    assert seen(rows, Policy("a", ["id", *names], masked, "`a.b` <> `it's`")) == [(1, *["val***"] * 5)]


def model(rows, policy):
    """What a policy shows, in Python: rows of ``id, name, region``."""
    chosen = {
        "": lambda _: False,
        "true": lambda _: True,
        "region = 'n'": lambda row: row[2] == "n",
        "id > 1 OR name IS NULL": lambda row: (row[0] is not None and row[0] > 1) or row[1] is None,
    }[policy.rows]
    found = []
    for row in filter(chosen, rows):
        cells = dict(zip(("id", "name", "region"), row, strict=True))
        for column, mask in policy.masks.items():
            shown = mask.unless == "region = 'n'" and row[2] == "n"
            value = cells[column]
            if not shown and value is not None:
                cells[column] = {
                    "null": lambda _: None,
                    "constant": lambda _, mask=mask: int(mask.value) if mask.value.isdigit() else mask.value,
                    "partial": lambda text: (text[:3] if len(text) > 5 else "") + "***",
                    "hash": lambda text, column=column: hmac.new(
                        KEY.of("a").secret, f"{column}\x1f{text}".encode(), hashlib.sha256
                    ).hexdigest(),
                }[mask.by](value)
        found.append(tuple(cells[column] for column in policy.columns))
    return sorted(found, key=repr)


TEXTS = st.sampled_from([None, "", "abc", "abcde", "abcdef", "Zoë Ωmega", "*** x"])
MASKS = {
    "id": st.builds(ColumnMask, by=st.sampled_from(["constant"]), value=st.sampled_from(["0", "17"])),
    "name": st.builds(
        ColumnMask, by=st.sampled_from(["null", "partial", "hash"]), unless=st.sampled_from(["", "region = 'n'"])
    ),
    "region": st.just(ColumnMask(by="constant", value="somewhere")),
}


@st.composite
def policies(draw):
    columns = draw(st.permutations(["id", "name", "region"]).map(lambda all_of: all_of[: 1 + len(all_of[0]) % 3]))
    masks = {column: draw(MASKS[column]) for column in columns if draw(st.booleans())}
    return Policy("a", columns, masks, draw(st.sampled_from(["", "true", "region = 'n'", "id > 1 OR name IS NULL"])))


@given(
    rows=st.lists(
        st.tuples(st.none() | st.integers(0, 3), TEXTS, st.sampled_from([None, "n", "s"])), min_size=1, max_size=8
    ),
    policy=policies(),
)
@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
def test_any_policy_shows_of_any_rows_what_a_model_says(spark, rows, policy):
    """Rows, columns, masks and exceptions, by a plain Python model."""
    held = spark.createDataFrame(rows, "id INT, name STRING, region STRING")
    found = [tuple(row) for row in secured(held, policy, KEY).collect()]
    assert sorted(found, key=repr) == model(rows, policy)
