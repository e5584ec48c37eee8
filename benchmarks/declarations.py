"""Tables declared in YAML against the same tables in Python: loading a location, and computing one partition.

Ours, of the load: a project with a folder and a ``defs.yaml`` for each of 200 tables, loaded as a location loads them,
with all checks of the declarations against each other. Theirs: the same 200 tables as a Python module each, loaded by
the same call. Each execution is a fresh process that has imported Dagster, Spark and the library before the time is
taken; both sides must give the same assets.

Ours and theirs, of the partition: one table, declared in a document and in Python, over the same upstream table and in
the same session. Rows and commit records must be equal in every round, and Spark's jobs and tasks. The ratio of CPU is
taken from what this process used in its best round: the JVM's share of equal work varies by more than the goal.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import date
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks import data
from benchmarks.measure import Counters, Row, Sample, Side, compare, interleave
from dedp_assets.components.chains.declaring import declare, draft
from dedp_assets.components.yaml.documents import documents
from dedp_assets.graph.declare import LakeTable
from dedp_assets.graph.resources.clock import Clock
from dedp_assets.graph.resources.environments import CHECKOUT, child_environment, settings
from dedp_assets.graph.resources.lake import Lake
from dedp_assets.graph.resources.spark import SparkEngine
from dedp_assets.patterns.idempotency.data_overwrite import overwrite_partition

__all__ = ["load_once", "run", "write_project"]

_GOAL, _GOAL_OF_A_PARTITION = 2.0, 1.02
_VISITS = 2_000
_IN_PYTHON = "CPU s in Python"
_WHY = "jobs and tasks are equal; CPU in Python is {:.3f} s and {:.3f} s in the best rounds"
_QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
_PACKAGE = "declared_tables"
_TABLE = """\
type: dedp_assets.components.TableComponent
attributes:
  table:
    name: gold/{name}
    comment: One row per page and day.
    columns:
      event_date: {{type: DATE, comment: UTC day, required: true}}
      page: {{type: STRING, comment: path that was visited, required: true}}
      views: {{type: BIGINT, comment: visits of the page, required: true}}
    partition_by: [event_date]
    checks: {{views_are_there: views > 0}}
  reads:
    tables:
      silver/visits: {{same: {{column: event_date}}}}
  runs:
    partitions: {{daily: {{start: 2026-01-05}}}}
    when: {{nightly: {{cron: "0 2 * * *", lookback: 14}}}}
  gates:
    audits:
      - {{name: pages_are_many, of: written, warn_below: 10}}
      - {{name: visits_are_counted, of: views, sql: sum(views), fail_below: 0}}
    if_empty: Warns of a day without visits.
  about:
    owner: team:web-analytics
    used_by: dashboards
    fresh_hours: 26
    derived: {{views: [visit_id]}}
  code_version: "1"
  description: Count the visits of each page of a day.
  steps:
    - error_management.windowed_deduplicator: {{keys: [visit_id], order_by: [event_time]}}
    - tally: {{identity: [visit_id]}}
    - sql: SELECT event_date, page, count(*) AS views FROM {{rows}} GROUP BY event_date, page
    - account: {{represented: views}}
    - quality.audit_write_audit_publish: {{allow_empty: true}}
"""
_MODULE = '''\
"""Pages of a day."""

from datetime import date

from {package}.upstream import VISITS
from dedp_assets.graph.declare import About, Gates, Nightly, Pinned, Reads, Runs, Target, lake_table, same
from dedp_assets.graph.declare.partitions import daily
from dedp_assets.patterns.core.audits import Audit
from dedp_assets.patterns.core.results import WriteResult
from dedp_assets.patterns.core.rows import tally
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.error_management.windowed_deduplicator import deduplicate
from dedp_assets.patterns.quality.audit_write_audit_publish import audit_write_audit_publish

PAGES = TableSpec(
    "gold/{name}",
    {{
        "event_date": Column("DATE", "UTC day", required=True),
        "page": Column("STRING", "path that was visited", required=True),
        "views": Column("BIGINT", "visits of the page", required=True),
    }},
    partition_by=("event_date",),
    checks={{"views_are_there": "views > 0"}},
    comment="One row per page and day.",
)
QUERY = "SELECT event_date, page, count(*) AS views FROM {{rows}} GROUP BY event_date, page"


@lake_table(
    PAGES,
    reads=Reads({{VISITS: same("event_date")}}),
    runs=Runs(daily(date(2026, 1, 5)), Nightly("0 2 * * *", lookback=14)),
    gates=Gates(
        (
            Audit(name="pages_are_many", of="written", warn_below=10),
            Audit(name="visits_are_counted", of="views", sql="sum(views)", fail_below=0),
        ),
        if_empty="Warns of a day without visits.",
    ),
    about=About(owner="team:web-analytics", used_by="dashboards", fresh_hours=26, derived={{"views": ["visit_id"]}}),
    patterns=[audit_write_audit_publish, deduplicate],
    code_version="1",
)
def {name}(visits: Pinned, into: Target) -> WriteResult:
    """Count the visits of each page of a day."""
    split = deduplicate(visits.rows(), keys=["visit_id"], order_by=["event_time"])
    rows, seen = tally(split, identity=["visit_id"])
    counted = rows.sparkSession.sql(QUERY, rows=rows)
    return audit_write_audit_publish(counted, into.reading(seen, represented="views"), allow_empty=True)
'''
_UPSTREAM = '''\
"""The table that all read."""

from dedp_assets.graph.declare import About, Inputs, OnRequest, Reads, Request, Runs, Target, lake_table
from dedp_assets.graph.declare.partitions import daily
from dedp_assets.patterns.core.results import WriteResult
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.idempotency.data_overwrite import overwrite_partition

VISITS = TableSpec(
    "silver/visits",
    {
        "visit_id": Column("STRING", "identity", required=True),
        "event_time": Column("TIMESTAMP", "when"),
        "page": Column("STRING", "path"),
        "event_date": Column("DATE", "UTC day", required=True),
    },
    partition_by=("event_date",),
)


def find(request: Request) -> Inputs:
    """Find nothing."""
    return Inputs({})


@lake_table(
    VISITS, reads=Reads(inputs=find), runs=Runs(daily(), OnRequest()), about=About("team:web-analytics"),
    patterns=[overwrite_partition], code_version="1",
)
def visits(into: Target) -> WriteResult:
    """Refuse to run: the benchmark loads this table's declaration, and writes the rows by itself."""
    raise AssertionError("this table is not computed")
'''


def run(*, quick: bool) -> list[Row]:
    """Measure the load, then the partition."""
    count, rounds, warm_up = (2, 1, 0) if quick else (200, 5, 1)
    roots = {kind: settings().home / kind for kind in ("yaml", "python")}
    for kind, root in roots.items():
        write_project(root, count, in_yaml=kind == "yaml")
    samples: dict[str, list[Sample]] = {kind: [] for kind in roots}
    for number in range(warm_up + rounds):
        order = list(roots) if number % 2 == 0 else list(roots)[::-1]
        seen = {kind: _load(roots[kind]) for kind in order}
        assert seen["yaml"][1] == seen["python"][1]
        for kind in roots if number >= warm_up else ():
            samples[kind].append(seen[kind][0])
    load = compare(f"load of {count} tables", Side("YAML", samples["yaml"]), Side("Python", samples["python"]))
    reached = load.ratios["cpu"][0]
    load = replace(load, goal=f"<= {_GOAL:g}x of CPU", reached=f"{reached:.2f}x", met=reached <= _GOAL)
    return [load, _partition(roots, rounds=1 if quick else 20, warm_up=4 * warm_up)]


def write_project(root: Path, count: int, *, in_yaml: bool) -> None:
    """Write a project with an upstream table in Python, and tables of a kind."""
    package = root / _PACKAGE
    (package / "defs").mkdir(parents=True)
    for folder in (package, package / "defs"):
        (folder / "__init__.py").touch()
    (package / "upstream.py").write_text(_UPSTREAM)
    (package / "defs" / "visits.py").write_text(f"from {_PACKAGE}.upstream import visits\n__all__ = ['visits']\n")
    for number in range(count):
        name = f"pages_{number}"
        if in_yaml:
            (package / "defs" / name).mkdir()
            (package / "defs" / name / "defs.yaml").write_text(_TABLE.format(name=name))
        else:
            (package / "defs" / f"{name}.py").write_text(_MODULE.format(name=name, package=_PACKAGE))
    project = f'[tool.dg]\ndirectory_type = "project"\n[tool.dg.project]\nroot_module = "{_PACKAGE}"\n'
    (root / "pyproject.toml").write_text(project)


def load_once(root: str) -> None:
    """Load a project in this process; print the CPU seconds, the seconds, and the number of assets and checks."""
    from dedp_assets.components.defining import definitions_of
    from dedp_assets.components.loading import load
    from dedp_assets.graph.declare import declared

    sys.path.insert(0, root)
    cpu, wall = time.process_time(), time.perf_counter()
    loaded = load(Path(root))
    package = __import__(f"{_PACKAGE}.defs").defs
    made = definitions_of(declared(package))
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    assert not loaded.faults, loaded.faults
    names = sorted(table.spec.name for table in [*declared(package), *loaded.tables])
    shown = [len([*(made.assets or ()), *(loaded.definitions.assets or ())]), len(names)]
    print(json.dumps({"cpu": cpu, "wall": wall, "shown": shown, "names": names}))


def _load(root: Path) -> tuple[Sample, Any]:
    text = f"from benchmarks.declarations import load_once; load_once({str(root)!r})"
    environment = child_environment({"PYTHONWARNINGS": "ignore"})
    done = subprocess.run(
        [sys.executable, "-c", text], env=environment, cwd=CHECKOUT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    return Sample(found["cpu"], found["wall"]), (found["shown"], found["names"])


def _partition(roots: Mapping[str, Path], *, rounds: int, warm_up: int) -> Row:
    """Compute days of a table of each kind, over the same upstream rows in one session."""
    import dagster as dg

    tables = _declared(roots)
    lakes = _lakes(warm_up + rounds)

    def work(kind: str) -> Callable[[int], Mapping[str, float]]:
        def compute(number: int) -> Mapping[str, float]:
            before = time.process_time()
            resources = {"lake": lakes[kind], "clock": Clock(fixed="2026-03-01T12:00:00+00:00")}
            with dg.DagsterInstance.ephemeral() as instance:
                asset = tables[kind].definition()
                on = data.day(number)
                done = dg.materialize(
                    [asset], partition_key=on, resources=resources, instance=instance, run_config=_QUIET
                )
            used = time.process_time() - before
            assert done.success
            seen.setdefault(number, []).append(_commit(lakes[kind], data.day(number)))
            return {_IN_PYTHON: used}

        return compute

    seen: dict[int, list[Any]] = {}
    counters = Counters(SparkEngine().session)
    sides = interleave({kind: work(kind) for kind in tables}, rounds=rounds, warm_up=warm_up, counters=counters)
    assert all(first == second for first, second in seen.values()), seen
    yaml, python = (side.counters() for side in sides)
    assert (yaml["jobs"], yaml["tasks"]) == (python["jobs"], python["tasks"])
    least = [min(sample.counters[_IN_PYTHON] for sample in side.samples) for side in sides]
    ratio = 1 + (least[0] - least[1]) / sides[1].middle("cpu")
    goal = f"<= {_GOAL_OF_A_PARTITION:g}x of CPU"
    row = compare("one partition of a table", *sides, why=_WHY.format(*least))
    return replace(row, goal=goal, reached=f"{ratio:.3f}x", met=ratio <= _GOAL_OF_A_PARTITION)


def _declared(roots: Mapping[str, Path]) -> dict[str, LakeTable[...]]:
    """The first table of each project."""
    sys.path.insert(0, str(roots["python"]))
    module = import_module(f"{_PACKAGE}.defs.pages_0")
    (document,) = documents((roots["yaml"] / _PACKAGE / "defs/pages_0/defs.yaml").read_text(), "defs.yaml")
    table, faults = declare(draft(document), {module.VISITS.name: module.VISITS})
    assert table is not None, faults
    return {"yaml": table, "python": module.pages_0}


def _lakes(days: int) -> dict[str, Lake]:
    """A lake for each side, with the same visits of some days."""
    found = {}
    engine = SparkEngine()
    for kind in ("yaml", "python"):
        found[kind] = Lake(root=str(settings().home / f"lake-{kind}"), engine=engine)
        visits = found[kind].table(import_module(f"{_PACKAGE}.upstream").VISITS)
        for number in range(days):
            rows = engine.session.range(_VISITS).selectExpr(
                "concat('v', id) AS visit_id",
                f"timestamp('{data.day(number)} 10:00:00') + make_interval(0, 0, 0, 0, 0, 0, id % 3600) AS event_time",
                "concat('/', id % 50) AS page",
                f"DATE '{data.day(number)}' AS event_date",
            )
            overwrite_partition(rows, visits.target("before", partition={"event_date": data.day(number)}))
    return found


def _commit(lake: Lake, day: str) -> Any:  # noqa: ANN401 - to compare
    """What the newest commit of a day says, and the day's rows."""
    record = lake.ledger("gold/pages_0").latest({"event_date": day}).record  # type: ignore[union-attr]
    assert record is not None
    of_day = [("event_date", "=", date.fromisoformat(day))]
    rows = lake.delta("gold/pages_0").to_pyarrow_table(filters=of_day).to_pylist()
    said = [getattr(record, name) for name in ("asset", "partition", "pattern", "verdict", "rows", "inputs")]
    # The version of a table in YAML goes on with a digest of what decides its rows.
    said.append(record.code_version.partition("-")[0])
    return said, sorted(map(str, rows))
