"""Dead letters of all tables: number, error class, status and age."""

from collections.abc import Iterator
from dataclasses import asdict
from datetime import timedelta
from typing import Any

import dagster as dg

from dedp_assets.graph.catalogue.selections import writing
from dedp_assets.graph.checks.letters import LetterCount, count_letters
from dedp_assets.graph.reconcile.table_errors import TableErrors
from dedp_assets.graph.resources.clock import Clock
from dedp_assets.graph.resources.lake import Lake

KEY = ["platform", "dead_letters"]
WAITED_DAYS = 7
"""How long a letter may be open before somebody is told that it waits."""
_COLUMNS = {
    "table": ("string", "table of dead letters"),
    "status": ("string", "open, replayed, given_up by a named person, or unknown where the log was cleaned up"),
    "error_class": ("string", "what is wrong with open letters: a fault of syntax, wrong type, or a broken rule"),
    "letters": ("bigint", "how many"),
    "partitions": ("bigint", "over how many partitions"),
    "oldest": ("string", "when the oldest open letter of these partitions was refused first, UTC"),
}
REPORT = dg.TableSchema([dg.TableColumn(name, kind, meaning) for name, (kind, meaning) in _COLUMNS.items()])


@dg.multi_asset(
    specs=[
        dg.AssetSpec(
            KEY,
            description="Dead letters of every table of the lake, by status and error class, as the tables' logs count "
            "them: no row is read and no engine started.\n\nPatterns at work: Dead-Letter.",
            metadata={"dagster/column_schema": REPORT, "patterns": "error_management.dead_letter"},
            group_name="platform",
            code_version="1",
            owners=["team:platform"],
            tags={"dedp/pattern": "error_management.dead_letter", "dedp/chapter": "error_management"},
            kinds={"spark", "deltalake", "platform"},
        )
    ],
    check_specs=[
        dg.AssetCheckSpec(
            "no_letter_waits_for_long",
            asset=KEY,
            description=f"Warns of tables with a letter that has been open for more than {WAITED_DAYS} days: fix the "
            "code and replay it, let its source send it again, or give it up.",
            blocking=True,
        )
    ],
    name="platform_dead_letters",
    pool="platform_dead_letters",
)
def dead_letters(lake: Lake, clock: Clock) -> Iterator[Any]:
    """Count the dead letters of all tables."""
    errors = TableErrors()
    found, before = list(count_letters(lake, errors)), clock.now() - timedelta(days=WAITED_DAYS)
    late = {each.table: each.oldest for each in found if each.oldest and each.oldest < before}
    yield dg.AssetCheckResult(
        asset_key=KEY,
        check_name="no_letter_waits_for_long",
        passed=not late and not errors,
        severity=dg.AssetCheckSeverity.WARN,
        metadata={**errors, **{table: dg.MetadataValue.timestamp(oldest) for table, oldest in late.items()}},
    )
    yield dg.MaterializeResult(asset_key=KEY, metadata={"letters": _table(found), **_totals(found)})


count_dead_letters = dg.define_asset_job(
    "count_dead_letters",
    selection=writing(dg.AssetSelection.assets(KEY)),
    description="Count the dead letters of every table, by the tables' logs.",
)
dead_letters_every_morning = dg.ScheduleDefinition(
    name="dead_letters_every_morning",
    job=count_dead_letters,
    cron_schedule="30 4 * * *",
    execution_timezone="UTC",
    default_status=dg.DefaultScheduleStatus.RUNNING,
    description="At 04:30 UTC, after the nightly loads: one point a day in the plots.",
)


def _table(found: list[LetterCount]) -> dg.TableMetadataValue:
    rows = [{**asdict(each), "oldest": each.oldest.isoformat() if each.oldest else ""} for each in found]
    return dg.MetadataValue.table([dg.TableRecord(row) for row in rows], REPORT)


def _totals(found: list[LetterCount]) -> dict[str, Any]:
    """Sum the letters by status, and the open letters by table, under names that plot."""
    totals = {f"{s.replace('_', ' ')} [letters]": 0 for s in ("open", "replayed", "given_up")}
    for each in found:
        status = f"{each.status.replace('_', ' ')} [letters]"
        totals[status] = totals.get(status, 0) + each.letters
        if each.status == "open":
            name = f"open in {each.table} [letters]"
            totals[name] = totals.get(name, 0) + each.letters
    oldest = min((each.oldest for each in found if each.oldest), default=None)
    return {**totals, **({"oldest open letter": dg.MetadataValue.timestamp(oldest)} if oldest else {})}
