"""What is asked for of the partitions that are not current: a pure decision."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone

import dagster as dg
import pytest

from dedp_assets.graph.outcomes.refusals import Refusal
from dedp_assets.graph.reconcile.backlogs import spans
from dedp_assets.graph.reconcile.reconciling import Tried, Want, plan_requests

NOTE = Refusal(("8",), "1", "run-1", "too many dead letters")


def want(key, *tables, **fields):
    tables = tables or ("silver/x",)
    computes = {table: (table,) for table in tables}
    return Want(tables, key, "8", "behind", "x changed", computes=computes, named=tables[0], **fields)


def decide(*wants, busy=None, refused=(), tried=None, limit=25):
    """Run keys that are asked for, and the state and the last words of every gap."""
    outcome = plan_requests(
        wants,
        busy=busy or {},
        refused=lambda table, key, goal: NOTE if (table, key) in refused and goal in NOTE.goals else None,
        tried=lambda requests: {r: found for r, found in (tried or {}).items() if r in requests},
        limit=limit,
    )
    return [ask.run_key for ask in outcome.asks], [(gap.state, gap.reason.split("; ")[-1]) for gap in outcome.gaps]


def test_the_oldest_come_first_and_no_more_than_the_limit():
    """Whatever table they are of; the others say that they wait for their turn."""
    asked, gaps = decide(want("3"), want("1", "gold/x"), want("2"), limit=2)
    assert asked == ["gold/x:1@8", "silver/x:2@8"]
    assert [said for _, said in gaps] == [
        "the reconciler asks for it",
        "the reconciler asks for it",
        "the next of many, the oldest come first",
    ]


def test_what_cannot_be_asked_for_takes_nobodys_place():
    """Refused, failed and waiting partitions, more than the limit of them, before one that can be."""
    failing = {f"silver/x:{number:03}@8": Tried(3, 0, "0123456789") for number in range(100, 250)}
    wants = [want(f"{number:03}") for number in range(251)]
    refused = {("silver/x", f"{number:03}") for number in range(100)}
    asked, gaps = decide(*wants, refused=refused, tried=failing, limit=2)
    assert asked == ["silver/x:250@8"]
    assert gaps[0] == ("refused", "too many dead letters")
    assert gaps[100] == ("waiting", "gave up after 3 failed runs: look at run 01234567")


@pytest.mark.parametrize(
    ("tried", "asked"),
    [
        (Tried(), ["silver/x:1@8"]),
        (Tried(failed=1), ["silver/x:1@8#2"]),
        (Tried(failed=1, succeeded=2), ["silver/x:1@8#4"]),
        (Tried(failed=3), []),
        (Tried(succeeded=3), []),
    ],
)
def test_each_attempt_has_a_key_of_its_own_and_the_third_is_the_last(tried, asked):
    """Dagster starts a key once: an attempt after one that ended has to have another."""
    assert decide(want("1"), tried={"silver/x:1@8": tried})[0] == asked


def backlog(count, **fields):
    """Stale partitions of one table, each the one before the next."""
    return [want(f"{number:03}", following=f"{number + 1:03}", **fields) for number in range(count)]


def runs_of(*wants, tried=None, limit=25):
    """Keys of the partitions of each requested run."""
    outcome = plan_requests(
        wants, busy={}, refused=lambda *_: None, tried=lambda _: tried or {}, limit=limit, mine=lambda _: True
    )
    return [[each.key for each in ask.wants] for ask in outcome.asks]


def test_a_backlog_is_computed_in_runs_of_a_month():
    """A week of partitions has runs of its own; what joins a run takes no place of another one."""
    assert runs_of(*backlog(7)) == [[f"{number:03}"] for number in range(7)]
    assert [len(run) for run in runs_of(*backlog(40))] == [31, 9]
    assert [len(run) for run in runs_of(*backlog(40), limit=1)] == [31]
    assert [len(run) for run in runs_of(*backlog(40, in_order=True))] == [31]


def test_a_run_of_several_partitions_has_no_gap_and_one_cause():
    """Nor a partition that a run was requested for before, that a restore took back, or that is computed elsewhere."""
    days = backlog(12)
    assert runs_of(*days[:5], *days[6:]) == [[each.key for each in days[:5]], [each.key for each in days[6:]]]
    tried = {days[5].request: Tried(failed=1)}
    assert [len(run) for run in runs_of(*days, tried=tried)] == [5, 1, 6]
    for other in ({"cause": "late-data"}, {"restored": 3}, {"after": frozenset({("silver/y", "1")})}, {"priority": 1}):
        mixed = [*days[:5], replace(days[5], **other), *days[6:]]
        assert [len(run) for run in runs_of(*mixed)] == [5, 1, 6], other
    assert [len(run) for run in runs_of(*[replace(each, following="") for each in days])] == [1] * 12


def test_windows_of_a_database_are_divided_as_a_backlog_is():
    """By whoever asks for them without the reconciler."""
    partitions = dg.DailyPartitionsDefinition("2026-01-01")
    keys = partitions.get_partition_keys(datetime(2026, 3, 1, tzinfo=timezone.utc))[:40]
    assert [len(span) for span in spans(keys, partitions)] == [31, 9]
    assert spans([*keys[:5], *keys[6:9]], partitions) == [keys[:5], keys[6:9]]
    assert spans(keys[:7], partitions) == [[key] for key in keys[:7]]


def test_two_who_ask_for_a_part_each_ask_for_all_of_it_together_and_for_nothing_twice():
    """A delivery keeps the table of its own key waiting for both of them, whoever asks for it."""
    wants = [want("1", "bronze/x", job="load"), want("1", "bronze/x", "silver/x"), want("2"), want("3", job="load")]

    def asked(mine):
        outcome = plan_requests(wants, busy={}, refused=lambda *_: None, tried=lambda _: {}, limit=25, mine=mine)
        return {(ask.want.named, ask.want.key, ask.want.job) for ask in outcome.asks}

    loads, tables = asked(lambda each: bool(each.job)), asked(lambda each: not each.job)
    assert loads == {("bronze/x", "1", "load"), ("silver/x", "3", "load")}
    assert tables == {("silver/x", "2", "")}
    assert loads | tables == asked(lambda _: True)


def test_of_two_tables_of_a_run_the_one_that_was_not_refused_is_computed():
    """The run leaves the refused one out, and both are told."""
    asked, gaps = decide(want("1", "gold/a", "gold/b"), refused={("gold/a", "1")})
    assert asked == ["gold/a:1@8"]
    assert gaps == [("refused", "too many dead letters"), ("behind", "the reconciler asks for it")]


def test_nothing_is_asked_for_twice_in_a_tick_nor_while_it_is_processed():
    """What an earlier request of the tick computes counts as in flight, like a run of anybody."""
    chain = Want(("silver/x",), "1", "8", "behind", "", computes={"silver/x": ("silver/x", "gold/x")}, named="silver/x")
    assert decide(chain, want("1", "gold/x"))[0] == ["silver/x:1@8"]
    assert decide(want("1"), want("2"), busy={"silver/x": {"1"}})[0] == ["silver/x:2@8"]


def test_what_a_restore_took_back_comes_first_if_it_is_asked_for_at_all():
    """A date computed from it waits for it, and not for one that nobody can compute."""
    after = frozenset({("silver/x", "1")})
    gold = want("0", "gold/x", after=after)
    assert decide(gold, want("1", restored=7))[0] == ["silver/x:1@8~7"]
    assert decide(gold, want("1"), refused={("silver/x", "1")})[0] == ["gold/x:0@8"]
    assert decide(gold)[0] == ["gold/x:0@8"]


def test_what_has_an_order_is_asked_for_one_after_the_other():
    """The first key alone, whether it is asked for, under way or given up; other tables do not wait.

    A refused correction of what the table holds stops nothing; what it lacks, or has taken back, does.
    """
    keys = [want(key, "gold/x", in_order=True) for key in "123"]
    asked, gaps = decide(*keys, want("2"))
    assert asked == ["gold/x:1@8", "silver/x:2@8"]
    assert [said for _, said in gaps] == [
        "the reconciler asks for it",
        "comes after gold/x 1",
        "the reconciler asks for it",
        "comes after gold/x 1",
    ]
    assert decide(*keys, busy={"gold/x": ["1"]})[0] == []
    assert decide(*keys, tried={"gold/x:1@8": Tried(3, 0, "0123456789")})[0] == []
    first = {("gold/x", "1")}
    assert decide(*keys, refused=first)[0] == ["gold/x:2@8"]
    assert decide(replace(keys[0], state="missing"), *keys[1:], refused=first)[0] == []
    assert decide(replace(keys[0], restored=7), *keys[1:], refused=first)[0] == []
