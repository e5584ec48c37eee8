"""The Spark cluster of a home: its commands, its secret, and the settings of its drivers."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from dedp_assets.graph.resources import engine
from dedp_assets.graph.resources.environments import settings
from dedp_assets.laptop.servers.cluster import Cluster, command_folder
from dedp_assets.laptop.servers.engine import connect_command


@pytest.fixture
def made(tmp_path, monkeypatch):
    """A cluster of two workers that nobody started."""
    monkeypatch.setattr(engine, "class_path", lambda _, configuration="engine": [Path(f"/jars/{configuration}.jar")])
    cluster = Cluster(replace(settings(), cache=tmp_path / "cache"), tmp_path / "cluster", 17_077, 2)
    cluster.prepare()
    return cluster


def stated(cluster):
    """The settings in the cluster's file."""
    return dict(line.split(" ", 1) for line in cluster.properties.read_text().splitlines())


def test_the_secret_stands_in_a_file_of_the_owner_and_on_no_command_line(made):
    """Of master, workers and driver; the next start has another one."""
    secret = stated(made)["spark.authenticate.secret"]
    assert made.properties.stat().st_mode & 0o077 == 0
    driver = connect_command(replace(made.settings, master=made.url), 15_002, properties=made.properties)
    lines = [made.master(), made.worker(), driver, [f"{name}={value}" for name, value in made.variables.items()]]
    assert not [line for line in lines if secret in " ".join(line)]
    assert all(str(made.properties) in line for line in lines[:3])
    made.prepare()
    assert stated(made)["spark.authenticate.secret"] != secret


def test_the_cluster_is_for_this_machine_and_its_owner(made):
    """Each process listens on loopback, takes whoever knows the secret, and lets nobody submit by HTTP."""
    for line in (made.master(), made.worker()):
        assert line[line.index("--host") + 1] == "127.0.0.1"
    found = stated(made)
    assert (found["spark.authenticate"], found["spark.master.rest.enabled"]) == ("true", "false")
    assert (made.worker()[-1], found["spark.cores.max"]) == ("spark://127.0.0.1:17077", "2")


def test_a_start_forgets_former_drivers_and_a_restart_of_the_master_does_not(made):
    """What a master noted is there until the cluster is prepared again."""
    known = Path(stated(made)["spark.deploy.recoveryDirectory"])
    known.mkdir()
    assert stated(made)["spark.deploy.recoveryMode"] == "FILESYSTEM"
    made.prepare()
    assert not known.exists()


def test_executors_have_the_class_path_and_the_options_of_their_driver(made):
    """An engine that computes alone has none; an executor with a property of Spark's would not start."""
    alone = engine.spark_conf(made.settings)
    driver = engine.spark_conf(replace(made.settings, master=made.url))
    assert not [name for name in alone if name.startswith("spark.executor.")]
    assert driver["spark.executor.extraClassPath"] == driver["spark.driver.extraClassPath"] == "/jars/engine.jar"
    given = {side: driver[f"spark.{side}.extraJavaOptions"].split() for side in ("executor", "driver")}
    assert given["executor"] == [option for option in given["driver"] if not option.startswith("-Dspark.")]
    assert len(given["driver"]) > len(given["executor"]) > 2


def test_the_folder_of_a_command_that_was_killed_goes_with_the_next_command(tmp_path):
    """Those of commands that run stay until their end."""
    with subprocess.Popen(["true"]) as ended:
        pass
    left = tmp_path / f"of-a-command-{ended.pid}-x"
    left.mkdir()
    with command_folder(tmp_path) as first, command_folder(tmp_path) as second:
        assert {*tmp_path.iterdir()} == {first, second}
    assert not [*tmp_path.iterdir()]
