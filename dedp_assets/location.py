"""Definitions of a code location: declared tables in YAML and Python, resources, sensors."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import dagster as dg

# Partitioned checks are a preview and some asset arguments beta; said once here instead of at every load.
warnings.filterwarnings("ignore", category=dg.BetaWarning)
warnings.filterwarnings("ignore", category=dg.PreviewWarning)

from dedp_assets.components.checking import checked, files_below  # noqa: E402
from dedp_assets.components.defining import all_refused, definitions_of  # noqa: E402
from dedp_assets.components.loading import load  # noqa: E402
from dedp_assets.components.modules import in_modules, tree_of  # noqa: E402
from dedp_assets.graph.catalogue.contracts import ContractFolder, with_contracts  # noqa: E402
from dedp_assets.graph.checks.catching_up import catch_up_checks  # noqa: E402
from dedp_assets.graph.checks.completeness import completeness_checks  # noqa: E402
from dedp_assets.graph.declare import LakeJob, LakeTable, OnMarkers, sources, starting  # noqa: E402
from dedp_assets.graph.erasure.going_on import erasure_definitions, names_persons  # noqa: E402
from dedp_assets.graph.resources.alerting import Alerting  # noqa: E402
from dedp_assets.graph.resources.clock import Clock  # noqa: E402
from dedp_assets.graph.resources.environments import settings  # noqa: E402
from dedp_assets.graph.resources.journal import Journal  # noqa: E402
from dedp_assets.graph.resources.lake import lake_of  # noqa: E402
from dedp_assets.graph.resources.landing import Landing  # noqa: E402
from dedp_assets.graph.resources.spark import SparkEngine  # noqa: E402
from dedp_assets.graph.run.waiting import mend_waiting  # noqa: E402
from dedp_assets.graph.sensors.alerts import alerts  # noqa: E402
from dedp_assets.graph.sensors.erasures import erasures_requested  # noqa: E402
from dedp_assets.graph.sensors.external_trigger import events_arrived  # noqa: E402
from dedp_assets.graph.sensors.lineage import lineage  # noqa: E402
from dedp_assets.graph.sensors.markers import markers_finished  # noqa: E402
from dedp_assets.graph.sensors.reconciler import reconcilers  # noqa: E402
from dedp_assets.graph.sensors.replay import dead_letters_fixed  # noqa: E402
from dedp_assets.graph.systems.identities import Identities  # noqa: E402
from dedp_assets.graph.systems.secrets import Secrets  # noqa: E402

__all__ = [
    "lake_contracts", "lake_declarations", "lake_definitions", "lake_jobs", "lake_resources", "lake_sensors",
    "lake_tables", "package_definitions",
]  # fmt: skip

_CONTRACTS = "contracts"

mend_waiting()  # whoever executes a run loads its definitions first

Sensors = Callable[[Sequence[LakeTable[...]], Sequence[Any]], Sequence[dg.SensorDefinition]]

# On the terminal only what needs somebody; Dagster's event log keeps everything.
CONSOLE = dg.LoggerDefinition(
    dg.colored_console_logger.logger_fn,
    config_schema={
        "log_level": dg.Field(str, is_required=False, default_value="WARNING"),
        "name": dg.Field(str, is_required=False, default_value="dagster"),
    },
    description="Warnings and errors in colour.",
)


def lake_resources() -> dict[str, object]:
    """Make the resources that every declared table needs, from the settings in the environment."""
    chosen = settings()
    engine = SparkEngine(remote=chosen.remote or "")
    return {
        "alerts": Alerting(),
        "clock": Clock(),
        "engine": engine,
        "identities": Identities(),
        "journal": Journal(folder=str(chosen.home / "measurements")),
        "lake": lake_of(chosen, engine),
        "landing": Landing(root=chosen.landing_zone),
        "secrets": Secrets(),
    }


def lake_sensors(tables: Sequence[LakeTable[...]], jobs: Sequence[Any]) -> list[dg.SensorDefinition]:
    """Make the sensors over declared tables: staleness, deliveries, replays, events, alerts, lineage."""
    made = reconcilers(tables, jobs)
    if any(table.runs.replay for table in tables):
        made.append(dead_letters_fixed(tables))
    if any(table.started_by for table in tables):
        made.append(events_arrived(tables, jobs))
    if any(table.runs.of(OnMarkers) for table in tables):
        made.append(markers_finished(tables, jobs))
    if settings().alerts.channels or any(not table.about.expects.is_empty for table in tables):
        made.append(alerts(tables))
    if url := settings().lineage_url:
        made.append(lineage(url))
    return made


def lake_definitions(
    path_within_project: Path, *, resources: Mapping[str, object] | None = None, sensors: Sensors = lake_sensors
) -> dg.Definitions:
    """Load the definitions of a project: everything below the folder ``defs``, ready to run.

    Args:
        path_within_project: a path in the project, such as the folder of the module that calls.
        resources: further resources by name, or others in place of those of :func:`lake_resources`.
        sensors: makes the sensors, of the declared tables and of all jobs.

    Example, a whole ``definitions.py``::

        @dg.definitions
        def defs() -> dg.Definitions:
            return lake_definitions(Path(__file__).parent)
    """
    resources = {**lake_resources(), **(resources or {})}
    loaded = load(path_within_project, resources)
    in_python, jobs = loaded.in_python.tables, loaded.in_python.jobs
    tables = [*in_python, *loaded.tables]
    # Of a table in YAML, the job as Dagster loaded it: it notes there where the table is declared.
    asked = [*(loaded.definitions.jobs or ()), *(starting([*in_python, *jobs]).jobs or ())]
    wired = _wiring(tables, sensors(tables, asked), resources)
    erasing = _erasing(tables, jobs)
    merged = dg.Definitions.merge(loaded.definitions, definitions_of(in_python), starting(jobs), wired, erasing)
    return with_contracts(merged, lake_contracts(path_within_project))


def package_definitions(
    package: ModuleType, *, resources: Mapping[str, object] | None = None, sensors: Sensors = lake_sensors
) -> dg.Definitions:
    """Load the definitions of a further code location: the tables and jobs in Python below a package.

    Args:
        package: the package with the declarations.
        resources: as :func:`lake_definitions`.
        sensors: as :func:`lake_definitions`.
    """
    resources = {**lake_resources(), **(resources or {})}
    found = in_modules(package, resources)
    tables, jobs = found.tables, found.jobs
    started = starting([*tables, *jobs])
    wired = _wiring(tables, sensors(tables, [*(started.jobs or ())]), resources)
    folder = ContractFolder(Path(package.__path__[0]) / _CONTRACTS)
    faulty = all_refused(found.refused.values())
    return with_contracts(dg.Definitions.merge(definitions_of(tables), starting(jobs), faulty, wired), folder)


def _wiring(
    tables: Sequence[LakeTable[...]],
    sensors: Sequence[dg.SensorDefinition],
    resources: Mapping[str, object],
) -> dg.Definitions:
    """Make the definitions of sources, checks, sensors, resources, loggers and the executor."""
    return dg.Definitions(
        assets=[source.spec() for source in sources(tables)],
        asset_checks=[completeness_checks(tables), *catch_up_checks(tables)],
        sensors=sensors,
        resources=resources,
        loggers={"console": CONSOLE},
        # One process per run: Spark is the parallel part, and a process per step costs more than most steps.
        executor=dg.in_process_executor,
    )


def _erasing(tables: Sequence[LakeTable[...]], jobs: Sequence[LakeJob]) -> dg.Definitions:
    """Make the definitions that plan and carry out requests to erase persons, if a table names persons."""
    if not names_persons(tables):
        return dg.Definitions()
    made = erasure_definitions(tables, jobs)
    return dg.Definitions.merge(made, dg.Definitions(sensors=[erasures_requested()]))


def lake_contracts(path_within_project: Path) -> ContractFolder:
    """Return the folder with the published contracts of a project: ``contracts``, among the definitions."""
    return ContractFolder(tree_of(path_within_project).defs_module_path / _CONTRACTS)


def lake_jobs(path_within_project: Path) -> list[LakeJob]:
    """List the jobs that a project declares in Python, without jobs of modules with a fault."""
    return [*in_modules(tree_of(path_within_project).defs_module).jobs]


def lake_tables(path_within_project: Path) -> list[LakeTable[...]]:
    """List the tables that a project declares in Python and YAML; tables with a fault are left out."""
    return lake_declarations(path_within_project)[0]


def lake_declarations(
    path_within_project: Path, resources: Collection[str] | None = None
) -> tuple[list[LakeTable[...]], list[str]]:
    """Return the declared tables of a project, and the faults of declarations in YAML and Python.

    A declaration with a fault is left out.

    Args:
        path_within_project: a path in the project.
        resources: names of the project's resources; ``None`` if nobody knows them.
    """
    tree = tree_of(path_within_project)
    python = in_modules(tree.defs_module, resources)
    found = checked(files_below(tree.defs_module_path), python.tables, python.refused)
    return [*python.tables, *found.tables], [str(fault) for fault in found.faults]
