"""Policies of audiences in a PostgreSQL: row security, grants of columns, and views with masks.

A view with masks reads the columns that it masks. As a view of its reader (``security_invoker``) it would need a grant
of these columns to the reader, who could then read them from the table. So it belongs to a role that nobody logs in as,
is no superuser, and applies the filter of rows itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dedp_assets.patterns.connectors.postgres.errors import naming_write_errors
from dedp_assets.patterns.connectors.postgres.sessions import SESSION, opened, schema_and_table, table_identifier
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.extras import optional
from dedp_assets.patterns.core.policies import Policy
from dedp_assets.patterns.core.sql.sql_options import require_of_one_row
from dedp_assets.patterns.security._postgres_masks import shown_column, truth_of

if TYPE_CHECKING:
    import psycopg
    from psycopg import sql
else:
    psycopg, sql = optional("psycopg"), optional("psycopg.sql")

__all__ = ["MASKING_ROLE", "PostgresPolicies"]

MASKING_ROLE = "dedp_masks"
"""Role that owns the views with masks, without a login."""
_WRITERS = "dedp writers"
_LONGEST_NAME = 63
_MEANT = "22", "42"
"""Classes of SQLSTATE for a faulty policy: data exceptions, and syntax errors or access rule violations."""

_TABLE = """
SELECT c.oid, relrowsecurity, relforcerowsecurity, pg_get_userbyid(relowner)
FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace
WHERE nspname = %s AND relname = %s AND relkind IN ('r', 'p')"""
_COLUMNS = """
SELECT attname, format_type(atttypid, atttypmod), typcategory = 'S' FROM pg_attribute JOIN pg_type t ON t.oid = atttypid
WHERE attrelid = %s AND attnum > 0 AND NOT attisdropped"""
_POLICIES = """
SELECT polname, md5(concat_ws('|', polcmd, polpermissive, polroles, pg_get_expr(polqual, polrelid),
  pg_get_expr(polwithcheck, polrelid))), coalesce(obj_description(oid, 'pg_policy'), '')
FROM pg_policy WHERE polrelid = %s"""
_GRANTS = """
SELECT CASE grantee WHEN 0 THEN 'public' ELSE pg_get_userbyid(grantee) END, privilege_type, name FROM (
  SELECT (aclexplode(relacl)).*, '' AS name FROM pg_class WHERE oid = %(oid)s UNION ALL
  SELECT (aclexplode(attacl)).*, attname FROM pg_attribute WHERE attrelid = %(oid)s AND NOT attisdropped) AS held"""
_VIEWS = """
SELECT DISTINCT nspname, relname, pg_get_userbyid(relowner),
  coalesce(reloptions @> '{security_invoker=true}', false) AND relkind = 'v',
  coalesce(reloptions @> '{security_barrier=true}', false) AND relkind = 'v',
  md5(concat_ws('|', pg_get_viewdef(v.oid), relacl)), coalesce(obj_description(v.oid, 'pg_class'), '')
FROM pg_depend d JOIN pg_rewrite w ON w.oid = d.objid AND d.classid = 'pg_rewrite'::regclass
JOIN pg_class v ON v.oid = w.ev_class JOIN pg_namespace n ON n.oid = v.relnamespace
WHERE d.refobjid = %(oid)s AND v.oid <> %(oid)s"""
_ROLES = """
SELECT rolname, rolsuper OR rolbypassrls OR pg_has_role(oid, %(owner)s, 'MEMBER'),
  ARRAY(SELECT other FROM unnest(%(audiences)s::text[]) AS other WHERE pg_has_role(oid, other, 'MEMBER'))
FROM pg_roles WHERE rolname = ANY(%(audiences)s) OR NOT rolsuper"""


@dataclass(frozen=True, slots=True)
class _TableState:
    """State of the table in the catalogue."""

    oid: int
    owner: str
    switches: tuple[bool, bool]
    columns: Mapping[str, tuple[str, bool]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PostgresPolicies:
    """Policies of a table: judged, and applied.

    Attributes:
        connect: opens a connection as owner of the table or as a superuser.
        policies: the policies; an audience is a role.
        table: ``schema.table``.
        keep: roles that keep their grants and see all rows.

    Raises:
        ConfigError: for a mask by hash, whose key would be in the server, a predicate over other rows, two policies of
            an audience, and a name that PostgreSQL would cut.
    """

    connect: Callable[..., psycopg.Connection[Any]]
    policies: tuple[Policy, ...]
    table: str
    keep: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _, name = schema_and_table(self.table)
        if len({each.audience for each in self.policies}) < len(self.policies):
            raise ConfigError(f"policies must have one policy for each audience of {self.table}, not several")
        for each in self.policies:
            require_of_one_row(f"policy of {each.audience}: predicate", {"of rows": each.rows})
            require_of_one_row(f"policy of {each.audience}: mask of", {c: m.unless for c, m in each.masks.items()})
            longest = max(_view_name(name, each), _policy_name(each), key=lambda made: len(made.encode()))
            if len(longest.encode()) > _LONGEST_NAME:
                raise ConfigError(f"{longest!r} must have at most {_LONGEST_NAME} bytes: rename the role")
            if hashed := [column for column, mask in each.masks.items() if mask.by == "hash"]:
                raise ConfigError(
                    f"masks of {each.audience} must be by null, constant, partial or shape, not by hash, as of "
                    f"{hashed[0]}: the key would be in the server; store the hash as a column"
                )

    def apply(self) -> int:
        """Set grants, row security and views to the policies, in one transaction.

        Returns:
            The number of differences before; without one, nothing is done.
        """
        with self._asking() as connection, connection.transaction():
            held = self._held(connection)
            wrong = self._differences(connection, held)
            for statement in self._statements(connection, held) if wrong else ():
                # As a prepared one, which is a single statement: the predicates are SQL of others.
                connection.execute(statement, prepare=True)
            return len(wrong)

    def differences(self) -> list[str]:
        """List the differences from the policies."""
        with self._asking() as connection, connection.transaction():
            return self._differences(connection, self._held(connection))

    @contextmanager
    def _asking(self) -> Iterator[psycopg.Connection[Any]]:
        with naming_write_errors(self.table), opened(self.connect, self.table) as connection:
            connection.execute(SESSION)
            try:
                yield connection
            except psycopg.Error as error:
                if (error.sqlstate or "")[:2] not in _MEANT or error.sqlstate == "42501":
                    raise
                reason = error.diag.message_primary
                raise ConfigError(
                    f"{self.table}: PostgreSQL refuses a policy ({reason}); nothing was changed"
                ) from None

    def _held(self, connection: psycopg.Connection[Any]) -> _TableState:
        found = connection.execute(_TABLE, schema_and_table(self.table)).fetchone()
        if found is None:
            raise ConfigError(f"table must be a table of the database, not {self.table}")
        columns = {name: (kind, is_text) for name, kind, is_text in connection.execute(_COLUMNS, found[:1])}
        for policy in self.policies:
            if gone := [column for column in policy.columns if column not in columns]:
                raise ConfigError(f"the policy of {policy.audience} for {self.table} names {gone}, which is not there")
        return _TableState(found[0], found[3], (found[1], found[2]), columns)

    def _differences(self, connection: psycopg.Connection[Any], held: _TableState) -> list[str]:
        wrong = [
            f"row security is not {word}"
            for word, on in zip(("enabled", "forced"), held.switches, strict=True)
            if not on
        ]
        wrong += self._of_policies(connection, held)
        wrong += self._of_grants(connection, held)
        wrong += self._of_views(connection, held)
        return [*wrong, *self._of_roles(connection, held)]

    def _of_policies(self, connection: psycopg.Connection[Any], held: _TableState) -> Iterator[str]:
        found = {name: (sum_, noted) for name, sum_, noted in connection.execute(_POLICIES, (held.oid,))}
        wanted = self._wanted_policies()
        yield from (f"policy {name} is missing" for name in wanted if name not in found)
        for name, (sum_, noted) in found.items():
            if name not in wanted:
                yield f"policy {name} is nobody's"
            elif noted != f"{wanted[name]} {sum_}":
                yield f"policy {name} is another one"

    def _wanted_policies(self) -> dict[str, str]:
        """Return the names of the table's row policies, each with the digest of a declaration."""
        return {
            **{_policy_name(each): each.digest for each in self.policies},
            _WRITERS: " ".join(sorted({*self.keep, MASKING_ROLE})),
        }

    def _of_grants(self, connection: psycopg.Connection[Any], held: _TableState) -> Iterator[str]:
        found = {tuple(row) for row in connection.execute(_GRANTS, {"oid": held.oid})}
        found = {each for each in found if each[0] not in {held.owner, *self.keep}}
        clear = {(each.audience, "SELECT", column) for each in self.policies for column in _clear(each)}
        wanted = clear | {(MASKING_ROLE, "SELECT", "")}
        for role, privilege, column in sorted(found - wanted):
            yield f"{role} may {privilege} {column or 'all columns'}"
        for role, privilege, column in sorted(wanted - found):
            yield f"{role} may not {privilege} {column or 'all columns'}"

    def _of_views(self, connection: psycopg.Connection[Any], held: _TableState) -> Iterator[str]:
        schema, name = schema_and_table(self.table)
        wanted = {(schema, _view_name(name, each)): each.digest for each in self.policies if each.masks}
        seen = set()
        for *place, owner, invoker, barrier, sum_, noted in connection.execute(_VIEWS, {"oid": held.oid}):
            seen.add(key := (place[0], place[1]))
            if key in wanted:
                if owner != MASKING_ROLE or not barrier or noted != f"{wanted[key]} {sum_}":
                    yield f"view {key[1]} is another one"
            elif not invoker:
                yield f"view {key[0]}.{key[1]} of {owner} shows rows past the policies: WITH (security_invoker = true)"
        yield from (f"view {name} is missing" for _, name in sorted(wanted.keys() - seen))

    def _of_roles(self, connection: psycopg.Connection[Any], held: _TableState) -> Iterator[str]:
        audiences = [each.audience for each in self.policies]
        there = {name for (name,) in connection.execute("SELECT rolname FROM pg_roles")}
        if gone := [name for name in audiences if name not in there]:
            raise ConfigError(f"audiences must be roles of the server, not {gone}: create them")
        for role, free, of in connection.execute(_ROLES, {"owner": held.owner, "audiences": audiences}):
            if role in audiences and free:
                yield f"role {role} passes row security (superuser, BYPASSRLS or member of the owner)"
            elif len(of) > 1 and role not in {held.owner, *self.keep}:
                yield f"role {role} is of several audiences ({', '.join(of)}): rows of one with columns of the other"

    def _statements(self, connection: psycopg.Connection[Any], held: _TableState) -> Iterator[Any]:
        """Yield the statements; lazily, because later statements depend on earlier results."""
        schema, name = schema_and_table(self.table)
        table, masker = table_identifier(self.table), sql.Identifier(MASKING_ROLE)
        if not connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (MASKING_ROLE,)).fetchone():
            yield sql.SQL("CREATE ROLE {} NOLOGIN").format(masker)
        for switch in ("ENABLE", "FORCE"):
            yield sql.SQL(f"ALTER TABLE {{}} {switch} ROW LEVEL SECURITY").format(table)
        yield from self._taken_back(connection, held)
        yield sql.SQL("GRANT USAGE ON SCHEMA {} TO {}").format(sql.Identifier(schema), masker)
        yield sql.SQL("GRANT SELECT ON {} TO {}").format(table, masker)
        everybody = sql.SQL(", ").join(map(sql.Identifier, sorted({*self.keep, MASKING_ROLE})))
        yield sql.SQL("CREATE POLICY {} ON {} TO {} USING (true)").format(sql.Identifier(_WRITERS), table, everybody)
        for each in self.policies:
            yield from self._of_audience(each, held, sql.Identifier(schema, _view_name(name, each)))
        yield from self._noted(connection, held)

    def _taken_back(self, connection: psycopg.Connection[Any], held: _TableState) -> Iterator[Any]:
        """Yield statements that take back grants, policies and views of masks."""
        table = table_identifier(self.table)
        for role in sorted({role for role, *_ in connection.execute(_GRANTS, {"oid": held.oid})}):
            if role not in {held.owner, *self.keep}:
                named = sql.SQL("PUBLIC") if role == "public" else sql.Identifier(role)
                yield sql.SQL("REVOKE ALL ON {} FROM {}").format(table, named)
        for policy, *_ in connection.execute(_POLICIES, (held.oid,)).fetchall():
            yield sql.SQL("DROP POLICY {} ON {}").format(sql.Identifier(policy), table)
        for place, view, *_ in self._masking_views(connection, held):
            yield sql.SQL("DROP VIEW {}").format(sql.Identifier(place, view))

    def _noted(self, connection: psycopg.Connection[Any], held: _TableState) -> Iterator[Any]:
        """Yield comments on policies and views: digest of the declaration, and of the stored form."""
        _, name = schema_and_table(self.table)
        table, wanted = table_identifier(self.table), self._wanted_policies()
        for policy, sum_, _ in connection.execute(_POLICIES, (held.oid,)).fetchall():
            noted = sql.Literal(f"{wanted[policy]} {sum_}")
            yield sql.SQL("COMMENT ON POLICY {} ON {} IS {}").format(sql.Identifier(policy), table, noted)
        digests = {_view_name(name, each): each.digest for each in self.policies}
        for place, view, *_, sum_, _ in self._masking_views(connection, held):
            noted = sql.Literal(f"{digests[view]} {sum_}")
            yield sql.SQL("COMMENT ON VIEW {} IS {}").format(sql.Identifier(place, view), noted)

    def _masking_views(self, connection: psycopg.Connection[Any], held: _TableState) -> list[tuple[Any, ...]]:
        return [each for each in connection.execute(_VIEWS, {"oid": held.oid}).fetchall() if each[2] == MASKING_ROLE]

    def _of_audience(self, policy: Policy, held: _TableState, view: Any) -> Iterator[Any]:  # noqa: ANN401 - of psycopg
        table, role = table_identifier(self.table), sql.Identifier(policy.audience)
        schema, _ = schema_and_table(self.table)
        chosen = truth_of(policy.rows or "false")
        yield sql.SQL("GRANT USAGE ON SCHEMA {} TO {}").format(sql.Identifier(schema), role)
        if clear := _clear(policy):
            named = sql.SQL(", ").join(map(sql.Identifier, clear))
            yield sql.SQL("GRANT SELECT ({}) ON {} TO {}").format(named, table, role)
        name = sql.Identifier(_policy_name(policy))
        yield sql.SQL("CREATE POLICY {} ON {} FOR SELECT TO {} USING ({})").format(name, table, role, chosen)
        if policy.masks:
            shown = sql.SQL(", ").join(
                shown_column(column, policy.mask_of(column), held.columns[column][0], is_text=held.columns[column][1])
                for column in policy.columns
            )
            made = sql.SQL("CREATE VIEW {} WITH (security_barrier = true) AS SELECT {} FROM {} WHERE {}")
            yield made.format(view, shown, table, chosen)
            yield sql.SQL("ALTER VIEW {} OWNER TO {}").format(view, sql.Identifier(MASKING_ROLE))
            yield sql.SQL("GRANT SELECT ON {} TO {}").format(view, role)


def _policy_name(policy: Policy) -> str:
    return f"dedp for {policy.audience}"


def _view_name(table: str, policy: Policy) -> str:
    return f"{table} for {policy.audience}"


def _clear(policy: Policy) -> Sequence[str]:
    return [column for column in policy.columns if policy.mask_of(column) is None]
