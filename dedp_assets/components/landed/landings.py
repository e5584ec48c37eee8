"""Records of a landing: the declaration of a folder or a database table, and the tables that follow."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import dagster as dg

from dedp_assets.components.landed.landed_columns import LandedColumn
from dedp_assets.components.landed.landed_subjects import with_subject
from dedp_assets.components.landed.topic_source import TopicSource
from dedp_assets.graph.declare import About, Expects, Gates
from dedp_assets.graph.systems.databases import Database
from dedp_assets.patterns.connectors.encoding.formats import Avro, Csv, Json, JsonLines, Parquet
from dedp_assets.patterns.connectors.encoding.record_texts import BROKEN, LAYOUT, RECORD, Naming
from dedp_assets.patterns.connectors.kafka.framed_values import SCHEMA_ID
from dedp_assets.patterns.connectors.landing.deliveries import MARKER, Ends
from dedp_assets.patterns.connectors.landing.landed_files import LINES_OF_RECORD
from dedp_assets.patterns.core.column import TAGS, Column
from dedp_assets.patterns.core.running.digests import as_plain, digest_of
from dedp_assets.patterns.core.schema import TableLayout, TableSpec
from dedp_assets.patterns.error_management.dead_letter import LETTER

__all__ = ["ADDED", "COLUMNS", "Landed", "LandingSpec"]

COLUMNS = "columns.yaml"
"""Default name of the columns' file, in the folder of the declaration."""
_NUMBERS = re.compile(r"double|float|real|dec|numeric", re.IGNORECASE)
_PLACES = {
    "source_file": Column("STRING", "file or table it came in", required=True),
    "line_number": Column(
        "BIGINT", "line in that file, from 1; of Parquet or Avro the row, of a table a hash of the row", required=True
    ),
}
_REPLAYED = Column("BOOLEAN", "whether it was a dead letter once and replayed after a fix")
_RAW = {
    "raw": Column(
        "STRING",
        "the record as it landed; of Parquet, Avro or a table as JSON",
        required=True,
        classification="personal",
    ),
    "raw_bytes": Column("BINARY", "its bytes, where they are not valid UTF-8", classification="personal"),
}
_HEADER = Column("STRING", "names in the header of its file, as a JSON array", required=True)
_SCHEMA = Column("BIGINT", "id of the schema in the record's header; NULL without one", technical=True)
ADDED = frozenset([
    *_PLACES, *_RAW, "header", SCHEMA_ID, "timeliness", "landed_on", "landed_in", "event_date", "event_hour",
    "filed_under", "reason", "error_class", "error_stage", "occurred_at", "was_dead_lettered", RECORD, BROKEN, LAYOUT,
])  # fmt: skip
"""Names of the technical columns of the tables and of their computation, which no record's column may have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LandingSpec:
    """A folder, a database table or a topic as three tables: landed and valid records, and dead letters.

    Attributes:
        table: table of the valid records, ``layer/dataset``; ``<table>_dead_letter`` holds the others.
        about: facts for the catalogue.
        folder: folder of the files, below the landing zone or as an absolute path; ``orders/date={partition}`` for
            folders of partitions that are called otherwise than by the partition alone.
        format: format of the files.
        database: instead of a folder, a table of a database.
        topic: instead of a folder, a Kafka topic, whose records are JSON objects, or Avro of a schema registry.
        columns: columns of the records, or the name of a file beside this one that ``dedp infer`` writes.
        bronze: table of the records as landed; ``bronze/<dataset>`` if empty.
        bronze_expects: expectations of that table; those of ``about`` are of the valid records.
        comment: what one record is.
        partitions: days or hours of the deliveries, a folder for each, called by the partition; left out, the files lie
            in the folder itself, which is one delivery that is read again when it changes.
        event_time: column with the time of the record, a TIMESTAMP, or a DATE where only the day is known, by which the
            valid records are partitioned; if empty, they are partitioned by delivery.
        marker: file that the producer puts beside the files when a delivery is complete.
        settled_minutes: instead of a marker, how long all files of a complete delivery have been left alone.
        exclude: names of files in the folders that are no data, or patterns of names, such as ``*.md``.
        keys: columns that tell records apart; of equal ones in a partition one stays.
        order_by: columns that decide which of equal records comes first, before the order of landing.
        keep: the record of a key that stays.
        rules: reason -> SQL predicate over the columns that a valid record satisfies.
        new_columns: what becomes of a record with columns that are not declared: it is a dead letter
            (``quarantine``, with a warning of new fields inside of a STRUCT), or is taken without them: silently
            (``ignore``), with a warning that names them (``report``), or only if no record of the partition has one
            (``refuse``). The last two warn of columns that vanish or take another type, too.
        layout: layout of the valid records: order of files, statistics, filters, retention.
        gates: rules that decide on a publish of the valid records, besides those on dead letters and duplicates.
        code_version: to be raised when all is to be computed again; the declaration's own changes count without.
    """

    table: str
    about: About
    folder: str = ""
    format: Csv | JsonLines | Json | Parquet | Avro | None = None
    database: Database | None = None
    topic: TopicSource | None = None
    columns: Mapping[str, LandedColumn] | str = COLUMNS
    bronze: str = ""
    bronze_expects: Expects = Expects()  # noqa: RUF009 - a record that nobody can change
    comment: str = ""
    partitions: dg.PartitionsDefinition[str] | None = None
    event_time: str = ""
    marker: str = MARKER
    settled_minutes: float | None = None
    exclude: Sequence[str] = ()
    keys: Sequence[str] = ()
    order_by: Sequence[str] = ()
    keep: Literal["first", "last"] = "first"
    rules: Mapping[str, str] = field(default_factory=dict)
    new_columns: Literal["quarantine", "ignore", "report", "refuse"] = "quarantine"
    layout: TableLayout = TableLayout()  # noqa: RUF009 - a record that nobody can change
    gates: Gates = Gates()  # noqa: RUF009 - a record that nobody can change
    code_version: str = "1"


@dataclass(frozen=True)
class Landed:
    """A landing with the columns of the records.

    Attributes:
        stated: the landing as it is declared.
        columns: columns of the records.
    """

    stated: LandingSpec
    columns: Mapping[str, LandedColumn]

    @property
    def dataset(self) -> str:
        """Name of the dataset."""
        return self.stated.table.rpartition("/")[2]

    @property
    def format(self) -> Csv | JsonLines | Json | Parquet | Avro:
        """Format of the records; rows of a table and records of a topic are JSON objects."""
        return self.stated.format or (JsonLines() if self.stated.topic else Parquet())

    @property
    def ends(self) -> Ends:
        """Sign of a complete delivery."""
        return Ends(self.stated.marker, self.stated.settled_minutes, tuple(self.stated.exclude))

    @property
    def by_hour(self) -> bool:
        """``True`` if each delivery is of an hour, ``False`` if of a day."""
        return isinstance(self.stated.partitions, dg.HourlyPartitionsDefinition)

    @property
    def landed(self) -> Mapping[str, Column]:
        """Name -> column of the delivery's day or hour; empty for a landing without partitions."""
        if self.stated.partitions is None:
            return {}
        if self.by_hour:
            return {"landed_in": Column("STRING", "hour of the delivery, like 2026-01-05-13", required=True)}
        return {"landed_on": Column("DATE", "day of the delivery", required=True)}

    @property
    def event(self) -> Mapping[str, Column]:
        """Name -> column of the event's day or hour; empty for a landing without an event time."""
        if not self.stated.event_time:
            return {}
        what = f"of {self.stated.event_time}; NULL if that is unreadable or not plausible"
        if self.by_hour:
            return {"event_hour": Column("STRING", f"UTC hour {what}")}
        return {"event_date": Column("DATE", f"UTC day {what}")}

    @property
    def event_types(self) -> tuple[str, ...]:
        """Types of a column that tells the day, or the hour, of an event."""
        return ("TIMESTAMP",) if self.by_hour else ("TIMESTAMP", "DATE")

    @property
    def identity(self) -> tuple[str, ...]:
        """Columns that identify a landed record."""
        return (*self.landed, *_PLACES)

    @property
    def naming(self) -> Naming:
        """Names of the columns in the files."""
        each = self.columns.items()
        return Naming(
            columns=tuple(self.columns),
            called={name: column.called for name, column in each if column.called},
            always=tuple(name for name, column in each if not (column.may_lack or self.is_required(name))),
            strict=self.stated.new_columns == "quarantine",
            time=self.stated.event_time,
            numbers=tuple(name for name, column in each if _NUMBERS.match(column.type)),
        )

    @property
    def has_types(self) -> bool:
        """``True`` if the source has typed values: Parquet, Avro, or a topic with a schema registry.

        Then NaN and infinities are values of a DOUBLE, and no texts.
        """
        return isinstance(self.format, Parquet | Avro) or bool(self.stated.topic and self.stated.topic.registry)

    @property
    def lines(self) -> str:
        """SQL for the number of lines of a landed record, where records may have several; empty otherwise."""
        return LINES_OF_RECORD if isinstance(self.format, Csv) and self.format.multiline else ""

    @property
    def counts(self) -> Literal["report", "refuse"] | None:
        """Policy for new fields of a landing that counts fields.

        ``None`` elsewhere. Where new columns are quarantined, a new field inside of a STRUCT makes no dead letter, and
        would be left out without a word.
        """
        answer = self.stated.new_columns
        if answer == "quarantine" and any("STRUCT<" in column.type.upper() for column in self.columns.values()):
            return "report"
        return answer if answer in ("report", "refuse") else None

    @property
    def judges_files(self) -> bool:
        """``True`` if the columns of whole files are judged, by headers and footers."""
        return self.stated.new_columns in ("report", "refuse")

    @property
    def header(self) -> list[str]:
        """Names of the columns in the files, in order."""
        return [column.called or name for name, column in self.columns.items()]

    @property
    def code_version(self) -> str:
        """Version of the computation: the stated version, with a digest of all that decides on the rows."""
        named = ("event_time", "keys", "order_by", "keep", "rules", "new_columns")
        facts = {name: getattr(self.stated, name) for name in named}
        return f"{self.stated.code_version}-{digest_of(self._read, self._deciding(self.columns), facts)}"

    @property
    def landed_version(self) -> str:
        """Version of the reading: of the source, of the format, and of the column that dates a record."""
        dated = self._deciding({self.stated.event_time: self.columns[self.stated.event_time]}) if self.event else {}
        named = self.header if isinstance(self.format, Csv) and not self.format.header else []
        return f"{self.stated.code_version}-{digest_of(self._read, dated, named)}"

    @property
    def _read(self) -> object:
        """The source, the format and the partitions, as far as rows follow from these."""
        source = [getattr(self.stated.database, name, "") for name in ("table", "column")]
        first = (
            self.stated.partitions.start
            if isinstance(self.stated.partitions, dg.TimeWindowPartitionsDefinition)
            else None
        )
        return [source, type(self.format).__name__, as_plain(self.format), first, self.by_hour]

    @staticmethod
    def _deciding(columns: Mapping[str, LandedColumn]) -> object:
        """Return the options of columns that values follow from."""
        return as_plain(columns, without=("comment", *TAGS))

    def is_required(self, name: str) -> bool:
        """Return whether a record must have a value: of a required column, a key, or the event time."""
        return self.columns[name].required or name in self.stated.keys or name == self.stated.event_time

    def specs(self) -> tuple[TableSpec, TableSpec, TableSpec]:
        """Return the tables: valid records, records as landed, and dead letters.

        Raises:
            ConfigError: for what no table may declare.
        """
        stated, when = self.stated, "timeliness"
        what = stated.comment or f"One record of {self.dataset}."
        raw = {**_RAW, **({"header": _HEADER} if isinstance(self.format, Csv) else {})}
        raw["raw"] = with_subject(raw["raw"], self.columns, self.header, self.format)
        header = {SCHEMA_ID: _SCHEMA} if stated.topic else {}
        timely = {when: Column("STRING", "on_time, late or undated when it landed", technical=True)}
        of_event = {name: replace(column, required=True) for name, column in self.event.items()}
        kept = {name: self._held(name) for name in self.columns}
        by = tuple(self.event) or tuple(self.landed)
        filed = Column("STRING" if self.by_hour else "DATE", "its day or hour, or that of the delivery", required=True)
        return (
            TableSpec(
                stated.table,
                {**kept, **of_event, **_PLACES, **self.landed, "was_dead_lettered": _REPLAYED},
                partition_by=by,
                event_time=stated.event_time,
                layout=stated.layout,
                comment=f"{what} Typed, validated{' and deduplicated' if stated.keys else ''}.",
            ),
            TableSpec(
                stated.bronze or f"bronze/{self.dataset}",
                {**raw, **_PLACES, **(timely if self.event else {}), **self.landed, **self.event, **header},
                partition_by=(*self.landed, *self.event),
                event_time="event_date" if "event_date" in self.event else "",
                comment="One row per landed record, malformed ones included.",
            ),
            TableSpec(
                f"{stated.table}_dead_letter",
                {**raw, **_PLACES, **self.landed, **self.event, **LETTER, **({"filed_under": filed} if by else {})},
                partition_by=("filed_under",) if by else (),
                event_time="occurred_at" if stated.event_time else "",
                comment="One row per landed record that could not be processed, with every rule it broke.",
            ),
        )

    def _held(self, name: str) -> Column:
        column = self.columns[name]
        plain = {each: getattr(column, each) for each in Column.__slots__}
        return Column(**{**plain, "required": self.is_required(name)})
