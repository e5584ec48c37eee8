"""Permissions of a block: names that grants cover, and what is refused where no other thread and block is meant."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.measuring.requests import count_request, counting_requests
from dedp_assets.patterns.core.results import Access
from dedp_assets.patterns.core.running.permissions import (
    covers,
    extended_to,
    inheriting,
    is_allowed,
    place_of,
    require_allowed,
    restricted_to,
)

OF_A = Access("job", {"read": ("/lake/a", "/lake/a/*")}, "reads a")
NAMES = st.lists(st.sampled_from(["a", "b", "a b", "ü", "a*b", "a.b", ".."]), min_size=1, max_size=4).map("/".join)


@given(NAMES, NAMES)
def test_a_grant_covers_itself_or_what_lies_below(grant, name):
    """By whole names: what begins with the same letters is another one."""
    parts, given_parts = name.split("/"), grant.split("/")
    assert covers(grant, name) == (parts == given_parts)
    assert covers(f"{grant}/*", name) == (name == f"{grant}/*" or parts[: len(given_parts)] == given_parts != parts)


@pytest.mark.parametrize("grant", ["*", "/*", "", "/", "visits*", "visits-*"])
def test_a_pattern_is_no_grant(grant):
    """Neither of everything, nor of what begins alike."""
    assert not covers(grant, "visits-payroll/a")
    assert not covers(grant, "/visits/a")


@pytest.mark.parametrize(
    ("location", "place"),
    [
        ("/lake/a", "/lake/a"),
        ("/lake/a/", "/lake/a"),
        ("/lake//b/../a/.", "/lake/a"),
        ("/lake/day=a%2Fb", "/lake/day=a%2Fb"),
        ("file:///lake/a%20b", "/lake/a b"),
        ("file://localhost/lake/a", "/lake/a"),
        ("file:/lake/a", "/lake/a"),
        ("//lake/a", "/lake/a"),
        ("s3a://lake/a/", "s3://lake/a"),
        ("S3://lake/a", "s3://lake/a"),
        ("s3://lake/b/../a", "s3://lake/a"),
        ("s3://lake/../other/a", "s3://other/a"),
        ("s3://lake/a%20b", "s3://lake/a%20b"),
        ("s3://lake", "s3://lake"),
    ],
)
def test_a_location_has_one_spelling(location, place):
    """Whoever names it, and a spelling is left as it is."""
    assert place_of(location) == place
    assert place_of(place) == place


def test_a_way_around_by_dots_is_none():
    """A path is judged by where it leads."""
    assert is_allowed(OF_A, "read", "/lake/a/day=1/file")
    assert not is_allowed(OF_A, "read", "/lake/a/../b/file")
    assert not is_allowed(OF_A, "write", "/lake/a/file")


def test_nothing_is_refused_outside_of_a_block():
    """Also after one that failed."""
    require_allowed("delete", "/anywhere")
    with pytest.raises(ConfigError, match="job may not read /lake/b, only lake/a: declare"), restricted_to(OF_A):
        require_allowed("read", "/lake/b")
    require_allowed("read", "/lake/b")


def test_the_innermost_block_counts():
    """An access replaces another one, and a lifted restriction comes back."""
    with restricted_to(OF_A):
        with restricted_to(Access("other", {}, "nothing")), pytest.raises(ConfigError, match="only nothing"):
            require_allowed("read", "/lake/a")
        with restricted_to(None):
            require_allowed("read", "/lake/b")
        with pytest.raises(ConfigError):
            require_allowed("read", "/lake/b")


def test_a_block_is_extended_by_a_folder_until_its_end():
    """Which comes with a place of its own; without a restriction nothing is lifted or added."""
    with extended_to("/lake/.a.edition-1"):
        require_allowed("write", "/anywhere")
    with restricted_to(OF_A):
        with extended_to("/lake/.a.edition-1/"):
            require_allowed("delete", "/lake/.a.edition-1/files/x")
            require_allowed("read", "/lake/a/x")
            with pytest.raises(ConfigError):
                require_allowed("write", "/lake/.a.edition-12/x")
        with pytest.raises(ConfigError):
            require_allowed("read", "/lake/.a.edition-1/files/x")


def test_a_message_stays_short():
    """Of many places, it names some."""
    many = Access("job", {"read": tuple(f"/lake/{n}{end}" for n in range(90) for end in ("", "/*"))}, "many")
    with (
        pytest.raises(ConfigError, match=r"only lake/0, lake/1, lake/2, lake/3 \.\.\.: ") as no,
        restricted_to(many),
    ):
        require_allowed("read", "/other")
    assert len(str(no.value)) < 250


def test_two_threads_have_restrictions_of_their_own():
    """At the same time; a thread of somebody else has none."""
    both = Barrier(2)

    def one(access):
        with restricted_to(access):
            both.wait(10)
            try:
                require_allowed("read", "/lake/a")
            except ConfigError:
                return "refused"
            finally:
                both.wait(10)
            return "read"

    with ThreadPoolExecutor(2) as threads:
        assert list(threads.map(one, [OF_A, Access("other", {}, "nothing")])) == ["read", "refused"]


def test_threads_that_a_block_starts_inherit_its_restriction_and_its_counts():
    """Of the moment at which the work was handed over, in all of them at once."""
    both = Barrier(3)

    def look(place):
        both.wait(10)
        count_request("head")
        require_allowed("read", place)

    with ThreadPoolExecutor(3) as threads:
        with restricted_to(OF_A), counting_requests() as counted:
            work = inheriting(look)
        found = [threads.submit(work, place) for place in ("/lake/a/x", "/lake/b/x", "/lake/a/y")]
        errors = [each.exception() for each in found]
    assert [type(error) for error in errors] == [type(None), ConfigError, type(None)]
    assert dict(counted.sent) == {"head": 3}
