"""A first mistake in a landing: the refusal says what is wrong, and the mended declaration is loaded by itself."""

from __future__ import annotations

import json
from datetime import datetime, timezone

import dagster as dg
import pytest

from dedp_assets.commands.letters import letters
from dedp_assets.graph.outcomes.refusals import Refusals
from dedp_assets.graph.reconcile.reconciler import Reconciler
from dedp_assets.graph.resources.clock import Clock
from dedp_assets.graph.resources.environments import settings
from tests.components.landed_project import Project

pytestmark = [pytest.mark.spark, pytest.mark.budget(30, "three days of a landing, refused and mended")]
ORDERS = """
type: dedp_assets.components.LandingComponent
attributes:
  table: silver/orders
  folder: orders
  format: {csv: {}}
  partitions: {daily: {start: 2026-07-20}}
  event_time: ordered
  rules: {is of another month: month(ordered) = 7}
  about: {owner: "team:data"}
"""
COLUMNS = """
columns:
  id: {type: BIGINT, required: true}
  ordered: {type: TIMESTAMP}
  mail: {type: STRING, classification: personal}
"""
DAYS = ["2026-07-25", "2026-07-26"]
WHY = (
    "3 of 3 dead letters: ordered is not a TIMESTAMP (does the column's format fit?), "
    "such as {ordered: '99/99/9999 99:99', "
)
NOW = datetime(2026, 8, 1, tzinfo=timezone.utc)


@pytest.fixture(scope="module")
def shop(spark, tmp_path_factory):
    """Two days of orders whose dates are not as the declaration says."""
    project = Project(
        tmp_path_factory.mktemp("shop"), {"orders/defs.yaml": ORDERS, "orders/columns.yaml": COLUMNS}, lake="lakehouse"
    )
    for day in DAYS:
        lines = [f"{n},{day[8:]}/07/2026 10:0{n},ada{n}@x.org" for n in range(3)]
        project.land(f"orders/{day}", {"a.csv": "\n".join(["id,ordered,mail", *lines, ""])})
    return project


def look(project):
    """What the reconciler asks for, with the cause, and what stays refused."""
    outcome, _ = Reconciler(list(project.tables.values())).reconcile(project.lake, project.zone, NOW)
    asked = [(table, ask.want.key, ask.want.cause) for ask in outcome.asks for table in ask.want.tables]
    return asked, {(gap.table, gap.key) for gap in outcome.gaps if gap.state == "refused"}


def refused(project, name, key):
    """The failure of a run that is refused: its sentence, and its metadata."""
    resources = {"lake": project.lake, "clock": Clock(), "landing": project.zone}
    with dg.DagsterInstance.ephemeral() as instance:
        done = dg.materialize(
            [project.tables[name].definition()],
            partition_key=key,
            resources=resources,
            instance=instance,
            raise_on_error=False,
        )
        (failed,) = done.get_step_failure_events()
        checks = {check.check_name: check.description for check in done.get_asset_check_evaluations()}
        return failed.step_failure_data.user_failure_data, checks


def test_a_wrong_date_format_is_told(shop, monkeypatch, capsys):
    """The run, the check, the note and the command name one reason, with count and a masked record, and no rule."""
    for day in DAYS:
        shop.run("bronze/orders", day)
    for day in DAYS:
        told, checks = refused(shop, "silver/orders", day)
        if day == DAYS[0]:
            assert WHY in told.description
            assert WHY in checks["dead_letters_are_few"]
            (record,) = told.metadata[f"{day} dead letters"].records
            assert (record.data["reason"], record.data["letters"]) == ("ordered is not a TIMESTAMP", 3)
    notes = Refusals(shop.lake.refused("silver/orders")).by_key()
    assert WHY in notes[DAYS[0]].reason
    assert look(shop) == ([], {("silver/orders", day) for day in DAYS})
    monkeypatch.setenv("DEDP_HOME", str(shop.root))
    assert letters(settings()) == 0
    shown = capsys.readouterr().out
    assert all(part in shown for part in (*DAYS, "ordered is not a TIMESTAMP", "'aaa9@a.aaa'"))
    assert "ada" not in json.dumps([shown, *(note.reason for note in notes.values())])


def test_a_mended_date_format_is_loaded_again_by_itself(shop, monkeypatch, capsys):
    """Bronze first, whose rows had no date, and then silver: nobody asks by hand, and no letter is left."""
    monkeypatch.setenv("DEDP_HOME", str(shop.root))
    shop.write({"orders/columns.yaml": COLUMNS.replace("TIMESTAMP}", "TIMESTAMP, format: dd/MM/yyyy HH:mm}")})
    asked, still = look(shop)
    assert (asked, still) == ([("bronze/orders", day, "declaration") for day in DAYS], set())
    assert set(shop.react()) == {(table, day) for table in ("bronze/orders", "silver/orders") for day in DAYS}
    rows = shop.rows("silver/orders", "id", "ordered")
    assert rows == [(n, datetime(2026, 7, d, 10, n, tzinfo=timezone.utc)) for n in range(3) for d in (25, 26)]
    assert shop.rows("silver/orders_dead_letter") == []
    assert look(shop) == ([], set())
    assert letters(settings()) == 0
    assert "ordered is not" not in capsys.readouterr().out


def test_a_gate_that_was_changed_lets_the_refused_partition_be_asked_for(shop):
    """The verdict follows from the gates, too; a description mends nothing."""
    day = "2026-07-27"
    shop.land(f"orders/{day}", {"a.csv": "id,ordered,mail\n1,27/07/2026 10:00,x\nx,27/07/2026 10:00,x\n"})
    shop.run("bronze/orders", day)
    shop.run("silver/orders", day, refuses=True)
    assert look(shop) == ([], {("silver/orders", day)})
    shop.write({"orders/defs.yaml": ORDERS.replace("{owner", "{used_by: the shop, owner")})
    assert look(shop) == ([], {("silver/orders", day)})
    audit = "{name: dead_letters_are_few, of: dead, per: read, fail_above: 0.5}"
    shop.write({"orders/defs.yaml": f"{ORDERS}  gates: {{audits: [{audit}]}}\n"})
    assert look(shop)[0] == [("silver/orders", day, "first-seen")]
    shop.react()
    assert look(shop) == ([], set())
