"""Records of CSV: whatever the text, every line belongs to one record, and both readings of a record agree."""

from __future__ import annotations

import csv
import io
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedp_assets.patterns.connectors.encoding import csv_records
from dedp_assets.patterns.connectors.encoding.csv_records import OPEN, records_of, values_of
from dedp_assets.patterns.connectors.encoding.formats import Csv
from dedp_assets.patterns.core.errors import ContractError

DIALECTS = [
    *[Csv(multiline=many) for many in (False, True)],
    Csv(delimiter=";", quote="'", multiline=True),
    Csv(delimiter="\t", escape="\\", multiline=True),
    Csv(delimiter="|", quote="", multiline=True),
    Csv(delimiter="^", quote="$", escape="$", multiline=True),
    Csv(delimiter=".", quote="*", escape="?", multiline=True),
]
PIECES = [
    "a",
    "1",
    " ",
    "ü€",
    "\r",
    "\\",
    '"',
    "'",
    ",",
    ";",
    "\t",
    "|",
    "^",
    "$",
    ".",
    "*",
    "?",
    '""',
    ",,",
    "\n",
    "\r\n",
]
TEXTS = st.lists(st.sampled_from(PIECES), max_size=25).map("".join)
dialects = pytest.mark.parametrize("made", DIALECTS, ids=repr)


def read(text, made):
    return list(records_of(text.split("\n"), made))


@dialects
@given(text=TEXTS)
def test_every_line_belongs_to_one_record_and_the_record_alone_says_the_same(made, text):
    """Of any text: lines are neither lost nor counted twice, and the landed text of a record has its values."""
    found = read(text, made)
    assert [line for record in found for line in record.lines] == text.split("\n")
    assert [record.number for record in found] == [1 + sum(len(r.lines) for r in found[:n]) for n in range(len(found))]
    for record in found:
        assert values_of("\n".join(record.lines), made) == (record.values, record.fault)
        assert bool(record.fault) is not bool(record.values)
        assert made.multiline or len(record.lines) == 1


@dialects
@given(rows=st.lists(st.lists(TEXTS, min_size=1, max_size=4), min_size=1, max_size=5), data=st.data())
def test_what_a_writer_quotes_is_read_as_it_was(made, rows, data):
    """Values with everything that has a meaning, in quotes; others as they are; lines that end as on Windows or not."""
    end = data.draw(st.sampled_from(["\n", "\r\n"]))
    special = {made.delimiter, made.quote, "\n", "\r"}
    if not made.quote or not made.multiline:
        rows = [["".join(c for c in value if c not in "\r\n" + made.delimiter) for value in row] for row in rows]

    def written(value):
        escaped = value.replace(made.escape, made.escape * 2) if not made.doubles else value
        escaped = escaped.replace(made.quote, (made.quote if made.doubles else made.escape) + made.quote)
        needs = special & set(value) or data.draw(st.booleans())
        return made.quote + escaped + made.quote if made.quote and needs else value

    text = end.join(made.delimiter.join(map(written, row)) for row in rows)
    assert [(list(record.values), record.fault) for record in read(text, made)] == [(row, "") for row in rows]


@pytest.mark.parametrize("made", [Csv(multiline=True), Csv(delimiter=";", quote="'", multiline=True)], ids=repr)
@given(text=TEXTS)
def test_what_pythons_reader_takes_is_taken_alike(made, text):
    """Of doubled quotes, and texts without a carriage return, which ends a line for Python's."""
    text = text.replace("\r", "")
    strict = csv.reader(io.StringIO(text), delimiter=made.delimiter, quotechar=made.quote, strict=True)
    try:
        theirs = [row for row in strict if row]
    except csv.Error:
        return
    ours = [record for record in read(text, made) if not record.is_blank]
    assert [(list(record.values), record.fault) for record in ours] == [(row, "") for row in theirs]


CASES = {
    "a quote within a value is text": ('1,5" pipe\n2,x', [["1", '5" pipe'], ["2", "x"]]),
    "an escape outside of quotes is text": ("1,C:\\temp\\\\x\n2,\\", [["1", "C:\\temp\\\\x"], ["2", "\\"]]),
    "a carriage return is text": ("1,a\rb\r\n2,x\r", [["1", "a\rb"], ["2", "x"]]),
    "lines of a value keep their ends": ('1,"a\r\nb"\r\n2,x', [["1", "a\r\nb"], ["2", "x"]]),
    "a header may have several lines": ('id,"v\nw"\n1,x', [["id", "v\nw"], ["1", "x"]]),
    "a quote without an end takes the rest": ('1,"a\n2,b\n3,c', [OPEN]),
    "a fault ends with the line that shows it": ('1,"a\n2,"b"\n3,c', [OPEN, ["3", "c"]]),
    "a NUL and an ESC are text": ("1,\0\x1b\n", [["1", "\0\x1b"], [""]]),
}


@pytest.mark.parametrize(("text", "wanted"), CASES.values(), ids=list(CASES))
def test_records_end_where_the_format_says(text, wanted):
    """Each one, with values or the fault."""
    assert [record.fault or list(record.values) for record in read(text, Csv(multiline=True))] == wanted


def test_an_escaped_quote_does_not_end_a_value():
    """Nor does an escape at the end of a line."""
    made = Csv(escape="\\", multiline=True)
    assert [list(r.values) for r in read('1,"a\\"b"\n2,"x\\\ny\\\\"\n3,"\\n"', made)] == [
        ["1", 'a"b'], ["2", "x\\\ny\\"], ["3", "\\n"],
    ]  # fmt: skip
    assert values_of('1,"a"\n2,b', replace(made, multiline=False)) == ((), "a record ends before its last line")


def test_a_record_without_an_end_does_not_take_all_memory(monkeypatch):
    """It is refused by file and line, as a line of that length is."""
    monkeypatch.setattr(csv_records, "LONGEST_LINE", 1 << 20)
    lines = ["id,v", '1,"open', *["x" * 1000] * 2000]
    with pytest.raises(ContractError, match=r"a\.csv has a record in line 2 of more than 1 MiB"):
        list(records_of(lines, Csv(multiline=True), name="a.csv"))
