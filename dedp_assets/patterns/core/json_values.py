"""Values of JSON in SQL: what a marked text is as a value of a type, at every depth, and every place that does not fit.

The expressions here are for the records that need a second look; they are exact and not fast.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from dedp_assets.patterns.core import json_texts
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.exact import exact, is_scalar, safe_cast
from dedp_assets.patterns.core.names import identifier
from dedp_assets.patterns.core.rows import quoted

__all__ = ["json_of", "judged", "parsed_schema", "parsed_type", "same_type", "spelled", "text_as"]

_NONE = "CAST(array() AS ARRAY<STRING>)"


def parsed_type(kind: str) -> DataType:
    """Read a nested SQL type.

    Raises:
        ConfigError: if it holds a type that no JSON value can become.
    """
    found = DataType.fromDDL(kind)
    _require_known(found, kind)
    return found


def parsed_schema(schema: Mapping[str, str]) -> StructType:
    """Read the types of a schema, column by column, whatever they are."""
    found = DataType.fromDDL(", ".join(f"{identifier(c)} {kind}" for c, kind in schema.items()))
    assert isinstance(found, StructType)
    return found


def spelled(kind: DataType) -> str:
    """Write a type as SQL has it."""
    if isinstance(kind, StructType):
        return f"STRUCT<{', '.join(f'{field.name}: {spelled(field.dataType)}' for field in kind.fields)}>"
    if isinstance(kind, ArrayType):
        return f"ARRAY<{spelled(kind.elementType)}>"
    if isinstance(kind, MapType):
        return f"MAP<{spelled(kind.keyType)}, {spelled(kind.valueType)}>"
    return kind.simpleString().upper()


def judged(value: str, kind: DataType, path: str, depth: int = 0) -> str:
    """SQL: a struct of ``v``, the marked text ``value`` as a ``kind``, and ``p``, the places in it that do not fit.

    Where something does not fit, ``v`` holds a NULL.

    Args:
        value: STRING expression that is cheap to repeat.
        kind: the type.
        path: SQL for the path of the value, to name it.
        depth: how many lambdas are around it, for names of their variables.
    """
    if isinstance(kind, StructType):
        return _container(value, "{", _struct(kind, path, depth), kind, path, depth)
    if isinstance(kind, MapType):
        return _container(value, "{", _map(kind, path, depth), kind, path, depth)
    if isinstance(kind, ArrayType):
        return _container(value, "[", _array(kind, path, depth), kind, path, depth)
    x, v = f"x{depth}", f"v{depth}"
    scalar = kind.simpleString()
    text = json_texts.text_of(value) if scalar == "string" else json_texts.scalar_text(value)
    fitting = f"named_struct('v', {v}, 'p', if({x} IS NOT NULL AND {v} IS NULL, {_refused(kind, path)}, {_NONE}))"
    return _let(text, x, _let(exact(x, scalar), v, fitting))


def same_type(one: DataType, other: DataType) -> bool:
    """Tell whether every value of one type is one of the other."""
    return spelled(one) == spelled(other) and '"nullable":false' not in other.json()


def text_as(name: str, source: DataType, kind: str, *, lenient: bool) -> str:
    """SQL: the value of a scalar type that a column's text denotes.

    Raises:
        ConfigError: if the column is nested.
    """
    column = identifier(name)
    if isinstance(source, StructType | ArrayType | MapType):
        raise ConfigError(f"{name} is a {spelled(source)} and cannot become a {kind}: convert it to its text first")
    if (source.simpleString(), kind.upper()) == ("float", "DOUBLE"):
        return f"CAST({column} AS DOUBLE)"
    text = f"CAST({column} AS STRING)"
    if source.simpleString() == "binary":
        text = f"if(is_valid_utf8({text}), {text}, NULL)"
    return f"coalesce({exact(text, kind)}, {safe_cast(column, kind)})" if lenient else exact(text, kind)


def json_of(name: str, source: DataType, kind: str) -> str:
    """SQL: a column as JSON, every scalar in it as its text.

    Raises:
        ConfigError: if it holds bytes, which have no text.
    """
    if not isinstance(source, StructType | ArrayType | MapType):
        return f"CAST({identifier(name)} AS STRING)"
    if "binary" in source.simpleString():
        raise ConfigError(f"{name} is a {spelled(source)} and cannot become a {kind}: write its bytes as base64 first")
    return f"to_json(CAST({identifier(name)} AS {_texts(source)}))"


def _container(value: str, begin: str, inside: str, kind: DataType, path: str, depth: int) -> str:
    """``inside`` for a value that begins as it has to; the members or elements of it are the variable ``m``."""
    parse = json_texts.elements if begin == "[" else json_texts.inner
    nothing = f"CAST(NULL AS {_sql(kind)})"
    return (
        f"CASE WHEN {value} IS NULL THEN named_struct('v', {nothing}, 'p', {_NONE}) "
        f"WHEN NOT startswith({value}, '{begin}') THEN named_struct('v', {nothing}, 'p', {_refused(kind, path)}) "
        f"ELSE {_let(parse(value), f'm{depth}', inside)} END"
    )


def _struct(kind: StructType, path: str, depth: int) -> str:
    m, r = f"m{depth}", f"r{depth}"
    fields = [(f.name, f"concat({path}, {quoted('.' + f.name)})", f) for f in kind.fields]
    parts = [f"{quoted(name)}, {judged(f'{m}[{quoted(name)}]', f.dataType, at, depth + 1)}" for name, at, f in fields]
    values = ", ".join(f"{quoted(name)}, {r}.{identifier(name)}.v" for name, _, _ in fields)
    missing = [
        f"if({m}[{quoted(name)}] IS NULL, array(concat({at}, ' is missing')), {_NONE})"
        for name, at, f in fields
        if not f.nullable
    ]
    twice = json_texts.repeated(f"map_keys({m})", f"concat({path}, '.')")
    problems = ", ".join([twice, *missing, *[f"{r}.{identifier(name)}.p" for name, _, _ in fields]])
    return _let(
        f"named_struct({', '.join(parts)})", r, f"named_struct('v', named_struct({values}), 'p', concat({problems}))"
    )


def _map(kind: MapType, path: str, depth: int) -> str:
    m, r, e = f"m{depth}", f"r{depth}", f"e{depth}"
    at = f"concat({path}, '.', {e}.key)"
    value = _let(f"{e}.value", f"w{depth}", judged(f"w{depth}", kind.valueType, at, depth + 1))
    entries = f"transform(map_entries({m}), {e} -> named_struct('k', {e}.key, 'r', {value}))"
    twice = json_texts.repeated(f"map_keys({m})", f"concat({path}, '.')")
    made = f"map_from_entries(transform({r}, e -> named_struct('key', e.k, 'value', e.r.v)))"
    unique = f"if(size(array_distinct(map_keys({m}))) = size({m}), {made}, NULL)"
    return _let(entries, r, f"named_struct('v', {unique}, 'p', concat({twice}, flatten(transform({r}, e -> e.r.p))))")


def _array(kind: ArrayType, path: str, depth: int) -> str:
    m, r, e, i = f"m{depth}", f"r{depth}", f"e{depth}", f"i{depth}"
    at = f"concat({path}, '[', {i}, ']')"
    items = f"transform({m}, ({e}, {i}) -> {judged(e, kind.elementType, at, depth + 1)})"
    return _let(items, r, f"named_struct('v', transform({r}, e -> e.v), 'p', flatten(transform({r}, e -> e.p)))")


def _let(value: str, name: str, body: str) -> str:
    """SQL has no variables; an array of one has."""
    return f"transform(array({value}), {name} -> {body})[0]"


def _refused(kind: DataType, path: str) -> str:
    return f"array(concat({path}, {quoted(f' is not a {spelled(kind)}')}))"


def _sql(kind: DataType) -> str:
    """As :func:`spelled`, with names that SQL takes whatever they are, and everything nullable as values here are."""
    if isinstance(kind, StructType):
        return f"STRUCT<{', '.join(f'{identifier(f.name)}: {_sql(f.dataType)}' for f in kind.fields)}>"
    if isinstance(kind, ArrayType):
        return f"ARRAY<{_sql(kind.elementType)}>"
    if isinstance(kind, MapType):
        return f"MAP<{_sql(kind.keyType)}, {_sql(kind.valueType)}>"
    return "STRING" if kind.simpleString().startswith("varchar") else kind.simpleString()


def _texts(kind: DataType) -> str:
    """The type with STRING for every scalar."""
    if isinstance(kind, StructType):
        return f"STRUCT<{', '.join(f'{identifier(f.name)}: {_texts(f.dataType)}' for f in kind.fields)}>"
    if isinstance(kind, ArrayType):
        return f"ARRAY<{_texts(kind.elementType)}>"
    return f"MAP<STRING, {_texts(kind.valueType)}>" if isinstance(kind, MapType) else "STRING"


def _require_known(kind: DataType, declared: str) -> None:
    if isinstance(kind, StructType):
        for field in kind.fields:
            _require_known(field.dataType, declared)
    elif isinstance(kind, ArrayType):
        _require_known(kind.elementType, declared)
    elif isinstance(kind, MapType):
        if spelled(kind.keyType) != "STRING":
            raise ConfigError(f"{declared}: the keys of a JSON object are texts: declare MAP<STRING, ...>")
        _require_known(kind.valueType, declared)
    elif not is_scalar(kind.simpleString()):
        raise ConfigError(f"{declared}: no JSON value can become a {spelled(kind)}: declare STRING for its text")
