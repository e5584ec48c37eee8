"""Any JSON text into any schema: what comes out is what Python's own parser says, exactly, or a named refusal.

The oracle keeps numbers as they were written and all members of an object; it shares nothing with the converter.
"""

from __future__ import annotations

import base64
import json
import math
import re
import string
from collections import Counter
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from random import Random

import numpy as np
import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dedp_assets.patterns.core.types.conversion import MISFITS, SYNTAX, convert_columns, convert_json

RECORDS = 250
INTEGERS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}
SCALARS = [
    *INTEGERS,
    "STRING",
    "STRING",
    "DOUBLE",
    "FLOAT",
    "DECIMAL(6,2)",
    "DECIMAL(38,10)",
    "DECIMAL(38,38)",
    "BOOLEAN",
]
SCALARS += ["DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "BINARY", "VARCHAR(3)", "DECIMAL(5,0)"]
NAMES = ["a", "n", "x y", "ü", "k.1", "tick`", "it's", "$.a", "e", "status", "-", "0", "€uro", "re\\s"]
NUMBERS = [
    "0",
    "-0",
    "1",
    "-1",
    "1.0",
    "1.10",
    "-0.0",
    "1e2",
    "1E+2",
    "12e-1",
    "100e-2",
    "0e0",
    "0.000e5",
    "127",
    "128",
]
NUMBERS += ["-128", "255", "32768", "2147483648", "9223372036854775807", "9223372036854775808", "-9223372036854775809"]
NUMBERS += ["12.34", "12.345", "12.340", "9999.99", "9999.995", "99999", "0.1", "1e400", "-1e400", "1e-400", "5e-324"]
NUMBERS += [
    "2e-324",
    "1e39",
    "16777217",
    "16777217.0000000001",
    "12345678901234567890.123",
    "1e37",
    "1e38",
    "3.4028236e38",
]
NUMBERS += [
    "0.1000000000000000055511151231257827",
    "1" * 40,
    "0." + "0" * 50 + "1",
    "1." + "0" * 50,
    "1e1000000000",
    "1e-999999999",
]
NUMBERS += [
    "12.34000000000000000000000000000000000000001",
    "123456789012345678.1234567890",
    "1e-10",
    "1e-11",
    "4.35",
    "0.30",
]
MOMENTS = ["2026-01-05T10:00:00Z", "2026-01-05 10:00:00.5+02:00", "2026-01-05T10:00:00.1234567Z", "2026-01-05T10:00:00"]
MOMENTS += [
    "2026-01-05T10:00",
    "2026-01-05",
    "2026",
    "2026-1-5",
    "10:00",
    "T10:00:00",
    "2026-02-30",
    "2026-01-05T24:00:00Z",
]
MOMENTS += [
    "0001-01-01T00:00:00+10:00",
    "9999-12-31T23:59:59.999999",
    "9999-12-31T23:59:59-01:00",
    "0000-01-01",
    "0001-01-01",
]
MOMENTS += [
    "2026-01-05T10:00:00.123456000Z",
    "2026-01-05T10:00:00.000001",
    "2026-01-05T10:00:00 Europe/Berlin",
    "2026-01-05\n",
]
MOMENTS += [
    "2026-01-05T10:00:00-0330",
    "2026-01-05T10:00:00+18:30",
    "2024-02-29",
    "2026-01-05T10:00:60Z",
    "12026-01-05",
    "infinity",
]
WORDS = [
    "",
    " ",
    "a",
    "abc",
    "abcd",
    "ä€😀",
    "true",
    "false",
    "True",
    "NaN",
    "Infinity",
    "-INF",
    "null",
    "YWI=",
    "YWJ=",
    "AAAA",
]
WORDS += [
    "AA==",
    ":x",
    "x:",
    "1:",
    '"',
    "\\",
    "\n",
    "\u0000",
    "\u2028",
    "{",
    "[",
    "{}",
    "[1]",
    "{a",
    "+1",
    ".5",
    "01",
    "1.",
    "12,34",
    "-.25",
    "+.5e1",
    "5.",
    "+5.0",
    ".",
    "+",
]
WORDS += [
    " 1",
    "1 ",
    "1d",
    "0x10",
    "٣",
    "\uff11",
    "1_000",
    "\\ud800",
    "a\\b",
    "15.2",
    "15.20",
    "1.0E10",
    "\ufffd",
    "\u007f",
]
GARBAGE = [
    "{'a': 1}",
    "{a: 1}",
    '{"a": 1,}',
    '{"a": 01}',
    '{"a": +1}',
    '{"a": .5}',
    '{"a": 1.}',
    '{"a": NaN}',
    '{"a": Infinity}',
]
GARBAGE += [
    '{"a": 1 /* c */}',
    '{"a": 1} // c',
    '\ufeff{"a": 1}',
    '{"a": "\t"}',
    '{"a": "\\x"}',
    '{"a": "\\u12"}',
    "{1: 2}",
    '{"a" 1}',
]
GARBAGE += [
    '{"a": 1}{"a": 2}',
    '{"a": 1}, {"a": 2}',
    "[]",
    "[1",
    "5",
    "null",
    "",
    " ",
    "}",
    "{",
    '{"a"',
    '{"a": tru}',
    '{"a": "\\',
    '{"a": 1',
]
GARBAGE += [
    '{"a": 1}}',
    '{"a": {"a": 1}',
    '{"a": 1 2}',
    "{1 : 2}",
    '{"a": 1, "__dedp_end": 1}',
    '{"__dedp_end": 1} x',
    "{}",
    "{ }",
    ' {"a":1}\r\n',
]
GARBAGE += [
    '{"u": ' + "[" * 300 + "]" * 300 + "}",
    '{"a": truefalse}',
    '{"a": nul}',
    '{"a":\u00a01}',
    '{"a": 1}\u0000',
    '{"a": - 1}',
    '{"a":"1" "2"}',
]
NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
DATABASES = re.compile(r"[+-]?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
"""Numbers as databases write them, too: without a digit before or behind the point, with a plus sign."""


@dataclass(frozen=True)
class Number:
    """A number as it was written."""

    text: str


class Members(list):
    """The members of an object, all of them, in order."""


class Refused(Exception):
    """What the oracle thinks of a record as a whole."""


def ddl(kind):
    if isinstance(kind, str):
        return kind
    if kind[0] == "STRUCT":
        return "STRUCT<" + ", ".join(f"`{n.replace('`', '``')}`: {ddl(k)}" for n, k in kind[1]) + ">"
    return f"ARRAY<{ddl(kind[1])}>" if kind[0] == "ARRAY" else f"MAP<STRING, {ddl(kind[1])}>"


def label(kind):
    if isinstance(kind, str):
        return kind
    if kind[0] == "STRUCT":
        return "STRUCT<" + ", ".join(f"{n}: {label(k)}" for n, k in kind[1]) + ">"
    return f"ARRAY<{label(kind[1])}>" if kind[0] == "ARRAY" else f"MAP<STRING, {label(kind[1])}>"


def parsed(text):
    """The members of the one object a text is."""

    def word(name):
        raise ValueError(f"JSON has no {name}")

    try:
        found = json.loads(text, parse_int=Number, parse_float=Number, parse_constant=word, object_pairs_hook=Members)
    except (ValueError, RecursionError) as error:
        raise Refused(str(error)) from None
    if not isinstance(found, Members):
        raise Refused("not an object")
    require_sound(found)
    return found


def parsed_value(text):
    return json.loads(text, parse_int=Number, parse_float=Number)


def members_or_none(text):
    try:
        return dict(parsed(text))
    except Refused:
        return None


def require_sound(value):
    """Refuse keys that repeat and halves of characters, anywhere."""
    if isinstance(value, Members):
        keys = [key for key, _ in value]
        if len(set(keys)) < len(keys):
            raise Refused("a key is there twice")
        for key, inside in value:
            require_sound(key)
            require_sound(inside)
    elif isinstance(value, list):
        for inside in value:
            require_sound(inside)
    elif isinstance(value, str) and any(0xD800 <= ord(c) <= 0xDFFF for c in value):
        raise Refused("half of a character")


def text_of(value):
    if isinstance(value, Number):
        return value.text
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else value


def expected(value, kind, path, misfits):  # noqa: PLR0911
    """The value as a ``kind``, and the places that do not fit."""
    if value is None:
        return None
    if isinstance(kind, str):
        if isinstance(value, list) and (kind == "STRING" or (kind == "VARCHAR(3)" and len(written(value)) <= 3)):
            return value
        found = None if isinstance(value, list) else scalar(text_of(value), kind)
        if found is None:
            misfits.append(f"{path} is not a {kind}")
        return found
    if isinstance(value, Members) is not (kind[0] != "ARRAY") or not isinstance(value, list):
        misfits.append(f"{path} is not a {label(kind)}")
        return None
    if kind[0] == "ARRAY":
        return [expected(inside, kind[1], f"{path}[{n}]", misfits) for n, inside in enumerate(value)]
    if kind[0] == "MAP":
        return {key: expected(inside, kind[1], f"{path}.{key}", misfits) for key, inside in value}
    members = dict(value)
    return {name: expected(members.get(name), inside, f"{path}.{name}", misfits) for name, inside in kind[1]}


def scalar(text, kind):
    """The value of a text, ``None`` if the type has none."""
    if kind in ("STRING", "VARCHAR(3)"):
        return text if kind == "STRING" or len(text) <= 3 else None
    if kind in INTEGERS:
        fits = NUMBER.fullmatch(text) and not set(text) & set(".eE")
        bound = 2 ** (INTEGERS[kind] - 1)
        return int(text) if fits and len(text) < 30 and -bound <= int(text) < bound else None
    if kind.startswith("DECIMAL"):
        return decimal(text, *map(int, re.findall(r"\d+", kind)))
    if kind in ("DOUBLE", "FLOAT"):
        return floating(text, kind) if DATABASES.fullmatch(text) else None
    if kind == "BOOLEAN":
        return {"true": True, "false": False}.get(text)
    return binary(text) if kind == "BINARY" else moment(text, kind)


def decimal(text, precision, scale):
    match = DATABASES.fullmatch(text)
    if not match or len(text) > 400 or len((match[1] or "e0").lstrip("eE+-").lstrip("0")) > 3:
        return None
    scaled = Fraction(text) * 10**scale
    if scaled.denominator != 1 or abs(scaled) >= 10**precision:
        return None
    return Decimal((int(scaled < 0), Decimal(abs(scaled.numerator)).as_tuple().digits, -scale))


def floating(text, kind):
    found = float(text)
    if kind == "FLOAT" and 1e-100 < abs(found) < 1e100:
        with np.errstate(all="ignore"):
            middle = np.float32(found)
            near = [np.nextafter(middle, np.float32(side)) for side in (-math.inf, math.inf)]
        choices = [x for x in (middle, *near) if np.isfinite(x)]
        if not np.isfinite(middle):
            return None
        exact = Fraction(text)
        found = float(min(choices, key=lambda x: (abs(Fraction(float(x)) - exact), int(x.view(np.uint32)) & 1)))
    elif kind == "FLOAT":
        found = math.inf if abs(found) >= 1e100 else 0.0
    vanished = found == 0 and re.match(r"[-+0.]*[1-9]", text)
    return None if math.isinf(found) or vanished else found


def binary(text):
    try:
        found = base64.b64decode(text.encode("ascii"), validate=True)
    except ValueError:
        return None
    return found if base64.b64encode(found).decode() == text else None


def moment(text, kind):
    day = r"([0-9]{4}-[0-9]{2}-[0-9]{2})"
    pattern = day if kind == "DATE" else day + r"[T ]([0-9:]{8})(?:\.([0-9]{1,6})0*)?"
    match = re.fullmatch(pattern + (r"(Z|[+-][0-9]{2}(?::?[0-9]{2})?)?" if kind == "TIMESTAMP" else ""), text)
    try:
        if not match or kind == "DATE":
            return match and date.fromisoformat(match[1])
        at = datetime.fromisoformat(f"{match[1]} {match[2]}.{(match[3] or '').ljust(6, '0')}")
        if kind == "TIMESTAMP_NTZ":
            return at
        zone = (match[4] or "Z").replace(":", "")
        hours, minutes = (0, 0) if zone == "Z" else (int(zone[1:3]), int(zone[3:] or 0))
        if hours * 60 + minutes > 18 * 60 or minutes > 59:
            return None
        at -= timedelta(hours=hours, minutes=minutes) * (-1 if zone[0] == "-" else 1)
        return at.replace(tzinfo=timezone.utc)
    except (ValueError, OverflowError):
        return None


def seen(value, kind):
    """A value that Spark returned, in the oracle's terms."""
    if value is None:
        return None
    if kind == "FLOAT":
        return float(value)
    if isinstance(kind, str):
        return value
    if kind[0] == "ARRAY":
        return [seen(inside, kind[1]) for inside in value]
    if kind[0] == "MAP":
        return {key: seen(inside, kind[1]) for key, inside in value}
    return {name: seen(value[name], inside) for name, inside in kind[1]}


def equal(found, wanted, kind):
    """Values are equal; text that holds JSON is, if it holds the same, numbers as they were written."""
    if isinstance(wanted, list) and kind in ("STRING", "VARCHAR(3)"):
        return (
            found is not None
            and json.loads(found, parse_int=Number, parse_float=Number, object_pairs_hook=Members) == wanted
            and found[:1] == ("{" if isinstance(wanted, Members) else "[")
        )
    if found is None or wanted is None or isinstance(kind, str):
        return found == wanted and type(found) is type(wanted)
    if kind[0] == "ARRAY":
        return len(found) == len(wanted) and all(map(lambda f, w: equal(f, w, kind[1]), found, wanted))
    kinds = dict(kind[1]) if kind[0] == "STRUCT" else dict.fromkeys(wanted, kind[1])
    return found.keys() == wanted.keys() and all(equal(found[key], wanted[key], kinds[key]) for key in wanted)


class Writer:
    """Writes records for a schema: fitting ones, odd ones, damaged ones."""

    def __init__(self, random, schema):
        self.random, self.schema, self.calm = random, schema, False

    def record(self):
        self.calm = self.random.random() < 0.5
        if self.random.random() < 0.08:
            return self.random.choice(GARBAGE)
        text = self.blank() + self.members(self.schema) + self.blank()
        if not self.calm and self.random.random() < 0.12:
            return self.damaged(text)
        return text

    def damaged(self, text):
        at = self.random.randrange(len(text))
        middle = self.random.choice(
            ["", '"', ",", ":", "}", "{", "]", "0", "-", "\\", "x", "\\ud800", " ", "e1", "null"]
        )
        return text[:at] + middle + text[at + self.random.randrange(2) :]

    def blank(self):
        return self.random.choice(["", "", "", "", " ", "\n", "\t ", "\r"])

    def members(self, named):
        chosen = [(n, k) for n, k in named.items() if self.random.random() < 0.85]
        if self.random.random() < 0.2:
            chosen += [(self.random.choice([*NAMES, "A", "N", "Status"]), self.random.choice(SCALARS))]
        if not self.calm and self.random.random() < 0.05 and chosen:
            chosen.append(self.random.choice(chosen))
        self.random.shuffle(chosen)
        sep, colon = self.random.choice([(",", ":"), (", ", ": "), (" ,\n", " :\t")])
        return "{" + self.blank() + sep.join(self.quoted(n) + colon + self.value(k) for n, k in chosen) + "}"

    def value(self, kind):
        if not self.calm and self.random.random() < 0.07:
            return self.anything(2)
        if self.random.random() < 0.05:
            return "null"
        if isinstance(kind, str):
            tries = [self.odd(kind) for _ in range(12 if self.calm else 1)]
            return next((text for text in tries if scalar(text_of(parsed_value(text)), kind) is not None), tries[-1])
        if kind[0] == "STRUCT":
            return self.members(dict(kind[1]))
        count = self.random.randrange(4)
        if kind[0] == "MAP":
            keys = self.random.sample([*NAMES, "", "\n", "é", "k"], count)
            return self.members(dict.fromkeys(keys, kind[1]))
        return "[" + ",".join(self.blank() + self.value(kind[1]) for _ in range(count)) + self.blank() + "]"

    def odd(self, kind):
        if kind in ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ"):
            return self.quoted(self.random.choice(MOMENTS))
        if kind in ("STRING", "VARCHAR(3)", "BINARY", "BOOLEAN"):
            words = {"BOOLEAN": ["true", "false"], "BINARY": ["YWI=", "", "AAAA"]}.get(kind, WORDS)
            return (
                self.quoted(self.random.choice(words))
                if self.random.random() < 0.8
                else self.random.choice(["true", *NUMBERS])
            )
        small = [n for n in NUMBERS if len(n) < 6]
        text = self.random.choice(small if self.random.random() < 0.7 else NUMBERS)
        if self.random.random() < 0.3:
            text = self.made()
        if self.random.random() < 0.05:
            return self.quoted(self.random.choice(WORDS))
        return f'"{text}"' if self.random.random() < 0.15 else text

    def made(self):
        digits = "".join(self.random.choices(string.digits, k=self.random.choice([1, 3, 8, 17, 30])))
        whole = digits.lstrip("0") or "0"
        fraction = (
            "." + "".join(self.random.choices("0123456789000", k=self.random.choice([1, 2, 3, 12])))
            if self.random.random() < 0.6
            else ""
        )
        exponent = self.random.choice(["", "", "", "e5", "E-3", "e+0", "e-320", "e300"])
        return self.random.choice(["", "-"]) + whole + fraction + exponent

    def anything(self, depth):
        shape = self.random.random()
        if depth and shape < 0.2:
            return self.members({name: self.random.choice(SCALARS) for name in self.random.sample(NAMES, 2)})
        if depth and shape < 0.4:
            return "[" + ",".join(self.anything(depth - 1) for _ in range(self.random.randrange(3))) + "]"
        if shape < 0.7:
            return self.quoted(self.random.choice([*WORDS, *MOMENTS, *NUMBERS]))
        return self.random.choice(["true", "false", "null", *NUMBERS])

    def quoted(self, text):
        style = self.random.random()
        if style < 0.7:
            return json.dumps(text, ensure_ascii=False)
        if style < 0.9 or not text:
            return json.dumps(text)
        return '"' + "".join(f"\\u{ord(c):04x}" if ord(c) < 0x10000 else json.dumps(c)[1:-1] for c in text) + '"'


KINDS = st.recursive(
    st.sampled_from(SCALARS),
    lambda inner: st.one_of(
        st.tuples(st.just("ARRAY"), inner),
        st.tuples(st.just("MAP"), inner),
        st.tuples(
            st.just("STRUCT"),
            st.lists(st.tuples(st.sampled_from(NAMES), inner), min_size=1, max_size=3, unique_by=lambda f: f[0]),
        ),
    ),
    max_leaves=4,
)
FLAT = st.dictionaries(st.sampled_from(NAMES), st.sampled_from(SCALARS), min_size=1, max_size=8)
NESTED = st.dictionaries(st.sampled_from(NAMES), KINDS, min_size=1, max_size=4)


def check(spark, random, schema):
    """Convert records of one schema in one job, and compare each with the oracle."""
    kinds = {name: ddl(kind) for name, kind in schema.items()}
    writer = Writer(random, schema)
    texts = [writer.record() for _ in range(RECORDS)]
    rows = spark.createDataFrame(pa.table({"#": range(len(texts)), "record": texts}))
    found = sorted(convert_json(rows, "record", kinds).toArrow().to_pylist(), key=lambda row: row["#"])
    assert [row["#"] for row in found] == list(range(len(texts)))
    for text, row in zip(texts, found, strict=True):
        require_equal(text, row, schema, kinds)
    fields = [fields_of(text, schema) for text in texts]
    columns = {name: pa.array([row.get(name) for row in fields], pa.string()) for name in schema}
    given_columns = spark.createDataFrame(pa.table({"#": range(len(texts)), **columns}))
    by_column = convert_columns(given_columns, kinds).toArrow().to_pylist()
    for row in by_column:
        require_equal(texts[row["#"]], row, schema, kinds, given=fields[row["#"]])


def require_equal(text, row, schema, kinds, given=None):
    """The row is what the oracle says of the text; with ``given``, of the fields that became columns."""
    members = members_or_none(text)
    if members is None:
        assert given is not None or row[SYNTAX] or row[MISFITS], (text, kinds, row)
        return
    members = members if given is None else {name: members[name] for name in given}
    misfits = []
    wanted = {name: expected(members.get(name), kind, name, misfits) for name, kind in schema.items()}
    declared = {f"{name} is not a {label(kind)}": f"{name} is not a {kinds[name]}" for name, kind in schema.items()}
    said = Counter(declared.get(sentence, sentence) for sentence in row[MISFITS] or [])
    assert row[SYNTAX] is None, (text, kinds, row)
    assert said == Counter(declared.get(sentence, sentence) for sentence in misfits), (text, kinds, row, given)
    for name, kind in schema.items():
        if not any(sentence.startswith(name) for sentence in misfits):
            assert equal(seen(row[name], kind), wanted[name], kind), (name, text, kinds, row, wanted, given)


def fields_of(text, schema):
    """The fields of a record as texts, as a producer of string columns would write them; empty if it is refused."""
    return {
        name: text_of(value) if not isinstance(value, list) else written(value)
        for name, value in (members_or_none(text) or {}).items()
        # A text that begins as JSON does is JSON in a column, and in a record it is a text.
        if name in schema and value is not None and not (isinstance(value, str) and not isinstance(schema[name], str))
    }


def written(value):
    if isinstance(value, Members):
        return "{" + ",".join(f"{json.dumps(key)}:{written(inside)}" for key, inside in value) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(written, value)) + "]"
    return value.text if isinstance(value, Number) else json.dumps(value)


@settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=settings.default.max_examples // 25)
@given(seed=st.integers(0, 2**32), flat=FLAT, nested=NESTED)
def test_what_python_reads_is_what_comes_out_or_it_is_refused(spark, seed, flat, nested):
    """Records that fit, are odd, or are damaged, into flat and nested schemas; the same for their fields as columns."""
    for schema in (flat, nested):
        check(spark, Random(seed), schema)  # noqa: S311 - test data
