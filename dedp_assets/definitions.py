"""The composition root: what `defs` holds, with jobs, schedule, sensors and resources."""

from __future__ import annotations

import warnings
from pathlib import Path

import dagster as dg

# Partitioned checks are a preview and some asset arguments beta; said once here instead of at every load.
warnings.filterwarnings("ignore", category=dg.BetaWarning)
warnings.filterwarnings("ignore", category=dg.PreviewWarning)

from dedp_assets import jobs  # noqa: E402
from dedp_assets.schedules import legacy_visits_every_day, maintenance_every_night, visits_every_day  # noqa: E402
from resources.clock import Clock  # noqa: E402
from resources.environments import settings  # noqa: E402
from resources.kafka import Kafka  # noqa: E402
from resources.lake import Lake  # noqa: E402
from resources.landing import Landing  # noqa: E402
from resources.postgres import OperationalDatabase  # noqa: E402
from resources.secrets import Secrets  # noqa: E402
from resources.spark import SparkEngine  # noqa: E402
from sensors.database import users_changed  # noqa: E402
from sensors.external_trigger import events_arrived  # noqa: E402
from sensors.late_data import late_gold, late_visits  # noqa: E402
from sensors.readiness import devices_delivered, visits_delivered  # noqa: E402
from sensors.replay import dead_letters_fixed  # noqa: E402
from sensors.small_files import files_scattered  # noqa: E402
from sensors.topics import visits_streamed  # noqa: E402

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
    """Assemble everything of this code location."""
    chosen = settings()
    engine = SparkEngine(remote=chosen.remote or "")
    graph = dg.load_from_defs_folder(path_within_project=Path(__file__).parent)
    return dg.Definitions.merge(
        graph,
        dg.Definitions(
            jobs=[
                jobs.DAILY_VISITS,
                jobs.REBUILD_SILVER,
                jobs.REBUILD_GOLD,
                jobs.REFRESH_DEVICES,
                jobs.CAPTURE_USERS,
                jobs.LOAD_LEGACY_VISITS,
                jobs.MAINTAIN_TABLES,
                jobs.REPLICATE_DEVICES,
                jobs.REPLICATE_VISITS,
            ],
            schedules=[visits_every_day, legacy_visits_every_day, maintenance_every_night],
            sensors=[
                visits_delivered,
                visits_streamed,
                devices_delivered,
                events_arrived,
                users_changed,
                late_visits,
                late_gold,
                dead_letters_fixed,
                files_scattered,
            ],
            resources={
                "clock": Clock(),
                "engine": engine,
                "kafka": Kafka(bootstrap=chosen.kafka or "", topic=chosen.kafka_topic),
                "lake": Lake(root=str(chosen.lakehouse), engine=engine),
                "landing": Landing(root=str(chosen.landing)),
                "operational": OperationalDatabase(),
                "secrets": Secrets(),
            },
            loggers={"console": CONSOLE},
            # One process per run: Spark is the parallel part, and a process per step costs more than most steps.
            executor=dg.in_process_executor,
        ),
    )
