"""Declarations of tables from YAML documents: the ``lake_table`` call of Python, or the faults."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any

from dedp_assets.components.chains.chaining import begin, steps_of, validated
from dedp_assets.components.chains.known import StepScope
from dedp_assets.components.chains.operations import operations
from dedp_assets.components.chains.sql_rules import of_audits, of_table
from dedp_assets.components.chains.steps import PREVIOUS, Chain, ChainStep, computing
from dedp_assets.components.yaml.attributes import RECORDS, PatternName, attributes
from dedp_assets.components.yaml.documents import Document, Path
from dedp_assets.components.yaml.drafts import ROOT, Draft, fault_of_rule
from dedp_assets.components.yaml.faults import Fault, Misfit
from dedp_assets.components.yaml.making import made
from dedp_assets.components.yaml.model import Options, create
from dedp_assets.graph.declare import Gates, LakeTable, Reads, Runs, lake_table
from dedp_assets.graph.declare.layers import about_of, gates_of, module_of
from dedp_assets.graph.declare.queries import names_of
from dedp_assets.graph.declare.touching import is_absolute
from dedp_assets.patterns.connectors.delivery.csv_folder import CsvFolder
from dedp_assets.patterns.core.column import TAGS
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.running.digests import as_plain, digest_of
from dedp_assets.patterns.core.schema import TableSpec
from dedp_assets.patterns.core.sql.suggestions import unknown

__all__ = ["declare", "draft"]

_TABLES = ("table", "beside")
_COLUMNS = ("partition_by", "key", "one_channel_per", "event_time")
"""Options of a table declaration that name columns of the declared table."""


def draft(document: Document) -> Draft:
    """Validate the attributes of a document, and make the declared tables."""
    found = Draft(document)
    raw = begin(found, attributes(), "table, reads, steps")
    if raw is None:
        return found
    # What reads the tables is not blamed for a fault elsewhere in their declaration.
    stated = found.attributes or validated(_tables_alone(), _only_tables(raw), document, ROOT)[0]
    try:
        found.tables = tuple(_tables(stated)) if stated else ()
    except Misfit as misfit:
        found.faults += [misfit.fault(document)] if found.attributes else []
    return found


def declare(found: Draft, specs: Mapping[str, TableSpec | None]) -> tuple[LakeTable[...] | None, list[Fault]]:
    """Make the declaration of a draft.

    Args:
        found: the draft.
        specs: every declared table by name; ``None`` for one whose declaration cannot be read.

    Returns:
        The table, or ``None``; and the faults, those of the draft included.
    """
    if found.attributes is None or not found.tables:
        return None, [*found.faults, *_faults_of_steps(found)]
    records, faults = _records(found, specs)
    faults = [*found.faults, *faults]
    if "reads" not in records:
        return None, faults
    faults += _columns_of_feeds(found, records["reads"])
    chain, wrong = _chain(found, records)
    # Of gates with a fault, nobody knows the checks.
    judged = chain if chain and {"gates"} & found.attributes.model_fields_set <= records.keys() else None
    faults += wrong or [*_columns_of_facts(found, records), *(_of_gates(found, judged, records) if judged else ())]
    if faults or chain is None:
        return None, faults
    try:
        return _lake_table(found, records, chain), []
    except Misfit as misfit:
        return None, [misfit.fault(found.document)]
    except ConfigError as error:
        return None, [fault_of_rule(error, found.document)]


def _records(found: Draft, specs: Mapping[str, TableSpec | None]) -> tuple[dict[str, Any], list[Fault]]:
    """Return the records of a declaration that can be made, and the faults of the others."""
    records, faults = dict[str, Any](), list[Fault]()
    for name in RECORDS:
        if name in found.attributes.model_fields_set:
            try:
                records[name] = made(getattr(found.attributes, name), (*ROOT, name), specs)
            except Misfit as misfit:
                faults.append(misfit.fault(found.document))
    if "about" in records or "about" not in found.attributes.model_fields_set:
        records["about"] = about_of(records.get("about"), found.tables[0].name, module_of(found.document.file))
    return records, faults


@cache
def _tables_alone() -> type[Options]:
    """Return the model of the tables of a declaration, without the computation."""
    fields = {name: (field.annotation, field) for name, field in attributes().model_fields.items() if name in _TABLES}
    return create("Tables", fields, "")


def _only_tables(raw: Mapping[str, Any]) -> dict[str, Any]:
    return {name: raw[name] for name in _TABLES if name in raw}


def _tables(stated: Any) -> Iterator[TableSpec]:  # noqa: ANN401 - validated attributes
    """Yield the declared tables.

    Raises:
        Misfit: for a column that a table does not have, and for what no table may declare.
    """
    for path, table in zip(_places(stated), (stated.table, *(stated.beside or ())), strict=True):
        for option in _COLUMNS:
            named = getattr(table, option) or ()
            for number, column in enumerate((named,) if isinstance(named, str) else named):
                if column not in table.columns:
                    at = (*path, option) if isinstance(named, str) else (*path, option, number)
                    raise Misfit(at, unknown("column", column, table.columns))
        yield made(table, path, {})


def _places(stated: Any) -> list[Path]:  # noqa: ANN401 - as above
    """List the paths of the declared tables, the main one first."""
    return [(*ROOT, "table"), *((*ROOT, "beside", n) for n, _ in enumerate(stated.beside or ()))]


def _faults_of_steps(found: Draft) -> list[Fault]:
    """Return the faults of the steps' operations and options, for a declaration with other faults."""
    raw = found.document.value.get("attributes")
    steps = raw.get("steps") if isinstance(raw, dict) else None
    if not isinstance(steps, list) or not all(isinstance(step, dict) for step in steps):
        return []
    known = StepScope(found.tables[0] if found.tables else TableSpec("unknown", {}), {}, {}, rows=True, unsure=True)
    return steps_of(steps, found.document, (*ROOT, "steps"), known)[1]


def _chain(found: Draft, records: Mapping[str, Any]) -> tuple[Chain | None, list[Fault]]:
    reads, gates, runs = records["reads"], records.get("gates", Gates()), records.get("runs", Runs())
    upstream, beside = names_of(reads.upstream), found.tables[1:]
    if runs.order and runs.order.hands_over:
        upstream[PREVIOUS] = runs.order.hands_over
    known = StepScope(found.tables[0], upstream, {spec.name: spec for spec in beside})
    # `tables` alone is what a chain begins with: references are looked up.
    if len(reads.tables) == 1:
        known.rows, known.columns = True, next(iter(reads.tables)).columns
    path = (*ROOT, "steps")
    steps, faults = steps_of(found.document.value["attributes"]["steps"], found.document, path, known)
    faults += [each.fault(found.document) for each in _of_sql(found, gates, known, steps)]
    if faults:
        return None, faults
    checks = frozenset([*gates.blocking, *gates.reports])
    return Chain(found.tables[0].name, steps, upstream, beside, checks, first=len(reads.tables) == 1), []


def _of_sql(found: Draft, gates: Gates, known: StepScope, steps: Sequence[ChainStep]) -> Iterator[Misfit]:
    """Yield the faults of SQL in the tables and in the gates."""
    for path, table in zip(_places(found.attributes), found.tables, strict=True):
        yield from of_table(path, table)
    # Rows of a split, and what Python makes, may have further columns.
    sure = not (known.writes_split or found.tables[1:] or any(step.function for step in steps))
    yield from of_audits((*ROOT, "gates", "audits"), gates.audits, found.tables[0].columns if sure else None)


def _of_gates(found: Draft, chain: Chain, records: Mapping[str, Any]) -> Iterator[Fault]:
    """Yield the faults of steps that need a check or an audit of the gates."""
    yield from _verdicts(found, chain)
    measured = {audit.figure for audit in records.get("gates", Gates()).audits}
    for step in chain.steps:
        measured |= set(step.options.get("measures", ()) if step.name == "tally" else ())
        represented = step.options.get("represented", "") if step.name == "account" else ""
        if represented and represented not in measured:
            sentence = unknown("figure of an audit", represented, measured)
            if represented in found.tables[0].columns:
                audit = (
                    f"{{name: {represented}_are_counted, of: {represented}, sql: sum({represented}), fail_below: 0}}"
                )
                sentence = f"{represented} is a figure that no audit measures: add {audit} to gates.audits"
            yield Fault.at(found.document, (*step.path, "account", "represented"), sentence)


def _verdicts(found: Draft, chain: Chain) -> Iterator[Fault]:
    """Yield the faults of inspections whose verdict is no check of the table."""
    for step in chain.steps:
        name = step.options.get("name", "")
        if step.operation and step.operation.kind == "inspect" and name and name not in chain.checks:
            path = (*step.path, step.operation.name, "name")
            sentence = f"gates.checks must have {name}, which the inspection returns"
            yield Fault.at(found.document, path, sentence)


def _lake_table(found: Draft, records: Mapping[str, Any], chain: Chain) -> LakeTable[...]:
    spec, stated = found.tables[0], found.attributes
    named = tuple(_pattern(name, (*ROOT, "patterns", n)) for n, name in enumerate(stated.patterns or ()))
    patterns = named or chain.patterns
    if not patterns:
        raise Misfit((*ROOT, "steps"), "patterns must name the pattern at work, where only SQL and Python steps are")
    function = computing(chain, description=stated.description or spec.comment or spec.name)
    made = {"gates": _gates(records.get("gates", Gates()), spec, chain), "code_version": _code_version(found, records)}
    made["reads"] = _touching(
        records["reads"], [place for step in chain.steps for place in _named_places(step.options)]
    )
    return lake_table(
        spec,
        patterns=patterns,
        beside={table: chain.patterns_beside(table) or patterns for table in found.tables[1:]},
        **{**records, **made},
    )(function)


def _touching(reads: Reads, places: Sequence[str]) -> Reads:
    """Return the reads with further places of plain files."""
    return replace(reads, touches=replace(reads.touches, files=(*reads.touches.files, *places)))


def _named_places(options: Mapping[str, Any]) -> Iterator[str]:
    """Yield the places that options of a step name: absolute paths, URIs, and folders of sinks."""
    for value in options.values():
        place = value.root if isinstance(value, CsvFolder) else value
        if isinstance(place, str) and is_absolute(place):
            yield place


def _code_version(found: Draft, records: Mapping[str, Any]) -> str:
    """Return the stated version with a digest of the tables, inputs and steps, which decide on the rows."""
    written = found.document.value["attributes"]
    runs = records.get("runs", Runs())
    handed = runs.order.hands_over.name if runs.order and runs.order.hands_over else ""
    tables = as_plain(found.tables, without=("comment", "layout", *TAGS))
    rows = digest_of(tables, as_plain([written["reads"], written["steps"]]), handed)
    return f"{records.get('code_version', '1')}-{rows}"


def _gates(stated: Gates, spec: TableSpec, chain: Chain) -> Gates:
    """Return the gates with the check of the last step's write for a partition without rows."""
    last = chain.steps[-1]
    if last.operation is None:
        return stated
    given = {name: value for name, value in last.options.items() if name == "allow_empty"}
    return gates_of(stated, spec, [partial(last.operation.function, **given)])


def _pattern(name: PatternName, path: Path) -> Any:  # noqa: ANN401 - a function
    if name not in operations() or "." not in name:
        raise Misfit(path, unknown("pattern", name, [each for each in operations() if "." in each]))
    return operations()[name].function


def _columns_of_feeds(found: Draft, reads: Reads) -> list[Fault]:
    """Return the faults of feeds by a column that the upstream table is not partitioned by."""
    raw = found.document.value["attributes"]["reads"].get("tables", {})
    faults = []
    for spec in reads.tables:
        for path, column in _columns_in(raw[spec.name], (*ROOT, "reads", "tables", spec.name)):
            if column not in spec.partition_by:
                sentence = unknown(f"partition column of {spec.name}", column, spec.partition_by)
                faults.append(Fault.at(found.document, path, sentence))
    return faults


def _columns_in(feed: Mapping[str, Any], path: Path) -> Iterator[tuple[Path, str]]:
    """Yield the columns that a feed names, nested feeds included."""
    for name, options in feed.items():
        if isinstance(options, dict) and "column" in options:
            yield (*path, name, "column"), options["column"]
        if isinstance(options, dict) and isinstance(options.get("feed"), dict):
            yield from _columns_in(options["feed"], (*path, name, "feed"))


def _columns_of_facts(found: Draft, records: Mapping[str, Any]) -> list[Fault]:
    """Return the faults of the column lineage, and of columns that the write takes from the table."""
    own = {name for table in found.tables for name in table.columns}
    theirs = {name for table in records["reads"].upstream for name in table.columns}
    path = (*ROOT, "about", "derived")
    derived = records["about"].derived if "about" in records else {}
    faults = []
    for column, sources in derived.items():
        if column not in own:
            faults.append(Fault.at(found.document, (*path, column), unknown("column", column, own), key=True))
        for number, source in enumerate(sources):
            if source not in theirs:
                sentence = unknown("upstream column", source, theirs)
                faults.append(Fault.at(found.document, (*path, column, number), sentence))
    return faults
