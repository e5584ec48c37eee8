"""Columns by other names or of another type: what a pattern gives then is compared under the plain ones."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone

from dedp_assets.patterns.core.names import identifier
from dedp_assets.patterns.core.schema import Column, TableSpec
from tests.helpers import read_back
from tests.marking import marked_with

STORED = "{}.`ü`'\"$1\\%s:/[0]<b>"
"""What a column of a table may be called: all but what Delta refuses, which are blanks and the likes of ``,;{}()=``."""
ANY = STORED + " ,;{{0}}(x)=\t"
"""What a column of rows may be called."""
MAPPED = "{}.ü'\"$1\\%s:/[0]<b> ,;{{0}}(x)="
"""What a column may be called where Delta maps names to others: it does not double a backtick."""
WORDS = ("SELECT", "s", "t", "f", "contents", "1st", "session_window", "o", "r", "done")
"""Words that mean something to SQL, or to the library where it joins or adds columns: every third column has one."""


@dataclass(frozen=True)
class AnyNames:
    """A use of a pattern that gives the same whatever its columns are called.

    Attributes:
        use: takes a :class:`Renaming` and yields what is there then: frames, tables, lists of records.
        odd: the template of odd names that its columns may have.
        handed_on: columns that the pattern does nothing with but keep, so that they may be maps.
        read_as_json: columns that become JSON, as which a map is read.
    """

    use: object
    odd: str
    handed_on: tuple
    read_as_json: tuple


def any_names(odd=ANY, *, handed_on=(), read_as_json=()):
    """Mark a use of a pattern, beside the pattern's tests; ``contracts/test_names.py`` runs it under other names."""

    def mark(use):
        use.any_names = AnyNames(use, odd, tuple(handed_on), tuple(read_as_json))
        return use

    return mark


def marked_uses():
    """The uses that test files mark with :func:`any_names`: path of the test file -> uses."""
    return {file: [use.any_names for use in uses] for file, uses in marked_with("any_names").items()}


def at(minute):
    """A minute of the day."""
    return datetime(2026, 1, 5, 10, minute, tzinfo=timezone.utc)


class Renaming:
    """Names, and frames and tables whose columns have them; what comes back has the plain names again.

    Attributes:
        plain: name in use -> plain name.
        folder: where streams read from.
        wrapped: plain names of columns whose values are in a map, ``{"it": value}``; taken out of it again.
        words: whether every third column is called by one of :data:`WORDS` instead.
        shout: whether options have the names in capitals, which Spark does not mind.
        columns_used: plain names of the columns of frames and tables.
    """

    def __init__(self, odd, spark, make_table, folder, wrapped=(), shout=False, words=True):
        self.shout, self.words = shout, words
        self.odd, self.spark, self.make_table, self.folder, self.wrapped = odd, spark, make_table, folder, {*wrapped}
        self.plain, self._known, self._tables, self.columns_used = {}, {}, 0, set()
        self._label = "_".join(["odd" if odd else "plain", *sorted(self.wrapped)])

    def __call__(self, name):
        """The name of a column as an option has it."""
        return self.declared(name).upper() if self.shout else self.declared(name)

    def declared(self, name):
        """The name of a column as rows have it and tables declare it."""
        if name not in self._known:
            number, word = divmod(len(self._known), 3)
            odd = WORDS[number] if word == 2 and self.words else self.odd.format(name)
            self._known[name] = odd if self.odd else name
            self.plain |= dict.fromkeys((self._known[name], self._known[name].upper()), name)
        return self._known[name]

    def q(self, name):
        """The same as SQL."""
        return identifier(self(name))

    def all(self, *names):
        """The names in use of columns."""
        return [self(name) for name in names]

    def frame(self, columns, *rows):
        """Rows with columns such as ``id INT, day STRING``."""
        pairs = _pairs(columns)
        schema = ", ".join(f"{identifier(self.declared(name))} {self._kind(name, kind)}" for name, kind in pairs)
        inside = [name in self.wrapped for name, _ in pairs]
        put = [tuple({"it": v} if i and v is not None else v for i, v in zip(inside, row, strict=True)) for row in rows]
        return self.spark.createDataFrame(put, schema)

    def columns(self, columns):
        """Declare such columns; ``!`` makes one required."""
        declared = [(c, self._kind(c, k.removesuffix("!")), k.endswith("!")) for c, k in _pairs(columns)]
        return {
            self.declared(c): Column(kind, required=required, classification="public") for c, kind, required in declared
        }

    def table(self, columns, *, by=(), more=None, **spec):
        """Declare a table of such columns and ``more``, partitioned ``by`` some of them."""
        self._tables += 1
        held, parts = {**self.columns(columns), **(more or {})}, tuple(map(self.declared, by))
        return self.make_table(TableSpec(f"{self._label}/{self._tables}", held, parts, **spec))

    def stream(self, columns, rows=()):
        """A stream of such rows, in one micro-batch."""
        frame, place = self.frame(columns, *rows), str(self._place / "in")
        frame.coalesce(1).write.parquet(place)
        return self.spark.readStream.schema(frame.schema).parquet(place)

    def taken(self, stream):
        """The rows that come of a stream."""
        found = []
        query = stream.writeStream.foreachBatch(lambda batch, _: found.extend(batch.collect()))
        steps = query.option("checkpointLocation", str(self._place / "steps"))
        steps.trigger(availableNow=True).start().awaitTermination()
        return found

    @property
    def _place(self):
        return self.folder / self._label

    def _kind(self, name, kind):
        self.columns_used.add(name)
        return f"MAP<STRING, {kind}>" if name in self.wrapped else kind

    def rows(self, found):
        """Rows under the plain names, in a stable order: of a frame, of a table by an independent reader, or a list."""
        if not isinstance(found, list):
            found = found.collect() if hasattr(found, "collect") else read_back(found)
        rows = [row if isinstance(row, dict) else row.asDict(recursive=True) for row in found]
        return sorted(map(self._back, rows), key=repr)

    def _back(self, value):
        if isinstance(value, dict) and [*value] == ["it"]:
            return value["it"]
        if isinstance(value, list) and [*map(type, value)] == [tuple]:  # as the independent reader gives a map
            return value[0][1]
        if isinstance(value, dict):
            return {self.plain.get(k, k): self._back(v) for k, v in sorted(value.items(), key=self._by_plain_name)}
        return [self._back(each) for each in value] if isinstance(value, list) else value

    def _by_plain_name(self, item):
        return self.plain.get(item[0], item[0])


def _pairs(columns):
    return [column.split(" ", 1) for column in columns.split(", ")]
