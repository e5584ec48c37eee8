"""The settings of this process. The only module that reads the environment.

=====================  ==========================================================  =========================
variable               meaning                                                     default
=====================  ==========================================================  =========================
``DEDP_HOME``          folder for everything that is written                       ``.dedp`` in the project
``DEDP_CACHE``         jars and the class-data archive                             ``$DEDP_HOME/cache``
``SPARK_REMOTE``       ``sc://host:port`` of a shared Spark Connect engine         none: an embedded engine
``DEDP_SPARK_MASTER``  Spark master of an embedded engine                          ``local[*]``
``DEDP_DRIVER_MEMORY`` its heap                                                    ``2g``
``DEDP_POSTGRES``      URL of the operational database                             one in ``$DEDP_HOME``
``DEDP_POSTGRES_TLS``  of the one in ``$DEDP_HOME``: ``required`` takes TLS only  ``off``
``DEDP_HISTORY``       Dagster's runs and events: ``own``, the PostgreSQL of      SQLite in ``$DEDP_HOME``
                       ``dedp up``, or the URL of a PostgreSQL database
``DEDP_JAVA``          ``auto``: Java 17+ if found; ``bundled``: the wheel's       ``auto``
``DEDP_JIT``           ``full``: fast bulk work; ``quick``: fast start, small      ``full``
                       data; ``steady``: small data for many minutes
``DEDP_MASKING_KEY``   key of pseudonyms in replicas, 64 hexadecimal digits        one of this home's own
``DEDP_KAFKA``         ``host:port`` of a Kafka broker: visits come by its topic   empty: visits by files
``DEDP_KAFKA_TOPIC``   that topic                                                  ``visits``
``DEDP_SERVICES``      URL of the HTTP services                                    ones of ``$DEDP_HOME``
``DEDP_REGISTRY``      where `dedp up` keeps schemas: ``file``, ``postgres``; or  ``file``
                       the URL of another schema registry, which topics go by
``DEDP_WEB``           URL of Dagster's webserver, for triggers                    that of ``dedp up``
``DEDP_STATUS_PAGE``   URL of the status page, for links in Dagster's UI           that of ``dedp up``
``DEDP_ADS_TOPIC``     the topic of the ads that were shown                        ``ads``
``DEDP_TICK_SECONDS``  how often the most frequent sensors look; others less often ``5``
``DEDP_LOOK_SECONDS``  how long such a tick goes on looking; ``dedp up`` takes 24  ``0``: it looks once
``DEDP_RUNS_AT_ONCE``  how many runs of Dagster's queue work at the same time     ``2``, for two cores
``DEDP_FIRST_DAY``     first daily partition, ``YYYY-MM-DD``                       30 days before the data
=====================  ==========================================================  =========================

Of lineage (``docs/lineage.md``):

==========================  =====================================================  =================
variable                    meaning                                                default
==========================  =====================================================  =================
``DEDP_LINEAGE_URL``        URL of a server that takes OpenLineage's events        none: in files
``DEDP_LINEAGE_NAMESPACE``  namespace of this platform's jobs there                ``dedp``
==========================  =====================================================  =================

Of alerts (``docs/alerts.md``), where the two addresses hold secrets:

============================  ===================================================  =================
variable                      meaning                                              default
============================  ===================================================  =================
``DEDP_ALERTS``               channels: some of ``log,file,webhook,apprise``       none
``DEDP_ALERTS_WEBHOOK``       URL that takes alerts as JSON by POST                none
``DEDP_ALERTS_APPRISE``       addresses of Apprise, with blanks in between         none
``DEDP_ALERTS_SILENT``        silent hours, such as ``22:00-07:00 Europe/Berlin``  none
``DEDP_ALERTS_HOLD``          severities that wait in silent hours                 ``info,warning``
``DEDP_ALERTS_REMIND_HOURS``  pause between reminders of an alert that lasts       ``0``: none
============================  ===================================================  =================
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta, timezone
from pathlib import Path
from typing import Literal, cast, get_args
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

__all__ = [
    "CHECKOUT",
    "RETENTION_DAYS",
    "AlertSettings",
    "Settings",
    "apply",
    "child_environment",
    "child_path",
    "home_of",
    "project_root",
    "settings",
    "variable",
]

CHECKOUT = Path(__file__).resolve().parents[2]
"""The folder that holds this package: a checkout, or where the wheel is installed."""
RETENTION_DAYS = 30
"""How many days before its landing day an event may have happened and still be filed under its own date."""


Jit = Literal["full", "quick", "steady"]
"""How much an engine compiles: ``full`` queries and hot code, ``steady`` hot code, ``quick`` as little as possible."""

Tls = Literal["off", "required"]
"""How the laptop's own PostgreSQL is reached: by plain connections, or by TLS only."""


_CHANNELS = ("log", "file", "webhook", "apprise")
_SEVERITIES = ("info", "warning", "critical")


@dataclass(frozen=True, slots=True)
class AlertSettings:
    """Settings of alerts.

    Attributes:
        channels: names of the kinds of channels.
        webhook: URL of the webhook, with its token.
        apprise: addresses of Apprise, with their tokens.
        silent: start, end and time zone of the silent hours; ``None`` without any.
        hold: severities that wait in silent hours.
        remind_hours: pause between reminders, in hours; 0 for none.
    """

    channels: tuple[str, ...] = ()
    webhook: str = field(default="", repr=False)
    apprise: tuple[str, ...] = field(default=(), repr=False)
    silent: tuple[time, time, str] | None = None
    hold: tuple[str, ...] = ("info", "warning")
    remind_hours: int = 0


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of this process from the environment."""

    home: Path
    cache: Path
    remote: str | None
    master: str
    driver_memory: str
    java: Literal["auto", "bundled"]
    jit: Jit
    java_home: Path | None
    postgres: str | None = field(default=None, repr=False)
    postgres_tls: Tls = "off"
    history: str | None = field(default=None, repr=False)
    masking_key: str | None = field(default=None, repr=False)
    kafka: str | None = None
    kafka_topic: str = "visits"
    services: str | None = None
    registry: Literal["file", "postgres"] = "file"
    registry_url: str | None = field(default=None, repr=False)
    web: str | None = None
    status_page: str | None = None
    ads_topic: str = "ads"
    tick_seconds: int = 5
    look_seconds: int = 0
    runs_at_once: int = 2
    stated_first_day: date | None = None
    lineage_url: str | None = field(default=None, repr=False)
    lineage_namespace: str = "dedp"
    alerts: AlertSettings = AlertSettings()

    @property
    def lakehouse(self) -> Path:
        """Root of the Delta tables, which are at ``<layer>/<dataset>``."""
        return self.home / "lakehouse"

    @property
    def landing(self) -> Path:
        """The folder where source systems put files."""
        return self.home / "landing"

    @property
    def dagster_home(self) -> Path:
        """Dagster's instance: runs, events, schedules."""
        return self.home / "dagster"

    @property
    def first_day(self) -> date:
        """First daily partition: the stated day, otherwise the oldest delivery's day minus the retention."""
        days = [day for folder in self.landing.glob("visits/*-*-*") if (day := _day(folder.name))]
        oldest = min(days) if days else datetime.now(timezone.utc).date()
        return self.stated_first_day or oldest - timedelta(days=RETENTION_DAYS)


def settings() -> Settings:
    """Return the settings from the current environment.

    Raises:
        ValueError: if a variable has a value that is not offered; the text names it.
    """
    env = os.environ
    home = home_of(project_root() or Path.cwd())
    java_home = env.get("JAVA_HOME")
    return Settings(
        home=home,
        cache=Path(env.get("DEDP_CACHE") or home / "cache").absolute(),
        remote=env.get("SPARK_REMOTE") or None,
        master=env.get("DEDP_SPARK_MASTER") or "local[*]",
        driver_memory=env.get("DEDP_DRIVER_MEMORY") or "2g",
        java="bundled" if _choice(env, "DEDP_JAVA", ("auto", "bundled")) == "bundled" else "auto",
        jit=cast("Jit", _choice(env, "DEDP_JIT", get_args(Jit))),
        java_home=Path(java_home) if java_home else None,
        postgres=env.get("DEDP_POSTGRES") or None,
        postgres_tls=cast("Tls", _choice(env, "DEDP_POSTGRES_TLS", get_args(Tls))),
        history=env.get("DEDP_HISTORY") or None,
        masking_key=env.get("DEDP_MASKING_KEY") or None,
        kafka=env.get("DEDP_KAFKA") or None,
        kafka_topic=env.get("DEDP_KAFKA_TOPIC") or "visits",
        services=env.get("DEDP_SERVICES") or None,
        registry="postgres" if env.get("DEDP_REGISTRY") == "postgres" else "file",
        registry_url=_registry_url(env),
        web=env.get("DEDP_WEB") or None,
        status_page=(env.get("DEDP_STATUS_PAGE") or "").rstrip("/") or None,
        ads_topic=env.get("DEDP_ADS_TOPIC") or "ads",
        tick_seconds=_seconds(env, "DEDP_TICK_SECONDS", 5),
        look_seconds=_seconds(env, "DEDP_LOOK_SECONDS", 0, least=0),
        runs_at_once=_whole(env, "DEDP_RUNS_AT_ONCE", 2, least=1),
        stated_first_day=_date(env, "DEDP_FIRST_DAY"),
        lineage_url=env.get("DEDP_LINEAGE_URL", "").strip() or None,
        lineage_namespace=env.get("DEDP_LINEAGE_NAMESPACE") or "dedp",
        alerts=AlertSettings(
            channels=_choices(env, "DEDP_ALERTS", _CHANNELS),
            webhook=env.get("DEDP_ALERTS_WEBHOOK", "").strip(),
            apprise=tuple(env.get("DEDP_ALERTS_APPRISE", "").split()),
            silent=_window(env, "DEDP_ALERTS_SILENT"),
            hold=_choices(env, "DEDP_ALERTS_HOLD", _SEVERITIES) or AlertSettings().hold,
            remind_hours=_whole(env, "DEDP_ALERTS_REMIND_HOURS", 0, least=0, unit="hours"),
        ),
    )


def project_root(folder: Path | None = None) -> Path | None:
    """Return the folder of the project around a folder; by default around the working directory.

    Args:
        folder: a folder in the project.

    Returns:
        The nearest folder upwards with a project, then the checkout; ``None`` where the package is installed.
    """
    here = (folder or Path.cwd()).absolute()
    return next(filter(_is_project, (here, *here.parents, CHECKOUT)), None)


def is_variable(name: str) -> bool:
    """Return whether an environment variable may have a name; no URL or address is one."""
    return re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) is not None


def variable(name: str) -> str:
    """Return the value of an environment variable that a declaration names; empty if not set."""
    return os.environ.get(name, "")


def apply(variables: Mapping[str, str]) -> None:
    """Set environment variables for this process and child processes."""
    os.environ.update(variables)


def child_environment(variables: Mapping[str, str], *, without: tuple[str, ...] = ()) -> dict[str, str]:
    """Copy this process's environment with ``variables`` set, for a child process."""
    return {**{k: v for k, v in os.environ.items() if k not in without}, **variables}


def home_of(root: Path) -> Path:
    """Return the folder for everything that is written: ``DEDP_HOME``, or ``.dedp`` in the project."""
    return Path(os.environ.get("DEDP_HOME") or root / ".dedp").absolute()


def child_path(folders: Sequence[str]) -> str:
    """Return ``PYTHONPATH`` of a child process that also looks in ``folders`` for modules."""
    return os.pathsep.join([*folders, *filter(None, [os.environ.get("PYTHONPATH")])])


def _is_project(folder: Path) -> bool:
    """Return whether a folder has a ``pyproject.toml`` with a table ``tool.dg.project``."""
    with suppress(OSError):
        return "[tool.dg.project]" in (folder / "pyproject.toml").read_text(encoding="utf-8", errors="replace")
    return False


def _choice(env: Mapping[str, str], name: str, offered: tuple[str, ...]) -> str:
    value = env.get(name) or offered[0]
    if value not in offered:
        raise ValueError(f"{name} must be one of {', '.join(offered)}, not {value}")
    return value


def _registry_url(env: Mapping[str, str]) -> str | None:
    """Return the URL of an external schema registry, if configured."""
    value = env.get("DEDP_REGISTRY", "").strip()
    if value in ("", "file", "postgres"):
        return None
    if not re.match(r"https?://\S+$", value):
        raise ValueError(f"DEDP_REGISTRY must be file, postgres, or a URL like http://127.0.0.1:8081, not {value}")
    return value


def _choices(env: Mapping[str, str], name: str, offered: tuple[str, ...]) -> tuple[str, ...]:
    """Return the values of a list, each once, in the order of the offer."""
    chosen = [each.strip() for each in env.get(name, "").split(",") if each.strip()]
    if strange := sorted({*chosen} - {*offered}):
        raise ValueError(f"{name} must be some of {', '.join(offered)}, not {', '.join(strange)}")
    return tuple(each for each in offered if each in chosen)


def _window(env: Mapping[str, str], name: str) -> tuple[time, time, str] | None:
    """Return start, end and time zone of a daily window."""
    if not (value := env.get(name, "").strip()):
        return None
    hours, _, zone = value.partition(" ")
    first, _, last = hours.partition("-")
    with suppress(ValueError, ZoneInfoNotFoundError, OSError):
        start, end = time.fromisoformat(first), time.fromisoformat(last)
        if (start.tzinfo, end.tzinfo) == (None, None) and start != end and zone.strip() and ZoneInfo(zone.strip()):
            return start, end, zone.strip()
    raise ValueError(f"{name} must be two times and a time zone like 22:00-07:00 Europe/Berlin, not {value}")


def _seconds(env: Mapping[str, str], name: str, default: int, *, least: int = 1) -> int:
    return _whole(env, name, default, least=least, unit="seconds")


def _whole(env: Mapping[str, str], name: str, default: int, *, least: int, unit: str = "") -> int:
    value = env.get(name) or str(default)
    if not value.isdecimal() or int(value) < least:
        raise ValueError(f"{name} must be a whole number {f'of {unit} ' if unit else ''}from {least} on, not {value}")
    return int(value)


def _date(env: Mapping[str, str], name: str) -> date | None:
    value = env.get(name)
    if value and _day(value) is None:
        raise ValueError(f"{name} must be a day like 2026-01-05, not {value}")
    return _day(value) if value else None


def _day(name: str) -> date | None:
    try:
        return date.fromisoformat(name)
    except ValueError:
        return None
