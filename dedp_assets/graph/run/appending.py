"""Append step over the current upstream data, with a report of the partitions that got rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType

import dagster as dg

from dedp_assets.graph.catalogue.figures import Figure
from dedp_assets.graph.catalogue.rendering import metadata_of
from dedp_assets.graph.catalogue.sources import Source
from dedp_assets.graph.outcomes.failures import cause_of
from dedp_assets.graph.outcomes.run_tags import provenance_of
from dedp_assets.graph.resources.masking import shown
from dedp_assets.graph.run.attempts import Attempts
from dedp_assets.graph.run.observed import observed_append
from dedp_assets.patterns.core.records import Provenance
from dedp_assets.patterns.delta import Commit, Table

__all__ = ["Appending", "appending"]


@dataclass(slots=True)
class Appending:
    """A run that appends to a table.

    Attributes:
        provenance: what its commits will say about it.
        cursor: the position it goes on from, for the tag of a refusal.
    """

    provenance: Provenance
    cursor: str = ""


@contextmanager
def appending(
    context: dg.OpExecutionContext,
    table: Table,
    *,
    code_version: str,
    column: str,
    at: datetime,
    figures: Mapping[str, Figure | str] = MappingProxyType({}),
    sources: Sequence[Source] = (),
) -> Iterator[Appending]:
    """Run the block as one step that appends to ``table``, and report the partitions that got rows.

    Args:
        context: Dagster's.
        table: where the block appends, in commits of its own.
        code_version: version of the code that computes the rows.
        column: partition column of the table that the asset is partitioned by.
        at: when the run started.
        figures: how the table's figures are shown.
        sources: systems outside of the lake that the block reads, for the lineage.

    Raises:
        dagster.Failure: if rows were refused or the upstream is not ready; what was appended before is reported.
        dagster.RetryRequested: if another writer was in the way, or something did not answer in time.
    """
    before = table.ledger.version() if table.ledger.exists() else -1
    step = Appending(provenance_of(context.run, table.name, code_version=code_version, at=at))
    attempts = Attempts(context, table.name)
    with observed_append(context, table, sources) as seen:
        try:
            with attempts.at(""):
                yield step
        finally:
            seen.commits = _report_appended(context, table, before, column, figures)
        seen.error = "; ".join(str(error) for error in (*attempts.errors.values(), *(attempts.broken or ())[1:]))
    attempts.tag_refused(lambda _: step.cursor)
    attempts.raise_retry()
    attempts.raise_broken()
    for error in attempts.errors.values():
        # No command approves or forces a stream, so the error's own words say what to do.
        raise dg.Failure(shown(str(error)), allow_retries=False) from cause_of(error)


def _report_appended(
    context: dg.OpExecutionContext, table: Table, before: int, column: str, figures: Mapping[str, Figure | str]
) -> list[Commit]:
    """Record a materialization of each partition with new rows of this run, and return the run's commits."""
    commits = table.ledger.commits(since=before) if table.ledger.exists() else ()
    ours = [c for c in commits if c.record and c.record.run_id == context.run.run_id]
    changed = [(dict(partition)[column], commit) for commit in ours for partition in commit.changed]
    newest: dict[str, Commit | None] = {key: commit for key, commit in changed if key is not None}
    metadata_by_key = metadata_of(table, dict(sorted(newest.items())), {}, column=column, figures=figures)
    for key, metadata in metadata_by_key.items():
        context.log_event(dg.AssetMaterialization(table.name.split("/"), partition=key, metadata=metadata))
    return ours
