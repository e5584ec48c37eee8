"""Plans of erasures."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from dedp_assets.graph.erasure.cases import DEADLINE, Cases
from dedp_assets.graph.erasure.erasing import Eraser
from dedp_assets.graph.resources.lake import Lake
from dedp_assets.graph.resources.spark import SparkEngine
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.governance.gdpr_erase import Erasure
from tests.helpers import a_run

pytestmark = pytest.mark.spark

AT = datetime(2026, 1, 5, tzinfo=timezone.utc)
USERS = TableSpec("silver/users", {"user": Column("STRING", classification="personal", subject="user")})


def test_the_deadline_counts_from_the_first_plan(tmp_path, spark):
    """A plan that is made again, of other ids or with another share, wins no time."""
    lake = Lake(root=str(tmp_path / "lake"), engine=SparkEngine())
    table = lake.table(USERS)
    table.overwrite(spark.createDataFrame([("ada",), ("bob",)], "user STRING"), provenance=a_run())
    eraser = Eraser(lake, {USERS.name: table}, tmp_path, "", Cases(tmp_path / "erasures", tmp_path / "keys"))
    eraser.plan(Erasure(request="T-1", ids={"user": ["ada"]}, at=AT))
    again = eraser.plan(Erasure(request="T-1", ids={"user": ["bob"]}, at=AT + timedelta(days=29)))
    assert again.due == AT + DEADLINE
    assert eraser.cases.ids(again) == {"user": ["bob"]}
    assert [(place.name, place.found) for place in again.places] == [("silver/users", 1)]
