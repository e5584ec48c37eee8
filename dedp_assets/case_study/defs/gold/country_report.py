"""The exported report of visits by country: the last step of its sequence, in versions behind one name."""

from dedp_assets.case_study.defs.gold.country_sequence import COUNTRY_REPORT_STEPS
from dedp_assets.case_study.defs.gold.visits_by_country import VISITS_BY_COUNTRY
from dedp_assets.graph.declare import About, Gates, Job, Pinned, Reads, Runs, lake_table, whole
from dedp_assets.patterns import TableSpec, Target, WriteResult, load_version, plan_steps

COUNTRY_REPORT = TableSpec(
    "gold/country_report",
    {name: VISITS_BY_COUNTRY.columns[name] for name in ("event_date", "country", "visits", "visitors")},
    comment="One row per day and country. Each export is a version of its own; this table shows the last.",
)


@lake_table(
    COUNTRY_REPORT,
    reads=Reads({VISITS_BY_COUNTRY: whole()}),
    runs=Runs(
        sequence=COUNTRY_REPORT_STEPS,
        job=Job(
            "country_report",
            "The country report of a day in one run: addresses are paid for once, and a failed step runs again alone.",
            " or ".join(f'key:"{step.name}"' for step in COUNTRY_REPORT_STEPS.steps),
        ),
    ),
    gates=Gates(if_empty="A report without rows is not shown."),
    about=About(
        owner="team:web-analytics",
        used_by="partners, who get the report of the last export",
        unchecked={
            "volume": "as many rows as there are countries",
        },
    ),
    patterns=[plan_steps, load_version],
    code_version="1",
)
def country_report(counted: Pinned, into: Target) -> WriteResult:
    """Export all days as a new version, and show the version."""
    return load_version(counted.rows().select(*COUNTRY_REPORT.columns), into)
