"""Models of a file's attributes, built from the declaration's records and the patterns' signatures.

Nothing is declared twice: a model's options, types and defaults are those of a dataclass or of a function, and their
help is its docstring's. A model is strict, and refuses an option that it does not know. What it holds is made by
:func:`made` into the same objects that Python would hold.
"""

from __future__ import annotations

import inspect
import re
import sys
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from datetime import date, datetime
from functools import cache
from types import MappingProxyType, NoneType, UnionType
from typing import Annotated, Any, ClassVar, Literal, Union, get_args, get_origin, get_type_hints

from docstring_parser import parse
from pydantic import AwareDatetime, BaseModel, ConfigDict, Discriminator, Field, Tag, create_model, model_validator
from pydantic_core import PydanticCustomError, core_schema

__all__ = [
    "Name", "OneOf", "Options", "PythonName", "TableName", "choice", "create", "field_of", "help_of", "inside",
    "model_of", "models_in", "options_of", "stands_for", "type_of",
]  # fmt: skip

_CALLABLE = get_origin(Callable[..., Any])
_SEVERAL = (Sequence, Collection, Iterable, tuple, list)
_WORDS = {"text": "a text", "mapping": "a mapping", "list": "a list", "number": "a number", "truth": "true or false"}
_JSON = {"text": "string", "mapping": "object", "list": "array", "number": "number", "truth": "boolean"}


class Options(BaseModel):
    """Options of a record or of a function."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)
    makes: ClassVar[Callable[..., Any]]

    @classmethod
    def model_json_schema(cls, *args: Any, **options: Any) -> dict[str, Any]:  # noqa: ANN401 - as pydantic's
        """Return the JSON schema, with ``items`` in every array, which Dagster's sample of a file asks for."""
        schema: dict[str, Any] = _with_items(super().model_json_schema(*args, **options))
        return schema


class OneOf(BaseModel):
    """A mapping with one key, which names one of several alternatives."""

    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, json_schema_extra={"minProperties": 1, "maxProperties": 1}
    )

    @model_validator(mode="after")
    def _is_one(self) -> OneOf:
        if len(self.model_fields_set) != 1:
            named = ", ".join(sorted(self.model_fields_set)) or "nothing"
            sentence = "must have one of {known}, not {named}"
            raise PydanticCustomError("one_of", sentence, {"known": ", ".join(type(self).model_fields), "named": named})
        return self


class Name(str):
    """A text that stands for an object."""

    __slots__ = ()
    pattern: ClassVar[str] = "."

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: object, _handler: object) -> core_schema.CoreSchema:
        """Validate a text as a name of this class."""
        return core_schema.no_info_after_validator_function(cls, core_schema.str_schema(pattern=cls.pattern))


class TableName(Name):
    """Name of a declared table, ``layer/dataset``."""

    __slots__ = ()


class PythonName(Name):
    """Name of a Python object, ``package.module:name``."""

    __slots__ = ()
    pattern: ClassVar[str] = r"^[^:\s]+:[^:\s]+$"


_STANDS_FOR: dict[Any, Callable[[], Any]] = {date: lambda: date, datetime: lambda: AwareDatetime}
"""Type of an option -> maker of the type that a file says the option in, where the two differ."""


def stands_for(kind: Any, maker: Callable[[], Any]) -> None:  # noqa: ANN401 - a type
    """Register the type that a file says a value of ``kind`` in."""
    _STANDS_FOR[kind] = maker


@cache
def model_of(makes: Callable[..., Any]) -> type[Options]:
    """Return the model of a dataclass, or of the options of a function."""
    helps, kinds = help_of(makes), _kinds_of(makes)
    fields: dict[str, Any] = {}
    for name, parameter in inspect.signature(makes).parameters.items():
        fields[name] = field_of(kinds[name], parameter.default, helps.get(name, ""))
    return create(makes.__name__, fields, _summary(makes), makes)


def create(title: str, fields: Mapping[str, Any], text: str, makes: Callable[..., Any] | None = None) -> type[Options]:
    """Create the model of options.

    Args:
        title: name of the model.
        fields: option -> type and description.
        text: description of the model.
        makes: what is called with the options; by default they stay a mapping.
    """
    made = _created(title, Options, text, fields)
    made.makes = makes or _mapping
    return made  # type: ignore[no-any-return]


def _created(title: str, base: type[BaseModel], text: str, fields: Mapping[str, Any]) -> Any:  # noqa: ANN401 - a model
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Field name")  # an option called like a method of pydantic: "schema", "json"
        return create_model(title, __base__=base, __doc__=text or None, **fields)


def _mapping(**options: Any) -> dict[str, Any]:  # noqa: ANN401 - as stated
    return options


def field_of(kind: Any, default: Any, text: str) -> tuple[Any, Any]:  # noqa: ANN401 - a type and a value of it
    """Return type and description of an option; one with a default may be left out, and is never null."""
    if default is inspect.Parameter.empty:
        return type_of(kind), Field(description=text or None)
    shown = isinstance(default, str | int | float | bool)
    stated: dict[str, Any] = {"default": default} if shown else {"default_factory": lambda: None}
    return type_of(kind), Field(description=text or None, **stated)


def choice(title: str, alternatives: Mapping[str, Any], text: str = "") -> type[OneOf]:
    """Return the model of a mapping with one key out of several.

    Args:
        title: name of the model.
        alternatives: key -> the type of its value.
        text: description of the choice.
    """
    fields: dict[str, Any] = {name: (kind, Field(default_factory=lambda: None)) for name, kind in alternatives.items()}
    return _created(title, OneOf, text, fields)  # type: ignore[no-any-return]


def type_of(kind: Any) -> Any:  # noqa: ANN401 - types
    """Return the type that a file says a value of an annotation in."""
    origin, inner = get_origin(kind) or kind, get_args(kind)
    if maker := _STANDS_FOR.get(origin):
        return maker()
    if kind in (str, int, float, bool) or origin is Literal:
        return kind
    if origin in (Union, UnionType):
        return _union([each for each in inner if each is not NoneType])
    return _type_of_several(kind, origin, inner)


def _type_of_several(kind: Any, origin: Any, inner: Sequence[Any]) -> Any:  # noqa: ANN401 - types
    """Return the type of a list, a mapping, a record, or an object that no data states."""
    if origin is tuple and Ellipsis not in inner:
        return tuple[tuple(type_of(each) for each in inner)]  # type: ignore[misc]
    if origin in _SEVERAL:
        return tuple[type_of(inner[0]), ...]  # type: ignore[misc]
    if origin in (Mapping, dict):
        return dict[type_of(inner[0]), type_of(inner[1])]  # type: ignore[misc]
    return model_of(kind) if isinstance(kind, type) and is_dataclass(kind) and _is_stated(kind) else PythonName


@cache
def _is_stated(kind: Any) -> bool:  # noqa: ANN401 - a type
    """Return whether YAML can state every value of a type: texts, numbers, lists, mappings and records."""
    origin = get_origin(kind) or kind
    if origin in _STANDS_FOR or origin in (str, int, float, bool, NoneType, Literal, Ellipsis, Callable, _CALLABLE):
        return True
    if isinstance(kind, type) and is_dataclass(kind):
        return all(map(_is_stated, get_type_hints(kind).values()))
    return origin in (Union, UnionType, Mapping, dict, *_SEVERAL) and all(map(_is_stated, get_args(kind)))


def help_of(documented: Callable[..., Any]) -> dict[str, str]:
    """Return the description of each option from a docstring, by name."""
    found = parse(inspect.getdoc(documented) or "").params
    return {each.arg_name: " ".join((each.description or "").split()) for each in found}


def options_of(
    function: Callable[..., Any], names: Iterable[str], narrowed: Mapping[str, Any] = MappingProxyType({})
) -> dict[str, tuple[Any, Any]]:
    """Return the fields of some of a function's options, by name.

    Args:
        function: the function.
        names: its options.
        narrowed: option -> type that a file says it in, where that is a narrower one than the function's.
    """
    parameters, helps = inspect.signature(function).parameters, help_of(function)
    kinds = {**_kinds_of(function, names), **narrowed}
    return {name: field_of(kinds[name], parameters[name].default, helps.get(name, "")) for name in names}


def _kinds_of(makes: Callable[..., Any], names: Iterable[str] = ()) -> dict[str, Any]:
    """Return the types of parameters; types of data may be imported for type checkers alone."""
    if isinstance(makes, type):
        return get_type_hints(makes)
    plain = inspect.unwrap(makes)
    stated = {name: plain.__annotations__[name] for name in names or inspect.signature(makes).parameters}
    room = vars(sys.modules[plain.__module__])
    # `eval` of an annotation, as `get_type_hints` does it.
    return {name: eval(kind, room) if isinstance(kind, str) else kind for name, kind in stated.items()}  # noqa: S307


def _union(kinds: Sequence[Any]) -> Any:  # noqa: ANN401 - types
    """Return the type of an option with alternatives, chosen by the YAML type of the value."""
    records = [kind for kind in kinds if isinstance(kind, type) and is_dataclass(kind)]
    if len(records) > 1:
        named = {_snake(kind.__name__): type_of(kind) for kind in records}
        rest = [kind for kind in kinds if kind not in records]
        return _by_shape([choice("OneOf_" + "_".join(named), named), *map(type_of, rest)])
    return _by_shape(list(map(type_of, kinds)))


def _by_shape(kinds: Sequence[Any]) -> Any:  # noqa: ANN401 - types
    if len(kinds) == 1:
        return kinds[0]
    shapes: dict[str, Any] = {}
    for kind in kinds:
        shape = _shape_of(kind)
        shapes[shape] = Union[shapes[shape], kind] if shape in shapes else kind  # noqa: UP007 - types are values here
    if len(shapes) == 1:
        return next(iter(shapes.values()))
    tagged = tuple(Annotated[kind, Tag(_WORDS[shape])] for shape, kind in shapes.items())
    return Annotated[Union[tagged], Discriminator(_shape), _ByShape(tuple(_JSON[each] for each in shapes))]  # noqa: UP007


@dataclass(frozen=True)
class _ByShape:
    """Writes alternatives so that an editor's error is about the one that a value has the shape of."""

    shapes: Sequence[str]

    def __get_pydantic_json_schema__(self, schema: core_schema.CoreSchema, handler: Any) -> dict[str, Any]:  # noqa: ANN401
        alternatives = handler(schema)["oneOf"]
        rules = [{"if": {"type": s}, "then": each} for s, each in zip(self.shapes, alternatives, strict=True)]
        return {"type": list(self.shapes), "allOf": rules}


def _with_items(schema: Any) -> Any:  # noqa: ANN401 - any part of a schema
    if isinstance(schema, list):
        return [_with_items(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {name: _with_items(each) for name, each in schema.items()}
    if found.get("type") == "array":
        # Of a tuple, `prefixItems` says what stands at each place, and lengths how many there are.
        found.setdefault("items", {})
    return found


def _shape(value: object) -> str:
    """Name the type of a value of YAML."""
    if isinstance(value, bool):
        return _WORDS["truth"]
    shapes = ((str, "text"), (dict | BaseModel, "mapping"), (list | tuple, "list"), (int | float, "number"))
    return next((_WORDS[shape] for kind, shape in shapes if isinstance(value, kind)), "nothing")


def _shape_of(kind: Any) -> str:  # noqa: ANN401 - a type
    """Name the YAML type of a Python type."""
    origin = get_origin(kind) or kind
    if origin in (tuple, list):
        return "list"
    if origin is dict or (isinstance(kind, type) and issubclass(kind, BaseModel)):
        return "mapping"
    if kind is bool:
        return "truth"
    return "number" if kind in (int, float) else "text"


def _summary(makes: Callable[..., Any]) -> str:
    return (inspect.getdoc(makes) or "").partition("\n\n")[0].replace("\n", " ")


def _snake(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def models_in(kind: Any) -> Iterator[type[BaseModel]]:  # noqa: ANN401 - a type
    """Yield the models that a value of a type may be of."""
    if get_origin(kind) in (Annotated, Union, UnionType):
        for each in get_args(kind):
            yield from models_in(each)
    elif isinstance(kind, type) and issubclass(kind, BaseModel):
        yield kind


def inside(kind: Any) -> Iterator[Any]:  # noqa: ANN401 - types
    """Yield the types of the elements of a list or mapping type."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Annotated, Union, UnionType):
        for each in inner:
            yield from inside(each)
    elif origin in (tuple, list, dict):
        yield inner[-1] if origin is dict else inner[0]
