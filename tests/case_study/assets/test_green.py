"""Green means computed and readable: lost files, forced runs, ranges, approvals, on the platform's own tables."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from deltalake import DeltaTable

from dedp_assets.case_study.defs.silver.visits import RULES
from dedp_assets.cli import main
from dedp_assets.commands.verify import verify
from dedp_assets.graph.declare import validation
from dedp_assets.graph.outcomes.run_tags import FORCE
from dedp_assets.graph.resources.landing import Landing
from tests.case_study.assets.conftest import BOTH_OF_GOLD, SILVER_AND_GOLD, day, visits_of, world_in

pytestmark = pytest.mark.budget(60, "lost files, forced runs, ranges and approvals on the platform")

BROKEN = '{"visit_id": "torn", "event_ti'
GOLD = ("gold/daily_page_views", "gold/daily_visitors")


def data_files(world, table, **values):
    """The data files of a partition, on disk."""
    state = world.ledger(table).state()
    mine = [file for file, key in state.keyed_files() if values.items() <= dict(key).items()]
    return [Path(world.settings.lake) / table / file["path"] for file in mine]


def refused(world, number):
    """A day whose gold is refused for its volume, after a usual one."""
    world.land(day(number), visits_of(number, count=10))
    (ended,) = world.platform.react()
    assert "volume_is_usual" in ended.failure


@pytest.fixture(scope="module")
def loaded(spark, tmp_path_factory):
    """Two loaded days with a dead letter each; the tests tell one story."""
    with world_in(tmp_path_factory.mktemp("loaded")) as world:
        for number in range(2):
            world.land(day(number), visits_of(number), broken=[BROKEN])
        world.react()
        yield world


def test_a_lost_file_is_found_named_with_its_repair_and_repaired_by_it(loaded, capsys):
    """Verification names the file and the command; that run brings the same rows back; gold is left alone."""
    rows, before = sorted(map(str, loaded.rows("silver/visits"))), loaded.versions()
    (path,) = data_files(loaded, "silver/visits", event_date=day(0))
    path.unlink()
    assert verify(loaded.settings) == 1
    said = capsys.readouterr().out
    assert f"{path.name} is missing (event_date={day(0)}): dedp run silver/visits {day(0)}" in said
    assert {line.partition(":")[0] for line in said.splitlines() if line.endswith(": sound")} >= {
        *GOLD,
        "bronze/visits",
    }
    assert main(["run", "silver/visits", day(0)]) == 0
    assert sorted(map(str, loaded.rows("silver/visits"))) == rows
    assert verify(loaded.settings) == 0
    shown = loaded.materialization("silver/visits", day(0))
    assert path.name in shown["computed again because"]
    assert shown["outcome"] == "40 rows written again, because files that held them were lost"
    assert {name: loaded.versions()[name] for name in GOLD} == {name: before[name] for name in GOLD}
    assert loaded.react() == []


def test_who_reads_a_lost_file_says_which_table_has_to_be_computed_again(loaded):
    """Gold does not fail with a stack of Spark's, and is right after the repair."""
    (path,) = data_files(loaded, "silver/visits", event_date=day(0))
    content = path.read_bytes()
    path.unlink()
    failure = loaded.platform.compute("gold/daily_visitors", partition=day(0), tags={FORCE: "true"}).failure
    assert "silver/visits lacks 1 of its data files (" in failure
    assert "`dedp verify` names what repairs it" in failure
    path.write_bytes(content)
    assert loaded.platform.compute("gold/daily_visitors", partition=day(0), tags={FORCE: "true"}).failure == ""


def test_lost_dead_letters_come_back_with_their_day(loaded):
    """A day whose records cannot be among them is computed without them; their own day brings them back."""
    letters = [row["raw"] for row in loaded.rows("silver/visits_dead_letter")]
    (path,) = data_files(loaded, "silver/visits_dead_letter", filed_under=day(1))
    path.unlink()
    assert loaded.compute("silver/visits", day(0), **{FORCE: "true"}).failure == ""
    assert loaded.compute("silver/visits", day(1)).failure == ""
    assert sorted(row["raw"] for row in loaded.rows("silver/visits_dead_letter")) == sorted(letters)
    assert (
        "silver/visits_dead_letter lacks" in loaded.materialization("silver/visits", day(1))["computed again because"]
    )
    assert len(loaded.ids("silver/visits", event_date=day(1))) == 40


def test_a_new_delivery_replaces_a_day_of_which_files_are_lost(loaded):
    """What was there cannot be compared any more, and need not be."""
    data_files(loaded, "bronze/visits", landed_on=day(1))[0].unlink()
    loaded.land(day(1), visits_of(1, count=45), broken=[BROKEN])
    assert ("daily_visits", day(1)) in loaded.react()
    assert len(loaded.rows("bronze/visits", landed_on=day(1))) == 46
    assert len(loaded.ids("silver/visits", event_date=day(1))) == 45
    assert verify(loaded.settings) == 0


@pytest.mark.promise("a-forced-run-publishes-what")
def test_a_forced_run_publishes_what_the_same_inputs_give_now(loaded, monkeypatch):
    """A rule changed without a new code version: a plain run sees nothing, a forced one publishes and says so."""
    unwanted = json.loads(visits_of(0)[0])["visit_id"]
    monkeypatch.setitem(RULES, "visit is not wanted", f"visit_id <> '{unwanted}'")
    assert loaded.compute("silver/visits", day(0)).failure == ""
    assert len(loaded.ids("silver/visits", event_date=day(0))) == 40
    assert loaded.compute("silver/visits", day(0), **{FORCE: "true"}).failure == ""
    assert len(loaded.ids("silver/visits", event_date=day(0))) == 39
    record = loaded.last("silver/visits", event_date=day(0)).record
    assert (record.replay, record.cause) == (True, "forced")
    assert loaded.react() == [(BOTH_OF_GOLD, day(0))]
    assert loaded.rows("gold/daily_visitors", event_date=day(0))[0]["visits"] == 39
    monkeypatch.undo()
    assert loaded.compute("silver/visits", day(0), **{FORCE: "true"}).failure == ""
    assert loaded.react() == [(BOTH_OF_GOLD, day(0))]
    assert loaded.rows("gold/daily_visitors", event_date=day(0))[0]["visits"] == 40


def test_a_delivery_is_loaded_as_it_was_looked_at(loaded, monkeypatch):
    """A file that comes between the look and the load is late: the next run loads it."""
    more, content = visits_of(2, count=5, seed=7), Landing.content

    def meanwhile(self, dataset, delivery):
        digest = content(self, dataset, delivery)
        (self.folder(dataset, day(2)) / "meanwhile.jsonl").write_text("".join(f"{line}\n" for line in more))
        return digest

    loaded.land(day(2), visits_of(2))
    monkeypatch.setattr(Landing, "content", meanwhile)
    assert loaded.run("daily_visits", day(2)).failure == ""
    monkeypatch.undo()
    assert len(loaded.rows("bronze/visits", landed_on=day(2))) == 40
    assert loaded.run("daily_visits", day(2)).failure == ""
    assert len(loaded.rows("bronze/visits", landed_on=day(2))) == 45


def test_what_upstream_gains_between_pin_and_read_waits_for_the_next_run(loaded, monkeypatch):
    """Silver's commit holds exactly the rows of the version it names; the late ones come with their own."""
    late, tally = visits_of(0, count=3, seed=9), validation.tally_fields

    def meanwhile(*arguments, **options):
        monkeypatch.setattr(validation, "tally_fields", tally)
        # Somebody else's doing: a thread has none of the run's restriction to what is declared.
        with ThreadPoolExecutor(1) as others:
            others.submit(loaded.land, day(3), visits_of(3), late=late).result()
            computed = others.submit(loaded.platform.compute, "bronze/visits", partition=day(3)).result()
        assert computed.failure == ""
        return tally(*arguments, **options)

    pinned = loaded.last("silver/visits", event_date=day(0)).record.inputs
    monkeypatch.setattr(validation, "tally_fields", meanwhile)
    assert loaded.compute("silver/visits", day(0), **{FORCE: "true"}).failure == ""
    assert loaded.last("silver/visits", event_date=day(0)).record.inputs == pinned
    assert len(loaded.ids("silver/visits", event_date=day(0))) == 40
    assert (SILVER_AND_GOLD, day(0)) in loaded.react()
    assert len(loaded.ids("silver/visits", event_date=day(0))) == 43


def test_a_range_with_a_day_that_is_not_ready_reaches_gold(loaded):
    """The run fails with the one sentence about that day; the days around it are in gold, and the day itself is not."""
    for number in (5, 7):
        loaded.land(day(number), visits_of(number))
    tags = {"dagster/asset_partition_range_start": day(5), "dagster/asset_partition_range_end": day(7)}
    failure = loaded.run("daily_visits", **tags).failure
    assert failure.startswith(f"{day(6)}: nothing has landed: put the files into {loaded.landing}/visits/{day(6)}, and")
    for table in GOLD:
        assert {str(row["event_date"]) for row in loaded.rows(table)} >= {day(5), day(7)}
        assert loaded.materialization(table, day(7))["verdict"] == "passed"
        assert loaded.rows(table, event_date=day(6)) == []
    assert loaded.react() == []


def test_files_that_are_removed_while_they_are_read_let_the_step_begin_again(loaded, monkeypatch):
    """As an erasure does, whose purge leaves no older version: the present rows are read, and nobody has to help."""
    tally, before, removed = validation.tally_fields, loaded.ids("silver/visits", event_date=day(0)), []

    def meanwhile(*arguments, **options):
        if not removed:
            removed.extend(data_files(loaded, "bronze/visits", landed_on=day(0)))
            bronze = DeltaTable(Path(loaded.settings.lake) / "bronze/visits")
            bronze.update({"timeliness": "timeliness || ''"}, predicate=f"landed_on = '{day(0)}'")
            for path in removed:
                path.unlink()
        return tally(*arguments, **options)

    monkeypatch.setattr(validation, "tally_fields", meanwhile)
    assert loaded.compute("silver/visits", day(0), **{FORCE: "true"}).failure == ""
    assert len(removed) > 0
    assert loaded.ids("silver/visits", event_date=day(0)) == before


@pytest.mark.promise("an-approval-is-about-one")
def test_an_approval_is_about_one_table_and_not_its_neighbours(loaded, capsys):
    """The other table of the same job stays refused; a second approval of the same is not needed, and says so."""
    refused(loaded, 8)
    named = ["--by", "Ada", "--because", "the campaign ended"]
    assert main(["approve", "gold/daily_visitors", day(8), *named]) == 0
    assert loaded.last("gold/daily_visitors", event_date=day(8)).record.verdict == "approved"
    assert loaded.rows("gold/daily_page_views", event_date=day(8)) == []
    refusals = {table: [key for key, kind in loaded.waiting(table) if kind == "refused"] for table in GOLD}
    assert refusals == {"gold/daily_page_views": [day(8)], "gold/daily_visitors": []}
    capsys.readouterr()
    assert main(["approve", "gold/daily_visitors", day(8), *named]) == 2
    assert f"gold/daily_visitors {day(8)} needs no approval: version" in capsys.readouterr().err


@pytest.mark.promise("a-replay-is-compared")
def test_a_replay_that_compares_publishes_what_is_as_before_and_waits_with_the_rest(loaded, capsys):
    """Rows by key and column are shown before they are exchanged, and an approval exchanges them."""
    table, days = "gold/daily_visitors", [day(0), day(1)]
    before = {each: loaded.rows(table, event_date=each) for each in days}
    stored = DeltaTable(Path(loaded.settings.lake) / table)
    stored.update({"visitors": "visitors + 1"}, predicate=f"event_date = '{day(1)}'")
    backfill = ["backfill", table, f"{day(0)}...{day(1)}", "--compare", "--force"]
    assert main(backfill) == 1
    out, _ = capsys.readouterr()
    assert [line.split()[-1] == "done" for line in out.splitlines() if table in line] == [True, False]
    assert "rows_are_as_before: other rows than before (rows_in=1, rows_out=1, rows_changed=0)" in out
    assert f"dedp approve {table} {day(1)} --by NAME" in out
    assert main(["explain", table, day(1), "--against", "refused"]) == 1
    shown = capsys.readouterr().out
    assert all(part in shown for part in ("1 row at version", "1 refused", "rows in", "rows out"))
    assert loaded.rows(table, event_date=day(1)) != before[day(1)]
    assert main(["approve", table, day(1), "--by", "Ada", "--because", "somebody changed a row by hand"]) == 0
    assert {each: loaded.rows(table, event_date=each) for each in days} == before
    (audit,) = (each for each in loaded.last(table, event_date=day(1)).record.findings if "before" in each["name"])
    assert (audit["approved_by"], audit["figures"]["rows_in"]) == ("Ada", 1)
    assert main(backfill) == 0


def test_what_no_person_can_overrule_is_not_computed_under_a_name(loaded, capsys):
    """The audit is named; nothing runs."""
    loaded.land(day(9), ['{"visit_id": 1}'])
    landing = loaded.landing / "visits" / day(9)
    (landing / "sub").mkdir()
    assert "holds what is no file: sub (a folder)" in loaded.run("daily_visits", day(9)).failure
    runs = loaded.platform.instance.get_runs_count()
    assert main(["approve", "bronze/visits", day(9), "--by", "Ada", "--because", "it is fine"]) == 2
    assert f"bronze/visits {day(9)} cannot be approved: no person overrules ContractError" in capsys.readouterr().err
    assert loaded.platform.instance.get_runs_count() == runs
