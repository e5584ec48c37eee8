"""Anonymizer."""

from __future__ import annotations

import io
import statistics
from contextlib import redirect_stdout
from datetime import date
from decimal import Decimal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.masking import MaskingKey
from dedp_assets.patterns.security.anonymizer import Perturb, Remove, Replace, anonymize, judge_utility
from tests.contracts.known_calls import known_calls
from tests.renaming import any_names

KEY = MaskingKey("partners-1", b"0123456789abcdef0123456789ABCDEF")
RULES = {
    "id": Remove(),
    "ssn": Remove(),
    "name": Replace(like="name"),
    "ip": Replace(like="ip"),
    "born": Perturb(within=60, tolerance=0.1),
    "pay": Perturb(within=500, tolerance=0.1),
}
COLUMNS = "id INT, ssn STRING, name STRING, ip STRING, born DATE, pay INT, plan STRING"
PEOPLE = [
    (n, f"{n:03}-11-2222", f"Ada {n}", f"10.0.0.{n % 256}", date(1950 + n % 50, 1 + n % 12, 3), 20_000 + n * 37, "free")
    for n in range(400)
]
OF = {"identity": ["id"], "key": KEY, "purpose": "partners"}


@pytest.fixture(scope="module")
def people(spark):
    return spark.createDataFrame(PEOPLE, COLUMNS).localCheckpoint()


def released(rows, rules=RULES, keep=("plan",), **more):
    """The rows of a release in the order of their originals, which the test alone can tell: with the id kept."""
    rules = {column: rule for column, rule in rules.items() if column != "id"}
    found = anonymize(rows, rules=rules, keep=["id", *keep], **{**OF, **more})
    return [row.asDict() for row in sorted(found.collect(), key=lambda row: (row["id"] is None, row["id"]))]


@pytest.mark.spark
@pytest.mark.both
def test_removed_columns_and_original_values_are_not_in_the_release(people):
    """Acceptance 1: no name and no address is one of the originals, and no perturbed value is its own original."""
    found = anonymize(people, rules=RULES, keep=["plan"], **OF)
    assert found.columns == ["name", "ip", "born", "pay", "plan"]
    assert [kind for _, kind in found.dtypes] == ["string", "string", "date", "int", "string"]
    rows = released(people)
    for place, column in enumerate(COLUMNS.split(", ")):
        name, originals = column.split()[0], [each[place] for each in PEOPLE]
        if name in ("name", "ip"):
            assert not {row[name] for row in rows} & {*originals}
        if name in ("born", "pay"):
            assert all(row[name] != original for row, original in zip(rows, originals, strict=True))
    assert {row["plan"] for row in rows} == {"free"}


@pytest.mark.spark
def test_perturbed_columns_stay_useful_within_the_declared_tolerance(people):
    """Acceptance 2: shifts within bounds, in both directions; the judgement equals the figures of plain Python."""
    rows, found = released(people), judge_utility(people, rules=RULES, **OF)
    assert (found.passed, found.note) == (True, "")
    for column, place, within in (("born", 4, 60), ("pay", 5, 500)):
        was, now = [each[place] for each in PEOPLE], [row[column] for row in rows]
        was, now = ([each.toordinal() if column == "born" else each for each in side] for side in (was, now))
        shifts = [b - a for a, b in zip(was, now, strict=True)]
        assert -within <= min(shifts) < -within * 0.9
        assert within * 0.9 < max(shifts) <= within
        epoch = date(1970, 1, 1).toordinal() if column == "born" else 0
        for what, side in (("before", was), ("after", now)):
            assert found.figures[f"{column}: mean {what}"] == pytest.approx(statistics.fmean(side) - epoch)
            assert found.figures[f"{column}: variance {what}"] == pytest.approx(statistics.pvariance(side))
        assert found.figures[f"{column}: greatest shift"] == max(map(abs, shifts))
        assert found.figures[f"{column}: share changed"] == 1
    assert found.figures["name: values as before"] == 0


@pytest.mark.spark
def test_noise_that_spoils_a_column_is_found(people):
    """Acceptance 2: a salary shifted by more than salaries differ; a column of one value; too few changed values."""
    wide = judge_utility(people, rules={"pay": Perturb(within=20_000, tolerance=0.1)}, **OF)
    assert not wide.passed
    assert "pay has a variance that changed from" in wide.note
    flat = people.selectExpr("id", "1000 AS pay", "CAST(1e16 AS DOUBLE) + id AS big")
    one = judge_utility(flat, rules={"pay": RULES["pay"]}, **OF)
    assert "pay has a mean that changed from 1000 to" in one.note
    few = judge_utility(flat, rules={"big": Perturb(within=0.1, tolerance=9)}, **OF)
    assert "big has a share of changed values of 0.000, and must have 0.9: widen within" in few.note
    assert judge_utility(people.limit(0), rules=RULES, **OF).passed


@pytest.mark.spark
@pytest.mark.both
def test_a_rerun_draws_the_same_on_any_executor_and_another_purpose_or_key_does_not(people):
    """Acceptance 3 and 4: in one task or in seven; equal seeds of tasks would repeat names from task to task."""
    first = released(people.coalesce(1))
    assert released(people.repartition(7)) == first
    names = [row["name"] for row in first]
    assert len({*names}) > 350
    assert len({tuple(names[n : n + 3]) for n in range(0, 399, 3)}) == 133
    for more in ({"purpose": "research"}, {"key": MaskingKey(KEY.id, KEY.secret[::-1])}):
        other = released(people, **more)
        for column in ("name", "ip", "born", "pay"):
            equal = sum(a[column] == b[column] for a, b in zip(first, other, strict=True))
            assert equal < 20, column


@pytest.mark.spark
def test_nothing_but_the_key_leads_back(people):
    """Acceptance 3: with all identities and options, but another key, no invention is found; no plan has the key."""
    released_rows, guess = released(people), released(people, key=MaskingKey("guess", b"x" * 32))
    assert sum(a["name"] == b["name"] for a, b in zip(released_rows, guess, strict=True)) < 10
    with redirect_stdout(io.StringIO()) as shown:
        anonymize(people, rules=RULES, keep=["plan"], **OF).explain(extended=True)
    texts = (KEY.secret.decode(), KEY.secret.hex(), repr(KEY.secret), KEY.of("partners").secret.hex())
    assert "replaced" in shown.getvalue()
    assert not [text for text in texts if text in shown.getvalue()]


@pytest.mark.spark
def test_a_person_of_two_releases_is_the_same_in_one_purpose_and_unlinked_in_two(spark):
    """Acceptance 5: tables of one purpose show the same invention under the same identity, those of two do not."""
    left = spark.createDataFrame([(n, f"name {n}") for n in range(50)], "id INT, name STRING")
    right = spark.createDataFrame([(n, f"other {n}", 5) for n in range(50)], "id INT, name STRING, visits INT")
    rules = {"name": Replace(like="name")}
    of_left = {row["id"]: row["name"] for row in released(left, rules, keep=())}
    of_right = {row["id"]: row["name"] for row in released(right, rules, keep=["visits"])}
    apart = {row["id"]: row["name"] for row in released(right, rules, keep=["visits"], purpose="research")}
    assert of_left == of_right
    assert sum(of_left[n] == apart[n] for n in of_left) < 5


@pytest.mark.spark
@pytest.mark.both
def test_missing_malformed_and_anonymous_values_do_not_pass_raw(spark):
    """Acceptance 6: NULL stays NULL; a broken address, an empty text and one that is hidden already are replaced."""
    odd = [None, "", "not an ip", "999.1.1.1", "***", "192.0.2.7", "x\ny", "\U0001f600"]
    rows = spark.createDataFrame(list(enumerate(odd)), "id INT, ip STRING")
    found = [row["ip"] for row in released(rows, {"ip": Replace(like="ip")}, keep=())]
    assert found[0] is None
    assert not {*found[1:]} & {*odd}
    assert all(each.startswith(("192.0.2.", "198.51.100.", "203.0.113.")) for each in found[1:])
    rows = spark.createDataFrame([(None, None, 1), (1, None, None)], "id INT, born DATE, pay INT")
    found = released(rows, {column: RULES[column] for column in ("born", "pay")}, keep=())
    assert [row["born"] for row in found] == [None, None]
    assert [row["pay"] is None for row in found] == [True, False]


@pytest.mark.spark
def test_everybody_has_another_of_two_texts(spark):
    """Acceptance 1: an invention is never the own value, however it is written; of a list of two, it is the other."""
    rows = spark.createDataFrame(list(enumerate(["Ada", " ADA", "bob", "Eve"] * 5)), "id INT, name STRING")
    found = [row["name"] for row in released(rows, {"name": Replace(among=["Ada", "Bob"])}, keep=())]
    assert [*zip(found[::4], found[1::4], found[2::4], strict=True)] == [("Bob", "Bob", "Ada")] * 5
    assert {*found[3::4]} <= {"Ada", "Bob"}


KINDS = {
    "TINYINT": st.integers(-128, 127),
    "INT": st.integers(-(2**31), 2**31 - 1),
    "BIGINT": st.integers(-(2**63), 2**63 - 1),
    "DECIMAL(5,2)": st.decimals(-999, 999, places=2),
    "DECIMAL(38,0)": st.integers(-(10**38) + 1, 10**38 - 1).map(Decimal),
    "DATE": st.dates(date(1600, 1, 1), date(9000, 1, 1)),
    "DOUBLE": st.floats(-1e6, 1e6),
}


@pytest.mark.spark
@settings(deadline=None, max_examples=2, suppress_health_check=list(HealthCheck))
@given(values=st.fixed_dictionaries({kind: st.lists(values, min_size=8, max_size=8) for kind, values in KINDS.items()}))
def test_a_shift_is_within_its_bounds_for_any_value_of_any_type(spark, values):
    """Acceptance 2: and never 0, also at the end of a type's range, where it goes the other way."""
    edges = {"TINYINT": [127, -128], "INT": [2**31 - 1], "BIGINT": [2**63 - 1, -(2**63)]}
    edges |= {"DECIMAL(5,2)": [Decimal("999.99")], "DECIMAL(38,0)": [Decimal(10**38 - 1)]}
    columns = {kind: [*edges.get(kind, []), *values[kind]][:8] for kind in KINDS}
    names = {kind: f"c{n}" for n, kind in enumerate(KINDS)}
    schema = ", ".join(["id INT", *(f"{name} {kind}" for kind, name in names.items())])
    rows = spark.createDataFrame([(n, *row) for n, row in enumerate(zip(*columns.values(), strict=True))], schema)
    rules = {name: Perturb(within=3, tolerance=1) for name in names.values()}
    for n, row in enumerate(released(rows, rules, keep=())):
        for kind, name in names.items():
            was, now = columns[kind][n], row[name]
            shift = abs((now - was).days if kind == "DATE" else now - was)
            assert 0 < shift <= 3 or (kind == "DOUBLE" and shift <= 3.0001), (kind, was, now)


@pytest.mark.spark
def test_a_new_column_stops_the_release(people):
    """Acceptance 7: until somebody gives it a rule, or keeps it."""
    more = people.selectExpr("*", "'secret' AS diagnosis")
    with pytest.raises(ConfigError, match=r"leave out diagnosis: nobody said whether it may leave"):
        anonymize(more, rules=RULES, keep=["plan"], **OF)
    assert "diagnosis" not in anonymize(more, rules={**RULES, "diagnosis": Remove()}, keep=["plan"], **OF).columns


@pytest.mark.spark
def test_rules_that_a_column_does_not_allow_are_refused(people):
    """Noise on a text, an invention for a number, a shift below the unit, no identity, nothing left."""
    for options, match in (
        ({"rules": {**RULES, "name": Perturb(1, 1)}}, "column name is STRING, which has nothing to shift"),
        ({"rules": {**RULES, "pay": Replace(like="name")}}, "column pay is INT, which is no text"),
        ({"rules": {**RULES, "pay": Perturb(0.5, 1)}}, "within must be at least 1 for pay"),
        ({"identity": []}, "identity and purpose must name"),
        ({"identity": ["nobody"]}, "no column nobody"),
        ({"purpose": ""}, "purpose must be|identity and purpose must name"),
        ({"rules": dict.fromkeys([*RULES, "plan"], Remove()), "keep": []}, "rules must leave a column"),
    ):
        with pytest.raises(ConfigError, match=match):
            anonymize(people, **{"rules": RULES, "keep": ["plan"], **OF, **options})
    with pytest.raises(ConfigError, match="rules must perturb or replace a column"):
        judge_utility(people, rules={"id": Remove()}, **OF)


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: Perturb(within=0, tolerance=1), "within must be above 0, not 0"),
        (lambda: Perturb(within=1, tolerance=0), "tolerance must be above 0, not 0: values that may not change"),
        (lambda: Perturb(within=1, tolerance=1, changed=0), "changed must be a share above 0"),
        (lambda: Perturb(within=1e30, tolerance=1), "within must be at most"),
        (Replace, "like or among must say what to invent"),
        (lambda: Replace(like="name", among=["a", "b"]), "and not both or neither"),
        (lambda: Replace(among=["a", " A"]), "among must have at least two different texts"),
        (lambda: Replace(like="ssn"), "like must be"),
    ],
)
def test_a_rule_that_protects_nobody_is_refused(make, match):
    """When it is made, with what it must be."""
    with pytest.raises(ConfigError, match=match):
        make()


@any_names(handed_on=("ssn", "pay"))
def anonymized(n):
    rows = n.frame("id INT, name STRING, pay INT, ssn STRING", (1, "Ada", 5, "x"), (2, "Bob", 6, "y"))
    rules = {n("name"): Replace(among=["Ada", "Bob"]), n("ssn"): Remove(), n("pay"): Remove()}
    options = {"identity": n.all("id"), "key": KEY, "purpose": "x"}
    yield anonymize(rows, rules=rules, keep=n.all("id"), **options)
    yield [{"useful": judge_utility(rows, rules={n("name"): Replace(among=["Ada", "Bob"])}, **options).passed}]


@known_calls
def calls_that_work(known):
    of = {"rows": known.visits, "identity": ["id"], "key": KEY, "purpose": "x"}
    rules = {"user": Replace(like="name"), "id": Perturb(1, 1)}
    kept = {"keep": ["page", "at", "day"]}
    return {"anonymize": {**of, "rules": rules, **kept}, "judge_utility": {**of, "rules": rules, "name": "useful"}}
