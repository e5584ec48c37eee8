"""Dagster's webserver over a code location in this process, for tests of those who start jobs by GraphQL."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import dagster as dg
from dagster._core.remote_origin import InProcessCodeLocationOrigin  # noqa: TID251 - no process for the code
from dagster._core.test_utils import InProcessTestWorkspaceLoadTarget  # noqa: TID251
from dagster._core.types.loadable_target_origin import LoadableTargetOrigin  # noqa: TID251
from dagster._core.workspace.context import WorkspaceProcessContext  # noqa: TID251
from dagster_webserver.app import create_app_from_workspace_process_context

from tests.fixtures import answering

__all__ = ["webserver"]


@contextmanager
def webserver(instance: dg.DagsterInstance, *, module: str, location: str) -> Iterator[str]:
    """The URL of a webserver over one code location and an instance; runs wait in the queue, as no daemon runs."""
    code = InProcessCodeLocationOrigin(LoadableTargetOrigin(module_name=module), location_name=location)
    with (
        WorkspaceProcessContext(instance, InProcessTestWorkspaceLoadTarget(code)) as workspace,
        answering(create_app_from_workspace_process_context(workspace), lifespan="off") as url,
    ):
        yield url
