"""Trees and tables of `dedp explain`: origins of rows, trails, endings, and differences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.text import Text
from rich.tree import Tree

from dedp_assets.commands._output import Grid, coloured
from dedp_assets.graph.observe.origins.asked import REFUSED, Asked
from dedp_assets.graph.observe.origins.differences import Differences, Keys
from dedp_assets.graph.observe.origins.endings import Ending
from dedp_assets.graph.observe.origins.trails import LINE, Line, Trail
from dedp_assets.graph.observe.origins.tree import Input, Made, Origin
from dedp_assets.patterns.core.measuring.quantities import quantity
from dedp_assets.patterns.core.records import slice_name
from dedp_assets.patterns.error_management._letters import LETTER

__all__ = ["differences_grid", "endings_grid", "origin_tree", "trail_tree"]

_MOST = 3


def origin_tree(origin: Origin) -> Tree:
    """Return the tree of an origin: restores, commits, and the inputs of each commit."""
    return _with_origin(Tree(_head(origin)), origin)


def trail_tree(trail: Trail, key: Sequence[str]) -> Tree:
    """Return the tree of a trail: rows, commits, lines of files, and the trail upstream.

    Args:
        trail: the trail.
        key: columns by which the row was named.
    """
    by = f" by {', '.join(trail.by)}"
    gone = f" in place of version {trail.gone}, which is gone" if trail.gone is not None else ""
    tree = Tree(coloured((trail.table, "bold"), f" version {trail.version}{gone}, {quantity(trail.count, 'rows')}{by}"))
    for row in trail.rows:
        shown = [column for column in row if column in (*key, *LINE) or column in trail.by]
        tree.add(coloured("row ", ", ".join(f"{column} {row[column]}" for column in shown or row)))
    for made in trail.brought_by:
        tree.add(coloured("brought by ", *_commit(made), f": {_cause(made)}"))
    for line in trail.lines:
        tree.add(coloured(("landed ", "green"), _line(line)))
    for line in trail.repeats:
        tree.add(coloured(("duplicate ", "yellow"), f"{_line(line)}, of {line.repeats}, which stays"))
    for each in trail.upstream:
        tree.add(trail_tree(each, key) if each.rows else coloured(f"{each.table} version {each.version}: {each.ends}"))
    if trail.ends and trail.rows:
        tree.add(coloured(("the trail ends: ", "yellow"), trail.ends))
    return tree


def endings_grid(asked: Asked, wanted: Mapping[str, str], ends: Sequence[Ending]) -> Iterator[str | Grid]:
    """Yield the places where a missing row may have ended: a line on the row, and a table of places."""
    named = ", ".join(f"{column} {value}" for column, value in wanted.items())
    yield f"No row of {asked.name} has {named}"
    grid = Grid("ended as", "where", "why", "record")
    for each in ends:
        record = {column: value for column, value in each.row.items() if column not in (*LETTER, *LINE)}
        grid.add_row(each.kind, each.where, each.why, "\n".join(f"{c}: {v}" for c, v in record.items() if v != "null"))
    yield grid


def differences_grid(asked: Asked, found: Mapping[str, Any]) -> Iterator[str | Grid]:
    """Yield the differences from a version: a line on the rows, and a table of differences."""
    differences: Differences = found["differences"]
    before, after = differences.rows
    by = f"by {', '.join(differences.key)}" if differences.key else "as whole rows, as the table declares no key"
    same = "; no row differs" if differences.is_empty else ""
    version, other = f"at version {asked.version}", found["against"]
    sides = (version, "refused") if other == REFUSED else (f"at version {other}", version)
    yield f"{asked.name}: {quantity(before, 'rows')} {sides[0]}, {quantity(after)} {sides[1]}, {by}{same}"
    if same:
        return
    grid = Grid("difference")
    grid.add_column("rows", justify="right")
    grid.add_column("keys, the first ten")
    whole = {"rows in": differences.came, "rows out": differences.went, "rows changed": differences.changed}
    columns = {f"changed: {column}": keys for column, keys in differences.columns.items()}
    for name, keys in {**whole, **columns}.items():
        grid.add_row(name, str(keys.count), _keys(keys))
    yield grid


def _with_origin(tree: Tree, origin: Origin) -> Tree:
    if origin.refused:
        tree.add(coloured(("the newest run was refused: ", "red"), origin.refused))
    for made in origin.restores:
        facts = f": {made.notes.get('because', '')}".removesuffix(": ")
        tree.add(coloured((f"restored to version {made.restored_to}", "yellow"), " by ", *_commit(made), facts))
    for made in origin.commits:
        _add_commit(tree.add(coloured(*_commit(made))), made)
    if origin.older:
        tree.add(coloured(f"and {quantity(origin.older, 'older commits')}"))
    if origin.ends:
        tree.add(coloured(origin.ends))
    return tree


def _add_commit(tree: Tree, made: Made) -> None:
    if made.run:
        tree.add(coloured(_cause(made), (", asked for again by a person" if made.replay else "", "yellow")))
    if made.rows:
        tree.add(
            coloured(f"rows: {', '.join(f'{count} {name}' for name, count in made.rows.items() if count) or 'none'}")
        )
    if made.audits:
        passed = [name for name, verdict in made.audits.items() if verdict.startswith("passed")]
        others = [f"{name} {verdict}" for name, verdict in made.audits.items() if name not in passed]
        text = f"audits {made.verdict}: {'; '.join([*others, f'{len(passed)} passed'])}"
        tree.add(coloured((text, "yellow" if others else "")))
    if made.approval:
        why = f", because {made.approval['because']}" if made.approval.get("because") else ""
        tree.add(coloured(("approved by ", "yellow"), f"{made.approval['by']}{why}"))
    if made.notes:
        tree.add(coloured(", ".join(f"{name.replace('_', ' ')} {value}" for name, value in made.notes.items())))
    for table, counts in made.letters.items():
        tree.add(
            coloured(f"letters in {table}: {', '.join(f'{n} {status}' for status, n in counts.items()) or 'none'}")
        )
    for each in made.inputs:
        _add_input(tree, each)


def _add_input(tree: Tree, read: Input) -> None:
    if read.origin:
        _with_origin(tree.add(_head(read.origin, "looked up in " if read.is_reference else "")), read.origin)
        return
    source = tree.add(coloured((read.name, "bold"), f", content {str(read.read)[:16]}"))
    for file, lines in [*read.files.items()][:_MOST]:
        source.add(coloured(f"{file}, {quantity(lines, 'lines')}"))
    if len(read.files) > _MOST:
        source.add(coloured(f"and {quantity(len(read.files) - _MOST, 'more files')}"))


def _head(origin: Origin, before: str = "") -> Text:
    named = [slice_name(each) for each in origin.partitions[:_MOST] if each]
    more = f" and {len(origin.partitions) - _MOST} more" if len(origin.partitions) > _MOST else ""
    since = f"; changed since, at version {origin.changed_since}" if origin.changed_since is not None else ""
    rows = f"{', '.join(named) or 'all rows'}{more}"
    return coloured(before, (origin.table, "bold"), f" version {origin.version}, {rows}{since}")


def _commit(made: Made) -> Iterator[str | tuple[str, str]]:
    yield f"version {made.version}, {made.at} UTC, {made.did} by "
    yield f"run {made.run}" if made.run else ("another writer, whose commit has no record", "yellow")


def _cause(made: Made) -> str:
    return f"because of {made.cause}, {made.pattern or 'no pattern'}, code {made.code}" if made.run else "unknown cause"


def _line(line: Line) -> str:
    return f"{line.source} {line.file} line {line.line}".strip()


def _keys(keys: Keys) -> str:
    return ", ".join(key[0] if len(key) == 1 else f"({', '.join(key)})" for key in keys.keys)
