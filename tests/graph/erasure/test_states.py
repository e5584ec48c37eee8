"""Persons in the state files of streaming queries, and in the records that a source keeps."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest

from dedp_assets.graph.declare import Source
from dedp_assets.graph.erasure.cases import Cases
from dedp_assets.graph.erasure.erasing import Eraser
from dedp_assets.graph.resources.lake import Lake
from dedp_assets.graph.resources.spark import SparkEngine
from dedp_assets.patterns.core.errors import ConfigError, NotReady
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.governance.gdpr_erase import Erasure
from tests.helpers import a_run

pytestmark = [pytest.mark.spark, pytest.mark.budget(40, "streaming queries with state, and erasures")]

AT = datetime(2026, 1, 5, tzinfo=timezone.utc)
USERS = TableSpec("silver/users", {"user": Column("STRING", classification="personal", subject="user")})
ADA = "ada.lovelace@example.com"


@pytest.fixture
def eraser(tmp_path, spark):
    """A platform of one table, with its request planned and approved."""
    lake = Lake(root=str(tmp_path / "lake"), engine=SparkEngine())
    table = lake.table(USERS)
    table.overwrite(spark.createDataFrame([(ADA,), ("bob",)], "user STRING"), provenance=a_run())
    return Eraser(lake, {USERS.name: table}, tmp_path, "", Cases(tmp_path / "erasures", tmp_path / "keys"))


def erased(eraser):
    """The case of a request after a run: places by name."""
    if not eraser.cases.knows("T-1"):
        case = eraser.plan(Erasure(request="T-1", ids={"user": [ADA]}, at=AT))
        eraser.cases.keep(replace(case, approved_by="legal"))
    case = eraser.erase(eraser.cases.case("T-1"), a_run(), now=AT + timedelta(days=1))
    return case, {place.name: place for place in case.places}


def streamed(spark, home, name, *users):
    """Run a query with state over some users."""
    (home / name).mkdir(parents=True)
    rows = [json.dumps({"user": user, "at": f"2026-01-05T00:00:0{n}Z"}) for n, user in enumerate(users)]
    (home / name / "a.json").write_text("\n".join(rows))
    read = spark.readStream.schema("user STRING, at TIMESTAMP").json(str(home / name)).withWatermark("at", "1 hour")
    query = read.groupBy("user", "at").count().writeStream.outputMode("append").format("noop")
    checkpoint = home / "lake/_checkpoints" / name
    query.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start().awaitTermination()
    return checkpoint


def test_a_state_is_open_until_no_file_of_it_holds_the_person(eraser, spark, tmp_path):
    """The state of another query is not named; the case ends when the files have gone."""
    of_ada = streamed(spark, tmp_path, "gold/of_ada", ADA, "bob")
    streamed(spark, tmp_path, "gold/of_others", "eve", "bob")
    (tmp_path / "gold/of_ada/a.json").unlink()
    case, places = erased(eraser)
    state = places["_checkpoints/gold/of_ada"]
    assert (state.state, state.due, "dedp run gold/of_ada" in state.note) == ("open", "2026-02-04", True)
    assert "_checkpoints/gold/of_others" not in places
    assert not case.ended
    again = erased(eraser)[1]["_checkpoints/gold/of_ada"]
    assert again.found == state.found  # what is left there, and no sum over runs
    for file in of_ada.rglob("*.delta"):
        file.unlink()
    case, places = erased(eraser)
    assert "_checkpoints/gold/of_ada" not in places
    assert case.ended


def test_a_query_keeps_few_states(spark):
    """So that a person is out of the files soon after the watermark; the engine says so to every session."""
    assert spark.conf.get("spark.sql.streaming.minBatchesToRetain") == "10"


def test_a_state_that_cannot_be_looked_into_is_open_until_its_query_begins_again(eraser, tmp_path):
    """As RocksDB keeps one: with a date, for as long as the checkpoint is the one of the erasure."""
    folder = tmp_path / "lake/_checkpoints/gold/sums"
    (folder / "state/0/0").mkdir(parents=True)
    (folder / "state/0/0/3.zip").write_bytes(b"PK\x05\x06" + bytes(18))
    seen = []
    for query in ("first", "first", "second", "second"):
        (folder / "metadata").write_text(json.dumps({"id": query}))
        case, places = erased(eraser)
        state = places["_checkpoints/gold/sums"]
        seen.append((state.state, state.due, bool(case.ended)))
    assert seen == [*[("open", "2026-02-04", False)] * 2, *[("nothing", "", True)] * 2]


def test_a_state_of_a_query_that_is_not_known_is_open_until_it_is_gone(eraser, tmp_path):
    """Nothing tells whether it began before the erasure."""
    folder = tmp_path / "lake/_checkpoints/gold/sums/state/0/0"
    folder.mkdir(parents=True)
    (folder / "3.zip").write_bytes(b"PK\x05\x06" + bytes(18))
    for _ in range(2):
        case, places = erased(eraser)
        assert (places["_checkpoints/gold/sums"].state, case.ended) == ("open", "")
    (folder / "3.zip").unlink()
    case, places = erased(eraser)
    assert ("_checkpoints/gold/sums" in places, bool(case.ended)) == (False, True)


def test_a_source_is_open_until_it_has_forgotten_what_came_before_the_request(eraser):
    """A source that does not answer is looked at again; one that nobody can ask is owed."""
    left = [3, NotReady("Kafka does not answer"), 0]

    def older(at):
        assert at == AT
        if isinstance(answer := left.pop(0), Exception):
            raise answer
        return answer

    def unset(_):
        raise ConfigError("no Kafka is set")

    of = {"description": "", "kinds": ("kafka",), "owner": "team:web"}
    sources = [
        Source("kafka/visits", older=older, **of),
        Source("kafka/x", older=unset, **of),
        Source("db/users", **of),
    ]
    eraser = replace(eraser, elsewhere=sources)
    seen = []
    for _ in range(3):
        case, places = erased(eraser)
        seen.append((places["kafka/visits"].state, bool(case.ended)))
        assert (places["kafka/x"].state, places["db/users"].state) == ("owed", "owed")
    assert seen == [("open", False), ("open", False), ("nothing", True)]
