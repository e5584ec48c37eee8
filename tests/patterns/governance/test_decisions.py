"""Unusual accesses and charges, in the audit of grants by purpose; without Spark."""

from __future__ import annotations

import json
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import asdict, replace
from datetime import timedelta
from math import inf
from statistics import median

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dedp_assets.patterns.core.errors import ConfigError
from dedp_assets.patterns.core.measuring.costs import Cost
from dedp_assets.patterns.core.measuring.usual import Baseline
from dedp_assets.patterns.governance._decisions import AccessDecision, UsualAccess, stamp
from dedp_assets.patterns.governance._grants import Grant, Grants
from dedp_assets.patterns.governance.purpose_based_access_control import AccessRequest, AccessRules, Purpose
from tests.helpers import NOW

DAY, HOUR = timedelta(days=1), timedelta(hours=1)
FEW = UsualAccess(opens=2, tables=3, denials=1)
ASK = AccessRequest(user="ada", purpose="ml_training", justification="a model")
BEFORE_MARKS = """
    CREATE TABLE grants (
        id TEXT PRIMARY KEY, user TEXT, dataset TEXT, purpose TEXT, begins TEXT, ends TEXT, granted_by TEXT,
        justification TEXT, may_export INTEGER
    ) WITHOUT ROWID;
    CREATE TABLE audit (number INTEGER PRIMARY KEY, at TEXT, decision TEXT);
    CREATE TRIGGER audit_is_true BEFORE UPDATE ON audit BEGIN SELECT RAISE(ABORT, 'audit rows stay'); END;
"""
"""Tables of a file of an earlier release."""


def decided(at=NOW, event="open", outcome="granted", user="ada", datasets=("silver/a",), tier="confidential", **more):
    """A decision about tables of one tier."""
    stated = {"justification": "", "ticket": "", "case": "", "export": False, "reason": "opened", **more}
    tiers = [tier] * len(datasets) if tier else []
    common = {"at": stamp(at), "event": event, "outcome": outcome, "user": user, "datasets": datasets}
    return AccessDecision(**common, purpose="audit", tiers=tiers, **stated)


def granted(dataset="silver/a", user="ada", purpose="ml_training", begins=NOW, ends=NOW + 8 * HOUR, **more):
    """A grant."""
    stated = {"granted_by": "", "justification": "", "may_export": False, **more}
    return Grant(f"{user}-{purpose}-{dataset}-{begins}", user, dataset, purpose, stamp(begins), stamp(ends), **stated)


@pytest.fixture
def grants(tmp_path):
    return Grants(tmp_path / "grants.db")


def write(grants, usual=FEW, **more):
    """Write a decision under a rule for confidential tables: why it is unusual, if it is."""
    return grants.write(decided(**more), usual={"confidential": usual}).unusual


# --- unusual accesses -------------------------------------------------------------------------------------------------


def test_a_new_user_is_judged_by_the_stated_numbers_alone(grants):
    """Up to the number is usual, and each decision above it is an alert that says so; other tiers and users beside."""
    for _ in range(2):
        assert write(grants) == ()
    for _ in range(5):
        write(grants, user="bob", usual=UsualAccess())
        assert write(grants, tier="restricted") == ()
        assert write(grants, event="request") == ()
    said = "3 openings of the tier confidential in 24 hours, where up to 2 are usual"
    assert write(grants) == (said,)
    row = grants.audit()[-1]
    assert (row.outcome, row.alert, row.reason) == ("granted", True, f"opened; unusual: {said}")
    assert [each.alert for each in grants.audit()[:-1]] == [False] * 17
    assert write(grants, at=NOW + HOUR) == (said.replace("3", "4", 1),)


def test_distinct_tables_and_denials_have_numbers_of_their_own(grants):
    """A table that is opened again is no further one; a denial is none of the openings, and an alert as well."""
    many = UsualAccess(opens=100, tables=3, denials=1)
    for datasets in (["a", "b"], ["a", "c"], ["c"]):
        assert write(grants, datasets=datasets, usual=many) == ()
    assert write(grants, datasets=["a", "d"], usual=many)[0].startswith("4 tables opened of the tier confidential")
    assert write(grants, outcome="denied", usual=many) == ()
    assert write(grants, outcome="denied", event="request", usual=many)[0].startswith("2 denials of the tier")
    assert write(grants, datasets=["a"], usual=many) != ()


def test_tables_of_other_tiers_do_not_count(grants):
    """Of a query that reads both."""
    rule = UsualAccess(opens=100, tables=1)
    mixed = replace(decided(datasets=["a", "b", "c"]), tiers=["confidential", "public", "public"])
    assert grants.write(mixed, usual={"confidential": rule}).unusual == ()
    other = replace(mixed, datasets=["x", "b"], tiers=["confidential", "public"])
    assert "2 tables opened" in grants.write(other, usual={"confidential": rule}).unusual[0]


@pytest.mark.parametrize(("age", "counts"), [(DAY - timedelta(microseconds=1), True), (DAY, False), (-HOUR, False)])
def test_a_day_is_the_24_hours_before_the_decision(grants, age, counts):
    """Over midnight; a decision of exactly a day ago, or of a clock ahead, is no part of the day."""
    for _ in range(2):
        write(grants, at=NOW - age)
    assert bool(write(grants)) is counts


def test_a_user_is_judged_by_their_own_days(grants):
    """Up to three times the median of days with decisions; days without one do not count, other users' neither."""
    for ago, opens in ((9, 4), (7, 4), (4, 6), (3, 4), (2, 4)):
        for _ in range(opens):
            write(grants, at=NOW - ago * DAY, usual=UsualAccess())
        for _ in range(40):
            write(grants, at=NOW - ago * DAY, usual=UsualAccess(), user="bob")
    assert [bool(write(grants)) for _ in range(14)] == [False] * 12 + [True] * 2
    assert "13 openings of the tier confidential in 24 hours, where up to 12 are" in grants.unusual(NOW)[0].reason


def test_too_little_history_is_no_measure(grants):
    """Four days are less than five."""
    for ago in range(1, 5):
        for _ in range(4):
            write(grants, at=NOW - ago * DAY, usual=UsualAccess())
    assert [bool(write(grants)) for _ in range(3)] == [False, False, True]


def test_an_unusual_day_is_no_measure_for_the_next(grants):
    """Whoever took a hundred yesterday has no right to a hundred today."""
    for ago in range(2, 8):
        write(grants, at=NOW - ago * DAY)
    for _ in range(100):
        write(grants, at=NOW - DAY)
    assert [bool(write(grants)) for _ in range(5)] == [False] * 3 + [True] * 2


def test_an_unusual_opening_is_denied_where_the_rule_says_so(grants):
    """And stays without a mark, a grant, and an effect on the openings that are usual."""
    strict = replace(FEW, on_anomaly="deny")
    for number in range(4):
        row = grants.write(decided(mark="m", grants=["g"]), usual={"confidential": strict})
        assert (row.outcome, row.mark, [*row.grants]) == (("granted", "m", ["g"]) if number < 2 else ("denied", "", []))
    assert "not opened; unusual: 3 openings of the tier" in row.reason
    assert [each.outcome for each in grants.audit()] == ["granted"] * 2 + ["denied"] * 2


def test_the_anomalies_of_a_day_are_listed_after_a_restart(grants):
    """By a time: the 24 hours before it, with the time itself."""
    for _ in range(4):
        write(grants)
    again = Grants(grants.file)
    assert [row.user for row in again.unusual(NOW)] == ["ada", "ada"]
    assert len(again.unusual(NOW + DAY - timedelta(microseconds=1))) == 2
    assert again.unusual(NOW + DAY) == again.unusual(NOW - timedelta(microseconds=1)) == []
    assert len(write(again)) == 1


def test_of_openings_at_once_each_counts_those_before(grants):
    """Eight threads: as many are usual as one after the other."""
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: bool(write(grants)), range(16)))
    assert sorted(found) == [False] * 2 + [True] * 14
    assert [bool(row.unusual) for row in grants.audit()] == [False] * 2 + [True] * 14


def test_earlier_decisions_of_a_user_are_found_by_an_index(grants):
    """The audit only grows; names with signs of JSON are found as well."""
    of_user = "SELECT decision FROM audit WHERE json_extract(decision, '$.user') = ? AND at >= ? AND at <= ?"
    with closing(sqlite3.connect(grants.file)) as database:
        plan = database.execute(f"EXPLAIN QUERY PLAN {of_user}", ("", "", "")).fetchall()
    assert "audit_of" in plan[0][-1]
    for name in ('a"b\\', "éß€", "o'neil"):
        assert [bool(write(grants, user=name)) for _ in range(3)] == [False, False, True]


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: UsualAccess(opens=-1), "opens must be 0 or more, not -1"),
        (lambda: UsualAccess(denials=1.5), "UsualAccess.denials must be a whole number"),
        (lambda: UsualAccess(on_anomaly="mail"), "UsualAccess.on_anomaly must be alert or deny"),
        (lambda: Purpose(name="x", tables=["*"], budget=0), "budget must be above 0, not 0"),
        (lambda: AccessRules(cpu_hour_price=-1), "cpu_hour_price must be 0 or more, not -1"),
    ],
)
def test_a_rule_that_cannot_be_is_refused(call, said):
    """By the name of the option."""
    with pytest.raises(ConfigError, match=said):
        call()


KINDS = {"open": ("open", "granted"), "denied": ("open", "denied"), "request": ("request", "granted")}
MEASURES = {"opens": 2, "tables": 2, "denials": 1}
LAST, LEAST, TIMES = 3, 2, 2


def limit_of(values):
    """What is usual by earlier days, oldest first: unusual days do not count until they are more than the others."""
    counted, unusual = [], []
    for value in values:
        known = counted[-LAST:]
        middle = median(known) if len(known) >= LEAST else None
        if middle == 0 and value:
            counted = []
        unusual.append(value)
        if value <= (TIMES * middle if middle else inf):
            counted, unusual = [*counted, value], []
        elif len(unusual) > min(len(counted), 7):
            counted, unusual = counted + unusual, []
    return TIMES * median(counted[-LAST:]) if len(counted[-LAST:]) >= LEAST else 0


def model(rows, deny):
    """Which decisions are unusual: user, kind, minutes and table of each, one after the other."""
    rows, found = [list(row) for row in rows], []
    for number, (user, kind, minutes, _) in enumerate(rows):
        days = {}
        for other, was, then, table in rows[: number + 1]:
            if other == user and was != "request":
                days.setdefault((minutes - then) // 1440, []).append((was, table))
        counts = {
            "opens": lambda day: sum(was == "open" for was, _ in day),
            "tables": lambda day: len({table for was, table in day if was == "open"}),
            "denials": lambda day: sum(was == "denied" for was, _ in day),
        }
        crossed = False
        for name in {"open": ("opens", "tables"), "denied": ("denials",)}.get(kind, ()):
            before = [counts[name](days[ago]) for ago in sorted(days, reverse=True) if ago]
            crossed |= counts[name](days[0]) > max(MEASURES[name], limit_of(before))
        found.append(crossed)
        if crossed and deny and kind == "open":
            rows[number][1] = "denied"
    return found


ROWS = st.lists(
    st.tuples(
        st.sampled_from(["ada", "bob"]),
        st.sampled_from([*KINDS, "open", "open"]),
        st.integers(0, 9).map(lambda day: day * 1440) | st.integers(0, 9 * 1440),
        st.sampled_from("abcd"),
    ),
    max_size=25,
).map(lambda rows: sorted(rows, key=lambda row: row[2]))


@given(ROWS, st.booleans())
@settings(max_examples=60, deadline=None)
def test_unusual_decisions_are_those_of_a_plain_model(tmp_path_factory, rows, deny):
    """Days, distinct tables, denials, own history, and what a denial changes for the next."""
    baseline = Baseline(last=LAST, minimum_history=LEAST, tolerance=1.0, tolerance_above=TIMES - 1.0)
    rule = UsualAccess(**MEASURES, baseline=baseline, on_anomaly="deny" if deny else "alert")
    grants = Grants(tmp_path_factory.mktemp("model") / "grants.db")
    found = []
    for user, kind, minutes, table in rows:
        event, outcome = KINDS[kind]
        at = NOW + timedelta(minutes=minutes)
        written = decided(at, event, outcome, user=user, datasets=[table])
        found.append(bool(grants.write(written, usual={"confidential": rule}).unusual))
    assert found == model(rows, deny)


# --- charges ----------------------------------------------------------------------------------------------------------


def test_a_charge_is_a_row_of_the_audit_and_is_there_after_a_restart(grants):
    """With its figures, by user, purpose and grants; it is no access, and no part of a day."""
    mine = [granted(), granted("silver/b")]
    grants.charge(ASK, mine, Cost(cpu_seconds=7200.5, seconds=90.0), at=NOW)
    grants.charge(ASK, mine[:1], Cost(seconds=10.0), at=NOW + HOUR)
    again = Grants(grants.file)
    first, second = again.audit()
    assert (first.event, first.outcome, first.user, first.purpose) == ("charge", "charged", "ada", "ml_training")
    assert (first.reason, second.reason) == ("7,200.500 seconds of CPU", "10.000 seconds of time")
    assert ([*first.datasets], [*first.grants]) == (["silver/a", "silver/b"], [each.id for each in mine])
    assert again.charges(mine) == [Cost(cpu_seconds=7200.5, seconds=90.0), Cost(seconds=10.0)]
    assert again.charges(mine[1:]) == [Cost(cpu_seconds=7200.5, seconds=90.0)]
    assert again.charges([]) == again.charges([granted(user="bob")]) == again.charges([granted("silver/c")]) == []
    assert write(again) == ()
    assert again.charges(mine) == again.charges(mine[:1])


def test_the_price_is_that_of_the_processor_where_it_is_known():
    """An unknown figure is no 0."""
    rules = AccessRules(cpu_hour_price=0.5)
    costs = {Cost(cpu_seconds=7200, seconds=1): 1.0, Cost(seconds=3600): 0.5, Cost(cpu_seconds=0.0, seconds=9): 0.0}
    assert {cost: rules.priced(cost) for cost in costs} == costs


@pytest.mark.parametrize("cost", [Cost(), Cost(rows_read=3), Cost(seconds=-1.0), Cost(cpu_seconds=inf)])
def test_a_cost_that_is_none_is_not_charged(grants, cost):
    """And no grant is charged that is not there."""
    with pytest.raises(ConfigError, match="cost must have cpu_seconds or seconds of 0 or more, not"):
        grants.charge(ASK, [granted()], cost, at=NOW)
    with pytest.raises(ConfigError, match="grants must be those by which ada read, not none"):
        grants.charge(ASK, [], Cost(seconds=1.0), at=NOW)
    assert grants.audit() == []


def test_a_file_of_an_earlier_release_goes_on(tmp_path):
    """Its rows read as rows without tier, mark and cost, and its grants stand and take charges."""
    later = ("tiers", "mark", "unusual", "cost")
    old = {name: value for name, value in asdict(decided()).items() if name not in later}
    mine = granted()
    with closing(sqlite3.connect(tmp_path / "grants.db")) as database:
        database.executescript(BEFORE_MARKS)
        for _ in range(5):
            database.execute("INSERT INTO audit (at, decision) VALUES (?, ?)", (old["at"], json.dumps(old)))
        database.execute(f"INSERT INTO grants VALUES ({', '.join('?' * 9)})", tuple(asdict(mine).values()))
        database.commit()
    grants = Grants(tmp_path / "grants.db")
    (standing,) = grants.standing("ada", "ml_training", NOW)
    assert standing == mine
    assert {(row.user, row.mark, *row.tiers, *row.unusual, *row.cost) for row in grants.audit()} == {("ada", "")}
    assert [bool(write(grants)) for _ in range(3)] == [False, False, True]
    grants.charge(ASK, [standing], Cost(seconds=1.0), at=NOW)
    assert grants.charges([standing]) == [Cost(seconds=1.0)]
    with closing(sqlite3.connect(grants.file)) as database, pytest.raises(sqlite3.IntegrityError, match="rows stay"):
        database.execute("UPDATE audit SET at = ''")
