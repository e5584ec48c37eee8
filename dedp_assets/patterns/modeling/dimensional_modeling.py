"""Dimensional Modeling: facts of a declared grain, with keys of dimensions as of their time.

Problem: an order joined to a history of users is there once for each version, one of an unknown user is lost, and a
    sum of percentages is shown to the board.
Solution: the grain is the key of the fact table. Each fact gets the key of the dimension's version that held when it
    happened, or that of the unknown member. What a sum of a measure means is declared (``Additivity``).
Consequences: no fact is lost or doubled. The fact keeps natural keys and time, by which ``relink_facts`` finds the ones
    whose dimension came late or was corrected. Foreign keys are never NULL, so that inner joins keep every fact.
Choose instead: Static Joiner, for attributes instead of keys; Denormalizer, for one wide table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from dedp_assets.patterns.core.audits import not_empty
from dedp_assets.patterns.core.columns import (
    COMPARED,
    fields_of,
    require_columns,
    require_free,
    require_named,
    require_rows,
)
from dedp_assets.patterns.core.errors import AuditFailed, ConfigError
from dedp_assets.patterns.core.keys import require_distinct
from dedp_assets.patterns.core.names import RESERVED, identifier
from dedp_assets.patterns.core.options import require_types, typed
from dedp_assets.patterns.core.results import WriteResult
from dedp_assets.patterns.core.running.demands import demanding
from dedp_assets.patterns.core.schema import TableSpec
from dedp_assets.patterns.core.types.partitions import stored_type
from dedp_assets.patterns.delta import Merge, Target, Update
from dedp_assets.patterns.modeling._links import (
    UNKNOWN,
    UNKNOWN_NUMBER,
    Link,
    link_facts,
    linked,
    require_declared,
    require_dimensions,
    with_broken_grain,
)

__all__ = ["build_facts", "relink_facts", "sum_measures", "Link", "Additivity", "UNKNOWN", "UNKNOWN_NUMBER"]

_PATTERN = "modeling.dimensional_modeling"
_NUMBERS = ("byte", "short", "integer", "long", "float", "double", "decimal")


@dataclass(frozen=True, slots=True, kw_only=True)
class Additivity:
    """Additivity of a measure: additive without options, semi-additive, or non-additive.

    Attributes:
        not_along: columns of the facts along which a sum means nothing, as the day of a balance (semi-additive).
        adds: whether a sum means anything at all; false for percentages, prices and identifiers (non-additive).
        instead: what to ask for instead of a sum, for the refusal.
    """

    not_along: Sequence[str] = ()
    adds: bool = True
    instead: str = ""

    def __post_init__(self) -> None:
        require_types(self)
        require_named("Additivity.not_along", self.not_along)
        if (self.not_along or not self.adds) and not self.instead:
            raise ConfigError(
                "Additivity.instead must say what to ask for instead of a sum, as 'sum(discount) / sum(amount)', not ''"
            )


def _require_facts(
    table: TableSpec, *, links: Mapping[str, Link], measures: Mapping[str, Additivity], **_: object
) -> None:
    """Refuse a fact table without foreign keys, natural keys, or the additivity of a number."""
    linked(table, links)
    require_named("measures", [*measures])
    require_declared(table, [*measures, *chain(*(measure.not_along for measure in measures.values()))])
    spoken_for = {name.lower() for name in chain(table.key, links, measures)}
    numbers = [name for name, column in table.columns.items() if stored_type(column.type).startswith(_NUMBERS)]
    if unclear := [name for name in numbers if name.lower() not in spoken_for]:
        raise ConfigError(
            f"{table.name}: measures must state the additivity of {', '.join(unclear)}: Additivity() if sums mean "
            "something, else Additivity(adds=False, instead='...')"
        )


@demanding(replaces="any", key=True, of_options=_require_facts)
@typed
def build_facts(
    rows: DataFrame,
    into: Target,
    dimensions: Mapping[str, DataFrame],
    *,
    links: Mapping[str, Link],
    measures: Mapping[str, Additivity],
    allow_empty: bool = False,
) -> WriteResult:
    """Replace facts by rows with the keys of dimensions as of the time of each fact, in one commit.

    Args:
        rows: everything that the partition, or the table, shall hold, at the grain of the table, without foreign keys.
        into: target of the write: the fact table, of which the key is the grain. It declares foreign keys as required,
            and the columns that they are found by.
        dimensions: rows of each dimension by name, with key and unknown member
            (:func:`~dedp_assets.patterns.modeling.dimensional_members.add_members`). A deleted version is no match.
        links: foreign key column of the facts -> what it is found by.
        measures: column -> its additivity; of every number of the table that is no key.
        allow_empty: whether no rows may replace present facts, with a warning.

    Raises:
        AuditFailed: if two rows have one grain, or one of it is NULL, an audit refuses rows, or a dimension has no
            unknown member, a repeated key or overlapping versions. Nothing is published.
        ConfigError: for a table, links or measures that do not fit.
        SchemaMismatch: if the types of a natural key do not meet.

    Example:
        >>> from dedp_assets.patterns.core.schema import Column, TableSpec
        >>> text, number = Column("STRING", required=True), Column("INT")
        >>> columns = {"order_id": text, "plan": text, "plan_key": text, "euros": number}
        >>> orders = table(TableSpec("orders", columns, key=("order_id",)))
        >>> plans = frame("plan_key STRING, plan STRING", ("k1", "basic"), ("unknown", None))
        >>> links = {"plan_key": Link(dimension="plans", keys={"plan": "plan"})}
        >>> sold = frame("order_id STRING, plan STRING, euros INT", ("a", "basic", 5), ("b", "gold", 9))
        >>> adds = {"euros": Additivity()}
        >>> done = build_facts(sold, orders.target(run), {"plans": plans}, links=links, measures=adds)
        >>> rows(orders.read().select("order_id", "plan_key", "euros"))
        [('a', 'k1', 5), ('b', 'unknown', 9)]
    """
    into = into.by(_PATTERN, "partition", "audits", "rows_read")
    _require_facts(into.table.spec, links=links, measures=measures)
    links = linked(into.table.spec, links)
    require_free(require_rows("a fact table", rows), *links)
    require_columns(rows, chain(*(link.reads for link in links.values())), COMPARED)
    require_dimensions(dimensions, links)
    facts = link_facts(rows, dimensions, links)
    try:
        return into.with_audits(not_empty(allow_empty=allow_empty)).stage(facts).publish()
    except AuditFailed as error:
        raise with_broken_grain(error, facts, into.table.spec) from error


@demanding(replaces="any", key=True)
@typed
def relink_facts(dimensions: Mapping[str, DataFrame], into: Target, *, links: Mapping[str, Link]) -> WriteResult:
    """Repair the facts whose dimension came late, or has other versions now, in one commit.

    Files without such a fact stay as they are. Facts and keys are then those of a build with the present dimensions.

    Args:
        dimensions: as in :func:`build_facts`.
        into: target of the write: the fact table; of a partition, only the facts of it are repaired.
        links: as in :func:`build_facts`.

    Raises:
        AuditFailed: if an audit refuses the repaired facts, or a dimension is refused.
        ConfigError: for links that do not fit.
        Conflict: if other writers change the same facts and do not yield.
    """
    into, table = into.by(_PATTERN, "partition", "audits"), into.table
    links = linked(table.spec, links)
    require_dimensions(dimensions, links)
    version, parts = table.ensure().version, [into.owned] if into.owned else []
    former = {column: f"{RESERVED}former_{number}" for number, column in enumerate(links)}
    present = table.read(*parts, version=version).withColumnsRenamed(former)
    moved = " OR ".join(f"{identifier(column)} <> {old}" for column, old in former.items())
    changed = link_facts(present, dimensions, links).filter(moved).select(*map(identifier, [*table.spec.key, *links]))
    merge = Merge(table.spec.key, [Update({column: f"s.{identifier(column)}" for column in links})])
    return table.merge(changed, merge, provenance=into.run, partition=into.owned, audits=into.audits, since=version)


@typed
def sum_measures(
    facts: DataFrame, *, measures: Mapping[str, Additivity], by: Sequence[str] = (), sums: Sequence[str] = ()
) -> DataFrame:
    """Sum measures by columns of the facts, or refuse a sum that means nothing; lazy.

    Args:
        facts: facts, or facts joined to dimensions.
        measures: column -> its additivity.
        by: columns to sum by; all others are summed along.
        sums: the measures to sum; all if none is named.

    Returns:
        The columns of ``by``, and the sum of each measure under its name.

    Raises:
        ConfigError: for a measure that does not add up along a column that is not in ``by``, with what to ask for
            instead; for one without declared additivity, and columns that are not there or are no number.
    """
    declared = {name.lower(): measure for name, measure in measures.items()}
    wanted = [*(sums or measures)]
    require_distinct("sums=", [*by, *wanted])
    if unclear := [name for name in wanted if name.lower() not in declared]:
        raise ConfigError(f"measures must state the additivity of {', '.join(unclear)}, not only {', '.join(measures)}")
    kept = {column.lower() for column in by}
    for name in wanted:
        measure = declared[name.lower()]
        along = [column for column in measure.not_along if column.lower() not in kept]
        if not measure.adds or along:
            where = f" along {', '.join(along)}" if measure.adds else ""
            also = f", or add {', '.join(along)} to by=" if measure.adds else ""
            raise ConfigError(f"sums must add up, not {name}{where}: ask for {measure.instead}{also}")
    require_columns(facts, by, COMPARED)
    if texts := [f.name for f in fields_of(facts, wanted) if not isinstance(f.dataType, T.NumericType)]:
        raise ConfigError(f"sums must be numbers, not {', '.join(texts)}: count them instead")
    totals = [F.sum(identifier(name)).alias(name) for name in wanted]
    return facts.groupBy(*[F.col(identifier(column)).alias(column) for column in by]).agg(*totals)
