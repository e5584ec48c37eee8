"""A platform of its own for a test: landing zone, lake, and a Dagster instance, driven in this process."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dedp_assets.case_study.defs.bronze.archived_visits import DATASET
from dedp_assets.case_study.sources import visits
from dedp_assets.graph.resources.clock import Clock
from dedp_assets.graph.resources.environments import settings, variable
from dedp_assets.graph.resources.lake import lake_of
from dedp_assets.laptop.orchestration.instance import Ended, Platform
from dedp_assets.laptop.status_page.making import Maker
from dedp_assets.laptop.status_page.strips import is_state
from dedp_assets.patterns.delta import Commit, Ledger, as_folder, store_at
from tests.helpers import NOW, rows_at
from tests.running import LAKES, REMOTE

MONDAY = date(2026, 1, 5)
BOTH_OF_GOLD = "gold/daily_page_views, gold/daily_visitors"
"""What a run of a date's gold is called by the tables it computes."""
SILVER_AND_GOLD = f"{BOTH_OF_GOLD}, silver/visits"
"""What the run of a late date is called: gold is corrected with silver."""

OF_ARRAYS = {"gold/pages_by_visit", "gold/sessions", "silver/sessions_pending"}
"""Tables of structs in arrays: a trace takes such a column as a whole, and names more inputs than a field has."""


def day(number: int) -> str:
    """The ``number``-th day of the test week, from 0."""
    return (MONDAY + timedelta(days=number)).isoformat()


class World:
    """What a test does to the platform, and what it reads back through an independent reader."""

    def __init__(self, platform: Platform) -> None:
        self.platform, self.settings = platform, settings()
        self.landing = self.settings.landing

    def land(self, landed_on: str, lines: Iterable[str], **more: Any) -> None:
        """Deliver lines as a day's landing."""
        visits.deliver(self.landing / "visits", date.fromisoformat(landed_on), list(lines), **more)

    def archive(self, name: str, *ids: str) -> None:
        """Put a file of visits from before the platform into the archive."""
        folder, at = self.landing / DATASET, pa.array([NOW] * len(ids), pa.timestamp("us", "UTC"))
        folder.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"visit_id": [*ids], "event_time": at}), folder / name)

    def run(self, job: str, partition: str = "", **tags: str) -> Ended:
        """Run a job."""
        return self.platform.run(job, partition=partition, tags=tags)

    def compute(self, table: str, partition: str = "", **tags: str) -> Ended:
        """Compute one table."""
        return self.platform.compute(table, partition=partition, tags=tags)

    def react(self) -> list[tuple[str, str]]:
        """Let the sensors do their work; ``(job or tables, partition)`` of every run that succeeded, in order."""
        ended = list(self.platform.react())
        assert not [e for e in ended if e.failure], ended
        return [(e.job, e.partition) for e in ended]

    def restart(self) -> None:
        """What comes after a crash: a new start, which closes the runs whose process is gone."""
        self.platform.instance.dispose()
        self.platform = Platform(self.settings)

    def rows(self, table: str, **values: str) -> list[dict[str, Any]]:
        """Rows of a table, filtered by column text."""
        found = rows_at(self.ledger(table).store)
        return [row for row in found if all(str(row[column]) == value for column, value in values.items())]

    def ids(self, table: str, **values: str) -> list[str]:
        """Visit ids of a table, sorted."""
        return sorted(row["visit_id"] for row in self.rows(table, **values))

    def ledger(self, table: str) -> Ledger:
        """A table's log."""
        return lake_of(self.settings).ledger(table)

    def address(self, table: str) -> str:
        """A table's location, as Spark and deltalake take it."""
        return self.ledger(table).store.address

    def exported(self, table: str = "") -> Path:
        """The folder with plain files of a table, or of all."""
        return Path(as_folder(store_at(lake_of(self.settings).files(table))).root)

    def last(self, table: str, **partition: str) -> Commit:
        """The newest commit of a partition."""
        commit = self.ledger(table).latest(partition)
        assert commit is not None
        return commit

    def versions(self) -> dict[str, int]:
        """Version of every table there is."""
        return {name: self.ledger(name).version() for name in lake_of(self.settings).names(replicas=True)}

    def checks(self, table: str) -> dict[str, bool]:
        """Verdict of the newest evaluation of each check of a table that ever ran."""
        key = dg.AssetKey(table.split("/"))
        graph = self.platform.definitions.resolve_asset_graph()
        found = {}
        for check in graph.get(key).check_keys:
            records = self.platform.instance.event_log_storage.get_asset_check_execution_history(check, limit=20)
            verdicts = [record.event.dagster_event.event_specific_data for record in records]
            evaluated = [verdict.passed for verdict in verdicts if isinstance(verdict, dg.AssetCheckEvaluation)]
            if evaluated:
                found[check.name] = evaluated[0]
        return found

    def evaluation(self, table: str, check: str) -> dg.AssetCheckEvaluation:
        """The newest evaluation of a check."""
        key = dg.AssetCheckKey(dg.AssetKey(table.split("/")), check)
        (record,) = self.platform.instance.event_log_storage.get_asset_check_execution_history(key, limit=1)
        assert record.event is not None
        assert record.event.dagster_event is not None
        found = record.event.dagster_event.event_specific_data
        assert isinstance(found, dg.AssetCheckEvaluation)
        return found

    def materialization(self, table: str, partition: str = "") -> Mapping[str, Any]:
        """Metadata of the newest materialization of a table or of a partition of it, by name."""
        partitions = [partition] if partition else None
        wanted = dg.AssetRecordsFilter(dg.AssetKey(table.split("/")), asset_partitions=partitions)
        record = self.platform.instance.fetch_materializations(wanted, limit=1).records[0]
        assert record.asset_materialization is not None
        return {name: value.value for name, value in record.asset_materialization.metadata.items()}

    def waiting(self, table: str) -> dict[tuple[str, str], str]:
        """Reason by partition and state, of the partitions of a table that are not current, as `dedp status` has it."""
        page = Maker(self.settings, thorough=True).page(Clock().now())
        found = [each for each in page.troubles if each.table == table and is_state(each.kind)]
        return {(each.partition, each.kind): each.reason for each in found}

    def contradicted(self) -> dict[str, str]:
        """Differences between the declared and the observed column lineage, by table; without tables of arrays."""
        names = {key.to_user_string() for key in self.platform.instance.all_asset_keys() if self._is_computed(key)}
        told = {name: self.materialization(name).get("lineage differs", "") for name in names - OF_ARRAYS}
        return {name: sentence for name, sentence in told.items() if sentence}

    def _is_computed(self, key: dg.AssetKey) -> bool:
        return self.platform.instance.get_latest_materialization_event(key) is not None


@contextmanager
def world_in(home: Path) -> Iterator[World]:
    """A world below ``home``; the environment is put back after, and no table has contradicted its declared lineage."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DEDP_HOME", str(home))
        patch.setenv("DAGSTER_HOME", str(home / "dagster"))
        if remote := variable(REMOTE):
            patch.setenv("SPARK_REMOTE", remote)
        lakes = variable(LAKES)
        if lakes:
            patch.setenv("DEDP_LAKE", f"{lakes}/{uuid.uuid4().hex}")
        made = World(Platform(settings()))
        yield made
        contradicted = made.contradicted()
        made.platform.instance.dispose()
        assert not contradicted
        if lakes:
            assert not list(holding(variable("AWS_SECRET_ACCESS_KEY"), home, made.settings.lake))


def holding(secret: str, home: Path, lake: str) -> Iterator[str]:
    """The files of a home and of a lake's logs and notes with a secret in them."""
    objects = store_at(lake)
    yield from (str(path) for path in home.rglob("*") if path.is_file() and secret.encode() in path.read_bytes())
    texts = [file.path for file in objects.files() if not file.path.endswith(".parquet")]
    yield from (path for path in texts if secret.encode() in objects.read(path))


@pytest.fixture
def world(spark: Any, tmp_path: Path) -> Iterator[World]:
    """A world for one test."""
    with world_in(tmp_path) as made:
        yield made


@pytest.fixture(scope="module")
def week(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Three landed days, loaded; for tests of one module that tell one story in order."""
    with world_in(tmp_path_factory.mktemp("week")) as made:
        for number in range(3):
            made.land(day(number), visits_of(number))
        assert len(made.react()) == 3
        yield made


def visits_of(number: int, count: int = 40, seed: int = 1) -> list[str]:
    """Generated visits of a day."""
    return visits.visits_of(MONDAY + timedelta(days=number), count=count, seed=seed)


def page_views(rows: Iterable[Mapping[str, Any]]) -> Counter[str]:
    """Views by page."""
    return Counter(row["page"] for row in rows)
