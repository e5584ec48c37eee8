"""``dedp plan`` of the case study: the runs that it names are those that the sensors then start."""

from __future__ import annotations

import json

import pytest

from dedp_assets.cli import main
from tests.case_study.assets.conftest import SILVER_AND_GOLD, day, visits_of

pytestmark = [pytest.mark.spark, pytest.mark.budget(40, "real runs of two worlds: a first load, late data, a refusal")]


def planned(capsys, *options):
    """Exit code and document of ``dedp plan``."""
    code = main(["plan", *options, "--json"])
    return code, json.loads(capsys.readouterr().out)


def runs_of(document):
    """Name and partition of each run of a plan, as a run that has ended is called."""
    found = []
    for run in document["runs"]:
        loads = "bronze/visits" in run["tables"]
        name = "daily_visits" if loads else ", ".join(sorted(run["tables"]))
        found.append((name, " to ".join(dict.fromkeys(run["partitions"][place]["key"] for place in (0, -1)))))
    return found


def test_the_runs_of_a_plan_are_those_of_the_sensors(world, capsys):
    """Of a first load, and of late records, whose file is named; then nothing would run."""
    for number in range(3):
        world.land(day(number), visits_of(number))
    _, first = planned(capsys)
    assert runs_of(first) == [("daily_visits", day(number)) for number in range(3)]
    assert first["more_may_follow"] == ["bronze/visits"]
    assert runs_of(first) == world.react()
    world.land(day(1), visits_of(1), late=visits_of(0, count=3, seed=9))
    world.compute("bronze/visits", day(1))
    _, late = planned(capsys)
    corrected = next(run for run in late["runs"] if run["partitions"][0]["key"] == day(0))
    assert corrected["partitions"][0]["files"] == [f"visits/{day(1)}/part-001.jsonl"]
    assert corrected["estimate"]["seconds"]["runs"] > 0
    assert (SILVER_AND_GOLD, day(0)) in runs_of(late)
    _, of_gold = planned(capsys, "gold/daily_visitors", day(0))
    assert {run["run"] for run in of_gold["runs"]} <= {run["run"] for run in late["runs"]}
    assert (SILVER_AND_GOLD, day(0)) in runs_of(of_gold)
    assert runs_of(late) == world.react()
    told = world.materialization("silver/visits", day(0))
    assert told["planned because"].startswith(f"{corrected['partitions'][0]['state']}: ")
    _, after = planned(capsys)
    assert after["runs"] == []
    assert after["unchanged"]["silver/visits"] == 3
    assert planned(capsys, "--changed")[0] == 0


def test_a_refused_partition_cannot_run(world, capsys):
    """With the reason of the refusal, and exit code 1."""
    for number in range(2):
        world.land(day(number), visits_of(number, count=40 if number == 0 else 4))
    list(world.platform.react())
    code, document = planned(capsys)
    refused = {(held["table"], held["key"]) for held in document["held"] if held["state"] == "refused"}
    assert code == 1
    assert ("gold/daily_visitors", day(1)) in refused
    assert document["runs"] == []
