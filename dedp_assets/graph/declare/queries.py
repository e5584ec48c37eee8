"""Tables that are one query: SQL over the upstream tables, and the one pattern that writes the result."""

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial, update_wrapper
from string import Formatter
from typing import Any

from dedp_assets.graph.declare.layers import SaysAbout, SaysGates, SaysReads, SaysRuns, gates_of, reads_of, runs_of
from dedp_assets.graph.declare.records import Gates
from dedp_assets.graph.declare.tables import LakeTable, Patterns, lake_table
from dedp_assets.graph.inputs.feeds import Pinned
from dedp_assets.graph.run.batches import Step
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.results import WriteResult
from dedp_assets.patterns.core.running.digests import as_plain, digest_of
from dedp_assets.patterns.core.schema import TableSpec
from dedp_assets.patterns.core.sql.suggestions import unknown
from dedp_assets.patterns.delta import Target
from dedp_assets.patterns.idempotency.data_overwrite import overwrite_partition

__all__ = ["fields_of", "lake_query", "names_of", "taking"]

_FORMATTER, _FIRST = Formatter(), re.compile(r"[.\[]")
_FOUND = "found"
"""Name, in a query, of the rows that the function in ``Reads.inputs`` found."""


def lake_query(
    spec: TableSpec,
    *,
    sql: str,
    reads: SaysReads,
    write: Callable[..., WriteResult] = overwrite_partition,
    about: SaysAbout = None,
    runs: SaysRuns = None,
    gates: SaysGates = (),
    patterns: Patterns = (),
) -> Callable[[Callable[[], None]], LakeTable[...]]:
    """Declare a table that is one query; the decorated function has a docstring and no body.

    An upstream table has the name of its dataset in the query (``{visits}`` is silver/visits, and ``{silver_visits}``
    where two datasets are called so), the value of a partition that of its column. Rows that a function in
    ``Reads.inputs`` pinned are ``{found}``. The code version is a digest of query and write: a changed query is
    computed again.

    Args:
        spec: the table.
        sql: the query.
        reads: inputs, as of :func:`lake_table`; if an audit compares with the rows read, those of the first table.
        write: the writing pattern; with options, ``partial(merge_changes, keys=["id"])``.
        about: owner, and other facts for the catalogue.
        runs: when and in which order partitions are computed.
        gates: rules that decide on a publish.
        patterns: the patterns at work, the main one first; by default the writing one.

    Raises:
        ConfigError: names the table, and the option that is wrong or does not go with another one.
    """

    def declare(function: Callable[[], None]) -> LakeTable[...]:
        when = runs_of(runs, spec, reads)
        found, judged = reads_of(reads, spec, when), gates_of(gates, spec, [partial(write)])
        compute = _computing(spec, sql, names_of(found.upstream), judged, write)
        return lake_table(
            spec,
            reads=found,
            patterns=patterns or [_pattern(write)],
            about=about,
            code_version=digest_of(sql, _pattern(write), as_plain(getattr(write, "keywords", {}))),
            runs=when,
            gates=judged,
        )(update_wrapper(compute, function, ("__module__", "__name__", "__qualname__", "__doc__")))

    return declare


def names_of(upstream: Sequence[TableSpec]) -> dict[str, TableSpec]:
    """Name upstream tables in a query: by dataset, or by layer and dataset if two share a dataset."""
    short = [spec.name.rpartition("/")[2] for spec in upstream]
    return {
        (name if short.count(name) == 1 else spec.name.replace("/", "_")): spec
        for name, spec in zip(short, upstream, strict=True)
    }


def fields_of(sql: str) -> list[str]:
    """List the names in braces of a query."""
    found = [name for _, name, _, _ in _FORMATTER.parse(sql) if name is not None]
    return list(dict.fromkeys(_FIRST.split(name)[0] for name in found))


def taking(kinds: Mapping[str, type], compute: Callable[[dict[str, Any]], WriteResult]) -> Callable[..., WriteResult]:
    """Return a function for ``lake_table`` with declared parameters, in place of a written one.

    Args:
        kinds: parameter -> its type.
        compute: computes the table from the arguments by name.
    """
    either = inspect.Parameter.POSITIONAL_OR_KEYWORD
    signature = inspect.Signature([inspect.Parameter(name, either, annotation=kind) for name, kind in kinds.items()])

    def taken(*args: Any, **given: Any) -> WriteResult:  # noqa: ANN401 - as the signature says
        return compute(signature.bind(*args, **given).arguments)

    taken.__annotations__ = {**kinds, "return": WriteResult}
    vars(taken)["__signature__"] = signature
    return taken


def _computing(
    spec: TableSpec, sql: str, upstream: Mapping[str, TableSpec], gates: Gates, write: Callable[..., WriteResult]
) -> Callable[..., WriteResult]:
    """Return the function that computes the query and writes the rows."""
    names = fields_of(sql)
    columns = [spec.executed_by] if spec.executed_by else [*spec.partition_by[:1]]
    known = [*upstream, *columns, _FOUND]
    if strange := [name for name in names if name not in known]:
        raise ConfigError(f"{spec.name}: sql {unknown('name', f'{{{strange[0]}}}', [f'{{{name}}}' for name in known])}")
    represented = next((audit.figure for audit in gates.audits if audit.per == "read"), "")
    into, step = "into", "step"
    kinds = {**dict.fromkeys(upstream, Pinned), into: Target, **({step: Step} if _FOUND in names else {})}

    def compute(given: dict[str, Any]) -> WriteResult:
        target, pinned = given[into], {name: given[name] for name in upstream}
        values = {**target.partition, **{name: each.rows() for name, each in pinned.items() if name in names}}
        if _FOUND in names:
            values[_FOUND] = given[step].inputs.found.rows()
        rows = target.table.session.sql(sql, **{name: values[name] for name in names})
        if represented:
            target = target.reading(figures={"read": next(iter(pinned.values())).count()}, represented=represented)
        return write(rows, target)

    made = taking(kinds, compute)
    vars(made)["writes"] = _pattern(write)
    return made


def _pattern(write: Callable[..., WriteResult]) -> Callable[..., WriteResult]:
    return write.func if isinstance(write, partial) else write
