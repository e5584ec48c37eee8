"""Milestones: commits that keep a version of a table under a name, or release the name."""

from __future__ import annotations

from dedp_assets.patterns.core.records import CommitRecord, Provenance
from dedp_assets.patterns.delta.commit import commits
from dedp_assets.patterns.delta.log.moments import RELEASED, log_properties, milestone_id, milestones
from dedp_assets.patterns.delta.log.table_state import TableState
from dedp_assets.patterns.delta.tables import Table

__all__ = ["put_milestone"]


def put_milestone(table: Table, state: TableState, name: str, version: int | None, run: Provenance) -> int:
    """Commit a milestone at a version, or the release of a milestone; return the table's new version.

    Args:
        table: the table.
        state: the newest state of the table.
        name: name of the milestone.
        version: version to keep; ``None`` for a release.
        run: who keeps or releases the version.

    Raises:
        Conflict: if another writer committed after ``state``.
    """
    rest = {each for each in milestones(table.ledger) if each != name}
    properties = log_properties(state, kept=bool(rest) or version is not None)
    return commits.commit_actions(
        table.store,
        state,
        [commits.with_properties(table.ledger, state, properties)] if properties else [],
        record=CommitRecord.of(run, content=f"milestone {name}", figures={"version": version}),
        operation=commits.Operation("KEEP VERSIONS"),
        transactions={milestone_id(name): RELEASED if version is None else version},
    )
