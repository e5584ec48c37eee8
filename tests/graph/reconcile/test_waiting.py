"""Ticks that go on looking."""

import dagster as dg
import pytest

from dedp_assets.graph.reconcile.waiting import keep_polling

REQUEST = dg.RunRequest(run_key="one")


class Looks:
    """A sensor that has something to ask for at its ``found``-th look."""

    def __init__(self, found):
        self.found, self.made = found, 0

    def __call__(self):
        self.made += 1
        if self.made == self.found:
            return dg.SensorResult(run_requests=[REQUEST])
        return dg.SkipReason(f"nothing at look {self.made}")


@pytest.fixture
def lasting(monkeypatch):
    return lambda seconds: monkeypatch.setenv("DEDP_LOOK_SECONDS", str(seconds))


def test_a_tick_that_does_not_last_looks_once(lasting):
    lasting(0)
    assert keep_polling(Looks(found=2)).skip_message == "nothing at look 1"


def test_what_arrives_while_it_looks_is_asked_for_at_once(lasting):
    """The tick ends with the request."""
    lasting(30)
    looks = Looks(found=3)
    assert keep_polling(looks).run_requests == [REQUEST]
    assert looks.made == 3


def test_a_tick_without_a_find_ends(lasting):
    """It says what the last look said."""
    lasting(1)
    looks = Looks(found=0)
    said = keep_polling(looks).skip_message
    assert looks.made > 2
    assert said == f"nothing at look {looks.made}"
