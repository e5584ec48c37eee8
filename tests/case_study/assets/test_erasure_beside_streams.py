"""A person is erased while a stream, a capture and late files go on: gone, and nobody else lost."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from threading import Event

import pytest

from dedp_assets.case_study.sources import operational
from dedp_assets.case_study.sources.visits_topic import publish
from dedp_assets.cli import main
from dedp_assets.graph.systems import postgres
from tests.case_study.assets.test_stream import delete_before, streaming_world, visits
from tests.faults.processes import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.budget(120, "a stream and a capture beside an erasure")]

START = datetime(2026, 1, 5, 12, tzinfo=timezone.utc)
GONE = "user-4711-canary"


@pytest.fixture
def world(spark, tmp_path, kafka, database, monkeypatch):
    """A world whose visits come by a topic, and its users from a database."""
    monkeypatch.setattr(postgres, "address", lambda _: database)
    with streaming_world(tmp_path, kafka) as made:
        yield made


class Arrivals:
    """Visits and changes of users that arrive round by round, the person's among them."""

    def __init__(self, world, kafka, database):
        self.world, self.kafka, self.database = world, kafka, database
        self.others, self.rounds = [], 0
        with database.connect() as connection:
            operational.create(connection)

    def named(self, name, line, **fields):
        """A visit under an id that no other one has."""
        return json.dumps({**json.loads(line), "visit_id": f"{self.rounds}-{name}", **fields})

    def arrive(self):
        """Publish visits, change users and the person's own row, and let the sensors do their work."""
        lines = [self.named(f"{number}", line) for number, line in enumerate(visits(10) + visits(2, ago=1))]
        mine = [self.named(f"mine-{number}", line, user_id=GONE) for number, line in enumerate(visits(3))]
        self.others += lines
        publish(self.kafka, [*lines, *mine])
        with self.database.connect() as connection:
            operational.work(connection, at=START + timedelta(minutes=self.rounds), steps=1)
            values = (GONE, f"{GONE}-{self.rounds}@example.org", self.rounds)
            connection.execute(
                "INSERT INTO users (user_id, login, email, credit, active, registered_at, changed_at) "
                "VALUES (%s, 'canary', %s, %s, true, now(), now()) "
                "ON CONFLICT (user_id) DO UPDATE SET email = EXCLUDED.email, credit = EXCLUDED.credit",
                values,
            )
        ended = list(self.world.platform.react())
        self.rounds += 1
        return ended


def named(world):
    """Tables of the lake with a row that names the person."""
    tables = ("bronze/visits", "silver/visits", "bronze/users", "silver/users", "silver/users_current")
    return {table for table in tables if GONE in json.dumps(world.rows(table), default=str)}


def erase(*more):
    """Go on with the request; return the exit code."""
    return main(["erase", "--because", "GDPR-1", "--most", "1", *more])


def erase_meanwhile(arrivals):
    """Erase, and go on until two rounds arrived meanwhile; return the failures of the runs that loaded these."""
    ended = Event()

    def go_on():
        failed = []
        while not ended.is_set():
            failed += [each for each in arrivals.arrive() if each.failure]
        return failed

    with ThreadPoolExecutor(1) as others:
        before, running = arrivals.rounds, others.submit(go_on)
        try:
            erase("--by", "legal")
            assert wait_until(lambda: arrivals.rounds >= before + 2 or running.done())
        finally:
            ended.set()
        return running.result()


def test_a_person_goes_while_streams_and_captures_go_on(world, kafka, database, capsys):
    """Each visit of others is in silver once; of the person no row is left, whichever run came in between."""
    arrivals = Arrivals(world, kafka, database)
    assert not [each for each in arrivals.arrive() if each.failure]
    assert {"silver/visits", "bronze/users"} <= named(world)
    assert erase("--subject", GONE) == 0
    assert erase_meanwhile(arrivals) == []
    delete_before(kafka, kafka.describe().end)  # as its retention does
    with database.connect() as connection:
        connection.execute("DELETE FROM users WHERE user_id = %s", (GONE,))
    world.react()
    assert erase() == 0, capsys.readouterr().out
    assert named(world) == set()
    assert world.ids("silver/visits") == sorted(json.loads(line)["visit_id"] for line in arrivals.others)
