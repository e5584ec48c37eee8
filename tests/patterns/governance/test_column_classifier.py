"""Column Classifier."""

from __future__ import annotations

import json
from dataclasses import asdict
from ipaddress import IPv4Address, IPv6Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.governance._personal_names import class_by_name
from dedp_assets.patterns.governance._personal_values import form_of, holds_form
from dedp_assets.patterns.governance.column_classifier import judge_classes, propose_classes
from tests.contracts.known_calls import known_calls

MAILS, IPS = ("ada@example.org", "bob.x+y@mail.example.co.uk"), ("10.1.2.3", "2001:db8::1")
IBANS = ("DE89 3704 0044 0532 0130 00", "GB82WEST12345698765432", "at611904300234573201")
CARDS = ("4111 1111 1111 1111", "5500-0000-0000-0004", "378282246310005")
PHONES = ("+43 1 234 5678", "(415) 555-2671", "0043/1/2345678")
UUIDS = ("550e8400-e29b-41d4-a716-446655440000", "6ba7b810-9dad-11d1-80b4-00c04fd430c8")
PAGES, NAMES = ("/home", "/cart?id=1"), ("Ada Lovelace", "Charles Babbage")
LABELLED: dict[str, tuple[str, str, tuple[object, ...]]] = {
    # column: class, type, values
    "email": ("personal", "STRING", MAILS),
    "contact": ("personal", "STRING", MAILS),
    "customerEmail": ("personal", "STRING", ("", None)),
    "c1": ("personal", "STRING", PHONES),
    "mobile_phone": ("personal", "STRING", ("06641234567",)),
    "c2": ("personal", "STRING", IPS),
    "client_ip": ("personal", "STRING", IPS),
    "c3": ("sensitive", "STRING", IBANS),
    "c4": ("sensitive", "STRING", CARDS),
    "c5": ("sensitive", "BIGINT", (4111111111111111, 5500000000000004)),
    "birth_date": ("personal", "DATE", (None,)),
    "dateOfBirth": ("personal", "STRING", ("1815-12-10",)),
    "geburtsdatum": ("personal", "DATE", (None,)),
    "first_name": ("personal", "STRING", ("Ada",)),
    "Nachname": ("personal", "STRING", ("Lovelace",)),
    "login": ("personal", "STRING", ("ada",)),
    "street_address": ("personal", "STRING", ("1 Main St",)),
    "user_id": ("personal", "BIGINT", (1, 2)),
    "zip_code": ("quasi", "STRING", ("12345", "12345-6789")),
    "gender": ("quasi", "STRING", ("f",)),
    "age": ("quasi", "INT", (36,)),
    "latitude": ("quasi", "DOUBLE", (48.2,)),
    "salary": ("sensitive", "DECIMAL(9,2)", (None,)),
    "passport_number": ("sensitive", "STRING", ("X1234567",)),
    "password": ("secret", "STRING", ("x",)),
    "api_key": ("secret", "STRING", ("x",)),
    "biography": ("free text", "STRING", ("born in London",)),
    "raw": ("free text", "STRING", tuple(json.dumps({"page": "/", "ip": each}) for each in IPS[:1])),
    "device": ("personal", "STRUCT<net: STRUCT<ip: STRING>>", ((("10.1.2.3",),),)),
    "contacts": ("personal", "ARRAY<STRING>", (list(MAILS),)),
    "who": ("personal", "STRING", NAMES),  # missed: names of persons need a model
    "a1": ("personal", "STRING", ("06641234567", "06769876543")),  # missed: a number without separators
    "visit_id": ("", "STRING", UUIDS),
    "order_id": ("", "BIGINT", (10_000_001, 10_000_002)),
    "page": ("", "STRING", PAGES),
    "event_time": ("", "TIMESTAMP", (None,)),
    "day": ("", "STRING", ("2026-01-05", "05.01.2026")),
    "at": ("", "STRING", ("12:30:00",)),
    "amount": ("", "DECIMAL(12,2)", (None,)),
    "ratio": ("", "STRING", ("3.14159265",)),
    "email_count": ("", "BIGINT", (3,)),
    "has_phone": ("", "BOOLEAN", (True,)),
    "email_verified": ("", "BOOLEAN", (True,)),
    "address_type": ("", "STRING", ("home",)),
    "plan_name": ("", "STRING", ("free",)),
    "message_id": ("", "STRING", UUIDS),
    "description": ("", "STRING", ("a tablet",)),
    "shipping": ("", "STRING", ("express",)),
    "platform": ("", "STRING", ("ios",)),
    "sha256": ("", "STRING", ("9f86d081884c7d659a2feaa0c55ad015",)),
    "isbn": ("", "STRING", ("978-3-16-148410-0", "978-0-306-40615-7")),  # wrongly a telephone number
    "release": ("", "STRING", ("1.2.3.4", "1.2.4.0")),  # wrongly an IP address
}
MISSED, WRONG = {"who", "a1"}, {"isbn", "release"}


@pytest.fixture(scope="module")
def labelled(spark):
    """The proposals for all labelled columns."""
    kinds = ", ".join(f"`{name}` {kind}" for name, (_, kind, _) in LABELLED.items())
    rows = [tuple(values[n % len(values)] for _, _, values in LABELLED.values()) for n in range(6)]
    return {each.column: each for each in propose_classes(spark.createDataFrame(rows, kinds))}


@pytest.mark.spark
def test_precision_and_recall_on_labelled_columns(labelled):
    """As the docstring and the docs state them; each miss and each false alarm is one that is listed."""
    meant = {name for name, (classification, *_) in LABELLED.items() if classification}
    assert meant - {*labelled} == MISSED
    assert {*labelled} - meant == WRONG
    wrong = {
        n: each.classification for n, each in labelled.items() if n in meant and each.classification != LABELLED[n][0]
    }
    assert wrong == {}
    right = len(meant & {*labelled})
    assert (round(right / len(labelled), 2), round(right / len(meant), 2)) == (0.94, 0.94)


@pytest.mark.spark
def test_evidence_is_counts_and_never_a_value(labelled):
    """In the records, their sentences and their fields."""
    text = " ".join(f"{asdict(each)} {each.evidence} {each!r}" for each in labelled.values())
    shown = {str(v) for _, _, values in LABELLED.values() for v in values if v and len(str(v)) > 4}
    assert {each for each in shown if each in text} == set()
    assert labelled["email"].evidence == "email in its name and e-mail in 6 of 6 sampled values"
    assert labelled["customerEmail"].evidence == "email in its name"


@pytest.mark.spark
def test_a_share_of_the_values_decides_and_the_sample_is_bounded(spark):
    """NULL and empty texts count as none; one address among many remarks makes no column personal."""
    rows = spark.sql(
        "SELECT if(id < 6, concat('a', id, '@x.org'), 'nobody') AS a, CAST(NULL AS STRING) AS b FROM range(10)"
    )
    (found,) = propose_classes(rows.coalesce(1))
    assert (found.column, found.matches, found.values) == ("a", 6, 10)
    assert propose_classes(rows, min_share=0.7) == []
    (first,) = propose_classes(rows.coalesce(1), sample_rows=3)
    assert (first.matches, first.values) == (3, 3)


DECLARED = {
    "a": Column("STRING"),
    "b": Column("STRING", classification="public"),
    "c": Column("STRING", classification="public", purpose=("help desk",)),
    "d": Column("STRING", classification="personal"),
    "email_b": Column("STRING", classification="public"),
}


@pytest.mark.spark
def test_what_looks_personal_and_is_not_declared_is_named(spark, make_table):
    """Of no class or public; what its name says is answered by public, what its values say by a purpose as well."""
    table = make_table(TableSpec("gold/x", DECLARED))
    rows = spark.sql("SELECT 'ada@x.org' AS a, 'ada@x.org' AS b, 'ada@x.org' AS c, 'ada@x.org' AS d, 'x' AS email_b")
    found = judge_classes(rows, table)
    assert (found.passed, found.severity) == (False, "warn")
    assert found.figures == {"columns": 5, "undeclared": ["a", "b"]}
    assert found.note == (
        "a looks personal (e-mail in 1 of 1 sampled values) and is of no class; "
        "b looks personal (e-mail in 1 of 1 sampled values) and is public"
    )
    assert judge_classes(rows.select("c", "d", "email_b"), table).passed
    assert judge_classes(rows.select("d").limit(0), table).passed


@pytest.mark.spark
def test_options_out_of_range_are_refused(spark):
    """By name."""
    for options, words in (
        ({"sample_rows": 0}, "sample_rows must be from 1 to 100000, not 0"),
        ({"min_share": 0.0}, "min_share must be above 0 and at most 1, not 0"),
        ({"min_share": 1.5}, "min_share must be above 0 and at most 1, not 1.5"),
    ):
        with pytest.raises(ConfigError, match=words):
            propose_classes(spark.range(1), **options)


DIGITS = st.text("0123456789", min_size=15, max_size=15)


@given(DIGITS)
def test_one_digit_in_ten_makes_a_card_number(digits):
    """Of all last digits, one passes Luhn's check, and a changed digit does not."""
    head = f"4{digits[1:]}"
    (last,) = [n for n in range(10) if form_of(f"{head}{n}") == "card number"] or ["none"]
    assert last != "none"
    assert form_of(f"{head}{(int(last) + 1) % 10}") != "card number"


@given(st.sampled_from(["DE", "AT", "GB", "FR"]), st.text("ABCXYZ0123456789", min_size=12, max_size=26))
def test_two_digits_make_an_iban_of_any_account(country, account):
    """Those of ISO 13616; with another pair the text is none."""
    rest = int("".join(str(int(each, 36)) for each in f"{account}{country}00")) % 97
    right = f"{98 - rest:02}"
    assert form_of(f"{country}{right}{account}") == "IBAN"
    assert form_of(f"{country}{(int(right) + 1) % 100:02}{account}") != "IBAN"


@given(st.integers(0, 2**32 - 1).map(IPv4Address) | st.integers(0, 2**128 - 1).map(IPv6Address))
def test_every_address_is_one(address):
    """Of both versions, as Python writes it; also within a text."""
    assert form_of(str(address)) == "IP address"
    if address.version == 4:
        assert holds_form(f"from {address} at noon")


@given(st.uuids() | st.dates() | st.datetimes() | st.times() | st.integers(-(10**11), 10**11) | st.floats())
def test_what_is_nobodys_has_no_form(value):
    """UUIDs, dates, times and plain numbers."""
    assert form_of(str(value)) == ""


@given(st.text(max_size=60))
def test_any_text_is_judged(text):
    """Without an error, and a name of any letters."""
    assert form_of(text) in ("", "e-mail", "IP address", "IBAN", "card number", "phone number")
    holds_form(text)
    class_by_name(text)


@known_calls
def calls_that_work(known):
    return {"propose_classes": {"rows": known.frame("id INT", (1,)), "sample_rows": 10, "min_share": 0.5}}
