"""Calls of patterns by way of a file: arguments written as YAML, validated, and run as a step or an action."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from datetime import date, datetime
from types import SimpleNamespace
from typing import Any

import yaml

from dedp_assets.components.chains.chaining import steps_of
from dedp_assets.components.chains.known import StepScope
from dedp_assets.components.chains.operations import StepOperation
from dedp_assets.components.chains.steps import Chain
from dedp_assets.components.tending import acting
from dedp_assets.components.tending.upkeep import At
from dedp_assets.components.yaml.documents import documents
from dedp_assets.components.yaml.model import OneOf, PythonName, inside, models_in
from dedp_assets.patterns.core.results import WriteResult
from dedp_assets.patterns.core.schema import TableSpec
from tests.helpers import NOW

HELD = SimpleNamespace()
"""Objects that no data states, under Python names; and the result of a chain without a write."""
FIRST = "upstream"
_HERE = "tests.components.in_yaml:HELD"
_NOWHERE = SimpleNamespace(name="silver/none", partition={}, table=SimpleNamespace(spec=TableSpec("silver/none", {})))


class _Every(frozenset):  # type: ignore[type-arg]
    """The checks of a table that has each."""

    def __contains__(self, _name: object) -> bool:
        return True


def keep_rows(rows: Any) -> WriteResult:
    """Hold the rows of the step before, in the place of a write."""
    HELD.kept = rows
    return WriteResult("silver/none", 0, applied=False, changed=False, reason="held")


def keep_found(found: Any) -> WriteResult:
    """Hold an inspection or a plan, in the place of a write."""
    return keep_rows(found)


def called(operation: StepOperation, *args: Any, **kwargs: Any) -> Any:
    """Call an operation by way of a file."""
    given = inspect.signature(operation.function).bind(*args, **kwargs).arguments
    vars(HELD).clear()
    return (_as_action if is_run_as_action(operation) else _as_step)(operation, given)


def is_run_as_action(operation: StepOperation) -> bool:
    """Whether the arguments come from a table or from the user at the run, and from no step."""
    roles = set(operation.data.values())
    by_itself = operation.name in acting.actions() and roles != {"object"}
    return not roles & {"rows", "table"} and (by_itself or operation.kind in ("plan", "inspect", "access"))


def _as_step(operation: StepOperation, given: Mapping[str, Any]) -> Any:
    stated, pinned, beside = _arguments(operation, given)
    into = next((given[name] for name, role in operation.data.items() if role == "into"), _NOWHERE)
    aside = operation.is_aside
    step: dict[str, Any] = {operation.name: stated, **({"as": "found"} if aside else {})}
    step |= {"from": FIRST} if FIRST in pinned else {}
    last = {"python": f"tests.components.in_yaml:keep_{'found' if aside else 'rows'}"}
    text = yaml.safe_dump({"steps": [step] if operation.kind == "write" else [step, last]}, sort_keys=False)
    (document,) = documents(text, "defs.yaml")
    known = StepScope(
        into.table.spec, {name: TableSpec(name, {}) for name in pinned}, {e.name: e.table.spec for e in beside}
    )
    made, faults = steps_of(document.value["steps"], document, ("steps",), known)
    assert faults == [], list(map(str, faults))
    specs = [each.table.spec for each in beside]
    chain = Chain(into.name, made, known.upstream, specs, checks=_Every(), first=False)
    result = chain.run(list(pinned.values()), [into, *beside])
    return result if operation.kind == "write" else HELD.kept


def _arguments(operation: StepOperation, given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any], list[Any]]:
    """The options as YAML, upstream tables by name, and further targets."""
    stated = {name: _stated(operation, name, value) for name, value in given.items() if name in operation.options}
    pinned, beside = dict[str, Any](), list[Any]()
    for name, role in operation.data.items():
        value = given.get(name)
        if value is None:
            continue
        if role in ("rows", "table"):
            pinned[FIRST] = _pinned(value)
        elif role == "earlier":
            stated[name] = f"earlier_{name}"
            pinned[f"earlier_{name}"] = _pinned(value)
        elif role == "frames":
            stated[name] = {key: f"{name}_{number}" for number, key in enumerate(value)}
            pinned |= {f"{name}_{number}": _pinned(each) for number, each in enumerate(value.values())}
        elif role in ("beside", "besides"):
            stated[name] = {k: each.name for k, each in value.items()} if role == "besides" else value.name
            beside += value.values() if role == "besides" else [value]
        elif role == "object":
            stated[name] = _held(name, value)
    return stated, pinned, beside


def _as_action(operation: StepOperation, given: Mapping[str, Any]) -> Any:
    stated = {name: _stated(operation, name, value) for name, value in given.items() if name in operation.options}
    more = {
        name: given[name] for name, role in operation.over.items() if role in ("object", "earlier") and name in given
    }
    HELD.given = lambda: more
    action = {operation.name: stated, **({"given": f"{_HERE}.given"} if more else {})}
    attributes = {
        "name": "platform/x",
        "owner": "team:x",
        "tables": "all",
        "when": {"on_request": {}},
        "actions": [action],
    }
    (document,) = documents(yaml.safe_dump({"type": "x", "attributes": attributes}, sort_keys=False), "defs.yaml")
    upkeep, faults = acting.declare(acting.draft(document), {})
    assert faults == [], list(map(str, faults))
    by_role = {role: given.get(name) for name, role in operation.over.items()}
    into = by_role.get("into")
    table = into.table if into else by_role.get("table") or SimpleNamespace(ledger=by_role.get("ledger"))
    return upkeep.actions[0].on(At(table, None, NOW, into.run if into else None))  # type: ignore[arg-type]


def _pinned(value: Any) -> Any:
    return SimpleNamespace(rows=lambda: value, table=value, version=None, partitions=())


def _held(name: str, value: Any) -> str:
    setattr(HELD, name, value)
    return f"{_HERE}.{name}"


def _stated(operation: StepOperation, name: str, value: Any) -> Any:
    """Write an option as YAML says it: by its name in Python where no data states it."""
    kind = operation.model.model_fields[name].annotation
    if kind is PythonName:
        return _held(name, value)
    held = [kind, *inside(kind)]  # the option, and the values of a list or a mapping
    choices = [each for one in held for each in models_in(one) if issubclass(each, OneOf)]
    return plain(value, choices[0] if choices else None)


def plain(value: Any, choice: Any = None) -> Any:
    """Write a value of an option as YAML: a record as a mapping, a list, a mapping, or a plain value.

    A record that is one of several kinds, also within a list or a mapping, has the key of its kind.
    """
    if is_dataclass(value):
        stated = {f.name: plain(getattr(value, f.name)) for f in fields(value) if f.init and not _is_default(value, f)}
        return {_key(choice, value): stated} if choice else stated
    if isinstance(value, Mapping):
        return {key: plain(each, choice) for key, each in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(each, choice) for each in value]
    return value.isoformat() if isinstance(value, (date, datetime)) else value


def _is_default(value: Any, field: Any) -> bool:
    default = field.default_factory() if field.default_factory is not MISSING else field.default
    return getattr(value, field.name) == default


def _key(choice: Any, value: Any) -> str:
    """Return the key of a record among the alternatives of an option."""
    kinds = {name: each.annotation for name, each in choice.model_fields.items()}
    (key,) = [name for name, kind in kinds.items() if getattr(kind, "makes", None) is type(value)]
    return key
