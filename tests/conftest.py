"""One Spark session per test process, and small tables to play with."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dedp_assets.patterns.core.schema import TableSpec
from dedp_assets.patterns.core.tables import Table
from resources import engine
from resources.environments import Settings, apply, settings
from tests.helpers import EVENTS, connect_server


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--engine", choices=["embedded", "connect"], default="embedded", help="the Spark engine to test on"
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whoever uses the session is a Spark test; nobody has to remember the mark."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)


@pytest.fixture(scope="session")
def test_settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """Settings with a home of their own and the checkout's cache of jars."""
    home = tmp_path_factory.mktemp("home")
    cache = {"DEDP_CACHE": str(settings().cache), "DEDP_HOME": str(home)}
    apply({**cache, "DEDP_JIT": "quick", "DEDP_SPARK_MASTER": "local[2]"})
    return settings()


@pytest.fixture(scope="session")
def spark(request: pytest.FixtureRequest, test_settings: Settings) -> Iterator[Any]:
    """The test process's Spark session: embedded, or attached to a Spark Connect server of its own."""
    from resources.spark import SparkEngine

    engine.prepare(test_settings)
    if request.config.getoption("--engine") == "embedded":
        yield SparkEngine().session
        return
    with connect_server(test_settings) as remote:
        session = SparkEngine(remote=remote).session
        yield session
        session.stop()


@pytest.fixture
def make_table(spark: Any, tmp_path: Path) -> Callable[[TableSpec], Table]:
    """Tables below this test's own root."""
    return lambda spec: Table(spec, tmp_path / "lake" / spec.name, spark)


@pytest.fixture
def events(make_table: Callable[[TableSpec], Table]) -> Table:
    """An empty table of :data:`EVENTS`."""
    return make_table(EVENTS)


@pytest.fixture
def event_rows(spark: Any) -> Callable[..., Any]:
    """``event_rows(3, day="2026-01-05")``: as many rows for :data:`EVENTS`, ids from ``start``."""

    def rows(count: int, *, day: str = "2026-01-05", start: int = 0, amount: str = "id * 1.5D") -> Any:
        return spark.range(start, start + count).selectExpr(
            "id", "concat('u', id) AS user_id", f"{amount} AS amount", f"DATE '{day}' AS event_date"
        )

    return rows
