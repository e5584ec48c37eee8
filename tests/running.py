"""How a run of the tests goes: its options, its engine, and which of its processes load what tests use."""

from __future__ import annotations

import gc
import warnings
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from _pytest.config import apply_warning_filters
from hypothesis import settings as hypothesis_settings
from xdist.scheduler import LoadFileScheduling

from dedp_assets.graph.resources.environments import apply

# Of the graph that tests load, whose data are of January 2026; a conftest may import it before the fixtures are there.
apply({"DEDP_FIRST_DAY": "2025-12-06"})

hypothesis_settings.register_profile("default", deadline=None, max_examples=25)  # no test asserts an absolute time
hypothesis_settings.load_profile("default")
hypothesis_settings.register_profile("fuzz", deadline=None, max_examples=2000)  # --hypothesis-profile=fuzz

_OF_DAGSTER = ("BetaWarning", "PreviewWarning", "SupersessionWarning")
"""Dagster marks partitioned checks as preview and some asset arguments as beta on every load."""

WITH_DAEMONS = frozenset([
    "tests/case_study/assets/test_daemon.py", "tests/case_study/assets/test_fan_in_daemon.py",
    "tests/case_study/assets/test_locations.py",
    "tests/case_study/assets/test_runners.py", "tests/laptop/test_first_hour.py", "tests/laptop/test_processes.py",
    "tests/ui/test_status_page.py", "tests/ui/test_ui.py",
])  # fmt: skip
"""Files that start daemons and servers. One process runs them one after the other: at once they would starve each other
on two cores, and wait in vain."""

LAKES = "DEDP_TEST_LAKES"
"""The variable with the prefix of a bucket below which the platforms of tests have their lakes; not set for folders."""
REMOTE = "DEDP_TEST_REMOTE"
"""The variable with the address of the Spark Connect server that the platforms of tests use; not set without one."""
CONNECT_SERVER = pytest.StashKey[str]()
ENGINE_PROCESS = pytest.StashKey[int]()
"""The process of the engine that all test processes of a run share."""
_SHARED_ENGINE = pytest.StashKey[Any]()
_TESTS_DONE = pytest.StashKey[int]()
_TESTS_BETWEEN = 20
"""After so many tests of a file, and after each file, all garbage is looked for; that takes a tenth of a second."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--engine",
        choices=["embedded", "shared", "connect"],
        default="embedded",
        help="the Spark engine to test on: one for each test process, one for all of them, or one over Spark Connect",
    )
    parser.addoption(
        "--lake",
        choices=["folder", "s3"],
        default="folder",
        help="where the platforms of tests have their tables: below the test's folder, or in a bucket of a server",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Load the fixtures, but not where other processes run the tests: what they import takes two seconds."""
    if hasattr(config, "workerinput") or config.getoption("dist", "no") == "no":
        gc.disable()  # nothing that is imported is garbage
        for warning in _OF_DAGSTER:
            config.addinivalue_line("filterwarnings", f"ignore::dagster.{warning}")
        with warnings.catch_warnings():  # as pytest does where it loads plugins: a warning of an import is an error
            apply_warning_filters(config.getini("filterwarnings"), [])
            for plugin in ("tests.fixtures", "tests.examples"):
                config.pluginmanager.import_plugin(plugin)


class _ByFile(LoadFileScheduling):
    """A process for each file at a time, and one process for all files with daemons."""

    def _split_scope(self, nodeid: str) -> str:
        file = super()._split_scope(nodeid)
        return "daemons" if file in WITH_DAEMONS else file


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> _ByFile | None:
    """Divide the tests among the processes of a run, in place of xdist's way by file."""
    return _ByFile(config, log) if config.getoption("dist") == "loadfile" else None


def pytest_sessionstart(session: pytest.Session) -> None:
    """Start the engine that all test processes of a run share, in the process that starts them."""
    config = session.config
    chosen = config.getoption("--engine")
    if hasattr(config, "workerinput"):
        return
    if config.getoption("--lake") == "s3":
        _serve_lake(config)
    if chosen != "embedded":
        _start(config, connect=chosen == "connect")


def _serve_lake(config: pytest.Config) -> None:
    """Start an object store, and name it in the environment of all test processes and their engine."""
    from tests.object_store import serving

    running = ExitStack()
    config.add_cleanup(running.close)
    folder = Path(running.enter_context(TemporaryDirectory())) / "objects"
    served = running.enter_context(serving(folder))
    apply({**served.environment, LAKES: f"s3://{served.bucket}/lakes"})


def _start(config: pytest.Config, *, connect: bool) -> None:
    from dedp_assets.graph.resources.environments import settings
    from dedp_assets.laptop.servers import engine
    from tests import shared_engine
    from tests.helpers import connect_server

    if connect:
        chosen, running = replace(settings(), jit="quick", master="local[2]"), ExitStack()
        engine.prepare(chosen)
        config.stash[CONNECT_SERVER] = running.enter_context(connect_server(chosen))
        apply({REMOTE: config.stash[CONNECT_SERVER]})
        config.add_cleanup(running.close)
    else:
        chosen = replace(settings(), jit="steady", master="local[4]", driver_memory="4g")
        engine.prepare(chosen)
        gateway = shared_engine.start(chosen, chosen.cache / "spark" / "shared_engine.log")
        config.stash[_SHARED_ENGINE], config.stash[ENGINE_PROCESS] = gateway, gateway.proc.pid


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Show how full the shared engine's heap is at the end."""
    if _SHARED_ENGINE in config.stash:
        from tests import shared_engine

        terminalreporter.write_line(f"left in use: {shared_engine.heap_left(config.stash[_SHARED_ENGINE])}")


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a test process of pytest-xdist where the shared engine is."""
    stash = node.config.stash
    node.workerinput["connect"] = stash.get(CONNECT_SERVER, "")
    node.workerinput["gateway"] = ()
    node.workerinput["engine"] = stash.get(ENGINE_PROCESS, 0)
    if _SHARED_ENGINE in stash:
        from tests import shared_engine

        node.workerinput["gateway"] = shared_engine.open_gateway(stash[_SHARED_ENGINE])


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Look for all garbage now and then: what Python still holds of Spark, plans of megabytes, the engine keeps."""
    done = item.session.stash.setdefault(_TESTS_DONE, 0) + 1
    item.session.stash[_TESTS_DONE] = done
    if done % _TESTS_BETWEEN == 0 or nextitem is None or nextitem.path != item.path:
        gc.collect()


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Look for garbage from here on, as a test makes much and keeps little; what was imported stays."""
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
    gc.enable()
