"""Subject access: the rows of a person in every table, with origin."""

from __future__ import annotations

import html
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from dedp_assets.graph.erasure.erasing import Eraser
from dedp_assets.patterns.connectors.secrets.key_files import replace_private
from dedp_assets.patterns.governance.gdpr_erase import Erasure, Persons
from dedp_assets.patterns.governance.purpose_based_access_control import (
    AccessRequest,
    AccessRules,
    AccessTier,
    Grants,
    Purpose,
    open_for,
    request_access,
)

__all__ = ["Known", "known_of", "write_known"]

PURPOSE = Purpose(name="subject access", tables=("*",), personal=True, needs=("case",))
"""All that is known of a person, but for secrets; the case is the request of the person."""
RULES = AccessRules(
    purposes=(PURPOSE,), tiers=[AccessTier(name=name) for name in ("public", "internal", "restricted", "confidential")]
)
"""Access rules of subject access: tiers without trainings and approvers."""
_MOST = 100_000


@dataclass(frozen=True, slots=True)
class Known:
    """Rows of a person in a table.

    Attributes:
        table: name of the table.
        version: version of the table that was read.
        comment: meaning of a row.
        upstream: tables and sources that the rows were computed from.
        columns: column -> meaning, of the columns that are shown.
        withheld: columns that are shown to nobody, by class.
        rows: the rows, up to 100,000.
        count: number of rows.
    """

    table: str
    version: int
    comment: str
    upstream: Sequence[str]
    columns: Mapping[str, str]
    withheld: Sequence[str]
    rows: Sequence[Mapping[str, Any]]
    count: int


def known_of(eraser: Eraser, erasure: Erasure, upstream: Mapping[str, Sequence[str]], *, by: str) -> list[Known]:
    """Read the rows of a person in every table that declares persons, for the purpose of subject access.

    Args:
        eraser: the places of the platform.
        erasure: the person, as for an erasure; its request is the case in the audit.
        upstream: table -> tables and sources that the table is computed from.
        by: who asks, by whom the audit calls the access.

    Raises:
        ConfigError: for a kind of person that no table declares.
        ContractError: if the ids lead to too many persons.
    """
    tables = eraser.with_persons()
    persons = Persons.found(tables, erasure.ids, eraser.lake.suppression())
    grants = Grants.of(eraser.home)
    ask = AccessRequest(user=by, purpose=PURPOSE.name, justification=erasure.because, case=erasure.request)
    request_access(tables, ask, grants, at=erasure.at, hours=1, rules=RULES)
    opened = open_for(tables, ask, grants, at=erasure.at, rules=RULES)
    found = []
    for table in tables:
        version = table.ledger.version()
        secret = [name for name, column in table.spec.columns.items() if column.classification == "secret"]
        shown = persons.rows(table, opened[table.name])
        held = [row.asDict(recursive=True) for row in shown.limit(_MOST + 1).collect()]
        count = len(held) if len(held) <= _MOST else shown.count()
        if not held:
            continue
        meanings = {name: table.spec.columns[name].comment for name in shown.columns if name in table.spec.columns}
        comment, origin = table.spec.comment, upstream.get(table.name, ())
        found.append(Known(table.name, version, comment, origin, meanings, secret, held[:_MOST], count))
    return found


def write_known(found: Sequence[Known], folder: Path, *, request: str, at: datetime) -> tuple[Path, Path]:
    """Write a person's rows as JSON and as a page, for their owner alone.

    Args:
        found: the rows.
        folder: folder of the files.
        request: name of the request, which the files are called after.
        at: time of the request.

    Returns:
        The file of JSON, and the page.
    """
    document = {"request": request, "at": at.isoformat(), "tables": [asdict(each) for each in found]}
    files = folder / f"{request}.json", folder / f"{request}.html"
    replace_private(files[0], json.dumps(document, indent=1, default=_plain).encode())
    replace_private(files[1], "".join(_page(found, request, at)).encode())
    return files


def _plain(value: object) -> str:
    return value.hex() if isinstance(value, bytes | bytearray) else str(value)


def _page(found: Sequence[Known], request: str, at: datetime) -> Iterator[str]:
    """Write the page: meaning, origin and rows of each table."""
    yield f"<!doctype html><meta charset=utf-8><title>{html.escape(request)}</title>"
    yield "<style>body{font:14px sans-serif;margin:2em}table{border-collapse:collapse}td,th{border:1px solid #bbb;"
    yield "padding:2px 6px;text-align:left;vertical-align:top}</style>"
    yield f"<h1>{html.escape(request)}</h1><p>As of {at:%Y-%m-%d %H:%M} UTC."
    for each in found:
        yield f"<h2>{html.escape(each.table)}</h2><p>{html.escape(each.comment)} {each.count} rows"
        yield f", computed from {html.escape(', '.join(each.upstream))}" if each.upstream else ""
        yield f"; not shown: {html.escape(', '.join(each.withheld))}.</p><table>" if each.withheld else ".</p><table>"
        names = list(each.rows[0])
        titles = [f'<th title="{html.escape(each.columns.get(name, ""))}">{html.escape(name)}' for name in names]
        yield f"<tr>{''.join(titles)}"
        for row in each.rows:
            yield "<tr>" + "".join(f"<td>{_cell(row[name])}" for name in names)
        yield "</table>"


def _cell(value: object) -> str:
    return "" if value is None else html.escape(value if isinstance(value, str) else _plain(value))
