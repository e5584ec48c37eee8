"""Lines: every line of a file with its number, whatever is in it and however the file is read in pieces."""

from __future__ import annotations

import io

import pytest

from dedp_assets.patterns.connectors.landing.lines import read_lines
from dedp_assets.patterns.core.errors import ConfigError


@pytest.fixture
def read(spark, tmp_path):
    """``read({"a.log": b"..."})``: the lines of such files."""

    def written(files):
        for name, content in files.items():
            (tmp_path / name).write_bytes(content)
        return read_lines(spark, [tmp_path / name for name in files])

    return written


@pytest.fixture
def small_pieces(spark):
    """Files are read in pieces of 64 bytes, as a large file is read in pieces of many megabytes."""
    names = ("spark.sql.files.maxPartitionBytes", "spark.sql.files.openCostInBytes")
    for name, value in zip(names, ("64", "1"), strict=True):
        spark.conf.set(name, value)
    yield
    for name in names:
        spark.conf.unset(name)


def numbered(lines):
    return sorted((r["source_file"], r["line_number"], r["raw"]) for r in lines.rows.collect())


def by_python(files):
    return sorted(
        (name, number, line.removesuffix(b"\n").decode())
        for name, content in files.items()
        for number, line in enumerate(io.BytesIO(content), start=1)
    )


@pytest.mark.both
def test_line_numbers_are_those_an_editor_shows_in_files_read_in_pieces(read, small_pieces):
    """Several files, each longer than a piece, lines longer than a piece, no line feed at the end of one."""
    files = {
        "a.log": b"".join(b"%d %s\n" % (n, b"x" * (n % 37)) for n in range(300)),
        "b.log": b"\n".join(b"%d" % n for n in range(200)),
        "c.log": b"short\n" + b"y" * 500 + b"\n\n\n" + b"z" * 200 + b"\nlast\n",
    }
    lines = read(files)
    assert numbered(lines) == by_python(files)
    assert lines.count == {"a.log": 300, "b.log": 200, "c.log": 6}
    assert lines.checksum == sum(number for _, number, _ in by_python(files))


def test_only_a_line_feed_ends_a_line(read):
    """And nothing else of the line is lost or changed."""
    expected = {
        "no last feed": ["one", "two"],
        "last feed": ["one", "two"],
        "blank": [""],
        "blanks": ["one", "", ""],
        "crlf": ["one\r", "two\r"],
        "lone cr": ["one\rstill one", "two"],
        "other separators": ["one\u2028still one\u0085\x0b\x0c", "two"],
        "letters": ["Grüße", "日本"],
        "nul": ["a\0b"],
    }
    text = {name: "".join(f"{line}\n" for line in lines) for name, lines in expected.items()}
    text["no last feed"] = text["no last feed"].rstrip("\n")
    lines = read({f"{name.replace(' ', '-')}.log": content.encode() for name, content in text.items()})
    found = {name: [] for name in expected}
    for name, _, raw in numbered(lines):
        found[name.removesuffix(".log").replace("-", " ")].append(raw)
    assert found == expected


def test_lines_that_are_not_utf8_are_kept_as_bytes(read):
    """The readable part as text, the whole line as bytes; valid lines have no bytes beside them."""
    rows = sorted(read({"a.log": b"good\n\xff\xfe bad\nfine\n"}).rows.collect(), key=lambda r: r["line_number"])
    assert [r["raw"] for r in rows] == ["good", "\ufffd\ufffd bad", "fine"]
    assert [r["raw_bytes"] and bytes(r["raw_bytes"]) for r in rows] == [None, b"\xff\xfe bad", None]


def test_an_empty_file_has_no_line(read):
    """It disturbs nobody's numbers and has no count."""
    lines = read({"a.log": b"one\ntwo\n", "empty.log": b"", "z.log": b"three\n"})
    assert numbered(lines) == [("a.log", 1, "one"), ("a.log", 2, "two"), ("z.log", 1, "three")]
    assert lines.count == {"a.log": 2, "z.log": 1}


def test_nothing_but_empty_files_is_no_line_at_all(read):
    """The checksum of nothing is zero."""
    lines = read({"a.log": b"", "b.log": b""})
    assert (numbered(lines), lines.count, lines.checksum) == ([], {}, 0)


def test_of_no_file_there_are_no_lines(spark, read):
    """The columns are there all the same: what is computed from them needs no case of its own."""
    lines = read_lines(spark, [])
    assert (numbered(lines), lines.count, lines.checksum) == ([], {}, 0)
    assert lines.rows.dtypes == read({"a.log": b"one\n"}).rows.dtypes


@pytest.mark.parametrize("name", ["a b%20#ü.log", "[1].log"])
def test_files_of_any_name_are_read_under_their_name(read, name):
    """Letters that addresses and patterns treat specially are letters of a name here."""
    assert numbered(read({name: b"one\ntwo\n"})) == [(name, 1, "one"), (name, 2, "two")]


def test_a_star_in_a_name_is_no_pattern(read, tmp_path):
    """Only the named file is read, not the ones it would match."""
    (tmp_path / "s-other.log").write_bytes(b"other\n")
    assert [text for _, _, text in numbered(read({"s*.log": b"one\n"}))] == ["one"]


def test_files_of_one_name_in_two_folders_are_refused(spark, tmp_path):
    """A line is found again by its file's name and its number, so the name has to say which file."""
    with pytest.raises(ConfigError, match=r"several files are called a\.txt"):
        read_lines(spark, [tmp_path / "one/a.txt", tmp_path / "two/a.txt"])
