"""The consumers that a change of a contract affects, by columns and column lineage."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from dedp_assets.patterns.core.sql.column_lineage import ColumnInput, ColumnLineage, Influence, overlap
from dedp_assets.patterns.governance._changes import Difference, Perspective
from dedp_assets.patterns.governance._contracts import Consumer, Contract

__all__ = ["affected_by"]


def affected_by(
    old: Contract,
    new: Contract,
    breaking: Collection[Difference],
    lineages: Mapping[str, ColumnLineage],
    perspectives: Collection[Perspective],
) -> dict[str, str]:
    """Return the affected consumers, by name, each with the contact; the producer by the owner's name."""
    hits = [each for each in breaking if "consumer" in each.breaks and "consumer" in perspectives]
    known = {each.name: each for each in (*new.consumers, *old.consumers)}
    found = {name: each.contact for name, each in known.items() if any(_reads(each, hit) for hit in hits)}
    changed = {each for hit in hits for each in hit.columns or ("",)}
    for name in _downstream(old.name, changed, lineages):
        found[name] = known[name].contact if name in known else name
    tighter = any("producer" in each.breaks for each in breaking) and "producer" in perspectives
    return {**found, **({old.owner: old.owner} if tighter else {})}


def _reads(consumer: Consumer, difference: Difference) -> bool:
    """Return whether a difference concerns a consumer."""
    if consumer.columns is None or not difference.columns:
        return True
    return any(overlap(mine, changed) for mine in consumer.columns for changed in difference.columns)


def _downstream(name: str, columns: Collection[str], lineages: Mapping[str, ColumnLineage]) -> Iterator[str]:
    """Yield the datasets with values from changed columns of a table, or with rows chosen by the columns.

    An opaque column of a dataset that reads the table may come from any column.
    """
    changed: dict[str, set[str]] = {name: {*columns}} if columns else {}
    grown = bool(changed)
    while grown:  # ends: columns are only added
        grown = False
        for dataset, lineage in lineages.items():
            hit = _hit(lineage, changed)
            if hit - changed.get(dataset, set()):
                if dataset not in changed:
                    yield dataset
                changed.setdefault(dataset, set()).update(hit)
                grown = True


def _hit(lineage: ColumnLineage, changed: Mapping[str, Collection[str]]) -> set[str]:
    """Return the columns of a dataset downstream of changed columns; an empty name means all."""

    def is_hit(each: ColumnInput | Influence) -> bool:
        return any(not column or overlap(each.path, column) for column in changed.get(each.table, ()))

    if any(is_hit(each) for each in lineage.influences):
        return {""}
    reads = any(each.table in changed for _, each in lineage.references)
    return {
        column
        for column, origin in lineage.columns.items()
        if any(is_hit(each) for each in origin.inputs) or (reads and origin.opaque)
    }
