"""Declarations of maintenance from YAML documents: the actions on tables, or the faults."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Annotated, Any

from pydantic import Field

from dedp_assets.components.chains.chaining import begin, validated
from dedp_assets.components.chains.operations import StepOperation, operations
from dedp_assets.components.tending.upkeep import FACTS, Action, OnPlan, Upkeep
from dedp_assets.components.yaml.attributes import ListInSchema
from dedp_assets.components.yaml.documents import Document, Path
from dedp_assets.components.yaml.drafts import ROOT, Draft, faults_of_name
from dedp_assets.components.yaml.faults import Fault, Misfit
from dedp_assets.components.yaml.making import made, object_named, parameters_of
from dedp_assets.components.yaml.model import Options, PythonName, create, field_of, help_of, options_of
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.options import require_options
from dedp_assets.patterns.core.schema import TableSpec
from dedp_assets.patterns.core.sql.suggestions import suggestion, unknown

__all__ = ["action_model", "actions", "attributes", "declare", "draft"]

_STATED = ("name", "tables", "when", "owner", "description")
"""Attributes of :class:`Upkeep` that a file states as they are."""
_FROM_TABLE = ("into", "table", "ledger")
_GIVEN = "given"


@cache
def attributes() -> type[Options]:
    """Return the model of the attributes of a maintenance."""
    stated = Annotated[tuple[dict[str, Any], ...], ListInSchema(action_model), Field(min_length=1)]
    fields: dict[str, Any] = {
        **options_of(Upkeep, _STATED),
        "actions": (stated, Field(description=help_of(Upkeep)["actions"])),
    }
    return create("MaintenanceAttributes", fields, "Actions on tables that others compute.")


@cache
def actions() -> Mapping[str, StepOperation]:
    """Return the operations by name that take a table, a log or arguments of the user, and no rows."""
    return {name: each for name, each in operations().items() if _is_action(each)}


def _is_action(operation: StepOperation) -> bool:
    """Return whether an operation needs neither rows to write nor the result of a step."""
    if operation.kind == "transform":
        return False
    parameters = inspect.signature(operation.function).parameters
    roles = {role for name, role in operation.over.items() if parameters[name].default is inspect.Parameter.empty}
    computes = {"into", "table"} <= roles or ("rows" in roles and operation.kind == "write")
    return not computes and roles <= {*_FROM_TABLE, "object", "rows"}


@cache
def action_model() -> type[Options]:
    """Return the model of an action with every pattern, for the JSON schema."""
    optional: Mapping[str, Any] = {"default_factory": lambda: None}
    text = f"A function of {', '.join(FACTS)} that returns arguments by name, known only at the time of the run."
    fields: dict[str, Any] = {_GIVEN: (PythonName, Field(description=text, **optional))}
    fields |= {
        n: (_model(each, partly=True), Field(description=each.summary, **optional)) for n, each in actions().items()
    }
    made = create("Action", fields, "One pattern by its name, with its options.")
    made.model_config["json_schema_extra"] = {"minProperties": 1, "maxProperties": 2}
    made.model_rebuild(force=True)
    return made


@cache
def _model(operation: StepOperation, *, partly: bool) -> type[Options]:
    """Return the model of the options of an action; ``partly`` for options that a function may give."""
    parameters, helps = inspect.signature(operation.function).parameters, help_of(operation.function)
    data = [name for name, role in operation.over.items() if role in ("object", "earlier")]
    fields = {name: (PythonName, field_of(str, parameters[name].default, helps.get(name, ""))[1]) for name in data}
    fields |= options_of(operation.function, operation.options)
    for name, (kind, stated) in fields.items():
        if (partly or name == "now") and stated.is_required():
            fields[name] = (kind, Field(description=stated.description, default_factory=lambda: None))
    return create(f"{operation.name} over a table", fields, operation.summary)


def draft(document: Document) -> Draft:
    """Validate the attributes of a document."""
    found = Draft(document)
    begin(found, attributes(), "name, tables, actions")
    return found


def declare(found: Draft, specs: Mapping[str, TableSpec | None]) -> tuple[Upkeep | None, list[Fault]]:
    """Make the declaration of a draft, or the faults.

    Args:
        found: the draft.
        specs: every declared table by name; ``None`` for one whose declaration cannot be read.
    """
    if found.attributes is None:
        return None, [*found.faults, *_faults_of_actions(found)]
    stated, faults = _stated(found, specs)
    tables = stated.get("tables", ())
    raw = found.document.value["attributes"]["actions"]
    done, wrong = _actions(raw, found.document, tables if isinstance(tables, tuple) else ())
    faults = [*found.faults, *faults, *wrong]
    if faults:
        return None, faults
    upkeep = Upkeep(actions=done, **stated)
    if (fault := _of_start(upkeep, found.document)) is not None:
        return None, [fault]
    return upkeep, []


def _stated(found: Draft, specs: Mapping[str, TableSpec | None]) -> tuple[dict[str, Any], list[Fault]]:
    """Return the attributes apart from the actions, and the faults of these attributes."""
    stated, faults = dict[str, Any](), list[Fault]()
    for name in _STATED:
        if name in found.attributes.model_fields_set:
            try:
                stated[name] = made(getattr(found.attributes, name), (*ROOT, name), specs)
            except Misfit as misfit:
                faults.append(misfit.fault(found.document))
    faults += faults_of_name(found.document, "name", found.name)
    if isinstance(stated.get("tables"), tuple) and not stated["tables"]:
        faults.append(Fault.at(found.document, (*ROOT, "tables"), "tables must be a list of tables, or all"))
    return stated, faults


def _faults_of_actions(found: Draft) -> list[Fault]:
    """Return the faults of the actions of a declaration with other faults."""
    raw = found.document.value.get("attributes")
    stated = raw.get("actions") if isinstance(raw, dict) else None
    if not isinstance(stated, list) or not all(isinstance(each, dict) for each in stated):
        return []
    return _actions(stated, found.document, ())[1]


def _actions(raw: Sequence[Any], document: Document, tables: Sequence[TableSpec]) -> tuple[list[Action], list[Fault]]:
    done, faults = list[Action](), list[Fault]()
    for number, each in enumerate(raw):
        path: Path = (*ROOT, "actions", number)
        try:
            action, wrong = _action(each, document, path)
        except Misfit as misfit:
            action, wrong = None, [misfit.fault(document)]
        faults += wrong
        if action is None:
            continue
        if any(other.operation is action.operation for other in done):
            sentence = f"{action.operation.name} is there twice: leave one"
            faults.append(Fault.at(document, (*path, action.operation.name), sentence, key=True))
        faults += _of_columns(action, document, tables)
        done.append(action)
    return done, faults


def _action(raw: Mapping[str, Any], document: Document, path: Path) -> tuple[Action | None, list[Fault]]:
    keys = [key for key in raw if key != _GIVEN]
    if misspelt := [key for key in keys if key not in actions()]:
        return None, [Fault.at(document, (*path, key), _unknown(key), key=True) for key in misspelt]
    if len(keys) != 1:
        raise Misfit(path, f"an action must have one pattern, not {' and '.join(keys) or 'none'}")
    operation, here = actions()[keys[0]], (*path, keys[0])
    if raw[keys[0]] is None:
        raise Misfit(here, f"{keys[0]} is empty: write {{}} if it needs no options")
    given = _given(raw[_GIVEN], (*path, _GIVEN)) if _GIVEN in raw else None
    options, faults = validated(_model(operation, partly=given is not None), raw[keys[0]], document, here)
    if faults:
        return None, faults
    named: Mapping[str, Any] = made(options, here, {})
    for name, value in named.items():
        if inspect.isfunction(value):
            _require_facts(value, (*here, name), f"the function of {name}")
    try:
        require_options(operation.function, {key: v for key, v in named.items() if key in operation.options})
    except ConfigError as error:
        option = str(error).partition(" ")[0]
        raise Misfit((*here, option) if option in named else here, str(error)) from None
    return Action(path, operation, named, given), []


def _unknown(key: str) -> str:
    if key in operations():
        return f"{key} computes a table or takes rows: it stands in a step of a table"
    return unknown("pattern", key, (*actions(), _GIVEN))


def _given(name: Any, path: Path) -> Callable[..., Any]:  # noqa: ANN401 - any value
    if not isinstance(name, str) or ":" not in name:
        raise Misfit(path, f"given must be package.module:function, not {name!r:.60}")
    found = object_named(name, path)
    if not callable(found):
        raise Misfit(path, f"given must be a function, not {name}, a {type(found).__name__}")
    _require_facts(found, path, name)
    function: Callable[..., Any] = found
    return function


def _require_facts(function: Callable[..., Any], path: Path, named: str) -> None:
    for parameter in parameters_of(function, named, path):
        if parameter not in FACTS:
            raise Misfit(path, f"{named} takes {parameter}, which is no name here{suggestion(parameter, FACTS)}")


def _of_columns(action: Action, document: Document, tables: Sequence[TableSpec]) -> Iterator[Fault]:
    """Yield the faults of keys that a table does not have."""
    keys = action.options.get("keys")
    for number, column in enumerate(keys if isinstance(keys, tuple) else ()):
        for spec in tables:
            if column.lower() not in {each.lower() for each in spec.columns}:
                path = (*action.path, action.operation.name, "keys", number)
                yield Fault.at(document, path, unknown(f"column of {spec.name}", column, spec.columns))


def _of_start(upkeep: Upkeep, document: Document) -> Fault | None:
    """Return the fault of a start by plans without a plan among the actions."""
    if upkeep.plans or not isinstance(upkeep.when, OnPlan):
        return None
    plans = [name for name, each in actions().items() if each.kind == "plan"]
    return Fault.at(document, (*ROOT, "actions"), f"actions must have a plan for on_plan, like {plans[0]}")
