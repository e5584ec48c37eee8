"""Policies: rows, columns and masks of a table for an audience, applied where the table is opened."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from dedp_assets.patterns.core.columns import require_named, require_rows, spelled_as
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.keys import require_distinct
from dedp_assets.patterns.core.masking import Mask, MaskingKey, pseudonym
from dedp_assets.patterns.core.names import identifier
from dedp_assets.patterns.core.options import require_types
from dedp_assets.patterns.core.running.digests import as_plain, digest_of
from dedp_assets.patterns.core.sql.sql_options import naming_options, require_of_one_row, require_repeatable, truth
from dedp_assets.patterns.core.types.exact import is_scalar
from dedp_assets.patterns.core.types.exact_values import reader_of

__all__ = ["ALL_ROWS", "ColumnMask", "Policy", "secured", "strictest"]

ALL_ROWS = "true"
"""Row filter that shows every row."""
_STRENGTH = ("partial", "shape", "hash", "constant", "null")
"""Kinds of masks; each shows less of a value than the one before."""
_BARRIER = "spark_partition_id() >= 0"
"""A predicate that every row satisfies and that keeps filters of readers above the filter of the policy.

Spark moves no filter below a non-deterministic expression.
"""


@dataclass(frozen=True, slots=True)
class ColumnMask:
    """A mask of a column: a value in place of each value; the type stays, and NULL stays NULL.

    Attributes:
        by: ``hash`` a keyed hash (of a text; equal values are equal for one audience); ``partial`` the first three
            characters and ``***``, of a text of six or more; ``shape`` the last four signs of a text in the format of
            ``value``, see :class:`~dedp_assets.patterns.core.masking.Mask`; ``null`` NULL; ``constant`` one value.
        value: the constant as a text; the format of a shape, as ``999-99-9999``; of a hash, what the values are, as
            ``email``, by default the column's name.
        unless: SQL predicate over the row; where it is true, the value is shown.

    Raises:
        ConfigError: for a constant or a shape without a value, or a value that the kind does not take.
    """

    by: Literal["hash", "partial", "shape", "null", "constant"]
    value: str = ""
    unless: str = ""

    def __post_init__(self) -> None:
        require_types(self)
        if self.by == "shape":
            Mask(self.value)
        if (self.by in ("partial", "null")) == bool(self.value) and self.by != "hash":
            wanted = "empty" if self.value else "the value that is shown"
            raise ConfigError(f"value must be {wanted} for a mask by {self.by}, not {self.value!r}")


@dataclass(frozen=True, slots=True)
class Policy:
    """Rows and columns of a table for an audience; all others are denied.

    Predicates are SQL over one row of the table, also over columns that are not shown, and no input of readers.

    Attributes:
        audience: who reads: a role, a group, a purpose.
        columns: columns that are shown; no others are there, also none that the table gets later.
        masks: shown column -> its mask.
        rows: predicate of the rows that are shown: ``"true"`` for all; empty for none.
        max_rows: most rows of an answer, for whoever hands answers out; ``None`` without a limit. Rows that are read
            are not limited: sums would be of some of them.
        may_export: whether the rows may leave the platform.

    Raises:
        ConfigError: for no column, a column that is named twice, or a mask of a column that is not shown: a misspelt
            one would leave the values of another column in the clear.
    """

    audience: str
    columns: Sequence[str]
    masks: Mapping[str, ColumnMask] = field(default_factory=dict)
    rows: str = ""
    max_rows: int | None = None
    may_export: bool = False

    def __post_init__(self) -> None:
        require_types(self)
        if not self.audience:
            raise ConfigError("audience must say who reads, as 'analysts', not be empty")
        if not self.columns:
            raise ConfigError(f"columns must name what {self.audience} may see, not be empty: leave the policy out")
        require_named("columns", self.columns)
        require_distinct("columns", self.columns)
        require_distinct("masks", self.masks)
        known = {column.lower() for column in self.columns}
        if hidden := [column for column in self.masks if column.lower() not in known]:
            raise ConfigError(f"masks must be of columns that {self.audience} may see, not of {', '.join(hidden)}")
        if self.max_rows is not None and self.max_rows < 0:
            raise ConfigError(f"max_rows must be at least 0, not {self.max_rows}")

    @property
    def digest(self) -> str:
        """Digits that are equal for policies that show the same."""
        return digest_of(as_plain(self))

    def mask_of(self, column: str) -> ColumnMask | None:
        """Return the mask of a column, case aside."""
        return next((mask for name, mask in self.masks.items() if name.lower() == column.lower()), None)


def secured(rows: DataFrame, policy: Policy, key: MaskingKey | None = None, *, of: str = "the rows") -> DataFrame:
    """Show rows by a policy; lazy.

    What reads the result meets the filtered rows and the masked values only: columns that are not shown cannot be
    named, also no ``_metadata`` of files, and no predicate is evaluated over hidden rows. So predicates of readers
    choose no files, unless all rows are shown: name partitions where the table is opened.

    Args:
        rows: the rows of the table.
        policy: rows, columns and masks.
        key: key of hashes; each audience has hashes of its own.
        of: what messages call the rows, such as the table's name.

    Raises:
        ConfigError: for columns that are gone, a field of a struct, a mask that the type of its column does not allow,
            a predicate that Spark cannot evaluate, one over other rows or one that is not repeatable, and a hash
            without a key.

    Example:
        >>> users = frame("id INT, ssn STRING, region STRING", (1, "123-45-6789", "US"), (2, "987-65-4321", "EU"))
        >>> policy = Policy("us", ["id", "ssn"], {"ssn": ColumnMask("shape", "999-99-9999")}, rows="region = 'US'")
        >>> rows(secured(users, policy))
        [(1, 'XXX-XX-6789')]
    """
    whose = f"the policy of {policy.audience} for {of}"
    columns = _columns(require_rows("secured", rows), policy, whose)
    predicates = {"of rows": policy.rows} if policy.rows else {}
    predicates |= {f"unless of {column}": mask.unless for column, mask in policy.masks.items() if mask.unless}
    require_of_one_row(f"{whose}: predicate", predicates)
    shown = [_shown(field, policy, key, whose).alias(field.name) for field in columns]
    with naming_options(rows, f"{whose}: predicate", {name: truth(sql) for name, sql in predicates.items()}):
        found = rows.where(truth(policy.rows) if policy.rows else "false")
        if policy.rows not in ("", ALL_ROWS):
            found = found.where(_BARRIER)
        found = found.select(*shown)
        _ = found.schema  # over Spark Connect nothing is analysed before
    require_repeatable(rows, f"{whose}: predicate", predicates)
    # Spark resolves a name that a projection left out below it, and files' hidden columns, too: not through a union and
    # an alias. The optimizer drops the empty half.
    return found.union(found.where("false")).alias(f"rows for {policy.audience}")


def strictest(first: Policy, *others: Policy) -> Policy:
    """Merge policies to the strictest: common rows and columns, strongest masks, smallest limits.

    Of one table, it is the policy of a reader who has to satisfy all. Of several tables, which a query joins, each
    table is still read by its own policy; of the merged one only ``max_rows`` and ``may_export`` mean something then,
    for the answer as a whole.

    Args:
        first: a policy.
        others: further ones.

    Returns:
        A policy of all audiences: rows that every filter shows; a mask where one has a mask, without ``unless`` where
        they differ; rows leave if all allow it.

    Raises:
        ConfigError: if no column is shown by all.
    """
    policies = (first, *others)
    common = [c for c in first.columns if all(c.lower() in map(str.lower, each.columns) for each in others)]
    audiences = dict.fromkeys(each.audience for each in policies)
    if not common:
        raise ConfigError(f"the policies of {' and '.join(audiences)} must have a column in common, not none")
    limits = [each.max_rows for each in policies if each.max_rows is not None]
    filters = [*dict.fromkeys(each.rows for each in policies if each.rows != ALL_ROWS)]
    merged = filters[0] if len(filters) == 1 else " AND ".join(map(truth, filters)) or ALL_ROWS
    return Policy(
        " and ".join(audiences),
        common,
        dict(_strongest(common, policies)),
        merged if all(filters) else "",
        min(limits, default=None),
        all(each.may_export for each in policies),
    )


def _strongest(columns: Sequence[str], policies: Sequence[Policy]) -> Iterator[tuple[str, ColumnMask]]:
    for column in columns:
        masks = [mask for each in policies if (mask := each.mask_of(column))]
        if not masks:
            continue
        strongest = max(masks, key=lambda mask: (_STRENGTH.index(mask.by), mask.value))
        unless = {mask.unless for mask in masks}
        yield column, ColumnMask(strongest.by, strongest.value, unless.pop() if len(unless) == 1 else "")


def _columns(rows: DataFrame, policy: Policy, whose: str) -> list[T.StructField]:
    """Return the shown columns, in the order of the policy."""
    fields = {each.name: each for each in rows.schema.fields}
    named = spelled_as(fields, policy.columns)
    if gone := [column for column in named if column not in fields]:
        outer = {name.lower(): name for name, each in fields.items() if not isinstance(each.dataType, T.AtomicType)}
        if nested := [column for column in gone if column.lower().partition(".")[0] in outer]:
            raise ConfigError(
                f"{whose} names {', '.join(nested)}, a field inside of a column: flatten first, so that it is a column"
            )
        raise ConfigError(f"{whose} names {', '.join(gone)}, which the rows do not have: take it out of the policy")
    return [fields[column] for column in named]


def _shown(column: T.StructField, policy: Policy, key: MaskingKey | None, whose: str) -> Column:
    value, mask = F.col(identifier(column.name)), policy.mask_of(column.name)
    if mask is None:
        return value
    kind = column.dataType
    if mask.by == "null":
        masked = F.lit(None)
    elif mask.by == "constant":
        masked = F.when(value.isNotNull(), F.lit(_constant(mask.value, column, whose)))
    elif not isinstance(kind, T.StringType):
        name = kind.simpleString().upper()
        advice = "null or a constant" if isinstance(kind, T.AtomicType) else "null, or flatten first"
        raise ConfigError(
            f"{whose} masks {column.name} by {mask.by}, which takes a text and no {name}: mask by {advice}"
        )
    elif mask.by == "hash":
        if key is None:
            raise ConfigError(f"key must be given for the hash of {column.name} in {whose}, not None")
        masked = pseudonym(column.name, key.of(policy.audience), of=mask.value or column.name.lower())
    else:
        text = value.cast("string")  # without a collation, which functions of texts would follow
        masked = Mask(mask.value).of(text) if mask.by == "shape" else _first_three(text)
    masked = masked.cast(kind)
    return F.when(F.expr(truth(mask.unless)), value).otherwise(masked) if mask.unless else masked


def _first_three(text: Column) -> Column:
    """Return the first three characters of texts and three asterisks; of short texts, asterisks."""
    begun = F.when(F.char_length(text) >= 6, F.substring(text, 1, 3)).otherwise(F.lit(""))
    return F.when(text.isNotNull(), F.concat(begun, F.lit("***")))


def _constant(value: str, column: T.StructField, whose: str) -> object:
    """Return the constant of a mask as a value of the column's type."""
    kind = column.dataType.simpleString()
    is_text = isinstance(column.dataType, T.StringType)
    found = value if is_text else reader_of(kind, zone="UTC")(value) if is_scalar(kind) else None
    if found is None:
        raise ConfigError(f"{whose} masks {column.name} by {value!r}, which is no {kind.upper()}: state one")
    return found
