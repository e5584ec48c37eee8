"""Ids of persons in a run history that lies in PostgreSQL."""

from __future__ import annotations

import sqlalchemy as sa

from dedp_assets.graph.erasure.spellings import Spellings

__all__ = ["redact_history"]


def redact_history(url: str, spellings: Spellings) -> int:
    """Redact the texts of a database, and return the number of values with an id.

    A changed table is written again, so that no page keeps the former values; its statistics of values are made anew.

    Args:
        url: URL of the database, as Dagster's storage takes it.
        spellings: the ids.
    """
    if not spellings.texts:
        return 0
    places = 0
    engine = sa.create_engine(url, isolation_level="AUTOCOMMIT")
    try:
        with engine.connect() as database:
            metadata = sa.MetaData()
            metadata.reflect(database)
            for table in metadata.sorted_tables:
                found = sum(_redacted(database, table, column, spellings) for column in _texts(table))
                if found:
                    name = database.dialect.identifier_preparer.format_table(table)
                    database.execute(sa.text(f"VACUUM FULL ANALYZE {name}"))
                places += found
            if places:
                database.execute(sa.text("VACUUM FULL pg_catalog.pg_statistic"))
    finally:
        engine.dispose()
    return places


def _texts(table: sa.Table) -> list[sa.Column[str]]:
    return [column for column in table.columns if isinstance(column.type, sa.String | sa.JSON)]


def _redacted(database: sa.Connection, table: sa.Table, column: sa.Column[str], spellings: Spellings) -> int:
    place, text = sa.literal_column("ctid"), sa.cast(column, sa.Text)
    named = sa.or_(*[text.contains(each, autoescape=True) for each in spellings.texts])
    rows, done = sa.select(sa.cast(place, sa.Text), text).select_from(table).where(named), 0
    # Another writer may give a row another place meanwhile: until no value holds an id as a word.
    while found := [(at, without) for at, value in database.execute(rows) if (without := _without(value, spellings))]:
        for at, without in found:
            changed = sa.cast(sa.literal(without), column.type) if isinstance(column.type, sa.JSON) else without
            at_place = sa.update(table).where(sa.cast(place, sa.Text) == at)
            done += database.execute(at_place.values({column.name: changed})).rowcount
    return done


def _without(value: str, spellings: Spellings) -> str:
    """Return a text with ids redacted; empty for a text without an id."""
    return spellings.without(value.encode()).decode() if spellings.found(value.encode()) else ""
