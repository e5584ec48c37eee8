"""Mistakes in a declaration: each is one fault, at its line, with the nearest right name."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.components.declarations import GOOD, faults_in

Path = tuple[str | int, ...]
VALUE: dict[str, Any] = yaml.load(GOOD.replace("2026-01-05", "'2026-01-05'"), yaml.SafeLoader)
FREE = ("columns", "checks", "properties", "tables", "reports", "derived", "figures", "conditions")
"""Mappings whose keys are names of the user, and no options."""


def yaml_of(value: Any) -> str:
    """Write a changed declaration."""
    return yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=1000)


def parts(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Every part of a declaration below its attributes."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in pairs:
        yield (*path, key), each
        yield from parts(each, (*path, key))


def is_free(path: Path) -> bool:
    """Whether the last key is a user's name, as of a column; also the mapping from columns to columns of a join."""
    above = path[-2] if len(path) > 1 else ""
    joined = above in ("keys", "columns") and "value.static_joiner" in path
    return above in FREE or joined or path[-3:-1] == ("attributes", 0)


def changed(path: Path, change: Any) -> dict[str, Any]:
    """The declaration with the mapping or list above a path changed."""
    value = copy.deepcopy(VALUE)
    above: Any = value
    for key in path[:-1]:
        above = above[key]
    change(above, path[-1])
    return value


def renamed(path: Path, name: str) -> dict[str, Any]:
    """The declaration with another last key of a path, in its place."""

    def rename(above: dict[str, Any], key: str) -> None:
        pairs = [(name if each == key else each, value) for each, value in above.items()]
        above.clear()
        above.update(pairs)

    return changed(path, rename)


def line_of(text: str, pattern: str) -> int:
    """The line of the only place of a pattern."""
    (line,) = [n for n, each in enumerate(text.splitlines(), 1) if re.search(pattern, each)]
    return line


ALL = [(path, value) for path, value in parts(VALUE) if path[0] == "attributes" and len(path) > 1]
OPTIONS = [path for path, _ in ALL if isinstance(path[-1], str) and not is_free(path)]
IDS = [".".join(map(str, path[1:])) for path in OPTIONS]
REQUIRED = [
    "table", "table.name", "table.columns", "table.columns.page.type", "reads",
    "reads.tables.silver/visits.same.column", "runs.when.0.nightly.cron", "runs.when.0.nightly.lookback",
    "runs.when.1.on_event.attributes", "runs.job.name", "runs.job.description", "gates.audits.0.name",
    "beside.0.name", "beside.0.columns", "beside.0.columns.views.type",
    "steps", "steps.0.error_management.filter_interceptor.conditions", "steps.2.tally.identity",
    "steps.1.error_management.windowed_deduplicator.keys", "steps.1.error_management.windowed_deduplicator.order_by",
    "steps.3.value.static_joiner.judge_reference.keys", "steps.4.value.static_joiner.reference",
    "steps.4.value.static_joiner.judged", "steps.4.value.static_joiner.keys", "steps.4.value.static_joiner.columns",
]  # fmt: skip


def test_the_declaration_is_valid():
    """Before it is changed."""
    assert faults_in(GOOD) == []
    assert faults_in(yaml.safe_dump(VALUE, sort_keys=False, width=1000)) == []
    assert len(OPTIONS) > 100


@pytest.mark.parametrize("path", OPTIONS, ids=IDS)
def test_a_misspelt_option_is_one_fault_with_its_line_and_the_right_name(path):
    """At every level: of the table, of its records, of steps and of patterns."""
    key = str(path[-1])
    text = yaml_of(renamed(path, f"{key}zz" if len(key) > 3 else f"{key}z"))
    (fault,) = faults_in(text)
    assert fault.line == line_of(text, rf"{re.escape(key)}zz?['\"]?:")
    assert fault.message.endswith(f"did you mean {key}?"), fault
    assert fault.path.split(".")[-1].startswith(key.rpartition(".")[2])


@pytest.mark.parametrize("path", [p for p, _ in ALL], ids=[".".join(map(str, p[1:])) for p, _ in ALL])
def test_a_value_of_another_type_is_one_fault_with_its_line(path):
    """Of every part: a text for a number and the other way round, and a value for a list or a mapping."""
    kind = type(dict(ALL)[path])
    wrong = {str: 987654, int: "three_zz", float: "three_zz", bool: 987654, list: 987654, dict: 987654}[kind]

    def put(above: Any, key: Any) -> None:
        above[key] = wrong

    text = yaml_of(changed(path, put))
    (fault,) = faults_in(text)
    assert fault.line == line_of(text, "987654|three_zz"), fault
    assert "987654" in fault.message or "three_zz" in fault.message


@pytest.mark.parametrize("path", OPTIONS, ids=IDS)
def test_an_empty_value_is_one_fault_with_its_line(path):
    """An option is left out, and never empty."""

    def put(above: Any, key: Any) -> None:
        above[key] = None

    text = yaml_of(changed(path, put))
    (fault,) = faults_in(text)
    assert fault.line == line_of(text, r"[: ] ?null$"), fault
    assert "empty" in fault.message or "must be" in fault.message


@pytest.mark.parametrize("name", ["about", "about.owner"])
def test_a_table_without_an_owner_is_one_fault(name):
    """Where no layer states one: a declaration in Python is told the same."""
    (path,) = [path for path, _ in ALL if ".".join(map(str, path[1:])) == name]
    (fault,) = faults_in(yaml_of(changed(path, lambda above, key: above.pop(key))))
    assert "about.owner must be the team or person that answers for the table" in fault.message
    assert fault.path.startswith("attributes")


@pytest.mark.parametrize("name", REQUIRED)
def test_a_missing_required_option_is_one_fault(name):
    """Named, at the mapping that lacks it."""
    (path,) = [path for path, _ in ALL if ".".join(map(str, path[1:])) == name]
    (fault,) = faults_in(yaml_of(changed(path, lambda above, key: above.pop(key))))
    assert fault.message == f"{path[-1]} is missing"
    assert fault.path == f"attributes.{name}"


MAPPINGS = [path for path in OPTIONS if isinstance(dict(ALL)[path], str)]


@pytest.mark.parametrize("path", MAPPINGS, ids=[".".join(map(str, path[1:])) for path in MAPPINGS])
def test_a_repeated_key_is_one_fault_at_the_second_place(path):
    """PyYAML takes the last one without a word."""

    def put(above: Any, key: Any) -> None:
        above[key] = "MARKED"

    lines = yaml_of(changed(path, put)).splitlines()
    (number,) = [n for n, line in enumerate(lines) if "MARKED" in line]
    original = dict(ALL)[path]
    indent = len(lines[number]) - len(lines[number].lstrip(" -"))
    again = " " * indent + f"{path[-1]}: {original!r}"
    lines[number] = lines[number].replace("MARKED", repr(original))
    found = faults_in("\n".join([*lines[: number + 1], again, *lines[number + 1 :]]))
    assert [(fault.line, fault.message) for fault in found] == [(number + 2, f"{path[-1]} is there twice: leave one")]


PARTITIONS = "dedp_assets.graph.declare.partitions"
WORDS = [
    ("silver/visits: {", "silver/visit: {", "unknown table silver/visit: did you mean silver/visits?"),
    ("references: [silver/users]", "references: [silver/user]", "unknown table silver/user: did you mean"),
    ("partition_by: [event_date]\n    key", "partition_by: [evnt_date]\n    key", "unknown column evnt_date: did you"),
    ("key: [event_date, page]", "key: [event_date, pag]", "unknown column pag: did you mean page?"),
    ("event_time: event_date", "event_time: event_dat", "unknown column event_dat: did you mean event_date?"),
    ("column: event_date", "column: event_dat", "unknown partition column of silver/visits event_dat: did you mean"),
    ("derived: {views: [visit_id]}", "derived: {viws: [visit_id]}", "unknown column viws: did you mean views?"),
    ("derived: {views: [visit_id]}", "derived: {views: [visit]}", "unknown upstream column visit: did you mean"),
    ("identity: [visit_id]\n", "identity: [visitid]\n", "unknown column visitid: did you mean visit_id?"),
    ("keys: [user_id]", "keys: [userid]", "unknown column userid: did you mean user_id?"),
    ("- tally:", "- taly:", "unknown operation taly: did you mean tally?"),
    ("- error_management.windowed_deduplicator:", "- error_management.window_dedup:", "unknown pattern"),
    ("- error_management.windowed_deduplicator:", "- windowed_deduplicator:", "did you mean error_"),
    ("from: parts", "from: part", "unknown name part: did you mean parts?"),
    ("from: users", "from: user", "unknown name user: did you mean users?"),
    ("reference: users", "reference: usrs", "unknown name usrs: did you mean users?"),
    ("judged: judged", "judged: judge", "unknown name judge: did you mean judged?"),
    ("{rows} GROUP", "{row} GROUP", "unknown name {row}: did you mean rows?"),
    ("{rows} GROUP", "{rows GROUP", "sql must have names in braces"),
    ("{rows} GROUP", "{rows} WHERE '${x}' GROUP", "sql must be a text without ${"),
    ("account: {", "account: {read: visit, ", "unknown upstream table visit: did you mean visits?"),
    ("quarantine: gold/page_counts_aside", "quarantine: gold/page_counts_asid", "did you mean gold/page_counts_aside?"),
    ("kind: number", "kind: numbr", "kind must be 'number', 'time' or 'hidden', not 'numbr': did you mean number?"),
    ("on_failure: quarantine", "on_failure: quarantin", "not 'quarantin': did you mean quarantine?"),
    ("approvable: by name", "approvable: by nam", "approvable must be 'by name', not 'by nam': did you mean by name?"),
    ("keep: first", "keep: frist", "keep must be 'first' or 'last', not 'frist': did you mean first?"),
    ("start: 2026-01-05", "start: 2026-02-30", "start must be a date, like 2026-01-05, not '2026-02-30'"),
    ("lookback: 14", "lookback: -1", "Nightly.lookback must be 0 or more, not -1"),
    ("daily: {start: 2026-01-05}", "daily: {}, weekly: {}", "partitions must have one of"),
    ("daily: {start: 2026-01-05}", "", "partitions must have one of"),
    ("{daily: {start: 2026-01-05}}", "{python: tests.components.parts:DAY}", "parts cannot be imported"),
    ("{daily: {start: 2026-01-05}}", f"{{python: {PARTITIONS}:DAIL}}", "has no DAIL: did you mean DAILY?"),
    ("{daily: {start: 2026-01-05}}", f"{{python: {PARTITIONS}}}", "python must be package.module:name"),
    ("when:\n", "needs: dedp_assets.graph.declare.partitions:dail\n    when:\n", "has no dail: did you mean daily?"),
    ("owner: team:web", "owner: the web team", "the web team"),
    ("cron: 0 2 * * *", "cron: every night", "every night"),
    ("name: gold/page_counts\n", "name: gold/page counts\n", "page counts"),
    ("name: pages_are_known", "name: pages are known", "pages are known"),
    ("selection: 'key", "selection: 'kex", "kex:"),
    ("required: true", "required: yes", "YAML reads yes as true: write 'yes' in quotes, or true"),
    ("lookback: 14", "lookback: 014", "YAML reads 014 as 12: write '014' in quotes, or 12"),
    ("lookback: 14", "lookback: 12:30", "YAML reads 12:30 as 750: write '12:30' in quotes, or 750"),
    ("lookback: 14", "lookback: 1_4", "YAML reads 1_4 as 14"),
    ("fresh_hours: 26.5", "fresh_hours: .inf", "fresh_hours must be a finite number, not .inf"),
    ("figures: {unknown:", "figures: {no:", "the key no must be a text: write it in quotes"),
    ("comment: UTC day, required", "comment: !x UTC day, required", "the tag !x is not known here"),
    ("- account: {represented: views}", "- account: *gone", "*gone is no anchor: write &gone before it"),
    ("allow_empty: true", "allow_empty: [", "this is no YAML"),
    ("    key:", "\tkey:", "this is no YAML: found character that cannot start any token"),
    ("  description: Count", "  description: Count: ", "this is no YAML"),
    ("fail_below: 1.0", "fail_below: 1.0, per: read", "per is there twice: leave one"),
    (", fail_below: 1.0", "", "audit every_visit_is_counted has no bound"),
    ("name: gold/page_counts\n", "name: gold//page_counts\n", "names no table: give layer/dataset"),
    ("identity: [visit_id], keep: valid", "identity: ['']", "identity must be"),
    ("from: parts", "tally2: {}", "unknown operation tally2: did you mean tally?"),
    ("- sql: SELECT", "- as: x\n    - sql: SELECT", "a step must have one operation, not none"),
    ("      as: parts", "      as: users", "as must be a name of its own, not users"),
    ("      as: parts", "      as: 3", "as must be a text, not 3"),
    ("- sql: SELECT", f"- python: {PARTITIONS}:DAILY\n    - sql: SELECT", "python must be a function"),
    ("- sql: SELECT", f"- python: {PARTITIONS}:static\n    - sql: SELECT", "takes keys, which is no name"),
    ("- sql: SELECT", "- idempotency.data_overwrite: {}\n    - sql: SELECT", "writes, and must be the last step"),
    ("    key: [event_date, page]\n", "    executed_by: event_date\n", "executed_by must not be a partition column"),
    ("date, page, count", "date, page, cuont", "sql calls an unknown function cuont: did you mean count?"),
    ("FROM {rows} GROUP", "FRM {rows} GROUP", "sql is no SQL after"),
    ("FROM {rows} GROUP", "FROM rows GROUP", "sql must name rows in braces, {rows}, not rows"),
    ("{rows} GROUP", "{visits} v GROUP BY v.pge --", "sql names an unknown column pge: did you mean page?"),
    ("a page: page IS", "a page: pge IS", "conditions has a page names an unknown column pge: did you mean page?"),
    ("a page: page IS NOT NULL", "a page: page IS NOT", "conditions has a page is no SQL after 'page IS'"),
    ("views > 0", "vews > 0", "check views_are_there names an unknown column vews: did you mean views?"),
    ("views > 0", "views", "check views_are_there must be true or false of a row, not views, a BIGINT"),
    ("views > 0", "max(views) > 0", "check views_are_there must be true or false of one row, not with MAX(views)"),
    ("where: page IS NULL", "where: page IS", "where is no SQL after 'page IS'"),
    ("coalesce(sum(views), 0)", "coalesce(sm(views), 0)", "sql calls an unknown function sm"),
    ("coalesce(sum(views), 0)", "coalesce(views, 0)", "sql must be an aggregate of rows, such as sum(views)"),
    ("coalesce(sum(views), 0)", "count(DISTINCT page)", "sql must have no DISTINCT, as it is observed"),
    ("replica: pseudonym", "replica: upper(pge)", "replica names an unknown column pge: did you mean page?"),
]  # fmt: skip


@pytest.mark.parametrize(("right", "wrong", "message"), WORDS, ids=[f"{n}-{w[1][:40]}" for n, w in enumerate(WORDS)])
def test_a_wrong_word_is_one_fault_at_its_line(right, wrong, message):
    """Columns, tables, patterns, names, alternatives, traps of YAML, and broken YAML."""
    assert right in GOOD
    text = GOOD.replace(right, wrong, 1)
    assert text != GOOD
    (fault,) = faults_in(text)
    assert message in fault.message
    before = GOOD.index(right)
    first = GOOD[:before].count("\n") + 1
    assert first - 1 <= fault.line <= first + 1 + max(right.count("\n"), wrong.count("\n")), fault


WRITE = GOOD[GOOD.index("    - quality.audit_w") :]
RULES = [
    ("{users_are_there_once", "{users_are_there", "gates.checks must have users_are_there_once",
     "steps.3.value.static_joiner.judge_reference.name"),
    ("account: {", "account: {read: visits, ", "read must be left out after a tally", "steps.6.account.read"),
    ("- account: {represented: views}", "- account: {represented: views}\n      as: facts", "as must be left out",
     "steps.6.as"),
    ("reports: {soon", "reports: {every_visit_is_counted", "must have names of their own", "gates.audits"),
    ("type: DATE, comment: UTC day, required", "type: DOUBLE, comment: UTC day, required", "cannot be", "table"),
    ("event_time: event_date", "event_time: views", "event_time must be a column of type TIMESTAMP or DATE, not views",
     "table.event_time"),
    ("    - tally: {identity: [visit_id], keep: valid}\n      from: parts\n", "", "takes rows, not a split", "steps.3"),
    (GOOD[GOOD.index("    - quality.audit_w") :], "", "the last step must write the table", "steps.6"),
    (WRITE, "    - idempotency.merger: {keys: [page]}\n", "partitions must be left out of the runs, as idempotency",
     "runs.partitions"),
    (WRITE, "    - idempotency.stateful_merger: {keys: [page]}\n", "executed_by must name the executions", ""),
    ("count(*) AS views FROM", "count(*) AS vews FROM", "views is declared and not there, vews is not declared",
     "steps.7.quality.audit_write_audit_publish"),
    (WRITE, "    - idempotency.merger: {keys: [page], deleted: page}\n", "keys, order and deletion flag are different",
     "steps.7.idempotency.merger"),
    (WRITE, "    - modeling.versioned_dimension: {stream: {keys: [page], event_time: event_date}}\n",
     "gold/page_counts needs keys that it declares as required, not ['page']", "steps.7.modeling.versioned_dimension"),
    (WRITE, "    - modeling.current_dimension: {stream: {keys: [views], event_time: event_date}}\n",
     "gold/page_counts has no columns is_deleted BOOLEAN, last_change", "steps.7.modeling.current_dimension"),
]  # fmt: skip


@pytest.mark.parametrize(("right", "wrong", "message", "path"), RULES, ids=[each[3] for each in RULES])
def test_a_broken_rule_is_one_fault_at_what_it_is_about(right, wrong, message, path):
    """A rule over several parts of a declaration has no single word at fault."""
    (fault,) = faults_in(GOOD.replace(right, wrong, 1))
    assert message in fault.message
    assert fault.path == f"attributes.{path}".rstrip(".")


def test_every_mistake_of_a_file_is_found_at_once():
    """One in the records does not hide one in a step, nor one in a step that of another."""
    text = GOOD.replace("lookback: 14", "lookback: two").replace("keep: first", "keep: frist")
    text = text.replace("on_failure: quarantine", "on_failure: quarantin").replace("owner: team:web", "ownr: team:web")
    assert [fault.path.rpartition(".")[2] for fault in sorted(faults_in(text))] == [
        "lookback",
        "ownr",
        "keep",
        "on_failure",
    ]


def test_a_figure_that_no_audit_measures_is_one_fault():
    """Or a run would find that its rows stand for none of those that it read."""
    (fault,) = faults_in(GOOD.replace("account: {represented: views}", "account: {represented: view}"))
    assert fault.message == "unknown figure of an audit view: did you mean views?"
    assert fault.path.endswith("account.represented")
    (fault,) = faults_in(
        GOOD.replace("name: every_visit_is_counted, of: views", "name: every_visit_is_counted, of: view")
    )
    assert fault.message == (
        "views is a figure that no audit measures: add "
        "{name: views_are_counted, of: views, sql: sum(views), fail_below: 0} to gates.audits"
    )
