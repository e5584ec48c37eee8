"""Pseudonyms that only the key's holder could try out, and originals that still show."""

from __future__ import annotations

import hashlib
import hmac
import io
from contextlib import redirect_stdout

import pytest
from pyspark.sql import functions as F

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.masking import MaskingKey, pseudonym, shows

SECRET = b"0123456789abcdef0123456789ABCDEF"
KEY = MaskingKey("staging-1", SECRET)


def expected(value, secret=SECRET):
    return hmac.new(secret, value.encode(), hashlib.sha256).hexdigest()


@pytest.mark.both
def test_a_pseudonym_is_the_keyed_hash_of_the_text(spark):
    """By an independent implementation: equal for equal values, of any type; NULL and the empty text do not crash."""
    rows = spark.sql("SELECT * FROM VALUES ('Zoë', 7L), ('', 8L), (NULL, NULL), ('Zoë', 7L) AS t(name, number)")
    found = rows.select(pseudonym("name", KEY).alias("a"), pseudonym("number", KEY).alias("b")).collect()
    pairs = [("Zoë", "7"), ("", "8"), ("Zoë", "7")]
    assert [tuple(row) for row in found if row["a"]] == [(expected(a), expected(b)) for a, b in pairs]
    assert [tuple(row) for row in found if not row["a"]] == [(None, None)]


def test_a_dictionary_of_likely_values_does_not_help(spark):
    """All addresses of a network, hashed without the key or with another one, name none of the pseudonyms."""
    addresses = [f"10.0.0.{n}" for n in range(256)]
    masked = {
        row[0]
        for row in spark.createDataFrame([(a,) for a in addresses], "ip STRING").select(pseudonym("ip", KEY)).collect()
    }
    assert len(masked) == 256
    plain = {hashlib.sha256(a.encode()).hexdigest() for a in addresses}
    salted = {hashlib.sha256((KEY.id + a).encode()).hexdigest() for a in addresses}
    other = {expected(a, b"x" * 32) for a in addresses}
    assert not masked & (plain | salted | other)


@pytest.mark.both
def test_no_plan_shows_the_key(spark):
    """Spark writes plans into its logs and its UI; what a person sees of the key is its id."""
    rows = spark.sql("SELECT '10.0.0.1' AS ip").select(pseudonym("ip", KEY))
    with redirect_stdout(io.StringIO()) as shown:
        rows.explain(extended=True)
    assert "pseudonyms" in shown.getvalue()
    for text in (shown.getvalue(), repr(KEY), str(KEY), f"{[KEY]}"):
        assert not [
            form for form in (SECRET.decode(), SECRET.hex(), SECRET.hex().upper(), repr(SECRET)) if form in text
        ]
    assert "staging-1" in repr(KEY)


@pytest.mark.parametrize(("id_", "secret"), [("", SECRET), ("a", b""), ("a", b"short password")])
def test_a_key_that_could_be_guessed_is_none(id_, secret):
    """And the error does not repeat it."""
    with pytest.raises(ConfigError, match="at least 32 random bytes") as refused:
        MaskingKey(id_, secret)
    assert "short" not in str(refused.value)


SHOWN = [
    ("'ada@example.org'", '\'{"mail": "ADA@Example.org"}\'', True),
    ("'ada@example.org'", '\'{"mail": "bob@example.org"}\'', False),
    ("'ada@example.org'", "named_struct('deep', array('x', 'ada@example.org'))", True),
    ("'ada@example.org'", "map('mail', 'to ada@example.org')", True),
    ("'ada@example.org'", "CAST('ada@example.org' AS BINARY)", True),
    ("48.8566D", "'near 48.8566, 2.35'", True),
    ("named_struct('first', 'Leonhard', 'n', 1)", "'by leonhard'", True),
    ("array('x', 'Leonhard')", "'by leonhard'", True),
    ("map('x', 'Leonhard')", "'by leonhard'", True),
    ("'Ada'", "'Adagio'", False),
    ("CAST(NULL AS STRING)", "'anything'", False),
    ("'anything'", "CAST(NULL AS STRING)", False),
    ("''", "'anything'", False),
    ("DATE '2026-01-05'", "'2026-01-05'", False),
    ("'%.*[weird\\\\'", "'a %.*[weird\\\\ b'", True),
]


def test_an_original_is_found_wherever_it_shows(spark):
    """In text, JSON, nested values and bytes, in any case; short values, dates and NULL are not looked for."""
    for original, shown, found in SHOWN:
        rows = spark.sql(f"SELECT {original} AS v, {shown} AS s, DATE '2026-01-05' AS d, 1 AS n")
        kinds = dict(rows.dtypes)
        predicate = shows({"v": kinds["v"]}, {c: kinds[c] for c in "sdn"}, instead={})
        assert rows.select(F.expr(predicate)).collect()[0][0] is found, (original, shown)


def test_a_value_that_was_not_replaced_shows_whatever_its_length(spark):
    """A rule that gives back what it got is none, except for NULL and nothing."""
    values = spark.sql("SELECT * FROM VALUES ('A', 'A'), ('A', 'B'), ('', ''), (NULL, NULL), ('A', NULL) AS t(v, w)")
    predicate = shows({"v": "string"}, {"w": "string"}, instead={"v": "w"})
    assert [row[0] for row in values.select(F.expr(predicate)).collect()] == [True, False, False, False, False]


def test_a_shown_column_of_any_name_is_looked_into(spark):
    """Also one called like what the search calls the value it looks for."""
    for name in ("__v", "a.b", "b`tick", "value", "1st"):
        quoted = name.replace("`", "``")
        rows = spark.sql(f"SELECT 'secret-1' AS original, 'it was SECRET-1' AS `{quoted}`")
        assert rows.filter(shows({"original": "string"}, {name: "string"}, instead={})).count() == 1
        assert rows.select(pseudonym(name, KEY)).first()[0] == expected("it was SECRET-1")
