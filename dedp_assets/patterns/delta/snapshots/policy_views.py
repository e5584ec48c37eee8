"""Policies in the SQL of DataFusion: masks, filters of rows, and the policy by classes of columns.

A mask shows the same value here as in Spark. Predicates of policies are Spark SQL: one that the two engines may read in
two ways is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from dedp_assets.patterns.core.classes import Place
from dedp_assets.patterns.core.column import Column
from dedp_assets.patterns.core.columns import spelled_as
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.masking import Mask, MaskingKey, padded
from dedp_assets.patterns.core.policies import ALL_ROWS, ColumnMask, Policy
from dedp_assets.patterns.core.schema import DECLARED
from dedp_assets.patterns.core.sql.predicates import is_sound
from dedp_assets.patterns.core.types.exact import is_scalar
from dedp_assets.patterns.core.types.exact_values import reader_of
from dedp_assets.patterns.core.types.partitions import sql_type
from dedp_assets.patterns.delta.log.ledger import Ledger
from dedp_assets.patterns.delta.log.table_state import TableState
from dedp_assets.patterns.delta.snapshots.stored_spec import stored_spec

__all__ = ["BARRIER", "HIDDEN", "in_partition", "literal", "named", "policy_by_class", "query", "select_shown"]

HIDDEN = "***"
"""Text in place of a text that is not shown."""
BARRIER = "LIMIT 9223372036854775807"
"""A limit that no rows reach, and below which the engine evaluates no filter that stands above."""
_TYPES: Mapping[str, str] = {
    "string": "Utf8",
    "byte": "Int8",
    "short": "Int16",
    "integer": "Int32",
    "long": "Int64",
    "float": "Float32",
    "double": "Float64",
    "boolean": "Boolean",
    "date": "Date32",
    "timestamp": 'Timestamp(Microsecond, Some("UTC"))',
    "timestamp_ntz": "Timestamp(Microsecond, None)",
}
_PIECE = re.compile(r"(?P<text>'[^']*')|`(?P<quoted>(?:[^`]|``)+)`|(?P<word>[A-Za-z_]\w*)")
_DIFFERENT = (
    re.compile(r"\d\.\d|<=>"),
    # DataFusion 55 takes NULL for false where lists of one column meet: NOT (n IN (0) AND n IN (1)).
    re.compile(r"(?=.*\bNOT\b).*\bIN\b.*\bIN\b", re.IGNORECASE | re.DOTALL),
)
"""What Spark and DataFusion may read in two ways, also in a predicate that is sound."""
_INEXACT = ("float", "double")


def policy_by_class(ledger: Ledger, state: TableState, *, place: Place, audience: str) -> Policy:
    """Return the policy of a table for readers without one of their own: all rows, and masks by class.

    A version of the past is read by the classes of today and its own: of a column that has another name since, too.

    Args:
        ledger: the table's ledger.
        state: the version that is read.
        place: where the values come to, as in the table of ``core.classes``.
        audience: what messages call the readers.

    Raises:
        ContractError: if the classes in the log cannot be read.
    """
    hidden = _hidden(ledger.name, state, place) | _hidden(ledger.name, ledger.state(), place)
    masks = {
        name: ColumnMask("constant", HIDDEN) if field["type"] == "string" else ColumnMask("null")
        for name, field in state.columns.items()
        if hidden & _identities(name, field)
    }
    return Policy(audience, [*state.columns], masks, ALL_ROWS)


def select_shown(state: TableState, policy: Policy, key: MaskingKey | None, *, rows: str, of: str) -> str:
    """Write the query of the rows, columns and masked values that a policy shows.

    Args:
        state: the table.
        policy: the policy.
        key: key of hashes.
        rows: SQL of all rows.
        of: what messages call the table.

    Raises:
        ConfigError: for columns that are gone, a mask that the type of its column does not allow, a hash without a key,
            and a predicate that only Spark evaluates.
    """
    whose = f"the policy of {policy.audience} for {of}"
    columns = spelled_as(state.columns, policy.columns)
    if gone := [column for column in columns if column not in state.columns]:
        raise ConfigError(f"{whose} names {', '.join(gone)}, which {of} does not have: take it out of the policy")
    shown = ", ".join(f"{_shown(name, state, policy, key, whose)} AS {named(name)}" for name in columns)
    filtered = () if policy.rows == ALL_ROWS else ("WHERE", _truth(policy.rows or "false", state, whose), BARRIER)
    return query(shown, rows, *filtered)


def in_partition(partition: Mapping[str, str | None], state: TableState) -> Iterator[str]:
    """Yield the conditions of a partition in the log's spelling."""
    for name, value in partition.items():
        yield f"{named(name)} IS NULL" if value is None else f"{named(name)} = {_constant(value, state.kinds[name])}"


def query(shown: str, rows: str, *rest: str) -> str:
    """Write a query of expressions over rows."""
    return " ".join(("SELECT", shown, "FROM", rows, *rest))


def named(name: str) -> str:
    """Write a name as a quoted identifier of standard SQL."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """Write a text as a literal of standard SQL."""
    return "'" + text.replace("'", "''") + "'"


def _hidden(table: str, state: TableState, place: Place) -> set[str]:
    """Return the identities of columns whose values may not come to a place."""
    if DECLARED not in state.properties:  # a table of other tools: nobody classified its columns
        return set()
    columns: Mapping[str, Column] = stored_spec(table, state).columns
    fields = state.columns.items()
    return {each for name, field in fields if not columns[name].shows(place) for each in _identities(name, field)}


def _identities(name: str, field: Mapping[str, Any]) -> set[str]:
    """Return the name of a column, case aside, and the name in the files, which a renamed column keeps."""
    physical = field.get("metadata", {}).get("delta.columnMapping.physicalName")
    return {name.lower(), *([f"in files {physical}"] if physical else [])}


def _shown(name: str, state: TableState, policy: Policy, key: MaskingKey | None, whose: str) -> str:
    value, mask = named(name), policy.mask_of(name)
    if mask is None:
        return value
    masked = _masked(name, state.columns[name]["type"], mask, key and key.of(policy.audience), whose)
    unless = f"WHEN {_truth(mask.unless, state, whose)} THEN {value} " if mask.unless else ""
    return f"CASE {unless}WHEN {masked} END"


def _masked(name: str, kind: Any, mask: ColumnMask, key: MaskingKey | None, whose: str) -> str:  # noqa: ANN401 - a type in Spark's JSON form
    """Write conditions and values of a mask, as the branches of a CASE; NULL stays NULL."""
    value = named(name)
    if mask.by == "null":
        return f"false THEN {value}"
    if mask.by == "constant":
        if not _is_value(mask.value, kind):
            raise ConfigError(f"{whose} masks {name} by {mask.value!r}, which is no {_called(kind)}: state one")
        return f"{value} IS NOT NULL THEN {_constant(mask.value, kind)}"
    if kind != "string":
        raise ConfigError(
            f"{whose} masks {name} by {mask.by}, which takes a text and no {_called(kind)}: mask by null or a constant"
        )
    if mask.by == "partial":
        return f"character_length({value}) >= 6 THEN substr({value}, 1, 3) || '***' WHEN {value} IS NOT NULL THEN '***'"
    if mask.by == "hash":
        if key is None:
            raise ConfigError(f"key must be given for the hash of {name} in {whose}, not None")
        return f"{value} IS NOT NULL THEN {_hashed(value, key, mask.value or name.lower())}"
    form = Mask(mask.value)
    pattern = form.pattern(r"\x{{{:x}}}")
    like, begun = literal(rf"\A(?:{pattern})\z"), literal(form.hidden[: form.shown_from])
    made = f"{begun} || substr({value}, {form.shown_from + 1})"
    return f"regexp_like({value}, {like}) THEN {made} WHEN {value} IS NOT NULL THEN {literal(form.hidden)}"


def _hashed(value: str, key: MaskingKey, of: str) -> str:
    """Write the keyed hash of a text, equal to :func:`~dedp_assets.patterns.core.masking.pseudonym`."""
    inner, outer = (f"X'{each.hex()}'" for each in padded(key, f"{of}\x1f"))
    return f"encode(sha256({outer} || sha256({inner} || arrow_cast({value}, 'Binary'))), 'hex')"


def _truth(predicate: str, state: TableState, whose: str) -> str:
    """Write a predicate of a policy with the table's names; refuse a predicate for Spark alone."""
    kinds = {name: field["type"] for name, field in state.columns.items() if field["type"] not in _INEXACT}
    spelling = {name.lower(): name for name in state.columns}
    alone = kinds.get(spelling.get(predicate.strip().strip("`").lower(), "")) == "boolean"
    is_constant = predicate.strip().lower() in ("true", "false")
    if not (alone or is_constant or is_sound(predicate, kinds)) or any(each.search(predicate) for each in _DIFFERENT):
        raise ConfigError(
            f"{whose} has the predicate {predicate}, which only Spark evaluates: read the rows by read_for "
            "(security.fine_grained_accessor_for_tables)"
        )

    def respelled(found: re.Match[str]) -> str:
        name = (found["quoted"] or found["word"] or "").replace("``", "`").lower()
        return found[0] if found["text"] or name not in spelling else named(spelling[name])

    return f"({_PIECE.sub(respelled, predicate)})"


def _is_value(text: str, kind: object) -> bool:
    """Return whether a text is a value of a stored type."""
    if kind == "string":
        return True
    if not isinstance(kind, str) or not is_scalar(sql_type(kind)) or kind == "binary":
        return False
    return reader_of(sql_type(kind).lower(), zone="UTC")(text) is not None


def _constant(value: str, kind: str) -> str:
    sized = kind.removeprefix("decimal")
    return f"arrow_cast({literal(value)}, {literal(_TYPES.get(kind) or f'Decimal128{sized}')})"


def _called(kind: Any) -> str:  # noqa: ANN401 - as above
    return sql_type(kind) if isinstance(kind, str) else str(kind.get("type", "")).upper()
