"""Positions outside of the lake: each system is sampled for itself."""

from __future__ import annotations

from datetime import datetime, timezone
from types import SimpleNamespace

from dedp_assets.graph.sensors.positions import of_all, slot_positions, topic_positions
from dedp_assets.patterns.core.errors import NotReady
from dedp_assets.patterns.observability.lag_detector import LagSample

NOON = datetime(2026, 1, 5, 12, tzinfo=timezone.utc)
SAMPLE = LagSample(consumer="bronze/visits", producer="visits", seen_at=NOON, produced=7, consumed=5)


def silent(*_):
    raise NotReady("the brokers do not answer")


def test_a_system_that_does_not_answer_leaves_the_samples_of_the_others():
    """Before it and after it."""
    sample = of_all(lambda *_: [SAMPLE], silent, lambda *_: [SAMPLE, SAMPLE])
    assert sample(SimpleNamespace(), NOON) == [SAMPLE] * 3


def test_without_a_broker_nothing_is_sampled():
    """A platform that runs without Kafka has no lag behind a topic."""
    given = SimpleNamespace(kafka=SimpleNamespace(bootstrap=""), lake=SimpleNamespace(ledger=lambda name: name))
    assert topic_positions("bronze/visits")(given, NOON) == ()


def test_a_database_that_does_not_answer_has_no_sample():
    """The reason is for whoever asks one system."""
    given = SimpleNamespace(operational=SimpleNamespace(table=lambda *_, **__: silent()))
    assert of_all(slot_positions("bronze/users_history", source="public.users", slot="users"))(given, NOON) == []
