"""Combinations of options that no table can have."""

from __future__ import annotations

import dagster as dg
import pytest

from dedp_assets.graph.declare import (
    About,
    AtOnce,
    Every,
    Follow,
    Gates,
    InOrder,
    Inputs,
    Nightly,
    OnDelivery,
    OnRequest,
    Pinned,
    Reads,
    Request,
    Runs,
    Step,
    aligned,
    day_to_week,
    hour_to_day,
    lake_table,
    same,
)
from dedp_assets.patterns.core.audits import Audit
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.results import WriteResult
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.delta import Table, Target

DAYS = dg.DailyPartitionsDefinition("2026-01-05")
MONDAYS, BERLIN = {"day_offset": 1}, {"timezone": "Europe/Berlin"}
WEEKS = dg.WeeklyPartitionsDefinition("2026-01-05", day_offset=1)
COLUMNS = {"id": Column("BIGINT", "identity"), "day": Column("DATE", "day")}
SOURCE, OTHER = (TableSpec(name, COLUMNS, partition_by=("day",)) for name in ("bronze/source", "bronze/other"))
LANDED = TableSpec("bronze/landed", {**COLUMNS, "landed_on": Column("DATE")}, partition_by=("landed_on", "day"))
TOTALS = TableSpec("gold/totals", COLUMNS, partition_by=("day",), comment="One row per day.")
READS = Reads({SOURCE: same("day")})
AUDIT = Audit(name="some", of="written", fail_below=1)
LATE = Nightly("0 2 * * *", lookback=14, follows_late=True)
STATED = {"reads": READS, "about": About("team:x"), "patterns": [Table.overwrite], "code_version": "1"}


def total(step: Step, into: Target) -> WriteResult: ...


def found(request: Request) -> Inputs: ...


LOOKS = Reads(inputs=found)
WRONG = {
    "gold/totals reads nothing: name tables (Reads(tables=)) or a function (Reads(inputs=))": {"reads": Reads()},
    "gold/totals: reads must be Reads(...), not {": {"reads": {"bronze/source": same("day")}},
    "gold/totals: reads must be Reads(...), not ['bronze/source']": {"reads": ["bronze/source"]},
    "gold/totals: runs must be Runs(...), not 'days'": {"runs": "days"},
    "gold/totals: gates must be Gates(...), not ['some']": {"gates": ["some"]},
    "gold/totals: about must be About(...), not 26": {"about": 26},
    "gold/totals: about.owner must be the team or person that answers": {"about": "dashboards"},
    "gold/totals: about.owner must be the team or person that answers for the table": {"about": About()},
    "gold/totals: reads must say how partitions of bronze/landed feed those by day": {"reads": [LANDED], "runs": DAYS},
    "gold/totals: Reads.references must be ": {"reads": Reads(READS.tables, references=SOURCE)},
    "gold/totals: revised_by must be among the references, not bronze/other": {
        "reads": Reads(READS.tables, references=[SOURCE], revised_by=[OTHER]),
        "runs": Runs(DAYS),
    },
    "gold/totals: partitions must be days for revised_by, not WeeklyPartitionsDefinition": {
        "reads": Reads({SOURCE: day_to_week("day")}, references=[OTHER], revised_by=[OTHER]),
        "runs": Runs(WEEKS),
    },
    **{
        f"gold/totals: partitions must be the days in UTC, or weeks from Monday on, that bronze/source feeds, {key}": {
            "reads": Reads({SOURCE: feed}),
            "runs": Runs(partitions),
        }
        for key, feed, partitions in (
            ("not 2026-01-11", day_to_week("day"), dg.WeeklyPartitionsDefinition("2026-01-05")),
            ("not 2026-01-05", day_to_week("day"), dg.WeeklyPartitionsDefinition("2026-01-05", **MONDAYS, **BERLIN)),
            ("not 2026-01-05", day_to_week("day"), dg.WeeklyPartitionsDefinition("2026-01-05", 0, 6, **MONDAYS)),
            ("not 2026-01-05", hour_to_day("day"), dg.DailyPartitionsDefinition("2026-01-05", **BERLIN)),
            ("not 2026-01-05", aligned(hour_to_day("day")), dg.DailyPartitionsDefinition("2026-01-05", hour_offset=6)),
            ("not 2026-01-05", day_to_week("day"), DAYS),
            ("not 2026-02-01", hour_to_day("day"), dg.MonthlyPartitionsDefinition("2026-01-05")),
        )
    },
    "gold/totals: when must name what asks for partitions, not nothing": {"runs": Runs(DAYS, [])},
    "gold/totals: Reads.tables must name the tables that Follow looks at, not nothing": {"reads": LOOKS},
    "gold/totals: Reads.tables must name the tables that Nightly looks at, not nothing": {
        "reads": LOOKS,
        "runs": Runs(DAYS, LATE),
    },
    "gold/totals: when must hold one of Follow, Nightly, InOrder, Branch and OnRequest, not Follow and Nightly": {
        "runs": Runs(DAYS, [Follow(), Nightly("0 2 * * *", lookback=14)]),
    },
    "gold/totals: when must hold one of Follow, Nightly, InOrder, Branch and OnRequest, not InOrder and Follow": {
        "runs": Runs(DAYS, [InOrder(Nightly("0 2 * * *", lookback=14)), Follow()]),
    },
    "gold/totals: Nightly.follows_late must be False within InOrder, not True": {"runs": Runs(DAYS, InOrder(LATE))},
    "gold/totals: partitions must be days or another time for Nightly, not none": {"runs": Runs(when=LATE)},
    "gold/totals: partitions must be days or another time for InOrder, not StaticPartitionsDefinition": {
        "runs": Runs(dg.StaticPartitionsDefinition(["a", "b"]), InOrder()),
    },
    "gold/totals: when must hold one of InOrder and AtOnce, not both: an order has one run at once": {
        "runs": Runs(DAYS, [InOrder(), AtOnce(2, by=OnRequest())]),
    },
    "gold/totals: InOrder.pending must be 1 or more, not 0": {"runs": Runs(DAYS, InOrder(pending=0))},
    "gold/totals: InOrder.hands_over must be among the written tables, not bronze/other": {
        "runs": Runs(DAYS, InOrder(hands_over=OTHER)),
    },
    "slots of gold/totals must be 1 or more, not 0": {"runs": Runs(DAYS, AtOnce(0))},
    "slots of gold/totals must be 1, not 2: its runs share _latest_state.json": {
        "runs": Runs(DAYS, AtOnce(2, shares="_latest_state.json")),
    },
    "slots of gold/totals must be 1, not 2: its runs share the rows of gold/totals": {"runs": Runs(None, AtOnce(2))},
    "gold/totals: Nightly.lookback must be 0 or more, not -1": {"runs": Runs(DAYS, Nightly("0 2 * * *", lookback=-1))},
    "gold/totals: Nightly.lookback must be a whole number": {"runs": Runs(DAYS, Nightly("0 2 * * *", lookback="14"))},
    "gold/totals: Every.running must be ": {"runs": Runs(DAYS, Every("0 2 * * *", description="x", running=1))},
    "gold/totals: Reads.inputs must be a function that finds the delivery for OnDelivery, not None": {
        "runs": Runs(DAYS, OnDelivery("visits")),
    },
    "gold/totals: partitions must be days or another time, or none, for OnDelivery, not StaticPartitionsDefinition": {
        "reads": LOOKS,
        "runs": Runs(dg.StaticPartitionsDefinition(["a", "b"]), OnDelivery("visits")),
    },
    "gold/totals: audits, checks and reports must have names of their own, not some twice": {
        "gates": Gates([AUDIT], checks={"some": "x"}),
    },
    "gold/totals: audits, checks and reports must have names of their own, not input_is_not_empty twice": {
        "gates": Gates(checks={"input_is_not_empty": "x"}, if_empty="Warns."),
    },
    "gold/totals: About.fresh_hours must be ": {"about": About("team:x", fresh_hours="26")},
    "gold/totals: patterns must name the pattern at work, not nothing": {"patterns": []},
}


@pytest.mark.parametrize("said", WRONG)
def test_a_wrong_combination_is_refused_in_one_sentence_that_names_the_table(said):
    """When the module is loaded, before Dagster sees the table."""
    with pytest.raises(ConfigError) as refused:
        lake_table(TOTALS, **{**STATED, **WRONG[said]})(total)
    assert str(refused.value).startswith(said)
    assert "\n" not in str(refused.value)


def test_executions_share_the_rows_of_their_table():
    """Each changes the rows of the one before: two at once are refused, and none hands its rows over."""
    executed = TableSpec("gold/executed", COLUMNS, executed_by="run_day")
    with pytest.raises(ConfigError, match="slots of gold/executed must be 1, not 2: its runs share the rows of"):
        lake_table(executed, **STATED, runs=Runs(DAYS, AtOnce(2)))(total)
    with pytest.raises(ConfigError, match=r"InOrder\.hands_over must be a table with partitions"):
        lake_table(executed, **STATED, runs=Runs(DAYS, InOrder(hands_over=executed)))(total)


@pytest.mark.parametrize("beside", [False, True])
def test_a_run_by_partition_owns_a_partition_of_each_table_that_it_writes(beside):
    """Otherwise one day's rows would replace the whole table; an execution is owned, too."""
    whole = TableSpec("gold/whole", COLUMNS)
    tables = {"beside": {whole: [Table.overwrite]}} if beside else {}
    declare = lake_table(TOTALS if beside else whole, **STATED, runs=Runs(DAYS), **tables)
    with pytest.raises(ConfigError, match="gold/whole: partition_by must name the column of partition keys, not"):
        declare(total)
    executed = TableSpec("gold/executed", COLUMNS, executed_by="run_day")
    assert lake_table(executed, **STATED, runs=Runs(DAYS))(total).spec is executed


@pytest.mark.parametrize(
    "runs",
    [
        Runs(),
        Runs(DAYS, InOrder()),
        Runs(DAYS, InOrder(Nightly("0 2 * * *", lookback=0))),
        Runs(DAYS, LATE),
        Runs(DAYS, OnRequest()),
        Runs(DAYS, InOrder(hands_over=TOTALS, pending=5)),
        Runs(DAYS, AtOnce(5)),
        Runs(DAYS, AtOnce(1, shares="_latest_state.json")),
        Runs(DAYS, AtOnce(2, by=Nightly("0 2 * * *", lookback=1), priority=5)),
        Runs(DAYS, [LATE, Every("0 4 1 * *", description="x")]),
    ],
)
def test_what_goes_together_is_taken(runs):
    """Each way of asking for partitions, and a schedule besides."""
    assert lake_table(TOTALS, **{**STATED, "runs": runs})(total).runs is runs


KNOWN = {"day": Column("DATE", classification="public"), "id": Column("BIGINT", classification="public")}
LEAVING = {
    "export/x: columns ['id'] must have a class before they come to export/x, not none: declare what they hold, such "
    'as "id": Column("BIGINT", classification="public")': {"id": Column("BIGINT")},
    "export/x: columns ['id'] are secret and must not come to export/x": {"id": Column("INT", classification="secret")},
    "export/x: columns ['id'] must state what they leave for, as they lead to persons, not nothing: such as "
    'Column("STRING", classification="sensitive", purpose=("research",))': {
        "id": Column("STRING", classification="sensitive")
    },
}


def leaving(columns, name="export/x", source=None):
    """Declare a table for others."""
    spec = TableSpec(name, {**KNOWN, **columns}, partition_by=("day",), comment="x")
    upstream = source or TableSpec("silver/known", KNOWN, partition_by=("day",))
    stated = {**STATED, "reads": Reads({upstream: same("day")})}
    return lake_table(spec, runs=Runs(DAYS), **stated)(total_of)


def total_of(source: Pinned, into: Target) -> WriteResult: ...


@pytest.mark.parametrize("words", LEAVING)
@pytest.mark.parametrize("layer", ["export", "serving"])
def test_a_table_for_others_states_its_classes(words, layer):
    """When it is declared, so before anything is written; other layers are not asked."""
    with pytest.raises(ConfigError) as refused:
        leaving(LEAVING[words], f"{layer}/x")
    assert words.replace("export/x", f"{layer}/x") in str(refused.value)
    assert leaving(LEAVING[words], "gold/x").spec.name == "gold/x"


def test_a_table_for_others_is_fed_by_classified_columns_alone():
    """A column that is new in an upstream declaration stops the export until somebody classifies it."""
    assert leaving({}).spec.name == "export/x"
    new = TableSpec("silver/known", {**KNOWN, "phone": Column("STRING")}, partition_by=("day",))
    with pytest.raises(
        ConfigError, match=r"silver/known: columns \['phone'\] must have a class before they come to exp"
    ):
        leaving({}, source=new)


def test_a_person_leaves_for_a_purpose():
    """Stated in the declaration."""
    columns = {"id": Column("STRING", classification="personal", purpose=("research",))}
    assert leaving(columns).spec.columns["id"].purpose == ("research",)
