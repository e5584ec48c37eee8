"""JSON values in SQL: typed values from marked texts at every depth, and the path of every misfit.

The expressions here are for the records that need a second look; they are exact and not fast.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from dedp_assets.patterns.core import json_texts
from dedp_assets.patterns.core.exact import exact, is_scalar, safe_cast
from dedp_assets.patterns.core.names import identifier
from dedp_assets.patterns.core.rows import quoted
from dedp_assets.patterns.core.sql_types import nullable, parsed_type, spelled

__all__ = ["NO_TEXTS", "record_struct", "refused"]

NO_TEXTS = "CAST(array() AS ARRAY<STRING>)"
"""SQL: no sentence."""


def record_struct(record: str, schema: Mapping[str, str], *, lenient: Collection[str] = ()) -> str:
    """Write the SQL struct of a JSON record: values, texts and misfits.

    ``f`` is what is wrong with it as a whole, or NULL; ``p`` are the sentences about what does not fit; ``c`` has for
    the ``n``-th column a struct ``cn`` of its value ``v`` and its text ``x``.

    Args:
        record: STRING expression.
        schema: column -> SQL type.
        lenient: columns that Spark's cast may convert.
    """
    columns = [f"'c{n}', {_column(c, kind, lenient=c in lenient)}" for n, (c, kind) in enumerate(schema.items())]
    places = ", ".join(f"c.c{n}.p" for n in range(len(schema)))
    problems = f"flatten(filter(array({places}), q -> q IS NOT NULL))"
    # Where no place is named, the repeated key is somewhere that the schema does not name.
    twice = "f IS NULL AND size(p) = 0 AND try_parse_json(t) IS NULL"
    named = f"if({twice}, array('a key is there twice'), p)"
    found = _let(problems, "p", f"named_struct('f', f, 'p', {named}, 'c', c)")
    inside = _let(f"named_struct({', '.join(columns)})", "c", found)
    inside = _let(json_texts.fault("record", "m"), "f", inside)
    inside = _let(json_texts.members("t", "xxhash64(record)", empty=True), "m", inside)
    return _let(record, "record", _let(json_texts.marked(json_texts.trimmed("record")), "t", inside))


def refused(name: str, kind: str) -> str:
    """Write SQL: the sentence about a misfit column, as an array."""
    return f"array({quoted(f'{name} is not a {kind}')})"


def _column(name: str, kind: str, *, lenient: bool) -> str:
    """Write SQL: the struct ``v``, ``x``, ``p`` of a column; NULL without a value or for a faulty record."""
    value = f"m[{quoted(name)}]"
    if is_scalar(kind):
        made = f"coalesce({exact('x', kind)}, {safe_cast('x', kind)})" if lenient else exact("x", kind)
        problems = f"if(x IS NULL OR v IS NOT NULL, {NO_TEXTS}, {refused(name, kind)})"
        inside = _let(made, "v", f"named_struct('v', v, 'x', x, 'p', {problems})")
    else:
        whole = "named_struct('v', if(size(r.p) = 0, r.v, NULL), 'x', x, 'p', r.p)"
        inside = _let(_judged(value, parsed_type(kind), quoted(name)), "r", whole)
    return f"if(f IS NOT NULL OR {value} IS NULL, NULL, {_let(json_texts.text_of(value), 'x', inside)})"


def _judged(value: str, kind: DataType, path: str, depth: int = 0) -> str:
    """Write SQL: a struct of ``v``, the marked text ``value`` as ``kind``, and ``p``, the misfits.

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
    text = json_texts.text_of(value) if scalar.startswith(("string", "varchar")) else json_texts.scalar_text(value)
    fitting = f"named_struct('v', {v}, 'p', if({x} IS NOT NULL AND {v} IS NULL, {_refused(kind, path)}, {NO_TEXTS}))"
    return _let(text, x, _let(exact(x, scalar), v, fitting))


def _container(value: str, begin: str, inside: str, kind: DataType, path: str, depth: int) -> str:
    """Write SQL: ``inside`` for a value that begins with ``begin``, with members or elements ``m``."""
    parse = json_texts.elements if begin == "[" else json_texts.inner
    nothing = f"CAST(NULL AS {nullable(kind)})"
    return (
        f"CASE WHEN {value} IS NULL THEN named_struct('v', {nothing}, 'p', {NO_TEXTS}) "
        f"WHEN NOT startswith({value}, '{begin}') THEN named_struct('v', {nothing}, 'p', {_refused(kind, path)}) "
        f"ELSE {_let(parse(value), f'm{depth}', inside)} END"
    )


def _struct(kind: StructType, path: str, depth: int) -> str:
    m, r = f"m{depth}", f"r{depth}"
    fields = [(f.name, f"concat({path}, {quoted('.' + f.name)})", f) for f in kind.fields]
    parts = [f"{quoted(name)}, {_judged(f'{m}[{quoted(name)}]', f.dataType, at, depth + 1)}" for name, at, f in fields]
    values = ", ".join(f"{quoted(name)}, {r}.{identifier(name)}.v" for name, _, _ in fields)
    missing = [
        f"if({m}[{quoted(name)}] IS NULL, array(concat({at}, ' is missing')), {NO_TEXTS})"
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
    value = _let(f"{e}.value", f"w{depth}", _judged(f"w{depth}", kind.valueType, at, depth + 1))
    entries = f"transform(map_entries({m}), {e} -> named_struct('k', {e}.key, 'r', {value}))"
    twice = json_texts.repeated(f"map_keys({m})", f"concat({path}, '.')")
    made = f"map_from_entries(transform({r}, e -> named_struct('key', e.k, 'value', e.r.v)))"
    unique = f"if(size(array_distinct(map_keys({m}))) = size({m}), {made}, NULL)"
    return _let(entries, r, f"named_struct('v', {unique}, 'p', concat({twice}, flatten(transform({r}, e -> e.r.p))))")


def _array(kind: ArrayType, path: str, depth: int) -> str:
    m, r, e, i = f"m{depth}", f"r{depth}", f"e{depth}", f"i{depth}"
    at = f"concat({path}, '[', {i}, ']')"
    items = f"transform({m}, ({e}, {i}) -> {_judged(e, kind.elementType, at, depth + 1)})"
    return _let(items, r, f"named_struct('v', transform({r}, e -> e.v), 'p', flatten(transform({r}, e -> e.p)))")


def _let(value: str, name: str, body: str) -> str:
    """Write SQL that binds a value to a name, as a lambda variable over a one-element array."""
    return f"transform(array({value}), {name} -> {body})[0]"


def _refused(kind: DataType, path: str) -> str:
    return f"array(concat({path}, {quoted(f' is not a {spelled(kind)}')}))"
