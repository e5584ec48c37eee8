"""Avro: readability of one schema's data by another schema, by the rules of schema resolution."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

from dedp_assets.patterns.connectors.encoding.avro_schemas import full_name
from dedp_assets.patterns.core.parsing.strict_json import parse_json
from dedp_assets.patterns.core.types.widening import is_widening
from dedp_assets.patterns.quality._compatibility.incompatibility import Pairs, Problem, all_problems, at, below

__all__ = ["AvroType", "problems", "read"]

_PRIMITIVE = {"null", "boolean", "int", "long", "float", "double", "bytes", "string"}
_STORED = {"int": "integer", "bytes": "binary"}
"""Type name of Avro -> type name of the Delta log, for types with two names."""
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_FULL_NAME = re.compile(r"(?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*", re.ASCII)
_SAME_TEXTS = {"uuid"}
"""Logical types that change no value: a reader without one reads the same texts."""
_DEFAULTS: Mapping[str, Callable[[Any], bool]] = {
    "null": lambda value: value is None,
    "boolean": lambda value: isinstance(value, bool),
    "int": lambda value: isinstance(value, int) and not isinstance(value, bool) and -(2**31) <= value < 2**31,
    "long": lambda value: isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63,
    **dict.fromkeys(("float", "double"), lambda value: isinstance(value, int | float) and not isinstance(value, bool)),
    **dict.fromkeys(("bytes", "string", "fixed", "enum"), lambda value: isinstance(value, str)),
}
"""Avro type -> test of a JSON default value."""


@dataclass(eq=False, slots=True)
class AvroType:
    """A type of a schema; a named type is one shared object.

    Attributes:
        kind: ``record``, ``union``, ``int`` and so on.
        name: full name of a record, an enum or a fixed.
        aliases: full names of earlier schemas that the type also reads.
        fields: of a record.
        parts: types of a union, of the items of an array, of the values of a map.
        symbols: of an enum.
        default: of an enum, the symbol for a symbol that it does not know.
        size: of a fixed, in bytes.
        logical: logical type with its scale and precision; a reader need not know one.
    """

    kind: str
    name: str = ""
    aliases: frozenset[str] = frozenset()
    fields: tuple[AvroField, ...] = ()
    parts: tuple[AvroType, ...] = ()
    symbols: tuple[str, ...] = ()
    default: str = ""
    size: int = 0
    logical: tuple[str, int, int] = ("", 0, 0)

    @property
    def shown(self) -> str:
        """Name of the type in messages."""
        return self.name.rpartition(".")[2] or ("union" if self.kind == "union" else self.kind)


@dataclass(frozen=True, eq=False, slots=True)
class AvroField:
    """A field of a record."""

    name: str
    aliases: tuple[str, ...]
    node: AvroType
    has_default: bool


def read(text: str) -> AvroType:
    """Read a schema.

    Raises:
        ValueError: for a text that is no valid Avro schema; says where.
    """
    try:
        stated = parse_json(text)
    except ValueError as error:
        stated = text if text in _PRIMITIVE else _refuse(f"{text[:60]!r} is no JSON: {error}")
    return _SchemaParser().node(stated, "", "")


def problems(reader: AvroType, writer: AvroType, *, logical_types: bool = False) -> list[Problem]:
    """List the obstacles to reading data of ``writer`` by ``reader``, logical types included if asked."""
    return all_problems(lambda pairs: _Resolution(logical_types, pairs).unread(reader, writer))


@dataclass
class _Resolution:
    """A walk through two schemas."""

    logical_types: bool
    pairs: Pairs

    def unread(self, reader: AvroType, writer: AvroType) -> list[Problem]:
        if writer.kind == "union":
            return [problem for branch in writer.parts for problem in self.unread(reader, branch)]
        if reader.kind == "union":
            return self._in_union(reader, writer)
        if not is_widening(_STORED.get(writer.kind, writer.kind), _STORED.get(reader.kind, reader.kind), "avro"):
            return [Problem("", "type_changed", f"{writer.shown} cannot be read as {reader.shown}")]
        if reader.name and not _is_called(reader, writer):
            return [Problem("", "name_changed", f"{writer.kind} {writer.name} is now {reader.name}, without an alias")]
        return [*self._of_kind(reader, writer), *self._other_unit(reader, writer)]

    def _of_kind(self, reader: AvroType, writer: AvroType) -> Iterable[Problem]:
        """List the problems inside two types of the same kind and name."""
        if reader.kind == "record":
            return self.pairs.judged(reader, writer, lambda: self._record(reader, writer))
        if reader.kind in ("array", "map"):
            return below("[]" if reader.kind == "array" else "{}", self.unread(reader.parts[0], writer.parts[0]))
        if reader.kind == "fixed" and reader.size != writer.size:
            message = f"{writer.size} bytes cannot be read as {reader.size}"
            return [Problem("", "fixed_size_changed", message)]
        unknown = [symbol for symbol in writer.symbols if symbol not in reader.symbols]
        if reader.kind == "enum" and unknown and not reader.default:
            message = f"{reader.shown} does not know the symbols {unknown} and has no default"
            return [Problem("", "enum_symbols_missing", message)]
        return []

    def _record(self, reader: AvroType, writer: AvroType) -> list[Problem]:
        found = list[Problem]()
        written = {each.name: each for each in writer.fields}
        for wanted in reader.fields:
            name = next((name for name in (wanted.name, *wanted.aliases) if name in written), None)
            if name is not None:
                found += below(wanted.name, self.unread(wanted.node, written[name].node))
            elif not wanted.has_default:
                message = "the data has no such field, and the reader no default for it"
                found.append(Problem(wanted.name, "field_without_default", message))
        return found

    def _in_union(self, reader: AvroType, writer: AvroType) -> list[Problem]:
        """List the problems of the union branch with the fewest problems."""
        tried = [self.unread(branch, writer) for branch in reader.parts]
        if not all(tried):
            return []
        alike = [found for branch, found in zip(reader.parts, tried, strict=True) if branch.kind == writer.kind]
        if len(alike) == 1 and alike[0][0].rule != "name_changed":
            return alike[0]
        names = ", ".join(branch.shown for branch in reader.parts)
        return [Problem("", "union_branch_missing", f"{writer.shown} is none of the reader's types ({names})")]

    def _other_unit(self, reader: AvroType, writer: AvroType) -> list[Problem]:
        """List a difference of logical types that changes values for a reader."""
        (mine, scale, digits), (theirs, written_scale, written_digits) = reader.logical, writer.logical
        same = mine == theirs and scale == written_scale and digits >= written_digits
        if not self.logical_types or same or not {mine, theirs} - _SAME_TEXTS - {""}:
            return []
        message = f"{_logical_name(writer)} would be read as {_logical_name(reader)}"
        return [Problem("", "logical_type_changed", message)]


def _is_called(reader: AvroType, writer: AvroType) -> bool:
    """Return whether a reader's type takes data of a type of this name: the last part of the name decides."""
    last = writer.name.rpartition(".")[2]
    return reader.name.rpartition(".")[2] == last or writer.name in reader.aliases


def _logical_name(node: AvroType) -> str:
    name, scale, digits = node.logical
    return f"decimal({digits},{scale})" if name == "decimal" else name or node.shown


def _refuse(sentence: str) -> NoReturn:
    raise ValueError(sentence)


@dataclass
class _SchemaParser:
    """Parser of a schema's JSON, with the named types so far."""

    named: dict[str, AvroType] = field(default_factory=dict)

    def node(self, stated: Any, space: str, path: str) -> AvroType:  # noqa: ANN401 - JSON
        if isinstance(stated, list):
            return self._union(stated, space, path)
        if isinstance(stated, str):
            return self._called(stated, space, path)
        kind = stated.get("type") if isinstance(stated, dict) else _refuse(f"{path or 'it'} has no type: {stated!r}")
        made = self._complex(kind, stated, space, path) if isinstance(kind, str) else None
        made = made or self.node(kind if kind is not None else _refuse(f"{path or 'it'} has no type"), space, path)
        logical = _logical(stated, made)
        if logical[0] and not made.name:
            return AvroType(made.kind, parts=made.parts, logical=logical)
        made.logical = logical if logical[0] else made.logical
        return made

    def _complex(self, kind: str, stated: Mapping[str, Any], space: str, path: str) -> AvroType | None:
        if kind in ("array", "map"):
            inside = "items" if kind == "array" else "values"
            within = stated.get(inside, None) or _refuse(f"the {kind} {path} has no {inside}")
            return AvroType(kind, parts=(self.node(within, space, at(path, "[]" if kind == "array" else "{}")),))
        if kind in ("record", "error", "enum", "fixed"):
            return self._named(kind.replace("error", "record"), stated, space, path)
        return None

    def _called(self, name: str, space: str, path: str) -> AvroType:
        if name in _PRIMITIVE:
            return AvroType(name)
        full = full_name(name, space)
        return self.named.get(full) or self.named.get(name) or _refuse(f"{path or 'it'} has the unknown type {name!r}")

    def _union(self, stated: list[Any], space: str, path: str) -> AvroType:
        parts = tuple(self.node(each, space, path) for each in stated)
        called = [part.name or part.kind for part in parts]
        if "union" in called or len(set(called)) < len(called):
            _refuse(f"the union {path} has a type twice, or a union inside: {called}")
        return AvroType("union", parts=parts)

    def _named(self, kind: str, stated: Mapping[str, Any], space: str, path: str) -> AvroType:
        name = stated.get("name")
        if not isinstance(name, str) or not _FULL_NAME.fullmatch(name):
            _refuse(f"the {kind} {path} must have a name, not {name!r}")
        name = full_name(name, stated.get("namespace", space))
        if name in self.named:
            _refuse(f"{name} is defined twice")
        within = name.rpartition(".")[0]
        aliases = [full_name(alias, within) for alias in stated.get("aliases", ())]
        made = self.named[name] = AvroType(kind, name=name, aliases=frozenset(aliases))
        if kind == "record":
            made.fields = tuple(self._fields(stated.get("fields"), within, path, name))
        elif kind == "enum":
            made.symbols = _symbols(stated.get("symbols"), name)
            made.default = stated.get("default", "")
            if "default" in stated and made.default not in made.symbols:
                _refuse(f"the default of {name} must be one of its symbols, not {made.default!r}")
        else:
            size = stated.get("size")
            made.size = size if type(size) is int and size >= 0 else _refuse(f"{name} must have a size, not {size!r}")
        return made

    def _fields(self, stated: Any, space: str, path: str, record: str) -> Iterator[AvroField]:  # noqa: ANN401 - JSON
        seen = set[str]()
        for each in stated if isinstance(stated, list) else _refuse(f"{record} has no fields"):
            name = each.get("name") if isinstance(each, dict) else None
            if not isinstance(name, str) or not _NAME.fullmatch(name) or name in seen or "type" not in each:
                _refuse(f"{record} must have fields with a name of their own and a type, not {each!r}")
            seen.add(name)
            node = self.node(each["type"], space, at(path, name))
            if "default" in each and not _is_default(node, each["default"]):
                _refuse(f"the default of {at(path, name)} is no {node.shown}: {each['default']!r}")
            yield AvroField(name, tuple(each.get("aliases", ())), node, "default" in each)


def _symbols(stated: Any, name: str) -> tuple[str, ...]:  # noqa: ANN401 - JSON
    fine = isinstance(stated, list) and all(isinstance(each, str) and _NAME.fullmatch(each) for each in stated)
    if not fine or len(set(stated)) < len(stated):
        _refuse(f"{name} must have different symbols, not {stated!r}")
    return tuple(stated)


def _is_default(node: AvroType, value: Any) -> bool:  # noqa: ANN401 - JSON
    """Return whether a JSON value is a default of an Avro type."""
    if node.kind == "union":
        return any(_is_default(part, value) for part in node.parts)
    if node.kind == "array":
        return isinstance(value, list) and all(_is_default(node.parts[0], each) for each in value)
    if node.kind == "map":
        return isinstance(value, dict) and all(_is_default(node.parts[0], each) for each in value.values())
    if node.kind == "record":
        return isinstance(value, dict) and all(
            _is_default(each.node, value[each.name]) if each.name in value else each.has_default for each in node.fields
        )
    return _DEFAULTS[node.kind](value) and (node.kind != "enum" or value in node.symbols)


def _logical(stated: Mapping[str, Any], node: AvroType) -> tuple[str, int, int]:
    """Return the logical type of a schema with scale and precision; nothing for an unfit logical type."""
    name, scale, digits = stated.get("logicalType"), stated.get("scale", 0), stated.get("precision", 0)
    if not isinstance(name, str) or not isinstance(scale, int) or not isinstance(digits, int):
        return node.logical
    return (name, scale, digits) if name == "decimal" else (name, 0, 0)
