"""The exported report of visits by country: the last step of its sequence, in versions behind one name."""

from dedp_assets.case_study.defs.gold.country_sequence import COUNTRY_REPORT_STEPS
from dedp_assets.case_study.defs.gold.visits_by_country import VISITS_BY_COUNTRY
from dedp_assets.graph.declare import Gates, Job, Runs, lake_query
from dedp_assets.patterns import TableSpec, load_version, plan_steps

COUNTRY_REPORT = TableSpec(
    "gold/country_report",
    {name: VISITS_BY_COUNTRY.columns[name] for name in ("event_date", "country", "visits", "visitors")},
    comment="One row per day and country. Each export is a version of its own; this table shows the last.",
)
JOB = Job(
    "country_report",
    "The country report of a day in one run: addresses are paid for once, and a failed step runs again alone.",
    " or ".join(f'key:"{step.name}"' for step in COUNTRY_REPORT_STEPS.steps),
)


@lake_query(
    COUNTRY_REPORT,
    reads=[VISITS_BY_COUNTRY],
    sql="SELECT event_date, country, visits, visitors FROM {visits_by_country}",
    write=load_version,
    runs=Runs(sequence=COUNTRY_REPORT_STEPS, job=JOB),
    gates=Gates(if_empty="A report without rows is not shown."),
    about="partners, who get the report of the last export",
    patterns=[plan_steps, load_version],
)
def country_report() -> None:
    """Export all days as a new version, and show the version."""
