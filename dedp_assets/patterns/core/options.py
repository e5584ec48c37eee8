"""Options: types of a pattern's arguments, checked against the signature before the call begins.

The annotations are the rules, so that no pattern repeats them: a text is no list of texts, a truth is no number, a
number is finite and fits 64 bits, a time has a zone, a name is not empty. What an annotation cannot say (a column that
the rows do not have, an end before its beginning) the pattern refuses itself.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import date, datetime
from functools import cache, partial, wraps
from inspect import Parameter, Signature, signature, unwrap
from math import isfinite
from types import UnionType
from typing import Any, Literal, ParamSpec, TypeVar, Union, get_args, get_origin, get_type_hints

from pyspark.sql import DataFrame

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.names import half_character

__all__ = ["LONGEST_SECONDS", "require_options", "require_types", "typed"]

P = ParamSpec("P")
R = TypeVar("R")

LONGEST_SECONDS = 1e12
"""Longest span of time that an option may state, in seconds: over 30,000 years, and no more than Spark can add up."""
_MOST = 2**63 - 1
_UNITS = {"_seconds": LONGEST_SECONDS, "_hours": LONGEST_SECONDS / 3600}
"""Suffix of an option's name -> maximum of the option's value."""

Misfit = Callable[[object], str]
"""Rule of a type: the description of a valid value, or an empty text for a valid value."""


def typed(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate ``function`` with a check of each call's arguments against the annotations.

    Raises:
        ConfigError: names the option, what it must be, and what it is.

    Example:
        >>> @typed
        ... def take(*, keys: Sequence[str], most: int = 1) -> None: ...
        >>> take(keys="id")
        Traceback (most recent call last):
        dedp_assets.patterns.core.errors.ConfigError: keys must be a list of texts, not 'id'
    """

    @wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        declared, rules = _rules_of(function)
        try:
            given = declared.bind(*args, **kwargs).arguments
        except TypeError:  # an argument that is missing, or unknown: Python says which, as of any function
            return function(*args, **kwargs)
        for name, value in given.items():
            several = declared.parameters[name].kind is Parameter.VAR_POSITIONAL
            for each in value if several else (value,):
                _require(name, each, rules[name])
        return function(*args, **kwargs)

    return checked


def require_options(function: Callable[..., object], options: Mapping[str, object]) -> None:
    """Refuse options of a function that do not match the annotations, without a call.

    Raises:
        ConfigError: as a call of a :func:`typed` function.
    """
    _, rules = _rules_of(unwrap(function))
    for name, value in options.items():
        _require(name, value, rules[name])


def require_types(record: object) -> None:
    """Refuse a dataclass instance with a field value that does not match the class's annotation.

    Raises:
        ConfigError: names the field, what it must be, and what it is.
    """
    cls: Any = type(record)
    for name, rule in _fields_of(cls).items():
        value = getattr(record, name)
        if rule(value):
            _require(f"{cls.__name__}.{name}", value, rule)


def _require(name: str, value: object, rule: Misfit) -> None:
    if wanted := rule(value):
        raise ConfigError(f"{name} must be {wanted}, not {_shown(value, hidden=_takes_objects(rule))}")


def _shown(value: object, *, hidden: bool) -> str:
    """Write a value for an error message: simple values by repr, other or ``hidden`` values by their type."""
    simple = isinstance(value, str | bytes | bool | int | float | date | list | tuple | set | dict | None)
    if simple and not hidden:
        return repr(value) if isinstance(value, date) else reprlib.repr(value)
    library, kind = type(value).__module__.partition(".")[0], type(value).__name__
    named = kind if library == "builtins" else f"{library} {kind}"
    return f"an {named}" if named[0] in "aeiou" else f"a {named}"


def _takes_objects(rule: Misfit) -> bool:
    """Return whether an option takes objects, whose values errors do not show because of secrets."""
    if not isinstance(rule, partial):
        return False
    return rule.func is _instance or (rule.func is _any_of and any(map(_takes_objects, rule.args[0])))


@cache
def _rules_of(function: Callable[..., object]) -> tuple[Signature, Mapping[str, Misfit]]:
    """Resolve a function's annotations at the first call, to save time on import."""
    declared, kinds = signature(function), get_type_hints(function)
    empty = {name for name, parameter in declared.parameters.items() if parameter.default == ""}
    # Of a method, "self" has no annotation.
    return declared, {name: _rule(kinds.get(name, object), name, empty=name in empty) for name in declared.parameters}


@cache
def _fields_of(record: Any) -> Mapping[str, Misfit]:  # noqa: ANN401 - a class
    return {name: _rule(kind, name, empty=True) for name, kind in get_type_hints(record).items()}


def _rule(kind: Any, name: str, *, empty: bool) -> Misfit:  # noqa: ANN401 - an annotation is of no one type
    """Make the rule of an annotation; ``empty`` allows an empty text."""
    inner = get_args(kind)
    if kind in _PLAIN:
        return partial(_PLAIN[kind], most=next((most for unit, most in _UNITS.items() if name.endswith(unit)), _MOST))
    if kind is str:
        return partial(_text, empty=empty)
    if get_origin(kind) is Literal:
        return partial(_one_of, inner)
    if get_origin(kind) in (Union, UnionType):
        return partial(_any_of, [_rule(each, name, empty=empty) for each in inner])
    return _of_several(get_origin(kind) or kind, inner, name)


def _of_several(origin: Any, inner: Sequence[Any], name: str) -> Misfit:  # noqa: ANN401 - as above
    """Make the rule of a collection, a mapping, a callable or a class."""
    if origin is tuple and Ellipsis not in inner:
        return partial(_row, [_rule(each, name, empty=False) for each in inner])
    if origin is Mapping:
        return partial(_mapping, *[_rule(each, name, empty=True) for each in inner])
    if origin in (Sequence, tuple, Collection, Iterable):
        # Names of columns come in order; what is only contained in something may be a key of any kind.
        return partial(_several, origin, _rule(inner[0], name, empty=origin not in (Sequence, tuple)))
    if origin is Callable:
        return _callable
    return partial(_instance, origin) if origin not in (object, Any) else _anything


def _anything(value: object) -> str:  # noqa: ARG001 - as every rule
    return ""


def _nothing(value: object, **_: float) -> str:
    return "" if value is None else "None"


def _truth(value: object, **_: float) -> str:
    return "" if isinstance(value, bool) else "True or False"


def _whole(value: object, *, most: float) -> str:
    if isinstance(value, bool) or not isinstance(value, int):
        return "a whole number"
    return "" if -most <= value <= most else f"a whole number of at most {most:g}"


def _number(value: object, *, most: float) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "a number"
    if isinstance(value, float) and not isfinite(value):
        return "a finite number"
    if isinstance(value, float) and most == _MOST:  # the option's name states no unit: only integers have a maximum
        return ""
    return "" if -most <= value <= most else f"a number of at most {most:g}"


def _moment(value: object, **_: float) -> str:
    return "" if isinstance(value, datetime) and value.utcoffset() is not None else "a datetime with a time zone"


def _day(value: object, **_: float) -> str:
    return "" if isinstance(value, date) and not isinstance(value, datetime) else "a date"


_PLAIN: Mapping[Any, Callable[..., str]] = {
    type(None): _nothing,
    bool: _truth,
    int: _whole,
    float: _number,
    datetime: _moment,
    date: _day,
}


def _text(value: object, *, empty: bool) -> str:
    if not isinstance(value, str):
        return "a text"
    if half_character(value):
        return "a text of whole characters"
    return "" if value or empty else "a text that is not empty"


def _one_of(known: Sequence[object], value: object) -> str:
    same = any(type(each) is type(value) and each == value for each in known)
    return "" if same else _alternatives([str(each) for each in known])


def _any_of(rules: Sequence[Misfit], value: object) -> str:
    wanted = []
    for rule in rules:
        if not (misfit := rule(value)):
            return ""
        wanted.append(misfit)
    return _alternatives(dict.fromkeys(each for each in wanted if each != "None"))


def _alternatives(words: Iterable[str]) -> str:
    *first, last = words
    return f"{', '.join(first)} or {last}" if first else last


def _row(rules: Sequence[Misfit], value: object) -> str:
    wanted = f"{len(rules)} values"
    if not isinstance(value, list | tuple) or len(value) != len(rules):
        return wanted
    misfits = [rule(each) for rule, each in zip(rules, value, strict=True)]
    return f"{wanted}, each {_alternatives(dict.fromkeys(filter(None, misfits)))}" if any(misfits) else ""


def _callable(value: object) -> str:
    return "" if callable(value) else "a function"


def _mapping(keys: Misfit, values: Misfit, value: object) -> str:
    if not isinstance(value, Mapping):
        return "a mapping"
    if wanted := next(filter(None, map(keys, value)), ""):
        return f"a mapping whose keys are each {wanted}"
    wanted = next(filter(None, map(values, value.values())), "")
    return f"a mapping whose values are each {wanted}" if wanted else ""


def _several(kind: type, each: Misfit, value: object) -> str:
    wanted = "a list of texts" if isinstance(each, partial) and each.func is _text else "a list"
    if isinstance(value, str | bytes | bytearray | DataFrame) or not isinstance(value, kind):
        return wanted
    if not isinstance(value, Collection):
        return ""  # an iterator is read once, by who asked for it
    inside = next(filter(None, map(each, value)), "")
    return f"a list of which each is {inside}" if inside else ""


def _instance(kind: type, value: object) -> str:
    if getattr(kind, "_is_protocol", False):
        missing = [name for name in vars(kind) if not name.startswith("_") and not hasattr(value, name)]
        return f"a {kind.__name__}, which has {', '.join(missing)}" if missing else ""
    if isinstance(value, kind):
        return ""
    return "a Spark DataFrame (session.createDataFrame makes one)" if kind is DataFrame else f"a {kind.__name__}"
