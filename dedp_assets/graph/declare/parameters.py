"""Parameters of a table's functions: run inputs and outputs by type, resources by name."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, get_type_hints

from dedp_assets.patterns.core.errors import ConfigError

__all__ = ["Given", "arguments", "resources_of"]

Given = Mapping[type, Sequence[Any]]
"""Type of a parameter -> values for the parameters of this type, in their order."""


def arguments(function: Callable[..., Any], given: Given, more: Mapping[str, Any]) -> dict[str, Any]:
    """Match the parameters of a function with the values: by type and order, or else by name."""
    kinds = get_type_hints(function)
    left = {kind: iter(values) for kind, values in given.items()}
    return {name: next(left[kinds[name]]) if kinds.get(name) in left else more[name] for name in _parameters(function)}


def resources_of(table: str, function: Callable[..., Any], counts: Mapping[type, int]) -> set[str]:
    """List the parameters that are resources.

    Raises:
        ConfigError: if the function has more parameters of a type than the declaration has values for.
    """
    kinds = [get_type_hints(function).get(name) for name in _parameters(function)]
    for kind, count in counts.items():
        if kinds.count(kind) > count:
            raise ConfigError(
                f"{function.__name__} takes {kinds.count(kind)} parameters of type {kind.__name__}, but {table} "
                f"declares {count}: name the others in beside= or reads="
            )
    return {name for name, kind in zip(_parameters(function), kinds, strict=True) if kind not in counts}


def _parameters(function: Callable[..., Any]) -> list[str]:
    return list(inspect.signature(function).parameters)
