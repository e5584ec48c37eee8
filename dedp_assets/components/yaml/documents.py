"""YAML documents with the place of every key and value, and without the traps of YAML 1.1.

Dagster reads YAML by PyYAML, which takes the last of two equal keys, ``no`` for false, ``010`` for 8 and ``12:30`` for
750, each without a word. A declaration with one of these is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, NamedTuple

import yaml

__all__ = ["Document", "Mark", "Path", "Unreadable", "documents"]

Path = tuple[str | int, ...]
"""Keys and positions in lists that lead to a part of a document."""

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_PREFIX = "tag:yaml.org,2002:"
_MOST_PARTS, _DEEPEST = 100_000, 60
_WHOLE = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_NUMBER = re.compile(r"[-+]?[0-9]*\.?[0-9]+([eE][-+]?[0-9]+)?|[-+]?[0-9]+\.")


class Mark(NamedTuple):
    """A place in a file, from line 1 and column 1."""

    line: int
    column: int


class Unreadable(Exception):
    """A text that is no YAML, or not the YAML of a declaration."""

    def __init__(self, file: str, mark: Mark, message: str, path: Path = ()) -> None:
        super().__init__(message)
        self.file, self.mark, self.message, self.path = file, mark, message, path


@dataclass(frozen=True, slots=True)
class Document:
    """A YAML document.

    Attributes:
        file: file of the document.
        line: line of its first key.
        value: mappings, lists and plain values.
        marks: path -> places of key and value.
        faults: traps in it, each with its path, place and message.
    """

    file: str
    line: int
    value: Any
    marks: Mapping[Path, tuple[Mark, Mark]] = field(repr=False)
    faults: tuple[Unreadable, ...] = ()

    def mark(self, path: Path, *, key: bool = False) -> Mark:
        """Return the place of a value or key; for a missing part, the place of the mapping around."""
        there = path
        while there and there not in self.marks:
            there = there[:-1]
        return self.marks[there][0 if key and there == path else 1]

    def texts(self) -> Iterator[tuple[Path, str]]:
        """Yield the texts of the document with paths."""
        for path in self.marks:
            value = self.value
            for key in path:
                value = value[key]
            if isinstance(value, str):
                yield path, value

    def holds(self, path: Path) -> bool:
        """Return whether the document has a part."""
        return path in self.marks


def documents(text: str, file: str) -> list[Document]:
    """Read the YAML documents of a text.

    Raises:
        Unreadable: if it is no YAML.
    """
    try:
        events = iter(list(yaml.parse(text, Loader=_LOADER)))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise Unreadable(file, _mark(mark), f"this is no YAML: {error.problem or error.context}") from None
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        sentence = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise Unreadable(file, Mark(1, 1), f"this is no YAML: {sentence}") from None
    return [_Reader(file, events).document() for event in events if isinstance(event, yaml.DocumentStartEvent)]


def _mark(mark: Any) -> Mark:  # noqa: ANN401 - PyYAML has no types
    return Mark(mark.line + 1, mark.column + 1) if mark else Mark(1, 1)


@dataclass(slots=True)
class _Node:
    """A node of a document before aliases are followed."""

    mark: Mark
    value: Any
    kind: str


class _Reader:
    """Reads a document from PyYAML's events, because PyYAML's composer dies of some unknown aliases."""

    def __init__(self, file: str, events: Iterator[Any]) -> None:
        self._file, self._events = file, events
        self._anchors: dict[str, _Node] = {}
        self._marks: dict[Path, tuple[Mark, Mark]] = {}
        self._faults: list[Unreadable] = []
        self._parts = 0
        self._resolver = yaml.SafeLoader("")

    def document(self) -> Document:
        root = self._node(next(self._events), 0)
        value = self._value(root, (), root.mark, ())
        return Document(self._file, root.mark.line, value, self._marks, tuple(self._faults))

    def _node(self, event: Any, depth: int) -> _Node:  # noqa: ANN401 - as above
        mark = _mark(event.start_mark)
        if isinstance(event, yaml.AliasEvent):
            if event.anchor not in self._anchors:
                raise Unreadable(self._file, mark, f"*{event.anchor} is no anchor: write &{event.anchor} before it")
            return self._anchors[event.anchor]
        if depth > _DEEPEST:
            raise Unreadable(self._file, mark, f"this is nested more than {_DEEPEST} levels deep")
        node = _Node(mark, None, self._kind(event, mark))
        if event.anchor:
            self._anchors[event.anchor] = node
        if isinstance(event, yaml.ScalarEvent):
            node.value = (event.value, event.style)
            return node
        inside = []
        while not isinstance(each := next(self._events), yaml.CollectionEndEvent):
            inside.append(self._node(each, depth + 1))
        node.value = inside if node.kind == "seq" else list(zip(inside[::2], inside[1::2], strict=True))
        return node

    def _kind(self, event: Any, mark: Mark) -> str:  # noqa: ANN401 - as above
        if isinstance(event, yaml.ScalarEvent):
            tag = event.tag
            if tag is None or tag == "!":
                tag = self._resolver.resolve(yaml.ScalarNode, event.value, event.implicit)
        else:
            plain = "map" if isinstance(event, yaml.MappingStartEvent) else "seq"
            tag = event.tag if event.tag not in (None, "!") else _PREFIX + plain
            if tag != _PREFIX + plain:
                raise Unreadable(self._file, mark, f"the tag {event.tag} is not known here: leave it out")
        kind = str(tag).removeprefix(_PREFIX)
        if kind in ("timestamp", "value"):
            return "str"  # dates are texts, as Dagster reads them
        if kind not in ("str", "int", "float", "bool", "null", "merge", "map", "seq"):
            raise Unreadable(self._file, mark, f"the tag {event.tag} is not known here: leave it out")
        return kind

    def _value(self, node: _Node, path: Path, key: Mark, above: tuple[int, ...]) -> Any:  # noqa: ANN401 - any value
        self._parts += 1
        if self._parts > _MOST_PARTS:
            raise Unreadable(self._file, node.mark, f"this has more than {_MOST_PARTS} parts: repeat fewer anchors")
        if id(node) in above:
            raise Unreadable(self._file, node.mark, "this holds an alias of itself")
        self._marks[path] = (key, node.mark)
        inner = (*above, id(node))
        if node.kind == "seq":
            return [self._value(each, (*path, n), each.mark, inner) for n, each in enumerate(node.value)]
        if node.kind == "map":
            return self._mapping(node, path, inner)
        return self._scalar(node, path)

    def _mapping(self, node: _Node, path: Path, above: tuple[int, ...]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        for key, value in node.value:
            if key.kind == "merge":
                for each in value.value if value.kind == "seq" else [value]:
                    if each.kind != "map":
                        raise Unreadable(self._file, value.mark, "<< must be followed by a mapping")
                    merged = {**self._value(each, path, node.mark, above), **merged}
                continue
            name = self._key(key, path)
            if name in found:
                self._refuse(key.mark, (*path, name), f"{name} is there twice: leave one")
            found[name] = self._value(value, (*path, name), key.mark, above)
        self._marks[path] = (self._marks[path][0], node.mark)
        return {**merged, **found}

    def _key(self, key: _Node, path: Path) -> str:
        if key.kind in ("map", "seq"):
            raise Unreadable(self._file, key.mark, "a key must be a text, not a list or a mapping")
        text = str(key.value[0])
        if key.kind != "str":
            self._refuse(key.mark, (*path, text), f"the key {text} must be a text: write it in quotes")
        return text

    def _scalar(self, node: _Node, path: Path) -> Any:  # noqa: ANN401 - any plain value
        text, style = node.value
        if node.kind == "null":
            return None
        if node.kind not in ("bool", "int", "float"):
            return text
        try:
            value = getattr(self._resolver, f"construct_yaml_{node.kind}")(yaml.ScalarNode(None, text))
        except (ValueError, KeyError, IndexError):
            self._refuse(node.mark, path, f"{text} is no value of its tag: leave the tag out")
            return text
        if isinstance(value, float) and not isfinite(value):
            self._refuse(node.mark, path, f"{path[-1] if path else 'this'} must be a finite number, not {text}")
        elif not style and not _is_plain(node.kind, text):
            read = str(value).lower() if node.kind == "bool" else value
            self._refuse(node.mark, path, f"YAML reads {text} as {read}: write '{text}' in quotes, or {read}")
        return value

    def _refuse(self, mark: Mark, path: Path, message: str) -> None:
        self._faults.append(Unreadable(self._file, mark, message, path))


def _is_plain(kind: str, text: str) -> bool:
    """Return whether a text is the same value in every version of YAML."""
    if kind == "bool":
        return text.lower() in ("true", "false")
    return bool((_WHOLE if kind == "int" else _NUMBER).fullmatch(text))
