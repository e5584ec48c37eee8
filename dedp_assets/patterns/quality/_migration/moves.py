"""Moves of a schema migration: records for YAML, and the SQL between the old and the new form."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from dedp_assets.patterns.core.audits import Audit
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.names import identifier, reserved
from dedp_assets.patterns.core.options import require_types
from dedp_assets.patterns.core.types.conversion import exact, safe_cast
from dedp_assets.patterns.core.types.exact import is_scalar
from dedp_assets.patterns.core.types.partitions import quoted

__all__ = ["Form", "Migration", "Path", "Retype", "SplitText"]

Path = tuple[str, ...]
"""Path of a column: its name, or the names of a struct column and of a field."""
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", re.ASCII)


@dataclass(frozen=True, slots=True)
class Retype:
    """A conversion of a column into a new column of another type.

    Attributes:
        to: the new column.
        type: SQL type of the new column, a scalar.
        was: SQL type of the old column, by which the old form is written from the new one.
        format: Spark's pattern of the texts of a DATE or a TIMESTAMP; empty for ISO 8601.
        lenient: whether Spark's cast converts (rounds, trims, completes), and not only what is exactly a value.
        unparsable: what a value without a counterpart becomes: ``refuse`` refuses the rows, ``null`` and ``default``
            write that and count.
        default: the text of the default.
    """

    to: str
    type: str
    was: str = "STRING"
    format: str = ""
    lenient: bool = False
    unparsable: Literal["refuse", "null", "default"] = "refuse"
    default: str = ""

    def __post_init__(self) -> None:
        require_types(self)
        for name, kind in {"type": self.type, "was": self.was}.items():
            if not is_scalar(kind) or kind.strip().upper() == "BINARY":
                raise ConfigError(f"{name} must be a scalar type such as BIGINT, DECIMAL(10, 2) or DATE, not {kind!r}")
        if self.format and self.type.strip().upper() not in ("DATE", "TIMESTAMP"):
            raise ConfigError(f"format must go with the type DATE or TIMESTAMP, not with {self.type}")
        if bool(self.default) != (self.unparsable == "default"):
            raise ConfigError(f"default must be given for unparsable='default' alone, not {self.default!r}")

    def parsed(self, old: str) -> str:
        """Write SQL for the counterpart of an old value; NULL without one."""
        if self.format:
            return f"CAST(try_to_timestamp({old}, {quoted(self.format)}) AS {self.type})"
        return safe_cast(old, self.type) if self.lenient else exact(f"CAST({old} AS STRING)", self.type)

    def written(self, new: str) -> str:
        """Write SQL for the old form of a new value."""
        return f"date_format({new}, {quoted(self.format)})" if self.format else f"CAST({new} AS {self.was})"


@dataclass(frozen=True, slots=True)
class SplitText:
    """A division of a text column into new columns.

    Attributes:
        into: the new columns; the last one takes the rest of the text, and one without a part is NULL.
        by: the text between the parts.
    """

    into: Sequence[str]
    by: str = " "

    def __post_init__(self) -> None:
        require_types(self)
        if len(self.into) < 2:
            raise ConfigError(f"into must be two columns or more, not {list(self.into)}")
        if not self.by:
            raise ConfigError("by must be the text between two parts, not an empty one")


@dataclass(frozen=True, slots=True)
class Form:
    """One move as SQL.

    Attributes:
        olds: columns or fields that go.
        news: new column -> SQL over the old form.
        back: old column or field -> SQL over the new form.
        pairs: values that are equal if the forms agree: SQL over the new form, SQL over the old form.
        unparsable: SQL that is true of a value without a counterpart; empty if each has one.
        refuses: whether such a value refuses the rows.
        what: the move in words.
    """

    olds: tuple[Path, ...]
    news: Mapping[str, str]
    back: Mapping[Path, str]
    pairs: tuple[tuple[str, str], ...]
    what: str
    unparsable: str = ""
    refuses: bool = False

    @property
    def no_new(self) -> str:
        """SQL predicate of rows without new values."""
        return " AND ".join(f"{new} IS NULL" for new, _ in self.pairs) or "true"

    @property
    def no_old(self) -> str:
        """SQL predicate of rows without old values."""
        return " AND ".join(f"{sql_of(old)} IS NULL" for old in self.olds)

    @property
    def differs(self) -> str:
        """SQL predicate of rows with different old and new values; NULL equals NULL."""
        return " OR ".join(f"NOT ({new} <=> {old})" for new, old in self.pairs) or "false"

    @property
    def label(self) -> str:
        """The old columns, for names of audits."""
        return "_".join(".".join(old) for old in self.olds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """Migration of a table's schema: moves of columns, with a grace period for readers of the old columns.

    Attributes:
        name: name of the migration, unique in the table.
        rename: column -> new column.
        retype: column -> new column of another type.
        split: text column -> new columns with its parts.
        nest: new struct column -> its field -> the column that becomes it.
        lift: field of a struct column (``device.os``) -> new column.
        drop: columns that go without a new form.
        grace_days: days from the moment both forms are complete to the deadline of the old one.
        consumers: consumer -> old columns that it still reads, by its own word; whoever has moved on is taken out.

    Raises:
        ConfigError: without a move, or for a column that two moves name.
    """

    name: str
    rename: Mapping[str, str] = field(default_factory=dict)
    retype: Mapping[str, Retype] = field(default_factory=dict)
    split: Mapping[str, SplitText] = field(default_factory=dict)
    nest: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    lift: Mapping[str, str] = field(default_factory=dict)
    drop: Sequence[str] = ()
    grace_days: int = 30
    consumers: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        require_types(self)
        if not _NAME.fullmatch(self.name):
            raise ConfigError(f"name must be of letters, digits, '_', '-' and '.', not {self.name!r}")
        if self.grace_days < 0:
            raise ConfigError(f"grace_days must be 0 or more, not {self.grace_days}")
        if wrong := [path for path in self.lift if len(path.split(".")) != 2 or not all(path.split("."))]:
            raise ConfigError(f"lift must name a field of a struct column, such as device.os, not {wrong[0]!r}")
        if wrong := [struct for struct, fields in self.nest.items() if not fields]:
            raise ConfigError(f"nest must name fields of {wrong[0]!r}, not none")
        named = [".".join(old) for form in self.forms for old in form.olds] + [*self.new_columns]
        if not named:
            raise ConfigError(f"the migration {self.name} must have a move, not none")
        if twice := [n for n in named if [each.lower() for each in named].count(n.lower()) > 1]:
            raise ConfigError(f"{twice[0]} must be in one place of one move, not in two")
        if ours := reserved(self.new_columns):
            raise ConfigError(f"a new column must have a name that is not the library's, not {ours[0]}")

    @property
    def forms(self) -> tuple[Form, ...]:
        """The moves as SQL."""
        return tuple(_forms(self))

    @property
    def new_columns(self) -> tuple[str, ...]:
        """The new columns, in order."""
        return tuple(name for form in _forms(self) for name in form.news)

    @property
    def old_columns(self) -> tuple[Path, ...]:
        """Removed columns and fields, in order."""
        return tuple(old for form in _forms(self) for old in form.olds)

    @property
    def audits(self) -> tuple[Audit, ...]:
        """The audits of rows that hold both forms, for the target of each write in the grace period."""
        found = []
        for form in self.forms:
            if form.pairs:
                found.append(Audit.none_where(f"{form.label}_is_equal_in_both_forms", form.differs))
            if form.unparsable:
                count, bound = f"count_if({form.unparsable})", "fail_above" if form.refuses else "warn_above"
                name = f"{form.label}_has_only_parsable_values"
                found.append(Audit(name=name, sql=count, where=form.unparsable, **{bound: 0}))  # type: ignore[arg-type]
        return tuple(found)

    @property
    def moves(self) -> dict[str, Any]:
        """The moves as plain values, without consumers and grace period, which may change meanwhile."""
        kinds = ("rename", "retype", "split", "nest", "lift", "drop")
        return {kind: found for kind, found in asdict(self).items() if kind in kinds and found}

    def steps(self, table: str) -> str:
        """Describe the migration of ``table`` step by step, for whoever tried to rename or drop at once."""
        moves = [form.what for form in self.forms]
        old = ", ".join(".".join(each) for each in self.old_columns)
        phases = (
            f"declared: tell whoever reads {old} of {table}",
            f"added: add {', '.join(self.new_columns) or 'nothing'} beside them, and let each write fill both forms",
            "both: fill stored partitions one by one, and compare old with new on all rows",
            f"switched: once nobody reads {old} any more, by lineage and by the consumers' word",
            f"removed: {self.grace_days} days after both forms were complete, take {old} out of the schema",
        )
        lines = [f"{number}. {text}" for number, text in enumerate(phases, 1)]
        return "\n".join([f"{table}: migration {self.name} in phases ({'; '.join(moves)})", *lines])


def sql_of(path: Path) -> str:
    """Write a column or a field as SQL."""
    return ".".join(map(identifier, path))


def _forms(migration: Migration) -> Iterator[Form]:
    for old, new in migration.rename.items():
        yield _renamed((old,), new, f"{old} is renamed to {new}")
    for old, rule in migration.retype.items():
        yield _retyped(old, rule)
    for old, rule_ in migration.split.items():
        yield _split(old, rule_)
    for struct, fields in migration.nest.items():
        yield _nested(struct, fields)
    by_struct: dict[str, dict[Path, str]] = {}
    for path, new in migration.lift.items():
        struct, _, name = path.partition(".")
        by_struct.setdefault(struct, {})[(struct, name)] = new
    for struct, lifted in by_struct.items():
        pairs = tuple((identifier(new), sql_of(old)) for old, new in lifted.items())
        news = {new: sql_of(old) for old, new in lifted.items()}
        back = {old: identifier(new) for old, new in lifted.items()}
        yield Form(tuple(lifted), news, back, pairs, f"{', '.join(news)} moves out of {struct}")
    for old in migration.drop:
        yield Form(((old,),), {}, {}, (), f"{old} is dropped")


def _renamed(old: Path, new: str, what: str) -> Form:
    return Form((old,), {new: sql_of(old)}, {old: identifier(new)}, ((identifier(new), sql_of(old)),), what)


def _retyped(old: str, rule: Retype) -> Form:
    before, new, parsed = identifier(old), identifier(rule.to), rule.parsed(identifier(old))
    unparsable = f"{before} IS NOT NULL AND {parsed} IS NULL"
    value = parsed
    if rule.unparsable == "default":
        value = f"coalesce({parsed}, if({before} IS NULL, NULL, CAST({quoted(rule.default)} AS {rule.type})))"
    what = f"{old} becomes {rule.to}, a {rule.type}"
    back: dict[Path, str] = {(old,): rule.written(new)}
    return Form(((old,),), {rule.to: value}, back, ((new, value),), what, unparsable, rule.unparsable == "refuse")


def _split(old: str, rule: SplitText) -> Form:
    parts = f"split({identifier(old)}, {quoted(re.escape(rule.by))}, {len(rule.into)})"
    news = {name: f"get({parts}, {place})" for place, name in enumerate(rule.into)}
    columns = [identifier(name) for name in rule.into]
    joined = f"concat_ws({quoted(rule.by)}, {', '.join(columns)})"
    back: dict[Path, str] = {(old,): f"if({' AND '.join(f'{each} IS NULL' for each in columns)}, NULL, {joined})"}
    pairs = tuple((identifier(name), sql) for name, sql in news.items())
    return Form(((old,),), news, back, pairs, f"{old} is divided into {', '.join(rule.into)}")


def _nested(struct: str, fields: Mapping[str, str]) -> Form:
    members = ", ".join(f"{quoted(name)}, {identifier(old)}" for name, old in fields.items())
    nothing = " AND ".join(f"{identifier(old)} IS NULL" for old in fields.values())
    back: dict[Path, str] = {(old,): sql_of((struct, name)) for name, old in fields.items()}
    pairs = tuple((sql_of((struct, name)), identifier(old)) for name, old in fields.items())
    news = {struct: f"if({nothing}, NULL, named_struct({members}))"}
    what = f"{', '.join(fields.values())} move into {struct}"
    return Form(tuple((old,) for old in fields.values()), news, back, pairs, what)
