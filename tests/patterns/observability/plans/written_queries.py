"""Queries with known column lineage: written together with the inputs and the influences of each column."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

__all__ = ["ODD", "PLAIN", "TABLES", "Query", "query"]

TABLES = {
    "people": (
        "id BIGINT, name STRING, born DATE, height DOUBLE, tags ARRAY<STRING>, props MAP<STRING, STRING>, "
        "address STRUCT<street: STRING, zip: STRING, geo: STRUCT<lat: DOUBLE, code: STRING>, `a b`: STRING>"
    ),
    "trips": (
        "trip BIGINT, rider BIGINT, fare DECIMAL(10,2), state STRING, legs ARRAY<STRUCT<km: DOUBLE, via: STRING>>, "
        "place STRUCT<zip: STRING, pos: INT>"
    ),
}
TEXTS = {
    "people": ["name", "address.street", "address.zip", "address.geo.code", "address.`a b`"],
    "trips": ["state", "place.zip"],
}
NUMBERS = {"people": ["id", "height", "address.geo.lat"], "trips": ["trip", "rider", "fare", "place.pos"]}
STRUCTS = {"people": ["address"], "trips": ["place"]}
PLAIN = ("a", "b c", "1", "")
"""Texts that look like texts."""
ODD = (
    "(", ")", "[", "]", "{", "}", ", ", ",", "((", ")]", "a, b", "''", '"', "#", "#1", "x#12", "it''s", "(a", "b)",
    "f(x)", "[x, y", "", " AS ", " AS y", "ASC NULLS", "CASE", "case when", "THEN", "a THEN b", "END", " ELSE ", "=",
    "->", ":", "%", "\\\\", " ", "  ", "if (", "FILTER (", "null", "true", "+- Project", "cast(x as int)", "lambda x#3",
    ")#5", "\\n", "}, {", "scalar-subquery#4 [", "windowspecdefinition(", "row_number(", "struct(", "max_by(", "name#0",
    "named_struct(a, b)", ".zip", "\u00e9", "\U0001f600", "a (b", "c) d", "sum(", " as int)", " else ",
)  # fmt: skip
"""Texts that look like parts of a plan."""


@dataclass(frozen=True)
class Expression:
    """SQL with the columns in its value, those that only decide, and whether a plan may not tell."""

    sql: str
    inputs: frozenset[str] = frozenset()
    causes: frozenset[str] = frozenset()
    is_hard: bool = False


@dataclass(frozen=True)
class Query:
    """A query with the inputs of each column, its influences, and the columns that a plan may not tell."""

    sql: str
    columns: Mapping[str, frozenset[str]]
    influences: frozenset[str]
    hard: Collection[str] = ()


def query(seed: int, texts: Sequence[str], *, width: int = 8) -> Query:
    """Write the query of a seed, with literals of these texts."""
    return _SHAPES[seed % len(_SHAPES)](random.Random(seed), texts, width)  # noqa: S311 - no secret


class _Writer:
    """Writer of expressions over tables: alias -> table."""

    def __init__(self, chance: random.Random, tables: Mapping[str, str], texts: Sequence[str]) -> None:
        self.chance, self.tables, self.texts = chance, tables, texts

    def column(self, kinds: Mapping[str, Sequence[str]]) -> Expression:
        alias = self.chance.choice([*self.tables])
        path = self.chance.choice(kinds[self.tables[alias]])
        return Expression(f"{alias}.{path}", frozenset([f"{self.tables[alias]}.{path.replace('`', '')}"]))

    def literal(self) -> Expression:
        return Expression(f"'{self.chance.choice(self.texts)}'")

    def any(self, depth: int) -> Expression:
        return self.chance.choice((self.text, self.number))(depth)

    def text(self, depth: int) -> Expression:
        """Write a text."""
        if depth <= 0 or self.chance.random() < 0.15:
            return self.column(TEXTS)
        down = depth - 1
        return self.chance.choice(
            [
                self.literal,
                lambda: self.call("concat({}, {})", self.text(down), self.text(down)),
                lambda: self.call("concat_ws({}, {}, {})", self.literal(), self.text(down), self.text(down)),
                lambda: self.call("upper({})", self.text(down)),
                lambda: self.call("({} || {})", self.text(down), self.literal()),
                lambda: self.call("replace({}, {}, {})", self.text(down), self.literal(), self.literal()),
                lambda: self.call("coalesce({}, {})", self.text(down), self.text(down)),
                lambda: self.call("CAST({} AS STRING)", self.number(down)),
                lambda: self.call("CAST({} AS CHAR(3))", self.text(down)),
                lambda: self.deciding("CASE WHEN {} THEN {} ELSE {} END", self.text, down),
                lambda: self.deciding("if({}, {}, {})", self.text, down),
                lambda: self.of_struct(down),
                lambda: self.of_array(down),
            ]
        )()

    def number(self, depth: int) -> Expression:
        """Write a number."""
        if depth <= 0 or self.chance.random() < 0.15:
            return self.column(NUMBERS)
        down = depth - 1
        return self.chance.choice(
            [
                lambda: self.call("({} + {})", self.number(down), self.number(down)),
                lambda: self.call("({} + {})", self.column(TEXTS), self.number(down)),  # a cast that nobody wrote
                lambda: self.call("(- {})", self.number(down)),
                lambda: self.call("CAST({} AS DOUBLE)", self.column(TEXTS)),
                lambda: self.call("TRY_CAST({} AS INT)", self.text(down)),
                lambda: self.call("{}::DECIMAL(12,3)", self.column(NUMBERS)),
                lambda: self.call("length({})", self.text(down)),
                lambda: self.call("({} % 7)", self.column(NUMBERS)),
                lambda: self.deciding("CASE WHEN {} THEN {} ELSE {} END", self.number, down),
                lambda: self.deciding("if({}, {}, {})", self.number, down),
            ]
        )()

    def condition(self, depth: int) -> Expression:
        """Write a truth."""
        return self.chance.choice(
            [
                lambda: self.call("{} = {}", self.text(depth), self.literal()),
                lambda: self.call("{} > {}", self.number(depth), self.number(depth)),
                lambda: self.call("{} = {}", self.column(TEXTS), self.column(NUMBERS)),
                lambda: self.call("{} LIKE {}", self.text(depth), self.literal()),
                lambda: self.call("{} IN ({}, {})", self.text(depth), self.literal(), self.literal()),
                lambda: self.call("{} IS NULL", self.text(depth)),
                lambda: self.call("{} BETWEEN 1 AND {}", self.column(TEXTS), self.number(depth)),
                lambda: self.call("NOT ({} = {} OR {} < 1)", self.text(depth), self.literal(), self.number(depth)),
            ]
        )()

    def of_struct(self, depth: int) -> Expression:
        """Take a field out of a struct that is made, chosen or cast."""
        found = self.column(STRUCTS)
        zip_ = replace(found, inputs=frozenset(f"{each}.zip" for each in found.inputs))
        other, hard = self.text(depth), replace(zip_, is_hard=True)
        return self.chance.choice(
            [
                lambda: self.call("named_struct('n', {}, 'm', id + 1, 'o', {}).n", other, Expression("1")),
                lambda: self.call("struct({} AS `x y`, 1 AS b).`x y`", other),
                lambda: self.call("coalesce({0}, {0}).zip", zip_),
                lambda: self.deciding("(CASE WHEN {} THEN {} ELSE {} END).zip", lambda _: zip_, depth),
                lambda: self.call("array({0}, {0})[0].zip", zip_),
                lambda: self.deciding("(if({}, {}, {})).zip", lambda _: hard, depth),
                lambda: self.call("CAST(named_struct('a', {0}, 'b', 1) AS STRUCT<x: STRING, y: STRING>).x", other),
            ]
        )()

    def of_array(self, depth: int) -> Expression:
        """Take an element, or a field of it, out of an array or a map."""
        arrays = {"people": [("tags", "tags")], "trips": [("legs", "legs.via")]}
        alias = self.chance.choice([*self.tables])
        table = self.tables[alias]
        array, path = arrays[table][0]
        found = Expression(f"{alias}.{array}", frozenset([f"{table}.{path}"]))
        field = ".via" if array == "legs" else ""
        return self.chance.choice(
            [
                lambda: self.call(f"{{}}[0]{field}", found),
                lambda: self.call(f"element_at({{}}, 1){field}", found),
                lambda: self.call(f"transform({{}}, x -> concat(x{field}, {{}}))[0]", found, self.text(depth)),
                lambda: self.call(f"array_distinct({{}})[1]{field}", found),
                lambda: self.call(f"slice({{}}, 1, 2)[0]{field}", found),
            ]
        )()

    def call(self, form: str, *arguments: Expression) -> Expression:
        shown = form.replace("id + 1", f"{next(iter(self.tables))}.{NUMBERS[next(iter(self.tables.values()))][0]} + 1")
        return Expression(
            shown.format(*(each.sql for each in arguments)),
            frozenset().union(*(each.inputs for each in arguments)),
            frozenset().union(*(each.causes for each in arguments)),
            any(each.is_hard for each in arguments),
        )

    def deciding(self, form: str, of: Callable[[int], Expression], depth: int) -> Expression:
        when, first, second = self.condition(depth), of(depth), of(depth)
        found = self.call(form, when, first, second)
        causes = _because("CONDITIONAL", when)
        return replace(found, inputs=first.inputs | second.inputs, causes=first.causes | second.causes | causes)

    def selected(self, width: int, depth: int = 3) -> dict[str, Expression]:
        return {f"c{number}": self.any(depth) for number in range(width)}


def _because(effect: str, decides: Expression) -> frozenset[str]:
    """Return the influence of an expression: of its inputs, and of what decides about its value."""
    causes = (each.partition(" ")[2] for each in decides.causes)
    return frozenset(f"{effect} {each}" for each in (*decides.inputs, *causes))


def _listed(made: Mapping[str, Expression]) -> str:
    return ", ".join(f"{each.sql} AS {name}" for name, each in made.items())


def _written(sql: str, made: Mapping[str, Expression], effects: Mapping[str, Sequence[Expression]] = {}) -> Query:
    """Return a query of these columns, whose rows expressions decide: effect -> expressions."""
    influences = frozenset().union(*(each.causes for each in made.values()))
    for effect, decide in effects.items():
        influences = influences.union(*(_because(effect, each) for each in decide))
    columns = {name: each.inputs for name, each in made.items()}
    return Query(sql, columns, influences, [name for name, each in made.items() if each.is_hard])


_ID, _RIDER = Expression("p.id", frozenset(["people.id"])), Expression("t.rider", frozenset(["trips.rider"]))


def _filtered(chance: random.Random, texts: Sequence[str], width: int) -> Query:
    writer = _Writer(chance, {"p": "people"}, texts)
    made, where = writer.selected(width), writer.condition(2)
    return _written(f"SELECT {_listed(made)} FROM people p WHERE {where.sql}", made, {"FILTER": [where]})


def _joined(chance: random.Random, texts: Sequence[str], width: int) -> Query:
    writer = _Writer(chance, {"p": "people", "t": "trips"}, texts)
    made, kind = writer.selected(width), chance.choice(["LEFT JOIN", "JOIN", "FULL JOIN"])
    return _written(
        f"SELECT {_listed(made)} FROM people p {kind} trips t ON p.id = t.rider", made, {"JOIN": [_ID, _RIDER]}
    )


def _in_steps(chance: random.Random, texts: Sequence[str], width: int) -> Query:
    """A WITH clause, or a subquery, whose columns the outer query computes with."""
    writer = _Writer(chance, {"p": "people"}, texts)
    made, outer = writer.selected(width), dict[str, Expression]()
    for number in range(width):
        parts = [replace(made[name], sql=f"w.{name}") for name in chance.choices([*made], k=2)]
        outer[f"d{number}"] = writer.call("concat({}, {}, {})", parts[0], writer.literal(), parts[1])
    inner = f"SELECT {_listed(made)} FROM people p"
    sql = chance.choice(["WITH w AS ({}) SELECT {} FROM w", "SELECT {1} FROM ({0}) w"])
    return _written(sql.format(inner, _listed(outer)), outer)


def _united(chance: random.Random, texts: Sequence[str], width: int) -> Query:
    """The values of both branches by position; columns of other types are cast."""
    people, trips = _Writer(chance, {"p": "people"}, texts), _Writer(chance, {"t": "trips"}, texts)
    first = {f"c{n}": people.call("concat({}, {})", people.text(2), people.column(TEXTS)) for n in range(width)}
    second = {name: trips.any(2) for name in first}
    made = {name: trips.call("{}{}", first[name], second[name]) for name in first}
    return _written(f"SELECT {_listed(first)} FROM people p UNION ALL SELECT {_listed(second)} FROM trips t", made)


def _structs_united(chance: random.Random, texts: Sequence[str], _: int) -> Query:
    """A field of a struct that is a column of a union."""
    trips = _Writer(chance, {"t": "trips"}, texts)
    made = {"zip": trips.call("{}", trips.text(2)), "pos": Expression("t.place.pos", frozenset(["trips.place.pos"]))}
    inner = (
        f"SELECT place AS s FROM trips UNION ALL SELECT named_struct('zip', {made['zip'].sql}, 'pos', 1) FROM trips t"
    )
    zip_ = replace(made["zip"], inputs=made["zip"].inputs | {"trips.place.zip"}, is_hard=True)
    return _written(
        f"SELECT u.s.zip AS z, u.s.pos + 1 AS p FROM ({inner}) u", {"z": zip_, "p": replace(made["pos"], is_hard=True)}
    )


def _grouped(chance: random.Random, texts: Sequence[str], width: int) -> Query:
    writer = _Writer(chance, {"t": "trips"}, texts)
    key, made = writer.text(1), dict[str, Expression]()
    forms = ["sum({})", "max({}) + 1", "avg({})", "count(DISTINCT {})", "max({})::STRING", "collect_list({})[0]"]
    for number in range(width):
        made[f"c{number}"] = writer.call(chance.choice(forms), writer.number(2))
    order = writer.column(NUMBERS)
    chosen = writer.column(TEXTS)
    made["chosen"] = replace(chosen, sql=f"max_by({chosen.sql}, {order.sql})")
    sql = f"SELECT {_listed(made)} FROM trips t GROUP BY {key.sql}"
    return _written(sql, made, {"GROUP_BY": [key], "SORT": [order]})


def _conditional_sums(chance: random.Random, texts: Sequence[str], width: int) -> Query:
    writer = _Writer(chance, {"t": "trips"}, texts)
    made, decide = dict[str, Expression](), list[Expression]()
    for number in range(width):
        value, when = writer.number(1), writer.condition(1)
        made[f"c{number}"] = replace(value, sql=f"sum({value.sql}) FILTER (WHERE {when.sql})")
        decide.append(when)
    return _written(f"SELECT {_listed(made)} FROM trips t", made, {"CONDITIONAL": decide})


def _windowed(chance: random.Random, texts: Sequence[str], width: int) -> Query:
    writer = _Writer(chance, {"t": "trips"}, texts)
    made, decide = dict[str, Expression](), list[Expression]()
    for number in range(width):
        part, order = writer.column(TEXTS), writer.column(NUMBERS)
        value, name = writer.number(1), chance.choice(["sum", "lag", "max", "first_value"])
        over = f"OVER (PARTITION BY {part.sql} ORDER BY {order.sql} DESC)"
        made[f"c{number}"] = replace(value, sql=f"{name}({value.sql}) {over}")
        decide += [part, order]
    made["n"] = Expression("row_number() OVER (ORDER BY t.trip)")
    decide.append(Expression("t.trip", frozenset(["trips.trip"])))
    return _written(f"SELECT {_listed(made)} FROM trips t", made, {"WINDOW": decide})


def _exploded(chance: random.Random, texts: Sequence[str], width: int) -> Query:
    writer = _Writer(chance, {"t": "trips"}, texts)
    made = writer.selected(width)
    view = chance.choice(["LATERAL VIEW explode(t.legs) e AS x", "LATERAL VIEW OUTER posexplode(t.legs) e AS i, x"])
    made["via"] = writer.call("concat(x.via, {})", writer.literal())
    made["via"] = replace(made["via"], inputs=frozenset(["trips.legs.via"]))
    return _written(f"SELECT {_listed(made)} FROM trips t {view}", made)


def _below(chance: random.Random, texts: Sequence[str], width: int) -> Query:
    """Scalar subqueries in the list, EXISTS in the filter."""
    writer = _Writer(chance, {"p": "people"}, texts)
    made, text = writer.selected(width), writer.literal()
    inner = f"(SELECT max(concat(t.place.zip, {text.sql})) FROM trips t WHERE t.rider = p.id)"
    made["s"] = Expression(inner, frozenset(["trips.place.zip"]))
    sql = f"SELECT {_listed(made)} FROM people p WHERE EXISTS (SELECT 1 FROM trips t WHERE t.rider = p.id)"
    return _written(sql, made, {"FILTER": [_ID, _RIDER]})


def _ordered(chance: random.Random, texts: Sequence[str], width: int) -> Query:
    writer = _Writer(chance, {"p": "people"}, texts)
    made, order = writer.selected(width), writer.text(2)
    return _written(f"SELECT {_listed(made)} FROM people p ORDER BY {order.sql} LIMIT 3", made, {"SORT": [order]})


_SHAPES = (
    _filtered, _joined, _in_steps, _united, _structs_united, _grouped, _conditional_sums, _windowed, _exploded, _below,
    _ordered,
)  # fmt: skip
