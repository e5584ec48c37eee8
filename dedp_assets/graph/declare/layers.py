"""Short forms of a declaration: a fact in place of a record, and facts for all tables of a layer."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg

from dedp_assets.graph.declare.defaults import takes_volume
from dedp_assets.graph.declare.partitions import DAILY
from dedp_assets.graph.declare.records import EMPTY, About, Gates, Reads
from dedp_assets.graph.declare.rules import not_a
from dedp_assets.graph.declare.runs import Nightly, OnRequest, Runs, Start
from dedp_assets.graph.inputs.feeds import Feed, same, whole
from dedp_assets.patterns.core.audits import Audit
from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.results import WriteResult
from dedp_assets.patterns.core.schema import TableSpec

if TYPE_CHECKING:
    from dedp_assets.graph.declare.tables import LakeTable

__all__ = [
    "SaysAbout", "SaysGates", "SaysReads", "SaysRuns", "about_of", "gates_of", "module_of", "reads_of", "reasons_of",
    "runs_of",
]  # fmt: skip

SaysReads = Reads | Mapping[TableSpec, Feed] | Sequence[TableSpec]
"""Inputs of a table: ``Reads``, or upstream tables with or without mappings of partitions."""
SaysRuns = Runs | dg.PartitionsDefinition[str] | Start | None
"""Runs of a table: ``Runs``, partitions, or a start; by default those of the upstream tables."""
SaysGates = Gates | Sequence[Audit]
"""Gates of a table: ``Gates``, or audits."""
SaysAbout = About | str | None
"""Facts of a table: an ``About``, or the names of the table's readers; by default the layer's ``ABOUT``."""

_LAYER = "ABOUT"


def reads_of(stated: SaysReads, spec: TableSpec, runs: Runs) -> Reads:
    """Return the inputs of a table.

    An upstream table that is only named feeds a partition of the declared table by the partition with the same value
    in the first partition column, and a table without partitions by all its rows.

    Raises:
        ConfigError: if a table that is only named has another first partition column.
    """
    if isinstance(stated, Reads):
        return stated
    if not _are(TableSpec, stated):
        raise not_a(Reads, spec.name, stated)
    if isinstance(stated, Mapping):
        return Reads({**stated})
    return Reads({table: _feed(table, spec, runs) for table in stated})


def runs_of(stated: SaysRuns, spec: TableSpec, reads: SaysReads) -> Runs:
    """Return the runs of a table.

    Where upstream tables are only named and no partitions are stated, a table by a DATE has a partition a day.
    """
    if isinstance(stated, dg.PartitionsDefinition):
        return Runs(stated)
    runs = Runs(when=stated) if isinstance(stated, Start) else Runs() if stated is None else stated
    if not isinstance(runs, Runs):
        raise not_a(Runs, spec.name, stated)
    if runs.partitions is not None or isinstance(reads, Reads | Mapping) or not _are(TableSpec, reads):
        return runs
    return replace(runs, partitions=_partitions(spec, reads))


def gates_of(stated: SaysGates, spec: TableSpec, writes: Sequence[Callable[..., Any]] = ()) -> Gates:
    """Return the gates of a table, with the check of the writing pattern for a partition without rows.

    Args:
        stated: the declared gates.
        spec: the table.
        writes: the patterns at work; a ``partial`` is called with no further option.
    """
    gates = stated
    if not isinstance(gates, Gates):
        if not _are(Audit, gates):
            raise not_a(Gates, spec.name, gates)
        gates = Gates(tuple(gates))
    for each in writes if not gates.if_empty and EMPTY not in gates.checks else ():
        called = inspect.signature(each)
        option = called.parameters.get("allow_empty")
        if option and called.return_annotation in (WriteResult, WriteResult.__name__):
            does = ("Warns of" if option.default else "Refuses") if isinstance(each, partial) else "Refuses or warns of"
            return replace(gates, if_empty=f"{does} a partition without rows.")
    return gates


def about_of(stated: SaysAbout, table: str, module: str) -> About:
    """Return the facts of a table, completed by the facts of the layer.

    The layer's are the record ``ABOUT`` of the nearest package around the module. Mappings hold what both state.

    Args:
        stated: facts of the table.
        table: name of the table.
        module: name of the module that declares the table.
    """
    own = About(used_by=stated) if isinstance(stated, str) else stated or About()
    if not isinstance(own, About):
        raise not_a(About, table, own)
    layer, default, taken = _layer(module), About(), dict[str, Any]()
    for name in (each.name for each in fields(About)):
        mine, theirs = getattr(own, name), getattr(layer, name)
        if isinstance(theirs, Mapping) and isinstance(mine, Mapping):
            taken[name] = {**theirs, **mine}
        elif mine == getattr(default, name):
            taken[name] = theirs
    return replace(own, **taken)


def reasons_of(declared: LakeTable[...]) -> dict[str, str]:
    """Return the reasons why a table does without default checks.

    Stated, or known by starts and partitions.

    Returns:
        Kind of default check -> the reason.
    """
    runs, about, known = declared.runs, declared.about, dict[str, str]()
    if runs.of(OnRequest):
        known["completeness"] = "made when somebody asks for it"
        known |= {} if about.fresh_hours else {"freshness": known["completeness"]}
    if runs.of(Nightly) and not runs.follows:
        which = "in their order" if runs.in_order else "of its lookback that are missing"
        known["completeness"] = f"its schedule asks for the partitions {which}"
    if not takes_volume(declared):
        known |= {} if about.expects.volume else {"volume": "it has no partitions of its own to compare"}
        if not all(column.required for column in declared.spec.columns.values()):
            known["null_shares"] = "it has no partitions of its own to compare"
    return {**known, **about.unchecked}


def module_of(file: str) -> str:
    """Return a module name for a YAML file, by the nearest imported package around the file."""
    packages = {each.__file__: name for name, each in [*sys.modules.items()] if getattr(each, "__path__", None)}
    around = (packages.get(str(folder / "__init__.py")) for folder in Path(file).parents)
    return f"{next(filter(None, around), '')}.{Path(file).stem}"


def _layer(module: str) -> About:
    while module := module.rpartition(".")[0]:
        found = getattr(sys.modules.get(module), _LAYER, None)
        if isinstance(found, About):
            return found
    return About()


def _are(kind: type, stated: object) -> bool:
    return isinstance(stated, Mapping | Sequence) and all(isinstance(each, kind) for each in stated)


def _partitions(spec: TableSpec, reads: Sequence[TableSpec]) -> dg.PartitionsDefinition[str] | None:
    own = spec.partition_by[0] if spec.partition_by else spec.executed_by
    columns = {**{name: column for table in reads for name, column in table.columns.items()}, **spec.columns}
    return DAILY if own in columns and columns[own].type.upper() == "DATE" else None


def _feed(table: TableSpec, spec: TableSpec, runs: Runs) -> Feed:
    if runs.partitions is None:
        return whole()
    column = spec.partition_by[0] if spec.partition_by else spec.executed_by
    if table.partition_by[:1] != (column,):
        raise ConfigError(
            f"{spec.name}: reads must say how partitions of {table.name} feed those by {column} ({{{table.name}: "
            f"by_event(...)}}), not only name it: it is partitioned by {', '.join(table.partition_by) or 'nothing'}"
        )
    return same(column)
