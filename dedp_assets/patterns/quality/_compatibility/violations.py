"""Violations: rules of a table and of foreign keys, and the broken rules of each row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from dedp_assets.patterns.core.columns import require_free, require_rows, spelled_as
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.names import OUTCOME, RESERVED, identifier, select_list
from dedp_assets.patterns.core.results import Split
from dedp_assets.patterns.core.rows import quoted
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.core.sql.sql_options import require_repeatable
from dedp_assets.patterns.core.types.exact import exact, is_scalar
from dedp_assets.patterns.core.types.meeting import as_held, fits
from dedp_assets.patterns.core.types.partitions import equals
from dedp_assets.patterns.core.types.sql_types import spelled
from dedp_assets.patterns.delta import Table, TableState, conformed, constraints, held_types
from dedp_assets.patterns.quality._compatibility.references import Bound, is_orphan, with_parents, with_unknown

__all__ = ["VIOLATION", "Marked", "mark", "samples"]

VIOLATION: Mapping[str, Column] = {
    "violations": Column("ARRAY<STRING>", "names of the broken rules, in the order of the table's declaration"),
    "misfits": Column(
        "MAP<STRING, STRING>", "column -> text that is no value of the column's type", classification="personal"
    ),
}
"""Additional columns of a quarantine table: broken rules, and texts that are no values of their column's type."""

_MISFITS, _VALUE, _RULE = (f"{RESERVED}{name}" for name in ("misfits", "value", "rule"))
_NO_TEXTS = "CAST(map() AS MAP<STRING, STRING>)"
_SAMPLES = 3


@dataclass(frozen=True, slots=True)
class Marked:
    """Rows with the names of the broken rules of each row.

    Attributes:
        split: ``valid`` rows, and those with ``violations``.
        rules: every rule by name -> SQL predicate of the rows that break it.
        shown: foreign key -> columns that a sample shows of an orphan.
    """

    split: Split
    rules: Mapping[str, str]
    shown: Mapping[str, Sequence[str]]


def mark(
    rows: DataFrame, table: Table, state: TableState, references: Sequence[Bound], owned: Mapping[str, str]
) -> Marked:
    """Mark each row with all rules of the table at ``state`` that the row breaks; lazy.

    Raises:
        ConfigError: for a column named as one of :data:`VIOLATION`, two rules of one name, or a rule that says
            something else each time.
        SchemaMismatch: for missing, unknown and differently typed columns.
    """
    require_rows(f"{table.name}: constraints", rows)
    require_free(rows, *VIOLATION)
    held = held_types(state)
    converted = _converted(rows, held)
    typed = _typed(rows, converted)
    conformed(table.name, typed.drop(_MISFITS), state)  # refuses by name what no conversion can mend
    typed = with_unknown(with_parents(as_held(typed, held, table.name), references), references)
    rules = {**_types(converted), **_constraints(table.name, state, converted), **_keys(table.spec)}
    rules |= {f"lies_in_{c}={v}": f"NOT ({equals(c, v, state.kinds[c])})" for c, v in owned.items()}
    _require_own_names(table.name, [*rules, *(each.name for each in references)])
    rules |= {each.name: is_orphan(number, each) for number, each in enumerate(references) if each.orphans != "unknown"}
    require_repeatable(typed, "constraint", rules)
    columns = tuple(state.columns)
    found = ", ".join(f"if({broken}, {quoted(name)}, NULL)" for name, broken in rules.items())
    broken = f"array_compact(array({found}))" if rules else "CAST(array() AS ARRAY<STRING>)"
    flagged = typed.selectExpr(*map(identifier, columns), *select_list({"violations": broken, "misfits": _MISFITS}))
    outcome = F.expr("if(size(violations) = 0, 'valid', 'violations')").alias(OUTCOME)
    split = Split(flagged.select("*", outcome), {"valid": columns, "violations": (*columns, *VIOLATION)})
    return Marked(split, rules, {each.name: tuple(each.keys) for each in references})


def samples(refused: DataFrame, spec: TableSpec, shown: Mapping[str, Sequence[str]]) -> str:
    """Write up to three different samples of each broken rule, without withheld columns; runs a job.

    A sample is a row's declared key, of a table without one the whole row, and of a foreign key its columns.

    Args:
        refused: rows with violations.
        spec: declaration of the table.
        shown: rule -> columns to show instead.
    """
    public = [name for name, column in spec.columns.items() if column.shows("sample")]
    keys = [name for name in spec.key if name in public] or public
    texts = {
        rule: _text([c for c in spelled_as(spec.columns, columns) if c in public]) for rule, columns in shown.items()
    }
    cases = " ".join(f"WHEN {_RULE} = {quoted(rule)} THEN {text}" for rule, text in texts.items())
    sample = f"CASE {cases} ELSE {_text(keys)} END" if cases else _text(keys)
    named = refused.select("*", F.explode("violations").alias(_RULE))
    each = named.selectExpr(f"{_RULE} AS rule", f"{sample} AS sample")
    place = F.row_number().over(Window.partitionBy("rule").orderBy("sample")).alias("place")
    found = each.distinct().select("*", place).filter(f"place <= {_SAMPLES}").orderBy("rule", "place").collect()
    by_rule: dict[str, list[str]] = {}
    for row in found:
        by_rule.setdefault(row["rule"], []).append(row["sample"])
    return "; ".join(f"{rule}: {', '.join(texts)}" for rule, texts in by_rule.items())


def _require_own_names(table: str, names: Sequence[str]) -> None:
    """Refuse two rules of the same name, whose counts would be added."""
    if twice := [name for name, times in Counter(names).items() if times > 1]:
        raise ConfigError(f"{table}: references must have names of their own, not {', '.join(twice)}")


def _converted(rows: DataFrame, held: T.StructType) -> dict[str, str]:
    """Return column -> SQL type of the columns whose values are converted one by one."""
    given = {f.name.lower(): f.dataType for f in rows.schema.fields}
    pairs = {f.name: (given[f.name.lower()], f.dataType) for f in held.fields if f.name.lower() in given}
    return {name: spelled(kind) for name, (one, kind) in pairs.items() if _is_read(one, kind)}


def _is_read(given: T.DataType, held: T.DataType) -> bool:
    """Return whether each value is converted exactly: texts of scalars, and decimals that may be too long."""
    if isinstance(given, T.StringType):
        return not isinstance(held, T.StringType) and is_scalar(spelled(held))
    decimals = isinstance(given, T.DecimalType) and isinstance(held, T.DecimalType)
    return decimals and not fits(given, held)


def _typed(rows: DataFrame, converted: Mapping[str, str]) -> DataFrame:
    """Convert the named columns exactly, and keep the texts without a value of the type; lazy."""
    if not converted:
        return rows.selectExpr("*", f"{_NO_TEXTS} AS {_MISFITS}")
    texts = {name: f"CAST({identifier(name)} AS STRING)" for name in converted}
    values = {f"{_VALUE}{n}": exact(texts[name], kind) for n, (name, kind) in enumerate(converted.items())}
    by_name = dict(zip((name.lower() for name in converted), values, strict=True))
    missing = ", ".join(
        f"{quoted(name)}, if({value} IS NULL, {texts[name]}, NULL)"
        for name, value in zip(converted, values, strict=True)
    )
    misfits = f"map_filter(map({missing}), (c, t) -> t IS NOT NULL)"
    shown = {c: by_name.get(c.lower(), identifier(c)) for c in rows.columns}
    return rows.selectExpr("*", *select_list(values)).selectExpr(*select_list({**shown, _MISFITS: misfits}))


def _types(converted: Mapping[str, str]) -> dict[str, str]:
    return {f"{name}_is_a_{kind}": f"{_MISFITS}[{quoted(name)}] IS NOT NULL" for name, kind in converted.items()}


def _constraints(table: str, state: TableState, converted: Mapping[str, str]) -> dict[str, str]:
    """Return the table's constraints: name -> SQL predicate of violating rows.

    NULL satisfies no constraint. A misfit became NULL: it breaks the rule of its type, and no rule because it is NULL.
    """
    misfit = {name: f"{_MISFITS}[{quoted(name)}] IS NOT NULL" for name in converted}
    found = {}
    for name, rule in constraints(table, state).items():
        unclear = [sql for column, sql in misfit.items() if column.lower() in rule.lower()]
        found[name] = f"NOT coalesce({rule}, {' OR '.join(unclear) or 'false'})"
    for column, sql in misfit.items():
        if (rule := f"{column}_is_not_null") in found:
            found[rule] = f"NOT ({sql}) AND {found[rule]}"
    return found


def _keys(spec: TableSpec) -> dict[str, str]:
    """Return the rule of the declared key: NOT NULL and unique."""
    keys = [identifier(key) for key in spec.key]
    missing = " OR ".join(f"{key} IS NULL" for key in keys)
    several = f"count(1) OVER (PARTITION BY {', '.join(keys)}) > 1"
    return {f"{'_'.join(spec.key)}_is_a_key": f"({missing} OR {several})"} if keys else {}


def _text(columns: Sequence[str]) -> str:
    """Write the SQL text of the named columns as JSON."""
    return f"to_json(struct({', '.join(map(identifier, columns))}))" if columns else "'withheld values'"
