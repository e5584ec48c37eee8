"""The composition root: declarations of `defs`, sensors over the whole graph, and resources."""

from __future__ import annotations

import warnings
from pathlib import Path

import dagster as dg

# Partitioned checks are a preview and some asset arguments beta; said once here instead of at every load.
warnings.filterwarnings("ignore", category=dg.BetaWarning)
warnings.filterwarnings("ignore", category=dg.PreviewWarning)

import dedp_assets.defs  # noqa: E402
from dedp_assets.components.defining import definitions_of  # noqa: E402
from dedp_assets.components.loading import load  # noqa: E402
from dedp_assets.graph.checks.completeness import completeness_checks  # noqa: E402
from dedp_assets.graph.declare import declared, declared_jobs, sources, starting  # noqa: E402
from resources import resources  # noqa: E402
from sensors import sensors  # noqa: E402

__all__ = ["defs"]


# On the terminal only what needs somebody; Dagster's event log keeps everything.
CONSOLE = dg.LoggerDefinition(
    dg.colored_console_logger.logger_fn,
    config_schema={
        "log_level": dg.Field(str, is_required=False, default_value="WARNING"),
        "name": dg.Field(str, is_required=False, default_value="dagster"),
    },
    description="Warnings and errors in colour.",
)


@dg.definitions
def defs() -> dg.Definitions:
    """Put together everything of this code location."""
    loaded = load(Path(__file__).parent)
    in_python, jobs = declared(dedp_assets.defs), declared_jobs(dedp_assets.defs)
    tables = [*in_python, *loaded.tables]
    return dg.Definitions.merge(
        loaded.definitions,
        definitions_of(in_python),
        starting(jobs),
        dg.Definitions(
            assets=[source.spec() for source in sources(tables)],
            asset_checks=[completeness_checks(tables)],
            sensors=sensors(tables, list(starting([*tables, *jobs]).jobs or ())),
            resources=resources(),
            loggers={"console": CONSOLE},
            # One process per run: Spark is the parallel part, and a process per step costs more than most steps.
            executor=dg.in_process_executor,
        ),
    )
