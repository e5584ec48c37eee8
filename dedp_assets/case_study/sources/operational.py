"""Operational database of the applications: tables, and a seeded workload in steps.

``users`` and ``device_owners`` change in every way; ``visits`` is the legacy one, where rows are only inserted, each
with the time it was ingested. ``orders`` and ``payments`` are inserted as well, and ``plans`` change their prices. The
same steps at the same times with the same seed leave the same rows behind.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from random import Random
from typing import Any

from psycopg import Connection

__all__ = ["USERS", "USERS_SLOT", "create", "work"]

USERS = "public.users"
USERS_SLOT = "dedp_users"  # the replication slot that users are captured through

_TABLES = """
CREATE TABLE IF NOT EXISTS users (
  user_id TEXT PRIMARY KEY, login TEXT NOT NULL, email TEXT, biography TEXT STORAGE EXTERNAL,
  credit NUMERIC(10, 2) NOT NULL,
  active BOOLEAN NOT NULL, registered_at TIMESTAMPTZ NOT NULL, changed_at TIMESTAMPTZ NOT NULL);
CREATE TABLE IF NOT EXISTS device_owners (
  device_id BIGINT PRIMARY KEY, user_id TEXT NOT NULL, type TEXT NOT NULL, version TEXT NOT NULL,
  owned_since TIMESTAMPTZ NOT NULL);
CREATE TABLE IF NOT EXISTS visits (
  visit_id BIGINT PRIMARY KEY, event_time TIMESTAMPTZ NOT NULL, user_id TEXT NOT NULL, page TEXT NOT NULL,
  ingestion_time TIMESTAMPTZ NOT NULL);
CREATE INDEX IF NOT EXISTS visits_by_ingestion_time ON visits (ingestion_time);
CREATE TABLE IF NOT EXISTS plans (
  plan_id TEXT PRIMARY KEY, name TEXT NOT NULL, monthly_euros NUMERIC(8, 2) NOT NULL, changed_at TIMESTAMPTZ NOT NULL);
CREATE TABLE IF NOT EXISTS orders (
  order_id BIGINT PRIMARY KEY, user_id TEXT NOT NULL, plan_id TEXT NOT NULL REFERENCES plans,
  booked_at TIMESTAMPTZ NOT NULL);
CREATE TABLE IF NOT EXISTS payments (
  payment_id BIGINT PRIMARY KEY, order_id BIGINT NOT NULL REFERENCES orders, amount NUMERIC(10, 2) NOT NULL,
  discount_percent INT NOT NULL, booked_at TIMESTAMPTZ NOT NULL);
CREATE TABLE IF NOT EXISTS workload_steps (number BIGINT PRIMARY KEY, done_at TIMESTAMPTZ NOT NULL);
-- The log then holds former rows whole, and a large value lies apart from its row as soon as it is large.
ALTER TABLE users REPLICA IDENTITY FULL;
ALTER TABLE device_owners REPLICA IDENTITY FULL;
"""
_TYPES = ["phone", "tablet", "laptop", "desktop", "tv", "watch"]
_PLANS = {"basic": ("Basic", "9.00"), "team": ("Team", "29.00"), "business": ("Business", "99.00")}
_DISCOUNTS = [0, 0, 10, 25]
_PAGES = ["/", "/about", "/archive", *[f"/posts/{n}" for n in range(1, 38)]]
_NEW_USERS, _CHANGED_USERS, _NEW_VISITS, _NEW_ORDERS = 3, 2, 5, 2
_LATE = timedelta(minutes=10)


def create(connection: Connection[Any]) -> None:
    """Create missing tables."""
    with connection.transaction():
        connection.execute(_TABLES)


def work(connection: Connection[Any], *, at: datetime, steps: int = 1, seed: int = 1) -> int:
    """Run the next workload steps, one transaction each; the next call repeats an uncommitted step.

    A step adds users, their devices and visits, changes users, and every second one deletes a user with all devices.
    Every fifth one brings a visit with an ingestion time ten minutes ago, as a transaction does that took so long. Two
    users order a plan and pay for it; an order of the step before the last one is paid again, and every fourth step
    changes the price of a plan.

    Args:
        connection: to the database of :func:`create`.
        at: when the first step happens; each further one happens a second later.
        steps: how many.
        seed: of the choices.

    Returns:
        The number of the last step, counted from 1.
    """
    number = 0
    for offset in range(steps):
        with connection.transaction():
            ((number,),) = connection.execute("SELECT coalesce(max(number), 0) + 1 FROM workload_steps").fetchall()
            random = Random(f"{seed}/{number}")  # noqa: S311 - test data
            _step(connection, random, number, at + timedelta(seconds=offset))
    return number


def _step(connection: Connection[Any], random: Random, number: int, at: datetime) -> None:
    connection.execute("INSERT INTO workload_steps VALUES (%s, %s)", (number, at))
    known = [user for (user,) in connection.execute("SELECT user_id FROM users ORDER BY user_id").fetchall()]
    new = [f"u{number}-{n}" for n in range(_NEW_USERS)]
    for user in new:
        values = (user, f"{user}@login", _email(random, user), _biography(random), _credit(random), at, at)
        connection.execute("INSERT INTO users VALUES (%s, %s, %s, %s, %s, true, %s, %s)", values)
    _own(connection, random, number, at, random.choice(new))
    for user in random.sample(known, min(_CHANGED_USERS, len(known))):
        connection.execute(
            "UPDATE users SET email = %s, credit = %s, active = NOT active, changed_at = %s WHERE user_id = %s",
            (_email(random, user), _credit(random), at, user),
        )
    if number % 2 == 0 and known:
        gone = random.choice(known)
        connection.execute("DELETE FROM device_owners WHERE user_id = %s", (gone,))
        connection.execute("DELETE FROM users WHERE user_id = %s", (gone,))
    _visit(connection, random, number, at, [*known, *new])
    _sell(connection, random, number, at, known or new)


def _own(connection: Connection[Any], random: Random, number: int, at: datetime, user: str) -> None:
    values = (number, user, random.choice(_TYPES), f"{random.randrange(1, 9)}.{random.randrange(10)}", at)
    connection.execute("INSERT INTO device_owners VALUES (%s, %s, %s, %s, %s)", values)


def _visit(connection: Connection[Any], random: Random, number: int, at: datetime, users: Sequence[str]) -> None:
    late = number % 5 == 0
    for place in range(_NEW_VISITS):
        ingested = at - _LATE if late and place == 0 else at
        happened = ingested - timedelta(seconds=random.randrange(3600))
        values = (number * 100 + place, happened, random.choice(users), random.choice(_PAGES), ingested)
        connection.execute("INSERT INTO visits VALUES (%s, %s, %s, %s, %s)", values)


def _sell(connection: Connection[Any], random: Random, number: int, at: datetime, users: Sequence[str]) -> None:
    if number == 1:
        for plan, (name, price) in _PLANS.items():
            connection.execute("INSERT INTO plans VALUES (%s, %s, %s, %s)", (plan, name, price, at))
    if number % 4 == 0:
        changed = (f"{random.randrange(900, 9900) / 100:.2f}", at, random.choice([*_PLANS]))
        connection.execute("UPDATE plans SET monthly_euros = %s, changed_at = %s WHERE plan_id = %s", changed)
    orders = [number * 10 + place for place in range(_NEW_ORDERS)]
    for order in orders:
        values = (order, random.choice(users), random.choice([*_PLANS]), at)
        connection.execute("INSERT INTO orders VALUES (%s, %s, %s, %s)", values)
    for payment, order in enumerate([*orders, *([(number - 2) * 10] if number > 2 else [])]):
        discount = random.choice(_DISCOUNTS)
        connection.execute(
            "INSERT INTO payments SELECT %s, order_id, round(monthly_euros * (100 - %s) / 100, 2), %s, %s "
            "FROM orders JOIN plans USING (plan_id) WHERE order_id = %s",
            (number * 10 + payment, discount, discount, at, order),
        )


def _email(random: Random, user: str) -> str | None:
    return random.choice([None, f"{user}@mail.example", f"{user}@post.example"])


def _biography(random: Random) -> str | None:
    return random.choice([None, "short", random.randbytes(2500).hex()])


def _credit(random: Random) -> str:
    return f"{random.randrange(1_000_000) / 100:.2f}"
