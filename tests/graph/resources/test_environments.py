"""Settings: what the environment may decide, and what it must not mix up."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, time, timedelta
from itertools import product
from pathlib import Path

import dagster as dg
import pytest
import yaml

from dedp_assets.case_study.sources import visits
from dedp_assets.graph.resources.environments import (
    CHECKOUT,
    RETENTION_DAYS,
    AlertSettings,
    Settings,
    child_environment,
    child_path,
    home_of,
    project_root,
    settings,
    variables_of,
)
from dedp_assets.graph.resources.masking import shown
from dedp_assets.laptop.orchestration.instance import configuration, prepare_home
from dedp_assets.patterns.core.errors import ConfigError
from tests.case_study.assets.conftest import day, visits_of, world_in

VARIABLES = [known.name for kind in (Settings, AlertSettings) for known in variables_of(kind).values()]


@pytest.fixture
def bare(monkeypatch):
    """An environment that decides nothing."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


def tree(folder: Path):
    """Every file below a folder, with its time of change."""
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


def test_nothing_set_means_the_documented_defaults(bare):
    """Each default is what docs/settings.md says."""
    chosen = settings()
    assert (chosen.home, chosen.cache) == (CHECKOUT / ".dedp", CHECKOUT / ".dedp" / "cache")
    assert (chosen.remote, chosen.java_home, chosen.postgres, chosen.postgres_tls) == (None, None, None, "off")
    assert (chosen.kafka, chosen.kafka_topic, chosen.ads_topic, chosen.services) == (None, "visits", "ads", None)
    assert (chosen.master, chosen.driver_memory, chosen.java, chosen.jit) == ("local[*]", "2g", "auto", "full")


def test_an_empty_variable_counts_as_not_set(bare):
    """What a shell or a container file leaves empty does not become a value."""
    before = settings()
    for name in VARIABLES:
        bare.setenv(name, "")
    assert settings() == before


@pytest.mark.parametrize(
    ("name", "value", "field"),
    [
        ("SPARK_REMOTE", "sc://127.0.0.1:15002", "remote"),
        ("AWS_ENDPOINT_URL", "http://127.0.0.1:8333", "s3_endpoint"),
        ("AWS_REGION", "eu-central-1", "s3_region"),
        ("DEDP_SPARK_MASTER", "local[1]", "master"),
        ("DEDP_DRIVER_MEMORY", "1g", "driver_memory"),
        ("DEDP_JAVA", "bundled", "java"),
        ("DEDP_JIT", "quick", "jit"),
        ("DEDP_JIT", "steady", "jit"),
        ("DEDP_POSTGRES", "postgresql://reader@db.example/shop", "postgres"),
        ("DEDP_POSTGRES_TLS", "required", "postgres_tls"),
        ("DEDP_KAFKA", "kafka.example:9092", "kafka"),
        ("DEDP_KAFKA_TOPIC", "clicks", "kafka_topic"),
        ("DEDP_SERVICES", "http://services.example", "services"),
        ("DEDP_REGISTRY", "own", "registry"),
        ("DEDP_REGISTRY", "http://registry.example", "registry"),
        ("DEDP_ADS_TOPIC", "banners", "ads_topic"),
        ("DEDP_LINEAGE_URL", "http://marquez.example", "lineage_url"),
        ("DEDP_LINEAGE_NAMESPACE", "web", "lineage_namespace"),
        ("DEDP_ALERTS", "log", "alerts"),
    ],
)
def test_each_variable_decides_its_setting_only(bare, name, value, field):
    """A variable changes what it names and nothing else."""
    before = settings()
    bare.setenv(name, value)
    changed = {f for f in before.__slots__ if getattr(settings(), f) != getattr(before, f)}
    found = settings().alerts.channels[0] if field == "alerts" else getattr(settings(), field)
    assert (found, changed) == (value, {field})


@pytest.mark.parametrize(
    ("name", "value", "choices"),
    [
        ("DEDP_JIT", "x", "full, quick, steady"),
        ("DEDP_JAVA", "17", "auto, bundled"),
        ("DEDP_JIT", "Quick", "full, quick, steady"),
        ("DEDP_POSTGRES_TLS", "on", "off, required"),
    ],
)
def test_a_value_that_is_not_offered_is_refused_with_the_choices(bare, name, value, choices):
    """The sentence names the variable, what may stand there, and the value."""
    bare.setenv(name, value)
    with pytest.raises(ValueError, match=f"^{name} must be one of {choices}, not {value}$"):
        settings()


@pytest.mark.parametrize("wrong", ["ada:hidden-word@kafka:9092", "kafka://ada:hidden-word@kafka:9092", "hidden-word"])
def test_a_broker_with_a_password_is_refused_without_a_repetition(bare, wrong):
    """Several are named with commas."""
    bare.setenv("DEDP_KAFKA", "one:9092,two:9092")
    assert settings().kafka == "one:9092,two:9092"
    bare.setenv("DEDP_KAFKA", wrong)
    with pytest.raises(ValueError, match="DEDP_KAFKA must be host:port of a broker") as refused:
        settings()
    assert "hidden-word" not in str(refused.value)


def test_the_token_of_an_engine_is_not_shown(bare):
    """An address of Spark Connect may have one."""
    bare.setenv("SPARK_REMOTE", "sc://engine:15002/;token=hidden-word-1")
    assert "hidden-word" not in repr(settings())
    assert shown("tried hidden-word-1 twice") == "tried *** twice"


def test_a_relative_home_means_one_place_wherever_a_child_starts(bare, tmp_path):
    """Paths are absolute once they are read, so the webserver and the daemon find the same folders."""
    bare.chdir(tmp_path)
    bare.setenv("DEDP_HOME", "here")
    bare.setenv("DEDP_CACHE", "there")
    assert (settings().home, settings().cache) == (tmp_path / "here", tmp_path / "there")


def test_the_home_is_that_of_the_project_around_the_working_directory(bare, tmp_path):
    """Of the checkout without one; a stated home wins."""
    bare.chdir(tmp_path)
    assert settings().home == CHECKOUT / ".dedp"
    inner = tmp_path / "lake" / "docs"
    inner.mkdir(parents=True)
    (tmp_path / "lake" / "pyproject.toml").write_text('[tool.dg.project]\nroot_module = "lake"\n')
    bare.chdir(inner)
    assert project_root() == project_root(inner) == tmp_path / "lake"
    assert settings().home == home_of(tmp_path / "lake") == tmp_path / "lake" / ".dedp"
    bare.setenv("DEDP_HOME", str(tmp_path / "home"))
    assert settings().home == home_of(tmp_path / "lake") == tmp_path / "home"


def test_a_child_finds_further_modules(bare):
    """Before what this process was given, and without an empty entry, which would be the working directory."""
    bare.delenv("PYTHONPATH", raising=False)
    assert child_path(["/a", "/b"]) == "/a:/b"
    bare.setenv("PYTHONPATH", "/mine")
    assert child_path(["/a"]) == "/a:/mine"


def test_the_first_partition_is_early_enough_for_the_oldest_delivery(bare, tmp_path):
    """With room for late events, so that it fits the data; other names do not count, and a stated day wins."""
    bare.setenv("DEDP_HOME", str(tmp_path))
    assert settings().first_day >= date(2026, 1, 1)
    for name in ("2015-05-17", "2026-03-01", "2015-02-31", "1999-x-y"):
        (tmp_path / "landing" / "visits" / name).mkdir(parents=True)
    assert settings().first_day == date(2015, 5, 17) - timedelta(days=RETENTION_DAYS)
    bare.setenv("DEDP_FIRST_DAY", "2015-05-01")
    assert settings().first_day == date(2015, 5, 1)


def test_a_first_day_that_is_no_day_is_refused(bare):
    """In one sentence, with an example."""
    bare.setenv("DEDP_FIRST_DAY", "2015-02-31")
    with pytest.raises(ValueError, match=r"^DEDP_FIRST_DAY must be a day like 2026-01-05, not 2015-02-31$"):
        settings()


def test_a_child_gets_what_it_should_and_not_what_it_should_not(bare):
    """Variables are added, replaced and left out for a child; this process keeps its own."""
    bare.setenv("SPARK_REMOTE", "sc://somewhere")
    bare.setenv("DEDP_JIT", "full")
    child = child_environment({"DEDP_JIT": "quick"}, without=("SPARK_REMOTE",))
    assert (child["DEDP_JIT"], "SPARK_REMOTE" in child, "PATH" in child) == ("quick", False, True)
    assert (settings().jit, settings().remote) == ("full", "sc://somewhere")


def test_two_homes_have_no_folder_in_common(bare, tmp_path):
    """Lake, landing zone, Dagster's instance and cache all lie below their own home."""
    for name in ("a", "b"):
        bare.setenv("DEDP_HOME", str(tmp_path / name))
        chosen = settings()
        folders = (Path(chosen.lake), chosen.landing, chosen.dagster_home, chosen.cache)
        assert all(folder.is_relative_to(tmp_path / name) for folder in folders)
        assert set(prepare_home(chosen).values()) == {str(tmp_path / name), str(tmp_path / name / "dagster")}


def test_a_platform_writes_nothing_into_another_ones_home(spark, tmp_path):
    """Loading a day in one home leaves every file of another as it was, and their rows do not mix."""
    with world_in(tmp_path / "a") as ours:
        ours.land(day(0), visits_of(0, count=5))
        assert ours.react() == [("daily_visits", day(0))]
        mine = ours.ids("silver/visits")
    before = tree(tmp_path / "a")  # an open history has files of its own
    with world_in(tmp_path / "b") as theirs:
        assert theirs.react() == []
        visits.deliver(theirs.landing / "visits", date.fromisoformat(day(0)), visits_of(0, count=5, seed=2))
        assert theirs.react() == [("daily_visits", day(0))]
        assert len(theirs.ids("silver/visits")) == 5
        assert not set(theirs.ids("silver/visits")) & set(mine)
    assert tree(tmp_path / "a") == before


@pytest.mark.parametrize("value", ["127.0.0.1:8333", "http://ada:s3cret@host", "http://host/path", "s3://lake"])
def test_an_endpoint_that_is_no_url_of_a_server_is_refused_without_its_text(bare, value):
    """A password may stand in it."""
    bare.setenv("AWS_ENDPOINT_URL", value)
    with pytest.raises(ValueError, match=r"^AWS_ENDPOINT_URL must be a URL of a server alone like https") as refused:
        settings()
    assert value not in str(refused.value)


@pytest.mark.parametrize("value", ["0", "-1", "soon", "1.5"])
def test_a_tick_interval_that_cannot_be_is_refused(bare, value):
    """The variable is named, with what it takes."""
    bare.setenv("DEDP_TICK_SECONDS", value)
    with pytest.raises(
        ValueError, match=f"^DEDP_TICK_SECONDS must be a whole number of seconds from 1 on, not {value}$"
    ):
        settings()


def test_the_tick_interval_is_a_setting(bare):
    """Sensors look every 5 seconds if nobody says anything else."""
    assert settings().tick_seconds == 5
    bare.setenv("DEDP_TICK_SECONDS", "60")
    assert settings().tick_seconds == 60


@pytest.mark.parametrize("value", ["0", "-1", "two", "1.5"])
def test_a_number_of_runs_that_cannot_be_is_refused(bare, value):
    """The variable is named, with what it takes."""
    bare.setenv("DEDP_RUNS_AT_ONCE", value)
    with pytest.raises(ValueError, match=f"^DEDP_RUNS_AT_ONCE must be a whole number from 1 on, not {value}$"):
        settings()


@pytest.mark.parametrize(("stated", "runs"), [("", 2), ("5", 5)])
def test_how_many_runs_work_at_once_is_a_setting_of_every_home(bare, tmp_path, stated, runs):
    """Dagster's queue reads it from the home's own file, whoever opens it, and two runs are what is not said."""
    bare.setenv("DEDP_HOME", str(tmp_path))
    bare.setenv("DEDP_RUNS_AT_ONCE", stated)
    home = prepare_home(settings())["DAGSTER_HOME"]
    bare.delenv("DEDP_RUNS_AT_ONCE")
    with dg.DagsterInstance.from_config(home) as instance:
        assert instance.get_concurrency_config().run_queue_config.max_concurrent_runs == runs


def test_a_run_history_in_postgres_leaves_the_number_of_runs(bare, tmp_path):
    """The queue's limit does not depend on where the runs are recorded."""
    chosen = replace(settings(), home=tmp_path, runs_at_once=7)
    stated = [yaml.safe_load(configuration(chosen, in_postgres=url)) for url in (None, "postgresql://h/runs")]
    assert [each["concurrency"]["runs"] for each in stated] == [{"max_concurrent_runs": 7}] * 2


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("DEDP_ALERTS", "log,mail", "DEDP_ALERTS must be some of log, file, webhook, apprise, not mail"),
        ("DEDP_ALERTS_HOLD", "error", "DEDP_ALERTS_HOLD must be some of info, warning, critical, not error"),
        (
            "DEDP_ALERTS_SILENT",
            "22:00-07:00",
            "two times and a time zone like 22:00-07:00 Europe/Berlin, not 22:00-07:00",
        ),
        ("DEDP_ALERTS_SILENT", "22:00-07:00 Europe/Nowhere", "must be two times and a time zone"),
        ("DEDP_ALERTS_SILENT", "22-25 UTC", "must be two times and a time zone"),
        ("DEDP_ALERTS_SILENT", "07:00-07:00 UTC", "must be two times and a time zone"),
        ("DEDP_ALERTS_SILENT", "night UTC", "must be two times and a time zone"),
        ("DEDP_ALERTS_SILENT", "22:00+02:00-07:00 Europe/Berlin", "must be two times and a time zone"),
        ("DEDP_ALERTS_SILENT", "22:00-07:00Z UTC", "must be two times and a time zone"),
        ("DEDP_ALERTS_SILENT", "22:00Z-07:00Z UTC", "must be two times and a time zone"),
        ("DEDP_ALERTS_REMIND_HOURS", "-1", "must be a whole number of hours from 0 on, not -1"),
    ],
)
def test_settings_of_alerts_that_cannot_be_are_refused(bare, name, value, text):
    """The variable is named, with what it takes."""
    bare.setenv(name, value)
    with pytest.raises(ValueError, match=text):
        settings()


def test_settings_of_alerts(bare):
    """Without them, no channel and no silence; warnings wait by default."""
    chosen = settings().alerts
    assert (chosen.channels, chosen.silent, chosen.hold, chosen.remind_hours) == ((), None, ("info", "warning"), 0)
    bare.setenv("DEDP_ALERTS", " webhook , log,log")
    bare.setenv("DEDP_ALERTS_SILENT", "22:00-07:00  Europe/Berlin ")
    bare.setenv("DEDP_ALERTS_HOLD", "critical,info")
    chosen = settings().alerts
    assert (chosen.channels, chosen.hold) == (("log", "webhook"), ("info", "critical"))
    assert chosen.silent == (time(22), time(7), "Europe/Berlin")


@pytest.mark.parametrize(
    ("value", "zone", "uses_buckets"),
    [
        ("", "{home}/landing", False),
        ("/data/landing/", "/data/landing", False),
        ("s3://bucket/a b/landing/", "s3://bucket/a b/landing", True),
        ("s3a://bucket/landing", "s3a://bucket/landing", True),
    ],
)
def test_a_landing_zone_is_a_folder_or_in_a_bucket(bare, tmp_path, value, zone, uses_buckets):
    """As the lake is; the demo's generators write to folders alone, and refuse a bucket in one sentence."""
    bare.setenv("DEDP_HOME", str(tmp_path))
    bare.setenv("DEDP_LANDING", value)
    chosen = settings()
    assert (chosen.landing_zone, chosen.uses_buckets) == (zone.format(home=tmp_path), uses_buckets)
    if uses_buckets:
        with pytest.raises(ConfigError, match=r"^the demo lands its files in a folder: DEDP_LANDING must be a folder"):
            _ = chosen.landing
        assert chosen.first_day  # without a request
    else:
        assert str(chosen.landing) == chosen.landing_zone


@pytest.mark.parametrize(
    ("value", "lake", "uses_buckets"),
    [
        ("", "{home}/lakehouse", False),
        ("/data/lake/", "/data/lake", False),
        ("s3", "s3://dedp/lakehouse", True),
        ("s3://bucket/prefix/", "s3://bucket/prefix", True),
        ("s3a://bucket/a b/c", "s3a://bucket/a b/c", True),
    ],
)
def test_a_lake_is_a_folder_or_in_a_bucket(bare, tmp_path, value, lake, uses_buckets):
    """One setting decides where the tables are, and an engine has the jars that they need."""
    bare.setenv("DEDP_HOME", str(tmp_path))
    bare.setenv("DEDP_LAKE", value)
    assert (settings().lake, settings().uses_buckets) == (lake.format(home=tmp_path), uses_buckets)


NOWHERE = ("gs://bucket/prefix", "s3://lonely", "s3://ada:s3cret@host/x", "file:///lake")


@pytest.mark.parametrize(
    ("variable", "value"), [*product(("DEDP_LAKE", "DEDP_LANDING"), NOWHERE), ("DEDP_LANDING", "s3")]
)
def test_a_location_that_cannot_be_is_refused_without_its_text(bare, variable, value):
    """A password may stand in it."""
    bare.setenv(variable, value)
    with pytest.raises(ValueError, match=rf"^{variable} must be a folder, .*or a location like s3:") as refused:
        settings()
    assert "s3cret" not in str(refused.value)
