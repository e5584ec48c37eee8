"""Dagster's webserver as an application, for a server behind TLS and a token.

The program ``dagster-webserver`` knows neither.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager

import dagster as dg

# What the program of the webserver makes its application of; nothing public makes one.
from dagster._core.workspace.context import WorkspaceProcessContext  # noqa: TID251
from dagster._core.workspace.load_target import WorkspaceFileTarget  # noqa: TID251
from dagster_webserver.app import create_app_from_workspace_process_context
from dagster_webserver.cli import (
    DEFAULT_DB_STATEMENT_TIMEOUT,
    DEFAULT_POOL_MAX_OVERFLOW,
    DEFAULT_POOL_RECYCLE,
)
from dagster_webserver.version import __version__
from starlette.applications import Starlette

from dedp_assets.graph.resources.environments import settings
from dedp_assets.laptop.orchestration.code_server import FILE

__all__ = ["application"]

_POLL_MILLISECONDS = 2_000
"""How often pages ask for news; the default of the program."""


def application() -> Starlette:
    """Make the application for the home of this process; the code servers of the workspace may come later."""
    home = settings().dagster_home
    with ExitStack() as opened:
        instance = opened.enter_context(dg.DagsterInstance.from_config(str(home)))
        instance.optimize_for_webserver(DEFAULT_DB_STATEMENT_TIMEOUT, DEFAULT_POOL_RECYCLE, DEFAULT_POOL_MAX_OVERFLOW)
        code = WorkspaceFileTarget([str(home / FILE)])
        workspace = opened.enter_context(WorkspaceProcessContext(instance, code, version=__version__))
        closing = opened.pop_all()

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        with closing:
            yield

    return create_app_from_workspace_process_context(
        workspace, live_data_poll_rate=_POLL_MILLISECONDS, lifespan=lifespan
    )
