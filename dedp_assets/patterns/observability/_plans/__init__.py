"""Column lineage in the text of Spark's analysed plan.

The text is all that both clients show (``EXPLAIN EXTENDED``). What is not understood makes the columns that depend on
it opaque, with the reason; no text raises an error.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from dedp_assets.patterns.core.sql.column_lineage import ColumnInput, ColumnLineage, ColumnOrigin, Influence
from dedp_assets.patterns.observability._plans.nodes import Walk
from dedp_assets.patterns.observability._plans.rows import Rows
from dedp_assets.patterns.observability._plans.terms import WITHOUT_CODE
from dedp_assets.patterns.observability._plans.texts import UnreadablePlan
from dedp_assets.patterns.observability._plans.tree import parsed
from dedp_assets.patterns.observability._plans.values import Value, opaque

__all__ = ["CUT", "lineage_of"]

_HEAD, _FOOT = "== Analyzed Logical Plan ==\n", "\n== Optimized Logical Plan =="
_CUT = re.compile(r"\.\.\. \d+ more fields|\.\.\. \d+ fields truncated")
CUT = "the plan was cut: set spark.sql.debug.maxToStringFields of the session to 10000"
"""Why all columns are opaque, where Spark shows some only."""


def lineage_of(text: str, columns: Sequence[str], tables: Mapping[str, str]) -> ColumnLineage:
    """Return the column lineage in the text of ``EXPLAIN EXTENDED``.

    Args:
        text: what Spark answered.
        columns: the columns at the top, in order.
        tables: name of an input in the plan -> the table that it stands for.
    """
    analysed = text.partition(_HEAD)[2].partition(_FOOT)[0]
    if not analysed:
        return _nothing(columns, "the plan has no analysed part")
    if _CUT.search(analysed):
        return _nothing(columns, CUT)
    try:
        # The first line lists the columns with their types.
        root = parsed(analysed.partition("\n")[2])
        structs = frozenset(re.findall(r"#(\d+)\.[A-Za-z_]", analysed))
        rows = Walk(tables, structs).read(root)
        return _lineage(rows, _top(root.text, columns), columns)
    except UnreadablePlan as error:
        return _nothing(columns, str(error))
    except (ValueError, LookupError, RecursionError):
        return _nothing(columns, "the plan has another form than known")


def _top(text: str, columns: Sequence[str]) -> list[str]:
    """Return the ids of the columns at the top, whose names are known.

    Raises:
        UnreadablePlan: if they are others.
    """
    listed = ", ".join(rf"{re.escape(name)}#(\d+)L?(?:-T\d+ms)?" for name in columns)
    found = re.fullmatch(rf"Project \[{listed}\]\s*", text, re.IGNORECASE)
    if found is None:
        raise UnreadablePlan("the top of the plan does not list the columns of the rows")
    return list(found.groups())


def _lineage(rows: Rows, ids: Sequence[str], columns: Sequence[str]) -> ColumnLineage:
    found: dict[str, ColumnOrigin] = {}
    causes, gaps = set(rows.causes), set(rows.gaps)
    for name, number in zip(columns, ids, strict=True):
        column = rows.columns.get(number)
        value = (column.value if column else rows.unknown or opaque("the plan does not show where it is made")).whole()
        causes |= value.indirect
        gaps |= {reason for reason in value.unknown if not reason.endswith(WITHOUT_CODE)}
        found[name] = _origin(value)
    if any(not source[0] for source, _ in causes):
        gaps.add("rows that have no name in the plan decide, too")
    influences = {Influence(t, path[0], effect, ".".join(path[1:])) for ((t, path), effect) in causes if t}
    return ColumnLineage(found, tuple(sorted(influences)), tuple(sorted(gaps)))


def _origin(value: Value) -> ColumnOrigin:
    unnamed = {source for source in value.direct if not source[0]}
    reasons = value.unknown | ({"it comes from rows that have no name in the plan"} if unnamed else set())
    inputs = [
        ColumnInput(table, path[0], kind, ".".join(path[1:])) for (table, path), kind in value.direct.items() if table
    ]
    return ColumnOrigin(tuple(sorted(inputs)), "; ".join(sorted(reasons)))


def _nothing(columns: Sequence[str], reason: str) -> ColumnLineage:
    return ColumnLineage(dict.fromkeys(columns, ColumnOrigin(opaque=reason)), gaps=(reason,))
