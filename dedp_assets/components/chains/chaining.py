"""Validation of steps: operations, options, names and columns, as far as known before a run."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ValidationError
from pyspark.sql import DataFrame

from dedp_assets.components.chains.known import StepScope
from dedp_assets.components.chains.operations import Beside, Earlier, StepOperation, operations
from dedp_assets.components.chains.sql_rules import of_options
from dedp_assets.components.chains.steps import ROWS, ChainStep
from dedp_assets.components.yaml.documents import Document, Path
from dedp_assets.components.yaml.drafts import ROOT, Draft
from dedp_assets.components.yaml.faults import Fault, Misfit, faults_of
from dedp_assets.components.yaml.making import made, object_named, parameters_of
from dedp_assets.components.yaml.model import inside, models_in
from dedp_assets.graph.declare.queries import fields_of
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.names import SUBSTITUTED
from dedp_assets.patterns.core.options import require_options
from dedp_assets.patterns.core.results import Split, WriteResult
from dedp_assets.patterns.core.running.demands import demands_of
from dedp_assets.patterns.core.sql.sql_faults import query_columns, query_fault
from dedp_assets.patterns.core.sql.suggestions import suggestion, unknown

__all__ = ["begin", "steps_of", "validated"]

_BESIDE = ("as", "from")
_OF_ROWS = ("identity", "keys", "order_by", "entity")
"""Options with columns of the rows that a step takes, under these names in every pattern."""


def validated(model: type[BaseModel], raw: Any, document: Document, path: Path) -> tuple[Any, list[Fault]]:  # noqa: ANN401
    """Validate a part of a document.

    Returns:
        The validated part, or ``None``; and the faults.
    """
    try:
        # Strict validation takes a list for a tuple, and a text for a date, from JSON alone.
        return model.model_validate_json(json.dumps(raw)), []
    except ValidationError as error:
        known = {(*path, *where): names for where, names in _names(model, raw)}
        return None, faults_of(error.errors(include_url=False), document, path, known)


def begin(found: Draft, model: type[BaseModel], options: str) -> Any:  # noqa: ANN401 - any mapping
    """Validate the attributes of a draft, and note the faults of the document and of the attributes.

    Args:
        found: the draft.
        model: model of the attributes.
        options: names of the first attributes, for the fault of a document without a mapping.

    Returns:
        The attributes as written, also if they have faults; ``None`` if they are no mapping.
    """
    document = found.document
    found.faults += map(Fault.of, document.faults)
    raw = document.value.get("attributes")
    if not isinstance(raw, dict):
        found.faults.append(Fault.at(document, ROOT, f"attributes must be a mapping with {options} ..."))
        return None
    found.attributes, faults = validated(model, raw, document, ROOT)
    found.faults += faults
    return raw


def steps_of(
    raw: Sequence[Any], document: Document, path: Path, known: StepScope
) -> tuple[list[ChainStep], list[Fault]]:
    """Return the steps of a chain, and the faults."""
    steps, faults = [], list[Fault]()
    for number, each in enumerate(raw):
        found, wrong = _step(each, document, (*path, number), known)
        faults += wrong
        if found is None:
            # What follows has no rows that anybody knows.
            known.columns, known.split, known.rows, known.unsure = None, False, True, True
            continue
        steps.append(found)
        try:
            _go_on(found, known, last=number == len(raw) - 1)
        except Misfit as misfit:
            faults.append(misfit.fault(document))
            known.unsure = True
    return steps, faults


def _step(raw: Any, document: Document, path: Path, known: StepScope) -> tuple[ChainStep | None, list[Fault]]:  # noqa: ANN401
    keys = [key for key in raw if key not in _BESIDE]
    if len(keys) != 1:
        if misspelt := [key for key in keys if key not in ("sql", "python", *operations())]:
            return None, [Fault.at(document, (*path, key), _unknown(key), key=True) for key in misspelt]
        sentence = f"a step must have one operation, not {' and '.join(keys) or 'none'}"
        return None, [Fault.at(document, path, sentence)]
    try:
        takes, result = (_text(raw, name, path) for name in ("from", "as"))
        step = ChainStep(path, takes=takes, result=result)
        if keys[0] == "sql":
            return _in_sql(step, _text(raw, "sql", path), known), []
        if keys[0] == "python":
            return _in_python(step, _text(raw, "python", path), known), []
        return _of_library(step, keys[0], raw[keys[0]], document, known)
    except Misfit as misfit:
        return None, [misfit.fault(document)]


def _unknown(key: str) -> str:
    return unknown("pattern" if "." in key else "operation", key, ("sql", "python", *_BESIDE, *operations()))


def _text(raw: Mapping[str, Any], name: str, path: Path) -> str:
    value = raw.get(name, "")
    if not isinstance(value, str) or (name in raw and not value.strip()):
        raise Misfit((*path, name), f"{name} must be a text, not {value!r:.60}")
    return value


def _in_sql(step: ChainStep, sql: str, known: StepScope) -> ChainStep:
    path = (*step.path, "sql")
    if SUBSTITUTED in sql:
        raise Misfit(path, f"sql must be a text without {SUBSTITUTED}, which Spark replaces")
    _require_source(step, known, optional=True)
    try:
        names = fields_of(sql)
    except ValueError as error:
        raise Misfit(path, f"sql must have names in braces, like {{{ROWS}}}: {error}") from None
    for name in names:
        if not known.has(name) and not (name == ROWS and step.takes):
            raise Misfit(path, unknown("name", f"{{{name}}}", known.values or ["{rows}"]))
        if known.is_split(step.takes if name == ROWS else name):
            raise Misfit(path, f"{{{name}}} is a split: put a tally before it, to keep the valid rows")
    if why := query_fault(sql, known.tables(step.takes)):
        raise Misfit(path, f"sql {why}")
    return ChainStep(step.path, sql=sql, takes=step.takes, result=step.result)


def _in_python(step: ChainStep, name: str, known: StepScope) -> ChainStep:
    path = (*step.path, "python")
    if ":" not in name:
        raise Misfit(path, f"python must be package.module:name, not {name!r}")
    function = object_named(name, path)
    if not callable(function):
        raise Misfit(path, f"python must be a function, not {name}, a {type(function).__name__}")
    _require_source(step, known, optional=True)
    names = [*known.values, *known.targets, *([ROWS] if step.takes else [])]
    for parameter in parameters_of(function, name, path).values():
        if parameter.default is parameter.empty and parameter.name not in names and not known.unsure:
            sentence = f"{name} takes {parameter.name}, which is no name here{suggestion(parameter.name, names)}"
            raise Misfit(path, sentence)
    return ChainStep(step.path, function=function, takes=step.takes, result=step.result)


def _of_library(
    step: ChainStep,
    name: str,
    raw: Any,  # noqa: ANN401 - any part of a document
    document: Document,
    known: StepScope,
) -> tuple[ChainStep | None, list[Fault]]:
    path = (*step.path, name)
    if (operation := operations().get(name)) is None:
        raise Misfit(path, _unknown(name), key=True)
    if raw is None:
        raise Misfit(path, f"{name} is empty: write {{}} if it needs no options")
    options, faults = validated(operation.model, raw, document, path)
    if options is None:  # also of a value that YAML reads as another one, which is a fault of the document
        return None, faults
    given = made(options, path, {})
    found = ChainStep(step.path, operation=operation, options=given, takes=step.takes, result=step.result)
    try:
        require_options(operation.function, {key: value for key, value in given.items() if key in operation.options})
        if "into" in operation.data.values():
            demands_of(operation.function).require_options(known.table, given)
    except ConfigError as error:
        option = str(error).rpartition(f"{known.table.name}: ")[2].partition(" ")[0]
        raise Misfit((*path, option) if option in given else path, str(error)) from None
    _require_source(found, known, optional=not {"rows", "table"} & set(operation.data.values()))
    return found, list(_of_names(found, operation, document, known))


def _require_source(step: ChainStep, known: StepScope, *, optional: bool) -> None:
    """Refuse a step without rows to take, or with rows of a wrong kind."""
    path = (*step.path, "from")
    over_table = bool(step.operation) and "table" in (step.operation.data.values() if step.operation else ())
    names = list(known.upstream) if over_table else [n for n in known.values if n != ROWS]
    if step.takes and step.takes not in names and not known.unsure:
        raise Misfit(path, unknown("table" if over_table else "name", step.takes, names))
    takes_split = step.operation is None or step.operation.name == "tally" or step.operation.splits
    if known.is_split(step.takes) and not takes_split and not optional:
        raise Misfit(step.path, f"{step.name} takes rows, not a split: put a tally before it, to keep the valid ones")
    if optional or step.takes or known.unsure:
        return
    if over_table and len(known.upstream) != 1:
        raise Misfit(step.path, f"from must name the table that {step.name} reads{suggestion('', names)}")
    if not over_table and not known.rows:
        raise Misfit(step.path, f"from must name the rows that {step.name} takes{suggestion('', names)}")


def _of_names(step: ChainStep, operation: StepOperation, document: Document, known: StepScope) -> Iterator[Fault]:
    """Yield the faults of an operation's names: of tables, of results, and of columns that are known."""
    path = (*step.path, operation.name)
    for name, value in step.options.items():
        if known.unsure:
            return
        for key, each in value.items() if isinstance(value, Mapping) else [("", value)]:
            place = (*path, name, key) if key else (*path, name)
            if isinstance(each, Beside) and each not in known.beside:
                yield Fault.at(document, place, unknown("table in beside", each, known.beside))
            if isinstance(each, Earlier) and not known.has(each):
                yield Fault.at(document, place, unknown("name", each, (*known.upstream, *known.named)))
        if operation.name == "account" and name == "read" and value not in known.upstream:
            yield Fault.at(document, (*path, name), unknown("upstream table", value, known.upstream))
        elif operation.name == "account" and name == "read" and known.tallied:
            sentence = "read must be left out after a tally, which counts the rows read"
            yield Fault.at(document, (*path, name), sentence, key=True)
    rows = known.columns_of(step.takes) if step.takes else known.columns
    yield from (each.fault(document) for each in of_options(step, None if known.split else rows))
    yield from _of_columns(step, operation, document, known)


def _of_columns(step: ChainStep, operation: StepOperation, document: Document, known: StepScope) -> Iterator[Fault]:
    """Yield the faults of columns that the rows of a transform, or the table of a write, do not have."""
    writes = operation.kind == "write"
    if not {"rows", "table"} & set(operation.data.values()):
        return  # columns of a source outside of the lake
    columns = known.columns
    if step.takes or writes:
        columns = known.table.columns if writes else known.columns_of(step.takes)
    written = known.columns if writes and not (step.takes or known.split) else None
    if written is not None and (why := demands_of(operation.function).columns_at_fault(known.table, written)):
        sentence = f"{operation.name} writes rows with the columns of {known.table.name}: {why}"
        yield Fault.at(document, (*step.path, operation.name), sentence, key=True)
    there = {column.lower() for column in columns or ()}
    for name in ("keys",) if writes else _OF_ROWS:
        value = step.options.get(name)
        for number, column in enumerate(value if there and isinstance(value, tuple) else ()):
            if isinstance(column, str) and column.lower() not in there:
                path = (*step.path, operation.name, name, number)
                yield Fault.at(document, path, unknown("column", column, columns or ()))


def _go_on(step: ChainStep, known: StepScope, *, last: bool) -> None:
    """Note the names for the next step; refuse a chain with no write at the end, or an earlier write."""
    kind = step.operation.kind if step.operation else ""
    returned = step.operation.returns if step.operation else None
    if step.function:
        returned = _annotated(step.function)
    if last and kind != "write" and (not step.function or returned not in (None, WriteResult)):
        raise Misfit(step.path, f"the last step must write the table, as {step.name} does not: add a write")
    if not last and (kind == "write" or returned is WriteResult):
        raise Misfit(step.path, f"{step.name} writes, and must be the last step")
    if step.result:
        if step.name == "account":
            raise Misfit((*step.path, "as"), "as must be left out of account, which returns no rows")
        if step.result in (*known.values, *known.targets):
            raise Misfit((*step.path, "as"), f"as must be a name of its own, not {step.result}, which is there already")
        known.named[step.result] = returned is Split
    known.writes_split = known.is_split(step.takes)
    if step.is_aside:
        return
    known.tallied = known.tallied or step.name == "tally"
    known.split = returned is Split
    known.rows = returned in (None, Split, DataFrame) or step.name == "tally"
    known.columns = _columns_after(step, known)


def _columns_after(step: ChainStep, known: StepScope) -> Mapping[str, Any] | None:
    """Return the columns of a step's rows; ``None`` for columns that only a run knows."""
    if step.sql:
        return query_columns(step.sql, known.tables(step.takes))
    return known.columns if step.name == "tally" and not step.takes else None


def _annotated(function: Any) -> Any:  # noqa: ANN401 - a function, and what it says to return
    returned = getattr(function, "__annotations__", {}).get("return")
    return WriteResult if returned in (WriteResult, "WriteResult") else None if returned is None else returned


def _names(model: Any, raw: Any, path: Path = ()) -> Iterator[tuple[Path, list[str]]]:  # noqa: ANN401 - models
    """Yield the options that a mapping of a document may have, for each mapping that a model describes."""
    parts = raw.items() if isinstance(raw, dict) else enumerate(raw) if isinstance(raw, list) else ()
    models = list(models_in(model)) if isinstance(raw, dict) else []
    yield from ((path, list(found.model_fields)) for found in models)
    for name, value in parts:
        fields = [found.model_fields[name].annotation for found in models if name in found.model_fields]
        for kind in fields if models else inside(model):
            yield from _names(kind, value, (*path, name))
