"""Releases of rows about persons: a rule for each column, and groups of indistinguishable persons."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F

from dedp_assets.patterns.core.columns import COMPARED, IDENTICAL, require_columns, require_rows, spelled_as
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.keys import require_distinct
from dedp_assets.patterns.core.names import RESERVED, identifier
from dedp_assets.patterns.core.types.meeting import united

__all__ = ["Crowd", "Linked", "Remove", "replaced"]

_OWN, _PERSON, _PERSONS, _SEEN, _VALUES = (
    f"{RESERVED}{name}" for name in ("own", "person", "persons", "seen", "values")
)


def replaced(
    rows: DataFrame, rules: Mapping[str, Any], keep: Sequence[str], made: Callable[[str, Any], Column | None]
) -> DataFrame:
    """Return the rows with each column kept, replaced, or left out; lazy.

    Args:
        rows: the rows.
        rules: column -> what is done with the column's values.
        keep: columns that leave as they are.
        made: returns the values of a column by a rule; ``None`` leaves the column out.

    Raises:
        ConfigError: for a column with neither, so that a new column does not leave before somebody decides; for one
            with both, or that is not there.
    """
    require_distinct("rules and keep", [*rules, *keep])
    require_columns(require_rows("this pattern", rows), [*rules, *keep])
    by_column = dict(zip(spelled_as(rows.columns, rules), rules.values(), strict=True))
    kept = {*spelled_as(rows.columns, keep)}
    if unruled := [column for column in rows.columns if column not in by_column and column not in kept]:
        raise ConfigError(
            f"rules or keep must name every column of the rows, not leave out {', '.join(unruled)}: nobody said "
            f"whether it may leave; give it a rule, or name it in keep, as keep=[{unruled[0]!r}]"
        )
    shown = {c: F.col(identifier(c)) if c in kept else made(c, by_column[c]) for c in rows.columns}
    leaving = [values.alias(column) for column, values in shown.items() if values is not None]
    if not leaving:
        raise ConfigError("rules must leave a column, not remove each one")
    return rows.select(*leaving)


@dataclass(frozen=True, slots=True)
class Remove:
    """The column does not leave."""


@dataclass(frozen=True, slots=True)
class Crowd:
    """Smallest permitted group: fewest persons, and fewest values of each sensitive column.

    Attributes:
        k: fewest persons.
        diversity: fewest different values of a sensitive column.
        sensitive: columns whose value nobody may conclude for a person.

    Raises:
        ConfigError: for a group of one, which is a person, or a diversity of one, which is a conclusion.
    """

    k: int
    diversity: int
    sensitive: tuple[str, ...]

    def __post_init__(self) -> None:
        require_distinct("sensitive", self.sensitive)
        if self.k < 2:
            raise ConfigError(f"k must be at least 2, not {self.k}: a group of one is a person, as in k=5")
        if self.sensitive and self.diversity < 2:
            raise ConfigError(
                f"diversity must be at least 2 for sensitive columns, not {self.diversity}: with one value in a group, "
                "whoever is in the group is known to have it"
            )
        if not self.sensitive and self.diversity != 1:
            raise ConfigError(f"sensitive must name columns for a diversity of {self.diversity}, not be empty")

    @property
    def is_large(self) -> str:
        """SQL condition: a group of :class:`Linked` is large enough and has enough values."""
        values = [f"{_VALUES}{n} >= {self.diversity}" for n, _ in enumerate(self.sensitive)]
        return " AND ".join([f"{_PERSONS} >= {self.k}", *values])


@dataclass(frozen=True, slots=True)
class Linked:
    """Combinations of quasi-identifiers by person, over a release and earlier releases.

    What is said of a person is the set of different combinations in each release: whoever reads a release can put
    together the rows of one person, and of one pseudonym in several releases. A person that an earlier release does not
    have is told apart by that, too.

    Attributes:
        rows: the release.
        others: earlier releases, by name.
        quasi: quasi-identifiers: columns by which persons can be recognised; of an earlier release those that it has.
        person: column that is the same for all rows of a person in each release; empty if each row is a person.
    """

    rows: DataFrame
    others: Mapping[str, DataFrame]
    quasi: tuple[str, ...]
    person: str

    def __post_init__(self) -> None:
        require_distinct("quasi and person", [*self.quasi, *filter(None, [self.person])])
        if not self.quasi:
            raise ConfigError("quasi must name columns by which persons can be recognised, not be empty")
        if self.others and not self.person:
            raise ConfigError("person must name the column by which releases are joined, not be empty, with others")
        releases = {"the release": self.rows, **self.others}
        for name, each in releases.items():
            require_columns(require_rows("this pattern", each), [self.person, *_among(self.quasi, each)], IDENTICAL)
            if not _among(self.quasi, each):
                raise ConfigError(
                    f"quasi must name columns of each release, not none of {name}: name some, or leave it out"
                )
        nowhere = [c for c in self.quasi if not any(_among([c], each) for each in releases.values())]
        if nowhere:
            raise ConfigError(f"quasi must name columns of a release, not {', '.join(nowhere)}")

    def alone(self) -> Linked:
        """Return the release without the others."""
        return replace(self, others={}, quasi=tuple(_among(self.quasi, self.rows)))

    def groups(self, crowd: Crowd) -> DataFrame:
        """Return each group with the persons and the number of values of each sensitive column."""
        known, by = self._known(crowd)
        return known.groupBy(*by).agg(*_sizes(crowd))

    def figures(self, crowd: Crowd) -> dict[str, Any]:
        """Count groups that are too small, and the persons of these groups; starts a job."""
        least = [F.min(f"{_VALUES}{n}").alias(column) for n, column in enumerate(crowd.sensitive)]
        small = f"NOT ({crowd.is_large})"
        found = self.groups(crowd).agg(
            F.min(_PERSONS),
            F.count_if(F.expr(small)),
            F.coalesce(F.sum(F.expr(f"if({small}, {_PERSONS}, 0)")), F.lit(0)),
            *least,
        )
        smallest, groups, persons, *values = found.collect()[0]
        figures = {"smallest group": smallest or 0, "small groups": groups, "persons in small groups": persons}
        return figures | {f"least values of {c}": v or 0 for c, v in zip(crowd.sensitive, values, strict=True)}

    def crowded(self, crowd: Crowd) -> DataFrame:
        """Return the release without the rows of groups that are too small."""
        known, by = self._known(crowd)
        sized = known.select("*", *_sizes(crowd, Window.partitionBy(*by))).where(crowd.is_large)
        if not self.person:
            return sized.select(*map(identifier, self.rows.columns))
        same = F.col(_PERSON).eqNullSafe(F.col(_OWN))
        left = self.rows.select("*", F.col(identifier(self.person)).alias(_OWN))
        return left.join(sized.select(_PERSON), same, "left_semi").select(*map(identifier, self.rows.columns))

    def _known(self, crowd: Crowd) -> tuple[DataFrame, list[str]]:
        """Return the known facts of each person, and the columns that distinguish persons."""
        seen = [F.array(F.col(identifier(c))).alias(f"{_SEEN}{n}") for n, c in enumerate(crowd.sensitive)]
        require_columns(self.rows, crowd.sensitive, COMPARED)
        if not self.person:
            return self.rows.select("*", *seen), [identifier(c) for c in _among(self.quasi, self.rows)]
        sets = [F.collect_set(identifier(c)).alias(f"{_SEEN}{n}") for n, c in enumerate(crowd.sensitive)]
        # A release is one side of the join, and an earlier one may be the same frame.
        sides = united({"the release": self.rows, **self.others}, [self.person])
        names = [f"{RESERVED}said{n}" for n, _ in enumerate(sides)]
        parts = iter(zip(names, sides.values(), strict=True))
        name, rows = next(parts)
        known = self._combinations(rows, name, *sets)
        for name, other in parts:
            of_other = self._combinations(other, name).withColumnRenamed(_PERSON, f"{_PERSON}_of_other")
            same = F.col(_PERSON) == F.col(f"{_PERSON}_of_other")
            known = known.join(of_other, same, "left").drop(f"{_PERSON}_of_other")
        return known, names

    def _combinations(self, rows: DataFrame, name: str, *more: Column) -> DataFrame:
        """Return each person with the combinations that a release has of the person."""
        combination = F.struct(*[F.col(identifier(c)) for c in _among(self.quasi, rows)])
        combinations = F.sort_array(F.collect_set(combination)).alias(name)
        return rows.groupBy(F.col(identifier(self.person)).alias(_PERSON)).agg(combinations, *more)


def _among(quasi: Iterable[str], rows: DataFrame) -> list[str]:
    known = {column.lower() for column in rows.columns}
    return [column for column in quasi if column.lower() in known]


def _sizes(crowd: Crowd, window: WindowSpec | None = None) -> list[Column]:
    """Return the persons of a group, and the number of different values of each sensitive column."""

    def of_group(found: Column) -> Column:
        return found if window is None else found.over(window)

    sets = [F.flatten(of_group(F.collect_list(f"{_SEEN}{n}"))) for n, _ in enumerate(crowd.sensitive)]
    values = [F.size(F.array_compact(F.array_distinct(each))) for each in sets]
    return [of_group(F.count("*")).alias(_PERSONS), *[each.alias(f"{_VALUES}{n}") for n, each in enumerate(values)]]
