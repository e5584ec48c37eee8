"""Alerts as a resource, and no token in any word, file or log of the platform."""

from __future__ import annotations

import json
import logging

import dagster as dg
import pytest

from dedp_assets.cli import main
from dedp_assets.graph.declare import About, OnRequest, Reads, Runs, lake_table
from dedp_assets.graph.resources.alerting import Alerting, channels_of, outbox_of
from dedp_assets.graph.resources.clock import Clock
from dedp_assets.graph.resources.environments import settings
from dedp_assets.laptop.servers.ports import free as free_port
from dedp_assets.location import lake_resources
from dedp_assets.patterns import Column, TableSpec, Target, WriteResult, load_full
from dedp_assets.patterns.core.measuring.calendars import QuietHours

CANARY = "tok3n-canary"
WHERE = ("incomplete", "gold/summary", "2026-01-05")


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A home of its own, without channels."""
    monkeypatch.setenv("DEDP_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    for name in ("", "_WEBHOOK", "_APPRISE", "_SILENT", "_HOLD", "_REMIND_HOURS"):
        monkeypatch.delenv(f"DEDP_ALERTS{name}", raising=False)
    return tmp_path / "home"


def test_code_raises_and_clears_and_a_channel_hears_of_both(home, monkeypatch):
    """A table's function gets the resource by the name of its parameter; the command is that of the table's status."""
    monkeypatch.setenv("DEDP_ALERTS", "file")
    done = []

    @dg.asset(required_resource_keys={"alerts"})
    def summary(context):
        context.resources.alerts.raise_alert(*WHERE, figure="83 %", limit="95 %", reason="sensor 7 lacks")
        done.append(Alerting().deliver(Clock().now()))
        context.resources.alerts.clear(*WHERE)

    with dg.DagsterInstance.ephemeral() as instance:
        assert dg.materialize([summary], resources={"alerts": Alerting()}, instance=instance).success
    done.append(Alerting().deliver(Clock().now()))
    assert done == [{"file": "1 delivered"}] * 2
    raised, cleared = map(json.loads, (home / "alerts.jsonl").read_text().splitlines())
    assert (raised["event"], cleared["event"], raised["episode"]) == ("raised", "cleared", cleared["episode"])
    assert (raised["table"], raised["partition"], raised["figure"], raised["limit"]) == (*WHERE[1:], "83 %", "95 %")
    assert raised["command"] == "dedp status gold/summary"


def test_a_tables_function_asks_for_alerts_by_a_parameter(home):
    """As for any other resource."""

    @lake_table(
        TableSpec("gold/summary", {"id": Column("BIGINT")}),
        reads=Reads(inputs=lambda: None),
        runs=Runs(when=OnRequest()),
        about=About("team:x"),
        patterns=[load_full],
        code_version="1",
    )
    def summary(into: Target, alerts: Alerting) -> WriteResult: ...

    assert "alerts" in summary.definition().required_resource_keys
    assert isinstance(lake_resources()["alerts"], Alerting)


def test_clearing_what_nobody_raised_is_nothing(home):
    """As a handler does after every success."""
    Alerting().clear(*WHERE)
    assert outbox_of(settings()).episodes() == []


def test_the_settings_name_channels_silent_hours_and_reminders(home, monkeypatch):
    """In the order of the offer, each service of Apprise a channel of its own."""
    assert (channels_of(settings()), outbox_of(settings()).manner.silence) == ([], None)
    monkeypatch.setenv("DEDP_ALERTS", "apprise, webhook,log,file")
    monkeypatch.setenv("DEDP_ALERTS_WEBHOOK", f"https://hooks.example/{CANARY}")
    monkeypatch.setenv("DEDP_ALERTS_APPRISE", f"mailto://ada:{CANARY}@example.com tgram://{CANARY}/1")
    monkeypatch.setenv("DEDP_ALERTS_SILENT", "22:00-07:00 Europe/Berlin")
    monkeypatch.setenv("DEDP_ALERTS_HOLD", "info")
    monkeypatch.setenv("DEDP_ALERTS_REMIND_HOURS", "12")
    channels, manner = channels_of(settings()), outbox_of(settings()).manner
    assert [(channel.name, channel.address) for channel in channels] == [
        ("log", "logger dedp.alerts"),
        ("file", str(home / "alerts.jsonl")),
        ("webhook", "https://hooks.example"),
        ("apprise-1", "mailto://"),
        ("apprise-2", "tgram://"),
    ]
    assert manner.silence.hours == QuietHours(zone="Europe/Berlin", start="22:00:00", end="07:00:00")
    assert (manner.silence.holds, manner.remind_hours) == (("info",), 12)
    assert CANARY not in repr((settings(), channels, manner, outbox_of(settings())))


def dedp(capfd, *arguments):
    code = main(arguments)
    return code, "".join(capfd.readouterr())


def test_a_channel_without_its_address_says_which_setting_lacks(home, monkeypatch, capfd):
    """And the others deliver."""
    monkeypatch.setenv("DEDP_ALERTS", "file,webhook,apprise")
    code, text = dedp(capfd, "alerts", "--test")
    assert code == 1
    assert text.splitlines() == [
        f"file ({home / 'alerts.jsonl'}): delivered: appended",
        "webhook: failed: DEDP_ALERTS names webhook: set DEDP_ALERTS_WEBHOOK to its URL",
        "apprise: failed: DEDP_ALERTS names apprise: set DEDP_ALERTS_APPRISE to an address, or several",
    ]


def test_a_test_alert_is_marked_and_each_answer_shown(home, monkeypatch, capfd, webhook):
    """Without an episode; silent hours hold no test back."""
    monkeypatch.setenv("DEDP_ALERTS", "webhook,file")
    monkeypatch.setenv("DEDP_ALERTS_SILENT", f"00:00-23:59 {'UTC'}")
    monkeypatch.setenv("DEDP_ALERTS_WEBHOOK", f"http://127.0.0.1:{webhook.server_port}/{CANARY}")
    code, text = dedp(capfd, "alerts", "--test")
    assert (code, [line.partition("): ")[2] for line in text.splitlines()]) == (
        0,
        ["delivered: appended", "delivered: status 200"],
    )
    ((_, _, body),) = webhook.taken
    assert (body["event"], body["text"].startswith("TEST: platform: test, a test of the channels")) == ("test", True)
    assert outbox_of(settings()).episodes() == []
    webhook.behaviours.append("500")
    assert dedp(capfd, "alerts", "--test")[0] == 1


def test_the_command_lists_what_lasts_and_what_is_owed(home, monkeypatch, capfd):
    """Looking changes nothing; without a channel the setting is named, and without a home nothing is called right."""
    code, text = dedp(capfd, "alerts")
    assert (code, "DEDP_ALERTS" in text, "There is no home" in text, home.exists()) == (1, True, True, False)
    assert dedp(capfd, "alerts", "--test")[0] == 1
    Alerting().raise_alert(*WHERE, severity="critical", figure="83 %", limit="95 %", reason="[b]sensor[/b] 7")
    monkeypatch.setenv("DEDP_ALERTS", "file")
    text = dedp(capfd, "alerts")[1]
    assert all(each in text for each in ("critical", *WHERE, "83 % (limit 95 %); [b]sensor[/b] 7", "Not delivered yet"))
    Alerting().deliver(Clock().now())
    text = dedp(capfd, "alerts")[1]
    assert ("gold/summary" in text, "Not delivered yet" in text) == (True, False)


def test_the_status_counts_open_alerts(home, capfd):
    """For people and for programs, and of one table."""
    Alerting().raise_alert("incomplete", "gold/visits_by_page", "2026-01-05")
    Alerting().raise_alert("incomplete", "gold/visits_by_country")
    assert "2 troubles in 2 tables." in dedp(capfd, "status")[1]
    troubles = json.loads(dedp(capfd, "status", "--json")[1])["troubles"]
    assert sorted(each["table"] for each in troubles) == ["gold/visits_by_country", "gold/visits_by_page"]
    (trouble,) = json.loads(dedp(capfd, "status", "gold/visits_by_country", "--json")[1])["troubles"]
    assert trouble["kind"] == "incomplete"


def test_words_of_an_address_are_no_tokens(home, monkeypatch):
    """Hosts, plain words of a path and names of databases stay in alerts; tokens and passwords do not."""
    monkeypatch.setenv("DEDP_ALERTS_WEBHOOK", "https://hooks.example/services/T0123456/abcdefghijklmnopqrstuvwx")
    monkeypatch.setenv("DEDP_ALERTS_APPRISE", "tgram://123456789:AAbb-CC%2Fdd-01/chat")
    monkeypatch.setenv("DEDP_POSTGRES", "postgresql://reader:pass%20word@db.example/warehouse")
    words = "hooks.example services chat reader db.example warehouse"
    tokens = "T0123456 abcdefghijklmnopqrstuvwx 123456789 AAbb-CC%2Fdd-01 pass%20word"
    Alerting().raise_alert(*WHERE, reason=f"{words} {tokens}; pass word")
    (episode,) = outbox_of(settings()).episodes()
    assert episode.alert.reason == f"{words} {'*** ' * 4}***; ***"


@pytest.mark.parametrize("behaviour", ["200", "400", "404", "500", "302", "breaks off", "down", "no address"])
def test_no_token_of_an_address_is_ever_shown(home, monkeypatch, capfd, caplog, webhook, behaviour):
    """Not in files, output, logs or errors, whatever the server answers and whatever an alert quotes."""
    caplog.set_level(logging.DEBUG)
    port = free_port() if behaviour == "down" else webhook.server_port
    url = f"http://127.0.0.1:{port}/{CANARY}/hook?key={CANARY}"
    monkeypatch.setenv("DEDP_ALERTS", "log,file,webhook,apprise")
    monkeypatch.setenv("DEDP_ALERTS_WEBHOOK", f"{url} {CANARY}" if behaviour == "no address" else url)
    monkeypatch.setenv("DEDP_ALERTS_APPRISE", f"tgram://{CANARY}/1 json://ada:{CANARY}@127.0.0.1:{free_port()}")
    monkeypatch.setenv("DEDP_POSTGRES", f"postgresql://ada:{CANARY}-db@db/shop")
    Alerting().raise_alert(*WHERE, reason=f"{url} and postgresql://ada:{CANARY}-db@db/shop failed, key={CANARY}")
    webhook.behaviours += [behaviour] * 9
    reports = [Alerting().deliver(Clock().now())]
    Alerting().clear(*WHERE)
    reports.append(Alerting().deliver(Clock().now()))
    shown = [dedp(capfd, "alerts")[1], dedp(capfd, "alerts", "--test")[1], dedp(capfd, "status")[1]]
    files = {path: path.read_bytes() for path in home.rglob("*") if path.is_file()}
    assert any(path.parent.name == "channels" for path in files) or behaviour == "200"
    assert b"incomplete" in files[home / "alerts.jsonl"]
    everything = repr(reports) + "".join(shown) + caplog.text + repr(channels_of(settings()))
    assert "webhook" in everything
    assert CANARY not in everything
    assert CANARY.encode() not in b"".join(files.values())
