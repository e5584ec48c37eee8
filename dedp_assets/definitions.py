"""The composition root: what `defs` declares, what wakes it as a whole, and the resources. It names no table."""

from __future__ import annotations

import warnings
from pathlib import Path

import dagster as dg

# Partitioned checks are a preview and some asset arguments beta; said once here instead of at every load.
warnings.filterwarnings("ignore", category=dg.BetaWarning)
warnings.filterwarnings("ignore", category=dg.PreviewWarning)

import dedp_assets.defs  # noqa: E402
from dedp_assets.graph.checks.completeness import completeness_checks  # noqa: E402
from dedp_assets.graph.checks.stored import stored_checks  # noqa: E402
from dedp_assets.graph.declare import declared, declared_jobs, sources, starting  # noqa: E402
from dedp_assets.graph.declare.replays import replay_asset  # noqa: E402
from resources.clock import Clock  # noqa: E402
from resources.environments import settings  # noqa: E402
from resources.kafka import Kafka  # noqa: E402
from resources.lake import Lake  # noqa: E402
from resources.landing import Landing  # noqa: E402
from resources.postgres import OperationalDatabase  # noqa: E402
from resources.secrets import Secrets  # noqa: E402
from resources.services import Services  # noqa: E402
from resources.spark import SparkEngine  # noqa: E402
from sensors.external_trigger import events_arrived  # noqa: E402
from sensors.reconciler import reconcilers  # noqa: E402
from sensors.replay import dead_letters_fixed  # noqa: E402
from sensors.small_files import files_scattered  # noqa: E402

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
    chosen = settings()
    engine = SparkEngine(remote=chosen.remote or "")
    modules = dg.load_from_defs_folder(path_within_project=Path(__file__).parent)
    tables = declared(dedp_assets.defs)
    made = starting([*tables, *declared_jobs(dedp_assets.defs)])
    jobs = list(made.jobs or ())
    return dg.Definitions.merge(
        modules,
        made,
        dg.Definitions(
            assets=[
                *(table.definition() for table in tables),
                *(replay_asset(table, table.runs.replay) for table in tables if table.runs.replay),
                *(source.spec() for source in sources(tables)),
            ],
            asset_checks=[*(stored_checks(table) for table in tables), completeness_checks(tables)],
            sensors=[
                *reconcilers(tables, jobs),
                dead_letters_fixed(tables),
                events_arrived(tables, jobs),
                files_scattered,
            ],
            resources={
                "clock": Clock(),
                "engine": engine,
                "kafka": Kafka(bootstrap=chosen.kafka or "", topic=chosen.kafka_topic),
                "kafka_ads": Kafka(bootstrap=chosen.kafka or "", topic=chosen.ads_topic),
                "lake": Lake(root=str(chosen.lakehouse), engine=engine),
                "landing": Landing(root=str(chosen.landing)),
                "operational": OperationalDatabase(),
                "secrets": Secrets(),
                "services": Services(url=chosen.services or ""),
            },
            loggers={"console": CONSOLE},
            # One process per run: Spark is the parallel part, and a process per step costs more than most steps.
            executor=dg.in_process_executor,
        ),
    )
