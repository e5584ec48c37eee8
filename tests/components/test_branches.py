"""Branches of a choice, and a table after the choice, from YAML."""

from __future__ import annotations

import pytest

from dedp_assets.components.chains.declaring import declare, draft
from dedp_assets.components.yaml.documents import documents
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


def stated(reads: str = "{silver/visits: {same: {column: day}}}", when: str = "{follow: {}}") -> str:
    """A table in YAML."""
    return TABLE.replace("READS", reads).replace("WHEN", when)


def declared(text: str):
    """The declaration and the faults of a table in YAML."""
    (document,) = documents(text, "defs.yaml")
    return declare(draft(document), SPECS)


def test_a_branch_of_a_file_is_the_branch_of_python():
    """With the router's rules, what asks for the branch, and the profile of the runs."""
    table, faults = declared(stated(when=BRANCH))
    assert faults == []
    router = Router((Rule("legacy", before="2026-01-06"), Rule("modern", since="2026-01-06")))
    assert table.runs.when == Branch(router, "legacy", by=Follow())
    assert (table.runs.takes("2026-01-05"), table.runs.takes("2026-01-06")) == (True, False)
    assert table.runs.profile == {"dedp/profile": "legacy"}


def test_a_table_after_the_choice_is_fed_by_the_chosen_branch():
    """By the column that holds the key, as in Python."""
    table, faults = declared(stated(reads=FED))
    assert faults == []
    (feed,) = table.reads.tables.values()
    assert [list(feed.reads(key)) for key in ("2026-01-05", "2026-01-06")] == [[{"day": "2026-01-05"}], []]
    assert list(feed.feeds({"day": "2026-01-06"})) == []


@pytest.mark.parametrize(
    ("change", "place", "said"),
    [
        (
            ("branch: legacy\n        router", "branch: legcy\n        router"),
            "legcy",
            "branch must be one of legacy, modern, not 'legcy'",
        ),
        (
            ('since: "2026-01-06"', 'since: "2026-01-05"'),
            '- {branch: legacy, before: "2026-01-06"}',
            "rules must not overlap, as legacy (before 2026-01-06) and modern (since 2026-01-05) do at 2026-01-05",
        ),
        (("before:", "befor:"), 'befor: "2026-01-06"}', "unknown option befor: did you mean before?"),
    ],
)
def test_a_wrong_branch_is_a_fault_with_its_place(change, place, said):
    """Found before anything runs: the wrong value or key, or the first of the rules that overlap."""
    assert change[0] in BRANCH
    text = stated(when=BRANCH.replace(*change))
    _, (fault,) = declared(text)
    assert fault.message == said
    assert text.splitlines()[fault.line - 1][fault.column - 1 :] == place
