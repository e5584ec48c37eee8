"""Nested types, of Spark and in the form of the log, by one fold."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import types as T

from dedp_assets.patterns.core.types.nesting import fold, inside, name_of, outer
from dedp_assets.patterns.core.types.schema_changes import data_type

SCALARS = st.sampled_from(["long", "string", "decimal(10,2)", "timestamp_ntz", "variant", "void"])
NAMES = st.lists(st.sampled_from(["a", "B", "c d", "key", "element", "fields"]), unique=True, max_size=4)


def grown(inner):
    nullable = st.booleans()
    field = st.fixed_dictionaries({"name": st.just(""), "type": inner, "nullable": nullable, "metadata": st.just({})})
    fields = NAMES.flatmap(lambda names: st.tuples(*[field.map(lambda each, n=n: {**each, "name": n}) for n in names]))
    array = {"type": st.just("array"), "elementType": inner, "containsNull": nullable}
    pairs = {"type": st.just("map"), "keyType": inner, "valueType": inner, "valueContainsNull": nullable}
    struct = {"type": st.just("struct"), "fields": fields.map(list)}
    return st.fixed_dictionaries(array) | st.fixed_dictionaries(pairs) | st.fixed_dictionaries(struct)


KINDS = st.recursive(SCALARS, grown, max_leaves=8)


@given(KINDS)
def test_a_type_is_made_of_its_parts(kind):
    """The fold that puts everything in its place gives the type back, in either form."""
    assert kind == fold(
        kind,
        scalar=lambda kind: kind,
        struct=lambda kind, fields: {**kind, "fields": [{**each, "type": inner} for each, inner in fields]},
        array=lambda kind, inner: {**kind, "elementType": inner},
        map=lambda kind, key, value: {**kind, "keyType": key, "valueType": value},
    )
    of_spark = data_type(kind)
    assert of_spark == fold(
        of_spark,
        scalar=lambda kind: kind,
        struct=lambda _, fields: T.StructType([T.StructField(f.name, inner, f.nullable) for f, inner in fields]),
        array=lambda kind, inner: T.ArrayType(inner, kind.containsNull),
        map=lambda kind, key, value: T.MapType(key, value, kind.valueContainsNull),
    )


@given(KINDS)
def test_both_forms_have_the_same_parts(kind):
    """The outer one first, by the same names."""
    there, here = inside(data_type(kind)), inside(kind)
    assert [each.jsonValue() for each in there] == here
    assert [*map(names_in, there)] == [*map(names_in, here)]
    assert here[0] == kind


def names_in(kind):
    if outer(kind) != "struct":
        return []
    return [name_of(each) for each in (kind["fields"] if isinstance(kind, dict) else kind.fields)]
