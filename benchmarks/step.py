"""A platform step inside Dagster against the same step as a hand-written Spark + Delta script without Dagster.

Ours: the table ``silver/visits`` for one date on a persistent instance: pinned read, JSON to types with every
conversion compared with its input, ten rules, dead letters, deduplication, accounting by count and by identity, audits,
two tables published, checks and materializations recorded.

Theirs: the script most people write: read the bronze partition by the Delta reader, ``from_json``, the same ten rules,
split, ``row_number``, cache, counts of what was read, dead, repeated and kept, both tables by ``replaceWhere``.

Fair, because both run in one warm session over the same bronze version and rewrite partitions of the same rows; the
numbers of kept, dead and repeated rows must be equal in every round. The script does less (it does not notice what
follows a JSON object, conversions that lose a value, or rows that get lost), has no orchestrator, and keeps no history.
For orientation, a line at 100,000 rows shows the script without any count and cache: writes only.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from benchmarks import data
from benchmarks.measure import Counters, Row, compare, explain, interleave
from dedp_assets.case_study.defs.bronze.visits import EVENT_TIME
from dedp_assets.case_study.defs.bronze.visits import VISITS as LANDED
from dedp_assets.case_study.defs.silver.visits import DEAD_LETTER, RULES, VISITS
from dedp_assets.graph.resources.environments import settings
from dedp_assets.graph.resources.spark import SparkEngine
from dedp_assets.laptop.orchestration.instance import Platform
from dedp_assets.patterns.connectors.landing.lines import read_lines
from dedp_assets.patterns.core.records import Provenance
from dedp_assets.patterns.core.schema import TableSpec
from dedp_assets.patterns.delta import Ledger, Table

__all__ = ["Bronze", "run"]

_LATE_LANDING = "2026-01-30"
_SIZES = {1_000: 5, 10_000: 3, 100_000: 3, 1_000_000: 3}
_LEAN = 100_000
_GOAL = 1.0


class Bronze:
    """Bronze days to work on, each changed before every round by one late visit, so that there is something to do."""

    def __init__(self, session: SparkSession) -> None:
        self.session = session
        self.table = Table(LANDED, Path(settings().lake) / LANDED.name, session)

    def land(self, on: str, count: int) -> None:
        """Fill one day."""
        files = data.land(settings().landing, on, data.lines(count, on))
        self._write(read_lines(self.session, files).rows, on)

    def touch(self, on: str, number: int) -> None:
        """One late visit of the day, other than the one before."""
        line = data.lines(1, on)[0].replace('"visit_id": "', f'"visit_id": "late{number}-')
        rows = self.session.createDataFrame([(line, 1)], "raw STRING, line_number BIGINT")
        more = rows.selectExpr("raw", "CAST(NULL AS BINARY) AS raw_bytes", "'late.jsonl' AS source_file", "line_number")
        self._write(more, _LATE_LANDING)

    def _write(self, rows: DataFrame, landed_on: str) -> None:
        filed = rows.selectExpr(
            "raw",
            "raw_bytes",
            "source_file",
            "line_number",
            "'on_time' AS timeliness",
            "CAST(NULL AS BIGINT) AS schema_id",
            f"DATE '{landed_on}' AS landed_on",
            f"to_date({EVENT_TIME}) AS event_date",
        )
        self.table.overwrite(
            filed, partition={"landed_on": landed_on}, provenance=Provenance(asset=LANDED.name, run_id="benchmark")
        )


def run(*, quick: bool) -> list[Row]:
    """Measure all sizes."""
    session, platform = SparkEngine().session, Platform(settings())
    bronze = Bronze(session)
    sizes = {200: 1} if quick else _SIZES
    rows = []
    for number, (count, rounds) in enumerate(sizes.items()):
        on = data.day(number)
        bronze.land(on, count)
        rows += _measure(platform, bronze, on, count, rounds, lean=count == (max(sizes) if quick else _LEAN))
    return rows


def _measure(platform: Platform, bronze: Bronze, on: str, count: int, rounds: int, *, lean: bool) -> list[Row]:
    script = Script(bronze.session, settings().home / "script")

    def ours(number: int) -> dict[str, float]:
        ended = platform.compute("silver/visits", partition=on)
        assert not ended.failure, ended.failure
        counts.setdefault(number, []).append(_recorded(on))
        return {}

    def theirs(number: int) -> dict[str, float]:
        counts.setdefault(number, []).append(script.execute(on))
        return {}

    counts: dict[int, list[dict[str, int]]] = {}
    sides: dict[str, Callable[[int], dict[str, float] | None]] = {"platform step": ours, "script": theirs}
    if lean:
        sides["script, writes only"] = lambda _: script.write_only(on)
    counters = Counters(bronze.session)
    found = interleave(
        sides,
        rounds=rounds,
        warm_up=3 if count < 1_000_000 else 1,
        before=lambda number: bronze.touch(on, number),
        counters=counters,
    )
    assert all(first == second for first, second in counts.values()), counts
    row = compare(f"{count:,} rows", found[0], found[1], at_most=_GOAL if count in _SIZES else None)
    if row.met is False:
        bronze.touch(on, 10_000)
        row.why = explain(
            lambda: ours(-1), ["_compute", "reads", "clean", "route", "stage", "stage_rows", "_staged_files", "publish"]
        )
    return [row, *[compare(f"{count:,} rows, no counts", found[0], side) for side in found[2:]]]


def _recorded(on: str) -> dict[str, int]:
    commit = Ledger(Path(settings().lake) / VISITS.name, name=VISITS.name).latest({"event_date": on})
    assert commit is not None
    assert commit.record is not None
    return {name: commit.record.rows[name] for name in ("read", "dead", "duplicates", "written")}


class Script:
    """The hand-written step."""

    def __init__(self, session: SparkSession, lake: Path) -> None:
        self.session, self.bronze = session, Path(settings().lake) / LANDED.name
        self.visits, self.letters = lake / VISITS.name, lake / DEAD_LETTER.name
        for spec, location in ((VISITS, self.visits), (DEAD_LETTER, self.letters)):
            self._create(spec, location)

    def execute(self, on: str) -> dict[str, int]:
        """Split, count and write one date."""
        judged = self._judged(on).cache()
        dead = judged.where("reason IS NOT NULL")
        ranked = self._ranked(judged).cache()
        unique = ranked.where("place = 1")
        counts = {
            "read": judged.count(),
            "dead": dead.count(),
            "duplicates": ranked.where("place > 1").count(),
            "written": unique.count(),
        }
        self._write(dead, unique, on)
        ranked.unpersist()
        judged.unpersist()
        return counts

    def write_only(self, on: str) -> None:
        """The same without counting or caching anything."""
        judged = self._judged(on)
        self._write(judged.where("reason IS NOT NULL"), self._ranked(judged).where("place = 1"), on)

    def _judged(self, on: str) -> DataFrame:
        lines = self.session.read.format("delta").load(str(self.bronze))
        mine = lines.where(f"event_date = DATE '{on}' OR (event_date IS NULL AND landed_on = DATE '{on}')")
        parsed = mine.withColumn("visit", F.from_json("raw", data.TYPED)).select("visit.*", *mine.columns)
        rules = {reason: rule.replace(" OR `event_time text` IS NOT NULL", "") for reason, rule in RULES.items()}
        broken = [F.when(~F.coalesce(F.expr(rule), F.lit(False)), reason) for reason, rule in rules.items()]  # noqa: FBT003
        return parsed.withColumn("reason", F.nullif(F.concat_ws("; ", *broken), F.lit("")))

    def _ranked(self, judged: DataFrame) -> DataFrame:
        order = Window.partitionBy("visit_id").orderBy("landed_on", "source_file", "line_number")
        return judged.where("reason IS NULL").withColumn("place", F.row_number().over(order))

    def _write(self, dead: DataFrame, unique: DataFrame, on: str) -> None:
        stamps = {
            "error_class": F.col("reason"),
            "error_stage": F.lit("validate"),
            "occurred_at": F.col("event_time"),
            "status": F.lit("open"),
            "job": F.lit("script"),
            "code_version": F.lit("1"),
            "replayed_by": F.lit(None).cast("string"),
            "run_id": F.lit("script"),
            "dead_lettered_at": F.current_timestamp(),
            "filed_under": F.lit(on).cast("date"),
        }
        self._replace(dead.withColumns(stamps).select(*DEAD_LETTER.columns), self.letters, f"filed_under = DATE '{on}'")
        kept = unique.withColumn("was_dead_lettered", F.lit(False)).select(*VISITS.columns)  # noqa: FBT003
        self._replace(kept, self.visits, f"event_date = DATE '{on}'")

    def _replace(self, rows: DataFrame, location: Path, where: str) -> None:
        rows.write.format("delta").mode("overwrite").option("replaceWhere", where).save(str(location))

    def _create(self, spec: TableSpec, location: Path) -> None:
        columns = ", ".join(f"`{name}` {column.type}" for name, column in spec.columns.items())
        by = ", ".join(spec.partition_by)
        self.session.sql(f"CREATE TABLE IF NOT EXISTS delta.`{location}` ({columns}) USING DELTA PARTITIONED BY ({by})")
