"""Pages of the status page made by hand, with troubles of every kind."""

from __future__ import annotations

from datetime import timedelta

from dedp_assets.graph.reconcile.described_plans import PlanSection
from dedp_assets.laptop.status_page.model import (
    Affected,
    Cell,
    CommitRow,
    Details,
    Page,
    Point,
    ShownTrouble,
    Spending,
    TableRow,
    worst_first,
)
from tests.helpers import NOW

DAYS = [(NOW.date() - timedelta(days=30 - number)).isoformat() for number in range(30)]
GOLD = ("gold/daily_visitors", "gold/visits_cube", "gold/sessions")
USED = ("dashboards of marketing (gold/sessions)",)
TROUBLES = worst_first(
    [
        ShownTrouble(
            kind="refused",
            table="silver/visits",
            partition=DAYS[-2],
            reason=f"20 of 40 records are torn; `dedp approve silver/visits {DAYS[-2]}` overrules the audit",
            since=NOW - timedelta(hours=3, minutes=20),
            command=f"dedp approve silver/visits {DAYS[-2]}",
            affected=Affected(GOLD[:2], (*GOLD[2:], "gold/visits_cube_weekly"), USED),
        ),
        ShownTrouble(
            kind="late",
            table="bronze/visits",
            severity="critical",
            figure="184 min",
            limit="at most 60 min",
            reason="nothing has arrived since the delivery of 06:00; at this hour 12 files are usual",
            since=NOW - timedelta(hours=3),
            command="dedp status bronze/visits",
            affected=Affected(("silver/visits",), GOLD, USED),
        ),
        ShownTrouble(
            kind="skewed",
            table="silver/users",
            partition=DAYS[-1],
            figure="412 rows",
            limit="at least 9,000 rows",
            reason="a twentieth of the rows of the days before",
            since=NOW - timedelta(days=1, hours=4),
            command="dedp status silver/users",
        ),
        ShownTrouble(
            kind="lagging",
            table="silver/visits_enriched",
            figure="7,400 s",
            limit="at most 3,600 s",
            reason="is behind bronze/visits by more than an hour",
            since=NOW - timedelta(hours=2),
            command="dedp status silver/visits_enriched",
            explained_by="bronze/visits",
        ),
        ShownTrouble(
            kind="over budget",
            table="gold/visits_cube",
            figure="1,260 s",
            limit="at most 600 s",
            reason="the cost of the day is twice that of the week before",
            since=NOW - timedelta(minutes=40),
            command="dedp cost gold/visits_cube",
            affected=Affected(("gold/visits_cube_weekly",)),
        ),
        ShownTrouble(
            kind="stale",
            table="bronze/devices",
            figure="31 h",
            limit="26 h",
            reason=f"the newest complete partition is {DAYS[-3]}",
            since=NOW - timedelta(hours=5),
            command="dedp status bronze/devices",
        ),
        ShownTrouble(
            kind="missing",
            table="silver/visits",
            partition=DAYS[-1],
            severity="info",
            reason="bronze/visits changed at version 31; the reconciler asks for it",
            command="dedp status silver/visits",
        ),
    ]
)  # fmt: skip
NOTES = {
    4: ("partial", "published with a warning of an audit"),
    15: ("empty", "nothing was written"),
    22: ("late", "bronze/visits changed at version 31"),
    28: ("refused", "dead_letters_are_few: 20 of 40 records are torn"),
    29: ("missing", "bronze/visits changed at version 31; the reconciler asks for it"),
}


def strip(marks=()):
    """Thirty days, some of them with another state than ok."""
    cells = []
    for number, day in enumerate(DAYS):
        state, note = NOTES[number] if number in marks else ("ok", "")
        rows = None if state in ("empty", "missing", "refused") else 9_000 + 613 * (number * 7 % 13)
        cells.append(Cell(day, state, rows, note))
    return tuple(cells)


def table(name, *, marks=(), verdict="ok", troubles=0, plain=False, **more):
    """A table with thirty days of rows and cost, or without partitions."""
    cells = () if plain else strip(marks)
    rows = tuple(Point(cell.key, cell.rows) for cell in cells if cell.rows is not None)
    return TableRow(
        name=name,
        owner="team:web-analytics",
        verdict=verdict,
        newest="" if plain else max((cell.key for cell in cells if cell.rows), default=""),
        written_at=NOW - timedelta(hours=2),
        strip=cells,
        rows=rows or tuple(Point(f"version {number}", 40 + number) for number in range(12)),
        seconds=tuple(Point(day, 3 + number * 5 % 7) for number, day in enumerate(DAYS)),
        troubles=troubles,
        **more,
    )


TABLES = (
    table("bronze/devices", verdict="warning", troubles=1),
    table("bronze/users", plain=True),
    table("bronze/visits", verdict="critical", troubles=1, downstream=("silver/visits",)),
    table("silver/users", marks={4}, verdict="warning", troubles=1),
    table(
        "silver/visits", marks=NOTES, verdict="warning", troubles=1, upstream=("bronze/visits",), downstream=GOLD[:2],
        used_by="analysts",
    ),
    table("silver/visits_enriched", marks={22}, verdict="warning", troubles=1),
    table("gold/daily_visitors", marks={15}, verdict="affected"),
    table("gold/sessions", verdict="affected"),
    table("gold/visits_cube", verdict="warning", troubles=1),
    TableRow(name="gold/visits_cube_weekly", owner="team:web-analytics", verdict="empty"),
)  # fmt: skip
PAGE = Page(NOW, TROUBLES, TABLES, (), "http://127.0.0.1:3000")


def details(name, page=PAGE):
    """The page of one table."""
    row = page.table(name)
    if row is None:
        return None
    commits = tuple(
        CommitRow(
            version=40 - number,
            at=NOW - timedelta(hours=number),
            partition=DAYS[-1 - number],
            operation="WRITE",
            verdict="passed",
            cause="late-data",
            run_id=f"{number:08d}-0000",
            rows=9_000,
            seconds=2.5,
        )
        for number in range(25)
    )
    return Details(
        made_at=page.made_at,
        table=row,
        troubles=tuple(each for each in page.troubles if each.table == name or name in each.affected.tables),
        cells=tuple(reversed(row.strip)),
        written={each.partition: each for each in commits},
        spending=tuple(Spending(day, 3, 41.2, 12_400_000) for day in reversed(DAYS[-7:])),
        commits=commits,
        notices=page.notices,
        web=page.web,
    )


HEADINGS = ("wave", "run", "tables", "partitions", "why", "after run", "seconds", "reads")


class Source:
    """A maker of one page, for a server under test."""

    def __init__(self, page=PAGE):
        self.made, self.shown = 0, page

    def page(self, now):
        assert now.tzinfo
        self.made += 1
        return self.shown

    def details(self, page, name):
        return details(name, page)

    def plan(self, now):
        assert now.tzinfo
        return Plan()


class Plan:
    """A plan of one run, with texts of strangers in it."""

    def lines(self):
        row = ("1", "1", "silver/visits", "2026-01-05", "behind: <b>x</b> & `dedp run`", "", "3 s", "5 files")
        return ["1 run in 1 wave, 1 partition.", PlanSection("Runs", HEADINGS, [row], figures=2)]

    def document(self):
        return {"runs": [{"run": 1, "tables": ["silver/visits"]}]}
