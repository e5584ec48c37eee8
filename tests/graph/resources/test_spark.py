"""The session: starts when it is asked for, and says in one line when a shared engine is not there."""

from __future__ import annotations

import socket
import time

import pytest

from dedp_assets.graph.resources import spark
from dedp_assets.graph.resources.environments import settings
from dedp_assets.graph.resources.home import Running, hold
from dedp_assets.graph.resources.spark import SparkEngine
from dedp_assets.laptop.servers.ports import free as free_port
from dedp_assets.patterns.core.errors import NotReady


def refusal(remote):
    """The sentence with which an engine refuses."""
    with pytest.raises(NotReady) as caught:
        _ = SparkEngine(remote=remote).session
    return str(caught.value)


def test_an_engine_that_does_not_answer_is_named_with_what_to_do():
    """One line: the address, why, and how to start it or do without."""
    remote = f"sc://127.0.0.1:{free_port()}"
    said = refusal(remote)
    assert remote in said
    assert "Connection refused" in said
    assert "start it with `make up`, or unset SPARK_REMOTE" in said
    assert "\n" not in said


def test_a_name_that_does_not_exist_is_refused_like_a_port_nobody_listens_on():
    """A misspelt host costs one sentence, not ten minutes of retries."""
    assert "sc://no-such-host.invalid:15002" in refusal("sc://no-such-host.invalid:15002")


def test_a_refusal_shows_no_token():
    """What authenticates a person at the engine does not end up in logs and screenshots."""
    port = free_port()
    said = refusal(f"sc://127.0.0.1:{port}/;use_ssl=true;token=s3cret")
    assert f"127.0.0.1:{port}" in said
    assert "s3cret" not in said


def test_an_engine_starts_nothing_until_it_is_asked():
    """Making the resource, as loading the graph does, opens no connection and no JVM."""
    assert SparkEngine(remote=f"sc://127.0.0.1:{free_port()}")._spark_session is None


def test_the_engine_of_a_platform_that_runs_here_is_waited_for(tmp_path, monkeypatch):
    """It is being started again, so a run that comes meanwhile does not fail for it."""
    monkeypatch.setenv("DEDP_HOME", str(tmp_path))
    port = free_port()
    mine, looked = f"sc://127.0.0.1:{port}", []
    with hold(settings(), Running(1, "noon", "http://x", mine)), socket.socket() as later:
        later.bind(("127.0.0.1", port))
        monkeypatch.setattr(time, "sleep", lambda seconds: looked.append(seconds) or later.listen())
        spark._require_answer(mine)
    assert looked
    assert "start it with `make up`" in refusal(mine)


@pytest.mark.both
def test_every_engine_of_a_process_hands_out_a_session_that_counts_in_utc(spark):
    """Dates do not depend on the machine's time zone."""
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert (
        spark.sql("SELECT to_date(timestamp'2026-01-05T23:30:00Z') AS d").collect()[0]["d"].isoformat() == "2026-01-05"
    )
