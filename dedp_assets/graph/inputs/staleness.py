"""Staleness: whether a partition is current, by the applied upstream version, the inputs and the code.

A partition is asked for if the version that a run would apply now (:func:`needed_versions`) is newer than the applied
one: two numbers, cheap for all partitions of a graph. A run that was asked for holds the partition's last commit
against its inputs and code (:func:`is_computed_from`), and computes nothing if they are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cache, partial
from typing import Any

from dedp_assets.graph.inputs.feeds import Feed, pin
from dedp_assets.graph.inputs.revisions import Revisions
from dedp_assets.patterns.core.errors import NotReady
from dedp_assets.patterns.core.schema import TableSpec
from dedp_assets.patterns.delta import Commit, Table

__all__ = ["FannedIn", "is_computed_from", "needed_versions"]

FannedIn = Callable[[TableSpec, Feed, str], int]
"""Upstream table, feed and partition key -> upstream version that a run would apply; raises ``NotReady``."""


def is_computed_from(commit: Commit | None, inputs: Mapping[str, Any], code_version: str) -> bool:
    """Return whether a partition's last commit was computed from the same inputs by the same code."""
    record = commit.record if commit else None
    return record is not None and (record.inputs, record.code_version) == (inputs, code_version)


def needed_versions(
    upstream: Mapping[TableSpec, Feed],
    newest: Mapping[str, Mapping[str, int]],
    keys: Collection[str],
    *,
    table_of: Callable[[TableSpec], Table],
    revisions: Iterable[Revisions] = (),
    fanned_in: FannedIn | None = None,
) -> dict[str, int]:
    """Return the upstream version that a run of each partition would apply now.

    It is the sum over all upstream tables, so that a change of any of them raises it. Partitions that are not ready are
    left out.

    Args:
        upstream: upstream table -> partition mapping.
        newest: upstream table -> partition key -> newest version that feeds it, as far as known.
        keys: the partition keys.
        table_of: finds a table by its declaration, for keys whose upstream changed nothing.
        revisions: commits of each reference with revisions.
        fanned_in: finds the version of a key with a fan-in, by what is known of its branches; by default from the log.
    """
    needed = dict.fromkeys(keys, 0)
    for spec, feed in upstream.items():
        known, table = newest[spec.name], cache(partial(table_of, spec))
        for key in list(needed):
            try:
                if feed.fan_in is not None and fanned_in is not None:
                    needed[key] += fanned_in(spec, feed, key)
                elif key in known and feed.fan_in is None:
                    needed[key] += known[key]
                else:
                    needed[key] += pin(table(), feed, key).changed
            except NotReady:
                del needed[key]
    for each in revisions:
        for key in needed:
            needed[key] += each.newest(key)
    return needed
