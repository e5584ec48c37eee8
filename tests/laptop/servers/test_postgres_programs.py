"""Programs of PostgreSQL: the build with TLS is fetched only where TLS is asked for."""

from __future__ import annotations

import platform
from dataclasses import replace

import pytest

from dedp_assets.graph.resources.engine import EngineError
from dedp_assets.graph.resources.environments import settings
from dedp_assets.laptop.servers import postgres_programs
from dedp_assets.laptop.servers.postgres_programs import PostgresError, programs


@pytest.fixture
def unreachable(monkeypatch):
    """A machine without a network and without fetched jars."""

    def refuse(_settings, configuration):
        raise EngineError(f"{configuration}: the jars of ivy.xml could not be fetched")

    monkeypatch.setattr(postgres_programs, "class_path", refuse)


def test_plain_connections_need_nothing_of_the_network(unreachable):
    """The wheel has all programs that a start needs."""
    folder = programs(replace(settings(), postgres_tls="off"))
    assert {"postgres", "initdb", "pg_ctl"} <= {path.name for path in folder.iterdir()}


def test_a_build_that_cannot_be_fetched_is_one_clear_error(unreachable):
    """With what Ivy said."""
    with pytest.raises(PostgresError, match=r"^the PostgreSQL with TLS could not be fetched: postgres: the jars of"):
        programs(replace(settings(), postgres_tls="required"))


def test_a_machine_without_a_build_is_refused_before_anything_is_fetched(unreachable, monkeypatch):
    """By the setting and the machine."""
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    words = r"^DEDP_POSTGRES_TLS must be off on this machine, not required: no build is for \w+ on riscv64$"
    with pytest.raises(PostgresError, match=words):
        programs(replace(settings(), postgres_tls="required"))
