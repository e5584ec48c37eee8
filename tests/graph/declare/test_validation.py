"""Validation of landed records as a declaration: rules, gates and facts, of a table in Python and a landing in YAML."""

from __future__ import annotations

from dataclasses import replace

from dedp_assets.case_study.defs.silver.visits import RECORDS, RULES, visits
from dedp_assets.graph.declare import About, Gates, Validation, letters_of, rules_of_presence, rules_of_time
from dedp_assets.graph.declare.validation import FEW_DEAD
from dedp_assets.patterns import Column, Field

PLAIN = Validation(fields={"id": Field("INT")}, rules={}, identity=("source_file", "line_number"))


def test_a_required_column_is_there_if_its_text_is():
    """A text that is no value of the type has a reason of its own; blanks are a value where they are said to be."""
    assert rules_of_presence({"id": "INT"}) == {"id is missing": "`id` IS NOT NULL OR `id text` IS NOT NULL"}
    assert rules_of_presence({"a b": "string"}) == {"a b is missing": "trim(`a b`) <> ''"}
    assert rules_of_presence({"name": "STRING"}, blank="value") == {"name is missing": "`name` IS NOT NULL"}


def test_an_event_time_is_held_against_its_landing():
    """Too early, too late, and filed under another date are three reasons; a time that is missing breaks none."""
    rules = rules_of_time("at", earliest="a", too_early="too early", latest="b", own="to_date(at)")
    assert [*rules] == [
        "at is too early",
        "at is in the future of its landing",
        "at is not on the date it was filed under",
    ]
    assert all(rule.startswith("`at` IS NULL OR ") for rule in rules.values())


def test_gates_hold_what_is_counted():
    """Letters always, duplicates with keys, fields if they are counted; a stated audit replaces its namesake."""
    assert [audit.name for audit in PLAIN.gates().audits] == ["dead_letters_are_few"]
    assert PLAIN.gates().reports == {}
    own = replace(FEW_DEAD, fail_above=0.5)
    keyed = replace(PLAIN, keys=("id",), compares=True, counts="report").gates(Gates([own], if_empty="Nothing came."))
    assert [audit.name for audit in keyed.audits] == ["duplicates_are_few", "dead_letters_are_few"]
    assert (own in keyed.audits, keyed.if_empty) == (True, "Nothing came.")
    assert [*keyed.reports] == ["duplicates_are_as_usual", "fields_are_declared", "fields_are_as_usual"]


def test_facts_name_who_mends_the_letters():
    """Unless somebody else reads the table; figures of letters are always shown."""
    facts = PLAIN.about(About(owner="team:x"), dead="silver/x_dead_letter")
    assert facts.used_by.endswith("the letters that wait are in silver/x_dead_letter")
    assert PLAIN.about(About(owner="team:x", used_by="dashboards"), dead="d").used_by == "dashboards"
    assert {"open", "replayed"} <= facts.figures.keys()


def test_letters_are_filed_by_date():
    """The table beside the valid rows has the record as it landed, the reason and the status."""
    letters = letters_of("silver/x", {"raw": Column("STRING", required=True)}, filed_under="day", comment="a letter")
    assert (letters.name, letters.partition_by) == ("silver/x_dead_letter", ("filed_under",))
    assert next(iter(letters.columns)) == "raw"
    assert {"reason", "status", "filed_under"} <= letters.columns.keys()


def test_a_table_and_its_replay_judge_by_one_declaration():
    """A rule that is added holds in both."""
    assert RECORDS.rules is RULES
    assert visits.runs.replay == RECORDS.replay
