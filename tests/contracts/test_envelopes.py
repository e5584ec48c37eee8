"""What stays below gold: envelopes around raw records, and technical context."""

from __future__ import annotations

import re

import pytest

from dedp_assets.case_study import defs
from dedp_assets.graph.declare import declared
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.value.metadata_decorator import CONTEXT, TECHNICAL_KEYS
from dedp_assets.patterns.value.wrapper import COMPUTED, MARK, RAW

TABLES = {spec.name: spec for table in declared(defs) for spec in table.tables}
EXPOSED = ("gold/", "serving/")
HIDDEN = {RAW, COMPUTED, CONTEXT, f"{CONTEXT}_id", "_metadata", *TECHNICAL_KEYS}


def seen_below(spec: TableSpec) -> set[str]:
    """Columns, and fields inside of columns, that a user of the table should not meet."""
    names = {name.lower() for name in spec.columns}
    for column in spec.columns.values():
        names |= {name.lower() for name in re.findall(r"[<,]\s*`?(\w+)`?\s*:", column.type)}
    return {name for name in names if name in HIDDEN or name.startswith(MARK)}


@pytest.mark.promise("no-envelope-and-no-technical")
def test_no_envelope_and_no_technical_context_leaves_silver():
    """Consumers of gold meet no raw record, no computed mark and no key of a context, at any depth."""
    exposed = {name: spec for name, spec in TABLES.items() if name.startswith(EXPOSED)}
    assert exposed
    assert {name: found for name, spec in exposed.items() if (found := seen_below(spec))} == {}
    assert seen_below(TABLES["silver/partner_visits"]) == {RAW}


@pytest.mark.parametrize(
    ("name", "kind", "found"),
    [
        ("raw", "STRING", "raw"),
        ("Computed_page", "STRING", "computed_page"),
        ("visit", "STRUCT<id: INT, run_id: STRING>", "run_id"),
        ("visits", "ARRAY<STRUCT<`raw`:STRUCT<line: STRING>>>", "raw"),
    ],
)
def test_what_would_leave_is_seen(name, kind, found):
    """The contract can fail."""
    assert seen_below(TableSpec("gold/x", {name: Column(kind)})) == {found}
