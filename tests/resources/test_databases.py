"""Tables of databases that environment variables name: types, and sentences without a secret."""

from __future__ import annotations

import pytest

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.resources.databases import Database, TableColumn

SECRET = "sesame-4711"  # noqa: S105 - of no server


@pytest.mark.parametrize(
    ("kind", "type_", "natural"),
    [
        ("integer", "INT", True),
        ("numeric(10,2)", "DECIMAL(10,2)", True),
        ("numeric", "STRING", False),
        ("numeric(50,2)", "STRING", False),
        ("timestamp without time zone", "TIMESTAMP", True),
        ("character varying(20)", "STRING", False),
        ("text[]", "ARRAY<STRING>", True),
        ("jsonb", "STRING", False),
        ("bytea", "BINARY", False),
        ("bytea[]", "STRING", False),
    ],
)
def test_a_type_of_the_database_is_one_that_holds_every_value(kind, type_, natural):
    """Text, where no other type does."""
    column = TableColumn(kind, required=False)
    assert (column.type, column.is_natural) == (type_, natural)


def test_a_variable_that_is_not_set_or_holds_no_url_is_a_sentence_without_the_value(monkeypatch):
    """And the schedule says it, in the place of runs."""
    source = Database("public.orders", "ORDERS_URL")
    monkeypatch.delenv("ORDERS_URL", raising=False)
    with pytest.raises(ConfigError, match="ORDERS_URL is not set: it must hold the URL of the database"):
        source.address()
    monkeypatch.setenv("ORDERS_URL", f"jdbc:{SECRET}")
    assert "ORDERS_URL is no PostgreSQL URL" in source.lacks()
    assert SECRET not in source.lacks()
    monkeypatch.setenv("ORDERS_URL", f"postgresql://me:{SECRET}@127.0.0.1:1/shop")
    assert source.lacks().startswith("the database of ORDERS_URL does not answer, or refuses the login")
    assert SECRET not in source.lacks()
