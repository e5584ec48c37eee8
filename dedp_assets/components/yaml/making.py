"""Objects made of validated attributes, as in Python, with the place of each faulty part."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any

from dedp_assets.components.yaml.documents import Path
from dedp_assets.components.yaml.faults import Misfit
from dedp_assets.components.yaml.model import OneOf, Options, PythonName, TableName
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.schema import TableSpec
from dedp_assets.patterns.core.sql.suggestions import unknown

__all__ = ["made", "object_named", "parameters_of"]


def made(value: Any, path: Path, specs: Mapping[str, TableSpec | None]) -> Any:  # noqa: ANN401 - any part of a declaration
    """Make the object that a validated value states.

    Args:
        value: options, a choice, a name, a list, a mapping or a plain value.
        path: keys that lead to the value.
        specs: declared tables by name; ``None`` for one whose declaration cannot be read.

    Raises:
        Misfit: for a name that nothing has, and for options that no object can have.
    """
    if isinstance(value, TableName):
        return _spec_of(value, path, specs)
    if isinstance(value, PythonName):
        return object_named(value, path)
    if isinstance(value, OneOf):
        (name,) = value.model_fields_set
        return made(getattr(value, name), (*path, name), specs)
    if isinstance(value, Options):
        given = {name: made(getattr(value, name), (*path, name), specs) for name in sorted(value.model_fields_set)}
        return _call(type(value).makes, given, path)
    if isinstance(value, dict):
        return {made(key, (*path, key), specs): made(each, (*path, key), specs) for key, each in value.items()}
    return tuple(made(each, (*path, n), specs) for n, each in enumerate(value)) if isinstance(value, tuple) else value


def object_named(name: str, path: Path) -> Any:  # noqa: ANN401 - any object
    """Import the object behind ``package.module:name``.

    Raises:
        Misfit: says what is missing, with the nearest name of the module.
    """
    module, _, attribute = name.partition(":")
    try:
        found: Any = importlib.import_module(module)
    except Exception as error:
        raise Misfit(path, f"{module} cannot be imported: {error}") from None
    for part in attribute.split("."):
        if not hasattr(found, part):
            near = get_close_matches(part, dir(found), 1)
            raise Misfit(path, f"{module} has no {part}" + (f": did you mean {near[0]}?" if near else ""))
        found = getattr(found, part)
    return found


def parameters_of(function: Callable[..., Any], named: str, path: Path) -> Mapping[str, inspect.Parameter]:
    """Return the parameters of a function that a file names.

    Raises:
        Misfit: if Python knows no parameters, as of some built-in types.
    """
    try:
        return inspect.signature(function).parameters
    except (ValueError, TypeError):
        raise Misfit(path, f"{named} must be a function with parameters that Python knows") from None


def _spec_of(name: str, path: Path, specs: Mapping[str, TableSpec | None]) -> TableSpec:
    is_key = bool(path) and path[-1] == name
    if name not in specs:
        raise Misfit(path, unknown("table", str(name), specs), key=is_key)
    if (found := specs[name]) is None:
        raise Misfit(path, f"{name} cannot be read, as its own declaration has faults: mend those first", key=is_key)
    return found


def _call(makes: Callable[..., Any], given: Mapping[str, Any], path: Path) -> Any:  # noqa: ANN401 - any object
    try:
        # As people call it: feeds that are made by one call are one object.
        bound = inspect.signature(makes).bind(**given)
        return makes(*bound.args, **bound.kwargs)
    except Misfit:
        raise
    except ConfigError as error:
        raise Misfit((*path, *_option(str(error), given)), str(error)) from None
    except (ValueError, TypeError, OverflowError) as error:  # Dagster's partitions, Python's dates
        raise Misfit(path, str(error)) from None
    except Exception as error:
        if not type(error).__module__.startswith("dagster"):
            raise
        raise Misfit(path, str(error).strip().splitlines()[0]) from None


def _option(sentence: str, given: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the option at the beginning of a sentence like ``X must be Y, not Z``."""
    words = [part.partition(" ")[0].rpartition(".")[2].strip("=:,") for part in sentence.split(": ")]
    return next(((word,) for word in words if word in given), ())
