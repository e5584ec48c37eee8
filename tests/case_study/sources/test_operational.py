"""The applications' workload: the same steps leave the same rows, and every kind of change happens."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime, timedelta, timezone
from itertools import pairwise

import pytest

from dedp_assets.case_study.sources import operational

AT = datetime(2026, 1, 5, 12, tzinfo=timezone.utc)
TABLES = ("users", "device_owners", "visits", "payments", "orders", "plans", "workload_steps")


@pytest.fixture
def application(database):
    """A connection of the applications to a database with their tables."""
    with database.connect() as connection:
        operational.create(connection)
        connection.commit()
        yield connection


def content(connection):
    """Every row of every table."""
    return {table: sorted(connection.execute(f"SELECT * FROM {table}").fetchall(), key=str) for table in TABLES}


def emptied(connection):
    """The same database before its first step."""
    connection.execute(f"TRUNCATE {', '.join(TABLES)}")
    connection.commit()


def test_the_same_steps_leave_the_same_rows(application):
    """However they are grouped into calls; another seed leaves others."""
    assert operational.work(application, at=AT, steps=6) == 6
    first = content(application)
    emptied(application)
    operational.work(application, at=AT, steps=2)
    assert operational.work(application, at=AT + timedelta(seconds=2), steps=4) == 6
    assert content(application) == first
    emptied(application)
    operational.work(application, at=AT, steps=6, seed=2)
    assert content(application)["users"] != first["users"]


def test_every_kind_of_change_happens(application):
    """Users come, change and go with their devices; visits are only added, and one comes late."""
    ids = []
    for number in range(10):
        operational.work(application, at=AT + timedelta(seconds=number))
        ids.append({row[0]: row for row in application.execute("SELECT * FROM users").fetchall()})
    steps = list(pairwise(ids))
    assert all(len(set(after) - set(before)) == 3 for before, after in steps)
    assert any(set(before) - set(after) for before, after in steps)
    assert any(before[user] != after[user] for before, after in steps for user in set(before) & set(after))
    owners = application.execute(
        "SELECT count(*) FROM device_owners o LEFT JOIN users u USING (user_id) WHERE u.user_id IS NULL"
    )
    assert owners.fetchone() == (0,)
    ingested = application.execute("SELECT ingestion_time FROM visits ORDER BY visit_id").fetchall()
    assert len(ingested) == 50
    assert sum(later < earlier for earlier, later in pairwise(ingested)) == 2
    assert min(ingested)[0] < AT


def test_users_have_nulls_and_values_that_lie_apart_from_their_row(application):
    """So that a change capture meets both."""
    operational.work(application, at=AT, steps=5)
    sizes = application.execute("SELECT max(length(biography)), count(*) FILTER (WHERE biography IS NULL) FROM users")
    longest, missing = sizes.fetchone()
    assert longest == 5000
    assert missing > 0
    stored = "SELECT pg_relation_size(reltoastrelid) FROM pg_class WHERE relname = 'users'"
    assert application.execute(stored).fetchone()[0] > 0


def test_a_step_that_did_not_commit_is_done_again(application, database):
    """A crash in the middle of a step leaves nothing of it, and the next call does it as if nothing had been."""
    operational.work(application, at=AT, steps=3)
    expected = content(application)
    emptied(application)
    operational.work(application, at=AT, steps=2)
    with suppress(ZeroDivisionError), application.transaction():
        operational.work(application, at=AT + timedelta(seconds=2))
        raise ZeroDivisionError
    operational.work(application, at=AT + timedelta(seconds=2))
    assert content(application) == expected


def test_making_the_tables_twice_keeps_their_rows(application):
    """And the log keeps former rows whole."""
    operational.work(application, at=AT)
    before = content(application)
    operational.create(application)
    assert content(application) == before
    identity = application.execute("SELECT relreplident::text FROM pg_class WHERE relname = 'users'")
    assert identity.fetchone() == ("f",)


def test_orders_refer_to_plans_and_are_paid_more_than_once(application):
    """Each step books two orders and their payments, at the price of the plan then; older ones are paid again."""
    operational.work(application, at=AT, steps=9)
    found = content(application)
    assert (len(found["orders"]), len(found["plans"])) == (18, 3)
    paid = [order for _, order, *_ in found["payments"]]
    assert set(paid) == {order for order, *_ in found["orders"]}
    assert len(paid) == 18 + 7
    assert all(amount > 0 for _, _, amount, *_ in found["payments"])
    assert any(plan[3] > AT for plan in found["plans"])
