"""Pseudo-Anonymizer."""

from __future__ import annotations

import hashlib
import io
import sqlite3
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stdout
from decimal import Decimal
from itertools import product
from pathlib import Path
from threading import Barrier

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dedp_assets.patterns.core.errors import ConfigError, NotReady
from dedp_assets.patterns.core.masking import MaskingKey, normalised
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.security.pseudo_anonymizer import (
    Bins,
    Generalize,
    Hash,
    Mask,
    Token,
    TokenVault,
    judge_crowds,
    leave_out_few,
    pseudonymize,
)
from tests.contracts.known_calls import known_calls
from tests.helpers import NOW, a_run
from tests.renaming import any_names

pytestmark = [pytest.mark.budget(30, "a vault shared by processes, and groups against a plain model")]

KEY = MaskingKey("release-1", b"0123456789abcdef0123456789ABCDEF")
SSN, EMAIL = Mask("999-99-9999"), Token("email")
FEW = settings(deadline=None, max_examples=2, suppress_health_check=list(HealthCheck))


@pytest.fixture
def vault(tmp_path):
    return TokenVault(tmp_path / "tokens.sqlite", KEY, readers=("fraud",))


def column(spark, kind, values, rule, **more):
    """What becomes of values under a rule, in order."""
    rows = spark.createDataFrame(list(enumerate(values)), f"id INT, value {kind}").coalesce(1)
    found = pseudonymize(rows, rules={"value": rule}, keep=["id"], **more)
    return [row["value"] for row in found.orderBy("id").collect()]


@pytest.mark.spark
@pytest.mark.both
def test_a_mask_shows_the_end_of_a_text_in_its_format_and_hides_any_other_text_whole(spark):
    """Acceptance 1: also one with a line feed at the end, digits of another script, or more signs than the format."""
    odd = [
        "123-45-678",
        "123-45-67890",
        "123-45-6789\n",
        " 123-45-6789",
        "123456789",
        "١٢٣-٤٥-٦٧٨٩",
        "",
        "Ada Lovelace",
    ]
    found = column(spark, "STRING", ["123-45-6789", "000-00-0000", None, *odd], SSN)
    assert found == ["XXX-XX-6789", "XXX-XX-0000", None, *["XXX-XX-XXXX"] * len(odd)]
    assert column(spark, "STRING", ["a1.$(ß)", "a1.$[ß]"], Mask("A9.$(ß)", keep=1, sign="*")) == ["*1.$(ß)", "**.$(ß)"]
    assert column(spark, "STRING", ["7-AB", "7-A"], Mask("9-AA", keep=0)) == ["X-XX", "X-XX"]


@pytest.mark.spark
def test_a_mask_of_a_number_is_refused(spark):
    """Acceptance 1: in a sentence with the column, before any job."""
    with pytest.raises(ConfigError, match="column value is INT, which is no text, and a mask of a number is a number"):
        column(spark, "INT", [123456789], SSN)


EMAILS = ["ada@x.org", " Ada@X.org ", "ADA@x.org", "bob@x.org", "\uff42\uff4f\uff42@x.org", "eve@x.org", None]


@pytest.mark.spark
@pytest.mark.both
def test_tables_join_on_hashes_of_one_purpose_as_on_the_raw_keys(spark):
    """Acceptance 2: of columns with other names; case, blanks and form aside; not with hashes of another purpose."""
    people = spark.createDataFrame(list(enumerate(EMAILS)), "person INT, email STRING")
    orders = spark.createDataFrame(list(enumerate(EMAILS[::-1])), "number INT, buyer STRING")

    def joined(purpose, other):
        left = pseudonymize(people, rules={"email": Hash("email", purpose)}, keep=["person"], key=KEY).collect()
        right = pseudonymize(orders, rules={"buyer": Hash("email", other)}, keep=["number"], key=KEY).collect()
        return {(p, n) for (p, a), (n, b) in product(left, right) if a and a == b}

    keys = [email and normalised(email) for email in EMAILS]
    raw = {(p, n) for (p, a), (n, b) in product(enumerate(keys), enumerate(keys[::-1])) if a and a == b}
    assert joined("research", "research") == raw
    assert len(raw) == 14
    assert not joined("research", "partners")
    exact = column(spark, "STRING", EMAILS, Hash("email", "research", exact=True), key=KEY)
    assert len({*exact}) == len(EMAILS)


@pytest.mark.spark
def test_a_dictionary_of_all_values_finds_no_hash(spark):
    """Acceptance 2: hashed plainly, with all that is not secret, or with another key; no plan shows the key."""
    numbers = [f"555-{n:04}" for n in range(500)]
    found = {*column(spark, "STRING", numbers, Hash("phone", "research"), key=KEY)}
    assert len(found) == 500
    for before in ("", "phone", "phone\x1f", "research", "purpose|research", KEY.id):
        assert not found & {hashlib.sha256(f"{before}{number}".encode()).hexdigest() for number in numbers}
    other = MaskingKey(KEY.id, KEY.secret[::-1])
    assert not found & {*column(spark, "STRING", numbers, Hash("phone", "research"), key=other)}
    rows = spark.createDataFrame([("a",)], "value STRING")
    with redirect_stdout(io.StringIO()) as shown:
        pseudonymize(rows, rules={"value": Hash("phone", "research")}, key=KEY).explain(extended=True)
    texts = (KEY.secret.decode(), KEY.secret.hex(), repr(KEY.secret), KEY.of("research").secret.hex())
    assert "pseudonyms" in shown.getvalue()
    assert not [text for text in texts if text in shown.getvalue()]


@given(st.text())
def test_a_normalised_text_stays_as_it_is(text):
    """Or hashes of texts that were cleaned before would differ."""
    assert normalised(normalised(text)) == normalised(text)


@pytest.mark.spark
@pytest.mark.both
def test_a_value_has_one_token_in_every_run_and_table(spark, vault):
    """Acceptance 3: also by an object made later; what is something else has another one, and NULL has none."""
    first = column(spark, "STRING", EMAILS, EMAIL, vault=vault)
    again = TokenVault(vault.file, KEY)
    assert column(spark, "STRING", EMAILS[::-1], EMAIL, vault=again) == first[::-1]
    assert [first.index(token) for token in first] == [0, 0, 0, 3, 3, 5, 6]
    assert all(token is None or token.startswith("tok_") for token in first)
    assert not {*first} & {*column(spark, "STRING", EMAILS[:-1], Token("name"), vault=vault)}
    assert len({*column(spark, "STRING", EMAILS, Token("login", exact=True), vault=vault)}) == len(EMAILS)


def test_runs_that_meet_a_new_value_at_once_get_one_token(vault):
    """Acceptance 3: four at once, at one new value each time, and at many; each has a connection of its own."""
    at_once, rounds = Barrier(4), [*([f"{n}@x.org"] for n in range(25)), [f"{n}@y.org" for n in range(1000)]]

    def run(_):
        found = {}
        for values in rounds:
            at_once.wait(60)
            found |= vault.tokens("email", values)
        return found

    with ThreadPoolExecutor(4) as pool:
        first, *others = pool.map(run, range(4))
    assert others == [first] * 3
    assert len(first) == len({*first.values()}) == 1025


def test_only_a_reader_gets_the_value_behind_a_token_and_each_request_is_logged(vault):
    """Acceptance 3: a refused one, too, and neither the log nor the error has a value."""
    tokens = vault.tokens("email", ["ada@x.org", "bob@x.org"])
    ada = tokens["ada@x.org"]
    assert vault.reveal([ada, "tok_0"], who="fraud", at=NOW) == {ada: "ada@x.org"}
    with pytest.raises(
        ConfigError, match=r"who must be one of the readers of the token vault \(fraud\), not eve; it is logged"
    ):
        vault.reveal([ada], who="eve", at=NOW)
    logged = [(each.who, each.asked, each.outcome) for each in vault.reversals()]
    assert logged == [("fraud", ada, "granted"), ("fraud", "tok_0", "unknown"), ("eve", ada, "refused")]
    assert {each.at for each in vault.reversals()} == {NOW.isoformat()}
    assert not [each for each in vault.reversals() if "ada@" in repr(each)]


def test_a_removed_value_is_behind_its_token_no_more(vault):
    """Acceptance 3: its row's bytes are gone from the file, others stay, and the value comes back as another person."""
    tokens = vault.tokens("email", ["ada@x.org", "bob@x.org"])
    with sqlite3.connect(vault.file) as file:
        (sealed,) = file.execute("SELECT value FROM tokens WHERE token = ?", (tokens["ada@x.org"],)).fetchone()
    held = vault.file.read_bytes()
    assert sealed in held
    assert b"ada@x.org" not in held
    assert vault.file.stat().st_mode & 0o077 == 0
    assert vault.remove("email", ["ADA@x.org"]) == 1
    held = b"".join(each.read_bytes() for each in vault.file.parent.iterdir())
    assert sealed not in held
    assert tokens["ada@x.org"].encode() not in held
    assert vault.reveal([*tokens.values()], who="fraud", at=NOW) == {tokens["bob@x.org"]: "bob@x.org"}
    assert vault.tokens("email", ["ada@x.org"])["ada@x.org"] not in tokens.values()


def test_a_vault_of_another_key_or_place_is_refused(vault, tmp_path):
    """A key of another vault, a file that is none, a folder that is not there, another file under the same path."""
    with pytest.raises(ConfigError, match=r"key must be the one of the token vault .*, not other"):
        TokenVault(vault.file, MaskingKey("other", KEY.secret[::-1]))
    (tmp_path / "text").write_text("no database, but long enough to be read as the head of one" * 20)
    with pytest.raises(ConfigError, match="file must be a token vault"):
        TokenVault(tmp_path / "text", KEY)
    with pytest.raises(NotReady, match="nothing was written"):
        TokenVault(tmp_path / "nowhere" / "tokens", KEY)
    vault.file.unlink()
    with pytest.raises(NotReady, match="cannot be used: unable to open"):
        vault.tokens("email", ["a"])
    TokenVault(vault.file, KEY)
    with pytest.raises(NotReady, match="is another one here: all tasks must run on its machine"):
        vault.tokens("email", ["a"])


class Half(TokenVault):
    """A vault that answers for some values alone."""

    __slots__ = ()

    def tokens(self, of, values):  # noqa: ARG002 - as of any vault
        return dict.fromkeys(sorted(values)[::2], "tok_1")


class Alike(TokenVault):
    """A vault with one token for all."""

    __slots__ = ()

    def tokens(self, of, values):  # noqa: ARG002 - as of any vault
        return dict.fromkeys(values, "tok_1")


@pytest.mark.spark
def test_a_vault_that_answers_half_fails_before_anything_is_written(spark, vault, make_table):
    """With the column and how many values, and none of them; a vault with one token for two values does no better."""
    rows = spark.createDataFrame([("ada@x.org",), ("bob@x.org",)], "email STRING").coalesce(1)
    into = make_table(TableSpec("export/research", {"email": Column("STRING")}))
    into.ensure()
    half, alike = (pseudonymize(rows, rules={"email": EMAIL}, vault=kind(vault.file, KEY)) for kind in (Half, Alike))
    for write in (lambda: into.overwrite(half, provenance=a_run("export/research")), alike.collect):
        with pytest.raises(Exception, match="email: the token vault answered for 1 of 2 values of email") as refused:
            write()
        assert "@x.org" not in str(refused.value)
    assert into.ledger.version() == 0


@pytest.mark.spark
@FEW
@given(bounds=st.lists(st.integers(-9, 9), min_size=1, max_size=4, unique=True).map(sorted))
def test_a_number_is_in_the_one_range_that_holds_it(spark, bounds):
    """Acceptance 5: half-open ranges without gap or overlap; NULL and NaN are in none."""
    values = [*range(-11, 12), *(each + 0.5 for each in range(-11, 12)), *map(float, ("inf", "-inf"))]

    def model(value):
        at = sum(bound <= value for bound in bounds)
        if at == 0:
            return f"< {bounds[0]}"
        return f">= {bounds[-1]}" if at == len(bounds) else f"[{bounds[at - 1]}, {bounds[at]})"

    found = column(spark, "DOUBLE", [*map(float, values), None, float("nan")], Bins(bounds))
    assert found == [*map(model, values), None, None]


@pytest.mark.spark
def test_a_value_without_a_term_is_other(spark):
    """Acceptance 5: and never itself; case, blanks and form aside. Bins take whole and decimal numbers as well."""
    regions = Generalize({"France": "Europe", "Türkiye": "Asia"}, other="elsewhere")
    found = column(spark, "STRING", ["france ", "TÜRKIYE", "Türkiye", "Mars", "", None], regions)
    assert found == ["Europe", "Asia", "Asia", "elsewhere", "elsewhere", None]
    assert column(spark, "DECIMAL(9,2)", [Decimal("9.99"), Decimal(10)], Bins([0, 10])) == ["[0, 10)", ">= 10"]
    assert column(spark, "BIGINT", [-1, 0, 9, 10, 2**62], Bins([0, 10])) == [
        "< 0",
        "[0, 10)",
        "[0, 10)",
        ">= 10",
        ">= 10",
    ]
    with pytest.raises(ConfigError, match="column value is STRING, which is no number"):
        column(spark, "STRING", ["1"], Bins([0]))


@pytest.mark.spark
def test_a_column_without_a_rule_does_not_leave(spark):
    """It is named, with what to do; so are a column twice, one that is not there, and what a rule lacks."""
    rows = spark.createDataFrame([("a", "b", 1)], "email STRING, plan STRING, new INT")
    for options, match in (
        ({"keep": ["plan"]}, r"leave out new: nobody said whether it may leave; .* as keep=\['new'\]"),
        ({"keep": ["plan", "new", "EMAIL"]}, "names email twice, again as EMAIL"),
        ({"keep": ["plan", "new", "nobody"]}, "no column nobody"),
        ({"keep": ["plan", "new"]}, "vault must be given for the tokens of email, not None"),
    ):
        with pytest.raises(ConfigError, match=match):
            pseudonymize(rows, rules={"email": EMAIL}, **options)
    found = pseudonymize(rows, rules={"PLAN": Hash("plan", "x")}, keep=["Email", "new"], key=KEY)
    assert found.columns == rows.columns


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: Mask("---"), "shape must have a 9 for each digit"),
        (lambda: Mask("99", keep=2), "keep must be from 0 to 1 for 99, not 2: hide something"),
        (lambda: Mask("99", keep=0, sign=""), "sign must be one sign"),
        (lambda: Token(""), "of must say what the values are"),
        (lambda: Hash("email", ""), "purpose must say what the hashes are for"),
        (lambda: Generalize({}), "terms and other must name"),
        (lambda: Generalize({"a": "x", " A": "y"}), "must have one term for  A, however written"),
        (lambda: Bins([]), "bounds must be numbers in ascending order"),
        (lambda: Bins([1, 1]), r"not \[1, 1\]"),
    ],
)
def test_a_rule_that_cannot_be_is_refused(make, match):
    """When it is made, with what it must be."""
    with pytest.raises(ConfigError, match=match):
        make()


# --- crowds ---

STAFF = "person STRING, country STRING, role STRING, pay STRING"


def staff(*more):
    """Ten persons in two groups of five."""
    of = [(f"p{n}", "FR" if n < 5 else "DE", "engineer", f"{n % 3}") for n in range(10)]
    return [*of, *more]


@pytest.mark.spark
@pytest.mark.both
def test_a_person_with_a_combination_of_their_own_is_found_and_can_be_left_out(spark):
    """Acceptance 6: the one chief of a company in a city, whose country and role are both common."""
    rows = spark.createDataFrame(staff(("boss", "FR", "chief", "9"), ("b2", "DE", "chief", "9")), STAFF)
    for person in ("", "person"):
        options = {"quasi": ["country", "role"], "k": 5, "person": person}
        found = judge_crowds(rows, **options)
        assert (found.passed, found.severity) == (False, "fail")
        assert found.figures == {"smallest group": 1, "small groups": 2, "persons in small groups": 2}
        assert "2 groups of the release by country, role are too small, with 2 persons: each needs 5" in found.note
        assert "boss" not in str(found)
        left = leave_out_few(rows, **options)
        assert sorted(map(tuple, left.collect())) == sorted(staff())
        assert judge_crowds(left, **options).passed
    assert judge_crowds(rows, quasi=["country"], k=5).passed


@pytest.mark.spark
@pytest.mark.both
def test_two_releases_that_are_each_safe_are_judged_together(spark):
    """Acceptance 6: the only one of both rare groups; one that the earlier release lacks is told apart by that, too."""
    interests = [(f"p{n}", "chess" if n % 5 < 2 else "golf") for n in range(10)]
    release = spark.createDataFrame(staff(), STAFF)
    before = spark.createDataFrame(interests, "person STRING, interest STRING")
    options = {"quasi": ["country", "role", "interest"], "k": 3, "person": "person"}
    assert judge_crowds(release, quasi=["country", "role"], k=5).passed
    assert judge_crowds(before, quasi=["interest"], k=4).passed
    found = judge_crowds(release, {"hobbies": before}, **options)
    assert (found.passed, found.figures["smallest group of the join"], found.figures["small groups"]) == (False, 2, 0)
    assert "4 persons" in found.note
    assert "of the release joined with hobbies" in found.note
    left = leave_out_few(release, {"hobbies": before}, **options)
    assert {row["person"] for row in left.collect()} == {"p2", "p3", "p4", "p7", "p8", "p9"}
    assert judge_crowds(left, {"hobbies": before}, **options).passed
    lacking = before.where("person <> 'p0'").withColumn("interest", before["interest"].substr(0, 0))
    assert not judge_crowds(release, {"hobbies": lacking}, **options).passed


@pytest.mark.spark
def test_a_group_with_one_sensitive_value_tells_it(spark):
    """l-diversity: all five of a group have the same pay; NULL counts as no value."""
    rows = [*staff(), *((f"q{n}", "IT", "engineer", "7" if n else None) for n in range(5))]
    rows = spark.createDataFrame(rows, STAFF)
    options = {"quasi": ["country", "role"], "k": 5}
    assert judge_crowds(rows, **options).passed
    for person in ("", "person"):
        several = {**options, "sensitive": ["pay"], "diversity": 2, "person": person}
        found = judge_crowds(rows, **several)
        assert (found.passed, found.figures["least values of pay"], found.figures["small groups"]) == (False, 1, 1)
        left = leave_out_few(rows, **several)
        assert {row["country"] for row in left.collect()} == {"FR", "DE"}
        assert judge_crowds(left, **several).passed


ROWS = st.lists(
    st.tuples(st.sampled_from(["a", "b", "c", "d", "e", None]), st.sampled_from("xy"), st.sampled_from(["s", "t"])),
    max_size=12,
)


def too_few(k, release, *others):
    """Persons in groups of fewer than k, by all that is said of them: a plain model."""
    said = {}
    for person in {row[0] for row in release}:
        known = [frozenset(row[1:2] for row in release if row[0] == person)]
        known += [frozenset(row[1:] for row in other if row[0] == person and person is not None) for other in others]
        said[person] = tuple(known)
    sizes = Counter(said.values())
    return {person for person, known in said.items() if sizes[known] < k}


@pytest.mark.spark
@FEW
@given(release=ROWS, other=ROWS, k=st.integers(2, 3))
def test_persons_are_left_out_as_in_a_plain_model(spark, release, other, k):
    """Acceptance 6: of any two releases with several rows of a person."""
    rows = spark.createDataFrame(release, "person STRING, city STRING, pay STRING")
    before = spark.createDataFrame(other, "person STRING, job STRING, sport STRING")
    options = {"quasi": ["city", "job", "sport"], "k": k, "person": "person"}
    left = leave_out_few(rows, {"before": before}, **options)
    alone = too_few(k, release, other)
    assert Counter(map(tuple, left.collect())) == Counter(row for row in release if row[0] not in alone)
    assert judge_crowds(rows, {"before": before}, **options).passed == (not alone)


@pytest.mark.spark
def test_a_group_of_one_and_other_bounds_that_protect_nobody_are_refused(spark):
    """Each in a sentence; no rows pass."""
    rows = spark.createDataFrame(staff(), STAFF)
    right = {"quasi": ["country"], "k": 2}
    for options, match in (
        ({"k": 1}, "k must be at least 2, not 1: a group of one is a person"),
        ({"quasi": []}, "quasi must name columns by which persons"),
        ({"quasi": ["nobody"]}, "quasi must name columns of each release"),
        ({"quasi": ["country", "nobody"]}, "quasi must name columns of a release, not nobody"),
        ({"others": {"a": rows}}, "person must name the column by which releases are joined"),
        ({"others": {"a": rows.select("person")}, "person": "person"}, "not none of a"),
        ({"sensitive": ["pay"]}, "diversity must be at least 2 for sensitive columns, not 1"),
        ({"diversity": 2}, "sensitive must name columns for a diversity of 2"),
        ({"sensitive": ["nobody"], "diversity": 2}, "no column nobody"),
        ({"person": "country"}, "quasi and person names country twice"),
    ):
        for function in (judge_crowds, leave_out_few):
            with pytest.raises(ConfigError, match=match):
                function(rows, **{**right, **options})
    nothing = judge_crowds(rows.limit(0), **right)
    assert (nothing.passed, nothing.figures["smallest group"]) == (True, 0)


@any_names(handed_on=("id",))
def pseudonymized(n):
    rows = n.frame("name STRING, country STRING, pay INT, id INT", ("Ada", "FR", 1, 1), ("Bob", "FR", 2, 2))
    rules = {n("name"): Hash("name", "x"), n("country"): Generalize({"FR": "Europe"}), n("pay"): Bins([2])}
    found = pseudonymize(rows, rules=rules, keep=n.all("id"), key=KEY)
    yield found
    options = {"quasi": n.all("country"), "k": 2, "person": n("name"), "sensitive": n.all("pay"), "diversity": 2}
    yield leave_out_few(found, {"before": found}, **options)
    yield leave_out_few(found, **{**options, "person": ""})
    yield [{"figures": list(judge_crowds(found, {"before": found}, **options).figures.values())}]


@known_calls
def calls_that_work(known):
    people = known.frame("id STRING, city STRING, pay INT", ("a", "x", 1), ("b", "x", 2))
    options = {"quasi": ["city"], "k": 2, "person": "id", "sensitive": ["pay"], "diversity": 2}
    of = {"release": people, "others": {"before": people}, **options}
    vault = TokenVault(Path(known.folder) / "tokens.sqlite", KEY)
    more = {"keep": ["id", "pay"], "key": KEY, "vault": vault}
    return {
        "pseudonymize": {"rows": people, "rules": {"city": Hash("city", "x")}, **more},
        "judge_crowds": {**of, "name": "safe"},
        "leave_out_few": of,
    }
