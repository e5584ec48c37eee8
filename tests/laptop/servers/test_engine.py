"""Preparing the engine: its class-data archive is recorded once; and how the shared engine is run."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from dedp_assets.graph.resources import engine as configuration
from dedp_assets.graph.resources.environments import settings
from dedp_assets.laptop.servers import engine

JAVA = """#!/bin/sh
echo 'openjdk version "21.0.1" 2025-01-01' >&2
"""
RECORDER = """#!{python}
import pathlib, re, sys, time
pathlib.Path(sys.argv[-1]).mkdir(parents=True)
draft = pathlib.Path(re.search(r"ArchiveClassesAtExit=(\\S+)", " ".join(sys.argv))[1])
draft.write_text("half")
time.sleep(0.3)
draft.write_text("whole")
"""


@pytest.fixture
def chosen(tmp_path, monkeypatch):
    """Settings with a cache and a Java of their own, and no jars to fetch."""
    program = tmp_path / "jdk" / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(JAVA)
    program.chmod(0o755)
    monkeypatch.setattr(configuration, "class_path", lambda _: [])
    return replace(settings(), cache=tmp_path / "cache", java="auto", java_home=program.parent.parent)


@pytest.fixture
def recorder(monkeypatch, tmp_path):
    """A program in place of Spark's, which records an archive and would not stand another in its folder."""
    submit = tmp_path / "submit"
    submit.write_text(RECORDER.format(python=sys.executable))
    submit.chmod(0o755)
    monkeypatch.setattr(engine, "_submit", lambda: str(submit))


def test_of_two_that_prepare_at_once_one_waits(chosen, recorder):
    """The archive is recorded once, and is never there by half."""
    with ThreadPoolExecutor(2) as both:
        ready = [both.submit(engine.prepare, chosen) for _ in range(2)]
        found = []
        while not all(one.done() for one in ready):
            found += [archive.read_text() for archive in chosen.cache.glob("*.jsa")]
        assert [one.result() for one in ready] == [None, None]
    assert {*found, configuration.class_archive(chosen).read_text()} == {"whole"}


def test_checkouts_that_share_a_cache_prepare_at_once(chosen, recorder, monkeypatch, tmp_path):
    """Each records an archive of its own, as its packages lie elsewhere."""
    archives = [tmp_path / "one.jsa", tmp_path / "other.jsa"]
    left = iter(archives)
    monkeypatch.setattr(engine, "class_archive", lambda _: next(left))
    with ThreadPoolExecutor(2) as both:
        list(both.map(engine.prepare, [chosen, chosen]))
    assert [archive.read_text() for archive in archives] == ["whole", "whole"]


def test_the_archive_is_recorded_while_the_block_runs(chosen, recorder):
    """The block starts before there is an archive, and its end waits for a whole one."""
    with engine.preparing(chosen):
        assert not configuration.class_archive(chosen).exists()
    assert configuration.class_archive(chosen).read_text() == "whole"


@pytest.mark.parametrize(
    ("stated", "used"),
    [
        ("local[2]", "local[2,4]"),
        ("local[*]", "local[*,4]"),
        ("local[2,1]", "local[2,1]"),
        ("yarn", "yarn"),
    ],
)
def test_the_shared_engine_tries_a_task_again_unless_somebody_decided(chosen, stated, used):
    """A failed query of one run may end a Python worker of another run."""
    assert f"spark.master={used}" in engine.connect_command(replace(chosen, master=stated), 15002)


def test_the_shared_engine_listens_on_the_loopback_interface_only(chosen):
    """Nobody on the network reaches an engine that has no password."""
    command = engine.connect_command(chosen, 15002)
    assert "spark.connect.grpc.binding.address=127.0.0.1" in command
    assert "spark.driver.bindAddress=127.0.0.1" in command
