"""Merge clauses as data, in order of evaluation.

Of the clauses for rows that both sides have (``Update``, ``Delete``), and of those for rows that only the source has
(``Insert``), the first whose condition is true decides about a row. A condition that is NULL is not true. Conditions
and values are SQL over ``t`` (the table's row) and ``s`` (the source's row); an ``Insert`` knows ``s`` only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import BooleanType, DataType, NullType, StructType

from dedp_assets.patterns.core.columns import COMPARED, require_columns
from dedp_assets.patterns.core.errors import ConfigError, SchemaMismatch
from dedp_assets.patterns.core.keys import require_distinct
from dedp_assets.patterns.core.names import OUTCOME, RESERVED, identifier
from dedp_assets.patterns.core.sql.sql_options import one_value, reason_of, require_repeatable
from dedp_assets.patterns.core.types.meeting import as_held, fits
from dedp_assets.patterns.core.types.sql_types import spelled, with_texts
from dedp_assets.patterns.delta.log.table_state import TableState
from dedp_assets.patterns.delta.snapshots.definition import held_types
from dedp_assets.patterns.delta.snapshots.reading import predicate

__all__ = ["Clause", "Delete", "Insert", "Merge", "Update", "check_condition", "no_rows"]

TAKEN = f"{RESERVED}clause"
IN_TABLE = f"{RESERVED}in_table"
IN_SOURCE = f"{RESERVED}in_source"


@dataclass(frozen=True, slots=True)
class Update:
    """A clause that sets columns of a matched row.

    Attributes:
        values: column -> SQL; ``None`` sets every column to the source's column of the same name.
        when: SQL condition; empty takes every row that no earlier clause took.
    """

    values: Mapping[str, str] | None = None
    when: str = ""


@dataclass(frozen=True, slots=True)
class Delete:
    """A clause that deletes a matched row.

    Attributes:
        when: SQL condition; empty takes every row that no earlier clause took.
    """

    when: str = ""


@dataclass(frozen=True, slots=True)
class Insert:
    """A clause that inserts a source row without a match.

    Attributes:
        values: column -> SQL over ``s``, NULL for columns that are not named; ``None`` takes the source's columns.
        when: SQL condition over ``s``; empty takes every row that no earlier clause took.
    """

    values: Mapping[str, str] | None = None
    when: str = ""


Clause = Update | Delete | Insert


@dataclass(frozen=True, slots=True)
class Merge:
    """Keys, clauses and condition of a merge.

    Attributes:
        keys: columns of both sides by which a row of the source is a row of the table; one source row for each key.
        clauses: what becomes of rows that both sides have (``Update``, ``Delete``) and of rows that only the source has
            (``Insert``): the first clause whose condition is true takes a row.
        on: further SQL condition over ``t`` and ``s`` for rows to match.
        null_keys: whether NULL in a key is a value like any other; otherwise such a row matches nothing, as in SQL.
        unusable: what is wrong with a row of the source -> SQL that is true of such a row; one of them, and nothing is
            merged.
        whole: whether the source is all that the partition holds, so that a row which meets none of it is removed.
        allow_empty: whether a source without rows may remove them, with a warning.
        owned: partition values that every row lies in, before and after; the table sets them.
        declared: the key that the table declares; the table sets it.
    """

    keys: Sequence[str]
    clauses: Sequence[Clause]
    on: str = ""
    null_keys: bool = False
    unusable: Mapping[str, str] = field(default_factory=dict)
    whole: bool = False
    allow_empty: bool = False
    owned: Mapping[str, str] = field(default_factory=dict)
    declared: Sequence[str] = ()

    @property
    def matched(self) -> dict[int, Update | Delete]:
        """Clauses for matched rows, by position."""
        return {n: clause for n, clause in enumerate(self.clauses) if not isinstance(clause, Insert)}

    @property
    def inserts(self) -> dict[int, Insert]:
        """Clauses for source rows without a match, by position."""
        return {n: clause for n, clause in enumerate(self.clauses) if isinstance(clause, Insert)}

    @property
    def only_deletes(self) -> bool:
        """Return whether no clause brings or changes a row."""
        return all(isinstance(clause, Delete) for clause in self.clauses)

    @property
    def takes_columns(self) -> bool:
        """Return whether a clause copies all columns of the source, partition columns included."""
        return any(not isinstance(clause, Delete) and clause.values is None for clause in self.clauses)

    @property
    def reaches_out(self) -> bool:
        """Return whether rows outside of the owned partition may have a key of the source.

        A declared key is unique in the whole table, so the other partitions are searched for the source's keys, too.
        """
        return bool(self.declared) and not {*map(str.lower, self.owned)} <= {*map(str.lower, self.declared)}

    @property
    def condition(self) -> str:
        """Write the SQL condition for a match of two rows."""
        same = "<=>" if self.null_keys else "="
        pairs = [f"t.{identifier(key)} {same} s.{identifier(key)}" for key in self.keys]
        return " AND ".join([*pairs, *([f"({self.on})"] if self.on else [])])

    def taken(self, clauses: Mapping[int, Clause]) -> str:
        """Write SQL for the position of the first of ``clauses`` that takes a row; NULL if none."""
        branches = [f"WHEN {clause.when or 'true'} THEN {n}" for n, clause in clauses.items()]
        return f"CASE {' '.join(branches)} END" if branches else "CAST(NULL AS INT)"

    def assigned(self, number: int, columns: Sequence[str]) -> dict[str, str]:
        """Map each column to the SQL assigned by the clause at ``number``; empty for a deletion."""
        clause = self.clauses[number]
        if isinstance(clause, Delete):
            return {}
        if clause.values is None:
            return {column: f"s.{identifier(column)}" for column in columns}
        known = {column.lower(): column for column in columns}
        return {known[column.lower()]: sql for column, sql in clause.values.items()}

    def statement(self, table: str, state: TableState) -> str:
        """Write the same merge as Delta's SQL, into ``table`` from a source ``{s}``; other braces are doubled."""
        ordered = [*self.matched.values(), *self.inserts.values()]
        clauses = " ".join(_sql(clause) for clause in ordered)
        owned = predicate(self.owned, state, "t.")
        clauses += f" WHEN NOT MATCHED BY SOURCE AND {owned} THEN DELETE" if self.whole else ""
        condition = f"{self.condition} AND {owned}"
        asked = f"{condition} {clauses}".replace("{", "{{").replace("}", "}}")
        return f"MERGE INTO {table} t USING {{s}} s ON {asked}"

    def checked(self, table: str, state: TableState, source: DataFrame) -> DataFrame:
        """Validate keys and clauses by analysis only, and return the source with the table's types; lazy.

        Returns:
            The source with its keys, and all columns that clauses take as they are, in the types of the table.

        Raises:
            ConfigError: without keys or clauses, for clauses that never get a row, unknown columns, or SQL that Spark
                cannot analyse.
            SchemaMismatch: if a column would get values of another type.
        """
        known = {key.lower() for key in self.keys}
        held = [f for f in held_types(state).fields if self.takes_columns or f.name.lower() in known]
        source = as_held(source, StructType(held), table)
        _check_shape(table, self, state, source)
        both = no_rows(source.sparkSession, state).alias("t").join(source.alias("s"))
        for clauses, rows in ((self.matched, both), (self.inserts, source.alias("s"))):
            _check_types(table, self, clauses, rows, state)
        check_condition(table, both, self.condition)
        for fault in self.unusable.values():
            check_condition(table, source, fault)
        return source


def no_rows(session: SparkSession, state: TableState) -> DataFrame:
    """Make an empty frame with the columns of a table, for the analysis of SQL."""
    return session.createDataFrame([], held_types(state))


def check_condition(table: str, rows: DataFrame, condition: str) -> None:
    """Refuse a text other than a deterministic SQL condition over ``rows``.

    Raises:
        ConfigError: if Spark cannot analyse it, or it is not true or false, or not the same each time.
    """
    if not isinstance(kind := _analysed(table, rows, [condition])[condition], BooleanType):
        raise ConfigError(f"{table}: {condition} is no condition, its type is {spelled(kind)}")
    # It is asked twice: which files hold such a row, and which row is one.
    require_repeatable(rows, f"{table}:", {"a condition": condition})


def _check_shape(table: str, merge: Merge, state: TableState, source: DataFrame) -> None:
    given, known = {c.lower() for c in source.columns}, {c.lower() for c in state.columns}
    if isinstance(merge.keys, str):
        raise ConfigError(f"{table}: keys must be a list of columns, not {merge.keys!r}")
    if not merge.keys or not merge.clauses:
        raise ConfigError(f"a merge into {table} needs at least one key and one clause")
    if missing := [key for key in merge.keys if key.lower() not in given & known]:
        raise ConfigError(f"{table}: the keys {missing} are not columns of both the table and the source")
    if taken := [c for c in source.columns if c.lower() in (TAKEN, IN_TABLE, IN_SOURCE, OUTCOME)]:
        raise ConfigError(f"{table}: source columns {taken} have names that belong to the library: rename them")
    require_distinct(f"{table}: keys=", merge.keys)
    require_columns(source, merge.keys, COMPARED)
    for clauses in (merge.matched, merge.inserts):
        _check_order(table, clauses)
    _check_values(table, merge, known, given)
    _check_identities(table, merge, state)


def _check_values(table: str, merge: Merge, known: set[str], given: set[str]) -> None:
    for clause in merge.clauses:
        values = None if isinstance(clause, Delete) else clause.values
        require_distinct(f"{table}: a clause", values or ())
        if unknown := [column for column in values or () if column.lower() not in known]:
            raise ConfigError(
                f"{table} has no column {', '.join(name or repr(name) for name in unknown)}, which a clause sets"
            )
        if not isinstance(clause, Delete) and values is None and (missing := sorted(known - given)):
            raise SchemaMismatch(f"{table}: the source has no column {', '.join(missing)}: name the values to set")


def _check_identities(table: str, merge: Merge, state: TableState) -> None:
    """Refuse clauses that set an IDENTITY column."""
    for number, clause in enumerate(merge.clauses):
        # Of some tables, an insert may say the number.
        fixed = [c for c, may_say in state.identities.items() if not (may_say and isinstance(clause, Insert))]
        if counted := sorted({*fixed} & {*merge.assigned(number, list(state.columns))}):
            raise ConfigError(
                f"{table} counts {', '.join(counted)} by itself (IDENTITY), and a merge cannot "
                f"{'insert' if isinstance(clause, Insert) else 'update'} such a column: name the values to set"
            )


def _check_order(table: str, clauses: Mapping[int, Clause]) -> None:
    first = next((number for number, clause in clauses.items() if not clause.when), None)
    late = [clause for number, clause in clauses.items() if first is not None and number > first]
    if late:
        raise ConfigError(f"{table}: {late[0]} never gets a row: a clause before it has no condition")


def _check_types(table: str, merge: Merge, clauses: Mapping[int, Clause], rows: DataFrame, state: TableState) -> None:
    columns = list(state.columns)
    named = [(column, sql) for n in clauses for column, sql in merge.assigned(n, columns).items()]
    conditions = [clause.when for clause in clauses.values() if clause.when]
    found = _analysed(table, rows, list(dict.fromkeys(sql for _, sql in named)))
    held = held_types(state)
    problems = [
        f"{column} would become {spelled(found[sql])}, the table has {spelled(held[column].dataType)}: cast {sql}"
        for column, sql in named
        if not fits(found[sql], held[column].dataType) or not _in_order(found[sql], held[column].dataType)
    ]
    if problems:
        raise SchemaMismatch(f"{table}: {'; '.join(dict.fromkeys(problems))}")
    for condition in conditions:
        check_condition(table, rows, condition)


def _analysed(table: str, rows: DataFrame, expressions: Sequence[str]) -> dict[str, DataType]:
    """Map SQL expressions to data types, by Spark's analysis."""
    try:
        # Beside the columns of a row, an aggregate of all rows is refused as well.
        made = [f"{one_value(sql)} AS e{n}" for n, sql in enumerate(expressions)]
        fields = rows.selectExpr("*", *made).schema.fields if made else []
    except AnalysisException as error:
        raise ConfigError(f"{table}: {reason_of(error)}") from error
    return {sql: field.dataType for sql, field in zip(expressions, fields[-len(expressions) :], strict=True)}


def _in_order(given: DataType, held: DataType) -> bool:
    """Return whether two types have the same struct fields in the same order: SQL's CAST goes by position."""
    return isinstance(given, NullType) or with_texts(given) == with_texts(held)


def _sql(clause: Clause) -> str:
    head = "WHEN NOT MATCHED" if isinstance(clause, Insert) else "WHEN MATCHED"
    head += f" AND ({clause.when})" if clause.when else ""
    if isinstance(clause, Delete):
        return f"{head} THEN DELETE"
    if clause.values is None:
        return f"{head} THEN {'INSERT' if isinstance(clause, Insert) else 'UPDATE SET'} *"
    columns = ", ".join(map(identifier, clause.values))
    if isinstance(clause, Insert):
        return f"{head} THEN INSERT ({columns}) VALUES ({', '.join(clause.values.values())})"  # noqa: S608 - SQL by contract
    return f"{head} THEN UPDATE SET {', '.join(_settings(clause.values))}"


def _settings(values: Mapping[str, str]) -> Iterator[str]:
    return (f"{identifier(column)} = {sql}" for column, sql in values.items())
