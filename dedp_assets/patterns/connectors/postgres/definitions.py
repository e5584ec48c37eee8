"""Definition of a published PostgreSQL table, by row versions of the catalogue.

The log tells of changed rows. Some statements change what the rows hold, or what is logged of them, without a word in
the log; each leaves another version of a row in the catalogue, also if somebody takes the statement back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dedp_assets.patterns.connectors.web.parts import one_row
from dedp_assets.patterns.core.errors import ContractError
from dedp_assets.patterns.core.extras import optional

if TYPE_CHECKING:
    import psycopg
else:
    psycopg = optional("psycopg")

__all__ = ["Definition", "define"]

# VACUUM FULL, CLUSTER and TRUNCATE put the rows into another file and leave the columns' versions, a column's settings
# (GRANT, STATISTICS, STORAGE) leave the file: only ALTER TYPE changes both. VACUUM FULL does touch a column that was
# added with a default to rows that were there; then the number of the default is what only ALTER TYPE changes.
_DEFINED = """
WITH RECURSIVE published AS (
  SELECT a.*, a.xmin AS version FROM pg_attribute a WHERE attrelid = %(oid)s AND attname = ANY(%(columns)s)
), used(oid) AS (
  SELECT atttypid FROM published
  UNION
  SELECT part.oid FROM used JOIN pg_type t ON t.oid = used.oid CROSS JOIN LATERAL (
    SELECT t.typelem UNION SELECT t.typbasetype UNION SELECT rngsubtype FROM pg_range WHERE rngtypid = t.oid
    UNION SELECT atttypid FROM pg_attribute WHERE attrelid = t.typrelid AND attnum > 0 AND t.typtype = 'c'
  ) AS part(oid) WHERE part.oid <> 0
)
SELECT json_build_object(
  'the server or its timeline', (SELECT concat_ws(' ', system_identifier, d.oid,
      left(pg_walfile_name(pg_current_wal_lsn()), 8)) FROM pg_control_system(), pg_database d
      WHERE datname = current_database()),
  'the publication ' || %(publication)s, (SELECT concat_ws(' ', oid, xmin) FROM pg_publication
      WHERE pubname = %(publication)s),
  'the table''s place in the publication ' || %(publication)s,
    (SELECT string_agg(place, ', ' ORDER BY place) FROM (
      SELECT concat_ws(' ', r.oid, r.xmin) FROM pg_publication_rel r JOIN pg_publication p ON p.oid = prpubid
      WHERE pubname = %(publication)s AND prrelid = %(oid)s UNION ALL
      SELECT concat_ws(' ', s.oid, s.xmin) FROM pg_publication_namespace s JOIN pg_publication p ON p.oid = pnpubid
      JOIN pg_class c ON c.relnamespace = pnnspid
      WHERE pubname = %(publication)s AND c.oid = %(oid)s) AS places(place)),
  'the primary key', (SELECT oid::text FROM pg_constraint WHERE conrelid = %(oid)s AND contype = 'p')
), (SELECT json_object_agg(name, version) FROM (
  SELECT format('the value %%L of the type %%s.%%s', enumlabel, typnamespace::regnamespace, typname),
    concat_ws(' ', e.oid, e.xmin) FROM pg_enum e JOIN used ON enumtypid = used.oid JOIN pg_type t ON t.oid = used.oid
  UNION ALL
  SELECT format('the type %%s.%%s', typnamespace::regnamespace, typname),
    string_agg(concat_ws(' ', attnum, attname, a.xmin), ', ' ORDER BY attnum)
  FROM used JOIN pg_type t ON t.oid = used.oid JOIN pg_attribute a ON attrelid = typrelid
  WHERE typtype = 'c' AND attnum > 0 GROUP BY t.oid) AS types(name, version)),
(SELECT relfilenode::bigint FROM pg_class WHERE oid = %(oid)s),
(SELECT json_object_agg(attname, json_build_array(attnum, format_type(atttypid, atttypmod),
    coalesce('default ' || d.oid, version::text)))
 FROM published LEFT JOIN pg_attrdef d ON adrelid = attrelid AND adnum = attnum)
"""


@dataclass(frozen=True, slots=True)
class Definition:
    """Versions of the catalogue entries that affect a table's rows or logged changes.

    Attributes:
        parts: part of it, in words -> its version.
        file: number of the file that the rows are in.
        columns: published column -> its number, its type and its version.
    """

    parts: Mapping[str, str]
    file: int
    columns: Mapping[str, Sequence[Any]] = field(default_factory=dict)

    def plain(self) -> dict[str, Any]:
        """Return the definition as plain values, for a commit's notes."""
        return {"parts": dict(self.parts), "file": self.file, "columns": {c: list(v) for c, v in self.columns.items()}}

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> Definition:
        """Read a definition from the values of :meth:`plain`."""
        return cls(plain["parts"], plain["file"], plain["columns"])

    def broken(self, now: Definition) -> list[str]:
        """List the parts whose version changed; parts added since are harmless."""
        return [part for part, version in self.parts.items() if now.parts.get(part) != version]

    def differing(self, now: Definition) -> dict[str, str]:
        """Return the change of each differing column: name -> description."""
        found = {column: "was added" for column in now.columns if column not in self.columns}
        for column, (number, kind, version) in self.columns.items():
            present = now.columns.get(column)
            if present is None:
                found[column] = "was dropped"
            elif present[0] != number:
                found[column] = "was dropped and added again, or is another one that was renamed"
            elif present[1] != kind:
                found[column] = f"was {kind}, is {present[1]}"
            elif present[2] != version and now.file != self.file:
                found[column] = "was rewritten by ALTER TYPE"
        return found


def define(connection: psycopg.Connection[Any], *, oid: int, publication: str, columns: Sequence[str]) -> Definition:
    """Read the current definition of a table.

    Args:
        connection: a connection to its database.
        oid: PostgreSQL's number of the table.
        publication: by which its changes are published.
        columns: its published columns.
    """
    given = {"oid": oid, "publication": publication, "columns": list(columns)}
    asked, none = connection.execute(_DEFINED, given).fetchall(), type(None)
    kinds = (dict, (dict, none), int, (dict, none))
    parts, types, file, found = one_row(asked, kinds, asked=f"the definition of what {publication} publishes")
    if strange := [column for column, facts in (found or {}).items() if not isinstance(facts, list) or len(facts) != 3]:
        raise ContractError(
            f"the definition of what {publication} publishes: {strange[0]} has no number, type, version"
        )
    return Definition({**parts, **(types or {})}, file, found or {})
