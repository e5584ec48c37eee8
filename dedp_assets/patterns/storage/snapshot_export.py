"""Snapshot Export: a version is copied to another root, immutable and with checksums.

Problem: time travel ends at the vacuum, and with the table; an auditor wants the rows of a report years later, and the
    proof that nobody touched them.
Solution: copy the files of a pinned version with their SHA-256 into a table of its own that no writer may change, and
    note place, version and checksum in a catalogue. Exported again it is the same bytes.
Consequences: every export is a whole copy, read as any Delta table. Nothing removes exports; personal data in them
    has to be erased there, too.
Choose instead: Time Travel, for versions within the table; Passthrough Replicator, for a copy that follows its source.
"""

from __future__ import annotations

from dataclasses import replace

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.leaving import require_may_leave
from dedp_assets.patterns.core.names import identifier, select_list
from dedp_assets.patterns.core.options import typed
from dedp_assets.patterns.core.results import Finding, WriteResult
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.core.types.partitions import literal
from dedp_assets.patterns.delta import Insert, Merge, Table, Target, Update, require_partition, store_at, version_at
from dedp_assets.patterns.delta.maintenance import damage_of, export_version, files_of

__all__ = ["export_snapshot", "declare_exports", "verify_export"]

_COLUMNS = {
    "table": Column("STRING", "name of the exported table", required=True, classification="public"),
    "version": Column("BIGINT", "its version", required=True, classification="public"),
    "place": Column("STRING", "where the export lies", required=True, classification="public"),
    "files": Column("BIGINT", "data files", required=True, classification="public"),
    "bytes": Column("BIGINT", "their size, in bytes", required=True, classification="public"),
    "rows": Column("BIGINT", "their rows, by the log", required=True, classification="public"),
    "sha256": Column(
        "STRING", "SHA-256 of the export's log, which states that of every file", required=True, classification="public"
    ),
}
_SHOWN = 3


@typed
def export_snapshot(
    source: Table, into: Target, *, to: str, version: int | str | None = None, may_hold_personal: bool = False
) -> WriteResult:
    """Export a version of a table to ``<to>/<table>/v<version>``, with a row in a catalogue.

    The export appears once all of its files are there; a run after a crash copies those that are missing.

    Args:
        source: the table to export.
        into: target of the write: a catalogue of exports, by :func:`declare_exports`.
        to: root of the exports: the absolute path of a folder, or ``s3://bucket/prefix``.
        version: version, instant or milestone; the newest version if ``None``.
        may_hold_personal: whether exports may hold personal data, which nobody can take out of them again.

    Returns:
        The write of the catalogue; files, bytes, rows, copied files and the place of the export in ``figures``.

    Raises:
        ConfigError: if the place is in a table or export, or has another export, or a vacuum removed files of the
            version; if ``into`` is no catalogue; if a column of the source is secret, or
            of no class, or leads to persons while exports may not hold such.
        NotReady: if there is no such version or milestone.

    Example:
        >>> prices = table("prices", {"id": Column("INT", classification="public")}, (1,))
        >>> exports = table(declare_exports(name="exports"))
        >>> written = export_snapshot(prices, exports.target(run), to=f"{prices.location}-archive")
        >>> archived = Table.at(written.figures["place"], spark)
        >>> verify_export(archived).passed, rows(archived)
        (True, [(1,)])
    """
    into = into.by("storage.snapshot_export", "partition", "audits")
    if missing := [name for name in _COLUMNS if name not in into.table.spec.columns]:
        raise ConfigError(
            f"{into.name} must be a catalogue of exports (declare_exports), and has no {', '.join(missing)}"
        )
    require_may_leave(
        source.name,
        source.spec.columns,
        "export",
        to="an export",
        may_hold_personal=may_hold_personal,
        instead="may_hold_personal must be True to export them",
    )
    if not to.startswith("/") and "://" not in to:
        raise ConfigError(f"to must be an absolute path or a URI such as s3://bucket/exports, not {to!r}")
    pinned = source.ledger.version() if version is None else version_at(source.ledger, version)
    made = export_version(source.ledger, pinned, store_at(to).within(f"{source.name}/v{pinned}"))
    figures = {"files": made.files, "bytes": made.size_bytes, "rows": made.rows}
    row = {"table": source.name, "version": pinned, "place": made.store.uri, **figures, "sha256": made.sha256}
    state = into.table.ensure()
    kinds = ", ".join(f"{identifier(name)} {into.table.spec.columns[name].type}" for name in row)
    owned = require_partition(into.name, state, into.owned)
    sql = {
        **{name: identifier(name) for name in row},
        **{c: literal(value, state.kinds[c]) for c, value in owned.items()},
    }
    rows = into.table.session.createDataFrame([tuple(row.values())], kinds)
    written = into.table.merge(
        rows.selectExpr(*select_list({name: sql[name] for name in state.columns if name in sql})),
        Merge(["table", "version"], [Update(when="t.sha256 <> s.sha256 OR t.place <> s.place"), Insert()]),
        provenance=into.run,
        partition=into.owned,
        audits=into.audits,
    )
    figures |= {"copied_files": made.copied}
    reason = f"version {pinned} of {source.name} {'is exported' if made.made else 'was exported before'}"
    return replace(written, reason=reason, figures={**written.figures, **figures, "place": made.store.uri})


@typed
def declare_exports(*, name: str, by: str = "") -> TableSpec:
    """Return the declaration of a catalogue of exports: a row for each exported version.

    Args:
        name: ``layer/dataset`` of the catalogue.
        by: partition column of type DATE, for a catalogue whose runs own a day or week each; none if empty.
    """
    own = (
        {by: Column("DATE", "first day of the period that was exported", required=True, classification="public")}
        if by
        else {}
    )
    partitions = (by,) if by else ()
    return TableSpec(name, {**own, **_COLUMNS}, partition_by=partitions, comment="One row per exported version.")


@typed
def verify_export(export: Table) -> Finding:
    """Compare every byte of an export with the checksums, without Spark.

    Args:
        export: the export, opened as a table.

    Returns:
        ``every_file_is_as_it_was_exported``, with the damaged and missing files by name.

    Raises:
        ConfigError: for a table that is no export.
        ContractError: if its log cannot be read.
    """
    files, damage = files_of(export.store), damage_of(export.store)
    shown = [f"{path} {what}" for path, what in sorted(damage.items())]
    more = f", and {len(shown) - _SHOWN} more are wrong" if len(shown) > _SHOWN else ""
    return Finding(
        "every_file_is_as_it_was_exported",
        passed=not damage,
        figures={"files": len(files), "damaged files": len(damage)},
        note=f"{export.store.address}: {', '.join(shown[:_SHOWN])}{more}" if damage else "",
    )
