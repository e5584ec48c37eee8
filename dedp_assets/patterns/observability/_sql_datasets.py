"""Datasets that SQL statements read and write, by the text alone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.extras import optional
from dedp_assets.patterns.core.running.lineage import LAKE, Dataset

__all__ = ["SqlDatasets", "datasets_of"]

_LONGEST = 120
_REWRITTEN = (
    (re.compile(r"^(\s*MERGE)\s+WITH\s+SCHEMA\s+EVOLUTION\b", re.IGNORECASE), r"\1"),
    (re.compile(r"^(\s*)REPLACE(\s+TABLE\b)", re.IGNORECASE), r"\1CREATE OR REPLACE\2"),
)
"""Spark's words that sqlglot does not know and that change no lineage."""
_BY_PATH = ("avro", "csv", "delta", "json", "orc", "parquet", "text")
_OWN_CATALOG = "spark_catalog"
_WRITES = ("Create", "Delete", "Insert", "Merge", "Update")
_MOVES_NOTHING = ("Alter", "Analyze", "Comment", "Describe", "Drop", "Refresh", "Set", "TruncateTable", "Use")


@dataclass(frozen=True, slots=True)
class SqlDatasets:
    """Inputs and outputs of SQL statements.

    Attributes:
        inputs: tables and views that are read, without common table expressions and placeholders.
        outputs: tables and views that are written; a query alone has none.
        unparsed: beginning of each statement that says nothing, because it cannot be parsed.
    """

    inputs: tuple[Dataset, ...] = ()
    outputs: tuple[Dataset, ...] = ()
    unparsed: tuple[str, ...] = ()


def datasets_of(text: str, *, dialect: str) -> SqlDatasets:
    """Return the inputs and outputs of the statements in an SQL text.

    A table ``layer.dataset`` is ``layer/dataset`` of the lake, and a path is a file.

    Args:
        text: statements, with semicolons in between.
        dialect: dialect by the name that sqlglot knows.

    Raises:
        ConfigError: for an unknown dialect.
    """
    # Imported on use: it takes half a second.
    sqlglot = optional("sqlglot")
    if dialect not in sqlglot.Dialects._value2member_map_:
        raise ConfigError(f"dialect must be one that sqlglot knows, such as spark, not {dialect!r}")
    inputs, outputs, unparsed = set[Dataset](), set[Dataset](), list[str]()
    for statement in _statements(sqlglot, text, dialect):
        tree = _parsed(sqlglot, statement, dialect)
        if tree is None:
            unparsed.append(" ".join(statement.split())[:_LONGEST])
            continue
        targets = list(_targets(sqlglot.exp, tree))
        tables = [table for table in tree.find_all(sqlglot.exp.Table) if not _is_derived(sqlglot.exp, table)]
        outputs.update(_dataset(table) for table in targets if _is_named(sqlglot.exp, table))
        moved = [] if type(tree).__name__ in _MOVES_NOTHING else tables
        inputs.update(_dataset(table) for table in moved if not any(table is target for target in targets))
    return SqlDatasets(tuple(sorted(inputs)), tuple(sorted(outputs)), tuple(unparsed))


def _statements(sqlglot: Any, text: str, dialect: str) -> Iterator[str]:  # noqa: ANN401 - a module
    """Split a text into statements, so that one bad statement spoils no other."""
    try:
        tokens = sqlglot.tokenize(text, dialect=dialect)
    except sqlglot.errors.SqlglotError:
        yield text
        return
    start, ends = 0, [each.start for each in tokens if each.token_type.name == "SEMICOLON"]
    for end in (*ends, len(text)):
        if any(start <= each.start < end for each in tokens if each.token_type.name != "SEMICOLON"):
            yield text[start:end]
        start = end + 1


def _parsed(sqlglot: Any, statement: str, dialect: str) -> Any:  # noqa: ANN401 - of a package that may be missing
    """Parse a statement; ``None`` for a statement whose lineage the parser cannot tell."""
    for pattern, words in _REWRITTEN:
        statement = pattern.sub(words, statement)
    try:
        tree = sqlglot.parse_one(statement, dialect=dialect)
    except (sqlglot.errors.SqlglotError, RecursionError):
        return None
    kind = type(tree).__name__
    known = isinstance(tree, sqlglot.exp.Query) or kind in (*_WRITES, *_MOVES_NOTHING, "MultitableInserts")
    return tree if known else None


def _targets(exp: Any, tree: Any) -> Iterator[Any]:  # noqa: ANN401 - as above
    """Yield the tables that a statement writes."""
    if type(tree).__name__ == "MultitableInserts":
        for insert in tree.find_all(exp.Insert):
            yield from _targets(exp, insert)
    elif type(tree).__name__ in _WRITES:
        target = tree.this.this if isinstance(tree.this, exp.Schema) else tree.this
        if isinstance(target, exp.Table) and (not isinstance(tree, exp.Create) or tree.kind in ("TABLE", "VIEW")):
            yield target


def _is_named(exp: Any, table: Any) -> bool:  # noqa: ANN401 - as above
    """Return whether a table has a name: no function, and no placeholder such as ``{rows}``."""
    return all(isinstance(part, exp.Identifier) for part in table.parts)


def _is_derived(exp: Any, table: Any) -> bool:  # noqa: ANN401 - as above
    """Return whether a table is a function, a placeholder, or a common table expression in scope."""
    if not _is_named(exp, table):
        return True
    if len(table.parts) > 1:
        return False
    inner, outer = table, table.parent
    while outer is not None:
        if isinstance(outer, exp.With):
            # An expression sees those before it, and itself if it is recursive.
            place = next(n for n, each in enumerate(outer.expressions) if each is inner)
            visible = outer.expressions[: place + bool(outer.args.get("recursive"))]
        else:
            scope = outer.args.get("with_")
            visible = scope.expressions if scope is not None and scope is not inner else []
        if any(each.alias.lower() == table.name.lower() for each in visible):
            return True
        inner, outer = outer, outer.parent
    return False


def _dataset(table: Any) -> Dataset:  # noqa: ANN401 - as above
    """Return the dataset of a table by name, or by path such as ``delta.`/lake/visits```."""
    names = [part.name for part in table.parts]
    if len(names) == 2 and names[0].lower() in _BY_PATH and "/" in names[1]:
        return Dataset("file", names[1])
    return Dataset(LAKE, "/".join(names[1:] if names[0].lower() == _OWN_CATALOG and len(names) > 1 else names))
