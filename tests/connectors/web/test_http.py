"""HTTP services: what passes is borne for a while, what does not is refused, and no answer is believed unseen."""

from __future__ import annotations

import socket
from datetime import datetime, timedelta, timezone
from math import ceil

import pytest

from dedp_assets.case_study.sources.ip_locations import location_of
from dedp_assets.laptop.servers.ports import free as free_port
from dedp_assets.patterns.connectors.web.http import Patience, Service, ask_in_bulk
from dedp_assets.patterns.core.errors import ConfigError, ContractError, NotReady
from dedp_assets.patterns.core.running.backoff import Backoff

NOW = datetime(2026, 1, 20, 12, tzinfo=timezone.utc)
WITHOUT_JITTER = Backoff(attempts=4, first_seconds=0.5, longest_seconds=30, jitter=0)


@pytest.fixture
def pauses():
    """The pauses that were made."""
    return []


@pytest.fixture
def locations(services, pauses):
    """The service of locations, whose callers do not really wait."""
    services.requests("locations")
    return Service(f"{services.url}/locations", Patience(lambda: NOW, WITHOUT_JITTER, pauses.append))


def ask(service, keys, *, size=100):
    """All items."""
    return list(ask_in_bulk(service, keys, asks="addresses", answers="locations", key="address", size=size))


def addresses(count):
    """As many different addresses."""
    return [f"198.51.{n // 250}.{n % 250}" for n in range(count)]


@pytest.mark.parametrize("count", [0, 1, 99, 100, 101, 250])
def test_each_key_is_asked_for_once_in_as_few_requests_as_possible(locations, services, count):
    """Repeated keys count once; nobody is asked for nothing."""
    asked = addresses(count)
    assert sorted(ask(locations, [*asked, *asked[:7]]), key=str) == sorted(map(location_of, asked), key=str)
    assert services.requests("locations") == ceil(count / 100)


@pytest.mark.parametrize("name", ["down", "busy"])
def test_a_failure_that_passes_is_borne(locations, services, name, pauses):
    """The answer is the same as without it; pauses double, and none is shorter than the service asks."""
    services.behave("locations", name, times=3, seconds=7)
    assert ask(locations, addresses(3)) == [location_of(one) for one in addresses(3)]
    assert pauses == ([7, 7, 7] if name == "busy" else [0.5, 1, 2])
    assert services.requests("locations") == 4


def test_a_failure_that_lasts_is_not_ready(locations, services, pauses):
    """After as many attempts as there are, with the address and the reason; no pause after the last one."""
    services.behave("locations", "down", times=9)
    with pytest.raises(NotReady, match=r"/locations does not answer after 4 attempts: status 503: .*maintenance"):
        ask(locations, addresses(250))
    assert (services.requests("locations"), len(pauses)) == (4, 3)


def test_nobody_there_and_nobody_in_time_are_not_ready(services):
    """A refused connection, a reader that gets nothing, and an answer that takes too long."""
    patience = Patience(lambda: NOW, Backoff(attempts=1))
    with pytest.raises(NotReady, match="refused"):
        ask(Service(f"http://127.0.0.1:{free_port()}/locations", patience), addresses(1))
    services.behave("locations", "slow", seconds=2)
    with pytest.raises(NotReady, match="timed out"):
        ask(Service(f"{services.url}/locations", patience, timeout_seconds=0.1), addresses(1))
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/locations"
        with pytest.raises(NotReady, match="timed out"):
            ask(Service(url, patience, timeout_seconds=0.1), addresses(1))


@pytest.mark.parametrize(
    ("asked", "waited"),
    [
        ("7", 7),
        ("0", 0),
        ("-3", 0),
        ("86400", 30),
        ("inf", 0),
        ("nan", 0),
        ("soon", 0.5),
        ("Tue, 20 Jan 2026 12:00:05 GMT", 5),
        ("Tue, 20 Jan 2026 11:00:00 GMT", 0),
        ("Fri, 20 Jan 2062 12:00:05 GMT", 30),
        (None, 0.5),
    ],
)
def test_a_pause_is_as_long_as_asked_for_and_never_longer_than_the_limit(pauses, asked, waited):
    """Seconds, an instant, or something that is neither."""
    Patience(lambda: NOW, WITHOUT_JITTER, pauses.append).wait(1, asked)
    assert pauses == [waited]


def test_an_instant_is_compared_over_time_zones(pauses):
    """What the clock's zone is does not matter."""
    clock = lambda: NOW.astimezone(timezone(timedelta(hours=5)))  # noqa: E731
    Patience(clock, WITHOUT_JITTER, pauses.append).wait(1, "Tue, 20 Jan 2026 12:00:05 GMT")
    assert pauses == [5]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("half", r"lacks '198.51.0.1', '198.51.0.2'; nothing"),
        ("wrong", r"lacks '198.51.0.0'.*; has, though nobody asked, '198.51.0.00'"),
        ("twice", r"has more than once '198.51.0.0'; nothing"),
        ("garbled", r"no JSON: '<html>'"),
    ],
)
def test_an_answer_that_does_not_fit_the_question_is_refused(locations, services, name, said, pauses):
    """At once, with what is wrong by name."""
    services.behave("locations", name)
    with pytest.raises(ContractError, match=said):
        ask(locations, addresses(3))
    assert pauses == []


def test_an_answer_of_another_shape_is_refused(locations):
    """A list that is not there, and items without a key."""
    with pytest.raises(ContractError, match="without a list 'places' of items that have 'address'"):
        list(ask_in_bulk(locations, ["a"], asks="addresses", answers="places", key="address", size=1))
    with pytest.raises(ContractError, match="without a list 'locations' of items that have 'ip'"):
        list(ask_in_bulk(locations, ["a"], asks="addresses", answers="locations", key="ip", size=1))


def test_a_request_that_can_never_work_is_refused_at_once(locations, services, pauses):
    """Too many keys, an unknown path, an address without a scheme, no keys to a request."""
    with pytest.raises(ConfigError, match=r"status 413: .*at most 100"):
        ask(locations, addresses(101), size=101)
    with pytest.raises(ConfigError, match="status 404"):
        ask(Service(f"{services.url}/nowhere", locations.patience), addresses(1))
    with pytest.raises(ConfigError, match="begins with http"):
        Service("file:///etc/passwd", locations.patience)
    with pytest.raises(ConfigError, match="at least one key"):
        ask(locations, addresses(1), size=0)
    assert pauses == []
