"""Hadoop's local file system by Java calls: ``LocalFiles.java``, compiled once beside the jars."""

from __future__ import annotations

import logging
import subprocess
import tempfile
import zipfile
from collections.abc import Iterable
from pathlib import Path

import pyspark

__all__ = ["JAR", "SOURCE", "compile_local_files", "local_files_conf"]

SOURCE = Path(__file__).with_name("LocalFiles.java")
"""The file system, and why there is one."""
JAR = "local-files.jar"
"""Name of the jar with the compiled file system."""

_COMPILER = "jdk.compiler/com.sun.tools.javac.Main"
_OLDEST_JAVA = "17"
_LOG = logging.getLogger(__name__)


def compile_local_files(folder: Path, javas: Iterable[Path]) -> None:
    """Compile the file system into a jar of ``folder``, by the first runtime that has a compiler.

    Without one there is no jar, and Hadoop starts its processes, which is slower and nothing else.

    Args:
        folder: the folder of the engine's jars.
        javas: Java executables.
    """
    (hadoop,) = (Path(pyspark.__file__).parent / "jars").glob("hadoop-client-api-*.jar")
    options = ["--release", _OLDEST_JAVA, "-proc:none", "-classpath", str(hadoop)]
    with tempfile.TemporaryDirectory() as made:
        for java in javas:
            command = [str(java), "-m", _COMPILER, *options, "-d", made, str(SOURCE)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode == 0:
                with zipfile.ZipFile(folder / JAR, "w") as jar:
                    for file in sorted(Path(made).rglob("*.class")):
                        jar.write(file, file.relative_to(made).as_posix())
                return
    _LOG.info("no Java compiler is here: Hadoop starts a process for each local file")


def local_files_conf(jars: Iterable[Path]) -> dict[str, str]:
    """Return the Spark configuration for the compiled file system; empty if the jars do not include one."""
    if all(jar.name != JAR for jar in jars):
        return {}
    return {
        "spark.hadoop.fs.file.impl": "dedp.LocalFiles",
        "spark.hadoop.fs.AbstractFileSystem.file.impl": "dedp.LocalFiles$Context",
    }
