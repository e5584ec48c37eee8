"""Column lineage: the upstream columns in the values of each column, and the columns that choose rows.

Direct inputs end up in a value (``IDENTITY``, ``TRANSFORMATION``, ``AGGREGATION``). What only decides which rows there
are, or which of two values is taken, is an influence of the whole dataset (``JOIN``, ``FILTER``, ...): for each column
apart it would be a list of columns times columns. The words are those of OpenLineage.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Literal

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.options import require_types, typed
from dedp_assets.patterns.core.results import Finding

__all__ = [
    "ColumnInput", "ColumnLineage", "ColumnOrigin", "Effect", "Influence", "TagReach", "Transformation",
    "broken_references", "compare_columns", "overlap", "propagate",
]  # fmt: skip

Transformation = Literal["IDENTITY", "TRANSFORMATION", "AGGREGATION"]
"""Transformation of an input: unchanged, computed, or aggregated over rows."""
Effect = Literal["JOIN", "FILTER", "GROUP_BY", "SORT", "WINDOW", "CONDITIONAL"]
"""Kind of influence of a column that is part of no value."""


class _Reference:
    """Reference to an upstream column, or to a field below."""

    __slots__ = ()
    table: str
    column: str
    field: str

    @property
    def path(self) -> str:
        """Column with the path below, such as ``device.os``."""
        return f"{self.column}.{self.field}" if self.field else self.column

    def __str__(self) -> str:
        return f"{self.table}.{self.path}"


@dataclass(frozen=True, slots=True, order=True)
class ColumnInput(_Reference):
    """An upstream column that the values of a column come from.

    Attributes:
        table: upstream table; empty for rows without a name.
        column: its column.
        transformation: what became of the values.
        field: path below a struct column, such as ``hw.cpu``; empty for the whole column.
    """

    table: str
    column: str
    transformation: Transformation = "IDENTITY"
    field: str = ""


@dataclass(frozen=True, slots=True, order=True)
class Influence(_Reference):
    """An upstream column that chooses rows or values of a dataset without being part of a value.

    Attributes:
        table: upstream table.
        column: its column.
        effect: what it decides.
        field: path below a struct column; empty for the whole column.
    """

    table: str
    column: str
    effect: Effect
    field: str = ""


@dataclass(frozen=True, slots=True)
class ColumnOrigin:
    """The inputs of one column.

    Attributes:
        inputs: upstream columns in its values, sorted; none for a constant.
        opaque: why they may not be all, or how they are used is not known (a Python function); empty if all is known.
    """

    inputs: tuple[ColumnInput, ...] = ()
    opaque: str = ""


@dataclass(frozen=True, slots=True)
class ColumnLineage:
    """The column lineage of a dataset.

    Attributes:
        columns: column -> its inputs.
        influences: columns that decide about rows or values, once for the dataset, sorted.
        gaps: why influences may be missing, one sentence each; empty if they are all.
    """

    columns: Mapping[str, ColumnOrigin]
    influences: tuple[Influence, ...] = ()
    gaps: tuple[str, ...] = ()

    @property
    def references(self) -> Iterator[tuple[str, ColumnInput | Influence]]:
        """The references to upstream columns, each with the dependent column or the effect."""
        for name, origin in self.columns.items():
            yield from ((name, each) for each in origin.inputs)
        yield from ((each.effect, each) for each in self.influences)

    def to_json(self) -> str:
        """Write the lineage as JSON."""
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> ColumnLineage:
        """Read a lineage from JSON.

        Raises:
            ConfigError: for a text that is none.
        """
        try:
            held = json.loads(text)
            columns = {
                name: ColumnOrigin(tuple(ColumnInput(**each) for each in origin["inputs"]), origin["opaque"])
                for name, origin in held["columns"].items()
            }
            return cls(columns, tuple(Influence(**each) for each in held["influences"]), tuple(held["gaps"]))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ConfigError(f"text must be the JSON of a column lineage: {error}") from error


@dataclass(frozen=True, slots=True)
class TagReach:
    """The columns that tags reach.

    Attributes:
        tags: table -> column -> its tags, sorted; columns without one are left out.
        unknown: columns as ``table.column`` whose inputs are not known, each with the reason: a tag may reach them.
    """

    tags: Mapping[str, Mapping[str, tuple[str, ...]]]
    unknown: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        require_types(self)


@typed
def broken_references(lineage: ColumnLineage, schemas: Mapping[str, Collection[str]]) -> Finding:
    """Check that the upstream columns of a lineage still exist, before a run or a dashboard finds out.

    Args:
        lineage: as it was traced.
        schemas: table -> its present columns; of a struct, either the column alone, or its fields as well
            (``device.os``), which are then checked. Tables that are not named are not checked.

    Returns:
        A finding that fails for columns that are gone: ``broken`` counts them, and the note names each with the columns
        that come from it.

    Example:
        >>> lineage = ColumnLineage({"name": ColumnOrigin((ColumnInput("users", "first_name"),))})
        >>> broken_references(lineage, {"users": ["id", "given_name"]}).note
        'users.first_name is gone, which name comes from'
    """
    known = {table: {name.lower() for name in names} for table, names in schemas.items()}
    broken: dict[str, list[str]] = {}
    for needs, each in lineage.references:
        if each.table in known and not _is_held(each.column, each.field, known[each.table]):
            broken.setdefault(str(each), []).append(needs)
    sentences = [
        f"{gone} is gone, which {', '.join(dict.fromkeys(needs))} comes from" for gone, needs in broken.items()
    ]
    return Finding("upstream_columns_exist", not broken, figures={"broken": len(broken)}, note="; ".join(sentences))


@typed
def compare_columns(
    declared: Mapping[str, Collection[str]], observed: ColumnLineage, *, upstream: Collection[str] = ()
) -> Finding:
    """Compare declared column lineage with the lineage that was observed.

    Args:
        declared: column -> its upstream columns as ``table.column``.
        observed: as it was traced. Of opaque columns nothing is said, nor of constants: the key of a partition and
            figures that Python computed come into a query as constants.
        upstream: tables that the declaration is about; all, by default.

    Returns:
        A finding that warns of differences: ``undeclared`` inputs that were observed, ``unobserved`` ones that are
        declared; the note names each.

    Example:
        >>> observed = ColumnLineage({"name": ColumnOrigin((ColumnInput("users", "first_name"),))})
        >>> compare_columns({"name": ["users.name"]}, observed).note
        'name: comes from users.first_name, which is not declared; name: does not come from users.name'
    """
    undeclared, unobserved = list[str](), list[str]()
    for name, origin in observed.columns.items():
        if origin.opaque or not origin.inputs or name not in declared:
            continue
        found = {f"{each.table}.{each.column}" for each in origin.inputs if not upstream or each.table in upstream}
        stated = set(declared[name])
        undeclared += [f"{name}: comes from {each}, which is not declared" for each in sorted(found - stated)]
        unobserved += [f"{name}: does not come from {each}" for each in sorted(stated - found)]
    return Finding(
        "declared_columns_are_the_observed_ones",
        not undeclared and not unobserved,
        "warn",
        {"undeclared": len(undeclared), "unobserved": len(unobserved)},
        "; ".join([*undeclared, *unobserved]),
    )


@typed
def propagate(tags: Mapping[str, Mapping[str, Collection[str]]], lineages: Mapping[str, ColumnLineage]) -> TagReach:
    """Propagate tags of columns, such as personal data, along column lineage to derived columns.

    A tag follows values through any number of tables: renamed, computed, joined or aggregated. It does not follow
    influences: a filter on a birthday makes no column personal.

    Args:
        tags: table -> column -> its tags; of a field of a struct, by its path (``device.os``).
        lineages: table -> its column lineage.

    Returns:
        All tags, the given ones among them, and the columns about which the lineage cannot tell.

    Example:
        >>> silver = ColumnLineage({"contact": ColumnOrigin((ColumnInput("bronze/users", "email"),))})
        >>> gold = ColumnLineage({"hash": ColumnOrigin((ColumnInput("silver/users", "contact", "TRANSFORMATION"),))})
        >>> reach = propagate({"bronze/users": {"email": ["personal"]}}, {"silver/users": silver, "gold/users": gold})
        >>> reach.tags["gold/users"]
        {'hash': ('personal',)}
    """
    held = {table: {column: set(given) for column, given in columns.items()} for table, columns in tags.items()}
    grown = True
    while grown:  # ends: tags are only added, and a cycle adds none twice
        grown = False
        for table, lineage in lineages.items():
            for name, origin in lineage.columns.items():
                found = {tag for each in origin.inputs for tag in _tags_of(each, held)}
                if new := found - held.get(table, {}).get(name, set()):
                    held.setdefault(table, {}).setdefault(name, set()).update(new)
                    grown = True
    unknown = {
        f"{table}.{name}": origin.opaque
        for table, lineage in lineages.items()
        for name, origin in lineage.columns.items()
        if origin.opaque
    }
    reached = {
        table: {name: tuple(sorted(each)) for name, each in columns.items() if each} for table, columns in held.items()
    }
    return TagReach({table: columns for table, columns in reached.items() if columns}, unknown)


def overlap(one: str, other: str) -> bool:
    """Return whether two paths name the same column, or a column and a field of the column.

    Case does not count.

    Example:
        >>> overlap("device.os", "Device"), overlap("device.os", "device.version")
        (True, False)
    """
    one, other = one.lower(), other.lower()
    return one == other or one.startswith(f"{other}.") or other.startswith(f"{one}.")


def _is_held(column: str, path: str, known: Collection[str]) -> bool:
    """Return whether a column is among the known names in lower case; a field, where fields are known."""
    column, path = column.lower(), path.lower()
    if column not in known:
        return False
    fields_known = any(name.startswith(f"{column}.") for name in known)
    return not path or not fields_known or f"{column}.{path}" in known


def _tags_of(each: ColumnInput, held: Mapping[str, Mapping[str, Collection[str]]]) -> Iterator[str]:
    """List the tags of a column or field, of the structs around, and of the fields inside."""
    for name, tags in held.get(each.table, {}).items():
        if overlap(each.path, name):
            yield from tags
