"""The database's sensor: waiting changes start one capture, and a lost slot the run that says so."""

from __future__ import annotations

import pytest

from dedp_assets.case_study.defs.bronze.users import users
from dedp_assets.graph.declare import sensors_of
from dedp_assets.graph.outcomes.run_tags import refusal
from dedp_assets.graph.systems.postgres import OperationalDatabase
from dedp_assets.patterns.core.errors import Conflict, ContractError, NotReady
from tests.helpers import a_record

(USERS_CHANGED,) = sensors_of(users)
LOST = ContractError("public.users: the slot cannot be read any more: take a new snapshot (resnapshot=True)")


@pytest.fixture
def slot(monkeypatch):
    """``slot(position)``: where the slot stands from now on, or the error that asking for it raises."""

    def stands(found):
        def waiting(_, name, *, slot):
            if isinstance(found, Exception):
                raise found
            return found

        monkeypatch.setattr(OperationalDatabase, "waiting", waiting)

    return stands


def keys(data):
    return [request.run_key for request in data.run_requests or []]


def history(zone, version=1):
    record = a_record("bronze/users_history", {}, sequence=version)
    changed = [{"committed_on": "2026-01-05"}]
    zone.dated("bronze/users_history", {"changed": changed, "record": record}, column="committed_on")


def test_waiting_changes_start_one_capture(zone, slot):
    """However often it looks; none if nothing waits."""
    slot("0/10")
    assert (
        keys(zone.tick(USERS_CHANGED))
        == keys(zone.tick(USERS_CHANGED))
        == ["bronze/users_history:bronze/users_history@0/10"]
    )
    slot("")
    assert zone.tick(USERS_CHANGED).skip_message == "nothing was committed since the last capture"


@pytest.mark.parametrize("error", [NotReady("does not answer"), Conflict("another run reads from the slot")])
def test_a_database_that_cannot_tell_is_asked_again(zone, slot, error):
    """The tick says why and starts nothing."""
    slot(error)
    assert zone.tick(USERS_CHANGED).skip_message == str(error)


def test_a_lost_slot_starts_the_run_that_says_so_once(zone, slot):
    """The tick does not fail; what the run refused waits for a person; a slot lost again after that is told again."""
    slot(LOST)
    (request,) = zone.tick(USERS_CHANGED).run_requests
    assert keys(zone.tick(USERS_CHANGED)) == [request.run_key]
    zone.ran({**request.tags, **refusal("bronze/users_history", "", None)}, fails=True)
    assert "on purpose" in zone.tick(USERS_CHANGED).skip_message
    history(zone)
    (again,) = zone.tick(USERS_CHANGED).run_requests
    assert again.run_key != request.run_key
