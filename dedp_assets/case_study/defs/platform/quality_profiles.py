"""Profiles of each day of visits by column, judged by the days before."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from dedp_assets.case_study.defs.silver.visits import EDITION, VISITS
from dedp_assets.graph.declare import (
    About,
    Every,
    Gates,
    Inputs,
    Pinned,
    Reads,
    Request,
    Runs,
    Step,
    lake_table,
    whole,
)
from dedp_assets.graph.declare.defaults import EARLIER, USUAL_PROFILES
from dedp_assets.patterns import TableSpec, Target, WriteResult
from dedp_assets.patterns.core.measuring.measurements import Measured
from dedp_assets.patterns.core.measuring.profiles import Profile
from dedp_assets.patterns.core.measuring.usual import reach
from dedp_assets.patterns.delta import Table
from dedp_assets.patterns.quality.offline_observer import (
    PROFILE,
    PROFILED_BY,
    ProfileSeries,
    judge_profile,
    observe_offline,
)

QUALITY_PROFILES = TableSpec(
    "platform/quality_profiles",
    PROFILE,
    partition_by=PROFILED_BY,
    comment="One row per observation, day of visits and column: counts, bounds and mergeable sketches.",
)
REPORT = "profiles_are_usual"
OF_THE_DAY = ("visit_id", "event_time", "event_date", "source_file", "line_number", "landed_on")
"""Columns with new values every day, such as times and ids, which are left out of the judgement."""
DRIFT = "distribution."
NEWEST = """
    SELECT data_partition, max(table_version), max_by(observation, table_version) FROM {profiles}
    GROUP BY data_partition
"""
_OF_VALUES = (
    "rows", "nulls", "nans", "infinities", "empties", "minimum", "maximum", "shortest", "longest", "sampled",
    "distinct", "quantiles", "values", "shapes",
)  # fmt: skip
REPORTS = {
    REPORT: f"Warns if NULL, distinct values, categories, shares or the distribution of a column are not as in the "
    f"{EARLIER} days before."
}
DERIVED: dict[str, Sequence[str]] = {
    **dict.fromkeys(_OF_VALUES, EDITION.readable(VISITS.columns)),
    "data_partition": ["event_date"],
    "status": [],
}
_Observation = tuple[int, str]
"""Observed version of the table, and name of the observation."""


def judged_by(request: Request) -> Inputs:
    """Name the run among the inputs: each run judges, also the one after a crash between profile and judgement."""
    return Inputs({"judged by": request.run_id}, found=request.at)


@lake_table(
    QUALITY_PROFILES,
    reads=Reads({VISITS: whole()}, inputs=judged_by),
    runs=Runs(
        when=Every(
            "20 4 * * *",
            name="profiles_of_visits_every_night",
            description="At 04:20 UTC, the days of visits that changed since the last profile.",
        ),
        job="profile_visits",
    ),
    gates=Gates(reports=REPORTS),
    about=About(
        used_by="whoever asks since when a column is as it is",
        fresh_hours=28,
        derived=DERIVED,
        figures={
            "greatest_drift": "greatest drift [PSI]",
            "troubles": "unusual figures",
            "judged_days": "judged days",
        },
        unchecked={"completeness": "each run observes whatever changed since the last one"},
    ),
    patterns=[observe_offline, judge_profile],
)
def quality_profiles(step: Step, visits: Pinned, into: Target) -> WriteResult:
    """Profile the changed days of visits, and judge each day by the days before."""
    written = observe_offline(visits.table, into, version=visits.version)
    days = [*_judged(into.table, step.inputs.found)]
    found = sum(days, Measured())
    drifts = [each.value for each in found.measurements if each.metric.startswith(DRIFT) and each.value is not None]
    unusual = Measured(found.troubles).finding(REPORT).figures
    verdict = replace(found.finding(REPORT), severity="warn", figures=unusual)
    figures = {"greatest_drift": max(drifts, default=None), "troubles": len(found.troubles), "judged_days": len(days)}
    return replace(written, findings=(*written.findings, verdict), figures={**written.figures, **figures})


def _judged(profiles: Table, now: datetime) -> Iterator[Measured]:
    """Judge each day of the newest observation by the newest profiles of the days before."""
    newest = _newest(profiles)
    observed = sorted(day for day, observation in newest.items() if observation == max(newest.values()))
    before = {day: sorted(other for other in newest if other < day)[-reach(EARLIER) :] for day in observed}
    wanted = {*observed, *(other for days in before.values() for other in days)}
    known, series = _profiles(profiles, {day: newest[day] for day in wanted}), ProfileSeries(USUAL_PROFILES)
    for day in sorted(wanted):
        measured = series.judge(known[day], now, table=VISITS.name, partition=day)
        if day in observed:
            yield measured


def _newest(profiles: Table) -> dict[str, _Observation]:
    """Return the newest observation of each profiled day."""
    rows = profiles.read({"table_name": VISITS.name})
    found = profiles.session.sql(NEWEST, profiles=rows).collect()
    return {day: (version, observation) for day, version, observation in found}


def _profiles(profiles: Table, observed: Mapping[str, _Observation]) -> dict[str, Profile]:
    """Read the profiles of days by observation, of the judged columns."""
    names = {name for _, name in observed.values()}
    found = defaultdict(list)
    for row in profiles.read(*({"table_name": VISITS.name, "observation": name} for name in sorted(names))).collect():
        day = row["data_partition"]
        if day in observed and observed[day][1] == row["observation"] and row["column"] not in OF_THE_DAY:
            found[day].append(row.asDict())
    return {day: Profile.of_rows(found[day]) for day in observed}
