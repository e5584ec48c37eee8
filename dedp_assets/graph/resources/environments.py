"""The settings of this process. The only module that reads the environment.

Each setting is a field that says its variable, meaning, default and form; ``docs/settings.md`` lists them all.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta, timezone
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, get_origin, get_type_hints
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from dedp_assets.patterns.core.errors import ConfigError

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
    "variables_of",
]

CHECKOUT = Path(__file__).resolve().parents[3]
"""The folder that holds this package: a checkout, or where the wheel is installed."""
_OWN, _OWN_LAKE = "s3", "s3://dedp/lakehouse"
RETENTION_DAYS = 30
"""How many days before its landing day an event may have happened and still be filed under its own date."""


Jit = Literal["full", "quick", "steady"]
"""How much an engine compiles: ``full`` queries and hot code, ``steady`` hot code, ``quick`` as little as possible."""

Tls = Literal["off", "required"]
"""How the laptop's own PostgreSQL is reached: by plain connections, or by TLS only."""


class _Unfit(ValueError):
    """A refused text of a setting; the message is the expected form, ``part`` the wrong part of the text."""

    def __init__(self, expected: str, part: str = "") -> None:
        super().__init__(expected)
        self.part = part


def _words(value: str) -> tuple[str, ...]:
    return tuple(value.split())


def _one_of(*offered: str) -> Callable[[str], str]:
    def parse(value: str) -> str:
        if value not in offered:
            raise _Unfit(f"one of {', '.join(offered)}")
        return value

    return parse


def _some_of(*offered: str) -> Callable[[str], tuple[str, ...]]:
    """Return a parser of a list with commas: each value once, in the order of the offer."""

    def parse(value: str) -> tuple[str, ...]:
        chosen = {each.strip() for each in value.split(",") if each.strip()}
        if strange := sorted(chosen - {*offered}):
            raise _Unfit(f"some of {', '.join(offered)}", ", ".join(strange))
        return tuple(each for each in offered if each in chosen)

    return parse


def _whole(*, least: int, unit: str = "") -> Callable[[str], int]:
    def parse(value: str) -> int:
        if not value.isdecimal() or int(value) < least:
            raise _Unfit(f"a whole number {f'of {unit} ' if unit else ''}from {least} on")
        return int(value)

    return parse


def _date(value: str) -> date:
    if (day := _day(value)) is None:
        raise _Unfit("a day like 2026-01-05")
    return day


def _window(value: str) -> tuple[time, time, str]:
    """Return start, end and time zone of a daily window."""
    hours, _, zone = value.partition(" ")
    first, _, last = hours.partition("-")
    with suppress(ValueError, ZoneInfoNotFoundError, OSError):
        start, end = time.fromisoformat(first), time.fromisoformat(last)
        if (start.tzinfo, end.tzinfo) == (None, None) and start != end and zone.strip() and ZoneInfo(zone.strip()):
            return start, end, zone.strip()
    raise _Unfit("two times and a time zone like 22:00-07:00 Europe/Berlin")


def _registry(value: str) -> str:
    if value != "own" and not re.match(r"https?://\S+$", value):
        raise _Unfit("own or a URL like http://127.0.0.1:8081")
    return value


def _secret_store(value: str) -> str:
    if value != "bao" and not re.fullmatch(r"https?://[^\s/?#@]+/?", value):
        raise _Unfit("bao or a URL of a server alone like https://vault.example:8200", "the given one")
    return value.rstrip("/")


def _endpoint(value: str) -> str:
    if not re.fullmatch(r"https?://[^\s/?#@]+/?", value):
        raise _Unfit("a URL of a server alone like https://s3.eu-central-1.amazonaws.com", "the given one")
    return value.rstrip("/")


def _brokers(value: str) -> str:
    if not re.fullmatch(r"[^\s/@,]+:\d+(,[^\s/@,]+:\d+)*", value):
        raise _Unfit("host:port of a broker, or of several with commas, without user and password", "the given one")
    return value


def _address(value: str) -> str:
    return value.rstrip("/")


def _in_bucket(location: str) -> bool:
    return location.startswith(("s3://", "s3a://"))


def _location(*words: str) -> Callable[[str], str]:
    """Return a parser of a location: a folder, a prefix of a bucket, or one of some words."""

    def parse(value: str) -> str:
        if value in words or re.fullmatch(r"s3a?://[^\s/?#@:]+/[^?#]+", value):
            return value.rstrip("/")
        if "://" in value or value == _OWN:
            offered = ", ".join(["a folder", *words])
            raise _Unfit(f"{offered}, or a location like s3://bucket/prefix", "the given one" if "://" in value else "")
        return str(Path(value).absolute())

    return parse


@dataclass(frozen=True, slots=True)
class Variable:
    """The environment variable of a setting.

    Attributes:
        name: of the variable.
        about: meaning of the setting.
        default: value without the variable, in words; empty to show the field's default.
        parse: makes the setting of a text that is not empty; raises :class:`_Unfit` with the expected form.
    """

    name: str
    about: str
    default: str = ""
    parse: Callable[[str], Any] = str


@dataclass(frozen=True, slots=True)
class AlertSettings:
    """Settings of alerts (``docs/alerts.md``); silent hours are start, end and time zone."""

    # fmt: off
    channels: Annotated[tuple[str, ...], Variable(
        "DEDP_ALERTS",
        "channels of alerts: some of `log,file,webhook,apprise`", "none",
        _some_of("log", "file", "webhook", "apprise"))] = ()
    webhook: Annotated[str, Variable(
        "DEDP_ALERTS_WEBHOOK",
        "URL with a secret that takes alerts as JSON by POST", "none")] = field(default="", repr=False)
    apprise: Annotated[tuple[str, ...], Variable(
        "DEDP_ALERTS_APPRISE",
        "addresses of Apprise with their secrets, with blanks in between", "none",
        _words)] = field(default=(), repr=False)
    silent: Annotated[tuple[time, time, str] | None, Variable(
        "DEDP_ALERTS_SILENT", "silent hours, such as `22:00-07:00 Europe/Berlin`", "none", _window)] = None
    hold: Annotated[tuple[str, ...], Variable(
        "DEDP_ALERTS_HOLD",
        "severities that wait in silent hours", "`info,warning`",
        _some_of("info", "warning", "critical"))] = ("info", "warning")
    remind_hours: Annotated[int, Variable(
        "DEDP_ALERTS_REMIND_HOURS",
        "hours between reminders of an alert that lasts; 0 for none", parse=_whole(least=0, unit="hours"))] = 0
    # fmt: on


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of this process from the environment."""

    # fmt: off
    home: Annotated[Path, Variable(
        "DEDP_HOME", "folder for everything that is written", "`.dedp` in the project", Path)] = Path()
    cache: Annotated[Path, Variable(
        "DEDP_CACHE", "jars and the class-data archive", "`$DEDP_HOME/cache`", Path)] = Path()
    stated_lake: Annotated[str, Variable(
        "DEDP_LAKE",
        "location of the tables: a folder, `s3://bucket/prefix`, or `s3` for a server of this home",
        "`$DEDP_HOME/lakehouse`", _location(_OWN))] = ""
    stated_landing: Annotated[str, Variable(
        "DEDP_LANDING",
        "where source systems put files: a folder, or `s3://bucket/prefix`", "`$DEDP_HOME/landing`", _location())] = ""
    remote: Annotated[str | None, Variable(
        "SPARK_REMOTE",
        "`sc://host:port` of a shared Spark Connect engine",
        "none: an embedded engine")] = field(default=None, repr=False)
    s3_endpoint: Annotated[str | None, Variable(
        "AWS_ENDPOINT_URL",
        "endpoint of tables in a bucket (`s3://`); with one, an embedded engine has the jars for them",
        "none: folders only", _endpoint)] = None
    s3_region: Annotated[str, Variable("AWS_REGION", "region of the buckets")] = "us-east-1"
    master: Annotated[str, Variable("DEDP_SPARK_MASTER", "Spark master of an embedded engine")] = "local[*]"
    cluster: Annotated[int, Variable(
        "DEDP_CLUSTER",
        "workers of a Spark cluster of this home, of one core each; 0: the engine computes alone",
        parse=_whole(least=0))] = 0
    driver_host: Annotated[str, Variable(
        "DEDP_DRIVER_HOST", "address by which executors on other machines reach an embedded engine")] = "127.0.0.1"
    driver_memory: Annotated[str, Variable("DEDP_DRIVER_MEMORY", "heap of an embedded engine")] = "2g"
    java: Annotated[Literal["auto", "bundled"], Variable(
        "DEDP_JAVA", "`auto`: Java 17+ if found; `bundled`: the wheel's", parse=_one_of("auto", "bundled"))] = "auto"
    jit: Annotated[Jit, Variable(
        "DEDP_JIT",
        "`full`: fast bulk work; `quick`: fast start, small data; `steady`: small data, many minutes",
        parse=_one_of("full", "quick", "steady"))] = "full"
    java_home: Annotated[Path | None, Variable(
        "JAVA_HOME", "Java runtime that `auto` tries first", "none", Path)] = None
    postgres: Annotated[str | None, Variable(
        "DEDP_POSTGRES", "URL of the operational database", "one in `$DEDP_HOME`")] = field(default=None, repr=False)
    postgres_tls: Annotated[Tls, Variable(
        "DEDP_POSTGRES_TLS",
        "of the one in `$DEDP_HOME`: `required` takes TLS only", parse=_one_of("off", "required"))] = "off"
    secure: Annotated[Literal["off", "on"], Variable(
        "DEDP_SECURE",
        "`on`: servers of `dedp up` ask for certificates or tokens ([doors](doors.md)), files of the home are their "
        "owner's alone", parse=_one_of("off", "on"))] = "off"
    undeclared: Annotated[Literal["refuse", "allow"], Variable(
        "DEDP_UNDECLARED",
        "`allow`: functions of tables may touch places of the lake that they do not declare "
        "([access](access_resources.md))", parse=_one_of("refuse", "allow"))] = "refuse"
    history: Annotated[str | None, Variable(
        "DEDP_HISTORY",
        "Dagster's runs and events: `own`, the PostgreSQL of `dedp up`, or the URL of a database",
        "SQLite in `$DEDP_HOME`")] = field(default=None, repr=False)
    masking_key: Annotated[str | None, Variable(
        "DEDP_MASKING_KEY",
        "key of pseudonyms in replicas, 64 hexadecimal digits",
        "one of this home's own")] = field(default=None, repr=False)
    secret_store: Annotated[str, Variable(
        "DEDP_SECRETS",
        "where secrets are: URL of a Vault-compatible server; `bao`: `dedp up` runs one",
        "an encrypted file of `$DEDP_HOME`", _secret_store)] = field(default="", repr=False)
    secret_login: Annotated[Path | None, Variable(
        "DEDP_SECRETS_LOGIN",
        "file (0600) with the token for a server of secrets, or with the secret id of `DEDP_SECRETS_ROLE`",
        "that of `dedp up`", Path)] = None
    secret_role: Annotated[str, Variable(
        "DEDP_SECRETS_ROLE",
        "id of a role (AppRole) of a server of secrets, by which each process has a short token of its own",
        "none: all have the token of the file")] = field(default="", repr=False)
    vault_readers: Annotated[tuple[str, ...], Variable(
        "DEDP_VAULT_READERS",
        "identities that may ask for the values behind pseudonyms of the vault, with blanks in between", "nobody",
        _words)] = ()
    kafka: Annotated[str | None, Variable(
        "DEDP_KAFKA", "`host:port` of a Kafka broker: visits come by its topic", "none: by files", _brokers)] = None
    kafka_topic: Annotated[str, Variable("DEDP_KAFKA_TOPIC", "topic of the visits")] = "visits"
    services: Annotated[str | None, Variable(
        "DEDP_SERVICES", "URL of the HTTP services", "ones of `$DEDP_HOME`")] = None
    services_pointer: Annotated[str | None, Variable(
        "DEDP_SERVICES_KEY",
        "name of the secret that the HTTP services ask for, such as `services/key`", "none")] = None
    registry: Annotated[str, Variable(
        "DEDP_REGISTRY",
        "URL of the schema registry that topics go by; `own`: `dedp up` runs one", "none",
        _registry)] = field(default="", repr=False)
    web: Annotated[str | None, Variable(
        "DEDP_WEB", "URL of Dagster's webserver, for triggers", "that of `dedp up`")] = None
    status_page: Annotated[str | None, Variable(
        "DEDP_STATUS_PAGE", "URL of the status page, for links in Dagster's UI", "that of `dedp up`", _address)] = None
    ads_topic: Annotated[str, Variable("DEDP_ADS_TOPIC", "topic of the ads that were shown")] = "ads"
    tick_seconds: Annotated[int, Variable(
        "DEDP_TICK_SECONDS",
        "seconds between looks of the most frequent sensors; others look less often",
        parse=_whole(least=1, unit="seconds"))] = 5
    look_seconds: Annotated[int, Variable(
        "DEDP_LOOK_SECONDS",
        "seconds that such a tick goes on looking; `dedp up` takes 24; 0: it looks once",
        parse=_whole(least=0, unit="seconds"))] = 0
    runs_at_once: Annotated[int, Variable(
        "DEDP_RUNS_AT_ONCE", "runs of Dagster's queue that work at the same time", parse=_whole(least=1))] = 2
    stated_first_day: Annotated[date | None, Variable(
        "DEDP_FIRST_DAY", "first daily partition, `YYYY-MM-DD`", "30 days before the data", _date)] = None
    lineage_url: Annotated[str | None, Variable(
        "DEDP_LINEAGE_URL",
        "URL of a server that takes OpenLineage's events", "none: in files")] = field(default=None, repr=False)
    lineage_namespace: Annotated[str, Variable(
        "DEDP_LINEAGE_NAMESPACE", "namespace of this platform's jobs there")] = "dedp"
    alerts: AlertSettings = AlertSettings()
    # fmt: on

    @property
    def missing_home(self) -> str:
        """Sentence about a missing home, with the commands that make a home; empty if the home exists."""
        return "" if self.home.is_dir() else f"There is no home at {self.home} yet: `dedp up` or `dedp demo` makes one."

    @property
    def unfit_home(self) -> str:
        """Sentence about an unfit home, a file or a project's own folder; empty for a fit home."""
        if self.home.exists() and not self.home.is_dir():
            return f"DEDP_HOME must be a folder, not the file {self.home}"
        if _is_project(self.home):
            return f"DEDP_HOME must be a folder of its own, such as {self.home / '.dedp'}, not the project {self.home}"
        return ""

    @property
    def lake(self) -> str:
        """Location of the Delta tables, which are at ``<layer>/<dataset>``: a folder or an ``s3`` URI."""
        return _OWN_LAKE if self.own_s3 else self.stated_lake or str(self.home / "lakehouse")

    @property
    def own_s3(self) -> bool:
        """True for tables in a bucket of this home's own server."""
        return self.stated_lake == _OWN

    @property
    def in_bucket(self) -> bool:
        """True for tables in a bucket of any server."""
        return _in_bucket(self.lake)

    @property
    def uses_buckets(self) -> bool:
        """True if an engine needs the jars for buckets: for tables or files in a bucket, or an endpoint."""
        return self.s3_endpoint is not None or self.in_bucket or _in_bucket(self.landing_zone)

    @property
    def landing_zone(self) -> str:
        """Location where source systems put files: a folder or an ``s3`` URI."""
        return self.stated_landing or str(self.home / "landing")

    @property
    def landing(self) -> Path:
        """The landing zone as a folder, for the case study's generators.

        Raises:
            ConfigError: for a landing zone in a bucket.
        """
        if _in_bucket(self.landing_zone):
            raise ConfigError(
                f"the demo lands its files in a folder: DEDP_LANDING must be a folder, not {self.landing_zone}; into a "
                "bucket, your own systems may put files"
            )
        return Path(self.landing_zone)

    @property
    def dagster_home(self) -> Path:
        """Dagster's instance: runs, events, schedules."""
        return self.home / "dagster"

    @property
    def first_day(self) -> date:
        """First daily partition: the stated day, otherwise the oldest delivery's day minus the retention.

        Each process asks at its start, and sends no request: with a landing zone in a bucket, state the day.
        """
        landed = () if _in_bucket(self.landing_zone) else self.landing.glob("visits/*-*-*")
        days = [day for folder in landed if (day := _day(folder.name))]
        oldest = min(days) if days else datetime.now(timezone.utc).date()
        return self.stated_first_day or oldest - timedelta(days=RETENTION_DAYS)


def settings() -> Settings:
    """Return the settings from the current environment.

    Raises:
        ValueError: if a variable has a value that is not offered; the text names it.
    """
    home = home_of(project_root() or Path.cwd())
    stated = _stated(Settings)
    jars = stated.get("cache", home / "cache").absolute()
    if stated.get("secure") == "on":
        stated.setdefault("postgres_tls", "required")
    return Settings(**{**stated, "home": home, "cache": jars, "alerts": AlertSettings(**_stated(AlertSettings))})


@cache
def variables_of(kind: type) -> Mapping[str, Variable]:
    """Return the environment variable of each field."""
    hints = get_type_hints(kind, include_extras=True)
    return {name: hint.__metadata__[0] for name, hint in hints.items() if get_origin(hint) is Annotated}


def _stated(kind: type) -> dict[str, Any]:
    """Return the settings that the environment decides, by field; an empty variable decides nothing.

    Raises:
        ValueError: for a value that is not offered; names the variable.
    """
    found: dict[str, Any] = {}
    for name, known in variables_of(kind).items():
        if value := os.environ.get(known.name, "").strip():
            try:
                found[name] = known.parse(value)
            except _Unfit as unfit:
                raise ValueError(f"{known.name} must be {unfit}, not {unfit.part or value}") from None
    return found


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


def _day(name: str) -> date | None:
    try:
        return date.fromisoformat(name)
    except ValueError:
        return None
