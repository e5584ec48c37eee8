"""The applications at work beside the platform: what README shows ends without a failure."""

from __future__ import annotations

from datetime import timedelta

import pytest

from dedp_assets.case_study.sources import operational
from dedp_assets.case_study.workload import work
from dedp_assets.graph.systems import postgres
from tests.case_study.assets.conftest import SILVER_AND_GOLD
from tests.case_study.assets.test_stream import streaming_world, today, visits

pytestmark = pytest.mark.budget(50, "the workload of the README from its beginning to its end")

STEPS = 5


def test_the_workload_of_the_readme_ends_green(spark, tmp_path, kafka, database, monkeypatch):
    """Users, visits and gold follow each time; that today has few visits so far is a warning and no refusal."""
    monkeypatch.setattr(postgres, "address", lambda _: database)
    with database.connect() as connection:
        operational.create(connection)
    with streaming_world(tmp_path, kafka) as world:
        for ago in (3, 2):
            world.land((today() - timedelta(days=ago)).isoformat(), visits(400, ago=ago))
        world.react()
        for done in (1, 2):
            assert work(world.settings, steps=STEPS) == 0
            assert {job for job, _ in world.react()} >= {"capture_users", "stream_visits", SILVER_AND_GOLD}
            (total,) = world.rows("gold/daily_visitors", event_date=today().isoformat())
            assert total["visits"] == done * STEPS * 10
        record = world.last("gold/daily_visitors", event_date=today().isoformat()).record
        (volume,) = [finding for finding in record.findings if finding["name"] == "volume_is_usual"]
        assert (record.verdict, volume["passed"], volume["severity"]) == ("warned", False, "warn")
        assert world.react() == []
