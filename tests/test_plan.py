"""``dedp plan`` in a home without an engine: what it prints, its exit codes, and that it changes nothing."""

from __future__ import annotations

import json
from datetime import date
from types import SimpleNamespace

import pytest
from pyspark import SparkContext

from dedp_assets.case_study.sources import visits
from dedp_assets.cli import main
from dedp_assets.commands import backfill, plan
from dedp_assets.graph.outcomes.refusals import Refusal, Refusals
from dedp_assets.graph.resources.clock import Clock
from dedp_assets.graph.resources.environments import CHECKOUT, settings
from dedp_assets.graph.resources.lake import lake_of
from dedp_assets.graph.resources.landing import Landing
from dedp_assets.laptop.status_page import making
from dedp_assets.laptop.status_page.making import Maker
from dedp_assets.laptop.status_page.plans import render_plan
from dedp_assets.project import project
from tests.helpers import a_record, write_log

pytestmark = pytest.mark.budget(40, "loads the definitions of the case study")

DAYS = [date(2026, 1, number) for number in (5, 6, 7)]


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A home of the case study, with nothing in it."""
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("DEDP_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "home/dagster"))
    return tmp_path / "home"


@pytest.fixture(scope="module")
def loaded():
    """The project's definitions and tables, loaded once."""
    definitions, tables = project().definitions(), project().tables()
    return SimpleNamespace(definitions=lambda: definitions, tables=lambda: tables)


@pytest.fixture
def dedp(home, capsys, loaded, monkeypatch):
    """``dedp("--json")``: exit code, output and errors of the plan."""
    monkeypatch.setattr(plan, "project", lambda: loaded)

    def run(*options):
        try:
            code = main(["plan", *options])
        except SystemExit as stopped:
            code = stopped.code
        return code, *capsys.readouterr()

    return run


def land(*days):
    """Deliver three visits of each day."""
    for each in days:
        visits.deliver(settings().landing / "visits", each, visits.visits_of(each, count=3, seed=1))


def runs_of(document):
    """First table and partitions of each run."""
    return [(run["tables"][0], [each["key"] for each in run["partitions"]]) for run in json.loads(document)["runs"]]


def test_without_a_delivery_nothing_would_run(dedp):
    """And that is no failure."""
    code, out, _ = dedp()
    assert code == 0
    assert out.startswith("Nothing would run.\n")
    assert json.loads(dedp("--json")[1])["runs"] == []


def test_a_plan_changes_nothing_and_starts_nothing(dedp, home):
    """No file of the home, no run history, no JVM."""
    land(*DAYS)
    before, gateway = sorted(home.rglob("*")), SparkContext._gateway
    code, out, _ = dedp()
    assert code == 0
    assert out.startswith("3 runs in 1 wave, 12 partitions")
    assert sorted(home.rglob("*")) == before
    assert SparkContext._gateway is gateway


def test_a_table_and_its_partitions(dedp):
    """By keys, by a range, or from a day on; with the run that computes them, whatever else that run computes."""
    land(*DAYS)
    everything = [("bronze/visits", [day.isoformat()]) for day in DAYS]
    assert runs_of(dedp("--json")[1]) == everything
    assert runs_of(dedp("silver/visits", "2026-01-06", "2026-01-07", "--json")[1]) == everything[1:]
    assert runs_of(dedp("silver/visits", "2026-01-05...2026-01-06", "--json")[1]) == everything[:2]
    assert runs_of(dedp("--since", "2026-01-07", "--json")[1]) == everything[2:]
    assert runs_of(dedp("bronze/devices", "--json")[1]) == []


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["silver/visit"], "silver/visits"),
        (["silver/visits", "monday"], "the partition must be one of silver/visits, such as "),
        (["silver/visits", "2026-01-05..."], "not empty"),
        (["gold/devices", "2026-01-05"], "gold/devices has no partitions: leave 2026-01-05 out"),
        (["--since", "soon"], "the day must be a date"),
    ],
)
def test_what_is_not_there_is_refused(dedp, options, sentence):
    """With exit code 2 and a sentence that helps."""
    code, out, err = dedp(*options)
    assert code == 2
    assert out == ""
    assert sentence in err


def test_a_delivery_that_goes_on_waits_and_one_that_nobody_can_read_is_a_failure(dedp):
    """The first is no trouble: its producer has not finished. The second needs somebody: exit code 1."""
    land(*DAYS[:2])
    folder = settings().landing / "visits"
    (folder / "2026-01-05/_SUCCESS").unlink()
    code, out, _ = dedp()
    assert code == 0
    assert "the producer has not finished" in " ".join(out.split())
    (folder / "2026-01-06/_SUCCESS").write_text("{")
    code, out, _ = dedp("--json")
    states = {(held["table"], held["key"]): held["state"] for held in json.loads(out)["held"]}
    assert code == 1
    assert states["bronze/visits", "2026-01-05"] == "waiting"
    assert states["bronze/visits", "2026-01-06"] == "unusable"


def test_a_refused_delivery_cannot_run_until_the_code_changes(dedp, loaded):
    """With the reason of the refusal; by other code it is tried again, and `--changed` says so."""
    land(DAYS[0])
    code, out, _ = dedp("--json")
    (run,) = json.loads(out)["runs"]
    table = next(each for each in loaded.tables() if each.spec.name == "bronze/visits")
    goal = delivery_of(run)
    notes = Refusals(lake_of(settings()).refused("bronze/visits"))
    notes.note("2026-01-05", Refusal((goal,), table.code_version, "run-1", "too many lines are late"))
    code, out, _ = dedp()
    assert code == 1
    assert "too many lines are late" in " ".join(out.split())
    assert dedp("--changed")[0] == 0
    notes.note("2026-01-05", Refusal((goal,), "of yesterday", "run-1", "too many lines are late"))
    assert dedp()[0] == 0
    code, out, _ = dedp("--changed", "--json")
    assert code == 1
    assert [each["reason"] for each in json.loads(out)["changed"]] == [
        f"was refused by code version of yesterday, the present one is {table.code_version}"
    ]
    assert runs_of(out) == [("bronze/visits", ["2026-01-05"])]


def delivery_of(run):
    """The delivery that a run of the plan would load."""
    (partition,) = run["partitions"]
    return Landing(root=settings().landing_zone).delivery("visits", partition["key"]).identity


def test_partitions_by_other_code_are_planned_with_what_follows(dedp, home):
    """Nobody asks for them: the line says how."""
    owned = {"event_date": "2026-01-05"}
    record = a_record("silver/visits", owned, code_version="of yesterday")
    commit = {"record": record, "changed": [owned], "txn": {"silver/visits/event_date=2026-01-05/0": 1}}
    write_log(home / "lakehouse/silver/visits", {"id": "long", "event_date": "date"}, ["event_date"], [commit])
    code, out, _ = dedp("--changed")
    assert code == 1
    text = " ".join(out.split())
    assert "was computed by code version of yesterday" in text
    assert "dedp run silver/visits 2026-01-05" in text
    following = {table for run in json.loads(dedp("--changed", "--json")[1])["runs"] for table in run["tables"]}
    assert {"silver/visits", "gold/daily_visitors"} <= following


@pytest.mark.parametrize(
    ("options", "keys", "tags"),
    [
        (["2026-01-06...2026-01-08", "2026-01-05"], ["2026-01-05", "2026-01-06", "2026-01-07", "2026-01-08"], {}),
        (["--changed", "--compare"], ["2026-01-05"], {"dedp/compare": "true"}),
        (["--changed", "2026-01-05...2026-01-09", "--force"], ["2026-01-05"], {"dedp/force": "true"}),
    ],
)
def test_a_backfill_computes_the_partitions_that_are_named(dedp, home, monkeypatch, loaded, options, keys, tags):
    """In the order of their keys; with `--changed`, those that other code computed."""
    owned = {"event_date": "2026-01-05"}
    record = a_record("silver/visits", owned, code_version="of yesterday")
    commit = {"record": record, "changed": [owned], "txn": {"silver/visits/event_date=2026-01-05/0": 1}}
    write_log(home / "lakehouse/silver/visits", {"id": "long", "event_date": "date"}, ["event_date"], [commit])
    asked = []
    for name, instead in (
        ("project", lambda: loaded),
        ("require_computable", lambda _: None),
        ("Platform", lambda _: None),
        ("compute", lambda _, table, keys, tags, **__: asked.append((table, keys, tags)) or 0),
    ):
        monkeypatch.setattr(backfill, name, instead)
    assert main(["backfill", "silver/visits", *options]) == 0
    assert asked == [("silver/visits", keys, {"dedp/cause": "backfill", **tags})]


def test_a_backfill_of_nothing_is_refused_or_said(dedp, monkeypatch, loaded, capsys):
    """Without a partition it is refused, with the command that lists some; without a changed one there is nothing."""
    for name, instead in (("project", lambda: loaded), ("require_computable", lambda _: None)):
        monkeypatch.setattr(backfill, name, instead)
    assert main(["backfill", "silver/visits"]) == 2
    assert "partitions must be keys, a range of keys, or --changed, not none" in capsys.readouterr().err
    assert main(["backfill", "silver/visits", "--changed"]) == 0
    assert "no partition was computed by other code" in capsys.readouterr().out


PAGE = (CHECKOUT / "docs/plan.md").read_text()


def test_the_page_names_each_field_of_the_document(dedp):
    """Of the document, and of a run, a partition and an estimate."""
    land(DAYS[0])
    document = json.loads(dedp("--changed", "--json")[1]) | json.loads(dedp("--json")[1])
    (run,) = document["runs"]
    fields = {*document, *run, *run["partitions"][0], *run["estimate"]}
    assert {each for each in fields if f"`{each}`" not in PAGE} == set()


def test_the_status_page_has_the_same_plan(dedp, home, loaded, monkeypatch):
    """As a document, and as the lines and tables of a page."""
    land(*DAYS)
    loaded.stamp, loaded.declarations = (lambda: None), (lambda _: (loaded.tables(), []))
    monkeypatch.setattr(making, "project", lambda: loaded)
    planned = Maker(settings()).plan(Clock().now())
    assert json.loads(json.dumps(planned.document())) == json.loads(dedp("--json")[1])
    page = render_plan(planned.lines(), Clock().now())
    assert all(f">{each}<" in page for each in ("Runs", "2026-01-05", "2026-01-07"))
