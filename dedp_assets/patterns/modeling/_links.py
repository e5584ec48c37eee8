"""Links of facts to dimensions: foreign keys as of the time of a fact, with an unknown member."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import chain

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from dedp_assets.patterns.core.columns import (
    COMPARED,
    fields_of,
    require_columns,
    require_named,
    require_rows,
    spelled_as,
)
from dedp_assets.patterns.core.errors import AuditFailed, ConfigError
from dedp_assets.patterns.core.keys import require_distinct
from dedp_assets.patterns.core.matching import VALID, living, matching
from dedp_assets.patterns.core.names import RESERVED, identifier
from dedp_assets.patterns.core.options import require_types
from dedp_assets.patterns.core.results import Finding
from dedp_assets.patterns.core.schema import TableSpec
from dedp_assets.patterns.core.types.partitions import quoted
from dedp_assets.patterns.modeling.versioned_dimension import judge_versions

__all__ = [
    "UNKNOWN",
    "UNKNOWN_NUMBER",
    "Link",
    "link_facts",
    "linked",
    "require_declared",
    "require_dimensions",
    "unknown_member",
    "with_broken_grain",
]

UNKNOWN = "unknown"
"""Key of the unknown member of a dimension with keys of text."""
UNKNOWN_NUMBER = -1
"""Key of the unknown member of a dimension with keys that are whole numbers."""

_SAMPLES = 3
_PLACE, _KEY, _MEMBER, _ROWS = (f"{RESERVED}{name}" for name in ("place", "key", "member", "rows"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """Link of a fact to a row of a dimension.

    Attributes:
        dimension: name of the dimension; several links may name the same one (roles).
        keys: column of the facts -> natural key column of the dimension.
        at: column of the facts that says when one happened, for a dimension of versions; empty for one without.
        key: key column of the dimension; that of the link's name if empty.
    """

    dimension: str
    keys: Mapping[str, str]
    at: str = ""
    key: str = ""

    def __post_init__(self) -> None:
        require_types(self)
        require_named("Link.dimension", [self.dimension])
        require_named("Link.keys", [*self.keys, *self.keys.values()] or [""])

    @property
    def reads(self) -> tuple[str, ...]:
        """Columns of the facts that the link is resolved by."""
        return (*self.keys, *([self.at] if self.at else []))

    def key_in(self, column: str) -> str:
        """Return the key column of the dimension, for a link of this name."""
        return self.key or column


def unknown_member(kind: T.DataType, what: str) -> str:
    """Write SQL for the key of the unknown member of a dimension.

    Raises:
        ConfigError: for a key that is neither a text nor a whole number.
    """
    if isinstance(kind, T.StringType):
        return quoted(UNKNOWN)
    if isinstance(kind, T.IntegralType):
        return f"CAST({UNKNOWN_NUMBER} AS {kind.simpleString()})"
    raise ConfigError(
        f"{what} must be a text or a whole number, not {kind.simpleString().upper()}: add_members adds one"
    )


def link_facts(facts: DataFrame, dimensions: Mapping[str, DataFrame], links: Mapping[str, Link]) -> DataFrame:
    """Add the foreign key of each link to each fact, that of the unknown member without a match; lazy."""
    for column, link in links.items():
        known, key = living(dimensions[link.dimension]), link.key_in(column)
        sides = ("the facts", f"dimension {link.dimension}")
        condition = F.expr(matching(facts, known, keys=link.keys, at=link.at, sides=sides))
        needed = dict.fromkeys([key, *link.keys.values(), *(VALID if link.at else ())])
        (kind,) = fields_of(known, [key])
        unknown = unknown_member(kind.dataType, f"key of dimension {link.dimension}")
        found = F.expr(f"coalesce(r.{identifier(key)}, {unknown})").alias(column)
        members = known.select(*map(identifier, needed)).alias("r")
        facts = facts.alias("f").join(members, condition, "left").select("f.*", found)
    return facts


def require_dimensions(dimensions: Mapping[str, DataFrame], links: Mapping[str, Link]) -> None:
    """Refuse dimensions without the unknown member, with a repeated key, or with overlapping versions.

    One job for all, and one for each dimension of versions.

    Raises:
        AuditFailed: names the dimension, and counts.
        ConfigError: for a dimension or a column that is not there.
    """
    asked: dict[str, Link] = {}
    versioned: dict[str, Sequence[str]] = {}
    for column, link in links.items():
        if link.dimension not in dimensions:
            raise ConfigError(f"dimensions must hold {link.dimension}, not only {', '.join(dimensions) or 'none'}")
        rows = require_rows(f"dimension {link.dimension}", dimensions[link.dimension])
        require_columns(rows, [link.key_in(column), *link.keys.values(), *(VALID if link.at else ())], COMPARED)
        asked[link.key_in(column)] = link
        if link.at:
            versioned[link.dimension] = tuple(link.keys.values())
    findings = [*_judge_keys(dimensions, asked)]
    findings += [judge_versions(dimensions[name], keys=keys) for name, keys in versioned.items()]
    named = [*(link.dimension for link in asked.values()), *versioned]
    notes = [f"{name}: {found.note}" for name, found in zip(named, findings, strict=True) if not found.passed]
    if notes:
        raise AuditFailed(
            f"dimensions must have an unknown member and one row at a time for each key, not {'; '.join(notes)}; no "
            "fact was written. keep_versions writes such versions, and add_members adds keys and the member",
            findings=[found for found in findings if not found.passed],
        )


def _judge_keys(dimensions: Mapping[str, DataFrame], asked: Mapping[str, Link]) -> Iterator[Finding]:
    """Judge whether each key column has distinct values, and one unknown member, in the order given."""
    keys = []
    for place, (key, link) in enumerate(asked.items()):
        rows = dimensions[link.dimension]
        (kind,) = fields_of(rows, [key])
        member = unknown_member(kind.dataType, f"key of dimension {link.dimension}")
        value = F.col(identifier(key))
        keys.append(
            rows.select(
                F.lit(place).alias(_PLACE), value.cast("STRING").alias(_KEY), (value == F.expr(member)).alias(_MEMBER)
            )
        )
    each = reduce(DataFrame.unionAll, keys).groupBy(_PLACE, _KEY, _MEMBER).agg(F.count("*").alias(_ROWS))
    figures = [F.sum(_ROWS), F.count("*"), F.coalesce(F.expr(f"sum({_ROWS}) FILTER (WHERE {_MEMBER})"), F.lit(0))]
    found = {place: counts for place, *counts in map(tuple, each.groupBy(_PLACE).agg(*figures).collect())}
    for place, key in enumerate(asked):
        rows_of, keys_of, unknown = found.get(place, (0, 0, 0))
        notes = [f"{rows_of} rows with {keys_of} different {key}"] if rows_of != keys_of else []
        notes += [] if unknown == 1 else [f"{unknown} unknown members"]
        figures_of = {"rows": rows_of, "keys": keys_of, "unknown members": unknown}
        yield Finding("members_have_keys", not notes, figures=figures_of, note=", ".join(notes))


def linked(table: TableSpec, links: Mapping[str, Link]) -> dict[str, Link]:
    """Return the links by foreign keys in the spelling of the table; refuse unfit links."""
    if not links:
        raise ConfigError(f"{table.name}: links must name a foreign key, not none")
    require_named("links", links)
    require_distinct("links=", links)
    require_declared(table, [*links, *chain(*(link.reads for link in links.values()))])
    spelled = dict(zip(spelled_as(table.columns, links), links.values(), strict=True))
    if loose := [name for name in spelled if not table.columns[name].required]:
        raise ConfigError(f"{table.name} must require {', '.join(loose)}, as a foreign key is never NULL")
    if several := [name for name in spelled if name in table.key]:
        raise ConfigError(f"{table.name} must have a grain without {', '.join(several)}, which a repair may change")
    return spelled


def with_broken_grain(error: AuditFailed, facts: DataFrame, table: TableSpec) -> AuditFailed:
    """Return an error with examples of rows with a repeated or incomplete grain, if any."""
    grain = [*map(identifier, table.key)]
    missing = " OR ".join(f"{key} IS NULL" for key in grain)
    rows = facts.groupBy(*grain).agg(F.count("*").alias(_ROWS)).filter(f"{_ROWS} > 1 OR {missing}")
    shown = [identifier(key) for key in table.key if table.columns[key].shows("sample")]
    found = [row.asDict() for row in rows.select(*shown, F.col(_ROWS).alias("rows")).limit(_SAMPLES).collect()]
    if not found:
        return error
    message = (
        f"{error}. Rows must have the grain of {table.name}, one for each {', '.join(table.key)}, not as {found}: sum "
        "them up before, or declare a finer key"
    )
    return AuditFailed(message, findings=error.findings, stage=error.stage, letters=error.letters)


def require_declared(table: TableSpec, names: Sequence[str]) -> None:
    """Refuse columns missing in the declaration of a fact table, case aside."""
    held = {column.lower() for column in table.columns}
    if missing := [name for name in dict.fromkeys(names) if name.lower() not in held]:
        raise ConfigError(f"{table.name} must declare {', '.join(missing)}, not only {', '.join(table.columns)}")
