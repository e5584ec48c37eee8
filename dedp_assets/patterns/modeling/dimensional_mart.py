"""Dimensional Mart: a star of one domain, refreshed and joined in one publication.

Problem: dashboards join raw tables, or a star whose facts were refreshed before their dimensions, so that an inner join
    loses rows for minutes.
Solution: dimensions, facts and a joined table are staged and audited, and then published together. The joined table has
    the names that the business uses, and as many rows as there are facts.
Consequences: all is stored twice, and written whole: a mart is small, by domain and by aggregation. Readers of
    ``read_mart`` see one refresh; others may see one table before another, but no key without its member's row.
Choose instead: Dimensional Modeling, for facts that grow by partition; Dataset Materializer, for one aggregate.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dedp_assets.patterns.core.audits import not_empty
from dedp_assets.patterns.core.columns import require_columns, require_free, require_named, require_rows
from dedp_assets.patterns.core.errors import AuditFailed, ConfigError
from dedp_assets.patterns.core.names import identifier
from dedp_assets.patterns.core.options import typed
from dedp_assets.patterns.core.results import WriteResult
from dedp_assets.patterns.core.rows import evaluated_once
from dedp_assets.patterns.core.running.demands import demanding
from dedp_assets.patterns.core.schema import TableSpec
from dedp_assets.patterns.delta import (
    StagedWrite,
    Table,
    Target,
    publish_together,
    same_run,
    versions_together,
)
from dedp_assets.patterns.modeling._links import Link, link_facts, linked, require_dimensions, with_broken_grain

__all__ = ["publish_mart", "read_mart", "Link"]

_PATTERN = "modeling.dimensional_mart"


def _require_names(table: TableSpec, *, links: Mapping[str, Link], names: Mapping[str, str], **_: object) -> None:
    """Refuse a joined table without the named columns, and a name of no column of the star."""
    if not links or not names:
        raise ConfigError(f"{table.name}: links and names must name a foreign key and a column, not none")
    require_named("links", links)
    require_named("names", [*names, *names.values()])
    held = {column.lower() for column in table.columns}
    if {name.lower() for name in names} != held:
        raise ConfigError(
            f"names must be the columns of {table.name}, {', '.join(table.columns)}, not {', '.join(names)}"
        )


@demanding(replaces="table", of_options=_require_names)
@typed
def publish_mart(
    rows: DataFrame,
    into: Target,
    facts: Target,
    members: Mapping[str, Target],
    dimensions: Mapping[str, DataFrame],
    *,
    links: Mapping[str, Link],
    names: Mapping[str, str],
) -> WriteResult:
    """Replace the joined table, the facts and the dimensions of a mart, in all tables or in no table.

    Args:
        rows: all facts, at the grain of the fact table, without foreign keys.
        into: target of the joined table, without a partition. It is published last.
        facts: target of the fact table, whose key is the grain.
        members: target of each dimension by name; always the same ones in the same order.
        dimensions: rows of each dimension by name, with key and unknown member
            (:func:`~dedp_assets.patterns.modeling.dimensional_members.add_members`).
        links: foreign key column of the facts -> what it is found by.
        names: column of the joined table -> column of the facts, or ``<foreign key>.<column>`` of a dimension.

    Returns:
        The write of the joined table, and beside it those of facts and dimensions.

    Raises:
        AuditFailed: if two facts have one grain, there are no facts, an audit refuses rows, or a dimension has no
            unknown member, a repeated key or overlapping versions. No table changes.
        ConfigError: for targets, links or names that do not fit, and columns that are not there.
        Conflict: if somebody else wrote one of the tables.

    Example:
        >>> from dedp_assets.patterns.core.schema import Column, TableSpec
        >>> text, number = Column("STRING", required=True), Column("INT")
        >>> joined = table(TableSpec("sales", {"order": text, "plan_name": Column("STRING"), "euros": number}))
        >>> columns = {"id": text, "plan": text, "plan_key": text, "paid": number}
        >>> facts = table(TableSpec("sales_facts", columns, key=("id",)))
        >>> plans = table(TableSpec("sales_plans", {"plan_key": text, "plan": Column("STRING")}, key=("plan_key",)))
        >>> known = frame("plan_key STRING, plan STRING", ("k1", "basic"), ("unknown", None))
        >>> sold = frame("id STRING, plan STRING, paid INT", ("a", "basic", 5), ("b", "gold", 9))
        >>> links = {"plan_key": Link(dimension="plans", keys={"plan": "plan"})}
        >>> names = {"order": "id", "plan_name": "plan_key.plan", "euros": "paid"}
        >>> into, of_facts, of_plans = (each.target(run) for each in (joined, facts, plans))
        >>> given = {"plans": of_plans}, {"plans": known}
        >>> done = publish_mart(sold, into, of_facts, *given, links=links, names=names)
        >>> rows(joined)
        [('a', 'basic', 5), ('b', None, 9)]
    """
    targets = [each.by(_PATTERN, "audits", "rows_read") for each in (into, facts, *members.values())]
    same_run(*targets)
    _require_names(into.table.spec, links=links, names=names)
    links = linked(facts.table.spec, links)
    if sorted(members) != sorted({link.dimension for link in links.values()}):
        given = ", ".join(members) or "none"
        raise ConfigError(f"members must have a target for each dimension of links, not for {given}")
    if not facts.table.spec.key:
        raise ConfigError(f"{facts.name} must declare its grain as key, not none")
    require_free(require_rows("a mart", rows), *links)
    require_dimensions(dimensions, links)
    joined, of_facts, *of_members = targets

    def staged(kept: DataFrame) -> Iterator[StagedWrite]:
        yield joined.with_audits(not_empty()).stage(_joined(kept, dimensions, links, names))
        try:
            yield of_facts.with_audits(not_empty()).stage(kept)
        except AuditFailed as error:
            raise with_broken_grain(error, kept, facts.table.spec) from error
        for target, name in zip(of_members, members, strict=True):
            yield target.stage(dimensions[name])

    with evaluated_once(link_facts(rows, dimensions, links)) as kept:
        return publish_together([each.table for each in targets], staged(kept))


@typed
def read_mart(joined: Table, facts: Table, members: Mapping[str, Table]) -> Mapping[str, DataFrame]:
    """Read the tables of a mart at the versions of one refresh; lazy.

    Args:
        joined: the joined table.
        facts: the fact table.
        members: table of each dimension, as they are published.

    Returns:
        The rows of each table, by its name.

    Raises:
        ConfigError: for a table that is not of the mart.
        NotReady: if the tables were not published together yet.
    """
    tables = [joined, facts, *members.values()]
    versions = versions_together(tables)
    return {each.name: each.read(version=versions[each.name]) for each in tables}


def _joined(
    facts: DataFrame, dimensions: Mapping[str, DataFrame], links: Mapping[str, Link], names: Mapping[str, str]
) -> DataFrame:
    """Join facts to members by foreign key, each fact once, under the names of the joined table; lazy."""
    rows, shown = facts.alias("f"), dict[str, str]()
    for number, (key, link) in enumerate(links.items()):
        prefix, side, known = f"{key}.".lower(), f"r{number}", dimensions[link.dimension]
        of_link = {name: source[len(prefix) :] for name, source in names.items() if source.lower().startswith(prefix)}
        require_columns(known, of_link.values())
        shown |= {name: f"{side}.{identifier(column)}" for name, column in of_link.items()}
        meet = F.expr(f"f.{identifier(key)} = {side}.{identifier(link.key_in(key))}")
        rows = rows.join(known.alias(side), meet, "left") if of_link else rows
    own = {name: source for name, source in names.items() if name not in shown}
    require_columns(facts, own.values())
    shown |= {name: f"f.{identifier(column)}" for name, column in own.items()}
    return rows.select(*[F.expr(shown[name]).alias(name) for name in names])
