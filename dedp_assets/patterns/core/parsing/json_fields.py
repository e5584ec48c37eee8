"""Fields of JSON records in Python: a census of a batch, and the undeclared fields of one record."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from dedp_assets.patterns.core.parsing.field_census import MOST_FIELDS, DeclaredField, FieldCensus, FieldFigures, joined
from dedp_assets.patterns.core.parsing.strict_json import Fraction, Numbers, Whole, parse_json, written

__all__ = ["census_of", "json_object", "shape", "undeclared"]

_HELD = 10 * MOST_FIELDS
_LONGEST_NAME, _LONGEST_SAMPLE = 100, 40
_TYPES = {
    str: "string",
    int: "integer",
    Whole: "integer",
    float: "number",
    Fraction: "number",
    bool: "boolean",
    dict: "object",
    list: "array",
    type(None): "null",
}
_LARGEST = 2**63
_FORMS: Sequence[Numbers] = ("values", "marked")


def census_of(texts: Iterable[str | None], declared: DeclaredField) -> FieldCensus:
    """Count the fields of JSON records.

    Args:
        texts: the records; a missing one is not counted.
        declared: what the objects may hold.

    Example:
        >>> declared = DeclaredField(frozenset(), {"id": DeclaredField({"integer"})})
        >>> seen = census_of(['{"id": 7, "mail": "ada@x.org"}'], declared)
        >>> seen.undeclared
        {'mail': FieldFigures(types={'string': 1}, absent=0, mistyped=0, sample='aaa@a.aaa')}
    """
    counting = _Counting(declared)
    for text in texts:
        if text is not None:
            counting.add(json_object(text))
    return counting.census()


def undeclared(text: str | None, declared: DeclaredField) -> dict[str, str] | None:
    """Return the undeclared fields of a record, path -> text.

    ``None`` for a record without one.

    A string is its characters; a number is as written; objects and lists are JSON without blanks.
    """
    found = json_object(text) if text is not None else None
    if next(_strange(found, declared), None) is None:
        return None
    marked = _strange(parse_json(str(text), numbers="marked"), declared)
    return {path: value if isinstance(value, str) else written(value) for path, value in marked}


@dataclass(slots=True)
class _Layout:
    """Objects with the same names and types of values.

    Attributes:
        types: path -> JSON type, of declared fields.
        strange: undeclared names, with their paths.
        nested: declared names whose values hold declared fields, with the fields and their paths.
        count: number of objects.
    """

    types: Mapping[str, str]
    strange: Sequence[tuple[str, str]]
    nested: Sequence[tuple[str, DeclaredField, str]]
    count: int = 0


class _Counting:
    """Counts of a batch in the making.

    Most records of a source have one of a few layouts: to count these, and not each value, takes half of the time.
    """

    def __init__(self, declared: DeclaredField) -> None:
        self._declared = declared
        self._records = self._unreadable = self._odd = self._others = 0
        self._is_odd = False
        self._layouts = dict[tuple[str, tuple[str, ...], tuple[type, ...]], _Layout]()
        self._types = defaultdict[str, Counter[str]](Counter)
        self._found = dict[str, Counter[str]]()
        self._samples = dict[str, str]()

    def add(self, record: dict[str, Any] | None) -> None:
        """Add a record to the census.

        ``None`` for one that is not readable.
        """
        if record is None:
            self._unreadable += 1
            return
        self._records += 1
        self._is_odd = False
        self.json_object(record, self._declared, "")
        self._odd += self._is_odd

    def census(self) -> FieldCensus:
        """Return the figures."""
        self._count_layouts()
        known = dict[str, FieldFigures]()
        for path, around, each in self._declared.inside():
            types = Counter({_own(kind, each): 0 for kind in self._types[path]})
            for kind, number in self._types[path].items():
                types[_own(kind, each)] += number
            wrong = sum(number for kind, number in types.items() if kind not in ("null", *each.types))
            absent = 0 if around is None else self._objects(around) - types.total()
            known[path] = FieldFigures(dict(sorted(types.items())), absent, wrong)
        found = {
            path: FieldFigures(dict(sorted(types.items())), sample=self._samples.get(path, ""))
            for path, types in self._found.items()
        }
        counted = FieldCensus(self._records, self._unreadable, self._odd, known, found, self._others)
        return counted + FieldCensus()  # which leaves the most frequent ones

    def _objects(self, path: str) -> int:
        """Return the number of objects at a path."""
        return self._types[path]["object"] if path else self._records

    def json_object(self, value: Mapping[str, Any], declared: DeclaredField, path: str) -> None:
        key = (path, tuple(value), tuple(map(type, value.values())))
        layout = self._layouts.get(key)
        if layout is None:
            if len(self._layouts) >= _HELD:
                self._count_layouts()
            layout = self._layouts[key] = _layout(value, declared, path)
        layout.count += 1
        for name, here in layout.strange:
            self._unknown(here, value[name])
        for name, each, here in layout.nested:
            self._nested(value[name], each, here)

    def _nested(self, value: Any, declared: DeclaredField, path: str) -> None:  # noqa: ANN401 - any JSON
        """Count the declared fields inside a value."""
        if isinstance(value, dict) and declared.fields is not None:
            self.json_object(value, declared, path)
            return
        for suffix, inner, values in _elements(value, declared):
            types = self._types[path + suffix]
            for each in values:
                types[_kind(each)] += 1
                self._nested(each, inner, path + suffix)

    def _count_layouts(self) -> None:
        for layout in self._layouts.values():
            for path, kind in layout.types.items():
                self._types[path][kind] += layout.count
        self._layouts.clear()

    def _unknown(self, path: str, value: Any) -> None:  # noqa: ANN401 - any JSON
        self._is_odd = True
        if path not in self._found:
            if len(self._found) >= _HELD:
                self._drop()
            self._found[path] = Counter()
        self._found[path][_kind(value)] += 1
        if value is not None and path not in self._samples:
            self._samples[path] = shape(value)

    def _drop(self) -> None:
        """Keep the most frequent fields, so that common fields survive random names."""
        kept = sorted(self._found, key=lambda path: (-self._found[path].total(), path))[:MOST_FIELDS]
        self._others += sum(types.total() for path, types in self._found.items() if path not in set(kept))
        self._found = {path: self._found[path] for path in kept}
        self._samples = {path: sample for path, sample in self._samples.items() if path in self._found}


def _layout(value: Mapping[str, Any], declared: DeclaredField, path: str) -> _Layout:
    known, fields = dict[str, str](), declared.fields or {}
    strange, nested = list[tuple[str, str]](), list[tuple[str, DeclaredField, str]]()
    for name, each in value.items():
        here = joined(path, name if len(name) <= _LONGEST_NAME else f"{name[:_LONGEST_NAME]}...")
        if name not in fields:
            strange.append((name, here))
            continue
        known[here] = _TYPES[type(each)]
        if isinstance(each, (dict, list)):
            nested.append((name, fields[name], here))
    return _Layout(known, strange, nested)


def _elements(value: Any, declared: DeclaredField) -> Iterator[tuple[str, DeclaredField, Iterable[Any]]]:  # noqa: ANN401
    """Yield the values of a declared list or map, with the suffix of their path and the declared field."""
    if isinstance(value, list) and declared.items:
        yield "[]", declared.items, value
    elif isinstance(value, dict) and declared.values:
        yield ".*", declared.values, value.values()


def _own(kind: str, declared: DeclaredField) -> str:
    return "number" if kind == "integer" and "integer" not in declared.types else kind


def _strange(value: Any, declared: DeclaredField, path: str = "") -> Iterator[tuple[str, Any]]:  # noqa: ANN401 - any JSON
    """Yield the undeclared fields of a record, with paths that name each element and each key."""
    if isinstance(value, list) and declared.items:
        for number, each in enumerate(value):
            yield from _strange(each, declared.items, f"{path}[{number}]")
    elif isinstance(value, dict):
        for name, each in value.items():
            inside = declared.values or (declared.fields or {}).get(name)
            if inside:
                yield from _strange(each, inside, joined(path, name))
            elif declared.fields is not None:
                yield joined(path, name), each


def json_object(text: str) -> dict[str, Any] | None:
    """Parse a JSON object.

    ``None`` for any other text.
    """
    # A number that Python cannot hold is one for JSON: then numbers stay texts.
    for numbers in _FORMS:
        with suppress(ValueError):
            found = parse_json(text, numbers=numbers)
            return found if isinstance(found, dict) else None
    return None


def _kind(value: Any) -> str:  # noqa: ANN401 - any JSON
    kind = _TYPES[type(value)]
    return "number" if kind == "integer" and not (isinstance(value, int) and -_LARGEST <= value < _LARGEST) else kind


def shape(value: Any) -> str:  # noqa: ANN401 - any JSON
    """Mask a value: letters as ``a``, digits as ``9``, at most 40 characters.

    Example:
        >>> shape("ada@x.org, born 1815")
        'aaa@a.aaa, aaaa 9999'
    """
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return "".join("9" if c.isdigit() else "a" if c.isalpha() else c for c in text[:_LONGEST_SAMPLE])
