"""The HTTP services of the case study: each is found, answers for many items, and misbehaves as it is told."""

from __future__ import annotations

import json
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from dedp_assets.case_study.sources.ip_locations import MOST, location_of


def ask(services, addresses, *, timeout=30):
    """What `/locations` answers."""
    body = json.dumps({"addresses": addresses}).encode()
    with urlopen(Request(f"{services.url}/locations", data=body), timeout=timeout) as reply:  # noqa: S310
        return json.loads(reply.read())["locations"]


def test_many_addresses_are_located_in_one_request(services):
    """Each has an entry, in order; one that nobody can locate has no country; GET answers as POST does."""
    services.requests("locations")
    addresses = ["203.0.113.7", "198.51.100.9", "192.168.0.1", "no address"]
    found = ask(services, addresses)
    assert found == [location_of(address) for address in addresses]
    assert [bool(place["country"]) for place in found] == [True, True, False, False]
    with urlopen(f"{services.url}/locations?addresses=203.0.113.7", timeout=30) as reply:  # noqa: S310
        assert json.loads(reply.read())["locations"] == found[:1]
    assert services.requests("locations") == 2


def test_more_addresses_than_a_request_may_name_are_refused(services):
    """With the limit, as a real service does."""
    assert len(ask(services, ["203.0.113.7"] * MOST)) == MOST
    with pytest.raises(HTTPError) as refused:
        ask(services, ["203.0.113.7"] * (MOST + 1))
    with refused.value as reply:
        assert (reply.code, json.loads(reply.read())["error"]) == (413, "at most 100 addresses, not 101")


@pytest.mark.parametrize(("name", "status", "wait"), [("down", 503, None), ("busy", 429, "3")])
def test_a_service_fails_as_often_as_it_is_told(services, name, status, wait):
    """Then it is well again."""
    services.behave("locations", name, times=2, seconds=3)
    for _ in range(2):
        with pytest.raises(HTTPError) as refused:
            ask(services, ["203.0.113.7"])
        with refused.value as reply:
            assert (reply.code, reply.headers.get("Retry-After")) == (status, wait)
    assert ask(services, ["203.0.113.7"])


def test_a_service_is_slow_or_lies_as_it_is_told(services):
    """It answers late, without JSON, for half of the items, for others, for one twice, or for addresses that moved."""
    services.behave("locations", "slow", seconds=2)
    with pytest.raises(TimeoutError):
        ask(services, ["203.0.113.7"], timeout=0.2)
    services.behave("locations", "garbled")
    with pytest.raises(ValueError, match="Expecting value"):
        ask(services, ["203.0.113.7"])
    asked = ["203.0.113.7", "203.0.113.8"]
    answers = {}
    for name in ("half", "wrong", "twice"):
        services.behave("locations", name)
        answers[name] = [place["address"] for place in ask(services, asked)]
    assert answers == {
        "half": asked[:1],
        "wrong": ["203.0.113.70", "203.0.113.80"],
        "twice": [*asked, asked[0]],
    }
    many = [f"203.0.113.{n}" for n in range(50)]
    before = ask(services, many)
    services.behave("locations", "moved")
    assert ask(services, many) != before
    assert ask(services, many) == before
