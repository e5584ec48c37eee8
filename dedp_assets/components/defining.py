"""Dagster's definitions of declared tables, and of tables whose declaration has faults."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256
from itertools import chain
from typing import TypeVar

import dagster as dg

from dedp_assets.components.yaml.documents import Document, Path
from dedp_assets.components.yaml.faults import Fault
from dedp_assets.graph.catalogue.table_names import is_table_name
from dedp_assets.graph.checks.stored import stored_checks
from dedp_assets.graph.declare import LakeTable, starting
from dedp_assets.graph.declare.replays import replay_asset
from dedp_assets.patterns.core.errors import ConfigError

__all__ = ["REFUSED", "all_refused", "defined", "definitions_of", "first_sentence", "refused"]

REFUSED = "refused"
"""Group of the assets of tables with a faulty declaration."""
_NOT_LOADED = "This table is not loaded.\n\n"
D = TypeVar("D")
_ODD = re.compile(r"\W+", re.ASCII)


def definitions_of(tables: Sequence[LakeTable[...]]) -> dg.Definitions:
    """Return assets, checks, jobs, schedules and sensors of tables, without sensors over the graph."""
    return dg.Definitions.merge(
        starting(tables),
        dg.Definitions(
            assets=[
                *(table.definition() for table in tables),
                *(replay_asset(table, table.runs.replay) for table in tables if table.runs.replay),
            ],
            asset_checks=[stored_checks(table) for table in tables],
        ),
    )


def defined(
    declared: D, document: Document, make: Callable[[D], dg.Definitions]
) -> tuple[dg.Definitions | None, list[Fault]]:
    """Return the definitions of a declaration, or the fault.

    Dagster refuses some names, owners and schedules.

    Args:
        declared: the declaration.
        document: the document that states it.
        make: makes the definitions.
    """
    try:
        return make(declared), []
    except Exception as error:
        sentence = first_sentence(error)
        return None, [Fault.at(document, _mentioned(document, sentence), sentence)]


def first_sentence(error: Exception) -> str:
    """Return the first line of an error that is not empty, or the name of the error."""
    return next((line for line in str(error).splitlines() if line.strip()), type(error).__name__).strip()


def refused(name: str, faults: Iterable[Fault]) -> dg.Definitions:
    """Return the asset of a table with a faulty declaration: the faults as text, and no computation."""
    lines = [str(fault) for fault in faults]
    sentence = "\n\n".join(lines)
    # The beginning may be a long path alone, which all faults of a project share.
    own = f"{re.sub(_ODD, '_', lines[0])[:80]}_{sha256(sentence.encode('utf-8', 'replace')).hexdigest()[:8]}"
    key = name.split("/") if is_table_name(name) else [REFUSED, own]

    @dg.asset(key=key, description=f"{_NOT_LOADED}{sentence}", kinds={"refused"}, group_name=REFUSED)
    def refuse() -> None:
        raise ConfigError(sentence)

    return dg.Definitions(assets=[refuse])


def all_refused(refusals: Iterable[tuple[str, Sequence[Fault]]]) -> dg.Definitions:
    """Return the assets of all tables with a fault.

    Several refusals without a name and with the same fault are one asset.
    """
    distinct = {(name, *map(str, faults)): (name, faults) for name, faults in refusals}
    return dg.Definitions.merge(*(refused(*each) for each in distinct.values()))


def _mentioned(document: Document, sentence: str) -> Path:
    """Return the path of the text of a document that a sentence quotes or names."""
    texts = sorted(((len(text), text, path) for path, text in document.texts() if len(text) > 2), reverse=True)
    marks = ("'{}'", '"{}"', ": {}")
    quoted = (path for _, text, path in texts if any(mark.format(text) in sentence for mark in marks))
    named = (path for _, text, path in texts if path[-1] == "name" and text.replace("/", "_") in sentence)
    held = (path for _, text, path in texts if text in sentence)
    return next(chain(quoted, named, held), ("attributes",))
