"""Branches of a choice, and a table after the choice, from YAML."""

from __future__ import annotations

import pytest

from dedp_assets.components.declaring import declare, draft
from dedp_assets.components.documents import documents
from dedp_assets.graph.declare import Branch, Follow
from dedp_assets.patterns.core.schema import Column, TableSpec
from dedp_assets.patterns.flow.exclusive_choice import Router, Rule

COLUMNS = {"id": Column("BIGINT", "identity"), "day": Column("DATE", "UTC day", required=True)}
SPECS = {name: TableSpec(name, COLUMNS, partition_by=("day",)) for name in ("silver/visits", "silver/legacy")}
RULES = """
          rules:
            - {branch: legacy, before: "2026-01-06"}
            - {branch: modern, since: "2026-01-06"}
"""
TABLE = """
type: dedp_assets.components.TableComponent
attributes:
  table:
    name: gold/legacy
    comment: One row per day.
    columns:
      id: {type: BIGINT, comment: identity}
      day: {type: DATE, comment: UTC day, required: true}
    partition_by: [day]
  reads: {tables: READS}
  runs:
    partitions: {daily: {start: 2026-01-05}}
    when: WHEN
    profile: {dedp/profile: legacy}
  about: {owner: "team:x", used_by: somebody}
  code_version: "1"
  steps:
    - idempotency.data_overwrite: {}
"""
BRANCH = f"""
      branch:
        branch: legacy
        router: {RULES}"""
RULES_IN_LINE = '{rules: [{branch: legacy, before: "2026-01-06"}, {branch: modern, since: "2026-01-06"}]}'
FED = f"{{silver/legacy: {{of_branch: {{column: day, branch: legacy, router: {RULES_IN_LINE}}}}}}}"


def declared(reads: str = "{silver/visits: {same: {column: day}}}", when: str = "{follow: {}}"):
    """The declaration and the faults of a table in YAML."""
    (document,) = documents(TABLE.replace("READS", reads).replace("WHEN", when), "defs.yaml")
    table, faults = declare(draft(document), SPECS)
    return table, [str(fault) for fault in faults]


def test_a_branch_of_a_file_is_the_branch_of_python():
    """With the router's rules, what asks for the branch, and the profile of the runs."""
    table, faults = declared(when=BRANCH)
    assert faults == []
    router = Router((Rule("legacy", before="2026-01-06"), Rule("modern", since="2026-01-06")))
    assert table.runs.when == Branch(router, "legacy", by=Follow())
    assert (table.runs.takes("2026-01-05"), table.runs.takes("2026-01-06")) == (True, False)
    assert table.runs.profile == {"dedp/profile": "legacy"}


def test_a_table_after_the_choice_is_fed_by_the_chosen_branch():
    """By the column that holds the key, as in Python."""
    table, faults = declared(reads=FED)
    assert faults == []
    (feed,) = table.reads.tables.values()
    assert [list(feed.reads(key)) for key in ("2026-01-05", "2026-01-06")] == [[{"day": "2026-01-05"}], []]
    assert list(feed.feeds({"day": "2026-01-06"})) == []


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (
            ("branch: legacy\n        router", "branch: legcy\n        router"),
            "branch must be one of legacy, modern, not",
        ),
        (('since: "2026-01-06"', 'since: "2026-01-05"'), "rules must not overlap, as legacy"),
        (("before:", "befor:"), "befor"),
    ],
)
def test_a_wrong_branch_is_a_fault_with_its_place(change, text):
    """Found before anything runs."""
    assert change[0] in BRANCH
    _, faults = declared(when=BRANCH.replace(*change))
    assert len(faults) == 1
    assert text in faults[0]
