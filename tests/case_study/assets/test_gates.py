"""Gates: what fails its audits is not published, what was published stays, and exceptions carry a name."""

from __future__ import annotations

import json

import pytest

from dedp_assets.case_study.defs.silver.visits import VISITS
from dedp_assets.case_study.sources import devices
from dedp_assets.graph.outcomes.run_tags import APPROVED_BECAUSE, APPROVED_BY
from dedp_assets.patterns.core.records import Provenance
from dedp_assets.patterns.delta import Table
from tests.case_study.assets.conftest import BOTH_OF_GOLD, day, visits_of

pytestmark = pytest.mark.budget(60, "a platform with refused and approved days")

APPROVAL = {APPROVED_BY: "Ada", APPROVED_BECAUSE: "the provider confirmed it"}


def torn(lines):
    return [line[: len(line) // 2] for line in lines]


def test_a_bad_batch_is_refused_and_what_was_published_stays(world):
    """Too many dead letters: silver and gold keep their rows, the failed check has its figures, nobody retries."""
    world.land(day(0), visits_of(0))
    world.react()
    before = world.versions()
    world.land(day(0), visits_of(0)[:20], broken=torn(visits_of(0)[20:]))
    ended = list(world.platform.react())
    assert [(e.job, bool(e.failure)) for e in ended] == [("daily_visits", True)]
    assert "dead_letters_are_few: above 0.1 (dead=20, read=40, ratio=0.5)" in ended[0].failure
    assert world.checks("silver/visits")["dead_letters_are_few"] is False
    after = world.versions()
    assert {n for n in after if after[n] != before[n]} == {"bronze/visits"}
    assert len(world.ids("silver/visits", event_date=day(0))) == 40
    assert list(world.platform.react()) == []


def test_a_delivery_that_mostly_repeats_itself_is_refused(world):
    """Two of three visits came before in the same delivery: the share is a failed check, and silver stays empty."""
    world.land(day(0), visits_of(0) * 3)
    ended = list(world.platform.react())
    assert [(e.job, bool(e.failure)) for e in ended] == [("daily_visits", True)]
    assert "duplicates_are_few: above 0.5 (duplicates=80, read=120, ratio=0.6667)" in ended[0].failure
    assert world.checks("silver/visits")["duplicates_are_few"] is False
    assert world.rows("silver/visits") == []


def test_new_data_opens_a_gate_that_was_closed(world):
    """After the producer delivers the day again, whole, the platform loads it without anybody's help."""
    world.land(day(0), visits_of(0)[:20], broken=torn(visits_of(0)[20:]))
    assert [bool(e.failure) for e in world.platform.react()] == [True]
    world.land(day(0), visits_of(0))
    assert world.react() == [("daily_visits", day(0))]
    assert len(world.ids("silver/visits", event_date=day(0))) == 40
    assert world.rows("silver/visits_dead_letter") == []
    assert world.checks("silver/visits")["dead_letters_are_few"] is True


def test_a_named_person_may_approve_a_false_positive(world):
    """The same data is published under a name and a reason, both in the ledger, and gold follows."""
    world.land(day(0), visits_of(0), broken=torn(visits_of(0))[:20])
    assert [bool(e.failure) for e in world.platform.react()] == [True]
    assert world.compute("silver/visits", day(0), **APPROVAL).failure == ""
    record = world.last("silver/visits", event_date=day(0)).record
    assert record.verdict == "approved"
    assert (record.approval["by"], record.approval["because"]) == ("Ada", "the provider confirmed it")
    assert len(world.rows("silver/visits_dead_letter")) == 20
    assert world.react() == [(BOTH_OF_GOLD, day(0))]
    assert world.rows("gold/daily_visitors")[0]["visits"] == 40


def test_gold_refuses_a_day_of_unusual_volume_until_somebody_approves(world):
    """Half the usual visits may be an outage or a defect: gold keeps what it has and asks."""
    for number in range(2):
        world.land(day(number), visits_of(number))
    world.react()
    world.land(day(2), visits_of(2, count=10))
    (ended,) = world.platform.react()
    assert "volume_is_usual: below 0.5 (views=10, usual=40, ratio=0.25)" in ended.failure
    assert world.rows("gold/daily_visitors", event_date=day(2)) == []
    assert len(world.ids("silver/visits", event_date=day(2))) == 10
    for table in BOTH_OF_GOLD.split(", "):
        assert world.compute(table, day(2), **APPROVAL).failure == ""
    assert world.rows("gold/daily_visitors", event_date=day(2))[0]["visits"] == 10
    assert list(world.platform.react()) == []


@pytest.mark.parametrize("audited", [False, True], ids=["no audit at all", "required audit missing"])
def test_a_check_that_did_not_run_blocks_like_one_that_failed(world, spark, audited):
    """Silver rows without the explicit verdict that gold asks for are not promoted, however good they are."""
    world.land(day(0), visits_of(0))
    world.react()
    silver = Table(VISITS, world.address(VISITS.name), spark)
    some = silver.read({"event_date": day(0)}).limit(30)
    if audited:
        by_hand = Provenance(asset="by hand", run_id="by hand", sequence=9)
        silver.overwrite(some, partition={"event_date": day(0)}, provenance=by_hand)
    else:
        writer = some.write.format("delta").mode("overwrite").option("replaceWhere", f"event_date = '{day(0)}'")
        writer.save(silver.store.address)
    (ended,) = world.platform.react()
    assert "the input was refused. upstream_passed" in ended.failure
    assert world.checks("gold/daily_visitors")["upstream_passed"] is False
    assert world.rows("gold/daily_visitors")[0]["visits"] == 40


def test_a_truncated_devices_delivery_does_not_replace_a_full_table(world):
    """The volume guard and the torn line refuse it, in one run that names both; a whole delivery is loaded after."""
    folder = world.landing / "devices"
    devices.deliver(folder, devices.devices())
    assert world.react() == [("refresh_devices", "")]
    devices.deliver(folder, devices.devices()[:30], cut=True)
    (ended,) = world.platform.react()
    assert "volume_is_plausible: below 0.5" in ended.failure
    assert "every_device_is_readable: above 0 (dead=1)" in ended.failure
    assert len(world.rows("bronze/devices")) == 120
    devices.deliver(folder, devices.devices()[1:])
    assert world.react() == [("refresh_devices", "")]
    assert {json.dumps(row, sort_keys=True) for row in world.rows("bronze/devices")} == {
        json.dumps(json.loads(line), sort_keys=True) for line in devices.devices()[1:]
    }


def test_gold_without_silver_says_what_to_do(world):
    """A date that was never processed is refused with one sentence, and nothing is created."""
    assert "silver/visits" in world.compute("gold/daily_visitors", day(0)).failure
    assert not world.ledger("gold/daily_visitors").exists()
