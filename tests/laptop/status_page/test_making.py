"""Maker of the status page of a home: what is away is a sentence on the page, and looking changes nothing."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from dedp_assets.commands.status import status
from dedp_assets.graph.observe.rounds import RoundResult, Rounds
from dedp_assets.graph.resources.alerting import outbox_of
from dedp_assets.graph.resources.environments import settings
from dedp_assets.graph.resources.home import Running, hold
from dedp_assets.laptop.status_page.making import Maker
from dedp_assets.patterns.core.measuring.measurements import Measured, Measurement
from dedp_assets.patterns.core.measuring.troubles import Trouble
from dedp_assets.project import Project
from tests.helpers import NOW, a_record, fill, write_log


@pytest.fixture
def chosen(tmp_path, monkeypatch):
    """The settings of a home that is not there."""
    monkeypatch.setenv("DEDP_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    return settings()


def stored(chosen, name="gold/x"):
    log = {"record": a_record(name, {}), "changed": [{}]}
    write_log(Path(chosen.lake) / name, {"id": "long"}, [], [log])
    fill(Path(chosen.lake))


def test_a_home_that_is_not_there_is_a_notice_and_is_not_made(chosen):
    """The declared tables are shown without data."""
    page = Maker(chosen).page(NOW)
    assert [each for each in page.notices if str(chosen.home) in each] == [*page.notices]
    assert {"bronze/visits", "gold/daily_visitors"} <= {table.name for table in page.tables}
    assert {table.verdict for table in page.tables} == {"empty"}
    assert not chosen.home.exists()


def test_alerts_and_measurements_of_the_home_are_shown(chosen, monkeypatch):
    """With the tables of the project that they affect; the address of Dagster is the running platform's."""
    stored(chosen)
    outbox_of(chosen).raise_alert(Trouble(kind="incomplete", table="silver/visits"), NOW - timedelta(hours=1))
    lag = Measurement(metric="lag", table="gold/x", at=NOW, verdict="warn", value=5.0)
    seen = RoundResult(Measured((lag,)), {}, {})
    monkeypatch.setattr(Rounds, "judge", lambda *_, **__: seen)
    with hold(chosen, Running(1, "x", "http://127.0.0.1:3000", "sc://x")):
        page = Maker(chosen).page(NOW)
    assert {(each.kind, each.table) for each in page.open} == {("incomplete", "silver/visits"), ("lag", "gold/x")}
    assert "gold/daily_visitors" in page.open[0].affected.direct
    assert page.web == "http://127.0.0.1:3000"


def test_a_run_history_that_cannot_be_opened_is_a_notice_and_tried_again_later(chosen):
    """Not at each page, as opening may take seconds; the notice stays meanwhile."""
    stored(chosen)
    chosen.dagster_home.mkdir(parents=True)
    file = chosen.dagster_home / "dagster.yaml"
    file.write_text("storage: {postgres: {postgres_url: 1}}\n")
    maker = Maker(chosen)
    for later in (0, 30):
        page = maker.page(NOW + timedelta(seconds=later))
        assert len(page.notices) == 1
        assert page.notices[0].startswith("Dagster's run history cannot be read: ")
    file.write_text("telemetry: {enabled: false}\n")
    assert maker.page(NOW + timedelta(seconds=61)).notices == ()


def test_a_project_that_cannot_be_loaded_is_a_notice(chosen, monkeypatch):
    """Its stored tables are shown."""
    stored(chosen)

    def broken(*_):
        raise SyntaxError("bronze.py, line 7")

    monkeypatch.setattr(Project, "declarations", broken)
    page = Maker(chosen).page(NOW)
    assert page.notices == (
        "The project's tables cannot be loaded, so only stored tables are shown: SyntaxError: bronze.py, line 7",
    )
    assert [(table.name, table.verdict) for table in page.tables] == [("gold/x", "unknown")]
    assert page.verdict == "unknown"


def test_a_faulty_declaration_is_a_notice_and_no_green_page(chosen, monkeypatch):
    """Its table is left out, and nobody judges it."""
    stored(chosen)
    monkeypatch.setattr(Project, "declarations", lambda *_: ([], ["defs.yaml:6:10: keys: unknown column idd"]))
    page = Maker(chosen).page(NOW)
    assert page.notices == ("The declarations have faults (`dedp check`): defs.yaml:6:10: keys: unknown column idd",)
    assert page.verdict == "unknown"


def test_a_project_that_changed_since_it_was_loaded_is_a_notice(chosen, monkeypatch):
    """What the page says is of the declarations before, and so not green."""
    stored(chosen)
    maker = Maker(chosen)
    assert (maker.page(NOW).notices, maker.page(NOW).verdict) == ((), "ok")
    monkeypatch.setattr(Project, "stamp", lambda _: (0, 0))
    page = maker.page(NOW)
    assert page.notices[0].startswith(
        "The project's files have changed since the declarations of this page were loaded"
    )
    assert page.verdict == "unknown"


def test_measurements_and_alerts_that_cannot_be_read_are_notices(chosen, monkeypatch):
    """The rest of the page is shown."""
    stored(chosen)

    def away(*_, **__):
        raise OSError("disk away")

    monkeypatch.setattr("dedp_assets.laptop.status_page.making.outbox_of", away)
    monkeypatch.setattr(Rounds, "judge", away)
    page = Maker(chosen).page(NOW)
    assert page.notices == (
        "Open alerts cannot be read: OSError: disk away",
        "Measurements cannot be made: OSError: disk away",
    )
    assert (page.table("gold/x").verdict, page.verdict) == ("unknown", "unknown"), "nothing declares it"


@pytest.mark.parametrize(("web", "shown"), [("https://x/", "https://x"), ("javascript:alert(1)", ""), ("", "")])
def test_only_an_address_of_the_web_becomes_a_link(chosen, web, shown):
    """Of Dagster's webserver."""
    stored(chosen)
    assert Maker(replace(chosen, web=web)).page(NOW).web == shown


def test_the_page_is_written_to_a_file(chosen, tmp_path, capsys):
    """As `dedp status --page FILE` does, without a server."""
    stored(chosen)
    outbox_of(chosen).raise_alert(Trouble(kind="incomplete", table="gold/x", reason="sensor 7 lacks"), NOW)
    assert status(chosen, file=tmp_path / "page.html") == 1
    assert capsys.readouterr().out == f"1 troubles; written to {tmp_path / 'page.html'}\n"
    assert "sensor 7 lacks" in (tmp_path / "page.html").read_text(encoding="utf-8")
