"""Pseudonyms that only the key's holder could try out."""

from __future__ import annotations

import hashlib
import hmac
import io
from contextlib import redirect_stdout

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.masking import MaskingKey, keyed_digest, pseudonym

SECRET = b"0123456789abcdef0123456789ABCDEF"
KEY = MaskingKey("staging-1", SECRET)


def expected(value, secret=SECRET):
    return hmac.new(secret, value.encode(), hashlib.sha256).hexdigest()


@given(st.binary(min_size=32, max_size=200), st.text(max_size=20), st.text(max_size=200))
def test_a_keyed_digest_is_that_of_the_standard(secret, of, value):
    """HMAC-SHA-256 by Python's library, for keys below, of and above a block."""
    assert keyed_digest(MaskingKey("k", secret), of, value) == expected(f"{of}\x1f{value}", secret)


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
