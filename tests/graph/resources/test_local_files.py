"""The engine's local file system: as Hadoop's own, without processes."""

from __future__ import annotations

import os
import stat
import subprocess
from itertools import product
from pathlib import Path

import pyspark
import pytest

from dedp_assets.graph.resources import engine
from dedp_assets.graph.resources.environments import settings
from dedp_assets.graph.resources.local_files import JAR, compile_local_files, local_files_conf

SHELL = "org.apache.hadoop.fs.FsShell"
NAMES = ("plain", "with space", "day=2026-01-05", "größe", "#50%")
MODES = ("rw-r--r--", "rwx------", "rw-rw-rw-", "rwxr-xr-x", "r--------", "rwxrwxrwt")


@pytest.fixture
def both(spark):
    """Hadoop's local file system and the engine's, by interface; the JVM of the session has both."""
    jvm = spark.sparkContext._gateway.jvm
    conf, root = spark.sparkContext._jsc.hadoopConfiguration(), jvm.java.net.URI.create("file:///")
    made = [jvm.org.apache.hadoop.fs.LocalFileSystem(), jvm.org.apache.hadoop.fs.FileSystem.get(root, conf)]
    made[0].initialize(root, conf)
    assert made[1].getClass().getName() == "dedp.LocalFiles"
    return jvm, made


def told(jvm, ask):
    """What a file system says of a file: fields of its status, or the kind of its refusal."""
    try:
        found = ask()
    except Exception as refusal:
        return type(refusal).__name__, refusal.java_exception.getClass().getName()
    names = ("getPath", "getLen", "isDirectory", "isSymlink", "getPermission", "getOwner", "getModificationTime")
    return [str(getattr(found, name)()) for name in names]


@pytest.mark.spark
def test_files_folders_and_links_are_those_of_hadoop(both, tmp_path):
    """Modes under every name, statuses, lists and links: both say and do the same."""
    jvm, systems = both
    path = lambda *parts: jvm.org.apache.hadoop.fs.Path(jvm.java.io.File(str(tmp_path.joinpath(*parts))).toURI())  # noqa: E731
    shell = jvm.org.apache.hadoop.fs.permission.FsPermission
    seen = []
    for number, system in enumerate(systems):
        below = f"of{number}"
        for name, mode in product(NAMES, MODES):
            system.mkdirs(path(below, mode, f"{name}.folder"))
            system.create(path(below, mode, name), True).close()
            for each in (name, f"{name}.folder"):
                system.setPermission(path(below, mode, each), shell.valueOf(f"-{mode}"))
        files = {file.relative_to(tmp_path / below): file for file in (tmp_path / below).rglob("*")}
        seen.append({name: stat.S_IMODE(file.stat().st_mode) for name, file in files.items()})
    assert seen[0] == seen[1]
    assert len(seen[0]) == len(MODES) * (1 + 3 * len(NAMES))  # a folder, a file and its checksum
    (tmp_path / "file").symlink_to(tmp_path / "of0" / MODES[0] / "plain")
    (tmp_path / "folder").symlink_to(tmp_path / "of0")
    (tmp_path / "dangling").symlink_to(tmp_path / "missing")
    for name in ("file", "folder", "dangling", "missing", "of0"):
        for ask in ("getFileStatus", "getFileLinkStatus"):
            said = [told(jvm, lambda s=system, a=ask, n=name: getattr(s, a)(path(n))) for system in systems]
            assert said[0] == said[1], (name, ask)
        lists = [_listed(system, path(name)) for system in systems]
        assert lists[0] == lists[1], name


def _listed(system, path):
    try:
        return sorted(str(each.getPath()) for each in system.listStatus(path))
    except Exception as refusal:
        return refusal.java_exception.getClass().getName()


@pytest.mark.spark
def test_a_commit_never_replaces_a_file(spark, both, tmp_path):
    """Delta's commits rename by the newer interface, and rely on its refusal."""
    jvm, _ = both
    context = jvm.org.apache.hadoop.fs.FileContext.getFileContext(spark.sparkContext._jsc.hadoopConfiguration())
    assert context.getDefaultFileSystem().getClass().getName() == "dedp.LocalFiles$Context"
    path = lambda name: jvm.org.apache.hadoop.fs.Path(f"file://{tmp_path}/{name}")  # noqa: E731
    nothing = spark.sparkContext._gateway.new_array(jvm.org.apache.hadoop.fs.Options.Rename, 0)
    (tmp_path / "first").write_text("first")
    (tmp_path / "second").write_text("second")
    context.rename(path("first"), path("a:commit.json"), nothing)
    with pytest.raises(Exception, match="FileAlreadyExistsException"):
        context.rename(path("second"), path("a:commit.json"), nothing)
    assert (tmp_path / "a:commit.json").read_text() == "first"


@pytest.mark.slow
@pytest.mark.parametrize("own", [True, False])
def test_no_process_is_started_for_a_file(tmp_path, own):
    """On a machine without programs a folder is made, which Hadoop's own file system cannot."""
    spark_jars = Path(pyspark.__file__).parent / "jars"
    jars = [*engine.engine_jars(settings()), *spark_jars.glob("*.jar")]
    chosen = {key.removeprefix("spark.hadoop."): value for key, value in local_files_conf(jars).items() if own}
    stated = "".join(f"<property><name>{key}</name><value>{value}</value></property>" for key, value in chosen.items())
    (tmp_path / "core-site.xml").write_text(f"<configuration>{stated}</configuration>")
    java = (engine.java_home(settings()) / "runtime").resolve()
    done = subprocess.run(
        [java, "-cp", ":".join(map(str, [tmp_path, *jars])), SHELL, "-mkdir", f"file://{tmp_path}/made"],
        env={**os.environ, "PATH": str(tmp_path)},  # noqa: TID251 - of another program
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == (0 if own else 1), done.stderr
    assert (tmp_path / "made").is_dir()
    assert ('Cannot run program "chmod"' in done.stderr) is not own


def test_without_a_compiler_hadoop_stays_as_it_is(tmp_path):
    """A runtime alone has none: no jar, no setting."""
    compile_local_files(tmp_path, [tmp_path.joinpath("java")] if tmp_path.joinpath("java").exists() else [])
    assert not (tmp_path / JAR).exists()
    assert local_files_conf(tmp_path.iterdir()) == {}
